//! Topology T1: a router whose mean RTT says nothing about the flow it controls.
use super::prelude::*;

use super::bottleneck::{endless, outer, with_interval, BUFFER, DEFAULTS, INTERVAL, SAMPLED};
use crate::workloads::flows::flow_list;

/// T1.
pub const T1: Scenario = Scenario {
    name: "t1",
    text: "a flow of long RTT is bottlenecked at l1, which flows of short RTT cross on their way to l3",
    source: "PIQI-RCP Fig 1, 2, 6, 10",
    params: &[
        param!("l1": Rate = "155Mbps" in [1e3, 1e13], "rate of l1, shared by all", "PIQI-RCP section III: x1 converges to it"),
        param!("l2": Rate = "622Mbps" in [1e3, 1e13], "rate of l2, behind l1 on the path of x1", "chosen: never the bottleneck"),
        param!("l3": Rate = "70Mbps" in [1e3, 1e13], "rate of l3, behind l1 on the path of the others", "chosen: open in the paper"),
        param!("flows": Count = "9" in [0.0, 10_000.0], "number of flows over l3", "PIQI-RCP section III"),
        param!("join_at": Duration = "30s" in [0.0, 1e6], "when they join", "PIQI-RCP section III"),
        param!("rtt": Duration = "710ms" in [20e-3, 4.0], "round-trip propagation time of x1", "PIQI-RCP section III"),
        param!("rtt_joining": Duration = "20ms" in [8e-3, 4.0], "that of the others", "PIQI-RCP section III"),
        BUFFER,
        INTERVAL,
    ],
    defaults: &[
        DEFAULTS,
        SAMPLED,
        &[("duration", "100s", "chosen"), ("rwnd", "4GB", "the long path holds 14 MB and a queue beside it")],
    ],
    profiles: &[
        paper("the paper's setting: 155 Mb/s and RTTs of 20 and 710 ms, RCP"),
        hosts_25g(&[LINUX, CUBIC, FRAMES_1500, SLOW, BUFFER_OF_TODAY]),
        hosts_100g(&[LINUX, CUBIC, FRAMES_9000, SLOW, BUFFER_OF_TODAY]),
    ],
    derive: |_| {},
    build,
};

const BUFFER_OF_TODAY: &[Default] = &[(
    "buffer",
    "2MB",
    "chosen: a seventh of what the long path holds; cubic fills a queue without a limit",
)];

fn build(p: &Params, c: &Common, id: RunId) -> Result<Setup, ParamError> {
    let c = with_interval(p, c)?;
    let buffer = p.is_set("buffer").then_some((p, "buffer"));
    let hop = Dur::millis(2);
    let mut t = Topology::default();
    let (a, b, far, near) = (t.switch("a"), t.switch("b"), t.switch("far"), t.switch("near"));
    // 10 Gb/s beside the paper's rates; never the bottleneck.
    let fastest = ["l1", "l2", "l3"].map(|key| p.rate(key).0).into_iter().fold(0, u64::max);
    let outer_rate = Rate((fastest * 10).max(10_000_000_000));
    let access = outer(outer_rate, Dur::ZERO);
    // x1: host, l1, l2, host; the rest of its round trip is l2's delay.
    let (l1, _) = t.connect(a, b, &c.link(p.rate("l1"), hop, buffer)?);
    let rest = p.dur("rtt") / 2 - hop;
    t.connect(b, far, &c.link(p.rate("l2"), rest, buffer)?);
    let (l3, _) = t.connect(b, near, &c.link(p.rate("l3"), hop, buffer)?);
    let (src, dst) = (t.host("x1-from"), t.host("x1-to"));
    t.connect(src, a, &access);
    t.connect(far, dst, &access);
    let mut flows = vec![(Time::ZERO, endless(src, dst))];
    let outside = outer(outer_rate, (p.dur("rtt_joining") / 2 - hop * 2) / 2);
    for i in 0..p.count("flows") {
        let (src, dst) = (t.host(format!("x{}-from", i + 2)), t.host(format!("x{}-to", i + 2)));
        t.connect(src, a, &outside);
        t.connect(near, dst, &outside);
        flows.push((Time::ZERO + p.dur("join_at"), endless(src, dst)));
    }
    let base = p.dur("rtt").min(p.dur("rtt_joining"));
    let mut setup = c.setup(t, vec![flow_list(flows)], l1, base, id);
    setup.recorder.sampled_ports.push(l3);
    Ok(setup)
}
