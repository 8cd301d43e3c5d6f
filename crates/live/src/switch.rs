//! The network between the hosts: the simulator's own ports, driven by the wall clock.
//!
//! A packet enters with the time it was read from its host's device; from there on every time is computed, as in
//! the simulator: departures, drops and marks happen at virtual times, in their order. Only the last step, handing
//! a packet to the receiving host, happens when this thread gets to it. How much later than due that was is the
//! lag, and it is recorded for every packet.
//!
//! Above 600 lines: one loop from device to port to device.

use crate::clock::Clock;
use crate::edge::{Edge, EdgeCounters, Opened};
use crate::idle::{AckWaits, LateAcks};
use crate::pauses::Pauses;
use crate::quality::{Lag, Read, Turns};
use crate::sys::{self, Poll};
use crate::ticks::Place;
use crate::waits::{Reads, Waits};
use crate::wire::{self, Segment};
use penstock_core::packet::{flag, Ecn, FlowId, Packet};
use penstock_core::quantity::ALPHA;
use penstock_core::receive::ReceiveController;
use penstock_core::rng::Entity;
use penstock_core::tcp::TcpConfig;
use penstock_core::{Ack, CcHeader, ParamError, Peer, Stream};
use penstock_fabric::{Port, Segments};
use penstock_host::latency::SPIN;
use penstock_live_bpf::Steered;
use penstock_models::Suite;
use penstock_sim::events::{Pending, Wake};
use penstock_sim::metrics::{self, Mean, Sample};
use penstock_sim::network::{Arrived, FlowRoute, Network};
use penstock_sim::setup::{Collective, Setup};
use penstock_sim::topology::{route_stream, Topology};
use penstock_units::{Dur, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Sleeps end this early, and the rest is spent polling: a wake-up takes about as long.
const SPIN_NS: u64 = SPIN.0 / 1000;
/// Without a sleep for so long, one of [`REST_NS`] is inserted: the kernel stops real-time threads that never sleep.
const BUSY_NS: u64 = 2_000_000;
const REST_NS: u64 = 150_000;
/// The longest sleep: a cancelled run ends within it.
const NAP_NS: u64 = 10_000_000;
/// Packets read from one device before others get their turn.
const BATCH: usize = 32;

/// Connections announced by the applications, by source port.
pub type Announced = Mutex<BTreeMap<u16, Opened>>;

/// What the network is made of.
pub struct Plan {
    /// Everything the scenario says.
    pub setup: Setup,
    /// Device of each node, `None` for switches.
    pub devices: Vec<Option<OwnedFd>>,
    /// Addresses of the hosts.
    pub addresses: BTreeMap<[u8; 4], u32>,
    /// Port the receivers listen on.
    pub listen: u16,
    /// Per protocol: the socket is steered by the simulator's controller.
    pub steered: Vec<bool>,
    /// The kernel's end of steering.
    pub handle: Option<Arc<Steered>>,
    /// Connections to come.
    pub announced: Arc<Announced>,
    /// The run's clock.
    pub clock: Clock,
    /// Set by whoever ends the run.
    pub stop: Arc<AtomicBool>,
    /// Where its thread runs.
    pub place: Arc<Place>,
    /// When applications come to read.
    pub reads: Arc<Reads>,
    /// Waits for delayed ACKs.
    pub ack_waits: AckWaits,
}

/// A packet's bytes, in the slot of its arena entry.
struct Frame {
    bytes: Vec<u8>,
    len: usize,
    segment: Segment,
    /// Source port of its connection.
    edge: u16,
}

/// What the network leaves.
pub struct Remains {
    /// The scenario's network.
    pub topology: Topology,
    /// Ports with their statistics.
    pub ports: Vec<Port>,
    /// Packets delivered over one link.
    pub packet_hops: u64,
    /// Counters by connection since the end of warm-up.
    pub counters: BTreeMap<u32, EdgeCounters>,
    /// Lags of deliveries since the end of warm-up.
    pub lag: Lag,
    /// How long hosts take for what they are handed, since the end of warm-up.
    pub turns: Turns,
    /// How late applications came to read, since the end of warm-up.
    pub waits: Waits,
    /// Pauses of the network's thread.
    pub pauses: Pauses,
    /// Samples of the queue.
    pub samples: Vec<Sample>,
    /// Mean `alpha` of the controllers that steer, over open connections and samples since the end of warm-up.
    pub alpha: Mean,
    /// Packets a device did not take.
    pub refused: u64,
    /// Packets that were not TCP between hosts of the scenario.
    pub foreign: u64,
    /// The thread ran at real-time priority.
    pub real_time: bool,
    /// How late it came to the end of the run.
    pub over: Dur,
    /// State changes under collective control.
    pub transitions: Vec<penstock_core::host::Transition>,
    /// The devices: as long as they are open, hosts whose counters are still to be read lose nothing more.
    pub _devices: Vec<Option<OwnedFd>>,
}

/// The network at work.
pub struct Switch {
    clock: Clock,
    stop: Arc<AtomicBool>,
    place: Arc<Place>,
    topology: Topology,
    protocols: Vec<(Suite, Arc<TcpConfig>)>,
    steered: Vec<bool>,
    handle: Option<Arc<Steered>>,
    announced: Arc<Announced>,
    devices: Vec<Option<OwnedFd>>,
    addresses: BTreeMap<[u8; 4], u32>,
    listen: u16,
    seed: (u64, u64),
    net: Network,
    edge_wake: BTreeMap<u16, Pending>,
    frames: Vec<Frame>,
    mtu: usize,
    edges: BTreeMap<u16, Edge>,
    /// Source ports of the open ones, and those of them whose samples are kept.
    open: BTreeSet<u16>,
    placed: BTreeSet<u16>,
    over: BTreeMap<u32, EdgeCounters>,
    baseline: BTreeMap<u32, EdgeCounters>,
    receive: Vec<Option<Box<dyn ReceiveController>>>,
    collectives: Vec<Collective>,
    transitions: Vec<penstock_core::host::Transition>,
    warmup: Time,
    end: Time,
    measuring: bool,
    interval: Option<Dur>,
    next_sample: Time,
    sampled: Vec<u32>,
    keep_series: bool,
    series_flows: u32,
    samples: Vec<Sample>,
    alpha: Mean,
    lag: Lag,
    turns: Turns,
    waits: Waits,
    late: LateAcks,
    tick: Dur,
    pauses: Pauses,
    refused: u64,
    foreign: u64,
}

impl Switch {
    /// Builds the network; the applications keep the workloads.
    ///
    /// # Errors
    /// A port or a buffer that cannot work.
    pub fn new(plan: Plan) -> Result<Switch, ParamError> {
        let Plan {
            setup,
            devices,
            addresses,
            listen,
            steered,
            handle,
            announced,
            clock,
            stop,
            place,
            reads,
            ack_waits,
        } = plan;
        let tick = Dur::nanos(sys::tick_ns());
        let net = Network::new(&setup)?;
        let receive = setup.receive_controllers();
        let mtu = setup.protocols.iter().map(|(_, c)| c.mss + c.header_len()).max().unwrap_or(1500);
        let recorder = &setup.recorder;
        let interval = recorder.interval;
        let window = setup.base_rtt;
        Ok(Switch {
            clock,
            stop,
            place,
            net,
            edge_wake: BTreeMap::new(),
            frames: Vec::new(),
            mtu: mtu as usize,
            edges: BTreeMap::new(),
            open: BTreeSet::new(),
            placed: BTreeSet::new(),
            over: BTreeMap::new(),
            baseline: BTreeMap::new(),
            receive,
            collectives: setup.collectives,
            transitions: Vec::new(),
            warmup: Time::ZERO + setup.warmup,
            end: Time::ZERO + setup.duration,
            measuring: false,
            interval,
            next_sample: interval.map_or(Time::NEVER, |i| Time::ZERO + i),
            sampled: recorder.sampled_ports.clone(),
            keep_series: recorder.keep_series,
            series_flows: recorder.series_flows,
            samples: Vec::new(),
            alpha: Mean::default(),
            lag: Lag::new(window),
            turns: Turns::new(devices.len()),
            waits: Waits::new(reads),
            late: LateAcks::new(ack_waits, tick),
            tick,
            pauses: Pauses::default(),
            refused: 0,
            foreign: 0,
            topology: setup.topology,
            protocols: setup.protocols,
            steered,
            handle,
            announced,
            devices,
            addresses,
            listen,
            seed: (setup.seed, setup.run),
        })
    }

    /// Runs until the end of the scenario, or until told to stop.
    ///
    /// # Errors
    /// A device that cannot be read any more.
    pub fn run(mut self, priority: i32) -> io::Result<Remains> {
        let real_time = sys::fifo_priority(priority).is_ok();
        sys::exact_timers();
        let mut poll = Poll::new()?;
        for (node, device) in self.devices.iter().enumerate() {
            if let Some(fd) = device {
                poll.add(fd, node as u64, false)?;
            }
        }
        let mut slept_at = sys::monotonic_ns();
        let mut ready = Vec::new();
        while !self.stop.load(Ordering::Relaxed) {
            self.place.here();
            let now = self.clock.now();
            if now >= self.end {
                break;
            }
            self.run_until(now);
            let next =
                self.net.next_arrival().min(self.net.deadlines.peek()).min(self.next_sample).min(self.end);
            let gap = next.since(self.clock.now()).0 / 1000;
            let mut sleep = gap.saturating_sub(SPIN_NS).min(NAP_NS);
            let awake = sys::monotonic_ns();
            if sleep == 0 && awake - slept_at > BUSY_NS {
                sys::sleep_ns(REST_NS);
                sleep = 0;
                slept_at = sys::monotonic_ns();
            }
            ready.clear();
            ready.extend(poll.wait(sleep)?.map(|r| r.token as u32));
            if sleep > 0 {
                self.lag.sleeps();
                if sys::monotonic_ns() - awake > 5_000 {
                    slept_at = sys::monotonic_ns();
                }
            }
            for node in &ready {
                self.read(*node)?;
            }
        }
        let now = self.clock.now();
        let (now, over) = (now.min(self.end), now.since(self.end));
        self.run_until(now);
        Ok(Remains { over, ..self.finish(now, real_time) })
    }

    /// Does everything that was due up to `now`, each thing at its own time.
    fn run_until(&mut self, now: Time) {
        loop {
            let arrival = self.net.next_arrival();
            let deadline = self.net.deadlines.peek();
            let next = arrival.min(deadline).min(self.next_sample);
            if !self.measuring && self.warmup <= next.min(now) {
                self.end_warmup();
            }
            if next > now {
                return;
            }
            if self.measuring {
                if let Some(late) = self.lag.wakes(next, now) {
                    self.pauses.woke(next, now);
                    self.waits.woke(late);
                }
            }
            if arrival == next {
                self.on_arrival(next);
            } else if deadline == next {
                self.on_deadline(next);
            } else {
                self.on_sample(next);
            }
        }
    }

    // ---- packets -------------------------------------------------------------------------------------

    fn read(&mut self, node: u32) -> io::Result<()> {
        for _ in 0..BATCH {
            let id = self.net.arena.alloc();
            if id as usize >= self.frames.len() {
                // Packets of another MTU than the scenario's would be cut: leave room.
                let bytes = vec![0; self.mtu.max(1500) + 100];
                let segment = Segment::default();
                self.frames.push(Frame { bytes, len: 0, segment, edge: 0 });
            }
            let frame = &mut self.frames[id as usize];
            let device = self.devices[node as usize].as_ref();
            let Some(len) = device.map_or(Ok(None), |d| sys::read(d, &mut frame.bytes))? else {
                self.net.arena.release(id);
                return Ok(());
            };
            let now = self.clock.now();
            let handed = self.turns.take(node);
            self.run_until(now);
            self.lag.works();
            let frame = &mut self.frames[id as usize];
            frame.len = len;
            let known = wire::parse(&frame.bytes[..len]);
            frame.segment = known.unwrap_or_default();
            let what = |s: &Segment| match s.payload > 0 {
                true => Read::Data,
                false if self.edges.get_mut(&s.dst_port).is_some_and(|edge| edge.repeats(s)) => Read::DupAck,
                false => Read::Ack,
            };
            let what = known.as_ref().map(what);
            if what == Some(Read::Data) {
                self.waits.sent(node, now, self.measuring);
            }
            // What follows a pause of the whole network, from a receiver that has something new to acknowledge.
            let from_receiver = known.is_some_and(|s| s.dst_port != self.listen && s.flags & flag::SYN == 0);
            if what == Some(Read::Ack) && from_receiver && self.net.next_arrival() == Time::NEVER {
                self.late.ack(now);
            }
            self.late.moves(now);
            let mut read = None;
            if let Some(s) = known.as_ref().filter(|_| what != Some(Read::Data)) {
                let gap = wire::has_sack(&self.frames[id as usize].bytes[..len], s);
                read = self.waits.ack(node, gap, self.measuring);
            }
            if let Some(what) = what.filter(|_| self.measuring) {
                self.turns.record(node, handed, now, what, read);
                if what == Read::Data {
                    self.pauses.read(now);
                }
            }
            match known.and_then(|_| self.enter(now, node, id)) {
                Some(route) => {
                    self.net.send(now, route, id);
                    self.take_lost();
                }
                None => {
                    self.foreign += 1;
                    self.net.arena.release(id);
                }
            }
        }
        Ok(())
    }

    /// Fills in the packet of a frame and finds its way; `None` when it belongs to no connection of the run.
    fn enter(&mut self, now: Time, node: u32, id: u32) -> Option<FlowRoute> {
        let frame = &mut self.frames[id as usize];
        let s = frame.segment;
        let forward = s.dst_port == self.listen;
        let port = if forward { s.src_port } else { s.dst_port };
        frame.edge = port;
        if forward && s.flags & flag::SYN != 0 {
            self.admit(now, port);
        }
        let frame = &self.frames[id as usize];
        let edge = self.edges.get_mut(&port)?;
        let expected = if forward { edge.opened.src } else { edge.opened.dst };
        if node != expected || !self.addresses.contains_key(&s.dst) {
            return None;
        }
        let (packet, header) = self.net.arena.segment(id);
        *packet = Packet {
            seq: u64::from(if forward { s.seq } else { s.ack }),
            stamp: now.0,
            flow: edge.opened.flow,
            wire_len: frame.len as u32,
            payload: s.payload,
            window: u32::from(s.window),
            flags: if forward { s.flags & !flag::ACK } else { s.flags },
            ecn: s.ecn,
            ..Packet::default()
        };
        packet.set_class(edge.opened.class);
        if forward {
            if edge.on_forward_out(now, &s, packet, header).is_some_and(|silent| silent >= self.tick) {
                self.late.timeout();
            }
        } else {
            let bytes = &mut self.frames[id as usize].bytes;
            edge.on_back_out(bytes, &s, packet, header);
            if let Some(control) = self.receive.get(edge.opened.dst as usize).and_then(Option::as_ref) {
                edge.cap(bytes, &s, control.window_cap(edge.opened.flow));
            }
        }
        let (route, workload) = (if forward { edge.forth } else { edge.back }, edge.opened.workload);
        if forward && (s.reset || s.flags & flag::FIN != 0) && !edge.closed {
            edge.closed = true;
            let flow = FlowId(edge.opened.flow);
            self.open.remove(&port);
            self.placed.remove(&port);
            self.tell_closed(now, workload, flow);
        }
        Some(route)
    }

    fn tell_closed(&mut self, now: Time, workload: u32, flow: FlowId) {
        if let Some(c) = self.collectives.iter_mut().find(|c| c.workloads.contains(&workload)) {
            c.controller.on_close(now, flow);
            self.transitions.extend(c.controller.take_transitions());
        }
    }

    /// A connection begins: its first SYN has been read.
    fn admit(&mut self, now: Time, port: u16) {
        let announced = self.announced.lock().unwrap_or_else(|e| e.into_inner()).remove(&port);
        let Some(opened) = announced else { return };
        if let Some(old) = self.edges.remove(&port) {
            self.retire(now, &old);
        }
        let (seed, run) = self.seed;
        let mut rng = route_stream(seed, run, opened.key);
        let ways = (
            self.net.draw(&self.topology, opened.src, opened.dst, &mut rng),
            self.net.draw(&self.topology, opened.dst, opened.src, &mut rng),
        );
        // The applications have found these ways before they announced the connection.
        let (Ok(forth), Ok(back)) = ways else { return };
        let (suite, cfg) = &self.protocols[opened.protocol as usize];
        let stream = || Stream::new(seed, run, Entity::Host, opened.key);
        let controller = self.steered[opened.protocol as usize].then(|| (suite.endpoint)(cfg, &stream));
        let cfg = cfg.clone();
        if let Some(c) = self.collectives.iter_mut().find(|c| c.workloads.contains(&opened.workload)) {
            let mut path = Vec::new();
            self.net.path(forth, &mut path);
            let router = path.last().map_or(opened.dst, |last| self.topology.links[*last as usize].from);
            let peer = Peer { host: opened.dst, router, class: opened.class };
            c.controller.on_open(now, FlowId(opened.flow), peer);
            self.transitions.extend(c.controller.take_transitions());
        }
        let edge = Edge::new(opened, port, cfg, (forth, back), controller, now);
        edge.steer(self.handle.as_deref());
        let at = edge.deadline();
        self.edges.insert(port, edge);
        self.open.insert(port);
        if self.placed.len() < self.series_flows as usize {
            self.placed.insert(port);
        }
        self.arm_edge(port, at);
    }

    fn retire(&mut self, now: Time, edge: &Edge) {
        let total = self.over.entry(edge.opened.flow).or_default();
        total.add(&edge.counters);
        if let Some(control) = self.receive.get_mut(edge.opened.dst as usize).and_then(Option::as_mut) {
            control.on_close(now, edge.opened.flow);
        }
        if !edge.closed {
            self.tell_closed(now, edge.opened.workload, FlowId(edge.opened.flow));
        }
    }

    /// Counts lost packets with their connections and frees their slots.
    fn take_lost(&mut self) {
        while let Some((_, id)) = self.net.next_lost() {
            if let Some(edge) = self.edges.get_mut(&self.frames[id as usize].edge) {
                edge.counters.drops += 1;
            }
            self.net.arena.release(id);
        }
    }

    fn on_arrival(&mut self, at: Time) {
        let arrived = self.net.arrive(at);
        self.take_lost();
        if let Some(Arrived { cell, .. }) = arrived {
            self.deliver(at, cell.to, cell.packet);
        }
    }

    /// Hands a packet to the kernel of its host.
    fn deliver(&mut self, at: Time, node: u32, id: u32) {
        let (packet, header) = self.net.arena.segment(id);
        let (packet, header): (Packet, CcHeader) = (*packet, *header);
        let frame = &mut self.frames[id as usize];
        let s = frame.segment;
        let (mut wake, mut behind) = (None, false);
        if let Some(edge) = self.edges.get_mut(&frame.edge) {
            if edge.is_forward(&s) {
                behind = self.waits.gap(node) && !edge.is_next(&s);
                edge.on_forward_in(&header);
                if let Some(control) =
                    self.receive.get_mut(node as usize).and_then(Option::as_mut).filter(|_| s.payload > 0)
                {
                    control.on_data(at, edge.opened.flow, &packet);
                }
                // Queues are first in, first out: only what is sent again comes after this.
                if s.reset || s.flags & flag::FIN != 0 {
                    let flow = edge.opened.flow;
                    if let Some(control) = self.receive.get_mut(node as usize).and_then(Option::as_mut) {
                        control.on_close(at, flow);
                    }
                }
            } else {
                let news = edge.on_back_in(at, &s, &header, self.handle.as_deref());
                let workload = edge.opened.workload;
                if let Some(c) = self.collectives.iter_mut().find(|c| c.workloads.contains(&workload)) {
                    let (host, flow) = (&mut c.controller, FlowId(edge.opened.flow));
                    if let Some(event) = news.congestion {
                        host.on_congestion(at, flow, &edge.view, event);
                    }
                    if news.bytes > 0 {
                        let (bytes, ece, rtt, sent_at) = (news.bytes, news.ece, news.rtt, news.sent_at);
                        let ack = Ack { now: at, bytes, ece, sent_at, rtt, header: &header };
                        host.on_ack(flow, &ack, &edge.view);
                    }
                    self.transitions.extend(host.take_transitions());
                    if let Some(cap) = host.cap(flow) {
                        edge.cap(&mut frame.bytes, &s, cap.0);
                    }
                }
                wake = Some((frame.edge, edge.deadline()));
            }
        }
        if packet.ecn == Ecn::Ce && s.ecn != Ecn::Ce {
            wire::set_ce(&mut frame.bytes);
        }
        let device = self.devices[node as usize].as_ref();
        let empty = |d: Option<&OwnedFd>| d.is_some_and(|d| !sys::readable(d));
        let before = empty(device);
        let now = self.clock.now();
        if self.measuring {
            if self.lag.record(at, now) {
                self.pauses.woke(at, now);
                self.waits.woke(now.since(at));
            }
            self.turns.count(s.payload > 0, behind);
        }
        if s.payload > 0 {
            self.waits.data(node, now, self.measuring);
        }
        self.late.moves(now);
        let taken = device.is_some_and(|d| sys::write(d, &frame.bytes[..frame.len]));
        if self.measuring {
            let done = self.clock.now();
            if let Some((began, took)) = self.lag.done(done, s.payload > 0) {
                self.pauses.woke(began, done);
                self.waits.woke(took);
            }
        }
        // The kernel handles a packet within this write: what it answers or releases at once is there now.
        self.turns.hand(node, now, s.payload > 0, (before, empty(device)));
        // Once the applications have stopped, their hosts end, and packets in flight do not matter.
        if !taken && !self.stop.load(Ordering::Relaxed) {
            self.refused += 1;
        }
        self.net.arena.release(id);
        if let Some((port, at)) = wake {
            self.arm_edge(port, at);
        }
    }

    // ---- deadlines and samples -------------------------------------------------------------------------

    fn arm_edge(&mut self, port: u16, at: Time) {
        if at != Time::NEVER && self.edge_wake.entry(port).or_default().arm(at) {
            self.net.deadlines.push(at, Wake::Host, u32::from(port));
        }
    }
    fn on_deadline(&mut self, now: Time) {
        let Some((at, kind, number)) = self.net.deadlines.pop() else { return };
        if kind != Wake::Host {
            self.net.on_deadline(now, kind, number);
            self.take_lost();
            return;
        }
        let port = number as u16;
        if !self.edge_wake.entry(port).or_default().fired(at) {
            return;
        }
        if let Some(edge) = self.edges.get_mut(&port) {
            edge.on_deadline(now, self.handle.as_deref());
            let next = edge.deadline();
            self.arm_edge(port, next);
        }
    }

    fn counters(&self) -> BTreeMap<u32, EdgeCounters> {
        let mut all = self.over.clone();
        for edge in self.edges.values() {
            let total = all.entry(edge.opened.flow).or_default();
            total.add(&edge.counters);
        }
        all
    }
    fn end_warmup(&mut self) {
        self.measuring = true;
        self.net.reset_stats(self.warmup);
        self.take_lost();
        self.baseline = self.counters();
    }
    fn on_sample(&mut self, at: Time) {
        self.next_sample = self.interval.map_or(Time::NEVER, |i| at + i);
        for edge in self.open.iter().filter_map(|port| self.edges.get(port)) {
            let (alpha, measuring) = (&mut self.alpha, self.measuring);
            edge.observe(&mut |metric, value| {
                if measuring && metric.is(&ALPHA) {
                    alpha.add(value);
                }
            });
        }
        if !self.keep_series {
            return;
        }
        for p in &self.sampled {
            self.net.look(at, *p);
            let port = &self.net.ports()[*p as usize];
            let samples = &mut self.samples;
            metrics::series::look(port, &mut |metric, value| {
                samples.push(Sample { at, entity: metrics::Entity::Port, number: *p, metric, value });
            });
        }
        self.take_lost();
        for edge in self.placed.iter().filter_map(|port| self.edges.get(port)) {
            let (samples, number) = (&mut self.samples, edge.opened.flow);
            edge.observe(&mut |metric, value| {
                samples.push(Sample { at, entity: metrics::Entity::Flow, number, metric, value });
            });
        }
    }

    fn finish(mut self, now: Time, real_time: bool) -> Remains {
        if !self.measuring {
            self.warmup = self.warmup.min(now);
            self.end_warmup();
        }
        self.net.settle(now);
        self.take_lost();
        self.net.check(0);
        let mut counters = self.counters();
        for (flow, before) in &self.baseline {
            if let Some(total) = counters.get_mut(flow) {
                *total = total.since(before);
            }
        }
        Remains {
            topology: self.topology,
            packet_hops: self.net.packet_hops,
            ports: self.net.into_ports(),
            counters,
            lag: self.lag,
            turns: self.turns,
            waits: self.waits,
            pauses: self.pauses,
            samples: self.samples,
            alpha: self.alpha,
            refused: self.refused,
            foreign: self.foreign,
            real_time,
            over: Dur::ZERO,
            transitions: self.transitions,
            _devices: self.devices,
        }
    }
}
