//! TCP as a stack: all senders and receivers of a host, with what a host adds to them.
//!
//! Senders and receivers are those of [`penstock_core::tcp`]. The stack finds the end that a packet is for by its handle, collects what the
//! ends want to send in a list, keeps their deadlines, and has the host's own controllers: receiver-side congestion control of all its
//! receivers together ([`ReceiveController`]), collective control of a set of applications' senders ([`HostController`]).
//!
//! # Order of calls
//!
//! With an endless queue ([`TcpOptions::endless`]) the packets of a host are in the order in which their connections were called, each
//! connection's together. A driver that keeps to the following has the packets of connections driven one by one, each polled until it has
//! nothing, to the byte:
//!
//! - at one instant: arrivals by number of the port, deadlines by (kind, flow) over all hosts ([`TcpStack::next_timer`]), workloads;
//! - the news of a call are acted on before [`crate::Nic::kick`]: an application that reacts to an acknowledgement comes first, then the
//!   connection that was acknowledged sends;
//! - an action is followed by [`crate::Nic::flush`] of its connection before the next action; a connection that is opened, written to and closed at
//!   once is flushed once, after all three;
//! - [`crate::News::Closed`] comes last: both ends are forgotten then, and nothing of the connection is sent.

mod ready;
mod share;

use crate::nic::Net;
use crate::stack::{Counters, Exchange, HostFacts, Io, News, Opening, Order, Stack};
use crate::timers::Timers;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use penstock_core::receive::ReceiveController;
use penstock_core::rng::Entity;
use penstock_core::tcp::{self, Phase, Receiver, Sender, TcpConfig};
use penstock_core::{Ack, Amount, FlowId, HostController, Peer, Stream, WindowLaw};
use penstock_fabric::{Arena, Cell, Segments};
use penstock_units::{Dur, Time};
use ready::{Line, Ready};
use share::HostShare;

/// Builds the congestion controller of a sender.
pub type BuildControl = Arc<dyn Fn(&TcpConfig, Stream) -> Box<dyn WindowLaw> + Send + Sync>;

/// A congestion control with its options of a connection.
#[derive(Clone)]
pub struct TcpProtocol {
    /// Options of its connections.
    pub config: Arc<TcpConfig>,
    /// Its sender's controller.
    pub control: BuildControl,
}

/// What the TCP of a host is made of.
#[derive(Default)]
pub struct TcpOptions {
    /// Protocols, by [`Opening::protocol`].
    pub protocols: Vec<TcpProtocol>,
    /// Host controllers, by [`Opening::group`]: each has the connections of its group in its charge.
    pub groups: Vec<Box<dyn HostController>>,
    /// Receiver-side control of all connections that end here.
    pub receive: Option<Box<dyn ReceiveController>>,
    /// The queue below the stack is endless, as that of its network card.
    pub endless: bool,
    /// How much of one connection may stand in the host's port, where the queue is endless; `None` = any amount.
    pub host_queue: Option<Amount>,
    /// Priority of all packets, 0..8.
    pub priority: u8,
    /// Simultaneous deadlines come in reversed order.
    pub reversed: bool,
}

/// Kinds of deadlines, in their order at one instant.
mod kind {
    pub const SENDER: u8 = 1;
    pub const RECEIVER: u8 = 2;
}

/// What both ends know about where their packets go.
struct Way {
    flow: u32,
    /// Handle of the other end.
    peer: u32,
    /// Host of the other end.
    to: u32,
    entropy: u32,
    /// It is in the list of those that may have something to send.
    listed: bool,
}

struct SendEnd {
    sender: Sender,
    way: Way,
    group: u32,
    /// Ends of what was accepted and is not yet acknowledged.
    ends: VecDeque<u64>,
    share: HostShare,
}

struct ReceiveEnd {
    receiver: Receiver,
    way: Way,
    /// Ends that the driver wants to hear of.
    ends: VecDeque<u64>,
}

