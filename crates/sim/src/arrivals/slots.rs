//! Ports by the lookahead window of their next arrival, for a driver that works through whole windows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Ports of different kinds, which are taken apart from each other: of each kind the ports, a bit each.
pub(crate) struct Kinds<const N: usize> {
    ports: [Box<[u64]>; N],
}

impl<const N: usize> Kinds<N> {
    /// Of so many ports, each of the kind that `of` says of the place at which it is taken, below `N`.
    pub fn new(ports: u32, of: impl Fn(u32) -> usize) -> Kinds<N> {
        let words = (ports as usize).div_ceil(64);
        let mut kinds = std::array::from_fn(|_| vec![0u64; words].into_boxed_slice());
        (0..ports).for_each(|port| kinds[of(port)][port as usize / 64] |= 1 << (port % 64));
        // A kind that nobody has is not gone through.
        let ports =
            kinds.map(|ports| if ports.iter().any(|word| *word != 0) { ports } else { Box::default() });
        Kinds { ports }
    }
}

/// Windows that have a slot of their own. Whatever is longer than a flight and the transmission of a packet is seldom needed.
const SLOTS: u64 = 64;

/// See the top of the file. A window has the number of its beginning in units of its length.
pub(crate) struct Slots {
    /// Length of a window, ps.
    length: u64,
    /// 2^64 over the length: see [`Self::windows`].
    inverse: u64,
    /// Ports by window, from `first` on, going round: `words` words each, of a bit for every port.
    slots: Box<[u64]>,
    words: usize,
    /// The place of every port in the order in which ports are taken, and the port at every place.
    place: Box<[u32]>,
    order: Box<[u32]>,
    /// Which slots have ports, a bit each.
    used: u64,
    /// The first window that may have ports, and its beginning.
    first: u64,
    begin: u64,
    /// Those further away: window and port.
    far: BinaryHeap<Reverse<(u64, u32)>>,
    /// The next moment of which not everything has been taken.
    next: u64,
}

