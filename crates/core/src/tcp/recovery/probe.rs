//! The tail-loss probe (RFC 8985 section 7).

use super::{Act, Arrival, Connection, Outgoing, Why};
use crate::tcp::{Personality, Phase};
use penstock_units::{Dur, Time};

/// TCP_TIMEOUT_MIN_US of Linux.
pub(super) const TIMEOUT_MIN: Dur = Dur::millis(2);

/// One segment is out. Payload: FIN on a segment does not make two of it.
fn is_single(c: &Connection<'_>) -> bool {
    let v = c.view;
    v.nxt.min(v.app_end).saturating_sub(v.una) <= u64::from(v.segment)
}

/// When a probe is sent, and what is made of the one that is out.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Probe {
    at: Time,
    due: bool,
    /// End of the probe that is out, and whether it sent old data again.
    out: Option<(u64, bool)>,
}

impl Probe {
    pub(super) fn new() -> Probe {
        Probe { at: Time::NEVER, due: false, out: None }
    }
    pub(super) fn deadline(&self) -> Time {
        self.at
    }
    pub(super) fn is_due(&self) -> bool {
        self.due
    }
    /// True when the deadline has come: a probe is to be sent.
    pub(super) fn on_deadline(&mut self, now: Time) -> bool {
        let due = now >= self.at;
        if due {
            self.at = Time::NEVER;
            self.due = true;
        }
        due
    }
    /// The probe that is out sent old data again, up to `end`.
    pub(super) fn is_out(&self, end: u64) -> bool {
        self.out == Some((end, true))
    }
    /// Fast recovery begins.
    pub(super) fn on_enter(&mut self) {
        self.put_off();
        self.forget();
    }
    /// The one that is out says nothing any more.
    pub(super) fn forget(&mut self) {
        self.out = None;
    }
    /// None is sent until the timer is set again.
    pub(super) fn put_off(&mut self) {
        self.at = Time::NEVER;
    }
    pub(super) fn on_timeout(&mut self) {
        *self = Probe::new();
    }
    /// Sets the timer anew by the RFC, and answers when it runs out; `rto_at` is the timeout's.
    pub(super) fn arm(&mut self, c: &Connection<'_>, rto_at: Time) -> Time {
        let v = c.view;
        let idle = c.phase != Phase::Open || v.nxt == v.una || !c.sacked.is_empty();
        self.at = if idle || self.out.is_some() || v.rtt_smoothed == Dur::ZERO {
            Time::NEVER
        } else {
            // RFC 8985 section 7.2: PTO = 2 SRTT, plus the peer's delayed-ACK time when one segment is out; a timeout
            // that is due before becomes the probe.
            let delayed = is_single(c) && c.cfg.delayed_ack > 1;
            let more = if delayed { c.cfg.delayed_ack_timeout } else { Dur::ZERO };
            (c.now + v.rtt_smoothed * 2 + more).min(rto_at)
        };
        self.at
    }
    /// Sets it as Linux does (tcp_schedule_loss_probe; a kernel confirms the time of one segment, docs/background/linux-sender.md), a probe out or not. `rto` is what is left of the timeout, if anything is.
    pub(super) fn schedule(&mut self, c: &Connection<'_>, rto: Dur) {
        let v = c.view;
        // Without a sample a kernel waits TCP_TIMEOUT_INIT.
        let pto = match v.rtt_smoothed {
            Dur::ZERO => c.cfg.rto_initial,
            rtt => rtt * 2 + if is_single(c) { c.cfg.floor() } else { TIMEOUT_MIN },
        };
        let wait = if rto > Dur::ZERO { pto.min(rto) } else { pto };
        self.at = c.timer(wait);
    }
    /// The timer has run out: whether a probe is due, as none is out.
    pub(super) fn expire(&mut self, now: Time) -> bool {
        let may = self.out.is_none();
        self.due = self.on_deadline(now) && may;
        self.due
    }
    /// RFC 8985 section 7.3: new data when there is some and the receiver has room, else the last segment again.
    pub(super) fn send(&mut self, c: &Connection<'_>) -> Option<Outgoing> {
        let v = c.view;
        if !core::mem::take(&mut self.due) || v.una == v.max_sent {
            return None;
        }
        self.at = Time::NEVER;
        let (seq, end) = (v.nxt, c.segment_end(v.nxt, c.seq_end()));
        if end > seq && end.min(v.app_end) <= v.una + v.rwnd {
            self.out = Some((end, false));
            return Some(Outgoing { seq, end, why: Why::Probe });
        }
        let end = v.max_sent;
        let cut = end.min(v.app_end).saturating_sub(v.segment as u64);
        // tcp_send_loss_probe: the last segment as it was cut, which may be short.
        let last = c.segments.and_then(|log| log.iter().next_back()).map(|s| s.start);
        let seq = match c.cfg.personality {
            Personality::Rfc => cut,
            Personality::Linux => last.map_or(cut, |last| last.max(cut)),
        };
        let seq = seq.max(v.una);
        self.out = Some((end, true));
        Some(Outgoing { seq, end, why: Why::Probe })
    }
    /// RFC 8985 section 7.4.2: what an ACK says about the outstanding probe.
    pub(super) fn before_ack(&mut self, c: &Connection<'_>, arrival: &Arrival) -> Act {
        let Arrival { ack, blocks, dsack, .. } = *arrival;
        let Some((end, retransmitted)) = self.out else { return Act::Stay };
        if ack < end {
            return Act::Stay;
        }
        if !retransmitted || dsack.is_some_and(|(_, twice)| twice == end) {
            // With a report of the duplicate original and probe both arrived, nothing was lost.
            self.out = None;
        } else if ack > end {
            // The probe repaired a loss, which was a sign of congestion.
            self.out = None;
            if c.phase == Phase::Open {
                return Act::Repaired;
            }
        } else if ack == c.view.una && blocks == 0 {
            // A plain duplicate: the original and the probe both arrived, nothing was lost.
            self.out = None;
        }
        Act::Stay
    }
    /// Everything below the answer is lost, when what was SACKed reaches the end of the probe: it left after everything below
    /// it (RFC 8985 with a reordering window of zero: paths keep order).
    pub(super) fn on_sack(&mut self, c: &Connection<'_>) -> Option<u64> {
        let (end, _) = self.out?;
        if c.sacked.highest().is_none_or(|h| h < end) {
            return None;
        }
        self.out = None;
        Some(end)
    }
}
