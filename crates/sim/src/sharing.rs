//! How the ports of a switch divide its buffer, as scenarios with one switch say it (`sharing`).

use crate::defaults::{bytes, packet};
use crate::setup::{Pool, Shared};
use penstock_core::params::parse_spec;
use penstock_core::{Amount, Kind, ParamError, ParamSpec, Params};

/// The key.
pub const SHARING: ParamSpec = ParamSpec::new(
    "sharing",
    Kind::Text,
    "none",
    "none: every switch port has a buffer of its own; shared:alpha=A: buffer is that of the whole switch, and a port may hold A \
     times what is free (dynamic threshold)",
    "none: the papers' switches; shared: Choudhury, Hahne, ToN 1998, equation 1",
);

/// Parameters of `shared`.
const PARAMS: &[ParamSpec] = &[ParamSpec::new(
    "alpha",
    Kind::Float,
    "1",
    "a port may hold this many times what is free in the switch",
    "chosen: the common setting of merchant silicon, from memory",
)
.range(1.0 / 1024.0, 1024.0)];

/// What `sharing` says.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Sharing {
    /// Every port has `buffer` for itself.
    None,
    /// All ports share `buffer`; a port may hold alpha times what is free.
    Dynamic(f64),
}

impl Sharing {
    /// As written in a scenario.
    ///
    /// # Errors
    /// Neither `none` nor `shared:alpha=A`; an alpha outside its range.
    pub fn of(p: &Params) -> Result<Sharing, ParamError> {
        let text = p.text("sharing");
        let (name, given) = parse_spec("sharing", text)?;
        match (name.as_str(), given.is_empty()) {
            ("none", true) => Ok(Sharing::None),
            ("shared", _) => {
                let inner = |e: ParamError| ParamError::new(format!("sharing:{}", e.key), e.value, e.rule);
                Ok(Sharing::Dynamic(
                    Params::parse("sharing shared", PARAMS, &given).map_err(inner)?.float("alpha"),
                ))
            }
            _ => Err(ParamError::new("sharing", text, "must be none or shared:alpha=A")),
        }
    }
    /// What a port keeps of `buffer` for itself.
    pub fn own(self, buffer: Option<Amount>) -> Option<Amount> {
        match self {
            Sharing::None => buffer,
            Sharing::Dynamic(_) => None,
        }
    }
    /// The shared buffer of the switch `node`, when there is one. A size in packets is one of full packets.
    pub fn pools(self, p: &Params, node: u32) -> Vec<Pool> {
        match self {
            Sharing::None => Vec::new(),
            Sharing::Dynamic(alpha) => {
                vec![Pool { node, rule: Shared::Dynamic { bytes: bytes(p, "buffer") as u64, alpha } }]
            }
        }
    }
    /// Bytes that one port can hold while the others hold nothing. A queue Q grows while Q < alpha (B - Q), and by the one
    /// packet that passes the threshold.
    pub fn most(self, p: &Params) -> f64 {
        let all = bytes(p, "buffer");
        match self {
            Sharing::None => all,
            Sharing::Dynamic(alpha) => (alpha * all / (1.0 + alpha) + packet(p)).min(all),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(sharing: &str) -> Params {
        const SPECS: &[ParamSpec] = &[
            SHARING,
            ParamSpec::new("buffer", Kind::Amount, "100pkt", "", ""),
            ParamSpec::new("segment", Kind::Size, "1460B", "", ""),
            ParamSpec::new("header", Kind::Size, "40B", "", ""),
            ParamSpec::new("timestamps", Kind::Bool, "false", "", ""),
        ];
        Params::parse("test", SPECS, &[("sharing".into(), sharing.into())]).unwrap()
    }

    #[test]
    fn a_lone_port_gets_alpha_of_what_it_leaves() {
        let p = params("shared:alpha=1");
        let sharing = Sharing::of(&p).unwrap();
        assert_eq!(sharing, Sharing::Dynamic(1.0));
        assert_eq!(sharing.most(&p), 75_000.0 + 1500.0);
        assert_eq!(sharing.own(Some(Amount::Packets(3))), None);
        assert!(matches!(
            sharing.pools(&p, 7)[..],
            [Pool { node: 7, rule: Shared::Dynamic { bytes: 150_000, .. } }]
        ));
    }
    #[test]
    fn without_it_a_port_has_its_own() {
        let p = params("none");
        let sharing = Sharing::of(&p).unwrap();
        assert_eq!((sharing, sharing.most(&p)), (Sharing::None, 150_000.0));
        assert!(sharing.pools(&p, 7).is_empty());
    }
    #[test]
    fn anything_else_is_refused_by_key_and_rule() {
        for (text, words) in [
            ("alpha=1", "must be none or shared:alpha=A"),
            ("none:alpha=1", "must be none or shared:alpha=A"),
            ("shared:alpha=0", "sharing:alpha"),
            ("shared:beta=1", "beta"),
        ] {
            let message = Sharing::of(&params(text)).unwrap_err().to_string();
            assert!(message.contains(words), "{message}");
        }
    }
}
