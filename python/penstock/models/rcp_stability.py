"""Stability of RCP, QI-RCP and PIQI-RCP: bounds, Nyquist loci, recursions and exact limits.

Source: "PIQI-RCP: design and analysis of rate-based explicit congestion control"; equation numbers
below are the paper's.

Units: delays and the control interval ``T`` are in seconds where a name says ``_s``; a *loop delay*
``delays`` is a number of control intervals (the paper's ``D/T``). Angular frequencies are in radians
per control interval. Capacities and rates are in bit/s; the normalised recursions take any rate unit.

Three views of the same loop live here, from the paper's bound to the packet simulator's:

* the bounds (6), (20), (35), which need only the largest delay;
* the exact limit for a given set of delays (:func:`critical_kappa`), which the bounds approach from below;
* the recursions (5) and (18)-(19) run directly, with all their non-linearity.

A router measures ``y`` as an average over its last interval, so a new rate shows in a measurement one
interval later than the round trip. A flow with round trip time ``D`` therefore has the loop delay ``D/T +
1``. The paper's own limiting case says the same (its ``D_i = T`` is the flow whose round trip is negligible).
:func:`loop_taps` states how a round trip that is no multiple of ``T`` splits over two intervals.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]


def _positive(name: str, value: ArrayLike) -> Array:
    array = np.asarray(value, dtype=float)
    if not np.all(np.isfinite(array)) or np.any(array <= 0):
        raise ValueError(f"{name}: must be positive and finite, got {value!r}")
    return array


def _loop_delays(delays: ArrayLike) -> Array:
    array = np.atleast_1d(np.asarray(delays, dtype=float))
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"delays: must be a non-empty list of control intervals, got {delays!r}")
    if not np.all(np.isfinite(array)) or np.any(array < 1):
        raise ValueError(f"delays: every loop delay must be at least one control interval, got {delays!r}")
    return array


def _whole(delays: ArrayLike) -> NDArray[np.int64]:
    array = _loop_delays(delays)
    whole = np.rint(array).astype(np.int64)
    if np.any(np.abs(array - whole) > 1e-9):
        raise ValueError(f"delays: must be whole numbers of control intervals here, got {delays!r}")
    return whole


def _taus(tau1: float, tau2: float) -> None:
    if not 0 < tau1 < 1:
        raise ValueError(f"tau1: must lie in (0, 1) (Theorem 2), got {tau1!r}")
    if not 0 < tau1 + 2 * tau2 < 2:
        raise ValueError(
            f"tau2: tau1 + 2 tau2 must lie in (0, 2) (Theorem 2), got {tau2!r} with tau1 = {tau1!r}"
        )


# --- Bounds ---------------------------------------------------------------------------------------


def qi_bound(delay: ArrayLike) -> Array:
    """Largest stable kappa of QI-RCP by Theorem 1.

    ``delay``: largest loop delay in control intervals (scalar or array, at least 1).
    Sufficient for any set of delays, necessary when all are equal. Eq. (6).
    """
    d = np.asarray(delay, dtype=float)
    if not np.all(d >= 1):
        raise ValueError(f"delay: must be at least one control interval, got {delay!r}")
    # Eq. (6): kappa* = 2 sin(pi / (2 (2D - 1)))
    return 2 * np.sin(np.pi / (2 * (2 * d - 1)))


def piqi_bound(delay: ArrayLike) -> Array:
    """Largest stable kappa of PIQI-RCP by Theorem 2, for kappa_1 = kappa_2 and T much smaller than D.

    ``delay``: largest loop delay in control intervals (scalar or array, at least 1). Eq. (20).
    """
    # Eq. (20): kappa* = sin(pi / (2 (2D - 1))), half of Eq. (6) because (18) has two error terms
    return qi_bound(delay) / 2


def simple_bound(rtt_s: ArrayLike, interval_s: ArrayLike) -> Array:
    """PIQI-RCP's bound without a sine: T / (2 (T + D)), never above Eq. (20).

    ``rtt_s``: largest round trip time in seconds; ``interval_s``: control interval in seconds. Eq. (35).
    """
    d = np.asarray(rtt_s, dtype=float)
    if np.any(d < 0):
        raise ValueError(f"rtt_s: must not be negative, got {rtt_s!r}")
    t = _positive("interval_s", interval_s)
    # Eq. (35)
    return t / (2 * (t + d))


def loop_delay(rtt_s: ArrayLike, interval_s: float) -> Array:
    """Loop delay, in control intervals, of a flow with the given round trip time: D/T + 1.

    The added interval is the one over which the router averages its input rate. See the module's text.
    """
    d = np.asarray(rtt_s, dtype=float)
    if np.any(d < 0):
        raise ValueError(f"rtt_s: must not be negative, got {rtt_s!r}")
    return d / float(_positive("interval_s", interval_s)) + 1


def loop_taps(rtt_s: ArrayLike, interval_s: float) -> tuple[Array, Array]:
    """Whole loop delays and their weights that interval averaging makes of arbitrary round trip times.

    A rate that arrives a fraction ``f`` of an interval late is seen with weight ``1 - f`` by one
    measurement and ``f`` by the next. Returns ``(delays, weights)``, both of shape (2 N,), the weights
    of each flow adding to 1; use them as ``critical_kappa(delays, weights=weights)``.
    """
    d = np.atleast_1d(loop_delay(rtt_s, interval_s))
    first = np.floor(d + 1e-9)
    late = np.clip(d - first, 0, 1)
    return np.concatenate([first, first + 1]), np.concatenate([1 - late, late])


# --- Loci -----------------------------------------------------------------------------------------


def _plant(omega: Array, delays: Array, weights: ArrayLike | None) -> Complex:
    w = np.ones_like(delays) if weights is None else np.asarray(weights, dtype=float)
    if w.shape != delays.shape or np.any(w < 0) or w.sum() <= 0:
        raise ValueError("weights: one non-negative weight per delay, not all zero")
    w = w / w.sum()
    # A sum over delays, not an outer product: sets of hundreds of flows on fine grids stay small.
    total = np.zeros(omega.shape, dtype=complex)
    for weight, delay in zip(w, delays, strict=True):
        if weight > 0:
            total += weight * np.exp(-1j * omega * delay)
    return total


def qi_locus(
    omega: ArrayLike, delays: ArrayLike, kappa: float = 1.0, weights: ArrayLike | None = None
) -> Complex:
    """Open loop G(e^{j omega}) of QI-RCP; homogeneous when ``delays`` holds one value.

    ``omega``: radians per control interval, not a multiple of 2 pi; result has its shape.
    ``delays``: loop delays in control intervals (N,); ``weights``: share of each in the steady rate.
    Stable exactly when the locus does not encircle -1. Eqs. (9)-(12).
    """
    w = np.asarray(omega, dtype=float)
    # Eq. (9) with T = 1: G = (kappa / N) sum z^-Di / (1 - z^-1)
    plant = _plant(w, _loop_delays(delays), weights)
    return np.asarray(kappa * plant / (1 - np.exp(-1j * w)), dtype=complex)


def source_filter(omega: ArrayLike, tau1: float, tau2: float) -> Complex:
    """T(e^{j omega}): PIQI-RCP's source controller (19) times the router's zero (1 + z^-1). Eqs. (28), (31).

    Equals 2 at omega = 0; Theorem 2 replaces it by 2 everywhere ("sufficiently small T").
    """
    _taus(tau1, tau2)
    z1 = np.exp(-1j * np.asarray(omega, dtype=float))
    # Eq. (28) with T = 1
    return np.asarray((tau1 + tau2 + tau1 * z1 - tau2 * z1**2) / (1 - (1 - tau1) * z1), dtype=complex)


def piqi_locus(
    omega: ArrayLike,
    delays: ArrayLike,
    tau1: float,
    tau2: float,
    kappa: float = 1.0,
    weights: ArrayLike | None = None,
) -> Complex:
    """Open loop T_f(e^{j omega}) of PIQI-RCP with kappa_1 = kappa_2 = kappa. Eqs. (27), (30)-(32)."""
    return source_filter(omega, tau1, tau2) * qi_locus(omega, delays, kappa, weights)


# --- The exact limit ------------------------------------------------------------------------------


def critical_kappa(
    delays: ArrayLike,
    *,
    tau1: float | None = None,
    tau2: float | None = None,
    weights: ArrayLike | None = None,
) -> float:
    """Largest kappa for which the linear loop is stable, found numerically for any set of delays.

    ``delays``: loop delays in control intervals (N,), whole or not. Without ``tau1``, ``tau2`` the loop is
    QI-RCP's; with both it is PIQI-RCP's, without Theorem 2's approximation.

    As kappa grows from zero, all roots start inside the unit circle. The limit is therefore the smallest
    kappa at which the locus for kappa = 1 passes through -1/kappa. Every crossing of the negative real axis
    on (0, pi] is located, and the deepest one decides.
    """
    d = _loop_delays(delays)
    if (tau1 is None) != (tau2 is None):
        raise ValueError("tau1: give both tau1 and tau2 (PIQI-RCP) or neither (QI-RCP)")

    def locus(omega: Array) -> Complex:
        if tau1 is None or tau2 is None:
            return qi_locus(omega, d, 1.0, weights)
        return piqi_locus(omega, d, tau1, tau2, 1.0, weights)

    # The phase turns by at most max(d) + 3 radians per radian: 32 points per turn cannot miss a crossing
    # pair.
    points = int(64 * (d.max() + 4))
    grid = np.linspace(np.pi / points / 8, np.pi, points)
    values = locus(grid)
    change = np.flatnonzero(np.signbit(values.imag[:-1]) != np.signbit(values.imag[1:]))
    low, high = grid[change], grid[change + 1]
    sign_low = np.signbit(values.imag[change])
    for _ in range(60):  # bisection, all crossings at once, to the last bit
        middle = (low + high) / 2
        same = np.signbit(locus(middle).imag) == sign_low
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    real = np.append(locus((low + high) / 2).real, values.real[-1])  # omega = pi is always on the axis
    depth = -real.min()
    if depth <= 0:
        raise ValueError("delays: the locus never meets the negative real axis")
    return float(1 / depth)


def characteristic_qi(delays: ArrayLike, kappa: float) -> Array:
    """Coefficients, highest power first, of QI-RCP's characteristic polynomial. Eq. (7) with T = 1.

    z^D - z^(D-1) + (kappa/N) sum z^(D - Di), D the largest delay. ``delays`` must be whole.
    """
    d = _whole(delays)
    top = int(d.max())
    poly = np.zeros(top + 1)
    poly[0], poly[1] = 1.0, -1.0
    np.add.at(poly, d, kappa / d.size)
    return poly


def characteristic_piqi(delays: ArrayLike, kappa: float, tau1: float, tau2: float) -> Array:
    """Coefficients, highest power first, of PIQI-RCP's characteristic polynomial. From Eqs. (27)-(29)."""
    _taus(tau1, tau2)
    d = _whole(delays)
    plant = np.zeros(int(d.max()) + 1)
    np.add.at(plant, d, kappa / d.size)
    denominator = np.polymul([1.0, -1.0], [1.0, -(1 - tau1)])
    numerator = np.polymul([1.0, 1.0], [tau1 + tau2, -tau2])
    open_loop = np.convolve(numerator, plant)  # both are series in z^-1
    poly = np.zeros(max(open_loop.size, denominator.size))
    poly[: denominator.size] += denominator
    poly[: open_loop.size] += open_loop
    return poly


