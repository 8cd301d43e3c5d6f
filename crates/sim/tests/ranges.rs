//! Numbers that were out of range, one test for each kind: every run of a test build checks all of them (`invariants`).

use penstock_sim::document::resolve;
use penstock_sim::engine::Progress;
use penstock_sim::invariants;
use penstock_sim::scenario::Outcome;
use serde_json::{json, Value};

fn run(document: &Value) -> Outcome {
    let resolved = resolve(&document.to_string()).unwrap_or_else(|e| panic!("{e}\n{document}"));
    let outcome = resolved.run(0, &Progress::default()).unwrap();
    invariants::check(&outcome.engine.measured(), &outcome.summary).unwrap();
    outcome
}

fn named(scenario: &str, set: Value) -> Outcome {
    run(&json!({ "scenario": scenario, "set": set }))
}

fn file(toml: &str) -> Outcome {
    run(&json!({ "toml": toml, "base_dir": "." }))
}

#[test]
fn queues_of_hosts_whose_machine_is_late_are_not_negative() {
    for measured in ["fat-tree:4", "leaf-spine:4x8x16"] {
        let o = named(
            "rdma",
            json!({
                "topology": measured, "protocol": "linux-cubic", "nic": "endless", "duration": "500us",
                "data_handover": "1:100us",
            }),
        );
        let m = o.engine.measured();
        let means: Vec<f64> = m.ports.iter().map(|p| p.stats().queue_mean()).collect();
        assert!(means.iter().all(|mean| *mean >= 0.0), "{measured}: {means:?}");
        assert!(means.iter().any(|mean| *mean > 0.0));
    }
}

#[test]
fn utilisation_counts_the_part_of_a_packet_that_is_in_the_window() {
    // A packet takes 12 ms: six of them in 50 ms would be 1.2.
    let o = named(
        "long-flows",
        json!({ "link_rate": "1Mbps", "flows": 2, "warmup": "554ms", "duration": "604ms" }),
    );
    assert!((o.summary["utilisation"] - 1.0).abs() < 1e-9, "{}", o.summary["utilisation"]);
    // And of a window within one packet of an endless flow.
    let o = named(
        "long-flows",
        json!({ "link_rate": "1Mbps", "flows": 2, "warmup": "600ms", "duration": "601ms" }),
    );
    assert!((o.summary["utilisation"] - 1.0).abs() < 1e-9, "{}", o.summary["utilisation"]);
}

#[test]
fn utilisation_is_of_the_rate_that_the_link_has_at_the_time() {
    for (rate, busy) in [("10Mbps", 1.0), ("190Mbps", 1.0)] {
        let fail = format!("switch->client@500ms-1500ms,rate={rate}");
        let o = named(
            "long-flows",
            json!({ "link_rate": "100Mbps", "flows": 4, "warmup": "300ms", "duration": "1500ms", "fail": fail }),
        );
        let found = o.summary["utilisation"];
        assert!(found <= 1.0 && found > 0.95 * busy, "{rate}: {found}");
    }
    // Down for a third of the time, with what waits kept: the rest of the time busy.
    let o = named(
        "long-flows",
        json!({
            "link_rate": "100Mbps", "flows": 4, "warmup": "200ms", "duration": "500ms",
            "fail": "switch->client@300ms-400ms,waiting=kept",
        }),
    );
    assert!((0.6..0.68).contains(&o.summary["utilisation"]), "{}", o.summary["utilisation"]);
}

#[test]
fn what_had_arrived_in_the_warm_up_is_no_goodput_when_a_gap_closes_later() {
    let mut above = 0;
    for warmup in 0..25 {
        let warmup = 60 + 23 * warmup;
        let o = named(
            "long-flows",
            json!({
                "link_rate": "10Mbps", "flows": 2, "buffer": "20pkt", "rtt": "20ms", "protocol": "sack",
                "warmup": format!("{warmup}ms"), "duration": format!("{}ms", warmup + 40),
            }),
        );
        // The link carries 40 ms of payload, and the rest of a packet that was on it when measuring began.
        let most = 10e6 + 1460.0 * 8.0 / 0.04;
        above += u32::from(o.summary["goodput_bps"] > most);
    }
    assert_eq!(above, 0);
}

