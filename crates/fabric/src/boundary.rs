//! A link between two logical processes, each with a fabric of its own: the egress side has the queue, the ingress side the wire.
//!
//! At the egress side a packet's event is its departure ([`Fabric::make_egress`]): it is taken out then and becomes a message. At the ingress side
//! the same port, which is never offered anything, takes it up as one that is on the wire already ([`Fabric::put_on_wire`]), and its event there
//! is its arrival. What happens on the wire, reordering and loss by a failure, happens at the ingress side.

use crate::arena::{Loss, Lost};
use crate::cell::Cell;
use crate::fabric::{Fabric, NONE};
use crate::port::{flag, hook, Port};
use crate::ring::Ring;
use alloc::vec::Vec;
use penstock_units::{Rate, Time};

impl Port {
    /// The port is the egress side of a boundary link.
    #[inline]
    pub fn is_egress(&self) -> bool {
        self.flags & flag::BOUNDARY != 0 && self.delay == 0
    }
    fn make_egress(&mut self) {
        assert!(self.ring.is_empty(), "a boundary link has packets already");
        self.delay = 0;
        if let Some(extra) = &mut self.extra {
            extra.held_up = None;
        }
        self.hooks &= !hook::HELD_UP;
        self.flags |= flag::BOUNDARY;
        self.find_mode();
    }
    fn make_ingress(&mut self) {
        self.served = None;
        if let Some(extra) = &mut self.extra {
            (extra.controller, extra.loss, extra.noise) = (None, None, None);
        }
        self.hooks &= hook::HELD_UP;
        self.node = NONE;
        self.find_mode();
    }
    /// The port is whole again, to be read.
    fn make_whole(&mut self) {
        self.delay = self.link_delay;
    }
    fn put_on_wire(&mut self, cell: &Cell) -> Time {
        let next = self.ring.is_empty();
        debug_assert!(!self.ring.is_busy(), "an ingress side is offered nothing");
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
    /// `port` is the egress side of a boundary link from now on: an event of it is a packet that leaves it.
    pub fn make_egress(&mut self, port: u32) {
        self.ports[port as usize].make_egress();
    }
    /// `port` is the ingress side of a boundary link from now on: only its wire is here.
    pub fn make_ingress(&mut self, port: u32) {
        self.ports[port as usize].make_ingress();
    }
    /// A packet that has left the egress side of `port` is on the wire, and arrives at the time that its cell says. Answers that time,
    /// [`Time::NEVER`] when another one is before it. Packets come in the order in which they left.
    #[inline]
    pub fn put_on_wire(&mut self, port: u32, cell: &Cell) -> Time {
        self.ports[port as usize].put_on_wire(cell)
    }
    /// The link of an ingress side fails: what is on its wire is lost ([`crate::Effects::lost`]).
    pub fn fail_wire(&mut self, now: Time, port: u32) {
        let Fabric { ports, fx, .. } = self;
        let p = &mut ports[port as usize];
        let lost = |cell| Lost { at: now, port, cell, loss: Loss::Down };
        while !p.ring.is_empty() {
            fx.lose(lost(p.ring.pop()));
        }
        p.ring.unreleased = p.ring.head;
        // The event of what was lost still comes: from now on none is taken for an arrival unseen.
        p.flags |= flag::BOUNDARY;
        p.find_mode();
        if let Some(held_up) = p.held_up() {
            core::iter::from_fn(|| held_up.due(u64::MAX)).for_each(|cell| fx.lose(lost(cell)));
        }
    }
    /// The link of an ingress side has another rate: what pause frames take on it follows from that.
    pub fn set_wire_rate(&mut self, port: u32, rate: Rate) {
        let port = &mut self.ports[port as usize];
        port.clock = port.clock.with_rate(rate);
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
    /// Takes those ports that `which` says out of those of another part of the same network, to read them here.
    pub fn take_ports(&mut self, mut others: Vec<Port>, which: impl Fn(u32) -> bool) {
        for ((number, own), other) in (0u32..).zip(&mut self.ports).zip(&mut others) {
            if which(number) {
                core::mem::swap(own, other);
                own.make_whole();
            }
        }
    }
    /// The egress side of a boundary link is here, and is whole again.
    pub fn make_whole_again(&mut self, port: u32) {
        self.ports[port as usize].make_whole();
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
    use penstock_units::{Dur, Rate};

    fn fabric() -> Fabric {
        let mut config =
            PortConfig::plain(Rate(8_000_000_000), Dur(5000), Stream::new(1, 0, Entity::Port, 0));
        // An integral that is not kept is no number, and equals none.
        config.measured = true;
        Fabric::new(vec![Port::new(0, config).unwrap()])
    }

    /// Packets through one port, and through the two sides of a boundary link: the same arrivals and counters.
    #[test]
    fn two_sides_are_one_link() {
        let (mut whole, mut near, mut far) = (fabric(), fabric(), fabric());
        let (mut arena, mut other) = (Arena::new(false), Arena::new(false));
        near.make_egress(0);
        far.make_ingress(0);
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
            next = next.min(far.put_on_wire(0, &cell));
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
