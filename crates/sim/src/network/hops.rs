//! The short way of a packet: from link to link over ports that are plain, many hops in one call.
//!
//! Nothing here that [`Network::arrive`] and its like do not do; only what a run or a port does not use is asked once, not for every
//! packet. Whatever is not plain takes the long way, in the middle of the loop.

use super::{Network, SEVERAL};
use penstock_core::Packet;
use penstock_fabric::{Cell, Offered, Port};
use penstock_host::Part;
use penstock_units::Time;

/// So many arrivals ahead a port is fetched from memory, then the packet that it holds, then the port or host that this one goes to.
const PORT_AHEAD: usize = 12;
const CELL_AHEAD: usize = 9;
const HOP_AHEAD: usize = 6;
/// Turns after a look at which something is fetched of the host that a packet reaches, a bit each.
const HOST_TURNS: u32 = 1 << 2 | 1 << 4 | 1 << 5;
/// Networks of at least so many ports do not fit into a processor's own cache.
pub(super) const LARGE: usize = 1024;
/// Networks of at least so many do not fit into the smallest cache of one.
pub(super) const MIDDLING: usize = 128;

const CHOICES: usize = 64;

/// What is known of the packets that come next.
pub(super) struct Beyond {
    /// Of the packets that were looked at last.
    steps: [Step; 8],
    turn: usize,
    /// Which of them reach a host, a bit each, the last one's the lowest.
    to_hosts: u32,
    /// Choices of ports that were made ahead, by the last digits of the port of arrival.
    choices: [Choice; CHOICES],
    /// In a tree: the port to which the packet goes on that was next at the last look.
    onward: u32,
    /// Or the host that it reaches.
    pub(super) host: u32,
}

/// Where a packet goes on, or ends.
#[derive(Clone, Copy)]
struct Step {
    /// The port that it, or what answers it, will leave by, as far as that is known.
    port: u32,
    host: u32,
    slot: u32,
}

impl Default for Step {
    fn default() -> Step {
        Step { port: UNKNOWN, host: UNKNOWN, slot: UNKNOWN }
    }
}

const UNKNOWN: u32 = u32::MAX;

impl Default for Beyond {
    fn default() -> Beyond {
        let (steps, choices) = (Default::default(), [Choice::default(); CHOICES]);
        Beyond { steps, turn: 0, to_hosts: 0, choices, onward: UNKNOWN, host: UNKNOWN }
    }
}

impl Beyond {
    /// One packet more is looked at.
    #[inline(always)]
    fn turn(&mut self, step: Step) {
        self.turn = (self.turn + 1) % self.steps.len();
        self.steps[self.turn] = step;
        self.to_hosts = self.to_hosts << 1 | u32::from(step.host != UNKNOWN);
    }
    /// What forwarding will answer for a packet that comes by `port`: a port and an entropy.
    #[inline(always)]
    fn choose(&mut self, port: u32, cell: &Cell, next: (u32, u32)) {
        self.choices[port as usize % CHOICES] =
            Choice { port, to: cell.to, entropy: cell.entropy, next: Some(next) };
    }
    /// What was said of a packet so many turns ago.
    #[inline(always)]
    fn step(&self, turns: usize) -> &Step {
        &self.steps[(self.turn + self.steps.len() - turns) % self.steps.len()]
    }
    /// The host that the packet reaches that was looked at so many turns ago, and its slot.
    #[inline(always)]
    fn host(&self, turns: usize) -> Option<(u32, u32)> {
        let Step { host, slot, .. } = *self.step(turns);
        (self.to_hosts >> turns & 1 != 0).then_some((host, slot))
    }
}

/// What forwarding answers for a packet to `to` with `entropy` at the node behind `port`; `None` when nothing is known.
#[derive(Clone, Copy, Default)]
struct Choice {
    port: u32,
    to: u32,
    entropy: u32,
    /// The port it goes to, and the entropy it goes with.
    next: Option<(u32, u32)>,
}

