//! The receiving half of a connection: reassembly, receive window, selective acknowledgements. When an ACK leaves, and what
//! it says of marks, is its [`Echo`]'s.

mod idle;

use super::echo::AnyEcho;
use super::gro::Gro;
use super::{most_saved, Echo, HeaderCompressor, Heard, LossRecovery, Personality, Ranges, TcpConfig};
use crate::header::CcHeader;
use crate::packet::{flag, Packet, SackBlock, MAX_SACK};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
pub use idle::IdleReceiver;
use penstock_units::{Dur, Time};

/// Acknowledges, reassembles and echoes congestion marks and headers. What most segments touch comes first.
#[repr(C)]
pub struct Receiver {
    cfg: Arc<TcpConfig>,
    next: u64,
    fin_at: Option<u64>,
    flow: u32,
    /// Segments received in order since the last ACK.
    unacknowledged: u32,
    /// ACKs to send now, all alike except for a flush.
    acks_due: u32,
    header_len: u32,
    syn_due: bool,
    /// The SYN has not asked for ECN.
    no_ecn: bool,
    /// [`Self::syn`] or [`Self::gro`] is there: tested once for each packet.
    attends: bool,
    /// Send time to echo.
    stamp: u64,
    /// The first of what this end does by itself, beside its echo.
    due: Time,
    /// A cap on the advertised window set by the receiver-side controller of the host, in bytes.
    window_cap: u64,
    /// Payload bytes that arrived more than once.
    pub duplicate_bytes: u64,
    out_of_order: Ranges,
    echo: AnyEcho,
    header: CcHeader,
    /// An ACK that describes the state before the latest segment.
    flush: Option<Flush>,
    /// What the latest segment brought again, to be reported once (RFC 2883 section 4).
    twice: Option<(u64, u64)>,
    /// Packets without payload to answer: when they were sent, and the header they brought.
    answers: VecDeque<(u64, CcHeader)>,
    // What only some do.
    /// Ranges of the latest out-of-order arrivals, newest first (RFC 2018 section 4).
    recent: [u64; MAX_SACK],
    /// Until the first packet after it: when SYN arrived and how long it took, `None` for that where it came more than once.
    syn: Option<(Time, Option<Dur>)>,
    /// Segments that follow each other are merged first (GRO).
    gro: Option<Box<Gro>>,
    /// Bytes in order but not yet read, and since when they have been counted.
    unread: u64,
    read_until: Time,
    /// Right edge of the window promised so far, kept only when the application reads at a rate.
    promised: u64,
    window_due: Time,
    compressor: HeaderCompressor,
}

#[derive(Clone, Copy, Debug)]
struct Flush {
    ack: u64,
    ece: bool,
    stamp: u64,
}

impl Receiver {
    /// The receiver of connection `flow`; every packet carries `header_len` bytes of congestion header.
    pub fn new(cfg: Arc<TcpConfig>, flow: u32, header_len: u32) -> Receiver {
        let merges = cfg.gro > Dur::ZERO && cfg.personality == Personality::Linux;
        Receiver {
            echo: AnyEcho::new(&cfg),
            next: 0,
            fin_at: None,
            out_of_order: Ranges::default(),
            recent: [0; MAX_SACK],
            twice: None,
            unacknowledged: 0,
            acks_due: 0,
            flush: None,
            syn_due: false,
            no_ecn: false,
            syn: None,
            attends: merges,
            gro: merges.then(|| Box::new(Gro::new(&cfg))),
            answers: VecDeque::new(),
            stamp: 0,
            header: CcHeader::NONE,
            header_len,
            unread: 0,
            read_until: Time::ZERO,
            promised: cfg.rwnd,
            window_due: Time::NEVER,
            due: Time::NEVER,
            window_cap: u64::MAX,
            compressor: HeaderCompressor::default(),
            flow,
            duplicate_bytes: 0,
            cfg,
        }
    }

