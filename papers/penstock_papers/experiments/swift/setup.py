"""What Swift's rows share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.runs import Run
from penstock_papers.experiments.lossless import after_warmup, chosen, samples

PAPER = "swift"
CHOSEN = chosen(__file__)
# Bytes of headers of a packet of data.
HEADER = 44.0


def law(at: Mapping[str, Any], **more: Any) -> str:
    """Swift with selective repeat, as Pony Express repairs, as `protocol`."""
    keys = {key: at[f"swift.{key}"] for key in ("base_target", "beta", "max_mdf", "fs_range")}
    return "swift:recovery=irn," + ",".join(f"{key}={value}" for key, value in {**keys, **more}.items())


def payload(at: Mapping[str, Any]) -> float:
    """Payload of a packet in bytes."""
    return float(str(at["network.packet"]).removesuffix("B"))


def round_trip(run: Run) -> dict[str, float]:
    """Mean of the sampled RTTs of all sampled flows after the warm-up, us."""
    return {"rtt_us": float(1e6 * samples(run, "rtt_s", after=after_warmup(run))["value"].to_numpy().mean())}
