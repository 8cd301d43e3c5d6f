//! What a part of a divided run records, so that the whole can be told in the order of a run that is not divided.
//!
//! A recorder makes rows and sums in the order of events. A part knows its own events only: it writes down what it would have told the recorder
//! with a [`Stamp`], and [`Recorder::replay`] tells it all in order. What two parts know of one connection, and packets lost on the way, are
//! joined then.

use super::series::{look, UNLIMITED};
use super::{Entity, FlowCounters, FlowRecord, Leaving, Recorder, Sample, Sampled, Transfer};
use penstock_core::quantity::{ALPHA, CWND};
use penstock_core::tcp::TimeoutRecord;
use penstock_core::Quantity;
use penstock_fabric::{Pause, Port};
use penstock_units::Time;

/// Place of something in the order of events that `events.rs` has, whichever part it is in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Stamp {
    /// When.
    pub at: Time,
    /// Which step of that time: [`step`].
    pub step: u8,
    /// Port or deadline, as it orders simultaneous events.
    pub order: u64,
    /// Count within the part. No two parts have the same of all before.
    pub count: u64,
}

/// The steps of one instant.
pub mod step {
    /// Packets arrive.
    pub const ARRIVALS: u8 = 0;
    /// Deadlines.
    pub const DEADLINES: u8 = 1;
    /// Workloads.
    pub const WORKLOADS: u8 = 2;
    /// Samples.
    pub const SAMPLES: u8 = 3;
    /// The end of the run: what is still lost, then what is still open.
    pub const END: u8 = 4;
}

/// A connection that is over, or was open when the run ended, as the part of its sender knows it.
pub struct Over {
    /// Its row, without what was counted.
    pub record: FlowRecord,
    /// All it ever counted.
    pub totals: FlowCounters,
    /// The same at the end of warm-up.
    pub baseline: FlowCounters,
    /// The rest.
    pub left: Leaving,
}

/// Something for the recorder.
pub enum Entry {
    /// A write is acknowledged.
    Transfer(u32, Transfer),
    /// A timeout.
    Timeout {
        /// Its flow.
        flow: u32,
        /// What it was.
        record: TimeoutRecord,
        /// Packets lost before those of the journal.
        drops: u64,
        /// Bytes that the receiver does not have.
        lost: u64,
    },
    /// A fast retransmit.
    FastRetransmit {
        /// Its flow.
        flow: u32,
        /// Bytes outstanding.
        outstanding: u64,
        /// Window after it.
        cwnd: u64,
        /// Packets lost before those of the journal.
        drops: u64,
        /// Bytes that the receiver does not have.
        lost: u64,
    },
    /// A port obeys a pause frame.
    Pause(Pause),
    /// A connection is over: which of [`Journal::overs`].
    Over(u32),
}

/// What the part of a receiver knows of a connection that has its sender in another.
pub struct Half {
    /// Its number.
    pub flow: u32,
    /// All it ever counted.
    pub totals: FlowCounters,
    /// The same at the end of warm-up.
    pub baseline: FlowCounters,
}

/// What one part has written down.
#[derive(Default)]
pub struct Journal {
    /// In the order of their stamps.
    pub entries: Vec<(Stamp, Entry)>,
    /// Connections that are over, in one piece: the thread that reads them has nothing to give back to another's stock of memory one by one.
    pub overs: Vec<Over>,
    /// Packets lost, by flow.
    pub drops: Vec<(u32, Stamp)>,
    /// What it knows of connections that others have written down.
    pub halves: Vec<Half>,
}

