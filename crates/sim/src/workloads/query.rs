//! Queries: a client asks every server for a response; the next query follows when the client has the last response. On persistent
//! connections or on a fresh one per response. A query takes the idle delay of the path to each server; with instant requests the
//! next one follows when the last server has its last acknowledgement, and the servers know at once.

use super::{Acked, Action, Actions, FlowRequest, Workload};
use penstock_core::{FlowId, Stream};
use penstock_units::{Dur, Time};

/// Repeated queries of one client.
pub struct Queries {
    /// One per server; `bytes` is what it answers with.
    responses: Vec<FlowRequest>,
    plan: Plan,
    rng: Stream,
    /// Persistent connections, once open.
    flows: Vec<FlowId>,
    /// Responses still to be written: when, by which server; in order of time.
    pending: Vec<(Time, usize)>,
    next: usize,
    /// Responses to this query that the client does not have yet; of instant requests, those that are not acknowledged.
    outstanding: usize,
    /// Responses that are not acknowledged.
    unacknowledged: usize,
    /// What a query takes to each server; zeros where requests are instant.
    travel: Vec<Dur>,
    started: Time,
    done: u64,
}

/// What a client asks for, and when.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// First query.
    pub start: Time,
    /// Queries in all.
    pub repetitions: u64,
    /// Servers answer after U(0, this), independently.
    pub jitter: Dur,
    /// From the end of a query to the next.
    pub gap: Dur,
    /// Responses should be complete so long after they begin; `None` = no deadline.
    pub deadline: Option<Dur>,
    /// One connection per server for all queries, rather than one per response.
    pub persistent: bool,
    /// The client asks again when it has all responses, and queries take the idle delay of the path.
    pub travel: bool,
}

impl Queries {
    /// `responses` says who answers whom with how many bytes.
    pub fn new(responses: Vec<FlowRequest>, plan: Plan, rng: Stream) -> Queries {
        let mut queries = Queries {
            travel: vec![Dur::ZERO; responses.len()],
            responses,
            plan,
            rng,
            flows: Vec::new(),
            pending: Vec::new(),
            next: 0,
            outstanding: 0,
            unacknowledged: 0,
            started: Time::ZERO,
            done: 0,
        };
        queries.ask(plan.start);
        queries
    }
    fn ask(&mut self, at: Time) {
        self.started = at;
        self.next = 0;
        self.outstanding = self.responses.len();
        self.pending.clear();
        for server in 0..self.responses.len() {
            self.pending.push((at + self.travel[server] + self.rng.dur_below(self.plan.jitter), server));
        }
        self.pending.sort_by_key(|p| p.0);
    }
}

impl Workload for Queries {
    fn next_event(&self) -> Time {
        self.pending.get(self.next).map_or(Time::NEVER, |p| p.0)
    }
    fn on_event(&mut self, now: Time, actions: &mut Actions) {
        if self.plan.persistent && self.flows.is_empty() {
            let idle = |r: &FlowRequest| FlowRequest { bytes: 0, close: false, ..r.clone() };
            self.flows = self.responses.iter().map(|r| actions.open(idle(r))).collect();
        }
        while self.next_event() <= now {
            let server = self.pending[self.next].1;
            self.next += 1;
            self.unacknowledged += 1;
            let response = &self.responses[server];
            if self.plan.persistent {
                actions.push(Action::Write(self.flows[server], response.bytes));
            } else {
                let due = self.plan.deadline.map_or(Time::NEVER, |d| now + d);
                actions.open(FlowRequest { close: true, due, ..response.clone() });
            }
        }
    }
    fn prepare(&mut self, delay: &mut dyn FnMut(u32, u32) -> Dur) {
        if !self.plan.travel {
            return;
        }
        for (known, r) in self.travel.iter_mut().zip(&self.responses) {
            *known = delay(r.dst, r.src);
        }
        for (at, server) in &mut self.pending {
            *at = *at + self.travel[*server];
        }
        self.pending.sort_by_key(|p| p.0);
    }
    fn hears_deliveries(&self) -> bool {
        self.plan.travel
    }
    fn on_delivered(&mut self, now: Time, _: &Acked, _: &mut dyn FnMut() -> Dur, actions: &mut Actions) {
        if self.plan.travel {
            self.on_response(now, actions);
        }
    }
    fn work(&self) -> Option<(u64, u64)> {
        (self.plan.repetitions < u64::MAX).then_some((self.done, self.plan.repetitions))
    }
    fn on_acked(&mut self, now: Time, _acked: &Acked, actions: &mut Actions) {
        self.unacknowledged -= 1;
        if !self.plan.travel {
            self.on_response(now, actions);
        }
        // The last acknowledgement of all ends the run.
        if self.done == self.plan.repetitions && self.unacknowledged == 0 {
            actions.push(Action::Stop);
        }
    }
}

impl Queries {
    /// One more response is complete.
    fn on_response(&mut self, now: Time, actions: &mut Actions) {
        self.outstanding -= 1;
        if self.outstanding > 0 {
            return;
        }
        let bytes = self.responses.iter().map(|r| r.bytes).sum();
        actions.push(Action::Block { started: self.started, bytes });
        self.done += 1;
        if self.done < self.plan.repetitions {
            self.ask(now + self.plan.gap);
        } else {
            actions.push(Action::Over);
        }
    }
}
