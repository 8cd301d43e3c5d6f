//! The tables of a run that looks at every packet (`deliveries`).

use super::columns::{columns, nodes, protocols, secs, Layout};
use crate::measured::Measured;
use crate::metrics::deliveries::{Failure, FlowDeliveries, Opened};
use crate::metrics::TransferRecord;
use penstock_units::Time;
use std::collections::{BTreeMap, BTreeSet};

/// The share of `part` in `whole`; NaN of nothing.
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

pub(super) fn flow_rows(e: &Measured<'_>) -> Vec<(u32, FlowDeliveries)> {
    let found = e.recorder.deliveries.iter().flat_map(|d| &d.flows);
    found.map(|(flow, f)| (*flow, f.clone())).collect()
}

pub(super) static DELIVERIES: Layout<(u32, FlowDeliveries)> = Layout {
    name: "deliveries",
    text: "a row per connection: what became of its packets in the measured time (needs deliveries)",
    columns: columns! { f =>
        "flow", One, U32 = f.0, "number of the connection";
        "dst", One, Coded[nodes] = f.1.opened.dst, "receiving host";
        "protocol", One, Coded[protocols] = u32::from(f.1.opened.protocol), "its congestion control";
        "packets", Packets, U64 = f.1.packets, "data packets that arrived whole";
        "sent_again", Packets, U64 = f.1.again, "those among them all of whose bytes had been sent before";
        "trims", Packets, U64 = f.1.trims, "data packets whose payload was cut off on the way";
        "out_of_order", Packets, U64 = f.1.out_of_order, "first copies that arrived behind one sent later";
        "distance_mean_packets", Packets, F64 = share(f.1.distance_sum, f.1.first_copies()),
            "mean distance of its first copies, in order 0: to the latest that came before it, in full packets";
        "distance_max_packets", Packets, U32 = f.1.distance_max, "largest of these distances";
    },
    more: (&[], |_, _| false),
};

/// First copies of a protocol at one distance.
pub(super) struct Distance {
    protocol: u16,
    distance: u32,
    count: u64,
    share: f64,
}

pub(super) fn distance_rows(e: &Measured<'_>) -> Vec<Distance> {
    let Some(d) = &e.recorder.deliveries else { return Vec::new() };
    let mut all: BTreeMap<u16, u64> = BTreeMap::new();
    for ((protocol, _), count) in &d.distances {
        *all.entry(*protocol).or_default() += count;
    }
    let row = |((protocol, distance), count): (&(u16, u32), &u64)| Distance {
        protocol: *protocol,
        distance: *distance,
        count: *count,
        share: share(*count, all[protocol]),
    };
    d.distances.iter().map(row).collect()
}

pub(super) static DISTANCES: Layout<Distance> = Layout {
    name: "distances",
    text: "a row per protocol and out-of-order distance that occurred (needs deliveries)",
    columns: columns! { d =>
        "protocol", One, Coded[protocols] = u32::from(d.protocol), "congestion control";
        "distance_packets", Packets, U32 = d.distance,
            "from a packet to the latest one sent after it that came before it, in full packets; 0 = in order";
        "packets", Packets, U64 = d.count, "first copies of data packets that arrived so";
        "share", One, F64 = d.share, "their share in all of the protocol";
    },
    more: (&[], |_, _| false),
};

/// A way that packets took.
pub(super) struct Path {
    number: u32,
    src: u32,
    dst: u32,
    count: u64,
    share: f64,
}

pub(super) fn path_rows(e: &Measured<'_>) -> Vec<Path> {
    let Some(d) = &e.recorder.deliveries else { return Vec::new() };
    let links = &e.topology.links;
    let ends = |way: &[u32]| match way {
        [first, .., last] => (links[*first as usize].from, links[*last as usize].to),
        [only] => (links[*only as usize].from, links[*only as usize].to),
        [] => unreachable!("a packet that has arrived has crossed a link"),
    };
    let mut all: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for (way, count) in &d.paths {
        *all.entry(ends(way)).or_default() += count;
    }
    let row = |(number, (way, count)): (u32, (&Vec<u32>, &u64))| {
        let (src, dst) = ends(way);
        Path { number, src, dst, count: *count, share: share(*count, all[&(src, dst)]) }
    };
    (0..).zip(&d.paths).map(row).collect()
}

