"""Section 4.4, equal priority: all flows in one class (Fig 22 to 33, and the text on AF31)."""

from __future__ import annotations

from penstock_papers.experiments.cbc import setup
from penstock_papers.experiments.cbc.statements import figure
from penstock_papers.ledger import Estimate, Lab, Measurement, Row

K_22 = figure(22, setup.E8, "db1", beside=setup.S8)
K_23 = figure(23, setup.E8, "db2", beside=setup.S8)
K_24 = figure(24, setup.E8, "retransmits", beside=setup.S8)
K_25 = figure(25, setup.E4, "db1", beside=setup.S4)
K_26 = figure(26, setup.E4, "db2", beside=setup.S4)
K_27 = figure(27, setup.E4, "retransmits", beside=setup.S4)
K_28 = figure(28, setup.EH4, "db1", beside=setup.E4)
K_29 = figure(29, setup.EH4, "db2", beside=setup.E4)
K_30 = figure(30, setup.EH4, "retransmits", beside=setup.E4)
K_31 = figure(31, setup.EH2, "db1")
K_32 = figure(32, setup.EH2, "db2")
K_33 = figure(33, setup.EH2, "retransmits", beside=setup.S2)


def _measure_af31(lab: Lab) -> Measurement:
    # One class with the limits of both: does one class lose more because it has less room?
    roomy = setup.simulate(
        lab, [setup.point(setup.A4, "none", limits="af31=180,af21=60")], setup.replications(lab)
    )[0]
    return {
        **setup.measurer(setup.A4, setup.S4)(lab),
        "drops in the room of both": Estimate.of(roomy.values("drops")),
    }


K_AF31 = Row(
    "K-AF31",
    "Section 4.4: all flows in AF31",
    measure=_measure_af31,
    draw=lambda m, lab: [setup.draw(m, lab, "drops", "K-AF31", "All AF31: drops at router 2, full queues")],
    matters=(*setup.MATTERS, "scenario.all_af31_ftp"),
    probe=setup.prober(setup.A4, setup.S4),
)

EQUAL_ROWS = [K_22, K_23, K_24, K_25, K_26, K_27, K_28, K_29, K_30, K_31, K_32, K_33]
