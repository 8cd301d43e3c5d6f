"""Exact max-min fair rates on a set of links, by progressive filling in rational arithmetic.

Source: Bertsekas and Gallager, *Data Networks*, section 6.5.2. Max-min is the allocation RCP-family routers
aim at; this solver is the yardstick their simulated rates are held to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class MaxMin:
    """``rates``: one per flow, in the unit of the capacities; ``bottleneck``: index of the link that limits
    each flow, -1 where its own demand does."""

    rates: NDArray[np.float64]
    bottleneck: NDArray[np.int64]


def max_min(
    capacities: Sequence[float], paths: Sequence[Sequence[int]], demands: Sequence[float] | None = None
) -> MaxMin:
    """Max-min fair rates of flows over links.

    ``capacities``: one positive capacity per link; ``paths``: for each flow the indices of its links (each
    link at most once; empty only with a finite demand); ``demands``: upper limit per flow, ``inf`` for none.
    Raises ValueError naming the argument.
    """
    room = [_capacity(i, c) for i, c in enumerate(capacities)]
    wanted = list(demands) if demands is not None else [float("inf")] * len(paths)
    if len(wanted) != len(paths):
        raise ValueError(f"demands: one per flow, got {len(wanted)} for {len(paths)} flows")
    for flow, path in enumerate(paths):
        if any(not 0 <= link < len(room) for link in path) or len(set(path)) != len(path):
            raise ValueError(
                f"paths: flow {flow} must name distinct links 0..{len(room) - 1}, got {list(path)}"
            )
        if not wanted[flow] >= 0:
            raise ValueError(f"demands: flow {flow} must want a rate of at least 0, got {wanted[flow]!r}")
        if not path and wanted[flow] == float("inf"):
            raise ValueError(f"paths: flow {flow} crosses no link and has no demand, its rate is unbounded")

    wish = [None if w == float("inf") else Fraction(float(w)) for w in wanted]
    rates: list[Fraction] = [Fraction(0)] * len(paths)
    limited_by = [-1] * len(paths)
    users: list[set[int]] = [set() for _ in room]
    for flow, path in enumerate(paths):
        for link in path:
            users[link].add(flow)
    rising = set(range(len(paths)))
    level = Fraction(0)  # every rising flow has this rate
    while rising:
        # The next event: a link is full, or a flow has what it wants.
        fair = {link: level + room[link] / len(users[link]) for link in range(len(room)) if users[link]}
        wishes = [w for f in rising if (w := wish[f]) is not None]
        target = min([*fair.values(), *wishes])
        for link, share in list(fair.items()):
            room[link] -= (target - level) * len(users[link])
            if share == target:
                for flow in users[link] & rising:
                    limited_by[flow] = link
        level = target
        done = {f for f in rising if limited_by[f] >= 0 or wish[f] == level}
        for flow in done:
            rates[flow] = level
            for link in paths[flow]:
                users[link].discard(flow)
        rising -= done
    return MaxMin(np.array([float(r) for r in rates]), np.array(limited_by, dtype=np.int64))


def _capacity(link: int, value: float) -> Fraction:
    if not (np.isfinite(value) and value > 0):
        raise ValueError(f"capacities: link {link} must be positive and finite, got {value!r}")
    return Fraction(float(value))
