//! Recovery by selective acknowledgements (RFC 2018, RFC 6675).

use super::probe::Probe;
use super::{Act, Arrival, Choice, Connection, Control, Outcome, Outgoing, Recovery, Since, Timers, Why};
use crate::control::Limit;
use crate::tcp::Phase;
use penstock_units::{Dur, Time};

/// The recovery of RFC 6675.
#[derive(Clone, Debug, PartialEq)]
pub struct Sack {
    /// HighRxt: one past the highest byte retransmitted in this recovery.
    high_rxt: u64,
    /// RescueRxt.
    rescue: Option<u64>,
    /// Everything not SACKed below this is lost (set by a tail-loss probe that was SACKed).
    lost_below: u64,
    /// Up to here the lost bytes have been reported.
    reported: u64,
    head_due: bool,
    probe: Option<Probe>,
    always: bool,
}

impl Sack {
    /// `always`: as [`super::Reno::new`], and any ACK without new data is a duplicate. `tail_loss_probe`: RFC 8985 section 7.
    pub fn new(always: bool, tail_loss_probe: bool) -> Sack {
        Sack {
            high_rxt: 0,
            rescue: None,
            lost_below: 0,
            reported: 0,
            head_due: false,
            probe: tail_loss_probe.then(Probe::new),
            always,
        }
    }
    /// Below this, everything not SACKed is lost: IsLost() of RFC 6675 section 4.
    fn lost_edge(&self, c: &Connection<'_>) -> u64 {
        let mut bytes = 0;
        let mut segments = 0;
        let enough = (c.cfg.dup_thresh as u64 - 1) * c.view.segment as u64;
        for (start, end) in c.sacked.iter().rev() {
            // FIN rides on the last segment: its number is not a byte more that arrived.
            bytes += end.min(c.view.app_end).saturating_sub(start);
            segments += 1;
            if bytes > enough || segments >= c.cfg.dup_thresh {
                return start.max(self.lost_below);
            }
        }
        self.lost_below.max(c.view.una)
    }
    /// SetPipe() of RFC 6675 section 4.
    fn pipe(&self, c: &Connection<'_>) -> u64 {
        let v = c.view;
        // Payload, not the number of FIN: with it the last segment would be a byte too long for the window.
        let sent = v.max_sent.min(v.app_end).max(v.una);
        let edge = self.lost_edge(c).clamp(v.una, sent);
        unsacked(c, edge, sent) + unsacked(c, v.una, self.high_rxt.max(v.una))
    }
    /// NextSeg() of RFC 6675 section 4.
    fn next_seg(&self, c: &Connection<'_>) -> Option<Outgoing> {
        let v = c.view;
        let from = c.sacked.first_gap(self.high_rxt.max(v.una));
        let again = |seq: u64, limit: u64, why| Outgoing { seq, end: c.segment_end(seq, limit), why };
        let hole = |seq: u64| c.sacked.next_start(seq).unwrap_or(v.max_sent).min(v.max_sent);
        let highest = c.sacked.highest().unwrap_or(v.una);
        let edge = self.lost_edge(c);
        if from < edge && from < highest.max(edge) {
            return Some(again(from, hole(from), Why::Lost));
        }
        if v.nxt < c.seq_end() && v.nxt + v.segment as u64 <= v.una + v.rwnd {
            return Some(again(v.nxt, c.seq_end(), Why::Next));
        }
        if from < highest {
            return Some(again(from, hole(from), Why::Lost));
        }
        if self.rescue.is_none_or(|r| v.una > r) && !c.sacked.is_empty() && highest < v.max_sent {
            let last = v.max_sent.min(v.app_end).saturating_sub(v.segment as u64);
            return Some(again(highest.max(last), v.max_sent, Why::Rescue));
        }
        None
    }
}

/// Bytes of `[from, to)` that are not SACKed.
fn unsacked(c: &Connection<'_>, from: u64, to: u64) -> u64 {
    to.saturating_sub(from) - c.sacked.covered(from, to)
}