/// The nodes of every path, in the order of [`path_rows`].
fn ways(e: &Measured<'_>) -> Vec<String> {
    let name = |node: u32| e.topology.nodes[node as usize].name.as_str();
    let text = |way: &Vec<u32>| {
        let mut names = vec![name(e.topology.links[way[0] as usize].from)];
        names.extend(way.iter().map(|link| name(e.topology.links[*link as usize].to)));
        names.join("->")
    };
    e.recorder.deliveries.iter().flat_map(|d| d.paths.keys().map(text)).collect()
}

pub(super) static PATHS: Layout<Path> = Layout {
    name: "paths",
    text: "a row per pair of hosts and path that data took (needs deliveries)",
    columns: columns! { p =>
        "src", One, Coded[nodes] = p.src, "sending host";
        "dst", One, Coded[nodes] = p.dst, "receiving host";
        "path", One, Coded[ways] = p.number, "the nodes of the way, A->B->C";
        "packets", Packets, U64 = p.count, "data packets that arrived whole by it";
        "share", One, F64 = p.share, "their share in all between the two hosts";
    },
    more: (&[], |_, _| false),
};

/// A host with the completed transfers to it.
pub(super) struct Receiver {
    dst: u32,
    transfers: u64,
    senders: u64,
    bytes: u64,
    from: Time,
    /// Seconds from `from` to the last acknowledgement.
    pub(super) took: f64,
    pub(super) ideal: f64,
}

/// A completed transfer, as its receiver's link sees it.
struct Share {
    at: Time,
    acked: Time,
    bytes: u64,
    /// On the link, headers and framing included.
    wire: u64,
    lead: f64,
    ideal: f64,
    src: u32,
}

/// The earliest time, in seconds from the first write, at which all that one host receives could be acknowledged, by a link of `rate` bit/s. No transfer
/// is faster than alone. Transfers that are written from some moment on follow each other on the link, behind the first packet's travel time.
fn earliest(shares: &[Share], rate: f64) -> f64 {
    let from = shares[0].at;
    let (mut bound, mut wire, mut lead) = (0.0f64, 0u64, f64::INFINITY);
    for s in shares.iter().rev() {
        wire += s.wire;
        lead = lead.min(s.lead);
        let since = s.at.since(from).as_secs();
        bound = bound.max(since + s.ideal).max(since + lead + wire as f64 * 8.0 / rate);
    }
    bound
}

pub(super) fn receiver_rows(e: &Measured<'_>) -> Vec<Receiver> {
    let Some(d) = &e.recorder.deliveries else { return Vec::new() };
    let mut src: BTreeMap<u32, u32> = BTreeMap::new();
    e.recorder.flows.each(|flows| src.extend(flows.iter().map(|f| (f.flow, f.src))));
    let mut shares: BTreeMap<u32, Vec<Share>> = BTreeMap::new();
    let mut share = |x: &TransferRecord| {
        let Some(Opened { dst, segment, header, lead, .. }) = d.flows.get(&x.flow).map(|f| f.opened) else {
            return;
        };
        let packets = x.bytes.div_ceil(u64::from(segment.max(1)));
        shares.entry(dst).or_default().push(Share {
            at: x.started,
            acked: x.acked,
            bytes: x.bytes,
            wire: x.bytes + packets * u64::from(header),
            lead,
            ideal: x.ideal,
            src: src.get(&x.flow).copied().unwrap_or(u32::MAX),
        });
    };
    e.recorder.transfers.each(|transfers| transfers.iter().for_each(&mut share));
    let row = |(dst, mut shares): (u32, Vec<Share>)| {
        shares.sort_by_key(|s| s.at);
        let from = shares[0].at;
        let rate: f64 =
            e.topology.links_into(dst).iter().map(|l| e.topology.links[*l as usize].rate.as_bps()).sum();
        let last = shares.iter().map(|s| s.acked).max().unwrap_or(from);
        Receiver {
            dst,
            transfers: shares.len() as u64,
            senders: shares.iter().map(|s| s.src).collect::<BTreeSet<_>>().len() as u64,
            bytes: shares.iter().map(|s| s.bytes).sum(),
            from,
            took: last.since(from).as_secs(),
            ideal: earliest(&shares, rate),
        }
    };
    shares.into_iter().map(row).collect()
}

