//! A sender of PIAS has DCTCP's window (RFC 8257) and finds losses by packets beyond a gap or by a timeout (RFC 6675
//! and RFC 6298 in outline). Each difference of the TCP in the simulations of PIAS's authors has a key (`tcp.cc` and
//! `tcp-full.cc` of HKUST-SING/PIAS-NS2, 0b0e5df and 1ff3d24, read and not copied).

use alloc::boxed::Box;
use alloc::vec::Vec;
use penstock_core::tcp::Ranges;
use penstock_host::ends::{Outgoing, Timeout};
use penstock_host::{Opening, StackEvent};
use penstock_units::{Dur, Time};

/// The rules of all senders: the keys of the protocol have the same names, and say what they are.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub g: f64,
    pub backoff: bool,
    pub probe: u32,
    pub halve: bool,
    pub dupacks: u64,
    pub grow: bool,
    pub later: bool,
    pub steps: bool,
    pub in_order: bool,
    pub burst: bool,
    pub refill: bool,
    pub again: bool,
    pub anew: bool,
    /// In packets.
    pub most: Option<u64>,
}

/// What a connection that is used again begins with.
pub(super) struct Kept {
    pub alpha: f64,
    pub ssthresh: f64,
    pub round_trip: Option<Box<RoundTrip>>,
    pub rest: Rest,
}

/// What a connection that is kept whole remembers beside that: bytes acknowledged, and marked, since the marked fraction was last averaged,
/// and how the last ACK and the last cut were.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rest {
    pub counted: u64,
    pub marked: u64,
    pub echoed: bool,
    pub marked_last: bool,
}

/// What an ACK says: the first byte missing, the packet that it answers, and whether that was marked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub next: u64,
    pub seq: u64,
    pub payload: u64,
    pub marked: bool,
}

pub(super) struct Sending {
    pub out: Outgoing,
    /// Where the present transfer began: what it has sent counts from here.
    pub base: u64,
    pub una: u64,
    pub nxt: u64,
    /// One past the highest byte sent since the last timeout.
    top: u64,
    /// Acknowledged beyond `una`.
    pub acked: Ranges,
    /// In bytes.
    pub cwnd: f64,
    pub ssthresh: f64,
    pub alpha: f64,
    /// The end of the present observation window; its bytes are `rest`'s.
    window_end: u64,
    pub rest: Rest,
    /// The window was cut for a mark or a loss, and is not again before this byte is acknowledged; growth stops until then.
    pub cut_end: u64,
    /// In fast recovery: gaps below this byte were sent again.
    resent: u64,
    recover: Option<u64>,
    /// Until this byte is acknowledged gaps are sent again, where a cut or a timeout is followed by that; those below `refilled` were.
    pub refill_end: u64,
    pub refilled: u64,
    /// ACKs that let the window grow since it last did or was cut, where it grows by whole packets.
    grown: u32,
    /// Bytes beyond a gap that show it to be a loss.
    beyond: u64,
    pub rto_at: Time,
    timeouts_in_a_row: u32,
    /// Nothing is heard: packets have a single byte.
    probing: bool,
    pub in_line: bool,
    pub round_trip: Option<Box<RoundTrip>>,
}

/// The round-trip time of a sender whose timeout follows it, by one packet at a time (RFC 6298 section 3, without timestamps).
#[derive(Default)]
pub(super) struct RoundTrip {
    /// The byte behind the packet that is timed, and when that left.
    pub timed: Option<(u64, Time)>,
    /// SRTT and RTTVAR, in picoseconds; zero before the first sample.
    pub smoothed: f64,
    pub variation: f64,
}