#[test]
fn no_transfer_is_faster_than_in_the_idle_network() {
    for (protocol, size, more) in [
        ("racs", "10MB", json!({})),
        ("d3", "1MB", json!({})),
        ("newreno", "1MB", json!({ "header_compression": "true" })),
        ("newreno", "1MB", json!({ "header_compression": "true", "header": "20B" })),
        ("hpcc:clock=whole-ns,rules=hpcc-ns3", "1MB", json!({})),
    ] {
        let toml = format!(
            "scenario = \"custom\"\ntopology = \"star:2\"\nlink_rate = \"1Gbps\"\nlink_delay = \"10us\"\nduration = \"2s\"\n\
             protocol = \"{protocol}\"\ninitial_window = 1000\n\
             [[workload]]\nfrom = \"h0\"\nto = \"h1\"\nsize = \"{size}\"\n"
        );
        let o = run(&json!({ "toml": toml, "base_dir": ".", "set": more }));
        let slowdown = o.summary["slowdown_p99"];
        assert!((1.0..1.3).contains(&slowdown), "{protocol} {more}: {slowdown}");
    }
}

#[test]
fn no_sprayed_transfer_is_faster_than_in_the_idle_network() {
    // Fabric links are slower than those of hosts: four side by side carry what one cannot.
    for (protocol, spread) in [
        ("ndp", "packet"),
        ("ndp", "round-robin"),
        ("eqds", "entropy"),
        ("roce", "packet"),
        ("newreno", "flowlet:gap=1us"),
    ] {
        for (fabric_rate, size) in
            [("4Gbps", "1MB"), ("10Gbps", "1500B"), ("25Gbps", "100KB"), ("10Gbps", "1461B")]
        {
            let toml = format!(
                "scenario = \"custom\"\ntopology = \"leaf-spine:2x4x2\"\nlink_rate = \"10Gbps\"\nfabric_rate = \"{fabric_rate}\"\n\
                 link_delay = \"1us\"\nduration = \"50ms\"\nprotocol = \"{protocol}\"\nspread = \"{spread}\"\nsegment = \"1460B\"\n\
                 initial_window = 1000\n[[workload]]\nfrom = \"h0\"\nto = \"h2\"\nsize = \"{size}\"\n"
            );
            let slowdown = file(&toml).summary["slowdown_p99"];
            // TCP and RoCE take what overtakes for a loss.
            let most = if matches!(protocol, "newreno" | "roce") { 20.0 } else { 1.6 };
            assert!((1.0..most).contains(&slowdown), "{protocol} {spread} {fabric_rate} {size}: {slowdown}");
        }
    }
}

#[test]
fn a_failure_does_not_change_what_the_idle_network_takes() {
    let run = |fail: &str, size: &str| {
        let toml = format!(
            "scenario = \"custom\"\ntopology = \"leaf-spine:2x2x2\"\nlink_rate = \"10Gbps\"\nlink_delay = \"1us\"\nduration = \"90ms\"\n\
             {fail}rto_min = \"1ms\"\nrto_initial = \"5ms\"\n[[workload]]\nfrom = \"h0\"\nto = \"h2\"\nsize = \"{size}\"\nstart = \"1ms\"\n"
        );
        let o = file(&toml);
        let flow = &o.engine.recorder.flows[0];
        assert!(flow.complete);
        (flow.ideal, flow.slowdown())
    };
    let (whole, _) = run("", "3MB");
    // All ways are down when the flow begins, one goes down later, the last link of the way gets faster.
    for fail in [
        "fail = \"leaf0->spine0@0.5ms-3ms;leaf0->spine1@0.5ms-3ms\"\n",
        "fail = \"leaf0<->spine1@2ms-4ms\"\n",
    ] {
        let (ideal, slowdown) = run(fail, "3MB");
        assert!((ideal / whole - 1.0).abs() < 2e-3, "{fail}: {ideal} and {whole}");
        assert!(slowdown >= 1.0, "{fail}: {slowdown}");
    }
    let faster = "fail = \"h0->leaf0@0.5ms-80ms,rate=40Gbps;leaf1->h2@0.5ms-80ms,rate=40Gbps\"\n";
    let (ideal, slowdown) = run(faster, "3MB");
    assert!(ideal < whole && slowdown >= 1.0, "{ideal} of {whole}: {slowdown}");
}

