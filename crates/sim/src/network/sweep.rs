//! The network by stretches of time: all packets that arrive within one are moved on, port by port, before any host is looked at.
//!
//! A stretch is no longer than the shortest link. So what arrives in it is on its link when it begins ([`penstock_fabric::Fabric::take_arrived`]), and
//! where it goes on, it arrives after the end. Ports that keep to themselves ([`penstock_fabric::Port::keeps_to_itself`]) and choices that depend on the
//! packet alone leave one thing whose order matters: the packets that come to one port. They are put in the order of time and link, as they
//! would have come one by one (`events.rs`); what is worked through first, of two ports, nobody can tell.

use super::{arrivals_at, Network};
use crate::arrivals::Arrivals;
use crate::events::{Deadlines, Pending, Ties, Wake};
use penstock_core::Packet;
use penstock_fabric::{prefetch, Arena, Cell, Port};
use penstock_units::{Bytes, Dur, Rate, Time};

/// No cell. The first one of [`Lists::cells`] is nobody's.
const NONE: u32 = 0;

/// The end of a list of cells: the last of them, and its time since the begin of the stretch.
#[derive(Clone, Copy)]
struct Tail {
    time: u32,
    last: u32,
}

const EMPTY: Tail = Tail { time: 0, last: NONE };

/// Cells on their way to ports: [`Cell::time`] is when they arrive, [`Cell::rank`] the next of the list, and [`Cell::ingress`] the number of their
/// link at the node. A list is in the order of time; cells of one time are in the order in which they were put, link by link.
struct Lists {
    cells: Vec<Cell>,
    /// How many there are, with the one that is nobody's.
    len: usize,
    /// By port.
    tails: Vec<Tail>,
    /// The first cell of every list. Apart from its end, so that each number is read with the width it was written with.
    firsts: Vec<u32>,
    /// Lists that have cells, and how many these are.
    used: Vec<u32>,
    in_use: usize,
    /// When the stretch begins, ps.
    begin: u64,
    /// The list and the number of the cell that was put between others last.
    between: (u32, u32),
}

/// Longest stretch, ps: then what is kept of a time fits.
const LONGEST: u64 = 1 << 32;
/// More packets than this of all hosts in a stretch are gone through faster, and need less memory, in several.
const MANY: u64 = 1 << 17;

impl Lists {
    fn new(lists: usize) -> Lists {
        Lists {
            cells: vec![Cell::default()],
            len: 1,
            tails: vec![EMPTY; lists],
            firsts: vec![NONE; lists],
            used: vec![0; lists + 1],
            in_use: 0,
            begin: 0,
            between: (0, NONE),
        }
    }
    /// There is room for so many more.
    #[inline(always)]
    fn reserve(&mut self, more: u32) {
        if self.len + more as usize > self.cells.len() {
            self.grow(more as usize);
        }
    }
    #[cold]
    #[inline(never)]
    fn grow(&mut self, more: usize) {
        let len = (self.len + more).max(2 * self.cells.len());
        self.cells.resize(len, Cell::default());
    }
    /// Puts a cell behind all others, in no list: there is room.
    #[inline(always)]
    fn push(&mut self, cell: &Cell, (time, entropy, ingress): (u64, u32, u16)) -> u32 {
        let number = self.len;
        let place = &mut self.cells[number];
        *place = *cell;
        (place.time, place.rank, place.entropy, place.ingress) = (time, NONE, entropy, ingress);
        self.len += 1;
        number as u32
    }
    /// Puts a cell in its place in list `to`.
    #[inline(always)]
    fn put(&mut self, to: u32, cell: &Cell, other: (u64, u32, u16)) {
        let number = self.push(cell, other);
        let tail = &mut self.tails[to as usize];
        let last = tail.last;
        let since = (other.0 - self.begin) as u32;
        if tail.time > since {
            return self.put_between(to, number);
        }
        tail.time = since;
        tail.last = number;
        // No jump on whether the list was empty, as nobody can foresee it: what follows the cell that is nobody's is never asked.
        self.cells[last as usize].rank = number;
        let first = &mut self.firsts[to as usize];
        *first = std::hint::select_unpredictable(last == NONE, number, *first);
        self.used[self.in_use] = to;
        self.in_use += usize::from(last == NONE);
    }
    /// The same for a cell that is not the last.
    #[inline(never)]
    fn put_between(&mut self, to: u32, number: u32) {
        let time = self.cells[number as usize].time;
        let first = &mut self.firsts[to as usize];
        let (mut before, mut at) = (NONE, *first);
        // What a link brings is in the order of time: mostly it comes behind what the link has brought before.
        let (list, last) = self.between;
        if list == to && last != NONE && self.cells[last as usize].time <= time {
            (before, at) = (last, self.cells[last as usize].rank);
        }
        self.between = (to, number);
        while self.cells[at as usize].time <= time {
            (before, at) = (at, self.cells[at as usize].rank);
        }
        self.cells[number as usize].rank = at;
        match before {
            NONE => *first = number,
            _ => self.cells[before as usize].rank = number,
        }
    }
    /// Takes list `of`: answers its first cell.
    #[inline(always)]
    fn take(&mut self, of: u32) -> u32 {
        self.tails[of as usize] = EMPTY;
        self.firsts[of as usize]
    }
    /// The cells of a list from the first on.
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

/// A link as packets leave it.
#[derive(Clone, Copy)]
struct Exit {
    /// Node that it leads to, and its number there.
    node: u32,
    ingress: u16,
    leads: Leads,
}

/// Where a link leads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leads {
    ToHost,
    ToSwitch,
    /// Out of this part of the network.
    Away,
}

