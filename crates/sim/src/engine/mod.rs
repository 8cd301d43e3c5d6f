//! The loop: take the next event, let the object concerned handle it, re-arm its one deadline.
//!
//! Hosts are known by [`penstock_host::Stack`] only. A call to one is followed by `Engine::settle`: its news are acted on (an
//! application that reacts comes first), then it sends, then it says when it wants to be woken up.

mod applications;
mod connections;
mod hosts;
mod nodes;
mod openings;
pub(crate) mod part;
mod routes;
mod stuck;
pub mod tracing;

use crate::bottleneck::Bottleneck;
use crate::events::{Ties, Wake};
use crate::flow::{self, Flow};
use crate::ideal::Lengths;
use crate::measured::{Measured, StandingStill};
use crate::metrics::Recorder;
use crate::network::{pause_of, Conservation, Network};
use crate::numbers::{ByFlow, Numbers};
use crate::setup::Setup;
use crate::topology::{Keys, Topology};
use crate::workloads::dispatch::{Applications, Due};
use hosts::{HostStack, Hosts, Seen, Wire};
use penstock_core::packet::flag;
use penstock_core::receive::ReceiveController;
use penstock_core::tcp::{TcpConfig, TimeoutKind};
use penstock_core::{FlowId, ParamError};
use penstock_fabric::{Cell, Port};
use penstock_host::latency::{ApplicationThread, NetworkThread};
use penstock_host::pool::BoxPool;
use penstock_host::{Exchanged, Net, Opening, StackEvent};
use penstock_models::Suite;
use penstock_units::{Dur, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Shared with whoever watches the run: progress out, cancellation in.
#[derive(Default)]
pub struct Progress {
    /// How far the run is, in picoseconds of its simulated time.
    pub now_ps: AtomicU64,
    /// Simulated time at the end, in picoseconds.
    pub end_ps: AtomicU64,
    /// Set to stop the run early; partial results are kept.
    pub cancelled: AtomicBool,
    /// Why the run is made on fewer threads than it may be, as soon as that is known: mostly before it begins.
    pub note: Mutex<Option<String>>,
}

impl Progress {
    /// Tells whoever watches why the run is made on fewer threads than it may be.
    pub fn say(&self, note: &str) {
        *self.note.lock().unwrap_or_else(PoisonError::into_inner) = Some(note.to_owned());
    }
}

/// How far [`Engine::step`] came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// It is not over.
    More,
    /// Nothing happens any more before its end.
    Done,
    /// It was cancelled.
    Cancelled,
}

/// A run in progress.
pub struct Engine {
    now: Time,
    wire: Wire,
    hosts: Hosts,
    /// The host whose news are acted on: it sends when that is done. [`NOBODY`] when no host's are.
    busy: u32,
    /// The host that is ahead of the others, where windows are worked through node by node; [`NOBODY`] while all are in step.
    ahead: u32,
    flows: flow::Flows,
    /// Numbers of the connections that open.
    numbers: Numbers,
    /// Connections that have opened so far.
    opened: u32,
    open: flow::Open,
    /// Boxes of flows and writes that are over.
    over: BoxPool<Flow, { flow::KEPT }>,
    written: flow::Written,
    apps: Applications,
    /// Workloads in the charge of each host controller.
    groups: Vec<Vec<u32>>,
    /// Room for news that are acted on.
    heard: Vec<(Time, StackEvent)>,
    /// When an application acts next, or something is done that one has asked for.
    next_app: Time,
    /// The thread of all applications, where its work takes time.
    writer: Option<Box<ApplicationThread>>,
    /// Identities of connections.
    keys: Keys,
    /// Connections whose receiver is here and of which no packet has arrived, with the stack that they are for.
    coming: BTreeMap<u32, (usize, Opening)>,
    /// What is known of the ways of connections that open.
    routes: routes::Known,
    /// The ports of a way, while they are looked at.
    path: [Vec<u32>; 2],
    /// Room for the applications that are due.
    due: Vec<Due>,
    setup: SetupRest,
    measuring: bool,
    stopped: bool,
    /// Waits for delayed ACKs, where receivers delay any.
    waits: Option<Waits>,
    /// When a packet reached its host last.
    heard_at: Time,
    /// Workloads whose receivers have everything.
    received: BTreeSet<u32>,
    /// When that was true of all workloads: what is measured ends then.
    over_at: Time,
    stuck: Option<StandingStill>,
    /// All parts of a divided run have to hear of a look for deadlocks before this one goes on.
    looked: bool,
    /// When the event before the current one happened.
    before: Time,
    /// The last look at the network that followed an event other than a look, or a look after it: when that event happened, and the look.
    silence: (Time, Time),
    /// Deliveries and deadlines are looked at: packets are recorded, or the run is divided.
    watched: bool,
    /// Where this is one part of a run that is divided, or the whole of one that is worked through by windows.
    part: Option<Box<part::Part>>,
    /// Connections that open before the end of this window.
    openings: openings::Openings,
    /// Its network is worked through by windows, node by node.
    nodes: Option<Box<nodes::Nodes>>,
    /// What has been recorded.
    pub recorder: Recorder,
}

