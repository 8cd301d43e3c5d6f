"""The incast study: goodput against the number of servers for five kinds of TCP.

One client reads a block striped over n servers behind one switch, block after block; each server holds 256 KB
of it and the switch port towards the client buffers 32 KB (Table 3.1). All kinds see the same seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rich import box
from rich.console import Console
from rich.table import Table as RichTable

from penstock import __version__, figures, report
from penstock.console import emit
from penstock.runs import RunSet
from penstock.sweeps import sweep
from penstock_papers.experiments.common import onset

SERVERS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48)
RUNS = 5
SEED = 1
# The first seconds are left out: a SYN that is lost when many servers connect at once costs three of them.
WARMUP, DURATION = "4s", "12s"
SRU_BYTES = 256_000

# Number of servers at which the causes of timeouts are counted: plain TCP has collapsed.
KINDS_AT = 8


@dataclass(frozen=True)
class Variant:
    """One curve of the study."""

    label: str
    settings: dict[str, Any]


VARIANTS = (
    Variant("NewReno 200 ms", {"protocol": "newreno", "rto_min": "200ms"}),
    Variant("NewReno 200 µs", {"protocol": "newreno", "rto_min": "200us"}),
    Variant("SACK", {"protocol": "sack", "rto_min": "200ms"}),
    Variant("CUBIC", {"protocol": "cubic", "rto_min": "200ms"}),
    # K = 20 packets is the usual advice for 1 Gb/s; the buffer holds 32.
    Variant("DCTCP K=20", {"protocol": "dctcp", "queue": "threshold:k=20pkt", "rto_min": "200ms"}),
)


@dataclass(frozen=True)
class Curve:
    """One variant over the numbers of servers: its run sets, in the order of `servers`."""

    variant: Variant
    sets: Sequence[RunSet]
    servers: Sequence[int] = SERVERS

    def mean(self, key: str) -> np.ndarray:
        """Mean of a summary key at each number of servers."""
        return np.array([runs.mean(key) for runs in self.sets])

    def half(self, key: str) -> np.ndarray:
        """95 % half-width of that mean."""
        return np.array([runs.ci95(key) for runs in self.sets])


def measure(
    jobs: int | None = None,
    on_progress: Callable[[float], None] | None = None,
    *,
    servers: Sequence[int] = SERVERS,
    runs: int = RUNS,
) -> list[Curve]:
    """Run every variant at every number of servers, `runs` replications each, over `jobs` threads (default:
    one per core).
    """
    common = {"sru": SRU_BYTES, "warmup": WARMUP, "duration": DURATION}
    points = [("incast", {"servers": n, **common, **v.settings}) for v in VARIANTS for n in servers]
    sets = sweep(points, runs=runs, seed=SEED, keep=["events"], jobs=jobs, on_progress=on_progress)
    width = len(servers)
    return [Curve(variant, sets[i * width : (i + 1) * width], servers) for i, variant in enumerate(VARIANTS)]


def run(
    out: Path,
    *,
    jobs: int,
    on_progress: Callable[[float], None] | None = None,
    console: Console | None = None,
) -> Path:
    """Run the study, print its table on `console`, write figures, goodput.csv and report.html under `out`.

    Returns the path of the report.
    """
    curves = measure(jobs, on_progress)
    # Printed first: a disk that does not take the files loses no result.
    if console is not None:
        for table_ in (goodput_cells(curves), findings(curves)):
            emit(partial(console.print, rich_table(table_)))
    out.mkdir(parents=True, exist_ok=True)
    table(curves).write_csv(out / "goodput.csv")
    with figures.style():
        goodput = figures.write(goodput_figure(curves), out / "figures", "goodput")
        causes = figures.write(cause_figure(curves), out / "figures", "causes")
    caption = f"Mean of {RUNS} runs from {WARMUP} to {DURATION} of simulated time; bands: 95 % intervals."
    causes_caption = "Timeouts per block, and the share of packets dropped at the port towards the client."
    page = report.Page(
        title="TCP incast: what collapses, and what helps",
        lead=(
            "A client reads a block striped over n servers through one switch and asks for the next block "
            "when it has all of this one. Each server sends 256 KB; the port towards the client is 1 Gb/s "
            "with a buffer of 32 KB."
        ),
        sections=[
            report.Section(
                "Goodput against the number of servers",
                figures=[(goodput, caption)],
                tables=[findings(curves), goodput_cells(curves)],
                facts=[
                    ("Bottleneck", ", ".join(dict.fromkeys(r.bottleneck for c in curves for r in c.sets)))
                ],
                warnings=warnings(curves),
            ),
            report.Section(
                "Why: timeouts and drops",
                [
                    "A block ends when the last server has delivered its part. One server in a "
                    "retransmission timeout keeps the link idle for the whole of it, so what counts is not "
                    "how many packets are lost but how many timeouts a block has and how long each lasts.",
                    "SACK and CUBIC repair several losses at once, which sends their retransmissions into a "
                    "buffer that is still full; one that is lost again can only be mended by a timeout "
                    "(RFC 6675). NewReno retransmits one segment per round trip and suffers less from that.",
                ],
                [(causes, causes_caption)],
                [kinds(curves)],
            ),
        ],
        provenance={
            "command": "penstock demo",
            "penstock": __version__,
            "seed": SEED,
            "runs": RUNS,
            "variants": {variant.label: variant.settings for variant in VARIANTS},
            "scenario": curves[0].sets[0].scenario,
        },
    )
    return report.write(page, out / "report.html")


def warnings(curves: Sequence[Curve]) -> list[str]:
    """What the runs warned of, with the curve and the number of servers."""
    return [
        f"{curve.variant.label}, {n} servers: {text}"
        for curve in curves
        for n, runs in zip(SERVERS, curve.sets, strict=True)
        for text in runs.warnings
    ]


def table(curves: Sequence[Curve]) -> pl.DataFrame:
    """One row per variant and number of servers: goodput, its 95 % half-width, timeouts, drop rate."""
    rows = []
    for curve in curves:
        for n, runs in zip(SERVERS, curve.sets, strict=True):
            rows.append(
                {
                    "variant": curve.variant.label,
                    "servers": n,
                    "goodput_bps": runs.mean("goodput_bps"),
                    "goodput_ci95_bps": runs.ci95("goodput_bps"),
                    "timeouts": runs.mean("timeouts"),
                    "blocks": runs.mean("blocks"),
                    "drop_rate": runs.mean("drop_rate"),
                }
            )
    return pl.DataFrame(rows)


def findings(curves: Sequence[Curve]) -> report.Table:
    """What the curves say: best goodput, where it falls below half of that, the lowest from there on."""
    rows = []
    for curve in curves:
        mean = curve.mean("goodput_bps") / 1e6
        best = int(mean.argmax())
        start = onset(SERVERS, mean)
        rows.append(
            [
                curve.variant.label,
                f"{mean[best]:.0f} (n = {SERVERS[best]})",
                "none" if start is None else f"{start} servers",
                "-" if start is None else f"{mean[SERVERS.index(start) :].min():.0f}",
                f"{mean[-1]:.0f}",
            ]
        )
    columns = ["", "best Mb/s", "below half of it from", "lowest after that", f"with {SERVERS[-1]} servers"]
    return report.Table(columns, rows, caption="Collapse: where goodput falls below half of its best (Mb/s)")


# What the engine calls a timeout, for the reader.
KINDS = {
    "timeout: window lost": "whole window lost",
    "timeout: few dup acks": "too few duplicate ACKs",
    "timeout: retransmit lost": "retransmission lost",
    "timeout: repeated": "timed out again",
    "timeout: syn": "SYN lost",
}


def kinds(curves: Sequence[Curve]) -> report.Table:
    """Why the timeouts at `KINDS_AT` servers happened, as a share of all timeouts of the variant."""
    at = SERVERS.index(KINDS_AT)
    rows = []
    for curve in curves:
        events = curve.sets[at].events.filter(pl.col("what").str.starts_with("timeout"))
        total = max(1, events.height)
        shares = [events.filter(pl.col("what") == kind).height / total for kind in KINDS]
        rows.append([curve.variant.label, str(events.height), *(f"{share:.0%}" for share in shares)])
    caption = f"Why the timeouts with {KINDS_AT} servers happened ({RUNS} runs together)"
    return report.Table(["", "timeouts", *KINDS.values()], rows, caption)


def goodput_figure(curves: Sequence[Curve]) -> figures.Figure:
    """Goodput in Mb/s over the number of servers, one line per variant with its 95 % band."""
    figure, (ax,) = figures.new(height=4.3)
    for i, curve in enumerate(curves):
        figures.band(
            ax,
            curve.servers,
            curve.mean("goodput_bps") / 1e6,
            curve.half("goodput_bps") / 1e6,
            curve.variant.label,
            i,
        )
    most = max(curves[0].servers)
    ax.axhline(1000, color=figures.INK, linewidth=0.8, alpha=0.5)
    ax.annotate(
        "link rate", (most, 1000), xytext=(0, 3), textcoords="offset points", ha="right", fontsize=8.5
    )
    ax.set(xlabel="number of servers", ylabel="goodput (Mb/s)", ylim=(0, 1120), xlim=(0, most + 1))
    ax.set_title("Synchronised reads: goodput of the client")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    return figure


def cause_figure(curves: Sequence[Curve]) -> figures.Figure:
    """Timeouts per block and drop rate over the number of servers."""
    figure, (left, right) = figures.new(1, 2, width=8.6, height=4.2)
    for i, curve in enumerate(curves):
        per_block = [_per_block(n, runs) for n, runs in zip(SERVERS, curve.sets, strict=True)]
        mean = np.array([values.mean() for values in per_block])
        half = np.array([_half(values) for values in per_block])
        figures.band(left, SERVERS, mean, half, curve.variant.label, i)
        figures.band(
            right,
            SERVERS,
            100 * curve.mean("drop_rate"),
            100 * curve.half("drop_rate"),
            curve.variant.label,
            i,
        )
    left.set(
        xlabel="number of servers", ylabel="retransmission timeouts per block", xlim=(0, SERVERS[-1] + 1)
    )
    # From none to hundreds per block: linear up to one, then logarithmic.
    left.set_yscale("symlog", linthresh=1)
    left.set_ylim(bottom=0)
    left.set_title("Timeouts")
    right.set(xlabel="number of servers", ylabel="packets dropped (%)", xlim=(0, SERVERS[-1] + 1))
    right.set_ylim(bottom=0)
    right.set_title("Drops")
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


def goodput_cells(curves: Sequence[Curve]) -> report.Table:
    """The goodput table of the report: Mb/s, mean ± 95 % half-width."""
    columns = ["servers", *(curve.variant.label for curve in curves)]
    rows = [[str(n), *(_cell(curve.sets[i]) for curve in curves)] for i, n in enumerate(SERVERS)]
    return report.Table(columns, rows, caption="Goodput in Mb/s: mean and 95 % interval")


def rich_table(cells: report.Table) -> RichTable:
    """A table of the report for the terminal."""
    table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, title=cells.caption, title_justify="left")
    for i, column in enumerate(cells.columns):
        table.add_column(column, justify="right" if i else "left")
    for row in cells.rows:
        table.add_row(*row)
    return table


def _cell(runs: RunSet) -> str:
    mean, half = runs.mean("goodput_bps") / 1e6, runs.ci95("goodput_bps") / 1e6
    # Goodput is never negative, though the formula's lower end may be.
    return f"{mean:.0f} ± {half:.0f}" if half <= mean else f"{mean:.0f} (0 to {mean + half:.0f})"


def _per_block(n: int, runs: RunSet) -> np.ndarray:
    """Timeouts per block's worth of data, one value per run."""
    delivered = runs.values("goodput_bps") / 8 * runs.values("measured_s")
    return runs.values("timeouts") / (delivered / (n * SRU_BYTES))


def _half(values: np.ndarray) -> float:
    from penstock.stats import ci95

    return ci95(values)
