//! The card of the HPCC group's ns-3: it looks for the next pair anew whenever something happens at the host.
//!
//! It differs from the line of `stack.rs` where a host has several pairs. Pairs are walked through in the order in which
//! they were made, from the one after the last that was served. A timer wakes a pair that its limiter holds back. It is set
//! only when a walk has found nothing, to the earliest time of *all* pairs with bytes left, those with a full window included.
//! If that time has passed, no timer is set, and the pair sleeps until something else happens. Pairs that are over go when a
//! walk comes across one, that of their own last ACK included. The place of the last pair served is not corrected for that.
//! Sources: the description of the public code in docs/validation/hpcc-ns3.md; the time at which pairs go, from memory.
//!
//! Where links count whole nanoseconds, much happens at one instant, in the order in which that simulator has planned it. A
//! timer that was set before the last hop of an ACK began wakes the card before the ACK arrives; any other timer wakes it
//! after the ACK. An event planned at the very instant begins a flow, after everything that was planned for it before: a
//! packet that has left by then is followed by one of another flow.

use super::pair::Sending;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use penstock_units::{Dur, Time};

/// The walk over all sending pairs.
pub(super) struct Scan {
    /// Handles, in the order in which the pairs were made; `None` = over, and the connection with it.
    order: Vec<Option<u32>>,
    /// Pairs that are made at the end of the present nanosecond, where links count whole ones, and when that is.
    begun: VecDeque<(Time, u32)>,
    last: usize,
    /// Something has happened since the last walk that found nothing.
    due: bool,
    wake: Time,
    /// Where links count whole nanoseconds: what an ACK takes for its last hop.
    last_hop: Option<Dur>,
}

/// What arrives comes in the first half of a nanosecond, what leaves in the second; what is after what arrives, here.
const AFTER: Dur = Dur(500);
/// What is after all of that, too.
const LAST: Dur = Dur(999);

/// The whole nanosecond in which `t` lies.
fn ns(t: Time) -> Time {
    Time(t.0 - t.0 % 1000)
}

