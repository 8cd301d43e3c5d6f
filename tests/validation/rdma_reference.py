"""Comparisons with the reference's own files, which are not part of this repository: m3's shards, two flows,
16 to 1, 32 hosts. Where they lie is said by `PENSTOCK_RDMA_REFERENCE`; what is in them, by
docs/validation/hpcc-ns3.md.

As a program: `python tests/validation/rdma_reference.py [two|incast|hosts|shards|seeds] [exact] [drawn]`
prints the figures of docs/validation/hpcc-ns3.md; `exact` = with an exact clock, `drawn` = DCQCN's marks
by the reference's own random numbers.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import rdma_ns3 as ns3
from numpy.typing import NDArray

from penstock.runs import RunSet

FOLDER = Path(os.environ.get("PENSTOCK_RDMA_REFERENCE", "no-reference"))
LINE = 100e9


def _run(links: list[tuple[str, str, float]], flows: list[ns3.Flow], law: str, **keys: object) -> RunSet:
    with tempfile.TemporaryDirectory() as folder:
        return ns3.run(Path(folder), links, flows, law, **keys)  # type: ignore[arg-type]


# ---- two flows ---------------------------------------------------------------------------------------------


def two(
    name: str, *, seed: int = 1, exact: bool = False, drawn: bool = False
) -> tuple[pl.DataFrame, pl.DataFrame, float]:
    """Return two flows of `a_NAME.csv` (`2join_hpcc`, `fine2_timely`) by the reference and by this
    repository, with the columns `t_us`, `queue_B`, `rate_0`, `rate_1` in bit/s. Also returns the largest
    queue here, in bytes, as the reference counts it: without the packet on the wire.
    """
    setup, _, label = name.partition("_")
    size = ns3.packet(label)
    given = pl.read_csv(FOLDER / "new" / f"a_{name}.csv", infer_schema_length=None)
    columns = [
        given["t_us"].cast(pl.Float64).alias("t_us"),
        given["queue_B"].cast(pl.Float64).alias("queue_B"),
    ]
    columns += [
        (given[f"rate_Mbps_{i}"].cast(pl.Float64, strict=False) * 1e6).alias(f"rate_{i}") for i in (0, 1)
    ]
    reference = pl.DataFrame(columns)
    step = "10us" if setup == "2join" else "1us"
    second = 1e6 if setup == "2join" else 0.0
    end = reference["t_us"][-1] * 1e3
    result = _run(
        ns3.star(3, 100.0),
        [(0, 2, 150_000_000, 0.0), (1, 2, 150_000_000, second)],
        ns3.protocol(label, 52_000, 4160),
        duration_ns=end + 1,
        seed=seed,
        exact=exact,
        drawn=drawn and "dcqcn" in label,
        bottleneck="s->h2",
        sample=step,
        series=True,
    )
    samples = result.series.with_columns(t_us=(pl.col("time_s") * 1e6).round(3))
    own = reference.select("t_us")
    for column, metric, number in (
        ("queue_B", "queue_bytes", None),
        ("rate_0", "rate_bps", 0),
        ("rate_1", "rate_bps", 1),
    ):
        of = samples.filter(pl.col("metric") == metric)
        of = of if number is None else of.filter(pl.col("number") == number)
        own = own.join(of.select("t_us", pl.col("value").alias(column)), on="t_us", how="left")
    on_wire = float(size)
    own = own.with_columns(queue_B=(pl.col("queue_B") - on_wire).clip(lower_bound=0.0))
    return reference, own, result.mean("queue_max_packets") * size - on_wire


def rate_difference(reference: pl.DataFrame, own: pl.DataFrame) -> float:
    """Mean over flows and samples of how far a rate is off, as a share of the link."""
    parts = []
    for column in ("rate_0", "rate_1"):
        off = np.abs(reference[column].to_numpy() - own[column].to_numpy())
        parts.append(off[np.isfinite(off)])
    return float(np.concatenate(parts).mean() / LINE)


def queue_peak(name: str) -> float:
    """The largest queue of the reference: of its summary where that has the run, else of its samples."""
    summary = pl.read_csv(FOLDER / "new" / "a_summary.csv").filter(pl.col("run") == f"a_{name}")
    if summary.height:
        return float(summary["queue_peak_B"][0])
    return float(pl.read_csv(FOLDER / "new" / f"a_{name}.csv", infer_schema_length=None)["queue_B"].max())  # type: ignore[arg-type]


def two_names() -> list[str]:
    """Every run of two flows that is there."""
    return sorted(p.stem.removeprefix("a_") for p in (FOLDER / "new").glob("a_*2*.csv"))


# ---- 16 to 1 with pause frames -----------------------------------------------------------------------------


def incast(
    label: str, *, seed: int = 1, exact: bool = False, drawn: bool = False, buffer: str = "2MiB"
) -> RunSet:
    """16 senders of 500 KB."""
    return _run(
        ns3.star(17, 100.0),
        [(i, 16, 500_000, 1000.0) for i in range(16)],
        ns3.protocol(label, 52_000, 4160),
        duration_ns=3e6,
        seed=seed,
        exact=exact,
        drawn=drawn and "dcqcn" in label,
        buffer=buffer,
        bottleneck="s->h16",
    )


def incast_summary(label: str) -> dict[str, float]:
    """What the reference has of that run."""
    summary = pl.read_csv(FOLDER / "new" / "b_summary.csv")
    return summary.filter(pl.col("run") == f"b_buf2M_{label}").row(0, named=True)


# ---- 32 hosts ----------------------------------------------------------------------------------------------


def hosts(
    label: str, *, seed: int = 1, exact: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Slowdowns of the 2,500 flows of the 32-host run: the reference's and this repository's."""
    flows = pl.read_csv(FOLDER / "new" / "d_flows.csv")
    fct = pl.read_csv(FOLDER / "new" / "d_fct.csv")[f"buf32M_{label}_fct_ns"].to_numpy()
    links = [(f"h{i}", f"s{i // 8}", 100.0) for i in range(32)]
    links += [(f"s{leaf}", f"s{spine}", 400.0) for leaf in range(4) for spine in (4, 5)]
    first = float(flows["start_ns"][0])
    start = (flows["start_ns"] - first + 1000.0).to_list()
    trace = list(zip(flows["src"], flows["dst"], flows["size_bytes"], start, strict=True))
    result = _run(
        links,
        trace,
        ns3.protocol(label, 102_500, 8200),
        duration_ns=start[-1] + 200e6,
        seed=seed,
        exact=exact,
        bottleneck="s0->h0",
    )
    ideal = flows["ideal_ns"].to_numpy()
    return fct / ideal, np.array(ns3.completion_ns(result)) / ideal


