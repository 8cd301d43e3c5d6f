//! The hosts of a run: a network card each, with one stack per transport.

use crate::checkpoint::go_on;
use crate::events::{Deadlines, HostWakes, Ties};
use crate::fabric_options::{longest_wait, oversubscription};
use crate::flow::{Ends, Flow, AWAY};
use crate::metrics::{FlowCounters, Sampled};
use crate::network::Network;
use crate::numbers::ByFlow;
use crate::setup::{NicMode, Setup};
use crate::topology::NodeKind;
use penstock_core::host::Transition;
use penstock_core::rng::Entity;
use penstock_core::tcp::TcpConfig;
use penstock_core::{
    Ack, Congestion, FlowId, FlowView, HostController, Packet, ParamError, Peer, Report, Stream,
};
use penstock_fabric::{prefetch_first, Arena, Cell, PRIORITIES};
use penstock_host::latency::NetworkThread;
use penstock_host::{
    ApplicationReads, Counters, Exchange, Exchanged, FastPath, HostFacts, Io, Kind, Net, Nic, NicConfig,
    Opening, Order, Part, Stack, StackEvent, TcpOptions, TcpProtocol, TcpStack,
};
use penstock_models::Suite;
use penstock_units::{Bytes, Dur, Rate, Time};
use std::mem::offset_of;
use std::sync::{Arc, Mutex, PoisonError};

/// The kind of a timer of [`TcpStack::first_timer`] that is a receiver's.
const RECEIVER: u8 = 2;

/// What a receiver gets when its host's time has come.
#[derive(Clone, Copy, Debug)]
pub(super) enum Inside {
    /// The packet in this slot.
    Packet(u32),
    /// Segments of this connection that are merged.
    Segments(u32),
}

/// A transport at a host. TCP is called without a table: it is what most runs are about.
// One per host: the room that the smaller one wastes does not matter.
#[allow(clippy::large_enum_variant)]
pub(super) enum HostStack {
    Tcp(TcpStack),
    Other(Box<dyn Stack>),
}

macro_rules! each {
    ($self:ident, $s:ident => $call:expr) => {
        match $self {
            HostStack::Tcp($s) => $call,
            HostStack::Other($s) => $call,
        }
    };
}

impl Stack for HostStack {
    fn open(&mut self, io: &mut Io<'_>, opening: &Opening, bytes: u64, close: bool) {
        each!(self, s => s.open(io, opening, bytes, close));
    }
    fn accept(&mut self, io: &mut Io<'_>, opening: &Opening) {
        each!(self, s => s.accept(io, opening));
    }
    fn set_peer(&mut self, conn: u32, peer: u32) {
        each!(self, s => s.set_peer(conn, peer));
    }
    fn write(&mut self, io: &mut Io<'_>, conn: u32, bytes: u64) {
        each!(self, s => s.write(io, conn, bytes));
    }
    fn close(&mut self, io: &mut Io<'_>, conn: u32) {
        each!(self, s => s.close(io, conn));
    }
    fn abort(&mut self, io: &mut Io<'_>, conn: u32) {
        each!(self, s => s.abort(io, conn));
    }
    fn remove(&mut self, io: &mut Io<'_>, conn: u32) {
        each!(self, s => s.remove(io, conn));
    }
    #[inline]
    fn receive(&mut self, io: &mut Io<'_>, cell: &Cell) {
        each!(self, s => s.receive(io, cell));
    }
    #[inline]
    fn poll_transmit(&mut self, io: &mut Io<'_>, conn: Option<u32>) -> Option<Cell> {
        each!(self, s => s.poll_transmit(io, conn))
    }
    fn on_departure(&mut self, at: Time) {
        each!(self, s => s.on_departure(at));
    }
    #[inline]
    fn ready_at(&self, paused: u8) -> Time {
        each!(self, s => s.ready_at(paused))
    }
    fn set_link_rate(&mut self, io: &mut Io<'_>, rate: Rate) {
        each!(self, s => s.set_link_rate(io, rate));
    }
    #[inline]
    fn next_timer(&self) -> Time {
        each!(self, s => s.next_timer())
    }
    fn on_timer(&mut self, io: &mut Io<'_>) {
        each!(self, s => s.on_timer(io));
    }
    fn queued(&self) -> u64 {
        each!(self, s => s.queued())
    }
    fn counters(&self, conn: u32) -> Counters {
        each!(self, s => s.counters(conn))
    }
    fn missing_below(&self, conn: u32, end: u64) -> u64 {
        each!(self, s => s.missing_below(conn, end))
    }
    fn observe(&self, conn: u32, report: &mut Report<'_>) {
        each!(self, s => s.observe(conn, report));
    }
    #[inline(always)]
    fn prefetch(&self, conn: u32, part: Part) {
        each!(self, s => s.prefetch(conn, part));
    }
}

