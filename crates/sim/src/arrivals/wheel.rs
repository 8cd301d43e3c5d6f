//! Next arrivals of a large network: a wheel of windows.

use super::keys::port_bits;

/// Arrivals by window. A window's are in no order until its turn comes.
pub(super) struct Wheel {
    /// Low bits of a key that hold the port.
    bits: u32,
    mask: u64,
    /// A window is `1 << width` picoseconds long.
    width: u32,
    /// Number of the window that was sorted last.
    window: u64,
    /// When the first window begins of which something is left among those that have been sorted.
    base: u64,
    /// Their arrivals, the next one last: time since then, port.
    due: Vec<u64>,
    /// With fewer than so many the next window is sorted.
    low: usize,
    /// Room to sort them.
    spare: Vec<u64>,
    /// Those of the windows to come.
    slots: Box<[Vec<u64>]>,
    /// A bit for every slot that has some.
    used: Box<[u64]>,
}

/// Windows of so many arrivals are sorted by buckets.
const BUCKETED: std::ops::Range<usize> = 32..4096;
const BUCKETS: usize = 128;
/// Arrivals in one bucket from which on that does not pay: of hosts in step.
const CROWD: u16 = 12;

/// So many arrivals ahead are known, if there are as many soon: who fetches what they touch looks no further.
const LOW: usize = 18;
/// Windows that are sorted before their time lie no further apart, so that a key has room for its time.
const NEAR: u64 = 8;

/// So many arrivals are in a window when every port has one: as many are fetched ahead, and a sort has hardly more to do.
const FILL: usize = 8;

