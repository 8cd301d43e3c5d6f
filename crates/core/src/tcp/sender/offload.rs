//! When a burst of segmentation offload leaves, and how long it is.

use super::bursts::{Pieces, MOST_BYTES};
use super::Sender;
use crate::control::Limit;
use crate::packet::{flag, Packet};
use penstock_units::{Bytes, Dur, Time};

/// tcp_min_tso_segs.
const LEAST: u64 = 2;
/// tcp_tso_win_divisor: this part of the window is always enough to be sent.
const WINDOW_PART: u64 = 3;
/// tcp_tso_rtt_log: on paths below 2^9 us times 32 the burst is larger, by half as much for every 2^9 us of round trip.
const RTT_LOG: u32 = 9;
/// Longer after the last segment nothing is held back.
const RECENT: Dur = Dur::millis(1);

impl Sender {
    /// May the segment at `seq` leave now, as part of the burst at hand or as the first of the next? `fresh`: it is sent for the first time.
    pub(super) fn joins(&mut self, now: Time, seq: u64, fresh: bool) -> Result<(), Limit> {
        let goes_on = self.bursts.as_ref().is_some_and(|b| b.goes_on(now, seq, fresh));
        if goes_on {
            return Ok(());
        }
        if let Some(b) = self.bursts.as_mut().filter(|_| fresh) {
            b.note(now, seq);
        }
        if let Some(limit) = self.held_back(now) {
            return Err(limit);
        }
        let length = if fresh { self.burst(now, seq)? } else { self.burst_again() };
        if let Some(b) = &mut self.bursts {
            (b.at, b.left, b.several, b.fresh, b.bytes) = (now, length, length > 1, fresh, 0);
        }
        Ok(())
    }
    /// The segment up to `end` has left as `out`.
    pub(super) fn joined(&mut self, end: u64, out: &mut Packet) {
        let Some(b) = &mut self.bursts else { return };
        (b.next, b.left) = (end, b.left.saturating_sub(1));
        // __tcp_transmit_skb: a burst of several segments ends with PSH, single segments do not.
        if b.several && b.fresh && b.left == 0 {
            out.flags |= flag::PUSH;
        }
        if end >= self.view.app_end {
            b.pieces = Pieces::Sent;
        }
        b.bytes += self.paced.1;
        self.paced = (b.at, b.bytes);
        self.pace();
    }

    /// Segments of a burst that begins with new data at `seq`.
    fn burst(&self, now: Time, seq: u64) -> Result<u64, Limit> {
        let Some(b) = &self.bursts else { return Ok(1) };
        let segment = u64::from(self.view.segment);
        // What the application has written and the receiver has room for.
        let limit = self.view.app_end.min(self.view.una + self.view.rwnd);
        let ready = limit.saturating_sub(seq);
        let goal = self.autosize(segment).min(b.most);
        // tcp_cwnd_test: half of the window at once.
        let window = self.cwnd.min(self.cap);
        let room = window.saturating_sub(self.flight());
        // tcp_tso_should_defer: "Middle in queue won't get any more data, full sendable already?" It takes from the next what the window leaves, all the
        // same (tcp_grow_skb).
        let rest = b.piece_end(seq, segment).filter(|end| *end < self.view.app_end);
        let whole = rest.is_some_and(|end| room >= end - seq);
        if ready > segment && !whole && self.waits(now, room, goal * segment) {
            return Err(Limit::Window);
        }
        let quota = (room / segment).min(window / segment / 2).max(1);
        // A short segment at the end goes with it.
        Ok(goal.min(quota).min(ready.div_ceil(segment)).max(1))
    }
    /// Segments of a burst of what is sent again, at most (tcp_xmit_retransmit_queue): as many as follow each other are lost.
    fn burst_again(&self) -> u64 {
        let Some(b) = &self.bursts else { return 1 };
        let segment = u64::from(self.view.segment);
        self.autosize(segment).min(b.most)
    }
    /// tcp_tso_autosize, in segments: what the pacing rate is in 1/1024 s, and more on short paths.
    fn autosize(&self, segment: u64) -> u64 {
        let rate = match self.pacing {
            Some(rate) => {
                let wire = rate.0 / 8;
                wire * segment / u64::from(self.packet_len())
            }
            // tcp_update_pacing_rate, which counts where nothing is paced too.
            None if self.view.rtt_smoothed == Dur::ZERO => u64::MAX / 2,
            None => {
                let bytes = Bytes(self.cwnd.max(self.flight()) * self.cc.pacing_percent() / 100);
                (bytes / self.view.rtt_smoothed).0 / 8
            }
        };
        let trips = (self.rtt.recent.0 / 1_000_000) >> RTT_LOG;
        let more = if trips < 32 { MOST_BYTES >> trips } else { 0 };
        ((rate / 1024 + more).min(MOST_BYTES) / segment).max(LEAST)
    }
    /// tcp_tso_should_defer: the next ACK will make a better burst of it. `room` is what the window leaves, `goal` a full burst,
    /// both in bytes.
    fn waits(&self, now: Time, room: u64, goal: u64) -> bool {
        let window = self.cwnd.min(self.cap).min(self.view.rwnd);
        // tcp_wstamp_ns: when the last segment left, or when pacing lets the next one leave.
        let last = if self.pacing.is_some() { self.active_at.max(self.pace_at) } else { self.active_at };
        if self.view.in_recovery || now.since(last) > RECENT {
            return false;
        }
        if room >= goal || room >= window / WINDOW_PART {
            return false;
        }
        // The oldest segment left less than half a round trip ago: its ACK is too far off.
        let head = self.log.as_ref().and_then(|log| log.iter().next());
        head.is_some_and(|head| now.since(head.sent_at) >= self.view.rtt_smoothed / 2)
    }
}
