//! What packet arrives next: a heap of the ports that have packets on their way, in large networks a wheel of windows before it. The order
//! of simultaneous events is written in `events.rs`. Needs nothing but times, so that the bench of the fabric can include it.

use penstock_units::{Dur, Time};

/// Order of simultaneous events of a kind. Results that depend on it are artefacts: run both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ties {
    /// Lower number first.
    #[default]
    Forward,
    /// Higher number first.
    Reversed,
}

/// Most ports a network may have.
pub const MAX_PORTS: usize = 1 << 20;

/// Longest time, in picoseconds, from the moment a packet is the next of its port to its arrival at the other end, in
/// a network of so many ports: then keys never overflow. 4.4 s with a million ports, 10 h with a hundred.
pub fn longest_flight_ps(ports: usize) -> u64 {
    span(port_bits(ports)) / 4
}

/// Bits of a key that hold the port.
fn port_bits(ports: usize) -> u32 {
    usize::BITS - ports.max(2).saturating_sub(1).leading_zeros()
}

/// Keys hold times up to this far beyond the epoch.
fn span(port_bits: u32) -> u64 {
    1 << (64 - port_bits)
}

/// Next arrival of every port that has packets on its way, in order of (time, port).
///
/// With few ports they are in a heap. With many, in a wheel of windows: an arrival is put into the slot of its window at once, and a
/// window is sorted when its turn comes. The heap then has what the wheel cannot take: arrivals far ahead, or before
/// the window that was sorted last, and the second one of a port that reorders. Nobody can tell which of them had an arrival.
pub struct Arrivals {
    heap: Heap,
    /// None where the heap does it alone.
    wheel: Option<Wheel>,
    /// The arrival that `peek` saw is in the wheel.
    in_wheel: bool,
    /// What port numbers are combined with in keys: all ones turn the order of simultaneous arrivals round.
    flip: u64,
}

/// Networks of at least so many ports have a wheel. Below, the heap is so flat that nothing is gained.
const WHEEL_FROM: usize = 128;

impl Arrivals {
    /// No arrivals yet, in a heap.
    pub fn new(ties: Ties, ports: usize) -> Arrivals {
        let heap = Heap::new(port_bits(ports));
        let flip = if ties == Ties::Reversed { heap.mask } else { 0 };
        Arrivals { heap, wheel: None, in_wheel: false, flip }
    }
    /// The same for a network in which most packets take `flight` or less from the moment they are the next of their port.
    pub fn within(ties: Ties, ports: usize, flight: Dur) -> Arrivals {
        let mut arrivals = Arrivals::new(ties, ports);
        arrivals.wheel = (ports >= WHEEL_FROM).then(|| Wheel::new(ports, flight.0));
        arrivals
    }
    /// Time of the next arrival.
    #[inline(always)]
    pub fn peek(&mut self) -> Time {
        let Some(wheel) = &mut self.wheel else { return Time(self.heap.peek()) };
        if wheel.due.is_empty() {
            wheel.turn();
        }
        self.in_wheel = true;
        if !self.heap.keys.is_empty() {
            return self.peek_both();
        }
        Time(wheel.peek().0)
    }
    #[inline(never)]
    fn peek_both(&mut self) -> Time {
        let first = self.wheel.as_ref().map_or((u64::MAX, 0), Wheel::peek);
        let other = (self.heap.peek(), self.heap.first());
        self.in_wheel = first < other;
        Time(first.min(other).0)
    }
    /// The port of the next arrival, which stays; call only when `peek` answered a time.
    #[inline]
    pub fn first(&self) -> u32 {
        let port = match &self.wheel {
            Some(wheel) if self.in_wheel => wheel.due.last().map_or(0, |key| key & wheel.mask),
            _ => self.heap.first(),
        };
        (port ^ self.flip) as u32
    }
    /// The port of the next arrival; call only when `peek` answered a time.
    #[inline]
    pub fn take(&mut self) -> u32 {
        let port = match &mut self.wheel {
            Some(wheel) if self.in_wheel => wheel.due.pop().map_or(0, |key| key & wheel.mask),
            _ => self.heap.take(),
        };
        (port ^ self.flip) as u32
    }
    /// The port that comes `ahead` arrivals after the next one, for a prefetch; `None` when that is not known.
    #[inline]
    pub fn upcoming(&self, ahead: usize) -> Option<u32> {
        let key = match &self.wheel {
            Some(wheel) => *wheel.due.get(wheel.due.len().wrapping_sub(1 + ahead))?,
            None if ahead == 0 && !self.heap.hole => *self.heap.keys.first()?,
            None => return None,
        };
        Some(((key & self.heap.mask) ^ self.flip) as u32)
    }
    /// Announces the next arrival of `port`.
    #[inline]
    pub fn push(&mut self, at: Time, port: u32) {
        let number = u64::from(port) ^ self.flip;
        if self.wheel.as_mut().is_none_or(|wheel| !wheel.put(at.0, number)) {
            self.heap.push(at.0, number);
        }
    }
}

