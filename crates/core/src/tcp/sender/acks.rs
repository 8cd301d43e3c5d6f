//! What a sender makes of acknowledgements: the record for its law, the scoreboard, what its recovery says, ECN.

use super::{connection, Connection, News, Phase, Sender};
use crate::control::{AckRecord, Congestion, Limit};
use crate::header::CcHeader;
use crate::packet::{flag, Packet};
use crate::tcp::recovery::{Act, Arrival, Outcome};
use crate::tcp::{ticks, EcnMode, Personality, Recovery};
use penstock_units::{Dur, Time};

/// What an ACK says about data, and what it found.
#[derive(Default)]
struct Facts {
    acked: u64,
    sacked: u64,
    rtt: Option<Dur>,
    flight_before: u64,
    /// What had been taken for lost before this ACK.
    lost_before: u64,
}

/// A round trip by the time stamp that an ACK echoes. Linux's stamps are of whole milliseconds, and it takes one that is of the same for 1 ms
/// (tcp_rtt_tsopt_us with tcp_usec_ts off, from memory). They count where an ACK of new data gives no other sample, as what it acknowledges was sent more than once.
fn in_stamps(sent: Time, now: Time) -> Dur {
    ticks::between(sent, now, STAMP).max(STAMP)
}
/// TCP_TS_HZ is 1000.
const STAMP: Dur = Dur::millis(1);

impl Sender {
    /// An ACK (or SYN + ACK) arrives.
    #[inline(always)]
    pub fn on_packet(&mut self, now: Time, p: &Packet, header: &CcHeader) {
        if p.has(flag::SYN) {
            self.on_syn_ack(now, p, header);
            return;
        }
        self.settle();
        self.written = false;
        let ack = p.seq;
        if self.phase == Phase::Closed || self.phase == Phase::SynSent || ack > self.view.max_sent {
            return; // Not possible on a path that keeps order; ignored like any segment outside the window.
        }
        // RFC 9293 section 3.10.7.4: a segment older than the one the window was last taken from must not change it.
        // ACKs of one-way data all carry the same sequence number (SND.WL1), so the acknowledgement number (SND.WL2)
        // decides; one that repeats it may be a window update.
        let window = if ack >= self.view.una { p.window as u64 } else { self.view.rwnd };
        let window_changed = window != self.view.rwnd;
        self.view.rwnd = window;
        if window >= self.view.segment as u64 {
            self.persist_at = Time::NEVER;
            self.persist_backoff = 1;
        }
        if p.has(flag::ECE) {
            self.stats.ece_acks += 1;
        }
        let mut facts = Facts { flight_before: self.flight(), lost_before: self.lost, ..Facts::default() };
        if p.has(flag::PROBE) {
            // The answer to a packet without payload: news for the law, none about data.
            self.tell_rare(now, p, header, &facts);
            return;
        }
        let blocks = p.sack_blocks().len();
        if self.hears_all {
            let echo = self.cfg.timestamps.then(|| p.sent_at());
            let arrival = Arrival { ack, blocks, dsack: p.dsack(), echo };
            let act = self.recovery.before_ack(&connection!(self, now), &arrival);
            if act != Act::Stay || !self.steers {
                self.act(now, act);
            }
            if let Some(log) = &mut self.log {
                log.begin_ack(self.rtt.recent);
                if let Some((start, end)) = p.dsack().filter(|d| self.steers && d.1 <= self.view.max_sent) {
                    // A kernel counts what came twice as delivered once more (docs/background/linux-sender.md).
                    log.on_duplicate(end.saturating_sub(start));
                }
            }
        }
        if blocks > 0 {
            facts.sacked = self.update_scoreboard(now, p);
        }
        if ack > self.view.una {
            self.on_new_ack(now, p, header, facts);
        } else {
            let outstanding = ack == self.view.una && self.view.max_sent > ack;
            let duplicate = outstanding && self.recovery.is_duplicate(facts.sacked > 0, window_changed);
            if duplicate && self.steers {
                facts.rtt = self.sample_segments(now);
            }
            let outcome = if duplicate { self.on_dup_ack(now) } else { Outcome::NONE };
            // Linux changes its state first (tcp_fastretrans_alert), and then passes the ACK to the law
            // (tcp_cong_control).
            if duplicate && self.steers {
                self.act(now, outcome.act);
            }
            self.tell_rare(now, p, header, &facts);
            if duplicate && !self.steers {
                self.act(now, outcome.act);
            }
        }
        if p.has(flag::ECE) {
            self.settle();
            self.on_ece(now);
        } else {
            self.ecn_in_a_row = 0;
        }
    }

