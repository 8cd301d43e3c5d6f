//! Everything that defines one run, and what is built from it for whoever drives the run.

use crate::events::{longest_flight_ps, Ties, MAX_PORTS};
use crate::metrics::Recorder;
use crate::results::Bottleneck;
use crate::topology::{NodeKind, Topology};
use crate::workloads::Workload;
use penstock_core::receive::ReceiveController;
use penstock_core::rng::Entity;
use penstock_core::tcp::TcpConfig;
use penstock_core::{Amount, HostController, ParamError, Stream};
use penstock_fabric::{BufferConfig, Fabric, Ingress, Limit, NodeConfig, Port, PortConfig, PRIORITIES};
use penstock_fabric::{Forwarding, ForwardingConfig, Reroute, Spread};
use penstock_host::Order;
use penstock_models::queues::shared_buffer::SharedBuffer;
use penstock_models::registry::{BuildReceive, LinkFacts};
use penstock_models::Suite;
use penstock_units::{Bytes, Dur};
use std::sync::Arc;

/// Networks of up to so many ports keep the queue integrals of all of them; larger ones of the bottleneck, and of the
/// others the mean queue in packets (Little's law).
const MEASURE_ALL: usize = 512;

/// A host controller and the connections in its charge: all that some workloads open.
pub struct Collective {
    /// The controller.
    pub controller: Box<dyn HostController>,
    /// Workloads, by position.
    pub workloads: Vec<u32>,
}

/// A router whose ports share a buffer.
pub struct Pool {
    /// The router.
    pub node: u32,
    /// What governs the buffer.
    pub rule: Shared,
}

/// The rule of a shared buffer.
#[derive(Clone)]
pub enum Shared {
    /// A limit in packets and RED per traffic class.
    Classes(SharedBuffer),
    /// So many bytes; a port may hold alpha times what is free.
    Dynamic {
        /// Bytes in all.
        bytes: u64,
        /// Times what is free.
        alpha: f64,
    },
}

impl Shared {
    /// True when it marks or drops before it is full.
    pub fn is_active(&self) -> bool {
        matches!(self, Shared::Classes(_))
    }
    fn config(&self) -> BufferConfig {
        match self {
            // Its limits are those of the rule, in packets.
            Shared::Classes(rule) => {
                BufferConfig { rule: Some(Box::new(rule.clone())), ..BufferConfig::pool(u64::MAX, 0, 0) }
            }
            Shared::Dynamic { bytes, alpha } => BufferConfig {
                limits: [Limit::Dynamic(*alpha); PRIORITIES],
                ..BufferConfig::pool(*bytes, 0, 0)
            },
        }
    }
}

/// How a host sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NicMode {
    /// What a transport may send goes into an endless queue at once.
    Endless,
    /// The network card pulls a packet when its link can take one.
    Pull(Order),
}

