//! Samples: when they are due, which flows have a place in their table, and taking one.

use super::series::{Entity, Sample, Sampled, HOST};
use super::Recorder;
use penstock_fabric::Port;
use penstock_units::{Dur, Time};

impl Recorder {
    /// Next time a sample is due.
    #[inline]
    pub fn next_sample(&self) -> Time {
        self.next.unwrap_or(Time::NEVER)
    }
    /// Takes samples every `interval` from time zero on.
    pub fn sample_every(&mut self, interval: Dur) {
        self.interval = Some(interval);
        self.next = Some(Time::ZERO + interval);
    }
    /// A sample was taken at `at`: the next is due an interval later.
    pub fn sampled(&mut self, at: Time) {
        self.next = self.interval.map(|i| at + i);
    }
    /// Keeps samples of the first `flows` flows, which stay, and of no others.
    pub fn keep_first(&mut self, flows: u32) {
        self.series_flows = flows;
        self.own_flows_only = true;
    }
    /// A connection is opened: true when it has a place in the series table, to be given back with
    /// [`Self::give_back`].
    pub fn take_place(&mut self) -> bool {
        if !self.keep_series {
            return false;
        }
        let free = self.places < self.series_flows;
        if free {
            self.places += 1;
        } else if !self.own_flows_only {
            self.without_place += 1;
        }
        free
    }
    /// A connection with a place is over.
    pub fn give_back(&mut self) {
        self.places -= 1;
    }
    /// Adds a row to the series table, when there is one.
    pub fn row(&mut self, sample: Sample) {
        if self.keep_series && Self::room(self.series.len(), self.max_rows, &mut self.left_out.series) {
            self.series.push(sample);
            self.grown();
        }
    }
    /// Takes one sample of everything asked for; `flows` are the open ones, in order of number.
    pub fn sample<F: Sampled>(&mut self, at: Time, ports: &[Port], flows: impl Iterator<Item = F>) {
        self.sampled(at);
        let (keep, measuring) = (self.keep_series, self.measuring);
        let more = keep && (self.grouped || self.by_destination);
        let Recorder { series, left_out, sampled_ports, alpha, cwnd, by_destination, over, open, .. } = self;
        let mut free = self.max_rows.saturating_sub(series.len());
        // They are gone through up to three times, and to find them costs more than to ask them.
        let mut again = Vec::new();
        open.look_at_flows(flows, |flow| {
            if more {
                again.push(flow);
            }
        });
        if measuring {
            open.add_to_means(alpha, cwnd);
        }
        if keep {
            open.look_at_ports(sampled_ports, ports);
            let rows = open.rows();
            open.record(at, free, series);
            left_out.series += rows.saturating_sub(free) as u64;
            free = free.saturating_sub(rows);
        }
        let mut add = |entity, number, metric, value| {
            if free == 0 {
                left_out.series += 1;
                return;
            }
            free -= 1;
            series.push(Sample { at, entity, number, metric, value });
        };
        for flow in &again {
            let number = flow.row();
            flow.observe_group(&mut |metric, value| add(Entity::Flow, number, metric, value));
        }
        if keep && *by_destination {
            let mut totals = over.clone();
            for flow in &again {
                totals.entry(flow.destination()).or_default().add(&flow.counters());
            }
            for (host, c) in totals {
                let values = [c.delivered_bytes, c.retransmits, c.timeouts, c.drops];
                for (metric, value) in HOST.iter().zip(values) {
                    add(Entity::Host, host, metric, value as f64);
                }
            }
        }
        self.grown();
    }
}
