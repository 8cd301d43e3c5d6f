//! One link by itself: the senders of its flows in front, their receivers behind. And whole paths with one flow at a time.

use super::alone::Alone;
use super::traffic::{Flow, Traffic};
use crate::engine::{Engine, Progress, Step};
use crate::metrics::Recorder;
use crate::results::Bottleneck;
use crate::setup::Setup;
use crate::topology::{drop_tail, Link, LinkSpec, Topology};
use crate::workloads::flows::FlowList;
use crate::workloads::FlowRequest;
use penstock_core::rng::Entity;
use penstock_core::{ParamError, Stream};
use penstock_units::{Bytes, Dur, Rate, Time};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// What the simulation of a link leaves.
pub(super) struct Found {
    /// Size of each completed flow, and the seconds per packet that it took longer than alone.
    pub(super) samples: Vec<(u64, f64)>,
    pub(super) packet_hops: u64,
}

/// Links behind the simulated one are so many times as fast as it is, where receivers differ in distance: nothing is to queue there.
const FAST: u64 = 10;
/// Looks at the progress per simulation.
const LOOKS: u64 = 50;

/// A run of the scenario as it is built.
pub(super) type Fresh<'a> = dyn Fn() -> Result<Setup, ParamError> + Sync + 'a;

/// Simulates link `number` with its own flows.
pub(super) fn simulate(
    fresh: &Fresh<'_>,
    traffic: &Traffic,
    number: u32,
    progress: &Progress,
) -> Result<Found, ParamError> {
    let mut setup = fresh()?;
    let warmup = Time::ZERO + setup.warmup;
    let Own { topology, list, classes } = build(&mut setup, traffic, number);
    let crossing = traffic.crossing(number);
    let largest = crossing.iter().map(|f| traffic.flows[*f as usize].packets).max().unwrap_or(1);
    let mut alone: BTreeMap<Class, Alone> = BTreeMap::new();
    for (class, (_, request)) in classes.iter().zip(&list) {
        if !alone.contains_key(class) {
            let ends = (request.src, request.dst, request.protocol);
            alone.insert(*class, Alone::measure(fresh()?, topology.clone(), ends, largest)?);
        }
    }
    setup.topology = topology;
    setup.workloads = vec![Box::new(FlowList::new(list))];
    let duration = setup.duration;
    let mut engine = Engine::new(setup)?;
    let own = Progress::default();
    for look in 1..=LOOKS {
        let step = engine.step(Time(duration.0 / LOOKS * look), &own)?;
        // Two hundredths of this link's share.
        progress.now_ps.fetch_add(100 / LOOKS, Ordering::Relaxed);
        if step != Step::More || progress.cancelled.load(Ordering::Relaxed) {
            break;
        }
    }
    engine.step(if progress.cancelled.load(Ordering::Relaxed) { Time::ZERO } else { Time::NEVER }, &own)?;
    engine.end(true)?;
    let samples = engine.recorder.flows.iter().filter(|r| r.closed >= warmup).filter_map(|r| {
        let flow: &Flow = &traffic.flows[crossing[r.flow as usize] as usize];
        let usual = r.ideal + alone[&classes[r.flow as usize]].extra(flow.packets);
        r.fct().map(|fct| (flow.bytes, (fct - usual) / flow.packets as f64))
    });
    Ok(Found { samples: samples.collect(), packet_hops: engine.packet_hops() })
}

/// Where a flow comes from and goes to: rate and delay of the sender's own link, position of the receiver, protocol.
type Class = (Option<(Rate, Dur)>, usize, u16);

/// A link's own network and flows, with the class of each.
struct Own {
    topology: Topology,
    list: Vec<(Time, FlowRequest)>,
    classes: Vec<Class>,
}

