"""Marking by queue length: one threshold, or two thresholds in either order.

The rule for a queue that turns round between the two thresholds is stated once, here, and is used by the
fluid model, by the describing functions and (in Rust) by the `hysteresis` queue discipline:

* marking starts when the queue rises through `k1` and stops when it falls through `k2`;
* at or above both thresholds every packet is marked, below both none is;
* `turn="hold"`: between the thresholds the last decision stands until one of the rules above changes it. With
  `k1 < k2` a queue that entered the band from below is marked, one that entered it from above is not;
  with `k1 > k2` it is the other way round (the ordinary lagging hysteresis);
* `turn="direction"` (only differs for `k1 < k2`): between the thresholds a rising queue is marked and a
  falling one is not, wherever it turned.

With `k1 == k2 == k` both reduce to DCTCP's single threshold: marked exactly when the queue is at least `k`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Marking:
    """Two marking thresholds and the rule for a queue that turns between them.

    Args:
        k1: queue at which marking starts (packets), scalar or array.
        k2: queue at which marking stops (packets), same shape; equal to `k1` for DCTCP.
        turn: `hold` or `direction`, see the module text.

    Raises:
        ValueError: a threshold is not positive and finite, or `turn` is unknown.

    Source: DT-DCTCP paper, Section III and Fig 2; the paper leaves the turn-round rule open.
    """

    k1: Any
    k2: Any
    turn: str = "hold"

    def __post_init__(self) -> None:
        for name in ("k1", "k2"):
            value = np.asarray(getattr(self, name), float)
            if not np.all(np.isfinite(value) & (value > 0)):
                raise ValueError(
                    f"{name}: got {getattr(self, name)!r}; a threshold must be positive and finite"
                )
        if self.turn not in ("hold", "direction"):
            raise ValueError(f"turn: got {self.turn!r}; must be 'hold' or 'direction'")

    @classmethod
    def single(cls, k: ArrayLike) -> Marking:
        """DCTCP's one threshold `k` (packets)."""
        return cls(k, k)

    @property
    def low(self) -> Floats:
        """The lower of the two thresholds (packets)."""
        return np.minimum(np.asarray(self.k1, float), np.asarray(self.k2, float))

    @property
    def high(self) -> Floats:
        """The higher of the two thresholds (packets)."""
        return np.maximum(np.asarray(self.k1, float), np.asarray(self.k2, float))

    @property
    def centre(self) -> Floats:
        """The mean of the two thresholds (packets)."""
        return (self.low + self.high) / 2

    def start(self, queue: ArrayLike) -> Bools:
        """Marking state for a queue (packets) that has no history: it came from below."""
        return np.asarray(queue, float) >= np.asarray(self.k1, float)

    def advance(self, marking: ArrayLike, before: ArrayLike, after: ArrayLike) -> tuple[Bools, Floats]:
        """State after the queue moved in a straight line, and the fraction of the move that was marked.

        Args:
            marking: state at the start of the move (bool).
            before, after: queue at its two ends (packets); all three broadcast.

        Returns:
            (marking, fraction): state at the end (bool) and the share of the move, 0..1, spent marking.
        """
        on = np.asarray(marking, bool)
        x0, x1 = np.asarray(before, float), np.asarray(after, float)
        k1, k2, low, high = np.asarray(self.k1, float), np.asarray(self.k2, float), self.low, self.high
        leading = k1 < k2
        move = x1 - x0
        rising, falling = move > 0, move < 0
        if self.turn == "direction":
            # A leading band follows the sign of the move; a move that starts inside takes effect at once.
            on = np.where(leading & rising & (x0 >= k1), True, on)
            on = np.where(leading & falling & (x0 < k2), False, on)
        # Level that switches the state in this move. A queue already between leading thresholds and not
        # marked can only start at the higher one; one that is marked there can only stop at the lower one.
        starts_at = np.where(leading & (x0 >= low), high, k1)
        stops_at = np.where(leading & (x0 < high), low, k2)
        switch_on = ~on & rising & (x1 >= starts_at)
        switch_off = on & falling & (x1 < stops_at)
        with np.errstate(divide="ignore", invalid="ignore"):
            over = np.clip((x1 - starts_at) / move, 0.0, 1.0)
            until = np.clip((stops_at - x0) / move, 0.0, 1.0)
        fraction = np.where(switch_on, over, np.where(switch_off, until, on.astype(float)))
        return (on | switch_on) & ~switch_off, fraction
