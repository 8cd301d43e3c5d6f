"""Section 3.2: the models fed with what the simulation shows, beside the simulation (Fig 3.8 to 3.21).

Throughput is packets per second sent by all servers, as in the book's figures; every criterion stands in its
check's docstring. How far off a model is, is said as a factor: exp of the mean |ln(model / simulation)| over
the numbers of servers with loss (without loss the book's models have no limit).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.optimize import brentq
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
    Point,
)
from penstock.experiments.incast.rows_basic import (
    BUFFERS,
    MEASURED,
    REQUESTS,
    beside_plot,
    compare_pair,
    curves,
)
from penstock.experiments.incast.rows_basic import draw as draw_goodput
from penstock.ledger import Finding, Lab, Row
from penstock.models import incast

#: From how many servers on "the number of senders is large" (section 3.2: ABTTs dominate from about ten).
MANY = 10

#: Figures 3.13 to 3.20 and their settings.
FIGURES = {
    **{f"3.{13 + i}": f"buffer {size} KB" for i, size in enumerate(BUFFERS)},
    **{f"3.{17 + i}": f"SRU {size} KB" for i, size in enumerate(REQUESTS)},
}
BOOK_AND_OURS = (FULL, SPLIT, SLOWEST)


def table_3_1(lab: Lab) -> Beside:
    """Simulation and models with Table 3.1."""
    return _beside(lab, buffer=32, sru=256)


def everywhere(lab: Lab) -> dict[str, Beside]:
    """The settings of figures 3.8 to 3.20: Table 3.1 with four buffers, and with four request sizes."""
    found = {f"buffer {size} KB": _beside(lab, buffer=size, sru=256) for size in BUFFERS}
    return found | {f"SRU {size} KB": _beside(lab, buffer=32, sru=size) for size in REQUESTS}


def _beside(lab: Lab, *, buffer: int, sru: int) -> Beside:
    settings = MEASURED | {"buffer": f"{buffer}pkt", "sru": f"{sru}KB"}
    [curve] = curves(lab, [("", settings)])
    return Beside.of(curve.servers, curve.sets, sru=sru, window=1000)


def draw(lab: Lab, name: str, title: str, beside: Beside, models: Sequence[str]) -> Path:
    """Throughput over the number of servers: the simulation with its 95 % band, the models over it."""
    with figures.style():
        figure, (ax,) = figures.new(width=8.2 if len(models) > 2 else 6.6)
        ax.set_yscale("log")
        figures.band(ax, beside.servers, beside.throughput, beside.half, "simulation", 0)
        for i, model in enumerate(models, start=1):
            ax.plot(beside.servers, beside.model(model), label=model, **figures.look(i))
        ax.set(xlabel="number of servers", ylabel="throughput (packets/s)")
        ax.set_title(title)
        beside_plot(ax) if len(models) > 2 else ax.legend()
    return lab.save(figure, name)


def draw_models(lab: Lab, figure: str) -> Path:
    """One of figures 3.13 to 3.20: the book's two models, and penstock's, beside the simulation."""
    key = FIGURES[figure]
    title = f"Models beside the simulation, {key}"
    return draw(lab, f"I-{figure}-models", title, everywhere(lab)[key], BOOK_AND_OURS)


def full_model(lab: Lab) -> Finding:
    """Confirmed when the full model follows the trend (rank correlation with the simulation over the number
    of servers at least 0.7) and underestimates at most numbers of servers from ten on.

    Both readings of L in Eq. (3.37) are drawn.
    """
    beside = table_3_1(lab)
    path = draw(lab, "I-3.8", "Full model beside the simulation", beside, [FULL, FULL_PER_SERVER])
    rank = _rank(beside, FULL)
    many = beside.ratio(FULL, beside.servers >= MANY)
    measured = (
        f"rank correlation {rank:.2f}; model/simulation {_span(many)} from {MANY} servers on, below 1 at "
        f"{np.count_nonzero(many < 1)} of {many.size}. Off by a factor of {beside.factor(FULL):.2f} with L "
        "of the "
        f"whole block, {beside.factor(FULL_PER_SERVER):.2f} with L of one server"
    )
    if rank >= 0.7 and np.count_nonzero(many < 1) > many.size / 2:
        return Finding(True, measured, figures=(path,))
    return Finding(False, measured, _why_full(beside), (path,))


def _why_full(beside: Beside) -> str:
    few = beside.servers < MANY
    return (
        "Q_ibtt of Eq. (3.34) takes everything behind the first loss of a window for lost, so that one loss "
        "event "
        f"in {1 / _mean(_q_ibtt(beside), beside, few):.0f} would be a timeout below {MANY} servers; in the "
        "simulation one in "
        f"{1 / _timeout_share(beside, few):.0f} is."
    )


def td_only(lab: Lab) -> Finding:
    """Confirmed when the TD-only model misses the collapse: from ten servers on it never falls below half of
    its own smallest value for fewer servers, while the simulation falls below half of its peak.
    """
    beside = table_3_1(lab)
    path = draw(lab, "I-3.9", "TD-only model beside the simulation", beside, [TD_ONLY])
    many = beside.servers >= MANY
    model, lossy = beside.model(TD_ONLY), beside.measured("p_c") > 0
    kept = model[many].min() / model[~many & lossy].min()
    fell = beside.throughput[many].max() / beside.throughput.max()
    measured = (
        f"from {MANY} servers on the model has at least {kept:.1f} times its smallest value below, the "
        "simulation "
        f"at most {fell:.2f} of its peak; off by a factor of {beside.factor(TD_ONLY, many):.0f} there"
    )
    if kept >= 0.5 and fell < 0.5:
        return Finding(True, measured, figures=(path,))
    return Finding(False, measured, _counts(beside), (path,))


def ibtt_only(lab: Lab) -> Finding:
    """Confirmed when, as section 3.2 says of figure 3.10, mid-block timeouts have the greater impact when the
    senders are few (below ten, at most numbers with loss, Q_ibtt exceeds Q_abtt and most simulated timeouts
    are mid-block ones), the model overestimates their impact from three to eight senders (it lies below the
    simulation at most of them), and beyond eight no longer matches (it is off by more than a factor of 2).
    """
    beside = table_3_1(lab)
    path = draw(lab, "I-3.10", "Timeouts in mid block only", beside, [FULL, IBTT_ONLY])
    n = beside.servers
    few, some, many = n < MANY, (n >= 3) & (n <= 8), n > 8
    share = 1 - _start_share(beside)
    matters = _majority((_q_ibtt(beside) > _q_abtt(beside))[few], beside, few)
    matters &= _majority((share > 0.5)[few], beside, few)
    over = beside.ratio(IBTT_ONLY, some)
    measured = (
        f"below {MANY} servers Q_ibtt is {_mean(_q_ibtt(beside), beside, few):.3f} and Q_abtt "
        f"{_mean(_q_abtt(beside), beside, few):.3f}, and {_mean(share, beside, few):.0%} of the simulated "
        "timeouts "
        f"are mid-block; model/simulation {_span(over)} from 3 to 8; off by a factor of "
        f"{beside.factor(IBTT_ONLY, many):.2f} beyond"
    )
    if matters and np.count_nonzero(over < 1) > over.size / 2 and beside.factor(IBTT_ONLY, many) > 2:
        return Finding(True, measured, figures=(path,))
    return Finding(False, measured, _counts(beside), (path,))


def abtt_only(lab: Lab) -> Finding:
    """Confirmed when, as section 3.2 says of figure 3.11, block-start timeouts dominate when the senders are
    many (from ten on, at most numbers, more than half of the simulated timeouts) and have little or no
    impact on the model below ten (the ABTT-only model stays within 10 % of the TD-only model at most numbers
    with loss).
    """
    beside = table_3_1(lab)
    path = draw(lab, "I-3.11", "Timeouts at the start of a block only", beside, [FULL, ABTT_ONLY, TD_ONLY])
    many = beside.servers >= MANY
    share = _start_share(beside)
    with np.errstate(invalid="ignore"):
        untouched = beside.model(ABTT_ONLY) > 0.9 * beside.model(TD_ONLY)
    measured = (
        f"block-start timeouts are {_mean(share, beside, ~many):.0%} of all below {MANY} servers, "
        f"{_mean(share, beside, many):.0%} from there on and more than half at "
        f"{np.count_nonzero(share[many] > 0.5)} of {np.count_nonzero(many)}; ABTT-only within 10 % of "
        "TD-only at "
        f"{np.count_nonzero(untouched[~many & _lossy(beside)])} of "
        f"{np.count_nonzero(~many & _lossy(beside))} below"
    )
    if _majority((share > 0.5)[many], beside, many) and _majority(untouched[~many], beside, ~many):
        return Finding(True, measured, figures=(path,))
    (curve,) = curves(lab, [("", MEASURED | {"restart_after_idle": "false"})])
    carried = Beside.of(curve.servers, curve.sets, sru=256, window=1000)
    bursts = _start_share(carried)
    with np.errstate(invalid="ignore"):
        aside = carried.model(ABTT_ONLY) > 0.9 * carried.model(TD_ONLY)
    reason = (
        f"{_counts(beside)} What a sender does with its window after an idle timeout decides the share "
        "at the "
        "start. Carried over from block to block, as the text tells it ('all senders begin by injecting "
        "their "
        "entire congestion windows'; restart_after_idle=false), block-start timeouts are "
        f"{_mean(bursts, carried, ~many):.0%} of all below {MANY} servers, "
        f"{_mean(bursts, carried, many):.0%} "
        f"from there on and more than half at {np.count_nonzero(bursts[many] > 0.5)} of "
        f"{np.count_nonzero(many)}, and ABTT-only is within 10 % of TD-only at "
        f"{np.count_nonzero(aside[~many & _lossy(carried)])} of {np.count_nonzero(~many & _lossy(carried))}. "
        "With RFC 5681's restart, which ns-2's idle timer amounts to, the first bursts of a block are small."
    )
    return Finding(False, measured, reason, (path,))


def split_model(lab: Lab) -> Finding:
    """Confirmed when the split model with n* = 3 is off by a smaller factor than the full model, over all
    numbers of servers.

    The row also gives the errors of every model, and of penstock's own, over the settings of figures 3.8 to
    3.20.
    """
    beside = table_3_1(lab)
    every = everywhere(lab)
    paths = (
        draw(lab, "I-3.12", "Split model beside the simulation", beside, [SPLIT, FULL, SLOWEST]),
        _draw_errors(lab, every),
    )
    overall = {model: _overall(every, model) for model in (FULL, SPLIT, SLOWEST)}
    measured = (
        f"off by a factor of {beside.factor(SPLIT):.2f}, the full model by {beside.factor(FULL):.2f}. Over "
        "figures "
        f"3.8 to 3.20: full {overall[FULL]:.2f}, split {overall[SPLIT]:.2f}, slowest sender (penstock) "
        f"{overall[SLOWEST]:.2f}"
    )
    if beside.factor(SPLIT) < beside.factor(FULL):
        return Finding(True, measured, figures=paths)
    few = beside.servers < MANY
    best = min(range(1, 50), key=lambda n_star: _split_factor(beside, n_star))
    reason = (
        f"Below {MANY} servers split {beside.factor(SPLIT, few):.2f}, full {beside.factor(FULL, few):.2f}; "
        "from "
        f"there on {beside.factor(SPLIT, ~few):.2f} and {beside.factor(FULL, ~few):.2f}. The book read n* = "
        "3 from "
        f"its own traces; the best n* here is {best}, with {_split_factor(beside, best):.2f}."
    )
    return Finding(False, measured, reason, paths)


# --- buffers and requests (figures 3.13 to 3.20) ------------------------------------------------------------


def buffer_row(size: int) -> Row:
    """One of figures 3.13 to 3.16: the buffer of `size` KB against its neighbour in the list."""

    def check(lab: Lab) -> Finding:
        """Confirmed when, of this buffer and the next smaller one (for the smallest: the next larger), the
        larger has the higher goodput, averaged over all numbers of servers with separate 95 % intervals, and
        the later onset.
        """
        found = dict(
            zip(
                BUFFERS,
                curves(lab, [(f"{b} KB", MEASURED | {"buffer": f"{b}pkt"}) for b in BUFFERS]),
                strict=True,
            )
        )
        paths = (
            draw_models(lab, _figure(size)),
            draw_goodput(lab, f"I-{_figure(size)}", "Goodput for four switch buffers", list(found.values())),
        )
        index = max(1, BUFFERS.index(size))
        small, large = BUFFERS[index - 1], BUFFERS[index]
        pair = (found[small], found[large])
        return compare_pair(lab, "buffer", f"{small}pkt", f"{large}pkt", pair, paths, later=True)

    def _figure(value: int) -> str:
        return f"3.{13 + BUFFERS.index(value)}"

    return Row(
        f"I-{_figure(size)}",
        "incast",
        f"Goodput with a switch buffer of {size} KB (Fig. {_figure(size)})",
        "A larger switch buffer improves throughput and shifts the collapse to more servers.",
        check,
    )


def request_row(size: int) -> Row:
    """One of figures 3.17 to 3.20: requests of `size` KB per server against its neighbour in the list."""

    def check(lab: Lab) -> Finding:
        """Confirmed when, of this request size and the next smaller one (for the smallest: the next larger),
        the larger has the higher goodput, averaged over all numbers of servers with separate 95 % intervals,
        and their onsets lie within two servers of each other.
        """
        found = dict(
            zip(
                REQUESTS,
                curves(lab, [(f"{r} KB", MEASURED | {"sru": f"{r}KB"}) for r in REQUESTS]),
                strict=True,
            )
        )
        paths = (
            draw_models(lab, _figure(size)),
            draw_goodput(lab, f"I-{_figure(size)}", "Goodput for four request sizes", list(found.values())),
        )
        index = max(1, REQUESTS.index(size))
        small, large = REQUESTS[index - 1], REQUESTS[index]
        pair = (found[small], found[large])
        return compare_pair(lab, "sru", f"{small}KB", f"{large}KB", pair, paths, later=False)

    def _figure(value: int) -> str:
        return f"3.{17 + REQUESTS.index(value)}"

    return Row(
        f"I-{_figure(size)}",
        "incast",
        f"Goodput with {size} KB per server and block (Fig. {_figure(size)})",
        "A larger request per server raises throughput and hardly moves the onset of the collapse.",
        check,
    )


# --- n single flows (figure 3.21) ---------------------------------------------------------------------------


def single_flow(lab: Lab) -> Finding:
    """Confirmed when n times Padhye's equation is off by less than a factor of 3 below five servers, and by
    more than a factor of 10 at the largest number of servers, upwards.
    """
    beside = table_3_1(lab)
    path = draw(lab, "I-3.21", "n times the single-flow equation", beside, [PADHYE, FULL])
    few = beside.servers < 5
    ratio = beside.ratio(PADHYE)[-1]
    measured = (
        f"off by a factor of {beside.factor(PADHYE, few):.2f} below 5 servers; {ratio:.2f} times the "
        "simulation at "
        f"{beside.servers[-1]} servers (largest ratio {beside.ratio(PADHYE).max():.2f})"
    )
    if beside.factor(PADHYE, few) < 3 and ratio > 10:
        return Finding(True, measured, figures=(path,))
    m = beside.points[-1].measured
    (curve,) = curves(lab, [("", MEASURED)], (64,))
    more = Beside.of(curve.servers, curve.sets, sru=256, window=1000)
    needed = brentq(lambda p: _padhye_at(beside.points[-1], p) / beside.throughput[-1] - 10, 1e-6, 1.0)
    together, beyond = _ratio_with_p_c(beside), _ratio_with_p_c(more)
    few_lossy = together[few[beside.measured("p_c") > 0]]
    reason = (
        f"At {m.n} servers p_r is {m.p_r:.3f}, and the equation's own timeouts already cost most of the "
        "rate: "
        f"for ten times the simulation p_r would have to be {needed:.4f} or less. With the loss rate of all "
        f"flows together in its place (p_c, {m.p_c:.4f} there) the statement appears: off by a factor of "
        f"{np.exp(np.abs(np.log(few_lossy)).mean()):.2f} below 5 servers, then {together[-1]:.1f} times too "
        f"high at {m.n} servers and {beyond[-1]:.1f} times at 64, where p_r gives "
        f"{more.ratio(PADHYE)[-1]:.1f}."
    )
    return Finding(False, measured, reason, (path,))


def _padhye_at(point: Point, p: float) -> float:
    m = point.measured
    return float(incast.padhye_times_n(m.n, p, m.rtt, m.t0, window_max=point.window))


def _ratio_with_p_c(beside: Beside) -> np.ndarray:
    """n times Padhye's equation with p_c for p_r over the simulation, at the points with loss."""
    return np.array(
        [
            _padhye_at(p, p.measured.p_c) / rate
            for p, rate in zip(beside.points, beside.throughput, strict=True)
            if p.measured.p_c > 0
        ]
    )


