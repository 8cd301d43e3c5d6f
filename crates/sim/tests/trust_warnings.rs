//! What a run says about itself: each warning where it is due, and none of it where it is not.

use penstock_sim::document;
use penstock_sim::engine::{Engine, Progress};
use penstock_sim::results::summarise;
use penstock_sim::scenario::{Outcome, Resolved};
use penstock_sim::warnings::warnings;
use serde_json::{json, Value};

fn resolved(name: &str, set: &[(&str, &str)]) -> Resolved {
    let set: Vec<_> = set.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    Resolved::new(name, &set, 1, Value::Null).unwrap_or_else(|e| panic!("{e}"))
}
fn scenario(name: &str, set: &[(&str, &str)]) -> Outcome {
    resolved(name, set).run(0, &Progress::default()).unwrap()
}
fn custom(toml: &str, set: Value) -> Outcome {
    let resolved = document::resolve(&json!({"toml": toml, "set": set}).to_string());
    resolved.unwrap_or_else(|e| panic!("{e}")).run(0, &Progress::default()).unwrap()
}
#[track_caller]
fn says(o: &Outcome, words: &str) {
    assert!(o.warnings.iter().any(|w| w.contains(words)), "{words:?} is not among {:#?}", o.warnings);
    assert!(o.warnings.iter().all(|w| !w.contains('\n')), "{:?}", o.warnings);
}
#[track_caller]
fn does_not_say(o: &Outcome, words: &str) {
    assert!(!o.warnings.iter().any(|w| w.contains(words)), "{words:?} is among {:#?}", o.warnings);
}

/// Two senders and a receiver around a switch; its port towards the receiver is the slowest.
const STAR: &str = r#"
scenario = "custom"
duration = "100ms"
hosts = ["a", "c", "b"]
switches = ["s"]
[[link]]
between = [["a", "c"], "s"]
rate = "1Gbps"
delay = "20us"
[[link]]
between = ["s", "b"]
rate = "500Mbps"
delay = "20us"
buffer = "50pkt"
"#;
fn star(workloads: &str, set: Value) -> Outcome {
    custom(&format!("{STAR}{workloads}"), set)
}
const LONG: &str = "[[workload]]\nkind = \"flows\"\nfrom = [\"a\", \"c\"]\nto = \"b\"\n";

#[test]
fn a_quiet_run_says_nothing() {
    let o = star(
        LONG,
        json!({"duration": "1s", "protocol": "dctcp", "queue": "threshold:k=20pkt", "ect_syn": true, "rwnd": "64KB"}),
    );
    assert_eq!(o.warnings, [""; 0]);
    assert_eq!(o.bottleneck, "s->b");
}

#[test]
fn no_transfer_at_all() {
    let keys = [("link_delay", "10ms"), ("duration", "1ms"), ("requests", "instant")];
    let o = scenario("incast", &keys);
    says(&o, "nothing was transferred in the measured time of 1 ms (");
    says(&o, "shorter than 20 of the longest round-trip time (40");
    assert_eq!(o.summary["transfers"], 0.0);
}

#[test]
fn flows_that_were_never_established_are_counted() {
    // One SYN of two finds a place, and the other one has no time to come again.
    let loss = STAR.replace("between = [[\"a\", \"c\"], \"s\"]", "between = [\"a\", \"s\"]").replacen(
        "[[link]]",
        "[[link]]\nfrom = \"c\"\nto = \"s\"\nrate = \"1Gbps\"\ndelay = \"20us\"\nloss = 1\n[[link]]\nfrom = \"s\"\nto = \"c\"\nrate = \"1Gbps\"\ndelay = \"20us\"\n[[link]]",
        1,
    );
    let o = custom(&format!("{loss}{LONG}"), json!({}));
    says(&o, "1 of 2 flows opened and never established");
    says(&o, "1 SYN were dropped");
    let o = custom(&format!("{loss}{LONG}"), json!({"duration": "2s"}));
    does_not_say(&o, "SYN were dropped");
    says(&o, "1 of 2 flows opened and never established");
}

