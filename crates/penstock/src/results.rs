//! What a run leaves: summary, tables, ports, warnings.

use penstock_core::DropCause;
use penstock_fabric::PortStats;
use penstock_sim::engine::Engine;
use penstock_sim::fingerprint::fingerprint;
use penstock_sim::measured::Measured;
use penstock_sim::metrics::FlowRecord;
use penstock_sim::notes::{rate, seconds, size};
use penstock_sim::results::Summary;
use penstock_sim::scenario::{Outcome, Resolved};
use penstock_sim::tables::{table, Table, NAMES};
use std::fmt;
use std::ops::{Deref, Index};

/// Results of one run. Statistics cover the time from warm-up to the end.
///
/// `results["goodput_bps"]` is a value of the summary, with the keys of `penstock describe`; units are in their names. Printed, it is
/// the flow table, the reported port and what to know before trusting them.
pub struct Results {
    outcome: Outcome,
    without_effect: Vec<String>,
}

/// A row of the flow table: a [`FlowRecord`] with names.
#[derive(Clone, Copy, Debug)]
pub struct FlowRow<'a> {
    record: &'a FlowRecord,
    /// Name of the sending host.
    pub src: &'a str,
    /// Name of the receiving host.
    pub dst: &'a str,
    /// Its transport, as written.
    pub transport: &'a str,
    /// Payload acknowledged in the measured time over its length, bit/s: of the part in which the flow was open.
    pub goodput_bps: f64,
}

impl Deref for FlowRow<'_> {
    type Target = FlowRecord;
    fn deref(&self) -> &FlowRecord {
        self.record
    }
}

/// A port of the network.
#[derive(Clone, Debug)]
pub struct PortRow {
    /// `FROM->TO`.
    pub name: String,
    /// Rate of its link, bit/s.
    pub rate_bps: f64,
    /// Share of the measured time in which it sent.
    pub utilisation: f64,
    /// Mean queue in packets, that in service included.
    pub queue_mean_packets: f64,
    /// Dropped packets, whatever the cause.
    pub drops: u64,
    /// Everything it counts.
    pub stats: PortStats,
}

impl Results {
    pub(crate) fn new(outcome: Outcome, of: &Resolved) -> Results {
        Results { outcome, without_effect: of.without_effect.clone() }
    }
    fn measured(&self) -> Measured<'_> {
        self.outcome.engine.measured()
    }
    /// The summary: values by key; what has no meaning in the run is not there.
    pub fn summary(&self) -> &Summary {
        &self.outcome.summary
    }
    /// A value of the summary, where it has one.
    pub fn get(&self, key: &str) -> Option<f64> {
        self.outcome.summary.get(key).copied()
    }
    /// The flow table, in the order in which the flows were opened.
    pub fn flows(&self) -> Vec<FlowRow<'_>> {
        let m = self.measured();
        let name = |node: u32| m.topology.nodes[node as usize].name.as_str();
        let mut rows: Vec<FlowRow<'_>> = m
            .recorder
            .flows
            .iter()
            .map(|f| {
                let open = f.closed.min(m.recorder.until).since(f.opened.max(m.recorder.from));
                FlowRow {
                    record: f,
                    src: name(f.src),
                    dst: name(f.dst),
                    transport: &m.protocol_names[usize::from(f.protocol)],
                    goodput_bps: f.acked_bytes as f64 * 8.0 / open.as_secs(),
                }
            })
            .collect();
        rows.sort_by_key(|f| f.flow);
        rows
    }
    /// All output ports, in the order in which their links were declared.
    pub fn ports(&self) -> Vec<PortRow> {
        let m = self.measured();
        (0..m.ports.len() as u32).map(|number| port(&m, number)).collect()
    }
    /// The port of that name, `FROM->TO`.
    pub fn port(&self, name: &str) -> Option<PortRow> {
        let m = self.measured();
        (0..m.ports.len() as u32).find(|p| m.topology.link_name(*p) == name).map(|number| port(&m, number))
    }
    /// Name of the port that the summary reports: the switch port with the longest mean queue unless one was chosen.
    pub fn bottleneck(&self) -> &str {
        &self.outcome.bottleneck
    }
    /// A table as typed columns with units in their names: `flows`, `transfers`, `ports`, `events`, `series`, and those of `deliveries`, which have
    /// rows where that key asks for them; `None` for other names.
    pub fn table(&self, name: &str) -> Option<Table> {
        NAMES.contains(&name).then(|| table(&self.measured(), name))
    }
    /// What to know before trusting the numbers, a line each: found in the run, known before it, and keys that were set without effect.
    pub fn warnings(&self) -> Vec<String> {
        let idle = self.without_effect.iter().map(|key| format!("{key} was set and has no effect"));
        self.outcome.warnings.iter().cloned().chain(idle).collect()
    }
    /// SHA-256 of the summary and all tables, in hexadecimal: equal where every number is.
    pub fn fingerprint(&self) -> String {
        fingerprint(&self.measured(), &self.outcome.summary)
    }
    /// The engine as the run has left it, with everything that was recorded.
    pub fn engine(&self) -> &Engine {
        &self.outcome.engine
    }
}

