"""DCQCN's parameters as the paper has them, and its fluid model with the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.models.rdma import Dcqcn
from penstock_papers.experiments.lossless import chosen, seconds

PAPER = "dcqcn"
CHOSEN = chosen(__file__)
PACKET = 1000.0
CAPACITY = 40e9 / 8 / PACKET
"""Packets of 1 KB per second at 40 Gb/s."""


def kilobytes(text: str) -> float:
    """A size such as "150KB" or "10MB" in packets of 1 KB."""
    return float(text.removesuffix("KB")) if text.endswith("KB") else 1e3 * float(text.removesuffix("MB"))


def variant(name: str, at: Mapping[str, Any] = CHOSEN) -> dict[str, Any]:
    """Values of "deployed", "strawman", "slow counter" (strawman, its counter at 10 MB) or "fast timer".

    The last is that with the timer of 55 us.
    """
    table = "dcqcn" if name == "deployed" else "strawman"
    values = {key: at[f"{table}.{key}"] for key in ("kmin", "timer", "byte_counter", "g")}
    values |= (
        {"kmax": at["dcqcn.kmax"], "pmax": at["dcqcn.pmax"]}
        if table == "dcqcn"
        else {"kmax": values["kmin"], "pmax": 1.0}
    )
    if name in ("slow counter", "fast timer"):
        values["byte_counter"] = at["dcqcn.byte_counter"]
    if name == "fast timer":
        values["timer"] = at["dcqcn.timer"]
    return values


def protocol(name: str, at: Mapping[str, Any] = CHOSEN) -> str:
    """The same as `protocol` of a scenario."""
    return "dcqcn:" + ",".join(f"{key}={value}" for key, value in variant(name, at).items())


def fluid(name: str, at: Mapping[str, Any] = CHOSEN, **more: Any) -> Dcqcn:
    """The same as a fluid model of packets of 1 KB at 40 Gb/s."""
    v = variant(name, at)
    return Dcqcn(
        capacity=CAPACITY,
        kmin=kilobytes(v["kmin"]),
        kmax=kilobytes(v["kmax"]),
        pmax=float(v["pmax"]),
        byte_counter=kilobytes(v["byte_counter"]),
        timer=seconds(v["timer"]),
        g=float(v["g"]),
        **more,
    )