enum End {
    Free,
    Sender(Box<SendEnd>),
    Receiver(Box<ReceiveEnd>),
}

impl End {
    fn way(&self) -> Option<&Way> {
        match self {
            End::Free => None,
            End::Sender(end) => Some(&end.way),
            End::Receiver(end) => Some(&end.way),
        }
    }
    #[inline]
    fn way_mut(&mut self) -> Option<&mut Way> {
        match self {
            End::Free => None,
            End::Sender(end) => Some(&mut end.way),
            End::Receiver(end) => Some(&mut end.way),
        }
    }
}

/// The TCP of a host.
pub struct TcpStack {
    ends: Vec<End>,
    ready: Ready,
    timers: Timers,
    options: TcpOptions,
    /// Bytes of congestion header of each protocol's packets.
    header_len: Vec<u32>,
    /// What was pulled last: handle and bytes.
    last: (u32, u32),
    news: Vec<tcp::News>,
    seed: u64,
    run: u64,
}

impl TcpStack {
    /// The TCP of the host that `facts` are of.
    pub fn new(facts: &HostFacts, options: TcpOptions) -> TcpStack {
        assert!(
            options.host_queue.is_none() || options.endless,
            "a limited share is one of an endless queue"
        );
        let probe = || Stream::new(facts.seed, facts.run, Entity::Sender, u64::MAX);
        let header_len = |p: &TcpProtocol| (p.control)(&p.config, probe()).header_len();
        TcpStack {
            ends: Vec::new(),
            ready: match facts.order {
                _ if options.endless => Ready::Drain(Line::new()),
                Order::RoundRobin => Ready::InTurn(Line::new()),
                Order::Strict => Ready::Strict(Default::default()),
            },
            timers: Timers::new(options.reversed),
            header_len: options.protocols.iter().map(header_len).collect(),
            options,
            last: (0, 0),
            news: Vec::new(),
            seed: facts.seed,
            run: facts.run,
        }
    }
    /// Receiver-side control, where there is one.
    pub fn receive_controller(&self) -> Option<&dyn ReceiveController> {
        self.options.receive.as_deref()
    }
    /// Window of a sending end in bytes, recovery inflation not included.
    pub fn cwnd(&self, conn: u32) -> Option<u64> {
        match &self.ends[conn as usize] {
            End::Sender(end) => Some(end.sender.cwnd()),
            _ => None,
        }
    }
    /// The next deadline with what orders simultaneous ones: kind (1 = sender, 2 = receiver) and flow.
    pub fn next_timer(&self) -> (Time, u8, u32) {
        self.timers.first()
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
        if let Some(way) = self.ends[conn as usize].way_mut() {
            if !way.listed {
                way.listed = true;
                self.ready.push(way.flow, conn);
            }
        }
    }

    // ---- sending -----------------------------------------------------------------------------------------

    /// The next packet of `conn`. When it has none, it is not listed any more, and its deadline is armed.
    #[inline]
    fn poll(&mut self, io: &mut Io<'_>, conn: u32) -> Option<Cell> {
        let (now, priority) = (io.now, self.options.priority);
        match self.ends.get_mut(conn as usize) {
            Some(End::Sender(end)) if end.way.listed => {
                if end.group != Opening::ALONE {
                    let cap = self.options.groups[end.group as usize].cap(FlowId(end.way.flow));
                    end.sender.set_cap(cap);
                }
                if let Some(limit) = self.options.host_queue {
                    let next = end.sender.packet_len();
                    end.sender.set_host_free_at(end.share.free_at(now, limit, next));
                }
                let id = io.arena.alloc();
                let (packet, header) = io.arena.segment(id);
                if end.sender.poll_transmit(now, packet, header) {
                    let cell = dispatch(&end.way, io.arena, id, priority);
                    self.last = (conn, cell.bytes);
                    return Some(cell);
                }
                io.arena.release(id);
                end.way.listed = false;
                let at = end.sender.deadline();
                if at != Time::NEVER {
                    self.timers.arm(at, kind::SENDER, end.way.flow, conn);
                }
            }
            Some(End::Receiver(end)) if end.way.listed => {
                let id = io.arena.alloc();
                let (packet, header) = io.arena.segment(id);
                if end.receiver.poll_transmit(now, packet, header) {
                    self.last = (conn, 0);
                    return Some(dispatch(&end.way, io.arena, id, priority));
                }
                io.arena.release(id);
                end.way.listed = false;
                let at = end.receiver.deadline();
                if at != Time::NEVER {
                    self.timers.arm(at, kind::RECEIVER, end.way.flow, conn);
                }
            }
            _ => {}
        }
        None
    }
}

