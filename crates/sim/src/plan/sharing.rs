//! Memory that the ports of a switch share: `buffer=shared:alpha=A,size=S`, and its short form in scenarios with one switch, `sharing`.

use crate::defaults::{bytes, packet};
use penstock_core::params::{is_shared, parse_spec};
use penstock_core::{param, ParamError, ParamSpec, Params};

/// Memory of a switch that its ports share.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Shared {
    /// A queue may hold this times the free memory.
    pub alpha: f64,
    /// Bytes in all.
    pub size: u64,
}

/// The value of a parameter that must be above 0.
///
/// # Errors
/// Any other value.
pub(crate) fn above_zero(key: &str, name: &str, p: &Params) -> Result<f64, ParamError> {
    let x = p.float(name);
    if x > 0.0 && x.is_finite() {
        return Ok(x);
    }
    Err(ParamError::new(format!("{key}:{name}"), p.text(name), "must be above 0"))
}

/// The short form.
pub const SHARING: ParamSpec = param!("sharing": Text = "none",
    "none: every switch port has its own buffer; shared:alpha=A: dynamic threshold, a port may hold A times the free memory of buffer=SIZE",
    "none: the papers' switches; shared: Choudhury, Hahne, ToN 1998, equation 1");

const ALPHA: ParamSpec = param!("alpha": Float = "1" in [1.0 / 1024.0, 1024.0],
    "a queue may hold this many times what is free in the switch", "chosen: the common setting of merchant silicon, from memory");

/// The shared memory that the keys `buffer` and `sharing` of a scenario ask for; `None` = each port has its own. A size in packets is one
/// of full packets.
///
/// # Errors
/// Neither `none` nor `shared:alpha=A`; an alpha outside its range; both forms at once.
pub fn shared(p: &Params) -> Result<Option<Shared>, ParamError> {
    let whole = p.declares("buffer") && p.is_set("buffer") && is_shared(p.text("buffer"));
    let short = if p.declares("sharing") { alpha_of(p.text("sharing"))? } else { None };
    if !whole {
        return Ok(short.map(|alpha| Shared { alpha, size: bytes(p, "buffer") as u64 }));
    }
    if short.is_some() {
        let rule = "cannot be given together with buffer=shared, of which it is the short form";
        return Err(ParamError::new("sharing", p.text("sharing"), rule));
    }
    let size = param!("size": Size = "" in [1.0, 1e15], "bytes in all", "");
    let (_, given) = parse_spec("buffer", p.text("buffer"))?;
    let alpha = ALPHA.range(f64::NEG_INFINITY, f64::INFINITY);
    let q = parse("buffer", &[alpha, size], &given)?;
    Ok(Some(Shared { alpha: above_zero("buffer", "alpha", &q)?, size: q.bytes("size").0 }))
}

fn parse(key: &str, specs: &[ParamSpec], given: &[(String, String)]) -> Result<Params, ParamError> {
    let inner = |e: ParamError| ParamError { key: format!("{key}:{}", e.key), ..e };
    Params::parse(&format!("{key} shared"), specs, given).map_err(inner)
}

/// Alpha of the short form; `None` = none.
fn alpha_of(text: &str) -> Result<Option<f64>, ParamError> {
    let (name, given) = parse_spec("sharing", text)?;
    match (name.as_str(), given.is_empty()) {
        ("none", true) => Ok(None),
        ("shared", _) => Ok(Some(parse("sharing", &[ALPHA], &given)?.float("alpha"))),
        _ => Err(ParamError::new("sharing", text, "must be none or shared:alpha=A")),
    }
}

/// Bytes that one port can hold while the others hold nothing. A queue Q grows while Q < alpha (B - Q), and by the one packet that passes
/// the threshold.
pub fn most(p: &Params, shared: Option<Shared>) -> f64 {
    match shared {
        None => bytes(p, "buffer"),
        Some(Shared { alpha, size }) => {
            let all = size as f64;
            (alpha * all / (1.0 + alpha) + packet(p)).min(all)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(buffer: &str, sharing: &str) -> Params {
        const SPECS: &[ParamSpec] = &[
            SHARING,
            param!("buffer": Buffer = "100pkt", "", ""),
            param!("segment": Size = "1460B", "", ""),
            param!("header": Size = "40B", "", ""),
            param!("timestamps": Bool = "false", "", ""),
        ];
        let given = [("buffer".into(), buffer.into()), ("sharing".into(), sharing.into())];
        Params::parse("test", SPECS, &given).unwrap()
    }

    #[test]
    fn both_forms_say_the_same() {
        let short = params("100pkt", "shared:alpha=1");
        let whole = params("shared:alpha=1,size=150KB", "none");
        for p in [short, whole] {
            let found = shared(&p).unwrap();
            assert_eq!(found, Some(Shared { alpha: 1.0, size: 150_000 }));
            // A lone port gets alpha of what it leaves.
            assert_eq!(most(&p, found), 75_000.0 + 1500.0);
        }
        let p = params("100pkt", "none");
        assert_eq!(shared(&p), Ok(None));
        assert_eq!(most(&p, None), 150_000.0);
    }
    #[test]
    fn anything_else_is_refused_by_key_and_rule() {
        for (buffer, sharing, words) in [
            ("9KB", "alpha=1", "must be none or shared:alpha=A"),
            ("9KB", "none:alpha=1", "must be none or shared:alpha=A"),
            ("9KB", "shared:alpha=0", "sharing:alpha"),
            ("9KB", "shared:beta=1", "beta"),
            ("shared:alpha=0,size=9KB", "none", "buffer:alpha"),
            (
                "shared:size=9KB",
                "shared",
                "sharing = \"shared\": cannot be given together with buffer=shared",
            ),
        ] {
            let message = shared(&params(buffer, sharing)).unwrap_err().to_string();
            assert!(message.contains(words), "{message}");
        }
    }
}
