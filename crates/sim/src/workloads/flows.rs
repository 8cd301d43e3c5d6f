//! A list of flows with given start times: long flows, staggered joins, traces.

use super::{Action, Actions, App, FlowRequest, Timetable, Workload};
use penstock_core::{FlowId, Stream};
use penstock_units::Time;

/// Opens each flow at its time, in the given order, and ends it at its time.
struct FlowList {
    /// Start, end, flow.
    flows: Vec<(Time, Time, FlowRequest)>,
    next: usize,
    /// Ends to come, latest first.
    leaving: Vec<(Time, FlowId)>,
}

/// Flows that stay. Sorted by start time; equal times keep the given order.
pub fn flow_list(flows: Vec<(Time, FlowRequest)>) -> Workload {
    leaving_flows(flows.into_iter().map(|(start, flow)| (start, Time::NEVER, flow)).collect())
}
/// Flows with a start and an end; [`Time::NEVER`] = it stays.
pub fn leaving_flows(mut flows: Vec<(Time, Time, FlowRequest)>) -> Workload {
    flows.sort_by_key(|f| f.0);
    let only_opens = flows.iter().all(|(_, end, _)| *end == Time::NEVER);
    let last = only_opens && flows.iter().all(|(_, _, flow)| flow.bytes == u64::MAX);
    let timetable = if last { Timetable::Lasting } else { Timetable::Fixed };
    Workload::open_loop(FlowList { flows, next: 0, leaving: Vec::new() }, timetable, only_opens)
}

impl FlowList {
    fn next_start(&self) -> Time {
        self.flows.get(self.next).map_or(Time::NEVER, |f| f.0)
    }
    fn next_end(&self) -> Time {
        self.leaving.last().map_or(Time::NEVER, |f| f.0)
    }
}

impl App for FlowList {
    fn next_event(&self) -> Time {
        self.next_start().min(self.next_end())
    }
    fn on_timer(&mut self, now: Time, actions: &mut Actions) {
        while self.next_end() <= now {
            if let Some((_, flow)) = self.leaving.pop() {
                actions.push(Action::Leave(flow));
            }
        }
        while self.next_start() <= now {
            let (_, end, request) = self.flows[self.next].clone();
            let id = actions.open(request);
            self.next += 1;
            if end != Time::NEVER {
                let at = self.leaving.partition_point(|(t, _)| *t > end);
                self.leaving.insert(at, (end, id));
            }
        }
    }
}

/// Every host with one other, in a random cyclic order: no host sends to itself, each sends and receives once.
pub fn cycle(hosts: &[u32], rng: &mut Stream) -> Vec<(u32, u32)> {
    let mut order = hosts.to_vec();
    rng.shuffle(&mut order);
    (0..order.len()).map(|i| (order[i], order[(i + 1) % order.len()])).collect()
}
