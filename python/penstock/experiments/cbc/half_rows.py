"""Section 4.3, half queues: 8 and 4 Mb/s of files (Fig 16 to 21), and double queues."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.experiments.cbc.setup import D8, H4, H8, MATTERS, PAPER, S8, draw, measurer, prober
from penstock.experiments.cbc.statements import (
    about_two,
    again,
    both,
    concentrated,
    figure,
    lower,
    slower_back,
)
from penstock.ledger import Cause, Claim, Measurement, Row, at_least, at_most, within

if TYPE_CHECKING:
    from penstock.ledger import Lab

_TWO = "TCPv4 does indeed cut down the two flows just enough to maintain approximately 2:1 ratio"
_SMOOTH = "Still, the throughput is far smoother for TCPv4 than for TCPv3"
_BACK = "It is evident from Figs 16, 17, 19, and 20, that TCPv4 recovers a bit more slowly than TCPv3"

K_16 = figure(
    16,
    H8,
    "db1",
    about_two(_TWO, "section 4.3, Fig 16 and 17"),
    lower("cv1", "db1-smoother", _SMOOTH, "section 4.3, Fig 16"),
    slower_back(1, _BACK, "section 4.3, Fig 16"),
    beside=S8,
)

K_17 = figure(
    17,
    H8,
    "db2",
    again(K_16, "two-to-one", "section 4.3, Fig 17"),
    lower("cv2", "db2-smoother", _SMOOTH, "section 4.3, Fig 17"),
    slower_back(2, _BACK, "section 4.3, Fig 17"),
    beside=S8,
)

_LOSSES = (
    "a concentration of initial losses (when the control is taking effect) followed by much lower losses"
)

K_18 = figure(
    18,
    H8,
    "drops",
    Claim(
        "half-more",
        "half queues lead to much higher losses than full ones, with plain TCP",
        "ratio",
        "much higher losses",
        lambda m: m["beside"]["plain, half more"],
        at_least(0),
        quote="As expected, a shallower queue leads to much higher losses",
        where="section 4.3, Fig 18",
        why="much: by half at least",
        say=lambda m: f"{m['plain']['drops']} drops, with full queues {m['beside']['plain there']['drops']}",
    ),
    concentrated(
        "CBC's losses are concentrated at the start",
        "a concentration of initial losses",
        _LOSSES,
        "section 4.3, Fig 18",
        "a concentration: per second twice as many in the first two seconds as later",
    ),
    Claim(
        "later-fewer",
        "after that CBC's losses are much lower than plain TCP's",
        "ratio",
        "much lower",
        lambda m: m["below half"]["drops_later"],
        at_least(0),
        quote=_LOSSES,
        where="section 4.3, Fig 18",
        why="much: to less than half",
        say=both("drops_later"),
    ),
    beside=S8,
)

_TWO_4 = "the DB1 to DB2 throughput is able to maintain the approximate 2:1 ratio"
_SMOOTH_4 = "Consequently, the throughput is smoother for TCPv4 than for TCPv3"

K_19 = figure(
    19,
    H4,
    "db1",
    about_two(_TWO_4, "section 4.3, Fig 19 and 20"),
    lower("cv1", "db1-smoother", _SMOOTH_4, "section 4.3, Fig 19"),
    lower("drops", "fewer", "The losses (not shown) are still smaller for TCPv4", "section 4.3"),
    concentrated(
        "CBC's losses are concentrated initially",
        "concentrated initially",
        "The losses (not shown) are still smaller for TCPv4 and concentrated initially",
        "section 4.3",
        "per second twice as many in the first two seconds as later",
    ),
    slower_back(1, _BACK, "section 4.3, Fig 19"),
    Claim(
        "ratio-after",
        "CBC attempts 2:1 during the backlog after the congestion too",
        "number",
        "2:1",
        lambda m: m["cbc"]["ratio_after"],
        within(2, by=0.3),
        quote="TCPv4 attempts to achieve the 2:1 throughput ratio even during this period",
        where="section 4.3",
        why="about: within 0.3, in the six seconds after the files",
        say=both("ratio_after"),
    ),
)

K_20 = figure(
    20,
    H4,
    "db2",
    again(K_19, "two-to-one", "section 4.3, Fig 20"),
    lower("cv2", "db2-smoother", _SMOOTH_4, "section 4.3, Fig 20"),
    slower_back(2, _BACK, "section 4.3, Fig 20"),
)

_TRAP = (
    "there is a small period where the RTT falls to a normal level in TCPv4 before climbing up (see Fig 21)"
)

K_21 = figure(
    21,
    H4,
    "rtt",
    Claim(
        "falls",
        "after the files CBC's RTT falls to a normal level",
        "ratio",
        "falls to a normal level",
        lambda m: m["trap"]["lowest"],
        at_most(1.25),
        quote=_TRAP,
        where="section 4.3, Fig 21",
        why="normal: at most a quarter above plain TCP's undisturbed mean",
        say=lambda m: (
            f"lowest at t = {m['trap']['second']:.0f} s, {m['trap']['lowest']:.2f} times the undisturbed "
            f"{m['trap']['normal']:.1f} ms"
        ),
    ),
    Claim(
        "climbs",
        "and then climbs again",
        "ratio",
        "before climbing up",
        lambda m: m["trap"]["climbs"],
        at_least(1.5),
        quote=_TRAP,
        where="section 4.3, Fig 21",
        why="by half at least",
        unit="times its lowest",
    ),
)


def _draw_double(m: Measurement, lab: Lab) -> list[Path]:
    return [draw(m, lab, "db1", "K-dbl", "Double queues: DB1 carried, 8 Mb/s, AF31")]


K_DBL = Row(
    "K-dbl",
    PAPER,
    "Section 4.3: double queues",
    claims=(
        Claim(
            "db1-mainly",
            "with double queues CBC mainly cuts DB1",
            "ratio",
            "primarily DB1",
            "cut",
            at_least(0),
            quote="it primarily cuts down DB1 throughput",
            where="section 4.3",
            why="primarily: DB1 loses more than twice the share that DB2 loses",
            say=lambda m: f"DB1 keeps {m['kept']['cbc1']}, DB2 {m['kept']['cbc2']} of what they carry before",
        ),
    ),
    measure=measurer(D8),
    draw=_draw_double,
    causes=(
        Cause(
            "both are cut in proportion to the requirements that the set froze, whatever the queue",
            holds=lambda m: (
                "latched" in m["cbc"] and abs(m["cbc"]["ratio"].mean - m["cbc"]["latched"].mean) <= 0.25
            ),
            evidence=lambda m: f"ratio kept {m['cbc']['ratio']}, frozen {m['cbc']['latched']}",
        ),
    ),
    matters=MATTERS,
    probe=prober(D8),
)

HALF_ROWS = [K_16, K_17, K_18, K_19, K_20, K_21]