fn port(m: &Measured<'_>, number: u32) -> PortRow {
    let port = &m.ports[number as usize];
    let stats = port.stats();
    PortRow {
        name: m.topology.link_name(number),
        rate_bps: port.rate().as_bps(),
        utilisation: stats.utilisation(),
        queue_mean_packets: stats.queue_mean(),
        drops: DropCause::ALL.iter().map(|cause| stats.drops[*cause as usize]).sum(),
        stats,
    }
}

impl Index<&str> for Results {
    type Output = f64;
    /// # Panics
    /// Where the summary has no such key; [`Results::get`] answers `None` then.
    fn index(&self, key: &str) -> &f64 {
        let known = || self.outcome.summary.keys().copied().collect::<Vec<_>>().join(", ");
        self.outcome
            .summary
            .get(key)
            .unwrap_or_else(|| panic!("the summary has no {key}; it has {}", known()))
    }
}

/// Rows of the flow table that are printed.
const SHOWN: usize = 20;

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flows = self.flows();
        writeln!(
            f,
            "{:>5} {:12} {:12} {:24} {:>9} {:>9} {:>12} {:>8}",
            "flow", "src", "dst", "transport", "size", "fct", "goodput", "slowdown"
        )?;
        let or_none = |x: f64, text: String| if x.is_finite() { text } else { "-".to_owned() };
        for x in flows.iter().take(SHOWN) {
            let bytes = if x.size == 0 { "-".to_owned() } else { size(x.size as f64) };
            writeln!(
                f,
                "{:5} {:12} {:12} {:24} {:>9} {:>9} {:>12} {:>8}",
                x.flow,
                x.src,
                x.dst,
                x.transport,
                bytes,
                x.fct().map_or("-".to_owned(), seconds),
                or_none(x.goodput_bps, rate(x.goodput_bps)),
                or_none(x.slowdown(), format!("{:.2}", x.slowdown())),
            )?;
        }
        if flows.len() > SHOWN {
            writeln!(f, "      ... and {} more", flows.len() - SHOWN)?;
        }
        if let Some(p) = self.port(self.bottleneck()) {
            writeln!(
                f,
                "{}: {:.1} % busy, {:.1} packets on average, {} at most, {} dropped, {} marked",
                p.name,
                100.0 * p.utilisation,
                p.queue_mean_packets,
                p.stats.queue_max,
                p.drops,
                p.stats.marks
            )?;
        }
        self.warnings().iter().try_for_each(|line| writeln!(f, "warning: {line}"))
    }
}

impl fmt::Debug for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Results")
            .field("summary", &self.outcome.summary)
            .field("bottleneck", &self.outcome.bottleneck)
            .finish_non_exhaustive()
    }
}
