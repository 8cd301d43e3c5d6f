//! The wall clock as the simulator's time: picoseconds since the run began.

use crate::sys;
use penstock_units::Time;

/// The clock of one run; all its threads share it.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch_ns: u64,
}

impl Clock {
    /// A clock that shows zero after `ns` nanoseconds.
    pub fn starting_in(ns: u64) -> Clock {
        Clock { epoch_ns: sys::monotonic_ns() + ns }
    }
    /// Time since the start; zero before it.
    pub fn now(&self) -> Time {
        Time(sys::monotonic_ns().saturating_sub(self.epoch_ns) * 1000)
    }
}
