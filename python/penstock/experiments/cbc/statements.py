"""The row of a figure, and the causes of claims that several figures have."""

from __future__ import annotations

from typing import Any

from penstock.experiments.cbc.setup import (
    CARRY,
    H4,
    H8,
    LOUD,
    MATTERS,
    ONE,
    PAPER,
    QUANTITIES,
    S4,
    draw,
    measurer,
    prober,
)
from penstock.experiments.cbc.trace import PAYLOAD_BPS
from penstock.ledger import Cause, Measurement, Row
from penstock.ledger.selection import statements_of

# About 2:1 is within this of it.
_ABOUT = 0.3

# ---- causes -----------------------------------------------------------------------------------------------


def _ratio(*ids: str) -> Cause:
    def far(m: Measurement) -> float:
        cbc = m["cbc"]
        return abs(cbc["ratio"].mean - cbc["latched"].mean) if "latched" in cbc else float("inf")

    return Cause(
        "the set keeps about the ratio of the requirements that it froze, which bursts of the databases make "
        "another one each time",
        holds=lambda m: m["kept and frozen"] >= 0.7 and far(m) <= 0.25,
        evidence=lambda m: (
            f"kept {m['cbc']['ratio']}, frozen {m['cbc']['latched']}, correlation over three controllers "
            f"{m['kept and frozen']:.2f}; without the delay trigger {m['variants'][LOUD]['ratio']:.2f} kept "
            f"of {m['variants'][LOUD]['latched']:.2f}; control is set {m['cbc']['early']} times per second "
            "before any file"
        ),
        of=ids,
    )


def _trigger(*ids: str) -> Cause:
    return Cause(
        "the delay trigger sets control on the databases' own bursts, before any file: without it that is "
        "less than half as often, and the ratio is within 0.3 of 2:1",
        holds=lambda m: (
            m["variants"][LOUD]["early"] < 0.5 * m["cbc"]["early"].mean
            and abs(m["variants"][LOUD]["ratio"] - 2) <= _ABOUT
        ),
        evidence=lambda m: (
            f"ratio: {m['cbc']['ratio']}, without the delay trigger {m['variants'][LOUD]['ratio']:.2f}; "
            f"control set before any file: {m['cbc']['early']} times per second, without it "
            f"{m['variants'][LOUD]['early']:.3f}"
        ),
        of=ids,
    )


def _files_own(*ids: str) -> Cause:
    return Cause(
        "the drops are the files' own: of those at router 2 few are the databases', with either controller",
        holds=lambda m: m["plain"]["retransmits"].mean < 0.2 * m["plain"]["drops"].mean,
        evidence=lambda m: (
            f"{m['plain']['drops'].mean:.0f} drops and {m['plain']['retransmits'].mean:.0f} retransmissions "
            f"to DB1 with TCP, {m['cbc']['drops'].mean:.0f} and {m['cbc']['retransmits'].mean:.0f} with CBC"
        ),
        of=ids,
    )


def growth(*ids: str) -> Cause:
    """The caps grow until RED drops."""
    return Cause(
        "caps of eta times what was carried grow until RED drops: with eta = 1 less than half is lost",
        holds=lambda m: m["variants"][ONE]["drops"] < 0.5 * m["cbc"]["drops"].mean,
        evidence=lambda m: (
            f"{m['cbc']['drops'].mean:.1f} drops, {m['variants'][ONE]['drops']:.1f} with eta = 1, at an RTT "
            f"of {m['cbc']['rtt_mean'].mean * 1e3:.0f} and {m['variants'][ONE]['rtt_mean'] * 1e3:.0f} ms"
        ),
        of=ids,
    )


def _before(*ids: str) -> Cause:
    return Cause(
        "control is on before the files come, set by the databases' own bursts, which spares their onset",
        holds=lambda m: (
            m["cbc"]["early"].mean > 0.05 and m["cbc"]["drops_onset"].mean < m["plain"]["drops_onset"].mean
        ),
        evidence=lambda m: (
            f"set {m['cbc']['early'].mean:.2f} times per second before any file; "
            f"{m['cbc']['drops_onset'].mean:.1f} drops in their first two seconds, "
            f"{m['plain']['drops_onset'].mean:.1f} with TCP"
        ),
        of=ids,
    )


_UNUSED = "windows of a few whole segments leave a part of every cap unused: with fractions carried over "


def _held(i: int, id: str) -> Cause:
    return Cause(
        f"{_UNUSED}DB{i} carries more",
        holds=lambda m: m["variants"][CARRY][f"db{i}"] > 1.03 * m["cbc"][f"db{i}"].mean,
        evidence=lambda m: (
            f"DB{i} {m['cbc'][f'db{i}'].mean * 1e-6:.2f} Mb/s, with fractions carried over "
            f"{m['variants'][CARRY][f'db{i}'] * 1e-6:.2f} at {m['variants'][CARRY]['drops']:.0f} drops"
        ),
        of=(id,),
    )


