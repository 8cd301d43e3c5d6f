//! The changes of a run's links, from the key `fail` and from the links themselves.

use super::link::{parse_outage, Change, LinkChange, Outage};
use crate::topology::Topology;
use penstock_core::ParamError;
use penstock_units::{Dur, Time};

/// The beginning of an outage and, where it has one, its end.
fn changes_of(outage: &Outage, t: &Topology, links: &[u32], changes: &mut Vec<LinkChange>) {
    let mut put = |at: Dur, links: &[u32], change| {
        changes.push(LinkChange { at: Time::ZERO + at, links: links.to_vec(), change });
    };
    match outage.rate {
        None => {
            put(outage.from, links, Change::Fail { keep: outage.keep });
            if let Some(to) = outage.to {
                put(to, links, Change::Recover);
            }
        }
        Some(rate) => {
            put(outage.from, links, Change::Rate(rate));
            if let Some(to) = outage.to {
                // Both directions may have different rates of their own.
                links.iter().for_each(|l| put(to, &[*l], Change::Rate(t.links[*l as usize].rate)));
            }
        }
    }
}

/// The links a text names: `A->B`, or `A<->B` for both directions.
fn links_of(t: &Topology, key: &str, text: &str) -> Result<Vec<u32>, ParamError> {
    let refuse = |rule: String| Err(ParamError::new(key, text, rule));
    let (ends, both) = match (text.split_once("<->"), text.split_once("->")) {
        (Some(ends), _) => (ends, true),
        (None, Some(ends)) => (ends, false),
        _ => return refuse("must name a link, A->B for one direction or A<->B for both".into()),
    };
    let mut numbers = [0; 2];
    for (number, name) in numbers.iter_mut().zip([ends.0.trim(), ends.1.trim()]) {
        match t.find(name) {
            Some(found) => *number = found,
            None => return refuse(format!("there is no node {name} in this network")),
        }
    }
    let [a, b] = numbers;
    let mut links = Vec::new();
    for (from, to) in [(a, b), (b, a)].into_iter().take(if both { 2 } else { 1 }) {
        let between = t.links_between(from, to);
        if between.is_empty() {
            let name = |n: u32| &t.nodes[n as usize].name;
            return refuse(format!("there is no link {}->{} in this network", name(from), name(to)));
        }
        links.extend(between);
    }
    Ok(links)
}

/// All that happens to links: what `fail` says, and what stands with the links themselves; in order of time.
///
/// # Errors
/// A link that does not exist, a time that is none.
pub fn changes(t: &Topology, fail: &str) -> Result<Vec<LinkChange>, ParamError> {
    let mut changes = Vec::new();
    for part in fail.split(';').map(str::trim).filter(|part| !part.is_empty()) {
        let Some((link, when)) = part.rsplit_once('@') else {
            return Err(ParamError::new("fail", part, "must be LINK@T1 or LINK@T1-T2"));
        };
        let links = links_of(t, "fail", link.trim())?;
        changes_of(&parse_outage("fail", when)?, t, &links, &mut changes);
    }
    for (number, link) in (0u32..).zip(&t.links) {
        link.options.outages.iter().for_each(|o| changes_of(o, t, &[number], &mut changes));
    }
    // A stable sort: what is written first happens first.
    changes.sort_by_key(|c| c.at);
    Ok(changes)
}
