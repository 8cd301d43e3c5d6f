"""Sections 3.5.1 and 4.3.1, multi-hop: the shares of four flows over three switches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from penstock import figures
from penstock.runs import RunSet
from penstock_papers.experiments.common import centre
from penstock_papers.experiments.sdc_racs import setup
from penstock_papers.ledger import Cause, Estimate, Lab, Measurement, Row

# Senders and receivers of the thesis, counted from zero, and its names for the flows.
_HOPS = ((0, 1), (1, 2), (3, 2), (3, 4))
_NAMES = ("1→2", "2→3", "4→3", "4→5")
# Two readings of "share a bottleneck switch": links as drawn, on which 1→2 meets no other flow, and switches
# that are one channel inside.
_LINKS, _SHARED, _EQUAL = "links of Fig 3.6", "switch as one channel", "one channel, equal RTT"
_FREE = "one channel, 5 % kept free"


def _shares(runs: RunSet) -> list[Estimate]:
    """Goodput of the four flows in Mb/s, in the thesis's order."""
    out = []
    for i in range(len(runs.runs)):
        flows = runs.tables(i)["flows"]
        seconds = runs.summaries[i]["measured_s"]
        # Hosts are numbered in order of declaration.
        hosts = sorted(set(flows["src"]) | set(flows["dst"]))
        rows = flows.select("src", "dst", "acked_bytes").rows()
        rate = {(hosts.index(s), hosts.index(d)): 8e-6 * b / seconds for s, d, b in rows}
        out.append([rate[hop] for hop in _HOPS])
    return [Estimate.of(column) for column in np.array(out).T]


def _cases(who: str) -> dict[str, dict[str, Any]]:
    contender = setup.contenders()[who]
    cases = {
        _LINKS: contender.settings(),
        _SHARED: contender.settings(fabric="shared"),
        _EQUAL: contender.settings(fabric="shared", core_delay="0s"),
    }
    if who == setup.RACS:
        cases[_FREE] = setup.Contender(setup.RACS, setup.racs(target=0.95)).settings(fabric="shared")
    return cases


def _measure(lab: Lab, who: str) -> Measurement:
    cases, runs = _cases(who), lab.replications(5, 2)
    length = lab.pick({}, {}, {"warmup": "100ms", "duration": "200ms"})
    found = lab.sweep(
        [("multi-hop", {**case, **length}) for case in cases.values()], runs=runs, keep=("flows",)
    )
    return {"shares": {label: _shares(r) for label, r in zip(cases, found, strict=True)}}


def _probe(who: str) -> Callable[[Lab, Mapping[str, Any]], Measurement]:
    def probe(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
        chosen = setup.at(settings)
        more = {"fabric": "shared", "warmup": "500ms", "duration": "1500ms"}
        case = setup.contenders(chosen)[who].settings(chosen, **more)
        return {"shares": {_SHARED: _shares(lab.runs("multi-hop", case, keep=("flows",)))}}

    return probe


def _draw(m: Measurement, lab: Lab, who: str, stated: tuple[float, ...], name: str) -> list[Path]:
    bars = {"stated": np.array(stated)} | {label: centre(y) for label, y in m["shares"].items()}
    with figures.style():
        fig, (ax,) = figures.new(width=7.4)
        x, width = np.arange(4), 0.8 / len(bars)
        hatches = ("", "//", "..", "xx", "--")
        for i, (label, y) in enumerate(bars.items()):
            where = x + (i - (len(bars) - 1) / 2) * width
            ax.bar(
                where, y, width, label=label, color=figures.PALETTE[i], hatch=hatches[i], edgecolor="white"
            )
        ax.set_xticks(x, _NAMES)
        ax.set(xlabel="flow", ylabel="goodput (Mb/s)", title=f"Multi-hop shares, {who}")
        ax.legend(ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.16))
        return [lab.save(fig, name)]


def _ours(m: Measurement) -> list[Estimate]:
    return m["shares"][_LINKS]


def _off(shares: Sequence[float], of: Sequence[float]) -> float:
    """The mean relative distance from other shares, one factor common to all four left out."""
    relative = np.array(shares) / np.array(of)
    return float(np.abs(relative / relative.mean() - 1).mean())


def _equal_round_trips(stated: tuple[float, ...]) -> Cause:
    """The stated shares come nearer where all round trips are the same."""

    def off(m: Measurement, label: str) -> float:
        return _off([float(e.mean) for e in m["shares"][label]], stated)

    return Cause(
        "flows over more hops have longer round trips and get less: where all round trips are equal the "
        "shares come nearer to the stated ones",
        holds=lambda m: off(m, _EQUAL) < 0.9 * off(m, _SHARED),
        evidence=lambda m: "; ".join(
            f"{label}: {setup.told(y, '.0f')} Mb/s" for label, y in m["shares"].items()
        ),
    )


_LEFT_OVER = Cause(
    "a router of RACS divides its link by the weights of all flows that cross it, and what a flow takes less "
    "because of another hop goes to none: 4→5 has its half beside 4→3, whatever 4→3 takes",
    holds=lambda m: (
        abs(m["shares"][_SHARED][3].mean / _ours(m)[3].mean - 1) < 0.02
        and m["shares"][_SHARED][2].mean < 0.8 * m["shares"][_SHARED][3].mean
    ),
    evidence=lambda m: (
        f"beside {m['shares'][_SHARED][2].mean:.0f} Mb/s of 4→3 it has "
        f"{m['shares'][_SHARED][3].mean:.0f} Mb/s, "
        f"beside {_ours(m)[2].mean:.0f} Mb/s on links {_ours(m)[3].mean:.0f} Mb/s"
    ),
    of=("last",),
)


def first_three(m: Measurement) -> Any:
    """Throughput of the three flows that share S1, which is one channel inside."""
    return m["shares"][_SHARED][:3]


def on_links(m: Measurement) -> Any:
    """The same over the full-duplex links of Fig 3.6, on which the first meets no other."""
    return m["shares"][_LINKS][:3]


_SDC, _RACS = (298.0, 298.0, 298.0, 604.0), (300.0, 300.0, 300.0, 600.0)


M_HOP = Row(
    "M-hop",
    "Multi-hop, SDC (section 3.5.1)",
    measure=lambda lab: _measure(lab, setup.SDC),
    draw=lambda m, lab: _draw(m, lab, setup.SDC, _SDC, "M-hop"),
    causes=(_equal_round_trips(_SDC),),
    matters=("simulation.rwnd", *setup.SIZE_AWARE),
    probe=_probe(setup.SDC),
)

M_HOP2 = Row(
    "M-hop2",
    "Multi-hop, RACS (section 4.3.1)",
    measure=lambda lab: _measure(lab, setup.RACS),
    draw=lambda m, lab: _draw(m, lab, setup.RACS, _RACS, "M-hop2"),
    causes=(_LEFT_OVER,),
    matters=("simulation.rwnd", *(key for key in setup.EXPLICIT if key.startswith("racs."))),
    probe=_probe(setup.RACS),
)

HOP_ROWS = [M_HOP, M_HOP2]
