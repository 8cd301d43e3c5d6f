//! The deterministic packet simulator. Files in the order data passes through them:
//! [`scenario`] -> [`setup`] ([`topology`] + [`workloads`]) -> [`network`] + [`engine`] -> [`metrics`] -> [`results`].
#![forbid(unsafe_code)]

mod arrivals;
pub mod bottleneck;
pub mod checkpoint;
pub mod cores;
pub mod decomposition;
pub mod defaults;
pub mod document;
pub mod engine;
pub mod events;
pub mod fabric_options;
pub mod file;
pub mod fingerprint;
mod flow;
pub mod folder;
pub mod ideal;
pub mod invariants;
pub mod measured;
pub mod metrics;
pub mod network;
pub mod notes;
pub mod numbers;
mod quantiles;
pub mod results;
pub mod scenario;
pub mod scenarios;
pub mod session;
pub mod setup;
pub mod sharing;
#[cfg(debug_assertions)]
mod shuffle;
pub mod summary_keys;
mod sync;
pub mod tables;
pub mod topologies;
pub mod topology;
pub mod trace;
pub mod warnings;
pub mod watch;
#[cfg(debug_assertions)]
mod witness;
pub mod workloads;
