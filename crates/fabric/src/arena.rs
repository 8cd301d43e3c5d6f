//! The driver's side: where the segments are, and what it is told beside the answers to its calls.

use crate::cell::Cell;
use crate::fetch::prefetch;
use crate::hop::{Hop, MAX_HOPS};
use crate::pint::{Pint, PintConfig};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use penstock_core::{CcHeader, DropCause, Packet, Stream};
use penstock_units::{Rate, Time};

/// Where a fabric finds the segment of a cell. Only link controllers, and disciplines that look into packets, ask.
pub trait Segments {
    /// Segment and congestion header in `slot`.
    fn segment(&mut self, slot: u32) -> (&mut Packet, &mut CcHeader);
    /// The flow of a cell, for ports that serve by rank. [`Cell::entropy`] does not say it where switches use its digits up.
    fn flow(&self, cell: &Cell) -> u32 {
        cell.entropy
    }
    /// A port that keeps telemetry begins to send the segment in `slot`.
    fn on_hop(&mut self, slot: u32, hop: &Hop) {
        let _ = (slot, hop);
    }
}

/// Room for the telemetry of a packet: two hops in a cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Block([Hop; MAX_HOPS]);
const _: () = assert!(core::mem::size_of::<Hop>() == 32);

impl Block {
    const EMPTY: Block =
        Block([Hop { port: 0, at: Time::ZERO, queue_bytes: 0, sent_bytes: 0, rate: Rate(0) }; MAX_HOPS]);
}

/// Which telemetry a packet has. Apart from the telemetry, so that a port of a large network writes its own down without a wait for
/// what others have written.
#[derive(Clone, Copy)]
struct Kept {
    block: u32,
    len: u8,
    /// The packet asks for it; one that only carries another's does not.
    wanted: bool,
}

/// Segments and their headers, by slot. Slots are recycled, so memory follows the packets in flight.
#[derive(Default)]
pub struct Arena {
    /// Segments.
    pub packets: Vec<Packet>,
    /// Congestion headers, in the same slots; one shared entry when no protocol of the run uses them.
    pub headers: Vec<CcHeader>,
    free: Vec<u32>,
    with_headers: bool,
    /// Telemetry, in the same slots; empty when it is not kept.
    kept: Vec<Kept>,
    blocks: Vec<Block>,
    with_telemetry: bool,
    /// Telemetry is a digest.
    pint: Option<Box<Pint>>,
    /// Slots are taken in random order ([`Self::shuffle`]).
    #[cfg(debug_assertions)]
    shuffle: Option<Box<Stream>>,
}

