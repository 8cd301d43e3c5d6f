//! Which node is in which part: hosts with their switch, switches with most of their neighbours, hosts shared out evenly.

use crate::topology::{NodeKind, Topology};
use penstock_units::Dur;

/// Parts of the nodes of a network.
pub(super) struct Partition {
    /// Part of every node.
    pub home: Vec<u16>,
    /// Switches that can be divided by their ports, each of which then is in the part that it leads to: those without hosts, with neighbours in several parts,
    /// none of which is one of them.
    pub between: Vec<bool>,
    /// The only link into every host, 0 for switches.
    pub inbound: Vec<u32>,
    /// Shortest link between two parts.
    pub shortest: Dur,
    /// How many parts there are, and how many there could be.
    pub parts: usize,
    pub racks: usize,
}

const NOWHERE: u16 = u16::MAX;

/// Divides a network into `parts` parts at most, of which one is the whole; or says what stands in the way.
pub(super) fn partition(t: &Topology, parts: usize) -> Result<Partition, String> {
    let nodes = t.nodes.len();
    let mut inbound = vec![None; nodes];
    let mut into = vec![0u32; nodes];
    for (port, link) in (0u32..).zip(&t.links) {
        into[link.to as usize] += 1;
        inbound[link.to as usize].get_or_insert(port);
    }
    let is_host = |node: u32| t.nodes[node as usize].kind == NodeKind::Host;
    // Hosts by their switch.
    let mut hosts = vec![0usize; nodes];
    let mut switch_of = vec![u32::MAX; nodes];
    for host in t.hosts() {
        let ports = t.ports_of(host);
        let ([port], 1) = (&ports[..], into[host as usize]) else {
            return Err(format!("host {} has several links", t.nodes[host as usize].name));
        };
        let switch = t.links[*port as usize].to;
        if is_host(switch) {
            return Err("a host has no switch".into());
        }
        switch_of[host as usize] = switch;
        hosts[switch as usize] += 1;
    }
    let racks: Vec<u32> = (0..nodes as u32).filter(|n| hosts[*n as usize] > 0).collect();
    let (asked, parts) = (parts, parts.min(racks.len()));
    if parts < asked.min(2) {
        return Err("all hosts are at one switch".into());
    }
    // Neighbours have neighbouring numbers: a stretch of racks each, with its share of the hosts, and one rack at least.
    let all: usize = racks.iter().map(|n| hosts[*n as usize]).sum();
    let mut home = vec![NOWHERE; nodes];
    let (mut before, mut part) = (0, 0);
    for (i, rack) in racks.iter().enumerate() {
        let own = hosts[*rack as usize];
        // By where the middle of the rack lies; never so far behind that a part goes empty.
        let wished = (2 * before + own) * parts / (2 * all);
        let last = parts - (racks.len() - i).min(parts);
        part = wished.clamp(part.max(last), if i == 0 { 0 } else { part + 1 }.min(parts - 1).max(last));
        home[*rack as usize] = part as u16;
        before += own;
    }
    join_switches(t, &mut home, parts);
    for host in t.hosts() {
        home[host as usize] = home[switch_of[host as usize] as usize];
    }
    let between = between(t, &home, parts);
    let cut =
        t.links.iter().filter(|l| home[l.from as usize] != home[l.to as usize] || between[l.to as usize]);
    let shortest = cut.map(|l| l.delay).min().unwrap_or(Dur::ZERO);
    let inbound =
        inbound.into_iter().enumerate().map(|(n, port)| port.filter(|_| is_host(n as u32)).unwrap_or(0));
    Ok(Partition { home, between, inbound: inbound.collect(), shortest, parts, racks: racks.len() })
}

