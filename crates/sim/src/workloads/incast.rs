//! Incast as an open loop: now and then hosts send to one client at once, whatever became of the earlier times. The client is always the same,
//! or drawn each time.

use super::{Action, Actions, App, Block, FlowRequest, Timetable, Workload};
use penstock_core::Stream;
use penstock_units::{Dur, Time};
use std::collections::BTreeSet;

/// Incasts of one client, or of one that is drawn each time.
struct Incast {
    /// One per server that may take part.
    responses: Vec<FlowRequest>,
    /// Each incast draws its client among the servers.
    draws_client: bool,
    plan: Plan,
    rng: Stream,
    /// Begin of the next incast.
    next: Time,
    /// Incasts begun.
    begun: u64,
    /// Responses still to be sent: when, number of the incast, server, client.
    pending: BTreeSet<(Time, u64, usize, u32)>,
}

/// When how many send.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Nothing begins before.
    pub start: Time,
    /// When incasts begin.
    pub times: Times,
    /// Servers of each, drawn anew; all of them where there are no more.
    pub servers: usize,
    /// Incasts in all.
    pub count: u64,
    /// Servers send after U(0, this), independently.
    pub jitter: Dur,
    /// Responses should be complete so long after they begin; `None` = no deadline.
    pub deadline: Option<Dur>,
}

/// When incasts begin.
#[derive(Clone, Copy, Debug)]
pub enum Times {
    /// At the start and then every so often.
    Every(Dur),
    /// At random times, so many per second.
    Poisson(f64),
}

/// Incasts of one client: `responses` says who may send to whom with how many bytes. Each is a block, complete when its last response
/// is acknowledged.
pub fn incasts(responses: Vec<FlowRequest>, plan: Plan, rng: Stream) -> Workload {
    workload(Incast::new(responses, false, plan, rng))
}
/// Incasts of a client that is drawn each time among those that may send.
pub fn incasts_among(responses: Vec<FlowRequest>, plan: Plan, rng: Stream) -> Workload {
    workload(Incast::new(responses, true, plan, rng))
}
fn workload(incast: Incast) -> Workload {
    Workload::open_loop(incast, Timetable::Unknown, false).that_overloads().that_counts_writes()
}

impl Incast {
    fn new(responses: Vec<FlowRequest>, draws_client: bool, plan: Plan, mut rng: Stream) -> Incast {
        let next = match plan.times {
            Times::Every(_) => plan.start,
            Times::Poisson(rate) => plan.start + Dur::from_secs(rng.exponential(1.0 / rate)),
        };
        Incast { responses, draws_client, plan, rng, next, begun: 0, pending: BTreeSet::new() }
    }
    fn next_begin(&self) -> Time {
        if self.begun < self.plan.count {
            self.next
        } else {
            Time::NEVER
        }
    }
    fn begin(&mut self, actions: &mut Actions) {
        let client = self.draws_client.then(|| self.rng.below(self.responses.len() as u64) as usize);
        let mut servers: Vec<usize> = (0..self.responses.len()).filter(|s| Some(*s) != client).collect();
        if self.plan.servers < servers.len() {
            self.rng.shuffle(&mut servers);
            servers.truncate(self.plan.servers);
        }
        let at = self.next;
        let (parts, bytes) = (servers.len() as u64, servers.iter().map(|s| self.responses[*s].bytes).sum());
        actions.push(Action::Begin(self.begun, Block { started: at, parts, bytes, bus: None }));
        for server in servers {
            let to = client.map_or(self.responses[server].dst, |c| self.responses[c].src);
            self.pending.insert((at + self.rng.dur_below(self.plan.jitter), self.begun, server, to));
        }
        self.begun += 1;
        let gap = match self.plan.times {
            Times::Every(gap) => gap,
            Times::Poisson(rate) => Dur::from_secs(self.rng.exponential(1.0 / rate)),
        };
        self.next = at + gap;
    }
}

