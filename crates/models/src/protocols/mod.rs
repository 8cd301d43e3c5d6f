//! One protocol, one file: parameters, state, equations with their citation, roles.

pub mod cbc;
pub mod cubic;
pub mod d2tcp;
pub mod d3;
pub mod dcqcn;
pub mod dctcp;
pub mod dctcp_roce;
pub mod ecn_label;
pub mod hpcc;
pub mod ictcp;
pub mod ndp;
pub mod pfabric;
pub mod piqi_rcp;
pub mod powertcp;
pub mod qi_rcp;
pub mod racs;
mod rate_request;
pub mod rcp;
pub mod reno;
pub mod resizing;
pub mod roce;
pub mod sdc;
pub mod swift;
pub mod timely;
pub mod xcp;
