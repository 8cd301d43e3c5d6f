"""The run directory: one run set on disk, and back.

    run.json        resolved scenario, seed, version, host, timings, state: all that depends on the machine
    summary.json    scenario, seed, the summary of each run, mean and 95 % half-width
    *.parquet       flows, transfers, ports, series, events, as far as they were kept; column `run`

Everything but run.json has the same bytes for the same scenario and seed.
"""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from penstock import _engine, scenario
from penstock.runs import TABLES, Run, RunSet


def document(runs: RunSet) -> dict[str, Any]:
    """The result as one JSON document: `scenario`, `seed`, `runs` (of `run`, `summary`), `mean`, `ci95`.

    Values that do not exist (no flow ended, one run has no interval) are null.
    """
    resolved = dict(runs.scenario)
    if resolved.get("file"):
        # Where the scenario's file lay is no part of the result.
        resolved["file"] = {key: value for key, value in resolved["file"].items() if key != "base_dir"}
    return {
        "scenario": resolved,
        "seed": runs.seed,
        "runs": [{"run": run.run, "summary": plain(run.summary)} for run in runs.runs],
        "mean": plain(runs.summary),
        "ci95": plain({key: runs.ci95(key) for key in runs.summary}),
    }


def timed(runs: RunSet) -> RunSet:
    """The same runs with `cpu_s` (CPU seconds of each run, on this machine) among the summary keys."""
    measured = [replace(r, summary={**r.summary, "cpu_s": r.timings.get("cpu_s")}) for r in runs.runs]
    return RunSet(runs.name, runs.seed, tuple(measured))


def write(runs: RunSet, folder: Path, *, state: str = "", reason: str = "") -> Path:
    """Write a run set to `folder`, replacing what it wrote there before; return the folder.

    `state` is "done" or "partial" unless said otherwise ("failed" with its `reason`).
    Raises ScenarioError when the folder cannot be written.
    """
    with _writing(folder):
        for name in TABLES:
            path = folder / f"{name}.parquet"
            path.unlink(missing_ok=True)
            if any(name in run.tables for run in runs.runs):
                runs.table(name).write_parquet(path, compression="zstd", statistics=True)
        _json(folder / "summary.json", document(runs))
        _json(folder / "run.json", manifest(runs, state or ("done" if runs.completed else "partial"), reason))
    return folder


def begin(folder: Path, name: str, resolved: dict[str, Any], seed: int) -> None:
    """Write a first run.json in state "running": what a killed process leaves says what it was about.

    Raises ScenarioError when the folder cannot be written.
    """
    with _writing(folder):
        about = {"penstock": _engine.__version__, "name": name, "state": "running"}
        _json(folder / "run.json", {**about, "seed": seed, "scenario": resolved, "runs": [], "host": host()})


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as problem:
        raise scenario.error("--out", folder, f"cannot be written ({problem.strerror or problem})") from None


def manifest(runs: RunSet, state: str, reason: str = "") -> dict[str, Any]:
    """What run.json says: how this result came about, on which machine."""
    return {
        "penstock": _engine.__version__,
        "name": runs.name,
        "state": state,
        **({"reason": reason} if reason else {}),
        "seed": runs.seed,
        "scenario": runs.scenario,
        "warnings": runs.warnings,
        "runs": [
            {"run": run.run, "completed": run.completed, "timings": plain(run.timings)} for run in runs.runs
        ],
        "host": host(),
    }


def host() -> dict[str, Any]:
    """The machine and the versions a result was made with."""
    return {
        "system": platform.platform(),
        "machine": platform.machine(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "polars": pl.__version__,
    }


def load(folder: str | Path) -> RunSet:
    """Read a run directory back. Raises ScenarioError when it is not one."""
    path = Path(folder)
    try:
        about = json.loads((path / "run.json").read_text(encoding="utf-8"))
        summary = json.loads((path / "summary.json").read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError) as problem:
        raise scenario.error("folder", folder, f"is no run directory ({problem})") from None
    present = [name for name in TABLES if (path / f"{name}.parquet").exists()]
    tables = {name: pl.read_parquet(path / f"{name}.parquet") for name in present}
    runs = tuple(
        Run(
            run=entry["run"],
            scenario=about["scenario"],
            summary=entry["summary"],
            tables={name: t.filter(pl.col("run") == entry["run"]).drop("run") for name, t in tables.items()},
            timings=facts["timings"],
            completed=facts["completed"],
        )
        for entry, facts in zip(summary["runs"], about["runs"], strict=True)
    )
    return RunSet(about["name"], about["seed"], runs)


def plain(values: dict[str, Any]) -> dict[str, Any]:
    """`values` fit for JSON: NumPy scalars as Python numbers, NaN and infinities as null."""
    out: dict[str, Any] = {}
    for key, value in values.items():
        item = value.item() if hasattr(value, "item") else value
        out[key] = None if isinstance(item, float) and not math.isfinite(item) else item
    return out


def _json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()
