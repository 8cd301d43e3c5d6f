"""Transfers across a path that loses packets both ways: kernel sockets beside the simulated Linux sender.

Each transfer has two network namespaces of this process, joined by two TUN devices and a loop that delays
every packet and loses some. The receiver has a small buffer and reads at a fixed rate, so that its window
closes. Prints how many transfers end in time, and the quartiles. Needs root and /dev/net/tun.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import heapq
import os
import random
import select
import socket
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import penstock

CLONE_NEWNET = 0x40000000
#: CLOCK_MONOTONIC_COARSE, which moves with the kernel's ticks.
COARSE = 6
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
SIOCOUTQ = 0x5411
SENDER, RECEIVER, PORT = "10.0.0.1", "10.0.0.2", 80
ONE_WAY_S = 0.0012
#: Between two looks at the sockets (s); the most bytes that a reader catches up at once.
TURN_S, MOST_AT_ONCE = 0.005, 2500


def host(address: str, timestamps: bool) -> int:
    """The TUN device of a new namespace, in which this process is afterwards."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", b"lossy0", IFF_TUN | IFF_NO_PI))
    for line in (f"addr add {address}/24 dev lossy0", "link set lossy0 up mtu 1500 gso_max_segs 1"):
        subprocess.run(["ip", *line.split()], check=True)
    values = {
        "ipv4/tcp_timestamps": int(timestamps),
        "ipv4/tcp_rto_min_us": 20_000,
        "ipv4/tcp_no_metrics_save": 1,
    }
    for key, value in values.items():
        Path("/proc/sys/net", key).write_text(str(value))
    return device


@dataclass
class Transfer:
    """One connection; times in seconds."""

    sender: socket.socket
    listener: socket.socket
    chance: random.Random
    unsent: int
    receiver: socket.socket | None = None
    begun: float | None = None
    took: float | None = None
    read_at: float = 0.0
    may_read: float = 0.0

    def turn(self, now: float, rate: float) -> None:
        """Connect, write, accept and read what is possible at `now`; `rate` in bytes a second."""
        if self.begun is None:
            self.begun = now
            self.sender.connect_ex((RECEIVER, PORT))
            return
        try:
            if self.unsent:
                self.unsent -= self.sender.send(b"\0" * self.unsent)
        except (BlockingIOError, BrokenPipeError, OSError):
            pass
        try:
            if self.receiver is None:
                self.receiver = self.listener.accept()[0]
                self.receiver.setblocking(False)
                self.read_at = now
            self.may_read += (now - self.read_at) * rate
            self.read_at = now
            while self.may_read >= 1:
                self.may_read -= len(self.receiver.recv(int(self.may_read)))
        except BlockingIOError:
            self.may_read = min(self.may_read, MOST_AT_ONCE)
        if not self.unsent and struct.unpack("i", fcntl.ioctl(self.sender, SIOCOUTQ, b"\0" * 4))[0] == 0:
            self.took = now - self.begun


def kernel(given: argparse.Namespace, timestamps: bool) -> list[float]:
    """How long each transfer takes between kernel sockets (s); infinity for one that does not end."""
    across: dict[int, tuple[int, Transfer]] = {}
    transfers = []
    waiting = select.epoll()
    for i in range(given.transfers):
        far = host(RECEIVER, timestamps)
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, given.window)
        listener.bind((RECEIVER, PORT))
        listener.listen(1)
        listener.setblocking(False)
        near = host(SENDER, timestamps)
        sender = socket.socket()
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
        sender.setblocking(False)
        one = Transfer(sender, listener, random.Random(1000 * given.seed + i), given.size)
        transfers.append(one)
        across |= {near: (far, one), far: (near, one)}
    for device in across:
        waiting.register(device, select.EPOLLIN)
    under_way: list[tuple[float, int, int, bytes]] = []
    begun = next_turn = time.monotonic()
    count = 0
    while any(t.took is None for t in transfers) and time.monotonic() - begun < given.seconds:
        due = min(under_way[0][0] if under_way else next_turn, next_turn)
        for device, _ in waiting.poll(max(0.0, due - time.monotonic())):
            to, one = across[device]
            packet, now = os.read(device, 65536), time.monotonic()
            if one.chance.random() >= given.loss:
                count += 1
                heapq.heappush(under_way, (now + ONE_WAY_S, count, to, packet))
        now = time.monotonic()
        while under_way and under_way[0][0] <= now:
            _, _, to, packet = heapq.heappop(under_way)
            os.write(to, packet)
        if now >= next_turn:
            next_turn = now + TURN_S
            # One connection is opened in each turn, so that no SYN waits for this loop.
            new = next((t for t in transfers if t.begun is None), None)
            for one in [t for t in transfers if t.took is None and (t.begun is not None or t is new)]:
                one.turn(now, given.read_rate / 8)
    return [float("inf") if t.took is None else t.took for t in transfers]


def simulated(given: argparse.Namespace, timestamps: bool) -> list[float]:
    """How long each transfer of the simulated Linux sender takes (s), one seed each."""
    network = penstock.Network(["a", "b"], ["left", "right"])
    network.link("a", "left", rate="1Gbps", delay="0.1ms")
    network.link("b", "right", rate="1Gbps", delay="0.1ms")
    network.link("left", "right", rate="1Gbps", delay="1ms", buffer="1000pkt", loss=given.loss)
    took = []
    for seed in range(given.seed, given.seed + given.simulations):
        run = penstock.run(
            network,
            workloads=[penstock.Flows("a", "b", size=f"{given.size}B")],
            protocol="linux-cubic",
            timestamps=timestamps,
            duration=f"{given.seconds}s",
            rto_min="20ms",
            rto_initial="1s",
            rto_granularity=f"{time.clock_getres(COARSE)}s",
            rwnd=f"{given.window}B",
            read_rate=f"{given.read_rate}bps",
            seed=seed,
        )
        flow = run.flows.row(0, named=True)
        took.append(flow["fct_s"] if flow["complete"] else float("inf"))
    return took


def main() -> int:
    """Both, with and without time stamps."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--transfers", type=int, default=24, help="of the kernel, all at once")
    parser.add_argument("--simulations", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=560, help="how long a transfer may take")
    parser.add_argument("--size", type=int, default=200_000, help="bytes")
    parser.add_argument("--loss", type=float, default=0.3, help="share of the packets lost each way")
    parser.add_argument("--window", type=int, default=20_000, help="bytes that the receiver offers")
    parser.add_argument("--read-rate", type=int, default=1_000_000, help="bit/s")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if os.geteuid() != 0 or not Path("/dev/net/tun").exists():
        print("skipped: needs root and /dev/net/tun")
        return 0
    for timestamps in (True, False):
        for name, took in (
            ("simulated", simulated(given, timestamps)),
            ("kernel", kernel(given, timestamps)),
        ):
            ended = sum(t < float("inf") for t in took)
            quartiles = np.quantile(took, [0.25, 0.5, 0.75], method="lower")
            words = ", ".join(f"{t:.1f}" for t in quartiles)
            print(
                f"time stamps {timestamps}, {name}: {ended} of {len(took)} end; quartiles {words} s",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
