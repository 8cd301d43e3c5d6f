//! Named scenarios, one file each.

use crate::scenario::Scenario;

mod incast;
mod long_flows;
mod mix;
mod multi_hop;
mod permutation;
mod query;

/// Every scenario, in the order shown to a user.
pub const ALL: &[&Scenario] = &[
    &incast::INCAST,
    &long_flows::LONG_FLOWS,
    &query::QUERY,
    &mix::MIX,
    &multi_hop::MULTI_HOP,
    &permutation::PERMUTATION,
];
