//! A network as one part of several: the links that lead from part to part.
//!
//! Every part knows the whole network; it works for the nodes that are its own. A link from one part to another has its queue in the part of the
//! node that it comes from and its wire in that of the node it leads to ([`penstock_fabric::Fabric::lead_away`]): what leaves the queue is written
//! into a letter, which the other part takes in before it gets to the time at which the packet arrives.

use super::{Conservation, Network};
use crate::events::{Deadlines, Pending, Ties};
use crate::topology::Topology;
use penstock_core::{CcHeader, Packet};
use penstock_fabric::{prefetch, prefetch_room, Arena, Cell, Port};
use penstock_units::{Dur, Time};
use std::sync::Arc;

/// Packets on their way to another part. Cells and segments lie apart: together each would take a third more of what cores hand to each other.
#[derive(Default)]
pub(crate) struct Letters {
    /// The packets as links carry them; the time is that of the departure, the rank the link whose wire it is on. Behind the last of them are old ones,
    /// here and in the other list.
    cells: Vec<Cell>,
    packets: Vec<Packet>,
    /// How many there are, and how many of them have their segments.
    len: usize,
    whole: usize,
    /// Their congestion headers, where packets of the run have some.
    headers: Vec<CcHeader>,
}

impl Letters {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }
    /// All there are.
    pub fn all(&self) -> (&[Cell], &[Packet]) {
        (&self.cells[..self.len], &self.packets[..self.len])
    }
    /// The congestion header of one, where there is one.
    #[inline(always)]
    pub fn header(&self, i: usize) -> Option<&CcHeader> {
        self.headers.get(i)
    }
    /// All have been read.
    pub fn clear(&mut self) {
        (self.len, self.whole) = (0, 0);
        self.headers.clear();
    }
    /// There is room for so many cells more.
    #[inline(always)]
    fn room(&mut self, more: u32) -> &mut [Cell] {
        let enough = self.len + more as usize;
        if enough > self.cells.len() {
            self.grow(enough);
        }
        &mut self.cells[self.len..enough]
    }
    #[cold]
    #[inline(never)]
    fn grow(&mut self, enough: usize) {
        let room = enough.max(2 * self.cells.len());
        self.cells.resize(room, Cell::default());
        self.packets.resize(room, Packet::default());
    }
    /// Puts the segments to those cells that have none yet: they leave the arena.
    #[inline(always)]
    fn put_in(&mut self, arena: &mut Arena, with_headers: bool) {
        let Letters { cells, packets, len, whole, headers } = self;
        let (new, room) = (&cells[*whole..*len], &mut packets[*whole..]);
        for (i, cell) in new.iter().enumerate() {
            if let Some(ahead) = new.get(i + SEGMENTS_AHEAD) {
                arena.prefetch(ahead.packet);
            }
            // Another core has read here last: who writes has to wait until it has given the lines away, one after the other.
            prefetch_room(&room[..i], ROOM_AHEAD);
            // Straight from the arena: by way of a copy of its own the processor would have to wait for what it has just written.
            room[i] = arena.packets[cell.packet as usize];
            if with_headers {
                headers.push(arena.headers[arena.header_slot(cell.packet)]);
            }
            arena.release(cell.packet);
        }
        *whole = *len;
    }
    /// Fetches one that is read later: what another core has written lies far.
    #[inline(always)]
    pub fn fetch(&self, i: usize) {
        if i < self.len {
            prefetch(&self.cells[i]);
            prefetch(&self.packets[i]);
        }
    }
}

/// So many letters ahead what taking one in touches is fetched from memory.
pub(crate) const LETTERS_AHEAD: usize = 8;

/// And so many letters ahead the room for one that is written, and its segment.
const ROOM_AHEAD: usize = 16;
const SEGMENTS_AHEAD: usize = 2 * LETTERS_AHEAD;

/// What is handed to one other part.
#[derive(Default)]
pub(crate) struct Bag {
    pub letters: Letters,
    /// When the first of them arrives.
    pub first: Option<Time>,
}

