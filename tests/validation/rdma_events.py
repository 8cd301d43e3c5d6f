"""A star of cards and one switch, event by event, in the order of the HPCC group's ns-3: by time, and at one
nanosecond in the order in which events were planned. Written from the description of that code
(docs/validation/hpcc-ns3.md) to find the rule by which penstock differs: `Rules` lists them. It models no
control, DCQCN and HPCC, senders 0 to n-1 with one flow each to the last host, and no loss.

As a program, with `PENSTOCK_RDMA_REFERENCE`: the table of docs/validation/hpcc-ns3.md.
"""

from __future__ import annotations

import csv
import heapq
import itertools
import os
import statistics
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ.get("PENSTOCK_RDMA_REFERENCE", "no-reference"))
LINE = 10**11
DELAY = 1000
PAYLOAD = 1000


@dataclass(frozen=True)
class Rules:
    """What is taken back to penstock's rule, one at a time; all true: as in that code."""

    planned: bool = True
    """Events of one nanosecond in the order in which they were planned; else arrivals first, the packet
    before that took longer, then by number of the link."""
    taken: bool = True
    """A packet takes room until it is taken for service; else until its last bit has left."""
    crossing: bool = True
    """The packet that would cross the threshold goes to the headroom; else to the pool."""
    short: bool = True
    """A pause frame takes 3 ns on the wire, of 43 bytes; else 5."""
    counted: bool = True
    """A pause frame takes the number of a stream, so that the next mark is drawn from the one behind it."""


# ---- the generator -----------------------------------------------------------------------------------------

_MODULI = (4294967087, 4294944443)
_STEP = (
    [[0, 1, 0], [0, 0, 1], [_MODULI[0] - 810728, 1403580, 0]],
    [[0, 1, 0], [0, 0, 1], [_MODULI[1] - 1370589, 0, 527612]],
)
Matrices = tuple[list[list[int]], list[list[int]]]


def _times(a: list[list[int]], b: list[list[int]], m: int) -> list[list[int]]:
    return [[sum(a[i][k] * b[k][j] for k in range(3)) % m for j in range(3)] for i in range(3)]


def _product(a: Matrices, b: Matrices) -> Matrices:
    return (_times(a[0], b[0], _MODULI[0]), _times(a[1], b[1], _MODULI[1]))


def _applied(a: Matrices, state: list[list[int]]) -> list[list[int]]:
    return [
        [sum(x * y for x, y in zip(row, part, strict=True)) % m for row in matrix]
        for matrix, part, m in zip(a, state, _MODULI, strict=True)
    ]


def _jump(power: int) -> Matrices:
    jump = _STEP
    for _ in range(power):
        jump = _product(jump, jump)
    return jump


def draws(stream: int, run: int) -> Iterator[float]:
    """The first numbers of MRG32k3a's streams, from `stream` on, in ns-3's run `run`."""
    to_next, once = _jump(127), _jump(76)
    to_run = once
    for _ in range(run - 1):
        to_run = _product(to_run, once)
    state = [[1, 1, 1], [1, 1, 1]]
    for number in itertools.count():
        if number >= stream:
            x, y = (part[2] for part in _applied(_STEP, _applied(to_run, state)))
            yield (x - y if x > y else x + _MODULI[0] - y) * 2.328306549295728e-10
        state = _applied(to_next, state)


# ---- the star ----------------------------------------------------------------------------------------------


