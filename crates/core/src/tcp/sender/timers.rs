//! What a sender does when time is up: the recovery's timers, persist timer, retransmission timeout.

use super::{connection, Connection, Phase, Sender, TimeoutKind, TimeoutRecord};
use crate::control::Congestion;
use crate::tcp::Recovery;
use penstock_units::Time;

impl Sender {
    /// The deadline has come.
    pub fn on_deadline(&mut self, now: Time) {
        self.settle();
        if now >= self.ecn_hold {
            if self.ecn_hold != Time::ZERO && self.cwnd < self.view.segment as u64 {
                // As after a timer that expires again: back to one segment, and ssthresh stays.
                self.congestion(now, Congestion::Timeout { in_a_row: 2, kept: 0 });
            }
            self.ecn_hold = Time::ZERO;
        }
        if now >= self.cc_at {
            self.cc.on_deadline(now, &self.view);
            self.refresh();
        }
        if now >= self.wants.deadline {
            let outcome = self.recovery.on_deadline(&connection!(self, now));
            self.count_lost(outcome.lost);
            if outcome.probe {
                self.last_timeout = Some(self.timer_record(now, TimeoutKind::Probe));
            }
            if outcome.against_custom {
                self.rto_at = self.rto_after(now);
            }
            if self.keeps_timer {
                self.rearm = now;
            }
            self.act(now, outcome.act);
        }
        if now >= self.persist_at {
            self.persist_at = Time::NEVER;
            self.persist_due = true;
        }
        if now >= self.rto_at {
            self.on_timeout(now);
        }
    }

    /// What the event table has of a timer that has run out.
    fn timer_record(&self, now: Time, kind: TimeoutKind) -> TimeoutRecord {
        let probe = kind == TimeoutKind::Probe;
        TimeoutRecord {
            kind,
            block_start: self.view.una <= self.block_start,
            block_offset: self.view.una.saturating_sub(self.block_start),
            outstanding: self.view.nxt - self.view.una,
            cwnd: self.cwnd,
            rto: if probe { now.since(self.active_at) } else { self.rto() },
            in_a_row: if probe { 0 } else { self.timeouts_in_a_row },
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
        self.last_timeout = Some(self.timer_record(now, kind));
        let linear = self.steers && self.phase == Phase::SynSent && in_a_row <= self.cfg.syn_linear_timeouts;
        if !linear {
            self.rtt.back_off(&self.cfg);
        }
        self.rto_at = self.rto_after(now);
        self.timed = None;
        if self.phase == Phase::SynSent {
            self.syn_due = true;
            return;
        }
        if self.phase == Phase::FastRecovery {
            self.dup_acks = 0; // FlightSize is all that is outstanding again
        }
        // Linux (tcp_enter_loss, from memory): a timeout within a reduction is no second one, ssthresh stays.
        let again = self.steers && self.view.in_recovery;
        let in_a_row = if again { in_a_row.max(2) } else { in_a_row };
        if !self.steers {
            self.congestion(now, Congestion::Timeout { in_a_row, kept: 0 });
        }
        self.announce_reduction();
        if self.steers && self.sacked.containing(self.view.una).is_some() {
            // RFC 2018 section 8: what was reported has been given up.
            self.sacked.clear();
            if let Some(log) = &mut self.log {
                log.forget_sacked();
            }
        }
        let from = self.what_is_reduced(true);
        let lost = self.recovery.on_timeout(&connection!(self, now));
        self.count_lost(lost);
        if self.steers {
            // tcp_enter_loss marks first, and the window is what it has left and a segment.
            self.sync(now);
            let kept = self.flight();
            self.tell_congestion(now, Congestion::Timeout { in_a_row, kept }, from);
        }
        // RFC 5681 section 3.1, RFC 6582 section 4, RFC 2018 section 8: back to the first unacknowledged byte.
        self.recover = Some(self.view.max_sent);
        self.set_phase(Phase::Loss);
        self.dup_acks = 0;
        if !self.steers {
            self.sacked.clear();
            self.view.nxt = self.view.una;
        }
        self.cwr_end = self.cwr_end.min(self.view.una);
        self.sync(now);
    }
}
