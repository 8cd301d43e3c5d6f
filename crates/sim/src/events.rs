//! What happens next: packet arrivals in one heap, everything else in another.
//!
//! Order of events at the same picosecond, written down because drop counts depend on it:
//!
//! 1. departures from a port happen before anything else looks at that port (a packet whose last bit leaves
//!    at t makes room for a packet that arrives at t);
//! 2. packet arrivals, by number of the port they left;
//! 3. deadlines: link controllers, pause frames, shared buffers, each by number; network cards, senders, receivers, each by flow;
//!    changes of links, looks for deadlocks;
//! 4. workloads, by position in the scenario;
//! 5. the sampler.
//!
//! [`Ties::Reversed`] turns the order within 2, 3 and 4 round: arrivals by falling port number; deadlines by falling
//! number, and receivers, senders, network cards, shared buffers, pause frames, link controllers; workloads from the last to the first. The
//! steps themselves keep their order. Connections are numbered as they are opened and draw their random numbers by
//! that number: where two workloads open some at the same picosecond, those numbers change places too. What one
//! workload does at one time, it does in its own order.

use penstock_units::Time;

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

/// Next arrival of every port that has packets on its way: a 4-ary heap of packed `u64` keys (time since an
/// epoch, port). A port has at most one entry, the head of its ring.
pub struct Arrivals {
    keys: Vec<u64>,
    /// Low bits of a key that hold the port: as few as the network needs, so that times reach far.
    bits: u32,
    mask: u64,
    epoch: u64,
    /// The root has been taken and not yet been replaced: the next push goes there, one sift instead of two.
    hole: bool,
    flip: u64,
}

impl Arrivals {
    /// An empty heap for a network of so many ports.
    pub fn new(ties: Ties, ports: usize) -> Arrivals {
        let bits = port_bits(ports);
        let mask = (1 << bits) - 1;
        let flip = if ties == Ties::Reversed { mask } else { 0 };
        Arrivals { keys: Vec::new(), bits, mask, epoch: 0, hole: false, flip }
    }
    /// Time of the next arrival.
    #[inline]
    pub fn peek(&mut self) -> Time {
        if self.hole {
            self.close_hole();
        }
        match self.keys.first() {
            Some(key) => Time(self.epoch + (key >> self.bits)),
            None => Time::NEVER,
        }
    }
    /// The port of the next arrival, which stays; call only when `peek` answered a time.
    #[inline]
    pub fn first(&self) -> u32 {
        debug_assert!(!self.hole);
        ((self.keys[0] & self.mask) ^ self.flip) as u32
    }
    /// The port of the next arrival; call only when `peek` answered a time.
    #[inline]
    pub fn take(&mut self) -> u32 {
        debug_assert!(!self.hole);
        self.hole = true;
        ((self.keys[0] & self.mask) ^ self.flip) as u32
    }
    /// The port that will probably be next, for a prefetch; `None` when that is not known.
    #[inline]
    pub fn upcoming(&self) -> Option<u32> {
        let key = self.keys.first().filter(|_| !self.hole)?;
        Some(((key & self.mask) ^ self.flip) as u32)
    }
    /// Announces the next arrival of `port`.
    #[inline]
    pub fn push(&mut self, at: Time, port: u32) {
        if at.0 - self.epoch >= span(self.bits) / 2 {
            self.rebase(at.0);
        }
        let key = (at.0 - self.epoch) << self.bits | (u64::from(port) ^ self.flip);
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
    #[inline]
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

/// Who asked to be woken up.
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
}

/// Bits of a key that hold the number; 34 above them hold the order.
const NUMBER_BITS: u32 = 27;

/// Wake-ups in order of (time, kind, order, number). Entries are never removed, only ignored when stale.
pub struct Deadlines {
    heap: std::collections::BinaryHeap<std::cmp::Reverse<u128>>,
    /// What kind, order and number are combined with: all ones turn their order round.
    flip: u64,
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
        Deadlines { heap: Default::default(), flip: if ties == Ties::Reversed { u64::MAX } else { 0 } }
    }
    /// Time of the next wake-up.
    #[inline]
    pub fn peek(&self) -> Time {
        self.heap.peek().map_or(Time::NEVER, |k| Time((k.0 >> 64) as u64))
    }
    #[inline]
    fn key(&self, at: Time, kind: Wake, order: u64, number: u32) -> u128 {
        debug_assert!(order < 1 << 34 && number < 1 << NUMBER_BITS);
        let who = (kind as u64) << 61 | order << NUMBER_BITS | u64::from(number);
        u128::from(at.0) << 64 | u128::from(who ^ self.flip)
    }
    /// Asks for a wake-up.
    pub fn push(&mut self, at: Time, kind: Wake, number: u32) {
        self.heap.push(std::cmp::Reverse(self.key(at, kind, 0, number)));
    }
    /// Asks for a wake-up of a host, for the sake of a connection: wake-ups of all hosts at one time come in the order of (what, flow),
    /// `what` below 4. Nothing is asked when an earlier one is pending.
    pub fn push_host(&mut self, at: Time, (what, flow): (u8, u32), host: u32, pending: &mut HostWakes) {
        let key = self.key(at, Wake::Host, u64::from(what) << 32 | u64::from(flow), host);
        if pending.keys.last().is_none_or(|next| key < *next) {
            pending.keys.push(key);
            self.heap.push(std::cmp::Reverse(key));
        }
    }
    /// The next wake-up.
    pub fn pop(&mut self) -> Option<(Time, Wake, u32)> {
        let key = self.heap.pop()?.0;
        let who = key as u64 ^ self.flip;
        let kind = match who >> 61 {
            0 => Wake::Link,
            1 => Wake::Pause,
            2 => Wake::Node,
            3 => Wake::Host,
            4 => Wake::Change,
            _ => Wake::Watch,
        };
        Some((Time((key >> 64) as u64), kind, who as u32 & ((1 << NUMBER_BITS) - 1)))
    }
}

/// The wake-ups an endpoint has pending, so that a deadline that only moves later (a retransmission timer
/// restarted by every ACK) costs nothing, and a near one (pacing) does not pile up copies of a far one.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    near: Time,
    far: Time,
}

impl Default for Pending {
    fn default() -> Self {
        Pending { near: Time::NEVER, far: Time::NEVER }
    }
}

impl Pending {
    /// True when a new wake-up has to be pushed for a deadline at `at`.
    #[inline]
    pub fn arm(&mut self, at: Time) -> bool {
        if at >= self.near {
            return false;
        }
        if self.far == Time::NEVER {
            self.far = self.near;
        }
        self.near = at;
        true
    }
    /// True when the wake-up that has come at `at` is one of the pending ones.
    pub fn fired(&mut self, at: Time) -> bool {
        if at == self.near {
            self.near = self.far;
            self.far = Time::NEVER;
            true
        } else if at == self.far {
            self.far = Time::NEVER;
            true
        } else {
            false
        }
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
    #[test]
    fn a_far_deadline_is_pushed_once() {
        let mut p = Pending::default();
        assert!(p.arm(Time(200)));
        for t in 1..100 {
            assert!(p.arm(Time(t)), "the near one is new");
            assert!(p.fired(Time(t)));
            assert!(!p.arm(Time(200 + t)), "the far one is still pending");
        }
        assert!(p.fired(Time(200)));
    }
}
