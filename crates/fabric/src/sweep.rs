//! All packets that arrive at the other end of a link within a stretch of time, taken at once.
//!
//! A packet is on a link for its delay, at least. So whatever arrives within a stretch of time no longer than that had left its port before the
//! stretch began, and nothing that is offered to the port meanwhile can be among it: a driver that works through such stretches needs no
//! order of events between ports.

use crate::arena::Segments;
use crate::cell::Cell;
use crate::fabric::Fabric;
use crate::port::{hook, Mode, Port};
use penstock_units::Time;

impl Port {
    /// True when it is a FIFO whose packets concern nobody but itself: with limits, marks, loss and noise, but no controller, no shared buffer, no
    /// telemetry.
    pub fn keeps_to_itself(&self) -> bool {
        let others = hook::CONTROLLER | hook::DEPARTURES | hook::TELEMETRY | hook::SHARED | hook::HELD_UP;
        self.mode != Mode::Served && self.hooks & others == 0
    }
    /// Takes the packets that arrive at the other end up to and including `until`, which is no more than the link's delay after whatever has been offered
    /// so far; each gets the time of its arrival. Answers when the next one arrives, [`Time::NEVER`] when there is none.
    #[inline(always)]
    pub(crate) fn take_arrived<S: Segments>(
        &mut self,
        until: u64,
        seg: &mut S,
        mut each: impl FnMut(&Cell, u64),
    ) -> Time {
        debug_assert!(self.keeps_to_itself());
        loop {
            if self.ring.is_empty() {
                return Time::NEVER;
            }
            let head = self.ring.head;
            let (time, bytes) = (self.ring.at(head).time, self.ring.at(head).bytes);
            let at = time + self.delay;
            if at > until {
                return Time(at);
            }
            if self.ring.departing == head {
                self.depart::<false, S>(time, bytes, seg);
            }
            each(self.ring.at(head), at);
            self.ring.head = head.wrapping_add(1);
        }
    }
}

impl Fabric {
    /// [`Port::take_arrived`] of `port`.
    #[inline(always)]
    pub fn take_arrived<S: Segments>(
        &mut self,
        until: Time,
        port: u32,
        seg: &mut S,
        each: impl FnMut(&Cell, u64),
    ) -> Time {
        self.ports[port as usize].take_arrived(until.0, seg, each)
    }
}
