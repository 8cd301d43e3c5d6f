//! Forwarding against a naive search, in regular networks and random ones with failures; the spread rules by their own law.

#[path = "common/networks.rs"]
mod networks;

use networks::{dragonfly, fat_tree, leaf_spine, Network};
use penstock_core::rng::Entity;
use penstock_core::Stream;
use penstock_fabric::{Cell, Forwarding, ForwardingConfig, Graph, Reroute, RouteError, Spread};
use penstock_units::{Dur, Time};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const ALL: [&str; 11] = [
    "drawn",
    "ideal",
    "flow",
    "flow:seed=7",
    "flow:seeds=same",
    "packet",
    "round-robin",
    "flowlet:gap=1us",
    "weighted",
    "adaptive",
    "entropy",
];

fn stream(i: u64) -> Stream {
    Stream::new(3, 0, Entity::Route, i)
}
fn config(graph: &Graph, spread: &str) -> ForwardingConfig {
    ForwardingConfig {
        graph: graph.clone(),
        spread: Spread::parse("spread", spread).unwrap(),
        spread_at: Vec::new(),
        reroute: Reroute::AtOnce,
        rng: stream(0),
        known: None,
    }
}
fn forwarding(n: &Network, spread: &str) -> Forwarding {
    Forwarding::new(config(&n.0, spread)).unwrap()
}
fn cell(to: u32, entropy: u32) -> Cell {
    let mut cell = Cell::new(0, 1500);
    (cell.to, cell.entropy) = (to, entropy);
    cell
}
fn idle(_: u32) -> u64 {
    0
}

/// Hops of every node to `dst` over links that are up; hosts do not forward.
fn hops(g: &Graph, up: &[bool], dst: u32) -> Vec<Option<u32>> {
    let mut d = vec![None; g.hosts.len()];
    d[dst as usize] = Some(0);
    // Relaxed until nothing changes.
    loop {
        let mut any = false;
        for (port, l) in g.links.iter().enumerate() {
            if !up[port] || (l.to != dst && g.hosts[l.to as usize]) {
                continue;
            }
            let next = d[l.to as usize].unwrap_or(u32::MAX - 1) + 1;
            if next < d[l.from as usize].unwrap_or(u32::MAX) {
                d[l.from as usize] = Some(next);
                any = true;
            }
        }
        if !any {
            return d;
        }
    }
}
/// Ports of `node` that lead closer to a destination with these hops.
fn closer(g: &Graph, up: &[bool], d: &[Option<u32>], dst: u32, node: u32) -> Vec<u32> {
    let links = g.links.iter().enumerate();
    let open =
        links.filter(|(port, l)| up[*port] && l.from == node && (l.to == dst || !g.hosts[l.to as usize]));
    let own = d[node as usize];
    open.filter(|(_, l)| own.is_some() && d[l.to as usize].map(|d| d + 1) == own)
        .map(|(p, _)| p as u32)
        .collect()
}
fn compare(g: &Graph, up: &[bool], f: &Forwarding) {
    let hosts = (0..g.hosts.len() as u32).filter(|n| g.hosts[*n as usize]);
    for dst in hosts {
        let d = hops(g, up, dst);
        for node in (0..g.hosts.len() as u32).filter(|n| *n != dst) {
            let expected = closer(g, up, &d, dst, node);
            let found = f.ports(node, dst);
            // The only port of a host is its port whatever lies behind it: the switch there says that there is no path.
            let only = g.hosts[node as usize]
                && g.links.iter().filter(|l| l.from == node).count() == 1
                && found.len() == 1;
            if !(only && expected.is_empty()) {
                assert_eq!(found, expected, "node {node} to host {dst}");
            }
            if g.hosts[node as usize] {
                let path = f.path(node, dst, 5, &mut Vec::new());
                assert_eq!(path.is_ok(), !expected.is_empty());
            }
        }
    }
}
/// Sends a cell from `src` to its destination; the ports it took.
fn send(f: &mut Forwarding, g: &Graph, src: u32, mut c: Cell, now: u64) -> Option<Vec<u32>> {
    let (mut at, mut ports) = (src, Vec::new());
    while at != c.to {
        let port = f.next(at, &mut c, Time(now), idle)?;
        assert_eq!(g.links[port as usize].from, at);
        at = g.links[port as usize].to;
        ports.push(port);
        assert!(ports.len() <= g.hosts.len(), "a loop");
    }
    Some(ports)
}

