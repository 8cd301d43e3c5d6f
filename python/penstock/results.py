"""The run directory: one run set on disk, and back.

    run.json        resolved scenario, seed, version, host, timings, state: all that depends on the machine
    summary.json    scenario, seed, the summary of each run, mean and 95 % half-width, warnings
    *.parquet       flows, transfers, ports, series, events, those of `deliveries`, as far as they were kept;
                    column `run`

Everything but run.json has the same bytes for the same scenario and seed. run.json has the length and the
SHA-256 of every other file, and of itself; `load` compares them. A result is data: loading one runs nothing.

A directory is of one run. It is not exchanged as a whole: it may be a mount point or hold files of its owner,
which stay as they are. A result is written in three steps:

1. All files go into a folder `.writing-...` inside the directory and are synced to the disk. The process
holds
   a lock on that folder, so that the next write can tell a copy under way from one that a killed process
   left.
2. The folder is renamed to `.complete`. From here on the new result counts.
3. Its files are renamed to their places, run.json last, and the folder goes.

A process that is killed before step 2 leaves the old result, one that is killed later the new one: the next
`load` or `write` does the rest of step 3.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from penstock import _engine, scenario, version
from penstock.errors import NotWrittenError, ScenarioError
from penstock.interrupts import Deferred
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
    kept = {
        key: value for key, value in resolved["file"].items() if key not in ("base_dir", "name", "inputs")
    }
    return {**resolved, "file": kept}


def timed(runs: RunSet) -> RunSet:
    """The same runs with `cpu_s` (CPU seconds of each run, on this machine) among the summary keys."""
    measured = [replace(r, summary={**r.summary, "cpu_s": r.timings.get("cpu_s")}) for r in runs.runs]
    return replace(runs, runs=tuple(measured))


# Its former name.
NotWritten = NotWrittenError

# A copy that is being written, and one that is whole.
_WRITING, _COMPLETE = ".writing-", ".complete"
# Where locks do not work a copy this old belongs to no process that still writes.
_STALE_S = 1800.0


def write(
    runs: RunSet, folder: Path, *, state: str = "", reason: str = "", force: bool = False, key: str = "folder"
) -> Path:
    """Write a run set to `folder`, in the place of an earlier result of the same run; return the folder.

    `state` is "done" or "partial" unless said otherwise ("failed" with its `reason`). Raises ScenarioError,
    naming `key`, when the folder holds another run, which `force` replaces; NotWrittenError when the disk
    does not take it, which leaves what was there. An interruption waits until the result is written.
    """
    _refuse_other(folder, runs.scenario, runs.seed, len(runs.runs), force, key)
    with Deferred():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _finish(folder)
            _sweep_up(folder, _WRITING)
            with _beside(folder, _WRITING) as beside:
                resolved = runs.scenario or (_held(folder) or {}).get("scenario", {})
                about = manifest(runs, state or ("done" if runs.completed else "partial"), reason, resolved)
                _fill(beside, runs, about)
                with _alone(folder):
                    # Of another process, which has written here meanwhile.
                    _put_in_place(folder)
                    os.replace(beside, folder / _COMPLETE)
                    _sync(folder)
                    _put_in_place(folder)
        except (OSError, pl.exceptions.PolarsError) as problem:
            raise NotWrittenError(f"{folder} cannot be written ({_why(problem)})") from problem
    return folder


@contextmanager
def _beside(folder: Path, prefix: str) -> Iterator[Path]:
    """A new folder in `folder`, locked while the block runs and removed where it is left behind."""
    while True:
        beside = Path(tempfile.mkdtemp(prefix=prefix, dir=folder))
        with suppress(FileNotFoundError):
            lock = os.open(beside, os.O_RDONLY)
            # Until it is locked another process may take it for left behind, and remove it.
            if _lock(lock, own=True) and beside.exists():
                break
            os.close(lock)
    try:
        _lock(lock)
        yield beside
    finally:
        os.close(lock)
        shutil.rmtree(beside, ignore_errors=True)


def _lock(file: int, *, own: bool = False) -> bool:
    """Lock an open folder until it is closed; False where another process has it. `own` is one that was just
    made here.
    """
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # A file system without locks: a copy of half an hour ago belongs to no process that still writes.
        return own or time.time() - os.fstat(file).st_mtime > _STALE_S
    return True


def _sweep_up(folder: Path, prefix: str) -> None:
    """Remove the folders of `_beside` that killed processes left behind."""
    with suppress(OSError):
        for left in [entry.path for entry in os.scandir(folder) if entry.name.startswith(prefix)]:
            lock = os.open(left, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
            try:
                if _lock(lock):
                    shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(lock)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until no other process renames files in the folder, where the file system has locks."""
    lock = os.open(folder, os.O_RDONLY)
    try:
        with suppress(ImportError, OSError):
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _finish(folder: Path) -> None:
    """Do what a killed write left to be done. Raises OSError."""
    if (folder / _COMPLETE).exists():
        with _alone(folder):
            _put_in_place(folder)


