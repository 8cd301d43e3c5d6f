//! A small driver for tests and examples of a transport: hosts with a stack each, a few switches, and an account of every byte.
//!
//! It drives stacks as the simulator does, by [`Nic`] and [`Fabric`], and checks what must hold of every transport. Packets
//! are conserved. A byte is delivered once, after it arrived, and only if it was written.
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
//! Ports: 0..hosts are those of the hosts, and hosts..2 hosts lead from a switch to each host. In a leaf-spine network those
//! from leaf to spine ([`Lab::uplink`]) and from spine to leaf ([`Lab::downlink`]) follow.

mod config;
mod flows;
mod network;
mod wire;
mod witness;

pub use config::{LabConfig, SetPort};
pub use flows::{Event, Flow, Outcome};
pub use network::{Network, Spread};
pub use witness::Witness;

use crate::nic::{Nic, NicConfig};
use crate::stack::{Counters, HostFacts, Opening, Stack, StackEvent};
use crate::timers::Pending;
use alloc::boxed::Box;
use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use penstock_core::rng::Entity;
use penstock_core::{FlowId, Report, Stream};
use penstock_fabric::{Arena, Cell, Fabric, Port, PortConfig};
use penstock_units::{Dur, Rate, Time};
use wire::{kind, Wire};

/// What happens to a link.
#[derive(Clone, Copy, Debug)]
enum Change {
    Start(u32),
    Fail(u32, bool),
    Recover(u32),
    Rate(u32, Rate),
}

struct Running {
    outcome: Outcome,
    opening: Opening,
    witness: Witness,
    open: bool,
    /// The first packet has made the receiving end.
    accepted: bool,
}

/// Hosts, switches, and what happens between them.
pub struct Lab {
    now: Time,
    config: LabConfig,
    wire: Wire,
    hosts: Vec<Nic>,
    /// Times at which each host is called.
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
                delay: config.delay,
                base_rtt,
                longest_wait: Dur::ZERO,
                oversubscription: 1.0,
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
            wakes: vec![Pending::default(); n as usize],
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

    /// Adds a flow. Returns its number.
    pub fn start(&mut self, flow: Flow) -> FlowId {
        assert!(flow.src != flow.dst && flow.bytes > 0, "{flow:?}");
        let number = self.flows.len() as u32;
        let opening = Opening {
            flow: FlowId(number),
            key: u64::from(number),
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
        self.flows.push(Running {
            outcome,
            opening,
            witness: Witness::default(),
            open: false,
            accepted: false,
        });
        self.plan(flow.start, Change::Start(number));
        FlowId(number)
    }
    fn plan(&mut self, at: Time, change: Change) {
        assert!(at >= self.now, "{change:?} at {at}, it is {}", self.now);
        let number = self.changes.len() as u32;
        self.changes.push(change);
        self.wire.push(at, kind::CHANGE, number);
    }
    /// A link fails at a time. Packets that come to it meanwhile wait, or are lost.
    pub fn fail(&mut self, at: Time, port: u32, lose_waiting: bool) {
        self.plan(at, Change::Fail(port, lose_waiting));
    }
    /// A link works again.
    pub fn recover(&mut self, at: Time, port: u32) {
        self.plan(at, Change::Recover(port));
    }
    /// A link has another rate from then on.
    pub fn set_rate(&mut self, at: Time, port: u32, rate: Rate) {
        self.plan(at, Change::Rate(port, rate));
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

    /// Runs until there is no event or the time has come, and checks that packets and bytes are conserved. Returns the time of
    /// the last event.
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
                        self.hosts[number as usize].on_timer(at, &mut self.wire);
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
        if host == flow.opening.dst && flow.open && !core::mem::replace(&mut flow.accepted, true) {
            self.hosts[host as usize].accept(self.now, 0, &flow.opening, &mut self.wire);
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
            let nic = &mut self.hosts[host];
            match change {
                Change::Rate(_, rate) => nic.set_rate(now, rate, &mut self.wire),
                _ => nic.set_link(now, matches!(change, Change::Recover(_)), &mut self.wire),
            }
            self.settle(host as u32);
        }
    }
    /// Acts on events, lets the host send, and sets its next call.
    fn settle(&mut self, host: u32) {
        while !self.wire.told.is_empty() {
            let told = core::mem::take(&mut self.wire.told);
            told.into_iter().for_each(|(at, stack_events)| self.on_stack_event(at, stack_events));
        }
        let nic = &mut self.hosts[host as usize];
        nic.transmit(self.now, &mut self.wire);
        self.arm(host);
        for flow in self.wire.drops.drain(..) {
            self.flows[flow as usize].outcome.drops += 1;
        }
    }
    fn arm(&mut self, host: u32) {
        let at = self.hosts[host as usize].next_timer().max(self.now);
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
        let source = &mut hosts[o.src as usize];
        source.open(now, 0, &o, wire);
        source.write(now, o.at_src, bytes, wire);
        source.close(now, o.at_src, wire);
        source.flush(now, o.at_src, wire);
        self.settle(o.src);
    }
    fn on_stack_event(&mut self, at: Time, stack_events: StackEvent) {
        match stack_events {
            StackEvent::Acked { flow, end } => {
                let f = &mut self.flows[flow.0 as usize];
                assert_eq!(end, f.outcome.flow.bytes, "{flow:?}: acknowledged up to {end}");
                assert!(f.outcome.completed <= at, "{flow:?} is acknowledged before it is delivered");
                f.outcome.acked = at;
            }
            StackEvent::Delivered { flow, end } => {
                let f = &mut self.flows[flow.0 as usize];
                assert_eq!(end, f.outcome.flow.bytes, "{flow:?}: delivered up to {end}");
                assert!(f.outcome.completed == Time::NEVER, "{flow:?} is delivered twice");
                f.witness.complete(flow.0, end);
                f.outcome.completed = at;
            }
            StackEvent::Closed { flow } => self.retire(flow.0),
            StackEvent::Timeout { flow, record, .. } => self.events.push((at, Event::Timeout(flow, record))),
            StackEvent::FastRetransmit { flow, outstanding, cwnd, .. } => {
                self.events.push((at, Event::FastRetransmit(flow, outstanding, cwnd)));
            }
            StackEvent::Transition(t) => self.events.push((at, Event::Transition(t))),
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
            self.hosts[host as usize].remove(self.now, handle, &mut self.wire);
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
            arrived_bytes: s.arrived_bytes + r.arrived_bytes,
            duplicate_bytes: s.duplicate_bytes + r.duplicate_bytes,
            data_packets: s.data_packets + r.data_packets,
            retransmits: s.retransmits + r.retransmits,
            timeouts: s.timeouts + r.timeouts,
            fast_retransmits: s.fast_retransmits + r.fast_retransmits,
            ece_acks: s.ece_acks + r.ece_acks,
            tail_loss_probes: s.tail_loss_probes + r.tail_loss_probes,
            probe_wait: s.probe_wait + r.probe_wait,
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
    pub fn observe(&self, flow: FlowId, report: &mut Report<'_>) {
        let f = &self.flows[flow.0 as usize];
        if f.open {
            self.hosts[f.opening.src as usize].observe(f.opening.at_src, report);
        }
    }
}
