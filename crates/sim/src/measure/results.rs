//! Summary of a run, from the engine's tables.

use crate::measured::Measured;
use crate::metrics::deliveries::{Failure, FlowDeliveries};
use crate::metrics::{Event, What};
use crate::quantiles::quantiles;
use crate::summary_keys as key;
pub use crate::summary_keys::Summary;
use crate::tables::deliveries::longest_receiver;
use penstock_core::{DropCause, Quantity};

/// Summarises a finished run; quantities without meaning in it are left out.
pub fn summarise(e: &Measured<'_>) -> Summary {
    let r = e.recorder;
    let seconds = r.until.since(r.from).as_secs();
    let mut s = Summary::new();
    let mut put = |key: &'static Quantity, value: f64| key::put(&mut s, key, value);
    put(&key::MEASURED_S, seconds);
    for (key, value) in &r.facts {
        put(key, *value);
    }
    let flows = &r.flow_totals;
    let c = &flows.counters;
    // What arrived in the warm-up may be acknowledged later, all at once where a gap is closed: links did not carry that in the measured time.
    put(&key::GOODPUT_BPS, c.acked_bytes.min(c.arrived_bytes) as f64 * 8.0 / seconds);
    put(&key::PACKETS_SENT, c.data_packets as f64);
    put(&key::RETRANSMITS, c.retransmits as f64);
    put(&key::TIMEOUTS, c.timeouts as f64);
    put(&key::FAST_RETRANSMITS, c.fast_retransmits as f64);
    if c.tail_loss_probes > 0 {
        put(&key::TAIL_LOSS_PROBES, c.tail_loss_probes as f64);
    }
    let sum = c.acked_bytes as f64;
    put(&key::JAIN, sum * sum / (flows.flows as f64 * flows.squares as f64));
    put(&key::FLOWS, flows.flows as f64);
    put(&key::FLOWS_OPENED, flows.opened as f64);
    put(&key::FLOWS_COMPLETED, flows.completed as f64);
    put(&key::BLOCKS, r.blocks as f64);

    let port = &e.ports[e.bottleneck as usize];
    let st = port.stats();
    put(&key::UTILISATION, st.utilisation());
    put(&key::QUEUE_MEAN_PACKETS, st.queue_mean());
    put(&key::QUEUE_STD_PACKETS, st.queue_std());
    put(&key::QUEUE_MAX_PACKETS, f64::from(st.queue_max));
    put(&key::QUEUE_MEAN_BYTES, st.queue_mean_bytes());
    let bottleneck_drops: u64 = st.drops.iter().sum();
    put(&key::DROP_RATE, bottleneck_drops as f64 / st.arrived_packets as f64);
    let all = e.losses();
    let drops = all.drops.iter().sum::<u64>() + all.down;
    put(&key::DROPS, drops as f64 - e.returned as f64 + e.no_way as f64);
    put(&key::DROPS_NONECT, all.drops[DropCause::NotEct as usize] as f64);
    put(&key::CE_MARKS, all.marks as f64);
    put(&key::PACKET_HOPS, e.packet_hops as f64);
    // Where nothing can happen, a zero says nothing.
    let mut there = |key: &'static Quantity, value: f64, asked: bool| {
        if asked || value > 0.0 {
            put(key, value);
        }
    };
    there(&key::DROPS_DOWN, all.down as f64 + e.no_way as f64, e.fabric.fails);
    there(&key::TRIMS, all.trims as f64, e.fabric.trims);
    there(&key::RETURNED, e.returned as f64, false);
    there(&key::PAUSES, all.pauses as f64, e.fabric.pauses);
    there(&key::PAUSED_S, all.paused as f64 / 1e12, e.fabric.pauses);
    if e.deadlock.is_some() {
        put(&key::DEADLOCK_S, r.until.as_secs());
    }

    if let Some(d) = &r.deliveries {
        put(&key::TRANSFERS_UNFINISHED, r.transfer_totals.unfinished as f64);
        put(&key::UNFINISHED_BYTES, r.transfer_totals.unfinished_bytes as f64);
        put(&key::DUPLICATE_BYTES, r.flow_totals.counters.duplicate_bytes as f64);
        let first: u64 = d.flows.values().map(FlowDeliveries::first_copies).sum();
        put(&key::OUT_OF_ORDER, d.flows.values().map(|f| f.out_of_order).sum::<u64>() as f64 / first as f64);
        let most = d.distance(1.0);
        put(&key::DISTANCE_P99_PACKETS, d.distance(0.99).map_or(f64::NAN, f64::from));
        put(&key::DISTANCE_MAX_PACKETS, most.map_or(f64::NAN, f64::from));
        if let Some((took, ideal)) = longest_receiver(e) {
            put(&key::RECEIVER_COMPLETION_S, took);
            put(&key::RECEIVER_IDEAL_S, ideal);
        }
        let longest = |a: f64, b: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) };
        let recoveries = d.failures.iter().map(Failure::recovery);
        put(&key::RECOVERY_S, recoveries.reduce(longest).unwrap_or(f64::NAN));
    }

    let sums = &r.transfer_totals;
    let count = sums.count as f64;
    put(&key::TRANSFERS, count);
    // Without one these are not finite, and left out.
    put(&key::TRANSFER_MEAN_BYTES, sums.bytes as f64 / count);
    put(&key::FCT_MEAN_S, sums.seconds / count);
    put(&key::DEADLINES_MET, sums.met as f64 / sums.due as f64);
    let [fct, slowdown] = quantiles(&r.transfers, |t| [t.fct(), t.fct() / t.ideal], [0.5, 0.99]);
    let [p50, p99] = fct;
    put(&key::FCT_P50_S, p50);
    put(&key::FCT_P99_S, p99);
    let [p50, p99] = slowdown;
    put(&key::SLOWDOWN_P50, p50);
    put(&key::SLOWDOWN_P99, p99);
    let block = |x: &Event| [if x.what == What::Block { x.length.as_secs() } else { f64::NAN }];
    let [[p50, p99]] = quantiles(&r.events, block, [0.5, 0.99]);
    put(&key::BLOCK_MEAN_S, r.block_seconds / r.blocks as f64);
    put(&key::BLOCK_P50_S, p50);
    put(&key::BLOCK_P99_S, p99);
    let (count, algorithm, bus) = r.collectives;
    put(&key::ALGBW_BPS, algorithm / count as f64);
    put(&key::BUSBW_BPS, bus / count as f64);
    if let Some(x) = r.alpha.value() {
        put(&key::ALPHA_MEAN, x);
    }
    if let Some(x) = r.cwnd.value() {
        put(&key::CWND_MEAN_BYTES, x);
    }
    put(&key::ROWS_LEFT_OUT, r.left_out.total() as f64);
    s
}
