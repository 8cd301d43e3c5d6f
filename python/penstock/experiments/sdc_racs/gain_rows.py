"""Section 3.4.5: the gains of classes A and B over class C (Fig 3.2, 3.3)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock import figures
from penstock.experiments.sdc_racs.model import CLASSES, MATTERS, bits, mbps, packet_gains, shares
from penstock.experiments.sdc_racs.setup import ABOUT, CHOSEN, PAPER, at
from penstock.ledger import (
    Cause,
    Claim,
    Measurement,
    Row,
    at_most,
    every,
    monotone,
    ratio_at_least,
    within,
)

if TYPE_CHECKING:
    from penstock.ledger import Lab

STATED_MS = 30.0
# "Equal", "meet": what the arithmetic allows.
EQUAL = 0.01

# ---- M-3.2 ------------------------------------------------------------------------------------------------


def _gain_a(chosen: Mapping[str, Any]) -> dict[str, Any]:
    # At gain 1 all three classes use class C's throughput, as the text says; from 2 on Table 3.2 applies.
    equal = shares(1.0, 1.0, chosen)
    two, ten, hundred = (shares(g, chosen["model.gain_bc"], chosen) for g in (2.0, 10.0, 100.0))
    rates = {name: mbps(x.throughput, chosen) for name, x in (("ten", ten), ("hundred", hundred))}
    times = [float(x.fct[0]) * 1e3 for x in (equal, two, ten, hundred)]
    # Could any capacity or round-trip time make it true? Times scale with T / (P + sum alpha), P = C T.
    alphas = float(np.dot(chosen["model.flows"], hundred.alpha))
    pipe = chosen["model.capacity_bps"] * chosen["model.rtt_s"] / bits(chosen)
    gained = times[1] - times[3]
    return {
        "spread at gain 1": float(np.ptp(equal.throughput) / equal.throughput.mean()),
        "B at gain 100": float(rates["hundred"][1]),
        "C at gain 100": float(rates["hundred"][2]),
        "AFCT of A at gain 1, 2, 10, 100": times,
        "gained": gained,
        "second decade over first": (times[2] - times[3]) / (times[0] - times[2]),
        "kept from gain 10 to 100": [float(rates["hundred"][i] / rates["ten"][i]) for i in (1, 2)],
        "gained without a pipe": gained * (pipe + alphas) / alphas,
        "RTT that gains it": STATED_MS / gained * chosen["model.rtt_s"] * 1e3,
    }


def _measure_gain_a(lab: Lab) -> Measurement:
    gains = np.geomspace(1, 100, 60)
    table = shares(gains, CHOSEN["model.gain_bc"])
    wanted = lab.pick((2.0, 3.0, 5.0, 10.0, 20.0, 50.0), (2.0, 5.0, 10.0, 20.0), (2.0,))
    length = lab.pick(("4s", "2s"), ("1s", "500ms"), ("40ms", "20ms"))
    return {
        **_gain_a(CHOSEN),
        "B by alpha": {
            str(alpha): float(mbps(shares(100.0, 2.0, at({"model.alpha_ab": alpha})).throughput)[1])
            for alpha in (0.5, 0.75, 0.9, 0.99)
        },
        "gains": gains,
        "AFCT of A": table.fct[:, 0] * 1e3,
        "B and C": mbps(table.throughput[:, 1:]),
        "wanted": wanted,
        "packets": [packet_gains(lab, g, *length) for g in wanted],
    }


def _probe_gain_a(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    return _gain_a(at(settings))


def _draw_gain_a(m: Measurement, lab: Lab) -> list[Path]:
    gains, paths = np.array(m["gains"]), []
    with figures.style():
        fig, (ax,) = figures.new()
        ax.plot(gains, m["AFCT of A"], label="class A", **figures.line(0))
        ax.set(xscale="log", xlabel="gain of class A over class C", ylabel="AFCT of class A (ms)")
        ax.set(ylim=(0, None), title="Class A gain: completion time")
        paths.append(lab.save(fig, "M-3.2"))
        fig, (ax,) = figures.new()
        for i in (1, 2):
            rates = np.array(m["B and C"])[:, i - 1]
            ax.plot(gains, rates, label=f"class {CLASSES[i]}", **figures.line(i))
        ax.plot([100, 100], [5, 1], linestyle="none", marker="x", color=figures.INK, label="stated")
        ax.set(xscale="log", xlabel="gain of class A over class C", ylabel="throughput per flow (Mb/s)")
        ax.set(ylim=(0, None), title="Class A gain: what the others pay")
        ax.legend()
        paths.append(lab.save(fig, "M-3.2-throughput"))
        fig, (ax,) = figures.new()
        wanted, found = np.array(m["wanted"]), np.array(m["packets"])
        ax.plot(wanted, wanted, label="model, class A", **figures.line(0))
        flat = np.full(len(wanted), CHOSEN["model.gain_bc"])
        ax.plot(wanted, flat, label="model, class B", **figures.line(1))
        for i, name in enumerate("AB"):
            how: dict[str, Any] = {"color": figures.PALETTE[i], "marker": figures.MARKERS[i]}
            ax.plot(wanted, found[:, i], linestyle="none", label=f"packets, class {name}", **how)
        ax.set(xscale="log", yscale="log", xlabel="wanted gain of class A over class C")
        ax.set(ylabel="throughput over that of class C")
        ax.set_title("The model's gains beside packets (SDC, two flows of each class)")
        ax.legend()
        paths.append(lab.save(fig, "M-3.2-packets"))
    return paths


_FIG_32 = "section 3.4.5, Fig 3.2"
_COST = "at the cost of a significant throughput degradation for class B and C"

M_32 = Row(
    "M-3.2",
    PAPER,
    "Class A gain (Fig 3.2, Table 3.2)",
    claims=(
        Claim(
            "equal",
            "at gain 1 all classes get equal shares",
            "equal",
            "fair share",
            "spread at gain 1",
            at_most(EQUAL),
            quote="Gain setting of 1 shows that all classes get fair share of the bandwidth",
            where=_FIG_32,
            why="1 % of their mean",
            unit="of their mean",
        ),
        Claim(
            "b-pays",
            "at gain 100 a flow of class B has about 5 Mb/s",
            "number",
            "about 5 Mb/s",
            "B at gain 100",
            within(5, ABOUT),
            quote="the throughput of class B and C reduces to ≈ 5 Mbps and 1 Mbps, respectively",
            where=_FIG_32,
            why="about, read off a plot: 20 %",
            unit="Mb/s",
        ),
        Claim(
            "c-pays",
            "at gain 100 a flow of class C has about 1 Mb/s",
            "number",
            "about 1 Mb/s",
            "C at gain 100",
            within(1, ABOUT),
            quote="the throughput of class B and C reduces to ≈ 5 Mbps and 1 Mbps, respectively",
            where=_FIG_32,
            why="about, read off a plot: 20 %",
            unit="Mb/s",
        ),
        Claim(
            "thirty",
            "from gain 2 to 100 the AFCT of class A improves by about 30 ms",
            "number",
            "about 30 ms",
            "gained",
            within(STATED_MS, ABOUT),
            quote="as the gain of class A increases from 2 to 100, its AFCT improves by ≈ 30 ms",
            where=_FIG_32,
            why="about, read off a plot: 20 %",
            unit="ms",
        ),
        Claim(
            "diminishing",
            "beyond a gain of 10 the returns for class A diminish",
            "shape",
            "diminishing beyond 10",
            "second decade over first",
            at_most(0.5),
            quote="beyond a gain of 10, we get diminishing returns for class A",
            where=_FIG_32,
            why="the decade from 10 to 100 brings at most half of what that from 1 to 10 brought",
            say=lambda m: (
                "AFCT of A at gain 1, 2, 10, 100: "
                + ", ".join(f"{x:.1f}" for x in m["AFCT of A at gain 1, 2, 10, 100"])
                + " ms"
            ),
        ),
        Claim(
            "cost",
            "beyond a gain of 10 classes B and C lose significantly",
            "ratio",
            "significant degradation",
            "kept from gain 10 to 100",
            every(at_most(0.8)),
            quote=_COST,
            where=_FIG_32,
            why="significant: a fifth of what they had at gain 10",
            unit="of their throughput at gain 10",
        ),
    ),
    measure=_measure_gain_a,
    draw=_draw_gain_a,
    causes=(
        Cause(
            "completion times scale with T / (P + the sum of alpha): at the stated round-trip time no "
            "capacity brings "
            "so much, and the one that would leaves class B far less than stated",
            holds=lambda m: m["gained without a pipe"] < STATED_MS * (1 - ABOUT),
            evidence=lambda m: (
                f"at most {m['gained without a pipe']:.1f} ms with no pipe at all; a round-trip time of "
                f"{m['RTT that gains it']:.2f} ms would, with class B at "
                f"{m['B at gain 100'] * 1e3 * CHOSEN['model.rtt_s'] / m['RTT that gains it']:.1f} Mb/s"
            ),
            of=("thirty",),
        ),
        Cause(
            "it depends on the alpha that classes A and B share, which is open",
            holds=lambda m: any(abs(b / 5 - 1) <= ABOUT for b in m["B by alpha"].values()),
            evidence=lambda m: ", ".join(f"{b:.1f} Mb/s at {a}" for a, b in m["B by alpha"].items()),
            of=("b-pays",),
        ),
    ),
    matters=MATTERS,
    probe=_probe_gain_a,
)

# ---- M-3.3 ------------------------------------------------------------------------------------------------

_GAINS_B = (1.0, 2.0, 5.0, 10.0)


def _gain_b(chosen: Mapping[str, Any]) -> dict[str, Any]:
    out = shares(chosen["model.gain_ac"], np.array(_GAINS_B), chosen)
    rate = mbps(out.throughput, chosen)
    return {
        "rates": rate,
        "A": rate[:, 0],
        "B": rate[:, 1],
        "AFCT of B": out.fct[:, 1] * 1e3,
        "ends": [float(out.fct[0, 1]), float(out.fct[-1, 1])],
        "A over B at the end": float(rate[-1, 0] / rate[-1, 1]),
        "A over B": [float(x) for x in rate[:, 0] / rate[:, 1]],
    }


def _measure_gain_b(lab: Lab) -> Measurement:
    return _gain_b(CHOSEN)


def _probe_gain_b(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    return _gain_b(at(settings))


def _draw_gain_b(m: Measurement, lab: Lab) -> list[Path]:
    paths = []
    with figures.style():
        fig, (ax,) = figures.new()
        ax.plot(_GAINS_B, m["AFCT of B"], label="class B", **figures.look(1))
        ax.set(xlabel="gain of class B over class C", ylabel="AFCT of class B (ms)", ylim=(0, None))
        ax.set_title("Class B gain: completion time")
        paths.append(lab.save(fig, "M-3.3"))
        fig, (ax,) = figures.new()
        for i, name in enumerate(CLASSES):
            ax.plot(_GAINS_B, np.array(m["rates"])[:, i], label=f"class {name}", **figures.look(i))
        ax.set(xlabel="gain of class B over class C", ylabel="throughput per flow (Mb/s)", ylim=(0, None))
        ax.set_title("Class B gain: throughput")
        ax.legend()
        paths.append(lab.save(fig, "M-3.3-throughput"))
    return paths


_FIG_33 = "section 3.4.5, Fig 3.3"

M_33 = Row(
    "M-3.3",
    PAPER,
    "Class B gain (Fig 3.3, Table 3.3)",
    claims=(
        Claim(
            "faster",
            "the AFCT of class B improves significantly with its gain",
            "ratio",
            "improves significantly",
            "ends",
            ratio_at_least(2),
            quote="as the gain of class B increases, its AFCT improves significantly",
            where=_FIG_33,
            why="significantly: to at most a half from gain 1 to 10",
            say=lambda m: f"{m['ends'][0] * 1e3:.0f} ms at gain 1, {m['ends'][1] * 1e3:.0f} ms at gain 10",
        ),
        Claim(
            "a-loses",
            "class A loses throughput as class B's gain grows",
            "shape",
            "falls",
            "A",
            monotone(rising=False),
            quote="throughput of class B increases at the cost of drop in gain of class A",
            where=_FIG_33,
            unit="Mb/s",
        ),
        Claim(
            "b-gains",
            "class B gains throughput with its gain",
            "shape",
            "rises",
            "B",
            monotone(),
            quote="throughput of class B increases at the cost of drop in gain of class A",
            where=_FIG_33,
            unit="Mb/s",
        ),
        Claim(
            "meet",
            "at a gain of 10, class A's, the two classes have the same throughput",
            "equal",
            "meet at 10",
            "A over B at the end",
            within(1, EQUAL),
            quote="the aggressiveness of class B approaches that of class A",
            where=_FIG_33,
            why="1 %",
            unit="times B's",
        ),
    ),
    measure=_measure_gain_b,
    draw=_draw_gain_b,
    matters=MATTERS,
    probe=_probe_gain_b,
    cheap=True,
)

GAIN_ROWS = [M_32, M_33]
