"""Section 3.4.5: the gains of classes A and B over class C (Fig 3.2, 3.3)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from penstock import figures
from penstock_papers.experiments.sdc_racs.model import CLASSES, MATTERS, bits, mbps, packet_gains, shares
from penstock_papers.experiments.sdc_racs.setup import ABOUT, CHOSEN, at
from penstock_papers.ledger import Cause, Lab, Measurement, Row

STATED_MS = 30.0

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


M_32 = Row(
    "M-3.2",
    "Class A gain (Fig 3.2, Table 3.2)",
    measure=_measure_gain_a,
    draw=_draw_gain_a,
    causes=(
        Cause(
            "completion times scale with T / (P + the sum of alpha): at the stated round-trip time no "
            "capacity brings so much, and the one that would leaves class B far less than stated",
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
    probe=lambda lab, settings: _gain_a(at(settings)),
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


def approaches(m: Measurement) -> list[Any]:
    """The throughput of class A over class B by class B's gain, and the part of the gap left at the end."""
    ratios = list(m["A over B"])
    return [ratios, abs(ratios[-1] - 1) / abs(ratios[0] - 1)]


def moves_apart(m: Measurement) -> list[Any]:
    """The same with the gains turned round."""
    ratios = list(m["A over B"])[::-1]
    return [ratios, abs(ratios[-1] - 1) / max(abs(ratios[0] - 1), 1e-9)]


def faster(m: Measurement) -> float:
    """The AFCT of class B at a gain of 10 over that at 1."""
    first, last = m["ends"]
    return float(last / first)


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


M_33 = Row(
    "M-3.3",
    "Class B gain (Fig 3.3, Table 3.3)",
    measure=lambda lab: _gain_b(CHOSEN),
    draw=_draw_gain_b,
    matters=MATTERS,
    probe=lambda lab, settings: _gain_b(at(settings)),
    cheap=True,
)

GAIN_ROWS = [M_32, M_33]
