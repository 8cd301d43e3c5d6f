//! Queues against queueing theory: Poisson arrivals at one port, alone and at the end of many TCP connections.
//!
//! Reference: Pollaczek and Khinchine, as in Kleinrock, Queueing Systems I (1975), section 5.7. With arrivals at rate
//! l, service times S and load r = l E[S] below 1, the mean number in an M/G/1 system is r + l^2 E[S^2] / (2 (1 - r)).
//! M/D/1: r + r^2 / (2 (1 - r)). M/M/1: r / (1 - r).
//!
//! A mean over runs is held against the theory by Student's t. Its 95 % interval must be narrow, or the comparison says
//! nothing; the theory must lie in the interval that a correct simulator misses once in 10^5 times. Seeds are fixed.

use penstock_core::rng::Entity;
use penstock_core::{FlowId, Stream};
use penstock_fabric::{Arena, Cell, Effects, Offered, Port};
use penstock_sim::document::resolve;
use penstock_sim::engine::{Engine, Progress};
use penstock_sim::results::summarise;
use penstock_sim::workloads::{Action, Actions, App, FlowRequest, Workload};
use penstock_units::{Dur, Time};
use serde_json::json;
use std::collections::VecDeque;

/// Independent runs of each case.
const RUNS: u64 = 24;
/// Student's t with 23 degrees of freedom: two-sided 95 %, and 1 - 10^-5.
const T95: f64 = 2.069;
const T_SURE: f64 = 5.69;

/// Holds a mean over runs against its theory: inside the interval of 1 - 10^-5, and the one of 95 % is not wider than
/// `width` of the mean either way.
fn agrees(what: &str, found: &[f64], theory: f64, width: f64) {
    let n = found.len() as f64;
    assert_eq!(found.len() as u64, RUNS, "t is for so many runs");
    let mean = found.iter().sum::<f64>() / n;
    let error = (found.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0) / n).sqrt();
    println!("{what}: {mean:.4} +- {:.4} (95 %), theory {theory:.4}", T95 * error);
    assert!(T95 * error < width * mean, "{what}: the interval {mean} +- {} is too wide", T95 * error);
    assert!(
        (mean - theory).abs() < T_SURE * error,
        "{what}: {mean} +- {} (95 %), but theory says {theory}",
        T95 * error
    );
}

/// Sizes on the wire.
#[derive(Clone, Copy)]
enum Sizes {
    /// All packets have so many bytes.
    Fixed(u32),
    /// So many fixed bytes and a geometric number of at least one, of that mean: exponential in whole bytes.
    Exponential { fixed: u32, mean: f64 },
}

impl Sizes {
    fn draw(self, rng: &mut Stream) -> u32 {
        match self {
            Sizes::Fixed(bytes) => bytes,
            Sizes::Exponential { fixed, mean } => {
                // P(X > k) = q^k for whole k
                let log_q = (1.0 - 1.0 / mean).ln();
                fixed + (rng.exponential(-1.0 / log_q).floor() as u32) + 1
            }
        }
    }
    /// First two moments, in bytes.
    fn moments(self) -> (f64, f64) {
        match self {
            Sizes::Fixed(bytes) => (f64::from(bytes), f64::from(bytes).powi(2)),
            Sizes::Exponential { fixed, mean } => {
                let c = f64::from(fixed);
                // geometric from 1: E[X] = m, E[X^2] = 2 m^2 - m
                (c + mean, c * c + 2.0 * c * mean + 2.0 * mean * mean - mean)
            }
        }
    }
    /// Pollaczek and Khinchine: mean number in the system at this load.
    fn in_system(self, load: f64) -> f64 {
        let (first, second) = self.moments();
        load + load * load * second / (first * first) / (2.0 * (1.0 - load))
    }
}

/// Rate of the port under test, and the picoseconds a byte takes there.
const RATE: &str = "100Mbps";
const PS_PER_BYTE: u64 = 80_000;
/// Payload of one packet, so large that a message is one packet.
const SEGMENT: u32 = 60_000;

