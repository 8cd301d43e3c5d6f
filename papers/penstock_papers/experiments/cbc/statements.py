"""The row of a figure, and the causes of claims that several figures have."""

from __future__ import annotations

from typing import Any

from penstock_papers.experiments.cbc import setup
from penstock_papers.experiments.cbc.trace import PAYLOAD_BPS
from penstock_papers.ledger import Cause, Measurement, Row
from penstock_papers.ledger.selection import statements_of

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
            f"{m['kept and frozen']:.2f}; without the delay trigger "
            f"{m['variants'][setup.LOUD]['ratio']:.2f} kept of {m['variants'][setup.LOUD]['latched']:.2f}; "
            f"control is set {m['cbc']['early']} times per second before any file"
        ),
        of=ids,
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


def _causes(row: str) -> tuple[Cause, ...]:
    """The causes of whichever of the claims a figure has."""
    ids = {claim.id for claim in statements_of(setup.PAPER).rows[row]}

    def of(*names: str) -> tuple[str, ...]:
        return tuple(name for name in names if name in ids)

    ratio = of("two-to-one", "closer", "db2-suffers", "db1-mainly", "not-quite")
    room = of("db1-unaffected", "db2-unaffected", "db2-stays")
    return (*((_ratio(*ratio),) if ratio else ()), *((_room(*room),) if room else ()))


# Settings whose rows are judged in every test: few runs, shared by all figures of the setting.
CHEAP = (setup.S4, setup.H8, setup.H4)


def figure(number: int, setting: str, quantity: str, beside: str = "", variants: tuple[str, ...] = ()) -> Row:
    """The row of one figure: one quantity over time in one setting, compared with another where need be;
    `variants` are those of the controller that its claims need at each point of the search.
    """
    what = setup.QUANTITIES[quantity][1].split(" (")[0]

    def drawn(m: Measurement, lab: Any) -> list[Any]:
        return [setup.draw(m, lab, quantity, f"K-{number}", f"Fig {number}: {what}, {setting}")]

    return Row(
        f"K-{number}",
        f"Fig {number}: {what}, {setting}",
        measure=setup.measurer(setting, beside),
        draw=drawn,
        causes=_causes(f"K-{number}"),
        matters=setup.MATTERS,
        probe=setup.prober(setting, beside, *variants),
        cheap=setting in CHEAP,
    )
