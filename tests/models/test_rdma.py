"""Rate control for RDMA: fixed points stand still in the equations, and what has none moves on."""

import numpy as np
import pytest

from penstock.models.rdma import Dcqcn, Swift, Timely, hpcc_equilibrium


@pytest.mark.parametrize("flows", [1, 2, 10, 64])
def test_dcqcn_fixed_point_makes_every_derivative_vanish(flows: int) -> None:
    """Written a second time, by powers instead of logarithms."""
    m = Dcqcn(flows=flows, kmax=1000, pmax=0.1)
    p, queue = m.fixed_point()
    rate = m.capacity / flows
    miss = 1 - p
    cut = 1 - miss ** (m.cnp_interval * rate)
    alpha = 1 - miss ** (m.alpha_interval * rate)
    by_bytes, by_timer = p / (miss**-m.byte_counter - 1), p / (miss ** -(m.timer * rate) - 1)
    gap = rate * alpha * cut / m.cnp_interval / (rate * (by_bytes + by_timer))
    beyond = miss ** (m.fast_recovery * m.byte_counter) * by_bytes
    beyond += miss ** (m.fast_recovery * m.timer * rate) * by_timer
    assert gap / m.cnp_interval * cut == pytest.approx(m.increase * rate * beyond, rel=1e-6)
    assert m.marked(queue) == pytest.approx(p, rel=1e-9)


def test_dcqcn_small_marking() -> None:
    """With so little marking that fast recovery hardly matters, the cube root is the fixed point."""
    m = Dcqcn(flows=2, capacity=5e6, increase=1e-3, fast_recovery=1, byte_counter=1e3)
    assert m.fixed_point()[0] == pytest.approx(m.fixed_point_small(), rel=0.1)


def test_dcqcn_two_flows_end_at_the_fixed_point() -> None:
    m = Dcqcn(flows=2, pmax=0.1)
    path = m.solve(0.2, rates=[4e6, 1e6])
    last = path.t > 0.15
    assert path.rates[last].mean(axis=0) == pytest.approx([2.5e6, 2.5e6], rel=0.02)
    assert path.queue[last].mean() == pytest.approx(m.fixed_point()[1], rel=0.1)


def test_timely_keeps_the_rates_it_began_with_and_patched_timely_does_not() -> None:
    """Section 4.2: no unique fixed point. 90:10 stays unfair as published, becomes fair when patched."""
    shares = {}
    for patched in (False, True):
        m = Timely(patched=patched)
        path = m.solve(0.3, rates=[0.9 * m.capacity, 0.1 * m.capacity], step=2e-6)
        rates = path.rates[path.t > 0.25].mean(axis=0)
        shares[patched] = rates[0] / rates.sum()
        if patched:
            assert path.queue[path.t > 0.25].mean() == pytest.approx(m.fixed_point(), rel=0.05)
    assert shares[True] == pytest.approx(0.5, abs=0.02)
    assert shares[False] > 0.6


def test_hpcc_by_hand() -> None:
    """A pipe of 125,000 bytes and 80 bytes: 78 flows fill the last 5 %; 200 queue 0.078 of the pipe."""
    load, queue = hpcc_equilibrium([0, 78.125, 200], 125_000, 80)
    assert load == pytest.approx([0.95, 1.0, 1.078])
    assert queue == pytest.approx([0, 0, 9750])


def test_swift_by_hand() -> None:
    """Without scaling the queue does not depend on the flows; with it, N w = C target(w)."""
    plain = Swift(capacity=1e7, base_rtt=20e-6, base_target=25e-6)
    window, queue = plain.equilibrium([1, 10, 1000])
    assert window == pytest.approx([250, 25, 0.25])
    assert queue == pytest.approx([50, 50, 50])
    scaled = Swift(capacity=1e7, base_rtt=20e-6, base_target=25e-6, fs_range=38e-6, fs_min_cwnd=0.25)
    # At one packet the target is 25 + 18 us (see the test of the law in Rust): 430 flows.
    window, queue = scaled.equilibrium(430)
    assert (float(window), float(queue)) == pytest.approx((1.0, 230.0))


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Dcqcn(kmin=300), "kmin: got 300; must not be above kmax (200)"),
        (lambda: Dcqcn(pmax=1.5), "pmax: got 1.5; must be at most 1"),
        (lambda: Timely(t_low=1e-3), "t_low: got 0.001; must be below t_high (0.0005)"),
        (lambda: Timely().fixed_point(), "patched: got False; TIMELY as published has no fixed point"),
        (lambda: Swift(0, 1, 1), "capacity: got 0; must be positive and finite"),
    ],
)
def test_bad_input(make: object, message: str) -> None:
    with pytest.raises(ValueError) as error:
        make()  # type: ignore[operator]
    assert str(error.value) == message


def test_shapes() -> None:
    assert np.shape(hpcc_equilibrium(np.ones((2, 3)), 1e5, 80)[0]) == (2, 3)


def test_several_numbers_of_flows_are_solved_as_each_alone():
    model, flows = Dcqcn(delay=85e-6), (2, 10, 64)
    rates = [np.full(n, model.capacity / n) * np.linspace(0.99, 1.01, n) for n in flows]
    together = model.solve_for(flows, 0.004, rates, step=4e-6)
    for n, begun, found in zip(flows, rates, together, strict=True):
        alone = Dcqcn(flows=n, delay=85e-6).solve(0.004, rates=begun, step=4e-6)
        assert found.rates == pytest.approx(alone.rates, rel=1e-6)
        assert found.queue == pytest.approx(alone.queue, rel=1e-6, abs=1e-6)
        assert alone.queue.max() > 0, "there is something to compare"
    with pytest.raises(ValueError, match="one per flow, of 2, 10"):
        model.solve_for((2, 10), 0.004, rates[:1])