def spectral_radius(polynomial: ArrayLike) -> float:
    """Largest modulus among the polynomial's roots; below 1 means asymptotically stable."""
    return float(np.abs(np.roots(np.asarray(polynomial, dtype=float))).max())


# --- The recursions, run directly -----------------------------------------------------------------


@dataclass(frozen=True)
class Trajectory:
    """Rates of a recursion. ``fair_rate``, ``arrival_rate``: (steps, K), one column per kappa (K = 1 for a
    scalar); ``queue``: the same shape, in rate x intervals, zeros where the recursion has no queue."""

    fair_rate: Array
    arrival_rate: Array
    queue: Array

    def oscillation(self, last: int) -> Array:
        """Half the peak-to-peak fair rate over the last ``last`` steps, relative to its mean; shape (K,)."""
        if not 0 < last <= len(self.fair_rate):
            raise ValueError(f"last: must lie in 1..{len(self.fair_rate)}, got {last}")
        tail = self.fair_rate[-last:]
        return np.asarray((tail.max(axis=0) - tail.min(axis=0)) / (2 * tail.mean(axis=0)))


def _starts(starts: ArrayLike | None, flows: int, steps: int) -> NDArray[np.int64]:
    s = np.zeros(flows, dtype=np.int64) if starts is None else np.asarray(starts, dtype=np.int64)
    if s.shape != (flows,) or np.any(s < 0) or np.any(s >= steps):
        raise ValueError("starts: one step number per delay, inside the run")
    return s


