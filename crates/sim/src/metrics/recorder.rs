//! The recorder of a run.

use super::joining::Joining;
use super::open::Open;
use super::{
    Deliveries, Event, FlowCounters, FlowRecord, FlowTotals, Leaving, LeftOut, Mean, Memory, Rows, Series,
    Transfer, TransferRecord, TransferTotals, What, MAX_ROWS,
};
use penstock_core::host::Transition;
use penstock_core::tcp::{TimeoutKind, TimeoutRecord};
use penstock_core::Quantity;
use penstock_units::{Dur, Time};
use std::collections::BTreeMap;

/// Collects tables during a run.
pub struct Recorder {
    /// Sampling interval; `None` = no samples.
    pub interval: Option<Dur>,
    /// Ports whose queue is sampled.
    pub sampled_ports: Vec<u32>,
    /// Record the series table (otherwise samples only feed means).
    pub keep_series: bool,
    /// Places in the series table for flows that are open at the same time; the means count all open flows.
    pub series_flows: u32,
    /// The scenario has places for its own first flows only: that others have none is no news.
    pub(super) own_flows_only: bool,
    /// Places taken.
    pub(super) places: u32,
    /// Of one of several parts: rows and places are given when the parts are joined.
    pub joins_later: bool,
    /// Of the first of several parts.
    pub joining: Option<Box<Joining>>,
    /// Flows that found no place.
    pub without_place: u64,
    /// What the scenario found out while it was built: keys of the summary.
    pub facts: Vec<(&'static Quantity, f64)>,
    /// Sample the counters of all flows, summed by the host they lead to.
    pub by_destination: bool,
    /// There are controllers above connections, which report what they know of each.
    pub grouped: bool,
    /// Counters of connections that are over, by destination.
    pub(super) over: BTreeMap<u32, FlowCounters>,
    pub(super) next: Option<Time>,
    pub(super) open: Open,
    /// Warm-up is over.
    pub(super) measuring: bool,
    /// Start of the measured window.
    pub from: Time,
    /// End of the run.
    pub until: Time,
    /// Most rows of each table.
    pub max_rows: usize,
    /// How much of the tables may be in memory; `None` = all, up to so many rows.
    memory: Option<Memory>,
    /// A loss is told of so much later than it happens, at most.
    pub late: Dur,
    /// When the last event came that counts losses.
    counted: Time,
    /// Flow table.
    pub flows: Rows<FlowRecord>,
    /// Sums over the flows of the window.
    pub flow_totals: FlowTotals,
    /// Completed writes.
    pub transfers: Rows<TransferRecord>,
    /// Sums over the completed writes of the window.
    pub transfer_totals: TransferTotals,
    /// Event table.
    pub events: Rows<Event>,
    /// Series table.
    pub series: Series,
    /// Completed blocks.
    pub blocks: u64,
    /// Bytes of completed blocks.
    pub block_bytes: u64,
    /// Sum of the times they took, seconds.
    pub block_seconds: f64,
    /// Of that, the time in which nothing happened until a delayed ACK left.
    pub ack_waits: Dur,
    /// Completed collective operations: how many, and the sums of their algorithm and bus bandwidths, bit/s.
    pub collectives: (u64, f64, f64),
    /// Mean of `alpha` over open flows and samples.
    pub alpha: Mean,
    /// Mean congestion window in bytes over open flows and samples.
    pub cwnd: Mean,
    /// Rows left out because a table was full.
    pub left_out: LeftOut,
    /// Record fast retransmits as events, not only timeouts.
    pub keep_losses: bool,
    /// Record pauses and resumes as events.
    pub keep_pauses: bool,
    /// Look at every packet: [`Deliveries`] are kept.
    pub keep_deliveries: bool,
    /// What became of every packet; there at the end of a run that keeps it.
    pub deliveries: Option<Box<Deliveries>>,
    /// SYNs dropped in the window.
    pub syn_drops: u64,
    /// Timeouts of SYNs in the window, and the sum of the times they took.
    pub syn_timeouts: (u64, Dur),
    /// Bytes offered in the window by open loops, and in how many writes, by sending and by receiving host.
    pub offered: [Vec<(u64, u64)>; 2],
}

impl Default for Recorder {
    fn default() -> Self {
        Recorder {
            interval: None,
            sampled_ports: Vec::new(),
            keep_series: false,
            series_flows: 0,
            own_flows_only: false,
            places: 0,
            joins_later: false,
            joining: None,
            without_place: 0,
            facts: Vec::new(),
            by_destination: false,
            grouped: true,
            over: BTreeMap::new(),
            next: None,
            open: Open::default(),
            measuring: false,
            from: Time::ZERO,
            until: Time::ZERO,
            max_rows: MAX_ROWS,
            memory: None,
            late: Dur::ZERO,
            counted: Time::ZERO,
            flows: Rows::compressed(),
            flow_totals: FlowTotals::default(),
            transfers: Rows::compressed(),
            transfer_totals: TransferTotals::default(),
            events: Rows::default(),
            series: Series::default(),
            blocks: 0,
            block_bytes: 0,
            block_seconds: 0.0,
            ack_waits: Dur::ZERO,
            collectives: (0, 0.0, 0.0),
            alpha: Mean::default(),
            cwnd: Mean::default(),
            left_out: LeftOut::default(),
            keep_losses: false,
            keep_pauses: false,
            keep_deliveries: false,
            deliveries: None,
            syn_drops: 0,
            syn_timeouts: (0, Dur::ZERO),
            offered: Default::default(),
        }
    }
}

/// A flow that was opened so many idle round trips ago should be established, and have something acknowledged.
const LONG: f64 = 10.0;

impl Recorder {
    /// Warm-up is over.
    pub fn start(&mut self, now: Time) {
        self.measuring = true;
        self.from = now;
    }
    /// The run is over.
    pub fn finish(&mut self, now: Time) {
        self.until = now;
        self.spill(true);
        self.flows.put_in_places();
    }
    /// Keeps no more than this of the tables in memory, and in return every row of them.
    pub fn bound(&mut self, memory: Memory) {
        self.memory = Some(memory);
        self.max_rows = usize::MAX;
    }
    /// Rows were added.
    #[inline]
    pub(super) fn grown(&mut self) {
        if self.memory.is_some() {
            self.spill(false);
        }
    }
    /// Moves tables to disk where they take too much; at the end of the run the rest of those that have some there.
    #[cold]
    fn spill(&mut self, at_end: bool) {
        let Recorder {
            memory: Some(Memory { bytes, folder }), flows, transfers, events, series, late, ..
        } = self
        else {
            return;
        };
        let all = !at_end && flows.bytes() + transfers.bytes() + events.bytes() + series.bytes() > *bytes;
        macro_rules! spilled {
            ($($table:ident),*) => {$(if all && !$table.is_empty() || at_end && $table.on_disk() {
                $table.spill(folder);
            })*};
        }
        // Events of the last instant may still have to change places, and a loss before an event may still be told of.
        let mut open: Vec<Event> = Vec::new();
        if all {
            while let Some(event) =
                events.pop_if(|event| open.first().is_none_or(|last| last.at <= event.at + *late))
            {
                open.push(event);
            }
        }
        spilled!(flows, transfers, events, series);
        open.into_iter().rev().for_each(|event| events.push(event));
    }
    #[inline]
    pub(super) fn room(rows: usize, most: usize, left_out: &mut u64) -> bool {
        if rows < most {
            return true;
        }
        *left_out += 1;
        false
    }
    /// An application that does not wait for its earlier writes makes one of `bytes`.
    pub fn offer(&mut self, src: u32, dst: u32, bytes: u64) {
        if self.measuring {
            for (sums, host) in self.offered.iter_mut().zip([src, dst]) {
                let at = host as usize;
                if at >= sums.len() {
                    sums.resize(at + 1, (0, 0));
                }
                let sum = &mut sums[at];
                sum.0 += bytes;
                sum.1 += 1;
            }
        }
    }
    /// A connection is over, or the run is. What ended before the warm-up did has a row, and counts nowhere.
    pub fn flow(&mut self, mut record: FlowRecord, measured: &FlowCounters, left: &Leaving) {
        if self.by_destination {
            self.over.entry(record.dst).or_default().add(&left.totals);
        }
        if self.measuring && record.closed >= self.from {
            record.count(measured);
            let sums = &mut self.flow_totals;
            sums.flows += 1;
            sums.opened += u64::from(record.opened >= self.from);
            sums.completed += u64::from(record.complete);
            sums.counters.add(measured);
            sums.squares += u128::from(measured.acked_bytes) * u128::from(measured.acked_bytes);
            sums.longest_rtt = sums.longest_rtt.max(left.idle_rtt).max(record.srtt.as_secs());
            let patience = LONG * left.idle_rtt;
            if !record.established && record.closed.since(record.opened).as_secs() > patience {
                sums.not_established += 1;
            } else if record.open_at_end && left.owes && measured.acked_bytes == 0 {
                let since = left.since.max(self.from).max(record.opened);
                sums.starved += u64::from(record.closed.since(since).as_secs() > patience);
            }
            if record.open_at_end && left.unfinished > 0 {
                let sums = &mut self.transfer_totals;
                sums.unfinished += left.unfinished;
                sums.unfinished_bytes += left.unfinished_bytes;
                sums.oldest = sums.oldest.max(record.closed.since(left.since).as_secs());
            }
        }
        if Self::room(self.flows.len(), self.max_rows, &mut self.left_out.flows) {
            self.flows.push(record);
            self.grown();
        }
    }
    /// A write is acknowledged.
    pub fn transfer(&mut self, flow: u32, w: &Transfer, acked: Time) {
        let (started, delivered, bytes, due, ideal) = (w.started, w.delivered, w.bytes, w.due, w.ideal);
        let record = TransferRecord { flow, started, delivered, acked, bytes, due, ideal };
        let sums = &mut self.transfer_totals;
        sums.count += 1;
        sums.bytes += bytes;
        sums.seconds += record.fct();
        sums.longest = sums.longest.max(record.fct());
        if due != Time::NEVER {
            sums.due += 1;
            sums.met += u64::from(acked <= due);
        }
        if Self::room(self.transfers.len(), self.max_rows, &mut self.left_out.transfers) {
            self.transfers.push(record);
            self.grown();
        }
    }
    /// Something has happened: rows are in the order of time and of what it happened to, in whichever order hosts and switches told of one instant.
    fn event(&mut self, event: Event) {
        let full = self.events.len() >= self.max_rows;
        if full {
            self.left_out.events += 1;
            let last = self.events.last_mut().filter(|last| event.order() < last.order());
            let Some(last) = last else { return };
            *last = event;
        } else {
            self.events.push(event);
        }
        self.events.settle_last(Event::order);
        self.grown();
    }
    /// A packet of the flow with this row was lost at `at`, which some events that have been recorded come after: a port tells of a loss when it is next
    /// replayed.
    pub fn lost_before(&mut self, at: Time, flow: u32) {
        if at > self.counted {
            return;
        }
        let since = self.events.iter_back_mut().take_while(|event| event.at >= at);
        for event in since.filter(|event| event.flow == flow) {
            if matches!(event.what, What::Timeout(_) | What::FastRetransmit) {
                event.drops += 1;
            }
        }
    }
    /// A timeout has fired.
    pub fn timeout(&mut self, at: Time, flow: u32, t: &TimeoutRecord, drops: u64, lost: u64) {
        if t.kind == TimeoutKind::Syn {
            self.syn_timeouts.0 += 1;
            self.syn_timeouts.1 += t.rto;
        }
        self.counted = self.counted.max(at);
        self.event(Event {
            at,
            flow,
            what: What::Timeout(t.kind),
            block_start: t.block_start,
            offset: t.block_offset,
            outstanding: t.outstanding,
            cwnd: t.cwnd,
            length: t.rto,
            in_a_row: t.in_a_row,
            drops,
            lost,
        });
    }
    /// A fast retransmit has begun; recorded only when asked for.
    pub fn fast_retransmit(
        &mut self,
        at: Time,
        flow: u32,
        outstanding: u64,
        cwnd: u64,
        drops: u64,
        lost: u64,
    ) {
        if self.keep_losses {
            self.counted = self.counted.max(at);
            let event = Event::new(at, flow, What::FastRetransmit);
            self.event(Event { outstanding, cwnd, drops, lost, ..event });
        }
    }
    /// A port stops a priority for a pause frame, or lets it go on; recorded only when asked for.
    pub fn pause(&mut self, at: Time, port: u32, priority: u8, on: bool) {
        if self.keep_pauses {
            let event = Event::new(at, u32::MAX, if on { What::Pause } else { What::Resume });
            self.event(Event { offset: u64::from(port), in_a_row: u32::from(priority), ..event });
        }
    }
    /// A connection has changed its state under collective control.
    pub fn transition(&mut self, t: &Transition) {
        self.event(Event::new(t.at, t.flow.0, What::Change(t.what)));
    }
    /// A unit of application work that ran from `started` until now is complete. A collective operation has a bandwidth, and one of the bus
    /// that is `bus` times that.
    pub fn block(&mut self, started: Time, now: Time, bytes: u64, bus: Option<f64>) {
        self.blocks += 1;
        self.block_bytes += bytes;
        self.block_seconds += (now - started).as_secs();
        if let Some(bus) = bus {
            let rate = bytes as f64 * 8.0 / (now - started).as_secs();
            let (count, algorithm, on_bus) = self.collectives;
            self.collectives = (count + 1, algorithm + rate, on_bus + rate * bus);
        }
        let event = Event::new(now, u32::MAX, What::Block);
        self.event(Event { offset: bytes, length: now - started, ..event });
    }
    /// An empty one that samples the same things.
    pub fn like(&self) -> Recorder {
        Recorder {
            interval: self.interval,
            sampled_ports: self.sampled_ports.clone(),
            keep_series: self.keep_series,
            series_flows: self.series_flows,
            own_flows_only: self.own_flows_only,
            ..Recorder::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hosts tell of one instant in any order, and of some instants late.
    #[test]
    fn events_of_one_instant_have_one_order_whoever_tells_first() {
        let record = |cwnd| TimeoutRecord {
            kind: TimeoutKind::WindowLost,
            block_start: false,
            block_offset: 0,
            outstanding: 0,
            cwnd,
            rto: Dur(5),
            in_a_row: 1,
        };
        let rows = |told: &[(u64, u32, u64)], most: usize| {
            let mut recorder = Recorder { max_rows: most, ..Recorder::default() };
            told.iter().for_each(|(at, flow, cwnd)| recorder.timeout(Time(*at), *flow, &record(*cwnd), 0, 0));
            let rows: Vec<_> = recorder.events.iter().map(|e| (e.at.0, e.flow, e.cwnd)).collect();
            (rows, recorder.left_out.events)
        };
        let one = [(10, 1, 0), (10, 2, 0), (20, 3, 0), (20, 3, 1), (20, 4, 0), (30, 1, 0)];
        let other = [(10, 2, 0), (10, 1, 0), (20, 4, 0), (30, 1, 0), (20, 3, 0), (20, 3, 1)];
        for most in [6, 4, 3, 1] {
            assert_eq!(rows(&one, most), (one[..most].to_vec(), 6 - most as u64));
            assert_eq!(rows(&other, most), rows(&one, most), "{most} rows");
        }
    }

    /// Losses at 10, 20 and 30 of flow 1: the first is told of in time, the others when the events after them have been recorded.
    #[test]
    fn a_loss_that_is_told_of_late_counts_in_the_events_after_it() {
        let mut recorder = Recorder { keep_losses: true, ..Recorder::default() };
        for (at, flow, drops) in [(15, 1, 1), (20, 1, 1), (25, 2, 0), (29, 1, 1), (40, 1, 1)] {
            recorder.fast_retransmit(Time(at), flow, 0, 0, drops, 0);
        }
        recorder.transition(&Transition { at: Time(41), flow: penstock_core::FlowId(1), what: "open" });
        recorder.lost_before(Time(30), 1);
        recorder.lost_before(Time(20), 1);
        recorder.lost_before(Time(50), 1);
        let drops: Vec<_> = recorder.events.iter().map(|event| event.drops).collect();
        assert_eq!(drops, [1, 2, 0, 2, 3, 0]);
    }
}
