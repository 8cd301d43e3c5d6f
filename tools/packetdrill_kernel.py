"""Run the packetdrill scripts of crates/packetdrill/scripts against the kernel of this machine.

Packets are written to and read from a TUN device in a network namespace of this process, by the script's own
clock; sockets are the kernel's. Needs root and /dev/net/tun; says so and exits with 0 where it has neither.
Scripts with `--protocol=` are for the simulator only. A script that fails is tried again, because a busy
machine is late: it counts as passed when it passes in one of `--tries`.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import os
import re
import select
import shlex
import socket
import struct
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: CLOCK_MONOTONIC_COARSE, which moves with the kernel's ticks.
COARSE = 6
SCRIPTS = ROOT / "crates" / "packetdrill" / "scripts"
LOCAL, PEER = "192.0.2.1", "192.0.2.2"
LOCAL_PORT, PEER_PORT = 8080, 40000
CLONE_NEWNET = 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
FLAGS = {"F": 1, "S": 2, "R": 4, "P": 8, ".": 16, "E": 64, "W": 128}
PSH = 8
#: Offsets in `struct tcp_info` and their formats.
INFO = {
    "tcpi_ca_state": (1, "B"),
    "tcpi_rto": (8, "I"),
    "tcpi_snd_mss": (16, "I"),
    "tcpi_unacked": (24, "I"),
    "tcpi_sacked": (28, "I"),
    "tcpi_rtt": (68, "I"),
    "tcpi_rttvar": (72, "I"),
    "tcpi_snd_ssthresh": (76, "I"),
    "tcpi_snd_cwnd": (80, "I"),
    "tcpi_total_retrans": (100, "I"),
    "tcpi_bytes_acked": (120, "Q"),
    "tcpi_data_segs_out": (156, "I"),
}
CONSTANTS = {
    "TCP_CA_Open": 0,
    "TCP_CA_Disorder": 1,
    "TCP_CA_CWR": 2,
    "TCP_CA_Recovery": 3,
    "TCP_CA_Loss": 4,
    "TCP_INFINITE_SSTHRESH": 0x7FFFFFFF,
}


class Mismatch(Exception):
    """The kernel does something else."""


@dataclass
class Packet:
    """A TCP segment, sequence numbers as the script has them."""

    flags: int
    seq: int
    length: int
    ack: int | None = None
    win: int | None = None
    ecn: int | None = None
    sack: list[tuple[int, int]] = field(default_factory=list)
    ts: tuple[int, int] | None = None
    mss: int | None = None
    sack_ok: bool = False
    wscale: int | None = None
    any_options: bool = False

    def __str__(self) -> str:
        """As a script writes it."""
        names = "".join(name for name, bit in FLAGS.items() if self.flags & bit and name != "P")
        text = f"{names} {self.seq}:{self.seq + self.length}({self.length})"
        text += f" ack {self.ack}" if self.ack is not None else ""
        return text + (f" sack {self.sack}" if self.sack else "")


def parse_packet(text: str) -> Packet:
    """Read a packet of a script; the simulator's reader has checked it."""
    ecn = None
    found = re.match(r"\[(\w+)\]\s*", text)
    if found:
        ecn = {"noecn": 0, "ect0": 2, "ce": 3}[found[1]]
        text = text[found.end() :]
    head, _, options = text.partition("<")
    flags, numbers, *rest = head.split()
    first, _, length = re.match(r"(\d+):(\d+)\((\d+)\)", numbers).groups()  # type: ignore[union-attr]
    p = Packet(sum(FLAGS.get(c, 0) for c in flags), int(first), int(length), ecn=ecn)
    for key, value in zip(rest[::2], rest[1::2], strict=True):
        setattr(p, key, int(value))
    p.any_options = options.startswith("...")
    for item in options.rstrip(">").split(","):
        match item.split():
            case ["mss", n]:
                p.mss = int(n)
            case ["wscale", n]:
                p.wscale = int(n)
            case ["sackOK"]:
                p.sack_ok = True
            case ["TS", "val", val, "ecr", ecr]:
                p.ts = (int(val), int(ecr))
            case ["sack", *blocks]:
                p.sack = [(int(a), int(b)) for a, b in (block.split(":") for block in blocks)]
            case _:
                pass
    return p


