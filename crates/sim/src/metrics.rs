//! What is recorded during a run, bounded by default.

use penstock_core::host::Transition;
use penstock_core::tcp::{TimeoutKind, TimeoutRecord};
use penstock_fabric::Port;
use penstock_units::{Dur, Time};
use std::collections::BTreeMap;

/// Most rows of a recorded table; a run that would exceed it says so instead of filling the memory.
pub const MAX_ROWS: usize = 4_000_000;

/// A write of an application: bytes that are to arrive together.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// Sequence number after its last byte.
    pub end: u64,
    /// When it was made.
    pub started: Time,
    /// Its bytes.
    pub bytes: u64,
    /// When the last byte was delivered in order; `NEVER` = not yet.
    pub delivered: Time,
    /// Deadline; `NEVER` = none.
    pub due: Time,
    /// Seconds it would take alone in the idle network; NaN = not known.
    pub ideal: f64,
}

/// Counters of a connection, or of many.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowCounters {
    /// Payload acknowledged.
    pub acked_bytes: u64,
    /// Payload delivered in order.
    pub delivered_bytes: u64,
    /// Data segments sent, retransmissions included.
    pub data_packets: u64,
    /// Retransmissions.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Fast retransmits.
    pub fast_retransmits: u64,
    /// ACKs with ECN-Echo.
    pub ece_acks: u64,
    /// Its packets dropped (data and ACKs).
    pub drops: u64,
}

impl FlowCounters {
    /// Adds another connection's.
    pub fn add(&mut self, other: &FlowCounters) {
        self.acked_bytes += other.acked_bytes;
        self.delivered_bytes += other.delivered_bytes;
        self.data_packets += other.data_packets;
        self.retransmits += other.retransmits;
        self.timeouts += other.timeouts;
        self.fast_retransmits += other.fast_retransmits;
        self.ece_acks += other.ece_acks;
        self.drops += other.drops;
    }
    /// What has been counted since `earlier`.
    pub fn since(&self, earlier: &FlowCounters) -> FlowCounters {
        let (a, b) = (self, earlier);
        FlowCounters {
            acked_bytes: a.acked_bytes - b.acked_bytes,
            delivered_bytes: a.delivered_bytes - b.delivered_bytes,
            data_packets: a.data_packets - b.data_packets,
            retransmits: a.retransmits - b.retransmits,
            timeouts: a.timeouts - b.timeouts,
            fast_retransmits: a.fast_retransmits - b.fast_retransmits,
            ece_acks: a.ece_acks - b.ece_acks,
            drops: a.drops - b.drops,
        }
    }
}

/// One row of the flow table. There may be millions: what happened is kept for the measured window only.
#[derive(Clone, Debug, Default)]
pub struct FlowRecord {
    /// Number.
    pub flow: u32,
    /// Sending host.
    pub src: u32,
    /// Receiving host.
    pub dst: u32,
    /// Position of its workload in the scenario.
    pub workload: u32,
    /// Its protocol, by position in the run's list.
    pub protocol: u16,
    /// When it was opened.
    pub opened: Time,
    /// When it was over, or the end of the run.
    pub closed: Time,
    /// Bytes it was opened with; 0 = without end or several writes.
    pub size: u64,
    /// Still open at the end of the run.
    pub open_at_end: bool,
    /// Closed, and every byte it was opened with was acknowledged.
    pub complete: bool,
    /// Its SYN was answered.
    pub established: bool,
    /// Writes completed.
    pub transfers: u32,
    /// Measured: payload acknowledged.
    pub acked_bytes: u64,
    /// Measured: payload delivered in order.
    pub delivered_bytes: u64,
    /// Measured: data segments sent, retransmissions included.
    pub data_packets: u64,
    /// Measured: ACKs with ECN-Echo.
    pub ece_acks: u64,
    /// Measured: retransmissions, at most 2^32 - 1 as the next three.
    pub retransmits: u32,
    /// Measured: retransmission timeouts.
    pub timeouts: u32,
    /// Measured: fast retransmits.
    pub fast_retransmits: u32,
    /// Measured: its packets dropped.
    pub drops: u32,
    /// Smoothed RTT at the end.
    pub srtt: Dur,
    /// Mean of its RTT samples; zero without one.
    pub rtt_mean: Dur,
    /// Payload that arrived more than once, in its whole life.
    pub duplicate_bytes: u64,
    /// Seconds from opening to the last acknowledgement, alone in the idle network; NaN = its size is not known.
    pub ideal: f64,
}

