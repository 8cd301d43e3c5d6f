//! The delivery rate (draft-cheng-iccrg-delivery-rate-estimation-02), from marks that every segment in flight carries
//! ([`super::SegmentLog`] keeps the segments).
//!
//! Names are the draft's: `C` is the connection ([`Rates`]), `P` a segment ([`Mark`], with [`super::Segment`]), `rs` is [`RateSample`]. Data
//! is counted in bytes of payload.

use alloc::collections::VecDeque;
use penstock_units::{Bytes, Dur, Rate, Time};

/// What the delivery rate needs of a segment: how the connection stood when it was sent (section 3.1.2 of the draft).
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    /// P.delivered: bytes delivered on the connection, and the number of segments that they were.
    delivered: u64,
    count: u64,
    /// P.delivered_time: when the latest of these was delivered.
    delivered_at: Time,
    /// P.first_sent_time: when the first segment of the flight that was out then was sent.
    first_sent_at: Time,
    /// Bytes that had been taken for lost on the connection.
    lost: u64,
    /// Bytes in flight, itself included.
    in_flight: u64,
    /// P.is_app_limited: it was an application-limited phase.
    app_limited: bool,
}

/// How a connection stands when a segment leaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    /// Nothing was outstanding before.
    pub(super) idle: bool,
    /// Bytes in flight, this segment included.
    pub(super) in_flight: u64,
    /// Bytes taken for lost so far.
    pub(super) lost: u64,
}

/// The delivery rate over the time that the newest segment acknowledged by an ACK was in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSample {
    /// rs.delivered: bytes delivered in `interval`.
    pub delivered: u64,
    /// The number of segments that they were, short ones as whole ones: what Linux counts.
    pub segments: u64,
    /// rs.interval: the longer of the two below (section 2.2.4 says why: either end may be compressed).
    pub interval: Dur,
    /// rs.send_elapsed: how long the flight took to be sent.
    pub send_elapsed: Dur,
    /// rs.ack_elapsed: how long its acknowledgements took to arrive.
    pub ack_elapsed: Dur,
    /// rs.prior_delivered: bytes delivered on the connection when the newest segment was sent.
    pub prior_delivered: u64,
    /// C.delivered: bytes delivered on the connection by now.
    pub total_delivered: u64,
    /// rs.is_app_limited: the rate may be the application's and not the network's.
    pub app_limited: bool,
    /// Bytes taken for lost since the newest segment was sent.
    pub lost: u64,
    /// Bytes in flight when the newest segment had been sent.
    pub in_flight: u64,
}

impl RateSample {
    /// rs.delivery_rate; `None` when no time has passed.
    pub fn rate(&self) -> Option<Rate> {
        (self.interval > Dur::ZERO).then(|| Bytes(self.delivered) / self.interval)
    }
}

/// What only the delivery rate needs.
#[derive(Clone, Debug, Default)]
pub(super) struct Rates {
    /// Of each segment in flight, in the same order.
    pub(super) marks: VecDeque<Mark>,
    /// C.delivered_time, C.first_sent_time.
    delivered_at: Time,
    first_sent_at: Time,
    /// C.app_limited: `delivered` up to which samples are application-limited, 0 = they are not.
    app_limited: u64,
    /// The newest segment that the current ACK delivers: the state when it was sent, the time of that, and the end of the segment.
    newest: Option<(Mark, Time, u64)>,
}

impl Rates {
    /// Section 3.2, SendPacket: what a segment that leaves carries; `delivered` is C.delivered, in bytes and segments.
    pub(super) fn mark(&mut self, now: Time, (delivered, count): (u64, u64), s: &Standing) -> Mark {
        if s.idle {
            (self.first_sent_at, self.delivered_at) = (now, now);
        }
        Mark {
            delivered,
            count,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            lost: s.lost,
            in_flight: s.in_flight,
            app_limited: self.app_limited != 0,
        }
    }
    /// Section 3.3, UpdateRateSample, of a segment that ends at `end`. The segment sent last counts (IsNewestPacket of
    /// draft-ietf-ccwg-bbr-04; Linux from 5.18 on), not the first of those with the largest P.delivered. Exactly the
    /// segments of `delivered` left between its sending and that of the last segment delivered before.
    pub(super) fn deliver(&mut self, now: Time, p: &Mark, sent_at: Time, end: u64) {
        self.delivered_at = now;
        let last = self.newest.map_or(0, |(_, _, end)| end);
        if (sent_at, end) > (self.first_sent_at, last) {
            self.newest = Some((*p, sent_at, end));
            self.first_sent_at = sent_at;
        }
    }
    /// Section 3.3, GenerateRateSample: what the ACK just told says about the rate. `total` is C.delivered, in bytes and
    /// segments, `rtt_min` the smallest RTT so far, `lost` what the connection has taken for lost so far.
    pub(super) fn sample(
        &mut self,
        (total, count): (u64, u64),
        rtt_min: Dur,
        lost: u64,
    ) -> Option<RateSample> {
        // The bubble has left the pipe.
        if self.app_limited != 0 && total > self.app_limited {
            self.app_limited = 0;
        }
        let (p, sent_at, _) = self.newest.take()?;
        let send_elapsed = sent_at.since(p.first_sent_at);
        let ack_elapsed = self.delivered_at.since(p.delivered_at);
        let interval = send_elapsed.max(ack_elapsed);
        // An interval shorter than any round trip can only be a retransmission taken for its original.
        if interval < rtt_min {
            return None;
        }
        Some(RateSample {
            delivered: total - p.delivered,
            segments: count - p.count,
            interval,
            send_elapsed,
            ack_elapsed,
            prior_delivered: p.delivered,
            total_delivered: total,
            app_limited: p.app_limited,
            lost: lost - p.lost,
            in_flight: p.in_flight,
        })
    }
    /// C.app_limited is set.
    pub(super) fn is_app_limited(&self) -> bool {
        self.app_limited != 0
    }
    /// Section 3.4: the application has left the pipe with `in_flight` bytes in it and room for more. Samples are
    /// application-limited until these are delivered.
    pub(super) fn on_app_limited(&mut self, total: u64, in_flight: u64) {
        self.app_limited = (total + in_flight).max(1);
    }
}
