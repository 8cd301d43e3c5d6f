//! Nodes, links and shortest paths. Numbers follow the declared order, so results never depend on names.

use crate::fabric_options::LinkOptions;
use penstock_core::rng::Entity;
use penstock_core::{Amount, ParamError, Stream};
use penstock_models::QueueSpec;
use penstock_units::{Dur, Rate};
use std::collections::BTreeMap;

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
    names: BTreeMap<String, u32>,
}

impl Topology {
    /// Adds a node.
    pub fn add(&mut self, name: impl Into<String>, kind: NodeKind) -> u32 {
        let (name, number) = (name.into(), self.nodes.len() as u32);
        self.names.entry(name.clone()).or_insert(number);
        self.nodes.push(Node { name, kind });
        self.out.push(Vec::new());
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
    /// The node of that name.
    pub fn find(&self, name: &str) -> Option<u32> {
        self.names.get(name).copied()
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
    QueueSpec::parse("queue", "droptail").expect("droptail is registered")
}

/// Shortest paths by number of links; equal-cost choices are drawn once per connection.
///
/// Distances are kept per destination switch and for switches only: hosts behind one switch share its table, and a
/// fat tree of 65,536 hosts takes 21 MB of them instead of 18 GB.
pub struct Routes {
    /// Distance of every switch to a root, by node of the root; computed when first needed.
    distances: BTreeMap<u32, Box<[u16]>>,
    /// Links from switches into every node.
    into: Vec<Vec<u32>>,
    /// Position of every switch among the switches; [`HOST`] for hosts.
    rank: Vec<u32>,
    switches: usize,
}

/// Rank of a host.
const HOST: u32 = u32::MAX;
/// Distance of a switch from which there is no path.
const FAR: u16 = u16::MAX;

/// Where paths to a destination are looked up: distances to `root`, and the links from there on.
struct Towards<'a> {
    dst: u32,
    beyond: u32,
    distances: &'a [u16],
    rank: &'a [u32],
}

impl Towards<'_> {
    /// Links from `node` to the destination, when packets may pass through it.
    fn distance(&self, node: u32) -> Option<u32> {
        if node == self.dst {
            return Some(0);
        }
        // Only switches forward.
        match self.rank[node as usize] {
            HOST => None,
            rank => match self.distances[rank as usize] {
                FAR => None,
                d => Some(u32::from(d) + self.beyond),
            },
        }
    }
}

impl Routes {
    /// Prepares routing on `t`.
    pub fn new(t: &Topology) -> Routes {
        let mut rank = vec![HOST; t.nodes.len()];
        let mut switches = 0;
        for (node, r) in t.nodes.iter().zip(&mut rank) {
            if node.kind == NodeKind::Switch {
                *r = switches;
                switches += 1;
            }
        }
        let mut into = vec![Vec::new(); t.nodes.len()];
        for (i, l) in t.links.iter().enumerate() {
            if rank[l.from as usize] != HOST {
                into[l.to as usize].push(i as u32);
            }
        }
        Routes { distances: BTreeMap::new(), into, rank, switches: switches as usize }
    }
    /// The only switch before `dst`, when there is but one and no host sends to it directly.
    fn leaf(&self, t: &Topology, dst: u32) -> Option<u32> {
        let first = t.links[*self.into[dst as usize].first()? as usize].from;
        let alone = self.into[dst as usize].iter().all(|l| t.links[*l as usize].from == first);
        (self.rank[dst as usize] == HOST && alone).then_some(first)
    }
    fn towards(&mut self, t: &Topology, dst: u32) -> Towards<'_> {
        let (root, beyond) = self.leaf(t, dst).map_or((dst, 0), |leaf| (leaf, 1));
        let Routes { distances, into, rank, switches } = self;
        let distances = distances.entry(root).or_insert_with(|| {
            let mut d = vec![FAR; *switches].into_boxed_slice();
            if rank[root as usize] != HOST {
                d[rank[root as usize] as usize] = 0;
            }
            let mut queue = std::collections::VecDeque::from([(root, 0)]);
            while let Some((node, distance)) = queue.pop_front() {
                for l in &into[node as usize] {
                    let from = t.links[*l as usize].from;
                    let known = &mut d[rank[from as usize] as usize];
                    if *known == FAR {
                        *known = distance + 1;
                        queue.push_back((from, distance + 1));
                    }
                }
            }
            d
        });
        Towards { dst, beyond, distances, rank }
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
        let name = |n: u32| t.nodes[n as usize].name.clone();
        if src == dst {
            return Err(ParamError::new("flow", name(src), "must lead to another host than its own"));
        }
        let towards = self.towards(t, dst);
        let next = |l: &u32| towards.distance(t.links[*l as usize].to);
        let Some(mut left) = t.out[src as usize].iter().filter_map(next).min().map(|d| d + 1) else {
            let rule = format!("no path leads from {} to {}", name(src), name(dst));
            return Err(ParamError::new("flow", format!("{} -> {}", name(src), name(dst)), rule));
        };
        let mut at = src;
        let mut path = Vec::with_capacity(left as usize);
        while left > 0 {
            let closer = |l: &&u32| next(l) == Some(left - 1);
            let choices = t.out[at as usize].iter().filter(closer).count() as u64;
            let pick = if choices > 1 { rng.below(choices) as usize } else { 0 };
            let link = *t.out[at as usize].iter().filter(closer).nth(pick).expect("a closer node exists");
            path.push(link);
            at = t.links[link as usize].to;
            left -= 1;
        }
        Ok(path)
    }
}

/// The stream that draws the equal-cost choices of connection `flow`.
pub fn route_stream(seed: u64, run: u64, flow: u32) -> Stream {
    Stream::new(seed, run, Entity::Route, u64::from(flow))
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
                    let rng = || route_stream(7, 0, (i * hosts.len() + j) as u32);
                    let path = routes.path(&t, *src, *dst, &mut rng()).unwrap();
                    assert_eq!(path, by_search(&t, *src, *dst, &mut rng()));
                }
            }
        }
    }
    #[test]
    fn the_tables_of_a_fat_tree_grow_with_its_leaves_and_not_with_its_hosts() {
        let t = fat_tree(16, &spec());
        let hosts = t.hosts();
        let mut routes = Routes::new(&t);
        for (i, dst) in hosts.iter().enumerate() {
            routes.path(&t, hosts[(i + 1) % hosts.len()], *dst, &mut route_stream(1, 0, 0)).unwrap();
        }
        let entries: usize = routes.distances.values().map(|d| d.len()).sum();
        assert_eq!((hosts.len(), entries), (1024, 128 * 320), "leaves times switches");
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
    fn hosts_do_not_forward() {
        let mut t = Topology::default();
        let (a, b, c) = (t.host("a"), t.host("b"), t.host("c"));
        t.connect(a, b, &spec());
        t.connect(b, c, &spec());
        let error = Routes::new(&t).path(&t, a, c, &mut route_stream(1, 0, 0)).unwrap_err();
        assert_eq!(error.rule, "no path leads from a to c");
    }
}
