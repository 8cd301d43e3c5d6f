//! Sums and means over a run, kept beside the tables, which may be cut short.

use super::FlowCounters;

/// Sums over the connections that were open in the measured window, kept beside the table, which may be cut short.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowTotals {
    /// Connections open at any time in the window.
    pub flows: u64,
    /// Of these, opened in the window.
    pub opened: u64,
    /// Of these, complete.
    pub completed: u64,
    /// Their counters.
    pub counters: FlowCounters,
    /// Sum of the squares of the bytes acknowledged.
    pub squares: u128,
    /// Opened for long and never established.
    pub not_established: u64,
    /// With something to send for long, and nothing acknowledged in the window.
    pub starved: u64,
    /// Longest round-trip time: idle or smoothed, seconds.
    pub longest_rtt: f64,
}

/// Sums over the completed writes of the measured window, kept beside their table.
#[derive(Clone, Copy, Debug, Default)]
pub struct TransferTotals {
    /// Completed.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Sum of their completion times, seconds.
    pub seconds: f64,
    /// Longest completion time, seconds.
    pub longest: f64,
    /// With a deadline.
    pub due: u64,
    /// Of these, done by then.
    pub met: u64,
    /// Not complete at the end of the run.
    pub unfinished: u64,
    /// Their bytes.
    pub unfinished_bytes: u64,
    /// Age of the oldest of these, seconds.
    pub oldest: f64,
}

/// Rows left out because a table was full.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeftOut {
    /// Of the flow table.
    pub flows: u64,
    /// Of the transfer table.
    pub transfers: u64,
    /// Of the event table.
    pub events: u64,
    /// Of the series table.
    pub series: u64,
}

impl LeftOut {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.flows + self.transfers + self.events + self.series
    }
}

/// Running mean of one controller variable over flows and samples.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mean {
    sum: f64,
    n: u64,
}

impl Mean {
    /// Counts a sample.
    pub fn add(&mut self, x: f64) {
        if x.is_finite() {
            self.sum += x;
            self.n += 1;
        }
    }
    /// Counts the samples of another one too.
    pub fn join(&mut self, other: &Mean) {
        self.sum += other.sum;
        self.n += other.n;
    }
    /// The mean, `None` without samples.
    pub fn value(&self) -> Option<f64> {
        (self.n > 0).then(|| self.sum / self.n as f64)
    }
}
