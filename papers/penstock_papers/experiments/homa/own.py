"""Slowdown by message size, W3 and W5: pHost, PIAS and NDP by the rules of their own simulators.

What these do otherwise than Homa's simulation is `rules`. Those of PIAS are stated, by the files with which
Homa's authors ran its ns-2 (ns2_Simulations of PlatformLab/HomaSimulation: piasAllRpcParams.py and
piasSearchParams.py, 20a0bbd9; search_pias.tcl, 90a6f980; analysis/outputParser.py) and by that ns-2 itself
(tcp.cc and tcp-full.cc, 26247085). Those of pHost are YAPS's (NetSys/simulator:
ext/capabilityflow.cpp, coresim/random_variable.cpp and run/flow_generator.cpp, d4a3289;
ext/capabilityhost.cpp, f8d7a12; ext/pfabricqueue.cpp, 00b7557), but for what choices.toml says; those of
NDP (its authors' htsim) are what experiments showed (docs/validation/homa.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from penstock.runs import Run
from penstock_papers.experiments.homa import judged, picture, setup
from penstock_papers.experiments.homa import sizes as distributions
from penstock_papers.experiments.lossless import chosen
from penstock_papers.ledger import Cause, Estimate, Lab, Measurement, Row

PAPER = "homa"
CHOSEN = chosen(__file__)
BINS = setup.published("published_own.toml")
W3 = [name for name in BINS if name.startswith("W3")]
W5 = [name for name in BINS if name.startswith("W5")]
# Racks and duration of runs with W3: the shorter ones, those of pHost as HOMA-W3's, and those of PIAS. PIAS's
# network continues to fill up beyond 25 ms (docs/validation/homa.md); the published run has 0.44 s.
SHORT, LONG, LONG_PIAS = (3, "15ms"), (setup.RACKS, "20ms"), (3, "200ms")
# Racks and duration of the shortest run.
SMALLEST, SMALLEST_W5 = (2, "2ms"), "5ms"
# Connections of a pair of hosts that PIAS keeps in the longest of these: as one does in the shorter, each has
# as many messages as one of the published ten, 97 at 80 %.
KEPT_LONG = 14
# Of the probes: a point has four runs with W3, three with W5.
PROBE_W3, PROBE_W5, PROBE_NDP = (3, "5ms"), "100ms", "200ms"
# NDP and pHost with less load than they are published for, beside the same numbers. That of pHost is the one
# with which messages above 10 KB, which none of its bins has, are as far from the published as at 50 %.
LESS, LESS_W3 = "W5 NDP 70", "W3 pHost 60"
# PIAS and pHost for a quarter of the time.
SHORTER, SHORTER_PHOST = "W5 PIAS 80 shorter", "W5 pHost 80 shorter"
# Bytes up to which messages of W5 are one group: a bin of 1 % has few messages in a short run.
GROUPS = (9_200, 100_000, 1_000_000, 5_100_000, 40_000_000)


@dataclass(frozen=True)
class Rules:
    """A simulator: payload of a packet and headers, which are all that is on the wire; messages per second
    and host at full load, by how each counts it; published bytes of a packet. `interpolated`: sizes are even
    between those listed, and published as they are.
    """

    protocol: str
    payload: int
    header: int
    rate: float
    packet: int
    cards: bool = False
    cut_through: bool = False
    interpolated: bool = False
    spread: str | None = None
    buffer: str = "10MB"

    @property
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


def rules(name: str, at: Mapping[str, Any] = CHOSEN) -> Rules:
    """Those of "W5 PIAS 80"."""
    workload, transport, load = name.split()[:3]
    low, short = workload.lower(), workload == "W3"
    sizes, cdf = (np.array(column) for column in distributions.of(workload))
    shares = np.diff(cdf, prepend=0.0)
    match transport:
        case "pHost":
            text = f"phost:header=40,buffer=36864B,free={at['phost_own.free']}"
            text += f",token_window={at['phost_own.tokens']},token_life={at['phost_own.life']}"
            text += f",apart={str(at['phost_own.apart']).lower()}"
            # YAPS's settings, and what its hosts and queues do.
            text += ",window_timeout=25,resend=9,hold_last=true,sleeps=true,makes_room=true,bare_again=true"
            # Its load counts the middle of each step, the first from a byte on, and 40 for each packet.
            unit = 1.0 if short else 1460 / 1442
            middle = unit * (sizes + np.concatenate([[1.0], sizes[:-1]])) / 2
            rate = 10e9 / 8 / float(np.sum((middle + 40 * np.ceil(middle / 1460)) * shares))
            cut_through: bool = at["phost_own.cut_through"]
            text += ",in_turn=true"
            return Rules(text, 1460, 40, rate, 1442, cut_through=cut_through, interpolated=True)
        case "PIAS":
            limits = "+".join(f"{n}B" for n in THRESHOLDS[f"{workload} {load}"])
            # K = 15 packets that wait; here what is in service counts too. There, ten connections of a pair
            # of hosts are kept, in longer runs: here so few that each has as many messages.
            text = f"pias:header=40,window={at['pias_own.window']},k={1500 * at['pias_own.k']}B,rto=200us"
            # MinTCP's timeout and probes; windowOption_ 0, cumulative ACKs, ecn_burst_, recover_, SACK's
            # holes.
            text += ",backoff=false,probe=5,halve=false,dupacks=0,grow=true"
            text += (
                f",steps=true,in_order=true,burst=true,later=true,refill=true,alpha={at['pias_own.alpha']}"
            )
            text += f",kept={at[f'pias_own.kept_{low}']},thresholds={limits}"
            # Payload over throughput, ACKs counted, and mean size, as stated.
            share, size = (2927.4 / 3150.3, 2927.354) if short else (2547262 / 2686844, 1745 * 1460)
            rate = share * 10e9 / 8 / size
            more: dict[str, Any] = {"cards": True, "spread": "packet", "buffer": "375000B"}
            return Rules(text, 1460, 40, rate, 1460, **more)
        case _:
            # Data, ACK and PULL are the load; PULLs at the rate of payload.
            mean = float(np.sum(sizes * shares))
            fifo = str(at["ndp_own.fifo"]).lower()
            text = f"ndp:header=64,window={at['ndp_own.window']},pace=1.0427,fifo={fifo}"
            return Rules(text, 1500, 64, 10e9 / 8 / (mean / 1442 * (1564 + 2 * 64)), 1500)


def _point(
    lab: Lab, name: str, racks: int, duration: str, at: Mapping[str, Any]
) -> tuple[Any, dict[str, Any]]:
    workload, transport, stated = name.split()[:3]
    own = rules(name, at)
    load = at["ndp_own.load"] if transport == "NDP" and name != LESS else int(stated)
    network = setup.network(
        own.at, lab.out / transport.lower(), workload, racks, cards=own.cards, buffer=own.buffer
    )
    per_second = load / 100 * own.rate * racks * setup.RACK
    traffic = setup.poisson(workload, per_second, interpolated=own.interpolated)
    settings = setup.settings(own.at, own.protocol, duration, traffic)
    return network, {**settings, **({"spread": own.spread} if own.spread else {})}


def _bins_of(name: str) -> list[setup.Bin]:
    return BINS[{LESS: "W5 NDP 80", LESS_W3: "W3 pHost 80"}.get(name, name)]


def _found(run: Run, workload: str, cut_through: bool, *, begun: bool = False) -> tuple[list[setup.Bin], Any]:
    """The bins of a run, which loads share, and its messages in published sizes; `begun`: those that began in
    its first half, infinitely slow where they had not ended with it.
    """
    protocol = str(run.scenario["set"]["protocol"])
    name = next(
        one for one in BINS if one.lower().startswith(f"{workload} {protocol.split(':')[0]} ".lower())
    )
    own, bins = replace(rules(name), cut_through=cut_through), BINS[name]
    found = setup.slowdowns(own.at, run.tables, str(run.scenario["set"]["duration"]), begun=begun)
    if workload == "W3":
        return bins, found
    # Published sizes of W5 are whole packets, and the first bin is one packet whatever that has; where they
    # are not, it has two.
    length = found["bytes"].to_numpy()
    packets = -(-length // own.payload)
    first = length <= 2 * own.packet if own.interpolated else packets == 1
    size = length if own.interpolated else packets * own.packet
    return bins, found.with_columns(bytes=np.where(first, bins[0][1], size))


def _by_bin(run: Run) -> dict[str, float]:
    """Percentiles of each bin, by the time of a message alone with and ("cut.") without stores."""
    both = {"": False, "cut.": True}
    each = {start: setup.percentiles(*reversed(_found(run, "W3", cut))) for start, cut in both.items()}
    return {f"{start}{key}": value for start, numbers in each.items() for key, value in numbers.items()}


def _by_group(run: Run) -> dict[str, float]:
    """Return two quantities. "p50.0" and so on is the median of slowdown over the published median, per group
    of bins. "beyond" is the share of all messages beyond the published 99th percentile of their bin. Both
    exist for the two times of a message alone, and with "begun." for those that began in the first half. A
    group without messages has an infinite median.
    """
    return {
        f"{start}{more}{key}": value
        for start, cut in {"": False, "cut.": True}.items()
        for more, begun in {"": False, "begun.": True}.items()
        for key, value in _groups_of(*_found(run, "W5", cut, begun=begun)).items()
    }


def _groups_of(bins: list[setup.Bin], found: Any) -> dict[str, float]:
    sizes, slowdown = found["bytes"].to_numpy(), found["slowdown"].to_numpy()
    over, slower, size = [], [], []
    for lower, upper, p50, p99 in bins:
        inside = (sizes > lower) & (sizes <= upper)
        over.append(slowdown[inside] / p50)
        slower.append(slowdown[inside] > p99)
        size.append(sizes[inside])
    ratio, group = np.concatenate(over), np.searchsorted(GROUPS, np.concatenate(size))
    medians = {
        f"p50.{i}": float(np.median(ratio[group == i])) if (group == i).any() else np.inf
        for i in range(len(GROUPS))
    }
    return {**medians, "beyond": float(np.mean(np.concatenate(slower))) if ratio.size else np.inf}


def _w3(lab: Lab, at: Mapping[str, Any], lengths: Mapping[str, tuple[int, str]]) -> Measurement:
    points = [_point(lab, name, *length, at) for name, length in lengths.items()]
    found = lab.sweep(points, keep=("flows", "transfers"), derive=_by_bin)
    return {
        name: judged.of_bins(runs, "cut." if rules(name, at).cut_through else "", _bins_of(name))
        for name, runs in zip(lengths, found, strict=True)
    }


def _w5(lab: Lab, at: Mapping[str, Any], lengths: Mapping[str, str]) -> Measurement:
    points = [_point(lab, name, 3, duration, at) for name, duration in lengths.items()]
    found = lab.sweep(points, keep=("flows", "transfers"), derive=_by_group)
    measured = {}
    for name, runs in zip(lengths, found, strict=True):
        start = "cut." if rules(name, at).cut_through else ""
        # A mean leaves out what is infinite: of a group that no run has nothing is left.
        medians, begun = (
            [x if np.isfinite(x) else np.inf for x in map(float, means)]
            for means in (
                [runs.mean(f"{start}{more}p50.{i}") for i in range(len(GROUPS))] for more in ("", "begun.")
            )
        )
        beyond = float(runs.mean(f"{start}beyond"))
        measured[name] = {"medians": medians, "begun": begun, "beyond": beyond}
    return measured


def _measure_w3(lab: Lab) -> Measurement:
    # Long messages need some time until there are as many as there will be.
    names = (*W3, LESS_W3)
    full = {name: LONG_PIAS if "PIAS" in name else LONG for name in names}
    kept = lab.pick(KEPT_LONG, CHOSEN["pias_own.kept_w3"])
    lengths = lab.pick(full, dict.fromkeys(names, SHORT), dict.fromkeys(names, SMALLEST))
    return _w3(lab, {**CHOSEN, "pias_own.kept_w3": kept}, lengths)


def _measure_w5(lab: Lab) -> Measurement:
    # NDP's numbers grow for longer than those of the others.
    quick = {name: "400ms" if "NDP" in name else "100ms" for name in (*W5, LESS)}
    lengths = {name: lab.pick("800ms", length, SMALLEST_W5) for name, length in quick.items()}
    shorter = lab.pick("200ms", "25ms", SMALLEST_W5)
    return _w5(lab, CHOSEN, {**lengths, SHORTER: shorter, SHORTER_PHOST: shorter})


def _probe_w5(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    lengths = {name: PROBE_NDP if "NDP" in name else PROBE_W5 for name in W5}
    return _w5(lab, {**CHOSEN, **settings}, lengths)


def _off(m: Measurement, name: str) -> float:
    """By how much the medians of the groups are off together, as a logarithm; but for that of the longest
    messages, which the end of a short run cuts off.
    """
    return float(abs(np.mean(np.log(m[name]["medians"][:-1]))))


def _near(m: Measurement, name: str) -> dict[str, float]:
    """Shares of a row's bins within a tenth: of medians and of 99th percentiles."""
    return {key: judged.near(_bins_of(name), m[name], key) for key in judged.KEYS}


