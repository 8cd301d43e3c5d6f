//! The two ends of a queue pair.

use super::{AckRecord, LossSign, PairView, RateLaw, RdmaConfig};
use crate::ends::{Incoming, Outgoing};
use crate::stack::{Io, News};
use alloc::boxed::Box;
use penstock_core::packet::flag;
use penstock_core::tcp::{TimeoutKind, TimeoutRecord};
use penstock_core::{Ecn, Packet};
use penstock_fabric::{Arena, Cell};
use penstock_units::{Dur, Rate, Time};

/// What a packet is, in word 0 of its segment.
pub(super) mod kind {
    pub const DATA: u32 = 0;
    pub const ACK: u32 = 1;
    pub const NACK: u32 = 2;
    pub const CNP: u32 = 3;
}
/// Word 1 of data: an ACK is wanted at once.
const WANTS_ACK: u32 = 1;

/// Where a sending pair stands with the network card.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// It has nothing to send, or its window is full.
    Idle,
    /// Among those whose turn comes.
    InLine,
    /// Its limiter lets it go on at this time.
    Asleep(Time),
}

/// A retransmission timeout from now.
fn after(now: Time, c: &RdmaConfig) -> Time {
    if c.rto == Dur::MAX {
        Time::NEVER
    } else {
        now + c.rto
    }
}

/// The sending end.
pub(super) struct Sending {
    pub out: Outgoing,
    pub law: Box<dyn RateLaw>,
    pub place: Place,
    una: u64,
    nxt: u64,
    /// When the limiter lets the next packet go.
    pub next_at: Time,
    /// The latest packet: when it left, and its bytes on the link.
    latest: (Time, u32),
    rto_at: Time,
    timeouts_in_a_row: u32,
}

