//! Ports and nodes of a run, as its options, its links and its protocols ask for them.

use super::memory::{into, is_switch, memory, pool_of};
use super::needs::give;
use super::{FabricOptions, Pfc};
use crate::checkpoint::go_on;
use crate::setup::Setup;
use crate::topology::{Link, NodeKind};
use penstock_core::rng::Entity;
use penstock_core::{Amount, ParamError, Stream};
use penstock_fabric::{
    BufferConfig, ClassConfig, Fabric, Ingress, NodeConfig, Port, PortConfig, Scheduler, Service, PRIORITIES,
};
use penstock_models::registry::LinkFacts;
use penstock_units::{Bytes, Dur};

/// Networks of up to so many ports keep the queue integrals of all of them; larger ones of the bottleneck, and of the
/// others the mean queue in packets (Little's law).
const MEASURE_ALL: usize = 512;

impl Setup {
    /// The output ports of the network, one per link and in their order, and the buffers they share.
    ///
    /// # Errors
    /// A port or a buffer that cannot work.
    pub fn fabric(&self) -> Result<Fabric, ParamError> {
        let setup = self;
        let mut fabric = Fabric::new(ports(setup)?);
        let stream = |i: u64| Stream::new(setup.seed, setup.run, Entity::Pool, i);
        for (i, pool) in setup.pools.iter().enumerate() {
            if setup.fabric.pooled() {
                let rule =
                    "cannot be used where the scenario has a shared buffer with limits by class of its own";
                return Err(ParamError::new("pfc", "on", rule));
            }
            let buffer = BufferConfig {
                rule: Some(Box::new(pool.rule.clone())),
                ..BufferConfig::pool(u64::MAX, 0, 0)
            };
            fabric.add_node(node(setup, pool.node, buffer, Dur::ZERO, stream(i as u64)))?;
        }
        if setup.fabric.pooled() {
            let switches = (0..setup.topology.nodes.len() as u32).filter(|n| is_switch(setup, *n));
            for switch in switches.filter(|n| !setup.topology.ports_of(*n).is_empty()) {
                go_on()?;
                let buffer = memory(setup, switch)?;
                let response = setup.fabric.pfc.map_or(Dur::ZERO, |pfc| pfc.response);
                let config = node(setup, switch, buffer, response, stream(1 << 32 | u64::from(switch)));
                fabric.add_node(config).map_err(|e| {
                    let name = &setup.topology.nodes[switch as usize].name;
                    ParamError { rule: format!("{} (switch {name})", e.rule), ..e }
                })?;
            }
        }
        Ok(fabric)
    }
}

fn node(setup: &Setup, node: u32, buffer: BufferConfig, response: Dur, rng: Stream) -> NodeConfig {
    let t = &setup.topology;
    let ingress =
        |upstream: u32| Ingress { upstream, back: t.link_between(node, t.links[upstream as usize].from) };
    let ingresses = into(setup, node).map(ingress).collect();
    NodeConfig { ports: t.ports_of(node), ingresses, buffer, response, rng }
}

/// Limits of a priority.
fn class(buffer: Amount) -> ClassConfig {
    let (limit_packets, limit_bytes) = limits(Some(buffer));
    ClassConfig { limit_packets, limit_bytes, ..ClassConfig::default() }
}

fn limits(buffer: Option<Amount>) -> (u32, u64) {
    match buffer {
        None => (u32::MAX, u64::MAX),
        Some(Amount::Packets(n)) => (n, u64::MAX),
        Some(Amount::Bytes(b)) => (u32::MAX, b),
    }
}

/// What makes the port of a link choose among packets, and the limit it has as a whole.
fn service(
    options: &FabricOptions,
    l: &Link,
    at_host: bool,
    own_priorities: bool,
) -> (Option<Box<Service>>, Option<Amount>) {
    let scheduler = l.options.scheduler.unwrap_or(options.scheduler);
    let trim = l.options.trim.unwrap_or(options.trim).filter(|_| !at_host);
    // Where packets are trimmed or priorities are without loss, each priority has its own limit: what remains of a packet must
    // find room where the packet did not, and nothing but its lane limits a lossless one.
    let lossless = options.pfc.filter(|_| !at_host).map_or(0, |pfc: Pfc| pfc.lossless);
    let by_class = trim.is_some() || lossless != 0;
    let mut classes: [ClassConfig; PRIORITIES] = Default::default();
    // A transport that is no TCP gives its packets priorities of its own.
    let used = (0..PRIORITIES as u8)
        .filter(|p| own_priorities || *p < options.priorities || trim.is_some_and(|t| t.priority == *p))
        .filter(|p| lossless & (1 << p) == 0);
    let mut limited = false;
    if let Some(buffer) = l.buffer.filter(|_| by_class && (options.own_limits || trim.is_some())) {
        for p in used {
            classes[usize::from(p)] = class(buffer);
            limited = true;
        }
    }
    let needed = scheduler.is_some() || trim.is_some() || limited;
    let service = needed.then(|| {
        let scheduler = scheduler.unwrap_or(Scheduler::Fifo);
        Box::new(Service { scheduler, classes, trim, ..Service::default() })
    });
    (service, l.buffer.filter(|_| !by_class))
}

