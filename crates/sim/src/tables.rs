//! The tables of a run as typed columns: what leaves the engine. A column is declared once, with its name, unit, meaning and type and where
//! its values come from; results, fingerprint, Python's frames and `describe` read the declaration.

pub(crate) mod deliveries;

use crate::engine::Engine;
use crate::metrics::{
    Entity, Event, FlowRecord, Row as Kept, Rows, Series, SeriesRow as Row, TransferRecord,
};
use crate::results::Measured;
use penstock_core::{DropCause, Quantity, Unit};
use penstock_fabric::{PauseStats, PortStats, PRIORITIES};
use penstock_units::Time;

/// The values of a column.
pub enum Values {
    /// True or false.
    Bool(Vec<bool>),
    /// Numbers of entities and counts.
    U32(Vec<u32>),
    /// Counts and bytes.
    U64(Vec<u64>),
    /// Numbers with -1 for none.
    I64(Vec<i64>),
    /// Quantities; NaN for what does not exist.
    F64(Vec<f64>),
    /// Texts: a code per row, and the texts they number. A text per cell would take more memory than all else.
    Text(Vec<u32>, Vec<String>),
}

/// A table: its name, and its columns in order, each as long as the others.
pub struct Table {
    /// Name.
    pub name: &'static str,
    /// What every column is, and its values.
    pub columns: Vec<(&'static Quantity, Values)>,
}

impl Table {
    /// Rows.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, values)| match values {
            Values::Bool(v) => v.len(),
            Values::U32(v) | Values::Text(v, _) => v.len(),
            Values::U64(v) => v.len(),
            Values::I64(v) => v.len(),
            Values::F64(v) => v.len(),
        })
    }
}

/// What a table has.
pub struct Declared {
    /// Name.
    pub name: &'static str,
    /// What a row is.
    pub text: &'static str,
    /// What every column is, and the type of its values, in order.
    pub columns: Vec<(&'static Quantity, &'static str)>,
}

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

/// The names of the tables that a run has: without those that nobody has asked it for.
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

/// The same of an engine whose run is over; its rows are given back while the columns grow, so that no table is in memory twice.
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

/// Rows that [`read`] hands over at a time: those of a row group of Parquet, as polars writes them.
pub const GROUP: usize = 1 << 18;

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

/// A column of a table with rows `R`.
struct Column<R> {
    what: Quantity,
    values: Get<R>,
}

/// The values that rows give to a column are added to it.
type Fill<R, T> = fn(&[R], &mut Vec<T>);

