//! Networks by name: published sizes, rates per tier, connected hosts, and every equal-cost path in use.

use penstock_models::QueueSpec;
use penstock_sim::document;
use penstock_sim::scenario::Resolved;
use penstock_sim::setup::Setup;
use penstock_sim::topologies::{Named, Tiers, FAMILIES};
use penstock_sim::topology::{route_stream, LinkSpec, NodeKind, Routes, Topology};
use penstock_units::{Dur, Rate};
use serde_json::{json, Value};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

fn link(gbps: u64) -> LinkSpec {
    let queue = QueueSpec::parse("queue", "droptail").unwrap();
    LinkSpec { rate: Rate(gbps * 1_000_000_000), delay: Dur::micros(1), buffer: None, queue }
}
/// 1 Gb/s to hosts, 2 Gb/s between switches.
fn build(name: &str) -> Topology {
    let named = Named::parse("topology", name).unwrap_or_else(|e| panic!("{e}"));
    let t = named.build(&Tiers { host: link(1), fabric: link(2) }).unwrap();
    // What is said of a size is what is built.
    let hosts = t.hosts().len();
    let size = named.size();
    let built = (hosts as u128, (t.nodes.len() - hosts) as u128, t.links.len() as u128);
    assert_eq!((size.hosts, size.switches, 2 * size.links), built, "{name}");
    t
}
/// Hosts, switches, full-duplex links.
fn size(name: &str) -> (u128, u128, u128) {
    let size = Named::parse("topology", name).unwrap_or_else(|e| panic!("{e}")).size();
    (size.hosts, size.switches, size.links)
}
/// Links from every node to `dst`, hosts not forwarding.
fn distances(t: &Topology, dst: u32) -> Vec<u32> {
    let mut into = vec![Vec::new(); t.nodes.len()];
    for l in &t.links {
        into[l.to as usize].push(l.from);
    }
    let mut d = vec![u32::MAX; t.nodes.len()];
    d[dst as usize] = 0;
    let mut queue = VecDeque::from([dst]);
    while let Some(n) = queue.pop_front() {
        if n != dst && t.nodes[n as usize].kind == NodeKind::Host {
            continue;
        }
        for from in &into[n as usize] {
            if d[*from as usize] == u32::MAX {
                d[*from as usize] = d[n as usize] + 1;
                queue.push_back(*from);
            }
        }
    }
    d
}
/// Shortest paths from `src`, counted.
fn shortest_paths(t: &Topology, d: &[u32], src: u32) -> usize {
    if d[src as usize] == 0 {
        return 1;
    }
    let closer = t.links.iter().filter(|l| l.from == src && d[l.to as usize] == d[src as usize] - 1);
    closer.map(|l| shortest_paths(t, d, l.to)).sum()
}
/// Largest flow from the hosts of `a` to those of `b`, in Gb/s: what a cut between them lets through.
fn max_flow(t: &Topology, a: &[u32], b: &[u32]) -> u64 {
    let (source, sink) = (t.nodes.len(), t.nodes.len() + 1);
    let mut capacity: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    for l in &t.links {
        *capacity.entry((l.from as usize, l.to as usize)).or_default() += l.rate.0 / 1_000_000_000;
    }
    capacity.extend(a.iter().map(|h| ((source, *h as usize), u64::MAX / 4)));
    capacity.extend(b.iter().map(|h| ((*h as usize, sink), u64::MAX / 4)));
    let mut next = vec![BTreeSet::new(); t.nodes.len() + 2];
    for (x, y) in capacity.keys() {
        next[*x].insert(*y);
        next[*y].insert(*x);
    }
    let mut total = 0;
    loop {
        let mut before = vec![usize::MAX; next.len()];
        let mut queue = VecDeque::from([source]);
        while let Some(n) = queue.pop_front() {
            for m in &next[n] {
                if before[*m] == usize::MAX && *m != source && capacity.get(&(n, *m)).is_some_and(|c| *c > 0)
                {
                    before[*m] = n;
                    queue.push_back(*m);
                }
            }
        }
        if before[sink] == usize::MAX {
            return total;
        }
        let mut path = vec![sink];
        while *path.last().unwrap() != source {
            path.push(before[*path.last().unwrap()]);
        }
        let hops = || path.windows(2).map(|w| (w[1], w[0]));
        let amount = hops().map(|h| capacity[&h]).min().unwrap();
        for (x, y) in hops() {
            *capacity.get_mut(&(x, y)).unwrap() -= amount;
            *capacity.entry((y, x)).or_default() += amount;
        }
        total += amount;
    }
}

