"""Rows of section 3.4: the AIMD model; only the gains beside packets (M-3.2) need the simulator."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from penstock import figures
from penstock.ledger import Finding, Row
from penstock.models import aimd

if TYPE_CHECKING:
    from penstock.ledger import Lab

Array = NDArray[np.float64]

CHOICES: dict[str, dict[str, Any]] = tomllib.loads((Path(__file__).parent / "choices.toml").read_text())
_MODEL = {key: entry["value"] for key, entry in CHOICES["model"].items()}

# How far a measured value may lie from one the thesis calls "about" (it reads them off its plots).
ABOUT = 0.20
# "Equal", "meet": relative difference of the class-averaged parameters' doing.
EQUAL = 0.01

_PACKET_BITS = 8.0 * _MODEL["packet_bytes"]
_CLASSES = ("A", "B", "C")


def class_betas(gain_ac: ArrayLike, gain_bc: ArrayLike, alpha_ab: float) -> Array:
    """Backoff factors of classes A, B, C that give the wanted gains over class C, shape (..., 3)."""
    reference = (_MODEL["alpha_c"], _MODEL["beta_c"])
    a = aimd.beta_for_gain(gain_ac, alpha_ab, *reference)
    b = aimd.beta_for_gain(gain_bc, alpha_ab, *reference)
    return np.stack(np.broadcast_arrays(a, b, _MODEL["beta_c"]), -1)


def shares(
    gain_ac: ArrayLike,
    gain_bc: ArrayLike,
    *,
    threshold_a: ArrayLike = _MODEL["sizes_packets"][0],
    size_c: float = _MODEL["sizes_packets"][2],
    alpha_ab: float = _MODEL["alpha_ab"],
    class_averaged: bool = False,
) -> aimd.Classes:
    """The three classes of section 3.4.5 at these gains; flows of class A have the size of its threshold.

    `class_averaged` reads the wanted gains as those of the class averages, not of the class's own parameters.
    """
    edge = float(_MODEL["sizes_packets"][1])
    beta = class_betas(gain_ac, gain_bc, alpha_ab)
    alpha = np.array([alpha_ab, alpha_ab, _MODEL["alpha_c"]])
    capacity = _MODEL["capacity_bps"] / _PACKET_BITS
    first = np.asarray(threshold_a, float)

    def at(first: float, beta: Array) -> aimd.Classes:
        sizes, thresholds = [first, edge, size_c], [first, edge]
        if class_averaged:
            beta = aimd.raw_from_effective(beta, thresholds, sizes)
        return aimd.classes(
            alpha,
            beta,
            flows=_MODEL["flows"],
            sizes=sizes,
            thresholds=thresholds,
            pipe=capacity * _MODEL["rtt_s"],
            rtt=_MODEL["rtt_s"],
        )

    if first.ndim == 0:
        return at(float(first), beta)
    rows = [at(float(value), beta) for value in first]
    fields = ("alpha", "beta", "window", "throughput", "fct", "gain")
    return aimd.Classes(**{name: np.stack([getattr(row, name) for row in rows]) for name in fields})


def mbps(packets_per_second: ArrayLike) -> Array:
    """Packets per second as Mb/s."""
    return np.asarray(packets_per_second, float) * _PACKET_BITS / 1e6


def packet_gains(lab: Lab, wanted: float) -> tuple[float, float]:
    """Measured gains of classes A and B over class C in the simulator, with the parameters for these gains.

    Two endless flows of each class share a link (classes.toml). In the model the gains are `wanted` and 2.
    """
    a, b, c = class_betas(wanted, _MODEL["gain_bc"], _MODEL["alpha_ab"])
    alphas = f"{_MODEL['alpha_ab']}/{_MODEL['alpha_ab']}/{_MODEL['alpha_c']}"
    protocol = f"sdc:sizes=100GB/1000GB,alpha={alphas},beta={a:.6f}/{b:.6f}/{c:.6f}"
    # The order of the parameters must not rise from class to class, so gains below 2 have no SDC.
    settings = {"protocol": protocol, "duration": "2s", "warmup": "1s"}
    run = lab.runs(Path(__file__).parent / "classes.toml", settings, keep=("flows",))
    flows = run.tables(0)["flows"]
    acked = [flows.filter(flows["workload"] == i)["acked_bytes"].to_numpy().sum() for i in range(3)]
    return float(acked[0] / acked[2]), float(acked[1] / acked[2])


def _beside_packets(lab: Lab) -> tuple[str, Path]:
    """The gains the model promises beside those of the simulator."""
    wanted = np.array([2.0, 5, 10, 20] if lab.quick else [2.0, 3, 5, 10, 20, 50])
    found = np.array([packet_gains(lab, float(g)) for g in wanted])
    with figures.style():
        fig, (ax,) = figures.new()
        ax.plot(wanted, wanted, label="model, class A", **figures.line(0))
        ax.plot(wanted, np.full(len(wanted), _MODEL["gain_bc"]), label="model, class B", **figures.line(1))
        for i, name in enumerate("AB"):
            style: dict[str, Any] = {
                "color": figures.PALETTE[i],
                "marker": figures.MARKERS[i],
                "linestyle": "none",
            }
            ax.plot(wanted, found[:, i], label=f"packets, class {name}", **style)
        ax.set(xscale="log", yscale="log", xlabel="wanted gain of class A over class C")
        ax.set(ylabel="throughput over that of class C")
        ax.set_title("The model's gains beside packets (SDC, two flows of each class)")
        ax.legend()
    pairs = ", ".join(f"{g:g}: {a:.2f} and {b:.2f}" for g, (a, b) in zip(wanted, found, strict=True))
    return f"gains of A and B in the simulator for wanted gains of A (B: 2) {pairs}", lab.save(
        fig, "M-3.2-packets"
    )


def _about(measured: float, stated: float) -> bool:
    return abs(measured / stated - 1) <= ABOUT


def _class_a_gain(lab: Lab) -> Finding:
    gains = np.geomspace(1, 100, 60)
    # At gain 1 all three classes use class C's throughput, as the text says; from 2 on Table 3.2 applies.
    equal, table = shares(1.0, 1.0), shares(gains, 2.0)
    two, ten, hundred = (shares(g, 2.0) for g in (2.0, 10.0, 100.0))

    spread = float(np.ptp(equal.throughput) / equal.throughput.mean())
    b, c = (float(v) for v in mbps(hundred.throughput)[1:])
    gained_ms = float(two.fct[0] - hundred.fct[0]) * 1e3
    gained_from_equal_ms = float(equal.fct[0] - hundred.fct[0]) * 1e3
    early = float((equal.fct[0] - ten.fct[0]) / (equal.fct[0] - hundred.fct[0]))
    lost = float(1 - ten.throughput[2] / equal.throughput[2])

    # Could any capacity or round-trip time make 30 ms true? FCTs scale with T / (P + sum alpha), P = C T.
    alphas = float(np.dot(_MODEL["flows"], hundred.alpha))
    pipe = _MODEL["capacity_bps"] * _MODEL["rtt_s"] / _PACKET_BITS
    largest_ms = gained_ms * (pipe + alphas) / alphas  # P = 0: no link slower than this exists
    rtt_ms = 0.030 / (gained_ms * 1e-3) * _MODEL["rtt_s"] * 1e3  # windows as they are, rounds longer
    averaged = shares(100.0, 2.0, class_averaged=True)
    low, high = (mbps(shares(100.0, 2.0, alpha_ab=a).throughput) for a in (0.5, 0.99))

    with figures.style():
        fig, (left, right) = figures.new(1, 2, width=9.6, height=3.9)
        left.plot(gains, table.fct[:, 0] * 1e3, label="class A", **figures.line(0))
        left.set(xscale="log", xlabel="gain of class A over class C", ylabel="AFCT of class A (ms)")
        left.set(ylim=(0, None), title="Completion time")
        for i in (1, 2):
            label = f"class {_CLASSES[i]}"
            right.plot(gains, mbps(table.throughput[:, i]), label=label, **figures.line(i))
        right.set(xscale="log", xlabel="gain of class A over class C", ylabel="throughput per flow (Mb/s)")
        right.set(ylim=(0, None), title="What the others pay")
        right.legend()
    parts = [
        f"gain 1: shares equal within {spread:.2%}",
        f"gain 100: B {b:.2f} Mb/s (stated about 5), C {c:.2f} Mb/s (about 1)",
        f"AFCT of A falls by {gained_ms:.1f} ms from gain 2 to 100, "
        f"{gained_from_equal_ms:.1f} ms from gain 1 (stated about 30 ms)",
        f"gain 10 already brings {early:.0%} of it",
        f"with alpha_A = alpha_B in 0.5..0.99: B {low[1]:.1f}..{high[1]:.1f}, "
        f"C {low[2]:.2f}..{high[2]:.2f} Mb/s; "
        f"gains read on class averages: B {mbps(averaged.throughput)[1]:.1f}",
    ]
    beside, packets = _beside_packets(lab)
    parts.append(beside)
    others = spread <= EQUAL and _about(b, 5) and _about(c, 1) and early >= 0.8 and lost > 0.5
    reason = (
        "Only the 30 ms do not hold: 21 equal flows on 1 Gb/s send 50 packets each in "
        f"{equal.fct[0] * 1e3:.1f} ms. In the model completion times scale with T / (P + sum of alpha): "
        "no capacity at an RTT of 300 us brings "
        f"more than {largest_ms:.1f} ms, and the RTT of {rtt_ms:.1f} ms that would leaves class B "
        f"{b * _MODEL['rtt_s'] * 1e3 / rtt_ms:.1f} Mb/s, not 5."
        if others
        else f"See the figures measured: equal {spread:.2%}, B {b:.2f}, C {c:.2f}, early share {early:.0%}."
    )
    confirmed = others and _about(gained_ms, 30)
    return Finding(
        confirmed, "; ".join(parts), "" if confirmed else reason, (lab.save(fig, "M-3.2"), packets)
    )


def _class_b_gain(lab: Lab) -> Finding:
    gains = np.array([1.0, 2, 5, 10])
    out = shares(_MODEL["gain_ac"], gains)
    rate = mbps(out.throughput)
    faster = float(out.fct[0, 1] / out.fct[-1, 1])
    meet = float(abs(rate[-1, 0] / rate[-1, 1] - 1))
    with figures.style():
        fig, (left, right) = figures.new(1, 2, width=9.6, height=3.9)
        left.plot(gains, out.fct[:, 1] * 1e3, label="class B", **figures.look(1))
        left.set(xlabel="gain of class B over class C", ylabel="AFCT of class B (ms)", ylim=(0, None))
        left.set_title("Completion time")
        for i, name in enumerate(_CLASSES):
            right.plot(gains, rate[:, i], label=f"class {name}", **figures.look(i))
        right.set(xlabel="gain of class B over class C", ylabel="throughput per flow (Mb/s)", ylim=(0, None))
        right.set_title("Throughput")
        right.legend()
    measured = (
        f"from G_BC 1 to 10, AFCT of B falls {faster:.1f} times "
        f"({out.fct[0, 1] * 1e3:.0f} to {out.fct[-1, 1] * 1e3:.0f} ms); "
        f"A falls from {rate[0, 0]:.0f} to {rate[-1, 0]:.0f} Mb/s; at G_BC = 10 A and B differ by {meet:.2%}"
    )
    confirmed = faster >= 2 and bool((np.diff(rate[:, 0]) < 0).all()) and meet <= EQUAL
    reason = (
        "" if confirmed else "The model's own numbers disagree with the statement; see the figures measured."
    )
    return Finding(confirmed, measured, reason, (lab.save(fig, "M-3.3"),))


def _class_a_threshold(lab: Lab) -> Finding:
    first = np.arange(5, 100, 5)
    out = shares(_MODEL["gain_ac"], _MODEL["gain_bc"], threshold_a=first, size_c=1e6)
    rate = mbps(out.throughput)
    change = rate[-1] - rate[0]
    with figures.style():
        fig, (ax,) = figures.new()
        for i, name in enumerate(_CLASSES):
            ax.plot(first, rate[:, i], label=f"class {name}", **figures.look(i))
        ax.set(xlabel="class A threshold (packets)", ylabel="throughput per flow (Mb/s)", ylim=(0, None))
        ax.set_title("A larger class A serves class B")
        ax.legend()
    steps = np.diff(rate, axis=0)
    # "Little": below a twentieth of the figure's range.
    little = abs(change[2]) <= 0.05 * rate.max()
    confirmed = bool((steps[:, 0] < 0).all() and (steps[:, 1] > 0).all() and little)
    measured = (
        f"from d_a = {first[0]} to {first[-1]} packets: A {rate[0, 0]:.1f} to {rate[-1, 0]:.1f}, "
        f"B {rate[0, 1]:.1f} to {rate[-1, 1]:.1f}, C {rate[0, 2]:.2f} to {rate[-1, 2]:.2f} Mb/s "
        f"(C loses the same {-change[2] / rate[0, 2]:.0%} as A, of a tenth of its throughput)"
    )
    reason = (
        "" if confirmed else "The model's own numbers disagree with the statement; see the figures measured."
    )
    return Finding(confirmed, measured, reason, (lab.save(fig, "M-3.4"),))


def _effective_parameters(lab: Lab) -> Finding:
    first = np.arange(5, 100, 5)
    out = shares(_MODEL["gain_ac"], _MODEL["gain_bc"], threshold_a=first, size_c=1e6)
    with figures.style():
        fig, (ax,) = figures.new()
        for i in (1, 2):
            ax.plot(first, out.beta[:, i], label=f"effective β of class {_CLASSES[i]}", **figures.look(i))
        ax.plot(first, out.alpha[:, 1], label="effective α of class B", **figures.look(3))
        ax.set(xlabel="class A threshold (packets)", ylabel="parameter (1)", ylim=(0.4, 1.0))
        ax.set_title("What a flow uses on average")
        ax.legend()
    rises = bool((np.diff(out.beta[:, 1]) > 0).all())
    constant = float(np.ptp(out.alpha[:, 1]))
    measured = (
        f"effective beta of B rises from {out.beta[0, 1]:.3f} to {out.beta[-1, 1]:.3f} "
        f"(of C by {np.ptp(out.beta[:, 2]):.1e}); "
        f"effective alpha of B stays at {out.alpha[0, 1]:.2f} (range {constant:.1e})"
    )
    confirmed = rises and constant < 1e-12
    reason = (
        ""
        if confirmed
        else "The class averages (3.16), (3.17) do not behave as stated; see the figures measured."
    )
    return Finding(confirmed, measured, reason, (lab.save(fig, "M-3.5"),))


def _example(lab: Lab) -> Finding:
    weights = aimd.class_average(np.eye(3), [50, 100], 1000)[:, 0]
    size = np.geomspace(10, 1e5, 200)
    share = aimd.class_average(np.eye(3), [50, 100], size)
    with figures.style():
        fig, (ax,) = figures.new()
        for i, name in enumerate(_CLASSES):
            ax.plot(size, share[i], label=f"class {name}", **figures.line(i))
        ax.axvline(1000, color=figures.INK, linewidth=0.8)
        ax.text(1000, 1.02, "example", ha="center", va="bottom", fontsize=9)
        ax.set(xscale="log", xlabel="flow size (packets)", ylabel="share of the packets sent in the class")
        ax.set(ylim=(0, 1.08))
        ax.set_title("Which class a flow's packets see", pad=16)
        ax.legend(loc="center left")
    a, b, c = (float(w) for w in weights)
    confirmed = bool(np.allclose(weights, [0.05, 0.05, 0.9], rtol=0, atol=1e-12))
    measured = f"alpha' = {c:g} a_C + {b:g} a_B + {a:g} a_A; beta' likewise"
    reason = "" if confirmed else "Eq. (3.16) as implemented gives other shares."
    return Finding(confirmed, measured, reason, (lab.save(fig, "M-ex"),))


MODEL_ROWS = [
    Row(
        "M-3.2",
        "sdc-racs",
        "Class A gain",
        "gain 1: equal shares; gain 100: class B about 5 Mb/s, class C about 1 Mb/s; "
        "AFCT of A improves by about 30 ms; diminishing returns beyond gain 10",
        _class_a_gain,
    ),
    Row(
        "M-3.3",
        "sdc-racs",
        "Class B gain",
        "AFCT of class B improves markedly; class A loses throughput; at G_BC = 10 they meet",
        _class_b_gain,
    ),
    Row(
        "M-3.4",
        "sdc-racs",
        "Class A threshold",
        "class A throughput falls, class B rises, class C changes little",
        _class_a_threshold,
    ),
    Row(
        "M-3.5",
        "sdc-racs",
        "Effective parameters",
        "effective beta of B rises with the class A threshold; "
        "effective alpha of B does not change when A and B share alpha",
        _effective_parameters,
    ),
    Row(
        "M-ex",
        "sdc-racs",
        "Class-averaged parameters",
        "1000 packets, thresholds 50 and 100: alpha' = 0.9 a_C + 0.05 a_B + 0.05 a_A",
        _example,
    ),
]
