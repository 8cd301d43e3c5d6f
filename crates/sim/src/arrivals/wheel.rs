//! Next arrivals of a large network: a wheel of windows.

use super::port_bits;

/// So many arrivals of a window are sorted as they come.
const FEW: usize = 16;

/// No port, no slot.
const NONE: u32 = u32::MAX;

/// Arrivals by window. Slots are lists threaded through the ports, of which each has one arrival in them at most.
pub(super) struct Wheel {
    /// Low bits of a key that hold the port.
    bits: u32,
    mask: u64,
    /// A window is `1 << width` picoseconds long.
    width: u32,
    /// Number of the window that has been sorted.
    window: u64,
    /// Its arrivals, the next one last: time within the window, port.
    pub due: Vec<u64>,
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
    pub fn new(ports: usize, flight: u64) -> Wheel {
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
    pub fn peek(&self) -> (u64, u64) {
        match self.due.last() {
            Some(key) => ((self.window << self.width) + (key >> self.bits), key & self.mask),
            None => (u64::MAX, 0),
        }
    }
    /// Takes it.
    #[inline(always)]
    pub fn take(&mut self) -> u64 {
        self.due.pop().map_or(0, |key| key & self.mask)
    }
    /// The port of the arrival `ahead` after the next one, as far as the window reaches.
    #[inline(always)]
    pub fn upcoming(&self, ahead: usize) -> Option<u64> {
        let key = *self.due.get(self.due.len().wrapping_sub(1 + ahead))?;
        Some(key & self.mask)
    }
    /// Takes in an arrival, if it can.
    #[inline]
    pub fn put(&mut self, at: u64, port: u64) -> bool {
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
    pub fn turn(&mut self) {
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
            let key = (waiting.at - start) << self.bits | u64::from(port);
            waiting.at = u64::MAX;
            port = waiting.next;
            // Mostly there are a few: each goes to its place.
            let mut place = self.due.len();
            self.due.push(key);
            if place < FEW {
                while place > 0 && self.due[place - 1] < key {
                    self.due[place] = self.due[place - 1];
                    place -= 1;
                }
                self.due[place] = key;
            }
        }
        if self.due.len() > FEW {
            self.due.sort_unstable_by(|a, b| b.cmp(a));
        }
    }
}
