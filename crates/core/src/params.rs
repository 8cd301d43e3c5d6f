//! Parameters declared once: name, kind, default, range, text and origin. The command line, the
//! documentation and the checks are all read from these tables.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use penstock_units::{Bytes, Dur, Rate};

/// What a parameter's value is, with its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A rate: `10Gbps`, `500kbps`.
    Rate,
    /// A length of time: `300us`, `0.2s`.
    Duration,
    /// Bytes: `32KB` (1000), `32KiB` (1024), a plain number is bytes.
    Size,
    /// Bytes or packets: `32KB` or `100pkt`.
    Amount,
    /// A port's share of a switch's memory, bytes or packets; or all of it, shared: `shared:alpha=1,size=2MB`.
    Buffer,
    /// A whole number.
    Count,
    /// A number without unit.
    Float,
    /// `true` or `false`.
    Bool,
    /// One of the listed words.
    Choice(&'static [&'static str]),
    /// Free text, checked by whoever reads it.
    Text,
}

/// One parameter, declared once.
#[derive(Clone, Copy, Debug)]
pub struct ParamSpec {
    /// The key.
    pub name: &'static str,
    /// Type and unit.
    pub kind: Kind,
    /// Default, written as a user would; empty means "not set".
    pub default: &'static str,
    /// Smallest legal value in base units (seconds, bytes, bits per second).
    pub min: f64,
    /// Largest legal value in base units.
    pub max: f64,
    /// What it is, in one line.
    pub text: &'static str,
    /// Where the default comes from (paper section, RFC, or "chosen").
    pub origin: &'static str,
}

impl ParamSpec {
    /// A parameter with every field but the range, which is [0, infinity).
    pub const fn new(
        name: &'static str,
        kind: Kind,
        default: &'static str,
        text: &'static str,
        origin: &'static str,
    ) -> ParamSpec {
        ParamSpec { name, kind, default, min: 0.0, max: f64::INFINITY, text, origin }
    }
    /// The same with a range.
    pub const fn range(mut self, min: f64, max: f64) -> ParamSpec {
        self.min = min;
        self.max = max;
        self
    }
    /// The same with another default.
    pub const fn with_default(mut self, default: &'static str, origin: &'static str) -> ParamSpec {
        self.default = default;
        self.origin = origin;
        self
    }
    /// The unit shown to a user.
    pub fn unit(&self) -> &'static str {
        match self.kind {
            Kind::Rate => "bit/s",
            Kind::Duration => "s",
            Kind::Size => "bytes",
            Kind::Amount => "bytes or packets",
            Kind::Buffer => "bytes or packets of a port, or shared:alpha=..,size=.. of a switch",
            Kind::Count | Kind::Float => "",
            Kind::Bool => "true/false",
            Kind::Choice(_) => "one of",
            Kind::Text => "text",
        }
    }
}

/// Bytes or packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Amount {
    /// So many bytes.
    Bytes(u64),
    /// So many packets.
    Packets(u32),
}

/// A bad value: which key, what was given, which rule it breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamError {
    /// The key, as a path (`link[3].rate`).
    pub key: String,
    /// What was given.
    pub value: String,
    /// The rule, as a sentence fragment ("must be at least 1").
    pub rule: String,
    /// Where it stands in a scenario file (`my.toml:12`); empty = nowhere.
    pub place: String,
}

impl ParamError {
    /// An error about `key`.
    pub fn new(key: impl Into<String>, value: impl ToString, rule: impl Into<String>) -> ParamError {
        ParamError { key: key.into(), value: value.to_string(), rule: rule.into(), place: String::new() }
    }
}

/// Characters of a value that a message shows.
const LONGEST_VALUE: usize = 120;

