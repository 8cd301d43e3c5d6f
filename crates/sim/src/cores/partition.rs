//! Assigns nodes to logical processes. Nodes joined by links much shorter than the others stay together. Hosts stay with their switch where there are
//! enough switches, neighbours stay together, and hosts are shared out evenly.

use crate::topology::{NodeKind, Topology};
use penstock_units::Dur;

/// Parts of the nodes of a network.
pub(super) struct Partition {
    /// Part of every node.
    pub owner: Vec<u16>,
    /// Shortest link between two parts.
    pub shortest: Dur,
    /// How many parts there are, and how many there could be.
    pub parts: usize,
    pub units: usize,
    /// Hosts are in other parts than their switches.
    pub apart: bool,
}

const NOWHERE: u16 = u16::MAX;
/// Links shorter than this part of the median link join their ends: a window as short as they are would have nothing to do.
const SHORT: u64 = 8;

/// Nodes that stay together.
#[derive(Clone)]
struct Groups(Vec<u32>);

impl Groups {
    /// Every node is alone.
    fn new(nodes: usize) -> Groups {
        Groups((0..nodes as u32).collect())
    }
    /// The first node of the group of `node`.
    fn of(&mut self, node: u32) -> u32 {
        let mut first = node;
        while self.0[first as usize] != first {
            self.0[first as usize] = self.0[self.0[first as usize] as usize];
            first = self.0[first as usize];
        }
        first
    }
    fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.of(a), self.of(b));
        self.0[a.max(b) as usize] = a.min(b);
    }
}

/// What is outside a group of hosts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outside {
    Nothing,
    /// One switch.
    Switch(u32),
    Several,
}

/// Groups with hosts, each with how many it has, by their first host.
fn units(t: &Topology, groups: &mut Groups) -> Vec<(u32, usize)> {
    let mut found: Vec<(u32, usize)> = Vec::new();
    let mut place = vec![usize::MAX; t.nodes.len()];
    for host in t.hosts() {
        let group = groups.of(host);
        let at = &mut place[group as usize];
        if *at == usize::MAX {
            *at = found.len();
            found.push((group, 0));
        }
        found[*at].1 += 1;
    }
    found
}

/// Divides a network into `parts` parts at most, of which one is the whole; or says what stands in the way. Hosts and their switch are put into
/// different parts only where there are not even two parts otherwise, or by `may_part_hosts` not as many as are asked for.
pub(super) fn partition(t: &Topology, parts: usize, may_part_hosts: bool) -> Result<Partition, String> {
    let nodes = t.nodes.len();
    let is_host = |node: u32| t.nodes[node as usize].kind == NodeKind::Host;
    let mut delays: Vec<Dur> = t.links.iter().map(|link| link.delay).filter(|d| *d > Dur::ZERO).collect();
    delays.sort_unstable();
    let short = delays.get(delays.len() / 2).map_or(Dur::ZERO, |median| Dur(median.0 / SHORT));
    let mut groups = Groups::new(nodes);
    for link in t.links.iter().filter(|link| link.delay < short || link.delay == Dur::ZERO) {
        groups.join(link.from, link.to);
    }
    let mut outside = vec![Outside::Nothing; nodes];
    for link in &t.links {
        for (own, other) in [(link.from, link.to), (link.to, link.from)] {
            if is_host(own) && groups.of(own) != groups.of(other) {
                let found = &mut outside[groups.of(own) as usize];
                *found = match *found {
                    _ if is_host(other) => Outside::Several,
                    Outside::Nothing => Outside::Switch(other),
                    Outside::Switch(switch) if groups.of(switch) == groups.of(other) => {
                        Outside::Switch(switch)
                    }
                    _ => Outside::Several,
                };
            }
        }
    }
    let mut racks = groups.clone();
    for (group, outside) in (0u32..).zip(&outside) {
        if let Outside::Switch(switch) = outside {
            racks.join(group, *switch);
        }
    }
    let mut found = units(t, &mut racks);
    let enough = if may_part_hosts { parts } else { parts.min(2) };
    let apart = found.len() < enough && units(t, &mut groups.clone()).len() > found.len();
    if apart {
        found = units(t, &mut groups);
    } else {
        groups = racks;
    }
    let (asked, parts) = (parts, parts.min(found.len()));
    if parts < asked.min(2) {
        return Err("all hosts are joined by links much shorter than others, or without delay".into());
    }
    // Neighbours have neighbouring numbers: a run of units each, with its share of the hosts, and one unit at least.
    let all: usize = found.iter().map(|(_, hosts)| hosts).sum();
    let mut owner_of = vec![NOWHERE; nodes];
    let (mut before, mut part) = (0, 0);
    for (i, (group, own)) in found.iter().enumerate() {
        // By where the middle of the unit lies; never so far behind that a part goes empty.
        let wished = (2 * before + own) * parts / (2 * all);
        let last = parts - (found.len() - i).min(parts);
        part = wished.clamp(part.max(last), if i == 0 { 0 } else { part + 1 }.min(parts - 1).max(last));
        owner_of[*group as usize] = part as u16;
        before += own;
    }
    join_switches(t, &mut groups, &mut owner_of, parts);
    let owner: Vec<u16> = (0..nodes as u32).map(|node| owner_of[groups.of(node) as usize]).collect();
    let cut = t.links.iter().filter(|l| owner[l.from as usize] != owner[l.to as usize]);
    let shortest = cut.map(|l| l.delay).min().unwrap_or(Dur::ZERO);
    Ok(Partition { owner, shortest, parts, units: found.len(), apart })
}

