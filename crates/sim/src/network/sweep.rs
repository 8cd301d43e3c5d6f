//! The network by stretches of time: all packets that arrive within one are moved on, port by port, before any host is looked at.
//!
//! A stretch is no longer than the shortest link. So what arrives in it is on its link when it begins ([`penstock_fabric::Fabric::take_arrived`]), and
//! where it goes on, it arrives after the end. Ports that keep to themselves ([`penstock_fabric::Port::keeps_to_itself`]) and choices that depend on the
//! packet alone leave one thing whose order matters: the packets that come to one port. They are put in the order of time and link, as they
//! would have come one by one (`events.rs`); what is worked through first, of two ports, nobody can tell.

use super::Network;
use crate::arrivals::Arrivals;
use crate::events::Ties;
use penstock_core::Packet;
use penstock_fabric::{prefetch, Cell, Port};
use penstock_units::{Dur, Time};

/// No cell. The first one of [`Lists::cells`] is nobody's.
const NONE: u32 = 0;

/// A list of cells: first and last.
#[derive(Clone, Copy)]
struct Ends {
    first: u32,
    last: u32,
}

const EMPTY: Ends = Ends { first: NONE, last: NONE };

/// Cells on their way to a port, or to a host, in the order of time: [`Cell::time`] is when they arrive, [`Cell::rank`] the next of the list, and
/// [`Cell::ingress`] the number of their link at the node. Those that come at one time are in the order in which they were put.
struct Lists {
    cells: Vec<Cell>,
    /// How many there are, with the one that is nobody's.
    len: usize,
    /// By port, and by node behind all ports.
    lists: Vec<Ends>,
}

/// Numbers of lists that have cells, and how many.
#[derive(Default)]
struct Used {
    lists: Vec<u32>,
    len: usize,
}

impl Used {
    fn new(most: usize) -> Used {
        Used { lists: vec![0; most + 1], len: 0 }
    }
    /// One more, if it `is_new`.
    #[inline(always)]
    fn note(&mut self, list: u32, is_new: bool) {
        // Without a jump that nobody can foresee.
        self.lists[self.len] = list;
        self.len += usize::from(is_new);
    }
}

impl Lists {
    fn new(lists: usize) -> Lists {
        Lists { cells: vec![Cell::default()], len: 1, lists: vec![EMPTY; lists] }
    }
    fn clear(&mut self) {
        self.len = 1;
    }
    /// There is room for so many more.
    #[inline(always)]
    fn reserve(&mut self, more: u32) {
        if self.len + more as usize > self.cells.len() {
            self.grow(more as usize);
        }
    }
    #[cold]
    fn grow(&mut self, more: usize) {
        let len = (self.len + more).max(2 * self.cells.len());
        self.cells.resize(len, Cell::default());
    }
    /// Puts a cell in its place in list `to`, with another time, entropy and ingress; there is room. True when the list was empty.
    #[inline(always)]
    fn put(&mut self, to: u32, cell: &Cell, (time, entropy, ingress): (u64, u32, u16)) -> bool {
        let number = self.len as u32;
        let place = &mut self.cells[self.len];
        *place = *cell;
        (place.time, place.rank, place.entropy, place.ingress) = (time, NONE, entropy, ingress);
        self.len += 1;
        let list = &mut self.lists[to as usize];
        let was = list.last;
        // The one that is nobody's comes first of all: its list is empty.
        let last = &mut self.cells[was as usize];
        if last.time > time {
            self.put_between(to, number);
            return false;
        }
        last.rank = number;
        list.first = if was == NONE { number } else { list.first };
        list.last = number;
        was == NONE
    }
    /// The same for a cell that is not the last.
    #[inline(never)]
    fn put_between(&mut self, to: u32, number: u32) {
        let time = self.cells[number as usize].time;
        let list = &mut self.lists[to as usize];
        let (mut before, mut at) = (NONE, list.first);
        while self.cells[at as usize].time <= time {
            (before, at) = (at, self.cells[at as usize].rank);
        }
        self.cells[number as usize].rank = at;
        match before {
            NONE => list.first = number,
            _ => self.cells[before as usize].rank = number,
        }
    }
    /// Takes list `of`: its first cell.
    #[inline(always)]
    fn take(&mut self, of: usize) -> u32 {
        std::mem::replace(&mut self.lists[of], EMPTY).first
    }
    /// The cells of a list from `number` on.
    #[inline(always)]
    fn from(&self, mut number: u32) -> impl Iterator<Item = &Cell> {
        let cells = &self.cells[..];
        std::iter::from_fn(move || {
            let cell = (number != NONE).then(|| &cells[number as usize])?;
            number = cell.rank;
            Some(cell)
        })
    }
}

