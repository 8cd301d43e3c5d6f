//! What a finished run is made into: summary, tables, warnings, fingerprint.

pub mod fingerprint;
pub mod invariants;
pub mod results;
pub mod summary_keys;
pub mod tables;
pub mod warnings;
