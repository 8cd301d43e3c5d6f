"""The state machine of figure 1 as run: transitions counted by cause, states and estimates over time."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from penstock import figures
from penstock.runs import Run
from penstock_papers.experiments.cbc import trace
from penstock_papers.ledger import Lab

Array = NDArray[np.float64]
TABLES = ("series", "events")
STATES = ("uncongested", "controlling", "ready")


def draw_states(lab: Lab, settings: dict[str, Any]) -> Path:
    """Figure 1 with the transitions of one run, and that run's states and estimates."""
    run = lab.runs("db-ftp", settings, keep=TABLES).runs[0]
    changes = run.tables["events"].filter(pl.col("what").str.contains("^(controlling|ready|uncongested): "))
    counts: Counter[tuple[str, str, str]] = Counter()
    at: dict[int, str] = {}
    for flow, what in changes.select("flow", "what").iter_rows():
        state, cause = what.split(": ")
        counts[at.get(flow, "uncongested"), state, cause] += 1
        at[flow] = state
    with figures.style():
        figure, axes = figures.new(3, 1, height=8.4, gridspec_kw={"height_ratios": [1.25, 0.7, 1.2]})
        _diagram(axes[0], counts)
        for i, name in enumerate(("DB1", "DB2")):
            times, values = series(run, i, "state")
            axes[1].step(times, values + 0.06 * i, where="post", label=name, **figures.line(i))
        axes[1].set(yticks=[0, 1, 2], yticklabels=STATES, ylim=(-0.3, 2.5))
        axes[1].set_title("States in one run")
        for i, (metric, label) in enumerate((("required_bps", "required"), ("available_bps", "available"))):
            times, values = series(run, 0, metric)
            axes[2].plot(times, values * 1e-6, label=f"DB1 {label}", **figures.line(i))
        axes[2].set(xlabel="time (s); shaded: file transfers", ylabel="Mb/s", ylim=(0, None))
        axes[2].set_title("Estimates: the requirement is frozen under control")
        for ax in axes[1:]:
            ax.axvspan(trace.FTP_START, trace.FTP_STOP, color="0.5", alpha=0.08, linewidth=0)
            ax.set_xlim(15, 125)
            ax.legend(loc="upper right", ncols=2)
        return lab.save(figure, "K-states")


def _diagram(ax: Any, counts: Counter[tuple[str, str, str]]) -> None:
    places = {"uncongested": (0.1, 0.5), "controlling": (0.5, 0.5), "ready": (0.9, 0.5)}
    names = {"uncongested": "uncongested", "controlling": "controlling", "ready": "ready\nto exit"}
    for state, (x, y) in places.items():
        ax.text(
            x,
            y,
            names[state],
            ha="center",
            va="center",
            bbox={"boxstyle": "round,pad=0.6", "fc": "none", "ec": figures.INK},
        )
    # Arrow from, to, bend, and where its label goes.
    for a, b, bend, where in (
        ("uncongested", "controlling", -0.25, (0.3, 0.82)),
        ("controlling", "ready", -0.25, (0.7, 0.82)),
        ("ready", "controlling", -0.25, (0.7, 0.18)),
        ("ready", "uncongested", -0.42, (0.3, 0.06)),
    ):
        causes = {cause: n for (start, end, cause), n in sorted(counts.items()) if (start, end) == (a, b)}
        (xa, ya), (xb, yb) = places[a], places[b]
        side = 0.085 if xb > xa else -0.085
        arrow = {"arrowstyle": "->", "connectionstyle": f"arc3,rad={bend}", "color": figures.INK}
        ax.annotate("", xy=(xb - side, yb), xytext=(xa + side, ya), arrowprops=arrow)
        label = ", ".join(f"{cause} {n}" for cause, n in causes.items()) or "never"
        ax.text(*where, label, ha="center", va="center", fontsize=8.5)
    ax.set(xlim=(0, 1), ylim=(0, 1))
    ax.set_axis_off()
    ax.set_title("Transitions of both connections in one run, by cause")


def series(run: Run, flow: int, metric: str) -> tuple[Array, Array]:
    """Times in s and values of a sampled metric of a connection."""
    chosen = run.tables["series"].filter(
        (pl.col("entity") == "flow") & (pl.col("number") == flow) & (pl.col("metric") == metric)
    )
    return chosen["time_s"].to_numpy(), chosen["value"].to_numpy()
