"""The store of finished runs: a directory in which a run is found by what it is.

    store.json                 the format's version
    runs/ab/abcdef....json     one finished run: summary, warnings, bottleneck, timings, and a checksum
    runs/ab/abcdef....*.parquet  its tables, where they were asked for; their checksums are in the JSON file

The name is a hash of everything the run depends on: resolved scenario, content of its files, seed, run
number, and engine. The engine counts by version and file, so that a rebuilt one differs. Files are written
under another name and renamed, the JSON file last, so that a killed process leaves a whole entry or none. An
entry that a full disk or a fault cut short does not match its checksum and counts as none.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl

from penstock import _engine, results, scenario
from penstock.runs import DELIVERIES, Run

FORMAT = 1
# Temporary files older than this belong to no process that still writes.
_STALE_S = 3600.0


@lru_cache(maxsize=1)
def engine() -> str:
    """Version of the engine and hash of its file."""
    content = Path(str(_engine.__file__)).read_bytes()
    return f"{_engine.__version__}-{hashlib.sha256(content).hexdigest()}"


#: Keys whose default holds unless the protocol brings something else: `delayed_ack=1` is another run than no
#: `delayed_ack` on Linux's sender, which delays ACKs.
UNLESS_GIVEN = frozenset(
    {"delayed_ack", "dsack", "gro", "gso", "host_queue", "pfc", "queue", "tail_loss_probe", "tcp"}
)


def identity(spec: str, resolved: Mapping[str, Any]) -> str:
    """What a point is, as a hash: same identity, same bytes for the same run number.

    `spec` is the document given to the engine, `resolved` what the engine made of it. A default that is given
    makes no difference but for keys of `UNLESS_GIVEN`, nor does where a file lies; what it holds does.
    """
    document = json.loads(spec)
    file = dict(resolved.get("file") or {})
    base = Path(file.pop("base_dir", None) or document.get("base_dir") or ".")
    file.pop("name", None)
    kept = {key: value for key, value in resolved.items() if key not in ("given", "without_effect", "file")}
    kept["given"] = sorted(UNLESS_GIVEN.intersection(resolved.get("given", ())))
    what = {
        "format": FORMAT,
        "engine": engine(),
        "resolved": kept,
        "file": file,
        "content": {name: file_hash(base / name) for name in files(resolved)},
    }
    return _hash(what)


def files(resolved: Mapping[str, Any]) -> list[str]:
    """The names of the files that a resolved scenario reads: the values of keys of kind `file`, and of those
    of kind `sizes` that are a table, as in `cdf:sizes.csv`. Nothing else is ever taken for a file.
    """
    kinds = _file_keys()
    found = set()
    tables = ((resolved.get("file") or {}).get("tables") or {}).values()
    rows = [row for table in tables if isinstance(table, list) for row in table if isinstance(row, Mapping)]
    for values in [resolved.get("set") or {}, *rows]:
        for key in kinds.keys() & values.keys():
            text = str(values[key]).strip()
            if kinds[key] == "sizes":
                word, _, text = text.partition(":")
                text = text.strip() if word.strip() == "cdf" else ""
            found.add(text)
    return sorted(found - {""})


@lru_cache(maxsize=1)
def _file_keys() -> dict[str, str]:
    """The keys of all scenarios and their tables that may name a file, with their kind."""
    entries = scenario.describe()["scenarios"]
    specs = [spec for entry in entries for spec in entry["params"]]
    specs += [spec for entry in entries for table in entry.get("tables", ()) for spec in table["params"]]
    return {spec["name"]: spec["kind"] for spec in specs if spec["kind"] in ("file", "sizes")}


def file_hash(path: Path) -> str:
    """SHA-256 of a file, or why it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as problem:
        return f"unreadable: {problem.errno}"


