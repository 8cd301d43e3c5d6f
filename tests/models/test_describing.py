"""Describing functions against numerical Fourier integration; loci against other formulas and the fluid."""

import itertools

import control
import numpy as np
import pytest
from scipy.integrate import quad

from penstock.models.describing import (
    analyse,
    at_duty,
    biased,
    marking_nonlinearity,
    printed,
    printed_intersections,
    printed_margin,
    printed_relative,
)
from penstock.models.fluid import Link, solve
from penstock.models.loops import Plant, operating_plant
from penstock.models.marking import Marking

LINK = {"rate_bps": 10e9, "packet_bytes": 1500, "base_rtt": 100e-6}
TURN = 2 * np.pi


def fourier(marking: Marking, x: float, m: float) -> tuple[complex, float]:
    """Fundamental/X and mean of the marks of q = m + X sin(theta), by walking the marking rule itself.

    The second of two turns is integrated, so that history has settled. Swings that only touch a threshold are
    left out: there the two sides differ by the square root of the rounding. Switching angles are found by
    bisection on the rule, the marked arcs integrated by adaptive quadrature (equations (4), (5)).
    """

    def q(theta: float) -> float:
        return m + x * np.sin(theta)

    # Nodes at the turning points keep every move monotone.
    grid = np.unique(np.concatenate([np.linspace(-TURN, TURN, 4001), np.pi / 2 + np.pi * np.arange(-2, 2)]))
    on = bool(marking.start(q(grid[0])))
    edges: list[tuple[float, bool]] = []
    state_at_zero = on
    for a, b in itertools.pairwise(grid):
        reached, share = marking.advance(on, q(a), q(b))
        after = bool(reached)
        if after != on and b > 1e-12:
            # A move marked throughout by its new state switched where it began: at a turning point.
            low, high = (a, a) if share == after else (a, b)
            for _ in range(200):
                middle = (low + high) / 2
                if bool(marking.advance(on, q(a), q(middle))[0]) == on:
                    low = middle
                else:
                    high = middle
            edges.append((high, after))
        on = after
        if b <= 1e-12:
            state_at_zero = on
    a1 = b1 = total = 0.0
    at, state = 0.0, state_at_zero
    for edge, after in [*edges, (TURN, False)]:
        if state:
            a1 += quad(np.cos, at, edge, epsabs=1e-12, epsrel=1e-12)[0] / np.pi
            b1 += quad(np.sin, at, edge, epsabs=1e-12, epsrel=1e-12)[0] / np.pi
            total += edge - at
        at, state = edge, after
    return complex(b1, a1) / x, total / TURN


@pytest.mark.parametrize("x", [40.5, 47.0, 56.57, 90.0, 400.0])
def test_printed_single_threshold_is_the_fourier_coefficient(x: float) -> None:
    assert abs(printed(x, 40) - fourier(Marking.single(40), x, 0.0)[0]) < 1e-9


@pytest.mark.parametrize("pair", [(30.0, 50.0), (50.0, 30.0), (34.0, 28.0)])
@pytest.mark.parametrize("x", [50.5, 60.0, 73.0, 400.0])
def test_printed_double_threshold_is_the_fourier_coefficient(pair: tuple[float, float], x: float) -> None:
    assert abs(printed(x, *pair) - fourier(Marking(*pair), x, 0.0)[0]) < 1e-9


def test_printed_needs_a_swing_beyond_the_threshold() -> None:
    assert np.isnan(printed(39.0, 40))
    assert np.isnan(printed(45.0, 30, 50))


@pytest.mark.parametrize("turn", ["hold", "direction"])
@pytest.mark.parametrize("pair", [(40.0, 40.0), (30.0, 50.0), (50.0, 30.0), (34.0, 28.0)])
@pytest.mark.parametrize("x", [6.1, 13.2, 25.3, 60.7])
@pytest.mark.parametrize("m", [24.0, 31.0, 40.0, 43.3, 52.0])
def test_corrected_is_the_fourier_coefficient(
    pair: tuple[float, float], turn: str, x: float, m: float
) -> None:
    marking = Marking(*pair, turn)
    n, duty = biased(x, marking, m)
    if np.isnan(duty):
        pytest.skip("reaches neither threshold: the state depends on history")
    expected, share = fourier(marking, x, m)
    assert abs(n - expected) < 1e-9
    assert abs(duty - share) < 1e-9


@pytest.mark.parametrize("pair", [(40.0, 40.0), (30.0, 50.0), (50.0, 30.0)])
def test_closed_form_at_a_duty_is_the_same_function(pair: tuple[float, float]) -> None:
    marking = Marking(*pair)
    x, p = np.meshgrid(np.linspace(15, 80, 14), np.linspace(0.2, 0.8, 13))
    n, mean = at_duty(x, marking, p)
    ok = np.isfinite(mean)
    assert ok.sum() > 100
    again, duty = biased(x[ok], marking, mean[ok])
    assert np.max(np.abs(again - n[ok])) < 1e-12
    assert duty == pytest.approx(p[ok], abs=1e-12)