    /// Bytes delivered to the application in order.
    #[inline]
    pub fn delivered(&self) -> u64 {
        match self.fin_at {
            Some(fin) if self.next > fin => fin,
            _ => self.next,
        }
    }
    /// True when the sender's FIN has arrived and everything before it too.
    pub fn finished(&self) -> bool {
        self.fin_at.is_some_and(|fin| self.next > fin)
    }
    /// Bytes that have arrived, those behind a gap included.
    pub fn arrived(&self) -> u64 {
        self.delivered() + self.out_of_order.covered(self.next, u64::MAX)
    }
    /// Bytes below `end` that have not arrived.
    pub fn missing_below(&self, end: u64) -> u64 {
        end.saturating_sub(self.next) - self.out_of_order.covered(self.next, end)
    }
    /// Whether a packet that comes now is answered with a duplicate ACK: it lies behind a gap, or has come before (RFC 5681 section 2).
    pub fn dupack(&self, p: &Packet) -> bool {
        dupack(self.next, p)
    }
    /// Caps the advertised window (receiver-side congestion control); `u64::MAX` removes the cap.
    pub fn set_window_cap(&mut self, bytes: u64) {
        self.window_cap = bytes;
    }

    /// A SYN, data segment or FIN arrives.
    #[inline]
    pub fn on_packet(&mut self, now: Time, p: &Packet, header: &CcHeader) {
        if p.has(flag::PROBE) && p.seq_len() == 0 {
            self.answers.push_back((p.stamp, *header));
            return;
        }
        if p.has(flag::TRIMMED) {
            // A switch has cut the payload off: the header says that it was sent and is missing. A duplicate ACK passes it on.
            self.acks_due += 1;
            return;
        }
        self.header = *header;
        if p.has(flag::SYN) {
            // A mark on SYN has no echo: ECE on SYN-ACK is the negotiation (RFC 3168 section 6.1.1). It does not touch
            // DCTCP.CE either, which begins as false (RFC 8257 section 3.2), so that the first data speaks for itself.
            self.syn_due = true;
            let again = self.syn.is_some();
            // Linux (req->ts_recent): each SYN-ACK echoes the first SYN that has arrived.
            if !again || self.cfg.personality == Personality::Rfc {
                self.stamp = p.stamp;
            }
            // The first SYN that arrives decides, whatever a later one asks for.
            self.no_ecn = if again { self.no_ecn } else { p.has(flag::NO_ECN) };
            self.syn = Some((now, (!again).then(|| now.since(p.sent_at()))));
            self.attends = true;
            return;
        }
        if self.attends && self.attend(now, p, header) {
            return;
        }
        self.on_segments(now, p, 1);
    }

    /// The end of a handshake, and segments that are merged: true when the packet is done with.
    #[cold]
    fn attend(&mut self, now: Time, p: &Packet, header: &CcHeader) -> bool {
        self.end_handshake(now, p);
        let Some(gro) = &mut self.gro else {
            self.attends = false;
            return false;
        };
        if !gro.merge(p, header) {
            self.release_held(now);
            if let Some(gro) = &mut self.gro {
                gro.hold(now, p, header);
            }
        }
        if self.gro.as_ref().is_some_and(|gro| gro.ends_with(p)) {
            self.release_held(now);
        }
        self.settle_due();
        true
    }
    /// What was merged reaches TCP.
    #[cold]
    fn release_held(&mut self, now: Time) {
        if let Some((p, header, segments)) = self.gro.as_mut().and_then(|gro| gro.take()) {
            self.header = header;
            self.on_segments(now, &p, segments);
        }
    }

    /// `segments` segments in one.
    #[inline(always)]
    fn on_segments(&mut self, now: Time, p: &Packet, segments: u32) {
        let start = p.seq;
        let end = start + p.seq_len();
        if p.has(flag::FIN) {
            self.fin_at = Some(end - 1);
        }
        if let Some(ece) = self.echo.before_data(p) {
            if self.unacknowledged > 0 {
                self.flush = Some(Flush { ack: self.next, ece, stamp: self.stamp });
                self.unacknowledged = 0;
            }
        }
        let duplicates_before = self.duplicate_bytes;
        let mut apart = false;
        let in_order = start == self.next && self.out_of_order.is_empty();
        if in_order {
            // The common case.
            self.deliver(now, end);
            if self.unacknowledged == 0 {
                self.stamp = p.stamp;
            }
            self.unacknowledged += segments;
        } else if end <= self.next {
            self.duplicate_bytes += p.payload as u64;
            self.echo_duplicate(p, end);
        } else if start <= self.next {
            self.stamp = p.stamp;
            self.out_of_order.remove_below(end);
            let mut next = end;
            if let Some((_, covered)) = self.out_of_order.containing(end) {
                next = covered;
                self.out_of_order.remove_below(covered);
            }
            self.deliver(now, next);
        } else {
            let pieces = self.out_of_order.len();
            let news = self.out_of_order.insert(start, end);
            apart = self.out_of_order.len() > pieces;
            if news == 0 {
                self.duplicate_bytes += p.payload as u64;
            }
            if self.recent[0] != start {
                self.recent = [start, self.recent[0], self.recent[1]];
            }
        }
        let duplicate = self.duplicate_bytes > duplicates_before;
        if duplicate && self.cfg.dsack {
            self.twice = Some((start, start + u64::from(p.payload)));
        }
        let pieces = if in_order { 0 } else { self.out_of_order.len() as u32 };
        let heard = Heard {
            in_order,
            duplicate,
            unacknowledged: self.unacknowledged,
            next: self.next,
            pieces,
            apart,
        };
        self.acks_due += self.echo.on_data(now, p, &heard);
    }

