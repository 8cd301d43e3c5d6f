"""The fluid model of DCTCP and DT-DCTCP: three delay-differential equations, solved for many cases at once.

Source: DT-DCTCP paper, equations (1)-(3), after Alizadeh, Javanmard and Prabhakar (SIGMETRICS 2011).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from penstock.models.marking import Marking
from penstock.models.spectrum import Cycle, cycle

Floats = NDArray[np.float64]

# Window at which dW/dt = 0 when every packet is marked (alpha = p = 1): the equations cannot go below it.
WINDOW_FLOOR = 2.0

# Whether the window grows on every ACK, equation (1) as printed, or only on unmarked ones.
GROWTH = ("always", "unmarked")

# Packets arrive at rate N W/R, equation (3), or are conserved: N W are in flight, the pipe holds C d of them
# and the queue the rest.
INFLOW = ("rate", "window")


def operating_mark(window: ArrayLike, growth: str = "always") -> Floats:
    """Marked share p_0 = alpha_0 at which a window (packets) stands still; above 1 there is no such point.

    `always`: sqrt(2/W_0), below equation (9). `unmarked`: 1 - p = W_0 p^2/2, always below 1. Raises
    ValueError for another `growth`.
    """
    w = np.asarray(window, float)
    if growth not in GROWTH:
        raise ValueError(f"growth: got {growth!r}; must be one of {', '.join(GROWTH)}")
    return np.sqrt(WINDOW_FLOOR / w) if growth == "always" else (np.sqrt(1 + 2 * w) - 1) / w


@dataclass(frozen=True)
class Link:
    """A bottleneck and the flows across it; every field is a scalar or an array that broadcasts.

    Args:
        capacity: packets per second.
        base_rtt: round-trip time with an empty queue, `d` (s).
        flows: number of long flows, `N`.
        g: weight of a new sample in the marked-fraction average, (0, 1].

    Raises:
        ValueError: a field is outside its range.
    """

    capacity: ArrayLike
    base_rtt: ArrayLike
    flows: ArrayLike
    g: ArrayLike = 1 / 16

    def __post_init__(self) -> None:
        for name in ("capacity", "base_rtt", "flows", "g"):
            value = np.asarray(getattr(self, name), float)
            if not np.all(np.isfinite(value) & (value > 0)):
                raise ValueError(f"{name}: got {getattr(self, name)!r}; must be positive and finite")
        if np.any(np.asarray(self.g, float) > 1):
            raise ValueError(f"g: got {self.g!r}; must be at most 1")

    @classmethod
    def of(
        cls,
        rate_bps: ArrayLike,
        packet_bytes: ArrayLike,
        base_rtt: ArrayLike,
        flows: ArrayLike,
        g: ArrayLike = 1 / 16,
    ) -> Link:
        """A link given in bit/s, with packets of `packet_bytes` on the wire."""
        return cls(np.asarray(rate_bps, float) / (8 * np.asarray(packet_bytes, float)), base_rtt, flows, g)

    def rtt_at(self, queue: ArrayLike) -> Floats:
        """R(t) = d + q/C (s) for a queue in packets."""
        return np.asarray(self.base_rtt, float) + np.asarray(queue, float) / np.asarray(self.capacity, float)

    def window_at(self, queue: ArrayLike) -> Floats:
        """Window W_0 = R_0 C / N (packets) that keeps the link just full at a queue in packets."""
        return self.rtt_at(queue) * np.asarray(self.capacity, float) / np.asarray(self.flows, float)


@dataclass(frozen=True)
class Trajectory:
    """A solution of the fluid equations.

    Attributes:
        interval: time between samples, one per case (s), shape (cases,).
        queue, window, alpha: shape (samples, cases); packets, packets, 0..1.
        marked: fraction of the preceding sample interval during which the switch marked, same shape.
        utilisation: share of the capacity used over the whole recorded time, shape (cases,).
    """

    interval: Floats
    queue: Floats
    window: Floats
    alpha: Floats
    marked: Floats
    utilisation: Floats

    @property
    def time(self) -> Floats:
        """Time of each sample since recording began (s), shape (samples, cases)."""
        return np.arange(self.queue.shape[0])[:, None] * self.interval

    def cycle(self) -> Cycle:
        """Mean, deviation, frequency and amplitude of each case's queue."""
        return cycle(self.queue, self.interval)


