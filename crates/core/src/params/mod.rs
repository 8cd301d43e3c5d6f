//! Parameters declared once: name, kind, default, range, text and origin. The command line, the
//! documentation and the checks are all read from these tables.
//!
//! `spec` has the declarations, `values` reads what a user writes, `words` finds what was probably meant.

mod spec;
mod values;
mod words;

pub use spec::{Amount, Kind, ParamError, ParamSpec};
pub use values::{bare, is_shared, parse_number, parse_size, parse_spec, quantity};
pub use words::{edit_distance, nearest, one_of, unknown};

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use penstock_units::{Bytes, Dur, Rate};
use spec::Value;
use values::{parse_value, RATE_UNITS, SIZE_UNITS, TIME_UNITS};

/// More keys than this are not listed in a message.
const MANY_KEYS: usize = 40;
/// Checked parameters of one component: every declared key has a value.
#[derive(Clone, Debug)]
pub struct Params {
    values: BTreeMap<&'static str, Entry>,
}

#[derive(Debug)]
struct Entry {
    kind: Kind,
    /// Smallest and largest legal value.
    range: (f64, f64),
    value: Option<Value>,
    /// As written, for messages and the resolved scenario.
    text: String,
    given: bool,
    /// What the value follows from, where it follows from others.
    derived: String,
    /// True once the parameter was read, so that it can have an effect.
    read: AtomicBool,
}

impl Clone for Entry {
    fn clone(&self) -> Entry {
        let read = AtomicBool::new(self.read.load(Ordering::Relaxed));
        let (value, text, derived) = (self.value.clone(), self.text.clone(), self.derived.clone());
        Entry { value, text, derived, read, ..*self }
    }
}

impl Entry {
    fn new(spec: &ParamSpec, value: Option<Value>, text: &str, given: bool) -> Entry {
        Entry {
            kind: spec.kind,
            range: (spec.min, spec.max),
            value,
            text: text.to_owned(),
            given,
            derived: String::new(),
            read: AtomicBool::new(false),
        }
    }
}

impl Params {
    /// Parses `given` (key, text) against `specs`; every other key takes its default.
    ///
    /// # Errors
    /// An unknown key, a value of the wrong kind or unit, or one out of range.
    pub fn parse(owner: &str, specs: &[ParamSpec], given: &[(String, String)]) -> Result<Params, ParamError> {
        let mut values = BTreeMap::new();
        for spec in specs {
            let value = if spec.default.is_empty() { None } else { Some(parse_value(spec, spec.default)?) };
            values.insert(spec.name, Entry::new(spec, value, spec.default, false));
        }
        for (key, text) in given {
            let Some(spec) = specs.iter().find(|s| s.name == key) else {
                let mut names: Vec<&str> = specs.iter().map(|s| s.name).collect();
                let rule = match nearest(key, names.iter().copied()) {
                    Some(name) => format!("unknown key of {owner}; did you mean {name}?"),
                    None if names.is_empty() => format!("unknown key: {owner} takes no parameters"),
                    None if names.len() > MANY_KEYS => {
                        let name = owner.rsplit(' ').next().unwrap_or(owner);
                        let count = names.len();
                        format!(
                            "unknown key of {owner}; `penstock describe {name}` lists the {count} it takes"
                        )
                    }
                    None => {
                        names.sort_unstable();
                        format!("unknown key of {owner}; it takes {}", names.join(", "))
                    }
                };
                return Err(ParamError::new(key.as_str(), text, rule));
            };
            let value = Some(parse_value(spec, text)?);
            values.insert(spec.name, Entry::new(spec, value, text.trim(), true));
        }
        Ok(Params { values })
    }

