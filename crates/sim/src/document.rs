//! The JSON documents at the edge: what to run, what there is, what was run.

use crate::scenario::{Resolved, Scenario};
use crate::scenarios::{self, custom};
use penstock_core::params::edit_distance;
use penstock_core::{Kind, ParamError, ParamSpec};
use penstock_models::queues::DISCIPLINES;
use penstock_models::registry::{HOST_PROTOCOLS, PROTOCOLS};
use serde_json::{json, Map, Value};

/// What to run, as a document: `{"scenario": NAME, "set": {...}, "seed": N}`, or `{"toml": TEXT, "base_dir":
/// DIR, "set": {...}, "seed": N}` where TEXT names the scenario and its values; `set` overrides both.
///
/// # Errors
/// Anything that is not such a document, an unknown key, a bad value.
pub fn resolve(text: &str) -> Result<Resolved, ParamError> {
    let bad = |rule: String| ParamError::new("scenario", "", rule);
    let document: Value = serde_json::from_str(text).map_err(|e| bad(format!("not a JSON document: {e}")))?;
    let seed = match document.get("seed") {
        None | Some(Value::Null) => 1,
        Some(seed) => seed
            .as_u64()
            .ok_or_else(|| ParamError::new("seed", plain(seed), "must be a whole number of 0 to 2^64 - 1"))?,
    };
    let mut given: Map<String, Value> = Map::new();
    let mut name = document.get("scenario").and_then(Value::as_str).map(str::to_owned);
    let base_dir = document.get("base_dir").cloned().unwrap_or(Value::Null);
    let mut file = json!({ "tables": {}, "base_dir": base_dir });
    if let Some(text) = document.get("toml").and_then(Value::as_str) {
        let parsed: toml::Table = text
            .parse()
            .map_err(|e: toml::de::Error| ParamError::new("file", "", one_line(&e.to_string())))?;
        let mut parsed = serde_json::to_value(parsed).map_err(|e| bad(e.to_string()))?;
        let table = parsed.as_object_mut().expect("a TOML document is a table");
        match table.remove("scenario") {
            Some(Value::String(n)) => name = Some(n),
            Some(other) => {
                return Err(ParamError::new("scenario", plain(&other), "must be the name of a scenario"))
            }
            None => {
                return Err(ParamError::new(
                    "scenario",
                    "",
                    "the file must name a scenario: scenario = \"incast\"",
                ))
            }
        }
        let structure = ["hosts", "switches", "link", "workload"];
        for (key, value) in table.iter().filter(|(k, v)| v.is_array() && !structure.contains(&k.as_str())) {
            if let Some(near) = structure.iter().find(|s| edit_distance(s, key) <= 2) {
                let rule = format!("unknown key of a scenario file; did you mean {near}?");
                return Err(ParamError::new(key, plain(value), rule));
            }
        }
        let (tables, plain): (Map<_, _>, Map<_, _>) =
            std::mem::take(table).into_iter().partition(|(k, _)| structure.contains(&k.as_str()));
        given.extend(plain);
        file["tables"] = Value::Object(tables);
    }
    match document.get("set") {
        None | Some(Value::Null) => {}
        Some(Value::Object(set)) => given.extend(set.clone()),
        Some(other) => {
            return Err(ParamError::new("set", plain(other), "must be a table of keys and values"))
        }
    }
    let name = name.ok_or_else(|| bad("no scenario is named".into()))?;
    let pairs: Vec<_> = given.into_iter().map(|(k, v)| (k, plain(&v))).collect();
    Resolved::new(&name, &pairs, seed, file)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A value as its text: strings as they are, anything else as written in JSON, for the parameter to judge.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::String(s) => s.clone(),
        other => other.to_string(),
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
    let facts = r.facts.iter().map(|(k, v)| (k.to_string(), json!(v)));
    let texts = r.derived.iter().map(|(k, v)| (k.to_string(), json!(v)));
    let derived: Map<_, _> = facts.chain(texts).collect();
    json!({
        "scenario": r.scenario.name,
        "source": r.scenario.source,
        "seed": r.seed,
        "set": values,
        "given": given,
        "without_effect": r.without_effect,
        "derived": derived,
        "file": r.file,
    })
}

/// A parameter as a document.
pub fn spec(s: &ParamSpec) -> Value {
    let bound = |x: f64| if x.is_finite() { json!(x) } else { Value::Null };
    let (kind, choices) = match s.kind {
        Kind::Rate => ("rate", None),
        Kind::Duration => ("duration", None),
        Kind::Size => ("size", None),
        Kind::Amount => ("amount", None),
        Kind::Count => ("count", None),
        Kind::Float => ("float", None),
        Kind::Bool => ("bool", None),
        Kind::Choice(words) => ("choice", Some(words)),
        Kind::Text => ("text", None),
    };
    json!({
        "name": s.name, "kind": kind, "unit": s.unit(), "default": s.default, "min": bound(s.min),
        "max": bound(s.max), "choices": choices, "text": s.text, "origin": s.origin,
    })
}

/// Everything there is: scenarios, protocols, host controllers and queue disciplines with their parameters.
pub fn catalogue() -> Value {
    let scenario = |s: &&Scenario| {
        let params: Vec<Value> = s.specs().iter().map(spec).collect();
        let mut about = json!({ "name": s.name, "text": s.text, "source": s.source, "params": params });
        if s.name == "custom" {
            about["tables"] = custom::TABLES
                .iter()
                .map(|t| {
                    let params: Vec<Value> = t.params.iter().map(spec).collect();
                    json!({ "name": t.name, "text": t.text, "nodes": t.nodes, "params": params })
                })
                .collect();
        }
        about
    };
    let protocols: Vec<Value> = PROTOCOLS
        .iter()
        .map(|p| {
            let params: Vec<Value> = p.params.iter().map(spec).collect();
            json!({ "name": p.name, "text": p.text, "source": p.cites, "params": params })
        })
        .collect();
    let hosts: Vec<Value> = HOST_PROTOCOLS
        .iter()
        .map(|p| {
            let params: Vec<Value> = p.params.iter().map(spec).collect();
            json!({ "name": p.name, "text": p.text, "source": p.cites, "params": params })
        })
        .collect();
    let queues: Vec<Value> = DISCIPLINES
        .iter()
        .map(|d| {
            let params: Vec<Value> = d.params.iter().map(spec).collect();
            json!({ "name": d.name, "text": d.text, "source": d.cites, "params": params })
        })
        .collect();
    json!({
        "scenarios": scenarios::ALL.iter().map(scenario).collect::<Vec<_>>(),
        "protocols": protocols,
        "host_controllers": hosts,
        "queues": queues,
    })
}
