//! Waits that counts of timeouts do not show, as the switch sees them: for delayed ACKs and for tail-loss probes.

use penstock_units::{Dur, Time};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// Waits for delayed ACKs in nanoseconds since the last block ended, written by the switch and read by the applications.
#[derive(Clone, Debug, Default)]
pub struct AckWaits(Arc<AtomicU64>);

impl AckWaits {
    /// Takes what has been waited since the last call.
    pub fn take(&self) -> Dur {
        Dur::nanos(self.0.swap(0, Ordering::Relaxed))
    }
}

/// Recognises delayed ACKs: the network is empty, and a tick of the kernel or more after the last packet a receiver
/// acknowledges something. An ACK that is not delayed leaves within the interrupt.
pub struct LateAcks {
    waits: AckWaits,
    tick: Dur,
    /// The last packet left a host or reached one.
    moved: Time,
}

impl LateAcks {
    /// Nothing has moved yet.
    pub fn new(waits: AckWaits, tick: Dur) -> LateAcks {
        LateAcks { waits, tick, moved: Time::ZERO }
    }
    /// A packet leaves a host or reaches one.
    pub fn moves(&mut self, now: Time) {
        self.moved = self.moved.max(now);
    }
    /// A receiver acknowledges something new while the network is empty.
    pub fn ack(&mut self, now: Time) {
        let waited = now.since(self.moved.min(now));
        if waited >= self.tick {
            self.waits.0.fetch_add(waited.0 / 1000, Ordering::Relaxed);
        }
    }
    /// A retransmission timeout ends a wait: the block waited for that.
    pub fn timeout(&mut self) {
        self.waits.0.store(0, Ordering::Relaxed);
    }
}

/// Why a sender sends something again, and how long after its last segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// A tail-loss probe.
    Probe(Dur),
    /// A timeout, or what acknowledgements have told.
    Other(Dur),
}

/// Tells the tail-loss probes of a sender from its other retransmissions. A probe with new data looks like a write of the
/// application, and is not recognised.
#[derive(Debug, Default)]
pub struct Timers {
    /// When the last segment with data was sent.
    sent_at: Time,
    /// A probe is out that nothing has answered.
    out: bool,
    /// Until this is acknowledged the sender repairs losses, and sends no probe.
    repair_end: u64,
}

impl Timers {
    /// A segment with data leaves.
    pub fn sent(&mut self, now: Time) {
        self.sent_at = now;
    }
    /// Something new is acknowledged.
    pub fn answered(&mut self) {
        self.out = false;
    }
    /// A segment is sent again; `last`: it is the last one, and the sender knows of no gap. Sent is everything up to
    /// `max_sent`, acknowledged everything up to `una`.
    pub fn again(&mut self, now: Time, last: bool, una: u64, max_sent: u64) -> Repair {
        let wait = now.since(self.sent_at.min(now));
        if last && !self.out && una >= self.repair_end {
            self.out = true;
            return Repair::Probe(wait);
        }
        self.repair_end = max_sent;
        Repair::Other(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_acks_a_tick_late_count_and_a_timeout_takes_them_back() {
        let at = |us| Time::ZERO + Dur::micros(us);
        let waits = AckWaits::default();
        let mut late = LateAcks::new(waits.clone(), Dur::millis(4));
        late.moves(at(1_000));
        late.ack(at(1_030));
        assert_eq!(waits.take(), Dur::ZERO);
        late.moves(at(1_030));
        late.ack(at(41_030));
        late.moves(at(41_030));
        late.ack(at(81_030));
        assert_eq!(waits.take(), Dur::millis(80));
        assert_eq!(waits.take(), Dur::ZERO);
        late.moves(at(81_030));
        late.ack(at(121_030));
        late.timeout();
        assert_eq!(waits.take(), Dur::ZERO);
    }
    /// A probe repeats the last segment once. What follows without an answer is the timeout, and until its repair is
    /// acknowledged the sender sends no probe.
    #[test]
    fn a_probe_comes_once_and_not_within_a_repair() {
        let at = |ms| Time::ZERO + Dur::millis(ms);
        let mut timers = Timers::default();
        timers.sent(at(0));
        assert_eq!(timers.again(at(20), true, 0, 3000), Repair::Probe(Dur::millis(20)));
        timers.sent(at(20));
        assert_eq!(timers.again(at(220), true, 0, 3000), Repair::Other(Dur::millis(200)));
        timers.sent(at(220));
        timers.answered();
        assert_eq!(timers.again(at(230), true, 2000, 3000), Repair::Other(Dur::millis(10)));
        timers.answered();
        timers.sent(at(300));
        assert_eq!(timers.again(at(310), false, 3000, 6000), Repair::Other(Dur::millis(10)));
        assert_eq!(timers.again(at(330), true, 6000, 7000), Repair::Probe(Dur::millis(30)));
    }
}
