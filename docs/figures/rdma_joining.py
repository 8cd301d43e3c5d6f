"""A flow joins another, here and in the HPCC group's ns-3 (docs/validation/hpcc-ns3.md).

The points of the reference are in rdma-joining.csv, with their source; the curves are simulated, DCQCN's
marks drawn by the reference's own random numbers.
"""

import sys
import tempfile
from pathlib import Path

import polars as pl
from matplotlib.figure import Figure

from penstock import figures

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests" / "validation"))

import rdma_ns3 as ns3  # noqa: E402

#: Labels of the set-ups, and what they are called in the figure.
LAWS = {
    "hpcc": "HPCC",
    "dctcp_nowin": "DCTCP",
    "timely": "TIMELY",
    "dcqcn": "DCQCN 1/4/300",
}


def simulated(label: str, folder: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rates of both flows and the queue over time, a sample each 5 us of 3 ms."""
    result = ns3.run(
        folder,
        ns3.star(3, 100),
        [(0, 2, 150_000_000, 0.0), (1, 2, 150_000_000, 1e6)],
        ns3.protocol(label, 52_000, 4160),
        duration_ns=3e6,
        bottleneck="s->h2",
        drawn="dcqcn" in label,
        sample="5us",
        series=True,
    )
    of = result.series.with_columns(ms=pl.col("time_s") * 1e3)
    return of.filter(pl.col("metric") == "rate_bps"), of.filter(pl.col("metric") == "queue_bytes")


def draw() -> Figure:
    """Rates of both flows above, the queue below, a column per law."""
    points = pl.read_csv(HERE / "rdma-joining.csv", comment_prefix="#")
    with figures.style():
        figure, axes = figures.new(2, len(LAWS), width=10.5, height=4.8, sharex=True)
        for column, (label, name) in enumerate(LAWS.items()):
            with tempfile.TemporaryDirectory() as folder:
                rates, queue = simulated(label, Path(folder))
            given = points.filter(pl.col("law") == label)
            top, bottom = axes[column], axes[len(LAWS) + column]
            for number, dash in ((0, "-"), (1, "--")):
                own = rates.filter(pl.col("number") == number)
                how = {"color": figures.PALETTE[5 * number], "markersize": 3.4}
                top.plot(
                    own["ms"], own["value"] / 1e9, dash, linewidth=1.1, label=f"flow {number + 1}", **how
                )
                top.plot(given["t_us"] / 1e3, given[f"rate_{number}_Gbps"], "os"[number], **how)
            bottom.plot(queue["ms"], queue["value"] / 1e3, color=figures.INK, linewidth=0.9)
            bottom.plot(given["t_us"] / 1e3, given["queue_KB"], "D", color=figures.INK, markersize=3)
            top.set(title=name, ylim=(0, 105))
            bottom.set(xlabel="time (ms)", ylim=(0, None))
        axes[0].set_ylabel("rate (Gb/s)")
        axes[len(LAWS)].set_ylabel("queue (KB)")
        axes[0].legend(loc="lower left", fontsize=7, title="marks: reference", title_fontsize=7)
    return figure