#[test]
fn sizes_are_the_published_ones() {
    // Al-Fares et al. 2008, section 3.1: k^3/4 hosts, 5k^2/4 switches; Figure 3 draws k = 4.
    assert_eq!(size("fat-tree:4"), (16, 20, 48));
    assert_eq!(size("fat-tree:48"), (27_648, 2_880, 82_944));
    // Kim et al. 2008, Figure 5: p = h = 2, a = 4 gives 72 terminals in 9 groups; N = a p (a h + 1).
    assert_eq!(size("dragonfly:2,4,2"), (72, 36, 72 + 9 * 6 + 36));
    assert_eq!(size("dragonfly:4,8,4"), (1056, 264, 1056 + 33 * 28 + 33 * 32 / 2));
    // NVIDIA DGX SuperPOD, compute fabric of 576 nodes: eight units of 72 nodes of eight rails, a leaf per rail and unit.
    assert_eq!(size("rail:72x8x36x8"), (4608, 64 + 36, 4608 + 64 * 36));
    assert_eq!(size("leaf-spine:4x4x8"), (32, 8, 48));
    // Li et al. 2019, section 5.1: 16 cores, 20 aggregation and 20 top-of-rack switches, 320 servers, 16 in each rack.
    assert_eq!(size("clos:5x4x4x4x16"), (320, 56, 480));
}
#[test]
fn diameters_are_the_published_ones() {
    // The links between hosts and switches count: 2 more than between switches.
    for (name, longest) in [
        ("fat-tree:4", 6),
        ("leaf-spine:4x3x2", 4),
        ("rail:3x4x2", 4),
        ("rail:2x2x3x2", 4),
        ("dragonfly:2,4,2", 5),
        ("star:5", 2),
        ("clos:3x2x2x2x2", 6),
    ] {
        let t = build(name);
        let hosts = t.hosts();
        let found = hosts.iter().flat_map(|dst| {
            let d = distances(&t, *dst);
            hosts.iter().map(move |src| d[*src as usize]).collect::<Vec<_>>()
        });
        assert_eq!(found.max(), Some(longest), "{name}");
        let family = FAMILIES.iter().find(|f| name.starts_with(f.name)).unwrap();
        assert_eq!(family.longest, longest);
    }
}
#[test]
fn bisections_are_the_published_ones() {
    let half = |t: &Topology| {
        let hosts = t.hosts();
        max_flow(t, &hosts[..hosts.len() / 2], &hosts[hosts.len() / 2..])
    };
    // Full: half of the hosts can send at their own rate of 1 Gb/s.
    assert_eq!(half(&build("fat-tree:4")), 8);
    assert_eq!(half(&build("fat-tree:6")), 27);
    // Two pods of two aggregation switches with three cores each: 2 x 3 links of 2 Gb/s, for 24 hosts a half of what they can send.
    assert_eq!(half(&build("clos:2x4x2x3x6")), 12);
    // Two leaves of two 2 Gb/s links each, for 16 hosts: half of what they can send.
    assert_eq!(half(&build("leaf-spine:4x2x8")), 8);
    // Two units of two leaves with one spine link each.
    assert_eq!(half(&build("rail:4x2x1x2")), 4);
    // Four groups of eight hosts on each side: 4 x 4 links of 2 Gb/s directly are as much as the hosts can send.
    let t = build("dragonfly:2,4,2");
    let hosts = t.hosts();
    assert_eq!(max_flow(&t, &hosts[..32], &hosts[32..64]), 32);
}
#[test]
fn all_hosts_are_connected_and_every_equal_cost_path_is_used() {
    for name in [
        "fat-tree:4",
        "leaf-spine:3x4x2",
        "rail:3x4x3",
        "rail:2x3x4x2",
        "dragonfly:2,4,2",
        "dragonfly:1,4,2,5",
        "dragonfly:2,2,1,2",
        "clos:3x1x2x3x2",
    ] {
        let t = build(name);
        let (hosts, mut routes) = (t.hosts(), Routes::new(&t));
        let mut most = 0;
        for dst in &hosts {
            let d = distances(&t, *dst);
            for src in hosts.iter().filter(|h| *h != dst) {
                assert_ne!(d[*src as usize], u32::MAX, "{name}");
                let possible = shortest_paths(&t, &d, *src);
                most = most.max(possible);
                let mut used = BTreeSet::new();
                // A path of sixteen is missed in this many draws once in 10^14 times.
                for flow in 0..500 {
                    let path = routes.path(&t, *src, *dst, &mut route_stream(1, 0, flow)).unwrap();
                    assert_eq!(path.len() as u32, d[*src as usize]);
                    used.insert(path);
                    if used.len() == possible {
                        break;
                    }
                }
                assert_eq!(used.len(), possible, "{name}: {src} to {dst}");
            }
        }
        assert!(most > 1, "{name} has no equal-cost paths");
    }
}
#[test]
fn every_port_of_a_dragonfly_is_wired_once() {
    for (name, groups, share) in
        [("dragonfly:2,4,2", 9, 1), ("dragonfly:1,4,2,5", 5, 2), ("dragonfly:1,4,2,3", 3, 4)]
    {
        let t = build(name);
        let group =
            |n: u32| -> u32 { t.nodes[n as usize].name[1..].split('.').next().unwrap().parse().unwrap() };
        let router = |n: u32| t.nodes[n as usize].kind == NodeKind::Switch;
        let mut global = vec![0; t.nodes.len()];
        let mut between: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        for l in t.links.iter().filter(|l| router(l.from) && router(l.to) && group(l.from) != group(l.to)) {
            global[l.from as usize] += 1;
            *between.entry((group(l.from), group(l.to))).or_default() += 1;
        }
        for (n, links) in (0..).zip(&global) {
            assert_eq!(*links, if router(n) { 2 } else { 0 }, "{name}: {n}");
        }
        assert_eq!(between.len(), groups * (groups - 1), "{name}");
        assert!(between.values().all(|n| *n == share), "{name}");
    }
}
#[test]
fn a_rail_leaf_has_the_same_nic_of_every_server() {
    let t = build("rail:3x4x2x2");
    for l in t.links.iter().filter(|l| t.nodes[l.from as usize].kind == NodeKind::Host) {
        let name = |n: u32| t.nodes[n as usize].name.clone();
        let host: u32 = name(l.from)[1..].parse().unwrap();
        let (server, nic) = (host / 4, host % 4);
        assert_eq!(name(l.to), format!("leaf{}", server / 3 * 4 + nic));
    }
}

