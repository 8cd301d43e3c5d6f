//! RACK (RFC 8985 section 6): a segment is lost when one that was sent sufficiently later has been delivered.
//!
//! Names are the RFC's: `newest` is (RACK.xmit_ts, RACK.end_seq), `rtt` RACK.rtt, `fack` RACK.fack, `window`
//! RACK.reo_wnd. Of two segments sent at one instant, the RFC takes the one with the higher number as the later. Here
//! the order of transmission decides, because in virtual time a retransmission often shares its instant with new data
//! sent before it.

use super::super::Connection;
use super::marks::Marks;
use crate::tcp::recovery::probe::TIMEOUT_MIN;
use crate::tcp::segments::Delivered;
use crate::tcp::{Phase, Segment, SegmentLog};
use penstock_units::{Dur, Time};

/// Recoveries without a D-SACK after which the reordering window is small again (RFC 8985 section 6.2 step 4).
const PERSIST: u32 = 16;

/// What RACK knows of a connection.
#[derive(Clone, Debug)]
pub(super) struct Rack {
    newest: (Time, u32),
    rtt: Dur,
    fack: u64,
    reordering_seen: bool,
    /// RACK.dsack_round: what was sent when the latest D-SACK that counted came.
    dsack_round: Option<u64>,
    /// RACK.reo_wnd_mult, RACK.reo_wnd_persist.
    multiplier: u64,
    persist: u32,
    window: Dur,
    /// Of the segments below this, none that was sent once is under way by what is known: all have arrived or are taken for lost.
    settled: u64,
    /// When the reordering timer runs out, and whether this ACK has set it.
    pub(super) at: Time,
    pub(super) waits_anew: bool,
}

