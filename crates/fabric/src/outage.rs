//! What stops a port or slows it: pause, failures, another rate.

use crate::arena::{Effects, Loss, Lost, Segments};
use crate::config::Service;
use crate::port::{flag, hook, Port};
use crate::schedule::Scheduler;
use crate::served::Served;
use crate::stats::PauseStats;
use alloc::boxed::Box;
use penstock_units::{Dur, Rate, Time};

impl Port {
    /// The scheduling half, made when a plain port is first asked for what it cannot do: from here on it is a FIFO that
    /// decides at departure. What waits keeps its order; for rules at
    /// dequeue and counters by priority all it holds arrived now.
    fn serve(&mut self, now: u64) -> &mut Served {
        if self.served.is_none() {
            let busy = self.busy(now);
            let mut served = Served::new(Service { scheduler: Scheduler::Fifo, ..Service::default() });
            let mut in_service = None;
            for (i, cell) in self.ring.cells_from(self.ring.departing).enumerate() {
                if i == 0 {
                    let lane = served.waiting.lane_mut(cell);
                    lane.count_in(cell.bytes);
                    lane.count_out(cell.bytes);
                    lane.sojourn += (cell.time - now) as f64;
                    in_service = Some(cell.time);
                } else {
                    self.sojourn.sub(cell.time - now, &mut self.sojourn_high);
                    served.waiting.push(cell, now);
                }
            }
            if let Some(finish) = in_service {
                self.ring.tail = self.ring.departing.wrapping_add(1);
                self.free_at = finish;
            }
            if let Some(noise) = self.noise() {
                // It was that of the last packet, which now waits: nobody may be held back for its sake.
                noise.left_at = in_service.unwrap_or(now);
            }
            self.served = Some(Box::new(served));
            self.find_mode();
            self.go_on_sending(now, busy);
        }
        self.served()
    }
    /// Stops a priority or lets it go on, as a pause frame does (IEEE 802.1Qbb). A packet in service is sent to its end. When
    /// this starts a packet on an idle link, its arrival is announced in [`Effects::heads`].
    pub fn pause<S: Segments>(&mut self, now: Time, priority: u8, on: bool, seg: &mut S, fx: &mut Effects) {
        let now = self.not_before(now);
        self.advance(now, seg, fx);
        self.serve(now.0);
        let (bit, i) = (1u8 << priority, usize::from(priority));
        let served = self.served();
        let was = served.paused & bit != 0;
        if on && !was {
            served.paused |= bit;
            served.find_open();
            served.paused_since[i] = now.0;
            self.count_pauses(priority, 1, Dur::ZERO);
        } else if !on && was {
            served.paused &= !bit;
            served.find_open();
            let since = served.paused_since[i];
            self.count_pauses(priority, 0, Dur(now.0 - since));
            self.go_on(now.0, seg, fx);
        }
    }
    /// Counts pauses of a priority, and time spent in them; also of a port whose network card obeys them in its place.
    pub fn count_pauses(&mut self, priority: u8, pauses: u64, paused: Dur) {
        self.totals.pauses += pauses;
        self.totals.paused += paused.0;
        let own = self.pauses_of(priority);
        own.received += pauses;
        own.paused += paused.0;
    }
    pub(crate) fn pauses_of(&mut self, priority: u8) -> &mut PauseStats {
        &mut self.pauses.get_or_insert_default().now[usize::from(priority)]
    }
    /// Priorities that are paused, a bit each.
    pub fn paused(&self) -> u8 {
        self.served.as_ref().map_or(0, |s| s.paused)
    }
    fn go_on<S: Segments>(&mut self, now: u64, seg: &mut S, fx: &mut Effects) {
        if self.free_at <= now {
            if let Some(head) = self.start_hooked(now, seg, fx) {
                fx.announce(head, self.number);
            }
        }
    }
    /// The link fails: what is on the wire or in service is lost. What waits is kept for its recovery, or lost with all that
    /// still comes when `lose_waiting`. Losses are in [`Effects::lost`].
    pub fn fail<S: Segments>(&mut self, now: Time, lose_waiting: bool, seg: &mut S, fx: &mut Effects) {
        let now = self.not_before(now);
        self.advance(now, seg, fx);
        self.serve(now.0);
        let busy = self.busy(now.0);
        let number = self.number;
        let lost = |cell| Lost { at: now, port: number, cell, loss: Loss::Down };
        if self.hooks & hook::SHARED != 0 {
            self.take_departed(|cell| fx.released.push((cell.time.min(now.0), *cell)));
        }
        while self.ring.head != self.ring.departing {
            fx.lose(lost(self.ring.pop()));
        }
        if let Some(held_up) = self.held_up() {
            core::iter::from_fn(|| held_up.due(u64::MAX)).for_each(|cell| fx.lose(lost(cell)));
        }
        let mut gone = alloc::vec::Vec::new();
        while !self.ring.is_empty() {
            let mut cell = self.ring.pop();
            (self.ring.departing, self.ring.unreleased) = (self.ring.head, self.ring.head);
            // Its departure had been counted as if it took place.
            self.sojourn.sub(cell.time - now.0, &mut self.sojourn_high);
            self.served().waiting.lane_mut(&cell).sojourn -= (cell.time - now.0) as f64;
            cell.time = now.0;
            gone.push(cell);
        }
        // Its room has been given back already where that is done when it is taken for service.
        let served_one = self.flags & flag::TAKEN != 0 && self.hooks & hook::SHARED != 0 && !gone.is_empty();
        let served = self.served();
        served.down = true;
        served.refuse = lose_waiting;
        served.find_open();
        self.find_mode();
        if lose_waiting {
            gone.extend(self.served().waiting.drain());
        }
        for (i, cell) in gone.into_iter().enumerate() {
            self.lose_waiting(now.0, cell, Loss::Down, seg, fx);
            if i == 0 && served_one {
                fx.released.pop();
            }
        }
        self.free_at = self.free_at.min(now.0);
        self.go_on_sending(now.0, busy);
        if let Some(noise) = self.noise() {
            noise.left_at = noise.left_at.min(now.0);
        }
    }
    /// The link works again.
    pub fn recover<S: Segments>(&mut self, now: Time, seg: &mut S, fx: &mut Effects) {
        let now = self.not_before(now);
        self.advance(now, seg, fx);
        let served = self.serve(now.0);
        served.down = false;
        served.find_open();
        self.find_mode();
        self.go_on(now.0, seg, fx);
    }
    /// True while the link is down.
    pub fn is_down(&self) -> bool {
        self.served.as_ref().is_some_and(|s| s.down)
    }
    /// The link has another rate from the next packet on. `rate` is above zero.
    pub fn set_rate<S: Segments>(&mut self, now: Time, rate: Rate, seg: &mut S, fx: &mut Effects) {
        assert!(rate.0 > 0, "a link of rate zero is a failed one");
        let now = self.not_before(now);
        self.advance(now, seg, fx);
        self.serve(now.0);
        let busy = self.busy(now.0);
        self.clock = self.clock.with_rate(rate);
        self.ps_per_byte = self.clock.ps_per_byte();
        self.go_on_sending(now.0, busy);
    }
}
