//! One cable by itself, which is a link and the one back: the senders of its flows in front, their receivers behind. And whole paths with one
//! flow at a time.

use super::alone::Alone;
use super::groups::{look, Cable};
use super::traffic::Traffic;
use crate::engine::{Engine, Progress, Step};
use crate::metrics::Recorder;
use crate::results::Bottleneck;
use crate::setup::Setup;
use crate::topology::{drop_tail, Link, NodeKind, Topology};
use crate::workloads::flows::FlowList;
use crate::workloads::FlowRequest;
use penstock_core::rng::Entity;
use penstock_core::{ParamError, Stream};
use penstock_units::{Bytes, Dur, Rate, Time};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

/// What the simulation of a cable leaves.
pub(super) struct Found {
    pub(super) samples: Vec<Sample>,
    pub(super) packet_hops: u64,
}

/// What one of its two links did to a flow.
pub(super) struct Sample {
    pub(super) flow: u32,
    pub(super) link: u32,
    /// Seconds it took longer than alone; infinite when it was not over at the end.
    pub(super) seconds: f64,
    /// It was over after the warm-up.
    pub(super) measured: bool,
}

/// A cable at which nothing waits is so many times as fast.
const FAST: u64 = 10;
/// Looks at the progress per simulation.
const LOOKS: u64 = 50;

/// A run of the scenario as it is built.
pub(super) type Fresh<'a> = dyn Fn() -> Result<Setup, ParamError> + Sync + 'a;

/// Simulates a cable with the flows of its two links: what goes one way stands in the way of the acknowledgements of the other. And once more
/// with a cable at which nothing waits: what flows wait for each other before it is no matter of this one, but of the links there.
pub(super) fn simulate(
    fresh: &Fresh<'_>,
    traffic: &Traffic,
    cable: Cable,
    most: Option<u64>,
    (usual, progress): (&Usual, &Progress),
) -> Result<Found, ParamError> {
    let warmup = Time::ZERO + fresh()?.warmup;
    let span = Span::of(traffic, cable, warmup, most);
    let (with, hops) = times(fresh, traffic, (cable, true), &span, (usual, progress))?;
    let (without, more) = times(fresh, traffic, (cable, false), &span, (usual, progress))?;
    let before: BTreeMap<(u32, u32), f64> =
        without.iter().map(|t| ((t.flow, t.link), t.seconds)).filter(|t| t.1.is_finite()).collect();
    // Those that begin later are there so that the last of these are not alone; what is not over when they end is not known.
    let known = |t: &Taken| traffic.flows[t.flow as usize].start < span.sampled;
    let with = with.into_iter().filter(|t| known(t) && (t.seconds.is_finite() || span.end == Time::NEVER));
    let samples = with.map(|t| {
        let before = before.get(&(t.flow, t.link)).copied().unwrap_or(0.0);
        Sample { flow: t.flow, link: t.link, seconds: t.seconds - before, measured: t.closed >= warmup }
    });
    Ok(Found { samples: samples.collect(), packet_hops: hops + more })
}

/// How long a cable is simulated.
struct Span {
    /// Flows that begin before this are samples.
    sampled: Time,
    /// Flows that begin before this are there; [`Time::NEVER`] = all of them.
    end: Time,
}

/// Flows that begin after the last sample, as a share of the samples: chosen.
const AFTER: f64 = 0.25;

impl Span {
    /// For `most` samples each way after the warm-up; all there are for `None`.
    fn of(traffic: &Traffic, cable: Cable, warmup: Time, most: Option<u64>) -> Span {
        let all = Span { sampled: Time::NEVER, end: Time::NEVER };
        let Some(most) = most else { return all };
        let starts = cable.links().flat_map(|l| traffic.crossing(l));
        let starts = starts.map(|f| traffic.flows[*f as usize].start).filter(|start| *start >= warmup);
        let mut starts: Vec<Time> = starts.collect();
        starts.sort_unstable();
        let samples = 2 * most as usize;
        match starts.get(samples + (samples as f64 * AFTER) as usize) {
            Some(end) => Span { sampled: starts[samples], end: *end },
            None => all,
        }
    }
}

