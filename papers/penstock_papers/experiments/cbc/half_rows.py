"""Section 4.3, half queues: 8 and 4 Mb/s of files (Fig 16 to 21), and double queues."""

from __future__ import annotations

from penstock_papers.experiments.cbc.setup import D8, H4, H8, MATTERS, S8, draw, measurer, prober
from penstock_papers.experiments.cbc.statements import figure
from penstock_papers.ledger import Cause, Row

K_16 = figure(16, H8, "db1", beside=S8)
K_17 = figure(17, H8, "db2", beside=S8)
K_18 = figure(18, H8, "drops", beside=S8)
K_19 = figure(19, H4, "db1")
K_20 = figure(20, H4, "db2")
K_21 = figure(21, H4, "rtt")


K_DBL = Row(
    "K-dbl",
    "Section 4.3: double queues",
    measure=measurer(D8),
    draw=lambda m, lab: [draw(m, lab, "db1", "K-dbl", "Double queues: DB1 carried, 8 Mb/s, AF31")],
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
