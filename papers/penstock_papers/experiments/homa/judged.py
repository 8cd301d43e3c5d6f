"""What all rows on slowdown by message size judge by: the share of the size bins within ten per cent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock_papers.experiments.homa.setup import Bin

# Percentiles by name, "p50" and "p99": a number for each bin.
Numbers = Mapping[str, Sequence[float]]
KEYS = {"p50": 2, "p99": 3}


def differences(bins: Sequence[Bin], numbers: Numbers, key: str) -> NDArray[np.float64]:
    """By what numbers differ from the published ones, bin by bin, as shares of these."""
    return np.asarray(numbers[key]) / np.array([one[KEYS[key]] for one in bins]) - 1


def near(bins: Sequence[Bin], numbers: Numbers, key: str) -> float:
    """Share of the bins within ten per cent."""
    return float(np.mean(np.abs(differences(bins, numbers, key)) <= 0.1))


def of_bins(found: Any, prefix: str, bins: Sequence[Bin]) -> dict[str, list[float]]:
    """The numbers of a run set whose summaries have them as "`prefix`p50.0", ..."""
    return {key: [float(found.mean(f"{prefix}{key}.{i}")) for i in range(len(bins))] for key in KEYS}
