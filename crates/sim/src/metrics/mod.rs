//! What is recorded during a run, bounded by default.
//!
//! [`Recorder`] collects the rows of `rows` and the sums of `totals`; `series` takes its samples. What it learns of open connections comes
//! by [`Sampled`]: nothing here names the engine.

mod blocks;
mod chunked;
mod compressed;
pub mod deliveries;
mod disk;
pub mod event_log;
mod fields;
mod flows;
pub mod joining;
mod open;
mod recorder;
mod row;
mod rows;
mod sampling;
pub mod series;
pub mod tally;
mod totals;

pub use blocks::{Series, SeriesRow};
pub use chunked::{Memory, Rows, LEAST_MEMORY};
pub use compressed::Compress;
pub use deliveries::Deliveries;
pub use flows::{FlowCounters, Leaving, Transfer};
pub use recorder::Recorder;
pub use row::Row;
pub use rows::{Event, FlowRecord, TransferRecord, What};
pub use series::{Entity, Sample, Sampled};
pub use totals::{FlowTotals, LeftOut, Mean, TransferTotals};

/// Most rows of a recorded table; a run that would exceed it says so instead of filling the memory.
pub const MAX_ROWS: usize = 4_000_000;
