//! What a sender makes of acknowledgements: growth, duplicates, recovery, the scoreboard of RFC 6675.

use super::{News, Phase, Sender};
use crate::control::{Ack, Congestion, Limit};
use crate::header::CcHeader;
use crate::packet::{flag, Packet};
use crate::tcp::{EcnMode, LossRecovery};
use penstock_units::{Dur, Time};

impl Sender {
    /// An ACK (or SYN + ACK) arrives.
    #[inline]
    pub fn on_packet(&mut self, now: Time, p: &Packet, header: &CcHeader) {
        if p.has(flag::SYN) {
            self.on_syn_ack(now, p, header);
            return;
        }
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
        if p.has(flag::PROBE) {
            // The answer to a packet without payload: news for the controller, none about data.
            let event = Ack { now, bytes: 0, ece: p.has(flag::ECE), sent_at: p.sent_at(), rtt: None, header };
            self.cc.on_duplicate(&event, &self.view);
            self.refresh();
            return;
        }
        if self.probe_end.is_some() {
            self.end_probe(now, p);
        }
        let new_sack = p.sack_count() > 0 && self.update_scoreboard(p);
        if ack > self.view.una {
            self.on_new_ack(now, p, header);
        } else if ack == self.view.una && self.view.max_sent > self.view.una {
            let event = Ack { now, bytes: 0, ece: p.has(flag::ECE), sent_at: p.sent_at(), rtt: None, header };
            self.cc.on_duplicate(&event, &self.view);
            self.refresh();
            // RFC 5681 section 2: no data, no window change; with SACK: new information (RFC 6675 section 2),
            // except for the three that answer a marked segment.
            let duplicate = match self.cfg.recovery {
                LossRecovery::Sack => new_sack || self.thread.options().is_some(),
                _ => !window_changed,
            };
            if duplicate {
                self.on_dup_ack(now);
            }
        }
        if p.has(flag::ECE) {
            self.on_ece(now);
        }
    }

    pub(super) fn on_syn_ack(&mut self, now: Time, p: &Packet, header: &CcHeader) {
        if self.phase != Phase::SynSent {
            return;
        }
        self.phase = Phase::Open;
        self.rto_at = Time::NEVER;
        self.timeouts_in_a_row = 0;
        self.view.rwnd = p.window as u64;
        let rtt = if self.syn_sent == 1 {
            let sample = now.since(p.sent_at());
            self.take_sample(sample);
            Some(sample)
        } else {
            // RFC 5681 section 3.1: a lost SYN means an initial window of one segment; RFC 6298 (5.7).
            self.rtt.syn_was_lost();
            self.congestion(now, Congestion::SynLost);
            None
        };
        // Explicit protocols learn their first rate from the handshake.
        if self.header_len > 0 {
            let event = Ack { now, bytes: 0, ece: false, sent_at: p.sent_at(), rtt, header };
            self.cc.on_duplicate(&event, &self.view);
            self.refresh();
        }
    }

    pub(super) fn take_sample(&mut self, sample: Dur) {
        self.rtt.sample(sample, &self.cfg);
        self.view.rtt_latest = sample;
        self.view.rtt_smoothed = self.rtt.smoothed;
        self.view.rtt_min = self.rtt.min;
    }

    #[inline]
    pub(super) fn on_new_ack(&mut self, now: Time, p: &Packet, header: &CcHeader) {
        let ack = p.seq;
        let bytes = ack - self.view.una;
        let mut rtt = None;
        if self.cfg.timestamps {
            rtt = Some(now.since(p.sent_at()));
        } else if let Some((end, sent)) = self.timed {
            if ack >= end {
                rtt = Some(now.since(sent));
                self.timed = None;
            }
        }
        if let Some(sample) = rtt {
            self.take_sample(sample);
        }
        self.view.una = ack;
        self.view.nxt = self.view.nxt.max(ack);
        if let Some(news) = &mut self.news {
            news.push(News::Acked { bytes, ece: p.has(flag::ECE), sent_at: p.sent_at(), rtt });
        }
        if !self.sacked.is_empty() {
            self.sacked.remove_below(ack);
        }
        self.dup_acks = 0;
        self.timeouts_in_a_row = 0;
        if self.phase == Phase::Open {
            self.grow(now, bytes, p, rtt, header);
        } else {
            self.on_new_ack_in_loss(now, bytes, p, rtt, header);
        }
        // RFC 6298 (5.2), (5.3).
        if self.view.una >= self.view.max_sent {
            // Idle begins here, not at the last segment sent (RFC 5681 section 4.1): where the timeout is about one
            // RTT, the wait for this very ACK would count as idle.
            self.active_at = now;
            self.rto_at = Time::NEVER;
            self.probe_at = Time::NEVER;
        } else {
            // RFC 6582 section 3.2 step 3, impatient variant: only the first partial ACK restarts the timer.
            let later_partial = self.phase == Phase::FastRecovery && self.partial_acks > 1;
            if !(later_partial && self.cfg.recovery == LossRecovery::NewReno) {
                self.rto_at = now + self.rto();
            }
            self.arm_probe(now);
        }
    }

