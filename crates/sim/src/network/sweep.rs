//! The network by stretches of time: all packets that arrive within one are moved on, port by port, before any host is looked at.
//!
//! A stretch is no longer than the shortest link. So what arrives in it is on its link when it begins ([`penstock_fabric::Fabric::take_arrived`]), and
//! where it goes on, it arrives after the end. Ports that keep to themselves ([`penstock_fabric::Port::keeps_to_itself`]) and choices that depend on the
//! packet alone leave one thing whose order matters: the packets that come to one port. They are put in the order of time and link, as they
//! would have come one by one (`events.rs`); what is worked through first, of two ports, nobody can tell.

use super::Network;
use crate::arrivals::Arrivals;
use crate::events::Ties;
use penstock_fabric::{prefetch, Cell, Port};
use penstock_units::{Dur, Time};

/// No cell, no list.
const NONE: u32 = u32::MAX;

/// A list of cells: first and last.
#[derive(Clone, Copy)]
struct Ends {
    first: u32,
    last: u32,
}

const EMPTY: Ends = Ends { first: NONE, last: NONE };

/// Cells on their way to a port, or to a host, in the order of time and link: [`Cell::time`] is when they arrive, [`Cell::rank`] the link.
#[derive(Default)]
struct Lists {
    cells: Vec<Cell>,
    /// The cell behind each in its list.
    next: Vec<u32>,
    /// By port, and by node behind all ports.
    lists: Vec<Ends>,
}

impl Lists {
    /// Puts a cell in its place in list `to`; true when that was empty.
    #[inline(always)]
    fn put(&mut self, to: usize, cell: Cell) -> bool {
        let number = self.cells.len() as u32;
        let order = (cell.time, cell.rank);
        self.cells.push(cell);
        self.next.push(NONE);
        let list = &mut self.lists[to];
        if list.first == NONE {
            *list = Ends { first: number, last: number };
            return true;
        }
        let last = &self.cells[list.last as usize];
        if (last.time, last.rank) <= order {
            self.next[list.last as usize] = number;
            list.last = number;
            return false;
        }
        self.put_between(to, number);
        false
    }
    /// The same for a cell that is not the last.
    #[inline(never)]
    fn put_between(&mut self, to: usize, number: u32) {
        let order = |cell: &Cell| (cell.time, cell.rank);
        let own = order(&self.cells[number as usize]);
        let list = &mut self.lists[to];
        let mut before = NONE;
        let mut at = list.first;
        while order(&self.cells[at as usize]) <= own {
            (before, at) = (at, self.next[at as usize]);
        }
        self.next[number as usize] = at;
        match before {
            NONE => list.first = number,
            _ => self.next[before as usize] = number,
        }
    }
    /// Takes list `of`: its first cell.
    #[inline(always)]
    fn take(&mut self, of: usize) -> u32 {
        std::mem::replace(&mut self.lists[of], EMPTY).first
    }
    fn clear(&mut self) {
        self.cells.clear();
        self.next.clear();
    }
}

/// What the network keeps to work by stretches.
pub(crate) struct Sweep {
    lists: Lists,
    /// Links whose packets arrive in this stretch.
    links: Vec<u32>,
    /// Of these, the near halves of links that lead out of this part: they are emptied last.
    near: Vec<u32>,
    /// Ports that get packets in this stretch.
    ports: Vec<u32>,
    /// Hosts that do.
    pub reached: Vec<u32>,
    /// Packets lost at ports of switches: slot, when, and the link they came by.
    pub lost: Vec<(u32, Time, u32)>,
    /// What numbers of links are combined with in [`Cell::rank`].
    flip: u32,
}

/// So many lists ahead a port is fetched from memory, then its packets.
const PORT_AHEAD: usize = 8;
const CELLS_AHEAD: usize = 4;

