//! The timers of a stack's connections: one next time for the driver.
//!
//! Entries are not removed from the heap one by one. Stale ones are ignored, and dropped together when there are too many. An
//! end has two entries at most, a near one and a far one. A retransmission timer that every acknowledgement restarts then
//! costs nothing, and a near timer (pacing) does not pile up copies of a far one.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use penstock_units::Time;

/// Bits of a key that hold the handle; 2 hold the kind and 32 the flow.
const HANDLE_BITS: u32 = 30;

/// No entry beside the heap: its time would be [`Time::NEVER`].
const NONE: u128 = u128::MAX;

/// Times of the entries that an owner of timers has in a heap, two at most. [`Timers`] has one for every end, and a driver one
/// for every host and every router.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    near: Time,
    far: Time,
}

impl Default for Pending {
    fn default() -> Pending {
        Pending { near: Time::NEVER, far: Time::NEVER }
    }
}

impl Pending {
    /// Time of the next entry.
    #[inline]
    pub fn next(&self) -> Time {
        self.near
    }
    /// True when a timer at `at` needs a new entry.
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
    /// True when there is an entry at `at`.
    fn has(&self, at: Time) -> bool {
        at == self.near || at == self.far
    }
    /// Number of entries.
    fn count(&self) -> usize {
        usize::from(self.near != Time::NEVER) + usize::from(self.far != Time::NEVER)
    }
    /// True when the entry that has come at `at` is one of those pending.
    pub fn fired(&mut self, at: Time) -> bool {
        if at == self.near {
            (self.near, self.far) = (self.far, Time::NEVER);
            true
        } else if at == self.far {
            self.far = Time::NEVER;
            true
        } else {
            false
        }
    }
}

/// The entries of an end.
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    pending: Pending,
    /// The flow that has the handle now. Entries of an earlier one are stale.
    flow: u32,
}

/// Timers by connection, in order of (time, kind, flow).
///
/// A timer that moves later needs no call: at the old time the stack looks at the end, finds that nothing is due, and sets the
/// new one.
#[derive(Debug)]
#[repr(C)]
pub struct Timers {
    /// One of the entries, or [`NONE`]; the heap has the others. Pacing takes an entry out and sets the next at once, so it
    /// does not need the heap.
    beside: u128,
    heap: BinaryHeap<Reverse<u128>>,
    ends: Vec<Kept>,
    /// Combined with kind and flow; all ones reverse their order.
    flip: u64,
    /// Entries of ends that were removed, as far as they have not come since.
    stale: usize,
}

/// Fewer stale entries than this are not dropped.
const FEW_STALE: usize = 32;

impl Default for Timers {
    fn default() -> Timers {
        Timers::new(false)
    }
}

