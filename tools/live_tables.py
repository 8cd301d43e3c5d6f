"""The tables of docs/validation/linux-kernel.md: kernel sockets beside the simulation of the same scenario
(Linux, root).

python tools/live_tables.py GROUP --out FILE.json [--only TEXT] [--rtt 1|20] [--later]
    # GROUP: flows, unprobed, incast, pairs, marks, laws
python tools/live_tables.py show --out FILE.json        # the tables of what FILE holds
python tools/live_tables.py simulate --out FILE.json    # its simulations once more, by the present engine
python tools/live_tables.py figure --out FILE.csv       # points of an incast, every run

A point runs until three runs of the kernel (or `--runs`) are valid. Incasts that stall for 200 ms are five
times as long and run three times. A row has the kernel's median, the simulation's median over nine seeds, the
ratio, and a verdict per quantity by the goals of its kind: met, spread or apart. "Spread" means that more
than one in four runs of the kernel are as far from their median as the simulation. Points in FILE are not run
again. Runs take real time: half an hour for `flows`, a quarter for `incast`, on an idle machine. `nice -n -5`
makes late runs rarer on a busy one; each run reports the cores kept busy by other processes.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import penstock
from penstock import Flows, Network, live

RUNS = 3
SEEDS = tuple(range(1, 10))
KEYS = (
    "goodput_bps",
    "queue_mean_packets",
    "retransmits",
    "timeouts",
    "drops",
    "blocks",
    "packets_sent",
    "ce_marks",
)
QUALITY = (
    "valid",
    "lag_p50_s",
    "lag_p99_s",
    "lag_max_s",
    *live.WAKE,
    *live.WAKE_LARGEST,
    "wake_times",
    "awake_p50_s",
    "awake_p99_s",
    "awake_times",
    *(key for pair in live.PAUSES.values() for key in pair),
    *live.DATA_HANDOVER,
    *live.ACK_HANDOVER,
    *live.RECEIVER,
    *live.DUPACK,
    *live.SENDER,
    *live.MISSED_TICKS,
    *live.WRITE_LAG,
    *live.WRITE_TIME,
    *live.WRITE_TURN,
    *live.APPLICATION,
    *live.APPLICATION_LAG,
    *live.APPLICATION_LAG_LARGEST,
    "application_lag_times",
    *live.RECEIVER_LASTS,
    *live.DUPACK_LASTS,
    *live.SENDER_LASTS,
    *live.APPLICATION_LASTS,
    "application_turn_lag",
    *live.APPLICATION_LAG_LASTS,
    "late_windows",
    "other_cpu_cores",
    "measured_s",
    "tail_loss_probes",
)
LAWS = ("linux-reno", "linux-cubic", "bbr")
#: 0.25, 1 and 4 bandwidth-delay products of 100 Mb/s in packets of 1500 bytes, by the round trip in ms.
BUFFERS = {1: (2, 8, 33), 20: (42, 167, 667)}
#: Length and warm-up in seconds by the round trip in ms and the place in BUFFERS: some sawteeth each.
LENGTHS = {
    (1, 0): (8, 2),
    (1, 1): (8, 2),
    (1, 2): (8, 2),
    (20, 0): (20, 4),
    (20, 1): (30, 6),
    (20, 2): (60, 20),
}

Point = dict[str, Any]


def without(probe: str) -> str:
    """What the name of a single flow says of probes."""
    return "" if probe == "true" else ", without probes"


def flows(rtt: int | None = None, probe: str = "true") -> Iterator[Point]:
    """One flow of each law through each buffer."""
    for ms, sizes in BUFFERS.items():
        if rtt not in (None, ms):
            continue
        for place, packets in enumerate(sizes):
            length, warmup = LENGTHS[ms, place]
            for law in LAWS:
                settings = {
                    "flows": 1,
                    "protocol": law,
                    "access_rate": "1Gbps",
                    "rtt": f"{ms}ms",
                    "buffer": f"{packets}pkt",
                    "duration": f"{length}s",
                    "warmup": f"{warmup}s",
                    "tail_loss_probe": probe,
                }
                point = {
                    "name": f"{law}, {ms} ms, {packets} packets" + without(probe),
                    "scenario": "long-flows",
                    "settings": settings,
                }
                # Two states, and a loss by chance leads from one to the other: three runs do not tell.
                yield {**point, "runs": 3 * RUNS} if (law, ms, place) == ("bbr", 1, 2) else point


def unprobed(rtt: int | None = None) -> Iterator[Point]:
    """Single flows without tail-loss probes."""
    return flows(rtt, "false")


def incast() -> Iterator[Point]:
    """Synchronized reads with and without tail-loss probes."""
    for floor in ("200ms", "10ms"):
        for probe in ("true", "false"):
            for servers in (4, 8, 12, 16):
                # Timeouts of 200 ms: 8 s have some twenty, so that goodput scatters by a fifth.
                rare = floor == "200ms" and probe == "false"
                settings = {
                    "servers": servers,
                    "protocol": "linux-reno",
                    "rto_min": floor,
                    "tail_loss_probe": probe,
                    "duration": "41s" if rare else "8s",
                    "warmup": "1s",
                }
                probes = "with" if probe == "true" else "without"
                name = f"{servers} servers, {floor}, {probes} probes"
                point = {"name": name, "scenario": "incast", "settings": settings}
                yield {**point, "runs": RUNS} if rare else point


def pairs() -> Iterator[Point]:
    """Two laws that share a link, one bandwidth-delay product of buffer at 20 ms, four at 1 ms."""
    for a, b in (("linux-reno", "linux-cubic"), ("linux-cubic", "bbr")):
        for ms, packets, length in ((1, 33, 12), (20, 167, 40)):
            yield {
                "name": f"{a} and {b}, {ms} ms, {packets} packets",
                "scenario": "pair",
                "pair": [a, b],
                "rtt": ms,
                "packets": packets,
                "settings": {
                    "duration": f"{length}s",
                    "warmup": f"{length // 4}s",
                    "tail_loss_probe": "true",
                },
            }


def marks() -> Iterator[Point]:
    """DCTCP (by BPF struct_ops) in its two tables."""
    for threshold in (10, 20):
        settings = {
            "flows": 2,
            "protocol": "dctcp:min_window=2",
            "tcp": "linux",
            "queue": f"threshold:k={threshold}pkt",
            "access_rate": "1Gbps",
            "duration": "8s",
            "warmup": "2s",
            "tail_loss_probe": "true",
        }
        yield {"name": f"dctcp, threshold {threshold}", "scenario": "long-flows", "settings": settings}
    yield from incast_of("dctcp", protocol="dctcp:min_window=2", tcp="linux", queue="threshold:k=10pkt")


def incast_of(name: str, **settings: str) -> Iterator[Point]:
    """The incasts of another law, in which the longest runs are half as long."""
    for point in incast():
        length = "21s" if point["settings"]["duration"] == "41s" else "8s"
        changed = {**point["settings"], **settings, "duration": length}
        yield {**point, "name": f"{name}, {point['name']}", "settings": changed}


def laws() -> Iterator[Point]:
    """The incasts of the other laws."""
    for law in ("linux-cubic", "bbr"):
        yield from incast_of(law, protocol=law)


GROUPS = {
    "flows": flows,
    "unprobed": unprobed,
    "incast": incast,
    "pairs": pairs,
    "marks": marks,
    "laws": laws,
}


def scenario(point: Point) -> tuple[Any, dict[str, Any]]:
    """What `penstock.run` and `live.run` take for a point."""
    if point["scenario"] != "pair":
        return point["scenario"], point["settings"]
    net = Network().host("a", "b", "sink").switch("s")
    # A quarter of the way is on the senders' links, the rest behind the bottleneck.
    net.link(["a", "b"], "s", rate="1Gbps", delay=f"{point['rtt'] * 125}us")
    net.link("s", "sink", rate="100Mbps", delay=f"{point['rtt'] * 375}us", buffer=f"{point['packets']}pkt")
    hosts = zip("ab", point["pair"], strict=True)
    load = [Flows(host, "sink", protocol=law, spread="10ms") for host, law in hosts]
    return net, {
        "workloads": load,
        "protocol": point["pair"][0],
        "bottleneck": "s->sink",
        **point["settings"],
    }


def numbers(result: Any) -> Point:
    """The keys of one run that a table has."""
    summary = result.runs[0].summary
    found = {key: summary[key] for key in (*KEYS, *QUALITY) if key in summary}
    shares = result.flows.sort("flow")["delivered_bytes"].to_list()
    if len(shares) == 2:
        found["share"] = shares[0] / max(sum(shares), 1)
    return found


def kernel(point: Point, seed: int) -> Point:
    """One run with kernel sockets."""
    name, settings = scenario(point)
    found = numbers(live.run(name, seed=seed, keep=["flows"], **settings))
    return {"seed": seed, "load": os.getloadavg()[0], **found}


def simulated(point: Point, seed: int, noise: dict[str, str] = live.STILL) -> Point:
    """The same simulated, with the live run's own values; hosts are as late as `noise` says."""
    name, settings = scenario(point)
    resolved = live.resolve(name, settings, seed=seed)
    same = {key: resolved["set"][key] for key in resolved["given"]}
    same |= noise
    if point["scenario"] == "pair":
        same["workloads"] = settings["workloads"]
    return {"seed": seed, **numbers(penstock.run(name, seed=seed, keep=["flows"], **same))}


