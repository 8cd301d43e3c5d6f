//! What holds for the numbers of every run. Builds with debug assertions check it at the end of each; fuzzers ask for it.

use crate::measured::Measured;
use crate::metrics::{FlowRecord, TransferRecord};
use crate::summary_keys as key;
use crate::summary_keys::Summary;
use penstock_core::rng::Entity;
use penstock_core::tcp::TcpConfig;
use penstock_core::{Quantity, Stream};
use penstock_fabric::{Port, PortStats};
use penstock_models::Suite;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Sums of floating-point numbers and clocks of picoseconds are that exact, relatively.
const ROUNDING: f64 = 1e-9;
/// A clock that rounds each packet up to a picosecond may be so many of them behind one that rounds their sum.
const PICOSECONDS: u64 = 4;

/// Quantities that are shares.
static SHARES: [&Quantity; 6] = [
    &key::UTILISATION,
    &key::JAIN,
    &key::DROP_RATE,
    &key::DEADLINES_MET,
    &key::OUT_OF_ORDER,
    &key::ALPHA_MEAN,
];

/// Says what is out of range among the numbers of a run that is over.
///
/// # Errors
/// The first number found, with what bounds it.
pub fn check(m: &Measured<'_>, summary: &Summary) -> Result<(), String> {
    for (number, port) in (0u32..).zip(m.ports) {
        let name = || m.topology.link_name(number);
        check_port(port, &port.stats()).map_err(|what| format!("port {}: {what}", name()))?;
    }
    for (name, value) in summary {
        at_least(name, *value, 0.0)?;
    }
    for share in SHARES {
        if let Some(value) = summary.get(share.name) {
            at_most(share.name, *value, 1.0)?;
        }
    }
    let mut wrong = None;
    // Of transfers, the flows whose ideal time is no bound.
    let mut faster = BTreeSet::new();
    m.recorder.flows.each(|rows| {
        faster.extend(rows.iter().filter(|row| !is_bounded(m, row)).map(|row| row.flow));
        let found =
            rows.iter().find_map(|row| check_flow(m, row).err().map(|e| format!("flow {}: {e}", row.flow)));
        wrong = wrong.take().or(found);
    });
    m.recorder.transfers.each(|rows| {
        let found = rows.iter().find_map(|row| {
            check_transfer(&faster, row).err().map(|e| format!("write on flow {}: {e}", row.flow))
        });
        wrong = wrong.take().or(found);
    });
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    check_goodput(m, summary)
}

fn at_least(name: &str, value: f64, least: f64) -> Result<(), String> {
    if value >= least - ROUNDING * least.abs() {
        return Ok(());
    }
    Err(format!("{name} is {value}, less than {least}"))
}

fn at_most(name: &str, value: f64, most: f64) -> Result<(), String> {
    if value <= most + ROUNDING * most.abs() {
        return Ok(());
    }
    Err(format!("{name} is {value}, more than {most}"))
}

fn check_port(port: &Port, stats: &PortStats) -> Result<(), String> {
    if stats.busy > stats.window + PICOSECONDS {
        return Err(format!("it was sending for {} ps of {}", stats.busy, stats.window));
    }
    if stats.window > 0 {
        at_least("utilisation", stats.utilisation(), 0.0)?;
        at_most("utilisation", stats.utilisation(), 1.0)?;
        at_least("queue_mean_packets", stats.queue_mean(), 0.0)?;
        at_most("queue_mean_packets", stats.queue_mean(), f64::from(stats.queue_max))?;
        for (name, value) in
            [("queue_std_packets", stats.queue_std()), ("queue_mean_bytes", stats.queue_mean_bytes())]
        {
            if !value.is_nan() {
                at_least(name, value, 0.0)?;
            }
        }
    }
    let gone = stats.drops.iter().sum::<u64>() + stats.down;
    if u64::from(port.queue_packets()) > u64::from(stats.queue_max) {
        return Err(format!(
            "it holds {} packets and never held more than {}",
            port.queue_packets(),
            stats.queue_max
        ));
    }
    // What was there when measuring began may leave or be lost, too.
    let seen = stats.arrived_packets + u64::from(stats.queue_max);
    if stats.marks > seen || gone > seen {
        return Err(format!(
            "{} packets arrived, {} were marked and {gone} lost",
            stats.arrived_packets, stats.marks
        ));
    }
    Ok(())
}

