//! Next arrivals of a small network: a tournament tree.

use super::keys::span;

/// Places for arrivals, and above them the least of every four: packed `u64` keys as in the heap, `u64::MAX` for none.
///
/// A heap compares what it moves, and a processor guesses these branches wrong once or twice per packet. A way from a place to the root has
/// no branch on the data and always the same length. Groups of two cost 5 % fewer instructions and 1 to 2 % more time: the way is twice as
/// long, and every level waits for the one below.
///
/// An arrival may be in any place: the next one after one that was taken goes to its place, whatever port it is of, and that is one way up. So the tree
/// is as high as there are packets next at one time, not as there are ports; it grows when it is full, and is low again when it has been empty.
pub(super) struct Tree {
    /// Groups of four, the root first: the least of a group is in the place of the group before it, counted over all places.
    groups: Vec<[u64; 4]>,
    /// The first place that has an arrival of its own.
    leaves: usize,
    /// Such places that have none.
    free: Vec<u32>,
    /// With so many of these a lower tree does.
    too_many: usize,
    /// Place of each port's arrival, [`NONE`] where it has none.
    places: Box<[u32]>,
    /// The least of all.
    least: u64,
    /// What the root has in the place that was changed last, and what the group below it has in the one that was.
    risen: [u64; 2],
    /// Low bits of a key that hold the port.
    bits: u32,
    mask: u64,
    epoch: u64,
    /// Times so far beyond the epoch begin another.
    reach: u64,
    /// Place of the arrival that has been taken, [`NONE`] when the next one has gone there.
    hole: u32,
    /// There are two arrivals at most, the least of all and this one, which have no places: where so few packets are under way, no more has to be put
    /// in order.
    second: u64,
    few: bool,
}

const NONE: u32 = u32::MAX;

/// Where the own places of the lowest tree begin, which has sixteen: one of four would mostly be about to grow.
const LOWEST: usize = 0;

