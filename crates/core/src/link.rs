//! The link controller role: a router's per-packet header work and periodic update on one output link.

use crate::header::CcHeader;
use crate::packet::Packet;
use crate::quantity::Report;
use penstock_units::{Rate, Time};

/// Running totals of one output link; a controller takes differences over its own interval.
///
/// All bytes are bytes on the link, its framing included: what a router compares with its capacity.
#[derive(Clone, Copy, Debug)]
pub struct LinkView {
    /// Link rate.
    pub capacity: Rate,
    /// Packets waiting plus the one in service.
    pub queue_packets: u32,
    /// Their bytes on the link.
    pub queue_bytes: u64,
    /// Bytes that have arrived, dropped ones included.
    pub arrived_bytes: u64,
    /// Bytes that have left.
    pub departed_bytes: u64,
    /// Bytes of framing the link adds to every packet.
    pub framing: u32,
}

impl LinkView {
    /// A link of `capacity` that carries nothing and adds no framing, for tests of controllers.
    pub const fn idle(capacity: Rate) -> LinkView {
        LinkView {
            capacity,
            queue_packets: 0,
            queue_bytes: 0,
            arrived_bytes: 0,
            departed_bytes: 0,
            framing: 0,
        }
    }
    /// What `packet` takes of the link in bytes, framing included.
    #[inline]
    pub fn len(&self, packet: &Packet) -> u32 {
        packet.wire_len + self.framing
    }
}

/// What a controller looks at when packets arrive and leave: what it does without is not made ready for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Looks {
    /// Which packets it wants to see leave.
    pub departures: Departures,
    /// Packet by packet: what a [`LinkView`] says beside capacity and framing, and the packet's ECN field. At its deadline it has all of the view
    /// in any case.
    pub totals: bool,
}

impl Looks {
    /// All there is when packets arrive, and none of them when they leave.
    pub const ARRIVALS: Looks = Looks { departures: Departures::None, totals: true };
    /// All there is.
    pub const ALL: Looks = Looks { departures: Departures::All, totals: true };
    /// A header to be written into what travels towards a receiver, when it leaves; arrivals and their length.
    pub const HEADERS: Looks = Looks { departures: Departures::Forward, totals: false };
}

/// Which packets a controller wants to see leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Departures {
    /// None.
    None,
    /// Those that travel towards a connection's receiver ([`Packet::is_forward`]).
    Forward,
    /// All.
    All,
}

/// RCP, QI/PIQI-RCP, XCP, SDC, RACS: work per packet and a periodic update.
///
/// Calls come in time order. `on_departure` is called when the last bit of a packet has left.
pub trait LinkController: Send {
    /// A packet arrives; `link` does not count it yet. Called before the queue decides about it.
    fn on_arrival(&mut self, now: Time, link: &LinkView, packet: &mut Packet, header: &mut CcHeader);
    /// The packet announced by the last `on_arrival` was dropped by this very port.
    fn on_drop(&mut self, now: Time, link: &LinkView, packet: &Packet, header: &CcHeader) {
        let _ = (now, link, packet, header);
    }
    /// A packet has left the queue; `link` no longer counts it.
    fn on_departure(&mut self, now: Time, link: &LinkView, packet: &mut Packet, header: &mut CcHeader) {
        let _ = (now, link, packet, header);
    }
    /// What it looks at (asked once).
    fn looks(&self) -> Looks {
        Looks::ARRIVALS
    }
    /// End of the current control interval, [`Time::NEVER`] when there is none.
    fn deadline(&self) -> Time {
        Time::NEVER
    }
    /// The deadline has come.
    fn on_deadline(&mut self, now: Time, link: &LinkView) {
        let _ = (now, link);
    }
    /// The number of the port it is at; told once, before the first packet. For who has to name it.
    fn at_port(&mut self, port: u32) {
        let _ = port;
    }
    /// Reports internal values by their declarations, for recording only; the protocol lists these (`reports`).
    fn observe(&self, report: &mut Report<'_>) {
        let _ = report;
    }
}