/// An ACK for a sending end, in `slot`.
#[inline]
fn on_ack(
    end: &mut SendEnd,
    options: &mut TcpOptions,
    news: &mut Vec<tcp::News>,
    io: &mut Io<'_>,
    slot: u32,
) -> bool {
    let flow = FlowId(end.way.flow);
    let header = io.arena.header_slot(slot);
    let cuts = end.sender.stats.fast_retransmits;
    end.sender.on_packet(io.now, &io.arena.packets[slot as usize], &io.arena.headers[header]);
    if end.sender.stats.fast_retransmits != cuts {
        let view = &end.sender.view;
        let (max_sent, outstanding, cwnd) = (view.max_sent, view.max_sent - view.una, end.sender.cwnd());
        io.news.push(News::FastRetransmit { flow, max_sent, outstanding, cwnd });
    }
    if end.group != Opening::ALONE {
        tell_host(&mut options.groups[end.group as usize], end, news, header, io);
    }
    io.arena.release(slot);
    let una = end.sender.view.una;
    while end.ends.front().is_some_and(|at| una >= *at) {
        let at = end.ends.pop_front().expect("just looked");
        io.news.push(News::Acked { flow, end: at });
    }
    let over = end.sender.finished();
    if over {
        io.news.push(News::Closed { flow });
    }
    !over
}

/// A SYN, data segment or FIN for a receiving end, in `slot`.
#[inline]
fn on_data(end: &mut ReceiveEnd, options: &mut TcpOptions, io: &mut Io<'_>, slot: u32) {
    let flow = end.way.flow;
    let packet = &io.arena.packets[slot as usize];
    if let Some(control) = &mut options.receive {
        control.on_data(io.now, flow, packet);
        end.receiver.set_window_cap(control.window_cap(flow));
    }
    end.receiver.on_packet(io.now, packet, &io.arena.headers[io.arena.header_slot(slot)]);
    if !end.ends.is_empty() {
        let delivered = end.receiver.delivered();
        while end.ends.front().is_some_and(|at| delivered >= *at) {
            let at = end.ends.pop_front().expect("just looked");
            io.news.push(News::Delivered { flow: FlowId(flow), end: at });
        }
    }
    io.arena.release(slot);
}

/// The cell of the packet in slot `id`, addressed.
#[inline]
fn dispatch(way: &Way, arena: &mut Arena, id: u32, priority: u8) -> Cell {
    let packet = &mut arena.packets[id as usize];
    packet.set_conn(way.peer);
    let mut cell = Cell::new(id, packet.wire_len).with_ecn(packet.ecn).with_class(packet.class());
    if packet.payload > 0 {
        // Only data is subject to a host's timing noise.
        cell = cell.with_payload().with_noise();
    }
    (cell.to, cell.entropy) = (way.to, way.entropy);
    cell.with_priority(priority)
}

