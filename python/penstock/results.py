"""The run directory: one run set on disk, and back.

    run.json        resolved scenario, seed, version, host, timings, state: all that depends on the machine
    summary.json    scenario, seed, the summary of each run, mean and 95 % half-width, warnings
    *.parquet       flows, transfers, ports, series, events, those of `deliveries`, as far as they were kept;
                    column `run`

Everything but run.json has the same bytes for the same scenario and seed.

A directory is of one run. All files are first written beside the old ones, in a folder of their own inside
the directory, and then renamed over them, so a full disk leaves the old result whole. The directory itself is
not exchanged: it may be a mount point or hold files of its owner, which stay as they are. While the files are
renamed run.json says "running", as it does during the run: what a killed process leaves is never read as a
result.
"""

from __future__ import annotations

import json
import math
import os
import platform
import re
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from penstock import _engine, scenario, version
from penstock.runs import TABLES, Run, RunSet
from penstock.spill import GROUP


def document(runs: RunSet) -> dict[str, Any]:
    """The result as one JSON document: `scenario`, `seed`, `runs` (of `run`, `summary`), `mean`, `ci95`,
    `warnings`.

    Values that do not exist (no flow ended, one run has no interval) are null. A summary holds numbers, and
    under `bottleneck` the name of the port that its queue and utilisation are of.
    """
    return {
        "scenario": _placeless(runs.scenario),
        "seed": runs.seed,
        "runs": [
            {"run": run.run, "summary": {"bottleneck": run.bottleneck, **plain(run.summary)}}
            for run in runs.runs
        ],
        "mean": plain(runs.summary),
        "ci95": plain({key: runs.ci95(key) for key in runs.summary}),
        "warnings": runs.warnings,
    }


def _placeless(resolved: dict[str, Any]) -> dict[str, Any]:
    """A resolved scenario without where its file lay and how it was called, which are no part of a result."""
    if not resolved.get("file"):
        return resolved
    kept = {key: value for key, value in resolved["file"].items() if key not in ("base_dir", "name")}
    return {**resolved, "file": kept}


def timed(runs: RunSet) -> RunSet:
    """The same runs with `cpu_s` (CPU seconds of each run, on this machine) among the summary keys."""
    measured = [replace(r, summary={**r.summary, "cpu_s": r.timings.get("cpu_s")}) for r in runs.runs]
    return replace(runs, runs=tuple(measured))


class NotWritten(OSError):
    """A result could not be written; `str()` is one line that names the directory and says why."""


def write(
    runs: RunSet, folder: Path, *, state: str = "", reason: str = "", force: bool = False, key: str = "folder"
) -> Path:
    """Write a run set to `folder`, in the place of an earlier result of the same run; return the folder.

    `state` is "done" or "partial" unless said otherwise ("failed" with its `reason`). Raises ScenarioError,
    naming `key`, when the folder holds another run, which `force` replaces; NotWritten when the disk does not
    take it, which leaves what was there.
    """
    _refuse_other(folder, runs.scenario, runs.seed, len(runs.runs), force, key)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            prefix=".writing-", dir=folder, ignore_cleanup_errors=True
        ) as beside:
            resolved = runs.scenario or (_held(folder) or {}).get("scenario", {})
            about = manifest(runs, state or ("done" if runs.completed else "partial"), reason, resolved)
            _fill(Path(beside), runs, about)
            # From here to the last rename the directory is of no run that may be read.
            os.replace(Path(beside, "running.json"), folder / "run.json")
            for name in [*(f"{table}.parquet" for table in TABLES), "summary.json", "run.json"]:
                if Path(beside, name).exists():
                    os.replace(Path(beside, name), folder / name)
                else:
                    (folder / name).unlink(missing_ok=True)
    except (OSError, pl.exceptions.PolarsError) as problem:
        raise NotWritten(f"{folder} cannot be written ({_why(problem)})") from problem
    return folder


def _fill(beside: Path, runs: RunSet, about: dict[str, Any]) -> None:
    for name in TABLES:
        if any(name in run.tables for run in runs.runs):
            _table(runs, name, beside / f"{name}.parquet")
    _json(beside / "summary.json", document(runs))
    _json(beside / "run.json", about)
    _json(beside / "running.json", _under_way(runs.name, about["scenario"], runs.seed))


def _table(runs: RunSet, name: str, path: Path) -> None:
    if runs.on_disk(name):
        # The same rows; in a file of this size they are in other row groups than those of a frame.
        lazy = runs.scan(name)
        lazy.sink_parquet(
            path, compression="zstd", statistics=True, row_group_size=GROUP, maintain_order=True
        )
    else:
        runs.table(name).write_parquet(path, compression="zstd", statistics=True)


def begin(
    folder: Path, name: str, resolved: dict[str, Any], seed: int, runs: int = 1, *, force: bool = False
) -> None:
    """Claim `folder` for `runs` runs before they start, so that nothing is lost that cannot be written later.

    A first run.json in state "running" says what a killed process was about; an earlier result of the same
    run stays until the new one takes its place. Raises ScenarioError when the folder cannot be written or
    holds another run, which `force` replaces.
    """
    _refuse_other(folder, resolved, seed, runs, force, "--out")
    writable(folder)
    held = _held(folder)
    if held is None or held.get("state") == "running":
        try:
            put(folder / "run.json", json.dumps(_under_way(name, resolved, seed), indent=2) + "\n")
        except OSError as problem:
            raise _unwritable("--out", folder, problem) from None


