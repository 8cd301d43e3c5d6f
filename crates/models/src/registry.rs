//! One line per protocol. Everything else (command line, documentation, property tests) reads this table.

use crate::protocols;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use penstock_core::params::{parse_spec, unknown};
use penstock_core::receive::ReceiveController;
use penstock_core::tcp::{Roles, TcpConfig};
use penstock_core::{HostController, LinkController, ParamError, ParamSpec, Params, Stream, WindowLaw};
use penstock_units::{Dur, Rate};

/// What an output port tells a router controller when it is built.
#[derive(Clone, Copy, Debug)]
pub struct LinkFacts {
    /// Link rate.
    pub capacity: Rate,
    /// Smallest round-trip time the scenario promises for flows through the link.
    pub base_rtt: Dur,
    /// Wire length of a full data packet in bytes, link framing not counted.
    pub packet: u32,
    /// Bytes of framing the link adds to every packet.
    pub framing: u32,
}

impl LinkFacts {
    /// Share of the capacity that full packets have, the rest being framing. Senders count their rates in bits of
    /// packets, as they cannot know the framing of every link, so a router hands out this share.
    pub fn packet_share(&self) -> f64 {
        f64::from(self.packet) / f64::from(self.packet + self.framing)
    }
}

/// Builds the window law of one sender.
pub type BuildEndpoint = Arc<dyn Fn(&TcpConfig, Stream) -> Box<dyn WindowLaw> + Send + Sync>;
/// Builds the controller of one output link of a switch.
pub type BuildRouter = Arc<dyn Fn(&LinkFacts) -> Box<dyn LinkController> + Send + Sync>;

/// Builds the receiver-side controller of one host; the facts are those of the link into it, `packet` its MSS.
pub type BuildReceive = Arc<dyn Fn(&LinkFacts) -> Box<dyn ReceiveController> + Send + Sync>;

/// A protocol with its parameters set: how to build each of its roles.
#[derive(Clone)]
pub struct Suite {
    /// Sets what the protocol fixes in the connection (loss recovery, ECN mode).
    pub configure: fn(&mut TcpConfig),
    /// The sender's window law.
    pub endpoint: BuildEndpoint,
    /// Recovery and echo of the protocol's own; by default the standard ones that `configure` chooses.
    pub roles: Roles,
    /// The router's controller, for protocols that have one.
    pub router: Option<BuildRouter>,
}

impl Suite {
    /// Sets in the options of a connection what the protocol fixes.
    pub fn set_up(&self, cfg: &mut TcpConfig) {
        (self.configure)(cfg);
        cfg.roles = self.roles.clone();
    }
}

/// A registered protocol.
pub struct Protocol {
    /// Name on the command line.
    pub name: &'static str,
    /// What it is, in one line.
    pub text: &'static str,
    /// Source: RFC or paper.
    pub cites: &'static str,
    /// Parameters.
    pub params: &'static [ParamSpec],
    /// Builds it.
    pub build: fn(&Params) -> Result<Suite, ParamError>,
}

/// A registered host controller.
pub struct HostProtocol {
    /// Name on the command line.
    pub name: &'static str,
    /// What it is, in one line.
    pub text: &'static str,
    /// Source: RFC or paper.
    pub cites: &'static str,
    /// Parameters.
    pub params: &'static [ParamSpec],
    /// Builds the controller of one host, or of one set of applications on it.
    pub build: fn(&Params) -> Result<Box<dyn HostController>, ParamError>,
}

/// A registered receiver-side control.
pub struct ReceiveProtocol {
    /// Name on the command line.
    pub name: &'static str,
    /// What it is, in one line.
    pub text: &'static str,
    /// Source: RFC or paper.
    pub cites: &'static str,
    /// Parameters.
    pub params: &'static [ParamSpec],
    /// Builds it.
    pub build: fn(&Params) -> Result<BuildReceive, ParamError>,
}

/// Every receiver-side control, in the order shown to a user.
pub const RECEIVE_PROTOCOLS: &[&ReceiveProtocol] = &[&protocols::ictcp::ICTCP];

/// Every host controller, in the order shown to a user.
pub const HOST_PROTOCOLS: &[&HostProtocol] = &[&protocols::cbc::CBC];

