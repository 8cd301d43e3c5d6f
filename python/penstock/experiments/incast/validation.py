"""Section 3.2: the models fed with what the simulation shows, beside the simulation (Fig 3.8 to 3.21).

Throughput is packets per second sent by all servers, as in the book's figures; every criterion stands in its
check's docstring. How far off a model is, is said as a factor: exp of the mean |ln(model / simulation)| over the
numbers of servers with loss (without loss the book's models have no limit).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from penstock import figures
from penstock.experiments.incast.beside import (
    ABTT_ONLY,
    FULL,
    FULL_PER_SERVER,
    IBTT_ONLY,
    PADHYE,
    SLOWEST,
    SPLIT,
    TD_ONLY,
    Beside,
)
from penstock.experiments.incast.rows_basic import BUFFERS, MEASURED, REQUESTS, curves
from penstock.ledger import Finding, Lab, Row
from penstock.models import incast

#: From how many servers on "the number of senders is large" (section 3.2: ABTTs dominate from about ten).
MANY = 10


def table_3_1(lab: Lab) -> Beside:
    """Simulation and models with Table 3.1."""
    return _beside(lab, buffer=32, sru=256)


def everywhere(lab: Lab) -> dict[str, Beside]:
    """The settings of figures 3.8 to 3.20: Table 3.1 with four buffers, and with four request sizes."""
    found = {f"buffer {size} KB": _beside(lab, buffer=size, sru=256) for size in BUFFERS}
    found |= {f"SRU {size} KB": _beside(lab, buffer=32, sru=size) for size in REQUESTS if size != 256}
    return found


def _beside(lab: Lab, *, buffer: int, sru: int) -> Beside:
    settings = MEASURED | {"buffer": f"{buffer}pkt", "sru": f"{sru}KB"}
    [curve] = curves(lab, [("", settings)])
    return Beside.of(curve.servers, curve.sets, sru=sru, window=1000)


def draw(lab: Lab, name: str, title: str, beside: Beside, models: Sequence[str]) -> Path:
    """Throughput over the number of servers: the simulation with its 95 % band, the models over it."""
    with figures.style():
        figure, (ax,) = figures.new()
        ax.set_yscale("log")
        figures.band(ax, beside.servers, beside.throughput, beside.half, "simulation", 0)
        for i, model in enumerate(models, start=1):
            ax.plot(beside.servers, beside.model(model), label=model, **figures.look(i))
        ax.set(xlabel="number of servers", ylabel="throughput (packets/s)")
        ax.set_title(title)
        ax.legend()
    return lab.save(figure, name)


def full_model(lab: Lab) -> Finding:
    """Confirmed when the full model follows the trend (rank correlation with the simulation over the number of
    servers at least 0.7) and underestimates at most numbers of servers from ten on.

    Both readings of L in Eq. (3.37) are drawn.
    """
    beside = table_3_1(lab)
    path = draw(lab, "I-3.8", "Full model beside the simulation", beside, [FULL, FULL_PER_SERVER])
    rank = _rank(beside, FULL)
    many = beside.ratio(FULL, beside.servers >= MANY)
    measured = (
        f"rank correlation {rank:.2f}; model/simulation {_span(many)} from {MANY} servers on, below 1 at "
        f"{np.count_nonzero(many < 1)} of {many.size}. Off by a factor of {beside.factor(FULL):.2f} with L of the "
        f"whole block, {beside.factor(FULL_PER_SERVER):.2f} with L of one server"
    )
    if rank >= 0.7 and np.count_nonzero(many < 1) > many.size / 2:
        return Finding(True, measured, figures=(path,))
    return Finding(False, measured, _why_full(beside), (path,))


def _why_full(beside: Beside) -> str:
    few = beside.servers < MANY
    return (
        "Q_ibtt of Eq. (3.34) takes everything behind the first loss of a window for lost, so that one loss event "
        f"in {1 / _mean_q(beside, few):.0f} would be a timeout below {MANY} servers; in the simulation one in "
        f"{1 / _timeout_share(beside, few):.0f} is."
    )


def td_only(lab: Lab) -> Finding:
    """Confirmed when the TD-only model misses the collapse: from ten servers on it never falls below half of its
    own smallest value for fewer servers, while the simulation falls below half of its peak.
    """
    beside = table_3_1(lab)
    path = draw(lab, "I-3.9", "TD-only model beside the simulation", beside, [TD_ONLY])
    many = beside.servers >= MANY
    model, lossy = beside.model(TD_ONLY), beside.measured("p_c") > 0
    kept = model[many].min() / model[~many & lossy].min()
    fell = beside.throughput[many].max() / beside.throughput.max()
    measured = (
        f"from {MANY} servers on the model has at least {kept:.1f} times its smallest value below, the simulation "
        f"at most {fell:.2f} of its peak; off by a factor of {beside.factor(TD_ONLY, many):.0f} there"
    )
    if kept >= 0.5 and fell < 0.5:
        return Finding(True, measured, figures=(path,))
    return Finding(False, measured, _shares(beside), (path,))


def ibtt_only(lab: Lab) -> Finding:
    """Confirmed when mid-block timeouts matter for few senders: at most numbers of servers below ten (with loss)
    Q_ibtt exceeds Q_abtt and the IBTT-only model is nearer to the simulation than the TD-only model, and from
    ten on the IBTT-only model no longer matches (it is farther off than below ten).
    """
    beside = table_3_1(lab)
    path = draw(lab, "I-3.10", "Timeouts in mid block only", beside, [FULL, IBTT_ONLY])
    few = beside.servers < MANY
    more = _majority(_q_ibtt(beside)[few] > _q_abtt(beside)[few], beside, few)
    nearer = beside.factor(IBTT_ONLY, few) < beside.factor(TD_ONLY, few)
    worse = beside.factor(IBTT_ONLY, ~few) > beside.factor(IBTT_ONLY, few)
    measured = (
        f"below {MANY} servers {_shares(beside)}; IBTT-only off by a factor of {beside.factor(IBTT_ONLY, few):.2f} "
        f"(TD-only {beside.factor(TD_ONLY, few):.2f}), from {MANY} on by {beside.factor(IBTT_ONLY, ~few):.2f}; "
        f"3..8 servers: model/simulation {_span(beside.ratio(IBTT_ONLY, (beside.servers >= 3) & (beside.servers <= 8)))}"
    )
    if more and nearer and worse:
        return Finding(True, measured, figures=(path,))
    return Finding(False, measured, _why_kinds(beside), (path,))


def abtt_only(lab: Lab) -> Finding:
    """Confirmed when block-start timeouts dominate for many senders and not for few: the share of block-start
    timeouts among those simulated is larger from ten servers on than below, Q_abtt exceeds Q_ibtt at most numbers
    from ten on, and below ten the ABTT-only model stays within 10 % of the TD-only model at most of them.
    """
    beside = table_3_1(lab)
    path = draw(lab, "I-3.11", "Timeouts at the start of a block only", beside, [FULL, ABTT_ONLY, TD_ONLY])
    many = beside.servers >= MANY
    lossy = beside.measured("p_c") > 0
    share = beside.measured("delta") / np.maximum(beside.measured("delta") + beside.measured("iota"), 1e-12)
    few_share, many_share = share[~many & lossy].mean(), share[many].mean()
    dominates = _majority(_q_abtt(beside)[many] > _q_ibtt(beside)[many], beside, many)
    with np.errstate(invalid="ignore"):
        untouched = beside.model(ABTT_ONLY) > 0.9 * beside.model(TD_ONLY)
    little = _majority(untouched[~many], beside, ~many)
    measured = (
        f"block-start timeouts are {few_share:.0%} of all below {MANY} servers and {many_share:.0%} from there on; "
        f"Q_abtt above Q_ibtt at {np.count_nonzero((_q_abtt(beside) > _q_ibtt(beside))[many])} of "
        f"{np.count_nonzero(many)}; ABTT-only within 10 % of TD-only at "
        f"{np.count_nonzero(untouched[~many & lossy])} of {np.count_nonzero(~many & lossy)} below"
    )
    if many_share > few_share and dominates and little:
        return Finding(True, measured, figures=(path,))
    return Finding(False, measured, _why_kinds(beside), (path,))


def split_model(lab: Lab) -> Finding:
    """Confirmed when the split model with n* = 3 is off by a smaller factor than the full model, over all numbers
    of servers.

    The row also gives the errors of every model, and of penstock's own, over the settings of figures 3.8 to 3.20.
    """
    beside = table_3_1(lab)
    every = everywhere(lab)
    paths = (
        draw(lab, "I-3.12", "Split model beside the simulation", beside, [SPLIT, FULL, SLOWEST]),
        _draw_errors(lab, every),
    )
    overall = {model: _overall(every, model) for model in (FULL, SPLIT, SLOWEST)}
    measured = (
        f"off by a factor of {beside.factor(SPLIT):.2f}, the full model by {beside.factor(FULL):.2f}. Over figures "
        f"3.8 to 3.20: full {overall[FULL]:.2f}, split {overall[SPLIT]:.2f}, slowest sender (penstock) "
        f"{overall[SLOWEST]:.2f}"
    )
    if beside.factor(SPLIT) < beside.factor(FULL):
        return Finding(True, measured, figures=paths)
    few = beside.servers < MANY
    best = min(range(1, 50), key=lambda n_star: _split_factor(beside, n_star))
    reason = (
        f"Below {MANY} servers split {beside.factor(SPLIT, few):.2f}, full {beside.factor(FULL, few):.2f}; from "
        f"there on {beside.factor(SPLIT, ~few):.2f} and {beside.factor(FULL, ~few):.2f}. The book read n* = 3 from "
        f"its own traces; the best n* here is {best}, with {_split_factor(beside, best):.2f}."
    )
    return Finding(False, measured, reason, paths)


def single_flow(lab: Lab) -> Finding:
    """Confirmed when n times Padhye's equation is off by less than a factor of 3 below five servers, and by more
    than a factor of 10 at the largest number of servers, upwards.
    """
    beside = table_3_1(lab)
    path = draw(lab, "I-3.21", "n times the single-flow equation", beside, [PADHYE, FULL])
    few = beside.servers < 5
    ratio = beside.ratio(PADHYE)[-1]
    measured = (
        f"off by a factor of {beside.factor(PADHYE, few):.2f} below 5 servers; {ratio:.2f} times the simulation at "
        f"{beside.servers[-1]} servers (largest ratio {beside.ratio(PADHYE).max():.2f})"
    )
    if beside.factor(PADHYE, few) < 3 and ratio > 10:
        return Finding(True, measured, figures=(path,))
    m = beside.points[-1].measured
    ideal = float(incast.padhye_times_n(m.n, m.p_c, m.rtt, m.t0, window_max=1000)) / beside.throughput[-1]
    reason = (
        f"At {m.n} servers p_r is {m.p_r:.3f}, where the equation's own timeouts already cost most of the rate: it "
        f"charges {m.p_r * min(1, 3 * (3 * m.p_r / 8) ** 0.5) * (1 + 32 * m.p_r**2):.4f} T_0 per packet. With the "
        f"loss rate p_c = {m.p_c:.4f} of all flows together in its place it is {ideal:.0f} times too high."
    )
    return Finding(False, measured, reason, (path,))


# --- parts ---------------------------------------------------------------------------------------------------


def _rank(beside: Beside, model: str) -> float:
    lossy = beside.measured("p_c") > 0
    return float(spearmanr(beside.model(model)[lossy], beside.throughput[lossy]).statistic)


def _span(ratio: np.ndarray) -> str:
    return f"{ratio.min():.2f}..{ratio.max():.2f}"


def _q_ibtt(beside: Beside) -> np.ndarray:
    n, p_c, p_r = (beside.measured(key) for key in ("n", "p_c", "p_r"))
    lossy = p_c > 0
    q = np.zeros(len(n))
    window = incast.mean_flow_window(n[lossy], p_c[lossy], p_r[lossy])
    q[lossy] = incast.q_ibtt(window, p_r[lossy])
    return q


def _q_abtt(beside: Beside) -> np.ndarray:
    length = np.array([p.measured.n * p.sru for p in beside.points])
    p_c, delta = beside.measured("p_c"), beside.measured("delta")
    q = np.zeros(len(p_c))
    q[p_c > 0] = incast.q_abtt(p_c[p_c > 0], delta[p_c > 0], length[p_c > 0])
    return q


def _mean_q(beside: Beside, where: np.ndarray) -> float:
    return float(_q_ibtt(beside)[where & (beside.measured("p_c") > 0)].mean())


def _timeout_share(beside: Beside, where: np.ndarray) -> float:
    """Mid-block timeouts per loss event of the cumulative flow, as simulated."""
    use = where & (beside.measured("p_c") > 0)
    m = {key: beside.measured(key)[use] for key in ("iota", "blocks", "p_c", "packets")}
    return float((m["iota"] * m["blocks"]).sum() / (m["p_c"] * m["packets"]).sum())


def _majority(flags: np.ndarray, beside: Beside, where: np.ndarray) -> bool:
    use = flags[(beside.measured("p_c") > 0)[where]]
    return bool(np.count_nonzero(use) > use.size / 2)


def _shares(beside: Beside) -> str:
    few = (beside.servers < MANY) & (beside.measured("p_c") > 0)
    return f"Q_ibtt {_q_ibtt(beside)[few].mean():.3f} and Q_abtt {_q_abtt(beside)[few].mean():.3f} on average"


def _why_kinds(beside: Beside) -> str:
    at = {n: i for i, n in enumerate(beside.servers)}
    seen = [n for n in (4, 8, 16, 48) if n in at]
    rows = "; ".join(
        f"{n} servers {beside.measured('delta')[at[n]]:.2f} and {beside.measured('iota')[at[n]]:.2f}"
        for n in seen
    )
    return f"Timeouts per block counted in the event tables, at its start and in its middle: {rows}."


def _overall(every: dict[str, Beside], model: str) -> float:
    ratios = np.concatenate([beside.ratio(model) for beside in every.values()])
    return float(np.exp(np.abs(np.log(ratios)).mean()))


def _split_factor(beside: Beside, n_star: int) -> float:
    ratios = [
        p.book(lambda *a: incast.split(*a, n_star=n_star)) / rate
        for p, rate in zip(beside.points, beside.throughput, strict=True)
        if p.measured.p_c > 0
    ]
    return float(np.exp(np.abs(np.log(ratios)).mean()))


def _draw_errors(lab: Lab, every: dict[str, Beside]) -> Path:
    """The factor by which each model is off, in every setting of figures 3.8 to 3.20."""
    with figures.style():
        figure, (ax,) = figures.new()
        ax.set_yscale("log")
        places = np.arange(len(every))
        for i, model in enumerate((FULL, SPLIT, PADHYE, SLOWEST)):
            ax.plot(places, [b.factor(model) for b in every.values()], label=model, **figures.look(i))
        ax.set_xticks(places, list(every), rotation=20)
        ax.set(ylabel="typical factor between model and simulation")
        ax.set_title("How far the models are off, figures 3.8 to 3.20")
        ax.legend()
    return lab.save(figure, "I-3.12-errors")


ROWS: list[Row] = [
    Row(
        "I-3.8",
        "incast",
        "Full model beside the simulation (Fig. 3.8)",
        "The full model follows the tendency of the simulation and underestimates it for many senders.",
        full_model,
    ),
    Row(
        "I-3.9",
        "incast",
        "TD-only model beside the simulation (Fig. 3.9)",
        "Without timeouts the model misses the collapse.",
        td_only,
    ),
    Row(
        "I-3.10",
        "incast",
        "Timeouts in mid block only (Fig. 3.10)",
        "Mid-block timeouts (IBTT) matter when the senders are few; for more the model no longer matches.",
        ibtt_only,
    ),
    Row(
        "I-3.11",
        "incast",
        "Timeouts at the start of a block only (Fig. 3.11)",
        "Block-start timeouts (ABTT) dominate when the senders are many and have little impact below ten.",
        abtt_only,
    ),
    Row(
        "I-3.12",
        "incast",
        "Split model beside the simulation (Fig. 3.12)",
        "The split model characterises the simulation better than the full model.",
        split_model,
    ),
    Row(
        "I-3.21",
        "incast",
        "n times the single-flow equation (Fig. 3.21)",
        "n times Padhye's equation is good for few senders and orders of magnitude too high for many.",
        single_flow,
    ),
]