    #[inline]
    pub(super) fn grow(&mut self, now: Time, bytes: u64, p: &Packet, rtt: Option<Dur>, header: &CcHeader) {
        if !self.cfg.window_validation && self.view.limit != Limit::Host {
            self.view.limit = Limit::Window;
        }
        self.view.in_flight = self.flight();
        let event = Ack { now, bytes, ece: p.has(flag::ECE), sent_at: p.sent_at(), rtt, header };
        self.cc.on_ack(&event, &self.view);
        self.refresh();
    }

    pub(super) fn on_new_ack_in_loss(
        &mut self,
        now: Time,
        bytes: u64,
        p: &Packet,
        rtt: Option<Dur>,
        header: &CcHeader,
    ) {
        let full = self.recover.is_none_or(|r| self.view.una >= r);
        if self.phase == Phase::Loss {
            if full {
                self.set_phase(Phase::Open);
            }
            self.grow(now, bytes, p, rtt, header);
            return;
        }
        if self.acks_in_recovery {
            self.grow(now, bytes, p, rtt, header);
        }
        if full || self.cfg.recovery == LossRecovery::Reno {
            self.set_phase(Phase::Open);
            self.inflation = 0;
            self.head_due = false;
            self.congestion(now, Congestion::Recovered);
            return;
        }
        self.partial_acks += 1;
        if self.cfg.recovery == LossRecovery::NewReno {
            // RFC 6582 section 3.2 step 3: retransmit the next hole; deflate by what was acknowledged, add one
            // segment when at least one was.
            let segment = self.view.segment as u64;
            self.inflation -= bytes as i64;
            if bytes >= segment {
                self.inflation += segment as i64;
            }
            self.head_due = true;
        }
    }

    pub(super) fn set_phase(&mut self, phase: Phase) {
        self.phase = phase;
        self.view.in_recovery = phase == Phase::FastRecovery;
    }

    pub(super) fn update_scoreboard(&mut self, p: &Packet) -> bool {
        let mut news = false;
        for block in &p.sack[..p.sack_count()] {
            news |= self.sacked.insert(p.seq + block.start as u64, p.seq + block.end as u64);
        }
        if let Some((end, _)) = self.probe_end {
            // The probe left after everything below it: what is still missing then is lost
            // (RFC 8985 with a reordering window of zero: paths keep order).
            if self.sacked.highest().is_some_and(|h| h >= end) {
                self.lost_below = self.lost_below.max(end);
                self.probe_end = None;
            }
        }
        news
    }

    pub(super) fn on_dup_ack(&mut self, now: Time) {
        if self.dup_acks == 0 {
            self.before_duplicates = self.view.nxt;
        }
        self.dup_acks += 1;
        match self.phase {
            // RFC 5681 section 3.2 step 4: each further duplicate means a segment has left the network.
            Phase::FastRecovery if self.cfg.recovery != LossRecovery::Sack => {
                self.inflation += i64::from(self.view.segment);
            }
            Phase::Open | Phase::Loss => {
                let lost = self.dup_acks >= self.cfg.dup_thresh
                    || (self.cfg.recovery == LossRecovery::Sack && self.lost_edge() > self.view.una);
                // RFC 6582 section 3.2 step 2, RFC 6675 section 5.1: not again for the same window.
                // Algorithm 3 knows no such exception: with the retransmit thread a third duplicate always counts.
                let covered = match self.cfg.recovery {
                    _ if self.thread.options().is_some() => true,
                    LossRecovery::Sack => self.recover.is_none_or(|r| self.view.una >= r),
                    _ => self.recover.is_none_or(|r| self.view.una > r),
                };
                if lost && covered {
                    self.enter_recovery(now);
                }
            }
            _ => {}
        }
    }

