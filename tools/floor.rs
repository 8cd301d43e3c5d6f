//! The floor of the bench: the least that a program does which moves every packet over every link, and nothing else. Windows of fixed size, an
//! answer per packet, first come first served without limit; no transport, no losses, no marks, no counters. What penstock takes beyond it is
//! what penstock is for. Standard library only: `rustc -O tools/floor.rs`.
//!
//! `floor fat-tree K WINDOW MICROSECONDS` has links of 100 Gb/s and 1 us; every host sends to another, over random
//! paths. `floor leaf-spine LxSxH WINDOW MICROSECONDS` has 10 Gb/s and the same traffic. `floor dumbbell N WINDOW
//! MICROSECONDS` has 100 Gb/s and 3 us; N hosts on the left send to one each on the right. `floor star N WINDOW
//! MICROSECONDS` has 1 Gb/s and 50 us per link; N hosts send to one. Prints a line per method to find the next arrival,
//! with nanoseconds per packet-hop, packet-hops and a sum over all arrivals. `heap` is a binary heap of the first
//! packet of every port. `wheel` has every packet in the slot of its arrival's window, and sorts a slot when it is due.
//! `pods` (fat trees only) has a wheel per pod, each run for the delay of a link before the next pod. All methods move
//! the same packets.

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

/// What was moved up to the end: packet-hops, and the sum of their times in picoseconds.
type Moved = (u64, u64);

/// A window of a pod is so many slots of its wheel, and a link's delay.
const SLOTS_PER_DELAY: u64 = 32;
/// Slots of a wheel: what arrives later goes round once more.
const SLOTS: u64 = 1024;

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
            // The aggregation switch of the pod, and the core switch behind it, are drawn.
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

/// The pod of each port of [`fat_tree`]; core switches are distributed over the pods.
fn pods(k: u64) -> Vec<u32> {
    let (h, hosts) = (k / 2, k * k * k / 4);
    let pod = |port: u64| match port / hosts {
        5 => port % hosts / k % k,
        _ => port % hosts / (h * h),
    };
    (0..6 * hosts).map(|port| pod(port) as u32).collect()
}

fn bytes(way: u32) -> u64 {
    if way % 2 == 0 {
        1500
    } else {
        40
    }
}

/// Where a packet goes on that has arrived: as what answers it at the end of its way.
fn onward(ways: &[Vec<u32>], way: u32, hop: u32) -> (u32, u32) {
    match hop + 1 {
        hop if (hop as usize) < ways[way as usize].len() => (way, hop),
        _ => (way ^ 1, 0),
    }
}

fn by_heap((ways, count, byte, delay): &Net, window: u64, end: u64) -> Moved {
    let mut ports: Vec<Port> = (0..*count).map(|_| Port::default()).collect();
    let mut heap = BinaryHeap::new();
    let bits = usize::BITS - count.leading_zeros();
    let offer = |ports: &mut Vec<Port>, heap: &mut BinaryHeap<Reverse<u64>>, now: u64, way: u32, hop: u32| {
        let number = ways[way as usize][hop as usize];
        let port = &mut ports[number as usize];
        port.free_at = port.free_at.max(now) + byte * bytes(way);
        let arrives = port.free_at + delay;
        if port.ring.is_empty() {
            heap.push(Reverse(arrives << bits | u64::from(number)));
        }
        port.ring.push_back(Packet { arrives, way, hop });
    };
    for way in (0..ways.len() as u32).step_by(2) {
        (0..window).for_each(|_| offer(&mut ports, &mut heap, 0, way, 0));
    }
    let (mut hops, mut times) = (0, 0u64);
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
        (hops, times) = (hops + 1, times.wrapping_add(now));
        let (way, hop) = onward(ways, packet.way, packet.hop);
        offer(&mut ports, &mut heap, now, way, hop);
    }
    (hops, times)
}

/// A packet's arrival, in the order of arrivals: its time, the port whose link it comes by; and its way and hop.
type Due = (u64, u32, u32, u32);

/// What has yet to arrive, for each part of the network by windows of time. Memory of a slot that is through serves the next one.
struct Wheels {
    slots: Vec<Vec<Due>>,
    spare: Vec<Vec<Due>>,
    width: u64,
}

impl Wheels {
    fn push(&mut self, part: u32, due: Due) {
        let slot = &mut self.slots[(u64::from(part) * SLOTS + due.0 / self.width % SLOTS) as usize];
        if slot.capacity() == 0 {
            *slot = self.spare.pop().unwrap_or_default();
        }
        slot.push(due);
    }
    /// What arrives in a window, in order.
    fn take(&mut self, part: u64, turn: u64) -> Vec<Due> {
        let slot = &mut self.slots[(part * SLOTS + turn % SLOTS) as usize];
        let until = (turn + 1) * self.width;
        let mut due = std::mem::take(slot);
        if due.iter().any(|due| due.0 >= until) {
            // What is of a later round stays.
            slot.extend(due.iter().filter(|due| due.0 >= until));
            due.retain(|due| due.0 < until);
        }
        due.sort_unstable_by_key(|due| (due.0, due.1));
        due
    }
}

/// A wheel for each part of the network, whose ports `part` tells: a packet belongs to the part of the port by which it goes on. A part is worked
/// through for one delay, in which nothing can come from another one.
fn by_wheels((ways, count, byte, delay): &Net, part: &[u32], window: u64, end: u64) -> Moved {
    let parts = u64::from(*part.iter().max().expect("there are ports")) + 1;
    let width = delay.div_ceil(SLOTS_PER_DELAY);
    let slots = vec![Vec::new(); (parts * SLOTS) as usize];
    let mut wheels = Wheels { slots, spare: Vec::new(), width };
    let mut free_at = vec![0u64; *count];
    let offer = |wheels: &mut Wheels, free_at: &mut [u64], now: u64, way: u32, hop: u32| {
        let number = ways[way as usize][hop as usize];
        let free_at = &mut free_at[number as usize];
        *free_at = (*free_at).max(now) + byte * bytes(way);
        let (next_way, next_hop) = onward(ways, way, hop);
        let next = ways[next_way as usize][next_hop as usize];
        wheels.push(part[next as usize], (*free_at + delay, number, way, hop));
    };
    for way in (0..ways.len() as u32).step_by(2) {
        (0..window).for_each(|_| offer(&mut wheels, &mut free_at, 0, way, 0));
    }
    let (mut hops, mut times) = (0, 0u64);
    let turns = end / width + 1;
    for first in (0..turns).step_by(SLOTS_PER_DELAY as usize) {
        for part in 0..parts {
            for turn in first..turns.min(first + SLOTS_PER_DELAY) {
                let mut due = wheels.take(part, turn);
                for &(now, _, way, hop) in due.iter().take_while(|due| due.0 <= end) {
                    (hops, times) = (hops + 1, times.wrapping_add(now));
                    let (way, hop) = onward(ways, way, hop);
                    offer(&mut wheels, &mut free_at, now, way, hop);
                }
                due.clear();
                wheels.spare.push(due);
            }
        }
    }
    (hops, times)
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
    let net = (ways, count, byte, delay);
    let run = |name: &str, work: &dyn Fn() -> Moved| {
        let start = Instant::now();
        let (hops, times) = work();
        println!("{name} {:.2} {hops} {times}", start.elapsed().as_nanos() as f64 / hops as f64);
    };
    run("heap", &|| by_heap(&net, window, end));
    run("wheel", &|| by_wheels(&net, &vec![0; count], window, end));
    if args[0] == "fat-tree" {
        run("pods", &|| by_wheels(&net, &pods(number(1)), window, end));
    }
}
