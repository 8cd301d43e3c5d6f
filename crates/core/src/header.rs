//! Congestion headers: real bytes beside a packet, written by routers and echoed by receivers.

/// A congestion header of one protocol. Its size is paid on the wire, and so is its rounding.
pub trait Header: Copy {
    /// Tells the headers of different protocols apart; 0 means "no header".
    const KIND: u8;
    /// Bytes on the wire.
    const WIRE_LEN: u32;
    /// Writes the fields in network order to the start of `out`.
    fn emit(&self, out: &mut [u8; CcHeader::ROOM]);
    /// Reads them back.
    fn parse(raw: &[u8; CcHeader::ROOM]) -> Self;
}

/// The slot for a congestion header that travels with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(8))]
pub struct CcHeader {
    kind: u8,
    bytes: [u8; CcHeader::ROOM],
}

impl CcHeader {
    /// Bytes a header may take.
    pub const ROOM: usize = 31;
    /// No header.
    pub const NONE: CcHeader = CcHeader { kind: 0, bytes: [0; CcHeader::ROOM] };

    /// Stores a header.
    #[inline]
    pub fn set<H: Header>(&mut self, header: &H) {
        self.kind = H::KIND;
        header.emit(&mut self.bytes);
    }
    /// The header, when it is of kind `H`.
    #[inline]
    pub fn get<H: Header>(&self) -> Option<H> {
        (self.kind == H::KIND).then(|| H::parse(&self.bytes))
    }
    /// True when the packet carries no congestion header.
    #[inline]
    pub fn is_none(&self) -> bool {
        self.kind == 0
    }
}

impl Default for CcHeader {
    fn default() -> Self {
        CcHeader::NONE
    }
}

/// Big-endian reads and writes at a byte offset, for [`Header`] implementations.
pub mod wire {
    use super::CcHeader;

    /// Writes a `u32`.
    #[inline]
    pub fn put_u32(out: &mut [u8; CcHeader::ROOM], at: usize, v: u32) {
        out[at..at + 4].copy_from_slice(&v.to_be_bytes());
    }
    /// Reads a `u32`.
    #[inline]
    pub fn get_u32(raw: &[u8; CcHeader::ROOM], at: usize) -> u32 {
        u32::from_be_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]])
    }
    /// Writes an `f32`.
    #[inline]
    pub fn put_f32(out: &mut [u8; CcHeader::ROOM], at: usize, v: f32) {
        put_u32(out, at, v.to_bits());
    }
    /// Reads an `f32`.
    #[inline]
    pub fn get_f32(raw: &[u8; CcHeader::ROOM], at: usize) -> f32 {
        f32::from_bits(get_u32(raw, at))
    }
}
