//! Samples: when they are due, which flows have a place in their table, and taking one.

use super::{FlowCounters, Recorder, Rows};
use penstock_core::quantity::{ALPHA, CWND};
use penstock_core::{Quantity, Report, Unit};
use penstock_fabric::{Losses, Port};
use penstock_units::{Dur, Time};

/// What is sampled of a port, beside what the controller of its link reports.
pub static PORT: [&Quantity; 3] = [&QUEUE_PACKETS, &QUEUE_BYTES, &DROPS];
static QUEUE_PACKETS: Quantity =
    Quantity::new("queue_packets", Unit::Packets, "queue of a port, the packet in service included");
static QUEUE_BYTES: Quantity = Quantity::new("queue_bytes", Unit::Bytes, "the same in bytes");
static DROPS: Quantity = Quantity::new(
    "drops",
    Unit::Packets,
    "packets dropped so far at a port, or of the flows that lead to a host",
);

/// What is sampled of all flows that lead to one host, together.
pub static HOST: [&Quantity; 4] = [&DELIVERED, &RETRANSMITS, &TIMEOUTS, &DROPS];
static DELIVERED: Quantity =
    Quantity::new("delivered_bytes", Unit::Bytes, "payload delivered in order so far");
static RETRANSMITS: Quantity = Quantity::new("retransmits", Unit::Packets, "data packets sent again so far");
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

/// A [`Sample`] as it is kept: 24 bytes.
#[derive(Clone, Copy, Debug)]
pub struct SeriesRow {
    /// When.
    pub at: Time,
    /// Value.
    pub value: f64,
    /// Number of the port, flow or host.
    pub number: u32,
    /// What was sampled, by its place in [`Series::metrics`].
    pub metric: u16,
    /// What it is of.
    pub entity: Entity,
}

const _: () = assert!(size_of::<SeriesRow>() == 24);

/// The series table: samples in the order in which they were taken.
#[derive(Default)]
pub struct Series {
    rows: Rows<SeriesRow>,
    /// What was sampled at least once, each name once.
    metrics: Vec<&'static Quantity>,
    /// By place in that list: what was sampled after it the last time. Entities of one kind report the same things in the same
    /// order, so that this nearly always tells what comes.
    after: Vec<u16>,
    last: u16,
}

