//! What a part of a divided run records, so that the whole can be told in the order of a run that is not divided.
//!
//! A recorder makes rows and sums in the order of events. A part knows its own events only: it writes down what it would have told the recorder
//! with a [`EventKey`], and [`Recorder::replay`] tells it all in order. What two parts know of one connection, and packets lost on the way, are
//! joined then.

use super::joining::Row;
use super::series::{look, DROPS, HOST, UNLIMITED};
use super::tally::{Block, Tally};
use super::{Entity, FlowCounters, FlowRecord, Leaving, Recorder, Sample, Sampled, Transfer};
use penstock_core::quantity::{ALPHA, CWND};
use penstock_core::tcp::TimeoutRecord;
use penstock_core::Quantity;
use penstock_fabric::{Pause, Port};
use penstock_units::Time;
use std::collections::{BTreeMap, BTreeSet};

/// Place of something in the order of events that `events.rs` has, whichever part it is in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct EventKey {
    /// When.
    pub at: Time,
    /// How often an event of this instant has brought about one of an earlier step of the same instant.
    pub level: u16,
    /// Which step of that time: [`phase`].
    pub phase: u8,
    /// Port, deadline or application, as it orders simultaneous events.
    pub order: u64,
    /// Of a message between applications: how many its sender had sent before.
    pub minor: u64,
    /// Count within the part. No two parts have the same of all before.
    pub count: u64,
}

/// The steps of one instant.
pub mod phase {
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
    /// What it had counted at the end of warm-up.
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
        /// When, where the host was behind.
        at: Time,
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
        /// When, where the host was behind.
        at: Time,
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
    /// A connection is over: which of [`EventLog::overs`].
    Over(u32),
    /// A block of a workload begins that has this number.
    Begin(u32, u64, Block),
    /// A part of it is complete.
    Part(u32, u64),
    /// An application of a workload has nothing more to do.
    Done(u32),
}

/// A connection opens.
pub struct Opened {
    /// When.
    pub event_key: EventKey,
    /// Its number.
    pub flow: u32,
    /// Host it leads to.
    pub dst: u32,
}

/// The sender of a connection is done.
pub struct Closing {
    /// When.
    pub event_key: EventKey,
    /// Its number.
    pub flow: u32,
}

/// A packet is lost.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Lost {
    /// Row of its connection; in one of several parts its number.
    pub row: u32,
    /// When.
    pub event_key: EventKey,
    /// Its number.
    pub flow: u32,
}

/// What the part of a receiver knows of a connection that has its sender in another.
pub struct HalfRow {
    /// Its number.
    pub flow: u32,
    /// All it ever counted.
    pub totals: FlowCounters,
    /// What it had counted at the end of warm-up.
    pub baseline: FlowCounters,
}

/// What one part has written down.
#[derive(Default)]
pub struct EventLog {
    /// In the order of their stamps.
    pub entries: Vec<(EventKey, Entry)>,
    /// Connections that are over, in one piece: the thread that reads them has nothing to give back to another's stock of memory one by one.
    pub overs: Vec<Over>,
    /// Packets lost, by flow.
    pub drops: Vec<Lost>,
    /// Connections that have opened, of one of several parts, and senders that were done, where series of flows are kept. What a sample has taken along is
    /// not here any more.
    pub openings: Vec<Opened>,
    /// See [`Self::openings`].
    pub closings: Vec<Closing>,
    /// What it knows of connections that others have written down.
    pub halves: Vec<HalfRow>,
}

impl EventLog {
    /// Nothing has been written down.
    pub fn is_empty(&self) -> bool {
        let EventLog { entries, drops, openings, closings, .. } = self;
        entries.is_empty() && drops.is_empty() && openings.is_empty() && closings.is_empty()
    }
}

/// What becomes of the workloads of several parts together.
pub struct Blocks {
    tallies: Vec<Tally>,
    /// By workload: applications that have something to do.
    left: Vec<usize>,
    over: BTreeSet<u32>,
    over_at: Time,
}

