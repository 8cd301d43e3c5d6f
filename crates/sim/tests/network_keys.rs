//! Keys of the network, each by what a run shows of it.

use penstock_sim::document::resolve;
use penstock_sim::engine::Progress;
use penstock_sim::scenario::Outcome;
use serde_json::{json, Map};

fn run(document: serde_json::Value) -> Outcome {
    resolve(&document.to_string()).unwrap().run(0, &Progress::default()).unwrap()
}
fn set(pairs: &[(&str, &str)]) -> Map<String, serde_json::Value> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect()
}
fn named(scenario: &str, pairs: &[(&str, &str)]) -> Outcome {
    run(json!({ "scenario": scenario, "set": set(pairs), "seed": 1 }))
}

/// Two hosts send to a third without end, one in class 0, one in class 1; windows are far above the path's 10 KB and nothing is
/// lost. Goodput of both, Gb/s.
fn classes(keys: &[(&str, &str)]) -> [f64; 2] {
    let toml = r#"
        scenario = "custom"
        duration = "6ms"
        warmup = "1ms"
        rwnd = "150KB"
        initial_window = 100
        host_queue = "unlimited"
        hosts = ["a", "b", "c"]
        switches = ["s"]
        [[link]]
        between = [["a", "b", "c"], "s"]
        rate = "10Gbps"
        delay = "1us"
        buffer = "1000pkt"
        [[workload]]
        from = "a"
        to = "c"
        [[workload]]
        from = "b"
        to = "c"
        class = 1
    "#;
    let o = run(json!({ "toml": toml, "set": set(keys), "seed": 1 }));
    assert_eq!(o.summary["drops"], 0.0);
    let measured = o.engine.measured();
    let rate = |i: usize| measured.recorder.flows[i].acked_bytes as f64 * 8.0 / o.summary["measured_s"] / 1e9;
    [rate(0), rate(1)]
}

