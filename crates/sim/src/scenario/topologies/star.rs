//! One switch with all hosts around it.

use super::family::{Family, Size, Tiers};
use crate::topology::Topology;

/// Star.
pub const FAMILY: Family = Family {
    name: "star",
    form: "star:HOSTS",
    text: "hosts around one switch, called switch",
    source: "one rack",
    numbers: (1, 1),
    rule: |_| None,
    size: |n| Size { hosts: u128::from(n[0]), switches: 1, links: u128::from(n[0]) },
    ports: None,
    longest: 2,
    build: star,
};

fn star(n: &[u32], tiers: &Tiers) -> Topology {
    let mut t = Topology::default();
    let switch = t.switch("switch");
    for i in 0..n[0] {
        let host = t.host(format!("h{i}"));
        t.connect(host, switch, &tiers.host);
    }
    t
}
