"""The AIMD model of size classes (section 3.4) at the thesis's choices, and its gains in packets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from penstock.models import aimd
from penstock_papers.experiments.sdc_racs.setup import CHOSEN, Array
from penstock_papers.ledger import Lab

CLASSES = ("A", "B", "C")
MATTERS = ("model.alpha_ab", "model.capacity_bps", "model.gain_applies_to")


def bits(chosen: Mapping[str, Any]) -> float:
    """Bits of a packet."""
    return 8.0 * float(chosen["model.packet_bytes"])


def class_betas(gain_ac: ArrayLike, gain_bc: ArrayLike, chosen: Mapping[str, Any] = CHOSEN) -> Array:
    """Backoff factors of classes A, B, C that give the wanted gains over class C, shape (..., 3)."""
    alpha, reference = chosen["model.alpha_ab"], (chosen["model.alpha_c"], chosen["model.beta_c"])
    a = aimd.beta_for_gain(gain_ac, alpha, *reference)
    b = aimd.beta_for_gain(gain_bc, alpha, *reference)
    return np.stack(np.broadcast_arrays(a, b, reference[1]), -1)


def shares(
    gain_ac: ArrayLike,
    gain_bc: ArrayLike,
    chosen: Mapping[str, Any] = CHOSEN,
    *,
    threshold_a: ArrayLike | None = None,
    size_c: float | None = None,
    flows: tuple[int, ...] | None = None,
) -> aimd.Classes:
    """The three classes of section 3.4.5 at these gains; flows of class A have the size of its threshold.

    The choice `gain_applies_to` reads the wanted gains as those of the class's own parameters or of the class
    averages. Raises ValueError where no parameters give them.
    """
    size_a, edge, last = (float(size) for size in chosen["model.sizes_packets"])
    alpha_ab = chosen["model.alpha_ab"]
    beta = class_betas(gain_ac, gain_bc, chosen)
    alpha = np.array([alpha_ab, alpha_ab, chosen["model.alpha_c"]])
    rtt, capacity = chosen["model.rtt_s"], chosen["model.capacity_bps"] / bits(chosen)
    first = np.asarray(size_a if threshold_a is None else threshold_a, float)

    def of(first: float, beta: Array) -> aimd.Classes:
        sizes, thresholds = [first, edge, last if size_c is None else size_c], [first, edge]
        if chosen["model.gain_applies_to"] == "average":
            beta = aimd.raw_from_effective(beta, thresholds, sizes)
        return aimd.classes(
            alpha,
            beta,
            flows=flows or chosen["model.flows"],
            sizes=sizes,
            thresholds=thresholds,
            pipe=capacity * rtt,
            rtt=rtt,
        )

    if first.ndim == 0:
        return of(float(first), beta)
    rows = [of(float(value), beta) for value in first]
    fields = ("alpha", "beta", "window", "throughput", "fct", "gain")
    return aimd.Classes(**{name: np.stack([getattr(row, name) for row in rows]) for name in fields})


def mbps(packets_per_second: ArrayLike, chosen: Mapping[str, Any] = CHOSEN) -> Array:
    """Packets per second as Mb/s."""
    return np.asarray(packets_per_second, float) * bits(chosen) / 1e6


def packet_gains(lab: Lab, wanted: float, duration: str = "2s", warmup: str = "1s") -> tuple[float, float]:
    """Measured gains of classes A and B over class C in the simulator, with the parameters for these gains.

    Two endless flows of each class share a link (classes.toml). In the model the gains are `wanted` and 2.
    """
    a, b, c = class_betas(wanted, CHOSEN["model.gain_bc"])
    alpha = CHOSEN["model.alpha_ab"]
    alphas = f"{alpha}/{alpha}/{CHOSEN['model.alpha_c']}"
    protocol = f"sdc:sizes=100GB/1000GB,alpha={alphas},beta={a:.6f}/{b:.6f}/{c:.6f}"
    # The order of the parameters must not rise from class to class, so gains below 2 have no SDC.
    settings = {"protocol": protocol, "duration": duration, "warmup": warmup}
    run = lab.runs(Path(__file__).parent / "classes.toml", settings, keep=("flows",))
    flows = run.tables(0)["flows"]
    acked = [flows.filter(flows["workload"] == i)["acked_bytes"].to_numpy().sum() for i in range(3)]
    return float(acked[0] / acked[2]), float(acked[1] / acked[2])
