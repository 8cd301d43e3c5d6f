//! Ports by the stretch of time in which their next arrival falls: for a driver that works through whole stretches.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A set of numbers, a bit each.
struct Bits {
    words: Box<[u64]>,
}

impl Bits {
    /// Nothing, of numbers below `size`.
    fn new(size: usize) -> Bits {
        Bits { words: vec![0; size.div_ceil(64)].into() }
    }
    /// Puts a number in where `so` is 1, and not where it is 0.
    #[inline(always)]
    fn set_if(&mut self, so: u64, number: u32) {
        self.words[number as usize / 64] |= so << (number % 64);
    }
    /// Takes all numbers out, in their order, to the end of `into`.
    #[inline]
    fn take(&mut self, into: &mut Vec<u32>) {
        for (i, word) in self.words.iter_mut().enumerate() {
            let mut bits = std::mem::take(word);
            while bits != 0 {
                into.push(64 * i as u32 + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
    }
}

/// Stretches that have a slot of their own. Whatever is longer than a flight and the transmission of a packet is seldom needed.
const SLOTS: u64 = 64;

/// See the top of the file. A stretch has the number of its beginning in units of its length.
pub(crate) struct Slots {
    /// Length of a stretch, ps.
    length: u64,
    /// Ports by stretch, from `first` on, going round.
    slots: Vec<Bits>,
    /// Which slots have ports, a bit each.
    used: u64,
    /// The first stretch that may have ports.
    first: u64,
    /// Those further away: stretch and port.
    far: BinaryHeap<Reverse<(u64, u32)>>,
    /// The next moment of which not everything has been taken.
    next: u64,
}

impl Slots {
    pub fn new(length: u64, ports: usize) -> Slots {
        assert!(length > 0, "a stretch of time has a length");
        let slots = (0..SLOTS).map(|_| Bits::new(ports)).collect();
        Slots { length, slots, used: 0, first: 0, far: BinaryHeap::new(), next: 0 }
    }
    /// `port` has its next arrival at `at`, which is later than all that has been taken.
    #[inline(always)]
    pub fn put(&mut self, at: u64, port: u32) {
        self.put_if(at, port);
    }
    /// The same where there may be none: then `at` is [`u64::MAX`].
    #[inline(always)]
    pub fn put_if(&mut self, at: u64, port: u32) {
        // Nobody can foresee whether there is one: no jump on it.
        let there = u64::from(at != u64::MAX);
        let stretch = std::hint::select_unpredictable(there != 0, at, self.next) / self.length;
        debug_assert!(stretch >= self.first);
        if stretch - self.first >= SLOTS {
            return self.put_far(stretch, port);
        }
        let slot = stretch % SLOTS;
        self.slots[slot as usize].set_if(there, port);
        self.used |= there << slot;
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
        stretch.checked_mul(self.length).map_or(u64::MAX, |begin| begin.max(self.next))
    }
    /// The first stretch whose slot has ports.
    fn near(&self) -> u64 {
        match self.used.rotate_right((self.first % SLOTS) as u32) {
            0 => u64::MAX,
            used => self.first + u64::from(used.trailing_zeros()),
        }
    }
    /// Takes the ports whose next arrival is in the stretch in which `until` lies, in their order; there is none before. Those with an arrival after
    /// `until` the caller puts back.
    pub fn take(&mut self, until: u64, into: &mut Vec<u32>) {
        let stretch = until / self.length;
        debug_assert!(self.near() >= stretch);
        (self.first, self.next) = (stretch, until + 1);
        while let Some(Reverse((at, port))) = self.far.peek().copied() {
            if at - stretch >= SLOTS {
                break;
            }
            self.far.pop();
            self.put(at * self.length, port);
        }
        let slot = stretch % SLOTS;
        if self.used >> slot & 1 != 0 {
            self.used &= !(1 << slot);
            self.slots[slot as usize].take(into);
        }
    }
    /// The end of the stretch in which `at` lies.
    pub fn end_of(&self, at: u64) -> u64 {
        let next = (at / self.length).checked_add(1).and_then(|next| next.checked_mul(self.length));
        next.map_or(u64::MAX, |next| next - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Beside a sorted set: ports near and far away, and stretches that are cut in two.
    #[test]
    fn every_port_is_taken_in_the_stretch_of_its_arrival() {
        let mut slots = Slots::new(100, 100_000);
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
                let far = [1, 90, 3_000, 5_999, 6_500, 500_000][draw(6) as usize];
                let at = now + 1 + draw(far);
                port += 1;
                set.insert((at, port));
                slots.put(at, port);
            }
            let Some((first, _)) = set.first().copied() else { continue };
            let earliest = slots.earliest();
            assert!(earliest <= first && earliest / 100 == first / 100 && (earliest > now || now == 0));
            let end = slots.end_of(first);
            let until = if draw(3) == 0 { first + draw(end - first + 1) } else { end };
            slots.take(until, &mut list);
            let mut expected: Vec<_> = set.iter().take_while(|(at, _)| *at <= end).map(|(_, p)| *p).collect();
            expected.sort_unstable();
            assert_eq!(list, expected);
            let late: Vec<_> = set.iter().filter(|(at, _)| *at > until && *at <= end).copied().collect();
            taken += list.len() - late.len();
            late.iter().for_each(|(at, port)| slots.put(*at, *port));
            list.clear();
            set = set.split_off(&(until + 1, 0));
            now = until;
        }
        assert!(taken > 10_000, "{taken}");
    }
}