impl Arena {
    /// An empty arena; headers are kept per packet only when asked for.
    pub fn new(with_headers: bool) -> Arena {
        Arena { headers: vec![CcHeader::NONE], with_headers, ..Arena::default() }
    }
    /// There may be so many packets: they have their room at once instead of being copied whenever it doubles. What is not used of it is never touched, so
    /// it is no memory.
    pub fn expect(&mut self, packets: usize) {
        self.packets.reserve_exact(packets);
        self.free.reserve_exact(packets);
    }
    /// Keeps telemetry of packets too, 8 hops each.
    #[must_use]
    pub fn with_telemetry(mut self) -> Arena {
        assert!(self.packets.is_empty(), "a packet is there already");
        self.with_telemetry = true;
        self
    }
    /// Packets carry one byte of telemetry only (PINT). Values are rounded by random streams split from `rng`, one per port.
    #[must_use]
    pub fn with_digest(mut self, config: PintConfig, rng: Stream) -> Arena {
        self.pint = Some(Box::new(Pint::new(config, rng)));
        self.with_telemetry()
    }
    /// Slots are taken in random order from now on: no result may depend on their numbers. In builds with debug assertions only.
    #[cfg(debug_assertions)]
    pub fn shuffle(&mut self, rng: Stream) {
        self.shuffle = Some(Box::new(rng));
    }
    /// A free slot.
    #[inline]
    pub fn alloc(&mut self) -> u32 {
        let id = self.spare();
        self.take_spare();
        id
    }
    /// The slot that [`Self::alloc`] would answer next; it stays free until [`Self::take_spare`]. For a packet that may not come
    /// about.
    #[inline]
    pub fn spare(&mut self) -> u32 {
        match self.free.last() {
            Some(id) => *id,
            None => self.grow(),
        }
    }
    /// The slot that [`Self::spare`] has answered is in use.
    #[inline]
    pub fn take_spare(&mut self) {
        if let Some(id) = self.free.pop() {
            self.renew(id);
        }
    }
    /// A slot in use carries another packet from now on.
    #[inline]
    pub fn renew(&mut self, id: u32) {
        if self.with_telemetry {
            (self.kept[id as usize].wanted, self.kept[id as usize].len) = (false, 0);
        }
    }
    #[cold]
    fn grow(&mut self) -> u32 {
        self.packets.push(Packet::default());
        if self.with_telemetry {
            self.kept.push(Kept { block: self.blocks.len() as u32, len: 0, wanted: false });
            self.blocks.push(Block::EMPTY);
        }
        if self.with_headers {
            self.headers.push(CcHeader::NONE);
        }
        let id = self.packets.len() as u32 - 1;
        self.free.push(id);
        #[cfg(debug_assertions)]
        if self.shuffle.is_some() && !id.is_multiple_of(64) {
            // Some are free at any time, so that there is a choice.
            return self.grow();
        }
        id
    }
    /// Asks the processor to fetch a segment.
    #[inline]
    pub fn prefetch(&self, id: u32) {
        if let Some(packet) = self.packets.get(id as usize) {
            prefetch(packet);
        }
    }
    /// The same of the slot that will be in use after `ahead` others.
    #[inline]
    pub fn prefetch_spare(&self, ahead: usize) {
        if let Some(id) = self.free.iter().rev().nth(ahead) {
            self.prefetch(*id);
        }
    }
    /// Gives a slot back.
    #[inline]
    pub fn release(&mut self, id: u32) {
        self.free.push(id);
        #[cfg(debug_assertions)]
        if let Some(rng) = &mut self.shuffle {
            let last = self.free.len() - 1;
            self.free.swap(rng.below(last as u64 + 1) as usize, last);
        }
    }
    /// Slot of the header of packet `id`.
    #[inline]
    pub fn header_slot(&self, id: u32) -> usize {
        if self.with_headers {
            id as usize + 1
        } else {
            0
        }
    }
    /// The packet in `slot` asks the ports on its way for telemetry, from now on; nothing where none is kept.
    #[inline]
    pub fn ask_telemetry(&mut self, slot: u32) {
        if let Some(kept) = self.kept.get_mut(slot as usize) {
            (kept.wanted, kept.len) = (true, 0);
        }
    }
    /// What the packet in `slot` carries of it, in the order of its hops: its own, or that of the packet it answers.
    #[inline]
    pub fn hops(&self, slot: u32) -> &[Hop] {
        let Some(kept) = self.kept.get(slot as usize) else { return &[] };
        &self.blocks[kept.block as usize].0[..usize::from(kept.len)]
    }
    /// Asks the processor to fetch them.
    #[inline]
    pub fn prefetch_hops(&self, slot: u32) {
        self.hops(slot).iter().step_by(2).for_each(prefetch);
    }
    /// The same for the place where the next port writes.
    #[inline]
    pub fn prefetch_next_hop(&self, slot: u32) {
        let Some(kept) = self.kept.get(slot as usize) else { return };
        if let Some(Block(block)) = self.blocks.get(kept.block as usize) {
            prefetch(&block[usize::from(kept.len) % MAX_HOPS]);
        }
    }
    /// The packet in `to` answers that in `from` and carries its telemetry back, which the other has no longer.
    #[inline]
    pub fn carry_hops(&mut self, from: u32, to: u32) {
        if self.with_telemetry {
            let (from, to) = (from as usize, to as usize);
            let (full, spare) = (self.kept[from], self.kept[to]);
            self.kept[to] = Kept { wanted: false, ..full };
            self.kept[from] = Kept { block: spare.block, len: 0, wanted: false };
        }
    }
    /// Telemetry is kept.
    pub fn keeps_telemetry(&self) -> bool {
        self.with_telemetry
    }
    /// The packet in `slot` asks for telemetry itself.
    pub fn asks_telemetry(&self, slot: u32) -> bool {
        self.kept.get(slot as usize).is_some_and(|kept| kept.wanted)
    }
    /// Gives the packet in `slot` the telemetry that it had in another arena.
    pub fn set_telemetry(&mut self, slot: u32, asks: bool, hops: &[Hop]) {
        if let Some(kept) = self.kept.get_mut(slot as usize) {
            (kept.wanted, kept.len) = (asks, hops.len() as u8);
            self.blocks[kept.block as usize].0[..hops.len()].copy_from_slice(hops);
        }
    }
    /// Packets in use.
    pub fn live(&self) -> u64 {
        (self.packets.len() - self.free.len()) as u64
    }
}

