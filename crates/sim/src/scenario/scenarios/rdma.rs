//! Storage and compute traffic on a lossless fabric: flows of random size between hosts drawn at random, and incasts now and then.
use super::prelude::*;

use crate::bottleneck::Bottleneck;
use crate::defaults::packet;
use crate::fabric_options::{usual_memory, Shared};
use crate::summary_keys::{ARRIVALS_PER_S, OFFERED_LOAD, SIZE_MEAN_BYTES};
use crate::topologies::{Named, FABRIC_DELAY, FABRIC_RATE, OVERSUBSCRIPTION};
use crate::workloads::incast::{incasts_among, Plan, Times};
use crate::workloads::open::{check_arrivals, poisson, Rate};
use crate::workloads::sizes::{Sizes, FILE_PARAMS};
use crate::workloads::Pairs;

/// RDMA.
pub const RDMA: Scenario = Scenario {
    name: "rdma",
    text: "flows of random size between random hosts of a data-centre network, and an incast now and then",
    source: "Li et al., HPCC, SIGCOMM 2019, section 5.1, and its public scripts",
    params: &[
        param!("topology": Text = "leaf-spine:4x2x8",
            "fat-tree:K, leaf-spine:LEAVESxSPINESxHOSTS (hosts per leaf), star:HOSTS, clos:PODSxEDGESxAGGSxCORESxHOSTS and the others of \
             permutation",
            "32 hosts; the paper's network of 320 is clos:5x4x4x4x16"),
        param!("link_rate": Rate = "100Gbps" in [1e3, 1e13], "rate of the hosts' links", "section 5.1"),
        ParamSpec {
            text: "rate of the links between switches; unset = by oversubscription",
            ..FABRIC_RATE
        },
        OVERSUBSCRIPTION,
        FABRIC_DELAY,
        param!("link_delay": Duration = "1us" in [0.0, 1.0], "propagation delay of every link", "section 5.1"),
        param!("buffer": Buffer = "" in [1.0, 1e12],
            "shared memory of a switch (shared:alpha=A,size=S) or buffer of each port; unset = shared, 9.4 KB per Gb/s of its ports plus headroom",
            "12 MB for 32 ports of 40 Gb/s: DCQCN, section 4"),
        param!("load": Float = "0.5" in [0.0, 10.0],
            "load offered by the flows, as a share of the hosts' links; counts `header` bytes per packet for every protocol",
            "section 5.3: 30 and 50 %"),
        param!("sizes": Sizes = "websearch",
            "sizes of flows: websearch, fb-hadoop, cdf:FILE, fixed:SIZE, uniform:MIN:MAX, exponential:MEAN, pareto:SHAPE:MEAN",
            "section 5.1: WebSearch and FB_Hadoop"),
        FILE_PARAMS[0],
        FILE_PARAMS[1],
        param!("flows": Count = "" in [1.0, 1e9], "flows in all, incasts not counted; unset = until duration", ""),
        param!("incast_servers": Count = "" in [0.0, 1e5],
            "senders of an incast; 0 = no incasts; unset = the smaller of 60 and half of the hosts", "section 5.3: 60 to 1"),
        param!("incast_size": Size = "500KB" in [1.0, 1e12], "bytes of each of them", "section 5.3"),
        param!("incast_load": Float = "0.02" in [0.0, 10.0],
            "load offered by incasts, as a share of the hosts' links, in addition to load", "section 5.3: 2 % of the network's capacity"),
        param!("incast_every": Duration = "" in [1e-9, 1e4], "time from one incast to the next; unset = by incast_load", ""),
        param!("incast_jitter": Duration = "0s" in [0.0, 1.0], "senders of an incast begin at U(0, this), independently", "chosen: all at once"),
    ],
    defaults: &[&[
        ("protocol", "hpcc", "the paper's"),
        ("segment", "1000B", "the public scripts: PACKET_PAYLOAD_SIZE"),
        ("duration", "", "chosen: the time of 125 MB on a host's link, or 100 of the longest round trip where that is more"),
        ("rto_min", "", "for TCP: 1 ms, or 50 of the longest round trip where that is more"),
        ("rto_initial", "", "for TCP: as rto_min, so that a flow whose SYN is lost takes part"),
    ]],
    profiles: &[
        paper("the paper's setting: 100 Gb/s, segments of 1 KB, HPCC"),
        leaf_25g(&[LINUX, SEGMENTS_25G, RATE_25G]),
        leaf_100g(&[LINUX, SEGMENTS_100G, RATE_100G]),
    ],
    derive,
    build,
};

