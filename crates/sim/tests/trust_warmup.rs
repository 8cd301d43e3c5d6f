//! Statistics cover the measured window and nothing else; means cover the flows that are open.

use penstock_sim::document;
use penstock_sim::engine::Progress;
use penstock_sim::metrics::Entity;
use penstock_sim::scenario::{Outcome, Resolved};
use serde_json::{json, Value};

fn resolved(toml: &str, set: Value) -> Resolved {
    document::resolve(&json!({"toml": toml, "set": set}).to_string()).unwrap_or_else(|e| panic!("{e}"))
}
fn run(toml: &str, set: Value) -> Outcome {
    resolved(toml, set).run(0, &Progress::default()).unwrap()
}
fn scenario(name: &str, set: &[(&str, &str)]) -> Outcome {
    let set: Vec<_> = set.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    Resolved::new(name, &set, 1, Value::Null).unwrap().run(0, &Progress::default()).unwrap()
}

const ONE: &str = r#"
scenario = "custom"
hosts = ["a", "b"]
switches = ["s"]
[[link]]
between = ["a", "s"]
rate = "1Gbps"
delay = "10us"
[[link]]
between = ["s", "b"]
rate = "10Mbps"
delay = "10us"
[[workload]]
kind = "flows"
from = "a"
to = "b"
size = "500KB"
"#;

#[test]
fn a_flow_that_ended_before_the_warm_up_counts_nowhere() {
    let o = run(ONE, json!({"duration": "1s", "warmup": "900ms"}));
    let r = &o.engine.recorder;
    assert_eq!(r.flows.len(), 1, "it has a row");
    let f = &r.flows[0];
    assert!(f.complete && (0.40..0.50).contains(&f.fct().unwrap()), "{f:?}");
    assert_eq!((f.acked_bytes, f.delivered_bytes, f.data_packets), (0, 0, 0));
    for key in ["goodput_bps", "packets_sent", "utilisation", "flows", "flows_opened", "flows_completed"] {
        assert_eq!(o.summary[key], 0.0, "{key}");
    }
    assert!(!o.summary.contains_key("jain"), "there is nobody to be fair to");
    // The same flow inside the window.
    let o = run(ONE, json!({"duration": "1s"}));
    assert_eq!(o.summary["goodput_bps"], 4e6);
    assert_eq!(
        (o.summary["flows"], o.summary["flows_opened"], o.summary["flows_completed"]),
        (1.0, 1.0, 1.0)
    );
    // Across the end of the warm-up: about half of it, and not opened in the window.
    let o = run(ONE, json!({"duration": "1s", "warmup": "200ms"}));
    assert!((2.0e6..3.0e6).contains(&(o.summary["goodput_bps"] * 0.8)), "{}", o.summary["goodput_bps"]);
    assert_eq!(
        (o.summary["flows"], o.summary["flows_opened"], o.summary["flows_completed"]),
        (1.0, 0.0, 1.0)
    );
    assert_eq!(o.engine.recorder.flows[0].acked_bytes as f64 * 8.0 / 0.8, o.summary["goodput_bps"]);
}

/// 300 short flows, one after the other, then a long one under DCTCP.
const SHORT_THEN_LONG: &str = r#"
scenario = "custom"
protocol = "dctcp"
queue = "threshold:k=20pkt"
sample = "100us"
duration = "400ms"
warmup = "100ms"
ect_syn = true
hosts = ["a", "b", "c"]
switches = ["s"]
[[link]]
between = [["a", "b"], "s"]
rate = "1Gbps"
delay = "20us"
[[workload]]
kind = "closed"
from = "a"
to = "b"
sizes = "fixed:2KB"
count = 300
[[workload]]
kind = "flows"
from = "c"
to = "b"
start = "80ms"
count = 2
"#;

#[test]
fn means_of_controllers_cover_the_flows_that_are_open_and_not_the_first_ever() {
    let links = r#"
[[link]]
between = ["c", "s"]
rate = "10Gbps"
delay = "20us"
"#;
    let text =
        SHORT_THEN_LONG.replace(r#"between = [["a", "b"], "s"]"#, "between = [\"a\", \"s\"]").replacen(
            "[[workload]]",
            &format!(
                "{links}[[link]]\nbetween = [\"b\", \"s\"]\nrate = \"1Gbps\"\ndelay = \"20us\"\n[[workload]]"
            ),
            1,
        );
    let after = run(&text, json!({}));
    let alone = run(&text.replace("count = 300", "count = 1"), json!({}));
    assert_eq!(after.engine.recorder.flows.len(), 302);
    for key in ["alpha_mean", "cwnd_mean_bytes"] {
        let (x, y) = (after.summary[key], alone.summary[key]);
        assert!((x / y - 1.0).abs() < 0.05, "{key}: {x} behind 300 flows, {y} without them");
    }
    assert!(after.summary["alpha_mean"] < 0.9 && after.summary["cwnd_mean_bytes"] > 15_000.0);
    // A place in the series table is free again when its flow is over.
    let kept = run(&text, json!({"series": true, "series_flows": 2}));
    let numbers: std::collections::BTreeSet<u32> =
        kept.engine.recorder.series.iter().filter(|x| x.entity == Entity::Flow).map(|x| x.number).collect();
    assert!(numbers.contains(&300) && numbers.contains(&301), "{numbers:?}");
    assert_eq!(kept.summary["alpha_mean"], after.summary["alpha_mean"], "what is kept changes no mean");
}

