"""Section V: describing functions and Nyquist loci (Fig 7, 9), as printed, corrected, and simulated."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad

from penstock import figures
from penstock.models import describing, loops
from penstock.models.fluid import solve
from penstock.models.marking import Marking
from penstock_papers.experiments.common import save_table
from penstock_papers.experiments.dt_dctcp import analysis
from penstock_papers.experiments.dt_dctcp.mean_queue_rows import queue_cycle, queue_runs
from penstock_papers.experiments.dt_dctcp.setup import SIM, link
from penstock_papers.ledger import CONFIRMED, Cause, Lab, Measurement, Row, monotone

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


def _probe_functions(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    """The loci with K0 read in another way; the describing functions are the same."""
    return {"fourier": _fourier_error(), **_loci(K2 if settings["analysis.k0"] == "K and K2" else K)}


def _loci(relative_to: float) -> dict[str, Any]:
    """The shapes of -1/N0, with K0 = 1/K for one threshold and 1/`relative_to` for two."""
    u = np.linspace(0.9999, 0.05, 20_000)
    one = -1 / describing.printed_relative(K / u, K)
    two = -K2 / relative_to / describing.printed_relative(K2 / u, K1, K2)

    def turns(x: Floats) -> int:
        return int(np.sum(np.diff(np.sign(np.diff(x))) != 0))

    return {
        "off the axis": float(np.max(np.abs(one.imag))),
        "above the axis": float(np.min(two.imag)),
        "turns": [turns(one.real), turns(two.real)],
        "peaks": [float(one.real.max()), float(two.real.max())],
        "peak at": float(1 / u[int(np.argmax(one.real))]),
    }


D_7 = Row(
    "D-7",
    "Describing functions and their loci (Fig 7)",
    measure=lambda lab: {"fourier": _fourier_error(), **_loci(K2)},
    draw=lambda m, lab: [lab.save(analysis.inverse_figure(), "dt-dctcp-fig7-loci")],
    matters=("analysis.k0",),
    probe=_probe_functions,
    cheap=True,
)


# ---- D-9 --------------------------------------------------------------------------------------------------

# What the loci's meeting is judged by: the stated number of flows, in the figure's steps of ten.
STATED = (60, 70)


def _rule(k1: float, k2: float) -> str:
    if k1 == k2:
        return f"threshold:k={k1:.0f}pkt"
    return f"hysteresis:k1={k1:.0f}pkt,k2={k2:.0f}pkt,turn={SIM['turn']}"


def _onset(margin: Floats) -> float:
    """The N from which loci meet; inf where they never do."""
    return float(analysis.onset(margin) or math.inf)


def _crossings(factor: float = 1) -> list[float]:
    """Where K0 G crosses the real axis, at each N; with `factor` times the stated product of rate and RTT."""
    capacity = analysis.CAPACITY * factor
    return [float(loops.Plant(capacity, analysis.RTT, n).phase_crossings()[0][1] / K) for n in analysis.FLOWS]


def _deepest(crossing: list[float]) -> int:
    """The N at which the crossing is farthest to the left."""
    return int(analysis.FLOWS[int(np.argmin(crossing))])


def _window(crossing: list[float]) -> float:
    """The window of a flow, in segments, where the crossing is farthest to the left."""
    return analysis.CAPACITY * analysis.RTT / _deepest(crossing)


def _as_printed() -> dict[str, Any]:
    """The printed analysis, in every reading of its parameters."""
    margins = {reading.text: analysis.margins(reading) for reading in analysis.readings()}
    one, two = next(iter(margins.values()))
    apart, same = analysis.search()
    return {
        "onsets": [_onset(one), _onset(two)],
        "margins": [one, two],
        "readings": {text: [_onset(a), _onset(b)] for text, (a, b) in margins.items()},
        "crossing": _crossings(),
        "crossing, twice the pipe": _crossings(2),
        # Factors on R0 C with which the stated onsets appear: K0 = 1/K2 for two thresholds, or 1/40 for both.
        "factors": [factor for factor, a, b in apart if (a, b) == STATED],
        "factors, same K0": [factor for factor, a, b in same if (a, b) == STATED],
    }


def _corrected() -> dict[str, Any]:
    """Windows that do not grow on marks and conserved packets, about the mean that the queue needs."""
    bands = {n: describing.analyse(link(float(n)), Marking(K1, K2), **CORRECTED) for n in range(5, 101, 5)}
    single = [
        describing.analyse(link(float(n)), Marking.single(K), **CORRECTED).cycle for n in range(2, 101, 14)
    ]
    return {
        "band from": float(next((n for n, v in bands.items() if v.band_peak >= v.band_needed), math.inf)),
        "single oscillates": [cycle is not None for cycle in single],
    }


def _limit_cycles(lab: Lab) -> dict[str, Any]:
    """Mean, amplitude and frequency of the limit cycle at `CYCLES`: predicted, of the fluid, of packets."""
    runs = queue_runs(lab, [(n, _rule(k1, k2)) for n, k1, k2 in CYCLES])
    flows, k1s, k2s = (np.array(v, float) for v in zip(*CYCLES, strict=True))
    fluid = solve(link(flows), Marking(k1s, k2s), **CORRECTED).cycle()
    predicted, packets = [], []
    for (n, k1, k2), run in zip(CYCLES, runs, strict=True):
        here = describing.analyse(link(float(n)), Marking(k1, k2), **CORRECTED).cycle
        predicted.append((here.mean, here.amplitude, here.frequency) if here else (np.nan,) * 3)
        line, samples = queue_cycle(run)
        # The oscillation wanders, which spreads its line: the amplitude is that of a sinusoid of equal power.
        packets.append((samples.mean(), np.sqrt(2) * samples.std(), float(line.frequency)))
    return {
        "predicted": np.array(predicted, float),
        "fluid": np.stack([fluid.mean, np.sqrt(2) * fluid.std, fluid.frequency], axis=1),
        "packets": np.array(packets, float),
    }


def _probe_meeting(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    """The printed analysis where R0 C, K0 and Eq. (15) are read in another way."""
    pipe = analysis.CAPACITY * analysis.RTT * settings["analysis.pipe"]
    k = (K, K2) if settings["analysis.k0"] == "K and K2" else (K, K)
    reading = analysis.Reading("", pipe=(pipe, pipe), k=k, misprint=settings["analysis.misprint"])
    one, two = analysis.margins(reading)
    return {
        "onsets": [_onset(one), _onset(two)],
        "margins": [one, two],
        "crossing": _crossings(settings["analysis.pipe"]),
    }


QUANTITIES = ("mean_packets", "amplitude_packets", "frequency_hz")


def _draw_meeting(m: Measurement, lab: Lab) -> list[Path]:
    found = [
        lab.save(analysis.printed_figure(), "dt-dctcp-fig9-loci"),
        lab.save(analysis.corrected_figure(), "dt-dctcp-fig9-corrected"),
    ]
    kinds = (("K = 40", K, K), ("(50, 30)", K2, K1), ("(30, 50)", K1, K2))
    p, f, s = (np.asarray(m[who], float) for who in ("predicted", "fluid", "packets"))
    labels = ("Mean queue (packets)", "Amplitude (packets)", "Frequency (Hz)")
    for i, (what, label) in enumerate(zip(QUANTITIES, labels, strict=True)):
        with figures.style():
            figure, (ax,) = figures.new()
            for j, (name, k1, k2) in enumerate(kinds):
                rows = [r for r, c in enumerate(CYCLES) if c[1:] == (k1, k2)]
                x = [CYCLES[r][0] for r in rows]
                ax.plot(x, s[rows, i], label=f"{name}: packets", **{**figures.look(j), "linestyle": "none"})
                ax.plot(x, p[rows, i], label="predicted", color=figures.PALETTE[j])
                ax.plot(x, f[rows, i], label="fluid", color=figures.PALETTE[j], linestyle=":")
            ax.set(xlabel="Number of flows N", ylabel=label, ylim=(0, None), title="Limit cycle, corrected")
            ax.legend(fontsize=7)
        found.append(lab.save(figure, f"dt-dctcp-limit-cycle-{what.split('_')[0]}"))
    columns: dict[str, Any] = {key: [c[i] for c in CYCLES] for i, key in enumerate(("flows", "k1", "k2"))}
    for who, v in (("predicted", p), ("fluid", f), ("packets", s)):
        columns |= {f"{who} {what}": v[:, i] for i, what in enumerate(QUANTITIES)}
    save_table(lab, "dt-dctcp-limit-cycles", columns)
    return found


def _steps(m: Measurement) -> float:
    """The largest factor of the single threshold's amplitude in packets from one N to the next."""
    amplitude = [row[1] for row, c in zip(np.asarray(m["packets"]), CYCLES, strict=True) if c[1] == c[2]]
    return float(max(b / a for a, b in pairwise(amplitude)))