/// How much longer than alone a flow took.
struct Taken {
    flow: u32,
    link: u32,
    /// Infinite when it was not over.
    seconds: f64,
    closed: Time,
}

/// Runs a cable, or what is around it only; with the packet-hops.
fn times(
    fresh: &Fresh<'_>,
    traffic: &Traffic,
    which: (Cable, bool),
    span: &Span,
    (usual, progress): (&Usual, &Progress),
) -> Result<(Vec<Taken>, u64), ParamError> {
    let mut setup = fresh()?;
    let Own { topology, mut flows } = build(&mut setup, traffic, which, span.end);
    if span.end != Time::NEVER {
        setup.duration = span.end.since(Time::ZERO);
    }
    if flows.is_empty() {
        progress.now_ps.fetch_add(100 / 2, Ordering::Relaxed);
        return Ok((Vec::new(), 0));
    }
    flows.sort_by_key(|f| f.start);
    let largest = traffic.flows.iter().map(|f| f.packets).max().unwrap_or(1);
    // Cables that look alike let a flow alone take as long: it is measured once.
    let port_to = |node: u32| topology.links.iter().find(|l| l.to == node).map(look).unwrap_or_default();
    let mut alone: BTreeMap<Class, Arc<Alone>> = BTreeMap::new();
    for Crossing { class, request, .. } in &flows {
        if alone.contains_key(class) {
            continue;
        }
        // Whoever comes first measures it, so the key has all that it depends on.
        let [there, back] = [0, 1].map(|port: usize| look(&topology.links[port]));
        let key = ([there, back, port_to(request.dst)], *class);
        let known = usual.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        let found = match known {
            Some(known) => known,
            None => {
                let ends = (request.src, request.dst, request.protocol);
                let own = class.1.iter().flatten();
                let cable = &topology.links[..2];
                let fastest = own.clone().map(|l| l.0).chain(cable.iter().map(|l| l.rate)).max();
                let round = own.fold(cable[0].delay + cable[1].delay, |sum, l| sum + l.1 + l.1);
                let way = (fastest.expect("a cable has a rate"), round);
                Arc::new(Alone::measure(fresh()?, topology.clone(), ends, way, largest)?)
            }
        };
        usual.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_insert_with(|| found.clone());
        alone.insert(*class, found);
    }
    setup.topology = topology;
    let list = flows.iter().map(|f| (f.start, f.request.clone())).collect();
    setup.workloads = vec![Box::new(FlowList::new(list))];
    let duration = setup.duration;
    let mut engine = Engine::new(setup)?;
    let own = Progress::default();
    for look in 1..=LOOKS {
        let step = engine.step(Time(duration.0 / LOOKS * look), &own)?;
        // A hundredth of this cable's share.
        progress.now_ps.fetch_add(100 / 2 / LOOKS, Ordering::Relaxed);
        if step != Step::More || progress.cancelled.load(Ordering::Relaxed) {
            break;
        }
    }
    engine.step(if progress.cancelled.load(Ordering::Relaxed) { Time::ZERO } else { Time::NEVER }, &own)?;
    engine.end(true)?;
    let taken = engine.recorder.flows.iter().map(|r| {
        let f = &flows[r.flow as usize];
        let usual = r.ideal + alone[&f.class].extra(traffic.flows[f.number as usize].packets);
        let seconds = r.fct().map_or(f64::INFINITY, |fct| fct - usual);
        Taken { flow: f.number, link: f.link, seconds, closed: r.closed }
    });
    Ok((taken.collect(), engine.packet_hops()))
}

/// Where a flow comes from and goes to: first link of its cable or the other; rate and delay of the sender's own link, of the last before the
/// cable, and of the receiver's own; protocol.
pub(super) type Class = (bool, [Option<(Rate, Dur)>; 3], u16);

/// What has been measured of flows alone, by the two ports of the cable and the receiver's own.
pub(super) type Usual = Mutex<BTreeMap<([String; 3], Class), Arc<Alone>>>;

/// A flow on a cable.
struct Crossing {
    number: u32,
    link: u32,
    start: Time,
    request: FlowRequest,
    class: Class,
}

