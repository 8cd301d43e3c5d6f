//! Next arrivals of a network of medium size: a calendar.

/// Slots of time, with a bit for every slot that has an arrival. They are so narrow that most are empty and few have two arrivals.
/// To find the next arrival is to find the next bit. That compares no times, and its branches are nearly always predicted.
///
/// The right width of slots depends on the traffic. A permutation has its arrivals within the transmission time of a packet, other
/// traffic over the whole flight time. A calendar therefore begins with few slots, and doubles them when too many arrivals share one.
pub(super) struct Calendar {
    /// The first arrival's port, where the slot has one; elsewhere any that was there.
    heads: Box<[u16]>,
    /// A bit for every slot that has some; a bit for every word of these that is not zero.
    words: Box<[u64]>,
    above: Box<[u64]>,
    /// By port.
    entries: Box<[Entry]>,
    /// A slot is `1 << width` picoseconds long.
    width: u32,
    /// One less than the number of slots.
    mask: u64,
    /// When the last arrival was that was taken; the slots reach from there once around.
    base: u64,
    /// Arrivals that were put in, and how many others were gone past in their slots, since the last look at how many share one.
    puts: u32,
    passed: u32,
    doublings: u32,
    /// It has as many slots as it may have, and still too many share one.
    crowded: bool,
}

/// The next arrival of a port.
#[derive(Clone, Copy)]
struct Entry {
    /// `u64::MAX` when there is none.
    at: u64,
    /// The port that comes after it in its slot, or [`LAST`].
    next: u16,
}

const LAST: u16 = u16::MAX;
const NONE: Entry = Entry { at: u64::MAX, next: LAST };

/// Slots for every port at the beginning.
const SLOTS_PER_PORT: usize = 4;
/// Most doublings of the slots. In a permutation, whose arrivals come within a few nanoseconds, more slots would not pay: most
/// words would be empty, and the processor would mispredict the next one with a bit.
const MOST_DOUBLINGS: u32 = 1;
/// Most arrivals of its slot that a new one is compared with; beyond that the heap takes it.
const MOST_PASSED: u32 = 16;
/// After this many comparisons the calendar looks whether there was one for every [`SHARE`] arrivals.
const LOOK: u32 = 1024;
const SHARE: u32 = 4;

