"""Figures of one result: `result.plot.fct()`, `.queue()`, `.queue_cdf()`, `.cwnd()`, `.metric(...)`,
`.slowdown()`, `.utilisation()`, `.reordering()`, `.timeouts()`, `.story(t0, t1)`.

Each returns a matplotlib Figure, which a notebook shows by itself. Time series need samples: the scenario
must have asked for them (`sample="100us", series=True`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import matplotlib.ticker
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from penstock import _engine, figures, layout, network_plot, scenario, sizes
from penstock.runs import FIGURES, NotRecorded, RunSet

_TIMEOUT = "timeout"
# Ends of blocks that are marked by a line each; more would be one grey area.
_MOST_BLOCKS = 40
# Parts of the time whose mean and range are drawn where there are many samples.
_BINS = 400
# What a sender is held back by, the first that was sampled: windows, or the rates of RDMA.
_PACE = (("cwnd_bytes", "window\n(bytes)", "windows"), ("rate_bps", "rate\n(b/s)", "rates"))


class Plot:
    """The figures of a run set; reached as `result.plot`."""

    def __init__(self, runs: RunSet) -> None:
        self._runs = runs

    def fct(self, *, table: str | None = None) -> Figure:
        """Distribution of completion times, one line per run, however many. `table` is "flows" or
        "transfers"; None is transfers, where any was completed. Raises NotRecorded without any.
        """
        if table is None:
            table = "transfers" if self._has("transfers") else None
        times, name = sizes.completed(self._runs, table, "fct_s")
        return self._distribution(
            {run.run: times.filter(pl.col("run") == run.run)["fct_s"] for run in self._runs.runs},
            "completion time",
            f"share of {name}",
            f"completion times of {name}",
            log=True,
        )

    def queue(self, run: int = 0) -> Figure:
        """Queue length over time at each sampled port, in packets. Raises NotRecorded without samples."""
        return self.metric("queue_packets", "queue (packets)", run=run)

    def queue_cdf(self) -> Figure:
        """How much of the time the queue was at most so long, in packets: over the samples of all sampled
        ports after the warm-up, one line per run. Raises NotRecorded without samples.
        """
        warmup = _engine.quantity(self._runs.scenario["set"].get("warmup", "0s"))
        start, found = warmup[0] if warmup else 0.0, {}
        for i, run in enumerate(self._runs.runs):
            part = self._runs.samples(i).filter(pl.col("metric") == "queue_packets")
            found[run.run] = part.filter(pl.col("time_s") >= start)["value"]
        return self._distribution(found, "queue (packets)", "share of the time", "queue length")

    def cwnd(self, flows: Sequence[int] | None = None, run: int = 0) -> Figure:
        """Congestion window over time of all flows, or of those named, in bytes. Raises NotRecorded without
        samples.
        """
        return self.metric("cwnd_bytes", "congestion window (bytes)", numbers=flows, run=run)

    def metric(
        self, name: str, label: str | None = None, *, numbers: Sequence[int] | None = None, run: int = 0
    ) -> Figure:
        """A sampled metric over time, one line per port or flow (`numbers` picks some), and their median when
        they are too many to be told apart. Raises NotRecorded if not sampled.
        """
        chosen = self._metric(name, run, numbers)
        with figures.style():
            figure, (ax,) = figures.new()
            curves = _curves(chosen)
            figures.lines(ax, curves, _entities(chosen))
            if len(curves) > figures.MOST_TOLD_APART:
                _median(ax, chosen)
                ax.legend()
            ax.set(xlabel="time", ylabel=label or name)
            figures.units(ax.xaxis, "time_s")
            ax.set_ylim(bottom=min(0.0, float(chosen["value"].min() or 0.0)))  # type: ignore[arg-type]
            ax.set_title(f"{self._runs.name}, run {run}")
        return figure

    def slowdown(self, *, table: str | None = None, bins: int = 10) -> Figure:
        """Slowdown (completion time over that of the same transfer alone) by size: median and 99th percentile
        in `bins` classes of about equally many flows, with 95 % bands over the runs. Hollow marks: fewer
        flows per run than the percentile needs (100 of the 99th), so that it is about the largest value.

        `table` is "flows" or "transfers"; None is whichever holds something completed. Raises NotRecorded.
        """
        runs = self._runs
        found = runs.by_size("slowdown", table=table, bins=bins)
        with figures.style():
            figure, (ax,) = figures.new()
            for i, (key, label) in enumerate(
                (("slowdown_p50", "median"), ("slowdown_p99", "99th percentile"))
            ):
                figures.by_size(ax, found, key, label, i, len(runs.runs))
            if found.height > 1:
                figures.log_x(ax, bytes_=True)
            ax.set(xlabel="size (bytes)", ylabel="slowdown")
            if found.height == 1:
                ax.set_ylim(bottom=0)
            ax.legend()
            count = f"{len(runs.runs)} run{'s' if len(runs.runs) != 1 else ''}"
            ax.set_title(f"{runs.name}: slowdown by size, {count}")
        return figure

    def utilisation(self, column: str = "utilisation") -> Figure:
        """The network with the utilisation of every link, or another numeric column of the table `ports`,
        mean over the runs: the half of a link at a node is the node's own port. Dark and wide is much.

        Raises NotRecorded when the ports were not kept; ScenarioError for what is no numeric column.
        """
        ports = self._runs.ports
        numeric = [c for c, kind in ports.schema.items() if kind.is_numeric() and c not in ("run", "port")]
        if column not in numeric:
            raise scenario.error("column", column, f"must be one of {', '.join(numeric)}")
        values = ports.group_by("name", maintain_order=True).agg(pl.col(column).mean())
        halves = {tuple(name.split("->", 1)): value for name, value in values.iter_rows()}
        flows = self._runs.flows if self._has("flows") else pl.DataFrame({"src": [], "dst": []})
        net = layout.layout(halves, flows["src"].unique(), flows["dst"].unique())
        with figures.style():
            figure = network_plot.draw(net, halves, column, self._runs.bottleneck)
            figure.axes[0].set_title(f"{self._runs.name}: {column} by link")
        return figure

    def reordering(self) -> Figure:
        """How far behind later ones packets arrive: over the first copies of all data packets, the share that
        is behind by at least so many full packets, one line per protocol and run. Raises NotRecorded without
        the table of distances (`deliveries=True`).
        """
        found = self._runs.table("distances").sort("run", "protocol", "distance_packets")
        several = found["protocol"].n_unique() > 1
        curves: list[tuple[int, str, Any, Any]] = []
        for (run, protocol), part in found.group_by("run", "protocol", maintain_order=True):
            behind = part["distance_packets"].to_numpy()
            counts = part["packets"].to_numpy()
            least = counts[::-1].cumsum()[::-1] / counts.sum()
            label = f"run {run}, {protocol}" if several else f"run {run}"
            curves.append((len(curves), label, behind, least))
        with figures.style():
            figure, (ax,) = figures.new()
            figures.lines(ax, curves, "run", drawstyle="steps-pre", marker="o", markersize=3)
            ax.set(xlabel="behind by at least (packets)", ylabel="share of the packets")
            ax.set_yscale("log")
            ax.xaxis.set_major_locator(mpl.ticker.MaxNLocator(integer=True))
            ax.set_title(f"{self._runs.name}: out-of-order distance")
        return figure

    def timeouts(self, run: int = 0) -> Figure:
        """Every retransmission timeout of a run: flow over time, one mark per kind. Raises NotRecorded
        without the table of events.
        """
        found = self._events(run).filter(pl.col("what").str.starts_with(_TIMEOUT))
        with figures.style():
            figure, (ax,) = figures.new()
            kinds = _timeouts(ax, found)
            ax.set(xlabel="time", ylabel="flow")
            figures.units(ax.xaxis, "time_s")
            ax.set_title(f"{self._runs.name}, run {run}: {found.height} retransmission timeouts")
            if kinds:
                figures.legend(ax, 8, "timeout (how often)")
            else:
                _none(ax, "no timeouts")
        return figure

    def story(
        self,
        t0: float | None = None,
        t1: float | None = None,
        *,
        run: int = 0,
        port: int | None = None,
        flows: Sequence[int] | None = None,
    ) -> Figure:
        """Draw the time between `t0` and `t1` (s; default: the whole run) on one axis.

        Shown are the queue of `port` (default: the first sampled, which is the bottleneck), its drops per
        sample, and timeouts by flow and kind. The windows of `flows` (default: all) are drawn too, or the
        sending rates of protocols without windows. Dotted lines are ends of blocks; above 40 blocks the title
        has their number.

        Raises NotRecorded, saying what to add, without samples or events; ScenarioError for times that hold
        none of them.
        """
        samples, events = self._runs.samples(run), self._events(run)
        times = samples["time_s"].to_numpy()
        low = float(times.min()) if t0 is None else t0
        high = float(times.max()) if t1 is None else t1
        during = pl.col("time_s").is_between(low, high)
        queues = self._metric("queue_packets", run, None if port is None else [port])
        queues = queues.filter(pl.col("number") == queues["number"][0])
        number = int(queues["number"][0])
        queue = queues.filter(during)
        if not high > low or not queue.height:
            rule = f"hold no sample; there are some from {times.min():g} to {times.max():g} s"
            raise scenario.error("t0, t1", f"{low:g}, {high:g}", rule)
        sampled = set(samples["metric"].unique())
        pace, pace_label, paces = next(
            (row for row in _PACE if row[0] in sampled), (None, "window", "windows")
        )
        windows = samples.head(0) if pace is None else self._metric(pace, run, flows).filter(during)
        drops = samples.filter(pl.col("metric") == "drops", pl.col("number") == number)
        drops = drops.with_columns(pl.col("value").diff().fill_null(pl.col("value"))).filter(during)
        happened = events.filter(during)
        late = happened.filter(pl.col("what").str.starts_with(_TIMEOUT))
        if flows is not None:
            late = late.filter(pl.col("flow").is_in(list(flows)))
        blocks = happened.filter(pl.col("what") == "block")["time_s"].to_list()
        many = f"; {len(blocks):,} blocks end" if len(blocks) > _MOST_BLOCKS else ""
        curves = _curves(windows)
        with figures.style():
            figure, axes = figures.new(
                4, 1, width=7.6, height=7.2, sharex=True, gridspec_kw={"height_ratios": [3, 3, 1.4, 2.4]}
            )
            when, least, middle, most = _binned(queue["time_s"].to_numpy(), queue["value"].to_numpy())
            binned = when.size < queue.height
            axes[0].plot(when, middle, color=figures.PALETTE[0], linewidth=1.1)
            axes[0].fill_between(
                when, least if binned else 0, most, color=figures.PALETTE[0], alpha=0.18, linewidth=0
            )
            axes[0].set(
                ylabel="queue\n(packets)",
                title=f"{self._runs.name}, run {run}: {self._port(number, run)}{many}"
                + (f"\nmean of each 1/{_BINS} of the time, shaded: least to most" if binned else ""),
            )
            if len(curves) > figures.MOST_TOLD_APART:
                figures.shaded(axes[1], curves)
                _median(axes[1], windows)
                axes[1].set_title(
                    f"{paces} of {len(curves)} flows, dark to light by number; black: median", fontsize=9
                )
            else:
                for i, (_, label, *samples_of) in enumerate(curves):
                    x, _, y, _ = _binned(*samples_of)
                    axes[1].plot(x, y, label=label, **(figures.line(i) | {"linewidth": 1.2}))
                if curves:
                    axes[1].legend(
                        ncols=min(4, len(curves)), fontsize=8, loc="upper left", bbox_to_anchor=(0, 1.22)
                    )
            axes[1].set(ylabel=pace_label)
            axes[1].yaxis.set_major_formatter(mpl.ticker.FuncFormatter(lambda value, _: figures.short(value)))
            _bars(axes[2], drops)
            kinds = _timeouts(axes[3], late)
            axes[3].set(ylabel="timeouts\n(flow)", xlabel="time", xlim=(low, high))
            axes[3].yaxis.set_major_locator(mpl.ticker.MaxNLocator(integer=True))
            if kinds:
                handles, labels = axes[3].get_legend_handles_labels()
                figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8)
            else:
                _none(axes[3], "no timeouts")
            if not curves:
                _none(axes[1], "neither windows nor rates were sampled")
            if not drops["value"].sum():
                _none(axes[2], "no drops")
            for ax in axes[:3]:
                ax.set_ylim(bottom=0)
            for when in blocks if len(blocks) <= _MOST_BLOCKS else []:
                for ax in axes:
                    ax.axvline(when, color=figures.INK, linestyle=":", linewidth=0.7, zorder=1)
            figures.units(axes[3].xaxis, "time_s")
            figure.align_ylabels(axes)
        return figure

    def _distribution(
        self, values: Mapping[int, pl.Series], x: str, y: str, title: str, *, log: bool = False
    ) -> Figure:
        with figures.style():
            figure, (ax,) = figures.new()
            curves = []
            for run, found in values.items():
                ordered = np.sort(found.drop_nulls().drop_nans().to_numpy())
                if ordered.size:
                    share = np.arange(1, ordered.size + 1) / ordered.size
                    curves.append((run, f"run {run}", ordered, share))
            figures.lines(ax, curves, "run", drawstyle="steps-post")
            ax.set(xlabel=x, ylabel=y, ylim=(0, 1.02))
            if log:
                figures.log_x(ax)
                figures.units(ax.xaxis, "fct_s")
            ax.set_title(f"{self._runs.name}: {title}")
        return figure

    def _metric(self, name: str, run: int, numbers: Sequence[int] | None = None) -> pl.DataFrame:
        series = self._runs.samples(run)
        found = series.filter(pl.col("metric") == name)
        if numbers is not None:
            found = found.filter(pl.col("number").is_in(list(numbers)))
        if found.height == 0:
            known = ", ".join(series["metric"].unique(maintain_order=True).to_list())
            raise NotRecorded(f"no samples of {name!r} for these; sampled are: {known}")
        return found

    def _events(self, run: int) -> pl.DataFrame:
        self._runs.table("events")
        return self._runs.tables(run)["events"]

    def _has(self, table: str) -> bool:
        return any(run.tables[table].height for run in self._runs.runs if table in run.tables)

    def _port(self, number: int, run: int) -> str:
        ports = self._runs.tables(run).get("ports")
        if ports is None:
            return f"port {number}"
        return str(ports.filter(pl.col("port") == number)["name"][0])


def chosen(text: str, resolved: Mapping[str, Any]) -> list[str]:
    """The figures of `--plot`, in the order given. Raises ScenarioError for an unknown one, and where the
    scenario does not sample what it needs.
    """
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    settings = resolved.get("set", {})
    lacks = [] if settings.get("sample") else ["--set sample=100us (or another interval)"]
    lacks += [] if settings.get("series") == "true" else ["--set series=true"]
    for name in names or [text]:
        if name not in FIGURES:
            raise scenario.error("--plot", name, f"must be one of {', '.join(FIGURES)}")
        if FIGURES[name].sampled and lacks:
            raise scenario.error("--plot", name, f"needs samples: add {' and '.join(lacks)}")
        if FIGURES[name].deliveries and settings.get("deliveries") != "true":
            raise scenario.error("--plot", name, "needs a look at every packet: add --set deliveries=true")
    return names


def draw(runs: RunSet, name: str) -> Figure:
    """A figure by its name on the command line, one of `runs.FIGURES`. Raises NotRecorded."""
    figure: Figure = getattr(Plot(runs), name.replace("-", "_"))()
    return figure


def _curves(samples: pl.DataFrame) -> list[tuple[int, str, Any, Any]]:
    """A line per port or flow."""
    groups = samples.partition_by("entity", "number", as_dict=True, maintain_order=True)
    return [
        (int(number), f"{entity} {number}", part["time_s"].to_numpy(), part["value"].to_numpy())
        for (entity, number), part in groups.items()
    ]


def _entities(samples: pl.DataFrame) -> str:
    return "/".join(samples["entity"].unique(maintain_order=True).to_list())


def _median(ax: Axes, samples: pl.DataFrame) -> None:
    middle = samples.group_by("time_s").agg(pl.col("value").median()).sort("time_s")
    ax.plot(middle["time_s"], middle["value"], color=figures.INK, label="median of all")


def _bars(ax: Axes, drops: pl.DataFrame) -> None:
    """Packets dropped per sample, each from its sample's time backwards."""
    when, count = drops["time_s"].to_numpy(), drops["value"].to_numpy()
    step = float(np.median(np.diff(when))) if when.size > 1 else 0.0
    some = count > 0
    # At least a hair wide: one sample of thousands must be seen.
    wide = max(step, 0.002 * float(np.ptp(when))) if when.size > 1 else 1e-6
    ax.bar(when[some], count[some], width=-wide, align="edge", color=figures.INK, linewidth=0)
    ax.set(ylabel="drops\nper sample")
    ax.yaxis.set_major_locator(mpl.ticker.MaxNLocator(3, integer=True))