impl Blocks {
    /// Of workloads with these tallies, and so many applications each.
    pub fn new(tallies: Vec<Tally>, apps: impl Iterator<Item = usize>) -> Blocks {
        Blocks { tallies, left: apps.collect(), over: BTreeSet::new(), over_at: Time::NEVER }
    }
    /// The tallies, the workloads whose receivers have everything, and when that was true of all.
    pub fn take(self) -> (Vec<Tally>, BTreeSet<u32>, Time) {
        (self.tallies, self.over, self.over_at)
    }
    /// When the receivers of all workloads had everything.
    pub fn over_at(&self) -> Time {
        self.over_at
    }
    fn on_over(&mut self, workload: u32, at: Time) {
        if self.over.insert(workload) && self.over.len() == self.tallies.len() {
            self.over_at = at;
        }
    }
}

impl Recorder {
    /// Connections have opened, and senders were done, up to some time: all of all parts. They get their rows and their places.
    fn open(&mut self, mut openings: Vec<Opened>, mut closings: Vec<Closing>) {
        openings.sort_unstable_by_key(|opened| opened.event_key);
        closings.sort_unstable_by_key(|closing| closing.event_key);
        let mut closings = closings.into_iter().peekable();
        for Opened { event_key, flow, .. } in openings {
            while let Some(Closing { flow, .. }) = closings.next_if(|closing| closing.event_key < event_key) {
                self.close(flow);
            }
            let has_place = self.take_place();
            let Some(joining) = self.joining.as_deref_mut() else { return };
            *joining.rows.entry(flow) = Row { number: joining.next, has_place };
            joining.next += 1;
        }
        closings.for_each(|closing| self.close(closing.flow));
    }
    fn close(&mut self, flow: u32) {
        if self.joining.as_deref().is_some_and(|joining| joining.row(flow).has_place) {
            self.give_back();
        }
    }
    /// The rows of all connections are known.
    pub fn renumber_deliveries(&mut self) {
        if let (Some(deliveries), Some(joining)) = (self.deliveries.as_deref_mut(), self.joining.as_deref()) {
            deliveries.renumber(|flow| joining.row(flow).number);
        }
    }
    /// Records what all parts have written down; what became of their workloads is told to `blocks`.
    pub fn replay(&mut self, event_logs: Vec<EventLog>, mut blocks: Option<&mut Blocks>) {
        let mut event_logs = event_logs.into_iter();
        let mut all = event_logs.next().unwrap_or_default();
        for event_log in event_logs {
            let before = all.overs.len() as u32;
            all.entries.extend(event_log.entries.into_iter().map(|(event_key, entry)| match entry {
                Entry::Over(number) => (event_key, Entry::Over(before + number)),
                other => (event_key, other),
            }));
            all.overs.extend(event_log.overs);
            all.drops.extend(event_log.drops);
            all.halves.extend(event_log.halves);
            all.openings.extend(event_log.openings);
            all.closings.extend(event_log.closings);
        }
        self.open(std::mem::take(&mut all.openings), std::mem::take(&mut all.closings));
        let EventLog { mut entries, mut overs, mut drops, mut halves, .. } = all;
        if let Some(joining) = self.joining.as_deref() {
            let row = |flow: &mut u32| *flow = joining.row(*flow).number;
            overs.iter_mut().for_each(|over| row(&mut over.record.flow));
            drops.iter_mut().for_each(|drop| row(&mut drop.row));
            halves.iter_mut().for_each(|half| row(&mut half.flow));
            for (_, entry) in &mut entries {
                match entry {
                    Entry::Transfer(flow, _)
                    | Entry::Timeout { flow, .. }
                    | Entry::FastRetransmit { flow, .. } => row(flow),
                    Entry::Over(_)
                    | Entry::Pause(_)
                    | Entry::Begin(..)
                    | Entry::Part(..)
                    | Entry::Done(_) => {}
                }
            }
        }
        for (event_key, entry) in &mut entries {
            if let (phase::END, Entry::Over(number)) = (event_key.phase, entry) {
                event_key.order = 1 + u64::from(overs[*number as usize].record.flow);
            }
        }
        drops.iter().for_each(|drop| self.lost_before(drop.event_key.at, drop.row));
        entries.sort_by_key(|(event_key, _)| *event_key);
        drops.sort_unstable();
        halves.sort_unstable_by_key(|half| half.flow);
        let first_of = |row: u32| drops.partition_point(|drop| drop.row < row);
        let lost_before = |row: u32, event_key: EventKey| {
            (drops.partition_point(|drop| (drop.row, drop.event_key) < (row, event_key)) - first_of(row))
                as u64
        };
        let (measuring, from) = (self.measuring, self.from);
        for (event_key, entry) in entries {
            self.measuring = measuring && event_key.at >= from;
            let at = event_key.at;
            match entry {
                Entry::Transfer(flow, write) => self.transfer(flow, &write, at),
                Entry::Pause(pause) => self.pause(pause.at, pause.port, pause.priority, pause.on),
                Entry::Timeout { at, flow, record, drops, lost } => {
                    self.timeout(at, flow, &record, drops + lost_before(flow, event_key), lost);
                }
                Entry::FastRetransmit { at, flow, outstanding, cwnd, drops, lost } => {
                    let drops = drops + lost_before(flow, event_key);
                    self.fast_retransmit(at, flow, outstanding, cwnd, drops, lost);
                }
                Entry::Over(number) => {
                    let Over { ref record, mut totals, mut baseline, mut left } = overs[number as usize];
                    let flow = record.flow;
                    if let Ok(half) = halves.binary_search_by_key(&flow, |half| half.flow) {
                        totals.add(&halves[half].totals);
                        baseline.add(&halves[half].baseline);
                    }
                    totals.drops += lost_before(flow, event_key);
                    if measuring {
                        // Of a connection that closed before, nothing is measured: what was lost after that counts on neither side.
                        // What a card has lost at the end of the warm-up itself, which has no count, was lost before.
                        let begin = EventKey { at: from, count: 1, ..EventKey::default() }.min(event_key);
                        baseline.drops += lost_before(flow, begin);
                    }
                    left.totals = totals;
                    self.flow(record.clone(), &totals.since(&baseline), &left);
                }
                Entry::Begin(..) | Entry::Part(..) | Entry::Done(_) => {
                    if let Some(blocks) = blocks.as_deref_mut() {
                        self.count_block(at, entry, blocks);
                    }
                }
            }
        }
        self.measuring = measuring;
    }
    /// A block begins, a part of one is complete, or an application has nothing more to do.
    fn count_block(&mut self, at: Time, entry: Entry, blocks: &mut Blocks) {
        match entry {
            Entry::Begin(workload, number, block) => blocks.tallies[workload as usize].begin(number, block),
            Entry::Part(workload, number) => {
                let tally = &mut blocks.tallies[workload as usize];
                let Some(Block { started, bytes, bus, .. }) = tally.part(number) else { return };
                if self.measuring {
                    self.block(started, at, bytes, bus);
                }
                if blocks.tallies[workload as usize].is_over() {
                    blocks.on_over(workload, at);
                }
            }
            Entry::Done(workload) => {
                blocks.left[workload as usize] -= 1;
                if blocks.left[workload as usize] == 0 {
                    blocks.on_over(workload, at);
                }
            }
            _ => {}
        }
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

/// Losses by destination: when, and the receiving host. In order of time.
pub type LostTo = Vec<(Time, u32)>;

/// The packets that all parts have lost of flows that were open then.
pub fn lost_to(event_logs: &[EventLog]) -> LostTo {
    let overs = event_logs.iter().flat_map(|log| log.entries.iter().map(move |entry| (log, entry)));
    let over = overs.filter_map(|(log, (event_key, entry))| match entry {
        Entry::Over(number) => {
            let record = &log.overs[*number as usize].record;
            Some((record.flow, (*event_key, record.dst)))
        }
        _ => None,
    });
    let over: BTreeMap<u32, (EventKey, u32)> = over.collect();
    let drops = event_logs.iter().flat_map(|log| &log.drops);
    let counts = |drop: &Lost| over.get(&drop.row).filter(|(end, _)| drop.event_key < *end);
    let mut lost: LostTo =
        drops.filter_map(|drop| counts(drop).map(|(_, dst)| (drop.event_key.at, *dst))).collect();
    lost.sort_unstable();
    lost
}

/// The kind of place of what is summed by destination.
const HOSTS: u8 = 3;

/// A value sampled in a part.
#[derive(Clone, Copy, Debug)]
pub struct Observed {
    /// Ports come first, then flows, then what is above flows, then receiving hosts; the place or number within these.
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
    /// What has opened and closed since the sample before, of one of several parts.
    pub openings: Vec<Opened>,
    /// See [`Self::openings`].
    pub closings: Vec<Closing>,
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
        let (keep_series, later) = (self.keep_series, self.keep_series && self.joins_later);
        let mut values = Vec::new();
        let mut note = |place, number, metric: &'static Quantity, value, keep| {
            values.push(Observed { place, number, metric, value, keep });
        };
        for (place, p) in (0u32..).zip(self.sampled_ports.iter()).filter(|(_, p)| keep_series && own(**p)) {
            look(&ports[*p as usize], &mut |metric, value| note((0, place), *p, metric, value, true));
        }
        for flow in flows.clone() {
            let (number, keep) = (flow.row(), flow.has_place());
            flow.observe(&mut |metric, value| {
                if keep || later || metric.is(&ALPHA) || metric.is(&CWND) {
                    note((1, number), number, metric, value, keep);
                }
            });
        }
        // An end that is elsewhere counts there.
        let totals = (keep_series && self.by_destination).then(|| {
            let mut totals = self.over.clone();
            let add = |flow: F| totals.entry(flow.destination()).or_default().add(&flow.counters());
            flows.clone().for_each(add);
            totals
        });
        for flow in flows.filter(|_| keep_series) {
            let number = flow.row();
            flow.observe_group(&mut |metric, value| note((2, number), number, metric, value, true));
        }
        for (host, c) in totals.unwrap_or_default() {
            let values = [c.delivered_bytes, c.retransmits, c.timeouts, c.drops];
            for (i, (metric, value)) in (0..).zip(HOST.iter().zip(values)) {
                note((HOSTS, HOST.len() as u32 * host + i), host, metric, value as f64, true);
            }
        }
        let (openings, closings) = Default::default();
        Batch { at, measuring: self.measuring, values, openings, closings }
    }
    /// A connection is over, or an end of one. Samples by destination go on to count it.
    pub fn count_over(&mut self, dst: u32, totals: &FlowCounters) {
        if self.by_destination {
            self.over.entry(dst).or_default().add(totals);
        }
    }
    /// Records the samples of all parts, of which each has every time. Where series are by destination, `lost` has all losses of the run.
    pub fn record_batches(&mut self, batches: &mut Vec<Batch>, lost: &LostTo) {
        let mut lost = lost.iter().copied().peekable();
        let mut lost_to: BTreeMap<u32, u64> = BTreeMap::new();
        // Parts come in their order, and a port or a flow is in one of them.
        batches.sort_by_key(|batch| batch.at);
        let mut rest = batches.drain(..).peekable();
        while let Some(Batch { at, measuring, mut values, mut openings, mut closings }) = rest.next() {
            while let Some(other) = rest.next_if(|other| other.at == at) {
                values.extend(other.values);
                openings.extend(other.openings);
                closings.extend(other.closings);
            }
            self.open(openings, closings);
            if let Some(joining) = self.joining.as_deref() {
                for value in values.iter_mut().filter(|value| matches!(value.place.0, 1..HOSTS)) {
                    let Row { number, has_place } = joining.row(value.number);
                    (value.place.1, value.number) = (number, number);
                    value.keep = has_place || value.place.0 > 1;
                }
            }
            values.sort_by_key(|observed| observed.place);
            // Each part has counted the ends that it has.
            values.dedup_by(|next, first| {
                let same = next.place.0 == HOSTS && next.place == first.place;
                first.value += if same { next.value } else { 0.0 };
                same
            });
            while let Some((_, dst)) = lost.next_if(|(when, _)| *when <= at) {
                *lost_to.entry(dst).or_default() += 1;
            }
            for Observed { place: (kind, _), number, metric, mut value, keep } in values {
                if kind == HOSTS && metric.is(&DROPS) {
                    value += lost_to.get(&number).copied().unwrap_or_default() as f64;
                }
                if kind == 1 && measuring {
                    if metric.is(&ALPHA) {
                        self.alpha.add(value);
                    } else if metric.is(&CWND) && value < UNLIMITED {
                        self.cwnd.add(value);
                    }
                }
                if keep {
                    let entity = match kind {
                        0 => Entity::Port,
                        HOSTS => Entity::Host,
                        _ => Entity::Flow,
                    };
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

    fn event_key(at: u64, phase: u8, order: u64, count: u64) -> EventKey {
        EventKey { at: Time(at), phase, order, count, ..EventKey::default() }
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
        let mut parts = vec![EventLog::default(), EventLog::default()];
        for (i, at) in [2, 0, 1].into_iter().map(|i| (i, times[i])) {
            let event_key = event_key(at, phase::ARRIVALS, 3, i as u64);
            parts[i % 2].entries.push((event_key, Entry::Transfer(7, write(0))));
        }
        let mut divided = Recorder::default();
        divided.replay(parts, None);
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
        let timeout = |event_key: EventKey| {
            (event_key, Entry::Timeout { at: event_key.at, flow: 1, record, drops: 0, lost: 11 })
        };
        let entries = vec![
            timeout(event_key(50, phase::DEADLINES, 9, 4)),
            timeout(event_key(50, phase::DEADLINES, 9, 6)),
        ];
        let drop = |flow, event_key| Lost { row: flow, event_key, flow };
        let drops = vec![drop(1, event_key(50, phase::DEADLINES, 9, 5))];
        let own = EventLog { entries, drops, ..EventLog::default() };
        let drops = [(1, 40, 0), (1, 50, 0), (1, 50, 2), (1, 60, 0), (2, 10, 0), (0, 10, 0)];
        let drops = drops.map(|(flow, at, phase)| drop(flow, event_key(at, phase, 1, 0))).to_vec();
        let other = EventLog { drops, ..EventLog::default() };
        let mut recorder = Recorder::default();
        recorder.replay(vec![own, other], None);
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
        let sender = EventLog {
            entries: vec![(event_key(90, phase::ARRIVALS, 0, 0), Entry::Over(0))],
            overs: vec![over],
            drops: [20, 70, 95]
                .map(|at| Lost { row: 3, event_key: event_key(at, 0, 0, 0), flow: 3 })
                .to_vec(),
            ..EventLog::default()
        };
        let totals = FlowCounters { duplicate_bytes: 9, ..counters(0, 100) };
        let baseline = FlowCounters { duplicate_bytes: 1, ..counters(0, 35) };
        let half = HalfRow { flow: 3, totals, baseline };
        let receiver = EventLog { halves: vec![half], ..EventLog::default() };
        let mut recorder = Recorder::default();
        recorder.start(Time(50));
        recorder.replay(vec![receiver, sender], None);
        let row = &recorder.flows[0];
        assert_eq!((row.acked_bytes, row.delivered_bytes, row.duplicate_bytes, row.drops), (60, 65, 8, 1));
    }
}