impl Arena {
    #[inline(never)]
    fn digest_hop(&mut self, slot: u32, hop: &Hop) {
        let Some(pint) = &mut self.pint else { return };
        let load = pint.measure(hop);
        if let Some(kept) = self.kept.get_mut(slot as usize).filter(|kept| kept.wanted) {
            pint.tell(hop.port, load, &mut self.blocks[kept.block as usize].0, &mut kept.len);
        }
    }
}

impl Segments for Arena {
    #[inline]
    fn segment(&mut self, slot: u32) -> (&mut Packet, &mut CcHeader) {
        let header = self.header_slot(slot);
        (&mut self.packets[slot as usize], &mut self.headers[header])
    }
    fn flow(&self, cell: &Cell) -> u32 {
        self.packets[cell.packet as usize].flow
    }
    fn on_hop(&mut self, slot: u32, hop: &Hop) {
        if self.pint.is_some() {
            return self.digest_hop(slot, hop);
        }
        if let Some(kept) = self.kept.get_mut(slot as usize) {
            if kept.wanted && usize::from(kept.len) < MAX_HOPS {
                self.blocks[kept.block as usize].0[usize::from(kept.len)] = *hop;
                kept.len += 1;
            }
        }
    }
}

/// Why a packet is no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// A port or a buffer dropped it.
    Queue(DropCause),
    /// It was on a link, or waited for one, when the link failed; or it came to a port whose link is down.
    Down,
}

/// What became of a packet offered to a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offered {
    /// Queued; the time is given when the packet is the next to arrive at the other end.
    Queued(Option<Time>),
    /// Queued without its payload, see [`Effects::trimmed`]. The time as above.
    Trimmed(Option<Time>),
    /// Lost.
    Dropped(Loss),
}

/// What an event of a port brings.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    cell: Cell,
    is_packet: bool,
    /// When the next event of the port is; [`Time::NEVER`] when none is known.
    pub next: Time,
}

impl Arrival {
    pub(crate) fn none(next: Time) -> Arrival {
        Arrival { cell: Cell::default(), is_packet: false, next }
    }
    #[inline]
    pub(crate) fn of(cell: Cell, next: Time) -> Arrival {
        Arrival { cell, is_packet: true, next }
    }
    /// As [`crate::Fabric::arrive_into`] has it.
    #[inline]
    pub(crate) fn put(self, into: &mut Cell) -> (bool, Time) {
        if self.is_packet {
            *into = self.cell;
        }
        (self.is_packet, self.next)
    }
    /// The packet that arrives at the other end; none when it is held up and has an event of its own ([`Effects::heads`]), or
    /// when the link failed meanwhile.
    #[inline]
    pub fn packet(&self) -> Option<Cell> {
        self.is_packet.then_some(self.cell)
    }
}

