//! Workloads that react to what becomes of their flows leave the same bytes on any number of threads.

use penstock_sim::cores::Threads;
use penstock_sim::document::resolve;
use penstock_sim::engine::Progress;
use penstock_sim::fingerprint::fingerprint;
use penstock_sim::scenario::{Outcome, Resolved};
use serde_json::json;

#[path = "fuzz/differing.rs"]
mod differing;
use differing::differing;

/// Four racks of three hosts, with small buffers.
const NETWORK: &str =
    "scenario = \"custom\"\nhosts = [\"h[0-3]x[0-2]\"]\nswitches = [\"l[0-3]\", \"s[0-1]\"]\n\
    rto_min = \"200us\"\nrto_initial = \"200us\"\nsegment = \"1000B\"\ndelayed_ack = 1\n\
    [[link]]\nbetween = [\"l[0-3]\", \"s[0-1]\"]\nrate = \"10Gbps\"\ndelay = \"2us\"\nbuffer = \"30pkt\"\n\
    [[link]]\nbetween = [\"h0x[0-2]\", \"l0\"]\nrate = \"10Gbps\"\ndelay = \"1us\"\nbuffer = \"30pkt\"\n\
    [[link]]\nbetween = [\"h1x[0-2]\", \"l1\"]\nrate = \"10Gbps\"\ndelay = \"1us\"\nbuffer = \"30pkt\"\n\
    [[link]]\nbetween = [\"h2x[0-2]\", \"l2\"]\nrate = \"10Gbps\"\ndelay = \"1us\"\nbuffer = \"30pkt\"\n\
    [[link]]\nbetween = [\"h3x[0-2]\", \"l3\"]\nrate = \"10Gbps\"\ndelay = \"1us\"\nbuffer = \"30pkt\"\n";

const GOAL: &str = "num_ranks 4\n\
    rank 0 {\na: send 30000b to 3 tag 1\nb: recv 20000b from 1 tag 2\nc: calc 700\nc requires b\nd: send 9000b to 2 tag 4\nd requires c\n}\n\
    rank 1 {\na: recv 25000b from 3 tag 3\nb: send 20000b to 0 tag 2\nb requires a\n}\n\
    rank 2 {\na: recv 9000b from 0 tag 4\n}\n\
    rank 3 {\na: recv 30000b from 0 tag 1\nb: send 25000b to 1 tag 3\nb requires a\n}\n";
const MATRIX: &str =
    "Nodes 12\nConnections 3\nTriggers 1\n0->5 id 1 start 0 size 20000 send_done_trigger 1\n\
    5->9 id 2 trigger 1 size 30000\n9->2 id 3 trigger 1 size 10000\ntrigger id 1 oneshot\n";

/// Workloads: what each is called, and its tables.
const WORKLOADS: &[(&str, &str)] = &[
    ("closed loops", "kind = \"closed\"\nfrom = [\"h[0-3]x[0-2]\"]\nto = [\"h[0-3]x[0-2]\"]\nsizes = \"exponential:20KB\"\nthink = \"3us\""),
    ("queries", "kind = \"query\"\nfrom = [\"h[1-3]x[0-2]\"]\nto = \"h0x0\"\nresponse = \"20KB\"\nrepetitions = 6\njitter = \"3us\""),
    ("queries of persistent connections", "kind = \"query\"\nfrom = [\"h[1-3]x[0-2]\"]\nto = \"h0x0\"\nresponse = \"9KB\"\nrepetitions = 6\nconnections = \"persistent\""),
    ("reads", "kind = \"reads\"\nfrom = [\"h[0-3]x[1-2]\"]\nto = \"h2x0\"\nsru = \"20KB\"\nblocks = 4"),
    ("incasts", "kind = \"incast\"\nfrom = [\"h[1-3]x[0-2]\"]\nto = \"h0x1\"\nservers = 5\nresponse = \"15KB\"\nevery = \"60us\""),
    ("all-to-all", "kind = \"all-to-all\"\nsize = \"6KB\"\nwindow = 2\norder = \"random\"\nrepetitions = 2"),
    ("a ring", "kind = \"collective\"\nsize = \"120KB\"\nrepetitions = 2"),
    ("a tree", "kind = \"collective\"\noperation = \"all-reduce\"\nalgorithm = \"tree\"\nsize = \"30KB\""),
    ("a ring by acknowledgements", "kind = \"collective\"\noperation = \"all-gather\"\nsize = \"60KB\"\nadvance = \"acknowledged\"\nconnections = \"persistent\""),
    ("a schedule", "kind = \"goal\"\nhosts = [\"h0x0\", \"h1x1\", \"h2x2\", \"h3x0\"]\nfile = \"four.goal\"\nrepetitions = 3"),
    ("triggers", "kind = \"matrix\"\nfile = \"three.cm\""),
    (
        "two at once",
        "kind = \"collective\"\nhosts = [\"h[0-3]x0\"]\nsize = \"60KB\"\nrepetitions = 3\n\
         [[workload]]\nkind = \"closed\"\nfrom = [\"h[0-3]x[1-2]\"]\nto = [\"h[0-3]x[1-2]\"]\nsizes = \"uniform:1B:40KB\"\n\
         [[workload]]\nkind = \"poisson\"\nfrom = [\"h[0-3]x[0-2]\"]\nto = [\"h[0-3]x[0-2]\"]\nrate = 100000\nsizes = \"fixed:3KB\"",
    ),
];

