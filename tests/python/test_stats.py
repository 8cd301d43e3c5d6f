"""Student's t by hand."""

import math

import numpy as np

from penstock import stats


def test_interval_of_five_values_is_the_tabulated_one():
    # Standard deviation sqrt(2.5), t(0.975, 4 degrees) = 2.7764 from any table.
    assert math.isclose(stats.ci95([1, 2, 3, 4, 5]), 2.7764 * math.sqrt(2.5 / 5), rel_tol=1e-4)


def test_two_values():
    # t(0.975, 1 degree) = 12.7062; half the distance of the two values is their standard error.
    assert math.isclose(stats.ci95([10, 12]), 12.7062, rel_tol=1e-5)


def test_one_value_has_a_mean_but_no_interval():
    assert stats.mean([7.0]) == 7.0
    assert math.isnan(stats.ci95([7.0]))


def test_a_run_without_the_value_is_left_out():
    assert stats.mean([1.0, np.nan, 3.0]) == 2.0
    assert math.isclose(stats.ci95([1.0, np.nan, 3.0]), stats.ci95([1.0, 3.0]))


def test_summaries_keep_their_order_and_skip_text():
    means, halves = stats.over_runs([{"b_s": 1.0, "a": 2, "note": "x"}, {"b_s": 3.0, "a": 2, "note": "y"}])
    assert list(means) == ["b_s", "a"]
    assert means == {"b_s": 2.0, "a": 2.0}
    assert halves["a"] == 0.0