    /// RFC 7323 section 4.3 (2): a segment that begins at or before the last ACK sent sets the time stamp that is echoed, a retransmission after a lost ACK
    /// too (appendix H). Linux (tcp_sequence) drops what ends before the last ACK sent without a look at its time stamp; one that ends there, as a probe
    /// of the last segment does, counts.
    #[cold]
    fn echo_duplicate(&mut self, p: &Packet, end: u64) {
        let counts = self.cfg.personality == Personality::Rfc || end == self.next;
        if counts && self.cfg.timestamps && self.unacknowledged == 0 {
            self.stamp = p.stamp;
        }
    }

    /// The first packet after SYN. The third of the handshake is no packet here: it leaves just before the first data, and is taken to have
    /// been lost where that was.
    fn end_handshake(&mut self, now: Time, p: &Packet) {
        if let Some((at, trip)) = self.syn.take() {
            let lost = p.has(flag::RETRANSMIT);
            self.echo.on_handshake(trip.map(|trip| if lost { now.since(at) } else { trip * 2 }));
        }
    }
    /// As if the handshake had taken `rtt`, where no SYN is seen.
    pub fn set_handshake(&mut self, rtt: Dur) {
        self.echo.on_handshake(Some(rtt));
    }

    /// The application reads when [`Self::on_read`] is called, not at once; said before anything arrives. Only some ACKs hang on that
    /// ([`Echo::follow_reads`]): false where none does.
    pub fn follow_reads(&mut self) -> bool {
        self.echo.follow_reads()
    }
    /// There is something that such an application has not read.
    pub fn unread(&self) -> bool {
        self.echo.unread()
    }
    /// It reads all there is: is there an ACK to send by that, when [`Self::reply`] is called?
    pub fn on_read(&mut self) -> bool {
        self.echo.on_read()
    }
    /// The ACK of a read leaves, if none has left since.
    pub fn reply(&mut self) {
        self.acks_due += u32::from(self.echo.owes());
    }

    #[inline]
    fn deliver(&mut self, now: Time, next: u64) {
        if self.cfg.read_rate.is_some() {
            self.read(now);
            self.unread += next - self.next;
        }
        self.next = next;
    }

    /// Lets the application read what it could since the last call.
    fn read(&mut self, now: Time) {
        let Some(rate) = self.cfg.read_rate else { return };
        if self.unread == 0 {
            self.read_until = now;
            return;
        }
        let could = (rate * now.since(self.read_until)).0;
        let did = could.min(self.unread);
        self.unread -= did;
        // Keep the fraction of a byte: advance only by the time the whole bytes took.
        self.read_until =
            if self.unread == 0 { now } else { self.read_until + penstock_units::Bytes(did) / rate };
    }

    #[inline(always)]
    fn window(&mut self, now: Time) -> u64 {
        let window = if self.cfg.read_rate.is_some() { self.unread_window(now) } else { self.cfg.rwnd };
        window.min(self.window_cap).min(self.echo.window_cap())
    }
    /// What the buffer has room for, where the application reads at a rate.
    #[cold]
    fn unread_window(&mut self, now: Time) -> u64 {
        self.read(now);
        // RFC 1122 section 4.2.3.3: the right edge moves by at least a segment or half the buffer, never left.
        let edge = self.next + self.cfg.rwnd.saturating_sub(self.unread);
        let step = (self.cfg.rwnd / 2).min(self.cfg.mss as u64);
        if self.unread == 0 || edge >= self.promised + step {
            self.promised = self.promised.max(edge);
        }
        self.promised.saturating_sub(self.next)
    }