impl FlowRecord {
    /// Takes over what was counted in the measured window.
    pub fn count(&mut self, measured: &FlowCounters) {
        let narrow = |x: u64| u32::try_from(x).unwrap_or(u32::MAX);
        self.acked_bytes = measured.acked_bytes;
        self.delivered_bytes = measured.delivered_bytes;
        self.data_packets = measured.data_packets;
        self.ece_acks = measured.ece_acks;
        self.retransmits = narrow(measured.retransmits);
        self.timeouts = narrow(measured.timeouts);
        self.fast_retransmits = narrow(measured.fast_retransmits);
        self.drops = narrow(measured.drops);
    }
    /// Seconds from opening to closing; `None` when it is not complete.
    pub fn fct(&self) -> Option<f64> {
        self.complete.then(|| self.closed.since(self.opened).as_secs())
    }
    /// Completion time over that in the idle network; NaN when it is not complete or its size is not known.
    pub fn slowdown(&self) -> f64 {
        self.fct().map_or(f64::NAN, |fct| fct / self.ideal)
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
    /// Reports internal values of its sender by name and unit.
    fn observe(&self, report: &mut dyn FnMut(&'static str, f64));
    /// Reports what a controller above connections knows of it.
    fn observe_group(&self, report: &mut dyn FnMut(&'static str, f64));
}

/// What a connection leaves beside its row.
#[derive(Clone, Copy, Debug)]
pub struct Leaving {
    /// All it ever counted.
    pub totals: FlowCounters,
    /// Idle round-trip time of its path, seconds.
    pub idle_rtt: f64,
    /// Something written is not acknowledged.
    pub owes: bool,
    /// Writes not acknowledged to their last byte.
    pub unfinished: u64,
    /// When the oldest of them was made.
    pub since: Time,
}

/// Sums over the connections that were open in the measured window, kept beside the table, which may be cut short.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowTotals {
    /// Connections open at any time in the window.
    pub flows: u64,
    /// Of these, opened in the window.
    pub opened: u64,
    /// Of these, complete.
    pub completed: u64,
    /// Their counters.
    pub counters: FlowCounters,
    /// Sum of the squares of the bytes acknowledged.
    pub squares: u128,
    /// Opened for long and never established.
    pub not_established: u64,
    /// With something to send for long, and nothing acknowledged in the window.
    pub starved: u64,
    /// Longest round-trip time: idle or smoothed, seconds.
    pub longest_rtt: f64,
}

/// Sums over the completed writes of the measured window, kept beside their table.
#[derive(Clone, Copy, Debug, Default)]
pub struct TransferTotals {
    /// Completed.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Sum of their completion times, seconds.
    pub seconds: f64,
    /// Longest completion time, seconds.
    pub longest: f64,
    /// With a deadline.
    pub due: u64,
    /// Of these, done by then.
    pub met: u64,
    /// Not complete at the end of the run.
    pub unfinished: u64,
    /// Age of the oldest of these, seconds.
    pub oldest: f64,
}

/// Rows left out because a table was full.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeftOut {
    /// Of the flow table.
    pub flows: u64,
    /// Of the transfer table.
    pub transfers: u64,
    /// Of the event table.
    pub events: u64,
    /// Of the series table.
    pub series: u64,
}

impl LeftOut {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.flows + self.transfers + self.events + self.series
    }
}

/// A completed write.
#[derive(Clone, Copy, Debug)]
pub struct TransferRecord {
    /// Connection.
    pub flow: u32,
    /// When it was made.
    pub started: Time,
    /// When its last byte was delivered.
    pub delivered: Time,
    /// When its last byte was acknowledged.
    pub acked: Time,
    /// Its bytes.
    pub bytes: u64,
    /// Deadline; `NEVER` = none.
    pub due: Time,
    /// Seconds it would take alone in the idle network; NaN = not known.
    pub ideal: f64,
}

impl TransferRecord {
    /// Seconds from the write to the acknowledgement of its last byte.
    pub fn fct(&self) -> f64 {
        self.acked.since(self.started).as_secs()
    }
}

/// A row of the event table.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// When.
    pub at: Time,
    /// Connection; `u32::MAX` = none.
    pub flow: u32,
    /// What: a timeout's kind, a completed block, or a change of state under collective control.
    pub what: &'static str,
    /// Timeout: nothing of the block was acknowledged yet.
    pub block_start: bool,
    /// Timeout: offset of the oldest unacknowledged byte in its block. Block: its bytes.
    pub offset: u64,
    /// Timeout: bytes outstanding.
    pub outstanding: u64,
    /// Timeout: congestion window before it, bytes.
    pub cwnd: u64,
    /// Timeout: the timeout that ran out, picoseconds. Block: how long it took.
    pub length: Dur,
    /// Timeout: how many in a row.
    pub in_a_row: u32,
    /// Timeout: packets of the connection dropped so far.
    pub drops: u64,
    /// Timeout and fast retransmit: bytes sent that the receiver does not have.
    pub lost: u64,
}

/// A row of the series table.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When.
    pub at: Time,
    /// `port`, `flow` or `host` (all flows that lead there).
    pub entity: &'static str,
    /// Number of the port, flow or host.
    pub number: u32,
    /// Name of the metric, with its unit.
    pub metric: &'static str,
    /// Value.
    pub value: f64,
}

