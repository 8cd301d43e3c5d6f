//! The completion time a transfer would have alone in the idle network: what slowdowns are measured against.

use crate::topology::Topology;
use penstock_core::tcp::{most_saved, TcpConfig};
use penstock_models::Wire;
use penstock_units::{Dur, Rate};

/// Lengths on the wire of the packets of one connection, in bytes, framing included.
#[derive(Clone, Copy, Debug)]
pub struct Lengths {
    /// Payload of a full segment.
    pub segment: u32,
    /// What a data segment has beside its payload: headers, congestion header, framing.
    pub header: u32,
    /// An acknowledgement.
    pub ack: u32,
    /// SYN or its answer.
    pub syn: u32,
    /// Data waits for the answer to a SYN.
    pub handshake: bool,
    /// Transmissions take whole nanoseconds, as of [`penstock_fabric::PortConfig::whole_ns`].
    pub whole_ns: bool,
}

impl Lengths {
    /// The shortest of a connection on links with `framing`. Congestion headers have `congestion` bytes: those of a SYN, and those of
    /// ordinary data and its ACKs. Compressed headers are as short as they get: no transfer is faster than in the idle network.
    pub fn new(cfg: &TcpConfig, congestion: (u32, u32), framing: u32) -> Lengths {
        let syn = cfg.header_len() + congestion.0 + framing;
        let header = cfg.header_len() + congestion.1 + framing;
        // With timestamps every header is irregular.
        let compressed = cfg.header_compression && !cfg.timestamps;
        let saved = if compressed { most_saved(cfg.header_len()) } else { (0, 0) };
        Lengths {
            segment: cfg.mss,
            header: header - saved.0,
            ack: header - saved.1,
            syn,
            handshake: true,
            whole_ns: false,
        }
    }
    /// Those of a transport that is no TCP, with payloads of `mss`: data is sent at once.
    pub fn own(mss: u32, wire: Wire, framing: u32) -> Lengths {
        let (header, ack) = (wire.header + framing, wire.ack + framing);
        Lengths { segment: mss, header, ack, syn: ack, handshake: false, whole_ns: false }
    }
}

impl Lengths {
    /// Seconds that the transmission of so many bytes takes on a link.
    fn seconds(&self, t: &Topology, link: u32, bytes: u32) -> f64 {
        self.at_rate(t.links[link as usize].rate, bytes)
    }
    /// Seconds that it takes at a rate.
    fn at_rate(&self, rate: Rate, bytes: u32) -> f64 {
        if self.whole_ns {
            // What is behind the nanosecond is cut off, and one where there is nothing to cut off. In whole numbers: a product that is
            // rounded up would pass for one with something to cut off.
            let nanos = (u128::from(bytes) * 8 * 1_000_000_000).saturating_sub(1) / u128::from(rate.0.max(1));
            return nanos as f64 * 1e-9;
        }
        f64::from(bytes) * 8.0 / rate.as_bps()
    }
}

/// Seconds a packet of `bytes` takes along `path`: transmission and propagation of every link.
fn one_way(t: &Topology, path: &[u32], lengths: &Lengths, bytes: u32) -> f64 {
    path.iter().map(|l| lengths.seconds(t, *l, bytes) + t.links[*l as usize].delay.as_secs()).sum()
}

/// Seconds from the opening of a connection to the answer of its SYN: the idle round trip.
pub fn handshake(t: &Topology, forward: &[u32], back: &[u32], lengths: &Lengths) -> f64 {
    one_way(t, forward, lengths, lengths.syn) + one_way(t, back, lengths, lengths.syn)
}

/// What a packet without payload takes along `path` of the idle network, as a request does; zero where there is no way.
pub fn request(t: &Topology, path: &[u32], lengths: &Lengths) -> Dur {
    Dur::from_secs(one_way(t, path, lengths, lengths.ack))
}

/// Seconds from a write of `bytes` on an idle, open connection to the acknowledgement of its last byte. Segments leave back to back at line rate
/// whatever the windows, and are stored and forwarded link by link. The last one is acknowledged at once. NaN for an endless write, and where
/// a failure has left no path.
pub fn transfer(t: &Topology, forward: &[u32], back: &[u32], lengths: &Lengths, bytes: u64) -> f64 {
    Idle::new(t, forward, back, lengths).transfer(t, forward, lengths, bytes)
}

/// The links side by side that are equally far from the destination, all of them on shortest paths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layer {
    /// How many.
    pub links: u32,
    /// Rate of all of them together.
    pub total: Rate,
    /// Rate of the fastest.
    pub fastest: Rate,
    /// Propagation delay of the shortest, in seconds.
    pub delay: f64,
}

/// Seconds a packet of `bytes` takes at least through all layers.
fn through(layers: &[Layer], lengths: &Lengths, bytes: u32) -> f64 {
    layers.iter().map(|l| lengths.at_rate(l.fastest, bytes) + l.delay).sum()
}