def test_closed_form_against_quadrature() -> None:
    for pair in ((30.0, 50.0), (50.0, 30.0), (40.0, 40.0)):
        for p in (0.3, 0.5, 0.7):
            n, mean = at_duty(45.0, Marking(*pair), p)
            expected, share = fourier(Marking(*pair), 45.0, float(mean))
            assert abs(n - expected) < 1e-9
            assert share == pytest.approx(p, abs=1e-9)


def test_relative_functions_and_their_extremes() -> None:
    """Equation (23) peaks at X = K sqrt(2) with max(-1/N_0) = -pi; (28) at K1 = K2 is (23)."""
    x = np.linspace(40.001, 400, 100_001)
    peak = np.argmax(printed_relative(x, 40).real)
    assert x[peak] == pytest.approx(40 * np.sqrt(2), rel=1e-4)
    assert -1 / printed_relative(x[peak], 40).real == pytest.approx(-np.pi, rel=1e-8)
    assert np.allclose(printed_relative(x, 40, 40), printed_relative(x, 40), rtol=1e-14)


def test_plant_is_the_linearised_system() -> None:
    """(17) against the state-space matrices of (10)-(12), and against python-control."""
    plant = Plant(10e9 / 12000, 148e-6, 20)
    r, n, c, g = plant.rtt, plant.flows, plant.capacity, plant.g
    b = np.sqrt(c / (2 * n * r))
    a = np.array([[-g / r, 0, 0], [-b, -n / (r * r * c), 0], [0, n / r, -1 / r]])
    drive = np.array([[g / r], [-b], [0.0]])
    tf = plant.transfer_function()
    for w in (10.0, 900.0, 6000.0, 5e4):
        # p enters with a minus (negative feedback) and the delay.
        expected = -(np.array([[0, 0, 1.0]]) @ np.linalg.solve(1j * w * np.eye(3) - a, drive))[0, 0]
        assert abs(plant.response(w) * np.exp(1j * w * r) / expected - 1) < 1e-12
        assert abs(tf(1j * w) / expected - 1) < 1e-9


@pytest.mark.parametrize("growth", ["always", "unmarked"])
def test_plant_of_conserved_packets(growth: str) -> None:
    """(10), (11) by central differences, and q = N W - C d: two states and no lag of the queue."""
    c, d, n, g = 10e9 / 12000, 100e-6, 20.0, 1 / 16
    plant = operating_plant(Link(c, d, n, g), 40.0, growth, "window")
    pause = float(growth == "unmarked")

    def rates(v: np.ndarray) -> np.ndarray:
        alpha, w, p = v
        r = n * w / c
        return np.array([g / r * (p - alpha), (1 - pause * p - w * alpha * p / 2) / r])

    point = np.array([plant.marked, plant.window, plant.marked])
    jacobian = np.stack(
        [(rates(point + e) - rates(point - e)) / (2 * e.sum()) for e in np.diag(1e-6 * point)], axis=1
    )
    for omega in (50.0, 6000.0, 4e4):
        state = np.linalg.solve(1j * omega * np.eye(2) - jacobian[:, :2], jacobian[:, 2])
        expected = -n * state[1] * np.exp(-1j * omega * plant.rtt)
        assert abs(plant.response(omega) / expected - 1) < 1e-6
        assert plant.lag(omega) % TURN == pytest.approx(-np.angle(expected) % TURN, abs=1e-6)


@pytest.mark.parametrize("growth", ["always", "unmarked"])
def test_linearisation_is_the_derivative_of_the_equations(growth: str) -> None:
    """(10)-(12) and G by central differences of (1)-(3) at the operating point, with R = d + q/C."""
    c, d, n, g, k = 10e9 / 12000, 100e-6, 20.0, 1 / 16, 40.0
    plant = operating_plant(Link(c, d, n, g), k, growth)
    r0, w0, p0 = plant.rtt, plant.window, plant.marked
    pause = float(growth == "unmarked")

    def rates(v: np.ndarray) -> np.ndarray:
        alpha, w, q, p = v
        r = d + q / c
        return np.array([g / r * (p - alpha), (1 - pause * p - w * alpha * p / 2) / r, n * w / r - c])

    point = np.array([p0, w0, k, p0])
    assert rates(point) == pytest.approx(0, abs=1e-6 / r0)
    jacobian = np.stack(
        [(rates(point + e) - rates(point - e)) / (2 * e.sum()) for e in np.diag(1e-6 * point)], axis=1
    )
    if growth == "always":
        b = np.sqrt(c / (2 * n * r0))
        printed_form = [[-g / r0, 0, 0, g / r0], [-b, -n / (r0 * r0 * c), 0, -b], [0, n / r0, -1 / r0, 0]]
        assert jacobian == pytest.approx(np.array(printed_form), rel=1e-6, abs=1e-3)
    for omega in (50.0, 900.0, 6000.0, 4e4):
        state = np.linalg.solve(1j * omega * np.eye(3) - jacobian[:, :3], jacobian[:, 3])
        assert abs(plant.response(omega) / (-state[2] * np.exp(-1j * omega * r0)) - 1) < 1e-6


