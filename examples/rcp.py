"""A protocol with a router in Python, like RCP: the routers announce one rate, a sender takes the smallest
of its path.

penstock run long-flows --set protocol=examples/rcp.py:Fair
"""

import math

import penstock


@penstock.router
class Announcer:
    """Eq. (1) of Dukkipati 2007: more than the capacity or a queue lowers the rate"""

    alpha: float = penstock.param(0.4, "gain of the rate mismatch", range=(0, 10))
    beta: float = penstock.param(0.5, "gain of the queue", range=(0, 10))
    interval: float = penstock.param("5ms", "shortest control interval", unit="s", range=(1e-6, 10))
    rate: float = 0.0
    rtt: float = 0.0
    samples: float = 0.0
    weight: float = 0.0
    arrived: int = 0
    timer_s: float = math.inf

    def on_start(self, link):
        self.rate = 0.05 * link.rate_bps
        self.rtt = link.base_rtt_s
        self.timer_s = self.interval

    def on_arrival(self, packet, port):
        if packet.forward and packet.headed and packet.header_rtt_s > 0:
            self.samples += packet.header_rtt_s * packet.bytes
            self.weight += packet.bytes

    def on_departure(self, packet, port):
        # As late as it can be, so that a long queue does not delay the news.
        if packet.forward and packet.headed and self.rate < packet.header_rate_bps:
            packet.header_rate_bps = self.rate

    def on_timer(self, port):
        if self.weight > 0:
            self.rtt += 0.1 * (self.samples / self.weight - self.rtt)
        interval = max(self.rtt, self.interval)
        load = 8.0 * (port.arrived_bytes - self.arrived) / interval
        drain = 8.0 * port.queue_bytes / interval
        change = (self.alpha * (port.rate_bps - load) - self.beta * drain) / port.rate_bps
        self.rate = min(max(self.rate * (1.0 + change), 0.001 * port.rate_bps), port.rate_bps)
        self.arrived = port.arrived_bytes
        self.samples = 0.0
        self.weight = 0.0
        self.timer_s = port.now_s + interval


@penstock.controller(name="fair", router=Announcer, source="Dukkipati, Rate Control Protocol, 2007")
class Fair:
    """RCP in Python: the sender's rate is the smallest that a router of its path announces"""

    rate: float = 0.0
    first: float = 0.0

    def on_start(self, config):
        self.first = config.segment

    def on_send(self, packet, flow):
        packet.header_rtt_s = flow.rtt_latest_s

    def on_ack(self, ack, flow):
        if 0 < ack.header_rate_bps < math.inf:
            self.rate = ack.header_rate_bps

    def on_congestion(self, event, flow):
        pass

    def control(self):
        # Until the SYN-ACK has brought a rate: one segment.
        return (math.inf, self.rate) if self.rate > 0 else (self.first, math.inf)
