"""The error of `--approximate links`: 24 scenarios beside their exact runs (docs/background/approximate.md).

Three distributions of sizes, four loads of the most loaded tier, a fabric with and without oversubscription,
in one of four set-ups. CPU times are of this machine; what is compared is their ratio. `--scenarios N` makes
every n-th only, `--only WORDS` those with these words in network, sizes or load. `--flows N` runs each until
N flows have begun, so that all scenarios have the same number of samples for a percentile. `--flows N,N,N`
has a number for each distribution.

`parsimon` is the sensitivity study of Parsimon's own evaluation, from its files, so that figures compare with
its paper's claims. It has 256 hosts of 10 Gb/s in 2 pods of 16 racks, a fabric of 40 Gb/s, 16 or 8 cores per
plane, and Facebook's sizes. Windows are 18 KB, what 10 Gb/s hold in the longest round trip of 14.4 us. Three
things differ: loads lie between the two ends of the paper's range, hosts send to all others alike, and the
transport is TCP with slow start instead of RDMA at line rate. `parsimon-tcp` has no limit of the window; it
was chosen before any result, and the limit was added when an experiment had shown its effect. `leaf-spine-40`
and `leaf-spine-10` are 64 hosts under a fabric that is four times as fast as the hosts, or as fast.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import penstock
from penstock.approximate import Comparison, cpu_s

HOST = 10
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
}
FACEBOOK = Path(__file__).resolve().parent / "sizes"


@dataclass(frozen=True)
class SetUp:
    """Networks without and with oversubscription, and the load of its busiest tier per load of the hosts."""

    networks: dict[str, float]
    fabric: int
    sizes: dict[str, str]
    loads: tuple[float, ...]
    duration: str
    warmup: str
    window: str | None = None


SYNTHETIC = {"uniform": "uniform:2KB:50KB", "pareto": "pareto:1.4:44KB", "websearch": "websearch"}
LOADS = (0.2, 0.4, 0.6, 0.8)
# The share of the traffic that leaves its leaf: 56 of the 63 other hosts.
LEAVING = 56 / 63
PARSIMON = SetUp(
    # 128 of 255 hosts are in the other pod; the 128 of a pod share 2 x 8 links to cores in the second.
    {"clos:2x16x2x16x8": 1.0, "clos:2x16x2x8x8": 128 * HOST / (2 * 8 * 40) * 128 / 255},
    40,
    {name: f"cdf:{FACEBOOK}/facebook-{name}.txt" for name in ("webserver", "hadoop", "cachefollower")},
    (0.25, 0.4, 0.6, 0.75),
    "40ms",
    "10ms",
)
SET_UPS = {
    "parsimon": replace(PARSIMON, window="18KB"),
    "parsimon-tcp": PARSIMON,
    "leaf-spine-40": SetUp(
        {"leaf-spine:8x2x8": 1.0, "leaf-spine:8x1x8": 2 * LEAVING}, 40, SYNTHETIC, LOADS, "150ms", "5ms"
    ),
    "leaf-spine-10": SetUp(
        {"leaf-spine:8x8x8": 1.0, "leaf-spine:8x4x8": 2 * LEAVING}, 10, SYNTHETIC, LOADS, "150ms", "5ms"
    ),
}


def settings(set_up: SetUp, network: str, sizes: str, load: float) -> dict[str, object]:
    """The scenario whose most loaded tier has this load."""
    return (
        COMMON
        | {
            "topology": network,
            "fabric_rate": f"{set_up.fabric}Gbps",
            "sizes": set_up.sizes[sizes],
            "load": f"{load / set_up.networks[network]:.4g}",
            "duration": set_up.duration,
            "warmup": set_up.warmup,
        }
        | ({"rwnd": set_up.window} if set_up.window else {})
    )


def seconds(text: str) -> float:
    """Of a duration in milliseconds, as the set-ups have it."""
    return float(text.removesuffix("ms")) / 1e3


def main() -> int:
    """Print the table and what it comes to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--set-up", choices=list(SET_UPS), default="parsimon")
    parser.add_argument("--scenarios", type=int, default=24, metavar="N", help="so many, spread evenly")
    parser.add_argument(
        "--method", default=["links"], nargs="+", help="links, links:flows=N; several are compared"
    )
    parser.add_argument(
        "--duration", help="simulated time instead of the set-up's; what is saved grows with it"
    )
    parser.add_argument(
        "--flows",
        metavar="N[,N,N]",
        type=lambda text: [float(word) for word in text.split(",")],
        help="simulated for as long as so many flows take to begin; or one for each distribution of sizes",
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", metavar="WORDS", help="scenarios with one of these words, as in the table")
    options = parser.parse_args()
    set_up = SET_UPS[options.set_up]
    methods = options.method
    if options.flows and len(options.flows) not in (1, len(set_up.sizes)):
        parser.error(f"--flows must have one number, or one for each of {', '.join(set_up.sizes)}")
    every = list(itertools.product(set_up.networks, set_up.sizes, set_up.loads))
    chosen = [every[i * len(every) // options.scenarios] for i in range(options.scenarios)]
    if options.only:
        words = options.only.split()
        chosen = [one for one in chosen if any(word in (*one[:2], f"{one[2]:.0%}") for word in words)]
    heads = ["network", "sizes", "load", "method", "flows", "p99 slowdown, exact", "approximate", "error"]
    heads += ["error of the median", "CPU s, exact", "approximate", "times faster"]
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    errors: dict[str, list[float]] = {method: [] for method in methods}
    speeds: dict[str, list[float]] = {method: [] for method in methods}
    for network, sizes, load in chosen:
        given = settings(set_up, network, sizes, load)
        if options.duration:
            given["duration"] = options.duration
        made: dict[str, Any] = {"settings": given, "keep": [], "jobs": 1, "seed": options.seed}
        if options.flows:
            # How many begin per second is a matter of the arrivals alone: any estimate knows it.
            pilot = penstock.run("rdma", approximate="links:flows=1", **made).summary["arrivals_per_s"]
            wanted = options.flows[list(set_up.sizes).index(sizes) if len(options.flows) > 1 else 0]
            given["duration"] = f"{seconds(set_up.warmup) + wanted / pilot:.6f}s"
        exact = penstock.run("rdma", **made)
        for method in methods:
            both = Comparison(penstock.run("rdma", approximate=method, **made), exact)
            found, true, error = both.approximate.summary, both.exact.summary, both.errors()
            errors[method].append(abs(error["slowdown_p99"]))
            speeds[method].append(both.speedup)
            cells = [network, sizes, f"{load:.0%}", method, f"{true['flows_completed']:,.0f}"]
            cells += [f"{runs['slowdown_p99']:.2f}" for runs in (true, found)]
            cells += [f"{error[key]:+.1%}" for key in ("slowdown_p99", "slowdown_p50")]
            cells += [f"{cpu_s(runs):.1f}" for runs in (both.exact, both.approximate)]
            print(f"| {' | '.join([*cells, f'{both.speedup:.1f}'])} |", flush=True)
    for method in methods:
        median, worst = statistics.median(errors[method]), max(errors[method])
        print(f"\n{method}: error of the p99 slowdown: median {median:.1%}, worst {worst:.1%}.")
        middle, least, most = statistics.median(speeds[method]), min(speeds[method]), max(speeds[method])
        print(f"Times faster (CPU): median {middle:.1f}, least {least:.1f}, most {most:.1f}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