/// See [`Partition::between`]: the furthest from hosts first, as those on the way there are mostly with their neighbours.
fn between(t: &Topology, home: &[u16], parts: usize) -> Vec<bool> {
    let nodes = t.nodes.len();
    let mut between = vec![false; nodes];
    if parts == 1 {
        return between;
    }
    let ends =
        || t.links.iter().flat_map(|l| [(l.from as usize, l.to as usize), (l.to as usize, l.from as usize)]);
    // Links between a node and the nearest host.
    let mut far = vec![u32::MAX; nodes];
    t.hosts().into_iter().for_each(|host| far[host as usize] = 0);
    let mut most = 0;
    while ends().fold(false, |found, (node, next)| {
        let reached = far[node] == most && far[next] > most + 1;
        far[next] = if reached { most + 1 } else { far[next] };
        found | reached
    }) {
        most += 1;
    }
    let mut around = vec![NOWHERE; nodes];
    let mut several = vec![false; nodes];
    for (node, next) in ends() {
        several[node] |= around[node] != NOWHERE && around[node] != home[next];
        around[node] = home[next];
    }
    for distance in (2..=most).rev() {
        let may = |node: usize| far[node] == distance && several[node];
        // Of two that are neighbours neither.
        let mut beside = vec![false; nodes];
        ends().for_each(|(node, next)| beside[node] |= between[next] || may(next));
        (0..nodes).for_each(|node| between[node] |= may(node) && !beside[node]);
    }
    between
}

/// Switches without hosts: tier by tier to the part of most of their neighbours, and where several have as many, to the one of these that has the
/// fewest ports so far.
fn join_switches(t: &Topology, home: &mut [u16], parts: usize) {
    let mut load = vec![0usize; parts];
    loop {
        let mut found = Vec::new();
        for node in 0..t.nodes.len() as u32 {
            if home[node as usize] != NOWHERE || t.nodes[node as usize].kind == NodeKind::Host {
                continue;
            }
            let mut neighbours = vec![0usize; parts];
            let ports = t.ports_of(node);
            for port in &ports {
                if let Some(n) = neighbours.get_mut(usize::from(home[t.links[*port as usize].to as usize])) {
                    *n += 1;
                }
            }
            let most = neighbours.iter().copied().max().unwrap_or(0);
            if most == 0 {
                continue;
            }
            let best = (0..parts).filter(|p| neighbours[*p] == most).min_by_key(|p| load[*p]).unwrap_or(0);
            load[best] += ports.len();
            found.push((node, best));
        }
        if found.is_empty() {
            break;
        }
        for (node, part) in found {
            home[node as usize] = part as u16;
        }
    }
    // What no host can reach.
    home.iter_mut().filter(|part| **part == NOWHERE).for_each(|part| *part = 0);
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
            let p = partition(&t, parts).unwrap();
            assert_eq!(p.parts, parts);
            let hosts = |part: u16| t.hosts().into_iter().filter(|h| p.home[*h as usize] == part).count();
            let shares: Vec<_> = (0..parts as u16).map(hosts).collect();
            assert!(shares.iter().all(|n| *n > 0 && *n <= most), "{name} in {parts}: {shares:?}");
            for link in &t.links {
                let ends = [link.from, link.to];
                if ends.iter().any(|n| t.nodes[*n as usize].kind == NodeKind::Host) {
                    assert_eq!(p.home[link.from as usize], p.home[link.to as usize]);
                }
            }
            assert_eq!(p.shortest, Dur::micros(1));
            assert!(p.home.iter().all(|part| usize::from(*part) < parts));
        }
    }
    /// Of a fat tree in halves only the links to the cores are divided, and both halves have as many of these.
    #[test]
    fn pods_stay_together() {
        let t = network("fat-tree:8");
        let p = partition(&t, 2).unwrap();
        let cut: Vec<_> =
            t.links.iter().filter(|l| p.home[l.from as usize] != p.home[l.to as usize]).collect();
        // 16 cores with 8 links each way; every core is in a half and reaches 4 pods of the other.
        assert_eq!(cut.len(), 16 * 4 * 2);
        assert_eq!(cut.iter().filter(|l| p.home[l.from as usize] == 0).count(), 16 * 4);
        // The cores, and no others, can be divided.
        let between = t.nodes.iter().zip(&p.between).filter(|(_, between)| **between);
        assert_eq!(between.filter(|(node, _)| node.name.starts_with("core")).count(), 16);
        assert_eq!(p.between.iter().filter(|between| **between).count(), 16);
    }
    #[test]
    fn more_parts_than_racks_are_not_made() {
        assert_eq!(partition(&network("leaf-spine:2x2x4"), 7).unwrap().parts, 2);
        let error = partition(&network("leaf-spine:1x1x4"), 2).err().unwrap();
        assert_eq!(error, "all hosts are at one switch");
    }
}
