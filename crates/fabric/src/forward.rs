//! Forwarding: from the destination in a cell to a port, by groups of ports of equal cost. No route is stored per flow.
//!
//! Paths are shortest by number of links. A switch knows, for every class of destinations (hosts behind the same switch),
//! the ports that lead closer; a spread rule picks one of them. With one port in the group a hop is one look-up.
//!
//! Under the rules `drawn` and `ideal` the path of a flow is chosen when it opens, and travels in the cell. The choices
//! are the digits of [`Cell::entropy`], the first one lowest, each in the base of its group's size. A switch with a
//! choice takes the lowest digit off. The field has no other use under these rules, and a queue that tells flows apart by
//! it needs another rule.
//!
//! **Failures.** With rerouting the groups are found anew, without the links that are down; digits drawn before then
//! count modulo the new sizes, so packets on their way and open flows go on, loop-free. Without rerouting switches do not
//! learn of it, and packets are sent to dead ports.

mod spread;
mod tables;

pub use spread::{Spread, SpreadRule, RULES};
pub use tables::{Edge, Graph};

use crate::cell::Cell;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use penstock_core::rng::Entity;
use penstock_core::{bail_if, ParamError, Stream};
use penstock_units::Time;
use tables::{Group, Slices, Tables};

/// Router of a node that never chooses.
const NONE: u32 = u32::MAX;

/// Why there is no path for a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RouteError {
    /// From a host to itself.
    Own(u32),
    /// No path over switches leads from one host to the other.
    NoPath(u32, u32),
    /// More paths than the 2^32 that digits can number.
    TooMany(u32, u32),
}

impl RouteError {
    /// As a user sees it; `name` gives the names of hosts.
    pub fn named(&self, name: impl Fn(u32) -> String) -> ParamError {
        let (src, dst, rule) = match *self {
            RouteError::Own(host) => {
                return ParamError::new("flow", name(host), "must lead to another host than its own");
            }
            RouteError::NoPath(a, b) => (a, b, format!("no path leads from {} to {}", name(a), name(b))),
            RouteError::TooMany(a, b) => (
                a,
                b,
                format!(
                    "more than 2^32 paths lead from {} to {}: spread must be another rule, such as flow",
                    name(a),
                    name(b)
                ),
            ),
        };
        ParamError::new("flow", format!("{} -> {}", name(src), name(dst)), rule)
    }
}

/// Who is told that a link is down.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reroute {
    /// Everybody, at once: groups are found anew without it.
    #[default]
    AtOnce,
    /// No switch: packets are still sent to its port.
    Never,
}

/// What a forwarding is built from.
pub struct ForwardingConfig {
    /// The network.
    pub graph: Graph,
    /// The rule of all nodes.
    pub spread: Spread,
    /// Nodes with another rule.
    pub spread_at: Vec<(u32, Spread)>,
    /// What follows a failure.
    pub reroute: Reroute,
    /// Stream from which nodes get theirs, and the seeds of their hash functions.
    pub rng: Stream,
    /// Tables that are known already, for another forwarding of the same network; those of another network are not looked at.
    pub known: Option<Known>,
}

/// The tables of a network all of whose links are up: what takes most of the time to build, and what many may read.
#[derive(Clone)]
pub struct Known {
    graph: Arc<Graph>,
    tables: Arc<Tables>,
    /// With shares.
    weighted: bool,
}

impl Known {
    fn new(graph: Graph, weighted: bool) -> Result<Known, ParamError> {
        let nodes = graph.hosts.len();
        for (port, l) in graph.links.iter().enumerate() {
            if l.from.max(l.to) as usize >= nodes {
                let value = format!("{} -> {}", l.from, l.to);
                let rule = format!("must join two of the {nodes} nodes, which are numbered from 0");
                return Err(ParamError::new(format!("link[{port}]"), value, rule));
            }
            bail_if!(l.weight == 0, ParamError::new(format!("link[{port}].weight"), 0, "must be positive"));
        }
        let tables = Arc::new(Tables::new(&graph, &vec![true; graph.links.len()], weighted));
        Ok(Known { graph: Arc::new(graph), tables, weighted })
    }
    /// Ports of `node` that lead closer to host `to` while all links are up, in ascending order; none when there is no path.
    pub fn ports(&self, node: u32, to: u32) -> &[u32] {
        self.tables.ports_to(node, to)
    }
    fn is_of(&self, graph: &Graph, weighted: bool) -> bool {
        self.weighted == weighted && *self.graph == *graph
    }
}