#[test]
fn the_size_of_a_persistent_connection_is_all_that_was_written_on_it() {
    let o = named(
        "query",
        json!({ "servers": 3, "connections": "persistent", "repetitions": 14, "total": "150KB", "duration": "10s" }),
    );
    let flows = &o.engine.recorder.flows;
    assert_eq!(flows.len(), 3);
    for f in flows {
        assert_eq!((f.size, f.delivered_bytes, f.transfers), (14 * 50_000, 14 * 50_000, 14), "{f:?}");
        assert!(f.ideal.is_nan(), "as a whole it is no transfer");
    }
}

const RINGS: &str = "scenario = \"custom\"\ntopology = \"star:8\"\nlink_rate = \"10Gbps\"\nlink_delay = \"1us\"\nduration = \"1s\"\n";

fn ring(hosts: &str, size: &str) -> String {
    format!("[[workload]]\nkind = \"collective\"\noperation = \"all-reduce\"\nhosts = \"{hosts}\"\nsize = \"{size}\"\n")
}

#[test]
fn what_is_measured_ends_with_the_work_of_several_collectives() {
    let one = file(&format!("{RINGS}{}", ring("h[0-3]", "4MB")));
    let two = file(&format!("{RINGS}{}{}", ring("h[0-3]", "4MB"), ring("h[4-7]", "1MB")));
    assert!(one.summary["measured_s"] < 0.1);
    let (longer, both) = (one.summary["measured_s"], two.summary["measured_s"]);
    assert!((both / longer - 1.0).abs() < 0.01, "the longer one ends the run: {longer} and {both}");
    assert_eq!(two.summary["blocks"], 2.0);
    assert!(two.summary["utilisation"] > 0.5);
    // Beside what has no end of its own a run lasts as long as it is told to.
    let endless = "[[workload]]\nfrom = \"h4\"\nto = \"h5\"\n";
    let set = json!({ "duration": "30ms" });
    let toml = format!("{RINGS}{}{endless}", ring("h[0-3]", "1MB"));
    let o = run(&json!({ "toml": toml, "base_dir": ".", "set": set }));
    assert_eq!(o.summary["measured_s"], 0.03);
}

#[test]
fn host_ranges_have_a_stride() {
    let o = file(&format!("{RINGS}{}", ring("h[0-7:3]", "1MB")));
    let hosts: std::collections::BTreeSet<u32> = o.engine.recorder.flows.iter().map(|f| f.src).collect();
    let names: Vec<&str> =
        hosts.iter().map(|h| o.engine.topology().nodes[*h as usize].name.as_str()).collect();
    assert_eq!(names, ["h0", "h3", "h6"]);
    let bad = format!("{RINGS}{}", ring("h[0-7:0]", "1MB"));
    let e = resolve(&json!({ "toml": bad }).to_string()).map(|_| ()).unwrap_err().to_string();
    assert!(e.contains("h[0-1023:8] for every eighth"), "{e}");
}