def simulate_qi(
    kappa: ArrayLike,
    delays: ArrayLike,
    *,
    steps: int,
    initial: float | None = None,
    target: float = 1.0,
    starts: ArrayLike | None = None,
) -> Trajectory:
    """Run QI-RCP's recursion (5) as printed, for one kappa or several at once.

    ``kappa`` is a scalar or (K,), ``delays`` are whole loop delays (N,), and ``target`` is gamma_l C_l.
    ``initial`` is the fair rate before step 0 (default 5 % above the steady one, a visible disturbance).
    ``starts`` (N,) is the step at which each flow's traffic reaches the router, default 0. The rate is
    floored at 1e-9 of the target: a router never announces a negative rate.
    """
    return _simulate(kappa, delays, steps, initial, target, starts, None)


def simulate_piqi(
    kappa: ArrayLike,
    delays: ArrayLike,
    *,
    tau1: float,
    tau2: float,
    steps: int,
    initial: float | None = None,
    target: float = 1.0,
    starts: ArrayLike | None = None,
) -> Trajectory:
    """Run PIQI-RCP's recursions (18) and (19), kappa_1 = kappa_2 = kappa. Arguments as :func:`simulate_qi`.

    A flow present from step 0 begins at the ``initial`` fair rate; one that joins later begins at zero and
    climbs by (19).
    """
    _taus(tau1, tau2)
    return _simulate(kappa, delays, steps, initial, target, starts, (tau1, tau2))


