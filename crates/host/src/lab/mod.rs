//! A small driver for tests and examples of a transport: hosts with a stack each, a few switches, and an account of every byte.
//!
//! It drives stacks as the simulator does, by [`Nic`] and [`Fabric`], and checks what must hold of every transport: packets are
//! conserved, a byte is delivered once and only after it arrived, nothing is delivered that was not written.
//!
//! ```
//! # use penstock_host::{lab::Flow, HostFacts, Lab, LabConfig, Network, Stack};
//! # use penstock_units::{Dur, Rate, Time};
//! # fn run(my_stack: fn(&HostFacts) -> Box<dyn Stack>) {
//! let mut lab = Lab::new(LabConfig::new(Network::Star { hosts: 4 }), my_stack);
//! for src in 1..4 {
//!     lab.start(Flow::new(src, 0, 1_000_000));
//! }
//! lab.run(Time::ZERO + Dur::millis(100));
//! assert!(lab.outcomes().iter().all(|f| f.delivered == 1_000_000));
//! # }
//! ```
//!
//! Ports: 0..hosts are those of the hosts; hosts..2 hosts lead from a switch to each host; in a leaf-spine network then follow those from
//! leaf to spine ([`Lab::uplink`]) and from spine to leaf ([`Lab::downlink`]).

mod network;
mod witness;

pub use network::{Network, Spread};
pub use witness::Witness;

use crate::nic::{Net, Nic, NicConfig};
use crate::stack::{Counters, HostFacts, News, Opening, Order, Stack};
use crate::timers::Pending;
use alloc::boxed::Box;
use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use penstock_core::rng::Entity;
use penstock_core::tcp::TimeoutRecord;
use penstock_core::{FlowId, Stream, Transition};
use penstock_fabric::{Arena, BufferConfig, Cell, Fabric, Offered, Pause, Port, PortConfig};
use penstock_units::{Bytes, Dur, Rate, Time};

/// Changes the configuration of port `number` of a lab; the flag tells whether it is a host's.
pub type SetPort = Box<dyn Fn(u32, bool, &mut PortConfig)>;

/// What a lab is made of.
pub struct LabConfig {
    /// Hosts and switches.
    pub network: Network,
    /// Rate of the links at hosts.
    pub rate: Rate,
    /// Rate of the links between switches.
    pub core_rate: Rate,
    /// Propagation delay of every link.
    pub delay: Dur,
    /// Bytes of framing per packet.
    pub framing: u32,
    /// Largest payload of a packet.
    pub mss: u32,
    /// Bytes of headers that a full packet has beside it, for the base round-trip time.
    pub header: u32,
    /// Which connection of a host is asked first.
    pub order: Order,
    /// How a leaf chooses a spine.
    pub spread: Spread,
    /// What ports are otherwise: limits, marking, trimming, loss, reordering, telemetry. Made plain and without limit first.
    pub port: SetPort,
    /// The shared buffer of every switch, for so many ports and links into it; `None` = ports on their own.
    pub buffer: Option<Box<dyn Fn(u16, u16) -> BufferConfig>>,
    /// The queue below the transport is endless.
    pub endless: bool,
    /// See [`NicConfig::receive_delay`].
    pub receive_delay: Dur,
    /// See [`NicConfig::processing`].
    pub processing: Dur,
    /// Congestion headers are kept per packet.
    pub headers: bool,
    /// Telemetry is kept per packet; [`Self::port`] says which ports write it.
    pub telemetry: bool,
    /// Bytes are delivered in order: no more than what has arrived without a gap.
    pub in_order: bool,
    /// Seed of all random streams.
    pub seed: u64,
}

