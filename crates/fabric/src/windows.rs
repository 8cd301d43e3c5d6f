//! What FIFO ports do in a lookahead window. All packets that arrive at the other end of a link are taken at once, and all that come to a port are
//! offered to it in one call.
//!
//! A packet is on a link for its delay, at least. So what arrives in a window no longer than that had left its port before the window began. Nothing
//! that is offered to the port in the window can be among it, and no order of events between ports is needed.

use crate::arena::Segments;
use crate::cell::Cell;
use crate::fabric::Fabric;
use crate::port::{flag, hook, kind, Mode, Port, Room};
use crate::ring::Ring;
use alloc::vec::Vec;
use core::hint::select_unpredictable;
use penstock_core::{CcHeader, Packet};
use penstock_units::Time;

/// Segments of packets that leave a port which keeps to itself: the port does not look at them.
struct Unasked;

impl Segments for Unasked {
    fn segment(&mut self, _: u32) -> (&mut Packet, &mut CcHeader) {
        unreachable!("a port that keeps to itself asks for no segment of what leaves it")
    }
}

/// Cells in the order of keys, whose low halves are their numbers.
#[derive(Clone, Copy)]
pub struct Queue<'a> {
    /// The cells.
    pub cells: &'a [Cell],
    /// The keys.
    pub keys: &'a [u64],
}

impl Queue<'_> {
    #[inline(always)]
    fn number(self, i: usize) -> u32 {
        self.keys[i] as u32
    }
    #[inline(always)]
    fn cell(&self, i: usize) -> &Cell {
        &self.cells[self.number(i) as usize]
    }
}