impl Scan {
    pub fn new(last_hop: Option<Dur>) -> Scan {
        Scan { order: Vec::new(), begun: VecDeque::new(), last: 0, due: false, wake: Time::NEVER, last_hop }
    }
    /// A pair has something new to send.
    pub fn add(&mut self, conn: u32, now: Time) {
        if self.begun.iter().any(|(_, c)| *c == conn) {
            return;
        }
        if self.order.contains(&Some(conn)) {
            self.due = true;
        } else if self.last_hop.is_some() {
            self.begun.push_back((ns(now) + LAST, conn));
        } else {
            self.order.push(Some(conn));
            self.due = true;
        }
    }
    pub fn remove(&mut self, conn: u32) {
        self.begun.retain(|(_, c)| *c != conn);
        if let Some(over) = self.order.iter_mut().find(|c| **c == Some(conn)) {
            *over = None;
        }
    }
    /// A packet has come.
    pub fn touch(&mut self) {
        self.due = true;
    }
    /// The limiter of a pair lets it go on at another time than before.
    pub fn moved(&mut self, now: Time, at: Time) {
        if self.wake != Time::NEVER && self.wake > now && at < self.wake {
            self.wake = self.planned(now, at.max(now));
        }
    }
    pub fn ready_at(&self) -> Time {
        if self.due {
            return Time::ZERO;
        }
        self.begun.front().map_or(self.wake, |(at, _)| self.wake.min(*at))
    }
    /// The pair whose turn it is at `now`.
    pub fn next<'a>(
        &mut self,
        now: Time,
        may: impl Fn(&Sending) -> bool,
        pair: impl Fn(u32) -> Option<&'a Sending>,
    ) -> Option<u32> {
        if self.wake <= now {
            self.wake = Time::NEVER;
        }
        while self.begun.front().is_some_and(|(at, _)| *at <= now) {
            self.order.extend(self.begun.pop_front().map(|(_, conn)| Some(conn)));
        }
        let n = self.order.len();
        let (mut found, mut over) = (None, usize::MAX);
        for at in (1..=n).map(|k| (self.last + k) % n) {
            let Some(conn) = self.order[at] else {
                over = over.min(at);
                continue;
            };
            match pair(conn) {
                Some(p) if p.next_at <= now && may(p) => {
                    found = Some((at, conn));
                    break;
                }
                Some(p) if p.is_over() => over = over.min(at),
                _ => {}
            }
        }
        if over != usize::MAX {
            let is_over = |c: &Option<u32>| c.is_none_or(|conn| pair(conn).is_some_and(Sending::is_over));
            if let Some((at, _)) = &mut found {
                *at -= self.order[..*at].iter().skip(over).filter(|c| is_over(c)).count();
            }
            let mut place = 0;
            self.order.retain(|c| {
                place += 1;
                place <= over || !is_over(c)
            });
        }
        self.due = found.is_some();
        if let Some((at, conn)) = found {
            self.last = at;
            return Some(conn);
        }
        let left = self.order.iter().flatten().filter_map(|conn| pair(*conn)).filter(|p| p.has_left());
        let first = left.map(|p| p.next_at).min().unwrap_or(Time::NEVER);
        if self.wake == Time::NEVER && first > now {
            self.wake = self.planned(now, first);
        }
        None
    }
    /// When a timer wakes the card that is set at `now` for `at`.
    fn planned(&self, now: Time, at: Time) -> Time {
        match self.last_hop {
            Some(last_hop) if at != Time::NEVER => {
                if ns(at).since(ns(now)) > last_hop {
                    ns(at)
                } else {
                    ns(at) + AFTER
                }
            }
            _ => at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ends::Outgoing;
    use crate::rdma::{LineRate, RdmaConfig, Turns};
    use crate::stack::Opening;
    use alloc::boxed::Box;

    #[test]
    fn a_timer_goes_before_an_ack_that_began_its_last_hop_after_it_was_set() {
        let ns = |ns: u64| Time(1000 * ns);
        // 60 bytes at 10 Gb/s and 1 us.
        let scan = Scan::new(Some(Dur::nanos(1047)));
        assert_eq!(scan.planned(ns(100), ns(1148)), ns(1148));
        assert_eq!(scan.planned(ns(100), ns(1147)), ns(1147) + AFTER);
        // Set half a nanosecond later, when a transmission ended.
        assert_eq!(scan.planned(ns(100) + AFTER, ns(938)), ns(938) + AFTER);
        assert_eq!(scan.planned(ns(100), Time::NEVER), Time::NEVER);
        // Exact clocks have no two things at one instant that would have to be told apart.
        assert_eq!(Scan::new(None).planned(ns(100), Time(123_456)), Time(123_456));
    }
    #[test]
    fn a_pair_made_in_a_nanosecond_goes_behind_what_was_planned_for_it() {
        let ns = |ns: u64| Time(1000 * ns);
        let mut scan = Scan::new(Some(Dur::nanos(1047)));
        scan.add(7, ns(5));
        scan.touch();
        assert_eq!(scan.next(ns(5) + AFTER, |_| true, |_| None), None);
        assert_eq!((scan.order.len(), scan.ready_at()), (0, ns(5) + LAST));
        scan.next(ns(5) + LAST, |_| true, |_| None);
        assert_eq!(scan.order, [Some(7)]);
        // With exact clocks at once; and one that is over before it has begun never.
        let mut exact = Scan::new(None);
        exact.add(7, ns(5));
        assert_eq!((exact.order.len(), exact.ready_at()), (1, Time::ZERO));
        scan.add(8, ns(6));
        scan.remove(8);
        scan.next(ns(7), |_| true, |_| None);
        assert_eq!(scan.order, [Some(7)]);
    }
    #[test]
    fn a_pair_is_over_in_the_walk_of_its_own_last_ack() {
        let config = RdmaConfig { turns: Turns::Scan, ..RdmaConfig::default() };
        let of = |written: u64| {
            let mut out = Outgoing::new(&Opening::default());
            out.write(written);
            Sending::new(out, Box::new(LineRate), &config, 1000)
        };
        // The second has nothing more to send and to wait for; the last one was served.
        let pairs = [of(5000), of(0), of(5000)];
        let pair = |conn: u32| pairs.get(conn as usize);
        let mut scan = Scan::new(None);
        (0..3).for_each(|conn| scan.add(conn, Time(0)));
        scan.last = 2;
        assert_eq!(scan.next(Time(5), |_| false, pair), None);
        assert_eq!(scan.order, [Some(0), Some(2)]);
        // Its place counts in a list of three still.
        assert_eq!(scan.next(Time(6), |_| true, pair), Some(2));
        assert_eq!(scan.next(Time(7), |_| true, pair), Some(0));
    }
    #[test]
    fn a_rate_moves_a_timer_that_is_set_and_only_to_an_earlier_time() {
        let mut scan = Scan::new(None);
        scan.moved(Time(10), Time(50));
        assert_eq!(scan.ready_at(), Time::NEVER);
        scan.wake = Time(100);
        scan.moved(Time(10), Time(120));
        assert_eq!(scan.ready_at(), Time(100));
        scan.moved(Time(10), Time(50));
        assert_eq!(scan.ready_at(), Time(50));
        scan.moved(Time(20), Time(5));
        assert_eq!(scan.ready_at(), Time(20), "not before now");
    }
}