impl LabConfig {
    /// 10 Gb/s at hosts, 40 Gb/s between switches, 1 us per link, packets of 1,500 bytes, ports without limit, no framing.
    pub fn new(network: Network) -> LabConfig {
        LabConfig {
            network,
            rate: Rate(10_000_000_000),
            core_rate: Rate(40_000_000_000),
            delay: Dur::micros(1),
            framing: 0,
            mss: 1460,
            header: 40,
            order: Order::RoundRobin,
            spread: Spread::PerFlow,
            port: Box::new(|_, _, _| {}),
            buffer: None,
            endless: false,
            receive_delay: Dur::ZERO,
            processing: Dur::ZERO,
            headers: false,
            telemetry: false,
            in_order: true,
            seed: 1,
        }
    }
    /// Smallest round-trip time between the hosts that are farthest apart: a full packet and its answer, both stored and forwarded.
    pub fn base_rtt(&self) -> Dur {
        let (edge, core) = self.network.longest_path();
        let packet = |bytes: u32| {
            let bytes = Bytes(u64::from(bytes + self.framing));
            bytes / self.rate * edge + bytes / self.core_rate * core
        };
        packet(self.mss + self.header) + packet(self.header) + self.delay * (2 * (edge + core))
    }
}

/// A flow to be.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// From host.
    pub src: u32,
    /// To host.
    pub dst: u32,
    /// Bytes.
    pub bytes: u64,
    /// When it begins.
    pub start: Time,
    /// Traffic class, 0..64.
    pub class: u8,
    /// When it should be done.
    pub due: Time,
    /// The stack is told the number of bytes in advance.
    pub sized: bool,
    /// Which of the stack's protocols.
    pub protocol: u32,
    /// Set of applications.
    pub group: u32,
}

impl Flow {
    /// From `src` to `dst` at time 0, of known size.
    pub fn new(src: u32, dst: u32, bytes: u64) -> Flow {
        Flow {
            src,
            dst,
            bytes,
            start: Time::ZERO,
            class: 0,
            due: Time::NEVER,
            sized: true,
            protocol: 0,
            group: Opening::ALONE,
        }
    }
    /// With another start.
    #[must_use]
    pub fn at(mut self, start: Time) -> Flow {
        self.start = start;
        self
    }
}

/// What became of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// The flow.
    pub flow: Flow,
    /// Bytes delivered so far.
    pub delivered: u64,
    /// When the last byte was delivered; [`Time::NEVER`] = not yet.
    pub completed: Time,
    /// When the sender knew of it.
    pub acked: Time,
    /// When it was over.
    pub closed: Time,
    /// Its packets lost in the network.
    pub drops: u64,
    /// Its packets that arrived trimmed.
    pub trims: u64,
    /// Counters of both ends added, as of its end or now.
    pub counters: Counters,
}

/// Something for the records.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// [`News::Timeout`].
    Timeout(FlowId, TimeoutRecord),
    /// [`News::FastRetransmit`]: flow, bytes outstanding, window afterwards.
    FastRetransmit(FlowId, u64, u64),
    /// [`News::Transition`].
    Transition(Transition),
}

/// What happens to a link.
#[derive(Clone, Copy, Debug)]
enum Change {
    Start(u32),
    Fail(u32, bool),
    Recover(u32),
    Rate(u32, Rate),
}

/// Kinds of events, in their order at one instant.
mod kind {
    pub const ARRIVAL: u8 = 0;
    pub const PAUSE: u8 = 1;
    pub const NODE: u8 = 2;
    pub const HOST: u8 = 3;
    pub const CHANGE: u8 = 4;
}

type Key = Reverse<(Time, u8, u32)>;

struct Running {
    outcome: Outcome,
    opening: Opening,
    witness: Witness,
    open: bool,
}

/// All but the hosts: what a network card calls.
struct Wire {
    fabric: Fabric,
    arena: Arena,
    heap: BinaryHeap<Key>,
    told: Vec<(Time, News)>,
    pauses: Vec<Pause>,
    free_pauses: Vec<u32>,
    drops: Vec<u32>,
    sent: u64,
    delivered: u64,
    dropped: u64,
}

