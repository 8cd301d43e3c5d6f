//! Nodes, links and shortest paths. Numbers follow the declared order, so results never depend on names.

use crate::fabric_options::LinkOptions;
use penstock_core::rng::Entity;
use penstock_core::{Amount, ParamError, Stream};
use penstock_fabric::{Edge, Forwarding, ForwardingConfig, Graph, Reroute, Spread};
use penstock_models::QueueSpec;
use penstock_units::{Dur, Rate};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// A host ends connections; a switch forwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeKind {
    /// Ends connections and never forwards.
    Host,
    /// Forwards and never ends connections.
    Switch,
}

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Name, for tables and messages only.
    pub name: String,
    /// Host or switch.
    pub kind: NodeKind,
}

/// One direction of a link, with the output port that feeds it.
#[derive(Clone, Debug)]
pub struct Link {
    /// Node whose port it is.
    pub from: u32,
    /// Node it leads to.
    pub to: u32,
    /// Rate.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Dur,
    /// Limit of the port; `None` = unlimited.
    pub buffer: Option<Amount>,
    /// Queue discipline.
    pub queue: QueueSpec,
    /// Probability of random loss.
    pub loss: f64,
    /// The protocol's router part, when it has one, works on this port.
    pub controlled: bool,
    /// What it has of its own instead of the run's.
    pub options: LinkOptions,
}

/// What the ports of one kind of link look like.
#[derive(Clone, Debug)]
pub struct LinkSpec {
    /// Rate.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Dur,
    /// Limit of a switch's port; hosts queue without limit. `None` = unlimited.
    pub buffer: Option<Amount>,
    /// Discipline of a switch's port; hosts use drop tail.
    pub queue: QueueSpec,
}

/// A network: nodes and directed links, numbered in declared order.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    /// Nodes.
    pub nodes: Vec<Node>,
    /// Links; a link's number is its port's number.
    pub links: Vec<Link>,
    out: Vec<Vec<u32>>,
    into: Vec<Vec<u32>>,
    /// Numbers by name, the first of equals. The map is made at the first look-up, which most runs of large networks never need.
    names: OnceLock<BTreeMap<String, u32>>,
}

impl Topology {
    /// One that will have so many nodes and directed links.
    pub fn with_room(nodes: usize, links: usize) -> Topology {
        Topology {
            nodes: Vec::with_capacity(nodes),
            links: Vec::with_capacity(links),
            out: Vec::with_capacity(nodes),
            into: Vec::with_capacity(nodes),
            names: OnceLock::new(),
        }
    }
    /// Adds a node.
    pub fn add(&mut self, name: impl Into<String>, kind: NodeKind) -> u32 {
        let (name, number) = (name.into(), self.nodes.len() as u32);
        self.names.take();
        self.nodes.push(Node { name, kind });
        self.out.push(Vec::new());
        self.into.push(Vec::new());
        number
    }
    /// Adds a host.
    pub fn host(&mut self, name: impl Into<String>) -> u32 {
        self.add(name, NodeKind::Host)
    }
    /// Adds a switch.
    pub fn switch(&mut self, name: impl Into<String>) -> u32 {
        self.add(name, NodeKind::Switch)
    }
    /// Adds one direction of a link.
    pub fn add_link(&mut self, link: Link) -> u32 {
        let id = self.links.len() as u32;
        self.out[link.from as usize].push(id);
        self.into[link.to as usize].push(id);
        self.links.push(link);
        id
    }
    /// Adds a full-duplex link; returns the ports a -> b and b -> a.
    pub fn connect(&mut self, a: u32, b: u32, spec: &LinkSpec) -> (u32, u32) {
        let direction = |t: &Topology, from: u32, to: u32| {
            let host = t.nodes[from as usize].kind == NodeKind::Host;
            Link {
                from,
                to,
                rate: spec.rate,
                delay: spec.delay,
                buffer: if host { None } else { spec.buffer },
                queue: if host { drop_tail() } else { spec.queue.clone() },
                loss: 0.0,
                controlled: !host,
                options: LinkOptions::default(),
            }
        };
        let (ab, ba) = (direction(self, a, b), direction(self, b, a));
        (self.add_link(ab), self.add_link(ba))
    }
    /// What forwarding has to know of it; links weigh what they carry.
    pub fn graph(&self) -> Graph {
        let edge = |l: &Link| Edge { from: l.from, to: l.to, weight: l.rate.0.max(1) };
        Graph {
            hosts: self.nodes.iter().map(|n| n.kind == NodeKind::Host).collect(),
            links: self.links.iter().map(edge).collect(),
        }
    }
    /// The node of that name.
    pub fn find(&self, name: &str) -> Option<u32> {
        let names = self.names.get_or_init(|| {
            let mut names = BTreeMap::new();
            for (node, number) in self.nodes.iter().zip(0..) {
                names.entry(node.name.clone()).or_insert(number);
            }
            names
        });
        names.get(name).copied()
    }
    /// The link from one node to another.
    pub fn link_between(&self, from: u32, to: u32) -> Option<u32> {
        self.out[from as usize].iter().copied().find(|l| self.links[*l as usize].to == to)
    }
    /// All links from one node to another.
    pub fn links_between(&self, from: u32, to: u32) -> Vec<u32> {
        self.out[from as usize].iter().copied().filter(|l| self.links[*l as usize].to == to).collect()
    }
    /// The output ports of a node, in declared order.
    pub fn ports_of(&self, node: u32) -> Vec<u32> {
        self.out[node as usize].clone()
    }
    /// The links into a node, in declared order.
    pub fn links_into(&self, node: u32) -> &[u32] {
        &self.into[node as usize]
    }
    /// All hosts, in declared order.
    pub fn hosts(&self) -> Vec<u32> {
        (0..self.nodes.len() as u32).filter(|n| self.nodes[*n as usize].kind == NodeKind::Host).collect()
    }
    /// `switch->client`, for tables.
    pub fn link_name(&self, link: u32) -> String {
        let l = &self.links[link as usize];
        format!("{}->{}", self.nodes[l.from as usize].name, self.nodes[l.to as usize].name)
    }
}

