"""Figures of one result: `result.plot.fct()`, `.queue()`, `.cwnd()`, `.metric(...)`, `.timeouts()`.

Each returns a matplotlib Figure, which a notebook shows by itself. Time series need samples: the scenario
must have asked for them (`sample=...`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from penstock import figures
from penstock.runs import RunSet


class Plot:
    """The figures of a run set; reached as `result.plot`."""

    def __init__(self, runs: RunSet) -> None:
        self._runs = runs

    def fct(self) -> Figure:
        """Distribution of the completion times of all transfers, one line per run, however many. Raises
        KeyError without any.
        """
        transfers = self._runs.transfers
        with figures.style():
            figure, (ax,) = figures.new()
            curves = []
            for run in self._runs.runs:
                times = np.sort(
                    transfers.filter(pl.col("run") == run.run)["fct_s"].drop_nulls().drop_nans().to_numpy()
                )
                if times.size:
                    share = np.arange(1, times.size + 1) / times.size
                    curves.append((run.run, f"run {run.run}", times * 1e3, share))
            figures.lines(ax, curves, "run", drawstyle="steps-post")
            ax.set(xlabel="completion time (ms)", ylabel="share of transfers", ylim=(0, 1.02))
            figures.log_x(ax)
            ax.set_title(f"{self._runs.name}: completion times of transfers")
        return figure

    def queue(self, run: int = 0) -> Figure:
        """Queue length over time at each sampled port, in packets. Raises KeyError when none was sampled."""
        return self.metric("queue_packets", "queue (packets)", run=run)

    def cwnd(self, flows: Sequence[int] | None = None, run: int = 0) -> Figure:
        """Congestion window over time of the first flows, or of those named, in bytes. Raises KeyError
        without samples.
        """
        return self.metric("cwnd_bytes", "congestion window (bytes)", numbers=flows, run=run)

    def metric(
        self, name: str, label: str | None = None, *, numbers: Sequence[int] | None = None, run: int = 0
    ) -> Figure:
        """A sampled metric over time, one line per port or flow (`numbers` picks some), and their median when
        they are too many to be told apart. Raises KeyError if not sampled.
        """
        series = self._runs.tables(run).get("series")
        if series is None or series.height == 0:
            raise KeyError("nothing was sampled in this run: ask for samples in the scenario")
        chosen = series.filter(pl.col("metric") == name)
        if numbers is not None:
            chosen = chosen.filter(pl.col("number").is_in(list(numbers)))
        if chosen.height == 0:
            known = ", ".join(series["metric"].unique(maintain_order=True).to_list())
            raise KeyError(f"no samples of {name!r} for these; sampled are: {known}")
        with figures.style():
            figure, (ax,) = figures.new()
            groups = chosen.partition_by("entity", "number", as_dict=True, maintain_order=True)
            curves = [
                (number, f"{entity} {number}", part["time_s"].to_numpy(), part["value"].to_numpy())
                for (entity, number), part in groups.items()
            ]
            entities = "/".join(dict.fromkeys(str(entity) for entity, _ in groups))
            figures.lines(ax, curves, entities)
            if len(curves) > figures.MOST_TOLD_APART:
                middle = chosen.group_by("time_s").agg(pl.col("value").median()).sort("time_s")
                ax.plot(middle["time_s"], middle["value"], color=figures.INK, label="median of all")
                ax.legend()
            ax.set(xlabel="time (s)", ylabel=label or name)
            ax.set_ylim(bottom=min(0.0, float(chosen["value"].min() or 0.0)))  # type: ignore[arg-type]
            ax.set_title(f"{self._runs.name}, run {run}")
        return figure

    def timeouts(self, run: int = 0) -> Figure:
        """Every retransmission timeout of a run: flow over time, one mark per kind. Raises KeyError without
        events.
        """
        events = self._runs.tables(run).get("events")
        if events is None:
            raise KeyError("no events were kept for this run")
        found = events.filter(pl.col("what").str.starts_with("timeout"))
        with figures.style():
            figure, (ax,) = figures.new()
            for i, kind in enumerate(found["what"].unique(maintain_order=True).to_list()):
                part = found.filter(pl.col("what") == kind)
                style = figures.look(i) | {"linestyle": ""}
                ax.plot(part["time_s"], part["flow"], label=kind.removeprefix("timeout: "), **style)
            ax.set(xlabel="time (s)", ylabel="flow")
            ax.set_title(f"{self._runs.name}, run {run}: retransmission timeouts")
            if found.height:
                ax.legend()
        return figure