impl Sending {
    pub fn new(out: Outgoing, law: Box<dyn RateLaw>) -> Sending {
        Sending {
            out,
            law,
            place: Place::Idle,
            una: 0,
            nxt: 0,
            next_at: Time::ZERO,
            latest: (Time::ZERO, 0),
            rto_at: Time::NEVER,
            timeouts_in_a_row: 0,
        }
    }
    pub fn view(&self) -> PairView {
        PairView { una: self.una, nxt: self.nxt, max_sent: self.out.max_sent }
    }
    pub fn deadline(&self) -> Time {
        self.rto_at.min(self.law.deadline())
    }
    /// Something is left to be sent.
    pub fn has_left(&self) -> bool {
        self.out.written > self.nxt
    }
    /// Payload of the next packet; `None` = nothing is left or the window is full.
    pub fn next_payload(&self, mss: u32, overshoot: bool) -> Option<u32> {
        let payload = self.out.written.saturating_sub(self.nxt).min(u64::from(mss));
        let outstanding = self.nxt - self.una;
        let window = self.law.control().window.unwrap_or(u64::MAX);
        let fits = if overshoot { outstanding < window } else { outstanding + payload <= window };
        (payload > 0 && (outstanding == 0 || fits)).then_some(payload as u32)
    }
    /// When the limiter lets a packet go behind the latest one.
    fn limited(&self, line: Rate) -> Time {
        let (at, bytes) = self.latest;
        match self.law.control().rate.filter(|r| *r < line) {
            Some(rate) => at + penstock_units::Bytes(u64::from(bytes)) / rate,
            None => at,
        }
    }
    /// Sends the next packet, of `payload` bytes.
    pub fn send(&mut self, io: &mut Io<'_>, c: &RdmaConfig, payload: u32, framing: u32, line: Rate) -> Cell {
        let o = &self.out.opening;
        let wire = payload + c.header;
        let last = self.nxt + u64::from(payload) == self.out.written;
        // Behind a packet that fills the window nothing comes that would have it acknowledged.
        let ahead = self.nxt - self.una + u64::from(payload) * if c.overshoot { 1 } else { 2 };
        let full = |window| ahead > window || c.overshoot && ahead == window;
        let wants_ack = last || self.law.control().window.is_some_and(full);
        let (flow, dst, at_dst, class, entropy) = (o.flow.0, o.dst, o.at_dst, o.class, o.forth);
        let slot = io.arena.alloc();
        io.arena.ask_telemetry(slot);
        let again = self.out.count_sent(self.nxt + u64::from(payload));
        let packet = &mut io.arena.packets[slot as usize];
        *packet = Packet {
            seq: self.nxt,
            stamp: io.now.0,
            flow,
            wire_len: wire,
            payload,
            flags: if again { flag::RETRANSMIT } else { 0 },
            ecn: Ecn::Ect0,
            ..Packet::default()
        };
        packet.set_conn(at_dst);
        packet.set_class(class);
        packet.set_word(0, kind::DATA);
        packet.set_word(1, if wants_ack { WANTS_ACK } else { 0 });
        if self.nxt == self.una {
            self.rto_at = after(io.now, c);
        }
        self.nxt += u64::from(payload);
        let on_link = wire + framing;
        let view = self.view();
        self.law.on_sent(io.now, on_link, &view);
        self.latest = (io.now, on_link);
        self.next_at = self.limited(line);
        let mut cell = Cell::new(slot, wire)
            .with_priority(c.data_priority)
            .with_ecn(Ecn::Ect0)
            .with_class(class)
            .with_payload()
            .with_noise();
        (cell.to, cell.entropy) = (dst, entropy);
        cell
    }
    /// An ACK, a NACK or a CNP has arrived.
    pub fn receive(&mut self, io: &mut Io<'_>, packet: &Packet, slot: u32, c: &RdmaConfig, line: Rate) {
        if packet.word(0) == kind::CNP {
            self.out.counters.ece_acks += 1;
            let view = self.view();
            return self.law.on_cnp(io.now, &view);
        }
        let bytes = packet.seq.saturating_sub(self.una);
        let ece = packet.has(flag::ECE);
        self.out.counters.ece_acks += u64::from(ece);
        if bytes > 0 {
            self.una = packet.seq;
            self.nxt = self.nxt.max(self.una);
            self.timeouts_in_a_row = 0;
            self.rto_at = if self.nxt > self.una { after(io.now, c) } else { Time::NEVER };
            self.out.acked(self.una, io.news);
        }
        let rtt = io.now.since(packet.sent_at());
        let record = AckRecord { now: io.now, bytes, rtt, ece, telemetry: io.arena.hops(slot) };
        let view = self.view();
        self.law.on_ack(&record, &view);
        if self.law.moves_departures() {
            self.next_at = self.limited(line);
        }
        if packet.word(0) == kind::NACK && packet.seq == self.una && self.nxt > self.una {
            self.out.counters.fast_retransmits += 1;
            let outstanding = self.nxt - self.una;
            self.go_back(io, LossSign::Nack);
            io.news.push(News::FastRetransmit {
                flow: self.out.opening.flow,
                max_sent: self.out.max_sent,
                outstanding,
                cwnd: self.law.control().window.unwrap_or(outstanding),
            });
            // A fresh period for what is now sent again.
            self.rto_at = after(io.now, c);
        }
    }
    /// Go-back-N: everything from the oldest unacknowledged byte on is sent again.
    fn go_back(&mut self, io: &Io<'_>, sign: LossSign) {
        self.nxt = self.una;
        let view = self.view();
        self.law.on_loss(io.now, sign, &view);
    }
    pub fn on_deadline(&mut self, io: &mut Io<'_>, c: &RdmaConfig) {
        if self.law.deadline() <= io.now {
            let view = self.view();
            self.law.on_deadline(io.now, &view);
        }
        if self.rto_at > io.now {
            return;
        }
        let outstanding = self.nxt - self.una;
        self.timeouts_in_a_row += 1;
        self.out.counters.timeouts += 1;
        self.rto_at = after(io.now, c);
        self.go_back(io, LossSign::Timeout);
        let kind = if self.timeouts_in_a_row > 1 { TimeoutKind::Repeated } else { TimeoutKind::WindowLost };
        io.news.push(News::Timeout {
            flow: self.out.opening.flow,
            max_sent: self.out.max_sent,
            record: TimeoutRecord {
                kind,
                block_start: self.una == 0,
                block_offset: self.una,
                outstanding,
                cwnd: self.law.control().window.unwrap_or(outstanding),
                rto: c.rto,
                in_a_row: self.timeouts_in_a_row,
            },
        });
    }
}

/// The receiving end.
pub(super) struct Receiving {
    pub incoming: Incoming,
    /// Packets in order that were not acknowledged yet, and whether one of them was marked.
    unacked: u32,
    marked: bool,
    /// No NACK before this time: one was sent for the present gap.
    nack_at: Time,
    /// No CNP before this time.
    cnp_at: Time,
    /// A marked packet came since the last CNP.
    cnp_owed: bool,
}