#[test]
fn groups_of_regular_networks_are_those_of_a_search() {
    for n in [fat_tree(4), fat_tree(6), leaf_spine(5, 3, 2), dragonfly(2, 4, 2), dragonfly(1, 3, 1)] {
        let up = vec![true; n.0.links.len()];
        compare(&n.0, &up, &forwarding(&n, "drawn"));
    }
}

#[test]
fn tables_of_a_fat_tree_grow_with_its_kinds_of_switches() {
    // Pods of edge switches share one row, core switches one, the aggregation switches of each pod one; row 0 is for hosts.
    let f = forwarding(&fat_tree(16), "drawn");
    assert_eq!(f.rows(), (1 + 1 + 16 + 1, 128 + 1));
    let (tables, state) = f.bytes();
    assert!(tables < 160_000 && state < 200_000, "{tables} and {state} bytes for 1,024 hosts");
}

/// What the simulator's routes did: choices drawn hop by hop among the links that lead closer.
fn by_hand(g: &Graph, src: u32, dst: u32, rng: &mut Stream) -> Vec<u32> {
    let up = vec![true; g.links.len()];
    let d = hops(g, &up, dst);
    let (mut at, mut path) = (src, Vec::new());
    while at != dst {
        let choices = closer(g, &up, &d, dst, at);
        let pick = if choices.len() > 1 { rng.below(choices.len() as u64) as usize } else { 0 };
        path.push(choices[pick]);
        at = g.links[choices[pick] as usize].to;
    }
    path
}
#[test]
fn a_drawn_path_is_that_of_the_same_draws_by_hand() {
    for n in [fat_tree(4), leaf_spine(4, 6, 3), dragonfly(2, 4, 2)] {
        let mut f = forwarding(&n, "drawn");
        let hosts = n.hosts();
        for (i, src) in hosts.iter().enumerate() {
            for (j, dst) in hosts.iter().enumerate().filter(|(j, _)| *j != i) {
                let flow = (i * hosts.len() + j) as u64;
                let (mut ours, mut theirs) = (stream(flow), stream(flow));
                let entropy = f.draw(*src, *dst, &mut ours).unwrap();
                let expected = by_hand(&n.0, *src, *dst, &mut theirs);
                let mut path = Vec::new();
                f.path(*src, *dst, entropy, &mut path).unwrap();
                assert_eq!(path, expected);
                assert_eq!(send(&mut f, &n.0, *src, cell(*dst, entropy), 0).unwrap(), expected);
                // The stream stands where it stood: the way back is drawn with the same one.
                assert_eq!(ours.next_u64(), theirs.next_u64());
            }
        }
    }
}

/// A network with `n` parallel links of these weights between two switches; from, to, ports.
fn parallel(weights: &[u64]) -> (Network, u32, u32, Vec<u32>) {
    let mut n = Network::default();
    let (a, b) = (n.node(false), n.node(false));
    let (src, dst) = (n.node(true), n.node(true));
    n.connect(src, a);
    n.connect(b, dst);
    n.link(b, a);
    let ports = weights.iter().map(|w| n.weigh(a, b, *w)).collect();
    (n, a, dst, ports)
}
/// Sum over cells of (found - expected)^2 / expected.
fn chi_square(found: impl IntoIterator<Item = u32>, expected: impl IntoIterator<Item = f64>) -> f64 {
    found.into_iter().zip(expected).map(|(f, e)| (f64::from(f) - e).powi(2) / e).sum()
}
/// True when `x` lies within four standard deviations of the mean of a chi-square law: mean k, variance 2 k.
fn plausible(x: f64, degrees: u32) -> bool {
    let k = f64::from(degrees);
    (x - k).abs() < 4.0 * (2.0 * k).sqrt()
}

