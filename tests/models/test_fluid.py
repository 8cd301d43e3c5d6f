"""The fluid equations (1)-(3): convergence, conservation, equilibria, and what the delay option changes."""

import numpy as np
import pytest

from penstock.models.fluid import Link, operating_mark, solve
from penstock.models.marking import Marking

LINK = {"rate_bps": 10e9, "packet_bytes": 1500, "base_rtt": 100e-6}


def reference(link: Link, marking: Marking, round_trips: int, steps: int) -> np.ndarray:
    """A second solution written differently: plain loops, marks at whole steps, forward Euler."""
    c, d, n, g = (float(np.asarray(v)) for v in (link.capacity, link.base_rtt, link.flows, link.g))
    r0 = float(link.rtt_at(marking.centre))
    h = r0 / steps
    w = r0 * c / n
    a = min(1.0, (2 / w) ** 0.5)
    q, on = 0.0, False
    marks = [0.0] * steps
    path = []
    for _ in range(round_trips * steps):
        p = marks[-steps]
        r = d + q / c
        w, a, new = (
            w + h * (1 - w * a * p / 2) / r,
            a + h * g * (p - a) / r,
            max(0.0, q + h * (n * w / r - c)),
        )
        on = bool(marking.advance(on, q, new)[0])
        q = new
        marks.append(float(on))
        path.append(q)
    return np.array(path)


@pytest.mark.parametrize("thresholds", [(40, 40), (30, 50), (50, 30)])
def test_agrees_with_a_plain_euler_solution(thresholds: tuple[float, float]) -> None:
    link = Link.of(**LINK, flows=10)
    marking = Marking(*thresholds)
    ours = solve(link, marking, round_trips=20, warmup=0, steps=40).queue[:, 0]
    plain = reference(link, marking, 20, 4000)[99::100]
    assert np.max(np.abs(ours - plain)) < 0.25
    assert ours.max() > 45


def test_error_falls_with_the_square_of_the_step() -> None:
    link = Link.of(**LINK, flows=[5, 10, 30])
    # A Schmitt trigger: no discontinuity of the solution with respect to its initial value.
    marking = Marking(44, 36)
    finals = []
    for steps in (20, 40, 80, 160, 320, 640):
        path = solve(link, marking, round_trips=12, warmup=0, steps=steps)
        finals.append(path.queue[steps - 1 :: steps])
    errors = [np.sqrt(np.mean((f - finals[-1]) ** 2)) for f in finals[:-2]]
    order = -np.polyfit(np.log([20, 40, 80, 160]), np.log(errors), 1)[0]
    assert errors[1] < 0.05
    assert 1.7 < order < 2.6


def test_queue_conserves_packets() -> None:
    """q(T) - q(0) = what came in - what the link carried, with the idle capacity counted."""
    link = Link.of(**LINK, flows=[2, 10])
    path = solve(link, Marking.single(3.0), round_trips=200, warmup=0, steps=80)
    c = np.asarray(link.capacity)
    rtt = link.rtt_at(path.queue)
    came = (np.asarray(link.flows) * path.window / rtt).sum(axis=0) * path.interval
    carried = c * path.utilisation * path.interval * len(path.queue)
    assert np.all(path.utilisation < 0.9999)
    assert came - carried == pytest.approx(path.queue[-1], abs=2e-3 * carried.max())


def test_operating_point_is_a_mean() -> None:
    """The mean alpha of the oscillation is near sqrt(2/W_0) while the swing is small."""
    link = Link.of(**LINK, flows=[5, 10, 15])
    path = solve(link, Marking.single(40))
    w0 = link.window_at(path.queue.mean(axis=0))
    assert path.alpha.mean(axis=0) == pytest.approx(np.sqrt(2 / w0), rel=0.05)
    assert path.window.mean(axis=0) == pytest.approx(w0, rel=0.02)


def test_below_two_packets_the_queue_settles_where_the_window_is_two() -> None:
    """W_0 < 2: alpha = p = 1, W = 2, q = 2N - dC whatever the threshold; with R fixed it grows for ever."""
    link = Link.of(**LINK, flows=[70, 100])
    path = solve(link, Marking.single(40), warmup=400, round_trips=50)
    bdp = float(np.asarray(link.capacity)) * 100e-6
    assert path.queue[-1] == pytest.approx(2 * np.array([70, 100]) - bdp, rel=1e-3)
    fixed = solve(link, Marking.single(40), rtt="fixed", warmup=400, round_trips=50)
    assert np.all(fixed.queue[-1] > 2000)


