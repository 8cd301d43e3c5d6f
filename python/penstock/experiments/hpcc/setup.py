"""What HPCC's rows share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.experiments.lossless import chosen

PAPER = "hpcc"
CHOSEN = chosen(__file__)


def hpcc(at: Mapping[str, Any]) -> str:
    """HPCC as `protocol`."""
    return "hpcc:" + ",".join(f"{key}={at[f'hpcc.{key}']}" for key in ("eta", "max_stage", "w_ai"))


def laws(at: Mapping[str, Any]) -> dict[str, str]:
    """HPCC and DCQCN as `protocol`."""
    return {"HPCC": hpcc(at), "DCQCN": f"dcqcn:rules={at['dcqcn.rules']}"}
