"""The messages of PIAS's published run with W5, to the last one: where they go, when, and how many packets.

Homa's authors drew them with ns-2, with a generator for the gaps and one for the sizes of each pair of hosts.
Their script states the seeds (search_pias.tcl and tcp-common-opt.tcl of PlatformLab/HomaSimulation, 90a6f980
and 2c178ac4). ns-2's generator is MRG32k3a (L'Ecuyer, Operations Research 47(1), 1999, table II). A seed is
all six words of its state (ns-2's rng.cc), so the draws of different pairs are not independent.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from penstock_papers.experiments.homa import sizes as workloads

HOSTS, COUNT = 144, 500_000
MEAN, GOODPUT = 1745.0 * 1460, 2547262.0 / 2686844.0
"""Bytes of a message and payload over throughput, as piasSearchParams.py states them."""
DRAWS = 60
"""Messages of a pair that are drawn; the published run takes 24 in the mean."""


def mrg32k3a(seeds: NDArray[np.int64], draws: int) -> NDArray[np.float64]:
    """A row for each draw of the generators with these seeds, all at once."""
    m1, m2 = 4294967087, 4294944443
    first, second = [seeds % m1] * 3, [seeds % m2] * 3
    out = np.empty((draws, len(seeds)))
    for row in out:
        # L'Ecuyer's recurrences: x_n = 1403580 x_(n-2) - 810728 x_(n-3) mod m1, and
        # y_n = 527612 y_(n-1) - 1370589 y_(n-3) mod m2; u_n = (x_n - y_n mod m1) / (m1 + 1).
        x = (1403580 * first[1] - 810728 * first[0]) % m1
        y = (527612 * second[2] - 1370589 * second[0]) % m2
        first, second = [*first[1:], x], [*second[1:], y]
        row[:] = np.where(x > y, x - y, x - y + m1) / (m1 + 1.0)
    return out


def published(load: float = 0.8) -> pl.DataFrame:
    """`start_s`, `src`, `dst` and `packets` of 1,460 bytes, in the order of their beginning."""
    sizes, cdf = (np.array(column) for column in workloads.of("W5"))
    # A line of the file has six decimals.
    packets, cdf = np.rint(sizes / 1442).astype(np.int64), np.round(cdf, 6)
    src, dst = (side.ravel() for side in np.meshgrid(np.arange(HOSTS), np.arange(HOSTS), indexing="ij"))
    src, dst = src[src != dst], dst[src != dst]
    per_second = 10e9 * load / (MEAN * 8 / GOODPUT) / (HOSTS - 1)
    starts = np.cumsum(-np.log(mrg32k3a(17 * src + 1244 * dst, DRAWS)) / per_second, axis=0)
    drawn = packets[np.searchsorted(cdf, mrg32k3a(33 * src + 4369 * dst, DRAWS))]
    found = pl.DataFrame(
        {
            "start_s": starts.ravel(),
            "src": np.tile(src, DRAWS),
            "dst": np.tile(dst, DRAWS),
            "packets": drawn.ravel(),
        }
    )
    # No pair has begun its last draw when the run has all its messages.
    found = found.sort("start_s").head(COUNT)
    assert found["start_s"][-1] < starts[-1].min()
    return found


def third(found: pl.DataFrame, part: int) -> pl.DataFrame:
    """What 48 receivers get, part 0, 1 or 2 of 3, from 48 senders in place of 144: a receiver's messages are
    its own, and a sender has those of three.
    """
    own = found.filter(pl.col("dst") // 48 == part).with_columns(pl.col("dst") % 48, pl.col("src") % 48)
    # A host that would send to itself sends to the next one.
    src = pl.col("src")
    return own.with_columns(src=pl.when(src == pl.col("dst")).then((src + 1) % 48).otherwise(src))