fn setup(set: &[(&str, &str)]) -> Setup {
    let set: Vec<_> = set.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let resolved = Resolved::new("permutation", &set, 1, Value::Null).unwrap_or_else(|e| panic!("{e}"));
    resolved.setup(0).unwrap()
}
/// Rates of the links of hosts, and of the others, in Gb/s.
fn rates(t: &Topology) -> (f64, f64) {
    let host = |n: u32| t.nodes[n as usize].kind == NodeKind::Host;
    let of = |outer: bool| {
        let mut found: Vec<f64> = t
            .links
            .iter()
            .filter(|l| (host(l.from) || host(l.to)) == outer)
            .map(|l| l.rate.as_bps() / 1e9)
            .collect();
        found.dedup();
        assert_eq!(found.len(), 1);
        found[0]
    };
    (of(true), of(false))
}

#[test]
fn oversubscription_and_the_fabric_rate_follow_from_each_other() {
    let case = |topology: &'static str, rest: &[(&'static str, &'static str)]| {
        let mut set = vec![("topology", topology), ("link_rate", "25Gbps")];
        set.extend(rest);
        rates(&setup(&set).topology)
    };
    assert_eq!(case("leaf-spine:4x2x8", &[]), (25.0, 25.0));
    assert_eq!(case("leaf-spine:4x2x8", &[("fabric_rate", "100Gbps")]), (25.0, 100.0));
    // 8 x 25 over 2 x 50 is 2.
    assert_eq!(case("leaf-spine:4x2x8", &[("oversubscription", "2")]), (25.0, 50.0));
    assert_eq!(
        case("leaf-spine:4x2x8", &[("oversubscription", "2"), ("fabric_rate", "50Gbps")]),
        (25.0, 50.0)
    );
    assert_eq!(case("rail:16x4x4", &[("oversubscription", "1")]), (25.0, 100.0));
    assert_eq!(case("fat-tree:4", &[("oversubscription", "2.5")]), (25.0, 10.0));
    assert_eq!(case("dragonfly:2,4,2", &[("fabric_rate", "50Gbps")]), (25.0, 50.0));
}
#[test]
fn the_longest_round_trip_of_a_slow_fabric_sets_the_duration() {
    let duration = |set: &[(&str, &str)]| setup(set).duration.as_secs();
    let slow = [("topology", "leaf-spine:2x2x2"), ("link_rate", "10Gbps"), ("fabric_rate", "1Gbps")];
    // 100 round trips of four links of 4160 B at 1 Gb/s and 2 us.
    assert!((duration(&slow) - 100.0 * 4.0 * (2e-6 + 4160.0 * 8.0 / 1e9)).abs() < 1e-9);
    assert!(duration(&slow[..2]) < 1e-2);
}

fn custom(head: &str, workload: &str) -> Result<Resolved, String> {
    let toml = format!("scenario = \"custom\"\nduration = \"1ms\"\n{head}\n[[workload]]\n{workload}\n");
    document::resolve(&json!({ "toml": toml, "name": "net.toml" }).to_string()).map_err(|e| e.to_string())
}

