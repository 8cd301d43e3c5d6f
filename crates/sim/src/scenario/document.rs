//! The JSON documents at the edge: what to run, what there is, what was run.

use crate::file::{plain, File};
#[cfg(doc)]
use crate::folder::Folder;
use crate::metrics::series;
use crate::scenario::{Profile, Resolved, Scenario};
use crate::scenarios::{self, custom};
use crate::summary_keys;
use crate::tables::declared;
use crate::topologies::FAMILIES;
use penstock_core::params::nearest;
use penstock_core::quantity::{ACKED, CWND, RTT, SRTT};
use penstock_core::{Kind, ParamError, ParamSpec, Quantity, Unit};
use penstock_models::Registry;
use serde_json::{json, Map, Value};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What to run, as a document: `{"scenario": NAME, "set": {...}, "seed": N}`, or `{"toml": TEXT, "name": FILE, "base_dir":
/// DIR, "set": {...}, "seed": N}` where TEXT names the scenario and its values and FILE is its name in messages; `set`
/// overrides both. `files` has texts of files by the name the scenario has for them ([`Folder`]).
///
/// # Errors
/// Anything that is not such a document, an unknown key, a bad value; with the line of the file where it stands.
pub fn resolve(text: &str) -> Result<Resolved, ParamError> {
    resolve_among(Arc::new(Registry::standard()), text)
}

/// Resolves a document with the protocols, queues and controllers of `registry`.
///
/// # Errors
/// As [`resolve`].
pub fn resolve_among(registry: Arc<Registry>, text: &str) -> Result<Resolved, ParamError> {
    let bad = |rule: String| ParamError::new("scenario", "", rule);
    let document: Value = serde_json::from_str(text).map_err(|e| bad(format!("not a JSON document: {e}")))?;
    let seed = match document.get("seed") {
        None | Some(Value::Null) => 1,
        Some(seed) => seed
            .as_u64()
            .ok_or_else(|| ParamError::new("seed", plain(seed), "must be a whole number of 0 to 2^64 - 1"))?,
    };
    let set = match document.get("set") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(set)) => set.clone(),
        Some(other) => {
            return Err(ParamError::new("set", plain(other), "must be a table of keys and values"))
        }
    };
    let mut around = json!({ "base_dir": document.get("base_dir").cloned().unwrap_or(Value::Null) });
    if let Some(files) = document.get("files").filter(|files| files.is_object()) {
        around["files"] = files.clone();
    }
    let Some(text) = document.get("toml").and_then(Value::as_str) else {
        let name = document.get("scenario").and_then(Value::as_str);
        let name = name.ok_or_else(|| bad("no scenario is named".into()))?;
        around["tables"] = json!({});
        return Resolved::among(registry, name, &pairs(set), seed, around);
    };
    let name = document.get("name").and_then(Value::as_str).unwrap_or_default();
    let file = File::parse(text, name)?;
    from_file(registry, &file, &set, seed, around).map_err(|e| file.locate(e, &set))
}

/// The scenario of a file, with the keys of `set` on top.
fn from_file(
    registry: Arc<Registry>,
    file: &File,
    set: &Map<String, Value>,
    seed: u64,
    mut around: Value,
) -> Result<Resolved, ParamError> {
    let mut table = file.table.clone();
    // Who made the registry has read which controllers the file names.
    table.remove("protocols");
    let name = match table.remove("scenario") {
        Some(Value::String(name)) => name,
        Some(other) => {
            return Err(ParamError::new("scenario", plain(&other), "must be the name of a scenario"))
        }
        None => {
            let rule = "the file must name a scenario: scenario = \"incast\"";
            return Err(ParamError::new("scenario", "", rule));
        }
    };
    let structure = ["hosts", "switches", "link", "workload"];
    let tables = |v: &Value| v.is_array() || v.is_object();
    for (key, value) in table.iter().filter(|(k, v)| tables(v) && !structure.contains(&k.as_str())) {
        if let Some(near) = nearest(key, structure.into_iter()) {
            let rule = format!("unknown key of a scenario file; did you mean {near}?");
            return Err(ParamError::new(key, shown(value), rule));
        }
    }
    let (tables, mut given): (Map<_, _>, Map<_, _>) =
        table.into_iter().partition(|(k, _)| structure.contains(&k.as_str()));
    given.extend(set.clone());
    around["tables"] = tables.into();
    Resolved::among(registry, &name, &pairs(given), seed, around)
}

