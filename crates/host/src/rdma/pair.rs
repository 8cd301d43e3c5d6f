//! The two ends of a queue pair.

use super::selective::Selective;
use super::{AckRecord, LossSign, PairView, RateControl, RateLaw, RdmaConfig, Recovery};
use crate::ends::{header, Incoming, Outgoing, Timeout, Toward};
use crate::stack::{Io, StackEvent};
use alloc::boxed::Box;
use penstock_core::packet::flag;
use penstock_core::{Ecn, Packet};
use penstock_fabric::Cell;
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
/// Words 2 and 3 of a NACK with selective repeat: first byte and length of the packet that caused it, from the next byte expected on.
const BEYOND: (usize, usize) = (2, 3);

/// Word 4 of an ACK or NACK: nanoseconds that the packet it answers waited for the receiver's processor.
const WAITED: usize = 4;

/// A packet to be sent: its first byte and its payload.
pub(super) type Next = (u64, u32);

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

/// The whole nanosecond in which `at` lies, where links count them.
fn whole(at: Time, c: &RdmaConfig) -> Time {
    if c.whole_links {
        Time(at.0 - at.0 % 1000)
    } else {
        at
    }
}

/// `timeout` from now.
fn after(now: Time, timeout: Dur) -> Time {
    if timeout == Dur::MAX {
        Time::NEVER
    } else {
        now + timeout
    }
}

/// The sending end.
pub(super) struct Sending {
    pub out: Outgoing,
    pub law: Box<dyn RateLaw>,
    /// What the law answered after the latest event.
    control: RateControl,
    pub place: Place,
    una: u64,
    nxt: u64,
    /// When the limiter lets the next packet go.
    pub next_at: Time,
    /// The latest packet: when it left, and its bytes on the link.
    latest: (Time, u32),
    rto_at: Time,
    timeouts_in_a_row: u32,
    /// Largest payload of a packet.
    mss: u32,
    /// With selective repeat.
    selective: Option<Box<Selective>>,
}