def checksum(data: bytes) -> int:
    """Internet checksum (RFC 1071)."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class Tun:
    """The far end of the wire."""

    def __init__(self, segments: int | None) -> None:
        """Make the device, in the namespace of this process; `segments`: the most that leave together."""
        self.fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(self.fd, TUNSETIFF, struct.pack("16sH", b"drill0", IFF_TUN | IFF_NO_PI))
        together = f" gso_max_segs {segments}" if segments else ""
        for line in (
            "link set lo up",
            f"addr add {LOCAL}/24 dev drill0",
            f"link set drill0 up mtu 1500{together}",
        ):
            subprocess.run(["ip", *line.split()], check=True)
        self.local_isn: int | None = None
        self.ts_base: int | None = None

    def close(self) -> None:
        """Remove it."""
        os.close(self.fd)

    def send(self, p: Packet, port: int, clock_ms: int) -> None:
        """Let a packet of the peer arrive."""
        options = b""
        if p.mss is not None:
            options += struct.pack("!BBH", 2, 4, p.mss)
        if p.sack_ok:
            options += b"\x04\x02"
        if p.ts is not None:
            base = self.ts_base or 0
            options += struct.pack(
                "!BBII", 8, 10, p.ts[0], (p.ts[1] + base) % 2**32 if p.ts[1] or base else 0
            )
        if p.wscale is not None:
            options += struct.pack("!BBB", 3, 3, p.wscale)
        isn = self.local_isn or 0
        if p.sack:
            options += struct.pack("!BB", 5, 2 + 8 * len(p.sack))
            for a, b in p.sack:
                options += struct.pack("!II", (a + isn) % 2**32, (b + isn) % 2**32)
        options += b"\x01" * (-len(options) % 4)
        ack = (p.ack + isn) % 2**32 if p.ack is not None else 0
        offset = (5 + len(options) // 4) << 4
        win = p.win if p.win is not None else 65535
        tcp = struct.pack("!HHIIBBHHH", PEER_PORT, port, p.seq, ack, offset, p.flags, win, 0, 0)
        tcp += options + b"\0" * p.length
        src, dst = socket.inet_aton(PEER), socket.inet_aton(LOCAL)
        tcp_sum = checksum(src + dst + struct.pack("!BBH", 0, 6, len(tcp)) + tcp)
        tcp = tcp[:16] + struct.pack("!H", tcp_sum) + tcp[18:]
        head = struct.pack("!BBHHHBBH4s4s", 0x45, p.ecn or 0, 20 + len(tcp), 1, 0, 64, 6, 0, src, dst)
        head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
        os.write(self.fd, head + tcp)

    def receive(self, until: float) -> tuple[float, Packet] | None:
        """The next packet of the kernel, with its time, or None."""
        while True:
            left = until - time.monotonic()
            ready, _, _ = select.select([self.fd], [], [], max(left, 0))
            if not ready:
                return None
            now = time.monotonic()
            raw = os.read(self.fd, 65536)
            if raw[0] >> 4 == 4 and raw[9] == 6:
                return now, self.decode(raw)

    def decode(self, raw: bytes) -> Packet:
        """What the kernel has sent."""
        tcp = raw[(raw[0] & 15) * 4 : struct.unpack("!H", raw[2:4])[0]]
        _, _, seq, ack, offset, flags, win, _, _ = struct.unpack("!HHIIBBHHH", tcp[:20])
        size = (offset >> 4) * 4
        if flags & FLAGS["S"]:
            self.local_isn = seq
        isn = self.local_isn or 0
        p = Packet(flags & ~PSH, (seq - isn) % 2**32, len(tcp) - size, win=win, ecn=raw[1] & 3)
        p.ack = ack if flags & FLAGS["."] else None
        at, options = 0, tcp[20:size]
        while at < len(options) and options[at] != 0:
            if options[at] == 1:
                at += 1
                continue
            kind, length = options[at], options[at + 1]
            body = options[at + 2 : at + length]
            if kind == 5:
                edges = struct.unpack(f"!{len(body) // 4}I", body)
                p.sack = list(zip(edges[::2], edges[1::2], strict=True))
            elif kind == 8:
                val, ecr = struct.unpack("!II", body)
                if self.ts_base is None:
                    self.ts_base = val
                p.ts = ((val - self.ts_base) % 2**32, ecr)
            at += length
        return p


class Play:
    """One run of one script."""

    def __init__(self, text: str, slack: float, verbose: bool) -> None:
        """Read the script."""
        self.slack = slack
        found = re.search(r"^--tolerance_usecs=(\d+)", text, re.M)
        self.tolerance = (int(found[1]) if found else 4000) / 1e6 + slack
        together = re.search(r"^--gso=(\d+)", text, re.M)
        text = re.sub(r"//.*|/\*.*?\*/", "", re.sub(r"^--.*", "", text, flags=re.M))
        self.lines = [(n, line.strip()) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
        self.tun = Tun(int(together[1]) if together else None)
        self.sock: socket.socket | None = None
        self.listener: socket.socket | None = None
        self.port = LOCAL_PORT
        self.control = "cubic"
        self.verbose = verbose
        self.base = 0.0
        self.start = 0.0
        self.held: tuple[float, Packet] | None = None

    def run(self) -> None:
        """Play it; raises Mismatch."""
        for _, line in self.lines:
            if line.startswith("`"):
                for word in shlex.split(line.strip("`"))[2:]:
                    if word.startswith("net.ipv4.tcp_congestion_control="):
                        # A namespace may not choose any for all; a socket may.
                        self.control = word.partition("=")[2]
                        continue
                    subprocess.run(["sysctl", "-q", "-w", word], check=True, capture_output=True)
        for word in ("tcp_no_metrics_save=1", "tcp_autocorking=0"):
            subprocess.run(["sysctl", "-q", "-w", f"net.ipv4.{word}"], check=True)
        self.start = time.monotonic()
        for number, line in self.lines:
            if line.startswith("`"):
                continue
            try:
                self.event(line)
            except Mismatch as e:
                raise Mismatch(f"line {number}: {e}") from None
            except OSError as e:
                raise Mismatch(f"line {number}: {e}") from None

    def event(self, line: str) -> None:
        """One line."""
        when, what = line.split(None, 1)
        at = self.base if when == "*" else self.base + float(when[1:]) if when[0] == "+" else float(when)
        if what.startswith(">"):
            self.expect(parse_packet(what[1:].strip()), at, when == "*")
            return
        time.sleep(max(0.0, self.start + at - time.monotonic()))
        self.base = at
        if what.startswith("<"):
            self.tun.send(parse_packet(what[1:].strip()), self.port, int(at * 1000))
        elif what.startswith("%{"):
            self.check(what[2:-2])
        else:
            self.call(what)

    def expect(self, want: Packet, at: float, anytime: bool) -> None:
        """A packet must leave."""
        latest = self.start + at + (5.0 if anytime else self.tolerance)
        got = self.held or self.tun.receive(latest)
        self.held = None
        if got is None:
            raise Mismatch(f"expected > {want}, found no packet")
        now, p = got
        while p.length < want.length and p.length > 0:
            more = self.tun.receive(time.monotonic() + self.slack)
            if more is None:
                break
            if more[1].seq != p.seq + p.length or not more[1].length:
                self.held = more
                break
            p.length += more[1].length
            p.flags |= more[1].flags
        same = p.flags == want.flags & ~PSH and (p.seq, p.length, p.ack) == (want.seq, want.length, want.ack)
        if not same or (not want.any_options and not want.mss and p.sack != want.sack):
            raise Mismatch(f"expected > {want}, found > {p}")
        if want.ecn is not None and want.ecn != p.ecn:
            raise Mismatch(f"expected > {want} with ECN field {want.ecn}, found {p.ecn}")
        if want.ts and p.ts and want.length == 0 and want.ts[1] != p.ts[1]:
            raise Mismatch(f"expected > {want} with the echo {want.ts[1]}, found {p.ts[1]}")
        off = now - self.start - at
        if self.verbose:
            print(f"{off * 1000:+8.1f} ms > {p}", flush=True)
        if not anytime and abs(off) > self.tolerance:
            raise Mismatch(f"expected > {want} at {at:.3f} s, found it {off * 1000:.1f} ms later")
        self.base = max(self.base, now - self.start)

    def call(self, text: str) -> None:
        """A socket call."""
        name = text.partition("(")[0]
        args, _, returns = text.partition("(")[2].rpartition(")")
        number = re.search(r"(\d+)\s*$", args)
        result = returns.replace("=", "").strip()
        if name == "listen":
            self.listener = socket.socket()
            self.listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, self.control.encode())
            self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.listener.bind((LOCAL, LOCAL_PORT))
            self.listener.listen(1)
        elif name == "accept":
            assert self.listener is not None
            self.listener.settimeout(1.0)
            self.sock = self.listener.accept()[0]
            self.sock.setblocking(False)
        elif name == "connect":
            self.sock = socket.socket()
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, self.control.encode())
            self.sock.setblocking(False)
            self.sock.connect_ex((PEER, PEER_PORT))
            self.port = self.sock.getsockname()[1]
        elif name == "setsockopt" and "TCP_NODELAY" in args:
            assert self.sock is not None
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        elif name in ("write", "send", "sendto", "read", "recv", "recvfrom"):
            assert self.sock is not None and number is not None
            size = int(number[1])
            try:
                done = self.sock.send(b"\0" * size) if name[0] in "ws" else len(self.sock.recv(size))
            except BlockingIOError:
                done = -1
            if str(done) != result:
                raise Mismatch(f"expected {name}(...) = {result}, found {done}")
        elif name == "close":
            assert self.sock is not None
            self.sock.shutdown(socket.SHUT_WR)

    def check(self, code: str) -> None:
        """Assertions about TCP_INFO."""
        assert self.sock is not None
        raw = self.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        names = {k: struct.unpack_from(f"={f}", raw, at)[0] for k, (at, f) in INFO.items()}
        for statement in filter(None, (s.strip() for s in code.split(";"))):
            wanted = statement.removeprefix("assert").split(",")[0].strip()
            if not eval(wanted, {"__builtins__": {}}, CONSTANTS | names):
                seen = {k: v for k, v in names.items() if k in wanted}
                raise Mismatch(f"expected {wanted}, found {seen}")

    def close(self) -> None:
        """Forget everything."""
        for s in (self.sock, self.listener):
            if s is not None:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                s.close()
        self.tun.close()


def attempt(path: Path, slack: float, verbose: bool) -> str | None:
    """What went wrong in one run in a child process with a namespace of its own, or None."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        said = ""
        try:
            if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
                raise Mismatch(os.strerror(ctypes.get_errno()))
            play = Play(path.read_text(encoding="utf-8"), slack, verbose)
            try:
                play.run()
            finally:
                play.close()
        except Mismatch as e:
            said = str(e)
        except Exception as e:
            said = f"{type(e).__name__}: {e}"
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as f:
        said = f.read().decode()
    os.waitpid(child, 0)
    return said or None


