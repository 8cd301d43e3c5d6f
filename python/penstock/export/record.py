"""The record of a run (`penstock run --record`) read into plain lists: what the exports are made of.

The format is that of the engine's log (crates/sim/src/trace.rs). Reading goes through all of it once; a
packet is a row, and so is a hop of it.
"""

from __future__ import annotations

import json
import struct
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from penstock import _engine, interrupts, scenario

# Bits of a packet's flags (crates/core/src/packet.rs).
SYN, ACK, FIN, ECE, CWR, RETRANSMIT, PROBE = 1, 2, 4, 8, 16, 32, 64
TRIMMED, DSACK = 256, 512
# The IP header's ECN field for congestion experienced.
CE = 3
#: A time that does not come.
NEVER = 2**64 - 1
# Words of each kind's record beside the first, where they are fixed.
_WORDS = {4: 4, 5: 2, 6: 9, 7: 3, 8: 5, 10: 3, 11: 3, 12: 5, 13: 2}


class Packet(NamedTuple):
    """A packet as its host sent it."""

    at: int
    flow: int
    to: int
    seq: int
    bytes: int
    payload: int
    flags: int
    kind: int
    """What it is, of a transport that is no TCP."""
    ecn: int
    priority: int
    sacks: tuple[tuple[int, int], ...]


class Hop(NamedTuple):
    """A packet on its way through a port and over the link: times in ps."""

    port: int
    packet: int
    queued: int
    left: int
    arrived: int
    marked: bool
    """It was marked in this port."""


class Flow(NamedTuple):
    """A flow: when it began, nodes, number of the protocol, size (0: no end)."""

    at: int
    source: int
    destination: int
    protocol: int
    size: int


@dataclass
class Record:
    """All of a record. Times are picoseconds."""

    head: dict[str, Any]
    packets: list[Packet] = field(default_factory=list)
    hops: list[Hop] = field(default_factory=list)
    held: list[Hop] = field(default_factory=list)
    """Packets that have not arrived when the record ends; those still in the port leave it `NEVER`."""
    dropped: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Port, packet, when it was dropped, number of the cause."""
    flows: dict[int, Flow] = field(default_factory=dict)
    closed: dict[int, int] = field(default_factory=dict)
    values: list[tuple[str, int, int, float]] = field(default_factory=list)
    """Name, flow, time, value."""
    timeouts: list[tuple[int, int]] = field(default_factory=list)
    """Flow, time."""
    repairs: list[tuple[int, int]] = field(default_factory=list)
    pauses: list[tuple[int, int, int, bool]] = field(default_factory=list)
    """Port, priority, time, whether it stops."""
    links: list[tuple[int, int, bool]] = field(default_factory=list)
    """Port, time, whether it is up."""
    result: dict[str, Any] = field(default_factory=dict)

    @property
    def nodes(self) -> list[str]:
        """Names of the nodes."""
        return [name for name, _ in self.head["nodes"]]

    @property
    def ports(self) -> list[str]:
        """Names of the ports, as in the table `ports`: "a->b"."""
        nodes = self.nodes
        return [f"{nodes[link['from']]}->{nodes[link['to']]}" for link in self.head["links"]]

    @property
    def end(self) -> int:
        """When the record ends."""
        return round(self.result.get("end_s", 0.0) * 1e12) or int(self.head["duration_ps"])


def read(path: str | Path) -> Record:
    """The record in a file. Raises ScenarioError for a file that is none."""
    content = Path(path).read_bytes()
    if content[:8] != b"PENSTOCK":
        raise scenario.error("record", path, "is no record of a run (penstock run --record)")
    version, length = struct.unpack_from("<II", content, 8)
    if version != 1:
        raise scenario.error("record", path, f"has version {version}; this penstock reads version 1")
    record = Record(json.loads(content[16 : 16 + length]))
    words = memoryview(content)[16 + length :].cast("I")
    _fill(record, words)
    return record


def made(
    what: Any, settings: Mapping[str, Any], seed: int, run: int = 0, *, only_head: bool = False
) -> Record:
    """The record of a run that is made for it; with `only_head` the run is stopped at its beginning, and the
    record says what the network is. Raises ScenarioError as `penstock.run` does.
    """
    progress = _engine.Progress()
    if only_head:
        progress.cancel()
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        path = Path(folder) / "record.bin"
        spec = scenario.spec(what, dict(settings), seed)
        interrupts.watched(lambda: _engine.record(spec, run, str(path), progress), progress.cancel)
        return read(path)


def _fill(record: Record, words: memoryview[int]) -> None:
    names: dict[int, str] = {}
    delays = [link["delay_ps"] for link in record.head["links"]]
    at, end = 0, len(words)

    def wide(i: int) -> int:
        return words[at + i] | words[at + i + 1] << 32

    while at < end:
        first = words[at]
        kind, own, port = first & 15, first >> 4 & 255, first >> 12
        size = _WORDS.get(kind, 0)
        if kind == 1:
            sacks = own >> 2 & 3
            size = 10 + 2 * sacks
            blocks = tuple((words[at + 11 + 2 * i], words[at + 12 + 2 * i]) for i in range(sacks))
            flags = words[at + 10]
            here = {"at": wide(2), "flow": words[at + 4], "to": words[at + 5], "seq": wide(6)}
            size_of = {"bytes": words[at + 8], "payload": words[at + 9]}
            said = {"flags": flags & 0xFFFF, "kind": flags >> 16, "ecn": own & 3, "priority": own >> 4 & 7}
            record.packets.append(Packet(**here, **size_of, **said, sacks=blocks))
        elif kind == 2:
            late = own >> 1 & 1
            size = 5 + 2 * late
            left = wide(4)
            arrived = wide(6) if late else left + delays[port]
            record.hops.append(Hop(port, words[at + 1], wide(2), left, arrived, bool(own & 1)))
        elif kind == 3:
            size = 5
            record.dropped.append((port, words[at + 1], wide(4), own))
        elif kind == 5:
            record.pauses.append((port, own >> 1 & 7, wide(1), bool(own & 1)))
        elif kind == 6:
            flow = Flow(wide(2), words[at + 4], words[at + 5], words[at + 6], wide(8))
            record.flows[words[at + 1]] = flow
        elif kind == 7:
            record.closed[words[at + 1]] = wide(2)
        elif kind == 8:
            value = struct.unpack("<d", struct.pack("<Q", wide(4)))[0]
            record.values.append((names[own], words[at + 1], wide(2), value))
        elif kind in (9, 14):
            length = words[at + 1]
            size = 1 + (length + 3) // 4
            text = bytes(words[at + 2 : at + 1 + size])[:length].decode()
            if kind == 9:
                names[own] = text
            else:
                record.result = json.loads(text)
        elif kind == 10:
            record.timeouts.append((words[at + 1], wide(2)))
        elif kind == 11:
            record.repairs.append((words[at + 1], wide(2)))
        elif kind == 12:
            record.held.append(Hop(port, words[at + 1], wide(2), wide(4), NEVER, False))
        elif kind == 13:
            record.links.append((port, wide(1), bool(own & 1)))
        elif kind not in _WORDS:
            raise scenario.error("record", f"kind {kind}", "is not known: the record is damaged")
        at += 1 + size
