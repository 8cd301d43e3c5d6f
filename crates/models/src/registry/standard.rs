//! What is registered as a standard, one line each.

use super::{BuildReceive, HostProtocol, Protocol, ReceiveProtocol, Registry, Suite};
use crate::protocols;
use crate::queues::DISCIPLINES;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use penstock_core::{HostController, ParamError};

/// Protocols that are laws for TCP, in the order shown to a user.
pub const PROTOCOLS: &[&Protocol] = &[
    &protocols::reno::RENO,
    &protocols::reno::NEWRENO,
    &protocols::reno::SACK,
    &protocols::cubic::CUBIC,
    &protocols::linux::LINUX_RENO,
    &protocols::linux_cubic::LINUX_CUBIC,
    &protocols::bbr::BBR,
    &protocols::bbr3::BBR3,
    &protocols::dctcp::DCTCP,
    &protocols::ecn_label::ECN_LABEL,
    &protocols::sdc::SDC,
    &protocols::racs::RACS,
    &protocols::d3::D3,
    &protocols::d2tcp::D2TCP,
    &protocols::rcp::RCP,
    &protocols::qi_rcp::QI_RCP,
    &protocols::piqi_rcp::PIQI_RCP,
    &protocols::xcp::XCP,
];

/// Transports with a stack of their own; they follow those for TCP.
pub const STACKS: &[&Protocol] = &[
    &protocols::pfabric::PFABRIC,
    &protocols::homa::HOMA,
    &protocols::phost::PHOST,
    &protocols::pias::PIAS,
    &protocols::ndp::NDP,
    &protocols::eqds::EQDS,
    &protocols::nscc::NSCC,
    &protocols::rccc::RCCC,
    &protocols::nscc::NSCC_RCCC,
    &protocols::roce::ROCE,
    &protocols::dcqcn::DCQCN,
    &protocols::hpcc::HPCC,
    &protocols::timely::TIMELY,
    &protocols::dctcp_roce::DCTCP_ROCE,
    &protocols::swift::SWIFT,
    &protocols::powertcp::POWERTCP,
];

/// Every receiver-side control, in the order shown to a user.
pub const RECEIVE_PROTOCOLS: &[&ReceiveProtocol] = &[&protocols::ictcp::ICTCP];

/// Every host controller, in the order shown to a user.
pub const HOST_PROTOCOLS: &[&HostProtocol] = &[&protocols::cbc::CBC];

impl Registry {
    /// All that comes with penstock.
    pub fn standard() -> Registry {
        Registry {
            protocols: PROTOCOLS.iter().chain(STACKS).copied().collect(),
            queues: DISCIPLINES.to_vec(),
            receive: RECEIVE_PROTOCOLS.to_vec(),
            hosts: HOST_PROTOCOLS.to_vec(),
            builders: Vec::new(),
            queue_builders: Vec::new(),
            added: Vec::new(),
        }
    }
}

/// [`Registry::protocol`] of the standard ones.
///
/// # Errors
/// As there.
pub fn protocol(key: &str, text: &str) -> Result<(&'static Protocol, Suite), ParamError> {
    Registry::standard().protocol(key, text)
}
/// [`Registry::unread`] of the standard ones.
pub fn unread(key: &str, text: &str) -> Vec<String> {
    Registry::standard().unread(key, text)
}
/// [`Registry::receive_control`] of the standard ones.
///
/// # Errors
/// As there.
pub fn receive_control(key: &str, text: &str) -> Result<Option<BuildReceive>, ParamError> {
    Registry::standard().receive_control(key, text)
}
/// [`Registry::host_controller`] of the standard ones.
///
/// # Errors
/// As there.
pub fn host_controller(key: &str, text: &str) -> Result<Option<Box<dyn HostController>>, ParamError> {
    Registry::standard().host_controller(key, text)
}
