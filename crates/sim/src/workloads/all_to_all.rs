//! All-to-all: every host sends to every other, with so many flows of a host open at once. A flow is over for its sender when word has
//! come back that the receiver has it, which takes the idle delay of the path; with instant requests when it is acknowledged.
//!
//! A repetition is complete when every host has received all of its flows (with instant requests: when all are acknowledged).

use super::repetition::Repetition;
use super::{Action, Actions, App, Block, FlowRequest, Message, Tally, Workload, Written};
use penstock_core::rng::Entity;
use penstock_core::Stream;
use penstock_units::{Dur, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How it goes.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The first begins then.
    pub start: Time,
    /// Hosts begin U(0, this) later.
    pub spread: Dur,
    /// Flows a host has open at once.
    pub window: usize,
    /// Every host in a random order of its own, rather than host i to i + 1, i + 2, ...
    pub random: bool,
    /// How often.
    pub repetitions: u64,
    /// The receiver says that it has a flow, and its word takes the idle delay of the path.
    pub travel: bool,
}

/// One of the hosts.
struct Host {
    /// Protocol, class and bytes of every flow.
    template: FlowRequest,
    hosts: Arc<[u32]>,
    plan: Plan,
    rng: Stream,
    /// Its place.
    place: usize,
    repetition: Repetition,
    /// How far away it sends in which order; empty = in turn.
    order: Vec<usize>,
    /// When it begins.
    begin: Time,
    /// Flows begun in this repetition.
    begun: usize,
    /// Flows complete by repetition: another host may begin the next one earlier.
    complete: BTreeMap<u64, usize>,
    /// Flows that are not acknowledged.
    unacknowledged: usize,
    /// Its share of the last repetition is complete.
    over: bool,
}

/// From a receiver to a sender: a flow of this repetition is complete.
const RECEIVED: u8 = 0;

/// Flows like `template` between all of `hosts`, of which there are two at least. The random streams of the hosts are numbered from
/// `stream` on.
pub fn all_to_all(
    template: FlowRequest,
    hosts: Vec<u32>,
    plan: Plan,
    (seed, run, stream): (u64, u64, u64),
) -> Workload {
    let hosts: Arc<[u32]> = hosts.into();
    let app = |place: usize| {
        let mut host = Host {
            template: template.clone(),
            hosts: hosts.clone(),
            plan,
            rng: Stream::new(seed, run, Entity::Workload, stream + place as u64),
            place,
            repetition: Repetition::first(hosts.len() as u32, plan.repetitions),
            order: Vec::new(),
            begin: Time::NEVER,
            begun: 0,
            complete: BTreeMap::new(),
            unacknowledged: 0,
            over: false,
        };
        host.again(plan.start);
        host
    };
    let mut tally = Tally::of(plan.repetitions);
    let mut apps: Vec<(u32, Box<dyn App>)> = Vec::with_capacity(hosts.len());
    for (place, host) in hosts.iter().enumerate() {
        let app = app(place);
        if place == 0 {
            tally.begin(0, app.block(plan.start));
        }
        apps.push((*host, Box::new(app)));
    }
    Workload::new(apps, tally).with_travel(plan.travel.then_some(template.protocol))
}

impl Host {
    /// Flows that it sends, and receives, in a repetition.
    fn flows(&self) -> usize {
        self.hosts.len() - 1
    }
    fn block(&self, started: Time) -> Block {
        let n = self.hosts.len() as u64;
        Block { started, parts: n, bytes: n * (n - 1) * self.template.bytes, bus: None }
    }
    /// A repetition begins.
    fn again(&mut self, at: Time) {
        self.begun = 0;
        if self.plan.random {
            self.order = (1..self.hosts.len()).collect();
            self.rng.shuffle(&mut self.order);
        }
        self.begin = at + self.rng.dur_below(self.plan.spread);
    }
    fn open(&mut self, actions: &mut Actions) {
        let (n, turn) = (self.hosts.len(), self.begun);
        if turn == self.flows() {
            return;
        }
        self.begun += 1;
        self.unacknowledged += 1;
        let away = if self.plan.random { self.order[turn] } else { turn + 1 };
        let (src, dst) = (self.hosts[self.place], self.hosts[(self.place + away) % n]);
        let tag = self.repetition.number() << 32 | self.place as u64;
        actions.open(FlowRequest { src, dst, close: true, tag, ..self.template.clone() });
    }
    /// A flow of a repetition is complete: one that it received, or with instant requests one that it sent.
    fn on_complete(&mut self, repetition: u64, actions: &mut Actions) {
        *self.complete.entry(repetition).or_default() += 1;
        self.finish(actions);
    }
    fn finish(&mut self, actions: &mut Actions) {
        let number = self.repetition.number();
        if self.complete.get(&number) == Some(&self.flows()) {
            self.complete.remove(&number);
            self.over = self.repetition.is_last();
            self.repetition.finish(actions);
        }
    }
    /// Its last acknowledgement ends it.
    fn end(&self, actions: &mut Actions) {
        if self.over && self.begun == self.flows() && self.unacknowledged == 0 {
            actions.push(Action::Done);
        }
    }
}

