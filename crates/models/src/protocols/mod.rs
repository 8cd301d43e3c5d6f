//! One protocol, one file: parameters, state, equations with their citation, roles.

pub mod cubic;
pub mod d2tcp;
pub mod d3;
pub mod dctcp;
pub mod ictcp;
pub mod racs;
mod rate_request;
pub mod reno;
pub mod resizing;
pub mod sdc;
