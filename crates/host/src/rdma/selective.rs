//! Selective repeat of a sending pair, as IRN has it (Mittal et al., Revisiting Network Support for RDMA, SIGCOMM 2018, section 3.1;
//! read from memory).
//!
//! The receiver keeps what comes out of order and says so for every such packet: a NACK carries the next byte expected and the packet that caused
//! it. The first NACK, or a timeout, begins a recovery that ends when what had been sent by then is acknowledged. In it the packet at the
//! cumulative acknowledgement is lost, and so is every other below one that was selectively acknowledged; each is sent again once. When
//! none is left, new packets follow as far as the window allows. Not told apart from the paper: how bitmaps are kept.

use penstock_core::tcp::Ranges;

/// What a sender knows beyond the cumulative acknowledgement.
#[derive(Default)]
pub(super) struct Selective {
    sacked: Ranges,
    /// One past the last byte sent when the recovery began; `None` = there is none.
    until: Option<u64>,
    /// Everything below was looked at in this recovery.
    looked: u64,
}

impl Selective {
    /// Everything below `una` is acknowledged.
    pub fn acked(&mut self, una: u64) {
        self.sacked.remove_below(una);
        if self.until.is_some_and(|until| una >= until) {
            self.until = None;
        }
    }
    /// A NACK tells of a packet; true when it begins a recovery.
    pub fn nacked(&mut self, una: u64, nxt: u64, packet: (u64, u64)) -> bool {
        if packet.1 > packet.0.max(una) {
            self.sacked.insert(packet.0.max(una), packet.1);
        }
        let begins = self.until.is_none() && nxt > una;
        if begins {
            (self.until, self.looked) = (Some(nxt), una);
        }
        begins
    }
    /// A timeout: what is not known to have arrived is looked at again.
    pub fn timed_out(&mut self, una: u64, nxt: u64) {
        (self.until, self.looked) = (Some(nxt), una);
    }
    /// Where the next lost packet begins, and the end of its gap.
    pub fn next_lost(&self, una: u64) -> Option<(u64, u64)> {
        let until = self.until?;
        let seq = self.sacked.first_gap(self.looked.max(una));
        let end = self.sacked.next_start(seq);
        // Nothing above the highest that has arrived is known to be lost, but for the packet at the acknowledgement.
        if seq >= until || end.is_none() && seq != una {
            return None;
        }
        Some((seq, end.unwrap_or(until).min(until)))
    }
    /// A lost packet is sent again.
    pub fn repeated(&mut self, end: u64) {
        self.looked = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The gap of the next lost packet; it is sent again as a whole.
    fn next(s: &mut Selective, una: u64) -> Option<(u64, u64)> {
        let found = s.next_lost(una);
        found.inspect(|(_, end)| s.repeated(*end))
    }

    #[test]
    fn what_lies_below_a_packet_that_arrived_is_lost_once() {
        let mut s = Selective::default();
        assert_eq!(s.next_lost(0), None);
        // Ten packets of 10 bytes; 0, 3 and 4 are lost.
        assert!(s.nacked(0, 100, (10, 20)));
        assert_eq!(next(&mut s, 0), Some((0, 10)));
        assert_eq!(next(&mut s, 0), None, "of what follows 20 nothing is known");
        assert!(!s.nacked(0, 100, (20, 30)) && !s.nacked(0, 100, (50, 60)));
        assert_eq!(next(&mut s, 0), Some((30, 50)));
        assert_eq!(next(&mut s, 0), None);
        // The repetition of 0 arrived: the cumulative acknowledgement stops at 30, which was sent again already.
        s.acked(30);
        assert_eq!(next(&mut s, 30), None);
        s.acked(100);
        assert_eq!(s.next_lost(100), None);
        assert!(s.nacked(100, 200, (120, 130)), "the next loss begins a recovery of its own");
    }
    #[test]
    fn after_a_timeout_the_packet_at_the_acknowledgement_is_lost_whatever_is_known() {
        let mut s = Selective::default();
        s.timed_out(40, 100);
        assert_eq!(next(&mut s, 40), Some((40, 100)));
        let mut s = Selective::default();
        s.nacked(0, 100, (50, 60));
        assert_eq!(next(&mut s, 0), Some((0, 50)));
        assert_eq!(next(&mut s, 0), None);
        // The repetitions are lost too: looked at again, and nothing else.
        s.timed_out(0, 100);
        assert_eq!((next(&mut s, 0), next(&mut s, 0)), (Some((0, 50)), None));
    }
    #[test]
    fn a_repetition_stops_at_the_next_packet_that_has_arrived() {
        let mut s = Selective::default();
        s.nacked(0, 100, (10, 20));
        s.nacked(0, 100, (30, 40));
        assert_eq!(
            (next(&mut s, 0), next(&mut s, 0), next(&mut s, 0)),
            (Some((0, 10)), Some((20, 30)), None)
        );
    }
}