def _held_ratio(key: str, when: str, id: str) -> Cause:
    return Cause(
        f"{_UNUSED}the ratio {when}is less than half as far from 2:1",
        holds=lambda m: abs(m["variants"][CARRY][key] - 2) < 0.5 * abs(m["cbc"][key].mean - 2),
        evidence=lambda m: (
            f"{m['cbc'][key].mean:.2f}, with fractions carried over {m['variants'][CARRY][key]:.2f}"
        ),
        of=(id,),
    )


def _room(*ids: str) -> Cause:
    def left(m: Measurement) -> float:
        return PAYLOAD_BPS - float(m["plain"]["ftp"].mean)

    return Cause(
        "the files keep what they take, and what they leave of the link is less than the databases offer",
        holds=lambda m: left(m) < 0.95 * (m["plain"]["before1"].mean + m["plain"]["before2"].mean),
        evidence=lambda m: (
            f"{left(m) * 1e-6:.2f} Mb/s left for {m['plain']['before1'].mean * 1e-6:.2f} and "
            f"{m['plain']['before2'].mean * 1e-6:.2f}"
        ),
        of=ids,
    )


def _offer(i: int, *ids: str) -> Cause:
    return Cause(
        f"DB{i} varies as its bursty application does: no more than undisturbed",
        holds=lambda m: m["cbc"][f"cv{i}"].mean <= 1.1 * m["plain"][f"cv{i}_before"].mean,
        evidence=lambda m: (
            f"coefficient of variation {m['cbc'][f'cv{i}'].mean:.2f}, before the files "
            f"{m['plain'][f'cv{i}_before'].mean:.2f}"
        ),
        of=ids,
    )


def _climb(*ids: str) -> Cause:
    return Cause(
        "the queue climbs under the caps to where plain TCP keeps it, only more slowly, and that climb is in "
        "the figure",
        holds=lambda m: m["cbc"]["rtt_std_late"].mean < 0.8 * m["cbc"]["rtt_std"].mean,
        evidence=lambda m: (
            f"standard deviation {m['cbc']['rtt_std'].mean * 1e3:.1f} ms, from 20 s after the files' start "
            f"on {m['cbc']['rtt_std_late'].mean * 1e3:.1f} ms "
            f"(TCP {m['plain']['rtt_std_late'].mean * 1e3:.1f} ms)"
        ),
        of=ids,
    )


def _shorter(*ids: str) -> Cause:
    return Cause(
        "CBC keeps the queue shorter the earlier RED drops",
        holds=lambda m: m["cbc"]["rtt_mean"].mean < m["beside"]["cbc there"]["rtt_mean"].mean,
        evidence=lambda m: (
            f"RTT {m['cbc']['rtt_mean'].mean * 1e3:.0f} ms against "
            f"{m['beside']['cbc there']['rtt_mean'].mean * 1e3:.0f} ms"
        ),
        of=ids,
    )


def _causes(row: str, beside: str) -> tuple[Cause, ...]:
    """The causes of whichever of the claims a figure has."""
    ids = {claim.id for claim in statements_of(PAPER).rows[row]}

    def of(*names: str) -> tuple[str, ...]:
        return tuple(name for name in names if name in ids)

    found: list[Cause] = []
    for make, names in (
        (_ratio, ("two-to-one", "closer", "db2-suffers", "db1-mainly", "not-quite")),
        (_trigger, ("two-to-one",)),
        (_files_own, ("drops-cut", "drops-none", "later-fewer", "fewer")),
        (growth, ("drops-cut", "drops-none", "retransmits-cut", "retransmits-none", "later-fewer", "fewer")),
        (_before, ("initially", "concentrated")),
        (_room, ("db1-unaffected", "db2-unaffected", "db2-stays")),
        (_climb, ("rtt-steadier",)),
    ):
        if of(*names):
            found.append(make(*of(*names)))
    found += [_held(i, f"db{i}-unaffected") for i in (1, 2) if of(f"db{i}-unaffected")]
    found += [
        _held_ratio(key, when, id)
        for key, when, id in (("ratio", "", "two-to-one"), ("ratio_after", "after the files ", "ratio-after"))
        if of(id)
    ]
    found += [_offer(i, f"db{i}-smoother") for i in (1, 2) if of(f"db{i}-smoother")]
    if beside and of("cbc-more", "cbc-less-stable"):
        found.append(_shorter(*of("cbc-more", "cbc-less-stable")))
    return tuple(found)


# Settings whose rows are judged in every test: few runs, shared by all figures of the setting.
CHEAP = (S4, H8, H4)


def figure(number: int, setting: str, quantity: str, beside: str = "", variants: tuple[str, ...] = ()) -> Row:
    """The row of one figure: one quantity over time in one setting, compared with another where need be;
    `variants` are those of the controller that its claims need at each point of the search.
    """
    what = QUANTITIES[quantity][1].split(" (")[0]

    def drawn(m: Measurement, lab: Any) -> list[Any]:
        return [draw(m, lab, quantity, f"K-{number}", f"Fig {number}: {what}, {setting}")]

    return Row(
        f"K-{number}",
        PAPER,
        f"Fig {number}: {what}, {setting}",
        measure=measurer(setting, beside),
        draw=drawn,
        causes=_causes(f"K-{number}", beside),
        matters=MATTERS,
        probe=prober(setting, beside, *variants),
        cheap=setting in CHEAP,
    )
