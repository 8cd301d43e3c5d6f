"""The linearised loop of DCTCP senders and one queue without its marking, and limit cycles predicted for it.

Source: DT-DCTCP paper, Section IV, equations (10)-(18); `penstock.models.describing` says what is added.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from penstock.models.fluid import INFLOW, Link, operating_mark

Floats = NDArray[np.float64]
Complex = NDArray[np.complex128]

# Loci are sampled on this grid of w R_0 before roots are refined: from far below the slowest pole, g, to the
# tenth turn of the delay.
GRID = np.geomspace(1e-4, 60.0, 6_000)


@dataclass(frozen=True)
class Plant:
    """The linearised loop without its marking: flows, senders' averaging and queue at one operating point.

    Args:
        capacity: C, packets per second.
        rtt: R_0 (s), the round-trip time at the operating point.
        flows: N.
        g: weight of a new sample in alpha.
        growth: `always` for equation (1) as printed; `unmarked` for windows that do not grow on marked ACKs,
            see `penstock.models.fluid.solve`.
        inflow: `rate` for equation (3); `window` for conserved packets, q = N W - C d, which takes the pole
            1/R_0 out of (14) and leaves N.

    Raises:
        ValueError: a value that is not positive and finite, or an unknown `growth`.

    Source: equations (10)-(18); for `unmarked` the same linearisation of the changed (1).
    """

    capacity: float
    rtt: float
    flows: float
    g: float = 1 / 16
    growth: str = "always"
    inflow: str = "rate"

    def __post_init__(self) -> None:
        for name in ("capacity", "rtt", "flows", "g"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value > 0):
                raise ValueError(f"{name}: got {value!r}; must be positive and finite")
        if self.inflow not in INFLOW:
            raise ValueError(f"inflow: got {self.inflow!r}; must be one of {', '.join(INFLOW)}")
        operating_mark(self.window, self.growth)

    @property
    def window(self) -> float:
        """W_0 = R_0 C / N (packets)."""
        return self.rtt * self.capacity / self.flows

    @property
    def marked(self) -> float:
        """p_0 = alpha_0, sqrt(2 / W_0) for growth `always`; above 1 there is no operating point."""
        return float(operating_mark(self.window, self.growth))

    def _terms(self, misprint: bool = False) -> tuple[float, float, tuple[float, ...]]:
        """The rational part, gain (s + zero) / prod(s + pole): gain, zero and poles (rad/s)."""
        r, n, g, p = self.rtt, self.flows, self.g, self.marked
        through_alpha = self.window * p / (2 * r)  # -dW'/d alpha; sqrt(C/(2NR_0)) for `always`
        direct = through_alpha + (1 / r if self.growth == "unmarked" else 0.0)  # -dW'/dp
        # Eq. (15) prints N/R_0 where g/R_0, the gain of (13), is needed to obtain (17) from it.
        inner = n / r if misprint else g / r
        scale = direct * (g / r) / inner
        zero = inner * through_alpha / direct + g / r
        # -dW'/dW = alpha_0 p_0 / (2 R_0), which for `always` is N/(R_0^2 C).
        poles = (g / r, p * p / (2 * r))
        return (scale * n / r, zero, (*poles, 1 / r)) if self.inflow == "rate" else (scale * n, zero, poles)

    def response(self, omega: ArrayLike, *, as_printed_in_15: bool = False) -> Complex:
        """G(jw) at angular frequencies `omega` (rad/s), packets per unit of marking; same shape.

        The product of (13), (14), (15) and the delay: (17), (18). `as_printed_in_15` keeps the misprint N/R_0
        of (15). Equation (18) prints a minus sign that Theorem 1 and (17) do not have: without it the loop is
        the negative feedback that (6) assumes.
        """
        s = 1j * np.asarray(omega, float)
        gain, zero, poles = self._terms(as_printed_in_15)
        response: Complex = gain * (s + zero) * np.exp(-s * self.rtt)
        for pole in poles:
            response = response / (s + pole)
        return response

    def slope(self, omega: ArrayLike) -> Complex:
        """dG/ds at s = jw, by the logarithmic derivative of (17); same shape as `omega`."""
        s = 1j * np.asarray(omega, float)
        _, zero, poles = self._terms()
        return self.response(omega) * (1 / (s + zero) - sum(1 / (s + pole) for pole in poles) - self.rtt)

    def lag(self, omega: ArrayLike, *, as_printed_in_15: bool = False) -> Floats:
        """-arg G(jw) in rad, without jumps: 0 at w = 0, pole by pole. Same shape as `omega`."""
        w = np.asarray(omega, float)
        _, zero, poles = self._terms(as_printed_in_15)
        lag: Floats = w * self.rtt - np.arctan(w / zero) + sum(np.arctan(w / pole) for pole in poles)
        return lag

    def transfer_function(self) -> Any:
        """The plant without its delay, equation (17), as a `control.TransferFunction`."""
        import control

        gain, zero, poles = self._terms()
        s = control.tf("s")
        transfer = gain * (s + zero)
        for pole in poles:
            transfer = transfer / (s + pole)
        return transfer

    def frequencies(self, target: Floats, values: Floats, function: Any) -> list[float]:
        """Roots w of `function` = `target` (both real, on the grid), refined by bisection."""
        omega = GRID / self.rtt
        difference = values - target
        roots = []
        for i in np.flatnonzero(np.sign(difference[:-1]) * np.sign(difference[1:]) < 0):
            roots.append(float(brentq(function, omega[i], omega[i + 1], xtol=1e-9 * omega[i], rtol=1e-13)))
        return roots

    def phase_crossings(self, **form: bool) -> list[tuple[float, float]]:
        """Where G(jw) crosses the negative real axis: (w in rad/s, G there), most negative first."""
        values = self.response(GRID / self.rtt, **form).imag
        roots = self.frequencies(
            np.zeros_like(values), values, lambda w: float(self.response(w, **form).imag)
        )
        found = [(w, float(self.response(w, **form).real)) for w in roots]
        return sorted((f for f in found if f[1] < 0), key=lambda f: f[1])


def operating_plant(link: Link, queue: float, growth: str = "always", inflow: str = "rate") -> Plant:
    """The plant of one `link` with R_0 = d + queue/C (queue in packets)."""
    return Plant(
        capacity=float(np.asarray(link.capacity)),
        rtt=float(link.rtt_at(queue)),
        flows=float(np.asarray(link.flows)),
        g=float(np.asarray(link.g)),
        growth=growth,
        inflow=inflow,
    )


@dataclass(frozen=True)
class Intersection:
    """A predicted limit cycle of the queue.

    Attributes:
        amplitude: X (packets), half the swing of the queue's fundamental.
        omega: angular frequency (rad/s).
        mean: of the queue (packets).
        growth: d(growth rate of the oscillation)/d(amplitude) (1/(s packet)); negative: the cycle is stable.
    """

    amplitude: float
    omega: float
    mean: float
    growth: float

    @property
    def frequency(self) -> float:
        """In Hz."""
        return self.omega / (2 * np.pi)

    @property
    def stable(self) -> bool:
        """Whether a small change of amplitude dies out."""
        return self.growth < 0


def growth_rate(plant: Plant, omega: float, df: Any, amplitude: float) -> float:
    """Re(ds/dX) along 1 + N(X) G(s) = 0: quasi-static perturbation of the harmonic balance."""
    step = 1e-6 * amplitude
    slope = (df(amplitude + step) - df(amplitude - step)) / (2 * step)
    ds = -(slope / df(amplitude)) * plant.response(omega) / plant.slope(omega)
    return float(np.real(ds))
