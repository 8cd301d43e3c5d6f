//! Tests of RCP, by the numbers of its equations.

use super::*;
use alloc::vec::Vec;

pub(crate) const LINK: LinkFacts =
    LinkFacts { port: 0, capacity: Rate(100_000_000), base_rtt: Dur::millis(100), packet: 1000, framing: 0 };

fn view(queue_packets: u32) -> LinkView {
    let queue_bytes = u64::from(queue_packets) * 1000;
    LinkView { queue_packets, queue_bytes, ..LinkView::idle(LINK.capacity) }
}
fn settings(per_flow: bool) -> Settings {
    Settings { alpha: 0.4, beta: 1.0, interval: 0.01, per_flow, slow_fall: false, initial: 0.05, floor: 0.01 }
}
fn packet(flow: u32, rtt: f32) -> (Packet, CcHeader) {
    let mut header = CcHeader::NONE;
    header.set(&RcpHeader { rate: f32::INFINITY, rtt, epoch: 0 });
    (Packet { wire_len: 1000, flow, ..Packet::default() }, header)
}

#[test]
fn header_survives_the_wire() {
    let h = RcpHeader { rate: 1.25e9, rtt: 0.25, epoch: 77 };
    let mut slot = CcHeader::NONE;
    slot.set(&h);
    assert_eq!(slot.get::<RcpHeader>(), Some(h));
    assert_eq!(RcpHeader::WIRE_LEN, 16);
}

#[test]
fn equation_1_by_hand() {
    // C = 100 Mb/s, d = 0.1 s, T = 0.01 s. 250 packets of 1000 B in an interval are y = 200 Mb/s. 101 packets queued,
    // of which 100 wait, are q = 800 kbit. factor = 1 + 0.1 (0.4 (1 - 2) - 1 * 0.8e6 / 0.1 / 1e8) = 1 - 0.048
    let mut r = Router::<Plain>::new(&settings(false), &LINK);
    for _ in 0..250 {
        let (mut p, mut h) = packet(0, 0.1);
        r.on_arrival(Time::ZERO, &view(0), &mut p, &mut h);
    }
    r.on_deadline(Time(10_000_000_000), &view(101));
    assert!((r.rate - 5e6 * 0.952).abs() < 1.0, "{}", r.rate);
    assert_eq!(r.deadline(), Time(20_000_000_000));
}

#[test]
fn the_average_rtt_falls_slowly_where_asked_and_rises_alike() {
    // d = 0.1 s, T = 0.01 s, R/C = 0.05. Down to 40 ms: gain 0.1 as it is; 0.1 * 0.05 * 0.4 = 0.002 slowed.
    // Up to 300 ms: gain 0.1 either way.
    for (slow_fall, rtt, mean) in [
        (false, 0.04, 0.1 - 0.1 * 0.06),
        (true, 0.04, 0.1 - 0.002 * 0.06),
        (false, 0.3, 0.1 + 0.1 * 0.2),
        (true, 0.3, 0.1 + 0.1 * 0.2),
    ] {
        let mut r = Router::<Plain>::new(&Settings { slow_fall, ..settings(false) }, &LINK);
        let (mut p, mut h) = packet(0, rtt);
        r.on_arrival(Time::ZERO, &view(0), &mut p, &mut h);
        r.on_deadline(Time(10_000_000_000), &view(0));
        assert!((r.mean_rtt - mean).abs() < 1e-8, "{slow_fall} {rtt} {}", r.mean_rtt);
    }
}

#[test]
fn flows_that_are_over_are_not_kept() {
    let mut r = Router::<Plain>::new(&settings(true), &LINK);
    for k in 1..=1000u64 {
        for flow in 0..10 {
            let (mut p, mut h) = packet(k as u32 * 10 + flow, 0.1);
            r.on_arrival(Time::ZERO, &view(0), &mut p, &mut h);
        }
        assert_eq!(r.seen.len(), 10, "flows of this interval");
        r.on_deadline(Time(k * 10_000_000_000), &view(0));
    }
    assert!(r.seen.is_empty());
}

#[test]
fn mean_rtt_over_bytes_and_over_flows() {
    // 9 packets of a flow at 20 ms, 1 of a flow at 710 ms; one interval moves the average by T/d = 0.1.
    for (per_flow, mean) in [(false, (9.0 * 0.02 + 0.71) / 10.0), (true, 0.365)] {
        let mut r = Router::<Plain>::new(&settings(per_flow), &LINK);
        for i in 0..10 {
            let (mut p, mut h) = packet(u32::from(i == 0), if i == 0 { 0.71 } else { 0.02 });
            r.on_arrival(Time::ZERO, &view(0), &mut p, &mut h);
        }
        r.on_deadline(Time(10_000_000_000), &view(0));
        assert!((r.mean_rtt - (0.1 + 0.1 * (mean - 0.1))).abs() < 1e-7, "{per_flow} {}", r.mean_rtt);
    }
}