def test_misprint_in_15_does_not_give_17() -> None:
    plant = Plant(10e9 / 12000, 100e-6, 50)
    w = np.array([100.0, 5000.0])
    assert np.all(np.abs(plant.response(w, as_printed_in_15=True) / plant.response(w) - 1) > 0.3)


def test_slope_is_the_derivative() -> None:
    plant = Plant(10e9 / 12000, 148e-6, 20)
    w, e = 6000.0, 1e-3
    numeric = (plant.response(w + e) - plant.response(w - e)) / (2j * e)
    assert abs(plant.slope(w) / numeric - 1) < 1e-6


def test_printed_loci_do_not_meet_at_the_papers_parameters() -> None:
    """The deepest real-axis crossing of K_0 G is about -0.58, near N = 50; -1/N_0 stays left of -pi."""
    depth = {}
    for n in range(10, 101, 5):
        plant = Plant(10e9 / 12000, 100e-6, n)
        depth[n] = plant.phase_crossings()[0][1] / 40
        assert printed_intersections(plant, 40) == []
        assert printed_intersections(plant, 30, 50) == []
        assert printed_margin(plant, 40) == pytest.approx(np.pi / -depth[n], rel=1e-3)
    assert min(depth, key=depth.__getitem__) == 50
    assert depth[50] == pytest.approx(-0.583, abs=0.002)


def test_printed_intersections_solve_the_characteristic_equation() -> None:
    """Where the loci do meet (a hundred times the bandwidth-delay product), each root solves 1 + N G = 0."""
    plant = Plant(100e9 / 12000, 1e-3, 60)
    for thresholds in ((40.0, 40.0), (30.0, 50.0)):
        found = printed_intersections(plant, *thresholds)
        # One threshold starts from N = 0 and passes its maximum; two start from N > 0.
        assert len(found) >= (2 if thresholds[0] == thresholds[1] else 1)
        for f in found:
            assert abs(1 + printed(f.amplitude, *thresholds) * plant.response(f.omega)) < 1e-8
    single = printed_intersections(plant, 40.0)
    # On the outer crossing: the smaller amplitude enters the locus (unstable), the larger one leaves it.
    outer = sorted(single, key=lambda f: f.omega)[:2]
    small, large = sorted(outer, key=lambda f: f.amplitude)
    assert not small.stable
    assert large.stable
    assert printed_margin(plant, 40.0) < 1


def test_python_control_finds_the_same_limit_cycle() -> None:
    link = Link.of(**LINK, flows=10)
    plant = operating_plant(link, 40.0)
    duty = plant.marked
    omega = np.linspace(1e3, 2e4, 20_000)
    system = control.frd(plant.response(omega), omega, smooth=True)
    nonlinearity = marking_nonlinearity(Marking.single(40), duty)
    found = control.describing_function_response(system, nonlinearity, np.linspace(5, 40, 60), omega)
    x, w = found.intersections[0]
    crossing, depth = plant.phase_crossings()[0]
    assert w == pytest.approx(crossing, rel=1e-3)
    assert x == pytest.approx(-2 * np.sin(np.pi * duty) / np.pi * depth, rel=1e-3)
    relay = control.relay_hysteresis_nonlinearity(0.5, 10.0)
    for amplitude in (12.0, 20.0, 60.0):
        # A centred lagging band, whose output 0..1 is +-1/2 about its mean.
        mine = biased(amplitude, Marking(50, 30), 40.0)[0]
        assert abs(relay.describing_function(amplitude) - mine) < 1e-12


@pytest.mark.parametrize("thresholds", [(40.0, 40.0), (44.0, 36.0), (39.0, 41.0)])
def test_corrected_cycle_solves_its_equations(thresholds: tuple[float, float]) -> None:
    link = Link.of(**LINK, flows=15)
    marking = Marking(*thresholds)
    verdict = analyse(link, marking)
    assert verdict.cycle is not None
    c, plant = verdict.cycle, verdict.plant
    n, duty = biased(c.amplitude, marking, c.mean)
    assert abs(1 + n * plant.response(c.omega)) < 1e-6
    assert duty == pytest.approx(plant.marked, abs=1e-6)
    assert plant.rtt == pytest.approx(100e-6 + c.mean / (10e9 / 12000), rel=1e-6)
    assert c.stable