fn pairs(given: Map<String, Value>) -> Vec<(String, String)> {
    given.into_iter().map(|(k, v)| (k, plain(&v))).collect()
}

/// Tables are not repeated in a message.
fn shown(value: &Value) -> String {
    match value {
        Value::Array(items) if items.iter().any(Value::is_object) => format!("{} tables", items.len()),
        Value::Object(_) => "a table".to_owned(),
        other => plain(other),
    }
}

/// The resolved scenario as a document: every key with its value and whether it was given.
pub fn resolved(r: &Resolved) -> Value {
    let mut values = Map::new();
    let mut given = Vec::new();
    for (key, text, was_given) in r.params.resolved() {
        values.insert(key.to_owned(), Value::String(text.to_owned()));
        if was_given {
            given.push(key);
        }
    }
    let facts = r.facts.iter().map(|(k, v)| (k.name.to_owned(), json!(v)));
    let texts = r.derived.iter().map(|(k, v)| (k.to_string(), json!(v)));
    let derived: Map<_, _> = facts.chain(texts).collect();
    json!({
        "scenario": r.scenario.name,
        "source": r.scenario.source,
        "seed": r.seed,
        "set": values,
        "given": given,
        "without_effect": r.without_effect,
        "notes": r.notes,
        "derived": derived,
        "file": r.file,
    })
}

/// A measured quantity as a document.
fn quantity(q: &Quantity) -> Value {
    json!({ "name": q.name, "unit": q.unit.symbol(), "text": q.text })
}

/// What stands before the columns of a table where it is of several runs.
static RUN: Quantity = Quantity::new("run", Unit::One, "replication, from 0");

/// What is sampled of a TCP connection, whatever its protocol.
static TCP: [&Quantity; 4] = [&CWND, &ACKED, &SRTT, &RTT];

/// A column as a document.
fn column(what: &Quantity, kind: &str) -> Value {
    let mut out = quantity(what);
    out["type"] = kind.into();
    out
}

/// What may be in the series table: every metric once, with whom it is of.
fn metrics(registry: &Registry) -> Vec<Value> {
    let mut found: Vec<(&Quantity, Vec<String>)> = Vec::new();
    let mut add = |of: &str, metrics: &[&'static Quantity]| {
        for metric in metrics {
            match found.iter_mut().find(|known| known.0.name == metric.name) {
                Some(known) => known.1.push(of.to_owned()),
                None => found.push((metric, vec![of.to_owned()])),
            }
        }
    };
    add("ports", &series::PORT);
    add("flows of TCP", &TCP);
    registry.protocols().iter().for_each(|p| add(p.name, p.reports));
    registry.host_controllers().iter().for_each(|p| add(p.name, p.reports));
    add("hosts", &series::HOST);
    let entry = |(metric, of): (&Quantity, Vec<String>)| {
        let mut out = quantity(metric);
        out["of"] = of.into();
        out
    };
    found.into_iter().map(entry).collect()
}

/// A parameter as a document.
pub fn spec(s: &ParamSpec) -> Value {
    let bound = |x: f64| if x.is_finite() { json!(x) } else { Value::Null };
    let (kind, choices) = match s.kind {
        Kind::Rate => ("rate", None),
        Kind::Duration => ("duration", None),
        Kind::Size => ("size", None),
        Kind::Amount | Kind::Buffer => ("amount", None),
        Kind::Count => ("count", None),
        Kind::Float => ("float", None),
        Kind::Bool => ("bool", None),
        Kind::Choice(words) => ("choice", Some(words)),
        Kind::Text => ("text", None),
        Kind::File => ("file", None),
        Kind::Sizes => ("sizes", None),
    };
    json!({
        "name": s.name, "kind": kind, "unit": s.unit(), "default": s.default, "min": bound(s.min),
        "max": bound(s.max), "choices": choices, "text": s.text, "origin": s.origin,
    })
}