/// Tells the host controller in charge what has happened to a connection.
fn tell_host(
    host: &mut Box<dyn HostController>,
    end: &mut SendEnd,
    news: &mut Vec<tcp::News>,
    header: usize,
    io: &mut Io<'_>,
) {
    let flow = FlowId(end.way.flow);
    end.sender.take_news(news);
    for news in news.iter() {
        match *news {
            tcp::News::Acked { bytes, ece, sent_at, rtt } => {
                let header = &io.arena.headers[header];
                let ack = Ack { now: io.now, bytes, ece, sent_at, rtt, header };
                host.on_ack(flow, &ack, &end.sender.view);
            }
            tcp::News::Congestion(event) => host.on_congestion(io.now, flow, &end.sender.view, event),
        }
    }
    io.news.extend(host.take_transitions().into_iter().map(News::Transition));
}

impl Stack for TcpStack {
    fn open(&mut self, io: &mut Io<'_>, o: &Opening) {
        let protocol = &self.options.protocols[o.protocol as usize];
        let number = u64::from(o.flow.0);
        let stream = |entity| Stream::new(self.seed, self.run, entity, number);
        let control = (protocol.control)(&protocol.config, stream(Entity::Host));
        let mut sender =
            Sender::new(protocol.config.clone(), control, o.flow.0, o.class, stream(Entity::Sender));
        (sender.view.size, sender.view.due) = (o.bytes, o.due);
        sender.open(io.now);
        if o.group != Opening::ALONE {
            sender.keep_news();
            let host = &mut self.options.groups[o.group as usize];
            host.on_open(io.now, o.flow, Peer { host: o.dst, router: o.router, class: o.class });
            io.news.extend(host.take_transitions().into_iter().map(News::Transition));
        }
        let way = Way { flow: o.flow.0, peer: o.at_dst, to: o.dst, entropy: o.forth, listed: false };
        let (group, ends, share) = (o.group, VecDeque::new(), HostShare::default());
        self.place(o.at_src, End::Sender(Box::new(SendEnd { sender, way, group, ends, share })));
        self.list(o.at_src);
    }
    fn listen(&mut self, _: &mut Io<'_>, o: &Opening) {
        let protocol = o.protocol as usize;
        let config = self.options.protocols[protocol].config.clone();
        let receiver = Receiver::new(config, o.flow.0, self.header_len[protocol]);
        let way = Way { flow: o.flow.0, peer: o.at_src, to: o.src, entropy: o.back, listed: false };
        self.place(o.at_dst, End::Receiver(Box::new(ReceiveEnd { receiver, way, ends: VecDeque::new() })));
    }
    fn accept(&mut self, io: &mut Io<'_>, conn: u32, bytes: u64) {
        let end = self.sender(conn);
        end.sender.write(io.now, bytes);
        if bytes < u64::MAX / 4 {
            end.ends.push_back(end.sender.view.app_end);
        }
        self.list(conn);
    }
    fn expect(&mut self, conn: u32, at: u64) {
        match &mut self.ends[conn as usize] {
            End::Receiver(end) => end.ends.push_back(at),
            _ => panic!("handle {conn} is not one of a receiving end"),
        }
    }
    fn close(&mut self, _: &mut Io<'_>, conn: u32) {
        self.sender(conn).sender.close();
        self.list(conn);
    }
    fn leave(&mut self, _: &mut Io<'_>, conn: u32) {
        self.sender(conn).sender.leave();
        self.list(conn);
    }
    fn forget(&mut self, io: &mut Io<'_>, conn: u32) {
        let end = core::mem::replace(&mut self.ends[conn as usize], End::Free);
        self.timers.forget(conn);
        if let Some(way) = end.way() {
            self.ready.remove(way.flow, conn);
        }
        match end {
            End::Sender(end) if end.group != Opening::ALONE => {
                let host = &mut self.options.groups[end.group as usize];
                host.on_close(io.now, FlowId(end.way.flow));
                io.news.extend(host.take_transitions().into_iter().map(News::Transition));
            }
            End::Receiver(end) => {
                if let Some(control) = &mut self.options.receive {
                    control.on_close(io.now, end.way.flow);
                }
            }
            _ => {}
        }
    }

