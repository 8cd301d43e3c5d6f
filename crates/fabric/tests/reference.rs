//! A port against a naive model of itself: explicit events, every packet looked at every time. Same departures, same losses, same
//! statistics, for every scheduler, with pauses, trimming and limits, and whatever the order of simultaneous calls.

use penstock_core::rng::Entity;
use penstock_core::Stream;
use penstock_fabric::{
    Arena, Cell, ClassConfig, Effects, Offered, Port, PortConfig, Scheduler, Service, Trim,
};
use penstock_units::{Dur, Rate, Time};
use proptest::prelude::*;

/// 8 Gb/s: a byte takes a nanosecond.
const RATE: Rate = Rate(8_000_000_000);
const NS: u64 = 1000;
const FRAMING: u32 = 3;
const HEADER: u32 = 2;

#[derive(Clone, Copy, Debug)]
enum Input {
    Packet { bytes: u32, priority: u8, rank: u32, flow: u32 },
    Pause { priority: u8, on: bool },
}

#[derive(Clone, Debug)]
struct Case {
    scheduler: Option<Scheduler>,
    delay: u64,
    limit_packets: u32,
    limit_bytes: u64,
    class_limit: u32,
    trim: Option<Trim>,
    /// Time since the one before, in ns.
    inputs: Vec<(u64, Input)>,
    /// Which of an input and an event at the same instant comes first.
    events_first: bool,
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    id: u32,
    bytes: u32,
    priority: u8,
    rank: u32,
    flow: u32,
    arrived: u64,
    payload: bool,
}

/// What a model of a port says about a case.
#[derive(Default, Debug, PartialEq)]
struct Outcome {
    /// Packets at the other end: number, bytes, priority, time.
    delivered: Vec<(u32, u32, u8, u64)>,
    lost: Vec<u32>,
    trimmed: Vec<u32>,
    queue_max: u32,
    /// Integral of the packets in the port until the last delivery.
    integral: u128,
}

#[derive(Default)]
struct Naive {
    waiting: Vec<Packet>,
    serving: Option<(Packet, u64)>,
    paused: u8,
    turn: Vec<u8>,
    deficit: [u64; 8],
    /// Priorities that have had the quantum of their turn; a pause does not give another one.
    granted: [bool; 8],
    last: u64,
    out: Outcome,
}

