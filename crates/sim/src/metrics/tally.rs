//! Counts what the applications of a workload have done together: blocks, queries, collective operations.
//!
//! Applications report where a block begins ([`crate::workloads::Action::Begin`]) and that a part of it is complete ([`crate::workloads::Action::Part`]). The
//! tally folds these records, in the order of events, into blocks with a begin, an end and a size. No application reads it.

use penstock_units::Time;
use std::collections::BTreeMap;

/// A unit of application work: a block of synchronized reads, a query, a collective operation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Block {
    /// Its begin, which may be later than the report of it.
    pub started: Time,
    /// Parts that make it complete.
    pub parts: u64,
    /// Its bytes; of a collective operation those of the buffer of a rank.
    pub bytes: u64,
    /// Of a collective operation: its bus bandwidth as a multiple of the algorithm's.
    pub bus: Option<f64>,
}

/// The blocks of a workload: those under way, and how many are complete.
#[derive(Debug, Default)]
pub struct Tally {
    open: BTreeMap<u64, Block>,
    complete: u64,
    /// Blocks after which the workload is over; `None` = it has no end of its own.
    all: Option<u64>,
}

impl Tally {
    /// Of a workload that is over after `all` blocks; `u64::MAX` = it has no end of its own.
    pub fn of(all: u64) -> Tally {
        Tally { all: (all < u64::MAX).then_some(all), ..Tally::default() }
    }
    /// A block begins.
    pub fn begin(&mut self, number: u64, block: Block) {
        self.open.insert(number, block);
    }
    /// A part of a block is complete. Answers the block when it was the last part.
    pub fn part(&mut self, number: u64) -> Option<Block> {
        let block = self.open.get_mut(&number)?;
        block.parts -= 1;
        if block.parts > 0 {
            return None;
        }
        self.complete += 1;
        self.open.remove(&number)
    }
    /// Some block has begun, or the workload is over after some.
    pub fn is_used(&self) -> bool {
        !self.open.is_empty() || self.all.is_some()
    }
    /// The workload has an end of its own.
    pub fn has_end(&self) -> bool {
        self.all.is_some()
    }
    /// All blocks are complete.
    pub fn is_over(&self) -> bool {
        self.all == Some(self.complete)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_overlap_are_told_apart_and_the_last_ends_the_workload() {
        let block = |us: u64, parts| Block { started: Time(us), parts, bytes: 7, bus: None };
        let mut tally = Tally::of(2);
        tally.begin(0, block(5, 2));
        tally.begin(1, block(6, 2));
        let ends: Vec<_> = [0, 1, 1].map(|number| tally.part(number).map(|block| block.started.0)).into();
        assert_eq!((ends, tally.is_over()), (vec![None, None, Some(6)], false));
        assert_eq!((tally.part(0).map(|block| block.started.0), tally.is_over()), (Some(5), true));
        assert_eq!(tally.part(0), None);
        assert!(tally.has_end() && !Tally::of(u64::MAX).has_end());
    }
}