/// What is reported of a flow, in the order in which it is.
type Told = Vec<(&'static Quantity, f64)>;

/// Takes down what a flow reports.
#[inline(always)]
fn note(told: &mut Told, metric: &'static Quantity, value: f64) {
    #[cold]
    #[inline(never)]
    fn note_with_room(told: &mut Told, metric: &'static Quantity, value: f64) {
        told.push((metric, value));
    }
    if told.len() == told.capacity() {
        return note_with_room(told, metric, value);
    }
    told.push((metric, value));
}

/// What a flow reports. Nearly all report the same things in the same order: what follows from that is found once.
struct Shape {
    metrics: Vec<&'static Quantity>,
    /// Where [`ALPHA`] (true) and [`CWND`] are among them.
    means: Vec<(usize, bool)>,
    /// Their places in the table; empty until rows of it are kept.
    places: Vec<u16>,
}

impl Shape {
    fn of(told: &Told) -> Shape {
        let mean = |(i, (metric, _)): (usize, &(&'static Quantity, f64))| {
            (metric.is(&ALPHA) || metric.is(&CWND)).then(|| (i, metric.is(&ALPHA)))
        };
        let means = told.iter().enumerate().filter_map(mean).collect();
        Shape { metrics: told.iter().map(|(metric, _)| *metric).collect(), means, places: Vec::new() }
    }
    #[inline(always)]
    fn fits(&self, told: &Told) -> bool {
        self.metrics.len() == told.len()
            && self.metrics.iter().zip(told).all(|(known, (metric, _))| known.is(metric))
    }
}

/// All shapes that were seen, one for each transport or law.
#[derive(Default)]
pub(super) struct Shapes {
    known: Vec<Shape>,
    last: usize,
}

impl Shapes {
    #[inline(always)]
    fn of(&mut self, told: &Told) -> &mut Shape {
        if !self.known.get(self.last).is_some_and(|shape| shape.fits(told)) {
            self.find(told);
        }
        &mut self.known[self.last]
    }
    #[cold]
    #[inline(never)]
    fn find(&mut self, told: &Told) {
        let known = self.known.iter().position(|shape| shape.fits(told));
        self.last = known.unwrap_or_else(|| {
            self.known.push(Shape::of(told));
            self.known.len() - 1
        });
    }
}

impl Series {
    /// Rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }
    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
    /// Adds a row.
    #[inline(always)]
    pub fn push(&mut self, sample: Sample) {
        let Sample { at, entity, number, metric, value } = sample;
        let metric = self.place(metric);
        self.rows.push(SeriesRow { at, value, number, metric, entity });
    }
    /// Adds a row for each value that a flow has told, whose shape fits: the same as [`Self::push`] for one after the other.
    #[inline(always)]
    fn push_all(&mut self, at: Time, number: u32, told: &Told, shape: &mut Shape) {
        if shape.places.len() != told.len() {
            shape.places = told.iter().map(|(metric, _)| self.place(metric)).collect();
        }
        self.rows.extend(shape.places.iter().zip(told).map(|(metric, (_, value))| SeriesRow {
            at,
            value: *value,
            number,
            metric: *metric,
            entity: Entity::Flow,
        }));
    }
    /// All rows.
    pub fn iter(&self) -> impl Iterator<Item = Sample> + '_ {
        self.rows.iter().map(|r| {
            let metric = self.metrics[usize::from(r.metric)];
            Sample { at: r.at, entity: r.entity, number: r.number, metric, value: r.value }
        })
    }
    /// What was sampled, each quantity once.
    pub fn metrics(&self) -> &[&'static Quantity] {
        &self.metrics
    }
    /// The rows as they are kept.
    pub fn rows(&self) -> &Rows<SeriesRow> {
        &self.rows
    }
    /// Takes them out.
    pub fn take_rows(&mut self) -> Rows<SeriesRow> {
        std::mem::take(&mut self.rows)
    }
    pub(super) fn kept(&mut self) -> &mut Rows<SeriesRow> {
        &mut self.rows
    }
    /// Puts the rows in the order of their times; those of one time stay as they are.
    pub fn sort_by_time(&mut self) {
        self.rows.sort_by_key(|r| r.at);
    }
    #[inline]
    fn place(&mut self, metric: &'static Quantity) -> u16 {
        let told = self.after.get(usize::from(self.last)).copied().unwrap_or(0);
        let place = match self.metrics.get(usize::from(told)) {
            Some(m) if m.is(metric) => told,
            _ => self.find(metric),
        };
        self.last = place;
        place
    }
    #[cold]
    fn find(&mut self, metric: &'static Quantity) -> u16 {
        let known = self.metrics.iter().position(|m| m.is(metric));
        // Another crate may declare a quantity of the same name: one text of the table stands for both.
        let known = known.or_else(|| self.metrics.iter().position(|m| m.name == metric.name));
        let place = known.unwrap_or_else(|| {
            self.metrics.push(metric);
            self.after.push(0);
            self.metrics.len() - 1
        });
        let place = u16::try_from(place).expect("less than 65,536 quantities are declared");
        if let Some(after) = self.after.get_mut(usize::from(self.last)) {
            *after = place;
        }
        place
    }
}

/// An open connection, as samples are taken of it.
pub trait Sampled {
    /// Its number.
    fn number(&self) -> u32;
    /// Host it leads to.
    fn destination(&self) -> u32;
    /// Its samples are kept.
    fn has_place(&self) -> bool;
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
    /// Takes one sample of everything asked for; `flows` are the open ones.
    pub fn sample<F: Sampled>(&mut self, at: Time, ports: &[Port], flows: impl Iterator<Item = F>) {
        self.sampled(at);
        let (keep, measuring) = (self.keep_series, self.measuring);
        let more = keep && (self.grouped || self.by_destination);
        let Recorder { series, left_out, sampled_ports, alpha, cwnd, by_destination, over, shapes, .. } =
            self;
        let free = self.max_rows.saturating_sub(series.len());
        let mut rows = Taking { series, free, left_out: &mut left_out.series, at };
        for p in sampled_ports.iter().filter(|_| keep) {
            look(&ports[*p as usize], &mut |metric, value| rows.add(Entity::Port, *p, metric, value));
        }
        let mut told = Told::with_capacity(16);
        // They are gone through up to three times, and to find them costs more than to ask them.
        let mut again = Vec::new();
        for flow in flows {
            told.clear();
            flow.observe(&mut |metric, value| note(&mut told, metric, value));
            let shape = shapes.of(&told);
            if measuring {
                for (at, is_alpha) in &shape.means {
                    let value = told[*at].1;
                    if *is_alpha {
                        alpha.add(value);
                    } else if value < UNLIMITED {
                        cwnd.add(value);
                    }
                }
            }
            if flow.has_place() {
                rows.add_all(flow.number(), &told, shape);
            }
            if more {
                again.push(flow);
            }
        }
        for flow in &again {
            let number = flow.number();
            flow.observe_group(&mut |metric, value| rows.add(Entity::Flow, number, metric, value));
        }
        if keep && *by_destination {
            let mut totals = over.clone();
            for flow in &again {
                totals.entry(flow.destination()).or_default().add(&flow.counters());
            }
            for (host, c) in totals {
                let values = [c.delivered_bytes, c.retransmits, c.timeouts, c.drops];
                for (metric, value) in HOST.iter().zip(values) {
                    rows.add(Entity::Host, host, metric, value as f64);
                }
            }
        }
        self.grown();
    }
}

/// The rows of one sample. How many there is room for is asked once: there are millions of rows, and little else costs as much in such a run.
struct Taking<'a> {
    series: &'a mut Series,
    free: usize,
    left_out: &'a mut u64,
    at: Time,
}

