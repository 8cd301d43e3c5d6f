//! Nodes and links of a scenario file.

use super::tables::{find_nodes, list, names, Table, MOST_NODES, TABLES};
use crate::bottleneck::Bottleneck;
use crate::fabric_options::{parse_outage, reorder, schedule, trim, LinkOptions};
use crate::file::plain;
use crate::scenario::Common;
use crate::topologies::Named;
use crate::topology::{drop_tail, Link, NodeKind, Topology};
use penstock_core::{bail_if, ParamError, Params};
use serde_json::Value;
use std::collections::BTreeSet;

/// Most directed links a network may have.
const MOST_LINKS: usize = 400_000;

/// The network of a file: by name, or by its tables.
pub(super) fn network(p: &Params, c: &Common, unused: &mut Vec<String>) -> Result<Topology, ParamError> {
    if !p.is_set("topology") {
        return from_tables(p, c, unused);
    }
    if let Some(key) = ["hosts", "switches", "link"].into_iter().find(|k| c.tables.contains_key(*k)) {
        let rule = format!("cannot be given together with topology = \"{}\"", p.text("topology"));
        return Err(ParamError::new(key, "", rule));
    }
    let named = Named::parse("topology", p.text("topology"))?;
    for key in ["link_rate", "link_delay"] {
        bail_if!(!p.is_set(key), p.error(key, "must be given with topology"));
    }
    named.build(&named.tiers(p, c)?)
}

fn from_tables(p: &Params, c: &Common, unused: &mut Vec<String>) -> Result<Topology, ParamError> {
    let mut t = Topology::default();
    let mut seen = std::collections::BTreeSet::new();
    for (key, kind) in [("hosts", NodeKind::Host), ("switches", NodeKind::Switch)] {
        let Some(value) = c.tables.get(key) else {
            if kind == NodeKind::Host {
                return Err(ParamError::new(
                    key,
                    "",
                    "the file must list its hosts, hosts = [\"a\", \"b\"], or name a topology",
                ));
            }
            continue;
        };
        if matches!(value, Value::Array(a) if a.is_empty()) {
            continue;
        }
        for name in names(key, value)? {
            if !seen.insert(name.clone()) {
                return Err(ParamError::new(key, name, "is the name of another node already"));
            }
            t.add(name, kind);
            if t.nodes.len() > MOST_NODES {
                return Err(ParamError::new(
                    key,
                    t.nodes.len(),
                    format!("at most {MOST_NODES} nodes are possible"),
                ));
            }
        }
    }
    let links = list(c, "link")?;
    bail_if!(links.is_empty(), ParamError::new("link", "", "the file must have at least one [[link]]"));
    let (mut default_queue_used, mut default_buffer_used) = (false, c.fabric.shared.is_some());
    for (i, item) in links.iter().enumerate() {
        let table = Table::read(format!("link[{}]", i + 1), item, "link", &TABLES[0])?;
        table.need("rate")?;
        table.need("delay")?;
        let q = &table.params;
        let both = table.nodes.contains_key("between");
        let (from, to) = if both {
            let key = format!("{}.between", table.path);
            if let Some(k) = ["from", "to"].into_iter().find(|k| table.nodes.contains_key(*k)) {
                let value = plain(&table.nodes[k]);
                let rule = "cannot be given together with between";
                return Err(ParamError::new(format!("{}.{k}", table.path), value, rule));
            }
            match &table.nodes["between"] {
                Value::Array(ends) if ends.len() == 2 => {
                    (find_nodes(&t, &key, &ends[0])?, find_nodes(&t, &key, &ends[1])?)
                }
                other => {
                    let rule = "must be a list of two names, such as [\"a\", \"s\"]";
                    return Err(ParamError::new(key, plain(other), rule));
                }
            }
        } else if table.nodes.is_empty() {
            return Err(ParamError::new(&table.path, "", "must have between = [A, B], or from and to"));
        } else {
            (table.nodes(&t, "from")?, table.nodes(&t, "to")?)
        };
        let queue = if q.is_set("queue") {
            Some(table.within(c.registry.queue("queue", q.text("queue")))?)
        } else {
            None
        };
        let options = link_options(c, &table)?;
        let (mut buffer_used, mut queue_used) = (false, false);
        for a in &from {
            for b in &to {
                let name = |n: &u32| t.nodes[*n as usize].name.clone();
                bail_if!(a == b, ParamError::new(&table.path, name(a), "must join two different nodes"));
                if t.links.len() + 2 > MOST_LINKS {
                    let rule = format!("at most {MOST_LINKS} directed links are possible");
                    return Err(ParamError::new(&table.path, t.links.len(), rule));
                }
                for (x, y) in [(*a, *b), (*b, *a)].into_iter().take(if both { 2 } else { 1 }) {
                    let switch = t.nodes[x as usize].kind == NodeKind::Switch;
                    // A host's own port is the sending computer's memory: no limit unless one is asked for.
                    let limited = switch || (!both && q.is_given("buffer"));
                    let managed = switch || (!both && q.is_given("queue"));
                    let buffer = if limited {
                        buffer_used = true;
                        if q.is_given("buffer") {
                            let amount = q.amount("buffer");
                            c.check_buffer(amount, || table.error("buffer", String::new()))?;
                            Some(amount)
                        } else if c.fabric.shared.is_some() {
                            // Memory that is shared is limited by link only where the link says so.
                            None
                        } else {
                            default_buffer_used = true;
                            let amount = p.amount("buffer");
                            c.check_buffer(amount, || p.error("buffer", String::new()))?;
                            Some(amount)
                        }
                    } else {
                        None
                    };
                    let discipline = match &queue {
                        Some(spec) if managed => {
                            queue_used = true;
                            spec.clone()
                        }
                        None if switch => {
                            default_queue_used = true;
                            c.queue.clone()
                        }
                        _ => drop_tail(),
                    };
                    t.add_link(Link {
                        from: x,
                        to: y,
                        rate: q.rate("rate"),
                        delay: q.dur("delay"),
                        buffer,
                        queue: discipline,
                        loss: q.float("loss"),
                        controlled: switch,
                        options: options.clone(),
                    });
                }
            }
        }
        if !buffer_used {
            q.no_effect("buffer");
        }
        if !queue_used {
            q.no_effect("queue");
        }
        unused.extend(q.without_effect().iter().map(|k| format!("{}.{k}", table.path)));
    }
    if !default_queue_used {
        p.no_effect("queue");
    }
    if !default_buffer_used {
        p.no_effect("buffer");
    }
    Ok(t)
}