impl Network {
    /// Carries out the arrivals up to and including `until`, as long as nobody but the network has to do with them: up to the
    /// first packet that is at its destination, which is the answer, or until a packet is lost or a deadline may have been set. `now`
    /// is the time of the last one. A packet's marks are in its cell only. `soon` hears in large networks of hosts that a packet reaches
    /// next but one, and then of the packet, for a prefetch.
    #[inline(always)]
    pub fn arrive_until(
        &mut self,
        until: Time,
        now: &mut Time,
        mut soon: impl FnMut(u32, Option<(&Packet, Part)>),
    ) -> Option<Cell> {
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
            let (next, port) = self.arrivals.take_until(until)?;
            *now = next;
            if self.looks_far {
                self.fetch_far(&mut soon);
            }
            let Some((cell, following)) = self.fabric.arrive_fast(next, port, &mut self.arena) else {
                let arrived =
                    if self.boundaries.is_none() && self.fabric.ports()[port as usize].serves_alone() {
                        self.arrive_served(next, port)
                    } else {
                        self.arrive_by(next, port).map(|arrived| arrived.cell)
                    };
                if arrived.is_some() || self.disturbed() {
                    self.last = port;
                    return arrived;
                }
                continue;
            };
            if following != Time::NEVER {
                self.arrivals.push(following, port);
            }
            if self.fetches {
                self.fetch_near::<false>();
            }
            self.packet_hops += 1;
            let at = self.to[port as usize];
            if at == cell.to {
                self.conservation.delivered += 1;
                self.last = port;
                return Some(cell);
            }
            self.pass(next, port, at, cell);
            if self.disturbed() {
                self.last = port;
                return None;
            }
        }
    }
    /// An arrival by a port that schedules and shares no buffer.
    #[inline(never)]
    fn arrive_served(&mut self, now: Time, port: u32) -> Option<Cell> {
        if self.fetches {
            self.fetch_onward();
        }
        let Some((cell, following)) = self.fabric.arrive_served(now, port, &mut self.arena) else {
            return self.arrive_by(now, port).map(|arrived| arrived.cell);
        };
        if following != Time::NEVER {
            self.arrivals.push(following, port);
        }
        if self.fetches {
            self.fetch_near::<true>();
        }
        self.packet_hops += 1;
        let at = self.to[port as usize];
        if at == cell.to {
            self.conservation.delivered += 1;
            return Some(cell);
        }
        self.pass(now, port, at, cell);
        None
    }
    /// The port by which a packet goes on that came from `port`, if that has been found when it was looked at.
    #[inline(always)]
    pub(super) fn chosen(&self, port: u32, cell: &mut Cell) -> Option<u32> {
        let choice = &self.beyond.choices[port as usize % CHOICES];
        let (next, entropy) = choice.next.filter(|_| choice.is_for(port, cell))?;
        cell.entropy = entropy;
        Some(next)
    }
    /// A packet at switch `at`, come from `port`, goes on.
    #[inline(always)]
    fn pass(&mut self, now: Time, port: u32, at: u32, mut cell: Cell) {
        if self.fetches {
            if let Some(next) = self.chosen(port, &mut cell) {
                self.put(now, next, cell);
                return;
            }
        }
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
                self.lose(now, cell.packet);
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
        if let Some(head) = self.fabric.offer_below_thresholds(now, port, &cell, &mut self.arena) {
            if head != Time::NEVER {
                self.arrivals.push(head, port);
            }
            return true;
        }
        match self.fabric.offer_slow_path(now, port, &cell, &mut self.arena) {
            Offered::Queued(None) | Offered::Trimmed(None) => true,
            Offered::Queued(Some(at)) | Offered::Trimmed(Some(at)) => {
                self.arrivals.push(at, port);
                true
            }
            Offered::Dropped(loss) => self.refused(now, port, cell, loss),
        }
    }
    /// A host with `port` sends a packet; answers when its port can take the next one, `None` when the packet is lost at once. Where the
    /// host has several ports, forwarding chooses one.
    #[inline(never)]
    pub fn transmit(&mut self, now: Time, port: u32, cell: &Cell) -> Option<Time> {
        if self.asks_at_hosts || self.trace.is_some() {
            return self.leave(now, self.from[port as usize], *cell);
        }
        let mut mapped;
        let mut cell = cell;
        if let Some(map) = &self.priority_of {
            mapped = *cell;
            map_priority(map, &mut mapped);
            cell = &mapped;
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
                self.lose(now, cell.packet);
                false
            }
            None => return self.transmit_with_care(now, port, *cell),
        };
        queued.then_some(free_at)
    }
    #[inline(never)]
    fn transmit_with_care(&mut self, now: Time, port: u32, cell: Cell) -> Option<Time> {
        let queued = self.put_with_care(now, port, cell);
        self.take_effects();
        queued.then(|| self.fabric.ports()[port as usize].free_at())
    }
    /// True when a packet that leaves a host needs a look at several ports.
    pub(super) fn find_asks_at_hosts(&self, hosts: &[bool]) -> bool {
        self.only.iter().zip(hosts).any(|(port, is_host)| *is_host && *port == SEVERAL)
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
    /// In a network that is not small a port that is likely to be among the next few is fetched, in two steps, while this packet is handled; then,
    /// when it is the next, what its packet has, and the port to which that goes on: it need not be asked again.
    #[inline(always)]
    pub(super) fn fetch_near<const SCHEDULES: bool>(&mut self) {
        let Some([coming, soon, later]) = self.arrivals.near() else { return };
        let ports = self.fabric.ports();
        let get = |port: u32| ports.get(port as usize);
        match get(soon) {
            Some(port) if SCHEDULES => port.prefetch_behind(),
            Some(port) => port.prefetch_head(),
            None => {}
        }
        let front = |port: &Port| if SCHEDULES { port.prefetch_front() } else { port.prefetch() };
        get(later).into_iter().for_each(front);
        self.beyond.onward = UNKNOWN;
        // Where there is none it may be any.
        let Some(port) = get(coming) else { return };
        let (cell, at) = (port.head(), self.to[coming as usize]);
        if at == cell.to {
            self.arena.prefetch(cell.packet);
            if SCHEDULES {
                self.arena.prefetch_hops(cell.packet);
            }
            // What answers it leaves by its host's port, where that has one only.
            self.beyond.onward = self.only[at as usize];
            get(self.beyond.onward).into_iter().for_each(front);
            self.beyond.host = at;
        } else if let Some((next, entropy)) = self.forwarding.guess(at, cell) {
            if SCHEDULES {
                self.arena.prefetch_next_hop(cell.packet);
            }
            self.beyond.choose(coming, cell, (next, entropy));
            self.beyond.onward = next;
            get(next).into_iter().for_each(front);
        }
    }
    /// And when that packet has come, what it will touch there, where ports schedule.
    #[inline(always)]
    pub(super) fn fetch_onward(&self) {
        if let Some(port) = self.fabric.ports().get(self.beyond.onward as usize) {
            port.prefetch_behind();
        }
    }
    /// In a large network the next ports are not in the cache: they are fetched while this packet is handled, and so is the port to which the next
    /// packet but some goes, or the host that it reaches, part by part. Which port that is, is kept: it need not be asked again.
    #[inline(always)]
    pub(super) fn fetch_far(&mut self, soon: &mut impl FnMut(u32, Option<(&Packet, Part)>)) {
        let Some(ahead) = self.arrivals.ahead::<{ PORT_AHEAD + 1 }>() else { return };
        let ports = self.fabric.ports();
        ports[ahead.port(PORT_AHEAD) as usize].prefetch_ring();
        ports[ahead.port(CELL_AHEAD) as usize].prefetch_head();
        let port = ahead.port(HOP_AHEAD);
        let cell = ports[port as usize].head();
        let at = self.to[port as usize];
        let mut step = Step::default();
        if at == cell.to {
            self.arena.prefetch(cell.packet);
            soon(at, None);
            step = Step { port: self.only[at as usize], host: at, slot: cell.packet };
        } else if ports[port as usize].is_egress() {
            // Most probably it is handed over to another part of the run, its segment with it.
            self.arena.prefetch(cell.packet);
        } else if let Some((next, entropy)) = self.forwarding.guess(at, cell) {
            step.port = next;
            self.beyond.choose(port, cell, (next, entropy));
        }
        if let Some(port) = ports.get(step.port as usize) {
            port.prefetch();
        }
        self.beyond.turn(step);
        if let Some(port) = ports.get(self.beyond.step(2).port as usize) {
            port.prefetch_tail();
        }
        if self.beyond.to_hosts & HOST_TURNS != 0 {
            for (turns, part) in [(2, Part::Place), (4, Part::End), (5, Part::Inside)] {
                self.tell(turns, part, soon);
            }
        }
    }
    /// A host hears of the packet that was looked at so many turns ago, if it reaches one.
    #[inline(always)]
    fn tell(&self, turns: usize, part: Part, soon: &mut impl FnMut(u32, Option<(&Packet, Part)>)) {
        let Some((host, slot)) = self.beyond.host(turns) else { return };
        if let Some(packet) = self.arena.packets.get(slot as usize) {
            soon(host, Some((packet, part)));
        }
    }
    /// The same where ports schedule, which have much more beside themselves.
    #[inline(never)]
    pub(super) fn fetch_scheduled(&mut self, soon: &mut impl FnMut(u32, Option<(&Packet, Part)>)) {
        let Some(ahead) = self.arrivals.ahead::<17>() else { return };
        let ports = self.fabric.ports();
        let port = |turns| &ports[ahead.port(turns) as usize];
        port(16).prefetch_whole();
        port(13).prefetch_beside();
        port(11).prefetch_lanes();
        port(9).prefetch_waiting();
        let (cell, at) = (port(9).head(), self.to[ahead.port(9) as usize]);
        let mut step = Step::default();
        if at == cell.to {
            self.arena.prefetch(cell.packet);
            self.arena.prefetch_hops(cell.packet);
            soon(at, None);
            step = Step { port: self.only[at as usize], host: at, slot: cell.packet };
        } else if let Some((next, entropy)) = self.forwarding.guess(at, cell) {
            step.port = next;
            self.beyond.choose(ahead.port(9), cell, (next, entropy));
        }
        if let Some(port) = ports.get(step.port as usize) {
            port.prefetch_whole();
        }
        self.beyond.turn(step);
        let next = |turns| ports.get(self.beyond.step(turns).port as usize);
        next(3).into_iter().for_each(Port::prefetch_beside);
        next(5).into_iter().for_each(Port::prefetch_lanes);
        next(7).into_iter().for_each(Port::prefetch_waiting);
        if self.beyond.to_hosts & (1 << 3 | 1 << 5 | 1 << 7) != 0 {
            for (turns, part) in [(3, Part::Place), (5, Part::End), (7, Part::Inside)] {
                self.tell(turns, part, soon);
            }
        }
    }
}

/// A packet that leaves its host has the priority of its class, unless it has another than the lowest by itself.
#[inline]
pub(super) fn map_priority(map: &[u8; 64], cell: &mut Cell) {
    if cell.priority() == 0 {
        cell.set_priority(map[usize::from(cell.class())]);
    }
}

impl Choice {
    #[inline(always)]
    fn is_for(&self, port: u32, cell: &Cell) -> bool {
        self.port == port && self.to == cell.to && self.entropy == cell.entropy
    }
}
