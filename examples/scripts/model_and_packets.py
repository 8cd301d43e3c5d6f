"""The equation beside the packet: DCTCP's queue by the fluid model and in the simulator, for 4 to 16
flows."""

import penstock
from penstock.models.fluid import Link, solve
from penstock.models.marking import Marking

FLOWS = (4, 8, 16)
FASTEST = 1e9 / 8 / 1040  # packets per second of a 1 Gb/s link
model = solve(
    Link(capacity=FASTEST, base_rtt=100e-6, flows=FLOWS), Marking(20, 20), growth="unmarked", inflow="window"
)
means = model.queue.mean(axis=0)
for flows, mean in zip(FLOWS, means, strict=True):
    run = penstock.run(
        "long-flows",
        flows=flows,
        protocol="dctcp",
        queue="threshold:k=20pkt",
        duration="100ms",
        warmup="30ms",
    )
    print(f"{flows:3} flows: model {mean:5.1f} packets, simulated {run.summary['queue_mean_packets']:5.1f}")
