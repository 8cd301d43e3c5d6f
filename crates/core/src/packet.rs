//! The packet: 64 bytes, kept in an arena by whoever drives the protocol.

use penstock_units::Time;

/// A connection, numbered by order of creation within a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct FlowId(pub u32);

/// The ECN field of the IP header (RFC 3168 section 5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Ecn {
    /// The transport is not ECN-capable; a router may only drop.
    #[default]
    NotEct = 0,
    /// ECN-capable; a router may mark.
    Ect0 = 2,
    /// Congestion experienced: a router has marked.
    Ce = 3,
}

/// Flag bits of a segment.
pub mod flag {
    /// Opens a connection; answered by SYN + ACK.
    pub const SYN: u16 = 1;
    /// The acknowledgement number is meaningful; without SYN and payload it is a pure ACK.
    pub const ACK: u16 = 2;
    /// The sender has no more data; takes one sequence number.
    pub const FIN: u16 = 4;
    /// ECN-Echo (RFC 3168 section 6.1.3).
    pub const ECE: u16 = 8;
    /// Congestion window reduced (RFC 3168 section 6.1.2).
    pub const CWR: u16 = 16;
    /// This data was sent before. For statistics and checks only: no protocol may read it.
    pub const RETRANSMIT: u16 = 32;
    /// A zero-window or keep-alive style probe that must be answered at once.
    pub const PROBE: u16 = 64;
    /// A bit a protocol may use for itself (a reserved bit of the TCP header).
    pub const MARKED: u16 = 128;
    /// A switch has cut the payload off: `payload` is 0, `seq` says which data are missing.
    pub const TRIMMED: u16 = 256;
    /// The first SACK block of an ACK reports what came twice (RFC 2883); its offsets may lie below the acknowledgement, as two's
    /// complement. On the wire the numbers themselves tell; here a bit does.
    pub const DSACK: u16 = 512;
    /// A switch that has no room for the packet, nor for its header, is to send that back: [`super::Packet::ask_return`].
    pub const RETURN: u16 = 2048;
    /// A switch has done so.
    pub const RETURNED: u16 = 4096;
    /// On SYN and SYN-ACK: this one neither asks for ECN nor grants it, although the protocol has it. On the wire ECE and
    /// CWR of a SYN, and ECE of a SYN-ACK, say the opposite (RFC 3168 section 6.1.1).
    pub const NO_ECN: u16 = 8192;
    /// Push: the last of what the application has written (RFC 9293 section 3.9.1). Set by Linux's sender only.
    pub const PUSH: u16 = 1024;
}

/// At most three SACK blocks fit beside a timestamp option (RFC 2018 section 3).
pub const MAX_SACK: usize = 3;

/// One SACK block as offsets from the cumulative acknowledgement, in bytes: `[start, end)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SackBlock {
    /// First byte of the block minus the acknowledgement number.
    pub start: u32,
    /// One past the last byte minus the acknowledgement number.
    pub end: u32,
}

/// A segment on its way. Data flows from a connection's sender to its receiver, ACKs the other way.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub struct Packet {
    /// Data: sequence number of the first byte. ACK: the next byte expected.
    pub seq: u64,
    /// Data: when this copy was sent. ACK: the same, echoed from the segment that caused it.
    pub stamp: u64,
    /// SACK blocks of an ACK, newest first.
    pub sack: [SackBlock; MAX_SACK],
    /// The connection.
    pub flow: u32,
    /// Handle of the connection at the host the packet is for.
    pub conn: u32,
    /// Length on the wire in bytes, all headers included.
    pub wire_len: u32,
    /// Payload in bytes.
    pub payload: u32,
    /// ACK: the receive window in bytes. Data: the bytes from `seq` to the last end of a write within, 0 = none ([`Packet::write_end`]).
    pub window: u32,
    /// Bits of [`flag`].
    pub flags: u16,
    /// ECN field.
    pub ecn: Ecn,
    /// Bits 0..2: number of SACK blocks; bits 2..8: traffic class (DSCP group).
    pub class_sacks: u8,
}

const _: () = assert!(core::mem::size_of::<Packet>() == 64, "a packet fills one cache line");