/// Running mean of one controller variable over flows and samples.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mean {
    sum: f64,
    n: u64,
}

impl Mean {
    /// Counts a sample.
    pub fn add(&mut self, x: f64) {
        if x.is_finite() {
            self.sum += x;
            self.n += 1;
        }
    }
    /// Counts the samples of another one too.
    pub fn join(&mut self, other: &Mean) {
        self.sum += other.sum;
        self.n += other.n;
    }
    /// The mean, `None` without samples.
    pub fn value(&self) -> Option<f64> {
        (self.n > 0).then(|| self.sum / self.n as f64)
    }
}

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
    own_flows_only: bool,
    /// Places taken.
    places: u32,
    /// Flows that found no place.
    pub without_place: u64,
    /// What the scenario found out while it was built, by summary key.
    pub facts: Vec<(&'static str, f64)>,
    /// Sample the counters of all flows, summed by the host they lead to.
    pub by_destination: bool,
    /// Counters of connections that are over, by destination.
    over: BTreeMap<u32, FlowCounters>,
    next: Option<Time>,
    /// Warm-up is over.
    measuring: bool,
    /// Start of the measured window.
    pub from: Time,
    /// End of the run.
    pub until: Time,
    /// Most rows of each table.
    pub max_rows: usize,
    /// Flow table.
    pub flows: Vec<FlowRecord>,
    /// Sums over the flows of the window.
    pub flow_totals: FlowTotals,
    /// Completed writes.
    pub transfers: Vec<TransferRecord>,
    /// Sums over the completed writes of the window.
    pub transfer_totals: TransferTotals,
    /// Event table.
    pub events: Vec<Event>,
    /// Series table.
    pub series: Vec<Sample>,
    /// Completed blocks.
    pub blocks: u64,
    /// Bytes of completed blocks.
    pub block_bytes: u64,
    /// Sum of the times they took, seconds.
    pub block_seconds: f64,
    /// Mean of `alpha` over open flows and samples.
    pub alpha: Mean,
    /// Mean congestion window in bytes over open flows and samples.
    pub cwnd: Mean,
    /// Rows left out because a table was full.
    pub left_out: LeftOut,
    /// Record fast retransmits as events, not only timeouts.
    pub keep_losses: bool,
    /// SYNs dropped in the window.
    pub syn_drops: u64,
    /// Bytes offered in the window by open loops, and in how many writes, by sending and by receiving host.
    pub offered: [BTreeMap<u32, (u64, u64)>; 2],
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
            without_place: 0,
            facts: Vec::new(),
            by_destination: false,
            over: BTreeMap::new(),
            next: None,
            measuring: false,
            from: Time::ZERO,
            until: Time::ZERO,
            max_rows: MAX_ROWS,
            flows: Vec::new(),
            flow_totals: FlowTotals::default(),
            transfers: Vec::new(),
            transfer_totals: TransferTotals::default(),
            events: Vec::new(),
            series: Vec::new(),
            blocks: 0,
            block_bytes: 0,
            block_seconds: 0.0,
            alpha: Mean::default(),
            cwnd: Mean::default(),
            left_out: LeftOut::default(),
            keep_losses: false,
            syn_drops: 0,
            offered: Default::default(),
        }
    }
}

