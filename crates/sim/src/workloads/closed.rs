//! Closed loop: every source has one flow at a time. The next begins when word has come back that the receiver has it, which takes the
//! idle delay of the path. With instant requests it begins with the last acknowledgement.

use super::sizes::Sizes;
use super::{Actions, App, FlowRequest, Message, Pairs, Tally, Workload, Written};
use penstock_core::rng::Entity;
use penstock_core::Stream;
use penstock_units::{Dur, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

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
    /// Flows in all, divided evenly among the sources beforehand; what is left over goes to the first of them, one each.
    pub count: u64,
    /// The receiver says that it has a flow, and its word takes the idle delay of the path.
    pub travel: bool,
}

/// A host with its sources, which may be none: then it only receives.
struct Host {
    /// Protocol and class of every flow.
    template: FlowRequest,
    sizes: Arc<Sizes>,
    plan: Loop,
    place: u64,
    sources: Vec<Source>,
}

struct Source {
    pairs: Pairs,
    rng: Stream,
    /// Flows still to be begun.
    left: u64,
    /// When it begins the next; [`Time::NEVER`] while one is open.
    ready: Time,
}

/// Sources that send flow after flow, each on its own connection: a source per entry of `sources`, with its own host as the sender. Their
/// random streams are numbered from `stream` on.
pub fn closed(
    template: FlowRequest,
    sources: Vec<(u32, Pairs)>,
    sizes: Sizes,
    plan: Loop,
    (seed, run, stream): (u64, u64, u64),
) -> Workload {
    let (sizes, n) = (Arc::new(sizes), sources.len() as u64);
    let receivers: Vec<u32> = sources.first().map_or(Vec::new(), |(_, pairs)| pairs.to.to_vec());
    let mut hosts: Vec<(u32, Vec<Source>)> = Vec::new();
    let mut places: BTreeMap<u32, usize> = BTreeMap::new();
    let mut place = |host: u32, hosts: &mut Vec<(u32, Vec<Source>)>| {
        *places.entry(host).or_insert_with(|| {
            hosts.push((host, Vec::new()));
            hosts.len() - 1
        })
    };
    for (i, (host, pairs)) in (0u64..).zip(sources) {
        let mut rng = Stream::new(seed, run, Entity::Workload, stream + i);
        let ready = plan.start + rng.dur_below(plan.spread);
        let left =
            if plan.count == u64::MAX { u64::MAX } else { plan.count / n + u64::from(i < plan.count % n) };
        let at = place(host, &mut hosts);
        hosts[at].1.push(Source { pairs, rng, left, ready });
    }
    for receiver in receivers {
        place(receiver, &mut hosts);
    }
    let apps = (0..).zip(hosts).map(|(place, (host, sources))| {
        let app = Host { template: template.clone(), sizes: sizes.clone(), plan, place, sources };
        (host, Box::new(app) as Box<dyn App>)
    });
    let travel = plan.travel.then_some(template.protocol);
    Workload::new(apps.collect(), Tally::default()).with_travel(travel)
}

impl Host {
    /// The flow of a source is over.
    fn on_complete(&mut self, now: Time, source: u64) {
        self.sources[source as usize].ready = now + self.plan.think;
    }
}

/// A flow's tag: place of its sender, and the source there.
fn split(tag: u64) -> (u32, u64) {
    ((tag >> 32) as u32, tag & u64::from(u32::MAX))
}

impl App for Host {
    fn next_event(&self) -> Time {
        self.sources.iter().filter(|s| s.left > 0).map(|s| s.ready).min().unwrap_or(Time::NEVER)
    }
    fn on_timer(&mut self, now: Time, actions: &mut Actions) {
        for (i, source) in (0u64..).zip(&mut self.sources) {
            if source.left == 0 || source.ready > now {
                continue;
            }
            let (src, dst) = source.pairs.draw(&mut source.rng);
            let bytes = self.sizes.draw(&mut source.rng);
            let due = self.plan.deadline.map_or(Time::NEVER, |d| now + d);
            let tag = self.place << 32 | i;
            actions.open(FlowRequest { src, dst, bytes, due, close: true, tag, ..self.template.clone() });
            (source.left, source.ready) = (source.left - 1, Time::NEVER);
        }
    }
    fn on_acked(&mut self, now: Time, write: &Written, _: &mut Actions) {
        if !self.plan.travel {
            self.on_complete(now, split(write.tag).1);
        }
    }
    fn on_delivered(&mut self, _: Time, write: &Written, actions: &mut Actions) {
        if self.plan.travel {
            let (sender, source) = split(write.tag);
            actions.send(sender, 0, source);
        }
    }
    fn on_message(&mut self, now: Time, word: &Message, _: &mut Actions) {
        self.on_complete(now, word.word);
    }
}
