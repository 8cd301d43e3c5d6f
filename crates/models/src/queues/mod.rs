//! Queue disciplines, one file each; one line per discipline in the table at the end.

mod discipline;
pub mod hysteresis;
mod ns3_draws;
pub mod ramp;
pub mod red;
pub mod shared_buffer;
pub mod threshold;

pub use discipline::{BuildQueue, Discipline};

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use penstock_core::params::{parse_spec, unknown};
use penstock_core::{Amount, Kind, ParamError, ParamSpec, Params};
use penstock_fabric::Rule;

/// Every discipline, in the order shown to a user.
pub const DISCIPLINES: &[&Discipline] = &[
    &Discipline {
        name: "droptail",
        text: "first in, first out; a packet that finds the buffer full is dropped",
        cites: "",
        params: &[],
        marks: |_| false,
        build: |_, _| Ok(Rule::DropTail),
    },
    &threshold::DISCIPLINE,
    &hysteresis::DISCIPLINE,
    &red::DISCIPLINE,
    &ramp::DISCIPLINE,
];

/// A discipline with its parameters, ready to build one queue per port. Every link has one, so the links of a network share what is in it.
#[derive(Clone)]
pub struct QueueSpec(Arc<Chosen>);

struct Chosen {
    name: String,
    discipline: &'static Discipline,
    params: Params,
    /// What builds it in the place of the discipline's own function.
    builder: Option<BuildQueue>,
}

impl core::fmt::Debug for QueueSpec {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0.name)
    }
}

impl QueueSpec {
    /// A discipline as written in a scenario (`threshold:k=40pkt`).
    ///
    /// # Errors
    /// An unknown discipline or a bad parameter, naming `key`.
    pub fn parse(key: &str, text: &str) -> Result<QueueSpec, ParamError> {
        QueueSpec::among(DISCIPLINES, key, text)
    }
    /// As [`Self::parse`], among `known` disciplines.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn among(known: &[&'static Discipline], key: &str, text: &str) -> Result<QueueSpec, ParamError> {
        QueueSpec::built_by(known, &[], key, text)
    }
    /// As [`Self::among`]; the disciplines named in `builders` are built by these functions.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn built_by(
        known: &[&'static Discipline],
        builders: &[(&'static str, BuildQueue)],
        key: &str,
        text: &str,
    ) -> Result<QueueSpec, ParamError> {
        let (name, given) = parse_spec(key, text)?;
        let Some(discipline) = known.iter().copied().find(|d| d.name == name) else {
            let names: Vec<&str> = known.iter().map(|d| d.name).collect();
            return Err(ParamError::new(key, text, unknown("queue discipline", &name, &names)));
        };
        let inner = |e: ParamError| ParamError::new(format!("{key}:{}", e.key), e.value, e.rule);
        let params = Params::parse(&format!("queue {name}"), discipline.params, &given).map_err(inner)?;
        let builder = builders.iter().find(|(of, _)| *of == name).map(|(_, build)| build.clone());
        let spec = QueueSpec(Arc::new(Chosen { name: text.to_string(), discipline, params, builder }));
        spec.try_build(1500).map_err(inner)?;
        Ok(spec)
    }
    /// The discipline as it was written, with its parameters.
    pub fn name(&self) -> &str {
        &self.0.name
    }
    /// True when it marks packets that are ECN-capable, and so drops those that are not.
    pub fn marks(&self) -> bool {
        (self.0.discipline.marks)(&self.0.params)
    }
    /// Name of the discipline, without its parameters.
    pub fn discipline(&self) -> &'static str {
        self.0.discipline.name
    }
    /// The threshold K of a discipline that has one, and whether it was given.
    pub fn threshold(&self) -> Option<(Amount, bool)> {
        let amount = |spec: &&ParamSpec| spec.name == "k" && matches!(spec.kind, Kind::Amount);
        let k = self.0.discipline.params.iter().find(amount)?.name;
        Some((self.0.params.amount(k), self.0.params.is_given(k)))
    }
    /// A queue for one port whose full data packets take `packet` bytes on the wire.
    pub fn build(&self, packet: u32) -> Rule {
        self.try_build(packet).expect("parameters were checked by parse")
    }
    fn try_build(&self, packet: u32) -> Result<Rule, ParamError> {
        match &self.0.builder {
            Some(build) => build(&self.0.params, packet),
            None => (self.0.discipline.build)(&self.0.params, packet),
        }
    }
}
