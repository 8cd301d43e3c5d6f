//! Guards: pause, drops while waiting and trimming, seen from the hosts.

use super::*;
use penstock_core::rng::Entity;
use penstock_core::Packet;
use penstock_fabric::aqm::CoDel;
use penstock_fabric::{
    BufferConfig, ClassConfig, Edge, ForwardingConfig, Ingress, NodeConfig, PauseAt, PortConfig, Reroute,
    Service, Spread, Trim,
};
use penstock_units::Rate;

const PACKETS: u32 = 200;

/// Two fast links into a switch (ports 0 and 1) and a slow one out of it (port 2).
fn network(out: PortConfig, buffer: Option<BufferConfig>) -> Network {
    let stream = |i| Stream::new(1, 0, Entity::Port, i);
    let fast = |i| PortConfig::plain(Rate(10_000_000_000), Dur::micros(1), stream(i));
    let ports = [fast(0), fast(1), out].into_iter().zip(0..).map(|(c, i)| Port::new(i, c).unwrap());
    let mut fabric = Fabric::new(ports.collect());
    if let Some(buffer) = buffer {
        let ingresses = [0, 1].map(|upstream| Ingress { upstream, back: None }).into();
        let (response, rng) = (Dur::ZERO, stream(9));
        fabric.add_node(NodeConfig { ports: vec![2], ingresses, buffer, response, rng }).unwrap();
    }
    let link = |from, to| Edge { from, to, weight: 1 };
    let graph =
        Graph { hosts: vec![true, true, false, true], links: vec![link(0, 2), link(1, 2), link(2, 3)] };
    let config = ForwardingConfig {
        graph: graph.clone(),
        spread: Spread::Drawn,
        spread_at: Vec::new(),
        reroute: Reroute::AtOnce,
        rng: stream(8),
        known: None,
    };
    Network::of(fabric, Ties::Forward, false, &graph, Forwarding::new(config).unwrap())
}
fn slow() -> PortConfig {
    PortConfig::plain(Rate(1_000_000_000), Dur::micros(1), Stream::new(1, 0, Entity::Port, 2))
}
/// Both hosts send at once; the packets that arrive and the number of those that are lost.
fn run(net: &mut Network) -> (Vec<Packet>, u32) {
    let next_hops = [0, 1].map(|src| FlowRoute { src, dst: 3, entropy: 0 });
    for i in 0..PACKETS {
        let slot = net.arena.alloc();
        let packet = Packet { seq: u64::from(i), wire_len: 1500, payload: 1460, ..Packet::default() };
        net.arena.packets[slot as usize] = packet;
        assert!(net.send(Time::ZERO, next_hops[i as usize % 2], slot));
    }
    let (mut arrived, mut lost) = (Vec::new(), 0);
    loop {
        let now = net.next_arrival().min(net.deadlines.peek());
        if now == Time::NEVER {
            net.check(0);
            return (arrived, lost);
        }
        if net.next_arrival() == now {
            if let Some(Arrived { cell, port }) = net.arrive(now) {
                assert_eq!(port, 2);
                let slot = cell.packet;
                arrived.push(net.arena.packets[slot as usize]);
                net.arena.release(slot);
            }
        } else {
            let (_, kind, number) = net.deadlines.pop().unwrap();
            net.on_deadline(now, kind, number);
        }
        while let Some((_, slot)) = net.next_lost() {
            lost += 1;
            net.arena.release(slot);
        }
    }
}

#[test]
fn pause_frames_stop_and_release_the_hosts_and_nothing_is_lost() {
    let buffer = BufferConfig {
        lossless: 1,
        headroom: vec![10_000; 2],
        pause: PauseAt::Static { xoff: 15_000, xon: 6_000 },
        ..BufferConfig::pool(50_000, 0, 0)
    };
    let mut net = network(slow(), Some(buffer));
    let (arrived, lost) = run(&mut net);
    assert_eq!((arrived.len(), lost), (PACKETS as usize, 0));
    let pauses = net.ports().iter().map(|p| p.stats().pauses).sum::<u64>();
    assert!(pauses >= 4 && net.ports()[2].stats().queue_max < 34, "{pauses}");
}
#[test]
fn packets_dropped_while_they_wait_are_lost_and_trimmed_ones_arrive_short() {
    let codel = CoDel::new(Dur::micros(50), Dur::micros(200), 1500, false).rule();
    let (arrived, lost) = run(&mut network(PortConfig { rule: codel, ..slow() }, None));
    assert!(lost > 3 && arrived.len() as u32 + lost == PACKETS, "{lost}");
    let trim = Some(Trim { bytes: 64, priority: 7, tail: 0.5 });
    // Ten whole packets; every header finds room.
    let limit = |p| if p == 0 { 10 } else { u32::MAX };
    let classes = std::array::from_fn(|p| ClassConfig { limit_packets: limit(p), ..ClassConfig::default() });
    let service = Some(Box::new(Service { trim, classes, ..Service::default() }));
    let mut net = network(PortConfig { service, ..slow() }, None);
    let (arrived, lost) = run(&mut net);
    assert_eq!((arrived.len(), lost), (PACKETS as usize, 0));
    let (cut, whole): (Vec<&Packet>, Vec<&Packet>) = arrived.iter().partition(|p| p.has(flag::TRIMMED));
    assert_eq!(cut.len() as u64, net.ports()[2].stats().trims);
    assert!(cut.iter().all(|p| (p.wire_len, p.payload) == (64, 0)) && cut.len() > 100);
    assert!(whole.iter().all(|p| (p.wire_len, p.payload) == (1500, 1460)) && whole.len() > 10);
}
#[test]
fn every_pause_frame_has_a_number_of_its_own() {
    let pauses = [(0, 0, false), (0, 7, true), ((1 << 20) - 1, 3, true)];
    for (port, priority, on) in pauses {
        let pause = Pause { at: Time(5), port, priority, on };
        assert_eq!(pause_of(Time(5), number_of(&pause)), pause);
    }
}
