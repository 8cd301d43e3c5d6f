"""A run in the formats of other programs: pcapng, Perfetto, CSV, Arrow.

    penstock.export.pcap("incast", "incast.pcapng", at=["client"], protocol="dctcp")
    penstock.export.perfetto("incast", "incast.json", protocol="dctcp")
    penstock.run("incast").export("tables", "csv")

docs/how-to/export-and-import.md is the guide. Exports read the record of a run (`penstock run --record`), so
a run without a record costs nothing extra.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.export import pcapng, trace_event
from penstock.export.record import Record, made, read
from penstock.export.tables import FORMS, tables

__all__ = ["FORMS", "Record", "pcap", "perfetto", "read", "tables"]


def pcap(
    what: Any, path: str | Path, *, at: Sequence[str], seed: int = 1, run: int = 0, **settings: Any
) -> Path | list[Path]:
    """Write what passes hosts ("client") and ports ("switch->client") in run `run` as pcapng; return the
    path. Several have a file each, with the place in its name (`incast-switch-to-client.pcapng`), and their
    paths are returned. `what` is a scenario (a name, a file, a network) or a `Record`, as `read` gives it.

    Raises ScenarioError for a name that is neither, and as `penstock.run`; OSError.
    """
    record = _record(what, settings, seed, run)
    shown = pcapng.places(record, [at] if isinstance(at, str) else at)
    paths = [pcapng.write(record, pcapng.file_of(Path(path), place, shown), place) for place in shown]
    return paths[0] if len(shown) == 1 else paths


def perfetto(what: Any, path: str | Path, *, seed: int = 1, run: int = 0, **settings: Any) -> Path:
    """Write run `run` as a trace that ui.perfetto.dev opens (the JSON trace event format); return its path.
    `what` is as for `pcap`. Raises ScenarioError as `penstock.run`; OSError.
    """
    return trace_event.write(_record(what, settings, seed, run), path)


def _record(what: Any, settings: Mapping[str, Any], seed: int, run: int) -> Record:
    if isinstance(what, Record):
        if settings:
            from penstock import scenario

            key, value = next(iter(settings.items()))
            raise scenario.error(key, value, "cannot be set: this is the record of a run that was made")
        return what
    return made(what, settings, seed, run)
