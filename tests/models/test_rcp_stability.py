"""Bounds, loci, exact limits and recursions of the RCP family, against numbers worked out another way."""

import control
import mpmath
import numpy as np
import pytest

from penstock.models import rcp_stability as rs


def test_bound_6_by_hand():
    # D = T: 2 sin(pi/2); D = 2T: 2 sin(pi/6); D = 3T: 2 sin(pi/10) = (sqrt 5 - 1) / 2
    assert rs.qi_bound([1, 2, 3]) == pytest.approx([2.0, 1.0, (5**0.5 - 1) / 2], rel=1e-14)


def test_bound_6_tends_to_the_continuous_one():
    # Section IV-A: kappa* is about pi T / (2 D) when T is small
    assert float(rs.qi_bound(5000)) * 2 * 5000 / np.pi == pytest.approx(1, rel=2e-4)


def test_bound_20_is_half_of_6():
    # 120 ms at T = 10 ms: sin(pi/46) to 12 digits by mpmath
    mpmath.mp.dps = 20
    assert float(rs.piqi_bound(12)) == pytest.approx(float(mpmath.sin(mpmath.pi / 46)), rel=1e-12)


@pytest.mark.parametrize("rtt_ms", [1, 10, 50, 120, 300, 710])
def test_bound_35_never_exceeds_20(rtt_ms):
    simple = rs.simple_bound(rtt_ms * 1e-3, 10e-3)
    assert simple == pytest.approx(10 / (2 * (10 + rtt_ms)))
    assert simple <= rs.piqi_bound(max(rtt_ms / 10, 1.0))
    assert simple <= rs.piqi_bound(rs.loop_delay(rtt_ms * 1e-3, 10e-3))


@pytest.mark.parametrize("delay", [1, 2, 5, 13, 71])
def test_bound_6_is_exact_for_equal_delays(delay):
    assert rs.critical_kappa([delay] * 3) == pytest.approx(float(rs.qi_bound(delay)), rel=1e-9)
    inside = rs.spectral_radius(rs.characteristic_qi([delay] * 3, 0.99 * rs.qi_bound(delay)))
    outside = rs.spectral_radius(rs.characteristic_qi([delay] * 3, 1.01 * rs.qi_bound(delay)))
    assert inside < 1 < outside


def test_two_delays_by_jury():
    # Di = {1, 2}: z^2 - (1 - k/2) z + k/2; Jury's conditions leave k < 2, twice the bound for D = 2
    assert rs.critical_kappa([1, 2]) == pytest.approx(2.0, rel=1e-9)


@pytest.mark.parametrize("delays", [[3, 7, 7, 20], [1, 30], [12, *[30] * 9], [5, 6, 7, 8, 9]])
def test_critical_kappa_is_where_a_root_leaves_the_circle(delays):
    k = rs.critical_kappa(delays)
    assert k >= rs.qi_bound(max(delays)) * (1 - 1e-12)  # Theorem 1
    assert rs.spectral_radius(rs.characteristic_qi(delays, k * (1 - 1e-4))) < 1
    assert rs.spectral_radius(rs.characteristic_qi(delays, k * (1 + 1e-4))) > 1


@pytest.mark.parametrize("tau", [(0.01, 0.1), (0.05, 0.88), (0.5, 0.3), (0.9, 0.01)])
@pytest.mark.parametrize("delays", [[1], [13], [4, 9, 9]])
def test_piqi_critical_kappa_is_where_a_root_leaves_the_circle(delays, tau):
    k = rs.critical_kappa(delays, tau1=tau[0], tau2=tau[1])
    assert rs.spectral_radius(rs.characteristic_piqi(delays, k * (1 - 1e-4), *tau)) < 1
    assert rs.spectral_radius(rs.characteristic_piqi(delays, k * (1 + 1e-4), *tau)) > 1


def test_piqi_locus_against_python_control():
    # The loop is built as a transfer function in z: C(z) of (23) times the plant of (26), Di = {2, 4}
    kappa, tau1, tau2 = 0.1, 0.2, 0.3
    z = control.tf("z")
    c = kappa * (1 + 1 / z) / (2 * (1 - 1 / z))
    g = ((tau1 + tau2) - tau2 / z) / (1 - (1 - tau1) / z) * (z**-2 + z**-4)
    w = np.array([0.01, 0.3, 1.0, 2.5])
    expected = np.array([(c * g)(np.exp(1j * x)) for x in w])
    assert rs.piqi_locus(w, [2, 4], tau1, tau2, kappa) == pytest.approx(expected, rel=1e-10)