def _put_in_place(folder: Path) -> None:
    """Rename the files of a whole new result to their places. Where a process was killed in the middle of it,
    or another one does it too, what is in its place already stays. Raises OSError.
    """
    complete = folder / _COMPLETE
    if not complete.is_dir() or complete.is_symlink():
        return
    try:
        there = set(json.loads((complete / "run.json").read_text(encoding="utf-8"))["files"])
    except FileNotFoundError:
        # run.json went last: all is in its place.
        with suppress(OSError):
            complete.rmdir()
        return
    except (ValueError, KeyError, TypeError):
        raise OSError(f"{complete / 'run.json'} cannot be read") from None
    for name in _names():
        with suppress(FileNotFoundError):
            if name in there:
                os.replace(complete / name, folder / name)
            else:
                (folder / name).unlink()
    _sync(folder)
    with suppress(FileNotFoundError):
        os.replace(complete / "run.json", folder / "run.json")
    _sync(folder)
    with suppress(OSError):
        complete.rmdir()


def _names() -> list[str]:
    """Files that a run directory may have, beside run.json."""
    return [*(f"{table}.parquet" for table in TABLES), "summary.json"]


def _sync(path: Path) -> None:
    """Have the disk keep a file, or the names in a folder. Raises OSError for a file."""
    file = os.open(path, os.O_RDONLY)
    try:
        # Not every file system syncs folders.
        with suppress(OSError) if path.is_dir() else nullcontext():
            os.fsync(file)
    finally:
        os.close(file)


def _fill(beside: Path, runs: RunSet, about: dict[str, Any]) -> None:
    for name in TABLES:
        if any(name in run.tables for run in runs.runs):
            _table(runs, name, beside / f"{name}.parquet")
    _json(beside / "summary.json", document(runs))
    files = {path.name: _facts(path) for path in sorted(beside.iterdir())}
    _json(beside / "run.json", _signed({**about, "files": files}))
    for path in [*beside.iterdir(), beside]:
        _sync(path)


