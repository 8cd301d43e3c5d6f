//! Next arrivals of a small network: a tournament tree.

use super::span;

/// A leaf per port, and above it the least of every four: packed `u64` keys as in the heap, `u64::MAX` for none.
///
/// A heap compares what it moves, and a processor guesses these branches wrong once or twice per packet. A way from a leaf to the root has
/// no branch on the data and always the same length. Groups of two cost 5 % fewer instructions and 1 to 2 % more time: the way is twice as
/// long, and every level waits for the one below.
///
/// While there are few arrivals they are in a sorted list instead, whatever ports they have: where a packet or two are on their way, most
/// of the tree is empty, and a way to its root is longer than the list. The tree takes over when the list is full, and until it is empty.
pub(super) struct Tree {
    /// Keys by falling size, the least last; the first one is `u64::MAX`, so that there is a least one always, and a place for every key.
    few: [u64; ROOM],
    /// So many are in the list.
    listed: usize,
    /// The tree has them, not the list.
    grown: bool,
    /// Groups of four, the root first: the least of a group is in the place of the group before it, counted over all places.
    groups: Box<[[u64; 4]]>,
    /// Place of port 0.
    leaves: usize,
    /// The least of all.
    least: u64,
    /// What the root has in the place that was changed last, and what the group below it has in the one that was.
    risen: [u64; 2],
    /// Low bits of a key that hold the port.
    bits: u32,
    mask: u64,
    epoch: u64,
    /// Port of the arrival that has been taken and not yet been replaced, [`FULL`] for none: mostly its next one goes there.
    hole: u64,
}

/// Places of the list, a power of two, so that no place needs a check.
const ROOM: usize = 16;
/// Most arrivals in the list.
const FEW: usize = 6;

/// There is no hole.
const FULL: u64 = u64::MAX;

