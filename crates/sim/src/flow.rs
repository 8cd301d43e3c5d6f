//! A flow as whoever measures it has it. What moves its bytes is with its hosts.

use crate::ideal::Lengths;
use crate::metrics::{FlowCounters, FlowRecord, Transfer};
#[cfg(debug_assertions)]
use crate::witness::Witness;
use penstock_host::Opening;
use penstock_units::Time;
use std::collections::VecDeque;

/// A connection, or a message on its own.
pub(crate) struct Flow {
    /// Where its ends are.
    pub(crate) opening: Opening,
    pub(crate) workload: u32,
    pub(crate) tag: u64,
    /// Writes not yet acknowledged.
    pub(crate) writes: VecDeque<Transfer>,
    /// How many of them, from the oldest on, are delivered.
    pub(crate) delivered: usize,
    #[cfg(debug_assertions)]
    pub(crate) witness: Witness,
    /// The same where bytes may be delivered in any order.
    #[cfg(debug_assertions)]
    pub(crate) loose: penstock_host::lab::Witness,
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
    /// Everything up to byte `end` was delivered at `at`: notes it for the oldest write of which that was not known.
    pub(crate) fn note_delivered(&mut self, at: Time, end: u64) -> Option<Transfer> {
        let w = self.writes.get_mut(self.delivered).filter(|w| w.end <= end)?;
        w.delivered = at;
        self.delivered += 1;
        Some(*w)
    }
}
