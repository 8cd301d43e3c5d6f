//! A link whose ends are in two fabrics: where a network is divided, the near half has the queue and the far half the wire.
//!
//! In the near half a packet's event is its departure ([`Port::lead_away`]): it is taken out then and handed over. In the far half the same
//! port, which is never offered anything, takes it up as one that is on the wire already ([`Fabric::carry`]), and its event there is its arrival.

use crate::cell::Cell;
use crate::fabric::Fabric;
use crate::port::{flag, Port};
use crate::ring::Ring;
use alloc::vec::Vec;
use penstock_units::{Dur, Time};

impl Port {
    /// True when an event of the port is the head of a FIFO at the other end, and nothing else. Only such a port can be divided.
    pub fn is_direct(&self) -> bool {
        self.flags & flag::DIRECT != 0
    }
    /// The port is the near half of its link: its events are departures from now on.
    fn lead_away(&mut self) {
        assert!(
            self.is_direct() && self.ring.is_empty(),
            "a port that cannot be divided, or has packets already"
        );
        self.delay = 0;
        self.flags &= !flag::DIRECT;
    }
    /// The port is whole again, to be read.
    fn lead_home(&mut self, delay: Dur) {
        self.delay = delay.0;
    }
    fn carry(&mut self, cell: &Cell) -> Time {
        let next = self.ring.is_empty();
        debug_assert!(!self.ring.is_busy(), "a far half is offered nothing");
        self.ring.push_at(cell, cell.time - self.delay);
        self.ring.departing = self.ring.tail;
        if next {
            Time(cell.time)
        } else {
            Time::NEVER
        }
    }
}

impl Fabric {
    /// `port` is the near half of a divided link from now on: an event of it is a packet that leaves it, to be handed to the far half.
    pub fn lead_away(&mut self, port: u32) {
        self.ports[port as usize].lead_away();
    }
    /// A packet that has left the near half of `port` is on the wire, and arrives at the time that its cell says. Answers that time,
    /// [`Time::NEVER`] when another one is before it. Packets come in the order in which they left.
    #[inline]
    pub fn carry(&mut self, port: u32, cell: &Cell) -> Time {
        self.ports[port as usize].carry(cell)
    }
    /// Forgets what is on the wires of some ports.
    pub fn empty(&mut self, which: impl Fn(u32) -> bool) {
        for (_, port) in (0u32..).zip(&mut self.ports).filter(|(number, _)| which(*number)) {
            port.ring = Ring::new();
        }
    }
    /// Gives its ports away: nothing else is done with it.
    pub fn leave(&mut self) -> Vec<Port> {
        core::mem::take(&mut self.ports)
    }
    /// Takes ports out of those of another part of the same network, to read them here: those for which `delay` answers, how long their link is.
    pub fn take_home(&mut self, mut others: Vec<Port>, delay: impl Fn(u32) -> Option<Dur>) {
        for ((number, own), other) in (0u32..).zip(&mut self.ports).zip(&mut others) {
            if let Some(delay) = delay(number) {
                core::mem::swap(own, other);
                own.lead_home(delay);
            }
        }
    }
    /// The near half of a divided link is here, and is whole again; the link is `delay` long.
    pub fn stay_home(&mut self, port: u32, delay: Dur) {
        self.ports[port as usize].lead_home(delay);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::{Arena, Offered};
    use crate::config::PortConfig;
    use alloc::vec;
    use penstock_core::rng::Entity;
    use penstock_core::Stream;
    use penstock_units::Rate;

    fn fabric() -> Fabric {
        let mut config =
            PortConfig::plain(Rate(8_000_000_000), Dur(5000), Stream::new(1, 0, Entity::Port, 0));
        // An integral that is not kept is no number, and equals none.
        config.measured = true;
        Fabric::new(vec![Port::new(0, config).unwrap()])
    }

    /// Packets through one port, and through its two halves: the same arrivals and counters.
    #[test]
    fn two_halves_are_one_link() {
        let (mut whole, mut near, mut far) = (fabric(), fabric(), fabric());
        let (mut arena, mut other) = (Arena::new(false), Arena::new(false));
        near.lead_away(0);
        // Bytes and times: a queue builds up, empties, and builds up again.
        let packets = [(0u64, 1500), (10, 40), (2000, 9000), (20_000_000, 64), (20_000_001, 64)];
        let (mut arrived, mut handed) = (Vec::new(), Vec::new());
        let (mut next, mut next_near) = (Time::NEVER, Time::NEVER);
        for (at, bytes) in packets.into_iter().chain([(u64::MAX, 0)]) {
            while next.0 <= at.min(u64::MAX - 1) {
                let arrival = whole.arrive(next, 0, &mut arena);
                arrived.push((next, arrival.packet().unwrap().packet));
                next = arrival.next;
            }
            while next_near.0 <= at.min(u64::MAX - 1) {
                let departure = near.arrive(next_near, 0, &mut other);
                handed.push(departure.packet().unwrap());
                assert_eq!(handed.last().unwrap().time, next_near.0);
                next_near = departure.next;
            }
            if bytes > 0 {
                let number = arena.alloc();
                other.alloc();
                for (fabric, arena, next) in
                    [(&mut whole, &mut arena, &mut next), (&mut near, &mut other, &mut next_near)]
                {
                    let cell = Cell::new(number, bytes);
                    match fabric.offer(Time(at), 0, cell, arena) {
                        Offered::Queued(head) => *next = head.unwrap_or(*next),
                        lost => panic!("{lost:?}"),
                    }
                }
            }
        }
        let mut over = Vec::new();
        let mut next = Time::NEVER;
        for mut cell in handed {
            cell.time += 5000;
            next = next.min(far.carry(0, &cell));
        }
        while next != Time::NEVER {
            let arrival = far.arrive(next, 0, &mut other);
            over.push((next, arrival.packet().unwrap().packet));
            next = arrival.next;
        }
        assert_eq!(over, arrived);
        assert_eq!(over.len(), packets.len());
        let end = Time(30_000_000);
        whole.settle(end, &mut arena);
        near.settle(end, &mut other);
        assert_eq!(near.ports()[0].stats(), whole.ports()[0].stats());
        assert_eq!((near.packets_held(), far.packets_held()), (0, 0));
    }
}
