"""What HPCC's rows share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock_papers.experiments.lossless import chosen

PAPER = "hpcc"
CHOSEN = chosen(__file__)
# By which key each set of rules says how soon a cut may follow another.
CUTS = {"paper": "cnp_interval", "hpcc-ns3": "cut_timer"}


def hpcc(at: Mapping[str, Any]) -> str:
    """HPCC as `protocol`."""
    return "hpcc:" + ",".join(f"{key}={at[f'hpcc.{key}']}" for key in ("eta", "max_stage", "w_ai"))


def dcqcn(at: Mapping[str, Any]) -> str:
    """DCQCN as `protocol`. Cuts come with CNPs, or by a timer of the sender's own."""
    rules = at["dcqcn.rules"]
    increase, cut = str(at["dcqcn.timers"]).split("/")
    return f"dcqcn:rules={rules},timer={increase},{CUTS[rules]}={cut}"


def laws(at: Mapping[str, Any]) -> dict[str, str]:
    """HPCC and DCQCN as `protocol`."""
    return {"HPCC": hpcc(at), "DCQCN": dcqcn(at)}