def simulate(point: Point) -> None:
    """Both simulations: hosts without noise, and each seed as late as in one of the kernel's valid runs, in
    turn. How often a machine is late by a tenth of a millisecond differs fivefold from one run to the next.
    """
    valid = [run for run in point["kernel"] if run["valid"] == 1] or point["kernel"]
    noises = [live.noise_of([run]) for run in valid]
    point["simulated"] = [simulated(point, seed) for seed in SEEDS]
    point["noisy"] = [simulated(point, seed, noises[i % len(noises)]) for i, seed in enumerate(SEEDS)]


def median(runs: list[Point], key: str) -> float:
    """Median of a key over the valid ones."""
    values = [r[key] for r in runs if r.get("valid", 1) == 1 and key in r]
    return statistics.median(values) if values else float("nan")


def spread(runs: list[Point], key: str) -> str:
    """Smallest and largest of the valid ones."""
    values = [r[key] for r in runs if r.get("valid", 1) == 1 and key in r]
    if not values:
        return "-"
    scale = 1e6 if key == "goodput_bps" else 1
    return f"{min(values) / scale:.4g} to {max(values) / scale:.4g}"


#: How far the simulation's median may be from the kernel's, as a part of it; shares in points.
GOALS = {
    "long-flows": {"goodput_bps": 0.03, "queue_mean_packets": 0.1, "retransmits": 0.2},
    "incast": {"goodput_bps": 0.15, "timeouts": 0.25},
    "pair": {"share": 0.1},
}