def solve(
    link: Link,
    marking: Marking,
    *,
    round_trips: float = 300.0,
    warmup: float = 200.0,
    steps: int = 40,
    rtt: str = "queue",
    delay: str = "fixed",
    growth: str = "always",
    inflow: str = "rate",
    whole: bool = False,
    reference: ArrayLike | None = None,
    window: ArrayLike | None = None,
    queue: ArrayLike = 0.0,
    alpha: ArrayLike | None = None,
) -> Trajectory:
    """Solve equations (1)-(3) for every case in `link` and `marking` at once.

    Args:
        link, marking: the cases; scalars and arrays broadcast to shape (cases,).
        round_trips, warmup: recorded and discarded time, in units of R_0.
        steps: steps per R_0. The global error falls with its square.
        rtt: `queue` for R(t) = d + q(t)/C in the equations, which the paper's linearised (12) needs; `fixed`
            for R(t) = R_0, the simplification of the paper's text.
        delay: `fixed` for marks that act R_0 later; `queue` for marks that act d + q/C later, q being the
            queue the marked packet joined.
        growth: `always` as printed in (1); `unmarked` for senders that do not grow their window on marked
            ACKs (RFC 3168 section 6.1.2), dW/dt = (1 - p)/R - W alpha p/(2R).
        inflow: `rate` for equation (3); `window` for packets that are conserved, q = N W - C d: a sender that
            cuts its window falls silent until enough ACKs came, so the queue follows at once (at most as fast
            as the link drains it) and not with the lag R_0 of (3). The initial queue follows the window.
        whole: count what the equations round off in a real sender. It keeps whole packets in flight, on
            average W - 1/2 of a window W; and it cuts at the first mark it hears, then once per round trip
            while marks last, where (1) cuts at an even pace: L round trips of marks cost up to L + 1 cuts.
        reference: queue (packets) of R_0 = d + reference/C; the centre of the thresholds when omitted.
        window, queue, alpha: initial values (packets, packets, 0..1); the operating point, an empty queue,
            and the operating point when omitted.

    Returns:
        Trajectory.

    Raises:
        ValueError: an argument outside its range, or shapes that do not broadcast.

    Method: Heun's second-order step on W, alpha and q. Marking is a function of the queue alone, so the
    marked share of each past step follows from the queue's straight line through it; thresholds are hit
    inside steps, not at their ends. It enters the step it acts in as its mean. A queue that would go negative
    is held at zero and the capacity it could not use is counted.
    """
    for name, value, allowed in (
        ("rtt", rtt, ("queue", "fixed")),
        ("delay", delay, ("fixed", "queue")),
        ("growth", growth, GROWTH),
        ("inflow", inflow, INFLOW),
    ):
        if value not in allowed:
            raise ValueError(f"{name}: got {value!r}; must be one of {', '.join(allowed)}")
    if steps < 4:
        raise ValueError(f"steps: got {steps}; must be at least 4 per round trip")
    if round_trips <= 0 or warmup < 0:
        raise ValueError(
            f"round_trips, warmup: got {round_trips}, {warmup}; must be positive and not negative"
        )

    centre = marking.centre if reference is None else np.asarray(reference, float)
    capacity, base_rtt, flows, g, k1, k2, r0 = np.broadcast_arrays(
        *(np.atleast_1d(np.asarray(v, float)) for v in (link.capacity, link.base_rtt, link.flows, link.g)),
        np.atleast_1d(np.asarray(marking.k1, float)),
        np.atleast_1d(np.asarray(marking.k2, float)),
        np.atleast_1d(link.rtt_at(centre)),
    )
    cases = r0.shape
    if len(cases) != 1:
        raise ValueError(f"link, marking: got shape {cases}; cases must be one-dimensional")
    mark = Marking(k1, k2, marking.turn)
    h = r0 / steps
    w0 = r0 * capacity / flows
    w = np.broadcast_to(np.asarray(w0 if window is None else window, float), cases).copy()
    q = np.broadcast_to(np.asarray(queue, float), cases).copy()
    first = np.minimum(1.0, operating_mark(w0, growth)) if alpha is None else alpha
    a = np.broadcast_to(np.asarray(first, float), cases).copy()
    if inflow == "window":
        q = np.maximum(0.0, flows * w - capacity * base_rtt)
    on = mark.start(q)

    skipped, kept = round(warmup * steps), max(1, round(round_trips * steps))
    total = skipped + kept
    out = {name: np.empty((kept, *cases)) for name in ("queue", "window", "alpha", "marked")}
    # Marking integrated over the time it takes effect at the senders: node n of the switch's clock is heard
    # at `heard[n]`, when `dose[n]` seconds of marking have been heard in all.
    heard, dose = np.empty((total + 1, *cases)), np.zeros((total + 1, *cases))
    column = np.arange(cases[0])
    heard[0] = r0 if delay == "fixed" else base_rtt + q / capacity
    # Marks before the start: the initial state, as though the queue had always been there.
    before = on.astype(float)
    pointer = np.zeros(cases, int)
    lost = np.zeros(cases)
    last = np.zeros(cases)

    pause = 0.0 if growth == "always" else 1.0

    # Share of the flows that may cut (not within a round trip of their last cut), and each step's cuts.
    ready, cuts = np.ones(cases), np.zeros((total if whole else 0, *cases))

    def current(q: Floats) -> Floats:
        return base_rtt + q / capacity if rtt == "queue" else r0

    def rates(w: Floats, a: Floats, q: Floats, p: Floats, cut: Floats) -> tuple[Floats, Floats, Floats]:
        r = current(q)
        if whole:
            sent = np.maximum(w - 0.5, 0.5)
            return (
                # One whole cut leaves 1 - alpha/2 of the window.
                (1 - pause * p) * sent / w / r + w * np.log1p(-a / 2) * cut / h,
                g * (p - a) / r,
                flows * sent / r - capacity,
            )
        return (
            (1 - pause * p - w * a * p / 2) / r,  # Eq. (1)
            g * (p - a) / r,  # Eq. (2)
            flows * w / r - capacity,  # Eq. (3)
        )

    for n in range(total):
        if delay == "fixed":
            if n >= steps:
                p = (dose[n - steps + 1] - dose[n - steps]) / h
            else:
                p = before
        else:
            until = (n + 1) * h
            while True:
                # Only nodes up to n exist; a queue that is marked is heard at least base_rtt later.
                behind = (pointer < n) & (heard[np.minimum(pointer + 1, n), column] < until)
                if not behind.any():
                    break
                pointer = pointer + behind
            nxt = np.minimum(pointer + 1, n)
            span = heard[nxt, column] - heard[pointer, column]
            gain = dose[nxt, column] - dose[pointer, column]
            share = np.divide(until - heard[pointer, column], span, out=np.zeros(cases), where=span > 0)
            now = np.where(
                until < heard[0],
                before * (until - heard[0]),
                dose[pointer, column] + gain * np.clip(share, 0, 1),
            )
            if n == 0:
                last = before * -heard[0]
            p = np.clip((now - last) / h, 0.0, 1.0)
            last = now
        cut = p
        if whole:
            # Half a packet's spacing passes before a flow hears the first mark; flows whose round trip is
            # over cut again with their next acknowledgement.
            again = cuts[n - steps] if n >= steps else np.zeros(cases)
            fresh = ready * -np.expm1(-2 * w * p * h / current(q))
            cut = again * p + fresh
            ready = ready - fresh + again * (1 - p)
            cuts[n] = cut
        dw, da, dq = rates(w, a, q, p, cut)
        ew, ea, eq = rates(w + h * dw, a + h * da, np.maximum(q + h * dq, 0.0), p, cut)
        w = w + h / 2 * (dw + ew)
        a = a + h / 2 * (da + ea)
        if inflow == "rate":
            raw = q + h / 2 * (dq + eq)
            after = np.maximum(raw, 0.0)
            idle = after - raw
        else:
            raw = flows * (np.maximum(w - 0.5, 0.5) if whole else w) - capacity * base_rtt
            after = np.maximum(np.maximum(raw, q - capacity * h), 0.0)
            idle = np.maximum(-raw, 0.0) * h / base_rtt
        if n >= skipped:
            lost += idle
        on, fraction = mark.advance(on, q, after)
        q = after
        reach = h if delay == "fixed" else h + 0 * q
        dose[n + 1] = dose[n] + fraction * reach
        if delay == "queue":
            heard[n + 1] = (n + 1) * h + base_rtt + q / capacity
            # The marked share of the arrivals is kept when their delays stretch or shrink.
            dose[n + 1] = dose[n] + fraction * (heard[n + 1] - heard[n])
        if n >= skipped:
            i = n - skipped
            out["queue"][i], out["window"][i], out["alpha"][i], out["marked"][i] = q, w, a, fraction
    return Trajectory(interval=h.copy(), utilisation=1 - lost / (capacity * h * kept), **out)
