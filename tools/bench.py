"""The speed table: CPU time per packet-hop and peak memory of the named jobs, and what starting costs.

A packet-hop is one packet (data or acknowledgement) delivered over one link. Each job runs in a process of
its own, three times (the longest ones once); the table shows the fastest, which is the one least disturbed by
the rest of the machine, and the slowest. The floor (floor.rs) runs in turn with it: a program that only moves
packets over a network of the same shape. It uses a heap, a wheel of windows and a wheel per pod, of which the
fastest counts. The ratio to the floor depends less on the machine than nanoseconds. With two cores, jobs that
can be partitioned also run on two threads, in turn; the gain is a ratio of wall times. If ns-2 is installed,
the incast job also runs there.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NS2_SCRIPT = Path(__file__).with_name("ns2_incast.tcl")
FLOOR_SOURCE = Path(__file__).with_name("floor.rs")
FLOOR = FLOOR_SOURCE.parent.parent / "target" / "floor"
#: Files of the same age: the engine in place was built with a profile (pgo.sh).
BUILT = [FLOOR_SOURCE.parent.parent / ".venv" / name for name in ("penstock-engine", "penstock-profiled")]


@dataclass(frozen=True)
class Job:
    """One job: what runs, and the goals that the table is held against."""

    name: str
    #: The name of a scenario, or a document.
    scenario: str | dict[str, Any]
    settings: dict[str, str | int]
    goal_ns: float | None = None
    goal_mb: float | None = None
    # Network, hosts or degree or LxSxH, window in packets and microseconds of the floor of the same shape.
    floor: tuple[str, int | str, int, int] | None = None
    # Instead of goal_ns: at most so many times the cost of the job of this name, earlier in the list.
    beside: tuple[float, str] | None = None
    # Instead of goal_ns: microseconds of the engine per flow, packets included.
    goal_us_per_flow: float | None = None
    # Two threads gain at least this.
    goal_gain: float | None = None
    # All tables become frames and a run directory, as a user's do: peak memory is that of the whole.
    saved: bool = False
    repeats: int = 3


INCAST = {"servers": 32, "protocol": "newreno", "duration": "40s"}
FAT_TREE = {
    "link_rate": "100Gbps",
    "link_delay": "1us",
    "protocol": "dctcp",
    "queue": "threshold:k=15pkt",
}
WEB_SEARCH: dict[str, str | int] = {
    "topology": "leaf-spine:9x16x16",
    "link_rate": "10Gbps",
    "link_delay": "1us",
    "sizes": "websearch",
    "arrivals": "load:0.5",
    "long_flows": 0,
    "short_flows": 100_000,
    "protocol": "dctcp",
    "queue": "threshold:k=65pkt",
    "initial_window": 10,
    "rto_min": "1ms",
    "rto_initial": "1ms",
    "warmup": "0s",
    "duration": "10s",
}
SHORT: dict[str, str | int] = {
    "arrivals": 1_000_000,
    "mean_packets": 2,
    "capacity": "100Gbps",
    "rtt": "20us",
    "protocol": "newreno",
    "duration": "1s",
}
SAMPLED: dict[str, str | int] = INCAST | {"sample": "100us", "series": "true", "duration": "8s"}
# Paced senders and routers with work per packet, beside plain TCP on the same network.
JOINS = {"every": "1s", "duration": "30s", "series": "false", "sample": "1s", "buffer": "1500pkt"}
JOINS_FLOOR = ("star", 10, 50, 20_000_000)
PLAIN = "ten flows join, NewReno"
SACK_TREE: dict[str, str | int] = {"duration": "5ms", "protocol": "sack"}
SACK_FLOWS: dict[str, str | int] = {"duration": "10s", "warmup": "1s", "protocol": "sack"}
RACK: dict[str, str | int] = {"tcp": "linux", "delayed_ack": 1}
STAR_FLOOR = ("star", 32, 8, 20_000_000)
LOSSY: dict[str, str | int] = {
    "topology": "fat-tree:16",
    "flow_size": "1048576B",
    "protocol": "reno",
    "queue": "droptail",
    "buffer": "200pkt",
    "mtu": "1500B",
    "duration": "30ms",
    "send_jitter": "0s",
}
RING: dict[str, Any] = {
    "scenario": "custom",
    "topology": "leaf-spine:16x16x16",
    "link_rate": "100Gbps",
    "link_delay": "1us",
    "protocol": "nscc",
    "duration": "1s",
    "workload": [{"kind": "collective", "hosts": "h[0-255]", "size": "8MiB"}],
}


def permutation(hosts: str, degree: int, duration: str, micros: int, **goals: Any) -> Job:
    """A permutation over a fat tree, with the floor's."""
    settings = {"topology": f"fat-tree:{degree}", "duration": duration} | FAT_TREE
    floor = ("fat-tree", degree, 100, micros)
    return Job(f"permutation, {hosts} hosts, DCTCP", "permutation", settings, floor=floor, **goals)


