//! Summary of a run, from the engine's tables.

use crate::engine::StandingStill;
use crate::metrics::deliveries::{Failure, FlowDeliveries};
use crate::metrics::{Event, Recorder, What};
use crate::quantiles::quantiles;
use crate::summary_keys as key;
pub use crate::summary_keys::Summary;
use crate::tables::deliveries::longest_receiver;
use crate::topology::{NodeKind, Topology};
use penstock_core::tcp::TcpConfig;
use penstock_core::{DropCause, Quantity};
use penstock_fabric::{Losses, Port, Stuck};
use penstock_models::Suite;
use std::sync::Arc;

/// Which port a run reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bottleneck {
    /// This one.
    Fixed(u32),
    /// The switch port with the longest mean queue in the measured window, known at the end. Until then the candidate
    /// stands for it: its queue is sampled, and in large networks its moments are the only ones that are kept.
    Busiest {
        /// The port the scenario expects.
        candidate: u32,
    },
}

impl Bottleneck {
    /// The port known before the run.
    pub fn candidate(self) -> u32 {
        match self {
            Bottleneck::Fixed(port) | Bottleneck::Busiest { candidate: port } => port,
        }
    }
    /// The reported port, at the end of the run.
    pub fn port(self, topology: &Topology, ports: &[Port]) -> u32 {
        match self {
            Bottleneck::Fixed(port) => port,
            Bottleneck::Busiest { candidate } => {
                longest(ports, |p| is_switch_port(topology, p)).unwrap_or(candidate)
            }
        }
    }
}

impl From<u32> for Bottleneck {
    fn from(port: u32) -> Bottleneck {
        Bottleneck::Fixed(port)
    }
}

/// True for the output ports of switches.
pub(crate) fn is_switch_port(t: &Topology, port: u32) -> bool {
    t.nodes[t.links[port as usize].from as usize].kind == NodeKind::Switch
}

/// The port with the longest mean queue among those asked for, the first of equals; `None` when all were empty.
pub(crate) fn longest(ports: &[Port], among: impl Fn(u32) -> bool) -> Option<u32> {
    let mut best = (0, None);
    for p in (0..ports.len() as u32).filter(|p| among(*p)) {
        let sojourn = ports[p as usize].sojourn();
        if sojourn > best.0 {
            best = (sojourn, Some(p));
        }
    }
    best.1
}

/// What a run leaves to be read, whoever drove it: virtual time or the wall clock.
#[derive(Clone, Copy)]
pub struct Measured<'a> {
    /// Network.
    pub topology: &'a Topology,
    /// Protocols as written, by position.
    pub protocol_names: &'a [String],
    /// Ports, by number.
    pub ports: &'a [Port],
    /// Number of the reported port.
    pub bottleneck: u32,
    /// The port that was expected to be it, and sampled.
    pub candidate: u32,
    /// What has been recorded.
    pub recorder: &'a Recorder,
    /// Packets delivered over one link.
    pub packet_hops: u64,
    /// Packets for which a switch knew no way on: a failure has cut their receiver off.
    pub no_way: u64,
    /// Headers that switches have sent back to their senders; ports count them as dropped.
    pub returned: u64,
    /// Protocols with their connection options, by position.
    pub protocols: &'a [(Suite, Arc<TcpConfig>)],
    /// What was found out while the run was built, a line each.
    pub notes: &'a [String],
    /// Protocols that no workload uses, by position.
    pub idle: &'a [usize],
    /// A workload ended the run, or a deadlock.
    pub stopped: bool,
    /// Flows that would stand still for ever if the run went on.
    pub stuck: Option<StandingStill>,
    /// What could happen to packets in its network.
    pub fabric: Possible,
    /// Ports that wait for each other for ever, where some do.
    pub deadlock: Option<&'a [Stuck]>,
}

/// What the options of a run make possible: a count of it is told even when it is zero.
#[derive(Clone, Copy, Debug, Default)]
pub struct Possible {
    /// Links fail.
    pub fails: bool,
    /// Packets of a flow may take several paths side by side, or change from one to another.
    pub sprays: bool,
    /// Links get a higher rate than their own.
    pub raises: bool,
    /// Failures may lead packets over longer paths that are faster than the shortest.
    pub detours: bool,
    /// Ports trim.
    pub trims: bool,
    /// Pause frames are sent.
    pub pauses: bool,
    /// Priorities without loss, a bit each.
    pub lossless: u8,
}

impl Measured<'_> {
    /// Suites and options of the protocols that workloads use, with their names.
    pub fn in_use(&self) -> impl Iterator<Item = (&str, &(Suite, Arc<TcpConfig>))> {
        let all = self.protocols.iter().enumerate().filter(|(position, _)| !self.idle.contains(position));
        all.map(|(position, protocol)| {
            (self.protocol_names.get(position).map_or("", String::as_str), protocol)
        })
    }
    /// Length of the measured window in seconds.
    pub fn seconds(&self) -> f64 {
        self.recorder.until.since(self.recorder.from).as_secs()
    }
    /// Name of the reported port.
    pub fn bottleneck_name(&self) -> String {
        self.topology.link_name(self.bottleneck)
    }
    /// What has happened to the packets of all ports.
    pub fn losses(&self) -> Losses {
        let mut sum = Losses::default();
        self.ports.iter().for_each(|port| port.add_losses(&mut sum));
        sum
    }
}

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
        let first: u64 = d.flows.iter().map(FlowDeliveries::first_copies).sum();
        put(&key::OUT_OF_ORDER, d.flows.iter().map(|f| f.out_of_order).sum::<u64>() as f64 / first as f64);
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