#[test]
fn hashes_and_random_spraying_are_even_and_not_more_than_even() {
    // 100 leaf switches with 8 ports up each; flows numbered in order, the hardest input for a hash. 700 degrees of freedom.
    let n = leaf_spine(100, 8, 1);
    let hosts = n.hosts();
    for spread in ["flow", "flow:seed=1", "entropy", "packet", "weighted"] {
        let mut f = forwarding(&n, spread);
        let mut sum = 0.0;
        for (i, src) in hosts.iter().enumerate() {
            let leaf = n.0.links[f.ports(*src, hosts[0])[0] as usize].to;
            let dst = hosts[(i + 1) % hosts.len()];
            let mut found: BTreeMap<u32, u32> = f.ports(leaf, dst).iter().map(|p| (*p, 0)).collect();
            for flow in 0..4000 {
                *found.get_mut(&f.next(leaf, &mut cell(dst, flow), Time::ZERO, idle).unwrap()).unwrap() += 1;
            }
            sum += chi_square(found.into_values(), [500.0; 8]);
        }
        assert!(plausible(sum, 700), "{spread}: {sum}");
    }
}

#[test]
fn tiers_choose_independently_unless_told_to_hash_alike() {
    let n = fat_tree(8);
    let hosts = n.hosts();
    let used = |spread: &str| {
        let f = forwarding(&n, spread);
        let mut cores: BTreeMap<u32, u32> = BTreeMap::new();
        for flow in 0..16_000 {
            let mut path = Vec::new();
            f.path(hosts[0], hosts[127], flow, &mut path).unwrap();
            *cores.entry(n.0.links[path[2] as usize].to).or_default() += 1;
        }
        cores
    };
    for seed in 0..20 {
        let cores = used(&format!("flow:seed={seed}"));
        assert_eq!(cores.len(), 16);
        let sum = chi_square(cores.into_values(), [1000.0; 16]);
        // 40 is exceeded once in two thousand times at 15 degrees of freedom.
        assert!(sum < 40.0, "seed {seed}: {sum}");
    }
    // Four aggregation switches, and each sends all that it gets to the core switch of the same number.
    assert_eq!(used("flow:seeds=same").len(), 4);
}

#[test]
fn round_robin_is_exactly_even_per_group() {
    let (n, a, dst, ports) = parallel(&[1; 7]);
    let mut f = forwarding(&n, "round-robin");
    let taken: Vec<u32> = (0..70).map(|i| f.next(a, &mut cell(dst, i), Time::ZERO, idle).unwrap()).collect();
    for round in taken.chunks(7) {
        assert_eq!(round.iter().collect::<BTreeSet<_>>(), ports.iter().collect());
        assert_eq!(round, &taken[..7]);
    }
}

#[test]
fn weights_are_proportions() {
    let weights = [10_000_000_000, 40_000_000_000, 25_000_000_000, 100_000_000_000];
    let (n, a, dst, ports) = parallel(&weights);
    let mut f = forwarding(&n, "weighted:seed=4");
    let share = |f: &mut Forwarding, weights: &[u64]| {
        let mut found = vec![0; ports.len()];
        for flow in 0..70_000 {
            let port = f.next(a, &mut cell(dst, flow), Time::ZERO, idle).unwrap();
            found[ports.iter().position(|p| *p == port).unwrap()] += 1;
        }
        let total: u64 = weights.iter().sum();
        chi_square(found, weights.iter().map(|w| 70_000.0 * *w as f64 / total as f64))
    };
    // 3 degrees of freedom: 17.7 is exceeded once in two thousand times.
    let sum = share(&mut f, &weights);
    assert!(sum < 17.7, "{sum}");
    // A link is degraded to a tenth.
    f.set_weight(ports[3], weights[3] / 10).unwrap();
    let sum = share(&mut f, &[weights[0], weights[1], weights[2], weights[3] / 10]);
    assert!(sum < 17.7, "{sum}");
    assert!(share(&mut f, &weights) > 1000.0, "the old weights no longer fit");
}