    fn entry(&self, key: &str) -> &Entry {
        let entry = self.values.get(key).unwrap_or_else(|| panic!("parameter {key} is not declared"));
        entry.read.store(true, Ordering::Relaxed);
        entry
    }
    fn value(&self, key: &str) -> &Value {
        self.entry(key)
            .value
            .as_ref()
            .unwrap_or_else(|| panic!("parameter {key} has no default and was not checked"))
    }
    /// True when the component has such a parameter.
    pub fn declares(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }
    /// True when the key has a value (given or default).
    pub fn is_set(&self, key: &str) -> bool {
        self.entry(key).value.is_some()
    }
    /// Takes back that `key` was read: its value was looked at, but has no effect in this run.
    pub fn no_effect(&self, key: &str) {
        self.entry(key).read.store(false, Ordering::Relaxed);
    }
    /// True when the user gave the key.
    pub fn is_given(&self, key: &str) -> bool {
        self.values.get(key).is_some_and(|e| e.given)
    }
    /// The value as written.
    pub fn text(&self, key: &str) -> &str {
        &self.entry(key).text
    }
    /// A number without unit, or the base-unit value of a rate, duration or size.
    pub fn float(&self, key: &str) -> f64 {
        match self.value(key) {
            Value::Number(x) => *x,
            other => panic!("parameter {key} is not a number: {other:?}"),
        }
    }
    /// A whole number.
    pub fn count(&self, key: &str) -> u64 {
        self.float(key) as u64
    }
    /// A rate.
    pub fn rate(&self, key: &str) -> Rate {
        Rate::from_bps(self.float(key))
    }
    /// A length of time.
    pub fn dur(&self, key: &str) -> Dur {
        Dur::from_secs(self.float(key))
    }
    /// A number of bytes.
    pub fn bytes(&self, key: &str) -> Bytes {
        Bytes(self.float(key) as u64)
    }
    /// Bytes or packets.
    pub fn amount(&self, key: &str) -> Amount {
        match self.value(key) {
            Value::Amount(a) => *a,
            other => panic!("parameter {key} is not an amount: {other:?}"),
        }
    }
    /// True or false.
    pub fn flag(&self, key: &str) -> bool {
        matches!(self.value(key), Value::Bool(true))
    }
    /// An error that names `key` and its value as written.
    pub fn error(&self, key: &str, rule: impl Into<String>) -> ParamError {
        ParamError::new(key, &self.entry(key).text, rule)
    }
    /// Gives a key that has no value the one that follows from others: `value` in base units (seconds, bits per second,
    /// bytes), brought into the legal range; `why` says what it follows from. A key with a value keeps it.
    ///
    /// # Panics
    /// A key of another kind than rate, duration, size, amount, or one that is not declared.
    pub fn derive(&mut self, key: &str, value: f64, why: &str) {
        let entry = self.values.get_mut(key).unwrap_or_else(|| panic!("parameter {key} is not declared"));
        if entry.value.is_some() {
            return;
        }
        let x = value.clamp(entry.range.0, entry.range.1);
        // The value is what its text says, so that giving the text gives the same run.
        let (text, units) = match entry.kind {
            Kind::Rate => (Rate::from_bps(x).to_string(), RATE_UNITS),
            Kind::Duration if x >= 1e-6 => (Dur::nanos(libm::round(x * 1e9) as u64).to_string(), TIME_UNITS),
            Kind::Duration => (Dur::from_secs(x).to_string(), TIME_UNITS),
            Kind::Size | Kind::Amount | Kind::Buffer => (Bytes(libm::ceil(x) as u64).to_string(), SIZE_UNITS),
            other => panic!("parameter {key} of kind {other:?} cannot be derived"),
        };
        let number = parse_number(&text, units).expect("written just now");
        entry.value = Some(match entry.kind {
            Kind::Amount | Kind::Buffer => Value::Amount(Amount::Bytes(number as u64)),
            _ => Value::Number(number),
        });
        entry.text = text;
        why.clone_into(&mut entry.derived);
    }
    /// Takes over from `other` which keys have been read.
    pub fn read_as(&mut self, other: &Params) {
        for (key, entry) in &self.values {
            let read = other.values.get(key).is_some_and(|e| e.read.load(Ordering::Relaxed));
            entry.read.store(read, Ordering::Relaxed);
        }
    }
    /// Keys whose values follow from others: value and what it follows from.
    pub fn derived(&self) -> impl Iterator<Item = (&'static str, &str, &str)> {
        self.values
            .iter()
            .filter(|(_, e)| !e.derived.is_empty())
            .map(|(k, e)| (*k, e.text.as_str(), e.derived.as_str()))
    }
    /// Every key with its value as written and whether the user gave it, in alphabetical order.
    pub fn resolved(&self) -> impl Iterator<Item = (&'static str, &str, bool)> {
        self.values.iter().map(|(k, e)| (*k, e.text.as_str(), e.given))
    }
    /// Keys the user gave that nothing has read: they had no effect.
    pub fn without_effect(&self) -> Vec<&'static str> {
        self.values
            .iter()
            .filter(|(_, e)| e.given && !e.read.load(Ordering::Relaxed))
            .map(|(k, _)| *k)
            .collect()
    }
}

#[cfg(test)]
mod tests;
