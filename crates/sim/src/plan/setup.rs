//! Everything that defines one run, and what is built from it for whoever drives the run.

use crate::bottleneck::Bottleneck;
use crate::events::{longest_flight_ps, Ties, MAX_PORTS};
use crate::fabric_options::{FabricOptions, LinkChange};
use crate::ideal::Lengths;
use crate::metrics::Recorder;
use crate::topology::{Link, NodeKind, Topology};
use crate::workloads::{Timetable, Workload};
use penstock_core::receive::ReceiveController;
use penstock_core::rng::Entity;
use penstock_core::tcp::TcpConfig;
use penstock_core::{Amount, HostController, ParamError, Stream};
use penstock_fabric::{Forwarding, ForwardingConfig, Known};
use penstock_host::latency::HostLatency;
use penstock_host::Order;
use penstock_models::queues::shared_buffer::SharedBuffer;
use penstock_models::registry::{BuildLink, BuildReceive, LinkFacts};
use penstock_models::Suite;
use penstock_units::{Bytes, Dur};
use std::sync::{Arc, Mutex, PoisonError};

/// A host controller and the connections in its charge: all that some workloads open.
pub struct Collective {
    /// The controller.
    pub controller: Box<dyn HostController>,
    /// Workloads, by position.
    pub workloads: Vec<u32>,
}

/// A router whose ports share a buffer with a limit in packets and RED per traffic class.
pub struct Pool {
    /// The router.
    pub node: u32,
    /// What governs the buffer; its limits are in packets.
    pub rule: SharedBuffer,
}

/// How a host sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NicMode {
    /// What a transport may send goes into an endless queue at once.
    Endless,
    /// The network card pulls a packet when its link can take one.
    Pull(Order),
}

/// Base seed and number of the replication.
#[derive(Clone, Copy, Debug)]
pub struct RunId {
    /// Base seed.
    pub seed: u64,
    /// Replication, 0-based.
    pub run: u64,
}