/// Many senders behind fast links, one switch, one sink behind the port under test. Its SYNs pass during the warm-up.
fn network(senders: u32, warmup: f64, duration: f64, run: u64) -> (penstock_sim::setup::Setup, u32) {
    let text = format!(
        r#"
scenario = "custom"
protocol = "newreno"
segment = "{SEGMENT}B"
initial_window = 1000
warmup = "{warmup}s"
duration = "{duration}s"
send_jitter = "0s"
bottleneck = "s->sink"
hosts = ["h[0-{last}]", "sink"]
switches = ["s"]
[[link]]
between = ["h[0-{last}]", "s"]
rate = "1Tbps"
delay = "10us"
buffer = "1000000pkt"
[[link]]
between = ["s", "sink"]
rate = "{RATE}"
delay = "10us"
buffer = "1000000pkt"
[[workload]]
kind = "flows"
from = "h0"
to = "sink"
"#,
        last = senders - 1,
    );
    let resolved = resolve(&json!({ "toml": text, "seed": 1 }).to_string()).expect("the network is right");
    let setup = resolved.setup(run).expect("the network is right");
    let find = |name| setup.topology.find(name).expect("the node is there");
    let port = setup.topology.link_between(find("s"), find("sink")).expect("the link is there");
    (setup, port)
}

/// What one run of a port measures.
struct AtPort {
    /// Mean number in the port over time.
    over_time: f64,
    /// Mean number that an arriving packet finds.
    at_arrivals: f64,
    /// Mean time in the port, in mean service times, of the packets themselves.
    sojourn: f64,
    /// The mean number by Little's law, from the times in the port.
    by_little: f64,
}

/// Offers Poisson arrivals to a port, with no host and no protocol.
fn offer(port: &mut Port, sizes: Sizes, load: f64, packets: u64, run: u64) -> AtPort {
    let mut rng = Stream::new(1, run, Entity::Workload, 0);
    let service = sizes.moments().0 * PS_PER_BYTE as f64;
    let (mut arena, mut fx) = (Arena::new(false), Effects::default());
    let (mut now, mut next) = (0.0, None);
    let warmup = packets / 10;
    let (mut from, mut found, mut sojourn, mut free_at) = (0u64, 0u64, 0.0, 0u64);
    // When the packets that are in the port will have left it, and what is left of their time there.
    let mut leaving = VecDeque::new();
    let left = |leaving: &VecDeque<u64>, at: u64| leaving.iter().map(|f| (f - at) as f64).sum::<f64>();
    let mut at_start = 0.0;
    for n in 0..packets + warmup {
        now += rng.exponential(service / load);
        let at = Time(now as u64);
        while let Some(t) = next.filter(|t| *t <= at) {
            let arrival = port.arrive(t, &mut arena, &mut fx);
            next = Some(arrival.next).filter(|t| *t != Time::NEVER);
        }
        while leaving.front().is_some_and(|f| *f <= at.0) {
            leaving.pop_front();
        }
        if n == warmup {
            port.reset_stats(at, &mut arena, &mut fx);
            from = at.0;
            at_start = left(&leaving, at.0);
        }
        let wire_len = sizes.draw(&mut rng);
        port.advance(at, &mut arena, &mut fx);
        let queue = port.queue_packets();
        match port.offer(at, Cell::new(0, wire_len), &mut arena, &mut fx) {
            Offered::Queued(first) => next = next.or(first),
            other => panic!("an unlimited port did not queue: {other:?}"),
        }
        // Lindley's recursion, apart from the port's own clock.
        free_at = free_at.max(at.0) + u64::from(wire_len) * PS_PER_BYTE;
        leaving.push_back(free_at);
        if n >= warmup {
            found += u64::from(queue);
            sojourn += (free_at - at.0) as f64;
        }
    }
    let end = now as u64;
    port.settle(Time(end), &mut arena, &mut fx);
    let (length, count) = ((end - from) as f64, packets as f64);
    AtPort {
        over_time: port.stats().queue_integral / length,
        at_arrivals: found as f64 / count,
        sojourn: sojourn / count / service,
        // The packets of the two ends are inside the window with a part of their time only.
        by_little: (at_start + sojourn - left(&leaving, end)) / length,
    }
}

fn ports(name: &str, sizes: Sizes, load: f64, packets: u64, width: f64) {
    let runs: Vec<AtPort> = (0..RUNS)
        .map(|run| {
            let (setup, number) = network(2, 0.0, 1.0, run);
            offer(
                &mut setup.fabric().expect("ports").into_ports()[number as usize],
                sizes,
                load,
                packets,
                run,
            )
        })
        .collect();
    let theory = sizes.in_system(load);
    let of = |f: fn(&AtPort) -> f64| runs.iter().map(f).collect::<Vec<_>>();
    agrees(&format!("{name} {load}: mean over time"), &of(|r| r.over_time), theory, width);
    agrees(&format!("{name} {load}: what arrivals find"), &of(|r| r.at_arrivals), theory, width);
    agrees(&format!("{name} {load}: time in the port"), &of(|r| r.sojourn), theory / load, width);
    // Little's law holds in every single run: what the port integrates over time is what its packets spend there.
    for r in &runs {
        let error = (r.over_time / r.by_little - 1.0).abs();
        assert!(error < 1e-9, "{name} {load}: mean {}, by Little's law {}", r.over_time, r.by_little);
    }
}

