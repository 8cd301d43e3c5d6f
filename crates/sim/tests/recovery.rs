//! Guards: what recovery makes of timeouts and retransmissions, and what limits a sender below a segment.

use penstock_sim::engine::Progress;
use penstock_sim::results::Summary;
use penstock_sim::scenario::Resolved;
use penstock_sim::tables::{table, Values};
use penstock_units::Dur;

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

fn run(scenario: &str, number: u64, settings: &[(&str, &str)]) -> Summary {
    let given: Vec<_> = settings.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let resolved = Resolved::new(scenario, &given, 1, serde_json::Value::Null).expect("a valid scenario");
    resolved.run(number, &Progress::default()).expect("a run").summary
}

/// Four long flows and short ones in a shared buffer, time stamps on: where recoveries follow each other, retransmissions of the one before are still under way. What
/// they bring is no sign that nothing was lost (tcp_init_undo, tcp_retrans_stamp_cleanup). With such signs each reduction was taken back, and the flow sent most of
/// its window twice.
#[test]
fn retransmissions_of_the_recovery_before_undo_nothing() {
    for (protocol, number) in [("linux-cubic:slow_start=standard", 0), ("cubic", 1)] {
        let s = run(
            "mix",
            number,
            &[
                ("protocol", protocol),
                ("long_flows", "4"),
                ("sources", "16"),
                ("sizes", "uniform:2KB:50KB"),
                ("arrivals", "load:0.3"),
                ("link_rate", "25Gbps"),
                ("link_delay", "3us"),
                ("buffer", "shared:alpha=1,size=4MB"),
                ("tcp", "linux"),
                ("segment", "1448B"),
                ("timestamps", "true"),
                ("framing", "ethernet"),
                ("initial_window", "10"),
                ("rto_min", "200ms"),
                ("duration", "60ms"),
                ("warmup", "10ms"),
            ],
        );
        assert!(s["retransmits"] < 0.02 * s["packets_sent"], "{protocol}: {s:?}");
        assert!(s["goodput_bps"] > 20e9, "{protocol}: {s:?}");
    }
}

/// A receive buffer of less than a segment is all that may be out: 500 bytes in 10 ms. A window of 2,000 bytes is one segment of 1,460 by the RFCs, and two of 1,000 in
/// Linux, which sends half of the largest window at once (tcp_bound_to_half_wnd).
#[test]
fn a_receive_buffer_below_a_segment_limits_what_is_out() {
    for (protocol, rwnd, most) in [
        ("newreno", "500B", 500.0),
        ("sack", "500B", 500.0),
        ("cubic", "1000B", 1000.0),
        ("linux-cubic", "500B", 500.0),
        ("bbr", "1000B", 1000.0),
        ("sack", "2000B", 1460.0),
        ("linux-reno", "2000B", 2000.0),
    ] {
        let s = run(
            "long-flows",
            0,
            &[
                ("protocol", protocol),
                ("rwnd", rwnd),
                ("flows", "1"),
                ("link_rate", "1Gbps"),
                ("rtt", "10ms"),
                ("buffer", "100pkt"),
                ("delayed_ack", "1"),
                ("warmup", "1s"),
                ("duration", "3s"),
            ],
        );
        let out = s["goodput_bps"] / 8.0 * 0.010;
        assert!(out <= most && out > 0.9 * most, "{protocol}, rwnd = {rwnd}: {out} bytes in a round trip");
    }
}

/// Tail-loss probes are in the summary and in the table of flows, as the senders count them.
#[test]
fn tail_loss_probes_are_counted() {
    let lossy = [
        ("protocol", "linux-cubic"),
        ("servers", "8"),
        ("blocks", "20"),
        ("sru", "20KB"),
        ("buffer", "12pkt"),
        ("duration", "5s"),
    ];
    let given: Vec<_> = lossy.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let resolved = Resolved::new("incast", &given, 1, serde_json::Value::Null).expect("a valid scenario");
    let outcome = resolved.run(0, &Progress::default()).expect("a run");
    let flows = table(&outcome.engine.measured(), "flows");
    let (_, probes) = flows.columns.iter().find(|(column, _)| column.name == "tail_loss_probes").unwrap();
    let Values::U32(probes) = probes else { panic!("a column of whole numbers") };
    let sum: u32 = probes.iter().sum();
    assert!(sum > 0);
    assert_eq!(outcome.summary["tail_loss_probes"], f64::from(sum));
    // Each has a row in the table of events: its flow, and how long the last segment was out.
    let mut rows = vec![0; probes.len()];
    for event in outcome.engine.recorder.events.iter().filter(|e| e.what.name() == "tail-loss probe") {
        rows[event.flow as usize] += 1;
        assert!(event.length > Dur::ZERO && event.outstanding > 0 && event.in_a_row == 0, "{event:?}");
    }
    assert_eq!(rows, *probes);
    let none = run("long-flows", 0, &[("protocol", "newreno"), ("duration", "50ms"), ("warmup", "10ms")]);
    assert!(!none.contains_key("tail_loss_probes"));
}
