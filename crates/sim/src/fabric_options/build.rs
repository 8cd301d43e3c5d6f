//! Ports and nodes of a run, as its options, its links and its protocols ask for them.

use super::needs::give;
use super::outages::Change;
use super::{FabricOptions, Headroom, Pfc, Thresholds};
use crate::checkpoint::go_on;
use crate::setup::Setup;
use crate::topology::{Link, NodeKind, Topology};
use penstock_core::rng::Entity;
use penstock_core::{Amount, ParamError, Stream};
use penstock_fabric::pfc::PAUSE_FRAME;
use penstock_fabric::{
    BufferConfig, Cable, ClassConfig, Fabric, Ingress, Limit, NodeConfig, PauseAt, Port, PortConfig,
    Scheduler, Service, PRIORITIES,
};
use penstock_models::registry::{alpha_times, LinkFacts};
use penstock_units::{Bytes, Dur, Rate};
use std::collections::VecDeque;

/// Networks of up to so many ports keep the queue integrals of all of them; larger ones of the bottleneck, and of the
/// others the mean queue in packets (Little's law).
const MEASURE_ALL: usize = 512;
/// Bytes of TCP options that an ACK may have beside those of data (RFC 9293 section 3.1: 40 in all).
const OPTIONS: u32 = 40;

