"""What pause frames alone do to fairness and to victims, and what DCQCN changes (Fig 3, 4, 8, 9)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from penstock import figures
from penstock.network import Network
from penstock.workloads import Flows
from penstock_papers.experiments.common import jackknife
from penstock_papers.experiments.lossless import chosen, delivered, point
from penstock_papers.ledger import Cause, Estimate, Lab, Measurement, Row

PAPER = "dcqcn"
CHOSEN = chosen(__file__)
LAWS = {"PFC alone": "roce", "DCQCN": "dcqcn"}
MEASURED_S = 0.02
# Runs at a point of the search for a victim: Student's interval of two decides next to nothing.
PROBED = 4


def testbed(at: Mapping[str, Any]) -> Network:
    """Fig 2: leaf switches t0 to t3 in two pods, two switches l in each pod, two spines; all links alike."""
    rate, delay = at["network.rate"], at["network.delay"]
    network = Network(name="testbed")
    network.switch("t[0-3]", "l[0-3]", "p[0-1]")
    for pod in (0, 2):
        network.link([f"t{pod}", f"t{pod + 1}"], [f"l{pod}", f"l{pod + 1}"], rate, delay)
    network.link("l[0-3]", "p[0-1]", rate, delay)
    for leaf in range(4):
        hosts = f"h{leaf}[0-4]"
        network.host(hosts)
        network.link(hosts, f"t{leaf}", rate, delay)
    return network


def _points(at: Mapping[str, Any], flows: list[Flows]) -> list[Any]:
    common = {"buffer": f"shared:alpha=1,size={at['network.buffer']}", "warmup": "20ms", "duration": "40ms"}
    return [point(testbed(at), flows, protocol=law, **common) for law in LAWS.values()]


def rates(run: Any) -> dict[str, float]:
    """Payload rate of every flow, bit/s."""
    return {f"rate_{i}": 8 * bytes_ / MEASURED_S for i, bytes_ in enumerate(delivered(run))}


def _shares(lab: Lab, at: Mapping[str, Any], runs: int) -> dict[str, Any]:
    # H1 to H3 come from the other pod by two switches; H4 is under the receiver's leaf.
    flows = [Flows(["h00", "h01", "h02", "h30"], "h31", spread="100us")]
    found = {}
    for name, sets in zip(
        LAWS, lab.sweep(_points(at, flows), runs=runs, keep=("flows",), derive=rates), strict=True
    ):
        each = np.array([sets.values(f"rate_{i}") for i in range(4)]) / 1e9
        found[name] = {
            "rates": [Estimate.of(r) for r in each],
            "near over far": Estimate.of(each[3] / each[:3].mean(axis=0)),
            "jain": Estimate.of(each.sum(axis=0) ** 2 / (4 * (each**2).sum(axis=0))),
            "sum": Estimate.of(each.sum(axis=0)),
        }
    return found


def _draw_fairness(m: Measurement, lab: Lab) -> list[Path]:
    with figures.style():
        figure, (ax,) = figures.new()
        for i, name in enumerate(LAWS):
            x = np.arange(4) + 0.3 * i - 0.15
            values = m[name]["rates"]
            ax.bar(x, [e.mean for e in values], 0.28, color=figures.PALETTE[i], label=name)
            half = [(e.high - e.low) / 2 for e in values]
            ax.errorbar(x, [e.mean for e in values], half, fmt="none", ecolor=figures.INK, capsize=2)
        ax.set(xticks=range(4), ylabel="payload (Gb/s)", title="Fig 3 and 8: four senders, one receiver")
        ax.set_xticklabels(["H1", "H2", "H3", "H4 (near)"])
        ax.legend()
    return [lab.save(figure, "dcqcn-fig8")]


DCQCN_8 = Row(
    "DCQCN-8",
    "Fairness among four senders, three of another pod (Fig 3, Fig 8)",
    measure=lambda lab: _shares(lab, CHOSEN, lab.replications(16, 4)),
    draw=_draw_fairness,
    matters=("network.delay",),
    probe=lambda lab, settings: _shares(lab, {**CHOSEN, **settings}, 2),
)

THIRD = (0, 1, 2)
# Where the senders under T3 send: to the receiver of the others, or to its neighbour, whose link is idle.
WITH_THEM, ELSEWHERE = "h31", "h32"


def _crossing(more: int, to: str = WITH_THEM) -> list[Flows]:
    """Four senders under T1 to one receiver, the victim beside them, `more` senders under T3. Workloads of
    their own, in this order: those that are there anyway have the same ways and begin at the same times.
    """
    added = [Flows([f"h2{i}" for i in range(more)], to, spread="100us")] if more else []
    return [Flows([f"h0{i}" for i in range(4)], WITH_THEM, spread="100us"), Flows("h04", "h10"), *added]


def _victim(lab: Lab, at: Mapping[str, Any], runs: int, points: Mapping[str, list[Flows]]) -> dict[str, Any]:
    """Rates of the victim and of the four at each point, by law, and ratios of the victim's means: of two
    that are drawn, a mean of ratios is above one where nothing differs.
    """
    laid = {
        (name, point): one
        for point, flows in points.items()
        for name, one in zip(LAWS, _points(at, flows), strict=True)
        # Elsewhere is a control of DCQCN's claims alone.
        if point != ELSEWHERE or name == "DCQCN"
    }
    sets = lab.sweep(list(laid.values()), runs=runs, keep=("flows",), derive=rates)
    found = dict(zip(laid, sets, strict=True))
    # In order of name the four are flows 0 to 3, and the victim is the next.
    victim = {key: s.values("rate_4") / 1e9 for key, s in found.items()}
    four = {key: sum(s.values(f"rate_{i}") for i in range(4)) / 1e9 for key, s in found.items()}

    def ratio(a: Any, b: Any) -> Estimate:
        return jackknife(lambda chosen: {"": float(a[chosen].mean() / b[chosen].mean())}, runs)[""]

    none, one, two = map(str, THIRD)
    measured: dict[str, Any] = {
        "rates": {name: [Estimate.of(victim[name, str(n)]) for n in THIRD] for name in LAWS},
        "victim falls": ratio(victim["PFC alone", two], victim["PFC alone", none]),
        "victim kept": [ratio(victim["DCQCN", n], victim["DCQCN", none]) for n in (one, two)],
        "gain": ratio(victim["DCQCN", two], victim["PFC alone", two]),
        "four kept": ratio(four["DCQCN", two], four["DCQCN", none]),
    }
    if ELSEWHERE in points:
        for key, rate in (("victim, elsewhere", victim), ("four, elsewhere", four)):
            measured[key] = ratio(rate["DCQCN", ELSEWHERE], rate["DCQCN", none])
    return measured


def _measure_victim(lab: Lab) -> Measurement:
    points = {str(n): _crossing(n) for n in THIRD} | {ELSEWHERE: _crossing(2, ELSEWHERE)}
    return _victim(lab, CHOSEN, lab.replications(16, 4), points)


def _probe_victim(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    return _victim(lab, {**CHOSEN, **settings}, PROBED, {str(n): _crossing(n) for n in THIRD})


def _left_more(m: Measurement) -> bool:
    """The victim gains where the added senders take from the four, and neither changes where they do not."""
    gained = m["victim kept"][-1].mean - 1
    return bool(
        gained > 0.1
        and m["four kept"].mean < 0.9
        and all(abs(m[f"{who}, elsewhere"].mean - 1) <= 0.5 * gained for who in ("victim", "four"))
    )


def _draw_victim(m: Measurement, lab: Lab) -> list[Path]:
    with figures.style():
        figure, (ax,) = figures.new()
        for i, name in enumerate(LAWS):
            values = m["rates"][name]
            half = [(e.high - e.low) / 2 for e in values]
            ax.errorbar(THIRD, [e.mean for e in values], half, label=name, capsize=2, **figures.look(i))
        ax.set(xticks=THIRD, xlabel="senders under T3", ylabel="victim's payload (Gb/s)", ylim=(0, None))
        ax.set_title("Fig 4 and 9: a flow that shares no full link")
        ax.legend()
    return [lab.save(figure, "dcqcn-fig9")]


DCQCN_9 = Row(
    "DCQCN-9",
    "A victim of pause frames (Fig 4, Fig 9)",
    measure=_measure_victim,
    draw=_draw_victim,
    causes=(
        Cause(
            "it gets more, not less: the added senders take from the four their share of the full link, and "
            "the four leave the victim more of the links that they share with it; where the added ones send "
            "to another host both keep what they had",
            holds=_left_more,
            evidence=lambda m: "; ".join(
                f"two more, {to}: victim {victim.show()} and the four {four.show()} times what they had"
                for to, victim, four in (
                    ("to the same host", m["victim kept"][-1], m["four kept"]),
                    ("to another", m["victim, elsewhere"], m["four, elsewhere"]),
                )
            ),
            of=("kept",),
        ),
    ),
    # What is undecided with twice the runs is so with eight times as many: 1.12 (1.07 to 1.17) with 128.
    budget=2,
    matters=("network.delay",),
    probe=_probe_victim,
)
