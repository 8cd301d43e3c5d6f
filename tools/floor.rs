//! The floor of the bench: the least that a program does which moves every packet over every link, and nothing else. Windows of fixed size, an
//! answer per packet, first come first served without limit; no transport, no losses, no marks, no counters. What penstock takes beyond it is
//! what penstock is for. Standard library only: `rustc -O tools/floor.rs`.
//!
//! `floor fat-tree K WINDOW MICROSECONDS` (100 Gb/s, 1 us per link; every host sends to another, paths drawn at random),
//! `floor leaf-spine LxSxH WINDOW MICROSECONDS` (10 Gb/s, 1 us; the same), `floor dumbbell N WINDOW MICROSECONDS` (100 Gb/s, 3 us; N hosts on the left
//! send to one each on the right) or `floor star N WINDOW MICROSECONDS` (1 Gb/s, 50 us per link; N hosts send to one). Prints nanoseconds per
//! packet-hop, and packet-hops.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Instant;

#[derive(Clone, Copy)]
struct Packet {
    arrives: u64,
    /// Twice the number of the flow, and one more on the way back.
    way: u32,
    hop: u32,
}

#[derive(Default)]
struct Port {
    ring: VecDeque<Packet>,
    free_at: u64,
}

/// Ports of every way, forth and back in turn; number of ports; picoseconds per byte and per link.
type Net = (Vec<Vec<u32>>, usize, u64, u64);

fn random(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

/// Ports: of hosts, of edge switches down and up, of aggregation switches down and up, of core switches down.
fn fat_tree(k: u64) -> Net {
    let (h, hosts) = (k / 2, k * k * k / 4);
    let (edge_down, edge_up, agg_down, agg_up, core_down) =
        (hosts, 2 * hosts, 3 * hosts, 4 * hosts, 5 * hosts);
    let (mut state, mut ways) = (1, Vec::new());
    for src in 0..hosts {
        let dst = (src + hosts / 2 + 1) % hosts;
        for (a, b) in [(src, dst), (dst, src)] {
            // Which aggregation switch of the pod, which core switch behind it.
            let (j, c) = (random(&mut state, h), random(&mut state, h));
            let (edge_a, edge_b, pod_a, pod_b) = (a / h, b / h, a / (h * h), b / (h * h));
            let mut way = vec![a];
            if edge_a != edge_b {
                way.push(edge_up + edge_a * h + j);
                if pod_a != pod_b {
                    way.push(agg_up + (pod_a * h + j) * h + c);
                    way.push(core_down + (j * h + c) * k + pod_b);
                }
                way.push(agg_down + (pod_b * h + j) * h + edge_b % h);
            }
            way.push(edge_down + b);
            ways.push(way.into_iter().map(|p| p as u32).collect());
        }
    }
    (ways, 6 * hosts as usize, 80, 1_000_000)
}

/// Ports: of hosts, of leaves up, of spines down, of leaves down.
fn leaf_spine(leaves: u64, spines: u64, per_leaf: u64) -> Net {
    let hosts = leaves * per_leaf;
    let (up, down, last) = (hosts, hosts + leaves * spines, hosts + 2 * leaves * spines);
    let (mut state, mut ways) = (1, Vec::new());
    for src in 0..hosts {
        let dst = (src + hosts / 2 + 1) % hosts;
        for (a, b) in [(src, dst), (dst, src)] {
            let spine = random(&mut state, spines);
            let (leaf_a, leaf_b) = (a / per_leaf, b / per_leaf);
            let mut way = vec![a as u32];
            if leaf_a != leaf_b {
                way.push((up + leaf_a * spines + spine) as u32);
                way.push((down + spine * leaves + leaf_b) as u32);
            }
            way.push((last + b) as u32);
            ways.push(way);
        }
    }
    (ways, (last + hosts) as usize, 800, 1_000_000)
}

/// Ports: of hosts on the left, on the right; from left to right, from right to left; to hosts on the right, on the left.
fn dumbbell(n: u64) -> Net {
    let forth = |i: u64| vec![i as u32, 2 * n as u32, (2 * n + 2 + i) as u32];
    let back = |i: u64| vec![(n + i) as u32, 2 * n as u32 + 1, (3 * n + 2 + i) as u32];
    ((0..n).flat_map(|i| [forth(i), back(i)]).collect(), 4 * n as usize + 2, 80, 3_000_000)
}

fn star(n: u64) -> Net {
    // The receiver is host n; the switch's port to host i is n + 1 + i.
    let way = |a: u64, b: u64| vec![a as u32, (n + 1 + b) as u32];
    ((0..n).flat_map(|i| [way(i, n), way(n, i)]).collect(), 2 * n as usize + 2, 8_000, 50_000_000)
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize| args[i].parse::<u64>().expect("a whole number");
    let (ways, count, byte, delay) = match args[0].as_str() {
        "star" => star(number(1)),
        "dumbbell" => dumbbell(number(1)),
        "fat-tree" => fat_tree(number(1)),
        "leaf-spine" => {
            let [l, s, h] = args[1].split('x').map(|x| x.parse().expect("LxSxH")).collect::<Vec<_>>()[..] else {
                panic!("LxSxH")
            };
            leaf_spine(l, s, h)
        }
        other => panic!("no network {other}"),
    };
    let (window, end) = (number(2), number(3) * 1_000_000);
    let mut ports: Vec<Port> = (0..count).map(|_| Port::default()).collect();
    let mut heap = BinaryHeap::new();
    let bits = usize::BITS - count.leading_zeros();
    let offer = |ports: &mut Vec<Port>, heap: &mut BinaryHeap<Reverse<u64>>, now: u64, way: u32, hop: u32| {
        let number = ways[way as usize][hop as usize];
        let port = &mut ports[number as usize];
        port.free_at = port.free_at.max(now) + byte * if way % 2 == 0 { 1500 } else { 40 };
        let arrives = port.free_at + delay;
        if port.ring.is_empty() {
            heap.push(Reverse(arrives << bits | u64::from(number)));
        }
        port.ring.push_back(Packet { arrives, way, hop });
    };
    for way in (0..ways.len() as u32).step_by(2) {
        (0..window).for_each(|_| offer(&mut ports, &mut heap, 0, way, 0));
    }
    let (start, mut hops) = (Instant::now(), 0u64);
    while let Some(&Reverse(key)) = heap.peek() {
        let (now, number) = (key >> bits, key & ((1 << bits) - 1));
        if now > end {
            break;
        }
        let ring = &mut ports[number as usize].ring;
        let packet = ring.pop_front().expect("it was announced");
        match ring.front() {
            Some(next) => *heap.peek_mut().expect("it is there") = Reverse(next.arrives << bits | number),
            None => drop(heap.pop()),
        }
        hops += 1;
        match packet.hop as usize + 1 {
            hop if hop < ways[packet.way as usize].len() => {
                offer(&mut ports, &mut heap, now, packet.way, hop as u32);
            }
            _ => offer(&mut ports, &mut heap, now, packet.way ^ 1, 0),
        }
    }
    println!("{:.2} {hops}", start.elapsed().as_nanos() as f64 / hops as f64);
}
