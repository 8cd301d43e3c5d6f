"""What the incast book's rows decide with: their criteria on made-up numbers, and the causes they name."""

import numpy as np
import pytest

import penstock
from penstock.experiments.incast import remedies, rows
from penstock.experiments.incast.remedies import Timeouts


def counted(*sizes: tuple[int, list[float]]) -> list[Timeouts]:
    """Timeouts of ten blocks: each segment size with what was lost in each timeout."""
    return [Timeouts(segment, np.array(lost), 10.0, 0, 0) for segment, lost in sizes]


def test_every_row_of_the_ledger_is_there_once():
    names = [row.id for row in rows.ROWS]
    assert len(names) == len(set(names))
    stated = ["I-1.5", "I-2.5", "I-3.3", "I-3.4", "I-dctcp"]
    stated += [f"I-3.{k}" for k in range(8, 22)] + [f"I-4.{k}" for k in range(1, 12)]
    assert sorted(names) == sorted(stated)


def test_the_statement_on_segment_sizes_is_checked_part_by_part():
    assert remedies._wrong(counted((1000, [1, 2, 3]), (500, [4, 5]), (50, []))) == []
    (fewer,) = remedies._wrong(counted((1000, [1]), (500, [2, 3]), (50, [])))
    assert "fewer" in fewer
    (right,) = remedies._wrong(counted((1000, [5, 6]), (500, [2]), (50, [])))
    assert "loss per timeout" in right
    (none,) = remedies._wrong(counted((1000, [1, 1]), (50, [9])))
    assert none == "segments of 50 B still have 0.10 per block"


@pytest.mark.parametrize(("segment", "fits"), [(100, True), (250, False)])
def test_windows_of_32_packets_that_fit_the_buffer_never_time_out(segment, fits):
    # Figure 4.8: ten windows of 32 packets are 320 packets; 32 KB are 320 packets of 100 B but 128 of 250 B.
    given = remedies.SETTING | remedies.in_packets(segment) | {"segment": f"{segment}B", "duration": "2s"}
    found = penstock.run("incast", **given, servers=10)
    assert (found.mean("timeouts") == 0) == fits


def test_a_window_of_32_kb_times_out_whatever_the_segment():
    given = remedies.SETTING | remedies.in_bytes(50) | {"segment": "50B", "duration": "2s", "servers": 10}
    assert penstock.run("incast", **given).mean("timeouts") > 0