/// What a node needs to choose.
struct Router {
    spread: Spread,
    seed: u64,
    rng: Stream,
    /// Empty until the first choice.
    flowlets: Vec<Flowlet>,
}

/// An entry of a flowlet table. It has a drawn number in place of a port, so that flows with different groups can share
/// it and each keeps its port until the gap.
#[derive(Clone, Copy)]
struct Flowlet {
    last: u64,
    draw: u32,
}

/// See the top of the file.
pub struct Forwarding {
    graph: Arc<Graph>,
    up: Vec<bool>,
    tables: Arc<Tables>,
    routers: Vec<Router>,
    /// Whose turn it is, by group.
    turns: Vec<u32>,
    /// Flows that were given this port, for `ideal`.
    given: Vec<u32>,
    spread: Spread,
    /// [`Spread::is_digits`], which is of all nodes or of none.
    digits: bool,
    reroute: Reroute,
    /// Shares are kept.
    weighted: bool,
}

/// Where packets go on whose choices depend on nothing but themselves, for many of them at once.
#[derive(Clone, Copy)]
pub struct NextHops<'a> {
    forwarding: &'a Forwarding,
    tables: Slices<'a>,
    digits: bool,
}

impl NextHops<'_> {
    /// The port by which `node` sends a cell for `to` on, as [`Forwarding::next`].
    #[inline(always)]
    pub fn next(&self, node: u32, to: u32, entropy: &mut u32) -> Option<u32> {
        let group = self.tables.group(node, to);
        if self.digits && group.len > 0 {
            // Whether there is a choice depends on where the packet goes: no jump on it.
            let mut digits = *entropy;
            let port = self.tables.look_at_digit(group, &mut digits);
            *entropy = digits;
            return Some(port);
        }
        if group.len == 1 {
            return Some(group.first);
        }
        self.choose(node, to, entropy)
    }
    #[inline(never)]
    fn choose(&self, node: u32, to: u32, entropy: &mut u32) -> Option<u32> {
        let Forwarding { tables, routers, digits, .. } = self.forwarding;
        let number = tables.find(node, to);
        let mut group = tables.groups[number as usize];
        if group.len == 0 {
            group = tables.groups[tables.resolve(node, to, number) as usize];
        }
        match group.len {
            0 => return None,
            1 => return Some(group.first),
            _ if *digits => return Some(tables.take_digit(group, entropy)),
            _ => {}
        }
        let Group { first, len, .. } = group;
        let router = &routers[tables.router(node) as usize];
        let drawn = hash(router.seed, *entropy, to);
        let pick = match router.spread {
            Spread::Weighted { .. } => tables.by_share(first, len, drawn),
            _ => part(drawn, len),
        };
        Some(tables.members[(first + pick) as usize])
    }
}

/// Finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): every bit of the result depends on every bit of `x`.
#[inline]
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}
/// What a switch with this seed makes of a cell's flow: 32 bits.
#[inline]
fn hash(seed: u64, entropy: u32, to: u32) -> u32 {
    (mix(seed ^ (u64::from(to) << 32 | u64::from(entropy))) >> 32) as u32
}
/// One of `n` by a number uniform on 32 bits.
#[inline]
fn part(draw: u32, n: u32) -> u32 {
    ((u64::from(draw) * u64::from(n)) >> 32) as u32
}

/// No entry yet.
const UNUSED: Flowlet = Flowlet { last: u64::MAX, draw: 0 };

