//! Memory of switches: buffers, headroom, and how long a packet may wait in them.

use super::link::Change;
use super::{FabricOptions, Headroom, Thresholds};
use crate::setup::Setup;
use crate::topology::{Link, NodeKind, Topology};
use penstock_core::{Amount, ParamError};
use penstock_fabric::config::PAUSE_FRAME;
use penstock_fabric::{BufferConfig, Cable, Limit, PauseAt, PRIORITIES};
use penstock_models::registry::alpha_times;
use penstock_units::{Bytes, Dur, Rate};
use std::collections::VecDeque;

/// Bytes of TCP options that an ACK may have beside those of data (RFC 9293 section 3.1: 40 in all).
const OPTIONS: u32 = 40;

pub(super) fn is_switch(setup: &Setup, node: u32) -> bool {
    setup.topology.nodes[node as usize].kind == NodeKind::Switch
}

/// Links into a node, in their order.
pub(super) fn into(setup: &Setup, node: u32) -> impl Iterator<Item = u32> + '_ {
    setup.topology.links_into(node).iter().copied()
}

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
pub(super) fn memory(setup: &Setup, switch: u32) -> Result<BufferConfig, ParamError> {
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

/// Memory of a switch's port by default where a protocol needs pause frames, in bytes per bit/s. Source: 12 MB for 32 ports of 40 Gb/s, the switches
/// of Zhu et al., SIGCOMM 2015, section 4; from memory.
const MEMORY: f64 = 12e6 / 32.0 / 40e9;

/// Packets of full length that a port has room for at least. Memory in proportion to the rate would be three packets of 1500 bytes at 500 Mb/s,
/// which pauses a lone flow. A lane gets an eighth of the free memory, and two ports have to keep a few packets below that.
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

/// The pool of its own that a router's ports share.
pub(super) fn pool_of(setup: &Setup, node: u32) -> Option<usize> {
    setup.pools.iter().position(|pool| pool.node == node)
}
