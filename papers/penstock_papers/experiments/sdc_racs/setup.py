"""The thesis's settings as scenario settings, its choices, and its contenders."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock import figures
from penstock.models import aimd
from penstock.runs import RunSet
from penstock_papers.experiments.common import centre, half, ratios
from penstock_papers.ledger import Estimate, Lab

Array = NDArray[np.float64]

PAPER = "sdc-racs"
CHOICES: dict[str, dict[str, Any]] = tomllib.loads((Path(__file__).parent / "choices.toml").read_text())
# Every choice by its full name, as the search names them: "simulation.rwnd".
CHOSEN: dict[str, Any] = {
    f"{table}.{key}": entry["value"] for table, entries in CHOICES.items() for key, entry in entries.items()
}

#: Of scenarios whose clients wait for an answer before they ask again.
REQUESTS = {"requests": CHOSEN["simulation.requests"]}
LINK_BPS = 1e9
BUFFER = 100
# What the empty pipe of a round trip under one switch holds, in packets of 1500 bytes.
PIPE = LINK_BPS * CHOSEN["simulation.rtt_s"] / (8 * 1500)
# A small queue: a quarter of the buffer, which is also what the empty pipe holds. A large one: half of it.
SMALL, LARGE = 25, 50
# The thesis reads its figures off plots and rounds them.
ABOUT = 0.20

#: What the simulations depend on, of either chapter.
TCP = tuple(
    f"simulation.{key}" for key in ("rwnd", "rto_initial", "red_min", "red_max_p", "ecn_floor", "send_jitter")
)
SIZE_AWARE = ("model.alpha_ab", "sdc.gamma", "sdc.gain_ac", "sdc.gain_bc", "sdc.feedback")
EXPLICIT = ("racs.w_max", "racs.a_per_byte", "rcp.interval", "rcp.alpha", "rcp.beta", "rcp.initial")


def at(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Every choice at a point of the search."""
    return {**CHOSEN, **settings}


@dataclass(frozen=True)
class Contender:
    """A protocol with the queue it needs."""

    label: str
    protocol: str
    queue: str = "droptail"
    # A marking queue drops a SYN that is not ECN-capable, and each costs the initial timeout.
    ect_syn: bool = False

    def settings(self, chosen: Mapping[str, Any] = CHOSEN, **more: Any) -> dict[str, Any]:
        """Settings of a run of it."""
        keys = ("initial_window", "rwnd", "rto_min", "rto_initial", "send_jitter", "ecn_floor")
        return {
            "protocol": self.protocol,
            "queue": self.queue,
            "ect_syn": self.ect_syn,
            **{key: chosen[f"simulation.{key}"] for key in keys},
        } | more


def sdc(chosen: Mapping[str, Any] = CHOSEN, **more: Any) -> str:
    """SDC at these choices, its backoff factors from the gains by (3.18); `more` replaces parameters."""
    alpha = chosen["model.alpha_ab"]
    reference = (chosen["model.alpha_c"], chosen["model.beta_c"])
    betas = [
        float(aimd.beta_for_gain(gain, alpha, *reference))
        for gain in (chosen["sdc.gain_ac"], chosen["sdc.gain_bc"])
    ]
    parameters = {
        "gamma": chosen["sdc.gamma"],
        "alpha": f"{alpha:g}/{alpha:g}/{reference[0]:g}",
        "beta": "/".join(f"{b:.6f}" for b in (*betas, reference[1])),
        "sizes": chosen["sdc.sizes"],
        "interval": chosen["sdc.interval"],
        "feedback": chosen["sdc.feedback"],
    } | more
    return "sdc:" + ",".join(f"{key}={value}" for key, value in parameters.items())


def racs(chosen: Mapping[str, Any] = CHOSEN, **more: Any) -> str:
    """RACS at these choices; `more` replaces parameters."""
    parameters = {
        "w_min": chosen["racs.w_min"],
        "w_max": chosen["racs.w_max"],
        "a": chosen["racs.a_per_byte"],
    } | more
    return "racs:" + ",".join(f"{key}={value}" for key, value in parameters.items())


def rcp(chosen: Mapping[str, Any] = CHOSEN) -> str:
    """RCP at these choices."""
    keys = ("interval", "alpha", "beta", "initial")
    return "rcp:" + ",".join(f"{key}={chosen[f'rcp.{key}']}" for key in keys)


