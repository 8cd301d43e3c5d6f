"""Benchmark traffic in numbers: Pareto flows beside two long ones (sections 3.5.3 and 4.3.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from penstock.models import schedulers
from penstock.runs import Run, RunSet
from penstock_papers.experiments.common import ratio_of_means
from penstock_papers.experiments.sdc_racs import setup
from penstock_papers.ledger import Estimate, Lab, Measurement

RATES: tuple[int, ...] = tuple(setup.CHOSEN["simulation.benchmark_rates"])
_FEW = (100, 2000)
# Sizes of Fig 4.11 in bytes; a bin counts with so many flows of each scheme and run.
EDGES = (1e3, 10e3, 30e3, 100e3, 300e3, 1e6, 1e9)
BINS = ("1-10 KB", "10-30 KB", "30-100 KB", "0.1-0.3 MB", "0.3-1 MB", "> 1 MB")
_LEAST = 5
# A ratio that too few runs had flows enough for.
_UNKNOWN = Estimate.unknown()
# RACS with a weight that decays within 1 MB, and links of "300 us" read as there and back of each.
SLOWER, LONGER = "slower", "150us"
# "Within 10 ms", and where the distribution is drawn.
TEN_MS = 10e-3
TIMES = tuple(float(t) for t in np.geomspace(0.5e-3, 1.0, 60))


def by_size(run: Run) -> Mapping[str, float]:
    """Of the short flows of a run: `bin:i` mean completion time in ms of those of bin i (NaN below five),
    `within:j` the share complete by TIMES[j], `within` by 10 ms.
    """
    table = run.tables["transfers"]
    size, fct = table["bytes"].to_numpy().astype(float), table["fct_s"].to_numpy()
    which = np.digitize(size, EDGES) - 1
    out: dict[str, float] = {}
    for i in range(len(BINS)):
        here = fct[which == i]
        out[f"count:{i}"] = float(here.size)
        out[f"bin:{i}"] = 1e3 * float(here.mean()) if here.size >= _LEAST else float("nan")
    out |= {f"within:{j}": float(np.mean(fct <= t)) for j, t in enumerate(TIMES)}
    return out | {"within": float(np.mean(fct <= TEN_MS))}


def _benchmark(
    lab: Lab,
    who: Sequence[str | setup.Contender],
    rates: Sequence[int],
    runs: int,
    length: Mapping[str, Any],
    chosen: Mapping[str, Any] = setup.CHOSEN,
) -> dict[str, list[RunSet]]:
    return setup.sweep(
        lab,
        "mix",
        "arrivals",
        [f"poisson:{r}" for r in rates],
        who,
        runs=runs,
        chosen=chosen,
        keep=("transfers",),
        derive=by_size,
        sizes="pareto:1.2:25KB",
        long_flows=2,
        **length,
    )


def _numbers(sets: dict[str, list[RunSet]], rates: Sequence[int]) -> dict[str, Any]:
    """What the statements are about; bins and shares at the highest rate."""

    def rise(label: str) -> Estimate:
        return Estimate.of(sets[label][-1].values("fct_mean_s") / sets[label][0].values("fct_mean_s"))

    def at_most_rate(label: str, key: str) -> setup.Array:
        return np.asarray(sets[label][-1].values(key))

    found: dict[str, Any] = {
        "rates": list(rates),
        "afct": setup.measured(sets, "fct_mean_s", 1e3),
        "loss": setup.measured(sets, "drop_rate", 100),
        "queue": setup.measured(sets, "queue_mean_packets"),
        "rise": {label: rise(label) for label in sets},
        "queue's rise": {
            label: ratio_of_means(
                points[-1].values("queue_mean_packets"), points[0].values("queue_mean_packets")
            )
            for label, points in sets.items()
        },
    }
    if setup.SACK in sets:
        found["over SDC at the lowest"] = [
            setup.ratio(sets, other, setup.SDC, "fct_mean_s")[0] for other in (setup.SACK, setup.ECN)
        ]
    if setup.RACS in sets:
        found["over RACS at the lowest"] = [
            setup.ratio(sets, other, setup.RACS, "fct_mean_s")[0] for other in (setup.SDC, setup.RCP)
        ]
        bins = [
            at_most_rate(setup.RACS, f"bin:{i}") / at_most_rate(setup.RCP, f"bin:{i}")
            for i in range(len(BINS))
        ]
        found["RACS over RCP by size"] = [_of_some(b) for b in bins]
        counts = np.array([at_most_rate(setup.RCP, f"count:{i}") for i in range(len(BINS))])
        # The share of the flows that are of a size that RACS serves visibly faster.
        faster = np.array([np.nan_to_num(b, nan=1.0) <= 1 / 1.05 for b in bins])
        found["flows that RACS serves faster"] = Estimate.of(
            (counts * faster).sum(axis=0) / counts.sum(axis=0)
        )
        share = {label: 100 * at_most_rate(label, "within") for label in (setup.RACS, setup.RCP)}
        found["within 10 ms"] = {label: Estimate.of(x) for label, x in share.items()}
        found["more within 10 ms"] = Estimate.of(100 * (share[setup.RACS] / share[setup.RCP] - 1))
    return found


def _of_some(values: setup.Array) -> Estimate:
    """The mean of those replications that had flows enough, unknown where only one of several had."""
    return Estimate.of(values) if np.isfinite(values).sum() >= min(2, values.size) else _UNKNOWN


def _length(lab: Lab) -> dict[str, Any]:
    return lab.pick(
        {"warmup": "2s", "duration": "17s"},
        {"warmup": "500ms", "duration": "2s"},
        {"warmup": "100ms", "duration": "400ms"},
    )


def measure(lab: Lab) -> Measurement:
    """Every rate with every scheme; sizes at the highest rate, and what a slower RACS does to them; RACS on
    longer links.
    """
    runs, length = lab.replications(8, 3), _length(lab)
    sets = _benchmark(lab, (*setup.CHAPTER_3, setup.RACS, setup.RCP, "DCTCP", "D3"), RATES, runs, length)
    slower = setup.Contender(SLOWER, setup.racs(a=1e-6))
    decays = _benchmark(lab, [slower], RATES, runs, length)
    longer = _benchmark(lab, [setup.RACS, slower], RATES, runs, {**length, "link_delay": LONGER})
    shifted = decays[SLOWER][-1]
    rcp = sets[setup.RCP][-1]
    return {
        **_numbers(sets, RATES),
        "bins": {
            label: [_mean(sets[label][-1], f"bin:{i}") for i in range(len(BINS))]
            for label in (setup.RACS, setup.RCP)
        },
        "shifted": [_mean(shifted, f"bin:{i}") / _mean(rcp, f"bin:{i}") for i in range(len(BINS))],
        "slower decay": setup.measured(decays, "fct_mean_s", 1e3)[SLOWER],
        "longer links": setup.measured(longer, "fct_mean_s", 1e3),
        "distribution": {
            label: [100 * sets[label][-1].mean(f"within:{j}") for j in range(len(TIMES))]
            for label in (setup.RACS, setup.RCP)
        },
        "theory": bounds(RATES),
    }


def _mean(runs: RunSet, key: str) -> float:
    values = np.asarray(runs.values(key))
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")


def bounds(rates: Sequence[float]) -> dict[str, list[float]]:
    """Mean completion times in ms: the least possible (SRPT), and ideal sharing with two long flows (PS).

    Two round trips are added: the handshake, and the way of the last byte and its acknowledgement. K endless
    flows beside the others make every completion time under processor sharing K + 1 times as long.
    """
    # Headers on the wire: 1500 B for every 1460 B.
    sizes = schedulers.pareto(25e3 * 1500 / 1460, 1.2)
    floor = 2e3 * setup.CHOSEN["simulation.rtt_s"]
    load = {"capacity": setup.LINK_BPS / 8}
    return {
        "PS with both long flows + 2 RTT": [
            3e3 * float(schedulers.ps_mean(sizes, arrivals=float(a), **load)) + floor for a in rates
        ],
        "SRPT + 2 RTT": [
            1e3 * float(schedulers.srpt_mean(sizes, arrivals=float(a), **load)) + floor for a in rates
        ],
    }


def probe(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    """One point of the search: the lowest and the highest rate, one short run of each scheme."""
    length = {"warmup": "500ms", "duration": "2500ms"}
    sets = _benchmark(lab, (*setup.CHAPTER_3, setup.RACS, setup.RCP), _FEW, 1, length, setup.at(settings))
    return _numbers(sets, _FEW)