impl Naive {
    fn held(&self) -> impl Iterator<Item = &Packet> {
        self.waiting.iter().chain(self.serving.iter().map(|s| &s.0))
    }
    fn at(&mut self, t: u64) {
        self.out.integral += u128::from(t - self.last) * self.held().count() as u128;
        self.last = t;
    }
    fn choose(&mut self, case: &Case) -> Option<usize> {
        let open = |p: &Packet| self.paused & (1 << p.priority) == 0;
        let first = |p: u8| self.waiting.iter().position(|w| w.priority == p);
        match case.scheduler.unwrap_or_default() {
            Scheduler::Fifo => self.waiting.iter().position(open),
            Scheduler::Strict => (0..8)
                .rev()
                .find(|p| self.waiting.iter().any(|w| w.priority == *p && open(w)))
                .and_then(first),
            Scheduler::Rank => {
                let best = self.waiting.iter().filter(|w| open(w)).map(|w| w.rank).min()?;
                let flow = self.waiting.iter().find(|w| open(w) && w.rank == best)?.flow;
                self.waiting.iter().position(|w| open(w) && w.flow == flow)
            }
            Scheduler::Drr(quanta) => {
                if !self.waiting.iter().any(open) {
                    return None;
                }
                loop {
                    let p = self.turn[0];
                    if self.paused & (1 << p) == 0 {
                        if !std::mem::replace(&mut self.granted[usize::from(p)], true) {
                            self.deficit[usize::from(p)] += u64::from(quanta[usize::from(p)]);
                        }
                        let at = first(p).unwrap();
                        if u64::from(self.waiting[at].bytes) <= self.deficit[usize::from(p)] {
                            self.deficit[usize::from(p)] -= u64::from(self.waiting[at].bytes);
                            return Some(at);
                        }
                        self.granted[usize::from(p)] = false;
                    }
                    self.turn.rotate_left(1);
                }
            }
        }
    }
    fn leave(&mut self, at: usize) -> Packet {
        let p = self.waiting.remove(at);
        if !self.waiting.iter().any(|w| w.priority == p.priority) {
            self.granted[usize::from(p.priority)] = false;
            self.turn.retain(|t| *t != p.priority);
            self.deficit[usize::from(p.priority)] = 0;
        }
        p
    }
    fn serve(&mut self, t: u64, case: &Case) {
        if self.serving.is_none() {
            if let Some(at) = self.choose(case) {
                let p = self.leave(at);
                self.serving = Some((p, t + u64::from(p.bytes + FRAMING) * NS));
            }
        }
    }
    fn fits(
        &self,
        case: &Case,
        bytes: u32,
        priority: u8,
        without: Option<u32>,
        with: Option<(u32, u8)>,
    ) -> bool {
        let held: Vec<(u32, u8)> = self
            .held()
            .filter(|p| Some(p.id) != without)
            .map(|p| (p.bytes, p.priority))
            .chain(with)
            .collect();
        let classed = case.scheduler.is_some();
        held.len() < case.limit_packets as usize
            && held.iter().map(|h| u64::from(h.0)).sum::<u64>() + u64::from(bytes) <= case.limit_bytes
            && (!classed || held.iter().filter(|h| h.1 == priority).count() < case.class_limit as usize)
    }
    fn push(&mut self, p: Packet) {
        if !self.turn.contains(&p.priority) {
            self.turn.push(p.priority);
        }
        self.waiting.push(p);
    }
    fn arrive(&mut self, mut p: Packet, case: &Case) {
        if case.scheduler == Some(Scheduler::Rank) {
            while !self.fits(case, p.bytes, p.priority, None, None) {
                let Some(worst) = self.waiting.iter().map(|w| w.rank).max().filter(|w| *w > p.rank) else {
                    break;
                };
                let at = self.waiting.iter().rposition(|w| w.rank == worst).unwrap();
                let lost = self.leave(at);
                self.out.lost.push(lost.id);
            }
        }
        if !self.fits(case, p.bytes, p.priority, None, None) {
            let trim = case.trim.filter(|_| case.scheduler.is_some() && p.bytes > HEADER);
            let Some(trim) = trim else {
                self.out.lost.push(p.id);
                return;
            };
            let last = self.waiting.iter().rposition(|w| w.priority == p.priority && w.payload);
            let header = Some((HEADER, trim.priority));
            if let Some(at) = last.filter(|at| {
                let id = Some(self.waiting[*at].id);
                trim.tail == 1.0
                    && self.waiting[*at].bytes > HEADER
                    && self.fits(case, HEADER, trim.priority, id, None)
                    && self.fits(case, p.bytes, p.priority, id, header)
            }) {
                let mut cut = self.leave(at);
                (cut.bytes, cut.priority, cut.payload) = (HEADER, trim.priority, false);
                self.out.trimmed.push(cut.id);
                self.push(cut);
            } else if self.fits(case, HEADER, trim.priority, None, None) {
                (p.bytes, p.priority, p.payload) = (HEADER, trim.priority, false);
                self.out.trimmed.push(p.id);
            } else {
                self.out.lost.push(p.id);
                return;
            }
        }
        self.push(p);
        let held = self.held().count() as u32;
        self.out.queue_max = self.out.queue_max.max(held);
    }
    fn run(mut self, case: &Case) -> Outcome {
        let (mut t, mut id) = (0, 0);
        let mut inputs = Vec::new();
        for (gap, input) in &case.inputs {
            t += gap * NS;
            inputs.push((t, *input));
        }
        // At the end all priorities go on, so that everything leaves.
        inputs.extend((0..8).map(|priority| (t + 50_000 * NS, Input::Pause { priority, on: false })));
        let mut inputs = inputs.into_iter().peekable();
        loop {
            let finish = self.serving.map_or(u64::MAX, |s| s.1);
            let next = inputs.peek().map_or(u64::MAX, |i| i.0);
            if finish.min(next) == u64::MAX {
                assert!(self.waiting.is_empty());
                return self.out;
            }
            // Departures first.
            if finish <= next {
                self.at(finish);
                let (p, at) = self.serving.take().unwrap();
                self.out.delivered.push((p.id, p.bytes, p.priority, at + case.delay));
                self.serve(finish, case);
                continue;
            }
            self.at(next);
            match inputs.next().unwrap().1 {
                Input::Packet { bytes, priority, rank, flow } => {
                    let p = Packet { id, bytes, priority, rank, flow, arrived: next, payload: true };
                    debug_assert!(p.arrived >= self.last);
                    id += 1;
                    self.arrive(p, case);
                }
                Input::Pause { priority, on: true } => self.paused |= 1 << priority,
                Input::Pause { priority, on: false } => self.paused &= !(1 << priority),
            }
            self.serve(next, case);
        }
    }
}

