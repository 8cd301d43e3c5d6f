//! What is recorded during a run, bounded by default.

use crate::engine::{Collective, Flow};
use crate::port::Port;
use penstock_core::host::Transition;
use penstock_core::tcp::{TimeoutKind, TimeoutRecord};
use penstock_core::FlowId;
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
}

/// Counters of a connection.
#[derive(Clone, Copy, Debug, Default)]
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
}

/// One row of the flow table.
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
    /// Writes completed.
    pub transfers: u64,
    /// Its packets dropped so far.
    pub drops: u64,
    /// Counters at the end of warm-up.
    pub baseline: FlowCounters,
    /// Counters at the end.
    pub totals: FlowCounters,
    /// Smoothed RTT at the end.
    pub srtt: Dur,
    /// Mean of its RTT samples; zero without one.
    pub rtt_mean: Dur,
    /// Payload that arrived more than once.
    pub duplicate_bytes: u64,
}

impl FlowRecord {
    /// What happened since the end of warm-up.
    pub fn measured(&self) -> FlowCounters {
        let (a, b) = (&self.totals, &self.baseline);
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
    /// The mean, `None` without samples.
    pub fn value(&self) -> Option<f64> {
        (self.n > 0).then(|| self.sum / self.n as f64)
    }
}

/// Collects tables during a run.
#[derive(Default)]
pub struct Recorder {
    /// Sampling interval; `None` = no samples.
    pub interval: Option<Dur>,
    /// Ports whose queue is sampled.
    pub sampled_ports: Vec<u32>,
    /// Record the series table (otherwise samples only feed means).
    pub keep_series: bool,
    /// Sample this many flows, by number.
    pub sampled_flows: u32,
    /// Keep rows of this many of them in the series table; the means count all sampled flows.
    pub series_flows: u32,
    /// What the scenario found out while it was built, by summary key.
    pub facts: Vec<(&'static str, f64)>,
    /// Sample the counters of all flows, summed by the host they lead to.
    pub by_destination: bool,
    /// Counters of connections that are over, by destination.
    over: BTreeMap<u32, FlowCounters>,
    next: Option<Time>,
    /// Start of the measured window.
    pub from: Time,
    /// End of the run.
    pub until: Time,
    /// Flow table.
    pub flows: Vec<FlowRecord>,
    /// Completed writes.
    pub transfers: Vec<TransferRecord>,
    /// Event table.
    pub events: Vec<Event>,
    /// Series table.
    pub series: Vec<Sample>,
    /// Completed blocks and their bytes.
    pub blocks: u64,
    /// Bytes of completed blocks.
    pub block_bytes: u64,
    /// Mean of `alpha` over flows and samples.
    pub alpha: Mean,
    /// Mean congestion window in bytes over flows and samples.
    pub cwnd: Mean,
    /// Rows left out because a table was full.
    pub rows_left_out: u64,
    /// Record fast retransmits as events, not only timeouts.
    pub keep_losses: bool,
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
    /// Warm-up is over.
    pub fn start(&mut self, now: Time) {
        self.from = now;
    }
    /// The run is over.
    pub fn finish(&mut self, now: Time) {
        self.until = now;
        self.flows.sort_by_key(|f| f.flow);
    }
    fn room<T>(table: &[T], left_out: &mut u64) -> bool {
        if table.len() < MAX_ROWS {
            return true;
        }
        *left_out += 1;
        false
    }
    /// A connection is over.
    pub fn flow(&mut self, record: FlowRecord) {
        if self.by_destination {
            self.over.entry(record.dst).or_default().add(&record.totals);
        }
        self.flows.push(record);
    }
    /// A write is acknowledged.
    pub fn transfer(&mut self, flow: u32, w: &Transfer, acked: Time) {
        if Self::room(&self.transfers, &mut self.rows_left_out) {
            let (started, delivered, bytes, due) = (w.started, w.delivered, w.bytes, w.due);
            self.transfers.push(TransferRecord { flow, started, delivered, acked, bytes, due });
        }
    }
    /// A timeout has fired.
    pub fn timeout(&mut self, at: Time, flow: u32, t: &TimeoutRecord, drops: u64, lost: u64) {
        if Self::room(&self.events, &mut self.rows_left_out) {
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
        if self.keep_losses && Self::room(&self.events, &mut self.rows_left_out) {
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
        if Self::room(&self.events, &mut self.rows_left_out) {
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
        if Self::room(&self.events, &mut self.rows_left_out) {
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
            sampled_flows: self.sampled_flows,
            series_flows: self.series_flows,
            ..Recorder::default()
        }
    }
    /// Adds a row to the series table, when there is one.
    pub fn row(&mut self, sample: Sample) {
        if self.keep_series && Self::room(&self.series, &mut self.rows_left_out) {
            self.series.push(sample);
        }
    }
    /// Takes one sample of everything asked for.
    pub(crate) fn sample(
        &mut self,
        at: Time,
        measuring: bool,
        ports: &[Port],
        flows: &[Option<Box<Flow>>],
        hosts: &[Collective],
    ) {
        self.sampled(at);
        let keep = self.keep_series;
        let Recorder {
            series,
            rows_left_out,
            sampled_ports,
            alpha,
            cwnd,
            sampled_flows,
            series_flows,
            by_destination,
            over,
            ..
        } = self;
        let mut row = |entity, number, metric, value| {
            if keep && Self::room(series, rows_left_out) {
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
        for (number, flow) in flows.iter().enumerate().take(*sampled_flows as usize) {
            let Some(flow) = flow else { continue };
            let number = number as u32;
            let window = flow.sender.cwnd();
            if measuring && window < u64::MAX / 4 {
                cwnd.add(window as f64);
            }
            let keep_flow = keep && number < *series_flows;
            if keep_flow {
                row("flow", number, "cwnd_bytes", window as f64);
                row("flow", number, "acked_bytes", flow.sender.acked() as f64);
                row("flow", number, "srtt_s", flow.sender.rtt().smoothed.as_secs());
                row("flow", number, "rtt_s", flow.sender.view.rtt_latest.as_secs());
            }
            flow.sender.observe(&mut |name, value| {
                if measuring && name == "alpha" {
                    alpha.add(value);
                }
                if keep_flow {
                    row("flow", number, name, value);
                }
            });
        }
        if !keep {
            return;
        }
        if !hosts.is_empty() {
            for (number, flow) in flows.iter().enumerate() {
                let charge = flow.as_ref().and_then(|f| hosts.get(f.collective as usize));
                if let Some(host) = charge {
                    let number = number as u32;
                    host.controller
                        .observe(FlowId(number), &mut |name, value| row("flow", number, name, value));
                }
            }
        }
        if *by_destination {
            let mut totals = over.clone();
            for flow in flows.iter().flatten() {
                totals.entry(flow.record.dst).or_default().add(&flow.counters());
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