def test_locus_12_agrees_with_its_trigonometric_form():
    # Eq. (12), homogeneous: -kappa / (2 sin(w/2)) (sin(w (2D-1)/2) + j cos(w (2D-1)/2))
    w, d, kappa = np.array([0.05, 0.4, 1.7]), 12, 0.13
    a = w * (2 * d - 1) / 2
    expected = -kappa / (2 * np.sin(w / 2)) * (np.sin(a) + 1j * np.cos(a))
    assert rs.qi_locus(w, [d], kappa) == pytest.approx(expected, rel=1e-12)
    assert rs.qi_locus(w, [d] * 4, kappa) == pytest.approx(expected, rel=1e-12)


def test_source_filter_is_two_at_rest_and_crosses_nowhere_else():
    for tau1, tau2 in [(0.01, 0.1), (0.1, 0.9), (0.9, 0.5)]:
        assert complex(rs.source_filter(0.0, tau1, tau2)) == pytest.approx(2)


def test_theorem_2_needs_a_small_interval():
    # With T = 10 ms and the loop delay of 130 ms the constants decide. By hand, tau2 -> 0 leaves 2 tau1/(tau1
    # + jw) beside the integrator and the delay. The crossing is where atan(w/tau1) + 12.5 w = pi/2.
    tau1 = 0.01
    w = mpmath.findroot(lambda w: mpmath.atan(w / tau1) + 12.5 * w - mpmath.pi / 2, 0.03)
    limit = float(w * mpmath.sqrt(1 + (w / tau1) ** 2) / 2)
    assert rs.critical_kappa([13], tau1=tau1, tau2=1e-6) == pytest.approx(limit, rel=0.01)
    assert limit < 0.7 * rs.piqi_bound(13)


def test_recursion_5_first_steps_by_hand():
    # One flow, D = 2, kappa = 0.5, target 1, all rates 1.2 before: R0 = 1.2 (1 - 0.1) = 1.08,
    # R1 = 1.08 * 0.9 = 0.972 (still fed 1.2), R2 = 0.972 (1 + 0.5 (1 - 1.08)) = 0.93312
    run = rs.simulate_qi(0.5, [2], steps=3, initial=1.2)
    assert run.fair_rate[:, 0] == pytest.approx([1.08, 0.972, 0.93312], rel=1e-12)


def test_recursion_18_19_first_steps_by_hand():
    # D = 1, kappa = 0.1, tau = (0.5, 0.2), rates 1.2 before: x0 = 1.2, e0 = -0.2, R0 = 1.2 (1 - 0.02) = 1.176
    # x1 = 1.2 + 0.5 (1.176 - 1.2) + 0.2 (1.176 - 1.2) = 1.1832; e1 = -0.1832
    # R1 = 1.176 (1 - 0.01832 - 0.02) = 1.13093568
    run = rs.simulate_piqi(0.1, [1], tau1=0.5, tau2=0.2, steps=2, initial=1.2)
    assert run.arrival_rate[:, 0] == pytest.approx([1.2, 1.1832], rel=1e-12)
    assert run.fair_rate[:, 0] == pytest.approx([1.176, 1.13093568], rel=1e-12)


def test_recursion_5_converges_below_the_bound_and_not_above():
    bound = float(rs.qi_bound(12))
    run = rs.simulate_qi([0.99 * bound, 1.01 * bound], [12, 12], steps=20_000)
    below, above = run.oscillation(1000)
    assert below < 1e-3
    assert above > 0.05


def growth_per_step(run: rs.Trajectory, early: int, late: int, window: int = 400) -> np.ndarray:
    """Growth of the deviation from the steady rate, per step, between two windows; no look at any root.

    A sampled peak of an oscillation of period P is up to (pi/P)^2 / 2 too low: 1 % here, spread over the
    steps.
    """
    steady = 1 / 2
    size = [np.abs(run.fair_rate[at : at + window] - steady).max(axis=0) for at in (early, late)]
    return (size[1] / size[0]) ** (1 / (late - early))


def test_recursion_5_with_unlike_delays_decays_and_grows_with_the_dominant_root():
    delays = [4, 13]
    bound, limit = float(rs.qi_bound(13)), rs.critical_kappa(delays)
    assert limit > 1.5 * bound
    kappas = [0.95 * limit, 1.05 * limit]
    radii = [rs.spectral_radius(rs.characteristic_qi(delays, k)) for k in kappas]
    run = rs.simulate_qi(kappas, delays, steps=5_000, initial=0.5 * (1 + 1e-8))
    assert growth_per_step(run, 1_500, 4_000) == pytest.approx(radii, abs=0.02 / 2_500)
    assert radii[0] < 1 < radii[1]


