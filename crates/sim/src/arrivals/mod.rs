//! The event queue of packet arrivals: a tree over the ports with packets in flight, or a calendar queue in a larger network, or a
//! timing wheel in a large one. `events.rs` defines the order of simultaneous events. The module depends on times only, so that the
//! benchmark of the fabric can include it.

mod calendar;
mod heap;
mod keys;
mod slots;
mod tree;
mod wheel;

use calendar::Calendar;
use heap::Heap;
use keys::port_bits;
pub use keys::{longest_flight_ps, Ties, MAX_PORTS};
use penstock_units::{Dur, Time};
pub(crate) use slots::{Kinds, Slots};
use tree::Tree;
use wheel::Wheel;

/// The next arrival of every port with packets in flight, in the order (time, port).
///
/// Few ports are in a tree. Some hundred are in a calendar, whose slots are so short that most are empty; if too many arrivals
/// share a slot, the calendar is replaced by a tree. Many ports are in a timing wheel: an arrival is put into the slot of its time,
/// and a slot is sorted shortly before its turn. A heap takes arrivals that the others cannot hold. These are far ahead, or
/// earlier than what was sorted or taken, or the second arrival of a port that reorders. The choice has no effect on results.
pub struct Arrivals {
    front: Front,
    heap: Heap,
    /// The arrival that `peek` saw is in front of the heap.
    in_front: bool,
    /// What port numbers are combined with in keys: all ones turn the order of simultaneous arrivals round.
    tie_mask: u64,
    /// Tie order of every port, and the port at every place of that order (`shuffle.rs`).
    #[cfg(debug_assertions)]
    ranks: Option<Box<(Vec<u32>, Vec<u32>)>>,
}

// One per run: the room that the smaller one wastes does not matter.
#[allow(clippy::large_enum_variant)]
enum Front {
    Tree(Tree),
    Calendar(Calendar),
    Wheel(Wheel),
    Slots(Slots),
}

/// Where there is no tree.
impl Front {
    #[inline(always)]
    fn take_until(&mut self, until: u64) -> Option<(u64, u64)> {
        match self {
            Front::Calendar(calendar) => calendar.take_until(until),
            Front::Wheel(wheel) => {
                if wheel.is_low() {
                    wheel.turn();
                }
                wheel.take_until(until)
            }
            Front::Tree(_) | Front::Slots(_) => unreachable!("{NO_ORDER}"),
        }
    }
    #[inline(always)]
    fn put(&mut self, at: u64, number: u64, port: u32) -> bool {
        match self {
            Front::Calendar(calendar) => calendar.put(at, number),
            Front::Wheel(wheel) => wheel.put(at, number),
            Front::Slots(slots) => {
                slots.put(at, port);
                true
            }
            Front::Tree(_) => unreachable!("a tree is asked first"),
        }
    }
}

/// See [`Arrivals::ahead`].
pub struct Ahead<'a, const N: usize> {
    keys: &'a [u64; N],
    mask: u64,
    tie_mask: u64,
}

impl<const N: usize> Ahead<'_, N> {
    /// The port that comes `turns` arrivals after the next one, less than `N`.
    #[inline(always)]
    pub fn port(&self, turns: usize) -> u32 {
        ((self.keys[N - 1 - turns] & self.mask) ^ self.tie_mask) as u32
    }
}

const NO_ORDER: &str = "who takes windows does not ask for single arrivals";

/// Networks of at least so many ports have a wheel.
const WHEEL_FROM: usize = 1024;
/// Networks of at least so many ports have a calendar until then. Below, the tree is low.
const CALENDAR_FROM: usize = 128;