#[test]
fn the_smallest_rate_of_the_path_wins_and_acks_pass_untouched() {
    let mut r = Router::<Plain>::new(&settings(false), &LINK);
    let (mut p, mut h) = packet(0, 0.1);
    r.on_departure(Time::ZERO, &view(0), &mut p, &mut h);
    assert_eq!(h.get::<RcpHeader>().map(|h| h.rate), Some(5e6));
    r.rate = 9e6;
    r.on_departure(Time::ZERO, &view(0), &mut p, &mut h);
    assert_eq!(h.get::<RcpHeader>().map(|h| h.rate), Some(5e6));
    r.rate = 1e6;
    p.flags = penstock_core::packet::flag::ACK;
    r.on_departure(Time::ZERO, &view(0), &mut p, &mut h);
    assert_eq!(h.get::<RcpHeader>().map(|h| h.rate), Some(5e6));
}

#[test]
fn rates_stay_between_floor_and_capacity() {
    let mut r = Router::<Plain>::new(&settings(false), &LINK);
    for k in 1..400u64 {
        r.on_deadline(Time(k * 10_000_000_000), &view(0));
    }
    assert_eq!(r.rate, 1e8); // an idle link offers everything
    r.on_deadline(Time(400 * 10_000_000_000), &view(1_000_000));
    assert!((r.rate - 0.01 * 8000.0 / 0.1).abs() < 1e-6); // 0.01 packets of 1000 B per 100 ms
}

#[test]
fn slow_senders_send_short_segments_once_per_rtt() {
    let cfg = TcpConfig { mss: 944, ..TcpConfig::default() };
    let mut pacer = Pacer::new(&cfg);
    // 1000 B on the wire per 100 ms is 80 kb/s: at and above it full segments.
    assert_eq!(pacer.control(80_000.0, 0.1).segment, Some(Bytes(944)));
    // Half of it: 500 B per RTT, 444 of payload, still 40 kb/s.
    let half = pacer.control(40_000.0, 0.1);
    assert_eq!((half.segment, half.pacing), (Some(Bytes(444)), Some(Rate(40_000))));
    // Next to nothing: one byte and its headers once per RTT.
    let probe = pacer.control(1.0, 0.1);
    assert_eq!((probe.segment, probe.pacing), (Some(Bytes(1)), Some(Rate(57 * 80))));
}

#[test]
fn very_slow_senders_wait_twice_as_long_each_time() {
    let cfg = TcpConfig { mss: 944, ..TcpConfig::default() };
    let mut pacer = Pacer::new(&cfg);
    // 8 B per 100 ms: headers of 56 B and as much payload take 14 RTTs.
    let mut next = |rate| {
        let control = pacer.control(rate, 0.1);
        pacer.on_send(rate, 0.1);
        (control.segment.map(|b| b.0), control.pacing.map(|r| r.0))
    };
    let rate = 640.0;
    for (wait, payload) in [(1, 1), (2, 1), (4, 1), (8, 8)] {
        assert_eq!(next(rate), (Some(payload), Some((payload + 56) * 80 / wait)));
    }
    assert_eq!(next(rate), (Some(56), Some(640)));
    assert_eq!(next(rate), (Some(56), Some(640)));
    // A round trip's worth of 112 B again: from the beginning.
    assert_eq!(next(112.0 * 80.0), (Some(56), Some(112 * 80)));
    assert_eq!(next(rate), (Some(1), Some(57 * 80)));
    // No rate at all: 64 RTTs at the longest.
    let waits: Vec<_> = (0..10).map(|_| next(0.0)).collect();
    assert_eq!(waits[9], (Some(1), Some(57 * 80 / 64)));
}

#[test]
fn bounds_6_and_35_by_hand() {
    let gain = Gain { eta: 1.0, interval: 0.01, simple: false, lag: 0.0 };
    assert!((gain.bound(0.01) - 2.0).abs() < 1e-12); // D = T
    assert!((gain.bound(0.02) - 1.0).abs() < 1e-12); // 2 sin(pi/6)
    assert!((gain.bound(0.001) - 2.0).abs() < 1e-12); // shorter than one interval
    let lagging = Gain { lag: 1.0, ..gain };
    assert!((lagging.bound(0.01) - 1.0).abs() < 1e-12);
    let simple = Gain { simple: true, ..gain };
    assert!((simple.bound(0.12) - 1.0 / 13.0).abs() < 1e-12);
}

#[test]
fn counted_work_per_packet() {
    // Section III: 2 additions and 2 multiplications. Measured here: y and the RTT sum are 2 additions,
    // RTT x bytes is 1 multiplication; the mean is formed once per interval, not per packet.
    let mut r = Router::<Counted>::new(&settings(false), &LINK);
    for _ in 0..10 {
        let (mut p, mut h) = packet(0, 0.1);
        r.on_arrival(Time::ZERO, &view(0), &mut p, &mut h);
        r.on_departure(Time::ZERO, &view(0), &mut p, &mut h);
    }
    let mut seen = Vec::new();
    r.observe(&mut |what, value| seen.push((what.name, value)));
    assert!(seen.contains(&("additions_per_packet", 2.0)), "{seen:?}");
    assert!(seen.contains(&("multiplications_per_packet", 1.0)), "{seen:?}");
}