/// A cable's own network and flows.
struct Own {
    topology: Topology,
    flows: Vec<Crossing>,
}

/// Builds a cable with what is around it, or in its place one at which nothing waits, for the flows that begin before `end`; `setup`, whose network it
/// is taken out of, gets the other options.
fn build(setup: &mut Setup, traffic: &Traffic, (cable, real): (Cable, bool), end: Time) -> Own {
    let t = std::mem::take(&mut setup.topology);
    let packet =
        setup.protocols.iter().map(|(_, c)| c.mss + c.header_len()).max().unwrap_or(1500) + setup.framing;
    // The time a packet takes over links that are left out.
    let way = |links: &[u32]| -> Dur {
        links.iter().fold(Dur::ZERO, |sum, l| {
            let l = &t.links[*l as usize];
            sum + l.delay + Bytes(u64::from(packet)) / l.rate
        })
    };
    let mut topology = Topology::default();
    let own = &mut topology;
    let there = &t.links[cable.link as usize];
    let ends = [there.from, there.to].map(|node| {
        let node = &t.nodes[node as usize];
        own.add(node.name.clone(), node.kind)
    });
    let back = cable.back.map_or_else(|| plain(there), |back| t.links[back as usize].clone());
    let kept = |l: &Link| {
        let fast = || Link { rate: Rate(l.rate.0.saturating_mul(FAST)), ..plain(l) };
        if real {
            l.clone()
        } else {
            fast()
        }
    };
    let port = own.add_link(Link { from: ends[0], to: ends[1], ..kept(there) });
    own.add_link(Link { from: ends[1], to: ends[0], ..kept(&back) });
    let mut flows = Vec::new();
    for (first, link) in [(true, Some(cable.link)), (false, cable.back)] {
        let Some(number) = link else { continue };
        let (tail, head) = if first { (ends[0], ends[1]) } else { (ends[1], ends[0]) };
        let crossing = traffic.crossing(number);
        // Each flow's way before and behind the link.
        let there_is = crossing.iter().filter(|flow| traffic.flows[**flow as usize].start < end);
        let around = there_is.map(|flow| {
            let path = traffic.path(*flow as usize);
            let at = path.iter().position(|l| *l == number).expect("the flow crosses the link");
            (*flow, &path[..at], &path[at + 1..])
        });
        let mut receivers: BTreeMap<(u32, Dur), u32> = BTreeMap::new();
        // The link before this one, where that is not a sender's own: it lets no more through than it can.
        let mut feeders: BTreeMap<u32, u32> = BTreeMap::new();
        let mut senders: BTreeMap<(u32, u32, Dur), u32> = BTreeMap::new();
        for (flow, before, behind) in around {
            let f = &traffic.flows[flow as usize];
            let edge = before.first().map(|edge| {
                let edge = &t.links[*edge as usize];
                let between = if before.len() > 2 { &before[1..before.len() - 1] } else { &[] };
                (edge.rate, edge.delay + way(between))
            });
            let near = match before {
                [_, .., feeder] => *feeders.entry(*feeder).or_insert_with(|| {
                    let l = &t.links[*feeder as usize];
                    let node = own.switch(format!(
                        "{} before {}",
                        t.nodes[l.from as usize].name, t.nodes[l.to as usize].name
                    ));
                    own.add_link(Link { from: node, to: tail, ..plain(l) });
                    own.add_link(Link { from: tail, to: node, ..plain(l) });
                    node
                }),
                _ => tail,
            };
            let src = match edge {
                None => tail,
                Some((rate, delay)) => *senders.entry((f.src, near, delay)).or_insert_with(|| {
                    let name = &own.nodes[near as usize].name;
                    let host = own.host(format!("{} {delay} before {name}", t.nodes[f.src as usize].name));
                    own.add_link(Link { from: host, to: near, rate, delay, ..plain(there) });
                    own.add_link(Link { from: near, to: host, rate, delay, ..plain(there) });
                    host
                }),
            };
            // Their own link keeps what it is, so that nobody sends faster than it lets through.
            let last = behind.last().map(|last| {
                let last = &t.links[*last as usize];
                (last, last.delay + way(&behind[..behind.len() - 1]))
            });
            let dst = last.map_or(head, |(last, delay)| {
                *receivers.entry((f.dst, delay)).or_insert_with(|| {
                    let name = &own.nodes[head as usize].name;
                    let host = own.host(format!("{} {delay} behind {name}", t.nodes[f.dst as usize].name));
                    own.add_link(Link { from: head, to: host, delay, ..last.clone() });
                    own.add_link(Link { from: host, to: head, delay, ..plain(last) });
                    host
                })
            });
            let request = FlowRequest {
                src,
                dst,
                protocol: f.protocol,
                class: f.class,
                bytes: f.bytes,
                close: true,
                due: Time::NEVER,
                tag: 0,
            };
            let feeder = before.last().filter(|_| before.len() > 1).map(|l| &t.links[*l as usize]);
            let feeder = feeder.map(|l| (l.rate, l.delay));
            let class = (first, [edge, feeder, last.map(|(l, delay)| (l.rate, delay))], f.protocol);
            flows.push(Crossing { number: flow, link: number, start: f.start, request, class });
        }
    }
    setup.bottleneck = Bottleneck::Fixed(port);
    setup.recorder = Recorder::default();
    setup.warmup = Dur::ZERO;
    // The noise of hosts is a matter of their own cable.
    if ends.iter().all(|end| topology.nodes[*end as usize].kind != NodeKind::Host) {
        setup.send_jitter = Dur::ZERO;
    }
    let mut rng = Stream::new(setup.seed, setup.run, Entity::Approximation, u64::MAX - u64::from(cable.link));
    setup.seed = rng.next_u64();
    Own { topology, flows }
}

