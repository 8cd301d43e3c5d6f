//! The marks of segments in flight, as a kernel keeps them (TCPCB_LOST, TCPCB_SACKED_RETRANS): each sets and takes back one of the two by
//! its own rules, and what is in flight is counted by them. An undo takes back the mark "lost" of all segments and leaves
//! "sent again", so a retransmission that is under way counts twice in flight. RACK takes a segment that it marks out of its list
//! (`tsorted_sent_queue`) and looks at it again only when it has been sent again.

use crate::tcp::{Ranges, Segment};

/// Bytes by their marks.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks {
    /// Lost, and not sent again since.
    pub(super) lost: Ranges,
    /// Lost, and sent again.
    again: Ranges,
    /// Sent again, and the mark "lost" has been taken back; reported selectively or not.
    bare: Ranges,
    /// Marked by RACK since they were sent last.
    passed: Ranges,
    /// Sent again while the copy before still counted (a leak of retrans_out), until everything is acknowledged.
    leaked: u64,
}

impl Marks {
    pub(super) fn is_empty(&self) -> bool {
        [&self.lost, &self.again, &self.bare, &self.passed].iter().all(|marks| marks.is_empty())
    }
    /// Bytes of which a kernel counts two copies in flight, or one where none is (a retransmission that has been reported).
    pub(super) fn twice(&self) -> u64 {
        self.bare.total() + self.leaked
    }
    /// Bytes sent again of which a kernel knows neither ACK nor loss (retrans_out). Probes are none.
    pub(super) fn out(&self) -> u64 {
        self.again.total() + self.twice()
    }
    /// Everything below `una` is acknowledged.
    pub(super) fn acknowledged(&mut self, una: u64, max_sent: u64) {
        for marks in [&mut self.lost, &mut self.again, &mut self.bare, &mut self.passed] {
            if !marks.is_empty() {
                marks.remove_below(una);
            }
        }
        if una >= max_sent {
            self.leaked = 0;
        }
    }
    /// `[start, end)` is reported selectively. tcp_sacktag_one leaves "sent again" where it stands alone.
    pub(super) fn reported(&mut self, start: u64, end: u64) {
        for marks in [&mut self.lost, &mut self.again, &mut self.passed] {
            marks.remove(start, end);
        }
    }
    /// A D-SACK reports `[start, end)`.
    pub(super) fn reported_twice(&mut self, start: u64, end: u64) {
        self.bare.remove(start, end);
    }
    /// A retransmission of `[start, end)` leaves.
    pub(super) fn sent_again(&mut self, start: u64, end: u64) {
        if start >= end {
            return; // FIN alone is no data.
        }
        self.passed.remove(start, end);
        // tcp_retransmit_timer sends the first segment whatever its marks are.
        self.leaked += self.again.covered(start, end) + self.bare.covered(start, end);
        let mut at = start;
        while at < end {
            let lost = self.lost.containing(at);
            let upto = lost.map(|(_, to)| to).or(self.lost.next_start(at)).map_or(end, |to| to.min(end));
            if lost.is_some() {
                self.again.insert(at, upto);
            } else if self.again.covered(at, upto) == 0 {
                self.bare.insert(at, upto);
            }
            at = upto;
        }
        self.lost.remove(start, end);
    }
    /// A probe sends `[start, end)` again, which leaves its marks.
    pub(super) fn probed(&mut self, start: u64, end: u64) {
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
            self.again.insert(s.start, s.end);
            return s.end - s.start;
        }
        self.again.remove(s.start, s.end);
        self.lost.insert(s.start, s.end)
    }
    /// tcp_undo_cwnd_reduction: no segment is marked lost any more.
    pub(super) fn take_back(&mut self) {
        for (start, end) in self.again.iter() {
            self.bare.insert(start, end);
        }
        self.again.clear();
        self.lost.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_units::Time;

    fn segment(n: u64) -> Segment {
        Segment {
            start: n * 1000,
            end: (n + 1) * 1000,
            sent_at: Time::ZERO,
            order: 1,
            retransmitted: false,
            sacked: false,
        }
    }
    fn totals(m: &Marks) -> [u64; 3] {
        [m.lost.total(), m.out(), m.twice()].map(|bytes| bytes / 1000)
    }

    /// Lost, out again (retrans_out) and counted twice at each step of a segment's life.
    #[test]
    fn each_mark_goes_with_what_sets_and_ends_it() {
        let mut m = Marks::default();
        (1..4).for_each(|n| assert_eq!(m.by_rack(&segment(n)), 1000));
        assert_eq!(totals(&m), [3, 0, 0]);
        m.sent_again(1000, 3000);
        assert_eq!(totals(&m), [1, 2, 0]);
        // A retransmission is lost too: it may be sent once more.
        assert_eq!(m.by_rack(&segment(2)), 1000);
        assert_eq!(totals(&m), [2, 1, 0]);
        m.take_back();
        assert_eq!(totals(&m), [0, 1, 1]);
        // What was marked and not out has no mark left: a second undo does not find it among those sent again.
        m.take_back();
        assert_eq!(totals(&m), [0, 1, 1]);
        // Its SACK leaves "sent again" alone; a D-SACK ends it.
        m.reported(1000, 2000);
        assert_eq!(totals(&m), [0, 1, 1]);
        m.reported_twice(1000, 2000);
        assert_eq!(totals(&m), [0, 0, 0]);
    }
    /// The timer sends the first segment though its last copy still counts: that leaks until everything is acknowledged.
    #[test]
    fn a_copy_sent_over_another_counts_until_all_is_acknowledged() {
        let mut m = Marks::default();
        m.by_timeout(&segment(0));
        m.sent_again(0, 1000);
        m.take_back();
        m.by_timeout(&segment(0));
        m.sent_again(0, 1000);
        assert_eq!(totals(&m), [0, 2, 1]);
        m.acknowledged(1000, 2000);
        assert_eq!(totals(&m), [0, 1, 1]);
        m.acknowledged(2000, 2000);
        assert_eq!(totals(&m), [0, 0, 0]);
        assert!(m.is_empty());
    }
    /// RACK looks again at a segment that a retransmission or a probe has sent, at no other that it marked before an undo.
    #[test]
    fn rack_looks_again_at_what_a_probe_has_sent() {
        let mut m = Marks::default();
        (1..3).for_each(|n| assert_eq!(m.by_rack(&segment(n)), 1000));
        m.take_back();
        m.probed(2000, 3000);
        assert_eq!([1, 2].map(|n| m.is_settled(&segment(n))), [true, false]);
    }
}