impl App for Incast {
    fn next_event(&self) -> Time {
        self.next_begin().min(self.pending.first().map_or(Time::NEVER, |p| p.0))
    }
    fn on_timer(&mut self, now: Time, actions: &mut Actions) {
        while self.next_begin() <= now {
            self.begin(actions);
        }
        while let Some((at, incast, server, dst)) = self.pending.first().copied() {
            if at > now {
                break;
            }
            self.pending.pop_first();
            let due = self.plan.deadline.map_or(Time::NEVER, |d| now + d);
            actions.open(FlowRequest {
                dst,
                close: true,
                due,
                tag: incast,
                ..self.responses[server].clone()
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_core::rng::Entity;

    fn incast(plan: Plan) -> Incast {
        let responses = (0..10).map(|i| FlowRequest::new(i, 10, 2000)).collect();
        Incast::new(responses, false, plan, Stream::new(1, 0, Entity::Workload, 0))
    }
    fn plan(times: Times, servers: usize, count: u64) -> Plan {
        Plan { start: Time::ZERO + Dur::millis(1), times, servers, count, jitter: Dur::ZERO, deadline: None }
    }
    /// Every flow with the time it begins.
    fn all(w: &mut Incast, until: Time) -> Vec<(Time, FlowRequest)> {
        let mut found = Vec::new();
        while w.next_event() <= until && w.next_event() != Time::NEVER {
            let now = w.next_event();
            let mut actions = Actions::default();
            w.on_timer(now, &mut actions);
            found.extend(actions.take().into_iter().filter_map(|a| match a {
                Action::Open(request) => Some((now, request)),
                _ => None,
            }));
        }
        found
    }

    #[test]
    fn periodic_incasts_begin_on_time_with_servers_of_their_own() {
        let mut w = incast(plan(Times::Every(Dur::micros(300)), 4, 3));
        let flows = all(&mut w, Time::NEVER);
        let starts: Vec<u64> =
            flows.iter().map(|f| f.0.since(Time::ZERO).as_secs().mul_add(1e6, 0.5) as u64).collect();
        assert_eq!(starts, [1000, 1000, 1000, 1000, 1300, 1300, 1300, 1300, 1600, 1600, 1600, 1600]);
        assert!(flows.iter().all(|(_, f)| f.bytes == 2000 && f.dst == 10 && f.close));
        let servers =
            |i: u64| -> Vec<u32> { flows.iter().filter(|f| f.1.tag == i).map(|f| f.1.src).collect() };
        assert!((0..3).all(|i| servers(i).windows(2).all(|w| w[0] < w[1])), "a server sends once");
        assert!(servers(0) != servers(1) || servers(1) != servers(2), "drawn anew each time");
    }
    #[test]
    fn a_client_that_is_drawn_sends_nothing_to_itself() {
        let responses = (0..10).map(|i| FlowRequest::new(i, i, 2000)).collect();
        let plan = plan(Times::Every(Dur::micros(300)), 4, 200);
        let mut w = Incast::new(responses, true, plan, Stream::new(1, 0, Entity::Workload, 0));
        let flows = all(&mut w, Time::NEVER);
        let mut clients = BTreeSet::new();
        for incast in flows.chunks(4) {
            let client = incast[0].1.dst;
            assert!(incast.iter().all(|(_, f)| f.dst == client && f.src != client), "one client, not itself");
            clients.insert(client);
        }
        assert_eq!((flows.len(), clients.len()), (800, 10), "each host was the client in 200 incasts");
    }
    #[test]
    fn an_incast_is_a_block_of_the_responses_with_its_number() {
        let mut w = incast(plan(Times::Every(Dur::micros(1)), 2, 2));
        let mut blocks = Vec::new();
        while w.next_event() != Time::NEVER {
            let mut actions = Actions::default();
            w.on_timer(w.next_event(), &mut actions);
            let mut tags = Vec::new();
            for action in actions.take() {
                match action {
                    Action::Begin(number, block) => {
                        blocks.push((number, block.started, block.parts, block.bytes))
                    }
                    Action::Open(request) => tags.push(request.tag),
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(tags, [blocks.len() as u64 - 1; 2]);
        }
        let begin = Time::ZERO + Dur::millis(1);
        assert_eq!(blocks, [(0, begin, 2, 4000), (1, begin + Dur::micros(1), 2, 4000)]);
    }
    #[test]
    fn random_incasts_come_at_the_rate_asked_for() {
        let mut w = incast(plan(Times::Poisson(1000.0), 10, u64::MAX));
        // Ten thousand are expected in ten seconds; three standard deviations are 300.
        let flows = all(&mut w, Time::ZERO + Dur::from_secs(10.001));
        assert_eq!(flows.len() % 10, 0);
        assert!((9_700..10_300).contains(&(flows.len() / 10)), "{}", flows.len() / 10);
    }
}
