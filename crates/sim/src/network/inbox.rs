//! The network node by node: what arrives at every node in a window, and the handlers that a switch's inbox is worked through with.
//!
//! A window is no longer than the shortest link. So what arrives in it has left its port when it begins, and what a node does in it reaches no other
//! node before its end. Every node therefore has all that it gets in its inbox when its turn comes, and which node has its turn first nobody can tell.
//!
//! In a part of a divided run, the egress sides of boundary links are emptied after all nodes have had their turns ([`Network::send_away`]). An event of such
//! a port is a departure. A packet may leave in the window in which it was offered. Packets from other parts are on the wires of ingress sides before the window.

use super::switches::Switches;
use super::{arrivals_at, Network};
use crate::arrivals::{Arrivals, Kinds};
use crate::events::{Ties, Wake};
use penstock_core::Packet;
use penstock_fabric::{Cell, Port};
use penstock_host::Part;
use penstock_units::{Bytes, Dur, Rate, Time};
use std::ops::Range;

/// No run.
pub(super) const NONE: u32 = u32::MAX;

/// A large network has room for so many packets of each host: what is not used costs nothing.
const PACKETS: usize = 64;
/// Longest window, ps: then what is kept of a time fits.
const LONGEST: u64 = 1 << 32;
/// More packets than this of all hosts in a window are gone through faster, and need less memory, in several.
const MANY: u64 = 1 << 17;

/// What one link brings in a window: cells in order of time, after those of the link before.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub link: u32,
    /// One past its last cell.
    pub end: u32,
}

/// What a node has to do in a window.
#[derive(Clone)]
struct Inbox {
    /// The first cell and one past the last, until all are put in order ([`Network::put_in_order`]); then the same of arrivals.
    first: u32,
    last: u32,
    /// The first of its runs. The others follow, in the order of simultaneous arrivals.
    run: u32,
    /// Keys of wake-ups, in order.
    due: Vec<u128>,
    /// When the last packet of its own arrives at the other end of its link, for a host whose card pulls.
    own: Time,
    /// It is among those that have something to do.
    listed: bool,
}

/// An arrival at a node.
#[derive(Clone, Copy)]
pub(crate) struct Coming {
    pub at: Time,
    /// The link by which it comes.
    pub link: u32,
    cell: u32,
    /// The port by which it goes on, or what answers it leaves; [`NONE`] where nobody has looked.
    port: u32,
}

/// How many arrivals ahead memory is fetched, in four steps. The first finds where the packet goes and fetches that port or host. The others fetch what the
/// port keeps elsewhere, its counters and its queue, or the connection's end at the host.
const AHEAD: [usize; 4] = [12, 9, 6, 4];

/// Where links lead: to nodes that are here, and out of this part of a network that is divided.
mod leads {
    pub const HERE: usize = 0;
    pub const AWAY: usize = 1;
}

/// See the top of the file.
pub(crate) struct Inboxes {
    kinds: Kinds<2>,
    /// Links with arrivals in this window, in order; links with departures that lead away.
    links: [Vec<u32>; 2],
    /// What they bring; the time of a cell is that of its arrival.
    pub(super) cells: Vec<Cell>,
    pub(super) runs: Vec<Run>,
    of_node: Vec<Inbox>,
    /// Nodes that have something to do.
    nodes: Vec<u32>,
    /// Arrivals at all nodes, node by node, in order.
    coming: Vec<Coming>,
    /// The switch of every shared buffer.
    with_buffer: Vec<u32>,
    /// Switches that are worked through port by port.
    pub(super) switches: Switches,
    /// All ports keep to themselves.
    fifo: bool,
}

impl Inboxes {
    /// What a link brings, from cell `first` on, is in the inbox of the node that it leads to.
    #[inline(always)]
    fn put(&mut self, link: u32, node: u32, first: usize) {
        let (run, end) = (self.runs.len() as u32, self.cells.len() as u32);
        self.runs.push(Run { link, end });
        let inbox = self.list(node);
        if inbox.last == NONE {
            (inbox.first, inbox.run) = (first as u32, run);
        }
        inbox.last = end;
    }
    #[inline(always)]
    fn list(&mut self, node: u32) -> &mut Inbox {
        let inbox = &mut self.of_node[node as usize];
        if !inbox.listed {
            inbox.listed = true;
            self.nodes.push(node);
        }
        inbox
    }
}

