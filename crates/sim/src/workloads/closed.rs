//! Closed loop: every source has one flow at a time; the next begins when word has come back that the receiver has it, which takes the
//! idle delay of the path. With instant requests it begins with the last acknowledgement.

use super::sizes::Sizes;
use super::{Acked, Actions, FlowRequest, Pairs, Workload};
use penstock_core::rng::Entity;
use penstock_core::Stream;
use penstock_units::{Dur, Time};
use std::collections::BTreeSet;

/// Sources that send flow after flow, each on its own connection.
pub struct Closed {
    /// Protocol and class of every flow.
    template: FlowRequest,
    sources: Vec<Source>,
    sizes: Sizes,
    think: Dur,
    travel: bool,
    deadline: Option<Dur>,
    /// Flows still to be begun.
    left: u64,
    /// When which source begins its next flow.
    ready: BTreeSet<(Time, usize)>,
}

struct Source {
    pairs: Pairs,
    rng: Stream,
}

/// What every source does.
#[derive(Clone, Copy, Debug)]
pub struct Loop {
    /// First flows begin here plus U(0, `spread`).
    pub start: Time,
    /// Spread of the first flows.
    pub spread: Dur,
    /// From the end of a flow to the next of its source.
    pub think: Dur,
    /// Flows should be complete so long after they begin.
    pub deadline: Option<Dur>,
    /// Flows in all.
    pub count: u64,
    /// The receiver says that it has a flow, and its word takes the idle delay of the path.
    pub travel: bool,
}

impl Closed {
    /// One source per entry of `sources`; their random streams are numbered from `stream` on.
    pub fn new(
        template: FlowRequest,
        sources: Vec<Pairs>,
        sizes: Sizes,
        plan: Loop,
        (seed, run, stream): (u64, u64, u64),
    ) -> Closed {
        let mut ready = BTreeSet::new();
        let sources: Vec<Source> = sources
            .into_iter()
            .enumerate()
            .map(|(i, pairs)| {
                let mut rng = Stream::new(seed, run, Entity::Workload, stream + i as u64);
                ready.insert((plan.start + rng.dur_below(plan.spread), i));
                Source { pairs, rng }
            })
            .collect();
        Closed {
            template,
            sources,
            sizes,
            think: plan.think,
            travel: plan.travel,
            deadline: plan.deadline,
            left: plan.count,
            ready,
        }
    }
}

impl Workload for Closed {
    fn next_event(&self) -> Time {
        if self.left == 0 {
            return Time::NEVER;
        }
        self.ready.first().map_or(Time::NEVER, |r| r.0)
    }
    fn on_event(&mut self, now: Time, actions: &mut Actions) {
        while self.next_event() <= now {
            let (_, i) = self.ready.pop_first().expect("next_event saw one");
            let source = &mut self.sources[i];
            let (src, dst) = source.pairs.draw(&mut source.rng);
            let bytes = self.sizes.draw(&mut source.rng);
            let due = self.deadline.map_or(Time::NEVER, |d| now + d);
            actions.open(FlowRequest {
                src,
                dst,
                bytes,
                due,
                close: true,
                tag: i as u64,
                ..self.template.clone()
            });
            self.left -= 1;
        }
    }
    fn on_acked(&mut self, now: Time, acked: &Acked, _actions: &mut Actions) {
        if !self.travel {
            self.ready.insert((now + self.think, acked.tag as usize));
        }
    }
    fn hears_deliveries(&self) -> bool {
        self.travel
    }
    fn on_delivered(
        &mut self,
        now: Time,
        delivered: &Acked,
        back: &mut dyn FnMut() -> Dur,
        _actions: &mut Actions,
    ) {
        if self.travel {
            self.ready.insert((now + back() + self.think, delivered.tag as usize));
        }
    }
}