/// A flow that was opened so many idle round trips ago should be established, and have something acknowledged.
const LONG: f64 = 10.0;

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
    /// Warm-up is over.
    pub fn start(&mut self, now: Time) {
        self.measuring = true;
        self.from = now;
    }
    /// The run is over.
    pub fn finish(&mut self, now: Time) {
        self.until = now;
        self.flows.sort_unstable_by_key(|f| f.flow);
    }
    fn room<T>(table: &[T], most: usize, left_out: &mut u64) -> bool {
        if table.len() < most {
            return true;
        }
        *left_out += 1;
        false
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
    /// An application that does not wait for its earlier writes makes one of `bytes`.
    pub fn offer(&mut self, src: u32, dst: u32, bytes: u64) {
        if self.measuring {
            for (sums, host) in self.offered.iter_mut().zip([src, dst]) {
                let sum = sums.entry(host).or_default();
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
        if self.measuring {
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
                sums.oldest = sums.oldest.max(record.closed.since(left.since).as_secs());
            }
        }
        if Self::room(&self.flows, self.max_rows, &mut self.left_out.flows) {
            self.flows.push(record);
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
        if Self::room(&self.transfers, self.max_rows, &mut self.left_out.transfers) {
            self.transfers.push(record);
        }
    }
    /// A timeout has fired.
    pub fn timeout(&mut self, at: Time, flow: u32, t: &TimeoutRecord, drops: u64, lost: u64) {
        if Self::room(&self.events, self.max_rows, &mut self.left_out.events) {
            let what = match t.kind {
                TimeoutKind::WindowLost => "timeout: window lost",
                TimeoutKind::FewDupAcks => "timeout: few dup acks",
                TimeoutKind::RetransmitLost => "timeout: retransmit lost",
                TimeoutKind::Repeated => "timeout: repeated",
                TimeoutKind::Syn => "timeout: syn",
            };
            self.events.push(Event {
                at,
                flow,
                what,
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
        if self.keep_losses && Self::room(&self.events, self.max_rows, &mut self.left_out.events) {
            self.events.push(Event {
                at,
                flow,
                what: "fast retransmit",
                block_start: false,
                offset: 0,
                outstanding,
                cwnd,
                length: Dur::ZERO,
                in_a_row: 0,
                drops,
                lost,
            });
        }
    }
    /// A connection has changed its state under collective control.
    pub fn transition(&mut self, t: &Transition) {
        if Self::room(&self.events, self.max_rows, &mut self.left_out.events) {
            self.events.push(Event {
                at: t.at,
                flow: t.flow.0,
                what: t.what,
                block_start: false,
                offset: 0,
                outstanding: 0,
                cwnd: 0,
                length: Dur::ZERO,
                in_a_row: 0,
                drops: 0,
                lost: 0,
            });
        }
    }
    /// A unit of application work is complete.
    pub fn block(&mut self, started: Time, now: Time, bytes: u64) {
        self.blocks += 1;
        self.block_bytes += bytes;
        self.block_seconds += (now - started).as_secs();
        if Self::room(&self.events, self.max_rows, &mut self.left_out.events) {
            self.events.push(Event {
                at: now,
                flow: u32::MAX,
                what: "block",
                block_start: false,
                offset: bytes,
                outstanding: 0,
                cwnd: 0,
                length: now - started,
                in_a_row: 0,
                drops: 0,
                lost: 0,
            });
        }
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
    /// Adds a row to the series table, when there is one.
    pub fn row(&mut self, sample: Sample) {
        if self.keep_series && Self::room(&self.series, self.max_rows, &mut self.left_out.series) {
            self.series.push(sample);
        }
    }
    /// Takes one sample of everything asked for; `flows` are the open ones.
    pub fn sample<F: Sampled>(&mut self, at: Time, ports: &[Port], flows: impl Iterator<Item = F> + Clone) {
        self.sampled(at);
        let keep = self.keep_series;
        let Recorder { series, left_out, sampled_ports, alpha, cwnd, by_destination, over, .. } = self;
        let (measuring, most) = (self.measuring, self.max_rows);
        let mut row = |entity, number, metric, value| {
            if keep && Self::room(series, most, &mut left_out.series) {
                series.push(Sample { at, entity, number, metric, value });
            }
        };
        for p in sampled_ports.iter() {
            let port = &ports[*p as usize];
            row("port", *p, "queue_packets", f64::from(port.queue_packets()));
            row("port", *p, "queue_bytes", port.queue_bytes() as f64);
            if keep {
                row("port", *p, "drops", port.stats().drops.iter().sum::<u64>() as f64);
                if let Some(c) = port.controller() {
                    c.observe(&mut |name, value| row("port", *p, name, value));
                }
            }
        }
        for flow in flows.clone() {
            let (number, keep_flow) = (flow.number(), flow.has_place());
            flow.observe(&mut |name, value| {
                match name {
                    "cwnd_bytes" if measuring && value < (u64::MAX / 4) as f64 => cwnd.add(value),
                    "alpha" if measuring => alpha.add(value),
                    _ => {}
                }
                if keep_flow {
                    row("flow", number, name, value);
                }
            });
        }
        if !keep {
            return;
        }
        for flow in flows.clone() {
            let number = flow.number();
            flow.observe_group(&mut |name, value| row("flow", number, name, value));
        }
        if *by_destination {
            let mut totals = over.clone();
            for flow in flows {
                totals.entry(flow.destination()).or_default().add(&flow.counters());
            }
            for (host, c) in totals {
                row("host", host, "delivered_bytes", c.delivered_bytes as f64);
                row("host", host, "retransmits", c.retransmits as f64);
                row("host", host, "timeouts", c.timeouts as f64);
                row("host", host, "drops", c.drops as f64);
            }
        }
    }
}
