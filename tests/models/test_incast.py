"""Guards the incast models against the equations as printed.

Every expected value is computed here in 50-digit arithmetic, and by a different method if there is one. The
quadratic (3.18) is solved by root finding instead of (3.19), and the sums (3.13) and (3.34) term by term
instead of by their closed forms.
"""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from penstock.models import incast

mp.mp.dps = 50
REL = 1e-9

# n, p_c, p_r, delta, rtt, t0, length: few, some and many senders; j below, between and at its bounds.
POINTS = [
    (2, "0.0004", "0.0006", "0.01", "0.0003", "0.2", "512"),
    (4, "0.001", "0.0025", "0.2", "0.00035", "0.2014", "1024"),
    (8, "0.004", "0.012", "0.9", "0.0004", "0.2", "256"),
    (20, "0.01", "0.05", "3.5", "0.0004", "0.21", "5120"),
    (48, "0.02", "0.9", "11", "0.00045", "0.2", "12288"),
    (48, "0.003", "0.9", "11", "0.00045", "0.2", "12288"),  # p_r/p_c > n: j = n
]


def exact(*values):
    return tuple(mp.mpf(v) for v in values)


def rounds(n, p_c, p_r):
    """E[X]: the positive root of (3.18), found numerically."""
    j = min(n, p_r / p_c)

    def periods(x):
        return 3 * n**2 * x**2 / (2 * j) + n * x / 2 - j * x - 1 / p_c

    high = mp.mpf(1)
    while periods(high) < 0:
        high *= 2
    return mp.findroot(periods, (mp.mpf(0), high), solver="anderson", tol=1e-40), j


def a(w, k, p_r):
    return (1 - p_r) ** k * p_r / (1 - (1 - p_r) ** w)  # (3.32)


def c(g, m, p_r):
    return (1 - p_r) ** m * p_r if m < g else (1 - p_r) ** g  # (3.33) with k for the printed n


def q_hat(w, p_r):
    """(3.34) term by term; w whole."""
    if w <= 3:
        return mp.mpf(1)
    return sum(a(w, k, p_r) for k in range(3)) + sum(
        a(w, k, p_r) * sum(c(k, m, p_r) for m in range(3)) for k in range(3, w + 1)
    )


def q_hat_real(w, p_r):
    """(3.34) for real w: its geometric series, summed by hand."""
    if w <= 3:
        return mp.mpf(1)
    r = 1 - p_r
    return ((1 - r**3) + (r**3 - r ** (w + 1)) * (1 - r**3)) / (1 - r**w)


def q_hat_split(n, w, p_r, n_star=3):
    if w <= 3:
        return mp.mpf(1)
    r = 1 - p_r
    if n <= n_star:
        return a(w, 0, p_r)
    return (r**3 - r ** (w + 1)) * (1 - r**3) / (1 - r**w)


def throughput(p_c, rtt, x, q, t0):
    return (1 / p_c) / (rtt * x + min(mp.mpf(1), q) * t0)  # (3.31) and (3.39)


def close(got, expected):
    assert got == pytest.approx(float(expected), rel=REL)


@pytest.mark.parametrize("point", POINTS)
def test_mean_flows_losing(point):
    n, p_c, p_r = exact(*point[:3])
    close(incast.mean_flows_losing(*map(float, point[:3])), min(n, p_r / p_c))


@pytest.mark.parametrize("point", POINTS)
def test_eq_3_19_is_the_positive_root_of_3_18(point):
    x, _ = rounds(*exact(*point[:3]))
    assert x > 0
    close(incast.mean_rounds(*map(float, point[:3])), x)


