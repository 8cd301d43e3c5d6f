"""Models of rate control for RDMA: DCQCN's fluid equations and fixed point, TIMELY's, and where HPCC and
Swift settle.

Sources: Zhu, Ghobadi, Misra, Padhye, "ECN or Delay: Lessons Learnt from Analysis of DCQCN and TIMELY", CoNEXT
2016 (sections 3 and 4);
HPCC, SIGCOMM 2019, section 3; Swift, SIGCOMM 2020, section 3.5. All from memory: the fixed points are derived
again in the docstrings and
checked by tests against the equations, not against the papers' figures.

Rates are in packets per second, queues and windows in packets, times in seconds, unless the name says
otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Trajectory:
    """A solution: times `t` (steps,), queue (steps,), rates (steps, flows); further states by name in
    `states`."""

    t: Floats
    queue: Floats
    rates: Floats
    states: dict[str, Floats]


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not (np.isfinite(value) and value > 0):
            raise ValueError(f"{name}: got {value!r}; must be positive and finite")


# ---- DCQCN ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Dcqcn:
    """A bottleneck and DCQCN's parameters; the defaults are the paper's, for packets of 1 KB at 40 Gb/s.

    Args:
        capacity: packets per second.
        flows: number of flows, N.
        kmin, kmax, pmax: marking, packets and probability.
        increase: R_AI, packets per second.
        byte_counter: B, packets.
        timer: T (s).
        fast_recovery: F.
        cnp_interval: tau (s).
        alpha_interval: tau' (s).
        g: gain of alpha.
        delay: of the control loop, tau* (s).

    Raises:
        ValueError: a field is not positive and finite, kmin is above kmax, pmax above 1.
    """

    capacity: float = 5e6
    flows: int = 2
    kmin: float = 5
    kmax: float = 200
    pmax: float = 0.01
    increase: float = 5e3
    byte_counter: float = 1e4
    timer: float = 55e-6
    fast_recovery: int = 5
    cnp_interval: float = 50e-6
    alpha_interval: float = 55e-6
    g: float = 1 / 256
    delay: float = 4e-6

    def __post_init__(self) -> None:
        _positive(**{name: float(getattr(self, name)) for name in self.__dataclass_fields__})
        if self.kmin > self.kmax:
            raise ValueError(f"kmin: got {self.kmin!r}; must not be above kmax ({self.kmax})")
        if self.pmax > 1:
            raise ValueError(f"pmax: got {self.pmax!r}; must be at most 1")

    def marked(self, queue: ArrayLike) -> Floats:
        """Share of packets marked at a queue: 0 up to kmin, a line to pmax at kmax, 1 above (equation 3)."""
        q = np.asarray(queue, float)
        line = self.pmax * (q - self.kmin) / max(self.kmax - self.kmin, 1e-300)
        return np.where(q <= self.kmin, 0.0, np.where(q <= self.kmax, line, 1.0))

    def _terms(self, p: Floats, rate: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Chance of a CNP in tau; increases per packet by byte counter and by timer; how many of them are
        additive."""
        p = np.maximum(p, 1e-12)
        log = np.log1p(-np.minimum(p, 1 - 1e-12))
        cut = -np.expm1(self.cnp_interval * rate * log)
        by_bytes = p / np.expm1(np.minimum(-self.byte_counter * log, 700.0))
        by_timer = p / np.expm1(np.minimum(-self.timer * rate * log, 700.0))
        beyond = np.exp(self.fast_recovery * self.byte_counter * log) * by_bytes
        beyond += np.exp(self.fast_recovery * self.timer * rate * log) * by_timer
        return cut, by_bytes, by_timer, beyond

    def imbalance(self, p: float) -> float:
        """Logarithm of the left side of equation 11 (`fixed_point`) over the right one at a marked share p.

        It is 0 where nothing moves.
        """
        rate, share = np.asarray(self.capacity / self.flows), np.asarray(p)
        a, b, d, c = self._terms(share, rate)
        alpha = -np.expm1(self.alpha_interval * rate * np.log1p(-share))
        return float(
            np.log(a**2 * alpha / ((b + d) * c)) - np.log(self.cnp_interval**2 * self.increase * rate)
        )

    def fixed_point(self) -> tuple[float, float]:
        """Marked share p* and queue (packets) at which all rates are C/N and nothing moves.

        dR_C/dt = 0 gives R_T - R_C = alpha a / (tau (b + d)). In dR_T/dt = 0 this becomes a^2 alpha / ((b +
        d) c) = tau^2 R_AI R, with alpha = 1 - (1 - p)^(tau' R) and a, b, d, c of `_terms` (CoNEXT 2016,
        equation 11). The left side grows with p, so there is one solution. The queue is that with this share
        of marks, NaN if none below kmax has it (p* above pmax).
        """
        rate = self.capacity / self.flows
        # Far above the solution increases are too rare for floating point.
        least = min(self.byte_counter, self.timer * rate)
        most = min(0.5, 60 / (self.fast_recovery * least))
        p = float(np.exp(brentq(lambda log_p: self.imbalance(np.exp(log_p)), np.log(1e-11), np.log(most))))
        queue = self.kmin + p / self.pmax * (self.kmax - self.kmin) if p <= self.pmax else float("nan")
        return p, queue

    def fixed_point_small(self) -> float:
        """p* for small p: cbrt(R_AI N^2 (1/B + N/(T C))^2 / (tau' C^2)) (CoNEXT 2016, equation 14)."""
        n, c = self.flows, self.capacity
        steps = 1 / self.byte_counter + n / (self.timer * c)
        return float(np.cbrt(self.increase * n**2 * steps**2 / (self.alpha_interval * c**2)))

    def solve(self, duration: float, rates: ArrayLike | None = None, step: float = 1e-6) -> Trajectory:
        """Equations 4 to 7 by Euler steps of `step` seconds, from an empty queue and `rates` (flows,); unset
        = the line rate each.

        Raises:
            ValueError: duration or step is not positive, rates are not one per flow.
        """
        _positive(duration=duration, step=step)
        n = self.flows
        rate = np.full(n, self.capacity) if rates is None else np.asarray(rates, float).copy()
        if rate.shape != (n,):
            raise ValueError(f"rates: got {rate.shape[0]} values; must be one per flow ({n})")
        target, alpha, queue = rate.copy(), np.ones(n), 0.0
        steps, lag = round(duration / step), max(1, round(self.delay / step))
        out_q, out_r, out_a = np.empty(steps), np.empty((steps, n)), np.empty((steps, n))
        for k in range(steps):
            out_q[k], out_r[k], out_a[k] = queue, rate, alpha
            then = max(0, k - lag)
            p, old = self.marked(out_q[then]), out_r[then]
            a, b, d, c = self._terms(p, old)
            marks = -np.expm1(self.alpha_interval * old * np.log1p(-np.minimum(p, 1 - 1e-12)))
            gap = target - rate
            d_alpha = self.g / self.alpha_interval * (marks - alpha)
            d_target = -gap / self.cnp_interval * a + self.increase * old * c
            d_rate = -rate * alpha / (2 * self.cnp_interval) * a + gap / 2 * old * (b + d)
            queue = max(0.0, queue + step * (rate.sum() - self.capacity))
            alpha = alpha + step * d_alpha
            target = np.clip(target + step * d_target, 1e-3 * self.capacity, self.capacity)
            rate = np.clip(rate + step * d_rate, 1e-3 * self.capacity, self.capacity)
        return Trajectory(step * np.arange(steps, dtype=float), out_q, out_r, {"alpha": out_a})

    def solve_for(
        self, flows: Sequence[int], duration: float, rates: Sequence[ArrayLike], step: float = 1e-6
    ) -> list[Trajectory]:
        """`solve` for several numbers of flows at once, in the time of one: bottlenecks side by side that
        differ in nothing else, with the rates (flows,) that each begins with. Without alpha.

        Raises:
            ValueError: duration or step is not positive, rates are not one per flow.
        """
        _positive(duration=duration, step=step)
        rate = np.concatenate([np.asarray(r, float) for r in rates])
        if [len(np.atleast_1d(r)) for r in rates] != list(flows):
            raise ValueError(f"rates: must be one per flow, of {', '.join(map(str, flows))}")
        starts, whose = np.cumsum([0, *flows[:-1]]), np.repeat(np.arange(len(flows)), flows)
        target, alpha, queue = rate.copy(), np.ones(len(rate)), np.zeros(len(flows))
        steps, lag = round(duration / step), max(1, round(self.delay / step))
        out_q, out_r = np.empty((steps, len(flows))), np.empty((steps, len(rate)))
        least, tau = 1e-3 * self.capacity, self.cnp_interval
        for k in range(steps):
            out_q[k], out_r[k] = queue, rate
            then = max(0, k - lag)
            p, old = self.marked(out_q[then])[whose], out_r[then]
            a, b, d, c = self._terms(p, old)
            marks = -np.expm1(self.alpha_interval * old * np.log1p(-np.minimum(p, 1 - 1e-12)))
            gap = target - rate
            d_target = -gap / tau * a + self.increase * old * c
            d_rate = -rate * alpha / (2 * tau) * a + gap / 2 * old * (b + d)
            queue = np.maximum(0.0, queue + step * (np.add.reduceat(rate, starts) - self.capacity))
            alpha = alpha + step * self.g / self.alpha_interval * (marks - alpha)
            target = np.minimum(np.maximum(target + step * d_target, least), self.capacity)
            rate = np.minimum(np.maximum(rate + step * d_rate, least), self.capacity)
        t = step * np.arange(steps, dtype=float)
        return [Trajectory(t, out_q[:, i], out_r[:, whose == i], {}) for i in range(len(flows))]