fn resolved(workload: &str, set: &[(&str, &str)]) -> Resolved {
    let set: serde_json::Map<_, _> = set.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect();
    let toml = format!("{NETWORK}[[workload]]\n{workload}\n");
    let files = json!({ "four.goal": GOAL, "three.cm": MATRIX });
    let document = json!({ "toml": toml, "name": "s.toml", "files": files, "set": set, "seed": 3 });
    resolve(&document.to_string()).unwrap_or_else(|e| panic!("{workload}: {e}"))
}
fn print_of(outcome: &Outcome) -> String {
    fingerprint(&outcome.engine.measured(), &outcome.summary)
}
/// Compares other orders of work with that event by event on one thread; what is wrong, if anything is.
///
/// By node on one thread, the same given up after some windows, by node on several threads, and there event by event.
fn compare(r: &Resolved, what: &str) -> Option<String> {
    let whole = r.run(0, &Progress::default()).unwrap();
    let print = print_of(&whole);
    if whole.engine.measured().recorder.flow_totals.completed + whole.engine.measured().recorder.blocks == 0 {
        return Some(format!("{what}: nothing is complete"));
    }
    let sparse = Threads { least_packets: 0, ..Threads::up_to(1) };
    let by_event = Threads { by_windows: false, ..Threads::always(2) };
    for threads in [1, 2, 3, 7].map(Threads::always).into_iter().chain([sparse, by_event]) {
        let (outcome, cores) = r.run_on(0, &threads, &Progress::default()).unwrap();
        if (cores.threads > 1) != (threads.most > 1) {
            return Some(format!("{what}: {:?}", cores.note));
        }
        if print_of(&outcome) != print {
            let said = differing(&whole.engine.measured(), &outcome.engine.measured(), &[]);
            let keys = outcome
                .summary
                .iter()
                .filter(|(k, v)| whole.summary.get(*k).is_none_or(|w| w.to_bits() != v.to_bits()));
            let keys: Vec<_> =
                keys.take(4).map(|(k, v)| format!("{k} {v} for {:?}", whole.summary.get(k))).collect();
            return Some(format!("{what}: other bytes on {threads:?}: {keys:?}, {said}"));
        }
    }
    None
}