/// Everything that defines one run.
pub struct Setup {
    /// Network.
    pub topology: Topology,
    /// Protocols by position, each with its connection options.
    pub protocols: Vec<(Suite, Arc<TcpConfig>)>,
    /// Their names, as written.
    pub protocol_names: Vec<String>,
    /// Keys of a scenario file that were given and have no effect.
    pub unused: Vec<String>,
    /// Values that follow from others where a key is unset, as text by key.
    pub derived: Vec<(&'static str, String)>,
    /// Protocol whose router part runs on every switch port, when it has one.
    pub router: Option<usize>,
    /// How packets and flows are spread over ports of equal cost.
    pub spread: Spread,
    /// Smallest round-trip time of the scenario, told to router controllers.
    pub base_rtt: Dur,
    /// Workloads, in declared order.
    pub workloads: Vec<Box<dyn Workload>>,
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
    /// Routers whose ports share a buffer.
    pub pools: Vec<Pool>,
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
        self.too_long().map_or(Ok(()), |found| Err(found.error("link", &self.topology.link_name(found.link))))
    }
    /// True when packets of this run carry a congestion header.
    pub fn uses_headers(&self) -> bool {
        self.protocols.iter().any(|(suite, cfg)| {
            let probe = Stream::new(self.seed, self.run, Entity::Sender, u64::MAX);
            suite.router.is_some() || (suite.endpoint)(cfg, probe).header_len() > 0
        })
    }
    /// How packets find their way.
    ///
    /// # Errors
    /// A spread rule where nothing can be chosen.
    pub fn forwarding(&self) -> Result<Forwarding, ParamError> {
        Forwarding::new(ForwardingConfig {
            graph: self.topology.graph(),
            spread: self.spread,
            spread_at: Vec::new(),
            reroute: Reroute::AtOnce,
            rng: Stream::new(self.seed, self.run, Entity::Forward, 0),
        })
    }
    /// The output ports of the network, one per link and in their order, and the buffers they share.
    ///
    /// # Errors
    /// A port or a buffer that cannot work.
    pub fn fabric(&self) -> Result<Fabric, ParamError> {
        let mut fabric = Fabric::new(self.ports()?);
        let links = &self.topology.links;
        for (i, pool) in self.pools.iter().enumerate() {
            let into = (0..links.len() as u32).filter(|l| links[*l as usize].to == pool.node);
            let ingress = |upstream: u32| Ingress {
                upstream,
                back: self.topology.link_between(pool.node, links[upstream as usize].from),
            };
            fabric.add_node(NodeConfig {
                ports: self.topology.ports_of(pool.node),
                ingresses: into.map(ingress).collect(),
                buffer: pool.rule.config(),
                response: Dur::ZERO,
                rng: Stream::new(self.seed, self.run, Entity::Pool, i as u64),
            })?;
        }
        Ok(fabric)
    }
    /// The ports alone.
    ///
    /// # Errors
    /// One that cannot work.
    pub fn ports(&self) -> Result<Vec<Port>, ParamError> {
        let mut ports = Vec::with_capacity(self.topology.links.len());
        // What a router's controller counts, its own protocol's header included.
        let routed = self.router.map_or(0, |p| {
            let (suite, cfg) = &self.protocols[p];
            let probe = Stream::new(self.seed, self.run, Entity::Sender, u64::MAX);
            cfg.mss + cfg.header_len() + (suite.endpoint)(cfg, probe).header_len()
        });
        for (i, l) in self.topology.links.iter().enumerate() {
            let packet = self.protocols.iter().map(|(_, c)| c.mss + c.header_len()).max().unwrap_or(1500);
            let controller = match self.router {
                Some(p) if l.controlled => {
                    // No round trip is shorter than a packet's own transmission, whatever the distance.
                    let base_rtt = self.base_rtt.max(Bytes(u64::from(routed + self.framing)) / l.rate);
                    let facts =
                        LinkFacts { capacity: l.rate, base_rtt, packet: routed, framing: self.framing };
                    self.protocols[p].0.router.as_ref().map(|build| build(&facts))
                }
                _ => None,
            };
            let (limit_packets, limit_bytes) = match l.buffer {
                None => (u32::MAX, u64::MAX),
                Some(Amount::Packets(n)) => (n, u64::MAX),
                Some(Amount::Bytes(b)) => (u32::MAX, b),
            };
            let stream = |kind| Stream::new(self.seed, self.run, kind, i as u64);
            let at_host = self.topology.nodes[l.from as usize].kind == NodeKind::Host;
            let config = PortConfig {
                limit_packets,
                limit_bytes,
                framing: self.framing,
                rule: l.queue.build(packet),
                controller,
                loss: Some((l.loss, stream(Entity::Loss))),
                noise: at_host.then(|| (self.send_jitter, stream(Entity::Jitter))),
                // Integrals of thousands of ports nobody looks at would cost a sixth of the run.
                measured: self.topology.links.len() <= MEASURE_ALL || i as u32 == self.bottleneck.candidate(),
                ..PortConfig::plain(l.rate, l.delay, stream(Entity::Port))
            };
            ports.push(Port::new(i as u32, config)?);
        }
        Ok(ports)
    }
    /// Receiver-side controllers by node; empty when there are none.
    pub fn receive_controllers(&self) -> Vec<Option<Box<dyn ReceiveController>>> {
        let Some(build) = &self.receive else { return Vec::new() };
        let mut receive = Vec::new();
        receive.resize_with(self.topology.nodes.len(), || None);
        let packet = self.protocols.iter().map(|(_, c)| c.mss).max().unwrap_or(1500);
        for l in &self.topology.links {
            if self.topology.nodes[l.to as usize].kind == NodeKind::Host {
                // No round trip is shorter than a packet's own transmission, whatever the distance.
                let base_rtt = self.base_rtt.max(Bytes(u64::from(packet + self.framing)) / l.rate);
                let facts = LinkFacts { capacity: l.rate, base_rtt, packet, framing: self.framing };
                receive[l.to as usize] = Some(build(&facts));
            }
        }
        receive
    }
}
