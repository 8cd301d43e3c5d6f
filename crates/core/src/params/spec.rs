//! What a parameter declares, its value, and the error of a bad one.

use alloc::string::{String, ToString};

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
    /// The name of a file, from the scenario's folder.
    File,
    /// A distribution of sizes: `websearch`, `fixed:SIZE`; or a table of one, which is a file: `cdf:FILE`.
    Sizes,
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
    /// This parameter with a legal range.
    pub const fn range(mut self, min: f64, max: f64) -> ParamSpec {
        self.min = min;
        self.max = max;
        self
    }
    /// This parameter with another default.
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
            Kind::File => "name of a file",
            Kind::Sizes => "distribution of sizes",
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
pub(super) enum Value {
    Number(f64),
    Amount(Amount),
    Bool(bool),
    Text(String),
}

/// Returns the error from the enclosing function if the condition holds; the error is evaluated only then.
///
/// ```
/// # use penstock_core::{bail_if, ParamError};
/// fn checked(share: f64) -> Result<f64, ParamError> {
///     bail_if!(!(0.0..=1.0).contains(&share), ParamError::new("share", share, "must be 0 to 1"));
///     Ok(share)
/// }
/// assert!(checked(0.5).is_ok() && checked(1.5).is_err());
/// ```
#[macro_export]
macro_rules! bail_if {
    ($condition:expr, $error:expr $(,)?) => {
        if $condition {
            return Err(From::from($error));
        }
    };
}

/// A [`ParamSpec`] on one line: name, kind, default, range where it is not [0, infinity), meaning, origin of the default.
///
/// ```
/// # use penstock_core::{param, ParamSpec};
/// const RTO_MIN: ParamSpec = param!("rto_min": Duration = "200ms" in [0.0, 1e4], "floor of the timeout", "Linux");
/// ```
#[macro_export]
macro_rules! param {
    ($name:literal: $kind:ident $(($words:expr))? = $default:literal $(in [$min:expr, $max:expr])?, $text:expr, $origin:expr) => {
        $crate::ParamSpec::new($name, $crate::Kind::$kind $(($words))?, $default, $text, $origin)$(.range($min, $max))?
    };
}
