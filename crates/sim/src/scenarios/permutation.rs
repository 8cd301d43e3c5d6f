//! A permutation: every host of a data-centre network sends to one other host.

use crate::defaults::packet;
use crate::engine::Setup;
use crate::results::Bottleneck;
use crate::scenario::{Common, RunId, Scenario};
use crate::topology::{fat_tree, leaf_spine, LinkSpec, Topology};
use crate::workloads::flows::FlowList;
use crate::workloads::FlowRequest;
use penstock_core::rng::Entity;
use penstock_core::{Kind, ParamError, ParamSpec, Params, Stream};
use penstock_units::Time;

/// Permutation.
pub const PERMUTATION: Scenario = Scenario {
    name: "permutation",
    text: "every host sends to one other host, drawn at random, over equal-cost paths",
    source: "Raiciu et al., SIGCOMM 2011; htsim's standard case",
    params: &[
        ParamSpec::new(
            "topology",
            Kind::Text,
            "fat-tree:8",
            "fat-tree:K or leaf-spine:LEAVESxSPINESxHOSTS (hosts per leaf)",
            "128 hosts",
        ),
        ParamSpec::new("link_rate", Kind::Rate, "100Gbps", "rate of every link", "htsim").range(1e3, 1e13),
        ParamSpec::new("link_delay", Kind::Duration, "1us", "propagation delay of every link", "htsim")
            .range(0.0, 1.0),
        ParamSpec::new("buffer", Kind::Amount, "100pkt", "buffer of a switch port", "chosen")
            .range(1.0, 1e12),
        ParamSpec::new(
            "mtu",
            Kind::Size,
            "4160B",
            "wire length of a full packet, headers included",
            "4 KiB of payload and headers of 64 B at most",
        )
        .range(41.0, 65_040.0),
        ParamSpec::new("flow_size", Kind::Size, "", "bytes of each flow; unset = endless", "")
            .range(1.0, 1e15),
    ],
    defaults: &[
        ("protocol", "dctcp", "htsim's standard case"),
        ("queue", "threshold:k=15pkt", "htsim's standard case"),
        ("duration", "", "chosen: 2 ms, or 100 of the longest round trip where that is more"),
        ("rto_min", "", "chosen: 1 ms, or 50 of the longest round trip where that is more"),
        ("rto_initial", "", "chosen: as rto_min, so that a flow whose SYN is lost takes part"),
        ("host_queue", "2pkt", "about Linux's TCP small queues: hosts do not queue whole windows"),
    ],
    profiles: &[],
    derive,
    build,
};

fn derive(p: &mut Params) {
    // A fat tree has six links between distant hosts, a leaf-spine network four.
    let links = if p.text("topology").starts_with("leaf-spine") { 4.0 } else { 6.0 };
    let rtt = links * (2.0 * p.float("link_delay") + packet(p) * 8.0 / p.float("link_rate"));
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

/// A network by name: `fat-tree:8`, `leaf-spine:4x4x8`.
///
/// # Errors
/// An unknown name or impossible sizes, naming `key`.
pub fn parse_topology(key: &str, text: &str, link: &LinkSpec) -> Result<Topology, ParamError> {
    let (name, args) = text.split_once(':').unwrap_or((text, ""));
    let numbers: Option<Vec<u32>> = args.split('x').map(|a| a.trim().parse().ok()).collect();
    let bad = |rule: &str| Err(ParamError::new(key, text, rule));
    match (name, numbers.as_deref()) {
        ("fat-tree", Some([k])) => {
            if *k < 2 || k % 2 != 0 || *k > 64 {
                return bad("fat-tree:K needs an even K of 2 to 64");
            }
            Ok(fat_tree(*k, link))
        }
        ("leaf-spine", Some([leaves, spines, hosts])) => {
            if *leaves == 0
                || *spines == 0
                || *hosts == 0
                || u64::from(*leaves) * (u64::from(*hosts) + u64::from(*spines)) > 200_000
            {
                return bad("leaf-spine:LEAVESxSPINESxHOSTS needs positive numbers and at most 200000 links");
            }
            Ok(leaf_spine(*leaves, *spines, *hosts, link, link))
        }
        _ => bad("must be fat-tree:K or leaf-spine:LEAVESxSPINESxHOSTS"),
    }
}

fn build(p: &Params, c: &Common, id: RunId) -> Result<Setup, ParamError> {
    let link = c.link(p.rate("link_rate"), p.dur("link_delay"), Some((p, "buffer")))?;
    let topology = parse_topology("topology", p.text("topology"), &link)?;
    let hosts = topology.hosts();
    if hosts.len() < 2 {
        return Err(p.error("topology", "must have at least two hosts"));
    }
    let mut rng = Stream::new(id.seed, id.run, Entity::Workload, 0);
    // A random cyclic order: nobody sends to itself, everybody sends and receives once.
    let mut order: Vec<usize> = (0..hosts.len()).collect();
    rng.shuffle(&mut order);
    let mut flows: Vec<(Time, FlowRequest)> = Vec::with_capacity(hosts.len());
    let bytes = if p.is_set("flow_size") { p.bytes("flow_size").0 } else { u64::MAX };
    for (i, from) in order.iter().enumerate() {
        let to = order[(i + 1) % order.len()];
        let request = FlowRequest {
            src: hosts[*from],
            dst: hosts[to],
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
    Ok(c.setup(topology, vec![Box::new(FlowList::new(flows))], bottleneck, base_rtt, id))
}