impl Sending {
    pub fn new(out: Outgoing, law: Box<dyn RateLaw>, c: &RdmaConfig, mss: u32) -> Sending {
        Sending {
            out,
            control: law.control(),
            law,
            mss,
            selective: matches!(c.recovery, Recovery::Selective { .. }).then(Box::default),
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
    pub fn timer(&self) -> Time {
        self.rto_at.min(self.law.deadline())
    }
    /// All that was written is acknowledged.
    pub fn is_over(&self) -> bool {
        self.una >= self.out.written
    }
    /// Something is left to be sent.
    pub fn has_left(&self) -> bool {
        self.out.written > self.nxt || self.next_lost().is_some()
    }
    fn next_lost(&self) -> Option<(u64, u64)> {
        self.selective.as_ref()?.next_lost(self.una)
    }
    /// The timeout of what is outstanding.
    fn rto(&self, c: &RdmaConfig) -> Dur {
        match c.recovery {
            Recovery::Selective { rto_low, few }
                if self.nxt - self.una <= u64::from(few) * u64::from(self.mss) =>
            {
                rto_low.min(c.rto)
            }
            _ => c.rto,
        }
    }
    /// The next packet; `None` = nothing is left or the window is full.
    pub fn next_packet(&self, overshoot: bool) -> Option<Next> {
        if let Some((seq, end)) = self.next_lost() {
            return Some((seq, (end - seq).min(u64::from(self.mss)) as u32));
        }
        let payload = self.out.written.saturating_sub(self.nxt).min(u64::from(self.mss));
        let outstanding = self.nxt - self.una;
        let window = self.control.window.unwrap_or(u64::MAX);
        let fits = if overshoot { outstanding < window } else { outstanding + payload <= window };
        (payload > 0 && (outstanding == 0 || fits)).then_some((self.nxt, payload as u32))
    }
    /// When the limiter lets a packet go behind the latest one.
    fn limited(&self, c: &RdmaConfig, line: Rate) -> Time {
        let (at, bytes) = self.latest;
        let Some(rate) = self.control.rate.filter(|r| *r < line) else { return at };
        let gap = penstock_units::Bytes(u64::from(bytes)) / rate;
        at + if c.whole_ns { Dur::nanos(gap.0.saturating_sub(1) / 1000) } else { gap }
    }
    /// Sends the next packet.
    pub fn send(&mut self, io: &mut Io<'_>, c: &RdmaConfig, next: Next, framing: u32, line: Rate) -> Cell {
        let (seq, payload) = next;
        let wire = payload + c.header;
        let end = seq + u64::from(payload);
        let last = end == self.out.written;
        // Behind a packet that fills the window nothing comes that would have it acknowledged.
        let ahead = self.nxt - self.una + u64::from(payload) * if c.overshoot { 1 } else { 2 };
        let full = |window| ahead > window || c.overshoot && ahead == window;
        let wants_ack = last || seq < self.nxt || self.control.window.is_some_and(full);
        let again = self.out.count_sent(end);
        let cell = self.out.data(io, (seq, end), wire, again);
        io.arena.ask_telemetry(cell.packet);
        let packet = &mut io.arena.packets[cell.packet as usize];
        (packet.stamp, packet.ecn) = (whole(io.now, c).0, Ecn::Ect0);
        packet.set_word(0, kind::DATA);
        packet.set_word(1, if wants_ack { WANTS_ACK } else { 0 });
        let first = self.nxt == self.una;
        if seq < self.nxt {
            if let Some(selective) = &mut self.selective {
                selective.repeated(end);
            }
        } else {
            self.nxt = end;
        }
        if first {
            self.rto_at = after(io.now, self.rto(c));
        }
        let on_link = wire + framing;
        let view = self.view();
        self.law.on_sent(whole(io.now, c), on_link, &view);
        self.control = self.law.control();
        self.latest = (whole(io.now, c), on_link);
        self.next_at = self.limited(c, line);
        cell.with_priority(c.data_priority).with_ecn(Ecn::Ect0)
    }
    /// An ACK, a NACK or a CNP has arrived; true when the departure that the limiter has planned was looked at anew.
    pub fn receive(
        &mut self,
        io: &mut Io<'_>,
        packet: &Packet,
        slot: u32,
        c: &RdmaConfig,
        line: Rate,
    ) -> bool {
        if packet.word(0) == kind::CNP {
            self.out.counters.ece_acks += 1;
            let view = self.view();
            self.law.on_cnp(whole(io.now, c), &view);
            self.control = self.law.control();
            return false;
        }
        let bytes = packet.seq.saturating_sub(self.una);
        let ece = packet.has(flag::ECE);
        self.out.counters.ece_acks += u64::from(ece);
        if bytes > 0 {
            self.una = packet.seq;
            self.nxt = self.nxt.max(self.una);
            self.timeouts_in_a_row = 0;
            self.rto_at = if self.nxt > self.una { after(io.now, self.rto(c)) } else { Time::NEVER };
            self.out.acked(self.una, io.stack_events);
            if let Some(selective) = &mut self.selective {
                selective.acked(self.una);
            }
        }
        // What a law plans then comes before packets that arrive in the same nanosecond: it was planned before they left.
        let now = whole(io.now, c);
        let rtt = now.since(packet.sent_at());
        let endpoint = io.waited + Dur::nanos(u64::from(packet.word(WAITED)));
        let record = AckRecord { now, bytes, rtt, endpoint, ece, telemetry: io.arena.hops(slot) };
        let view = self.view();
        let moves = self.law.moves_departures();
        self.law.on_ack(&record, &view);
        self.control = self.law.control();
        if moves {
            self.next_at = self.limited(c, line);
        }
        if packet.word(0) != kind::NACK {
            return moves;
        }
        let outstanding = self.nxt - self.una;
        let lost = match &mut self.selective {
            Some(selective) => {
                let from = packet.seq + u64::from(packet.word(BEYOND.0));
                selective.nacked(self.una, self.nxt, (from, from + u64::from(packet.word(BEYOND.1))))
            }
            None => packet.seq == self.una && self.nxt > self.una,
        };
        if lost {
            self.out.counters.fast_retransmits += 1;
            self.lose(io, LossSign::Nack);
            io.stack_events.push(StackEvent::FastRetransmit {
                flow: self.out.opening.flow,
                max_sent: self.out.max_sent,
                outstanding,
                cwnd: self.control.window.unwrap_or(outstanding),
            });
            // A fresh period for what is now sent again.
            self.rto_at = after(self.leaves(io.now), self.rto(c));
        }
        moves
    }
    /// When the limiter lets what was lost go: nothing can be acknowledged before, so no timer runs until then.
    fn leaves(&self, now: Time) -> Time {
        now.max(self.next_at)
    }
    /// A loss. Go-back-N: everything from the oldest unacknowledged byte on is sent again.
    fn lose(&mut self, io: &Io<'_>, sign: LossSign) {
        match &mut self.selective {
            Some(selective) if sign == LossSign::Timeout => selective.timed_out(self.una, self.nxt),
            Some(_) => {}
            None => self.nxt = self.una,
        }
        let view = self.view();
        self.law.on_loss(io.now, sign, &view);
        self.control = self.law.control();
    }
    /// The host's link has another rate from now on.
    pub fn on_line_rate(&mut self, now: Time, line: Rate) {
        self.law.on_line_rate(now, line);
        self.control = self.law.control();
    }
    pub fn on_timer(&mut self, io: &mut Io<'_>, c: &RdmaConfig) {
        if self.law.deadline() <= io.now {
            let view = self.view();
            self.law.on_deadline(io.now, &view);
            self.control = self.law.control();
        }
        if self.rto_at > io.now {
            return;
        }
        let outstanding = self.nxt - self.una;
        self.timeouts_in_a_row += 1;
        let rto = self.rto(c);
        self.lose(io, LossSign::Timeout);
        self.rto_at = after(self.leaves(io.now), rto);
        let timeout = Timeout {
            from: self.una,
            lost: self.una,
            outstanding,
            cwnd: self.control.window.unwrap_or(outstanding),
            rto,
            in_a_row: self.timeouts_in_a_row,
        };
        self.out.timed_out(&timeout, io.stack_events);
    }
}

crate::ends!(Sending { out }, Receiving { incoming });

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
    pub fn timer(&self) -> Time {
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
        let gap = packet.seq > next || cell.is_trimmed() && end >= next;
        if gap && c.recovery != Recovery::GoBackN {
            return self.keep(io, packet, cell, c, out);
        }
        if gap {
            if io.now >= self.nack_at {
                self.nack_at = c.nack_again.map_or(Time::NEVER, |again| io.now + again);
                out.extend([self.answer(io, packet, cell.packet, kind::NACK, c)]);
            }
            return;
        }
        if self.incoming.take(packet, u64::from(packet.payload), io.stack_events) > 0 {
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
    /// A packet beyond a gap, where such are kept. Selective repeat: a NACK for every one, with what has arrived; otherwise it can only have
    /// come by a shorter way.
    fn keep(
        &mut self,
        io: &mut Io<'_>,
        packet: &Packet,
        cell: &Cell,
        c: &RdmaConfig,
        out: &mut impl Extend<Cell>,
    ) {
        let payload = if cell.is_trimmed() { 0 } else { packet.payload };
        if payload > 0 {
            self.incoming.take(packet, u64::from(payload), io.stack_events);
        }
        if c.recovery == Recovery::Off {
            return;
        }
        let answer = self.answer(io, packet, cell.packet, kind::NACK, c);
        let nack = &mut io.arena.packets[answer.packet as usize];
        // Windows are far below 4 GB.
        nack.set_word(BEYOND.0, u32::try_from(packet.seq - self.incoming.next).unwrap_or(0));
        nack.set_word(BEYOND.1, payload);
        out.extend([answer]);
    }
    /// The notification point (Zhu et al., SIGCOMM 2015, section 3.1, figure 6). It answers a marked packet by a CNP at once if
    /// none was sent for a CNP interval. Otherwise a CNP follows at the end of the interval.
    fn note_marked(&mut self, io: &mut Io<'_>, packet: &Packet, c: &RdmaConfig, out: &mut impl Extend<Cell>) {
        let Some(interval) = c.cnp_interval else { return };
        if io.now < self.cnp_at {
            self.cnp_owed = true;
            return;
        }
        self.cnp_at = io.now + interval;
        out.extend([self.packet_back(io, c.cnp, kind::CNP, Time(packet.stamp), c)]);
    }
    /// The end of a CNP interval within which a marked packet came.
    pub fn on_timer(&mut self, io: &mut Io<'_>, c: &RdmaConfig, out: &mut impl Extend<Cell>) {
        let Some(interval) = c.cnp_interval else { return };
        if self.cnp_owed && self.cnp_at <= io.now {
            self.cnp_owed = false;
            self.cnp_at = io.now + interval;
            out.extend([self.packet_back(io, c.cnp, kind::CNP, io.now, c)]);
        }
    }
    /// An ACK or NACK with the next byte expected; takes over the telemetry of the packet in `slot`.
    fn answer(&mut self, io: &mut Io<'_>, cause: &Packet, slot: u32, kind: u32, c: &RdmaConfig) -> Cell {
        let cell = self.packet_back(io, c.ack, kind, Time(cause.stamp), c);
        io.arena.carry_hops(slot, cell.packet);
        if io.waited > Dur::ZERO {
            let ns = u32::try_from(io.waited.0 / 1000).unwrap_or(u32::MAX);
            io.arena.packets[cell.packet as usize].set_word(WAITED, ns);
        }
        if core::mem::take(&mut self.marked) {
            io.arena.packets[cell.packet as usize].flags |= flag::ECE;
        }
        cell
    }
    fn packet_back(&self, io: &mut Io<'_>, bytes: u32, kind: u32, stamp: Time, c: &RdmaConfig) -> Cell {
        let cell = header(io, &self.incoming.opening, Toward::Sender, 0, bytes, c.control_priority);
        let packet = &mut io.arena.packets[cell.packet as usize];
        (packet.seq, packet.stamp, packet.ecn) = (self.incoming.next, stamp.0, Ecn::Ect0);
        packet.set_word(0, kind);
        // A port that marks drops packets that are not ECN-capable. A RoCE card sets the IP header of all its packets
        // alike, so its ACKs may be marked like data, and a mark on one means nothing to its receiver.
        cell.with_ecn(Ecn::Ect0)
    }
}
