"""Pictures of a network: of a run with a number at every port (`result.plot.utilisation()`), and of a
`penstock.Network` with what its links are.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import matplotlib.collections
import matplotlib.colors
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from penstock import _engine, figures, layout
from penstock.errors import ScenarioError

if TYPE_CHECKING:
    from penstock.network import Network

# Hosts that still have room for their names.
_MOST_NAMED = 40
# More kinds of links than this would be a legend of their own.
_MOST_KINDS = 8


def draw(net: layout.Layout, halves: Mapping[tuple[str, ...], float], column: str, bottleneck: str) -> Figure:
    """Nodes at their places, every half of a link coloured by its port's value; `halves` is by the two ends,
    the port's own first. Call inside `figures.style()`.
    """
    figure, ax = _canvas(net)
    top = 1.0 if column == "utilisation" else max([*halves.values(), 0.0]) or 1.0
    # Light to dark, without the part too pale for white paper.
    colours = mpl.colors.ListedColormap(mpl.colormaps[figures.MAP](np.linspace(0.9, 0.0, 256)))
    scale = mpl.colors.Normalize(0.0, top)
    pieces, values = [], []
    for (a, b), value in sorted(halves.items(), key=lambda item: item[1]):
        (x, y), (u, v) = net.places[a], net.places[b]
        pieces.append([(x, y), ((x + u) / 2, (y + v) / 2)])
        values.append(value)
    many = max(1.0, len(pieces) / 120)
    widths = 0.5 / many**0.5 + 4.0 / many**0.5 * np.asarray(values) / top
    lines = mpl.collections.LineCollection(
        pieces,
        array=np.asarray(values),
        cmap=colours,
        norm=scale,
        linewidths=widths,
        capstyle="butt",
        zorder=1,
    )
    ax.add_collection(lines)
    figure.colorbar(lines, ax=ax, label=column, pad=0.02, shrink=0.85)
    _nodes(ax, net)
    said = _point_out(ax, net, halves, bottleneck)
    ax.margins(0.09, 0.12)
    ax.set_axis_off()
    said = f"The half of a link at a node is that node's port. {said}"
    ax.text(0.0, -0.02, said, transform=ax.transAxes, fontsize=8, va="top")
    return figure


def outline(net: layout.Layout, kinds: Mapping[tuple[str, str], str]) -> Figure:
    """Nodes at their places, links by what they are: `kinds` says it of every port, by the two ends, the
    port's own first. Call inside `figures.style()`.
    """
    figure, ax = _canvas(net)
    # The fastest first, so that it is drawn widest.
    found = sorted(dict.fromkeys(kinds.values()), key=_rate, reverse=True)
    rates = sorted({_rate(kind) for kind in found})
    many = max(1.0, len(kinds) / 120) ** 0.5
    for i, kind in enumerate(found):
        pieces = []
        for (a, b), of in kinds.items():
            if of != kind:
                continue
            (x, y), (u, v) = net.places[a], net.places[b]
            whole = kinds.get((b, a)) == kind
            # A link that is alike in both directions is one line.
            if not whole or a < b:
                pieces.append([(x, y), (u, v) if whole else ((x + u) / 2, (y + v) / 2)])
        width = (1.4 + 2.2 * rates.index(_rate(kind)) / max(1, len(rates) - 1)) / many
        style = figures.line(i)
        lines = mpl.collections.LineCollection(
            pieces,
            colors=style["color"],
            linestyles=style.get("linestyle", "-"),
            linewidths=width,
            label=kind,
            zorder=1,
        )
        ax.add_collection(lines)
    _nodes(ax, net)
    ax.margins(0.09, 0.12)
    ax.set_axis_off()
    if len(found) <= _MOST_KINDS:
        figure.legend(loc="outside lower center", ncols=1, fontsize=8, frameon=False)
    if any(kinds.get((b, a)) != kind for (a, b), kind in kinds.items()):
        said = "The half of a link at a node is that node's port."
        ax.text(0.0, -0.02, said, transform=ax.transAxes, fontsize=8, va="top")
    return figure


def page(net: Network) -> str:
    """A network for a notebook: picture, links, workloads and settings; of one that is not complete, what it
    lacks.
    """
    try:
        figure = net.plot()
    except ScenarioError as problem:
        picture = f"<b>{html.escape(str(net))}</b><div>{html.escape(str(problem))}</div>"
    else:
        image = io.BytesIO()
        figure.savefig(image, format="png", dpi=110)
        data = base64.b64encode(image.getvalue()).decode()
        picture = f'<img src="data:image/png;base64,{data}" alt="{html.escape(repr(net))}">'
    lists = [("workloads", [repr(one) for one in net.workloads])]
    lists.append(("settings", [f"{key} = {value}" for key, value in net.settings.items()]))
    told = "".join(
        f"<div>{what}:<ul>{''.join(f'<li><code>{html.escape(one)}</code></li>' for one in items)}</ul></div>"
        for what, items in lists
        if items
    )
    return f"<div>{picture}{told}</div>"


def _canvas(net: layout.Layout) -> tuple[Figure, Axes]:
    """A figure as tall as the layout needs."""
    rows = 1 + max(y for _, y in net.places.values()) - min(y for _, y in net.places.values())
    tall = max(
        len([h for h in net.hosts if net.places[h][0] == x]) for x in {net.places[n][0] for n in net.places}
    )
    height = min(7.5, max(3.4, 1.2 + (1.35 if net.kind == "tiers" else 1.0) * rows, 1.2 + 0.19 * tall))
    figure, (ax,) = figures.new(width=8.6, height=6.6 if net.kind == "circle" else height)
    return figure, ax


def _nodes(ax: Axes, net: layout.Layout) -> None:
    """Hosts as rings, switches as squares, with their names where there is room."""
    hosts = sorted(net.hosts, key=layout.natural)
    switches = [node for node in net.places if node not in net.hosts]
    dot = 26 if len(hosts) <= _MOST_NAMED else 5
    for nodes, marker, size in ((hosts, "o", dot), (switches, "s", 70 if len(switches) <= 30 else 18)):
        at = np.array([net.places[node] for node in nodes]).reshape(-1, 2)
        ax.scatter(
            at[:, 0], at[:, 1], s=size, marker=marker, facecolor="white", edgecolor=figures.INK, zorder=3
        )
    named = [
        *(hosts if len(hosts) <= _MOST_NAMED else []),
        *(switches if len(switches) <= _MOST_NAMED else []),
    ]
    crowded = len(hosts) > 12 and any(net.places[h][1] == -1.0 for h in hosts)
    for node in named:
        _label(ax, node, net, crowded)


def _rate(kind: str) -> float:
    """Rate in what a link is said to be, 0 where there is none."""
    found = _engine.quantity(kind.partition(",")[0].replace("/s", "ps").replace(" ", ""))
    return found[0] if found else 0.0


def _label(ax: Axes, node: str, net: layout.Layout, crowded: bool) -> None:
    """A node's name where few links run: at the sides beside it, hosts at the bottom below, switches of tiers
    and trees to the right, of a chain above.
    """
    x, y = net.places[node]
    how: dict[str, Any] = {"ha": "center", "va": "bottom", "xytext": (0, 6)}
    if node in net.hosts:
        if x in (0.0, 1.0):
            left = x == 0.0
            how = {"ha": "right" if left else "left", "va": "center", "xytext": (-6 if left else 6, 0)}
        elif net.kind == "circle":
            side, up = x - 0.5, y / 2
            far = max((side**2 + up**2) ** 0.5, 1e-9)
            how = {"ha": "center", "va": "center", "xytext": (13 * side / far, 11 * up / far)}
        else:
            how = {"ha": "center", "va": "top", "xytext": (0, -6), "rotation": 90 if crowded else 0}
    elif net.kind in ("tiers", "tree", "circle"):
        how = {"ha": "left", "va": "center", "xytext": (6, 0)}
    # On a ground of its own where links cross it.
    ground = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.6}
    ax.annotate(node, (x, y), textcoords="offset points", fontsize=7.5, zorder=4, bbox=ground, **how)


def _point_out(ax: Axes, net: layout.Layout, halves: Mapping[tuple[str, ...], float], name: str) -> str:
    """Mark the port that the summary is of; what to say of it, "" where there is none or more than one."""
    ends = tuple(name.split("->", 1))
    if ends not in halves:
        return ""
    (x, y), (u, v) = net.places[ends[0]], net.places[ends[1]]
    at = (x + 0.25 * (u - x), y + 0.25 * (v - y))
    ax.plot(*at, marker="D", color=figures.PALETTE[1], markeredgecolor="white", markersize=8, zorder=5)
    return f"Diamond: the bottleneck, {name}, {figures.short(halves[ends])}."