impl Calendar {
    /// Two to four times the usual flight long. `numbers` of ports are below 2^16.
    pub fn new(numbers: usize, flight: u64) -> Calendar {
        let slots = (numbers * SLOTS_PER_PORT).next_power_of_two().max(64);
        let length = (2 * flight).max(slots as u64).next_power_of_two();
        let mut calendar = Calendar {
            heads: [].into(),
            words: [].into(),
            above: [].into(),
            entries: vec![NONE; numbers].into(),
            width: (length / slots as u64).trailing_zeros(),
            mask: 0,
            base: 0,
            puts: 0,
            passed: 0,
            doublings: 0,
            crowded: false,
        };
        calendar.make(slots);
        calendar
    }
    fn make(&mut self, slots: usize) {
        self.heads = vec![0; slots].into();
        self.words = vec![0; slots / 64].into();
        self.above = vec![0; (slots / 64).div_ceil(64)].into();
        self.mask = slots as u64 - 1;
    }
    #[inline(always)]
    fn slot(&self, at: u64) -> usize {
        (at >> self.width & self.mask) as usize
    }
    /// The slot of the next arrival.
    #[inline(always)]
    fn find(&self) -> Option<usize> {
        let slot = self.slot(self.base);
        match self.words[slot / 64] & u64::MAX << (slot % 64) {
            0 => self.find_beyond(slot / 64),
            bits => Some(slot & !63 | bits.trailing_zeros() as usize),
        }
    }
    /// The same where none is left in `word` from the base on; what lies below it there comes last.
    #[inline(always)]
    fn find_beyond(&self, word: usize) -> Option<usize> {
        let mut group = (word + 1) / 64 % self.above.len();
        let mut bits = self.above[group] & u64::MAX << ((word + 1) % 64);
        for _ in 0..=self.above.len() {
            if bits != 0 {
                let word = group * 64 + bits.trailing_zeros() as usize;
                return Some(word * 64 + self.words[word].trailing_zeros() as usize);
            }
            group = (group + 1) % self.above.len();
            bits = self.above[group];
        }
        None
    }
    /// The next arrival: time, port. [`u64::MAX`] when there is none.
    #[inline(always)]
    pub fn peek(&self) -> (u64, u64) {
        self.find().map_or((u64::MAX, 0), |slot| {
            let port = self.heads[slot];
            (self.entries[usize::from(port)].at, u64::from(port))
        })
    }
    /// Takes it.
    #[inline(always)]
    pub fn take(&mut self) -> u64 {
        self.take_until(u64::MAX).map_or(0, |(_, port)| port)
    }
    /// Takes the next arrival if it comes no later than `until`: time, port.
    #[inline(always)]
    pub fn take_until(&mut self, until: u64) -> Option<(u64, u64)> {
        let slot = self.find()?;
        let port = self.heads[slot];
        let entry = &mut self.entries[usize::from(port)];
        let Entry { at, next } = *entry;
        if at > until {
            return None;
        }
        entry.at = u64::MAX;
        self.base = at;
        self.heads[slot] = next;
        let word = &mut self.words[slot / 64];
        *word &= !(u64::from(next == LAST) << (slot % 64));
        let empty = u64::from(*word == 0) << (slot / 64 % 64);
        self.above[slot / 4096] &= !empty;
        Some((at, u64::from(port)))
    }
    /// Takes in an arrival, unless it lies beyond the calendar or before the last one that was taken, its port has one, or too many come
    /// before it in its slot.
    #[inline(always)]
    pub fn put(&mut self, at: u64, port: u64) -> bool {
        let ahead = (at >> self.width).wrapping_sub(self.base >> self.width);
        if ahead > self.mask && !self.begin(at) {
            return false;
        }
        let slot = self.slot(at);
        let entry = &mut self.entries[port as usize];
        if entry.at != u64::MAX {
            return false;
        }
        let (word, bit) = (&mut self.words[slot / 64], 1 << (slot % 64));
        if *word & bit != 0 {
            return self.share(slot, at, port);
        }
        *word |= bit;
        *entry = Entry { at, next: LAST };
        self.above[slot / 4096] |= 1 << (slot / 64 % 64);
        self.heads[slot] = port as u16;
        self.puts += 1;
        true
    }
    /// An empty calendar begins anew anywhere: half of it before what comes first, as others may come before that.
    #[cold]
    #[inline(never)]
    fn begin(&mut self, at: u64) -> bool {
        if self.above.iter().any(|bits| *bits != 0) {
            return false;
        }
        self.base = at.saturating_sub(((self.mask + 1) << self.width) / 2);
        true
    }
    /// An arrival that is not alone in its slot.
    #[inline(never)]
    fn share(&mut self, slot: usize, at: u64, port: u64) -> bool {
        let (mut before, mut passed) = (LAST, 1);
        let mut next = self.heads[slot];
        while next != LAST && (self.entries[usize::from(next)].at, u64::from(next)) < (at, port) {
            (before, next) = (next, self.entries[usize::from(next)].next);
            passed += 1;
        }
        self.passed += passed;
        if self.passed >= LOOK {
            // What has been found in the slot does no longer hold.
            self.crowded |= !self.widen();
            return !self.crowded && self.put(at, port);
        }
        if passed > MOST_PASSED {
            return false;
        }
        self.entries[port as usize] = Entry { at, next };
        match before {
            LAST => self.heads[slot] = port as u16,
            before => self.entries[usize::from(before)].next = port as u16,
        }
        self.puts += 1;
        true
    }
    /// Twice the slots of half the length, if too many share one; false when it has as many as it may have.
    #[cold]
    #[inline(never)]
    fn widen(&mut self) -> bool {
        let few = self.passed < self.puts / SHARE;
        (self.puts, self.passed) = (0, 0);
        if few {
            return true;
        }
        if self.doublings == MOST_DOUBLINGS || self.width == 0 {
            return false;
        }
        // From where its slot begins: an arrival may lie before the base there, when the calendar began anew.
        let (base, all) = (self.base >> self.width << self.width, self.drain());
        self.width -= 1;
        self.doublings += 1;
        self.make(self.heads.len() * 2);
        self.base = base;
        // The last first: then nobody is gone past.
        for (at, port) in all.iter().rev() {
            let taken = self.put(*at, *port);
            assert!(taken, "all lie within what the calendar reached before");
        }
        self.passed = 0;
        true
    }
    /// Takes all arrivals, in order.
    pub fn drain(&mut self) -> Vec<(u64, u64)> {
        core::iter::from_fn(|| self.take_until(u64::MAX)).collect()
    }
    /// It has as many slots as it may have, and still too many arrivals share one: a tree does better.
    pub fn is_crowded(&self) -> bool {
        self.crowded
    }
    /// The ports of the next three arrivals, as far as they are near each other; any where they are not.
    #[inline(always)]
    pub fn near(&self) -> [u64; 3] {
        let slot = self.slot(self.base);
        let first = self.words[slot / 64] & u64::MAX << (slot % 64);
        let second = first & first.wrapping_sub(1);
        let third = second & second.wrapping_sub(1);
        [first, second, third].map(|bits| {
            let slot = slot & !63 | bits.trailing_zeros() as usize & 63;
            u64::from(self.heads[slot])
        })
    }
}
