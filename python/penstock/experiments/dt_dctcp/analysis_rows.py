"""Section V: describing functions and Nyquist loci (Fig 7, 9), as printed, corrected, and simulated."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad

from penstock import figures
from penstock.experiments.common import save_table
from penstock.experiments.dt_dctcp import analysis
from penstock.experiments.dt_dctcp.mean_queue_rows import queue_cycle, queue_runs
from penstock.experiments.dt_dctcp.setup import PAPER, SIM, link
from penstock.ledger import Cause, Claim, Finding, Measurement, Row, at_least, at_most, within
from penstock.models import describing
from penstock.models.fluid import solve
from penstock.models.marking import Marking

if TYPE_CHECKING:
    from penstock.ledger import Lab

Floats = NDArray[np.float64]
K, K1, K2 = analysis.K, analysis.K1, analysis.K2

# The corrected model: windows do not grow on marks, packets are conserved.
CORRECTED: dict[str, Any] = {"growth": "unmarked", "inflow": "window"}

# Points at which the predicted limit cycle is held against the spectrum of the simulated queue.
CYCLES: tuple[tuple[int, float, float], ...] = (
    *((n, K, K) for n in (5, 10, 15, 20, 30, 40, 50, 60, 80, 100)),
    *((n, K2, K1) for n in (10, 20, 40)),
    *((n, K1, K2) for n in (40, 50, 60, 80)),
)


def _fourier_error() -> float:
    """Largest |N(X) - Fourier coefficient/X| of (22) and (27), by quadrature over the marked arc."""
    worst = 0.0
    for k1, k2 in ((K, K), (K1, K2)):
        for x in (k2 * 1.01, k2 * 1.2, k2 * np.sqrt(2), k2 * 3, k2 * 20):
            start, stop = np.arcsin(k1 / x), np.pi - np.arcsin(k2 / x)
            a1 = quad(np.cos, start, stop, epsabs=1e-13)[0] / np.pi
            b1 = quad(np.sin, start, stop, epsabs=1e-13)[0] / np.pi
            worst = max(worst, abs(complex(b1, a1) / x - complex(describing.printed(x, k1, k2))))
    return worst


def _measure_functions(lab: Lab) -> Measurement:
    u = np.linspace(0.9999, 0.05, 20_000)
    one = -1 / describing.printed_relative(K / u, K)
    two = -1 / describing.printed_relative(K2 / u, K1, K2)

    def turns(x: Floats) -> int:
        return int(np.sum(np.diff(np.sign(np.diff(x))) != 0))

    return {
        "fourier": _fourier_error(),
        "off the axis": float(np.max(np.abs(one.imag))),
        "above the axis": float(np.min(two.imag)),
        "turns": [turns(one.real), turns(two.real)],
        "peaks": [float(one.real.max()), float(two.real.max())],
        "peak at": float(1 / u[int(np.argmax(one.real))]),
    }


def _draw_functions(m: Measurement, lab: Lab) -> list[Path]:
    return [lab.save(analysis.loci_figure(), "dt-dctcp-fig7-fig9-loci")]


_FIG_7 = "section V, Fig 7"
_CONVEX = "a convex function of amplitude X, which means when X increases to a certain value"

D_7 = Row(
    "D-7",
    PAPER,
    "Describing functions and their loci (Fig 7)",
    claims=(
        Claim(
            "fourier",
            "(22) and (27) are the first Fourier coefficients of the marks over a sinusoidal queue",
            "equal",
            "(20), (21), (25), (26)",
            "fourier",
            at_most(1e-9),
            quote="Substituting Eq. (20) and (21) into Eq. (5), we get the DF of DCTCP",
            where="section V.B and C",
            why="arithmetic: what quadrature leaves",
            say=lambda m: f"equal to {m['fourier']:.0e}",
        ),
        Claim(
            "real",
            "-1/N0 of DCTCP lies on the real axis",
            "shape",
            "no imaginary part",
            "off the axis",
            at_most(1e-12),
            quote="lies only in the real axis",
            where=_FIG_7,
            why="arithmetic",
            say=lambda m: f"imaginary part at most {m['off the axis']:.0e}",
        ),
        Claim(
            "maximum",
            "-1/N0 of DCTCP has one maximum over the amplitude",
            "shape",
            "one maximum",
            lambda m: m["turns"][0],
            within(1),
            quote=_CONVEX,
            where=_FIG_7,
            say=lambda m: f"{m['turns'][0]}: {m['peaks'][0]:.3f} at X = {m['peak at']:.3f} K",
        ),
        Claim(
            "upper",
            "-1/N0 of DT-DCTCP has a positive imaginary part",
            "shape",
            "above the real axis",
            "above the axis",
            at_least(1e-12),
            quote="has the positive imaginary part",
            where="section V.D",
            say=lambda m: f"imaginary part at least {m['above the axis']:.3f}",
        ),
        Claim(
            "maximum-dt",
            "the real part of -1/N0 of DT-DCTCP has one maximum over the amplitude",
            "shape",
            "one maximum",
            lambda m: m["turns"][1],
            within(1),
            quote="it is a convex function of amplitude X",
            where=_FIG_7,
            say=lambda m: f"{m['turns'][1]}: {m['peaks'][1]:.3f}",
        ),
        Claim(
            "same-maximum",
            "the largest real parts of both are almost the same",
            "ratio",
            "almost the same",
            lambda m: m["peaks"][1] / m["peaks"][0],
            within(1, 0.1),
            quote="the max values in real axis of them are almost the same",
            where="section V.D",
            why="almost: a tenth",
            say=lambda m: f"{m['peaks'][0]:.3f} and {m['peaks'][1]:.3f}",
        ),
    ),
    measure=_measure_functions,
    draw=_draw_functions,
    causes=(
        Cause(
            "the describing functions themselves have the same maximum; the relative ones, which the figure "
            "shows, are those over K and over K2, and differ by that",
            holds=lambda m: abs(m["peaks"][1] * K2 / (m["peaks"][0] * K) - 1) < 0.1,
            evidence=lambda m: f"-1/N: {m['peaks'][0] * K:.1f} and {m['peaks'][1] * K2:.1f} packets",
            of=("same-maximum",),
        ),
    ),
    cheap=True,
)


def _meeting(lab: Lab) -> Finding:
    # 1. As printed, and in every other reading of the parameters.
    table = []
    for reading in analysis.readings():
        one, two = analysis.margins(reading)
        table.append(
            (reading.text, analysis.onset(one), analysis.onset(two), float(one.min()), float(two.min()))
        )
    true = [t[0] for t in table if t[1] == 60 and t[2] == 70]
    as_printed = table[0]
    apart, same = analysis.search()
    exact_apart = [f for f, one, two in apart if one == 60 and two == 70]
    exact_same = [f for f, one, two in same if one == 60 and two == 70]
    crossing = {}
    for n in range(10, 101, 5):
        plant = describing.Plant(analysis.CAPACITY, analysis.RTT, n)
        crossing[n] = plant.phase_crossings()[0][1] / K
    deepest = min(crossing, key=crossing.__getitem__)
    loci = lab.save(analysis.loci_figure(), "dt-dctcp-fig7-fig9-loci")

    # 2. Corrected: a single threshold always meets, the band only from some N on.
    verdicts = {n: describing.analyse(link(float(n)), Marking(K1, K2), **CORRECTED) for n in range(5, 101, 5)}
    spans = next((n for n, v in verdicts.items() if v.band_peak >= v.band_needed), None)
    always = all(
        describing.analyse(link(float(n)), Marking.single(K), **CORRECTED).cycle is not None
        for n in range(2, 101, 14)
    )

    # 3. Limit cycles: prediction, fluid, packets.
    def rule(k1: float, k2: float) -> str:
        if k1 == k2:
            return f"threshold:k={k1:.0f}pkt"
        return f"hysteresis:k1={k1:.0f}pkt,k2={k2:.0f}pkt,turn={SIM['turn']}"

    runs = queue_runs(lab, [(n, rule(k1, k2)) for n, k1, k2 in CYCLES])
    flows, k1s, k2s = (np.array(v, float) for v in zip(*CYCLES, strict=True))
    fluid = solve(link(flows), Marking(k1s, k2s), **CORRECTED).cycle()
    fluids = np.stack([fluid.mean, np.sqrt(2) * fluid.std, fluid.frequency], axis=1)
    predicted, packets = [], []
    for (n, k1, k2), r in zip(CYCLES, runs, strict=True):
        here = describing.analyse(link(float(n)), Marking(k1, k2), **CORRECTED).cycle
        predicted.append((here.mean, here.amplitude, here.frequency) if here else (np.nan,) * 3)
        line, samples = queue_cycle(r)
        # The oscillation wanders, which spreads its line: the amplitude is that of a sinusoid of equal power.
        packets.append((samples.mean(), np.sqrt(2) * samples.std(), float(line.frequency)))
    p, f, s = (np.array(v, float) for v in (predicted, fluids, packets))
    error = p / s - 1
    save_table(
        lab,
        "dt-dctcp-limit-cycles",
        {
            "flows": [c[0] for c in CYCLES],
            "k1": [c[1] for c in CYCLES],
            "k2": [c[2] for c in CYCLES],
            **{
                f"{who} {what}": v[:, i]
                for who, v in (("predicted", p), ("fluid", f), ("packets", s))
                for i, what in enumerate(("mean_packets", "amplitude_packets", "frequency_hz"))
            },
            "amplitude error": error[:, 1],
            "frequency error": error[:, 2],
        },
    )
    with figures.style():
        figure, axes = figures.new(1, 3, width=13.0, height=4.2)
        kinds = (("K = 40", K, K), ("(50, 30)", K2, K1), ("(30, 50)", K1, K2))
        for i, what in enumerate(("Mean queue (packets)", "Amplitude (packets)", "Frequency (Hz)")):
            ax = axes[i]
            for j, (name, k1, k2) in enumerate(kinds):
                rows = [r for r, c in enumerate(CYCLES) if c[1:] == (k1, k2)]
                x = [CYCLES[r][0] for r in rows]
                ax.plot(x, s[rows, i], label=f"{name}: packets", **{**figures.look(j), "linestyle": "none"})
                ax.plot(x, p[rows, i], label="predicted", color=figures.PALETTE[j])
                ax.plot(x, f[rows, i], label="fluid", color=figures.PALETTE[j], linestyle=":")
            ax.set(xlabel="Number of flows N", ylabel=what, ylim=(0, None))
        axes[1].legend(fontsize=7)
    cycles = lab.save(figure, "dt-dctcp-limit-cycles")

    finite = np.isfinite(error[:, 1])
    a, w = np.abs(error[finite, 1]), np.abs(error[finite, 2])
    stds = [float(np.sqrt(0.5)) * s[i, 1] for i, c in enumerate(CYCLES) if c[1] == c[2]]
    smooth = max(b / a for a, b in pairwise(stds))
    measured = (
        f"as printed the loci never meet: K0 G crosses the real axis at {crossing[deepest]:.3f} at its "
        "deepest, "
        f"N={deepest}, and max(-1/N0) is -3.142; G would have to be {as_printed[3]:.2f} times (DCTCP) and "
        f"{as_printed[4]:.2f} times (DT-DCTCP) as large. Corrected: one threshold oscillates at every N: "
        f"{always}; the band (30, 50) is crossed from N={spans}. Limit cycle against the spectrum of the "
        f"simulated queue at {int(finite.sum())} points: amplitude error median {np.median(a):.0%}, largest "
        f"{a.max():.0%}; frequency median {np.median(w):.0%}, largest {w.max():.0%}"
    )
    others = "; ".join(f"{t[0]}: {t[1] or 'never'} and {t[2] or 'never'}" for t in table[1:])
    found = f"Readings that give it: {', '.join(true)}. " if true else ""
    reason = (
        f"onsets in other readings (DCTCP and DT-DCTCP): {others}. Over R0 C no value gives 60 and 70 with "
        f"K0 = 1/K2 ({len(exact_apart)} of {len(apart)} tried); with K0 = 1/40 for both, "
        f"{', '.join(f'{x:.1f}' for x in exact_same)} times the stated R0 C does. {found}The printed "
        "functions "
        "describe a queue that swings about zero; with the mean it needs there is no onset for one "
        "threshold, "
        f"and in packets the deviation grows smoothly, by at most {smooth:.2f} times from one N to the next"
    )
    onsets = as_printed[1] == 60 and as_printed[2] == 70
    return Finding(onsets, measured, reason, (loci, cycles))


ANALYSIS_ROWS = [
    D_7,
    Row(
        "D-9",
        PAPER,
        "Nyquist diagram (Fig 9)",
        "the loci meet from N=60 for DCTCP and from N=70 for DT-DCTCP",
        _meeting,
    ),
]
