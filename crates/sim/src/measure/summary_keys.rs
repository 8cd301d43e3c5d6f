//! Every key that a summary can have, simulated or live: what it means and its unit, declared once. Whoever knows a value gives it with
//! the declaration, and `describe` answers from here; the columns of tables are declared in `tables.rs`.

use penstock_core::{Quantity, Unit};
use std::collections::BTreeMap;

/// Summary keys with their values; units are in the names.
pub type Summary = BTreeMap<&'static str, f64>;

/// Sets a value; one that is not finite has no meaning in the run and is left out.
pub fn put(summary: &mut Summary, key: &'static Quantity, value: f64) {
    if value.is_finite() {
        summary.insert(key.name, value);
    }
}

/// Declares keys that stand alone, and the list of them.
macro_rules! keys {
    ($($key:ident = $name:literal, $unit:ident, $text:literal;)*) => {
        $(#[doc = $text] pub static $key: Quantity = Quantity::new($name, Unit::$unit, $text);)*
        static KEYS: &[&Quantity] = &[$(&$key),*];
    };
}

keys! {
    MEASURED_S = "measured_s", Seconds, "measured time: from the end of the warm-up to the end of the run";
    GOODPUT_BPS = "goodput_bps", BitsPerSecond, "payload acknowledged, all flows together, per measured time; at most what arrived in that time";
    FLOWS = "flows", One, "connections open at any time of the measured time";
    FLOWS_OPENED = "flows_opened", One, "connections opened in the measured time";
    FLOWS_COMPLETED = "flows_completed", One, "connections that delivered all their bytes and closed in the measured time";
    TRANSFERS = "transfers", One, "writes of applications acknowledged to the last byte";
    TRANSFER_MEAN_BYTES = "transfer_mean_bytes", Bytes, "mean size of the completed transfers";
    TRANSFERS_UNFINISHED = "transfers_unfinished", One, "writes not acknowledged to the last byte at the end; statistics of transfers exclude them \
        (with deliveries)";
    UNFINISHED_BYTES = "unfinished_bytes", Bytes, "total size of the unfinished transfers (with deliveries)";
    DUPLICATE_BYTES = "duplicate_bytes", Bytes, "payload that reached receivers more than once (with deliveries)";
    FCT_MEAN_S = "fct_mean_s", Seconds, "mean completion time of transfers: from the write to the acknowledgement of its last byte";
    FCT_P50_S = "fct_p50_s", Seconds, "median completion time of transfers";
    FCT_P99_S = "fct_p99_s", Seconds, "99th percentile of the completion time of transfers";
    SLOWDOWN_P50 = "slowdown_p50", One, "median slowdown: completion time over that of the same transfer alone in the idle network";
    SLOWDOWN_P99 = "slowdown_p99", One, "99th percentile of the slowdown";
    DEADLINES_MET = "deadlines_met", One, "share of the completed transfers with a deadline that met it";
    BLOCKS = "blocks", One, "units of application work completed: blocks of synchronized reads, queries";
    BLOCK_MEAN_S = "block_mean_s", Seconds, "mean time of a block or query, from its first request to its last acknowledgement";
    BLOCK_P50_S = "block_p50_s", Seconds, "median time of a block or query";
    BLOCK_P99_S = "block_p99_s", Seconds, "99th percentile of the time of a block or query";
    ALGBW_BPS = "algbw_bps", BitsPerSecond, "mean algorithm bandwidth of collective operations: buffer of a rank over completion time";
    BUSBW_BPS = "busbw_bps", BitsPerSecond, "mean bus bandwidth of collective operations: algbw_bps times the share of the buffer that each rank \
        sends, 2 (N-1)/N for all-reduce";
    JAIN = "jain", One, "Jain's fairness index of the flows' acknowledged bytes: 1 = all alike, 1/n = one has everything";
    PACKETS_SENT = "packets_sent", Packets, "data packets sent, retransmissions included";
    RETRANSMITS = "retransmits", Packets, "data packets sent again";
    TIMEOUTS = "timeouts", One, "retransmission timeouts, those of SYNs included, without tail-loss probes";
    FAST_RETRANSMITS = "fast_retransmits", One, "fast retransmits (losses found by duplicate or selective acknowledgements)";
    UTILISATION = "utilisation", One, "share of the measured time for which the bottleneck was sending, framing included";
    QUEUE_MEAN_PACKETS = "queue_mean_packets", Packets, "mean queue of the bottleneck over time, the packet in service included";
    QUEUE_STD_PACKETS = "queue_std_packets", Packets, "standard deviation of the bottleneck's queue over time";
    QUEUE_MAX_PACKETS = "queue_max_packets", Packets, "largest queue of the bottleneck";
    QUEUE_MEAN_BYTES = "queue_mean_bytes", Bytes, "mean queue of the bottleneck over time";
    DROP_RATE = "drop_rate", One, "packets dropped at the bottleneck over packets that arrived there";
    DROPS = "drops", Packets, "packets dropped anywhere, whatever the cause";
    DROPS_NONECT = "drops_nonect", Packets, "packets dropped instead of marked, because they were not ECN-capable";
    CE_MARKS = "ce_marks", Packets, "packets marked (congestion experienced) anywhere";
    DROPS_DOWN = "drops_down", Packets, "packets lost because a link was down (with fail)";
    TRIMS = "trims", Packets, "packets whose payload was cut off (with trim)";
    RETURNED = "returned", Packets, "headers that full switches returned to their senders (with ndp); the table ports counts them as drops";
    PAUSES = "pauses", One, "pause frames that stopped a priority of a port (with pfc)";
    PAUSED_S = "paused_s", Seconds, "total pause time of all priorities of all ports (with pfc)";
    DEADLOCK_S = "deadlock_s", Seconds, "time at which a deadlock of paused ports was found, which ended the run";
    OUT_OF_ORDER = "out_of_order", One, "share of the first copies of data packets that arrived behind one sent later (with deliveries)";
    DISTANCE_P99_PACKETS = "distance_p99_packets", Packets, "99th percentile of the out-of-order distance of data packets (with deliveries)";
    DISTANCE_MAX_PACKETS = "distance_max_packets", Packets, "largest out-of-order distance (with deliveries)";
    RECEIVER_COMPLETION_S = "receiver_completion_s", Seconds, "time from the first write to a host to its last acknowledgement, for the slowest host \
        (with deliveries)";
    RECEIVER_IDEAL_S = "receiver_ideal_s", Seconds, "lower bound of receiver_completion_s: link always busy, each transfer as fast as in the idle \
        network (with deliveries)";
    RECOVERY_S = "recovery_s", Seconds, "longest time from a link's failure to the arrival of all data that it lost; absent if some never arrived \
        (with deliveries)";
    PACKET_HOPS = "packet_hops", Packets, "packets delivered over one link each: the cost of a run";
    ALPHA_MEAN = "alpha_mean", One, "DCTCP's estimate of the share of marked packets, mean over open flows and samples (needs sample)";
    CWND_MEAN_BYTES = "cwnd_mean_bytes", Bytes, "congestion window, mean over open flows and samples (needs sample)";
    SIZE_MEAN_BYTES = "size_mean_bytes", Bytes, "mean of the distribution of flow sizes in use";
    ARRIVALS_PER_S = "arrivals_per_s", PerSecond, "rate at which an open loop begins flows";
    OFFERED_LOAD = "offered_load", One, "bytes an open loop offers, headers included, as a share of the receiving links";
    ROWS_LEFT_OUT = "rows_left_out", One, "rows left out because a table was full";
    VALID = "valid", One, "live: 1 if the run is valid, 0 otherwise";
    LAG_P50_S = "lag_p50_s", Seconds, "live: median of the network thread's lateness";
    LAG_P99_S = "lag_p99_s", Seconds, "live: 99th percentile of the network thread's lateness";
    LAG_MAX_S = "lag_max_s", Seconds, "live: maximum lateness of the network thread";
    WAKE_TIMES = "wake_times", One, "live: wake-ups with a packet due, of which the lateness was measured";
    AWAKE_P50_S = "awake_p50_s", Seconds, "live: median of the network thread's lateness while awake and not busy";
    AWAKE_P99_S = "awake_p99_s", Seconds, "live: 99th percentile of how late the switch was with packets that were due while it was awake and waited \
        for no other";
    AWAKE_TIMES = "awake_times", One, "live: packets that became due while the network thread was awake and not busy";
    WAKE_PAUSES_1MS = "wake_pauses_1ms", One, "live: pauses of the network thread of 1 to 2 ms (idle thread, hosts had sent before)";
    WAKE_PAUSES_1MS_SENT = "wake_pauses_1ms_sent", One, "live: those of wake_pauses_1ms in which hosts went on sending";
    WAKE_PAUSES_2MS = "wake_pauses_2ms", One, "live: pauses of the network thread of 2 to 4 ms (idle thread, hosts had sent before)";
    WAKE_PAUSES_2MS_SENT = "wake_pauses_2ms_sent", One, "live: those of wake_pauses_2ms in which hosts went on sending";
    WAKE_PAUSES_4MS = "wake_pauses_4ms", One, "live: pauses of the network thread of 4 to 8 ms (idle thread, hosts had sent before)";
    WAKE_PAUSES_4MS_SENT = "wake_pauses_4ms_sent", One, "live: those of wake_pauses_4ms in which hosts went on sending";
    WAKE_PAUSES_8MS = "wake_pauses_8ms", One, "live: pauses of the network thread of 8 ms or more (idle thread, hosts had sent before)";
    WAKE_PAUSES_8MS_SENT = "wake_pauses_8ms_sent", One, "live: those of wake_pauses_8ms in which hosts went on sending";
    RECEIVER_TURN_NEAR = "receiver_turn_near", One, "live: correlation of the logarithms of a host's successive receiver_turn values";
    RECEIVER_TURN_FAR = "receiver_turn_far", One, "live: correlation of the logarithms of a host's receiver_turn values that are 20 apart";
    RECEIVER_TURN_PACKETS = "receiver_turn_packets", Packets, "live: data packets delivered per measured receiver turn";
    DUPACK_TURN_NEAR = "dupack_turn_near", One, "live: correlation of the logarithms of a host's successive dupack_turn values";
    DUPACK_TURN_FAR = "dupack_turn_far", One, "live: correlation of the logarithms of a host's dupack_turn values that are 20 apart";
    DUPACK_TURN_PACKETS = "dupack_turn_packets", Packets, "live: data packets behind a gap delivered per measured duplicate ACK";
    APPLICATION_LAG_TIMES = "application_lag_times", One, "live: reads of which the lateness was measured";
    APPLICATION_LAG_NEAR = "application_lag_near", One, "live: correlation of the log-lateness of successive reads of a host";
    APPLICATION_LAG_FAR = "application_lag_far", One, "live: correlation of the log-lateness of a host's reads that are 20 apart";
    APPLICATION_TURN_NEAR = "application_turn_near", One, "live: correlation of the logarithms of a host's successive application_turn values";
    APPLICATION_TURN_FAR = "application_turn_far", One, "live: correlation of the logarithms of a host's application_turn values that are 20 apart";
    APPLICATION_TURN_LAG = "application_turn_lag", One, "live: correlation of the logarithms of application_lag and application_turn of one read";
    SENDER_TURN_NEAR = "sender_turn_near", One, "live: correlation of the logarithms of a host's successive sender_turn values";
    SENDER_TURN_FAR = "sender_turn_far", One, "live: correlation of the logarithms of a host's sender_turn values that are 20 apart";
    SENDER_TURN_PACKETS = "sender_turn_packets", Packets, "live: ACKs delivered per measured sender turn";
    MISSED_TICKS_WRITE = "missed_ticks_write", One, "live: share of the kernel's ticks at which a due timer of the application thread's processor did not run";
    MISSED_TICKS_ARRIVAL = "missed_ticks_arrival", One, "live: share of the kernel's ticks at which a due timer of the network thread's processor did not run";
    LATE_WINDOWS = "late_windows", One, "live: share of the windows of time in which the switch was late";
    TIMER_LAG_MAX_S = "timer_lag_max_s", Seconds, "live: how late the latest timer of the applications was";
    DEVICE_DROPS = "device_drops", Packets, "live: packets dropped by devices, outside the queues of the scenario";
    OTHER_CPU_CORES = "other_cpu_cores", One, "live: cores that other processes kept busy meanwhile";
    UNREPORTED_ACKS = "unreported_acks", Packets, "live: acknowledgements that the switch saw and no socket reported";
    TAIL_LOSS_PROBES = "tail_loss_probes", Packets, "tail-loss probes (RFC 8985 section 7); left out where none was sent";
}

/// Every key, in the order shown to a user. All cover the measured time, from warm-up to the end.
pub fn all() -> impl Iterator<Item = &'static Quantity> {
    KEYS.iter().copied().chain(DISTRIBUTIONS.iter().copied().flatten())
}

