//! When a client asks again: `requests=travel` asks when the client has its data and takes the idle delay of the path,
//! `requests=instant` when the servers have their last acknowledgements.

use penstock_core::tcp::TimeoutKind;
use penstock_sim::document::resolve;
use penstock_sim::engine::Progress;
use penstock_sim::metrics::{Event, What};
use penstock_sim::scenario::Outcome;
use serde_json::{json, Map, Value};

fn run(scenario: &str, set: &[(&str, &str)]) -> Outcome {
    let set: Map<String, Value> = set.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect();
    let text = json!({ "scenario": scenario, "set": set, "seed": 1 }).to_string();
    resolve(&text).unwrap().run(0, &Progress::default()).unwrap()
}
fn file(text: &str) -> Outcome {
    let document = json!({ "toml": text, "base_dir": ".", "seed": 1 }).to_string();
    resolve(&document).unwrap().run(0, &Progress::default()).unwrap()
}
/// Ends and lengths of the blocks, in seconds.
fn blocks(outcome: &Outcome) -> Vec<(f64, f64)> {
    let events = outcome.engine.recorder.events.iter();
    let of = |x: &Event| (x.at.as_secs(), x.length.as_secs());
    events.filter(|x| x.what == What::Block).map(of).collect()
}

/// Receivers that delay the last ACK of an odd number of segments by 40 ms, on the sender by the RFCs.
const DELAYED: [(&str, &str); 9] = [
    ("link_rate", "25Gbps"),
    ("link_delay", "3us"),
    ("buffer", "20MB"),
    ("segment", "1448B"),
    ("initial_window", "10"),
    ("delayed_ack", "2"),
    ("quick_acks", "0"),
    ("servers", "4"),
    ("jitter", "0s"),
];
/// 177 segments of 1,448 B.
const ODD: &str = "256296B";

#[test]
fn an_odd_number_of_segments_does_not_wait_for_a_delayed_ack() {
    let of = |requests: &str| {
        let more = [("sru", ODD), ("blocks", "20"), ("duration", "2s"), ("requests", requests)];
        run("incast", &[&DELAYED[..], &more].concat())
    };
    let (travel, instant) = (of("travel"), of("instant"));
    assert!(blocks(&travel).iter().all(|b| b.1 < 2e-3), "{:?}", blocks(&travel));
    assert!(blocks(&instant).iter().all(|b| b.1 > 39e-3), "{:?}", blocks(&instant));
    // What is measured ends with the last block, not with the delayed ACKs behind it.
    assert!(travel.summary["goodput_bps"] > 0.8 * 25e9, "{:?}", travel.summary);
    assert!(travel.summary["measured_s"] < 30e-3 && travel.summary["flows"] == 4.0, "{:?}", travel.summary);
}

#[test]
fn waiting_for_delayed_acks_is_told_with_its_share_and_its_remedy() {
    let told = |set: &[(&str, &str)]| {
        let more = [("sru", ODD), ("blocks", "20"), ("duration", "2s"), ("requests", "instant")];
        let found = run("incast", &[&DELAYED[..], &more, set].concat()).warnings;
        found.into_iter().find(|line| line.contains("delayed ACKs"))
    };
    let line = told(&[]).expect("it is told");
    assert!(
        line.contains("(9") && line.contains("delayed_ack=1") && line.contains("requests=travel"),
        "{line}"
    );
    assert_eq!(told(&[("requests", "travel")]), None);
    assert_eq!(told(&[("delayed_ack", "1")]), None);
    // 176 segments.
    assert_eq!(told(&[("sru", "254848B")]), None);
    // Timeouts of 200 ms in which delayed ACKs leave, too, are no waiting for these.
    let lost = [("buffer", "16pkt"), ("servers", "32"), ("requests", "travel")];
    assert_eq!(told(&lost), None);
}

/// One block after the other: data there, request back. The idle delay of the request is two links of 100 us and a header of 40 B
/// on each, at 1 Gb/s.
#[test]
fn a_request_takes_the_idle_delay_of_the_path() {
    let request = 2.0 * (100e-6 + 40.0 * 8.0 / 1e9);
    // Two links, a segment on each; the second block needs no handshake.
    let data = 2.0 * (100e-6 + 1040.0 * 8.0 / 1e9);
    let common = [
        ("servers", "1"),
        ("link_rate", "1Gbps"),
        ("link_delay", "100us"),
        ("jitter", "0s"),
        ("send_jitter", "0s"),
        ("buffer", "1MB"),
    ];
    let reads = [("sru", "1000B"), ("blocks", "3")];
    let queries = |connections| {
        [("response", "1000B"), ("repetitions", "3"), ("segment", "1000B"), ("connections", connections)]
    };
    let handshake = 2.0 * request;
    for (found, fresh) in [
        (run("incast", &[&common[..], &reads].concat()), false),
        (run("query", &[&common[..], &queries("persistent")].concat()), false),
        (run("query", &[&common[..], &queries("fresh")].concat()), true),
    ] {
        let times = blocks(&found);
        assert_eq!(times.len(), 3);
        for (i, (_, took)) in times.iter().enumerate() {
            let opens = if fresh || i == 0 { handshake } else { 0.0 };
            assert!((took - (request + opens + data)).abs() < 1e-9, "block {i}: {took}");
        }
        // The next is asked for when this one is there.
        assert!((times[2].0 - times.iter().map(|t| t.1).sum::<f64>()).abs() < 1e-9, "{times:?}");
        let s = &found.summary;
        assert_eq!(
            (s["blocks"], s["transfers"], s["flows_completed"]),
            (3.0, 3.0, if fresh { 3.0 } else { 0.0 })
        );
    }
}