impl ApplicationReads for HostStack {
    fn unread(&self) -> bool {
        each!(self, s => s.unread())
    }
    fn read(&mut self) -> bool {
        each!(self, s => s.read())
    }
    fn reply(&mut self) {
        each!(self, s => s.reply());
    }
    fn dupack(&self, conn: u32, packet: &Packet) -> bool {
        each!(self, s => s.dupack(conn, packet))
    }
}

impl FastPath for HostStack {
    #[inline(always)]
    fn receive_and_send<N: Net>(&mut self, io: &mut Exchange<'_, N>, cell: &Cell) -> Exchanged {
        each!(self, s => s.receive_and_send(io, cell))
    }
    #[inline(always)]
    fn on_timer_and_send<N: Net>(&mut self, io: &mut Exchange<'_, N>) -> Exchanged {
        each!(self, s => s.on_timer_and_send(io))
    }
    #[inline]
    fn transmit_all<N: Net>(&mut self, io: &mut Exchange<'_, N>, conn: Option<u32>) {
        each!(self, s => s.transmit_all(io, conn));
    }
    #[inline]
    fn drop_stale_timers(&mut self) {
        each!(self, s => s.drop_stale_timers());
    }
}

/// A host controller in whose charge there may be connections of several hosts: each host's stack has a handle.
struct Shared(Arc<Mutex<Box<dyn HostController>>>);

