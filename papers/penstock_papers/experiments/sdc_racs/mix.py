"""Short flows beside two long ones in numbers (sections 3.5.2 and 4.3.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from penstock.runs import RunSet
from penstock_papers.experiments.sdc_racs import setup
from penstock_papers.ledger import Estimate, Lab, Measurement

WHO = (*setup.CHAPTER_3, setup.RACS, setup.RCP)
STATED_MS = {setup.SDC: 2.6, setup.SACK: 12.0, setup.ECN: 42.4, setup.RACS: 2.0, setup.RCP: 2.67}
STATED_USE = {setup.SDC: 98.11, setup.SACK: 99.99, setup.ECN: 99.99, setup.RACS: 98.77, setup.RCP: 98.13}
STATED_LOSS = {setup.SACK: 0.134, setup.ECN: 0.132}

# Other plausible parameters, one changed at a time.
_SDC_VARIANTS = {
    "as chosen": setup.sdc(),
    "γ equal": setup.sdc(gamma="1/1/1"),
    "α = 0.9": setup.sdc(setup.at({"model.alpha_ab": 0.9})),
    "gain 5": setup.sdc(setup.at({"sdc.gain_ac": 5})),
    "gain 50": setup.sdc(setup.at({"sdc.gain_ac": 50})),
    "t_p = 150 µs": setup.sdc(interval="150us"),
    "t_p = 600 µs": setup.sdc(interval="600us"),
    "limits halved": setup.sdc(sizes="25pkt/50pkt"),
    "limits doubled": setup.sdc(sizes="100pkt/200pkt"),
    "exact load": setup.sdc(feedback="exact"),
    "first window 4": setup.sdc(initial_window=4),
}
_HEAVIER = "RACS with more weight"
_RACS_VARIANTS = {
    "as chosen": setup.racs(),
    "equal weights": setup.racs(w_max=0),
    "w_max = 4": setup.racs(w_max=4),
    "w_max = 49": setup.racs(w_max=49),
    "a = 1 / 10 KB": setup.racs(a=1e-4),
    "a = 1 / 1 MB": setup.racs(a=1e-6),
    "5 % kept free": setup.racs(target=0.95),
    "(4.3) as printed": setup.racs(accounting="counter"),
}


def _settings(chosen: Mapping[str, Any] = setup.CHOSEN, **more: Any) -> dict[str, Any]:
    arrivals = chosen["simulation.mix_arrivals"]
    given = {"sizes": "uniform:2KB:50KB", "arrivals": arrivals, "long_flows": 2, **more}
    return given | (setup.REQUESTS if given["arrivals"] == "closed" else {})


def _mix(
    lab: Lab,
    who: Sequence[setup.Contender],
    runs: int,
    length: Mapping[str, Any],
    chosen: Mapping[str, Any] = setup.CHOSEN,
    **more: Any,
) -> dict[str, RunSet]:
    points = [("mix", c.settings(chosen, **_settings(chosen, **length, **more))) for c in who]
    return {c.label: r for c, r in zip(who, lab.sweep(points, runs=runs), strict=True)}


def _numbers(found: Mapping[str, RunSet], unit: str = "%") -> dict[str, Any]:
    """What the tables print, with its interval: AFCT (ms), utilisation (%), loss rate; and the mean queue."""
    keys = {
        "afct": ("fct_mean_s", 1e3),
        "utilisation": ("utilisation", 100.0),
        "loss": ("drop_rate", 100.0 if unit == "%" else 1.0),
        "queue": ("queue_mean_packets", 1.0),
        "drops": ("drops", 1.0),
    }
    return {
        name: {label: Estimate.of(scale * r.values(key)) for label, r in found.items()}
        for name, (key, scale) in keys.items()
    }


def _compared(found: Mapping[str, RunSet]) -> dict[str, Any]:
    """The differences that the statements are about, run by run, in ms."""

    def over(a: str, b: str) -> Estimate:
        return Estimate.of(found[a].values("fct_mean_s") / found[b].values("fct_mean_s"))

    return {
        "SDC over SACKs": [over(setup.SDC, setup.SACK), over(setup.SDC, setup.ECN)],
        "RACS over SACK": over(setup.RACS, setup.SACK),
        "RACS over others": [over(setup.RACS, setup.SDC), over(setup.RACS, setup.RCP)],
    }


def measure(lab: Lab) -> Measurement:
    """The mix with every scheme; for its causes other arrivals, a first timeout of 10 ms, variants."""
    runs = lab.replications(8, 3)
    length = lab.pick(
        {"warmup": "2s", "duration": "62s"},
        {"warmup": "1s", "duration": "8s"},
        {"warmup": "100ms", "duration": "300ms"},
    )
    all_ = setup.contenders()
    found = _mix(lab, [all_[c] for c in (*WHO, "DCTCP", "D3")], runs, length)
    # Is it the lost SYNs?
    soon = _mix(lab, [all_[setup.SACK], all_[setup.ECN]], runs, length, rto_initial="10ms")
    heavier = {"a closed loop": "closed", "1000 flows/s": "poisson:1000"}
    short = lab.pick(length, {"warmup": "1s", "duration": "3s"}, length)
    elsewhere = {
        name: _numbers(_mix(lab, [all_[c] for c in setup.CHAPTER_4], 1, short, arrivals=arrivals))
        for name, arrivals in heavier.items()
    }
    alone = lab.runs("long-flows", all_[setup.SDC].settings(flows=2, warmup="500ms", duration="1500ms"))
    # More weight for short flows: any that helps is enough.
    heavy = [setup.Contender(str(w), setup.racs(w_max=w)) for w in (49, 499, 4999)]
    strong = min(_mix(lab, heavy, runs, length).values(), key=lambda r: r.mean("fct_mean_s"))
    more = found[setup.RACS].values("fct_mean_s") - strong.values("fct_mean_s")
    return {
        **_numbers(found, setup.CHOSEN["simulation.loss_unit"]),
        **_compared(found),
        "first timeout 10 ms": {label: e.mean for label, e in _numbers(soon)["afct"].items()},
        "elsewhere": elsewhere,
        "two SDC flows alone": 100 * alone.mean("utilisation"),
        "gained by weight": Estimate.of(1e3 * more),
        "more weight over chosen": Estimate.of(
            strong.values("fct_mean_s") / found[setup.RACS].values("fct_mean_s")
        ),
        "sensitivity": {
            "SDC": _variants(lab, _SDC_VARIANTS, short),
            "RACS": _variants(lab, _RACS_VARIANTS, short),
        },
        "trace": {c: _trace(lab, all_[c]) for c in WHO},
    }


def _variants(lab: Lab, variants: Mapping[str, str], length: Mapping[str, Any]) -> dict[str, Any]:
    found = _mix(lab, [setup.Contender(label, spec) for label, spec in variants.items()], 1, length)
    return {key: {k: e.mean for k, e in _numbers(found)[key].items()} for key in ("afct", "utilisation")}


def _trace(lab: Lab, who: setup.Contender) -> dict[str, Any]:
    """The queue over half a second."""
    settings = who.settings(**_settings(warmup="1s", duration="1500ms", sample="1ms", series=True))
    series = lab.runs("mix", settings, keep=("series",)).tables(0)["series"]
    queue = series.filter((pl.col("metric") == "queue_packets") & (pl.col("time_s") >= 1.0))
    return {"time": queue["time_s"].to_numpy(), "queue": queue["value"].to_numpy()}


def probe(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    """One point of the search: one short run of each scheme."""
    chosen = setup.at(settings)
    length = {"warmup": "500ms", "duration": "4s"}
    # Five times the gain of short flows over long ones, as 49 for 9.
    heavier = setup.Contender(_HEAVIER, setup.racs(chosen, w_max=5 * (1 + chosen["racs.w_max"]) - 1))
    found = _mix(lab, [*(setup.contenders(chosen)[c] for c in WHO), heavier], 1, length, chosen)
    strong = found.pop(_HEAVIER)
    more = found[setup.RACS].values("fct_mean_s") - strong.values("fct_mean_s")
    return {
        **_numbers(found, chosen["simulation.loss_unit"]),
        **_compared(found),
        "gained by weight": Estimate.of(1e3 * more),
    }