/// The receiver whose transfers took longest together; `None` where none was completed or deliveries are not looked at.
pub(crate) fn longest_receiver(e: &Measured<'_>) -> Option<(f64, f64)> {
    let rows = receiver_rows(e).into_iter().map(|r| (r.took, r.ideal));
    rows.reduce(|a, b| if b.0 > a.0 { b } else { a })
}

pub(super) static RECEIVERS: Layout<Receiver> = Layout {
    name: "receivers",
    text: "a row per host that completed transfers lead to, as of an incast (needs deliveries)",
    columns: columns! { r =>
        "dst", One, Coded[nodes] = r.dst, "receiving host";
        "transfers", One, U64 = r.transfers, "completed transfers to it";
        "senders", One, U64 = r.senders, "hosts that they came from";
        "bytes", Bytes, U64 = r.bytes, "payload of them all";
        "start_s", Seconds, F64 = r.from.as_secs(), "first write";
        "completion_s", Seconds, F64 = r.took, "from there to the last acknowledgement";
        "ideal_s", Seconds, F64 = r.ideal,
            "lower bound of the completion time: transfers as fast as in the idle network, one after the other on the link to the host";
        "slowdown", One, F64 = r.took / r.ideal, "completion_s over ideal_s";
    },
    more: (&[], |_, _| false),
};

pub(super) fn failure_rows(e: &Measured<'_>) -> Vec<(u32, Failure)> {
    let found = e.recorder.deliveries.iter().flat_map(|d| (0..).zip(&d.failures));
    found.map(|(number, f)| (number, f.clone())).collect()
}

/// The links of every failure, in order.
fn cables(e: &Measured<'_>) -> Vec<String> {
    let text = |f: &Failure| {
        let names: Vec<String> = f.links.iter().map(|link| e.topology.link_name(*link)).collect();
        names.join(", ")
    };
    e.recorder.deliveries.iter().flat_map(|d| d.failures.iter().map(text)).collect()
}

pub(super) static FAILURES: Layout<(u32, Failure)> = Layout {
    name: "failures",
    text: "a row per failure of a link or cable, and how long it was felt (needs deliveries)",
    columns: columns! { f =>
        "time_s", Seconds, F64 = f.1.at.as_secs(), "when";
        "links", One, Coded[cables] = f.0, "what failed, A->B";
        "lost_packets", Packets, U64 = f.1.lost, "packets that it took, data and other";
        "lost_data_packets", Packets, U64 = f.1.data, "those among them with payload";
        "flows", One, U64 = f.1.flows.len() as u64, "connections that lost data to it";
        "last_loss_s", Seconds, F64 = if f.1.last_loss == Time::NEVER { f64::NAN } else { secs(f.1.last_loss) - f.1.at.as_secs() },
            "from the failure to the last packet with payload that it took; none when it took none";
        "recovery_s", Seconds, F64 = f.1.recovery(), "from the failure until all data that it took had arrived; none while some is missing";
    },
    more: (&[], |_, _| false),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incast_is_no_faster_than_its_link_or_its_slowest_sender() {
        let share = |at_us: u64, wire: u64, ideal: f64| Share {
            at: Time(at_us * 1_000_000),
            acked: Time::NEVER,
            bytes: wire,
            wire,
            lead: 5e-6,
            ideal,
            src: 0,
        };
        // Three of 10,000 bytes at 1 Gb/s, 80 us each, one after the other behind a lead of 5 us.
        let together = [share(0, 10_000, 85e-6), share(0, 10_000, 85e-6), share(0, 10_000, 85e-6)];
        assert!((earliest(&together, 1e9) - 245e-6).abs() < 1e-12);
        // The third begins when the others are long done.
        let late = [share(0, 10_000, 85e-6), share(0, 10_000, 85e-6), share(300, 10_000, 85e-6)];
        assert!((earliest(&late, 1e9) - 385e-6).abs() < 1e-12);
        // A slow uplink: alone it takes longer than all on the receiver's link.
        let slow = [share(0, 10_000, 805e-6), share(0, 10_000, 85e-6)];
        assert!((earliest(&slow, 1e9) - 805e-6).abs() < 1e-12);
    }
}
