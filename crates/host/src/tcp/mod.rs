//! TCP as a stack: all senders and receivers of a host. The calls of the driver are in `stack.rs`.
//!
//! Senders and receivers are those of [`penstock_core::tcp`]. The stack finds the end of a packet by its handle, lists the
//! ends that may send, and keeps their timers. It has the controllers of the host: receiver-side congestion control of all
//! its receivers ([`ReceiveController`]), and collective control of a set of applications' senders ([`HostController`]).
//!
//! # Order of calls
//!
//! With an endless queue ([`TcpOptions::endless`]) the packets of a host are in the order in which their connections were
//! called, those of each connection together. The packets are those of connections driven one by one, to the byte, if the
//! driver keeps to these rules:
//!
//! - Order at one instant: arrivals by number of the port, timers by (kind, flow) over all hosts
//!   ([`TcpStack::first_timer`]), workloads.
//! - The driver acts on the events of a call before [`crate::Nic::transmit`]: an application reacts to an acknowledgement before
//!   the connection sends.
//! - [`crate::Nic::flush`] of its connection follows an action before the next action. A connection that is opened, written to
//!   and closed at once is flushed once, after all three.
//! - [`crate::StackEvent::Closed`] comes last: the driver removes both ends, and the connection sends nothing more.

mod idle;
mod ready;
mod share;
mod stack;

use crate::pool::BoxPool;
use crate::stack::Net;
use crate::stack::{Exchange, HostFacts, Io, Opening, Order, StackEvent};
use crate::timers::Timers;
use crate::writes::WriteEnds;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem::offset_of;
use penstock_core::receive::ReceiveController;
use penstock_core::rng::Entity;
use penstock_core::tcp::{self, Receiver, Sender, TcpConfig};
use penstock_core::{Ack, Amount, FlowId, HostController, Packet, Report, Stream, WindowLaw};
use penstock_fabric::{Cell, Segments};
use penstock_units::Time;
use ready::{Line, Ready};
use share::HostShare;

/// Builds the congestion controller of a sender, with a random stream of its own if it needs one.
pub type BuildControl = Arc<dyn Fn(&TcpConfig, &dyn Fn() -> Stream) -> Box<dyn WindowLaw> + Send + Sync>;

/// A congestion control with its options of a connection.
#[derive(Clone)]
pub struct TcpProtocol {
    /// Options of its connections.
    pub config: Arc<TcpConfig>,
    /// Its sender's controller.
    pub control: BuildControl,
}

/// Options of the TCP of a host.
#[derive(Default)]
#[repr(C)]
pub struct TcpOptions {
    /// Priority of all packets, 0..8.
    pub priority: u8,
    /// The queue below the stack is endless, as that of its network card.
    pub endless: bool,
    /// Most of one connection that may wait in the host's port, where the queue is endless; `None` = any amount.
    pub host_queue: Option<Amount>,
    /// Receiver-side control of all connections that end here.
    pub receive: Option<Box<dyn ReceiveController>>,
    /// Host controllers, by [`Opening::group`]: each has the connections of its group in its charge.
    pub groups: Vec<Box<dyn HostController>>,
    /// Protocols, by [`Opening::protocol`].
    pub protocols: Vec<TcpProtocol>,
    /// Priority of every traffic class, if the network gives packets of priority 0 another one by their class. A pause of a
    /// priority then stops the connections of its classes and no others.
    pub priority_of: Option<Box<[u8; 64]>>,
    /// Simultaneous timers come in reversed order.
    pub reversed: bool,
    /// The driver decides when applications read ([`crate::ApplicationReads::read`]).
    pub applications: bool,
}

/// Kinds of timers, in their order at one instant.
mod kind {
    pub const SENDER: u8 = 1;
    pub const RECEIVER: u8 = 2;
}

/// Boxes of ends in a pool: chosen, so that a host with a few connections at a time allocates none, and thousands of hosts
/// keep little memory.
const KEPT: usize = 8;

/// Destination of an end's packets, and its places in the stack's lists.
struct Route {
    flow: u32,
    /// Handle of the other end.
    peer: u32,
    /// Host of the other end.
    to: u32,
    entropy: u32,
    class: u8,
    /// It is in the list of ends that may have something to send.
    listed: bool,
    /// Time of its earliest entry among the timers. A later timer needs no entry.
    armed: Time,
}