#[test]
fn a_flowlet_keeps_its_port_within_the_gap_and_draws_another_after_it() {
    let (n, a, dst, ports) = parallel(&[1; 8]);
    // One entry: all flows share it, and still nobody's order changes.
    for spread in ["flowlet:gap=10ns", "flowlet:gap=10ns,table=1"] {
        let mut f = forwarding(&n, spread);
        let mut at = |now, flow| f.next(a, &mut cell(dst, flow), Time(now), idle).unwrap();
        let (mut now, mut seen) = (0, BTreeSet::new());
        for _ in 0..200 {
            let port = at(now, 1);
            for _ in 0..5 {
                now += Dur::nanos(10).0;
                assert_eq!(at(now, 1), port, "a pause of the gap itself does not end a flowlet");
            }
            now += Dur::nanos(10).0 + 1;
            seen.insert(port);
        }
        assert_eq!(seen, ports.iter().copied().collect());
    }
    // Flows with an entry of their own have flowlets of their own.
    let mut f = forwarding(&n, "flowlet:gap=1s");
    let taken: BTreeSet<u32> =
        (0..200).map(|flow| f.next(a, &mut cell(dst, flow), Time(0), idle).unwrap()).collect();
    assert_eq!(taken.len(), 8);
}

#[test]
fn adaptive_takes_the_shortest_queue_and_ties_in_turn() {
    let (n, a, dst, ports) = parallel(&[1; 5]);
    let mut f = forwarding(&n, "adaptive");
    let mut rng = stream(9);
    for _ in 0..500 {
        let queues: BTreeMap<u32, u64> = ports.iter().map(|p| (*p, rng.below(4))).collect();
        let taken = f.next(a, &mut cell(dst, 0), Time::ZERO, |port| queues[&port]).unwrap();
        assert_eq!(queues[&taken], *queues.values().min().unwrap());
    }
    let taken: BTreeSet<u32> =
        (0..5).map(|_| f.next(a, &mut cell(dst, 0), Time::ZERO, idle).unwrap()).collect();
    assert_eq!(taken.len(), 5);
}

#[test]
fn ideal_gives_flows_to_ports_evenly() {
    let n = leaf_spine(6, 4, 4);
    let mut f = forwarding(&n, "ideal");
    let hosts = n.hosts();
    let mut used: BTreeMap<u32, u32> = BTreeMap::new();
    for flow in 0..400 {
        // All from the first leaf.
        let (src, dst) = (hosts[flow % 4], hosts[4 + flow % 20]);
        let entropy = f.draw(src, dst, &mut stream(flow as u64)).unwrap();
        let path = send(&mut f, &n.0, src, cell(dst, entropy), 0).unwrap();
        *used.entry(path[1]).or_default() += 1;
    }
    assert_eq!(used.into_values().collect::<Vec<_>>(), [100; 4]);
}

#[test]
fn a_sender_changes_the_path_by_its_entropy_and_only_where_that_is_the_rule() {
    let n = leaf_spine(2, 16, 1);
    let hosts = n.hosts();
    let paths = |spread: &str| {
        let mut f = forwarding(&n, spread);
        let own = f.draw(hosts[0], hosts[1], &mut stream(1)).unwrap();
        let mut paths = BTreeSet::new();
        for wish in 0..200 {
            let c = cell(hosts[1], f.stamp(own, wish));
            let path = send(&mut f, &n.0, hosts[0], c, 0).unwrap();
            assert_eq!(send(&mut f, &n.0, hosts[0], c, 1).unwrap(), path);
            paths.insert(path);
        }
        paths.len()
    };
    assert_eq!((paths("entropy"), paths("flow"), paths("weighted"), paths("drawn")), (16, 1, 1, 1));
}

#[test]
fn rules_may_differ_by_switch() {
    let n = fat_tree(4);
    let hosts = n.hosts();
    let edge = n.0.links.iter().find(|l| l.from == hosts[0]).unwrap().to;
    let at = vec![(edge, Spread::RoundRobin)];
    let mut f = Forwarding::new(ForwardingConfig { spread_at: at, ..config(&n.0, "flow") }).unwrap();
    let paths: Vec<Vec<u32>> =
        (0..8).map(|_| send(&mut f, &n.0, hosts[0], cell(hosts[15], 3), 0).unwrap()).collect();
    assert!((2..8).all(|i| paths[i] == paths[i - 2] && paths[i][1] != paths[i - 1][1]));
}

