"""What all rows on slowdown by message size judge by: the share of the size bins within ten per cent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.experiments.homa.setup import Bin
from penstock.ledger import Claim, Estimate, Measurement, at_least

# Percentiles by name, "p50" and "p99": a number for each bin.
Numbers = Mapping[str, Sequence[float]]
KEYS = {"p50": 2, "p99": 3}
WHERE = "section 5.2, the figures on slowdown by message size"
WHY = (
    "ten per cent of a bin's number, in 85 % of the bins: a message's place in a queue is a matter of chance"
)


def differences(bins: Sequence[Bin], numbers: Numbers, key: str) -> NDArray[np.float64]:
    """By what numbers differ from the published ones, bin by bin, as shares of these."""
    return np.asarray(numbers[key]) / np.array([one[KEYS[key]] for one in bins]) - 1


def near(bins: Sequence[Bin], numbers: Numbers, key: str) -> float:
    """Share of the bins within ten per cent."""
    return float(np.mean(np.abs(differences(bins, numbers, key)) <= 0.1))


def claims(
    transport: str,
    bins: Sequence[Bin],
    numbers: Callable[[Measurement], Numbers],
    *,
    workload: str,
    load: str = "",
) -> tuple[Claim, Claim]:
    """The medians and the 99th percentiles of a transport; with its `load` in percent where a row has several
    workloads or loads.
    """
    start = f"{transport.lower()}-{load}" if load else transport.lower()
    end = f" ({workload} at {load} %)" if load else ""
    at = workload if load else f"{workload} at 80 %"

    def claim(what: str, text: str, key: str) -> Claim:
        return Claim(
            f"{start}-{what}",
            f"{transport}: {text} of slowdown by size{end}",
            "number",
            "published",
            lambda m: Estimate.exact(near(bins, numbers(m), key)),
            at_least(0.85),
            where=f"{WHERE}, {at}: their published data",
            why=WHY,
            unit="of the bins",
        )

    return claim("median", "medians", "p50"), claim("tail", "99th percentiles", "p99")


def of_bins(found: Any, prefix: str, bins: Sequence[Bin]) -> dict[str, list[float]]:
    """The numbers of a run set whose summaries have them as "`prefix`p50.0", ..."""
    return {key: [float(found.mean(f"{prefix}{key}.{i}")) for i in range(len(bins))] for key in KEYS}