// An RDMA path has an MTU of a power of two.
const SEGMENTS_25G: &[Default] = &[
    ("segment", "1024B", "the path MTU of RoCE in frames of 1500 B"),
    ("gso", "45", "as for other scenarios, where TCP runs"),
];
const SEGMENTS_100G: &[Default] = &[
    ("segment", "4096B", "the path MTU of RoCE in frames of 9000 B"),
    ("gso", "15", "Linux: 64 KiB leave at once, where TCP runs"),
];

/// The longest round trip without queues, seconds: propagation, and a full packet's time on every link of the way there.
fn longest_rtt(p: &Params, links: f64, fabric: f64) -> f64 {
    let (own, host) = (p.float("link_delay"), p.float("link_rate"));
    let between = if p.is_set("fabric_delay") { p.float("fabric_delay") } else { own };
    let bits = packet(p) * 8.0;
    2.0 * (2.0 * own + (links - 2.0) * between) + bits * (2.0 / host + (links - 2.0) / fabric)
}

fn derive(p: &mut Params) {
    let host = p.float("link_rate");
    // What is wrong with the keys is said when the network is built.
    let named = Named::parse("topology", p.text("topology")).ok();
    let links = named.as_ref().map_or(6.0, |n| f64::from(n.family.longest));
    if !p.is_set("oversubscription") {
        if let Some(even) = named.as_ref().and_then(|n| n.even_fabric_rate(host)) {
            p.derive("fabric_rate", even, "switches have as much towards switches as towards their hosts");
        }
    }
    let fabric = named.and_then(|n| n.fabric_rate(p).ok()).unwrap_or(f64::INFINITY);
    let rtt = longest_rtt(p, links, fabric);
    p.derive(
        "duration",
        (100.0 * rtt).max(1e9 / host),
        "the time of 125 MB on a host's link, or 100 of the longest round trip",
    );
    let floor = (50.0 * rtt).max(1e-3);
    p.derive("rto_min", floor, "1 ms, or 50 of the longest round trip where that is more");
    let floor = p.float("rto_min");
    p.derive("rto_initial", floor, "as rto_min");
}

/// Senders of an incast among so many hosts.
fn incast_servers(p: &Params, hosts: usize) -> Result<usize, ParamError> {
    if !p.is_set("incast_servers") {
        return Ok(60.min(hosts / 2));
    }
    let asked = p.count("incast_servers") as usize;
    if asked < hosts {
        return Ok(asked);
    }
    Err(p.error("incast_servers", format!("must be at most {}: the network has {hosts} hosts", hosts - 1)))
}

/// Incasts, and what they offer as a share of `capacity` in bit/s; `None` = there are none.
fn incasts(
    p: &Params,
    c: &Common,
    id: RunId,
    hosts: &[u32],
    capacity: f64,
) -> Result<Option<(Workload, f64, Dur)>, ParamError> {
    let servers = incast_servers(p, hosts.len())?;
    let bits = 8.0 * servers as f64 * c.on_wire(p.float("incast_size"));
    let (key, every) = if p.is_set("incast_every") {
        ("incast_every", p.dur("incast_every"))
    } else if p.float("incast_load") > 0.0 {
        ("incast_load", Dur::from_secs(bits / capacity / p.float("incast_load")).max(Dur(1)))
    } else {
        return Ok(None);
    };
    if servers == 0 {
        ["incast_size", "incast_load", "incast_jitter", "incast_every"]
            .iter()
            .for_each(|key| p.no_effect(key));
        return Ok(None);
    }
    if p.is_set("incast_every") {
        p.no_effect("incast_load");
    }
    check_arrivals(servers as f64 / every.as_secs(), c.duration, Dur::ZERO, u64::MAX)
        .map_err(|rule| p.error(key, rule))?;
    let plan = Plan {
        // The first comes when the flows are under way.
        start: Time::ZERO + Dur(every.0 / 2),
        times: Times::Every(every),
        servers,
        count: u64::MAX,
        jitter: p.dur("incast_jitter"),
        deadline: None,
    };
    let size = p.bytes("incast_size").0;
    let responses = hosts.iter().map(|host| FlowRequest::new(*host, *host, size)).collect();
    let rng = Stream::new(id.seed, id.run, Entity::Workload, 2);
    Ok(Some((incasts_among(responses, plan, rng), bits / every.as_secs() / capacity, every)))
}

