//! A list of flows with given start times: long flows, staggered joins, traces.

use super::{Actions, FlowRequest, Workload};
use penstock_units::Time;

/// Opens each flow at its time, in the given order.
pub struct FlowList {
    flows: Vec<(Time, FlowRequest)>,
    next: usize,
}

impl FlowList {
    /// Sorted by start time; equal times keep the given order.
    pub fn new(mut flows: Vec<(Time, FlowRequest)>) -> FlowList {
        flows.sort_by_key(|f| f.0);
        FlowList { flows, next: 0 }
    }
}

impl Workload for FlowList {
    fn next_event(&self) -> Time {
        self.flows.get(self.next).map_or(Time::NEVER, |f| f.0)
    }
    fn on_event(&mut self, now: Time, actions: &mut Actions) {
        while self.next_event() <= now {
            actions.open(self.flows[self.next].1.clone());
            self.next += 1;
        }
    }
}
