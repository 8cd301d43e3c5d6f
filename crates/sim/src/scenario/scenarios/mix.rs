//! Short flows beside long ones.
use super::prelude::*;

use crate::defaults::start_spread;
use crate::summary_keys::{ARRIVALS_PER_S, OFFERED_LOAD, SIZE_MEAN_BYTES};
use crate::topologies::parse_topology;
use crate::topology::{four_switch_tree, star};
use crate::workloads::closed::{closed, Loop};
use crate::workloads::flows::flow_list;
use crate::workloads::open::{check_arrivals, poisson, Rate};
use crate::workloads::sizes::{Sizes, FILE_PARAMS};
use crate::workloads::Pairs;
use penstock_core::params::parse_number;

/// Mix.
pub const MIX: Scenario = Scenario {
    name: "mix",
    text: "short flows of random size share the network with long flows",
    source: "munir-sdc-racs sections 3.5.2 (mix) and 3.5.3 (benchmark traffic)",
    params: &[
        param!("long_flows": Count = "2" in [0.0, 10_000.0], "endless flows in the background", "section 3.5.2"),
        param!("sizes": Sizes = "uniform:2KB:50KB",
            "sizes of short flows: fixed:SIZE, uniform:MIN:MAX, exponential:MEAN, pareto:SHAPE:MEAN, websearch, fb-hadoop, cdf:FILE",
            "section 3.5.2; section 3.5.3 has pareto:1.2:25KB"),
        FILE_PARAMS[0],
        FILE_PARAMS[1],
        param!("arrivals": Text = "closed",
            "closed: each source sends flow after flow; poisson:RATE in flows/s; load:SHARE of the receiving links, headers included",
            "section 3.5.2; section 3.5.3 has Poisson arrivals of 100 to 2000 flows/s"),
        param!("sources": Count = "1" in [1.0, 10_000.0], "hosts that send short flows", "section 3.5.2"),
        param!("think": Duration = "0s" in [0.0, 1e4], "pause of a source between two flows (closed)", "chosen"),
        param!("short_flows": Count = "" in [1.0, 1e9], "number of short flows; unset = until duration", ""),
        param!("deadline": Duration = "" in [1e-6, 1e4], "deadline of a short flow, from its begin; unset = no deadline", ""),
        param!("topology": Text = "rack",
            "rack: one switch and one receiver; tree: four switches, senders in racks A and B, receiver in C; fat-tree:K, leaf-spine:LxSxH and the \
             others of permutation: between random hosts",
            "section 3.5.2: four hosts at S3; Fig 3.6"),
        param!("link_rate": Rate = "1Gbps" in [1e3, 1e13], "rate of every link", "section 3.5"),
        param!("link_delay": Duration = "75us" in [0.0, 1.0],
            "propagation delay of every link; in a rack the round trip is four of them", "section 3.5: 300 us"),
        param!("buffer": Buffer = "100pkt" in [1.0, 1e12], "buffer of a switch port", "section 3.5"),
        param!("start_spread": Duration = "" in [0.0, 1e3],
            "long flows and the sources of a closed loop start at U(0, this); unset = 10/3 of four link_delay",
            "chosen: no two start together; 1 ms at 75 us"),
    ],
    defaults: &[&[
        ("warmup", "1s", "chosen: the long flows have settled"),
        ("rto_min", "10ms", "munir-sdc-racs section 3.5.2"),
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

/// Who is where in the network.
struct Place {
    topology: Topology,
    /// Port that is reported.
    bottleneck: u32,
    /// Shortest round trip, in links.
    links: u64,
    /// Sender and receiver of each long flow.
    long: Vec<(u32, u32)>,
    /// The host of each source of short flows, and what it may do.
    short: Vec<(u32, Pairs)>,
    /// All of them together, for open loops.
    any: Pairs,
    /// Links on which short flows end.
    receiving: u64,
}

fn place(p: &Params, link: &LinkSpec, rng: &mut Stream) -> Result<Place, ParamError> {
    let text = p.text("topology");
    let long = p.count("long_flows") as usize;
    if text != "rack" && text != "tree" {
        let topology = parse_topology("topology", text, link).map_err(|e| match e.rule.as_str() {
            rule if rule.starts_with("must be one of") => {
                p.error("topology", format!("{rule}, or rack, tree"))
            }
            _ => e,
        })?;
        let mut hosts = topology.hosts();
        let to: std::sync::Arc<[u32]> = hosts.clone().into();
        let any = Pairs::new(hosts.clone(), to.clone()).expect("two hosts at least");
        let bottleneck = topology.links.iter().position(|l| l.to == hosts[0]).expect("hosts are connected");
        let short = hosts
            .iter()
            .map(|h| (*h, Pairs::new(vec![*h], to.clone()).expect("two hosts at least")))
            .collect();
        let receiving = hosts.len() as u64;
        rng.shuffle(&mut hosts);
        let n = hosts.len();
        let long = (0..long).map(|i| (hosts[i % n], hosts[(i + 1) % n])).collect();
        return Ok(Place { topology, bottleneck: bottleneck as u32, links: 4, long, short, any, receiving });
    }
    let sources = p.count("sources") as usize;
    let senders = (long + sources) as u32;
    let (topology, hosts, receiver, bottleneck, links) = if text == "rack" {
        let (t, hosts, client) = star(senders, link);
        let port = t.link_between(t.find("switch").expect("a star has one"), client);
        (t, hosts, client, port, 4)
    } else {
        let (t, [a, b, c], s) = four_switch_tree(&[senders.div_ceil(2), senders / 2, 1], link);
        // Senders alternate between the racks.
        let hosts = (0..senders as usize).map(|i| if i % 2 == 0 { a[i / 2] } else { b[i / 2] }).collect();
        let port = t.link_between(s[3], s[2]);
        (t, hosts, c[0], port, 8)
    };
    let pairs = |from: &[u32]| Pairs::new(from.to_vec(), vec![receiver]).expect("nobody sends to itself");
    Ok(Place {
        topology,
        bottleneck: bottleneck.expect("the switches are connected"),
        links,
        long: hosts[..long].iter().map(|h| (*h, receiver)).collect(),
        short: hosts[long..].iter().map(|h| (*h, pairs(&[*h]))).collect(),
        any: pairs(&hosts[long..]),
        receiving: 1,
    })
}

/// Arrivals of short flows.
enum Arrivals {
    Closed,
    /// Flows per second.
    Poisson(f64),
    /// Share of the receiving links' capacity.
    Load(f64),
}

fn arrivals(p: &Params) -> Result<Arrivals, ParamError> {
    let text = p.text("arrivals");
    let number = |x: &str, units: &[(&str, f64)], what: &str, max: f64| match parse_number(x, units) {
        Some(x) if x > 0.0 && x <= max => Ok(x),
        _ => Err(p.error("arrivals", format!("{what} must be above 0 and at most {max}"))),
    };
    match text.split_once(':').map_or((text, ""), |(a, b)| (a.trim(), b.trim())) {
        ("closed", "") => Ok(Arrivals::Closed),
        ("poisson", x) => number(x, &[("", 1.0), ("/s", 1.0)], "poisson:RATE in flows per second", 1e9)
            .map(Arrivals::Poisson),
        ("load", x) => number(x, &[("", 1.0), ("%", 0.01)], "load:SHARE", 10.0).map(Arrivals::Load),
        _ => Err(p.error("arrivals", "must be closed, poisson:RATE or load:SHARE")),
    }
}

fn build(p: &Params, c: &Common, id: RunId) -> Result<Setup, ParamError> {
    let link = c.link(p.rate("link_rate"), p.dur("link_delay"), Some((p, "buffer")))?;
    let sizes = Sizes::parse(p, "sizes", &c.folder)?;
    let mut rng = Stream::new(id.seed, id.run, Entity::Workload, 0);
    let place = place(p, &link, &mut rng)?;
    let long = place
        .long
        .iter()
        .map(|(src, dst)| {
            let start = Time::ZERO + rng.dur_below(p.dur("start_spread"));
            (start, FlowRequest::new(*src, *dst, u64::MAX))
        })
        .collect();
    let deadline = p.is_set("deadline").then(|| p.dur("deadline"));
    let count = if p.is_set("short_flows") { p.count("short_flows") } else { u64::MAX };
    let template = FlowRequest::new(0, 0, 0);
    let mean = sizes.mean();
    let mut facts = vec![(&SIZE_MEAN_BYTES, mean)];
    // Every segment carries a header; the mean number of segments is that of the mean size.
    let wire = c.on_wire(mean);
    let capacity = p.rate("link_rate").as_bps() * place.receiving as f64;
    let mut notes = None;
    let short = match arrivals(p)? {
        Arrivals::Closed => {
            let plan = Loop {
                travel: requests_travel(p),
                start: Time::ZERO,
                spread: p.dur("start_spread"),
                think: p.dur("think"),
                deadline,
                count,
            };
            closed(template, place.short, sizes, plan, (id.seed, id.run, 1))
        }
        open => {
            let rate = match open {
                Arrivals::Load(share) => {
                    notes = c.headers_note(&format!("arrivals = {}", p.text("arrivals")), share, &sizes);
                    share * capacity / (8.0 * wire)
                }
                Arrivals::Poisson(rate) => rate,
                Arrivals::Closed => unreachable!("handled above"),
            };
            check_arrivals(rate, c.duration, Dur::ZERO, count).map_err(|rule| p.error("arrivals", rule))?;
            facts.push((&ARRIVALS_PER_S, rate));
            facts.push((&OFFERED_LOAD, rate * 8.0 * wire / capacity));
            let rng = Stream::new(id.seed, id.run, Entity::Workload, 1);
            let rate = Rate { per_second: rate, start: Time::ZERO, deadline, count };
            poisson(template, place.any, sizes, rate, rng)
        }
    };
    let workloads = vec![flow_list(long), short];
    let base_rtt = p.dur("link_delay") * place.links;
    let mut setup = c.setup(place.topology, workloads, place.bottleneck, base_rtt, id);
    setup.recorder.facts = facts;
    setup.notes.extend(notes);
    Ok(setup)
}