impl Wire {
    fn drop(&mut self, slot: u32) {
        self.dropped += 1;
        self.drops.push(self.arena.packets[slot as usize].flow);
        self.arena.release(slot);
    }
    fn push(&mut self, at: Time, kind: u8, number: u32) {
        self.heap.push(Reverse((at, kind, number)));
    }
    fn offer(&mut self, at: Time, port: u32, cell: Cell) -> bool {
        let offered = self.fabric.offer(at, port, cell, &mut self.arena);
        let queued = match offered {
            Offered::Queued(next) | Offered::Trimmed(next) => {
                if let Some(next) = next {
                    self.push(next, kind::ARRIVAL, port);
                }
                true
            }
            Offered::Dropped(_) => {
                self.drop(cell.packet);
                false
            }
        };
        self.drain();
        queued
    }
    /// Takes what happened in the fabric beside the answers to calls.
    fn drain(&mut self) {
        if !self.fabric.effects().any() {
            return;
        }
        let fx = core::mem::take(self.fabric.effects());
        fx.lost.iter().for_each(|lost| self.drop(lost.cell.packet));
        fx.heads.iter().for_each(|(at, port)| self.push(*at, kind::ARRIVAL, *port));
        fx.wakes.iter().for_each(|(at, node)| self.push(*at, kind::NODE, *node));
        for pause in &fx.pauses {
            let slot = self.free_pauses.pop().unwrap_or_else(|| {
                self.pauses.push(*pause);
                self.pauses.len() as u32 - 1
            });
            self.pauses[slot as usize] = *pause;
            self.push(pause.at, kind::PAUSE, slot);
        }
    }
}

impl Net for Wire {
    fn arena(&mut self) -> &mut Arena {
        &mut self.arena
    }
    fn transmit(&mut self, at: Time, port: u32, cell: Cell) -> Option<Time> {
        self.sent += 1;
        let queued = self.offer(at, port, cell);
        queued.then(|| self.fabric.ports()[port as usize].free_at())
    }
    fn tell(&mut self, at: Time, news: News) {
        self.told.push((at, news));
    }
}

/// Hosts, switches, and what happens between them.
pub struct Lab {
    now: Time,
    config: LabConfig,
    wire: Wire,
    hosts: Vec<Nic>,
    /// When each host is woken up, so far.
    wakes: Vec<Pending>,
    /// Handles of each host that may be used again, and the first never used.
    handles: Vec<(Vec<u32>, u32)>,
    flows: Vec<Running>,
    changes: Vec<Change>,
    rng: Stream,
    events: Vec<(Time, Event)>,
    steps: u64,
}

impl Lab {
    /// A lab with one stack per host, made by `build`.
    ///
    /// # Panics
    /// When the network or a port cannot work.
    pub fn new(config: LabConfig, mut build: impl FnMut(&HostFacts) -> Box<dyn Stack>) -> Lab {
        let net = config.network;
        let (n, base_rtt) = (net.hosts(), config.base_rtt());
        let stream = |kind, i: u32| Stream::new(config.seed, 0, kind, u64::from(i));
        let mut ports = Vec::new();
        for number in 0..net.ports() {
            let rate = if number < 2 * n { config.rate } else { config.core_rate };
            let mut port = PortConfig::plain(rate, config.delay, stream(Entity::Port, number));
            port.framing = config.framing;
            (config.port)(number, number < n, &mut port);
            ports.push(Port::new(number, port).expect("a port that works"));
        }
        let mut fabric = Fabric::new(ports);
        if let Some(buffer) = &config.buffer {
            for node in 0..net.switches() {
                let node_config = net.node(node, buffer, stream(Entity::Pool, node));
                fabric.add_node(node_config).expect("a buffer that works");
            }
        }
        let hosts = (0..n).map(|host| {
            let facts = HostFacts {
                host,
                rate: config.rate,
                base_rtt,
                mss: config.mss,
                framing: config.framing,
                order: config.order,
                seed: config.seed,
                run: 0,
            };
            let nic = NicConfig {
                port: host,
                rate: config.rate,
                delay: config.delay,
                framing: config.framing,
                endless: config.endless,
                receive_delay: config.receive_delay,
                processing: config.processing,
            };
            Nic::new(nic, vec![build(&facts)])
        });
        Lab {
            now: Time::ZERO,
            hosts: hosts.collect(),
            wakes: vec![Pending::NONE; n as usize],
            handles: vec![(Vec::new(), 0); n as usize],
            flows: Vec::new(),
            changes: Vec::new(),
            rng: stream(Entity::Route, 0),
            events: Vec::new(),
            steps: 0,
            wire: Wire {
                fabric,
                arena: match config.telemetry {
                    true => Arena::new(config.headers).with_telemetry(),
                    false => Arena::new(config.headers),
                },
                heap: BinaryHeap::new(),
                told: Vec::new(),
                pauses: Vec::new(),
                free_pauses: Vec::new(),
                drops: Vec::new(),
                sent: 0,
                delivered: 0,
                dropped: 0,
            },
            config,
        }
    }

