//! Fast retransmit and fast recovery that ends at the first new acknowledgement (RFC 5681 section 3.2), with limited
//! transmit (RFC 3042).

use super::{Act, Connection, Control, Outcome, Outgoing, Recovery, Why};
use crate::tcp::Phase;

/// Reno's recovery.
#[derive(Clone, Debug, PartialEq)]
pub struct Reno {
    /// Window inflation in bytes; partial ACKs of NewReno may take it below 0.
    pub(super) inflation: i64,
    /// The oldest segment is to be retransmitted now.
    pub(super) head_due: bool,
    always: bool,
}

impl Reno {
    /// `always`: a third duplicate counts though it may speak of a window that was repaired already.
    pub fn new(always: bool) -> Reno {
        Reno { inflation: 0, head_due: false, always }
    }
    /// Fast recovery is over.
    pub(super) fn leave(&mut self) -> Outcome {
        self.inflation = 0;
        self.head_due = false;
        Outcome { act: Act::Leave, ..Outcome::NONE }
    }
}

impl Recovery for Reno {
    /// RFC 5681 section 2: no data, no window change.
    fn is_duplicate(&self, _: bool, window_changed: bool) -> bool {
        !window_changed
    }
    fn on_duplicate(&mut self, c: &Connection<'_>) -> Outcome {
        if c.phase == Phase::FastRecovery {
            // RFC 5681 section 3.2 step 4: each further duplicate means a segment has left the network.
            self.inflation += i64::from(c.view.segment);
            return Outcome::NONE;
        }
        // RFC 6582 section 3.2 step 2: not again for the same window.
        let covered = self.always || c.recover.is_none_or(|r| c.view.una > r);
        if c.dup_acks < c.cfg.dup_thresh || !covered {
            return Outcome::NONE;
        }
        let head = c.head(Why::Lost);
        Outcome {
            act: Act::Enter,
            lost: head.end.min(c.view.app_end).saturating_sub(head.seq),
            ..Outcome::NONE
        }
    }
    fn on_ack(&mut self, c: &Connection<'_>, _: u64) -> Outcome {
        match c.phase {
            Phase::FastRecovery => self.leave(),
            _ => Outcome::NONE,
        }
    }
    fn on_enter(&mut self, c: &Connection<'_>) {
        self.head_due = true;
        // RFC 5681 section 3.2 step 3: the segments that caused the duplicates have left the network.
        self.inflation = i64::from(c.cfg.dup_thresh) * i64::from(c.view.segment);
    }
    fn on_timeout(&mut self, c: &Connection<'_>) -> u64 {
        self.inflation = 0;
        self.head_due = false;
        c.flight()
    }
    fn control(&self, c: &Connection<'_>) -> Control {
        let mut allowance = self.inflation;
        if c.phase == Phase::Open && c.dup_acks > 0 && c.cfg.limited_transmit {
            // RFC 3042: one new segment for each of the first two duplicate ACKs.
            allowance += i64::from(c.dup_acks.min(2)) * i64::from(c.view.segment);
        }
        Control { allowance, urgent: self.head_due, ..Control::NONE }
    }
    fn urgent(&mut self, c: &Connection<'_>) -> Option<Outgoing> {
        core::mem::take(&mut self.head_due).then(|| c.head(Why::Lost))
    }
}
