"""Live runs as a user makes them: real sockets, in real time. What the machine cannot do is skipped, and why.

A live run on a busy machine may fail its gate; such a run says so and is made again. When the machine stays
too busy the test is skipped: a late run is no evidence, for or against.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import NormalDist
from typing import Any

import polars as pl
import pytest
from conftest import PENSTOCK, inline, penstock, settings

from penstock import live
from penstock.runs import Run, RunSet

LACKS = [f"{x['what']}: {x['detail']}" for x in live.doctor() if x["required"] and not x["found"]]
BPF = next(x for x in live.doctor() if "BPF" in x["what"])
needs_live = pytest.mark.skipif(bool(LACKS), reason=f"skipped: {'; '.join(LACKS)}")
needs_bpf = pytest.mark.skipif(bool(LACKS) or not BPF["found"], reason=f"skipped: {BPF['detail']}")
# One flow over a link that is faster than the bottleneck: the queue is the switch's.
ONE = {"flows": "1", "protocol": "sack", "access_rate": "1Gbps"}


def valid(make: Callable[[], Any], ok: Callable[[Any], bool]) -> Any:
    """The first of three attempts that passed the gate."""
    for _ in range(3):
        found = make()
        if ok(found):
            return found
    pytest.skip("skipped: the machine is too busy, three runs in a row were late")


def compared(name: str, **chosen: Any) -> live.Comparison:
    found = valid(lambda: live.compare(name, **chosen), lambda both: bool(both.valid().all()))
    assert isinstance(found, live.Comparison)
    return found


# ---- what a run gives ---------------------------------


@needs_live
def test_a_live_run_tells_of_waits_for_tail_loss_probes_as_a_simulation_does() -> None:
    # Three packets of buffer for four servers: last segments are lost, which a probe repairs.
    chosen = {"servers": "4", "sru": "10KB", "buffer": "3pkt", "warmup": "0s", "protocol": "linux-reno"}
    run = live.run("incast", duration="4s", **chosen, tail_loss_probe="true")
    told = [line for line in run.warnings if "tail-loss probe" in line]
    assert len(told) == 1, run.warnings
    # The kernel's count has probes with new data, too.
    counted = run.flows["tail_loss_probes"].sum()
    assert 0 < counted <= run.summary["tail_loss_probes"]
    assert not any("tail-loss" in line for line in live.run("incast", duration="2s", **chosen).warnings)


@needs_live
def test_a_live_run_has_the_tables_and_keys_of_a_simulated_one(tmp_path: Path) -> None:
    chosen = settings({**ONE, "duration": "2s", "warmup": "500ms", "sample": "10ms", "series": "true"})
    done = penstock("live", "long-flows", *chosen, "--json", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert set(document) == {"scenario", "seed", "runs", "mean", "ci95", "warnings"}
    summary = document["runs"][0]["summary"]
    wanted = {"goodput_bps", "utilisation", "queue_mean_packets", "drops", "retransmits", "timeouts"}
    assert set(summary) >= wanted | {"valid", "lag_p50_s", "lag_p99_s", "lag_max_s", "device_drops"}
    # 1448 of 1500 bytes are payload: the ceiling is 96.5 Mb/s.
    assert 80e6 < summary["goodput_bps"] < 96.6e6
    assert summary["measured_s"] == pytest.approx(1.5, abs=0.05)
    assert {p.name for p in tmp_path.iterdir()} >= {
        "run.json",
        "summary.json",
        "flows.parquet",
        "series.parquet",
    }
    import penstock as package

    back = package.load(tmp_path)
    assert {"queue_packets", "cwnd_bytes"} <= set(back.series["metric"])


@needs_live
def test_fresh_connections_complete_and_are_counted() -> None:
    result = live.run("query", servers=4, response="20KB", repetitions=20, connections="fresh", duration="8s")
    assert result.summary["blocks"] == 20
    assert result.summary["flows_completed"] == 80
    flows = result.flows
    assert flows["complete"].all()
    assert (flows["delivered_bytes"] == 20_000).all()
    assert (flows["acked_bytes"] == 20_000).all()


# ---- the kernel beside the simulation ---------------------------------


@needs_live
def test_reno_alone_agrees_with_its_simulation() -> None:
    """100 Mb/s, 1 ms, 100 packets: goodput within 5 %, mean queue 10 %, period of the sawtooth 15 %."""
    both = compared("long-flows", duration="12s", warmup="2s", **ONE)
    kernel, packet = both.kernel[0], both.packet[0]
    assert kernel.mean("goodput_bps") == pytest.approx(packet.mean("goodput_bps"), rel=0.05)
    assert kernel.mean("queue_mean_packets") == pytest.approx(packet.mean("queue_mean_packets"), rel=0.10)
    assert live.period(kernel) == pytest.approx(live.period(packet), rel=0.15)
    # Nothing is lost but what the queue drops, and every drop is repaired.
    assert kernel.mean("device_drops") == 0
    assert kernel.mean("retransmits") == pytest.approx(kernel.mean("drops"), abs=5)


@needs_live
def test_the_simulation_beside_has_the_noise_that_the_kernels_runs_measured() -> None:
    """The lag of these very runs, unless the noise is given; and the same without any beside it."""
    chosen = {**ONE, "duration": "600ms", "warmup": "200ms"}
    both = live.compare("long-flows", runs=2, **chosen)
    assert both.noise == (live.measured_noise(both.kernel[0]),)
    assert set(both.noise[0]) == set(live.NOISE) - {"receive_jitter", "processing_delay"}
    # No ACK is a duplicate where nothing is lost; two short runs may leave all ACKs to applications, or few.
    turns = {"receiver_turn", "application_turn"}
    # One flow writes nothing on an open connection, and a clock may have missed no tick.
    unknown = {"dupack_turn", "application_correlation", "write_lag", "write_time", "write_turn", *turns}
    unknown |= set(live.MISSED_TICKS)
    measured = {key for key, value in both.noise[0].items() if value != live.STILL[key]}
    assert measured >= set(both.noise[0]) - unknown and measured & turns
    for key, value in both.noise[0].items():
        assert {r.scenario["set"][key] for r in both.packet} == {value}
        assert {r.scenario["set"][key] for r in both.noiseless} == {live.STILL[key]}
    table = both.table()
    assert table["noise"].unique().to_list() == [" ".join(f"{k}={v}" for k, v in both.noise[0].items())]
    (row,) = table.filter(pl.col("metric") == "queue_mean_packets").iter_rows(named=True)
    assert row["packet"] == both.packet[0].mean("queue_mean_packets")
    assert row["noiseless"] == both.noiseless[0].mean("queue_mean_packets")
    assert row["packet"] != row["noiseless"]
    assert both.document()["points"][0]["noise"] == both.noise[0]
    given = live.compare("long-flows", receive_jitter="70us", **chosen)
    assert given.noise == ({"receive_jitter": "70us"},)
    assert given.packet[0].scenario["set"]["receive_jitter"] == "70us"
    assert given.packet[0].scenario["set"]["receive_lag"] == "none"


def lags(*runs: tuple[float, float], **more: float) -> RunSet:
    """Live runs with this largest lag of 10^6, a tenth of it as all others and as the time that a receiver
    takes, and `valid`.
    """
    keys = (*live.WAKE, *live.WAKE_LARGEST, *live.RECEIVER)
    made = [
        {**dict.fromkeys(keys, lag / 10), "wake_1_s": lag, "wake_times": 1e6, "valid": valid, **more}
        for lag, valid in runs
    ]
    return RunSet("incast", 1, tuple(Run(i, {}, summary, {}, {}) for i, summary in enumerate(made)))


@pytest.mark.parametrize(
    ("runs", "most", "others"),
    [
        ([(20e-6, 1), (50e-6, 1), (30e-6, 1)], "50000ns", "3000ns"),
        ([(20e-6, 1), (5e-3, 0), (40e-6, 1)], "40000ns", "3000ns"),  # only the valid ones
        ([(3e-3, 0), (5e-3, 0)], "5000000ns", "400000ns"),  # none is valid
        ([(2.5, 0)], "1000000000ns", "250000000ns"),  # the most that the key takes
    ],
)
def test_measured_noise_has_the_median_quantiles_of_the_valid_runs(
    runs: list[tuple[float, float]], most: str, others: str
) -> None:
    noise = live.measured_noise(lags(*runs))
    lag = dict(pair.split(":") for pair in noise["receive_lag"].split(","))
    for share in ("0.1", "0.5", "0.99"):
        assert lag[share] == others
    assert lag["1"] == most
    # Timers are late by what wakes the network, without its tail.
    timers = dict(pair.split(":") for pair in noise["timer_lag"].split(","))
    assert set(timers) == {"0.1", "0.25", "0.5", "0.75", "0.9", "0.95", "0.99", "1"}
    assert set(timers.values()) == {f"{float(others[:-2]) + 15e3:.0f}ns"}


def later(text: str, time: float) -> float:
    """The share of what is later than `time` by quantiles as the engine reads them: geometric between two."""
    points = [
        (float(share), float(took[:-2]) * 1e-9) for share, took in (p.split(":") for p in text.split(","))
    ]
    for (share, low), (last, high) in itertools.pairwise(points):
        if low <= time < high:
            return 1 - share - (last - share) * math.log(time / low) / math.log(high / low)
    return 0.0 if time >= points[-1][1] else 1.0


def test_the_tail_is_that_of_all_runs_together() -> None:
    """Three runs have 10^6 values each. One has two of 9 ms, two of 3 ms and the others up to 1.5 ms; over
    all runs these are a third as frequent, while the median run has none. Between these times there are no
    values.
    """
    still = dict.fromkeys((*live.WAKE, *live.WAKE_LARGEST), 1e-5)
    paused = {**still, **dict.fromkeys(live.WAKE_LARGEST, 1.5e-3)}
    paused |= {"wake_1_s": 9e-3, "wake_2_s": 9e-3, "wake_3_s": 3e-3, "wake_4_s": 3e-3}
    told = lags((1e-4, 1), (1e-4, 1), (1e-4, 1))
    for run, wakes in zip(told.runs, (still, paused, still), strict=True):
        run.summary.update(wakes)
    noise = live.measured_noise(told)["receive_lag"]
    for late, expected in ((1.6e-3, 4), (2.9e-3, 4), (3.1e-3, 2), (8.9e-3, 2), (9.1e-3, 0)):
        assert later(noise, late) * 3e6 == pytest.approx(expected, abs=0.01), late
    # Half of the packets are as late as in each run.
    assert dict(pair.split(":") for pair in noise.split(","))["0.5"] == "10000ns"


def test_applications_are_as_late_as_they_have_been() -> None:
    """Of 10^5 reads, a hundredth is later than 80 us and 100 are later than 400 us. These follow a power law
    to the 32nd largest at 1 ms, and the largest is 9 ms. Half of the others are within 16 us.
    """
    late = dict.fromkeys(live.APPLICATION_LAG_LARGEST, 1e-3) | dict.fromkeys(live.APPLICATION_LAG, 16e-6)
    late |= {
        "application_lag_p99_s": 8e-5,
        "application_lag_p995_s": 1e-4,
        "application_lag_p999_s": 4e-4,
        "application_lag_1_s": 9e-3,
        "application_lag_times": 1e5,
    }
    noise = live.measured_noise(lags((1e-4, 1), **late))["application_lag"]
    assert noise.startswith("0.1:16000ns,0.25:16000ns,0.5:16000ns,0.75:16000ns,0.9:16000ns,0.95:16000ns,")
    halfway = (4e-4 * 1e-3) ** 0.5, (100 * 32) ** 0.5
    for than, reads in ((1e-4, 500), (4e-4, 100), halfway, (0.999e-3, 32), (1.01e-3, 1), (8.9e-3, 1)):
        assert later(noise, than) == pytest.approx(reads / 1e5, rel=0.05), than
    assert live.measured_noise(lags((1e-4, 1)))["application_lag"] == "none"
    answers = {key: 1e-6 * (20 + i) for i, key in enumerate(live.APPLICATION)}
    turn = live.measured_noise(lags((1e-4, 1), **answers))["application_turn"]
    assert turn.startswith("0.01:20000ns,0.1:21000ns") and turn.endswith("0.99:26000ns,1:26000ns")


def test_handing_over_takes_what_was_measured() -> None:
    took = {key: 1e-6 * (5 + i) for i, key in enumerate(live.DATA_HANDOVER)}
    noise = live.measured_noise(lags((20e-6, 1), **took))
    times = zip((0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1), (5, 6, 7, 8, 9, 10, 11, 11), strict=True)
    assert noise["data_handover"] == ",".join(f"{share}:{n}000ns" for share, n in times)
    assert noise["ack_handover"] == "none"


def test_timers_wait_out_the_pauses_in_which_hosts_were_silent() -> None:
    """Three runs of four pauses of 1 ms and one of 8 each, two of them valid: hosts went on in 1 and 2 of
    their short ones, and in one of the long ones.
    """
    told = lags((20e-6, 1), (50e-6, 1), (30e-6, 0), wake_pauses_1ms=4.0, wake_pauses_8ms=1.0)
    for run, short, long in zip(told.runs, (1.0, 2.0, 4.0), (0.0, 1.0, 1.0), strict=True):
        run.summary.update({"wake_pauses_1ms_sent": short, "wake_pauses_8ms_sent": long})
    assert live.measured_noise(told)["timer_lag"].endswith(":18500ns;1ms:0.625,8ms:0.5")
    # Runs without a pause, or without senders in their pauses, tell nothing.
    assert ";" not in live.measured_noise(lags((20e-6, 1), wake_pauses_1ms=0.0))["timer_lag"]


def test_each_end_has_the_time_that_was_measured_there() -> None:
    """A receiver's is taken by data, a sender's by ACKs; where no ACK released anything nothing is known."""
    shares = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
    sender = {key: 1e-6 * (1 + i) for i, key in enumerate(live.SENDER)}
    noise = live.measured_noise(lags((20e-6, 1), (40e-6, 1), (60e-6, 1), **sender))
    assert noise["receiver_turn"] == ",".join(f"{share}:4000ns" for share in (*shares, 1))
    assert noise["sender_turn"] == ",".join(
        f"{share}:{n}000ns" for share, n in zip((*shares, 1), (1, 2, 3, 4, 5, 6, 7, 7), strict=True)
    )
    none = live.measured_noise(lags((40e-6, 1)))
    assert (none["sender_turn"], none["dupack_turn"]) == ("none", "none")
    reporting = {key: 1e-6 * (5 + i) for i, key in enumerate(live.DUPACK)}
    noise = live.measured_noise(lags((20e-6, 1), **reporting))
    assert noise["dupack_turn"].startswith("0.01:5000ns,0.1:6000ns")
    assert noise["receiver_turn"].startswith("0.01:2000ns")


def test_writes_and_ticks_are_as_they_were_measured() -> None:
    """The median over the runs; a clock that was not watched misses none, and a key takes less than half."""
    writes = {
        key: 1e-6 * (1 + i) for i, key in enumerate((*live.WRITE_LAG, *live.WRITE_TIME, *live.WRITE_TURN))
    }
    told = lags((20e-6, 1), (40e-6, 1), (60e-6, 1), missed_ticks_arrival=0.7, **writes)
    for run, share in zip(told.runs, (0.1, 0.2, 0.12), strict=True):
        run.summary["missed_ticks_write"] = share
    noise = live.measured_noise(told)
    for key, first in (("write_lag", 1), ("write_time", 8), ("write_turn", 15)):
        assert noise[key].startswith(f"0.01:{first}000ns,0.1:{first + 1}000ns"), noise[key]
        assert noise[key].endswith(f",1:{first + 6}000ns")
    assert (noise["missed_ticks_write"], noise["missed_ticks_arrival"]) == ("0.12", "0.49")
    none = live.measured_noise(lags((40e-6, 1)))
    assert (none["missed_ticks_write"], none["write_time"]) == ("0", "none")


def test_turns_last_as_they_were_measured_to() -> None:
    """Turns whose logarithm is normal are as correlated as their deviates (Mehler's series has one term):
    the correlation that successive ones would have, were the kept part always the same, is its share.
    """
    shares = [0.001, 0.01, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0]
    deviates = [NormalDist().inv_cdf(min(share, 0.9995)) for share in shares]
    points = [(share, 20e-6 * math.exp(0.5 * z)) for share, z in zip(shares, deviates, strict=True)]
    # Kept with 0.9 from one turn to the next, that is with its root from one packet to the next of two.
    share, packets = live.lasting(points, 0.8, 0.8 * 0.9**19, 2.0)
    assert share == pytest.approx(0.8 / 0.9, abs=0.01)
    assert packets == pytest.approx(1 / (1 - 0.9**0.5), rel=1e-6)
    # None, and one that is over before twenty turns are.
    assert live.lasting(points, -0.01, 0.0, 1.0) == (0.0, 1.0)
    share, packets = live.lasting(points, 0.5, 0.0, 1.0)
    assert 0.5 < share < 1 and 2 <= packets < 4
    # Two times, half of the packets each: Sheppard's 2/pi asin a.
    halves = [(0.4999, 10e-6), (0.5001, 50e-6), (1.0, 50e-6)]
    share, _ = live.lasting(halves, 0.5, 0.5, 1.0)
    assert share == pytest.approx(math.sin(math.pi / 4), abs=0.02)
    many = {"receiver_turn_near": 0.7, "receiver_turn_far": 0.6, "receiver_turn_packets": 2.0}
    turns = {key: 1e-6 * (5 + i) for i, key in enumerate(live.RECEIVER)}
    noise = live.measured_noise(lags((20e-6, 1), **many, **turns))
    times, lasts = noise["receiver_turn"].split(";")
    assert times.startswith("0.01:5000ns,0.1:6000ns") and noise["sender_turn"] == "none"
    assert float(lasts.split(":")[1]) == pytest.approx(1 / (1 - (6 / 7) ** (1 / 38)), rel=1e-4)


def test_who_comes_late_answers_sooner_as_was_measured() -> None:
    """Logarithms that are normal are as correlated as their deviates; two times of which either has half:
    Sheppard's 2/pi asin a; a constant says nothing.
    """
    shares = [0.001, 0.01, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0]
    deviates = [NormalDist().inv_cdf(min(share, 0.9995)) for share in shares]
    late, answers = (
        [(share, base * math.exp(0.5 * z)) for share, z in zip(shares, deviates, strict=True)]
        for base in (20e-6, 8e-6)
    )
    assert live.together(late, answers, -0.3) == pytest.approx(-0.3, abs=0.01)
    halves = [(0.4999, 10e-6), (0.5001, 50e-6), (1.0, 50e-6)]
    assert live.together(halves, halves, -0.5) == pytest.approx(-math.sin(math.pi / 4), abs=0.02)
    assert live.together(late, [(1.0, 5e-6)], -0.3) == 0.0
    known = {"application_lag_1_s": 1e-3, "application_lag_times": 1000.0, "application_turn_lag": -0.3}
    known |= {key: 1e-5 * (1 + i) for i, key in enumerate(live.APPLICATION_LAG)}
    known |= {key: 1e-6 * (1 + i) for i, key in enumerate(live.APPLICATION)}
    assert -0.45 < float(live.measured_noise(lags((20e-6, 1), **known))["application_correlation"]) < -0.25
    assert live.measured_noise(lags((20e-6, 1)))["application_correlation"] == "0"


def test_there_is_no_noise_where_nothing_was_delivered() -> None:
    run = Run(0, {}, {"valid": 0}, {}, {})
    assert live.measured_noise(RunSet("incast", 1, (run,))).items() <= live.STILL.items()


@needs_live
def test_what_servers_write_is_timed() -> None:
    """Blocks from two servers: each write is begun, kept the thread for a while and sent something; of the
    ticks at which the kernel's timers were due less than half passed over them.
    """
    done = live.run("incast", servers=2, duration="1s", warmup="300ms", rto_min="10ms")
    summary = done.runs[0].summary
    assert summary["blocks"] > 5
    for keys in (live.WRITE_LAG, live.WRITE_TIME, live.WRITE_TURN):
        times = [summary[key] for key in keys]
        assert times == sorted(times) and 0 < times[3] < 0.05, times
    assert all(0 <= summary[key] < 0.5 for key in live.MISSED_TICKS)
    noise = live.measured_noise(done)
    assert noise["write_time"].startswith("0.01:") and noise["write_turn"] != "none"


@needs_live
def test_the_command_prints_the_noise_and_the_figures_without_it(tmp_path: Path) -> None:
    chosen = settings({**ONE, "duration": "600ms", "warmup": "200ms"})
    done = penstock("live", "long-flows", "--compare", *chosen, "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "no noise" in done.stdout
    assert "..." not in done.stdout
    assert "have the delays of the kernel runs, in which 99 % of the packets were late by" in done.stderr
    (point,) = json.loads((tmp_path / "comparison.json").read_text())["points"]
    assert point["noise"]["receive_lag"].startswith("0.1:")
    assert point["noiseless"]["runs"][0]["summary"]["goodput_bps"] > 0


@needs_bpf
def test_dctcp_in_the_kernel_holds_the_queue_at_its_threshold() -> None:
    chosen = {"flows": 2, "protocol": "dctcp", "queue": "threshold:k=20pkt", "access_rate": "1Gbps"}
    both = compared("long-flows", duration="6s", warmup="2s", **chosen)
    kernel, packet = both.kernel[0], both.packet[0]
    assert kernel.mean("drops") == 0
    assert kernel.mean("ce_marks") > 100
    assert kernel.mean("queue_mean_packets") == pytest.approx(packet.mean("queue_mean_packets"), rel=0.20)
    assert 10 < kernel.mean("queue_mean_packets") < 30
    assert kernel.mean("goodput_bps") == pytest.approx(packet.mean("goodput_bps"), rel=0.05)


@needs_bpf
@pytest.mark.parametrize("protocol", ["sdc", "qi-rcp"])
def test_controllers_of_the_simulator_steer_kernel_sockets(protocol: str) -> None:
    chosen = {"flows": 2, "protocol": protocol, "access_rate": "1Gbps"}
    both = compared("long-flows", duration="4s", warmup="1s", **chosen)
    assert both.kernel[0].mean("goodput_bps") == pytest.approx(both.packet[0].mean("goodput_bps"), rel=0.10)
    assert both.kernel[0].mean("drops") == 0
    assert both.kernel[0].mean("jain") > 0.9


@needs_live
def test_incast_collapses_with_a_high_floor_and_recovers_with_a_low_one() -> None:
    """32 KB of buffer, 256 KB per server: what the feasibility of the whole view rests on."""

    def goodput(servers: int, rto_min: str) -> float:
        chosen = {"servers": servers, "rto_min": rto_min, "buffer": "32KB", "duration": "4s"}
        found = valid(lambda: live.run("incast", **chosen), lambda r: bool(r.summary["valid"]))
        return float(found.summary["goodput_bps"])

    alone, collapsed, recovered = goodput(1, "200ms"), goodput(16, "200ms"), goodput(16, "10ms")
    # A block of 25.6 KB per server is a few round trips long: 61 Mb/s simulated.
    assert alone > 50e6
    assert collapsed < 0.5 * alone
    assert recovered > 1.3 * collapsed


# ---- nothing is touched, nothing is left ---------------------------------


def outside() -> dict[str, str]:
    """What a live run must not change: devices, routes, settings, congestion controls of this namespace."""
    names = [
        "tcp_sack",
        "tcp_ecn",
        "tcp_early_retrans",
        "tcp_rmem",
        "tcp_wmem",
        "tcp_rto_min_us",
        "tcp_timestamps",
    ]
    files = [Path("/proc/sys/net/ipv4") / name for name in names]
    files += [Path("/proc/net/route")]
    state = {str(f): f.read_text() for f in files if f.exists()}
    state["controls"] = " ".join(c for c in controls() if not c.startswith("pk_"))
    devices = Path("/proc/net/dev").read_text().splitlines()[2:]
    state["devices"] = " ".join(sorted(line.split(":")[0].strip() for line in devices))
    return state


def controls() -> list[str]:
    """Congestion controls the kernel lists; ours begin with pk_ and hold the process's number."""
    return Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()


def alone() -> bool:
    """Return whether no other process here has a TUN device: only then can namespaces be counted."""
    for fd in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if os.readlink(fd) == "/dev/net/tun":
                return False
    return True


def namespaces() -> int | None:
    """Network namespaces of the whole machine, as far as the kernel tells (root only)."""
    if not alone():
        return None
    # The kernel frees the last dead namespaces when it takes down the next one: give it one.
    subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False)
    time.sleep(0.3)
    try:
        # Without this the table counts what lies in caches of freed objects too.
        Path("/sys/kernel/slab/net_namespace/shrink").write_text("1")
        rows = Path("/proc/slabinfo").read_text().splitlines()
    except OSError:
        return None
    found = [int(row.split()[1]) for row in rows if row.startswith("net_namespace ")]
    return found[0] if found else None