impl RoundTrip {
    pub fn on_sent(&mut self, end: u64, now: Time) {
        self.timed.get_or_insert((end, now));
    }
    pub fn on_acked(&mut self, una: u64, now: Time) {
        let Some((_, at)) = self.timed.take_if(|(end, _)| *end <= una) else { return };
        let sample = (now.0 - at.0) as f64;
        if self.smoothed == 0.0 {
            // RFC 6298 (2.2): SRTT <- R, RTTVAR <- R/2
            (self.smoothed, self.variation) = (sample, sample / 2.0);
        } else {
            // RFC 6298 (2.3): RTTVAR <- 3/4 RTTVAR + 1/4 |SRTT - R|; SRTT <- 7/8 SRTT + 1/8 R
            self.variation += ((self.smoothed - sample).abs() - self.variation) / 4.0;
            self.smoothed += (sample - self.smoothed) / 8.0;
        }
    }
}

penstock_host::ends!(Sending { out });

impl Sending {
    /// `window`: the first window in bytes.
    pub fn new(opening: &Opening, kept: Kept, window: f64, mss: u64, rules: &Rules) -> Sending {
        Sending {
            out: Outgoing::new(opening),
            base: 0,
            una: 0,
            nxt: 0,
            top: 0,
            acked: Ranges::default(),
            cwnd: window,
            ssthresh: kept.ssthresh,
            alpha: kept.alpha,
            window_end: 0,
            rest: kept.rest,
            cut_end: 0,
            resent: 0,
            recover: None,
            refill_end: 0,
            refilled: 0,
            grown: 0,
            beyond: if rules.dupacks == 0 { u64::MAX } else { rules.dupacks * mss },
            rto_at: Time::NEVER,
            timeouts_in_a_row: 0,
            probing: false,
            in_line: false,
            round_trip: kept.round_trip,
        }
    }
    /// The timeout now: as given, or the round-trip time's, RTO <- SRTT + 4 RTTVAR (RFC 6298 (2.3)), and twice that for each in a row.
    fn timeout(&self, rto: Dur, backoff: bool) -> Dur {
        let base =
            self.round_trip.as_ref().map_or(rto, |r| rto.max(Dur((r.smoothed + 4.0 * r.variation) as u64)));
        if backoff {
            base * (1 << self.timeouts_in_a_row.min(6))
        } else {
            base
        }
    }
    /// Below this byte every gap is a loss.
    fn lost_below(&self) -> u64 {
        self.acked.highest().map_or(0, |h| h.saturating_sub(self.beyond))
    }
    /// Bytes in flight: sent, not acknowledged, and not a gap that waits to be sent again.
    fn in_flight(&self) -> u64 {
        let mut flight = (self.nxt - self.una).saturating_sub(self.acked.covered(self.una, self.nxt));
        if self.recover.is_some() {
            let (from, to) = (self.resent.max(self.una), self.lost_below());
            if from < to {
                flight = flight.saturating_sub((to - from) - self.acked.covered(from, to));
            }
        }
        flight
    }
    /// A gap below what has arrived that is sent again after a cut.
    pub fn refill(&self) -> Option<u64> {
        let seq = self.acked.first_gap(self.refilled.max(self.una));
        (self.una < self.refill_end && self.acked.highest().is_some_and(|h| seq < h)).then_some(seq)
    }
    /// The next packet that the window admits: a gap, or the first bytes from `nxt` on that were not acknowledged, or all of them.
    pub fn next_packet(&self, mss: u64, rules: &Rules) -> Option<(u64, u64)> {
        let again = self.recover.and_then(|_| {
            let seq = self.acked.first_gap(self.resent.max(self.una));
            (seq < self.lost_below()).then_some(seq)
        });
        let gap = again.or_else(|| self.refill());
        let seq = match gap {
            Some(seq) => seq,
            None if rules.again => self.nxt,
            None => self.acked.first_gap(self.nxt),
        };
        let covered = gap.is_some() || !rules.again;
        let stop = self.acked.next_start(seq).filter(|_| covered).unwrap_or(u64::MAX).min(self.out.written);
        let end = stop.min(seq.saturating_add(if self.probing { 1 } else { mss }));
        let ahead = if rules.in_order { seq - self.una } else { self.in_flight() };
        let admitted = (ahead + (end.saturating_sub(seq))) as f64 <= self.cwnd;
        let room = ahead == 0 || admitted && !self.probing;
        (seq < end && room).then_some((seq, end))
    }
    /// A packet leaves: whether all of it was sent before.
    pub fn on_sent(&mut self, seq: u64, end: u64, now: Time, rto: Dur, rules: &Rules) -> bool {
        if self.acked.highest().is_some_and(|h| seq < h) {
            self.refilled = if rules.again { self.refilled.max(end) } else { end };
        }
        if seq < self.nxt {
            self.resent = end;
        } else if seq == self.nxt || !rules.again {
            self.nxt = end;
        }
        self.top = self.top.max(end);
        let repeated = self.out.count_sent(end);
        if self.rto_at == Time::NEVER {
            self.rto_at = now + self.timeout(rto, rules.backoff);
        }
        if let Some(round_trip) = self.round_trip.as_mut().filter(|_| !repeated) {
            round_trip.on_sent(end, now);
        }
        repeated
    }
    /// DCTCP's cut, once per window of data (RFC 8257 section 3.3 step 8); a loss halves (RFC 5681).
    pub fn cut(&mut self, by: f64, mss: u64, rules: &Rules) {
        self.cwnd = (self.cwnd * (1.0 - by)).max(mss as f64);
        self.ssthresh = self.cwnd;
        self.cut_end = if rules.later { self.out.max_sent + 1 } else { self.nxt };
        self.grown = 0;
        if rules.steps {
            self.ssthresh = (self.cwnd as u64 / mss).max(2) as f64 * mss as f64;
        }
        if rules.refill {
            self.refill_end = self.out.max_sent;
        }
    }
    /// What an ACK with or without a mark does to the window, where no loss was found.
    pub fn react(&mut self, marked: bool, mss: u64, rules: &Rules) {
        let may_cut = self.una >= self.cut_end;
        if marked && may_cut {
            self.cut(self.alpha / 2.0, mss, rules);
            self.rest.marked_last = true;
        }
        let grows = if rules.burst { !marked || self.rest.echoed } else { !(marked && may_cut) };
        if grows && (may_cut || rules.grow) && self.recover.is_none() {
            self.grow(mss, rules);
        }
        self.rest.echoed = marked;
    }
    /// Slow start by a packet, beyond it by a packet per window (RFC 5681 section 3.1).
    fn grow(&mut self, mss: u64, rules: &Rules) {
        let packet = mss as f64;
        if self.cwnd < self.ssthresh {
            self.cwnd += packet;
        } else if !rules.steps {
            self.cwnd += packet * packet / self.cwnd;
        } else {
            self.grown += 1;
            if f64::from(self.grown) * packet >= self.cwnd {
                self.grown = 0;
                self.cwnd += packet;
            }
        }
        // `maxcwnd_`
        if let Some(most) = rules.most {
            self.cwnd = self.cwnd.min((most * mss) as f64);
        }
    }
    /// An ACK: whether it says anything new.
    pub fn on_ack(
        &mut self,
        answer: Answer,
        mss: u64,
        rto: Dur,
        rules: &Rules,
        now: Time,
        stack_events: &mut Vec<StackEvent>,
    ) -> bool {
        let Answer { next, seq, payload, marked } = answer;
        self.probing = false;
        let before = self.una;
        let new = self.acked.insert(seq.max(self.una), (seq + payload).max(self.una)) > 0;
        let next = self.una.max(next);
        self.una = if rules.in_order { next } else { self.acked.first_gap(next) };
        self.acked.remove_below(self.una);
        self.nxt = self.nxt.max(self.una);
        let moved = self.una > before;
        if !new && !moved && !rules.in_order {
            return false;
        }
        self.out.counters.ece_acks += u64::from(marked);
        let counts = match (rules.in_order, moved) {
            (false, _) => payload,
            (true, true) => self.una - before,
            (true, false) => mss,
        };
        self.rest.counted += counts;
        self.rest.marked += if marked { counts } else { 0 };
        // RFC 8257 section 3.3 steps 4 to 7: alpha <- (1 - g) alpha + g M at the end of each window of data.
        if self.una > self.window_end {
            self.alpha += rules.g * (self.rest.marked as f64 / self.rest.counted as f64 - self.alpha);
            // `ecnhat_maxseq` begins anew at a timeout, too.
            self.window_end = if rules.anew { self.top } else { self.nxt };
            (self.rest.counted, self.rest.marked) = (0, 0);
        }
        if self.recover.is_some_and(|end| self.una >= end) {
            self.recover = None;
        }
        // Three packets beyond a gap: it is a loss.
        if self.recover.is_none() && self.acked.first_gap(self.una.max(self.resent)) < self.lost_below() {
            (self.recover, self.resent) = (Some(self.nxt), self.una);
            self.out.counters.fast_retransmits += 1;
            if self.una >= self.cut_end {
                self.cut(0.5, mss, rules);
            }
            stack_events.push(StackEvent::FastRetransmit {
                flow: self.out.opening.flow,
                max_sent: self.out.max_sent,
                outstanding: self.nxt - self.una,
                cwnd: self.cwnd as u64,
            });
        } else if moved || !rules.in_order {
            self.react(marked, mss, rules);
        }
        self.timeouts_in_a_row = 0;
        if let Some(round_trip) = &mut self.round_trip {
            round_trip.on_acked(self.una, now);
        }
        self.out.acked(self.una, stack_events);
        if moved || !rules.in_order {
            let waits = self.una < self.out.max_sent;
            self.rto_at = if waits { now + self.timeout(rto, rules.backoff) } else { Time::NEVER };
        }
        true
    }
    /// RFC 5681 section 3.1: one packet, and slow start up to half of what was in flight; all that was not acknowledged is lost.
    pub fn on_timeout(
        &mut self,
        mss: u64,
        rto: Dur,
        rules: &Rules,
        now: Time,
        stack_events: &mut Vec<StackEvent>,
    ) {
        self.timeouts_in_a_row += 1;
        let in_a_row = self.timeouts_in_a_row;
        let from = self.una - self.base.min(self.una);
        let (outstanding, cwnd) = (self.nxt - self.una, self.cwnd as u64);
        self.out.timed_out(&Timeout { from, lost: from, outstanding, cwnd, rto, in_a_row }, stack_events);
        if in_a_row == 1 && (rules.halve || !self.rest.marked_last) {
            self.ssthresh = (self.in_flight() as f64 / 2.0).max(2.0 * mss as f64);
        }
        self.cwnd = mss as f64;
        self.probing = (1..=in_a_row).contains(&rules.probe);
        (self.nxt, self.recover, self.resent, self.cut_end) = (self.una, None, self.una, self.una);
        (self.grown, self.refilled, self.top) = (0, self.una, self.una);
        // `ecnhat_recalc_seq`
        if rules.anew {
            self.window_end = self.una;
        }
        if rules.later && self.rest.marked_last {
            self.cut_end = self.out.max_sent + 1;
        }
        if rules.refill {
            self.refill_end = self.out.max_sent;
        }
        self.rto_at = now + self.timeout(rto, rules.backoff);
        // A packet that may have been retransmitted gives no RTT sample (RFC 6298 section 3).
        if let Some(round_trip) = &mut self.round_trip {
            round_trip.timed = None;
        }
    }
    /// What the next message of the connection begins with.
    pub fn kept(self, whole: bool) -> Kept {
        let rest = if whole { self.rest } else { Rest::default() };
        Kept { alpha: self.alpha, ssthresh: self.ssthresh, round_trip: self.round_trip, rest }
    }
}
