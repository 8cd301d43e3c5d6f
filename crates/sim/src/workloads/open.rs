//! Open loop: flows begin at random times, whatever became of the earlier ones.

use super::sizes::Sizes;
use super::{Actions, FlowRequest, Pairs, Timetable, Workload};
use crate::scenario::MOST_REPEATS;
use penstock_core::Stream;
use penstock_units::{Dur, Time};

/// Poisson arrivals of flows, each on its own connection.
pub struct Poisson {
    /// Protocol, class and tag of every flow.
    template: FlowRequest,
    pairs: Pairs,
    sizes: Sizes,
    mean_gap: f64,
    deadline: Option<Dur>,
    left: u64,
    rng: Stream,
    next: Time,
}

/// When flows begin.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Flows per second in all.
    pub per_second: f64,
    /// Nothing begins before.
    pub start: Time,
    /// Flows should be complete so long after they begin.
    pub deadline: Option<Dur>,
    /// Flows in all.
    pub count: u64,
}

/// An open loop of `per_second` from `start` to `end` of the run must not begin more than [`MOST_REPEATS`] flows.
///
/// # Errors
/// The rule, when it would.
pub fn check_arrivals(per_second: f64, end: Dur, start: Dur, count: u64) -> Result<(), String> {
    let expected = (per_second * (end - start).as_secs()).min(count as f64);
    if expected <= MOST_REPEATS {
        return Ok(());
    }
    Err(format!(
        "means about {expected:.3e} arrivals ({per_second:.3e} per second until {end}); at most {MOST_REPEATS:e} are possible"
    ))
}

impl Poisson {
    /// Flows like `template` between `pairs`.
    pub fn new(template: FlowRequest, pairs: Pairs, sizes: Sizes, rate: Rate, mut rng: Stream) -> Poisson {
        let mean_gap = 1.0 / rate.per_second;
        let next = rate.start + Dur::from_secs(rng.exponential(mean_gap));
        Poisson { template, pairs, sizes, mean_gap, deadline: rate.deadline, left: rate.count, rng, next }
    }
}

impl Workload for Poisson {
    fn open_loop(&self) -> bool {
        true
    }
    fn timetable(&self) -> Timetable {
        Timetable::Fixed
    }
    fn only_opens(&self) -> bool {
        true
    }
    fn next_event(&self) -> Time {
        if self.left == 0 {
            return Time::NEVER;
        }
        self.next
    }
    fn on_event(&mut self, now: Time, actions: &mut Actions) {
        while self.next_event() <= now {
            let (src, dst) = self.pairs.draw(&mut self.rng);
            let bytes = self.sizes.draw(&mut self.rng);
            let due = self.deadline.map_or(Time::NEVER, |d| self.next + d);
            actions.open(FlowRequest { src, dst, bytes, due, close: true, ..self.template.clone() });
            self.next = self.next + Dur::from_secs(self.rng.exponential(self.mean_gap));
            self.left -= 1;
        }
    }
}