impl core::fmt::Display for ParamError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // One line, whatever was given.
        let line = |text: &str| text.replace(char::is_control, " ");
        let start: String = self.value.chars().take(LONGEST_VALUE).collect();
        let more = if start.len() < self.value.len() { "..." } else { "" };
        if !self.place.is_empty() {
            write!(f, "{}: ", line(&self.place))?;
        }
        write!(f, "{} = {start:?}{more}: {}", line(&self.key), line(&self.rule))
    }
}

impl core::error::Error for ParamError {}

/// A parsed value.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Number(f64),
    Amount(Amount),
    Bool(bool),
    Text(String),
}

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
    /// Somebody has asked for it: the parameter can have an effect.
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

fn parse_value(spec: &ParamSpec, text: &str) -> Result<Value, ParamError> {
    let text = text.trim();
    let bad = |rule: String| ParamError::new(spec.name, text, rule);
    let number = |units: &[(&str, f64)], what: &str| -> Result<f64, ParamError> {
        let x = parse_number(text, units).ok_or_else(|| match other_case(text, units) {
            Some(near) => bad(format!("must be {what}; did you mean {near}?")),
            None => bad(format!("must be {what}, for example {}", example(spec))),
        })?;
        check_range(spec, text, x)?;
        Ok(x)
    };
    Ok(match spec.kind {
        Kind::Rate => Value::Number(number(RATE_UNITS, "a rate with a unit (bps, kbps, Mbps, Gbps)")?),
        Kind::Duration => Value::Number(number(TIME_UNITS, "a time with a unit (ns, us, ms, s)")?),
        Kind::Size => {
            let x = number(SIZE_UNITS, "a size (B, KB = 1000, KiB = 1024, MB, GB)")?;
            if x != libm::floor(x) {
                return Err(bad("must be a whole number of bytes".to_owned()));
            }
            Value::Number(x)
        }
        // Its size stands for it where a number is asked for: a port can hold no more.
        Kind::Buffer if is_shared(text) => Value::Amount(Amount::Bytes(shared_size(spec, text)?)),
        Kind::Amount | Kind::Buffer => {
            if let Some(n) = parse_number(text, &[("pkt", 1.0)]).filter(|_| text.ends_with("pkt")) {
                check_range(spec, text, n)?;
                if n != libm::floor(n) || n > u32::MAX as f64 {
                    return Err(bad("must be a whole number of packets below 2^32".to_owned()));
                }
                Value::Amount(Amount::Packets(n as u32))
            } else {
                let x = number(SIZE_UNITS, "bytes or packets with a unit (B, KB, KiB, MB, pkt)")?;
                if x != libm::floor(x) {
                    return Err(bad("must be a whole number of bytes".to_owned()));
                }
                Value::Amount(Amount::Bytes(x as u64))
            }
        }
        Kind::Count => {
            let x = number(&[("", 1.0)], "a whole number")?;
            if x != libm::floor(x) || x > 9e15 {
                return Err(bad("must be a whole number".to_owned()));
            }
            Value::Number(x)
        }
        Kind::Float => Value::Number(number(&[("", 1.0)], "a number")?),
        Kind::Bool => match text {
            "true" | "True" | "yes" | "on" | "1" => Value::Bool(true),
            "false" | "False" | "no" | "off" | "0" => Value::Bool(false),
            _ => return Err(bad("must be true or false".to_owned())),
        },
        Kind::Choice(words) => {
            if !words.contains(&text) {
                return Err(bad(one_of(text, words)));
            }
            Value::Text(text.to_owned())
        }
        Kind::Text => Value::Text(text.to_owned()),
    })
}

/// True when the text of a parameter of kind [`Kind::Buffer`] is about memory that a switch's ports share.
pub fn is_shared(text: &str) -> bool {
    text.split(':').next().is_some_and(|name| name.trim() == "shared")
}

