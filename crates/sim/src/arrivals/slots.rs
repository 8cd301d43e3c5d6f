//! Ports by the stretch of time in which their next arrival falls, in no order within: for a driver that works through whole stretches.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Stretches that have a slot of their own.
const SLOTS: usize = 1024;

/// See the top of the file. A stretch has the number of its beginning in units of its length.
pub(super) struct Slots {
    /// Length of a stretch, ps.
    length: u64,
    /// Ports by stretch, from `first` on, going round.
    slots: Vec<Vec<u32>>,
    /// Which slots have ports, a bit each.
    used: [u64; SLOTS / 64],
    /// The first stretch that may have ports.
    first: u64,
    /// Those further away: stretch and port.
    far: BinaryHeap<Reverse<(u64, u32)>>,
    /// Up to here everything has been taken.
    done: u64,
}

impl Slots {
    pub fn new(length: u64) -> Slots {
        assert!(length > 0, "a stretch of time has a length");
        Slots {
            length,
            slots: (0..SLOTS).map(|_| Vec::new()).collect(),
            used: [0; SLOTS / 64],
            first: 0,
            far: BinaryHeap::new(),
            done: 0,
        }
    }
    /// `port` has its next arrival at `at`, which is later than all that has been taken.
    #[inline(always)]
    pub fn put(&mut self, at: u64, port: u32) {
        let stretch = at / self.length;
        debug_assert!(stretch >= self.first);
        if stretch - self.first >= SLOTS as u64 {
            return self.put_far(stretch, port);
        }
        let slot = stretch as usize % SLOTS;
        self.slots[slot].push(port);
        self.used[slot / 64] |= 1 << (slot % 64);
    }
    #[cold]
    #[inline(never)]
    fn put_far(&mut self, stretch: u64, port: u32) {
        self.far.push(Reverse((stretch, port)));
    }
    /// No arrival comes before this; [`u64::MAX`] when there is none.
    pub fn earliest(&self) -> u64 {
        let far = self.far.peek().map_or(u64::MAX, |Reverse((stretch, _))| *stretch);
        let stretch = self.near().min(far);
        stretch.checked_mul(self.length).map_or(u64::MAX, |begin| begin.max(self.done))
    }
    /// The first stretch whose slot has ports.
    fn near(&self) -> u64 {
        let at = self.first as usize % SLOTS;
        // The word of the first slot is looked at twice: from there on, and at last up to there.
        for turn in 0..=SLOTS / 64 {
            let word = (at / 64 + turn) % (SLOTS / 64);
            let mut bits = self.used[word];
            if turn == 0 {
                bits &= u64::MAX << (at % 64);
            }
            if bits != 0 {
                let slot = word * 64 + bits.trailing_zeros() as usize;
                return self.first + ((slot + SLOTS - at) % SLOTS) as u64;
            }
        }
        u64::MAX
    }
    /// Takes the ports whose next arrival is in the stretch in which `until` lies; there is none before. What comes after `until` the caller
    /// puts back. `into` is empty, and stays in the slot's place.
    pub fn take(&mut self, until: u64, into: &mut Vec<u32>) {
        let stretch = until / self.length;
        debug_assert!(self.near() >= stretch);
        self.first = stretch;
        self.done = until + 1;
        while let Some(Reverse((at, port))) = self.far.peek().copied() {
            if at - stretch >= SLOTS as u64 {
                break;
            }
            self.far.pop();
            self.put(at * self.length, port);
        }
        let slot = stretch as usize % SLOTS;
        self.used[slot / 64] &= !(1 << (slot % 64));
        std::mem::swap(&mut self.slots[slot], into);
    }
    /// The end of the stretch in which `at` lies.
    pub fn end_of(&self, at: u64) -> u64 {
        (at / self.length).checked_add(1).and_then(|next| next.checked_mul(self.length)).map_or(u64::MAX, |end| end - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Beside a sorted set: ports near and far away, and stretches that are cut in two.
    #[test]
    fn every_port_is_taken_in_the_stretch_of_its_arrival() {
        let mut slots = Slots::new(100);
        let mut set = std::collections::BTreeSet::new();
        let mut x = 1u64;
        let mut draw = |n: u64| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (x >> 33) % n
        };
        let (mut now, mut port, mut taken) = (0u64, 0, 0);
        let mut list = Vec::new();
        for _ in 0..20_000 {
            for _ in 0..draw(4) {
                let far = [1, 90, 3_000, 99_999, 100_001, 5_000_000][draw(6) as usize];
                let at = now + 1 + draw(far);
                port += 1;
                set.insert((at, port));
                slots.put(at, port);
            }
            let Some((first, _)) = set.first().copied() else { continue };
            let earliest = slots.earliest();
            assert!(earliest <= first && earliest > now && earliest / 100 == first / 100 || earliest == now + 1);
            let end = slots.end_of(first);
            let until = if draw(3) == 0 { first + draw(end - first + 1) } else { end };
            slots.take(until, &mut list);
            let mut found: Vec<_> = list.drain(..).collect();
            found.sort_unstable();
            let mut expected: Vec<_> = set.iter().take_while(|(at, _)| *at <= end).map(|(_, p)| *p).collect();
            expected.sort_unstable();
            assert_eq!(found, expected);
            let late: Vec<_> = set.iter().filter(|(at, _)| *at > until && *at <= end).copied().collect();
            taken += found.len() - late.len();
            late.iter().for_each(|(at, port)| slots.put(*at, *port));
            set = set.split_off(&(until + 1, 0));
            now = until;
        }
        assert!(taken > 10_000, "{taken}");
    }
}
