"""The statements that the paper makes of several figures, as claims, and their causes.

The paper gives no numbers, so we chose these. *Drastically* is less than half. *Nearly equal* is a ratio of
at most 1.25, and *about 2:1* is within 2 +/- 0.3. *Unaffected* is within 5 %. *Only initially* is at least 90
% in the first two seconds. *Lower* and *smoother* are lower run by run.
"""

from __future__ import annotations

from collections.abc import Callable
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
from penstock.ledger import Cause, Claim, Criterion, Measurement, Row, at_least, none, repeated, within

_NAMES = {
    "drops": "drops",
    "drops_later": "drops after the first two seconds",
    "retransmits": "retransmissions to DB1",
    "cv1": "variation of DB1",
    "cv2": "variation of DB2",
    "cvf": "variation of the files",
    "rtt_std": "standard deviation of DB1's RTT",
    "below": "share of seconds in which the link is not full",
}
# About 2:1 is within this of it.
_ABOUT = 0.3
_SCALE = {"rtt_std": (1e3, " ms")}


def both(key: str) -> Callable[[Measurement], str]:
    """Both controllers' numbers in words."""
    scale, unit = _SCALE.get(key, (1.0, ""))

    def say(m: Measurement) -> str:
        plain, cbc = (m[who][key] * scale for who in ("plain", "cbc"))
        return f"{_NAMES.get(key, key)} {plain}{unit} with TCP, {cbc}{unit} with CBC"

    return say


def _is(key: str) -> str:
    return "are" if key.startswith(("drops", "retransmits")) else "is"


def lower(key: str, id: str, quote: str, where: str, text: str = "") -> Claim:
    """CBC's number is lower than plain TCP's, run by run."""
    return Claim(
        id,
        text or f"the {_NAMES[key]} {_is(key)} lower with CBC than with plain TCP",
        "order",
        "lower with CBC",
        lambda m: m["less"][key],
        at_least(0),
        quote=quote,
        where=where,
        why="run by run, the whole interval above zero",
        say=both(key),
    )


def drastically(key: str, id: str, quote: str, where: str) -> Claim:
    """CBC has less than half."""
    return Claim(
        id,
        f"CBC cuts the {_NAMES[key]} drastically",
        "ratio",
        "drastically fewer",
        lambda m: m["below half"][key],
        at_least(0),
        quote=quote,
        where=where,
        why="drastically: to less than half of plain TCP's",
        say=both(key),
    )


def no(key: str, id: str, quote: str, where: str) -> Claim:
    """CBC has none in any run."""
    return Claim(
        id,
        f"with CBC there are no {_NAMES[key]}",
        "none lost",
        "none",
        lambda m: m["cbc"][key],
        none,
        quote=quote,
        where=where,
        say=both(key),
    )


def some(key: str, id: str, quote: str, where: str, who: str = "plain") -> Claim:
    """There are some: at least one in a run on average."""
    name = {"plain": "plain TCP", "cbc": "CBC"}[who]
    return Claim(
        id,
        f"with {name} there are {_NAMES[key]}",
        "bound",
        "some",
        lambda m: m[who][key],
        at_least(1),
        quote=quote,
        where=where,
        why="at least one per run",
        unit="per run",
    )


def about_two(quote: str, where: str) -> Claim:
    """CBC keeps about 2:1."""
    return Claim(
        "two-to-one",
        "with CBC the databases keep about 2:1",
        "number",
        "about 2:1",
        lambda m: m["cbc"]["ratio"],
        within(2, by=_ABOUT),
        quote=quote,
        where=where,
        why="about: within 0.3",
        say=both("ratio"),
    )


def nearer_two(quote: str, where: str) -> Claim:
    """CBC's ratio is nearer to 2:1 than plain TCP's."""
    return Claim(
        "closer",
        "with CBC DB1:DB2 is closer to 2:1 than with plain TCP",
        "order",
        "closer to 2:1",
        "nearer two",
        at_least(0),
        quote=quote,
        where=where,
        why="run by run, the whole interval above zero",
        say=both("ratio"),
    )