/// Builds link `number` with what is around it; `setup`, whose network it is taken out of, gets the other options.
fn build(setup: &mut Setup, traffic: &Traffic, number: u32) -> Own {
    let t = std::mem::take(&mut setup.topology);
    let target = &t.links[number as usize];
    let packet =
        setup.protocols.iter().map(|(_, c)| c.mss + c.header_len()).max().unwrap_or(1500) + setup.framing;
    // The time a packet takes over links that are left out.
    let way = |links: &[u32]| -> Dur {
        links.iter().fold(Dur::ZERO, |sum, l| {
            let l = &t.links[*l as usize];
            sum + l.delay + Bytes(u64::from(packet)) / l.rate
        })
    };
    let crossing = traffic.crossing(number);
    // Each flow's way before and behind the link.
    let around: Vec<(&[u32], &[u32])> = crossing
        .iter()
        .map(|flow| {
            let path = traffic.path(*flow as usize);
            let at = path.iter().position(|l| *l == number).expect("the flow crosses the link");
            (&path[..at], &path[at + 1..])
        })
        .collect();
    let mut distances: Vec<Dur> = around.iter().map(|(_, behind)| way(behind)).collect();
    distances.sort_unstable();
    distances.dedup();
    let mut own = Topology::default();
    let first = around.iter().all(|(before, _)| before.is_empty());
    let tail = if first { own.host("sender") } else { own.switch("tail") };
    let rate = target.rate;
    let plain = |from, to, rate, delay| Link {
        from,
        to,
        rate,
        delay,
        buffer: None,
        queue: drop_tail(),
        loss: 0.0,
        controlled: false,
        options: Default::default(),
    };
    let receivers: Vec<u32> =
        distances.iter().enumerate().map(|(i, _)| own.host(format!("receiver{i}"))).collect();
    let only = (distances.len() == 1).then(|| (receivers[0], distances[0]));
    let (head, further) = only.unwrap_or_else(|| (own.switch("head"), Dur::ZERO));
    let port =
        own.add_link(Link { from: tail, to: head, rate, delay: target.delay + further, ..target.clone() });
    own.add_link(plain(head, tail, target.rate, target.delay + further));
    if only.is_none() {
        for (receiver, delay) in receivers.iter().zip(&distances) {
            let fast = Rate(target.rate.0.saturating_mul(FAST));
            own.connect(
                head,
                *receiver,
                &LinkSpec { rate: fast, delay: *delay, buffer: None, queue: drop_tail() },
            );
        }
    }
    let mut senders: BTreeMap<(u32, Dur), u32> = BTreeMap::new();
    let (mut list, mut classes) = (Vec::with_capacity(crossing.len()), Vec::with_capacity(crossing.len()));
    for (flow, (before, behind)) in crossing.iter().zip(&around) {
        let flow = &traffic.flows[*flow as usize];
        let edge = before.first().map(|edge| {
            let edge = &t.links[*edge as usize];
            (edge.rate, edge.delay + way(&before[1..]))
        });
        let src = match edge {
            None => tail,
            Some((rate, delay)) => *senders.entry((flow.src, delay)).or_insert_with(|| {
                let host = own.host(format!("sender{}", flow.src));
                own.add_link(plain(host, tail, rate, delay));
                own.add_link(plain(tail, host, rate, delay));
                host
            }),
        };
        let at = distances.binary_search(&way(behind)).expect("every distance is listed");
        let (dst, protocol, class, bytes) = (receivers[at], flow.protocol, flow.class, flow.bytes);
        classes.push((edge, at, protocol));
        list.push((
            flow.start,
            FlowRequest { src, dst, protocol, class, bytes, close: true, due: Time::NEVER, tag: 0 },
        ));
    }
    setup.bottleneck = Bottleneck::Fixed(port);
    setup.recorder = Recorder::default();
    setup.warmup = Dur::ZERO;
    // The noise of hosts is a matter of their own link.
    if !first {
        setup.send_jitter = Dur::ZERO;
    }
    let mut rng = Stream::new(setup.seed, setup.run, Entity::Approximation, u64::MAX - u64::from(number));
    setup.seed = rng.next_u64();
    Own { topology: own, list, classes }
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
            own.add_link(Link {
                from: to,
                to: from,
                buffer: None,
                queue: drop_tail(),
                loss: 0.0,
                ..l.clone()
            });
            from = to;
        }
        let alone = Alone::measure(fresh()?, own, (src, from, shape.0), largest)?;
        by_shape.insert(shape, alone);
    }
    Ok(OnPaths { by_shape })
}
