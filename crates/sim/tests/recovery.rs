//! Guards: a timeout inside fast recovery halves what is in the network, not what duplicate ACKs have inflated.

use penstock_sim::engine::Progress;
use penstock_sim::results::Summary;
use penstock_sim::scenario::Resolved;

fn one_flow(ssthresh_from: &str) -> Summary {
    let settings = [
        ("protocol", "newreno"),
        ("flows", "1"),
        ("link_rate", "100Mbps"),
        ("access_rate", "1Gbps"),
        ("rtt", "100ms"),
        ("buffer", "417pkt"),
        ("rto_min", "200ms"),
        ("warmup", "10s"),
        ("duration", "110s"),
        ("ssthresh_from", ssthresh_from),
    ];
    let given: Vec<_> = settings.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let resolved = Resolved::new("long-flows", &given, 1, serde_json::Value::Null).expect("a valid scenario");
    resolved.run(0, &Progress::default()).expect("a run").summary
}

#[test]
fn newreno_does_not_livelock_in_a_buffer_of_half_its_window() {
    // Before: a timeout every two seconds for ever, utilisation 0.31.
    let (flight, cwnd) = (one_flow("flight"), one_flow("cwnd"));
    assert!(flight["timeouts"] <= 2.0, "{}", flight["timeouts"]);
    let ratio = flight["utilisation"] / cwnd["utilisation"];
    assert!(flight["utilisation"] > 0.7 && (ratio - 1.0).abs() < 0.02, "{flight:?}\n{cwnd:?}");
}