/// `size` of `shared:alpha=..,size=..`.
fn shared_size(spec: &ParamSpec, text: &str) -> Result<u64, ParamError> {
    let (_, given) = parse_spec(spec.name, text)?;
    let size = given.iter().find(|(key, _)| key == "size").map(|(_, size)| size.as_str());
    let size = size.ok_or_else(|| {
        ParamError::new(format!("{}:size", spec.name), "", "must be given: shared:alpha=1,size=2MB")
    })?;
    let number = parse_number(size, SIZE_UNITS).filter(|x| *x >= 1.0 && *x == libm::floor(*x));
    number.map(|x| x as u64).ok_or_else(|| {
        let rule = "must be a whole number of bytes with a unit (B, KB = 1000, KiB = 1024, MB, GB)";
        ParamError::new(format!("{}:size", spec.name), size, rule)
    })
}

/// `text` with its unit in the case of one of `units`, where only that is wrong with it.
fn other_case(text: &str, units: &[(&str, f64)]) -> Option<String> {
    let same = |unit: &str| {
        let head = text.len().checked_sub(unit.len()).filter(|i| text.is_char_boundary(*i))?;
        let near = format!("{}{unit}", &text[..head]);
        (text[head..].eq_ignore_ascii_case(unit) && parse_number(&near, units).is_some()).then_some(near)
    };
    units.iter().filter(|(unit, _)| !unit.is_empty()).find_map(|(unit, _)| same(unit))
}

fn check_range(spec: &ParamSpec, text: &str, x: f64) -> Result<(), ParamError> {
    if x >= spec.min && x <= spec.max {
        return Ok(());
    }
    let unit = match spec.kind {
        Kind::Rate => " bit/s",
        Kind::Duration => " s",
        Kind::Size => " bytes",
        _ => "",
    };
    let rule = if x < spec.min {
        format!("must be at least {}{unit}", spec.min)
    } else {
        format!("must be at most {}{unit}", spec.max)
    };
    Err(ParamError::new(spec.name, text, rule))
}

fn example(spec: &ParamSpec) -> &'static str {
    if !spec.default.is_empty() {
        return spec.default;
    }
    match spec.kind {
        Kind::Rate => "1Gbps",
        Kind::Duration => "100us",
        Kind::Size => "32KB",
        Kind::Amount | Kind::Buffer => "100pkt",
        _ => "1",
    }
}

const RATE_UNITS: &[(&str, f64)] = &[
    ("bps", 1.0),
    ("kbps", 1e3),
    ("Kbps", 1e3),
    ("Mbps", 1e6),
    ("Gbps", 1e9),
    ("Tbps", 1e12),
    ("bit/s", 1.0),
    ("kbit/s", 1e3),
    ("kb/s", 1e3),
    ("Mbit/s", 1e6),
    ("Mb/s", 1e6),
    ("Gbit/s", 1e9),
    ("Gb/s", 1e9),
];
const TIME_UNITS: &[(&str, f64)] = &[("ps", 1e-12), ("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
const SIZE_UNITS: &[(&str, f64)] = &[
    ("", 1.0),
    ("B", 1.0),
    ("KB", 1e3),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("KiB", 1024.0),
    ("MiB", 1048576.0),
    ("GiB", 1073741824.0),
];

/// A size in bytes as written (`32KB`, `32KiB`, `500`).
pub fn parse_size(text: &str) -> Option<f64> {
    parse_number(text, SIZE_UNITS)
}

/// What a written value is worth: the number in base units, and the unit (`s`, `bit/s`, `bytes`, `packets`, or nothing).
/// None for a text that is no number.
pub fn quantity(text: &str) -> Option<(f64, &'static str)> {
    let kinds: [(&[(&str, f64)], &str); 5] = [
        (&[("", 1.0)], ""),
        (TIME_UNITS, "s"),
        (RATE_UNITS, "bit/s"),
        (SIZE_UNITS, "bytes"),
        (&[("pkt", 1.0)], "packets"),
    ];
    kinds.iter().find_map(|(units, name)| parse_number(text, units).map(|x| (x, *name)))
}

/// A finite number followed by one of `units` (blanks between them allowed), in base units.
pub fn parse_number(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let text = text.trim();
    let in_number = |i: usize, c: char| {
        let exponent = matches!(c, 'e' | 'E')
            && i > 0
            && text[i + 1..].starts_with(|d: char| d.is_ascii_digit() || d == '-' || d == '+');
        c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | '_') || exponent
    };
    let split = text.char_indices().find(|(i, c)| !in_number(*i, *c)).map_or(text.len(), |(i, _)| i);
    let (number, unit) = text.split_at(split);
    let unit = unit.trim();
    let scale = units.iter().find(|(name, _)| *name == unit)?.1;
    let number: f64 = number.replace('_', "").parse().ok()?;
    // Small units divide, so that 20us is exactly the float nearest 2e-5.
    let x = if scale < 1.0 { number / libm::round(1.0 / scale) } else { number * scale };
    x.is_finite().then_some(x)
}

/// `name:key=value,key=value` split into its parts.
///
/// # Errors
/// A part without `=`, or an empty name.
pub fn parse_spec(key: &str, text: &str) -> Result<(String, Vec<(String, String)>), ParamError> {
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    let name = name.trim();
    if name.is_empty() {
        return Err(ParamError::new(key, text, "must be NAME or NAME:key=value,key=value"));
    }
    let mut given = Vec::new();
    for part in rest.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let (k, v) = part
            .split_once('=')
            .ok_or_else(|| ParamError::new(key, text, format!("{part:?} must have the form key=value")))?;
        given.push((k.trim().to_owned(), v.trim().to_owned()));
    }
    Ok((name.to_owned(), given))
}

