"""What a verdict is: three intervals beside a criterion."""

from matplotlib.figure import Figure

from penstock import figures

#: The least value that meets the criterion.
LIMIT = 0.9
#: Verdict, mean and half-width of an interval.
CASES = (("confirmed", 1.02, 0.05), ("undecided", 0.93, 0.07), ("differs", 0.78, 0.06))


def draw() -> Figure:
    """A line per verdict, the accepted range shaded."""
    with figures.style():
        figure, (ax,) = figures.new(width=6.4, height=2.3)
        ax.axvspan(LIMIT, 1.15, color=figures.PALETTE[0], alpha=0.15, linewidth=0)
        ax.axvline(LIMIT, color=figures.INK, linewidth=1)
        for i, (verdict, mean, half) in enumerate(CASES):
            y = len(CASES) - i
            ax.errorbar(mean, y, xerr=half, fmt="osD"[i], capsize=5, color=figures.PALETTE[i], markersize=7)
            ax.text(mean + half + 0.012, y, verdict, va="center", fontsize=9)
        ax.text(LIMIT + 0.006, 0.42, "the criterion is met", fontsize=8, va="center")
        ax.text(LIMIT - 0.006, 0.42, "it is missed", fontsize=8, va="center", ha="right")
        ax.set(xlim=(0.68, 1.18), ylim=(0.1, 3.6), yticks=[], xlabel="measured ratio, with its 95 % interval")
        ax.grid(visible=False)
    return figure