def _facts(path: Path) -> dict[str, Any]:
    """Length and checksum of a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest}


def _signed(about: Mapping[str, Any]) -> dict[str, Any]:
    """The document of run.json with its own checksum."""
    return {**about, "sha256": _checksum(about)}


def _checksum(about: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in about.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _table(runs: RunSet, name: str, path: Path) -> None:
    if runs.on_disk(name):
        # A file of this size has the rows of a frame in other row groups.
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
    with suppress(OSError):
        _finish(folder)
        _sweep_up(folder, _WRITING)
    held = _held(folder)
    if held is None or held.get("state") == "running":
        try:
            put(folder / "run.json", json.dumps(_under_way(name, resolved, seed), indent=2) + "\n")
        except OSError as problem:
            raise _unwritable("--out", folder, problem) from None


def writable(folder: Path, key: str = "--out") -> None:
    """Make `folder` and try it. Raises ScenarioError, naming `key`, when it cannot be written."""
    named(folder, key)
    if folder.exists() and not folder.is_dir():
        raise scenario.error(key, folder, "is a file; a directory is needed")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as trial:
            trial.write(b"penstock")
            trial.flush()
    except OSError as problem:
        raise _unwritable(key, folder, problem) from None


def named(path: Path, key: str) -> None:
    """Raise ScenarioError, naming `key`, for a path that is no text: tables can only be written to one."""
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError:
        raise scenario.error(key, path, "must be a name in UTF-8") from None


def put(path: Path, text: str, *, sync: bool = True) -> None:
    """Write a text file that is there either whole or not at all. Raises OSError.

    `sync` keeps it through a power failure, too; a file with a checksum of its own needs that less.
    """
    with new(path, sweep=sync) as beside:
        beside.write_text(text, encoding="utf-8")
        if sync:
            _sync(beside)


@contextmanager
def new(path: Path, *, sweep: bool = True) -> Iterator[Path]:
    """The name of a file, which the block makes; then it is renamed to `path`, or, after an exception,
    removed. Raises OSError. `sweep` removes what killed processes left of earlier writes of this file.

    The name is in a new folder beside `path` that no other user may write to, so no link in its place is ever
    followed.
    """
    prefix = f".{path.name[:100]}.part-"
    if sweep:
        _sweep_up(path.parent, prefix)
    with _beside(path.parent, prefix) as folder:
        beside = folder / path.name
        yield beside
        os.replace(beside, path)


def _held(folder: Path) -> dict[str, Any] | None:
    """The run.json of a directory; None without one, empty when it is none of ours."""
    try:
        held = json.loads(_place(folder, "run.json").read_text(encoding="utf-8"))
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
        "inputs": _inputs(resolved or runs.scenario),
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


def _inputs(resolved: dict[str, Any]) -> dict[str, str]:
    """The files that a scenario reads, with their checksums: they stay where they are."""
    from penstock import store

    base = Path((resolved.get("file") or {}).get("base_dir") or ".")
    return {name: store.file_hash(base / name) for name in store.files(resolved)}


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
    """Read a run directory back, with all that `write` was given. Raises ScenarioError, in one line, when it
    is not one, when its run never ended, or when a file of it is missing or was changed.
    """
    path = Path(folder)
    # A write that was killed after its result was whole is finished here; where that is not allowed, the
    # files are read from where they are.
    with suppress(OSError):
        _finish(path)
    about = _document(path, "run.json")
    if about.get("state") == "running":
        raise scenario.error("folder", folder, 'holds a run that never ended (run.json says "running")')
    # Run directories of earlier versions have no checksums.
    if "sha256" in about and about["sha256"] != _checksum(about):
        raise scenario.error("folder", folder, "was changed since it was written: run.json")
    files = about.get("files")
    if files is None:
        present = [name for name in _names() if (path / name).exists()]
    elif not isinstance(files, dict):
        raise scenario.error("folder", folder, 'is damaged ("files" of run.json is no JSON object)')
    else:
        present = [name for name in _names() if name in files]
        for name in present:
            _compare(path, name, files[name])
    try:
        summary = _document(path, "summary.json")
        tables = {
            name.removesuffix(".parquet"): pl.read_parquet(_place(path, name))
            for name in present
            if name.endswith(".parquet")
        }
        return _made(about, summary, tables)
    except ScenarioError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, pl.exceptions.PolarsError) as problem:
        said = " ".join(str(problem).split())[:200]
        raise scenario.error("folder", folder, f"is damaged ({type(problem).__name__}: {said})") from None


def _made(about: dict[str, Any], summary: dict[str, Any], tables: Mapping[str, pl.DataFrame]) -> RunSet:
    if not isinstance(about["scenario"], dict) or not isinstance(about["scenario"].get("set", {}), dict):
        raise TypeError("the scenario is no JSON object")
    # A scenario that was read back may name any file: views take those whose content it knows.
    from penstock import store

    resolved = dict(about["scenario"])
    if store.files(resolved):
        resolved["file"] = {**(resolved.get("file") or {}), "inputs": dict(about.get("inputs") or {})}
    runs = []
    for entry, facts in zip(summary["runs"], about["runs"], strict=True):
        numbers = whole_again(entry["summary"])
        runs.append(
            Run(
                run=entry["run"],
                scenario=resolved,
                bottleneck=str(numbers.pop("bottleneck", "")),
                summary=numbers,
                tables={name: _of_run(table, entry["run"]) for name, table in tables.items()},
                timings=whole_again(facts["timings"]),
                completed=facts["completed"],
                notes=tuple(facts.get("notes", ())),
                warnings=tuple(facts.get("warnings", ())),
            )
        )
    return RunSet(str(about["name"]), int(about["seed"]), tuple(runs))


def _place(folder: Path, name: str) -> Path:
    """Where a file of a run directory is: in it, or still in the whole copy beside."""
    complete = folder / _COMPLETE / name
    return complete if complete.exists() and not (folder / _COMPLETE).is_symlink() else folder / name


def _document(folder: Path, name: str) -> dict[str, Any]:
    """A JSON file of a run directory. Raises ScenarioError."""
    try:
        found = json.loads(_place(folder, name).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        raise scenario.error("folder", folder, f"is no run directory ({problem})") from None
    if not isinstance(found, dict):
        raise scenario.error("folder", folder, f"is no run directory ({name} is no JSON object)")
    return found


def _compare(folder: Path, name: str, facts: Any) -> None:
    """Raise ScenarioError when a file is not the one that run.json was written with."""
    path = _place(folder, name)
    try:
        found = _facts(path)
    except FileNotFoundError:
        raise scenario.error("folder", folder, f"is damaged: {name} is missing") from None
    except OSError as problem:
        raise scenario.error(
            "folder", folder, f"is damaged: {name} cannot be read ({_why(problem)})"
        ) from None
    if found != facts:
        raise scenario.error(
            "folder", folder, f"was changed since it was written: {name} is not the file that run.json names"
        )


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
