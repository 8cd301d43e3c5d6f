"""Rows on incast itself: collapse, its mechanism, and the effect of buffer, request size and timeout floor.

Common setting: Table 3.1; chapter 4 takes a link delay of 100 us and a receive window of 20 segments where it
says so. What the book leaves open is in choices.toml. Every criterion stands in its check's docstring.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from penstock import figures
from penstock.experiments.incast.study import onset
from penstock.ledger import Finding, Lab, Row
from penstock.runs import RunSet

# Table 3.1. Buffers and requests are counted in segments of 1000 B, as ns-2 counts them (choices.toml).
BASE: dict[str, Any] = {
    "sru": "256KB",
    "link_rate": "1Gbps",
    "link_delay": "50us",
    "buffer": "32pkt",
    "segment": "1000B",
    "rwnd": "1000KB",
    "rto_min": "200ms",
    "jitter": "20us",
    "jitter_mode": "cumulative",
    "protocol": "newreno",
}
# Section 4.1.1.
CHAPTER_4 = BASE | {"link_delay": "100us", "rwnd": "20KB"}
LINK_BPS = 1e9

GRID = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48)


@dataclass(frozen=True)
class Curve:
    """Goodput over the number of servers for one setting; arrays over `servers`, in bit/s."""

    label: str
    servers: tuple[int, ...]
    sets: tuple[RunSet, ...]

    @property
    def goodput(self) -> np.ndarray:
        """Mean over the runs."""
        return np.array([runs.mean("goodput_bps") for runs in self.sets])

    @property
    def half(self) -> np.ndarray:
        """95 % half-width of that mean."""
        return np.array([runs.ci95("goodput_bps") for runs in self.sets])

    @property
    def onset(self) -> int | None:
        """First number of servers past the peak with less than half of the peak's goodput."""
        return onset(self.servers, self.goodput)

    def at(self, servers: int) -> float:
        """Mean goodput with so many servers."""
        return float(self.goodput[self.servers.index(servers)])


def curves(
    lab: Lab, variants: Sequence[tuple[str, dict[str, Any]]], servers: Sequence[int] = GRID
) -> list[Curve]:
    """One curve per variant (label, settings), all points in parallel: 40 s and three runs, 8 s and two when
    quick.
    """
    length = {"duration": "8s" if lab.quick else "40s"}
    points = [("incast", given | length | {"servers": n}) for _, given in variants for n in servers]
    sets = lab.sweep(points, runs=2 if lab.quick else 3)
    width = len(servers)
    return [
        Curve(label, tuple(servers), tuple(sets[i * width : (i + 1) * width]))
        for i, (label, _) in enumerate(variants)
    ]


def draw(lab: Lab, name: str, title: str, shown: Sequence[Curve]) -> Path:
    """Goodput in Mb/s over the number of servers, one line per curve with its 95 % band."""
    with figures.style():
        figure, (ax,) = figures.new()
        for i, curve in enumerate(shown):
            figures.band(ax, curve.servers, curve.goodput / 1e6, curve.half / 1e6, curve.label, i)
        ax.set(xlabel="number of servers", ylabel="goodput (Mb/s)", ylim=(0, 1000))
        ax.set_xlim(0, max(max(curve.servers) for curve in shown) + 1)
        ax.set_title(title)
        ax.legend()
    return lab.save(figure, name)


# --- collapse
# ---------------------------------------------------------------------------------------------------------


def collapse(lab: Lab) -> Finding:
    """Confirmed when a collapse exists and the lowest goodput beyond its onset lies one or two orders of
    magnitude below the link rate: log10 of the ratio rounds to 1 or 2.
    """
    (curve,) = curves(lab, [("NewReno, 32 KB buffer", BASE)])
    path = draw(lab, "I-1.5", "Goodput collapse for synchronised reads", [curve])
    start = curve.onset
    if start is None:
        return Finding(False, "no collapse", "goodput never falls below half of its peak", (path,))
    low = curve.goodput[curve.servers.index(start) :].min()
    ratio = LINK_BPS / low
    measured = (
        f"peak {mbps(curve.goodput.max())} Mb/s, below half of it from {start} servers, lowest {mbps(low)} Mb/s: "
        f"{ratio:.1f} times below the link rate (10^{math.log10(ratio):.2f})"
    )
    if 1 <= round(math.log10(ratio)) <= 2:
        return Finding(True, measured, figures=(path,))
    return Finding(False, measured, "", (path,))


def mbps(value: float) -> str:
    """bit/s as whole Mb/s."""
    return f"{value / 1e6:.0f}"


ROWS: list[Row] = [
    Row(
        "I-1.5",
        "incast",
        "Goodput collapse under synchronised reads (Fig. 1.5)",
        "Throughput drops by one or two orders of magnitude below the link capacity as servers are added.",
        collapse,
    ),
]
