"""Sizes of messages of the workloads W1, W3 and W5: step functions, a message has the first size whose cdf is
not below its draw. By PlatformLab/HomaSimulation, `sizeDistributions` (SIGCOMM 2018).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

# W1: share of messages of at most 1, 2, ..., 15 bytes (Atikoglu et al., SIGMETRICS 2012).
_W1_FIRST = (
    0.00583, 0.18403, 0.27642, 0.2766, 0.304, 0.30465, 0.31071, 0.31094, 0.31931, 0.32768, 0.41757, 0.41849,
    0.42175, 0.44155, 0.47,
)  # fmt: skip

# W3, Google's remote calls of all kinds: size, share of messages up to it, and in how many steps of equal
# shares from the size before; between two sizes the reciprocals are evenly spaced. These are the 842 lines of
# `Google_AllRPC.txt`, their sizes exactly.
_W3 = (
    (3, 0.064882623, 1), (32, 0.0973239345, 1), (64, 0.155270737, 5), (128, 0.351573143, 6),
    (256, 0.497900763, 8), (512, 0.78492125, 11), (1024, 0.863199568, 14), (2048, 0.908861924, 18),
    (4096, 0.934954649, 24), (8192, 0.964309065, 31), (16384, 0.984694041, 41), (32768, 0.990401836, 53),
    (65536, 0.993255726, 69), (131072, 0.997128873, 90), (262144, 0.998453103, 118),
    (524288, 0.99949823, 153), (15158197, 1.0, 199),
)  # fmt: skip

# W5, web search (Alizadeh et al., SIGCOMM 2010): packets of 1,442 bytes and share of messages up to so many,
# linear in between. `DCTCP_MsgSizeDist.txt` has every size up to 248 packets, and above the 40ths of each
# part, rounded up: these are its 400 lines, their sizes exactly.
_W5 = (
    (0, 0.0), (6, 0.15), (13, 0.2), (19, 0.3), (33, 0.4), (53, 0.53), (133, 0.6), (667, 0.7), (1333, 0.8),
    (3333, 0.9), (6667, 0.9), (20000, 1.0),
)  # fmt: skip


def w1() -> tuple[list[float], list[float]]:
    """Sizes in bytes and cdf of W1: above 15 bytes a generalised Pareto distribution."""
    k, sigma = 0.348238, 214.476
    sizes, cdf = [float(i) for i in range(1, 16)], list(_W1_FIRST)
    n = 16
    while cdf[-1] < 1.0 - 2e-8:
        sizes.append(float(n))
        cdf.append(1.0 - 0.53 / (1.0 + (n + 0.5 - 15.0) * k / sigma) ** (1.0 / k))
        n = n + 1 if n < 300 else int(n * 1.01)
    cdf[-1] = 1.0
    return sizes, cdf


def w3() -> tuple[list[float], list[float]]:
    """Sizes in bytes and cdf of W3."""
    sizes, cdf = [float(_W3[0][0])], [_W3[0][1]]
    for (a, low, _), (b, high, steps) in pairwise(_W3):
        shares = [i / steps for i in range(1, steps + 1)]
        sizes += [float(round(1 / (1 / a - share * (1 / a - 1 / b)))) for share in shares]
        cdf += [low + (high - low) * share for share in shares]
    return sizes, cdf


def w5() -> tuple[list[float], list[float]]:
    """Sizes in bytes and cdf of W5."""
    packets = list(range(1, 249))
    for (a, low), (b, high) in pairwise(_W5):
        if b > 248 and high > low:
            parts = [-(-(40 * a + (b - a) * i) // 40) for i in range(1, 41)]
            packets += [n for n in parts if n > 248]
    cdf = np.interp(packets, [n for n, _ in _W5], [share for _, share in _W5])
    return [1442.0 * n for n in packets], [float(share) for share in cdf]


def of(workload: str) -> tuple[list[float], list[float]]:
    """Sizes in bytes and cdf of W1, W3 or W5."""
    return {"W1": w1, "W3": w3, "W5": w5}[workload]()