impl Receiving {
    pub fn new(incoming: Incoming) -> Receiving {
        Receiving {
            incoming,
            unacked: 0,
            marked: false,
            nack_at: Time::ZERO,
            cnp_at: Time::ZERO,
            cnp_owed: false,
        }
    }
    pub fn deadline(&self) -> Time {
        if self.cnp_owed {
            self.cnp_at
        } else {
            Time::NEVER
        }
    }
    /// A data packet has arrived; what has to be sent back is put into `out`.
    pub fn receive(
        &mut self,
        io: &mut Io<'_>,
        packet: &Packet,
        cell: &Cell,
        c: &RdmaConfig,
        out: &mut impl Extend<Cell>,
    ) {
        if cell.ecn() == Ecn::Ce {
            self.marked = true;
            self.note_marked(io, packet, c, out);
        }
        let end = packet.seq + u64::from(packet.payload);
        let next = self.incoming.next;
        // What a switch has cut to its header is as good as lost, but known to be.
        if packet.seq > next || cell.is_trimmed() && end >= next {
            if io.now >= self.nack_at {
                self.nack_at = c.nack_again.map_or(Time::NEVER, |again| io.now + again);
                out.extend([self.answer(io, packet, cell.packet, kind::NACK, c)]);
            }
            return;
        }
        if self.incoming.take(packet.seq, u64::from(packet.payload), io.news) > 0 {
            self.nack_at = Time::ZERO;
            self.unacked += 1;
            if packet.word(1) & WANTS_ACK == 0 && self.unacked < c.ack_every {
                return;
            }
        } else if !c.ack_repeated {
            return;
        }
        // A repetition is acknowledged at once: its sender has missed an ACK.
        self.unacked = 0;
        out.extend([self.answer(io, packet, cell.packet, kind::ACK, c)]);
    }
    /// The notification point (Zhu et al., SIGCOMM 2015, section 3.1, figure 6): a marked packet is answered by a CNP
    /// at once when none was sent for a CNP interval; otherwise one follows at the end of the interval.
    fn note_marked(&mut self, io: &mut Io<'_>, packet: &Packet, c: &RdmaConfig, out: &mut impl Extend<Cell>) {
        let Some(interval) = c.cnp_interval else { return };
        if io.now < self.cnp_at {
            self.cnp_owed = true;
            return;
        }
        self.cnp_at = io.now + interval;
        out.extend([self.packet_back(io.arena, c.cnp, kind::CNP, Time(packet.stamp), c)]);
    }
    /// The end of a CNP interval within which a marked packet came.
    pub fn on_deadline(&mut self, io: &mut Io<'_>, c: &RdmaConfig, out: &mut impl Extend<Cell>) {
        let Some(interval) = c.cnp_interval else { return };
        if self.cnp_owed && self.cnp_at <= io.now {
            self.cnp_owed = false;
            self.cnp_at = io.now + interval;
            out.extend([self.packet_back(io.arena, c.cnp, kind::CNP, io.now, c)]);
        }
    }
    /// An ACK or NACK with the next byte expected; takes over the telemetry of the packet in `slot`.
    fn answer(&mut self, io: &mut Io<'_>, cause: &Packet, slot: u32, kind: u32, c: &RdmaConfig) -> Cell {
        let cell = self.packet_back(io.arena, c.ack, kind, Time(cause.stamp), c);
        io.arena.carry_hops(slot, cell.packet);
        if core::mem::take(&mut self.marked) {
            io.arena.packets[cell.packet as usize].flags |= flag::ECE;
        }
        cell
    }
    fn packet_back(&self, arena: &mut Arena, bytes: u32, kind: u32, stamp: Time, c: &RdmaConfig) -> Cell {
        let o = &self.incoming.opening;
        let slot = arena.alloc();
        let packet = &mut arena.packets[slot as usize];
        *packet = Packet {
            seq: self.incoming.next,
            stamp: stamp.0,
            flow: o.flow.0,
            wire_len: bytes,
            flags: flag::ACK,
            ..Packet::default()
        };
        packet.set_conn(o.at_src);
        packet.set_class(o.class);
        packet.set_word(0, kind);
        let mut cell = Cell::new(slot, bytes).with_priority(c.control_priority).with_class(o.class);
        (cell.to, cell.entropy) = (o.src, o.back);
        cell
    }
}