impl Network {
    /// The longest window at whose begin every node's inbox is complete. `None` if a link has no delay, or a node has state beside its ports and what
    /// they share.
    pub(crate) fn window_of_nodes(&self) -> Option<Dur> {
        let ports = self.fabric.ports();
        let simple = self.trace.is_none() && !self.asks_at_hosts && !ports.iter().any(Port::reorders);
        let shortest = ports.iter().map(Port::delay).min().filter(|delay| *delay > Dur::ZERO);
        shortest.filter(|_| simple).map(|delay| delay.min(self.long_enough()))
    }
    /// From now on the network is worked through node by node, in windows of `length`, no more than [`Self::window_of_nodes`] says. Called before anything is sent.
    pub(crate) fn begin_nodes(&mut self, ties: Ties, length: Dur) {
        let (ports, nodes) = (self.to.len(), self.only.len());
        // Links into one node come one after the other.
        let mut order: Box<[u32]> = (0..ports as u32).collect();
        order.sort_by_key(|link| self.to[*link as usize]);
        if self.looks_far {
            let own = (0u32..).zip(&self.from).filter(|(port, _)| self.owns(*port));
            let hosts = own.filter(|(_, node)| self.is_host[**node as usize]).count();
            self.arena.expect(hosts * PACKETS);
        }
        let mut with_buffer = Vec::new();
        for (port, from) in self.fabric.ports().iter().zip(&self.from) {
            if let Some(node) = port.node() {
                with_buffer.resize(with_buffer.len().max(node as usize + 1), 0);
                with_buffer[node as usize] = *from;
            }
        }
        // A failure makes a port schedule.
        let lasts = self.changes.is_empty();
        let none = !lasts || !self.forwarding.chooses_by_packet_alone();
        let switches = Switches::new(none, self.fabric.ports(), &self.from, &self.is_host, length.0);
        let empty =
            Inbox { first: NONE, last: NONE, run: NONE, due: Vec::new(), own: Time::NEVER, listed: false };
        self.inboxes = Some(Box::new(Inboxes {
            kinds: Kinds::new(ports as u32, |place| match self.is_egress_side(order[place as usize]) {
                true => leads::AWAY,
                false => leads::HERE,
            }),
            links: Default::default(),
            cells: Vec::new(),
            runs: Vec::new(),
            of_node: vec![empty; nodes],
            nodes: Vec::new(),
            coming: Vec::new(),
            with_buffer,
            switches,
            fifo: lasts && self.fabric.ports().iter().all(Port::keeps_to_itself),
        }));
        self.arrivals = Arrivals::by_windows(ties, order, length);
    }
    /// A window in which all hosts together send [`MANY`] packets, unless many flights were in as many others then.
    pub(super) fn long_enough(&self) -> Dur {
        let ports = self.fabric.ports();
        let of_hosts = ports.iter().zip(&self.from).filter(|(_, from)| self.is_host[**from as usize]);
        let rates: u64 = of_hosts.map(|(port, _)| port.rate().0).sum();
        let longest = ports.iter().map(Port::delay).max().unwrap_or(Dur::ZERO);
        let many = Bytes(1500 * MANY) / Rate(rates.max(1));
        Dur(many.max(longest / 32).0.clamp(1, LONGEST - 1))
    }
    /// From now on it is worked through packet by packet. All that has been lost has been taken, and all hosts have come as far.
    pub(crate) fn end_nodes(&mut self, ties: Ties) {
        self.arrivals = arrivals_at(&self.fabric, ties);
        self.inboxes = None;
        for (number, port) in (0u32..).zip(self.fabric.ports()) {
            let next = port.next_arrival();
            if next != Time::NEVER {
                self.arrivals.push(next, number);
            }
        }
    }
    /// The end of the window in which `at` lies.
    pub(crate) fn end_of_window(&self, at: Time) -> Time {
        self.arrivals.end_of_window(at)
    }
    /// True when a link leads out of this part, or may do so.
    pub(super) fn is_egress_side(&self, port: u32) -> bool {
        self.boundaries.as_deref().is_some_and(|boundaries| boundaries.is_egress_side(port))
    }
    /// The inboxes of this part.
    #[inline(always)]
    fn inboxes(&mut self) -> &mut Inboxes {
        self.inboxes.as_deref_mut().expect("the network is worked through node by node")
    }
    /// A window ends with `until`: the links that may bring something. They are to be emptied ([`Self::empty_link`]) and given back.
    pub(crate) fn take_links(&mut self, until: Time) -> Vec<u32> {
        let inboxes = self.inboxes.as_deref_mut().expect("the network is worked through node by node");
        inboxes.cells.clear();
        inboxes.runs.clear();
        self.arrivals.take_window(until, &inboxes.kinds, &mut inboxes.links);
        std::mem::take(&mut inboxes.links[leads::HERE])
    }
    /// Links that lead out of this part and that packets leave by in this window.
    pub(crate) fn links_away(&self) -> &[u32] {
        self.inboxes.as_deref().map_or(&[], |inboxes| &inboxes.links[leads::AWAY])
    }
    /// True when the only port of a node leads out of this part.
    pub(crate) fn leads_away(&self, node: u32) -> bool {
        let port = self.only[node as usize];
        (port as usize) < self.to.len() && self.is_egress_side(port)
    }
    /// Every node has worked through a window that ends with `until`: what leaves this part in it is handed over.
    pub(crate) fn send_away(&mut self, until: Time) {
        let Network { fabric, arena, arrivals, boundaries, inboxes, .. } = self;
        let Some(boundaries) = boundaries.as_deref_mut() else { return };
        let inboxes = inboxes.as_deref_mut().expect("the network is worked through node by node");
        let links = &mut inboxes.links[leads::AWAY];
        arrivals.take_kind(until, &inboxes.kinds, leads::AWAY, links);
        for link in links.drain(..) {
            let next = fabric.take_arrived(until, link, arena, |cell| boundaries.post_cell(link, &cell));
            if next != Time::NEVER {
                arrivals.push(next, link);
            }
        }
        boundaries.put_in(arena);
        self.take_effects();
    }
    /// What a link brings up to and including `until` is in the inbox of the node that it leads to; answers when the last of it arrives, if there is some.
    #[inline]
    pub(crate) fn empty_link(&mut self, link: u32, until: Time) -> Option<Time> {
        let Network { fabric, arena, inboxes, arrivals, to, packet_hops, .. } = self;
        let inboxes = inboxes.as_deref_mut().expect("the network is worked through node by node");
        let first = inboxes.cells.len();
        let cells = &mut inboxes.cells;
        let next = fabric.take_arrived(until, link, arena, |cell| cells.push(cell));
        if next != Time::NEVER {
            debug_assert!(next > until);
            arrivals.push(next, link);
        }
        let last = inboxes.cells.len();
        *packet_hops += (last - first) as u64;
        let at = inboxes.cells[first..].last().map(|cell| Time(cell.time));
        if at.is_some() {
            inboxes.put(link, to[link as usize], first);
        }
        self.take_effects();
        at
    }
    /// All ports are FIFOs that keep to themselves.
    pub(crate) fn is_fifo(&self) -> bool {
        self.inboxes.as_deref().is_some_and(|inboxes| inboxes.fifo)
    }
    /// [`Self::empty_link`] for all of them, where [`Self::is_fifo`].
    #[inline(never)]
    pub(crate) fn empty_fifos(&mut self, links: &[u32], until: Time) {
        let Network { fabric, arena, inboxes, arrivals, to, packet_hops, fetches, .. } = self;
        let inboxes = inboxes.as_deref_mut().expect("the network is worked through node by node");
        let slots = arrivals.slots().expect("arrivals are kept by windows");
        let ports = fabric.ports_mut();
        for (i, link) in links.iter().copied().enumerate() {
            if *fetches {
                if let Some(ahead) = links.get(i + 12) {
                    ports[*ahead as usize].prefetch_ring();
                }
                if let Some(ahead) = links.get(i + 6) {
                    ports[*ahead as usize].prefetch_heads();
                }
            }
            let port = &mut ports[link as usize];
            let first = inboxes.cells.len();
            port.see_off(until.0, arena);
            let next = port.take_all(until.0, &mut inboxes.cells);
            slots.put_if(next, link);
            if inboxes.cells.len() > first {
                inboxes.put(link, to[link as usize], first);
            }
        }
        *packet_hops += inboxes.cells.len() as u64;
    }
    /// All links have been emptied that [`Self::take_links`] has answered.
    pub(crate) fn give_links_back(&mut self, mut links: Vec<u32>) {
        links.clear();
        self.inboxes().links[leads::HERE] = links;
    }
    /// The last packet of a host whose card pulls arrives at the other end of its link then.
    pub(crate) fn note_own(&mut self, host: u32, at: Time) {
        self.inboxes().list(host).own = at;
    }
    /// A wake-up of a node is due in this window.
    pub(crate) fn note_due(&mut self, node: u32, key: u128) {
        self.inboxes().list(node).due.push(key);
    }
    /// Something is due at a host in this window.
    pub(crate) fn note_call(&mut self, host: u32) {
        self.inboxes().list(host);
    }
    /// The node that a wake-up is for, unless it is that of a receiving end.
    pub(crate) fn node_of(&self, kind: Wake, number: u32) -> u32 {
        match kind {
            Wake::Link => self.from[number as usize],
            Wake::Pause => self.from[super::pause_of(Time::ZERO, number).port as usize],
            Wake::Node => self.inboxes.as_deref().map_or(0, |inboxes| inboxes.with_buffer[number as usize]),
            Wake::Host | Wake::Remove | Wake::Change | Wake::Watch => number,
        }
    }
    /// The nodes that have something to do in this window, to be given back: first those with a wake-up, and how many these are.
    pub(crate) fn take_nodes(&mut self) -> (Vec<u32>, usize) {
        let Inboxes { nodes, of_node, .. } = self.inboxes();
        let mut nodes = std::mem::take(nodes);
        let mut woken = 0;
        for i in 0..nodes.len() {
            if !of_node[nodes[i] as usize].due.is_empty() {
                nodes.swap(i, woken);
                woken += 1;
            }
        }
        (nodes, woken)
    }
    /// All of them have had their turn.
    pub(crate) fn give_nodes_back(&mut self, mut nodes: Vec<u32>) {
        nodes.clear();
        self.inboxes().nodes = nodes;
    }
    /// Puts what all these nodes have to do in order, in a window that ends with `end`. Switches that are worked through port by port are taken out.
    #[inline(never)]
    pub(crate) fn put_in_order(&mut self, nodes: &mut Vec<u32>, end: Time) {
        let Network { inboxes, forwarding, arena, fetches, looks_far, .. } = self;
        let inboxes = inboxes.as_deref_mut().expect("the network is worked through node by node");
        let Inboxes { of_node, coming, runs, cells, switches, fifo, .. } = inboxes;
        // In larger networks there are too many: they are fetched node by node.
        let near = *fifo && *fetches && !*looks_far;
        coming.clear();
        let next_hops = forwarding.next_hops();
        switches.expect(cells.len());
        nodes.retain(|node| {
            let inbox = &mut of_node[*node as usize];
            if inbox.due.is_empty() && switches.has(*node) {
                switches.find_ports(*node, (inbox.first, inbox.last), runs, cells, &next_hops, end);
                (inbox.first, inbox.last, inbox.listed) = (NONE, NONE, false);
                return false;
            }
            let (begin, mut run) = (coming.len(), inbox.run as usize);
            let Inbox { mut first, last, .. } = *inbox;
            let several = last != NONE && runs[run].end < last;
            while first != last {
                let Run { link, end } = runs[run];
                let at = |cell: u32| Time(cells[cell as usize].time);
                coming.extend((first..end).map(|cell| Coming { at: at(cell), link, cell, port: NONE }));
                if near {
                    cells[first as usize..end as usize].iter().for_each(|cell| arena.prefetch(cell.packet));
                }
                (first, run) = (end, run + 1);
            }
            if several {
                // Simultaneous ones stay in the order of their links.
                coming[begin..].sort_by_key(|coming| coming.at);
            }
            (inbox.first, inbox.last) = (begin as u32, coming.len() as u32);
            true
        });
    }
    /// It is the turn of `node`: its wake-ups before `limit` come from [`crate::events::Deadlines::pop_of_node`]. Answers the numbers of its arrivals, and when the last
    /// of its own packets arrives elsewhere.
    pub(crate) fn begin_node(&mut self, node: u32, limit: u128) -> (Range<usize>, Time) {
        let Network { inboxes, deadlines, .. } = self;
        let inboxes = inboxes.as_deref_mut().expect("the network is worked through node by node");
        let inbox = &mut inboxes.of_node[node as usize];
        inbox.listed = false;
        deadlines.begin_node(limit, &mut inbox.due);
        let first = std::mem::replace(&mut inbox.first, NONE) as usize;
        let last = std::mem::replace(&mut inbox.last, NONE) as usize;
        (first..last, std::mem::replace(&mut inbox.own, Time::NEVER))
    }
    /// An arrival by its number.
    #[inline(always)]
    pub(crate) fn coming(&self, i: usize) -> Option<&Coming> {
        self.inboxes.as_deref()?.coming.get(i)
    }
    /// Its cell.
    #[inline(always)]
    pub(crate) fn cell_of(&self, coming: &Coming) -> Cell {
        let inboxes = self.inboxes.as_deref().expect("the network is worked through node by node");
        inboxes.cells[coming.cell as usize]
    }
    /// What comes after arrival `i` is looked at, and fetched from memory. `soon` hears of hosts that packets reach, and then of the packets.
    #[inline(always)]
    pub(crate) fn fetch_coming(&mut self, i: usize, soon: impl Fn(u32, Option<(&Packet, Part)>)) {
        let Network { inboxes, fabric, forwarding, arena, to, only, .. } = self;
        let Some(Inboxes { coming, cells, .. }) = inboxes.as_deref_mut() else { return };
        let ports = fabric.ports();
        // What several packets of a host touch is fetched for the first.
        let is_first = |coming: &[Coming], i: usize| i == 0 || coming[i - 1].link != coming[i].link;
        let i = i + AHEAD[0];
        if i < coming.len() {
            let first = is_first(coming, i);
            let ahead = &mut coming[i];
            let cell = &mut cells[ahead.cell as usize];
            let at = to[ahead.link as usize];
            if at == cell.to {
                arena.prefetch(cell.packet);
                arena.prefetch_hops(cell.packet);
                ahead.port = only[at as usize];
                if first {
                    soon(at, None);
                }
            } else if let Some((port, entropy)) = forwarding.guess(at, cell) {
                (ahead.port, cell.entropy) = (port, entropy);
            }
            if let Some(port) = ports.get(ahead.port as usize).filter(|_| first || at != cell.to) {
                port.prefetch_whole();
            }
        }
        for (stage, part) in [(1, Part::Place), (2, Part::End), (3, Part::Inside)] {
            let i = i - AHEAD[0] + AHEAD[stage];
            let Some(ahead) = coming.get(i) else { continue };
            let (cell, at) = (&cells[ahead.cell as usize], to[ahead.link as usize]);
            let first = at != cell.to || is_first(coming, i);
            if let Some(port) = ports.get(ahead.port as usize).filter(|_| first) {
                match stage {
                    1 => port.prefetch_beside(),
                    2 => {
                        port.prefetch_lanes();
                        port.prefetch_lane(cell.priority());
                    }
                    _ => port.prefetch_waiting(),
                }
            }
            if at == cell.to {
                let packet = &arena.packets[cell.packet as usize];
                // Most are of one connection, or of two in turn.
                let before = i.checked_sub(1).map(|i| &cells[coming[i].cell as usize]);
                let known = !first
                    && before
                        .is_some_and(|before| arena.packets[before.packet as usize].conn() == packet.conn());
                if !known {
                    soon(at, Some((packet, part)));
                }
            }
        }
    }
    /// What a link touches is fetched from memory that is emptied soon.
    #[inline(always)]
    pub(crate) fn fetch_link(&self, links: &[u32], i: usize) {
        let ports = self.fabric.ports();
        let port = |ahead: usize| links.get(i + ahead).map(|link| &ports[*link as usize]);
        port(12).into_iter().for_each(Port::prefetch_whole);
        port(8).into_iter().for_each(Port::prefetch_beside);
        port(5).into_iter().for_each(Port::prefetch_lanes);
        port(3).into_iter().for_each(Port::prefetch_waiting);
    }
    /// The packets that a node gets, which are in order ([`Self::put_in_order`]).
    #[inline(always)]
    pub(crate) fn segments_at(&self, node: u32) -> impl Iterator<Item = &Packet> {
        let inboxes = self.inboxes.as_deref().expect("the network is worked through node by node");
        let Inbox { first, last, .. } = &inboxes.of_node[node as usize];
        let coming = inboxes.coming.get(*first as usize..*last as usize).unwrap_or(&[]);
        let packet =
            |coming: &Coming| &self.arena.packets[inboxes.cells[coming.cell as usize].packet as usize];
        coming.iter().map(packet)
    }
    /// The network is so large that what comes next has to be fetched.
    pub(crate) fn fetches(&self) -> bool {
        self.fetches
    }
    /// A packet is at the host that it is for.
    #[inline(always)]
    pub(crate) fn note_delivered(&mut self) {
        self.conservation.delivered += 1;
    }
    /// A packet that has come to `node` goes on.
    #[inline(always)]
    pub(crate) fn pass_on(&mut self, coming: &Coming, node: u32, mut cell: Cell) {
        match coming.port {
            NONE => self.forward(coming.at, node, &mut cell).is_some(),
            port => self.offer(coming.at, port, &cell),
        };
        self.take_effects();
    }
}