def _told_cycles(m: Measurement) -> str:
    p, s = np.asarray(m["predicted"], float), np.asarray(m["packets"], float)
    error = np.abs(p / s - 1)[np.isfinite(p[:, 1])]
    return (
        f"the band (30, 50) is crossed from N={m['band from']:.0f} on; in packets the single threshold's "
        f"amplitude grows by at most {_steps(m):.2f} times from one N to the next; predicted amplitudes are "
        f"off by {np.median(error[:, 1]):.0%} in the median, frequencies by {np.median(error[:, 2]):.0%}"
    )


def onset_in_words(m: Measurement, i: int) -> str:
    """From which N on the loci meet, and how far they are from it."""
    at, least = m["onsets"][i], float(np.min(m["margins"][i]))
    where = f"from N={at:.0f}" if math.isfinite(at) else "at no N up to 100"
    return f"{where}; G would have to be {least:.2f} times as large to meet"


def margins_apart(m: Measurement) -> Any:
    """DT-DCTCP's margin over DCTCP's at each N."""
    return np.asarray(m["margins"][1]) / np.asarray(m["margins"][0])


def margins_in_words(m: Measurement) -> str:
    """The range of `margins_apart`."""
    apart = margins_apart(m)
    return f"the factor on G is {apart.min():.2f} to {apart.max():.2f} times DCTCP's"