def begun(listed: list[int]) -> list[float]:
    """Return when flows begin that are listed for these nanoseconds, the first after 1 us. The reference
    reads decimal seconds into a binary number and truncates it, so that half of them begin one nanosecond
    early.
    """
    seconds = [f"{ns // 10**9}.{ns % 10**9:09d}" for ns in listed]
    begin = [math.floor(Fraction(float(text)) * 10**9) for text in seconds]
    return [float(ns - begin[0] + 1000) for ns in begin]


# ---- m3's shards -------------------------------------------------------------------------------------------


def shard_numbers() -> list[int]:
    return pl.read_csv(FOLDER / "m3_shards" / "scenarios.csv")["shard"].to_list()


def shard(
    number: int, *, seed: int = 1, exact: bool = False, drawn: bool = False
) -> tuple[str, NDArray[np.float64], NDArray[np.float64]]:
    """A shard of m3: its law, and the slowdowns of its flows in the reference and here. Three hosts at 10
    Gb/s, 100 Tb/s and 10 Gb/s around one switch; buffers without effect, as found by who re-ran it.
    """
    table = pl.read_csv(FOLDER / "m3_shards" / "scenarios.csv", infer_schema_length=None)
    row = table.filter(pl.col("shard") == number).row(0, named=True)
    flows = pl.read_csv(FOLDER / "m3_shards" / f"flows_{number}.csv")
    mode = int(row["cc_mode"])
    law = {1: "dcqcn", 3: "hpcc", 7: "timely", 8: "dctcp-roce"}[mode]
    keys = {
        "rules": "hpcc-ns3",
        "base_rtt": f"{row['base_rtt_ns']}ns",
        "window": f"{row['window_bytes']}B",
        "window_by_rate": "true" if row["var_win"] else "false",
        "rate_min": f"{row['min_rate_Mbps']}Mbps",
        "rate_max": f"{row['max_rate_Mbps']}Mbps",
        "control_priority": "6" if row["ack_high_prio"] else "3",
    }
    if mode in (1, 8):
        k_rate = "10Gbps"
        keys |= {"kmin": f"{row['kmin_kB_10G']}KB", "kmax": f"{row['kmax_kB_10G']}KB", "k_rate": k_rate}
        keys |= {"pmax": str(row["pmax_10G"]), "g": str(row["ewma_g"])}
    if mode == 1:
        keys |= {"alpha_timer": f"{row['alpha_resume_us']}us", "cut_timer": f"{row['rate_decrease_us']}us"}
        keys |= {"timer": f"{row['rp_timer_us']}us", "fast_recovery": str(row["fast_recovery_times"])}
    if mode == 3:
        keys |= {"eta": str(row["hpcc_eta"]), "max_stage": str(row["hpcc_mi_thresh"]), "int_multi": "1"}
    if mode == 7:
        keys |= {"t_low": f"{row['timely_tlow_ns']}ns", "t_high": f"{row['timely_thigh_ns']}ns"}
        keys["beta"] = str(row["timely_beta"])
    if mode == 8:
        keys["rate_ai"] = f"{row['dctcp_ai_Mbps']}Mbps"
    else:
        keys["rate_ai"] = f"{row['rate_ai_Mbps']}Mbps"
    if mode in (1, 7):
        keys["rate_hai"] = f"{row['rate_hai_Mbps']}Mbps"
    start = begun(flows["start_ns"].to_list())
    result = _run(
        [("h0", "s", 10.0), ("h1", "s", 100_000.0), ("h2", "s", 10.0)],
        list(zip(flows["src"], flows["dst"], flows["size_bytes"], start, strict=True)),
        f"{law}:{','.join(f'{k}={v}' for k, v in keys.items())}",
        duration_ns=start[-1] + 500e6,
        seed=seed,
        exact=exact,
        drawn=drawn and law == "dcqcn",
        pfc="off",
        bottleneck="s->h2",
    )
    ideal = flows["ideal_ns"].to_numpy()
    return law, flows["fct_ns"].to_numpy() / ideal, np.array(ns3.completion_ns(result)) / ideal


