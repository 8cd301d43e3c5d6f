//! The crate's interface without BPF objects: nothing can be registered.

use crate::options::{check_options, check_tag, DctcpOptions, Error, Seen, Steer};
use std::convert::Infallible;

/// See `build.rs`.
const REASON: &str = env!("PENSTOCK_BPF_MISSING");

pub(crate) fn available() -> Result<(), String> {
    Err(REASON.to_string())
}

/// DCTCP in the kernel. This build cannot make one: see [`crate::available`].
#[derive(Debug)]
pub struct Dctcp(Infallible);

impl Dctcp {
    /// An error: this build has no BPF objects.
    pub fn register(tag: &str, o: DctcpOptions) -> Result<Dctcp, Error> {
        check_tag(tag)?;
        check_options(&o)?;
        Err(Error::Unavailable(REASON.to_string()))
    }
    /// The name for `TCP_CONGESTION`.
    pub fn name(&self) -> &str {
        match self.0 {}
    }
    /// DCTCP.Alpha.
    pub fn alpha(&self, _source_port: u16) -> Option<f64> {
        match self.0 {}
    }
    /// Whether ECN was negotiated.
    pub fn ecn(&self, _source_port: u16) -> Option<bool> {
        match self.0 {}
    }
}

/// A congestion control steered from user space. This build cannot make one: see [`crate::available`].
#[derive(Debug)]
pub struct Steered(Infallible);

impl Steered {
    /// An error: this build has no BPF objects.
    pub fn register(tag: &str, _ecn: bool) -> Result<Steered, Error> {
        check_tag(tag)?;
        Err(Error::Unavailable(REASON.to_string()))
    }
    /// The name for `TCP_CONGESTION`.
    pub fn name(&self) -> &str {
        match self.0 {}
    }
    /// Says what the sender shall do.
    pub fn set(&self, _source_port: u16, _s: Steer) {
        match self.0 {}
    }
    /// What the connection went through.
    pub fn seen(&self, _source_port: u16) -> Seen {
        match self.0 {}
    }
    /// Forgets the port.
    pub fn clear(&self, _source_port: u16) {
        match self.0 {}
    }
}
