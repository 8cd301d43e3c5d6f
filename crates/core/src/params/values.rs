//! Values as they are written: numbers with units, amounts, words, parts of a specification.

use super::spec::{Amount, Kind, ParamError, ParamSpec, Value};
use super::words::one_of;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The value that `text` stands for.
pub(super) fn parse_value(spec: &ParamSpec, text: &str) -> Result<Value, ParamError> {
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
        // As a number it is its size, because a port can hold no more.
        Kind::Buffer if is_shared(text) => Value::Amount(Amount::Bytes(shared_size(spec, text)?)),
        Kind::Amount | Kind::Buffer => {
            if let Some(n) = parse_number(text, &[("pkt", 1.0)]).filter(|_| text.ends_with("pkt")) {
                check_range(spec, text, n)?;
                if n != libm::floor(n) || n > u32::MAX as f64 {
                    return Err(bad("must be a whole number of packets below 2^32".to_owned()));
                }
                Value::Amount(Amount::Packets(n as u32))
            } else if parse_number(text, &[("", 1.0)]).is_some() {
                return Err(bad(bare(text)));
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
        Kind::Text | Kind::File | Kind::Sizes => Value::Text(text.to_owned()),
    })
}

/// The rule that a number breaks which could be packets or bytes.
pub fn bare(number: &str) -> String {
    format!("must have a unit, as packets and bytes are possible: {number}pkt or {number}B")
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

pub(super) const RATE_UNITS: &[(&str, f64)] = &[
    ("bps", 1.0),
    ("kbps", 1e3),
    ("Kbps", 1e3),
    ("Mbps", 1e6),
    ("Gbps", 1e9),
    ("Tbps", 1e12),
    ("Tbit/s", 1e12),
    ("Tb/s", 1e12),
    ("bit/s", 1.0),
    ("kbit/s", 1e3),
    ("kb/s", 1e3),
    ("Mbit/s", 1e6),
    ("Mb/s", 1e6),
    ("Gbit/s", 1e9),
    ("Gb/s", 1e9),
];
pub(super) const TIME_UNITS: &[(&str, f64)] =
    &[("ps", 1e-12), ("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
pub(super) const SIZE_UNITS: &[(&str, f64)] = &[
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
    // So that 1.000001MB is a whole number of bytes: a product of two floats is half a unit in the last place away from the exact one.
    let whole = libm::round(x);
    let x =
        if scale > 1.0 && libm::fabs(x - whole) <= 2.0 * f64::EPSILON * libm::fabs(x) { whole } else { x };
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
