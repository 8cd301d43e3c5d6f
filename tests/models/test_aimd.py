"""The AIMD model against numbers worked out by hand, and against the matrix iteration in 50 digits."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.models import aimd

parameters = st.lists(st.tuples(st.floats(0.05, 5.0), st.floats(0.0, 0.95)), min_size=2, max_size=12).map(
    lambda pairs: (np.array([a for a, _ in pairs]), np.array([b for _, b in pairs]))
)


def test_matrix_of_two_flows_by_hand():
    # alpha = (1, 3), beta = (0.5, 0.8): A = diag(0.5, 0.8) + (1, 3)' (0.5, 0.2) / 4
    assert aimd.matrix([1, 3], [0.5, 0.8]) == pytest.approx(np.array([[0.625, 0.05], [0.375, 0.95]]))


def test_stationary_point_of_two_flows_by_hand():
    # x_p = (1/0.5, 3/0.2) = (2, 15); P = 13 and sum(alpha) = 4 make theta = 17/17 = 1
    assert aimd.stationary([1, 3], [0.5, 0.8], 13) == pytest.approx([2, 15])
    # S_av = (2 * 0.75, 15 * 0.9) / 0.001 s
    assert aimd.throughput([1, 3], [0.5, 0.8], 13, 1e-3) == pytest.approx([1500, 13500])
    assert aimd.throughput_max([1, 3], [0.5, 0.8], 13, 1e-3) == pytest.approx([2000, 15000])
    assert aimd.network_throughput([1, 3], [0.5, 0.8], 13, 1e-3) == pytest.approx(15000)
    # what is given up, 2 * 0.5 + 15 * 0.2 = 4 packets, comes back at 4 packets per round
    assert aimd.rounds_between_backoffs([1, 3], [0.5, 0.8], 13) == pytest.approx(1)
    # the second eigenvalue is trace - 1 = 0.575
    assert aimd.eigenvalues([1, 3], [0.5, 0.8]) == pytest.approx([1, 0.575])
    assert aimd.events_to_converge([1, 3], [0.5, 0.8], 0.575**3) == pytest.approx(3)


def test_gain_and_its_inverse_by_hand():
    # beta 0.8 against 0.5 at equal alpha: (1.8 / 0.2) * (0.5 / 1.5) = 3
    assert aimd.gain(0.5, 0.8, 0.5, 0.5) == pytest.approx(3)
    # gain 10 over (0.5, 0.5): (1 + b) / (1 - b) = 30, b = 29/31
    assert aimd.beta_for_gain(10, 0.5, 0.5, 0.5) == pytest.approx(29 / 31)
    assert aimd.alpha_for_gain(10, 0.5, 0.5, 0.5) == pytest.approx(5)
    with pytest.raises(ValueError, match="wanted"):
        aimd.beta_for_gain(0.1, 0.5, 0.5, 0.5)


@given(st.floats(0.5, 200), st.floats(0.1, 2), st.floats(0.05, 0.95))
def test_inverse_gain_gives_the_gain_back(wanted, alpha_ref, beta_ref):
    beta = aimd.beta_for_gain(wanted, alpha_ref * 0.1, alpha_ref, beta_ref)
    assert aimd.gain(alpha_ref * 0.1, beta, alpha_ref, beta_ref) == pytest.approx(wanted, rel=1e-9)
    alpha = aimd.alpha_for_gain(wanted, 0.7, alpha_ref, beta_ref)
    assert aimd.gain(alpha, 0.7, alpha_ref, beta_ref) == pytest.approx(wanted, rel=1e-9)


@given(parameters, st.floats(1, 1000))
def test_gain_is_the_ratio_of_throughputs(pair, pipe):
    alpha, beta = pair
    rate = aimd.throughput(alpha, beta, pipe, 3e-4)
    assert rate / rate[-1] == pytest.approx(aimd.gain(alpha, beta, alpha[-1], beta[-1]), rel=1e-9)


def test_iteration_in_fifty_digits_reaches_the_stationary_point():
    alpha, beta, pipe = [0.5, 0.7, 1.1, 0.2], [0.5, 0.9, 0.3, 0.95], 25
    with mpmath.workdps(50):
        total = pipe + mpmath.fsum(mpmath.mpf(a) for a in alpha)
        w = [total, mpmath.mpf(0), mpmath.mpf(0), mpmath.mpf(0)]
        for _ in range(4000):
            # Eq. (3.6), not the matrix: given up by all, regained in proportion to alpha
            given_up = mpmath.fsum((1 - mpmath.mpf(b)) * x for b, x in zip(beta, w, strict=True))
            w = [
                mpmath.mpf(b) * x + mpmath.mpf(a) / mpmath.fsum(mpmath.mpf(v) for v in alpha) * given_up
                for a, b, x in zip(alpha, beta, w, strict=True)
            ]
        expected = [float(x) for x in w]
    assert aimd.stationary(alpha, beta, pipe) == pytest.approx(expected, rel=1e-12)
    assert aimd.iterate(alpha, beta, [27.5, 0, 0, 0], 4000)[-1] == pytest.approx(expected, rel=1e-9)


@given(parameters, st.floats(1, 500))
def test_matrix_conserves_the_total_and_contracts_at_its_second_eigenvalue(pair, pipe):
    alpha, beta = pair
    a = aimd.matrix(alpha, beta)
    assert a.sum(0) == pytest.approx(np.ones(len(alpha)))
    point = aimd.stationary(alpha, beta, pipe)
    assert a @ point == pytest.approx(point, rel=1e-9)
    assert point.sum() == pytest.approx(pipe + alpha.sum(), rel=1e-9)
    general = np.sort(np.linalg.eigvals(a).real)[::-1]
    assert aimd.eigenvalues(alpha, beta) == pytest.approx(general, abs=1e-7)
    # In the norm in which A is symmetric, one event shrinks any deviation at least by the second eigenvalue
    scale = np.sqrt(alpha / (1 - beta))
    start = np.zeros(len(alpha))
    start[0] = point.sum()
    before, after = (start - point) / scale, (a @ start - point) / scale
    shrink = aimd.eigenvalues(alpha, beta)[1]
    assert np.linalg.norm(after) <= np.linalg.norm(before) * max(shrink, 0) + 1e-9 * np.linalg.norm(before)


def test_example_of_section_344():
    # 1000 packets through thresholds 50 and 100: 0.9 of C, 0.05 of B, 0.05 of A; primes tell them apart
    assert aimd.class_average([2, 3, 5], [50, 100], 1000) == pytest.approx([0.05 * 2 + 0.05 * 3 + 0.9 * 5])
    assert aimd.class_average(np.eye(3), [50, 100], 1000)[:, 0] == pytest.approx([0.05, 0.05, 0.9])


def test_class_average_for_five_classes_and_for_sizes_inside_a_class():
    values, thresholds = [1.0, 2, 3, 4, 5], [10, 20, 40, 80]
    # 100 packets: 20 in the last class, then 40, 20, 10, 10 -> (100 + 160 + 60 + 20 + 10) / 100
    # 30 packets start in the third class: 10 there, 10, 10 -> (30 + 20 + 10) / 30
    assert aimd.class_average(values, thresholds, [100, 30, 5]) == pytest.approx([3.5, 2.0, 1.0])
    effective = aimd.class_average(values, thresholds, [10, 20, 40, 80, 100])
    assert aimd.raw_from_effective(effective, thresholds, [10, 20, 40, 80, 100]) == pytest.approx(values)


def test_counts_are_the_same_as_repeated_flows():
    counted = aimd.throughput([0.5, 0.5], [0.9, 0.5], 25, 3e-4, flows=[3, 2])
    listed = aimd.throughput([0.5] * 5, [0.9] * 3 + [0.5] * 2, 25, 3e-4)
    assert listed == pytest.approx(np.repeat(counted, [3, 2]))


def test_equal_parameters_share_equally_and_complete_by_hand():
    # 21 flows of (0.5, 0.5), pipe 25: windows 35.5/21, throughput 0.75 of that per 300 us
    out = aimd.classes(
        [0.5] * 3,
        [0.5] * 3,
        flows=[15, 5, 1],
        sizes=[50, 100, 100_000],
        thresholds=[50, 100],
        pipe=25,
        rtt=3e-4,
    )
    assert out.throughput == pytest.approx([35.5 / 21 * 0.75 / 3e-4] * 3)
    assert out.fct[0] == pytest.approx(50 / (35.5 / 21 * 0.75) * 3e-4)
    # Eq. (3.15) term by term
    per_second = 15 / out.fct[0] + 5 / out.fct[1] + 1 / out.fct[2]
    assert aimd.flows_completed(2.0, [15, 5, 1], out.fct) == pytest.approx(2 * per_second)


def test_a_sweep_is_one_call():
    gains = np.array([1.0, 10, 100])
    beta = np.stack([aimd.beta_for_gain(gains, 0.5, 0.5, 0.5), np.full(3, 0.5), np.full(3, 0.5)], -1)
    common = {"flows": [15, 5, 1], "sizes": [50, 100, 1e5], "pipe": 25, "rtt": 3e-4}
    swept = aimd.classes(0.5 * np.ones(3), beta, thresholds=[50, 100], **common)
    single = aimd.classes(0.5 * np.ones(3), beta[1], thresholds=[50, 100], **common)
    assert swept.fct.shape == (3, 3)
    assert swept.fct[1] == pytest.approx(single.fct)
    moved = aimd.classes(0.5 * np.ones(3), beta[1], thresholds=[[20, 100], [50, 100]], **common)
    assert moved.fct[1] == pytest.approx(single.fct)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: aimd.matrix([0.0, 1], [0.5, 0.5]), "alpha"),
        (lambda: aimd.matrix(1, 0.5), "alpha"),
        (lambda: aimd.matrix([1, 1], [0.5, 1.0]), "beta"),
        (lambda: aimd.stationary([1, 1], [0.5, 0.5], 0), "pipe"),
        (lambda: aimd.stationary([1, 1], [0.5, 0.5], 10, [0, 0]), "flows"),
        (lambda: aimd.throughput([1, 1], [0.5, 0.5], 10, 0), "rtt"),
        (lambda: aimd.iterate([1, 1], [0.5, 0.5], [1, 1, 1], 3), "start"),
        (lambda: aimd.iterate([1, 1], [0.5, 0.5], [1, 1], -1), "events"),
        (lambda: aimd.class_average([1, 2, 3], [100, 50], 10), "thresholds"),
        (lambda: aimd.class_average([1, 2, 3], [50], 10), "thresholds"),
        (lambda: aimd.raw_from_effective([1, 2], [50], [60, 100]), "sizes"),
        (lambda: aimd.completion_time(0, 1), "size"),
        (lambda: aimd.events_to_converge([1, 1], [0.5, 0.5], 1.0), "fraction"),
    ],
)
def test_bad_arguments_are_named(call, name):
    with pytest.raises(ValueError, match=name):
        call()
