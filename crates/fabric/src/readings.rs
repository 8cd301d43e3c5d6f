//! What can be read off a port: its queue, its counters, its integrals.

use crate::arena::{Effects, Segments};
use crate::cell::{Cell, PRIORITIES};
use crate::link::HeldUp;
use crate::port::{flag, hook, Base, Port};
use crate::stats::{class_difference, ClassStats, Integrals, Losses, PauseStats, PortStats, Totals};
use alloc::boxed::Box;
use penstock_core::LinkController;
use penstock_units::{Bytes, Dur, Rate, Time};

impl Port {
    /// Link rate.
    pub fn rate(&self) -> Rate {
        self.clock.rate()
    }
    /// Propagation delay.
    pub fn delay(&self) -> Dur {
        Dur(self.link_delay)
    }
    /// Packets in the port (waiting plus in service) after the last [`Self::advance`].
    pub fn queue_packets(&self) -> u32 {
        self.queue_packets
    }
    /// Bytes in the port after the last [`Self::advance`].
    pub fn queue_bytes(&self) -> u64 {
        self.queue_bytes
    }
    /// When the port has sent all it has taken on, by its own exact clock: timing noise delays packets, not the port. What
    /// waits for a scheduler is not in it.
    pub fn free_at(&self) -> Time {
        Time(self.free_at)
    }
    /// When the packet in service has left, [`Time::NEVER`] when there is none; after the last [`Self::advance`].
    #[inline]
    pub fn next_departure(&self) -> Time {
        if self.ring.is_busy() {
            Time(self.ring.at(self.ring.departing).time)
        } else {
            Time::NEVER
        }
    }
    /// Number of the node whose shared buffer it draws on.
    pub fn node(&self) -> Option<u32> {
        Some(self.node).filter(|node| *node != crate::fabric::NONE)
    }
    /// Some packets are held up on its wire and overtaken.
    pub fn reorders(&self) -> bool {
        self.hooks & hook::HELD_UP != 0
    }
    /// Packets in the port or on the wire.
    pub fn packets_held(&self) -> u64 {
        let waiting = self.served.as_ref().map_or(0, |s| s.waiting.len());
        let held_up = self.extra.as_ref().and_then(|x| x.held_up.as_ref()).map_or(0, HeldUp::len);
        u64::from(self.ring.len()) + waiting + held_up
    }
    /// Packets in the port: in service and waiting, in no particular order.
    pub fn cells(&self) -> impl Iterator<Item = &Cell> {
        let waiting = self.served.iter().flat_map(|s| s.waiting.cells());
        self.ring.cells_from(self.ring.departing).chain(waiting)
    }
    /// All packets in the port and on its wire at `now`, the time of the last [`Self::advance`], each with when it leaves;
    /// [`Time::NEVER`] where a scheduler has not decided that.
    pub fn all_cells(&self, now: Time) -> impl Iterator<Item = (&Cell, Time)> {
        debug_assert!(self.next_departure() > now);
        let wire = self.ring.cells_from(self.ring.head).map(|cell| (cell, Time(cell.time)));
        let held_up = self
            .extra
            .iter()
            .flat_map(|x| &x.held_up)
            .flat_map(|h| h.cells())
            .map(|cell| (cell, Time(cell.time)));
        wire.chain(held_up).chain(self.waiting().map(|cell| (cell, Time::NEVER)))
    }
    /// All packets in the port and on its wire, in no particular order.
    pub fn every_cell(&self) -> impl Iterator<Item = &Cell> {
        let held_up = self.extra.iter().flat_map(|x| &x.held_up).flat_map(|h| h.cells());
        self.ring.cells_from(self.ring.head).chain(held_up).chain(self.waiting())
    }
    /// Packets that wait for a scheduler.
    pub fn waiting(&self) -> impl Iterator<Item = &Cell> {
        self.served.iter().flat_map(|s| s.waiting.cells())
    }
    /// Whether the port cuts the payload of some packets off, and this one has some.
    #[inline]
    pub(crate) fn trims(&self, cell: &Cell) -> bool {
        // In this order: whether the next packet has payload, no processor can foresee.
        self.served.as_ref().is_some_and(|s| s.trims) && cell.has_payload()
    }
    /// What would remain of a packet if the port cut its payload off; `None` when it would not.
    pub(crate) fn header_of(&self, cell: &Cell) -> Option<Cell> {
        let trim = self.served.as_ref()?.trim?;
        let mut header = *cell;
        header.trim(trim.bytes, trim.priority);
        if self.served.as_ref()?.last_hop {
            header.set_trimmed_at_last_hop();
        }
        (cell.has_payload() && cell.bytes > trim.bytes).then_some(header)
    }
    /// The router's controller.
    pub fn controller(&self) -> Option<&dyn LinkController> {
        self.extra.as_ref()?.controller.as_deref()
    }
    /// Counters and integrals since the last reset, as of the last [`Self::settle`].
    #[inline]
    pub fn stats(&self) -> PortStats {
        let (now, base) = (self.totals_now(), self.totals_at_reset());
        let unmeasured = if self.flags & flag::MEASURED != 0 { 0.0 } else { f64::NAN };
        let departed_packets = now.departed_packets - base.departed_packets;
        PortStats {
            window: self.window.1 - self.window.0,
            busy: self.busy(self.window.1).saturating_sub(self.sending.at_reset),
            arrived_packets: now.accepted_packets + now.lost() - base.accepted_packets - base.lost(),
            arrived_bytes: now.accepted_bytes + now.dropped_bytes - base.accepted_bytes - base.dropped_bytes,
            departed_packets,
            departed_bytes: now.departed_bytes - base.departed_bytes
                + departed_packets * u64::from(self.framing),
            drops: core::array::from_fn(|i| now.drops[i] - base.drops[i]),
            down: now.down - base.down,
            marks: now.marks - base.marks,
            trims: now.trims - base.trims,
            queue_max: self.queue_max,
            sojourn: now.sojourn - base.sojourn,
            queue_integral: self.integrals.packets + unmeasured,
            queue_square_integral: self.integrals.packets_squared + unmeasured,
            byte_integral: self.integrals.bytes + unmeasured,
            pauses: now.pauses - base.pauses,
            paused: now.paused - base.paused,
        }
    }
    /// Adds what has happened to its packets since the last reset, as of the last [`Self::settle`].
    pub fn add_losses(&self, sum: &mut Losses) {
        let none = Totals::default();
        let (now, base) = (&self.totals, self.base.as_ref().map_or(&none, |base| &base.totals));
        for (cause, of) in sum.drops.iter_mut().enumerate() {
            *of += now.drops[cause] - base.drops[cause];
        }
        sum.down += now.down - base.down;
        sum.marks += now.marks - base.marks;
        sum.trims += now.trims - base.trims;
        sum.pauses += now.pauses - base.pauses;
        sum.paused += now.paused - base.paused;
    }
    /// [`PortStats::sojourn`] alone.
    pub fn sojourn(&self) -> u128 {
        self.totals_now().sojourn - self.totals_at_reset().sojourn
    }
    /// Counters by priority since the last reset; `None` where the port does not schedule.
    pub fn class_stats(&self) -> Option<[ClassStats; PRIORITIES]> {
        let none = [ClassStats::default(); PRIORITIES];
        let base = self.base.as_ref().and_then(|base| base.classes.as_deref()).unwrap_or(&none);
        Some(class_difference(&self.class_totals()?, base))
    }
    /// Pause frames by priority since the last reset, as of the last [`Self::settle`].
    pub fn pause_stats(&self) -> [PauseStats; PRIORITIES] {
        let Some(pauses) = &self.pauses else { return Default::default() };
        core::array::from_fn(|p| {
            let (now, base) = (&pauses.now[p], &pauses.base[p]);
            PauseStats {
                sent: now.sent - base.sent,
                received: now.received - base.received,
                paused: now.paused - base.paused,
            }
        })
    }
    fn totals_at_reset(&self) -> Totals {
        self.base.as_ref().map_or(Totals::default(), |base| base.totals)
    }
    #[inline(always)]
    fn totals_now(&self) -> Totals {
        Totals {
            accepted_packets: self.accepted_packets,
            accepted_bytes: self.accepted_bytes,
            departed_packets: self.accepted_packets - u64::from(self.queue_packets),
            departed_bytes: self.accepted_bytes - self.queue_bytes,
            sojourn: (self.sojourn_sum() as i128 + self.unsettled) as u128,
            ..self.totals
        }
    }
    /// An event hands a packet over that comes here at `at`, later than the event. Counters and integrals come as far when they are settled.
    pub fn run_ahead(&mut self, at: Time) {
        self.ahead = self.ahead.max(at.0);
    }
    /// `now`, or when the latest packet comes that an earlier event has handed over.
    pub(crate) fn not_before(&self, now: Time) -> Time {
        Time(now.0.max(self.ahead))
    }
    /// Picoseconds of transmission of all that was taken into service, by the present clock.
    fn work(&self) -> u64 {
        if self.clock.counts_whole_ns() {
            return self.clock.worked();
        }
        let (mut packets, mut bytes) = (self.accepted_packets, self.accepted_bytes);
        if let Some(served) = &self.served {
            for lane in &served.waiting.lanes {
                packets -= lane.packets_in - lane.packets_out;
                bytes -= lane.bytes_in - lane.bytes_out;
            }
        }
        (Bytes(bytes + packets * u64::from(self.framing)) / self.rate()).0
    }
    /// Picoseconds for which the port has been sending up to `now`, since the beginning.
    pub(crate) fn busy(&self, now: u64) -> u64 {
        let taken = self.sending.until + (self.work() - self.sending.work);
        taken.saturating_sub(self.free_at.saturating_sub(now))
    }
    /// What is in service or its rate has changed at `now`, before which the port had been sending for `busy`.
    pub(crate) fn go_on_sending(&mut self, now: u64, busy: u64) {
        self.sending.until = busy + self.free_at.saturating_sub(now);
        self.sending.work = self.work();
    }
    /// Starts counting anew: everything before `now` is warm-up.
    pub fn reset_stats<S: Segments>(&mut self, now: Time, seg: &mut S, fx: &mut Effects) {
        self.settle(now, seg, fx);
        self.window.0 = self.window.1;
        self.sending.at_reset = self.busy(self.window.1);
        let (totals, classes) = (self.totals_now(), self.class_totals().map(Box::new));
        // Where nothing has happened yet, as at all ports of a run without warm-up, there is nothing to be subtracted.
        let none = classes.is_none() && totals == Totals::default();
        if let Some(pauses) = &mut self.pauses {
            pauses.base = pauses.now;
        }
        self.base = (!none).then(|| Box::new(Base { totals, classes }));
        self.integrals = Integrals::default();
        self.set_queue_max(self.queue_packets);
    }
    /// Brings the integrals up to `now`.
    pub fn settle<S: Segments>(&mut self, now: Time, seg: &mut S, fx: &mut Effects) {
        let now = self.not_before(now);
        self.advance(now, seg, fx);
        self.account(now.0);
        self.window.1 = now.0;
        let ahead = |c: &Cell| i128::from(c.time) - i128::from(now.0);
        self.unsettled = -self.ring.cells_from(self.ring.departing).map(ahead).sum::<i128>();
        if let Some(served) = &mut self.served {
            self.unsettled -= served.waiting.cells().map(ahead).sum::<i128>();
            if served.paused != 0 {
                let times = served.paused_until(now.0);
                (0u8..).zip(times).filter(|(_, t)| *t > 0).for_each(|(p, t)| self.count_pauses(p, 0, Dur(t)));
            }
        }
    }
}