impl Wheel {
    /// Two to four times the usual flight long.
    pub fn new(ports: usize, flight: u64) -> Wheel {
        let slots = (ports / FILL).next_power_of_two().max(64);
        let bits = port_bits(ports);
        let window = (2 * flight / slots as u64).max(1);
        Wheel {
            bits,
            mask: (1 << bits) - 1,
            width: (64 - window.leading_zeros()).min(55 - bits),
            window: 0,
            base: 0,
            due: Vec::new(),
            low: LOW,
            spare: Vec::new(),
            slots: vec![Vec::new(); slots].into(),
            used: vec![0; slots / 64].into(),
        }
    }
    /// The next arrival, when [`Self::turn`] has seen to it: time, port. [`u64::MAX`] when there is none.
    #[inline(always)]
    pub fn peek(&self) -> (u64, u64) {
        match self.due.last() {
            Some(key) => (self.base + (key >> self.bits), key & self.mask),
            None => (u64::MAX, 0),
        }
    }
    /// True when so little of what has been sorted is left that the next window is to be ([`Self::turn`]).
    #[inline(always)]
    pub fn is_low(&self) -> bool {
        self.due.len() < self.low
    }
    /// Takes it.
    #[inline(always)]
    pub fn take(&mut self) -> u64 {
        self.due.pop().map_or(0, |key| key & self.mask)
    }
    /// Takes the next arrival if it comes no later than `until`: time, port.
    #[inline(always)]
    pub fn take_until(&mut self, until: u64) -> Option<(u64, u64)> {
        let key = *self.due.last()?;
        let at = self.base + (key >> self.bits);
        (at <= until).then(|| {
            self.due.pop();
            (at, key & self.mask)
        })
    }
    /// The next `N` arrivals, the next one last, and what of each is the port; `None` when so many are not sorted.
    #[inline(always)]
    pub fn coming<const N: usize>(&self) -> Option<(&[u64; N], u64)> {
        Some((self.due.last_chunk()?, self.mask))
    }
    /// Takes in an arrival, unless it lies beyond the wheel, or before what has been sorted.
    #[inline(always)]
    pub fn put(&mut self, at: u64, port: u64) -> bool {
        let window = at >> self.width;
        let ahead = window.wrapping_sub(self.window);
        if ahead.wrapping_sub(1) < self.slots.len() as u64 - 1 {
            let number = window as usize & (self.slots.len() - 1);
            let slot = &mut self.slots[number];
            if slot.is_empty() {
                self.used[number / 64] |= 1 << (number % 64);
            }
            slot.push((at - (window << self.width)) << self.bits | port);
            return true;
        }
        self.put_now(at, port)
    }
    /// Puts an arrival into a window that has been sorted, or into an empty wheel, which begins anew anywhere.
    #[inline(never)]
    fn put_now(&mut self, at: u64, port: u64) -> bool {
        let window = at >> self.width;
        if self.due.is_empty() && self.used.iter().all(|bits| *bits == 0) {
            self.begin(window);
        }
        if window > self.window || at < self.base {
            return false;
        }
        let key = (at - self.base) << self.bits | port;
        let place = self.due.partition_point(|other| *other > key);
        self.due.insert(place, key);
        true
    }
    fn begin(&mut self, window: u64) {
        (self.window, self.base) = (window, window << self.width);
    }
    /// Goes on to the next window with arrivals, if there is one, and sorts it behind what is left.
    #[inline(never)]
    pub fn turn(&mut self) {
        let slots = self.slots.len();
        let from = (self.window as usize).wrapping_add(1) & (slots - 1);
        let (first, words) = (from / 64, self.used.len());
        let mut bits = self.used[first] & (!0 << (from % 64));
        let mut word = first;
        // Round once, and the first word again for what lies below.
        for _ in 0..words {
            if bits != 0 {
                break;
            }
            word = if word + 1 == words { 0 } else { word + 1 };
            bits = self.used[word];
        }
        let slot = word * 64 + bits.trailing_zeros() as usize;
        let on = 1 + (slot.wrapping_sub(from) & (slots - 1)) as u64;
        if bits == 0 || on > NEAR && !self.due.is_empty() {
            // Nothing to look ahead to: the next turn is when all is over.
            self.low = 1;
            return;
        }
        self.low = LOW;
        self.used[word] &= !(1 << (slot % 64));
        let mut next = std::mem::take(&mut self.slots[slot]);
        self.sort(&mut next);
        let before = self.base;
        if self.due.is_empty() {
            self.begin(self.window + on);
        } else {
            // What is left counts from the beginning of its own window, and what is new with it.
            self.base = self.peek().0 >> self.width << self.width;
            self.window += on;
            let later = ((self.window << self.width) - self.base) << self.bits;
            next.iter_mut().for_each(|key| *key += later);
            let passed = (self.base - before) << self.bits;
            next.extend(self.due.drain(..).map(|key| key - passed));
        }
        self.slots[slot] = std::mem::replace(&mut self.due, next);
    }
    /// Sorts the window, the next one last: into buckets of time, where most are alone, then each to its place.
    #[inline(always)]
    fn sort(&mut self, due: &mut Vec<u64>) {
        let Wheel { spare, bits, width, .. } = self;
        let n = due.len();
        if !BUCKETED.contains(&n) {
            return due.sort_unstable_by(|a, b| b.cmp(a));
        }
        let shift = *bits + width.saturating_sub(BUCKETS.ilog2());
        let bucket = |key: u64| (key >> shift) as usize % BUCKETS;
        let mut places = [0u16; BUCKETS];
        due.iter().for_each(|key| places[bucket(*key)] += 1);
        let (mut before, mut most) = (0, 0);
        for place in places.iter_mut().rev() {
            let own = std::mem::replace(place, before);
            before += own;
            most = most.max(own);
        }
        if most > CROWD {
            return due.sort_unstable_by(|a, b| b.cmp(a));
        }
        spare.resize(n, 0);
        for key in due.iter() {
            let place = &mut places[bucket(*key)];
            spare[usize::from(*place)] = *key;
            *place += 1;
        }
        std::mem::swap(due, spare);
        for i in 1..n {
            let key = due[i];
            let mut at = i;
            while at > 0 && due[at - 1] < key {
                due[at] = due[at - 1];
                at -= 1;
            }
            due[at] = key;
        }
    }
}
