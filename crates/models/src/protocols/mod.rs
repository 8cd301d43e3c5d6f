//! One protocol, one file: parameters, state, equations with their citation, roles.

pub mod cubic;
pub mod dctcp;
pub mod reno;
