"""AIMD flows with individual parameters sharing one link: the model of the SDC thesis.

A flow adds ``alpha`` packets to its window every round and multiplies it by ``beta`` when the link is
overloaded. All flows back off together (synchronised), all have the same round-trip time. Windows are in
packets, times in seconds, throughputs in packets per second.

Arrays: the last axis counts flows (or classes, with ``flows`` giving how many flows each entry stands for);
leading axes are free, so a whole sweep is one call. Every function raises ``ValueError`` naming the argument
that is out of range.

Source: A. Munir, "Improving Flow Completion Times in Data Center Networks", NUST, 2012, section 3.4,
equations (3.5) to (3.18); the matrix form is that of Shorten, Wirth and Leith, IEEE/ACM ToN 14, 2006.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def matrix(alpha: ArrayLike, beta: ArrayLike) -> Array:
    """Transition matrix of the windows from one backoff event to the next, eq. (3.8).

    Args:
        alpha: additive increase, packets per round, shape (..., n), > 0.
        beta: factor kept at a backoff, shape (..., n), 0 <= beta < 1.

    Returns:
        shape (..., n, n), column-stochastic: every column sums to 1, so the total window is conserved.
    """
    a, b = _parameters(alpha, beta)
    _has_flow_axis(a)
    # Eq. (3.8): A = diag(beta) + alpha (e' - beta') / sum(alpha)
    spread = a[..., :, None] * (1.0 - b)[..., None, :] / a.sum(-1)[..., None, None]
    return np.eye(a.shape[-1]) * b[..., None, :] + spread


def iterate(alpha: ArrayLike, beta: ArrayLike, start: ArrayLike, events: int) -> Array:
    """Windows at successive backoff events by repeated multiplication, eq. (3.6) and (3.7).

    Args:
        alpha, beta: as for `matrix`, shape (n,).
        start: windows at the first event, packets, shape (n,), >= 0.
        events: number of further backoff events, >= 0.

    Returns:
        shape (events + 1, n), packets; row 0 is `start`.
    """
    step = matrix(alpha, beta)
    window = np.asarray(start, float)
    if step.ndim != 2 or window.shape != step.shape[:1]:
        raise ValueError(f"start: shape {window.shape} must be (n,), as alpha and beta; n is the flow count")
    if (window < 0).any():
        raise ValueError("start: windows must be >= 0 packets")
    if events < 0:
        raise ValueError(f"events: {events} must be >= 0")
    windows = np.empty((events + 1, len(window)))
    windows[0] = window
    for k in range(events):
        # Eq. (3.7): W(k+1) = A W(k)
        windows[k + 1] = step @ windows[k]
    return windows


def stationary(alpha: ArrayLike, beta: ArrayLike, pipe: float, flows: ArrayLike = 1) -> Array:
    """Windows at a backoff event once converged, eq. (3.9) and (3.10).

    Args:
        alpha, beta: as for `matrix`, shape (..., n).
        pipe: packets in transit when the queue is empty, P = C T_d, > 0.
        flows: number of flows each entry stands for, shape (n,), >= 0.

    Returns:
        window per flow, packets, shape (..., n).
    """
    a, b = _parameters(alpha, beta)
    _has_flow_axis(a)
    count = _counts(flows, a)
    if not pipe > 0:
        raise ValueError(f"pipe: {pipe} must be > 0 packets")
    # Eq. (3.9): x_p = alpha / (1 - beta)
    direction = a / (1.0 - b)
    # Eq. (3.10): theta = (P + sum alpha) / sum(alpha / (1 - beta)), so that (3.5) holds
    theta = (pipe + (count * a).sum(-1)) / (count * direction).sum(-1)
    return theta[..., None] * direction


def throughput_max(alpha: ArrayLike, beta: ArrayLike, pipe: float, rtt: float, flows: ArrayLike = 1) -> Array:
    """Throughput just before a backoff, packets per second, eq. (3.11); arguments as for `throughput`."""
    # Eq. (3.11): S_max = theta alpha / (T (1 - beta))
    return stationary(alpha, beta, pipe, flows) / _positive(rtt, "rtt")


def throughput(alpha: ArrayLike, beta: ArrayLike, pipe: float, rtt: float, flows: ArrayLike = 1) -> Array:
    """Long-term mean throughput of each flow, eq. (3.12).

    Args:
        alpha, beta, pipe, flows: as for `stationary`.
        rtt: round-trip time, seconds, > 0; taken as constant, as the model does. The windows add up to more
            than the pipe, so the sum of throughputs may exceed the link's rate by up to sum(alpha) / rtt.

    Returns:
        packets per second per flow, shape (..., n).
    """
    b = np.asarray(beta, float)
    # Eq. (3.12): S_av = S_max (1 + beta) / 2, the mean of a window between beta w and w
    return throughput_max(alpha, beta, pipe, rtt, flows) * (1.0 + b) / 2.0


def network_throughput(
    alpha: ArrayLike, beta: ArrayLike, pipe: float, rtt: float, flows: ArrayLike = 1
) -> Array:
    """Sum of the mean throughputs of all flows, packets per second, shape (...), eq. (3.13)."""
    # Eq. (3.13): S = W_ss beta_av' / T
    mean = throughput(alpha, beta, pipe, rtt, flows)
    return np.asarray((_counts(flows, mean) * mean).sum(-1))


def completion_time(size: ArrayLike, rate: ArrayLike) -> Array:
    """Flow completion time, seconds, of `size` packets at `rate` packets per second, eq. (3.14)."""
    # Eq. (3.14): T = d / S_av
    return np.asarray(_positive(size, "size") / _positive(rate, "rate"), float)


def flows_completed(period: ArrayLike, flows: ArrayLike, afct: ArrayLike) -> Array:
    """Flows completed in `period` seconds by all classes together, shape (...), eq. (3.15).

    Args:
        period: reference period, seconds, > 0.
        flows: flows running at any time in each class, shape (..., c), >= 0.
        afct: mean completion time of each class, seconds, shape (..., c), > 0.
    """
    count = np.asarray(flows, float)
    if (count < 0).any():
        raise ValueError("flows: counts must be >= 0")
    # Eq. (3.15): F = sum_i T N_i / AFCT_i
    return np.asarray(_positive(period, "period") * (count / _positive(afct, "afct")).sum(-1))


def class_average(values: ArrayLike, thresholds: ArrayLike, sizes: ArrayLike) -> Array:
    """Parameter a flow uses on average while it shrinks through the classes, eq. (3.16) and (3.17).

    Args:
        values: the parameter (alpha or beta) of each class, highest priority first, shape (..., c).
        thresholds: largest remaining size of each class but the last, packets, shape (..., c - 1),
            increasing.
        sizes: flow sizes, packets, shape (m,), > 0. Eq. (3.16) writes the case of one flow size per class;
            here a flow starts in the class its size belongs to.

    Returns:
        shape (..., m).
    """
    value = np.atleast_1d(np.asarray(values, float))
    bound = np.asarray(thresholds, float)
    size = np.atleast_1d(_positive(sizes, "sizes"))
    classes = value.shape[-1]
    if bound.shape[-1:] != (classes - 1,):
        raise ValueError(
            f"thresholds: {classes} classes need {classes - 1} thresholds, not {bound.shape[-1:]}"
        )
    edge = np.concatenate(
        [np.zeros((*bound.shape[:-1], 1)), bound, np.full((*bound.shape[:-1], 1), np.inf)], -1
    )
    if not (np.diff(edge, axis=-1) > 0).all():
        raise ValueError("thresholds: must be > 0 and increasing")
    # Eq. (3.16), (3.17): packets sent while in class i, d_iT - d_(i-1)T, as a share of the flow
    low, high = edge[..., None, :-1], edge[..., None, 1:]
    share = np.clip(np.minimum(size[:, None], high) - low, 0.0, None) / size[:, None]
    return np.asarray((share * value[..., None, :]).sum(-1))


def gain(alpha: ArrayLike, beta: ArrayLike, alpha_ref: ArrayLike, beta_ref: ArrayLike) -> Array:
    """Throughput of one flow over that of a reference flow on the same link, eq. (3.18)."""
    a, b = _parameters(alpha, beta)
    a_ref, b_ref = _parameters(alpha_ref, beta_ref)
    # Eq. (3.18): G = alpha_1 (1 - beta_2) (1 + beta_1) / (alpha_2 (1 - beta_1) (1 + beta_2))
    return a * (1.0 - b_ref) * (1.0 + b) / (a_ref * (1.0 - b) * (1.0 + b_ref))


def alpha_for_gain(wanted: ArrayLike, beta: ArrayLike, alpha_ref: ArrayLike, beta_ref: ArrayLike) -> Array:
    """Additive increase that gives a wanted gain at a given beta: eq. (3.18) solved for alpha_1."""
    return _positive(wanted, "wanted") / gain(1.0, beta, alpha_ref, beta_ref)


def beta_for_gain(wanted: ArrayLike, alpha: ArrayLike, alpha_ref: ArrayLike, beta_ref: ArrayLike) -> Array:
    """Backoff factor that gives a wanted gain at a given alpha: eq. (3.18) solved for beta_1.

    Raises:
        ValueError: the gain is below alpha / alpha_ref * (1 - beta_ref) / (1 + beta_ref), which even a flow
            that gives up its whole window (beta = 0) exceeds.
    """
    a, zero = _parameters(alpha, 0.0)
    # Eq. (3.18): (1 + beta_1) / (1 - beta_1) = q, hence beta_1 = (q - 1) / (q + 1)
    q = _positive(wanted, "wanted") / gain(a, zero, alpha_ref, beta_ref)
    if (q < 1.0).any():
        raise ValueError(f"wanted: a gain of {np.min(wanted)} needs beta < 0 at this alpha")
    return np.asarray((q - 1.0) / (q + 1.0))


def raw_from_effective(effective: ArrayLike, thresholds: ArrayLike, sizes: ArrayLike) -> Array:
    """Class parameters whose class averages over flows of `sizes` are `effective`: the inverse of (3.16).

    Args:
        effective: wanted averages, shape (..., c), one per class, highest priority first.
        thresholds: as for `class_average`, shape (c - 1,).
        sizes: one flow size per class, packets, shape (c,); size j must lie in class j.

    Returns:
        shape (..., c). Values may fall outside what a window law allows (alpha > 0, 0 <= beta < 1): then no
        parameters of that class reach the wanted average, and `stationary` refuses them by name.
    """
    want = np.atleast_1d(np.asarray(effective, float))
    classes = want.shape[-1]
    # Row j: the share of a class-j flow sent in each class; lower triangular, so the solution is unique.
    share = class_average(np.eye(classes), thresholds, sizes).T
    if not (np.diag(share) > 0).all() or np.triu(share, 1).any():
        raise ValueError("sizes: size j must be above threshold j - 1 and not above threshold j")
    return np.linalg.solve(share, want[..., None])[..., 0]


def eigenvalues(alpha: ArrayLike, beta: ArrayLike) -> Array:
    """Eigenvalues of `matrix`, real, largest (= 1) first, shape (..., n).

    A is similar to a symmetric matrix (scale by the square root of alpha / (1 - beta)), hence real values.
    """
    a, b = _parameters(alpha, beta)
    _has_flow_axis(a)
    root = np.sqrt(a * (1.0 - b))
    symmetric = np.eye(a.shape[-1]) * b[..., None, :] + (
        root[..., :, None] * root[..., None, :] / a.sum(-1)[..., None, None]
    )
    return np.linalg.eigvalsh(symmetric)[..., ::-1]


def events_to_converge(alpha: ArrayLike, beta: ArrayLike, fraction: float = 0.05) -> Array:
    """Backoff events until the slowest deviation has shrunk to `fraction` of itself, shape (...).

    From the second eigenvalue lambda of the transition matrix: ln(fraction) / ln(lambda). A flow that ends
    sooner never sees its stationary share.
    """
    if not 0 < fraction < 1:
        raise ValueError(f"fraction: {fraction} must lie between 0 and 1")
    values = eigenvalues(alpha, beta)
    if values.shape[-1] < 2:
        raise ValueError("alpha: convergence needs at least two flows")
    second = np.clip(values[..., 1], 1e-300, None)
    return np.asarray(np.log(fraction) / np.log(second))


def rounds_between_backoffs(alpha: ArrayLike, beta: ArrayLike, pipe: float, flows: ArrayLike = 1) -> Array:
    """Rounds of additive increase between two backoff events once converged, shape (...).

    What the flows gave up, sum((1 - beta) w), is regained at sum(alpha) packets per round.
    """
    a, b = _parameters(alpha, beta)
    count = _counts(flows, a)
    lost = (count * (1.0 - b) * stationary(a, b, pipe, flows)).sum(-1)
    return np.asarray(lost / (count * a).sum(-1))


@dataclass(frozen=True)
class Classes:
    """Outcome of the class-based analysis, section 3.4.5; every array has one entry per class, last axis.

    Attributes:
        alpha, beta: class-averaged parameters of a flow that starts in the class, eq. (3.16) and (3.17).
        window: window of one flow at a backoff, packets.
        throughput: mean throughput of one flow, packets per second.
        fct: completion time of one flow, seconds.
        gain: throughput over that of the last class.
    """

    alpha: Array
    beta: Array
    window: Array
    throughput: Array
    fct: Array
    gain: Array


def classes(
    alpha: ArrayLike,
    beta: ArrayLike,
    *,
    flows: ArrayLike,
    sizes: ArrayLike,
    thresholds: ArrayLike,
    pipe: float,
    rtt: float,
) -> Classes:
    """Shares and completion times of flows of several size classes on one link, section 3.4.5.

    Args:
        alpha, beta: parameters of each class, highest priority first, shape (..., c).
        flows: flows in each class, shape (c,).
        sizes: flow size in each class, packets, shape (c,).
        thresholds: largest remaining size of each class but the last, packets, shape (..., c - 1).
        pipe: packets in transit when the queue is empty, > 0.
        rtt: round-trip time, seconds, > 0.
    """
    _parameters(alpha, beta)
    alpha_av = class_average(alpha, thresholds, sizes)
    beta_av = class_average(beta, thresholds, sizes)
    alpha_av, beta_av = np.broadcast_arrays(alpha_av, beta_av)
    rate = throughput(alpha_av, beta_av, pipe, rtt, flows)
    return Classes(
        alpha=alpha_av,
        beta=beta_av,
        window=stationary(alpha_av, beta_av, pipe, flows),
        throughput=rate,
        fct=completion_time(sizes, rate),
        gain=gain(alpha_av, beta_av, alpha_av[..., -1:], beta_av[..., -1:]),
    )


def _parameters(alpha: ArrayLike, beta: ArrayLike) -> tuple[Array, Array]:
    a, b = np.broadcast_arrays(np.asarray(alpha, float), np.asarray(beta, float))
    if not (a > 0).all():
        raise ValueError("alpha: must be > 0 packets per round")
    if not ((b >= 0) & (b < 1)).all():
        raise ValueError("beta: must lie in 0 <= beta < 1")
    return a, b


def _has_flow_axis(alpha: Array) -> None:
    if alpha.ndim == 0:
        raise ValueError("alpha: needs one entry per flow, or beta does")


def _counts(flows: ArrayLike, like: Array) -> Array:
    count = np.broadcast_to(np.asarray(flows, float), like.shape)
    if (count < 0).any() or not count.sum(-1).all():
        raise ValueError("flows: counts must be >= 0 with at least one flow")
    return count


def _positive(value: ArrayLike, name: str) -> Array:
    array = np.asarray(value, float)
    if not (array > 0).all():
        raise ValueError(f"{name}: must be > 0")
    return array
