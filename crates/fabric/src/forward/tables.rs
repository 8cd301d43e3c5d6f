//! Forwarding tables: which ports lead closer, for every node and every class of destinations.
//!
//! **Classes.** Hosts behind the same switch (or the same set of switches) are one class: away from those switches
//! packets for all of them take the same ports.
//!
//! **Groups.** The ports of a node that lead closer to a class. A node's groups are numbered by themselves, in the order
//! in which they appear, so that nodes that see the network alike have equal rows (class -> number of the group): these
//! are kept once. In a fat tree all edge switches share a row, all core switches another, and the aggregation switches of
//! a pod a third.
//!
//! **Search.** Hop counts to 64 classes are searched at once, a bit for each (multi-source breadth-first search: Then et
//! al., PVLDB 8(4), 2014). All levels of a class reach a switch in one operation. Which links lead closer is the
//! intersection of two levels.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

/// One direction of a link; its position is the number of the port that feeds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Edge {
    /// Node whose port it is.
    pub from: u32,
    /// Node it leads to.
    pub to: u32,
    /// Share of the traffic where ports are weighted: the rate in bit/s, or any other positive number.
    pub weight: u64,
}

/// A network: what forwarding has to know of it. Only switches forward.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Graph {
    /// True for a host, false for a switch; by node.
    pub hosts: Vec<bool>,
    /// Links, by port.
    pub links: Vec<Edge>,
}

/// Ports of equal cost. One: `first` is the port. More: `len` ports in [`Tables::members`] from `first` on. None: `first`
/// says why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Group {
    pub first: u32,
    pub len: u32,
    /// 2^64 over `len`, rounded up: see [`Group::split`].
    inverse: u64,
}

impl Group {
    fn new(first: u32, len: u32) -> Group {
        Group { first, len, inverse: (u64::MAX / u64::from(len.max(1))).wrapping_add(1) }
    }
    /// `digits` over `len`, and the rest, of a group of two ports or more.
    ///
    /// A product takes the place of a division, which takes a processor several times as long. `inverse` is (2^64 + e) / len with 0 <= e < len. The
    /// product over 2^64 is then digits / len + digits e / (len 2^64), and the second term, below 2^-32, reaches no whole number.
    #[inline(always)]
    fn split(self, digits: u32) -> (u32, u32) {
        let over = ((u128::from(digits) * u128::from(self.inverse)) >> 64) as u32;
        (over, digits.wrapping_sub(over.wrapping_mul(self.len)))
    }
}

/// `one` where `so`, else `other`, without a jump.
#[inline(always)]
fn choose(so: bool, one: u32, other: u32) -> u32 {
    let mask = u32::from(so).wrapping_neg();
    one & mask | other & !mask
}

/// No path.
const NOWHERE: u32 = 0;
/// The destination is attached to several switches, and this is one of them: [`Tables::attached`].
const ATTACHED: u32 = 1;
/// The node is a host with links to hosts: [`Tables::direct`].
const DIRECT: u32 = 2;

/// No class, router or group.
const NONE: u32 = u32::MAX;
/// Class of a node that is the only switch of no host: equal to no class.
const NO_OWN: u32 = u32::MAX - 1;

/// A destination.
#[derive(Clone, Copy, Debug)]
struct Place {
    class: u32,
    /// Group of its switch that leads to it, where it has one switch.
    down: u32,
}

/// A node that packets leave.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// Start of its row.
    row: u32,
    /// Its first group.
    base: u32,
    /// The class of hosts that have this switch only.
    class: u32,
    /// Its number among the routers.
    router: u32,
}

/// A host with links to hosts.
#[derive(Clone, Debug)]
struct Direct {
    row: u32,
    base: u32,
    /// Group by neighbour.
    to: BTreeMap<u32, u32>,
}

/// See the top of the file.
#[derive(Clone, Debug, Default)]
pub(super) struct Tables {
    places: Vec<Place>,
    nodes: Vec<Node>,
    /// Number of the group at its node, by row and class. Row 0 is zeros.
    rows: Vec<u32>,
    pub groups: Vec<Group>,
    pub members: Vec<u32>,
    /// Ends of the members' shares of 2^32, in their order; empty unless asked for.
    pub shares: Vec<u32>,
    /// Group by switch and host, for hosts with several switches.
    attached: BTreeMap<(u32, u32), u32>,
    direct: BTreeMap<u32, Direct>,
    classes: usize,
}

