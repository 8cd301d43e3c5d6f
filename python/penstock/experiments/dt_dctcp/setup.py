"""The paper's settings as scenario settings, and its choices."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from penstock.ledger import Estimate
from penstock.models.fluid import Link

if TYPE_CHECKING:
    from penstock.ledger import Lab
    from penstock.runs import RunSet

CHOICES: dict[str, dict[str, Any]] = tomllib.loads((Path(__file__).parent / "choices.toml").read_text())
SIM = {key: entry["value"] for key, entry in CHOICES["simulation"].items()}
ALPHA = {key: entry["value"] for key, entry in CHOICES["alpha"].items()}
TESTBED = {key: entry["value"] for key, entry in CHOICES["testbed"].items()}

PAPER = "dt-dctcp"

# Fig 10, 11, 12: N = 10..100 in steps of five.
FLOWS = tuple(range(10, 101, 5))


def single(sim: Mapping[str, Any] = SIM) -> str:
    """DCTCP's marking rule."""
    return f"threshold:k={sim['k']}pkt,count={sim['count']}"


def double(sim: Mapping[str, Any] = SIM, turn: str = "") -> str:
    """DT-DCTCP's marking rule."""
    return f"hysteresis:k1={sim['k1']}pkt,k2={sim['k2']}pkt,turn={turn or sim['turn']},count={sim['count']}"


SINGLE, DOUBLE, DIRECTION = single(), double(), double(turn="direction")


def at(table: Mapping[str, Any], name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The choices of a table at a point of the search, where "simulation.turn" is `turn` of SIM."""
    return {**table, **{key.removeprefix(f"{name}."): value for key, value in settings.items()}}


def long_flows(
    flows: int, queue: str, sim: Mapping[str, Any] = SIM, **more: Any
) -> tuple[str, dict[str, Any]]:
    """A point of section VI.A: `flows` long DCTCP flows over a bottleneck with discipline `queue`."""
    settings: dict[str, Any] = {
        "flows": flows,
        "queue": queue,
        "protocol": f"dctcp:g={sim['g']},min_window={sim['min_window']}",
        "segment": f"{sim['packet_bytes'] - 40}B",
        "sample": ALPHA["interval"],
        "ect_syn": "true" if sim["ect_syn"] else "false",
    }
    keys = ("link_rate", "rtt", "buffer", "delayed_ack", "start_spread", "send_jitter", "warmup", "duration")
    settings.update({key: sim[key] for key in keys})
    settings.update(more)
    return "long-flows", settings


def link(flows: Any) -> Link:
    """The same point for the models; `flows` scalar or array."""
    return Link.of(10e9, SIM["packet_bytes"], 100e-6, flows, SIM["g"])


def replications(lab: Lab) -> int:
    """Runs per point."""
    return lab.replications(SIM["runs_full"], SIM["runs_quick"])


def measured(sets: list[RunSet], key: str) -> list[Estimate]:
    """A summary key of each point, with its interval."""
    return [Estimate.of(s.values(key)) for s in sets]


def differences(first: list[RunSet], second: list[RunSet], key: str) -> list[Estimate]:
    """First minus second at each point, run by run: the runs have their random numbers in common."""
    return [Estimate.of(a.values(key) - b.values(key)) for a, b in zip(first, second, strict=True)]


def centre(estimates: Iterable[Estimate]) -> NDArray[np.float64]:
    """The numbers of estimates."""
    return np.array([e.mean for e in estimates])


def half(estimates: Iterable[Estimate]) -> NDArray[np.float64]:
    """Half the width of their intervals, for a band."""
    return np.array([(e.high - e.low) / 2 for e in estimates])


def means(sets: list[RunSet], key: str) -> NDArray[np.float64]:
    """Mean of a summary key of each point."""
    return np.array([s.mean(key) for s in sets])


def halves(sets: list[RunSet], key: str) -> NDArray[np.float64]:
    """95 % half-width of each point's mean."""
    return np.array([s.ci95(key) for s in sets])


def save_table(lab: Lab, name: str, columns: dict[str, Any]) -> Path:
    """Write the numbers behind a figure as CSV under `out`/tables."""
    path = lab.out / "tables" / f"{name}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(columns).write_csv(path, float_precision=6)
    return path
