//! How long receivers let an ACK wait that is due. A kernel acknowledges every second segment, at once or when the application reads; where its
//! application does not come to read, because the processor that it runs on has gone, one ACK answers for all that has been handed over by then.
//!
//! A wait is from handing a host the second data packet since its last ACK to the ACK that it sends next. The network's own thread may be what is
//! late: a wait that this was silent for a tenth of, or more, says nothing about the host. Nor does an ACK that reports a gap, as Linux holds
//! such ones back.

use crate::quality::Histogram;
use penstock_units::{Dur, Time};

/// Waits of all hosts.
#[derive(Clone, Debug)]
pub struct Waits {
    hosts: Vec<Asked>,
    /// How long the network's thread has been late, all in all.
    silent: Dur,
    /// The waits.
    pub times: Histogram,
}

/// What a host has been handed since its last ACK.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    packets: u32,
    /// Of the second packet: when it was handed over, and how long the thread had been late by then.
    at: Time,
    silent: Dur,
}

impl Waits {
    /// None yet, of so many nodes.
    pub fn new(nodes: usize) -> Waits {
        Waits { hosts: vec![Asked::default(); nodes], silent: Dur::ZERO, times: Histogram::new() }
    }
    /// The network's thread has woken so late.
    pub fn woke(&mut self, late: Dur) {
        self.silent += late;
    }
    /// A packet with payload is handed to `node` at `now`.
    pub fn data(&mut self, node: u32, now: Time) {
        let asked = &mut self.hosts[node as usize];
        asked.packets += 1;
        if asked.packets == 2 {
            (asked.at, asked.silent) = (now, self.silent);
        }
    }
    /// An ACK is read from `node` at `now`; does it report a gap, or does the run not count yet?
    pub fn ack(&mut self, node: u32, now: Time, counts: bool) {
        let asked = std::mem::take(&mut self.hosts[node as usize]);
        let wait = now.since(asked.at);
        if counts && asked.packets >= 2 && (self.silent - asked.silent) * 10 <= wait {
            self.times.record(wait);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Time {
        Time::ZERO + Dur::micros(us)
    }

    /// Data every 121 us. An ACK 40 us after the second; one that the application comes 9 ms late for, which answers 76; one of a delayed-ACK timer for a
    /// single packet; one that reports a gap; one that the network itself was late for: two waits.
    #[test]
    fn a_wait_is_from_the_second_packet_to_the_ack_and_the_hosts_own() {
        let mut w = Waits::new(2);
        let data = |w: &mut Waits, from: u64, n: u64| {
            (0..n).for_each(|i| w.data(1, at(from + 121 * i)));
        };
        data(&mut w, 0, 2);
        w.ack(1, at(161), true);
        data(&mut w, 1000, 76);
        w.ack(1, at(10_121), true);
        data(&mut w, 20_000, 1);
        w.ack(1, at(60_000), true);
        data(&mut w, 70_000, 2);
        w.ack(1, at(75_000), false);
        data(&mut w, 80_000, 2);
        w.woke(Dur::micros(3000));
        data(&mut w, 83_000, 1);
        w.ack(1, at(83_161), true);
        assert_eq!(w.times.count(), 2);
        assert!((w.times.max() - 9e-3).abs() < 1e-12, "{}", w.times.max());
        assert!((w.times.quantile(0.5) * 1e6 / 40.0 - 1.0).abs() < 0.02);
        // What the network was late by before counts for nothing, nor what is short beside the wait.
        data(&mut w, 90_000, 2);
        w.woke(Dur::micros(4));
        w.ack(1, at(90_161), true);
        assert_eq!(w.times.count(), 3);
    }
}