impl Recovery for Sack {
    fn hears_all(&self) -> bool {
        self.probe.is_some()
    }
    /// RFC 6675 section 2: new information, which the three that answer a marked segment need not bring.
    fn is_duplicate(&self, new_sack: bool, _: bool) -> bool {
        new_sack || self.always
    }
    fn before_ack(&mut self, c: &Connection<'_>, arrival: &Arrival) -> Act {
        self.probe.as_mut().map_or(Act::Stay, |p| p.before_ack(c, arrival))
    }
    fn on_sack(&mut self, c: &Connection<'_>) -> u64 {
        if let Some(end) = self.probe.as_mut().and_then(|p| p.on_sack(c)) {
            self.lost_below = self.lost_below.max(end);
        }
        let edge = self.lost_edge(c);
        let from = self.reported.max(c.view.una);
        if edge <= from {
            return 0;
        }
        self.reported = edge;
        unsacked(c, from, edge)
    }
    fn on_duplicate(&mut self, c: &Connection<'_>) -> Outcome {
        if c.phase == Phase::FastRecovery {
            return Outcome::NONE;
        }
        let lost = c.dup_acks >= c.cfg.dup_thresh || self.lost_edge(c) > c.view.una;
        // RFC 6675 section 5.1: not again for the same window.
        if !lost || !(self.always || c.is_full_ack()) {
            return Outcome::NONE;
        }
        let head = c.head(Why::Lost);
        let mut lost = 0;
        if self.reported <= head.seq {
            // By the count of duplicates alone (section 5 step 1).
            self.reported = head.end;
            lost = head.end.min(c.view.app_end).saturating_sub(head.seq);
        }
        Outcome { act: Act::Enter, lost, ..Outcome::NONE }
    }
    fn on_ack(&mut self, c: &Connection<'_>, _: u64) -> Outcome {
        if c.phase != Phase::FastRecovery || !c.is_full_ack() {
            return Outcome::NONE;
        }
        self.head_due = false;
        Outcome { act: Act::Leave, ..Outcome::NONE }
    }
    fn on_enter(&mut self, c: &Connection<'_>) {
        self.head_due = true;
        self.high_rxt = c.view.una;
        self.rescue = None;
        if let Some(probe) = &mut self.probe {
            probe.on_enter();
        }
    }
    fn on_timeout(&mut self, c: &Connection<'_>) -> u64 {
        // What was lost already and not sent again is not lost once more.
        let lost = if c.phase == Phase::FastRecovery {
            self.pipe(c)
        } else {
            c.flight().saturating_sub(unsacked(c, c.view.una, self.reported))
        };
        self.lost_below = 0;
        self.reported = 0;
        self.head_due = false;
        if let Some(probe) = &mut self.probe {
            probe.on_timeout();
        }
        lost
    }
    fn control(&self, c: &Connection<'_>) -> Control {
        let mut allowance = 0;
        if c.phase == Phase::Open && c.dup_acks > 0 && !c.cfg.limited_transmit {
            // RFC 6675 section 5 step 3 is limited transmit: what was SACKed makes room. Without it, not.
            allowance = -(c.sacked.covered(c.view.una, c.view.nxt) as i64);
        }
        let (due, deadline) =
            self.probe.as_ref().map_or((false, Time::NEVER), |p| (p.is_due(), p.deadline()));
        Control { allowance, urgent: self.head_due || due, deadline, ..Control::NONE }
    }
    fn urgent(&mut self, c: &Connection<'_>) -> Option<Outgoing> {
        if core::mem::take(&mut self.head_due) {
            let head = c.head(Why::Lost);
            self.high_rxt = self.high_rxt.max(head.end);
            return Some(head);
        }
        self.probe.as_mut()?.send(c)
    }
    fn choose(&self, c: &Connection<'_>) -> Choice {
        let pipe = self.pipe(c);
        if c.window < pipe + c.view.segment as u64 && pipe > 0 {
            return Choice::Wait(Limit::Window);
        }
        self.next_seg(c).map_or(Choice::Wait(Limit::Application), Choice::Send)
    }
    fn on_sent(&mut self, c: &Connection<'_>, sent: &Outgoing) {
        match sent.why {
            Why::Lost => self.high_rxt = sent.end,
            Why::Rescue => self.rescue = c.recover,
            Why::Next | Why::Probe | Why::Thread => {}
        }
    }
    fn rearm(&mut self, c: &Connection<'_>, _: Dur, _: &Since) -> Timers {
        let deadline = self.probe.as_mut().map_or(Time::NEVER, |probe| probe.arm(c, c.rto_at));
        Timers { deadline, rto_at: c.rto_at }
    }
    fn on_deadline(&mut self, c: &Connection<'_>) -> Outcome {
        let due = self.probe.as_mut().is_some_and(|p| p.on_deadline(c.now));
        Outcome { against_custom: due, probe: due, ..Outcome::NONE }
    }
}
