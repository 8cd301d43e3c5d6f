"""Kernel and simulation of the same incast, from the measured table in docs/validation/linux-kernel.md, which
`tools/live_tables.py incast` makes: a build of the pages cannot measure it.
"""

import re
from pathlib import Path

from matplotlib.figure import Figure

from penstock import figures

PAGE = Path(__file__).parents[1] / "validation/linux-kernel.md"
#: A row: servers, RTO floor, probes; goodput in Mb/s: the kernel's median, its range where it is wide, and
#: the simulation's with the delays of the kernel's host.
_ROW = re.compile(
    r"^\| (\d+) servers, (\d+ ?ms), (with|without) probes"
    r" \| ([\d.]+)(?: \(([\d.]+)-([\d.]+)\))? / ([\d.]+) \|",
    re.MULTILINE,
)
FLOORS = ("200ms", "10ms")


def measured() -> dict[tuple[str, str], list[tuple[int, float, float, float, float]]]:
    """By RTO floor and probes: servers, the kernel's median, least and largest, the simulation's median."""
    found: dict[tuple[str, str], list[tuple[int, float, float, float, float]]] = {}
    for servers, floor, probes, kernel, low, high, simulated in _ROW.findall(
        PAGE.read_text(encoding="utf-8")
    ):
        row = (int(servers), float(kernel), float(low or kernel), float(high or kernel), float(simulated))
        found.setdefault((floor.replace(" ", ""), probes), []).append(row)
    missing = {(floor, probes) for floor in FLOORS for probes in ("with", "without")} - set(found)
    if missing:
        raise ValueError(f"{PAGE.name} has no rows of synchronized reads for {sorted(missing)}")
    return {key: sorted(rows) for key, rows in found.items()}


def draw() -> Figure:
    """Goodput over servers, a panel per RTO floor."""
    table = measured()
    with figures.style():
        figure, axes = figures.new(1, 2, width=8.6, height=3.9, sharey=True)
        for ax, floor in zip(axes, FLOORS, strict=True):
            for i, probes in enumerate(("with", "without")):
                servers, kernel, low, high, simulated = zip(*table[floor, probes], strict=True)
                look = {"color": figures.PALETTE[i], "marker": "os"[i], "markersize": 5}
                spread = [
                    [a - b for a, b in zip(kernel, low, strict=True)],
                    [b - a for a, b in zip(kernel, high, strict=True)],
                ]
                ax.errorbar(
                    servers,
                    kernel,
                    spread,
                    linestyle="-",
                    capsize=3,
                    label=f"kernel, {probes} probes",
                    **look,
                )
                hollow = {
                    "markerfacecolor": "white",
                    "linestyle": "--",
                    "label": f"simulated, {probes} probes",
                }
                ax.plot(servers, simulated, **look, **hollow)
            ax.set(title=f"RTO floor {floor.replace('ms', ' ms')}", xlabel="servers", ylim=(0, 100))
            ax.set_xticks(servers)
        axes[0].set_ylabel("goodput (Mb/s)")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure
