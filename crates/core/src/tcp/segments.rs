//! A record for every segment in flight, and the delivery rate that follows from it
//! (draft-cheng-iccrg-delivery-rate-estimation-02).
//!
//! A connection keeps this log only when its window law ([`crate::WindowLaw::wants_rate`]) or its recovery
//! ([`super::Recovery::wants_segments`]) asks for it; all others pay a test per segment and a pointer.
//!
//! Names are the draft's: `C` is [`SegmentLog`], `P` is [`Segment`], `rs` is [`RateSample`]. Data is counted in bytes of
//! payload.

use alloc::collections::VecDeque;
use penstock_units::{Bytes, Dur, Rate, Time};

/// A segment in flight, as it was sent last. Fields `sent_at` to `app_limited` are those of section 3.1.2 of the draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First byte.
    pub start: u64,
    /// One past the last byte of payload.
    pub end: u64,
    /// P.sent_time: when it was sent, the last time if more than once.
    pub sent_at: Time,
    /// P.delivered: bytes delivered on the connection when it was sent.
    pub delivered: u64,
    /// P.delivered_time: when the latest of these was delivered.
    pub delivered_at: Time,
    /// P.first_sent_time: when the first segment of the flight that was out then was sent.
    pub first_sent_at: Time,
    /// P.is_app_limited: it was sent in an application-limited phase.
    pub app_limited: bool,
    /// Bytes that had been taken for lost on the connection when it was sent.
    pub lost: u64,
    /// Bytes in flight when it had been sent, itself included.
    pub in_flight: u64,
    /// Number of this transmission on the connection, modulo 2^32: the order of what left at one instant.
    pub order: u32,
    /// It is not the first copy.
    pub retransmitted: bool,
    /// It was acknowledged selectively.
    pub sacked: bool,
}

/// The delivery rate over the time that the newest segment acknowledged by an ACK was in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSample {
    /// rs.delivered: bytes delivered in `interval`.
    pub delivered: u64,
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

/// What the ACK at hand has delivered, as a recovery needs it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// When the segment sent last among these was sent, and the number of that transmission. A retransmission does not count where the ACK may be its
    /// original's (RFC 8985 section 6.2 step 2).
    pub newest: Option<(Time, u32)>,
    /// Of those that were sent once (Karn), when the one sent first was sent, and the one sent last.
    pub once: Option<(Time, Time)>,
    /// Lowest end among those that were sent once.
    pub lowest_original: Option<u64>,
    /// Highest end.
    pub highest: u64,
}

/// The segments in flight in ascending order, without gaps.
#[derive(Clone, Debug, Default)]
pub struct SegmentLog {
    segments: VecDeque<Segment>,
    /// C.delivered, C.delivered_time, C.first_sent_time.
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    /// C.app_limited: `delivered` up to which samples are application-limited, 0 = they are not.
    app_limited: u64,
    /// Of the ACK being handled: the newest segment it has delivered, as it was when sent.
    newest: Option<Segment>,
    /// Of the same ACK, where a recovery wants to know; and what tells a retransmission's ACK from its original's.
    got: Delivered,
    echo: Option<Time>,
    rtt_min: Dur,
    transmissions: u32,
    /// What [`Self::newly_delivered`] has answered for.
    told: u64,
}

