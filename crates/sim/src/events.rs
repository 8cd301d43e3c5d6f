//! What happens next: packet arrivals in one queue (`arrivals.rs`), everything else in another.
//!
//! Order of events at the same picosecond, written down because drop counts depend on it:
//!
//! 1. departures from a port happen before anything else looks at that port (a packet whose last bit leaves
//!    at t makes room for a packet that arrives at t);
//! 2. packet arrivals, by number of the port they left;
//! 3. deadlines: link controllers, pause frames, shared buffers, each by number; network cards, senders, receivers, each by flow;
//!    changes of links, looks for deadlocks, removals of receiving ends, each by flow;
//! 4. workloads, by position in the scenario;
//! 5. the sampler.
//!
//! [`Ties::Reversed`] reverses the order within steps 2, 3 and 4. Arrivals come by falling port number. Deadlines come by
//! falling number, and their kinds in the reverse order. Workloads come from the last to the first. The steps keep their
//! order, and so do the actions of one workload at one time. The number of a flow is that of `numbers`: how many flows its
//! host had opened before, then the host.

pub use crate::arrivals::{longest_flight_ps, Arrivals, Ties, MAX_PORTS};
pub use penstock_host::timers::Pending;
use penstock_units::{Dur, Time};

/// The owner of a deadline.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Wake {
    /// Link controller of a port.
    Link = 0,
    /// A pause frame that takes effect at a port.
    Pause = 1,
    /// A node whose shared buffer wants a look.
    Node = 2,
    /// A host: one of its connections, or its network card.
    Host = 3,
    /// A link that fails, recovers or gets another rate, by its position among the changes.
    Change = 4,
    /// A look for ports that wait for each other for ever.
    Watch = 5,
    /// A receiving end whose sender is done is removed, by flow.
    Remove = 6,
}

/// Bits of a key that hold the number; 34 above them hold the order.
const NUMBER_BITS: u32 = 27;

/// Wake-ups in order of (time, kind, order, number). Entries are never removed, only ignored when stale.
pub struct Deadlines {
    heap: Heap,
    /// When the next one comes.
    next: Time,
    /// What kind, order and number are combined with: all ones turn their order round.
    tie_mask: u64,
    /// Wake-ups that concern all nodes at once, changes and looks, the next one last.
    of_all: Vec<u128>,
    /// Pause frames among all these.
    pauses: u32,
    /// Wake-ups before this are those of the node whose turn it is, as long as a window is worked through node by node; 0 otherwise.
    limit: u128,
    /// These, the next one last.
    of_node: Vec<u128>,
    /// Tie order of the node of every port, and of every node (`shuffle.rs`).
    #[cfg(debug_assertions)]
    ranks: Option<Box<(Vec<u32>, Vec<u32>)>>,
}

/// Keys, of which the least is taken first.
///
/// The owner of a deadline mostly sets the next one at once. The place of the key that was taken therefore stays empty until
/// the next call. A new key is put there and sifted down once, which saves sifting the last key down and the new one up.
#[derive(Default)]
struct Heap {
    /// A heap of two children each, but for the first key while that is taken.
    keys: Vec<u128>,
    /// The first key is taken.
    taken: bool,
}

impl Heap {
    /// The least key.
    #[inline]
    fn least(&self) -> Option<u128> {
        match (self.taken, &self.keys[..]) {
            (false, keys) => keys.first().copied(),
            (true, [_, a, b, ..]) => Some(*a.min(b)),
            (true, keys) => keys.get(1).copied(),
        }
    }
    #[inline]
    fn push(&mut self, key: u128) {
        if self.taken {
            self.taken = false;
            return self.sink(key);
        }
        let mut at = self.keys.len();
        self.keys.push(key);
        while at > 0 && key < self.keys[(at - 1) / 2] {
            self.keys[at] = self.keys[(at - 1) / 2];
            at = (at - 1) / 2;
        }
        self.keys[at] = key;
    }
    #[inline]
    fn pop(&mut self) -> Option<u128> {
        if self.taken {
            self.taken = false;
            let last = self.keys.pop().expect("the first key is there");
            if !self.keys.is_empty() {
                self.sink(last);
            }
        }
        let first = self.keys.first().copied();
        self.taken = first.is_some();
        first
    }
    /// Puts a key in the place of the first one, and moves it down to its own.
    #[inline]
    fn sink(&mut self, key: u128) {
        let keys = &mut self.keys[..];
        let mut at = 0;
        while let Some(&[a, b]) = keys.get(2 * at + 1..2 * at + 3) {
            let least = a.min(b);
            if key <= least {
                keys[at] = key;
                return;
            }
            keys[at] = least;
            at = 2 * at + 1 + usize::from(b < a);
        }
        // One may have a single child.
        if let Some(last) = keys.get(2 * at + 1).copied().filter(|last| *last < key) {
            keys[at] = last;
            at = 2 * at + 1;
        }
        keys[at] = key;
    }
}