impl Recorder {
    /// Records what all parts have written down.
    pub fn replay(&mut self, journals: Vec<Journal>) {
        let mut journals = journals.into_iter();
        let Journal { mut entries, mut overs, mut drops, mut halves } = journals.next().unwrap_or_default();
        for journal in journals {
            let before = overs.len() as u32;
            entries.extend(journal.entries.into_iter().map(|(stamp, entry)| match entry {
                Entry::Over(number) => (stamp, Entry::Over(before + number)),
                other => (stamp, other),
            }));
            overs.extend(journal.overs);
            drops.extend(journal.drops);
            halves.extend(journal.halves);
        }
        entries.sort_by_key(|(stamp, _)| *stamp);
        drops.sort_unstable();
        halves.sort_unstable_by_key(|half| half.flow);
        let first_of = |flow: u32| drops.partition_point(|drop| drop.0 < flow);
        let lost_before = |flow: u32, stamp: Stamp| {
            (drops.partition_point(|drop| *drop < (flow, stamp)) - first_of(flow)) as u64
        };
        let (measuring, from) = (self.measuring, self.from);
        for (stamp, entry) in entries {
            self.measuring = measuring && stamp.at >= from;
            let at = stamp.at;
            match entry {
                Entry::Transfer(flow, write) => self.transfer(flow, &write, at),
                Entry::Pause(pause) => self.pause(pause.at, pause.port, pause.priority, pause.on),
                Entry::Timeout { flow, record, drops, lost } => {
                    self.timeout(at, flow, &record, drops + lost_before(flow, stamp), lost);
                }
                Entry::FastRetransmit { flow, outstanding, cwnd, drops, lost } => {
                    let drops = drops + lost_before(flow, stamp);
                    self.fast_retransmit(at, flow, outstanding, cwnd, drops, lost);
                }
                Entry::Over(number) => {
                    let Over { ref record, mut totals, mut baseline, mut left } = overs[number as usize];
                    let flow = record.flow;
                    if let Ok(half) = halves.binary_search_by_key(&flow, |half| half.flow) {
                        totals.add(&halves[half].totals);
                        baseline.add(&halves[half].baseline);
                    }
                    totals.drops += lost_before(flow, stamp);
                    if measuring {
                        // Of a connection that closed before, nothing is measured: what was lost after that counts on neither side.
                        let begin = Stamp { at: from, ..Stamp::default() }.min(stamp);
                        baseline.drops += lost_before(flow, begin);
                    }
                    left.totals = totals;
                    self.flow(record.clone(), &totals.since(&baseline), &left);
                }
            }
        }
        self.measuring = measuring;
    }

    /// Adds the sums that another part of the run has made by itself.
    pub fn add_sums(&mut self, other: &Recorder) {
        self.syn_drops += other.syn_drops;
        for (sums, others) in self.offered.iter_mut().zip(&other.offered) {
            sums.resize(sums.len().max(others.len()), (0, 0));
            for (sum, (bytes, writes)) in sums.iter_mut().zip(others) {
                sum.0 += bytes;
                sum.1 += writes;
            }
        }
    }
}

// ---- samples ---------------------------------------------------------------------------------------------

/// A value sampled in a part.
#[derive(Clone, Copy, Debug)]
pub struct Observed {
    /// Ports come first, then flows, then what is above flows; the place or number within these.
    place: (u8, u32),
    number: u32,
    metric: &'static Quantity,
    value: f64,
    keep: bool,
}

/// One sample of one part.
pub struct Batch {
    /// When.
    pub at: Time,
    measuring: bool,
    values: Vec<Observed>,
}

