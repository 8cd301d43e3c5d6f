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
    /// The packets as links carry them; the time is that of the departure. For a slot each has the link whose wire it is on.
    pub cells: Vec<Cell>,
    pub packets: Vec<Packet>,
    /// Their congestion headers, where packets of the run have some.
    headers: Vec<CcHeader>,
}

impl Letters {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.cells.len()
    }
    /// All have been read.
    pub fn clear(&mut self) {
        self.cells.clear();
        self.packets.clear();
        self.headers.clear();
    }
    /// Fetches one that is read later: what another core has written lies far.
    #[inline(always)]
    pub fn fetch(&self, i: usize) {
        if let (Some(cell), Some(packet)) = (self.cells.get(i), self.packets.get(i)) {
            prefetch(cell);
            prefetch(packet);
        }
    }
}

/// So many letters ahead what taking one in touches is fetched from memory.
pub(crate) const LETTERS_AHEAD: usize = 8;

/// And so many letters ahead the room for one that is written.
const ROOM_AHEAD: usize = 16;

/// What is handed to one other part.
#[derive(Default)]
pub(crate) struct Bag {
    pub letters: Letters,
    /// When the first of them arrives.
    pub first: Option<Time>,
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
    /// Fetches from memory where a link leads.
    #[inline(always)]
    pub fn fetch(&self, port: u32) {
        prefetch(&self.leads[port as usize]);
    }
    /// Hands a packet over that has left by `port`.
    #[inline(always)]
    pub fn post(&mut self, port: u32, cell: &Cell, arena: &mut Arena) {
        let (part, delay) = self.leads[port as usize];
        let bag = &mut self.out[usize::from(part)];
        let letters = &mut bag.letters;
        // Another core has read here last: who writes has to wait until it has given the lines away, one after the other.
        prefetch_room(&letters.packets, ROOM_AHEAD);
        prefetch_room(&letters.cells, ROOM_AHEAD);
        // Straight from the arena: by way of a copy of its own the processor would have to wait for what it has just written.
        letters.packets.push(arena.packets[cell.packet as usize]);
        if self.with_headers {
            letters.headers.push(arena.headers[arena.header_slot(cell.packet)]);
        }
        let arrives = Time(cell.time) + delay;
        bag.first = Some(bag.first.map_or(arrives, |first| first.min(arrives)));
        letters.cells.push(*cell);
        if let Some(cell) = letters.cells.last_mut() {
            cell.packet = port;
        }
        arena.release(cell.packet);
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
    /// Takes a packet in that another part has handed over; `conn` is the handle of the end it is for, where that is here.
    #[inline]
    pub(crate) fn take_in(&mut self, letters: &Letters, i: usize, conn: Option<u32>) {
        let slot = self.arena.alloc();
        let packet = &mut self.arena.packets[slot as usize];
        *packet = letters.packets[i];
        if let Some(conn) = conn {
            packet.set_conn(conn);
        }
        if let Some(header) = letters.headers.get(i) {
            let place = self.arena.header_slot(slot);
            self.arena.headers[place] = *header;
        }
        let cell = &letters.cells[i];
        let port = cell.packet;
        let next = self.fabric.carry(port, cell, slot);
        if next != Time::NEVER {
            self.arrivals.push(next, port);
        }
    }
    /// Fetches from memory what [`Self::take_in`] touches when it comes to `later`, and to `soon`: the port first, then where the packet will lie.
    #[inline]
    pub(crate) fn fetch_for(&self, later: Option<&Cell>, soon: Option<&Cell>) {
        let port = |cell: &Cell| &self.fabric.ports()[cell.packet as usize];
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
