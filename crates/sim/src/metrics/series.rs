//! Samples: when they are due, which flows have a place in their table, and taking one.

use super::{FlowCounters, Recorder};
use penstock_core::{Quantity, Report, Unit};
use penstock_fabric::{Losses, Port};
use penstock_units::{Dur, Time};

/// What is sampled of a port, beside what the controller of its link reports.
pub static PORT: [&Quantity; 3] = [&QUEUE_PACKETS, &QUEUE_BYTES, &DROPS];
static QUEUE_PACKETS: Quantity =
    Quantity::new("queue_packets", Unit::Packets, "queue of a port, the packet in service included");
static QUEUE_BYTES: Quantity = Quantity::new("queue_bytes", Unit::Bytes, "queue of the port in bytes");
static DROPS: Quantity =
    Quantity::new("drops", Unit::Packets, "total packets dropped at a port, or of the flows to a host");

/// What is sampled of all flows that lead to one host, together.
pub static HOST: [&Quantity; 4] = [&DELIVERED, &RETRANSMITS, &TIMEOUTS, &DROPS];
static DELIVERED: Quantity =
    Quantity::new("delivered_bytes", Unit::Bytes, "total payload delivered in order");
static RETRANSMITS: Quantity =
    Quantity::new("retransmits", Unit::Packets, "total retransmitted data packets");
static TIMEOUTS: Quantity = Quantity::new("timeouts", Unit::One, "retransmission timeouts so far");

/// What a sample is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Entity {
    /// A port.
    Port,
    /// A flow.
    Flow,
    /// A host: all flows that lead there.
    Host,
}

impl Entity {
    /// All of them, in the order of their numbers.
    pub const ALL: [Entity; 3] = [Entity::Port, Entity::Flow, Entity::Host];
    /// As it is written in the table.
    pub fn name(self) -> &'static str {
        match self {
            Entity::Port => "port",
            Entity::Flow => "flow",
            Entity::Host => "host",
        }
    }
}

/// A row of the series table.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When.
    pub at: Time,
    /// What it is of.
    pub entity: Entity,
    /// Number of the port, flow or host.
    pub number: u32,
    /// What was sampled.
    pub metric: &'static Quantity,
    /// Value.
    pub value: f64,
}

/// An open connection, as samples are taken of it.
pub trait Sampled {
    /// Its number.
    fn number(&self) -> u32;
    /// Host it leads to.
    fn destination(&self) -> u32;
    /// Its samples are kept.
    fn has_place(&self) -> bool;
    /// What it reports may be other than at the last sample.
    fn changed(&self) -> bool;
    /// What it has done so far.
    fn counters(&self) -> FlowCounters;
    /// Reports internal values of its sender.
    fn observe(&self, report: &mut Report<'_>);
    /// Reports what a controller above connections knows of it.
    fn observe_group(&self, report: &mut Report<'_>);
}

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
            let number = flow.number();
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

/// A congestion window from here on says that there is none.
pub(super) const UNLIMITED: f64 = (u64::MAX / 4) as f64;

/// Reports what is sampled of a port.
pub fn look(port: &Port, report: &mut Report<'_>) {
    report(&QUEUE_PACKETS, f64::from(port.queue_packets()));
    report(&QUEUE_BYTES, port.queue_bytes() as f64);
    let mut losses = Losses::default();
    port.add_losses(&mut losses);
    report(&DROPS, losses.drops.iter().sum::<u64>() as f64);
    if let Some(c) = port.controller() {
        c.observe(report);
    }
}