/// Everything that defines one run.
pub struct Setup {
    /// Network.
    pub topology: Topology,
    /// Its forwarding tables, once they are built: the logical processes of one run share them.
    pub tables: Arc<Mutex<Option<Known>>>,
    /// Protocols by position, each with its connection options.
    pub protocols: Vec<(Suite, Arc<TcpConfig>)>,
    /// Their names, as written.
    pub protocol_names: Vec<String>,
    /// Protocols that no workload uses, by position.
    pub idle: Vec<usize>,
    /// Keys of a scenario file that were given and have no effect.
    pub unused: Vec<String>,
    /// Values that follow from others where a key is unset, as text by key.
    pub derived: Vec<(&'static str, String)>,
    /// Protocol whose router part runs on every switch port, when it has one.
    pub router: Option<usize>,
    /// Smallest round-trip time of the scenario, told to router controllers.
    pub base_rtt: Dur,
    /// Workloads, in declared order.
    pub workloads: Vec<Workload>,
    /// End of the run.
    pub duration: Dur,
    /// Statistics count from here.
    pub warmup: Dur,
    /// Framing bytes per packet on the wire.
    pub framing: u32,
    /// Most that a packet of a sender leaves its host later than exact.
    pub send_jitter: Dur,
    /// How hosts send.
    pub nic: NicMode,
    /// A packet reaches its transport so much later than its host.
    pub receive_delay: Dur,
    /// Largest random delay that is added to [`Self::receive_delay`].
    pub receive_jitter: Dur,
    /// The delays of one machine that all hosts share.
    pub latency: HostLatency,
    /// A host takes so long for every packet that has arrived, one at a time, before its transport sees it.
    pub processing: Dur,
    /// How much of one connection may stand in its own host's port; `None` = any amount.
    pub host_queue: Option<Amount>,
    /// Base seed.
    pub seed: u64,
    /// Number of the replication.
    pub run: u64,
    /// Order of simultaneous events.
    pub ties: Ties,
    /// The port reported as the bottleneck.
    pub bottleneck: Bottleneck,
    /// What was found out while this was built and whoever reads the results should know, a line each.
    pub notes: Vec<String>,
    /// What is recorded beside the summary.
    pub recorder: Recorder,
    /// Receiver-side congestion control of every host, when there is one.
    pub receive: Option<BuildReceive>,
    /// Routers whose ports share a buffer with limits by class.
    pub pools: Vec<Pool>,
    /// What is asked of the network between the hosts.
    pub fabric: FabricOptions,
    /// What happens to links, in order of time.
    pub changes: Vec<LinkChange>,
    /// Host controllers.
    pub collectives: Vec<Collective>,
}

/// Longest time a packet may be held back beside its transmission and propagation.
const MARGIN: Dur = Dur::millis(1000);

/// A link that is too slow or too long for the clock of its network.
#[derive(Clone, Copy, Debug)]
pub struct TooLong {
    /// The link.
    pub link: u32,
    /// Transmission of the largest packet of the run on it.
    pub transmission: Dur,
    /// Its propagation delay.
    pub delay: Dur,
    /// What both together may take.
    pub most: Dur,
}

impl TooLong {
    /// The error, under the key that set what is most of it.
    pub fn error(&self, key: &str, value: &str) -> ParamError {
        let rule = format!(
            "a packet takes {} to send and {} to arrive; in a network of this size both together may take {}",
            self.transmission, self.delay, self.most
        );
        ParamError::new(key, value, rule)
    }
}

impl Setup {
    /// What reaches a host reaches its transport at once.
    pub fn receives_at_once(&self) -> bool {
        [self.receive_delay, self.receive_jitter, self.processing] == [Dur::ZERO; 3]
            && !self.noise_of_one_machine()
    }
    /// TCP above endless queues, FIFO ports, links that stay as they are, and workloads of which all is known before the run: such a run is not divided
    /// between hosts and their switch.
    pub(crate) fn is_plain(&self) -> bool {
        let mut known = self.workloads.iter().map(|w| w.timetable());
        let recorder = &self.recorder;
        self.own_stack().is_none()
            && self.protocols.iter().all(|(suite, _)| suite.independent)
            && self.nic == NicMode::Endless
            && self.collectives.is_empty()
            && self.receive.is_none()
            && self.receives_at_once()
            && self.pools.is_empty()
            && !self.fabric.pooled()
            && !self.fabric.telemetry
            && self.changes.is_empty()
            && !recorder.keep_deliveries
            && !recorder.by_destination
            && known.all(|t| t == Timetable::Lasting || t == Timetable::Fixed && !recorder.keep_series)
    }
    /// Hosts see what reaches them, or do what they do, later by a distribution.
    pub fn noise_of_one_machine(&self) -> bool {
        self.latency.any()
    }
    /// Applications share a thread that writes for them.
    pub fn writes_take_time(&self) -> bool {
        self.latency.writes()
    }
    /// Some clock misses ticks.
    pub fn misses_ticks(&self) -> bool {
        self.protocols
            .iter()
            .any(|(_, config)| config.missed_ticks.write > 0.0 || config.missed_ticks.arrival > 0.0)
    }
    /// Which ticks are missed follows from seed and run.
    pub fn draw_missed_ticks(&mut self) {
        if self.misses_ticks() {
            let key = Stream::new(self.seed, self.run, Entity::Ticks, 0).next_u64();
            for (_, config) in &mut self.protocols {
                Arc::make_mut(config).missed_ticks.key = key;
            }
        }
    }
    /// Applications do not read what comes at once.
    pub fn applications_take_time(&self) -> bool {
        self.latency.reads()
    }
    /// The first link on which a packet would be longer under way than the event keys of this network can say.
    pub fn too_long(&self) -> Option<TooLong> {
        // Headers beside the usual ones: congestion header, SACK blocks.
        let extra = 256;
        let largest = self.protocols.iter().map(|(_, c)| c.mss + c.header_len()).max().unwrap_or(1500);
        let bytes = Bytes(u64::from(largest + self.framing + extra));
        let most = Dur(longest_flight_ps(self.topology.links.len())) - MARGIN;
        self.topology.links.iter().zip(0..).find_map(|(l, link)| {
            let (transmission, delay) = (bytes / l.rate, l.delay);
            (transmission + delay > most).then_some(TooLong { link, transmission, delay, most })
        })
    }
    /// What must hold of every network.
    ///
    /// # Errors
    /// Too many ports, a link that is too slow or too long for the clock, by the link's name.
    pub fn check(&self) -> Result<(), ParamError> {
        let ports = self.topology.links.len();
        if ports > MAX_PORTS {
            return Err(ParamError::new("network", ports, format!("at most {MAX_PORTS} ports are possible")));
        }
        self.check_hosts()?;
        self.too_long().map_or(Ok(()), |found| Err(found.error("link", &self.topology.link_name(found.link))))
    }
    /// True when packets of this run carry a congestion header.
    pub fn uses_headers(&self) -> bool {
        let header = |i| self.congestion_header(i) > 0;
        self.protocols.iter().enumerate().any(|(i, (suite, _))| suite.router.is_some() || header(i))
    }
    /// Bytes of congestion header that packets of a protocol have, by its position.
    pub fn congestion_header(&self, position: usize) -> u32 {
        self.congestion_headers(position).0
    }
    /// Bytes of congestion header that the packets of a protocol have at most, and those of an ordinary data segment and its ACK.
    pub fn congestion_headers(&self, position: usize) -> (u32, u32) {
        let (suite, cfg) = &self.protocols[position];
        if suite.stack.is_some() {
            return (0, 0);
        }
        let probe = || Stream::new(self.seed, self.run, Entity::Sender, u64::MAX);
        let law = (suite.endpoint)(cfg, &probe);
        (law.header_len(), law.data_header_len())
    }
    /// Lengths on the wire of a protocol's packets, by its position.
    pub fn lengths_of(&self, position: usize) -> Lengths {
        let (suite, cfg) = &self.protocols[position];
        let lengths = match suite.wire {
            Some(wire) => Lengths::own(cfg.mss, wire, self.framing),
            None => Lengths::new(cfg, self.congestion_headers(position), self.framing),
        };
        Lengths { whole_ns: self.fabric.whole_ns, ..lengths }
    }
    /// The protocols that workloads use, by position.
    pub fn in_use(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.protocols.len()).filter(|position| !self.idle.contains(position))
    }
    /// The first protocol with a stack of its own, by position.
    pub fn own_stack(&self) -> Option<usize> {
        self.protocols.iter().position(|(suite, _)| suite.stack.is_some())
    }
    /// The protocols of the run that need something of switches' ports, and what; all ports are given all of it.
    pub fn needs(&self) -> impl Iterator<Item = (&str, &BuildLink)> {
        let name = |i: usize| self.protocol_names.get(i).map_or("", String::as_str);
        let numbered = self.protocols.iter().enumerate();
        numbered.filter_map(move |(i, (suite, _))| Some((name(i), suite.link.as_ref()?)))
    }
    /// What a link tells a protocol of the run.
    pub fn facts(&self, link: &Link) -> LinkFacts {
        let packet = self.protocols.iter().map(|(_, c)| c.mss + c.header_len()).max().unwrap_or(1500);
        // No round trip is shorter than a packet's own transmission, whatever the distance.
        let base_rtt = self.base_rtt.max(Bytes(u64::from(packet + self.framing)) / link.rate);
        LinkFacts { port: 0, capacity: link.rate, base_rtt, packet, framing: self.framing }
    }
    /// What hosts cannot do together.
    ///
    /// # Errors
    /// Something of TCP asked of a transport that is none, a network card that pulls where it cannot.
    pub fn check_hosts(&self) -> Result<(), ParamError> {
        if let Some(own) = self.own_stack() {
            let name = self.protocol_names.get(own).map_or("", String::as_str);
            let refuse = |key: &str, rule: &str| Err(ParamError::new(key, name, rule));
            if !self.collectives.is_empty() {
                return refuse(
                    "protocol",
                    "is no TCP: the host controllers of this scenario cap TCP's windows",
                );
            }
            if self.receive.is_some() {
                return refuse("protocol", "is no TCP: receive_control works by TCP's receive window");
            }
        }
        if self.nic == NicMode::Endless {
            return Ok(());
        }
        if self.host_queue.is_some() {
            let rule = "must be unset where network cards pull: nothing stands in a host's port";
            return Err(ParamError::new("host_queue", "", rule));
        }
        let several = |node: &u32| self.topology.ports_of(*node).len() > 1;
        if let Some(node) = self.topology.hosts().into_iter().find(several) {
            let name = &self.topology.nodes[node as usize].name;
            let rule = format!("a network card that pulls has one link, and {name} has several");
            return Err(ParamError::new("nic", "pull", rule));
        }
        Ok(())
    }
    /// Forwarding by groups of equal cost, as the run's spread rule says.
    ///
    /// # Errors
    /// A rule where no node has a choice.
    pub fn forwarding(&self) -> Result<Forwarding, ParamError> {
        // Another part waits here for what this one builds.
        let mut known = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let forwarding = Forwarding::new(ForwardingConfig {
            graph: self.topology.graph(),
            spread: self.fabric.spread,
            spread_at: Vec::new(),
            reroute: self.fabric.reroute,
            rng: Stream::new(self.seed, self.run, Entity::Forward, 0),
            known: known.clone(),
        })?;
        *known = Some(forwarding.known());
        Ok(forwarding)
    }
    /// Receiver-side controllers by node; empty when there are none.
    pub fn receive_controllers(&self) -> Vec<Option<Box<dyn ReceiveController>>> {
        let Some(build) = &self.receive else { return Vec::new() };
        let mut receive = Vec::new();
        receive.resize_with(self.topology.nodes.len(), || None);
        let packet = self.protocols.iter().map(|(_, c)| c.mss).max().unwrap_or(1500);
        for (port, l) in (0u32..).zip(&self.topology.links) {
            if self.topology.nodes[l.to as usize].kind == NodeKind::Host {
                // No round trip is shorter than a packet's own transmission, whatever the distance.
                let base_rtt = self.base_rtt.max(Bytes(u64::from(packet + self.framing)) / l.rate);
                let facts = LinkFacts { port, capacity: l.rate, base_rtt, packet, framing: self.framing };
                receive[l.to as usize] = Some(build(&facts));
            }
        }
        receive
    }
}
