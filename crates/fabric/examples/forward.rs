//! Forwarding: bytes and time to build, and the cost of a hop.
//!
//! `cargo run --profile fast --example forward -p penstock-fabric [sizes | KIND HOPS]`. KIND is `one` (a group with one
//! member), `loop` (no forwarding: the loop around it) or a spread rule over groups of eight members. For instructions
//! run one kind with two numbers of hops under `valgrind --tool=callgrind`, divide the difference, and subtract that of
//! `loop`.
#![allow(clippy::disallowed_methods)]

#[path = "../tests/common/networks.rs"]
mod networks;

use networks::{fat_tree, leaf_spine, Network};
use penstock_core::rng::Entity;
use penstock_core::Stream;
use penstock_fabric::{Cell, Forwarding, ForwardingConfig, Reroute, Spread};
use penstock_units::Time;
use std::hint::black_box;
use std::time::Instant;

fn forwarding(n: Network, spread: &str) -> Forwarding {
    Forwarding::new(ForwardingConfig {
        graph: n.0,
        spread: Spread::parse("spread", spread).unwrap(),
        spread_at: Vec::new(),
        reroute: Reroute::AtOnce,
        rng: Stream::new(1, 0, Entity::Route, 0),
        known: None,
    })
    .unwrap()
}

fn sizes() {
    println!(
        "{:>10} {:>7} {:>9} {:>12} {:>12} {:>8} {:>8}",
        "network", "hosts", "rows", "tables B", "rules B", "build s", "again s"
    );
    for k in [8, 16, 32, 64] {
        let n = fat_tree(k);
        let hosts = n.hosts().len();
        let start = Instant::now();
        let mut f = forwarding(n, "flow");
        let built = start.elapsed().as_secs_f64();
        let start = Instant::now();
        f.set_link(0, false).unwrap();
        let again = start.elapsed().as_secs_f64();
        f.set_link(0, true).unwrap();
        let ((tables, state), (rows, length)) = (f.bytes(), f.rows());
        println!(
            "{:>10} {hosts:>7} {:>9} {tables:>12} {state:>12} {built:>8.3} {again:>8.3}",
            format!("fat-tree:{k}"),
            format!("{rows}x{length}")
        );
    }
}

fn hops(kind: &str, count: u64) -> u64 {
    let n = leaf_spine(16, 8, 16);
    let (hosts, spines) = (n.hosts(), 8);
    let spread = if kind == "one" || kind == "loop" { "drawn" } else { kind };
    let leaf = n.0.links.iter().find(|l| l.from == hosts[0]).unwrap().to;
    let mut f = forwarding(n, spread);
    let mut rng = Stream::new(1, 0, Entity::Route, 1);
    // From the first leaf to hosts behind others, or from a spine.
    let cells: Vec<(u32, Cell)> = (0..1024)
        .map(|_| {
            let mut cell = Cell::new(0, 1500);
            cell.to = hosts[16 + rng.below(240) as usize];
            cell.entropy = rng.next_u64() as u32;
            (if kind == "one" { rng.below(spines) as u32 } else { leaf }, cell)
        })
        .collect();
    let queues: Vec<u64> = (0..4096).map(|_| rng.below(8)).collect();
    let (mut sum, only_loop) = (0, kind == "loop");
    for i in 0..count {
        let (node, mut cell) = cells[(i % 1024) as usize];
        let cell = black_box(&mut cell);
        let port = if only_loop {
            black_box(Some(node))
        } else {
            f.next(node, cell, Time(i * 1000), |port| queues[port as usize])
        };
        sum += u64::from(port.unwrap());
    }
    sum
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match &args[..] {
        [kind, count] => {
            let start = Instant::now();
            let count = count.parse().expect("HOPS is a number");
            black_box(hops(kind, count));
            println!("{kind}: {:.2} ns per hop", start.elapsed().as_secs_f64() * 1e9 / count as f64);
        }
        _ => sizes(),
    }
}