# --- parts --------------------------------------------------------------------------------------------------


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


def _lossy(beside: Beside) -> np.ndarray:
    return beside.measured("p_c") > 0


def _mean(values: np.ndarray, beside: Beside, where: np.ndarray) -> float:
    return float(values[where & _lossy(beside)].mean())


def _start_share(beside: Beside) -> np.ndarray:
    """Share of block-start timeouts among all simulated; 0 without timeouts."""
    delta, iota = beside.measured("delta"), beside.measured("iota")
    return delta / np.maximum(delta + iota, 1e-12)


def _timeout_share(beside: Beside, where: np.ndarray) -> float:
    """Mid-block timeouts per loss event of the cumulative flow, as simulated."""
    use = where & (beside.measured("p_c") > 0)
    m = {key: beside.measured(key)[use] for key in ("iota", "blocks", "p_c", "packets")}
    return float((m["iota"] * m["blocks"]).sum() / (m["p_c"] * m["packets"]).sum())


def _majority(flags: np.ndarray, beside: Beside, where: np.ndarray) -> bool:
    use = flags[(beside.measured("p_c") > 0)[where]]
    return bool(np.count_nonzero(use) > use.size / 2)


def _counts(beside: Beside) -> str:
    at = {n: i for i, n in enumerate(beside.servers.tolist())}
    delta, iota = beside.measured("delta"), beside.measured("iota")
    rows = [f"{n} servers {delta[at[n]]:.2f} and {iota[at[n]]:.2f}" for n in (4, 8, 16, 48) if n in at]
    return f"Timeouts per block in the event tables, at its start and in its middle: {'; '.join(rows)}."


def _overall(every: dict[str, Beside], model: str) -> float:
    # Table 3.1 is both the buffer of 32 KB and the SRU of 256 KB: counted once.
    ratios = np.concatenate([b.ratio(model) for key, b in every.items() if key != "SRU 256 KB"])
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
        figure, (ax,) = figures.new(width=8.2)
        ax.set_yscale("log")
        places = np.arange(len(every))
        for i, model in enumerate((FULL, SPLIT, PADHYE, SLOWEST)):
            ax.plot(places, [b.factor(model) for b in every.values()], label=model, **figures.look(i))
        ax.set_xticks(places, list(every), rotation=20)
        ax.set(ylabel="typical factor between model and simulation")
        ax.set_title("How far the models are off, figures 3.8 to 3.20")
        beside_plot(ax)
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
    *(buffer_row(size) for size in BUFFERS),
    *(request_row(size) for size in REQUESTS),
    Row(
        "I-3.21",
        "incast",
        "n times the single-flow equation (Fig. 3.21)",
        "n times Padhye's equation is good for few senders and orders of magnitude too high for many.",
        single_flow,
    ),
]