/// What a link has of its own instead of the run's.
fn link_options(c: &Common, table: &Table) -> Result<LinkOptions, ParamError> {
    let q = &table.params;
    let text = |key: &str| q.is_set(key).then(|| q.text(key));
    let (sizes, priorities) = (c.sizes(), c.fabric.priorities);
    let scheduler = text("schedule").map(|t| schedule("schedule", t, sizes)).transpose();
    let own_trim = text("trim").map(|t| trim("trim", t, sizes, priorities)).transpose();
    let own_trim = table.within(own_trim)?;
    table.within(c.fabric.check_trim("trim", own_trim.flatten()))?;
    let outage = text("fail").map(|t| parse_outage("fail", t)).transpose();
    Ok(LinkOptions {
        scheduler: table.within(scheduler)?,
        trim: own_trim,
        reorder: table.within(text("reorder").map(|t| reorder("reorder", t)).transpose())?,
        outages: table.within(outage)?.into_iter().collect(),
    })
}

/// The link that the scenario names, else the slowest port of a switch that leads to another switch or to a host among `used`: links of idle
/// hosts must not decide on timing noise.
pub(super) fn bottleneck(p: &Params, t: &Topology, used: &BTreeSet<u32>) -> Result<Bottleneck, ParamError> {
    if p.is_set("bottleneck") {
        let ends = p.text("bottleneck").split_once("->").map(|(a, b)| (t.find(a.trim()), t.find(b.trim())));
        let Some((Some(a), Some(b))) = ends else {
            return Err(p.error("bottleneck", "must be FROM->TO with the names of two nodes"));
        };
        let link = t.link_between(a, b).ok_or_else(|| p.error("bottleneck", "there is no such link"));
        return link.map(Bottleneck::Fixed);
    }
    let from_switch = |l: &Link| t.nodes[l.from as usize].kind == NodeKind::Switch;
    let idle = |l: &Link| t.nodes[l.to as usize].kind != NodeKind::Switch && !used.contains(&l.to);
    let busy = |l: &Link| from_switch(l) && !idle(l);
    let switches = (0..t.links.len() as u32).filter(|l| busy(&t.links[*l as usize]));
    // Without a switch the first link stands for all.
    let candidate = switches.min_by_key(|l| t.links[*l as usize].rate).unwrap_or(0);
    Ok(Bottleneck::Busiest { candidate })
}