/// The plain discipline.
pub fn drop_tail() -> QueueSpec {
    static PLAIN: OnceLock<QueueSpec> = OnceLock::new();
    PLAIN.get_or_init(|| QueueSpec::parse("queue", "droptail").expect("droptail is registered")).clone()
}

/// Whole paths as flows take them under the rule `drawn`, for whoever looks at a network before a run.
pub struct Routes {
    forwarding: Forwarding,
}

impl Routes {
    /// Prepares routing on `t`.
    pub fn new(t: &Topology) -> Routes {
        let config = ForwardingConfig {
            graph: t.graph(),
            spread: Spread::Drawn,
            spread_at: Vec::new(),
            reroute: Reroute::AtOnce,
            rng: Stream::new(0, 0, Entity::Forward, 0),
            known: None,
        };
        Routes { forwarding: Forwarding::new(config).expect("links of a topology join its nodes") }
    }
    /// The ports a packet takes from `src` to `dst`; equal-cost choices by `rng`.
    ///
    /// # Errors
    /// When there is no path.
    pub fn path(
        &mut self,
        t: &Topology,
        src: u32,
        dst: u32,
        rng: &mut Stream,
    ) -> Result<Vec<u32>, ParamError> {
        let mut path = Vec::new();
        let f = &mut self.forwarding;
        let found = f.draw(src, dst, rng).and_then(|entropy| f.path(src, dst, entropy, &mut path));
        found.map(|()| path).map_err(|e| e.named(|n| t.nodes[n as usize].name.clone()))
    }
}

/// The identities of connections: source host, workload, and how many that workload has opened there before. So another workload, or
/// another host, changes no identity, and neither does the order in which hosts open connections.
#[derive(Clone, Debug, Default)]
pub struct Keys(BTreeMap<(u32, u32), u64>);

impl Keys {
    /// The key of the next connection of a workload from `src`, which random streams are made from.
    pub fn next(&mut self, src: u32, workload: u32) -> u64 {
        let count = self.0.entry((src, workload)).or_default();
        let key = Keys::of(src, workload, *count);
        *count += 1;
        key
    }
    /// The key of connection `count` of a workload from `src`: a hash, as no limits of these numbers fit into 64 bits.
    fn of(src: u32, workload: u32, count: u64) -> u64 {
        Stream::new(u64::from(src), u64::from(workload), Entity::Sender, count).next_u64()
    }
}

/// The stream that draws the equal-cost choices of the connection with this key ([`Keys`]).
pub fn route_stream(seed: u64, run: u64, key: u64) -> Stream {
    Stream::new(seed, run, Entity::Route, key)
}

// ---- ready-made networks -----------------------------------------------------------------------------------