/// Time in which nothing was under way and nothing happened until a delayed ACK left, for the blocks that waited for it.
#[derive(Default)]
struct Waits {
    /// Since the last block ended or a retransmission timer went off.
    pending: Dur,
    /// Up to here it is counted.
    until: Time,
}

struct SetupRest {
    topology: Topology,
    protocols: Vec<(Suite, Arc<TcpConfig>)>,
    protocol_names: Vec<String>,
    /// Lengths of the packets of each protocol.
    lengths: Vec<Lengths>,
    end: Time,
    /// Until then hops concern the network alone: not for a moment where a machine that the hosts share comes to every hop.
    alone: Time,
    warmup: Time,
    seed: u64,
    run: u64,
    /// Delay of the shortest link.
    least_delay: Dur,
    ties: Ties,
    bottleneck: Bottleneck,
    notes: Vec<String>,
    idle: Vec<usize>,
}

/// Packets delivered, and other events, between two looks at [`Progress::cancelled`].
const BUDGET: u32 = 1 << 14;
/// No host.
const NOBODY: u32 = u32::MAX;

impl Engine {
    /// Builds the network and asks every workload for its first event.
    ///
    /// # Errors
    /// What [`Setup::check`] finds.
    pub fn new(setup: Setup) -> Result<Engine, ParamError> {
        Engine::of(setup, |_| true)
    }
    /// The same with those hosts only that are `here`.
    fn of(setup: Setup, here: impl Fn(u32) -> bool) -> Result<Engine, ParamError> {
        Engine::build(setup, here, None)
    }
    /// The same, for a partition fuzz where it has a seed.
    pub(crate) fn build(
        mut setup: Setup,
        here: impl Fn(u32) -> bool,
        shuffle: Option<u64>,
    ) -> Result<Engine, ParamError> {
        setup.check()?;
        #[cfg_attr(not(debug_assertions), allow(unused_mut))]
        let mut net = Network::new(&setup)?;
        #[cfg(debug_assertions)]
        shuffle.into_iter().for_each(|seed| net.shuffle(setup.ties, seed));
        #[cfg(not(debug_assertions))]
        debug_assert!(shuffle.is_none());
        let groups: Vec<_> = setup.collectives.iter().map(|c| c.workloads.clone()).collect();
        setup.recorder.grouped = !groups.is_empty();
        // Cards and ports are replayed when what left them before arrives, or at the end of the window of that.
        setup.recorder.late =
            setup.topology.links.iter().map(|link| link.delay).max().unwrap_or_default() * 2;
        let all = setup.topology.hosts();
        let numbers = Numbers::of(setup.topology.nodes.len(), &all, &here);
        let away = if all.iter().all(|host| here(*host)) {
            Vec::new()
        } else {
            (0..setup.topology.nodes.len() as u32).map(|node| !here(node)).collect()
        };
        let hosts = Hosts::new(&mut setup, &here)?;
        let reception = NetworkThread::of(&setup.latency, setup.seed, setup.run, hosts.pull);
        let writer = ApplicationThread::of(&setup.latency, setup.seed, setup.run);
        let lengths = (0..setup.protocols.len()).map(|position| setup.lengths_of(position)).collect();
        let Setup { topology, protocols, seed, run, .. } = setup;
        let end = Time::ZERO + setup.duration;
        let delays = protocols.iter().any(|(suite, cfg)| suite.stack.is_none() && cfg.delayed_ack > 1);
        let delays_of_links = topology.links.iter().map(|link| link.delay);
        let linger = delays_of_links.filter(|delay| *delay > Dur::ZERO).min().unwrap_or_default();
        let alone = if reception.is_some() { Time::ZERO } else { end };
        let mut engine = Engine {
            now: Time::ZERO,
            wire: Wire { net, told: Vec::new(), own: ByFlow::new(all.len()), chooses: hosts.own, reception },
            hosts,
            busy: NOBODY,
            ahead: NOBODY,
            flows: flow::Flows::new(all.len()),
            opened: 0,
            open: flow::Open::default(),
            over: BoxPool::default(),
            written: BoxPool::default(),
            due: Vec::new(),
            apps: Applications::of(setup.workloads, linger, numbers.clone(), away),
            numbers,
            groups,
            heard: Vec::new(),
            keys: Keys::default(),
            coming: BTreeMap::new(),
            routes: routes::Known::default(),
            path: Default::default(),
            next_app: Time::NEVER,
            writer,
            setup: SetupRest {
                topology,
                protocols,
                lengths,
                protocol_names: setup.protocol_names,
                end,
                alone,
                warmup: Time::ZERO + setup.warmup,
                seed,
                run,
                least_delay: linger,
                ties: setup.ties,
                bottleneck: setup.bottleneck,
                notes: setup.notes,
                idle: setup.idle,
            },
            measuring: setup.warmup == Dur::ZERO,
            stopped: false,
            waits: delays.then(Waits::default),
            heard_at: Time::ZERO,
            received: BTreeSet::new(),
            over_at: Time::NEVER,
            stuck: None,
            looked: false,
            before: Time::ZERO,
            silence: (Time::ZERO, Time::ZERO),
            watched: false,
            part: None,
            openings: openings::Openings::default(),
            nodes: None,
            recorder: setup.recorder,
        };
        engine.look_ahead();
        if engine.recorder.keep_deliveries {
            engine.look_at_deliveries();
        }
        if engine.measuring {
            engine.recorder.start(Time::ZERO);
        }
        Ok(engine)
    }

