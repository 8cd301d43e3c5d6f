//! DCTCP's echo (RFC 8257 section 3.2): the sender learns exactly how many bytes were marked, delayed ACKs or not.

use super::{Delayed, Echo, Heard};
use crate::packet::{Ecn, Packet};
use crate::tcp::TcpConfig;
use penstock_units::Time;

/// Delayed acknowledgements whose ECE is the mark of all the segments they cover.
#[derive(Clone, Debug)]
pub struct Dctcp {
    delay: Delayed,
    /// DCTCP.CE.
    ce: bool,
    /// The segment at hand has changed it.
    changed: bool,
}

impl Dctcp {
    /// As `cfg` says, see [`Delayed::new`].
    pub fn new(cfg: &TcpConfig) -> Dctcp {
        Dctcp { delay: Delayed::new(cfg), ce: false, changed: false }
    }
    /// This echo with its state set: `ece` says whether ACKs echo a mark.
    pub(super) fn saying(mut self, ece: bool) -> Self {
        self.ce = ece;
        self
    }
}

impl Echo for Dctcp {
    #[inline]
    fn before_data(&mut self, p: &Packet) -> Option<bool> {
        // RFC 8257 section 3.2, figure 1: on a change of CE, acknowledge what came before it at once.
        let ce = p.ecn == Ecn::Ce;
        self.changed = ce != self.ce;
        self.ce = ce;
        self.changed.then_some(!ce)
    }
    #[inline]
    fn on_data(&mut self, now: Time, p: &Packet, heard: &Heard) -> u32 {
        self.delay.hear(now, p, heard, self.changed)
    }
    #[inline]
    fn on_ack_sent(&mut self) {
        self.delay.on_ack_sent();
    }
    #[inline]
    fn ece(&self) -> bool {
        self.ce
    }
    #[inline]
    fn deadline(&self) -> Time {
        self.delay.deadline()
    }
    fn on_deadline(&mut self, now: Time) -> u32 {
        self.delay.on_deadline(now)
    }
}