def test_recursion_18_19_decays_and_grows_with_the_dominant_root():
    limit = rs.critical_kappa([13, 13], tau1=0.01, tau2=0.1)
    kappas = [0.95 * limit, 1.05 * limit]
    radii = [rs.spectral_radius(rs.characteristic_piqi([13, 13], k, 0.01, 0.1)) for k in kappas]
    run = rs.simulate_piqi(kappas, [13, 13], tau1=0.01, tau2=0.1, steps=12_000, initial=0.5 * (1 + 1e-5))
    assert growth_per_step(run, 3_000, 11_000) == pytest.approx(radii, abs=3e-6)
    assert radii[0] < 1 < radii[1]


def test_joining_flows_share():
    run = rs.simulate_qi(0.05, [5, 9], steps=4000, starts=[0, 1000])
    assert run.fair_rate[990, 0] == pytest.approx(1.0, rel=1e-3)
    assert run.fair_rate[-1, 0] == pytest.approx(0.5, rel=1e-6)
    assert run.arrival_rate[1000:1010, 0].max() == pytest.approx(2.0, rel=1e-3)  # the join doubles the load


def test_interval_average_of_a_split_round_trip():
    # 125 ms at T = 10 ms: 12.5 intervals + 1, half seen after 13 intervals and half after 14
    delays, weights = rs.loop_taps(0.125, 0.01)
    assert delays.tolist() == [13, 14]
    assert weights == pytest.approx([0.5, 0.5])
    between = rs.critical_kappa(delays, weights=weights)
    assert rs.qi_bound(14) < between < rs.qi_bound(13)


def test_rcp_gain_in_topology_t1():
    # x1 holds half of the link, its RTT 710 ms, the flow mean 89 ms: 0.4 * 0.5 * 710 / 89
    gain = rs.rcp_loop_gain(alpha=0.4, responsive_share=0.5, responsive_rtt_s=0.710, mean_rtt_s=0.089)
    assert float(gain) == pytest.approx(1.59551, rel=1e-5)
    assert gain > np.pi / 2


def test_rcp_recursion_in_topology_t1():
    # x1 alone answers link l1 (710 ms) while the router believes in 89 ms: unstable while it holds 70 % of
    # the link (linear gain 2.2), stable with 10 % (0.3).
    common = {"rtts_s": [0.71], "capacity": 1.0, "interval_s": 0.01, "steps": 60_000, "mean_rtt_s": 0.089}
    assert rs.simulate_rcp(unresponsive=0.3, **common).oscillation(10_000)[0] > 0.5
    assert rs.simulate_rcp(unresponsive=0.9, **common).oscillation(10_000)[0] < 1e-6


def test_rcp_with_its_own_round_trip_is_stable():
    run = rs.simulate_rcp(rtts_s=[0.1] * 4, capacity=1.0, interval_s=0.01, steps=5_000)
    assert run.oscillation(500)[0] < 1e-3
    assert run.fair_rate[-1, 0] == pytest.approx(0.25, rel=1e-3)
    assert run.queue[-1, 0] == pytest.approx(0, abs=1e-2)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: rs.qi_bound(0.5), "delay"),
        (lambda: rs.critical_kappa([]), "delays"),
        (lambda: rs.critical_kappa([5], tau1=0.1), "tau1"),
        (lambda: rs.critical_kappa([5], tau1=1.5, tau2=0.1), "tau1"),
        (lambda: rs.critical_kappa([5], tau1=0.1, tau2=0.95), "tau2"),
        (lambda: rs.characteristic_qi([2.5], 0.1), "delays"),
        (lambda: rs.simulate_qi(-0.1, [2], steps=5), "kappa"),
        (lambda: rs.simulate_qi(0.1, [2], steps=5, starts=[1]), "starts"),
        (lambda: rs.simple_bound(0.1, 0.0), "interval_s"),
        (
            lambda: rs.simulate_rcp(rtts_s=[0.1], capacity=1, interval_s=0.01, steps=5, unresponsive=1),
            "unresponsive",
        ),
    ],
)
def test_bad_arguments_are_named(call, name):
    with pytest.raises(ValueError, match=f"^{name}:"):
        call()