    // ---- what will happen --------------------------------------------------------------------------------

    /// Adds a flow; answers its number.
    pub fn start(&mut self, flow: Flow) -> FlowId {
        assert!(flow.src != flow.dst && flow.bytes > 0, "{flow:?}");
        let number = self.flows.len() as u32;
        let opening = Opening {
            flow: FlowId(number),
            src: flow.src,
            dst: flow.dst,
            bytes: if flow.sized { flow.bytes } else { 0 },
            class: flow.class,
            due: flow.due,
            forth: self.rng.next_u64() as u32,
            back: self.rng.next_u64() as u32,
            protocol: flow.protocol,
            group: flow.group,
            router: self.config.network.switch_of(flow.dst),
            ..Opening::default()
        };
        let outcome = Outcome {
            flow,
            delivered: 0,
            completed: Time::NEVER,
            acked: Time::NEVER,
            closed: Time::NEVER,
            drops: 0,
            trims: 0,
            counters: Counters::default(),
        };
        self.flows.push(Running { outcome, opening, witness: Witness::default(), open: false });
        self.plan(flow.start, Change::Start(number));
        FlowId(number)
    }
    fn plan(&mut self, at: Time, change: Change) {
        assert!(at >= self.now, "{change:?} at {at}, it is {}", self.now);
        let number = self.changes.len() as u32;
        self.changes.push(change);
        self.wire.push(at, kind::CHANGE, number);
    }
    /// A link fails at a time; what comes to it meanwhile waits, or is lost.
    pub fn fail(&mut self, at: Time, port: u32, lose_waiting: bool) {
        self.plan(at, Change::Fail(port, lose_waiting));
    }
    /// A link works again.
    pub fn recover(&mut self, at: Time, port: u32) {
        self.plan(at, Change::Recover(port));
    }
    /// A link has another rate from then on; not for hosts' ports, whose cards know their rate.
    pub fn set_rate(&mut self, at: Time, port: u32, rate: Rate) {
        assert!(port >= self.config.network.hosts(), "port {port} is a host's");
        self.plan(at, Change::Rate(port, rate));
    }
    /// Port of a host.
    pub fn host_port(&self, host: u32) -> u32 {
        host
    }
    /// Port that leads to a host.
    pub fn port_to(&self, host: u32) -> u32 {
        self.config.network.hosts() + host
    }
    /// Port from `leaf` to `spine`.
    pub fn uplink(&self, leaf: u32, spine: u32) -> u32 {
        self.config.network.uplink(leaf, spine)
    }
    /// Port from `spine` to `leaf`.
    pub fn downlink(&self, spine: u32, leaf: u32) -> u32 {
        self.config.network.downlink(spine, leaf)
    }

