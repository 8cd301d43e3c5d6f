"""Section 3.4: the AIMD model of size classes (Fig 3.2 to 3.5, the example of 3.4.4)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from penstock import figures
from penstock.experiments.sdc_racs.setup import ABOUT, CHOSEN, PAPER, Array, at
from penstock.ledger import (
    Cause,
    Claim,
    Measurement,
    Row,
    at_least,
    at_most,
    every,
    monotone,
    ratio_at_least,
    within,
)
from penstock.models import aimd

if TYPE_CHECKING:
    from penstock.ledger import Lab

_CLASSES = ("A", "B", "C")
STATED_MS = 30.0
# "Equal", "meet": what the arithmetic allows.
EQUAL = 0.01
MATTERS = ("model.alpha_ab", "model.capacity_bps", "model.gain_applies_to")
_THRESHOLDS = np.arange(5, 100, 5)


def _bits(chosen: Mapping[str, Any]) -> float:
    return 8.0 * float(chosen["model.packet_bytes"])


def class_betas(gain_ac: ArrayLike, gain_bc: ArrayLike, chosen: Mapping[str, Any] = CHOSEN) -> Array:
    """Backoff factors of classes A, B, C that give the wanted gains over class C, shape (..., 3)."""
    alpha, reference = chosen["model.alpha_ab"], (chosen["model.alpha_c"], chosen["model.beta_c"])
    a = aimd.beta_for_gain(gain_ac, alpha, *reference)
    b = aimd.beta_for_gain(gain_bc, alpha, *reference)
    return np.stack(np.broadcast_arrays(a, b, reference[1]), -1)


def shares(
    gain_ac: ArrayLike,
    gain_bc: ArrayLike,
    chosen: Mapping[str, Any] = CHOSEN,
    *,
    threshold_a: ArrayLike | None = None,
    size_c: float | None = None,
    flows: tuple[int, ...] | None = None,
) -> aimd.Classes:
    """The three classes of section 3.4.5 at these gains; flows of class A have the size of its threshold.

    The choice `gain_applies_to` reads the wanted gains as those of the class's own parameters or of the class
    averages. Raises ValueError where no parameters give them.
    """
    size_a, edge, last = (float(size) for size in chosen["model.sizes_packets"])
    alpha_ab = chosen["model.alpha_ab"]
    beta = class_betas(gain_ac, gain_bc, chosen)
    alpha = np.array([alpha_ab, alpha_ab, chosen["model.alpha_c"]])
    rtt, capacity = chosen["model.rtt_s"], chosen["model.capacity_bps"] / _bits(chosen)
    first = np.asarray(size_a if threshold_a is None else threshold_a, float)

    def of(first: float, beta: Array) -> aimd.Classes:
        sizes, thresholds = [first, edge, last if size_c is None else size_c], [first, edge]
        if chosen["model.gain_applies_to"] == "average":
            beta = aimd.raw_from_effective(beta, thresholds, sizes)
        return aimd.classes(
            alpha,
            beta,
            flows=flows or chosen["model.flows"],
            sizes=sizes,
            thresholds=thresholds,
            pipe=capacity * rtt,
            rtt=rtt,
        )

    if first.ndim == 0:
        return of(float(first), beta)
    rows = [of(float(value), beta) for value in first]
    fields = ("alpha", "beta", "window", "throughput", "fct", "gain")
    return aimd.Classes(**{name: np.stack([getattr(row, name) for row in rows]) for name in fields})


def mbps(packets_per_second: ArrayLike, chosen: Mapping[str, Any] = CHOSEN) -> Array:
    """Packets per second as Mb/s."""
    return np.asarray(packets_per_second, float) * _bits(chosen) / 1e6


def packet_gains(lab: Lab, wanted: float, duration: str = "2s", warmup: str = "1s") -> tuple[float, float]:
    """Measured gains of classes A and B over class C in the simulator, with the parameters for these gains.

    Two endless flows of each class share a link (classes.toml). In the model the gains are `wanted` and 2.
    """
    a, b, c = class_betas(wanted, CHOSEN["model.gain_bc"])
    alpha = CHOSEN["model.alpha_ab"]
    alphas = f"{alpha}/{alpha}/{CHOSEN['model.alpha_c']}"
    protocol = f"sdc:sizes=100GB/1000GB,alpha={alphas},beta={a:.6f}/{b:.6f}/{c:.6f}"
    # The order of the parameters must not rise from class to class, so gains below 2 have no SDC.
    settings = {"protocol": protocol, "duration": duration, "warmup": warmup}
    run = lab.runs(Path(__file__).parent / "classes.toml", settings, keep=("flows",))
    flows = run.tables(0)["flows"]
    acked = [flows.filter(flows["workload"] == i)["acked_bytes"].to_numpy().sum() for i in range(3)]
    return float(acked[0] / acked[2]), float(acked[1] / acked[2])


# ---- M-3.2 ------------------------------------------------------------------------------------------------


def _gain_a(chosen: Mapping[str, Any]) -> dict[str, Any]:
    # At gain 1 all three classes use class C's throughput, as the text says; from 2 on Table 3.2 applies.
    equal = shares(1.0, 1.0, chosen)
    two, ten, hundred = (shares(g, chosen["model.gain_bc"], chosen) for g in (2.0, 10.0, 100.0))
    rates = {name: mbps(x.throughput, chosen) for name, x in (("ten", ten), ("hundred", hundred))}
    times = [float(x.fct[0]) * 1e3 for x in (equal, two, ten, hundred)]
    # Could any capacity or round-trip time make it true? Times scale with T / (P + sum alpha), P = C T.
    alphas = float(np.dot(chosen["model.flows"], hundred.alpha))
    pipe = chosen["model.capacity_bps"] * chosen["model.rtt_s"] / _bits(chosen)
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
            ax.plot(gains, rates, label=f"class {_CLASSES[i]}", **figures.line(i))
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
        for i, name in enumerate(_CLASSES):
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
        "change of C, in the figure": float(abs(rate[-1, 2] - rate[0, 2]) / rate.max()),
        "claim of C": float(claim[-1, 2] / claim[0, 2] - 1),
        "claim of B": float(claim[-1, 1] / claim[0, 1] - 1),
        "beta of B": out.beta[:, 1],
        "beta of C": out.beta[:, 2],
        "alpha of B": out.alpha[:, 1],
        "alpha of B, range": float(np.ptp(out.alpha[:, 1])),
        "A with 1, 2, 4 times the flows": [float(x) for x in crowded],
    }


def _measure_threshold(lab: Lab) -> Measurement:
    return _threshold(CHOSEN)


def _probe_threshold(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    return _threshold(at(settings))


def _draw_threshold(m: Measurement, lab: Lab) -> list[Path]:
    with figures.style():
        fig, (ax,) = figures.new()
        for i, name in enumerate(_CLASSES):
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


_FIG_34, _FIG_35 = "section 3.4.5, Fig 3.4", "section 3.4.5, Fig 3.5"

M_34 = Row(
    "M-3.4",
    PAPER,
    "Class A threshold (Fig 3.4)",
    claims=(
        Claim(
            "a-falls",
            "class A's throughput falls as its threshold grows",
            "shape",
            "falls",
            "A",
            monotone(rising=False),
            quote="as the class threshold of class A increases, its throughput decreases",
            where=_FIG_34,
            say=lambda m: f"{m['A'][0]:.1f} to {m['A'][-1]:.1f} Mb/s",
        ),
        Claim(
            "b-rises",
            "class B's throughput rises with it",
            "shape",
            "rises",
            "B",
            monotone(),
            quote="we get significant gains in throughput of class B",
            where=_FIG_34,
            say=lambda m: f"{m['B'][0]:.1f} to {m['B'][-1]:.1f} Mb/s",
        ),
        Claim(
            "b-significant",
            "class B gains significantly",
            "ratio",
            "significant gains",
            "B at the ends",
            ratio_at_least(1.5),
            quote="we get significant gains in throughput of class B",
            where=_FIG_34,
            why="significant: half of what it had with the smallest threshold",
            unit="Mb/s",
        ),
        Claim(
            "c-little",
            "class C's throughput changes little",
            "bound",
            "changes little",
            "change of C, in the figure",
            at_most(0.05),
            quote="class C get diminishing performance improvements",
            where=_FIG_34,
            why="little: a twentieth of the figure's range",
            say=lambda m: f"by {m['change of C, in the figure']:.1%} of the figure's range",
        ),
        Claim(
            "c-improves",
            "class C's throughput improves, if little",
            "order",
            "diminishing improvements",
            "change of C",
            at_least(0),
            quote="In addition, class C get diminishing performance improvements",
            where=_FIG_34,
            say=lambda m: f"{m['change of C']:+.0%} of its own from the smallest to the largest threshold",
        ),
    ),
    measure=_measure_threshold,
    draw=_draw_threshold,
    causes=(
        Cause(
            "flows of class B claim a larger share with a larger class A and those of class C the same as "
            "before, "
            "so class C pays for class B as class A does",
            holds=lambda m: abs(m["claim of C"]) < 0.01 < 0.1 < m["claim of B"],
            evidence=lambda m: (
                f"alpha / (1 - beta) of a flow of B grows by {m['claim of B']:.0%}, of C by "
                f"{m['claim of C']:.2%}"
            ),
            of=("c-improves",),
        ),
    ),
    matters=MATTERS,
    probe=_probe_threshold,
    cheap=True,
)

M_35 = Row(
    "M-3.5",
    PAPER,
    "Effective parameters (Fig 3.5)",
    claims=(
        Claim(
            "beta-rises",
            "the effective beta of class B rises with class A's threshold",
            "shape",
            "rises",
            "beta of B",
            monotone(),
            quote="when the class A threshold increases, sources starting in class B become more aggressive",
            where=_FIG_35,
            say=lambda m: f"{m['beta of B'][0]:.3f} to {m['beta of B'][-1]:.3f}",
        ),
        Claim(
            "alpha-stays",
            "the effective alpha of class B does not change, as A and B share alpha",
            "equal",
            "does not change",
            "alpha of B, range",
            at_most(1e-12),
            quote="the effective α does not change since both class A and class B use the same values",
            where="section 3.4.5, footnote 1",
            why="rounding",
        ),
        Claim(
            "crowded",
            "the throughput of small flows falls as the total number of flows grows",
            "shape",
            "starts degrading",
            "A with 1, 2, 4 times the flows",
            monotone(rising=False),
            quote="as the total number of flows increases, small flows share bandwidth with more flows, "
            "hence "
            "throughput of small flows starts degrading",
            where="section 3.4.5",
            unit="Mb/s",
        ),
    ),
    measure=_measure_threshold,
    draw=_draw_effective,
    matters=MATTERS,
    probe=_probe_threshold,
    cheap=True,
)

# ---- the example of section 3.4.4 -------------------------------------------------------------------------

_EXAMPLE = {"C": 0.9, "B": 0.05, "A": 0.05}


def _measure_example(lab: Lab) -> Measurement:
    a, b, c = (float(w) for w in aimd.class_average(np.eye(3), [50, 100], 1000)[:, 0])
    weights = {"C": c, "B": b, "A": a}
    # Both equations by what they are for: the parameters of a flow.
    found = shares(CHOSEN["model.gain_ac"], CHOSEN["model.gain_bc"], size_c=1000)
    own = class_betas(CHOSEN["model.gain_ac"], CHOSEN["model.gain_bc"])
    by_hand = sum(_EXAMPLE[name] * float(own[i]) for i, name in enumerate(_CLASSES))
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
        for i, name in enumerate(_CLASSES):
            ax.plot(m["size"], np.array(m["share"])[i], label=f"class {name}", **figures.line(i))
        ax.axvline(1000, color=figures.INK, linewidth=0.8)
        ax.text(1000, 1.02, "example", ha="center", va="bottom", fontsize=9)
        ax.set(xscale="log", xlabel="flow size (packets)", ylabel="share of the packets sent in the class")
        ax.set(ylim=(0, 1.08))
        ax.set_title("Which class a flow's packets see", pad=16)
        ax.legend(loc="center left")
        return [lab.save(fig, "M-ex")]


M_EX = Row(
    "M-ex",
    PAPER,
    "Example of section 3.4.4",
    claims=(
        Claim(
            "alpha",
            "a flow of 1000 packets uses alpha' = 0.9 alpha_C + 0.05 alpha_B + 0.05 alpha_A",
            "equal",
            "0.9, 0.05, 0.05",
            "off",
            every(at_most(1e-12)),
            quote="α' = 0.9α_C + 0.05α_B + 0.05α_A",
            where="section 3.4.4, example",
            why="rounding",
            say=lambda m: ", ".join(f"{x:g} of class {name}" for name, x in m["weights"].items()),
        ),
        Claim(
            "beta",
            "and beta' = 0.9 beta_C + 0.05 beta_B + 0.05 beta_A",
            "equal",
            "0.9, 0.05, 0.05",
            lambda m: abs(m["beta"]["ours"] - m["beta"]["by hand"]),
            at_most(1e-12),
            quote="β' = 0.9β_C + 0.05β_B + 0.05β_A",
            where="section 3.4.4, example",
            why="rounding",
            say=lambda m: f"{m['beta']['ours']:.6f}, by hand {m['beta']['by hand']:.6f}",
        ),
    ),
    measure=_measure_example,
    draw=_draw_example,
    cheap=True,
)

MODEL_ROWS = [M_32, M_33, M_34, M_35, M_EX]