#[test]
fn failures_are_routed_around_or_not() {
    let n = leaf_spine(3, 2, 1);
    let hosts = n.hosts();
    let mut f = forwarding(&n, "packet");
    let leaf = n.0.links[f.ports(hosts[0], hosts[1])[0] as usize].to;
    let up = f.ports(leaf, hosts[1]).to_vec();
    f.set_link(up[0], false).unwrap();
    assert!(!f.is_up(up[0]));
    assert_eq!(f.ports(leaf, hosts[1]), [up[1]]);
    // A spine without a link to the destination is left out elsewhere too.
    let far =
        n.0.links.iter().position(|l| l.from == n.0.links[up[1] as usize].to && l.to != leaf).unwrap() as u32;
    f.set_links(&[(up[0], true), (far, false)]).unwrap();
    assert_eq!(f.ports(leaf, hosts[1]), [up[0]]);
    assert_eq!(f.ports(leaf, hosts[2]), up);
    f.set_link(far, true).unwrap();
    compare(&n.0, &vec![true; n.0.links.len()], &f);
    let mut f =
        Forwarding::new(ForwardingConfig { reroute: Reroute::Never, ..config(&n.0, "packet") }).unwrap();
    f.set_link(up[0], false).unwrap();
    let taken: BTreeSet<u32> =
        (0..50).map(|_| f.next(leaf, &mut cell(hosts[1], 0), Time::ZERO, idle).unwrap()).collect();
    assert!(taken.contains(&up[0]), "nobody knows that it is down");
    // The last link of a host.
    let mut f = forwarding(&n, "packet");
    let down = f.ports(leaf, hosts[0])[0];
    f.set_link(down, false).unwrap();
    assert_eq!(f.next(leaf, &mut cell(hosts[0], 0), Time::ZERO, idle), None);
    assert_eq!(f.draw(hosts[1], hosts[0], &mut stream(1)), Err(RouteError::NoPath(hosts[1], hosts[0])));
}

#[test]
fn tables_that_are_known_are_read_by_their_own_network_and_written_by_nobody() {
    let n = leaf_spine(3, 2, 1);
    let hosts = n.hosts();
    let all_up = vec![true; n.0.links.len()];
    let first = forwarding(&n, "weighted");
    let with = |graph: &Graph, spread: &str| {
        Forwarding::new(ForwardingConfig { known: Some(first.known()), ..config(graph, spread) }).unwrap()
    };
    let mut second = with(&n.0, "weighted");
    compare(&n.0, &all_up, &second);
    let leaf = n.0.links[first.ports(hosts[0], hosts[1])[0] as usize].to;
    let up = first.ports(leaf, hosts[1]).to_vec();
    // A failure and another weight are the second one's alone.
    second.set_link(up[0], false).unwrap();
    second.set_weight(up[1], 77).unwrap();
    assert_eq!((second.ports(leaf, hosts[1]), first.ports(leaf, hosts[1])), (&up[1..], &up[..]));
    compare(&n.0, &all_up, &first);
    // Of another network, or without shares, they are of no use.
    let other = leaf_spine(4, 2, 1);
    compare(&other.0, &vec![true; other.0.links.len()], &with(&other.0, "weighted"));
    let mut plain = forwarding(&n, "flow");
    let mut weighted =
        Forwarding::new(ForwardingConfig { known: Some(plain.known()), ..config(&n.0, "weighted") }).unwrap();
    let mut to = cell(hosts[1], 0);
    assert!(up.contains(&weighted.next(leaf, &mut to, Time::ZERO, idle).unwrap()));
    assert!(up.contains(&plain.next(leaf, &mut to, Time::ZERO, idle).unwrap()));
}