def agree(own: list[float], middle: float, allowed: float) -> bool:
    """Whether runs of the kernel agree among themselves: one in four of them, at most, is further from their
    median than the goal; of three, none.
    """
    return 4 * sum(abs(value - middle) > allowed for value in own) <= len(own)


def verdicts(point: Point, which: str) -> dict[str, str]:
    """By quantity: met; spread, where the valid runs of the kernel do not agree among themselves and the
    simulated value is not outside all of them; apart.
    """
    found = {}
    for key, goal in GOALS[point["scenario"]].items():
        x, y = median(point["kernel"], key), median(point[which], key)
        scale = 1.0 if key == "share" else abs(x)
        allowed = goal * scale + 1e-9
        own = [r[key] for r in point["kernel"] if r["valid"] == 1]
        if abs(y - x) <= allowed:
            found[key] = "met"
        else:
            wide = not agree(own, x, allowed)
            found[key] = "spread" if wide and min(own) <= y <= max(own) else "apart"
    return found


def line(point: Point) -> str:
    """A row of a table: kernel's median (spread) / the simulation's / the same with noise, by quantity."""
    a, b, c = (point[which] for which in ("kernel", "simulated", "noisy"))
    cells = [
        point["name"],
        str(sum(1 for r in a if r["valid"] == 1)),
        f"{median(a, 'lag_p99_s') * 1e6:.0f} us",
    ]
    for key, scale in (("goodput_bps", 1e6), ("queue_mean_packets", 1), ("retransmits", 1), ("timeouts", 1)):
        x, y, z = (median(runs, key) / scale for runs in (a, b, c))
        cells.append(f"{x:.4g} ({spread(a, key)}) / {y:.4g} / {z:.4g}")
    if any("share" in r for r in a):
        x, y, z = (100 * median(runs, "share") for runs in (a, b, c))
        own = [100 * r["share"] for r in a if r["valid"] == 1]
        cells.append(f"{x:.0f} ({min(own):.0f} to {max(own):.0f}) / {y:.0f} / {z:.0f} %")
    cells.append(f"{max((r['load'] for r in a), default=0):.1f}")
    plain, noisy = verdicts(point, "simulated"), verdicts(point, "noisy")
    cells.append(", ".join(f"{key.split('_')[0]} {plain[key]} / {noisy[key]}" for key in plain))
    return "| " + " | ".join(cells) + " |"


