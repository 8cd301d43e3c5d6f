"""Ideal single-link schedulers: mean flow times in closed form, and exact fluid simulators for a trace.

Processor sharing (PS), first come first served (FCFS), shortest remaining time (SRPT) and least attained
service (LAS, also called foreground-background). They bound what a transport can reach on one link: SRPT is
the smallest mean flow completion time any schedule can have, PS is what RCP sets out to emulate.

Units: sizes in bits or bytes, capacity in the same unit per second, times in seconds, arrival rates in flows
per second. A size distribution enters the formulas only through its complementary CDF.

Sources: Kleinrock, *Queueing Systems* vol. 2 (PS, FB); Schrage and Miller, "The queue M/G/1 with the shortest
remaining processing time discipline" (1966); Pollaczek-Khinchine for FCFS.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

# --- Size distributions ---------------------------------------------------------------------------


@dataclass(frozen=True)
class SizeDistribution:
    """A flow size: its mean, second moment (may be infinite), complementary CDF and smallest value."""

    name: str
    mean: float
    second_moment: float
    ccdf: Callable[[Array], Array]
    smallest: float = 0.0
    largest: float = np.inf


def exponential(mean: float) -> SizeDistribution:
    """Exponentially distributed size with the given mean."""
    m = _one("mean", mean)
    return SizeDistribution("exponential", m, 2 * m * m, lambda x: np.exp(-np.asarray(x) / m))


def pareto(mean: float, shape: float) -> SizeDistribution:
    """Pareto distributed size with the given mean and shape above 1; infinite variance up to shape 2."""
    m, a = _one("mean", mean), float(shape)
    if not a > 1:
        raise ValueError(f"shape: must be above 1 for the mean to exist, got {shape!r}")
    k = m * (a - 1) / a
    second = a * k * k / (a - 2) if a > 2 else np.inf
    return SizeDistribution(
        "pareto",
        m,
        second,
        lambda x: np.where(np.asarray(x) < k, 1.0, (k / np.maximum(x, k)) ** a),
        smallest=k,
    )


def uniform(low: float, high: float) -> SizeDistribution:
    """Size uniform on [low, high]."""
    a, b = float(low), float(high)
    if not 0 <= a < b:
        raise ValueError(f"low: must satisfy 0 <= low < high, got {low!r}, {high!r}")
    return SizeDistribution(
        "uniform", (a + b) / 2, (a * a + a * b + b * b) / 3,
        lambda x: np.clip((b - np.asarray(x)) / (b - a), 0.0, 1.0), smallest=a, largest=b,
    )  # fmt: skip


def fixed(size: float) -> SizeDistribution:
    """Every flow has the same size."""
    s = _one("size", size)
    return SizeDistribution(
        "fixed", s, s * s, lambda x: (np.asarray(x) < s).astype(float), smallest=s, largest=s
    )


def _one(name: str, value: float) -> float:
    number = float(value)
    if not (np.isfinite(number) and number > 0):
        raise ValueError(f"{name}: must be positive and finite, got {value!r}")
    return number


def _load(dist: SizeDistribution, arrivals: float, capacity: float) -> tuple[float, float, float]:
    lam, c = _one("arrivals", arrivals), _one("capacity", capacity)
    rho = lam * dist.mean / c
    if rho >= 1:
        raise ValueError(f"arrivals: the load {rho:.4g} must stay below 1 for a steady state")
    return lam, c, rho


# --- M/G/1 closed forms ---------------------------------------------------------------------------


def ps_time(size: ArrayLike, dist: SizeDistribution, *, arrivals: float, capacity: float) -> Array:
    """Mean flow time of a flow of the given size under M/G/1-PS: x / (C (1 - rho)); insensitive to the
    distribution. ``size`` scalar or array; result in seconds, same shape."""
    _, c, rho = _load(dist, arrivals, capacity)
    return np.asarray(size, dtype=float) / (c * (1 - rho))


def ps_mean(dist: SizeDistribution, *, arrivals: float, capacity: float) -> float:
    """Mean flow completion time, in seconds, under M/G/1-PS."""
    return float(ps_time(dist.mean, dist, arrivals=arrivals, capacity=capacity))


def fcfs_mean(dist: SizeDistribution, *, arrivals: float, capacity: float) -> float:
    """Mean flow completion time, in seconds, under M/G/1-FCFS; infinite where the second moment is."""
    lam, c, rho = _load(dist, arrivals, capacity)
    # Pollaczek-Khinchine: W = lambda E[S^2] / (2 (1 - rho)), S = X / C
    return lam * dist.second_moment / (c * c) / (2 * (1 - rho)) + dist.mean / c


@dataclass(frozen=True)
class _Moments:
    """Truncated moments on a grid of sizes: integral of the ccdf, and of 2 t ccdf(t), from 0 to x."""

    x: Array
    ccdf: Array
    first: Array  # E[min(X, x)]
    second: Array  # E[min(X, x)^2]


def _moments(dist: SizeDistribution, points: int = 200_001) -> _Moments:
    # Logarithmic grid to a size that carries all but 1e-12 of the probability, or to the largest size. Below
    # the smallest size the ccdf is 1, so the integrals start there in closed form.
    top = dist.largest
    if not np.isfinite(top):
        top = dist.mean
        while float(dist.ccdf(np.asarray(top))) > 1e-12:
            top *= 2
    low = dist.smallest if dist.smallest > 0 else dist.mean * 1e-9
    if top > low:
        x = np.concatenate([[0.0], np.geomspace(low, top, points)])
    else:
        x = np.array([0.0, low])
    # The left limit of the ccdf at each upper end: a jump (fixed sizes) belongs to the next cell.
    g = dist.ccdf(x)
    left = np.where(x <= dist.smallest, 1.0, g)
    dx = np.diff(x)
    first = np.concatenate([[0.0], np.cumsum(dx * (g[:-1] + left[1:]) / 2)])
    # 2 t G(t) with G linear on a cell: exact integral
    a, b, ga, gb = x[:-1], x[1:], g[:-1], left[1:]
    cell = dx * (ga * (2 * a + b) + gb * (a + 2 * b)) / 3
    second = np.concatenate([[0.0], np.cumsum(cell)])
    return _Moments(x, g, first, second)


def _mean_over_sizes(dist: SizeDistribution, m: _Moments, time: Array) -> float:
    # E[T(X)] = integral of T against the distribution, trapezoid over its cells; the jump at the smallest
    # size (ccdf 1 to ccdf(x1)) counts as an atom there.
    probability = -np.diff(m.ccdf)
    if m.x.size == 2 or dist.smallest == dist.largest:
        return float(time[-1])
    middle = (time[:-1] + time[1:]) / 2
    return float(np.sum(probability * middle) + m.ccdf[-1] * time[-1])


def las_time(size: ArrayLike, dist: SizeDistribution, *, arrivals: float, capacity: float) -> Array:
    """Mean flow time of a flow of the given size under M/G/1-LAS, in seconds.

    With rho_x and W_x the load and FCFS wait of sizes truncated at x: T(x) = (W_x + x) / (1 - rho_x).
    """
    m = _moments(dist)
    return np.interp(np.asarray(size, dtype=float), m.x, _las_grid(dist, m, arrivals, capacity))


def _las_grid(dist: SizeDistribution, m: _Moments, arrivals: float, capacity: float) -> Array:
    lam, c, _ = _load(dist, arrivals, capacity)
    idle = 1 - lam * m.first / c
    # Kleinrock vol. 2, section 4.6: T(x) = lambda E[min(X,x)^2] / (2 (1-rho_x)^2) + x / (1-rho_x)
    return lam * m.second / (c * c) / (2 * idle**2) + m.x / c / idle


def las_mean(dist: SizeDistribution, *, arrivals: float, capacity: float) -> float:
    """Mean flow completion time, in seconds, under M/G/1-LAS, by quadrature over the size distribution."""
    m = _moments(dist)
    return _mean_over_sizes(dist, m, _las_grid(dist, m, arrivals, capacity))


def srpt_time(size: ArrayLike, dist: SizeDistribution, *, arrivals: float, capacity: float) -> Array:
    """Mean flow time of a flow of the given size under M/G/1-SRPT, in seconds (Schrage and Miller)."""
    m = _moments(dist)
    return np.interp(np.asarray(size, dtype=float), m.x, _srpt_grid(dist, m, arrivals, capacity))


def _srpt_grid(dist: SizeDistribution, m: _Moments, arrivals: float, capacity: float) -> Array:
    lam, c, _ = _load(dist, arrivals, capacity)
    # rho(x): load of the flows not larger than x, E[X; X <= x] = E[min(X, x)] - x P(X > x). The larger ones
    # still count in the second moment, once their remainder is x.
    idle = 1 - lam * (m.first - m.x * m.ccdf) / c
    wait = lam * m.second / (c * c) / (2 * idle**2)
    # Residence: integral of dt / (1 - rho(t)); below the smallest size nothing overtakes.
    before = np.where(m.x[1:] <= dist.smallest, 1.0, idle[1:])
    stay = np.concatenate([[0.0], np.cumsum(np.diff(m.x) / c * (1 / idle[:-1] + 1 / before) / 2)])
    return wait + stay


def srpt_mean(dist: SizeDistribution, *, arrivals: float, capacity: float) -> float:
    """Mean flow completion time, in seconds, under M/G/1-SRPT (for fixed sizes that is FCFS)."""
    if dist.smallest == dist.largest:
        return fcfs_mean(dist, arrivals=arrivals, capacity=capacity)
    m = _moments(dist)
    return _mean_over_sizes(dist, m, _srpt_grid(dist, m, arrivals, capacity))


# --- Fluid simulators for a given trace -----------------------------------------------------------


def _trace(
    arrivals: ArrayLike, sizes: ArrayLike, capacity: float
) -> tuple[Array, Array, float, NDArray[np.int64]]:
    a, s = np.asarray(arrivals, dtype=float), np.asarray(sizes, dtype=float)
    if a.ndim != 1 or s.shape != a.shape:
        raise ValueError(f"sizes: one size per arrival, got shapes {a.shape} and {s.shape}")
    if not np.all(np.isfinite(a)):
        raise ValueError("arrivals: must be finite times in seconds")
    if not np.all(np.isfinite(s)) or np.any(s <= 0):
        raise ValueError("sizes: must be positive and finite")
    return a, s, _one("capacity", capacity), np.argsort(a, kind="stable")


def fcfs_trace(arrivals: ArrayLike, sizes: ArrayLike, capacity: float) -> Array:
    """Completion time of every flow of a trace served in order of arrival; shape of ``arrivals``."""
    a, s, c, order = _trace(arrivals, sizes, capacity)
    out = np.empty_like(a)
    if a.size == 0:
        return out
    t, work = a[order], s[order] / c
    # Lindley without a loop: the finish of n is max over k <= n of (arrival k + work k..n).
    done = np.cumsum(work)
    out[order] = np.maximum.accumulate(t - (done - work)) + done
    return out


def ps_trace(arrivals: ArrayLike, sizes: ArrayLike, capacity: float) -> Array:
    """Completion time of every flow of a trace under processor sharing, in seconds.

    ``arrivals`` (N,) in seconds in any order, ``sizes`` (N,) and ``capacity`` in one unit and that unit per
    second. O(N log N): a flow leaves when the service given to each present flow has grown by its size.
    """
    a, s, c, order = _trace(arrivals, sizes, capacity)
    out = np.empty_like(a)
    heap: list[tuple[float, int]] = []
    now, given = 0.0, 0.0
    for i in order.tolist():
        arrival = float(a[i])
        while heap:
            end = now + (heap[0][0] - given) * len(heap) / c
            if end > arrival:
                break
            given, j = heapq.heappop(heap)
            now = end
            out[j] = now
        if heap:
            given += (arrival - now) * c / len(heap)
        else:
            given = 0.0  # an idle link: restart the counter so that it does not lose digits
        now = arrival
        heapq.heappush(heap, (given + float(s[i]), i))
    while heap:
        target = heap[0][0]
        now += (target - given) * len(heap) / c
        given, j = heapq.heappop(heap)
        out[j] = now
    return out


def srpt_trace(arrivals: ArrayLike, sizes: ArrayLike, capacity: float) -> Array:
    """Completion time of every flow of a trace under shortest remaining processing time, in seconds.

    The mean is the smallest any schedule of the link can reach. Arguments as :func:`ps_trace`. O(N log N).
    """
    a, s, c, order = _trace(arrivals, sizes, capacity)
    out = np.empty_like(a)
    heap: list[tuple[float, int]] = []
    now = 0.0
    for i in order.tolist():
        arrival = float(a[i])
        while heap:
            left, j = heap[0]
            end = now + left / c
            if end > arrival:
                heapq.heapreplace(heap, (left - (arrival - now) * c, j))  # still the smallest: it only shrank
                break
            heapq.heappop(heap)
            now = end
            out[j] = now
        now = arrival
        heapq.heappush(heap, (float(s[i]), i))
    while heap:
        left, j = heapq.heappop(heap)
        now += left / c
        out[j] = now
    return out


def las_trace(arrivals: ArrayLike, sizes: ArrayLike, capacity: float) -> Array:
    """Completion time of every flow of a trace under least attained service, in seconds.

    The flows that have received least share the link equally. Arguments as :func:`ps_trace`. Flows of equal
    attained service form a group; groups merge small into large, O(N log^2 N).
    """
    a, s, c, order = _trace(arrivals, sizes, capacity)
    out = np.empty_like(a)
    # Attained service grows towards the bottom of the stack; only the top group is served.
    attained: list[float] = []
    groups: list[list[tuple[float, int]]] = []  # heaps of (size, flow)
    now = 0.0

    def serve_until(limit: float) -> None:
        nonlocal now
        while groups:
            top = groups[-1]
            level = attained[-1]
            merge = attained[-2] if len(attained) > 1 else np.inf
            goal = min(top[0][0], merge)
            end = now + (goal - level) * len(top) / c
            if end > limit:
                attained[-1] = level + (limit - now) * c / len(top)
                break
            now = end
            attained[-1] = goal
            while top and top[0][0] <= goal:
                out[heapq.heappop(top)[1]] = now
            if not top:
                groups.pop()
                attained.pop()
            elif goal == merge:
                attained.pop()
                small, large = sorted((groups.pop(), groups.pop()), key=len)
                for entry in small:
                    heapq.heappush(large, entry)
                groups.append(large)

    for i in order.tolist():
        arrival = float(a[i])
        serve_until(arrival)
        now = arrival
        if groups and attained[-1] == 0.0:
            heapq.heappush(groups[-1], (float(s[i]), i))
        else:
            attained.append(0.0)
            groups.append([(float(s[i]), i)])
    serve_until(np.inf)
    return out
