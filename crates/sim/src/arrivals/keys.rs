//! How an event key of 64 bits holds a time and a port.

/// Order of simultaneous events of a kind. Results that depend on it are artefacts: run both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ties {
    /// Lower number first.
    #[default]
    Forward,
    /// Higher number first.
    Reversed,
}

/// Most ports a network may have.
pub const MAX_PORTS: usize = 1 << 20;

/// Longest time, in picoseconds, from the moment a packet is the next of its port to its arrival at the other end, in
/// a network of so many ports: then keys never overflow. 4.4 s with a million ports, 10 h with a hundred.
pub fn longest_flight_ps(ports: usize) -> u64 {
    span(port_bits(ports)) / 4
}

/// Bits of a key that hold the port.
pub(super) fn port_bits(ports: usize) -> u32 {
    usize::BITS - ports.max(2).saturating_sub(1).leading_zeros()
}

/// Keys hold times up to this far beyond the epoch.
pub(super) fn span(port_bits: u32) -> u64 {
    1 << (64 - port_bits)
}
