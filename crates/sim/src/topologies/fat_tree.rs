//! The k-ary fat tree.

use super::{Family, Size, Tiers};
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

/// k pods, k^3 / 4 hosts, full bisection bandwidth where all links are alike.
pub fn fat_tree(k: u32, tiers: &Tiers) -> Topology {
    let mut t = Topology::default();
    let half = k / 2;
    let cores: Vec<u32> = (0..half * half).map(|i| t.switch(format!("core{i}"))).collect();
    let mut host = 0;
    for pod in 0..k {
        let aggregations: Vec<u32> = (0..half).map(|i| t.switch(format!("agg{pod}.{i}"))).collect();
        for (i, a) in aggregations.iter().enumerate() {
            for core in &cores[i * half as usize..(i + 1) * half as usize] {
                t.connect(*a, *core, &tiers.fabric);
            }
        }
        for e in 0..half {
            let edge = t.switch(format!("edge{pod}.{e}"));
            for a in &aggregations {
                t.connect(edge, *a, &tiers.fabric);
            }
            for _ in 0..half {
                let h = t.host(format!("h{host}"));
                host += 1;
                t.connect(h, edge, &tiers.host);
            }
        }
    }
    t
}