def time_of(size: int, rate: int) -> int:
    """Nanoseconds that `size` bytes take: cut off, one less where there is nothing to cut off."""
    return -(-size * 8 * 10**9 // rate) - 1


class Sender:
    """A card with its one pair."""

    def __init__(self, size: int) -> None:
        """A pair that has `size` bytes to send."""
        self.size, self.next, self.acked = size, 0, 0
        self.busy = self.paused = self.over = False
        self.begun = False
        self.next_at = 0
        self.wake: list[Any] | None = None
        self.rate = self.reference = LINE
        # DCQCN.
        self.alpha, self.target, self.stage = 1.0, LINE, 0
        self.marked_alpha = self.marked_cut = False
        self.first_mark = True
        self.increase = 0
        # HPCC.
        self.load, self.updated = 1.0, 0
        self.told: tuple[int, int, int] | None = None


class Star:
    """`law`: none, dcqcn, dcqcn_paper, hpcc, hpcc_mi5. `buffer`: bytes, for pause frames; without, none."""

    WINDOW, BASE_RTT, ETA, AI = 52_000, 4160, 0.95, 40_000_000
    SENT_UNIT, QUEUE_UNIT = 512, 320
    KMIN, KMAX, PMAX = 400_000, 1_600_000, 0.2
    HEADROOM, RESERVE, GAP = 37_500, 4096, 3072

    def __init__(
        self,
        law: str,
        starts: list[int],
        size: int,
        *,
        rules: Rules = Rules(),
        buffer: int | None = None,
        marks: Iterator[float] | None = None,
    ) -> None:
        """Senders begin at `starts`, in ns; `marks`: what the switch draws."""
        self.rules, self.hpcc = rules, law.startswith("hpcc")
        self.timers = {"dcqcn": (1000, 4000, 300_000), "dcqcn_paper": (50_000, 50_000, 55_000)}.get(law)
        self.max_stage = 5 if law == "hpcc_mi5" else 0
        self.marks = marks if marks is not None else iter(())
        self.now = self.count = 0
        self.events: list[list[Any]] = []
        self.wire = 1090 if self.hpcc else 1048
        self.takes, self.ack_takes = time_of(self.wire, LINE), time_of(88 if self.hpcc else 60, LINE)
        n = len(starts)
        self.senders = [Sender(size) for _ in starts]
        self.pool = None if buffer is None else buffer - (n + 1) * (self.HEADROOM + self.RESERVE)
        self.pool_used = 0
        self.held, self.headroom = [0] * n, [0] * n
        self.stopped = [False] * n
        self.queue: deque[tuple[int, int]] = deque()
        self.queue_bytes = self.largest_queue = self.sent = 0
        self.serving: int | None = None
        self.answers: deque[tuple[Any, ...]] = deque()
        self.answering = False
        self.back: list[deque[tuple[int, tuple[Any, ...]]]] = [deque() for _ in starts]
        self.back_busy = [False] * n
        #: Pause frames as they arrive: time, host, whether it stops.
        self.frames: list[tuple[int, int, bool]] = []
        #: When the last byte of each flow arrived.
        self.ends: dict[int, int] = {}
        self.samples: list[tuple[int, ...]] = []
        for i, at in enumerate(starts):
            self.plan(at, self.begin, i)

    def plan(
        self, after: int, act: Callable[..., None], *what: Any, link: int = 0, takes: int = 0
    ) -> list[Any]:
        """An event; of an arrival, the link and what the transmission took."""
        key = (0, 0, 0, self.count)
        if not self.rules.planned:
            key = (0, -takes, link, self.count) if link else (1, 0, 0, self.count)
        event = [self.now + after, key, act, what]
        self.count += 1
        heapq.heappush(self.events, event)
        return event

    def run(self, end: int | None = None, sample: int | None = None) -> Star:
        """Until nothing happens any more, or to `end`; rates are kept each `sample` ns."""
        if sample is not None:
            self.plan(0, self.sample, sample)
        while self.events:
            event = heapq.heappop(self.events)
            if end is not None and event[0] > end:
                break
            self.now = event[0]
            event[2](*event[3])
        return self

    def sample(self, step: int) -> None:
        self.samples.append((self.now, *(s.rate for s in self.senders)))
        self.plan(step, self.sample, step)

    # ---- cards ---------------------------------------------------------------------------------------------

    def begin(self, i: int) -> None:
        self.senders[i].begun = True
        self.go(i)

    def go(self, i: int) -> None:
        s = self.senders[i]
        if s.busy or not s.begun or s.over or s.next >= s.size:
            return
        window = max(1, self.WINDOW * s.rate // LINE)
        if not s.paused and s.next_at <= self.now and (not self.hpcc or s.next - s.acked < window):
            s.busy = True
            s.next += PAYLOAD
            s.next_at = self.now + time_of(self.wire, s.rate)
            self.plan(self.takes, self.sent_all, i)
            self.plan(self.takes + DELAY, self.arrive, i, s.next, link=i + 1, takes=self.takes)
        elif s.next_at > self.now and s.wake is None:
            s.wake = self.plan(s.next_at - self.now, self.woken, i)

    def sent_all(self, i: int) -> None:
        self.senders[i].busy = False
        self.go(i)

    def woken(self, i: int) -> None:
        self.senders[i].wake = None
        self.go(i)

    def receive(self, i: int, what: tuple[Any, ...]) -> None:
        s = self.senders[i]
        if what[0] == "pause":
            self.frames.append((self.now, i, what[1]))
            s.paused = what[1]
            if not s.paused:
                self.go(i)
            return
        _, acked, marked, told = what
        s.acked = acked
        if acked >= s.size:
            s.over = True
        elif self.hpcc:
            self.hpcc_ack(i, told)
        elif self.timers and marked:
            self.dcqcn_mark(i)
        self.go(i)

    # ---- laws ----------------------------------------------------------------------------------------------

    def dcqcn_mark(self, i: int) -> None:
        s = self.senders[i]
        assert self.timers is not None
        s.marked_alpha = s.marked_cut = True
        if s.first_mark:
            s.first_mark = s.marked_alpha = False
            self.plan(self.timers[0], self.dcqcn_alpha, i)
            self.plan(self.timers[1] + 1, self.dcqcn_cut, i)
            s.target = s.rate

    def dcqcn_alpha(self, i: int) -> None:
        s = self.senders[i]
        assert self.timers is not None
        if not s.over:
            s.alpha = (1 - 1 / 256) * s.alpha + (1 / 256 if s.marked_alpha else 0.0)
            s.marked_alpha = False
            self.plan(self.timers[0], self.dcqcn_alpha, i)

    def dcqcn_cut(self, i: int) -> None:
        s = self.senders[i]
        assert self.timers is not None
        if s.over:
            return
        self.plan(self.timers[1], self.dcqcn_cut, i)
        if s.marked_cut:
            if s.stage != 0:
                s.target = s.rate
            s.rate = max(10**9, int(s.rate * (1 - s.alpha / 2)))
            s.stage, s.marked_cut = 0, False
            s.increase += 1
            self.plan(self.timers[2], self.dcqcn_increase, i, s.increase)

    def dcqcn_increase(self, i: int, number: int) -> None:
        s = self.senders[i]
        assert self.timers is not None
        if s.over or number != s.increase:
            return
        self.plan(self.timers[2], self.dcqcn_increase, i, number)
        if s.stage >= 1:
            s.target = min(LINE, s.target + (20_000_000 if s.stage == 1 else 200_000_000))
        s.rate = s.rate // 2 + s.target // 2
        s.stage += 1

    def hpcc_ack(self, i: int, told: tuple[int, int, int]) -> None:
        s = self.senders[i]
        full = s.acked > s.updated
        if s.told is None:
            s.updated, s.told = s.next, told
            return
        tau = told[0] - s.told[0]
        load = (told[1] - s.told[1]) * self.SENT_UNIT * 8 / (tau * 1e-9) / LINE
        load += min(told[2], s.told[2]) * self.QUEUE_UNIT / self.WINDOW
        s.told, tau = told, min(tau, self.BASE_RTT)
        s.load = (s.load * (self.BASE_RTT - tau) + load * tau) / self.BASE_RTT
        c = s.load / self.ETA
        cut = c >= 1 or s.stage >= self.max_stage
        rate = min(max((int(s.reference / c) if cut else s.reference) + self.AI, 10**9), LINE)
        s.next_at += time_of(self.wire, rate) - time_of(self.wire, s.rate)
        if s.wake is not None and s.next_at < s.wake[0]:
            s.wake[2] = lambda _: None
            s.wake = self.plan(max(0, s.next_at - self.now), self.woken, i)
        s.rate = rate
        if full:
            s.reference, s.updated = rate, max(s.updated, s.next)
            s.stage = 0 if cut else s.stage + 1

    # ---- the switch ----------------------------------------------------------------------------------------

    def threshold(self) -> int:
        assert self.pool is not None
        return (self.pool - self.pool_used) >> 2

    def shared(self, i: int) -> int:
        return max(0, self.held[i] - self.RESERVE)

    def arrive(self, i: int, end: int) -> None:
        if self.pool is not None:
            self.take_in(i)
        self.queue.append((i, end))
        self.queue_bytes += self.wire
        self.largest_queue = max(self.largest_queue, self.queue_bytes)
        self.serve()

    def take_in(self, i: int) -> None:
        after = self.held[i] + self.wire - self.RESERVE
        over = after > self.threshold() if self.rules.crossing else self.shared(i) >= self.threshold()
        if after > 0 and over:
            self.headroom[i] += self.wire
            assert self.headroom[i] <= self.HEADROOM, "a packet is lost"
        else:
            self.held[i] += self.wire
            self.pool_used += max(0, min(self.wire, after))
        if not self.stopped[i] and (self.headroom[i] > 0 or self.shared(i) >= self.threshold()):
            self.signal(i, True)

    def give_back(self, i: int) -> None:
        from_headroom = min(self.headroom[i], self.wire)
        self.headroom[i] -= from_headroom
        left = self.wire - from_headroom
        self.pool_used -= min(left, self.shared(i))
        self.held[i] -= left
        shared = self.shared(i)
        low = shared == 0 or shared + self.GAP <= self.threshold()
        if self.stopped[i] and self.headroom[i] == 0 and low:
            self.signal(i, False)

    def signal(self, i: int, stops: bool) -> None:
        self.stopped[i] = stops
        if self.rules.counted:
            next(self.marks, None)
        self.back[i].append((3 if self.rules.short else 5, ("pause", stops)))
        self.send_back(i)

    def serve(self) -> None:
        if self.serving is not None or not self.queue:
            return
        i, end = self.queue.popleft()
        self.serving = i
        self.queue_bytes -= self.wire
        marked = False
        if self.timers:
            marked = self.queue_bytes > self.KMAX
            if not marked and self.queue_bytes > self.KMIN:
                ramp = (self.queue_bytes - self.KMIN) / (self.KMAX - self.KMIN)
                marked = next(self.marks) < self.PMAX * ramp
        told = (self.now, self.sent // self.SENT_UNIT, self.queue_bytes // self.QUEUE_UNIT)
        self.sent += self.wire
        if self.pool is not None and self.rules.taken:
            self.give_back(i)
        self.plan(self.takes, self.served)
        self.plan(self.takes + DELAY, self.deliver, i, end, marked, told, link=999, takes=self.takes)

    def served(self) -> None:
        i, self.serving = self.serving, None
        if i is not None and self.pool is not None and not self.rules.taken:
            self.give_back(i)
        self.serve()

    def send_back(self, i: int) -> None:
        if not self.back_busy[i] and self.back[i]:
            takes, what = self.back[i].popleft()
            self.back_busy[i] = True
            self.plan(takes, self.sent_back, i)
            self.plan(takes + DELAY, self.receive, i, what, link=100 + i, takes=takes)

    def sent_back(self, i: int) -> None:
        self.back_busy[i] = False
        self.send_back(i)

    # ---- the receiver --------------------------------------------------------------------------------------

    def deliver(self, i: int, end: int, marked: bool, told: tuple[int, int, int]) -> None:
        if end == self.senders[i].size:
            self.ends[i] = self.now
        self.answers.append((i, ("ack", end, marked, told)))
        self.answer()

    def answer(self) -> None:
        if not self.answering and self.answers:
            i, what = self.answers.popleft()
            self.answering = True
            self.plan(self.ack_takes, self.answered)
            self.plan(self.ack_takes + DELAY, self.pass_back, i, what, link=998, takes=self.ack_takes)

    def answered(self) -> None:
        self.answering = False
        self.answer()

    def pass_back(self, i: int, what: tuple[Any, ...]) -> None:
        self.back[i].append((self.ack_takes, what))
        self.send_back(i)


# ---- against the reference ---------------------------------------------------------------------------------


def incast(law: str, buffer: str, rules: Rules = Rules(), run: int = 1) -> Star:
    """The reference's run `b_buf2M_LAW` or `b_buf32M_LAW`; stream 110 is its first with 18 nodes."""
    size = {"2M": 2 << 20, "32M": None}[buffer]
    marks = draws(110, run) if law.startswith("dcqcn") else None
    return Star(law, [0] * 16, 500_000, rules=rules, buffer=size, marks=marks).run()


def frames(law: str) -> list[tuple[int, int, bool]]:
    """Its pause frames, from the beginning of the flows on."""
    with (FOLDER / "new" / f"b_buf2M_{law}_pfc.csv").open() as file:
        rows = list(csv.DictReader(file))
    return [
        (int(r["t_ns"]) - 10**6, int(r["node_receiving_frame"]), r["type_1pause_0resume"] == "1")
        for r in rows
    ]


def ends(run: str) -> dict[int, int]:
    """Its completion times by flow, of `b_buf2M_none` and the like."""
    with (FOLDER / "new" / "b_fct.csv").open() as file:
        return {int(r["flow"]): int(r["fct_ns"]) for r in csv.DictReader(file) if r["run"] == run}


def joining(name: str, rules: Rules = Rules()) -> tuple[Star, float]:
    """Two flows of HPCC, `fine2_hpcc` or `2join_hpcc`: the largest difference of a rate and the mean one, as
    shares of the link."""
    with (FOLDER / "new" / f"a_{name}.csv").open() as file:
        rows = list(csv.DictReader(file))
    setup, _, law = name.partition("_")
    step, second = (1000, 0) if setup == "fine2" else (10_000, 10**6)
    star = Star(law, [0, second], 150_000_000, rules=rules).run(end=step * (len(rows) - 1), sample=step)
    off = []
    for (_, *rates), row in zip(star.samples, rows, strict=True):
        given = [row["rate_Mbps_0"], row["rate_Mbps_1"]]
        off += [abs(r - 1e6 * float(g)) / LINE for r, g in zip(rates, given, strict=True) if g]
    return star, statistics.mean(off)


def main() -> None:
    """Print what each rule changes."""
    alone = {
        "all as there": Rules(),
        "one nanosecond: arrivals first, by link": Rules(planned=False),
        "room until the last bit has left": Rules(taken=False),
        "the crossing packet to the pool": Rules(crossing=False),
        "a frame takes 5 ns": Rules(short=False),
        "a frame draws nothing": Rules(counted=False),
    }
    for law in ("none", "dcqcn", "dcqcn_paper"):
        given, end = frames(law), ends(f"b_buf2M_{law}")
        for name, rules in alone.items():
            star = incast(law, "2M", rules)
            same = len(set(star.frames) & set(given))
            stops = sum(stops for _, _, stops in star.frames)
            equal = sum(star.ends[i] == end[i] for i in end)
            print(
                f"{law:12} {name:42} {stops} stops, {same} of {len(given)} frames, {equal} of 16 ends",
                flush=True,
            )
    for law, planned in itertools.product(("dcqcn", "dcqcn_paper"), (True, False)):
        stars = [incast(law, "2M", Rules(planned=planned), run) for run in range(1, 11)]
        of = [sum(stops for _, _, stops in star.frames) for star in stars]
        last = [max(star.ends.values()) / 1e3 for star in stars]
        mean, spread = statistics.mean(last), statistics.stdev(last)
        told = f"mean {statistics.mean(of):.1f}, last {mean:.1f} us, standard deviation {spread:.1f}"
        name = "all as there" if planned else "arrivals by link"
        print(f"{law}, {name}: runs 1 to 10: stops {of}, {told}", flush=True)
    for law in ("hpcc", "dcqcn"):
        end = ends(f"b_buf32M_{law}")
        for name, rules in list(alone.items())[:2]:
            star = incast(law, "32M", rules)
            equal = sum(star.ends[i] == end[i] for i in end)
            first, last_end = min(star.ends.values()) / 1e3, max(star.ends.values()) / 1e3
            print(f"{law:12} 32 MiB {name:42} {equal} of 16 ends; {first:.1f}, {last_end:.1f} us", flush=True)
    for run in ("fine2_hpcc", "fine2_hpcc_mi5", "2join_hpcc", "2join_hpcc_mi5"):
        for name, rules in list(alone.items())[:2]:
            print(f"{run:16} {name:42} rates {100 * joining(run, rules)[1]:.3f} % off", flush=True)


if __name__ == "__main__":
    main()