# ---- TIMELY -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Timely:
    """A bottleneck and TIMELY's parameters, as published or patched; defaults: packets of 1 KB at 10 Gb/s, 16
    packets per segment.

    Args:
        capacity: packets per second.
        flows: number of flows, N.
        t_low, t_high: thresholds of the RTT (s).
        increase: delta, packets per second.
        beta: factor of a decrease; unset = 0.8, 0.008 where patched.
        weight: of a new difference, alpha.
        min_rtt: D_minRTT (s).
        segment: packets per RTT sample.
        delay: propagation there and back (s).
        patched: algorithm 2 of CoNEXT 2016.

    Raises:
        ValueError: a field is not positive and finite, t_low is not below t_high.
    """

    capacity: float = 1.25e6
    flows: int = 2
    t_low: float = 50e-6
    t_high: float = 500e-6
    increase: float = 1.25e3
    beta: float | None = None
    weight: float = 0.875
    min_rtt: float = 20e-6
    segment: float = 16
    delay: float = 4e-6
    patched: bool = False

    def __post_init__(self) -> None:
        names = [n for n in self.__dataclass_fields__ if n not in ("beta", "patched")]
        _positive(beta=self.factor, **{name: float(getattr(self, name)) for name in names})
        if self.t_low >= self.t_high:
            raise ValueError(f"t_low: got {self.t_low!r}; must be below t_high ({self.t_high})")

    @property
    def factor(self) -> float:
        """beta, its default filled in."""
        return self.beta if self.beta is not None else 0.008 if self.patched else 0.8

    def fixed_point(self) -> float:
        """Queue (packets) of the patched form: q' (1 + N delta / (beta C)), q' = C t_low (CoNEXT 2016,
        equation 31).

        There the gradient is 0, so w = 1/2, and delta / 2 = beta R (q - q') / (2 q') with R = C/N. TIMELY as
        published has none: with a
        gradient of 0 its rate grows, whatever the rates are (theorem 3).

        Raises:
            ValueError: not the patched form.
        """
        if not self.patched:
            raise ValueError("patched: got False; TIMELY as published has no fixed point")
        reference = self.capacity * self.t_low
        return reference * (1 + self.flows * self.increase / (self.factor * self.capacity))

    def solve(self, duration: float, rates: ArrayLike | None = None, step: float = 1e-6) -> Trajectory:
        """Equations 20 to 24 (patched: 25 to 29) by Euler steps, from an empty queue and `rates` (flows,);
        unset = C/N each.

        Raises:
            ValueError: duration or step is not positive, rates are not one per flow.
        """
        _positive(duration=duration, step=step)
        n = self.flows
        rate = np.full(n, self.capacity / n) if rates is None else np.asarray(rates, float).copy()
        if rate.shape != (n,):
            raise ValueError(f"rates: got {rate.shape[0]} values; must be one per flow ({n})")
        gradient, queue = np.zeros(n), 0.0
        low, high = self.capacity * self.t_low, self.capacity * self.t_high
        steps = round(duration / step)
        out_q, out_r, out_g = np.empty(steps), np.empty((steps, n)), np.empty((steps, n))

        def at(k: int, ago: ArrayLike) -> Floats:
            then = k - np.round(np.asarray(ago) / step).astype(int)
            return np.where(then < 0, 0.0, out_q[np.clip(then, 0, k)])

        for k in range(steps):
            out_q[k], out_r[k], out_g[k] = queue, rate, gradient
            between = np.maximum(self.segment / rate, self.min_rtt)
            back = queue / self.capacity + 1 / self.capacity + self.delay
            seen, before = at(k, back), at(k, back + between)
            d_gradient = (
                self.weight / between * (-gradient + (seen - before) / (self.capacity * self.min_rtt))
            )
            grow = np.full(n, self.increase)
            if self.patched:
                w = np.clip(2 * gradient + 0.5, 0.0, 1.0)
                inner = grow * (1 - w) - w * self.factor * rate * (seen - low) / low
            else:
                inner = np.where(gradient <= 0, grow, -gradient * self.factor * rate)
            fall = -self.factor * rate * (1 - high / np.maximum(seen, 1e-9))
            change = np.where(seen < low, grow, np.where(seen > high, fall, inner)) / between
            queue = max(0.0, queue + step * (rate.sum() - self.capacity))
            gradient = gradient + step * d_gradient
            rate = np.clip(rate + step * change, 1e-3 * self.capacity, self.capacity)
        return Trajectory(step * np.arange(steps, dtype=float), out_q, out_r, {"gradient": out_g})


