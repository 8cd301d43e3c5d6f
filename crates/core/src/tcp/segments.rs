//! A record for every segment in flight.
//!
//! A connection keeps this log only when its window law ([`crate::WindowLaw::wants_rate`]) or its recovery
//! ([`super::Recovery::wants_segments`]) asks for it; all others pay a test per segment and a pointer. What only the delivery rate needs
//! is kept beside it ([`super::rate`]), for a law that asks for the rate.

use super::rate::{Mark, RateSample, Rates, Standing};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use penstock_units::{Dur, Time};

/// A segment in flight, as it was sent last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First byte.
    pub start: u64,
    /// One past the last byte of payload.
    pub end: u64,
    /// P.sent_time: when it was sent, the last time if more than once.
    pub sent_at: Time,
    /// Number of this transmission on the connection, from 1, modulo 2^32 and never 0: the order of what left at one instant.
    pub order: u32,
    /// It is not the first copy.
    pub retransmitted: bool,
    /// It was acknowledged selectively.
    pub sacked: bool,
}

/// What the ACK at hand has delivered, as a recovery needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// When the segment sent last among these was sent, and the number of that transmission; 0 = there is none. A retransmission does not
    /// count where the ACK may be its original's (RFC 8985 section 6.2 step 2).
    pub newest: (Time, u32),
    /// When the one counted last among these was sent, as in Linux: that with the highest number of those acknowledged in order, of those
    /// SACKed where there is none.
    pub latest: Time,
    /// Send times of the segments that this ACK is the first to acknowledge in order.
    pub in_order: SentOnce,
    /// Send times of the segments that this ACK is the first to report selectively.
    pub selective: SentOnce,
    /// It acknowledges in order something that was sent more than once, SACKed before or not (FLAG_RETRANS_DATA_ACKED of Linux).
    pub acked_again: bool,
    /// Lowest end among those that were sent once; `u64::MAX` = there is none.
    pub lowest_original: u64,
    /// Highest end.
    pub highest: u64,
    /// From the lowest to the highest byte newly SACKed, with what may lie between; empty = none.
    pub sacked: (u64, u64),
}

/// Of the segments that were sent once (Karn): when the first and the last of them left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentOnce {
    /// [`Time::NEVER`] = there is none.
    pub first: Time,
    /// [`Time::ZERO`] without one.
    pub last: Time,
}

impl SentOnce {
    const NONE: SentOnce = SentOnce { first: Time::NEVER, last: Time::ZERO };
    #[inline]
    fn add(&mut self, sent_at: Time) {
        self.first = self.first.min(sent_at);
        self.last = self.last.max(sent_at);
    }
    /// Round trips up to `now`: of the first and of the last of them.
    #[inline]
    pub fn round_trips(&self, now: Time) -> Option<(Dur, Dur)> {
        (self.first != Time::NEVER).then(|| (now.since(self.first), now.since(self.last)))
    }
}

impl Default for Delivered {
    fn default() -> Delivered {
        Delivered {
            newest: (Time::ZERO, 0),
            latest: Time::ZERO,
            in_order: SentOnce::NONE,
            selective: SentOnce::NONE,
            acked_again: false,
            lowest_original: u64::MAX,
            highest: 0,
            sacked: (u64::MAX, 0),
        }
    }
}

/// A transmission of what had been sent before.
#[derive(Clone, Copy, Debug)]
struct Again {
    start: u64,
    end: u64,
    sent_at: Time,
    order: u32,
}

/// The segments in flight in ascending order, without gaps.
#[derive(Clone, Debug, Default)]
pub struct SegmentLog {
    segments: VecDeque<Segment>,
    /// Retransmissions in the order in which they left, of which something may still be under way.
    again: VecDeque<Again>,
    /// C.delivered, and the number of segments that it was.
    delivered: u64,
    count: u64,
    /// Of the ACK being handled, where a recovery wants to know; and what tells a retransmission's ACK from its original's.
    got: Delivered,
    rtt_min: Dur,
    /// Up to where its blocks, or after them what it acknowledges in order, have been counted.
    counted: u64,
    transmissions: u32,
    /// What [`Self::newly_delivered`] has answered for.
    told: (u64, u64),
    rates: Option<Box<Rates>>,
}

