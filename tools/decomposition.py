"""The error of `--approximate links`: 24 scenarios beside their exact runs, for docs/approximate.md.

Three distributions of sizes, four loads of the most loaded tier, a fabric with and without oversubscription.
CPU times are of this machine; what is compared is their ratio. `--scenarios N` makes every n-th only.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys

import penstock
from penstock.approximate import Comparison

SIZES = ("uniform:2KB:50KB", "pareto:1.4:44KB", "websearch")
LOADS = (0.2, 0.4, 0.6, 0.8)
HOST = 10
# By the rate of the fabric in Gb/s, leaves x spines x hosts per leaf: 1:1 and 2:1.
NETWORKS = {10: ("leaf-spine:8x8x8", "leaf-spine:8x4x8"), 40: ("leaf-spine:8x2x8", "leaf-spine:8x1x8")}
COMMON = {
    "incast_load": 0,
    "link_rate": f"{HOST}Gbps",
    "link_delay": "1us",
    "protocol": "dctcp",
    "queue": "threshold:k=65pkt",
    "buffer": "500pkt",
    "initial_window": 10,
    "rto_min": "1ms",
    # As Linux: no window of one connection stands before another's packets in the host.
    "host_queue": "2pkt",
    "warmup": "5ms",
}
# The share of the traffic that leaves its leaf: 56 of the 63 other hosts.
LEAVING = 56 / 63


def settings(network: str, fabric: int, sizes: str, load: float, duration: str) -> dict[str, object]:
    """The scenario whose most loaded tier has this load."""
    leaves, spines, hosts = (int(n) for n in network.partition(":")[2].split("x"))
    assert leaves == 8 and hosts == 8
    busiest = max(1.0, hosts * HOST / (spines * fabric) * LEAVING)
    return COMMON | {
        "topology": network,
        "fabric_rate": f"{fabric}Gbps",
        "sizes": sizes,
        "load": f"{load / busiest:.4g}",
        "duration": duration,
    }


def main() -> int:
    """Print the table and what it comes to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scenarios", type=int, default=24, metavar="N", help="so many, spread evenly")
    parser.add_argument("--method", default="links")
    parser.add_argument("--fabric", type=int, choices=sorted(NETWORKS), default=40, help="its rate in Gb/s")
    parser.add_argument("--duration", default="150ms", help="simulated time; what is saved grows with it")
    options = parser.parse_args()
    every = list(itertools.product(NETWORKS[options.fabric], SIZES, LOADS))
    chosen = [every[i * len(every) // options.scenarios] for i in range(options.scenarios)]
    heads = ("network", "sizes", "load", "flows", "p99 slowdown, exact", "approximate", "error")
    heads += ("error of the median", "times faster")
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    errors, speeds = [], []
    for network, sizes, load in chosen:
        given = settings(network, options.fabric, sizes, load, options.duration)
        made = {"settings": given, "keep": [], "jobs": 1}
        both = Comparison(
            penstock.run("rdma", approximate=options.method, **made), penstock.run("rdma", **made)
        )
        found, true, error = both.approximate.summary, both.exact.summary, both.errors()
        errors.append(abs(error["slowdown_p99"]))
        speeds.append(both.speedup)
        cells = [network, sizes, f"{load:.0%}", f"{true['flows_completed']:,.0f}"]
        cells += [f"{runs['slowdown_p99']:.2f}" for runs in (true, found)]
        cells += [f"{error[key]:+.1%}" for key in ("slowdown_p99", "slowdown_p50")]
        print(f"| {' | '.join([*cells, f'{both.speedup:.1f}'])} |", flush=True)
    median, worst = statistics.median(errors), max(errors)
    print(f"\nError of the p99 slowdown: median {median:.1%}, worst {worst:.1%}.")
    middle, least, most = statistics.median(speeds), min(speeds), max(speeds)
    print(f"Times faster (CPU): median {middle:.1f}, least {least:.1f}, most {most:.1f}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
