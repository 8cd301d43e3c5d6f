//! Next arrivals that neither tree nor wheel can take.

use super::keys::span;

/// A 4-ary heap of packed `u64` keys (time since an epoch, port). The parts of a key are whole numbers here: times in picoseconds,
/// `u64::MAX` for never.
pub(super) struct Heap {
    keys: Vec<u64>,
    /// Low bits of a key that hold the port: as few as the network needs, so that times reach far.
    bits: u32,
    mask: u64,
    epoch: u64,
    /// The root has been taken and not yet been replaced: the next push goes there, one sift instead of two.
    hole: bool,
}

impl Heap {
    pub fn new(bits: u32) -> Heap {
        Heap { keys: Vec::new(), bits, mask: (1 << bits) - 1, epoch: 0, hole: false }
    }
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
    /// Low bits of its keys that hold the port.
    pub fn bits(&self) -> u32 {
        self.bits
    }
    pub fn peek(&mut self) -> u64 {
        if self.hole {
            self.close_hole();
        }
        self.keys.first().map_or(u64::MAX, |key| self.epoch + (key >> self.bits))
    }
    #[inline]
    pub fn first(&self) -> u64 {
        debug_assert!(!self.hole);
        self.keys.first().map_or(0, |key| key & self.mask)
    }
    #[inline]
    pub fn take(&mut self) -> u64 {
        debug_assert!(!self.hole);
        self.hole = true;
        self.keys[0] & self.mask
    }
    #[inline]
    pub fn push(&mut self, at: u64, port: u64) {
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
