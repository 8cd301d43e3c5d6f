"""Single-link schedulers: closed forms against independent quadrature, traces against hand-worked ones."""

import mpmath
import numpy as np
import pytest

from penstock.models import schedulers as sc

MEAN, SHAPE, CAPACITY = 30.0, 1.4, 100.0


def pareto_srpt(lam: float, c: float, k: float, a: float) -> float:
    """Schrage-Miller mean by nested adaptive quadrature with closed-form Pareto moments (another road)."""
    k, a = mpmath.mpf(k), mpmath.mpf(a)
    mean = a * k / (a - 1)
    g = lambda x: (k / x) ** a  # noqa: E731
    below = lambda x: mean - a / (a - 1) * k**a * x ** (1 - a)  # noqa: E731  E[X; X <= x]
    second = lambda x: a * k**a / (2 - a) * (x ** (2 - a) - k ** (2 - a))  # noqa: E731
    rho = lambda x: lam * below(x) / c  # noqa: E731
    wait = lambda x: lam / c**2 * (second(x) + x * x * g(x)) / (2 * (1 - rho(x)) ** 2)  # noqa: E731
    density = lambda x: a * k**a * x ** (-a - 1)  # noqa: E731
    points = [k, 2 * k, 10 * k, 100 * k, 1e4 * k, 1e7 * k, 1e10 * k]
    w = mpmath.quad(lambda x: wait(x) * density(x), points)
    # E[residence] = k/C + integral over t > k of P(X > t) / (C (1 - rho(t)))
    r = k / c + mpmath.quad(lambda t: g(t) / c / (1 - rho(t)), points)
    return float(w + r)


def test_ps_is_insensitive():
    for dist in (sc.exponential(30), sc.pareto(30, 1.4), sc.uniform(10, 50), sc.fixed(30)):
        # 30 / (100 * 0.1): load 0.9
        assert sc.ps_mean(dist, arrivals=3.0, capacity=CAPACITY) == pytest.approx(3.0)


def test_fcfs_by_hand():
    # M/M/1: 1 / (mu - lambda) with mu = 100/30
    assert sc.fcfs_mean(sc.exponential(30), arrivals=3.0, capacity=100) == pytest.approx(1 / (100 / 30 - 3))
    assert sc.fcfs_mean(sc.pareto(30, 1.4), arrivals=3.0, capacity=100) == np.inf


def test_las_exponential_by_quadrature():
    # rho_x = rho (1 - e^-x), E[min^2] = 2 (1 - e^-x (1 + x)), mean and capacity 1, load 0.8
    lam = mpmath.mpf("0.8")

    def time(x):
        rho = lam * (1 - mpmath.exp(-x))
        second = 2 * (1 - mpmath.exp(-x) * (1 + x))
        return lam * second / (2 * (1 - rho) ** 2) + x / (1 - rho)

    expected = float(mpmath.quad(lambda x: time(x) * mpmath.exp(-x), [0, 1, 5, 20, 60]))
    # For exponential sizes LAS has the mean of PS, 1 / (1 - rho) = 5.
    assert expected == pytest.approx(5.0, rel=1e-6)
    assert sc.las_mean(sc.exponential(1), arrivals=0.8, capacity=1) == pytest.approx(expected, rel=1e-4)


def test_srpt_pareto_by_nested_quadrature():
    k = MEAN * (SHAPE - 1) / SHAPE
    expected = pareto_srpt(2.0, CAPACITY, k, SHAPE)
    assert sc.srpt_mean(sc.pareto(MEAN, SHAPE), arrivals=2.0, capacity=CAPACITY) == pytest.approx(
        expected, rel=2e-3
    )


def test_srpt_below_las_below_ps_for_heavy_tails():
    for load in (0.3, 0.6, 0.9):
        kw = {"arrivals": load * CAPACITY / MEAN, "capacity": CAPACITY}
        d = sc.pareto(MEAN, SHAPE)
        assert sc.srpt_mean(d, **kw) < sc.las_mean(d, **kw) < sc.ps_mean(d, **kw)


# Three flows on a link of 1 unit/s: sizes 4, 2, 1 at t = 0, 1, 2. Worked by hand.
ARRIVALS, SIZES = [0.0, 1.0, 2.0], [4.0, 2.0, 1.0]


