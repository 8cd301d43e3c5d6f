"""Homa's priorities of unscheduled packets by the distribution of sizes (SIGCOMM 2018, section 3.4)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np


def cutoffs(
    sizes: Sequence[float],
    cdf: Sequence[float],
    levels: int,
    *,
    rtt_bytes: int = 9328,
    payload: int = 1442,
    overhead: int = 96,
    by: str = "message",
    tail: int = 0,
    grant: int = 0,
) -> list[int]:
    """Sizes up to which a message has the highest of `levels` unscheduled priorities, the next, ...: each
    carries as many bytes on the wire. The value of `homa:cutoffs`, without the last level.

    `sizes` and `cdf` are the points of a step function: a message has `sizes[i]` bytes with probability
    `cdf[i] - cdf[i - 1]`. A packet has at most `payload` bytes and `overhead` beside them. `by="message"` is
    the paper's rule: the unscheduled bytes of a message count at its size. `by="remaining"` is that of the
    authors' simulator (PlatformLab/HomaSimulation, `WorkloadEstimator.cc` at d922efc, `PriorityResolver.cc`
    at d08b662). There a packet counts at the bytes its message has left, if fewer than `rtt_bytes` on the
    wire were sent or fewer than `tail` are left. `grant` bytes per scheduled packet go before all others.

    Raises `ValueError` for less than one level, a rule of another name, or a cdf that does not grow to 1.
    """
    if levels < 1:
        raise ValueError(f"levels must be at least 1, not {levels}")
    if by not in ("message", "remaining"):
        raise ValueError(f'by must be "message" or "remaining", not {by!r}')
    shares = np.diff(np.asarray([0.0, *cdf]))
    if len(sizes) != len(cdf) or np.any(shares < 0) or abs(float(np.sum(shares)) - 1.0) > 1e-6:
        raise ValueError("cdf must have a value for each of sizes, grow, and end at 1")
    bytes_at: dict[int, float] = {0: 0.0}
    for size, share in zip(sizes, shares, strict=True):
        if share > 0.0:
            for at, wire in _parts(int(size), rtt_bytes, payload, overhead, by, tail, grant):
                bytes_at[at] = bytes_at.get(at, 0.0) + float(share) * wire
    points = sorted(bytes_at)
    carried = np.cumsum([bytes_at[point] for point in points])
    carried /= carried[-1]
    found: list[int] = []
    for level in range(1, levels):
        cut = points[min(int(np.searchsorted(carried, level / levels - 1e-12)), len(points) - 1)]
        if cut > (found[-1] if found else 0):
            found.append(cut)
    return found


def _parts(
    size: int, rtt_bytes: int, payload: int, overhead: int, by: str, tail: int, grant: int
) -> list[tuple[int, float]]:
    """What a message carries: size at which it counts, bytes on the wire."""
    if by == "message":
        unscheduled = min(size, rtt_bytes)
        return [(size, unscheduled + overhead * -(-unscheduled // payload))]
    # Packets: the unscheduled bytes, the last of them perhaps short, then the others.
    ends = [*range(0, min(size, rtt_bytes), payload), min(size, rtt_bytes)]
    scheduled = -(-(size - ends[-1]) // payload)
    whole = size + overhead * (len(ends) - 1 + scheduled)
    parts: list[tuple[int, float]] = []
    sent = 0
    for begin, end in pairwise(ends):
        parts.append((size - begin, end - begin + overhead))
        sent += end - begin + overhead
    if scheduled:
        parts.append((0, float(grant * scheduled)))
    # Of the scheduled packets only those near the end count.
    near = min(scheduled, -(-tail // (payload + overhead)) + 1)
    for i in range(scheduled - near, scheduled):
        begin = ends[-1] + i * payload
        before = begin + overhead * (len(ends) - 1 + i)
        if before < rtt_bytes or whole - before < tail:
            bytes_ = min(payload, size - begin)
            parts.append((size - begin, bytes_ + overhead))
    return parts