    /// Next time to wake up: a delayed ACK, or a window update.
    #[inline]
    pub fn deadline(&self) -> Time {
        self.echo.deadline().min(self.due)
    }
    /// The sooner of a window update and the end of a merge.
    fn settle_due(&mut self) {
        let merge = self.gro.as_ref().map_or(Time::NEVER, |gro| gro.until);
        self.due = self.window_due.min(merge);
    }
    /// The deadline has come: true when it is that of a delayed ACK and nothing is missing.
    pub fn on_deadline(&mut self, now: Time) -> bool {
        if self.gro.as_ref().is_some_and(|gro| now >= gro.until) {
            self.release_held(now);
            self.settle_due();
        }
        let due = self.acks_due;
        if now >= self.echo.deadline() {
            self.acks_due += self.echo.on_deadline(now);
        }
        let delayed = self.acks_due > due && self.out_of_order.is_empty();
        if now >= self.window_due {
            self.window_due = Time::NEVER;
            self.acks_due += 1;
            self.settle_due();
        }
        delayed
    }

    /// True when there is an ACK to send.
    #[inline]
    pub fn may_send(&self) -> bool {
        self.acks_due > 0 || self.syn_due || self.flush.is_some() || !self.answers.is_empty()
    }
    /// Writes the next ACK into `out`; false when there is none to send.
    #[inline(always)]
    pub fn poll_transmit(&mut self, now: Time, out: &mut Packet, header: &mut CcHeader) -> bool {
        if !self.may_send() {
            return false;
        }
        *header = self.header;
        let window = self.window(now);
        let header_len = if header.is_none() { 0 } else { self.header_len };
        let base_len = self.cfg.header_len() + header_len;
        *out = Packet {
            seq: self.next,
            stamp: self.stamp,
            flow: self.flow,
            wire_len: base_len,
            window: window.min(u32::MAX as u64) as u32,
            flags: flag::ACK,
            ecn: self.cfg.control_ecn(self.no_ecn),
            ..Packet::default()
        };
        if self.syn_due {
            self.syn_due = false;
            out.flags |= flag::SYN | if self.no_ecn { flag::NO_ECN } else { 0 };
            out.ecn = self.cfg.handshake_ecn();
            return true;
        }
        if let Some((stamp, answered)) = self.answers.pop_front() {
            *header = answered;
            out.stamp = stamp;
            out.flags |= flag::PROBE;
            out.wire_len = self.cfg.header_len() + if answered.is_none() { 0 } else { self.header_len };
            return true;
        }
        if let Some(f) = self.flush.take() {
            out.seq = f.ack;
            out.stamp = f.stamp;
            out.flags |= if f.ece { flag::ECE } else { 0 };
            return true;
        }
        self.acks_due -= 1;
        self.unacknowledged = 0;
        self.echo.on_ack_sent();
        if self.echo.ece() {
            out.flags |= flag::ECE;
        }
        let twice = self.twice.take();
        if self.cfg.recovery == LossRecovery::Sack && (twice.is_some() || !self.out_of_order.is_empty()) {
            self.add_sack(out, twice);
        }
        if self.cfg.header_compression {
            let irregular = self.cfg.timestamps || out.sack_count() > 0 || out.has(flag::ECE);
            let saved = self.compressor.saved_on_ack(out.seq, out.window, irregular);
            out.wire_len -= saved.min(most_saved(self.cfg.header_len()).1);
        }
        if self.cfg.read_rate.is_some() {
            self.plan_window_update(now, window);
        }
        true
    }

    /// RFC 2018 section 4: the block with the newest segment first, then the others by recency. Before them what came twice
    /// (RFC 2883 section 4).
    fn add_sack(&mut self, out: &mut Packet, twice: Option<(u64, u64)>) {
        let mut n = 0;
        if let Some((start, end)) = twice {
            let offset = |at: u64| at.wrapping_sub(self.next) as u32;
            out.sack[0] = SackBlock { start: offset(start), end: offset(end) };
            out.flags |= flag::DSACK;
            n = 1;
        }
        let own = n;
        let mut push = |out: &mut Packet, (start, end): (u64, u64)| {
            let block = SackBlock { start: (start - self.next) as u32, end: (end - self.next) as u32 };
            if n < MAX_SACK && !out.sack[own..n].contains(&block) {
                out.sack[n] = block;
                n += 1;
            }
        };
        for seq in self.recent {
            if let Some(range) = self.out_of_order.containing(seq) {
                push(out, range);
            }
        }
        // Blocks that fell out of the recent list still fill the option.
        for range in self.out_of_order.iter().rev().take(MAX_SACK) {
            push(out, range);
        }
        out.set_sack_count(n);
        // Option kind, length and blocks, padded to 4 bytes.
        out.wire_len += (2 + 8 * n as u32).div_ceil(4) * 4;
    }