#[repr(C)]
struct SendEnd {
    route: Route,
    group: u32,
    /// Ends of writes that are not acknowledged.
    ends: WriteEnds,
    sender: Sender,
    share: HostShare,
}

#[repr(C)]
struct ReceiveEnd {
    route: Route,
    /// Ends of writes that packets have carried, and that are not delivered.
    ends: WriteEnds,
    receiver: Receiver,
}

impl SendEnd {
    /// It has nothing in flight, and no host controller.
    fn may_rest(&self) -> bool {
        self.group == Opening::ALONE && !self.route.listed && self.ends.is_empty() && self.sender.may_rest()
    }
}

enum End {
    Free,
    Sender(Box<SendEnd>),
    Receiver(Box<ReceiveEnd>),
    /// Either of them between two transfers.
    IdleSender(Box<idle::SendEnd>),
    IdleReceiver(Box<idle::ReceiveEnd>),
}

impl End {
    fn route(&self) -> Option<&Route> {
        match self {
            End::Sender(end) => Some(&end.route),
            End::Receiver(end) => Some(&end.route),
            // An end at rest has nothing to send.
            End::Free | End::IdleSender(_) | End::IdleReceiver(_) => None,
        }
    }
    #[inline]
    fn route_mut(&mut self) -> Option<&mut Route> {
        match self {
            End::Sender(end) => Some(&mut end.route),
            End::Receiver(end) => Some(&mut end.route),
            End::Free | End::IdleSender(_) | End::IdleReceiver(_) => None,
        }
    }
}

/// The TCP of a host. Fields that an ACK or a segment touches come first.
#[repr(C)]
pub struct TcpStack {
    ready: Ready,
    ends: Vec<End>,
    timers: Timers,
    options: TcpOptions,
    /// Boxes of ends that are over.
    senders: BoxPool<SendEnd, KEPT>,
    receivers: BoxPool<ReceiveEnd, KEPT>,
    /// Bytes of congestion header of each protocol's packets.
    header_len: Vec<u32>,
    /// The packet handed out last: handle and bytes.
    last: (u32, u32),
    connection_events: Vec<tcp::News>,
    quiet: idle::Quiet,
    /// Receiving ends with unread data, and those that answer the last read.
    unread: Vec<u32>,
    owing: Vec<u32>,
    /// Delayed ACKs that left when their timer went off, while nothing was missing.
    late_acks: u64,
    seed: u64,
    run: u64,
}

impl TcpStack {
    /// Bytes at its beginning that a packet touches.
    pub const NEAR: usize = offset_of!(TcpStack, options) + offset_of!(TcpOptions, groups);
    /// Kind of the timers of receiving ends ([`crate::Stack::next_timer`]).
    pub const RECEIVER: u8 = kind::RECEIVER;

    /// The TCP of the host with these `facts`.
    pub fn new(facts: &HostFacts, options: TcpOptions) -> TcpStack {
        assert!(
            options.host_queue.is_none() || options.endless,
            "a limited share is one of an endless queue"
        );
        let probe = || Stream::new(facts.seed, facts.run, Entity::Sender, u64::MAX);
        let header_len = |p: &TcpProtocol| (p.control)(&p.config, &probe).header_len();
        TcpStack {
            ends: Vec::new(),
            senders: BoxPool::default(),
            receivers: BoxPool::default(),
            ready: match facts.order {
                _ if options.endless => Ready::Drain(Line::new()),
                Order::RoundRobin => Ready::InTurn(Line::new()),
                Order::Strict => Ready::Strict(Default::default()),
            },
            timers: Timers::new(options.reversed),
            header_len: options.protocols.iter().map(header_len).collect(),
            options,
            last: (0, 0),
            connection_events: Vec::new(),
            quiet: idle::Quiet::default(),
            unread: Vec::new(),
            owing: Vec::new(),
            late_acks: 0,
            seed: facts.seed,
            run: facts.run,
        }
    }
    /// Receiver-side control, where there is one.
    pub fn receive_controller(&self) -> Option<&dyn ReceiveController> {
        self.options.receive.as_deref()
    }
    /// Delayed ACKs that have left because their timer went off, while nothing was missing.
    pub fn late_acks(&self) -> u64 {
        self.late_acks
    }
    /// Window of a sending end in bytes, recovery inflation not included.
    pub fn cwnd(&self, conn: u32) -> Option<u64> {
        match &self.ends[conn as usize] {
            End::Sender(end) => Some(end.sender.cwnd()),
            End::IdleSender(end) => Some(end.sender.cwnd()),
            _ => None,
        }
    }
    /// The next timer with what orders simultaneous ones: kind (1 = sender, 2 = receiver) and flow.
    pub fn first_timer(&self) -> (Time, u8, u32) {
        self.timers.first()
    }

