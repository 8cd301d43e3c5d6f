//! The retransmit thread: now and then, an outstanding segment is sent a second time, so that loss of a whole
//! window is noticed without a timeout (Kulkarni and Agrawal 2014, section 4.2, algorithms 1-3).
//!
//! Two things in the text can be read in two ways, and both are offered. "The highest unacknowledged segment"
//! is the newest one, or the one above the highest acknowledgement (ns-2's `highest_ack_` + 1), the oldest.
//! "Suspend retransmission thread", with no word on its return, is until recovery ends, or only while the
//! third duplicate ACK is dealt with.

use crate::rng::Stream;
use penstock_units::{Dur, Time};

/// Options of the retransmit thread.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RetransmitThread {
    /// Probability p that one execution retransmits, in [0, 1].
    pub probability: f64,
    /// Time between two executions.
    pub every: Dur,
    /// Which segment it sends again.
    pub segment: ThreadSegment,
    /// It rests from the third duplicate ACK to the end of fast recovery.
    pub rests_in_recovery: bool,
}

/// The reading of "highest unacknowledged segment".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ThreadSegment {
    /// The newest segment of the transmit window.
    Newest,
    /// The one above the highest acknowledgement.
    Oldest,
}

/// When the thread next decides to retransmit.
///
/// It runs at `start + k * every`, and each execution decides by itself. The number of executions up to the
/// next retransmission is therefore geometric, and only that one is an event of the simulation.
#[derive(Clone, Debug)]
pub(super) struct ThreadTimer {
    options: Option<RetransmitThread>,
    next: Time,
    stream: Stream,
}

impl ThreadTimer {
    pub(super) fn new(options: Option<RetransmitThread>, stream: Stream) -> ThreadTimer {
        ThreadTimer { options: options.filter(|o| o.probability > 0.0), next: Time::NEVER, stream }
    }
    /// The connection opens.
    pub(super) fn start(&mut self, now: Time) {
        self.next = now;
        self.advance();
    }
    /// The options, when it ever retransmits.
    pub(super) fn options(&self) -> Option<&RetransmitThread> {
        self.options.as_ref()
    }
    /// The next execution that retransmits.
    #[inline]
    pub(super) fn deadline(&self) -> Time {
        self.next
    }
    /// Moves on to the following execution that retransmits.
    pub(super) fn advance(&mut self) {
        let Some(o) = self.options else {
            self.next = Time::NEVER;
            return;
        };
        // Algorithm 1: uniform(0, 1) <= p. P(first success at execution k) = (1-p)^(k-1) p, inverted.
        let u = 1.0 - self.stream.uniform();
        let executions = if o.probability < 1.0 {
            libm::ceil(libm::log(u) / libm::log1p(-o.probability)).max(1.0)
        } else {
            1.0
        };
        self.next = if executions * o.every.0 as f64 >= Dur::MAX.0 as f64 {
            Time::NEVER
        } else {
            self.next + o.every * executions as u64
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Entity;

    fn thread(probability: f64) -> RetransmitThread {
        let every = Dur::micros(20);
        RetransmitThread { probability, every, segment: ThreadSegment::Newest, rests_in_recovery: true }
    }
    fn gaps(probability: f64, n: usize) -> alloc::vec::Vec<u64> {
        let options = thread(probability);
        let mut t = ThreadTimer::new(Some(options), Stream::new(1, 0, Entity::Sender, 0));
        t.start(Time::ZERO);
        let mut before = Time::ZERO;
        (0..n)
            .map(|_| {
                let at = t.deadline();
                t.advance();
                let gap = at.since(before).0;
                before = at;
                assert_eq!(gap % Dur::micros(20).0, 0, "executions lie on the grid");
                gap / Dur::micros(20).0
            })
            .collect()
    }

    #[test]
    fn one_execution_in_p_inverse_retransmits() {
        for p in [0.5, 0.1, 0.001] {
            let n = 20_000;
            let g = gaps(p, n);
            let mean = g.iter().sum::<u64>() as f64 / n as f64;
            // Standard error of a geometric mean: sqrt(1-p)/p/sqrt(n); four of them.
            assert!((mean * p - 1.0).abs() < 4.0 * libm::sqrt((1.0 - p) / n as f64), "{p}: {mean}");
            let first = g.iter().filter(|&&k| k == 1).count() as f64 / n as f64;
            assert!((first - p).abs() < 4.0 * libm::sqrt(p * (1.0 - p) / n as f64), "{p}: {first}");
        }
        assert!(gaps(1.0, 100).iter().all(|&k| k == 1));
    }

    #[test]
    fn never_at_probability_zero() {
        for options in [None, Some(thread(0.0))] {
            let mut t = ThreadTimer::new(options, Stream::new(1, 0, Entity::Sender, 0));
            t.start(Time::ZERO);
            assert_eq!(t.deadline(), Time::NEVER);
        }
    }
}