fn build(p: &Params, c: &Common, id: RunId) -> Result<Setup, ParamError> {
    let named = Named::parse("topology", p.text("topology"))?;
    let topology = named.build(&named.tiers(p, c)?)?;
    let hosts = topology.hosts();
    let sizes = Sizes::parse(p, "sizes", &c.folder)?;
    let mean = sizes.mean();
    let capacity = p.rate("link_rate").as_bps() * hosts.len() as f64;
    let mut workloads: Vec<Workload> = Vec::new();
    let mut facts = vec![(&SIZE_MEAN_BYTES, mean)];
    let per_second = p.float("load") * capacity / (8.0 * c.on_wire(mean));
    let note = c.headers_note(&format!("load = {}", p.text("load")), p.float("load"), &sizes);
    if per_second > 0.0 {
        let count = if p.is_set("flows") { p.count("flows") } else { u64::MAX };
        check_arrivals(per_second, c.duration, Dur::ZERO, count).map_err(|rule| p.error("load", rule))?;
        let pairs = Pairs::new(hosts.clone(), hosts.clone()).expect("two hosts at least");
        let rate = Rate { per_second, start: Time::ZERO, deadline: None, count };
        let rng = Stream::new(id.seed, id.run, Entity::Workload, 1);
        workloads.push(poisson(FlowRequest::new(0, 0, 0), pairs, sizes, rate, rng));
    }
    let incasts = incasts(p, c, id, &hosts, capacity)?;
    let of_incasts = incasts.as_ref().map_or(0.0, |(_, offered, _)| *offered);
    facts.push((&ARRIVALS_PER_S, per_second));
    facts.push((&OFFERED_LOAD, p.float("load") + of_incasts));
    let mut derived = Vec::new();
    if let Some((incast, _, every)) = incasts {
        if !p.is_set("incast_servers") {
            derived.push(("incast_servers", incast_servers(p, hosts.len())?.to_string()));
        }
        if !p.is_set("incast_every") {
            derived.push(("incast_every", format!("{every}: incasts are incast_load of the hosts' links")));
        }
        workloads.push(incast);
    }
    bail_if!(workloads.is_empty(), p.error("load", "must be above 0 where there are no incasts"));
    // Until the run shows where the queue is, the port towards the first host stands for all.
    let first = hosts[0];
    let candidate = topology.links.iter().position(|l| l.to == first).expect("hosts are connected") as u32;
    // Of the hosts that are farthest apart: it is T of HPCC, which must not be below any flow's round trip (section 3.2).
    let between = if p.is_set("fabric_delay") { p.dur("fabric_delay") } else { p.dur("link_delay") };
    let inner = u64::from(named.family.longest) - 2;
    let base_rtt = p.dur("link_delay") * 4 + between * (2 * inner);
    let mut setup = c.setup(topology, workloads, Bottleneck::Busiest { candidate }, base_rtt, id);
    setup.recorder.facts = facts;
    setup.notes.extend(note);
    setup.derived.extend(derived);
    let lossless = |l| setup.needs().any(|(_, needs)| needs(&setup.facts(l)).lossless.is_some());
    let pauses =
        (!p.is_given("pfc") || setup.fabric.pfc_keys.is_some()) && lossless(&setup.topology.links[0]);
    if !p.is_set("buffer") && setup.fabric.shared.is_none() && !pauses {
        // Where pause frames are needed, what the protocol needs has the same memory and headroom beside it.
        let size = usual_memory(&setup);
        setup.fabric.shared = Some(Shared { alpha: 1.0, size });
        setup.derived.push(("buffer", format!("shared:alpha=1,size={size}B")));
    }
    Ok(setup)
}
