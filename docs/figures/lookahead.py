"""A lookahead window: two logical processes work alone within it and exchange messages at its end."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

from penstock import figures

#: Windows that are shown, and the length of the shortest link between the two, in windows.
WINDOWS = 4
LINK = 1.0
#: Departure of packets that cross, from the upper (0) or lower (1) logical process, in windows.
CROSSINGS = ((0, 0.35), (1, 0.7), (0, 1.55), (1, 1.2), (0, 2.6), (1, 2.85))


def draw() -> Figure:
    """Two rows of events over simulated time, packets between them as arrows."""
    random = np.random.default_rng(3)
    with figures.style():
        figure, (ax,) = figures.new(width=7.6, height=3.1)
        for i in range(WINDOWS + 1):
            ax.axvline(i, color=figures.INK, linewidth=0.8, linestyle=":")
            if i < WINDOWS:
                ax.text(i + 0.5, 2.52, f"window {i + 1}", ha="center", fontsize=8)
        for row, y in enumerate((2.0, 0.6)):
            ax.axhline(y, color=figures.INK, linewidth=0.8)
            times = np.sort(random.uniform(0, WINDOWS, 30))
            ax.plot(
                times, np.full(30, y), "|", color=figures.PALETTE[row], markersize=13, markeredgewidth=1.6
            )
            ax.text(-0.08, y, f"logical\nprocess {row + 1}", ha="right", va="center", fontsize=8.5)
        for source, left in CROSSINGS:
            a, b = (2.0, 0.6) if source == 0 else (0.6, 2.0)
            arrow = FancyArrowPatch(
                (left, a),
                (left + LINK, b),
                arrowstyle="-|>",
                mutation_scale=11,
                color=figures.PALETTE[source],
            )
            ax.add_patch(arrow)
        ax.annotate(
            "", (1.55, 0.22), (2.55, 0.22), arrowprops={"arrowstyle": "<->", "color": figures.INK, "lw": 0.9}
        )
        ax.text(2.05, 0.02, "delay of the shortest link", ha="center", fontsize=8)
        ax.set(xlim=(-0.6, WINDOWS + 0.1), ylim=(-0.15, 2.8), xlabel="simulated time")
        ax.axis("off")
    return figure