    /// Runs to the end, to a workload's stop, or to a cancellation; true when it was not cancelled.
    ///
    /// # Errors
    /// A workload that asks for an impossible flow.
    pub fn run(&mut self, progress: &Progress) -> Result<bool, ParamError> {
        let completed = self.step(Time::NEVER, progress)? != Step::Cancelled;
        self.end(completed)?;
        progress.now_ps.store(self.setup.end.0, Ordering::Relaxed);
        Ok(completed)
    }
    /// Handles what happens up to and including `until`. [`Self::run`] is this to the end, and [`Self::end`].
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn step(&mut self, until: Time, progress: &Progress) -> Result<Step, ParamError> {
        progress.end_ps.store(self.setup.end.0, Ordering::Relaxed);
        let mut budget = 0u32;
        while !self.stopped {
            // What concerns the network alone, and the next packet that is at its destination.
            let mut quiet = self.wire.net.deadlines.peek().min(self.next_app);
            quiet = quiet.min(self.recorder.next_sample()).min(self.setup.alone).min(until);
            if !self.measuring {
                quiet = quiet.min(Time(self.setup.warmup.0.saturating_sub(1)));
            }
            let hosts = &self.hosts;
            let soon = |host, packet: Option<(&_, _)>| hosts.fetch(host, packet);
            let arrived = if self.hosts.pull {
                self.wire.net.arrive_from_switches(quiet, &mut self.now, soon)
            } else {
                self.wire.net.arrive_until(quiet, &mut self.now, soon)
            };
            if let Some(cell) = arrived {
                self.take_lost_on_hop();
                self.deliver(&cell)?;
                if self.is_cancelled(progress, &mut budget) {
                    return Ok(Step::Cancelled);
                }
                continue;
            }
            self.take_lost_on_hop();
            let arrival = self.wire.net.next_arrival();
            let deadline = self.wire.net.deadlines.peek();
            let other = self.next_app.min(self.recorder.next_sample());
            let next = arrival.min(deadline).min(other);
            if !self.measuring && next >= self.setup.warmup && until >= self.setup.warmup {
                self.end_warmup(self.setup.warmup)?;
                // Hosts that were behind may have asked for something before that.
                continue;
            }
            if next > until.min(self.setup.end) {
                return Ok(if until < self.setup.end { Step::More } else { Step::Done });
            }
            debug_assert!(next >= self.now, "time goes back from {} to {next}", self.now);
            self.before = self.now;
            self.now = next;
            if arrival == next {
                self.on_arrival()?;
            } else if deadline == next {
                self.on_deadline()?;
                if std::mem::take(&mut self.looked) {
                    return Ok(Step::More);
                }
            } else if self.next_app == next {
                self.on_apps()?;
            } else {
                self.on_sample()?;
            }
            if self.is_cancelled(progress, &mut budget) {
                return Ok(Step::Cancelled);
            }
        }
        Ok(Step::Done)
    }
    /// Now and then: says how far the run is, and hears whether it is to end.
    #[inline]
    fn is_cancelled(&self, progress: &Progress, budget: &mut u32) -> bool {
        *budget += 1;
        if *budget < BUDGET {
            return false;
        }
        *budget = 0;
        progress.now_ps.store(self.so_far(), Ordering::Relaxed);
        progress.cancelled.load(Ordering::Relaxed)
    }
    /// How far the run is, as a time between its beginning and its end: where all workloads have an end of their own, which may come long
    /// before that of the run, by the work that is complete.
    fn so_far(&self) -> u64 {
        let work = self.apps.progress().unwrap_or(0.0);
        self.now.0.max((work * self.setup.end.0 as f64) as u64)
    }
    /// The run is over: what is left is counted.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn end(&mut self, completed: bool) -> Result<(), ParamError> {
        if !self.stopped && completed {
            self.find_stuck();
            self.now = self.setup.end;
        }
        if !self.measuring {
            // It ended before its warm-up: nothing is measured.
            self.end_warmup(self.now)?;
        }
        self.finish()
    }

    // ---- packets -------------------------------------------------------------------------------------

    fn on_arrival(&mut self) -> Result<(), ParamError> {
        if self.hosts.pull {
            return self.on_arrival_with_pulls();
        }
        let arrived = self.wire.net.arrive(self.now);
        self.take_lost_on_hop();
        match arrived {
            Some(packet) => self.deliver(&packet.cell),
            None if self.wire.reception.is_some() => {
                self.pass();
                Ok(())
            }
            None => Ok(()),
        }
    }
    /// A packet was at a switch: the machine that the hosts share has come to it.
    #[cold]
    fn pass(&mut self) {
        if let Some(machine) = &mut self.wire.reception {
            machine.comes_at(self.now);
        }
    }
    /// An event of a host's own port: first what its network card would have pulled meanwhile.
    #[inline(never)]
    fn on_arrival_with_pulls(&mut self) -> Result<(), ParamError> {
        let port = self.wire.net.arriving();
        let host = self.wire.net.from(port);
        let own = self.hosts.is_host(host);
        if own {
            self.hosts.at(host).nic.advance(self.now, &mut self.wire);
            self.take_replayed();
            debug_assert_eq!(self.wire.net.arriving(), port);
        }
        let arrived = self.wire.net.arrive(self.now);
        self.take_lost_on_hop();
        match arrived {
            Some(packet) => self.deliver(&packet.cell)?,
            None => self.pass(),
        }
        if own {
            self.settle(host)?;
        }
        Ok(())
    }

    /// A packet is at its host.
    #[inline(always)]
    fn deliver(&mut self, cell: &Cell) -> Result<(), ParamError> {
        self.heard_at = self.now;
        if self.watched {
            return self.deliver_watched(cell);
        }
        self.hand_over(cell)
    }
    #[inline(always)]
    fn hand_over(&mut self, cell: &Cell) -> Result<(), ParamError> {
        let host = cell.to;
        self.find_end(cell);
        #[cfg(debug_assertions)]
        let seen = self.witness_arrival(cell);
        let h = self.hosts.at(host);
        let done = h.nic.receive_and_send(self.now, cell, &mut self.wire);
        if done == Exchanged::Armed {
            h.arm(self.now, host, &mut self.wire.net.deadlines);
        }
        #[cfg(debug_assertions)]
        self.witness_delivery(seen);
        if done == Exchanged::Told {
            return self.settle(host);
        }
        self.take_lost();
        Ok(())
    }

    /// After a call to a host: acts on its news, lets it send, and asks for its next wake-up.
    #[inline(never)]
    fn settle(&mut self, host: u32) -> Result<(), ParamError> {
        // Packets that the card lost before the news.
        self.take_lost();
        // What applications do upon news may bring further news, as when they close a connection that owes nothing.
        while !self.wire.told.is_empty() {
            let outer = std::mem::replace(&mut self.busy, host);
            let heard = self.hear();
            self.busy = outer;
            heard?;
        }
        let h = self.hosts.at(host);
        h.nic.transmit(self.now, &mut self.wire);
        if self.ahead == NOBODY || self.nodes.is_some() {
            h.arm_when_kicked(self.wire.awake_at(self.now), host, &mut self.wire.net.deadlines);
        }
        self.take_lost();
        Ok(())
    }

    /// [`Self::take_lost`] after a packet has reached the other end of a link.
    #[inline(always)]
    fn take_lost_on_hop(&mut self) {
        if self.watched {
            self.begin_hop();
        }
        self.take_lost();
    }
    /// Counts lost packets with their flows and frees their slots.
    #[inline(always)]
    fn take_lost(&mut self) {
        if self.wire.net.has_lost() {
            self.count_lost(false);
        }
    }
    /// [`Self::take_lost`] after the replay of a card. When that comes depends on the order of work, so what is lost in it comes before all else of the
    /// instant at which it happened.
    #[inline(always)]
    fn take_replayed(&mut self) {
        if self.wire.net.has_lost() {
            self.count_lost(true);
        }
    }
    #[cold]
    fn count_lost(&mut self, replayed: bool) {
        while let Some((at, id)) = self.wire.net.next_lost() {
            let packet = &self.wire.net.arena.packets[id as usize];
            let flow = packet.flow;
            if self.measuring && packet.has(flag::SYN) {
                self.recorder.syn_drops += 1;
            }
            if self.part.is_some() {
                if let Some(row) = self.known_row_of(flow) {
                    self.own_part().lose(flow, row, at, replayed);
                }
            } else if let Some(f) = self.flows.at_mut(flow) {
                f.drop_packet();
                if replayed || at < self.now {
                    self.recorder.lost_before(at, f.row);
                }
            }
            self.wire.net.arena.release(id);
        }
    }

    /// Acts on what stacks have told.
    #[cold]
    fn hear(&mut self) -> Result<(), ParamError> {
        if self.wire.told.len() <= 2 {
            // Nearly always: they need no list to wait in.
            let Some((at, stack_events)) = self.wire.told.pop() else { return Ok(()) };
            if let Some((at, first)) = self.wire.told.pop() {
                self.on_stack_event(at, first)?;
            }
            return self.on_stack_event(at, stack_events);
        }
        let mut told = std::mem::replace(&mut self.wire.told, std::mem::take(&mut self.heard));
        for (at, stack_events) in told.drain(..) {
            self.on_stack_event(at, stack_events)?;
        }
        self.heard = told;
        Ok(())
    }
    fn on_stack_event(&mut self, at: Time, stack_events: StackEvent) -> Result<(), ParamError> {
        self.trace_stack_event(at, &stack_events);
        if self.part.is_some() && self.write_down(at, &stack_events) {
            return Ok(());
        }
        match stack_events {
            StackEvent::Acked { flow, end } => self.complete_writes(flow.0, end)?,
            StackEvent::Delivered { flow, end } => self.complete_deliveries(flow.0, at, end)?,
            StackEvent::Closed { flow } => self.retire(flow.0)?,
            StackEvent::Timeout { flow: FlowId(number), max_sent, record } => {
                // What was waited for was the timeout.
                if let (Some(waits), true) = (&mut self.waits, record.kind != TimeoutKind::Probe) {
                    waits.pending = Dur::ZERO;
                }
                if let (true, Some(flow)) = (self.measuring, self.flows.at(number)) {
                    let lost = self.hosts.missing_below(&flow.ends, max_sent);
                    self.recorder.timeout(at, flow.row, &record, flow.drops(), lost);
                }
            }
            StackEvent::FastRetransmit { flow: FlowId(number), max_sent, outstanding, cwnd } => {
                if let (true, Some(flow)) = (self.measuring, self.flows.at(number)) {
                    let lost = self.hosts.missing_below(&flow.ends, max_sent);
                    self.recorder.fast_retransmit(at, flow.row, outstanding, cwnd, flow.drops(), lost);
                }
            }
            StackEvent::Transition(mut t) => {
                t.flow.0 = self.row_of(t.flow.0);
                self.recorder.transition(&t);
            }
        }
        Ok(())
    }

    /// The timers of a host went off while no packet was under way: were delayed ACKs all that there was to wait for?
    #[cold]
    fn note_late_acks(&mut self, host: u32, before: u64) {
        if self.hosts.late_acks(host) > before {
            let since = self.heard_at;
            if let Some(waits) = &mut self.waits {
                waits.pending += self.now.since(since.max(waits.until));
                waits.until = self.now;
            }
        }
    }

    // ---- deadlines -----------------------------------------------------------------------------------

    fn on_deadline(&mut self) -> Result<(), ParamError> {
        if self.watched {
            self.begin_deadline();
        }
        let order = self.wire.net.deadlines.first().map_or(0, |(_, order, _)| order);
        let (_, kind, number) = self.wire.net.deadlines.pop().expect("peek saw one");
        self.on_wake(kind, order, number)
    }
    /// A wake-up has come that has this place among simultaneous ones.
    fn on_wake(&mut self, kind: Wake, order: u64, number: u32) -> Result<(), ParamError> {
        if kind == Wake::Host {
            let before = self.waits.is_some().then(|| self.hosts.late_acks(number));
            let host = self.hosts.at(number);
            host.wakes.fired();
            if host.is_later(self.now, order, number, &self.wire.net.deadlines) {
                host.arm(self.now, number, &mut self.wire.net.deadlines);
                return Ok(());
            }
            let idle = self.wire.net.next_arrival() == Time::NEVER;
            if self.part.is_some() {
                self.heard_inside(number);
            }
            let host = self.hosts.at(number);
            let done = host.nic.on_timer_and_send(self.now, &mut self.wire);
            if let (Some(before), true) = (before, idle) {
                self.note_late_acks(number, before);
            }
            let host = self.hosts.at(number);
            if done == Exchanged::Told {
                return self.settle(number);
            }
            host.arm(self.now, number, &mut self.wire.net.deadlines);
            self.take_lost();
            return Ok(());
        }
        if kind == Wake::Remove {
            return self.remove_receiver(number);
        }
        if kind == Wake::Pause && self.recorder.keep_pauses {
            self.record_pause(&pause_of(self.now, number));
        }
        if let (Wake::Pause, true) = (kind, self.hosts.pull) {
            let pause = pause_of(self.now, number);
            let host = self.wire.net.from(pause.port);
            if self.hosts.is_host(host) {
                self.hosts.at(host).pause(self.now, pause.priority, pause.on, &mut self.wire);
                return self.settle(host);
            }
        }
        if let (Wake::Change, true) = (kind, self.hosts.pull) {
            return self.on_change(number);
        }
        if kind == Wake::Watch {
            self.note_look();
            self.looked = self.part.is_some();
        }
        self.wire.net.on_deadline(self.now, kind, number);
        self.take_lost();
        self.stopped |= self.wire.net.deadlock().is_some();
        Ok(())
    }
    /// A link fails, recovers or has another rate: network cards that feed it know at once.
    fn on_change(&mut self, number: u32) -> Result<(), ParamError> {
        let links = self.wire.net.changing(number).to_vec();
        let hosts: Vec<(u32, u32)> = links.iter().map(|l| (*l, self.wire.net.from(*l))).collect();
        let hosts: Vec<(u32, u32)> = hosts.into_iter().filter(|(_, h)| self.hosts.is_host(*h)).collect();
        for (_, host) in &hosts {
            self.hosts.at(*host).nic.advance(self.now, &mut self.wire);
        }
        self.take_replayed();
        self.wire.net.on_deadline(self.now, Wake::Change, number);
        self.take_lost();
        for (link, host) in hosts {
            let up = self.wire.net.is_up(link);
            let rate = self.wire.net.ports()[link as usize].rate();
            let nic = &mut self.hosts.at(host).nic;
            nic.set_link(self.now, up, &mut self.wire);
            if nic.config().rate != rate {
                nic.set_rate(self.now, rate, &mut self.wire);
            }
            self.settle(host)?;
        }
        Ok(())
    }

    // ---- measuring -----------------------------------------------------------------------------------

    /// Brings all hosts up to now, where they lag behind.
    fn advance(&mut self) -> Result<(), ParamError> {
        if !self.hosts.pull {
            return Ok(());
        }
        for node in 0..self.setup.topology.nodes.len() as u32 {
            if self.hosts.is_host(node) {
                self.hosts.at(node).nic.advance(self.now, &mut self.wire);
                self.take_replayed();
                self.settle(node)?;
                self.hosts.at(node).count_paused(self.now, &mut self.wire.net);
            }
        }
        Ok(())
    }
    fn end_warmup(&mut self, at: Time) -> Result<(), ParamError> {
        self.now = at.max(self.now);
        self.advance()?;
        self.measuring = true;
        self.wire.net.reset_stats(at);
        self.take_lost();
        self.keep_up();
        for number in self.open.numbers() {
            let Some(flow) = self.flows.at_mut(*number) else { continue };
            flow.set_baseline(self.hosts.counters(flow));
        }
        self.start_deliveries();
        self.recorder.start(at);
        Ok(())
    }

    fn on_sample(&mut self) -> Result<(), ParamError> {
        self.note_look();
        self.advance()?;
        for i in 0..self.recorder.sampled_ports.len() {
            let p = self.recorder.sampled_ports[i];
            self.wire.net.look(self.now, p);
        }
        self.take_lost();
        self.keep_up();
        if self.part.is_some() {
            self.sample_part();
            return Ok(());
        }
        let hosts = &self.hosts;
        let open = self.open.of(&self.flows).map(|flow| Seen { flow, hosts });
        self.recorder.sample(self.now, self.wire.net.ports(), open);
        self.hosts.sampled();
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ParamError> {
        let now = self.now;
        self.advance()?;
        self.wire.net.settle(now);
        self.take_lost();
        for number in std::mem::take(&mut self.open).numbers() {
            if let Some(flow) = self.flows.take(*number) {
                self.keep(flow);
            }
        }
        self.recorder.finish(now.min(self.over_at.max(self.recorder.from)));
        self.wire.net.end_trace(now);
        self.end_deliveries();
        self.wire.net.check(self.hosts.packets_held());
        #[cfg(debug_assertions)]
        self.check_pauses();
        Ok(())
    }

    /// Ports and cards obey the pause frames they were sent. After [`Network::settle`].
    #[cfg(debug_assertions)]
    fn check_pauses(&self) {
        self.wire.net.check_pauses(self.now, |port| {
            let host = self.hosts.get(self.wire.net.from(port)).filter(|_| self.hosts.pull);
            host.map(|host| host.nic.paused())
        });
    }

    /// Time now.
    pub fn now(&self) -> Time {
        self.now
    }
    /// Ports, by number.
    pub fn ports(&self) -> &[Port] {
        self.wire.net.ports()
    }
    /// Packets delivered over one link.
    pub fn packet_hops(&self) -> u64 {
        self.wire.net.packet_hops
    }
    /// Packets accounted for.
    pub fn conservation(&self) -> Conservation {
        self.wire.net.conservation
    }
    /// The receiver-side controller of a node, where it has one.
    pub fn receive_controller(&self, node: u32) -> Option<&dyn ReceiveController> {
        match self.hosts.get(node)?.nic.stack(0) {
            HostStack::Tcp(tcp) => tcp.receive_controller(),
            HostStack::Other(_) => None,
        }
    }
    /// Network.
    pub fn topology(&self) -> &Topology {
        &self.setup.topology
    }
    /// What the run has measured so far.
    pub fn measured(&self) -> Measured<'_> {
        Measured {
            topology: &self.setup.topology,
            protocol_names: &self.setup.protocol_names,
            ports: self.wire.net.ports(),
            bottleneck: self.setup.bottleneck.port(&self.setup.topology, self.wire.net.ports()),
            candidate: self.setup.bottleneck.candidate(),
            recorder: &self.recorder,
            packet_hops: self.wire.net.packet_hops,
            no_way: self.wire.net.no_way,
            returned: self.wire.net.returned,
            protocols: &self.setup.protocols,
            notes: &self.setup.notes,
            idle: &self.setup.idle,
            stopped: self.stopped,
            stuck: self.stuck,
            fabric: self.wire.net.possible,
            deadlock: self.wire.net.deadlock(),
        }
    }
}
