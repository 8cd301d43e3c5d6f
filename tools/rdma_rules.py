"""What `rules=paper` and `rules=hpcc-ns3` make of each RDMA law: the tables of docs/validation/hpcc-ns3.md.

python tools/rdma_rules.py            # some minutes

There are three cases at 100 Gb/s and 1 us a link. A second flow joins one after 1 ms (5 ms long); 16 senders
of 500 KB share one port; and the scenario `rdma` (32 hosts, web search at 50 %, incasts, 5 ms).
"""

from __future__ import annotations

import penstock

LAWS = ("dcqcn", "hpcc", "timely", "dctcp-roce")
#: One rule of the public simulator taken back to the paper's, the rest kept.
SINGLE = (
    "hpcc:rules=hpcc-ns3,max_stage=5",
    "hpcc:rules=hpcc-ns3,react=per-rtt",
    "hpcc:rules=hpcc-ns3,rate_min=250Mbps",
    "dcqcn:rules=hpcc-ns3,fast_recovery=5",
    "dcqcn:rules=hpcc-ns3,alpha_timer=50us,cut_timer=50us,timer=55us",
    "dcqcn:rules=hpcc-ns3,clamp_target=true",
    "dcqcn:rules=hpcc-ns3,kmin=12.5KB,kmax=500KB,pmax=0.01",
    "roce:rules=hpcc-ns3",
    "roce:rules=hpcc-ns3,pfc_alpha=0.125",
    "roce:rules=hpcc-ns3,pfc_headroom=1",
)


def join(law: str) -> str:
    """Share of the link and Jain's index of the last 2 ms of two flows, mean and largest queue in KB."""
    net = penstock.Network.star(3, link_rate="100Gbps", link_delay="1us")
    flows = [penstock.Flows("h0", "h2"), penstock.Flows("h1", "h2", start="1ms")]
    common = {"protocol": law, "segment": "1000B", "buffer": "shared:alpha=1,size=32MiB"}
    late = penstock.run(net, workloads=flows, duration="5ms", warmup="3ms", **common)
    whole = penstock.run(net, workloads=flows, duration="5ms", **common)
    packet = 1.05
    return (
        f"{late.mean('utilisation'):.3f} | {late.mean('jain'):.3f} | "
        f"{late.mean('queue_mean_packets') * packet:.1f} | {whole.mean('queue_max_packets') * packet:.0f}"
    )


def incast(law: str) -> str:
    """First and last completion in us, largest queue in KB and pauses of 16 to 1 with 2 MiB of buffer."""
    net = penstock.Network.star(17, link_rate="100Gbps", link_delay="1us")
    flows = [penstock.Flows([f"h{i}" for i in range(16)], "h16", size="500KB")]
    common = {"protocol": law, "segment": "1000B", "buffer": "shared:alpha=1,size=2MiB", "send_jitter": "0s"}
    found = penstock.run(net, workloads=flows, duration="20ms", **common)
    fct = found.flows["fct_s"].to_numpy() * 1e6
    return (
        f"{fct.min():.0f}, {fct.max():.0f} | {found.mean('queue_max_packets') * 1.05:.0f} | "
        f"{found.mean('pauses'):.0f}"
    )


def search(law: str) -> str:
    """Mean completion in us of flows below 50 KB and their 99th percentile, mean of those above 1 MB."""
    found = penstock.run("rdma", protocol=law, duration="5ms", load=0.5, incast_size="100KB").transfers
    small = found.filter(found["bytes"] < 50_000)["fct_s"].to_numpy() * 1e6
    large = found.filter(found["bytes"] > 1_000_000)["fct_s"].to_numpy() * 1e6
    p99 = sorted(small)[int(0.99 * len(small))]
    return f"{small.mean():.1f}, {p99:.0f} | {large.mean():.0f}"


def main() -> None:
    """Print both tables, a row as soon as it is known."""
    print(
        "| law | two flows: share, Jain, mean and largest queue (KB) | | | | 16 to 1: us, KB, pauses | | | "
        "web search: us | |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for law in (f"{law}:rules={rules}" for law in LAWS for rules in ("paper", "hpcc-ns3")):
        print(f"| `{law}` | {join(law)} | {incast(law)} | {search(law)} |", flush=True)
    print("\n| one rule | two flows | | | | 16 to 1 | | |\n|---|---|---|---|---|---|---|---|")
    for law in SINGLE:
        print(f"| `{law}` | {join(law)} | {incast(law)} |", flush=True)


if __name__ == "__main__":
    main()