impl Rack {
    pub(super) fn new() -> Rack {
        Rack {
            newest: (Time::ZERO, 0),
            rtt: Dur::ZERO,
            fack: 0,
            reordering_seen: false,
            dsack_round: None,
            multiplier: 1,
            persist: PERSIST,
            window: Dur::ZERO,
            settled: 0,
            at: Time::NEVER,
            waits_anew: false,
        }
    }
    /// Section 6.2 steps 2 and 3: what an ACK has delivered.
    pub(super) fn update(&mut self, now: Time, got: &Delivered) {
        // Step 2. What may be the ACK of an earlier copy has been left out by the log. RACK.rtt is that of the segment sent last by the RFC; Linux
        // (tcp_rack_advance, from memory; a script shows it) takes it anew from each that it counts. So where an ACK reports a segment of the present round trip
        // and acknowledges the last of the one before, what left with that is not late yet.
        if got.newest.1 != 0 {
            self.rtt = now.since(got.latest);
            self.newest = self.newest.max(got.newest);
        }
        // Step 3: a segment sent once arrives behind one that was sent after it.
        if got.lowest_original < self.fack {
            self.reordering_seen = true;
        }
        self.fack = self.fack.max(got.highest);
    }
    /// Section 6.2 step 4: the reordering window. `dsack`: this ACK reports what came twice, and not because of a probe;
    /// `leaving`: it ends a recovery.
    pub(super) fn adapt(&mut self, c: &Connection<'_>, dsack: bool, leaving: bool) {
        if self.dsack_round.is_some_and(|end| c.view.una >= end) {
            self.dsack_round = None;
        }
        if dsack && self.dsack_round.is_none() {
            self.dsack_round = Some(c.view.nxt);
            self.multiplier += 1;
            self.persist = PERSIST;
        } else if leaving {
            self.persist = self.persist.saturating_sub(1);
            if self.persist == 0 {
                self.multiplier = 1;
            }
        }
        self.window = self.reordering_window(c);
    }
    fn reordering_window(&self, c: &Connection<'_>) -> Dur {
        let v = c.view;
        if !self.reordering_seen && (c.phase != Phase::Open || is_reported(c)) {
            return Dur::ZERO;
        }
        if c.rtt_min == Dur::MAX {
            return Dur::ZERO;
        }
        // reo_wnd = min(RACK.reo_wnd_mult * RACK.min_RTT / 4, SRTT)
        (c.rtt_min * self.multiplier / 4).min(v.rtt_smoothed)
    }
    /// Section 6.2 step 5: marks what is lost by now, answers with its bytes, and sets the timer for the rest.
    #[inline]
    pub(super) fn detect(&mut self, c: &Connection<'_>, marks: &mut Marks) -> u64 {
        let Some(log) = c.segments else { return 0 };
        if log.is_later(self.newest) {
            return 0;
        }
        self.look(c, log, marks)
    }
    /// Segments are sorted by number, and those sent once thereby by time. A walk over these begins at the first
    /// undecided segment, and ends at the first that is not older than the newest that has arrived. Segments sent again
    /// are in their own list.
    fn look(&mut self, c: &Connection<'_>, log: &SegmentLog, marks: &mut Marks) -> u64 {
        let (newest, patience) = (self.newest, self.rtt + self.window);
        let mut last = None;
        let mut bytes = 0;
        let mut settled = true;
        for s in log.iter_from(self.settled) {
            if !s.sacked && !s.retransmitted {
                if newest <= (s.sent_at, s.order) {
                    break;
                }
                settled &= is_lost(c.now, s, patience, marks, &mut bytes, &mut last);
            }
            if settled {
                self.settled = s.end;
            }
        }
        for s in log.sent_again_before(newest) {
            is_lost(c.now, s, patience, marks, &mut bytes, &mut last);
        }
        if let Some(due) = last {
            // tcp_rack_mark_lost: "timeout + TCP_TIMEOUT_MIN_US"
            self.at = c.timer(due.since(c.now) + TIMEOUT_MIN);
            self.waits_anew = true;
        }
        bytes
    }
    /// The connection is open again: the reordering window of that state counts.
    pub(super) fn look_anew(&mut self, c: &Connection<'_>) {
        self.window = self.reordering_window(c);
    }
    /// What was taken for lost is so no more, or what had been reported has been given up: everything is open again.
    pub(super) fn reopen(&mut self) {
        self.settled = 0;
    }
    /// Section 6.3: at a retransmission timeout the first segment is lost, and all that have been out for long enough.
    pub(super) fn on_timeout(&mut self, c: &Connection<'_>, marks: &mut Marks) -> u64 {
        self.reopen();
        (self.at, self.waits_anew) = (Time::NEVER, false);
        let mut bytes = 0;
        for s in c.segments.into_iter().flat_map(|log| log.iter()) {
            // tcp_timeout_mark_lost, tcp_rack_skb_timeout: RACK.rtt without the reordering window
            let waited = s.start == c.view.una || s.sent_at + self.rtt <= c.now;
            if !s.sacked && waited && marks.lost.containing(s.start).is_none() {
                bytes += marks.by_timeout(s);
            }
        }
        bytes
    }
}

/// RACK.segs_sacked >= DupThresh: short segments count as whole ones.
fn is_reported(c: &Connection<'_>) -> bool {
    let enough = c.cfg.dup_thresh as usize;
    let sacked = |log: &SegmentLog| log.iter().filter(|s| s.sacked).take(enough).count();
    !c.sacked.is_empty() && c.segments.is_some_and(|log| sacked(log) >= enough)
}

/// Decides whether `s`, older than the newest segment that has arrived, is lost. If so, marks it and adds its bytes
/// to `bytes`; otherwise sets `last` to the time at which it will be. The RFC waits for the last of them and then marks
/// all.
fn is_lost(
    now: Time,
    s: &Segment,
    patience: Dur,
    marks: &mut Marks,
    bytes: &mut u64,
    last: &mut Option<Time>,
) -> bool {
    if marks.is_settled(s) {
        return true;
    }
    let due = s.sent_at + patience;
    if due > now {
        *last = (*last).max(Some(due));
        return false;
    }
    *bytes += marks.by_rack(s);
    true
}