impl SegmentLog {
    /// An empty log; `rates`: [`Self::sample`] will be asked for the delivery rate.
    pub(super) fn new(rates: bool) -> SegmentLog {
        SegmentLog { rates: rates.then(Box::default), ..SegmentLog::default() }
    }
    /// Segments that are not acknowledged cumulatively, lowest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Segment> + '_ {
        self.segments.iter()
    }
    /// The segments in order, from the one that has byte `seq` or lies above it.
    pub(super) fn iter_from(&self, seq: u64) -> impl Iterator<Item = &Segment> + '_ {
        self.segments.range(self.index(seq)..)
    }
    /// Nothing in flight was sent before the transmission `newest`, as long as nothing has been sent again or reported.
    #[inline]
    pub(super) fn is_later(&self, newest: (Time, u32)) -> bool {
        let first = self.segments.front();
        self.again.is_empty()
            && first.is_none_or(|s| !s.sacked && !s.retransmitted && newest <= (s.sent_at, s.order))
    }
    /// Segments that were sent before the transmission `newest`, more than once, and are not acknowledged in any way, in the order in
    /// which they left last.
    pub(super) fn sent_again_before(&self, newest: (Time, u32)) -> impl Iterator<Item = &Segment> + '_ {
        let older = self.again.iter().take_while(move |a| (a.sent_at, a.order) < newest);
        // What has left once more since, or in part, has another number.
        let of = |a: &'_ Again| {
            let (end, order) = (a.end, a.order);
            self.iter_from(a.start).take_while(move |s| s.start < end).filter(move |s| s.order == order)
        };
        older.flat_map(of).filter(|s| !s.sacked)
    }
    /// Bytes delivered so far (C.delivered).
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// `bytes` have come twice: delivered too, and what left the network.
    pub(super) fn on_duplicate(&mut self, bytes: u64) {
        self.delivered += bytes;
        self.count += 1;
    }
    /// Bytes and segments delivered since this was last asked.
    pub(super) fn newly_delivered(&mut self) -> (u64, u64) {
        let now = (self.delivered, self.count);
        let told = core::mem::replace(&mut self.told, now);
        (now.0 - told.0, now.1 - told.1)
    }
    /// What the ACK at hand has delivered.
    pub fn delivered_now(&self) -> &Delivered {
        &self.got
    }
    /// An ACK arrives; `rtt_min` is the smallest RTT so far.
    #[inline]
    pub(super) fn begin_ack(&mut self, rtt_min: Dur) {
        self.got = Delivered::default();
        self.counted = 0;
        self.rtt_min = rtt_min;
    }
    /// The receiver has given up what it had reported (RFC 2018 section 8).
    pub(super) fn forget_sacked(&mut self) {
        self.segments.iter_mut().for_each(|s| s.sacked = false);
        // Retransmissions that had been reported are under way again.
        let all = self.segments.iter().filter(|s| s.retransmitted);
        let mut again: Vec<_> =
            all.map(|s| Again { start: s.start, end: s.end, sent_at: s.sent_at, order: s.order }).collect();
        again.sort_by_key(|a| (a.sent_at, a.order));
        self.again = again.into();
    }

    /// Payload `[start, end)` leaves; `standing` where the rate is kept.
    #[inline]
    pub(super) fn on_sent(&mut self, now: Time, start: u64, end: u64, standing: Option<Standing>) {
        if start >= end {
            return; // FIN alone is no data.
        }
        let order = self.transmissions.wrapping_add(1).max(1);
        self.transmissions = order;
        let segment = Segment { start, end, sent_at: now, order, retransmitted: false, sacked: false };
        let is_new = self.segments.back().is_none_or(|s| start >= s.end);
        if is_new {
            self.segments.push_back(segment);
        }
        let Some(standing) = standing else {
            if !is_new {
                self.on_sent_again(&segment, None);
            }
            return;
        };
        let Some(rates) = &mut self.rates else { return };
        let mark = rates.mark(now, (self.delivered, self.count), &standing);
        if is_new {
            rates.marks.push_back(mark);
        } else {
            self.on_sent_again(&segment, Some(mark));
        }
    }
    /// Sent again, perhaps cut differently: what lies in `[start, end)` is as new.
    #[cold]
    fn on_sent_again(&mut self, segment: &Segment, mark: Option<Mark>) {
        let Segment { start, end, sent_at, order, .. } = *segment;
        let highest = self.segments.back().map_or(start, |s| s.end);
        let (from, below) = self.cut_out(start, end);
        for i in from..below {
            let old = &mut self.segments[i];
            if old.sacked {
                continue;
            }
            *old = Segment { start: old.start, end: old.end, retransmitted: true, ..*segment };
            if let (Some(rates), Some(mark)) = (&mut self.rates, mark) {
                rates.marks[i] = mark;
            }
        }
        if end > highest {
            self.segments.push_back(Segment { start: highest, ..*segment });
            if let (Some(rates), Some(mark)) = (&mut self.rates, mark) {
                rates.marks.push_back(mark);
            }
        }
        self.drop_settled();
        self.again.push_back(Again { start, end: end.min(highest), sent_at, order });
    }
    /// Drops retransmissions from the front of the list of which nothing is under way any more.
    fn drop_settled(&mut self) {
        while let Some(a) = self.again.front() {
            let (end, order) = (a.end, a.order);
            let open = |s: &Segment| s.order == order && !s.sacked;
            if self.iter_from(a.start).take_while(|s| s.start < end).any(open) {
                return;
            }
            self.again.pop_front();
        }
    }
    /// The number of the first segment that ends above `seq`.
    #[inline]
    fn index(&self, seq: u64) -> usize {
        let Some(first) = self.segments.front().filter(|s| seq >= s.end) else { return 0 };
        // Mostly all are as long as the first.
        let guess = ((seq - first.start) / (first.end - first.start)) as usize;
        if self.segments.get(guess).is_some_and(|s| s.start <= seq && seq < s.end) {
            return guess;
        }
        self.segments.partition_point(|s| s.end <= seq)
    }
    /// Splits the segments that the ends of `[start, end)` lie inside of; the numbers of those that lie in it then.
    fn cut_out(&mut self, start: u64, end: u64) -> (usize, usize) {
        let mut from = self.index(start);
        if self.segments.get(from).is_some_and(|s| s.start < start) {
            self.cut(from, start);
            from += 1;
        }
        let mut below = from;
        while let Some(s) = self.segments.get(below).filter(|s| s.start < end) {
            if s.end > end {
                self.cut(below, end);
            }
            below += 1;
        }
        (from, below)
    }
    /// Splits segment `i` at `seq`, which lies inside of it.
    fn cut(&mut self, i: usize, seq: u64) {
        let s = &mut self.segments[i];
        let upper = Segment { start: seq, ..*s };
        s.end = seq;
        self.segments.insert(i + 1, upper);
        if let Some(rates) = &mut self.rates {
            let mark = rates.marks[i];
            rates.marks.insert(i + 1, mark);
        }
    }

    /// `[start, end)` is newly acknowledged selectively.
    pub(super) fn on_sacked(&mut self, now: Time, start: u64, end: u64) {
        let (from, below) = self.cut_out(start, end);
        for i in from..below {
            let s = &mut self.segments[i];
            if !core::mem::replace(&mut s.sacked, true) {
                let delivered = *s;
                let hull = &mut self.got.sacked;
                *hull = (hull.0.min(delivered.start), hull.1.max(delivered.end));
                if !delivered.retransmitted {
                    self.got.selective.add(delivered.sent_at);
                }
                self.deliver(now, &delivered);
                if let Some(rates) = &mut self.rates {
                    let mark = rates.marks[i];
                    rates.deliver(now, &mark, delivered.sent_at, delivered.end);
                }
            }
        }
    }
    /// Everything below `ack` is acknowledged.
    #[inline]
    pub(super) fn on_acked(&mut self, now: Time, ack: u64) {
        self.counted = 0;
        while let Some(s) = self.segments.front().copied().filter(|s| s.start < ack) {
            if s.end > ack {
                // Only the last one can be cut.
                self.cut(0, ack);
                continue;
            }
            self.segments.pop_front();
            let mark = self.rates.as_mut().and_then(|rates| rates.marks.pop_front());
            self.got.acked_again |= s.retransmitted;
            if !s.sacked {
                if !s.retransmitted {
                    self.got.in_order.add(s.sent_at);
                }
                self.deliver(now, &s);
                if let (Some(rates), Some(mark)) = (&mut self.rates, mark) {
                    rates.deliver(now, &mark, s.sent_at, s.end);
                }
            }
        }
        while self.again.front().is_some_and(|a| a.end <= ack) {
            self.again.pop_front();
        }
    }
    /// Segment `p` has been delivered. What an ACK delivers is told in ascending order, SACK blocks before the cumulative part.
    #[inline]
    fn deliver(&mut self, now: Time, p: &Segment) {
        self.delivered += p.end - p.start;
        self.count += 1;
        let got = &mut self.got;
        got.highest = got.highest.max(p.end);
        if p.retransmitted {
            // tcp_rack_advance. RFC 8985 also asks for an echo no older than the retransmission, which the SACK of a probe never has
            // behind a gap: it echoes the last segment in order (RFC 7323 section 4.3).
            if now.since(p.sent_at) < self.rtt_min {
                return;
            }
        } else {
            got.lowest_original = got.lowest_original.min(p.end);
        }
        got.newest = got.newest.max((p.sent_at, p.order));
        // Blocks come in the order in which they were reported, Linux sorts them.
        got.latest = core::hint::select_unpredictable(p.end >= self.counted, p.sent_at, got.latest);
        self.counted = self.counted.max(p.end);
    }
    /// What the ACK just told says about the rate: [`Rates::sample`].
    pub(super) fn sample(&mut self, rtt_min: Dur, lost: u64) -> Option<RateSample> {
        self.rates.as_mut()?.sample((self.delivered, self.count), rtt_min, lost)
    }
    /// The application has left a gap that has not left the network yet (C.app_limited).
    pub(super) fn is_app_limited(&self) -> bool {
        self.rates.as_ref().is_some_and(|rates| rates.is_app_limited())
    }
    /// The application has left the pipe with `in_flight` bytes in it and room for more: [`Rates::on_app_limited`].
    pub(super) fn on_app_limited(&mut self, in_flight: u64) {
        if let Some(rates) = &mut self.rates {
            rates.on_app_limited(self.delivered, in_flight);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use penstock_units::Bytes;

    const SEGMENT: u64 = 1000;
    const RTT: Dur = Dur::micros(100);

    fn us(n: u64) -> Time {
        Time::ZERO + Dur::micros(n)
    }
    /// A log whose peer is the test: segments by number, times in microseconds.
    struct Rig {
        log: SegmentLog,
        una: u64,
        sent: u64,
        lost: u64,
    }
    impl Default for Rig {
        fn default() -> Rig {
            Rig { log: SegmentLog::new(true), una: 0, sent: 0, lost: 0 }
        }
    }
    impl Rig {
        fn send(&mut self, at: u64, segments: core::ops::Range<u64>) {
            for n in segments {
                let idle = self.una == self.sent;
                let (start, end) = (n * SEGMENT, (n + 1) * SEGMENT);
                self.sent = self.sent.max(end);
                let standing = Standing { idle, in_flight: self.sent - self.una, lost: self.lost };
                self.log.on_sent(us(at), start, end, Some(standing));
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

    /// The bottleneck takes one segment each 10 us (800 Mb/s), the RTT is 100 us, and each ACK releases one segment.
    /// From the third flight on every sample spans one round trip with 10 segments. The second flight counts from the
    /// burst of the first: its k-th segment left 100 + 10 k us after it.
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

    /// One ACK releases two segments 10 us apart, and one ACK acknowledges both. Three delivered segments left in the
    /// 110 us from the sending of the last one delivered before to that of the second. Counted to the first, it would
    /// be 100 us.
    #[test]
    fn of_two_segments_acknowledged_together_the_later_one_counts() {
        let mut r = Rig::default();
        r.send(0, 0..3);
        r.ack(100, 2);
        r.send(100, 3..4);
        r.send(110, 4..5);
        r.ack(150, 3);
        let s = r.ack(200, 5).unwrap();
        assert_eq!((s.delivered, s.ack_elapsed), (3 * SEGMENT, Dur::micros(100)));
        assert_eq!((s.send_elapsed, s.interval), (Dur::micros(110), Dur::micros(110)));
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
        let mut log = SegmentLog::new(true);
        for (at, start, end, in_flight) in [(0, 0, 3000, 3000), (0, 3000, 6000, 6000), (50, 1000, 4000, 6000)]
        {
            let standing = Standing { idle: at + start == 0, in_flight, lost: 0 };
            log.on_sent(us(at), start, end, Some(standing));
        }
        let cut: alloc::vec::Vec<_> = log.iter().map(|s| (s.start, s.end, s.retransmitted)).collect();
        assert_eq!(cut, [(0, 1000, false), (1000, 3000, true), (3000, 4000, true), (4000, 6000, false)]);
        // Half of one is acknowledged, half of another SACKed: bytes count once, whatever the cuts.
        log.on_acked(us(100), 500);
        log.on_sacked(us(100), 4500, 6000);
        assert_eq!(log.delivered(), 2000);
        log.on_acked(us(110), 6000);
        assert_eq!((log.delivered(), log.iter().count()), (6000, 0));
    }

    /// What was sent more than once is found in the order in which it left last, up to a transmission, and is forgotten when it has
    /// arrived or has left once more.
    #[test]
    fn retransmissions_are_found_in_the_order_they_left() {
        let mut r = Rig::default();
        let found = |r: &Rig, at, order| {
            let all = r.log.sent_again_before((us(at), order));
            all.map(|s| s.start / SEGMENT).collect::<alloc::vec::Vec<_>>()
        };
        r.send(0, 0..6);
        r.send(10, 4..5);
        r.send(20, 1..2);
        r.send(30, 3..4);
        assert_eq!(found(&r, 100, 0), [4, 1, 3]);
        // Transmissions 7 to 9; of those at one instant the number decides.
        assert_eq!((found(&r, 20, 8), found(&r, 20, 9)), (vec![4], vec![4, 1]));
        r.send(40, 4..5);
        assert_eq!(found(&r, 100, 0), [1, 3, 4]);
        r.sack(50, 3);
        assert_eq!(found(&r, 100, 0), [1, 4]);
        r.ack(60, 3);
        assert_eq!(found(&r, 100, 0), [4]);
        // The receiver gives up what it had: segment 3 may be under way.
        r.log.forget_sacked();
        assert_eq!(found(&r, 100, 0), [3, 4]);
        r.ack(70, 6);
        assert!(r.log.again.is_empty());
    }
    /// Of blocks the highest, in whatever order they are reported; after them what is acknowledged in order and was not reported before.
    #[test]
    fn what_is_acknowledged_in_order_is_counted_last() {
        let mut r = Rig::default();
        (0..9).for_each(|n| r.send(10 * n, n..n + 1));
        let found = |r: &Rig| {
            let got = r.log.delivered_now();
            (got.latest, got.newest.0)
        };
        r.log.begin_ack(RTT);
        r.sack(100, 7);
        r.sack(100, 4);
        assert_eq!(found(&r), (us(70), us(70)));
        r.log.begin_ack(RTT);
        r.sack(110, 8);
        r.ack(110, 2);
        assert_eq!(found(&r), (us(10), us(80)));
        r.log.begin_ack(RTT);
        r.ack(120, 5);
        assert_eq!(found(&r), (us(30), us(30)));
    }
}