/// The port itself, driven as an engine would: one event per packet, and calls only where something happens to it.
fn run_port(case: &Case) -> Outcome {
    let class = || ClassConfig { limit_packets: case.class_limit, ..ClassConfig::default() };
    let service = case.scheduler.map(|scheduler| {
        Box::new(Service {
            scheduler,
            classes: std::array::from_fn(|_| class()),
            trim: case.trim,
            ..Service::default()
        })
    });
    let config = PortConfig {
        limit_packets: case.limit_packets,
        limit_bytes: case.limit_bytes,
        framing: FRAMING,
        service,
        measured: true,
        ..PortConfig::plain(RATE, Dur(case.delay), Stream::new(1, 0, Entity::Port, 0))
    };
    let mut port = Port::new(0, config).unwrap();
    let (mut seg, mut fx) = (Arena::new(false), Effects::default());
    let mut out = Outcome::default();
    let mut inputs = Vec::new();
    let mut t = 0;
    for (gap, input) in &case.inputs {
        t += gap * NS;
        inputs.push((t, *input));
    }
    inputs.extend((0..8).map(|priority| (t + 50_000 * NS, Input::Pause { priority, on: false })));
    let mut inputs = inputs.into_iter().peekable();
    let mut event: Option<Time> = None;
    let mut id = 0;
    loop {
        let next = inputs.peek().map_or(u64::MAX, |i| i.0);
        let due = event.map_or(u64::MAX, |t| t.0);
        if next.min(due) == u64::MAX {
            break;
        }
        if due < next || (due == next && case.events_first) {
            let now = event.take().unwrap();
            let arrival = port.arrive(now, &mut seg, &mut fx);
            let cell = arrival.packet().expect("an announced packet arrives");
            out.delivered.push((cell.packet, cell.bytes, cell.priority(), now.0));
            event = Some(arrival.next).filter(|t| *t != Time::NEVER);
        } else {
            let (at, input) = inputs.next().unwrap();
            match input {
                Input::Packet { bytes, priority, rank, flow } => {
                    let cell =
                        Cell::new(id, bytes).with_priority(priority).with_payload().with_rank(rank, flow);
                    // Slots are not used again, so the number of the packet is its slot.
                    assert_eq!(seg.alloc(), id);
                    seg.packets[id as usize].flow = flow;
                    match port.offer(Time(at), cell, &mut seg, &mut fx) {
                        Offered::Queued(head) | Offered::Trimmed(head) => event = event.or(head),
                        Offered::Dropped(_) => out.lost.push(id),
                    }
                    id += 1;
                }
                // A plain port is not paused here: it would become one that schedules.
                Input::Pause { .. } if case.scheduler.is_none() => {}
                Input::Pause { priority, on } => port.pause(Time(at), priority, on, &mut seg, &mut fx),
            }
        }
        out.lost.extend(fx.lost.iter().map(|l| l.cell.packet));
        out.trimmed.extend(fx.trimmed.iter().map(|t| t.0));
        assert!(fx.heads.len() <= 1 && (fx.heads.is_empty() || event.is_none()), "one event for each port");
        event = event.or(fx.heads.first().map(|h| h.0));
        fx.clear();
    }
    let end = Time(out.delivered.last().map_or(0, |d| d.3).max(t + 50_000 * NS));
    port.settle(end, &mut seg, &mut fx);
    let stats = port.stats();
    out.queue_max = stats.queue_max;
    out.integral = stats.sojourn;
    assert_eq!(stats.arrived_packets, stats.departed_packets + stats.drops.iter().sum::<u64>());
    assert_eq!(stats.departed_packets as usize, out.delivered.len());
    assert_eq!(stats.trims as usize, out.trimmed.len());
    assert_eq!((port.packets_held(), port.queue_packets(), port.queue_bytes()), (0, 0, 0));
    let running = stats.queue_integral;
    assert!((running - out.integral as f64).abs() <= 1e-9 * running.max(1.0), "{running} {}", out.integral);
    if let Some(classes) = port.class_stats() {
        assert_eq!(classes.iter().map(|c| c.departed_packets).sum::<u64>(), stats.departed_packets);
        assert_eq!(classes.iter().map(|c| c.drops).sum::<u64>(), out.lost.len() as u64);
    }
    out
}

