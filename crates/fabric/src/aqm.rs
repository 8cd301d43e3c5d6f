//! Disciplines that decide when a packet's transmission begins: CoDel, and marking by the queue left behind.

use alloc::boxed::Box;
use penstock_core::{Backlog, DropCause, Packet, QueueDiscipline, Stream, Verdict};
use penstock_units::{Dur, Time};

use crate::rule::Rule;

/// CoDel (RFC 8289): drops, or marks, while the smallest sojourn time of an interval stays above the target.
///
/// The state machine is that of RFC 8289 section 5 (`deque`, `dodequeue`, `control_law`), asked packet by packet. A packet that is
/// marked is sent. The RFC leaves marking open. After a drop it looks at the next packet at the same instant, and here a mark is followed by
/// the same look when the next packet is sent.
#[derive(Clone, Debug)]
pub struct CoDel {
    target: Dur,
    interval: Dur,
    /// Bytes that never count as a standing queue: one full packet.
    max_packet: u32,
    ecn: bool,
    /// When the sojourn time will have been above the target for an interval; zero: it is not above.
    first_above: u64,
    drop_next: u64,
    count: u32,
    last_count: u32,
    dropping: bool,
    after: After,
}

/// What a drop leaves to be done when the next packet is seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum After {
    Nothing,
    /// The drop that began the dropping state: the next packet is sent.
    Entry,
    /// A drop in the dropping state: the next packet ends it or sets the time of the next drop.
    Drop,
}

impl CoDel {
    /// With `target` and `interval` (RFC 8289 section 4.2 and 4.3: 5 ms and 100 ms on the Internet), for packets of up to `max_packet`
    /// bytes; `ecn` marks instead of dropping.
    pub fn new(target: Dur, interval: Dur, max_packet: u32, ecn: bool) -> CoDel {
        CoDel {
            target,
            interval,
            max_packet,
            ecn,
            first_above: 0,
            drop_next: 0,
            count: 0,
            last_count: 0,
            dropping: false,
            after: After::Nothing,
        }
    }
    /// As a port's rule.
    pub fn rule(self) -> Rule {
        Rule::AtDequeue(Box::new(self))
    }
    /// `t + interval / sqrt(count)` (RFC 8289 section 5.3).
    fn control_law(&self, t: u64) -> u64 {
        t + (self.interval.0 as f64 / libm::sqrt(f64::from(self.count))) as u64
    }
    /// `dodequeue`: whether the sojourn time has been above the target for an interval.
    fn above(&mut self, now: u64, sojourn: Dur, left: &Backlog) -> bool {
        if sojourn < self.target || left.bytes <= u64::from(self.max_packet) {
            self.first_above = 0;
            false
        } else if self.first_above == 0 {
            self.first_above = now + self.interval.0;
            false
        } else {
            now >= self.first_above
        }
    }
    /// `deque`, for one packet: whether it is dropped or marked.
    fn step(&mut self, now: u64, sojourn: Dur, left: &Backlog) -> bool {
        let above = self.above(now, sojourn, left);
        match core::mem::replace(&mut self.after, After::Nothing) {
            After::Entry => return false,
            After::Drop if !above => {
                self.dropping = false;
                return false;
            }
            After::Drop => self.drop_next = self.control_law(self.drop_next),
            After::Nothing => {}
        }
        if self.dropping {
            self.dropping = above;
            if above && now >= self.drop_next {
                self.count += 1;
                self.after = After::Drop;
                return true;
            }
            return false;
        }
        if above {
            self.dropping = true;
            let delta = self.count - self.last_count;
            let recent = now.saturating_sub(self.drop_next) < 16 * self.interval.0;
            self.count = if delta > 1 && recent { delta } else { 1 };
            self.drop_next = self.control_law(now);
            self.last_count = self.count;
            self.after = After::Entry;
            return true;
        }
        false
    }
}

impl QueueDiscipline for CoDel {
    fn admit(&mut self, _: Time, _: &Backlog, _: &Packet, _: bool, _: &mut Stream) -> Verdict {
        Verdict::Accept
    }
    fn on_dequeue(&mut self, now: Time, sojourn: Dur, left: &Backlog, _: &mut Stream) -> Verdict {
        match (self.step(now.0, sojourn, left), self.ecn) {
            (false, _) => Verdict::Accept,
            (true, true) => Verdict::Mark,
            (true, false) => Verdict::Drop(DropCause::Early),
        }
    }
    fn wants_dequeue(&self) -> bool {
        true
    }
}

