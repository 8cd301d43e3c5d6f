//! Routers' controllers count what the link carries: framing is part of it.

use penstock_sim::engine::Progress;
use penstock_sim::scenario::Resolved;
use serde_json::Value;

/// RACS gives out the whole link by default, and what its start left in the queue would stay there. PIQI-RCP's senders follow quickly
/// here: with the default pair what their start left is there until long after the warm-up.
const PROTOCOLS: [&str; 8] = [
    "rcp",
    "rcp:mean=flows",
    "qi-rcp",
    "piqi-rcp:tau1=0.05,tau2=0.88",
    "xcp",
    "sdc",
    "racs:target=0.95",
    "d3",
];

/// Mean queue in packets and utilisation of ten flows on one link, over five seeds.
fn ten_flows(protocol: &str, framing: &str, header: &str) -> (f64, f64) {
    let runs: Vec<_> = (1..=5).map(|seed| run(protocol, framing, header, seed)).collect();
    let mean = |f: fn(&(f64, f64)) -> f64| runs.iter().map(f).sum::<f64>() / runs.len() as f64;
    (mean(|r| r.0), mean(|r| r.1))
}

fn run(protocol: &str, framing: &str, header: &str, seed: u64) -> (f64, f64) {
    let given = [
        ("protocol", protocol),
        ("framing", framing),
        ("header", header),
        ("flows", "10"),
        ("rtt", "1ms"),
        ("buffer", "10000pkt"),
        ("send_jitter", "12us"),
        ("duration", "500ms"),
        ("warmup", "250ms"),
    ];
    let given: Vec<_> = given.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let resolved = Resolved::new("long-flows", &given, seed, Value::Null).expect("the scenario is right");
    let outcome = resolved.run(0, &Progress::default()).expect("it runs");
    let value = |key: &str| *outcome.summary.get(key).unwrap_or_else(|| panic!("no {key}"));
    (value("queue_mean_packets"), value("utilisation"))
}

/// 38 B of framing per packet and 38 B more of header are the same packets on the link: a router that counts what its
/// link carries cannot tell one from the other.
#[test]
fn framing_is_to_a_router_what_a_longer_header_is() {
    for protocol in PROTOCOLS {
        let (framed, headed) = (ten_flows(protocol, "ethernet", "40B"), ten_flows(protocol, "none", "78B"));
        println!("{protocol}: {framed:?} {headed:?}");
        let close = |a: f64, b: f64, share: f64| (a - b).abs() <= share * b;
        // Rounding of rates shifts the phase of paced senders, and with it a queue of two packets by half a packet; a
        // router that did not count framing would have four times the queue.
        assert!((framed.0 - headed.0).abs() < 0.5, "{protocol}: mean queue {} and {}", framed.0, headed.0);
        assert!(close(framed.1, headed.1, 0.001), "{protocol}: utilisation {} and {}", framed.1, headed.1);
    }
}

#[test]
fn framing_does_not_fill_the_queue_of_an_explicit_protocol() {
    for protocol in PROTOCOLS {
        let (framed, plain) = (ten_flows(protocol, "ethernet", "40B"), ten_flows(protocol, "none", "40B"));
        println!("{protocol}: {framed:?} {plain:?}");
        assert!(framed.0 <= plain.0 * 1.5 + 0.5, "{protocol}: mean queue {} and {}", framed.0, plain.0);
        assert!((framed.1 - plain.1).abs() < 0.01, "{protocol}: utilisation {} and {}", framed.1, plain.1);
    }
}
