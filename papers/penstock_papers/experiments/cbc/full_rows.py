"""Section 4.2, full queues: 8, 4 and 2 Mb/s of files (Fig 4 to 15, and the text on 2 Mb/s)."""

from __future__ import annotations

from typing import Any

from penstock_papers.experiments.cbc import setup
from penstock_papers.experiments.cbc.statements import figure
from penstock_papers.experiments.cbc.states import draw_states
from penstock_papers.experiments.common import over
from penstock_papers.ledger import Estimate, Measurement, Row


def excursion_over(m: Measurement) -> Any:
    """The mean length of an excursion of the link below full, CBC's over plain TCP's; zero where CBC has
    none.
    """
    plain, control = m["excursion"]["plain"], m["excursion"]["cbc"]
    if not m["plain"]["excursions"].mean > 0:
        return Estimate.exact(1.0)
    if not m["cbc"]["excursions"].mean > 0:
        return Estimate.exact(0.0)
    return over(control, plain)


def lost_elsewhere(m: Measurement) -> list[Estimate]:
    """Drops at every port but that from router 2 to router 1, with either controller."""
    return [m[who]["other_drops"] for who in ("plain", "cbc")]


def lost_share_elsewhere(m: Measurement) -> Estimate:
    """Drops with plain TCP at every other port, over the packets that come to router 2."""
    here, share = m["plain"]["drops"], m["plain"]["lost_share"]
    return Estimate.exact(m["plain"]["other_drops"].mean * share.mean / max(here.mean, 1.0))


K_4 = figure(4, setup.S8, "ftp")
K_5 = figure(5, setup.S8, "drops")
K_6 = figure(6, setup.S8, "retransmits")
K_7 = figure(7, setup.S8, "db1")
K_8 = figure(8, setup.S8, "db2")
K_9 = figure(9, setup.S8, "rtt")
K_10 = figure(10, setup.S4, "ftp", beside=setup.S8)
K_11 = figure(11, setup.S4, "drops", beside=setup.S8, variants=(setup.LOUD,))
K_12 = figure(12, setup.S4, "retransmits", beside=setup.S8)
K_13 = figure(13, setup.S4, "db1", beside=setup.S8)
K_14 = figure(14, setup.S4, "db2", beside=setup.S8)
K_15 = figure(15, setup.S4, "rtt", beside=setup.S8)


# ---- 2 Mb/s -----------------------------------------------------------------------------------------------


K_2M = Row(
    "K-2M",
    "Section 4.2: 2 Mb/s, AF31, full",
    measure=setup.measurer(setup.S2),
    draw=lambda m, lab: [draw_states(lab, setup.point(setup.S2, setup.cbc()))],
    matters=setup.MATTERS,
    probe=setup.prober(setup.S2),
)

FULL_ROWS = [K_4, K_5, K_6, K_7, K_8, K_9, K_10, K_11, K_12, K_13, K_14, K_15]
