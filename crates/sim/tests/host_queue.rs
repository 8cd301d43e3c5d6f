//! Guards: `host_queue` bounds what one connection has in its own host's port, costs no throughput, and lets no window grow
//! that is not used.

use penstock_sim::engine::Progress;
use penstock_sim::scenario::{Outcome, Resolved};
use penstock_sim::topology::NodeKind;

fn resolve(scenario: &str, settings: &[(&str, &str)]) -> Result<Resolved, String> {
    let given: Vec<_> = settings.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    Resolved::new(scenario, &given, 1, serde_json::Value::Null).map_err(|e| e.to_string())
}
fn run(scenario: &str, settings: &[(&str, &str)]) -> Outcome {
    resolve(scenario, settings).expect("a valid scenario").run(0, &Progress::default()).expect("a run")
}
/// Most packets that any host's port has held.
fn most_at_a_host(o: &Outcome) -> u32 {
    let t = o.engine.topology();
    let host = |i: &usize| t.nodes[t.links[*i].from as usize].kind == NodeKind::Host;
    (0..t.links.len())
        .filter(host)
        .map(|i| o.engine.ports()[i].stats().queue_max)
        .max()
        .expect("hosts have ports")
}

/// One flow whose own link is as fast as the bottleneck: its window stands in its host.
fn one_flow(protocol: &str, limit: &str) -> Outcome {
    let settings = [
        ("flows", "1"),
        ("protocol", protocol),
        ("host_queue", limit),
        ("duration", "2s"),
        ("warmup", "100ms"),
        ("sample", "1ms"),
        ("rwnd", "2MB"),
    ];
    run("long-flows", &settings)
}

#[test]
fn a_connection_has_no_more_than_its_share_in_its_host() {
    for protocol in ["newreno", "sack", "cubic", "dctcp"] {
        assert!(most_at_a_host(&one_flow(protocol, "unlimited")) > 100, "{protocol}: nothing to bound");
        // One packet more for the moment by which timing noise keeps the last one.
        for (limit, most) in [("2pkt", 3), ("5pkt", 6), ("4500B", 4), ("1B", 2)] {
            let o = one_flow(protocol, limit);
            assert!(most_at_a_host(&o) <= most, "{protocol} {limit}: {}", most_at_a_host(&o));
            let full = if limit == "1B" { 0.95 } else { 0.999 };
            assert!(o.summary["utilisation"] > full, "{protocol} {limit}: {}", o.summary["utilisation"]);
        }
    }
}

#[test]
fn a_window_that_the_host_limits_does_not_grow() {
    // Bandwidth times delay is 37.5 KB; a window beyond what is used can only come from growth that nothing paid for.
    for protocol in ["newreno", "sack", "cubic", "dctcp"] {
        let cwnd = |limit: &str| one_flow(protocol, limit).summary["cwnd_mean_bytes"];
        assert!(cwnd("2pkt") < 150e3, "{protocol}: {}", cwnd("2pkt"));
        assert!(cwnd("unlimited") > 300e3, "{protocol}: {}", cwnd("unlimited"));
    }
}

#[test]
fn hosts_of_the_permutation_do_not_queue_whole_windows() {
    let o = run("permutation", &[("topology", "leaf-spine:2x2x4"), ("link_rate", "10Gbps")]);
    // One connection each, its own data and the ACKs of another's.
    assert!(most_at_a_host(&o) < 8, "{}", most_at_a_host(&o));
}

#[test]
fn a_bad_limit_names_key_value_and_rule() {
    for (text, rule) in [("0pkt", "must be at least 1"), ("some", "unlimited"), ("1.5pkt", "whole number")] {
        let error = resolve("long-flows", &[("host_queue", text)]).err().expect("not a limit");
        assert!(error.contains("host_queue") && error.contains(text) && error.contains(rule), "{error}");
    }
}
