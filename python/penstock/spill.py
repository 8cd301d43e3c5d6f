"""Tables of a run that are larger than the memory they may take.

`run --memory 1GB`, `penstock.run(..., memory="1GB")`: during a run the engine writes rows beyond the limit to
a file without a name. After the run it reads them in groups, and each becomes a Parquet file. The tables of
the run directory are written from these files, and frames are read from them on access.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from penstock import _engine, scenario

#: Rows of a group in the tables of a run directory: as polars divides a frame.
GROUP = 1 << 18


def memory(key: str, value: object) -> int:
    """A size ("1GB", "512MiB", or a number of bytes) as bytes. Raises ScenarioError, naming `key`, when it is
    none, or too small.
    """
    found = None if isinstance(value, bool) else _engine.quantity(str(value))
    rule = f"must be a size of at least {_engine.LEAST_MEMORY // 1_000_000}MB, as in 1GB"
    if found is None or found[1] not in ("", "bytes") or not _engine.LEAST_MEMORY <= found[0] < 2**63:
        raise scenario.error(key, value, rule)
    return int(found[0])


class Tables(Mapping[str, pl.DataFrame]):
    """The tables of a run by name. Tables on disk are read anew on each access; `scan` returns them without
    reading. The files end with this object.
    """

    def __init__(self, here: Mapping[str, pl.DataFrame], parts: Mapping[str, Sequence[Path]]) -> None:
        self._here = dict(here)
        self._parts = {name: list(paths) for name, paths in parts.items()}

    def __getitem__(self, name: str) -> pl.DataFrame:
        return self.scan(name).collect() if name in self._parts else self._here[name]

    def __contains__(self, name: object) -> bool:
        return name in self._here or name in self._parts

    def __iter__(self) -> Iterator[str]:
        return iter((*self._here, *self._parts))

    def __len__(self) -> int:
        return len(self._here) + len(self._parts)

    def on_disk(self, name: str) -> bool:
        """Whether the table is in files."""
        return name in self._parts

    def scan(self, name: str) -> pl.LazyFrame:
        """The table without reading it: what is computed from it need not have it in memory. Raises
        KeyError.
        """
        if name in self._parts:
            return pl.scan_parquet(self._parts[name])
        return self._here[name].lazy()


class Keeper:
    """Takes tables from the engine, a group of rows at a time, into a folder of its own in `folder`."""

    def __init__(self, keep: Sequence[str], folder: str) -> None:
        self._keep = keep
        self._folder = Path(tempfile.mkdtemp(prefix=".penstock-tables-", dir=folder))
        self._parts: dict[str, list[Path]] = {}
        # Whatever becomes of the run, at the end of the process at the latest.
        self._gone = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    def take(self, name: str, columns: dict[str, Any]) -> bool:
        """Write some rows of a table; whether the others are wanted too. Raises OSError."""
        from penstock.runs import frames

        if name not in self._keep:
            return False
        parts = self._parts.setdefault(name, [])
        path = self._folder / f"{name}-{len(parts):06}.parquet"
        frames({name: columns}, (name,))[name].write_parquet(path, compression="lz4", statistics=False)
        parts.append(path)
        return True

    def tables(self, here: Mapping[str, pl.DataFrame]) -> Tables:
        """All tables of the run: those that the engine had in memory, `here`, and those that were taken."""
        found = Tables(here, self._parts)
        # From now on the folder is as old as the tables become.
        self._gone.detach()
        weakref.finalize(found, shutil.rmtree, self._folder, ignore_errors=True)
        return found
