//! Packets of one connection that wait in its own host's port, where the queue below the transport is endless.
//!
//! A sender with a large window would put all of it into its host's queue, and other connections of the host would wait
//! behind it. Hosts bound that: Linux holds a connection back that has about two packets below TCP until one of them has
//! left (TCP small queues, `tcp_limit_output_bytes`; from memory).

use alloc::collections::VecDeque;
use penstock_core::Amount;
use penstock_fabric::prefetch;
use penstock_units::Time;

/// One connection's packets in its host's port, oldest first: departure time (known on arrival) and bytes.
#[derive(Debug, Default)]
pub(super) struct HostShare {
    held: VecDeque<(Time, u32)>,
    bytes: u64,
}

impl HostShare {
    /// A packet of `bytes` was queued and leaves at `at`.
    pub fn take(&mut self, at: Time, bytes: u32) {
        self.held.push_back((at, bytes));
        self.bytes += u64::from(bytes);
    }
    /// Asks the processor to fetch the oldest.
    #[inline]
    pub fn prefetch(&self) {
        self.held.front().into_iter().for_each(prefetch);
    }
    /// [`Time::ZERO`] when a packet of `next` bytes may be added at `now`, else when the oldest one leaves.
    pub fn free_at(&mut self, now: Time, limit: Amount, next: u32) -> Time {
        while let Some((_, bytes)) = self.held.front().filter(|(at, _)| *at <= now) {
            self.bytes -= u64::from(*bytes);
            self.held.pop_front();
        }
        let Some((oldest, _)) = self.held.front() else { return Time::ZERO };
        let full = match limit {
            Amount::Packets(n) => self.held.len() >= n as usize,
            // One packet may always be there, or nothing would ever be sent.
            Amount::Bytes(b) => self.bytes + u64::from(next) > b,
        };
        if full {
            *oldest
        } else {
            Time::ZERO
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_share_is_free_again_when_its_oldest_packet_leaves() {
        for limit in [Amount::Packets(2), Amount::Bytes(3999)] {
            let mut share = HostShare::default();
            let at = |share: &mut HostShare, now| share.free_at(Time(now), limit, 1500);
            assert_eq!(at(&mut share, 0), Time::ZERO);
            share.take(Time(10), 1500);
            assert_eq!(at(&mut share, 0), Time::ZERO);
            share.take(Time(20), 1500);
            assert_eq!(at(&mut share, 9), Time(10));
            assert_eq!(at(&mut share, 10), Time::ZERO);
            share.take(Time(30), 1500);
            assert_eq!((at(&mut share, 19), at(&mut share, 30)), (Time(20), Time::ZERO));
        }
    }
    #[test]
    fn one_packet_may_always_stand_there() {
        let mut share = HostShare::default();
        assert_eq!(share.free_at(Time(0), Amount::Bytes(1), 1500), Time::ZERO);
        share.take(Time(10), 1500);
        assert_eq!(share.free_at(Time(0), Amount::Bytes(1), 1500), Time(10));
    }
}
