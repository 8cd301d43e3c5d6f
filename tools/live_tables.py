"""The tables of docs/live.md: kernel sockets beside the simulation of the very same scenario (Linux, root).

python tools/live_tables.py flows|incast|pairs|marks --out FILE.json [--only TEXT] [--rtt 1|20]
python tools/live_tables.py show --out FILE.json        # the tables of what FILE holds
python tools/live_tables.py simulate --out FILE.json    # its simulations once more, by the present engine
python tools/live_tables.py figure --out FILE.csv       # the points of docs/live-incast.csv, measured anew

A point is run until three runs of the kernel are valid; a row has their median, the simulation's median over
three seeds, and the ratio. What FILE holds is not run again. Runs in real time: `flows` takes half an hour,
`incast` a quarter, on a machine that is idle. `nice -n -5` makes late runs rarer on one that is not; each
says how many cores others kept busy.
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

RUNS, ATTEMPTS = 3, 9
SEEDS = (1, 2, 3)
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
QUALITY = ("valid", "lag_p99_s", "late_windows", "other_cpu_cores", "measured_s", "tail_loss_probes")
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


def flows(rtt: int | None = None) -> Iterator[Point]:
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
                    "tail_loss_probe": "true",
                }
                yield {
                    "name": f"{law}, {ms} ms, {packets} packets",
                    "scenario": "long-flows",
                    "settings": settings,
                }


def incast() -> Iterator[Point]:
    """Synchronized reads with and without tail-loss probes."""
    for floor in ("200ms", "10ms"):
        for probe in ("true", "false"):
            for servers in (4, 8, 12, 16):
                settings = {
                    "servers": servers,
                    "protocol": "linux-reno",
                    "rto_min": floor,
                    "tail_loss_probe": probe,
                    "duration": "8s",
                    "warmup": "1s",
                }
                probes = "with" if probe == "true" else "without"
                name = f"{servers} servers, {floor}, {probes} probes"
                yield {"name": name, "scenario": "incast", "settings": settings}


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
            "protocol": "dctcp:rules=linux,min_window=2",
            "tcp": "linux",
            "queue": f"threshold:k={threshold}pkt",
            "access_rate": "1Gbps",
            "duration": "8s",
            "warmup": "2s",
            "tail_loss_probe": "true",
        }
        yield {"name": f"dctcp, threshold {threshold}", "scenario": "long-flows", "settings": settings}
    for servers in (4, 8, 12, 16):
        for probe in ("true", "false"):
            settings = {
                "servers": servers,
                "protocol": "dctcp:rules=linux,min_window=2",
                "tcp": "linux",
                "queue": "threshold:k=10pkt",
                "rto_min": "10ms",
                "tail_loss_probe": probe,
                "duration": "8s",
                "warmup": "1s",
            }
            probes = "with" if probe == "true" else "without"
            yield {
                "name": f"dctcp, {servers} servers, {probes} probes",
                "scenario": "incast",
                "settings": settings,
            }


GROUPS = {"flows": flows, "incast": incast, "pairs": pairs, "marks": marks}


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


def simulated(point: Point, seed: int) -> Point:
    """The same simulated, with the live run's own values."""
    name, settings = scenario(point)
    resolved = live.resolve(name, settings, seed=seed)
    same = {key: resolved["set"][key] for key in resolved["given"]}
    if point["scenario"] == "pair":
        same["workloads"] = settings["workloads"]
    return {"seed": seed, **numbers(penstock.run(name, seed=seed, keep=["flows"], **same))}


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


def line(point: Point) -> str:
    """A row of a table: each quantity as the kernel's median (spread) / the simulation's = ratio."""
    a, b = point["kernel"], point["simulated"]
    cells = [point["name"], str(sum(1 for r in a if r["valid"] == 1))]
    for key, scale in (("goodput_bps", 1e6), ("queue_mean_packets", 1), ("retransmits", 1), ("timeouts", 1)):
        x, y = median(a, key) / scale, median(b, key) / scale
        ratio = f"{y / x:.2f}" if x else "-"
        cells.append(f"{x:.4g} ({spread(a, key)}) / {y:.4g} = {ratio}")
    if any("share" in r for r in a):
        cells.append(f"{100 * median(a, 'share'):.0f} / {100 * median(b, 'share'):.0f} %")
    cells.append(f"{max((r['load'] for r in a), default=0):.1f}")
    return "| " + " | ".join(cells) + " |"


def measure(points: list[Point], out: Path) -> None:
    """Runs what `out` does not hold yet and writes after every run."""
    done: dict[str, Point] = json.loads(out.read_text()) if out.exists() else {}
    for point in points:
        kept = done.setdefault(point["name"], {**point, "kernel": [], "simulated": []})
        while sum(1 for r in kept["kernel"] if r["valid"] == 1) < RUNS and len(kept["kernel"]) < ATTEMPTS:
            kept["kernel"].append(kernel(kept, len(kept["kernel"]) + 1))
            out.write_text(json.dumps(done, indent=1))
        while len(kept["simulated"]) < len(SEEDS):
            kept["simulated"].append(simulated(kept, SEEDS[len(kept["simulated"])]))
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
    options = parser.parse_args()
    if options.what == "figure":
        figure(options.out)
        return
    if options.what in GROUPS:
        points = list(flows(options.rtt) if options.what == "flows" else GROUPS[options.what]())
        measure([p for p in points if options.only in p["name"]], options.out)
        return
    done: dict[str, Point] = json.loads(options.out.read_text())
    for point in done.values():
        if options.only in point["name"]:
            if options.what == "simulate":
                point["simulated"] = [simulated(point, seed) for seed in SEEDS]
            print(line(point), flush=True)
    if options.what == "simulate":
        options.out.write_text(json.dumps(done, indent=1))


if __name__ == "__main__":
    main()