/// A host controller as written in a scenario (`cbc:eta=1.3`); `none` is no control.
///
/// # Errors
/// An unknown controller or a bad parameter, naming `key`.
pub fn host_controller(key: &str, text: &str) -> Result<Option<Box<dyn HostController>>, ParamError> {
    let (name, given) = parse_spec(key, text)?;
    if name == "none" && given.is_empty() {
        return Ok(None);
    }
    let Some(found) = HOST_PROTOCOLS.iter().find(|p| p.name == name) else {
        let names: Vec<&str> = ["none"].into_iter().chain(HOST_PROTOCOLS.iter().map(|p| p.name)).collect();
        return Err(ParamError::new(key, text, unknown("host controller", &name, &names)));
    };
    let inner = |e: ParamError| ParamError::new(format!("{key}:{}", e.key), e.value, e.rule);
    let params = Params::parse(&format!("host controller {name}"), found.params, &given).map_err(inner)?;
    Ok(Some((found.build)(&params).map_err(inner)?))
}

/// Every protocol, in the order shown to a user.
pub const PROTOCOLS: &[&Protocol] = &[
    &protocols::reno::RENO,
    &protocols::reno::NEWRENO,
    &protocols::reno::SACK,
    &protocols::cubic::CUBIC,
    &protocols::dctcp::DCTCP,
    &protocols::cbc::ECN_LABEL,
    &protocols::sdc::SDC,
    &protocols::racs::RACS,
    &protocols::d3::D3,
    &protocols::d2tcp::D2TCP,
    &protocols::rcp::RCP,
    &protocols::qi_rcp::QI_RCP,
    &protocols::piqi_rcp::PIQI_RCP,
    &protocols::xcp::XCP,
];

/// Parameters given to a protocol (`key:name`) that it did not look at: they have no effect.
pub fn unread(key: &str, text: &str) -> Vec<String> {
    let Ok((name, given)) = parse_spec(key, text) else { return Vec::new() };
    let Some(found) = PROTOCOLS.iter().find(|p| p.name == name) else { return Vec::new() };
    let Ok(params) = Params::parse(&name, found.params, &given) else { return Vec::new() };
    if (found.build)(&params).is_err() {
        return Vec::new();
    }
    params.without_effect().iter().map(|k| format!("{key}:{k}")).collect()
}

/// A receiver-side control as written in a scenario (`none`, `ictcp:alpha=0.9`), parsed.
///
/// # Errors
/// An unknown name or a bad parameter, naming `key`.
pub fn receive_control(key: &str, text: &str) -> Result<Option<BuildReceive>, ParamError> {
    let (name, given) = parse_spec(key, text)?;
    if name == "none" && given.is_empty() {
        return Ok(None);
    }
    let Some(found) = RECEIVE_PROTOCOLS.iter().find(|p| p.name == name) else {
        let names: Vec<&str> = ["none"].into_iter().chain(RECEIVE_PROTOCOLS.iter().map(|p| p.name)).collect();
        return Err(ParamError::new(key, text, unknown("receiver-side control", &name, &names)));
    };
    let inner = |e: ParamError| ParamError::new(format!("{key}:{}", e.key), e.value, e.rule);
    let params =
        Params::parse(&format!("receiver-side control {name}"), found.params, &given).map_err(inner)?;
    Ok(Some((found.build)(&params).map_err(inner)?))
}

/// A protocol as written in a scenario (`dctcp:g=0.0625`), parsed and built.
///
/// # Errors
/// An unknown protocol or a bad parameter, naming `key`.
pub fn protocol(key: &str, text: &str) -> Result<(&'static Protocol, Suite), ParamError> {
    let (name, given) = parse_spec(key, text)?;
    let Some(found) = PROTOCOLS.iter().find(|p| p.name == name) else {
        let names: Vec<&str> = PROTOCOLS.iter().map(|p| p.name).collect();
        return Err(ParamError::new(key, text, unknown("protocol", &name, &names)));
    };
    let params = Params::parse(&format!("protocol {name}"), found.params, &given)
        .map_err(|e| ParamError::new(format!("{key}:{}", e.key), e.value, e.rule))?;
    let suite =
        (found.build)(&params).map_err(|e| ParamError::new(format!("{key}:{}", e.key), e.value, e.rule))?;
    Ok((found, suite))
}
