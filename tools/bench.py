"""The speed table: nanoseconds of CPU per packet-hop and peak memory of the named jobs.

A packet-hop is one packet (data or acknowledgement) delivered over one link. Each job runs in a process of
its own, three times; the table shows the fastest, which is the one least disturbed by the rest of the
machine, and the slowest. In turn with it runs the floor (floor.rs): the least that a program does which
moves packets over a network of the same shape and nothing else; the ratio to it says more than
nanoseconds on a machine that is not yours. When ns-2 is installed the same incast job runs there too.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

NS2_SCRIPT = Path(__file__).with_name("ns2_incast.tcl")
FLOOR_SOURCE = Path(__file__).with_name("floor.rs")
FLOOR = FLOOR_SOURCE.parent.parent / "target" / "floor"


@dataclass(frozen=True)
class Job:
    """One job: what runs, and the goals that the table is held against."""

    name: str
    scenario: str
    settings: dict[str, str | int]
    goal_ns: float | None = None
    goal_mb: float | None = None
    # Network, hosts or degree, window in packets and microseconds of the floor of the same shape.
    floor: tuple[str, int, int, int] | None = None
    # Instead of goal_ns: at most twice the cost of the job of this name, earlier in the list.
    twice: str | None = None


INCAST = {"servers": 32, "protocol": "newreno", "duration": "40s"}
FAT_TREE = {
    "link_rate": "100Gbps",
    "link_delay": "1us",
    "protocol": "dctcp",
    "queue": "threshold:k=15pkt",
}
# Paced senders and routers with work per packet, beside plain TCP on the same network.
JOINS = {"every": "1s", "duration": "30s", "series": "false", "sample": "1s", "buffer": "1500pkt"}
JOINS_FLOOR = ("star", 10, 50, 20_000_000)
PLAIN = "ten flows join, NewReno"
JOBS = (
    Job("incast, 32 servers, one switch", "incast", INCAST, 100, floor=("star", 32, 8, 20_000_000)),
    Job(
        "permutation, 128 hosts, DCTCP",
        "permutation",
        {"topology": "fat-tree:8", "duration": "5ms"} | FAT_TREE,
        120,
        floor=("fat-tree", 8, 100, 2_000),
    ),
    Job(
        "permutation, 1,024 hosts, DCTCP",
        "permutation",
        {"topology": "fat-tree:16", "duration": "1ms"} | FAT_TREE,
        350,
        300,
        floor=("fat-tree", 16, 100, 500),
    ),
    Job(PLAIN, "staggered", {"protocol": "newreno"} | JOINS, 100, floor=JOINS_FLOOR),
    *(
        Job(
            f"ten flows join, {name}", "staggered", {"protocol": name} | JOINS, floor=JOINS_FLOOR, twice=PLAIN
        )
        for name in ("rcp", "qi-rcp", "piqi-rcp", "xcp")
    ),
)


def child(number: int) -> None:
    """Run one job here and print its cost as JSON."""
    from penstock import _engine, scenario

    job = JOBS[number]
    result = _engine.run(scenario.spec(job.scenario, job.settings, 1), 0, _engine.Progress())
    used = resource.getrusage(resource.RUSAGE_SELF)
    cost = {
        "cpu_s": result.timings["cpu_s"],
        "hops": result.timings["packet_hops"],
        "mb": used.ru_maxrss / 1024,
    }
    print(json.dumps(cost))


def build_floor() -> bool:
    """Compile the floor; False where there is no compiler."""
    compiler = shutil.which("rustc")
    if compiler is None:
        return False
    FLOOR.parent.mkdir(exist_ok=True)
    command = [compiler, "-O", "--edition", "2021", str(FLOOR_SOURCE), "-o", str(FLOOR)]
    subprocess.run(command, check=True)
    return True


def measure(number: int, with_floor: bool) -> tuple[list[dict[str, float]], float | None]:
    """The costs of three executions of a job, a process each; in turn with them the least of the floor."""
    command = [sys.executable, __file__, "--child", str(number)]
    shape = JOBS[number].floor if with_floor else None
    costs, floors = [], []
    for _ in range(3):
        costs.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        if shape is not None:
            floor = [str(FLOOR), *map(str, shape)]
            done = subprocess.run(floor, check=True, capture_output=True, text=True)
            floors.append(float(done.stdout.split()[0]))
    return costs, min(floors, default=None)


def ns2(seconds: int) -> list[float] | None:
    """ns per packet-hop of ns-2 on the incast job, three times; None when ns-2 is not installed."""
    program = shutil.which("ns")
    if program is None:
        return None
    costs = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        command = [program, str(NS2_SCRIPT), str(INCAST["servers"]), str(seconds)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        data, acks, _ = (int(word) for word in done.stdout.split())
        costs.append(spent * 1e9 / (2 * (data + acks)))
    return costs


def main() -> int:
    """Print the table; exit 0 when every goal is met, 1 otherwise."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    options = parser.parse_args()
    if options.child is not None:
        child(options.child)
        return 0
    load = os.getloadavg()[0]
    rows: list[dict] = []
    with_floor = build_floor()
    for number, job in enumerate(JOBS):
        costs, floor = measure(number, with_floor)
        per_hop = sorted(cost["cpu_s"] * 1e9 / cost["hops"] for cost in costs)
        goal_ns = job.goal_ns
        if job.twice is not None:
            goal_ns = 2 * next(r["ns_per_hop"] for r in rows if r["job"] == job.twice)
        rows.append(
            {
                "job": job.name,
                "ns_per_hop": per_hop[0],
                "ns_slowest": per_hop[-1],
                "floor_ns": floor,
                "times_floor": per_hop[0] / floor if floor else None,
                "goal_ns": goal_ns,
                "hops": costs[0]["hops"],
                "peak_mb": max(cost["mb"] for cost in costs),
                "goal_mb": job.goal_mb,
            }
        )
    peer = ns2(int(str(INCAST["duration"]).rstrip("s")))
    if options.json:
        print(json.dumps({"jobs": rows, "ns2_incast_ns_per_hop": min(peer) if peer else None, "load": load}))
    else:
        table(rows, peer, load)
    met = all(
        r["ns_per_hop"] <= r["goal_ns"] and (not r["goal_mb"] or r["peak_mb"] <= r["goal_mb"]) for r in rows
    )
    return 0 if met else 1


