//! Fat trees: the k-ary one, and one whose pods, switches and hosts have numbers of their own.

use super::family::{Family, Size, Tiers};
use crate::topology::Topology;

/// Fat tree.
pub const FAMILY: Family = Family {
    name: "fat-tree",
    form: "fat-tree:K",
    text: "K pods of K-port switches, K^3/4 hosts; switches edgePOD.I, aggPOD.I, core0..",
    source: "Al-Fares, Loukissas and Vahdat, SIGCOMM 2008, section 3.1",
    numbers: (1, 1),
    rule: |n| (n[0] < 2 || n[0] % 2 != 0 || n[0] > 64).then(|| "needs an even K of 2 to 64".into()),
    size: |n| {
        let k = u128::from(n[0]);
        Size { hosts: k * k * k / 4, switches: 5 * k * k / 4, links: 3 * k * k * k / 4 }
    },
    ports: Some(|n| (n[0] / 2, n[0] / 2)),
    longest: 6,
    build: |n, tiers| fat_tree(n[0], tiers),
};

/// A fat tree with numbers of its own.
pub const CLOS: Family = Family {
    name: "clos",
    form: "clos:PODSxEDGESxAGGSxCORESxHOSTS",
    text: "each pod has EDGES switches of HOSTS hosts and AGGS switches above; each of these connects to CORES cores; switches \
           edgePOD.I, aggPOD.I, core0..; clos:5x4x4x4x16 is HPCC's fat tree of 320 hosts",
    source: "Li et al., HPCC, SIGCOMM 2019, section 5.1: 16 cores, 20 aggregation and 20 top-of-rack switches, 320 servers",
    numbers: (5, 5),
    rule: |_| None,
    size: |n| {
        let [pods, edges, aggs, cores, hosts] = [n[0], n[1], n[2], n[3], n[4]].map(u128::from);
        Size {
            hosts: pods * edges * hosts,
            switches: pods * (edges + aggs) + aggs * cores,
            links: pods * (edges * hosts + aggs * (edges + cores)),
        }
    },
    ports: Some(|n| (n[4], n[2])),
    longest: 6,
    build: |n, tiers| clos([n[0], n[1], n[2], n[3], n[4]], tiers),
};

/// k pods, k^3 / 4 hosts, full bisection bandwidth where all links are alike.
pub fn fat_tree(k: u32, tiers: &Tiers) -> Topology {
    let half = k / 2;
    clos([k, half, half, half, half], tiers)
}

/// Pods, edge and aggregation switches of a pod, cores of an aggregation switch, hosts of an edge switch.
fn clos([pods, edges, aggs, cores, hosts]: [u32; 5], tiers: &Tiers) -> Topology {
    let [switches, all] = [pods * (edges + aggs), pods * edges * hosts];
    let links = 2 * (pods * aggs * (cores + edges) + all);
    let mut t = Topology::with_room((aggs * cores + switches + all) as usize, links as usize);
    let top: Vec<u32> = (0..aggs * cores).map(|i| t.switch(format!("core{i}"))).collect();
    let mut host = 0;
    for pod in 0..pods {
        let aggregations: Vec<u32> = (0..aggs).map(|i| t.switch(format!("agg{pod}.{i}"))).collect();
        for (a, above) in aggregations.iter().zip(top.chunks(cores as usize)) {
            for core in above {
                t.connect(*a, *core, &tiers.fabric);
            }
        }
        for e in 0..edges {
            let edge = t.switch(format!("edge{pod}.{e}"));
            for a in &aggregations {
                t.connect(edge, *a, &tiers.fabric);
            }
            for _ in 0..hosts {
                let h = t.host(format!("h{host}"));
                host += 1;
                t.connect(h, edge, &tiers.host);
            }
        }
    }
    t
}
