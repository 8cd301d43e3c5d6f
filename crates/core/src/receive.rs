//! The receive controller role: a host that sees everything arriving on its link may cap the windows its
//! connections advertise.

use crate::packet::Packet;
use penstock_units::Time;

/// Receiver-side congestion control of one host. Connections go by their flow number.
pub trait ReceiveController: Send {
    /// A data segment of `connection` has arrived.
    fn on_data(&mut self, now: Time, connection: u32, packet: &Packet);
    /// What `connection` may advertise at most, in bytes.
    fn window_cap(&self, connection: u32) -> u64;
    /// `connection` is over; it will not be heard of again, and nothing of it need be kept.
    fn on_close(&mut self, now: Time, connection: u32);
    /// Connections of which something is kept, for checks only.
    fn connections(&self) -> usize;
}
