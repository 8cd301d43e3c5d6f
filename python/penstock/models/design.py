"""Which marking threshold does my link need? One call over the fluid model and the describing functions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from penstock.models.describing import Verdict, analyse
from penstock.models.fluid import Link, solve
from penstock.models.marking import Marking

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Candidate:
    """One marking rule tried on every flow count; arrays have one entry per flow count.

    Attributes:
        k1, k2: thresholds (packets).
        utilisation: share of the capacity used.
        queue_mean, queue_std, queue_min, queue_max: of the queue over the recorded time (packets).
        steady: whether some packets go unmarked (so that the threshold, not the smallest window, governs) and
            the oscillation has stopped growing.
    """

    k1: float
    k2: float
    utilisation: Floats
    queue_mean: Floats
    queue_std: Floats
    queue_min: Floats
    queue_max: Floats
    steady: NDArray[np.bool_]


@dataclass(frozen=True)
class Advice:
    """The answer of `threshold_for`.

    Attributes:
        marking: the smallest rule that satisfies every condition at every flow count, or None.
        flows: the flow counts, shape (cases,).
        chosen: the candidate of `marking`, or the best one when none satisfies.
        cycles: the corrected describing-function analysis of `chosen` at each flow count.
        candidates: everything that was tried, thresholds ascending.
        text: the answer in one or two sentences, with the reason when there is none.

    It prints as its sentence.
    """

    marking: Marking | None
    flows: Floats
    chosen: Candidate
    cycles: tuple[Verdict, ...]
    candidates: tuple[Candidate, ...]
    text: str

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        # The arrays of some seventy candidates are kilobytes without a reader.
        return f"<Advice: {self.text}>"


def threshold_for(
    rate_bps: float,
    base_rtt: float,
    flows: ArrayLike,
    *,
    band: float = 0.0,
    utilisation: float = 0.99,
    packet_bytes: float = 1500.0,
    buffer_packets: float | None = None,
    g: float = 1 / 16,
    spare_packets: ArrayLike | None = None,
    burst_packets: float = 1.0,
    turn: str = "hold",
    growth: str = "unmarked",
    inflow: str = "window",
) -> Advice:
    """Smallest marking threshold that keeps the link busy and the queue stable.

    Args:
        rate_bps: bottleneck rate (bit/s).
        base_rtt: round-trip time with an empty queue (s).
        flows: number of long flows, one or several counts; the answer holds for all of them.
        band: (K2 - K1)/(K1 + K2): 0 for DCTCP, 0.25 for the paper's (30, 50), negative for K1 > K2.
        utilisation: required share of the capacity, 0..1.
        packet_bytes: packet on the wire.
        buffer_packets: the port's buffer; the queue must stay below it. None: not bounded.
        g: DCTCP's gain.
        spare_packets: how far the fluid queue must stay from empty and full, scalar or one per flow
            count. The fluid has no packets: each real sender rounds its window down to whole ones, which
            costs half a packet on average. Default: half a packet per flow, and away from empty the
            excursions of the bursts.
        burst_packets: packets that leave a sender together, at least 1 (segmentation offload: the `gso`
            of a scenario, `tso_burst`). A sender lets out half of its window at once at most (Linux
            tcp_cwnd_test). What n senders keep back while they wait for their next bursts varies, with a
            standard deviation of sqrt(n/12) bursts. The queue has to hold 2.58 of these, which is enough
            for 99 % of the time. The ACKs that a receiver aggregates add bursts of their own, which the
            model leaves out: packets of Linux use up to 3 % less of the link, up to 1 % less at 1.5 times K.
        turn: the rule for a queue that turns inside a leading band, see `Marking`.
        growth, inflow: `unmarked` and `window`, what DCTCP senders do; `always` and `rate` for the paper's
            equations (1), (3). See `solve`.

    Returns:
        Advice. "Stable" means: the threshold governs (W_0 > 2 packets), the oscillation does not grow, and
        its swing stays `spare_packets` away from empty and from the buffer.

    Raises:
        ValueError: an argument outside its range.
    """
    n = np.atleast_1d(np.asarray(flows, float))
    for name, value in (("rate_bps", rate_bps), ("base_rtt", base_rtt), ("packet_bytes", packet_bytes)):
        if not (np.isfinite(value) and value > 0):
            raise ValueError(f"{name}: got {value!r}; must be positive and finite")
    if n.ndim != 1 or n.size == 0 or np.any(n < 1):
        raise ValueError(f"flows: got {flows!r}; must be one or several counts of at least 1")
    if not -1 < band < 1:
        raise ValueError(f"band: got {band!r}; must be between -1 and 1")
    if not 0 < utilisation <= 1:
        raise ValueError(f"utilisation: got {utilisation!r}; must be above 0 and at most 1")
    if not (np.isfinite(burst_packets) and burst_packets >= 1):
        raise ValueError(f"burst_packets: got {burst_packets!r}; must be a number of at least 1")
    if buffer_packets is not None and buffer_packets <= 1:
        raise ValueError(f"buffer_packets: got {buffer_packets!r}; must be more than one packet")

    bdp = rate_bps * base_rtt / (8 * packet_bytes)
    # From two packets up to where even the largest flow count has room for windows of four packets; steps of
    # about 6 %, finer than the packet at the small end.
    largest = max(4 * bdp, 4 * float(n.max()), 40.0)
    if buffer_packets is not None:
        largest = min(largest, buffer_packets)
    centres = np.unique(np.round(np.geomspace(2.0, max(largest, 3.0), 70)))
    k1, k2 = centres * (1 - band), centres * (1 + band)

    kk1, nn = np.meshgrid(k1, n, indexing="ij")
    kk2, _ = np.meshgrid(k2, n, indexing="ij")
    link = Link.of(rate_bps, packet_bytes, base_rtt, nn.ravel(), g)
    marking = Marking(kk1.ravel(), kk2.ravel(), turn)
    shape = kk1.shape
    # A sender that waits for its next burst keeps between nothing and one burst back, evenly: a standard
    # deviation of 1/sqrt(12) of a burst, and sqrt(n) of that for n senders out of step. Larger windows make
    # up for the mean, because the threshold governs what is in the queue; the excursions empty it.
    window = link.window_at(marking.centre).reshape(shape)
    held = _EXCURSION * np.sqrt(nn / 12) * (np.clip(window / 2, 1, burst_packets) - 1)
    # A round of large windows is slow: sqrt(W_0/2) round trips and as many for the average 1/g.
    slow = float(np.sqrt(np.max(link.window_at(marking.centre))))

    def measure(marking: Marking) -> tuple[Floats, Floats, Floats, Floats, Floats, NDArray[np.bool_]]:
        length = 100 + 10 * slow
        path = solve(link, marking, growth=growth, inflow=inflow, steps=20, warmup=length, round_trips=length)
        q = path.queue
        half = q.shape[0] // 2
        grows = q[half:].std(axis=0) > 1.1 * q[:half].std(axis=0) + 0.1
        # With every packet marked the senders sit at W = 2 and the threshold no longer does anything.
        steady = ~grows & (path.marked.mean(axis=0) < 0.99)
        # Where the queue is shorter than what is kept back, the link is idle for the difference.
        filled = q - held.ravel()
        used = path.utilisation + np.minimum(filled, 0).mean(axis=0) / bdp
        mean = np.maximum(filled, 0).mean(axis=0)
        found = (np.maximum(used, 0), mean, q.std(axis=0), q.min(axis=0), q.max(axis=0), steady)
        return tuple(v.reshape(shape) for v in found)

    used, mean, deviation, low, high, steady = measure(marking)
    if band > 0:
        # A swing that does not cross a leading band settles about either threshold, as history has it: the
        # lower one must do as well.
        u, _, _, least, most, calm = measure(Marking.single(kk1.ravel()))
        used, low, high = np.minimum(used, u), np.minimum(low, least), np.maximum(high, most)
        steady = steady & calm
    spare = np.broadcast_to(np.asarray(n / 2 if spare_packets is None else spare_packets, float), shape)
    if spare_packets is None:
        low_spare = spare + held
    else:
        low_spare = spare
    limit = np.inf if buffer_packets is None else buffer_packets
    conditions = {
        f"utilisation {utilisation:.1%}": used >= utilisation,
        "an oscillation that does not grow, at windows above 2 packets": steady,
        "a queue that never empties": low >= low_spare,
        "a queue that fits the buffer": high <= limit - spare,
    }
    good = np.logical_and.reduce(list(conditions.values())).all(axis=1)

    candidates = tuple(
        Candidate(
            float(k1[i]),
            float(k2[i]),
            used[i],
            mean[i],
            deviation[i],
            low[i],
            high[i],
            steady[i],
        )
        for i in range(len(centres))
    )
    if good.any():
        pick = int(np.argmax(good))
        chosen = Marking(float(k1[pick]), float(k2[pick]), turn)
        what = f"K = {k1[pick]:g}" if band == 0 else f"(K1, K2) = ({k1[pick]:g}, {k2[pick]:g})"
        text = (
            f"{what} packets: utilisation at least {used[pick].min():.2%}, "
            f"queue between {low[pick].min():.0f} and {high[pick].max():.0f} packets, "
            f"mean at most {mean[pick].max():.0f}"
        )
        if burst_packets > 1 and utilisation >= 0.97:
            text += (
                "; packets in bursts use up to 3 % less of the link than that, at 1.5 times this K up to 1 %"
            )
    else:
        chosen = None
        passed = sum(c.all(axis=1).astype(int) for c in conditions.values())
        pick = int(np.argmax(passed))
        lacking = [name for name, ok in conditions.items() if not ok[pick].all()]
        text = (
            f"no threshold up to {centres[-1]:g} packets satisfies: "
            f"at its best, {k1[pick]:g}, it lacks {'; '.join(lacking)}"
        )
    best = Marking(float(k1[pick]), float(k2[pick]), turn)
    cycles = tuple(
        analyse(Link.of(rate_bps, packet_bytes, base_rtt, float(c), g), best, growth=growth, inflow=inflow)
        for c in n
    )
    return Advice(chosen, n, candidates[pick], cycles, candidates, text)


def tso_burst(
    rate_bps: float, base_rtt: float, *, segment_bytes: float = 1448.0, most: float = 44.0
) -> float:
    """Segments that Linux lets leave together (tcp_tso_autosize).

    A burst holds what the pacing rate sends in 1/1024 s, and more on short paths: 64 KB, halved for every
    512 us of round trip. So it is as long as offload permits on any path of a data centre.

    Args:
        rate_bps: what one flow sends at (bit/s).
        base_rtt: its smallest round-trip time (s).
        segment_bytes: payload of a segment.
        most: the most that leave together: 64 KB of segments, the `gso` of a scenario.

    Returns:
        Segments, from 2 (1 where `most` is) to `most`.

    Raises:
        ValueError: an argument outside its range.
    """
    given = {"rate_bps": rate_bps, "base_rtt": base_rtt, "segment_bytes": segment_bytes, "most": most}
    for name, value in given.items():
        if not (np.isfinite(value) and value > 0):
            raise ValueError(f"{name}: got {value!r}; must be positive and finite")
    halvings = int(base_rtt * 1e6) >> 9
    more = _GSO_BYTES >> halvings if halvings < 32 else 0
    size = min(rate_bps / 8 / 1024 + more, _GSO_BYTES)
    return float(min(max(size // segment_bytes, 2), most))


#: Standard deviations that a normal variable stays within for 99 % of the time.
_EXCURSION = 2.58
#: GSO_LEGACY_MAX_SIZE without the room for headers.
_GSO_BYTES = 65_535 - 320
