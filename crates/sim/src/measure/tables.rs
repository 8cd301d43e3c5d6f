//! The tables of a run as typed columns: what leaves the engine. A column is declared once, with its name, unit, meaning and type and where
//! its values come from; results, fingerprint, Python's frames and `describe` read the declaration.

mod columns;
pub(crate) mod deliveries;

pub use columns::{Declared, Table, Values, GROUP};

use crate::engine::Engine;
use crate::measured::Measured;
use crate::metrics::{Entity, Event, FlowRecord, SeriesRow, TransferRecord};
use columns::{columns, nodes, protocols, secs, Column, Layout};
use penstock_core::DropCause;
use penstock_fabric::{PauseStats, PortStats, PRIORITIES};

/// The names of the tables, in order.
pub const NAMES: [&str; 10] = [
    "flows",
    "transfers",
    "ports",
    "events",
    "series",
    "deliveries",
    "distances",
    "paths",
    "receivers",
    "failures",
];

/// The names of the tables that a run has: tables that need a key are left out without it.
pub fn kept(e: &Measured<'_>) -> &'static [&'static str] {
    const ALWAYS: usize = 5;
    if e.recorder.deliveries.is_some() {
        &NAMES
    } else {
        &NAMES[..ALWAYS]
    }
}

/// The table of that name, one of [`NAMES`]; without rows where it is not [`kept`].
///
/// # Panics
/// On any other name.
pub fn table(e: &Measured<'_>, name: &str) -> Table {
    let r = e.recorder;
    match name {
        "flows" => FLOWS.filled(e, &r.flows),
        "transfers" => TRANSFERS.filled(e, &r.transfers),
        "ports" => PORTS.of(e, &port_rows(e)),
        "events" => EVENTS.filled(e, &r.events),
        "series" => SERIES.filled(e, &r.series),
        "deliveries" => deliveries::DELIVERIES.of(e, &deliveries::flow_rows(e)),
        "distances" => deliveries::DISTANCES.of(e, &deliveries::distance_rows(e)),
        "paths" => deliveries::PATHS.of(e, &deliveries::path_rows(e)),
        "receivers" => deliveries::RECEIVERS.of(e, &deliveries::receiver_rows(e)),
        "failures" => deliveries::FAILURES.of(e, &deliveries::failure_rows(e)),
        other => panic!("there is no table {other}"),
    }
}

/// A table of an engine whose run is over. Its rows are freed while the columns grow, so that no table is in memory twice.
///
/// # Panics
/// As [`table`], and for one that is on disk: [`read`] does not need it in memory.
pub fn take(engine: &mut Engine, name: &str) -> Table {
    let r = &mut engine.recorder;
    match name {
        "flows" => {
            let rows = std::mem::take(&mut r.flows);
            FLOWS.drained(&engine.measured(), rows)
        }
        "transfers" => {
            let rows = std::mem::take(&mut r.transfers);
            TRANSFERS.drained(&engine.measured(), rows)
        }
        "events" => {
            let rows = std::mem::take(&mut r.events);
            EVENTS.drained(&engine.measured(), rows)
        }
        "series" => {
            let rows = r.series.take_rows();
            SERIES.drained(&engine.measured(), rows)
        }
        other => table(&engine.measured(), other),
    }
}

/// Reads a table that may be larger than memory: hands it over by groups of rows, as long as `read` answers true.
///
/// # Panics
/// As [`table`].
pub fn read(e: &Measured<'_>, name: &str, mut read: impl FnMut(Table) -> bool) {
    let r = e.recorder;
    match name {
        "flows" => FLOWS.groups(e, &r.flows, &mut read),
        "transfers" => TRANSFERS.groups(e, &r.transfers, &mut read),
        "events" => EVENTS.groups(e, &r.events, &mut read),
        "series" => SERIES.groups(e, &r.series, &mut read),
        other => {
            read(table(e, other));
        }
    }
}

/// True when rows of the table are on disk.
pub fn on_disk(e: &Measured<'_>, name: &str) -> bool {
    let r = e.recorder;
    match name {
        "flows" => r.flows.on_disk(),
        "transfers" => r.transfers.on_disk(),
        "events" => r.events.on_disk(),
        "series" => r.series.on_disk(),
        _ => false,
    }
}

/// All tables, in the order of [`NAMES`].
pub fn declared() -> [Declared; 10] {
    [
        FLOWS.declared(),
        TRANSFERS.declared(),
        PORTS.declared(),
        EVENTS.declared(),
        SERIES.declared(),
        deliveries::DELIVERIES.declared(),
        deliveries::DISTANCES.declared(),
        deliveries::PATHS.declared(),
        deliveries::RECEIVERS.declared(),
        deliveries::FAILURES.declared(),
    ]
}

fn links(e: &Measured<'_>) -> Vec<String> {
    (0..e.ports.len() as u32).map(|i| e.topology.link_name(i)).collect()
}

fn entities(_: &Measured<'_>) -> Vec<String> {
    Entity::ALL.map(|entity| entity.name().to_owned()).to_vec()
}

fn sampled(e: &Measured<'_>) -> Vec<String> {
    e.recorder.series.metrics().iter().map(|metric| metric.name.to_owned()).collect()
}

static FLOWS: Layout<FlowRecord> = Layout {
    name: "flows",
    text: "a row per connection; counts cover the measured time",
    columns: columns! { f =>
        "flow", One, U32 = f.flow, "number of the connection, in the order of opening";
        "src", One, Coded[nodes] = f.src, "sending host";
        "dst", One, Coded[nodes] = f.dst, "receiving host";
        "size_bytes", Bytes, U64 = f.size, "bytes written on it, all writes together; 0 = without end, or none";
        "opened_s", Seconds, F64 = f.opened.as_secs(), "when it was opened";
        "closed_s", Seconds, F64 = if f.open_at_end { f64::NAN } else { f.closed.as_secs() },
            "time at which it closed; none if it was open at the end of the run";
        "fct_s", Seconds, F64 = f.fct().unwrap_or(f64::NAN), "from opening to the acknowledgement of its last byte; none when not complete";
        "ideal_fct_s", Seconds, F64 = f.ideal, "completion time in the idle network, in full segments and without window limits; none with several writes";
        "slowdown", One, F64 = FlowRecord::slowdown(f), "fct_s over ideal_fct_s";
        "protocol", One, Coded[protocols] = u32::from(f.protocol), "its congestion control";
        "workload", One, U32 = f.workload, "workload that opened it, from 0 in the order of the scenario";
        "complete", One, Bool = f.complete, "the connection ended before the run did, with all its bytes acknowledged";
        "transfers", One, U32 = f.transfers, "writes completed on it";
        "acked_bytes", Bytes, U64 = f.acked_bytes, "payload acknowledged";
        "delivered_bytes", Bytes, U64 = f.delivered_bytes, "payload handed to the receiving application";
        "packets_sent", Packets, U64 = f.data_packets, "data packets sent, retransmissions included";
        "retransmits", Packets, U32 = f.retransmits, "data packets sent again";
        "timeouts", One, U32 = f.timeouts, "retransmission timeouts";
        "fast_retransmits", One, U32 = f.fast_retransmits, "fast retransmits";
        "tail_loss_probes", Packets, U32 = f.tail_loss_probes, "tail-loss probes (RFC 8985 section 7)";
        "ece_acks", Packets, U64 = f.ece_acks, "acknowledgements that echoed a mark";
        "drops", Packets, U32 = f.drops, "its packets dropped, data and acknowledgements";
        "srtt_s", Seconds, F64 = f.srtt.as_secs(), "smoothed round-trip time at the end";
        "rtt_mean_s", Seconds, F64 = f.rtt_mean.as_secs(), "mean of its round-trip times";
    },
    more: (&[], |_, _| false),
};

static TRANSFERS: Layout<TransferRecord> = Layout {
    name: "transfers",
    text: "a row per completed write of an application",
    columns: columns! { x =>
        "flow", One, U32 = x.flow, "connection";
        "start_s", Seconds, F64 = x.started.as_secs(), "when it was written";
        "delivered_s", Seconds, F64 = secs(x.delivered), "when its last byte was handed to the receiving application";
        "acked_s", Seconds, F64 = x.acked.as_secs(), "when its last byte was acknowledged";
        "bytes", Bytes, U64 = x.bytes, "its size";
        "fct_s", Seconds, F64 = TransferRecord::fct(x), "acked_s less start_s";
        "ideal_fct_s", Seconds, F64 = x.ideal, "completion time in the idle network, in full segments and without window limits";
        "slowdown", One, F64 = x.fct() / x.ideal, "fct_s over ideal_fct_s";
        "due_s", Seconds, F64 = secs(x.due), "its deadline; none = it has none";
    },
    more: (&[], |_, _| false),
};

/// A port with what its row is computed from.
struct PortRow {
    number: u32,
    bottleneck: bool,
    /// bit/s
    rate: f64,
    stats: PortStats,
    pauses: [PauseStats; PRIORITIES],
}

impl PortRow {
    fn dropped(&self, cause: DropCause) -> u64 {
        self.stats.drops[cause as usize]
    }
}

fn port_rows(e: &Measured<'_>) -> Vec<PortRow> {
    let row = |(number, port): (u32, &penstock_fabric::Port)| {
        let bottleneck = number == e.bottleneck;
        let pauses = port.pause_stats();
        PortRow { number, bottleneck, rate: port.rate().as_bps(), stats: port.stats(), pauses }
    };
    (0..).zip(e.ports).map(row).collect()
}

static PORTS: Layout<PortRow> = Layout {
    name: "ports",
    text: "a row per output port, in the order of the links",
    columns: columns! { p =>
        "port", One, U32 = p.number, "number of the port";
        "name", One, Coded[links] = p.number, "FROM->TO";
        "bottleneck", One, Bool = p.bottleneck, "it is the port of the summary";
        "rate_bps", BitsPerSecond, F64 = p.rate, "rate of its link, at the end of the run";
        "utilisation", One, F64 = p.stats.utilisation(), "share of the measured time for which it was sending, framing included";
        "queue_mean_packets", Packets, F64 = p.stats.queue_mean(), "mean queue over time, the packet in service included";
        "queue_std_packets", Packets, F64 = p.stats.queue_std(), "standard deviation of the queue over time; none where it was not measured";
        "queue_max_packets", Packets, U32 = p.stats.queue_max, "largest queue";
        "queue_mean_bytes", Bytes, F64 = p.stats.queue_mean_bytes(), "mean queue over time; none where it was not measured";
        "packets_arrived", Packets, U64 = p.stats.arrived_packets, "packets that came, dropped ones included";
        "packets_departed", Packets, U64 = p.stats.departed_packets, "packets that left";
        "drops_overflow", Packets, U64 = p.dropped(DropCause::Overflow), "dropped because the buffer was full";
        "drops_early", Packets, U64 = p.dropped(DropCause::Early), "dropped by a rule that drops before the port is full";
        "drops_random", Packets, U64 = p.dropped(DropCause::Random), "lost at random, as the scenario asks";
        "drops_nonect", Packets, U64 = p.dropped(DropCause::NotEct), "dropped instead of marked, because they were not ECN-capable";
        "ce_marks", Packets, U64 = p.stats.marks, "packets marked";
    },
    more: (PAUSES, |e, i| e.fabric.pauses && e.fabric.lossless & (1 << (i / 3)) != 0),
};

/// The three columns of a priority.
macro_rules! pauses_of {
    ($($priority:literal)*) => {
        columns! { p => $(
        concat!("pauses_sent_", $priority), One, U64 = p.pauses[$priority].sent,
            concat!("pause frames that its switch sent out by it to stop priority ", $priority, " (where that is without loss)");
        concat!("pauses_received_", $priority), One, U64 = p.pauses[$priority].received,
            concat!("pause frames that stopped its priority ", $priority);
        concat!("paused_", $priority, "_s"), Seconds, F64 = p.pauses[$priority].paused as f64 / 1e12,
            concat!("time for which its priority ", $priority, " was stopped");
        )* }
    };
}

static PAUSES: &[Column<PortRow>] = pauses_of!(0 1 2 3 4 5 6 7);

static EVENTS: Layout<Event> = Layout {
    name: "events",
    text: "a row per timeout and tail-loss probe (and fast retransmit with loss_events), per completed block, per change under collective control, per pause \
           and resume with pause_events",
    columns: columns! { x =>
        "time_s", Seconds, F64 = x.at.as_secs(), "when";
        "flow", One, I64 = if x.flow == u32::MAX { -1 } else { i64::from(x.flow) }, "connection; -1 = none";
        "what", One, Word = x.what.name(), "timeout and its cause, tail-loss probe, fast retransmit, block, pause, resume, or the change";
        "block_start", One, Bool = x.block_start, "timeout: nothing of the block had been acknowledged";
        "offset_bytes", Bytes, U64 = if x.what.is_pause() { 0 } else { x.offset },
            "timeout: offset of the oldest unacknowledged byte in its block; block: its size";
        "outstanding_bytes", Bytes, U64 = x.outstanding, "timeout: bytes not acknowledged";
        "cwnd_bytes", Bytes, U64 = x.cwnd, "timeout: congestion window before it";
        "rto_s", Seconds, F64 = x.length.as_secs(),
            "timeout: the timeout that ran out; tail-loss probe: the time since the last segment; block: how long it took";
        "in_a_row", One, U32 = if x.what.is_pause() { 0 } else { x.in_a_row }, "timeout: how many in a row";
        "drops", Packets, U64 = x.drops, "timeout: total packets of the connection that were dropped";
        "lost_bytes", Bytes, U64 = x.lost, "bytes sent that the receiver does not have";
    },
    more: (
        columns! { x =>
            "port", One, I64 = if x.what.is_pause() { x.offset as i64 } else { -1 },
                "pause and resume, with pause_events: number of the port that obeys it; -1 = none";
            "priority", One, I64 = if x.what.is_pause() { i64::from(x.in_a_row) } else { -1 },
                "pause and resume, with pause_events: the priority; -1 = none";
        },
        |e, _| e.recorder.keep_pauses,
    ),
};

static SERIES: Layout<SeriesRow> = Layout {
    name: "series",
    text: "a row per sample (needs sample and series)",
    columns: columns! { x =>
        "time_s", Seconds, F64 = x.at.as_secs(), "when";
        "entity", One, Coded[entities] = x.entity as u32, "port, flow or host (all flows that lead there)";
        "number", One, U32 = x.number, "number of the port, flow or host";
        "metric", One, Coded[sampled] = u32::from(x.metric), "what was sampled, with its unit: queue_packets, cwnd_bytes, alpha, fair_rate_bps, ...";
        "value", One, F64 = x.value, "its value";
    },
    more: (&[], |_, _| false),
};
