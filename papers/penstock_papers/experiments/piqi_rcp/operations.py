"""Operations per packet of the routers of RCP and XCP, counted on their formulas: as the engine has them, and
as later texts write them.

The formulas of the engine are here only to show that counting them gives what its routers count. The running
average is that of the ns-2 code of RCP, XCP with the time per packet in its header that of its Internet-Draft
(draft-falk-xcp-spec, 2007): both from memory, their texts were not at hand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable


class Number:
    """A number whose additions and multiplications are counted; subtractions and divisions are such, too."""

    def __init__(self, value: float, done: Counter[str]) -> None:
        self.value = value
        self._done = done

    def _with(self, other: Number, what: str, value: float) -> Number:
        self._done[what] += 1
        return Number(value, other._done)

    def __add__(self, other: Number) -> Number:
        return self._with(other, "additions", self.value + other.value)

    def __sub__(self, other: Number) -> Number:
        return self._with(other, "additions", self.value - other.value)

    def __mul__(self, other: Number) -> Number:
        return self._with(other, "multiplications", self.value * other.value)

    def __truediv__(self, other: Number) -> Number:
        return self._with(other, "multiplications", self.value / other.value)


New = Callable[[float], Number]


def _rcp(new: New) -> None:
    """The engine's, with a mean over bytes: y += s, sum += rtt s."""
    size, rtt = new(1500), new(0.1)
    _, _ = new(0) + size, new(0) + rtt * size


def _rcp_running(new: New) -> None:
    """A running average instead of a sum: y += s, d = theta rtt + (1 - theta) d; 1 - theta is a constant."""
    size, rtt, mean, theta, rest = new(1500), new(0.1), new(0.09), new(0.02), new(0.98)
    _, _ = new(0) + size, theta * rtt + rest * mean


def _xcp(new: New) -> None:
    """The engine's, section 3.4 of Katabi et al. (2002) with H_cwnd and H_rtt."""
    size, rtt, cwnd, xi_p, xi_n, left = new(1500), new(0.1), new(5e4), new(1e6), new(1.0), new(1e6)
    share = rtt * size / cwnd
    _, _, _ = new(0) + size, new(0) + share, new(0) + share * rtt
    up, down = xi_p * (rtt * size / cwnd), xi_n * size
    _ = (up - down) * rtt
    _, _ = left - up, left - down


def _xcp_ready(new: New) -> None:
    """The header carries X = rtt s / cwnd, the time per packet, and feedback is a change of the rate."""
    size, rtt, x, xi_p, xi_n, left = new(1500), new(0.1), new(0.003), new(1e6), new(1.0), new(1e6)
    _, _, _ = new(0) + size, new(0) + x, new(0) + rtt * x
    up, down = xi_p * x, xi_n * size
    _ = up - down
    _, _ = left - up, left - down


FORMULAS = {
    "RCP, over bytes": _rcp,
    "RCP, running average": _rcp_running,
    "XCP": _xcp,
    "XCP, time per packet": _xcp_ready,
}


def counted() -> dict[str, dict[str, float]]:
    """Additions and multiplications per packet of each formula."""
    found = {}
    for name, formula in FORMULAS.items():
        done: Counter[str] = Counter(additions=0, multiplications=0)
        formula(lambda value, done=done: Number(value, done))  # type: ignore[misc]
        found[name] = {what: float(count) for what, count in done.items()}
    return found