def seeds() -> pl.DataFrame:
    """The reference's runs of DCQCN's shards with six seeds. Columns are `shard`, `rng_run`, mean, median and
    99th percentile of the slowdown, and the number of flows that end at another time than in the published
    run, which has the first seed.
    """
    return pl.read_csv(FOLDER / "m3_shards" / "dcqcn_seed_spread.csv")


def seed_spread() -> dict[int, float]:
    """Of shards with random marks: largest less smallest mean slowdown over the reference's seeds."""
    mean = pl.col("mean_slowdown")
    of = seeds().group_by("shard").agg(((mean.max() - mean.min()) / mean.mean()).alias("spread"))
    return dict(of.iter_rows())


def tail(slowdowns: NDArray[np.float64]) -> float:
    """The 99th percentile as the reference's table has it: a flow of the list."""
    return float(np.sort(slowdowns)[int(0.99 * len(slowdowns))])


def moved(number: int, *, seed: int = 1, drawn: bool = False) -> tuple[int, NDArray[np.float64]]:
    """How many flows of a shard end at another time than in the reference, by more than the two nanoseconds
    by which its own runs differ; and the slowdowns here.
    """
    _, reference, own = shard(number, seed=seed, drawn=drawn)
    ideal = pl.read_csv(FOLDER / "m3_shards" / f"flows_{number}.csv")["ideal_ns"].to_numpy()
    return int((np.abs((own - reference) * ideal) > 2.5).sum()), own