JOBS = (
    Job("incast, 32 servers, one switch", "incast", INCAST, 100, floor=STAR_FLOOR),
    permutation("128", 8, "5ms", 2_000, goal_ns=120, goal_gain=1.5),
    permutation("1,024", 16, "1ms", 500, goal_ns=350, goal_mb=300, goal_gain=1.8),
    permutation("8,192", 32, "200us", 100, goal_mb=200, goal_gain=1.7, repeats=1),
    Job(
        "WebSearch, 144 hosts, 50 %, 10^5 flows",
        "mix",
        WEB_SEARCH,
        floor=("leaf-spine", "9x16x16", 20, 50_000),
        repeats=1,
    ),
    Job(
        "10^6 short flows, all tables saved",
        "poisson",
        SHORT,
        goal_mb=400,
        goal_us_per_flow=3.2,
        floor=("dumbbell", 16, 20, 50_000),
        saved=True,
    ),
    Job("incast, sampled every 100 us", "incast", SAMPLED, floor=STAR_FLOOR),
    Job(PLAIN, "staggered", {"protocol": "newreno"} | JOINS, 100, floor=JOINS_FLOOR),
    *(
        Job(
            f"ten flows join, {name}",
            "staggered",
            {"protocol": name} | JOINS,
            floor=JOINS_FLOOR,
            beside=(2.0, PLAIN),
        )
        for name in ("rcp", "qi-rcp", "piqi-rcp", "xcp")
    ),
    # RACK's record of every segment, where nothing is lost and where a queue overflows again and again.
    *(
        Job(f"{scenario}, {name}", scenario, settings | more, beside=beside)
        for scenario, settings in (("permutation", SACK_TREE), ("long-flows", SACK_FLOWS))
        for name, more, beside in (
            ("SACK by the RFCs", {}, None),
            ("SACK by Linux", RACK, (1.25, f"{scenario}, SACK by the RFCs")),
        )
    ),
    # Transports other than TCP, cards that pull, pauses, losses, and hosts that wait for each other.
    *(
        Job(
            f"permutation, 1,024 hosts, {name}",
            "permutation",
            {"topology": "fat-tree:16", "duration": "300us"} | settings,
            beside=(3.0, "permutation, 1,024 hosts, DCTCP"),
            goal_gain=1.6,
            repeats=1,
        )
        for name, settings in (
            ("NSCC", {"protocol": "nscc"}),
            ("HPCC", {"protocol": "hpcc"}),
            ("DCQCN with pauses", {"protocol": "dcqcn"}),
            ("Homa", {"protocol": "homa"}),
        )
    ),
    Job(
        "RDMA, 320 hosts, HPCC",
        "rdma",
        {"topology": "clos:5x4x4x4x16", "protocol": "hpcc", "duration": "1ms"},
        goal_gain=1.6,
        repeats=1,
    ),
    Job("permutation, 1,024 hosts, Reno with losses", "permutation", LOSSY, goal_gain=1.6, repeats=1),
    Job("all-reduce in a ring, 256 ranks", RING, {}, goal_gain=1.6, repeats=1),
)

#: What is started, and what it is compared with: an interpreter that does nothing.
STARTS = {
    "python": ["-c", "pass"],
    "import penstock": ["-c", "import penstock"],
    "penstock --help": ["-m", "penstock", "--help"],
    "penstock run incast": ["-m", "penstock", "run", "incast", "--set", "duration=1ms"],
}


