//! Flows that come one after the other.
use super::prelude::*;

use super::bottleneck::{
    access_delay, delay, visits, Visit, ACCESS_RATE, BUFFER, CAPACITY, CAPACITY_100G, CAPACITY_25G, DEFAULTS,
    INTERVAL, SAMPLED,
};
use crate::defaults::{access_rate, bottleneck_delay};

/// Staggered.
pub const STAGGERED: Scenario = Scenario {
    name: "staggered",
    text: "flows join a link one after the other",
    source: "PIQI-RCP Fig 4, 5, 8, 9, 11, 12, 16",
    params: &[
        CAPACITY,
        param!("flows": Count = "10" in [1.0, 10_000.0], "number of flows", "PIQI-RCP section IV"),
        param!("every": Duration = "10s" in [0.0, 1e6], "time between two of them", "PIQI-RCP section IV"),
        param!("lasting": Duration = "" in [1e-6, 1e6], "how long each stays; unset = to the end", "PIQI-RCP section VI"),
        delay("PIQI-RCP section IV: 50 ms"),
        param!("rtt": Text = "120ms",
            "round-trip propagation times of the flows in order, comma-separated; the last one holds for all further flows", "PIQI-RCP section IV"),
        ACCESS_RATE,
        BUFFER,
        INTERVAL,
    ],
    defaults: &[DEFAULTS, SAMPLED, &[("duration", "120s", "chosen")]],
    profiles: &[
        paper("the paper's setting: 100 Mb/s and RTTs of some 100 ms, RCP"),
        leaf_25g(&[LINUX, CUBIC, FRAMES_1500, BUFFER_25G, OWN, RTT, CAPACITY_25G]),
        leaf_100g(&[LINUX, CUBIC, FRAMES_9000, BUFFER_100G, OWN, RTT, CAPACITY_100G]),
    ],
    derive: |p| {
        access_rate(p);
        // A list that cannot be read is told when the scenario is built.
        let rtts = times("rtt", p.text("rtt")).unwrap_or_default();
        bottleneck_delay(p, rtts.iter().min().map_or(1.0, |rtt| rtt.as_secs()));
    },
    build,
};

const OWN: &[Default] = &[
    ("every", "200ms", "chosen: a timeout"),
    ("duration", "2400ms", "chosen: two more after the last flow has come"),
    ("sample", "5ms", "chosen"),
];

const LISTED: &[ParamSpec] = &[param!("rtt": Duration = "" in [1e-6, 4.0], "a round-trip time", "")];

/// Times separated by commas.
pub(super) fn times(key: &str, text: &str) -> Result<Vec<Dur>, ParamError> {
    text.split(',')
        .map(|t| {
            let given = [("rtt".to_owned(), t.trim().to_owned())];
            let p = Params::parse("list", LISTED, &given).map_err(|e| ParamError::new(key, text, e.rule))?;
            Ok(p.dur("rtt"))
        })
        .collect()
}

fn build(p: &Params, c: &Common, id: RunId) -> Result<Setup, ParamError> {
    let delay = p.dur("delay");
    let rtts = times("rtt", p.text("rtt"))?;
    let mut flows = Vec::new();
    for i in 0..p.count("flows") {
        let rtt = rtts[(i as usize).min(rtts.len() - 1)];
        let start = Time::ZERO + p.dur("every") * i;
        let stop = if p.is_set("lasting") { start + p.dur("lasting") } else { Time::NEVER };
        flows.push((Visit { rtt, start, stop }, access_delay(p, "rtt", rtt, delay)?));
    }
    visits(p, c, delay, &flows, id)
}
