//! Summary of a run, from the engine's tables.

use crate::metrics::Recorder;
use crate::port::Port;
use crate::topology::Topology;
use penstock_core::DropCause;
use std::collections::BTreeMap;

/// What a run leaves to be read, whoever drove it: virtual time or the wall clock.
#[derive(Clone, Copy)]
pub struct Measured<'a> {
    /// Network.
    pub topology: &'a Topology,
    /// Protocols as written, by position.
    pub protocol_names: &'a [String],
    /// Ports, by number.
    pub ports: &'a [Port],
    /// Number of the bottleneck port.
    pub bottleneck: u32,
    /// What has been recorded.
    pub recorder: &'a Recorder,
    /// Packets delivered over one link.
    pub packet_hops: u64,
}

/// Summary keys with their values; units are in the names.
pub type Summary = BTreeMap<&'static str, f64>;

/// The q-quantile (0..1) of sorted values by linear interpolation; NaN when there are none.
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    if sorted.is_empty() {
        return f64::NAN;
    }
    let x = q * (sorted.len() - 1) as f64;
    let i = x as usize;
    let j = (i + 1).min(sorted.len() - 1);
    sorted[i] + (sorted[j] - sorted[i]) * (x - i as f64)
}

/// Jain's index (sum x)^2 / (n sum x^2); NaN when there is nothing.
pub fn jain(values: &[f64]) -> f64 {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|x| x * x).sum();
    sum * sum / (values.len() as f64 * squares)
}

/// Summarises a finished run; quantities without meaning in it are left out.
pub fn summarise(e: &Measured<'_>) -> Summary {
    let r = e.recorder;
    let seconds = r.until.since(r.from).as_secs();
    let mut s = Summary::new();
    let mut put = |key: &'static str, value: f64| {
        if value.is_finite() {
            s.insert(key, value);
        }
    };
    put("measured_s", seconds);
    for (key, value) in &r.facts {
        put(key, *value);
    }
    let measured: Vec<_> = r.flows.iter().map(|f| f.measured()).collect();
    let total = |f: fn(&crate::metrics::FlowCounters) -> u64| measured.iter().map(f).sum::<u64>() as f64;
    put("goodput_bps", total(|m| m.acked_bytes) * 8.0 / seconds);
    put("packets_sent", total(|m| m.data_packets));
    put("retransmits", total(|m| m.retransmits));
    put("timeouts", total(|m| m.timeouts));
    put("fast_retransmits", total(|m| m.fast_retransmits));
    let rates: Vec<f64> = measured.iter().map(|m| m.acked_bytes as f64).collect();
    put("jain", jain(&rates));
    put("flows", r.flows.len() as f64);
    put("blocks", r.blocks as f64);

    let port = &e.ports[e.bottleneck as usize];
    let st = port.stats();
    let ps = seconds * 1e12;
    let mean = st.queue_integral / ps;
    put("utilisation", st.departed_bytes as f64 * 8.0 / (port.rate().as_bps() * seconds));
    put("queue_mean_packets", mean);
    put("queue_std_packets", (st.queue_square_integral / ps - mean * mean).max(0.0).sqrt());
    put("queue_max_packets", f64::from(st.queue_max));
    put("queue_mean_bytes", st.byte_integral / ps);
    let bottleneck_drops: u64 = st.drops.iter().sum();
    put("drop_rate", bottleneck_drops as f64 / st.arrived_packets as f64);
    let all =
        |f: fn(&crate::port::PortStats) -> u64| e.ports.iter().map(|p| f(&p.stats())).sum::<u64>() as f64;
    put("drops", all(|p| p.drops.iter().sum()));
    put("drops_nonect", all(|p| p.drops[DropCause::NotEct as usize]));
    put("ce_marks", all(|p| p.marks));
    put("packet_hops", e.packet_hops as f64);

    let mut fct: Vec<f64> = r.transfers.iter().map(|t| (t.acked - t.started).as_secs()).collect();
    put("transfers", fct.len() as f64);
    put("flows_completed", fct.len() as f64);
    if !fct.is_empty() {
        put(
            "transfer_mean_bytes",
            r.transfers.iter().map(|t| t.bytes as f64).sum::<f64>() / fct.len() as f64,
        );
        put("fct_mean_s", fct.iter().sum::<f64>() / fct.len() as f64);
        fct.sort_by(f64::total_cmp);
        put("fct_p50_s", quantile(&fct, 0.5));
        put("fct_p99_s", quantile(&fct, 0.99));
        let due: Vec<_> = r.transfers.iter().filter(|t| t.due != penstock_units::Time::NEVER).collect();
        if !due.is_empty() {
            let met = due.iter().filter(|t| t.acked <= t.due).count();
            put("deadlines_met", met as f64 / due.len() as f64);
        }
    }
    let mut blocks: Vec<f64> =
        r.events.iter().filter(|x| x.what == "block").map(|x| x.length.as_secs()).collect();
    if !blocks.is_empty() {
        blocks.sort_by(f64::total_cmp);
        put("block_mean_s", blocks.iter().sum::<f64>() / blocks.len() as f64);
        put("block_p50_s", quantile(&blocks, 0.5));
        put("block_p99_s", quantile(&blocks, 0.99));
    }
    if let Some(x) = r.alpha.value() {
        put("alpha_mean", x);
    }
    if let Some(x) = r.cwnd.value() {
        put("cwnd_mean_bytes", x);
    }
    put("rows_left_out", r.rows_left_out as f64);
    s
}
