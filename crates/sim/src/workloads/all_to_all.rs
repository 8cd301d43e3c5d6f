//! All-to-all: every host sends to every other, with so many flows of a host open at once.

use super::{Acked, Action, Actions, FlowRequest, Workload};
use penstock_core::Stream;
use penstock_units::{Dur, Time};
use std::collections::BTreeSet;

/// One all-to-all after the other.
pub struct AllToAll {
    /// Protocol, class and bytes of every flow.
    template: FlowRequest,
    hosts: Vec<u32>,
    plan: Plan,
    rng: Stream,
    /// Flows begun by each host, and where each host sends in which order (positions; empty = in turn).
    begun: Vec<usize>,
    orders: Vec<Vec<usize>>,
    /// When which host may begin its next flow.
    ready: BTreeSet<(Time, usize)>,
    outstanding: u64,
    started: Time,
    done: u64,
}

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
}

impl AllToAll {
    /// Flows like `template` between all of `hosts`, of which there are two at least.
    pub fn new(template: FlowRequest, hosts: Vec<u32>, plan: Plan, rng: Stream) -> AllToAll {
        let n = hosts.len();
        let mut all = AllToAll {
            template,
            hosts,
            plan,
            rng,
            begun: vec![0; n],
            orders: Vec::new(),
            ready: BTreeSet::new(),
            outstanding: 0,
            started: Time::ZERO,
            done: 0,
        };
        all.again(plan.start);
        all
    }
    fn again(&mut self, at: Time) {
        let n = self.hosts.len();
        self.started = at;
        self.outstanding = n as u64 * (n as u64 - 1);
        self.begun = vec![0; n];
        if self.plan.random {
            let rng = &mut self.rng;
            self.orders = (0..n)
                .map(|_| {
                    let mut order: Vec<usize> = (1..n).collect();
                    rng.shuffle(&mut order);
                    order
                })
                .collect();
        }
        for host in 0..n {
            self.ready.insert((at + self.rng.dur_below(self.plan.spread), host));
        }
    }
    fn open(&mut self, host: usize, actions: &mut Actions) {
        let n = self.hosts.len();
        let turn = self.begun[host];
        if turn == n - 1 {
            return;
        }
        self.begun[host] += 1;
        let away = if self.plan.random { self.orders[host][turn] } else { turn + 1 };
        let (src, dst) = (self.hosts[host], self.hosts[(host + away) % n]);
        actions.open(FlowRequest { src, dst, close: true, tag: host as u64, ..self.template.clone() });
    }
}

impl Workload for AllToAll {
    fn next_event(&self) -> Time {
        self.ready.first().map_or(Time::NEVER, |r| r.0)
    }
    fn on_event(&mut self, now: Time, actions: &mut Actions) {
        while self.next_event() <= now {
            let Some((_, host)) = self.ready.pop_first() else { return };
            for _ in 0..self.plan.window.min(self.hosts.len() - 1) {
                self.open(host, actions);
            }
        }
    }
    fn work(&self) -> Option<(u64, u64)> {
        let n = self.hosts.len() as u64;
        let (each, left) = (n * (n - 1), self.outstanding);
        let under_way = if self.done < self.plan.repetitions { each - left } else { 0 };
        Some((self.done * each + under_way, self.plan.repetitions.checked_mul(each)?))
    }
    fn on_acked(&mut self, now: Time, acked: &Acked, actions: &mut Actions) {
        self.outstanding -= 1;
        self.open(acked.tag as usize, actions);
        if self.outstanding > 0 {
            return;
        }
        let n = self.hosts.len() as u64;
        actions.push(Action::Block { started: self.started, bytes: n * (n - 1) * self.template.bytes });
        self.done += 1;
        if self.done < self.plan.repetitions {
            self.again(now);
        } else {
            actions.push(Action::Stop);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_core::rng::Entity;
    use penstock_core::FlowId;

    /// Every flow in the order of its begin when each is complete a microsecond after the one before it; most open per host;
    /// what else it did.
    fn run(window: usize, random: bool, repetitions: u64) -> (Vec<(u32, u32)>, usize, Vec<Action>) {
        let plan =
            Plan { start: Time::ZERO + Dur::micros(5), spread: Dur::ZERO, window, random, repetitions };
        let rng = Stream::new(1, 0, Entity::Workload, 0);
        let mut w = AllToAll::new(FlowRequest::new(0, 0, 100), (10..15).collect(), plan, rng);
        let (mut flows, mut most, mut other) = (Vec::new(), 0, Vec::new());
        let mut open = std::collections::VecDeque::new();
        let mut now = Time::ZERO;
        loop {
            let mut actions = Actions::default();
            if w.next_event() != Time::NEVER {
                now = now.max(w.next_event());
                w.on_event(now, &mut actions);
            } else if let Some(tag) = open.pop_front() {
                now = now + Dur::micros(1);
                w.on_acked(now, &Acked { flow: FlowId(0), tag, started: now, bytes: 100 }, &mut actions);
            } else {
                return (flows, most, other);
            }
            for action in actions.take() {
                match action {
                    Action::Open(r) => {
                        flows.push((r.src, r.dst));
                        open.push_back(r.tag);
                        most = most.max(open.iter().filter(|t| **t == r.tag).count());
                    }
                    action => other.push(action),
                }
            }
        }
    }

    #[test]
    fn every_host_sends_to_every_other_once_and_in_turn() {
        let (flows, most, other) = run(1, false, 1);
        let expected: Vec<(u32, u32)> =
            (1..5).flat_map(|away| (0..5).map(move |i| (10 + i, 10 + (i + away) % 5))).collect();
        assert_eq!((flows, most), (expected, 1));
        // The last of the twenty is complete twenty microseconds after the start.
        let start = Time::ZERO + Dur::micros(5);
        assert!(
            matches!(other[..], [Action::Block { started, bytes: 2000 }, Action::Stop] if started == start)
        );
    }
    #[test]
    fn a_window_is_filled_and_not_exceeded() {
        for (window, random) in [(3, false), (3, true), (9, true)] {
            let (mut flows, most, other) = run(window, random, 2);
            assert_eq!((flows.len(), most, other.len()), (40, window.min(4), 3));
            flows.sort_unstable();
            flows.dedup();
            assert_eq!(flows.len(), 20);
            assert!(flows.iter().all(|(a, b)| a != b));
        }
    }
}