fn check_flow(m: &Measured<'_>, f: &FlowRecord) -> Result<(), String> {
    let whole = f.opened >= m.recorder.from;
    let bytes = |name: &str, value: u64, of: &str, most: u64| {
        if value <= most {
            return Ok(());
        }
        Err(format!("{name} of {value} is more than {of}, {most}"))
    };
    if f.size > 0 {
        bytes("delivered_bytes", f.delivered_bytes, "what was written", f.size)?;
        bytes("acked_bytes", f.acked_bytes, "what was written", f.size)?;
        if f.complete && whole && f.delivered_bytes != f.size {
            return Err(format!("it is complete with {} of {} bytes", f.delivered_bytes, f.size));
        }
    }
    if whole {
        bytes("acked_bytes", f.acked_bytes, "what was delivered", f.delivered_bytes)?;
    }
    slowdown(f.slowdown(), is_bounded(m, f))
}

fn check_transfer(faster: &BTreeSet<u32>, t: &TransferRecord) -> Result<(), String> {
    if !(t.started <= t.delivered && t.delivered <= t.acked) {
        return Err(format!(
            "made at {}, delivered at {}, acknowledged at {}",
            t.started, t.delivered, t.acked
        ));
    }
    slowdown(t.fct() / t.ideal, !faster.contains(&t.flow))
}

/// Whether the ideal time of a flow is a bound of its completion time. It counts shortest paths by their number of links, but a detour around a failed
/// link may be faster where links between switches differ. And it counts full segments, but shorter ones spend less time in each switch.
fn is_bounded(m: &Measured<'_>, f: &FlowRecord) -> bool {
    !m.fabric.detours && !chooses_segments(&m.protocols[usize::from(f.protocol)])
}

/// The window law of a protocol says how long segments are.
fn chooses_segments((suite, cfg): &(Suite, Arc<TcpConfig>)) -> bool {
    let probe = || Stream::new(0, 0, Entity::Sender, u64::MAX);
    suite.stack.is_none() && (suite.endpoint)(cfg, &probe).control().segment.is_some()
}

fn slowdown(slowdown: f64, is_bounded: bool) -> Result<(), String> {
    if slowdown.is_nan() || !is_bounded {
        return Ok(());
    }
    at_least("slowdown", slowdown, 1.0)
}

/// Hosts have got no more than their links carry. A header alone that counts as a retransmission of data carries less.
fn check_goodput(m: &Measured<'_>, summary: &Summary) -> Result<(), String> {
    if m.fabric.raises || m.protocols.iter().any(|(suite, _)| suite.bare) {
        return Ok(());
    }
    // Bits per second of the links to each node.
    let mut links = vec![0.0; m.topology.nodes.len()];
    m.topology.links.iter().for_each(|link| links[link.to as usize] += link.rate.as_bps());
    let mut receives = vec![false; m.topology.nodes.len()];
    m.recorder.flows.each(|rows| rows.iter().for_each(|f| receives[f.dst as usize] = true));
    // Of each receiver a packet that was on the last link when measuring began arrived in the measured time.
    let packet = m.protocols.iter().map(|(_, c)| u64::from(c.mss)).max().unwrap_or(0);
    if let (Some(goodput), 0) = (summary.get(key::GOODPUT_BPS.name), m.recorder.left_out.flows) {
        let receivers = receives.iter().zip(&links).filter(|(receives, _)| **receives);
        let most: f64 = receivers.map(|(_, rate)| rate + packet as f64 * 8.0 / m.seconds()).sum();
        at_most(key::GOODPUT_BPS.name, *goodput, most)?;
    }
    if let Some(bus) = summary.get(key::BUSBW_BPS.name) {
        let fastest = links.iter().copied().fold(0.0, f64::max);
        at_most(key::BUSBW_BPS.name, *bus, fastest)?;
    }
    Ok(())
}
