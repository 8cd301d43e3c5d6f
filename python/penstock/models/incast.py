"""TCP incast: the throughput models of Kulkarni and Agrawal (2014), chapter 3, and one of our own.

``n`` synchronised senders share one bottleneck; the models say how many packets per second they send
together. The symbols are the book's:

========== ============== ==========================================================================
``n``      senders        number of parallel, synchronised flows, at least 1
``p_c``    1/packet       loss events of all flows together, per packet sent by all of them; flows that
                          lose in the same round count once
``p_r``    1/packet       loss events of one flow, per packet sent by that flow (mean over the flows)
``delta``  1/block        timeouts at the start of a block (ABTT), mean per block
``rtt``    s              mean round-trip time
``t0``     s              mean duration of a single timeout, T_0
``length`` packets        L of Eq. (3.37); the book leaves open whether it is one server's share or the
                          whole block. E[Y] counts the packets of all flows, so the whole block,
                          ``n * sru``, is the reading that makes rho a number of periods per block
========== ============== ==========================================================================

Every function takes scalars or arrays that broadcast together, and returns a float for scalars only and
an ``ndarray`` otherwise. A ``ValueError`` names the argument that is out of range.

Source: S. Kulkarni and P. Agrawal, Analysis of TCP Performance in Data Center Networks, Springer 2014.
Single flow: J. Padhye, V. Firoiu, D. Towsley and J. Kurose, Modeling TCP Throughput, SIGCOMM 1998.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import pdtr

from penstock.models.arguments import at_least, plain, positive, probability

Floats = NDArray[np.float64]

#: Senders up to which whole-window losses alone cause timeouts in mid block: Section 3.2, "less than or
#: equal to three". The book read it from its own traces of the default settings (Table 3.1).
N_STAR = 3


# --- Congestion avoidance: triple-duplicate losses only (section 3.1.1.2) ----------------------------


def mean_flows_losing(n: ArrayLike, p_c: ArrayLike, p_r: ArrayLike) -> float | Floats:
    """Mean number of flows that lose in one loss event, j = min(n, p_r/p_c).

    Dimensionless; broadcasts. Raises ValueError for n < 1 or a probability outside [0, 1].
    Source: the text after Eq. (3.21).
    """
    n, p_c, p_r = _losses(n, p_c, p_r)
    return plain(_flows_losing(n, p_c, p_r))


def mean_rounds(n: ArrayLike, p_c: ArrayLike, p_r: ArrayLike) -> float | Floats:
    """Mean number of rounds between two loss events of the cumulative flow, E[X].

    In rounds (round-trip times); infinite without loss. Raises ValueError as `mean_flows_losing` does.
    Source: Eq. (3.19), the positive root of Eq. (3.18).
    """
    n, p_c, p_r = _losses(n, p_c, p_r)
    return plain(_rounds(n, p_c, _flows_losing(n, p_c, p_r)))


def mean_window(n: ArrayLike, p_c: ArrayLike, p_r: ArrayLike) -> float | Floats:
    """Mean window of all flows together when a loss event comes, E[W].

    In packets; infinite without loss. Raises ValueError as `mean_flows_losing` does.
    Source: Eq. (3.14), which with Eq. (3.19) is Eq. (3.20).
    """
    n, p_c, p_r = _losses(n, p_c, p_r)
    j = _flows_losing(n, p_c, p_r)
    x = _rounds(n, p_c, j)
    # Eq. (3.14)
    return plain(n * x / 2 + 3 * n**2 * x / (2 * j))


def mean_flow_window(n: ArrayLike, p_c: ArrayLike, p_r: ArrayLike) -> float | Floats:
    """Mean window of a flow when it loses, E[W_f].

    In packets; infinite without loss. Raises ValueError as `mean_flows_losing` does.
    Source: Eqs. (3.7) and (3.12).
    """
    n, p_c, p_r = _losses(n, p_c, p_r)
    j = _flows_losing(n, p_c, p_r)
    return plain(_flow_window(n, j, _rounds(n, p_c, j)))


def td_only(n: ArrayLike, p_c: ArrayLike, p_r: ArrayLike, rtt: ArrayLike) -> float | Floats:
    """Throughput when every loss is found by three duplicate ACKs.

    Packets per second, all flows together; infinite without loss, because loss is the only limit the
    model knows. Raises ValueError for n < 1, a probability outside [0, 1] or rtt <= 0.
    Source: Eq. (3.21).
    """
    n, p_c, p_r = _losses(n, p_c, p_r)
    rtt = positive("rtt", rtt)
    return plain(_throughput(p_c, rtt, _rounds(n, p_c, _flows_losing(n, p_c, p_r)), 0.0, 0.0))


# --- Timeouts (section 3.1.1.3) ------------------------------------------------------------------------


def q_ibtt(w: ArrayLike, p_r: ArrayLike) -> float | Floats:
    """Probability that a loss in a window of w packets ends in a timeout in mid block (IBTT).

    ``w`` in packets, at least 0; need not be whole: between whole numbers the printed sums are continued by
    their closed form, with which they agree at every whole number. As printed, the second sum runs to k = w,
    one term beyond the last that can lose a packet. The value can therefore exceed 1 by a few percent for a
    small w and a large p_r; Eq. (3.31) bounds it. Raises ValueError for w < 0 or p_r outside [0, 1]. Source:
    Eqs. (3.32) to (3.34). The case m = g of Eq. (3.33) never occurs there, since k >= 3 > m.
    """
    w = at_least("w", w, 0.0)
    p_r = probability("p_r", p_r)
    whole_or_early, late = _timeout_terms(w, p_r)
    return plain(np.where(w <= 3, 1.0, whole_or_early + late))


def q_ibtt_split(n: ArrayLike, w: ArrayLike, p_r: ArrayLike, *, n_star: ArrayLike = N_STAR) -> float | Floats:
    """Probability that a loss in a window of w packets ends in an IBTT, one cause at a time.

    Up to ``n_star`` senders only the loss of the whole window counts, beyond it only the lack of
    duplicate ACKs. ``w`` in packets as in `q_ibtt`. Raises ValueError for n < 1, w < 0, n_star < 0 or p_r
    outside [0, 1]. Source: Eq. (3.40).
    """
    n = at_least("n", n, 1.0)
    w = at_least("w", w, 0.0)
    p_r = probability("p_r", p_r)
    n_star = at_least("n_star", n_star, 0.0)
    return plain(_split_timeouts(n, w, p_r, n_star))


def q_abtt(p_c: ArrayLike, delta: ArrayLike, length: ArrayLike) -> float | Floats:
    """Probability that a period between losses ends in a timeout at the start of a block (ABTT).

    ``delta`` per block, ``length`` in packets (see the module for its two readings). Not bounded by 1
    here: Eq. (3.31) bounds the sum. Raises ValueError for p_c outside [0, 1], delta < 0 or length <= 0.
    Source: Eqs. (3.37) and (3.38), with E[Y] = 1/p_c (3.10).
    """
    p_c = probability("p_c", p_c)
    delta = at_least("delta", delta, 0.0)
    length = positive("length", length)
    return plain(_block_timeouts(p_c, delta, length))


def full(
    n: ArrayLike,
    p_c: ArrayLike,
    p_r: ArrayLike,
    delta: ArrayLike,
    rtt: ArrayLike,
    t0: ArrayLike,
    length: ArrayLike,
) -> float | Floats:
    """Throughput of the full model: timeouts of both kinds.

    Packets per second, all flows together; infinite without loss. Raises ValueError for n < 1, a
    probability outside [0, 1], delta < 0, or rtt, t0 or length <= 0. Source: Eq. (3.39).
    """
    n, p_c, p_r = _losses(n, p_c, p_r)
    delta, rtt, t0, length = _timeouts(delta, rtt, t0, length)
    j = _flows_losing(n, p_c, p_r)
    x = _rounds(n, p_c, j)
    q = np.asarray(q_ibtt(_flow_window(n, j, x), p_r)) + _block_timeouts(p_c, delta, length)
    return plain(_throughput(p_c, rtt, x, q, t0))


def split(
    n: ArrayLike,
    p_c: ArrayLike,
    p_r: ArrayLike,
    delta: ArrayLike,
    rtt: ArrayLike,
    t0: ArrayLike,
    length: ArrayLike,
    *,
    n_star: ArrayLike = N_STAR,
) -> float | Floats:
    """Throughput of the split model: the full model with one cause of IBTT at a time.

    Packets per second, all flows together; infinite without loss. Raises ValueError as `full` does, and
    for n_star < 0. Source: Eqs. (3.39) and (3.40).
    """
    n, p_c, p_r = _losses(n, p_c, p_r)
    delta, rtt, t0, length = _timeouts(delta, rtt, t0, length)
    n_star = at_least("n_star", n_star, 0.0)
    j = _flows_losing(n, p_c, p_r)
    x = _rounds(n, p_c, j)
    q = _split_timeouts(n, _flow_window(n, j, x), p_r, n_star) + _block_timeouts(p_c, delta, length)
    return plain(_throughput(p_c, rtt, x, q, t0))


def ibtt_only(n: ArrayLike, p_c: ArrayLike, p_r: ArrayLike, rtt: ArrayLike, t0: ArrayLike) -> float | Floats:
    """Throughput of the full model without the timeouts at the start of a block.

    Packets per second, all flows together; infinite without loss. Raises ValueError as `full` does.
    Source: Eq. (3.39) with Q_abtt = 0 (Fig. 3.10).
    """
    n, p_c, p_r = _losses(n, p_c, p_r)
    rtt, t0 = positive("rtt", rtt), positive("t0", t0)
    j = _flows_losing(n, p_c, p_r)
    x = _rounds(n, p_c, j)
    return plain(_throughput(p_c, rtt, x, np.asarray(q_ibtt(_flow_window(n, j, x), p_r)), t0))


def abtt_only(
    n: ArrayLike,
    p_c: ArrayLike,
    p_r: ArrayLike,
    delta: ArrayLike,
    rtt: ArrayLike,
    t0: ArrayLike,
    length: ArrayLike,
) -> float | Floats:
    """Throughput of the full model without the timeouts in mid block.

    Packets per second, all flows together; infinite without loss. Raises ValueError as `full` does.
    Source: Eq. (3.39) with Q_ibtt = 0 (Fig. 3.11).
    """
    n, p_c, p_r = _losses(n, p_c, p_r)
    delta, rtt, t0, length = _timeouts(delta, rtt, t0, length)
    x = _rounds(n, p_c, _flows_losing(n, p_c, p_r))
    return plain(_throughput(p_c, rtt, x, _block_timeouts(p_c, delta, length), t0))


# --- One flow (Padhye et al. 1998) ---------------------------------------------------------------------


def padhye(
    p: ArrayLike,
    rtt: ArrayLike,
    t0: ArrayLike,
    *,
    window_max: ArrayLike = np.inf,
    packets_per_ack: ArrayLike = 1.0,
) -> float | Floats:
    """Throughput of one long TCP flow, the approximate equation.

    Packets per second. ``p`` is loss events per packet, ``window_max`` the receive window in packets.
    Raises ValueError for p outside [0, 1] and for anything else that is not positive.
    Source: Padhye et al. 1998, section 2.4, the approximation of the full model.
    """
    p = probability("p", p)
    rtt, t0 = positive("rtt", rtt), positive("t0", t0)
    window_max = positive("window_max", window_max)
    b = positive("packets_per_ack", packets_per_ack)
    # B(p) = min(W_max/RTT, 1 / (RTT sqrt(2bp/3) + T_0 min(1, 3 sqrt(3bp/8)) p (1 + 32 p^2)))
    seconds_per_packet = rtt * np.sqrt(2 * b * p / 3) + t0 * np.minimum(1, 3 * np.sqrt(3 * b * p / 8)) * p * (
        1 + 32 * p**2
    )
    with np.errstate(divide="ignore"):
        return plain(np.minimum(window_max / rtt, 1 / seconds_per_packet))


def padhye_full(
    p: ArrayLike,
    rtt: ArrayLike,
    t0: ArrayLike,
    *,
    window_max: ArrayLike = np.inf,
    packets_per_ack: ArrayLike = 1.0,
) -> float | Floats:
    """Throughput of one long TCP flow, the full model of which `padhye` is the approximation.

    Packets per second; infinite for p = 0 without a window limit. Arguments and errors as in `padhye`,
    and p must be below 1, where every packet is lost. Source: Padhye et al. 1998, sections 2.2 to 2.4.
    """
    p = probability("p", p)
    if np.any(p == 1):
        raise ValueError("p: must be below 1, got 1 (every packet is lost)")
    rtt, t0 = positive("rtt", rtt), positive("t0", t0)
    window_max = positive("window_max", window_max)
    b = positive("packets_per_ack", packets_per_ack)
    p, rtt, t0, window_max, b = np.broadcast_arrays(p, rtt, t0, window_max, b)
    lossy = p > 0
    # Without loss the flow fills its window for ever; 0.5 only keeps the arithmetic below finite.
    q = np.where(lossy, p, 0.5)
    # E[W_u], the mean window without a window limit
    c = (2 + b) / (3 * b)
    unlimited = c + np.sqrt(8 * (1 - q) / (3 * b * q) + c**2)
    limited = unlimited >= window_max
    w = np.where(limited, window_max, unlimited)
    rounds = np.where(
        limited,
        b / 8 * np.where(limited, window_max, 1.0) + (1 - q) / (q * np.where(limited, window_max, 1.0)) + 2,
        b / 2 * unlimited + 1,
    )
    # Q(w) = min(1, (1 - (1-p)^3) (1 + (1-p)^3 (1 - (1-p)^(w-3))) / (1 - (1-p)^w))
    r = 1 - q
    timeout = np.minimum(1, (1 - r**3) * (1 + r**3 * (1 - r ** (w - 3))) / (1 - r**w))
    # f(p) = 1 + p + 2p^2 + 4p^3 + 8p^4 + 16p^5 + 32p^6, the doubling of the timer
    backoff = 1 + q + 2 * q**2 + 4 * q**3 + 8 * q**4 + 16 * q**5 + 32 * q**6
    sent = (1 - q) / q + w + timeout / (1 - q)
    spent = rtt * rounds + timeout * t0 * backoff / (1 - q)
    return plain(np.where(lossy, sent / spent, window_max / rtt))


def padhye_times_n(
    n: ArrayLike,
    p_r: ArrayLike,
    rtt: ArrayLike,
    t0: ArrayLike,
    *,
    window_max: ArrayLike = np.inf,
    packets_per_ack: ArrayLike = 1.0,
) -> float | Floats:
    """Throughput of n flows that know nothing of each other: n times `padhye` at p = p_r.

    Packets per second, all flows together. Raises ValueError for n < 1, p_r outside [0, 1] and as
    `padhye` does. Source: section 3.2.1 (Fig. 3.21).
    """
    n = at_least("n", n, 1.0)
    p_r = probability("p_r", p_r)
    return plain(n * np.asarray(padhye(p_r, rtt, t0, window_max=window_max, packets_per_ack=packets_per_ack)))


# --- penstock's own ------------------------------------------------------------------------------------


def slowest_sender(
    n: ArrayLike,
    sru: ArrayLike,
    p_c: ArrayLike,
    p_r: ArrayLike,
    delta: ArrayLike,
    iota: ArrayLike,
    rtt: ArrayLike,
    t0: ArrayLike,
    *,
    capacity: ArrayLike = np.inf,
    window_max: ArrayLike = np.inf,
) -> float | Floats:
    """Throughput when a block ends with the sender that has waited longest. penstock's model, not the book's.

    It repairs three weaknesses the book admits (sections 3.1.1.3, 3.2 and 5.2). Timeouts that run at the
    same time are not added up: each sender's timeouts follow one another, but the block waits only for the
    sender with the most of them. The other senders go on while one waits. The rate between timeouts is
    bounded by the receive window and by the link, not by loss alone.

    ``sru`` is packets per sender and block, ``iota`` the timeouts per block other than those at its start,
    ``capacity`` the bottleneck in packets/s, ``window_max`` the receive window in packets; the rest as in
    the module. Of the n senders each has Bernoulli(delta/n) + Poisson(iota/n) timeouts, independently.
    Useful packets per second, all flows together: retransmissions are not counted. Raises ValueError as
    `full` does, for iota < 0 and for sru, capacity or window_max <= 0. Source: chosen.
    """
    n, p_c, p_r = _losses(n, p_c, p_r)
    delta, rtt, t0, sru = _timeouts(delta, rtt, t0, sru, length_name="sru")
    iota = at_least("iota", iota, 0.0)
    capacity, window_max = positive("capacity", capacity), positive("window_max", window_max)
    n, sru, p_c, p_r, delta, iota, rtt, t0, capacity, window_max = np.broadcast_arrays(
        n, sru, p_c, p_r, delta, iota, rtt, t0, capacity, window_max
    )
    lossy = _throughput(p_c, rtt, _rounds(n, p_c, _flows_losing(n, p_c, p_r)), 0.0, 0.0)
    rate = np.minimum(np.minimum(lossy, capacity), n * window_max / rtt)

    # The distribution of the largest of n counts, term by term; what is left beyond the last term has a
    # probability below 1e-12.
    at_start, later = np.minimum(1.0, delta / n), iota / n
    last = int(np.ceil(np.max(later, initial=0.0) + 12 * np.sqrt(np.max(later, initial=0.0) + 1) + 12))
    below = np.zeros_like(rate)
    seconds = np.zeros_like(rate)
    for m in range(last + 1):
        count = (1 - at_start) * pdtr(m, later) + (at_start * pdtr(m - 1, later) if m > 0 else 0.0)
        up_to = count**n
        # While the slowest waits m times, the others send; it then sends its own share.
        with np.errstate(divide="ignore"):
            block = n * sru / rate if m == 0 else np.maximum(n * sru / rate, m * t0 + sru / rate)
        seconds = seconds + (up_to - below) * block
        below = up_to
    with np.errstate(divide="ignore"):
        return plain(n * sru / seconds)


# --- What the models need, from a run (section 3.2) -----------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """The inputs of the models as a run shows them; symbols and units as in the module.

    ``j`` is flows losing per loss event, ``iota`` timeouts per block other than those at its start,
    ``blocks`` and ``packets`` what was counted over.
    """

    n: int
    p_c: float
    p_r: float
    j: float
    delta: float
    iota: float
    rtt: float
    t0: float
    blocks: int
    packets: int


def measure(
    losses: Mapping[str, ArrayLike],
    sent: ArrayLike,
    *,
    blocks: int,
    rtt: float,
    t0: float = np.nan,
    singly: bool = False,
) -> Measured:
    """Estimate p_c, p_r, j, delta, iota, RTT and T_0 from the loss indications of a run.

    ``losses`` has one entry per loss indication (a fast retransmit or a timeout) in the columns

    - ``time_s``: when the sender took it as a loss (s);
    - ``flow``: which of the flows, 0 to n - 1;
    - ``rto_s``: the timeout that ran out (s); 0 for a fast retransmit;
    - ``in_a_row``: 1 for the first timeout of a sequence, 2 and more for its repetitions; 0 for a fast
      retransmit;
    - ``block_start``: nothing of the block had been acknowledged.

    ``sent`` is packets sent per flow (n values), ``blocks`` how many blocks were begun, ``rtt`` the mean
    round-trip time (s), ``t0`` the value to report when no timeout happened.

    How things are counted. A sender that loses its whole window shows one loss indication, its timeout,
    however many packets went. A timeout is dated back by its length to the round that lost, so that it
    coincides with the fast retransmits of the same round. Indications of different flows within one RTT of
    the first are one loss event (p_c); with ``singly`` each is its own. Timeouts that run at the same time
    count singly in delta and iota, as in the book. Repetitions count in iota and in no probability: they say
    nothing new about the first loss. T_0 is the mean over first timeouts.

    Raises ValueError for a missing column, columns of unequal length, no packets, blocks < 1 or rtt <= 0.
    Source: section 3.2; the dating back and the window of one RTT are chosen.
    """
    columns = {}
    for name in ("time_s", "flow", "rto_s", "in_a_row", "block_start"):
        if name not in losses:
            raise ValueError(f"losses: must have the column {name!r}")
        columns[name] = np.asarray(losses[name])
    lengths = {len(column) for column in columns.values()}
    if len(lengths) != 1:
        raise ValueError(f"losses: must have columns of one length, got {sorted(lengths)}")
    packets = np.atleast_1d(at_least("sent", sent, 0.0))
    if packets.sum() == 0:
        raise ValueError("sent: must count at least one packet, got 0")
    if blocks < 1:
        raise ValueError(f"blocks: must be at least 1, got {blocks}")
    rtt = float(positive("rtt", rtt))
    time, flow = columns["time_s"].astype(np.float64), columns["flow"].astype(np.int64)
    rto, in_a_row = columns["rto_s"].astype(np.float64), columns["in_a_row"].astype(np.int64)
    n = len(packets)
    if np.any((flow < 0) | (flow >= n)):
        raise ValueError(f"losses: flow must be in 0 .. {n - 1}, as many as sent has")

    news = in_a_row <= 1
    first = in_a_row == 1
    at_start = first & columns["block_start"].astype(bool)
    events = int(news.sum()) if singly else _count_events(np.sort((time - rto)[news]), rtt)
    p_c = events / packets.sum()
    sending = packets > 0
    p_r = float(np.mean(np.bincount(flow[news], minlength=n)[sending] / packets[sending]))
    return Measured(
        n=n,
        p_c=float(p_c),
        p_r=p_r,
        j=float(mean_flows_losing(n, p_c, p_r)) if p_c > 0 else 0.0,
        delta=float(at_start.sum()) / blocks,
        iota=float((in_a_row >= 1).sum() - at_start.sum()) / blocks,
        rtt=rtt,
        t0=float(rto[first].mean()) if first.any() else t0,
        blocks=blocks,
        packets=int(packets.sum()),
    )


def _count_events(times: Floats, window: float) -> int:
    """How many groups the sorted times make when a group lasts `window` from its first member."""
    count, i = 0, 0
    while i < len(times):
        count += 1
        i = int(np.searchsorted(times, times[i] + window, side="right"))
    return count


# --- Parts ---------------------------------------------------------------------------------------------


def _flows_losing(n: Floats, p_c: Floats, p_r: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        # After Eq. (3.21): j = min(n, p_r / p_c)
        j = np.minimum(n, p_r / p_c)
    # Without loss no flow loses; any j gives the same limit below.
    return np.where(p_c > 0, j, 1.0)


def _rounds(n: Floats, p_c: Floats, j: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        # Eq. (3.19)
        root = np.sqrt(n**2 * p_c**2 * j**2 - 4 * n * p_c**2 * j**3 + 4 * j**4 * p_c**2 + 24 * n**2 * p_c * j)
        x = (2 * j**2 * p_c - n * p_c * j + root) / (6 * n**2 * p_c)
    return np.where(p_c > 0, x, np.inf)


def _flow_window(n: Floats, j: Floats, x: Floats) -> Floats:
    # Eqs. (3.7) and (3.12): E[W_f] = 2 E[X_f] = 2 n E[X] / j
    return 2 * n * x / j


def _timeout_terms(w: Floats, p_r: Floats) -> tuple[Floats, Floats]:
    """The two sums of Eq. (3.34) for w > 3: fewer than three ACKs, and fewer than three duplicates."""
    w = np.maximum(w, 3.0)
    keep = 1 - p_r
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # expm1 keeps the digits of 1 - (1-p_r)^w for the small p_r of a large window.
        log_keep = np.log1p(-p_r)
        lost_in_window = -np.expm1(w * log_keep)
        lost_in_three = p_r * (3 - 3 * p_r + p_r**2)
        # Eq. (3.32) summed over k = 0, 1, 2
        early = lost_in_three / lost_in_window
        # Eq. (3.32) summed over k = 3 .. w, times Eq. (3.33) summed over m = 0, 1, 2
        several = keep**3 * -np.expm1((w - 2) * log_keep)
        late = several / lost_in_window * lost_in_three
    # Limits for a loss probability of zero: each packet of the window is as likely to be the lost one.
    early = np.where(p_r > 0, early, 3 / w)
    late = np.where(p_r > 0, late, 0.0)
    return early, late


def _split_timeouts(n: Floats, w: Floats, p_r: Floats, n_star: Floats) -> Floats:
    beyond = np.maximum(w, 3.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Eq. (3.32) at k = 0
        whole = p_r / -np.expm1(beyond * np.log1p(-p_r))
    whole = np.where(p_r > 0, whole, 1 / beyond)
    _, late = _timeout_terms(w, p_r)
    # Eq. (3.40)
    return np.where(w <= 3, 1.0, np.where(n <= n_star, whole, late))


def _block_timeouts(p_c: Floats, delta: Floats, length: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        # Eqs. (3.37) and (3.38): rho = L / E[Y] = L p_c and Q_abtt = delta / rho
        q = delta / (length * p_c)
    return np.where(delta > 0, q, 0.0)


def _throughput(p_c: Floats, rtt: Floats, x: Floats, q: ArrayLike, t0: ArrayLike) -> Floats:
    # Eq. (3.31)
    q = np.minimum(1.0, q)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Eq. (3.39): E[Y] = 1/p_c packets in RTT E[X] + Q T_0 seconds
        b = 1 / (p_c * (rtt * x + q * np.asarray(t0)))
    return np.where(p_c > 0, b, np.inf)


# --- Arguments -----------------------------------------------------------------------------------------


def _losses(n: ArrayLike, p_c: ArrayLike, p_r: ArrayLike) -> tuple[Floats, Floats, Floats]:
    n = at_least("n", n, 1.0)
    p_c, p_r = probability("p_c", p_c), probability("p_r", p_r)
    if np.any((p_c > 0) & (p_r == 0)):
        raise ValueError("p_r: must be above 0 where p_c is, got 0 (a loss event is some flow's loss)")
    return n, p_c, p_r


def _timeouts(
    delta: ArrayLike, rtt: ArrayLike, t0: ArrayLike, length: ArrayLike, *, length_name: str = "length"
) -> tuple[Floats, Floats, Floats, Floats]:
    return (
        at_least("delta", delta, 0.0),
        positive("rtt", rtt),
        positive("t0", t0),
        positive(length_name, length),
    )
