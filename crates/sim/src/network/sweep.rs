//! The network by stretches of time: all packets that arrive within one are moved on, port by port, before any host is looked at.
//!
//! A stretch is no longer than the shortest link. So what arrives in it is on its link when it begins ([`Port::take_arrived`]), and
//! where it goes on, it arrives after the end. Ports that keep to themselves ([`penstock_fabric::Port::keeps_to_itself`]) and choices that depend on the
//! packet alone leave one thing whose order matters: the packets that come to one port. They are put in the order of time and link, as they
//! would have come one by one (`events.rs`); what is worked through first, of two ports, nobody can tell.
//!
//! In a network that is divided between cores packets come from other parts, too, and go through switches that are divided by their ports (`boundaries`).
//! These are known before the stretch in which they arrive: they stand in [`Lists::cells`] already when it begins.

use super::{arrivals_at, Network};
use crate::arrivals::{Arrivals, Kinds};
use crate::events::{Deadlines, Pending, Ties, Wake};
use penstock_core::Packet;
use penstock_fabric::{prefetch, Arena, Cell, List, Place, Port};
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

/// Cells on their way to ports: [`Cell::time`] is when they arrive, [`Cell::ingress`] the number of their link at the node, and [`Cell::rank`] the
/// node, or where it is [`KNOWN`] the port by which they go on. A list is in the order of time; cells of one time are in the order in which they came, link by link.
pub(super) struct Lists {
    cells: Vec<Cell>,
    /// How many there are, with the one that is nobody's.
    len: usize,
    /// Their places in lists.
    places: Vec<Place>,
    /// By port.
    tails: Vec<Tail>,
    /// The first cell of every list. Apart from its end, so that each number is read with the width it was written with.
    firsts: Vec<u32>,
    /// Lists that have cells, and how many these are.
    used: Vec<u32>,
    in_use: usize,
    /// When the stretch begins, ps.
    begin: u64,
    /// By cell: the port by which it goes on, [`NOWHERE`] for none.
    next_hops: Vec<u32>,
    /// The cells that go on, about in the order of time.
    order: Vec<Step>,
    /// The list and the number of the cell that was put between others last.
    between: (u32, u32),
    /// When the first and the last arrive of the cells that are there before a stretch begins.
    first: u64,
    last: u64,
    /// What numbers of links at a node are combined with where simultaneous arrivals come in reversed order.
    tie_mask: u16,
}

/// A cell on its way into a list.
#[derive(Clone, Copy, Default)]
struct Step {
    since: u32,
    number: u32,
    to: u32,
}

/// No port.
const NOWHERE: u32 = u32::MAX;
/// Not a node, but a port.
const KNOWN: u32 = 1 << 31;

/// Parts of a stretch into which cells are counted. So many that seldom two of one port are in the same; a number of 8 bits has a place in any array of
/// so many.
const PARTS: usize = 256;

/// In a vast network the ends of lists are fetched so many cells ahead.
const LISTS_AHEAD: usize = 12;

/// With fewer cells in a stretch the parts, all of which are gone through, would be most of the work.
const FEW: usize = 100;

/// A large network has room for so many packets of each host: what is not used costs nothing.
const PACKETS: usize = 64;

/// Longest stretch, ps: then what is kept of a time fits.
const LONGEST: u64 = 1 << 32;
/// More packets than this of all hosts in a stretch are gone through faster, and need less memory, in several.
const MANY: u64 = 1 << 17;

