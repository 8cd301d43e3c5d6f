//! Which cables are simulated, and for which others each of them stands.

use super::traffic::Traffic;
use crate::setup::Setup;
use crate::topology::{Link, Topology};
use std::collections::BTreeMap;

/// A link and the one that leads back, where there is one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Cable {
    pub(super) link: u32,
    pub(super) back: Option<u32>,
}

impl Cable {
    /// One or both.
    pub(super) fn links(self) -> impl Iterator<Item = u32> {
        std::iter::once(self.link).chain(self.back)
    }
}

/// Cables that are simulated, and who stands for whom.
pub(super) struct Groups {
    pub(super) simulated: Vec<Cable>,
    /// What is found on links of one kind is pooled: so many pools.
    pub(super) pools: usize,
    /// For every link the pool that stands for it; `u32::MAX` where it carries no data.
    stands: Vec<u32>,
}

impl Groups {
    /// Number of the pool that stands for `link`.
    pub(super) fn of(&self, link: u32) -> usize {
        self.stands[link as usize] as usize
    }
    /// Links with traffic that are simulated.
    pub(super) fn links(&self, traffic: &Traffic) -> usize {
        let carries = |l: &u32| !traffic.crossing(*l).is_empty();
        self.simulated.iter().flat_map(|c| c.links()).filter(carries).count()
    }
}

/// A pool has so many flows at least, unless its kind ends: chosen, about ten times what is drawn from for a size.
const POOL: usize = 1000;

/// Cables of one kind have the same ports at the same distance from senders and receivers. In order of the bytes they carry they are
/// cut into groups of about equal size, so many that the middle ones of all groups carry `flows` each way together; `None` = a group each.
pub(super) fn group(setup: &Setup, traffic: &Traffic, flows: Option<u64>) -> Groups {
    let t = &setup.topology;
    // Links before and behind a link, of the flow that has most; and its port.
    let place = |number: u32| {
        let each = traffic.crossing(number).iter().map(|flow| {
            let path = traffic.path(*flow as usize);
            let before = path.iter().position(|p| *p == number).unwrap_or(0);
            (before, path.len() - before)
        });
        let most = each.reduce(|a, b| (a.0.max(b.0), a.1.max(b.1)));
        let (before, behind) = most.unwrap_or_default();
        format!("{before} {behind} {}", look(&t.links[number as usize]))
    };
    let mut kinds: BTreeMap<(String, String), Vec<Cable>> = BTreeMap::new();
    for cable in cables(t) {
        if cable.links().all(|l| traffic.crossing(l).is_empty()) {
            continue;
        }
        let (one, other) = (place(cable.link), cable.back.map(place).unwrap_or_default());
        // The two ends of a cable are alike: which one is named first does not matter.
        match cable.back {
            Some(back) if other < one => {
                kinds.entry((other, one)).or_default().push(Cable { link: back, back: Some(cable.link) });
            }
            _ => kinds.entry((one, other)).or_default().push(cable),
        }
    }
    let mut found = Groups { simulated: Vec::new(), pools: 0, stands: vec![u32::MAX; t.links.len()] };
    for cables in kinds.values_mut() {
        let bytes = |c: &Cable| c.links().map(|l| traffic.data[l as usize]).sum::<u64>();
        let crossing = |c: &Cable| c.links().map(|l| traffic.crossing(l).len()).sum::<usize>();
        cables.sort_by_key(|c| (bytes(c), *c));
        let carried: usize = cables.iter().map(crossing).sum();
        let each = (carried / 2 / cables.len()).max(1) as u64;
        let groups = flows.map_or(cables.len(), |n| (n.div_ceil(each) as usize).clamp(1, cables.len()));
        let mut pooled = usize::MAX;
        for g in 0..groups {
            if pooled >= 2 * POOL {
                // One for each way.
                found.pools += 2;
                pooled = 0;
            }
            let members = &cables[g * cables.len() / groups..(g + 1) * cables.len() / groups];
            let chosen = members[members.len() / 2];
            pooled += crossing(&chosen);
            found.simulated.push(chosen);
            for member in members {
                let pools = [found.pools - 2, found.pools - 1];
                member.links().zip(pools).for_each(|(l, pool)| found.stands[l as usize] = pool as u32);
            }
        }
    }
    found
}

/// Every cable: the links between two nodes one way and the other, in their order.
fn cables(t: &Topology) -> Vec<Cable> {
    let mut between: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
    (0..).zip(&t.links).for_each(|(number, l)| between.entry((l.from, l.to)).or_default().push(number));
    let mut found = Vec::new();
    for ((from, to), links) in &between {
        let back = between.get(&(*to, *from)).map_or(&[][..], Vec::as_slice);
        for (i, link) in links.iter().enumerate() {
            match back.get(i) {
                // The other way round it has been found already.
                Some(_) if from > to => {}
                back => found.push(Cable { link: *link, back: back.copied() }),
            }
        }
    }
    found
}

/// What a link has of its own, as text.
pub(super) fn look(l: &Link) -> String {
    format!("{:?} {:?} {:?} {} {} {:?}", l.rate, l.delay, l.buffer, l.queue.name(), l.loss, l.options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{drop_tail, LinkSpec};
    use penstock_units::{Dur, Rate};

    #[test]
    fn links_between_the_same_nodes_are_cables_in_their_order() {
        let mut t = Topology::default();
        let (a, b, c) = (t.host("a"), t.switch("b"), t.host("c"));
        let spec = LinkSpec { rate: Rate(1_000_000_000), delay: Dur(1), buffer: None, queue: drop_tail() };
        let (ab, ba) = t.connect(a, b, &spec);
        let (cb, bc) = t.connect(c, b, &spec);
        let (ab2, ba2) = t.connect(a, b, &spec);
        let alone = t.links[cb as usize].clone();
        let alone = t.add_link(alone);
        let cable = |link, back| Cable { link, back };
        let mut found = cables(&t);
        found.sort();
        let mut expected =
            [cable(ab, Some(ba)), cable(ab2, Some(ba2)), cable(bc, Some(cb)), cable(alone, None)];
        expected.sort();
        assert_eq!(found, expected);
    }
}
