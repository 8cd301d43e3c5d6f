"""What the text states beside its figures: the delay trigger, the size of queues, all settings together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock.runs import RunSet
from penstock_papers.experiments.cbc import setup
from penstock_papers.experiments.common import ratio_of_means
from penstock_papers.ledger import Estimate, Lab, Measurement, Row

# Parameters of the delay trigger other than the paper's: averages over so many round trips, and a base that
# follows as fast.
SLOW_AVERAGE, QUICK_BASE = 32, 0.15


def measure_trigger(lab: Lab) -> Measurement:
    """The delay trigger with the paper's parameters, a slower average and a quicker base; files of 8 Mb/s."""
    given: dict[str, dict[str, Any]] = {
        "as stated": {},
        "average of 32": {"n_rtt": SLOW_AVERAGE},
        "base of 0.15": {"alpha_r": QUICK_BASE},
        "longer minimum": {"min_period": "6s"},
    }
    sets = setup.simulate(
        lab,
        [setup.point(setup.S8, setup.cbc(setup.CHOSEN, **more)) for more in given.values()],
        setup.replications(lab),
    )
    found = dict(zip(given, sets, strict=True))
    stated = found["as stated"]

    def kept(key: str) -> Estimate:
        return setup.over(found["longer minimum"], stated, key)

    return {
        "early": {name: Estimate.of(r.values("early")) for name, r in found.items()},
        # The share of runs in which control is on when the first packet is lost.
        "before the loss": {name: Estimate.of(r.values("ready_for_loss")) for name, r in found.items()},
        "by delay": {name: Estimate.of(r.values("by_delay")) for name, r in found.items()},
        "triggers, quicker base over stated": ratio_of_means(
            found["base of 0.15"].values("by_delay"), stated.values("by_delay")
        ),
        "longer minimum over stated": {key: kept(key) for key in ("db1", "db2", "ftp")},
    }


def _pairs(lab: Lab, settings: tuple[str, ...]) -> dict[str, tuple[RunSet, RunSet]]:
    points = [setup.point(s, control) for s in settings for control in ("none", setup.cbc())]
    sets = setup.simulate(lab, points, setup.replications(lab))
    return {s: (sets[2 * i], sets[2 * i + 1]) for i, s in enumerate(settings)}


def _distance(runs: RunSet) -> Any:
    return np.abs(runs.values("ratio") - 2)


def measure_depth(lab: Lab) -> Measurement:
    """Half, full and double queues with files of 8 Mb/s; half queues with 4 Mb/s beside them."""
    found = _pairs(lab, (setup.H8, setup.S8, setup.D8, setup.H4))
    who = {"plain": 0, "cbc": 1}

    def steps(key: str, i: int) -> dict[str, Estimate]:
        half, full, double = (found[s][i] for s in (setup.H8, setup.S8, setup.D8))
        return {
            "full over half": setup.over(full, half, key),
            "double over full": setup.over(double, full, key),
        }

    return {
        # How far CBC's ratio is from 2:1.
        "distance": {
            name: Estimate.of(_distance(found[s][1]))
            for name, s in (("half", setup.H8), ("full", setup.S8), ("double", setup.D8))
        },
        "distance, deeper over shallower": {
            "full over half": ratio_of_means(_distance(found[setup.S8][1]), _distance(found[setup.H8][1])),
            "double over full": ratio_of_means(_distance(found[setup.D8][1]), _distance(found[setup.S8][1])),
        },
        "drops": {name: steps("drops", i) for name, i in who.items()},
        "rtt": {name: steps("rtt_mean", i) for name, i in who.items()},
        "variation, 4 over 8 Mb/s": {
            name: {key: setup.over(found[setup.H4][i], found[setup.H8][i], key) for key in ("cv1", "cv2")}
            for name, i in who.items()
        },
    }


ALL = (setup.S8, setup.S4, setup.S2, setup.H8, setup.H4, setup.E8, setup.E4, setup.EH4, setup.EH2, setup.A4)


def measure_all(lab: Lab) -> Measurement:
    """Every setting of section 4 with either controller."""
    found: Mapping[str, tuple[RunSet, RunSet]] = _pairs(lab, ALL)
    return {
        "ratio": {s: Estimate.of(control.values("ratio")) for s, (_, control) in found.items()},
        "drops over": {s: setup.over(control, plain, "drops") for s, (plain, control) in found.items()},
        "variation over": {s: setup.over(control, plain, "cv1") for s, (plain, control) in found.items()},
    }


def _by_depth(m: Measurement, key: str) -> dict[str, Estimate]:
    return {f"{step}, {who}": e for who, steps in m[key].items() for step, e in steps.items()}


def drops_by_depth(m: Measurement) -> dict[str, Estimate]:
    """Drops with deeper queues over those with shallower ones, with either controller."""
    return _by_depth(m, "drops")


def rtt_by_depth(m: Measurement) -> dict[str, Estimate]:
    """Mean round trips with deeper queues over those with shallower ones, with either controller."""
    return _by_depth(m, "rtt")


def choppier(m: Measurement) -> dict[str, Estimate]:
    """Variation with 4 Mb/s of files over that with 8, of both databases with either controller."""
    return _by_depth(m, "variation, 4 over 8 Mb/s")


TEXT_ROWS = [
    Row("K-trigger", "Section 3.2: what sets control", measure=measure_trigger),
    Row("K-depth", "Section 4.3: half, full and double queues", measure=measure_depth),
    Row("K-all", "Every setting of section 4", measure=measure_all),
]
