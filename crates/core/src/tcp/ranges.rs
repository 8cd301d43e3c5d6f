//! Sorted, disjoint byte ranges: the SACK scoreboard and the receiver's reassembly queue.

use alloc::vec::Vec;

/// Sorted, disjoint, non-touching ranges `[start, end)` of sequence numbers.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    v: Vec<(u64, u64)>,
    total: u64,
}

impl Ranges {
    /// True when there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.v.is_empty()
    }
    /// Number of disjoint ranges.
    pub fn len(&self) -> usize {
        self.v.len()
    }
    /// Removes all.
    pub fn clear(&mut self) {
        self.v.clear();
        self.total = 0;
    }
    /// In ascending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + '_ {
        self.v.iter().copied()
    }
    /// Those that have something of `[from, to)`, in ascending order.
    pub fn iter_in(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let first = self.v.partition_point(|r| r.1 <= from);
        self.v[first..].iter().copied().take_while(move |r| r.0 < to)
    }
    /// One past the highest byte, `None` when empty.
    pub fn highest(&self) -> Option<u64> {
        self.v.last().map(|r| r.1)
    }
    /// Bytes covered in all.
    pub fn total(&self) -> u64 {
        self.total
    }
    /// Adds `[start, end)`; how many bytes of it were not covered.
    pub fn insert(&mut self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        // The first range that touches or lies beyond the new one.
        let i = self.v.partition_point(|r| r.1 < start);
        let mut j = i;
        let mut covered = 0;
        let (mut lo, mut hi) = (start, end);
        while j < self.v.len() && self.v[j].0 <= end {
            if self.v[j].0 <= start && self.v[j].1 >= end {
                return 0;
            }
            covered += self.v[j].1.min(end) - self.v[j].0.max(start);
            lo = lo.min(self.v[j].0);
            hi = hi.max(self.v[j].1);
            j += 1;
        }
        if i == j {
            self.v.insert(i, (start, end));
        } else {
            self.v[i] = (lo, hi);
            self.v.drain(i + 1..j);
        }
        let news = end - start - covered;
        self.total += news;
        news
    }
    /// Removes everything below `seq`.
    pub fn remove_below(&mut self, seq: u64) {
        let gone = self.v.partition_point(|r| r.1 <= seq);
        self.total -= self.v.drain(..gone).map(|r| r.1 - r.0).sum::<u64>();
        if let Some(first) = self.v.first_mut() {
            self.total -= seq.saturating_sub(first.0);
            first.0 = first.0.max(seq);
        }
    }
    /// Removes `[start, end)`.
    pub fn remove(&mut self, start: u64, end: u64) {
        let i = self.v.partition_point(|r| r.1 <= start);
        let j = self.v.partition_point(|r| r.0 < end);
        if start >= end || i >= j {
            return;
        }
        let (first, last) = (self.v[i], self.v[j - 1]);
        self.total -= self.v[i..j].iter().map(|r| r.1.min(end) - r.0.max(start)).sum::<u64>();
        let kept = [(first.0, start.min(first.1)), (end.max(last.0), last.1)];
        self.v.splice(i..j, kept.into_iter().filter(|r| r.0 < r.1));
    }
    /// The range that contains `seq`.
    pub fn containing(&self, seq: u64) -> Option<(u64, u64)> {
        let i = self.v.partition_point(|r| r.1 <= seq);
        self.v.get(i).copied().filter(|r| r.0 <= seq)
    }
    /// The first byte at or above `seq` that is not covered.
    pub fn first_gap(&self, seq: u64) -> u64 {
        self.containing(seq).map_or(seq, |r| r.1)
    }
    /// The start of the first range above `seq`.
    pub fn next_start(&self, seq: u64) -> Option<u64> {
        let i = self.v.partition_point(|r| r.0 <= seq);
        self.v.get(i).map(|r| r.0)
    }
    /// What of `[from, to)` is not covered, in ascending order.
    pub fn gaps(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut at = from;
        core::iter::from_fn(move || {
            let start = self.first_gap(at);
            let end = self.next_start(start).unwrap_or(to).min(to);
            at = end;
            (start < end).then_some((start, end))
        })
    }
    /// Covered bytes within `[from, to)`.
    pub fn covered(&self, from: u64, to: u64) -> u64 {
        // Mostly the question is about all of them.
        match (self.v.first(), self.v.last()) {
            (Some(first), Some(last)) if first.0 >= from && last.1 <= to => self.total,
            _ => self.v.iter().map(|r| r.1.min(to).saturating_sub(r.0.max(from))).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn overlapping_ranges_merge() {
        let mut r = Ranges::default();
        assert_eq!(r.insert(10, 20), 10);
        assert_eq!(r.insert(30, 40), 10);
        assert_eq!(r.insert(12, 18), 0);
        assert_eq!(r.insert(15, 35), 10);
        assert_eq!(r.v, vec![(10, 40)]);
        assert_eq!(r.insert(50, 60), 10);
        assert_eq!((r.first_gap(10), r.first_gap(45), r.next_start(10)), (40, 45, Some(50)));
        assert_eq!((r.covered(35, 55), r.covered(10, 60), r.covered(0, 100)), (10, 40, 40));
        assert_eq!((r.insert(45, 70), r.total()), (15, 55));
        assert_eq!((r.insert(0, 5), r.total()), (5, 60));
        // [0, 5), [10, 40) and [45, 70) are covered.
        let gaps = |from, to| r.gaps(from, to).collect::<Vec<_>>();
        assert_eq!(gaps(2, 80), [(5, 10), (40, 45), (70, 80)]);
        assert_eq!((gaps(42, 44), gaps(12, 20), gaps(41, 45)), (vec![(42, 44)], vec![], vec![(41, 45)]));
        let within = |from, to| r.iter_in(from, to).collect::<Vec<_>>();
        assert_eq!((within(5, 45), within(39, 46)), (vec![(10, 40)], vec![(10, 40), (45, 70)]));
        let mut cut = r.clone();
        cut.remove(38, 50);
        assert_eq!((cut.v.clone(), cut.total()), (vec![(0, 5), (10, 38), (50, 70)], 53));
        cut.remove(12, 20);
        cut.remove(5, 10);
        cut.remove(50, 70);
        assert_eq!((cut.v.clone(), cut.total()), (vec![(0, 5), (10, 12), (20, 38)], 25));
        cut.remove(0, 100);
        assert_eq!((cut.is_empty(), cut.total()), (true, 0));
        r.remove_below(35);
        assert_eq!(r.v, vec![(35, 40), (45, 70)]);
        assert_eq!((r.total(), r.highest()), (30, Some(70)));
    }
}
