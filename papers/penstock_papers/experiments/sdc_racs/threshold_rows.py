"""Sections 3.4.4 and 3.4.5: class A's threshold, effective parameters, the example (Fig 3.4, 3.5)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from penstock import figures
from penstock.models import aimd
from penstock_papers.experiments.sdc_racs.model import CLASSES, MATTERS, class_betas, mbps, shares
from penstock_papers.experiments.sdc_racs.setup import CHOSEN, at
from penstock_papers.ledger import Lab, Measurement, Row

_THRESHOLDS = np.arange(5, 100, 5)

# ---- M-3.4, M-3.5 -----------------------------------------------------------------------------------------

_LAST = 1e6


def _threshold(chosen: Mapping[str, Any]) -> dict[str, Any]:
    gains = (chosen["model.gain_ac"], chosen["model.gain_bc"])
    out = shares(*gains, chosen, threshold_a=_THRESHOLDS, size_c=_LAST)
    rate = mbps(out.throughput, chosen)
    crowds = [tuple(k * n for n in chosen["model.flows"]) for k in (1, 2, 4)]
    crowded = [mbps(shares(*gains, chosen, size_c=_LAST, flows=c).throughput, chosen)[0] for c in crowds]
    # The share of the link that a flow of class B claims, beside class C's: alpha / (1 - beta).
    claim = out.alpha / (1 - out.beta)
    return {
        "rates": rate,
        "A": rate[:, 0],
        "B": rate[:, 1],
        "B at the ends": [float(rate[-1, 1]), float(rate[0, 1])],
        "change of C": float((rate[-1, 2] - rate[0, 2]) / rate[0, 2]),
        "claim of C": float(claim[-1, 2] / claim[0, 2] - 1),
        "claim of B": float(claim[-1, 1] / claim[0, 1] - 1),
        "beta of B": out.beta[:, 1],
        "beta of C": out.beta[:, 2],
        "alpha of B": out.alpha[:, 1],
        "alpha, range": {"B": float(np.ptp(out.alpha[:, 1])), "C": float(np.ptp(out.alpha[:, 2]))},
        "alpha, range, A's doubled": _unlike_alphas(chosen),
        "A with 1, 2, 4 times the flows": [float(x) for x in crowded],
    }


def _unlike_alphas(chosen: Mapping[str, Any]) -> dict[str, float]:
    """The ranges of the effective alphas where class A's is twice class B's."""
    own = chosen["model.alpha_ab"]
    alphas = np.array([2 * own, own, chosen["model.alpha_c"]], float)
    found = np.array([aimd.class_average(alphas, np.array([a, 100.0]), [100, _LAST]) for a in _THRESHOLDS])
    return {"B": float(np.ptp(found[:, 0])), "C": float(np.ptp(found[:, 1]))}


def b_gains(m: Measurement) -> float:
    """The throughput of class B with the largest threshold over that with the smallest."""
    largest, smallest = m["B at the ends"]
    return float(largest / smallest)


def _measure_threshold(lab: Lab) -> Measurement:
    return _threshold(CHOSEN)


def _probe_threshold(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    return _threshold(at(settings))


def _draw_threshold(m: Measurement, lab: Lab) -> list[Path]:
    with figures.style():
        fig, (ax,) = figures.new()
        for i, name in enumerate(CLASSES):
            ax.plot(_THRESHOLDS, np.array(m["rates"])[:, i], label=f"class {name}", **figures.look(i))
        ax.set(xlabel="class A threshold (packets)", ylabel="throughput per flow (Mb/s)", ylim=(0, None))
        ax.set_title("A larger class A serves class B")
        ax.legend()
        return [lab.save(fig, "M-3.4")]


def _draw_effective(m: Measurement, lab: Lab) -> list[Path]:
    with figures.style():
        fig, (ax,) = figures.new()
        for i, key in enumerate(("beta of B", "beta of C")):
            ax.plot(_THRESHOLDS, m[key], label=f"effective β of class {key[-1]}", **figures.look(i + 1))
        ax.plot(_THRESHOLDS, m["alpha of B"], label="effective α of class B", **figures.look(3))
        ax.set(xlabel="class A threshold (packets)", ylabel="parameter (1)", ylim=(0.4, 1.0))
        ax.set_title("What a flow uses on average")
        ax.legend()
        return [lab.save(fig, "M-3.5")]


M_34 = Row(
    "M-3.4",
    "Class A threshold (Fig 3.4)",
    measure=_measure_threshold,
    draw=_draw_threshold,
    matters=MATTERS,
    probe=_probe_threshold,
    cheap=True,
)

M_35 = Row(
    "M-3.5",
    "Effective parameters (Fig 3.5)",
    measure=_measure_threshold,
    draw=_draw_effective,
    matters=MATTERS,
    probe=_probe_threshold,
    cheap=True,
)

# ---- the example of section 3.4.4 -------------------------------------------------------------------------

_EXAMPLE = {"C": 0.9, "B": 0.05, "A": 0.05}


def _example(chosen: Mapping[str, Any]) -> dict[str, Any]:
    a, b, c = (float(w) for w in aimd.class_average(np.eye(3), [50, 100], 1000)[:, 0])
    weights = {"C": c, "B": b, "A": a}
    # Both equations by what they are for: the parameters of a flow.
    gains = (chosen["model.gain_ac"], chosen["model.gain_bc"])
    found, own = shares(*gains, chosen, size_c=1000), class_betas(*gains, chosen)
    by_hand = sum(_EXAMPLE[name] * float(own[i]) for i, name in enumerate(CLASSES))
    size = np.geomspace(10, 1e5, 200)
    return {
        "off": {name: abs(weights[name] - stated) for name, stated in _EXAMPLE.items()},
        "weights": weights,
        "beta": {"ours": float(found.beta[2]), "by hand": by_hand},
        "size": size,
        "share": aimd.class_average(np.eye(3), [50, 100], size),
    }


def _draw_example(m: Measurement, lab: Lab) -> list[Path]:
    with figures.style():
        fig, (ax,) = figures.new()
        for i, name in enumerate(CLASSES):
            ax.plot(m["size"], np.array(m["share"])[i], label=f"class {name}", **figures.line(i))
        ax.axvline(1000, color=figures.INK, linewidth=0.8)
        ax.text(1000, 1.02, "example", ha="center", va="bottom", fontsize=9)
        ax.set(xscale="log", xlabel="flow size (packets)", ylabel="share of the packets sent in the class")
        ax.set(ylim=(0, 1.08))
        ax.set_title("Which class a flow's packets see", pad=16)
        ax.legend(loc="center left")
        return [lab.save(fig, "M-ex")]


def beta_apart(m: Measurement) -> float:
    """By how much the effective beta and the one worked out by hand differ."""
    return float(abs(m["beta"]["ours"] - m["beta"]["by hand"]))


M_EX = Row(
    "M-ex",
    "Example of section 3.4.4",
    measure=lambda lab: _example(CHOSEN),
    draw=_draw_example,
    matters=MATTERS,
    probe=lambda lab, settings: _example(at(settings)),
    cheap=True,
)

THRESHOLD_ROWS = [M_34, M_35, M_EX]
