"""A window of a record (`penstock run --record`) that fits into a page, however large the record is.

The record is read in pieces, twice: first to learn when each packet is in the network and how many bytes of
record it has, then to take those of the window. Between the two only a few numbers per packet are kept. The
format is that of the engine's log (crates/sim/src/trace.rs).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from penstock import scenario

#: What a record begins with, and the version that is read.
MAGIC, VERSION = b"PENSTOCK", 1
#: Bytes that are read at a time.
PIECE = 8_000_000
# Kinds of records.
_SENT, _HOP, _DROPPED, _TRIMMED, _VALUE, _NAME, _HELD, _RESULT = 1, 2, 3, 4, 8, 9, 12, 14
_PACKETS = (_SENT, _HOP, _DROPPED, _TRIMMED, _HELD)
# Flows that open, close, have values, time out and repair losses.
_FLOWS = (6, 7, _VALUE, _NAME, 10, 11)
# Of the room for a window, the share that packets have; the others are for the values of flows.
_FOR_PACKETS = 0.7
_PS = 1e-12
# The end of a window is found to this part of the run, with so many packets at once.
_BINS, _AT_ONCE = 1 << 18, 1 << 20

Words = NDArray[np.uint32]
Places = NDArray[np.int64]


@dataclass(frozen=True)
class Window:
    """A part of a record that is itself a record: its bytes, the seconds between which it has all packets,
    and the size of the whole record in bytes. `whole`: nothing is left out.
    """

    record: bytes
    start: float
    end: float
    size: int
    whole: bool


def read(path: Path, start: float, most_bytes: int, *, end: float = np.inf, flows: bool = True) -> Window:
    """The window that begins at `start` (s), ends at `end` and has at most about `most_bytes`. A record that
    fits is taken whole unless an end is asked for. `flows`: with the flows and their values; without them
    packets that stay in their sender's port all the time are left out, too. Raises
    ScenarioError for a file that is no record, or for a `start` after the end of the run; OSError.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        about, raw_head = _head(path, file)
        length = about["duration_ps"] * _PS
        if start >= length:
            raise scenario.error(
                "packets_from", f"{start:g}s", f"must be before the end of the run, {length:g} s"
            )
        if size <= most_bytes and end == np.inf and flows:
            return Window(raw_head + file.read(), 0, length, size, whole=True)
        begin = file.tell()
        known = _Known([link["delay_ps"] for link in about["links"]], starts=not flows)
        for words, at in _pieces(path, file):
            known.note(words, at)
        share = _FOR_PACKETS if flows else 1
        end = min(end, known.end(start, int(most_bytes * share), length))
        file.seek(begin)
        taken = _Taken(known, start, end, length, int(most_bytes * (1 - share)))
        parts = [raw_head, *(taken.of(words, at) for words, at in _pieces(path, file))]
    return Window(b"".join(parts), start, min(end, length), size, whole=False)


def head(path: Path) -> dict[str, Any]:
    """The head of a record: its network. Raises as `read`."""
    with path.open("rb") as file:
        return _head(path, file)[0]


def _head(path: Path, file: BinaryIO) -> tuple[dict[str, Any], bytes]:
    first = file.read(16)
    if len(first) < 16 or first[:8] != MAGIC:
        raise scenario.error("record", path, "is no record of a run (penstock run --record)")
    version, length = struct.unpack_from("<II", first, 8)
    if version != VERSION:
        raise scenario.error("record", path, f"has version {version}; this penstock reads version {VERSION}")
    text = file.read(length)
    try:
        return json.loads(text), first + text
    except ValueError:
        raise _damaged(path) from None


def _damaged(path: Path) -> scenario.ScenarioError:
    return scenario.error("record", path, "is damaged: record the run again")


