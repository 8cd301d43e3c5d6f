"""Five controls for RDMA on the same network and load: completion times, queues, pauses. Takes some ten
seconds."""

import penstock

for protocol in ("roce", "dcqcn", "timely", "hpcc", "swift"):
    found = penstock.run("rdma", protocol=protocol, duration="300us").summary
    print(
        f"{protocol:7} slowdown p50 {found['slowdown_p50']:5.2f}, p99 {found['slowdown_p99']:6.2f}; "
        f"queue up to {found['queue_max_packets']:4.0f} packets, {found['pauses']:3.0f} pauses, {found['drops']:.0f} drops"
    )
