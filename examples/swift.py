"""A law like Swift (Kumar et al., SIGCOMM 2020, algorithm 1, from memory): the delay steers the window.

penstock run incast --set protocol=examples/swift.py:Swift:target=100us

Without the scaling of the target by hops and by the window, and with one delay for network and host.
The built-in `swift` is a law for RDMA.
"""

import math

import penstock
from penstock import Event


@penstock.controller(name="swift_tcp", source="Kumar et al., SIGCOMM 2020")
class Swift:
    """Swift's law: additive increase below a target delay, a cut in proportion above it"""

    target: float = penstock.param("50us", "target of the round-trip time", unit="s", range=(1e-9, 10))
    increase: float = penstock.param(1.0, "segments added per round trip", range=(1e-3, 100))
    beta: float = penstock.param(0.8, "weight of the excess in a cut", range=(0, 1))
    most: float = penstock.param(0.5, "largest cut, as a share of the window", range=(0, 0.99))
    cwnd: float = 1.0
    last_cut_s: float = -math.inf
    rtt_s: float = 0.0
    segment: int = 1

    def on_start(self, config):
        self.segment = config.segment
        self.cwnd = config.initial_window / config.segment

    def on_ack(self, ack, flow):
        if ack.rtt_s > 0.0:
            self.rtt_s = ack.rtt_s
        if ack.acked == 0 or self.rtt_s == 0.0:
            return
        if self.rtt_s < self.target:
            self.cwnd += self.increase * ack.acked / self.segment / max(self.cwnd, 1.0)
        else:
            self.cut(self.beta * (self.rtt_s - self.target) / self.rtt_s, ack.now_s)

    def cut(self, share, now_s):
        if now_s - self.last_cut_s >= self.rtt_s:
            self.cwnd = max(self.cwnd * (1.0 - min(share, self.most)), 0.001)
            self.last_cut_s = now_s

    def on_congestion(self, event, flow):
        if event.kind == Event.LOSS or event.kind == Event.TIMEOUT:
            self.cut(self.most, event.now_s)

    def control(self):
        if self.cwnd >= 1.0 or self.rtt_s == 0.0:
            return max(self.cwnd, 1.0) * self.segment, math.inf
        return float(self.segment), self.cwnd * self.segment * 8.0 / self.rtt_s
