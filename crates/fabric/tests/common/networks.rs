//! Networks to forward in, for tests and the example: plain, without names and rates.
#![allow(dead_code)]

use penstock_fabric::{Edge, Graph};

#[derive(Clone, Debug, Default)]
pub struct Network(pub Graph);

impl Network {
    pub fn node(&mut self, host: bool) -> u32 {
        self.0.hosts.push(host);
        self.0.hosts.len() as u32 - 1
    }
    pub fn nodes(&mut self, n: u32, host: bool) -> Vec<u32> {
        (0..n).map(|_| self.node(host)).collect()
    }
    pub fn link(&mut self, from: u32, to: u32) -> u32 {
        self.weigh(from, to, 1)
    }
    pub fn weigh(&mut self, from: u32, to: u32, weight: u64) -> u32 {
        self.0.links.push(Edge { from, to, weight });
        self.0.links.len() as u32 - 1
    }
    /// Both directions; the port of the first.
    pub fn connect(&mut self, a: u32, b: u32) -> u32 {
        let port = self.link(a, b);
        self.link(b, a);
        port
    }
    pub fn hosts(&self) -> Vec<u32> {
        (0..self.0.hosts.len() as u32).filter(|n| self.0.hosts[*n as usize]).collect()
    }
}

/// Al-Fares et al., SIGCOMM 2008: k^3 / 4 hosts.
pub fn fat_tree(k: u32) -> Network {
    let mut n = Network::default();
    let half = k / 2;
    let cores = n.nodes(half * half, false);
    for _ in 0..k {
        let aggregations = n.nodes(half, false);
        for (i, core) in cores.iter().enumerate() {
            n.connect(aggregations[i / half as usize], *core);
        }
        for _ in 0..half {
            let edge = n.node(false);
            aggregations.iter().for_each(|a| {
                n.connect(edge, *a);
            });
            n.nodes(half, true).iter().for_each(|h| {
                n.connect(*h, edge);
            });
        }
    }
    n
}

pub fn leaf_spine(leaves: u32, spines: u32, hosts: u32) -> Network {
    let mut n = Network::default();
    let spines = n.nodes(spines, false);
    for _ in 0..leaves {
        let leaf = n.node(false);
        n.nodes(hosts, true).iter().for_each(|h| {
            n.connect(*h, leaf);
        });
        spines.iter().for_each(|s| {
            n.connect(leaf, *s);
        });
    }
    n
}

/// Kim et al., ISCA 2008: a h + 1 groups of a routers with p hosts, one link between any two groups.
pub fn dragonfly(p: u32, a: u32, h: u32) -> Network {
    let mut n = Network::default();
    let groups: Vec<Vec<u32>> = (0..a * h + 1)
        .map(|_| {
            let routers = n.nodes(a, false);
            for (i, r) in routers.iter().enumerate() {
                routers[i + 1..].iter().for_each(|other| {
                    n.connect(*r, *other);
                });
                n.nodes(p, true).iter().for_each(|host| {
                    n.connect(*host, *r);
                });
            }
            routers
        })
        .collect();
    let count = groups.len();
    for from in 0..count {
        for to in from + 1..count {
            let router = |group: usize, away: usize| groups[group][(away - 1) / h as usize];
            n.connect(router(from, to - from), router(to, count + from - to));
        }
    }
    n
}