#[test]
fn workloads_that_react_leave_the_same_bytes_on_any_number_of_threads() {
    let mut wrong = Vec::new();
    for (name, workload) in WORKLOADS {
        for (protocol, more) in [
            ("dctcp", ("queue", "threshold:k=10pkt")),
            ("newreno", ("ties", "reversed")),
            ("cubic", ("send_jitter", "0s")),
            ("roce", ("pfc", "on:xoff=20KB,xon=10KB")),
            ("dcqcn", ("pfc", "on:xoff=20KB,xon=10KB")),
            ("hpcc", ("ties", "reversed")),
            ("swift", ("send_jitter", "0s")),
            ("nscc", ("spread", "packet")),
            ("homa:resend=200us", ("duration", "20ms")),
            ("ndp", ("ties", "reversed")),
            ("pfabric", ("spread", "drawn")),
            ("dctcp", ("nic", "pull")),
        ] {
            let set = [("protocol", protocol), ("duration", "5ms"), more];
            wrong.extend(compare(&resolved(workload, &set), &format!("{name}, {protocol}")));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Flows come and go between samples, and a few have places in the table of series.
#[test]
fn samples_of_flows_that_come_and_go_are_the_same_on_any_number_of_threads() {
    let mut wrong = Vec::new();
    for (name, workload) in WORKLOADS {
        for (protocol, more) in [
            ("dctcp", ("queue", "threshold:k=10pkt")),
            ("dcqcn", ("pfc", "on:xoff=20KB,xon=10KB")),
            ("hpcc", ("ties", "reversed")),
            ("swift", ("send_jitter", "0s")),
            ("nscc", ("warmup", "100us")),
            ("ndp", ("spread", "packet")),
        ] {
            for series in ["true", "false"] {
                let set = [
                    ("protocol", protocol),
                    ("duration", "1ms"),
                    ("sample", "7us"),
                    ("series", series),
                    more,
                ];
                let what = format!("{name}, {protocol}, series={series}");
                // Some complete nothing in so short a time.
                wrong.extend(
                    compare(&resolved(workload, &set), &what).filter(|said| !said.ends_with("complete")),
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What has no delay joins the hosts: such a run is made on one thread and says so.
#[test]
fn requests_without_delay_join_the_hosts() {
    let r = resolved(WORKLOADS[1].1, &[("protocol", "dctcp"), ("requests", "instant"), ("duration", "1ms")]);
    let (outcome, cores) = r.run_on(0, &Threads::always(2), &Progress::default()).unwrap();
    assert_eq!(print_of(&outcome), print_of(&r.run(0, &Progress::default()).unwrap()));
    assert!(
        cores.threads == 1 && cores.note.as_deref().unwrap_or_default().contains("requests=instant"),
        "{cores:?}"
    );
}

/// Timeouts come while packets are inside the receiving host: these bytes are not there yet, whichever host is ahead of the other.
#[test]
fn bytes_inside_a_host_are_not_received_on_any_number_of_threads() {
    let given = [
        ("protocol", "pias:window=7,rto=34us,adapt=true,backoff=true"),
        ("processing_delay", "229us"),
        ("queue", "threshold"),
        ("servers", "8"),
        ("duration", "3700us"),
    ];
    let given: Vec<_> = given.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let mut wrong = Vec::new();
    for seed in [1, 2, 3] {
        let r = Resolved::new("query", &given, seed, serde_json::Value::Null).unwrap();
        let whole = r.run(0, &Progress::default()).unwrap();
        assert!(!whole.engine.recorder.events.is_empty(), "nothing has timed out");
        for threads in [1, 2, 3, 7].map(Threads::always) {
            let (other, _) = r.run_on(0, &threads, &Progress::default()).unwrap();
            if print_of(&other) != print_of(&whole) {
                wrong.push(format!(
                    "seed {seed} on {threads:?}: {}",
                    differing(&whole.engine.measured(), &other.engine.measured(), &[])
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A card is replayed when what it has sent arrives, long after that where its link is long: what it has lost meanwhile counts at once, in timeouts, flows
/// and samples.
#[test]
fn losses_of_a_card_behind_a_long_link_count_when_they_happen_on_any_number_of_threads() {
    const NETWORK: &str = "scenario = \"custom\"\nhosts = [\"h[0-5]\"]\nswitches = [\"s0\"]\nnic = \"pull\"\nduration = \"40ms\"\nwarmup = \"5ms\"\n\
        [[link]]\nbetween = [\"h[0-2]\", \"s0\"]\nrate = \"100Mbps\"\ndelay = \"1ms\"\nloss = 0.1\n\
        [[link]]\nbetween = [\"h[3-5]\", \"s0\"]\nrate = \"1Gbps\"\ndelay = \"2us\"\nloss = 0.1\n\
        [[workload]]\nfrom = [\"h[0-5]\"]\nto = [\"h[0-5]\"]\n";
    const CLOSED: &str = "kind = \"closed\"\nsizes = \"exponential:20KB\"\nthink = \"3us\"\n";
    const POISSON: &str = "kind = \"poisson\"\nrate = 10000\nsizes = \"fixed:9KB\"\n";
    let mut wrong = Vec::new();
    for (workload, protocol, rto, sample) in [
        (CLOSED, "newreno", "20ms", "off"),
        (CLOSED, "nscc", "200us", "500us"),
        (POISSON, "nscc", "200us", "off"),
    ] {
        let mut set = json!({ "protocol": protocol, "rto_min": rto, "rto_initial": rto, "series": "false" });
        if sample != "off" {
            (set["sample"], set["series"]) = (json!(sample), json!("true"));
        }
        let document =
            json!({ "toml": format!("{NETWORK}{workload}"), "name": "s.toml", "set": set, "seed": 3 });
        let r = resolve(&document.to_string()).unwrap_or_else(|e| panic!("{protocol}: {e}"));
        wrong.extend(compare(&r, &format!("{protocol}, {workload}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