#[test]
fn unfinished_transfers_are_counted() {
    let sized = format!(
        "{LONG}size = \"10MB\"\n[[workload]]\nkind = \"flows\"\nfrom = \"a\"\nto = \"b\"\nsize = \"10KB\"\n"
    );
    let o = star(&sized, json!({}));
    says(&o, "completion statistics leave out 2 of 3 transfers that were not complete at the end, with 99.9 % of the bytes, the oldest for 100 ms");
    assert!(!o.summary.contains_key("transfers_unfinished"), "only where it is asked for");
    let o = star(&sized, json!({"deliveries": true}));
    assert_eq!((o.summary["transfers_unfinished"], o.summary["unfinished_bytes"]), (2.0, 2e7));
    let o = star(&sized, json!({"duration": "3s", "queue": "droptail"}));
    does_not_say(&o, "completion statistics");
    assert_eq!(o.summary["transfers"], 3.0);
}

#[test]
fn more_load_than_the_link_carries() {
    let poisson = |rate: u64| {
        format!("[[workload]]\nkind = \"poisson\"\nfrom = [\"a\", \"c\"]\nto = \"b\"\nsizes = \"fixed:50KB\"\nrate = {rate}\n")
    };
    says(
        &star(&poisson(2500), json!({"duration": "1s"})),
        "the load offered for host b in the measured time is ",
    );
    does_not_say(&star(&poisson(500), json!({"duration": "1s"})), "load");
    // A closed loop offers what it gets done.
    let closed =
        "[[workload]]\nkind = \"closed\"\nfrom = [\"a\", \"c\"]\nto = \"b\"\nsizes = \"fixed:50KB\"\n";
    does_not_say(&star(closed, json!({"duration": "1s"})), "load");
}

#[test]
fn starved_flows_are_counted() {
    // One of two senders loses every data packet after the warm-up: its link is cut for large packets by a tiny buffer
    // that its own handshake fits in.
    let text = STAR.replace("between = [[\"a\", \"c\"], \"s\"]", "between = [\"a\", \"s\"]").replacen(
        "[[link]]",
        "[[link]]\nfrom = \"c\"\nto = \"s\"\nrate = \"1Gbps\"\ndelay = \"20us\"\nloss = 0.9\n[[link]]\nfrom = \"s\"\nto = \"c\"\nrate = \"1Gbps\"\ndelay = \"20us\"\n[[link]]",
        1,
    );
    // At 90 % loss its timeouts double until none falls into the short window.
    let o = custom(
        &format!("{text}{LONG}"),
        json!({"duration": "40s", "warmup": "39900ms", "rto_initial": "10ms", "rwnd": "64KB"}),
    );
    let c = &o.engine.recorder.flows[1];
    assert!(c.established && c.acked_bytes == 0, "{c:?}");
    says(&o, "1 of 2 flows had data to send and carried nothing in the measured time");
}

#[test]
fn a_run_shorter_than_a_timeout() {
    let o = star(LONG, json!({"duration": "50ms"}));
    assert!(o.summary["drops"] > 0.0);
    says(&o, "packets were dropped, and the measured time of 50 ms is shorter than a retransmission timeout (rto_min 200ms)");
    does_not_say(&star(LONG, json!({"duration": "50ms", "rto_min": "5ms"})), "retransmission timeout");
}

#[test]
fn a_protocol_that_depends_on_marks_and_gets_none() {
    let o = star(LONG, json!({"protocol": "dctcp"}));
    says(&o, "protocol dctcp depends on ECN marks, but no queue marks");
    does_not_say(&o, "no queue has marked");
    // A threshold above the buffer.
    let o = star(LONG, json!({"protocol": "dctcp", "queue": "threshold:k=60pkt"}));
    says(&o, "protocol dctcp depends on marks and no queue has marked a packet: s->b (threshold:k=60pkt) held up to 50 packets");
    does_not_say(&star(LONG, json!({"protocol": "dctcp", "queue": "threshold:k=20pkt"})), "depends on marks");
    does_not_say(&star(LONG, json!({})), "depends on marks");
}