def writable(folder: Path, key: str = "--out") -> None:
    """Make `folder` and try it. Raises ScenarioError, naming `key`, when it cannot be written."""
    if folder.exists() and not folder.is_dir():
        raise scenario.error(key, folder, "is a file; a directory is needed")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as trial:
            trial.write(b"penstock")
            trial.flush()
    except OSError as problem:
        raise _unwritable(key, folder, problem) from None


def put(path: Path, text: str) -> None:
    """Write a text file that is there either whole or not at all. Raises OSError."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def _held(folder: Path) -> dict[str, Any] | None:
    """The run.json of a directory; None without one, empty when it is none of ours."""
    try:
        held = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError):
        return {}
    return held if isinstance(held, dict) else {}


def _refuse_other(
    folder: Path, resolved: dict[str, Any], seed: int, count: int, force: bool, key: str
) -> None:
    """Raise ScenarioError when `folder` holds a run of another scenario, settings or seed, or more runs of
    the same.
    """
    held = _held(folder)
    if held is None or force:
        return
    if not resolved and held.get("state") == "running":
        # No run came to anything: what was claimed for it is where that is said.
        return
    mine, theirs = _placeless(resolved), _placeless(held.get("scenario") or {})
    if mine != theirs or held.get("seed") != seed:
        told = _difference(theirs, mine, held.get("seed"), seed)
        raise scenario.error(key, folder, f"holds another run ({told}); {_remedy(key)}")
    there = sum(run.get("completed", False) for run in held.get("runs", []))
    if there > count:
        told = f"holds {there} runs of this scenario, more than these {count}"
        raise scenario.error(key, folder, f"{told}; {_remedy(key)}")


def _remedy(key: str) -> str:
    force = "--force" if key.startswith("--") else "force=True"
    return f"name another directory, or give {force} to replace it"


def _difference(theirs: dict[str, Any], mine: dict[str, Any], their_seed: object, seed: int) -> str:
    """In which of name, seed and settings two runs differ, in a few words."""
    if theirs.get("scenario") != mine.get("scenario"):
        return f"{theirs.get('scenario', 'unknown')}, not {mine.get('scenario')}"
    if their_seed != seed:
        return f"seed {their_seed}, not {seed}"
    old, new = theirs.get("set", {}), mine.get("set", {})
    keys = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    words = [f"{key} = {old.get(key, 'unset')}, not {new.get(key, 'unset')}" for key in keys[:3]]
    return "; ".join(words) or "of other tables or options"


def _under_way(name: str, resolved: dict[str, Any], seed: int) -> dict[str, Any]:
    about = {"penstock": _engine.__version__, "commit": version.commit(), "name": name, "state": "running"}
    return {**about, "seed": seed, "scenario": resolved, "runs": [], "host": host()}


def _unwritable(key: str, folder: Path, problem: OSError) -> scenario.ScenarioError:
    return scenario.error(key, folder, f"cannot be written ({_why(problem)})")


def _why(problem: BaseException) -> str:
    text = (problem.strerror if isinstance(problem, OSError) else "") or str(problem)
    # The Parquet writer tells of a full disk in its own words, with the system's number at the end.
    number = re.search(r"\(os error (\d+)\)", text)
    return os.strerror(int(number[1])) if number else " ".join(text.split())


def manifest(
    runs: RunSet, state: str, reason: str = "", resolved: dict[str, Any] | None = None
) -> dict[str, Any]:
    """What run.json says: how this result came about, on which machine. `resolved` is the scenario, needed
    where no run came to anything.
    """
    return {
        "penstock": _engine.__version__,
        "commit": version.commit(),
        "name": runs.name,
        "state": state,
        **({"reason": reason} if reason else {}),
        "seed": runs.seed,
        "scenario": resolved or runs.scenario,
        "warnings": runs.warnings,
        "runs": [
            {
                "run": run.run,
                "completed": run.completed,
                "timings": plain(run.timings),
                "notes": list(run.notes),
                "warnings": list(run.warnings),
            }
            for run in runs.runs
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
    """Read a run directory back, with all that `write` was given. Raises ScenarioError when it is not one, or
    when its run never ended.
    """
    path = Path(folder)
    try:
        about = json.loads((path / "run.json").read_text(encoding="utf-8"))
        if about.get("state") == "running":
            raise scenario.error("folder", folder, 'holds a run that never ended (run.json says "running")')
        summary = json.loads((path / "summary.json").read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError) as problem:
        raise scenario.error("folder", folder, f"is no run directory ({problem})") from None
    present = [name for name in TABLES if (path / f"{name}.parquet").exists()]
    tables = {name: pl.read_parquet(path / f"{name}.parquet") for name in present}
    runs = []
    for entry, facts in zip(summary["runs"], about["runs"], strict=True):
        numbers = whole_again(entry["summary"])
        runs.append(
            Run(
                run=entry["run"],
                scenario=about["scenario"],
                bottleneck=str(numbers.pop("bottleneck", "")),
                summary=numbers,
                tables={name: _of_run(table, entry["run"]) for name, table in tables.items()},
                timings=whole_again(facts["timings"]),
                completed=facts["completed"],
                notes=tuple(facts.get("notes", ())),
                warnings=tuple(facts.get("warnings", ())),
            )
        )
    return RunSet(about["name"], about["seed"], tuple(runs))


def _of_run(table: pl.DataFrame, run: int) -> pl.DataFrame:
    """The rows of one run. They were written in order of run, so this is a view, not a copy."""
    numbers = table["run"]
    first, last = numbers.search_sorted(run, "left"), numbers.search_sorted(run, "right")
    return table.slice(first, last - first).drop("run")


def whole_again(values: dict[str, Any]) -> dict[str, Any]:
    """The inverse of `plain`: what does not exist is NaN."""
    return {key: math.nan if value is None else value for key, value in values.items()}


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
