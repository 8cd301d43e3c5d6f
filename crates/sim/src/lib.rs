//! The deterministic packet simulator. Files in the order data passes through them:
//! [`scenario`] -> [`topology`] + [`workloads`] -> [`engine`] -> [`metrics`] -> [`results`].

pub mod defaults;
pub mod document;
pub mod engine;
pub mod events;
pub mod file;
pub mod fingerprint;
mod host_queue;
pub mod ideal;
pub mod metrics;
pub mod notes;
pub mod pool;
pub mod port;
pub mod results;
pub mod scenario;
pub mod scenarios;
pub mod summary_keys;
pub mod tables;
pub mod topologies;
pub mod topology;
pub mod warnings;
#[cfg(debug_assertions)]
mod witness;
pub mod workloads;