def _hash(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class Store:
    """Finished runs in `folder`, which is made when it is not there.

    Raises ScenarioError, naming `key`, when the folder cannot be written, holds a run, or was made by a
    penstock with another format.
    """

    def __init__(self, folder: str | Path, key: str = "store") -> None:
        self.folder = Path(folder)
        self.damaged = 0
        """Entries that were there and could not be read."""
        self.lacking: dict[str, int] = {}
        """Tables that were asked for, with how many runs are there without them."""
        results.writable(self.folder, key)
        if (self.folder / "run.json").exists():
            raise scenario.error(key, folder, "holds a run, not a study; name another directory")
        self._check_format(key)
        self._sweep_up()

    def get(self, point: str, number: int, keep: Sequence[str], resolved: dict[str, Any]) -> Run | None:
        """Run `number` of the point with this identity, with the tables of `keep`; None when it is not there,
        not whole, or without those tables.
        """
        path = self._path(point, number)
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            entry = document["entry"]
            if _hash(entry) != document["sha256"]:
                raise ValueError("the checksum does not match")
            # Those of `deliveries` are of runs only that were asked for them.
            looked = resolved.get("set", {}).get("deliveries") == "true"
            there = [name for name in keep if looked or name not in DELIVERIES]
            if lacking := [name for name in there if name not in entry["tables"]]:
                self.lacking |= {name: self.lacking.get(name, 0) + 1 for name in lacking}
                return None
            tables = {name: self._table(path, name, entry["tables"][name]) for name in there}
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, pl.exceptions.PolarsError):
            self.damaged += 1
            return None
        return Run(
            run=number,
            scenario=resolved,
            summary=results.whole_again(entry["summary"]),
            tables=tables,
            timings=results.whole_again(entry["timings"]),
            notes=tuple(entry["notes"]),
            warnings=tuple(entry["warnings"]),
            bottleneck=entry["bottleneck"],
        )

    def put(self, point: str, run: Run, seed: int) -> None:
        """Store a finished run. Raises OSError when the disk does not take it, which leaves no entry."""
        path = self._path(point, run.run)
        path.parent.mkdir(parents=True, exist_ok=True)
        tables = {}
        for name, table in run.tables.items():
            try:
                with results.new(self._table_path(path, name), sweep=False) as beside:
                    table.write_parquet(beside, compression="zstd", statistics=True)
                    tables[name] = file_hash(beside)
            except pl.exceptions.PolarsError as problem:
                raise OSError(str(problem)) from problem
        entry = {
            "scenario": run.scenario.get("scenario", ""),
            "set": run.scenario.get("set", {}),
            "seed": seed,
            "run": run.run,
            "engine": engine(),
            "summary": results.plain(run.summary),
            "timings": results.plain(run.timings),
            "bottleneck": run.bottleneck,
            "warnings": list(run.warnings),
            "notes": list(run.notes),
            "tables": tables,
        }
        text = json.dumps({"sha256": _hash(entry), "entry": entry}, indent=1, allow_nan=False)
        # Not synced: an entry that a power failure cut short does not match its checksum.
        results.put(path, text + "\n", sync=False)

    def _path(self, point: str, number: int) -> Path:
        name = hashlib.sha256(f"{point} {number}".encode()).hexdigest()
        return self.folder / "runs" / name[:2] / f"{name}.json"

    def _table(self, path: Path, name: str, checksum: str) -> pl.DataFrame:
        file = self._table_path(path, name)
        if file_hash(file) != checksum:
            raise ValueError("the checksum does not match")
        return pl.read_parquet(file)

    def _table_path(self, path: Path, name: str) -> Path:
        return path.with_suffix(f".{name}.parquet")

    def _check_format(self, key: str) -> None:
        path = self.folder / "store.json"
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            version = found["format"]
        except FileNotFoundError:
            results.put(path, json.dumps({"penstock": "store of finished runs", "format": FORMAT}) + "\n")
            return
        except (OSError, ValueError, KeyError, TypeError):
            raise scenario.error(key, self.folder, "holds a store.json that cannot be read") from None
        if version != FORMAT:
            rule = f"is a store of format {version}; this penstock reads and writes format {FORMAT}"
            raise scenario.error(key, self.folder, rule)

    def _sweep_up(self) -> None:
        """Remove what killed processes left half written."""
        for left in (self.folder / "runs").glob("*/.*"):
            with suppress(OSError):
                if time.time() - left.stat().st_mtime > _STALE_S:
                    shutil.rmtree(left) if left.is_dir() else left.unlink()