/// Shares of the quantiles of most distributions of a live run.
pub const SHARES: [f64; 7] = [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99];
/// Shares of the quantiles of a distribution whose tail matters.
pub const TAIL_SHARES: [f64; 9] = [0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999];
/// Ranks of its largest values, from 1.
pub const TAIL_RANKS: [usize; 12] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32];

/// A key for each statistic of a distribution.
macro_rules! statistics {
    ($name:literal, $of:literal: $($key:literal $what:literal),*) => {
        [$(Quantity::new(concat!($name, "_", $key, "_s"), Unit::Seconds, concat!("live: ", $what, " of ", $of))),*]
    };
}
/// The quantiles by [`SHARES`].
macro_rules! quantiles {
    ($name:literal, $of:literal) => {
        statistics!($name, $of: "p1" "1st percentile", "p10" "10th percentile", "p25" "25th percentile", "p50" "median",
            "p75" "75th percentile", "p90" "90th percentile", "p99" "99th percentile")
    };
}
/// The quantiles by [`TAIL_SHARES`], then the values by [`TAIL_RANKS`].
macro_rules! tail {
    ($name:literal, $of:literal) => {
        statistics!($name, $of: "p10" "10th percentile", "p25" "25th percentile", "p50" "median", "p75" "75th percentile",
            "p90" "90th percentile", "p95" "95th percentile", "p99" "99th percentile", "p995" "0.995-quantile",
            "p999" "0.999-quantile", "1" "largest", "2" "2nd largest", "3" "3rd largest", "4" "4th largest",
            "5" "5th largest", "6" "6th largest", "8" "8th largest", "10" "10th largest", "12" "12th largest",
            "16" "16th largest", "24" "24th largest", "32" "32nd largest")
    };
}
/// Declares distributions, each an array of the keys of its statistics, and the list of them.
macro_rules! distributions {
    ($($key:ident: $n:literal = $statistics:ident!($name:literal, $of:literal);)*) => {
        $(#[doc = concat!("Statistics of ", $of)] pub static $key: [Quantity; $n] = $statistics!($name, $of);)*
        static DISTRIBUTIONS: &[&[Quantity]] = &[$(&$key),*];
    };
}

distributions! {
    WAKE: 21 = tail!("wake", "the network thread's lateness after a sleep");
    DATA_HANDOVER: 7 = quantiles!("data_handover", "the time to deliver a packet with payload to its host");
    ACK_HANDOVER: 7 = quantiles!("ack_handover", "the time to deliver a packet without payload to its host");
    RECEIVER_TURN: 7 = quantiles!("receiver_turn", "the time from the delivery of a data packet to its immediate ACK");
    DUPACK_TURN: 7 = quantiles!("dupack_turn", "the time from the delivery of a data packet to its duplicate ACK");
    APPLICATION_LAG: 21 = tail!("application_lag", "the time from the delivery of the first unread byte to the read");
    APPLICATION_TURN: 7 = quantiles!("application_turn",
        "the time from the delivery of the first unread byte to the ACK that the read releases");
    SENDER_TURN: 7 = quantiles!("sender_turn", "the time from the delivery of an ACK to the data packet that it releases");
    WRITE_LAG: 7 = quantiles!("write_lag",
        "the application thread's lateness with a write, waits for other writes excluded");
    WRITE_TIME: 7 = quantiles!("write_time", "the time for which a write occupies the application thread");
    WRITE_TURN: 7 = quantiles!("write_turn",
        "the time from the beginning of a write on an idle connection to its first packet");
}
