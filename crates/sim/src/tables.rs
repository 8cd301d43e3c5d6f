//! The tables of a run as typed columns, units in their names: what leaves the engine.

use crate::metrics::FlowRecord;
use crate::results::Measured;
use penstock_core::DropCause;
use penstock_units::Time;
use std::borrow::Cow;
use std::collections::BTreeMap;

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
    /// Columns by name.
    pub columns: Vec<(Cow<'static, str>, Values)>,
}

/// The names of the tables, in order.
pub const NAMES: [&str; 5] = ["flows", "transfers", "ports", "events", "series"];

/// Collects the columns of one table from its rows.
struct Columns<'a, R> {
    rows: &'a [R],
    columns: Vec<(Cow<'static, str>, Values)>,
}

impl<'a, R> Columns<'a, R> {
    fn of(rows: &'a [R]) -> Self {
        Columns { rows, columns: Vec::new() }
    }
    fn put(&mut self, name: impl Into<Cow<'static, str>>, values: Values) {
        self.columns.push((name.into(), values));
    }
    fn bools(&mut self, name: &'static str, f: impl Fn(&R) -> bool) {
        self.put(name, Values::Bool(self.rows.iter().map(f).collect()));
    }
    fn u32(&mut self, name: &'static str, f: impl Fn(&R) -> u32) {
        self.put(name, Values::U32(self.rows.iter().map(f).collect()));
    }
    fn u64(&mut self, name: impl Into<Cow<'static, str>>, f: impl Fn(&R) -> u64) {
        self.put(name, Values::U64(self.rows.iter().map(f).collect()));
    }
    fn i64(&mut self, name: &'static str, f: impl Fn(&R) -> i64) {
        self.put(name, Values::I64(self.rows.iter().map(f).collect()));
    }
    fn f64(&mut self, name: &'static str, f: impl Fn(&R) -> f64) {
        self.put(name, Values::F64(self.rows.iter().map(f).collect()));
    }
    /// Texts that are numbered already.
    fn coded(&mut self, name: &'static str, names: &[String], code: impl Fn(&R) -> u32) {
        self.put(name, Values::Text(self.rows.iter().map(code).collect(), names.to_vec()));
    }
    /// Texts that are not numbered yet.
    fn words(&mut self, name: &'static str, word: impl Fn(&R) -> &'static str) {
        let mut known: BTreeMap<&'static str, u32> = BTreeMap::new();
        let mut names = Vec::new();
        let codes = self.rows.iter().map(|row| {
            let word = word(row);
            *known.entry(word).or_insert_with(|| {
                names.push(word.to_owned());
                names.len() as u32 - 1
            })
        });
        let codes = codes.collect();
        self.put(name, Values::Text(codes, names));
    }
}

fn secs(t: Time) -> f64 {
    if t == Time::NEVER {
        f64::NAN
    } else {
        t.as_secs()
    }
}

/// The table of that name, one of [`NAMES`].
///
/// # Panics
/// On any other name.
pub fn table(e: &Measured<'_>, name: &str) -> Table {
    match name {
        "flows" => Table { name: "flows", columns: flows(e, &e.recorder.flows) },
        "transfers" => Table { name: "transfers", columns: transfers(e) },
        "ports" => Table { name: "ports", columns: ports(e) },
        "events" => Table { name: "events", columns: events(e) },
        "series" => Table { name: "series", columns: series(e) },
        other => panic!("there is no table {other}"),
    }
}

