//! Links that fail, recover, or go on at another rate, at given times.

use crate::topology::Topology;
use penstock_core::{Kind, ParamError, ParamSpec, Params};
use penstock_units::{Dur, Rate, Time};

/// What happens to a link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Change {
    /// It is down; packets that wait for it are lost, or kept.
    Fail {
        /// They wait for its recovery.
        keep: bool,
    },
    /// It is up again.
    Recover,
    /// It has another rate from the next packet on.
    Rate(Rate),
}

/// What happens to the links of a cable at one instant.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkChange {
    /// When.
    pub at: Time,
    /// Links, by number: one direction or both.
    pub links: Vec<u32>,
    /// What.
    pub change: Change,
}

/// A time during which a link is down or slower.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Outage {
    from: Dur,
    /// `None` = to the end of the run.
    to: Option<Dur>,
    /// `None` = it is down.
    rate: Option<Rate>,
    keep: bool,
}

const TIME: ParamSpec = ParamSpec::new("time", Kind::Duration, "", "", "").range(0.0, 1e6);
const RATE: ParamSpec = ParamSpec::new("rate", Kind::Rate, "", "", "").range(1e3, 1e13);
const WAITING: ParamSpec = ParamSpec::new("waiting", Kind::Choice(&["lost", "kept"]), "lost", "", "");

/// Reads `T1`, `T1-T2`, `T1-T2,rate=R`, `T1-T2,waiting=kept`.
///
/// # Errors
/// What is no time, an end before the beginning.
pub fn parse_outage(key: &str, text: &str) -> Result<Outage, ParamError> {
    let bad = |rule: &str| ParamError::new(key, text, rule);
    let time = |text: &str| {
        let given = [("time".to_owned(), text.trim().to_owned())];
        Params::parse(key, &[TIME], &given)
            .map(|p| p.dur("time"))
            .map_err(|_| bad("must have times with units, T1 or T1-T2, such as 10ms-20ms"))
    };
    let mut parts = text.split(',');
    let (from, to) = match parts.next().unwrap_or_default().split_once('-') {
        Some((from, to)) => (time(from)?, Some(time(to)?)),
        None => (time(text.split(',').next().unwrap_or_default())?, None),
    };
    if to.is_some_and(|to| to <= from) {
        return Err(bad("must end after it begins"));
    }
    let given: Option<Vec<(String, String)>> = parts
        .map(|part| part.split_once('=').map(|(k, v)| (k.trim().to_owned(), v.trim().to_owned())))
        .collect();
    let given = given.ok_or_else(|| bad("must be T1-T2, then rate=R or waiting=kept"))?;
    let p = Params::parse(key, &[RATE, WAITING], &given)
        .map_err(|e| ParamError { key: format!("{key}:{}", e.key), ..e })?;
    let rate = p.is_set("rate").then(|| p.rate("rate"));
    let keep = p.text("waiting") == "kept";
    if rate.is_some() && p.is_given("waiting") {
        return Err(ParamError::new(
            format!("{key}:waiting"),
            p.text("waiting"),
            "cannot be given together with rate: the link stays up",
        ));
    }
    Ok(Outage { from, to, rate, keep })
}

impl Outage {
    /// Its beginning and, where it has one, its end.
    fn changes(&self, t: &Topology, links: &[u32], changes: &mut Vec<LinkChange>) {
        let mut put = |at: Dur, links: &[u32], change| {
            changes.push(LinkChange { at: Time::ZERO + at, links: links.to_vec(), change });
        };
        match self.rate {
            None => {
                put(self.from, links, Change::Fail { keep: self.keep });
                if let Some(to) = self.to {
                    put(to, links, Change::Recover);
                }
            }
            Some(rate) => {
                put(self.from, links, Change::Rate(rate));
                if let Some(to) = self.to {
                    // Both directions may have different rates of their own.
                    links.iter().for_each(|l| put(to, &[*l], Change::Rate(t.links[*l as usize].rate)));
                }
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
        parse_outage("fail", when)?.changes(t, &links, &mut changes);
    }
    for (number, link) in (0u32..).zip(&t.links) {
        link.options.outages.iter().for_each(|o| o.changes(t, &[number], &mut changes));
    }
    // A stable sort: what is written first happens first.
    changes.sort_by_key(|c| c.at);
    Ok(changes)
}