    /// Wakes up when the window has grown by two segments or half the buffer (RFC 1122 section 4.2.3.3).
    fn plan_window_update(&mut self, now: Time, window: u64) {
        let Some(rate) = self.cfg.read_rate else { return };
        let step = (2 * self.cfg.mss as u64).min(self.cfg.rwnd / 2).max(1);
        self.window_due = if self.unread > 0 && window < self.cfg.rwnd / 2 {
            now + penstock_units::Bytes(step.min(self.unread)) / rate + Dur(1)
        } else {
            Time::NEVER
        };
        self.settle_due();
    }
}

/// See [`Receiver::dupack`]: everything below `next` has arrived.
fn dupack(next: u64, p: &Packet) -> bool {
    !p.has(flag::SYN) && (p.seq > next || p.seq + p.seq_len() <= next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::{RetransmitThread, ThreadSegment};

    fn acks(receiver: &mut Receiver, seq: u64, flags: u16) -> alloc::vec::Vec<u64> {
        let p = Packet { seq, payload: 1000, wire_len: 1040, flags, ..Packet::default() };
        receiver.on_packet(Time::ZERO, &p, &CcHeader::NONE);
        let (mut out, mut header) = (Packet::default(), CcHeader::NONE);
        let mut sent = alloc::vec::Vec::new();
        while receiver.poll_transmit(Time::ZERO, &mut out, &mut header) {
            sent.push(out.seq);
        }
        sent
    }

    /// Kulkarni and Agrawal, algorithm 2: a marked segment seen for the first time is answered by its ACK and
    /// three duplicates of it, any other by one ACK.
    #[test]
    fn an_unseen_marked_segment_is_answered_four_times() {
        let thread = RetransmitThread {
            probability: 0.01,
            every: Dur::micros(20),
            segment: ThreadSegment::Newest,
            rests_in_recovery: true,
        };
        let cfg = TcpConfig { retransmit_thread: Some(thread), ..TcpConfig::default() };
        let mut r = Receiver::new(Arc::new(cfg), 0, 0);
        assert_eq!(acks(&mut r, 0, 0), [1000]);
        // Seen already: ignored but for its ACK.
        assert_eq!(acks(&mut r, 0, flag::MARKED), [1000]);
        // Behind a gap, unseen, then seen.
        assert_eq!(acks(&mut r, 4000, flag::MARKED), [1000; 4]);
        assert_eq!(acks(&mut r, 4000, flag::MARKED), [1000]);
        // In order and unseen: the whole window was lost.
        assert_eq!(acks(&mut r, 1000, flag::MARKED), [2000; 4]);
    }
    /// The receiver predicts which packets get a duplicate ACK: segments in any order, some repeated, with SACK and without.
    #[test]
    fn which_ack_will_be_a_duplicate_is_known_before() {
        let mut x = 7u64;
        let mut draw = |n: u64| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (x >> 33) % n
        };
        for recovery in [LossRecovery::Sack, LossRecovery::NewReno] {
            let cfg = TcpConfig { recovery, ..TcpConfig::default() };
            let mut r = Receiver::new(Arc::new(cfg), 0, 0);
            let (mut last, mut found) = (0, [0; 2]);
            for _ in 0..5000 {
                let seq = (r.next / 1000 + draw(8)).saturating_sub(2) * 1000;
                let p = Packet { seq, payload: 1000, wire_len: 1040, ..Packet::default() };
                let expected = r.dupack(&p);
                r.on_packet(Time::ZERO, &p, &CcHeader::NONE);
                let (mut out, mut header) = (Packet::default(), CcHeader::NONE);
                if r.poll_transmit(Time::ZERO, &mut out, &mut header) {
                    assert_eq!(out.seq == last, expected, "{seq} at {}", r.next);
                    last = out.seq;
                    found[usize::from(expected)] += 1;
                }
            }
            assert!(found.iter().all(|n| *n > 500), "{found:?}");
        }
    }
}