/// `servers` hosts and a client around one switch; returns the topology, the servers, the client.
pub fn star(servers: u32, spec: &LinkSpec) -> (Topology, Vec<u32>, u32) {
    let mut t = Topology::default();
    let switch = t.switch("switch");
    let client = t.host("client");
    t.connect(switch, client, spec);
    let servers = (0..servers)
        .map(|i| {
            let s = t.host(format!("server{i}"));
            t.connect(s, switch, spec);
            s
        })
        .collect();
    (t, servers, client)
}

/// `pairs` senders and receivers on both sides of one bottleneck; `access` are the outer links.
pub fn dumbbell(pairs: u32, access: &[LinkSpec], bottleneck: &LinkSpec) -> (Topology, Vec<(u32, u32)>, u32) {
    let mut t = Topology::default();
    let left = t.switch("left");
    let right = t.switch("right");
    let (port, _) = t.connect(left, right, bottleneck);
    let hosts = (0..pairs)
        .map(|i| {
            let spec = &access[i as usize % access.len()];
            let s = t.host(format!("sender{i}"));
            let r = t.host(format!("receiver{i}"));
            t.connect(s, left, spec);
            t.connect(right, r, spec);
            (s, r)
        })
        .collect();
    (t, hosts, port)
}

/// What [`parking_lot`] builds.
pub struct ParkingLot {
    /// The network.
    pub topology: Topology,
    /// Sender and receiver of the flow over all hops.
    pub long: (u32, u32),
    /// Sender and receiver of each hop's own flow.
    pub cross: Vec<(u32, u32)>,
    /// Port of each hop.
    pub ports: Vec<u32>,
}

/// A chain of switches, one per entry of `hops` plus one; a pair of hosts spans each hop, one spans all.
pub fn parking_lot(access: &LinkSpec, hops: &[LinkSpec]) -> ParkingLot {
    let mut t = Topology::default();
    let switches: Vec<u32> = (0..=hops.len()).map(|i| t.switch(format!("s{i}"))).collect();
    let ports: Vec<u32> =
        hops.iter().enumerate().map(|(i, h)| t.connect(switches[i], switches[i + 1], h).0).collect();
    let pair = |t: &mut Topology, name: String, a: u32, b: u32| {
        let s = t.host(format!("{name}-from"));
        let r = t.host(format!("{name}-to"));
        t.connect(s, a, access);
        t.connect(b, r, access);
        (s, r)
    };
    let long = pair(&mut t, "long".into(), switches[0], switches[hops.len()]);
    let cross =
        (0..hops.len()).map(|i| pair(&mut t, format!("hop{i}"), switches[i], switches[i + 1])).collect();
    ParkingLot { topology: t, long, cross, ports }
}

