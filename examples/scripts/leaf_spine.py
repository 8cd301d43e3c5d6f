"""A leaf-spine network under a web-search load: slowdown by size, for three transports. Takes some ten
seconds."""

import penstock

net = penstock.Network.leaf_spine(4, 2, 4, link_rate="10Gbps", link_delay="1us", buffer="300pkt")
load = [penstock.Poisson("all", "all", load=0.4, sizes="websearch")]
for protocol, queue in (("dctcp", "threshold:k=65pkt"), ("cubic", "droptail"), ("ndp", "droptail")):
    found = penstock.run(net, workloads=load, protocol=protocol, queue=queue, duration="10ms", rto_min="1ms")
    sizes = found.by_size(bins=3)
    print(
        protocol,
        f"{found.flows.height} flows, slowdown median {found.summary['slowdown_p50']:.1f}, p99 {found.summary['slowdown_p99']:.1f}",
    )
    print(sizes)