/// What the network keeps to work by stretches.
pub(crate) struct Sweep {
    lists: Lists,
    /// Links whose packets arrive in this stretch.
    links: Vec<u32>,
    /// Of these, the near halves of links that lead out of this part: they are emptied last.
    near: Vec<u32>,
    exits: Vec<Exit>,
    /// By node: the packets that a host gets in this stretch, from the first one to one past the last of [`Lists::cells`].
    for_host: Vec<(u32, u32)>,
    /// Length of a stretch, ps.
    length: u64,
    /// Packets lost at switches: slot, when, and the link they came by.
    pub lost: Vec<(u32, Time, u32)>,
    /// The links into every node, by their numbers there.
    into: Vec<Vec<u32>>,
    /// Ports whose controllers have a deadline in this stretch.
    ticking: Vec<u32>,
}

/// The clocks of controllers while a stretch is worked through.
struct Clocks<'a> {
    wakes: &'a mut [Pending],
    deadlines: &'a mut Deadlines,
    /// The end of the stretch.
    until: Time,
}

impl Clocks<'_> {
    /// The deadlines of the controller at a port that come before a time. Those after the stretch are events like any other.
    #[inline(always)]
    fn run(&mut self, port: (u32, &mut Port), before: u64, arena: &mut Arena) {
        let wake = &mut self.wakes[port.0 as usize];
        while wake.next().0 < before {
            let now = wake.next();
            wake.fired(now);
            let next = port.1.tick(now, arena);
            if next != Time::NEVER && wake.arm(next) && next > self.until {
                self.deadlines.push(next, Wake::Link, port.0);
            }
        }
    }
}

/// So many lists ahead a port is fetched from memory, then its packets.
const PORT_AHEAD: usize = 12;
const CELLS_AHEAD: usize = 6;

/// Fetches from memory what the links that come next touch.
#[inline(always)]
fn fetch_link(ports: &[Port], links: &[u32], i: usize) {
    if let Some(ahead) = links.get(i + PORT_AHEAD) {
        ports[*ahead as usize].prefetch_ring();
    }
    if let Some(ahead) = links.get(i + CELLS_AHEAD) {
        ports[*ahead as usize].prefetch_heads();
    }
}
/// The same of the ports that get packets; behind the last of these are some of an earlier stretch.
#[inline(always)]
fn fetch_port(ports: &[Port], lists: &Lists, i: usize) {
    if let Some(ahead) = lists.used.get(i + PORT_AHEAD) {
        ports[*ahead as usize].prefetch();
        prefetch(&lists.cells[lists.firsts[*ahead as usize] as usize]);
    }
    if let Some(ahead) = lists.used.get(i + CELLS_AHEAD) {
        ports[*ahead as usize].prefetch_tail();
    }
}

