"""The design question: one call, its conditions hold for its own answer, and fail just below it."""

import numpy as np
import pytest

from penstock.models.design import threshold_for
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