#[test]
fn bad_input_is_one_line() {
    let error = |text: &str| Spread::parse("spread", text).unwrap_err().to_string();
    assert!(error("paket").starts_with("spread = \"paket\": unknown spread rule; did you mean packet?"));
    assert_eq!(error("flowlet"), "spread:gap = \"\": must be given: flowlet:gap=TIME");
    assert!(error("flowlet:gap=5").starts_with("spread:gap = \"5\": must be a time with a unit"));
    assert!(error("packet:seed=1").contains("spread rule packet takes no parameters"));
    assert!(error("flow:seeds=some").starts_with("spread:seeds = \"some\": must be one of per-switch, same"));
    assert!(error("flowlet:gap=1us,table=0").starts_with("spread:table = \"0\": must be"));

    let error = |c: ForwardingConfig| Forwarding::new(c).err().unwrap().to_string();
    let star = leaf_spine(1, 0, 4);
    for spread in ALL.into_iter().filter(|s| *s != "drawn") {
        let name = Spread::parse("spread", spread).unwrap().name();
        let rule =
            "no node of this network has ports of equal cost: every destination is reached by one port only";
        assert_eq!(error(config(&star.0, spread)), format!("spread = {name:?}: {rule}"));
    }
    Forwarding::new(config(&star.0, "drawn")).unwrap();
    let n = leaf_spine(2, 2, 1);
    let at = |node, spread, of_all| {
        let c = ForwardingConfig { spread_at: vec![(node, spread)], ..config(&n.0, of_all) };
        error(c)
    };
    assert!(
        at(0, Spread::Packet, "flow").starts_with("spread[0] = \"packet\": node 0 never has ports of equal")
    );
    assert!(at(2, Spread::Packet, "drawn").contains("must be the rule of all nodes"));
    assert!(at(99, Spread::Packet, "flow").starts_with("spread[99] = \"packet\": no such node"));

    let mut f = forwarding(&n, "flow");
    let links = n.0.links.len();
    let rule = format!("no such link; there are {links}, numbered from 0");
    assert_eq!(f.set_link(1000, false).unwrap_err().to_string(), format!("link = \"1000\": {rule}"));
    assert!(f
        .set_weight(0, 0)
        .unwrap_err()
        .to_string()
        .starts_with("link[0].weight = \"0\": must be positive"));
    let mut bad = n.0.clone();
    bad.links[1].to = 77;
    assert!(error(config(&bad, "flow")).starts_with("link[1] = \""));
    bad.links[1] = penstock_fabric::Edge { weight: 0, ..n.0.links[1] };
    assert_eq!(error(config(&bad, "flow")), "link[1].weight = \"0\": must be positive");

    // Hosts that are not connected, or the same one.
    let mut n = Network::default();
    let (a, b, c) = (n.node(true), n.node(true), n.node(true));
    n.connect(a, b);
    n.connect(b, c);
    let mut f = forwarding(&n, "drawn");
    let name = |n: u32| ["a", "b", "c"][n as usize].to_string();
    let error = |e: RouteError| e.named(name).to_string();
    let none = "flow = \"a -> c\": no path leads from a to c";
    assert_eq!(error(f.draw(a, c, &mut stream(1)).unwrap_err()), none);
    assert_eq!(f.draw(a, b, &mut stream(1)), Ok(0));
    let own = "flow = \"a\": must lead to another host than its own";
    assert_eq!(error(f.draw(a, a, &mut stream(1)).unwrap_err()), own);
}

#[test]
fn paths_that_digits_cannot_number_are_refused_by_name() {
    // Nine choices of 16 in a row.
    let mut n = Network::default();
    let switches = n.nodes(10, false);
    let (a, b) = (n.node(true), n.node(true));
    n.connect(a, switches[0]);
    n.connect(switches[9], b);
    for pair in switches.windows(2) {
        (0..16).for_each(|_| {
            n.connect(pair[0], pair[1]);
        });
    }
    let mut f = forwarding(&n, "drawn");
    let error = f.draw(a, b, &mut stream(1)).unwrap_err();
    assert_eq!(error, RouteError::TooMany(a, b));
    assert!(error.named(|n| format!("h{n}")).rule.contains("spread must be another rule, such as flow"));
    assert!(forwarding(&n, "flow").draw(a, b, &mut stream(1)).is_ok());
}