type Made = Vec<(Cow<'static, str>, Values)>;

fn flows(e: &Measured<'_>, rows: &[FlowRecord]) -> Made {
    let nodes: Vec<String> = e.topology.nodes.iter().map(|n| n.name.clone()).collect();
    let mut t = Columns::of(rows);
    t.u32("flow", |f| f.flow);
    t.coded("src", &nodes, |f| f.src);
    t.coded("dst", &nodes, |f| f.dst);
    t.u64("size_bytes", |f| f.size);
    t.f64("opened_s", |f| f.opened.as_secs());
    t.f64("closed_s", |f| if f.open_at_end { f64::NAN } else { f.closed.as_secs() });
    t.f64("fct_s", |f| f.fct().unwrap_or(f64::NAN));
    t.f64("ideal_fct_s", |f| f.ideal);
    t.f64("slowdown", |f| f.slowdown());
    t.coded("protocol", e.protocol_names, |f| u32::from(f.protocol));
    t.u32("workload", |f| f.workload);
    t.bools("complete", |f| f.complete);
    t.u32("transfers", |f| f.transfers);
    t.u64("acked_bytes", |f| f.acked_bytes);
    t.u64("delivered_bytes", |f| f.delivered_bytes);
    t.u64("packets_sent", |f| f.data_packets);
    t.u32("retransmits", |f| f.retransmits);
    t.u32("timeouts", |f| f.timeouts);
    t.u32("fast_retransmits", |f| f.fast_retransmits);
    t.u64("ece_acks", |f| f.ece_acks);
    t.u32("drops", |f| f.drops);
    t.f64("srtt_s", |f| f.srtt.as_secs());
    t.f64("rtt_mean_s", |f| f.rtt_mean.as_secs());
    t.columns
}

fn transfers(e: &Measured<'_>) -> Made {
    let mut t = Columns::of(&e.recorder.transfers);
    t.u32("flow", |x| x.flow);
    t.f64("start_s", |x| x.started.as_secs());
    t.f64("delivered_s", |x| secs(x.delivered));
    t.f64("acked_s", |x| x.acked.as_secs());
    t.u64("bytes", |x| x.bytes);
    t.f64("fct_s", |x| x.fct());
    t.f64("ideal_fct_s", |x| x.ideal);
    t.f64("slowdown", |x| x.fct() / x.ideal);
    t.f64("due_s", |x| secs(x.due));
    t.columns
}

fn ports(e: &Measured<'_>) -> Made {
    let names: Vec<String> = (0..e.ports.len() as u32).map(|i| e.topology.link_name(i)).collect();
    let rows: Vec<_> = e.ports.iter().map(|port| (port.rate().as_bps(), port.stats())).enumerate().collect();
    let seconds = e.seconds();
    let ps = seconds * 1e12;
    let mut t = Columns::of(&rows);
    t.u32("port", |(i, _)| *i as u32);
    t.coded("name", &names, |(i, _)| *i as u32);
    t.bools("bottleneck", |(i, _)| *i as u32 == e.bottleneck);
    t.f64("rate_bps", |(_, (rate, _))| *rate);
    t.f64("utilisation", |(_, (rate, s))| s.departed_bytes as f64 * 8.0 / (rate * seconds));
    t.f64("queue_mean_packets", |(_, (_, s))| e.mean_queue(s));
    t.f64("queue_std_packets", |(_, (_, s))| {
        let mean = s.queue_integral / ps;
        let variance = s.queue_square_integral / ps - mean * mean;
        // NaN, where it was not measured, stays NaN.
        if variance < 0.0 {
            0.0
        } else {
            variance.sqrt()
        }
    });
    t.u32("queue_max_packets", |(_, (_, s))| s.queue_max);
    t.f64("queue_mean_bytes", |(_, (_, s))| s.byte_integral / ps);
    t.u64("packets_arrived", |(_, (_, s))| s.arrived_packets);
    t.u64("packets_departed", |(_, (_, s))| s.departed_packets);
    for cause in DropCause::ALL {
        t.u64(format!("drops_{}", cause.name()), |(_, (_, s))| s.drops[cause as usize]);
    }
    t.u64("ce_marks", |(_, (_, s))| s.marks);
    t.columns
}

fn events(e: &Measured<'_>) -> Made {
    let mut t = Columns::of(&e.recorder.events);
    t.f64("time_s", |x| x.at.as_secs());
    t.i64("flow", |x| if x.flow == u32::MAX { -1 } else { i64::from(x.flow) });
    t.words("what", |x| x.what);
    t.bools("block_start", |x| x.block_start);
    t.u64("offset_bytes", |x| x.offset);
    t.u64("outstanding_bytes", |x| x.outstanding);
    t.u64("cwnd_bytes", |x| x.cwnd);
    t.f64("rto_s", |x| x.length.as_secs());
    t.u32("in_a_row", |x| x.in_a_row);
    t.u64("drops", |x| x.drops);
    t.u64("lost_bytes", |x| x.lost);
    t.columns
}

fn series(e: &Measured<'_>) -> Made {
    let mut t = Columns::of(&e.recorder.series);
    t.f64("time_s", |x| x.at.as_secs());
    t.words("entity", |x| x.entity);
    t.u32("number", |x| x.number);
    t.words("metric", |x| x.metric);
    t.f64("value", |x| x.value);
    t.columns
}
