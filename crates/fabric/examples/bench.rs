//! Cost of a packet-hop by kind of port, in a small engine.
//!
//! `cargo run --profile fast --example bench -p penstock-fabric [KIND [PORTS [HOPS]]]`; without KIND all of them. Packets go round
//! on random routes over PORTS ports of 10 Gb/s and 1 us, eight per port, until HOPS packet-hops are done. For instructions run one
//! kind with two numbers of hops under `valgrind --tool=callgrind` and divide the difference.
//!
//! `fifo` is the measure: a port of its own. `strict8`, `drr8`: eight priorities. `served-fifo`: a FIFO that decides at departure, as one
//! that has been paused. `pool-fifo`: FIFOs that share a buffer. `pfc-fifo`: the same with a lossless priority, what `pfc=on` makes of a
//! port until it is paused first; `pfc`: with strict priorities too. `chain-*`: three ports in a row, `chain-pfc` paused all the time.
#![allow(clippy::disallowed_methods, dead_code, unused_imports)]

#[path = "../../sim/src/arrivals/mod.rs"]
mod arrivals;

use arrivals::{Arrivals, Ties};
use penstock_core::rng::Entity;
use penstock_core::Stream;
use penstock_fabric::{
    Arena, BufferConfig, Cell, Fabric, Ingress, NodeConfig, Offered, PauseAt, Port, PortConfig, Scheduler,
    Service,
};
use penstock_units::{Dur, Rate, Time};
use std::time::Instant;

const RATE: Rate = Rate(10_000_000_000);
const DELAY: Dur = Dur(1_000_000);
/// Links of a route; then it begins again.
const LENGTH: usize = 6;
const PER_PORT: u32 = 8;

fn stream(i: u64) -> Stream {
    Stream::new(1, 0, Entity::Port, i)
}

/// Random routes, `ports` of them, each over `LENGTH` ports; every port is in `LENGTH` routes.
fn routes(ports: u32) -> Vec<u32> {
    let mut rng = stream(99);
    let mut columns: Vec<Vec<u32>> = Vec::new();
    for _ in 0..LENGTH {
        let mut column: Vec<u32> = (0..ports).collect();
        rng.shuffle(&mut column);
        columns.push(column);
    }
    (0..ports as usize).flat_map(|r| columns.iter().map(move |c| c[r]).collect::<Vec<_>>()).collect()
}
/// The cursor after this one on its route.
#[inline]
fn onwards(at: u32) -> u32 {
    if at as usize % LENGTH == LENGTH - 1 {
        at + 1 - LENGTH as u32
    } else {
        at + 1
    }
}
fn sizes(i: u32) -> u32 {
    [1500, 1500, 1500, 40][i as usize % 4]
}

fn config(i: u32, n: u32, service: Option<Service>) -> PortConfig {
    PortConfig {
        framing: 38,
        service: service.map(Box::new),
        measured: n <= 512,
        ..PortConfig::plain(RATE, DELAY, stream(u64::from(i)))
    }
}

/// What a packet is at the start.
fn cell(i: u32, path: u32, kind: &str) -> Cell {
    let mut cell = Cell::new(i, sizes(i));
    cell.to = onwards(path);
    match kind {
        "strict8" | "drr8" => cell.with_priority((i % 8) as u8),
        k if k.starts_with("pfc") => cell.with_priority(3),
        _ => cell,
    }
}

fn drain(fabric: &mut Fabric, heap: &mut Arrivals) {
    let fx = fabric.effects();
    assert!(fx.pauses.is_empty() && fx.lost.is_empty() && fx.wakes.is_empty());
    for (at, port) in &fx.heads {
        heap.push(*at, *port);
    }
    fx.clear();
}

fn run_fabric(kind: &str, n: u32, hops: u64) -> u64 {
    let service = |scheduler| Some(Service { scheduler, ..Service::default() });
    let service = || match kind {
        "fifo" | "pool-fifo" | "pfc-fifo" => None,
        "served-fifo" => service(Scheduler::Fifo),
        "drr8" => service(Scheduler::Drr([1500; 8])),
        _ => service(Scheduler::Strict),
    };
    let mut fabric = Fabric::new((0..n).map(|i| Port::new(i, config(i, n, service())).unwrap()).collect());
    if kind.starts_with("pfc") || kind == "pool-fifo" {
        // Switches of 16 ports with thresholds that are not reached: what the accounting costs. With random routes a pause could
        // lead to a deadlock.
        for first in (0..n).step_by(16) {
            let ports: Vec<u32> = (first..(first + 16).min(n)).collect();
            let ingresses =
                ports.iter().map(|p| Ingress { upstream: (*p + 5) % n, back: Some(*p) }).collect::<Vec<_>>();
            let headroom = vec![100_000; ingresses.len()];
            fabric
                .add_node(NodeConfig {
                    ports,
                    ingresses,
                    buffer: BufferConfig {
                        lossless: if kind == "pool-fifo" { 0 } else { 1 << 3 },
                        headroom,
                        pause: PauseAt::Dynamic { alpha: 1.0, gap: 3000 },
                        ..BufferConfig::pool(1 << 40, 0, 0)
                    },
                    response: Dur::ZERO,
                    rng: stream(u64::from(first)),
                })
                .unwrap();
        }
    }
    let mut seg = Arena::new(false);
    let routes = routes(n);
    let mut heap = Arrivals::new(Ties::Forward, n as usize);
    for i in 0..n * PER_PORT {
        let path = i % (n * LENGTH as u32);
        let out = routes[path as usize];
        if let Offered::Queued(Some(at)) = fabric.offer(Time::ZERO, out, cell(i, path, kind), &mut seg) {
            heap.push(at, out);
        }
    }
    let mut done = 0;
    while done < hops {
        let now = heap.peek();
        let port = heap.take();
        let arrival = fabric.arrive(now, port, &mut seg);
        if arrival.next != Time::NEVER {
            heap.push(arrival.next, port);
            if let Some(next) = heap.ahead::<1>() {
                fabric.ports()[next.port(0) as usize].prefetch();
            }
        }
        if let Some(mut cell) = arrival.packet() {
            done += 1;
            let out = routes[cell.to as usize];
            cell.to = onwards(cell.to);
            if let Offered::Queued(Some(at)) = fabric.offer(now, out, cell, &mut seg) {
                heap.push(at, out);
            }
        }
        if fabric.effects().any() {
            drain(&mut fabric, &mut heap);
        }
    }
    done
}