def measure(points: list[Point], out: Path, runs: int, later: bool) -> None:
    """Runs what `out` does not hold yet, until `runs` of a point are valid, and writes after every run;
    `later`: leaves the simulations to `simulate`.
    """
    done: dict[str, Point] = json.loads(out.read_text()) if out.exists() else {}
    for point in points:
        kept = done.setdefault(point["name"], {**point, "kernel": [], "simulated": []})
        tried, before = kept["kernel"], len(kept["kernel"])
        enough = point.get("runs", runs)
        while sum(1 for r in tried if r["valid"] == 1) < enough and len(tried) < 3 * enough:
            kept["kernel"].append(kernel(kept, len(kept["kernel"]) + 1))
            out.write_text(json.dumps(done, indent=1))
        if later:
            valid = sum(1 for r in tried if r["valid"] == 1)
            print(f"{point['name']}: {valid} valid of {len(tried)}", flush=True)
            continue
        if len(tried) > before or "noisy" not in kept:
            simulate(kept)
        out.write_text(json.dumps(done, indent=1))
        print(line(kept), flush=True)


def figure(out: Path) -> None:
    """Goodput of an incast over the number of servers: medians of valid runs, empty where there is none."""
    head = (
        "rto_min_s",
        "servers",
        "kernel_goodput_bps",
        "kernel_runs",
        "simulated_goodput_bps",
        "kernel_load",
    )
    with out.open("w", encoding="utf-8", newline="") as file:
        file.write(
            "# Synchronized reads of 25.6 KB per server at 100 Mb/s, buffer of 32 packets, without probes,\n"
        )
        file.write("# protocol=newreno, 5 s after 1 s; Linux " + os.uname().release.split("-")[0] + ", ")
        file.write("tools/live_tables.py figure.\n")
        table = csv.writer(file, lineterminator="\n")
        table.writerow(head)
        for floor in (0.2, 0.01):
            for servers in (1, 2, 3, 4, 6, 8, 12, 16):
                settings = {
                    "servers": servers,
                    "protocol": "newreno",
                    "rto_min": f"{floor * 1e3:.0f}ms",
                    "duration": "6s",
                    "warmup": "1s",
                    "tail_loss_probe": "false",
                }
                point = {"scenario": "incast", "settings": settings}
                runs: list[Point] = []
                while sum(r["valid"] == 1 for r in runs) < RUNS and len(runs) < 2 * RUNS:
                    runs.append(kernel(point, len(runs) + 1))
                sim = [simulated(point, seed) for seed in SEEDS]
                valid = [r for r in runs if r["valid"] == 1]
                goodput = f"{median(runs, 'goodput_bps'):.0f}" if valid else ""
                load = f"{max(r['load'] for r in runs):.1f}"
                row = (floor, servers, goodput, len(valid), f"{median(sim, 'goodput_bps'):.0f}", load)
                table.writerow(row)
                file.flush()
                print(*row, flush=True)


def main() -> None:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=[*GROUPS, "show", "simulate", "figure"])
    parser.add_argument("--out", type=Path, required=True, help="JSON file of the results; CSV of figure")
    parser.add_argument("--only", default="", help="points whose name has this text")
    parser.add_argument(
        "--rtt", type=int, choices=list(BUFFERS), help="of flows: only this round trip, in ms"
    )
    parser.add_argument("--runs", type=int, default=RUNS, help="valid runs of the kernel for a point")
    parser.add_argument("--later", action="store_true", help="kernel runs alone; `simulate` does the rest")
    options = parser.parse_args()
    if options.what == "figure":
        figure(options.out)
        return
    if options.what in GROUPS:
        single = options.what in ("flows", "unprobed")
        points = list(GROUPS[options.what](options.rtt) if single else GROUPS[options.what]())
        chosen = [p for p in points if options.only in p["name"]]
        measure(chosen, options.out, options.runs, options.later)
        return
    done: dict[str, Point] = json.loads(options.out.read_text())
    for point in done.values():
        if options.only in point["name"]:
            if options.what == "simulate":
                simulate(point)
            print(line(point), flush=True)
    if options.what == "simulate":
        options.out.write_text(json.dumps(done, indent=1))


if __name__ == "__main__":
    main()
