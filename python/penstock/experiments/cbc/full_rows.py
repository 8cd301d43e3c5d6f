"""Section 4.2, full queues: 8, 4 and 2 Mb/s of files (Fig 4 to 15, and the text on 2 Mb/s)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.experiments.cbc.setup import (
    CARRY,
    LOUD,
    MATTERS,
    PAPER,
    S2,
    S4,
    S8,
    cbc,
    measurer,
    point,
    prober,
)
from penstock.experiments.cbc.statements import (
    about_two,
    again,
    both,
    drastically,
    figure,
    keeps,
    lower,
    more_than,
    nearer_two,
    no,
    some,
    unaffected,
)
from penstock.experiments.cbc.states import draw_states
from penstock.ledger import Cause, Claim, Measurement, Row, at_least, at_most, every, none, within

if TYPE_CHECKING:
    from penstock.ledger import Lab

_DOWN = "both IP packet drops and retransmissions go down drastically"
_SMOOTH = "As a bonus, the throughput is far less variable than for TCPv3"
_CLOSER = "the DB2 flow also suffers, in a proportion closer to 2:1 (but not quite)"
_SEVERE = "results in a significant amount of packet losses and retransmissions"

K_4 = figure(
    4,
    S8,
    "ftp",
    Claim(
        "files-less",
        "the files carry less than they offer, with either controller",
        "bound",
        "less than offered",
        lambda m: m["offered"]["share"],
        every(at_most(0.98)),
        quote="Under severe congestion, this traffic will be less than offered even with FTP traffic at a "
        "higher "
        "DSCP value",
        where="section 4.1, Fig 4",
        why="2 % less is the least that the figure would show",
        say=lambda m: (
            f"{m['plain']['ftp'] * 1e-6} Mb/s with TCP, {m['cbc']['ftp'] * 1e-6} with CBC, of "
            f"{m['offered']['bps'] / 1e6:.2f} offered"
        ),
    ),
    lower(
        "cvf",
        "files-smoother",
        "Even the interfering FTP traffic experiences a much smoother throughput for v4",
        "section 4.2, Fig 4",
    ),
    lower(
        "below",
        "link-fuller",
        "overall router link utilization ... shows much fewer and shorter excursions below the nominal 100% "
        "level",
        "section 4.2",
        "with CBC the link between the routers is below full for fewer seconds",
    ),
)

K_5 = figure(
    5,
    S8,
    "drops",
    some("drops", "tcp-loses", _SEVERE, "section 4.2, Fig 5"),
    drastically("drops", "drops-cut", _DOWN, "section 4.2, Fig 5"),
    Claim(
        "initially",
        "with CBC drops happen only initially",
        "ratio",
        "only initially",
        "at first",
        at_least(0.9),
        quote="with TCPv4, packet drops happen only initially",
        where="section 4.2, Fig 5",
        why="nine of ten in the first two seconds of the files, or none at all",
        say=lambda m: (
            f"{m['cbc']['drops_onset']} drops in the first two seconds, {m['cbc']['drops_later']} in the "
            f"other 58"
        ),
    ),
)

K_6 = figure(
    6,
    S8,
    "retransmits",
    drastically("retransmits", "retransmits-cut", _DOWN, "section 4.2, Fig 6"),
)

K_7 = figure(
    7,
    S8,
    "db1",
    keeps(
        "db1-severe",
        "plain TCP's DB1 is affected severely",
        stated="affected severely",
        who="plain1",
        criterion=at_most(0.75),
        quote="DB1 traffic is affected severely but DB2 traffic almost stays at the same level!",
        where="section 4.2, Fig 7",
        why="severely: a quarter of what it carries before the files is lost",
    ),
    Claim(
        "equalises",
        "plain TCP pretty much equalises the two databases",
        "ratio",
        "pretty much equal",
        lambda m: m["plain"]["ratio"],
        at_most(1.25),
        quote="TCP pretty much equalizes the bandwidth of the two flows even though we started with 2:1 "
        "ratio",
        where="section 4.2, Fig 7 and 8",
        why="nearly equal: DB1:DB2 at most 1.25",
        say=both("ratio"),
    ),
    nearer_two(_CLOSER, "section 4.2, Fig 7 and 8"),
    Claim(
        "not-quite",
        "CBC's ratio does not quite reach 2:1",
        "bound",
        "not quite 2:1",
        lambda m: m["cbc"]["ratio"],
        at_most(1.95),
        quote="although the 2:1 throughput ratio isn't quite achieved",
        where="section 4.2",
        why="not quite: visibly below",
        say=both("ratio"),
    ),
    lower("cv1", "db1-smoother", _SMOOTH, "section 4.2, Fig 7"),
)

K_8 = figure(
    8,
    S8,
    "db2",
    keeps(
        "db2-stays",
        "plain TCP's DB2 almost stays at its level",
        stated="almost the same level",
        who="plain2",
        criterion=at_least(0.9),
        quote="DB1 traffic is affected severely but DB2 traffic almost stays at the same level!",
        where="section 4.2, Fig 8",
        why="almost: nine tenths of what it carries before the files",
    ),
    keeps(
        "db2-suffers",
        "with CBC DB2 suffers too",
        stated="also suffers",
        who="cbc2",
        criterion=at_most(0.9),
        quote="Furthermore, unlike TCPv3, the DB2 flow also suffers",
        where="section 4.2, Fig 8",
        why="what the other claim calls almost the same level is no suffering",
    ),
    again(K_7, "equalises", "section 4.2, Fig 8"),
    again(K_7, "closer", "section 4.2, Fig 8"),
    lower("cv2", "db2-smoother", _SMOOTH, "section 4.2, Fig 8"),
)

K_9 = figure(
    9,
    S8,
    "rtt",
    Claim(
        "tcp-delays",
        "with plain TCP the RTT increases under congestion",
        "ratio",
        "increases",
        "rtt raised",
        at_least(1.5),
        quote="The RTT also increases due to congestion",
        where="section 4.2, Fig 9",
        why="by half at least, of what it is before the files",
        unit="times",
    ),
    lower("rtt_std", "rtt-steadier", "the RTT shows much lower fluctuations", "section 4.2, Fig 9"),
)

_NONE = "TCPv4 for DB traffic completely avoids any packet drops and retransmissions"
_STILL = "TCPv3 still experiences significant losses, retransmissions and throughput irregularities"
_IMPACT = "the interfering traffic basically has no impact on DB1 and DB2 throughput for TCPv4"

K_10 = figure(
    10,
    S4,
    "ftp",
    Claim(
        "files-alike",
        "the files carry much the same with either controller",
        "equal",
        "little difference",
        "files alike",
        within(1, 0.05),
        quote="in Fig. 10, there is little difference between TCPv3 and “TCPv4” cases",
        where="section 4.2, Fig 10",
        why="little: 5 %",
        unit="times TCP's",
    ),
    beside=S8,
)

K_11 = figure(
    11,
    S4,
    "drops",
    no("drops", "drops-none", _NONE, "section 4.2, Fig 11"),
    some("drops", "tcp-loses", _STILL, "section 4.2, Fig 11"),
    Claim(
        "by-delay",
        "preventing losses is the delay trigger's doing: without it CBC loses packets",
        "bound",
        "delay-related control",
        lambda m: m["variants"][LOUD]["drops"],
        at_least(1),
        quote="the loss prevention is primarily an effect of delay related control",
        where="section 4.2",
        why="at least one per run without the trigger",
        say=lambda m: (
            f"{m['cbc']['drops']} drops, {m['variants'][LOUD]['drops']:.1f} without the delay trigger"
        ),
    ),
    beside=S8,
    variants=(LOUD,),
)

K_12 = figure(
    12,
    S4,
    "retransmits",
    no("retransmits", "retransmits-none", _NONE, "section 4.2, Fig 12"),
    some("retransmits", "tcp-repeats", _STILL, "section 4.2, Fig 12"),
    beside=S8,
)

K_13 = figure(
    13,
    S4,
    "db1",
    unaffected(1, _IMPACT, "section 4.2, Fig 13"),
    lower("cv1", "db1-smoother", _STILL, "section 4.2, Fig 13"),
    more_than(
        "cv1",
        "plain",
        "8 Mb/s of files",
        "oscillates-more",
        "a significant increase in TCP oscillations, especially for TCPv3",
        "section 4.2",
    ),
    beside=S8,
)

K_14 = figure(
    14,
    S4,
    "db2",
    unaffected(2, _IMPACT, "section 4.2, Fig 14"),
    lower("cv2", "db2-smoother", _STILL, "section 4.2, Fig 14"),
    about_two("both connections continue to maintain 1:2 throughput ratio", "section 4.2, Fig 13 and 14"),
    beside=S8,
)

K_15 = figure(
    15,
    S4,
    "rtt",
    lower(
        "rtt_std", "rtt-steadier", "The results ... primarily an effect of delay related control", "Fig 15"
    ),
    beside=S8,
)


# ---- 2 Mb/s -----------------------------------------------------------------------------------------------


def _draw_states(m: Measurement, lab: Lab) -> list[Path]:
    return [draw_states(lab, point(S2, cbc()))]


_2M = "section 4.2, 2 Mb/s"

K_2M = Row(
    "K-2M",
    PAPER,
    "Section 4.2: 2 Mb/s, AF31, full",
    claims=(
        some("drops", "tcp-loses", "TCPv3 still experienced losses and some sharp throughput dips", _2M),
        no("drops", "drops-none", "Needless to say, TCPv4 did just fine here", _2M),
        Claim(
            "sets-in",
            "the control goes into effect",
            "bound",
            "it did",
            lambda m: m["cbc"]["controlled"],
            at_least(0.05),
            quote="whether the control goes in effect (it did)",
            where=_2M,
            why="for a twentieth of the files' time at least",
            unit="of the files' time",
        ),
        Claim(
            "stays",
            "the control stays on during the congestion",
            "bound",
            "no problems",
            lambda m: m["cbc"]["controlled"],
            at_least(0.95),
            quote="any problems in terms of staying on with the control during the congestion period (none)",
            where=_2M,
            why="at least 95 % of the files' time",
            unit="of the files' time",
        ),
        Claim(
            "promptly",
            "the control is released promptly when the congestion ends",
            "bound",
            "promptly",
            "release",
            at_most(5),
            quote="whether the control is released promptly and permanently when the congestion ends (it "
            "did)",
            where=_2M,
            why="promptly: within 5 s, two and a half minimum periods",
            unit="s",
        ),
        Claim(
            "permanently",
            "the control is released for good",
            "none lost",
            "permanently",
            "relapses",
            none,
            quote="whether the control is released promptly and permanently when the congestion ends (it "
            "did)",
            where=_2M,
            say=lambda m: f"connections controlled again {m['relapses']} times in the 40 s after the files",
        ),
    ),
    measure=measurer(S2),
    draw=_draw_states,
    causes=(
        Cause(
            "the databases' own bursts trigger control without any files, by the delay of server 1's own "
            "link: without "
            "the delay trigger it is set again less often",
            holds=lambda m: (
                m["cbc"]["early"].mean > 0.02 and m["variants"][LOUD]["relapses"] < 0.5 * m["relapses"].mean
            ),
            evidence=lambda m: (
                f"set {m['cbc']['early'].mean:.2f} times per second before the files; after them again "
                f"{m['relapses'].mean:.1f} times, without the delay trigger "
                f"{m['variants'][LOUD]['relapses']:.1f}"
            ),
            of=("permanently", "promptly"),
        ),
        Cause(
            "at this load congestion is not continuous: the link is not full all the time, even with plain "
            "TCP",
            holds=lambda m: m["plain"]["below"].mean > 0.2,
            evidence=lambda m: f"below 95 % in {m['plain']['below'].mean:.0%} of the seconds with TCP",
            of=("stays",),
        ),
        Cause(
            "fractions carried over fill the caps and the queue",
            holds=lambda m: m["variants"][CARRY]["drops"] < m["cbc"]["drops"].mean,
            evidence=lambda m: f"{m['cbc']['drops']} drops, {m['variants'][CARRY]['drops']:.1f} with them",
            of=("drops-none",),
        ),
    ),
    matters=MATTERS,
    probe=prober(S2),
)

FULL_ROWS = [K_4, K_5, K_6, K_7, K_8, K_9, K_10, K_11, K_12, K_13, K_14, K_15]
