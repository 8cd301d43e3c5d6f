//! Tests of SDC, by the numbers of its equations.

use super::*;
use alloc::string::ToString;
use penstock_core::Limit;
use penstock_units::Rate;

fn params(given: &[(&str, &str)]) -> Result<Params, ParamError> {
    let given: Vec<_> = given.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    Params::parse("protocol sdc", SDC.params, &given)
}
fn sender(given: &[(&str, &str)]) -> Sender {
    let p = params(given).unwrap();
    let cfg = TcpConfig { mss: 1000, ..TcpConfig::default() };
    Sender::new(rules(&p).unwrap().into(), None, 2, &cfg)
}
fn view(size: u64, una: u64) -> FlowView {
    FlowView {
        una,
        nxt: una,
        max_sent: una,
        app_end: size,
        in_flight: 0,
        rwnd: 1 << 30,
        segment: 1000,
        mss: 1000,
        rtt_latest: Dur::micros(300),
        rtt_smoothed: Dur::micros(300),
        rtt_min: Dur::micros(300),
        limit: Limit::Window,
        in_recovery: false,
        started: Time::ZERO,
        flow: 0,
        size,
        due: Time::NEVER,
    }
}
fn us(n: u64) -> Time {
    Time::ZERO + Dur::micros(n)
}
fn ack(s: &mut Sender, now: Time, flow: &FlowView, highest: u8, load: f64) {
    let mut header = CcHeader::NONE;
    header.set(&SdcHeader { class: 0, highest, load: (load * 1024.0) as u16 });
    s.on_ack(&AckRecord::plain(now, 1000, &header), flow);
}

#[test]
fn a_flow_climbs_as_it_shrinks() {
    let s = sender(&[]);
    // Segments of 1000 B, limits at 50 and 100 of them; the limit itself belongs to the higher class.
    let class = |left: u64| s.class_of(&view(1_000_000, 1_000_000 - left));
    assert_eq!([class(100_001), class(100_000), class(50_001), class(50_000), class(1)], [2, 1, 1, 0, 0]);
    assert_eq!(
        s.class_of(&FlowView { size: 0, app_end: 40_000, ..view(0, 0) }),
        0,
        "size unknown: what is written"
    );
}
#[test]
fn the_highest_active_class_behaves_as_class_a() {
    let mut s = sender(&[]);
    for (class, highest, acts_as) in [(2, 0, 2), (2, 1, 2), (1, 1, 0), (1, 0, 1), (2, 2, 0), (0, 0, 0)] {
        s.class = class;
        s.highest = highest;
        let expected = s.rules[acts_as].beta;
        assert_eq!(s.rule().beta, expected, "class {class} when {highest} is the highest");
    }
}
#[test]
fn equation_3_1_then_3_2_then_3_3() {
    let mut s = sender(&[("gamma", "1/0.5/0.25"), ("alpha", "0.8/0.6/0.4"), ("beta", "0.9/0.7/0.5")]);
    let flow = view(10_000, 0);
    // Two segments acknowledged in the opening phase, gamma 1: 2 -> 4 segments.
    ack(&mut s, us(300), &flow, 0, 0.5);
    ack(&mut s, us(300), &flow, 0, 0.5);
    assert_eq!(s.cwnd, 4000.0);
    // Overload: 4 * 0.9 = 3.6, once although it is reported again.
    ack(&mut s, us(400), &flow, 0, 1.0);
    ack(&mut s, us(999), &flow, 0, 1.2);
    assert_eq!(s.cwnd, 3600.0);
    // No more multiplicative increase: 3.6 + 0.8 / 3.6.
    ack(&mut s, us(1000), &flow, 0, 0.99);
    assert!((s.cwnd - (3600.0 + 800.0 / 3.6)).abs() < 1e-9);
    // One round trip and one interval after the decrease, overload counts again.
    let before = s.cwnd;
    ack(&mut s, us(1000), &flow, 0, 1.0);
    assert_eq!(s.cwnd, before * 0.9);
}
#[test]
fn a_timeout_opens_the_window_anew_and_no_window_is_below_a_segment() {
    let mut s = sender(&[]);
    let flow = view(10_000, 0);
    s.on_congestion(us(1), &flow, Congestion::Timeout { in_a_row: 1, kept: 0 });
    assert_eq!((s.cwnd, s.opening), (1000.0, true));
    ack(&mut s, us(2), &flow, 0, 1.5);
    assert_eq!((s.cwnd, s.opening), (1000.0, false));
}

