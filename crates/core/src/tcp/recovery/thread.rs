//! The retransmit thread: now and then, an outstanding segment is sent a second time, so that loss of a whole
//! window is noticed without a timeout (Kulkarni and Agrawal 2014, section 4.2, algorithms 1-3).
//!
//! Two things in the text can be read in two ways, and both are offered. "The highest unacknowledged segment"
//! is the newest one, or the one above the highest acknowledgement (ns-2's `highest_ack_` + 1), the oldest.
//! "Suspend retransmission thread", with no word on its return, is until recovery ends, or only while the
//! third duplicate ACK is dealt with.

use super::{Act, Arrival, Choice, Connection, Control, Outcome, Outgoing, Recovery, Since, Timers, Why};
use crate::rng::Stream;
use crate::tcp::{Phase, RetransmitThread, ThreadSegment};
use penstock_units::{Dur, Time};

/// The sender's half: a recovery with the thread beside it.
pub struct Thread<R> {
    inner: R,
    timer: Timer,
    due: bool,
}

impl<R> Thread<R> {
    /// The thread beside `inner`, which must take a third duplicate for a loss in any case (algorithm 3 knows no window
    /// that was repaired already).
    pub(super) fn new(inner: R, options: RetransmitThread, rng: Stream) -> Thread<R> {
        Thread { inner, timer: Timer { options, next: Time::NEVER, stream: rng }, due: false }
    }
    /// Algorithm 1: marks and retransmits the highest unacknowledged segment of the transmit window.
    fn marked(&self, c: &Connection<'_>) -> Option<Outgoing> {
        let (una, nxt) = (c.view.una, c.view.nxt);
        if una == nxt {
            return None;
        }
        let segment = c.view.segment as u64;
        let payload = nxt.min(c.view.app_end).saturating_sub(una);
        let seq = match self.timer.options.segment {
            ThreadSegment::Oldest => una,
            ThreadSegment::Newest => una + payload.saturating_sub(1) / segment * segment,
        };
        Some(Outgoing { seq, end: c.segment_end(seq, nxt), why: Why::Thread })
    }
}

impl<R: Recovery> Recovery for Thread<R> {
    fn hears_all(&self) -> bool {
        self.inner.hears_all()
    }
    fn start(&mut self, now: Time) {
        self.timer.start(now);
    }
    fn is_duplicate(&self, new_sack: bool, window_changed: bool) -> bool {
        self.inner.is_duplicate(new_sack, window_changed)
    }
    fn before_ack(&mut self, c: &Connection<'_>, arrival: &Arrival) -> Act {
        self.inner.before_ack(c, arrival)
    }
    fn on_sack(&mut self, c: &Connection<'_>) -> u64 {
        self.inner.on_sack(c)
    }
    fn on_duplicate(&mut self, c: &Connection<'_>) -> Outcome {
        self.inner.on_duplicate(c)
    }
    fn on_ack(&mut self, c: &Connection<'_>, acked: u64) -> Outcome {
        self.inner.on_ack(c, acked)
    }
    fn on_enter(&mut self, c: &Connection<'_>) {
        self.inner.on_enter(c);
    }
    fn on_timeout(&mut self, c: &Connection<'_>) -> u64 {
        self.inner.on_timeout(c)
    }
    fn control(&self, c: &Connection<'_>) -> Control {
        let inner = self.inner.control(c);
        Control { urgent: inner.urgent || self.due, deadline: inner.deadline.min(self.timer.next), ..inner }
    }
    fn urgent(&mut self, c: &Connection<'_>) -> Option<Outgoing> {
        self.inner.urgent(c).or_else(|| core::mem::take(&mut self.due).then(|| self.marked(c)).flatten())
    }
    fn choose(&self, c: &Connection<'_>) -> Choice {
        self.inner.choose(c)
    }
    fn on_sent(&mut self, c: &Connection<'_>, sent: &Outgoing) {
        self.inner.on_sent(c, sent);
    }
    fn rearm(&mut self, c: &Connection<'_>, rto: Dur, since: &Since) -> Timers {
        let inner = self.inner.rearm(c, rto, since);
        Timers { deadline: inner.deadline.min(self.timer.next), ..inner }
    }
    fn on_deadline(&mut self, c: &Connection<'_>) -> Outcome {
        if c.now >= self.timer.next {
            self.timer.advance();
            // Algorithm 3: the thread is suspended when fast retransmit begins.
            self.due = !(self.timer.options.rests_in_recovery && c.phase == Phase::FastRecovery);
        }
        self.inner.on_deadline(c)
    }
}

/// When the thread next decides to retransmit.
///
/// It runs at `start + k * every`, and each execution decides by itself. The number of executions up to the
/// next retransmission is therefore geometric, and only that one is an event of the simulation.
#[derive(Clone, Debug)]
struct Timer {
    options: RetransmitThread,
    next: Time,
    stream: Stream,
}

impl Timer {
    /// The connection opens.
    fn start(&mut self, now: Time) {
        self.next = now;
        self.advance();
    }
    /// Moves on to the following execution that retransmits.
    fn advance(&mut self) {
        let o = &self.options;
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
    use super::super::AnyRecovery;
    use super::*;
    use crate::rng::Entity;
    use crate::tcp::TcpConfig;

    fn thread(probability: f64) -> RetransmitThread {
        let every = Dur::micros(20);
        RetransmitThread { probability, every, segment: ThreadSegment::Newest, rests_in_recovery: true }
    }
    fn gaps(probability: f64, n: usize) -> alloc::vec::Vec<u64> {
        let options = thread(probability);
        let mut t = Timer { options, next: Time::NEVER, stream: Stream::new(1, 0, Entity::Sender, 0) };
        t.start(Time::ZERO);
        let mut before = Time::ZERO;
        (0..n)
            .map(|_| {
                let at = t.next;
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
    fn at_probability_zero_there_is_no_thread() {
        let with = |probability| {
            let cfg = TcpConfig { retransmit_thread: Some(thread(probability)), ..TcpConfig::default() };
            AnyRecovery::new(&cfg, || Stream::new(1, 0, Entity::Sender, 0))
        };
        assert!(matches!(with(0.0), AnyRecovery::Sack(_)));
        assert!(matches!(with(0.5), AnyRecovery::Thread(_)));
    }
}