@pytest.mark.parametrize(
    ("growth", "inflow", "marking", "flows"),
    [
        ("always", "rate", Marking.single(40), [10.0, 15.0, 20.0, 25.0, 30.0]),
        ("always", "rate", Marking(44, 36), [10.0, 15.0, 20.0, 25.0, 30.0]),
        ("always", "rate", Marking(30, 50, "direction"), [20.0, 25.0, 30.0]),
        ("unmarked", "rate", Marking.single(40), [15.0, 30.0, 50.0, 80.0, 100.0]),
        ("unmarked", "rate", Marking(44, 36), [15.0, 30.0, 50.0, 80.0]),
        ("unmarked", "rate", Marking(30, 50), [40.0, 50.0, 60.0, 80.0]),
        ("unmarked", "window", Marking.single(40), [20.0, 30.0, 50.0, 80.0, 100.0]),
        ("unmarked", "window", Marking(50, 30), [20.0, 40.0]),
    ],
)
def test_corrected_prediction_against_the_fluid(
    growth: str, inflow: str, marking: Marking, flows: list[float]
) -> None:
    """Mean within 12 %, frequency 10 %, amplitude 15 %, where the sinusoid carries most of the swing."""
    fluid = solve(Link.of(**LINK, flows=flows), marking, growth=growth, inflow=inflow).cycle()
    for i, n in enumerate(flows):
        c = analyse(Link.of(**LINK, flows=n), marking, growth=growth, inflow=inflow).cycle
        assert c is not None
        assert c.mean == pytest.approx(fluid.mean[i], rel=0.12)
        assert c.amplitude == pytest.approx(fluid.amplitude[i], rel=0.15)
        assert c.frequency == pytest.approx(fluid.frequency[i], rel=0.10)


def test_a_single_threshold_oscillates_at_every_flow_count() -> None:
    for n in (2, 10, 30, 60):
        verdict = analyse(Link.of(**LINK, flows=n), Marking.single(40))
        assert verdict.operating
        assert verdict.cycle is not None
    beyond = analyse(Link.of(**LINK, flows=100), Marking.single(40))
    assert not beyond.operating
    assert "no operating point" in beyond.text


def test_a_wide_leading_band_is_not_crossed() -> None:
    """(30, 50): Im G never reaches pi D/(4 sin^2); the swing stays about one threshold, by history."""
    link = Link.of(**LINK, flows=10)
    above, below = (analyse(link, Marking(30, 50), start=s) for s in ("above", "below"))
    assert above.band_peak < above.band_needed
    assert above.cycle is not None
    assert below.cycle is not None
    assert not above.spans
    assert 40 < above.cycle.mean < 50
    assert 20 < below.cycle.mean < 30
    fluid = solve(link, Marking(30, 50)).cycle()
    assert above.cycle.mean == pytest.approx(fluid.mean[0], rel=0.05)
    # A narrow one is, and this one is with more flows and senders that pause on marks.
    assert analyse(link, Marking(38, 42)).spans
    onset = [analyse(Link.of(**LINK, flows=n), Marking(30, 50), growth="unmarked") for n in (20, 40)]
    assert [v.spans for v in onset] == [False, True]
    assert [v.band_peak > v.band_needed for v in onset] == [False, True]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Plant(1e5, 1e-4, 0), "flows: got 0"),
        (lambda: Plant(1e5, 1e-4, 2, growth="x"), "growth: got 'x'"),
        (lambda: Plant(1e5, 1e-4, 2, inflow="x"), "inflow: got 'x'"),
        (lambda: analyse(Link(1e5, 1e-4, [1, 2]), Marking.single(4)), "flows: got an array"),
        (lambda: analyse(Link(1e5, 1e-4, 2), Marking([4, 5], 4)), "k1, k2: got an array"),
        (lambda: analyse(Link(1e5, 1e-4, 2), Marking.single(4), start="x"), "start: got 'x'"),
    ],
)
def test_bad_input_names_the_argument(call, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize("misprint", [False, True])
def test_lag_is_the_unwrapped_phase(misprint: bool) -> None:
    plant = Plant(10e9 / 12000, 100e-6, 50)
    w = np.geomspace(1.0, 3e5, 20_000)
    phase = np.unwrap(np.angle(plant.response(w, as_printed_in_15=misprint)))
    assert plant.lag(w, as_printed_in_15=misprint) == pytest.approx(-phase, abs=1e-9)
    crossing = plant.phase_crossings(as_printed_in_15=misprint)[0][1] / 40
    assert printed_margin(plant, 40, misprint=misprint) == pytest.approx(-np.pi / crossing, rel=1e-3)