/// What the network keeps to work by stretches.
pub(crate) struct Sweep {
    lists: Lists,
    /// Links whose packets arrive in this stretch.
    links: Vec<u32>,
    /// Of these, the near halves of links that lead out of this part: they are emptied last.
    near: Vec<u32>,
    /// Ports, and hosts, that get packets in this stretch.
    ports: Used,
    hosts: Used,
    /// Number of every link at the node that it leads to.
    ingress: Vec<u16>,
    /// Packets lost at switches: slot, when, and the link they came by.
    pub lost: Vec<(u32, Time, u32)>,
    /// The links into every node, by their numbers there.
    into: Vec<Vec<u32>>,
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
        let mut into = vec![Vec::new(); nodes];
        let mut ingress = Vec::with_capacity(ports);
        for (port, node) in (0u32..).zip(&self.to) {
            let links: &mut Vec<u32> = &mut into[*node as usize];
            ingress.push(links.len() as u16);
            links.push(port);
        }
        self.sweep = Some(Box::new(Sweep {
            lists: Lists::new(ports + nodes),
            links: Vec::new(),
            near: Vec::new(),
            ports: Used::new(ports),
            hosts: Used::new(nodes),
            ingress,
            lost: Vec::new(),
            into,
        }));
    }
    /// The end of the stretch in which `at` lies.
    pub(crate) fn end_of_stretch(&self, at: Time) -> Time {
        self.arrivals.end_of_stretch(at)
    }
    /// True when a link leads out of this part.
    #[inline(always)]
    fn is_near_half(&self, port: u32) -> bool {
        self.gates.as_deref().is_some_and(|gates| gates.is_near_half(port, self.from[port as usize]))
    }
    /// Moves all packets on that arrive up to and including `until`, later than what was moved before. Those for hosts are put into lists: the hosts are
    /// put into `hosts`. Those lost are in [`Sweep::lost`].
    pub(crate) fn sweep(&mut self, until: Time, hosts: &mut Vec<u32>) {
        let mut sweep = self.sweep.take().expect("the network is worked through by stretches");
        sweep.lists.clear();
        let mut links = std::mem::take(&mut sweep.links);
        self.arrivals.take_stretch(until, &mut links);
        for (i, port) in links.iter().enumerate() {
            if self.looks_far {
                self.fetch_link(&links, i);
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
        for i in 0..ports.len {
            if self.looks_far {
                self.fetch_port(&ports.lists[..ports.len], i);
            }
            self.put_list(ports.lists[i], &mut sweep);
        }
        sweep.ports = Used { len: 0, ..ports };
        hosts.extend(&sweep.hosts.lists[..std::mem::take(&mut sweep.hosts.len)]);
        self.sweep = Some(sweep);
    }
    #[inline(always)]
    fn fetch_link(&self, links: &[u32], i: usize) {
        let ports = self.fabric.ports();
        if let Some(ahead) = links.get(i + PORT_AHEAD) {
            ports[*ahead as usize].prefetch_ring();
        }
        if let Some(ahead) = links.get(i + CELLS_AHEAD) {
            ports[*ahead as usize].prefetch_head();
        }
    }
    #[inline(always)]
    fn fetch_port(&self, reached: &[u32], i: usize) {
        let ports = self.fabric.ports();
        if let Some(ahead) = reached.get(i + PORT_AHEAD) {
            ports[*ahead as usize].prefetch();
        }
        if let Some(ahead) = reached.get(i + CELLS_AHEAD) {
            ports[*ahead as usize].prefetch_tail();
        }
    }
    /// The packets of one link, to where they go on.
    #[inline(never)]
    fn take_link(&mut self, port: u32, until: Time, sweep: &mut Sweep) {
        let Network { fabric, forwarding, arena, .. } = self;
        let (node, behind) = (self.to[port as usize], self.to.len() as u32);
        let at = forwarding.at(node);
        let Sweep { lists, lost, ports, hosts, ingress, .. } = sweep;
        lists.reserve(fabric.held(port));
        let (before, ingress, mut delivered, mut no_way) = (lists.len, ingress[port as usize], 0, 0);
        let next = fabric.take_arrived(until, port, arena, |cell, time| {
            let mut entropy = cell.entropy;
            if cell.to == node {
                delivered += 1;
                let is_new = lists.put(behind + node, cell, (time, entropy, ingress));
                hosts.note(node, is_new);
                return;
            }
            match at.next(cell.to, &mut entropy) {
                Some(to) => {
                    let is_new = lists.put(to, cell, (time, entropy, ingress));
                    ports.note(to, is_new);
                }
                None => {
                    no_way += 1;
                    lost.push((cell.packet, Time(time), port));
                }
            }
        });
        self.packet_hops += (lists.len - before) as u64 + no_way;
        self.conservation.delivered += delivered;
        self.no_way += no_way;
        self.conservation.dropped += no_way;
        if next != Time::NEVER {
            self.arrivals.push(next, port);
        }
    }
    /// The packets that come to one port.
    #[inline(never)]
    fn put_list(&mut self, port: u32, sweep: &mut Sweep) {
        let Sweep { lists, lost, into, .. } = sweep;
        let (first, node) = (lists.take(port as usize), self.from[port as usize]);
        let mut dropped = 0;
        let head = self.fabric.offer_all(port, lists.from(first), &mut self.arena, |cell| {
            dropped += 1;
            lost.push((cell.packet, Time(cell.time), into[node as usize][usize::from(cell.ingress)]));
        });
        self.conservation.dropped += dropped;
        if head != Time::NEVER {
            self.arrivals.push(head, port);
        }
    }
    /// Packets that have left this part of the network up to and including `until` are handed over: after all hosts have sent.
    pub(crate) fn sweep_out(&mut self, until: Time) {
        if self.gates.is_none() {
            return;
        }
        let mut sweep = self.sweep.take().expect("the network is worked through by stretches");
        let mut links = std::mem::take(&mut sweep.near);
        self.arrivals.take_stretch(until, &mut links);
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
    /// The first packet for a host, by its number for [`Self::packet_for_host`]; 0 when there is none. Its list is taken.
    #[inline(always)]
    pub(crate) fn take_for_host(&mut self, host: u32) -> u32 {
        let behind = self.to.len();
        let sweep = self.sweep.as_deref_mut().expect("the network is worked through by stretches");
        sweep.lists.take(behind + host as usize)
    }
    /// A packet for a host, whose [`Cell::rank`] is the number of the next one.
    #[inline(always)]
    pub(crate) fn packet_for_host(&self, number: u32) -> Cell {
        let sweep = self.sweep.as_deref().expect("the network is worked through by stretches");
        sweep.lists.cells[number as usize]
    }
    /// Asks the processor to fetch the first segment that a host gets, and answers it.
    #[inline(always)]
    pub(crate) fn fetch_for_host(&self, host: u32) -> Option<&Packet> {
        let lists = &self.sweep.as_deref()?.lists;
        let first = lists.lists[self.to.len() + host as usize].first;
        let cell = lists.cells.get(first as usize)?;
        let packet = self.arena.packets.get(cell.packet as usize)?;
        prefetch(packet);
        Some(packet)
    }
}
