//! A permutation: every host of a data-centre network sends to one other host.
use super::prelude::*;

use crate::bottleneck::Bottleneck;
use crate::defaults::packet;
use crate::scenario::profiles::FABRIC_DELAY as FABRIC;
use crate::topologies::{Named, FABRIC_DELAY, FABRIC_RATE, OVERSUBSCRIPTION};
use crate::workloads::flows::{cycle, flow_list};

/// Permutation.
pub const PERMUTATION: Scenario = Scenario {
    name: "permutation",
    text: "every host sends to one other host, drawn at random, over equal-cost paths",
    source: "Raiciu et al., SIGCOMM 2011; htsim's standard case",
    params: &[
        param!("topology": Text = "fat-tree:8",
            "fat-tree:K, leaf-spine:LEAVESxSPINESxHOSTS (hosts per leaf), rail:SERVERSxNICSxSPINES or dragonfly:P,A,H", "128 hosts"),
        param!("link_rate": Rate = "100Gbps" in [1e3, 1e13], "rate of every link, or of the hosts' where the others differ", "htsim"),
        FABRIC_RATE,
        OVERSUBSCRIPTION,
        FABRIC_DELAY,
        param!("link_delay": Duration = "1us" in [0.0, 1.0], "propagation delay of every link", "htsim"),
        param!("buffer": Buffer = "100pkt" in [1.0, 1e12], "buffer of a switch port", "chosen"),
        param!("mtu": Size = "4160B" in [41.0, 65_040.0],
            "wire length of a full packet, headers included", "4 KiB of payload and headers of 64 B at most"),
        param!("flow_size": Size = "" in [1.0, 1e15], "bytes of each flow; unset = endless", ""),
    ],
    defaults: &[&[
        ("protocol", "dctcp", "htsim's standard case"),
        ("queue", "threshold:k=15pkt", "htsim's standard case"),
        ("duration", "", "chosen: 2 ms, or 100 of the longest round trip where that is more"),
        ("rto_min", "", "chosen: 1 ms, or 50 of the longest round trip where that is more"),
        ("rto_initial", "", "chosen: as rto_min, so that a flow whose SYN is lost takes part"),
        ("host_queue", "2pkt", "about Linux's TCP small queues: hosts do not queue whole windows"),
    ]],
    profiles: &[
        paper("htsim's standard case: 100 Gb/s, MTU 4160, DCTCP"),
        leaf_25g(&[LINUX, MTU_1500, RATE_25G, DELAY, FABRIC, BUFFER_25G, MARKS_25G]),
        leaf_100g(&[LINUX, MTU_9000, RATE_100G, DELAY, FABRIC, BUFFER_100G, MARKS_100G]),
    ],
    derive,
    build,
};

fn derive(p: &mut Params) {
    let named = Named::parse("topology", p.text("topology"));
    let links = named.as_ref().map_or(6.0, |n| f64::from(n.family.longest));
    // What is wrong with the keys is said when the network is built.
    let fabric = named.and_then(|n| n.fabric_rate(p)).unwrap_or(f64::INFINITY);
    let own = p.float("link_delay");
    let delay = if p.is_set("fabric_delay") { own.max(p.float("fabric_delay")) } else { own };
    let rtt = links * (2.0 * delay + packet(p) * 8.0 / p.float("link_rate").min(fabric));
    p.derive(
        "duration",
        (100.0 * rtt).max(2e-3),
        "2 ms, or 100 of the longest round trip where that is more",
    );
    let floor = (50.0 * rtt).max(1e-3);
    p.derive("rto_min", floor, "1 ms, or 50 of the longest round trip where that is more");
    let floor = p.float("rto_min");
    p.derive("rto_initial", floor, "as rto_min");
}

fn build(p: &Params, c: &Common, id: RunId) -> Result<Setup, ParamError> {
    let named = Named::parse("topology", p.text("topology"))?;
    let topology = named.build(&named.tiers(p, c)?)?;
    let hosts = topology.hosts();
    let mut rng = Stream::new(id.seed, id.run, Entity::Workload, 0);
    let mut flows: Vec<(Time, FlowRequest)> = Vec::with_capacity(hosts.len());
    let bytes = if p.is_set("flow_size") { p.bytes("flow_size").0 } else { u64::MAX };
    for (src, dst) in cycle(&hosts, &mut rng) {
        let request = FlowRequest {
            src,
            dst,
            protocol: 0,
            class: 0,
            bytes,
            close: bytes != u64::MAX,
            due: Time::NEVER,
            tag: 0,
        };
        flows.push((Time::ZERO + rng.dur_below(p.dur("link_delay")), request));
    }
    // Until the run shows where the queue is, the port towards the first host stands for all.
    let first = hosts[0];
    let candidate = topology.links.iter().position(|l| l.to == first).expect("hosts are connected") as u32;
    let bottleneck = Bottleneck::Busiest { candidate };
    let base_rtt = p.dur("link_delay") * 4;
    Ok(c.setup(topology, vec![flow_list(flows)], bottleneck, base_rtt, id))
}