    // ---- the run -----------------------------------------------------------------------------------------

    /// Runs until nothing is left to happen or the time has come, and checks that nothing got lost without a word; answers the time
    /// of the last event.
    ///
    /// # Panics
    /// When bytes or packets are not conserved.
    pub fn run(&mut self, end: Time) -> Time {
        while let Some(Reverse((at, _, _))) = self.wire.heap.peek() {
            if *at > end {
                break;
            }
            let Reverse((at, kind, number)) = self.wire.heap.pop().expect("just looked");
            self.now = at;
            self.steps += 1;
            match kind {
                kind::ARRIVAL => self.on_arrival(number),
                kind::PAUSE => self.on_pause(number),
                kind::NODE => {
                    let Wire { fabric, arena, .. } = &mut self.wire;
                    fabric.wake(at, number, arena);
                    self.wire.drain();
                }
                kind::HOST => {
                    if self.wakes[number as usize].fired(at) {
                        self.hosts[number as usize].wake(at, &mut self.wire);
                        self.settle(number);
                    }
                }
                _ => self.on_change(self.changes[number as usize]),
            }
        }
        self.check();
        self.now
    }
    fn on_arrival(&mut self, port: u32) {
        let now = self.now;
        let host = (port < self.config.network.hosts()).then_some(port);
        if let Some(host) = host {
            self.hosts[host as usize].advance(now, &mut self.wire);
        }
        let Wire { fabric, arena, .. } = &mut self.wire;
        let arrival = fabric.arrive(now, port, arena);
        if arrival.next != Time::NEVER {
            self.wire.push(arrival.next, kind::ARRIVAL, port);
        }
        self.wire.drain();
        if let Some(cell) = arrival.packet() {
            match self.config.network.next(port, &cell, self.config.spread, &mut self.rng) {
                Ok(out) => {
                    self.wire.offer(now, out, cell);
                }
                Err(host) => self.deliver(host, cell),
            }
        }
        if let Some(host) = host {
            self.settle(host);
        }
    }
    fn deliver(&mut self, host: u32, cell: Cell) {
        self.wire.delivered += 1;
        assert_eq!(cell.to, host, "a packet for host {} at host {host}", cell.to);
        let packet = &mut self.wire.arena.packets[cell.packet as usize];
        if cell.is_trimmed() {
            (packet.payload, packet.wire_len) = (0, cell.bytes);
        }
        let number = packet.flow;
        let flow = &mut self.flows[number as usize];
        flow.outcome.trims += u64::from(cell.is_trimmed());
        let data = host == flow.opening.dst && packet.payload > 0 && flow.open;
        if data {
            let end = packet.seq + u64::from(packet.payload);
            flow.witness.arrive(packet.seq, end, flow.outcome.flow.bytes);
        }
        self.hosts[host as usize].receive(self.now, &cell, &mut self.wire);
        if data {
            let handed = self.hosts[host as usize].counters(flow.opening.at_dst).delivered_bytes;
            flow.witness.check(number, handed, self.config.in_order);
        }
        self.settle(host);
    }
    fn on_pause(&mut self, slot: u32) {
        let pause = self.wire.pauses[slot as usize];
        self.wire.free_pauses.push(slot);
        if pause.port < self.config.network.hosts() && !self.config.endless {
            self.hosts[pause.port as usize].pause(self.now, pause.priority, pause.on, &mut self.wire);
            self.settle(pause.port);
        } else {
            let Wire { fabric, arena, .. } = &mut self.wire;
            fabric.pause(self.now, &pause, arena);
            self.wire.drain();
        }
    }
    fn on_change(&mut self, change: Change) {
        let now = self.now;
        let hosts = self.config.network.hosts();
        let port = match change {
            Change::Start(flow) => return self.open(flow),
            Change::Fail(port, _) | Change::Recover(port) | Change::Rate(port, _) => port,
        };
        let host = (port < hosts).then_some(port as usize);
        if let Some(host) = host {
            self.hosts[host].advance(now, &mut self.wire);
        }
        let Wire { fabric, arena, .. } = &mut self.wire;
        match change {
            Change::Fail(_, lose_waiting) => fabric.fail(now, port, lose_waiting, arena),
            Change::Recover(_) => fabric.recover(now, port, arena),
            Change::Rate(_, rate) => fabric.set_rate(now, port, rate, arena),
            Change::Start(_) => {}
        }
        self.wire.drain();
        if let Some(host) = host {
            self.hosts[host].set_link(now, matches!(change, Change::Recover(_)), &mut self.wire);
            self.settle(host as u32);
        }
    }
    /// Acts on news, lets the host send, and asks for its next wake-up.
    fn settle(&mut self, host: u32) {
        while !self.wire.told.is_empty() {
            let told = core::mem::take(&mut self.wire.told);
            told.into_iter().for_each(|(at, news)| self.on_news(at, news));
        }
        let nic = &mut self.hosts[host as usize];
        nic.kick(self.now, &mut self.wire);
        self.arm(host);
        for flow in self.wire.drops.drain(..) {
            self.flows[flow as usize].outcome.drops += 1;
        }
    }
    fn arm(&mut self, host: u32) {
        let at = self.hosts[host as usize].deadline().max(self.now);
        if self.wakes[host as usize].arm(at) {
            self.wire.push(at, kind::HOST, host);
        }
    }
    fn open(&mut self, number: u32) {
        let now = self.now;
        let Lab { flows, handles, hosts, wire, .. } = self;
        let running = &mut flows[number as usize];
        let mut handle = |host: u32| {
            let (free, next) = &mut handles[host as usize];
            free.pop().unwrap_or_else(|| {
                *next += 1;
                *next - 1
            })
        };
        let o = &mut running.opening;
        (o.at_src, o.at_dst) = (handle(o.src), handle(o.dst));
        running.open = true;
        let (o, bytes) = (*o, running.outcome.flow.bytes);
        hosts[o.dst as usize].listen(now, 0, &o, wire);
        hosts[o.dst as usize].expect(o.at_dst, bytes);
        self.settle(o.dst);
        let Lab { hosts, wire, .. } = self;
        let source = &mut hosts[o.src as usize];
        source.open(now, 0, &o, wire);
        source.accept(now, o.at_src, bytes, wire);
        source.close(now, o.at_src, wire);
        source.flush(now, o.at_src, wire);
        self.settle(o.src);
    }
    fn on_news(&mut self, at: Time, news: News) {
        match news {
            News::Acked { flow, end } => {
                let f = &mut self.flows[flow.0 as usize];
                assert_eq!(end, f.outcome.flow.bytes, "{flow:?}: acknowledged up to {end}");
                assert!(f.outcome.completed <= at, "{flow:?} is acknowledged before it is delivered");
                f.outcome.acked = at;
            }
            News::Delivered { flow, end } => {
                let f = &mut self.flows[flow.0 as usize];
                assert_eq!(end, f.outcome.flow.bytes, "{flow:?}: delivered up to {end}");
                assert!(f.outcome.completed == Time::NEVER, "{flow:?} is delivered twice");
                f.witness.complete(flow.0, end);
                f.outcome.completed = at;
            }
            News::Closed { flow } => self.retire(flow.0),
            News::Timeout { flow, record, .. } => self.events.push((at, Event::Timeout(flow, record))),
            News::FastRetransmit { flow, outstanding, cwnd, .. } => {
                self.events.push((at, Event::FastRetransmit(flow, outstanding, cwnd)));
            }
            News::Transition(t) => self.events.push((at, Event::Transition(t))),
        }
    }
    fn retire(&mut self, number: u32) {
        let f = &mut self.flows[number as usize];
        assert!(f.open, "flow {number} is closed twice");
        f.outcome.counters = Self::counters(&self.hosts, &f.opening);
        f.outcome.delivered = f.outcome.counters.delivered_bytes;
        let (delivered, bytes) = (f.outcome.delivered, f.outcome.flow.bytes);
        assert_eq!(delivered, bytes, "flow {number} is closed, {delivered} of {bytes} bytes are delivered");
        f.outcome.closed = self.now;
        f.open = false;
        let o = f.opening;
        for (host, handle) in [(o.src, o.at_src), (o.dst, o.at_dst)] {
            self.hosts[host as usize].forget(self.now, handle, &mut self.wire);
            self.handles[host as usize].0.push(handle);
            self.arm(host);
        }
    }
    /// Counters of both ends together.
    fn counters(hosts: &[Nic], o: &Opening) -> Counters {
        let (s, r) = (hosts[o.src as usize].counters(o.at_src), hosts[o.dst as usize].counters(o.at_dst));
        Counters {
            accepted_bytes: s.accepted_bytes,
            established: s.established,
            srtt: s.srtt,
            rtt_mean: s.rtt_mean,
            acked_bytes: s.acked_bytes + r.acked_bytes,
            delivered_bytes: s.delivered_bytes + r.delivered_bytes,
            duplicate_bytes: s.duplicate_bytes + r.duplicate_bytes,
            data_packets: s.data_packets + r.data_packets,
            retransmits: s.retransmits + r.retransmits,
            timeouts: s.timeouts + r.timeouts,
            fast_retransmits: s.fast_retransmits + r.fast_retransmits,
            ece_acks: s.ece_acks + r.ece_acks,
        }
    }
    /// sent = delivered + dropped + held, and the arena agrees.
    fn check(&mut self) {
        self.wire.drops.drain(..).for_each(|flow| self.flows[flow as usize].outcome.drops += 1);
        let w = &self.wire;
        let held = w.fabric.packets_held();
        let inside: u64 = self.hosts.iter().map(Nic::packets_held).sum();
        let live = w.arena.live();
        assert!(
            w.sent == w.delivered + w.dropped + held && live == held + inside,
            "packets are not conserved: sent {}, delivered {}, dropped {}, held {held}, in hosts {inside}, slots {live}",
            w.sent,
            w.delivered,
            w.dropped,
        );
    }