impl Tables {
    /// The group of `node` towards host `to`, by number.
    #[inline(always)]
    pub fn find(&self, node: u32, to: u32) -> u32 {
        let (place, node) = (&self.places[to as usize], &self.nodes[node as usize]);
        // Both are read: which of them it is, no processor can foresee.
        let other = node.base + self.rows[node.row as usize + place.class as usize];
        choose(place.class == node.class, place.down, other)
    }
    /// What is looked at for many packets at once.
    #[inline(always)]
    pub fn slices(&self) -> Slices<'_> {
        let Tables { places, nodes, rows, groups, members, .. } = self;
        Slices { places, nodes, rows, groups, members }
    }
    /// The group meant by one without ports; itself when there is no path.
    #[cold]
    #[inline(never)]
    pub fn resolve(&self, node: u32, to: u32, group: u32) -> u32 {
        match self.groups[group as usize].first {
            ATTACHED => self.attached[&(node, to)],
            DIRECT => {
                let direct = &self.direct[&node];
                let class = self.places[to as usize].class as usize;
                let other = || direct.base + self.rows[direct.row as usize + class];
                direct.to.get(&to).copied().unwrap_or_else(other)
            }
            _ => group,
        }
    }
    /// The ports by which `node` sends on what is for `to`, in ascending order; none when there is no path.
    pub fn ports_to(&self, node: u32, to: u32) -> &[u32] {
        let number = self.find(node, to);
        let group = match self.groups[number as usize].len {
            0 => self.resolve(node, to, number),
            _ => number,
        };
        self.ports(group)
    }
    /// The ports of a group.
    pub fn ports(&self, group: u32) -> &[u32] {
        let group = &self.groups[group as usize];
        match group.len {
            0 => &[],
            1 => core::slice::from_ref(&group.first),
            _ => &self.members[group.first as usize..][..group.len as usize],
        }
    }
    /// The member of a group of several ports that the lowest digit of `digits` says; the digit is taken off.
    #[inline]
    pub fn take_digit(&self, group: Group, digits: &mut u32) -> u32 {
        let pick;
        (*digits, pick) = group.split(*digits);
        self.members[(group.first + pick) as usize]
    }
    /// The member of a group of `len` ports from `first` on in whose share `draw` lies.
    #[inline]
    pub fn by_share(&self, first: u32, len: u32, draw: u32) -> u32 {
        let shares = &self.shares[first as usize..][..len as usize - 1];
        shares.iter().map(|end| u32::from(*end <= draw)).sum()
    }
    /// Number of a node among those that may have a choice.
    #[inline]
    pub fn router(&self, node: u32) -> u32 {
        self.nodes[node as usize].router
    }
    /// Bytes of all tables.
    pub fn bytes(&self) -> usize {
        use core::mem::size_of;
        self.places.len() * size_of::<Place>()
            + self.nodes.len() * size_of::<Node>()
            + self.groups.len() * size_of::<Group>()
            + (self.rows.len() + self.members.len() + self.shares.len()) * 4
            + self.attached.len() * 12
            + self.direct.values().map(|d| size_of::<Direct>() + d.to.len() * 8).sum::<usize>()
    }
    /// Rows that differ, and their length.
    pub fn rows(&self) -> (usize, usize) {
        (self.rows.len() / self.classes.max(1), self.classes)
    }
    /// Tables of `graph` over the links that are up. Destinations are hosts. `weighted`: with shares.
    pub fn new(graph: &Graph, up: &[bool], weighted: bool) -> Tables {
        Builder::new(graph, up).build(weighted)
    }
}

/// The tables for many packets at once: where they lie need not be looked up for each.
#[derive(Clone, Copy)]
pub(super) struct Slices<'a> {
    places: &'a [Place],
    nodes: &'a [Node],
    rows: &'a [u32],
    groups: &'a [Group],
    members: &'a [u32],
}

impl Slices<'_> {
    /// The group that [`Tables::find`] says.
    #[inline(always)]
    pub fn group(&self, node: u32, to: u32) -> Group {
        let (place, node) = (&self.places[to as usize], &self.nodes[node as usize]);
        let other = node.base + self.rows[node.row as usize + place.class as usize];
        self.groups[choose(place.class == node.class, place.down, other) as usize]
    }
    /// As [`Tables::take_digit`] for a group that may be one port alone, without a jump.
    #[inline(always)]
    pub fn look_at_digit(&self, group: Group, digits: &mut u32) -> u32 {
        let alone = group.len == 1;
        let (rest, pick) = group.split(*digits);
        *digits = choose(alone, *digits, rest);
        let member = self.members.get(choose(alone, 0, group.first.wrapping_add(pick)) as usize);
        choose(alone, group.first, member.copied().unwrap_or(0))
    }
}