    /// Reports what the host controller above a sending end knows of it.
    pub fn observe_group(&self, conn: u32, report: &mut Report<'_>) {
        if let Some(End::Sender(end)) = self.ends.get(conn as usize) {
            if let Some(host) = self.options.groups.get(end.group as usize) {
                host.observe(FlowId(end.route.flow), report);
            }
        }
    }

    /// Carries out the first timer that is due. Returns its end, which may have something to send now.
    #[inline(always)]
    fn fire(&mut self, io: &mut Io<'_>) -> Option<u32> {
        let (_, conn) = self.timers.due(io.now)?;
        let armed = self.timers.next_of(conn);
        match &mut self.ends[conn as usize] {
            End::Sender(end) => {
                end.route.armed = armed;
                if end.sender.deadline() <= io.now {
                    end.sender.on_deadline(io.now);
                    if let Some(record) = end.sender.take_timeout() {
                        let max_sent = end.sender.view.max_sent;
                        io.stack_events.push(StackEvent::Timeout {
                            flow: FlowId(end.route.flow),
                            max_sent,
                            record,
                        });
                    }
                    if end.group != Opening::ALONE {
                        let host = &mut self.options.groups[end.group as usize];
                        tell_host(host, end, &mut self.connection_events, 0, io);
                    }
                } else if end.may_rest() {
                    // A stale entry: every ACK had moved the timer on, and nothing has happened since the last one.
                    self.rest(conn);
                    return None;
                }
            }
            End::Receiver(end) => {
                end.route.armed = armed;
                if end.receiver.deadline() <= io.now {
                    self.late_acks += u64::from(end.receiver.on_deadline(io.now));
                    tell_delivered(end, io);
                }
            }
            End::Free | End::IdleSender(_) | End::IdleReceiver(_) => return None,
        }
        Some(conn)
    }
    fn place(&mut self, conn: u32, end: End) {
        let i = conn as usize;
        if i >= self.ends.len() {
            self.ends.resize_with(i + 1, || End::Free);
        }
        assert!(matches!(self.ends[i], End::Free), "handle {conn} is in use");
        self.ends[i] = end;
    }
    fn sender(&mut self, conn: u32) -> &mut SendEnd {
        match self.ends.get_mut(conn as usize) {
            Some(End::Sender(end)) => end,
            _ => panic!("handle {conn} is not one of a sending end"),
        }
    }
    /// The end may have something to send.
    #[inline]
    fn list(&mut self, conn: u32) {
        if let Some(route) = self.ends[conn as usize].route_mut() {
            if !route.listed {
                route.listed = true;
                self.ready.push(route.flow, conn);
            }
        }
    }

    // ---- sending -----------------------------------------------------------------------------------------

    /// The next packet of a priority that is not paused.
    #[cold]
    fn poll_beside_pauses(&mut self, io: &mut Io<'_>) -> Option<Cell> {
        for conn in self.ready.in_order() {
            let Some(route) = self.ends[conn as usize].route() else { continue };
            let (flow, class) = (route.flow, usize::from(route.class));
            let priority = self.options.priority_of.as_ref().map_or(self.options.priority, |of| of[class]);
            if io.paused & (1 << priority) != 0 {
                continue;
            }
            if let Some(cell) = self.poll(io, conn) {
                self.ready.sent_by(conn);
                return Some(cell);
            }
            self.ready.remove(flow, conn);
        }
        None
    }