impl Port {
    /// True when a controller is at it.
    pub fn is_controlled(&self) -> bool {
        self.hooks & hook::CONTROLLER != 0
    }
    /// True when it is a FIFO whose packets concern no other port: with limits, marks, loss, noise and a controller, but no shared buffer, no
    /// telemetry.
    pub fn keeps_to_itself(&self) -> bool {
        let others = hook::TELEMETRY | hook::SHARED | hook::HELD_UP;
        self.mode != Mode::Served && self.hooks & others == 0
    }
    /// Packets on the way through it and on its wire.
    #[inline(always)]
    pub fn cells_held(&self) -> u32 {
        self.ring.len()
    }
    /// What arrives at the other end up to and including `until` is seen leaving, packet by packet, by who wants to see it: integrals and a controller.
    /// Before [`Self::take_all`].
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
    /// Appends the packets that arrive at the other end up to and including `until` to a list, with their times of arrival. `until` is no more than the
    /// link's delay after whatever has been offered so far. Answers when the next one arrives, [`u64::MAX`] when there is none.
    /// The port keeps to itself ([`Port::keeps_to_itself`]).
    #[inline(always)]
    pub fn take_all(&mut self, until: u64, cells: &mut Vec<Cell>) -> u64 {
        cells.reserve(self.cells_held() as usize);
        let ingress = self.ingress;
        debug_assert!(self.keeps_to_itself());
        let (delay, departing, tail) = (self.delay, self.ring.departing, self.ring.tail);
        let mut head = self.ring.head;
        // Counts the arriving packets whose departure the port has not replayed yet. There is no branch, as its outcome is hard to predict.
        let (mut packets, mut bytes) = (0u32, 0u64);
        let next = loop {
            // One jump for both ends: behind the last cell is an old one, or none.
            let cell = self.ring.at(head);
            let at = select_unpredictable(head == tail, u64::MAX, cell.time.wrapping_add(delay));
            if at > until {
                break at;
            }
            let mut taken = *cell;
            (taken.time, taken.ingress) = (at, ingress);
            cells.push(taken);
            // All ones where it is new.
            let new = !((head.wrapping_sub(departing) as i32) >> 31);
            packets = packets.wrapping_sub(new as u32);
            bytes += u64::from(cell.bytes & new as u32);
            head = head.wrapping_add(1);
        };
        self.ring.head = head;
        self.ring.departing = departing.wrapping_add(packets);
        self.queue_packets -= packets;
        self.queue_bytes -= bytes;
        next
    }
    /// All that a FIFO without noise has taken in has left by `at`, as it is through with it by then: no look at one after the other.
    #[inline(always)]
    fn see_all_left(&mut self, at: u64) {
        let gone = (self.free_at <= at) & (self.flags & flag::MEASURED == 0);
        let Ring { departing, tail, .. } = self.ring;
        // No processor can foresee it: no jump.
        self.ring.departing = select_unpredictable(gone, tail, departing);
        self.queue_packets = select_unpredictable(gone, 0, self.queue_packets);
        self.queue_bytes = select_unpredictable(gone, 0, self.queue_bytes);
    }
    /// Takes packets in, from position `i` on, as long as nothing can follow from what has left meanwhile ([`Port::offer_all`]): answers the first
    /// that is left.
    ///
    /// What they change is added up beside the port and written once.
    #[inline(always)]
    fn take_below_thresholds(&mut self, queue: Queue<'_>, mut i: usize) -> usize {
        let Some(room) = self.threshold_bytes.checked_sub(self.queue_bytes) else { return i };
        let (framing, each) = (u64::from(self.framing), self.ps_per_byte);
        let most = self.threshold_packets.saturating_sub(self.queue_packets);
        let most = if each == 0 { 0 } else { most.min(self.ring.room_without_a_look()) };
        let (mut packets, mut bytes, mut sojourn) = (0, 0, 0);
        let (mut free_at, first_free) = (self.free_at, self.ring.tail);
        while i < queue.keys.len() {
            let cell = queue.cell(i);
            let with = bytes + u64::from(cell.bytes);
            if (packets >= most) | (with > room) {
                break;
            }
            free_at = free_at.max(cell.time) + (u64::from(cell.bytes) + framing) * each;
            sojourn += free_at - cell.time;
            self.ring.write(first_free.wrapping_add(packets), cell, free_at);
            packets += 1;
            bytes = with;
            i += 1;
        }
        self.free_at = free_at;
        self.ring.tail = first_free.wrapping_add(packets);
        self.queue_packets += packets;
        self.queue_bytes += bytes;
        self.accepted_packets += u64::from(packets);
        self.accepted_bytes += bytes;
        self.sojourn.add(sojourn, &mut self.sojourn_high);
        i
    }
    /// Offers the packets of a queue, of which there are some, to a port that keeps to itself, each at its [`Cell::time`]. Answers when the first of all
    /// arrives at the other end, [`Time::NEVER`] when that is known already; `lost` hears of those that the port drops, with their numbers. Where the
    /// port has a controller, `before` is called with the time of each packet before it is offered: that is for earlier deadlines of the controller
    /// ([`Port::tick`]).
    #[inline(always)]
    pub fn offer_all<S: Segments>(
        &mut self,
        queue: Queue<'_>,
        seg: &mut S,
        mut lost: impl FnMut(&Cell, u32),
        before: impl FnMut(&mut Port, u64, &mut S),
    ) -> Time {
        if self.mode != Mode::Plain {
            return self.offer_all_generic(queue, seg, lost, before);
        }
        let (was_empty, tail) = (self.ring.is_empty(), self.ring.tail);
        self.see_all_left(queue.cell(0).time);
        let mut i = 0;
        loop {
            i = self.take_below_thresholds(queue, i);
            if i == queue.keys.len() {
                break;
            }
            let cell = queue.cell(i);
            self.advance_fifo::<false, Unasked>(cell.time, &mut Unasked);
            let clear = self.is_below_thresholds(self.threshold_packets, cell) && self.ps_per_byte != 0;
            if !clear || self.ring.room_without_a_look() == 0 {
                if self.offer_plain(Time(cell.time), cell, seg).is_err() {
                    lost(cell, queue.number(i));
                }
                i += 1;
            }
        }
        // The first of them is the head then, unless all are lost.
        let head = self.ring.at(tail).time + self.delay;
        Time(select_unpredictable(was_empty & !self.ring.is_empty(), head, Time::NEVER.0))
    }
    #[inline(always)]
    fn offer_each<const KIND: u8, S: Segments>(
        &mut self,
        queue: Queue<'_>,
        seg: &mut S,
        mut lost: impl FnMut(&Cell, u32),
        mut before: impl FnMut(&mut Port, u64, &mut S),
    ) -> Time {
        let was_empty = self.ring.is_empty();
        for i in 0..queue.keys.len() {
            let cell = queue.cell(i);
            before(self, cell.time, seg);
            if self.offer_fifo::<KIND, S>(Time(cell.time), cell, Room::FREE, seg).is_err() {
                lost(cell, queue.number(i));
            }
        }
        if was_empty {
            self.next_arrival()
        } else {
            Time::NEVER
        }
    }
    #[inline(never)]
    fn offer_all_generic<S: Segments>(
        &mut self,
        queue: Queue<'_>,
        seg: &mut S,
        lost: impl FnMut(&Cell, u32),
        before: impl FnMut(&mut Port, u64, &mut S),
    ) -> Time {
        match self.mode {
            Mode::Noisy => self.offer_each::<{ kind::NOISY }, S>(queue, seg, lost, |_, _, _| {}),
            Mode::Asking => self.offer_each::<{ kind::ASKING }, S>(queue, seg, lost, |_, _, _| {}),
            _ if self.is_controlled() => self.offer_each::<{ kind::SPECIAL }, S>(queue, seg, lost, before),
            _ => self.offer_each::<{ kind::SPECIAL }, S>(queue, seg, lost, |_, _, _| {}),
        }
    }
    /// The deadline of the controller at a port that keeps to itself has come. Answers the next one.
    pub fn tick<S: Segments>(&mut self, now: Time, seg: &mut S) -> Time {
        debug_assert!(self.keeps_to_itself());
        self.advance_fifo::<true, S>(now.0, seg);
        self.tell_deadline(now);
        self.deadline()
    }
}