    #[inline]
    fn receive(&mut self, io: &mut Io<'_>, cell: &Cell) {
        let packet = &mut io.arena.packets[cell.packet as usize];
        packet.ecn = cell.ecn();
        let (conn, flow) = (packet.conn(), packet.flow);
        let forward = packet.is_forward();
        let way = match self.ends.get_mut(conn as usize) {
            Some(End::Receiver(end)) if end.way.flow == flow && forward => {
                on_data(end, &mut self.options, io, cell.packet);
                &mut end.way
            }
            Some(End::Sender(end)) if end.way.flow == flow && !forward => {
                if !on_ack(end, &mut self.options, &mut self.news, io, cell.packet) {
                    return;
                }
                &mut end.way
            }
            // Of a connection that is over: a duplicate that was still on its way.
            _ => return io.arena.release(cell.packet),
        };
        if !way.listed {
            way.listed = true;
            self.ready.push(flow, conn);
        }
    }
    #[inline]
    fn exchange<N: Net>(&mut self, x: &mut Exchange<'_, N>, cell: &Cell) -> bool {
        let Exchange { now, port, paused, news, net } = x;
        let (now, priority) = (*now, self.options.priority);
        let mut io = Io { now, arena: net.arena(), news, paused: *paused };
        let packet = &mut io.arena.packets[cell.packet as usize];
        packet.ecn = cell.ecn();
        let (conn, flow, forward) = (packet.conn(), packet.flow, packet.is_forward());
        if !self.ready.is_empty() || *paused != 0 {
            self.receive(&mut io, cell);
            return false;
        }
        let told = match self.ends.get_mut(conn as usize) {
            Some(End::Receiver(end)) if end.way.flow == flow && forward => {
                on_data(end, &mut self.options, &mut io, cell.packet);
                if news.is_empty() {
                    let Way { flow, .. } = end.way;
                    loop {
                        let arena = net.arena();
                        let id = arena.alloc();
                        let (packet, header) = arena.segment(id);
                        if !end.receiver.poll_transmit(now, packet, header) {
                            arena.release(id);
                            break;
                        }
                        let answer = dispatch(&end.way, arena, id, priority);
                        net.transmit(now, *port, answer);
                    }
                    let at = end.receiver.deadline();
                    if at != Time::NEVER {
                        self.timers.arm(at, kind::RECEIVER, flow, conn);
                    }
                    return true;
                }
                &mut end.way
            }
            Some(End::Sender(end)) if end.way.flow == flow && !forward => {
                if !on_ack(end, &mut self.options, &mut self.news, &mut io, cell.packet) {
                    return false;
                }
                if news.is_empty() {
                    if end.group != Opening::ALONE {
                        end.sender.set_cap(self.options.groups[end.group as usize].cap(FlowId(flow)));
                    }
                    loop {
                        if let Some(limit) = self.options.host_queue {
                            let next = end.sender.packet_len();
                            end.sender.set_host_free_at(end.share.free_at(now, limit, next));
                        }
                        let arena = net.arena();
                        let id = arena.alloc();
                        let (packet, header) = arena.segment(id);
                        if !end.sender.poll_transmit(now, packet, header) {
                            arena.release(id);
                            break;
                        }
                        let data = dispatch(&end.way, arena, id, priority);
                        if let (Some(at), true) =
                            (net.transmit(now, *port, data), self.options.host_queue.is_some())
                        {
                            end.share.take(at, data.bytes);
                        }
                    }
                    let at = end.sender.deadline();
                    if at != Time::NEVER {
                        self.timers.arm(at, kind::SENDER, flow, conn);
                    }
                    return true;
                }
                &mut end.way
            }
            // Of a connection that is over: a duplicate that was still on its way.
            _ => {
                io.arena.release(cell.packet);
                return true;
            }
        };
        // What was told comes first; then the connection sends.
        told.listed = true;
        self.ready.push(flow, conn);
        false
    }
    #[inline]
    fn pull(&mut self, io: &mut Io<'_>) -> Option<Cell> {
        if io.paused & (1 << self.options.priority) != 0 {
            return None;
        }
        while let Some(conn) = self.ready.first() {
            if let Some(cell) = self.poll(io, conn) {
                self.ready.sent();
                return Some(cell);
            }
            self.ready.drop_first();
        }
        None
    }
    fn pull_of(&mut self, io: &mut Io<'_>, conn: u32) -> Option<Cell> {
        self.poll(io, conn)
    }
    #[inline]
    fn departs(&mut self, at: Time) {
        let (conn, bytes) = self.last;
        if self.options.host_queue.is_some() && bytes > 0 {
            self.sender(conn).share.take(at, bytes);
        }
    }
    #[inline]
    fn ready(&self, paused: u8) -> Time {
        if self.ready.is_empty() || paused & (1 << self.options.priority) != 0 {
            Time::NEVER
        } else {
            Time::ZERO
        }
    }