/// The one of `known` that was probably meant by `text`: the same but for the case of letters, or with few letters
/// wrong (half of it, three at most, not all).
pub fn nearest<'a>(text: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let text = text.trim().to_lowercase();
    let most = (text.chars().count() / 2).clamp(1, 3);
    known
        .map(|name| (edit_distance(&name.to_lowercase(), &text), name))
        .filter(|(distance, name)| *distance <= most && *distance < name.chars().count())
        .min()
        .map(|(_, name)| name)
}

/// The rule that a word must be one of `known`, with the one that was probably meant by `text`.
pub fn one_of(text: &str, known: &[&str]) -> String {
    let list = known.join(", ");
    match nearest(text, known.iter().copied()) {
        Some(name) => format!("must be one of {list}; did you mean {name}?"),
        None => format!("must be one of {list}"),
    }
}

/// The rule that `text` is no known `what`: the one that was probably meant, and all there are.
pub fn unknown(what: &str, text: &str, known: &[&str]) -> String {
    let list = known.join(", ");
    match nearest(text, known.iter().copied()) {
        Some(name) => format!("unknown {what}; did you mean {name}? known are {list}"),
        None => format!("unknown {what}; known are {list}"),
    }
}

/// Levenshtein distance, for "did you mean".
pub fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let substitute = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    const SPECS: &[ParamSpec] = &[
        ParamSpec::new("rate", Kind::Rate, "1Gbps", "", "").range(1.0, 1e13),
        ParamSpec::new("delay", Kind::Duration, "20us", "", ""),
        ParamSpec::new("buffer", Kind::Amount, "32KB", "", "").range(1.0, 1e9),
        ParamSpec::new("g", Kind::Float, "0.0625", "", "").range(0.0, 1.0),
        ParamSpec::new("mode", Kind::Choice(&["a", "b"]), "a", "", ""),
    ];
    fn parse(key: &str, value: &str) -> Result<Params, ParamError> {
        Params::parse("test", SPECS, &[(key.into(), value.into())])
    }

    #[test]
    fn units_are_understood() {
        assert_eq!(parse("rate", "2.5 Gbps").unwrap().rate("rate"), Rate(2_500_000_000));
        assert_eq!(parse("delay", "0.3ms").unwrap().dur("delay"), Dur::micros(300));
        assert_eq!(parse("delay", "1e-3s").unwrap().dur("delay"), Dur::millis(1));
        assert_eq!(parse("buffer", "32KiB").unwrap().amount("buffer"), Amount::Bytes(32768));
        assert_eq!(parse("buffer", "100pkt").unwrap().amount("buffer"), Amount::Packets(100));
    }
    #[test]
    fn messages_name_key_value_and_rule() {
        let message = |k: &str, v: &str| parse(k, v).unwrap_err().to_string();
        assert_eq!(
            message("rate", "10"),
            "rate = \"10\": must be a rate with a unit (bps, kbps, Mbps, Gbps), for example 1Gbps"
        );
        assert_eq!(message("buffer", "-1KB"), "buffer = \"-1KB\": must be at least 1");
        assert_eq!(message("g", "2"), "g = \"2\": must be at most 1");
        assert_eq!(message("mode", "c"), "mode = \"c\": must be one of a, b");
        assert_eq!(message("bufer", "1"), "bufer = \"1\": unknown key of test; did you mean buffer?");
    }
    #[test]
    fn what_was_probably_meant_is_said_whatever_the_case() {
        let message = |k: &str, v: &str| parse(k, v).unwrap_err().to_string();
        assert_eq!(message("Rate", "1Gbps"), "Rate = \"1Gbps\": unknown key of test; did you mean rate?");
        assert_eq!(message("mode", "A"), "mode = \"A\": must be one of a, b; did you mean a?");
        assert_eq!(
            message("rate", "10gbps"),
            "rate = \"10gbps\": must be a rate with a unit (bps, kbps, Mbps, Gbps); did you mean 10Gbps?"
        );
        assert_eq!(nearest("DCTPC", ["dctcp", "d2tcp", "d3"].into_iter()), Some("dctcp"));
        assert_eq!(nearest("DCTCP", ["d2tcp", "dctcp"].into_iter()), Some("dctcp"));
        assert_eq!(nearest("xyz", ["d3"].into_iter()), None);
    }
    #[test]
    fn a_derived_value_is_what_its_text_says_and_a_given_one_stays() {
        let specs = [
            ParamSpec::new("gap", Kind::Duration, "", "", "").range(0.0, 1.0),
            ParamSpec::new("window", Kind::Amount, "", "", ""),
        ];
        let mut p = Params::parse("test", &specs, &[]).unwrap();
        p.derive("gap", 20e-6, "the link");
        p.derive("gap", 1.0, "something else");
        p.derive("window", 1234.5, "the pipe");
        assert_eq!((p.text("gap"), p.dur("gap"), p.is_given("gap")), ("20us", Dur::micros(20), false));
        assert_eq!(p.amount("window"), Amount::Bytes(1235));
        assert_eq!(p.derived().next(), Some(("gap", "20us", "the link")));
        let mut p = Params::parse("test", &specs, &[("gap".into(), "1ms".into())]).unwrap();
        p.derive("gap", 20e-6, "the link");
        assert_eq!((p.dur("gap"), p.derived().count()), (Dur::millis(1), 0));
        let mut p = Params::parse("test", &specs, &[]).unwrap();
        p.derive("gap", 20.0, "a slow link");
        assert_eq!(p.text("gap"), "1s");
    }
    #[test]
    fn keys_that_nothing_read_are_known() {
        let p = parse("g", "0.5").unwrap();
        assert_eq!(p.without_effect(), vec!["g"]);
        assert_eq!(p.float("g"), 0.5);
        assert!(p.without_effect().is_empty());
    }
    #[test]
    fn specs_split() {
        let (name, given) = parse_spec("protocol", "dctcp:g=0.0625").unwrap();
        assert_eq!((name.as_str(), given[0].1.as_str()), ("dctcp", "0.0625"));
        assert!(parse_spec("queue", "red:min").is_err());
    }
}
