//! Proportional rate reduction (RFC 6937; its successor RFC 9937, "6937bis"): how much leaves for every ACK while the window
//! is being reduced.
//!
//! Two things are as in Linux (`tcp_cwnd_reduction`, from memory). "prior" is the window before the reduction, where
//! the RFC has RecoverFS, the data in flight; they are equal if the window was full. A segment leaves as soon as a byte
//! of it may, which is the RFC's rounding up in Linux's unit.

/// PRR's variables, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Prr {
    /// A reduction is under way.
    pub(super) on: bool,
    prior: u64,
    ssthresh: u64,
    delivered: u64,
    out: u64,
    /// What may be in flight until the next ACK.
    window: u64,
}

/// What an ACK says to PRR.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// In flight by RFC 6675, with this ACK.
    pub(super) pipe: u64,
    /// DeliveredData: newly acknowledged or SACKed.
    pub(super) delivered: u64,
    /// It acknowledges new data and shows no further loss (SafeACK).
    pub(super) safe: bool,
    /// A full segment.
    pub(super) segment: u64,
}

impl Prr {
    /// A reduction from `prior` to `ssthresh` begins.
    pub(super) fn start(&mut self, prior: u64, ssthresh: u64) {
        *self = Prr { on: true, prior: prior.max(1), ssthresh, ..Prr::default() };
    }
    pub(super) fn stop(&mut self) {
        self.on = false;
    }
    /// An ACK arrives.
    pub(super) fn step(&mut self, s: &Step) {
        if s.delivered == 0 && self.window != 0 {
            return;
        }
        self.delivered += s.delivered;
        let sent = if s.pipe > self.ssthresh {
            // RFC 9937 section 6.2: sndcnt = CEIL(prr_delivered * ssthresh / RecoverFS) - prr_out
            let share =
                (u128::from(self.delivered) * u128::from(self.ssthresh)).div_ceil(u128::from(self.prior));
            (share as u64).saturating_sub(self.out)
        } else {
            // sndcnt = MAX(prr_delivered - prr_out, DeliveredData), a segment more for a safe ACK: slow start (PRR-SSRB);
            // without one, packet conservation (PRR-CRB).
            let conserved = self.delivered.saturating_sub(self.out).max(s.delivered);
            let bound = conserved + if s.safe { s.segment } else { 0 };
            bound.min(self.ssthresh - s.pipe)
        };
        // "Force a fast retransmit upon entering recovery"
        let least = if self.out == 0 { s.segment } else { 0 };
        self.window = s.pipe + sent.max(least);
    }
    /// `bytes` leave.
    pub(super) fn on_sent(&mut self, bytes: u64) {
        self.out += bytes;
    }
    /// Whether something may leave when `pipe` is in flight.
    pub(super) fn has_room(&self, pipe: u64) -> bool {
        pipe < self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1000;

    /// RFC 6937 section 4's first example: a window of 20 is halved after one loss. While the pipe is above ssthresh one segment
    /// leaves for every second one delivered: 1 retransmission and 9 new segments for 19 ACKs.
    #[test]
    fn rfc9937_6_2_while_the_pipe_is_above_ssthresh_it_shrinks_in_proportion() {
        let mut p = Prr::default();
        p.start(20 * S, 10 * S);
        let (mut pipe, mut sent) = (19 * S, vec::Vec::new());
        for _ in 0..19 {
            pipe -= S; // Delivered.
            p.step(&Step { pipe, delivered: S, safe: false, segment: S });
            let mut n = 0;
            while p.has_room(pipe) {
                p.on_sent(S);
                pipe += S;
                n += 1;
            }
            sent.push(n);
        }
        // The 17th ACK finds the pipe at ssthresh: the bound of the other branch, 0, counts until it is below.
        assert_eq!(sent, [1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1]);
        assert_eq!(pipe, 10 * S);
    }
    /// Section 6.2: below ssthresh a safe ACK lets one segment more out than was delivered, up to ssthresh; another conserves.
    #[test]
    fn rfc9937_6_2_below_ssthresh_a_safe_ack_grows_by_a_segment() {
        for (safe, expected) in [(true, 3), (false, 2)] {
            let mut p = Prr::default();
            p.start(20 * S, 10 * S);
            p.on_sent(S);
            p.step(&Step { pipe: 2 * S, delivered: 2 * S, safe, segment: S });
            assert_eq!((p.window - 2 * S) / S, expected);
        }
        let mut p = Prr::default();
        p.start(20 * S, 10 * S);
        p.step(&Step { pipe: 9 * S, delivered: 8 * S, safe: true, segment: S });
        assert_eq!(p.window, 10 * S);
    }
    use alloc::vec;
}