impl SegmentLog {
    /// Segments that are not acknowledged cumulatively, lowest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Segment> + '_ {
        self.segments.iter()
    }
    /// Bytes delivered so far (C.delivered).
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// `bytes` have come twice: delivered too, and what left the network.
    pub(super) fn on_duplicate(&mut self, bytes: u64) {
        self.delivered += bytes;
    }
    /// Bytes delivered since this was last asked.
    pub(super) fn newly_delivered(&mut self) -> u64 {
        self.delivered - core::mem::replace(&mut self.told, self.delivered)
    }
    /// What the ACK at hand has delivered.
    pub fn delivered_now(&self) -> &Delivered {
        &self.got
    }
    /// An ACK that echoes `echo` arrives; `rtt_min` is the smallest RTT so far.
    pub(super) fn begin_ack(&mut self, echo: Option<Time>, rtt_min: Dur) {
        self.got = Delivered::default();
        (self.echo, self.rtt_min) = (echo, rtt_min);
    }
    /// The receiver has given up what it had reported (RFC 2018 section 8).
    pub(super) fn forget_sacked(&mut self) {
        self.segments.iter_mut().for_each(|s| s.sacked = false);
    }

    /// Section 3.2, SendPacket: payload `[start, end)` leaves; `idle`: nothing was outstanding before. `in_flight` counts
    /// it, `lost` is what the connection has taken for lost so far.
    pub(super) fn on_sent(&mut self, now: Time, start: u64, end: u64, idle: bool, in_flight: u64, lost: u64) {
        if start >= end {
            return; // FIN alone is no data.
        }
        if idle {
            (self.first_sent_at, self.delivered_at) = (now, now);
        }
        self.transmissions = self.transmissions.wrapping_add(1);
        let segment = Segment {
            start,
            end,
            sent_at: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            app_limited: self.app_limited != 0,
            lost,
            in_flight,
            order: self.transmissions,
            retransmitted: false,
            sacked: false,
        };
        let highest = self.segments.back().map_or(start, |s| s.end);
        if start >= highest {
            self.segments.push_back(segment);
            return;
        }
        // Sent again, perhaps cut differently: what lies in `[start, end)` is as new.
        self.cut(start);
        self.cut(end);
        let from = self.segments.partition_point(|s| s.start < start);
        let below = self.segments.partition_point(|s| s.end <= end);
        for old in self.segments.range_mut(from..below.max(from)).filter(|s| !s.sacked) {
            *old = Segment { start: old.start, end: old.end, retransmitted: true, ..segment };
        }
        if end > highest {
            self.segments.push_back(Segment { start: highest, ..segment });
        }
    }
    /// Splits the segment that `seq` lies inside of.
    fn cut(&mut self, seq: u64) {
        let i = self.segments.partition_point(|s| s.end <= seq);
        if let Some(s) = self.segments.get_mut(i).filter(|s| s.start < seq) {
            let upper = Segment { start: seq, ..*s };
            s.end = seq;
            self.segments.insert(i + 1, upper);
        }
    }

    /// `[start, end)` is newly acknowledged selectively.
    pub(super) fn on_sacked(&mut self, now: Time, start: u64, end: u64) {
        self.cut(start);
        self.cut(end);
        let from = self.segments.partition_point(|s| s.start < start);
        for i in from..self.segments.len() {
            let s = &mut self.segments[i];
            if s.end > end {
                break;
            }
            if !core::mem::replace(&mut s.sacked, true) {
                let delivered = *s;
                self.deliver(now, delivered);
            }
        }
    }
    /// Everything below `ack` is acknowledged.
    pub(super) fn on_acked(&mut self, now: Time, ack: u64) {
        while let Some(s) = self.segments.front().copied().filter(|s| s.start < ack) {
            if s.end > ack {
                // Only the last one can be cut.
                self.cut(ack);
                continue;
            }
            self.segments.pop_front();
            if !s.sacked {
                self.deliver(now, s);
            }
        }
    }
    /// Section 3.3, UpdateRateSample. Of segments with the same P.delivered the first counts, as in the draft; what an ACK
    /// delivers is told in ascending order, SACK blocks before the cumulative part.
    fn deliver(&mut self, now: Time, p: Segment) {
        self.delivered += p.end - p.start;
        self.delivered_at = now;
        let got = &mut self.got;
        got.highest = got.highest.max(p.end);
        let ambiguous = p.retransmitted
            && (self.echo.is_some_and(|echo| echo < p.sent_at) || now.since(p.sent_at) < self.rtt_min);
        if !ambiguous {
            got.newest = got.newest.max(Some((p.sent_at, p.order)));
        }
        if !p.retransmitted {
            let (first, last) = got.once.unwrap_or((p.sent_at, p.sent_at));
            got.once = Some((first.min(p.sent_at), last.max(p.sent_at)));
            got.lowest_original = Some(got.lowest_original.map_or(p.end, |end| end.min(p.end)));
        }
        if self.newest.is_none_or(|newest| p.delivered > newest.delivered) {
            self.newest = Some(p);
            self.first_sent_at = p.sent_at;
        }
    }
    /// Section 3.3, GenerateRateSample: what the ACK just told says about the rate. `rtt_min` is the smallest RTT so far,
    /// `lost` what the connection has taken for lost so far.
    pub(super) fn sample(&mut self, rtt_min: Dur, lost: u64) -> Option<RateSample> {
        // The bubble has left the pipe.
        if self.app_limited != 0 && self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        let p = self.newest.take()?;
        let send_elapsed = p.sent_at.since(p.first_sent_at);
        let ack_elapsed = self.delivered_at.since(p.delivered_at);
        let interval = send_elapsed.max(ack_elapsed);
        // An interval shorter than any round trip can only be a retransmission taken for its original.
        if interval < rtt_min {
            return None;
        }
        Some(RateSample {
            delivered: self.delivered - p.delivered,
            interval,
            send_elapsed,
            ack_elapsed,
            prior_delivered: p.delivered,
            total_delivered: self.delivered,
            app_limited: p.app_limited,
            lost: lost - p.lost,
            in_flight: p.in_flight,
        })
    }
    /// Section 3.4: the application has left the pipe with `in_flight` bytes in it and room for more. Samples are
    /// application-limited until these are delivered.
    pub(super) fn on_app_limited(&mut self, in_flight: u64) {
        self.app_limited = (self.delivered + in_flight).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u64 = 1000;
    const RTT: Dur = Dur::micros(100);

    fn us(n: u64) -> Time {
        Time::ZERO + Dur::micros(n)
    }
    /// A log whose peer is the test: segments by number, times in microseconds.
    #[derive(Default)]
    struct Rig {
        log: SegmentLog,
        una: u64,
        sent: u64,
        lost: u64,
    }
    impl Rig {
        fn send(&mut self, at: u64, segments: core::ops::Range<u64>) {
            for n in segments {
                let idle = self.una == self.sent;
                let (start, end) = (n * SEGMENT, (n + 1) * SEGMENT);
                self.sent = self.sent.max(end);
                self.log.on_sent(us(at), start, end, idle, self.sent - self.una, self.lost);
            }
        }
        fn ack(&mut self, at: u64, below: u64) -> Option<RateSample> {
            self.una = below * SEGMENT;
            self.log.on_acked(us(at), self.una);
            self.log.sample(RTT, self.lost)
        }
        fn sack(&mut self, at: u64, n: u64) -> Option<RateSample> {
            self.log.on_sacked(us(at), n * SEGMENT, (n + 1) * SEGMENT);
            self.log.sample(RTT, self.lost)
        }
    }
    fn mbps(s: &RateSample) -> u64 {
        s.rate().expect("time has passed").0 / 1_000_000
    }

    /// A bottleneck of one segment each 10 us (800 Mb/s), RTT 100 us, one ACK per segment that lets one segment out: from
    /// the third flight on every sample spans one round trip, with 10 segments in it. The second flight is counted from the
    /// sending of the first, which was a burst: its k-th segment left 100 + 10 k us after it.
    #[test]
    fn a_steady_stream_measures_the_bottleneck() {
        let mut r = Rig::default();
        r.send(0, 0..10); // The initial window leaves at once.
        let mut rates = alloc::vec![];
        for n in 0..40 {
            let now = 100 + 10 * n;
            let s = r.ack(now, n + 1).expect("an interval of a round trip or more");
            if n < 10 {
                // First flight: C.delivered was 0 when it left, ack_elapsed counts from its start: n+1 segments in now.
                assert_eq!((s.delivered, s.interval), ((n + 1) * SEGMENT, Dur::micros(now)), "ACK {n}");
            } else {
                // P.delivered_time is the ACK that let it out, 100 us and 10 segments ago.
                assert_eq!((s.delivered, s.ack_elapsed), (10 * SEGMENT, Dur::micros(100)), "ACK {n}");
                rates.push(mbps(&s));
            }
            assert_eq!((s.total_delivered, s.app_limited, s.lost), ((n + 1) * SEGMENT, false, 0));
            r.send(now, n + 10..n + 11);
        }
        assert_eq!(rates[..10], [800, 727, 666, 615, 571, 533, 500, 470, 444, 421]);
        assert_eq!(rates[10..], [800; 20]);
    }

    /// Section 2.2.3: ACKs held back and let go together. Ten segments sent over 90 us in the second round are acknowledged
    /// within 9 us: by the ACK clock alone that is more than the path has; the send clock bounds it.
    #[test]
    fn acknowledgements_that_arrive_compressed_do_not_raise_the_rate() {
        let mut r = Rig::default();
        r.send(0, 0..10);
        for n in 0..10 {
            r.ack(100 + 10 * n, n + 1);
            r.send(100 + 10 * n, n + 10..n + 11);
        }
        // The ACK of segment 10 arrives at 290 instead of 200, that of 19 at 299.
        let first = r.ack(290, 11).unwrap();
        assert_eq!((first.delivered, first.ack_elapsed), (10 * SEGMENT, Dur::micros(190)));
        for n in 11..19 {
            r.ack(280 + n, n + 1);
        }
        let s = r.ack(299, 20).unwrap();
        // Segment 19 left at 190, when 10 segments had been delivered, the last just then: ack_elapsed 299 - 190 = 109.
        // Segment 18, the newest delivered before it left its mark on C.first_sent_time; at 190 that was segment 9's: 0.
        assert_eq!(
            (s.delivered, s.ack_elapsed, s.send_elapsed),
            (10 * SEGMENT, Dur::micros(109), Dur::micros(190))
        );
        assert_eq!(s.interval, Dur::micros(190));
        assert_eq!(mbps(&s), 421);
        // Without the send clock it would have been 733 Mb/s, and more for every us of compression.
        assert_eq!((Bytes(s.delivered) / s.ack_elapsed).0 / 1_000_000, 733);
    }

    /// Section 3.4: two segments, a pause, two more. Everything sent while the bubble is in the pipe is marked.
    #[test]
    fn an_application_limited_bubble_is_marked_until_it_has_left() {
        let mut r = Rig::default();
        r.send(0, 0..2);
        // The application is out of data with 2 segments in flight: C.app_limited = 0 + 2000.
        r.log.on_app_limited(2 * SEGMENT);
        r.send(50, 2..4);
        // Segment 0 and 1 were sent before the phase was noticed, 2 and 3 in it.
        assert!(!r.ack(100, 1).unwrap().app_limited);
        assert!(!r.ack(110, 2).unwrap().app_limited);
        r.send(110, 4..5);
        let s = r.ack(150, 3).unwrap();
        assert!(s.app_limited);
        // 3000 bytes delivered > 2000: the bubble has left; what is sent now counts in full, segment 4 does not.
        r.send(150, 5..6);
        assert!(r.ack(160, 4).unwrap().app_limited);
        assert!(r.ack(210, 5).unwrap().app_limited);
        assert!(!r.ack(250, 6).unwrap().app_limited);
    }

    /// A retransmission carries the marks of its own sending, so that the time its first copy was lost in is not counted
    /// as delivery time; the segments SACKed meanwhile are counted once.
    #[test]
    fn a_retransmission_is_measured_from_its_own_sending() {
        let mut r = Rig::default();
        r.send(0, 0..4);
        // Segment 0 is lost; 1 to 3 are SACKed at 100, 110, 120: three of them delivered.
        for (k, n) in (1..4).enumerate() {
            let s = r.sack(100 + 10 * k as u64, n).unwrap();
            assert_eq!(
                (s.delivered, s.total_delivered),
                ((k as u64 + 1) * SEGMENT, (k as u64 + 1) * SEGMENT)
            );
        }
        r.lost = SEGMENT;
        r.send(120, 0..1);
        assert!(r.log.iter().next().unwrap().retransmitted);
        // Acknowledged at 220: since 120, when 3000 bytes had been delivered, 1000 more in 100 us.
        let s = r.ack(220, 4).unwrap();
        assert_eq!((s.delivered, s.prior_delivered, s.interval), (SEGMENT, 3 * SEGMENT, Dur::micros(120)));
        // send_elapsed: 120 - 0, segment 1 (sent at 0) being the newest delivered then.
        assert_eq!((s.send_elapsed, s.ack_elapsed, s.lost), (Dur::micros(120), Dur::micros(100), 0));
        assert_eq!(s.total_delivered, 4 * SEGMENT);
        assert_eq!(r.log.iter().count(), 0);
    }

    /// Section 3.3: the ACK of the original, taken for that of a retransmission sent 20 us ago, would give an interval no
    /// packet can have made: no sample.
    #[test]
    fn an_interval_shorter_than_a_round_trip_is_no_sample() {
        let mut r = Rig::default();
        r.send(0, 0..1);
        r.send(90, 0..1);
        // first_sent_at is 0 and delivered_at is 0: both clocks speak of 110 us, a valid sample.
        assert_eq!(r.ack(110, 1).unwrap().interval, Dur::micros(110));
        // Now with an ACK just before: delivered_at is 200, first_sent_at 110.
        r.send(110, 1..3);
        r.ack(215, 2).unwrap();
        r.send(216, 2..3);
        let s = r.ack(220, 3);
        assert_eq!(s.map(|s| (s.interval, s.send_elapsed)), Some((Dur::micros(106), Dur::micros(106))));
        r.send(230, 3..4);
        r.send(240, 3..4);
        assert_eq!(r.ack(260, 4), None, "30 us since the flight began");
    }

    #[test]
    fn a_segment_sent_again_in_other_pieces_is_cut() {
        let mut log = SegmentLog::default();
        log.on_sent(us(0), 0, 3000, true, 3000, 0);
        log.on_sent(us(0), 3000, 6000, false, 6000, 0);
        log.on_sent(us(50), 1000, 4000, false, 6000, 0);
        let cut: alloc::vec::Vec<_> = log.iter().map(|s| (s.start, s.end, s.retransmitted)).collect();
        assert_eq!(cut, [(0, 1000, false), (1000, 3000, true), (3000, 4000, true), (4000, 6000, false)]);
        // Half of one is acknowledged, half of another SACKed: bytes count once, whatever the cuts.
        log.on_acked(us(100), 500);
        log.on_sacked(us(100), 4500, 6000);
        assert_eq!(log.delivered(), 2000);
        log.on_acked(us(110), 6000);
        assert_eq!((log.delivered(), log.iter().count()), (6000, 0));
    }
}