impl Fabric {
    /// All ports, for [`Port::take_all`] and [`Port::offer_all`].
    #[inline(always)]
    pub fn ports_mut(&mut self) -> &mut [Port] {
        &mut self.ports
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::{Arena, Effects, Offered};
    use crate::config::PortConfig;
    use crate::rule::Rule;
    use alloc::format;
    use penstock_core::rng::Entity;
    use penstock_core::{Amount, Ecn, Stream};
    use penstock_units::{Dur, Rate};

    fn port(seed: u64, measured: bool) -> Port {
        let mut config =
            PortConfig::plain(Rate(8_000_000_000), Dur(100_000_000), Stream::new(1, 0, Entity::Port, 0));
        config.measured = measured;
        config.limit_packets = [u32::MAX, 40][seed as usize % 2];
        config.limit_bytes = [u64::MAX, 30_000][seed as usize / 2 % 2];
        if (seed / 4).is_multiple_of(2) {
            config.rule = Rule::Threshold(Amount::Packets(9));
        }
        Port::new(0, config).unwrap()
    }

    /// Packets one by one, and window by window: the same arrive at the same times, marked or not, the same are lost, and the same is counted.
    #[test]
    fn windows_are_packets_one_by_one() {
        let mut x = 1u64;
        let mut draw = |n: u64| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (x >> 33) % n
        };
        let (mut marked, mut dropped) = (0, 0);
        for seed in 0..16 {
            let (mut one, mut many) = (port(seed, seed >= 8), port(seed, seed >= 8));
            let (mut arena, mut fx) = (Arena::new(false), Effects::default());
            let (mut came, mut came_at_once) = (Vec::new(), Vec::new());
            let (mut lost, mut lost_at_once) = (Vec::new(), Vec::new());
            let mut next = Time::NEVER;
            let (mut number, length) = (0, 100_000_000);
            for window in 0..60u64 {
                let (begin, until) = (window * length, (window + 1) * length - 1);
                many.see_off(until, &mut arena);
                let mut taken = Vec::new();
                many.take_all(until, &mut taken);
                came_at_once.extend(taken.iter().map(|c| (c.time, c.packet, c.ecn())));
                let (mut cells, mut keys) = (Vec::new(), Vec::new());
                let load = [0, 1, 60, 200][draw(4) as usize];
                let mut times: Vec<_> = (0..load).map(|_| begin + draw(length)).collect();
                times.sort_unstable();
                for (i, time) in (0u64..).zip(&times) {
                    let mut cell = Cell::new(number, 64 + draw(1400) as u32)
                        .with_ecn([Ecn::Ect0, Ecn::NotEct][draw(5) as usize / 4]);
                    cell.time = *time;
                    number += 1;
                    // Their numbers are in no order.
                    cells.insert(0, cell);
                    keys.push(load - 1 - i);
                }
                for cell in cells.iter().rev() {
                    while next.0 <= cell.time {
                        let arrival = one.arrive(next, &mut arena, &mut fx);
                        let cell = arrival.packet().unwrap();
                        came.push((next.0, cell.packet, cell.ecn()));
                        next = arrival.next;
                    }
                    match one.offer(Time(cell.time), *cell, &mut arena, &mut fx) {
                        Offered::Queued(head) => next = head.unwrap_or(next),
                        _ => lost.push(cell.packet),
                    }
                }
                while next.0 <= until {
                    let arrival = one.arrive(next, &mut arena, &mut fx);
                    let cell = arrival.packet().unwrap();
                    came.push((next.0, cell.packet, cell.ecn()));
                    next = arrival.next;
                }
                let was_empty = many.cells_held() == 0;
                if load > 0 {
                    let lost = |cell: &Cell, _| lost_at_once.push(cell.packet);
                    let head =
                        many.offer_all(Queue { cells: &cells, keys: &keys }, &mut arena, lost, |_, _, _| {});
                    assert_eq!(head, if was_empty { many.next_arrival() } else { Time::NEVER });
                }
                assert_eq!(many.next_arrival(), next);
            }
            assert_eq!((&came, &lost), (&came_at_once, &lost_at_once), "seed {seed}");
            let end = Time(100 * length);
            one.settle(end, &mut arena, &mut fx);
            many.settle(end, &mut arena, &mut fx);
            // An integral that is not kept is no number, and equals none.
            assert_eq!(format!("{:?}", one.stats()), format!("{:?}", many.stats()), "seed {seed}");
            marked += came.iter().filter(|(_, _, ecn)| *ecn == Ecn::Ce).count();
            dropped += lost.len();
        }
        assert!(marked > 100 && dropped > 100, "{marked} {dropped}");
    }
}
