//! In-band telemetry: what a packet is told at each port.

use penstock_units::{Rate, Time};

/// What in-band telemetry says about a port when it begins to send a packet (HPCC, SIGCOMM 2019, section 3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hop {
    /// The port.
    pub port: u32,
    /// When the first bit leaves.
    pub at: Time,
    /// Bytes left behind in the port, framing included; more than 4 GB are told as 4 GB.
    pub queue_bytes: u32,
    /// Bytes the port has sent before this packet since the start of the run, framing included.
    pub sent_bytes: u64,
    /// Rate of the link.
    pub rate: Rate,
}

/// Most hops that are written down for a packet; more are passed without a trace.
pub const MAX_HOPS: usize = 8;