# ---- as a program ------------------------------------------------------------------------------------------


def _print_two(exact: bool, drawn: bool) -> None:
    for name in two_names():
        reference, own, peak = two(name, exact=exact, drawn=drawn)
        off = 100 * rate_difference(reference, own)
        print(
            f"{name:22} rates {off:5.2f} %, largest queue {peak:9.0f} B ({queue_peak(name):9.0f})", flush=True
        )


def _print_incast(exact: bool, drawn: bool) -> None:
    for label in ("none", "dcqcn_paper", "hpcc", "dcqcn"):
        row = incast_summary(label)
        for seed in range(1, 5 if label == "dcqcn" else 2):
            result = incast(label, seed=seed, exact=exact, drawn=drawn)
            last = max(ns3.completion_ns(result)) / 1e3
            peak = (result.mean("queue_max_packets") - 1) * ns3.packet(label)
            print(
                f"{label:12} last {last:8.1f} ({row['last_fct_us']}) us, pauses {result.mean('pauses'):.0f} "
                f"({row['pauses_rx']}), largest queue {peak:.0f} ({row['queue_peak_B']}) B",
                flush=True,
            )


def _print_hosts(exact: bool, _: bool) -> None:
    for label in ("hpcc", "dcqcn"):
        reference, own = hosts(label, exact=exact)
        for name, of in (("reference", reference), ("here", own)):
            p50, p99 = np.percentile(of, [50, 99])
            print(f"{label:6} {name:10} mean {of.mean():.4f}, median {p50:.4f}, 99 % {p99:.4f}", flush=True)


def _print_shards(exact: bool, drawn: bool) -> None:
    for number in shard_numbers():
        law, reference, own = shard(number, exact=exact, drawn=drawn)
        off = np.abs(own / reference - 1)
        p50, p99 = np.percentile(off, [50, 99])
        mean = own.mean() / reference.mean() - 1
        print(
            f"shard {number:2} {law:10} mean slowdown {100 * mean:+6.2f} %, error median {100 * p50:6.3f} %, "
            f"99 % {100 * p99:7.2f} %",
            flush=True,
        )


def _print_seeds(_: bool, __: bool) -> None:
    for (number,), of in seeds().group_by("shard", maintain_order=True):
        here = [moved(number, seed=seed) for seed in range(1, 7)]
        own = np.array([(x.mean(), tail(x), n) for n, x in here])
        given = of.select("mean_slowdown", "p99_slowdown", "n_flows_fct_differs_from_published").to_numpy()
        text = [
            f"{name} {a[:, k].min():.3f} to {a[:, k].max():.3f} ({b[:, k].min():.3f} to {b[:, k].max():.3f})"
            for k, (name, a, b) in enumerate(
                (name, own, given) for name in ("mean", "99th percentile", "flows that differ")
            )
        ]
        drawn = moved(number, drawn=True)[0]
        print(f"shard {number:2} {', '.join(text)}; drawn {drawn} of {len(here[0][1])}", flush=True)


if __name__ == "__main__":
    parts = {
        "two": _print_two,
        "incast": _print_incast,
        "hosts": _print_hosts,
        "shards": _print_shards,
        "seeds": _print_seeds,
    }
    for what in [word for word in sys.argv[1:] if word in parts] or parts:
        parts[what]("exact" in sys.argv, "drawn" in sys.argv)
