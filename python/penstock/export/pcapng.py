"""Packets of a run as a pcapng file, which Wireshark and tshark read.

The file format is draft-ietf-opsawg-pcapng: a section header, an interface description for the host or port,
an enhanced packet block for each packet. Times are in nanoseconds (if_tsresol 9): with a finer unit Wireshark
4.0 misreads times after 18 ms. Payloads are not there (penstock has none): a block holds the headers and says
how long the packet was. A file has one point of capture: with two a program that reads it takes the same
packet, seen twice, for a retransmission.

A host sees what its network card puts on the link (at the last bit) and what arrives; a port what leaves it.
Addresses are made up: host i is 10.x.y.z with xyz = i + 1; the ports number the flow. On the wire:

- laws for TCP: IPv4 (RFC 791, ECN field by RFC 3168), TCP (RFC 9293) with the flags as sent, SACK blocks
(RFC 2018), and NOPs up to the simulated length. The sender's numbers begin at 0, so that the first data byte
is 1; an ACK's
  number and the bit ACK are on all but the SYN. Windows are not simulated bit for bit: they say "large".
- RDMA: RoCE v2 (InfiniBand specification 1.2.1, annex A17): UDP port 4791, BTH with the packet number
  seq / mss, RC SEND opcodes; ACK and NACK with an AETH, CNP with opcode 0x81. The ICRC is cut off.
- other transports: UDP, to port 4793 (Ultra Ethernet) for eqds, nscc and rccc, else 9; the datagram begins
with flow, sequence number, payload and flags (4, 8, 4 and 4 bytes).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from penstock import scenario
from penstock.export import record as log
from penstock.export.record import Flow, Hop, Packet, Record

#: Protocols whose packets are RoCE's, and those of Ultra Ethernet's kind; other stacks of their own.
ROCE = frozenset(("roce", "dcqcn", "hpcc", "timely", "dctcp-roce", "swift", "powertcp"))
UEC = frozenset(("eqds", "nscc", "rccc", "nscc-rccc"))
OTHER = frozenset(("pfabric", "homa", "phost", "pias", "ndp"))

_ETHERNET, _IP, _TCP, _UDP, _BTH, _AETH, _ICRC = 14, 20, 20, 8, 12, 4, 4
# What the first word of RDMA's own header says (crates/host/src/rdma).
_RDMA_ACK, _RDMA_NACK, _RDMA_CNP = 1, 2, 3
# The flags of TCP's header (RFC 9293 section 3.1, RFC 3168) by penstock's.
_FLAGS = ((log.SYN, 0x02), (log.ACK, 0x10), (log.FIN, 0x01), (log.ECE, 0x40), (log.CWR, 0x80))
_MOST_OPTIONS = 40


def write(record: Record, path: str | Path, place: str) -> Path:
    """Write what passes a host or a port, in the order of time; return the path. Raises ScenarioError for a
    name that is neither; OSError.
    """
    (place,) = places(record, [place])
    frames = _Frames(record)
    target = Path(path)
    with target.open("wb") as file:
        file.write(_block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)))
        options = _option(2, place.encode()) + _option(9, b"\x09") + _option(0, b"")
        file.write(_block(1, struct.pack("<HHI", 1, 0, 0) + options))
        # Sorted by picoseconds: what one nanosecond holds keeps its order.
        for when, packet, ce in sorted(_passing(record, place)):
            data, length = frames.frame(packet, ce)
            at = when // 1000
            head = struct.pack("<IIIII", 0, at >> 32, at & 0xFFFFFFFF, len(data), length)
            file.write(_block(6, head + data + bytes(-len(data) % 4)))
    return target


def file_of(path: Path, place: str, places: Sequence[str]) -> Path:
    """The file of one of several points of capture: `packets-switch-to-client.pcapng`."""
    if len(places) == 1:
        return path
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", place.replace("->", "-to-"))
    return path.with_name(f"{path.stem}-{name}{path.suffix}")


def _block(kind: int, body: bytes) -> bytes:
    length = struct.pack("<I", 12 + len(body))
    return struct.pack("<I", kind) + length + body + length


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)


def places(record: Record, at: Sequence[str]) -> list[str]:
    """The hosts and ports that `at` names. Raises ScenarioError for none, and for one that is neither."""
    ports, nodes = record.ports, record.nodes
    found = [place for place in at if place]
    if not found:
        raise scenario.error("pcap", "", "needs the name of a host or of a port (a->b)")
    for place in found:
        if place in ports:
            continue
        if place not in nodes:
            import difflib

            near = difflib.get_close_matches(place, [*nodes, *ports], 3)
            hint = f"; near it: {', '.join(near)}" if near else ""
            raise scenario.error("pcap", place, f"is no host and no port (a->b) of this network{hint}")
        if record.head["nodes"][nodes.index(place)][1]:
            rule = f"is a switch: name one of its ports, as in {_a_port(place, ports)}"
            raise scenario.error("pcap", place, rule)
    return found


def _passing(record: Record, place: str) -> Iterator[tuple[int, int, bool]]:
    """When which packet passes a host or a port, and whether it is marked there."""
    ports = record.ports
    marked = _marked(record)
    # What is on a link when the record ends has left its port.
    end = record.end
    hops = [*record.hops, *(hop for hop in record.held if hop.left <= end)]
    if place in ports:
        port = ports.index(place)
        return ((hop.left, hop.packet, marked(hop)) for hop in hops if hop.port == port)
    node = record.nodes.index(place)
    out = {i for i, link in enumerate(record.head["links"]) if link["from"] == node}
    into = {i for i, link in enumerate(record.head["links"]) if link["to"] == node}
    return (
        (hop.left if hop.port in out else hop.arrived, hop.packet, marked(hop))
        for hop in hops
        if hop.port in out or (hop.port in into and hop.arrived != log.NEVER)
    )


def _a_port(switch: str, ports: Sequence[str]) -> str:
    return next((port for port in ports if port.startswith(f"{switch}->")), "a->b")


def _marked(record: Record) -> Callable[[Hop], bool]:
    """Whether a packet is marked when it leaves a port: it came so, or it was marked there or before."""
    first: dict[int, int] = {}
    for hop in record.hops:
        if hop.marked:
            first[hop.packet] = min(hop.left, first.get(hop.packet, hop.left))

    def marked(hop: Hop) -> bool:
        when = first.get(hop.packet)
        return when is not None and hop.left >= when

    return marked


class _Frames:
    """The headers of packets."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.names = [text.partition(":")[0] for text in record.head["protocols"]]
        self.identification = 0

    def frame(self, number: int, ce: bool) -> tuple[bytes, int]:
        """The headers of a packet, and its whole length."""
        packet = self.record.packets[number]
        flow = self.record.flows.get(packet.flow) or Flow(0, 0, packet.to, 0, 0)
        name = self.names[flow.protocol] if flow.protocol < len(self.names) else ""
        forward = packet.to == flow.destination
        ends = (flow.source, flow.destination) if forward else (flow.destination, flow.source)
        if name in ROCE:
            protocol, head, length = 17, *self._roce(packet, flow, forward)
        elif name in UEC or name in OTHER:
            protocol, head, length = 17, *self._datagram(packet, 4793 if name in UEC else 9)
        else:
            protocol, head, length = 6, *self._tcp(packet, flow, forward)
        ecn = log.CE if ce else packet.ecn
        ip = self._ip(number, ends, protocol, _IP + length, ecn)
        return _ethernet(ends) + ip + head, _ETHERNET + _IP + length

    def _ip(self, number: int, ends: tuple[int, int], protocol: int, length: int, ecn: int) -> bytes:
        # Identification, don't fragment, 64 hops; a datagram longer than the field can say has it full.
        head = struct.pack(
            "!BBHHHBBH4s4s", 0x45, ecn, min(length, 0xFFFF), number & 0xFFFF, 0x4000, 64, protocol, 0,
            _address(ends[0]), _address(ends[1]),
        )  # fmt: skip
        total = sum(struct.unpack("!10H", head))
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        return head[:10] + struct.pack("!H", ~total & 0xFFFF) + head[12:]

    def _ports(self, flow: int, forward: bool) -> tuple[int, int]:
        """The flow's ports: all of 2^32 flows between two hosts have their own."""
        ends = 1024 + flow % 60000, 5001 + flow // 60000
        return ends if forward else ends[::-1]

    def _tcp(self, packet: Packet, flow: Flow, forward: bool) -> tuple[bytes, int]:
        flags = sum(bit for mine, bit in _FLAGS if packet.flags & mine)
        syn = bool(packet.flags & log.SYN)
        options = b""
        if syn:
            # Maximum segment size (RFC 9293 section 3.7.1), window scale 14 (RFC 7323), SACK permitted.
            mss = min(self.record.head["mss"][flow.protocol], 0xFFFF)
            options = b"\x02\x04" + struct.pack("!H", mss) + b"\x03\x03\x0e\x01\x04\x02\x01\x01"
        elif packet.sacks:
            blocks = [(1 + packet.seq + a, 1 + packet.seq + b) for a, b in _blocks(packet)]
            edges = b"".join(struct.pack("!II", a & 0xFFFFFFFF, b & 0xFFFFFFFF) for a, b in blocks)
            options = b"\x01\x01\x05" + bytes([2 + len(edges)]) + edges
        if forward:
            seq, ack = (0 if syn else 1 + packet.seq), (0 if syn else 1)
            flags |= 0 if syn else 0x10
        else:
            seq, ack = (0 if syn else 1), (1 if syn else 1 + packet.seq)
        room = packet.bytes - packet.payload - _IP - _TCP - len(options)
        options += b"\x01" * (min(room, _MOST_OPTIONS - len(options)) // 4 * 4 if room > 0 else 0)
        head = struct.pack(
            "!HHIIBBHHH", *self._ports(packet.flow, forward), seq & 0xFFFFFFFF, ack & 0xFFFFFFFF,
            (_TCP + len(options)) // 4 << 4, flags, 0xFFFF, 0, 0,
        )  # fmt: skip
        return head + options, _TCP + len(options) + packet.payload

    def _roce(self, packet: Packet, flow: Flow, forward: bool) -> tuple[bytes, int]:
        mss = self.record.head["mss"][flow.protocol]
        extra = b""
        if forward:
            last = flow.size > 0 and packet.seq + packet.payload >= flow.size
            # RC SEND: first, middle, last, only (InfiniBand 1.2.1, table 38).
            opcode = (4 if last else 0) if packet.seq == 0 else (2 if last else 1)
            number = packet.seq // mss
        elif packet.kind == _RDMA_CNP:
            opcode, number, extra = 0x81, 0, bytes(16)
        else:
            # Acknowledge: an ACK names the last packet that has come, a NACK the one expected.
            expected = -(-packet.seq // mss)
            refused = packet.kind == _RDMA_NACK
            opcode, number = 0x11, expected if refused else expected - 1
            extra = struct.pack("!I", (0x60 if refused else 0x1F) << 24)
        bth = struct.pack("!BBHII", opcode, 0x40, 0xFFFF, packet.flow & 0xFFFFFF, number & 0xFFFFFF)
        length = _UDP + _BTH + len(extra) + packet.payload + _ICRC
        source = 49152 + packet.flow % 16384
        return struct.pack("!HHHH", source, 4791, length, 0) + bth + extra, length

    def _datagram(self, packet: Packet, port: int) -> tuple[bytes, int]:
        said = struct.pack("!IQII", packet.flow & 0xFFFFFFFF, packet.seq, packet.payload, packet.flags)
        length = max(packet.bytes - _IP, _UDP + len(said))
        source = 49152 + packet.flow % 16384
        return struct.pack("!HHHH", source, port, min(length, 0xFFFF), 0) + said, length


def _blocks(packet: Packet) -> list[tuple[int, int]]:
    """SACK blocks as offsets; a D-SACK's lie below the acknowledgement."""
    signed = [tuple(x - (1 << 32) if x >> 31 else x for x in block) for block in packet.sacks]
    return [(a, b) for a, b in signed]


def _address(node: int) -> bytes:
    return bytes([10]) + (node + 1).to_bytes(3, "big")


def _ethernet(ends: tuple[int, int]) -> bytes:
    # Locally administered addresses.
    mac = [b"\x02\x00" + (node + 1).to_bytes(4, "big") for node in ends]
    return mac[1] + mac[0] + b"\x08\x00"
