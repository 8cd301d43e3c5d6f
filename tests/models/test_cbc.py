"""The control set's cap and its dynamics, against numbers worked out by hand."""

import numpy as np
import pytest

from penstock.models import cbc

DB = [4.8e6, 2.4e6]  # requirements of the paper's two databases, bit/s


def test_printed_cap_holds_the_small_connection_below_its_requirement():
    # mean(l_r) = 3.6; l_a = 3: min(3.45, 4.8)*4/3 = 4.6 and min(3.45, 2.4)*2/3 = 1.6 Mb/s.
    assert cbc.cap_rates(DB, 3e6, 1.15, "printed") == pytest.approx([4.6e6, 1.6e6])


def test_intended_cap_is_proportional_and_bounded_by_the_requirement():
    # l_a = 3: 1.15*3*4/3 = 4.6 and 1.15*3*2/3 = 2.3; l_a = 3.6: 5.52 -> 4.8 and 2.76 -> 2.4 Mb/s.
    caps = cbc.cap_rates(DB, [3e6, 3.6e6], 1.15)
    assert caps == pytest.approx(np.array([[4.6e6, 2.3e6], [4.8e6, 2.4e6]]))


def test_window_cap_is_the_rate_times_the_mean_rtt_in_bytes():
    # 4.6 Mb/s * 20 ms / 8 = 11,500 B; 2.3 Mb/s gives 5,750 B.
    assert cbc.window_caps(DB, 3e6, 0.020) == pytest.approx([11_500.0, 5_750.0])


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: cbc.cap_rates([1.0, 0.0], 1.0), "required"),
        (lambda: cbc.cap_rates(DB, -1.0), "available"),
        (lambda: cbc.cap_rates(DB, 1.0, eta=0.0), "eta"),
        (lambda: cbc.cap_rates(DB, 1.0, form="other"), "form"),  # type: ignore[arg-type]
        (lambda: cbc.window_caps(DB, 1.0, 0.0), "rtt"),
        (lambda: cbc.growth(1.1, alpha=0.0), "alpha"),
        (lambda: cbc.growth(1.1, n_rtt=0), "n_rtt"),
        (lambda: cbc.recovery_updates(0.0, 1.1), "start"),
        (lambda: cbc.contested_share(-1.0, 1e7), "interferer"),
        (lambda: cbc.contested_share(1.0, 0.0), "capacity"),
        (lambda: cbc.latch_spread(-0.1), "spread"),
    ],
)
def test_bad_arguments_are_named(call, name):
    with pytest.raises(ValueError, match=f"^{name}:"):
        call()


def test_growth_without_moving_average():
    # 1 + 0.2*(1.15 - 1) = 1.03.
    assert cbc.growth(1.15, n_rtt=1) == pytest.approx(1.03)


def test_growth_with_moving_average_solves_its_equation():
    # z^4 = 0.8 z^3 + 0.0575 (z^3 + z^2 + z + 1); first order in eta - 1: 1 + 0.03/(1 + 0.345) = 1.0223.
    z = float(cbc.growth(1.15))
    assert z**4 == pytest.approx(0.8 * z**3 + 0.0575 * (z**3 + z**2 + z + 1), rel=1e-12)
    assert z == pytest.approx(1.0223, abs=5e-4)


@pytest.mark.parametrize("alpha", [0.05, 0.2, 1.0])
@pytest.mark.parametrize("n_rtt", [1, 4, 16])
def test_stability_changes_exactly_at_eta_one(alpha, n_rtt):
    below, at, above = cbc.growth([0.99, 1.0, 1.01], alpha, n_rtt)
    assert below < 1.0 - 1e-6 and at == pytest.approx(1.0, abs=1e-9) and above > 1.0 + 1e-6


def test_recovery_time_by_hand():
    # From 40 %: ln(1/(1.15*0.4)) / ln(1.03) = 0.77653/0.029559 = 26.27 steps.
    assert cbc.recovery_updates(0.4, 1.15, n_rtt=1) == pytest.approx(26.27, abs=0.01)
    assert cbc.recovery_updates(0.9, 1.15) == 0.0
    assert np.isinf(cbc.recovery_updates(0.4, 1.0))