/// Marks by the bytes a packet leaves behind when its transmission begins: never up to `min`, always above `max`, in between with
/// a probability that rises to `max_p`. Source: DCQCN's switch, Zhu et al., SIGCOMM 2015, section 3.1; decided at dequeue as in HPCC's ns-3.
/// `min = max` is a plain threshold.
#[derive(Clone, Debug)]
pub struct DequeueMark {
    /// Bytes up to which nothing is marked.
    pub min: u64,
    /// Bytes above which everything is marked.
    pub max: u64,
    /// Probability just below `max`.
    pub max_p: f64,
}

impl DequeueMark {
    /// As a port's rule.
    pub fn rule(self) -> Rule {
        Rule::AtDequeue(Box::new(self))
    }
}

impl QueueDiscipline for DequeueMark {
    fn admit(&mut self, _: Time, _: &Backlog, _: &Packet, _: bool, _: &mut Stream) -> Verdict {
        Verdict::Accept
    }
    fn on_dequeue(&mut self, _: Time, _: Dur, left: &Backlog, rng: &mut Stream) -> Verdict {
        let mark = if left.bytes > self.max {
            true
        } else if left.bytes > self.min {
            let slope = (left.bytes - self.min) as f64 / (self.max - self.min) as f64;
            rng.uniform() < self.max_p * slope
        } else {
            false
        };
        if mark {
            Verdict::Mark
        } else {
            Verdict::Accept
        }
    }
    fn wants_dequeue(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use penstock_units::Rate;

    fn left(bytes: u64) -> Backlog {
        Backlog { packets: 9, bytes, serving: 0, idle_since: Time::ZERO, rate: Rate(8_000_000) }
    }
    /// Times in ms at which a packet a ms, all above the target, is dropped.
    fn drops(codel: &mut CoDel, ms: core::ops::Range<u64>) -> Vec<u64> {
        let step = |c: &mut CoDel, t: u64| c.step(t * 1_000_000_000, Dur::millis(20), &left(50_000));
        // After a drop the next packet is asked about at the same instant.
        ms.filter(|t| (0..).take_while(|_| step(codel, *t)).count() > 0).collect()
    }

    #[test]
    fn codel_drops_at_the_times_of_its_control_law() {
        // Above the target from 1 ms on: first drop an interval later at 101, then 100, 100/sqrt(2), 100/sqrt(3) and 100/2 ms
        // apart: 201, 271.7, 329.4, 379.4; a packet comes every ms, so the next whole ms, and the last is out of range.
        let mut codel = CoDel::new(Dur::millis(5), Dur::millis(100), 1500, false);
        assert_eq!(drops(&mut codel, 1..380), [101, 201, 272, 330]);
        // One packet below the target ends it; a new episode within 16 intervals goes on from the rate reached:
        // count was 4 (drops 2..=4 after the entry at 1 give delta 3), so the next gap is 100/sqrt(3) = 57.7 ms.
        assert!(!codel.step(380_000_000_000, Dur::millis(1), &left(50_000)));
        assert!(!codel.dropping);
        assert_eq!((codel.count, codel.last_count), (4, 1));
        let again = drops(&mut codel, 381..550);
        assert_eq!(again, [481, 539]);
    }
    #[test]
    fn codel_leaves_a_last_packet_and_short_queues_alone() {
        let mut codel = CoDel::new(Dur::millis(5), Dur::millis(100), 1500, false);
        for t in 1..1000 {
            assert!(!codel.step(t * 1_000_000_000, Dur::millis(50), &left(1500)), "one packet is left");
            assert!(!codel.step(t * 1_000_000_000, Dur::millis(4), &left(90_000)), "below the target");
        }
    }
    #[test]
    fn marking_at_dequeue_compares_what_is_left_behind() {
        let mut rng = Stream::new(1, 0, penstock_core::rng::Entity::Port, 0);
        let mut rule = DequeueMark { min: 1000, max: 1000, max_p: 1.0 };
        let mut at = |bytes| rule.on_dequeue(Time::ZERO, Dur::ZERO, &left(bytes), &mut rng);
        assert_eq!([at(1000), at(1001)], [Verdict::Accept, Verdict::Mark]);
        let mut rule = DequeueMark { min: 1000, max: 3000, max_p: 0.2 };
        let n = 100_000;
        let hits =
            (0..n).filter(|_| rule.on_dequeue(Time::ZERO, Dur::ZERO, &left(2000), &mut rng) == Verdict::Mark);
        // Half way: 0.1; binomial standard deviation 95.
        let hits = hits.count();
        assert!((9_600..10_400).contains(&hits), "{hits} of {n}");
    }
}