fn router(quantised: bool) -> Router {
    let facts =
        LinkFacts { port: 0, capacity: Rate(8_000_000), base_rtt: Dur::millis(1), packet: 500, framing: 0 };
    // 1 MB/s, so C t_p = 1000 B.
    Router::new(&facts, 3, Dur::millis(1), Dur::millis(10), quantised)
}
fn pass(r: &mut Router, now: Time, arrived: u64, queue: u64, packet: Packet, class: u8) -> SdcHeader {
    let idle = LinkView::idle(Rate(8_000_000));
    let link = LinkView { queue_bytes: queue, arrived_bytes: arrived, ..idle };
    let (mut p, mut h) = (packet, CcHeader::NONE);
    h.set(&SdcHeader { class, highest: SdcHeader::UNANSWERED, load: 0 });
    r.on_arrival(now, &link, &mut p, &mut h);
    h.get().unwrap()
}
fn data(flow: u32) -> Packet {
    Packet { flow, wire_len: 500, ..Packet::default() }
}

#[test]
fn equation_3_4_by_hand() {
    let mut r = router(false);
    // Two packets of 500 B together at t = 0: lambda = 1000 B. The queue falls from 1000 B to 0 in 1 ms,
    // 500 B on average: f = 1500 / 1000.
    pass(&mut r, us(0), 0, 0, data(1), 0);
    pass(&mut r, us(0), 500, 500, data(2), 0);
    let h = pass(&mut r, us(1000), 1000, 0, data(1), 0);
    assert_eq!(h.load, 1536);
    // One packet in that interval, at its start: 500 B, and a queue that falls from 500 B in half of it.
    let h = pass(&mut r, us(2000), 1500, 0, data(1), 0);
    assert_eq!(h.load, ((500.0 + 125.0) / 1000.0 * 1024.0) as u16);
    // A long silence: the load of an empty interval is 0, on the same grid.
    let h = pass(&mut r, us(50_500), 2000, 0, data(1), 0);
    assert_eq!((h.load, r.ends), (0, us(51_000)));
}
#[test]
fn dropped_packets_are_load_but_not_queue() {
    let mut r = router(false);
    pass(&mut r, us(0), 0, 0, data(1), 0);
    pass(&mut r, us(0), 500, 500, data(2), 0);
    r.on_drop(us(0), &LinkView::idle(Rate(8_000_000)), &data(2), &CcHeader::NONE);
    let h = pass(&mut r, us(1000), 1000, 0, data(1), 0);
    assert_eq!(h.load, ((1000.0 + 125.0) / 1000.0 * 1024.0) as u16);
}
#[test]
fn two_bits_keep_what_a_sender_asks() {
    let mut r = router(true);
    for (load, code) in [(0.5, 0), (0.8, 819), (0.999, 819), (1.0, 1024), (3.0, 1024)] {
        r.load = load;
        assert_eq!(r.encoded_load(), code, "{load}");
    }
}
#[test]
fn classes_survive_lost_and_repeated_syn_and_fin() {
    let mut r = router(false);
    let syn = |flow| Packet { flags: flag::SYN, ..data(flow) };
    let fin = |flow| Packet { flags: flag::FIN, ..data(flow) };
    assert_eq!(pass(&mut r, us(0), 0, 0, syn(1), 2).highest, 2);
    pass(&mut r, us(1), 0, 0, syn(1), 2);
    // The SYN of flow 2 was lost upstream; its data is heard. It is promoted later.
    assert_eq!(pass(&mut r, us(2), 0, 0, data(2), 1).highest, 1);
    assert_eq!(pass(&mut r, us(3), 0, 0, data(2), 0).highest, 0);
    assert_eq!(r.counts, [1, 0, 1]);
    assert_eq!(pass(&mut r, us(4), 0, 0, fin(2), 0).highest, 2, "class A is gone with its last flow");
    pass(&mut r, us(5), 0, 0, fin(2), 0);
    assert_eq!(r.counts, [0, 0, 1]);
    // Flow 1 goes away without FIN: silence ends it.
    assert_eq!(pass(&mut r, us(25_000), 0, 0, data(3), 1).highest, 1);
    assert_eq!(r.counts, [0, 1, 0]);
}
#[test]
fn bad_parameters_name_key_value_and_rule() {
    let message = |k, v| params(&[(k, v)]).and_then(|p| rules(&p)).unwrap_err().to_string();
    assert_eq!(message("beta", "1.5/0.5/0.5"), "beta = \"1.5/0.5/0.5\": must be below 1");
    assert_eq!(
        message("alpha", "0.5/0.9/0.5"),
        "alpha = \"0.5/0.9/0.5\": must be above 0 and not rise from one class to the next"
    );
    assert_eq!(message("gamma", "1/1"), "gamma = \"1/1\": must have one number per class; alpha has 3");
    assert_eq!(message("sizes", "50pkt"), "sizes = \"50pkt\": 3 classes need 2 sizes");
    assert_eq!(message("gamma", "1/x/1"), "gamma = \"1/x/1\": must be numbers separated by /, class A first");
}
#[test]
fn any_number_of_classes() {
    let p = params(&[("alpha", "1"), ("beta", "0.5"), ("gamma", "1"), ("sizes", "/")]).unwrap();
    assert_eq!(rules(&p).unwrap().len(), 1);
    let p = params(&[
        ("alpha", "1/1/1/1"),
        ("beta", "0.9/0.8/0.7/0.6"),
        ("gamma", "1/1/1/1"),
        ("sizes", "10KB/100KB/1MB"),
    ]);
    assert_eq!(rules(&p.unwrap()).unwrap().len(), 4);
}
#[test]
fn a_live_flow_over_a_long_path_is_not_forgotten() {
    let suite = build(&params(&[]).unwrap()).unwrap();
    let facts =
        LinkFacts { port: 0, capacity: Rate(8_000_000), base_rtt: Dur::millis(100), packet: 500, framing: 0 };
    let mut r = suite.router.unwrap()(&facts);
    // One packet per round trip of 100 ms.
    for k in 0..20 {
        let (mut p, mut h) = (data(1), CcHeader::NONE);
        h.set(&SdcHeader { class: 0, highest: SdcHeader::UNANSWERED, load: 0 });
        r.on_arrival(us(k * 100_000), &LinkView::idle(facts.capacity), &mut p, &mut h);
        let (mut p, mut h) = (data(2), CcHeader::NONE);
        h.set(&SdcHeader { class: 2, highest: SdcHeader::UNANSWERED, load: 0 });
        r.on_arrival(us(k * 100_000 + 99_000), &LinkView::idle(facts.capacity), &mut p, &mut h);
        assert_eq!(h.get::<SdcHeader>().unwrap().highest, 0, "flow 1 is of class A, and alive");
    }
}
#[test]
fn more_classes_than_a_header_can_name_are_refused() {
    let classes = |n: usize| {
        let ones = alloc::vec!["1"; n].join("/");
        let halves = alloc::vec!["0.5"; n].join("/");
        let sizes: Vec<_> = (1..n).map(|s| alloc::format!("{s}B")).collect();
        let sizes = sizes.join("/");
        let given = [("alpha", &*ones), ("gamma", &*ones), ("beta", &*halves), ("sizes", &*sizes)];
        params(&given).and_then(|p| rules(&p))
    };
    assert_eq!(classes(255).unwrap().len(), 255);
    let message = classes(256).unwrap_err().to_string();
    assert!(message.ends_with("must not have more than 255 classes, what a header has room for; has 256"));
    // The last of 255 classes is told apart from "no router has answered".
    let mut r = Router::new(
        &LinkFacts { port: 0, capacity: Rate(8_000_000), base_rtt: Dur::millis(1), packet: 500, framing: 0 },
        255,
        Dur::millis(1),
        Dur::millis(10),
        false,
    );
    assert_eq!(pass(&mut r, us(0), 0, 0, data(1), 254).highest, 254);
}
