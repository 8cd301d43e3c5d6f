//! The cell: what a switch moves. 32 bytes, half a cache line, kept in the rings themselves.

use penstock_core::{Ecn, Packet};

/// Priorities a port tells apart. 7 is served first, as in IEEE 802.1Q; 0 is the default.
pub const PRIORITIES: usize = 8;

/// One packet as ports see it. The segment proper stays with the driver, in slot [`Cell::packet`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C, align(32))]
pub struct Cell {
    /// Picoseconds. While it waits for a scheduler: when it arrived. Afterwards: when its last bit leaves.
    pub time: u64,
    /// Slot of the segment in the driver's arena.
    pub packet: u32,
    /// Length on the wire, all headers included, framing not.
    pub bytes: u32,
    /// Forwarding state: a destination, or a cursor into a route. Ports carry it and never read it.
    pub to: u32,
    /// Chosen by the sender for the choice among equal-cost paths; tells flows apart where a rank queue has to.
    pub entropy: u32,
    /// Smaller is served first and dropped last, where a port serves by rank.
    pub rank: u32,
    /// Number, at the node that holds it, of the link it came in by.
    pub ingress: u16,
    /// Bits 0..3: priority; 3: subject to timing noise; 4: has payload; 5: was trimmed; 6: is an ACK.
    /// Bit 7: was trimmed at the last hop, or, if it was not trimmed, was marked on arrival at the port that holds it.
    bits: u8,
    /// Bits 0..2: ECN; 2..8: traffic class.
    tag: u8,
}

const _: () = assert!(core::mem::size_of::<Cell>() == 32, "two cells fill one cache line");

const NOISY: u8 = 8;
const PAYLOAD: u8 = 16;
const TRIMMED: u8 = 32;
const ACK: u8 = 64;
const AT_LAST_HOP: u8 = 128;
/// Without [`TRIMMED`]: the same bit.
const MARKED_HERE: u8 = 128;

impl Cell {
    /// That of no packet.
    pub(crate) const NOBODYS: Cell =
        Cell { time: 0, packet: 0, bytes: 0, to: 0, entropy: 0, rank: 0, ingress: 0, bits: 0, tag: 0 };
    /// A cell of `bytes` on the wire for the segment in slot `packet`, of priority 0 and not ECN-capable.
    #[inline]
    pub fn new(packet: u32, bytes: u32) -> Cell {
        Cell { packet, bytes, ..Cell::default() }
    }
    /// The cell of a segment in slot `slot`, of priority 0. What carries payload has timing noise where its host has.
    #[inline]
    pub fn carrying(slot: u32, segment: &Packet) -> Cell {
        Cell {
            packet: slot,
            bytes: segment.wire_len,
            entropy: segment.flow,
            bits: if segment.payload > 0 { PAYLOAD | NOISY } else { 0 }
                | if segment.is_forward() { 0 } else { ACK },
            tag: segment.class() << 2 | segment.ecn as u8,
            ..Cell::default()
        }
    }
    /// With a priority, 0..8.
    #[inline]
    #[must_use]
    pub fn with_priority(mut self, priority: u8) -> Cell {
        self.set_priority(priority);
        self
    }
    /// With an ECN field.
    #[inline]
    #[must_use]
    pub fn with_ecn(mut self, ecn: Ecn) -> Cell {
        self.set_ecn(ecn);
        self
    }
    /// With a traffic class (DSCP group), 0..64.
    #[inline]
    #[must_use]
    pub fn with_class(mut self, class: u8) -> Cell {
        self.tag = (self.tag & 3) | (class << 2);
        self
    }
    /// With payload: a switch that trims may shorten it.
    #[inline]
    #[must_use]
    pub fn with_payload(mut self) -> Cell {
        self.bits |= PAYLOAD;
        self
    }
    /// Sent by a sender: it is subject to the timing noise of its host.
    #[inline]
    #[must_use]
    pub fn with_jitter(mut self) -> Cell {
        self.bits |= NOISY;
        self
    }
    /// Of flow `flow`, with `rank`.
    #[inline]
    #[must_use]
    pub fn with_rank(mut self, rank: u32, flow: u32) -> Cell {
        (self.rank, self.entropy) = (rank, flow);
        self
    }
    /// As if it had come in by link `ingress`.
    #[inline]
    #[must_use]
    pub fn with_ingress(mut self, ingress: u16) -> Cell {
        self.ingress = ingress;
        self
    }
    /// Priority, 0..8.
    #[inline]
    pub fn priority(&self) -> u8 {
        self.bits & 7
    }
    /// Sets the priority, 0..8.
    #[inline]
    pub fn set_priority(&mut self, priority: u8) {
        debug_assert!(usize::from(priority) < PRIORITIES);
        self.bits = (self.bits & !7) | (priority & 7);
    }
    /// ECN field.
    #[inline]
    pub fn ecn(&self) -> Ecn {
        match self.tag & 3 {
            0 => Ecn::NotEct,
            3 => Ecn::Ce,
            _ => Ecn::Ect0,
        }
    }
    /// Sets the ECN field.
    #[inline]
    pub fn set_ecn(&mut self, ecn: Ecn) {
        self.tag = (self.tag & !3) | ecn as u8;
    }
    /// Traffic class, 0..64.
    #[inline]
    pub fn class(&self) -> u8 {
        self.tag >> 2
    }
    /// True when it is subject to its host's timing noise.
    #[inline]
    pub fn is_noisy(&self) -> bool {
        self.bits & NOISY != 0
    }
    /// True when it has payload that a switch may cut off.
    #[inline]
    pub fn has_payload(&self) -> bool {
        self.bits & PAYLOAD != 0
    }
    /// True when a switch has cut its payload off.
    #[inline]
    pub fn is_trimmed(&self) -> bool {
        self.bits & TRIMMED != 0
    }
    /// True when that was the port that leads to its receiver.
    #[inline]
    pub fn is_trimmed_at_last_hop(&self) -> bool {
        self.bits & (TRIMMED | AT_LAST_HOP) == TRIMMED | AT_LAST_HOP
    }
    /// Notes that the port that holds it has marked it on arrival, for [`Self::forget_mark`].
    pub(crate) fn note_mark(&mut self) {
        if !self.is_trimmed() {
            self.bits |= MARKED_HERE;
        }
    }
    /// Whether the port that holds it has marked it on arrival, as far as is known; it is forgotten then. Of a packet that was
    /// trimmed the ECN field tells.
    pub(crate) fn forget_mark(&mut self) -> bool {
        if self.is_trimmed() {
            return self.ecn() == Ecn::Ce;
        }
        let marked = self.bits & MARKED_HERE != 0;
        self.bits &= !MARKED_HERE;
        marked
    }
    /// Says that it was trimmed there.
    pub fn set_trimmed_at_last_hop(&mut self) {
        self.bits |= AT_LAST_HOP;
    }
    /// True when it is known to travel towards its connection's sender.
    #[inline]
    pub fn is_ack(&self) -> bool {
        self.bits & ACK != 0
    }
    /// Cuts the payload off: `bytes` of header remain, in `priority`.
    pub fn trim(&mut self, bytes: u32, priority: u8) {
        self.bytes = self.bytes.min(bytes);
        self.bits = (self.bits & !(PAYLOAD | MARKED_HERE)) | TRIMMED;
        self.set_priority(priority);
    }
}
