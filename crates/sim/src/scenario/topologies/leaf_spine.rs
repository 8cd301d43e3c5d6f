//! Leaf and spine: two tiers, every leaf connected to every spine.

use super::family::{Family, Size};
use crate::topology::{LinkSpec, Topology};

/// Leaf-spine.
pub const FAMILY: Family = Family {
    name: "leaf-spine",
    form: "leaf-spine:LEAVESxSPINESxHOSTS",
    text: "every leaf is connected to every spine, with HOSTS hosts per leaf; switches leaf0.., spine0..",
    source: "the two-tier Clos network of Greenberg et al., VL2, SIGCOMM 2009, and Alizadeh et al., CONGA, SIGCOMM 2014",
    numbers: (3, 3),
    rule: |_| None,
    size: |n| {
        let [leaves, spines, hosts] = [n[0], n[1], n[2]].map(u128::from);
        Size { hosts: leaves * hosts, switches: leaves + spines, links: leaves * (hosts + spines) }
    },
    ports: Some(|n| (n[2], n[1])),
    longest: 4,
    build: |n, tiers| leaf_spine(n[0], n[1], n[2], &tiers.host, &tiers.fabric),
};

/// Every leaf switch connected to every spine switch.
pub fn leaf_spine(leaves: u32, spines: u32, hosts_per_leaf: u32, host: &LinkSpec, up: &LinkSpec) -> Topology {
    let mut t = Topology::default();
    let spines: Vec<u32> = (0..spines).map(|i| t.switch(format!("spine{i}"))).collect();
    for leaf in 0..leaves {
        let switch = t.switch(format!("leaf{leaf}"));
        for i in 0..hosts_per_leaf {
            let h = t.host(format!("h{}", leaf * hosts_per_leaf + i));
            t.connect(h, switch, host);
        }
        for spine in &spines {
            t.connect(switch, *spine, up);
        }
    }
    t
}
