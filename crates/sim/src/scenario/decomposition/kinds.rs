//! Which cables are alike.

use super::traffic::Traffic;
use crate::setup::Setup;
use crate::topology::{Link, NodeKind, Topology};
use penstock_units::Rate;
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

/// Cables that do the same for the network: they have the same ports at the same distance from senders and receivers.
pub(super) struct Kind {
    /// In order of the bytes they carry; the first links of all of them are at one place, and so are the links back.
    pub(super) cables: Vec<Cable>,
    /// One end is a host, and flows come to both links by links that are at least as fast and not of few hosts. These links never hold traffic back,
    /// so each sender may have a link of its own, without queues, and no simulation without the cable is needed.
    pub(super) apart: bool,
}

/// All of them, and what is found on the links of which kind.
pub(super) struct Kinds {
    pub(super) all: Vec<Kind>,
    /// For every link twice the number of its kind, one more for links back; `u32::MAX` where it carries no data.
    pools: Vec<u32>,
}

impl Kinds {
    /// Number of the pool of what is found on links like `link`, of two for each kind.
    pub(super) fn pool(&self, link: u32) -> usize {
        self.pools[link as usize] as usize
    }
}

/// Sorts the cables that carry data by kind.
pub(super) fn sort(setup: &Setup, traffic: &Traffic) -> Kinds {
    let t = &setup.topology;
    let rate = |l: u32| t.links[l as usize].rate;
    let mut apart = vec![true; t.links.len()];
    // Links before and behind a link, of the flow that has most.
    let mut places = vec![(0, 0); t.links.len()];
    for flow in 0..traffic.flows.len() {
        let path = traffic.path(flow);
        let mut slowest = None;
        for (before, link) in path.iter().enumerate() {
            let place: &mut (usize, usize) = &mut places[*link as usize];
            *place = (place.0.max(before), place.1.max(path.len() - before));
            let own = rate(*link);
            apart[*link as usize] &= slowest.is_none_or(|s| s >= own);
            slowest = Some(slowest.map_or(own, |s: Rate| s.min(own)));
        }
    }
    // And its port.
    let looks: Vec<String> = t.links.iter().map(look).collect();
    let place = |l: u32| {
        let (before, behind) = places[l as usize];
        format!("{before} {behind} {}", looks[l as usize])
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
    let mut pools = vec![u32::MAX; t.links.len()];
    let bytes = |c: &Cable| c.links().map(|l| traffic.data[l as usize]).sum::<u64>();
    let all = (0..).zip(kinds.into_values()).map(|(number, mut cables)| {
        cables.sort_by_key(|c| (bytes(c), *c));
        for cable in &cables {
            cable.links().zip(2 * number..).for_each(|(l, pool)| pools[l as usize] = pool);
        }
        let at_host = |l: u32| {
            let l = &t.links[l as usize];
            [l.from, l.to].iter().any(|node| t.nodes[*node as usize].kind == NodeKind::Host)
        };
        let apart = cables.iter().flat_map(|c| c.links()).all(|l| apart[l as usize] && at_host(l));
        Kind { cables, apart }
    });
    Kinds { all: all.collect(), pools }
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