impl Bag {
    /// One of them arrives then.
    #[inline(always)]
    fn arrives(&mut self, at: Time) {
        self.first = Some(self.first.map_or(at, |first| first.min(at)));
    }
    /// Takes cells in that have left by a link whose delay is `delay`: room for `most` is shown to `take`, which answers how many it has used, and something
    /// else.
    #[inline(always)]
    pub fn take<T>(&mut self, most: u32, delay: Dur, take: impl FnOnce(&mut [Cell]) -> (usize, T)) -> T {
        let room = self.letters.room(most);
        // Another core has read here last.
        prefetch_room(&room[..0], ROOM_AHEAD);
        let (taken, answer) = take(room);
        // They leave one after the other.
        let first = room.first().map(|cell| cell.time);
        if let (Some(first), true) = (first, taken > 0) {
            self.letters.len += taken;
            self.arrives(Time(first) + delay);
        }
        answer
    }
}

/// The part of every node, and the links between parts.
pub(crate) struct Gates {
    me: u16,
    /// Part of every node.
    home: Arc<[u16]>,
    /// The part that every link leads to, and how long it is.
    leads: Box<[(u16, Dur)]>,
    with_headers: bool,
    /// What is to be handed over, by part.
    pub out: Vec<Bag>,
}

impl Gates {
    /// True when a link, which comes from node `from`, leads from this part to another.
    #[inline(always)]
    pub fn is_near_half(&self, port: u32, from: u32) -> bool {
        self.leads[port as usize].0 != self.me && self.is_here(from)
    }
    /// True when node `node` is this part's.
    #[inline(always)]
    pub fn is_here(&self, node: u32) -> bool {
        self.home[node as usize] == self.me
    }
    /// What goes to the part to which a link leads, and how long that link is.
    #[inline(always)]
    pub fn bag_of(&mut self, port: u32) -> (&mut Bag, Dur) {
        let (part, delay) = self.leads[port as usize];
        (&mut self.out[usize::from(part)], delay)
    }
    /// Hands a packet over that has left by `port`.
    pub fn post(&mut self, port: u32, cell: &Cell, arena: &mut Arena) {
        let with_headers = self.with_headers;
        let (bag, delay) = self.bag_of(port);
        bag.take(1, delay, |room| {
            room[0] = *cell;
            room[0].rank = port;
            (1, ())
        });
        bag.letters.put_in(arena, with_headers);
    }
    /// The segments of all packets whose cells are in the bags.
    #[inline]
    pub fn put_in(&mut self, arena: &mut Arena) {
        let with_headers = self.with_headers;
        self.out.iter_mut().for_each(|bag| bag.letters.put_in(arena, with_headers));
    }
}

/// What is left of a part: its ports among those of all parts, and what it has counted.
pub(crate) struct Left {
    me: u16,
    ports: Vec<Port>,
    packet_hops: u64,
    no_way: u64,
    returned: u64,
    conservation: Conservation,
    /// As [`Network::held`].
    pub held: u64,
    pub live: u64,
}

/// Why a network cannot be divided so.
#[derive(Debug)]
pub(crate) struct Whole(pub String);