    /// The next packet of `conn`. If there is none, the end leaves the list, and its timer is set.
    #[inline]
    fn poll(&mut self, io: &mut Io<'_>, conn: u32) -> Option<Cell> {
        let (now, priority) = (io.now, self.options.priority);
        match self.ends.get_mut(conn as usize) {
            Some(End::Sender(end)) if end.route.listed => {
                if end.group != Opening::ALONE {
                    let cap = self.options.groups[end.group as usize].cap(FlowId(end.route.flow));
                    end.sender.set_cap(cap);
                }
                if let Some(limit) = self.options.host_queue {
                    let next = end.sender.packet_len();
                    end.sender.set_host_free_at(end.share.free_at(now, limit, next));
                }
                let id = io.arena.alloc();
                let (packet, header) = io.arena.segment(id);
                if end.sender.poll_transmit(now, packet, header) {
                    packet.window = end.ends.mark(packet.seq, packet.seq + u64::from(packet.payload));
                    let cell = dispatch(&end.route, packet, id, priority);
                    self.last = (conn, cell.bytes);
                    return Some(cell);
                }
                io.arena.release(id);
                end.route.listed = false;
                arm(&mut self.timers, end.sender.deadline(), kind::SENDER, &mut end.route, conn);
            }
            Some(End::Receiver(end)) if end.route.listed => {
                let id = io.arena.alloc();
                let (packet, header) = io.arena.segment(id);
                if end.receiver.poll_transmit(now, packet, header) {
                    self.last = (conn, 0);
                    return Some(dispatch(&end.route, packet, id, priority));
                }
                io.arena.release(id);
                end.route.listed = false;
                arm(&mut self.timers, end.receiver.deadline(), kind::RECEIVER, &mut end.route, conn);
            }
            _ => {}
        }
        None
    }
}

impl TcpStack {
    /// Sends all that a listed connection may send now, into an endless queue.
    #[inline(never)]
    fn send_all_of<N: Net>(&mut self, x: &mut Exchange<'_, N>, conn: u32) {
        let Exchange { now, port, net, .. } = x;
        match self.ends.get_mut(conn as usize) {
            Some(End::Sender(end)) if end.route.listed => {
                end.route.listed = false;
                send_all(end, &self.options, *now, *port, *net);
                arm(&mut self.timers, end.sender.deadline(), kind::SENDER, &mut end.route, conn);
            }
            Some(End::Receiver(end)) if end.route.listed => {
                end.route.listed = false;
                if end.receiver.may_send() {
                    let slot = net.arena().alloc();
                    answer(end, *now, *port, self.options.priority, slot, *net);
                }
                arm(&mut self.timers, end.receiver.deadline(), kind::RECEIVER, &mut end.route, conn);
            }
            _ => {}
        }
    }
}

/// Sends all that a sending end may send now, into an endless queue.
#[inline(always)]
fn send_all<N: Net>(end: &mut SendEnd, options: &TcpOptions, now: Time, port: u32, net: &mut N) {
    if end.group != Opening::ALONE {
        end.sender.set_cap(options.groups[end.group as usize].cap(FlowId(end.route.flow)));
    }
    loop {
        if let Some(limit) = options.host_queue {
            let next = end.sender.packet_len();
            end.sender.set_host_free_at(end.share.free_at(now, limit, next));
        }
        let arena = net.arena();
        let id = arena.spare();
        let (packet, header) = arena.segment(id);
        if !end.sender.poll_transmit(now, packet, header) {
            return;
        }
        packet.window = end.ends.mark(packet.seq, packet.seq + u64::from(packet.payload));
        let data = dispatch(&end.route, packet, id, options.priority);
        arena.take_spare();
        let bytes = data.bytes;
        let sent = net.transmit(now, port, data);
        if let (Some(at), true) = (sent, options.host_queue.is_some()) {
            end.share.take(at, bytes);
        }
    }
}

/// Sends all answers of a receiving end that are due. The first packet uses `slot`, which is freed if there is none.
#[inline(always)]
fn answer<N: Net>(end: &mut ReceiveEnd, now: Time, port: u32, priority: u8, mut slot: u32, net: &mut N) {
    while end.receiver.may_send() {
        let (packet, header) = net.arena().segment(slot);
        end.receiver.poll_transmit(now, packet, header);
        let cell = dispatch(&end.route, packet, slot, priority);
        net.transmit(now, port, cell);
        if !end.receiver.may_send() {
            return;
        }
        slot = net.arena().alloc();
    }
    net.arena().release(slot);
}