#[test]
fn strict_priority_serves_the_higher_class_alone_and_drr_shares_by_quanta() {
    // A saturated link carries 10 x 1460 / 1500 = 9.733 Gb/s of payload.
    let sum = |x: [f64; 2]| x[0] + x[1];
    let fifo = classes(&[]);
    assert!((sum(fifo) - 9.733).abs() < 0.03 && (fifo[0] / fifo[1] - 1.0).abs() < 0.05, "{fifo:?}");
    let strict = classes(&[("priorities", "2")]);
    assert!(strict[1] > 9.70 && strict[0] < 0.03, "{strict:?}");
    let turned = classes(&[("priorities", "2:0=1,1=0")]);
    assert!(turned[0] > 9.70 && turned[1] < 0.03, "{turned:?}");
    let drr = classes(&[("priorities", "2"), ("schedule", "drr:q0=1500B,q1=4500B")]);
    assert!((sum(drr) - 9.733).abs() < 0.03 && (drr[1] / drr[0] - 3.0).abs() < 0.06, "{drr:?}");
}
#[test]
fn a_queue_in_a_shared_buffer_settles_at_its_dynamic_threshold() {
    // One greedy queue holds alpha B / (1 + alpha) (Choudhury, Hahne, ToN 1998), and at most a packet more.
    for (alpha, held) in [("1", 500_000.0), ("0.25", 200_000.0), ("4", 800_000.0)] {
        let buffer = format!("shared:alpha={alpha},size=1MB");
        let o = named(
            "incast",
            &[("buffer", &buffer), ("initial_window", "200"), ("duration", "100ms"), ("jitter", "0s")],
        );
        let most = o.summary["queue_max_packets"] * 1040.0;
        assert!(most <= held + 1040.0 && most > held - 2.0 * 1040.0, "alpha {alpha}: {most} against {held}");
        assert!(o.summary["drops"] > 0.0);
    }
}
#[test]
fn a_failed_link_is_routed_around_or_waited_for() {
    let topology = ("topology", "leaf-spine:2x2x2");
    let flows = |more: &[(&str, &str)]| {
        let base = [topology, ("flow_size", "2MB"), ("duration", "20ms"), ("link_rate", "10Gbps")];
        let o = named("permutation", &[&base[..], more].concat());
        (o.summary["flows_completed"], o.summary.get("drops_down").copied(), o.summary["fct_mean_s"])
    };
    assert_eq!((flows(&[]).0, flows(&[]).1), (4.0, None));
    let fail = ("fail", "leaf0<->spine0@100us;leaf1<->spine0@100us");
    let (done, down, _) = flows(&[fail]);
    assert!(done == 4.0 && down.is_some_and(|d| d >= 0.0), "{done} {down:?}");
    // Packet spraying uses both spines, so that without rerouting every flow between the leaves keeps losing half of them.
    let spray = ("spread", "packet");
    let (around, ..) = flows(&[fail, spray]);
    let (never, down, _) = flows(&[fail, spray, ("reroute", "never")]);
    assert!(around == 4.0 && never < 4.0 && down > Some(10.0), "{around} {never} {down:?}");
}
#[test]
fn a_degraded_link_has_its_rate_for_its_time() {
    let toml = r#"
        scenario = "custom"
        duration = "30ms"
        rwnd = "150KB"
        host_queue = "unlimited"
        hosts = ["a", "b"]
        switches = ["s"]
        [[link]]
        between = [["a", "b"], "s"]
        rate = "10Gbps"
        delay = "1us"
        buffer = "1000pkt"
        [[workload]]
        from = "a"
        to = "b"
    "#;
    let goodput = |fail: &str| {
        let keys = if fail.is_empty() { set(&[]) } else { set(&[("fail", fail)]) };
        run(json!({ "toml": toml, "set": keys, "seed": 1 })).summary["goodput_bps"] / 1e9
    };
    // A third of the time at a tenth of the rate: 0.7 of it all.
    let (whole, degraded) = (goodput(""), goodput("s->b@10ms-20ms,rate=1Gbps"));
    assert!((degraded / whole - 0.7).abs() < 0.01, "{degraded} of {whole}");
    // The link's own key says the same.
    let own = toml.replace("buffer = \"1000pkt\"", "buffer = \"1000pkt\"\nfail = \"10ms-20ms,rate=1Gbps\"");
    let both = run(json!({ "toml": own, "seed": 1 })).summary["goodput_bps"] / 1e9;
    assert!((both / whole - 0.7).abs() < 0.01, "{both} of {whole}");
}
#[test]
fn trimmed_and_reordered_packets_are_counted_and_everything_arrives() {
    let size = [("blocks", "3"), ("servers", "20"), ("rto_min", "10ms"), ("duration", "20s")];
    let trim = named("incast", &[&size[..], &[("trim", "64B"), ("buffer", "20pkt")]].concat());
    assert!(trim.summary["trims"] > 50.0 && trim.summary["blocks"] == 3.0, "{:?}", trim.summary);
    assert_eq!(trim.summary["drops"], 0.0, "every header finds room");
    let late = named(
        "incast",
        &[&size[..], &[("reorder", "share=0.05,delay=100us"), ("buffer", "1000pkt")]].concat(),
    );
    let exact = named("incast", &[&size[..], &[("buffer", "1000pkt")]].concat());
    assert_eq!(late.summary["blocks"], 3.0);
    assert!(late.summary["fast_retransmits"] > exact.summary["fast_retransmits"], "{:?}", late.summary);
}

/// Packets lost of a burst of 400 into a port that has the buffer of its link, else that of the run.
fn lost(link: &str, run_: &str) -> f64 {
    let toml = format!(
        r#"
        scenario = "custom"
        duration = "20ms"
        initial_window = 400
        rwnd = "600KB"
        host_queue = "unlimited"
        send_jitter = "0s"
        {run_}
        hosts = ["a", "c", "b"]
        switches = ["s"]
        [[link]]
        between = [["a", "c"], "s"]
        rate = "10Gbps"
        delay = "1us"
        [[link]]
        between = ["s", "b"]
        rate = "1Gbps"
        delay = "1us"
        {link}
        [[workload]]
        from = "a"
        to = "b"
        size = "584000B"
    "#
    );
    run(json!({ "toml": toml, "seed": 1 })).summary["drops"]
}

#[test]
fn a_link_without_a_buffer_of_its_own_has_that_of_the_run() {
    let (run_, link) = ("buffer = \"300pkt\"", "buffer = \"300pkt\"");
    let by_run = lost("", run_);
    assert_eq!(by_run, lost(link, ""));
    assert_eq!(lost(link, "buffer = \"20pkt\""), by_run, "the link's own comes first");
    assert_eq!(lost("", ""), lost("buffer = \"100pkt\"", ""));
    assert!(0.0 < by_run && by_run < lost("", ""), "{by_run}");
}