/// The wake-ups a host has pending, the next one last. A deadline that only moves later costs nothing: the wake-up that is there finds
/// nothing due and the host asks again.
#[derive(Default)]
pub struct HostWakes {
    keys: Vec<u128>,
}

impl HostWakes {
    /// When the next one comes.
    #[inline]
    pub fn next(&self) -> Time {
        self.keys.last().map_or(Time::NEVER, |key| Time((key >> 64) as u64))
    }
    /// The next one has come.
    #[inline]
    pub fn fired(&mut self) {
        self.keys.pop();
    }
}

impl Deadlines {
    /// No wake-ups yet.
    pub fn new(ties: Ties) -> Deadlines {
        let tie_mask = if ties == Ties::Reversed { u64::MAX } else { 0 };
        Deadlines {
            heap: Default::default(),
            next: Time::NEVER,
            tie_mask,
            of_all: Vec::new(),
            pauses: 0,
            limit: 0,
            of_node: Vec::new(),
            #[cfg(debug_assertions)]
            ranks: None,
        }
    }
    /// Time of the next wake-up.
    #[inline]
    pub fn peek(&self) -> Time {
        self.next
    }
    fn put(&mut self, key: u128) {
        if key < self.limit {
            return insert(&mut self.of_node, key);
        }
        self.next = self.next.min(time_of(key));
        self.heap.push(key);
    }
    fn put_for_all(&mut self, key: u128) {
        self.next = self.next.min(time_of(key));
        insert(&mut self.of_all, key);
    }
    /// The least key of all.
    fn least(&self) -> Option<u128> {
        match (self.heap.least(), self.of_all.last().copied()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
    /// Simultaneous deadlines of a kind come in the order of these ranks of their nodes: for every port, that of its node, and for every node.
    #[cfg(debug_assertions)]
    pub(crate) fn rank(&mut self, of_ports: Vec<u32>, of_nodes: Vec<u32>) {
        let there: Vec<_> = std::iter::from_fn(|| self.pop()).collect();
        self.ranks = Some(Box::new((of_ports, of_nodes)));
        there.into_iter().for_each(|(at, kind, number)| self.push(at, kind, number));
    }
    #[inline]
    fn key(&self, at: Time, kind: Wake, order: u64, number: u32) -> u128 {
        #[cfg(debug_assertions)]
        let order = match (&self.ranks, kind) {
            (Some(ranks), Wake::Link) => u64::from(ranks.0[number as usize]),
            (Some(ranks), Wake::Pause) => {
                u64::from(ranks.0[crate::network::pause_of(at, number).port as usize])
            }
            (Some(ranks), Wake::Node | Wake::Host) => u64::from(ranks.1[number as usize]),
            _ => order,
        };
        debug_assert!(order < 1 << 34 && number < 1 << NUMBER_BITS);
        let who = (kind as u64) << 61 | order << NUMBER_BITS | u64::from(number);
        u128::from(at.0) << 64 | u128::from(who ^ self.tie_mask)
    }
    /// What orders a wake-up of a host among simultaneous ones, as in [`Self::first`].
    pub fn order_of(&self, (what, flow): (u8, u32), host: u32) -> u64 {
        self.key(Time::ZERO, Wake::Host, u64::from(what) << 32 | u64::from(flow), host) as u64
    }
    /// What orders the removal of a receiving end among simultaneous ones.
    pub fn order_of_removal(&self, flow: u32) -> u64 {
        self.key(Time::ZERO, Wake::Remove, u64::from(flow), 0) as u64
    }
    /// Asks for the removal of the receiving end of a flow.
    pub fn push_removal(&mut self, at: Time, flow: u32) {
        self.put(self.key(at, Wake::Remove, u64::from(flow), 0));
    }
    /// What orders a change of links among simultaneous ones, by its number.
    pub fn order_of_change(&self, number: u32) -> u64 {
        self.key(Time::ZERO, Wake::Change, 0, number) as u64
    }
    /// Asks for a wake-up.
    pub fn push(&mut self, at: Time, kind: Wake, number: u32) {
        let key = self.key(at, kind, 0, number);
        match kind {
            Wake::Change | Wake::Watch => self.put_for_all(key),
            _ => {
                self.pauses += u32::from(kind == Wake::Pause);
                self.put(key);
            }
        }
    }
    /// Asks for a wake-up of a host, for the sake of a connection: wake-ups of all hosts at one time come in the order of (what, flow),
    /// `what` below 4. Nothing is asked when an earlier one is pending.
    pub fn push_host(&mut self, at: Time, (what, flow): (u8, u32), host: u32, pending: &mut HostWakes) {
        let key = self.key(at, Wake::Host, u64::from(what) << 32 | u64::from(flow), host);
        if pending.keys.last().is_none_or(|next| key < *next) {
            pending.keys.push(key);
            self.put(key);
        }
    }
    /// The next wake-up: kind, what orders it among simultaneous ones, number; of a removal the flow.
    pub fn first(&self) -> Option<(Wake, u64, u32)> {
        let order = self.least()? as u64;
        let (kind, number) = Deadlines::whose(order ^ self.tie_mask);
        Some((kind, order, number))
    }
    fn whose(who: u64) -> (Wake, u32) {
        let kind = match who >> 61 {
            0 => Wake::Link,
            1 => Wake::Pause,
            2 => Wake::Node,
            3 => Wake::Host,
            4 => Wake::Change,
            5 => Wake::Watch,
            _ => Wake::Remove,
        };
        if kind == Wake::Remove {
            return (kind, (who >> NUMBER_BITS) as u32);
        }
        (kind, who as u32 & ((1 << NUMBER_BITS) - 1))
    }
    /// The next wake-up.
    pub fn pop(&mut self) -> Option<(Time, Wake, u32)> {
        let of_all = self.of_all.last().copied().filter(|key| self.heap.least().is_none_or(|own| *key < own));
        let key = match of_all {
            Some(_) => self.of_all.pop()?,
            None => self.heap.pop()?,
        };
        self.next = self.least().map_or(Time::NEVER, time_of);
        let (kind, number) = Deadlines::whose(key as u64 ^ self.tie_mask);
        self.pauses -= u32::from(kind == Wake::Pause);
        Some((time_of(key), kind, number))
    }

    // ---- node by node ----------------------------------------------------------------------------------

    /// The end of a window that ends with `end`, or with the next wake-up of all nodes before that: for [`Self::pop_below`].
    pub(crate) fn limit(&self, end: Time) -> u128 {
        let after = u128::from(end.0 + 1) << 64;
        self.of_all.last().map_or(after, |key| after.min(*key))
    }
    /// The next wake-up of a node before `limit`: its key, and whose it is.
    pub(crate) fn pop_below(&mut self, limit: u128) -> Option<(u128, Wake, u32)> {
        let key = self.heap.least().filter(|key| *key < limit)?;
        self.heap.pop();
        self.next = self.least().map_or(Time::NEVER, time_of);
        let (kind, number) = Deadlines::whose(key as u64 ^ self.tie_mask);
        self.pauses -= u32::from(kind == Wake::Pause);
        Some((key, kind, number))
    }
    /// Puts the looks for deadlocks off to after `end` that come every `interval`, unless a pause frame is under way.
    pub(crate) fn put_looks_off(&mut self, end: Time, interval: Dur) {
        while let Some(key) = self.of_all.last().copied().filter(|_| self.pauses == 0) {
            if time_of(key) > end || Deadlines::whose(key as u64 ^ self.tie_mask).0 != Wake::Watch {
                return;
            }
            self.of_all.pop();
            self.put_for_all(self.key(time_of(key) + interval, Wake::Watch, 0, 0));
            self.next = self.least().map_or(Time::NEVER, time_of);
        }
    }
    /// It is the turn of a node with these wake-ups before `limit`, in order. What it asks for before that follows at once.
    pub(crate) fn begin_node(&mut self, limit: u128, due: &mut Vec<u128>) {
        debug_assert!(self.of_node.is_empty());
        self.limit = limit;
        due.reverse();
        std::mem::swap(&mut self.of_node, due);
    }
    /// No node has its turn.
    pub(crate) fn end_nodes(&mut self) {
        debug_assert!(self.of_node.is_empty(), "a node asked for a wake-up of another within a window");
        self.limit = 0;
    }
    /// Time of the next wake-up of the node whose turn it is.
    #[inline(always)]
    pub(crate) fn peek_of_node(&self) -> Time {
        self.of_node.last().map_or(Time::NEVER, |key| time_of(*key))
    }
    /// That wake-up: when, what orders it among simultaneous ones, and whose it is.
    pub(crate) fn pop_of_node(&mut self) -> Option<(Time, u64, Wake, u32)> {
        let key = self.of_node.pop()?;
        let (kind, number) = Deadlines::whose(key as u64 ^ self.tie_mask);
        Some((time_of(key), key as u64, kind, number))
    }
}

/// When a wake-up is.
#[inline(always)]
fn time_of(key: u128) -> Time {
    Time((key >> 64) as u64)
}
/// Puts a key in its place among those of a list, of which the next one is the last.
fn insert(keys: &mut Vec<u128>, key: u128) {
    let place = keys.partition_point(|other| *other > key);
    keys.insert(place, key);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reversed_ties_turn_simultaneous_deadlines_round_and_no_others() {
        // Time, kind, (what, flow), number.
        let all = [
            (1, Wake::Link, (0, 0), 5),
            (2, Wake::Link, (0, 0), 0),
            (2, Wake::Host, (1, 3), 9),
            (2, Wake::Host, (1, 8), 2),
            (2, Wake::Host, (2, 1), 4),
            (3, Wake::Pause, (0, 0), (1 << 24) - 1),
        ];
        let order = |ties| {
            let mut deadlines = Deadlines::new(ties);
            for (at, kind, order, n) in all {
                match kind {
                    Wake::Host => deadlines.push_host(Time(at), order, n, &mut HostWakes::default()),
                    _ => deadlines.push(Time(at), kind, n),
                }
            }
            std::iter::from_fn(|| deadlines.pop()).map(|(at, kind, n)| (at.0, kind, n)).collect::<Vec<_>>()
        };
        let all = all.map(|(at, kind, _, n)| (at, kind, n));
        assert_eq!(order(Ties::Forward), all);
        assert_eq!(order(Ties::Reversed), [all[0], all[4], all[3], all[2], all[1], all[5]]);
    }
    /// Against a list that is sorted: keys that come and go in any order, as many or few as it may be.
    #[test]
    fn the_least_key_comes_first_whatever_was_taken_before() {
        let mut rng = penstock_core::Stream::new(1, 0, penstock_core::rng::Entity::Host, 0);
        let (mut heap, mut sorted) = (Heap::default(), Vec::new());
        for turn in 0..20_000u32 {
            // Now it grows, now it shrinks, down to nothing.
            let puts = rng.below(100) < if turn / 500 % 2 == 0 { 60 } else { 40 };
            if puts {
                let key = u128::from(rng.below(1000));
                heap.push(key);
                sorted.insert(sorted.partition_point(|k| *k > key), key);
            } else {
                assert_eq!(heap.pop(), sorted.pop());
            }
            assert_eq!(heap.least(), sorted.last().copied());
        }
    }
    #[test]
    fn a_host_asks_again_only_for_what_comes_earlier() {
        let (mut deadlines, mut pending) = (Deadlines::new(Ties::Forward), HostWakes::default());
        let ask = |d: &mut Deadlines, p: &mut HostWakes, at, flow| d.push_host(Time(at), (1, flow), 7, p);
        for (at, flow) in [(200, 4), (200, 5), (300, 0), (50, 9), (50, 8), (60, 1)] {
            ask(&mut deadlines, &mut pending, at, flow);
        }
        let mut found = Vec::new();
        while let Some((at, kind, host)) = deadlines.pop() {
            assert_eq!((pending.next(), kind, host), (at, Wake::Host, 7));
            pending.fired();
            found.push(at.0);
        }
        assert_eq!(found, [50, 50, 200]);
    }
}
