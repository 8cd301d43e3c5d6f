"""Section 3.1: the four ways to find the control set, on a network where they differ."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from penstock import figures
from penstock.runs import Run, RunSet
from penstock_papers.experiments.cbc.setup import CHOSEN, MATTERS, REQUESTS, TABLES, cbc
from penstock_papers.experiments.cbc.states import Array, series
from penstock_papers.experiments.common import ratio_of_means
from penstock_papers.ledger import Cause, Estimate, Lab, Measurement, Row

PERFORMANCE, DESTINATION, ROUTER = "performance", "destination", "destination router"
ALL_MARKED, PAIRS = "ECN, all marked", "ECN, one per pair"
RULES: dict[str, dict[str, Any]] = {
    PERFORMANCE: {"control": "cbc:set=performance"},
    DESTINATION: {"control": "cbc:set=destination"},
    ROUTER: {"control": "cbc:set=router"},
    ALL_MARKED: {"control": "cbc:set=ecn", "protocol": "ecn-label:way=all"},
    PAIRS: {"control": "cbc:set=ecn", "protocol": "ecn-label:way=pairs"},
}
#: Phases of the scenario, onset of each left out: which connections share a congested link.
PHASES: dict[str, tuple[float, float, tuple[tuple[int, ...], ...]]] = {
    "none": (5, 20, ()),
    "A": (22, 40, ((0, 1, 2, 3),)),
    "A and B": (42, 60, ((0, 1, 2, 3),)),
    "B": (64, 80, ()),
}


def sets(run: Run) -> Mapping[str, float]:
    """Pairs of connections controlled together, per phase: `found:P` = share of the pairs that share a
    congested link, `false:P` = mean number of pairs controlled together that do not.
    """
    member = np.stack([_at_samples(run, i, "set") for i in range(5)])
    times = np.round(np.arange(1, member.shape[1] + 1) * 0.1, 6)
    out: dict[str, float] = {}
    for name, (start, stop, together) in PHASES.items():
        now = (times > start) & (times <= stop)
        true = {(i, j) for group in together for i in group for j in group if i < j}
        found, false = 0.0, 0.0
        for i in range(5):
            for j in range(i + 1, 5):
                joined = float(np.mean(member[i, now] == member[j, now]))  # NaN (no set) equals nothing
                if (i, j) in true:
                    found += joined / len(true)
                else:
                    false += joined
        out[f"found:{name}"] = found if true else float("nan")
        out[f"false:{name}"] = false
    return out


def _at_samples(run: Run, flow: int, metric: str) -> Array:
    """A metric on the common grid of 0.1 s, NaN where it was not sampled."""
    times, values = series(run, flow, metric)
    out = np.full(int(round(float(run.scenario.get("duration_s", 90.0)) * 10)), np.nan)
    index = np.round(times * 10).astype(int) - 1
    out[index[index < out.size]] = values[index < out.size]
    return out


def _probe(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    """The same at one point of the search: one run of each rule."""
    control = {**CHOSEN, **settings}
    names = {name: given["control"].removeprefix("cbc:set=") for name, given in RULES.items()}
    rules = {name: given | {"control": cbc(control, set=names[name])} for name, given in RULES.items()}
    return _found(lab, rules, 1)


def _found(lab: Lab, rules: Mapping[str, Mapping[str, Any]], runs: int) -> dict[str, Any]:
    points = [("control-sets", {**REQUESTS, **given}) for given in rules.values()]
    found = lab.sweep(points, runs=runs, keep=TABLES, derive=sets)
    by_rule: dict[str, RunSet] = dict(zip(RULES, found, strict=True))
    keys = ("found:A", "found:A and B", "false:A", "false:A and B", "false:none")
    return {
        **{key: {name: Estimate.of(r.values(key)) for name, r in by_rule.items()} for key in keys},
        "router over destination": ratio_of_means(
            by_rule[ROUTER].values("found:A and B"), by_rule[DESTINATION].values("found:A and B")
        ),
    }


def _draw(m: Measurement, lab: Lab) -> list[Path]:
    paths = []
    for key, title, label in (
        ("found", "Right pairs controlled together", "share of the 6 pairs that share link A"),
        ("false", "Wrong pairs controlled together", "pairs that share no congested link"),
    ):
        with figures.style():
            figure, (ax,) = figures.new()
            for i, name in enumerate(RULES):
                values = [m[f"{key}:{phase}"][name] for phase in ("A", "A and B")]
                ax.bar(
                    np.arange(2) + (i - 2) * 0.15,
                    [e.mean for e in values],
                    0.14,
                    yerr=[(e.high - e.low) / 2 for e in values],
                    label=name,
                    color=figures.PALETTE[i],
                    hatch=("", "//", "..", "xx", "--")[i],
                    edgecolor="white",
                    capsize=2,
                )
            ax.set(xticks=[0, 1], xticklabels=["link A congested", "A and B congested"], title=title)
            ax.set(ylabel=label, ylim=(0, 1.05) if key == "found" else (0, None))
            ax.legend(ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.12), fontsize=8)
            paths.append(lab.save(figure, f"K-sets-{key}"))
    return paths


def destination_clean(m: Measurement) -> list[Any]:
    """Pairs that are found by their destination and do not share a congested link."""
    return [m[key][DESTINATION] for key in ("false:A", "false:A and B")]


K_SETS = Row(
    "K-sets",
    "Section 3.1: four ways to find the control set",
    measure=lambda lab: _found(lab, RULES, lab.replications(20, 3)),
    draw=_draw,
    causes=(
        Cause(
            "sets also arise from the connections' own bursts, before any file",
            holds=lambda m: max(e.mean for e in m["false:none"].values()) > 0.05,
            evidence=lambda m: (
                "wrong pairs before any file: "
                + ", ".join(f"{name} {e.mean:.2f}" for name, e in m["false:none"].items())
            ),
            of=("ecn-clean", "destination-clean"),
        ),
    ),
    matters=tuple(name for name in MATTERS if name.startswith("control.")),
    probe=_probe,
)
