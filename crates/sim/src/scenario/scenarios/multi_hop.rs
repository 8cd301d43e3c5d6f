//! Four long flows over two racks: several bottlenecks at once.
use super::prelude::*;

use crate::defaults::start_spread;
use crate::fabric_options::LinkOptions;
use crate::topology::{four_switch_tree, Link, NodeKind};
use crate::workloads::flows::flow_list;

/// Multi-hop.
pub const MULTI_HOP: Scenario = Scenario {
    name: "multi-hop",
    text: "four endless flows, 1->2, 2->3, 4->3 and 4->5, over the switches S1, S4 and S2 of a tree",
    source: "munir-sdc-racs section 3.5.1, Fig 3.6",
    params: &[
        param!("link_rate": Rate = "1Gbps" in [1e3, 1e13], "rate of every link", "munir-sdc-racs section 3.5"),
        param!("link_delay": Duration = "75us" in [0.0, 1.0],
            "propagation delay of every link; under one switch the round trip is four of them", "munir-sdc-racs section 3.5: 300 us"),
        param!("core_delay": Duration = "" in [0.0, 1.0],
            "propagation delay of the links between switches; unset = link_delay", "0s gives all flows the same round-trip time"),
        param!("buffer": Buffer = "100pkt" in [1.0, 1e12], "buffer of a port", "munir-sdc-racs section 3.5"),
        param!("fabric": Choice(&["links", "shared"]) = "links",
            "what limits a switch: its links, or one channel of link_rate that all its traffic shares",
            "reading of the stated shares, see the row M-hop"),
        param!("start_spread": Duration = "" in [0.0, 1e3],
            "flows start at U(0, this); unset = 10/3 of four link_delay", "chosen: no two start together; 1 ms at 75 us"),
    ],
    defaults: &[&[
        ("warmup", "1s", "chosen: transients are over"),
        ("duration", "4s", "chosen"),
        ("rto_min", "10ms", "munir-sdc-racs section 3.5.2"),
        ("rto_initial", "3s", "ns-2"),
        ("initial_window", "2", "ns-2"),
    ]],
    profiles: &[
        paper("the thesis's setting: 1 Gb/s, RTT 300 us, NewReno"),
        leaf_25g(&[LINUX, CUBIC, FRAMES_1500, RATE_25G, DELAY, BUFFER_25G, OWN]),
        leaf_100g(&[LINUX, CUBIC, FRAMES_9000, RATE_100G, DELAY, BUFFER_100G, OWN]),
    ],
    derive: |p| start_spread(p, 4.0 * p.float("link_delay")),
    build,
};

const OWN: &[Default] = &[("duration", "3s", "chosen: 10 timeouts after the warm-up")];

/// Source and destination of the four flows, hosts counted from 0.
const FLOWS: [(usize, usize); 4] = [(0, 1), (1, 2), (3, 2), (3, 4)];

fn build(p: &Params, c: &Common, id: RunId) -> Result<Setup, ParamError> {
    let spec = c.link(p.rate("link_rate"), p.dur("link_delay"), Some((p, "buffer")))?;
    let (mut topology, hosts) = if p.text("fabric") == "shared" { shared(&spec) } else { links(&spec) };
    if p.is_set("core_delay") {
        let switch = |n: u32| topology.nodes[n as usize].kind == NodeKind::Switch;
        let core: Vec<usize> = (0..topology.links.len())
            .filter(|l| switch(topology.links[*l].from) && switch(topology.links[*l].to))
            .collect();
        for l in core {
            // A channel inside a switch has no length to begin with.
            let delay = &mut topology.links[l].delay;
            *delay = (*delay).min(p.dur("core_delay"));
        }
    }
    let mut rng = Stream::new(id.seed, id.run, Entity::Workload, 0);
    let flows = FLOWS
        .iter()
        .map(|(from, to)| {
            let request = FlowRequest {
                src: hosts[*from],
                dst: hosts[*to],
                protocol: 0,
                class: 0,
                bytes: u64::MAX,
                close: false,
                due: Time::NEVER,
                tag: 0,
            };
            (Time::ZERO + rng.dur_below(p.dur("start_spread")), request)
        })
        .collect();
    let s1 = topology.find("S1").or(topology.find("S1 in")).expect("the tree has S1");
    let to = topology.find("S1 out").unwrap_or(hosts[2]);
    let bottleneck = topology.link_between(s1, to).expect("host 3 is under S1");
    Ok(c.setup(topology, vec![flow_list(flows)], bottleneck, p.dur("link_delay") * 4, id))
}

/// The tree with full-duplex links. A host's own port has the queue, limit and controller of a switch's: two of the flows
/// leave host 4 together.
fn links(spec: &LinkSpec) -> (Topology, Vec<u32>) {
    let (mut t, groups, _) = four_switch_tree(&[3, 2, 1], spec);
    for l in &mut t.links {
        l.buffer = spec.buffer;
        l.queue = spec.queue.clone();
        l.controlled = true;
    }
    let hosts = groups.into_iter().flatten().collect();
    (t, hosts)
}

/// The same tree of switches that are one channel inside: everything that enters S1 leaves through one port of link rate.
fn shared(spec: &LinkSpec) -> (Topology, Vec<u32>) {
    let mut t = Topology::default();
    let line = |t: &mut Topology, from, to, delay| {
        let (rate, buffer, queue) = (spec.rate, spec.buffer, spec.queue.clone());
        t.add_link(Link {
            from,
            to,
            rate,
            delay,
            buffer,
            queue,
            loss: 0.0,
            controlled: true,
            options: LinkOptions::default(),
        });
    };
    let switches: Vec<(u32, u32)> = (1..=4)
        .map(|i| (t.add(format!("S{i} in"), NodeKind::Switch), t.add(format!("S{i} out"), NodeKind::Switch)))
        .collect();
    for (inside, outside) in &switches {
        line(&mut t, *inside, *outside, Dur::ZERO);
    }
    for leaf in 0..3 {
        line(&mut t, switches[leaf].1, switches[3].0, spec.delay);
        line(&mut t, switches[3].1, switches[leaf].0, spec.delay);
    }
    let hosts = [0, 0, 0, 1, 1]
        .into_iter()
        .enumerate()
        .map(|(i, leaf): (usize, usize)| {
            let h = t.host(format!("h{}", i + 1));
            line(&mut t, h, switches[leaf].0, spec.delay);
            line(&mut t, switches[leaf].1, h, spec.delay);
            h
        })
        .collect();
    (t, hosts)
}