impl Packet {
    /// True when every bit of `bits` is set.
    #[inline]
    pub fn has(&self, bits: u16) -> bool {
        self.flags & bits == bits
    }
    /// True for packets that travel towards the connection's receiver (SYN, data, FIN).
    #[inline]
    pub fn is_forward(&self) -> bool {
        self.flags & flag::ACK == 0
    }
    /// Of data: the last place at which a write of the application ends, one past its last byte.
    #[inline]
    pub fn write_end(&self) -> Option<u64> {
        (self.window > 0).then(|| self.seq + u64::from(self.window))
    }
    /// Number of valid SACK blocks.
    #[inline]
    pub fn sack_count(&self) -> usize {
        (self.class_sacks & 3) as usize
    }
    /// The duplicate that the first SACK block reports, as sequence numbers (D-SACK, RFC 2883).
    #[inline]
    pub fn dsack(&self) -> Option<(u64, u64)> {
        let at = |offset: u32| self.seq.wrapping_add_signed(i64::from(offset as i32));
        self.has(flag::DSACK).then(|| (at(self.sack[0].start), at(self.sack[0].end)))
    }
    /// Blocks that report what is kept beyond a gap: all but that of [`Self::dsack`].
    #[inline]
    pub fn sack_blocks(&self) -> &[SackBlock] {
        &self.sack[usize::from(self.has(flag::DSACK))..self.sack_count()]
    }
    /// Sets the number of valid SACK blocks.
    #[inline]
    pub fn set_sack_count(&mut self, n: usize) {
        self.class_sacks = (self.class_sacks & !3) | (n as u8 & 3);
    }
    /// Traffic class, 0..64.
    #[inline]
    pub fn class(&self) -> u8 {
        self.class_sacks >> 2
    }
    /// Sets the traffic class, 0..64.
    #[inline]
    pub fn set_class(&mut self, class: u8) {
        self.class_sacks = (self.class_sacks & 3) | (class << 2);
    }
    /// Handle of the connection at the host the packet is for.
    #[inline]
    pub fn conn(&self) -> u32 {
        self.conn
    }
    /// Sets the handle of the connection at the host the packet is for.
    #[inline]
    pub fn set_conn(&mut self, conn: u32) {
        self.conn = conn;
    }
    /// Word `i`, 0..6, of the room that TCP's ACKs use for SACK blocks: for the headers of other transports.
    #[inline]
    pub fn word(&self, i: usize) -> u32 {
        let block = &self.sack[i / 2];
        if i & 1 == 0 {
            block.start
        } else {
            block.end
        }
    }
    /// Sets word `i`, 0..6.
    #[inline]
    pub fn set_word(&mut self, i: usize, value: u32) {
        let block = &mut self.sack[i / 2];
        *(if i & 1 == 0 { &mut block.start } else { &mut block.end }) = value;
    }
    /// Asks to be sent back as a header of `priority` where there is no room: to the sending host and the connection's handle there, which
    /// words 3 to 5 then hold.
    pub fn ask_return(&mut self, host: u32, conn: u32, priority: u8) {
        self.flags |= flag::RETURN;
        self.set_word(3, host);
        self.set_word(4, conn);
        self.set_word(5, u32::from(priority));
    }
    /// Becomes the header that goes back, where it has asked for that and is not on its way back: answers the host that it is for now,
    /// and its priority.
    pub fn turn_round(&mut self) -> Option<(u32, u8)> {
        if self.flags & (flag::RETURN | flag::RETURNED) != flag::RETURN {
            return None;
        }
        self.wire_len -= self.payload;
        self.payload = 0;
        self.flags |= flag::RETURNED | flag::TRIMMED;
        self.set_conn(self.word(4));
        Some((self.word(3), self.word(5) as u8))
    }
    /// When this copy (or the segment an ACK answers) was sent.
    #[inline]
    pub fn sent_at(&self) -> Time {
        Time(self.stamp)
    }
    /// The sequence space the packet takes: payload plus one for FIN.
    #[inline]
    pub fn seq_len(&self) -> u64 {
        self.payload as u64 + u64::from(self.has(flag::FIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_asks_for_it_turns_round_and_only_once() {
        let mut packet = Packet { seq: 9000, wire_len: 1564, payload: 1500, conn: 3, ..Packet::default() };
        assert_eq!(packet.turn_round(), None);
        assert_eq!((packet.wire_len, packet.payload, packet.conn()), (1564, 1500, 3));
        packet.ask_return(17, 5, 7);
        assert_eq!(packet.turn_round(), Some((17, 7)));
        assert_eq!((packet.wire_len, packet.payload, packet.conn(), packet.seq), (64, 0, 5, 9000));
        assert!(packet.has(flag::RETURNED | flag::TRIMMED));
        assert_eq!(packet.turn_round(), None);
    }
}
