"""m3's three hosts and one switch, event by event, for DCQCN: as `rdma_events`, with cards that have many
pairs and hosts that send and receive. Buffers without end and no pause, as found by who re-ran the shards.

As a program, with `PENSTOCK_RDMA_REFERENCE`: the flows of every shard of DCQCN that end as published.
"""

from __future__ import annotations

import csv
import heapq
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from rdma_events import DELAY, FOLDER, draws, time_of
from rdma_reference import begun

#: Host 0, 1 and 2.
RATES = (10**10, 10**14, 10**10)
PAYLOAD, HEADER, ACK = 1000, 48, 60
#: The first stream with 4 nodes.
STREAM = 26


class Pair:
    """A queue pair, and its receiver."""

    def __init__(self, number: int, src: int, dst: int, size: int, rate: int, now: int) -> None:
        """A pair that begins at `now` with `rate`."""
        self.number, self.src, self.dst, self.size = number, src, dst, size
        self.next = self.acked = self.received = 0
        self.rate, self.target, self.alpha = rate, RATES[src], 1.0
        self.began = self.next_at = now
        self.marked_alpha = self.marked_cut = False
        self.first_mark = True
        self.stage = self.increase = 0
        #: The card takes it off its list when it comes across it.
        self.goes = False

    @property
    def over(self) -> bool:
        """Everything is acknowledged."""
        return self.acked >= self.size