impl Recorder {
    /// What [`Recorder::sample`] would record of the ports that `own` has and of `flows`.
    pub fn observe<F: Sampled>(
        &mut self,
        at: Time,
        ports: &[Port],
        own: impl Fn(u32) -> bool,
        flows: impl Iterator<Item = F> + Clone,
    ) -> Batch {
        self.sampled(at);
        let keep_series = self.keep_series;
        let mut values = Vec::new();
        let mut note = |place, number, metric: &'static Quantity, value, keep| {
            values.push(Observed { place, number, metric, value, keep });
        };
        for (place, p) in (0u32..).zip(self.sampled_ports.iter()).filter(|(_, p)| keep_series && own(**p)) {
            look(&ports[*p as usize], &mut |metric, value| note((0, place), *p, metric, value, true));
        }
        for flow in flows.clone() {
            let (number, keep) = (flow.number(), flow.has_place());
            flow.observe(&mut |metric, value| {
                if keep || metric.is(&ALPHA) || metric.is(&CWND) {
                    note((1, number), number, metric, value, keep);
                }
            });
        }
        for flow in flows.filter(|_| keep_series) {
            let number = flow.number();
            flow.observe_group(&mut |metric, value| note((2, number), number, metric, value, true));
        }
        Batch { at, measuring: self.measuring, values }
    }
    /// Records the samples of all parts, of which each has every time.
    pub fn record_batches(&mut self, batches: &mut Vec<Batch>) {
        // Parts come in their order, and a port or a flow is in one of them.
        batches.sort_by_key(|batch| batch.at);
        let mut rest = batches.drain(..).peekable();
        while let Some(Batch { at, measuring, mut values }) = rest.next() {
            while let Some(other) = rest.next_if(|other| other.at == at) {
                values.extend(other.values);
            }
            values.sort_by_key(|observed| observed.place);
            for Observed { place: (kind, _), number, metric, value, keep } in values {
                if kind == 1 && measuring {
                    if metric.is(&ALPHA) {
                        self.alpha.add(value);
                    } else if metric.is(&CWND) && value < UNLIMITED {
                        self.cwnd.add(value);
                    }
                }
                if keep {
                    let entity = if kind == 0 { Entity::Port } else { Entity::Flow };
                    self.row(Sample { at, entity, number, metric, value });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_core::tcp::TimeoutKind;
    use penstock_units::Dur;

    fn stamp(at: u64, step: u8, order: u64, count: u64) -> Stamp {
        Stamp { at: Time(at), step, order, count }
    }
    fn write(started: u64) -> Transfer {
        let (started, due) = (Time(started), Time::NEVER);
        Transfer { end: 10, started, bytes: 10, tag: 0, delivered: started, due, ideal: 1.0 }
    }

    /// Three tenths, summed in another order, are not the same number.
    #[test]
    fn sums_are_made_in_the_order_of_stamps_whatever_the_part() {
        let times = [100_000_000_000, 700_000_000_000, 1_300_000_000_000];
        let mut whole = Recorder::default();
        for at in times {
            whole.transfer(7, &write(0), Time(at));
        }
        let mut parts = vec![Journal::default(), Journal::default()];
        for (i, at) in [2, 0, 1].into_iter().map(|i| (i, times[i])) {
            let stamp = stamp(at, step::ARRIVALS, 3, i as u64);
            parts[i % 2].entries.push((stamp, Entry::Transfer(7, write(0))));
        }
        let mut divided = Recorder::default();
        divided.replay(parts);
        assert_eq!(divided.transfer_totals.seconds.to_bits(), whole.transfer_totals.seconds.to_bits());
        let acked = |r: &Recorder| r.transfers.iter().map(|t| t.acked).collect::<Vec<_>>();
        assert_eq!(acked(&divided), acked(&whole));
    }

    /// Drops count where they lie before the event: at one instant by step, port and count.
    #[test]
    fn an_event_counts_the_packets_lost_before_it() {
        let record = TimeoutRecord {
            kind: TimeoutKind::Repeated,
            block_start: false,
            block_offset: 0,
            outstanding: 5,
            cwnd: 10,
            rto: Dur(5),
            in_a_row: 1,
        };
        let timeout = |at| (at, Entry::Timeout { flow: 1, record, drops: 0, lost: 11 });
        let entries =
            vec![timeout(stamp(50, step::DEADLINES, 9, 4)), timeout(stamp(50, step::DEADLINES, 9, 6))];
        let drops = vec![(1, stamp(50, step::DEADLINES, 9, 5))];
        let own = Journal { entries, drops, ..Journal::default() };
        let drops = [(1, 40, 0), (1, 50, 0), (1, 50, 2), (1, 60, 0), (2, 10, 0), (0, 10, 0)];
        let drops = drops.map(|(flow, at, step)| (flow, stamp(at, step, 1, 0))).to_vec();
        let other = Journal { drops, ..Journal::default() };
        let mut recorder = Recorder::default();
        recorder.replay(vec![own, other]);
        assert_eq!(recorder.events.iter().map(|e| (e.drops, e.lost)).collect::<Vec<_>>(), [(2, 11), (3, 11)]);
    }

    /// A connection with its ends in two parts: counters of both, from the end of warm-up on.
    #[test]
    fn the_halves_of_a_connection_are_joined() {
        let counters = |acked_bytes, delivered_bytes| FlowCounters {
            acked_bytes,
            delivered_bytes,
            arrived_bytes: delivered_bytes,
            ..FlowCounters::default()
        };
        let left = Leaving {
            totals: FlowCounters::default(),
            idle_rtt: 1.0,
            owes: false,
            unfinished: 0,
            unfinished_bytes: 0,
            since: Time::ZERO,
        };
        let record = FlowRecord { flow: 3, established: true, closed: Time(90), ..FlowRecord::default() };
        let over = Over { record, totals: counters(100, 0), baseline: counters(40, 0), left };
        let sender = Journal {
            entries: vec![(stamp(90, step::ARRIVALS, 0, 0), Entry::Over(0))],
            overs: vec![over],
            drops: vec![(3, stamp(20, 0, 0, 0)), (3, stamp(70, 0, 0, 0)), (3, stamp(95, 0, 0, 0))],
            ..Journal::default()
        };
        let totals = FlowCounters { duplicate_bytes: 9, ..counters(0, 100) };
        let baseline = FlowCounters { duplicate_bytes: 1, ..counters(0, 35) };
        let half = Half { flow: 3, totals, baseline };
        let receiver = Journal { halves: vec![half], ..Journal::default() };
        let mut recorder = Recorder::default();
        recorder.start(Time(50));
        recorder.replay(vec![receiver, sender]);
        let row = &recorder.flows[0];
        assert_eq!((row.acked_bytes, row.delivered_bytes, row.duplicate_bytes, row.drops), (60, 65, 8, 1));
    }
}
