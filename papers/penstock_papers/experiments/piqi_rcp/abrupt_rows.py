"""Section VI: an abrupt join (Fig 18), and mice beside a long flow (Fig 19)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl

from penstock.runs import RunSet
from penstock_papers.experiments.common import over
from penstock_papers.experiments.piqi_rcp import linux, setup
from penstock_papers.ledger import CONFIRMED, Cause, Estimate, Lab, Measurement, Row, claim_criterion

# ---- P-18 -------------------------------------------------------------------------------------------------

STATED_MOST, STATED_LEAST, STATED_LOW = 300.0, 10.0, 7.0
SAMPLES = (0.1, 0.2, 0.5, 1.0)
# Parameters that the paper leaves open, one changed at a time.
_VARIANTS: dict[str, dict[str, Any]] = {
    "floor 1 packet per round trip": {"floor": 1},
    "floor 0.1 packets per round trip": {"floor": 0.1},
    "floor 0.001": {"floor": 0.001},
    "slow falls of the mean round trip": {"rtt_average": "slow-fall"},
    "mean round trip over bytes": {"mean": "bytes"},
}


def _measure_abrupt(lab: Lab) -> Measurement:
    end = linux.crowd_end(lab)
    nimble_run, rcp_run, ours, *others = linux.ten_join(
        lab,
        (
            setup.piqi_linux(**linux.NIMBLE),
            *linux.pair(),
            *(setup.rcp_linux(**v) for v in _VARIANTS.values()),
        ),
        end=end,
    )
    floors = {setup.CHOSEN["routers.floor"]: rcp_run}
    floors |= {v["floor"]: r for v, r in zip(_VARIANTS.values(), others, strict=True) if "floor" in v}
    return {
        **linux.crowd_numbers((rcp_run, ours), linux.JOIN, linux.LEAVE, linux.SAMPLE),
        "by floor": {
            f"{floor:g}": linux.crowd_numbers((r, ours), linux.JOIN, linux.LEAVE, linux.SAMPLE)["least"][
                "RCP"
            ]
            for floor, r in sorted(floors.items())
        },
        "rises by sample": {
            f"{s:g} s": linux.crowd_numbers((rcp_run, ours), linux.JOIN, linux.LEAVE, s)["most"]["RCP"]
            for s in SAMPLES
        },
        "variants": {
            name: [
                linux.crowd_numbers((r, ours), linux.JOIN, linux.LEAVE, linux.SAMPLE)[key]["RCP"]
                for key in ("least", "low for")
            ]
            for name, r in zip(_VARIANTS, others, strict=True)
        },
        "most of nimbler senders": linux.crowd_numbers(
            (rcp_run, nimble_run), linux.JOIN, linux.LEAVE, linux.SAMPLE
        )["most"]["PIQI-RCP"],
        "arrivals": {
            name: setup.thinned(t, y / setup.MBPS, 600)
            for name, (t, y) in zip(
                linux.NAMES, (setup.sampled(r, "arrival_rate_bps") for r in (rcp_run, ours)), strict=True
            )
        },
    }


def _probe_abrupt(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    chosen = setup.at(settings)
    crowd = linux.ten_join(lab, linux.pair(chosen), chosen, 65.0)
    return linux.crowd_numbers(crowd, linux.JOIN, linux.LEAVE, setup.seconds(chosen["section6.sample"]))


def _draw_abrupt(m: Measurement, lab: Lab) -> list[Path]:
    title = "Ten flows join at 30 s, leave at 113 s"
    stated = {"RCP's largest": STATED_MOST, "RCP's least": STATED_LEAST}
    return [setup.over_time(lab, "P-18", m["arrivals"], title, "arrival rate (Mb/s)", stated, ylim=(0, 400))]


_LITTLE_MORE = claim_criterion("P-18/piqi-overshoot")

P_18 = Row(
    "P-18",
    "Abrupt join (Fig 18)",
    measure=_measure_abrupt,
    draw=_draw_abrupt,
    causes=(
        Cause(
            "how long RCP stays low depends on the smallest rate of the router and on how it smooths round "
            "trips, which the paper leaves open",
            holds=lambda m: (
                max(low for _, low in m["variants"].values())
                >= 2 * min(low for _, low in m["variants"].values())
            ),
            evidence=lambda m: "; ".join(f"{name}: {low:.1f} s" for name, (_, low) in m["variants"].items()),
            of=("seconds",),
        ),
        Cause(
            "how deep RCP falls depends on the smallest rate of the router and on how it smooths round "
            "trips, which the paper leaves open: with another choice it is as stated",
            holds=lambda m: any(
                STATED_LEAST / 2 <= least <= STATED_LEAST * 2 for least, _ in m["variants"].values()
            ),
            evidence=lambda m: "; ".join(
                f"{name}: {least:.1f} Mb/s" for name, (least, _) in m["variants"].items()
            ),
            of=("falls",),
        ),
        Cause(
            "RCP's router falls to its smallest rate, so that the bottom is what the paper leaves open: the "
            "larger the floor, the less deep the fall",
            holds=lambda m: (
                all(a < b for a, b in pairwise(m["by floor"].values()))
                and max(m["by floor"].values()) >= 10 * min(m["by floor"].values())
            ),
            evidence=lambda m: "; ".join(
                f"a floor of {floor} packets per round trip: {least:.3g} Mb/s"
                for floor, least in m["by floor"].items()
            ),
            of=("falls",),
        ),
        Cause(
            "it depends on what the plotted rates are averages over, which is not given: over some time "
            "from the routers' interval to a second it is as stated",
            holds=lambda m: (
                min(m["rises by sample"].values()) <= STATED_MOST <= max(m["rises by sample"].values())
            ),
            evidence=lambda m: ", ".join(f"{x:.0f} Mb/s over {s}" for s, x in m["rises by sample"].items()),
            of=("rises",),
        ),
        Cause(
            "with the stated tau2 senders follow a tenth of each change at once and the rest slowly: the "
            "overshoot of senders that follow most of it at once is as stated",
            holds=lambda m: _LITTLE_MORE.judge(m["most of nimbler senders"]) == CONFIRMED,
            evidence=lambda m: (
                f"at most {m['most of nimbler senders']:.0f} Mb/s with tau1 = {linux.NIMBLE['tau1']}, tau2 = "
                f"{linux.NIMBLE['tau2']}, {m['most']['PIQI-RCP']:.0f} Mb/s with the stated ones"
            ),
            of=("piqi-overshoot",),
        ),
    ),
    matters=linux.MATTERS_CROWD,
    probe=_probe_abrupt,
)

# ---- P-19 -------------------------------------------------------------------------------------------------

# Payload of a packet of 1000 B.
PAYLOAD = 944


# Seconds that a plotted rate may be an average over.
AVERAGES = (0.01, 0.1, 1.0)


def _mice(
    lab: Lab,
    chosen: Mapping[str, Any],
    since: float,
    end: float,
    runs: int,
    protocols: Sequence[str] = (),
    keep: Sequence[str] = ("series",),
) -> list[RunSet]:
    settings = {**linux.mice_settings("1Gbps", since, end, 100), **linux.path(chosen)}
    points = [("poisson", {**settings, "protocol": p}) for p in protocols or linux.pair(chosen)]
    return lab.sweep(points, runs=runs, keep=keep)


def _extremes(runs: RunSet, since: float, over_s: float) -> tuple[list[float], list[float]]:
    """Excess and shortfall of each run, as `mice_numbers` has them, of means over so many seconds."""
    up, down = [], []
    for run in range(len(runs.runs)):
        t, y = setup.sampled(runs, "arrival_rate_bps", run=run)
        means = linux.moving(y, max(1, round(over_s / (t[1] - t[0]))))[t > since + over_s] / linux.GIGABIT - 1
        up.append(float(means.max()))
        down.append(-float(means.min()))
    return up, down


def _largest(runs: RunSet) -> list[float]:
    """Packets of the largest of the mice of each run; the long flow has no size."""
    flows = (runs.tables(run)["flows"] for run in range(len(runs.runs)))
    return [float(f.filter(pl.col("workload") == 1)["size_bytes"].to_numpy().max()) / PAYLOAD for f in flows]


def _measure_mice(lab: Lab) -> Measurement:
    since, end = lab.pick((30.0, 120.0), (10.0, 30.0), (2.0, 4.0))
    n = lab.replications(5, 2)
    runs = _mice(lab, setup.CHOSEN, since, end, n, keep=("series", "flows"))
    blind = _mice(lab, setup.CHOSEN, since, end, n, [setup.rcp_linux(beta=0)])[0]
    averaged = {f"{s:g} s": _extremes(runs[0], since, s) for s in AVERAGES}
    return {
        **linux.mice_numbers(runs, since, linux.GIGABIT),
        "by average": {s: [Estimate.of(up), Estimate.of(down)] for s, (up, down) in averaged.items()},
        "by largest mouse": sorted(zip(_largest(runs[0]), _extremes(runs[0], since, 0.0)[1], strict=True)),
        "shortfall without the queue": Estimate.of(_extremes(blind, since, 0.0)[1]),
        "arrivals": {
            name: setup.thinned(t, y / setup.MBPS, 2000)
            for name, (t, y) in zip(
                linux.NAMES, (setup.sampled(r, "arrival_rate_bps") for r in runs), strict=True
            )
        },
    }


def _probe_mice(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    return linux.mice_numbers(_mice(lab, setup.at(settings), 5.0, 20.0, 1), 5.0, linux.GIGABIT)


def _draw_mice(m: Measurement, lab: Lab) -> list[Path]:
    return [setup.over_time(lab, "P-19", m["arrivals"], "Mice beside a long flow", "arrival rate (Mb/s)")]


STATED_OVER, STATED_UNDER = 0.4, 0.25
_OVER, _UNDER = claim_criterion("P-19/overshoots"), claim_criterion("P-19/undershoots")


def _halves(m: Measurement) -> list[tuple[tuple[float, float], Estimate]]:
    """The runs in two halves by their largest mouse: its least and most packets, and the shortfall."""
    found: Sequence[tuple[float, float]] = m["by largest mouse"]
    half = (len(found) + 1) // 2
    return [
        ((part[0][0], part[-1][0]), Estimate.of([down for _, down in part]))
        for part in (found[:half], found[half:] or found[-1:])
    ]


def use_over(m: Measurement) -> Any:
    """Utilisation with PIQI-RCP over that with RCP."""
    return over(m["use"]["PIQI-RCP"], m["use"]["RCP"])


P_19 = Row(
    "P-19",
    "Mice beside a long flow (Fig 19)",
    measure=_measure_mice,
    draw=_draw_mice,
    causes=(
        Cause(
            "it depends on what the plotted rates are averages over, which is not given: over some time "
            "from the routers' interval to a second both extremes are as stated",
            holds=lambda m: any(
                _OVER.judge(up) == _UNDER.judge(down) == CONFIRMED for up, down in m["by average"].values()
            ),
            evidence=lambda m: "; ".join(
                f"over {s}: {up} above, {down} below the capacity"
                for s, (up, down) in m["by average"].items()
            ),
            of=("overshoots", "undershoots"),
        ),
        Cause(
            "the deepest fall is that of the largest of the mice, which differs from run to run: the half of "
            "the runs whose largest mouse is smaller has it as stated",
            holds=lambda m: _UNDER.judge(_halves(m)[0][1]) == CONFIRMED,
            evidence=lambda m: "; ".join(
                f"largest mouse of {least:,.0f} to {most:,.0f} packets: {down}"
                for (least, most), down in _halves(m)
            ),
            of=("undershoots",),
        ),
    ),
    matters=linux.MATTERS,
    probe=_probe_mice,
)

ABRUPT_ROWS = [P_18, P_19]
