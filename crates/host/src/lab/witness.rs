//! An account of its own of what reached a receiver: a byte is delivered once, and not before it arrived. The payload is not simulated: a
//! byte is its number.

use alloc::collections::BTreeMap;

/// What the application of one connection may have been handed.
#[derive(Clone, Debug, Default)]
pub struct Witness {
    /// Every byte below this has arrived.
    prefix: u64,
    /// Start and end of what arrived beyond it, apart from each other.
    beyond: BTreeMap<u64, u64>,
    /// Bytes beyond it.
    early: u64,
    /// Bytes handed to the application at the last look.
    handed: u64,
}

impl Witness {
    /// Bytes `start..end` reach the receiver; `written` bytes have been given to the sender so far.
    pub fn arrive(&mut self, start: u64, end: u64, written: u64) {
        assert!(start < end && end <= written, "bytes {start}..{end} arrived, {written} were written");
        let (mut start, mut end) = (start.max(self.prefix), end.max(self.prefix));
        while let Some((from, to)) = self.beyond.range(..=end).next_back().map(|(from, to)| (*from, *to)) {
            if to < start {
                break;
            }
            self.beyond.remove(&from);
            self.early -= to - from;
            (start, end) = (start.min(from), end.max(to));
        }
        if start <= self.prefix {
            self.prefix = end;
        } else {
            self.beyond.insert(start, end);
            self.early += end - start;
        }
    }
    /// The receiver has handed `delivered` bytes to the application so far.
    pub fn check(&mut self, flow: u32, delivered: u64, in_order: bool) {
        let most = self.prefix + if in_order { 0 } else { self.early };
        assert!(
            delivered <= most,
            "flow {flow}: {delivered} bytes are with the application, {most} have arrived"
        );
        assert!(
            delivered >= self.handed,
            "flow {flow}: {delivered} bytes are with the application, {} had been",
            self.handed
        );
        self.handed = delivered;
    }
    /// The receiver says that everything up to `end` is delivered.
    pub fn complete(&self, flow: u32, end: u64) {
        assert!(self.prefix >= end, "flow {flow}: delivered up to {end}, arrived up to {}", self.prefix);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(arrivals: &[(u64, u64)]) -> Witness {
        let mut witness = Witness::default();
        arrivals.iter().for_each(|(start, end)| witness.arrive(*start, *end, 1000));
        witness
    }

    #[test]
    fn gaps_overlaps_and_repetitions() {
        for (arrivals, prefix, early) in [
            (&[(0, 10), (10, 20)][..], 20, 0),
            (&[(10, 20)], 0, 10),
            (&[(10, 20), (20, 25), (0, 10)], 25, 0),
            (&[(0, 10), (0, 10), (5, 15)], 15, 0),
            (&[(10, 15), (10, 30), (0, 12)], 30, 0),
            (&[(10, 30), (10, 15), (40, 45), (0, 10)], 30, 5),
            (&[(10, 20), (30, 40), (15, 35), (50, 60)], 0, 40),
        ] {
            let witness = after(arrivals);
            assert_eq!((witness.prefix, witness.early), (prefix, early), "{arrivals:?}");
        }
    }
    #[test]
    #[should_panic(expected = "25 bytes are with the application, 20")]
    fn a_byte_that_did_not_arrive() {
        after(&[(0, 20), (30, 35)]).check(0, 25, true);
    }
    #[test]
    #[should_panic(expected = "26 bytes are with the application, 25")]
    fn a_byte_handed_twice_out_of_order() {
        after(&[(0, 20), (30, 35)]).check(0, 26, false);
    }
    #[test]
    #[should_panic(expected = "delivered up to 30, arrived up to 20")]
    fn a_gap_called_complete() {
        after(&[(0, 20), (25, 30)]).complete(0, 30);
    }
    #[test]
    #[should_panic(expected = "bytes 990..1010 arrived, 1000 were written")]
    fn a_byte_never_written() {
        after(&[(990, 1010)]);
    }
}
