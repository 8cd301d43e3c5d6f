"""The turn-round rule: every path of a queue through one or two thresholds, in both orders."""

import itertools

import numpy as np
import pytest

from penstock.models.marking import Marking
from penstock.models.spectrum import cycle


def walk(marking: Marking, *levels: float) -> list[bool]:
    """State after each move along `levels`."""
    on = marking.start(levels[0])
    states = [bool(on)]
    for before, after in itertools.pairwise(levels):
        on, _ = marking.advance(on, before, after)
        states.append(bool(on))
    return states


@pytest.mark.parametrize("turn", ["hold", "direction"])
@pytest.mark.parametrize("pair", [(30.0, 50.0), (50.0, 30.0)])
def test_a_full_swing_starts_at_k1_and_stops_at_k2(turn: str, pair: tuple[float, float]) -> None:
    m = Marking(*pair, turn)
    k1, k2 = pair
    assert walk(m, 0, k1 - 0.1, k1, 60, k2, k2 - 0.1, 0) == [False, False, True, True, True, False, False]


def test_leading_band_holds_what_it_was_entered_with() -> None:
    m = Marking(30, 50)
    # From below: marked until it falls out again below.
    assert walk(m, 20, 40, 35, 45, 31, 29) == [False, True, True, True, True, False]
    # From above: not marked until it rises out again above.
    assert walk(m, 60, 40, 45, 35, 49, 50) == [True, False, False, False, False, True]


def test_leading_band_by_direction_follows_the_queue() -> None:
    m = Marking(30, 50, "direction")
    assert walk(m, 20, 40, 35, 45, 31, 29) == [False, True, False, True, False, False]


def test_lagging_band_is_a_schmitt_trigger() -> None:
    for turn in ("hold", "direction"):
        m = Marking(50, 30, turn)
        assert walk(m, 20, 40, 35, 49, 50, 40, 45, 30, 29, 40) == [
            False, False, False, False, True, True, True, True, False, False,
        ]  # fmt: skip


def test_equal_thresholds_are_one_threshold() -> None:
    rng = np.random.default_rng(7)
    path = np.cumsum(rng.normal(0, 3, 4000)) % 90
    for turn in ("hold", "direction"):
        m = Marking(40, 40, turn)
        on = m.start(path[0])
        for before, after in itertools.pairwise(path):
            on, fraction = m.advance(on, before, after)
            assert bool(on) == (after >= 40)
            over = np.clip((max(before, after) - 40) / abs(after - before), 0, 1)
            assert fraction == pytest.approx(over, abs=1e-12)


def test_fraction_is_where_the_line_crosses() -> None:
    m = Marking(30, 50)
    assert m.advance(False, 20.0, 60.0)[1] == pytest.approx(0.75)
    assert m.advance(True, 60.0, 20.0)[1] == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Marking(0, 5), "k1: got 0"),
        (lambda: Marking(5, float("nan")), "k2: got nan"),
        (lambda: Marking(5, 5, "sideways"), "turn: got 'sideways'"),
        (lambda: cycle(np.zeros(8), 1.0), "signal: got 8 samples"),
        (lambda: cycle(np.zeros(80), 1.0, segments=0), "segments: got 0"),
    ],
)
def test_bad_input_names_the_argument(make, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize("frequency", [37.3, 41.0, 250.77])
def test_cycle_finds_a_sinusoid_between_the_lines(frequency: float) -> None:
    t = np.arange(4000) * 1e-3
    found = cycle(40 + 7 * np.sin(2 * np.pi * frequency * t + 0.4), 1e-3)
    assert found.frequency == pytest.approx(frequency, rel=1e-4)
    assert found.amplitude == pytest.approx(7, rel=1e-3)
    assert found.mean == pytest.approx(40, abs=0.05)
    assert found.share > 0.99


def test_cycle_averages_segments_and_columns() -> None:
    rng = np.random.default_rng(3)
    t = np.arange(8000) * 1e-3
    x = np.stack([5 * np.sin(2 * np.pi * 50 * t), 2 * np.sin(2 * np.pi * 80 * t)], axis=1)
    found = cycle(x + rng.normal(0, 2, x.shape), 1e-3, segments=7)
    assert found.frequency == pytest.approx([50, 80], rel=1e-2)
    assert found.amplitude == pytest.approx([5, 2], rel=0.1)
