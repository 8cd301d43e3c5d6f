//! What the scenarios of explicit rate control share: one bottleneck, and flows that come and go.
use super::prelude::*;

use crate::topology::{drop_tail, dumbbell};
use crate::workloads::flows::leaving_flows;

/// Capacity of the bottleneck.
pub(super) const CAPACITY: ParamSpec =
    param!("capacity": Rate = "100Mbps" in [1e3, 1e13], "rate of the bottleneck", "PIQI-RCP section III");
/// It under a leaf switch of today.
pub(super) const CAPACITY_25G: &[Default] =
    &[("capacity", "25Gbps", "IEEE 802.3by, the usual port of a host")];
/// It under a faster one.
pub(super) const CAPACITY_100G: &[Default] = &[("capacity", "100Gbps", "IEEE 802.3bj")];
/// Rate of the outer links.
pub(super) const ACCESS_RATE: ParamSpec = param!("access_rate": Rate = "" in [1e3, 1e13],
    "rate of every host's link; unset = ten times capacity, at least 1 Gb/s", "PIQI-RCP section IV: 1 Gb/s beside 100 Mb/s");
/// Limit of the bottleneck's port.
pub(super) const BUFFER: ParamSpec = param!("buffer": Buffer = "" in [1.0, 1e12],
    "buffer of a switch port; unset = unlimited", "PIQI-RCP section III");
/// Control interval of the routers.
pub(super) const INTERVAL: ParamSpec = param!("interval": Duration = "" in [1e-6, 10.0],
    "control interval T of the routers; unset = the protocol's", "PIQI-RCP section V: 10 ms");

/// Defaults of common parameters: 1000 B on the wire with RCP's header, and no other limits.
pub(super) const DEFAULTS: &[Default] = &[
    ("protocol", "rcp", "PIQI-RCP"),
    ("segment", "944B", "1000 B on the wire: 40 B of IP and TCP, 16 B of RCP"),
    ("initial_window", "2", "ns-2"),
    (
        "send_jitter",
        "0s",
        "paced senders have no bursts that tie, and where the queue is a packet the noise would be the queue",
    ),
];
/// Defaults of scenarios whose results are rates over time.
pub(super) const SAMPLED: &[Default] =
    &[("sample", "100ms", "chosen"), ("series", "true", "rates over time are what these scenarios are for")];

/// A flow: its round-trip propagation time, when it comes, when it goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visit {
    pub rtt: Dur,
    pub start: Time,
    pub stop: Time,
}

/// The common parameters with the control interval put into the protocol's own parameters.
pub(super) fn with_interval(p: &Params, c: &Common) -> Result<Common, ParamError> {
    let mut common = c.clone();
    if p.is_set("interval") {
        if !c.protocol.params.iter().any(|s| s.name == "interval") {
            let rule = format!("protocol {} has no control interval", c.protocol.name);
            return Err(p.error("interval", rule));
        }
        let text = p.text("protocol");
        let joint = if text.contains(':') { "," } else { ":" };
        let joined = format!("{text}{joint}interval={}", p.text("interval"));
        common.protocols[0] = common.part(p, "protocol", &joined)?.1;
    }
    Ok(common)
}

/// Delay of the bottleneck, unset = what the round trips leave room for.
pub(super) const fn delay(origin: &'static str) -> ParamSpec {
    let text = "one-way delay of the bottleneck; unset = 50 ms, or 5/12 of the shortest rtt below 100 ms";
    param!("delay": Duration = "" in [0.0, 2.0], text, origin)
}

/// Half of what a round-trip time leaves for the access links, after the bottleneck's both ways.
pub(super) fn access_delay(p: &Params, key: &str, rtt: Dur, bottleneck: Dur) -> Result<Dur, ParamError> {
    if rtt < bottleneck * 2 {
        return Err(p.error(key, format!("must be at least twice the bottleneck's delay ({bottleneck})")));
    }
    Ok((rtt - bottleneck * 2) / 4)
}

/// One bottleneck of `capacity` and `delay`; every visit has its own pair of hosts.
pub(super) fn visits(
    p: &Params,
    c: &Common,
    delay: Dur,
    flows: &[(Visit, Dur)],
    id: RunId,
) -> Result<Setup, ParamError> {
    let c = with_interval(p, c)?;
    let buffer = p.is_set("buffer").then_some((p, "buffer"));
    let bottleneck = c.link(p.rate("capacity"), delay, buffer)?;
    let access: Vec<LinkSpec> = flows.iter().map(|(_, d)| outer(p.rate("access_rate"), *d)).collect();
    let (topology, hosts, port) = dumbbell(flows.len() as u32, &access, &bottleneck);
    let list = flows
        .iter()
        .zip(&hosts)
        .map(|((visit, _), (src, dst))| (visit.start, visit.stop, endless(*src, *dst)))
        .collect();
    let base = flows.iter().map(|(v, _)| v.rtt).min().unwrap_or(delay * 2);
    Ok(c.setup(topology, vec![leaving_flows(list)], port, base, id))
}

/// An outer link: never the bottleneck, no limit.
pub(super) fn outer(rate: Rate, delay: Dur) -> LinkSpec {
    LinkSpec { rate, delay, buffer: None, queue: drop_tail() }
}

/// A flow without end.
pub(super) fn endless(src: u32, dst: u32) -> FlowRequest {
    FlowRequest { src, dst, protocol: 0, class: 0, bytes: u64::MAX, close: false, due: Time::NEVER, tag: 0 }
}