    /// As [`Self::tell`], for ACKs of anything but new data: out of the way of those.
    #[inline(never)]
    fn tell_rare(&mut self, now: Time, p: &Packet, header: &CcHeader, facts: &Facts) {
        self.tell(now, p, header, facts);
    }
    /// Tells the law of an ACK, its one record.
    #[inline(always)]
    fn tell(&mut self, now: Time, p: &Packet, header: &CcHeader, facts: &Facts) {
        let limit = self.view.limit;
        if facts.acked > 0 && !self.cfg.window_validation && limit != Limit::Host {
            self.view.limit = Limit::Window;
        }
        let flight_after = self.flight();
        self.view.in_flight = flight_after;
        let (mut delivered, mut segments, mut rate) = (facts.acked, 0, None);
        if let Some(log) = &mut self.log {
            // What a recovery that keeps the segments counts, a law that asked for the rate or not.
            (delivered, segments) = log.newly_delivered();
            if self.wants_rate {
                let rtt_min = if self.rtt.recent == Dur::MAX { Dur::ZERO } else { self.rtt.recent };
                rate = log.sample(rtt_min, self.lost);
            }
        }
        let record = AckRecord {
            now,
            acked: facts.acked,
            sacked: facts.sacked,
            delivered,
            segments,
            lost: core::mem::take(&mut self.lost_unheard),
            lost_now: self.lost - facts.lost_before,
            rate: rate.as_ref(),
            rtt: facts.rtt,
            ece: p.has(flag::ECE),
            sent_at: p.sent_at(),
            header,
            limit,
            flight_before: facts.flight_before,
            flight_after,
        };
        self.cc.on_ack(&record, &self.view);
        self.refresh();
    }

    pub(super) fn on_syn_ack(&mut self, now: Time, p: &Packet, header: &CcHeader) {
        if self.phase != Phase::SynSent {
            return;
        }
        self.written = false;
        self.phase = Phase::Open;
        self.rto_at = Time::NEVER;
        self.timeouts_in_a_row = 0;
        self.view.rwnd = p.window as u64;
        let mut facts = Facts::default();
        // Karn: the answer to one of several SYNs is a sample where a time stamp says to which (RFC 7323 section 4.1).
        if self.syn_sent == 1 || self.cfg.timestamps {
            let sample = match self.steers && self.syn_sent > 1 {
                true => in_stamps(p.sent_at(), now),
                false => now.since(p.sent_at()),
            };
            self.take_sample(now, sample, sample);
            facts.rtt = Some(sample);
        }
        self.no_ecn = p.has(flag::NO_ECN);
        if self.syn_sent > 1 {
            if self.steers && !self.no_ecn {
                self.announce_reduction();
            }
            // RFC 5681 section 3.1: a lost SYN means an initial window of one segment; RFC 6298 (5.7).
            self.rtt.syn_was_lost();
            // Linux (tcp_init_transfer) cuts the window from the second retransmission of a SYN on.
            if !self.steers || self.syn_sent > 2 {
                self.congestion(now, Congestion::SynLost);
            }
        }
        // Explicit protocols learn their first rate from the handshake.
        self.tell_rare(now, p, header, &facts);
    }

    /// `sample` is for the estimate, `least` the smallest that the same ACK has.
    pub(super) fn take_sample(&mut self, now: Time, sample: Dur, least: Dur) {
        match self.cfg.personality {
            Personality::Rfc => self.rtt.sample(sample, &self.cfg),
            Personality::Linux => {
                self.rtt.sample_linux(sample, &self.cfg, self.view.una, self.view.nxt);
                self.rtt.note_least(now, least);
            }
        }
        self.view.rtt_latest = sample;
        self.view.rtt_smoothed = self.rtt.smoothed;
        self.view.rtt_min = self.rtt.min;
    }

