"""Section 3: connections that are not permanent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock import figures
from penstock_papers.experiments.cbc import trace
from penstock_papers.experiments.cbc.setup import MATTERS, S8, TABLES, at, cbc, point
from penstock_papers.ledger import Estimate, Lab, Measurement, Row

#: Responses per connection: 1 s and 2 s of the two databases, 5 s and 10 s, 20 s and 40 s.
LIVES = (50, 250, 1000)
PLAIN, INHERITING, ANEW = "plain TCP", "CBC, inheriting", "CBC, starting anew"


def _compared(lab: Lab, chosen: Mapping[str, Any], lives: tuple[int, ...], runs: int) -> dict[str, Any]:
    controls = {PLAIN: "none", INHERITING: cbc(chosen), ANEW: cbc(chosen, inherit="false")}
    points = [
        ("db-ftp", point(S8, control, chosen, db_per_connection=n))
        for control in controls.values()
        for n in lives
    ]
    found = lab.sweep(points, runs=runs, keep=TABLES, derive=trace.outside)
    sets = {name: found[i * len(lives) : (i + 1) * len(lives)] for i, name in enumerate(controls)}

    keys = ("cv1", "ratio", "drops", "early")
    return {
        **{
            key: {n: [Estimate.of(r.values(key)) for r in points] for n, points in sets.items()}
            for key in keys
        },
        "variation over TCP's, long": {
            name: Estimate.of(sets[name][-1].values("cv1") / sets[PLAIN][-1].values("cv1"))
            for name in (INHERITING, ANEW)
        },
    }


def _draw(m: Measurement, lab: Lab) -> list[Path]:
    paths = []
    for key, label, name in (
        ("cv1", "coefficient of variation of DB1", "K-open"),
        ("ratio", "DB1:DB2", "K-open-ratio"),
    ):
        with figures.style():
            figure, (ax,) = figures.new()
            for i, (who, points) in enumerate(m[key].items()):
                half = [(e.high - e.low) / 2 for e in points]
                figures.band(ax, LIVES, [e.mean for e in points], half, who, i)
            ax.set(xscale="log", xlabel="responses per connection", ylabel=label, ylim=(0, None))
            ax.set_xticks(LIVES, [str(n) for n in LIVES])
            ax.set_title("Connections that come and go: 8 Mb/s, AF31, full")
            ax.legend()
            paths.append(lab.save(figure, name))
    return paths


def variation_in_words(m: Measurement) -> str:
    """The variation of DB1 by the length of connections."""
    each = (
        f"{name}: " + ", ".join(f"{e} of {n}" for e, n in zip(points, LIVES, strict=False))
        for name, points in m["cv1"].items()
    )
    return "; ".join(each) + " responses per connection"


K_OPEN = Row(
    "K-open",
    "Section 3: connections that are not permanent",
    measure=lambda lab: _compared(lab, at({}), LIVES, lab.replications(20, 4)),
    draw=_draw,
    matters=MATTERS,
    probe=lambda lab, settings: _compared(lab, at(settings), (LIVES[0], LIVES[-1]), 1),
)
