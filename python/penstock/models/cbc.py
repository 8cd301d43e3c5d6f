"""Collective bandwidth control: equation (1) and the dynamics of its cap in eta.

Source: K. Kant, "Coordinated Bandwidth Control in Data Centers", sections 3.2 and 3.3. The paper
gives the cap, equation (1), and leaves its dynamics in eta open ("a mathematical model ... is
currently being investigated"); everything here beyond `cap_rates` and `window_caps` is that model.

One step of the recursion is one update of a connection's estimates, that is one round trip:

    cap_i(n)       = equation (1) at the mean available bandwidth a(n), as a rate (cap / RTT_avg)
    carried_i(n)   = what the bottleneck lets through of min(cap_i, demand_i)
    current_i(n)   = mean of carried_i over the last N_rtt steps                  (section 3.2.2)
    available_i(n+1) = (1 - alpha_a) * available_i(n) + alpha_a * current_i(n)    (section 3.2.2)

while the requirements lambda_r stay frozen. Caps follow what was carried, and what is carried is
bounded by the caps, so eta is the loop gain. Three regimes follow, each with its function:

- below the bottleneck (`growth`, `recovery_updates`): available bandwidth grows geometrically for
  eta > 1, stands still at eta = 1 and decays to nothing for eta < 1, whatever alpha and N_rtt are;
- at the requirement (`settling`): the cap is pinned and errors shrink by 1 - alpha_a per step;
- against an interferer that does not yield (`contested_share`): the set keeps C - f/eta, offers
  eta*C in total, and is starved when eta <= f/C.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Form = Literal["intended", "printed"]

#: Parameters as printed: cap gain, smoothing of avail_bw and of reqd_bw, measurements averaged.
ETA_CAP = 1.15
ETA_DELAY = 1.4
ALPHA_AVAILABLE = 0.2
ALPHA_REQUIRED = 0.05
N_RTT = 4


def cap_rates(
    required: ArrayLike, available: ArrayLike, eta: float = ETA_CAP, form: Form = "intended"
) -> NDArray[np.float64]:
    """Equation (1) divided by RTT_avg: the rate at which each connection of a control set is capped.

    As printed, `min(eta*l_a, l_ri) * l_ri / mean(l_r)`. As intended ("in proportion of individual
    requirements without exceeding anybody's requirements"), `min(eta*l_a*l_ri/mean(l_r), l_ri)`.
    The printed form exceeds the requirement of the large connections and holds the small ones below
    theirs even when bandwidth is plentiful.

    `required`: bit/s, shape (..., N). `available`: bit/s, mean over the set, shape (...), broadcast
    against the leading axes of `required`. Returns bit/s, shape (..., N).
    Raises ValueError when a requirement is not positive, `available` is negative or `eta` is not
    positive. Source: section 3.3, equation (1).
    """
    lr = np.asarray(required, dtype=float)
    la = np.asarray(available, dtype=float)[..., np.newaxis]
    if lr.ndim == 0 or lr.shape[-1] == 0 or not np.all(lr > 0):
        raise ValueError("required: must hold at least one connection, all positive")
    if not np.all(la >= 0):
        raise ValueError("available: must not be negative")
    if not eta > 0:
        raise ValueError(f"eta: must be positive, got {eta}")
    share = lr / lr.mean(axis=-1, keepdims=True)
    if form == "printed":
        # Eq. (1): W_i = min(eta * l_a, l_ri) * RTT_avg * l_ri / mean(l_r)
        return np.minimum(eta * la, lr) * share
    if form == "intended":
        # Eq. (1), stated intent: W_i = min(eta * l_a * l_ri / mean(l_r), l_ri) * RTT_avg
        return np.minimum(eta * la * share, lr)
    raise ValueError(f"form: must be 'intended' or 'printed', got {form!r}")


def window_caps(
    required: ArrayLike,
    available: ArrayLike,
    rtt: ArrayLike,
    eta: float = ETA_CAP,
    form: Form = "intended",
) -> NDArray[np.float64]:
    """Equation (1): the window cap of each connection of a control set.

    `required`, `available`, `eta`, `form` as in `cap_rates`; `rtt`: s, RTT_avg over the set, shape
    (...). Returns bytes, shape (..., N). Raises ValueError as `cap_rates`, and when `rtt` is not
    positive. Source: section 3.3, equation (1).
    """
    r = np.asarray(rtt, dtype=float)[..., np.newaxis]
    if not np.all(r > 0):
        raise ValueError("rtt: must be positive")
    return cap_rates(required, available, eta, form) * r / 8.0


def growth(eta: ArrayLike, alpha: float = ALPHA_AVAILABLE, n_rtt: int = N_RTT) -> NDArray[np.float64]:
    """Factor by which the available bandwidth grows per step while the caps bind and room is left.

    The caps are then proportional to a(n) and the recursion is linear:
    a(n+1) = (1-alpha) a(n) + (alpha*eta/N_rtt) * sum_{j<N_rtt} a(n-j). The value returned is the
    largest root of its characteristic polynomial; all coefficients are non-negative, so this root is
    real, and it is above, at or below 1 exactly as eta is. Without the moving average (N_rtt = 1) it
    is 1 + alpha*(eta-1); near eta = 1 it is 1 + alpha*(eta-1) / (1 + alpha*eta*(N_rtt-1)/2).

    `eta`: any shape. Returns the same shape, dimensionless. Raises ValueError when `eta` is negative,
    `alpha` outside (0, 1] or `n_rtt` below 1. Source: this project, from sections 3.2.2 and 3.3.
    """
    _check_smoothing(alpha, n_rtt)
    e = np.asarray(eta, dtype=float)
    if not np.all(e >= 0):
        raise ValueError("eta: must not be negative")
    out = np.empty(e.shape)
    for index, gain in np.ndenumerate(e):
        # z^M - (1-alpha) z^(M-1) - (alpha*eta/M) * (z^(M-1) + ... + 1)
        poly = np.full(n_rtt + 1, -alpha * gain / n_rtt)
        poly[0] = 1.0
        poly[1] -= 1.0 - alpha
        out[index] = np.abs(np.roots(poly)).max()
    return out


def settling(alpha: float = ALPHA_AVAILABLE) -> float:
    """Factor by which an error of the available bandwidth shrinks per step once the caps are pinned.

    At the requirement the cap no longer depends on a(n), so only the smoothing is left: 1 - alpha.
    Raises ValueError when `alpha` is outside (0, 1]. Source: this project, from section 3.2.2.
    """
    _check_smoothing(alpha, 1)
    return 1.0 - alpha


def recovery_updates(
    start: ArrayLike, eta: ArrayLike, alpha: float = ALPHA_AVAILABLE, n_rtt: int = N_RTT
) -> NDArray[np.float64]:
    """Steps until the caps reach the requirements again after congestion ends.

    `start`: available bandwidth as a fraction of the requirements at that moment, held for at least
    N_rtt steps. The caps are back when eta*a = 1, so the number of steps is
    ln(1/(eta*start)) / ln(growth), zero when eta*start >= 1 and infinite for eta <= 1 otherwise.
    The transient of the moving average is ignored: it costs at most about N_rtt/2 steps.

    `start`, `eta`: broadcast together. Returns steps (round trips), float. Raises ValueError when
    `start` is not positive, or as `growth`. Source: this project.
    """
    a0 = np.asarray(start, dtype=float)
    if not np.all(a0 > 0):
        raise ValueError("start: must be positive")
    a, e = np.broadcast_arrays(a0, np.asarray(eta, dtype=float))
    rate = np.log(growth(e, alpha, n_rtt))
    with np.errstate(divide="ignore"):
        gap = np.log(1.0 / (e * a))
        steps = np.where(rate > 0, gap / np.where(rate > 0, rate, 1.0), np.inf)
    return np.where(gap <= 0, 0.0, steps)


def fixed_point(
    required: ArrayLike, eta: float = ETA_CAP, form: Form = "intended", demand: ArrayLike | None = None
) -> NDArray[np.float64]:
    """Rates the recursion settles at when the bottleneck leaves room for everything.

    Intended form, eta > 1: every connection at min(requirement, demand). Printed form: a connection whose
    requirement is below the mean stays at l_r^2/mean(l_r) for good, below its requirement. For eta < 1 the
    only fixed point is zero: the caps forbid ever growing again. In both forms, a member that demands less
    than before drags the others down, because the caps follow the mean of all rates. The others keep their
    requirements only while the mean demand stays above mean(l_r)/eta. A set of two whose larger member falls
    silent closes completely.

    `required`: bit/s, shape (N,). `demand`: bit/s, shape (N,), what the applications would send;
    absent = unlimited. Returns bit/s, shape (N,), reached from `available = required`.
    Raises ValueError as `cap_rates`, or when the iteration has not settled after 100,000 steps
    (eta = 1 + tiny). Source: this project, from equation (1).
    """
    lr = np.asarray(required, dtype=float)
    limit = np.full(lr.shape, np.inf) if demand is None else np.asarray(demand, dtype=float)
    available = lr.copy()
    for _ in range(100_000):
        # alpha and N_rtt move neither fixed points nor (for these monotone maps) their order.
        carried = np.minimum(cap_rates(lr, available.mean(), eta, form), limit)
        if np.all(np.abs(carried - available) <= 1e-12 * lr):
            return carried
        available = carried
    raise ValueError(f"eta: the recursion has not settled within 100000 steps at {eta}")


def contested_share(interferer: ArrayLike, capacity: float, eta: ArrayLike = ETA_CAP) -> NDArray[np.float64]:
    """Bandwidth a control set keeps against an interferer that does not yield, RTT_avg = measured RTT.

    Below their requirements the caps offer eta times what was acknowledged. A first-come bottleneck
    serves arrivals in proportion, so a = C * eta*a / (eta*a + f), whose fixed points are 0 and
    C - f/eta. The second is stable (multiplier `contested_multiplier`) when it is positive: the set
    survives exactly when eta > f/C. That is why "eta slightly larger than 1.0 may make the
    connection too sluggish to survive". The price is a total offer of eta*C: the bottleneck is
    overloaded by the factor eta until queues drop, see `contested_loss`.

    `interferer`: bit/s, offered; `capacity`: bit/s; broadcast with `eta`. Returns bit/s.
    Raises ValueError when `capacity` or `eta` is not positive or `interferer` is negative.
    Source: this project, from equation (1).
    """
    f, e = _contest(interferer, capacity, eta)
    return np.maximum(capacity - f / e, 0.0)


def contested_multiplier(
    interferer: ArrayLike, capacity: float, eta: ArrayLike = ETA_CAP, alpha: float = ALPHA_AVAILABLE
) -> NDArray[np.float64]:
    """Derivative of one step (N_rtt = 1) at the fixed point of `contested_share`.

    1 - alpha + alpha*f/(eta*C) at C - f/eta when the set survives, 1 - alpha + alpha*eta*C/f at
    zero when it does not; in both cases below 1, so the approach is stable and without overshoot.
    Arguments and errors as `contested_share`. Returns a dimensionless factor per step.
    """
    _check_smoothing(alpha, 1)
    f, e = _contest(interferer, capacity, eta)
    ratio = f / (e * capacity)
    with np.errstate(divide="ignore"):
        return 1.0 - alpha + alpha * np.where(ratio < 1.0, ratio, 1.0 / np.where(ratio > 0, ratio, np.inf))


def contested_loss(interferer: ArrayLike, capacity: float, eta: ArrayLike = ETA_CAP) -> NDArray[np.float64]:
    """Fraction of arrivals a full bottleneck must drop at the fixed point of `contested_share`.

    The offer is eta*C while the set survives and f when it is starved: 1 - C/offer.
    Arguments and errors as `contested_share`; returns a fraction, zero when nothing is overloaded.
    """
    f, e = _contest(interferer, capacity, eta)
    offer = np.where(f < e * capacity, e * capacity, f)
    return np.maximum(1.0 - capacity / offer, 0.0)


def standing_rtt_ratio(eta: ArrayLike = ETA_CAP) -> NDArray[np.float64]:
    """RTT over base RTT at which a set settles when RTT_avg in equation (1) is the frozen base RTT.

    The rate is then eta*a * base/RTT, which equals a only at RTT = eta*base: the cap acts like a
    delay-based control that tolerates a standing queue of (eta-1)*base. An interferer that keeps
    more queue than this starves the set. (The paper does not say which RTT it averages; with
    the measured RTT no such queue exists and the set is only bounded by loss.)

    Raises ValueError when `eta` is not positive. Source: this project, from equation (1).
    """
    e = np.asarray(eta, dtype=float)
    if not np.all(e > 0):
        raise ValueError("eta: must be positive")
    return np.maximum(e, 1.0)


def iterate(
    required: ArrayLike,
    capacity: ArrayLike,
    *,
    start: ArrayLike,
    interferer: ArrayLike = 0.0,
    demand: ArrayLike = np.inf,
    eta: float = ETA_CAP,
    alpha: float = ALPHA_AVAILABLE,
    n_rtt: int = N_RTT,
    form: Form = "intended",
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The recursion step by step: carried and available bandwidth of each connection.

    A first-come bottleneck of `capacity` serves offered rates in proportion when they exceed it.

    `required`: bit/s, shape (N,). `capacity`, `interferer`: bit/s per step, broadcast to shape (T,).
    `start`: available bandwidth before step 0, bit/s, broadcast to (N,), taken as carried over the
    last N_rtt steps too. `demand`: bit/s, broadcast to (N,). Returns (carried, available), each
    bit/s of shape (T, N); `available[t]` is the estimate after step t.
    Raises ValueError as `cap_rates` and `growth`, or when `capacity` is not positive.
    Source: this project, from sections 3.2.2 and 3.3.
    """
    _check_smoothing(alpha, n_rtt)
    lr = np.asarray(required, dtype=float)
    room, other = np.broadcast_arrays(
        np.atleast_1d(np.asarray(capacity, dtype=float)), np.asarray(interferer, dtype=float)
    )
    if not np.all(room > 0):
        raise ValueError("capacity: must be positive")
    limit = np.broadcast_to(np.asarray(demand, dtype=float), lr.shape)
    available = np.broadcast_to(np.asarray(start, dtype=float), lr.shape).copy()
    window = np.tile(available, (n_rtt, 1))
    carried_t = np.empty((room.size, lr.size))
    available_t = np.empty((room.size, lr.size))
    for t in range(room.size):
        offered = np.minimum(cap_rates(lr, available.mean(), eta, form), limit)
        total = offered.sum() + other[t]
        carried = offered * min(1.0, room[t] / total) if total > 0 else offered
        window[t % n_rtt] = carried
        available = (1.0 - alpha) * available + alpha * window.mean(axis=0)
        carried_t[t] = carried
        available_t[t] = available
    return carried_t, available_t


def latch_spread(spread: ArrayLike, alpha: float = ALPHA_REQUIRED, n_rtt: int = N_RTT) -> NDArray[np.float64]:
    """Coefficient of variation of a frozen requirement, from that of the rate of one round trip.

    reqd_bw is an exponential average of a moving average, and equation (1) keeps whatever value it
    had when control set in. For independent rates per round trip the weights are the convolution of
    alpha*(1-alpha)^j with N_rtt terms of 1/N_rtt; the result is the square root of the sum of their
    squares, times `spread`. The ratio between two connections of a set varies by about sqrt(2) times
    this: the proportion control can keep is only as good as the estimate it froze.

    `spread`: coefficient of variation of the rate of one round trip, any shape. Returns the same
    shape. Raises ValueError when `spread` is negative or as `growth`. Source: this project.
    """
    _check_smoothing(alpha, n_rtt)
    cv = np.asarray(spread, dtype=float)
    if not np.all(cv >= 0):
        raise ValueError("spread: must not be negative")
    keep = 1.0 - alpha
    # Overlap of the two windows at lag d sums to (1 - d/M) / M; an exponential average weighs a
    # stationary sequence's autocovariance at lag d with (alpha / (2 - alpha)) * keep^|d|.
    lags = np.arange(1, n_rtt)
    covariance = (1.0 + 2.0 * np.sum((1.0 - lags / n_rtt) * keep**lags)) / n_rtt
    return cv * np.sqrt(alpha / (2.0 - alpha) * covariance)


def _contest(
    interferer: ArrayLike, capacity: float, eta: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    f, e = np.broadcast_arrays(np.asarray(interferer, dtype=float), np.asarray(eta, dtype=float))
    if not np.all(f >= 0):
        raise ValueError("interferer: must not be negative")
    if not capacity > 0:
        raise ValueError(f"capacity: must be positive, got {capacity}")
    if not np.all(e > 0):
        raise ValueError("eta: must be positive")
    return f, e


def _check_smoothing(alpha: float, n_rtt: int) -> None:
    if not 0 < alpha <= 1:
        raise ValueError(f"alpha: must be in (0, 1], got {alpha}")
    if n_rtt < 1:
        raise ValueError(f"n_rtt: must be at least 1, got {n_rtt}")
