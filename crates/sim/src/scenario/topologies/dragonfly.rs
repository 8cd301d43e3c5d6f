//! Dragonfly: groups of fully connected routers, and at least one link between any two groups.

use super::family::{Family, Size, Tiers};
use crate::topology::Topology;

/// Dragonfly.
pub const FAMILY: Family = Family {
    name: "dragonfly",
    form: "dragonfly:P,A,H[,GROUPS]",
    text: "P hosts per router, A routers per group, H links to other groups per router; A H + 1 groups unless given; \
           routers rGROUP.I",
    source: "Kim, Dally, Scott and Abts, ISCA 2008, section 3; balanced where A = 2 P = 2 H",
    numbers: (3, 4),
    rule: |n| {
        let (ports, groups) = (u64::from(n[1]) * u64::from(n[2]), groups(n));
        if groups < 2 || groups > ports + 1 {
            return Some(format!("cannot be wired: needs 2 to A H + 1 = {} groups, not {groups}", ports + 1));
        }
        (ports % (groups - 1) != 0).then(|| {
            let others = groups - 1;
            format!("cannot be wired: the A H = {ports} links of a group to the {others} others do not divide evenly")
        })
    },
    size: |n| {
        let [p, a, h] = [n[0], n[1], n[2]].map(u128::from);
        let g = u128::from(groups(n));
        Size { hosts: g * a * p, switches: g * a, links: g * a * p + g * (a * (a - 1) / 2) + g * a * h / 2 }
    },
    ports: None,
    longest: 5,
    build: dragonfly,
};

fn groups(n: &[u32]) -> u64 {
    n.get(3).map_or_else(|| u64::from(n[1]) * u64::from(n[2]) + 1, |g| u64::from(*g))
}

/// Links of a group to the others are numbered through its routers, `h` each; they lead to the next group, the one after it, and so on,
/// `share` to each. The paper leaves the order open.
///
/// Routes are shortest by number of links as in every network here, so a route may cross two links between groups where the
/// paper's minimal routing crosses one and two links inside groups.
fn dragonfly(n: &[u32], tiers: &Tiers) -> Topology {
    let (p, a, h, g) = (n[0], n[1], n[2], groups(n) as u32);
    let share = a * h / (g - 1);
    let mut t = Topology::default();
    let mut routers = Vec::new();
    for group in 0..g {
        let own: Vec<u32> = (0..a).map(|i| t.switch(format!("r{group}.{i}"))).collect();
        for (i, router) in own.iter().enumerate() {
            for other in &own[i + 1..] {
                t.connect(*router, *other, &tiers.fabric);
            }
            for host in 0..p {
                let number = (group * a + i as u32) * p + host;
                let host = t.host(format!("h{number}"));
                t.connect(host, *router, &tiers.host);
            }
        }
        routers.push(own);
    }
    for from in 0..g {
        for to in from + 1..g {
            let router = |group: u32, away: u32, link: u32| {
                let number = (away - 1) * share + link;
                routers[group as usize][(number / h) as usize]
            };
            for link in 0..share {
                let (one, other) = (router(from, to - from, link), router(to, g + from - to, link));
                t.connect(one, other, &tiers.fabric);
            }
        }
    }
    t
}