def table(rows: list[dict], peer: list[float] | None, load: float) -> None:
    """Print the costs for people."""
    print(
        f"{'job':<36}{'ns/hop':>8}{'slowest':>9}{'goal':>6}{'floor':>7}{'ratio':>7}"
        f"{'hops':>14}{'peak MB':>9}{'goal':>6}"
    )
    for r in rows:
        goal_mb = f"{r['goal_mb']:.0f}" if r["goal_mb"] else ""
        floor = f"{r['floor_ns']:.1f}" if r["floor_ns"] else ""
        ratio = f"{r['times_floor']:.2f}" if r["floor_ns"] else ""
        print(
            f"{r['job']:<36}{r['ns_per_hop']:>8.1f}{r['ns_slowest']:>9.1f}{r['goal_ns']:>6.0f}{floor:>7}{ratio:>7}"
            f"{r['hops']:>14,.0f}{r['peak_mb']:>9.0f}{goal_mb:>6}"
        )
    if not any(r["floor_ns"] for r in rows):
        print("without rustc there is no floor to compare with")
    if peer:
        print(f"{'ns-2, the same incast':<36}{min(peer):>8.1f}{max(peer):>9.1f}")
        print(f"penstock is {min(peer) / rows[0]['ns_per_hop']:.1f} times as fast as ns-2 on this job")
    else:
        print("ns-2 is not installed (apt install ns2): no comparison")
    if load > 0.5:
        print(f"note: the machine was busy (load {load:.1f}); the goals are for an idle core")


if __name__ == "__main__":
    sys.exit(main())