#[test]
fn a_file_that_names_a_topology_has_the_network_of_permutation() {
    let head = "topology = \"leaf-spine:3x2x4\"\nlink_rate = \"25Gbps\"\noversubscription = 2\nlink_delay = \"2us\"\nbuffer = \"1MB\"";
    let setup = custom(
        head,
        "from = \"h[0-2]\"\nto = \"all\"\nkind = \"poisson\"\nrate = 100\nsizes = \"fixed:1KB\"",
    )
    .unwrap()
    .setup(0);
    let t = setup.unwrap().topology;
    assert_eq!((t.hosts().len(), rates(&t)), (12, (25.0, 25.0)));
    assert_eq!((t.find("leaf2").is_some(), t.find("spine1").is_some()), (true, true));
}
#[test]
fn what_is_wrong_with_a_named_network_is_told_with_its_line() {
    let good = "topology = \"leaf-spine:3x2x4\"\nlink_rate = \"10Gbps\"\nlink_delay = \"1us\"";
    let flow = "from = \"h0\"\nto = \"h11\"";
    assert!(custom(good, flow).is_ok());
    for (from, to, workload, expected) in [
        ("leaf-spine:3x2x4", "fat-tree:5", flow, "net.toml:3: topology = \"fat-tree:5\": fat-tree:K needs an even K of 2 to 64"),
        ("leaf-spine:3x2x4", "leaf-spine:3x2", flow, "net.toml:3: topology = \"leaf-spine:3x2\": must be leaf-spine:LEAVESxSPINESxHOSTS with whole numbers"),
        ("leaf-spine:3x2x4", "leaf-spine:3x0x4", flow, "net.toml:3: topology = \"leaf-spine:3x0x4\": leaf-spine:LEAVESxSPINESxHOSTS needs positive numbers"),
        ("leaf-spine:3x2x4", "leaf-spine:1x1x1", flow, "net.toml:3: topology = \"leaf-spine:1x1x1\": must have at least two hosts"),
        ("leaf-spine:3x2x4", "leafspine:3x2x4", flow, "net.toml:3: topology = \"leafspine:3x2x4\": must be one of fat-tree:K, leaf-spine:LEAVESxSPINESxHOSTS, rail:"),
        ("leaf-spine:3x2x4", "dragonfly:2,4,2,12", flow, "net.toml:3: topology = \"dragonfly:2,4,2,12\": dragonfly:P,A,H[,GROUPS] cannot be wired: needs 2 to A H + 1 = 9 groups, not 12"),
        ("leaf-spine:3x2x4", "dragonfly:2,4,2,4", flow, "net.toml:3: topology = \"dragonfly:2,4,2,4\": dragonfly:P,A,H[,GROUPS] cannot be wired: the A H = 8 links of a group to the 3 others do not divide evenly"),
        ("leaf-spine:3x2x4", "dragonfly:4000000000,4000000000,4000000000", flow, "net.toml:3: topology = \"dragonfly:4000000000,4000000000,4000000000\": dragonfly:P,A,H[,GROUPS] needs positive numbers and at most 200000 links"),
        ("link_delay = \"1us\"", "", flow, "link_delay = \"\": must be given with topology"),
        ("link_delay = \"1us\"", "link_delay = \"1us\"\nbuffer = \"100B\"", flow, "net.toml:6: buffer = \"100B\": must hold at least one packet of 1500 bytes"),
        ("link_delay = \"1us\"", "link_delay = \"1us\"\noversubscription = 4\nfabric_rate = \"10Gbps\"", flow,
         "net.toml:6: oversubscription = \"4\": contradicts the rates: 4 x 10Gbps to hosts over 2 x 10Gbps are 2"),
        ("link_delay = \"1us\"", "link_delay = \"1us\"\noversubscription = 0", flow, "net.toml:6: oversubscription = \"0\": must be at least 0.001"),
        ("leaf-spine:3x2x4\"", "dragonfly:2,4,2\"\noversubscription = 2", flow, "net.toml:4: oversubscription = \"2\": is not defined for dragonfly"),
        ("link_delay = \"1us\"", "link_delay = \"1us\"\nhosts = [\"a\"]", flow, "net.toml:6: hosts = \"\": cannot be given together with topology"),
        ("1us", "1us", "from = \"h0\"\nto = \"h12\"", "net.toml:8: workload[1].to = \"h12\": is neither among hosts nor among switches; hosts are h0 to h11"),
        ("1us", "1us", "kind = \"incast\"\nfrom = \"h[0-12]\"\nto = \"h1\"\nresponse = \"1KB\"\nevery = \"1ms\"", "net.toml:8: workload[1].from = \"h12\": is neither among"),
    ] {
        let text = custom(&good.replace(from, to), workload).err().unwrap_or_default();
        assert!(text.starts_with(expected) || text.ends_with(expected), "{from} -> {to}\n  says     {text}\n  expected {expected}");
        assert!(!text.contains('\n'));
    }
}