    /// Linux (tcp_clean_rtx_queue, tcp_ack_update_rtt) samples segments that an ACK delivers and that were sent once.
    /// The estimate uses the one sent first, because its ACK may have been delayed; the smallest RTT and the law's
    /// sample use the one sent last. Karn's rule holds for the whole ACK: if it acknowledges a retransmission in order,
    /// the other segments it acknowledges may have arrived long before. Segments that it reports selectively for the
    /// first time still count.
    fn sample_segments(&mut self, now: Time) -> Option<Dur> {
        let got = self.log.as_ref()?.delivered_now();
        let in_order = got.in_order.round_trips(now).filter(|_| !got.acked_again);
        let selective = got.selective.round_trips(now);
        let (estimate, _) = in_order.or(selective)?;
        let (_, least) = selective.or(in_order)?;
        self.take_sample(now, estimate, least);
        Some(least)
    }

    #[inline]
    fn on_new_ack(&mut self, now: Time, p: &Packet, header: &CcHeader, mut facts: Facts) {
        let ack = p.seq;
        let bytes = ack - self.view.una;
        if let Some(log) = &mut self.log {
            log.on_acked(now, ack.min(self.view.app_end));
        }
        self.view.una = ack;
        let mut rtt = if self.steers { self.sample_segments(now) } else { None };
        if rtt.is_none() {
            if self.cfg.timestamps {
                rtt = Some(match self.steers {
                    false => now.since(p.sent_at()),
                    true => in_stamps(p.sent_at(), now),
                });
            } else if let Some((_, sent)) = self.timed.take_if(|(end, _)| !self.steers && ack >= *end) {
                rtt = Some(now.since(sent));
            }
            if let Some(sample) = rtt {
                self.take_sample(now, sample, sample);
            }
        }
        self.view.nxt = self.view.nxt.max(ack);
        if let Some(news) = &mut self.news {
            news.push(News::Acked { bytes, ece: p.has(flag::ECE), sent_at: p.sent_at(), rtt });
        }
        if !self.sacked.is_empty() {
            self.sacked.remove_below(ack);
        }
        let concerns_recovery = self.hears_all || self.dup_acks > 0 || self.phase == Phase::FastRecovery;
        self.dup_acks = 0;
        self.timeouts_in_a_row = 0;
        (facts.acked, facts.rtt) = (bytes, rtt);
        let mut outcome = Outcome::NONE;
        if concerns_recovery {
            outcome = self.recovery.on_ack(&connection!(self, now), bytes);
            self.count_lost(outcome.lost);
        }
        if self.steers {
            // Where nothing is or was lost, what the recovery wants has not changed.
            if outcome != Outcome::NONE || self.wants.chooses {
                self.act(now, outcome.act);
            }
        } else if self.phase == Phase::Loss && self.recover.is_none_or(|r| ack >= r) {
            self.set_phase(Phase::Open);
        }
        self.tell(now, p, header, &facts);
        if concerns_recovery && !self.steers {
            self.act(now, outcome.act);
        }
        // RFC 6298 (5.2), (5.3).
        if self.view.una >= self.view.max_sent {
            // Idle begins here, not at the last segment sent (RFC 5681 section 4.1): where the timeout is about one
            // RTT, the wait for this very ACK would count as idle.
            if !self.steers {
                self.active_at = now;
            }
            self.rto_at = Time::NEVER;
        } else if self.keeps_timer {
            self.since.advanced = true;
            if self.sacked.containing(self.view.una).is_some() {
                // The next segment had been SACKed: the receiver has given it up, or its ACK is on the way
                // (tcp_check_sack_reneging, from memory).
                let wait = (self.view.rtt_smoothed / 2).max(Dur::millis(10));
                self.rto_at =
                    ticks::expiry(now, wait, self.cfg.rto_granularity, &self.cfg.missed_ticks, self.written);
                self.since.held = true;
            }
        } else if !outcome.against_custom {
            self.rto_at = self.rto_after(now);
        }
        if self.hears_all {
            self.rearm = now;
        }
    }

    pub(super) fn set_phase(&mut self, phase: Phase) {
        self.phase = phase;
        self.view.in_recovery = phase == Phase::FastRecovery;
    }

