"""The set-ups of the HPCC group's ns-3 runs, for the tests that compare with it.

The reference is the simulator published with HPCC (SIGCOMM 2019), in the fork that made the data of m3
(SIGCOMM 2024), built and run apart from this repository. Its clock truncates times to whole nanoseconds. So
its links are a little faster than configured, and a packet arrives at the instant at which the one before it
has left. `run` has the same clock (`clock=whole-ns`), or an exact one (docs/validation/hpcc-ns3.md).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import penstock
from penstock.runs import RunSet

Flow = tuple[int, int, int, float]
"""From, to, bytes, start in nanoseconds."""

# Parameters at 100 Gb/s as the public scripts have them, for hosts of that rate; the window is added by
# `protocol`.
_DCQCN = "dcqcn:rules=hpcc-ns3,rate_ai=20Mbps,rate_hai=200Mbps,kmin=400KB,kmax=1600KB,k_rate=100Gbps,pmax=0.2"
LAWS = {
    "none": "roce:rules=hpcc-ns3",
    "dcqcn": _DCQCN,
    "dcqcn_paper": f"{_DCQCN},alpha_timer=50us,cut_timer=50us,timer=55us",
    "hpcc": "hpcc:rules=hpcc-ns3,rate_ai=40Mbps,int_multi=4",
    "hpcc_mi5": "hpcc:rules=hpcc-ns3,rate_ai=40Mbps,int_multi=4,max_stage=5",
    "timely": "timely:rules=hpcc-ns3,rate_ai=100Mbps",
    "dctcp": "dctcp-roce:rules=hpcc-ns3,rate_ai=615Mbps,kmin=300KB,kmax=300KB,k_rate=100Gbps",
}
WINDOWED = ("hpcc", "hpcc_mi5", "dctcp")


def protocol(label: str, window: int, base_rtt_ns: float) -> str:
    """The protocol of a label of the reference (`dcqcn_win`), for a network with this window in bytes and
    this base RTT."""
    law = label.removesuffix("_win").removesuffix("_nowin")
    has_window = (label.endswith("_win") or law in WINDOWED) and not label.endswith("_nowin")
    text = f"{LAWS[law]},base_rtt={base_rtt_ns}ns,window={window if has_window else 'off'}"
    # Acknowledgements share the class of data where there is a window, else they go first.
    return f"{text},control_priority=3" if has_window else text


def packet(label: str) -> int:
    """Bytes of a full packet."""
    return 1048 + (42 if label.startswith("hpcc") else 8 if label.startswith("timely") else 0)


def star(hosts: int, gbps: float) -> list[tuple[str, str, float]]:
    return [(f"h{i}", "s", gbps) for i in range(hosts)]


def chain(gbps: float, core: float) -> list[tuple[str, str, float]]:
    """Host 0, two switches, host 1."""
    return [("h0", "s0", gbps), ("h1", "s1", gbps), ("s0", "s1", core)]


def run(
    path: Path,
    links: list[tuple[str, str, float]],
    flows: list[Flow],
    law: str,
    *,
    duration_ns: float,
    buffer: str = "32MiB",
    seed: int = 1,
    exact: bool = False,
    drawn: bool = False,
    **keys: Any,
) -> RunSet:
    """Runs flows over links of 1 us each; files go to `path`. `exact`: with an exact clock; `drawn`: marks
    are drawn as in the reference's run with the number `seed`.
    """
    nodes = {name for a, b, _ in links for name in (a, b)}
    if drawn:
        # Found by trying streams 0 to 59 with 4 nodes, 60 to 179 with 18: six for each node and two.
        law = f"{law},ns3_stream={6 * len(nodes) + 2},ns3_run={seed}"
    number = {"h": "hosts", "s": "switches"}
    text = ['scenario = "custom"', 'segment = "1000B"', 'send_jitter = "0s"']
    text += [
        f'duration = "{duration_ns}ns"',
        f'protocol = "{law}{"" if exact else ",clock=whole-ns"}"',
        f'buffer = "shared:alpha=1,size={buffer}"',
    ]
    written = {k: str(v).lower() if isinstance(v, bool) else repr(v) for k, v in keys.items()}
    text += [f"{key} = {value}".replace("'", chr(34)) for key, value in written.items()]
    for kind, key in number.items():
        names = sorted((n for n in nodes if n[0] == kind), key=lambda n: int(n[1:] or 0))
        text.append(f"{key} = {names}".replace("'", '"'))
    for a, b, gbps in links:
        for start, end in ((a, b), (b, a)):
            ends = f'from = "{start}"\nto = "{end}"'
            text += ["", "[[link]]", ends, f'rate = "{gbps * 1e9:.0f}bps"', 'delay = "1us"']
    text += ["", "[[workload]]", 'kind = "trace"', 'file = "flows.csv"', ""]
    rows = [f"{start * 1e-9:.12f},h{src},h{dst},{size}" for src, dst, size, start in flows]
    (path / "flows.csv").write_text("\n".join(["start_s,src,dst,bytes", *rows]) + "\n")
    (path / "case.toml").write_text("\n".join(text))
    return penstock.run(path / "case.toml", seed=seed)


def completion_ns(result: RunSet) -> list[float]:
    """From the start of each flow to the arrival of its last byte, as the reference counts it, in whole
    nanoseconds: less than half of one tells their order; by flow.
    """
    table = result.transfers.sort("flow")
    return [float(round(1e9 * x)) for x in (table["delivered_s"] - table["start_s"]).to_list()]