/// A packet lost otherwise than in the answer to its own offer.
#[derive(Clone, Copy, Debug)]
pub struct Lost {
    /// When.
    pub at: Time,
    /// Port that held it.
    pub port: u32,
    /// The packet.
    pub cell: Cell,
    /// Why.
    pub loss: Loss,
}

/// A pause frame that reaches a port (IEEE 802.1Qbb): the driver calls [`crate::Fabric::pause`] with it when it is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pause {
    /// When it takes effect there.
    pub at: Time,
    /// The port it stops or releases.
    pub port: u32,
    /// Priority.
    pub priority: u8,
    /// Stop (XOFF) or go on (XON).
    pub on: bool,
}

/// What happened beside the answer to a call. The driver drains it after a call when [`Effects::any`].
#[derive(Default)]
pub struct Effects {
    /// Packets lost while they waited or were on a wire; the driver frees their slots.
    pub lost: Vec<Lost>,
    /// Packets that were trimmed on arrival or while they waited: slot and bytes that remain. The driver shortens the segments.
    pub trimmed: Vec<(u32, u32)>,
    /// Ports whose next arrival at the other end became known: an event for the driver to keep.
    pub heads: Vec<(Time, u32)>,
    /// Pause frames on their way.
    pub pauses: Vec<Pause>,
    /// Nodes that want a look at a time ([`crate::Fabric::wake`]).
    pub wakes: Vec<(Time, u32)>,
    /// Cells that no longer take room in the buffer of their node; the fabric itself reads it.
    pub(crate) released: Vec<(u64, Cell)>,
    pub(crate) any: bool,
}

impl Effects {
    /// True when there is something to drain.
    #[inline]
    pub fn any(&self) -> bool {
        self.any
    }
    pub(crate) fn lose(&mut self, lost: Lost) {
        self.any = true;
        self.lost.push(lost);
    }
    pub(crate) fn trim(&mut self, header: &Cell) {
        self.any = true;
        self.trimmed.push((header.packet, header.bytes));
    }
    pub(crate) fn announce(&mut self, at: Time, port: u32) {
        self.any = true;
        self.heads.push((at, port));
    }
    /// Forgets all.
    pub fn clear(&mut self) {
        self.lost.clear();
        self.trimmed.clear();
        self.heads.clear();
        self.pauses.clear();
        self.wakes.clear();
        self.any = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(port: u32) -> Hop {
        Hop { port, at: Time(u64::from(port)), queue_bytes: 1, sent_bytes: 2, rate: Rate(3) }
    }

    #[test]
    fn telemetry_is_kept_for_packets_that_ask_and_is_gone_with_them() {
        let mut arena = Arena::new(false).with_telemetry();
        let (asks, other) = (arena.alloc(), arena.alloc());
        arena.ask_telemetry(asks);
        for port in 0..10 {
            arena.on_hop(asks, &hop(port));
            arena.on_hop(other, &hop(port));
        }
        assert_eq!(arena.hops(asks), (0..8).map(hop).collect::<Vec<_>>());
        assert_eq!(arena.hops(other), []);
        // An answer brings it back and collects nothing on its way.
        arena.carry_hops(asks, other);
        arena.on_hop(other, &hop(9));
        assert_eq!(arena.hops(other), (0..8).map(hop).collect::<Vec<_>>());
        assert_eq!(arena.hops(asks), []);
        arena.release(asks);
        let again = arena.alloc();
        arena.on_hop(again, &hop(9));
        assert_eq!((again, arena.hops(again)), (asks, &[][..]));
    }
    #[test]
    fn without_telemetry_nothing_is_kept() {
        let mut arena = Arena::new(false);
        let slot = arena.alloc();
        arena.ask_telemetry(slot);
        arena.on_hop(slot, &hop(1));
        let other = arena.alloc();
        arena.carry_hops(slot, other);
        assert_eq!((arena.hops(slot), arena.hops(other)), (&[][..], &[][..]));
    }
}