impl Router {
    fn new(spread: Spread, node: u32, rng: &Stream) -> Router {
        let (seed, alike) = match spread {
            Spread::Hash { seed, alike, .. } => (seed, alike),
            Spread::Weighted { seed } => (seed, false),
            _ => (None, false),
        };
        let chosen = seed.map(|s| Stream::new(s, 0, Entity::Route, u64::MAX));
        let tag = if alike { u64::MAX } else { 2 * u64::from(node) + 1 };
        let seed = chosen.as_ref().unwrap_or(rng).split(tag).next_u64();
        Router { spread, seed, rng: rng.split(2 * u64::from(node)), flowlets: Vec::new() }
    }
    /// The number that decides about a packet of this flow now.
    #[inline]
    fn flowlet(&mut self, now: Time, gap: u64, table: u32, cell: &Cell) -> u32 {
        if self.flowlets.is_empty() {
            self.flowlets = vec![UNUSED; table as usize];
        }
        let at = part(hash(self.seed, cell.entropy, cell.to), table);
        let entry = &mut self.flowlets[at as usize];
        if entry.last == UNUSED.last || now.0 - entry.last > gap {
            entry.draw = (self.rng.next_u64() >> 32) as u32;
        }
        entry.last = now.0;
        entry.draw
    }
}

impl Forwarding {
    /// Builds the tables, all links up.
    ///
    /// # Errors
    /// A link between nodes that do not exist, a weight of 0, a rule for a node that does not exist or has no choice (keys
    /// `link[..]`, `spread`, `spread[..]`). `drawn` and `ideal` must be the rule of all nodes.
    pub fn new(config: ForwardingConfig) -> Result<Forwarding, ParamError> {
        let ForwardingConfig { graph, spread, spread_at, reroute, rng, known } = config;
        let nodes = graph.hosts.len();
        let mut rules = vec![spread; nodes];
        for (node, rule) in &spread_at {
            let key = format!("spread[{node}]");
            if *node as usize >= nodes {
                return Err(ParamError::new(key, rule.name(), format!("no such node; there are {nodes}")));
            }
            if rule.is_digits() || spread.is_digits() {
                let rule_of_all = "drawn and ideal choose whole paths: they must be the rule of all nodes";
                return Err(ParamError::new(key, rule.name(), rule_of_all));
            }
            rules[*node as usize] = *rule;
        }
        let weighted = rules.iter().any(|s| matches!(s, Spread::Weighted { .. }));
        let known = known.filter(|known| known.is_of(&graph, weighted));
        let Known { graph, tables, .. } = known.map_or_else(|| Known::new(graph, weighted), Ok)?;
        let up = vec![true; graph.links.len()];
        if spread != Spread::Drawn && !tables.groups.iter().any(|g| g.len > 1) {
            return Err(spread.no_choice("spread", "no node of this network"));
        }
        let choosing = (0..nodes as u32).filter(|n| tables.router(*n) != NONE);
        let routers = choosing.map(|n| Router::new(rules[n as usize], n, &rng)).collect();
        let (turns, given) = (turns(&tables), vec![0; graph.links.len()]);
        let digits = spread.is_digits();
        let f = Forwarding { graph, up, tables, routers, turns, given, spread, digits, reroute, weighted };
        let mut chooses = vec![false; nodes];
        for group in f.tables.groups.iter().filter(|g| g.len > 1) {
            let port = f.tables.members[group.first as usize];
            chooses[f.graph.links[port as usize].from as usize] = true;
        }
        if let Some((node, rule)) = spread_at.iter().find(|(node, _)| !chooses[*node as usize]) {
            return Err(rule.no_choice(&format!("spread[{node}]"), &format!("node {node} never")));
        }
        Ok(f)
    }

    /// What another forwarding of the same network need not find again, as long as no link has changed.
    pub fn known(&self) -> Known {
        Known { graph: self.graph.clone(), tables: self.tables.clone(), weighted: self.weighted }
    }

    // ---- packets -----------------------------------------------------------------------------------------