def crossing_in_words(m: Measurement) -> str:
    """Where the locus crosses the real axis, at the ends and at its deepest."""
    found = m["crossing"]
    return (
        f"crosses the real axis at {found[0]:.2f} with N=10, at its deepest at {min(found):.2f} with "
        f"N={_deepest(found)}, at {found[-1]:.2f} with N=100"
    )


_LEFT = monotone(rising=False)

D_9 = Row(
    "D-9",
    "Nyquist diagram (Fig 9)",
    stated="the loci meet from N=60 for DCTCP and from N=70 for DT-DCTCP",
    measure=lambda lab: {**_as_printed(), **_corrected(), **_limit_cycles(lab)},
    draw=_draw_meeting,
    causes=(
        Cause(
            "with K0 = 1/40 for both rules and a larger product of round trip and rate the stated onsets "
            "appear",
            holds=lambda m: bool(m["factors, same K0"]),
            evidence=lambda m: (
                f"R0 C {', '.join(f'{x:.1f}' for x in m['factors, same K0'])} times the stated one; "
                f"with K0 = 1/K2 for two thresholds {len(m['factors'])} values of R0 C do"
            ),
            of=("dctcp", "dt-dctcp"),
        ),
        Cause(
            "the printed functions describe a queue that swings about zero; about the mean that the queue "
            "needs one threshold has no onset but oscillates at every N",
            holds=lambda m: all(m["single oscillates"]),
            evidence=_told_cycles,
            of=("dctcp", "dt-dctcp"),
        ),
        Cause(
            "the locus turns back where the windows have shrunk to less than two segments, which they do "
            "within the figure: with twice the product of round trip and rate it moves left all along",
            holds=lambda m: (
                _window(m["crossing"]) < 2 and _LEFT.judge(m["crossing, twice the pipe"]) == CONFIRMED
            ),
            evidence=lambda m: (
                f"deepest at N={_deepest(m['crossing'])}, a window of {_window(m['crossing']):.1f} segments; "
                f"with twice the product at N={_deepest(m['crossing, twice the pipe'])}"
            ),
            of=("left",),
        ),
    ),
    matters=("analysis.pipe", "analysis.k0", "analysis.misprint"),
    probe=_probe_meeting,
)

ANALYSIS_ROWS = [D_7, D_9]