/// The other closed loops. On persistent connections the last of nine segments waits for a delayed ACK; a flow that closes has
/// its last segment acknowledged at once, so that word of it comes when the acknowledgement does. Between two repetitions of an all-to-all
/// the hosts report to a root and are told to begin: two words of 2.06 us, where an acknowledgement takes one. The root begins before the
/// others, so some flows meet at their receivers, which costs less than one flow of 15 us.
#[test]
fn no_closed_loop_waits_for_delayed_acks() {
    let network = "scenario = \"custom\"\nduration = \"400ms\"\nhosts = [\"h[0-3]\"]\nswitches = [\"s\"]\ndelayed_ack = 2\n\
                   [[link]]\nbetween = [\"h[0-3]\", \"s\"]\nrate = \"10Gbps\"\ndelay = \"1us\"\nbuffer = \"10MB\"\n[[workload]]\n";
    let query =
        "kind = \"query\"\nfrom = \"h[0-2]\"\nto = \"h3\"\nresponse = \"13140B\"\nrepetitions = 1000000\n";
    for (workload, waits, barrier) in [
        ("kind = \"reads\"\nfrom = \"h[0-2]\"\nto = \"h3\"\nsru = \"13140B\"\n".to_owned(), true, false),
        (format!("{query}connections = \"persistent\"\n"), true, false),
        (query.to_owned(), false, false),
        (
            "kind = \"closed\"\nfrom = \"h[0-2]\"\nto = \"h3\"\nsizes = \"fixed:13140\"\n".to_owned(),
            false,
            false,
        ),
        ("kind = \"all-to-all\"\nsize = \"13140B\"\nrepetitions = 1000000\n".to_owned(), false, true),
    ] {
        let goodput = |requests: &str| {
            file(&format!("requests = \"{requests}\"\n{network}{workload}")).summary["goodput_bps"]
        };
        let (travel, instant) = (goodput("travel"), goodput("instant"));
        assert!(travel > 5e9, "{workload}: {travel}");
        assert!(
            if waits {
                instant < 1e8
            } else {
                let repetition = |goodput: f64| 12.0 * 13140.0 * 8.0 / goodput;
                let later = repetition(travel) - repetition(instant);
                if barrier {
                    later > 2.06e-6 && later < 2.06e-6 + 15e-6
                } else {
                    (travel / instant - 1.0).abs() < 0.01
                }
            },
            "{workload}: {travel}, {instant}"
        );
    }
}

#[test]
fn a_scenario_without_a_closed_loop_says_that_requests_have_no_effect() {
    let set = json!({ "requests": "instant", "duration": "1ms", "warmup": "0s" });
    let r = resolve(&json!({ "scenario": "long-flows", "set": set, "seed": 1 }).to_string()).unwrap();
    assert_eq!(r.without_effect, ["requests"]);
}

fn about(outcome: &Outcome, what: &str) -> Option<String> {
    outcome.warnings.iter().find(|line| line.contains(what)).cloned()
}

/// Linux sends a probe for a lone last segment after 200 ms and counts no timeout: the summary alone does not show where the time goes.
#[test]
fn waiting_for_tail_loss_probes_is_told() {
    let query = [("profile", "25g"), ("repetitions", "50")];
    let fresh = run("query", &query);
    assert!(fresh.summary["utilisation"] < 0.05, "{:?}", fresh.summary);
    assert_eq!(fresh.summary["timeouts"], 0.0);
    let line = about(&fresh, "tail-loss probe").expect("it is told");
    assert!(line.contains("timeouts does not count them") && line.contains("rto_min"), "{line}");
    // The sum over the connections, by another way: what their transfers took beyond a round trip or two.
    let waited = fresh.engine.recorder.flow_totals.counters.probe_wait.as_secs();
    let late = fresh.engine.recorder.transfer_totals.seconds;
    assert!(waited > 0.5 * late && waited <= late, "{waited} of {late} s");
    let parts = run("query", &[&query[..], &[("connections", "persistent")]].concat());
    assert_eq!(about(&parts, "tail-loss probe"), None);
    let without = run("query", &[&query[..], &[("tail_loss_probe", "false")]].concat());
    assert!(without.summary["timeouts"] > 0.0);
    assert_eq!(about(&without, "tail-loss probe"), None);
}

/// As the kernel's TCPTimeouts: a SYN's timeout is one. Each takes a second at least, where others take `rto_min`.
#[test]
fn timeouts_of_syns_are_counted_and_waiting_for_them_is_told() {
    // Opened at once, 64 connections of two packets each meet a port with room for eight.
    let crowd = [
        ("servers", "64"),
        ("response", "2KB"),
        ("buffer", "8pkt"),
        ("repetitions", "5"),
        ("jitter", "0s"),
        ("rto_initial", "1s"),
    ];
    let outcome = run("query", &crowd);
    let syns = |e: &&Event| e.what == What::Timeout(TimeoutKind::Syn);
    let found = outcome.engine.recorder.events.iter().filter(syns).count();
    assert!(found > 0 && outcome.engine.recorder.syn_timeouts.0 == found as u64);
    let all = outcome.engine.recorder.events.iter().filter(|e| matches!(e.what, What::Timeout(_))).count();
    assert_eq!(outcome.summary["timeouts"], all as f64);
    let line = about(&outcome, "SYN timeout").expect("it is told");
    assert!(line.contains(&format!("{found} SYN timeout")) && line.contains("rto_initial"), "{line}");
    let persistent = run("query", &[&crowd[..], &[("buffer", "1MB")]].concat());
    assert_eq!(about(&persistent, "SYN timeout"), None);
}
