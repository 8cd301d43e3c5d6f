//! A cable by itself, which is a link and the one back: the senders of its flows in front, their receivers behind; windows of cables that are alike one after
//! another. And whole paths with one flow at a time.

use super::alone::Alone;
use super::fluid::Crowds;
use super::kinds::look as look_of;
use super::traffic::Traffic;
use super::windows::{self, flows, slower, There, Window};
use crate::bottleneck::Bottleneck;
use crate::engine::{Engine, Progress, Step};
use crate::metrics::Recorder;
use crate::setup::Setup;
use crate::topology::{drop_tail, Link, NodeKind, Topology};
use crate::workloads::{Action, Actions, App, FlowRequest, Workload, Written};
use penstock_core::rng::Entity;
use penstock_core::{ParamError, Stream};
use penstock_units::{Bytes, Dur, Rate, Time};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

/// What the simulation of cables leaves.
pub(super) struct Found {
    pub(super) samples: Vec<Sample>,
    pub(super) packet_hops: u64,
}

/// What a link did to a flow.
pub(super) struct Sample {
    pub(super) flow: u32,
    /// Place of the link among those of all flows.
    pub(super) place: u32,
    pub(super) link: u32,
    /// Seconds it took longer than alone; infinite when it was not over at the end.
    pub(super) seconds: f64,
    /// It was over after the warm-up.
    pub(super) measured: bool,
    /// Of the window.
    pub(super) weight: f64,
}

/// A cable at which nothing waits is so many times as fast.
const FAST: u64 = 10;
/// Looks at the progress per simulation.
const LOOKS: u64 = 50;
/// A simulation of windows ends when all flows are over, or after so many times what was planned, and a second.
const PATIENCE: u64 = 20;

/// A run of the scenario as it is built.
pub(super) type Fresh<'a> = dyn Fn() -> Result<Setup, ParamError> + Sync + 'a;

/// What simulations are made of.
#[derive(Clone, Copy)]
pub(super) struct Given<'a> {
    pub(super) fresh: &'a Fresh<'a>,
    pub(super) traffic: &'a Traffic,
    pub(super) crowds: &'a Crowds,
    pub(super) usual: &'a Usual,
    pub(super) progress: &'a Progress,
}

/// Simulates windows of cables of one kind, one after another in one network, with the flows of both links: what goes one way stands in the way of
/// the acknowledgements of the other. And, unless senders are `apart`, once more with a cable at which nothing waits: what flows wait for each other
/// before it is no matter of this one, but of the links there.
pub(super) fn simulate(given: Given<'_>, windows: &[Window], apart: bool) -> Result<Found, ParamError> {
    let setup = (given.fresh)()?;
    let warmup = Time::ZERO + setup.warmup;
    let there: Vec<Vec<There>> =
        windows.iter().map(|w| flows(given.traffic, given.crowds, w, apart)).collect();
    let (mut with, mut packet_hops) = times(given, setup, (windows, &there), (true, apart))?;
    if !apart {
        let (without, more) = times(given, (given.fresh)()?, (windows, &there), (false, apart))?;
        packet_hops += more;
        for (t, w) in with.iter_mut().zip(&without) {
            if w.seconds.is_finite() {
                t.seconds -= w.seconds;
            }
        }
    }
    let each = windows.iter().zip(&there).flat_map(|(w, there)| there.iter().map(move |f| (w, f)));
    // What was not over when simulating windows lost its patience is not known.
    let known = each.zip(&with).filter(|((w, f), t)| f.sample && (t.seconds.is_finite() || w.is_whole()));
    let samples = known.map(|((w, f), t)| Sample {
        flow: f.flow,
        place: f.place,
        link: f.link,
        seconds: t.seconds,
        measured: !w.is_whole() || t.closed >= warmup,
        weight: w.weight,
    });
    Ok(Found { samples: samples.collect(), packet_hops })
}

/// How much longer than alone a flow took.
#[derive(Clone, Copy)]
struct Taken {
    /// Infinite when it was not over.
    seconds: f64,
    closed: Time,
}

