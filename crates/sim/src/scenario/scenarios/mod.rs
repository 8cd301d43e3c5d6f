//! Named scenarios, one file each.

use crate::scenario::Scenario;
use penstock_core::params::unknown;
use penstock_core::ParamError;

mod bottleneck;
mod control_sets;
pub mod custom;
mod db_ftp;
mod incast;
mod join;
mod long_flows;
mod mix;
mod multi_hop;
mod parking_lot;
mod permutation;
mod poisson;
mod prelude;
mod query;
mod rdma;
mod staggered;
mod t1;
mod testbed;

/// Every scenario, in the order shown to a user.
pub const ALL: &[&Scenario] = &[
    &incast::INCAST,
    &long_flows::LONG_FLOWS,
    &query::QUERY,
    &mix::MIX,
    &multi_hop::MULTI_HOP,
    &permutation::PERMUTATION,
    &custom::CUSTOM,
    &join::JOIN,
    &staggered::STAGGERED,
    &t1::T1,
    &parking_lot::PARKING_LOT,
    &poisson::POISSON,
    &rdma::RDMA,
    &db_ftp::DB_FTP,
    &control_sets::CONTROL_SETS,
    &testbed::TESTBED,
];

/// The scenario of that name.
///
/// # Errors
/// An unknown name.
pub fn find(name: &str) -> Result<&'static Scenario, ParamError> {
    ALL.iter().copied().find(|s| s.name == name).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|s| s.name).collect();
        ParamError::new("scenario", name, unknown("scenario", name, &names))
    })
}
