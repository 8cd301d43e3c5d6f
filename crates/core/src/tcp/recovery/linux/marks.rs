//! The marks of segments in flight (TCPCB_LOST, TCPCB_SACKED_RETRANS), where a kernel's bookkeeping differs from what is
//! known of the segments. An undo takes back the mark "lost" of all segments and leaves "sent again", so a
//! retransmission that is under way counts twice in flight. RACK takes a segment that it marks out of its list
//! (`tsorted_sent_queue`) and looks at it again only when it has been sent again.

use crate::tcp::{Ranges, Segment, SegmentLog};
use penstock_units::Time;

/// Bytes by their marks.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks {
    /// Lost, and not sent again since.
    pub(super) lost: Ranges,
    /// Sent again, and the mark "lost" has been taken back.
    bare: Ranges,
    /// Marked by RACK since they were sent last.
    passed: Ranges,
    /// Sent again while the copy before still counted (a leak of retrans_out), until everything is acknowledged.
    leaked: u64,
}

impl Marks {
    pub(super) fn is_empty(&self) -> bool {
        self.lost.is_empty() && self.bare.is_empty() && self.passed.is_empty()
    }
    /// Bytes of which a kernel counts two copies in flight.
    pub(super) fn twice(&self) -> u64 {
        self.bare.total() + self.leaked
    }
    /// Everything below `una` is acknowledged.
    pub(super) fn acknowledged(&mut self, una: u64, max_sent: u64) {
        for marks in [&mut self.lost, &mut self.bare, &mut self.passed] {
            if !marks.is_empty() {
                marks.remove_below(una);
            }
        }
        if una >= max_sent {
            self.leaked = 0;
        }
    }
    /// `[start, end)` is reported selectively.
    pub(super) fn reported(&mut self, start: u64, end: u64) {
        for marks in [&mut self.lost, &mut self.bare, &mut self.passed] {
            marks.remove(start, end);
        }
    }
    /// A copy of `[start, end)` leaves.
    pub(super) fn sent_again(&mut self, start: u64, end: u64) {
        if self.lost.containing(start).is_none() {
            // tcp_retransmit_timer sends the first segment whatever its marks are.
            self.leaked += end - start;
        }
        self.lost.remove(start, end);
        self.passed.remove(start, end);
    }
    /// RACK has decided that `s` is lost, or does not look at it any more.
    pub(super) fn is_settled(&self, s: &Segment) -> bool {
        self.lost.containing(s.start).is_some() || self.passed.containing(s.start).is_some()
    }
    /// tcp_rack_detect_loss marks `s`; the bytes marked.
    pub(super) fn by_rack(&mut self, s: &Segment) -> u64 {
        self.passed.insert(s.start, s.end);
        self.by_timeout(s)
    }
    /// tcp_mark_skb_lost: a retransmission that is marked a second time may be sent again, one whose mark was taken back
    /// may not.
    pub(super) fn by_timeout(&mut self, s: &Segment) -> u64 {
        if self.bare.containing(s.start).is_some() {
            self.bare.remove(s.start, s.end);
            return s.end - s.start;
        }
        self.lost.insert(s.start, s.end)
    }
    /// tcp_undo_cwnd_reduction: no segment is marked lost any more.
    pub(super) fn take_back(&mut self, log: Option<&SegmentLog>) {
        for s in log.into_iter().flat_map(|log| log.sent_again_before((Time::NEVER, u32::MAX))) {
            if self.lost.containing(s.start).is_none() {
                self.bare.insert(s.start, s.end);
            }
        }
        self.lost.clear();
    }
}
