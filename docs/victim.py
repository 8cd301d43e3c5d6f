"""The figure docs/victim.png: what pause does to a flow that shares no congested link (docs/fabric.md).

python docs/victim.py            # writes victim.png beside this file
"""

from pathlib import Path

import penstock
from penstock import figures

HERE = Path(__file__).parent
PORTS = {"without pause": "off", "with pause (PFC)": "on:xoff=100KB"}
SINKS = ("sink", "free")


def goodput(pfc: str) -> list[float]:
    """Gb/s into each of SINKS."""
    found = penstock.run(HERE / "victim.toml", pfc=pfc)
    seconds = found.summaries[0]["measured_s"]
    of = {dst: found.flows.filter(found.flows["dst"] == dst)["acked_bytes"].sum() for dst in SINKS}
    return [of[dst] * 8 / seconds / 1e9 for dst in SINKS]


def main() -> None:
    """Run both and draw them."""
    with figures.style():
        figure, (axes,) = figures.new(height=3.2)
        for i, (label, pfc) in enumerate(PORTS.items()):
            values = goodput(pfc)
            places = [x + 0.36 * (i - 0.5) for x in range(len(values))]
            bars = axes.bar(places, values, width=0.34, label=label, color=figures.PALETTE[i])
            axes.bar_label(bars, fmt="%.1f", padding=2)
        axes.set_xticks(
            range(2), ["eight flows to sink,\na congested link", "victim to free,\nno congested link"]
        )
        axes.set_ylabel("goodput (Gb/s)")
        axes.set_ylim(0, 12.5)
        axes.legend(loc="upper center", ncols=2)
        print(figures.write(figure, HERE, "victim"))


if __name__ == "__main__":
    main()
