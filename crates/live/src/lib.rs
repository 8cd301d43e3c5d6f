//! The kernel view: a scenario with real TCP sockets across an emulated network that is the simulator's own.
//!
//! Every host of the scenario is an anonymous network namespace with one TUN device. One thread runs the network
//! (`switch`): the ports, queues and routes of the simulator under the wall clock. Another runs the scenario's
//! workloads (`apps`) on sockets of those namespaces. Everything ends with the process: nothing has a name, and nothing
//! outside these namespaces changes. One exception: the kernel lists our own congestion controls
//! ([`penstock_live_bpf`]) while they are in use.
//!
//! Linux only; everywhere else [`run`] says so.

pub mod scenario;

#[cfg(target_os = "linux")]
mod apps;
#[cfg(target_os = "linux")]
mod clock;
pub mod doctor;
#[cfg(target_os = "linux")]
mod edge;
pub mod histogram;
#[cfg(target_os = "linux")]
mod hosts;
#[cfg(target_os = "linux")]
mod idle;
#[cfg(target_os = "linux")]
#[cfg(target_os = "linux")]
mod pauses;
pub mod quality;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod switch;
#[cfg(target_os = "linux")]
mod sys;
mod ticks;
#[cfg(target_os = "linux")]
mod waits;
pub mod wire;

#[cfg(target_os = "linux")]
pub use run::run;

use penstock_core::tcp::TcpConfig;
use penstock_core::{ParamError, Quantity};
use penstock_fabric::Port;
use penstock_models::Suite;
use penstock_sim::bottleneck::Bottleneck;
use penstock_sim::measured::{Measured, Possible};
use penstock_sim::metrics::Recorder;
use penstock_sim::results::Summary;
use penstock_sim::topology::Topology;
use std::sync::Arc;

/// Why a run did not happen or did not end.
#[derive(Debug)]
pub enum Failure {
    /// The input, or what the machine lacks.
    Input(ParamError),
    /// Something failed on the way.
    Run(String),
}

impl From<ParamError> for Failure {
    fn from(e: ParamError) -> Failure {
        Failure::Input(e)
    }
}

/// How far a run may be trusted.
#[derive(Clone, Debug, Default)]
pub struct Quality {
    /// The run passed the gate.
    pub valid: bool,
    /// Why it did not, a line each; or what to know although it did.
    pub notes: Vec<String>,
    /// Numbers by name and unit: `lag_p99_s`, `device_drops`, `other_cpu_cores`, ...
    pub numbers: Vec<(&'static Quantity, f64)>,
}

/// What a live run leaves.
pub struct Outcome {
    topology: Topology,
    protocol_names: Vec<String>,
    protocols: Vec<(Suite, Arc<TcpConfig>)>,
    notes: Vec<String>,
    ports: Vec<Port>,
    bottleneck: Bottleneck,
    stopped: bool,
    recorder: Recorder,
    packet_hops: u64,
    /// What to know before trusting the numbers, a line each; what the kernel adds is in [`Quality::notes`].
    pub warnings: Vec<String>,
    /// Summary, with the keys of a simulated run and those of [`Quality::numbers`].
    pub summary: Summary,
    /// How far to trust it.
    pub quality: Quality,
    /// False when it was cancelled.
    pub completed: bool,
    /// CPU time of this process in seconds.
    pub cpu_s: f64,
}

impl Outcome {
    /// What was measured, for tables.
    pub fn measured(&self) -> Measured<'_> {
        Measured {
            topology: &self.topology,
            protocol_names: &self.protocol_names,
            ports: &self.ports,
            bottleneck: self.bottleneck.port(&self.topology, &self.ports),
            candidate: self.bottleneck.candidate(),
            recorder: &self.recorder,
            packet_hops: self.packet_hops,
            // `fail` is refused too.
            no_way: 0,
            returned: 0,
            protocols: &self.protocols,
            notes: &self.notes,
            idle: &[],
            stopped: self.stopped,
            stuck: None,
            // What makes them possible is refused.
            fabric: Possible::default(),
            deadlock: None,
        }
    }
}

/// Runs a scenario live.
///
/// # Errors
/// Always: this system is not Linux.
#[cfg(not(target_os = "linux"))]
pub fn run(
    _scenario: &scenario::LiveScenario,
    _run: u64,
    _progress: std::sync::Arc<penstock_sim::engine::Progress>,
) -> Result<Outcome, Failure> {
    Err(ParamError::new("live", std::env::consts::OS, "needs Linux").into())
}