def _nearer(m: Measurement, name: str, shorter: str) -> bool:
    """Whether each of its medians that are not within a tenth is nearer to the published one than in a
    quarter of the time.
    """
    medians = np.asarray(m[name]["medians"])
    off, before = (np.abs(np.log(m[one]["medians"])) for one in (name, shorter))
    outside = np.abs(medians - 1) > 0.1
    return bool(outside.any() and np.all((off < before)[outside]))


def _listed(numbers: Sequence[float]) -> str:
    return ", ".join(f"{x:.2f}" for x in numbers)


def _short(transport: str, published: str, name: str, shorter: str) -> Cause:
    return Cause(
        f"the run is short: the published one is of {published}, in which the network goes on filling up",
        holds=lambda m: _nearer(m, name, shorter),
        evidence=lambda m: (
            f"medians {_listed(m[name]['medians'])} of the published ones, in a quarter of the "
            f"time {_listed(m[shorter]['medians'])}"
        ),
        of=(f"{transport}-median",),
    )


def near_published(m: Measurement, name: str, key: str, of: str = "") -> Estimate:
    """Share of the bins within ten per cent of the published numbers; `of` measures another percentile."""
    return Estimate.exact(judged.near(BINS[name], {key: m[name][of or key]}, key))


def _draw_w3(m: Measurement, lab: Lab) -> list[Path]:
    names = {name: name.removeprefix("W3 ") + " %" for name in W3}
    bins = {label: _bins_of(name) for name, label in names.items()}
    found = {label: m[name] for name, label in names.items()}
    return picture.draw(lab, "W3", bins, found, name="w3-own", log=True)


