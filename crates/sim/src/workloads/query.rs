//! Requests of one client: it asks every server for a response, and asks again when it has the last one. Synchronized reads (incast) and
//! queries are of this kind. A request takes the idle delay of the path to its server. With instant requests the client asks again when
//! the last server has its last acknowledgement.

use super::{Action, Actions, App, Block, FlowRequest, Message, Tally, Workload, Written};
use penstock_core::{FlowId, Stream};
use penstock_units::{Dur, Time};
use std::collections::BTreeMap;

/// How the requests of a query are spread over time (kulkarni-agrawal-incast section 3.2: "a random scheduling delay of up to 20 us
/// between every consecutive data request" leaves two readings).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JitterMode {
    /// The request to server i follows that to server i-1 by U(0, jitter).
    Cumulative,
    /// Every request leaves after U(0, jitter), independently.
    Independent,
}

/// Connections that responses use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Connections {
    /// A new one for each.
    Fresh,
    /// One per server for all queries; the servers open them with the first request of all.
    Together,
    /// One per server for all queries; a server opens its own with its first request.
    OnDemand,
}

/// What a client asks for, and when.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// First query.
    pub start: Time,
    /// Queries in all; `u64::MAX` = until the end of the run.
    pub repetitions: u64,
    /// Spread of the requests of a query.
    pub jitter: Dur,
    /// How it is meant.
    pub mode: JitterMode,
    /// From the end of a query to the next.
    pub gap: Dur,
    /// Responses should be complete so long after they begin; `None` = no deadline.
    pub deadline: Option<Dur>,
    /// Connections of the responses.
    pub connections: Connections,
    /// The client asks again when it has all responses, and requests take the idle delay of the path.
    pub travel: bool,
}

/// Messages. To a server: open the connection of a response, respond. To the client: a response is acknowledged.
const CONNECT: u8 = 0;
const ASK: u8 = 1;
const ACKNOWLEDGED: u8 = 2;

struct Client {
    /// Place of the host that sends each response.
    servers: Vec<u32>,
    /// Bytes of all responses together.
    bytes: u64,
    plan: Plan,
    rng: Stream,
    connected: bool,
    /// Requests of this query: when they leave, for which response; in order of time.
    requests: Vec<(Time, u32)>,
    next: usize,
    /// Responses that are not complete.
    outstanding: usize,
    done: u64,
}

/// The servers of one host.
struct Server {
    responses: BTreeMap<u32, FlowRequest>,
    flows: BTreeMap<u32, FlowId>,
    plan: Plan,
    /// Responses that are not acknowledged, of all queries.
    left: u64,
}

/// Queries of the host that all `responses` lead to. A response says which host sends how many bytes of it; a host may send several.
pub fn queries(responses: Vec<FlowRequest>, plan: Plan, rng: Stream) -> Workload {
    let client = responses[0].dst;
    let travel = plan.travel.then_some(responses[0].protocol);
    let bytes = responses.iter().map(|r| r.bytes).sum();
    let mut hosts: Vec<(u32, BTreeMap<u32, FlowRequest>)> = Vec::new();
    let mut places: BTreeMap<u32, u32> = BTreeMap::new();
    let mut servers = Vec::with_capacity(responses.len());
    for (number, response) in (0u32..).zip(responses) {
        let place = *places.entry(response.src).or_insert_with(|| {
            hosts.push((response.src, BTreeMap::new()));
            // The client has place 0.
            hosts.len() as u32
        });
        servers.push(place);
        hosts[place as usize - 1].1.insert(number, response);
    }
    let mut app = Client {
        servers,
        bytes,
        plan,
        rng,
        connected: false,
        requests: Vec::new(),
        next: 0,
        outstanding: 0,
        done: 0,
    };
    let mut tally = Tally::of(plan.repetitions);
    tally.begin(0, app.ask(plan.start));
    let mut apps: Vec<(u32, Box<dyn App>)> = vec![(client, Box::new(app))];
    apps.extend(hosts.into_iter().map(|(host, responses)| {
        let left = plan.repetitions.saturating_mul(responses.len() as u64);
        (host, Box::new(Server { responses, flows: BTreeMap::new(), plan, left }) as Box<dyn App>)
    }));
    Workload::new(apps, tally).with_travel(travel)
}