def red(chosen: Mapping[str, Any] = CHOSEN) -> str:
    """RED with ECN at these choices."""
    low = chosen["simulation.red_min"]
    return f"red:min={low}pkt,max={3 * low}pkt,max_p={chosen['simulation.red_max_p']},ecn=true"


SDC, SACK, ECN, RACS, RCP = "SDC", "SACK DropTail", "SACK + RED/ECN", "RACS", "RCP"
CHAPTER_3, CHAPTER_4 = (SDC, SACK, ECN), (SDC, RACS, RCP)
# Drawn beside them, judged nowhere.
BESIDE = {
    "DCTCP": Contender("DCTCP", "dctcp", "threshold:k=20pkt", ect_syn=True),
    "D3": Contender("D3", "d3"),
}


def contenders(chosen: Mapping[str, Any] = CHOSEN) -> dict[str, Contender]:
    """Every contender by name, at these choices."""
    found = [
        Contender(SDC, sdc(chosen)),
        Contender(SACK, "sack"),
        Contender(ECN, "sack:ecn=true", red(chosen)),
        Contender(RACS, racs(chosen)),
        Contender(RCP, rcp(chosen)),
    ]
    return {c.label: c for c in found} | BESIDE


Sets = dict[str, list["RunSet"]]


def sweep(
    lab: Lab,
    scenario: str,
    axis: str,
    values: Sequence[Any],
    who: Iterable[str | Contender],
    *,
    runs: int,
    chosen: Mapping[str, Any] = CHOSEN,
    keep: tuple[str, ...] = (),
    derive: Callable[..., Any] | None = None,
    **more: Any,
) -> Sets:
    """One scenario over one axis, for contenders (by name, or given): the runs of each value by contender."""
    known = contenders(chosen)
    all_ = [known[c] if isinstance(c, str) else c for c in who]
    points = [(scenario, c.settings(chosen, **more, **{axis: v})) for c in all_ for v in values]
    found = lab.sweep(points, runs=runs, keep=keep, derive=derive)
    n = len(values)
    return {c.label: found[i * n : (i + 1) * n] for i, c in enumerate(all_)}


def measured(sets: Sets, key: str, scale: float = 1.0) -> dict[str, list[Estimate]]:
    """A summary key of every contender at every point, with its interval."""
    return {
        label: [Estimate.of(scale * runs.values(key)) for runs in points] for label, points in sets.items()
    }


def difference(sets: Sets, first: str, second: str, key: str, scale: float = 1.0) -> list[Estimate]:
    """First less second at every point, run by run: their random numbers are the same."""
    pairs = zip(sets[first], sets[second], strict=True)
    return [Estimate.of(scale * (a.values(key) - b.values(key))) for a, b in pairs]


def ratio(sets: Sets, first: str, second: str, key: str) -> list[Estimate]:
    """First over second at every point, run by run."""
    return ratios(sets[first], sets[second], key)


def told(estimates: Iterable[Estimate], form: str = ".3g") -> str:
    """Numbers of a curve in a row."""
    return " / ".join(format(e.mean, form) for e in estimates)


def over(x: Sequence[float], curve: Sequence[Estimate]) -> str:
    """A curve in words: each number with its place."""
    return ", ".join(f"{e.mean:.3g} at {place:g}" for place, e in zip(x, curve, strict=True))


def curves(
    lab: Lab,
    name: str,
    x: Sequence[float],
    by_label: Mapping[str, Sequence[Estimate]],
    *,
    xlabel: str,
    ylabel: str,
    title: str,
    log: bool = False,
    stated: Sequence[tuple[str, Sequence[float], Sequence[float]]] = (),
    extra: Mapping[str, Sequence[float]] | None = None,
) -> Path:
    """A figure of curves with their intervals; `stated` are the thesis's own points (label, x, y), `extra`
    curves of theory.
    """
    extra = extra or {}
    with figures.style():
        fig, (ax,) = figures.new()
        if log:
            ax.set_yscale("log")
        for i, (label, points) in enumerate(by_label.items()):
            figures.band(ax, np.array(x, float), centre(points), half(points), label, i)
        for j, (label, y) in enumerate(extra.items()):
            ax.plot(x, y, label=label, **figures.line(len(by_label) + j))
        for label, places, y in stated:
            ax.plot(places, y, linestyle="none", marker="x", color=figures.INK, label=label)
        ax.set(xlabel=xlabel, ylabel=ylabel, title=title)
        if not log:
            ax.set_ylim(bottom=0)
        if len(ax.get_lines()) > 4:
            ax.legend(ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.14))
        else:
            ax.legend()
        return lab.save(fig, name)