# ---- HPCC and Swift ---------------------------------------------------------------------------------------


def hpcc_equilibrium(
    flows: ArrayLike, pipe: float, increase: float, eta: float = 0.95
) -> tuple[Floats, Floats]:
    """Load U of a link and its queue (in the unit of `pipe`) where HPCC's windows stand still, for numbers of
    flows (any shape).

    All windows are W = W eta / U + W_AI (algorithm 1, line 13), and N W = U B T: U = eta + N W_AI / (B T).
    Below U = 1 nothing queues;
    above, the queue is (U - 1) B T. `pipe` is B T and `increase` W_AI, both in bytes or packets.

    Raises:
        ValueError: pipe, increase or eta is not positive.
    """
    _positive(pipe=pipe, increase=increase, eta=eta)
    load = eta + np.asarray(flows, float) * increase / pipe
    return load, np.maximum(0.0, load - 1) * pipe


@dataclass(frozen=True)
class Swift:
    """A bottleneck of `capacity` packets per second behind an idle path of `base_rtt` seconds, and Swift's
    target of delay.

    Args:
        base_target: seconds.
        hop_scale, hops: seconds per switch, and switches.
        fs_range: most that the target grows (s).
        fs_min_cwnd, fs_max_cwnd: windows between which it does (packets).

    Raises:
        ValueError: capacity, base_rtt, base_target or a window is not positive, fs_min_cwnd is not below
            fs_max_cwnd.
    """

    capacity: float
    base_rtt: float
    base_target: float
    hop_scale: float = 0.0
    hops: int = 0
    fs_range: float = 0.0
    fs_min_cwnd: float = 0.1
    fs_max_cwnd: float = 100.0

    def __post_init__(self) -> None:
        _positive(
            **{
                n: getattr(self, n)
                for n in ("capacity", "base_rtt", "base_target", "fs_min_cwnd", "fs_max_cwnd")
            }
        )
        if self.fs_min_cwnd >= self.fs_max_cwnd:
            raise ValueError(
                f"fs_min_cwnd: got {self.fs_min_cwnd!r}; must be below fs_max_cwnd ({self.fs_max_cwnd})"
            )

    def target(self, window: ArrayLike) -> Floats:
        """Target delay (s) at a window (packets): section 3.5."""
        w = np.asarray(window, float)
        scale = self.fs_range / (self.fs_min_cwnd**-0.5 - self.fs_max_cwnd**-0.5)
        grown = scale * (w**-0.5 - self.fs_max_cwnd**-0.5)
        return self.base_target + self.hops * self.hop_scale + np.clip(grown, 0.0, self.fs_range)

    def equilibrium(self, flows: ArrayLike) -> tuple[Floats, Floats]:
        """Window of each of so many flows (packets, any shape) and queue (packets) where the delay is at its
        target.

        The delay of a full link is N w / C: w = C target(w) / N, solved for w; the queue is C (target -
        base_rtt). Below the base
        RTT a target cannot be met: the queue is 0 and the link not full.
        """

        def one(n: float) -> float:
            gap = lambda w: w - self.capacity * float(self.target(w)) / n  # noqa: E731
            most = self.capacity * (self.base_target + self.hops * self.hop_scale + self.fs_range) / n
            return float(brentq(gap, most * 1e-9, most * 2))

        n = np.asarray(flows, float)
        window = np.vectorize(one, otypes=[float])(n)
        return window, np.maximum(0.0, self.capacity * (self.target(window) - self.base_rtt))
