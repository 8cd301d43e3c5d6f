//! A transport other than TCP, in its own crate: selective repeat (Tanenbaum, Computer Networks, section 3.4.3, from
//! memory). A fixed number of packets is in flight, each with its own acknowledgement and timer. It has no handshake
//! and no congestion control. A simulation's registry takes the stack, without a change to penstock.
//!
//! A [`Stack`] is a transport at one host. A [`MessageStack`] keeps its connections, hands packets to the right end,
//! sends acknowledgements first, and carries out what applications do. The law here, `FixedWindow`, has the rest: which
//! packet is sent when the host's link can take one, and what packets and timers change.

use penstock::fabric::Cell;
use penstock::host::ends::{self, Incoming, Outgoing, Timeout, Toward};
use penstock::host::messages::{End, MessageLaw, MessageStack, Messages};
use penstock::host::{Io, Opening};
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
            Box::new(MessageStack(FixedWindow { m: Messages::new(facts), window, rto }))
        });
        // It needs nothing of switches: a scenario's ports are as its keys say. Its connections take turns, whatever `nic_order` says.
        let wire = Wire { header: HEADER, ack: ACK };
        Ok(Suite { own_order: true, ..Suite::own(stack, wire, None) })
    },
};

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
    /// First byte not acknowledged.
    fn una(&self) -> u64 {
        self.pending.first_key_value().map_or(self.nxt, |(seq, _)| *seq)
    }
    /// When the oldest timer runs out.
    fn timer(&mut self, rto: Dur) -> Time {
        while let Some((at, seq)) = self.clock.front() {
            if self.pending.get(seq).is_some_and(|(_, sent)| sent == at) && !self.again.contains(seq) {
                return *at + rto;
            }
            self.clock.pop_front();
        }
        Time::NEVER
    }
}

penstock::host::ends!(Sending { out });

/// The transport at one host.
struct FixedWindow {
    m: Messages<Sending, Incoming>,
    window: usize,
    rto: Dur,
}

impl FixedWindow {
    /// The next packet of `conn`, which has left the line.
    fn send_of(&mut self, io: &mut Io<'_>, conn: u32) -> Option<Cell> {
        let s = self.m.ends.sender(conn)?;
        s.in_line = false;
        let (seq, payload) = s.next(self.window, self.m.facts.mss)?;
        let end = seq + u64::from(payload);
        s.again.remove(&seq);
        s.pending.insert(seq, (payload, io.now));
        s.clock.push_back((io.now, seq));
        s.nxt = s.nxt.max(end);
        let again = s.out.count_sent(end);
        Some(s.out.data(io, (seq, end), payload + HEADER, again))
    }
}

impl MessageLaw for FixedWindow {
    type Sender = Sending;
    type Receiver = Incoming;

    fn messages(&self) -> &Messages<Sending, Incoming> {
        &self.m
    }
    fn messages_mut(&mut self) -> &mut Messages<Sending, Incoming> {
        &mut self.m
    }
    fn priorities(&self) -> (u8, u8) {
        // All its packets have priority 0.
        (1, 1)
    }

    fn sender(&mut self, _: Time, opening: &Opening) -> Sending {
        Sending {
            out: Outgoing::new(opening),
            nxt: 0,
            pending: BTreeMap::new(),
            again: BTreeSet::new(),
            clock: VecDeque::new(),
            in_line: false,
            timeouts_in_a_row: 0,
        }
    }
    fn receiver(&mut self, opening: &Opening) -> Incoming {
        Incoming::new(opening)
    }
    fn settle(&mut self, _: Time, conn: u32) {
        let Some(s) = self.m.ends.sender(conn) else { return };
        if !s.in_line && s.next(self.window, self.m.facts.mss).is_some() {
            s.in_line = true;
            self.m.line.push_back(conn);
        }
        self.m.timers.set(conn, s.timer(self.rto));
    }

    fn on_data(&mut self, io: &mut Io<'_>, conn: u32, packet: &Packet, cell: &Cell) {
        // A packet that a switch has cut to its header is as good as lost: its timer repeats it.
        let incoming = self.m.ends.receiver(conn).filter(|_| !cell.is_trimmed());
        let Some(incoming) = incoming else { return };
        incoming.take(packet, u64::from(packet.payload), io.stack_events);
        let ack = ends::header(io, &incoming.opening, Toward::Sender, 0, ACK, 0);
        io.arena.packets[ack.packet as usize].seq = packet.seq;
        self.m.control.push_back(ack);
    }
    fn on_answer(&mut self, io: &mut Io<'_>, conn: u32, packet: &Packet, _: &Cell) {
        let Some(s) = self.m.ends.sender(conn) else { return };
        if s.pending.remove(&packet.seq).is_some() {
            s.again.remove(&packet.seq);
            s.timeouts_in_a_row = 0;
            let una = s.una();
            s.out.acked(una, io.stack_events);
        }
        self.settle(io.now, conn);
    }
    fn send(&mut self, io: &mut Io<'_>) -> Option<Cell> {
        // Its connections take turns.
        while let Some(conn) = self.m.line.pop_front() {
            let sent = self.send_of(io, conn);
            self.settle(io.now, conn);
            if sent.is_some() {
                return sent;
            }
        }
        None
    }
    fn on_timer(&mut self, io: &mut Io<'_>, conn: u32) {
        let (rto, cwnd) = (self.rto, self.window as u64 * u64::from(self.m.facts.mss));
        let Some(s) = self.m.ends.sender(conn) else { return };
        let outstanding = s.pending.values().map(|(bytes, _)| u64::from(*bytes)).sum();
        let before = s.again.len();
        while s.timer(rto) <= io.now {
            let (_, seq) = s.clock.pop_front().expect("it has the time");
            s.again.insert(seq);
        }
        if s.again.len() > before {
            s.timeouts_in_a_row += 1;
            let (una, in_a_row) = (s.una(), s.timeouts_in_a_row);
            let timeout = Timeout { from: una, lost: una, outstanding, cwnd, rto, in_a_row };
            s.out.timed_out(&timeout, io.stack_events);
        }
        self.settle(io.now, conn);
    }
    fn observe(&self, end: &End<Sending, Incoming>, report: &mut Report<'_>) {
        if let End::Sender(s) = end {
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
