//! A scenario file: its values, and the line each of them stands on.

use penstock_core::ParamError;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use toml::de::{DeTable, DeValue};

/// A TOML file, parsed.
pub struct File {
    /// Its name, for messages; empty = none.
    name: String,
    /// What it says.
    pub table: Map<String, Value>,
    /// Line of every key and table, by path: `servers`, `link[3]`, `link[3].rate`.
    lines: BTreeMap<String, usize>,
}

impl File {
    /// Parses `text` of the file `name`.
    ///
    /// # Errors
    /// What is no TOML, with the line where reading it failed.
    pub fn parse(text: &str, name: &str) -> Result<File, ParamError> {
        let broken = |e: &toml::de::Error| {
            let line = line_of(text, e.span().map_or(0, |s| s.start));
            let shown = text.lines().nth(line - 1).unwrap_or("").trim();
            let rule =
                format!("is not TOML: {}", e.message().split_whitespace().collect::<Vec<_>>().join(" "));
            ParamError { place: place(name, Some(line)), ..ParamError::new("file", shown, rule) }
        };
        let spans = DeTable::parse(text).map_err(|e| broken(&e))?;
        let mut lines = BTreeMap::new();
        walk(text, "", spans.get_ref(), &mut lines);
        let table: toml::Table = text.parse().map_err(|e| broken(&e))?;
        // TOML's values are JSON's but for dates, which become text, and numbers that are none.
        let value = serde_json::to_value(table)
            .map_err(|e| ParamError::new("file", name, format!("cannot be understood: {e}")))?;
        let Value::Object(table) = value else { unreachable!("a TOML document is a table") };
        Ok(File { name: name.to_owned(), table, lines })
    }
    /// The error with the place of its key in this file, where it is about something of the file; `outside` holds the keys
    /// that were set elsewhere.
    pub fn locate(&self, e: ParamError, outside: &Map<String, Value>) -> ParamError {
        let key = e.key.split(':').next().unwrap_or_default();
        let root = key.split(['[', '.']).next().unwrap_or_default();
        if !e.place.is_empty() || outside.contains_key(key) || outside.contains_key(root) {
            return e;
        }
        // A key that is missing is looked for where it should be.
        let mut path = key;
        let line = loop {
            match (self.lines.get(path), path.rsplit_once('.')) {
                (Some(line), _) => break Some(*line),
                (None, Some((parent, _))) => path = parent,
                (None, None) => break None,
            }
        };
        ParamError { place: place(&self.name, line), ..e }
    }
}

fn place(name: &str, line: Option<usize>) -> String {
    match (name, line) {
        ("", None) => String::new(),
        ("", Some(line)) => format!("line {line}"),
        (name, None) => name.to_owned(),
        (name, Some(line)) => format!("{name}:{line}"),
    }
}

/// Number of the line, from 1, that byte `at` of `text` is on.
fn line_of(text: &str, at: usize) -> usize {
    let before = &text.as_bytes()[..at.min(text.len())];
    let line = 1 + before.iter().filter(|b| **b == b'\n').count();
    line.min(text.lines().count().max(1))
}

fn walk(text: &str, path: &str, table: &DeTable<'_>, lines: &mut BTreeMap<String, usize>) {
    for (key, value) in table {
        let path =
            if path.is_empty() { key.get_ref().to_string() } else { format!("{path}.{}", key.get_ref()) };
        lines.insert(path.clone(), line_of(text, key.span().start));
        match value.get_ref() {
            DeValue::Table(inner) => walk(text, &path, inner, lines),
            DeValue::Array(items) => {
                for (i, item) in items.iter().enumerate() {
                    if let DeValue::Table(inner) = item.get_ref() {
                        let path = format!("{path}[{}]", i + 1);
                        lines.insert(path.clone(), line_of(text, item.span().start));
                        walk(text, &path, inner, lines);
                    }
                }
            }
            _ => {}
        }
    }
}

/// A value as its text: strings as they are, anything else as written in JSON, for the parameter to judge.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::String(s) => s.clone(),
        other => other.to_string(),
    }
}