/// Switches, hosts with one to three links, some of them to hosts, links of one direction, parallel links.
fn random_network() -> impl Strategy<Value = (Network, Vec<usize>)> {
    let switches = 1u32..9;
    let hosts = 2u32..8;
    (switches, hosts).prop_flat_map(|(switches, hosts)| {
        let joined = prop::collection::vec((0..switches, 0..switches, 0..10u32), 0..24);
        let last = prop::collection::vec(
            (0..hosts, prop_oneof![9 => 0..switches, 1 => switches..switches + hosts]),
            1..10,
        );
        let failed = prop::collection::vec(any::<prop::sample::Index>(), 0..6);
        (Just((switches, hosts)), joined, last, failed).prop_map(
            |((switches, hosts), joined, last, failed)| {
                let mut n = Network::default();
                n.nodes(switches, false);
                n.nodes(hosts, true);
                for (a, b, way) in joined.into_iter().filter(|(a, b, _)| a != b) {
                    match way {
                        0 => drop(n.link(a, b)),
                        _ => drop(n.connect(a, b)),
                    }
                }
                for host in 0..hosts {
                    n.connect(switches + host, host % switches);
                }
                for (host, other) in last.into_iter().filter(|(host, other)| switches + host != *other) {
                    n.connect(switches + host, other);
                }
                let links = n.0.links.len();
                (n, failed.into_iter().map(|i| i.index(links)).collect())
            },
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn random_networks_with_failures_are_those_of_a_search((n, failed) in random_network()) {
        let mut f = forwarding(&n, "drawn");
        let mut up = vec![true; n.0.links.len()];
        compare(&n.0, &up, &f);
        let changes: Vec<(u32, bool)> = failed.iter().map(|i| (*i as u32, false)).collect();
        f.set_links(&changes).unwrap();
        failed.iter().for_each(|i| up[*i] = false);
        compare(&n.0, &up, &f);
        for i in &failed {
            f.set_link(*i as u32, true).unwrap();
        }
        compare(&n.0, &vec![true; up.len()], &f);
    }
    #[test]
    fn under_every_rule_packets_arrive_by_shortest_paths_and_every_member_is_used(
        (n, failed) in random_network(), rule in 0..ALL.len(),
    ) {
        // A rule is refused where there is no choice: another test holds that.
        let Ok(mut f) = Forwarding::new(config(&n.0, ALL[rule])) else { return Ok(()) };
        let hosts = n.hosts();
        let mut up = vec![true; n.0.links.len()];
        let mut now = 0;
        for _ in 0..2 {
            for dst in &hosts {
                let d = hops(&n.0, &up, *dst);
                for src in hosts.iter().filter(|src| *src != dst) {
                    let drawn = f.draw(*src, *dst, &mut stream(1));
                    prop_assert_eq!(drawn.is_ok(), d[*src as usize].is_some());
                    for i in 0..3u32 {
                        // Whatever a sender puts into the field.
                        let c = cell(*dst, drawn.unwrap_or(0).wrapping_add(i * 0x4321_8765));
                        let taken = send(&mut f, &n.0, *src, c, now);
                        prop_assert_eq!(taken.map(|t| t.len() as u32), d[*src as usize]);
                    }
                }
                for node in 0..n.0.hosts.len() as u32 {
                    if node == *dst || f.ports(node, *dst).len() < 2 {
                        continue;
                    }
                    let members: BTreeSet<u32> = f.ports(node, *dst).iter().copied().collect();
                    let mut used = BTreeSet::new();
                    // A member of 12 is missed in 400 draws with probability 1e-15.
                    for i in 0..400 {
                        now += Dur::micros(2).0;
                        used.insert(f.next(node, &mut cell(*dst, i), Time(now), idle).unwrap());
                    }
                    prop_assert_eq!(used, members);
                }
            }
            f.set_links(&failed.iter().map(|i| (*i as u32, false)).collect::<Vec<_>>()).unwrap();
            failed.iter().for_each(|i| up[*i] = false);
        }
    }
}
