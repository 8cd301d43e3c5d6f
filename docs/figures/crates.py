"""The crate map: each crate uses only those to its left, read from the workspace's manifests."""

import tomllib
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

from penstock import figures

CRATES = Path(__file__).resolve().parents[2] / "crates"
#: Place of each crate: column from units to py, row.
PLACES = {
    "units": (0, 0),
    "core": (1, 0),
    "fabric": (2, 0),
    "host": (3, 0),
    "models": (4, 0),
    "sim": (5, 0),
    "live": (6, 0.0),
    "py": (7, 0),
    "page": (6, -1.25),
    "live-bpf": (6, 1.1),
}
HOLDS = {
    "units": "time, rate",
    "core": "packets, TCP",
    "fabric": "ports, links",
    "host": "stacks, card",
    "models": "protocols",
    "sim": "engine",
    "live": "kernel sockets",
    "py": "Python",
    "page": "browser",
    "live-bpf": "BPF",
}


def uses(crate: str) -> set[str]:
    """The crates of the map that `crate` depends on directly."""
    found = tomllib.loads((CRATES / crate / "Cargo.toml").read_text(encoding="utf-8"))
    tables = [found, *found.get("target", {}).values()]
    names = {name.removeprefix("penstock-") for table in tables for name in table.get("dependencies", {})}
    return names & set(PLACES)


def draw() -> Figure:
    """Crates from left to right; an arrow to what a crate uses, unless a neighbour uses it already."""
    graph = {crate: uses(crate) for crate in PLACES}
    with figures.style():
        figure, (ax,) = figures.new(width=8.6, height=2.9)
        for crate, used in graph.items():
            for other in used - set().union(*(graph[one] for one in used)):
                (x, y), (u, v) = PLACES[crate], PLACES[other]
                bend = 0.0 if abs(x - u) <= 1 or y != v else 0.35
                arrow = FancyArrowPatch(
                    (x, y),
                    (u, v),
                    arrowstyle="-|>",
                    mutation_scale=11,
                    color=figures.INK,
                    shrinkA=27,
                    shrinkB=29,
                    connectionstyle=f"arc3,rad={bend}",
                )
                ax.add_patch(arrow)
        for crate, (x, y) in PLACES.items():
            box = {"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": figures.PALETTE[0]}
            ax.text(x, y, crate, ha="center", va="center", fontsize=8.5, bbox=box)
            ax.text(x, y - 0.4, HOLDS[crate], ha="center", va="center", fontsize=7)
        ax.text(2.5, 0.75, "no_std: no clock, file or thread", ha="center", fontsize=8)
        ax.annotate("", (-0.45, 0.55), (4.45, 0.55), arrowprops={"arrowstyle": "|-|", "color": figures.PALE})
        ax.set(xlim=(-0.6, 7.6), ylim=(-1.9, 1.5))
        ax.axis("off")
    return figure
