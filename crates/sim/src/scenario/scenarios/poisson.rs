//! Flows of random size that arrive at random, beside long flows.
use super::prelude::*;

use super::bottleneck::{
    access_delay, delay, endless, outer, with_interval, ACCESS_RATE, BUFFER, CAPACITY, CAPACITY_100G,
    CAPACITY_25G, DEFAULTS, INTERVAL,
};
use crate::defaults::{access_rate, bottleneck_delay};
use crate::topology::dumbbell;
use crate::workloads::flows::flow_list;
use crate::workloads::open::{check_arrivals, poisson, Rate};
use crate::workloads::sizes::Sizes;
use crate::workloads::Pairs;

/// Poisson.
pub const POISSON: Scenario = Scenario {
    name: "poisson",
    text: "flows of Pareto size arrive as a Poisson process at one link, beside long flows",
    source: "PIQI-RCP Fig 13(b), 19",
    params: &[
        CAPACITY,
        param!("load": Float = "0.9" in [1e-6, 10.0], "offered payload as a fraction of the capacity", "PIQI-RCP section V"),
        param!("arrivals": Float = "" in [1e-3, 1e9], "flows per second; overrides load", "PIQI-RCP section VI"),
        param!("mean_packets": Float = "30" in [1.0, 1e9], "mean size of a flow in full segments", "PIQI-RCP section V"),
        param!("shape": Float = "1.4" in [1.01, 100.0], "shape of the Pareto distribution", "PIQI-RCP section V"),
        param!("from": Duration = "0s" in [0.0, 1e6], "first arrivals", "PIQI-RCP section VI"),
        param!("long_flows": Count = "0" in [0.0, 10_000.0], "long flows from the start", "PIQI-RCP section VI"),
        param!("hosts": Count = "16" in [1.0, 10_000.0], "pairs of hosts the short flows are spread over", "chosen"),
        delay("PIQI-RCP section V: 50 ms"),
        param!("rtt": Duration = "100ms" in [1e-6, 4.0], "round-trip propagation time", "PIQI-RCP section V: delay of 50 ms"),
        ACCESS_RATE,
        BUFFER,
        INTERVAL,
    ],
    defaults: &[DEFAULTS, &[("duration", "20s", "chosen")]],
    profiles: &[
        paper("the paper's setting: 100 Mb/s and RTTs of some 100 ms, RCP"),
        leaf_25g(&[LINUX, CUBIC, FRAMES_1500, BUFFER_25G, OWN, RTT, CAPACITY_25G]),
        leaf_100g(&[LINUX, CUBIC, FRAMES_9000, BUFFER_100G, OWN, RTT, CAPACITY_100G]),
    ],
    derive: |p| {
        access_rate(p);
        bottleneck_delay(p, p.float("rtt"));
    },
    build,
};

const OWN: &[Default] = &[("duration", "2s", "chosen: 10 timeouts"), ("sample", "5ms", "chosen")];

fn build(p: &Params, c: &Common, id: RunId) -> Result<Setup, ParamError> {
    let c = with_interval(p, c)?;
    let delay = p.dur("delay");
    let buffer = p.is_set("buffer").then_some((p, "buffer"));
    let bottleneck = c.link(p.rate("capacity"), delay, buffer)?;
    let access = outer(p.rate("access_rate"), access_delay(p, "rtt", p.dur("rtt"), delay)?);
    let long = p.count("long_flows") as usize;
    let (topology, pairs, port) = dumbbell(p.count("hosts") as u32 + long as u32, &[access], &bottleneck);
    let mss = f64::from(c.protocols[0].1.mss);
    let mean = p.float("mean_packets") * mss;
    let arrivals = if p.is_set("arrivals") {
        p.float("arrivals")
    } else {
        p.float("load") * p.rate("capacity").as_bytes_per_sec() / mean
    };
    let key = if p.is_set("arrivals") { "arrivals" } else { "load" };
    check_arrivals(arrivals, c.duration, p.dur("from"), u64::MAX).map_err(|rule| p.error(key, rule))?;
    let stay: Vec<_> = pairs[..long].iter().map(|(s, d)| (Time::ZERO, endless(*s, *d))).collect();
    let (from, to): (Vec<u32>, Vec<u32>) = pairs[long..].iter().copied().unzip();
    let between = Pairs::new(from, to).expect("senders are not receivers");
    let rate =
        Rate { per_second: arrivals, start: Time::ZERO + p.dur("from"), deadline: None, count: u64::MAX };
    let short = poisson(
        endless(pairs[0].0, pairs[0].1),
        between,
        Sizes::Pareto { shape: p.float("shape"), mean },
        rate,
        Stream::new(id.seed, id.run, Entity::Workload, 1),
    );
    Ok(c.setup(topology, vec![flow_list(stay), short], port, p.dur("rtt"), id))
}
