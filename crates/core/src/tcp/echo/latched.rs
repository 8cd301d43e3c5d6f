//! The echo of RFC 3168 section 6.1.3: ECE on every ACK from the first CE until CWR arrives.

use super::{Delayed, Echo, Heard};
use crate::packet::{flag, Ecn, Packet};
use crate::tcp::TcpConfig;
use penstock_units::Time;

/// Delayed acknowledgements with a latched ECE.
#[derive(Clone, Debug)]
pub struct Latched {
    delay: Delayed,
    ece: bool,
}

impl Latched {
    /// As `cfg` says, see [`Delayed::new`].
    pub fn new(cfg: &TcpConfig) -> Latched {
        Latched { delay: Delayed::new(cfg), ece: false }
    }
    /// This echo with its state set: `ece` says whether ACKs echo a mark.
    pub(super) fn saying(mut self, ece: bool) -> Self {
        self.ece = ece;
        self
    }
}

impl Echo for Latched {
    #[inline]
    fn before_data(&mut self, p: &Packet) -> Option<bool> {
        if p.has(flag::CWR) {
            self.ece = false;
        }
        if p.ecn == Ecn::Ce {
            self.ece = true;
        }
        None
    }
    #[inline]
    fn on_data(&mut self, now: Time, p: &Packet, heard: &Heard) -> u32 {
        self.delay.hear(now, p, heard, false)
    }
    #[inline]
    fn on_ack_sent(&mut self) {
        self.delay.on_ack_sent();
    }
    #[inline]
    fn ece(&self) -> bool {
        self.ece
    }
    #[inline]
    fn deadline(&self) -> Time {
        self.delay.deadline()
    }
    fn on_deadline(&mut self, now: Time) -> u32 {
        self.delay.on_deadline(now)
    }
}
