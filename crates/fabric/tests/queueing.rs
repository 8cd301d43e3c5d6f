//! Waiting times against queueing theory, and the two half-known halves of a port against each other.

mod common;

use common::stream;
use penstock_core::{Backlog, Ecn, Packet, QueueDiscipline, Stream, Verdict};
use penstock_fabric::{Arena, Cell, Effects, Offered, Port, PortConfig, Rule, Scheduler, Service, Trim};
use penstock_units::{Dur, Rate, Time};

/// 8 Gb/s: a byte takes a nanosecond.
const RATE: Rate = Rate(8_000_000_000);
/// Mean service time, ns.
const SERVICE: f64 = 10_000.0;
const RUNS: u64 = 20;
/// All intervals below hold together with 95 %: Student's t with 19 degrees of freedom at 1 - 0.05 / (2 x 12), for twelve of them
/// (two-sided, Bonferroni): t(0.997917, 19) = 3.255.
const T: f64 = 3.255;
const WARM: u32 = 30_000;
const PACKETS: u32 = 120_000;

fn port(service: Option<Service>) -> Port {
    let config =
        PortConfig { service: service.map(Box::new), ..PortConfig::plain(RATE, Dur::ZERO, stream(0)) };
    Port::new(0, config).unwrap()
}

/// Mean waiting time by priority (0, 7), in service times, of Poisson packets of load `load`, a share `high` of them of priority 7.
fn waiting(mut port: Port, load: f64, high: f64, exponential: bool, rng: &mut Stream) -> [f64; 2] {
    let (mut seg, mut fx) = (Arena::new(false), Effects::default());
    let mut t = 0.0;
    let (mut arrived, mut size) = (vec![0u64; 1 << 17], vec![0u32; 1 << 17]);
    let (mut sum, mut count) = ([0.0; 2], [0u32; 2]);
    let mut event: Option<Time> = None;
    for i in 0..WARM + PACKETS {
        t += rng.exponential(SERVICE / load);
        let now = Time((t * 1000.0) as u64);
        while let Some(at) = event.filter(|e| *e <= now) {
            let arrival = port.arrive(at, &mut seg, &mut fx);
            let cell = arrival.packet().unwrap();
            event = Some(arrival.next).filter(|t| *t != Time::NEVER);
            if cell.packet >= WARM {
                let slot = cell.packet as usize & 0x1ffff;
                let class = usize::from(cell.priority() == 7);
                sum[class] += (at.0 - arrived[slot]) as f64 / 1000.0 - f64::from(size[slot]);
                count[class] += 1;
            }
        }
        let bytes = if exponential { (rng.exponential(SERVICE) + 0.5) as u32 } else { SERVICE as u32 };
        let slot = i as usize & 0x1ffff;
        (arrived[slot], size[slot]) = (now.0, bytes);
        let priority = if high > 0.0 && rng.uniform() < high { 7 } else { 0 };
        match port.offer(now, Cell::new(i, bytes).with_priority(priority), &mut seg, &mut fx) {
            Offered::Queued(head) => event = event.or(head),
            other => panic!("{other:?}"),
        }
    }
    [0, 1].map(|c| sum[c] / f64::from(count[c].max(1)) / SERVICE)
}

/// Mean of independent runs, and its half interval.
fn interval(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, T * (variance / n).sqrt())
}
fn check(name: &str, values: &[f64], theory: f64) {
    let (mean, half) = interval(values);
    println!("{name}: {mean:.4} +- {half:.4}, theory {theory:.4}");
    assert!((mean - theory).abs() <= half, "{name}: {mean} +- {half} does not cover {theory}");
    assert!(half < 0.25 * theory, "{name}: the interval says something");
}

#[test]
fn m_d_1_and_m_m_1_wait_as_long_as_theory_says() {
    for load in [0.5, 0.8, 0.95] {
        for exponential in [false, true] {
            // Pollaczek-Khinchine, in service times: rho / (2 (1 - rho)), twice that for exponential sizes.
            let theory = load / (1.0 - load) * if exponential { 1.0 } else { 0.5 };
            let runs: Vec<f64> = (0..RUNS)
                .map(|i| waiting(port(None), load, 0.0, exponential, &mut stream(100 + i))[0])
                .collect();
            check(&format!("M/{}/1 at {load}", if exponential { 'M' } else { 'D' }), &runs, theory);
        }
    }
}
#[test]
fn strict_priorities_wait_as_long_as_cobham_says() {
    // Cobham 1954, without preemption: W_high = W0 / (1 - rho_high), W_low = W0 / ((1 - rho_high) (1 - rho)), W0 = rho / 2.
    for (load, high) in [(0.5, 0.4), (0.8, 0.3), (0.95, 0.5)] {
        let strict = || Some(Service { scheduler: Scheduler::Strict, ..Service::default() });
        let runs: Vec<[f64; 2]> =
            (0..RUNS).map(|i| waiting(port(strict()), load, high, false, &mut stream(200 + i))).collect();
        let (w0, rho_high) = (load / 2.0, load * high);
        let of = |class: usize| runs.iter().map(|r| r[class]).collect::<Vec<_>>();
        check(&format!("high of {load}"), &of(1), w0 / (1.0 - rho_high));
        check(&format!("low of {load}"), &of(0), w0 / ((1.0 - rho_high) * (1.0 - load)));
    }
}
#[test]
fn a_scheduling_fifo_is_the_plain_fifo() {
    for load in [0.5, 0.95] {
        let service = Some(Service { scheduler: Scheduler::Fifo, ..Service::default() });
        let a = waiting(port(None), load, 0.0, true, &mut stream(300));
        let b = waiting(port(service), load, 0.0, true, &mut stream(300));
        assert_eq!(a, b);
    }
}