def test_traces_by_hand():
    # FCFS: 4, 6, 7.
    assert sc.fcfs_trace(ARRIVALS, SIZES, 1).tolist() == [4, 6, 7]
    # PS: at 2 the remainders are 2.5, 1.5, 1; third gone after 3 s (t = 5: 1.5, 0.5), second at 6 (1), first
    # at 7.
    assert sc.ps_trace(ARRIVALS, SIZES, 1) == pytest.approx([7, 6, 5])
    # SRPT: second (2) preempts first (3 left) at 1; at 2 both have 1 left, the earlier keeps the link (no
    # gain in switching): done 3, third 4, first 7. Either order of the tie has the same mean.
    assert np.sort(sc.srpt_trace(ARRIVALS, SIZES, 1)).tolist() == [3, 4, 7]
    # With LAS the second starts at 1 from 0, while the first has 1. At 2 both have 1 and the third has 0: it
    # runs to 1 and ends at 3. Then the second (1 left) and the first (3 left) share: 5, 7.
    assert sc.las_trace(ARRIVALS, SIZES, 1) == pytest.approx([7, 5, 3])


def brute(policy: str, arrivals: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Event by event with full lists: no heaps, no virtual time; capacity 1."""
    left, got = sizes.copy(), np.zeros(len(sizes))
    out = np.full(len(sizes), np.nan)
    now = 0.0
    while np.isnan(out).any():
        present = (arrivals <= now + 1e-12) & np.isnan(out)
        future = arrivals[arrivals > now + 1e-12]
        until = future.min() if future.size else np.inf
        if not present.any():
            now = until
            continue
        ids = np.flatnonzero(present)
        if policy == "ps":
            served = ids
        elif policy == "srpt":
            served = ids[[np.argmin(left[ids])]]
        else:
            served = ids[got[ids] <= got[ids].min() + 1e-9]
            above = got[ids][got[ids] > got[ids].min() + 1e-9]
            if above.size:  # stop where they catch up with the next
                until = min(until, now + (above.min() - got[ids].min()) * len(served))
        rate = 1 / len(served)
        until = min(until, now + left[served].min() / rate)
        step = until - now
        left[served] -= step * rate
        got[served] += step * rate
        now = until
        done = served[left[served] <= 1e-9]
        out[done] = now
    return out


@pytest.mark.parametrize("policy", ["ps", "srpt", "las"])
@pytest.mark.parametrize("seed", range(6))
def test_traces_against_brute_force(policy, seed):
    rng = np.random.default_rng(seed)
    n = 60
    arrivals = np.round(np.cumsum(rng.exponential(1.0, n)), 2)
    sizes = np.round(rng.pareto(1.4, n) + 0.3, 2)
    order = rng.permutation(n)  # traces need not be sorted
    got = getattr(sc, f"{policy}_trace")(arrivals[order], sizes[order], 1.0)
    want = brute(policy, arrivals, sizes)[order]
    if policy == "srpt":  # equal remainders may leave in either order
        assert got.sum() == pytest.approx(want.sum(), rel=1e-7)
    else:
        assert got == pytest.approx(want, rel=1e-6)


@pytest.mark.parametrize(("policy", "tolerance"), [("ps", 0.06), ("srpt", 0.05), ("las", 0.06)])
def test_long_trace_meets_the_closed_form(policy, tolerance):
    # Exponential sizes: light tails, so 200,000 flows at load 0.7 pin the mean within a few percent.
    rng = np.random.default_rng(7)
    n, lam = 200_000, 0.7
    arrivals = np.cumsum(rng.exponential(1 / lam, n))
    sizes = rng.exponential(1.0, n)
    fct = getattr(sc, f"{policy}_trace")(arrivals, sizes, 1.0) - arrivals
    formula = getattr(sc, f"{policy}_mean")(sc.exponential(1), arrivals=lam, capacity=1)
    assert fct.mean() == pytest.approx(formula, rel=tolerance)


def test_work_is_conserved_by_every_discipline():
    rng = np.random.default_rng(3)
    arrivals, sizes = np.sort(rng.uniform(0, 50, 500)), rng.exponential(0.2, 500)
    last = [getattr(sc, f"{p}_trace")(arrivals, sizes, 1.0).max() for p in ("fcfs", "ps", "srpt", "las")]
    assert last == pytest.approx([last[0]] * 4)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: sc.pareto(30, 1.0), "shape"),
        (lambda: sc.ps_mean(sc.fixed(30), arrivals=4, capacity=100), "arrivals"),
        (lambda: sc.ps_trace([0, 1], [1], 1), "sizes"),
        (lambda: sc.srpt_trace([0], [-1], 1), "sizes"),
        (lambda: sc.las_trace([0], [1], 0), "capacity"),
    ],
)
def test_bad_arguments_are_named(call, name):
    with pytest.raises(ValueError, match=f"^{name}:"):
        call()