/// Refuses links that ports which count whole nanoseconds cannot have.
///
/// # Errors
/// One whose delay is not a whole number of nanoseconds.
pub fn check_clock(setup: &Setup) -> Result<(), ParamError> {
    let bad = |l: &&Link| l.delay == Dur::ZERO || !l.delay.0.is_multiple_of(1000);
    match setup.topology.links.iter().find(bad).filter(|_| setup.fabric.whole_ns) {
        Some(link) => {
            let rule = format!("needs delays of a whole number of nanoseconds; a link has {}", link.delay);
            Err(ParamError::new("protocol:clock", "whole-ns", rule))
        }
        None => Ok(()),
    }
}

/// So many kinds of ports are remembered.
const KINDS: usize = 8;

/// Refuses ports that cannot work, by one of each kind: as building all of them would, in a fraction of the time.
///
/// # Errors
/// A port that cannot work.
pub fn check_ports(setup: &Setup) -> Result<(), ParamError> {
    let t = &setup.topology;
    let lengths = Lengths::of(setup);
    let alike = |a: &Link, b: &Link| {
        let port = |l: &Link| (l.rate, l.delay, l.buffer, l.loss.to_bits(), l.controlled);
        port(a) == port(b)
            && is_switch(setup, a.from) == is_switch(setup, b.from)
            && pool_of(setup, a.from) == pool_of(setup, b.from)
            && a.queue.name() == b.queue.name()
    };
    let mut kinds: Vec<&Link> = Vec::new();
    for (i, l) in t.links.iter().enumerate() {
        go_on()?;
        // Links of one kind lie together. With many kinds some are built twice, which costs less than looking through all.
        let known = kinds.iter().rev().take(KINDS).any(|kind| alike(kind, l));
        if known && !l.options.are_own() {
            continue;
        }
        port(setup, &lengths, i)?;
        kinds.push(l);
    }
    Ok(())
}

/// The ports alone.
///
/// # Errors
/// One that cannot work.
pub fn ports(setup: &Setup) -> Result<Vec<Port>, ParamError> {
    let lengths = Lengths::of(setup);
    let port = |i| go_on().and_then(|()| port(setup, &lengths, i));
    (0..setup.topology.links.len()).map(port).collect()
}

/// Lengths of packets on which ports depend.
struct Lengths {
    /// What a router's controller counts, its own protocol's header included.
    routed: u32,
    packet: u32,
}

impl Lengths {
    fn of(setup: &Setup) -> Lengths {
        let routed = setup.router.map_or(0, |p| {
            let cfg = &setup.protocols[p].1;
            cfg.mss + cfg.header_len() + setup.congestion_header(p)
        });
        let packet = setup.protocols.iter().map(|(_, c)| c.mss + c.header_len()).max().unwrap_or(1500);
        Lengths { routed, packet }
    }
}

/// The port of link `i`.
fn port(setup: &Setup, lengths: &Lengths, i: usize) -> Result<Port, ParamError> {
    let (t, &Lengths { routed, packet }) = (&setup.topology, lengths);
    let l = &t.links[i];
    let controller = match setup.router {
        Some(p) if l.controlled => {
            // No round trip is shorter than a packet's own transmission, whatever the distance.
            let base_rtt = setup.base_rtt.max(Bytes(u64::from(routed + setup.framing)) / l.rate);
            let (port, framing) = (i as u32, setup.framing);
            let facts = LinkFacts { port, capacity: l.rate, base_rtt, packet: routed, framing };
            setup.protocols[p].0.router.as_ref().map(|build| build(&facts))
        }
        _ => None,
    };
    let stream = |kind| Stream::new(setup.seed, setup.run, kind, i as u64);
    let at_host = t.nodes[l.from as usize].kind == NodeKind::Host;
    let (service, buffer) = service(&setup.fabric, l, at_host, setup.own_stack().is_some());
    let (limit_packets, limit_bytes) = limits(buffer);
    let of_run = setup.fabric.reorder.filter(|_| !at_host);
    let mut config = PortConfig {
        limit_packets,
        limit_bytes,
        framing: setup.framing,
        rule: l.queue.build(packet),
        controller,
        loss: Some((l.loss, stream(Entity::Loss))),
        noise: at_host.then(|| (setup.send_jitter, stream(Entity::Jitter))),
        reorder: l.options.reorder.unwrap_or(of_run).map(|r| (r, stream(Entity::Loss).split(1))),
        telemetry: setup.fabric.telemetry && !at_host,
        whole_ns: setup.fabric.whole_ns,
        service,
        // Integrals of thousands of ports nobody looks at would cost a sixth of the run.
        measured: t.links.len() <= MEASURE_ALL || i as u32 == setup.bottleneck.candidate(),
        ..PortConfig::plain(l.rate, setup.fabric.flight(l.delay), stream(Entity::Port))
    };
    if !at_host {
        give(setup, l, &mut config)?;
        if let Some(service) = &mut config.service {
            service.last_hop = t.nodes[l.to as usize].kind == NodeKind::Host;
        }
    }
    Port::new(i as u32, config)
}
