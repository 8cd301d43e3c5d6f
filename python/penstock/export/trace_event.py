"""A run as a trace for Perfetto (ui.perfetto.dev), in the JSON form of the Trace Event Format that it reads.

Hosts and switches are processes, ports their threads. On a port's thread every packet is a slice as long as
its transmission; drops and marks are instants; counters say how many packets and bytes are in the port. A
flow
is an asynchronous slice of the host that sends it, timeouts and repairs are instants there, and what its law
says of itself (window,
alpha) are counters. Times are microseconds with all digits of a picosecond; Perfetto shows nanoseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from penstock.export import record as log
from penstock.export.record import Record

_US = 1_000_000  # ps


def write(record: Record, path: str | Path) -> Path:
    """Write the trace; return its path. Raises OSError."""
    target = Path(path)
    with target.open("w", encoding="utf-8") as file:
        file.write('{"displayTimeUnit": "ns", "otherData": ')
        said = {key: record.head[key] for key in ("scenario", "seed", "run") if key in record.head}
        json.dump({"program": "penstock", **said}, file)
        file.write(', "traceEvents": [\n')
        _put(file, _events(record))
        file.write("\n]}\n")
    return target


def _put(file: TextIO, events: Iterator[dict[str, Any]]) -> None:
    encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
    between = ""
    for event in events:
        file.write(between + encode(event))
        between = ",\n"


def _events(record: Record) -> Iterator[dict[str, Any]]:
    links, ports = record.head["links"], record.ports
    # Processes and threads begin at 1: 0 is the kernel's.
    for i, (name, switch) in enumerate(record.head["nodes"]):
        kind = "switch" if switch else "host"
        yield {"ph": "M", "name": "process_name", "pid": i + 1, "args": {"name": f"{kind} {name}"}}
        yield {"ph": "M", "name": "process_sort_index", "pid": i + 1, "args": {"sort_index": i}}
    for i, name in enumerate(ports):
        about = {"pid": links[i]["from"] + 1, "tid": i + 1}
        yield {"ph": "M", "name": "thread_name", **about, "args": {"name": f"port {name}"}}
    yield from _of_ports(record)
    yield from _of_flows(record)


def _of_ports(record: Record) -> Iterator[dict[str, Any]]:
    links, framing = record.head["links"], record.head["framing"]
    names = record.ports
    # What a packet does to the number of packets and bytes in its port.
    changes: list[list[tuple[int, int, int]]] = [[] for _ in links]
    free = [0] * len(links)
    for hop in sorted(record.hops, key=lambda hop: hop.left):
        link, packet = links[hop.port], record.packets[hop.packet]
        place = {"pid": link["from"] + 1, "tid": hop.port + 1}
        takes = 8 * (packet.bytes + framing) * 10**12 // link["rate_bps"]
        # A late packet (timing noise of a host) leaves the next less time than it takes.
        begin = max(hop.left - takes, hop.queued, free[hop.port])
        free[hop.port] = hop.left
        about = {
            "flow": packet.flow,
            "seq": packet.seq,
            "bytes": packet.bytes,
            "waited_us": _us(begin - hop.queued),
        }
        if packet.flags & log.RETRANSMIT:
            about["retransmission"] = True
        name = f"flow {packet.flow} {'ACK' if packet.flags & log.ACK else 'data'}"
        yield {
            "ph": "X",
            "name": name,
            **place,
            "ts": _us(begin),
            "dur": _us(hop.left - begin),
            "args": about,
        }
        if hop.marked:
            yield {"ph": "i", "s": "t", "name": "marked", **place, "ts": _us(hop.queued), "args": about}
        changes[hop.port] += [(hop.queued, 1, packet.bytes), (hop.left, -1, -packet.bytes)]
    for port, number, at, cause in record.dropped:
        if port >= len(links):
            continue  # a node without a way on
        packet = record.packets[number]
        place = {"pid": links[port]["from"] + 1, "tid": port + 1}
        about = {"flow": packet.flow, "seq": packet.seq, "cause": record.head["causes"][cause]}
        yield {"ph": "i", "s": "t", "name": "dropped", **place, "ts": _us(at), "args": about}
    for port, priority, at, stop in record.pauses:
        place = {"pid": links[port]["from"] + 1, "tid": port + 1}
        name = f"{'paused' if stop else 'released'}: priority {priority}"
        yield {"ph": "i", "s": "t", "name": name, **place, "ts": _us(at)}
    for port, at, up in record.links:
        place = {"pid": links[port]["from"] + 1, "tid": port + 1}
        yield {"ph": "i", "s": "t", "name": "link up" if up else "link down", **place, "ts": _us(at)}
    for port, rows in enumerate(changes):
        packets = size = 0
        # What leaves at an instant leaves before what comes.
        for at, n, b in sorted(rows):
            packets, size = packets + n, size + b
            about = {"packets": packets, "bytes": size}
            name = f"queue {names[port]}"
            yield {"ph": "C", "name": name, "pid": links[port]["from"] + 1, "ts": _us(at), "args": about}


def _of_flows(record: Record) -> Iterator[dict[str, Any]]:
    end, nodes = record.end, record.nodes
    for number, flow in record.flows.items():
        about = {
            "from": nodes[flow.source],
            "to": nodes[flow.destination],
            "size_bytes": flow.size,
            "protocol": record.head["protocols"][flow.protocol],
        }
        both = {"cat": "flow", "id": number, "name": f"flow {number}", "pid": flow.source + 1, "tid": 0}
        yield {"ph": "b", **both, "ts": _us(flow.at), "args": about}
        closed = record.closed.get(number)
        ended = {"closed": closed is not None}
        yield {"ph": "e", **both, "ts": _us(end if closed is None else closed), "args": ended}
    for what, rows in (("timeout", record.timeouts), ("repair", record.repairs)):
        for number, at in rows:
            pid = record.flows[number].source + 1 if number in record.flows else 0
            yield {
                "ph": "i",
                "s": "p",
                "name": f"{what} of flow {number}",
                "pid": pid,
                "tid": 0,
                "ts": _us(at),
            }
    for name, number, at, value in record.values:
        if number in record.flows and abs(value) < float("inf"):
            pid = record.flows[number].source + 1
            label = f"flow {number} {name}"
            yield {"ph": "C", "name": label, "pid": pid, "ts": _us(at), "args": {name: value}}


def _us(ps: int) -> float:
    return ps / _US
