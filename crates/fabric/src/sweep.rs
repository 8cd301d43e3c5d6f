//! All packets that arrive at the other end of a link within a stretch of time, taken at once, and all that come to a port, taken in.
//!
//! A packet is on a link for its delay, at least. So whatever arrives within a stretch of time no longer than that had left its port before the
//! stretch began, and nothing that is offered to the port meanwhile can be among it: a driver that works through such stretches needs no
//! order of events between ports.

use crate::arena::Segments;
use crate::cell::Cell;
use crate::fabric::Fabric;
use crate::port::{flag, hook, kind, Mode, Port, Room};
use penstock_units::Time;

impl Port {
    /// True when it is a FIFO whose packets concern nobody but itself: with limits, marks, loss, noise and a controller, but no shared buffer, no
    /// telemetry.
    pub fn keeps_to_itself(&self) -> bool {
        let others = hook::TELEMETRY | hook::SHARED | hook::HELD_UP;
        self.mode != Mode::Served && self.hooks & others == 0
    }
    /// True when a controller is at it.
    pub fn is_controlled(&self) -> bool {
        self.hooks & hook::CONTROLLER != 0
    }
    /// Packets on the way through it and on its wire.
    #[inline(always)]
    pub fn cells_held(&self) -> u32 {
        self.ring.len()
    }
    /// What arrives at the other end up to and including `until` is seen leaving, packet by packet, by who wants to see it: integrals and a controller.
    /// Before [`Self::take_arrived`].
    #[inline(always)]
    pub fn see_off<S: Segments>(&mut self, until: u64, seg: &mut S) {
        if self.flags & (flag::MEASURED | flag::SEEN_OFF) != 0 {
            self.see_departures(until, seg);
        }
    }
    #[inline(never)]
    fn see_departures<S: Segments>(&mut self, until: u64, seg: &mut S) {
        let Some(left) = until.checked_sub(self.delay) else { return };
        match self.mode {
            Mode::Special => self.advance_fifo::<true, S>(left, seg),
            _ => self.advance_fifo::<false, S>(left, seg),
        }
    }
    /// Takes the packets that arrive at the other end up to and including `until`, which is no more than the link's delay after whatever has been offered
    /// so far: each with the time of its arrival. Answers when the next one arrives, [`u64::MAX`] when there is none. The port keeps to itself
    /// ([`Port::keeps_to_itself`]).
    #[inline(always)]
    pub fn take_arrived(&mut self, until: u64, mut each: impl FnMut(&Cell, u64)) -> u64 {
        debug_assert!(self.keeps_to_itself());
        let (delay, departing) = (self.delay, self.ring.departing);
        let mut head = self.ring.head;
        // Of those that arrive, what the port does not know yet to have left: without a jump, as nobody can foresee it.
        let (mut packets, mut bytes) = (0, 0);
        let next = loop {
            // One look at both ends: behind the last cell is an old one, or none.
            let cell = self.ring.at(head);
            let at = cell.time.wrapping_add(delay);
            if (head == self.ring.tail) | (at > until) {
                break if head == self.ring.tail { u64::MAX } else { at };
            }
            let new = u32::from(head.wrapping_sub(departing) as i32 >= 0);
            packets += new;
            bytes += u64::from(cell.bytes) & u64::from(new).wrapping_neg();
            each(cell, at);
            head = head.wrapping_add(1);
        };
        self.ring.head = head;
        self.ring.departing = departing.wrapping_add(packets);
        self.queue_packets -= packets;
        self.queue_bytes -= bytes;
        next
    }
    #[inline(always)]
    fn offer_each<'a, const KIND: u8, S: Segments>(
        &mut self,
        cells: impl Iterator<Item = &'a Cell>,
        seg: &mut S,
        mut lost: impl FnMut(&Cell),
        mut before: impl FnMut(&mut Port, u64, &mut S),
    ) -> Time {
        let was_empty = self.ring.is_empty();
        for cell in cells {
            before(self, cell.time, seg);
            if self.offer_fifo::<KIND, S>(Time(cell.time), *cell, Room::FREE, seg).is_err() {
                lost(cell);
            }
        }
        if was_empty {
            self.next_arrival()
        } else {
            Time::NEVER
        }
    }
    /// Offers packets to a port that keeps to itself, each at its [`Cell::time`]. Answers when the first of all arrives at the other end,
    /// [`Time::NEVER`] when that is known already; `lost` hears of those that the port drops. Where a controller is at it, `before` is called first, with
    /// the time of the packet: its deadlines are to come before ([`Port::tick`]).
    #[inline(always)]
    pub fn offer_all<'a, S: Segments>(
        &mut self,
        cells: impl Iterator<Item = &'a Cell>,
        seg: &mut S,
        lost: impl FnMut(&Cell),
        before: impl FnMut(&mut Port, u64, &mut S),
    ) -> Time {
        match self.mode {
            Mode::Plain => self.offer_each::<{ kind::PLAIN }, S>(cells, seg, lost, |_, _, _| {}),
            _ => self.offer_each_special(cells, seg, lost, before),
        }
    }
    #[inline(never)]
    fn offer_each_special<'a, S: Segments>(
        &mut self,
        cells: impl Iterator<Item = &'a Cell>,
        seg: &mut S,
        lost: impl FnMut(&Cell),
        before: impl FnMut(&mut Port, u64, &mut S),
    ) -> Time {
        match self.mode {
            Mode::Noisy => self.offer_each::<{ kind::NOISY }, S>(cells, seg, lost, |_, _, _| {}),
            Mode::Asking => self.offer_each::<{ kind::ASKING }, S>(cells, seg, lost, |_, _, _| {}),
            _ if self.is_controlled() => self.offer_each::<{ kind::SPECIAL }, S>(cells, seg, lost, before),
            _ => self.offer_each::<{ kind::SPECIAL }, S>(cells, seg, lost, |_, _, _| {}),
        }
    }
    /// The deadline of its controller has come, at a port that keeps to itself. Answers the next one.
    pub fn tick<S: Segments>(&mut self, now: Time, seg: &mut S) -> Time {
        debug_assert!(self.keeps_to_itself());
        self.advance_fifo::<true, S>(now.0, seg);
        self.tell_deadline(now);
        self.deadline()
    }
}

impl Fabric {
    /// A port, for [`Port::take_arrived`] and [`Port::offer_all`].
    #[inline(always)]
    pub fn port(&mut self, port: u32) -> &mut Port {
        &mut self.ports[port as usize]
    }
}
