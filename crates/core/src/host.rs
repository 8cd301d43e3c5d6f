//! The host controller role: collective control of a host's connections, above their own controllers.
//!
//! It hears every acknowledgement and every sign of congestion of the senders in its charge and answers with
//! window caps. A cap acts like a receive window: the connection and its congestion control stay as they are.

use crate::control::{Congestion, FlowView};
use crate::header::CcHeader;
use crate::packet::FlowId;
use crate::quantity::Report;
use penstock_units::{Bytes, Dur, Time};

/// Where a connection leads, as far as the host knows the topology.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// The destination, by position in the scenario.
    pub host: u32,
    /// The router the destination is attached to, by position in the scenario.
    pub router: u32,
    /// Traffic class of the connection.
    pub class: u8,
}

/// A change of state of one connection under collective control.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transition {
    /// When.
    pub at: Time,
    /// The connection.
    pub flow: FlowId,
    /// The state it is in now and what moved it: `controlling: loss`.
    pub what: &'static str,
}

/// An acknowledgement of new data, as far as the host hears of it. (The connection's own law hears more:
/// [`crate::AckRecord`].)
#[derive(Clone, Copy, Debug)]
pub struct Ack<'a> {
    /// When it arrived.
    pub now: Time,
    /// Bytes newly acknowledged cumulatively.
    pub bytes: u64,
    /// The ACK carried ECN-Echo.
    pub ece: bool,
    /// When the segment that caused this ACK was sent.
    pub sent_at: Time,
    /// A valid RTT sample taken from this ACK.
    pub rtt: Option<Dur>,
    /// What the routers wrote, as echoed by the receiver.
    pub header: &'a CcHeader,
}

/// Sees all senders of one host (or of one application on it) together; may cap their windows.
///
/// Calls come in time order. A cap is read whenever its connection is about to send, so a rising cap needs no
/// call-back: a capped connection has data in flight, and its next acknowledgement reads the new value.
pub trait HostController: Send {
    /// A connection was opened.
    fn on_open(&mut self, now: Time, flow: FlowId, peer: Peer);
    /// A connection was closed; it will not be heard of again.
    fn on_close(&mut self, now: Time, flow: FlowId);
    /// New data was acknowledged, during fast recovery too; `view` already counts it.
    fn on_ack(&mut self, flow: FlowId, ack: &Ack<'_>, view: &FlowView);
    /// A sign of congestion.
    fn on_congestion(&mut self, now: Time, flow: FlowId, view: &FlowView, event: Congestion);
    /// The window cap of a connection; `None` = not limited.
    fn cap(&self, flow: FlowId) -> Option<Bytes>;
    /// State changes since the last call, in time order; for recording only.
    fn take_transitions(&mut self) -> alloc::vec::Vec<Transition>;
    /// Reports internal values of one connection by their declarations, for recording only.
    fn observe(&self, flow: FlowId, report: &mut Report<'_>) {
        let _ = (flow, report);
    }
}
