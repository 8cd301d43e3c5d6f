//! Defaults that follow from other parameters: what a paper chose for its link, carried to any link. docs/background/defaults.md
//! says for every key why its default is right at 1, 10, 100 and 400 Gb/s.

use penstock_core::{Amount, Params};

/// Wire bytes of a full data packet, framing not counted.
pub fn packet(p: &Params) -> f64 {
    if p.declares("mtu") {
        return p.float("mtu");
    }
    p.float("segment") + p.float("header") + if p.flag("timestamps") { 12.0 } else { 0.0 }
}

/// Bytes of an amount.
pub fn bytes(p: &Params, key: &str) -> f64 {
    match p.amount(key) {
        Amount::Bytes(b) => b as f64,
        Amount::Packets(n) => f64::from(n) * packet(p),
    }
}

/// `jitter` of requests: the time of 2500 bytes on a link of `link_rate`, 20 us at 1 Gb/s (kulkarni-agrawal-incast section
/// 3.2), so that a block takes the same number of jitters at any rate.
pub fn request_jitter(p: &mut Params) {
    let s = 2500.0 * 8.0 / p.float("link_rate");
    p.derive("jitter", s, "the time of 2500 B on a link: the 20 us that the papers have at 1 Gb/s");
}

/// `start_spread`: ten thirds of a round trip of `rtt` seconds, which is at least four packets' time on links of `link_rate`. It is 1 ms at 300 us,
/// and a start looks the same in round trips at any rate.
pub fn start_spread(p: &mut Params, rtt: f64) {
    let least = 4.0 * packet(p) * 8.0 / p.float("link_rate");
    let why = "10/3 round trips: the 1 ms chosen for 300 us";
    p.derive("start_spread", rtt.max(least) / 3.0 * 10.0, why);
}

/// `access_rate` of hosts beside a bottleneck of `capacity`: ten times it, at least 1 Gb/s. A fixed rate would be the
/// bottleneck itself at a capacity above it.
pub fn access_rate(p: &mut Params) {
    let bps = (10.0 * p.float("capacity")).max(1e9);
    p.derive("access_rate", bps, "ten times capacity, at least 1 Gb/s: never the bottleneck");
}

/// `delay` of a bottleneck: 50 ms, or 5/12 of the shortest round trip of `rtt` seconds where that leaves no room for 50 ms.
pub fn bottleneck_delay(p: &mut Params, rtt: f64) {
    let s = if rtt < 0.1 { rtt * 5.0 / 12.0 } else { 0.05 };
    p.derive("delay", s, "50 ms, or 5/12 of the shortest round trip below 100 ms");
}