/// A link like `l` at which nothing happens but waiting.
fn plain(l: &Link) -> Link {
    Link {
        buffer: None,
        queue: drop_tail(),
        loss: 0.0,
        controlled: false,
        options: Default::default(),
        ..l.clone()
    }
}

/// What flows alone take on whole paths, by what the paths are made of.
pub(super) struct OnPaths {
    by_shape: BTreeMap<Shape, Alone>,
}

type Shape = (u16, Vec<(Rate, Dur)>);

fn shape(t: &Topology, traffic: &Traffic, flow: usize) -> Shape {
    let link = |l: &u32| (t.links[*l as usize].rate, t.links[*l as usize].delay);
    (traffic.flows[flow].protocol, traffic.path(flow).iter().map(link).collect())
}

impl OnPaths {
    /// Seconds beyond its ideal time that a flow alone takes.
    pub(super) fn extra(&self, t: &Topology, traffic: &Traffic, flow: usize) -> f64 {
        self.by_shape[&shape(t, traffic, flow)].extra(traffic.flows[flow].packets)
    }
}

/// Measures it for every kind of path that flows take.
pub(super) fn alone_on_paths(
    fresh: &Fresh<'_>,
    setup: &Setup,
    traffic: &Traffic,
) -> Result<OnPaths, ParamError> {
    let t = &setup.topology;
    let largest = traffic.flows.iter().map(|f| f.packets).max().unwrap_or(1);
    let mut by_shape = BTreeMap::new();
    for flow in 0..traffic.flows.len() {
        let shape = shape(t, traffic, flow);
        if by_shape.contains_key(&shape) {
            continue;
        }
        let mut own = Topology::default();
        let src = own.host("sender");
        let (mut from, path) = (src, traffic.path(flow));
        for (i, l) in path.iter().enumerate() {
            let to =
                if i + 1 == path.len() { own.host("receiver") } else { own.switch(format!("switch{i}")) };
            let l = &t.links[*l as usize];
            own.add_link(Link { from, to, ..l.clone() });
            own.add_link(Link { from: to, to: from, ..plain(l) });
            from = to;
        }
        let round = own.links.iter().fold(Dur::ZERO, |sum, l| sum + l.delay);
        let way = (own.links.iter().map(|l| l.rate).max().expect("a path has links"), round);
        let alone = Alone::measure(fresh()?, own, (src, from, shape.0), way, largest)?;
        by_shape.insert(shape, alone);
    }
    Ok(OnPaths { by_shape })
}