impl Client {
    /// A query begins.
    fn ask(&mut self, begin: Time) -> Block {
        (self.next, self.outstanding) = (0, self.servers.len());
        self.requests.clear();
        let mut at = begin;
        for response in 0..self.servers.len() as u32 {
            let delay = self.rng.dur_below(self.plan.jitter);
            at = match self.plan.mode {
                JitterMode::Cumulative => at + delay,
                JitterMode::Independent => begin + delay,
            };
            self.requests.push((at, response));
        }
        self.requests.sort_by_key(|r| r.0);
        Block { started: begin, parts: 1, bytes: self.bytes, bus: None }
    }
    /// One more response is complete.
    fn on_response(&mut self, now: Time, actions: &mut Actions) {
        self.outstanding -= 1;
        if self.outstanding > 0 {
            return;
        }
        actions.push(Action::Part(self.done));
        self.done += 1;
        if self.done < self.plan.repetitions {
            let block = self.ask(now + self.plan.gap);
            actions.push(Action::Begin(self.done, block));
        } else {
            actions.push(Action::Done);
        }
    }
}

impl App for Client {
    fn next_event(&self) -> Time {
        self.requests.get(self.next).map_or(Time::NEVER, |r| r.0)
    }
    fn on_timer(&mut self, now: Time, actions: &mut Actions) {
        if self.plan.connections == Connections::Together && !self.connected {
            self.connected = true;
            (0..).zip(&self.servers).for_each(|(response, place)| actions.send(*place, CONNECT, response));
        }
        while self.next_event() <= now {
            let response = self.requests[self.next].1;
            self.next += 1;
            actions.send(self.servers[response as usize], ASK, response.into());
        }
    }
    fn on_delivered(&mut self, now: Time, _: &Written, actions: &mut Actions) {
        if self.plan.travel {
            self.on_response(now, actions);
        }
    }
    fn on_message(&mut self, now: Time, message: &Message, actions: &mut Actions) {
        if message.kind == ACKNOWLEDGED {
            self.on_response(now, actions);
        }
    }
    fn work(&self) -> (u64, u64) {
        (self.done, self.plan.repetitions)
    }
}

impl Server {
    /// The connection of a response that has one for all queries.
    fn connection(&mut self, response: u32, actions: &mut Actions) -> FlowId {
        let request = &self.responses[&response];
        let idle = || FlowRequest { bytes: 0, close: false, ..request.clone() };
        *self.flows.entry(response).or_insert_with(|| actions.open(idle()))
    }
}

impl App for Server {
    fn next_event(&self) -> Time {
        Time::NEVER
    }
    fn on_timer(&mut self, _: Time, _: &mut Actions) {}
    fn on_message(&mut self, now: Time, message: &Message, actions: &mut Actions) {
        let (response, tag) = (message.word as u32, message.word);
        match message.kind {
            CONNECT => _ = self.connection(response, actions),
            ASK if self.plan.connections == Connections::Fresh => {
                let due = self.plan.deadline.map_or(Time::NEVER, |d| now + d);
                actions.open(FlowRequest { close: true, due, tag, ..self.responses[&response].clone() });
            }
            _ => {
                let flow = self.connection(response, actions);
                actions.push(Action::Write { flow, bytes: self.responses[&response].bytes, tag });
            }
        }
    }
    fn on_acked(&mut self, _: Time, write: &Written, actions: &mut Actions) {
        self.left -= 1;
        if !self.plan.travel {
            actions.send(0, ACKNOWLEDGED, write.tag);
        }
        if self.left == 0 {
            actions.push(Action::Done);
        }
    }
}