impl Lists {
    fn new(lists: usize, tie_mask: u16) -> Lists {
        Lists {
            cells: vec![Cell::default()],
            len: 1,
            places: Vec::new(),
            next_hops: Vec::new(),
            order: Vec::new(),
            tails: vec![EMPTY; lists],
            firsts: vec![NONE; lists],
            used: vec![0; lists + 1],
            in_use: 0,
            begin: 0,
            between: (0, NONE),
            first: u64::MAX,
            last: 0,
            tie_mask,
        }
    }
    /// A stretch is over: there are no cells.
    fn empty(&mut self) {
        (self.len, self.first, self.last) = (1, u64::MAX, 0);
    }
    /// Puts a cell behind the others before its stretch begins.
    #[inline(always)]
    pub fn put_early(&mut self, cell: &Cell) {
        room(&mut self.cells, self.len, 1)[0] = *cell;
        self.len += 1;
        (self.first, self.last) = (self.first.min(cell.time), self.last.max(cell.time));
    }
    /// There is a place for every cell.
    fn make_places(&mut self) {
        if self.places.len() < self.cells.len() {
            self.places.resize(self.cells.len(), Place::default());
            self.next_hops.resize(self.cells.len(), NOWHERE);
            self.order.resize(self.cells.len(), Step::default());
        }
    }
    /// Puts all cells whose [`Self::next_hops`] and times are known into lists. `counts`: how many come in each part of the stretch, which is `1 << shift` long.
    ///
    /// In the order in which they have come, link by link, every third would have to go before one that is in its list already. So they are first
    /// counted into an order in which hardly one has to.
    fn put_all<const DIVIDED: bool>(&mut self, mut counts: [u32; PARTS], shift: u32) {
        let mut before = 0;
        for count in &mut counts {
            before += std::mem::replace(count, before);
        }
        let (places, next_hops) = (&self.places[1..self.len], &self.next_hops[1..self.len]);
        let few = self.len <= FEW;
        let mut in_line = 0;
        for ((number, place), to) in (1u32..).zip(places).zip(next_hops) {
            if *to == NOWHERE {
                continue;
            }
            let next =
                if few { &mut in_line } else { &mut counts[usize::from((place.since >> shift) as u8)] };
            self.order[*next as usize] = Step { since: place.since, number, to: *to };
            *next += 1;
        }
        let vast = self.tails.len() >= super::hops::VAST;
        for i in 0..before as usize {
            if vast {
                if let Some(ahead) = self.order.get(i + LISTS_AHEAD) {
                    prefetch(&self.tails[ahead.to as usize]);
                    prefetch(&self.firsts[ahead.to as usize]);
                }
            }
            let step = self.order[i];
            self.put::<DIVIDED>(step);
        }
    }
    /// Puts a cell, which is in no list, in its place in one.
    #[inline(always)]
    fn put<const DIVIDED: bool>(&mut self, Step { since, number, to }: Step) {
        let tail = &mut self.tails[to as usize];
        let last = tail.last;
        // That a list is empty is only asked there.
        if tail.time > since || DIVIDED && tail.time == since {
            return self.put_between::<DIVIDED>(to, number);
        }
        tail.time = since;
        tail.last = number;
        // No jump on whether the list was empty, as nobody can foresee it: what follows the cell that is nobody's is never asked.
        self.places[last as usize].next = number;
        let first = &mut self.firsts[to as usize];
        *first = std::hint::select_unpredictable(last == NONE, number, *first);
        self.used[self.in_use] = to;
        self.in_use += usize::from(last == NONE);
    }
    /// The same for a cell that is not the last; where the network is divided, cells of one time are in any order, and it may be the last.
    #[inline(never)]
    fn put_between<const DIVIDED: bool>(&mut self, to: u32, number: u32) {
        let since = self.places[number as usize].since;
        if DIVIDED && self.tails[to as usize].last == NONE {
            // At the begin of the stretch, in a list that has none yet.
            self.tails[to as usize].last = number;
            self.firsts[to as usize] = number;
            self.used[self.in_use] = to;
            self.in_use += 1;
            return;
        }
        let Lists { cells, places, firsts, tails, tie_mask, .. } = self;
        let order = |number: u32| cells[number as usize].ingress ^ *tie_mask;
        let comes_before = |places: &[Place], at: u32| {
            let other = places[at as usize].since;
            other < since || other == since && (!DIVIDED || order(at) <= order(number))
        };
        let first = &mut firsts[to as usize];
        let (mut before, mut at) = (NONE, *first);
        // What a link brings is in the order of time: mostly it comes behind what the link has brought before.
        let (list, last) = self.between;
        if list == to && last != NONE && comes_before(places, last) {
            (before, at) = (last, places[last as usize].next);
        }
        self.between = (to, number);
        while (!DIVIDED || at != NONE) && comes_before(places, at) {
            (before, at) = (at, places[at as usize].next);
        }
        places[number as usize].next = at;
        match before {
            NONE => *first = number,
            _ => places[before as usize].next = number,
        }
        if DIVIDED && at == NONE {
            tails[to as usize].last = number;
        }
    }
}