impl Taking<'_> {
    #[inline(always)]
    fn add(&mut self, entity: Entity, number: u32, metric: &'static Quantity, value: f64) {
        if self.free == 0 {
            *self.left_out += 1;
            return;
        }
        self.free -= 1;
        self.series.push(Sample { at: self.at, entity, number, metric, value });
    }
    #[inline(always)]
    fn add_all(&mut self, number: u32, told: &Told, shape: &mut Shape) {
        if self.free < told.len() {
            return told.iter().for_each(|(metric, value)| self.add(Entity::Flow, number, metric, *value));
        }
        self.free -= told.len();
        self.series.push_all(self.at, number, told, shape);
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

#[cfg(test)]
mod tests {
    use super::*;

    static A: Quantity = Quantity::new("a_s", Unit::Seconds, "one");
    static OTHER_A: Quantity = Quantity::new("a_s", Unit::Seconds, "declared by somebody else");
    static B: Quantity = Quantity::new("b", Unit::One, "another");

    fn series(rows: &[(u64, u32, &'static Quantity)]) -> Series {
        let mut found = Series::default();
        for (at, number, metric) in rows {
            let value = f64::from(*number) + 0.5;
            found.push(Sample { at: Time(*at), entity: Entity::Flow, number: *number, metric, value });
        }
        found
    }

    #[test]
    fn rows_come_back_as_they_were_taken_whatever_the_order_of_reports() {
        let rows = [(1, 0, &A), (1, 0, &B), (1, 1, &B), (1, 1, &A), (1, 2, &A), (1, 2, &A), (2, 0, &B)];
        let found = series(&rows);
        assert_eq!(found.metrics().iter().map(|m| m.name).collect::<Vec<_>>(), ["a_s", "b"]);
        let back: Vec<_> = found.iter().map(|x| (x.at.0, x.number, x.metric.name, x.value)).collect();
        let given: Vec<_> = rows.iter().map(|(at, n, m)| (*at, *n, m.name, f64::from(*n) + 0.5)).collect();
        assert_eq!(back, given);
    }

    #[test]
    fn two_declarations_of_one_name_are_one_text_of_the_table() {
        let found = series(&[(1, 0, &A), (1, 1, &OTHER_A), (1, 2, &B), (1, 3, &OTHER_A)]);
        assert_eq!(found.metrics().len(), 2);
        assert_eq!(found.rows().iter().map(|r| r.metric).collect::<Vec<_>>(), [0, 0, 1, 0]);
    }

    #[test]
    fn rows_of_one_time_keep_their_order() {
        let mut found = series(&[(2, 0, &A), (1, 1, &B), (2, 2, &B), (1, 3, &A)]);
        found.sort_by_time();
        assert_eq!(found.iter().map(|x| x.number).collect::<Vec<_>>(), [1, 3, 0, 2]);
    }
}
