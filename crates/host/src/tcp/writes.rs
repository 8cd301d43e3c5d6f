//! Ends of writes that are to be told of, in order. Most connections have one at a time: it is kept in place, and costs no memory of its own.

use alloc::collections::VecDeque;

/// Ends of writes, from the lowest on.
#[derive(Default)]
pub(super) struct WriteEnds {
    first: Option<u64>,
    more: VecDeque<u64>,
}

impl WriteEnds {
    /// One more, not below the others.
    pub(super) fn push(&mut self, end: u64) {
        match self.first {
            None => self.first = Some(end),
            Some(_) => self.more.push_back(end),
        }
    }
    /// One more, unless it is there.
    pub(super) fn insert(&mut self, end: u64) {
        match self.first {
            None => self.first = Some(end),
            Some(first) if end < first => {
                self.more.push_front(first);
                self.first = Some(end);
            }
            Some(first) => {
                let place = self.more.partition_point(|known| *known < end);
                if end > first && self.more.get(place) != Some(&end) {
                    self.more.insert(place, end);
                }
            }
        }
    }
    /// Bytes from `from` to the last one above that and up to `to`; 0 = there is none.
    #[inline]
    pub(super) fn mark(&self, from: u64, to: u64) -> u32 {
        match self.first {
            Some(first) if first <= to => self.mark_among(first, from, to),
            _ => 0,
        }
    }
    #[inline(never)]
    fn mark_among(&self, first: u64, from: u64, to: u64) -> u32 {
        let beyond = self.more.partition_point(|end| *end <= to);
        let last = beyond.checked_sub(1).map_or(first, |place| self.more[place]);
        last.saturating_sub(from) as u32
    }
    /// Takes out the lowest, where it is reached.
    #[inline]
    pub(super) fn reached(&mut self, upto: u64) -> Option<u64> {
        let end = self.first.filter(|end| *end <= upto)?;
        self.first = self.more.pop_front();
        Some(end)
    }
    /// None is left.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
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
        assert_eq!([45, 50, 55, 60].map(|upto| ends.reached(upto)), [40, 50, 55, 60].map(Some));
        ends.push(40);
        assert_eq!((ends.reached(40), ends.is_empty()), (Some(40), true));
    }
}
