"""Section V of the paper: describing functions, Nyquist loci, and where they meet (Fig 7 and 9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from penstock import figures
from penstock.models import describing
from penstock.models.loops import Plant
from penstock.models.marking import Marking

Floats = NDArray[np.float64]

# Section V.D: R = 0.0001 s, C = 10 Gb/s, K = 40, g = 1/16; K1 = 30, K2 = 50.
RTT, RATE, K, K1, K2, G = 1e-4, 10e9, 40.0, 30.0, 50.0, 1 / 16
PACKET = 1500.0
CAPACITY = RATE / (8 * PACKET)
# Fig 9 draws N in steps of ten.
FLOWS = tuple(range(10, 101, 10))


@dataclass(frozen=True)
class Reading:
    """One way to read the printed analysis.

    Attributes:
        text: what is read.
        pipe: R_0 C (packets) of the single and of the double threshold's plant.
        k: divisor in K_0 of the single and of the double threshold.
        misprint: equation (15) with N/R_0.
    """

    text: str
    pipe: tuple[float, float] = (CAPACITY * RTT, CAPACITY * RTT)
    k: tuple[float, float] = (K, K2)
    misprint: bool = False


def margins(reading: Reading, flows: Sequence[int] = FLOWS) -> tuple[Floats, Floats]:
    """Factor by which G must grow before the printed loci touch, for both rules at each N; <= 1: they do."""
    one, two = [], []
    for n in flows:
        plants = [Plant(pipe / RTT, RTT, n, G) for pipe in reading.pipe]
        one.append(describing.printed_margin(plants[0], K, misprint=reading.misprint) * reading.k[0] / K)
        two.append(
            describing.printed_margin(plants[1], K1, K2, misprint=reading.misprint) * reading.k[1] / K2
        )
    return np.array(one), np.array(two)


def onset(margin: Floats, flows: Sequence[int] = FLOWS) -> int | None:
    """The smallest N at which the loci meet, or None."""
    meets = np.flatnonzero(margin <= 1)
    return int(flows[meets[0]]) if meets.size else None


def readings() -> list[Reading]:
    """Readings of the printed parameters and equations, one change each."""
    bdp = CAPACITY * RTT
    return [
        Reading("as printed"),
        Reading("(15) as printed, N/R0", misprint=True),
        Reading("R0 = d + K/C (section II)", pipe=(bdp + K, bdp + K2)),
        Reading("packets of 1000 B", pipe=(bdp * 1.5, bdp * 1.5)),
        Reading("packets of 40 B", pipe=(bdp * 37.5, bdp * 37.5)),
        Reading("RTT 1 ms", pipe=(bdp * 10, bdp * 10)),
        Reading("K0 = 1/40 for both", k=(K, K)),
        Reading("K0 left out", k=(1.0, 1.0)),
    ]


def search() -> tuple[list[tuple[float, int | None, int | None]], list[tuple[float, int | None, int | None]]]:
    """Onsets over R_0 C, as printed (K_0 = 1/K2 for two thresholds) and with K_0 = 1/40 for both.

    Returns two lists of (factor on R_0 C, onset of DCTCP, onset of DT-DCTCP).
    """
    found: tuple[list, list] = ([], [])
    for factor in np.geomspace(5, 20, 57):
        pipe = factor * CAPACITY * RTT
        one, two = margins(Reading("", pipe=(pipe, pipe)))
        found[0].append((float(factor), onset(one), onset(two)))
        found[1].append((float(factor), onset(one), onset(two * K / K2)))
    return found


def inverse_figure() -> Figure:
    """Fig 7: -1/N_0 of both rules as printed, in the complex plane."""
    with figures.style():
        figure, (ax,) = figures.new()
        for i, (k1, k2, name) in enumerate(((K, K, "DCTCP"), (K1, K2, "DT-DCTCP"))):
            inverse = _inverse(k1, k2)
            ax.plot(inverse.real, inverse.imag, label=f"$-1/N_0$, {name}", **figures.line(i))
        ax.axhline(0, color="0.5", linewidth=0.6)
        ax.set(xlim=(-10, 0.5), title="Fig 7: describing functions", xlabel="Re", ylabel="Im")
        ax.legend()
    return figure


def _inverse(k1: float, k2: float) -> NDArray[np.complex128]:
    x = k2 / np.linspace(0.999, 0.15, 400)
    found: NDArray[np.complex128] = -1 / describing.printed_relative(x, k1, None if k1 == k2 else k2)
    return found


def printed_figure() -> Figure:
    """Fig 9: the loci as printed, one threshold left, two right."""
    with figures.style():
        figure, axes = figures.new(1, 2, width=10.0, height=4.2)
        omega = np.geomspace(0.2, 30, 3000) / RTT
        for ax, (k1, k2, k0, name) in zip(axes, ((K, K, K, "DCTCP"), (K1, K2, K2, "DT-DCTCP")), strict=True):
            for i, n in enumerate((10, 30, 50, 60, 70, 100)):
                locus = Plant(CAPACITY, RTT, n, G).response(omega) / k0
                ax.plot(locus.real, locus.imag, label=f"$K_0G$, N = {n}", **figures.line(i))
            inverse = _inverse(k1, k2)
            ax.plot(inverse.real, inverse.imag, "k.", markersize=3, label="$-1/N_0$")
            ax.set(xlim=(-6, 0.5), ylim=(-1.5, 2.5), title=f"{name}, as printed", xlabel="Re", ylabel="Im")
            ax.axhline(0, color="0.5", linewidth=0.6)
            ax.legend(fontsize=7, ncols=2, loc="upper left")
    return figure


def corrected_figure() -> Figure:
    """The loci where windows do not grow on marks and packets are conserved, about the mean queue."""
    with figures.style():
        figure, axes = figures.new(1, 2, width=10.0, height=5.0)
        rules = ((Marking.single(K), "DCTCP"), (Marking(K1, K2), "DT-DCTCP"))
        for column, (ax, (marking, name)) in enumerate(zip(axes, rules, strict=True)):
            height = {}
            for i, n in enumerate((5, 10, 20, 40, 60, 100)):
                rtt = RTT + float(marking.centre) / CAPACITY
                plant = Plant(CAPACITY, rtt, n, G, growth="unmarked", inflow="window")
                locus = plant.response(np.geomspace(0.2, 5, 3000) / plant.rtt)
                ax.plot(locus.real, locus.imag, label=f"$G$, N = {n}", **figures.line(i))
                height[n] = np.pi * (K2 - K1) / (4 * np.sin(np.pi * plant.marked) ** 2) if column else 0.0
            if column:
                low = min(height, key=height.__getitem__)
                ax.plot([-60, 0], [height[low]] * 2, "k:", label=f"$-1/N$, lowest (N = {low})")
                ax.plot([-60, 0], [height[10]] * 2, "k-.", linewidth=1, label="$-1/N$, N = 10")
            else:
                ax.plot([-60, 0], [0, 0], "k:", label="$-1/N$, every N")
            ax.set(xlim=(-60, 5), ylim=(-25, 40), title=f"{name}, corrected")
            ax.set(xlabel="Re (packets)", ylabel="Im (packets)")
            # Below: the loci fill the panel.
            ax.legend(fontsize=8, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    return figure
