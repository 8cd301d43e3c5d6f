"""Queues in Python: RED and DCTCP's threshold, each the built-in one to the last byte.

penstock run incast --set protocol=dctcp --set queue=examples/red.py:Threshold:k=20
penstock run incast --set protocol=newreno --set queue=examples/red.py:Red
"""

import penstock
from penstock import Verdict


@penstock.queue(name="pythreshold", source="Alizadeh et al., SIGCOMM 2010, section 3.1")
class Threshold:
    """DCTCP's switch: mark every packet that finds k or more in the port"""

    k: int = penstock.param(40, "marking threshold in packets", range=(0, 1e9))

    def on_arrival(self, packet, port):
        return Verdict.MARK if port.queue_packets >= self.k else Verdict.ACCEPT


@penstock.queue(name="pyred", source="Floyd, Jacobson, ToN 1993; gentle: Floyd 2000")
class Red:
    """Random early detection: drop with a probability that grows with the averaged queue"""

    min_th: float = penstock.param(20.0, "lower threshold in packets", range=(0, 1e9))
    max_th: float = penstock.param(60.0, "upper threshold in packets", range=(1, 1e9))
    max_p: float = penstock.param(0.1, "probability at the upper threshold", range=(0, 1))
    wq: float = penstock.param(0.002, "weight of the average", range=(1e-9, 1))
    average: float = 0.0
    count: float = -1.0

    def on_arrival(self, packet, port):
        if port.idle_s > 0:
            self.average *= (1 - self.wq) ** (port.idle_s / port.packet_s)
        self.average += self.wq * (port.queue_packets - self.average)
        if self.average < self.min_th:
            self.count = -1.0
            return Verdict.ACCEPT
        self.count += 1.0
        if self.average < self.max_th:
            p_b = self.max_p * (self.average - self.min_th) / (self.max_th - self.min_th)
        elif self.average < 2.0 * self.max_th:  # the gentle slope
            p_b = self.max_p + (1.0 - self.max_p) * (self.average - self.max_th) / self.max_th
        else:
            p_b = 1.0
        used = self.count * p_b
        if p_b >= 1.0 or used >= 2.0:
            p_a = 1.0
        else:
            p_a = 0.0 if used < 1.0 else p_b / (2.0 - used)  # drops at least 1/p_b arrivals apart
        # The random number is drawn when it is looked at.
        if p_a <= 0.0 or port.full or packet.uniform >= p_a:
            return Verdict.ACCEPT
        self.count = 0.0
        return Verdict.DROP
