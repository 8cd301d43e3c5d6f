"""The design question: one call, its conditions hold for its own answer, and fail just below it."""

import numpy as np
import pytest

import penstock
from penstock.models.design import threshold_for, tso_burst
from penstock.models.fluid import Link, solve
from penstock.models.marking import Marking


@pytest.mark.parametrize("band", [0.0, 0.1, -0.1])
def test_answer_satisfies_its_conditions_in_a_finer_solution(band: float) -> None:
    advice = threshold_for(10e9, 100e-6, [5, 10, 40], band=band, buffer_packets=250)
    assert advice.marking is not None
    path = solve(
        Link.of(10e9, 1500, 100e-6, [5, 10, 40]), advice.marking, growth="unmarked", inflow="window", steps=80
    )
    assert np.all(path.utilisation >= 0.99)
    assert np.all(path.queue.min(axis=0) > 0)
    assert np.all(path.queue.max(axis=0) < 250)
    assert len(advice.cycles) == 3


def test_half_the_answer_fails() -> None:
    advice = threshold_for(10e9, 100e-6, [5])
    assert advice.marking is not None
    k = float(advice.marking.k1)
    small = solve(Link.of(10e9, 1500, 100e-6, 5), Marking.single(k / 2), growth="unmarked", inflow="window")
    assert small.queue.min() < 3.0


def test_many_flows_need_room_for_two_packets_each() -> None:
    """Equation (1) as printed keeps windows above two packets: K must exceed 2N - dC, here 117."""
    advice = threshold_for(10e9, 100e-6, [100], growth="always", inflow="rate")
    assert advice.marking is not None
    assert float(advice.marking.k1) > 2 * 100 - 83.4


def test_says_why_there_is_no_answer() -> None:
    advice = threshold_for(10e9, 100e-6, [2, 100], buffer_packets=60)
    assert advice.marking is None
    assert "no threshold up to" in advice.text
    assert "lacks" in advice.text


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: threshold_for(0, 1e-4, 2), "rate_bps: got 0"),
        (lambda: threshold_for(1e9, 1e-4, []), "flows: got"),
        (lambda: threshold_for(1e9, 1e-4, 2, band=1.0), "band: got 1.0"),
        (lambda: threshold_for(1e9, 1e-4, 2, utilisation=1.5), "utilisation: got 1.5"),
        (lambda: threshold_for(1e9, 1e-4, 2, buffer_packets=1), "buffer_packets: got 1"),
    ],
)
def test_bad_input_names_the_argument(call, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()


def test_an_answer_prints_as_its_sentence() -> None:
    advice = threshold_for(10e9, 100e-6, [5])
    assert str(advice) == advice.text
    assert repr(advice) == f"<Advice: {advice.text}>"


def test_bursts_of_segmentation_offload_need_room_of_their_own() -> None:
    """100 Gb/s, 8 us, two flows of Linux with gso=44: 0.897 of the link at K = 20, 0.988 at 40, all at 80.

    Without bursts the model asks for 21 packets at one, two and eight flows.
    """
    plain = threshold_for(100e9, 8e-6, [1, 2, 8])
    bursts = threshold_for(100e9, 8e-6, [1, 2, 8], burst_packets=44)
    assert plain.marking is not None and bursts.marking is not None
    assert float(plain.marking.k1) < 25
    assert 40 <= float(bursts.marking.k1) <= 80
    # Eight flows alone need no more than two: bursts are shorter and out of step (packets: 0.99 at K = 21).
    eight = threshold_for(100e9, 8e-6, [8], burst_packets=44)
    assert eight.marking is not None and float(eight.marking.k1) < 40
    # The utilisation of a threshold that is too small says so.
    small = min(bursts.candidates, key=lambda c: abs(c.k1 - 20))
    assert small.utilisation[1] == pytest.approx(0.897, abs=0.05)


def test_the_model_of_bursts_agrees_with_packets() -> None:
    """At the K of the model packets fill the link, and at half of it they do not.

    Bursts of eight flows out of step vary by twice those of two, not by four times.
    """
    for rate, rtt, flows, burst in (
        (100, 8, 2, 44),
        (25, 20, 2, 44),
        (100, 20, 2, 44),
        (100, 8, 2, 16),
        (400, 8, 8, 44),
    ):
        advice = threshold_for(rate * 1e9, rtt * 1e-6, [flows], burst_packets=burst)
        assert advice.marking is not None
        k = float(advice.marking.k1)
        used = [
            penstock.run(
                "long-flows",
                flows=flows,
                link_rate=f"{rate}Gbps",
                rtt=f"{rtt}us",
                protocol="dctcp",
                tcp="linux",
                gso=burst,
                gro="20us",
                buffer="2000pkt",
                queue=f"threshold:k={part * k:.0f}pkt",
                duration="12ms",
                warmup="4ms",
                keep=[],
            ).summary["utilisation"]
            for part in (1.0, 0.5)
        ]
        assert used[0] > 0.97, (rate, rtt, flows, burst, k, used)
        assert used[1] < 0.96, (rate, rtt, flows, burst, k, used)


def test_advice_for_bursts_says_what_packets_use() -> None:
    """The model promises 0.99 of the link; packets use up to 3 % less, up to 1 % less at 1.5 times its K."""
    plain = threshold_for(100e9, 8e-6, [2])
    assert "packets in bursts" not in plain.text
    for rate, rtt in ((25, 20), (100, 20), (200, 8), (400, 8), (400, 20)):
        advice = threshold_for(rate * 1e9, rtt * 1e-6, [2], burst_packets=44)
        assert advice.marking is not None
        assert "bursts use up to 3 % less of the link than that, at 1.5 times this K up to 1 %" in advice.text
        k = float(advice.marking.k1)
        used = [
            penstock.run(
                "long-flows",
                flows=2,
                link_rate=f"{rate}Gbps",
                rtt=f"{rtt}us",
                protocol="dctcp",
                tcp="linux",
                gso=44,
                gro="20us",
                buffer="4000pkt",
                queue=f"threshold:k={part * k:.0f}pkt",
                duration="12ms",
                warmup="4ms",
                keep=[],
            ).summary["utilisation"]
            for part in (1.0, 1.5)
        ]
        assert used[0] > 0.97, (rate, rtt, k, used)
        assert used[1] > 0.99, (rate, rtt, k, used)


def test_bursts_are_as_long_as_linux_makes_them() -> None:
    assert tso_burst(50e9, 8e-6) == 44
    assert tso_burst(50e9, 8e-6, most=16) == 16
    # 10 ms: 19 halvings of 64 KB leave nothing; 100 Mb/s in 1/1024 s are 8 segments.
    assert tso_burst(100e6, 10e-3) == 8
    assert tso_burst(1e6, 20e-3) == 2
    with pytest.raises(ValueError, match="most: got 0"):
        tso_burst(1e9, 1e-4, most=0)
    with pytest.raises(ValueError, match="burst_packets: got 0"):
        threshold_for(1e9, 1e-4, 2, burst_packets=0)
