"""DCTCP (RFC 8257) as a controller in Python: the same window, byte for byte, as the built-in `dctcp`.

penstock run incast --set protocol=examples/dctcp.py:Dctcp
"""

import math

import penstock
from penstock import Event, Limit


@penstock.controller(name="pydctcp", ecn="dctcp", source="RFC 8257; RFC 5681")
class Dctcp:
    """DCTCP in Python: marks as a measure of the extent of congestion"""

    g: float = penstock.param(
        0.0625, "gain of the marked-fraction average", range=(1e-6, 1), origin="RFC 8257 section 4.2"
    )
    min_window: float = penstock.param(
        1.0, "smallest window after a mark, in segments", range=(1, 1000), origin="RFC 3168 section 6.1.2"
    )
    alpha: float = 1.0
    acked: int = 0
    marked: int = 0
    window_end: int = 0
    cwnd: float = 0.0
    ssthresh: float = math.inf
    initial: float = 0.0
    byte_counting: bool = False

    def on_start(self, config):
        self.initial = config.initial_window
        self.cwnd = self.initial
        self.byte_counting = config.byte_counting

    def on_ack(self, ack, flow):
        if ack.acked == 0:
            return
        # RFC 8257 section 3.3 steps 1-3: every acknowledged byte counts, in recovery too.
        self.acked += ack.acked
        if ack.ece:
            self.marked += ack.acked
        if flow.una > self.window_end:
            # Steps 4-7: M = bytes marked / bytes acked; alpha = alpha (1 - g) + g M; restart the window.
            m = self.marked / self.acked
            self.alpha = self.alpha * (1.0 - self.g) + self.g * m
            self.window_end = flow.nxt
            self.acked = 0
            self.marked = 0
        if not ack.ece and not flow.in_recovery:
            self.grow(ack.acked, flow)

    def grow(self, acked, flow):
        if flow.limit == Limit.HOST:
            # Linux (from memory): in slow start a sender that its own host holds back may open to twice its flight.
            if self.cwnd >= self.ssthresh or self.cwnd >= 2.0 * (flow.in_flight + acked):
                return
        elif flow.limit == Limit.APPLICATION or flow.limit == Limit.RECEIVER:
            return  # RFC 7661: the window is not what limits the sender
        segment = flow.segment
        if self.cwnd < self.ssthresh:
            # RFC 5681 eq. (2); RFC 3465 section 2.2 with L = 2
            self.cwnd += min(acked, 2 * segment if self.byte_counting else segment)
        elif self.byte_counting:
            self.cwnd += segment * acked / self.cwnd  # RFC 3465 section 2.1
        else:
            self.cwnd += segment * segment / self.cwnd  # RFC 5681 eq. (3)

    def on_congestion(self, event, flow):
        segment = flow.segment
        half = max(flow.in_flight * 0.5, 2.0 * segment)
        if event.kind == Event.ECN:
            # RFC 8257 section 3.3: cwnd = cwnd (1 - alpha / 2)
            self.cwnd = max(self.cwnd * (1.0 - self.alpha / 2.0), self.min_window * segment)
            self.ssthresh = self.cwnd
        elif event.kind == Event.LOSS:
            self.ssthresh = half  # RFC 5681 eq. (4)
            self.cwnd = half
        elif event.kind == Event.TIMEOUT:
            if event.in_a_row == 1:
                self.ssthresh = half  # RFC 5681 section 3.1: it stays when the same data times out again
            self.cwnd = segment
        elif event.kind == Event.RECOVERED:
            self.cwnd = max(self.ssthresh, segment)  # RFC 6582 section 3.2 step 3
        elif event.kind == Event.SYN_LOST:
            self.cwnd = segment  # RFC 5681 section 3.1
        elif event.kind == Event.IDLE:
            self.cwnd = min(self.cwnd, self.initial)  # RFC 5681 section 4.1

    def control(self):
        return self.cwnd
