//! What a sender does when time is up: retransmission timeout, tail-loss probe, persist timer.

use super::{Phase, Sender, TimeoutKind, TimeoutRecord};
use crate::control::Congestion;
use crate::packet::Packet;
use crate::tcp::LossRecovery;
use penstock_units::{Dur, Time};

impl Sender {
    /// The deadline has come.
    pub fn on_deadline(&mut self, now: Time) {
        if now >= self.ecn_hold {
            if self.ecn_hold != Time::ZERO && self.cwnd < self.view.segment as u64 {
                // As after a timer that expires again: back to one segment, and ssthresh stays.
                self.congestion(now, Congestion::Timeout { in_a_row: 2 });
            }
            self.ecn_hold = Time::ZERO;
        }
        if now >= self.cc_at {
            self.cc.on_deadline(now, &self.view);
            self.refresh();
        }
        if now >= self.probe_at {
            self.probe_at = Time::NEVER;
            self.probe_due = true;
            self.rto_at = now + self.rto();
        }
        if now >= self.persist_at {
            self.persist_at = Time::NEVER;
            self.persist_due = true;
        }
        if now >= self.thread.deadline() {
            self.thread.advance();
            // Algorithm 3: the thread is suspended when fast retransmit begins.
            let rests = self.thread.options().is_some_and(|o| o.rests_in_recovery);
            self.thread_due = !(rests && self.phase == Phase::FastRecovery);
        }
        if now >= self.rto_at {
            self.on_timeout(now);
        }
    }

    pub(super) fn on_timeout(&mut self, now: Time) {
        self.timeouts_in_a_row += 1;
        self.stats.timeouts += 1;
        let in_a_row = self.timeouts_in_a_row;
        let kind = match self.phase {
            Phase::SynSent => TimeoutKind::Syn,
            _ if in_a_row > 1 => TimeoutKind::Repeated,
            Phase::FastRecovery => TimeoutKind::RetransmitLost,
            _ if self.dup_acks > 0 => TimeoutKind::FewDupAcks,
            _ => TimeoutKind::WindowLost,
        };
        self.last_timeout = Some(TimeoutRecord {
            kind,
            block_start: self.view.una <= self.block_start,
            block_offset: self.view.una.saturating_sub(self.block_start),
            outstanding: self.view.nxt - self.view.una,
            cwnd: self.cwnd,
            rto: self.rto(),
            in_a_row,
        });
        self.rtt.back_off(&self.cfg);
        self.rto_at = now + self.rto();
        self.timed = None;
        if self.phase == Phase::SynSent {
            self.syn_due = true;
            return;
        }
        if self.phase == Phase::FastRecovery {
            self.dup_acks = 0; // FlightSize is all that is outstanding again
        }
        self.congestion(now, Congestion::Timeout { in_a_row });
        self.announce_reduction();
        // RFC 5681 section 3.1, RFC 6582 section 4, RFC 2018 section 8: back to the first unacknowledged byte.
        self.recover = Some(self.view.max_sent);
        self.set_phase(Phase::Loss);
        self.sacked.clear();
        self.lost_below = 0;
        self.inflation = 0;
        self.dup_acks = 0;
        self.head_due = false;
        self.probe_at = Time::NEVER;
        self.probe_end = None;
        self.probe_due = false;
        self.view.nxt = self.view.una;
        self.cwr_end = self.cwr_end.min(self.view.una);
    }

    // ---- tail-loss probe (RFC 8985 section 7) ---------------------------------------------------------

    pub(super) fn arm_probe(&mut self, now: Time) {
        if !self.cfg.tail_loss_probe || self.cfg.recovery != LossRecovery::Sack {
            return;
        }
        self.probe_at = Time::NEVER;
        // Payload: FIN on a segment does not make two of it.
        let outstanding = self.payload_end().saturating_sub(self.view.una);
        let idle = self.phase != Phase::Open || self.view.nxt == self.view.una || !self.sacked.is_empty();
        if idle || self.probe_end.is_some() || self.rtt.smoothed == Dur::ZERO {
            return;
        }
        // RFC 8985 section 7.2: PTO = 2 SRTT, plus the peer's delayed-ACK time when one segment is out; a timeout
        // that is due before becomes the probe.
        let mut pto = self.rtt.smoothed * 2;
        if outstanding <= self.view.segment as u64 && self.cfg.delayed_ack > 1 {
            pto += self.cfg.delayed_ack_timeout;
        }
        self.probe_at = (now + pto).min(self.rto_at);
    }
    /// RFC 8985 section 7.4.2: what an ACK says about the outstanding probe.
    #[cold]
    pub(super) fn end_probe(&mut self, now: Time, p: &Packet) {
        let Some((end, retransmitted)) = self.probe_end else { return };
        if p.seq < end {
            return;
        }
        if !retransmitted {
            self.probe_end = None;
        } else if p.seq > end {
            // The probe repaired a loss, which was a sign of congestion.
            self.probe_end = None;
            if self.phase == Phase::Open {
                self.congestion(now, Congestion::Loss);
                self.congestion(now, Congestion::Recovered);
            }
        } else if p.seq == self.view.una && p.sack_count() == 0 {
            // A plain duplicate: the original and the probe both arrived, nothing was lost.
            self.probe_end = None;
        }
    }
}