def test_senders_that_pause_on_marks_have_an_operating_point_at_every_window() -> None:
    """1 - p = W p^2/2: alpha near p_0 and the queue near the threshold also where W_0 < 2."""
    w = np.array([0.5, 1.0, 2.0, 12.0, 300.0])
    p = operating_mark(w, "unmarked")
    assert 1 - p == pytest.approx(w * p * p / 2, rel=1e-12)
    link = Link.of(**LINK, flows=[10, 40, 100])
    path = solve(link, Marking.single(40), growth="unmarked")
    w0 = link.window_at(path.queue.mean(axis=0))
    assert path.alpha.mean(axis=0) == pytest.approx(operating_mark(w0, "unmarked"), rel=0.06)
    assert np.all(path.queue.mean(axis=0) < 80)


def test_conserved_packets_are_in_the_pipe_or_in_the_queue() -> None:
    """q = N W - C d while the queue falls no faster than it drains; idle capacity is what the pipe lacks."""
    link = Link.of(**LINK, flows=[5, 20])
    path = solve(link, Marking.single(40), growth="unmarked", inflow="window")
    pipe = float(np.asarray(link.capacity)) * 100e-6
    assert path.queue == pytest.approx(np.array([5, 20]) * path.window - pipe, abs=1e-9)
    small = solve(link, Marking.single(2), growth="unmarked", inflow="window")
    lacking = np.maximum(0.0, 1 - np.array([5, 20]) * small.window / pipe)
    assert np.all(small.utilisation < 0.999)
    assert small.utilisation == pytest.approx(1 - lacking.mean(axis=0), abs=1e-9)


def test_whole_packets_and_whole_cuts() -> None:
    """While every packet is marked each flow cuts exactly once per round trip."""
    link = Link.of(**LINK, flows=[10, 40])
    # A threshold that is always exceeded: W falls by alpha/2 per round trip and never grows.
    path = solve(
        link,
        Marking.single(1e-9),
        growth="unmarked",
        whole=True,
        rtt="fixed",
        alpha=1.0,
        queue=1e4,
        warmup=0,
        round_trips=8,
    )
    per_trip = path.window[40::40] / path.window[:-40:40]
    assert per_trip[2:] == pytest.approx(0.5, rel=0.02)


def test_state_dependent_delay_changes_nothing_for_one_threshold() -> None:
    """Marks change only when the queue is K, and then the delay is d + K/C = R_0 exactly."""
    link = Link.of(**LINK, flows=[5, 10, 20, 40])
    one = [solve(link, Marking.single(40), delay=d, round_trips=60).cycle() for d in ("fixed", "queue")]
    assert one[0].mean == pytest.approx(one[1].mean, abs=0.05)
    assert one[0].amplitude == pytest.approx(one[1].amplitude, abs=0.05)
    two = [solve(link, Marking(60, 20), delay=d, round_trips=60).cycle() for d in ("fixed", "queue")]
    assert np.max(np.abs(two[0].amplitude - two[1].amplitude)) > 0.2


def test_cases_are_independent() -> None:
    many = solve(Link.of(**LINK, flows=[3, 10, 40]), Marking.single(40), round_trips=30)
    for i, n in enumerate((3, 10, 40)):
        alone = solve(Link.of(**LINK, flows=n), Marking.single(40), round_trips=30)
        assert np.array_equal(alone.queue[:, 0], many.queue[:, i])


def test_hysteresis_order_decides_the_amplitude() -> None:
    """A leading band (by direction) swings less than one threshold, a lagging one more."""
    link = Link.of(**LINK, flows=[5, 10, 20, 30])
    lead = solve(link, Marking(30, 50, "direction")).cycle().amplitude
    one = solve(link, Marking.single(40)).cycle().amplitude
    lag = solve(link, Marking(50, 30)).cycle().amplitude
    assert np.all(lead < 0.6 * one)
    assert np.all(lag > 1.3 * one)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Link(0, 1e-4, 2), "capacity: got 0"),
        (lambda: Link(1e5, 1e-4, 2, g=2), "g: got 2"),
        (lambda: solve(Link(1e5, 1e-4, 2), Marking.single(4), rtt="x"), "rtt: got 'x'"),
        (lambda: solve(Link(1e5, 1e-4, 2), Marking.single(4), delay="x"), "delay: got 'x'"),
        (lambda: solve(Link(1e5, 1e-4, 2), Marking.single(4), growth="x"), "growth: got 'x'"),
        (lambda: solve(Link(1e5, 1e-4, 2), Marking.single(4), inflow="x"), "inflow: got 'x'"),
        (lambda: solve(Link(1e5, 1e-4, 2), Marking.single(4), steps=1), "steps: got 1"),
        (lambda: solve(Link(1e5, 1e-4, 2), Marking.single(4), round_trips=0), "round_trips, warmup: got 0"),
    ],
)
def test_bad_input_names_the_argument(call, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()