    // ---- what happened -----------------------------------------------------------------------------------

    /// Flows by number, as of now.
    pub fn outcomes(&self) -> Vec<Outcome> {
        let now = |f: &Running| {
            let mut outcome = f.outcome;
            if f.open {
                outcome.counters = Self::counters(&self.hosts, &f.opening);
                outcome.delivered = outcome.counters.delivered_bytes;
            }
            outcome
        };
        self.flows.iter().map(now).collect()
    }
    /// Timeouts, fast retransmits and transitions, in order.
    pub fn events(&self) -> &[(Time, Event)] {
        &self.events
    }
    /// Events handled so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }
    /// Packets sent, delivered and dropped so far.
    pub fn packets(&self) -> (u64, u64, u64) {
        (self.wire.sent, self.wire.delivered, self.wire.dropped)
    }
    /// Time of the last event.
    pub fn now(&self) -> Time {
        self.now
    }
    /// The fabric, with all counters and integrals as of now.
    pub fn fabric(&mut self) -> &Fabric {
        let Wire { fabric, arena, .. } = &mut self.wire;
        fabric.settle(self.now, arena);
        self.wire.drain();
        &self.wire.fabric
    }
    /// The network card of a host.
    pub fn host(&self, host: u32) -> &Nic {
        &self.hosts[host as usize]
    }
    /// Reports internal values of the sending end of an open flow.
    pub fn observe(&self, flow: FlowId, report: &mut dyn FnMut(&'static str, f64)) {
        let f = &self.flows[flow.0 as usize];
        if f.open {
            self.hosts[f.opening.src as usize].observe(f.opening.at_src, report);
        }
    }
}