#[test]
fn collectives_of_1024_ranks_are_there_at_once() {
    for (operation, algorithm) in [
        ("all-reduce", "ring"),
        ("all-to-all", "pairwise"),
        ("all-reduce", "halving-doubling"),
        ("all-reduce", "tree"),
    ] {
        let toml = format!(
            "scenario = \"custom\"\ntopology = \"rail:128x8x16\"\nlink_rate = \"400Gbps\"\nlink_delay = \"1us\"\n\
             duration = \"6us\"\n[[workload]]\nkind = \"collective\"\noperation = \"{operation}\"\nalgorithm = \"{algorithm}\"\n\
             hosts = \"h[0-1023]\"\nsize = \"256MB\"\n"
        );
        let o = file(&toml);
        assert!(o.summary["flows"] >= 511.0, "{algorithm}: {}", o.summary["flows"]);
    }
}

fn notes(document: &Value) -> Vec<String> {
    resolve(&document.to_string()).unwrap_or_else(|e| panic!("{e}")).notes
}

const STAR: &str = "scenario = \"custom\"\ntopology = \"star:4\"\nlink_rate = \"1Gbps\"\nlink_delay = \"10us\"\nduration = \"50ms\"\n";

#[test]
fn rows_of_a_trace_after_the_end_are_counted() {
    let rows: String = (0..51).map(|i| format!("{i},h0,h1,1000\n")).collect();
    let document = |more: &str| {
        json!({
            "toml": format!("{STAR}[[workload]]\nkind = \"trace\"\nfile = \"late.csv\"\n{more}"),
            "files": { "late.csv": format!("start_s,src,dst,bytes\n{rows}") },
        })
    };
    let said = notes(&document(""));
    assert_eq!(
        said,
        ["workload[1]: 50 of 51 rows of the trace begin at the end of the run (50ms) or later and are left out; a longer duration has them"]
    );
    assert!(run(&document("")).warnings.contains(&said[0]));
    let later = notes(&document("start = \"1s\"\n"));
    assert_eq!(
        later,
        ["workload[1].start = 1s is not before the end of the run (50ms): nothing of it happens"]
    );
}

#[test]
fn a_load_counts_the_receivers_that_a_flow_can_reach() {
    let rate = |to: &str| {
        let toml = format!(
            "{STAR}[[workload]]\nkind = \"poisson\"\nfrom = \"h0\"\nto = {to}\nsizes = \"fixed:14600B\"\nload = 0.5\n"
        );
        run(&json!({ "toml": toml })).summary["arrivals_per_s"]
    };
    assert_eq!(rate("[\"h0\", \"h1\"]"), rate("\"h1\""), "no flow of h0 leads to h0");
    assert_eq!(rate("[\"h2\", \"h1\"]"), 2.0 * rate("\"h1\""));
}

#[test]
fn timers_of_tcp_are_no_warning_for_other_transports() {
    let lossy = |protocol: &str| {
        let toml = format!(
            "scenario = \"custom\"\ntopology = \"star:9\"\nlink_rate = \"10Gbps\"\nlink_delay = \"1us\"\nduration = \"3ms\"\n\
             rto_min = \"200ms\"\nprotocol = \"{protocol}\"\nbuffer = \"8pkt\"\n\
             [[workload]]\nfrom = \"h[1-8]\"\nto = \"h0\"\n"
        );
        let o = file(&toml);
        // NDP cuts payloads off instead.
        assert!(o.summary["drops"] > 0.0 || protocol == "ndp", "{protocol}: nothing was dropped");
        o.warnings.iter().any(|line| line.contains("rto_min"))
    };
    assert!(lossy("newreno"));
    for protocol in ["ndp", "pfabric"] {
        assert!(!lossy(protocol), "{protocol}");
    }
}