/// Sets the timer of an end at `at` or earlier. True when there is a new entry.
#[inline(always)]
fn arm(timers: &mut Timers, at: Time, kind: u8, route: &mut Route, conn: u32) -> bool {
    if at >= route.armed {
        return false;
    }
    route.armed = at;
    timers.arm(at, kind, route.flow, conn)
}

/// Handles an ACK for a sending end, in `slot`. True if the end stays open.
#[inline(always)]
fn on_ack(
    end: &mut SendEnd,
    options: &mut TcpOptions,
    connection_events: &mut Vec<tcp::News>,
    io: &mut Io<'_>,
    slot: u32,
) -> bool {
    let flow = FlowId(end.route.flow);
    let header = io.arena.header_slot(slot);
    let cuts = end.sender.stats.fast_retransmits;
    end.sender.on_packet(io.now, &io.arena.packets[slot as usize], &io.arena.headers[header]);
    if end.sender.stats.fast_retransmits != cuts {
        let view = &end.sender.view;
        let (max_sent, outstanding, cwnd) = (view.max_sent, view.max_sent - view.una, end.sender.cwnd());
        io.stack_events.push(StackEvent::FastRetransmit { flow, max_sent, outstanding, cwnd });
    }
    if end.group != Opening::ALONE {
        tell_host(&mut options.groups[end.group as usize], end, connection_events, header, io);
    }
    io.arena.release(slot);
    let una = end.sender.view.una;
    while let Some(at) = end.ends.reached(una) {
        io.stack_events.push(StackEvent::Acked { flow, end: at });
    }
    let over = end.sender.finished();
    if over {
        io.stack_events.push(StackEvent::Closed { flow });
    }
    !over
}

/// Handles a SYN, data segment or FIN for a receiving end, in `slot`. True when it completes the last write that is open.
#[inline(always)]
fn on_data(end: &mut ReceiveEnd, options: &mut TcpOptions, io: &mut Io<'_>, slot: u32) -> bool {
    let flow = end.route.flow;
    let packet = &io.arena.packets[slot as usize];
    if let Some(control) = &mut options.receive {
        control.on_data(io.now, flow, packet);
        end.receiver.set_window_cap(control.window_cap(flow));
    }
    if let Some(at) = packet.write_end().filter(|at| *at > end.receiver.delivered()) {
        end.ends.insert(at);
    }
    end.receiver.on_packet(io.now, packet, &io.arena.headers[io.arena.header_slot(slot)]);
    tell_delivered(end, io)
}

/// Reports the ends of writes that are delivered. True when the last of them is.
#[inline(always)]
fn tell_delivered(end: &mut ReceiveEnd, io: &mut Io<'_>) -> bool {
    if !end.ends.is_empty() {
        let delivered = end.receiver.delivered();
        while let Some(at) = end.ends.reached(delivered) {
            io.stack_events.push(StackEvent::Delivered { flow: FlowId(end.route.flow), end: at });
        }
        return end.ends.is_empty();
    }
    false
}

/// The cell of the packet in slot `id`, addressed.
#[inline(always)]
fn dispatch(route: &Route, packet: &mut Packet, id: u32, priority: u8) -> Cell {
    packet.set_conn(route.peer);
    let mut cell = Cell::carrying(id, packet).with_priority(priority);
    (cell.to, cell.entropy) = (route.to, route.entropy);
    cell
}

/// Tells the host controller of a connection what has happened to it.
fn tell_host(
    host: &mut Box<dyn HostController>,
    end: &mut SendEnd,
    connection_events: &mut Vec<tcp::News>,
    header: usize,
    io: &mut Io<'_>,
) {
    let flow = FlowId(end.route.flow);
    end.sender.take_news(connection_events);
    for event in connection_events.iter() {
        match *event {
            tcp::News::Acked { bytes, ece, sent_at, rtt } => {
                let header = &io.arena.headers[header];
                let ack = Ack { now: io.now, bytes, ece, sent_at, rtt, header };
                host.on_ack(flow, &ack, &end.sender.view);
            }
            tcp::News::Congestion(event) => host.on_congestion(io.now, flow, &end.sender.view, event),
        }
    }
    io.stack_events.extend(host.take_transitions().into_iter().map(StackEvent::Transition));
}
