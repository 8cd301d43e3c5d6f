//! What the engine, a live run or the approximation hands over to be read: tables, summary, warnings.

use crate::metrics::Recorder;
use crate::topology::Topology;
use penstock_core::tcp::TcpConfig;
use penstock_fabric::{Losses, Port, Stuck};
use penstock_models::Suite;
use penstock_units::Time;
use std::sync::Arc;

/// Flows that stand still for ever: they have something to send, and no pending event concerns them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StandingStill {
    /// How many.
    pub flows: u64,
    /// The last event in the whole network; `None` where other flows go on.
    pub since: Option<Time>,
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