def main() -> int:
    """Run scripts; exit code 1 when one fails in every try."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scripts", nargs="*", type=Path, help="by default all")
    parser.add_argument("--tries", type=int, default=3)
    parser.add_argument("--slack-ms", type=float, default=20.0, help="how late this machine may be")
    parser.add_argument("--verbose", action="store_true", help="every packet, and how late it was")
    given = parser.parse_args()
    if os.geteuid() != 0 or not Path("/dev/net/tun").exists():
        print("skipped: needs root and /dev/net/tun")
        return 0
    scripts = given.scripts or sorted(SCRIPTS.glob("*.pkt"))
    known = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    passed = failed = skipped = 0
    for path in scripts:
        text = path.read_text(encoding="utf-8")
        control = re.search(r"tcp_congestion_control=(\w+)", text)
        if "--protocol=" in text or (control and control[1] not in known):
            why = "for the simulator only" if "--protocol=" in text else f"the kernel has no {control[1]}"  # type: ignore[index]
            print(f"{path.name}: skipped: {why}")
            skipped += 1
            continue
        ticks = re.search(r"^--hz=(\d+)", text, re.M)
        own = round(1 / time.clock_getres(COARSE))
        if ticks and int(ticks[1]) != own:
            print(f"{path.name}: skipped: the kernel's clock has {own} ticks a second")
            skipped += 1
            continue
        for _ in range(given.tries):
            said = attempt(path, given.slack_ms / 1000, given.verbose)
            if said is None:
                break
        passed += said is None
        failed += said is not None
        if said is not None:
            print(f"{path.name}: {said}")
    print(f"{passed} pass, {failed} fail, {skipped} skipped (kernel {os.uname().release})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