impl Timers {
    /// No timers yet. `reversed` reverses the order of simultaneous ones.
    pub fn new(reversed: bool) -> Timers {
        let flip = if reversed { u64::MAX } else { 0 };
        Timers { beside: NONE, heap: BinaryHeap::new(), ends: Vec::new(), flip, stale: 0 }
    }
    /// Sets a timer at `at` or earlier for the end of `flow` with handle `conn`; [`Time::NEVER`] = none. `kind`, 0..4, orders
    /// simultaneous timers. True when there is a new entry.
    #[inline(always)]
    pub fn arm(&mut self, at: Time, kind: u8, flow: u32, conn: u32) -> bool {
        // Mostly there is an earlier entry.
        let known = self.ends.get(conn as usize);
        known.is_none_or(|end| end.flow != flow || at < end.pending.near) && self.put(at, kind, flow, conn)
    }
    #[inline(never)]
    fn put(&mut self, at: Time, kind: u8, flow: u32, conn: u32) -> bool {
        let i = conn as usize;
        if i >= self.ends.len() {
            self.ends.resize(i + 1, Kept::default());
        }
        let end = &mut self.ends[i];
        if end.flow != flow {
            *end = Kept { flow, ..Kept::default() };
        }
        let new = end.pending.arm(at);
        if new {
            debug_assert!(kind < 4 && conn < 1 << HANDLE_BITS);
            let order = (u64::from(kind) << 32 | u64::from(flow)) ^ (self.flip >> HANDLE_BITS);
            let place = order << HANDLE_BITS | u64::from(conn);
            let key = u128::from(at.0) << 64 | u128::from(place);
            if self.beside == NONE {
                self.beside = key;
            } else {
                // The heap gets the later one, as it moves least there.
                self.heap.push(Reverse(key.max(self.beside)));
                self.beside = key.min(self.beside);
            }
        }
        new
    }
    /// Time of the earliest entry of the end with this handle.
    #[inline]
    pub fn next_of(&self, conn: u32) -> Time {
        self.ends.get(conn as usize).map_or(Time::NEVER, |end| end.pending.near)
    }
    /// Time of the next entry.
    #[inline]
    pub fn next(&self) -> Time {
        // All ones are `Time::NEVER`.
        Time((self.least() >> 64) as u64)
    }
    #[inline(always)]
    fn least(&self) -> u128 {
        self.heap.peek().map_or(NONE, |key| key.0).min(self.beside)
    }
    /// Time, kind and flow of the next entry; [`Time::NEVER`] when there is none.
    pub fn first(&self) -> (Time, u8, u32) {
        let key = self.least();
        if key == NONE {
            return (Time::NEVER, 0, 0);
        }
        let order = (key as u64 >> HANDLE_BITS) ^ (self.flip >> HANDLE_BITS);
        (Time((key >> 64) as u64), (order >> 32) as u8, order as u32)
    }
    /// Takes the first entry that has come by `now`: its kind and handle. `None` = it was stale, or there is none.
    pub fn due(&mut self, now: Time) -> Option<(u8, u32)> {
        let key = self.least();
        let at = Time((key >> 64) as u64);
        if at > now || key == NONE {
            return None;
        }
        if key == self.beside {
            self.beside = NONE;
        } else {
            self.heap.pop();
        }
        let place = key as u64;
        let order = (place >> HANDLE_BITS) ^ (self.flip >> HANDLE_BITS);
        let conn = (place & ((1 << HANDLE_BITS) - 1)) as u32;
        let end = &mut self.ends[conn as usize];
        if end.flow == order as u32 && end.pending.fired(at) {
            return Some(((order >> 32) as u8, conn));
        }
        self.stale = self.stale.saturating_sub(1);
        None
    }
    /// The end is removed, and its entries are stale.
    pub fn remove(&mut self, conn: u32) {
        if let Some(end) = self.ends.get_mut(conn as usize) {
            self.stale += end.pending.count();
            end.pending = Pending::default();
        }
    }
    /// Drops stale entries if they are the majority, so that each is looked at about once. Retransmission timers are far:
    /// without this, short connections would leave hundreds for each open one, and each would call the host without effect.
    #[inline]
    pub fn drop_stale(&mut self) {
        if self.stale >= FEW_STALE && 2 * self.stale > self.len() {
            self.drop_all_stale();
        }
    }
    #[cold]
    #[inline(never)]
    fn drop_all_stale(&mut self) {
        let Timers { beside, heap, ends, flip, stale } = self;
        let is_awaited = |key: u128| {
            let order = (key as u64 >> HANDLE_BITS) ^ (*flip >> HANDLE_BITS);
            let end = &ends[(key as u64 & ((1 << HANDLE_BITS) - 1)) as usize];
            end.flow == order as u32 && end.pending.has(Time((key >> 64) as u64))
        };
        heap.retain(|key| is_awaited(key.0));
        if *beside != NONE && !is_awaited(*beside) {
            *beside = NONE;
        }
        *stale = 0;
    }
    /// Number of entries, stale ones included.
    pub fn len(&self) -> usize {
        self.heap.len() + usize::from(self.beside != NONE)
    }
    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty() && self.beside == NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    /// All entries that come, with the time of each call, as a driver makes them.
    fn drain(timers: &mut Timers) -> Vec<(u64, u8, u32)> {
        let mut found = Vec::new();
        while timers.next() != Time::NEVER {
            let at = timers.next();
            found.extend(timers.due(at).map(|(kind, conn)| (at.0, kind, conn)));
        }
        found
    }

