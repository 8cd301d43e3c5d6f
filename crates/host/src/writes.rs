//! Ends of writes in a stream of bytes, in order. An end that is reached is reported to the application.

use alloc::collections::VecDeque;

/// Ends of writes, from the lowest on. The first has a place of its own: every packet looks at it, and most connections
/// have no other.
#[derive(Clone, Debug)]
pub(crate) struct WriteEnds {
    /// `u64::MAX` = none.
    first: u64,
    later: VecDeque<u64>,
}

impl Default for WriteEnds {
    fn default() -> WriteEnds {
        WriteEnds { first: u64::MAX, later: VecDeque::new() }
    }
}

impl WriteEnds {
    /// Adds an end that is not below the others.
    pub fn push(&mut self, end: u64) {
        if self.first == u64::MAX {
            self.first = end;
        } else {
            self.later.push_back(end);
        }
    }
    /// Adds an end, unless it is there.
    pub fn insert(&mut self, end: u64) {
        if end < self.first {
            let first = core::mem::replace(&mut self.first, end);
            if first != u64::MAX {
                self.later.push_front(first);
            }
            return;
        }
        let place = self.later.partition_point(|known| *known < end);
        if end > self.first && self.later.get(place) != Some(&end) {
            self.later.insert(place, end);
        }
    }
    /// Takes the first end out if it is at `upto` or below.
    #[inline]
    pub fn reached(&mut self, upto: u64) -> Option<u64> {
        let end = self.first;
        if end > upto || end == u64::MAX {
            return None;
        }
        self.first = self.later.pop_front().unwrap_or(u64::MAX);
        Some(end)
    }
    /// Bytes from `from` to the last end above `from` and up to `to`; 0 = there is none. A packet with these bytes
    /// carries it ([`penstock_core::Packet::write_end`]).
    #[inline]
    pub fn mark(&self, from: u64, to: u64) -> u32 {
        if self.first <= to {
            self.mark_among(from, to)
        } else {
            0
        }
    }
    #[inline(never)]
    fn mark_among(&self, from: u64, to: u64) -> u32 {
        let beyond = self.later.partition_point(|end| *end <= to);
        let last = beyond.checked_sub(1).map_or(self.first, |place| self.later[place]);
        last.saturating_sub(from) as u32
    }
    /// Drops all ends above `upto`.
    pub fn drop_beyond(&mut self, upto: u64) {
        self.later.retain(|end| *end <= upto);
        if self.first > upto {
            self.first = self.later.pop_front().unwrap_or(u64::MAX);
        }
    }
    /// There are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first == u64::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_come_in_order_each_when_it_is_reached() {
        let mut ends = WriteEnds::default();
        [10, 20, 20, 35].into_iter().for_each(|end| ends.push(end));
        assert_eq!((ends.reached(9), ends.reached(10), ends.reached(10)), (None, Some(10), None));
        assert_eq!((ends.reached(30), ends.reached(30), ends.reached(30)), (Some(20), Some(20), None));
        assert!(!ends.is_empty());
        assert_eq!((ends.reached(99), ends.reached(99), ends.is_empty()), (Some(35), None, true));
        [50, 40, 60, 50, 55, 40].into_iter().for_each(|end| ends.insert(end));
        assert_eq!(
            (ends.mark(30, 39), ends.mark(30, 54), ends.mark(30, 55), ends.mark(30, 90)),
            (0, 20, 25, 30)
        );
        assert_eq!(ends.mark(45, 49), 0);
        ends.drop_beyond(55);
        assert_eq!(ends.mark(30, 90), 25);
        assert_eq!([45, 50, 55, 60].map(|upto| ends.reached(upto)), [Some(40), Some(50), Some(55), None]);
        ends.push(40);
        ends.drop_beyond(39);
        assert!(ends.is_empty());
    }
}
