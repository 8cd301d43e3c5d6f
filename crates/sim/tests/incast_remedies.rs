//! Guards the remedies of the incast book as options of the transport: each does what its algorithm says, and
//! each at its neutral value leaves plain TCP as it is, to the byte.

use penstock_sim::engine::Progress;
use penstock_sim::scenario::{Outcome, Resolved};

fn resolve(settings: &[(&str, &str)]) -> Result<Resolved, String> {
    let given: Vec<_> = settings.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    Resolved::new("incast", &given, 1, serde_json::Value::Null).map_err(|e| e.to_string())
}

fn run(settings: &[(&str, &str)]) -> Outcome {
    let mut all = vec![("servers", "12"), ("duration", "1s"), ("loss_events", "true")];
    all.extend_from_slice(settings);
    resolve(&all).expect("a valid scenario").run(0, &Progress::default()).expect("a run")
}

/// Everything that happened, as text: summary, flows and events with their times in picoseconds.
fn trace(o: &Outcome) -> String {
    let r = &o.engine.recorder;
    format!("{:?}\n{:?}\n{:?}\n{:?}", o.summary, r.flows, r.events, r.transfers)
}

#[test]
fn neutral_values_reproduce_plain_tcp_to_the_byte() {
    let plain = trace(&run(&[]));
    for (what, settings) in [
        ("p = 0", &[("retransmit_probability", "0"), ("retransmit_every", "20us")][..]),
        ("MSS_dsr = MSS", &[("segment_start", "1000B"), ("resize_window", "50")][..]),
        ("no receiver-side control", &[("receive_control", "none")][..]),
    ] {
        assert_eq!(trace(&run(settings)), plain, "{what}");
    }
    assert!(plain.contains("timeout"), "a run without losses would compare nothing");
}

#[test]
fn the_thread_notices_whole_windows_without_a_timeout() {
    let of_kind =
        |o: &Outcome, what: &str| o.engine.recorder.events.iter().filter(|e| e.what.name() == what).count();
    let plain = run(&[("servers", "24"), ("duration", "3s")]);
    let settings = [
        ("servers", "24"),
        ("duration", "3s"),
        ("retransmit_probability", "0.01"),
        ("retransmit_segment", "oldest"),
        ("retransmit_rests", "false"),
    ];
    let thread = run(&settings);
    assert!(of_kind(&plain, "timeout: window lost") > 5);
    assert_eq!(of_kind(&thread, "timeout: window lost"), 0);
    assert!(thread.summary["goodput_bps"] > 2.0 * plain.summary["goodput_bps"]);
}

/// The remedies of chapter 4, each as the settings that switch it on.
const REMEDIES: [&[(&str, &str)]; 8] = [
    &[("buffer", "128pkt")],
    &[("sru", "1MB")],
    &[("rto_min", "200us"), ("rto_granularity", "100us")],
    &[("tail_loss_probe", "true")],
    &[("protocol", "dctcp"), ("queue", "threshold:k=20pkt")],
    &[("receive_control", "ictcp")],
    &[("retransmit_probability", "0.01"), ("retransmit_segment", "oldest"), ("retransmit_rests", "false")],
    &[("segment_start", "50B"), ("header_compression", "true")],
];

#[test]
fn every_combination_of_remedies_runs() {
    for chosen in 0u32..1 << REMEDIES.len() {
        // A tail-loss probe needs selective acknowledgements.
        let mut all = vec![("protocol", "sack"), ("servers", "6"), ("duration", "60ms")];
        for (_, remedy) in REMEDIES.iter().enumerate().filter(|(i, _)| chosen >> i & 1 == 1) {
            all.retain(|(key, _)| remedy.iter().all(|(k, _)| k != key));
            all.extend_from_slice(remedy);
        }
        let resolved = resolve(&all).unwrap_or_else(|e| panic!("{all:?}: {e}"));
        assert!(resolved.without_effect.is_empty(), "{all:?}: {:?}", resolved.without_effect);
        // Conservation of packets is checked at the end of every run.
        let o = resolved.run(0, &Progress::default()).unwrap_or_else(|e| panic!("{all:?}: {e}"));
        assert!(o.summary["goodput_bps"] > 1e7, "{all:?}: {:?}", o.summary);
    }
}

#[test]
fn compressed_headers_save_bytes_on_the_wire() {
    let one = [("servers", "1"), ("segment", "50B"), ("rwnd", "1000pkt")];
    let plain = run(&one);
    let compressed = run(&[&one[..], &[("header_compression", "true")]].concat());
    // A saturated link: 50 of 90 bytes are payload, then 50 of 54.
    let gain = compressed.summary["goodput_bps"] / plain.summary["goodput_bps"];
    assert!((1.5..=90.0 / 54.0 + 0.01).contains(&gain), "{gain}");
}

#[test]
fn ictcp_fills_the_link_and_keeps_the_windows_below_what_the_port_can_take() {
    for servers in ["4", "5", "8", "12"] {
        let o = run(&[("servers", servers), ("receive_control", "ictcp")]);
        let plain = run(&[("servers", servers)]);
        assert!(o.summary["drop_rate"] < 0.1 * plain.summary["drop_rate"], "{servers}: {:?}", o.summary);
        assert_eq!(o.summary["timeouts"], 0.0, "{servers}");
        // Connections held at two segments per round trip get 73 Mb/s each.
        assert!(o.summary["goodput_bps"] > 8e8, "{servers}: {}", o.summary["goodput_bps"]);
    }
}

#[test]
fn errors_name_key_value_and_rule() {
    for (key, value, rule) in [
        ("retransmit_probability", "1.5", "must be at most 1"),
        ("retransmit_probability", "-0.1", "must be at least 0"),
        ("segment_start", "2000B", "must not be above the full segment of 1000 bytes"),
        ("resize_window", "1", "must be at least 2"),
        ("receive_control", "magic", "unknown receiver-side control"),
        ("receive_control", "ictcp:alpha=2", "must be at most 1"),
        ("receive_control", "ictcp:gamma1=0.6,gamma2=0.5", "must not be above gamma2"),
        ("servers", "0", "must be at least 1"),
    ] {
        let Err(message) = resolve(&[(key, value)]) else { panic!("{key} = {value} was accepted") };
        assert!(message.contains(key) && message.contains(rule), "{message}");
    }
}