def _binned(when: Any, values: Any) -> tuple[Any, Any, Any, Any]:
    """Times, and least, mean and largest value of each of `_BINS` parts of the time; as they are where there
    are few: thousands of samples that go up and down are one coloured area.
    """
    if when.size <= 2 * _BINS:
        return when, values, values, values
    edges = np.linspace(when[0], when[-1], _BINS + 1)
    part = np.clip(np.searchsorted(edges, when, side="right") - 1, 0, _BINS - 1)
    # Times ascend, so every part is a slice.
    first = np.flatnonzero(np.diff(part, prepend=-1))
    count = np.diff(first, append=when.size)
    mean = np.add.reduceat(values, first) / count
    middle = np.add.reduceat(when, first) / count
    return middle, np.minimum.reduceat(values, first), mean, np.maximum.reduceat(values, first)


def _none(ax: Axes, text: str) -> None:
    ax.text(0.5, 0.5, text, transform=ax.transAxes, ha="center", va="center")
    ax.set_yticks([])


def _timeouts(ax: Axes, events: pl.DataFrame) -> list[str]:
    """One mark per timeout; the kinds, with how many of each in the legend's labels."""
    kinds = events["what"].unique(maintain_order=True).to_list()
    for i, kind in enumerate(sorted(kinds)):
        part = events.filter(pl.col("what") == kind)
        # Every other kind is hollow: in grey the colours are too much alike.
        style = figures.look(i) | {"linestyle": "none"}
        filled = {"markeredgecolor": figures.INK, "markeredgewidth": 0.5}
        style |= {"markerfacecolor": "white", "markeredgewidth": 1.2} if i % 2 else filled
        label = f"{kind.removeprefix(_TIMEOUT).removeprefix(': ') or 'any'} ({part.height})"
        ax.plot(part["time_s"], part["flow"], label=label, markersize=5.5, **style)
    return kinds