fn inputs(packets_only: bool) -> impl Strategy<Value = Vec<(u64, Input)>> {
    // A coarse grid of times and sizes: many things happen at one instant.
    let packet = (1u32..12, 0u8..8, 0u32..5, 0u32..3).prop_map(|(n, priority, rank, flow)| Input::Packet {
        bytes: 4 * n - FRAMING,
        priority,
        rank,
        flow,
    });
    let pause = (0u8..8, any::<bool>()).prop_map(|(priority, on)| Input::Pause { priority, on });
    let input = if packets_only { packet.boxed() } else { prop_oneof![5 => packet, 1 => pause].boxed() };
    prop::collection::vec(((0u64..12).prop_map(|g| 4 * g), input), 1..150)
}

fn scheduler() -> impl Strategy<Value = Scheduler> {
    prop_oneof![
        Just(Scheduler::Fifo),
        Just(Scheduler::Strict),
        Just(Scheduler::Rank),
        prop::array::uniform8(1u32..60).prop_map(Scheduler::Drr),
    ]
}

fn delay() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), (0u64..40).prop_map(|d| 4 * d * NS), Just(1_000_000 * NS)]
}

fn compare(case: &Case) -> Result<(), TestCaseError> {
    let (mut expected, mut found) = (Naive::default().run(case), run_port(case));
    for out in [&mut expected, &mut found] {
        out.lost.sort_unstable();
        out.trimmed.sort_unstable();
    }
    prop_assert_eq!(expected, found);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_plain_port_is_a_fifo(inputs in inputs(true), delay in delay(), packets in 1u32..20, bytes in 30u64..400,
                              events_first in any::<bool>()) {
        compare(&Case { scheduler: None, delay, limit_packets: packets, limit_bytes: bytes, class_limit: u32::MAX,
                        trim: None, inputs, events_first })?;
    }
    #[test]
    fn every_scheduler_decides_as_if_it_had_events_of_its_own(
        inputs in inputs(false), scheduler in scheduler(), delay in delay(), packets in 1u32..20, bytes in 30u64..400,
        class_limit in 1u32..10, trim in any::<bool>(), tail in any::<bool>(), to in 0u8..8, events_first in any::<bool>(),
    ) {
        let tail = if tail { 1.0 } else { 0.0 };
        let trim = trim.then_some(Trim { bytes: HEADER, priority: to, tail });
        let trim = trim.filter(|_| scheduler != Scheduler::Rank);
        compare(&Case { scheduler: Some(scheduler), delay, limit_packets: packets, limit_bytes: bytes, class_limit, trim,
                        inputs, events_first })?;
    }
}

#[test]
fn strict_priority_by_hand() {
    // 1 ns per byte, packets of 97 + 3 bytes: 100 ns each. At 0: a (0) starts at once. At 10: b (0), at 20: c (7), at 30: d (3).
    // a leaves at 100, then c, d, b. At 300, when d's successor b starts, e (7) comes: the choice of b was made before.
    let packet = |gap: u64, priority| (gap, Input::Packet { bytes: 97, priority, rank: 0, flow: 0 });
    let case = Case {
        scheduler: Some(Scheduler::Strict),
        delay: 5 * NS,
        limit_packets: 100,
        limit_bytes: 10_000,
        class_limit: 100,
        trim: None,
        inputs: vec![packet(0, 0), packet(10, 0), packet(10, 7), packet(10, 3), packet(270, 7)],
        events_first: true,
    };
    let at = |id, priority, ns: u64| (id, 97, priority, (ns + 5) * NS);
    let expected = [at(0, 0, 100), at(2, 7, 200), at(3, 3, 300), at(1, 0, 400), at(4, 7, 500)];
    assert_eq!(run_port(&case).delivered, expected);
}
