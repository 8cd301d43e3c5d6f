//! The short way of a packet: from link to link over ports that are plain, many hops in one call.
//!
//! Nothing here that [`Network::arrive`] and its like do not do; only what a run or a port does not use is asked once, not for every
//! packet. Whatever is not plain takes the long way, in the middle of the loop.

use super::{Network, SEVERAL};
use penstock_fabric::{Cell, Offered};
use penstock_units::Time;

/// So many arrivals ahead a port is fetched from memory, then the packet that it holds, then the port that this one goes to.
const PORT_AHEAD: usize = 5;
const CELL_AHEAD: usize = 3;
const HOP_AHEAD: usize = 1;
/// Networks of at least so many ports do not fit into a processor's own cache.
pub(super) const LARGE: usize = 1024;

impl Network {
    /// Carries out the arrivals up to and including `until`, as long as nobody but the network has to do with them: up to the
    /// first packet that is at its destination, which is the answer, or until a packet is lost or a deadline may have been set. `now`
    /// is the time of the last one. A packet's marks are in its cell only.
    #[inline(always)]
    pub fn arrive_until(&mut self, until: Time, now: &mut Time) -> Option<Cell> {
        if self.trace.is_some() {
            // Every arrival is looked at.
            let next = self.next_arrival();
            if next > until {
                return None;
            }
            *now = next;
            return self.arrive(next).map(|arrived| arrived.cell);
        }
        loop {
            let next = self.arrivals.peek();
            if next > until {
                return None;
            }
            *now = next;
            let port = self.arrivals.take();
            self.fetch_ahead();
            let Some((cell, following)) = self.fabric.arrive_fast(next, port, &mut self.arena) else {
                let arrived = self.arrive_by(next, port);
                if arrived.is_some() || self.disturbed() {
                    return arrived.map(|arrived| arrived.cell);
                }
                continue;
            };
            if following != Time::NEVER {
                self.arrivals.push(following, port);
            }
            self.packet_hops += 1;
            let at = self.to[port as usize];
            if at == cell.to {
                self.conservation.delivered += 1;
                return Some(cell);
            }
            self.pass(next, at, cell);
            if self.disturbed() {
                return None;
            }
        }
    }
    /// A packet at a switch goes on.
    #[inline(always)]
    fn pass(&mut self, now: Time, at: u32, mut cell: Cell) {
        let Network { forwarding, fabric, arena, .. } = self;
        let backlog = |port| {
            fabric.advance(now, port, arena);
            fabric.ports()[port as usize].queue_bytes()
        };
        match forwarding.next(at, &mut cell, now, backlog) {
            Some(port) => {
                self.put(now, port, cell);
            }
            None => self.no_way(now, cell),
        }
    }
    /// Offers a packet to a port; false when it is lost there. Effects are not taken.
    #[inline(always)]
    pub(super) fn put(&mut self, now: Time, port: u32, cell: Cell) -> bool {
        let head = match self.fabric.offer_fast(now, port, cell, &mut self.arena) {
            Some(Ok(head)) => head,
            Some(Err(_)) => {
                self.lose(cell.packet);
                return false;
            }
            None => return self.put_with_care(now, port, cell),
        };
        if head != Time::NEVER {
            self.arrivals.push(head, port);
        }
        true
    }
    #[inline(never)]
    fn put_with_care(&mut self, now: Time, port: u32, cell: Cell) -> bool {
        match self.fabric.offer(now, port, cell, &mut self.arena) {
            Offered::Queued(None) | Offered::Trimmed(None) => true,
            Offered::Queued(Some(at)) | Offered::Trimmed(Some(at)) => {
                self.arrivals.push(at, port);
                true
            }
            Offered::Dropped(_) => {
                self.lose(cell.packet);
                false
            }
        }
    }
    /// A host with `port` sends a packet; answers when its port can take the next one, `None` when the packet is lost at once. Where the
    /// host has several ports, forwarding chooses one.
    #[inline(never)]
    pub fn transmit(&mut self, now: Time, port: u32, cell: Cell) -> Option<Time> {
        if self.asks_at_hosts || self.trace.is_some() {
            return self.leave(now, self.from[port as usize], cell);
        }
        self.conservation.sent += 1;
        let (offered, free_at) = self.fabric.offer_of_host(now, port, cell, &mut self.arena);
        let queued = match offered {
            Some(Ok(Time::NEVER)) => true,
            Some(Ok(head)) => {
                self.arrivals.push(head, port);
                true
            }
            Some(Err(_)) => {
                self.lose(cell.packet);
                false
            }
            None => return self.transmit_with_care(now, port, cell),
        };
        queued.then_some(free_at)
    }
    #[inline(never)]
    fn transmit_with_care(&mut self, now: Time, port: u32, cell: Cell) -> Option<Time> {
        let queued = self.put_with_care(now, port, cell);
        self.take_effects();
        queued.then(|| self.fabric.ports()[port as usize].free_at())
    }
    /// True when a packet that leaves a host needs a look at the map of priorities, or at several ports.
    pub(super) fn find_asks_at_hosts(&self, hosts: &[bool]) -> bool {
        self.priority_of.is_some()
            || self.only.iter().zip(hosts).any(|(port, is_host)| *is_host && *port == SEVERAL)
    }
    /// True when the driver has something to do beside arrivals: packets were lost, or a deadline set.
    #[inline(always)]
    fn disturbed(&mut self) -> bool {
        let effects = self.fabric.effects().any();
        if effects {
            self.take_effects();
        }
        effects || !self.lost.is_empty()
    }
    /// In a large network the next ports are not in the cache: they are fetched while this packet is handled.
    #[inline(always)]
    pub(super) fn fetch_ahead(&mut self) {
        let ports = self.fabric.ports();
        if let Some(port) = self.arrivals.upcoming(PORT_AHEAD) {
            ports[port as usize].prefetch();
        }
        if let Some(port) = self.arrivals.upcoming(CELL_AHEAD) {
            ports[port as usize].prefetch_head();
        }
        if self.looks_far {
            self.fetch_beyond();
        }
    }
    /// The same for the port to which the next packet goes, or that packet where it is at its destination.
    #[inline(always)]
    fn fetch_beyond(&mut self) {
        let ports = self.fabric.ports();
        if let Some(port) = self.beyond.take() {
            ports[port as usize].prefetch_tail();
        }
        let Some(port) = self.arrivals.upcoming(HOP_AHEAD) else { return };
        let cell = ports[port as usize].head();
        let at = self.to[port as usize];
        if at == cell.to {
            self.arena.prefetch(cell.packet);
        } else if let Some(next) = self.forwarding.guess(at, cell) {
            ports[next as usize].prefetch();
            self.beyond = Some(next);
        }
    }
}
