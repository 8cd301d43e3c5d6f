//! The deterministic packet simulator.
//!
//! A [`scenario`] makes a [`setup::Setup`] of [`topology`] and [`workloads`]. [`engine`] and [`network`] run it and write [`metrics`], and
//! [`results`] and [`tables`] read these.
//!
//! Modules are in layers, and a module imports only from its own layer and from layers below. `tools/layers.py` checks that and names the layers,
//! lowest first:
//!
//! | layer | modules |
//! |---|---|
//! | record | [`metrics`]: rows, samples and sums, without knowledge of the network |
//! | plan | [`plan`], [`workloads`]: what a run consists of, as plain data |
//! | engine | [`engine`], [`network`], [`cores`] and others: runs it |
//! | measure | [`measure`]: summary, tables, warnings, fingerprint |
//! | scenario | [`scenario`]: keys, named scenarios and networks, files and documents, the approximation |
#![forbid(unsafe_code)]

mod arrivals;
pub mod cores;
pub mod engine;
pub mod events;
mod flow;
pub mod measure;
pub mod measured;
pub mod metrics;
pub mod network;
pub mod numbers;
pub mod plan;
mod quantiles;
pub mod scenario;
#[cfg(debug_assertions)]
mod shuffle;
mod sync;
pub mod trace;
pub mod watch;
#[cfg(debug_assertions)]
mod witness;
pub mod workloads;

pub use measure::{fingerprint, invariants, results, summary_keys, tables, warnings};
pub use plan::{bottleneck, checkpoint, defaults, fabric_options, folder, ideal, setup, sharing, topology};
pub use scenario::{decomposition, document, file, notes, scenarios, session, topologies};