/// No port, no slot.
const NONE: u32 = u32::MAX;

/// Arrivals by window. Slots are lists threaded through the ports, of which each has one arrival in them at most.
struct Wheel {
    /// Low bits of a key that hold the port.
    bits: u32,
    mask: u64,
    /// A window is `1 << width` picoseconds long.
    width: u32,
    /// Number of the window that has been sorted.
    window: u64,
    /// Its arrivals, the next one last: time within the window, port.
    due: Vec<u64>,
    /// First port of every slot's list.
    first: Box<[u32]>,
    /// A bit for every slot with a list.
    used: Box<[u64]>,
    ports: Box<[Waiting]>,
}

/// A port in the list of a slot.
#[derive(Clone, Copy)]
struct Waiting {
    /// When its packet arrives; `u64::MAX` when the port is in no list.
    at: u64,
    next: u32,
}

impl Wheel {
    /// Two to four times the usual flight long, with some four arrivals in a window when every port has one.
    fn new(ports: usize, flight: u64) -> Wheel {
        let slots = (ports / 4).next_power_of_two().max(64);
        let bits = port_bits(ports);
        let window = (2 * flight / slots as u64).max(1);
        Wheel {
            bits,
            mask: (1 << bits) - 1,
            width: (64 - window.leading_zeros()).min(63 - bits),
            window: 0,
            due: Vec::new(),
            first: vec![NONE; slots].into(),
            used: vec![0; slots / 64].into(),
            ports: vec![Waiting { at: u64::MAX, next: NONE }; 1 << bits].into(),
        }
    }
    /// The next arrival of the window that has been sorted: time, port. [`u64::MAX`] when there is none.
    #[inline]
    fn peek(&self) -> (u64, u64) {
        match self.due.last() {
            Some(key) => ((self.window << self.width) + (key >> self.bits), key & self.mask),
            None => (u64::MAX, 0),
        }
    }
    /// Takes in an arrival, if it can.
    #[inline]
    fn put(&mut self, at: u64, port: u64) -> bool {
        let window = at >> self.width;
        let ahead = window.wrapping_sub(self.window);
        let waiting = &mut self.ports[port as usize];
        if ahead.wrapping_sub(1) < self.first.len() as u64 - 1 && waiting.at == u64::MAX {
            let slot = window as usize & (self.first.len() - 1);
            *waiting = Waiting { at, next: self.first[slot] };
            self.first[slot] = port as u32;
            self.used[slot / 64] |= 1 << (slot % 64);
            return true;
        }
        self.put_now(at, port)
    }
    /// The same for the window that has been sorted, and for an empty wheel, which begins anew anywhere.
    #[inline(never)]
    fn put_now(&mut self, at: u64, port: u64) -> bool {
        let window = at >> self.width;
        if self.due.is_empty() && self.used.iter().all(|bits| *bits == 0) {
            self.window = window;
        }
        if window != self.window {
            return false;
        }
        let key = (at - (window << self.width)) << self.bits | port;
        let place = self.due.partition_point(|other| *other > key);
        self.due.insert(place, key);
        true
    }
    /// Goes on to the next window with arrivals, if there is one, and sorts it.
    #[inline(never)]
    fn turn(&mut self) {
        let slots = self.first.len();
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
        if bits == 0 {
            return;
        }
        let slot = word * 64 + bits.trailing_zeros() as usize;
        self.window += 1 + (slot.wrapping_sub(from) & (slots - 1)) as u64;
        self.used[word] &= !(1 << (slot % 64));
        let (start, mut port) = (self.window << self.width, core::mem::replace(&mut self.first[slot], NONE));
        while port != NONE {
            let waiting = &mut self.ports[port as usize];
            self.due.push((waiting.at - start) << self.bits | u64::from(port));
            waiting.at = u64::MAX;
            port = waiting.next;
        }
        self.due.sort_unstable_by(|a, b| b.cmp(a));
    }
}

