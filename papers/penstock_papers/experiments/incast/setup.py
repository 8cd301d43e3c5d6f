"""The book's settings as scenario settings, its open choices, and curves over the number of servers."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from penstock import figures
from penstock.runs import RunSet
from penstock_papers.experiments.common import Floats, centre, half, measured, onsets
from penstock_papers.experiments.incast import beside
from penstock_papers.ledger import Estimate, Lab

PAPER = "incast"
CHOICES: dict[str, dict[str, Any]] = tomllib.loads((Path(__file__).parent / "choices.toml").read_text())
CHOSEN = {name: entry["value"] for name, entry in CHOICES.items()}

# Table 3.1. Buffers and requests are counted in segments of 1000 B, as ns-2 counts them (choices.toml).
STATED: dict[str, Any] = {
    "sru": "256KB",
    "link_rate": "1Gbps",
    "link_delay": "50us",
    "buffer": "32pkt",
    "segment": "1000B",
    "rwnd": "1000pkt",
    "rto_min": "200ms",
    "jitter": "20us",
    "protocol": "newreno",
}
LINK_BPS = 1e9
WIRE = 1040  # bytes of a full segment with its headers

# Open parameters that act on every run, and the scenario's key for each.
OPEN = {
    "jitter_mode": "jitter_mode",
    "send_jitter": "send_jitter",
    "initial_window": "initial_window",
    "restart_after_idle": "restart_after_idle",
    "back_off": "backoff_max",
    "rto_granularity": "rto_granularity",
    "limited_transmit": "limited_transmit",
    "delayed_ack": "delayed_ack",
    "ssthresh_from": "ssthresh_from",
}
MATTERS = (*OPEN, "buffer_unit")


def chosen(point: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Table 3.1 with the open parameters at a point of the search, otherwise as chosen."""
    values = CHOSEN | dict(point or {})
    fixed = {name: CHOSEN[name] for name in ("requests", "rto_initial")}
    return STATED | {key: values[name] for name, key in OPEN.items()} | fixed


def buffer(size_kb: int, point: Mapping[str, Any] | None = None) -> dict[str, str]:
    """The setting of a switch buffer of so many KB, in segments or in bytes on the wire."""
    unit = (CHOSEN | dict(point or {}))["buffer_unit"]
    return {"buffer": f"{size_kb}pkt" if unit == "packets" else f"{size_kb}KB"}


BASE = chosen()
# A lost SYN costs 3 s, which a trial of 40 s bears and a short one does not: there it is sent again sooner.
SOON = {"rto_initial": "200ms"}
# Section 4.1.1.
CHAPTER_4 = BASE | {"link_delay": "100us", "rwnd": "20pkt"}

GRID = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48)
# When quick, in a search, and of the smallest run.
QUICK = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 32, 48)
FEW = (1, 2, 3, 4, 5, 6, 7, 8, 10, 16, 32)
LEAST = (2, 4, 8, 12)

# Runs at a point of the search. Student's interval of two is thirteen standard errors to either side, and
# decides next to nothing. They are as short as several timeouts of 200 ms after the first connections, and
# holds.json says how long; where losses are counted they are those of a quick reproduction.
PROBED = 3
SEARCHED = {"duration": "1300ms", "warmup": "300ms"} | SOON
SEARCHED_LOSSES: dict[str, Any] = {"duration": "5s", "loss_events": True} | SOON

# From how many servers on "the number of senders is large" (section 3.2: ABTTs dominate from about ten).
MANY = 10
# The least that can be called an order of magnitude; the book's plural is read as leniently as can be.
ORDER = 10.0


@dataclass(frozen=True)
class Curve:
    """Goodput over the number of servers for one setting."""

    servers: tuple[int, ...]
    sets: tuple[RunSet, ...]

    def per_run(self, key: str = "goodput_bps") -> Floats:
        """A summary key, shape (servers, runs)."""
        return np.array([runs.values(key) for runs in self.sets])

    @property
    def onsets(self) -> Floats:
        """The onset of each run; inf where there is none."""
        return onsets(self.sets, self.servers)

    def at(self, servers: int) -> RunSet:
        """The runs with so many servers."""
        return self.sets[self.servers.index(servers)]

    def numbers(self) -> dict[str, Any]:
        """What is drawn and told of it: servers, goodput (Mb/s), onset (servers)."""
        return {
            "servers": list(self.servers),
            "goodput": [e * 1e-6 for e in measured(self.sets, "goodput_bps")],
            "onset": Estimate.median(self.onsets),
        }


