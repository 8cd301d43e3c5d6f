//! One flow fills a link; then many join it at once.
use super::prelude::*;

use super::bottleneck::{
    access_delay, delay, visits, Visit, ACCESS_RATE, BUFFER, CAPACITY, CAPACITY_100G, CAPACITY_25G, DEFAULTS,
    INTERVAL, SAMPLED,
};
use crate::defaults::{access_rate, bottleneck_delay};

/// Join.
pub const JOIN: Scenario = Scenario {
    name: "join",
    text: "one flow fills a link, others join it all at once",
    source: "PIQI-RCP Fig 3, 13(a), 17, 18",
    params: &[
        CAPACITY,
        param!("flows": Count = "50" in [1.0, 10_000.0], "number of flows that join", "PIQI-RCP Fig 3"),
        param!("join_at": Duration = "15s" in [0.0, 1e6], "when they join", "PIQI-RCP Fig 3"),
        param!("leave_at": Duration = "" in [0.0, 1e6], "when they leave; unset = never", "PIQI-RCP section VI"),
        delay("PIQI-RCP section III: 50 ms"),
        param!("rtt": Duration = "120ms" in [1e-6, 4.0], "round-trip propagation time of the first flow", "PIQI-RCP section IV"),
        param!("rtt_joining": Duration = "" in [1e-6, 4.0], "round-trip time of the joining flows; unset = the first flow's", ""),
        ACCESS_RATE,
        BUFFER,
        INTERVAL,
    ],
    defaults: &[DEFAULTS, SAMPLED, &[("duration", "40s", "chosen")]],
    profiles: &[
        paper("the paper's setting: 100 Mb/s and RTTs of some 100 ms, RCP"),
        leaf_25g(&[LINUX, CUBIC, FRAMES_1500, BUFFER_25G, OWN, RTT, CAPACITY_25G]),
        leaf_100g(&[LINUX, CUBIC, FRAMES_9000, BUFFER_100G, OWN, RTT, CAPACITY_100G]),
    ],
    derive: |p| {
        access_rate(p);
        let shortest =
            if p.is_set("rtt_joining") { p.float("rtt").min(p.float("rtt_joining")) } else { p.float("rtt") };
        bottleneck_delay(p, shortest);
    },
    build,
};

const OWN: &[Default] = &[
    ("join_at", "500ms", "chosen: the first flow has filled the link"),
    ("duration", "3s", "chosen: 10 timeouts after the others have come"),
    ("sample", "5ms", "chosen"),
];

fn build(p: &Params, c: &Common, id: RunId) -> Result<Setup, ParamError> {
    let delay = p.dur("delay");
    let joining = if p.is_set("rtt_joining") { "rtt_joining" } else { "rtt" };
    let stop = if p.is_set("leave_at") { Time::ZERO + p.dur("leave_at") } else { Time::NEVER };
    let first = Visit { rtt: p.dur("rtt"), start: Time::ZERO, stop: Time::NEVER };
    let other = Visit { rtt: p.dur(joining), start: Time::ZERO + p.dur("join_at"), stop };
    bail_if!(other.stop <= other.start, p.error("leave_at", "must be later than join_at"));
    let mut flows = vec![(first, access_delay(p, "rtt", first.rtt, delay)?)];
    let access = access_delay(p, joining, other.rtt, delay)?;
    flows.extend((0..p.count("flows")).map(|_| (other, access)));
    visits(p, c, delay, &flows, id)
}
