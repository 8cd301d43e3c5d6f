//! The deterministic packet simulator. Files in the order data passes through them:
//! [`scenario`] -> [`topology`] + [`workloads`] -> [`engine`] -> [`metrics`] -> [`results`].

pub mod document;
pub mod engine;
pub mod events;
pub mod fingerprint;
pub mod ideal;
mod host_queue;
pub mod metrics;
pub mod pool;
pub mod port;
pub mod results;
pub mod scenario;
pub mod scenarios;
pub mod tables;
pub mod topology;
pub mod warnings;
#[cfg(debug_assertions)]
mod witness;
pub mod workloads;