impl Tree {
    pub fn new(bits: u32) -> Tree {
        let (mut leaves, mut level) = (0, 4);
        while level < 1usize << bits {
            leaves += level;
            level *= 4;
        }
        let mut few = [0; ROOM];
        few[0] = u64::MAX;
        Tree {
            few,
            listed: 0,
            grown: false,
            groups: vec![[u64::MAX; 4]; (leaves + level) / 4].into(),
            leaves,
            least: u64::MAX,
            risen: [u64::MAX; 2],
            bits,
            mask: (1 << bits) - 1,
            epoch: 0,
            hole: FULL,
        }
    }
    /// Time of the next arrival, `u64::MAX` when there is none.
    #[inline(always)]
    pub fn peek(&mut self) -> u64 {
        let least = if self.grown { self.peek_tree() } else { self.few[self.listed % ROOM] };
        match least {
            u64::MAX => u64::MAX,
            key => self.epoch + (key >> self.bits),
        }
    }
    #[inline(always)]
    fn peek_tree(&mut self) -> u64 {
        if self.hole != FULL {
            let port = core::mem::replace(&mut self.hole, FULL);
            self.set(port, u64::MAX);
        }
        if self.least == u64::MAX {
            self.grown = false;
        }
        self.least
    }
    /// Its port.
    #[inline(always)]
    pub fn first(&self) -> u64 {
        debug_assert!(self.hole == FULL);
        self.coming()
    }
    #[inline(always)]
    pub fn coming(&self) -> u64 {
        let least = if self.grown { self.least } else { self.few[self.listed % ROOM] };
        least & self.mask
    }
    /// The port that has got to the root last, mostly among the next few, and the one that has got to the level below, among the next dozen.
    #[inline(always)]
    pub fn risen(&self) -> [u64; 2] {
        self.risen.map(|key| key & self.mask)
    }
    #[inline(always)]
    pub fn take(&mut self) -> u64 {
        let port = self.first();
        if self.grown {
            self.hole = port;
        } else {
            self.listed -= 1;
        }
        port
    }
    /// [`Self::peek`] and [`Self::take`] in one, of an arrival no later than `until`.
    #[inline(always)]
    pub fn take_until(&mut self, until: u64) -> Option<(u64, u64)> {
        let key = if self.grown { self.peek_tree() } else { self.few[self.listed % ROOM] };
        let (at, port) = (self.epoch + (key >> self.bits), key & self.mask);
        // A key of all ones may be any time.
        if at > until || key == u64::MAX {
            return None;
        }
        if self.grown {
            self.hole = port;
        } else {
            self.listed -= 1;
        }
        Some((at, port))
    }
    /// Takes in an arrival, unless its port has one already.
    #[inline(always)]
    pub fn put(&mut self, at: u64, port: u64) -> bool {
        if at - self.epoch >= span(self.bits) / 2 {
            self.rebase(at);
        }
        let key = (at - self.epoch) << self.bits | port;
        if !self.grown {
            return self.put_few(key);
        }
        if port == self.hole {
            self.hole = FULL;
            self.set(port, key);
            return true;
        }
        self.put_tree(key)
    }
    #[inline(always)]
    fn put_tree(&mut self, key: u64) -> bool {
        let place = self.leaves + (key & self.mask) as usize;
        if self.groups[place / 4][place % 4] != u64::MAX {
            return false;
        }
        self.add(place, key);
        true
    }
    #[inline(always)]
    fn put_few(&mut self, key: u64) -> bool {
        if self.listed >= FEW {
            return self.grow(key);
        }
        let mut at = self.listed;
        while self.few[at % ROOM] < key {
            self.few[(at + 1) % ROOM] = self.few[at % ROOM];
            at -= 1;
        }
        self.few[(at + 1) % ROOM] = key;
        self.listed += 1;
        true
    }
    /// The tree takes over. A port with two arrivals keeps its list from it: then the new one has to go elsewhere.
    #[inline(never)]
    fn grow(&mut self, key: u64) -> bool {
        let keys = &self.few[1..=self.listed];
        let same = |a: &u64, b: &u64| (a ^ b) & self.mask == 0;
        if keys.iter().enumerate().any(|(i, a)| keys[..i].iter().any(|b| same(a, b))) {
            return false;
        }
        self.grown = true;
        for i in 1..=core::mem::take(&mut self.listed) {
            self.put_tree(self.few[i]);
        }
        self.put_tree(key)
    }
    /// A port that had none has an arrival: on its way up nothing can become larger, so that no level has to ask what lies beside it, nor
    /// waits for the one below.
    #[inline(always)]
    fn add(&mut self, mut place: usize, key: u64) {
        while let Some(group) = self.groups.get_mut(place / 4) {
            let least = &mut group[place % 4];
            *least = key.min(*least);
            place = (place / 4).wrapping_sub(1);
        }
        self.least = self.least.min(key);
    }
    #[inline(always)]
    fn set(&mut self, port: u64, key: u64) {
        let (mut place, mut least) = (self.leaves + port as usize, key);
        let mut risen = [key; 2];
        // There is no group above the root.
        while let Some(group) = self.groups.get_mut(place / 4) {
            let i = place % 4;
            group[i] = least;
            // The others first: the way up waits for nothing but the least of the level below.
            let others = group[i ^ 1].min(group[i ^ 2]).min(group[i ^ 3]);
            risen = [least, risen[0]];
            least = least.min(others);
            place = (place / 4).wrapping_sub(1);
        }
        (self.least, self.risen) = (least, risen);
    }
    #[cold]
    #[inline(never)]
    fn rebase(&mut self, at: u64) {
        if self.hole != FULL {
            let port = core::mem::replace(&mut self.hole, FULL);
            self.set(port, u64::MAX);
        }
        // Every pending arrival lies within the longest flight of now, so the new epoch is below them all.
        let to = at - span(self.bits) / 4;
        let by = (to - self.epoch) << self.bits;
        let few = &mut self.few[1..=self.listed];
        let keys =
            self.groups.iter_mut().flatten().chain(&mut self.risen).chain([&mut self.least]).chain(few);
        for key in keys.filter(|key| **key != u64::MAX) {
            assert!(*key >= by, "an arrival lies further ahead than a link may be long");
            *key -= by;
        }
        self.epoch = to;
    }
}