/// The output ports of the network, one per link and in their order, and the buffers they share.
///
/// # Errors
/// A port or a buffer that cannot work.
pub fn build(setup: &Setup) -> Result<Fabric, ParamError> {
    let mut fabric = Fabric::new(ports(setup)?);
    let stream = |i: u64| Stream::new(setup.seed, setup.run, Entity::Pool, i);
    for (i, pool) in setup.pools.iter().enumerate() {
        if setup.fabric.pooled() {
            let rule =
                "cannot be used where the scenario has a shared buffer with limits by class of its own";
            return Err(ParamError::new("pfc", "on", rule));
        }
        let buffer =
            BufferConfig { rule: Some(Box::new(pool.rule.clone())), ..BufferConfig::pool(u64::MAX, 0, 0) };
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

pub(super) fn is_switch(setup: &Setup, node: u32) -> bool {
    setup.topology.nodes[node as usize].kind == NodeKind::Switch
}

/// Links into a node, in their order.
pub(super) fn into(setup: &Setup, node: u32) -> impl Iterator<Item = u32> + '_ {
    setup.topology.links_into(node).iter().copied()
}

fn node(setup: &Setup, node: u32, buffer: BufferConfig, response: Dur, rng: Stream) -> NodeConfig {
    let t = &setup.topology;
    let ingress =
        |upstream: u32| Ingress { upstream, back: t.link_between(node, t.links[upstream as usize].from) };
    let ingresses = into(setup, node).map(ingress).collect();
    NodeConfig { ports: t.ports_of(node), ingresses, buffer, response, rng }
}

// ---- memory of a switch ----------------------------------------------------------------------------------

/// Longest packet of the run on the wire, framing not included.
fn longest(setup: &Setup) -> u32 {
    let of = |position: usize| {
        let cfg = &setup.protocols[position].1;
        cfg.header_len() + setup.congestion_header(position) + cfg.mss.max(OPTIONS)
    };
    (0..setup.protocols.len()).map(of).max().unwrap_or(1500)
}

fn in_bytes(amount: Amount, packet: u32) -> u64 {
    match amount {
        Amount::Bytes(b) => b,
        Amount::Packets(n) => u64::from(n) * u64::from(packet),
    }
}

/// The slowest and the fastest that a link is in the run.
fn rates(setup: &Setup, link: u32) -> (Rate, Rate) {
    let own = setup.topology.links[link as usize].rate;
    let changed = setup.changes.iter().filter_map(|c| match c.change {
        Change::Rate(rate) if c.links.contains(&link) => Some(rate),
        _ => None,
    });
    changed.fold((own, own), |(slow, fast), rate| (slow.min(rate), fast.max(rate)))
}

/// Headroom by formula of a lane that comes in by `link`, in bytes ([`Cable::headroom`]).
///
/// What the formula does not know is time that the other end takes longer to obey: the timing noise of a host, and a way back
/// that is slower or longer than the way there.
pub fn headroom_of(setup: &Setup, link: u32, dynamic: bool) -> u64 {
    let t = &setup.topology;
    let Link { from, to, delay, .. } = t.links[link as usize];
    let (_, rate) = rates(setup, link);
    let mtu = longest(setup) + setup.framing;
    let noise = if is_switch(setup, from) { Dur::ZERO } else { setup.send_jitter };
    let mut response = setup.fabric.pfc.map_or(Dur::ZERO, |pfc| pfc.response) + noise;
    if let Some(back) = t.link_between(to, from) {
        let waits = Bytes(u64::from(mtu + PAUSE_FRAME + setup.framing));
        let (there, here) = (waits / rate, waits / rates(setup, back).0);
        response += Dur(here.0.saturating_sub(there.0));
        response += Dur(t.links[back as usize].delay.0.saturating_sub(delay.0));
    }
    Cable { rate, delay, mtu, framing: setup.framing, response }.headroom(dynamic).0
}

/// Headroom of a lane that comes in by `link`.
pub(super) fn headroom(setup: &Setup, link: u32, headroom: Headroom, dynamic: bool) -> u64 {
    match headroom {
        Headroom::Bytes(bytes) => bytes,
        Headroom::Formula { less } => headroom_of(setup, link, dynamic).saturating_sub(less),
        Headroom::Cables(times) => {
            let (_, rate) = rates(setup, link);
            let delay = setup.topology.links[link as usize].delay;
            (times * rate.as_bytes_per_sec() * delay.as_secs()) as u64
        }
    }
}

/// True when a lane that comes into a switch by `link` has less headroom than the formula says.
pub(super) fn headroom_is_short(setup: &Setup, link: u32) -> bool {
    let Some(pfc) = setup.fabric.pfc.filter(|_| is_switch(setup, setup.topology.links[link as usize].to))
    else {
        return false;
    };
    let dynamic = matches!(pfc.thresholds, Thresholds::Dynamic { .. });
    headroom(setup, link, pfc.headroom, dynamic) < headroom_of(setup, link, dynamic)
}

/// The buffer of a switch.
fn memory(setup: &Setup, switch: u32) -> Result<BufferConfig, ParamError> {
    let t = &setup.topology;
    let FabricOptions { shared, pfc, .. } = setup.fabric;
    let limit = shared.map_or(Limit::Pool, |s| Limit::Dynamic(s.alpha));
    let mut buffer = BufferConfig { limits: [limit; PRIORITIES], ..BufferConfig::pool(u64::MAX, 0, 0) };
    if let Some(shared) = shared {
        buffer.bytes = shared.size;
    }
    let Some(pfc) = pfc else { return Ok(buffer) };
    let ports = t.ports_of(switch);
    let packet = longest(setup);
    let own = ports.iter().filter_map(|p| t.links[*p as usize].buffer).map(|a| in_bytes(a, packet)).max();
    buffer.lossless = pfc.lossless;
    buffer.reserve = pfc.reserve;
    buffer.accounting = pfc.accounting;
    buffer.without_frames = !pfc.frames;
    if let (Thresholds::Dynamic { alpha, .. }, true) = (pfc.thresholds, pfc.alpha_by_rate) {
        // The rate of the first host's link stands for all.
        let host = t.hosts().first().and_then(|host| t.ports_of(*host).first().copied());
        let host = host.map_or(Rate(u64::MAX), |port| t.links[port as usize].rate);
        buffer.alpha_times =
            into(setup, switch).map(|l| alpha_times(alpha, t.links[l as usize].rate, host)).collect();
    }
    buffer.ingresses = into(setup, switch).count() as u16;
    buffer.ports = ports.len() as u16;
    let lanes = u64::from(buffer.ingresses) * u64::from(pfc.lossless.count_ones());
    let mut own_pool = false;
    buffer.pause = match pfc.thresholds {
        Thresholds::Dynamic { alpha, gap } => {
            PauseAt::Dynamic { alpha, gap: gap.unwrap_or(2 * u64::from(packet)) }
        }
        Thresholds::Fixed { xoff, xon } => {
            let xoff = xoff.or(own).ok_or_else(|| {
                ParamError::new("pfc:xoff", "", "must be given where a port's buffer is unlimited or shared")
            })?;
            let xon = xon.unwrap_or(xoff / 2);
            if xon > xoff {
                let rule = format!("must not be above xoff ({xoff} bytes)");
                return Err(ParamError::new("pfc:xon", format!("{xon}B"), rule));
            }
            // What all lanes can hold before they are paused. Lossy packets have the room of their ports beside it.
            let paused = lanes * (xoff + u64::from(packet));
            own_pool = shared.is_none_or(|s| s.size >= paused);
            PauseAt::Static { xoff, xon }
        }
    };
    let dynamic = matches!(buffer.pause, PauseAt::Dynamic { .. }) || !own_pool;
    let headroom = |link| headroom(setup, link, pfc.headroom, dynamic);
    buffer.headroom = into(setup, switch).map(headroom).collect();
    if shared.is_none() {
        // Memory as it needs: a fixed threshold never depends on what others hold, lossy packets are limited by port.
        buffer.bytes = u64::MAX;
    }
    Ok(buffer)
}

/// Time in which the memory of the switches on the longest way drains at the slowest of their ports; zero where a port has no limit.
///
/// A packet that finds a switch full waits for no longer there while the port it waits for sends. One whose port is paused waits for the
/// next switch too, hence the sum over the way.
pub fn longest_wait(setup: &Setup) -> Dur {
    let t = &setup.topology;
    let packet = longest(setup);
    let mut worst = Dur::ZERO;
    for port in 0..t.links.len() as u32 {
        let link = &t.links[port as usize];
        if !is_switch(setup, link.from) {
            continue;
        }
        let shared = setup.fabric.shared.map(|s| s.size);
        let Some(bytes) = shared.or(link.buffer.map(|own| in_bytes(own, packet))) else { return Dur::ZERO };
        worst = worst.max(Bytes(bytes) / rates(setup, port).0);
    }
    worst * switches_on_the_longest_way(t)
}

/// The oversubscription ratio of a network: host capacity over the capacity of the tiers above. Every tier of switches, by distance
/// from the hosts, contributes its largest ratio of capacity from below to capacity upwards, and the ratios are multiplied. It is 1
/// for a non-blocking network and for one tier.
pub fn oversubscription(t: &Topology) -> f64 {
    let mut tier = vec![u32::MAX; t.nodes.len()];
    let mut next: VecDeque<u32> = t.hosts().into();
    next.iter().for_each(|host| tier[*host as usize] = 0);
    while let Some(node) = next.pop_front() {
        for port in t.ports_of(node) {
            let to = t.links[port as usize].to;
            if tier[to as usize] == u32::MAX {
                tier[to as usize] = tier[node as usize] + 1;
                next.push_back(to);
            }
        }
    }
    let (mut up, mut from_below) = (vec![0.0; t.nodes.len()], vec![0.0; t.nodes.len()]);
    for link in t.links.iter().filter(|l| tier[l.to as usize] > tier[l.from as usize]) {
        up[link.from as usize] += link.rate.as_bps();
        from_below[link.to as usize] += link.rate.as_bps();
    }
    let highest = tier.iter().filter(|tier| **tier != u32::MAX).max().copied().unwrap_or(0);
    let ratio = |of: u32| {
        let nodes = (0..t.nodes.len()).filter(|n| tier[*n] == of && up[*n] > 0.0);
        nodes.map(|n| from_below[n] / up[n]).fold(1.0, f64::max)
    };
    (1..highest).map(ratio).product()
}

/// Switches between the two hosts that are farthest apart: exact on trees and where hosts are alike, never more.
fn switches_on_the_longest_way(t: &Topology) -> u64 {
    let farthest = |from: u32| {
        let mut far = vec![u64::MAX; t.nodes.len()];
        let mut next = VecDeque::from([from]);
        let mut last = (from, 0);
        far[from as usize] = 0;
        while let Some(node) = next.pop_front() {
            let hops = far[node as usize];
            if t.nodes[node as usize].kind == NodeKind::Host {
                last = (node, hops);
            }
            for port in t.ports_of(node) {
                let to = t.links[port as usize].to;
                if far[to as usize] == u64::MAX {
                    far[to as usize] = hops + 1;
                    next.push_back(to);
                }
            }
        }
        last
    };
    let Some(first) = t.hosts().first().copied() else { return 0 };
    farthest(farthest(first).0).1.saturating_sub(1)
}

// ---- ports -----------------------------------------------------------------------------------------------

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

/// Memory of a switch's port by default where a protocol needs pause frames, in bytes per bit/s: 12 MB for 32 ports of 40 Gb/s (the
/// switches of Zhu et al., SIGCOMM 2015, section 4; from memory).
const MEMORY: f64 = 12e6 / 32.0 / 40e9;

/// And packets of full length that a port has room for at least. Memory in proportion to the rate is three packets of 1500 bytes at
/// 500 Mb/s, of which a lone flow would be paused: a lane gets an eighth of what is free, and two ports have to keep a few packets below
/// that.
const LEAST_PACKETS: u64 = 32;

/// Memory of the largest switch of a network by default, headroom not counted.
pub fn usual_memory(setup: &Setup) -> u64 {
    let switches = (0..setup.topology.nodes.len() as u32).filter(|node| is_switch(setup, *node));
    switches.map(|switch| memory_of_ports(setup, switch)).max().unwrap_or(0)
}

pub(super) fn memory_of_ports(setup: &Setup, switch: u32) -> u64 {
    let least = LEAST_PACKETS * u64::from(longest(setup));
    let of = |p: &u32| ((setup.topology.links[*p as usize].rate.as_bps() * MEMORY) as u64).max(least);
    setup.topology.ports_of(switch).iter().map(of).sum()
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

/// The pool of its own that a router's ports share.
pub(super) fn pool_of(setup: &Setup, node: u32) -> Option<usize> {
    setup.pools.iter().position(|pool| pool.node == node)
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
            let facts = LinkFacts { capacity: l.rate, base_rtt, packet: routed, framing: setup.framing };
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