def grid(lab: Lab) -> tuple[int, ...]:
    """The numbers of servers of this length of reproduction."""
    return lab.pick(GRID, QUICK, LEAST)


def measuring(lab: Lab) -> dict[str, Any]:
    """Length of a run of which the models' inputs are counted: the book's, or 5 s. Every fast retransmit is
    in its event table.
    """
    return lab.pick({"duration": "40s"}, SEARCHED_LOSSES, {"duration": "2s"}) | {"loss_events": True}


def trial(lab: Lab) -> dict[str, Any]:
    """Length of other runs: the book's 40 s, or 2 s after the first."""
    return lab.pick({"duration": "40s"}, {"duration": "3s", "warmup": "1s"} | SOON, {"duration": "2s"})


def curves(
    lab: Lab,
    variants: Mapping[str, Mapping[str, Any]],
    servers: Sequence[int] = GRID,
    *,
    length: Mapping[str, Any] | None = None,
    runs: int = 0,
) -> dict[str, Curve]:
    """One curve per variant (label -> settings), all points in parallel; three runs unless said otherwise.
    With `length` of `measuring` the summaries have the models' inputs too.
    """
    given = dict(trial(lab) if length is None else length)
    runs = runs or lab.replications(3, 3)
    points = [
        ("incast", {**settings, **given, "servers": n}) for settings in variants.values() for n in servers
    ]
    if given.get("loss_events"):
        sets = lab.sweep(points, runs=runs, keep=("flows", "events"), derive=beside.derive)
    else:
        sets = lab.sweep(points, runs=runs)
    width = len(servers)
    return {
        label: Curve(tuple(servers), tuple(sets[i * width : (i + 1) * width]))
        for i, label in enumerate(variants)
    }


def overall(curve: Curve, least: int = 0) -> Floats:
    """Mean goodput over the numbers of servers from `least` on, of each run (bit/s)."""
    return curve.per_run()[np.array(curve.servers) >= least].mean(axis=0)


def draw(title: str, shown: Mapping[str, Mapping[str, Any]]) -> figures.Figure:
    """Goodput in Mb/s over the number of servers, one line per curve with its 95 % band."""
    crowded = len(shown) > 3
    with figures.style():
        figure, (ax,) = figures.new(width=7.8 if crowded else 6.6)
        for i, (label, curve) in enumerate(shown.items()):
            figures.band(ax, curve["servers"], centre(curve["goodput"]), half(curve["goodput"]), label, i)
        ax.set(xlabel="number of servers", ylabel="goodput (Mb/s)", ylim=(0, 1000))
        ax.set_xlim(0, max(max(curve["servers"]) for curve in shown.values()) + 1)
        ax.set_title(title)
        beside_plot(ax) if crowded else ax.legend()
    return figure


def beside_plot(ax: figures.Axes, **given: Any) -> None:
    """The legend to the right of the axes: more than three curves leave no room between them."""
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), **given)


def listed(values: Sequence[object]) -> str:
    """Values with commas."""
    return ", ".join(str(value) for value in values)


def told(estimates: Sequence[Estimate], form: str = ".0f") -> str:
    """The numbers of estimates with commas, what never came as "none"."""
    return listed([f"{e.mean:{form}}" if np.isfinite(e.mean) else "none" for e in estimates])


def table_3_1(lab: Lab, more: Mapping[str, Any] | None = None) -> Curve:
    """Simulated with Table 3.1 and the models' inputs counted; `more` settings instead."""
    given = {"": BASE | dict(more or {})}
    return curves(lab, given, grid(lab), length=measuring(lab))[""]


def probed(lab: Lab, point: Mapping[str, Any], more: Mapping[str, Any] | None = None) -> Curve:
    """The same at a point of the search: fewer servers, quick length."""
    given = {"": chosen(point) | buffer(32, point) | dict(more or {})}
    return curves(lab, given, FEW, length=SEARCHED_LOSSES, runs=PROBED)[""]
