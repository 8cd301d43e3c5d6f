//! Delayed acknowledgements (RFC 5681 section 4.2), without an echo of marks.

use super::{Echo, Heard};
use crate::packet::{flag, Packet};
use crate::tcp::TcpConfig;
use penstock_units::{Dur, Time};

/// An ACK for every n-th segment in order, at once for anything else, and after a while in any case.
#[derive(Clone, Debug)]
pub struct Delayed {
    /// n; 1 = per packet.
    every: u32,
    longest: Dur,
    until: Time,
    /// ACKs that are not delayed after a pause or a duplicate, how many are left of them, and when data last arrived.
    quick_acks: u32,
    quick: u32,
    last_data: Time,
    pause: Dur,
}

impl Delayed {
    /// As `cfg` says: `delayed_ack`, `delayed_ack_timeout`, `quick_acks`.
    pub fn new(cfg: &TcpConfig) -> Delayed {
        Delayed {
            every: cfg.delayed_ack,
            longest: cfg.delayed_ack_timeout,
            until: Time::NEVER,
            quick_acks: cfg.quick_acks,
            quick: cfg.quick_acks,
            last_data: Time::NEVER,
            pause: cfg.rto_min,
        }
    }
    /// As [`Echo::on_data`], but at once when `at_once`.
    #[inline]
    pub fn hear(&mut self, now: Time, p: &Packet, heard: &Heard, at_once: bool) -> u32 {
        // RFC 5681 section 4.2: out of order, filling a gap, or a duplicate: acknowledge at once.
        let mut at_once = at_once
            || !heard.in_order
            || heard.unacknowledged >= self.every
            || p.flags & (flag::PROBE | flag::FIN) != 0;
        if self.quick_acks > 0 {
            at_once |= self.is_quick(now, heard.duplicate || p.seq_len() == 0);
        }
        if !at_once && self.until == Time::NEVER {
            self.until = now + self.longest;
        }
        u32::from(at_once)
    }
    /// Linux acknowledges at once for a while when a sender may be in slow start or in trouble (`quickack` mode).
    #[cold]
    fn is_quick(&mut self, now: Time, duplicate: bool) -> bool {
        if duplicate || now.since(self.last_data) > self.pause {
            self.quick = self.quick_acks;
        }
        self.last_data = now;
        self.quick > 0
    }
}

impl Echo for Delayed {
    #[inline]
    fn on_data(&mut self, now: Time, p: &Packet, heard: &Heard) -> u32 {
        self.hear(now, p, heard, false)
    }
    #[inline]
    fn on_ack_sent(&mut self) {
        self.until = Time::NEVER;
        self.quick = self.quick.saturating_sub(1);
    }
    #[inline]
    fn deadline(&self) -> Time {
        self.until
    }
    fn on_deadline(&mut self, now: Time) -> u32 {
        let due = now >= self.until;
        if due {
            self.until = Time::NEVER;
        }
        u32::from(due)
    }
}