/// [`handshake`] where packets may take any of several paths.
pub fn handshake_through(forward: &[Layer], back: &[Layer], lengths: &Lengths) -> f64 {
    through(forward, lengths, lengths.syn) + through(back, lengths, lengths.syn)
}

/// [`transfer`] where packets may take any of several paths, side by side or one after the other: no transfer takes less.
///
/// Where every layer has one link, segments stay in order and this is the time of that path. Otherwise all segments pass
/// every layer, which carries no more than the rates of its links together. Before that, one packet has passed the layers
/// before. After that, one passes the layers behind: a full one after all full ones, and at least the short one after all.
/// A short last segment may overtake on another path, so that it counts as the first to arrive.
pub fn transfer_through(forward: &[Layer], back: &[Layer], lengths: &Lengths, bytes: u64) -> f64 {
    if bytes == 0 || bytes == u64::MAX || forward.is_empty() || back.is_empty() {
        return f64::NAN;
    }
    let segment = u64::from(lengths.segment);
    let packets = bytes.div_ceil(segment);
    let full = lengths.segment + lengths.header;
    let last = (bytes - (packets - 1) * segment) as u32 + lengths.header;
    let alone = |l: &Layer, bytes: u32| lengths.at_rate(l.fastest, bytes);
    let propagation: f64 = forward.iter().map(|l| l.delay).sum();
    let uncounted = if lengths.whole_ns { 1e-9 } else { 0.0 };
    let around = propagation + through(back, lengths, lengths.ack) - uncounted;
    if forward.iter().all(|l| l.links == 1) {
        return in_order(packets, forward.iter().map(|l| (alone(l, full), alone(l, last)))) + around;
    }
    let shared = |l: &Layer, bytes: u32| {
        // Packets side by side each lose a part of a nanosecond.
        let cut = if lengths.whole_ns && l.links > 1 { 1e-9 } else { 0.0 };
        (lengths.at_rate(l.total, bytes) - cut).max(0.0)
    };
    let (mut before, mut longest) = (0.0, 0.0f64);
    let (mut rest_full, mut rest_last) = (0.0, 0.0);
    for layer in forward {
        (rest_full, rest_last) = (rest_full + alone(layer, full), rest_last + alone(layer, last));
    }
    for layer in forward {
        rest_full -= alone(layer, full);
        rest_last -= alone(layer, last);
        let full_ones = (packets - 1) as f64 * shared(layer, full);
        let all = full_ones + if layer.links > 1 { shared(layer, last) } else { alone(layer, last) };
        longest = longest.max(before + all + rest_last);
        if packets > 1 {
            longest = longest.max(before + full_ones + rest_full);
        }
        before += alone(layer, last);
    }
    longest + around
}

/// What is the same for all transfers of a connection, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Idle {
    /// Propagation there; NaN where there is no way there or back.
    propagation: f64,
    /// An acknowledgement's way back.
    ack: f64,
}

impl Idle {
    /// Along these links.
    pub fn new(t: &Topology, forward: &[u32], back: &[u32], lengths: &Lengths) -> Idle {
        let propagation = if forward.is_empty() || back.is_empty() {
            f64::NAN
        } else {
            forward.iter().map(|l| t.links[*l as usize].delay.as_secs()).sum()
        };
        Idle { propagation, ack: one_way(t, back, lengths, lengths.ack) }
    }
    /// [`transfer`] along these links.
    pub fn transfer(&self, t: &Topology, forward: &[u32], lengths: &Lengths, bytes: u64) -> f64 {
        if bytes == 0 || bytes == u64::MAX {
            return f64::NAN;
        }
        // A clock of whole nanoseconds counts from the last one before the write, so a fraction of it is not waited for.
        let uncounted = if lengths.whole_ns { 1e-9 } else { 0.0 };
        arrival(t, forward, lengths, bytes) + self.propagation + self.ack - uncounted
    }
}

/// Seconds until the last of so many bytes has arrived, without propagation.
fn arrival(t: &Topology, forward: &[u32], lengths: &Lengths, bytes: u64) -> f64 {
    let segment = u64::from(lengths.segment);
    let packets = bytes.div_ceil(segment);
    let last = (bytes - (packets - 1) * segment) as u32 + lengths.header;
    let full = lengths.segment + lengths.header;
    in_order(packets, forward.iter().map(|l| (lengths.seconds(t, *l, full), lengths.seconds(t, *l, last))))
}

/// Seconds until the last of so many packets has passed links in series. Each link carries one packet at a time, and `links` has its seconds for a full
/// packet and for the last one. The result is the longest chain over all links j. In a chain the first packet takes the links up to j, the other full packets
/// take the slowest link so far, and the last packet takes the links from j on.
fn in_order(packets: u64, links: impl Iterator<Item = (f64, f64)> + Clone) -> f64 {
    let mut rest = links.clone().map(|(_, last)| last).sum::<f64>();
    if packets == 1 {
        return rest;
    }
    let (mut before, mut slowest, mut longest) = (0.0, 0.0f64, 0.0f64);
    for (full, last) in links {
        before += full;
        slowest = slowest.max(full);
        longest = longest.max(before + (packets - 2) as f64 * slowest + rest);
        rest -= last;
    }
    longest
}