/// A 4-ary heap of packed `u64` keys (time since an epoch, port). The parts of a key are whole numbers here: times in picoseconds,
/// `u64::MAX` for never.
struct Heap {
    keys: Vec<u64>,
    /// Low bits of a key that hold the port: as few as the network needs, so that times reach far.
    bits: u32,
    mask: u64,
    epoch: u64,
    /// The root has been taken and not yet been replaced: the next push goes there, one sift instead of two.
    hole: bool,
}

impl Heap {
    fn new(bits: u32) -> Heap {
        Heap { keys: Vec::new(), bits, mask: (1 << bits) - 1, epoch: 0, hole: false }
    }
    #[inline(always)]
    fn peek(&mut self) -> u64 {
        if self.hole {
            self.close_hole();
        }
        self.keys.first().map_or(u64::MAX, |key| self.epoch + (key >> self.bits))
    }
    #[inline]
    fn first(&self) -> u64 {
        debug_assert!(!self.hole);
        self.keys.first().map_or(0, |key| key & self.mask)
    }
    #[inline]
    fn take(&mut self) -> u64 {
        debug_assert!(!self.hole);
        self.hole = true;
        self.keys[0] & self.mask
    }
    #[inline]
    fn push(&mut self, at: u64, port: u64) {
        if at - self.epoch >= span(self.bits) / 2 {
            self.rebase(at);
        }
        let key = (at - self.epoch) << self.bits | port;
        if self.hole {
            self.hole = false;
            self.sift_down(0, key);
        } else {
            self.keys.push(key);
            self.sift_up(self.keys.len() - 1, key);
        }
    }
    #[cold]
    fn rebase(&mut self, at: u64) {
        if self.hole {
            self.close_hole();
        }
        // Every pending arrival lies within the longest flight of now, so the new epoch is below them all.
        let to = at - span(self.bits) / 4;
        let by = (to - self.epoch) << self.bits;
        assert!(self.keys.iter().all(|k| *k >= by), "an arrival lies further ahead than a link may be long");
        for k in &mut self.keys {
            *k -= by;
        }
        self.epoch = to;
    }
    #[cold]
    #[inline(never)]
    fn close_hole(&mut self) {
        self.hole = false;
        if let Some(last) = self.keys.pop() {
            if !self.keys.is_empty() {
                self.sift_down(0, last);
            }
        }
    }
    #[inline]
    fn sift_up(&mut self, mut i: usize, key: u64) {
        while i > 0 {
            let parent = (i - 1) / 4;
            if self.keys[parent] <= key {
                break;
            }
            self.keys[i] = self.keys[parent];
            i = parent;
        }
        self.keys[i] = key;
    }
    /// Puts `key` where the hole at `i` sinks to. A new head of a ring is nearly always later than most of the
    /// heap, so the hole sinks to the bottom first, without comparing with `key`, and `key` then rises.
    #[inline]
    fn sift_down(&mut self, mut i: usize, key: u64) {
        let keys = &mut self.keys[..];
        let n = keys.len();
        loop {
            let first = 4 * i + 1;
            let Some(children) = keys.get(first..first + 4) else { break };
            // Four children: a fixed tournament without branches on the data.
            let (a, b, c, d) = (children[0], children[1], children[2], children[3]);
            let (lo, i_lo) = if b < a { (b, 1) } else { (a, 0) };
            let (hi, i_hi) = if d < c { (d, 3) } else { (c, 2) };
            let (min, i_min) = if hi < lo { (hi, i_hi) } else { (lo, i_lo) };
            keys[i] = min;
            i = first + i_min;
        }
        let first = 4 * i + 1;
        if first < n {
            let mut best = first;
            for j in first + 1..n {
                if keys[j] < keys[best] {
                    best = j;
                }
            }
            keys[i] = keys[best];
            i = best;
        }
        self.sift_up(i, key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn arrivals_come_in_order_of_time_and_port(times in prop::collection::vec(0u64..1_000_000, 1..200)) {
            let mut heap = Arrivals::new(Ties::Forward, times.len());
            let mut expected: Vec<(u64, u32)> = Vec::new();
            for (port, t) in times.iter().enumerate() {
                heap.push(Time(*t), port as u32);
                expected.push((*t, port as u32));
            }
            expected.sort_unstable();
            for (i, (t, port)) in expected.iter().enumerate() {
                prop_assert_eq!(heap.peek(), Time(*t));
                prop_assert_eq!(heap.take(), *port);
                if i % 3 == 0 {
                    // Replacing the top must keep the order of the rest.
                    heap.push(Time(*t), *port);
                    prop_assert_eq!(heap.peek(), Time(*t));
                    prop_assert_eq!(heap.take(), *port);
                }
            }
            prop_assert_eq!(heap.peek(), Time::NEVER);
        }
    }
    /// A wheel and a heap beside each other: ports whose next arrival is near, far beyond the wheel, at once, or before the window that
    /// was sorted last, and ports with two arrivals.
    #[test]
    fn a_wheel_has_the_order_of_the_heap() {
        for (ties, ports) in [(Ties::Forward, 128), (Ties::Reversed, 200), (Ties::Forward, 3000)] {
            let mut heap = Arrivals::new(ties, ports);
            let mut wheel = Arrivals::within(ties, ports, Dur(1_000_000));
            assert!(wheel.wheel.is_some());
            let mut x = 1u64;
            let mut draw = |n: u64| {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (x >> 33) % n
            };
            let mut now = 0;
            let (mut pushed, mut taken) = (0, 0);
            for step in 0..200_000u64 {
                // Now and then there are none, and it begins anew much later.
                let full = step % 50_000 < 40_000;
                let next = heap.peek();
                assert_eq!(wheel.peek(), next);
                if next != Time::NEVER && (pushed - taken > ports as u64 || draw(2) == 0 || !full) {
                    now = next.0;
                    assert_eq!(wheel.first(), heap.first());
                    let port = heap.take();
                    assert_eq!(wheel.take(), port);
                    taken += 1;
                } else if full {
                    let ahead = [0, 100, 1_000, 1_000_000, 1_333_000, 50_000_000][draw(6) as usize];
                    let at = Time(now + draw(ahead + 1));
                    let port = draw(ports as u64) as u32;
                    if !(heap_has(&heap, at, port)) {
                        heap.push(at, port);
                        wheel.push(at, port);
                        pushed += 1;
                    }
                } else {
                    now += 1_000_000_000;
                }
            }
            assert!(taken > 50_000, "{taken}");
        }
    }
    /// True when that very arrival is there.
    fn heap_has(arrivals: &Arrivals, at: Time, port: u32) -> bool {
        let heap = &arrivals.heap;
        let same = |key: &u64| {
            heap.epoch + (key >> heap.bits) == at.0 && key & heap.mask == u64::from(port) ^ arrivals.flip
        };
        heap.keys.iter().any(same)
    }
    #[test]
    fn the_epoch_moves_without_changing_the_order() {
        for ports in [2, 3, 100, MAX_PORTS] {
            let flight = longest_flight_ps(ports);
            let mut heap = Arrivals::new(Ties::Forward, ports);
            let mut now = 0u64;
            heap.push(Time(5), 1);
            // Times end before 2^64 picoseconds.
            for step in 0..100u64.min(u64::MAX / flight - 1) {
                let at = heap.peek();
                assert!(at.0 >= now);
                now = at.0;
                assert_eq!(heap.take(), 1);
                heap.push(Time(now + flight - step), 1);
            }
            assert_eq!(heap.peek().0 - now, flight - 99u64.min(u64::MAX / flight - 2));
        }
    }
    #[test]
    fn every_port_has_a_key_of_its_own_in_both_orders() {
        for ports in [1, 2, 3, 4, 5, 64, 65] {
            for (ties, order) in [(Ties::Forward, false), (Ties::Reversed, true)] {
                let mut heap = Arrivals::new(ties, ports);
                (0..ports as u32).for_each(|p| heap.push(Time(9), p));
                let mut found: Vec<u32> = (0..ports)
                    .map(|_| {
                        assert_eq!(heap.peek(), Time(9));
                        heap.take()
                    })
                    .collect();
                if order {
                    found.reverse();
                }
                assert_eq!(found, (0..ports as u32).collect::<Vec<_>>(), "{ports} ports, {ties:?}");
            }
        }
    }
}
