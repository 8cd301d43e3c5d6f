//! The next departure of every port of a node, so that its shared buffer is right at every arrival without looking at all
//! ports: a binary heap with at most one valid entry per port.

use alloc::vec::Vec;

/// Next departures, earliest first; ties by number of the port at the node.
#[derive(Default)]
pub(crate) struct Calendar {
    heap: Vec<(u64, u16)>,
}

impl Calendar {
    /// The earliest entry.
    #[inline]
    pub fn first(&self) -> Option<(u64, u16)> {
        self.heap.first().copied()
    }
    pub fn push(&mut self, at: u64, port: u16) {
        self.heap.push((at, port));
        let mut i = self.heap.len() - 1;
        while i > 0 && self.heap[(i - 1) / 2] > self.heap[i] {
            self.heap.swap(i, (i - 1) / 2);
            i = (i - 1) / 2;
        }
    }
    /// Takes the earliest entry out and, when given, puts another in its place.
    #[inline]
    pub fn replace(&mut self, with: Option<(u64, u16)>) {
        match with {
            Some(entry) => self.heap[0] = entry,
            None => {
                let last = self.heap.pop().expect("there is a first entry");
                if self.heap.is_empty() {
                    return;
                }
                self.heap[0] = last;
            }
        }
        let (n, mut i) = (self.heap.len(), 0);
        let entry = self.heap[0];
        loop {
            let mut child = 2 * i + 1;
            if child >= n {
                break;
            }
            if child + 1 < n && self.heap[child + 1] < self.heap[child] {
                child += 1;
            }
            if self.heap[child] >= entry {
                break;
            }
            self.heap[i] = self.heap[child];
            i = child;
        }
        self.heap[i] = entry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn entries_come_in_order(times in prop::collection::vec(0u64..1000, 1..80), again in 0u64..500) {
            let mut calendar = Calendar::default();
            let mut expected: Vec<(u64, u16)> = Vec::new();
            for (i, t) in times.iter().enumerate() {
                calendar.push(*t, i as u16);
                expected.push((*t, i as u16));
            }
            // The first comes back later, the others leave in order.
            expected.sort_unstable();
            let (t, port) = expected.remove(0);
            prop_assert_eq!(calendar.first(), Some((t, port)));
            calendar.replace(Some((t + again, port)));
            expected.push((t + again, port));
            expected.sort_unstable();
            for entry in expected {
                prop_assert_eq!(calendar.first(), Some(entry));
                calendar.replace(None);
            }
            prop_assert_eq!(calendar.first(), None);
        }
    }
}
