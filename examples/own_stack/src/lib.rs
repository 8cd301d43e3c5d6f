//! A transport other than TCP, in its own crate: selective repeat (Tanenbaum, Computer Networks, section 3.4.3, from
//! memory). A fixed number of packets is in flight, each with its own acknowledgement and timer. It has no handshake
//! and no congestion control. A simulation's registry takes the stack, without a change to penstock.
//!
//! A [`Stack`] is all of a transport at one host. The network card pulls a packet when the host's link can take one
//! ([`Stack::pull`]) and delivers arriving packets ([`Stack::receive`]). The stack sets its next timer
//! ([`Stack::deadline`]) and reports delivered and acknowledged bytes to its driver ([`News`], here by [`Incoming`] and
//! [`Outgoing`]).

use penstock::core::tcp::{TimeoutKind, TimeoutRecord};
use penstock::fabric::Cell;
use penstock::host::ends::{Alarms, Incoming, Outgoing, Seats};
use penstock::host::{Counters, Io, News, Opening};
use penstock::{
    Dur, HostFacts, Kind, Packet, ParamError, ParamSpec, Protocol, Quantity, Report, Results, Simulation,
    Stack, Suite, Time, Unit, Wire,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// IP and UDP headers of a data packet, bytes.
pub const HEADER: u32 = 28;
/// An ACK: the same and a number of 8 bytes.
pub const ACK: u32 = HEADER + 8;

/// What a sender reports when its series is asked for.
static IN_FLIGHT: Quantity =
    Quantity::new("in_flight_packets", Unit::Packets, "packets sent and not acknowledged");

/// The transport.
pub const FIXED_WINDOW: Protocol = Protocol {
    name: "fixed-window",
    text: "a fixed number of packets under way, each acknowledged and repeated on its own",
    cites: "Tanenbaum, Computer Networks, section 3.4.3 (from memory)",
    params: &[
        ParamSpec::new("window", Kind::Count, "32", "packets under way", "chosen").range(1.0, 1e6),
        ParamSpec::new("rto", Kind::Duration, "1ms", "a packet is sent again after so long", "chosen")
            .range(1e-6, 10.0),
    ],
    reports: &[&IN_FLIGHT],
    build: |p| {
        let (window, rto) = (p.count("window") as usize, p.dur("rto"));
        let stack = Arc::new(move |facts: &HostFacts| -> Box<dyn Stack> {
            Box::new(FixedWindow::new(facts, window, rto))
        });
        // It needs nothing of switches: a scenario's ports are as its keys say. Its connections take turns, whatever `nic_order` says.
        let wire = Wire { header: HEADER, ack: ACK };
        Ok(Suite { own_order: true, ..Suite::own(stack, wire, None) })
    },
};

/// What a packet is, in word 0 of its segment.
mod kind {
    pub const DATA: u32 = 0;
    pub const ACK: u32 = 1;
}

/// A sending end.
struct Sending {
    out: Outgoing,
    /// First byte never sent.
    nxt: u64,
    /// Packets that are not acknowledged, by first byte: bytes, and when each was last sent.
    pending: BTreeMap<u64, (u32, Time)>,
    /// Those of them whose timer has run out.
    again: BTreeSet<u64>,
    /// Send times in order; an entry is out of date when its packet was acknowledged or sent again.
    clock: VecDeque<(Time, u64)>,
    in_line: bool,
    timeouts_in_a_row: u32,
}

impl Sending {
    /// First byte and payload of the next packet, repetitions first.
    fn next(&self, window: usize, mss: u32) -> Option<(u64, u32)> {
        if let Some(seq) = self.again.first() {
            return Some((*seq, self.pending[seq].0));
        }
        let payload = (self.out.written - self.nxt).min(u64::from(mss)) as u32;
        (payload > 0 && self.pending.len() < window).then_some((self.nxt, payload))
    }
    /// When the oldest timer runs out.
    fn deadline(&mut self, rto: Dur) -> Time {
        while let Some((at, seq)) = self.clock.front() {
            if self.pending.get(seq).is_some_and(|(_, sent)| sent == at) && !self.again.contains(seq) {
                return *at + rto;
            }
            self.clock.pop_front();
        }
        Time::NEVER
    }
}

enum End {
    Sending(Box<Sending>),
    Receiving(Box<Incoming>),
}

/// The transport at one host.
struct FixedWindow {
    mss: u32,
    window: usize,
    rto: Dur,
    ends: Seats<End>,
    alarms: Alarms,
    acks: VecDeque<Cell>,
    /// Sending ends that have a packet to send, the next one first.
    line: VecDeque<u32>,
}

impl FixedWindow {
    fn new(facts: &HostFacts, window: usize, rto: Dur) -> FixedWindow {
        FixedWindow {
            mss: facts.mss,
            window,
            rto,
            ends: Seats::default(),
            alarms: Alarms::default(),
            acks: VecDeque::new(),
            line: VecDeque::new(),
        }
    }
    fn sending(&mut self, conn: u32) -> Option<&mut Sending> {
        match self.ends.get_mut(conn) {
            Some(End::Sending(s)) => Some(s),
            _ => None,
        }
    }
    /// Gives a sending end its place in line and its alarm after something has changed.
    fn settle(&mut self, conn: u32) {
        let (window, mss, rto) = (self.window, self.mss, self.rto);
        let Some(s) = self.sending(conn) else { return };
        let joins = !s.in_line && s.next(window, mss).is_some();
        s.in_line |= joins;
        let at = s.deadline(rto);
        self.alarms.set(conn, at);
        if joins {
            self.line.push_back(conn);
        }
    }
    /// The packet of `conn` whose turn it is.
    fn send(&mut self, io: &mut Io<'_>, conn: u32) -> Option<Cell> {
        let (window, mss) = (self.window, self.mss);
        let s = self.sending(conn)?;
        s.in_line = false;
        let (seq, payload) = s.next(window, mss)?;
        s.again.remove(&seq);
        s.pending.insert(seq, (payload, io.now));
        s.clock.push_back((io.now, seq));
        s.nxt = s.nxt.max(seq + u64::from(payload));
        s.out.count_sent(seq + u64::from(payload));
        let (o, window) = (s.out.opening, s.out.mark(seq, seq + u64::from(payload)));
        let wire = payload + HEADER;
        let slot = io.arena.alloc();
        let packet = &mut io.arena.packets[slot as usize];
        *packet = Packet {
            seq,
            payload,
            window,
            wire_len: wire,
            flow: o.flow.0,
            stamp: io.now.0,
            ..Packet::default()
        };
        packet.set_conn(o.at_dst);
        packet.set_class(o.class);
        packet.set_word(0, kind::DATA);
        let mut cell = Cell::new(slot, wire).with_class(o.class).with_payload().with_noise();
        (cell.to, cell.entropy) = (o.dst, o.forth);
        Some(cell)
    }
}

/// An ACK of the packet that begins at byte `seq`.
fn ack(io: &mut Io<'_>, o: &Opening, seq: u64) -> Cell {
    let slot = io.arena.alloc();
    let packet = &mut io.arena.packets[slot as usize];
    *packet = Packet { seq, wire_len: ACK, flow: o.flow.0, stamp: io.now.0, ..Packet::default() };
    packet.set_conn(o.at_src);
    packet.set_class(o.class);
    packet.set_word(0, kind::ACK);
    let mut cell = Cell::new(slot, ACK).with_class(o.class);
    (cell.to, cell.entropy) = (o.src, o.back);
    cell
}

impl Stack for FixedWindow {
    fn open(&mut self, _: &mut Io<'_>, opening: &Opening) {
        let sending = Sending {
            out: Outgoing::new(opening),
            nxt: 0,
            pending: BTreeMap::new(),
            again: BTreeSet::new(),
            clock: VecDeque::new(),
            in_line: false,
            timeouts_in_a_row: 0,
        };
        self.ends.put(opening.at_src, End::Sending(Box::new(sending)));
    }
    fn listen(&mut self, _: &mut Io<'_>, opening: &Opening) {
        self.ends.put(opening.at_dst, End::Receiving(Box::new(Incoming::new(opening))));
    }
    fn set_peer(&mut self, conn: u32, peer: u32) {
        if let Some(s) = self.sending(conn) {
            s.out.opening.at_dst = peer;
        }
    }
    fn accept(&mut self, _: &mut Io<'_>, conn: u32, bytes: u64) {
        if let Some(s) = self.sending(conn) {
            s.out.accept(bytes);
        }
        self.settle(conn);
    }
    fn close(&mut self, io: &mut Io<'_>, conn: u32) {
        if let Some(s) = self.sending(conn) {
            s.out.close(io.news);
        }
    }
    fn leave(&mut self, io: &mut Io<'_>, conn: u32) {
        if let Some(s) = self.sending(conn) {
            s.out.leave(io.news);
        }
        self.settle(conn);
    }
    fn forget(&mut self, _: &mut Io<'_>, conn: u32) {
        self.ends.take(conn);
        self.line.retain(|c| *c != conn);
        self.alarms.set(conn, Time::NEVER);
    }

    fn receive(&mut self, io: &mut Io<'_>, cell: &Cell) {
        let packet = io.arena.packets[cell.packet as usize];
        io.arena.release(cell.packet);
        let conn = packet.conn();
        match self.ends.get_mut(conn) {
            Some(End::Sending(s)) if s.out.opening.flow.0 == packet.flow && packet.word(0) == kind::ACK => {
                if s.pending.remove(&packet.seq).is_some() {
                    s.again.remove(&packet.seq);
                    s.timeouts_in_a_row = 0;
                    let una = s.pending.first_key_value().map_or(s.nxt, |(seq, _)| *seq);
                    s.out.acked(una, io.news);
                }
                self.settle(conn);
            }
            // What a switch has cut to its header has brought nothing: its timer will see to it.
            Some(End::Receiving(incoming))
                if incoming.opening.flow.0 == packet.flow
                    && packet.word(0) == kind::DATA
                    && !cell.is_trimmed() =>
            {
                incoming.take(&packet, u64::from(packet.payload), io.news);
                let opening = incoming.opening;
                self.acks.push_back(ack(io, &opening, packet.seq));
            }
            // The packet belongs to a connection that is over.
            _ => {}
        }
    }
    fn pull(&mut self, io: &mut Io<'_>) -> Option<Cell> {
        // All its packets have priority 0.
        if io.paused & 1 != 0 {
            return None;
        }
        if let Some(ack) = self.acks.pop_front() {
            return Some(ack);
        }
        while let Some(conn) = self.line.pop_front() {
            let sent = self.send(io, conn);
            self.settle(conn);
            if sent.is_some() {
                return sent;
            }
        }
        None
    }
    fn ready(&self, paused: u8) -> Time {
        if paused & 1 != 0 || self.acks.is_empty() && self.line.is_empty() {
            Time::NEVER
        } else {
            Time::ZERO
        }
    }

    fn deadline(&self) -> Time {
        self.alarms.first()
    }
    fn on_deadline(&mut self, io: &mut Io<'_>) {
        let Some(conn) = self.alarms.due(io.now) else { return };
        let (rto, cwnd) = (self.rto, self.window as u64 * u64::from(self.mss));
        let Some(s) = self.sending(conn) else { return };
        let outstanding = s.pending.values().map(|(bytes, _)| u64::from(*bytes)).sum();
        let before = s.again.len();
        while s.deadline(rto) <= io.now {
            let (_, seq) = s.clock.pop_front().expect("it has the time");
            s.again.insert(seq);
        }
        if s.again.len() > before {
            s.timeouts_in_a_row += 1;
            s.out.counters.timeouts += 1;
            let una = s.pending.first_key_value().map_or(s.nxt, |(seq, _)| *seq);
            io.news.push(News::Timeout {
                flow: s.out.opening.flow,
                max_sent: s.out.max_sent,
                record: TimeoutRecord {
                    kind: if s.timeouts_in_a_row > 1 {
                        TimeoutKind::Repeated
                    } else {
                        TimeoutKind::WindowLost
                    },
                    block_start: una == 0,
                    block_offset: una,
                    outstanding,
                    cwnd,
                    rto,
                    in_a_row: s.timeouts_in_a_row,
                },
            });
        }
        self.settle(conn);
    }

    fn queued(&self) -> u64 {
        self.acks.len() as u64
    }
    fn counters(&self, conn: u32) -> Counters {
        match self.ends.get(conn) {
            Some(End::Sending(s)) => s.out.counters,
            Some(End::Receiving(incoming)) => incoming.counters,
            None => Counters::default(),
        }
    }
    fn missing_below(&self, conn: u32, end: u64) -> u64 {
        match self.ends.get(conn) {
            Some(End::Receiving(incoming)) => incoming.missing_below(end),
            _ => 0,
        }
    }
    fn observe(&self, conn: u32, report: &mut Report<'_>) {
        if let Some(End::Sending(s)) = self.ends.get(conn) {
            report(&IN_FLIGHT, s.pending.len() as f64);
        }
    }
}

/// One flow with this window and one of `other` into one port of 10 Gb/s.
///
/// # Errors
/// A bad value.
pub fn beside(other: &str, window: u32) -> Result<Results, ParamError> {
    Simulation::on("star:3")
        .link("10Gbps", "10us")
        .buffer("200pkt")
        .queue("threshold:k=65pkt")
        .transport((&FIXED_WINDOW, &*format!("window={window}")))
        .endless_flow("h0", "h2", "0s")
        .transport(other)
        .endless_flow("h1", "h2", "100us")
        .duration("100ms")
        .warmup("20ms")
        .run()
}