/// Finds the groups of routers: switches, and hosts with several links or one to a host. Other hosts have one port for
/// everything.
struct Builder<'a> {
    graph: &'a Graph,
    up: &'a [bool],
    /// Router by node.
    rank: Vec<u32>,
    /// Node by router.
    routers: Vec<u32>,
    /// Links to switches of router r are `out[starts[r]..starts[r + 1]]`: port, router.
    starts: Vec<u32>,
    out: Vec<(u32, u32)>,
    /// The last links to every host that has a switch: (host, switch), ports.
    last: BTreeMap<(u32, u32), Vec<u32>>,
    /// Switches of a class, as routers.
    classes: Vec<Vec<u32>>,
    class_of: Vec<u32>,
    /// Groups of a router: number by ports.
    found: Vec<BTreeMap<Vec<u32>, u32>>,
}

/// Stands for [`ATTACHED`] among the lists of ports.
const SIGN: u32 = u32::MAX;
const BATCH: usize = 64;
type Block = [u32; BATCH];

impl<'a> Builder<'a> {
    fn new(graph: &'a Graph, up: &'a [bool]) -> Builder<'a> {
        let nodes = graph.hosts.len();
        // By the links there are, not by those that are up: who may have a choice does not change.
        let mut degree = vec![0u32; nodes];
        for l in &graph.links {
            degree[l.from as usize] += if graph.hosts[l.to as usize] { 2 } else { 1 };
        }
        let mut rank = vec![NONE; nodes];
        let mut routers = Vec::new();
        for node in 0..nodes {
            if !graph.hosts[node] || degree[node] > 1 {
                rank[node] = routers.len() as u32;
                routers.push(node as u32);
            }
        }
        let mut lists: Vec<Vec<(u32, u32)>> = vec![Vec::new(); routers.len()];
        let mut last: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
        for (port, l) in graph.links.iter().enumerate().filter(|(port, _)| up[*port]) {
            let port = port as u32;
            match (graph.hosts[l.from as usize], graph.hosts[l.to as usize]) {
                (false, true) => last.entry((l.to, l.from)).or_default().push(port),
                (_, false) if rank[l.from as usize] != NONE => {
                    lists[rank[l.from as usize] as usize].push((port, rank[l.to as usize]));
                }
                // The only link of a host; links between hosts are looked at by themselves.
                _ => {}
            }
        }
        let mut starts = vec![0];
        let mut out = Vec::new();
        for list in lists {
            out.extend(list);
            starts.push(out.len() as u32);
        }
        let found = vec![BTreeMap::new(); routers.len()];
        Builder {
            graph,
            up,
            rank,
            routers,
            starts,
            out,
            last,
            classes: Vec::new(),
            class_of: Vec::new(),
            found,
        }
    }
    fn links(&self, router: usize) -> core::ops::Range<usize> {
        self.starts[router] as usize..self.starts[router + 1] as usize
    }
    /// Numbers the classes in order of their first host. Nodes without a switch share one that no path reaches.
    fn classify(&mut self) {
        let mut switches = vec![Vec::new(); self.graph.hosts.len()];
        for (host, switch) in self.last.keys() {
            switches[*host as usize].push(self.rank[*switch as usize]);
        }
        let mut known: BTreeMap<Vec<u32>, u32> = BTreeMap::new();
        for set in switches {
            let next = known.len() as u32;
            let class = *known.entry(set).or_insert_with_key(|set| {
                self.classes.push(set.clone());
                next
            });
            self.class_of.push(class);
        }
    }
    fn number(&mut self, router: usize, ports: Vec<u32>) -> u32 {
        let found = &mut self.found[router];
        // 0 is "nowhere".
        let next = found.len() as u32 + 1;
        *found.entry(ports).or_insert(next)
    }
    /// Groups of all routers for `classes` (at most 64): a block of every router's row.
    fn search(&mut self, classes: core::ops::Range<usize>, closer: &mut [u64], blocks: &mut [Block]) {
        let n = self.routers.len();
        let all = u64::MAX >> (BATCH - classes.len());
        let (mut frontier, mut next) = (vec![0u64; n], vec![0u64; n]);
        for (bit, class) in classes.clone().enumerate() {
            self.classes[class].iter().for_each(|s| frontier[*s as usize] |= 1 << bit);
        }
        let roots = frontier.clone();
        let mut seen = frontier.clone();
        closer.fill(0);
        loop {
            let mut any = false;
            for r in 0..n {
                next[r] = 0;
                let open = all & !seen[r];
                if open == 0 {
                    continue;
                }
                let links = self.links(r);
                let reached = self.out[links.clone()].iter().fold(0, |m, (_, to)| m | frontier[*to as usize]);
                let new = reached & open;
                if new != 0 {
                    any = true;
                    next[r] = new;
                    for i in links {
                        closer[i] |= frontier[self.out[i].1 as usize] & new;
                    }
                }
            }
            if !any {
                break;
            }
            seen.iter_mut().zip(&next).for_each(|(s, new)| *s |= new);
            core::mem::swap(&mut frontier, &mut next);
        }
        for r in 0..n {
            blocks[r] = self.block(r, classes.clone(), roots[r], seen[r], closer);
        }
    }
    /// A block of a router's row: its classes are parted by the links that lead closer to them.
    fn block(
        &mut self,
        r: usize,
        classes: core::ops::Range<usize>,
        root: u64,
        seen: u64,
        closer: &[u64],
    ) -> Block {
        let mut block = [0; BATCH];
        let put = |block: &mut Block, mut bits: u64, number| {
            while bits != 0 {
                block[bits.trailing_zeros() as usize] = number;
                bits &= bits - 1;
            }
        };
        let mut several = 0;
        for (bit, class) in classes.enumerate() {
            several |= u64::from(self.classes[class].len() > 1) << bit;
        }
        // The entry of its own class is never read: any value will do that lets switches share a row.
        put(&mut block, root & !several, 1);
        let mut left = seen & !root;
        while left != 0 {
            let first = left & left.wrapping_neg();
            let (mut same, mut ports) = (left, Vec::new());
            for i in self.links(r) {
                let leads = closer[i] & first != 0;
                same &= if leads { closer[i] } else { !closer[i] };
                if leads {
                    ports.push(self.out[i].0);
                }
            }
            let number = self.number(r, ports);
            put(&mut block, same, number);
            left &= !same;
        }
        if root & several != 0 {
            let number = self.number(r, vec![SIGN]);
            put(&mut block, root & several, number);
        }
        block
    }
    fn build(mut self, weighted: bool) -> Tables {
        self.classify();
        let (n, classes) = (self.routers.len(), self.classes.len());
        let mut t = Tables { classes, rows: vec![0; classes], ..Tables::default() };
        // A row so far is what it was before and a block: only those that differ are kept.
        let mut chains: Vec<(u32, u32)> = Vec::new();
        let mut kept: Vec<Block> = Vec::new();
        let mut chain_of = vec![NONE; n];
        let mut closer = vec![0u64; self.out.len()];
        let mut blocks = vec![[0; BATCH]; n];
        for start in (0..classes).step_by(BATCH) {
            self.search(start..classes.min(start + BATCH), &mut closer, &mut blocks);
            let mut block_of: BTreeMap<&Block, u32> = BTreeMap::new();
            let mut extended: BTreeMap<(u32, u32), u32> = BTreeMap::new();
            for (chain, block) in chain_of.iter_mut().zip(&blocks) {
                let block = *block_of.entry(block).or_insert_with(|| {
                    kept.push(*block);
                    kept.len() as u32 - 1
                });
                *chain = *extended.entry((*chain, block)).or_insert_with(|| {
                    chains.push((*chain, block));
                    chains.len() as u32 - 1
                });
            }
        }
        let mut row_of: BTreeMap<u32, u32> = BTreeMap::new();
        for chain in &chain_of {
            if row_of.contains_key(chain) {
                continue;
            }
            let start = t.rows.len();
            row_of.insert(*chain, start as u32);
            t.rows.resize(start + classes, 0);
            let (mut at, mut end) = (*chain, classes);
            while at != NONE {
                let (before, block) = chains[at as usize];
                let begin = (end - 1) / BATCH * BATCH;
                t.rows[start + begin..start + end].copy_from_slice(&kept[block as usize][..end - begin]);
                (at, end) = (before, begin);
            }
        }
        t.groups.push(Group::new(NOWHERE, 0));
        self.lay_out(&mut t, &chain_of, &row_of);
        if weighted {
            t.share(self.graph);
        }
        t
    }
    /// Nodes, destinations and groups in their final places.
    fn lay_out(&mut self, t: &mut Tables, chain_of: &[u32], row_of: &BTreeMap<u32, u32>) {
        let hosts = &self.graph.hosts;
        t.nodes = vec![Node { row: 0, base: 0, class: NO_OWN, router: NONE }; hosts.len()];
        for (r, found) in core::mem::take(&mut self.found).into_iter().enumerate() {
            let base = t.groups.len() as u32;
            t.groups.push(Group::new(NOWHERE, 0));
            let mut lists = vec![Vec::new(); found.len()];
            found.into_iter().for_each(|(ports, number)| lists[number as usize - 1] = ports);
            lists.iter().for_each(|ports| t.push(ports));
            let row = row_of[&chain_of[r]];
            t.nodes[self.routers[r] as usize] = Node { row, base, class: NO_OWN, router: r as u32 };
        }
        for (class, switches) in self.classes.iter().enumerate() {
            if let [only] = switches[..] {
                t.nodes[self.routers[only as usize] as usize].class = class as u32;
            }
        }
        t.places = self.class_of.iter().map(|class| Place { class: *class, down: 0 }).collect();
        for ((host, switch), ports) in &self.last {
            let group = t.groups.len() as u32;
            t.push(ports);
            match self.classes[self.class_of[*host as usize] as usize].len() {
                1 => t.places[*host as usize].down = group,
                _ => drop(t.attached.insert((*switch, *host), group)),
            }
        }
        let mut neighbours: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
        for (port, l) in self.graph.links.iter().enumerate().filter(|(port, _)| self.up[*port]) {
            if !hosts[l.from as usize] {
                continue;
            }
            if self.rank[l.from as usize] == NONE {
                t.nodes[l.from as usize].base = t.groups.len() as u32;
                t.push(&[port as u32]);
            } else if hosts[l.to as usize] {
                neighbours.entry((l.from, l.to)).or_default().push(port as u32);
            }
        }
        for ((host, to), ports) in neighbours {
            let group = t.groups.len() as u32;
            t.push(&ports);
            let node = &mut t.nodes[host as usize];
            let Node { row, base, .. } = *node;
            let direct = t.direct.entry(host).or_insert_with(|| Direct { row, base, to: BTreeMap::new() });
            direct.to.insert(to, group);
        }
        for host in t.direct.keys() {
            let node = &mut t.nodes[*host as usize];
            (node.row, node.base) = (0, t.groups.len() as u32);
            t.groups.push(Group::new(DIRECT, 0));
        }
    }
}