/// Runs windows of a cable, or what is around it only; with the packet-hops.
fn times(
    given: Given<'_>,
    mut setup: Setup,
    (windows, there): (&[Window], &[Vec<There>]),
    (real, apart): (bool, bool),
) -> Result<(Vec<Taken>, u64), ParamError> {
    let Given { fresh, traffic, usual, progress, .. } = given;
    let nothing = Taken { seconds: f64::INFINITY, closed: Time::NEVER };
    let mut taken = vec![nothing; there.iter().map(Vec::len).sum()];
    let mut looks = 0;
    let mut look = || {
        if looks < LOOKS {
            looks += 1;
            // A hundredth of this simulation's share.
            let runs = if apart { 1 } else { 2 };
            progress.now_ps.fetch_add(100 / LOOKS / runs, Ordering::Relaxed);
        }
    };
    let Own { topology, flows } = build(&mut setup, traffic, (windows, there), (real, apart));
    if flows.is_empty() {
        (0..LOOKS).for_each(|_| look());
        return Ok((taken, 0));
    }
    let largest = traffic.flows.iter().map(|f| f.packets).max().unwrap_or(1);
    // Cables that look alike let a flow alone take as long: it is measured once.
    let port_to = |node: u32| {
        topology.links_into(node).first().map(|l| look_of(&topology.links[*l as usize])).unwrap_or_default()
    };
    let mut alone: BTreeMap<Class, Arc<Alone>> = BTreeMap::new();
    for Crossing { class, request, sample, .. } in &flows {
        if !sample || alone.contains_key(class) {
            continue;
        }
        // Whoever comes first measures it, so the key has all that it depends on.
        let [there, back] = [0, 1].map(|port: usize| look_of(&topology.links[port]));
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
    let planned = if windows[0].is_whole() {
        setup.duration
    } else {
        let spans = windows.iter().fold(Dur::ZERO, |sum, w| sum + w.span.1.since(w.span.0));
        setup.duration = spans * PATIENCE + Dur::millis(1000);
        spans
    };
    setup.topology = topology;
    setup.workloads = vec![Workload::central(OneByOne::new(windows, &flows, traffic.round()))];
    let mut engine = Engine::new(setup)?;
    let own = Progress::default();
    for part in 1.. {
        let step = engine.step(Time(planned.0 / LOOKS * part), &own)?;
        look();
        if step != Step::More || progress.cancelled.load(Ordering::Relaxed) {
            break;
        }
    }
    engine.step(if progress.cancelled.load(Ordering::Relaxed) { Time::ZERO } else { Time::NEVER }, &own)?;
    engine.end(true)?;
    (0..LOOKS).for_each(|_| look());
    engine.recorder.flows.each_as_it_comes(|rows| {
        for (r, f) in rows.iter().map(|r| (r, &flows[r.flow as usize])).filter(|(_, f)| f.sample) {
            let usual = r.ideal + alone[&f.class].extra(f.packets);
            let seconds = r.fct().map_or(f64::INFINITY, |fct| fct - usual);
            taken[f.number] = Taken { seconds, closed: r.closed };
        }
    });
    Ok((taken, engine.packet_hops()))
}

/// Where a flow comes from and goes to. The first field says whether it crosses the first link of its cable or the other. Then come rate and delay of the
/// sender's own link, of the last link before the cable, and of the receiver's own link. The last field is the protocol.
pub(super) type Class = (bool, [Option<(Rate, Dur)>; 3], u16);

/// What has been measured of flows alone, by the two ports of the cable and the receiver's own.
pub(super) type Usual = Mutex<BTreeMap<([String; 3], Class), Arc<Alone>>>;

/// A flow on a cable.
struct Crossing {
    /// Its place in the list of all.
    number: usize,
    window: usize,
    start: Time,
    /// What becomes of it is told.
    sample: bool,
    packets: u64,
    request: FlowRequest,
    class: Class,
}

/// A network for cables of one kind, and their flows.
struct Own {
    topology: Topology,
    flows: Vec<Crossing>,
}

/// Nodes of one kind that are used again: who has which, in a window by whom, or until when.
#[derive(Default)]
struct Seats {
    window: usize,
    by: BTreeMap<u32, usize>,
    until: Vec<f64>,
}

impl Seats {
    /// The seat of a host or link in a window.
    fn of(&mut self, window: usize, who: u32) -> usize {
        if self.window != window {
            (self.window, self.by) = (window, BTreeMap::new());
        }
        let next = self.by.len();
        *self.by.entry(who).or_insert(next)
    }
    /// The first that is free, from one time until the other.
    fn free(&mut self, window: usize, from: f64, until: f64) -> usize {
        if self.window != window {
            (self.window, self.until) = (window, Vec::new());
        }
        let seat = self.until.iter().position(|u| *u < from).unwrap_or(self.until.len());
        if seat == self.until.len() {
            self.until.push(until);
        }
        self.until[seat] = until;
        seat
    }
}

/// Who has which, and the nodes.
type Seated = (Seats, Vec<u32>);

/// Builds a cable with what is around it, or in its place one at which nothing waits, for all windows; `setup`, whose network it is taken out of, gets
/// the other options.
fn build(
    setup: &mut Setup,
    traffic: &Traffic,
    (windows, there): (&[Window], &[Vec<There>]),
    (real, apart): (bool, bool),
) -> Own {
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
    let cable = windows[0].cable;
    let first = &t.links[cable.link as usize];
    let ends = [first.from, first.to].map(|node| {
        let node = &t.nodes[node as usize];
        own.add(node.name.clone(), node.kind)
    });
    let back = cable.back.map_or_else(|| plain(first), |back| t.links[back as usize].clone());
    let kept = |l: &Link| {
        let fast = || Link { rate: Rate(l.rate.0.saturating_mul(FAST)), ..plain(l) };
        if real {
            l.clone()
        } else {
            fast()
        }
    };
    let port = own.add_link(Link { from: ends[0], to: ends[1], ..kept(first) });
    own.add_link(Link { from: ends[1], to: ends[0], ..kept(&back) });
    // The link before this one, where that is not a sender's own: it lets no more through than it can.
    let mut feeders: BTreeMap<(u32, String), Seated> = BTreeMap::new();
    let mut senders: BTreeMap<(u32, Dur, Rate), Seated> = BTreeMap::new();
    let mut receivers: BTreeMap<(u32, Dur, Rate, String), Seated> = BTreeMap::new();
    // What a flow has left behind when it is over as a fluid needs some round trips more.
    let after = traffic.round().as_secs() * windows::BESIDE as f64;
    let mut flows = Vec::new();
    let each = there.iter().enumerate().flat_map(|(window, there)| there.iter().map(move |f| (window, f)));
    for (number, (window, crossing)) in each.enumerate() {
        let forward = windows[window].cable.link == crossing.link;
        let (tail, head) = if forward { (ends[0], ends[1]) } else { (ends[1], ends[0]) };
        let f = &traffic.flows[crossing.flow as usize];
        // The flow's way before and behind the link.
        let path = traffic.path(crossing.flow as usize);
        let at = crossing.place as usize - traffic.places(crossing.flow as usize).start;
        let (before, behind) = (&path[..at], &path[at + 1..]);
        let time = (crossing.start.as_secs(), crossing.end + after);
        let seat = |seats: &mut Seats, who: u32| {
            if apart {
                seats.free(window, time.0, time.1)
            } else {
                seats.of(window, who)
            }
        };
        let edge = before.first().map(|edge| {
            let edge = &t.links[*edge as usize];
            let between = match before.len() {
                0..=1 => &[],
                n if apart => &before[1..n],
                n => &before[1..n - 1],
            };
            (slower(edge.rate, crossing.held[0]), edge.delay + way(between))
        });
        let feeder =
            before.last().filter(|_| before.len() > 1 && !apart).map(|l| (*l, &t.links[*l as usize]));
        let near = feeder.map_or(tail, |(number, l)| {
            let (seats, nodes) = feeders.entry((tail, look_of(l))).or_default();
            let seat = seats.of(window, number);
            if seat == nodes.len() {
                let node = own.switch(format!("feeder {seat} of {}", own.nodes[tail as usize].name));
                own.add_link(Link { from: node, to: tail, ..plain(l) });
                own.add_link(Link { from: tail, to: node, ..plain(l) });
                nodes.push(node);
            }
            nodes[seat]
        });
        let src = edge.map_or(tail, |(rate, delay)| {
            let (seats, nodes) = senders.entry((near, delay, rate)).or_default();
            let seat = seat(seats, f.src);
            if seat == nodes.len() {
                let name = &own.nodes[near as usize].name;
                let host = own.host(format!("sender {seat}, {delay} before {name}"));
                own.add_link(Link { from: host, to: near, rate, delay, ..plain(first) });
                own.add_link(Link { from: near, to: host, rate, delay, ..plain(first) });
                nodes.push(host);
            }
            nodes[seat]
        });
        // Their own link keeps what it is, so that nobody sends faster than it lets through.
        let last = behind.last().map(|last| {
            let last = &t.links[*last as usize];
            (last, last.delay + way(&behind[..behind.len() - 1]))
        });
        let dst = last.map_or(head, |(last, delay)| {
            let rate = slower(last.rate, crossing.held[1]);
            let (seats, nodes) = receivers.entry((head, delay, rate, look_of(last))).or_default();
            let seat = seat(seats, f.dst);
            if seat == nodes.len() {
                let name = &own.nodes[head as usize].name;
                let host = own.host(format!("receiver {seat}, {delay} behind {name}"));
                own.add_link(Link { from: head, to: host, delay, rate, ..last.clone() });
                own.add_link(Link { from: host, to: head, delay, ..plain(last) });
                nodes.push(host);
            }
            nodes[seat]
        });
        let request = FlowRequest {
            src,
            dst,
            protocol: f.protocol,
            class: f.class,
            bytes: crossing.bytes,
            close: true,
            due: Time::NEVER,
            tag: 0,
        };
        let packets = crossing.bytes.div_ceil(u64::from(traffic.lengths[usize::from(f.protocol)].segment));
        let feeder = feeder.map(|(_, l)| (l.rate, l.delay));
        let class = (forward, [edge, feeder, last.map(|(l, delay)| (l.rate, delay))], f.protocol);
        let sample = crossing.sample;
        flows.push(Crossing { number, window, start: crossing.start, sample, packets, request, class });
    }
    setup.bottleneck = Bottleneck::Fixed(port);
    setup.recorder = Recorder::default();
    setup.warmup = Dur::ZERO;
    // The noise of hosts is a matter of their own cable.
    if ends.iter().all(|end| topology.nodes[*end as usize].kind != NodeKind::Host) {
        setup.send_jitter = Dur::ZERO;
    }
    let number = u64::from(cable.link).wrapping_add(windows[0].span.0 .0.rotate_left(32));
    let mut rng = Stream::new(setup.seed, setup.run, Entity::Approximation, u64::MAX - number);
    setup.seed = rng.next_u64();
    Own { topology, flows }
}

/// Windows one after another, each when all flows of the one before are over.
struct OneByOne {
    /// Of each the flows, from its beginning on.
    windows: Vec<Vec<(Dur, FlowRequest)>>,
    begun: Time,
    window: usize,
    next: usize,
    open: usize,
    /// Between two windows.
    pause: Dur,
}

impl OneByOne {
    fn new(windows: &[Window], flows: &[Crossing], pause: Dur) -> OneByOne {
        let mut each = vec![Vec::new(); windows.len()];
        for f in flows {
            each[f.window].push((f.start.since(windows[f.window].span.0), f.request.clone()));
        }
        each.retain(|window| !window.is_empty());
        OneByOne { windows: each, begun: Time::ZERO, window: 0, next: 0, open: 0, pause }
    }
}

impl App for OneByOne {
    fn next_event(&self) -> Time {
        let flow = self.windows.get(self.window).and_then(|window| window.get(self.next));
        flow.map_or(Time::NEVER, |(after, _)| self.begun + *after)
    }
    fn on_timer(&mut self, now: Time, actions: &mut Actions) {
        while self.next_event() <= now {
            actions.open(self.windows[self.window][self.next].1.clone());
            (self.next, self.open) = (self.next + 1, self.open + 1);
        }
    }
    fn on_acked(&mut self, now: Time, _: &Written, actions: &mut Actions) {
        self.open -= 1;
        if self.open > 0 || self.next < self.windows[self.window].len() {
            return;
        }
        (self.window, self.next, self.begun) = (self.window + 1, 0, now + self.pause);
        if self.window == self.windows.len() {
            actions.push(Action::Done);
        }
    }
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
    by_shape: Vec<Alone>,
    /// Which of them each flow has.
    shapes: Vec<u32>,
}

impl OnPaths {
    /// Seconds beyond its ideal time that a flow alone takes.
    pub(super) fn extra(&self, traffic: &Traffic, flow: usize) -> f64 {
        self.by_shape[self.shapes[flow] as usize].extra(traffic.flows[flow].packets)
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
    // Links of the same rate and delay have one number.
    let mut links: BTreeMap<(Rate, Dur), u32> = BTreeMap::new();
    let mut number = |l: &Link| {
        let next = links.len() as u32;
        *links.entry((l.rate, l.delay)).or_insert(next)
    };
    let numbers: Vec<u32> = t.links.iter().map(&mut number).collect();
    let mut known: BTreeMap<Vec<u32>, u32> = BTreeMap::new();
    let mut found = OnPaths { by_shape: Vec::new(), shapes: Vec::with_capacity(traffic.flows.len()) };
    let mut shape = Vec::new();
    for (flow, f) in traffic.flows.iter().enumerate() {
        let path = traffic.path(flow);
        shape.clear();
        shape.push(u32::from(f.protocol));
        shape.extend(path.iter().map(|l| numbers[*l as usize]));
        if let Some(known) = known.get(&shape) {
            found.shapes.push(*known);
            continue;
        }
        let mut own = Topology::default();
        let src = own.host("sender");
        let mut from = src;
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
        let next = found.by_shape.len() as u32;
        known.insert(shape.clone(), next);
        found.shapes.push(next);
        found.by_shape.push(Alone::measure(fresh()?, own, (src, from, f.protocol), way, largest)?);
    }
    Ok(found)
}
