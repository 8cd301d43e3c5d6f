"""What pause does to a flow that shares no congested link (docs/fabric.md): it runs docs/victim.toml."""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

import penstock
from penstock import figures

SCENARIO = Path(__file__).parents[1] / "victim.toml"
#: Label, value of `pfc`, hatch: the bars differ without colour too.
PORTS = (("without pause", "off", ""), ("with pause (PFC)", "on:xoff=100KB", "///"))
SINKS = ("sink", "free")
#: Where the nodes of victim.toml stand in the drawing.
PLACES = {
    "bully0": (0.0, 3.0),
    "bully7": (0.0, 1.9),
    "victim": (0.0, 0.3),
    "left": (1.1, 1.65),
    "right": (2.2, 1.65),
    "sink": (3.3, 2.45),
    "free": (3.3, 0.85),
}


def goodput(pfc: str) -> list[float]:
    """Gb/s into each of SINKS."""
    found = penstock.run(SCENARIO, pfc=pfc)
    seconds = found.summaries[0]["measured_s"]
    of = {dst: found.flows.filter(found.flows["dst"] == dst)["acked_bytes"].sum() for dst in SINKS}
    return [of[dst] * 8 / seconds / 1e9 for dst in SINKS]


def draw_network(axes: Axes) -> None:
    """The network of victim.toml: its nodes, the rates of its links, the flow that is slowed."""

    def link(a: str, b: str, text: str = "", at: tuple[float, float] = (0, 0), **how: object) -> None:
        (x, y), (u, v) = PLACES[a], PLACES[b]
        how = {"color": figures.INK, "linewidth": 1.2, "zorder": 1, **how}
        axes.plot([x, u], [y, v], **how)
        axes.text((x + u) / 2 + at[0], (y + v) / 2 + at[1], text, ha="center", va="center", fontsize=7.5)

    for host in ("bully0", "bully7", "victim"):
        link(host, "left")
    link("left", "right", "100", (0, 0.2), linewidth=3.2)
    link("right", "sink", "10, congested", (-0.3, 0.36), color=figures.PALETTE[1], linewidth=3.2)
    link("right", "free", "10", (0.08, 0.22))
    # A little beside the links, from box to box.
    way = [(0.3, 0.33), (1.17, 1.45), (2.13, 1.45), (3.12, 0.72)]
    axes.plot(*zip(*way, strict=True), color=figures.PALETTE[0], linestyle="--", zorder=1)
    for name, (x, y) in PLACES.items():
        box = {"boxstyle": "round,pad=0.3", "facecolor": "white", "edgecolor": figures.INK}
        axes.text(x, y, name, ha="center", va="center", fontsize=7.5, bbox=box, zorder=2)
    axes.text(0.0, 2.45, "8 hosts", ha="center", va="center", fontsize=7.5)
    axes.text(1.65, 0.75, "the victim's way", ha="center", fontsize=7.5, color=figures.PALETTE[0])
    axes.set(xlim=(-0.45, 3.65), ylim=(-0.15, 3.4), title="rates of the links (Gb/s)")
    axes.axis("off")


def draw_goodput(axes: Axes) -> None:
    """Runs both and draws a bar for each and each destination."""
    for i, (label, pfc, hatch) in enumerate(PORTS):
        values = goodput(pfc)
        places = [x + 0.38 * (i - 0.5) for x in range(len(values))]
        bars = axes.bar(
            places,
            values,
            0.36,
            label=label,
            color=figures.PALETTE[5 * i],
            hatch=hatch,
            edgecolor=figures.INK,
        )
        axes.bar_label(bars, fmt="%.1f", padding=2, fontsize=9)
    axes.set_xticks(range(2), ["the eight, together", "the victim"])
    axes.grid(visible=False, axis="x")
    axes.set(ylabel="goodput (Gb/s)", ylim=(0, 13), yticks=range(0, 11, 2), title="what arrives")
    axes.legend(loc="upper center", ncols=2, fontsize=8, columnspacing=1.0)


def draw() -> Figure:
    """Both, side by side."""
    with figures.style():
        figure, (network, bars) = figures.new(1, 2, height=2.9, gridspec_kw={"width_ratios": [1.1, 1]})
        draw_network(network)
        draw_goodput(bars)
    return figure