impl Shared {
    fn with<T>(&self, act: impl FnOnce(&mut dyn HostController) -> T) -> T {
        act(&mut **self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl HostController for Shared {
    fn on_open(&mut self, now: Time, flow: FlowId, peer: Peer) {
        self.with(|c| c.on_open(now, flow, peer));
    }
    fn on_close(&mut self, now: Time, flow: FlowId) {
        self.with(|c| c.on_close(now, flow));
    }
    fn on_ack(&mut self, flow: FlowId, ack: &Ack<'_>, view: &FlowView) {
        self.with(|c| c.on_ack(flow, ack, view));
    }
    fn on_congestion(&mut self, now: Time, flow: FlowId, view: &FlowView, event: Congestion) {
        self.with(|c| c.on_congestion(now, flow, view, event));
    }
    fn cap(&self, flow: FlowId) -> Option<Bytes> {
        self.with(|c| c.cap(flow))
    }
    fn take_transitions(&mut self) -> Vec<Transition> {
        self.with(|c| c.take_transitions())
    }
    fn observe(&self, flow: FlowId, report: &mut Report<'_>) {
        self.with(|c| c.observe(flow, report));
    }
}

/// What network cards call: the network, and a list of what stacks have told.
pub(super) struct Wire {
    pub net: Network,
    pub told: Vec<(Time, StackEvent)>,
    /// By flow: the host it leads to, and what [`penstock_fabric::Forwarding::draw`] has answered for either direction; kept where a
    /// transport may choose paths itself.
    pub own: ByFlow<(u32, u32, u32)>,
    /// Some transport may.
    pub chooses: bool,
    /// The machine that all hosts share, where it is late.
    pub reception: Option<NetworkThread>,
}

impl Wire {
    /// When the machine that all hosts share takes what leaves one at `at` by its port.
    #[cold]
    fn taken_at(&mut self, at: Time, port: u32) -> Time {
        let at = self.reception.as_mut().map_or(at, |machine| machine.taken_at(at));
        self.net.run_ahead(port, at);
        at
    }
}

impl Net for Wire {
    #[inline]
    fn arena(&mut self) -> &mut Arena {
        &mut self.net.arena
    }
    #[inline(always)]
    fn transmit(&mut self, at: Time, port: u32, mut cell: Cell) -> Option<Time> {
        if self.chooses {
            let flow = self.net.arena.packets[cell.packet as usize].flow;
            let (dst, forth, back) = self.own.get(flow).copied().unwrap_or_default();
            cell.entropy = self.net.stamp(if cell.to == dst { forth } else { back }, cell.entropy);
        }
        let at = if self.reception.is_some() { self.taken_at(at, port) } else { at };
        self.net.transmit(at, port, &cell)
    }
    #[inline]
    fn tell(&mut self, at: Time, stack_events: StackEvent) {
        self.told.push((at, stack_events));
    }
    fn seen_at(&mut self, at: Time, data: bool) -> Time {
        self.reception.as_mut().map_or(at, |machine| machine.seen_at(at, data))
    }
    fn turn(&mut self, port: u32, kind: Kind) -> Dur {
        self.reception.as_mut().map_or(Dur::ZERO, |machine| machine.turn(port, kind))
    }
    fn application_lag(&mut self, port: u32) -> Dur {
        self.reception.as_mut().map_or(Dur::ZERO, |machine| machine.application_lag(port))
    }
    fn application_turn(&mut self, port: u32) -> Dur {
        self.reception.as_mut().map_or(Dur::ZERO, |machine| machine.application_turn(port))
    }
    fn awake_at(&self, at: Time) -> Time {
        self.reception.as_ref().map_or(at, |machine| machine.awake_at(at))
    }
    fn timer_at(&mut self, at: Time) -> Time {
        self.reception.as_mut().map_or(at, |machine| machine.timer_at(at))
    }
}

/// A host. What every call of it touches is at its beginning, in [`NEAR`] bytes.
#[repr(C, align(64))]
pub(super) struct Host {
    pub wakes: HostWakes,
    /// The last interval between samples ([`Hosts::interval`]) in which it was called.
    called: u32,
    /// The first handle never used, and those that may be used again.
    next: u32,
    pub nic: Nic<HostStack>,
    free: Vec<u32>,
    /// From when on its paused priorities are, as far as that is not counted yet.
    paused_since: [Time; PRIORITIES],
}

/// So many bytes of a host: up to what TCP has for every packet.
const NEAR: usize = 6 * 64;
const _: () = assert!(offset_of!(Host, nic) + Nic::<HostStack>::BEFORE_STACK + TcpStack::NEAR <= NEAR);

impl Host {
    /// A handle for an end of a connection.
    pub fn handle(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }
    /// The other end of the link stops a priority or lets it go on; its port counts that, though the card obeys it.
    pub fn pause(&mut self, now: Time, priority: u8, on: bool, wire: &mut Wire) {
        self.count_paused(now, &mut wire.net);
        if on && self.nic.paused() & (1 << priority) == 0 {
            self.paused_since[usize::from(priority)] = now;
            wire.net.count_pauses(self.nic.config().port, priority, 1, Dur::ZERO);
        }
        self.nic.pause(now, priority, on, wire);
    }
    /// Counts the time that its priorities have been paused up to now.
    pub fn count_paused(&mut self, now: Time, net: &mut Network) {
        for (priority, since) in (0u8..).zip(&mut self.paused_since) {
            if self.nic.paused() & (1 << priority) != 0 {
                net.count_pauses(self.nic.config().port, priority, 0, now.since(*since));
                *since = now;
            }
        }
    }
    /// True when the deadline of the end for whose sake the host was woken up is gone, and the next one, which is due too, comes after other hosts'
    /// in the order of simultaneous events. `order` is that of the wake-up.
    #[inline]
    pub fn is_later(&self, now: Time, order: u64, host: u32, deadlines: &Deadlines) -> bool {
        let HostStack::Tcp(tcp) = self.nic.stack(0) else { return false };
        let (due, kind, flow) = tcp.first_timer();
        due == now && deadlines.order_of((kind, flow), host) > order && self.nic.next_timer() == now
    }
    /// The handle may be used again.
    pub fn give_back(&mut self, handle: u32) {
        self.free.push(handle);
    }
    /// TCP alone, with nothing to send and no deadline that an end which begins to listen or is over would move.
    pub fn is_still(&self) -> bool {
        self.nic.has_nothing() && matches!(self.nic.stack(0), HostStack::Tcp(_))
    }
    /// A stack that is TCP above an endless queue: it tells nothing when a connection opens that no controller has in its charge.
    pub fn opens_silently(&self, stack_slot: usize) -> bool {
        self.nic.config().endless && matches!(self.nic.stack(stack_slot), HostStack::Tcp(_))
    }
    /// Asks for the host's next wake-up.
    #[inline(never)]
    pub fn arm(&mut self, now: Time, host: u32, deadlines: &mut Deadlines) {
        self.arm_for(self.nic.next_timer(), now, host, deadlines);
    }
    /// Asks for the host's next wake-up just after its card was told to send.
    #[inline(always)]
    pub fn arm_when_kicked(&mut self, now: Time, host: u32, deadlines: &mut Deadlines) {
        self.arm_for(self.nic.next_timer_after_transmit(), now, host, deadlines);
    }
    #[inline(always)]
    fn arm_for(&mut self, at: Time, now: Time, host: u32, deadlines: &mut Deadlines) {
        // Nearly always what is there comes earlier.
        if at.max(now) <= self.wakes.next() && at != Time::NEVER {
            self.ask(at, now, host, deadlines);
        }
    }
    #[inline(never)]
    fn ask(&mut self, at: Time, now: Time, host: u32, deadlines: &mut Deadlines) {
        let mut order = (0, 0);
        if let HostStack::Tcp(tcp) = self.nic.stack(0) {
            let (due, kind, flow) = tcp.first_timer();
            if due == at {
                order = (kind, flow);
            }
        }
        deadlines.push_host(at.max(now), order, host, &mut self.wakes);
    }
}

/// Where the protocols of a run are at every host: the stack, and the number there.
pub(super) struct StackSlots {
    by_protocol: Vec<(usize, u32)>,
    tcp: bool,
}

impl StackSlots {
    fn new(setup: &Setup) -> StackSlots {
        let tcp = setup.protocols.iter().any(|(suite, _)| suite.stack.is_none());
        let (mut stacks, mut laws) = (usize::from(tcp), 0);
        let stack_slot = |(suite, _): &(Suite, _)| {
            if suite.stack.is_some() {
                stacks += 1;
                return (stacks - 1, 0);
            }
            laws += 1;
            (0, laws - 1)
        };
        StackSlots { by_protocol: setup.protocols.iter().map(stack_slot).collect(), tcp }
    }
    /// The first is TCP.
    fn tcp(&self) -> bool {
        self.tcp
    }
    /// Of a protocol by its position.
    pub fn of(&self, protocol: u16) -> (usize, u32) {
        self.by_protocol[usize::from(protocol)]
    }
}

/// A node that is no host, or none that is here.
const NO_HOST: u32 = u32::MAX;

/// All hosts that are here.
pub(super) struct Hosts {
    list: Vec<Host>,
    /// The place of every node in the list, or [`NO_HOST`]. Whether a node is a host is so known without a look at the host, which may lie far.
    places: Box<[u32]>,
    pub stack_slots: StackSlots,
    /// Their network cards pull.
    pub pull: bool,
    /// Some transport may choose paths itself.
    pub own: bool,
    /// Intervals between samples that have begun.
    interval: u32,
    /// What one end of a connection reports follows from what its own host was called for.
    independent: bool,
    /// A packet reaches its transport when it reaches its host.
    #[cfg(debug_assertions)]
    pub at_once: bool,
}

impl Hosts {
    /// Those hosts of a run that are `here`. Takes over its host controllers.
    ///
    /// # Errors
    /// Building was stopped ([`crate::checkpoint`]).
    pub fn new(setup: &mut Setup, here: impl Fn(u32) -> bool) -> Result<Hosts, ParamError> {
        let stack_slots = StackSlots::new(setup);
        let (pull, order) = match setup.nic {
            NicMode::Endless => (false, Order::RoundRobin),
            NicMode::Pull(order) => (true, order),
        };
        let groups: Vec<_> =
            setup.collectives.drain(..).map(|c| (Arc::new(Mutex::new(c.controller)), c.workloads)).collect();
        let mut receive = setup.receive_controllers();
        receive.resize_with(setup.topology.nodes.len(), || None);
        let (longest_wait, oversubscription) = match setup.own_stack() {
            Some(_) => (longest_wait(setup), oversubscription(&setup.topology)),
            None => (Dur::ZERO, 1.0),
        };
        let mut list = Vec::with_capacity(setup.topology.nodes.len());
        let mut places = vec![NO_HOST; setup.topology.nodes.len()].into_boxed_slice();
        for (host, (node, receive)) in setup.topology.nodes.iter().zip(receive).enumerate() {
            let ports = setup.topology.ports_of(host as u32);
            let port = ports.first().filter(|_| node.kind == NodeKind::Host && here(host as u32));
            let Some(port) = port.copied() else { continue };
            go_on()?;
            let link = &setup.topology.links[port as usize];
            let facts = |mss| HostFacts {
                host: host as u32,
                rate: link.rate,
                delay: link.delay,
                base_rtt: setup.base_rtt.max(Bytes(u64::from(mss)) / link.rate),
                longest_wait,
                oversubscription,
                mss,
                framing: setup.framing,
                order,
                seed: setup.seed,
                run: setup.run,
            };
            let mut stacks = Vec::new();
            let laws = setup.protocols.iter().filter(|(suite, _)| suite.stack.is_none());
            if stack_slots.tcp() {
                let law = |(s, config): &(Suite, Arc<TcpConfig>)| TcpProtocol {
                    config: config.clone(),
                    control: s.endpoint.clone(),
                };
                let handle =
                    |(c, _): &(Arc<_>, _)| Box::new(Shared(Arc::clone(c))) as Box<dyn HostController>;
                let options = TcpOptions {
                    protocols: laws.clone().map(law).collect(),
                    groups: groups.iter().map(handle).collect(),
                    receive,
                    endless: !pull,
                    host_queue: setup.host_queue,
                    priority: 0,
                    priority_of: (setup.fabric.priorities > 1).then(|| Box::new(setup.fabric.priority_of)),
                    reversed: setup.ties == Ties::Reversed,
                    applications: setup.applications_take_time(),
                };
                let mss = laws.map(|(_, c)| c.mss).max().unwrap_or(1460);
                stacks.push(HostStack::Tcp(TcpStack::new(&facts(mss), options)));
            }
            for (suite, config) in &setup.protocols {
                if let Some(build) = &suite.stack {
                    stacks.push(HostStack::Other(build(&facts(config.mss))));
                }
            }
            let config = NicConfig {
                port,
                rate: link.rate,
                delay: setup.fabric.flight(link.delay),
                framing: setup.framing,
                endless: !pull,
                receive_delay: setup.receive_delay,
                processing: setup.processing,
            };
            let mut nic = Nic::new(config, stacks);
            let noise = Stream::new(setup.seed, setup.run, Entity::Reception, host as u64);
            nic.set_receive_jitter(setup.receive_jitter, noise);
            if setup.noise_of_one_machine() {
                nic.ask_when_seen();
            }
            if setup.applications_take_time() {
                nic.wait_for_applications();
            }
            places[host] = list.len() as u32;
            list.push(Host {
                nic,
                wakes: HostWakes::default(),
                paused_since: [Time::ZERO; PRIORITIES],
                called: 0,
                free: Vec::new(),
                next: 0,
            });
        }
        Ok(Hosts {
            list,
            places,
            stack_slots,
            pull,
            own: setup.own_stack().is_some(),
            interval: 1,
            independent: setup.protocols.iter().all(|(suite, _)| suite.independent),
            #[cfg(debug_assertions)]
            at_once: setup.receives_at_once(),
        })
    }
    /// Where `leads_away` says that of the port of a host, what leaves it is handed to another part: its card is up to date whenever a packet has left.
    pub fn hand_over(&mut self, leads_away: impl Fn(u32) -> bool) {
        self.list
            .iter_mut()
            .filter(|h| leads_away(h.nic.config().port))
            .for_each(|h| h.nic.hand_over_departures());
    }
    /// A host, to be called.
    #[inline]
    pub fn at(&mut self, node: u32) -> &mut Host {
        let host = &mut self.list[self.places[node as usize] as usize];
        host.called = self.interval;
        host
    }
    /// A sample was taken of all.
    pub fn sampled(&mut self) {
        self.interval = self.interval.wrapping_add(1);
    }
    /// A packet for a host arrives soon: the processor is asked to fetch the host, and when the packet is at hand, a part of its end of
    /// the connection.
    #[inline(always)]
    pub fn fetch(&self, node: u32, packet: Option<(&Packet, Part)>) {
        let Some(host) = self.get(node) else { return };
        match packet {
            None => prefetch_first(host, NEAR),
            Some((packet, part)) => host.nic.prefetch(packet.conn(), part),
        }
    }
    /// A host, to look at.
    #[inline]
    pub fn get(&self, node: u32) -> Option<&Host> {
        self.list.get(*self.places.get(node as usize)? as usize)
    }
    /// Delayed ACKs of a node that have left because their timer went off.
    pub fn late_acks(&self, node: u32) -> u64 {
        match self.get(node).map(|host| host.nic.stack(0)) {
            Some(HostStack::Tcp(tcp)) => tcp.late_acks(),
            _ => 0,
        }
    }
    /// What a receiver of a host gets at `now` that has arrived before.
    pub fn due_inside(&self, node: u32, now: Time) -> Option<Inside> {
        let host = self.get(node)?;
        if let Some(cell) = host.nic.due_inside(now) {
            return Some(Inside::Packet(cell.packet));
        }
        match host.nic.stack(0) {
            HostStack::Tcp(tcp) => match tcp.first_timer() {
                (at, RECEIVER, flow) if at <= now => Some(Inside::Segments(flow)),
                _ => None,
            },
            _ => None,
        }
    }
    /// True when a node is a host.
    #[inline]
    pub fn is_host(&self, node: u32) -> bool {
        self.places[node as usize] != NO_HOST
    }
    /// Packets that have arrived and that no transport has seen yet.
    pub fn packets_held(&self) -> u64 {
        self.list.iter().map(|h| h.nic.packets_held()).sum()
    }
    /// What a transport knows of both ends of a flow.
    pub fn ends(&self, o: &Ends) -> (Counters, Counters) {
        let here = |host, handle| self.get(host).filter(|_| handle != AWAY);
        let end = |host, handle| here(host, handle).map(|h| h.nic.counters(handle)).unwrap_or_default();
        (end(o.src, o.at_src), end(o.dst, o.at_dst))
    }
    /// Bytes below `end` that have not reached the receiver of a flow.
    pub fn missing_below(&self, o: &Ends, end: u64) -> u64 {
        if o.at_dst == AWAY {
            return end;
        }
        self.get(o.dst).map_or(0, |h| h.nic.missing_below(o.at_dst, end))
    }
    /// What a flow has done so far.
    pub fn counters(&self, flow: &Flow) -> FlowCounters {
        let (mut sender, receiver) = self.ends(&flow.ends);
        if let Some(closed) = &flow.closed {
            sender = closed.sender;
        }
        count(&sender, &receiver, flow.drops())
    }
}

/// What a flow has done whose ends have counted this.
pub(super) fn count(s: &Counters, r: &Counters, drops: u64) -> FlowCounters {
    FlowCounters {
        acked_bytes: s.acked_bytes + r.acked_bytes,
        delivered_bytes: s.delivered_bytes + r.delivered_bytes,
        arrived_bytes: s.arrived_bytes + r.arrived_bytes,
        data_packets: s.data_packets + r.data_packets,
        retransmits: s.retransmits + r.retransmits,
        timeouts: s.timeouts + r.timeouts,
        fast_retransmits: s.fast_retransmits + r.fast_retransmits,
        ece_acks: s.ece_acks + r.ece_acks,
        tail_loss_probes: s.tail_loss_probes,
        probe_wait: s.probe_wait,
        drops,
        duplicate_bytes: r.duplicate_bytes,
    }
}

/// A flow with its hosts, as samples are taken of it.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    pub flow: &'a Flow,
    pub hosts: &'a Hosts,
}

impl Sampled for Seen<'_> {
    fn row(&self) -> u32 {
        self.flow.row
    }
    fn destination(&self) -> u32 {
        self.flow.ends.dst
    }
    fn has_place(&self) -> bool {
        self.flow.has_place
    }
    fn changed(&self) -> bool {
        let called = |host: &Host| host.called == self.hosts.interval;
        !self.hosts.independent || self.hosts.get(self.flow.ends.src).is_some_and(called)
    }
    fn counters(&self) -> FlowCounters {
        self.hosts.counters(self.flow)
    }
    fn observe(&self, report: &mut Report<'_>) {
        let o = &self.flow.ends;
        if let Some(host) = self.hosts.get(o.src).filter(|_| o.at_src != AWAY) {
            host.nic.observe(o.at_src, report);
        }
    }
    fn observe_group(&self, report: &mut Report<'_>) {
        let o = &self.flow.ends;
        let host = self.hosts.get(o.src).filter(|_| o.at_src != AWAY);
        if let Some(HostStack::Tcp(tcp)) = host.map(|host| host.nic.stack(0)) {
            tcp.observe_group(o.at_src, report);
        }
    }
}
