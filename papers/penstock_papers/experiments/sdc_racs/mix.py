"""Short flows beside two long ones in numbers (sections 3.5.2 and 4.3.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from penstock.runs import RunSet
from penstock_papers.experiments.sdc_racs.setup import (
    CHAPTER_3,
    CHAPTER_4,
    CHOSEN,
    ECN,
    RACS,
    RCP,
    REQUESTS,
    SACK,
    SDC,
    Contender,
    at,
    contenders,
    racs,
    sdc,
)
from penstock_papers.ledger import Estimate, Lab, Measurement

WHO = (*CHAPTER_3, RACS, RCP)
STATED_MS = {SDC: 2.6, SACK: 12.0, ECN: 42.4, RACS: 2.0, RCP: 2.67}
STATED_USE = {SDC: 98.11, SACK: 99.99, ECN: 99.99, RACS: 98.77, RCP: 98.13}
STATED_LOSS = {SACK: 0.134, ECN: 0.132}

# Other plausible parameters, one changed at a time.
_SDC_VARIANTS = {
    "as chosen": sdc(),
    "γ equal": sdc(gamma="1/1/1"),
    "α = 0.9": sdc(at({"model.alpha_ab": 0.9})),
    "gain 5": sdc(at({"sdc.gain_ac": 5})),
    "gain 50": sdc(at({"sdc.gain_ac": 50})),
    "t_p = 150 µs": sdc(interval="150us"),
    "t_p = 600 µs": sdc(interval="600us"),
    "limits halved": sdc(sizes="25pkt/50pkt"),
    "limits doubled": sdc(sizes="100pkt/200pkt"),
    "exact load": sdc(feedback="exact"),
    "first window 4": sdc(initial_window=4),
}
_HEAVIER = "RACS with more weight"
_RACS_VARIANTS = {
    "as chosen": racs(),
    "equal weights": racs(w_max=0),
    "w_max = 4": racs(w_max=4),
    "w_max = 49": racs(w_max=49),
    "a = 1 / 10 KB": racs(a=1e-4),
    "a = 1 / 1 MB": racs(a=1e-6),
    "5 % kept free": racs(target=0.95),
    "(4.3) as printed": racs(accounting="counter"),
}


def _settings(chosen: Mapping[str, Any] = CHOSEN, **more: Any) -> dict[str, Any]:
    arrivals = chosen["simulation.mix_arrivals"]
    given = {"sizes": "uniform:2KB:50KB", "arrivals": arrivals, "long_flows": 2, **more}
    return given | (REQUESTS if given["arrivals"] == "closed" else {})


def _mix(
    lab: Lab,
    who: Sequence[Contender],
    runs: int,
    length: Mapping[str, Any],
    chosen: Mapping[str, Any] = CHOSEN,
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

    def less(a: str, b: str) -> Estimate:
        return Estimate.of(1e3 * (found[a].values("fct_mean_s") - found[b].values("fct_mean_s")))

    def over(a: str, b: str) -> Estimate:
        return Estimate.of(found[a].values("fct_mean_s") / found[b].values("fct_mean_s"))

    return {
        "SDC over SACKs": [over(SDC, SACK), over(SDC, ECN)],
        "RACS over others": [over(RACS, SDC), over(RACS, RCP)],
        "SACKs less SDC": [less(SACK, SDC), less(ECN, SDC)],
        "others less RACS": [less(SDC, RACS), less(RCP, RACS)],
    }


def measure(lab: Lab) -> Measurement:
    """The mix with every scheme; for its causes other arrivals, a first timeout of 10 ms, variants."""
    runs = lab.replications(8, 3)
    length = lab.pick(
        {"warmup": "2s", "duration": "62s"},
        {"warmup": "1s", "duration": "8s"},
        {"warmup": "100ms", "duration": "300ms"},
    )
    all_ = contenders()
    found = _mix(lab, [all_[c] for c in (*WHO, "DCTCP", "D3")], runs, length)
    # Is it the lost SYNs?
    soon = _mix(lab, [all_[SACK], all_[ECN]], runs, length, rto_initial="10ms")
    heavier = {"a closed loop": "closed", "1000 flows/s": "poisson:1000"}
    short = lab.pick(length, {"warmup": "1s", "duration": "3s"}, length)
    elsewhere = {
        name: _numbers(_mix(lab, [all_[c] for c in CHAPTER_4], 1, short, arrivals=arrivals))
        for name, arrivals in heavier.items()
    }
    alone = lab.runs("long-flows", all_[SDC].settings(flows=2, warmup="500ms", duration="1500ms"))
    # More weight for short flows: any that helps is enough.
    heavy = [Contender(str(w), racs(w_max=w)) for w in (49, 499)]
    strong = min(_mix(lab, heavy, runs, length).values(), key=lambda r: r.mean("fct_mean_s"))
    more = found[RACS].values("fct_mean_s") - strong.values("fct_mean_s")
    return {
        **_numbers(found, CHOSEN["simulation.loss_unit"]),
        **_compared(found),
        "first timeout 10 ms": {label: e.mean for label, e in _numbers(soon)["afct"].items()},
        "elsewhere": elsewhere,
        "two SDC flows alone": 100 * alone.mean("utilisation"),
        "gained by weight": Estimate.of(1e3 * more),
        "more weight over chosen": Estimate.of(
            strong.values("fct_mean_s") / found[RACS].values("fct_mean_s")
        ),
        "sensitivity": {
            "SDC": _variants(lab, _SDC_VARIANTS, short),
            "RACS": _variants(lab, _RACS_VARIANTS, short),
        },
        "trace": {c: _trace(lab, all_[c]) for c in WHO},
    }


def _variants(lab: Lab, variants: Mapping[str, str], length: Mapping[str, Any]) -> dict[str, Any]:
    found = _mix(lab, [Contender(label, spec) for label, spec in variants.items()], 1, length)
    return {key: {k: e.mean for k, e in _numbers(found)[key].items()} for key in ("afct", "utilisation")}


def _trace(lab: Lab, who: Contender) -> dict[str, Any]:
    """The queue over half a second."""
    settings = who.settings(**_settings(warmup="1s", duration="1500ms", sample="1ms", series=True))
    series = lab.runs("mix", settings, keep=("series",)).tables(0)["series"]
    queue = series.filter((pl.col("metric") == "queue_packets") & (pl.col("time_s") >= 1.0))
    return {"time": queue["time_s"].to_numpy(), "queue": queue["value"].to_numpy()}


def probe(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    """One point of the search: one short run of each scheme."""
    chosen = at(settings)
    length = {"warmup": "500ms", "duration": "4s"}
    # Five times the gain of short flows over long ones, as 49 for 9.
    heavier = Contender(_HEAVIER, racs(chosen, w_max=5 * (1 + chosen["racs.w_max"]) - 1))
    found = _mix(lab, [*(contenders(chosen)[c] for c in WHO), heavier], 1, length, chosen)
    strong = found.pop(_HEAVIER)
    more = found[RACS].values("fct_mean_s") - strong.values("fct_mean_s")
    return {
        **_numbers(found, chosen["simulation.loss_unit"]),
        **_compared(found),
        "gained by weight": Estimate.of(1e3 * more),
    }