@pytest.mark.parametrize(
    ("n", "j"), [(2, 1), (6, 2), (48, 4), (12, 12)]
)  # n/j whole, so that the sum (3.13) can be taken term by term
def test_eq_3_14_and_3_20_are_the_sum_3_13(n, j):
    p_c = mp.mpf("0.002")
    x, j_back = rounds(mp.mpf(n), p_c, j * p_c)
    assert j_back == pytest.approx(j)
    w_f = 2 * n * x / j
    total = j * w_f + sum(j * (w_f / 2 + k * x) for k in range(1, n // j))
    printed = n * x / 2 + 3 * mp.mpf(n) ** 2 * x / (2 * j)
    close(float(total), printed)
    close(incast.mean_window(n, 0.002, j * 0.002), printed)


@pytest.mark.parametrize("point", POINTS)
def test_eq_3_12(point):
    n, p_c, p_r = exact(*point[:3])
    x, j = rounds(n, p_c, p_r)
    close(incast.mean_flow_window(*map(float, point[:3])), 2 * n * x / j)


@pytest.mark.parametrize("point", POINTS)
def test_eq_3_21(point):
    n, p_c, p_r, _, rtt, _, _ = exact(*point)
    x, _ = rounds(n, p_c, p_r)
    close(incast.td_only(*map(float, (*point[:3], point[4]))), 1 / (p_c * x * rtt))


@pytest.mark.parametrize("w", [2, 3, 4, 5, 17, 1000])
@pytest.mark.parametrize("p_r", ["0.000001", "0.001", "0.05", "0.7"])
def test_eq_3_34_term_by_term(w, p_r):
    close(incast.q_ibtt(w, float(p_r)), q_hat(w, mp.mpf(p_r)))


def test_eq_3_34_at_the_ends_of_p_r():
    # Every packet lost: a timeout. Nothing lost (limit): one of the first three of ten.
    assert incast.q_ibtt(10, 1.0) == 1.0
    close(incast.q_ibtt(10, 0.0), mp.mpf(3) / 10)
    close(incast.q_ibtt(10, 1e-15), q_hat(10, mp.mpf("1e-15")))


@pytest.mark.parametrize("n", [1, 3, 4, 48])
@pytest.mark.parametrize("w", [3, 4, 17, 1000])
@pytest.mark.parametrize("p_r", ["0.000001", "0.05", "0.7"])
def test_eq_3_40_term_by_term(n, w, p_r):
    p = mp.mpf(p_r)
    if w <= 3:
        expected = mp.mpf(1)
    elif n <= 3:
        expected = a(w, 0, p)
    else:
        expected = sum(a(w, k, p) * sum(c(k, m, p) for m in range(3)) for k in range(3, w + 1))
    close(incast.q_ibtt_split(n, w, float(p_r)), expected)


@pytest.mark.parametrize("point", POINTS)
def test_eq_3_38(point):
    _, p_c, _, delta, _, _, length = exact(*point)
    close(
        incast.q_abtt(float(point[1]), float(point[3]), float(point[6])),
        delta / (length / (1 / p_c)),
    )


@pytest.mark.parametrize("point", POINTS)
def test_eq_3_39_full_model(point):
    n, p_c, p_r, delta, rtt, t0, length = exact(*point)
    x, j = rounds(n, p_c, p_r)
    q = q_hat_real(2 * n * x / j, p_r) + delta / (length * p_c)
    close(incast.full(*map(float, point)), throughput(p_c, rtt, x, q, t0))


@pytest.mark.parametrize("point", POINTS)
def test_eq_3_40_split_model(point):
    n, p_c, p_r, delta, rtt, t0, length = exact(*point)
    x, j = rounds(n, p_c, p_r)
    q = q_hat_split(n, 2 * n * x / j, p_r) + delta / (length * p_c)
    close(incast.split(*map(float, point)), throughput(p_c, rtt, x, q, t0))


@pytest.mark.parametrize("point", POINTS)
def test_one_kind_of_timeout_alone(point):
    n, p_c, p_r, delta, rtt, t0, length = exact(*point)
    x, j = rounds(n, p_c, p_r)
    given = list(map(float, point))
    close(
        incast.ibtt_only(*given[:3], *given[4:6]),
        throughput(p_c, rtt, x, q_hat_real(2 * n * x / j, p_r), t0),
    )
    close(incast.abtt_only(*given), throughput(p_c, rtt, x, delta / (length * p_c), t0))


PADHYE_POINTS = [("0.0001", "0.0003", "0.2"), ("0.01", "0.1", "1.5"), ("0.3", "0.05", "3")]


@pytest.mark.parametrize("point", PADHYE_POINTS)
@pytest.mark.parametrize("window_max", [8, 1000, None])
@pytest.mark.parametrize("b", [1, 2])
def test_padhye(point, window_max, b):
    p, rtt, t0 = exact(*point)
    rate = 1 / (rtt * mp.sqrt(2 * b * p / 3) + t0 * min(1, 3 * mp.sqrt(3 * b * p / 8)) * p * (1 + 32 * p**2))
    expected = rate if window_max is None else min(window_max / rtt, rate)
    limit = {} if window_max is None else {"window_max": window_max}
    close(incast.padhye(*map(float, point), **limit, packets_per_ack=b), expected)
    for n in (1, 5, 40):
        close(incast.padhye_times_n(n, *map(float, point), **limit, packets_per_ack=b), n * expected)


@pytest.mark.parametrize("point", PADHYE_POINTS)
@pytest.mark.parametrize("window_max", [8, 1000, None])
@pytest.mark.parametrize("b", [1, 2])
def test_padhye_full(point, window_max, b):
    p, rtt, t0 = exact(*point)
    k = (mp.mpf(2) + b) / (3 * b)
    w = k + mp.sqrt(8 * (1 - p) / (3 * b * p) + k**2)
    rounds_sent = mp.mpf(b) / 2 * w + 1
    if window_max is not None and w >= window_max:
        w = mp.mpf(window_max)
        rounds_sent = mp.mpf(b) / 8 * w + (1 - p) / (p * w) + 2
    r = 1 - p
    q = min(mp.mpf(1), (1 - r**3) * (1 + r**3 * (1 - r ** (w - 3))) / (1 - r**w))
    f = 1 + sum(2**i * p ** (i + 1) for i in range(6))
    expected = ((1 - p) / p + w + q / (1 - p)) / (rtt * rounds_sent + q * t0 * f / (1 - p))
    limit = {} if window_max is None else {"window_max": window_max}
    close(incast.padhye_full(*map(float, point), **limit, packets_per_ack=b), expected)


def slowest(n, sru, rate, delta, iota, t0):
    """The block time by enumeration of the largest count, in exact arithmetic."""
    a, lam = min(mp.mpf(1), mp.mpf(delta) / n), mp.mpf(iota) / n

    def at_most(m):
        if m < 0:
            return mp.mpf(0)
        poisson = [mp.e ** (-lam) * lam**i / mp.factorial(i) for i in range(m + 1)]
        return ((1 - a) * sum(poisson) + a * sum(poisson[:-1])) ** n

    seconds = mp.mpf(0)
    for m in range(200):
        block = n * sru / rate if m == 0 else max(n * sru / rate, m * t0 + sru / rate)
        seconds += (at_most(m) - at_most(m - 1)) * block
    return n * sru / seconds


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("iota", ["0", "0.3", "80"])
def test_slowest_sender(point, iota):
    n, p_c, p_r, delta, rtt, t0, _ = exact(*point)
    x, _ = rounds(n, p_c, p_r)
    sru, capacity, window = mp.mpf(256), mp.mpf("120192"), mp.mpf(20)
    rate = min(1 / (p_c * x * rtt), capacity, n * window / rtt)
    losses = (float(point[1]), float(point[2]), float(point[3]), float(iota))
    times = (float(point[4]), float(point[5]))
    got = incast.slowest_sender(point[0], 256, *losses, *times, capacity=120192, window_max=20)
    close(got, slowest(int(n), sru, rate, delta, iota, t0))


def test_slowest_sender_at_its_limits():
    given = {"n": 4, "sru": 256, "p_c": 0, "p_r": 0, "delta": 0, "iota": 0, "rtt": 3e-4, "t0": 0.2}
    assert incast.slowest_sender(**given) == np.inf
    assert incast.slowest_sender(**given, capacity=1e5) == pytest.approx(1e5)
    # Window-limited: 4 senders of 20 packets per round.
    assert incast.slowest_sender(**given, window_max=20) == pytest.approx(80 / 3e-4)
    # Every sender waits exactly once, all at the same time: one T_0 per block, not four.
    once = {**given, "delta": 4}
    assert incast.slowest_sender(**once, capacity=1e5) == pytest.approx(1024 / (0.2 + 256 / 1e5))
    # A timeout shorter than what the others still have to send costs nothing.
    assert incast.slowest_sender(**{**once, "t0": 1e-4}, capacity=1e5) == pytest.approx(1e5)
    several = incast.slowest_sender(**{**given, "n": np.array([1, 2, 4])}, capacity=1e5)
    np.testing.assert_allclose(several, 1e5)


LOSSES = {
    # Round one: flows 0 and 1 lose; 0 finds out by duplicate ACKs, 1 waits 0.2 s from the same round.
    # Then flow 1 loses its retransmission too (a repetition), and much later flow 2 loses alone.
    "time_s": [1.0000, 1.2001, 1.6001, 3.0],
    "flow": [0, 1, 1, 2],
    "rto_s": [0.0, 0.2, 0.4, 0.2],
    "in_a_row": [0, 1, 2, 1],
    "block_start": [False, True, True, False],
}


def test_measure_counts_as_section_3_2():
    got = incast.measure(LOSSES, [1000, 500, 500], blocks=10, rtt=3e-4)
    assert got.n == 3 and got.packets == 2000
    assert got.p_c == pytest.approx(2 / 2000)  # one event of two flows, one of one flow
    assert got.p_r == pytest.approx((1 / 1000 + 1 / 500 + 1 / 500) / 3)
    assert got.j == pytest.approx(got.p_r / got.p_c)
    assert got.delta == pytest.approx(1 / 10)  # flow 1, not its repetition
    assert got.iota == pytest.approx(2 / 10)  # the repetition, and flow 2
    assert got.t0 == pytest.approx(0.2)


def test_loss_indications_may_count_singly():
    merged, singly = (
        incast.measure(LOSSES, [1000, 500, 500], blocks=10, rtt=3e-4, singly=flag) for flag in (False, True)
    )
    assert singly.p_c == pytest.approx(3 / 2000)  # the repetition is none
    assert (singly.p_r, singly.delta, singly.iota) == (merged.p_r, merged.delta, merged.iota)


def test_measure_separates_what_is_more_than_a_round_apart():
    two = {**LOSSES, "time_s": [1.0, 1.3, 1.6001, 3.0]}
    assert incast.measure(two, [1000, 500, 500], blocks=10, rtt=3e-4).p_c == pytest.approx(3 / 2000)


def test_measure_without_losses():
    got = incast.measure({name: [] for name in LOSSES}, [100, 100], blocks=3, rtt=3e-4, t0=0.2)
    assert (got.p_c, got.p_r, got.j, got.delta, got.iota, got.t0) == (0, 0, 0, 0, 0, 0.2)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"losses": {k: v for k, v in LOSSES.items() if k != "rto_s"}}, "losses"),
        ({"losses": {**LOSSES, "rto_s": [0.0]}}, "losses"),
        ({"losses": {**LOSSES, "flow": [0, 1, 1, 3]}}, "losses"),
        ({"sent": [0, 0, 0]}, "sent"),
        ({"blocks": 0}, "blocks"),
        ({"rtt": 0}, "rtt"),
    ],
)
def test_measure_refuses_bad_input(change, name):
    given = {"losses": LOSSES, "sent": [1000, 500, 500], "blocks": 10, "rtt": 3e-4, **change}
    with pytest.raises(ValueError, match=f"^{name}: "):
        incast.measure(given.pop("losses"), given.pop("sent"), **given)