    /// Takes in the SACK blocks; how many sequence numbers they are the first to report.
    fn update_scoreboard(&mut self, now: Time, p: &Packet) -> u64 {
        let mut news = 0;
        for block in p.sack_blocks() {
            let (start, end) = (p.seq + block.start as u64, p.seq + block.end as u64);
            if let Some(log) = &mut self.log {
                if self.sacked.containing(start).is_some_and(|(_, covered)| end <= covered) {
                    continue; // Told before.
                }
                for (from, to) in self.sacked.gaps(start, end.min(self.view.app_end)) {
                    log.on_sacked(now, from, to);
                }
            }
            news += self.sacked.insert(start, end);
        }
        let lost = self.recovery.on_sack(&connection!(self, now));
        self.count_lost(lost);
        news
    }

    /// A duplicate ACK: what the recovery makes of it.
    fn on_dup_ack(&mut self, now: Time) -> Outcome {
        if self.dup_acks == 0 {
            self.before_duplicates = self.view.nxt;
        }
        self.dup_acks += 1;
        let outcome = self.recovery.on_duplicate(&connection!(self, now));
        self.count_lost(outcome.lost);
        if self.keeps_timer {
            self.rearm = now;
        }
        outcome
    }

    pub(super) fn enter_recovery(&mut self, now: Time, go_back: bool) {
        self.stats.fast_retransmits += 1;
        let reduced_already = self.cfg.ecn == EcnMode::Classic && self.view.una < self.cwr_end;
        self.recover = Some(self.view.max_sent);
        self.set_phase(Phase::FastRecovery);
        if !reduced_already {
            self.congestion(now, Congestion::Loss);
        }
        self.announce_reduction();
        self.timed = None;
        self.recovery.on_enter(&connection!(self, now));
        if go_back {
            self.view.nxt = self.view.una;
            self.cwr_end = self.cwr_end.min(self.view.una);
        }
        if !self.keeps_timer {
            self.rto_at = self.rto_after(now);
        }
    }

    /// RFC 3168 section 6.1.2: after any reduction, loss included, the first new data carries CWR; without it
    /// the receiver would go on echoing a mark of the window that was cut already.
    /// DCTCP's receiver does not need it, but Linux's acknowledges it at once.
    pub(super) fn announce_reduction(&mut self) {
        self.cwr_due = match self.cfg.ecn {
            EcnMode::Off => false,
            EcnMode::Classic => true,
            EcnMode::Dctcp => self.steers,
        };
    }

    pub(super) fn on_ece(&mut self, now: Time) {
        // RFC 3168 section 6.1.2: at most one reaction per window of data, none during loss recovery. An echo that
        // acknowledges exactly what had been sent at the last reaction still speaks of that window.
        if self.cfg.ecn == EcnMode::Off || self.phase != Phase::Open || self.view.una <= self.cwr_end {
            return;
        }
        let before = self.cwnd;
        self.cwr_end = self.view.nxt;
        self.cwr_due = true;
        self.congestion(now, Congestion::Ecn);
        if self.steers {
            self.recovery.on_reduction(&connection!(self, now));
            self.sync(now);
        }
        let segment = self.view.segment as u64;
        if self.cfg.ecn == EcnMode::Classic && (before <= segment || self.cwnd < segment) {
            // RFC 3168 section 6.1.2: at one segment the window cannot shrink; the retransmit timer is reset and the
            // next packet leaves only when it expires. (Below one segment the window is without `ecn_floor` only.)
            let doubled = if self.cfg.ecn_backoff { 1 << self.ecn_in_a_row.min(16) } else { 1 };
            self.ecn_in_a_row = self.ecn_in_a_row.saturating_add(1);
            let factor = u64::from(self.cfg.backoff_max.max(1)).min(doubled);
            self.ecn_hold = now + (self.rto() * factor).min(self.cfg.rto_max);
            if self.view.una < self.view.max_sent {
                self.rto_at = self.ecn_hold;
            }
        } else {
            self.ecn_in_a_row = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stamps 9 and 10 are a millisecond apart, stamps 9 and 12 three; two of the same are taken for one apart.
    #[test]
    fn linux_stamps_are_of_whole_milliseconds() {
        let at = |us: u64| Time::ZERO + Dur::micros(us);
        for (sent, now, ms) in [(9_900, 10_100, 1), (9_900, 12_000, 3), (9_200, 9_900, 1)] {
            assert_eq!(in_stamps(at(sent), at(now)), Dur::millis(ms), "{sent} {now}");
        }
    }
}