    #[inline]
    fn deadline(&self) -> Time {
        self.timers.next()
    }
    fn on_deadline(&mut self, io: &mut Io<'_>) {
        let Some((_, conn)) = self.timers.due(io.now) else { return };
        match &mut self.ends[conn as usize] {
            End::Sender(end) => {
                if end.sender.deadline() <= io.now {
                    end.sender.on_deadline(io.now);
                    if let Some(record) = end.sender.take_timeout() {
                        let max_sent = end.sender.view.max_sent;
                        io.news.push(News::Timeout { flow: FlowId(end.way.flow), max_sent, record });
                    }
                    if end.group != Opening::ALONE {
                        let host = &mut self.options.groups[end.group as usize];
                        tell_host(host, end, &mut self.news, 0, io);
                    }
                }
            }
            End::Receiver(end) => {
                if end.receiver.deadline() <= io.now {
                    end.receiver.on_deadline(io.now);
                }
            }
            End::Free => return,
        }
        self.list(conn);
    }

    fn counters(&self, conn: u32) -> Counters {
        match &self.ends[conn as usize] {
            End::Sender(end) => {
                let (s, rtt) = (&end.sender.stats, end.sender.rtt());
                Counters {
                    accepted_bytes: end.sender.view.app_end,
                    acked_bytes: end.sender.acked(),
                    data_packets: s.data_packets,
                    retransmits: s.retransmits,
                    timeouts: s.timeouts,
                    fast_retransmits: s.fast_retransmits,
                    ece_acks: s.ece_acks,
                    established: !matches!(end.sender.phase(), Phase::Closed | Phase::SynSent),
                    srtt: rtt.smoothed,
                    rtt_mean: Dur(rtt.total.0 / rtt.samples.max(1)),
                    ..Counters::default()
                }
            }
            End::Receiver(end) => Counters {
                delivered_bytes: end.receiver.delivered(),
                duplicate_bytes: end.receiver.duplicate_bytes,
                ..Counters::default()
            },
            End::Free => Counters::default(),
        }
    }
    fn missing_below(&self, conn: u32, end: u64) -> u64 {
        match &self.ends[conn as usize] {
            End::Receiver(e) => e.receiver.missing_below(end),
            _ => 0,
        }
    }
    fn observe(&self, conn: u32, report: &mut dyn FnMut(&'static str, f64)) {
        if let End::Sender(end) = &self.ends[conn as usize] {
            report("cwnd_bytes", end.sender.cwnd() as f64);
            report("acked_bytes", end.sender.acked() as f64);
            report("srtt_s", end.sender.rtt().smoothed.as_secs());
            report("rtt_s", end.sender.view.rtt_latest.as_secs());
            end.sender.observe(report);
        }
    }
    fn observe_group(&self, conn: u32, report: &mut dyn FnMut(&'static str, f64)) {
        if let End::Sender(end) = &self.ends[conn as usize] {
            if let Some(host) = self.options.groups.get(end.group as usize) {
                host.observe(FlowId(end.way.flow), report);
            }
        }
    }
}