/// The four-switch tree of munir-sdc-racs Fig 3.6: hosts under S1, S2, S3, and those under S4.
/// `hosts[i]` are the hosts of leaf switch i.
pub fn four_switch_tree(hosts: &[u32; 3], spec: &LinkSpec) -> (Topology, [Vec<u32>; 3], [u32; 4]) {
    let mut t = Topology::default();
    let s: Vec<u32> = (1..=4).map(|i| t.switch(format!("S{i}"))).collect();
    for leaf in &s[..3] {
        t.connect(*leaf, s[3], spec);
    }
    let mut number = 0;
    let groups = [0, 1, 2].map(|leaf| {
        (0..hosts[leaf])
            .map(|_| {
                number += 1;
                let h = t.host(format!("h{number}"));
                t.connect(h, s[leaf], spec);
                h
            })
            .collect()
    });
    (t, groups, [s[0], s[1], s[2], s[3]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topologies::{leaf_spine, parse_topology};

    fn fat_tree(k: u32, spec: &LinkSpec) -> Topology {
        parse_topology("topology", &format!("fat-tree:{k}"), spec).unwrap()
    }

    fn spec() -> LinkSpec {
        LinkSpec { rate: Rate(1_000_000_000), delay: Dur::micros(1), buffer: None, queue: drop_tail() }
    }

    #[test]
    fn a_fat_tree_has_its_published_size_and_uses_every_core() {
        let t = fat_tree(8, &spec());
        let hosts = t.hosts();
        assert_eq!((hosts.len(), t.nodes.len() - hosts.len(), t.links.len()), (128, 80, 2 * 3 * 128));
        let mut routes = Routes::new(&t);
        let mut cores = std::collections::BTreeSet::new();
        for flow in 0..400 {
            let path = routes.path(&t, hosts[0], hosts[127], &mut route_stream(1, 0, flow)).unwrap();
            assert_eq!(path.len(), 6);
            cores.insert(t.links[path[2] as usize].to);
        }
        assert_eq!(cores.len(), 16);
    }
    /// Paths as they were found before tables were shared: a search from every destination, over all nodes.
    fn by_search(t: &Topology, src: u32, dst: u32, rng: &mut Stream) -> Vec<u32> {
        let mut d = vec![u32::MAX; t.nodes.len()];
        d[dst as usize] = 0;
        let mut queue = std::collections::VecDeque::from([dst]);
        while let Some(n) = queue.pop_front() {
            if n != dst && t.nodes[n as usize].kind == NodeKind::Host {
                continue;
            }
            for l in t.links.iter().filter(|l| l.to == n) {
                if d[l.from as usize] == u32::MAX {
                    d[l.from as usize] = d[n as usize] + 1;
                    queue.push_back(l.from);
                }
            }
        }
        let (mut at, mut path) = (src, Vec::new());
        while at != dst {
            let closer = |l: &&u32| {
                let to = t.links[**l as usize].to as usize;
                d[to] != u32::MAX && d[to] + 1 == d[at as usize]
            };
            let choices: Vec<u32> = t.out[at as usize].iter().filter(closer).copied().collect();
            let pick = if choices.len() > 1 { rng.below(choices.len() as u64) as usize } else { 0 };
            path.push(choices[pick]);
            at = t.links[choices[pick] as usize].to;
        }
        path
    }
    #[test]
    fn tables_shared_by_leaf_give_the_paths_of_a_search_from_every_host() {
        let s = spec();
        for t in
            [fat_tree(4, &s), leaf_spine(4, 3, 5, &s, &s), star(7, &s).0, four_switch_tree(&[3, 2, 4], &s).0]
                .into_iter()
                .chain(
                    ["rail:3x4x2x2", "dragonfly:2,4,2"].map(|n| parse_topology("topology", n, &s).unwrap()),
                )
        {
            let hosts = t.hosts();
            let mut routes = Routes::new(&t);
            for (i, src) in hosts.iter().enumerate() {
                for (j, dst) in hosts.iter().enumerate().filter(|(j, _)| *j != i) {
                    let rng = || route_stream(7, 0, (i * hosts.len() + j) as u64);
                    let path = routes.path(&t, *src, *dst, &mut rng()).unwrap();
                    assert_eq!(path, by_search(&t, *src, *dst, &mut rng()));
                }
            }
        }
    }
    #[test]
    fn a_host_with_two_links_is_reached_by_both_and_passed_by_none() {
        // a - x - h - y - b, and x - z - y: h is nearer, but it is a host.
        let mut t = Topology::default();
        let (x, y, z) = (t.switch("x"), t.switch("y"), t.switch("z"));
        let (a, b, h) = (t.host("a"), t.host("b"), t.host("h"));
        for (one, other) in [(a, x), (x, h), (h, y), (y, b), (x, z), (z, y)] {
            t.connect(one, other, &spec());
        }
        let mut routes = Routes::new(&t);
        let nodes = |routes: &mut Routes, src, dst| -> Vec<u32> {
            let path = routes.path(&t, src, dst, &mut route_stream(1, 0, 0)).unwrap();
            path.iter().map(|l| t.links[*l as usize].to).collect()
        };
        assert_eq!(nodes(&mut routes, a, b), [x, z, y, b]);
        assert_eq!(nodes(&mut routes, a, h), [x, h]);
        assert_eq!(nodes(&mut routes, b, h), [y, h]);
        assert_eq!(nodes(&mut routes, h, b), [y, b]);
    }
    #[test]
    fn the_links_into_a_node_are_those_that_lead_there() {
        let t = fat_tree(4, &spec());
        for node in 0..t.nodes.len() as u32 {
            let found = (0..t.links.len() as u32).filter(|l| t.links[*l as usize].to == node);
            assert_eq!(t.links_into(node), found.collect::<Vec<_>>());
        }
    }
    #[test]
    fn hosts_do_not_forward() {
        let mut t = Topology::default();
        let (a, b, c) = (t.host("a"), t.host("b"), t.host("c"));
        t.connect(a, b, &spec());
        t.connect(b, c, &spec());
        let error = Routes::new(&t).path(&t, a, c, &mut route_stream(1, 0, 0)).unwrap_err();
        assert_eq!(error.rule, "no path leads from a to c");
    }
}