/// The profiles of a scenario, each with every value that differs between them.
fn profiles(s: &Scenario) -> Vec<Value> {
    let keys: BTreeSet<&str> = s.profiles.iter().flat_map(Profile::defaults).map(|v| v.0).collect();
    let one = |p: &Profile| {
        let specs = s.specs_of(p.name);
        let values: Vec<Value> = specs
            .iter()
            .filter(|spec| keys.contains(spec.name))
            .map(|spec| json!({ "key": spec.name, "value": spec.default, "origin": spec.origin }))
            .collect();
        json!({ "name": p.name, "text": p.text, "values": values })
    };
    s.profiles.iter().map(one).collect()
}

/// Everything there is: scenarios, protocols, receiver-side and host controllers and queue disciplines with their
/// parameters, the keys of a summary and the columns of the tables.
pub fn catalogue() -> Value {
    catalogue_of(&Registry::standard())
}

/// Resolves a document with the protocols, queues and controllers of `registry`.
pub fn catalogue_of(registry: &Registry) -> Value {
    let named = |name: &str, text: &str, source: &str, params: &[ParamSpec]| {
        let params: Vec<Value> = params.iter().map(spec).collect();
        json!({ "name": name, "text": text, "source": source, "params": params })
    };
    let scenario = |s: &&Scenario| {
        let mut about = named(s.name, s.text, s.source, &s.specs());
        if !s.profiles.is_empty() {
            about["profiles"] = profiles(s).into();
        }
        if s.name == "custom" {
            about["tables"] = custom::TABLES
                .iter()
                .map(|t| {
                    let params: Vec<Value> = t.params().iter().map(spec).collect();
                    json!({ "name": t.name, "text": t.text, "nodes": t.nodes, "params": params })
                })
                .collect();
        }
        about
    };
    let reporting = |mut about: Value, reports: &[&Quantity]| {
        about["reports"] = reports.iter().map(|metric| metric.name).collect();
        about
    };
    let protocols = registry.protocols().iter();
    let protocols = protocols.map(|p| reporting(named(p.name, p.text, p.cites, p.params), p.reports));
    let hosts = registry.host_controllers().iter();
    let hosts = hosts.map(|p| reporting(named(p.name, p.text, p.cites, p.params), p.reports));
    let receive = registry.receive_controls().iter().map(|p| named(p.name, p.text, p.cites, p.params));
    let queues = registry.queues().iter().map(|d| named(d.name, d.text, d.cites, d.params));
    json!({
        "scenarios": scenarios::ALL.iter().map(scenario).collect::<Vec<_>>(),
        "protocols": protocols.collect::<Vec<_>>(),
        "host_controllers": hosts.collect::<Vec<_>>(),
        "receive_controls": receive.collect::<Vec<_>>(),
        "queues": queues.collect::<Vec<_>>(),
        "summary_keys": summary_keys::all().map(quantity).collect::<Vec<_>>(),
        "tables": declared().map(|table| {
            // A result is of several runs: its tables begin with the number of the run.
            let columns = std::iter::once((&RUN, "u32")).chain(table.columns);
            let columns: Vec<Value> = columns.map(|(what, kind)| column(what, kind)).collect();
            json!({ "name": table.name, "text": table.text, "columns": columns })
        }),
        "metrics": metrics(registry),
        "topologies": FAMILIES
            .iter()
            .map(|f| json!({ "name": f.name, "text": format!("{}: {}", f.form, f.text), "source": f.source }))
            .collect::<Vec<_>>(),
    })
}
