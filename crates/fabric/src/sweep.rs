//! All packets that arrive at the other end of a link within a stretch of time, taken at once, and all that come to a port, taken in.
//!
//! A packet is on a link for its delay, at least. So whatever arrives within a stretch of time no longer than that had left its port before the
//! stretch began, and nothing that is offered to the port meanwhile can be among it: a driver that works through such stretches needs no
//! order of events between ports.

use crate::arena::Segments;
use crate::cell::Cell;
use crate::fabric::Fabric;
use crate::port::{flag, hook, kind, Mode, Port, Room};
use crate::ring::Ring;
use core::hint::select_unpredictable;
use penstock_core::{CcHeader, Packet};
use penstock_units::Time;

/// Segments of packets that leave a port which keeps to itself: nobody looks at them.
struct Unasked;

impl Segments for Unasked {
    fn segment(&mut self, _: u32) -> (&mut Packet, &mut CcHeader) {
        unreachable!("a port that keeps to itself asks for no segment of what leaves it")
    }
}

/// Cells in lists: beside each, in the same place, when it comes and what follows it. That is apart, as it is looked at more often than the rest.
#[derive(Clone, Copy)]
pub struct List<'a> {
    /// The cells. The first is nobody's.
    pub cells: &'a [Cell],
    /// Their places in lists.
    pub places: &'a [Place],
}

/// A place in a list.
#[derive(Clone, Copy, Default)]
pub struct Place {
    /// Picoseconds since a time that all know.
    pub since: u32,
    /// Number of the next of the list, 0 where it is the last.
    pub next: u32,
}

/// Cells in the order of their times, each with a number; that of the first is known, and 0 comes after the last.
pub trait Line: Copy {
    /// A cell.
    fn cell(&self, number: u32) -> &Cell;
    /// The next number.
    fn after(&self, number: u32) -> u32;
    /// What the caller knows the cell by.
    fn name(&self, number: u32) -> u32;
}

impl Line for List<'_> {
    #[inline(always)]
    fn cell(&self, number: u32) -> &Cell {
        &self.cells[number as usize]
    }
    #[inline(always)]
    fn after(&self, number: u32) -> u32 {
        self.places[number as usize].next
    }
    #[inline(always)]
    fn name(&self, number: u32) -> u32 {
        number
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

impl Line for Queue<'_> {
    #[inline(always)]
    fn cell(&self, number: u32) -> &Cell {
        &self.cells[self.keys[number as usize - 1] as u32 as usize]
    }
    #[inline(always)]
    fn after(&self, number: u32) -> u32 {
        if number as usize == self.keys.len() {
            0
        } else {
            number + 1
        }
    }
    #[inline(always)]
    fn name(&self, number: u32) -> u32 {
        self.keys[number as usize - 1] as u32
    }
}

/// A place for a cell, with or without other things beside it.
pub trait HasCell {
    /// The cell.
    fn cell(&mut self) -> &mut Cell;
}