def child(number: int, threads: int) -> None:
    """Run one job here and print its cost as JSON."""
    job = JOBS[number]
    if job.saved:
        from penstock.sweeps import sweep

        (made,) = sweep([(job.scenario, job.settings)], keep=("flows", "transfers", "ports", "events"))
        with tempfile.TemporaryDirectory() as folder:
            made.save(Path(folder) / "run")
        timings, flows, wall = made.runs[0].timings, made.runs[0].summary["flows"], 0.0
    else:
        from penstock import _engine, scenario

        spec, begun = scenario.spec(job.scenario, job.settings, 1), time.monotonic()
        result = _engine.run(spec, 0, _engine.Progress(), threads=threads)
        timings, flows, wall = result.timings, result.summary["flows"], time.monotonic() - begun
    used = resource.getrusage(resource.RUSAGE_SELF)
    cost = {
        "cpu_s": timings["cpu_s"],
        "hops": timings["packet_hops"],
        "threads": timings["threads"],
        "flows": flows,
        "wall_s": wall,
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


@dataclass(frozen=True)
class Measured:
    """The costs of all executions of a job, a process each; in turn with them two threads and the floor."""

    costs: list[dict[str, float]]
    divided: list[dict[str, float]]
    #: Nanoseconds per packet-hop of each way to find the next arrival.
    floors: dict[str, float]

    @property
    def gain(self) -> float | None:
        """Least wall time on one thread over that on two; 1 where the run was not divided."""
        if not self.divided:
            return None
        return min(c["wall_s"] for c in self.costs) / min(c["wall_s"] for c in self.divided)


def measure(number: int, with_floor: bool) -> Measured:
    """Execute a job as often as it asks for."""
    job = JOBS[number]

    def once(threads: int) -> dict[str, float]:
        command = [sys.executable, __file__, "--child", str(number), "--threads", str(threads)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found: dict[str, float] = json.loads(done.stdout)
        return found

    shape = job.floor if with_floor else None
    divided = job.goal_gain is not None and (os.cpu_count() or 1) > 1
    costs, twice = [], []
    floors: dict[str, float] = {}
    for _ in range(job.repeats):
        costs.append(once(1))
        if divided:
            twice.append(once(2))
        if shape is not None:
            floor = [str(FLOOR), *map(str, shape)]
            done = subprocess.run(floor, check=True, capture_output=True, text=True)
            for kind, spent in floor_times(done.stdout).items():
                floors[kind] = min(spent, floors.get(kind, spent))
    return Measured(costs, twice, floors)


def floor_times(printed: str) -> dict[str, float]:
    """Nanoseconds per packet-hop by way to find the next arrival, which all have moved the same.

    Raises ValueError when they have not.
    """
    lines = [line.split() for line in printed.splitlines()]
    if len({tuple(moved) for _, _, *moved in lines}) != 1:
        raise ValueError(f"the floors did not move the same packets:\n{printed}")
    return {kind: float(spent) for kind, spent, *_ in lines}


def profiled() -> bool:
    """Whether the engine in place was built with a profile of what runs do."""
    ages = {path.stat().st_mtime_ns if path.exists() else None for path in BUILT}
    return len(ages) == 1 and None not in ages


def starts() -> dict[str, float]:
    """Seconds of CPU that starting takes, the least of five in turn."""
    found: dict[str, float] = {}
    for _ in range(5):
        for name, arguments in STARTS.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
            found[name] = min(spent, found.get(name, spent))
    return found


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


def row(job: Job, found: Measured, earlier: list[dict[str, Any]]) -> dict[str, Any]:
    """What the table says of a job."""
    costs = found.costs
    kind = min(found.floors, key=found.floors.__getitem__, default=None)
    floor = found.floors[kind] if kind else None
    per_hop = sorted(cost["cpu_s"] * 1e9 / cost["hops"] for cost in costs)
    goal_ns = job.goal_ns
    if job.beside is not None:
        times, name = job.beside
        # With --only that job may not be there.
        goal_ns = next((times * r["ns_per_hop"] for r in earlier if r["job"] == name), None)
    return {
        "job": job.name,
        "ns_per_hop": per_hop[0],
        "ns_slowest": per_hop[-1],
        "floor_ns": floor,
        "floor_kind": kind,
        "floors_ns": found.floors,
        "times_floor": per_hop[0] / floor if floor else None,
        "goal_ns": goal_ns,
        "hops": costs[0]["hops"],
        "us_per_flow": min(cost["cpu_s"] * 1e6 / cost["flows"] for cost in costs),
        "goal_us_per_flow": job.goal_us_per_flow,
        "gain": found.gain,
        "goal_gain": job.goal_gain,
        "peak_mb": max(cost["mb"] for cost in costs),
        "goal_mb": job.goal_mb,
    }


#: What is measured, its goal, and whether it is to be at most that.
GOALS = (
    ("ns_per_hop", "goal_ns", True),
    ("us_per_flow", "goal_us_per_flow", True),
    ("peak_mb", "goal_mb", True),
    ("gain", "goal_gain", False),
)


def missed(r: dict[str, Any]) -> list[str]:
    """Which goals of a row are not met."""
    lines = []
    for what, goal, at_most in GOALS:
        value, wanted = r[what], r[goal]
        if value is not None and wanted is not None and (value > wanted if at_most else value < wanted):
            lines.append(f"{r['job']}: {what} {value:.2f}, goal {wanted:.2f}")
    return lines


def main() -> int:
    """Print the table; exit 0 when every goal is met, 1 otherwise."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--only", metavar="WORDS", default="", help="jobs with these words in their name")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    options = parser.parse_args()
    if options.child is not None:
        child(options.child, options.threads)
        return 0
    load = os.getloadavg()[0]
    rows: list[dict[str, Any]] = []
    with_floor = build_floor()
    for number, job in enumerate(JOBS):
        if options.only in job.name:
            rows.append(row(job, measure(number, with_floor), rows))
    started = starts()
    peer = None if options.only else ns2(int(str(INCAST["duration"]).rstrip("s")))
    if options.json:
        least = min(peer) if peer else None
        found = {"jobs": rows, "start_s": started, "ns2_incast_ns_per_hop": least, "load": load}
        print(json.dumps(found | {"profiled": profiled()}))
    else:
        table(rows, started, peer, load)
    return 1 if any(missed(r) for r in rows) else 0


def table(
    rows: list[dict[str, Any]], started: dict[str, float], peer: list[float] | None, load: float
) -> None:
    """Print the costs for people."""

    def shown(value: float | None, digits: int) -> str:
        return "" if value is None else f"{value:,.{digits}f}"

    print(
        f"{'job':<40}{'ns/hop':>8}{'slowest':>9}{'goal':>6}{'floor':>7} {'by':<6}{'ratio':>7}"
        f"{'hops':>14}{'us/flow':>10}{'2 cores':>9}{'peak MB':>9}{'goal':>6}"
    )
    for r in rows:
        per_flow = r["us_per_flow"] if r["goal_us_per_flow"] else None
        print(
            f"{r['job']:<40}{r['ns_per_hop']:>8.1f}{r['ns_slowest']:>9.1f}{shown(r['goal_ns'], 0):>6}"
            f"{shown(r['floor_ns'], 1):>7} {r['floor_kind'] or '':<6}{shown(r['times_floor'], 2):>7}"
            f"{r['hops']:>14,.0f}"
            f"{shown(per_flow, 2):>10}{shown(r['gain'], 2):>9}{r['peak_mb']:>9.0f}{shown(r['goal_mb'], 0):>6}"
        )
    print("the engine was built " + ("with a profile (make pgo)" if profiled() else "without a profile"))
    if not any(r["floor_ns"] for r in rows):
        print("without rustc there is no floor to compare with")
    print("CPU seconds to start: " + ", ".join(f"{name} {spent:.2f}" for name, spent in started.items()))
    if peer:
        print(f"{'ns-2, the same incast':<40}{min(peer):>8.1f}{max(peer):>9.1f}")
        print(f"penstock is {min(peer) / rows[0]['ns_per_hop']:.1f} times as fast as ns-2 on this job")
    elif shutil.which("ns") is None:
        print("ns-2 is not installed (apt install ns2): no comparison")
    for line in [line for r in rows for line in missed(r)]:
        print(f"not met: {line}")
    if load > 0.5:
        print(f"note: the machine was busy (load {load:.1f}); the goals are for an idle core")


if __name__ == "__main__":
    sys.exit(main())
