//! A connection with both its ends, as the engine keeps it.

use crate::events::Pending;
use crate::host_queue::HostShare;
use crate::ideal::Lengths;
use crate::metrics::{FlowCounters, FlowRecord, Transfer};
use crate::network::Way;
#[cfg(debug_assertions)]
use crate::witness::Witness;
use penstock_core::tcp::{Receiver, Sender};
use penstock_units::Time;
use std::collections::VecDeque;

/// Flow in nobody's charge.
pub(crate) const ALONE: u32 = u32::MAX;

/// A connection with both its ends.
pub(crate) struct Flow {
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    /// Where its data goes, and its acknowledgements.
    pub(crate) forth: Way,
    pub(crate) back: Way,
    pub(crate) sender_wake: Pending,
    pub(crate) receiver_wake: Pending,
    /// What stands in its host's port, where that is limited.
    pub(crate) host: HostShare,
    pub(crate) workload: u32,
    /// Host controller in charge, or [`ALONE`].
    pub(crate) collective: u32,
    pub(crate) tag: u64,
    /// Writes not yet acknowledged.
    pub(crate) writes: VecDeque<Transfer>,
    /// End of the oldest of them that is not yet delivered.
    pub(crate) undelivered: usize,
    #[cfg(debug_assertions)]
    pub(crate) witness: Witness,
    /// Its samples are kept.
    pub(crate) has_place: bool,
    pub(crate) lengths: Lengths,
    /// Round-trip time of its path when that is idle, seconds.
    pub(crate) idle_rtt: f64,
    /// Its packets dropped so far.
    pub(crate) drops: u64,
    /// Counters at the end of warm-up.
    pub(crate) baseline: FlowCounters,
    pub(crate) record: FlowRecord,
}

impl Flow {
    /// Notes when the writes were delivered that are complete by now.
    pub(crate) fn note_delivered(&mut self, now: Time) {
        let delivered = self.receiver.delivered();
        while let Some(w) = self.writes.get_mut(self.undelivered) {
            if delivered < w.end {
                break;
            }
            w.delivered = now;
            self.undelivered += 1;
        }
    }
    /// What it has done so far.
    pub(crate) fn counters(&self) -> FlowCounters {
        let s = &self.sender.stats;
        FlowCounters {
            acked_bytes: self.sender.acked(),
            delivered_bytes: self.receiver.delivered(),
            data_packets: s.data_packets,
            retransmits: s.retransmits,
            timeouts: s.timeouts,
            fast_retransmits: s.fast_retransmits,
            ece_acks: s.ece_acks,
            drops: self.drops,
        }
    }
}