def test_no_loss_leaves_no_limit_but_the_window():
    for rate in (
        incast.td_only(3, 0, 0, 1e-3),
        incast.full(3, 0, 0, 0, 1e-3, 0.2, 768),
        incast.split(3, 0, 0, 0, 1e-3, 0.2, 768),
        incast.ibtt_only(3, 0, 0, 1e-3, 0.2),
        incast.padhye(0, 1e-3, 0.2),
        incast.padhye_full(0, 1e-3, 0.2),
    ):
        assert rate == np.inf
    assert incast.padhye(0, 1e-3, 0.2, window_max=20) == pytest.approx(20_000)
    assert incast.padhye_full(0, 1e-3, 0.2, window_max=20) == pytest.approx(20_000)


def test_arrays_broadcast_and_equal_the_scalars():
    columns = [np.array([float(p[i]) for p in POINTS]) for i in range(7)]
    for model in (incast.full, incast.split, incast.abtt_only):
        together = model(*columns)
        assert isinstance(together, np.ndarray)
        one_by_one = [model(*map(float, p)) for p in POINTS]
        assert all(isinstance(v, float) for v in one_by_one)
        np.testing.assert_array_equal(together, one_by_one)
    grid = incast.td_only(np.arange(1, 5)[:, None], np.array([1e-3, 1e-2]), 0.02, 3e-4)
    assert grid.shape == (4, 2)