/// Marks on a line between two numbers of bytes; by `tells` it says below which it has nothing to say.
struct Line {
    from: u64,
    to: u64,
    dequeue: bool,
    tells: bool,
}

impl Line {
    fn judge(&self, bytes: u64, rng: &mut Stream) -> Verdict {
        let over = bytes.saturating_sub(self.from) as f64;
        match over > 0.0 && rng.uniform() < over / (self.to - self.from) as f64 {
            true => Verdict::Mark,
            false => Verdict::Accept,
        }
    }
}

impl QueueDiscipline for Line {
    fn admit(&mut self, _: Time, q: &Backlog, _: &Packet, _: bool, rng: &mut Stream) -> Verdict {
        if self.dequeue {
            Verdict::Accept
        } else {
            self.judge(q.bytes, rng)
        }
    }
    fn on_dequeue(&mut self, _: Time, _: Dur, left: &Backlog, rng: &mut Stream) -> Verdict {
        if self.dequeue {
            self.judge(left.bytes, rng)
        } else {
            Verdict::Accept
        }
    }
    fn wants_dequeue(&self) -> bool {
        self.dequeue
    }
    fn silent_bytes(&self) -> u64 {
        if self.tells {
            self.from
        } else {
            0
        }
    }
}

#[test]
fn a_port_that_asks_only_where_somebody_may_speak_is_the_one_that_always_asks() {
    for (dequeue, of_class, load) in
        [(true, true, 0.7), (true, false, 0.95), (false, true, 0.95), (false, false, 0.7)]
    {
        let run = |tells: bool| {
            let rule: Box<dyn QueueDiscipline + Send> =
                Box::new(Line { from: 30_000, to: 60_000, dequeue, tells });
            let rule = if dequeue { Rule::AtDequeue(rule) } else { Rule::Other(rule) };
            let mut service = Service { scheduler: Scheduler::Strict, ..Service::default() };
            service.classes[0].limit_bytes = 80_000;
            service.classes[7].limit_bytes = 40_000;
            service.trim = Some(Trim { bytes: 64, priority: 7, tail: 0.5 });
            let mut config = PortConfig::plain(RATE, Dur::micros(20), stream(0));
            if of_class {
                service.classes[0].rule = rule;
            } else {
                config.rule = rule;
            }
            config.service = Some(Box::new(service));
            config.limit_bytes = 100_000;
            config.measured = true;
            let mut port = Port::new(0, config).unwrap();
            let (mut seg, mut fx, mut rng) = (Arena::new(false), Effects::default(), stream(7));
            let (mut seen, mut event, mut t) = (Vec::new(), None::<Time>, 0.0);
            for i in 0..30_000u32 {
                t += rng.exponential(SERVICE / load);
                let now = Time((t * 1000.0) as u64);
                while let Some(at) = event.filter(|e| *e <= now) {
                    let arrival = port.arrive(at, &mut seg, &mut fx);
                    seen.extend(arrival.packet().map(|c| (at, c.packet, c.bytes, c.ecn())));
                    event = Some(arrival.next).filter(|t| *t != Time::NEVER);
                }
                let slot = seg.alloc();
                let bytes = (rng.exponential(SERVICE) + 65.0) as u32;
                let priority = if rng.uniform() < 0.2 { 7 } else { 0 };
                let cell = Cell::new(slot, bytes).with_priority(priority).with_ecn(Ecn::Ect0).with_payload();
                match port.offer(now, cell, &mut seg, &mut fx) {
                    Offered::Queued(head) | Offered::Trimmed(head) => event = event.or(head),
                    Offered::Dropped(_) => seen.push((now, i, 0, Ecn::NotEct)),
                }
                fx.clear();
            }
            port.advance(Time((t * 1000.0) as u64), &mut seg, &mut fx);
            (seen, port.stats())
        };
        let (asked, told) = (run(false), run(true));
        let marks = asked.0.iter().filter(|(.., ecn)| *ecn == Ecn::Ce).count();
        assert!(marks > 300 && marks < asked.0.len() / 2, "{marks} of {}", asked.0.len());
        assert!(asked == told, "at dequeue {dequeue}, of a class {of_class}: {:?}, {:?}", asked.1, told.1);
    }
}