#[test]
fn packets_that_cannot_be_marked_are_counted_where_they_are_dropped() {
    let o = star(LONG, json!({"protocol": "newreno", "queue": "threshold:k=20pkt"}));
    says(&o, "packets were dropped where a queue marks, because they are not ECN-capable");
    does_not_say(&star(LONG, json!({"protocol": "newreno"})), "ECN-capable");
}

#[test]
fn the_longest_queue_is_named_where_it_is_not_the_reported_one() {
    // One sender as fast as the bottleneck: what cannot leave waits in the host.
    let text = STAR.replace("500Mbps", "1Gbps");
    let one = "[[workload]]\nkind = \"flows\"\nfrom = \"a\"\nto = \"b\"\n";
    let set = json!({"rwnd": "300KB", "host_queue": "unlimited"});
    let o = custom(&format!("{text}{one}"), set);
    says(&o, "the longest mean queue stands at host port a->s (");
    says(&o, "not at the reported port s->b (");
}

#[test]
fn the_automatic_bottleneck_is_the_port_with_the_longest_queue() {
    // Every switch port has the same rate: the first of them carries ACKs only.
    let text = STAR.replace("500Mbps", "1Gbps");
    let o = custom(&format!("{text}{LONG}"), json!({"duration": "500ms", "warmup": "100ms"}));
    assert_eq!(o.bottleneck, "s->b");
    assert!(o.summary["utilisation"] > 0.9, "{}", o.summary["utilisation"]);
    let o = custom(
        &format!("bottleneck = \"s->a\"\n{text}{LONG}"),
        json!({"duration": "500ms", "warmup": "100ms"}),
    );
    assert!(o.bottleneck == "s->a" && o.summary["utilisation"] < 0.1);
    says(&o, "the longest mean queue stands at");
    let o = scenario(
        "permutation",
        &[("topology", "leaf-spine:2x1x4"), ("duration", "500us"), ("link_rate", "10Gbps")],
    );
    assert!(o.summary["utilisation"] > 0.9, "{} at {}", o.summary["utilisation"], o.bottleneck);
}

#[test]
fn the_mean_queue_by_little_s_law_is_the_integral() {
    let o = star(LONG, json!({"duration": "300ms", "warmup": "123456us"}));
    let m = o.engine.measured();
    let mut busy = 0;
    for port in m.ports {
        let s = port.stats();
        let (little, integral) = (s.sojourn as f64, s.queue_integral);
        assert!((little - integral).abs() <= 1e-9 * integral, "{little} is not {integral}");
        busy += u32::from(integral > 0.0);
    }
    assert!(busy >= 4 && m.ports[m.bottleneck as usize].stats().queue_mean() > 5.0);
}

#[test]
fn large_networks_have_the_mean_queue_of_every_port_and_say_what_they_lack() {
    let set = [("topology", "leaf-spine:8x8x40"), ("duration", "200us"), ("link_rate", "10Gbps")];
    let o = scenario("permutation", &set);
    let m = o.engine.measured();
    assert!(m.ports.len() > 512);
    assert!(o.summary["queue_mean_packets"] > 1.0, "{}", o.summary["queue_mean_packets"]);
    if m.bottleneck != m.candidate {
        says(&o, "deviation and bytes of the queue of");
        assert!(!o.summary.contains_key("queue_std_packets"));
    }
}