def _simulate(
    kappa: ArrayLike,
    delays: ArrayLike,
    steps: int,
    initial: float | None,
    target: float,
    starts: ArrayLike | None,
    taus: tuple[float, float] | None,
) -> Trajectory:
    k = np.atleast_1d(_positive("kappa", kappa))
    d = _whole(delays)
    if steps < 1:
        raise ValueError(f"steps: must be at least 1, got {steps}")
    _positive("target", target)
    begin = _starts(starts, d.size, steps)
    top = int(d.max())
    present = int((begin == 0).sum())
    if present == 0:
        raise ValueError("starts: at least one flow must be present at step 0")
    first = 1.05 * target / present if initial is None else float(_positive("initial", initial))
    past = top + 1
    rate = np.full((past + steps, k.size), first)
    arrival = np.zeros((steps, k.size))
    x = np.where((begin == 0)[:, None], first, 0.0) * np.ones((d.size, k.size))
    previous_error = np.zeros(k.size)
    for n in range(steps):
        # R_l(n - D_i) reaches the router as part of y_l(n): Eq. (5) for QI-RCP
        fed_back = rate[past + n - d]  # (N, K)
        active = (n >= begin)[:, None]
        if taus is None:
            y = np.where(active, fed_back, 0.0).sum(axis=0)
        else:
            tau1, tau2 = taus
            older = rate[past + n - d - 1]
            # Eq. (19): x(n) = x(n-1) + tau1 (R(n-D) - x(n-1)) + tau2 (R(n-D) - R(n-D-1))
            step = x + tau1 * (fed_back - x) + tau2 * (fed_back - older)
            x = np.where(active, np.maximum(step, 0.0), x)
            y = np.where(active, x, 0.0).sum(axis=0)
        arrival[n] = y
        error = 1 - y / target  # Eq. (3)
        if taus is None:
            factor = 1 + k * error  # Eq. (4)
        else:
            factor = 1 + k * error + k * previous_error  # Eq. (18)
        previous_error = error
        rate[past + n] = np.maximum(rate[past + n - 1] * factor, 1e-9 * target)
    return Trajectory(rate[past:], arrival, np.zeros_like(arrival))


