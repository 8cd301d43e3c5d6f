//! Fast recovery in which partial acknowledgements stay (RFC 6582).

use super::{Connection, Control, Outcome, Outgoing, Recovery, Reno, Why};
use crate::tcp::Phase;

/// NewReno's recovery.
#[derive(Clone, Debug, PartialEq)]
pub struct NewReno {
    reno: Reno,
    partial_acks: u32,
}

impl NewReno {
    /// As [`Reno::new`].
    pub fn new(always: bool) -> NewReno {
        NewReno { reno: Reno::new(always), partial_acks: 0 }
    }
}

impl Recovery for NewReno {
    fn is_duplicate(&self, new_sack: bool, window_changed: bool) -> bool {
        self.reno.is_duplicate(new_sack, window_changed)
    }
    fn on_duplicate(&mut self, c: &Connection<'_>) -> Outcome {
        self.reno.on_duplicate(c)
    }
    fn on_ack(&mut self, c: &Connection<'_>, acked: u64) -> Outcome {
        if c.phase != Phase::FastRecovery {
            return Outcome::NONE;
        }
        if c.is_full_ack() {
            return self.reno.leave();
        }
        // RFC 6582 section 3.2 step 3: retransmit the next hole; deflate by what was acknowledged, add one segment when
        // at least one was.
        self.partial_acks += 1;
        let segment = c.view.segment as u64;
        self.reno.inflation -= acked as i64;
        if acked >= segment {
            self.reno.inflation += segment as i64;
        }
        self.reno.head_due = true;
        let head = c.head(Why::Lost);
        Outcome {
            lost: head.end.min(c.view.app_end).saturating_sub(head.seq),
            // Impatient variant: only the first partial ACK restarts the timer.
            against_custom: self.partial_acks > 1,
            ..Outcome::NONE
        }
    }
    fn on_enter(&mut self, c: &Connection<'_>) {
        self.partial_acks = 0;
        self.reno.on_enter(c);
    }
    fn on_timeout(&mut self, c: &Connection<'_>) -> u64 {
        self.reno.on_timeout(c)
    }
    fn control(&self, c: &Connection<'_>) -> Control {
        self.reno.control(c)
    }
    fn urgent(&mut self, c: &Connection<'_>) -> Option<Outgoing> {
        self.reno.urgent(c)
    }
}
