//! The card of the HPCC group's ns-3: it looks for the next pair anew whenever something happens at the host.
//!
//! What is different from the line of `stack.rs`, and shows where a host has several pairs: pairs are walked through in the order in
//! which they were made, from the one after the last that was served; and a pair that its limiter holds back is woken up by a
//! timer that is set only when a walk has found nothing, to the earliest time of *all* pairs with bytes left, those with a full window
//! included. Where that time is over already no timer is set: the held-back pair then sleeps until something else happens.
//! Pairs that are over go when a walk comes across one; the place of the last one served is not corrected for that. Sources: the
//! description of the public code in docs/validation.md; what goes when, from memory.

use super::pair::Sending;
use alloc::vec::Vec;
use penstock_units::Time;

/// The walk over all sending pairs.
pub(super) struct Scan {
    /// Handles, in the order in which the pairs were made; `None` = over.
    order: Vec<Option<u32>>,
    last: usize,
    /// Something has happened since the last walk that found nothing.
    due: bool,
    wake: Time,
}

impl Scan {
    pub fn new() -> Scan {
        Scan { order: Vec::new(), last: 0, due: false, wake: Time::NEVER }
    }
    pub fn add(&mut self, conn: u32) {
        if !self.order.contains(&Some(conn)) {
            self.order.push(Some(conn));
        }
    }
    pub fn forget(&mut self, conn: u32) {
        if let Some(over) = self.order.iter_mut().find(|c| **c == Some(conn)) {
            *over = None;
        }
    }
    /// A packet has come, a pair has something new to send, or one was sent.
    pub fn touch(&mut self) {
        self.due = true;
    }
    /// The limiter of a pair lets it go on at another time than before.
    pub fn moved(&mut self, now: Time, at: Time) {
        if self.wake != Time::NEVER && self.wake > now && at < self.wake {
            self.wake = at.max(now);
        }
    }
    pub fn ready(&self) -> Time {
        if self.due {
            Time::ZERO
        } else {
            self.wake
        }
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
        let n = self.order.len();
        let (mut found, mut over) = (None, usize::MAX);
        for at in (1..=n).map(|k| (self.last + k) % n) {
            let Some(conn) = self.order[at] else {
                over = over.min(at);
                continue;
            };
            if pair(conn).is_some_and(|p| p.next_at <= now && may(p)) {
                found = Some((at, conn));
                break;
            }
        }
        if let Some((at, _)) = &mut found {
            *at -= self.order[..*at].iter().skip(over).filter(|c| c.is_none()).count();
        }
        let mut place = 0;
        self.order.retain(|c| {
            place += 1;
            c.is_some() || place <= over
        });
        self.due = found.is_some();
        if let Some((at, conn)) = found {
            self.last = at;
            return Some(conn);
        }
        let left = self.order.iter().flatten().filter_map(|conn| pair(*conn)).filter(|p| p.has_left());
        let first = left.map(|p| p.next_at).min().unwrap_or(Time::NEVER);
        if self.wake == Time::NEVER && first > now {
            self.wake = first;
        }
        None
    }
}