impl App for Host {
    fn next_event(&self) -> Time {
        self.begin
    }
    fn on_timer(&mut self, _: Time, actions: &mut Actions) {
        self.begin = Time::NEVER;
        (0..self.plan.window.min(self.flows())).for_each(|_| self.open(actions));
    }
    fn on_acked(&mut self, _: Time, write: &Written, actions: &mut Actions) {
        self.unacknowledged -= 1;
        if !self.plan.travel {
            self.open(actions);
            self.on_complete(write.tag >> 32, actions);
        }
        self.end(actions);
    }
    fn on_delivered(&mut self, _: Time, write: &Written, actions: &mut Actions) {
        if self.plan.travel {
            let (repetition, sender) = (write.tag >> 32, write.tag as u32);
            actions.send(sender, RECEIVED, repetition);
            self.on_complete(repetition, actions);
            self.end(actions);
        }
    }
    fn on_message(&mut self, now: Time, message: &Message, actions: &mut Actions) {
        if self.repetition.on_message(message, actions) {
            if self.place == 0 {
                actions.push(Action::Begin(self.repetition.number(), self.block(now)));
            }
            self.again(now);
            self.finish(actions);
        } else if message.kind == RECEIVED && message.word == self.repetition.number() {
            self.open(actions);
        }
    }
    fn work(&self) -> (u64, u64) {
        let each = self.flows() as u64;
        let under_way = if self.over { each } else { self.begun as u64 };
        (self.repetition.number() * each + under_way, self.plan.repetitions.saturating_mul(each))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::dispatch::{AppId, Applications, Call};
    use penstock_core::FlowId;
    use std::collections::VecDeque;

    type Ran = (Vec<(u32, u32)>, usize, Vec<(Time, u64)>, bool);

    /// Runs the workload with every flow complete a microsecond after the one before it. Answers every flow in the order of its begin, the most that are
    /// open per host, start and bytes of the blocks, and whether all was done at the end.
    fn run(window: usize, random: bool, repetitions: u64) -> Ran {
        let start = Time::ZERO + Dur::micros(5);
        let plan = Plan { start, spread: Dur::ZERO, window, random, repetitions, travel: false };
        let workload = all_to_all(FlowRequest::new(0, 0, 100), (10..15).collect(), plan, (1, 0, 0));
        let mut apps = Applications::new(vec![workload], Dur::ZERO);
        let (mut flows, mut most, mut blocks) = (Vec::new(), 0, Vec::new());
        let mut open: VecDeque<Written> = VecDeque::new();
        let (mut now, mut calls, mut stopped) = (Time::ZERO, VecDeque::new(), false);
        loop {
            let mut due = Vec::new();
            apps.take_due(now, &mut due);
            calls.extend(due.into_iter().map(|due| (due.id, due.call)));
            let Some((id, call)) = calls.pop_front() else {
                if apps.next() != Time::NEVER && !stopped {
                    now = now.max(apps.next());
                } else if let Some(write) = open.pop_front() {
                    now = now + Dur::micros(1);
                    calls.push_back((apps.at(0, write.src).unwrap(), Call::Acked(write)));
                } else {
                    return (flows, most, blocks, stopped);
                }
                continue;
            };
            apps.call(id, now, &call);
            for action in apps.actions().take() {
                match action {
                    Action::Open(r) => {
                        flows.push((r.src, r.dst));
                        open.push_back(Written {
                            flow: FlowId(0),
                            src: r.src,
                            dst: r.dst,
                            tag: r.tag,
                            bytes: 100,
                        });
                        most = most.max(open.iter().filter(|w| w.src == r.src).count());
                    }
                    Action::Send(to, message) => _ = apps.send(0, now, (to, message), |_, _, _| Dur::ZERO),
                    Action::Begin(number, block) => apps.tally(0).begin(number, block),
                    Action::Part(number) => {
                        blocks.extend(apps.tally(0).part(number).map(|block| (block.started, block.bytes)));
                    }
                    Action::Done => {
                        apps.done(id, now);
                        stopped = apps.is_over(now);
                    }
                    other => panic!("{other:?}"),
                }
            }
            apps.arm(id);
            let told = std::iter::from_fn(|| apps.next_at_once());
            let told: Vec<(AppId, Call)> = told.map(|(id, message)| (id, Call::Message(message))).collect();
            calls.extend(told);
        }
    }

    #[test]
    fn every_host_sends_to_every_other_once_and_in_turn() {
        let (flows, most, blocks, stopped) = run(1, false, 1);
        let expected: Vec<(u32, u32)> =
            (1..5).flat_map(|away| (0..5).map(move |i| (10 + i, 10 + (i + away) % 5))).collect();
        assert_eq!((flows, most, stopped), (expected, 1, true));
        assert_eq!(blocks, [(Time::ZERO + Dur::micros(5), 2000)]);
    }
    #[test]
    fn a_window_is_filled_and_not_exceeded() {
        for (window, random) in [(3, false), (3, true), (9, true)] {
            let (mut flows, most, blocks, stopped) = run(window, random, 2);
            assert_eq!((flows.len(), most, blocks.len(), stopped), (40, window.min(4), 2, true));
            flows.sort_unstable();
            flows.dedup();
            assert_eq!(flows.len(), 20);
            assert!(flows.iter().all(|(a, b)| a != b));
        }
    }
}
