"""A link between switches goes down and comes back: what a long flow loses by it."""

import penstock

net = penstock.Network(["a", "b"], ["left", "right"], name="one way, or none")
net.link("a", "left", rate="1Gbps", delay="10us")
net.link("right", "b", rate="1Gbps", delay="10us")
net.link("left", "right", rate="1Gbps", delay="10us", buffer="100pkt", fail="10ms-15ms")
flow = [penstock.Flows("a", "b")]
for floor in ("200ms", "1ms"):
    found = penstock.run(
        net, workloads=flow, protocol="sack", duration="60ms", rto_min=floor, rto_initial=floor
    ).summary
    print(
        f"floor {floor:5}: {found['goodput_bps'] / 1e6:4.0f} Mb/s, {found['drops_down']:.0f} packets lost with the link"
    )
