//! What is kept of a connection while it is open.

use penstock_units::{Dur, Time};

/// A write of an application: bytes that are to arrive together.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// Sequence number after its last byte.
    pub end: u64,
    /// When it was made.
    pub started: Time,
    /// Its bytes.
    pub bytes: u64,
    /// What the application has marked it with.
    pub tag: u64,
    /// When the last byte was delivered in order; `NEVER` = not yet.
    pub delivered: Time,
    /// Deadline; `NEVER` = none.
    pub due: Time,
    /// Seconds it would take alone in the idle network; NaN = not known.
    pub ideal: f64,
}

/// Counters of a connection, or of many.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowCounters {
    /// Payload acknowledged.
    pub acked_bytes: u64,
    /// Payload delivered in order.
    pub delivered_bytes: u64,
    /// Payload that has arrived, in whatever order.
    pub arrived_bytes: u64,
    /// Data segments sent, retransmissions included.
    pub data_packets: u64,
    /// Retransmissions.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Fast retransmits.
    pub fast_retransmits: u64,
    /// ACKs with ECN-Echo.
    pub ece_acks: u64,
    /// Tail-loss probes.
    pub tail_loss_probes: u64,
    /// Time from the last packet sent to each of them.
    pub probe_wait: Dur,
    /// Its packets dropped (data and ACKs).
    pub drops: u64,
    /// Payload that arrived more than once.
    pub duplicate_bytes: u64,
}

impl FlowCounters {
    /// Nothing.
    pub const ZERO: FlowCounters = FlowCounters {
        acked_bytes: 0,
        delivered_bytes: 0,
        arrived_bytes: 0,
        data_packets: 0,
        retransmits: 0,
        timeouts: 0,
        fast_retransmits: 0,
        ece_acks: 0,
        tail_loss_probes: 0,
        probe_wait: Dur::ZERO,
        drops: 0,
        duplicate_bytes: 0,
    };
    /// Adds another connection's.
    pub fn add(&mut self, other: &FlowCounters) {
        self.acked_bytes += other.acked_bytes;
        self.delivered_bytes += other.delivered_bytes;
        self.arrived_bytes += other.arrived_bytes;
        self.data_packets += other.data_packets;
        self.retransmits += other.retransmits;
        self.timeouts += other.timeouts;
        self.fast_retransmits += other.fast_retransmits;
        self.ece_acks += other.ece_acks;
        self.tail_loss_probes += other.tail_loss_probes;
        self.probe_wait += other.probe_wait;
        self.drops += other.drops;
        self.duplicate_bytes += other.duplicate_bytes;
    }
    /// What has been counted since `earlier`.
    pub fn since(&self, earlier: &FlowCounters) -> FlowCounters {
        let (a, b) = (self, earlier);
        FlowCounters {
            acked_bytes: a.acked_bytes - b.acked_bytes,
            arrived_bytes: a.arrived_bytes - b.arrived_bytes,
            delivered_bytes: a.delivered_bytes - b.delivered_bytes,
            data_packets: a.data_packets - b.data_packets,
            retransmits: a.retransmits - b.retransmits,
            timeouts: a.timeouts - b.timeouts,
            fast_retransmits: a.fast_retransmits - b.fast_retransmits,
            ece_acks: a.ece_acks - b.ece_acks,
            tail_loss_probes: a.tail_loss_probes - b.tail_loss_probes,
            probe_wait: a.probe_wait - b.probe_wait,
            drops: a.drops - b.drops,
            duplicate_bytes: a.duplicate_bytes - b.duplicate_bytes,
        }
    }
}

/// What a connection leaves beside its row.
#[derive(Clone, Copy, Debug)]
pub struct Leaving {
    /// All it ever counted.
    pub totals: FlowCounters,
    /// Idle round-trip time of its path, seconds.
    pub idle_rtt: f64,
    /// Something written is not acknowledged.
    pub owes: bool,
    /// Writes not acknowledged to their last byte.
    pub unfinished: u64,
    /// Their bytes.
    pub unfinished_bytes: u64,
    /// When the oldest of them was made.
    pub since: Time,
}
