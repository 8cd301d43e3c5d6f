//! What a window brings over a link, taken at once, is what its events bring one by one: packets, times and counters, at ports of every kind.

mod common;

use common::stream;
use penstock_fabric::{
    Arena, BufferConfig, Cell, Fabric, Ingress, NodeConfig, Offered, Port, PortConfig, Scheduler, Service,
};
use penstock_units::{Dur, Rate, Time};

/// A byte takes a nanosecond.
const RATE: Rate = Rate(8_000_000_000);
const DELAY: u64 = 5_000_000;

fn fabric(scheduler: Option<Scheduler>, shared: bool) -> Fabric {
    let service = scheduler.map(|scheduler| Box::new(Service { scheduler, ..Service::default() }));
    let config = PortConfig {
        service,
        limit_packets: 6,
        measured: true,
        ..PortConfig::plain(RATE, Dur(DELAY), stream(0))
    };
    let mut fabric = Fabric::new(vec![Port::new(0, config).unwrap()]);
    if shared {
        let config = NodeConfig {
            ports: vec![0],
            ingresses: vec![Ingress { upstream: 0, back: None }],
            buffer: BufferConfig::pool(6_000, 1, 1),
            response: Dur::ZERO,
            rng: stream(1),
        };
        fabric.add_node(config).unwrap();
    }
    fabric
}

/// When what packets are offered: bursts and pauses, about as much as the link can carry.
fn offers() -> Vec<(u64, u32, u8)> {
    let (mut draws, mut at) = (stream(2), 0);
    let offer = move |_| {
        at += [0, 0, 100_000, 3_000_000][draws.below(4) as usize] + draws.below(300_000);
        (at, 64 + draws.below(1_400) as u32, draws.below(8) as u8)
    };
    (0..2_000).map(offer).collect()
}
fn offer(fabric: &mut Fabric, arena: &mut Arena, (at, bytes, priority): (u64, u32, u8)) -> Option<Time> {
    let cell = Cell::new(arena.alloc(), bytes).with_priority(priority);
    match fabric.offer(Time(at), 0, cell, arena) {
        Offered::Queued(head) => head,
        Offered::Dropped(_) => {
            arena.release(cell.packet);
            None
        }
        trimmed => panic!("{trimmed:?}"),
    }
}
/// The next event of a port, as far as effects say.
fn announced(fabric: &mut Fabric) -> Option<Time> {
    let head = fabric.effects().heads.first().map(|head| head.0);
    fabric.effects().clear();
    head
}

/// Arrivals, bytes and priority of each packet, and what was counted.
fn one_by_one(mut fabric: Fabric) -> (Vec<(u64, u32, u8)>, String) {
    let (mut arena, mut next, mut found) = (Arena::new(false), None, Vec::new());
    for (at, bytes, priority) in offers().into_iter().chain([(u64::MAX, 0, 0)]) {
        while let Some(now) = next.filter(|now: &Time| now.0 <= at) {
            let arrival = fabric.arrive(now, 0, &mut arena);
            let cell = arrival.packet().unwrap();
            found.push((now.0, cell.bytes, cell.priority()));
            arena.release(cell.packet);
            next = announced(&mut fabric).or(Some(arrival.next).filter(|next| *next != Time::NEVER));
        }
        if bytes > 0 {
            next = offer(&mut fabric, &mut arena, (at, bytes, priority)).or(next);
            next = announced(&mut fabric).or(next);
        }
    }
    fabric.settle(Time(20_000_000_000), &mut arena);
    (found, format!("{:?}", fabric.ports()[0].stats()))
}
fn by_windows(mut fabric: Fabric, length: u64) -> (Vec<(u64, u32, u8)>, String) {
    let (mut arena, mut found, mut end) = (Arena::new(false), Vec::new(), length);
    let mut offers = offers().into_iter().peekable();
    while end < 20_000_000_000 {
        let mut cells = Vec::new();
        let next = fabric.take_arrived(Time(end), 0, &mut arena, |cell| cells.push(cell));
        assert!(next > Time(end) && fabric.effects().heads.is_empty());
        fabric.effects().clear();
        for cell in cells {
            found.push((cell.time, cell.bytes, cell.priority()));
            arena.release(cell.packet);
        }
        while let Some(one) = offers.next_if(|offer| offer.0 <= end) {
            offer(&mut fabric, &mut arena, one);
            fabric.effects().clear();
        }
        end += length;
    }
    fabric.settle(Time(20_000_000_000), &mut arena);
    (found, format!("{:?}", fabric.ports()[0].stats()))
}

#[test]
fn what_arrives_in_a_window_is_what_arrives_one_by_one() {
    let schedulers = [None, Some(Scheduler::Fifo), Some(Scheduler::Strict), Some(Scheduler::Drr([1500; 8]))];
    for scheduler in schedulers {
        for shared in [false, true] {
            let expected = one_by_one(fabric(scheduler, shared));
            assert!(expected.0.len() > 1_000, "{scheduler:?}: {}", expected.0.len());
            for length in [DELAY, DELAY / 7] {
                let found = by_windows(fabric(scheduler, shared), length);
                assert!(found == expected, "{scheduler:?}, shared: {shared}, windows of {length} ps");
            }
        }
    }
}
