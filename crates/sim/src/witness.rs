//! An independent account of the bytes that reached each receiver, in builds with debug assertions only.
//!
//! It checks that the application is handed every byte once and in order, none before it has arrived, and that none is held
//! back. The payload is not simulated: a byte is its sequence number.

use penstock_core::packet::flag;
use penstock_core::Packet;
use std::collections::BTreeMap;

/// What the application of one connection may have been handed.
#[derive(Debug, Default)]
pub struct Witness {
    /// Every byte below this has arrived.
    handed: u64,
    /// Start and end of what arrived beyond it.
    early: BTreeMap<u64, u64>,
}

impl Witness {
    /// A packet reaches the receiver; `written` bytes have been given to the sender so far.
    pub fn arrive(&mut self, packet: &Packet, written: u64) {
        if packet.has(flag::SYN) || packet.payload == 0 {
            return;
        }
        let (start, end) = (packet.seq, packet.seq + u64::from(packet.payload));
        assert!(end <= written, "bytes {start}..{end} arrived, {written} were written: {packet:?}");
        let known = self.early.entry(start).or_insert(end);
        *known = end.max(*known);
        while let Some((start, end)) = self.early.pop_first() {
            if start > self.handed {
                self.early.insert(start, end);
                break;
            }
            self.handed = self.handed.max(end);
        }
    }
    /// The receiver has handed `delivered` bytes to the application. Where it `merges` segments first (GRO) it may hold some, and with
    /// them what had arrived behind a gap that they fill.
    pub fn check(&self, flow: u32, delivered: u64, merges: bool) {
        assert!(
            delivered == self.handed || merges && delivered < self.handed,
            "flow {flow}: {delivered} bytes are with the application, {} have arrived in order",
            self.handed
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(seq: u64, payload: u32) -> Packet {
        Packet { seq, payload, ..Packet::default() }
    }
    fn after(arrivals: &[(u64, u32)]) -> Witness {
        let mut witness = Witness::default();
        arrivals.iter().for_each(|(seq, payload)| witness.arrive(&packet(*seq, *payload), 1000));
        witness
    }

    #[test]
    fn gaps_overlaps_and_repetitions() {
        for (arrivals, handed) in [
            (&[(0, 10), (10, 10)][..], 20),
            (&[(10, 10)], 0),
            (&[(10, 10), (20, 5), (0, 10)], 25),
            (&[(0, 10), (0, 10), (5, 10)], 15),
            (&[(10, 5), (10, 20), (0, 12)], 30),
            (&[(10, 20), (10, 5), (40, 5), (0, 10)], 30),
        ] {
            after(arrivals).check(0, handed, false);
        }
    }
    #[test]
    #[should_panic(expected = "25 bytes are with the application, 20")]
    fn a_byte_that_did_not_arrive() {
        after(&[(0, 20), (30, 5)]).check(0, 25, false);
    }
    #[test]
    #[should_panic(expected = "30 bytes are with the application, 20")]
    fn a_byte_handed_twice() {
        after(&[(0, 10), (10, 10), (0, 10)]).check(0, 30, false);
    }
    #[test]
    #[should_panic(expected = "10 bytes are with the application, 20")]
    fn a_byte_kept_back() {
        after(&[(10, 10), (0, 10)]).check(0, 10, false);
    }
    #[test]
    #[should_panic(expected = "25 bytes are with the application, 20")]
    fn a_byte_that_did_not_arrive_before_a_merge() {
        after(&[(0, 20), (30, 5)]).check(0, 10, true);
        after(&[(0, 20), (30, 5)]).check(0, 25, true);
    }
    #[test]
    #[should_panic(expected = "bytes 990..1010 arrived, 1000 were written")]
    fn a_byte_never_written() {
        after(&[(990, 20)]);
    }
}
