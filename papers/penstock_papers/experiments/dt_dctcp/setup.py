"""The paper's settings as scenario settings, and its choices."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.models.fluid import Link
from penstock_papers.ledger import Lab

CHOICES: dict[str, dict[str, Any]] = tomllib.loads((Path(__file__).parent / "choices.toml").read_text())
SIM = {key: entry["value"] for key, entry in CHOICES["simulation"].items()}
ALPHA = {key: entry["value"] for key, entry in CHOICES["alpha"].items()}
TESTBED = {key: entry["value"] for key, entry in CHOICES["testbed"].items()}

PAPER = "dt-dctcp"

# Fig 10, 11, 12: N = 10..100 in steps of five.
FLOWS = tuple(range(10, 101, 5))
# When quick: every second of them.
QUICK_FLOWS = FLOWS[::2]


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


def rules(testbed: Mapping[str, Any] = TESTBED) -> dict[str, str]:
    """The marking rules of section VI.B by name: DCTCP's, then both settings of DT-DCTCP."""

    def size(text: str) -> str:
        return text.replace("KB", testbed["unit"])

    found = {"DCTCP": f"threshold:k={size(testbed['k'])}"}
    for k1, k2 in testbed["pairs"]:
        found[f"DT-DCTCP ({k1}, {k2})"] = f"hysteresis:k1={size(k1)},k2={size(k2)}"
    return found


RULES = rules()


def query(
    servers: int, queue: str, testbed: Mapping[str, Any] = TESTBED, **more: Any
) -> tuple[str, dict[str, Any]]:
    """A point of section VI.B."""
    settings: dict[str, Any] = {
        "servers": servers,
        "queue": queue,
        "protocol": f"dctcp:alpha={testbed['alpha']},min_window={testbed['min_window']}",
    }
    keys = (
        *("link_rate", "link_delay", "repetitions", "rto_min"),
        *("initial_window", "connections", "jitter", "requests"),
    )
    settings.update({key: testbed[key] for key in keys})
    for key in ("root_buffer", "leaf_buffer"):
        settings[key] = str(testbed[key]).replace("KB", testbed["unit"])
    settings.update(more)
    return "testbed", settings
