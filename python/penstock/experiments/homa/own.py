"""Slowdown by message size, W3 and W5: pHost, PIAS and NDP by the rules of their own simulators.

What these do otherwise than Homa's simulation is `rules`. Those of PIAS are stated, by the files with which
Homa's authors ran its ns-2 (ns2_Simulations of PlatformLab/HomaSimulation: piasAllRpcParams.py and
piasSearchParams.py, 20a0bbd9; search_pias.tcl, 90a6f980; analysis/outputParser.py). Those of pHost (YAPS) and
NDP (its authors' htsim) are what experiments showed (docs/validation.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.experiments.homa import picture, setup
from penstock.experiments.homa import sizes as distributions
from penstock.experiments.lossless import chosen
from penstock.ledger import Cause, Claim, Estimate, Measurement, Row, at_least, at_most, every, within
from penstock.runs import Run

if TYPE_CHECKING:
    from penstock.ledger import Lab

PAPER = "homa"
CHOSEN = chosen(__file__)
BINS = setup.published("published_own.toml")
W3 = [name for name in BINS if name.startswith("W3")]
W5 = [name for name in BINS if name.startswith("W5")]
# NDP with less load than it is published for, beside the same numbers.
LESS = "W5 NDP 70"
# Bytes up to which messages of W5 are one group: a bin of 1 % has few messages in a short run.
GROUPS = (9_200, 100_000, 1_000_000, 5_100_000, 40_000_000)
WHERE = "section 5.2, the figures on slowdown by message size: their published data"


@dataclass(frozen=True)
class Rules:
    """A simulator: payload of a packet and headers, which are all that is on the wire; messages per second
    and host at full load, by how each counts it; published bytes of a packet.
    """

    protocol: str
    payload: int
    header: int
    rate: float
    packet: int
    cards: bool = False
    cut_through: bool = False
    spread: str | None = None
    buffer: str = "10MB"

    def at(self) -> dict[str, Any]:
        """The set-up with its packets."""
        ours = {"payload": self.payload, "overhead": self.header, "cut_through": self.cut_through}
        return {**CHOSEN, **{f"network.{key}": value for key, value in ours.items()}}


# Demotion thresholds in bytes, by workload and load.
THRESHOLDS = {
    "W3 80": (436, 554, 633, 720, 784, 865, 939),
    "W3 50": (466, 579, 631, 693, 736, 774, 799),
    "W5 80": tuple(1460 * n for n in (909, 1329, 1648, 1960, 2143, 2337, 2484)),
}


def rules(name: str) -> Rules:
    """Those of "W5 PIAS 80"."""
    workload, transport, load = name.split()
    short = workload == "W3"
    # As many messages as with Homa's packets: payload has its share of the load.
    sizes, cdf = (np.array(column) for column in distributions.of(workload))
    mean = float(np.sum(sizes * np.diff(cdf, prepend=0.0)))
    equal = (0.887 if short else 0.898) * 10e9 / 8 / mean
    match transport:
        case "pHost":
            tokens = "token_window=8" if short else "free=7,token_window=5"
            text = f"phost:header=40,buffer=36864B,{tokens},apart=false"
            return Rules(text, 1460, 40, equal, 1460, cut_through=True)
        case "PIAS":
            limits = "+".join(f"{n}B" for n in THRESHOLDS[f"{workload} {load}"])
            # K = 15 packets that wait; here what is in service counts too. There, ten connections of a pair
            # of hosts are kept, in far longer runs: here so few that each has as many messages, or (W3) many.
            text = "pias:header=40,window=7,k=24000B,rto=200us,adapt=true,dupacks=0,grow=true,alpha=0"
            text = f"{text},kept={1 if short else 3},thresholds={limits}"
            # Payload over throughput, ACKs counted, and mean size, as stated.
            share, size = (2927.4 / 3150.3, 2927.354) if short else (2547262 / 2686844, 1745 * 1460)
            rate = share * 10e9 / 8 / size
            more: dict[str, Any] = {"cards": True, "spread": "packet", "buffer": "375000B"}
            return Rules(text, 1460, 40, rate, 1460, **more)
        case _:
            # Data, ACK and PULL are the load; PULLs at the rate of payload.
            text = "ndp:header=64,window=7,pace=1.0427,fifo=true"
            return Rules(text, 1500, 64, 10e9 / 8 / (mean / 1442 * (1564 + 2 * 64)), 1500)


def _point(lab: Lab, name: str, racks: int, duration: str) -> tuple[Any, dict[str, Any]]:
    workload, transport, load = name.split()
    own = rules(name)
    network = setup.network(
        own.at(), lab.out / transport.lower(), workload, racks, cards=own.cards, buffer=own.buffer
    )
    traffic = setup.poisson(workload, int(load) / 100 * own.rate * racks * setup.RACK)
    settings = setup.settings(own.at(), own.protocol, duration, traffic)
    return network, {**settings, **({"spread": own.spread} if own.spread else {})}


def _bins_of(name: str) -> list[setup.Bin]:
    return BINS["W5 NDP 80" if name == LESS else name]


def _name(run: Run) -> str:
    """Which of the runs it is: loads with one protocol have the same bins."""
    return next(name for name in BINS if rules(name).protocol == run.scenario["set"]["protocol"])


def _found(run: Run, name: str) -> Any:
    own = rules(name)
    found = setup.slowdowns(own.at(), run.tables, str(run.scenario["set"]["duration"]))
    if not name.startswith("W5"):
        return found
    # Published sizes of W5 are whole packets, and the first bin is one packet whatever that has.
    packets = -(-found["bytes"].to_numpy() // own.payload)
    edges = _bins_of(name)[0]
    return found.with_columns(bytes=np.where(packets == 1, edges[1], packets * own.packet))


def _by_bin(run: Run) -> dict[str, float]:
    name = _name(run)
    return setup.percentiles(_found(run, name), _bins_of(name))


def _by_group(run: Run) -> dict[str, float]:
    """Of the messages of each group: median of slowdown over the published median of their bins, "p50.0",
    ...; of the messages of all bins the share beyond the published 99th percentile of theirs, "beyond".
    """
    name = _name(run)
    found = _found(run, name)
    sizes, slowdown = found["bytes"].to_numpy(), found["slowdown"].to_numpy()
    over, slower, size = [], [], []
    for lower, upper, p50, p99 in _bins_of(name):
        inside = (sizes > lower) & (sizes <= upper)
        over.append(slowdown[inside] / p50)
        slower.append(slowdown[inside] > p99)
        size.append(sizes[inside])
    ratio, group = np.concatenate(over), np.searchsorted(GROUPS, np.concatenate(size))
    medians = {f"p50.{i}": float(np.median(ratio[group == i])) for i in range(len(GROUPS))}
    return {**medians, "beyond": float(np.mean(np.concatenate(slower)))}


def _sweep(lab: Lab, name: str, racks: int, duration: str, derive: Any) -> Any:
    point = _point(lab, name, racks, duration)
    (found,) = lab.sweep([point], keep=("flows", "transfers"), derive=derive)
    return found


def _measure_w3(lab: Lab) -> Measurement:
    racks, duration = lab.pick((setup.RACKS, "20ms"), (setup.RACKS, "6ms"))
    measured = {}
    for name in W3:
        found = _sweep(lab, name, racks, duration, _by_bin)
        count = len(_bins_of(name))
        measured[name] = {
            key: [float(found.mean(f"{key}.{i}")) for i in range(count)] for key in ("p50", "p99")
        }
    return measured


def _measure_w5(lab: Lab) -> Measurement:
    measured = {}
    # NDP's numbers grow for longer than those of the others.
    lengths = {name: lab.pick("800ms", "400ms" if "NDP" in name else "200ms") for name in (*W5, LESS)}
    for name, duration in lengths.items():
        found = _sweep(lab, name, 3, duration, _by_group)
        medians = [float(found.mean(f"p50.{i}")) for i in range(len(GROUPS))]
        measured[name] = {"medians": medians, "beyond": float(found.mean("beyond"))}
    return measured


def _off(m: Measurement, name: str) -> float:
    """By how much the medians of the groups are off together, as a logarithm; but for that of the longest
    messages, which the end of a short run cuts off.
    """
    return float(abs(np.mean(np.log(m[name]["medians"][:-1]))))


def _near(measured: Mapping[str, Any], name: str, key: str) -> float:
    stated = np.array([one[2 if key == "p50" else 3] for one in _bins_of(name)])
    return float(np.mean(np.abs(np.asarray(measured[key]) / stated - 1) <= 0.1))


def _bins(name: str) -> tuple[Claim, Claim]:
    _, transport, load = name.split()

    def claim(what: str, text: str, key: str) -> Claim:
        return Claim(
            f"{transport.lower()}-{load}-{what}",
            f"{transport}: {text} of slowdown by size (W3 at {load} %)",
            "number",
            "published",
            lambda m: Estimate.exact(_near(m[name], name, key)),
            at_least(0.85),
            where=f"{WHERE}, W3",
            why="ten per cent of a bin's number, in 85 % of the bins",
        )

    return claim("median", "medians", "p50"), claim("tail", "99th percentiles", "p99")


def _groups(name: str) -> tuple[Claim, Claim]:
    transport = name.split()[1]
    low = transport.lower()
    where = f"{WHERE}, W5"
    return (
        Claim(
            f"{low}-median",
            f"{transport}: medians of slowdown, of five groups of sizes (W5 at 80 %)",
            "number",
            "published",
            lambda m: m[name]["medians"],
            every(within(1, 0.1)),
            where=where,
            why="ten per cent of the published median of each message's bin",
        ),
        Claim(
            f"{low}-tail",
            f"{transport}: a hundredth of the messages is slower than the 99th percentile (W5 at 80 %)",
            "bound",
            "1 %",
            lambda m: m[name]["beyond"],
            at_most(0.02),
            where=where,
            why="twice the share: bins have too few messages for a percentile of each",
        ),
    )


def _draw_w3(m: Measurement, lab: Lab) -> list[Path]:
    names = {name: name.removeprefix("W3 ") + " %" for name in W3}
    bins = {label: _bins_of(name) for name, label in names.items()}
    found = {label: m[name] for name, label in names.items()}
    return picture.draw(lab, "W3", bins, found, name="w3-own", log=True)


HOMA_W3_OWN = Row(
    "HOMA-W3-OWN",
    PAPER,
    "Slowdown by message size of pHost and PIAS by the rules of their own simulators, W3 (section 5.2)",
    claims=tuple(claim for name in W3 for claim in _bins(name)),
    measure=_measure_w3,
    draw=_draw_w3,
)

HOMA_W5_OWN = Row(
    "HOMA-W5-OWN",
    PAPER,
    "Slowdown of pHost, PIAS and NDP by the rules of their own simulators, W5 at 80 % (section 5.2)",
    claims=tuple(claim for name in W5 for claim in _groups(name)),
    measure=_measure_w5,
    causes=(
        Cause(
            "the published load of NDP is not 80 % of the links but some 70 (so the paper, from memory): "
            "at 80 % a fair share of the links is less than the published one, whatever shares them",
            holds=lambda m: _off(m, LESS) <= 0.5 * _off(m, "W5 NDP 80"),
            evidence=lambda m: "; ".join(
                f"{name}: medians {', '.join(f'{x:.2f}' for x in m[name]['medians'])} of the published ones"
                for name in ("W5 NDP 80", LESS)
            ),
            of=("ndp-median", "ndp-tail"),
        ),
    ),
)

ROWS: list[Row] = [HOMA_W3_OWN, HOMA_W5_OWN]
