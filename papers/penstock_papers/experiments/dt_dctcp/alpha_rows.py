"""Section VI.A: the mean of alpha, the senders' estimate of the share of marked packets (Fig 12)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from penstock import figures
from penstock.models.fluid import operating_mark
from penstock_papers.experiments.common import centre, differences, half, measured
from penstock_papers.experiments.dt_dctcp import setup
from penstock_papers.experiments.dt_dctcp.queue_rows import MATTERS
from penstock_papers.ledger import Cause, Estimate, Lab, Measurement, Row

# Other rules about other queues: does alpha depend on the rule at all?
RULES = (setup.DIRECTION, "hysteresis:k1=45pkt,k2=75pkt", "hysteresis:k1=50pkt,k2=30pkt")
COUNTS = (20, 40)
STATED_GAP = 0.1


def _alpha(lab: Lab, sim: Mapping[str, Any], flows: tuple[int, ...], runs: int) -> dict[str, Any]:
    one, two = (
        lab.sweep([setup.long_flows(n, rule, sim) for n in flows], runs=runs)
        for rule in (setup.single(sim), setup.double(sim))
    )
    gaps = np.array([a.values("alpha_mean") - b.values("alpha_mean") for a, b in zip(one, two, strict=True)])
    return {
        "alpha": {"DCTCP": measured(one, "alpha_mean"), "DT-DCTCP": measured(two, "alpha_mean")},
        "queue": {
            "DCTCP": measured(one, "queue_mean_packets"),
            "DT-DCTCP": measured(two, "queue_mean_packets"),
        },
        "DCTCP less DT-DCTCP": differences(one, two, "alpha_mean"),
        "mean gap": Estimate.of(gaps.mean(axis=0)),
    }


def _measure(lab: Lab) -> Measurement:
    flows = lab.pick(setup.FLOWS, setup.QUICK_FLOWS)
    found = _alpha(lab, setup.SIM, flows, setup.replications(lab))
    others = []
    for n in COUNTS:
        here = [lab.runs(*setup.long_flows(n, rule)) for rule in RULES]
        pairs = [(r.mean("alpha_mean"), r.mean("queue_mean_packets")) for r in here]
        i = flows.index(n)
        pairs += [(found["alpha"][name][i].mean, found["queue"][name][i].mean) for name in found["alpha"]]
        alpha, queue = np.array(pairs).T
        window = np.asarray(setup.link(n).window_at(queue))
        others.append({"alpha": alpha, "beyond the window": alpha - operating_mark(window, "unmarked")})
    return {**found, "N": list(flows), "five rules": others}


def _draw(m: Measurement, lab: Lab) -> list[Path]:
    n = np.array(m["N"])
    with figures.style():
        figure, axes = figures.new(1, 2, width=11.0, height=4.2)
        for i, (name, alpha) in enumerate(m["alpha"].items()):
            figures.band(axes[0], n, centre(alpha), half(alpha), name, i)
            window = np.asarray(setup.link(n).window_at(centre(m["queue"][name])))
            axes[1].plot(window, centre(alpha), label=name, **{**figures.look(i), "linestyle": "none"})
        w = np.geomspace(1.4, 12, 100)
        axes[1].plot(w, operating_mark(w, "unmarked"), label="$1 - p = W p^2/2$", **figures.line(2))
        axes[1].plot(w, np.minimum(operating_mark(w), 1), label="$\\sqrt{2/W}$, printed", **figures.line(3))
        axes[0].set(xlabel="Number of flows N", ylabel="Mean alpha", title="Fig 12", ylim=(0, 1))
        axes[1].set(xlabel="Window $W_0$ (packets)", ylabel="Mean alpha", title="Alpha follows the window")
        for ax in axes:
            ax.legend(fontsize=8)
    return [lab.save(figure, "dt-dctcp-fig12-alpha")]


_FEW = (10, 20, 30, 40, 60, 80, 100)


def _spreads(m: Measurement) -> list[tuple[float, float]]:
    """How far five rules' alphas are apart, and how far they are once the window's share is taken off."""
    return [
        (float(np.ptp(found["alpha"])), float(np.ptp(found["beyond the window"])))
        for found in m["five rules"]
    ]


def _balanced(m: Measurement) -> float:
    """DCTCP's alpha less DT-DCTCP's by the balance alone, at the measured queues, mean over N."""
    one, two = (
        np.array(
            [
                operating_mark(float(setup.link(n).window_at(q.mean)), "unmarked")
                for n, q in zip(m["N"], m["queue"][name], strict=True)
            ]
        )
        for name in ("DCTCP", "DT-DCTCP")
    )
    return float((one - two).mean())


def lower_in_words(m: Measurement) -> str:
    """At how many N DT-DCTCP's alpha is lower, and by how much."""
    gaps = [gap.mean for gap in m["DCTCP less DT-DCTCP"]]
    return (
        f"lower at {sum(gap > 0 for gap in gaps)} of {len(gaps)} N; DCTCP less DT-DCTCP from "
        f"{min(gaps):+.3f} to {max(gaps):+.3f}"
    )


D_12 = Row(
    "D-12",
    "Mean alpha (Fig 12)",
    measure=_measure,
    draw=_draw,
    causes=(
        Cause(
            "growth on unmarked packets balances cuts on marked ones at a share that the window W_0 = (dC + "
            "q)/N sets, not the rule: alphas of five rules differ by their windows and by little beyond",
            # Less than half of what the rule is said to change.
            holds=lambda m: all(rest < STATED_GAP / 2 for _, rest in _spreads(m)),
            evidence=lambda m: ", ".join(
                f"at N = {n} by {whole:.3f}, and {rest:.3f} beyond the windows' share"
                for n, (whole, rest) in zip(COUNTS, _spreads(m), strict=True)
            ),
            of=("lower", "by-a-tenth"),
        ),
        Cause(
            "the balance of growth and cuts, put at the windows W_0 = (dC + q)/N of the measured queues, "
            "has no lower alpha for DT-DCTCP: its queue is not the longer one",
            # A tenth of what is stated.
            holds=lambda m: _balanced(m) < STATED_GAP / 10,
            evidence=lambda m: (
                f"DCTCP less DT-DCTCP, mean over N: {_balanced(m):+.3f} by the balance, "
                f"{m['mean gap'].mean:+.3f} measured; mean queues: "
                + ", ".join(f"{name} {np.mean(centre(q)):.1f} packets" for name, q in m["queue"].items())
            ),
            of=("lower", "by-a-tenth"),
        ),
    ),
    matters=MATTERS,
    probe=lambda lab, settings: _alpha(lab, setup.at(setup.SIM, "simulation", settings), _FEW, runs=1),
)
