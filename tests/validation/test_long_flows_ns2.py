"""Long flows against ns-2.35: SACK, 1 Gb/s, RTT 300 us, 100 packets of 1500 B, sends delayed by U(0, 12 us).

ns-2's means leave out the packet in transmission, so utilisation is added. Its step marks what finds more
than K = 20 packets waiting; ours counts the one in transmission too and marks from k on: 22. Its RED drops
instead of marking from a probability of 0.1 on (`mark_p_`). A mark may leave its senders less than a segment
(`ecn_floor`). tools/ns2_long_flows.tcl is the step in ns-2.
"""

from __future__ import annotations

import pytest

import penstock

RED = "red:min=20pkt,max=60pkt,ecn=true,mark_p=0.1"
STEP = "threshold:k=22pkt"
# Queue, flows -> utilisation, mean of the waiting packets.
NS2 = {
    ("droptail", 5): (1.0, 77.783),
    ("droptail", 10): (1.0, 81.599),
    ("droptail", 20): (1.0, 86.563),
    ("droptail", 50): (1.0, 95.969),
    (RED, 5): (1.0, 26.741),
    (RED, 10): (1.0, 36.234),
    (RED, 20): (1.0, 52.470),
    (RED, 50): (1.0, 62.807),
    (STEP, 2): (0.98838, 10.859),
    (STEP, 5): (0.98889, 11.969),
    (STEP, 10): (0.98514, 13.808),
    (STEP, 20): (0.97137, 15.239),
    (STEP, 50): (0.96933, 16.321),
}


def long_flows(queue: str, flows: int, **changes: str) -> tuple[float, float]:
    """Utilisation and mean queue."""
    options = {
        "flows": flows,
        "rtt": "300us",
        "buffer": "100pkt",
        "queue": queue,
        "protocol": "sack" if queue == "droptail" else "sack:ecn=true",
        "duration": "10s",
        "warmup": "2s",
        "rto_min": "10ms",
        "rto_initial": "3s",
        "initial_window": 2,
        "send_jitter": "12us",
        "ssthresh_from": "cwnd",
        "window_validation": "false",
        "ecn_floor": "none",
    }
    result = penstock.run("long-flows", **(options | changes))
    return result.mean("utilisation"), result.mean("queue_mean_packets")


@pytest.mark.parametrize("queue, flows", NS2)
def test_utilisation_and_queue(queue: str, flows: int) -> None:
    utilisation, waiting = NS2[queue, flows]
    found = long_flows(queue, flows)
    assert found[0] == pytest.approx(utilisation, rel=0.01)
    assert found[1] == pytest.approx(waiting + utilisation, rel=0.10)


def test_the_floor_of_rfc_3168_is_the_difference() -> None:
    """With 20 and 50 flows on a path of 25 packets ns-2's senders wait where RFC 3168 lets them send."""
    for flows in (20, 50):
        utilisation, waiting = NS2[STEP, flows]
        found = long_flows(STEP, flows, ecn_floor="segment")
        assert found[0] > utilisation * 1.01 and found[1] > (waiting + utilisation) * 1.10
    # With windows of a few segments it does not matter.
    assert long_flows(STEP, 5, ecn_floor="segment") == pytest.approx(long_flows(STEP, 5), rel=0.01)


def test_the_back_off_of_the_timer_is_what_is_left_at_fifty_flows() -> None:
    """ns-2 doubles the timer that a sender below a segment waits for when the next ACK is marked as well."""
    _, waiting = NS2[STEP, 50]
    utilisation, queue = long_flows(STEP, 50, ecn_floor="backoff")
    assert utilisation == pytest.approx(NS2[STEP, 50][0], rel=0.01)
    plain = long_flows(STEP, 50)[1]
    assert abs(queue - waiting - utilisation) < 0.5 * abs(plain - waiting - utilisation)