def simulate_rcp(
    *,
    rtts_s: ArrayLike,
    capacity: float,
    interval_s: float,
    steps: int,
    mean_rtt_s: float | None = None,
    alpha: float = 0.4,
    beta: float = 1.0,
    unresponsive: float = 0.0,
    initial: float | None = None,
) -> Trajectory:
    """Run RCP's controller (1) for flows bottlenecked here, beside constant unresponsive traffic.

    ``rtts_s`` are propagation round trip times of the responsive flows (N,), rounded to whole intervals.
    ``mean_rtt_s`` is the router's d_l without queueing, default the mean over ``rtts_s``; the queueing delay
    is added, as every sampled RTT contains it. ``capacity`` and ``unresponsive`` have the same unit of rate.
    The queue is the integral of y - C, never below zero, and delays what passes it. One column, K = 1.
    """
    t = float(_positive("interval_s", interval_s))
    c = float(_positive("capacity", capacity))
    rtt = np.atleast_1d(_positive("rtts_s", rtts_s))
    if not 0 <= unresponsive < c:
        raise ValueError(f"unresponsive: must lie in [0, capacity), got {unresponsive!r}")
    base = float(rtt.mean()) if mean_rtt_s is None else float(_positive("mean_rtt_s", mean_rtt_s))
    if steps < 1:
        raise ValueError(f"steps: must be at least 1, got {steps}")
    share = (c - unresponsive) / rtt.size
    first = 1.05 * share if initial is None else float(_positive("initial", initial))
    rate = np.empty(steps)
    arrival = np.empty(steps)
    queue = np.zeros(steps)
    r, q = first, 0.0
    for n in range(steps):
        # What arrives now was announced one round trip ago, queueing included, plus the measuring interval.
        late = np.maximum(np.rint((rtt + q * t / c) / t).astype(int) + 1, 1)
        past = n - late
        y = unresponsive + float(np.where(past >= 0, rate[np.maximum(past, 0)], first).sum())
        q = max(0.0, q + y - c)
        d = base + q * t / c
        # Eq. (1): R = R(t-T) [1 + (T/d)/C (alpha (C - y) - beta q/d)]; q in rate x intervals, so q T is its
        # size
        r = r * (1 + (t / d) / c * (alpha * (c - y) - beta * q * t / d))
        r = min(max(r, 1e-6 * c), c)  # the public controllers keep the rate within the link's capacity
        rate[n], arrival[n], queue[n] = r, y, q
    return Trajectory(rate[:, None], arrival[:, None], queue[:, None])


def rcp_loop_gain(
    *, alpha: float, responsive_share: ArrayLike, responsive_rtt_s: ArrayLike, mean_rtt_s: ArrayLike
) -> Array:
    """Gain x delay of RCP's rate-mismatch loop; stable without a queue exactly below pi/2.

    Equation (1), linearised at y = C with q = 0, is dr/dt = -alpha (R*/C)(1/d_l) r(t - D). R*/C is the share
    of the link held by the flows it controls (``responsive_share``), D their RTT and d_l the router's mean. A
    scalar delay equation dr/dt = -K r(t - D) is stable exactly when K D < pi/2.
    """
    share = np.asarray(responsive_share, dtype=float)
    if np.any(share <= 0) or np.any(share > 1):
        raise ValueError(f"responsive_share: must lie in (0, 1], got {responsive_share!r}")
    return (
        alpha * share * _positive("responsive_rtt_s", responsive_rtt_s) / _positive("mean_rtt_s", mean_rtt_s)
    )