def unaffected(i: int, quote: str, where: str) -> Claim:
    """A database under CBC carries what it carries undisturbed."""
    return Claim(
        f"db{i}-unaffected",
        f"with CBC the files have no impact on DB{i}'s throughput",
        "equal",
        "basically no impact",
        lambda m: m["kept"][f"cbc{i}"],
        within(1, 0.05),
        quote=quote,
        where=where,
        why="basically none: within 5 % of what it carries with plain TCP before the files",
        unit="of what it carries before the files",
    )


def keeps(
    id: str, text: str, *, stated: str, who: str, criterion: Criterion, quote: str, where: str, why: str
) -> Claim:
    """The share of its earlier throughput that a database keeps; `who`: "plain1", "cbc2" and so on."""
    return Claim(
        id,
        text,
        "bound",
        stated,
        lambda m: m["kept"][who],
        criterion,
        quote=quote,
        where=where,
        why=why,
        unit="of what it carries before the files",
    )


def concentrated(text: str, stated: str, quote: str, where: str, why: str) -> Claim:
    """CBC loses, per second, twice as many packets in the first two seconds as later."""
    return Claim(
        "concentrated",
        text,
        "ratio",
        stated,
        "concentrated",
        at_least(0),
        quote=quote,
        where=where,
        why=why,
        say=lambda m: (
            f"{m['cbc']['drops_onset']} drops in the first two seconds, {m['cbc']['drops_later']} in the "
            f"other 58"
        ),
    )


def slower_back(i: int, quote: str, where: str) -> Claim:
    """After the files a database returns to its offer later with CBC."""
    return Claim(
        f"db{i}-slower-back",
        f"after the files DB{i} recovers more slowly with CBC",
        "order",
        "a bit more slowly",
        lambda m: m["less"][f"after{i}"],
        at_least(0),
        quote=quote,
        where=where,
        why="it carries less in the six seconds after them, run by run",
        say=lambda m: (
            f"DB{i} in the six seconds after the files {m['plain'][f'after{i}'] * 1e-6} Mb/s with TCP, "
            f"{m['cbc'][f'after{i}'] * 1e-6} Mb/s with CBC"
        ),
    )


def more_than(key: str, who: str, other: str, id: str, quote: str, where: str) -> Claim:
    """More than in another setting."""
    name = {"plain": "plain TCP", "cbc": "CBC"}[who]
    return Claim(
        id,
        f"with {name} the {_NAMES[key]} is more than with {other}"
        if key.startswith("cv")
        else f"with {name} there are more {_NAMES[key]} than with {other}",
        "order",
        "more",
        lambda m: m["beside"][who][key],
        at_least(0),
        quote=quote,
        where=where,
        why="run by run, the whole interval above zero",
        say=lambda m: f"{_NAMES[key]} {m[who][key]}, with {other} {m['beside'][f'{who} there'][key]}",
    )


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


def _causes(claims: tuple[Claim, ...], beside: str) -> tuple[Cause, ...]:
    """The causes of whichever of the claims a figure has."""
    ids = {claim.id for claim in claims}

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
        for key, when, id in (
            ("ratio", "", "two-to-one"),
            ("ratio_after", "after the files ", "ratio-after"),
        )
        if of(id)
    ]
    found += [_offer(i, f"db{i}-smoother") for i in (1, 2) if of(f"db{i}-smoother")]
    if beside and of("cbc-more", "cbc-less-stable"):
        found.append(_shorter(*of("cbc-more", "cbc-less-stable")))
    return tuple(found)


# Settings whose rows are judged in every test: few runs, shared by all figures of the setting.
CHEAP = (S4, H8, H4)


def figure(
    number: int,
    setting: str,
    quantity: str,
    *claims: Claim,
    beside: str = "",
    variants: tuple[str, ...] = (),
) -> Row:
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
        claims=claims,
        measure=measurer(setting, beside),
        draw=drawn,
        causes=_causes(claims, beside),
        matters=MATTERS,
        probe=prober(setting, beside, *variants),
        cheap=setting in CHEAP,
    )


def again(row: Row, id: str, where: str) -> Claim:
    """A claim of another row, shown once more."""
    return repeated(next(claim for claim in row.claims if claim.id == id), row.id, where)


__all__ = [
    "about_two",
    "again",
    "both",
    "drastically",
    "figure",
    "growth",
    "lower",
    "more_than",
    "nearer_two",
    "no",
    "slower_back",
    "some",
    "unaffected",
]