impl Tables {
    fn push(&mut self, ports: &[u32]) {
        let group = match *ports {
            [SIGN] => Group::new(ATTACHED, 0),
            [only] => Group::new(only, 1),
            _ => {
                let first = self.members.len() as u32;
                self.members.extend_from_slice(ports);
                Group::new(first, ports.len() as u32)
            }
        };
        self.groups.push(group);
    }
    /// Parts 2^32 among the members of every group by their weights.
    pub fn share(&mut self, graph: &Graph) {
        self.shares.clear();
        for group in self.groups.iter().filter(|g| g.len > 1) {
            let ports = &self.members[group.first as usize..][..group.len as usize];
            let weight = |port: &u32| u128::from(graph.links[*port as usize].weight);
            let total: u128 = ports.iter().map(weight).sum();
            let mut sum = 0;
            for port in ports {
                sum += weight(port);
                self.shares.push(((sum << 32) / total).min(u128::from(u32::MAX)) as u32);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_splits_digits_as_a_division_does() {
        let mut x = 1u64;
        for len in (2..2_000).chain([65_535, 65_536, 1 << 31, u32::MAX - 1, u32::MAX]) {
            let group = Group::new(0, len);
            for n in [0, 1, len - 1, len, 2 * (len / 2), u32::MAX - 1, u32::MAX] {
                assert_eq!(group.split(n), (n / len, n % len), "{n} by {len}");
            }
            for _ in 0..100 {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let n = (x >> 32) as u32;
                assert_eq!(group.split(n), (n / len, n % len), "{n} by {len}");
            }
        }
    }
}