def _lengths() -> list[int]:
    """Words of a record by the low twelve bits of its first word; 0: a text says its own length."""
    fixed = {2: 6, 3: 6, 4: 5, 5: 3, 6: 10, 7: 4, 8: 6, 10: 4, 11: 4, 12: 6, 13: 3}
    table = []
    for low in range(4096):
        kind, own = low & 15, low >> 4
        if kind == _SENT:
            table.append(11 + 2 * (own >> 2 & 3))
        elif kind == _HOP:
            table.append(fixed[kind] + (own & 2))
        elif kind in (_NAME, _RESULT):
            table.append(0)
        else:
            table.append(fixed.get(kind, -1))
    return table


_LENGTH = _lengths()


def _pieces(path: Path, file: BinaryIO) -> Iterator[tuple[Words, Places]]:
    """The records of a file, a piece at a time: its words, and where records begin and the last one ends."""
    rest = b""
    while piece := file.read(PIECE):
        rest += piece
        words = memoryview(rest)[: len(rest) // 4 * 4].cast("I")
        places, at, end = [], 0, len(words)
        try:
            while at < end:
                length = _LENGTH[words[at] & 4095]
                if length <= 0:
                    if length < 0:
                        raise _damaged(path)
                    length = 2 + (words[at + 1] + 3) // 4
                if at + length > end:
                    break
                places.append(at)
                at += length
        except IndexError:  # The length of a text is in the next piece.
            pass
        places.append(at)
        yield np.frombuffer(rest, np.uint32, at), np.array(places, np.int64)
        rest = rest[4 * at :]
    if rest:
        raise _damaged(path)


def _wide(words: Words, at: Places) -> NDArray[np.uint64]:
    """The 64-bit numbers at `at`."""
    low, high = words[at].astype(np.uint64), words[at + 1].astype(np.uint64)
    return low | high << np.uint64(32)


def _seconds(words: Words, at: Places) -> NDArray[np.float64]:
    return _wide(words, at).astype(np.float64) * _PS


class _Known:
    """What the first reading has learnt. By packet: when it was sent, when it has left the network, and its
    bytes of record.
    """

    def __init__(self, delays_ps: list[int], *, starts: bool) -> None:
        # When packets have left their senders' ports, where that is asked for.
        self.begun = np.zeros(0) if starts else None
        self.delay = np.array(delays_ps or [0], np.float64) * _PS
        self.count = 0
        self.sent = np.zeros(0)
        self.gone = np.zeros(0)
        self.bytes = np.zeros(0, np.uint32)
        self.last_sent = 0.0
        self.series: set[int] = set()

    def _grow(self, count: int) -> None:
        if count > len(self.sent):
            more = max(count, len(self.sent) + len(self.sent) // 4) - len(self.sent)
            self.sent = np.append(self.sent, np.zeros(more))
            self.gone = np.append(self.gone, np.zeros(more))
            self.bytes = np.append(self.bytes, np.zeros(more, np.uint32))
            if self.begun is not None:
                self.begun = np.append(self.begun, np.full(more, np.inf))
        self.count = max(self.count, count)

    def note(self, words: Words, places: Places) -> None:
        """Read a piece."""
        at, length = places[:-1], np.diff(places)
        first = words[at]
        kind = first & 15
        sent = at[kind == _SENT]
        if len(sent):
            self._grow(int(words[sent + 1].max()) + 1)
            self.sent[words[sent + 1]] = _seconds(words, sent + 2)
            self.last_sent = max(self.last_sent, float(_seconds(words, sent[-1:] + 2)[0]))
        for wanted in _PACKETS:
            those = kind == wanted
            rows = at[those]
            if len(rows) == 0:
                continue
            packet = words[rows + 1]
            self.bytes += np.bincount(packet, 4 * length[those], len(self.bytes)).astype(np.uint32)
            if wanted == _HOP:
                port = words[rows] >> 12
                late = (words[rows] >> 5 & 1).astype(bool)
                gone = _seconds(words, rows + 4) + self.delay[np.minimum(port, len(self.delay) - 1)]
                gone[late] = _seconds(words, rows[late] + 6)
                if self.begun is not None:
                    np.minimum.at(self.begun, packet, _seconds(words, rows + 4))
            elif wanted == _DROPPED:
                gone = _seconds(words, rows + 4)
            elif wanted == _HELD:
                gone = np.full(len(rows), np.inf)
            else:
                gone = _seconds(words, rows + 2)
            np.maximum.at(self.gone, packet, gone)
        values = at[kind == _VALUE]
        if len(values):
            self.series.update(np.unique(_series(words, values)).tolist())

    def end(self, start: float, room: int, length: float) -> float:
        """When the window that begins at `start` is full; infinite where all that follows has room."""
        bins = np.zeros(_BINS, np.int64)
        for i in range(0, self.count, _AT_ONCE):
            part = slice(i, min(self.count, i + _AT_ONCE))
            alive = self.gone[part] >= start
            # Those that stay in their sender's port are left out where that is asked for.
            first = self.sent if self.begun is None else self.begun
            alive &= first[part] < length
            # The packets that are under way as the window begins are in the first bin.
            when = np.maximum(0, (first[part][alive] - start) / (length - start) * _BINS).astype(np.int64)
            bins += np.bincount(np.minimum(when, _BINS - 1), self.bytes[part][alive], _BINS).astype(np.int64)
        full = np.cumsum(bins) > room
        if not full.any():
            return np.inf
        # They may fill it: then it has one bin.
        return start + (length - start) * max(1, int(np.argmax(full))) / _BINS


def _series(words: Words, values: Places) -> NDArray[np.uint64]:
    """Which flow's value of which name: one number."""
    return words[values + 1].astype(np.uint64) << np.uint64(8) | (words[values] >> 4 & 255).astype(np.uint64)


class _Taken:
    """The second reading: the records of the window, packets numbered anew."""

    def __init__(self, known: _Known, start: float, end: float, length: float, for_values: int) -> None:
        packets = slice(0, known.count)
        self.chosen = (known.gone[packets] >= start) & (known.sent[packets] < end)
        if known.begun is not None:
            self.chosen &= known.begun[packets] < end
        self.number = (np.cumsum(self.chosen) - 1).astype(np.uint32)
        self.result = {"packets_from_s": start, **({} if np.isinf(end) else {"packets_until_s": end})}
        # Values of flows are of the whole run: of each series so many, evenly in time.
        each = max(2, for_values // 24 // max(1, len(known.series)))
        self.interval = length / each
        self.flows = for_values > 0
        self.bins: dict[int, int] = {}

    def of(self, words: Words, places: Places) -> bytes:
        """The part of a piece that is in the window."""
        words = words.copy()
        at, length = places[:-1], np.diff(places)
        kind = words[at] & 15
        keep = np.ones(len(at), bool)
        packets = np.isin(kind, _PACKETS)
        number = words[at[packets] + 1]
        # A record that was cut short may speak of packets that it does not have.
        there = number < len(self.chosen)
        keep[packets] = there & self.chosen[np.where(there, number, 0)] if len(self.chosen) else False
        kept = at[packets & keep]
        words[kept + 1] = self.number[words[kept + 1]]
        values = np.flatnonzero(kind == _VALUE)
        if not self.flows:
            keep[np.isin(kind, _FLOWS)] = False
        elif len(values):
            series = _series(words, at[values]).tolist()
            bins = (_seconds(words, at[values] + 2) / self.interval).astype(np.int64).tolist()
            for i, which, now in zip(values.tolist(), series, bins, strict=True):
                keep[i] = self.bins.get(which) != now
                self.bins[which] = now
        results = np.flatnonzero(kind == _RESULT)
        keep[results] = False
        taken = np.repeat(keep, length)
        said = b"".join(self._result(words, int(at[i])) for i in results)
        return words[: places[-1]][taken].tobytes() + said

    def _result(self, words: Words, at: int) -> bytes:
        text = words[at + 2 :].tobytes()[: int(words[at + 1])].decode()
        made = json.dumps({**json.loads(text), **self.result}, separators=(",", ":")).encode()
        return struct.pack("<II", _RESULT, len(made)) + made + b"\0" * (-len(made) % 4)