class Shard:
    """A shard of DCQCN. `arrivals_by_link`: at the switch, of one nanosecond arrivals come first, the packet
    before that took longer, then by number of the link; else everything as it was planned. `goes_late`: a
    pair goes from the card's list in the walk behind the one that its last ACK causes; else in that one.
    """

    def __init__(self, number: int, *, arrivals_by_link: bool = False, goes_late: bool = False) -> None:
        """Shard `number` of the reference's folder."""
        with (FOLDER / "m3_shards" / "scenarios.csv").open() as file:
            row = next(r for r in csv.DictReader(file) if int(r["shard"]) == number)
        with (FOLDER / "m3_shards" / f"flows_{number}.csv").open() as file:
            self.flows = list(csv.DictReader(file))
        if row["cc_mode"] != "1":
            raise ValueError("a shard of another law")
        self.begun = [int(ns) for ns in begun([int(f["start_ns"]) for f in self.flows])]
        self.by_link, self.goes_late = arrivals_by_link, goes_late
        self.rate_max, self.rate_min = (int(1e6 * float(row[f"{m}_rate_Mbps"])) for m in ("max", "min"))
        self.alpha_timer = round(1000 * float(row["alpha_resume_us"]))
        self.cut_timer = round(1000 * float(row["rate_decrease_us"]))
        self.increase_timer = round(1000 * float(row["rp_timer_us"]))
        self.g, self.fast = float(row["ewma_g"]), int(row["fast_recovery_times"])
        self.steps = tuple(int(1e6 * float(row[f"rate_{kind}_Mbps"])) for kind in ("ai", "hai"))
        self.kmin, self.kmax = (int(1000 * float(row[f"{k}_kB_10G"])) for k in ("kmin", "kmax"))
        self.pmax, self.window = float(row["pmax_10G"]), int(row["window_bytes"])
        self.by_rate, self.acks_first = row["var_win"] == "1", row["ack_high_prio"] == "1"
        self.marks = draws(STREAM, 1)
        self.now = self.count = 0
        self.events: list[tuple[int, tuple[int, ...], Callable[..., None], tuple[Any, ...]]] = []
        self.busy, self.waked, self.last = [False] * 3, [False] * 3, [0] * 3
        self.acks: list[deque[tuple[Any, ...]]] = [deque() for _ in RATES]
        self.pairs: list[list[Pair]] = [[], [], []]
        # Of the switch's ports: what goes first, the others, their bytes.
        self.first: list[deque[tuple[int, tuple[Any, ...]]]] = [deque() for _ in RATES]
        self.queue: list[deque[tuple[int, tuple[Any, ...]]]] = [deque() for _ in RATES]
        self.bytes, self.serving = [0] * 3, [False] * 3
        #: Completion time of each flow.
        self.took: dict[int, int] = {}
        self.plan(self.begun[0], self.feed, 0)

    def plan(self, after: int, act: Callable[..., None], *what: Any, link: int = 0, takes: int = 0) -> None:
        key: tuple[int, ...] = (self.count,)
        if self.by_link:
            key = (0, -takes, link, self.count) if link else (1, 0, 0, self.count)
        heapq.heappush(self.events, (self.now + after, key, act, what))
        self.count += 1

    def run(self) -> Shard:
        """Until every flow has ended."""
        while self.events:
            self.now, _, act, what = heapq.heappop(self.events)
            act(*what)
        return self

    def as_published(self) -> int:
        """Flows that end within the 2 ns by which the reference's own runs differ."""
        return sum(abs(self.took[i] - int(f["fct_ns"])) <= 2 for i, f in enumerate(self.flows))

    def errors(self) -> list[float]:
        """Of the completion times, sorted."""
        given = [int(f["fct_ns"]) for f in self.flows]
        return sorted(abs(self.took[i] - ns) / ns for i, ns in enumerate(given))

    # ---- flows and cards -----------------------------------------------------------------------------------

    def feed(self, i: int) -> None:
        while i < len(self.flows) and self.begun[i] == self.now:
            # Begun by an event of this very instant.
            self.plan(0, self.begin, i)
            i += 1
        if i < len(self.flows):
            self.plan(self.begun[i] - self.now, self.feed, i)

    def begin(self, i: int) -> None:
        src, dst, size = (int(self.flows[i][key]) for key in ("src", "dst", "size_bytes"))
        self.pairs[src].append(Pair(i, src, dst, size, min(RATES[src], self.rate_max), self.now))
        self.go(src)

    def window_of(self, pair: Pair) -> int:
        return max(1, self.window * pair.rate // self.rate_max) if self.by_rate else self.window

    def chosen(self, host: int) -> Pair | None:
        """The pair whose turn it is; pairs that are over go when the walk comes across one."""
        pairs, n = self.pairs[host], len(self.pairs[host])
        found, over = None, None
        for k in range(1, n + 1):
            at = (k + self.last[host]) % n
            pair = pairs[at]
            if pair.next < pair.size and pair.next - pair.acked < self.window_of(pair):
                if pair.next_at <= self.now:
                    found = at
                    break
            elif pair.goes:
                over = at if over is None else min(over, at)
        chosen = None if found is None else pairs[found]
        if over is not None:
            pairs[over:] = [p for p in pairs[over:] if not p.goes]
        if chosen is not None:
            self.last[host] = pairs.index(chosen)
        return chosen

    def go(self, host: int) -> None:
        if self.busy[host]:
            return
        if self.acks[host]:
            self.send(host, ACK, self.acks[host].popleft())
            return
        pair = self.chosen(host)
        if pair is not None:
            payload = min(PAYLOAD, pair.size - pair.next)
            pair.next += payload
            pair.next_at = self.now + max(0, time_of(payload + HEADER, pair.rate))
            self.send(host, payload + HEADER, ("data", pair, pair.next, False))
            return
        first = min((p.next_at for p in self.pairs[host] if p.next < p.size), default=0)
        if first > self.now and not self.waked[host]:
            self.waked[host] = True
            self.plan(first - self.now, self.woken, host)

    def woken(self, host: int) -> None:
        self.waked[host] = False
        self.go(host)

    def send(self, host: int, size: int, packet: tuple[Any, ...]) -> None:
        self.busy[host] = True
        takes = max(0, time_of(size, RATES[host]))
        self.plan(takes, self.sent, host)
        self.plan(takes + DELAY, self.arrive, size, packet, link=host + 1, takes=takes)

    def sent(self, host: int) -> None:
        self.busy[host] = False
        self.go(host)

    def receive(self, host: int, packet: tuple[Any, ...]) -> None:
        kind, pair, end, marked = packet
        if kind == "data":
            pair.received = end
            if end == pair.size:
                self.took[pair.number] = self.now - pair.began
            self.acks[host].append(("ack", pair, end, marked))
        else:
            pair.acked = end
            pair.goes = pair.over and not self.goes_late
            if marked and not pair.over:
                self.mark(pair)
        self.go(host)
        if kind == "ack":
            pair.goes = pair.over

    # ---- the law -------------------------------------------------------------------------------------------

    def mark(self, pair: Pair) -> None:
        pair.marked_alpha = pair.marked_cut = True
        if pair.first_mark:
            pair.first_mark = pair.marked_alpha = False
            self.plan(self.alpha_timer, self.alpha, pair)
            self.plan(self.cut_timer + 1, self.cut, pair)
            pair.target = pair.rate

    def alpha(self, pair: Pair) -> None:
        if not pair.over:
            pair.alpha = (1 - self.g) * pair.alpha + (self.g if pair.marked_alpha else 0.0)
            pair.marked_alpha = False
            self.plan(self.alpha_timer, self.alpha, pair)

    def cut(self, pair: Pair) -> None:
        if pair.over:
            return
        self.plan(self.cut_timer, self.cut, pair)
        if pair.marked_cut:
            if pair.stage != 0:
                pair.target = pair.rate
            pair.rate = max(self.rate_min, int(pair.rate * (1 - pair.alpha / 2)))
            pair.stage, pair.marked_cut = 0, False
            pair.increase += 1
            self.plan(self.increase_timer, self.increase, pair, pair.increase)

    def increase(self, pair: Pair, number: int) -> None:
        if pair.over or number != pair.increase:
            return
        self.plan(self.increase_timer, self.increase, pair, number)
        if pair.stage >= self.fast:
            step = self.steps[0 if pair.stage == self.fast else 1]
            pair.target = min(RATES[pair.src], pair.target + step)
        pair.rate = pair.rate // 2 + pair.target // 2
        pair.stage += 1

    # ---- the switch ----------------------------------------------------------------------------------------

    def arrive(self, size: int, packet: tuple[Any, ...]) -> None:
        kind, pair, _, _ = packet
        port = pair.dst if kind == "data" else pair.src
        if kind == "ack" and self.acks_first:
            self.first[port].append((size, packet))
        else:
            self.queue[port].append((size, packet))
            self.bytes[port] += size
        self.serve(port)

    def serve(self, port: int) -> None:
        if self.serving[port]:
            return
        if self.first[port]:
            size, packet = self.first[port].popleft()
        elif self.queue[port]:
            size, packet = self.queue[port].popleft()
            self.bytes[port] -= size
            kind, pair, end, _ = packet
            if self.marked(port) and kind == "data":
                packet = (kind, pair, end, True)
        else:
            return
        self.serving[port] = True
        takes = max(0, time_of(size, RATES[port]))
        self.plan(takes, self.served, port)
        self.plan(takes + DELAY, self.receive, port, packet, link=port + 11, takes=takes)

    def marked(self, port: int) -> bool:
        left = self.bytes[port]
        # The public code has no thresholds for a rate of 100 Tb/s.
        kmin, kmax = (0, 0) if port == 1 else (self.kmin, self.kmax)
        if left > kmax or left <= kmin:
            return left > kmax
        return next(self.marks) < self.pmax * (left - kmin) / (kmax - kmin)

    def served(self, port: int) -> None:
        self.serving[port] = False
        self.serve(port)


def shards() -> list[int]:
    """Those of DCQCN."""
    with (FOLDER / "m3_shards" / "scenarios.csv").open() as file:
        return [int(r["shard"]) for r in csv.DictReader(file) if r["cc_mode"] == "1"]


if __name__ == "__main__":
    for number in shards():
        all_rules, by_link, late = (
            Shard(number, **rule).run() for rule in ({}, {"arrivals_by_link": True}, {"goes_late": True})
        )
        found = " and ".join(str(shard.as_published()) for shard in (all_rules, by_link))
        tail = np.percentile(late.errors(), 99)
        gone = f"{late.as_published()}, 99th percentile of the error {100 * tail:.2f} %"
        print(f"shard {number}: {found} of {len(late.flows)} flows; pairs go late: {gone}", flush=True)