    #[test]
    fn simultaneous_deadlines_come_by_kind_and_flow_and_the_other_way_round() {
        let all = [(1, 0, 5, 9), (2, 0, 3, 8), (2, 0, 8, 1), (2, 1, 1, 0), (3, 1, 2, 2)];
        let order = |reversed| {
            let mut timers = Timers::new(reversed);
            all.iter().for_each(|(at, kind, flow, conn)| {
                timers.arm(Time(*at), *kind, *flow, *conn);
            });
            drain(&mut timers).iter().map(|(at, _, conn)| (*at, *conn)).collect::<Vec<_>>()
        };
        assert_eq!(order(false), [(1, 9), (2, 8), (2, 1), (2, 0), (3, 2)]);
        assert_eq!(order(true), [(1, 9), (2, 0), (2, 1), (2, 8), (3, 2)]);
    }
    #[test]
    fn a_timer_restarted_by_every_ack_has_one_entry() {
        let mut timers = Timers::default();
        timers.arm(Time(200), 0, 0, 0);
        for t in 1..100 {
            timers.arm(Time(t), 0, 0, 0);
            assert_eq!(timers.due(Time(t)), Some((0, 0)), "the near one is new");
            timers.arm(Time(200 + t), 0, 0, 0);
            assert_eq!(timers.len(), 1, "the far one is still there");
        }
        assert_eq!(timers.due(Time(200)), Some((0, 0)));
        assert!(timers.is_empty());
    }
    #[test]
    fn a_handle_used_again_does_not_hear_of_the_flow_before() {
        let mut timers = Timers::default();
        timers.arm(Time(5), 0, 7, 3);
        timers.remove(3);
        timers.arm(Time(9), 0, 8, 3);
        assert_eq!(timers.due(Time(5)), None);
        assert_eq!(timers.due(Time(9)), Some((0, 3)));
        // Also when both wanted the same time.
        timers.arm(Time(20), 0, 8, 3);
        timers.remove(3);
        timers.arm(Time(20), 0, 9, 3);
        assert_eq!(drain(&mut timers), vec![(20, 0, 3)]);
    }

    /// Connections come and go, each with a far timer, beside one that stays. The entries do not grow with connections that
    /// are over, and the others come as if all were kept.
    #[test]
    fn entries_of_ends_that_are_over_are_dropped() {
        for reversed in [false, true] {
            let [mut tidy, mut all] = [Timers::new(reversed), Timers::new(reversed)];
            let mut most = 0;
            for flow in 0..2000u32 {
                let (now, conn) = (u64::from(flow) * 10, 1 + flow % 4);
                for timers in [&mut tidy, &mut all] {
                    if flow == 500 {
                        timers.arm(Time(12_345), 1, flow, 0);
                        timers.arm(Time(7_001), 1, flow, 0);
                    }
                    timers.remove(conn);
                    timers.arm(Time(now + 9_000), 1, flow, conn);
                    timers.arm(Time(now + 4_000), 1, flow, conn);
                }
                tidy.drop_stale();
                most = most.max(tidy.len());
            }
            assert!(most <= 2 * (FEW_STALE + 10), "{most}");
            assert!(all.len() > 3000, "{}", all.len());
            assert_eq!(drain(&mut tidy), drain(&mut all));
        }
    }

    proptest! {
        /// Ends whose deadlines move at random, and that look what is due when they are called: no deadline is missed or late, and an
        /// end keeps two entries at most.
        #[test]
        fn no_deadline_is_missed(moves in prop::collection::vec((0u64..50, 0u32..4, 1u64..300), 1..200)) {
            let mut timers = Timers::default();
            let mut wanted = [u64::MAX; 4];
            let mut now = 0;
            for (step, conn, ahead) in moves {
                let until = now + step;
                while timers.next().0 <= until {
                    now = timers.next().0;
                    prop_assert!(wanted.iter().all(|at| *at >= now), "late: {wanted:?} at {now}");
                    if let Some((_, conn)) = timers.due(Time(now)) {
                        let at = &mut wanted[conn as usize];
                        if *at <= now {
                            *at = u64::MAX;
                        }
                        timers.arm(Time(*at), 0, conn, conn);
                    }
                }
                now = until;
                prop_assert!(wanted.iter().all(|at| *at > now));
                wanted[conn as usize] = now + ahead;
                timers.arm(Time(now + ahead), 0, conn, conn);
                prop_assert!(timers.len() <= 4 * 3);
            }
        }
    }
}