    pub(super) fn enter_recovery(&mut self, now: Time) {
        self.stats.fast_retransmits += 1;
        let reduced_already = self.cfg.ecn == EcnMode::Classic && self.view.una < self.cwr_end;
        self.recover = Some(self.view.max_sent);
        self.set_phase(Phase::FastRecovery);
        self.partial_acks = 0;
        if !reduced_already {
            self.congestion(now, Congestion::Loss);
        }
        self.announce_reduction();
        self.timed = None;
        self.probe_at = Time::NEVER;
        self.probe_end = None;
        self.head_due = true;
        self.high_rxt = self.view.una;
        self.rescue = None;
        if self.cfg.recovery != LossRecovery::Sack {
            // RFC 5681 section 3.2 step 3: the segments that caused the duplicates have left the network.
            self.inflation = i64::from(self.cfg.dup_thresh) * i64::from(self.view.segment);
        }
        self.rto_at = now + self.rto();
    }

    /// RFC 3168 section 6.1.2: after any reduction, loss included, the first new data carries CWR; without it
    /// the receiver would go on echoing a mark of the window that was cut already.
    pub(super) fn announce_reduction(&mut self) {
        self.cwr_due = self.cfg.ecn == EcnMode::Classic;
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
        let segment = self.view.segment as u64;
        if self.cfg.ecn == EcnMode::Classic && (before <= segment || self.cwnd < segment) {
            // RFC 3168 section 6.1.2: at one segment the window cannot shrink; the retransmit timer is reset and the
            // next packet leaves only when it expires. (Below one segment the window is without `ecn_floor` only.)
            self.ecn_hold = now + self.rto();
            if self.view.una < self.view.max_sent {
                self.rto_at = self.ecn_hold;
            }
        }
    }

    // ---- RFC 6675 ------------------------------------------------------------------------------------

    /// Below this, everything not SACKed is lost: IsLost() of RFC 6675 section 4.
    pub(super) fn lost_edge(&self) -> u64 {
        let mut bytes = 0;
        let mut segments = 0;
        let enough = (self.cfg.dup_thresh as u64 - 1) * self.view.segment as u64;
        for (start, end) in self.sacked.iter().rev() {
            // FIN rides on the last segment: its number is not a byte more that arrived.
            bytes += end.min(self.view.app_end).saturating_sub(start);
            segments += 1;
            if bytes > enough || segments >= self.cfg.dup_thresh {
                return start.max(self.lost_below);
            }
        }
        self.lost_below.max(self.view.una)
    }
    /// Bytes of `[from, to)` that are not SACKed.
    pub(super) fn unsacked(&self, from: u64, to: u64) -> u64 {
        to.saturating_sub(from) - self.sacked.covered(from, to)
    }
    /// SetPipe() of RFC 6675 section 4.
    pub(super) fn pipe(&self) -> u64 {
        let v = &self.view;
        // Payload, not the number of FIN: with it the last segment would be a byte too long for the window.
        let sent = v.max_sent.min(v.app_end).max(v.una);
        let edge = self.lost_edge().clamp(v.una, sent);
        self.unsacked(edge, sent) + self.unsacked(v.una, self.high_rxt.max(v.una))
    }
    /// NextSeg() of RFC 6675 section 4: start and longest length of the next segment, and whether it is a rescue.
    pub(super) fn next_seg(&self) -> Option<(u64, u64, bool)> {
        let v = &self.view;
        let from = self.sacked.first_gap(self.high_rxt.max(v.una));
        let hole = |seq: u64| self.sacked.next_start(seq).unwrap_or(v.max_sent).min(v.max_sent) - seq;
        let highest = self.sacked.highest().unwrap_or(v.una);
        let edge = self.lost_edge();
        if from < edge && from < highest.max(edge) {
            return Some((from, hole(from), false));
        }
        if v.nxt < self.seq_end() && v.nxt + self.view.segment as u64 <= v.una + v.rwnd {
            return Some((v.nxt, u64::MAX, false));
        }
        if from < highest {
            return Some((from, hole(from), false));
        }
        if self.rescue.is_none_or(|r| v.una > r) && !self.sacked.is_empty() && highest < v.max_sent {
            let last = v.max_sent.min(v.app_end).saturating_sub(self.view.segment as u64);
            let start = highest.max(last);
            return Some((start, v.max_sent - start, true));
        }
        None
    }
}
