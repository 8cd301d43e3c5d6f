"""Describing functions and Nyquist loci of DCTCP and DT-DCTCP: as printed in the paper, and corrected.

Source: DT-DCTCP paper, Sections IV and V, equations (4)-(28).

The printed analysis puts the marking thresholds at K (or K1, K2) above the *mean* of the queue's oscillation.
It therefore describes a queue that swings about zero, and never marks one whose swing is less than K. The
corrected analysis keeps the plant, whose linearisation about (W_0, alpha_0, q_0) is right. It lets the
oscillation have the mean it needs: q = m + X sin(wt), where m makes the marked share of the cycle the
operating point's p_0 (a describing function with bias, Atherton 1982). Then, with D = K2 - K1,

    N(X) = (2 sin(pi p_0) / (pi X)) exp(j d),        sin d = D / (2 X sin(pi p_0)),
    -1/N(X) = -(pi X cos d) / (2 sin(pi p_0)) + j pi D / (4 sin^2(pi p_0)),
    m = (K1 + K2)/2 - X cos(pi p_0) cos d,

so -1/N of the single threshold (D = 0) is the whole negative real axis, and that of two thresholds is a
horizontal half line above it (K1 < K2) or below it (K1 > K2). A single threshold therefore always meets G and
always oscillates; a band with K1 < K2 can be crossed by an oscillation only where
Im G(jw) reaches pi D / (4 sin^2(pi p_0)).

The plant comes as printed, or with windows that grow on unmarked ACKs only (`growth="unmarked"`) and packets
that are conserved (`inflow="window"`), as in a network of DCTCP senders.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from penstock.models.fluid import WINDOW_FLOOR, Link
from penstock.models.loops import GRID, Intersection, Plant, growth_rate, operating_plant
from penstock.models.marking import Marking

Floats = NDArray[np.float64]
Complex = NDArray[np.complex128]

# --- As printed ---------------------------------------------------------------------------------------


def printed(amplitude: ArrayLike, k1: ArrayLike, k2: ArrayLike | None = None) -> Complex:
    """Describing function of marking as the paper prints it: an oscillation of zero mean.

    Args:
        amplitude: X (packets), at least max(k1, k2) or the result is nan: smaller swings are never marked.
        k1, k2: thresholds (packets); `k2` omitted means one threshold `k1`.

    Returns:
        N(X), complex, in 1/packets, broadcast over the arguments.

    Source: equation (22), and (27), of which (22) is the case k1 = k2.
    """
    x = np.asarray(amplitude, float)
    a = np.asarray(k1, float)
    b = a if k2 is None else np.asarray(k2, float)
    with np.errstate(invalid="ignore", divide="ignore"):
        real = (np.sqrt(1 - (a / x) ** 2) + np.sqrt(1 - (b / x) ** 2)) / (np.pi * x)  # Eq. (26)/X
        imaginary = (b - a) / (np.pi * x**2)  # Eq. (25)/X
        return real + 1j * imaginary


def printed_relative(amplitude: ArrayLike, k1: float, k2: float | None = None) -> Complex:
    """N_0(X) = N(X)/K_0 with K_0 = 1/K for one threshold and 1/K2 for two: equations (8), (23), (28)."""
    return printed(amplitude, k1, k2) * (k1 if k2 is None else k2)


def printed_intersections(plant: Plant, k1: float, k2: float | None = None) -> list[Intersection]:
    """Solutions of K_0 G(jw) = -1/N_0(X), equations (19), (24): what the paper calls possible oscillations.

    The mean of each is 0, the assumption in (20), (21), (25), (26). Sorted by amplitude; empty when the loci
    do not meet.
    """
    b = k1 if k2 is None else k2
    smallest = max(k1, b)

    def df(x: ArrayLike) -> Complex:
        return printed(x, k1, b)

    # X from threshold to far beyond the maximum of N; u = threshold/X is the natural coordinate.
    amplitudes = smallest / np.linspace(1 - 1e-9, 1e-3, 4000)
    omega = GRID / plant.rtt
    lag, magnitude = plant.lag(omega), np.abs(plant.response(omega))
    found = []
    for turn in range(4):
        # For each amplitude the frequency at which the phases agree: arg G = -pi - arg N - 2 pi turn.
        w = np.interp(np.pi + np.angle(df(amplitudes)) + 2 * np.pi * turn, lag, omega)
        balance = np.interp(w, omega, magnitude) * np.abs(df(amplitudes)) - 1

        def exact(x: float, turn: int = turn) -> tuple[float, float]:
            goal = -np.pi - float(np.angle(df(x))) - 2 * np.pi * turn

            v = float(brentq(lambda v: float(plant.lag(v)) + goal, omega[0], omega[-1], rtol=1e-13))
            return v, float(np.abs(plant.response(v)) * np.abs(df(x)) - 1)

        for i in np.flatnonzero(np.sign(balance[:-1]) * np.sign(balance[1:]) < 0):
            x = float(brentq(lambda x: exact(x)[1], amplitudes[i], amplitudes[i + 1], rtol=1e-12))
            v = exact(x)[0]
            found.append(Intersection(x, v, 0.0, growth_rate(plant, v, df, x)))
    return sorted(found, key=lambda f: f.amplitude)


def printed_margin(plant: Plant, k1: float, k2: float | None = None, *, misprint: bool = False) -> float:
    """Factor by which G must be multiplied before the printed loci touch; at most 1: they meet already.

    `misprint`: with equation (15) as printed, see `Plant.response`.
    """
    b = k1 if k2 is None else k2
    amplitudes = max(k1, b) / np.linspace(1 - 1e-9, 1e-3, 4000)
    n = printed(amplitudes, k1, b)
    omega = GRID / plant.rtt
    lag = plant.lag(omega, as_printed_in_15=misprint)
    w = np.interp(np.pi + np.angle(n), lag, omega)
    return float(1 / np.max(np.abs(plant.response(w, as_printed_in_15=misprint)) * np.abs(n)))


# --- Corrected ----------------------------------------------------------------------------------------


def biased(amplitude: ArrayLike, marking: Marking, mean: ArrayLike) -> tuple[Complex, Floats]:
    """Describing function of marking for q = mean + X sin(wt), and the marked share of the cycle.

    Args:
        amplitude: X (packets).
        marking: thresholds and the rule for turning between them.
        mean: m (packets); the arguments broadcast.

    Returns:
        (N, duty): N(X, m) complex in 1/packets; duty 0..1. With `turn="hold"`, an oscillation that reaches
        only one threshold is marked by that one; one that reaches neither keeps a constant state, which
        depends on history: duty is nan there.

    Source: own derivation from equations (4), (5); the module text has the closed form at a given duty.
    """
    x, m, k1, k2 = np.broadcast_arrays(
        *(np.asarray(v, float) for v in (amplitude, mean, marking.k1, marking.k2)),
    )
    top, bottom = m + x, m - x
    low, high = np.minimum(k1, k2), np.maximum(k1, k2)
    leading = k1 < k2
    # Level at which marking starts on the way up, and stops on the way down.
    up, down = k1.copy(), k2.copy()
    if marking.turn == "hold":
        only_low = leading & (bottom < low) & (top < high)
        only_high = leading & (bottom >= low) & (top >= high)
        up = np.where(only_high, high, up)
        down = np.where(only_low, low, down)
    with np.errstate(invalid="ignore", divide="ignore"):
        a, b = (up - m) / x, (down - m) / x
    if marking.turn == "direction":
        # A swing that stays inside the band is marked exactly while it rises.
        a = np.where(leading, np.clip(a, -1, 1), a)
        b = np.where(leading, np.clip(b, -1, 1), b)
    always = (np.maximum(a, b) <= -1) | ((bottom >= low) & (bottom >= high))
    never = (np.minimum(a, b) > 1) | ((top < low) & (top < high))
    with np.errstate(invalid="ignore"):
        start, stop = np.arcsin(a), np.pi - np.arcsin(b)
        b1 = (np.cos(start) - np.cos(stop)) / np.pi
        a1 = (np.sin(stop) - np.sin(start)) / np.pi
        duty = (stop - start) / (2 * np.pi)
        n = (b1 + 1j * a1) / x
    flat = always | never
    return np.where(flat, 0j, n), np.where(always, 1.0, np.where(never, 0.0, duty))


def at_duty(amplitude: ArrayLike, marking: Marking, duty: ArrayLike) -> tuple[Complex, Floats]:
    """Describing function of a swing across both thresholds that is marked for a share `duty` of its cycle.

    Args:
        amplitude: X (packets).
        marking: thresholds.
        duty: marked share p_0, 0..1 exclusive.

    Returns:
        (N, mean): N(X) in 1/packets and the mean queue (packets). nan where a swing of this amplitude and
        duty does not cross both thresholds.

    Source: own derivation, module text.
    """
    x, p = np.asarray(amplitude, float), np.asarray(duty, float)
    width = np.asarray(marking.k2, float) - np.asarray(marking.k1, float)
    sine = np.sin(np.pi * p)
    with np.errstate(invalid="ignore", divide="ignore"):
        lead = np.arcsin(width / (2 * x * sine))
        # Both thresholds are crossed when the start and stop angles are real: |pi/2 - pi p| + |d| <= pi/2.
        crossed = np.abs(np.pi / 2 - np.pi * p) + np.abs(lead) <= np.pi / 2
        lead = np.where(crossed, lead, np.nan)
        n = np.asarray(2 * sine / (np.pi * x) * np.exp(1j * lead), complex)
        mean: Floats = marking.centre - x * np.cos(np.pi * p) * np.cos(lead)
    return n, mean


@dataclass(frozen=True)
class Verdict:
    """What the corrected analysis says about one link and one marking rule.

    Attributes:
        operating: whether an operating point exists (W_0 > 2 for growth `always`; always for `unmarked`).
        plant: the linearised loop the answer holds for (R_0 at the predicted mean queue).
        cycle: the stable limit cycle, or None without an operating point or when none was found.
        spans: whether that cycle crosses both thresholds (always true for one threshold).
        unstable: unstable limit cycles, the borders between what the queue may settle to.
        band_peak: largest Im G(jw) beyond the phase crossing (packets per unit of marking).
        band_needed: pi D/(4 sin^2(pi p_0)), what Im G must reach for a cycle across the band (same unit).
    """

    operating: bool
    plant: Plant
    cycle: Intersection | None
    spans: bool
    unstable: tuple[Intersection, ...]
    band_peak: float
    band_needed: float

    @property
    def empties(self) -> bool:
        """Whether the predicted swing reaches an empty queue, which costs utilisation."""
        return self.cycle is not None and self.cycle.mean - self.cycle.amplitude <= 0

    @property
    def text(self) -> str:
        """One line for a reader."""
        if not self.operating:
            return f"no operating point: W_0 = {self.plant.window:.2f} packets, below {WINDOW_FLOOR:g}"
        if self.cycle is None:
            return "no limit cycle found"
        c = self.cycle
        where = "" if self.spans else " about one threshold"
        tail = "; the queue empties" if self.empties else ""
        swing = f"mean {c.mean:.1f}, amplitude {c.amplitude:.1f} packets, {c.frequency:.0f} Hz"
        return f"limit cycle{where}: {swing}{tail}"


def _corrected_at(plant: Plant, marking: Marking) -> list[tuple[Intersection, bool]]:
    """Limit cycles of the corrected analysis at a fixed R_0, with whether each crosses both thresholds."""
    p = plant.marked
    if not p < 1:
        return []
    k1, k2 = float(np.asarray(marking.k1)), float(np.asarray(marking.k2))
    if k1 < k2 and marking.turn == "direction":
        return _corrected_by_search(plant, marking)
    sine = np.sin(np.pi * p)
    needed = np.pi * (k2 - k1) / (4 * sine**2)
    # |d| < pi/2 puts G in the left half plane of its first turn. Meetings on later turns of the spiral lie
    # inside the first, where the loop is unstable whatever their own sign says; they are no oscillations.
    omega_grid = GRID / plant.rtt
    first_turn = int(np.argmax(plant.lag(omega_grid) > 1.5 * np.pi))
    imaginary = plant.response(omega_grid[:first_turn]).imag
    roots = plant.frequencies(
        np.full_like(imaginary, needed), imaginary, lambda w: float(plant.response(w).imag) - needed
    )
    found = []
    for omega in roots:
        value = plant.response(omega)
        if value.real >= 0:
            continue
        x = float(2 * sine * abs(value) / np.pi)
        _, mean = at_duty(x, marking, p)
        if np.isfinite(mean):
            growth = growth_rate(plant, omega, lambda v: at_duty(v, marking, p)[0], x)
            found.append((Intersection(x, omega, float(mean), growth), True))
    if k1 < k2:
        # A swing about one of the thresholds that never reaches the other.
        for k in (k1, k2):
            single = Marking.single(k)
            for cycle, _ in _corrected_at(plant, single):
                low, high = cycle.mean - cycle.amplitude, cycle.mean + cycle.amplitude
                if (k == k1 and high < k2) or (k == k2 and low >= k1):
                    found.append((cycle, False))
    return found


def _mean_for_duty(amplitude: Floats, marking: Marking, duty: float) -> Floats:
    """Mean queue at which a swing of each amplitude is marked for the share `duty`, by bisection."""
    low = float(marking.low) - amplitude
    high = float(marking.high) + amplitude
    for _ in range(80):
        middle = (low + high) / 2
        # The share marked never falls as the mean rises.
        more = biased(amplitude, marking, middle)[1] >= duty
        low, high = np.where(more, low, middle), np.where(more, middle, high)
    return (low + high) / 2


def _corrected_by_search(plant: Plant, marking: Marking) -> list[tuple[Intersection, bool]]:
    """As `_corrected_at`, without a closed form: for each amplitude mean from duty, frequency from phase."""
    p = plant.marked
    omega = GRID / plant.rtt
    response = plant.response(omega)
    lag, size = plant.lag(omega), np.abs(response)
    primary = lag < 2.5 * np.pi

    def df(x: ArrayLike) -> Complex:
        x = np.asarray(x, float)
        return biased(x, marking, _mean_for_duty(x, marking, p))[0]

    amplitudes = np.geomspace(1e-3 * float(marking.centre), 1e2 * float(marking.centre), 4000)
    n = df(amplitudes)
    w = np.interp(np.pi + np.angle(n), lag[primary], omega[primary])
    balance = np.interp(w, omega, size) * np.abs(n) - 1
    found = []
    for i in np.flatnonzero(np.sign(balance[:-1]) * np.sign(balance[1:]) < 0):
        weight = balance[i] / (balance[i] - balance[i + 1])
        x = float(amplitudes[i] + weight * (amplitudes[i + 1] - amplitudes[i]))
        v = float(w[i] + weight * (w[i + 1] - w[i]))
        mean = float(_mean_for_duty(np.array([x]), marking, p)[0])
        spans = mean - x < float(marking.low) and mean + x >= float(marking.high)
        found.append((Intersection(x, v, mean, growth_rate(plant, v, df, x)), bool(spans)))
    return found


def analyse(
    link: Link, marking: Marking, *, growth: str = "always", inflow: str = "rate", start: str = "above"
) -> Verdict:
    """Limit cycle and stability of one link's queue under a marking rule, by the corrected analysis.

    Args:
        link: one case (scalars).
        marking: thresholds (scalars).
        growth, inflow: see `Plant`; `unmarked` and `window` are what DCTCP senders do.
        start: `above` or `below`: for K1 < K2, a queue that settles without crossing the band swings about
            K2 when it came from above (after slow start) and about K1 when it came from below.

    Returns:
        Verdict. R_0 = d + q_0/C is taken at the mean queue the analysis itself predicts (fixed point).

    Raises:
        ValueError: `start` is unknown, or `link`/`marking` are not scalar.
    """
    if start not in ("above", "below"):
        raise ValueError(f"start: got {start!r}; must be 'above' or 'below'")
    for name in ("capacity", "base_rtt", "flows", "g"):
        if np.ndim(getattr(link, name)) != 0:
            raise ValueError(f"{name}: got an array; analyse takes one case")
    if np.ndim(marking.k1) != 0 or np.ndim(marking.k2) != 0:
        raise ValueError("k1, k2: got an array; analyse takes one case")
    width = float(np.asarray(marking.k2)) - float(np.asarray(marking.k1))

    def choose(found: list[tuple[Intersection, bool]]) -> tuple[Intersection, bool] | None:
        steady = [f for f in found if f[0].stable]
        if not steady:
            return None
        # The largest swing attracts a queue that starts from slow start's overshoot; of two swings about one
        # threshold each, the history decides.
        spanning = [f for f in steady if f[1]]
        if spanning:
            return max(spanning, key=lambda f: f[0].amplitude)
        key = (lambda f: f[0].mean) if start == "above" else (lambda f: -f[0].mean)
        return max(steady, key=key)

    # Fixed point by damped substitution: the mean moves R_0, which moves p_0, which moves the mean.
    queue = good = float(marking.centre)
    best: tuple[Intersection, bool] | None = None
    found: list[tuple[Intersection, bool]] = []
    for _ in range(200):
        here = _corrected_at(operating_plant(link, queue, growth, inflow), marking)
        chosen = choose(here)
        if chosen is None:
            # Stepped out of the region that has a cycle: go back half way to the last queue that had one.
            if best is None or abs(queue - good) < 1e-6:
                break
            queue = (queue + good) / 2
            continue
        best, found, good = chosen, here, queue
        change = best[0].mean - queue
        if abs(change) < 1e-9 * max(1.0, queue):
            break
        queue = max(0.0, queue + change / 2)
    queue = good
    plant = operating_plant(link, queue, growth, inflow)
    operating = plant.marked < 1
    omega = GRID / plant.rtt
    crossings = plant.phase_crossings()
    beyond = plant.response(omega[omega > crossings[0][0]]) if crossings else np.array([0j])
    peak = float(np.max(beyond.imag[beyond.real < 0], initial=0.0))
    needed = float(np.pi * width / (4 * np.sin(np.pi * plant.marked) ** 2)) if operating else float("inf")
    return Verdict(
        operating=operating,
        plant=plant,
        cycle=best[0] if best and operating else None,
        spans=bool(best[1]) if best else False,
        unstable=tuple(f[0] for f in found if not f[0].stable),
        band_peak=peak,
        band_needed=needed,
    )


def marking_nonlinearity(marking: Marking, duty: float) -> Any:
    """The corrected describing function for python-control: a `control.DescribingFunctionNonlinearity`.

    Args:
        marking: thresholds (scalars).
        duty: marked share p_0 of the cycle.
    """
    import control

    class _Marking(control.DescribingFunctionNonlinearity):
        def describing_function(self, A: float) -> complex:  # python-control names it A
            return complex(at_duty(A, marking, duty)[0])

        def __call__(self, x: float) -> float:
            return float(marking.start(x))

        def _isstatic(self) -> bool:
            return bool(np.asarray(marking.k1) == np.asarray(marking.k2))

    return _Marking()