/// Groups without hosts: tier by tier to the part of most of their neighbours, and where several have as many, to the one of these that has the
/// fewest ports so far.
fn join_switches(t: &Topology, groups: &mut Groups, owner_of: &mut [u16], parts: usize) {
    let nodes = t.nodes.len() as u32;
    let mut members: Vec<Vec<u32>> = vec![Vec::new(); nodes as usize];
    (0..nodes).for_each(|node| members[groups.of(node) as usize].push(node));
    let mut load = vec![0usize; parts];
    loop {
        let mut found = Vec::new();
        for group in (0..nodes).filter(|group| owner_of[*group as usize] == NOWHERE) {
            let mut neighbours = vec![0usize; parts];
            let ports: Vec<u32> = members[group as usize].iter().flat_map(|node| t.ports_of(*node)).collect();
            for port in &ports {
                let next = groups.of(t.links[*port as usize].to);
                if let Some(n) = neighbours.get_mut(usize::from(owner_of[next as usize])) {
                    *n += 1;
                }
            }
            let most = neighbours.iter().copied().max().unwrap_or(0);
            if most == 0 {
                continue;
            }
            let best = (0..parts).filter(|p| neighbours[*p] == most).min_by_key(|p| load[*p]).unwrap_or(0);
            load[best] += ports.len();
            found.push((group, best));
        }
        if found.is_empty() {
            break;
        }
        for (group, part) in found {
            owner_of[group as usize] = part as u16;
        }
    }
    // What no host can reach.
    owner_of.iter_mut().filter(|part| **part == NOWHERE).for_each(|part| *part = 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topologies::Named;

    fn network(name: &str) -> Topology {
        crate::scenario::Resolved::new(
            "permutation",
            &[("topology".to_owned(), name.to_owned())],
            1,
            serde_json::Value::Null,
        )
        .unwrap()
        .setup(0)
        .unwrap()
        .topology
    }

    #[test]
    fn every_part_has_its_share_and_hosts_stay_with_their_switch() {
        for (name, parts, most) in [
            ("fat-tree:4", 2, 8),
            ("fat-tree:4", 3, 6),
            ("fat-tree:8", 4, 32),
            ("leaf-spine:7x3x2", 7, 2),
            ("leaf-spine:5x2x3", 3, 6),
        ] {
            assert!(Named::parse("topology", name).is_ok());
            let t = network(name);
            let p = partition(&t, parts, false).unwrap();
            assert_eq!(p.parts, parts);
            let hosts = |part: u16| t.hosts().into_iter().filter(|h| p.owner[*h as usize] == part).count();
            let shares: Vec<_> = (0..parts as u16).map(hosts).collect();
            assert!(shares.iter().all(|n| *n > 0 && *n <= most), "{name} in {parts}: {shares:?}");
            for link in &t.links {
                let ends = [link.from, link.to];
                if ends.iter().any(|n| t.nodes[*n as usize].kind == NodeKind::Host) {
                    assert_eq!(p.owner[link.from as usize], p.owner[link.to as usize]);
                }
            }
            assert_eq!(p.shortest, Dur::micros(1));
            assert!(p.owner.iter().all(|part| usize::from(*part) < parts));
        }
    }
    /// Of a fat tree in halves only the links to the cores are divided, and both halves have as many of these.
    #[test]
    fn pods_stay_together() {
        let t = network("fat-tree:8");
        let p = partition(&t, 2, false).unwrap();
        let cut: Vec<_> =
            t.links.iter().filter(|l| p.owner[l.from as usize] != p.owner[l.to as usize]).collect();
        // 16 cores with 8 links each way; every core is in a half and reaches 4 pods of the other.
        assert_eq!(cut.len(), 16 * 4 * 2);
        assert_eq!(cut.iter().filter(|l| p.owner[l.from as usize] == 0).count(), 16 * 4);
    }
    #[test]
    fn more_parts_than_racks_are_made_where_hosts_may_be_apart_from_their_switch() {
        let t = network("leaf-spine:2x2x4");
        assert_eq!(partition(&t, 7, false).unwrap().parts, 2);
        assert_eq!(partition(&t, 7, true).unwrap().parts, 7);
        let t = network("leaf-spine:1x1x4");
        let p = partition(&t, 2, false).unwrap();
        assert!(p.apart && p.parts == 2 && p.units == 4);
        let shares: Vec<_> = (0..2)
            .map(|part| t.hosts().into_iter().filter(|h| p.owner[*h as usize] == part).count())
            .collect();
        assert_eq!(shares, [2, 2]);
    }
    /// Two racks with short links to a spine: no window is as short as these.
    #[test]
    fn what_short_links_join_stays_together() {
        let mut t = network("leaf-spine:4x2x2");
        let node = |name: &str| t.nodes.iter().position(|node| node.name == name).unwrap() as u32;
        let (racks, spine) = ([node("leaf0"), node("leaf1")], node("spine0"));
        for link in &mut t.links {
            let ends = [link.from, link.to];
            if ends.contains(&spine) && racks.iter().any(|rack| ends.contains(rack)) {
                link.delay = Dur::nanos(20);
            }
        }
        let p = partition(&t, 4, false).unwrap();
        assert_eq!((p.parts, p.shortest, p.apart), (3, Dur::micros(1), false));
        assert!(racks.iter().all(|rack| p.owner[*rack as usize] == p.owner[spine as usize]));
        // By a tenth shorter is not short.
        t.links.iter_mut().for_each(|link| link.delay = link.delay.max(Dur::nanos(900)));
        assert_eq!(partition(&t, 4, false).unwrap().parts, 4);
    }
}
