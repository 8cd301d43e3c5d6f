//! Rail-optimised network of GPU servers: NIC number r of every server is connected to leaf number r.

use super::family::{Family, Size, Tiers};
use crate::topology::Topology;

/// Rail-optimised.
pub const FAMILY: Family = Family {
    name: "rail",
    form: "rail:SERVERSxNICSxSPINES[xUNITS]",
    text: "every NIC of a server is a host, numbered by server; each unit has a leaf per NIC number, connected to every spine; \
           switches leaf0.., spine0..",
    source: "NVIDIA, DGX SuperPOD reference architecture, network fabrics: rail-aligned compute fabric in scalable units",
    numbers: (3, 4),
    rule: |_| None,
    size: |n| {
        let [servers, nics, spines] = [n[0], n[1], n[2]].map(u128::from);
        let leaves = nics * u128::from(units(n));
        Size {
            hosts: servers * leaves,
            switches: leaves + spines,
            links: leaves * (servers + spines),
        }
    },
    ports: Some(|n| (n[0], n[2])),
    longest: 4,
    build: rail,
};

fn units(n: &[u32]) -> u32 {
    n.get(3).copied().unwrap_or(1)
}

/// NICs are hosts of their own: what a server moves between them inside (NVLink) is not part of the network, so a flow between two
/// NICs of one server crosses a spine. Where a real leaf has several links to a spine, this one has one of their sum.
fn rail(n: &[u32], tiers: &Tiers) -> Topology {
    let (servers, nics) = (n[0], n[1]);
    let mut t = Topology::default();
    let spines: Vec<u32> = (0..n[2]).map(|i| t.switch(format!("spine{i}"))).collect();
    for unit in 0..units(n) {
        let leaves: Vec<u32> = (0..nics).map(|r| t.switch(format!("leaf{}", unit * nics + r))).collect();
        for leaf in &leaves {
            for spine in &spines {
                t.connect(*leaf, *spine, &tiers.fabric);
            }
        }
        for server in 0..servers {
            for (rail, leaf) in (0..nics).zip(&leaves) {
                let h = t.host(format!("h{}", (unit * servers + server) * nics + rail));
                t.connect(h, *leaf, &tiers.host);
            }
        }
    }
    t
}
