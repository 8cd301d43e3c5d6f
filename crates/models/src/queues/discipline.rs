//! What a queue discipline declares of itself, and what some have in common.

use alloc::boxed::Box;
use alloc::sync::Arc;
use penstock_core::{Backlog, Kind, Packet, ParamError, ParamSpec, Params, QueueDiscipline, Stream, Verdict};
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
pub(super) const COUNT: ParamSpec = ParamSpec::new(
    "count",
    Kind::Choice(&["port", "waiting"]),
    "port",
    "queue that is compared: waiting packets and the one in service, or waiting packets only",
    "chosen: what the buffer holds; ns-2 leaves out the packet in service",
);

/// `rule` as its parameter [`COUNT`] says.
pub(super) fn counting(p: &Params, rule: Rule) -> Rule {
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