/// Guards: the port's clock and its integrals, for packets of one size.
#[test]
fn m_d_1_at_a_port() {
    for (load, packets) in [(0.5, 100_000), (0.8, 200_000), (0.95, 800_000)] {
        ports("M/D/1", Sizes::Fixed(1500), load, packets, 0.03);
    }
}

/// Guards: the same for sizes that are exponential.
#[test]
fn m_m_1_at_a_port() {
    for (load, packets) in [(0.5, 100_000), (0.8, 300_000), (0.95, 1_000_000)] {
        ports("M/M/1", Sizes::Exponential { fixed: 0, mean: 10_000.0 }, load, packets, 0.04);
    }
}

/// Persistent connections with messages of one packet each, written at the times of a Poisson process.
struct Messages {
    senders: Vec<u32>,
    sink: u32,
    /// Payload.
    sizes: Sizes,
    mean_gap: f64,
    first: Time,
    flows: Vec<FlowId>,
    next: Time,
    rng: Stream,
}

impl App for Messages {
    fn next_event(&self) -> Time {
        self.next
    }
    fn on_timer(&mut self, now: Time, actions: &mut Actions) {
        if self.flows.is_empty() {
            let idle = |src: &u32| FlowRequest { close: false, ..FlowRequest::new(*src, self.sink, 0) };
            self.flows = self.senders.iter().map(|s| actions.open(idle(s))).collect();
            self.next = self.first;
            return;
        }
        while self.next <= now {
            let flow = self.flows[self.rng.below(self.flows.len() as u64) as usize];
            let payload = self.sizes.draw(&mut self.rng).min(SEGMENT);
            actions.push(Action::Write { flow, bytes: u64::from(payload), tag: 0 });
            self.next = self.next + Dur::from_secs(self.rng.exponential(self.mean_gap));
        }
    }
}

/// Bytes of IP and TCP header.
const HEADER: u32 = 40;

fn end_to_end(name: &str, payload: Sizes, load: f64, messages: u64, width: f64) {
    const SENDERS: u32 = 100;
    let wire = match payload {
        Sizes::Fixed(bytes) => Sizes::Fixed(bytes + HEADER),
        Sizes::Exponential { fixed, mean } => Sizes::Exponential { fixed: fixed + HEADER, mean },
    };
    let service = wire.moments().0 * PS_PER_BYTE as f64 * 1e-12;
    let mean_gap = service / load;
    // Handshakes, then a tenth of the run until the queue has forgotten that it began empty.
    let (first, warmup) = (0.01, 0.01 + 0.1 * messages as f64 * mean_gap);
    let duration = warmup + messages as f64 * mean_gap;
    let found: Vec<f64> = (0..RUNS)
        .map(|run| {
            let (mut setup, _) = network(SENDERS, warmup, duration, run);
            let find = |name: &str| setup.topology.find(name).expect("the node is there");
            let workload = Messages {
                senders: (0..SENDERS).map(|i| find(&format!("h{i}"))).collect(),
                sink: find("sink"),
                sizes: payload,
                mean_gap,
                first: Time::ZERO + Dur::from_secs(first),
                flows: Vec::new(),
                next: Time::ZERO,
                rng: Stream::new(1, run, Entity::Workload, 0),
            };
            setup.workloads = vec![Workload::central(workload)];
            let mut engine = Engine::new(setup).expect("the network is right");
            assert!(engine.run(&Progress::default()).expect("the flows are possible"));
            let summary = summarise(&engine.measured());
            assert_eq!((summary["drops"], summary["retransmits"]), (0.0, 0.0));
            summary["queue_mean_packets"]
        })
        .collect();
    agrees(&format!("{name} {load} end to end"), &found, wire.in_system(load), width);
}

/// Guards: hosts, connections and the engine hand the packets on as they were written, and the summary's mean is the
/// mean.
#[test]
fn m_d_1_end_to_end() {
    for (load, messages) in [(0.5, 30_000), (0.8, 50_000), (0.95, 160_000)] {
        end_to_end("M/D/1", Sizes::Fixed(1460), load, messages, 0.05);
    }
}

/// Guards: the same for sizes that are exponential but for the headers.
#[test]
fn m_g_1_end_to_end() {
    end_to_end("M/G/1", Sizes::Exponential { fixed: 0, mean: 3000.0 }, 0.8, 100_000, 0.05);
}