#[test]
fn tables_cut_short_are_named_and_the_summary_is_not() {
    let small = "[[workload]]\nkind = \"closed\"\nfrom = [\"a\", \"c\"]\nto = \"b\"\nsizes = \"fixed:5KB\"\ncount = 200\n";
    let text = json!({"toml": format!("{STAR}{small}"), "set": {"duration": "1s"}}).to_string();
    let whole = document::resolve(&text).unwrap().run(0, &Progress::default()).unwrap();
    let mut setup = document::resolve(&text).unwrap().setup(0).unwrap();
    setup.recorder.max_rows = 50;
    let mut engine = Engine::new(setup).unwrap();
    engine.run(&Progress::default()).unwrap();
    assert_eq!((engine.recorder.flows.len(), engine.recorder.transfers.len()), (50, 50));
    let (cut, all) = (summarise(&engine.measured()), whole.summary);
    for (key, value) in &all {
        let quantile = key.ends_with("p50_s") || key.ends_with("p99_s") || key.starts_with("slowdown");
        assert!(
            quantile || *key == "rows_left_out" || cut[key] == *value,
            "{key}: {} is not {value}",
            cut[key]
        );
    }
    assert_eq!((cut["rows_left_out"], all["rows_left_out"]), (300.0, 0.0));
    let lines = warnings(&engine.measured());
    for words in
        ["150 rows left out of table flows", "150 rows left out of table transfers", "quantiles are those"]
    {
        assert!(lines.iter().any(|w| w.contains(words)), "{words}: {lines:?}");
    }
}

#[test]
fn flows_without_a_place_in_the_series_table_are_counted() {
    let set = json!({"sample": "1ms", "series": true, "series_flows": 1});
    says(&star(LONG, set), "the series table leaves out 1 flow that opened while 1 others had its places");
    does_not_say(&star(LONG, json!({"sample": "1ms", "series": true})), "series table leaves out");
}

#[test]
fn a_run_that_ended_before_its_warm_up() {
    let reads =
        "[[workload]]\nkind = \"reads\"\nfrom = [\"a\", \"c\"]\nto = \"b\"\nsru = \"10KB\"\nblocks = 1\n";
    let o = star(reads, json!({"warmup": "90ms"}));
    assert_eq!(o.warnings, ["the run ended before its warm-up: nothing was measured"]);
}

#[test]
fn notes_of_the_scenario_come_first() {
    let mut setup = resolved("incast", &[("link_delay", "10ms"), ("duration", "1ms")]).setup(0).unwrap();
    setup.notes = vec!["the scenario knew".to_owned()];
    let mut engine = Engine::new(setup).unwrap();
    engine.run(&Progress::default()).unwrap();
    let lines = warnings(&engine.measured());
    assert!(lines.len() > 1 && lines[0] == "the scenario knew", "{lines:?}");
}

#[test]
fn a_load_of_flows_shorter_than_a_segment_says_what_their_headers_add() {
    // Sizes of 40 to 400 bytes: 220 and 40 of headers on the wire, where the load counts 220 * 1500 / 1460 = 226.
    let short =
        |load: &str| format!("[[workload]]\nkind = \"poisson\"\nfrom = \"a\"\nto = \"b\"\n{load}\nsizes = ");
    let brief = json!({"duration": "5ms"});
    let o = star(&format!("{}\"uniform:40:400\"", short("load = 0.2")), brief.clone());
    says(&o, "workload[1].load = 0.2 counts headers as if all segments were full: with those of these short flows 0.23 of the capacity");
    for quiet in ["load = 0.2\nsizes = \"fixed:14600\"", "rate = 100\nsizes = \"fixed:100\""] {
        let text = short("").replace("\nsizes = ", "") + quiet;
        does_not_say(&star(&text, brief.clone()), "counts headers");
    }
    let o = scenario(
        "rdma",
        &[("protocol", "dcqcn"), ("sizes", "fixed:64"), ("load", "0.1"), ("duration", "100us")],
    );
    says(&o, "load = 0.1 counts headers as if all segments were full");
    let o = scenario("mix", &[("sizes", "fixed:100"), ("arrivals", "load:0.1"), ("duration", "2s")]);
    says(&o, "arrivals = load:0.1 counts headers as if all segments were full");
}
