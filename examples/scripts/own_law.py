"""A congestion control of one's own, beside NewReno with the same marks: it gives up half of every marked ACK's bytes."""

import penstock
from penstock import Event


@penstock.controller(ecn="dctcp", recovery="sack", compile=False)
class Half:
    cwnd: float = 0.0

    def on_start(self, config):
        self.cwnd = config.initial_window

    def on_ack(self, ack, flow):
        if ack.acked:
            self.cwnd += -0.5 * ack.acked if ack.ece else flow.segment * ack.acked / self.cwnd
            self.cwnd = max(self.cwnd, flow.segment)

    def on_congestion(self, event, flow):
        self.cwnd = flow.segment if event.kind == Event.TIMEOUT else max(self.cwnd / 2, flow.segment)

    def control(self):
        return self.cwnd


settings = {"queue": "threshold:k=30pkt", "flows": 4, "duration": "60ms", "warmup": "20ms"}
for law in (Half, "newreno:ecn=true"):
    found = penstock.run("long-flows", protocol=law, settings=settings).summary
    print(f"{found['utilisation']:.3f} of the link, mean queue {found['queue_mean_packets']:.1f} packets")