#[test]
fn a_protocol_that_no_workload_uses_is_no_warning() {
    let toml = |own: &str| {
        format!("{STAR}queue = \"threshold:k=20pkt\"\n[[workload]]\nfrom = \"h0\"\nto = \"h1\"\nsize = \"1MB\"\n{own}")
    };
    assert_eq!(notes(&json!({ "toml": toml("protocol = \"dctcp\"\n") })), [] as [&str; 0]);
    let said = notes(&json!({ "toml": toml("") }));
    assert_eq!(
        said,
        ["protocol newreno is not ECN-capable, but queue threshold marks: it drops this protocol's packets where it marks others' (drops_nonect)"]
    );
}

#[test]
fn a_protocol_that_no_workload_uses_is_named_in_no_warning() {
    let two = "[[workload]]\nfrom = \"h0\"\nto = \"h1\"\nsize = \"1MB\"\nprotocol = \"hpcc\"\n\
               [[workload]]\nfrom = \"h2\"\nto = \"h1\"\nsize = \"1MB\"\nprotocol = \"dctcp\"\n";
    let said = notes(&json!({ "toml": format!("{STAR}queue = \"threshold:k=20pkt\"\n{two}") }));
    assert!(said.iter().any(|note| note.ends_with("that protocol hpcc needs, for dctcp too")), "{said:?}");
    assert!(!said.iter().any(|note| note.contains("newreno")), "{said:?}");
}

#[test]
fn one_cause_is_one_warning() {
    let workloads: String = ["newreno", "reno", "sack", "cubic", "bic", "newreno:x"]
        .iter()
        .take(4)
        .map(|p| format!("[[workload]]\nfrom = \"h0\"\nto = \"h1\"\nsize = \"1KB\"\nprotocol = \"{p}\"\n"))
        .collect();
    let said = notes(&json!({ "toml": format!("{STAR}queue = \"threshold:k=20pkt\"\n{workloads}") }));
    assert_eq!(
        said,
        ["protocols newreno, reno, sack and cubic are not ECN-capable, but queue threshold marks: it drops their packets where it marks others' (drops_nonect)"]
    );
}

#[test]
fn a_bare_number_is_neither_bytes_nor_packets() {
    for (key, value) in [("queue", "threshold:k=20"), ("buffer", "100"), ("rwnd", "0"), ("host_queue", "2")] {
        let number = value.rsplit('=').next().unwrap_or_default();
        let mut set = json!({});
        set[key] = json!(value);
        let e = resolve(&json!({ "scenario": "incast", "set": set }).to_string()).map(|_| ()).unwrap_err();
        assert!(e.rule.contains(&format!("{number}pkt or {number}B")), "{e}");
    }
    // A whole number of a file or of Python.
    let e = resolve(&json!({ "scenario": "incast", "set": { "buffer": 100 } }).to_string())
        .map(|_| ())
        .unwrap_err();
    assert!(e.rule.contains("100pkt or 100B"), "{e}");
}

#[test]
fn progress_counts_work_that_is_done_where_a_run_ends_with_its_work() {
    use penstock_sim::engine::Engine;
    use penstock_units::{Dur, Time};
    use std::sync::atomic::Ordering;
    let share = |workload: &str| {
        let toml = format!("{}{workload}", RINGS.replace("star:8", "star:32"));
        let resolved = resolve(&json!({ "toml": toml }).to_string()).unwrap();
        let mut engine = Engine::new(resolved.setup(0).unwrap()).unwrap();
        let progress = Progress::default();
        engine.step(Time::ZERO + Dur::millis(10), &progress).unwrap();
        progress.now_ps.load(Ordering::Relaxed) as f64 / progress.end_ps.load(Ordering::Relaxed) as f64
    };
    // 32 MB round a ring of 32 at 10 Gb/s take some 50 ms: after 10 ms of one second a fifth is done, not a hundredth.
    let ring = share(&ring("h[0-31]", "32MB"));
    assert!((0.1..0.3).contains(&ring), "{ring}");
    let endless = share("[[workload]]\nfrom = \"h[0-3]\"\nto = \"h[4-7]\"\n");
    assert!((0.005..=0.01).contains(&endless), "{endless}");
}