impl Arrivals {
    /// No arrivals yet, in a tree.
    pub fn new(ties: Ties, ports: usize) -> Arrivals {
        Arrivals::behind(Front::Tree(Tree::new(port_bits(ports))), ties, ports)
    }
    /// The queue for a network in which most packets take `flight` or less from the moment they are the next of their port, and whose
    /// ports are `plain`, so that none schedules: it chooses. With ports that schedule a tree was faster than a calendar.
    pub fn within(ties: Ties, ports: usize, flight: Dur, plain: bool) -> Arrivals {
        if ports < WHEEL_FROM {
            return match plain && ports >= CALENDAR_FROM {
                true => {
                    let calendar = Calendar::new(1 << port_bits(ports), flight.0);
                    Arrivals::behind(Front::Calendar(calendar), ties, ports)
                }
                false => Arrivals::new(ties, ports),
            };
        }
        Arrivals::behind(Front::Wheel(Wheel::new(ports, flight.0)), ties, ports)
    }
    fn behind(front: Front, ties: Ties, ports: usize) -> Arrivals {
        let bits = port_bits(ports);
        let tie_mask = if ties == Ties::Reversed { (1 << bits) - 1 } else { 0 };
        Arrivals {
            front,
            heap: Heap::new(bits),
            in_front: false,
            tie_mask,
            #[cfg(debug_assertions)]
            ranks: None,
        }
    }
    /// Simultaneous arrivals come in the order of these ranks, one per port; called before the first arrival.
    #[cfg(debug_assertions)]
    pub(crate) fn rank(&mut self, ranks: Vec<u32>) {
        let mut ports = vec![0; ranks.len()];
        (0u32..).zip(&ranks).for_each(|(port, rank)| ports[*rank as usize] = port);
        self.ranks = Some(Box::new((ranks, ports)));
    }
    /// What orders the arrivals of a port among simultaneous ones.
    #[inline(always)]
    fn number(&self, port: u32) -> u64 {
        #[cfg(debug_assertions)]
        if let Some(ranks) = &self.ranks {
            return u64::from(ranks.0[port as usize]);
        }
        u64::from(port) ^ self.tie_mask
    }
    /// The port of a number.
    #[inline(always)]
    fn port(&self, number: u64) -> u32 {
        #[cfg(debug_assertions)]
        if let Some(ranks) = &self.ranks {
            return ranks.1.get(number as usize).copied().unwrap_or(0);
        }
        (number ^ self.tie_mask) as u32
    }
    /// For a driver that takes all ports of a lookahead window of `length` at once (`take_window`). Windows are counted from time zero.
    /// Ports are taken in `order`.
    pub(crate) fn by_windows(ties: Ties, order: Box<[u32]>, length: Dur) -> Arrivals {
        let ports = order.len();
        Arrivals::behind(Front::Slots(Slots::new(length.0, order)), ties, ports)
    }
    /// Takes the ports whose next arrival is in the window that contains `until`; no arrival is earlier. Each kind of port has a
    /// list, to whose end they are added in the order of simultaneous arrivals. The caller announces those with an arrival later
    /// than `until` again.
    pub(crate) fn take_window<const N: usize>(
        &mut self,
        until: Time,
        kinds: &Kinds<N>,
        ports: &mut [Vec<u32>; N],
    ) {
        let Front::Slots(slots) = &mut self.front else { return };
        let there: [usize; N] = std::array::from_fn(|kind| ports[kind].len());
        slots.take(until.0, kinds, ports);
        if self.tie_mask != 0 {
            ports.iter_mut().zip(there).for_each(|(ports, there)| ports[there..].reverse());
        }
    }
    /// Takes the ports of one kind alone, in any order, of the window that contains `until`.
    pub(crate) fn take_kind<const N: usize>(
        &mut self,
        until: Time,
        kinds: &Kinds<N>,
        kind: usize,
        ports: &mut Vec<u32>,
    ) {
        if let Front::Slots(slots) = &mut self.front {
            slots.take_kind(until.0, kinds, kind, ports);
        }
    }
    /// The slots of windows, to announce ports to one after the other, if this queue has them.
    #[inline(always)]
    pub(crate) fn slots(&mut self) -> Option<&mut Slots> {
        match &mut self.front {
            Front::Slots(slots) => Some(slots),
            _ => None,
        }
    }
    /// The end of the window that contains `at`.
    pub fn end_of_window(&self, at: Time) -> Time {
        match &self.front {
            Front::Slots(slots) => Time(slots.end_of(at.0)),
            _ => at,
        }
    }
    /// Time of the next arrival, or with windows a time that it does not come before.
    #[inline(always)]
    pub fn peek(&mut self) -> Time {
        let at = match &mut self.front {
            Front::Tree(tree) => tree.peek(),
            Front::Calendar(calendar) => calendar.peek().0,
            Front::Wheel(wheel) => {
                if wheel.is_low() {
                    wheel.turn();
                }
                wheel.peek().0
            }
            Front::Slots(slots) => slots.earliest(),
        };
        self.in_front = true;
        if !self.heap.is_empty() {
            return self.peek_both(at);
        }
        Time(at)
    }
    /// A calendar in which too many arrivals share a slot: a tree takes its place.
    #[cold]
    #[inline(never)]
    fn plant(&mut self) {
        let Front::Calendar(calendar) = &mut self.front else { return };
        let all = calendar.drain();
        let bits = self.heap.bits();
        self.front = Front::Tree(Tree::new(bits));
        for (at, number) in all {
            self.push(Time(at), self.port(number));
        }
    }
    #[inline(never)]
    fn peek_both(&mut self, mut at: u64) -> Time {
        if matches!(&self.front, Front::Calendar(calendar) if calendar.is_crowded()) {
            self.plant();
            if let Front::Tree(tree) = &mut self.front {
                at = tree.peek();
            }
        }
        let port = match &self.front {
            _ if at == u64::MAX => 0,
            Front::Tree(tree) => tree.first(),
            Front::Calendar(calendar) => calendar.peek().1,
            Front::Wheel(wheel) => wheel.peek().1,
            Front::Slots(_) => unreachable!("{NO_ORDER}"),
        };
        let other = (self.heap.peek(), self.heap.first());
        self.in_front = (at, port) < other;
        Time(at.min(other.0))
    }
    /// The port of the next arrival, which stays; call only when `peek` answered a time.
    #[inline]
    pub fn first(&self) -> u32 {
        let port = match &self.front {
            _ if !self.in_front => self.heap.first(),
            Front::Tree(tree) => tree.first(),
            Front::Calendar(calendar) => calendar.peek().1,
            Front::Wheel(wheel) => wheel.peek().1,
            Front::Slots(_) => unreachable!("{NO_ORDER}"),
        };
        self.port(port)
    }
    /// The port of the next arrival; call only when `peek` answered a time.
    #[inline(always)]
    pub fn take(&mut self) -> u32 {
        let port = match &mut self.front {
            _ if !self.in_front => self.heap.take(),
            Front::Tree(tree) => tree.take(),
            Front::Calendar(calendar) => calendar.take(),
            Front::Wheel(wheel) => wheel.take(),
            Front::Slots(_) => unreachable!("{NO_ORDER}"),
        };
        self.port(port)
    }
    /// [`Self::peek`] and [`Self::take`] in one: the next arrival, if it comes no later than `until`, when and by which port.
    #[inline(always)]
    pub fn take_until(&mut self, until: Time) -> Option<(Time, u32)> {
        if self.heap.is_empty() {
            // By a jump of its own: small networks have little to do beside.
            let (at, port) = match &mut self.front {
                Front::Tree(tree) => tree.take_until(until.0)?,
                front => front.take_until(until.0)?,
            };
            return Some((Time(at), self.port(port)));
        }
        let at = self.peek();
        (at <= until).then(|| (at, self.take()))
    }
    /// The same where who asks has the last word on the port.
    #[inline(always)]
    pub fn take_if(&mut self, until: Time, may: impl Fn(u32) -> bool) -> Option<(Time, u32)> {
        if let (Front::Tree(tree), true) = (&mut self.front, self.heap.is_empty()) {
            let (at, number) = (tree.peek(), tree.coming());
            let port = self.port(number);
            if at > until.0 || at == u64::MAX || !may(port) {
                return None;
            }
            if let Front::Tree(tree) = &mut self.front {
                tree.take();
            }
            return Some((Time(at), port));
        }
        let at = self.peek();
        (at <= until && at != Time::NEVER && may(self.first())).then(|| (at, self.take()))
    }
    /// The ports of the next `N` arrivals, for a prefetch; `None` when so many are not known, or in a tree.
    #[inline(always)]
    pub fn ahead<const N: usize>(&self) -> Option<Ahead<'_, N>> {
        let Front::Wheel(wheel) = &self.front else { return None };
        let (keys, mask) = wheel.coming()?;
        Some(Ahead { keys, mask, tie_mask: self.tie_mask })
    }
    /// The port that is probably next, one that mostly is among the few after it, and one among the dozen after that; in a tree.
    #[inline(always)]
    pub fn near(&self) -> Option<[u32; 3]> {
        let near = match &self.front {
            Front::Tree(tree) => {
                let [soon, later] = tree.risen();
                [tree.coming(), soon, later]
            }
            Front::Calendar(calendar) => calendar.near(),
            Front::Wheel(_) | Front::Slots(_) => return None,
        };
        Some(near.map(|port| self.port(port)))
    }
    /// Announces the next arrival of `port`.
    #[inline(always)]
    pub fn push(&mut self, at: Time, port: u32) {
        let number = self.number(port);
        let taken = match &mut self.front {
            Front::Tree(tree) => tree.put(at.0, number),
            front => front.put(at.0, number, port),
        };
        if !taken {
            self.heap.push(at.0, number);
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
    /// Compares a tree and a wheel with a sorted set. Next arrivals are near, far beyond the wheel, immediate, or before the slot
    /// that was sorted last, and some ports have two.
    #[test]
    fn tree_and_wheel_have_the_order_of_a_sorted_set() {
        for (ties, ports) in
            [(Ties::Forward, 128), (Ties::Reversed, 200), (Ties::Forward, 3000), (Ties::Forward, 7)]
        {
            let mut both = [Arrivals::new(ties, ports), Arrivals::within(ties, ports, Dur(1_000_000), true)];
            assert_eq!(matches!(both[1].front, Front::Wheel(_)), ports >= WHEEL_FROM);
            let mut set = std::collections::BTreeSet::new();
            let mut x = 1u64;
            let mut draw = |n: u64| {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (x >> 33) % n
            };
            let order = |port: u32| if ties == Ties::Reversed { u32::MAX - port } else { port };
            let mut now = 0;
            let mut taken = 0;
            for step in 0..200_000u64 {
                // Now and then there are none, and it begins anew much later.
                let full = step % 50_000 < 40_000;
                let first = set.first().copied();
                let next = first.map_or(Time::NEVER, |(at, _)| Time(at));
                both.iter_mut().for_each(|a| assert_eq!(a.peek(), next));
                if let (Some((at, who)), true) = (first, set.len() > ports || draw(2) == 0 || !full) {
                    now = at;
                    set.pop_first();
                    for a in &mut both {
                        assert_eq!(order(a.first()), who);
                        if step % 3 == 0 {
                            assert_eq!(order(a.take()), who);
                            continue;
                        }
                        assert!(at == 0 || a.take_until(Time(at - 1)).is_none());
                        let taken = a.take_until(Time(at));
                        assert_eq!(taken.map(|(at, port)| (at.0, order(port))), Some((at, who)));
                    }
                    taken += 1;
                } else if full {
                    let ahead = [0, 100, 1_000, 1_000_000, 1_333_000, 50_000_000][draw(6) as usize];
                    let at = now + draw(ahead + 1);
                    let port = draw(ports as u64) as u32;
                    if set.insert((at, order(port))) {
                        both.iter_mut().for_each(|a| a.push(Time(at), port));
                    }
                } else {
                    now += 1_000_000_000;
                }
            }
            assert!(taken > 50_000, "{taken}");
        }
    }
    /// Two hundred ports a microsecond apart are put in order by time; two hundred in step, by port, for which a tree does better.
    #[test]
    fn a_calendar_in_which_all_are_in_step_becomes_a_tree() {
        for (apart, tree) in [(5_000, false), (0, true)] {
            let ports = 200;
            let mut arrivals = Arrivals::within(Ties::Forward, ports, Dur(1_000_000), true);
            assert!(matches!(arrivals.front, Front::Calendar(_)));
            (0..200).for_each(|port| arrivals.push(Time(port * apart), port as u32));
            for turn in 0..2_000 {
                let next = arrivals.take_until(Time::NEVER);
                let (round, port) = (turn / 200, turn % 200);
                let at = Time(round * 1_000_000 + port * apart);
                assert_eq!(next, Some((at, port as u32)));
                arrivals.push(at + Dur(1_000_000), port as u32);
            }
            assert_eq!(matches!(arrivals.front, Front::Tree(_)), tree);
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
}