@pytest.mark.parametrize("eta", [1.05, 1.15, 1.5])
@pytest.mark.parametrize("n_rtt", [1, 4])
def test_recovery_time_matches_the_iteration(eta, n_rtt):
    required = np.array(DB)
    carried, _ = cbc.iterate(required, np.full(2000, 1e9), start=0.3 * required, eta=eta, n_rtt=n_rtt)
    reached = np.argmax(carried[:, 0] >= required[0] * (1 - 1e-9))
    predicted = float(cbc.recovery_updates(0.3, eta, n_rtt=n_rtt))
    assert reached == pytest.approx(predicted, abs=1 + n_rtt / 2)


def test_fixed_point_of_the_intended_form_is_the_requirement():
    assert cbc.fixed_point(DB) == pytest.approx(DB)
    # Mean demand 3.3 Mb/s is above 3.6/1.15 = 3.13, so no member is held back.
    assert cbc.fixed_point(DB, demand=[4.4e6, 2.2e6]) == pytest.approx([4.4e6, 2.2e6])


def test_a_quiet_member_drags_the_others_down():
    # x1 = 1 by its demand; x2 = 1.15 * (1 + x2)/2 * 2/3 = 0.38333/(1 - 0.38333) = 0.62162 Mb/s.
    assert cbc.fixed_point(DB, demand=[1e6, 2.4e6]) == pytest.approx([1e6, 0.62162162e6])
    # Silent: x2 = 0.38333 x2 leaves only zero.
    assert cbc.fixed_point(DB, demand=[0.0, 2.4e6]) == pytest.approx([0.0, 0.0], abs=1e-3)


def test_fixed_point_of_the_printed_form():
    # x2 = 2.4*2/3 = 1.6; x1 = 1.15*a*4/3 with a = (x1 + 1.6)/2: a = 0.8/(1 - 2.3/3) = 24/7.
    a = 24e6 / 7
    assert cbc.fixed_point(DB, form="printed") == pytest.approx([1.15 * a * 4 / 3, 1.6e6], rel=1e-9)


def test_below_one_the_caps_close_for_good():
    assert cbc.fixed_point(DB, eta=0.9) == pytest.approx([0.0, 0.0], abs=1e-3)


def test_contested_share_by_hand():
    # C = 10, f = 8: 10 - 8/1.15 = 3.0435 Mb/s at eta = 1.15; starved at eta = 0.8; f = 12 needs > 1.2.
    assert cbc.contested_share(8e6, 10e6) == pytest.approx(3.0434783e6)
    assert cbc.contested_share(12e6, 10e6, [1.15, 1.25]) == pytest.approx([0.0, 0.4e6])
    # Offer eta*C: 1 - 1/1.15 = 13.04 % lost.
    assert cbc.contested_loss(8e6, 10e6) == pytest.approx(0.130435, abs=1e-6)
    # 0.8 + 0.2*8/11.5.
    assert cbc.contested_multiplier(8e6, 10e6) == pytest.approx(0.9391304)


def test_contested_share_is_where_the_iteration_goes():
    carried, available = cbc.iterate([8e6, 4e6], np.full(3000, 10e6), start=3e6, interferer=8e6)
    assert available[-1].sum() == pytest.approx(3.0434783e6, rel=1e-6)
    assert carried[-1, 0] / carried[-1, 1] == pytest.approx(2.0)
    _, starved = cbc.iterate([8e6, 4e6], np.full(3000, 10e6), start=3e6, interferer=12e6)
    assert starved[-1].sum() < 1.0


def test_multiplier_is_the_rate_of_approach():
    _, available = cbc.iterate([8e6, 4e6], np.full(200, 10e6), start=3e6, interferer=8e6, n_rtt=1)
    error = available.sum(axis=1) - 10e6 + 8e6 / 1.15
    assert error[150] / error[149] == pytest.approx(0.9391304, rel=1e-4)


def test_standing_rtt_ratio_is_eta():
    assert cbc.standing_rtt_ratio([0.9, 1.15]) == pytest.approx([1.0, 1.15])


def test_latch_spread_against_explicit_weights():
    # Weights of each past round trip: the geometric weights convolved with the moving average.
    geometric = 0.05 * 0.95 ** np.arange(2000)
    weights = np.convolve(geometric, np.full(4, 0.25))
    assert cbc.latch_spread(1.0) == pytest.approx(np.sqrt(np.sum(weights**2)), rel=1e-9)
    # N_rtt = 1: sqrt(0.05/1.95) = 0.16013.
    assert cbc.latch_spread(1.0, n_rtt=1) == pytest.approx(0.160128, abs=1e-6)