const TWO: &str = r#"
scenario = "custom"
duration = "10ms"
hosts = ["a", "b"]
[[link]]
between = ["a", "b"]
rate = "1Gbps"
delay = "10us"
[[workload]]
kind = "flows"
from = "a"
to = "b"
size = "10KB"
[[workload]]
kind = "flows"
from = "a"
to = "b"
size = "20KB"
"#;

#[test]
fn reversed_ties_turn_simultaneous_workloads_round() {
    let order = |ties| -> Vec<u32> {
        run(TWO, json!({"ties": ties})).engine.recorder.flows.iter().map(|f| f.workload).collect()
    };
    assert_eq!((order("forward"), order("reversed")), (vec![0, 1], vec![1, 0]));
}

#[test]
fn a_link_slower_than_a_packet_in_seconds_works() {
    let o = scenario(
        "long-flows",
        &[("link_rate", "1kbps"), ("rtt", "1s"), ("duration", "300s"), ("flows", "1")],
    );
    assert!(o.summary["packets_sent"] >= 10.0);
    // In a network of many ports the clock of events is coarser: then the key is named.
    let set = [
        ("topology", "leaf-spine:1x1x131072"),
        ("link_rate", "1kbps"),
        ("mtu", "60000B"),
        ("rto_min", "1s"),
        ("rto_initial", "1s"),
    ];
    let set: Vec<_> = set.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let error = match Resolved::new("permutation", &set, 1, Value::Null) {
        Ok(_) => panic!("a packet of 480 s cannot be timed"),
        Err(e) => e,
    };
    assert_eq!((error.key.as_str(), error.value.as_str()), ("link_rate", "1kbps"));
    assert!(error.rule.contains("a packet takes 482"), "{error}");
}

/// Two links in series; the second is slower.
const PATH: &str = r#"
scenario = "custom"
duration = "2s"
send_jitter = "0s"
initial_window = 10000
hosts = ["a", "b"]
switches = ["s"]
[[link]]
between = ["a", "s"]
rate = "1Gbps"
delay = "10us"
[[link]]
between = ["s", "b"]
rate = "500Mbps"
delay = "20us"
buffer = "100000pkt"
[[workload]]
kind = "flows"
from = "a"
to = "b"
size = "SIZE"
"#;

#[test]
fn a_flow_alone_with_a_large_window_has_a_slowdown_of_one() {
    // Handshake: 40 B there and back; then segments of 1500 B; then an ACK.
    let small = 40.0 * 8.0 / 1e9 + 40.0 * 8.0 / 500e6;
    let by_hand = |packets: f64, last: f64| {
        let full = 1500.0 * 8.0 / 1e9;
        let data = if packets == 0.0 {
            last * 8.0 / 1e9 + last * 8.0 / 500e6
        } else {
            full + packets * 2.0 * full + last * 8.0 / 500e6
        };
        60e-6 + 2.0 * small + data + 60e-6 + small
    };
    for (size, packets, last) in [("1000B", 0.0, 1040.0), ("14000B", 9.0, 900.0), ("10MB", 6849.0, 500.0)] {
        let o = run(&PATH.replace("SIZE", size), json!({}));
        let r = &o.engine.recorder;
        let (f, t) = (&r.flows[0], &r.transfers[0]);
        let hand = by_hand(packets, last);
        assert!((f.ideal / hand - 1.0).abs() < 1e-9, "{size}: {} is not {hand}", f.ideal);
        assert!((f.slowdown() - 1.0).abs() < 1e-6, "{size}: {}", f.slowdown());
        assert!((t.fct() / t.ideal - 1.0).abs() < 1e-6 && t.ideal == f.ideal, "{size}: {t:?}");
        for key in ["slowdown_p50", "slowdown_p99"] {
            assert!((o.summary[key] - 1.0).abs() < 1e-6, "{key} {}", o.summary[key]);
        }
    }
}

#[test]
fn a_flow_that_is_open_at_the_end_is_not_complete() {
    let o = run(&PATH.replace("SIZE", "200MB"), json!({"duration": "1s"}));
    let f = &o.engine.recorder.flows[0];
    assert!(f.open_at_end && !f.complete && f.fct().is_none() && f.slowdown().is_nan());
    assert_eq!((o.summary["flows"], o.summary["flows_completed"], o.summary["transfers"]), (1.0, 0.0, 0.0));
    // A run that its last transfer ends: that flow is complete, and both tables agree on its time.
    let text = PATH
        .replace("kind = \"flows\"", "kind = \"query\"")
        .replace("size = \"SIZE\"", "response = \"10KB\"\nrepetitions = 3");
    let o = run(&text, json!({}));
    let r = &o.engine.recorder;
    assert!(o.engine.now().as_secs() < 1.0 && o.summary["transfers"] == 3.0);
    assert_eq!(o.summary["flows_completed"], 3.0);
    for (f, t) in r.flows.iter().zip(&r.transfers) {
        assert_eq!(f.fct(), Some(t.fct()), "{f:?}");
    }
}