/// There is room for so many cells more behind those there are.
#[inline(always)]
fn room(cells: &mut Vec<Cell>, len: usize, more: u32) -> &mut [Cell] {
    if len + more as usize > cells.len() {
        grow(cells, len + more as usize);
    }
    &mut cells[len..]
}
#[cold]
#[inline(never)]
fn grow(cells: &mut Vec<Cell>, len: usize) {
    cells.resize(len.max(2 * cells.len()), Cell::default());
}

/// A link as packets leave it.
#[derive(Clone, Copy)]
struct Exit {
    /// Node that it leads to, and its number there.
    node: u32,
    ingress: u16,
}

/// Where links lead: to switches, to hosts, out of this part of the network, and to switches that are divided between parts.
mod leads {
    pub const TO_SWITCH: usize = 0;
    pub const TO_HOST: usize = 1;
    pub const AWAY: usize = 2;
    pub const BETWEEN: usize = 3;
    pub const KINDS: usize = 4;
}

/// What the network keeps to work by stretches.
pub(crate) struct Sweep {
    pub(super) lists: Lists,
    /// Packets that hosts get in this stretch, those of each together; how many they are.
    arrived: Vec<Cell>,
    arrived_len: usize,
    kinds: Kinds<{ leads::KINDS }>,
    /// Links whose packets arrive in this stretch, by where they lead. The near halves of links that lead out of this part are emptied last.
    links: [Vec<u32>; leads::KINDS],
    exits: Vec<Exit>,
    /// By node: the packets that a host gets in this stretch, from the first one to one past the last of [`Self::arrived`].
    for_host: Vec<(u32, u32)>,
    /// Packets on their way to switches that are divided that arrive after the next stretch.
    later: Vec<Cell>,
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
fn fetch_port(ports: &[Port], (used, firsts, cells): (&[u32], &[u32], &[Cell]), i: usize) {
    if let Some(ahead) = used.get(i + PORT_AHEAD) {
        ports[*ahead as usize].prefetch();
        prefetch(&cells[firsts[*ahead as usize] as usize]);
    }
    if let Some(ahead) = used.get(i + CELLS_AHEAD) {
        ports[*ahead as usize].prefetch_tail();
    }
}

impl Sweep {
    /// How long a stretch is.
    pub(crate) fn length(&self) -> Dur {
        Dur(self.length)
    }
    /// Packets that are known before their stretch begins: they have come from other parts, or go through a switch that is divided.
    pub(super) fn early(&self) -> u64 {
        self.lists.len as u64 - 1
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
        // Links into a node have numbers of 16 bits, which order what comes at one time.
        let mut into = vec![0u32; self.only.len()];
        self.to.iter().for_each(|node| into[*node as usize] += 1);
        let early = early || into.into_iter().any(|links| links > u32::from(u16::MAX));
        let shortest = ports.iter().map(Port::delay).min().filter(|delay| *delay > Dur::ZERO);
        shortest.filter(|_| simple && alone && !early).map(|delay| delay.min(self.long_enough()))
    }
    /// A stretch in which all hosts together send [`MANY`] packets, unless many flights were in as many others then.
    pub(super) fn long_enough(&self) -> Dur {
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
        self.arrivals = Arrivals::by_windows(ties, (0..ports as u32).collect(), length);
        let own = (0u32..).zip(&self.from).filter(|(port, _)| self.owns(*port));
        let hosts = own.filter(|(_, node)| self.is_host[**node as usize]).count();
        if self.looks_far {
            self.arena.expect(hosts * PACKETS);
        }
        let mut into = vec![Vec::new(); nodes];
        let mut exits = Vec::with_capacity(ports);
        for (port, node) in (0u32..).zip(&self.to) {
            let links: &mut Vec<u32> = &mut into[*node as usize];
            exits.push(Exit { node: *node, ingress: links.len() as u16 });
            links.push(port);
        }
        let kinds = Kinds::new(ports as u32, |port| match self.is_host[self.to[port as usize] as usize] {
            _ if self.is_egress_side(port) => self.kind_of_side(port),
            true => leads::TO_HOST,
            false => leads::TO_SWITCH,
        });
        self.sweep = Some(Box::new(Sweep {
            lists: Lists::new(ports, if ties == Ties::Reversed { u16::MAX } else { 0 }),
            arrived: Vec::new(),
            arrived_len: 0,
            kinds,
            links: Default::default(),
            exits,
            for_host: vec![(0, 0); nodes],
            later: Vec::new(),
            length: length.0,
            lost: Vec::new(),
            into,
            ticking: Vec::new(),
        }));
    }
    /// From now on it is worked through packet by packet. All that has been lost has been taken, and all hosts have come as far.
    pub(crate) fn end_sweeps(&mut self, ties: Ties) {
        self.arrivals = arrivals_at(&self.fabric, ties);
        (self.sweep, self.inboxes) = (None, None);
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
    pub(crate) fn end_of_window(&self, at: Time) -> Time {
        self.arrivals.end_of_window(at)
    }
    /// True when a link leads out of this part, or may do so.
    pub(super) fn is_egress_side(&self, port: u32) -> bool {
        self.boundaries.as_deref().is_some_and(|boundaries| boundaries.is_egress_side(port))
    }
    fn kind_of_side(&self, port: u32) -> usize {
        match self.boundaries.as_deref().is_some_and(|boundaries| boundaries.is_divided(port)) {
            true => leads::BETWEEN,
            false => leads::AWAY,
        }
    }
    /// Moves all packets on that arrive up to and including `until`, later than what was moved before. Those for hosts are kept for them
    /// ([`Self::take_for_host`]): `hosts` gets who they are. Those lost are in [`Sweep::lost`].
    pub(crate) fn sweep(&mut self, until: Time, hosts: &mut Vec<u32>) {
        let mut sweep = self.sweep.take().expect("the network is worked through by stretches");
        sweep.lists.begin = (until.0 + 1).saturating_sub(sweep.length);
        if sweep.lists.last > until.0 {
            self.set_aside(&mut sweep, until.0);
        }
        sweep.lists.between = (0, NONE);
        sweep.arrived_len = 0;
        self.arrivals.take_window(until, &sweep.kinds, &mut sweep.links);
        self.empty_links_to_switches(&mut sweep, until.0);
        self.empty_links_to_hosts(&mut sweep, until.0, hosts);
        self.packet_hops += (sweep.lists.len - 1 + sweep.arrived_len) as u64;
        self.conservation.delivered += sweep.arrived_len as u64;
        match self.boundaries {
            None => self.find_ports::<false>(&mut sweep),
            Some(_) => self.find_ports::<true>(&mut sweep),
        }
        self.fill_ports(&mut sweep, until);
        sweep.lists.empty();
        let Sweep { lists, later, .. } = &mut *sweep;
        later.drain(..).for_each(|cell| lists.put_early(&cell));
        self.conservation.dropped += sweep.lost.len() as u64;
        self.sweep = Some(sweep);
    }
    #[inline(never)]
    fn empty_links_to_switches(&mut self, sweep: &mut Sweep, until: u64) {
        let Network { fabric, arrivals, arena, fetches, .. } = self;
        let Sweep { lists: Lists { cells, len, .. }, links, exits, .. } = sweep;
        let slots = arrivals.slots().expect("arrivals are kept by stretches");
        let (ports, exits, fetches) = (fabric.ports_mut(), &exits[..], *fetches);
        let links = &mut links[leads::TO_SWITCH];
        let mut filled = *len;
        for (i, link) in links.iter().copied().enumerate() {
            if fetches {
                fetch_link(ports, links, i);
            }
            let Exit { node, ingress } = exits[link as usize];
            let port = &mut ports[link as usize];
            port.see_off(until, arena);
            let room = room(cells, filled, port.cells_held());
            let (taken, next) = port.take_arrived(until, room, (node, ingress), 0);
            filled += taken;
            slots.put_if(next, link);
        }
        *len = filled;
        links.clear();
    }
    /// What was known before the stretch began and arrives after `until` is on its wire until then, or, on its way to a switch that is divided, kept
    /// beside it.
    #[cold]
    #[inline(never)]
    fn set_aside(&mut self, sweep: &mut Sweep, until: u64) {
        let Sweep { lists, later, into, .. } = sweep;
        let mut left = 1;
        for i in 1..lists.len {
            let mut cell = lists.cells[i];
            if cell.time <= until {
                lists.cells[left] = cell;
                left += 1;
                continue;
            }
            let node = match cell.rank & KNOWN {
                0 => cell.rank,
                _ => self.from[(cell.rank & !KNOWN) as usize],
            };
            let link = into[node as usize][usize::from(cell.ingress)];
            if self.kind_of_side(link) == leads::BETWEEN {
                later.push(cell);
            } else {
                cell.rank = link;
                self.put_on_wire(link, &cell);
            }
        }
        lists.len = left;
    }
    /// When the first of those arrives that are known before their stretch begins.
    pub(crate) fn next_coming(&self) -> Time {
        self.sweep.as_deref().map_or(Time::NEVER, |sweep| Time(sweep.lists.first))
    }
    #[inline(never)]
    fn empty_links_to_hosts(&mut self, sweep: &mut Sweep, until: u64, hosts: &mut Vec<u32>) {
        let Network { fabric, arrivals, arena, fetches, looks_far, .. } = self;
        let Sweep { arrived, arrived_len, links, exits, for_host, .. } = sweep;
        // In larger networks there are too many: they are fetched host by host.
        let fetches_segments = *fetches && !*looks_far;
        let slots = arrivals.slots().expect("arrivals are kept by stretches");
        let links = &mut links[leads::TO_HOST];
        for (i, link) in links.iter().copied().enumerate() {
            if *fetches {
                fetch_link(fabric.ports(), links, i);
            }
            let Exit { node, ingress } = exits[link as usize];
            let port = &mut fabric.ports_mut()[link as usize];
            port.see_off(until, arena);
            let room = room(arrived, *arrived_len, port.cells_held());
            let (taken, next) = port.take_arrived(until, room, (NONE, ingress), 0);
            debug_assert!(room[..taken].iter().all(|cell| cell.to == node));
            if fetches_segments {
                room[..taken].iter().for_each(|cell| arena.prefetch(cell.packet));
            }
            slots.put_if(next, link);
            for_host[node as usize] = (*arrived_len as u32, (*arrived_len + taken) as u32);
            *arrived_len += taken;
            hosts.push(node);
        }
        links.clear();
    }
    /// Puts what has come to switches into the lists of the ports by which it goes on. All packets in one go: what one asks does not wait for another.
    #[inline(never)]
    fn find_ports<const DIVIDED: bool>(&mut self, sweep: &mut Sweep) {
        let Sweep { lists, lost, into, length, .. } = sweep;
        lists.make_places();
        let next_hops = self.forwarding.next_hops();
        let shift = (u64::BITS - (*length - 1).leading_zeros()).saturating_sub(PARTS.ilog2());
        let mut counts = [0; PARTS];
        let (cells, to) = (&mut lists.cells[1..lists.len], &mut lists.next_hops[1..lists.len]);
        for ((cell, place), to) in cells.iter_mut().zip(&mut lists.places[1..lists.len]).zip(to) {
            let node = cell.rank;
            let mut entropy = cell.entropy;
            let since = (cell.time - lists.begin) as u32;
            *place = Place { since, next: NONE };
            let route = match DIVIDED && node & KNOWN != 0 {
                true => Some(node & !KNOWN),
                false => next_hops.next(node, cell.to, &mut entropy),
            };
            match route {
                Some(port) => {
                    cell.entropy = entropy;
                    *to = port;
                    counts[usize::from((since >> shift) as u8)] += 1;
                }
                None => {
                    self.no_way += 1;
                    *to = NOWHERE;
                    let link = into[node as usize][usize::from(cell.ingress)];
                    lost.push((cell.packet, Time(cell.time), link));
                }
            }
        }
        lists.put_all::<DIVIDED>(counts, shift);
    }
    /// Every port takes its list in, and its controller has its deadlines.
    #[inline(never)]
    fn fill_ports(&mut self, sweep: &mut Sweep, until: Time) {
        let Network { fabric, arena, arrivals, from, fetches, link_wake, deadlines, .. } = self;
        let Sweep { lists, lost, into, ticking, .. } = sweep;
        let mut clocks = Clocks { wakes: link_wake, deadlines, until };
        let slots = arrivals.slots().expect("arrivals are kept by stretches");
        let (ports, fetches) = (fabric.ports_mut(), *fetches);
        let (used, firsts, tails) = (&lists.used[..], &lists.firsts[..], &mut lists.tails[..]);
        let list = List { cells: &lists.cells, places: &lists.places };
        let in_use = std::mem::take(&mut lists.in_use);
        for (i, port) in used[..in_use].iter().copied().enumerate() {
            if fetches {
                fetch_port(ports, (used, firsts, list.cells), i);
            }
            tails[port as usize] = EMPTY;
            let first = firsts[port as usize];
            let lost = |cell: &Cell, _| {
                let links = &into[from[port as usize] as usize];
                lost.push((cell.packet, Time(cell.time), links[usize::from(cell.ingress)]));
            };
            let clock = |link: &mut Port, at, arena: &mut Arena| clocks.run((port, link), at, arena);
            let head = ports[port as usize].offer_all(list, first, arena, lost, clock);
            slots.put_if(head.0, port);
        }
        for port in ticking.drain(..) {
            clocks.run((port, &mut ports[port as usize]), until.0 + 1, arena);
        }
    }
    /// Packets that leave this part of the network up to and including `until` are handed over, after [`Self::sweep`].
    pub(crate) fn sweep_out(&mut self, until: Time) {
        if self.boundaries.is_none() {
            return;
        }
        let mut sweep = self.sweep.take().expect("the network is worked through by stretches");
        self.arrivals.take_window(until, &sweep.kinds, &mut sweep.links);
        let Sweep { links: [to_switches, to_hosts, away, between], exits, lists, .. } = &mut *sweep;
        let Network { fabric, arena, arrivals, boundaries, forwarding, .. } = self;
        let (ports, boundaries) =
            (fabric.ports_mut(), boundaries.as_deref_mut().expect("there are other parts"));
        for (i, port) in away.iter().copied().enumerate() {
            fetch_link(ports, away, i);
            let half = &mut ports[port as usize];
            half.see_off(until.0, arena);
            let (mailbox, delay) = boundaries.mailbox_of(port);
            let Exit { node, ingress } = exits[port as usize];
            // What a near half tells are departures.
            let next = mailbox
                .take(half.cells_held(), |room| half.take_arrived(until.0, room, (node, ingress), delay.0));
            if next != u64::MAX {
                arrivals.push(Time(next), port);
            }
        }
        away.clear();
        let next_hops = forwarding.next_hops();
        for (i, port) in between.iter().copied().enumerate() {
            fetch_link(ports, between, i);
            let half = &mut ports[port as usize];
            half.see_off(until.0, arena);
            let Exit { node, ingress } = exits[port as usize];
            let delay = boundaries.delay(port);
            let room = room(&mut lists.cells, lists.len, half.cells_held());
            // Those that stay are put together.
            let mut stay = 0;
            let (_, next) = half.take_each(until.0, |_, cell, left| {
                let (mut entropy, time) = (cell.entropy, left + delay.0);
                let route = next_hops.next(node, cell.to, &mut entropy);
                let rank = route.map_or(node, |route| KNOWN | route);
                let write = |place: &mut Cell| {
                    *place = *cell;
                    (place.time, place.rank, place.ingress, place.entropy) = (time, rank, ingress, entropy);
                };
                write(&mut room[stay]);
                stay += usize::from(route.is_none_or(|route| boundaries.keeps(route, time, write)));
            });
            if next != u64::MAX {
                arrivals.push(Time(next), port);
            }
            if let (Some(first), Some(last)) = (room[..stay].first(), room[..stay].last()) {
                // They come one after the other.
                (lists.first, lists.last) = (lists.first.min(first.time), lists.last.max(last.time));
                lists.len += stay;
            }
        }
        between.clear();
        boundaries.put_in(arena);
        // An arrival later in a stretch that was cut.
        for port in to_switches.drain(..).chain(to_hosts.drain(..)) {
            self.arrivals.push(self.fabric.ports()[port as usize].next_arrival(), port);
        }
        self.sweep = Some(sweep);
    }
    /// The packets for a host, numbers from the first on to one past the last, for [`Self::packet_for_host`]. They are taken.
    #[inline(always)]
    pub(crate) fn take_for_host(&mut self, host: u32) -> (u32, u32) {
        let sweep = self.sweep.as_deref_mut().expect("the network is worked through by stretches");
        std::mem::take(&mut sweep.for_host[host as usize])
    }
    /// True when there are some that have not been taken.
    #[inline(always)]
    pub(crate) fn has_for_host(&self, host: u32) -> bool {
        let sweep = self.sweep.as_deref().expect("the network is worked through by stretches");
        let (first, end) = sweep.for_host[host as usize];
        first != end
    }
    /// A packet for a host.
    #[inline(always)]
    pub(crate) fn packet_for_host(&self, number: u32) -> Cell {
        let sweep = self.sweep.as_deref().expect("the network is worked through by stretches");
        sweep.arrived[number as usize]
    }
    /// The packets for a host are fetched from memory.
    #[inline(always)]
    pub(crate) fn fetch_for_host(&self, host: u32) {
        let sweep = self.sweep.as_deref().expect("the network is worked through by stretches");
        let (first, _) = sweep.for_host[host as usize];
        sweep.arrived.get(first as usize).into_iter().for_each(prefetch);
    }
    /// The segments that a host gets.
    #[inline(always)]
    pub(crate) fn segments_for_host(&self, host: u32) -> impl Iterator<Item = &Packet> {
        let sweep = self.sweep.as_deref().expect("the network is worked through by stretches");
        let (first, end) = sweep.for_host[host as usize];
        let cells = &sweep.arrived[first as usize..end as usize];
        cells.iter().map(|cell| &self.arena.packets[cell.packet as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists of all lengths, beside a sort that keeps the order of what is equal.
    #[test]
    fn a_list_is_in_the_order_of_time_and_then_of_links() {
        check_lists::<false>(0);
    }
    /// The same of cells in any order of links.
    #[test]
    fn in_a_divided_network_links_may_come_in_any_order() {
        check_lists::<true>(0);
        check_lists::<true>(u16::MAX);
    }
    fn check_lists<const DIVIDED: bool>(tie_mask: u16) {
        let mut x = 1u64;
        let mut draw = |n: u64| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (x >> 33) % n
        };
        let mut lists = Lists::new(3, tie_mask);
        lists.begin = 1_000;
        for round in 0..2_000 {
            (lists.len, lists.in_use, lists.between) = (1, 0, (0, NONE));
            let mut expected = [Vec::new(), Vec::new(), Vec::new()];
            let mut numbers = [Vec::new(), Vec::new(), Vec::new()];
            for packet in 0..draw([40, 300][round as usize % 2]) as u32 {
                let (to, time) = (draw(3) as u32, 1_000 + draw(1 + round % 30));
                let cell = &mut room(&mut lists.cells, lists.len, 1)[0];
                *cell = Cell::new(packet, 100);
                cell.time = time;
                // One after the other they are link by link.
                cell.ingress = if DIVIDED { draw(5) as u16 } else { 0 };
                let order = cell.ingress ^ tie_mask;
                numbers[to as usize].push(lists.len);
                lists.len += 1;
                expected[to as usize].push((time, order, packet));
            }
            lists.make_places();
            // Times in parts of four, and all in one.
            let shift = [2, 6][round as usize / 30 % 2];
            let mut counts = [0; PARTS];
            for (to, (expected, numbers)) in expected.iter().zip(numbers).enumerate() {
                for ((time, ..), number) in expected.iter().zip(numbers) {
                    lists.places[number] = Place { since: (time - 1_000) as u32, next: NONE };
                    lists.next_hops[number] = to as u32;
                    counts[(*time as usize - 1_000) >> shift] += 1;
                }
            }
            lists.put_all::<DIVIDED>(counts, shift);
            let mut used = lists.used[..lists.in_use].to_vec();
            used.sort_unstable();
            let filled: Vec<_> = (0..3).filter(|to| !expected[*to as usize].is_empty()).collect();
            assert_eq!(used, filled);
            for to in filled {
                let expected = &mut expected[to as usize];
                expected.sort_by_key(|(time, order, _)| (*time, *order));
                let (mut found, mut number) = (Vec::new(), lists.firsts[to as usize]);
                lists.tails[to as usize] = EMPTY;
                while number != NONE {
                    let cell = &lists.cells[number as usize];
                    found.push((cell.time, cell.ingress ^ tie_mask, cell.packet));
                    number = lists.places[number as usize].next;
                }
                assert_eq!(found, *expected);
            }
        }
    }
}
