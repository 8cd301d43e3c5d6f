"""Section 4.4, equal priority: all flows in one class (Fig 22 to 33, and the text on AF31)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.experiments.cbc.setup import (
    A4,
    E4,
    E8,
    EH2,
    EH4,
    MATTERS,
    PAPER,
    S4,
    S8,
    draw,
    measurer,
    point,
    prober,
    replications,
    simulate,
)
from penstock.experiments.cbc.statements import (
    about_two,
    again,
    drastically,
    figure,
    growth,
    lower,
    more_than,
    nearer_two,
    no,
    some,
)
from penstock.ledger import Cause, Claim, Estimate, Measurement, Row, at_most

if TYPE_CHECKING:
    from penstock.ledger import Lab

_LESS = "the throughput behavior is less stable than in section 4.2 but otherwise similar"
_MORE = (
    "a result of more severe packet drops at the router by the RED mechanism due to smaller overall buffer"
)
_BETTER = "TCPv4 performs significantly better than TCPv3"
_UNSTABLE = "higher packet drops by RED results in less stable behavior than in section 4.2"
_DEEPER = "the packet drops and retransmissions increase further due to shallower queue"
_ERRATIC = "Still, TCPv4 behaves much less erratically than TCPv3"
_RATIO = "it is able to achieve the approximate 2:1 ratio in both cases"
_AF31 = "the files in AF31"


def _where(number: int) -> str:
    return f"section 4.4, Fig {number}"


K_22 = figure(
    22,
    E8,
    "db1",
    more_than("cv1", "plain", _AF31, "tcp-less-stable", _LESS, _where(22)),
    more_than("cv1", "cbc", _AF31, "cbc-less-stable", _LESS, _where(22)),
    nearer_two("otherwise similar", "section 4.4, Fig 22 and 23"),
    lower("cv1", "db1-smoother", "otherwise similar", _where(22)),
    beside=S8,
)

K_23 = figure(
    23,
    E8,
    "db2",
    more_than("cv2", "plain", _AF31, "tcp-less-stable", _LESS, _where(23)),
    more_than("cv2", "cbc", _AF31, "cbc-less-stable", _LESS, _where(23)),
    again(K_22, "closer", _where(23)),
    lower("cv2", "db2-smoother", "otherwise similar", _where(23)),
    beside=S8,
)

K_24 = figure(
    24,
    E8,
    "retransmits",
    more_than("retransmits", "plain", _AF31, "tcp-more", _MORE, _where(24)),
    more_than("retransmits", "cbc", _AF31, "cbc-more", _MORE, _where(24)),
    drastically("retransmits", "retransmits-cut", "otherwise similar", _where(24)),
    beside=S8,
)

K_25 = figure(
    25,
    E4,
    "db1",
    lower("cv1", "db1-smoother", _BETTER, _where(25)),
    more_than("cv1", "plain", _AF31, "tcp-less-stable", _UNSTABLE, _where(25)),
    more_than("cv1", "cbc", _AF31, "cbc-less-stable", _UNSTABLE, _where(25)),
    beside=S4,
)

K_26 = figure(
    26,
    E4,
    "db2",
    lower("cv2", "db2-smoother", _BETTER, _where(26)),
    more_than("cv2", "plain", _AF31, "tcp-less-stable", _UNSTABLE, _where(26)),
    more_than("cv2", "cbc", _AF31, "cbc-less-stable", _UNSTABLE, _where(26)),
    beside=S4,
)

K_27 = figure(
    27,
    E4,
    "retransmits",
    drastically("retransmits", "retransmits-cut", _BETTER, _where(27)),
    more_than("drops", "plain", _AF31, "tcp-more", "higher packet drops by RED", _where(27)),
    more_than("drops", "cbc", _AF31, "cbc-more", "higher packet drops by RED", _where(27)),
    beside=S4,
)

K_28 = figure(
    28,
    EH4,
    "db1",
    about_two(_RATIO, "section 4.4, Fig 28 and 29"),
    lower("cv1", "db1-smoother", _ERRATIC, _where(28)),
    beside=E4,
)

K_29 = figure(
    29,
    EH4,
    "db2",
    again(K_28, "two-to-one", _where(29)),
    lower("cv2", "db2-smoother", _ERRATIC, _where(29)),
    beside=E4,
)

K_30 = figure(
    30,
    EH4,
    "retransmits",
    more_than("drops", "plain", "full queues", "tcp-drops-more", _DEEPER, _where(30)),
    more_than("retransmits", "plain", "full queues", "tcp-more", _DEEPER, _where(30)),
    more_than("retransmits", "cbc", "full queues", "cbc-more", _DEEPER, _where(30)),
    drastically("retransmits", "retransmits-cut", _ERRATIC, _where(30)),
    beside=E4,
)

K_31 = figure(
    31,
    EH2,
    "db1",
    about_two(_RATIO, "section 4.4, Fig 31 and 32"),
    lower("cv1", "db1-smoother", _ERRATIC, _where(31)),
)

K_32 = figure(
    32,
    EH2,
    "db2",
    again(K_31, "two-to-one", _where(32)),
    lower("cv2", "db2-smoother", _ERRATIC, _where(32)),
)

_NO_LONGER = "so much so that even the 2 Mb/sec FTP traffic is no longer loss free"

K_33 = figure(
    33,
    EH2,
    "retransmits",
    some("drops", "cbc-loses", _NO_LONGER, _where(33), who="cbc"),
    drastically("retransmits", "retransmits-cut", _ERRATIC, _where(33)),
)


def _measure_af31(lab: Lab) -> Measurement:
    # One class with the limits of both: does one class lose more because it has less room?
    roomy = simulate(lab, [point(A4, "none", limits="af31=180,af21=60")], replications(lab))[0]
    return {**measurer(A4, S4)(lab), "drops in the room of both": Estimate.of(roomy.values("drops"))}


def _draw_af31(m: Measurement, lab: Lab) -> list[Path]:
    return [draw(m, lab, "drops", "K-AF31", "All AF31: drops at router 2, full queues")]


_ALL = "when all flows use AF31, TCPv4 is able to avoid losses completely, but TCPv3 still has a few losses"

K_AF31 = Row(
    "K-AF31",
    PAPER,
    "Section 4.4: all flows in AF31",
    claims=(
        no("drops", "drops-none", _ALL, "section 4.4"),
        some("drops", "tcp-loses", _ALL, "section 4.4"),
        Claim(
            "tcp-few",
            "plain TCP loses only a few: fewer than with the databases in AF21",
            "order",
            "a few",
            lambda m: m["beside"]["plain"]["drops"],
            at_most(0),
            quote=_ALL,
            where="section 4.4",
            why="few: run by run fewer than beside the smaller share of the buffer",
            say=lambda m: f"{m['plain']['drops']} drops, {m['beside']['plain there']['drops']} with AF21",
        ),
    ),
    measure=_measure_af31,
    draw=_draw_af31,
    causes=(
        growth("drops-none"),
        Cause(
            "all flows in one class share that class's limit, where two classes have two: with the room of "
            "both the "
            "larger part of the difference is gone",
            holds=lambda m: (
                m["plain"]["drops"].mean - m["drops in the room of both"].mean
                > 0.5 * m["beside"]["plain"]["drops"].mean
                > 0
            ),
            evidence=lambda m: (
                f"{m['plain']['drops'].mean:.0f} drops within 120 packets, "
                f"{m['drops in the room of both'].mean:.0f} within 180, "
                f"{m['beside']['plain there']['drops'].mean:.0f} with AF21"
            ),
            of=("tcp-few",),
        ),
    ),
    matters=(*MATTERS, "scenario.all_af31_ftp"),
    probe=prober(A4, S4),
)

EQUAL_ROWS = [K_22, K_23, K_24, K_25, K_26, K_27, K_28, K_29, K_30, K_31, K_32, K_33]
