"""REPS where a link fails, where one is slow, and where all are alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock.network import Network
from penstock.runs import Run
from penstock.workloads import Permutation
from penstock_papers.experiments.lossless import chosen
from penstock_papers.ledger import Estimate, Lab, Row

PAPER = "reps"
CHOSEN = chosen(__file__)
# The cable whose way down to pod 0 fails or is slow.
LINK = "core0->agg0.0"


def point(at: Mapping[str, Any], paths_by: str, **settings: Any) -> Any:
    """A permutation under NSCC with a choice of paths, as a point of `Lab.sweep`."""
    network = Network.fat_tree(
        int(at["network.k"]), link_rate=at["network.rate"], link_delay=at["network.delay"]
    )
    return network, {
        "workloads": [Permutation(None, size=at["network.size"])],
        "protocol": f"nscc:paths_by={paths_by},paths={at['reps.paths']}",
        "segment": at["network.segment"],
        "reroute": "never",
        "duration": "20ms",
        **settings,
    }


def felt(run: Run) -> dict[str, float]:
    """How much data the failure took, until when (us), and the completion of the last flow."""
    table = run.tables["failures"]
    last = table["last_loss_s"].to_numpy()
    return {
        "taken": float(table["lost_data_packets"].sum()),
        "left_us": float(1e6 * np.nan_to_num(last).max()),
        **slowest(run),
    }


def slowest(run: Run) -> dict[str, float]:
    """Completion of the last flow, us; infinite where one is not done."""
    table = run.tables["flows"]
    done = bool(table["complete"].all())
    return {"slowest_us": 1e6 * float(table["fct_s"].max()) if done else np.inf}  # type: ignore[arg-type]


# ---- a link fails ---------------------------------------------------------------------------------------


def _failure(lab: Lab, at: Mapping[str, Any], runs: int) -> dict[str, Any]:
    dead = {"fail": f"{LINK}@{at['failure.at']}", "deliveries": "true"}
    points = [point(at, rule, **dead) for rule in ("reps", "oblivious")]
    reps, oblivious = lab.sweep(points, runs=runs, keep=("flows", "failures"), derive=felt)
    return {
        "left": Estimate.of(reps.values("left_us")),
        "taken": {
            "REPS": Estimate.of(reps.values("taken")),
            "oblivious": Estimate.of(oblivious.values("taken")),
        },
        "slowest": {
            "REPS": Estimate.of(reps.values("slowest_us")),
            "oblivious": Estimate.of(oblivious.values("slowest_us")),
        },
    }


REPS_F = Row(
    "REPS-F",
    "A link fails and no switch reroutes",
    measure=lambda lab: _failure(lab, CHOSEN, lab.replications(8, 3)),
    matters=("network.rate", "network.delay", "network.size", "reps.paths"),
    probe=lambda lab, settings: _failure(lab, {**CHOSEN, **settings}, 1),
    cheap=True,
)

# ---- a slow link, and none ------------------------------------------------------------------------------


def _asymmetry(lab: Lab, at: Mapping[str, Any], runs: int) -> dict[str, Any]:
    rate = 1e9 * float(str(at["network.rate"]).removesuffix("Gbps"))
    slow = {"fail": f"{LINK}@0us-1s,rate={rate / 1e10:g}Gbps"}
    points = [point(at, rule, **how) for how in ({}, slow) for rule in ("reps", "oblivious")]
    found = lab.sweep(points, runs=runs, keep=("flows",), derive=slowest)
    last = [one.values("slowest_us") for one in found]
    return {
        "alike": Estimate.of(last[0] / last[1]),
        "slow": {"REPS": Estimate.of(last[2]), "oblivious": Estimate.of(last[3])},
        "whole": {"REPS": Estimate.of(last[0]), "oblivious": Estimate.of(last[1])},
    }


REPS_A = Row(
    "REPS-A",
    "A permutation over links that are alike, and with one at a tenth of its rate",
    measure=lambda lab: _asymmetry(lab, CHOSEN, lab.replications(8, 3)),
    matters=("network.rate", "network.delay", "network.size", "reps.paths"),
    probe=lambda lab, settings: _asymmetry(lab, {**CHOSEN, **settings}, 1),
)

ROWS: list[Row] = [REPS_F, REPS_A]