/// The type of a column, and how rows give their values: many at a time, as a table may have millions of them.
enum Get<R> {
    Bool(Fill<R, bool>),
    U32(Fill<R, u32>),
    U64(Fill<R, u64>),
    I64(Fill<R, i64>),
    F64(Fill<R, f64>),
    /// Texts that are numbered already, and the list of them.
    Coded(fn(&Measured<'_>) -> Vec<String>, Fill<R, u32>),
    /// Texts that are not numbered yet.
    Word(fn(&R) -> &'static str),
}

/// What fills a column with a value of each row.
macro_rules! each {
    ($value:expr) => {
        |rows, column| column.extend(rows.iter().map($value))
    };
}
pub(crate) use each;

/// Whether a run has the column with this position among those that some runs have.
type Wanted = fn(&Measured<'_>, usize) -> bool;

/// A table with rows `R`.
struct Layout<R: 'static> {
    name: &'static str,
    text: &'static str,
    columns: &'static [Column<R>],
    /// Columns that some runs have behind these.
    more: (&'static [Column<R>], Wanted),
}

impl<R> Layout<R> {
    fn declared(&self) -> Declared {
        let columns = self.columns.iter().chain(self.more.0).map(|c| (&c.what, c.values.kind())).collect();
        Declared { name: self.name, text: self.text, columns }
    }
    /// Without rows, but with room for so many.
    fn empty(&self, e: &Measured<'_>, rows: usize) -> Table {
        let (more, wanted) = self.more;
        let more = more.iter().enumerate().filter(|(i, _)| wanted(e, *i)).map(|(_, column)| column);
        let columns = self.columns.iter().chain(more).map(|c| (&c.what, c.values.empty(e, rows))).collect();
        Table { name: self.name, columns }
    }
    fn add(&self, table: &mut Table, rows: &[R]) {
        let mut all = self.columns.iter().chain(self.more.0);
        for (what, values) in &mut table.columns {
            let column = all.find(|column| std::ptr::eq(&column.what, *what));
            column.expect("a table has columns of its layout, in their order").values.add(values, rows);
        }
    }
    fn of(&self, e: &Measured<'_>, rows: &[R]) -> Table {
        let mut table = self.empty(e, rows.len());
        self.add(&mut table, rows);
        table
    }
}

/// Recorded rows, however they are kept.
trait Recorded<R> {
    fn len(&self) -> usize;
    /// Reads all in order, some at a time.
    fn each(&self, read: impl FnMut(&[R]));
    /// The same, and gives back what they take meanwhile.
    fn drain(self, read: impl FnMut(&[R]));
}

impl<R: Kept> Recorded<R> for Rows<R> {
    fn len(&self) -> usize {
        self.len()
    }
    fn each(&self, read: impl FnMut(&[R])) {
        self.each(read);
    }
    fn drain(self, read: impl FnMut(&[R])) {
        Rows::drain(self, read);
    }
}

impl Recorded<Row> for Series {
    fn len(&self) -> usize {
        self.len()
    }
    fn each(&self, read: impl FnMut(&[Row])) {
        self.each(read);
    }
    fn drain(mut self, mut read: impl FnMut(&[Row])) {
        Series::drain(&mut self, |rows| read(rows));
    }
}

impl<R> Layout<R> {
    fn filled(&self, e: &Measured<'_>, rows: &impl Recorded<R>) -> Table {
        let mut table = self.empty(e, rows.len());
        rows.each(|some| self.add(&mut table, some));
        table
    }
    fn drained(&self, e: &Measured<'_>, rows: impl Recorded<R>) -> Table {
        let mut table = self.empty(e, rows.len());
        rows.drain(|some| self.add(&mut table, some));
        table
    }
    fn groups(&self, e: &Measured<'_>, rows: &impl Recorded<R>, read: &mut dyn FnMut(Table) -> bool) {
        let (mut group, mut there, mut left) = (self.empty(e, rows.len().min(GROUP)), 0, rows.len());
        let mut wanted = true;
        rows.each(|mut some| {
            while wanted && !some.is_empty() {
                let (now, rest) = some.split_at(some.len().min(GROUP - there));
                self.add(&mut group, now);
                (there, left, some) = (there + now.len(), left - now.len(), rest);
                if there == GROUP || left == 0 {
                    let full = std::mem::replace(&mut group, self.empty(e, left.min(GROUP)));
                    (wanted, there) = (read(full), 0);
                }
            }
        });
    }
}

impl<R> Get<R> {
    fn kind(&self) -> &'static str {
        match self {
            Get::Bool(_) => "bool",
            Get::U32(_) => "u32",
            Get::U64(_) => "u64",
            Get::I64(_) => "i64",
            Get::F64(_) => "f64",
            Get::Coded(..) | Get::Word(_) => "text",
        }
    }
    fn empty(&self, e: &Measured<'_>, rows: usize) -> Values {
        match self {
            Get::Bool(_) => Values::Bool(Vec::with_capacity(rows)),
            Get::U32(_) => Values::U32(Vec::with_capacity(rows)),
            Get::U64(_) => Values::U64(Vec::with_capacity(rows)),
            Get::I64(_) => Values::I64(Vec::with_capacity(rows)),
            Get::F64(_) => Values::F64(Vec::with_capacity(rows)),
            Get::Coded(names, _) => Values::Text(Vec::with_capacity(rows), names(e)),
            Get::Word(_) => Values::Text(Vec::with_capacity(rows), Vec::new()),
        }
    }
    fn add(&self, values: &mut Values, rows: &[R]) {
        match (self, values) {
            (Get::Bool(fill), Values::Bool(column)) => fill(rows, column),
            (Get::U32(fill), Values::U32(column)) => fill(rows, column),
            (Get::U64(fill), Values::U64(column)) => fill(rows, column),
            (Get::I64(fill), Values::I64(column)) => fill(rows, column),
            (Get::F64(fill), Values::F64(column)) => fill(rows, column),
            (Get::Coded(_, fill), Values::Text(column, _)) => fill(rows, column),
            (Get::Word(word), Values::Text(v, names)) => v.extend(rows.iter().map(|row| {
                let word = word(row);
                let known = names.iter().position(|name| name == word).unwrap_or_else(|| {
                    names.push(word.to_owned());
                    names.len() - 1
                });
                known as u32
            })),
            _ => unreachable!("a column is filled with what it was made for"),
        }
    }
}

const fn col<R>(name: &'static str, unit: Unit, values: Get<R>, text: &'static str) -> Column<R> {
    Column { what: Quantity::new(name, unit, text), values }
}

fn secs(t: Time) -> f64 {
    if t == Time::NEVER {
        f64::NAN
    } else {
        t.as_secs()
    }
}

fn nodes(e: &Measured<'_>) -> Vec<String> {
    e.topology.nodes.iter().map(|n| n.name.clone()).collect()
}

fn protocols(e: &Measured<'_>) -> Vec<String> {
    e.protocol_names.to_vec()
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

use Get::{Bool, Coded, Word, F64, I64, U32, U64};
use Unit::{BitsPerSecond, Bytes, One, Packets, Seconds};

static FLOWS: Layout<FlowRecord> = Layout {
    name: "flows",
    text: "a row per connection; counts cover the measured time",
    columns: &[
        col("flow", One, U32(each!(|f| f.flow)), "number of the connection, in the order of opening"),
        col("src", One, Coded(nodes, each!(|f| f.src)), "sending host"),
        col("dst", One, Coded(nodes, each!(|f| f.dst)), "receiving host"),
        col(
            "size_bytes",
            Bytes,
            U64(each!(|f| f.size)),
            "bytes written on it, all writes together; 0 = without end, or none",
        ),
        col("opened_s", Seconds, F64(each!(|f| f.opened.as_secs())), "when it was opened"),
        col(
            "closed_s",
            Seconds,
            F64(each!(|f| if f.open_at_end { f64::NAN } else { f.closed.as_secs() })),
            "time at which it closed; none if it was open at the end of the run",
        ),
        col(
            "fct_s",
            Seconds,
            F64(each!(|f| f.fct().unwrap_or(f64::NAN))),
            "from opening to the acknowledgement of its last byte; none when not complete",
        ),
        col(
            "ideal_fct_s",
            Seconds,
            F64(each!(|f| f.ideal)),
            "completion time in the idle network, without window limits; none with several writes",
        ),
        col("slowdown", One, F64(each!(FlowRecord::slowdown)), "fct_s over ideal_fct_s"),
        col("protocol", One, Coded(protocols, each!(|f| u32::from(f.protocol))), "its congestion control"),
        col(
            "workload",
            One,
            U32(each!(|f| f.workload)),
            "workload that opened it, from 0 in the order of the scenario",
        ),
        col(
            "complete",
            One,
            Bool(each!(|f| f.complete)),
            "the connection ended before the run did, with all its bytes acknowledged",
        ),
        col("transfers", One, U32(each!(|f| f.transfers)), "writes completed on it"),
        col("acked_bytes", Bytes, U64(each!(|f| f.acked_bytes)), "payload acknowledged"),
        col(
            "delivered_bytes",
            Bytes,
            U64(each!(|f| f.delivered_bytes)),
            "payload handed to the receiving application",
        ),
        col(
            "packets_sent",
            Packets,
            U64(each!(|f| f.data_packets)),
            "data packets sent, retransmissions included",
        ),
        col("retransmits", Packets, U32(each!(|f| f.retransmits)), "data packets sent again"),
        col("timeouts", One, U32(each!(|f| f.timeouts)), "retransmission timeouts"),
        col("fast_retransmits", One, U32(each!(|f| f.fast_retransmits)), "fast retransmits"),
        col(
            "tail_loss_probes",
            Packets,
            U32(each!(|f| f.tail_loss_probes)),
            "tail-loss probes (RFC 8985 section 7)",
        ),
        col("ece_acks", Packets, U64(each!(|f| f.ece_acks)), "acknowledgements that echoed a mark"),
        col("drops", Packets, U32(each!(|f| f.drops)), "its packets dropped, data and acknowledgements"),
        col("srtt_s", Seconds, F64(each!(|f| f.srtt.as_secs())), "smoothed round-trip time at the end"),
        col("rtt_mean_s", Seconds, F64(each!(|f| f.rtt_mean.as_secs())), "mean of its round-trip times"),
    ],
    more: (&[], |_, _| false),
};

static TRANSFERS: Layout<TransferRecord> = Layout {
    name: "transfers",
    text: "a row per completed write of an application",
    columns: &[
        col("flow", One, U32(each!(|x| x.flow)), "connection"),
        col("start_s", Seconds, F64(each!(|x| x.started.as_secs())), "when it was written"),
        col(
            "delivered_s",
            Seconds,
            F64(each!(|x| secs(x.delivered))),
            "when its last byte was handed to the receiving application",
        ),
        col("acked_s", Seconds, F64(each!(|x| x.acked.as_secs())), "when its last byte was acknowledged"),
        col("bytes", Bytes, U64(each!(|x| x.bytes)), "its size"),
        col("fct_s", Seconds, F64(each!(TransferRecord::fct)), "acked_s less start_s"),
        col(
            "ideal_fct_s",
            Seconds,
            F64(each!(|x| x.ideal)),
            "completion time in the idle network, without window limits",
        ),
        col("slowdown", One, F64(each!(|x| x.fct() / x.ideal)), "fct_s over ideal_fct_s"),
        col("due_s", Seconds, F64(each!(|x| secs(x.due))), "its deadline; none = it has none"),
    ],
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
    columns: &[
        col("port", One, U32(each!(|p| p.number)), "number of the port"),
        col("name", One, Coded(links, each!(|p| p.number)), "FROM->TO"),
        col("bottleneck", One, Bool(each!(|p| p.bottleneck)), "it is the port of the summary"),
        col("rate_bps", BitsPerSecond, F64(each!(|p| p.rate)), "rate of its link, at the end of the run"),
        col(
            "utilisation",
            One,
            F64(each!(|p| p.stats.utilisation())),
            "share of the measured time for which it was sending, framing included",
        ),
        col(
            "queue_mean_packets",
            Packets,
            F64(each!(|p| p.stats.queue_mean())),
            "mean queue over time, the packet in service included",
        ),
        col(
            "queue_std_packets",
            Packets,
            F64(each!(|p| p.stats.queue_std())),
            "standard deviation of the queue over time; none where it was not measured",
        ),
        col("queue_max_packets", Packets, U32(each!(|p| p.stats.queue_max)), "largest queue"),
        col(
            "queue_mean_bytes",
            Bytes,
            F64(each!(|p| p.stats.queue_mean_bytes())),
            "mean queue over time; none where it was not measured",
        ),
        col(
            "packets_arrived",
            Packets,
            U64(each!(|p| p.stats.arrived_packets)),
            "packets that came, dropped ones included",
        ),
        col("packets_departed", Packets, U64(each!(|p| p.stats.departed_packets)), "packets that left"),
        col(
            "drops_overflow",
            Packets,
            U64(each!(|p| p.dropped(DropCause::Overflow))),
            "dropped because the buffer was full",
        ),
        col(
            "drops_early",
            Packets,
            U64(each!(|p| p.dropped(DropCause::Early))),
            "dropped by a rule that drops before the port is full",
        ),
        col(
            "drops_random",
            Packets,
            U64(each!(|p| p.dropped(DropCause::Random))),
            "lost at random, as the scenario asks",
        ),
        col(
            "drops_nonect",
            Packets,
            U64(each!(|p| p.dropped(DropCause::NotEct))),
            "dropped instead of marked, because they were not ECN-capable",
        ),
        col("ce_marks", Packets, U64(each!(|p| p.stats.marks)), "packets marked"),
    ],
    more: (PAUSES, |e, i| e.fabric.pauses && e.fabric.lossless & (1 << (i / 3)) != 0),
};

/// The three columns of a priority.
macro_rules! pauses_of {
    ($($priority:literal)*) => {
        &[$(
            col(
                concat!("pauses_sent_", $priority),
                One,
                U64(each!(|p| p.pauses[$priority].sent)),
                concat!("pause frames that its switch sent out by it to stop priority ", $priority, " (where that is without loss)"),
            ),
            col(
                concat!("pauses_received_", $priority),
                One,
                U64(each!(|p| p.pauses[$priority].received)),
                concat!("pause frames that stopped its priority ", $priority),
            ),
            col(
                concat!("paused_", $priority, "_s"),
                Seconds,
                F64(each!(|p| p.pauses[$priority].paused as f64 / 1e12)),
                concat!("time for which its priority ", $priority, " was stopped"),
            ),
        )*]
    };
}

static PAUSES: &[Column<PortRow>] = pauses_of!(0 1 2 3 4 5 6 7);

static EVENTS: Layout<Event> = Layout {
    name: "events",
    text: "a row per timeout and tail-loss probe (and fast retransmit with loss_events), per completed block, per change under collective control, per pause \
           and resume with pause_events",
    columns: &[
        col("time_s", Seconds, F64(each!(|x| x.at.as_secs())), "when"),
        col("flow", One, I64(each!(|x| if x.flow == u32::MAX { -1 } else { i64::from(x.flow) })), "connection; -1 = none"),
        col("what", One, Word(|x| x.what.name()), "timeout and its cause, tail-loss probe, fast retransmit, block, pause, resume, or the change"),
        col("block_start", One, Bool(each!(|x| x.block_start)), "timeout: nothing of the block had been acknowledged"),
        col(
            "offset_bytes",
            Bytes,
            U64(each!(|x| if x.what.is_pause() { 0 } else { x.offset })),
            "timeout: offset of the oldest unacknowledged byte in its block; block: its size",
        ),
        col("outstanding_bytes", Bytes, U64(each!(|x| x.outstanding)), "timeout: bytes not acknowledged"),
        col("cwnd_bytes", Bytes, U64(each!(|x| x.cwnd)), "timeout: congestion window before it"),
        col("rto_s", Seconds, F64(each!(|x| x.length.as_secs())), "timeout: the timeout that ran out; tail-loss probe: the time since the last segment; block: how long it took"),
        col("in_a_row", One, U32(each!(|x| if x.what.is_pause() { 0 } else { x.in_a_row })), "timeout: how many in a row"),
        col("drops", Packets, U64(each!(|x| x.drops)), "timeout: total packets of the connection that were dropped"),
        col("lost_bytes", Bytes, U64(each!(|x| x.lost)), "bytes sent that the receiver does not have"),
    ],
    more: (
        &[
            col(
                "port",
                One,
                I64(each!(|x| if x.what.is_pause() { x.offset as i64 } else { -1 })),
                "pause and resume, with pause_events: number of the port that obeys it; -1 = none",
            ),
            col(
                "priority",
                One,
                I64(each!(|x| if x.what.is_pause() { i64::from(x.in_a_row) } else { -1 })),
                "pause and resume, with pause_events: the priority; -1 = none",
            ),
        ],
        |e, _| e.recorder.keep_pauses,
    ),
};

static SERIES: Layout<Row> = Layout {
    name: "series",
    text: "a row per sample (needs sample and series)",
    columns: &[
        col("time_s", Seconds, F64(each!(|x| x.at.as_secs())), "when"),
        col(
            "entity",
            One,
            Coded(entities, each!(|x| x.entity as u32)),
            "port, flow or host (all flows that lead there)",
        ),
        col("number", One, U32(each!(|x| x.number)), "number of the port, flow or host"),
        col(
            "metric",
            One,
            Coded(sampled, each!(|x| u32::from(x.metric))),
            "what was sampled, with its unit: queue_packets, cwnd_bytes, alpha, fair_rate_bps, ...",
        ),
        col("value", One, F64(each!(|x| x.value)), "its value"),
    ],
    more: (&[], |_, _| false),
};
