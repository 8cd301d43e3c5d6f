"""Guards: Homa's cutoffs carry equal bytes, by both rules, worked out by hand."""

from __future__ import annotations

import pytest

from penstock.models import homa


def test_levels_carry_equal_bytes_by_message() -> None:
    """Without headers: 4 x 100, 2 x 200 and 1 x 400 bytes are three equal parts."""
    sizes, cdf = [100, 200, 400], [4 / 7, 6 / 7, 1.0]
    assert homa.cutoffs(sizes, cdf, 3, overhead=0) == [100, 200]
    # Beyond the unscheduled bytes nothing counts: 400, 400 and 100 of 900.
    assert homa.cutoffs(sizes, cdf, 2, overhead=0, rtt_bytes=100) == [100]


def test_headers_count() -> None:
    """90 of 10 bytes and 10 of 100: 900 and 1,000 without headers, 9,900 and 2,000 with 100 bytes each."""
    assert homa.cutoffs([10, 100], [0.9, 1.0], 2, overhead=0) == [100]
    assert homa.cutoffs([10, 100], [0.9, 1.0], 2, overhead=100) == [10]


def test_packets_count_at_what_is_left() -> None:
    """One message of three packets: a third of the bytes each at 300, 200 and 100 bytes left."""
    found = homa.cutoffs([300], [1.0], 3, by="remaining", payload=100, overhead=0, rtt_bytes=1000)
    assert found == [100, 200]
    # Of ten packets the first two are unscheduled and the last one is near the end; eight grants of 25 bytes
    # are as much as two packets, and go before all.
    found = homa.cutoffs(
        [1000], [1.0], 5, by="remaining", payload=100, overhead=0, rtt_bytes=200, tail=101, grant=25
    )
    assert found == [100, 900]


def test_bad_values_are_told() -> None:
    with pytest.raises(ValueError, match="levels must be at least 1, not 0"):
        homa.cutoffs([1], [1.0], 0)
    with pytest.raises(ValueError, match='by must be "message" or "remaining", not \'size\''):
        homa.cutoffs([1], [1.0], 2, by="size")
    with pytest.raises(ValueError, match="cdf must have a value for each of sizes, grow, and end at 1"):
        homa.cutoffs([1, 2], [0.5, 0.9], 2)
