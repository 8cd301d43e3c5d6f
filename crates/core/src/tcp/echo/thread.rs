//! The receiver's half of the retransmit thread (Kulkarni and Agrawal 2014, section 4.2).

use super::role::{Echo, Heard};
use crate::packet::{flag, Packet};
use penstock_units::{Dur, Time};

/// The receiver's half (algorithm 2). A marked segment that is new proves that the original was dropped and that the
/// congestion is over. Its ACK and three duplicates of it let the sender retransmit the missing data.
pub struct ThreadEcho<E> {
    inner: E,
}

impl<E> ThreadEcho<E> {
    /// Beside the echo `inner`.
    pub(super) fn new(inner: E) -> ThreadEcho<E> {
        ThreadEcho { inner }
    }
}

impl<E: Echo> Echo for ThreadEcho<E> {
    fn on_handshake(&mut self, rtt: Option<Dur>) {
        self.inner.on_handshake(rtt);
    }
    fn before_data(&mut self, p: &Packet) -> Option<bool> {
        self.inner.before_data(p)
    }
    fn on_data(&mut self, now: Time, p: &Packet, heard: &Heard) -> u32 {
        let acks = self.inner.on_data(now, p, heard);
        if p.has(flag::MARKED) && !heard.duplicate {
            return acks.max(1) + 3;
        }
        acks
    }
    fn on_ack_sent(&mut self) {
        self.inner.on_ack_sent();
    }
    fn ece(&self) -> bool {
        self.inner.ece()
    }
    fn deadline(&self) -> Time {
        self.inner.deadline()
    }
    fn on_deadline(&mut self, now: Time) -> u32 {
        self.inner.on_deadline(now)
    }
    fn window_cap(&self) -> u64 {
        self.inner.window_cap()
    }
}