impl Slots {
    /// Ports are taken in this order.
    pub fn new(length: u64, order: Box<[u32]>) -> Slots {
        assert!(length > 0, "a window has a length");
        let words = order.len().div_ceil(64);
        let mut place = vec![0; order.len()].into_boxed_slice();
        (0u32..).zip(&order).for_each(|(at, port)| place[*port as usize] = at);
        Slots {
            length,
            inverse: u64::MAX / length,
            slots: vec![0; words * SLOTS as usize].into(),
            words,
            place,
            order,
            used: 0,
            first: 0,
            begin: 0,
            far: BinaryHeap::new(),
            next: 0,
        }
    }
    /// How many whole windows `time` is.
    ///
    /// A product instead of a division, which takes a processor several times as long. `inverse` is too small by one at most, so the product over 2^64 is
    /// by less than one, and what is cut off of it is one too small at most.
    #[inline(always)]
    fn windows(&self, time: u64) -> u64 {
        let about = ((u128::from(time) * u128::from(self.inverse)) >> 64) as u64;
        about + u64::from(time - about * self.length >= self.length)
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
        let at = std::hint::select_unpredictable(there != 0, at, self.next);
        debug_assert!(at >= self.begin);
        let ahead = self.windows(at - self.begin);
        if ahead >= SLOTS {
            return self.put_far(self.first + ahead, port);
        }
        let slot = (self.first + ahead) % SLOTS;
        let place = self.place[port as usize];
        self.slots[slot as usize * self.words + place as usize / 64] |= there << (place % 64);
        self.used |= there << slot;
    }
    #[cold]
    #[inline(never)]
    fn put_far(&mut self, window: u64, port: u32) {
        self.far.push(Reverse((window, port)));
    }
    /// No arrival comes before this; [`u64::MAX`] when there is none.
    pub fn earliest(&self) -> u64 {
        let far = self.far.peek().map_or(u64::MAX, |Reverse((window, _))| *window);
        let window = self.near().min(far);
        window.checked_mul(self.length).map_or(u64::MAX, |begin| begin.max(self.next))
    }
    /// The first window whose slot has ports.
    fn near(&self) -> u64 {
        match self.used.rotate_right((self.first % SLOTS) as u32) {
            0 => u64::MAX,
            used => self.first + u64::from(used.trailing_zeros()),
        }
    }
    /// Takes the ports whose next arrival is in the window in which `until` lies, in their order, those of every kind to the end of a list of their
    /// own; there is none before. Those with an arrival after `until` the caller puts back.
    pub fn take<const N: usize>(&mut self, until: u64, kinds: &Kinds<N>, into: &mut [Vec<u32>; N]) {
        let window = until / self.length;
        debug_assert!(self.near() >= window);
        (self.first, self.begin, self.next) = (window, window * self.length, until + 1);
        while let Some(Reverse((at, port))) = self.far.peek().copied() {
            if at - window >= SLOTS {
                break;
            }
            self.far.pop();
            self.put(at * self.length, port);
        }
        let slot = window % SLOTS;
        if self.used >> slot & 1 == 0 {
            return;
        }
        self.used &= !(1 << slot);
        let words = &mut self.slots[slot as usize * self.words..][..self.words];
        for (kind, into) in kinds.ports.iter().zip(into) {
            for (i, (word, kind)) in words.iter().zip(kind).enumerate() {
                let mut bits = word & kind;
                while bits != 0 {
                    into.push(self.order[64 * i + bits.trailing_zeros() as usize]);
                    bits &= bits - 1;
                }
            }
        }
        words.fill(0);
    }
    /// Takes the ports of one kind alone whose next arrival is in the window in which `until` lies, to the end of a list. The others stay.
    pub fn take_kind<const N: usize>(
        &mut self,
        until: u64,
        kinds: &Kinds<N>,
        kind: usize,
        into: &mut Vec<u32>,
    ) {
        let slot = until / self.length % SLOTS;
        if self.used >> slot & 1 == 0 {
            return;
        }
        let mut left = 0;
        let words = &mut self.slots[slot as usize * self.words..][..self.words];
        for (i, (word, kind)) in words.iter_mut().zip(&kinds.ports[kind]).enumerate() {
            let mut bits = *word & kind;
            *word &= !kind;
            left |= *word;
            while bits != 0 {
                into.push(self.order[64 * i + bits.trailing_zeros() as usize]);
                bits &= bits - 1;
            }
        }
        // A kind that nobody has is not gone through.
        if left == 0 && !kinds.ports[kind].is_empty() {
            self.used &= !(1 << slot);
        }
    }
    /// The end of the window in which `at` lies.
    pub fn end_of(&self, at: u64) -> u64 {
        let next = (at / self.length).checked_add(1).and_then(|next| next.checked_mul(self.length));
        next.map_or(u64::MAX, |next| next - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Beside a sorted set: ports near and far away, and windows that are cut in two.
    #[test]
    fn every_port_is_taken_in_the_window_of_its_arrival() {
        let mut slots = Slots::new(100, (0..100_000).collect());
        let kinds = Kinds::<3>::new(100_000, |port| [0, 2, 2][port as usize % 3]);
        let mut set = std::collections::BTreeSet::new();
        let mut x = 1u64;
        let mut draw = |n: u64| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (x >> 33) % n
        };
        let (mut now, mut port, mut taken) = (0u64, 0, 0);
        let mut lists = [const { Vec::new() }; 3];
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
            slots.take(until, &kinds, &mut lists);
            let due = set.iter().take_while(|(at, _)| *at <= end);
            let mut expected: Vec<_> = due.map(|(_, port)| (*port % 3 != 0, *port)).collect();
            expected.sort_unstable();
            let of = |kind: usize| lists[kind].iter().map(move |port| (kind > 0, *port));
            assert!(of(0).chain(of(1)).chain(of(2)).eq(expected.iter().copied()) && lists[1].is_empty());
            let late: Vec<_> = set.iter().filter(|(at, _)| *at > until && *at <= end).copied().collect();
            taken += expected.len() - late.len();
            late.iter().for_each(|(at, port)| slots.put(*at, *port));
            lists.iter_mut().for_each(Vec::clear);
            set = set.split_off(&(until + 1, 0));
            now = until;
        }
        assert!(taken > 10_000, "{taken}");
    }
    /// Ports of another kind stay in their slot, and are taken later.
    #[test]
    fn ports_of_one_kind_are_taken_and_the_others_stay() {
        let mut slots = Slots::new(100, (0..200).collect());
        let kinds = Kinds::<2>::new(200, |port| usize::from(port % 2 == 1));
        [(10, 3), (20, 130), (99, 131), (100, 5)].into_iter().for_each(|(at, port)| slots.put(at, port));
        let (mut odd, mut all) = (Vec::new(), [const { Vec::new() }; 2]);
        slots.take_kind(99, &kinds, 1, &mut odd);
        assert_eq!((odd, slots.earliest()), (vec![3, 131], 0));
        slots.take(99, &kinds, &mut all);
        assert_eq!((all, slots.earliest()), ([vec![130], vec![]], 100));
        let mut even = Vec::new();
        slots.take_kind(199, &kinds, 0, &mut even);
        assert!(even.is_empty() && slots.earliest() == 100);
        slots.take_kind(199, &kinds, 1, &mut even);
        assert_eq!((even, slots.earliest()), (vec![5], u64::MAX));
    }
    /// Beside a division: lengths and times at the ends of what there is, and at random.
    #[test]
    fn a_product_says_how_many_windows_a_time_is() {
        let mut x = 1u64;
        let mut draw = || {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            x >> (1 + (x >> 7) % 63)
        };
        for _ in 0..100_000 {
            let (length, time) = (draw().max(1), draw());
            let slots = Slots::new(length, [0].into());
            let whole = time / length * length;
            for time in [time, whole, whole.saturating_sub(1), 0, (1 << 63) - 1] {
                assert_eq!(slots.windows(time), time / length, "{time} {length}");
            }
        }
    }
}
