//! What was sampled of open connections and of ports the last time: who has done nothing since then is not asked again.

use super::blocks::Of;
use super::series::{look, Entity, Sampled, UNLIMITED};
use super::{Mean, Series};
use penstock_core::quantity::{ALPHA, CWND};
use penstock_core::Quantity;
use penstock_fabric::Port;
use penstock_units::Time;

/// What is reported, in the order in which it is.
type Told = Vec<(&'static Quantity, f64)>;

/// What a flow reports. Nearly all report the same things in the same order: what follows from that is found once.
struct Shape {
    metrics: Vec<&'static Quantity>,
    /// Where [`ALPHA`] (true) and [`CWND`] are among them.
    means: Vec<(usize, bool)>,
}

impl Shape {
    fn of(told: &Told) -> Shape {
        let mean = |(i, (metric, _)): (usize, &(&'static Quantity, f64))| {
            (metric.is(&ALPHA) || metric.is(&CWND)).then(|| (i, metric.is(&ALPHA)))
        };
        let means = told.iter().enumerate().filter_map(mean).collect();
        Shape { metrics: told.iter().map(|(metric, _)| *metric).collect(), means }
    }
    #[inline]
    fn fits(&self, told: &Told) -> bool {
        self.metrics.len() == told.len()
            && self.metrics.iter().zip(told).all(|(known, (metric, _))| known.is(metric))
    }
}

/// All shapes that were seen, one for each transport or law.
#[derive(Default)]
struct Shapes {
    known: Vec<Shape>,
    last: usize,
}

impl Shapes {
    #[inline]
    fn find(&mut self, told: &Told) -> usize {
        if !self.known.get(self.last).is_some_and(|shape| shape.fits(told)) {
            let known = self.known.iter().position(|shape| shape.fits(told));
            self.last = known.unwrap_or_else(|| {
                self.known.push(Shape::of(told));
                self.known.len() - 1
            });
        }
        self.last
    }
}

/// A flow that was sampled.
#[derive(Clone, Copy)]
struct Flow {
    number: u32,
    /// Its rows are kept.
    has_place: bool,
    shape: usize,
    /// Its first value.
    from: usize,
}

/// Flows in order of number, and their values one after the other.
#[derive(Default)]
struct Flows {
    list: Vec<Flow>,
    values: Vec<f64>,
}

impl Flows {
    /// Takes out those from `place` on.
    fn split_off(&mut self, place: usize) -> Flows {
        let from = self.list.get(place).map_or(self.values.len(), |flow| flow.from);
        let mut list = self.list.split_off(place);
        list.iter_mut().for_each(|flow| flow.from -= from);
        Flows { list, values: self.values.split_off(from) }
    }
}

/// The last sample of everything.
#[derive(Default)]
pub(super) struct Open {
    ports: Vec<(u32, &'static Quantity, f64)>,
    flows: Flows,
    shapes: Shapes,
    told: Told,
    /// All have a place.
    all_have: bool,
    /// Rows of a sample are of other things than those of the one before.
    other: bool,
}

impl Open {
    /// Looks at the open flows, and shows each to `then`.
    #[inline]
    pub(super) fn look_at_flows<F: Sampled>(
        &mut self,
        flows: impl Iterator<Item = F>,
        mut then: impl FnMut(F),
    ) {
        let mut flows = flows;
        let mut place = 0;
        while let Some(flow) = flows.next() {
            let known = self.flows.list.get(place).copied().filter(|known| known.number == flow.row());
            if !known.is_some_and(|known| !flow.changed() || self.look_again(known, &flow)) {
                self.look_at_others(place, flow, flows, then);
                return;
            }
            place += 1;
            then(flow);
        }
        if place < self.flows.list.len() {
            self.flows.split_off(place);
            self.changed();
        }
    }
    /// Asks a flow for its values; false where it reports other things now.
    fn look_again(&mut self, known: Flow, flow: &impl Sampled) -> bool {
        self.told.clear();
        flow.observe(&mut |metric, value| self.told.push((metric, value)));
        if !self.shapes.known[known.shape].fits(&self.told) {
            return false;
        }
        let values = &mut self.flows.values[known.from..];
        values.iter_mut().zip(&self.told).for_each(|(value, (_, told))| *value = *told);
        true
    }
    /// From this place on flows are others than at the last sample: those that were there and have done nothing keep their values.
    #[cold]
    fn look_at_others<F: Sampled>(
        &mut self,
        place: usize,
        first: F,
        others: impl Iterator<Item = F>,
        mut then: impl FnMut(F),
    ) {
        let before = self.flows.split_off(place);
        let mut known = before.list.iter().peekable();
        for flow in std::iter::once(first).chain(others) {
            let number = flow.row();
            while known.next_if(|known| known.number < number).is_some() {}
            let from = self.flows.values.len();
            let same = known.peek().filter(|known| known.number == number && !flow.changed());
            let shape = if let Some(known) = same {
                let values = self.shapes.known[known.shape].metrics.len();
                self.flows.values.extend_from_slice(&before.values[known.from..known.from + values]);
                known.shape
            } else {
                self.told.clear();
                flow.observe(&mut |metric, value| self.told.push((metric, value)));
                self.flows.values.extend(self.told.iter().map(|(_, value)| *value));
                self.shapes.find(&self.told)
            };
            self.flows.list.push(Flow { number, has_place: flow.has_place(), shape, from });
            then(flow);
        }
        self.changed();
    }
    fn changed(&mut self) {
        self.all_have = self.flows.list.iter().all(|flow| flow.has_place);
        self.other = true;
    }
    /// Looks at those ports that are sampled.
    pub(super) fn look_at_ports(&mut self, sampled: &[u32], ports: &[Port]) {
        let mut place = 0;
        for number in sampled {
            look(&ports[*number as usize], &mut |metric, value| {
                match self.ports.get_mut(place) {
                    Some((known, same, last)) if *known == *number && same.is(metric) => *last = value,
                    _ => {
                        self.ports.truncate(place);
                        self.ports.push((*number, metric, value));
                        self.other = true;
                    }
                }
                place += 1;
            });
        }
        if place < self.ports.len() {
            self.ports.truncate(place);
            self.other = true;
        }
    }
    /// Adds what flows have reported of [`ALPHA`] and [`CWND`] to their means.
    #[inline]
    pub(super) fn add_to_means(&self, alpha: &mut Mean, cwnd: &mut Mean) {
        for flow in &self.flows.list {
            for (at, is_alpha) in &self.shapes.known[flow.shape].means {
                let value = self.flows.values[flow.from + *at];
                if *is_alpha {
                    alpha.add(value);
                } else if value < UNLIMITED {
                    cwnd.add(value);
                }
            }
        }
    }
    fn values(&self, flow: &Flow) -> &[f64] {
        &self.flows.values[flow.from..flow.from + self.shapes.known[flow.shape].metrics.len()]
    }
    fn placed(&self) -> impl Iterator<Item = &Flow> {
        self.flows.list.iter().filter(|flow| flow.has_place)
    }
    /// Rows of a sample, of ports and of flows with a place.
    pub(super) fn rows(&self) -> usize {
        let of_flows = if self.all_have {
            self.flows.values.len()
        } else {
            self.placed().map(|flow| self.values(flow).len()).sum()
        };
        self.ports.len() + of_flows
    }
    /// Adds them to the table, as far as there is room for them.
    pub(super) fn record(&mut self, at: Time, room: usize, series: &mut Series) {
        let rows = self.rows().min(room);
        if rows == 0 {
            return;
        }
        if self.other || !series.has_form() {
            self.other = false;
            let of = self.of(rows, series);
            series.set_form(&of);
        }
        series.begin(at, rows);
        let mut left = rows;
        let mut add = |values: &[f64]| {
            let now = values.len().min(left);
            series.add_values(&values[..now]);
            left -= now;
        };
        for (_, _, value) in &self.ports {
            add(&[*value]);
        }
        if self.all_have {
            add(&self.flows.values);
        } else {
            self.placed().for_each(|flow| add(self.values(flow)));
        }
    }
    /// What the first rows of a sample are of.
    fn of(&self, rows: usize, series: &mut Series) -> Vec<Of> {
        let ports = self.ports.iter().map(|(number, metric, _)| (Entity::Port, *number, *metric));
        let flows = self.placed().flat_map(|flow| {
            let metrics = &self.shapes.known[flow.shape].metrics;
            metrics.iter().map(|metric| (Entity::Flow, flow.number, *metric))
        });
        let rows = ports.chain(flows).take(rows);
        rows.map(|(entity, number, metric)| series.of(entity, number, metric)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{FlowCounters, Recorder};
    use penstock_core::{Report, Unit};
    use std::cell::Cell;

    static B: Quantity = Quantity::new("b", Unit::One, "another");

    /// A flow that says whether it has changed, and counts how often it is asked.
    struct One<'a> {
        number: u32,
        value: f64,
        more: bool,
        has_place: bool,
        changed: bool,
        asked: &'a Cell<u32>,
    }

    impl Sampled for &One<'_> {
        fn row(&self) -> u32 {
            self.number
        }
        fn destination(&self) -> u32 {
            0
        }
        fn has_place(&self) -> bool {
            self.has_place
        }
        fn changed(&self) -> bool {
            self.changed
        }
        fn counters(&self) -> FlowCounters {
            FlowCounters::default()
        }
        fn observe(&self, report: &mut Report<'_>) {
            self.asked.set(self.asked.get() + 1);
            report(&CWND, self.value);
            if self.more {
                report(&B, self.value + 0.5);
            }
        }
        fn observe_group(&self, _: &mut Report<'_>) {}
    }

    /// Hundreds of samples of flows that open, close, change or not and report now this, now that, in a table that is full within one of them: as if
    /// everybody had been asked each time.
    #[test]
    fn rows_and_means_are_those_of_asking_everybody_each_time() {
        const ROOM: usize = 2003;
        const MEASURED: u64 = 10;
        let mut state = 1u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        let asked = Cell::new(0);
        let mut recorder = Recorder::default();
        (recorder.keep_series, recorder.grouped, recorder.max_rows) = (true, false, ROOM);
        let (mut rows, mut means, mut seen) = (Vec::new(), Mean::default(), 0);
        let mut flows: Vec<One<'_>> = Vec::new();
        let mut next = 0;
        for sample in 1..600u64 {
            if draw(3) == 0 {
                flows.retain(|_| draw(5) > 0);
                for _ in 0..draw(4) {
                    let (value, has_place) = (draw(100) as f64, draw(4) > 0);
                    flows.push(One {
                        number: next,
                        value,
                        more: false,
                        has_place,
                        changed: true,
                        asked: &asked,
                    });
                    next += 1;
                }
            }
            for flow in &mut flows {
                flow.changed = draw(4) == 0;
                if flow.changed {
                    flow.value = draw(100) as f64 / 7.0;
                    flow.more ^= draw(9) == 0;
                }
                seen += 1;
                if sample >= MEASURED {
                    means.add(flow.value);
                }
                if flow.has_place {
                    rows.push((sample, flow.number, "cwnd_bytes", flow.value.to_bits()));
                    rows.extend(flow.more.then(|| (sample, flow.number, "b", (flow.value + 0.5).to_bits())));
                }
            }
            if sample == MEASURED {
                recorder.start(Time(sample));
            }
            recorder.sample(Time(sample), &[], flows.iter());
        }
        let left_out = rows.split_off(ROOM).len() as u64;
        assert!(left_out > 500);
        let found: Vec<_> =
            recorder.series.iter().map(|x| (x.at.0, x.number, x.metric.name, x.value.to_bits())).collect();
        assert_eq!(found, rows);
        assert_eq!(recorder.left_out.series, left_out);
        assert_eq!(recorder.cwnd.value().map(f64::to_bits), means.value().map(f64::to_bits));
        assert!(asked.get() * 2 < seen, "{} of {seen}", asked.get());
    }
}
