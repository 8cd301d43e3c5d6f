"""The paper's settings as scenario settings, and its choices."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from penstock.models.fluid import Link

if TYPE_CHECKING:
    from penstock.ledger import Lab
    from penstock.runs import RunSet

CHOICES: dict[str, dict[str, Any]] = tomllib.loads((Path(__file__).parent / "choices.toml").read_text())
SIM = {key: entry["value"] for key, entry in CHOICES["simulation"].items()}
ALPHA = {key: entry["value"] for key, entry in CHOICES["alpha"].items()}
TESTBED = {key: entry["value"] for key, entry in CHOICES["testbed"].items()}

# Fig 10, 11, 12: N = 10..100 in steps of five.
FLOWS = tuple(range(10, 101, 5))

SINGLE = f"threshold:k={SIM['k']}pkt"
DOUBLE = f"hysteresis:k1={SIM['k1']}pkt,k2={SIM['k2']}pkt,turn={SIM['turn']}"
DIRECTION = f"hysteresis:k1={SIM['k1']}pkt,k2={SIM['k2']}pkt,turn=direction"

_PAYLOAD = SIM["packet_bytes"] - 40


def long_flows(flows: int, queue: str, **more: Any) -> tuple[str, dict[str, Any]]:
    """A point of section VI.A: `flows` long DCTCP flows over a bottleneck with discipline `queue`."""
    settings: dict[str, Any] = {
        "flows": flows,
        "queue": queue,
        "protocol": f"dctcp:g={SIM['g']},min_window={SIM['min_window']}",
        "segment": f"{_PAYLOAD}B",
        "sample": ALPHA["interval"],
        "ect_syn": "true" if SIM["ect_syn"] else "false",
    }
    keys = ("link_rate", "rtt", "buffer", "delayed_ack", "start_spread", "send_jitter", "warmup", "duration")
    settings.update({key: SIM[key] for key in keys})
    settings.update(more)
    return "long-flows", settings


def link(flows: Any) -> Link:
    """The same point for the models; `flows` scalar or array."""
    return Link.of(10e9, SIM["packet_bytes"], 100e-6, flows, SIM["g"])


def replications(lab: Lab) -> int:
    """Runs per point."""
    return int(SIM["runs_quick"] if lab.quick else SIM["runs_full"])


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
