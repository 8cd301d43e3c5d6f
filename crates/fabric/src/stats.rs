//! What a port counts.

use crate::cell::PRIORITIES;
use penstock_core::DropCause;

/// Room for counters by [`DropCause`].
pub const CAUSES: usize = 8;
const _: () = assert!(DropCause::ALL.len() <= CAUSES);

/// Counters of a port since the last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PortStats {
    /// Picoseconds from the last reset to the last settling: what counters and integrals cover.
    pub window: u64,
    /// Of these, picoseconds for which the port was sending, to the bit at both ends of the window and across changes of its rate.
    pub busy: u64,
    /// Packets that arrived, dropped ones included.
    pub arrived_packets: u64,
    /// Their bytes on the wire.
    pub arrived_bytes: u64,
    /// Packets that left.
    pub departed_packets: u64,
    /// Their bytes, framing included.
    pub departed_bytes: u64,
    /// Drops by cause, in the order of [`DropCause`].
    pub drops: [u64; CAUSES],
    /// Packets lost because the link was down.
    pub down: u64,
    /// Packets marked CE and queued or sent: one that is marked and then lost is a drop.
    pub marks: u64,
    /// Packets whose payload was cut off.
    pub trims: u64,
    /// Most packets in the port at once (waiting plus in service).
    pub queue_max: u32,
    /// Time integral of the packets in the port by Little's law, packet-picoseconds: the sum of the times packets spent in
    /// it. Kept always, and exact.
    pub sojourn: u128,
    /// The same as a running integral, packet-picoseconds; NaN where it is not kept, as the next two.
    pub queue_integral: f64,
    /// Time integral of its square.
    pub queue_square_integral: f64,
    /// Time integral of the bytes in the port, byte-picoseconds.
    pub byte_integral: f64,
    /// Pause frames that stopped a priority of this port.
    pub pauses: u64,
    /// Time for which a priority was paused, summed over priorities, picoseconds.
    pub paused: u64,
}

impl PortStats {
    /// Share of the window for which the port was sending; NaN for an empty window.
    pub fn utilisation(&self) -> f64 {
        // Of a clock that rounds to picoseconds the window may be one of them short.
        (self.busy as f64 / self.window as f64).min(1.0)
    }
    /// Mean queue in packets, that in service included, by Little's law.
    pub fn queue_mean(&self) -> f64 {
        let integral = if self.queue_integral.is_nan() { self.sojourn as f64 } else { self.queue_integral };
        integral / self.window as f64
    }
    /// Standard deviation of the queue; NaN where it was not measured.
    pub fn queue_std(&self) -> f64 {
        let mean = self.queue_integral / self.window as f64;
        let variance = self.queue_square_integral / self.window as f64 - mean * mean;
        // `max` would turn what was not measured into a zero.
        if variance < 0.0 {
            0.0
        } else {
            libm::sqrt(variance)
        }
    }
    /// Mean bytes in the port; NaN where they were not measured.
    pub fn queue_mean_bytes(&self) -> f64 {
        self.byte_integral / self.window as f64
    }
}

/// What has happened to the packets of ports since the last reset, summed over these. Of a port it is a part of [`PortStats`], and cheaper to
/// read where there are thousands of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Losses {
    /// Drops by cause, in the order of [`DropCause`].
    pub drops: [u64; CAUSES],
    /// Packets lost because the link was down.
    pub down: u64,
    /// Packets marked CE and queued or sent.
    pub marks: u64,
    /// Packets whose payload was cut off.
    pub trims: u64,
    /// Pause frames that stopped a priority.
    pub pauses: u64,
    /// Time for which a priority was paused, summed over priorities, picoseconds.
    pub paused: u64,
}

/// Counters of one priority since the last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClassStats {
    /// Packets that arrived, dropped ones included; a trimmed one counts for the priority of what remained.
    pub arrived_packets: u64,
    /// Packets that left.
    pub departed_packets: u64,
    /// Their bytes on the wire, framing not included.
    pub departed_bytes: u64,
    /// Drops, whatever the cause.
    pub drops: u64,
    /// Packets marked CE.
    pub marks: u64,
    /// Sum of the times from arrival to departure of the packets served, picoseconds.
    pub sojourn: f64,
}

/// Counters that only grow, or move between accepted and dropped.
#[derive(Clone, Copy, Default, PartialEq)]
pub(crate) struct Totals {
    pub accepted_packets: u64,
    pub accepted_bytes: u64,
    pub dropped_bytes: u64,
    pub drops: [u64; CAUSES],
    pub down: u64,
    pub marks: u64,
    pub trims: u64,
    pub departed_packets: u64,
    pub departed_bytes: u64,
    /// Time in the port of every packet that has been served or is bound to be, arrival to departure.
    pub sojourn: u128,
    pub pauses: u64,
    pub paused: u64,
}

impl Totals {
    pub fn lost(&self) -> u64 {
        self.drops.iter().sum::<u64>() + self.down
    }
}

/// Time integrals of the queue since the last reset.
#[derive(Clone, Copy, Default)]
pub(crate) struct Integrals {
    pub packets: f64,
    pub packets_squared: f64,
    pub bytes: f64,
}

/// `now - base` for every priority.
pub(crate) fn class_difference(
    now: &[ClassStats; PRIORITIES],
    base: &[ClassStats; PRIORITIES],
) -> [ClassStats; PRIORITIES] {
    core::array::from_fn(|i| {
        let (n, b) = (&now[i], &base[i]);
        ClassStats {
            arrived_packets: n.arrived_packets - b.arrived_packets,
            departed_packets: n.departed_packets - b.departed_packets,
            departed_bytes: n.departed_bytes - b.departed_bytes,
            drops: n.drops - b.drops,
            marks: n.marks - b.marks,
            sojourn: n.sojourn - b.sojourn,
        }
    })
}