    /// The port by which `node` sends a cell on towards host `cell.to`; `None` when there is no path. `backlog` gives the
    /// bytes in a port and is asked under the rule `adaptive` only.
    #[inline(always)]
    pub fn next(
        &mut self,
        node: u32,
        cell: &mut Cell,
        now: Time,
        backlog: impl FnMut(u32) -> u64,
    ) -> Option<u32> {
        let number = self.tables.find(node, cell.to);
        let group = self.tables.groups[number as usize];
        if group.len == 1 {
            return Some(group.first);
        }
        if group.len > 1 && self.digits {
            return Some(self.tables.take_digit(group, &mut cell.entropy));
        }
        self.choose(node, number, cell, now, backlog)
    }
    /// The port that [`Self::next`] will answer and the entropy that the cell will have then, where that can be told without changing
    /// anything: to look ahead. `cell` may be any.
    #[inline(always)]
    pub fn guess(&self, node: u32, cell: &Cell) -> Option<(u32, u32)> {
        let group = self.tables.groups[self.tables.find(node, cell.to) as usize];
        let mut entropy = cell.entropy;
        match group.len {
            0 => None,
            _ if self.digits => {
                let port = self.tables.slices().look_at_digit(group, &mut entropy);
                Some((port, entropy))
            }
            1 => Some((group.first, entropy)),
            _ => self.guess_hash(node, group, cell),
        }
    }
    #[inline(never)]
    fn guess_hash(&self, node: u32, Group { first, len, .. }: Group, cell: &Cell) -> Option<(u32, u32)> {
        let router = &self.routers[self.tables.router(node) as usize];
        let Spread::Hash { .. } = router.spread else { return None };
        let pick = part(hash(router.seed, cell.entropy, cell.to), len);
        Some((*self.tables.members.get((first + pick) as usize)?, cell.entropy))
    }
    /// Where packets go on, for many of them at once, where [`Self::chooses_by_packet_alone`].
    #[inline(always)]
    pub fn next_hops(&self) -> NextHops<'_> {
        NextHops { forwarding: self, tables: self.tables.slices(), digits: self.digits }
    }
    /// True when no choice depends on the packets before: the order in which packets ask does not matter.
    pub fn chooses_by_packet_alone(&self) -> bool {
        let alone = |router: &Router| {
            use Spread::{Drawn, Hash, Ideal, Weighted};
            matches!(router.spread, Drawn | Ideal | Hash { .. } | Weighted { .. })
        };
        self.routers.iter().all(alone)
    }
    #[inline(never)]
    fn choose(
        &mut self,
        node: u32,
        mut number: u32,
        cell: &mut Cell,
        now: Time,
        mut backlog: impl FnMut(u32) -> u64,
    ) -> Option<u32> {
        let mut group = self.tables.groups[number as usize];
        if group.len == 0 {
            number = self.tables.resolve(node, cell.to, number);
            group = self.tables.groups[number as usize];
            match group.len {
                0 => return None,
                1 => return Some(group.first),
                _ => {}
            }
        }
        let Group { first, len, .. } = group;
        let router = &mut self.routers[self.tables.router(node) as usize];
        let pick = match router.spread {
            Spread::Drawn | Spread::Ideal => {
                return Some(self.tables.take_digit(group, &mut cell.entropy));
            }
            Spread::Hash { .. } => part(hash(router.seed, cell.entropy, cell.to), len),
            Spread::Packet => router.rng.below(u64::from(len)) as u32,
            Spread::RoundRobin => {
                let turn = &mut self.turns[number as usize];
                let pick = *turn;
                *turn = if pick + 1 == len { 0 } else { pick + 1 };
                pick
            }
            Spread::Flowlet { gap, table } => part(router.flowlet(now, gap.0, table, cell), len),
            Spread::Weighted { .. } => {
                self.tables.by_share(first, len, hash(router.seed, cell.entropy, cell.to))
            }
            Spread::Adaptive => {
                let ports = &self.tables.members[first as usize..][..len as usize];
                // From the one whose turn it is on, so that ties do not favour anyone.
                let turn = &mut self.turns[number as usize];
                let mut at = *turn;
                let (mut pick, mut least) = (at, u64::MAX);
                for _ in 0..len {
                    let found = backlog(ports[at as usize]);
                    if found < least {
                        (pick, least) = (at, found);
                    }
                    at = if at + 1 == len { 0 } else { at + 1 };
                }
                *turn = if pick + 1 == len { 0 } else { pick + 1 };
                pick
            }
        };
        Some(self.tables.members[(first + pick) as usize])
    }

    // ---- flows -------------------------------------------------------------------------------------------

    /// What the cells of a new flow from `src` to `dst` carry as [`Cell::entropy`]. `drawn` and `ideal`: the digits of
    /// its path; `drawn` asks `rng` once per choice on it, in order, for a number below the group's size. Other rules: 32
    /// random bits, as a port number of a transport.
    ///
    /// # Errors
    /// No path.
    pub fn draw(&mut self, src: u32, dst: u32, rng: &mut Stream) -> Result<u32, RouteError> {
        self.draw_seen(src, dst, rng, |_| ())
    }
    /// The same, and [`Self::path`] of what was drawn: for who wants both, once.
    ///
    /// # Errors
    /// No path.
    pub fn draw_path(
        &mut self,
        src: u32,
        dst: u32,
        rng: &mut Stream,
        ports: &mut Vec<u32>,
    ) -> Result<u32, RouteError> {
        self.draw_seen(src, dst, rng, |port| ports.push(port))
    }
    fn draw_seen(
        &mut self,
        src: u32,
        dst: u32,
        rng: &mut Stream,
        mut see: impl FnMut(u32),
    ) -> Result<u32, RouteError> {
        if !self.digits {
            let entropy = (rng.next_u64() >> 32) as u32;
            return self.walk(src, dst, entropy, see).map(|()| entropy);
        }
        let (mut at, mut entropy, mut radix) = (src, 0, 1u64);
        apart(src, dst)?;
        while at != dst {
            let ports = self.tables.ports(self.group(at, dst));
            let pick = match (ports.len(), self.spread) {
                (0, _) => return Err(RouteError::NoPath(src, dst)),
                (1, _) => 0,
                (n, Spread::Ideal) => {
                    let given = |i: &usize| self.given[ports[*i] as usize];
                    let least = (0..n).map(|i| given(&i)).min().unwrap_or(0);
                    let ties = || (0..n).filter(|i| given(i) == least);
                    let tie = rng.below(ties().count() as u64) as usize;
                    ties().nth(tie).unwrap_or(0)
                }
                (n, _) => rng.below(n as u64) as usize,
            };
            let port = ports[pick];
            entropy += radix * pick as u64;
            radix *= ports.len() as u64;
            bail_if!(radix > 1 << 32, RouteError::TooMany(src, dst));
            self.given[port as usize] += u32::from(self.spread == Spread::Ideal);
            see(port);
            at = self.graph.links[port as usize].to;
        }
        Ok(entropy as u32)
    }
    /// True when flows from `src` to `dst`, of which these ports are a path, have no other, and drawing one leaves nothing behind.
    pub fn is_only_path(&self, dst: u32, ports: &[u32]) -> bool {
        let links = &self.graph.links;
        let alone = |port: &u32| self.ports(links[*port as usize].from, dst).len() == 1;
        self.spread != Spread::Ideal && ports.iter().all(alone)
    }
    /// What [`Self::draw`] answers where there is one path only.
    #[inline]
    pub fn draw_only(&self, rng: impl FnOnce() -> u64) -> u32 {
        if self.digits {
            0
        } else {
            (rng() >> 32) as u32
        }
    }
    /// Appends the ports of the path of a flow whose cells have left with `entropy`. Under rules that choose per packet
    /// or flowlet it is one path of many, found by hash.
    ///
    /// # Errors
    /// No path.
    pub fn path(&self, src: u32, dst: u32, entropy: u32, ports: &mut Vec<u32>) -> Result<(), RouteError> {
        self.walk(src, dst, entropy, |port| ports.push(port))
    }
    fn walk(&self, src: u32, dst: u32, mut entropy: u32, mut see: impl FnMut(u32)) -> Result<(), RouteError> {
        apart(src, dst)?;
        let mut at = src;
        while at != dst {
            let number = self.group(at, dst);
            let group = self.tables.groups[number as usize];
            let Group { first, len, .. } = group;
            let port = match len {
                0 => return Err(RouteError::NoPath(src, dst)),
                1 => first,
                _ if self.digits => self.tables.take_digit(group, &mut entropy),
                _ => {
                    let router = &self.routers[self.tables.router(at) as usize];
                    let drawn = hash(router.seed, entropy, dst);
                    let pick = match router.spread {
                        Spread::Weighted { .. } => self.tables.by_share(first, len, drawn),
                        _ => part(drawn, len),
                    };
                    self.tables.members[(first + pick) as usize]
                }
            };
            see(port);
            at = self.graph.links[port as usize].to;
        }
        Ok(())
    }
    /// What a cell of a flow carries as [`Cell::entropy`]: `own` is what [`Self::draw`] has answered, `wish` what the
    /// transport puts in. The wish counts under the rule `entropy` only, and the same wish of two flows gives different
    /// values.
    #[inline]
    pub fn stamp(&self, own: u32, wish: u32) -> u32 {
        match self.spread {
            Spread::Hash { by_sender: true, .. } => hash(0, wish, own),
            _ => own,
        }
    }
    /// The rule of all nodes that have none of their own.
    pub fn spread(&self) -> Spread {
        self.spread
    }

    // ---- the network -------------------------------------------------------------------------------------

    fn group(&self, node: u32, to: u32) -> u32 {
        let number = self.tables.find(node, to);
        match self.tables.groups[number as usize].len {
            0 => self.tables.resolve(node, to, number),
            _ => number,
        }
    }
    /// Ports of `node` that lead closer to host `to`, in ascending order; none when there is no path.
    pub fn ports(&self, node: u32, to: u32) -> &[u32] {
        self.tables.ports_to(node, to)
    }
    /// True when the link of `port` is up.
    pub fn is_up(&self, port: u32) -> bool {
        self.up[port as usize]
    }
    /// Links fail or recover. With rerouting all groups are found anew, once; turns begin again.
    ///
    /// # Errors
    /// A port that is none (key `link`); nothing has changed then.
    pub fn set_links(&mut self, changes: &[(u32, bool)]) -> Result<(), ParamError> {
        changes.iter().try_for_each(|(port, _)| self.check_link(*port))?;
        let mut changed = false;
        for (port, up) in changes {
            changed |= core::mem::replace(&mut self.up[*port as usize], *up) != *up;
        }
        if changed && self.reroute == Reroute::AtOnce {
            self.tables = Arc::new(Tables::new(&self.graph, &self.up, self.weighted));
            self.turns = turns(&self.tables);
        }
        Ok(())
    }
    /// The link of one port fails or recovers; see [`Self::set_links`].
    ///
    /// # Errors
    /// A port that is none.
    pub fn set_link(&mut self, port: u32, up: bool) -> Result<(), ParamError> {
        self.set_links(&[(port, up)])
    }
    /// The link of a port has another weight, for the rule `weighted`.
    ///
    /// # Errors
    /// A port that is none, a weight of 0; nothing has changed then.
    pub fn set_weight(&mut self, port: u32, weight: u64) -> Result<(), ParamError> {
        self.check_link(port)?;
        bail_if!(weight == 0, ParamError::new(format!("link[{port}].weight"), 0, "must be positive"));
        Arc::make_mut(&mut self.graph).links[port as usize].weight = weight;
        if self.weighted {
            Arc::make_mut(&mut self.tables).share(&self.graph);
        }
        Ok(())
    }
    fn check_link(&self, port: u32) -> Result<(), ParamError> {
        let links = self.up.len();
        if (port as usize) < links {
            return Ok(());
        }
        Err(ParamError::new("link", port, format!("no such link; there are {links}, numbered from 0")))
    }
    /// Bytes held: tables, and beside them what rules keep (turns, random streams, flowlets).
    pub fn bytes(&self) -> (usize, usize) {
        use core::mem::size_of;
        let flowlets: usize = self.routers.iter().map(|r| r.flowlets.len() * size_of::<Flowlet>()).sum();
        let state = self.routers.len() * size_of::<Router>() + (self.turns.len() + self.given.len()) * 4;
        (self.tables.bytes(), state + flowlets)
    }
    /// Rows of the tables that differ from each other, and entries of a row.
    pub fn rows(&self) -> (usize, usize) {
        self.tables.rows()
    }
}

fn apart(src: u32, dst: u32) -> Result<(), RouteError> {
    bail_if!(src == dst, RouteError::Own(src));
    Ok(())
}

/// Groups begin with different members, lest switches go in step.
fn turns(tables: &Tables) -> Vec<u32> {
    let groups = tables.groups.iter().enumerate();
    groups.map(|(i, g)| part((mix(i as u64) >> 32) as u32, g.len)).collect()
}
