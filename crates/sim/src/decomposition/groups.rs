//! Which links are simulated, and for which others each of them stands.

use super::traffic::Traffic;
use crate::setup::Setup;
use crate::topology::Link;
use std::collections::BTreeMap;

/// Links that are simulated, and who stands for whom.
pub(super) struct Groups {
    /// Links, by position.
    pub(super) simulated: Vec<u32>,
    /// How many of these, in order, are pooled: neighbours of one kind.
    pub(super) pools: Vec<usize>,
    /// For every link the position of the pool that stands for it; `u32::MAX` where it carries no data.
    stands: Vec<u32>,
}

impl Groups {
    /// Position of the pool that stands for `link`.
    pub(super) fn of(&self, link: u32) -> usize {
        self.stands[link as usize] as usize
    }
}

/// A pool of simulated links has so many flows at least, unless its kind ends: chosen, about ten buckets of sizes.
const POOL: usize = 1000;

/// Links of one kind have the same ports at the same distance from senders and receivers. In order of the bytes they carry they are cut
/// into groups of about equal size, so many that the middle ones of all groups carry `flows` together; `None` = a group each.
pub(super) fn group(setup: &Setup, traffic: &Traffic, flows: Option<u64>) -> Groups {
    let t = &setup.topology;
    let mut kinds: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for (number, l) in (0..).zip(&t.links) {
        // Links before and behind it, of the flow that has most.
        let place = traffic.crossing(number).iter().map(|flow| {
            let path = traffic.path(*flow as usize);
            let before = path.iter().position(|p| *p == number).unwrap_or(0);
            (before, path.len() - before)
        });
        let Some((before, behind)) = place.reduce(|a, b| (a.0.max(b.0), a.1.max(b.1))) else { continue };
        kinds.entry(format!("{before} {behind} {}", look(l))).or_default().push(number);
    }
    let mut found =
        Groups { simulated: Vec::new(), pools: Vec::new(), stands: vec![u32::MAX; t.links.len()] };
    for links in kinds.values_mut() {
        links.sort_by_key(|l| (traffic.data[*l as usize], *l));
        let carried: u64 = links.iter().map(|l| traffic.crossing(*l).len() as u64).sum();
        let each = (carried / links.len() as u64).max(1);
        let groups = flows.map_or(links.len(), |n| (n.div_ceil(each) as usize).clamp(1, links.len()));
        let mut pooled = 0;
        for g in 0..groups {
            if pooled == 0 || pooled >= POOL {
                found.pools.push(0);
                pooled = 0;
            }
            let members = &links[g * links.len() / groups..(g + 1) * links.len() / groups];
            let chosen = members[members.len() / 2];
            pooled += traffic.crossing(chosen).len();
            found.simulated.push(chosen);
            let pool = found.pools.len() - 1;
            found.pools[pool] += 1;
            members.iter().for_each(|l| found.stands[*l as usize] = pool as u32);
        }
    }
    found
}

/// What a link has of its own, as text.
fn look(l: &Link) -> String {
    format!("{:?} {:?} {:?} {} {} {:?}", l.rate, l.delay, l.buffer, l.queue.name(), l.loss, l.options)
}