impl Tree {
    pub fn new(bits: u32) -> Tree {
        let mut tree = Tree {
            groups: Vec::new(),
            leaves: 0,
            free: Vec::new(),
            too_many: 0,
            places: vec![NONE; 1 << bits].into(),
            least: u64::MAX,
            risen: [u64::MAX; 2],
            bits,
            mask: (1 << bits) - 1,
            epoch: 0,
            reach: span(bits) / 2,
            hole: NONE,
            second: u64::MAX,
            few: true,
        };
        tree.plant(LOWEST);
        tree
    }
    /// Makes an empty tree whose own places begin with `leaves`.
    fn plant(&mut self, leaves: usize) {
        // Each level has four times as many as the one above.
        let level = 3 * leaves + 4;
        self.groups.clear();
        self.groups.resize((leaves + level) / 4, [u64::MAX; 4]);
        self.leaves = leaves;
        self.free.clear();
        self.free.extend((leaves as u32..(leaves + level) as u32).rev());
        // One level less has a quarter of the places; it is not to be full again at once.
        self.too_many = if leaves == LOWEST { usize::MAX } else { level - level / 8 };
        (self.least, self.risen, self.hole) = (u64::MAX, [u64::MAX; 2], NONE);
    }
    /// Puts all arrivals into a tree whose own places begin with `leaves`.
    #[cold]
    #[inline(never)]
    fn replant(&mut self, leaves: usize) {
        let mut all: Vec<u64> = self.groups.iter().flatten().skip(self.leaves).copied().collect();
        all.retain(|key| *key != u64::MAX);
        self.plant(leaves);
        for key in all {
            let place = self.free.pop().expect("there is room for all");
            self.places[(key & self.mask) as usize] = place;
            self.add(place, key);
        }
    }
    /// Time of the next arrival, `u64::MAX` when there is none.
    #[inline(always)]
    pub fn peek(&mut self) -> u64 {
        match self.peek_key() {
            u64::MAX => u64::MAX,
            key => self.epoch + (key >> self.bits),
        }
    }
    #[inline(always)]
    fn peek_key(&mut self) -> u64 {
        if self.hole != NONE {
            self.close();
        }
        self.least
    }
    /// Nothing has come to the place of the arrival that was taken.
    #[inline(always)]
    fn close(&mut self) {
        let place = core::mem::replace(&mut self.hole, NONE);
        self.set(place, u64::MAX);
        self.free.push(place);
        if self.least == u64::MAX {
            (self.few, self.risen) = (true, [u64::MAX; 2]);
        }
        if self.free.len() >= self.too_many {
            self.replant(self.leaves / 4 - 1);
        }
    }
    /// Its port.
    #[inline(always)]
    pub fn first(&self) -> u64 {
        debug_assert!(self.hole == NONE);
        self.coming()
    }
    #[inline(always)]
    pub fn coming(&self) -> u64 {
        self.least & self.mask
    }
    /// The port that has got to the root last, mostly among the next few, and the one that has got to the level below, among the next dozen.
    #[inline(always)]
    pub fn risen(&self) -> [u64; 2] {
        self.risen.map(|key| key & self.mask)
    }
    #[inline(always)]
    pub fn take(&mut self) -> u64 {
        let port = self.first();
        if self.few {
            self.take_of_few();
            return port;
        }
        self.hole = core::mem::replace(&mut self.places[port as usize], NONE);
        port
    }
    /// [`Self::peek`] and [`Self::take`] in one, of an arrival no later than `until`.
    #[inline(always)]
    pub fn take_until(&mut self, until: u64) -> Option<(u64, u64)> {
        let key = self.peek_key();
        let (at, port) = (self.epoch + (key >> self.bits), key & self.mask);
        // A key of all ones may be any time.
        if at > until || key == u64::MAX {
            return None;
        }
        if self.few {
            self.take_of_few();
            return Some((at, port));
        }
        self.hole = core::mem::replace(&mut self.places[port as usize], NONE);
        Some((at, port))
    }
    /// Takes in an arrival, unless its port has one already.
    #[inline(always)]
    pub fn put(&mut self, at: u64, port: u64) -> bool {
        if at - self.epoch >= self.reach {
            self.rebase(at);
        }
        let key = (at - self.epoch) << self.bits | port;
        if self.few {
            if [self.least, self.second].iter().any(|of| *of != u64::MAX && of & self.mask == port) {
                return false;
            }
            if self.second == u64::MAX {
                (self.least, self.second) = (key.min(self.least), key.max(self.least));
                return true;
            }
            self.make_room();
        }
        let own = &mut self.places[port as usize];
        if *own != NONE {
            return false;
        }
        if self.hole != NONE {
            *own = core::mem::replace(&mut self.hole, NONE);
            let place = *own;
            self.set(place, key);
            return true;
        }
        if self.free.is_empty() {
            self.replant(4 * self.leaves + 4);
        }
        let place = self.free.pop().expect("there are four times as many");
        self.places[port as usize] = place;
        self.add(place, key);
        true
    }
    #[inline(always)]
    fn take_of_few(&mut self) {
        (self.least, self.second) = (self.second, u64::MAX);
    }
    /// Two arrivals get places, as there is a third.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self) {
        let both = [self.least, self.second];
        (self.least, self.second, self.few) = (u64::MAX, u64::MAX, false);
        for key in both {
            let place = self.free.pop().expect("all places are free");
            self.places[(key & self.mask) as usize] = place;
            self.add(place, key);
        }
    }
    /// Into a place without an arrival: on its way up nothing can become larger, so that no level has to ask what lies beside it, nor
    /// waits for the one below.
    #[inline(always)]
    fn add(&mut self, place: u32, key: u64) {
        let mut place = place as usize;
        while let Some(group) = self.groups.get_mut(place / 4) {
            let least = &mut group[place % 4];
            *least = key.min(*least);
            place = (place / 4).wrapping_sub(1);
        }
        if key < self.least {
            self.lead(key);
        }
    }
    #[inline(always)]
    fn set(&mut self, own: u32, key: u64) {
        let (mut place, mut least) = (own as usize, key);
        let (mut risen, mut rest) = ([key; 2], u64::MAX);
        // There is no group above the root.
        while let Some(group) = self.groups.get_mut(place / 4) {
            let i = place % 4;
            group[i] = least;
            // The others first: the way up waits for nothing but the least of the level below.
            let others = group[i ^ 1].min(group[i ^ 2]).min(group[i ^ 3]);
            risen = [least, risen[0]];
            (least, rest) = (least.min(others), rest.min(others));
            place = (place / 4).wrapping_sub(1);
        }
        (self.least, self.risen) = (rest, risen);
        if key < rest {
            self.lead(key);
            if rest == u64::MAX {
                self.leave_place(own);
            }
        }
    }
    /// The arrival in a place, which is the only one, goes without it.
    #[cold]
    #[inline(never)]
    fn leave_place(&mut self, own: u32) {
        let mut place = own as usize;
        while let Some(group) = self.groups.get_mut(place / 4) {
            group[place % 4] = u64::MAX;
            place = (place / 4).wrapping_sub(1);
        }
        let port = self.coming();
        self.places[port as usize] = NONE;
        self.free.push(own);
        // What has risen is not looked after while there are few.
        (self.few, self.risen) = (true, [u64::MAX; 2]);
    }
    /// The arrival is the next of all. What comes is mostly later than something else: a processor that guesses so need not wait for its time to know what is
    /// next, and wrong guesses cost less than that.
    #[cold]
    #[inline(never)]
    fn lead(&mut self, key: u64) {
        self.least = key;
    }
    #[cold]
    #[inline(never)]
    fn rebase(&mut self, at: u64) {
        if self.hole != NONE {
            self.close();
        }
        // Every pending arrival lies within the longest flight of now, so the new epoch is below them all.
        let to = at - span(self.bits) / 4;
        let by = (to - self.epoch) << self.bits;
        let keys = self
            .groups
            .iter_mut()
            .flatten()
            .chain(&mut self.risen)
            .chain([&mut self.least, &mut self.second]);
        for key in keys.filter(|key| **key != u64::MAX) {
            assert!(*key >= by, "an arrival lies further ahead than a link may be long");
            *key -= by;
        }
        self.epoch = to;
    }
}
