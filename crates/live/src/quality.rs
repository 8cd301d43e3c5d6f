//! Whether a run may be trusted: how late packets were handed over.

use penstock_units::{Dur, Time};

/// Steps per doubling of the histogram: values are known to 1.6 %.
const STEPS: u64 = 64;
/// Windows in which the worst lag is looked at.
const WINDOW: Dur = Dur::millis(10);

/// Lags of packets: virtual time of delivery to the time it happened.
#[derive(Clone, Debug)]
pub struct Lag {
    /// Counts by step of [`STEPS`] per doubling, from one nanosecond.
    counts: Vec<u64>,
    total: u64,
    max: u64,
    /// A lag above this spoils its window.
    limit: Dur,
    /// Windows with a packet due, or in which one that was due waited for longer than the limit; and the latter alone.
    windows: u64,
    late: u64,
    /// The first window that is not counted yet, in either.
    next: u64,
    next_late: u64,
}

impl Lag {
    /// No lags yet; `limit` is the round trip of the scenario.
    pub fn new(limit: Dur) -> Lag {
        let counts = vec![0; (40 * STEPS) as usize];
        Lag { counts, total: 0, max: 0, limit, windows: 0, late: 0, next: 0, next_late: 0 }
    }
    fn bucket(ns: u64) -> usize {
        let x = ns.max(1);
        let doublings = u64::from(x.ilog2());
        let within = ((x - (1 << doublings)) * STEPS) >> doublings;
        (doublings * STEPS + within) as usize
    }
    fn value(bucket: usize) -> f64 {
        let (doublings, within) = (bucket as u64 / STEPS, bucket as u64 % STEPS);
        (1u64 << doublings) as f64 * (1.0 + (within as f64 + 0.5) / STEPS as f64)
    }
    /// A packet that was due at `due` is handed over at `now`.
    pub fn record(&mut self, due: Time, now: Time) {
        let lag = now.since(due);
        let ns = lag.0 / 1000;
        let i = Lag::bucket(ns).min(self.counts.len() - 1);
        self.counts[i] += 1;
        self.total += 1;
        self.max = self.max.max(ns);
        let window = due.0 / WINDOW.0;
        let mut end = window + 1;
        if lag > self.limit {
            // While the network stands still nothing else is due: a pause of a second spoils a hundred windows, by one packet.
            end = now.0 / WINDOW.0 + 1;
            self.late += end.saturating_sub(window.max(self.next_late));
            self.next_late = self.next_late.max(end);
        }
        self.windows += end.saturating_sub(window.max(self.next));
        self.next = self.next.max(end);
    }
    /// The q-quantile in seconds; NaN when nothing was recorded.
    pub fn quantile(&self, q: f64) -> f64 {
        if self.total == 0 {
            return f64::NAN;
        }
        let rank = (q * self.total as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (i, n) in self.counts.iter().enumerate() {
            seen += n;
            if seen >= rank {
                return (Lag::value(i) * 1e-9).min(self.max());
            }
        }
        self.max()
    }
    /// The largest in seconds.
    pub fn max(&self) -> f64 {
        self.max as f64 * 1e-9
    }
    /// Share of the windows of 10 ms, among those with a packet, in which some packet that was late by more than a round trip waited.
    pub fn late_share(&self) -> f64 {
        self.late as f64 / self.windows.max(1) as f64
    }
    /// Packets recorded.
    pub fn count(&self) -> u64 {
        self.total
    }
}

/// Most of the windows that may be late in a valid run.
pub const LATE_SHARE: f64 = 0.01;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_known_to_two_per_cent() {
        let mut lag = Lag::new(Dur::millis(1));
        for us in 1..=1000 {
            lag.record(Time::ZERO, Time::ZERO + Dur::micros(us));
        }
        for (q, us) in [(0.5, 500.0), (0.99, 990.0), (1.0, 1000.0)] {
            assert!((lag.quantile(q) * 1e6 / us - 1.0).abs() < 0.02, "{q}: {}", lag.quantile(q));
        }
        assert_eq!((lag.max(), lag.late_share()), (1e-3, 0.0));
    }
    #[test]
    fn a_lag_above_the_round_trip_spoils_its_window_only() {
        let mut lag = Lag::new(Dur::micros(100));
        for window in 0..100 {
            let due = Time::ZERO + Dur::millis(10) * window;
            lag.record(due, due + Dur::micros(1));
            if window == 7 {
                lag.record(due, due + Dur::millis(5));
                lag.record(due, due + Dur::millis(5));
            }
        }
        assert_eq!(lag.late_share(), 0.01);
        // A second in which nothing is handed over.
        let due = Time::ZERO + Dur::millis(2000);
        lag.record(due, due + Dur::millis(995));
        lag.record(due + Dur::micros(1), due + Dur::millis(995));
        assert_eq!(lag.late_share(), 101.0 / 200.0);
    }
}