/// Chains of host, switch and a link of 80 % of its rate; what is delivered is sent again. With `pfc` the switch pauses the host all the
/// time, else its queue holds all packets.
fn run_chains(pfc: bool, n: u32, hops: u64) -> u64 {
    let chains = (n / 3).max(1);
    let mut ports = Vec::new();
    for i in 0..chains * 3 {
        let service = pfc.then(|| Service { scheduler: Scheduler::Strict, ..Service::default() });
        let rate = if i % 3 == 1 { Rate(8_000_000_000) } else { RATE };
        ports.push(Port::new(i, PortConfig { rate, ..config(i, n, service) }).unwrap());
    }
    let mut fabric = Fabric::new(ports);
    for c in (0..chains).filter(|_| pfc) {
        fabric
            .add_node(NodeConfig {
                ports: vec![3 * c + 1, 3 * c + 2],
                ingresses: vec![Ingress { upstream: 3 * c, back: Some(3 * c + 2) }],
                buffer: BufferConfig {
                    lossless: 1 << 3,
                    headroom: vec![20_000],
                    pause: PauseAt::Static { xoff: 20_000, xon: 17_000 },
                    ..BufferConfig::pool(200_000, 0, 0)
                },
                response: Dur::ZERO,
                rng: stream(u64::from(c)),
            })
            .unwrap();
    }
    let mut seg = Arena::new(false);
    let mut heap = Arrivals::new(Ties::Forward, n as usize);
    let mut others: std::collections::BinaryHeap<std::cmp::Reverse<(Time, u32, u32, bool)>> =
        Default::default();
    for i in 0..chains * 40 {
        let port = i % chains * 3;
        let cell = Cell::new(i, 1500).with_priority(3);
        if let Offered::Queued(Some(at)) = fabric.offer(Time::ZERO, port, cell, &mut seg) {
            heap.push(at, port);
        }
    }
    let (mut done, mut pauses, mut wakes) = (0, 0u64, 0u64);
    while done < hops {
        let now = heap.peek();
        let other = others.peek().map_or(Time::NEVER, |o| o.0 .0);
        if now <= other {
            let port = heap.take();
            let arrival = fabric.arrive(now, port, &mut seg);
            if arrival.next != Time::NEVER {
                heap.push(arrival.next, port);
            }
            if let Some(cell) = arrival.packet() {
                done += 1;
                let out = if port.is_multiple_of(3) { port + 1 } else { port - 1 };
                if let Offered::Queued(Some(at)) = fabric.offer(now, out, cell, &mut seg) {
                    heap.push(at, out);
                }
            }
        } else {
            let std::cmp::Reverse((at, kind, number, on)) = others.pop().unwrap();
            if kind == 1 {
                wakes += 1;
                fabric.wake(at, number, &mut seg);
            } else {
                pauses += 1;
                fabric.pause(at, &penstock_fabric::Pause { at, port: number, priority: 3, on }, &mut seg);
            }
        }
        let fx = fabric.effects();
        if fx.any() {
            assert!(fx.lost.is_empty());
            fx.heads.iter().for_each(|(at, port)| heap.push(*at, *port));
            others.extend(fx.pauses.iter().map(|p| std::cmp::Reverse((p.at, 0, p.port, p.on))));
            others.extend(fx.wakes.iter().map(|(at, node)| std::cmp::Reverse((*at, 1, *node, false))));
            fx.clear();
        }
    }
    if pfc && std::env::var_os("VERBOSE").is_some() {
        println!("{pauses} pause frames, {wakes} wakes in {done} packet-hops");
    }
    done
}

const KINDS: &[&str] =
    &["fifo", "served-fifo", "strict8", "drr8", "pool-fifo", "pfc-fifo", "pfc", "chain-fifo", "chain-pfc"];

fn run(kind: &str, n: u32, hops: u64) -> u64 {
    match kind {
        "chain-fifo" => run_chains(false, n, hops),
        "chain-pfc" => run_chains(true, n, hops),
        _ if KINDS.contains(&kind) => run_fabric(kind, n, hops),
        _ => panic!("KIND is one of {}", KINDS.join(", ")),
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, default: u64| args.get(i).map_or(default, |a| a.parse().expect("a whole number"));
    let (n, hops) = (number(1, 256) as u32, number(2, 3_000_000));
    let kinds: Vec<&str> = args.first().filter(|k| *k != "all").map_or(KINDS.to_vec(), |k| vec![k.as_str()]);
    // The best of several, in turn: other work on the machine only adds.
    let mut best = vec![f64::MAX; kinds.len()];
    for _ in 0..if kinds.len() > 1 { 5 } else { 1 } {
        for (kind, best) in kinds.iter().zip(&mut best) {
            let start = Instant::now();
            let done = run(kind, n, hops);
            *best = best.min(start.elapsed().as_secs_f64() * 1e9 / done as f64);
        }
    }
    for (kind, ns) in kinds.iter().zip(&best) {
        println!("{kind:12} {n:6} ports {ns:7.1} ns per packet-hop");
    }
}