def settle(before: dict[str, str], count: int | None) -> None:
    """The kernel takes namespaces down in the background: wait for it, at most half a minute."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        now = namespaces()
        if outside() == before and (count is None or now is None or now <= count):
            break
        time.sleep(0.1)
    assert outside() == before
    now = namespaces()
    assert count is None or now is None or now <= count


def start(*arguments: str) -> subprocess.Popen[str]:
    """A live run that is under way: its namespaces exist."""
    run = subprocess.Popen(
        [str(PENSTOCK), "live", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    end = time.monotonic() + 20
    while time.monotonic() < end and run.poll() is None:
        fds = Path(f"/proc/{run.pid}/fd")
        links = []
        with contextlib.suppress(OSError):
            links = [os.readlink(f) for f in fds.iterdir()]
        if sum("/dev/net/tun" in link for link in links) >= 3:
            time.sleep(0.3)
            return run
        time.sleep(0.02)
    raise AssertionError(f"the run did not start: {run.communicate()}")


@needs_live
def test_a_run_that_succeeds_leaves_nothing() -> None:
    before, count = outside(), namespaces()
    assert penstock("live", "incast", *settings({"servers": "3", "duration": "1s"})).returncode == 0
    settle(before, count)


@needs_live
def test_a_run_that_fails_leaves_nothing() -> None:
    before, count = outside(), namespaces()
    # Some hosts are made, then the descriptors are used up.
    few = ["prlimit", "--nofile=40:40", str(PENSTOCK), "live", "incast", "--set", "servers=40"]
    done = subprocess.run(few, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3, done.stderr
    assert "Too many open files" in done.stderr
    assert "Traceback" not in done.stderr
    settle(before, count)


@needs_live
@pytest.mark.parametrize("protocol", ["newreno", pytest.param("dctcp", marks=needs_bpf)])
def test_ctrl_c_keeps_what_was_measured_and_leaves_nothing(protocol: str, tmp_path: Path) -> None:
    before, count = outside(), namespaces()
    chosen = settings({"servers": "2", "duration": "60s", "protocol": protocol})
    run = start("incast", *chosen, "--out", str(tmp_path))
    asked = time.monotonic()
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=30)
    assert run.returncode == 130, err
    assert time.monotonic() - asked < 5
    assert "Traceback" not in err
    assert json.loads((tmp_path / "run.json").read_text())["state"] == "partial"
    assert json.loads((tmp_path / "summary.json").read_text())["runs"][0]["summary"]["goodput_bps"] > 0
    settle(before, count)


@needs_live
def test_ctrl_c_during_a_comparison_keeps_the_points_that_have_runs(tmp_path: Path) -> None:
    chosen = settings({"duration": "60s"})
    run = start("incast", *chosen, "--compare", "--over", "servers=2,3", "--out", str(tmp_path))
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=30)
    assert run.returncode == 130, err
    assert "Traceback" not in err
    ended = json.loads((tmp_path / "partial.json").read_text())
    assert [point["scenario"]["set"]["servers"] for point in ended] == ["2"]
    assert ended[0]["runs"][0]["summary"]["goodput_bps"] > 0


@needs_live
@pytest.mark.parametrize("protocol", ["newreno", pytest.param("dctcp", marks=needs_bpf)])
def test_sigkill_leaves_nothing(protocol: str) -> None:
    before, count = outside(), namespaces()
    chosen = settings({"servers": "2", "duration": "60s", "protocol": protocol})
    run = start("incast", *chosen)
    # Its threads and nothing else: no helper process is left to hold a namespace.
    children = Path(f"/proc/{run.pid}/task/{run.pid}/children")
    assert not children.exists() or children.read_text().strip() == ""
    assert outside() == before
    own = [c for c in controls() if f"{run.pid:x}" in c]
    assert len(own) == (1 if protocol == "dctcp" else 0)
    run.kill()
    run.communicate(timeout=30)
    settle(before, count)
    assert not set(own) & set(controls())


# ---- what is refused ---------------------------------


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["--scale", "-3"], ["scale", "-3", "factor"]),
        (["--gate", "0"], ["gate", "0", "at least"]),
        (["--over", "servers=1,2"], ["--over", "needs --compare"]),
        (["--compare", "--over", "servers"], ["--over", "servers", "KEY=V1,V2"]),
        (["--set", "serverz=3"], ["serverz", "servers"]),
        (["--set", "buffer=10B"], ["buffer", "10B", "packet"]),
    ],
)
def test_bad_options_are_one_line_and_exit_2(arguments: list[str], names: list[str]) -> None:
    done = inline("live", "incast", *arguments)
    assert done.returncode == 2
    assert done.stderr.strip().count("\n") == 0
    assert "Traceback" not in done.stderr
    assert all(name in done.stderr for name in names), done.stderr


@needs_live
@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["--kernel", "vegas9"], ["kernel", "vegas9", "reno"]),
        (["--kernel", "dctcp"], ["kernel", "protocol=dctcp"]),
        (["--set", "delayed_ack=3"], ["delayed_ack", "3", "1 or 2"]),
        (["--set", "header=60B"], ["header", "40B"]),
        (["--set", "servers=600"], ["512 hosts", "601"]),
        (["--set", "protocol=racs"], ["protocol", "racs", "without payload"]),
    ],
)
def test_what_the_kernel_cannot_do_is_one_line_and_exit_2(arguments: list[str], names: list[str]) -> None:
    done = inline("live", "incast", *arguments)
    assert done.returncode == 2, done.stderr
    assert done.stderr.strip().count("\n") == 0
    assert all(name in done.stderr for name in names), done.stderr


def without(*wrapper: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PENSTOCK_UNSHARED": "1"}
    return subprocess.run(
        [*wrapper, str(PENSTOCK), "live", "incast", "--set", "duration=1s"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
    )


@needs_live
@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="skipped: only root can give rights away")
def test_without_the_right_to_make_namespaces_it_says_so() -> None:
    done = without(
        "setpriv", "--bounding-set", "-sys_admin,-net_admin", "--inh-caps", "-sys_admin,-net_admin"
    )
    assert done.returncode == 2, done.stderr
    assert "network namespaces" in done.stderr
    assert "unshare -Ur" in done.stderr
    assert done.stderr.strip().count("\n") == 0


@needs_live
@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="skipped: only root can hide a device")
def test_without_tun_it_says_so() -> None:
    hide = 'mount --bind /dev/null /dev/net/tun && exec "$@"'
    done = without("unshare", "--mount", "sh", "-c", hide, "sh")
    assert done.returncode == 2, done.stderr
    assert "TUN" in done.stderr
    assert done.stderr.strip().count("\n") == 0


def test_keys_without_a_counterpart_in_the_kernel_are_named() -> None:
    found = live.resolve("incast", {"dup_thresh": 5, "sru": "10KB"})
    assert found["without_counterpart"] == ["dup_thresh"]


def test_the_doctor_reports_and_its_document_is_complete() -> None:
    done = inline("doctor")
    assert done.returncode == 0
    assert "namespaces" in done.stdout or sys.platform != "linux"
    for item in json.loads(inline("doctor", "--json").stdout):
        assert set(item) == {"what", "required", "found", "detail", "remedy"}


# ---- scaling ---------------------------------


def test_a_scaled_scenario_keeps_buffers_and_sizes() -> None:
    found = live.resolve("incast", {"rto_min": "20ms"}, scale="auto")
    assert found["scale"] == 10
    chosen = found["set"]
    assert (chosen["link_rate"], chosen["rto_min"]) == ("100000000bps", "200000000ns")
    assert (chosen["buffer"], chosen["sru"]) == ("32pkt", "256KB")


def test_the_simulation_beside_a_live_run_has_its_values() -> None:
    """What `compare` hands to the simulator resolves to the same values, without a word about unused keys."""
    import penstock as package

    found = live.resolve("query", {"servers": 3})
    same = {k: found["set"][k] for k in found["given"]}
    again = package.resolve("query", same)
    assert {k: again["set"][k] for k in found["set"]} == found["set"]
    assert again["without_effect"] == []