impl Network {
    /// The part `me` of the network, whose nodes have the parts `home`. Called before anything is sent.
    pub(crate) fn divide(
        &mut self,
        t: &Topology,
        home: &Arc<[u16]>,
        me: u16,
        parts: usize,
        ties: Ties,
    ) -> Result<(), Whole> {
        let part = |node: u32| home[node as usize];
        for (port, link) in (0u32..).zip(&t.links) {
            if part(link.from) == part(link.to) {
                continue;
            }
            if !self.fabric.ports()[port as usize].is_direct() {
                return Err(Whole(format!(
                    "port {} does more than to queue packets in their order",
                    t.link_name(port)
                )));
            }
            if part(link.from) == me {
                self.fabric.lead_away(port);
            }
        }
        // Controllers of other parts' ports sleep.
        self.deadlines = Deadlines::new(ties);
        self.link_wake.iter_mut().for_each(|wake| *wake = Pending::default());
        for (port, link) in (0u32..).zip(&t.links) {
            if part(link.from) == me {
                self.arm_link(port);
            }
        }
        self.gates = Some(Box::new(Gates {
            me,
            home: Arc::clone(home),
            leads: t.links.iter().map(|l| (part(l.to), l.delay)).collect(),
            with_headers: self.arena.header_slot(0) != 0,
            out: (0..parts).map(|_| Bag::default()).collect(),
        }));
        Ok(())
    }
    /// A packet has left by `port`: handed over when that leads out of this part.
    #[inline(never)]
    pub(super) fn hand_over(&mut self, port: u32, cell: &Cell) -> bool {
        let Some(gates) = self.gates.as_deref_mut() else { return false };
        let leaves = gates.is_near_half(port, self.from[port as usize]);
        if leaves {
            gates.post(port, cell, &mut self.arena);
        }
        leaves
    }
    /// What is to be handed to every other part.
    pub(crate) fn bags(&mut self) -> &mut [Bag] {
        self.gates.as_deref_mut().map_or(&mut [], |gates| &mut gates.out)
    }
    /// Takes a packet in that another part has handed over; `conn` is the handle of the end it is for, where that is here. With `header`, where
    /// packets of the run have some.
    #[inline(always)]
    pub(crate) fn take_in(
        &mut self,
        cell: &Cell,
        packet: &Packet,
        header: Option<&CcHeader>,
        conn: Option<u32>,
    ) {
        let slot = self.arena.alloc();
        let place = &mut self.arena.packets[slot as usize];
        *place = *packet;
        if let Some(conn) = conn {
            place.set_conn(conn);
        }
        if let Some(header) = header {
            let place = self.arena.header_slot(slot);
            self.arena.headers[place] = *header;
        }
        let next = self.fabric.carry(cell.rank, cell, slot);
        if next != Time::NEVER {
            self.arrivals.push(next, cell.rank);
        }
    }
    /// Fetches from memory what [`Self::take_in`] touches when it comes to `later`, and to `soon`: the port first, then where the packet will lie.
    #[inline]
    pub(crate) fn fetch_for(&self, later: Option<&Cell>, soon: Option<&Cell>) {
        let port = |cell: &Cell| &self.fabric.ports()[cell.rank as usize];
        if let Some(later) = later {
            port(later).prefetch_ring();
            self.arena.prefetch_spare(LETTERS_AHEAD);
        }
        if let Some(soon) = soon {
            port(soon).prefetch_tail();
        }
    }
    /// What the whole network needs of this part, whose work is over.
    pub(crate) fn take_apart(&mut self) -> Left {
        let (held, live) = self.held();
        self.leave_others();
        Left {
            me: self.gates.as_ref().map_or(0, |gates| gates.me),
            ports: self.fabric.leave(),
            packet_hops: self.packet_hops,
            no_way: self.no_way,
            returned: self.returned,
            conservation: self.conservation,
            held,
            live,
        }
    }
    /// The work is over: what is on the wires of links from other parts is let go of by the thread that has asked for its memory. Two threads that give
    /// back to one stock wait for each other's turn with every piece.
    pub(crate) fn leave_others(&mut self) {
        let (gates, from) = (self.gates.as_deref(), &self.from);
        self.fabric.empty(|port| gates.is_some_and(|gates| !gates.is_here(from[port as usize])));
    }
    /// Puts the ports of another part into their places here, with all that was counted there: the network is whole again, to be read.
    pub(crate) fn join(&mut self, other: Left, t: &Topology) {
        let Some(gates) = self.gates.as_deref() else { return };
        let delay = |port: u32| {
            let link = &t.links[port as usize];
            (gates.home[link.from as usize] == other.me).then_some(link.delay)
        };
        self.fabric.take_home(other.ports, delay);
        self.packet_hops += other.packet_hops;
        self.no_way += other.no_way;
        self.returned += other.returned;
        self.conservation.sent += other.conservation.sent;
        self.conservation.delivered += other.conservation.delivered;
        self.conservation.dropped += other.conservation.dropped;
    }
    /// Packets in the ports and on the wires of this part, and slots of its arena that are in use.
    pub(crate) fn held(&self) -> (u64, u64) {
        (self.fabric.packets_held(), self.arena.live())
    }
    /// The own ports of a part that the others have joined.
    pub(crate) fn stay(&mut self, t: &Topology) {
        let Some(gates) = self.gates.take() else { return };
        for (port, link) in (0u32..).zip(&t.links) {
            if gates.is_near_half(port, link.from) {
                self.fabric.stay_home(port, link.delay);
            }
        }
    }
}