impl Network {
    /// How long a stretch may be; `None` where the network has to be worked through packet by packet.
    pub(crate) fn stretch(&self) -> Option<Dur> {
        let ports = self.fabric.ports();
        let simple = self.trace.is_none() && !self.asks_at_hosts && self.changes.is_empty();
        let alone = self.forwarding.chooses_by_packet_alone() && ports.iter().all(Port::keeps_to_itself);
        let shortest = ports.iter().map(Port::delay).min().filter(|delay| *delay > Dur::ZERO);
        shortest.filter(|_| simple && alone)
    }
    /// From now on the network is worked through by stretches of `length`, no more than [`Self::stretch`] says. Called before anything is sent.
    pub(crate) fn begin_sweeps(&mut self, ties: Ties, length: Dur) {
        let (ports, nodes) = (self.to.len(), self.only.len());
        self.arrivals = Arrivals::by_stretches(ties, ports, length);
        (self.fetches, self.looks_far) = (false, false);
        self.sweep = Some(Box::new(Sweep {
            lists: Lists { lists: vec![EMPTY; ports + nodes], ..Lists::default() },
            links: Vec::new(),
            near: Vec::new(),
            ports: Vec::new(),
            reached: Vec::new(),
            lost: Vec::new(),
            flip: if ties == Ties::Reversed { u32::MAX } else { 0 },
        }));
    }
    /// The end of the stretch in which `at` lies.
    pub(crate) fn end_of_stretch(&self, at: Time) -> Time {
        self.arrivals.end_of_stretch(at)
    }
    /// True when no packet of this stretch that left this part is known to lead elsewhere.
    #[inline(always)]
    fn is_near_half(&self, port: u32) -> bool {
        self.gates.as_deref().is_some_and(|gates| gates.is_near_half(port, self.from[port as usize]))
    }
    /// Moves all packets on that arrive up to and including `until`, no earlier than at the last call: those for hosts of this network are in their lists
    /// ([`Self::next_for_host`]), those lost in [`Sweep::lost`].
    pub(crate) fn sweep(&mut self, until: Time) {
        let mut sweep = self.sweep.take().expect("the network is worked through by stretches");
        sweep.lists.clear();
        sweep.reached.clear();
        let mut links = std::mem::take(&mut sweep.links);
        self.arrivals.take_stretch(until, &mut links);
        for (i, port) in links.iter().enumerate() {
            if let Some(ahead) = links.get(i + PORT_AHEAD) {
                self.fabric.ports()[*ahead as usize].prefetch_ring();
            }
            if let Some(ahead) = links.get(i + CELLS_AHEAD) {
                self.fabric.ports()[*ahead as usize].prefetch_head();
            }
            if self.gates.is_some() && self.is_near_half(*port) {
                sweep.near.push(*port);
                continue;
            }
            self.take_link(*port, until, &mut sweep);
        }
        links.clear();
        sweep.links = links;
        let ports = std::mem::take(&mut sweep.ports);
        for (i, port) in ports.iter().enumerate() {
            if let Some(ahead) = ports.get(i + PORT_AHEAD) {
                self.fabric.ports()[*ahead as usize].prefetch();
            }
            if let Some(ahead) = ports.get(i + CELLS_AHEAD) {
                self.fabric.ports()[*ahead as usize].prefetch_tail();
            }
            self.put_list(*port, &mut sweep);
        }
        sweep.ports = ports;
        sweep.ports.clear();
        self.sweep = Some(sweep);
    }
    /// The packets of one link, to where they go on.
    #[inline(always)]
    fn take_link(&mut self, port: u32, until: Time, sweep: &mut Sweep) {
        let Network { fabric, forwarding, arena, .. } = self;
        let (at, behind) = (self.to[port as usize], self.to.len());
        let rank = port ^ sweep.flip;
        let (mut hops, mut delivered, mut no_way) = (0, 0, 0);
        let next = fabric.take_arrived(until, port, arena, |cell, time| {
            hops += 1;
            let mut cell = *cell;
            (cell.time, cell.rank) = (time, rank);
            if at == cell.to {
                delivered += 1;
                if sweep.lists.put(behind + at as usize, cell) {
                    sweep.reached.push(at);
                }
                return;
            }
            match forwarding.next(at, &mut cell, Time(time), |_| 0) {
                Some(port) => {
                    if sweep.lists.put(port as usize, cell) {
                        sweep.ports.push(port);
                    }
                }
                None => {
                    no_way += 1;
                    sweep.lost.push((cell.packet, Time(time), port));
                }
            }
        });
        self.packet_hops += hops;
        self.conservation.delivered += delivered;
        self.no_way += no_way;
        self.conservation.dropped += no_way;
        if next != Time::NEVER {
            self.arrivals.push(next, port);
        }
    }
    /// The packets that come to one port.
    #[inline(always)]
    fn put_list(&mut self, port: u32, sweep: &mut Sweep) {
        let mut number = sweep.lists.take(port as usize);
        while number != NONE {
            let cell = sweep.lists.cells[number as usize];
            number = sweep.lists.next[number as usize];
            match self.fabric.offer_fast(Time(cell.time), port, cell, &mut self.arena) {
                Some(Ok(Time::NEVER)) => {}
                Some(Ok(head)) => self.arrivals.push(head, port),
                Some(Err(_)) => {
                    self.conservation.dropped += 1;
                    sweep.lost.push((cell.packet, Time(cell.time), cell.rank ^ sweep.flip));
                }
                None => unreachable!("a port that keeps to itself is a FIFO"),
            }
        }
    }
    /// Packets that have left this part of the network up to and including `until` are handed over: after all hosts have sent.
    pub(crate) fn sweep_out(&mut self, until: Time) {
        if self.gates.is_none() {
            return;
        }
        let mut sweep = self.sweep.take().expect("the network is worked through by stretches");
        let mut links = std::mem::take(&mut sweep.near);
        let mut late = std::mem::take(&mut sweep.links);
        self.arrivals.take_stretch(until, &mut late);
        links.append(&mut late);
        sweep.links = late;
        for port in links.drain(..) {
            let next = match self.is_near_half(port) {
                true => self.send_over(port, until),
                // An arrival later in a stretch that was cut.
                false => self.fabric.ports()[port as usize].next_arrival(),
            };
            if next != Time::NEVER {
                self.arrivals.push(next, port);
            }
        }
        sweep.near = links;
        self.sweep = Some(sweep);
    }
    fn send_over(&mut self, port: u32, until: Time) -> Time {
        let Network { fabric, arena, gates, .. } = self;
        let Some(gates) = gates.as_deref_mut() else { return Time::NEVER };
        let mut left = std::mem::take(&mut gates.leaving);
        let next = fabric.take_arrived(until, port, arena, |cell, _| left.push(*cell));
        for cell in left.drain(..) {
            gates.post(port, &cell, arena);
        }
        gates.leaving = left;
        next
    }
    /// The packets for a host, from the first on: numbers for [`Self::packet_for_host`].
    #[inline(always)]
    pub(crate) fn take_for_host(&mut self, host: u32) -> u32 {
        let behind = self.to.len();
        let sweep = self.sweep.as_deref_mut().expect("the network is worked through by stretches");
        sweep.lists.take(behind + host as usize)
    }
    /// A packet for a host and the number of the next one, [`u32::MAX`] when there is none. The link it came by is its rank.
    #[inline(always)]
    pub(crate) fn packet_for_host(&self, number: u32) -> (Cell, u32) {
        let lists = &self.sweep.as_deref().expect("the network is worked through by stretches").lists;
        (lists.cells[number as usize], lists.next[number as usize])
    }
    /// The link by which a packet for a host has come.
    #[inline(always)]
    pub(crate) fn link_of(&self, cell: &Cell) -> u32 {
        cell.rank ^ self.sweep.as_deref().map_or(0, |sweep| sweep.flip)
    }
    /// Asks the processor to fetch the segments that a host gets.
    #[inline(always)]
    pub(crate) fn fetch_for_host(&self, host: u32) -> Option<&penstock_core::Packet> {
        let lists = &self.sweep.as_deref()?.lists;
        let first = lists.lists[self.to.len() + host as usize].first;
        let cell = lists.cells.get(first as usize)?;
        let packet = self.arena.packets.get(cell.packet as usize)?;
        prefetch(packet);
        Some(packet)
    }
}
