"""An approximation beside the exact runs of the same scenario: how far off it is.

`penstock.run(..., approximate="links")` estimates the completion times of flows from links that are simulated
by themselves. Flows, sizes, paths and start times are those of the exact run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.runs import RunSet

#: The summary keys that are estimated; the other keys of an approximation are facts of the scenario.
ESTIMATED = (
    "flows_completed",
    "fct_mean_s",
    "fct_p50_s",
    "fct_p99_s",
    "slowdown_p50",
    "slowdown_p99",
)


@dataclass(frozen=True)
class Comparison:
    """An approximation and the exact runs of the same scenario, seed and number of runs."""

    approximate: RunSet
    exact: RunSet

    def errors(self) -> dict[str, float]:
        """Relative error of the mean of each estimated key: 0.05 = five per cent too large."""
        found, true = self.approximate.summary, self.exact.summary
        return {key: found[key] / true[key] - 1.0 for key in ESTIMATED if true.get(key) and key in found}

    @property
    def speedup(self) -> float:
        """CPU seconds of the exact runs over those of the approximation, both on this machine."""
        return cpu_s(self.exact) / cpu_s(self.approximate)

    def document(self) -> dict[str, Any]:
        """For JSON: the method, the means of the exact runs, the errors, and how much CPU time was saved."""
        from penstock.results import plain

        return {
            "method": self.approximate.scenario.get("approximate"),
            "exact": plain({key: self.exact.summary[key] for key in self.errors()}),
            "error": plain(self.errors()),
            "speedup": self.speedup,
        }


def cpu_s(runs: RunSet) -> float:
    """CPU seconds of all runs of a set."""
    return sum(run.timings["cpu_s"] for run in runs.runs)