/// Seconds from the begin of a transfer of `size` bytes (0 = of any) alone to the acknowledgement of its first packet, without the time on the last
/// link. No number of senders can fill that link with this time.
pub fn lead(t: &Topology, forward: &[u32], back: &[u32], lengths: &Lengths, size: u64) -> f64 {
    let first = if size == 0 { u64::from(lengths.segment) } else { size.min(u64::from(lengths.segment)) };
    let last =
        forward.last().map_or(f64::NAN, |link| lengths.seconds(t, *link, first as u32 + lengths.header));
    transfer(t, forward, back, lengths, first) - last
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{drop_tail, LinkSpec};
    use penstock_units::Rate;
    use proptest::prelude::*;

    /// Host, switch, host with these rates in Mb/s and 10 us each.
    fn network(mbps: [u64; 2]) -> (Topology, [u32; 2], [u32; 2]) {
        let spec = |m| LinkSpec {
            rate: Rate(m * 1_000_000),
            delay: Dur::micros(10),
            buffer: None,
            queue: drop_tail(),
        };
        let mut t = Topology::default();
        let (a, s, b) = (t.host("a"), t.switch("s"), t.host("b"));
        let (up, back1) = t.connect(a, s, &spec(mbps[0]));
        let (down, back0) = t.connect(s, b, &spec(mbps[1]));
        (t, [up, down], [back0, back1])
    }
    const PLAIN: Lengths =
        Lengths { segment: 1460, header: 40, ack: 40, syn: 40, handshake: true, whole_ns: false };

    fn close(x: f64, y: f64) {
        assert!((x / y - 1.0).abs() < 1e-12, "{x} is not {y}");
    }

    #[test]
    fn completion_times_by_hand() {
        // 1 Gb/s then 100 Mb/s: a full packet takes 12 and 120 us, an ACK 3.2 and 0.32 us.
        let (t, forward, back) = network([1000, 100]);
        let us = |bytes| transfer(&t, &forward, &back, &PLAIN, bytes) * 1e6;
        let round = 20.0 + 20.0 + 3.2 + 0.32;
        close(handshake(&t, &forward, &back, &PLAIN) * 1e6, 40.0 + 2.0 * 3.52);
        close(us(1460), 12.0 + 120.0 + round);
        close(lead(&t, &forward, &back, &PLAIN, 0) * 1e6, 12.0 + round);
        close(lead(&t, &forward, &back, &PLAIN, 500) * 1e6, 4.32 + round);
        // A lone short packet: 500 + 40 bytes.
        close(us(500), 4.32 + 43.2 + round);
        close(us(14_600), 12.0 + 10.0 * 120.0 + round);
        // 10 MB: 6849 full segments and one of 460 bytes (500 on the wire).
        close(us(10_000_000), 12.0 + 6849.0 * 120.0 + 40.0 + round);
        // The slow link first: its packets never wait at the fast one.
        let (t, forward, back) = network([100, 1000]);
        let us = |bytes| transfer(&t, &forward, &back, &PLAIN, bytes) * 1e6;
        close(us(14_600), 10.0 * 120.0 + 12.0 + round);
        // A short last packet is not behind a long one: 40 and 4 us.
        close(us(10_000_000), 6849.0 * 120.0 + 40.0 + 4.0 + round);
        assert!(transfer(&t, &forward, &back, &PLAIN, u64::MAX).is_nan());
    }
    proptest! {
        #[test]
        fn the_closed_form_is_that_of_packets_one_by_one(
            mbps in prop::collection::vec(1u64..1000, 1..6), packets in 1usize..40, last in 1u32..1460,
        ) {
            let bytes = (packets as u64 - 1) * 1460 + u64::from(last);
            let mut t = Topology::default();
            let first = t.host("a");
            let mut at = first;
            let (mut path, mut back) = (Vec::new(), Vec::new());
            for (i, m) in mbps.iter().enumerate() {
                let next = t.switch(format!("s{i}"));
                let rate = Rate(m * 1_000_000);
                let spec = LinkSpec { rate, delay: Dur::ZERO, buffer: None, queue: drop_tail() };
                let (there, here) = t.connect(at, next, &spec);
                path.push(there);
                back.push(here);
                at = next;
            }
            let mut free = vec![0.0f64; path.len()];
            let mut done = 0.0;
            for i in 0..packets {
                let size = if i + 1 == packets { last } else { 1460 } + 40;
                let mut now = 0.0f64;
                for (link, free) in path.iter().zip(&mut free) {
                    now = now.max(*free) + f64::from(size) * 8.0 / t.links[*link as usize].rate.as_bps();
                    *free = now;
                }
                done = now;
            }
            // An acknowledgement of no length takes no time on the way back.
            let found = transfer(&t, &path, &back, &Lengths { ack: 0, ..PLAIN }, bytes);
            prop_assert!((found / done - 1.0).abs() < 1e-9, "{found} is not {done}");
        }
    }
}