HOMA_W3_OWN = Row(
    "HOMA-W3-OWN",
    "Slowdown by message size of pHost and PIAS by the rules of their own simulators, W3 (section 5.2)",
    measure=_measure_w3,
    causes=(
        Cause(
            "the published numbers of pHost at 80 % are those of less load than their column says: with as "
            "much as fits what is longer than these bins have, 85 % of the medians and of the 99th "
            "percentiles are within a tenth",
            holds=lambda m: min(_near(m, LESS_W3).values()) >= 0.85,
            evidence=lambda m: "; ".join(
                f"{name}: {100 * _near(m, name)['p50']:.0f} and {100 * _near(m, name)['p99']:.0f} % of "
                f"{len(_bins_of(name))} bins"
                for name in ("W3 pHost 80", LESS_W3)
            ),
            of=("phost-80-median", "phost-80-tail"),
        ),
    ),
    draw=_draw_w3,
    matters=tuple(
        name for name in CHOSEN if name.startswith(("phost_own.", "pias_own.")) and not name.endswith("_w5")
    ),
    probe=lambda lab, settings: _w3(lab, {**CHOSEN, **settings}, dict.fromkeys(W3, PROBE_W3)),
)

HOMA_W5_OWN = Row(
    "HOMA-W5-OWN",
    "Slowdown of pHost, PIAS and NDP by the rules of their own simulators, W5 at 80 % (section 5.2)",
    measure=_measure_w5,
    causes=(
        Cause(
            "the published numbers of NDP are those of less load than their column says: with less, half of "
            "the difference of the medians or less is left",
            holds=lambda m: _off(m, LESS) <= 0.5 * _off(m, "W5 NDP 80") < np.inf,
            evidence=lambda m: "; ".join(
                f"{name}: medians {_listed(m[name]['medians'])} of the published ones"
                for name in ("W5 NDP 80", LESS)
            ),
            of=("ndp-median", "ndp-tail"),
        ),
        Cause(
            "what had not ended with the run is not counted: of the longest messages only fast ones are",
            holds=lambda m: all(abs(x - 1) <= 0.1 for x in m["W5 pHost 80"]["begun"]),
            evidence=lambda m: (
                "messages that began in the first half, those that had not ended slower than any: medians "
                f"{_listed(m['W5 pHost 80']['begun'])} of the published ones"
            ),
            of=("phost-median",),
        ),
        _short("pias", "9.3 s", "W5 PIAS 80", SHORTER),
        # 200,000 messages.
        _short("phost", "3.5 s", "W5 pHost 80", SHORTER_PHOST),
    ),
    matters=tuple(
        name
        for name in CHOSEN
        if name.startswith(("phost_own.", "pias_own.", "ndp_own.")) and not name.endswith("_w3")
    ),
    probe=_probe_w5,
)

ROWS: list[Row] = [HOMA_W3_OWN, HOMA_W5_OWN]