def test_timeouts_only_ever_cost_throughput():
    n = np.arange(1, 65)
    p_c, p_r = np.geomspace(1e-4, 1e-2, 64), np.geomspace(2e-4, 5e-2, 64)
    arguments = (n, p_c, p_r, n / 10, 3e-4, 0.2, 256 * n)
    both = incast.full(*arguments)
    assert np.all(both <= incast.ibtt_only(n, p_c, p_r, 3e-4, 0.2))
    assert np.all(both <= incast.abtt_only(*arguments))
    assert np.all(incast.ibtt_only(n, p_c, p_r, 3e-4, 0.2) < incast.td_only(n, p_c, p_r, 3e-4))


FULL = {"n": 4, "p_c": 1e-3, "p_r": 2e-3, "delta": 0.1, "rtt": 3e-4, "t0": 0.2, "length": 1024}


@pytest.mark.parametrize("model", [incast.full, incast.split, incast.abtt_only])
@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("n", 0, "at least 1"),
        ("n", [4, 0], "at least 1"),
        ("p_c", -0.1, r"\[0, 1\]"),
        ("p_c", 1.5, r"\[0, 1\]"),
        ("p_r", 1.01, r"\[0, 1\]"),
        ("p_r", 0, "above 0 where p_c is"),
        ("delta", -1, "at least 0"),
        ("rtt", 0, "above 0"),
        ("t0", -0.2, "above 0"),
        ("length", 0, "above 0"),
        ("rtt", float("nan"), "nan"),
        ("t0", "soon", "must be a number"),
    ],
)
def test_bad_input_names_the_argument_and_the_rule(model, name, value, rule):
    with pytest.raises(ValueError, match=f"^{name}: .*{rule}"):
        model(**{**FULL, name: value})


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: incast.q_ibtt(-1, 0.1), "w"),
        (lambda: incast.q_ibtt(10, 2), "p_r"),
        (lambda: incast.q_ibtt_split(4, 10, 0.1, n_star=-1), "n_star"),
        (lambda: incast.padhye(1.2, 0.1, 1), "p"),
        (lambda: incast.padhye(0.1, 0.1, 1, window_max=0), "window_max"),
        (lambda: incast.padhye_full(1, 0.1, 1), "p"),
        (lambda: incast.padhye_times_n(0, 0.1, 0.1, 1), "n"),
        (lambda: incast.padhye_times_n(4, 1.1, 0.1, 1), "p_r"),
        (lambda: incast.td_only(0, 0.1, 0.1, 1), "n"),
    ],
)
def test_bad_input_of_the_parts(call, name):
    with pytest.raises(ValueError, match=f"^{name}: "):
        call()