impl Network {
    /// How long a stretch may be; `None` where the network has to be worked through packet by packet.
    pub(crate) fn stretch(&self) -> Option<Dur> {
        let ports = self.fabric.ports();
        let simple = self.trace.is_none() && !self.asks_at_hosts && self.changes.is_empty();
        let alone = self.forwarding.chooses_by_packet_alone() && ports.iter().all(Port::keeps_to_itself);
        // What a host's own port is offered is not known before the host has worked through the stretch, and a controller wants its order.
        let of_hosts = ports.iter().zip(&self.from).filter(|(_, from)| self.is_host[**from as usize]);
        let early = of_hosts.into_iter().any(|(port, _)| port.is_controlled());
        let shortest = ports.iter().map(Port::delay).min().filter(|delay| *delay > Dur::ZERO);
        shortest.filter(|_| simple && alone && !early).map(|delay| delay.min(self.long_enough()))
    }
    /// A stretch in which all hosts together send [`MANY`] packets, unless many flights were in as many others then.
    fn long_enough(&self) -> Dur {
        let ports = self.fabric.ports();
        let of_hosts = ports.iter().zip(&self.from).filter(|(_, from)| self.is_host[**from as usize]);
        let rates: u64 = of_hosts.map(|(port, _)| port.rate().0).sum();
        let longest = ports.iter().map(Port::delay).max().unwrap_or(Dur::ZERO);
        let many = Bytes(1500 * MANY) / Rate(rates.max(1));
        Dur(many.max(longest / 32).0.clamp(1, LONGEST - 1))
    }
    /// From now on the network is worked through by stretches of `length`, no more than [`Self::stretch`] says. Called before anything is sent.
    pub(crate) fn begin_sweeps(&mut self, ties: Ties, length: Dur) {
        let (ports, nodes) = (self.to.len(), self.only.len());
        self.arrivals = Arrivals::by_stretches(ties, ports, length);
        let mut into = vec![Vec::new(); nodes];
        let mut exits = Vec::with_capacity(ports);
        for (port, node) in (0u32..).zip(&self.to) {
            let links: &mut Vec<u32> = &mut into[*node as usize];
            let leads = match self.is_host[*node as usize] {
                _ if self.is_near_half(port) => Leads::Away,
                true => Leads::ToHost,
                false => Leads::ToSwitch,
            };
            exits.push(Exit { node: *node, ingress: links.len() as u16, leads });
            links.push(port);
        }
        self.sweep = Some(Box::new(Sweep {
            lists: Lists::new(ports),
            links: Vec::new(),
            near: Vec::new(),
            exits,
            for_host: vec![(0, 0); nodes],
            length: length.0,
            lost: Vec::new(),
            into,
            ticking: Vec::new(),
        }));
    }
    /// From now on it is worked through packet by packet. All that has been lost has been taken, and all hosts have come as far.
    pub(crate) fn end_sweeps(&mut self, ties: Ties) {
        self.arrivals = arrivals_at(&self.fabric, ties);
        self.sweep = None;
        for (number, port) in (0u32..).zip(self.fabric.ports()) {
            let next = port.next_arrival();
            if next != Time::NEVER {
                self.arrivals.push(next, number);
            }
        }
    }
    /// A deadline of the controller at a port is in the next stretch that is worked through.
    pub(crate) fn tick_in_sweep(&mut self, port: u32) {
        self.sweep.as_deref_mut().expect("the network is worked through by stretches").ticking.push(port);
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
    /// Moves all packets on that arrive up to and including `until`, later than what was moved before. Those for hosts are kept for them
    /// ([`Self::take_for_host`]): `hosts` gets who they are. Those lost are in [`Sweep::lost`].
    pub(crate) fn sweep(&mut self, until: Time, hosts: &mut Vec<u32>) {
        let mut sweep = self.sweep.take().expect("the network is worked through by stretches");
        let Sweep { lists, links, near, exits, for_host, length, lost, into, ticking } = &mut *sweep;
        (lists.len, lists.begin, lists.between) = (1, (until.0 + 1).saturating_sub(*length), (0, NONE));
        self.arrivals.take_stretch(until, links);
        let Network { fabric, forwarding, arena, arrivals, from, fetches, link_wake, deadlines, .. } = self;
        let mut clocks = Clocks { wakes: link_wake, deadlines, until };
        let slots = arrivals.slots().expect("arrivals are kept by stretches");
        let (mut delivered, mut no_way) = (0, 0);
        for (i, port) in links.iter().copied().enumerate() {
            if *fetches {
                fetch_link(fabric.ports(), links, i);
            }
            let Exit { node, ingress, leads } = exits[port as usize];
            let link = fabric.port(port);
            let next = match leads {
                Leads::ToSwitch => {
                    let at = forwarding.at(node);
                    link.see_off(until.0, arena);
                    lists.reserve(link.cells_held());
                    link.take_arrived(until.0, |cell, time| {
                        let mut entropy = cell.entropy;
                        match at.next(cell.to, &mut entropy) {
                            Some(to) => lists.put(to, cell, (time, entropy, ingress)),
                            None => {
                                no_way += 1;
                                lost.push((cell.packet, Time(time), port));
                            }
                        }
                    })
                }
                Leads::ToHost => {
                    link.see_off(until.0, arena);
                    lists.reserve(link.cells_held());
                    let first = lists.len;
                    let next = link.take_arrived(until.0, |cell, time| {
                        debug_assert_eq!(cell.to, node);
                        lists.push(cell, (time, cell.entropy, ingress));
                    });
                    delivered += (lists.len - first) as u64;
                    for_host[node as usize] = (first as u32, lists.len as u32);
                    hosts.push(node);
                    next
                }
                Leads::Away => {
                    near.push(port);
                    continue;
                }
            };
            slots.put_if(next, port);
        }
        links.clear();
        self.packet_hops += (lists.len - 1) as u64 + no_way;
        self.conservation.delivered += delivered;
        self.no_way += no_way;
        for i in 0..std::mem::take(&mut lists.in_use) {
            if *fetches {
                fetch_port(fabric.ports(), lists, i);
            }
            let port = lists.used[i];
            let list = lists.take(port);
            let lost = |cell: &Cell| {
                let links = &into[from[port as usize] as usize];
                lost.push((cell.packet, Time(cell.time), links[usize::from(cell.ingress)]));
            };
            let clock = |link: &mut Port, at, arena: &mut Arena| clocks.run((port, link), at, arena);
            let head = fabric.port(port).offer_all(lists.from(list), arena, lost, clock);
            slots.put_if(head.0, port);
        }
        for port in ticking.drain(..) {
            clocks.run((port, fabric.port(port)), until.0 + 1, arena);
        }
        self.conservation.dropped += lost.len() as u64;
        self.sweep = Some(sweep);
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
            let next = match sweep.exits[port as usize].leads {
                Leads::Away => self.send_over(port, until),
                // An arrival later in a stretch that was cut.
                _ => self.fabric.ports()[port as usize].next_arrival().0,
            };
            if next != u64::MAX {
                self.arrivals.push(Time(next), port);
            }
        }
        sweep.near = links;
        self.sweep = Some(sweep);
    }
    fn send_over(&mut self, port: u32, until: Time) -> u64 {
        let Network { fabric, arena, gates, .. } = self;
        let Some(gates) = gates.as_deref_mut() else { return u64::MAX };
        let link = fabric.port(port);
        link.see_off(until.0, arena);
        link.take_arrived(until.0, |cell, _| gates.post(port, cell, arena))
    }
    /// The packets for a host, numbers from the first on to one past the last, for [`Self::packet_for_host`]. They are taken.
    #[inline(always)]
    pub(crate) fn take_for_host(&mut self, host: u32) -> (u32, u32) {
        let sweep = self.sweep.as_deref_mut().expect("the network is worked through by stretches");
        std::mem::take(&mut sweep.for_host[host as usize])
    }
    /// A packet for a host.
    #[inline(always)]
    pub(crate) fn packet_for_host(&self, number: u32) -> Cell {
        let sweep = self.sweep.as_deref().expect("the network is worked through by stretches");
        sweep.lists.cells[number as usize]
    }
    /// The segments that a host gets.
    #[inline(always)]
    pub(crate) fn segments_for_host(&self, host: u32) -> impl Iterator<Item = &Packet> {
        let sweep = self.sweep.as_deref().expect("the network is worked through by stretches");
        let (first, end) = sweep.for_host[host as usize];
        let cells = &sweep.lists.cells[first as usize..end as usize];
        cells.iter().map(|cell| &self.arena.packets[cell.packet as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists of all lengths, beside a sort that keeps the order of what is equal.
    #[test]
    fn a_list_is_in_the_order_of_time_and_then_of_links() {
        let mut x = 1u64;
        let mut draw = |n: u64| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (x >> 33) % n
        };
        let mut lists = Lists::new(3);
        lists.begin = 1_000;
        lists.reserve(100);
        for round in 0..2_000 {
            (lists.len, lists.in_use, lists.between) = (1, 0, (0, NONE));
            let mut expected = [Vec::new(), Vec::new(), Vec::new()];
            for packet in 0..draw(40) as u32 {
                let (to, time) = (draw(3) as u32, 1_000 + draw(1 + round % 30));
                lists.put(to, &Cell::new(packet, 100), (time, 7, 1));
                expected[to as usize].push((time, packet));
            }
            let mut used = lists.used[..lists.in_use].to_vec();
            used.sort_unstable();
            let filled: Vec<_> = (0..3).filter(|to| !expected[*to as usize].is_empty()).collect();
            assert_eq!(used, filled);
            for to in filled {
                let expected = &mut expected[to as usize];
                expected.sort_by_key(|(time, _)| *time);
                let list = lists.take(to);
                let found: Vec<_> = lists.from(list).map(|cell| (cell.time, cell.packet)).collect();
                assert_eq!(found, *expected);
            }
        }
    }
}