impl HasCell for Cell {
    #[inline(always)]
    fn cell(&mut self) -> &mut Cell {
        self
    }
}

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
    /// so far, into `room`, which is as long as [`Self::cells_held`] at least: the time of each is that of its arrival and `later`, its rank and its ingress
    /// are those of `mark`. Answers how many, and when the next one arrives, [`u64::MAX`] when there is none. The port keeps to itself
    /// ([`Port::keeps_to_itself`]).
    #[inline(always)]
    pub fn take_arrived<R: HasCell>(
        &mut self,
        until: u64,
        room: &mut [R],
        mark: (u32, u16),
        later: u64,
    ) -> (usize, u64) {
        self.take_each(until, |taken, cell, at| {
            let place = room[taken].cell();
            *place = *cell;
            (place.time, place.rank, place.ingress) = (at + later, mark.0, mark.1);
        })
    }
    /// The same to the end of a list.
    #[inline(always)]
    pub fn take_all(&mut self, until: u64, cells: &mut alloc::vec::Vec<Cell>) -> u64 {
        cells.reserve(self.cells_held() as usize);
        let ingress = self.ingress;
        let (_, next) = self.take_each(until, |_, cell, at| {
            let mut cell = *cell;
            (cell.time, cell.ingress) = (at, ingress);
            cells.push(cell);
        });
        next
    }
    /// The same, but `take` sees each with its number and the time of its arrival. What it makes of the cell it does not read: it would have to wait for that.
    #[inline(always)]
    pub fn take_each(&mut self, until: u64, mut take: impl FnMut(usize, &Cell, u64)) -> (usize, u64) {
        debug_assert!(self.keeps_to_itself());
        let (delay, departing, tail) = (self.delay, self.ring.departing, self.ring.tail);
        let mut head = self.ring.head;
        let mut taken = 0;
        // Of those that arrive, what the port does not know yet to have left: without a jump, as nobody can foresee it.
        let (mut packets, mut bytes) = (0u32, 0u64);
        let next = loop {
            // One jump for both ends: behind the last cell is an old one, or none.
            let cell = self.ring.at(head);
            let at = select_unpredictable(head == tail, u64::MAX, cell.time.wrapping_add(delay));
            if at > until {
                break at;
            }
            take(taken, cell, at);
            // All ones where it is new.
            let new = !((head.wrapping_sub(departing) as i32) >> 31);
            packets = packets.wrapping_sub(new as u32);
            bytes += u64::from(cell.bytes & new as u32);
            head = head.wrapping_add(1);
            taken += 1;
        };
        self.ring.head = head;
        self.ring.departing = departing.wrapping_add(packets);
        self.queue_packets -= packets;
        self.queue_bytes -= bytes;
        (taken, next)
    }
    /// All that a FIFO without noise has taken in has left by `at`, as it is through with it by then: no look at one after the other.
    #[inline(always)]
    fn see_all_left(&mut self, at: u64) {
        let gone = (self.free_at <= at) & (self.flags & flag::MEASURED == 0);
        let Ring { departing, tail, .. } = self.ring;
        // Nobody can foresee it.
        self.ring.departing = select_unpredictable(gone, tail, departing);
        self.queue_packets = select_unpredictable(gone, 0, self.queue_packets);
        self.queue_bytes = select_unpredictable(gone, 0, self.queue_bytes);
    }
    /// Takes packets in, from number `number` on, as long as nothing can follow from what has left meanwhile ([`Port::offer_all`]): answers the first
    /// that is left, 0 when there is none.
    ///
    /// What they change is added up beside the port and written once.
    #[inline(always)]
    fn take_below_thresholds(&mut self, list: impl Line, mut number: u32) -> u32 {
        let Some(room) = self.threshold_bytes.checked_sub(self.queue_bytes) else { return number };
        let (framing, each) = (u64::from(self.framing), self.ps_per_byte);
        let most = self.threshold_packets.saturating_sub(self.queue_packets);
        let most = if each == 0 { 0 } else { most.min(self.ring.room_without_a_look()) };
        let (mut packets, mut bytes, mut sojourn) = (0, 0, 0);
        let (mut free_at, first_free) = (self.free_at, self.ring.tail);
        while number != 0 {
            let cell = list.cell(number);
            let with = bytes + u64::from(cell.bytes);
            if (packets >= most) | (with > room) {
                break;
            }
            free_at = free_at.max(cell.time) + (u64::from(cell.bytes) + framing) * each;
            sojourn += free_at - cell.time;
            self.ring.write(first_free.wrapping_add(packets), cell, free_at);
            packets += 1;
            bytes = with;
            number = list.after(number);
        }
        self.free_at = free_at;
        self.ring.tail = first_free.wrapping_add(packets);
        self.queue_packets += packets;
        self.queue_bytes += bytes;
        self.accepted_packets += u64::from(packets);
        self.accepted_bytes += bytes;
        self.sojourn.add(sojourn, &mut self.sojourn_high);
        number
    }
    /// Offers the packets of a list to a port that keeps to itself, each at its [`Cell::time`]. The list begins with number `first`. Answers when the
    /// first of all arrives at the other end, [`Time::NEVER`] when that is known already; `lost` hears of those that the port drops. Where a controller is
    /// at it, `before` is called first, with the time of the packet: its deadlines are to come before ([`Port::tick`]).
    #[inline(always)]
    pub fn offer_all<S: Segments>(
        &mut self,
        list: impl Line,
        first: u32,
        seg: &mut S,
        mut lost: impl FnMut(&Cell, u32),
        before: impl FnMut(&mut Port, u64, &mut S),
    ) -> Time {
        if self.mode != Mode::Plain {
            return self.offer_all_generic(list, first, seg, lost, before);
        }
        let (was_empty, tail) = (self.ring.is_empty(), self.ring.tail);
        self.see_all_left(list.cell(first).time);
        let mut number = first;
        loop {
            number = self.take_below_thresholds(list, number);
            if number == 0 {
                break;
            }
            let cell = list.cell(number);
            self.advance_fifo::<false, Unasked>(cell.time, &mut Unasked);
            let clear = self.is_below_thresholds(self.threshold_packets, cell) && self.ps_per_byte != 0;
            if !clear || self.ring.room_without_a_look() == 0 {
                if self.offer_plain(Time(cell.time), cell, seg).is_err() {
                    lost(cell, list.name(number));
                }
                number = list.after(number);
            }
        }
        // The first of them is the head then, unless all are lost.
        let head = self.ring.at(tail).time + self.delay;
        Time(select_unpredictable(was_empty & !self.ring.is_empty(), head, Time::NEVER.0))
    }
    #[inline(always)]
    fn offer_each<const KIND: u8, S: Segments>(
        &mut self,
        list: impl Line,
        first: u32,
        seg: &mut S,
        mut lost: impl FnMut(&Cell, u32),
        mut before: impl FnMut(&mut Port, u64, &mut S),
    ) -> Time {
        let was_empty = self.ring.is_empty();
        let mut number = first;
        while number != 0 {
            let cell = list.cell(number);
            before(self, cell.time, seg);
            if self.offer_fifo::<KIND, S>(Time(cell.time), cell, Room::FREE, seg).is_err() {
                lost(cell, list.name(number));
            }
            number = list.after(number);
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
        list: impl Line,
        first: u32,
        seg: &mut S,
        lost: impl FnMut(&Cell, u32),
        before: impl FnMut(&mut Port, u64, &mut S),
    ) -> Time {
        match self.mode {
            Mode::Noisy => self.offer_each::<{ kind::NOISY }, S>(list, first, seg, lost, |_, _, _| {}),
            Mode::Asking => self.offer_each::<{ kind::ASKING }, S>(list, first, seg, lost, |_, _, _| {}),
            _ if self.is_controlled() => {
                self.offer_each::<{ kind::SPECIAL }, S>(list, first, seg, lost, before)
            }
            _ => self.offer_each::<{ kind::SPECIAL }, S>(list, first, seg, lost, |_, _, _| {}),
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
    /// All ports, for [`Port::take_arrived`] and [`Port::offer_all`].
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
    use alloc::vec::Vec;
    use alloc::{format, vec};
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

    /// Packets one by one, and stretch by stretch: the same arrive at the same times, marked or not, the same are lost, and the same is counted.
    #[test]
    fn stretches_are_packets_one_by_one() {
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
            let mut room = vec![Cell::default(); 3_000];
            for stretch in 0..60u64 {
                let (begin, until) = (stretch * length, (stretch + 1) * length - 1);
                many.see_off(until, &mut arena);
                let (taken, _) = many.take_arrived(until, &mut room, (5, 6), 0);
                came_at_once.extend(room[..taken].iter().map(|c| (c.time, c.packet, c.ecn())));
                assert!(room[..taken].iter().all(|c| (c.rank, c.ingress) == (5, 6)));
                let (mut cells, mut places) = (vec![Cell::default()], vec![Place::default()]);
                let load = [0, 1, 60, 200][draw(4) as usize];
                let mut times: Vec<_> = (0..load).map(|_| begin + draw(length)).collect();
                times.sort_unstable();
                for (i, time) in (1u32..).zip(&times) {
                    let mut cell = Cell::new(number, 64 + draw(1400) as u32)
                        .with_ecn([Ecn::Ect0, Ecn::NotEct][draw(5) as usize / 4]);
                    cell.time = *time;
                    number += 1;
                    cells.push(cell);
                    let next = if i as usize == times.len() { 0 } else { i + 1 };
                    places.push(Place { since: 0, next });
                }
                for cell in &cells[1..] {
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
                    let list = List { cells: &cells, places: &places };
                    let lost = |cell: &Cell, _| lost_at_once.push(cell.packet);
                    let head = many.offer_all(list, 1, &mut arena, lost, |_, _, _| {});
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
