"""The figure of slowdown by message size that all rows have: what was found beside the published numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock import figures
from penstock_papers.experiments.homa.judged import KEYS, Numbers
from penstock_papers.experiments.homa.setup import Bin
from penstock_papers.ledger import Lab


def draw(
    lab: Lab,
    workload: str,
    bins: Mapping[str, Sequence[Bin]],
    found: Mapping[str, Numbers],
    *,
    load: str = "",
    beside: Mapping[str, tuple[str, Numbers]] | None = None,
    name: str = "",
    log: bool = False,
) -> list[Path]:
    """Medians and 99th percentiles by the largest message of each bin, a colour for each of `found`; `beside`
    has further ones of the same bins, with their labels, as crosses. A file, homa-`name`.
    """
    further = {} if beside is None else beside
    with figures.style():
        figure, axes = figures.new(1, 2)
        for ax, (key, at) in zip(axes, KEYS.items(), strict=True):
            colours = iter(figures.PALETTE)
            for label, numbers in found.items():
                colour, edges = next(colours), [one[1] for one in bins[label]]
                ax.plot(edges, [one[at] for one in bins[label]], "--", color=colour, linewidth=1)
                ax.plot(edges, numbers[key], "o", color=colour, markersize=3, label=label)
                if label in further:
                    text, other = further[label]
                    ax.plot(edges, other[key], "x", color=next(colours), markersize=3, label=text)
            ax.set(
                xlabel="message, bytes",
                ylabel="slowdown",
                title=f"{workload}{load}: {key}, dashed: published",
                ylim=(1, None),
            )
            figures.log_x(ax, bytes_=True)
            if log:
                figures.log_y(ax)
        axes[0].legend()
    return [lab.save(figure, f"homa-{name or workload.lower()}")]
