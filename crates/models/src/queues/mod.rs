//! Queue disciplines, one file each; one line per discipline in the table at the end.

pub mod hysteresis;
mod ns3_draws;
pub mod ramp;
pub mod red;
pub mod shared_buffer;
pub mod threshold;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use penstock_core::params::{parse_spec, unknown};
use penstock_core::{
    Amount, Backlog, Kind, Packet, ParamError, ParamSpec, Params, QueueDiscipline, Stream, Verdict,
};
use penstock_fabric::Rule;
use penstock_units::Time;

/// A registered queue discipline.
#[derive(Debug)]
pub struct Discipline {
    /// Name on the command line.
    pub name: &'static str,
    /// What it is, in one line.
    pub text: &'static str,
    /// Source.
    pub cites: &'static str,
    /// Parameters.
    pub params: &'static [ParamSpec],
    /// True when it marks, with these parameters.
    pub marks: fn(&Params) -> bool,
    /// Builds one for a port whose full data packets take `packet` bytes on the wire.
    pub build: fn(&Params, packet: u32) -> Result<Rule, ParamError>,
}

/// Builds a queue as [`Discipline::build`] does, for a discipline that was made at run time: a builder with state of its own.
pub type BuildQueue = Arc<dyn Fn(&Params, u32) -> Result<Rule, ParamError> + Send + Sync>;

/// What a discipline compares with its thresholds.
const COUNT: ParamSpec = ParamSpec::new(
    "count",
    Kind::Choice(&["port", "waiting"]),
    "port",
    "queue that is compared: waiting packets and the one in service, or waiting packets only",
    "chosen: what the buffer holds; ns-2 leaves out the packet in service",
);

/// `rule` as its parameter [`COUNT`] says.
fn counting(p: &Params, rule: Rule) -> Rule {
    match p.text(COUNT.name) {
        "waiting" => Rule::Other(Box::new(Waiting(rule))),
        _ => rule,
    }
}

/// Hides the packet in service from a discipline.
struct Waiting(Rule);

impl QueueDiscipline for Waiting {
    fn at_port(&mut self, port: u32) {
        self.0.at_port(port);
    }
    fn on_pause_frame(&mut self) {
        self.0.on_pause_frame();
    }
    fn admit(&mut self, now: Time, q: &Backlog, packet: &Packet, full: bool, rng: &mut Stream) -> Verdict {
        let (packets, bytes) = (q.packets.saturating_sub(1), q.bytes - u64::from(q.serving));
        self.0.admit(now, &Backlog { packets, bytes, ..*q }, packet, full, rng)
    }
}

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
