//! Runs of every transport, port kind and link event leave the same bytes on any number of threads.

use penstock_sim::cores::Threads;
use penstock_sim::document::resolve;
use penstock_sim::engine::Progress;
use penstock_sim::fingerprint::fingerprint;
use penstock_sim::scenario::{Outcome, Resolved};
use serde_json::{json, Value};
use std::fmt::Write;
use std::panic::{catch_unwind, AssertUnwindSafe};

#[path = "fuzz/differing.rs"]
mod differing;
use differing::differing;

fn print_of(outcome: &Outcome) -> String {
    fingerprint(&outcome.engine.measured(), &outcome.summary)
}
/// Event by event in one logical process; there by windows, and on several threads in either order, however little there is to do in a window; answers the
/// first.
fn compare(r: &Resolved, what: &str, numbers: &[usize]) -> Outcome {
    let whole = r.run(0, &Progress::default()).unwrap();
    let print = print_of(&whole);
    let alone = Threads { least_hops: u64::MAX, ..Threads::always(3) };
    let several = Threads { shares: 4, ..Threads::always(2) };
    let by_event = Threads { by_windows: false, ..Threads::always(3) };
    let numbers = [&[1], numbers].concat();
    for threads in numbers.iter().map(|n| Threads::always(*n)).chain([alone, several, by_event]) {
        let (outcome, cores) = r.run_on(0, &threads, &Progress::default()).unwrap();
        assert!(
            outcome.completed && (cores.threads > 1) == (threads.most > 1),
            "{what} on {threads:?}: {:?}",
            cores.note
        );
        assert!(outcome.engine.conservation().delivered > 0, "{what}");
        if print_of(&outcome) != print {
            panic!(
                "{what} on {threads:?}: {}",
                differing(&whole.engine.measured(), &outcome.engine.measured(), &[])
            );
        }
    }
    whole
}
/// All cases are tried before one of them fails the test.
fn each<T: Copy>(cases: &[T], name: impl Fn(T) -> String, run: impl Fn(T, &str)) {
    let failed = |case: &&T| {
        let (case, name) = (**case, name(**case));
        catch_unwind(AssertUnwindSafe(|| run(case, &name))).is_err()
    };
    let failed: Vec<_> = cases.iter().filter(failed).map(|case| name(*case)).collect();
    assert!(failed.is_empty(), "{failed:?}");
}
fn named(scenario: &str, given: &[(&str, &str)]) -> Resolved {
    let given: Vec<_> = given.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    Resolved::new(scenario, &given, 1, Value::Null).unwrap_or_else(|e| panic!("{scenario} {given:?}: {e}"))
}
const ALL: [usize; 4] = [2, 3, 7, 16];

/// Clocks of whole nanoseconds put what happens in one nanosecond into the order in which the HPCC group's ns-3 has planned it.
#[test]
fn links_that_count_whole_nanoseconds_leave_the_same_bytes_on_any_number_of_threads() {
    let cases = ["hpcc:rules=hpcc-ns3,clock=whole-ns", "dcqcn:rules=hpcc-ns3,clock=whole-ns"];
    each(&cases, str::to_owned, |protocol, what| {
        for topology in ["leaf-spine:2x2x4", "fat-tree:4"] {
            let given =
                [("topology", topology), ("duration", "100us"), ("protocol", protocol), ("pfc", "on")];
            compare(&named("permutation", &given), what, &[2, 3, 7]);
        }
    });
}

/// A card replays a timer that is shorter than the delay of its link late. How many packets were lost until it went off is then known on one thread only,
/// where such a run is made again.
#[test]
fn timeouts_that_a_card_replays_leave_the_same_bytes_on_any_number_of_threads() {
    let r = named("incast", &[("protocol", "nscc:rto=1us"), ("duration", "5ms"), ("servers", "8")]);
    let whole = r.run(0, &Progress::default()).unwrap();
    assert!(!whole.engine.recorder.events.is_empty());
    for threads in [1, 2, 3] {
        let (outcome, _) = r.run_on(0, &Threads::always(threads), &Progress::default()).unwrap();
        assert_eq!(print_of(&outcome), print_of(&whole), "on {threads} threads");
    }
}

/// How many bytes were lost at a timeout is what the receiver did not have then, in whichever order nodes work. Cases: packets that come before
/// the sender knows the receiver's handle, headers that switches send back, packets that a host holds before its stack sees them, and segments that it merges.
#[test]
fn bytes_lost_at_a_timeout_are_the_same_on_any_number_of_threads() {
    let cases: [(&str, &[(&str, &str)]); 6] = [
        (
            "staggered",
            &[
                ("duration", "41ms"),
                ("flows", "7"),
                ("protocol", "ndp:queue=42,header_queue=11124B,rto=416712494ps"),
                ("sample", "413810ns"),
            ],
        ),
        ("long-flows", &[("flows", "4"), ("duration", "3ms"), ("protocol", "ndp:rto=93us")]),
        (
            "long-flows",
            &[("flows", "12"), ("duration", "3ms"), ("protocol", "eqds:rto=201us,ack_after=24029B")],
        ),
        (
            "mix",
            &[
                ("duration", "1ms"),
                ("processing_delay", "22us"),
                ("protocol", "dctcp-roce:rto=18us"),
                ("short_flows", "48"),
                ("sources", "9"),
                ("topology", "fat-tree:4"),
            ],
        ),
        (
            "permutation",
            &[
                ("duration", "2ms"),
                ("receive_delay", "30us"),
                ("protocol", "sack"),
                ("rto_min", "40us"),
                ("rto_initial", "40us"),
                ("topology", "fat-tree:4"),
            ],
        ),
        (
            "permutation",
            &[
                ("duration", "2ms"),
                ("gro", "30us"),
                ("protocol", "linux-cubic"),
                ("buffer", "5pkt"),
                ("rto_min", "40us"),
                ("rto_initial", "40us"),
                ("topology", "fat-tree:4"),
            ],
        ),
    ];
    each(
        &cases,
        |case| format!("{case:?}"),
        |(scenario, given), what| {
            let mut given = given.to_vec();
            given.push(("warmup", "0s"));
            let r = named(scenario, &given);
            let whole = r.run(0, &Progress::default()).unwrap();
            let lost = whole.engine.recorder.events.iter().filter(|e| e.lost > 0).count();
            assert!(lost > 0, "{what}: {} timeouts", whole.engine.recorder.events.len());
            for number in [1, 2, 3, 7] {
                let (outcome, _) = r.run_on(0, &Threads::always(number), &Progress::default()).unwrap();
                assert_eq!(print_of(&outcome), print_of(&whole), "{what} on {number} threads");
            }
        },
    );
}

/// Congestion headers, telemetry in full and in one byte, trimmed packets, headers sent back, grants, credits, priorities, pauses: all of it crosses
/// links between logical processes.
#[test]
fn every_transport_leaves_the_same_bytes_on_any_number_of_threads() {
    let protocols = [
        "nscc",
        "rccc",
        "eqds",
        "nscc-rccc",
        "homa",
        "ndp",
        "phost",
        "pfabric",
        "pias",
        "hpcc",
        "powertcp",
        "timely",
        "swift",
        "dcqcn",
        "roce",
        "dctcp-roce",
        "rcp",
        "xcp",
        "d3",
        "bbr",
        "cubic",
    ];
    each(&protocols, str::to_owned, |protocol, what| {
        let given =
            [("topology", "fat-tree:4"), ("duration", "120us"), ("protocol", protocol), ("buffer", "20pkt")];
        compare(&named("permutation", &given), what, &ALL);
    });
}

/// Series of flows that last, and of flows that come and go, above cards that pull.
#[test]
fn series_above_cards_that_pull_are_the_same_on_any_number_of_threads() {
    let cases: [&[(&str, &str)]; 6] = [
        &[("protocol", "nscc")],
        &[("protocol", "hpcc")],
        &[("protocol", "dcqcn"), ("pfc", "on:xoff=20KB,xon=10KB"), ("ties", "reversed")],
        &[("protocol", "swift"), ("flow_size", "100KB"), ("warmup", "20us")],
        &[("protocol", "homa"), ("flow_size", "100KB")],
        &[("protocol", "dctcp"), ("nic", "pull"), ("flow_size", "50KB")],
    ];
    each(
        &cases,
        |case| format!("{case:?}"),
        |case, what| {
            let mut given = vec![
                ("topology", "fat-tree:4"),
                ("duration", "150us"),
                ("sample", "7us"),
                ("series", "true"),
            ];
            given.extend(case);
            let whole = compare(&named("permutation", &given), what, &ALL);
            assert!(whole.engine.recorder.series.len() > 100, "{what}");
        },
    );
}

/// Deliveries follow every packet: its path, its place in the order of sending, and whether its payload was cut off.
#[test]
fn deliveries_are_the_same_on_any_number_of_threads() {
    let cases: [&[(&str, &str)]; 7] = [
        &[("protocol", "nscc"), ("trim", "64B"), ("buffer", "5pkt"), ("spread", "packet")],
        &[("protocol", "nscc"), ("flow_size", "600KB"), ("warmup", "20us")],
        &[("protocol", "sack"), ("reorder", "share=0.1,delay=50us"), ("buffer", "10pkt")],
        &[("protocol", "homa"), ("flow_size", "600KB"), ("warmup", "20us")],
        &[("protocol", "ndp"), ("spread", "packet"), ("buffer", "3pkt"), ("ties", "reversed")],
        &[("protocol", "dcqcn"), ("pfc", "on:xoff=20KB,xon=10KB"), ("sample", "7us"), ("series", "true")],
        &[("protocol", "dctcp"), ("flow_size", "50KB"), ("rto_min", "200us"), ("buffer", "5pkt")],
    ];
    each(
        &cases,
        |case| format!("{case:?}"),
        |case, what| {
            let mut given = vec![("topology", "fat-tree:4"), ("duration", "150us"), ("deliveries", "true")];
            given.extend(case);
            let whole = compare(&named("permutation", &given), what, &ALL);
            let found = whole.engine.recorder.deliveries.as_deref().unwrap();
            assert!(found.paths.len() > 10 && found.flows.values().any(|f| f.packets > 10), "{what}");
        },
    );
}

/// What a failed link takes is followed until it has arrived, which is asked across the network at once.
#[test]
fn deliveries_of_a_run_with_failures_are_made_on_one_thread() {
    let text = racks("sack", "deliveries = true\nfail = \"l0<->s0@100us-300us\"\nrto_min = \"200us\"\n");
    let r = resolve(&json!({ "toml": text, "seed": 1, "base_dir": "." }).to_string()).unwrap();
    let (outcome, cores) = r.run_on(0, &Threads::always(2), &Progress::default()).unwrap();
    assert!(cores.threads == 1 && cores.note.unwrap_or_default().contains("failed link"));
    assert_eq!(print_of(&outcome), print_of(&r.run(0, &Progress::default()).unwrap()));
}

/// Pauses, shared thresholds, schedulers, trimming, rules at arrival and dequeue, reordering, path choices, receiving hosts that are late.
#[test]
fn every_kind_of_port_and_host_leaves_the_same_bytes_on_any_number_of_threads() {
    let cases: [&[(&str, &str)]; 22] = [
        &[("protocol", "dcqcn"), ("pfc", "on:xoff=20KB,xon=10KB")],
        &[("protocol", "roce"), ("pfc", "on:alpha=0.1,gap=3KB")],
        &[("protocol", "timely"), ("pfc", "on:xoff=9KB,xon=3KB"), ("warmup", "50us"), ("sample", "7us")],
        &[("protocol", "hpcc"), ("spread", "packet"), ("warmup", "33us")],
        &[("protocol", "hpcc:int=pint")],
        &[("protocol", "dctcp"), ("priorities", "8"), ("schedule", "drr:quantum=1500B")],
        &[
            ("protocol", "nscc"),
            ("priorities", "2"),
            ("schedule", "strict"),
            ("trim", "64B:priority=7,tail=0.5"),
        ],
        &[("protocol", "cubic"), ("queue", "red:min=3pkt,max=9pkt,ecn=true")],
        &[("protocol", "nscc"), ("trim", "64B"), ("buffer", "5pkt"), ("spread", "packet")],
        &[("protocol", "sack"), ("reorder", "share=0.1,delay=50us"), ("buffer", "10pkt")],
        &[("protocol", "homa"), ("buffer", "3pkt")],
        &[("protocol", "ndp"), ("buffer", "3pkt"), ("ties", "reversed")],
        &[("protocol", "nscc"), ("ties", "reversed"), ("send_jitter", "0s")],
        &[("protocol", "dcqcn"), ("ties", "reversed"), ("pfc", "on:xoff=9KB,xon=3KB"), ("send_jitter", "0s")],
        &[("protocol", "dctcp"), ("receive_delay", "3us")],
        &[("protocol", "swift"), ("receive_jitter", "5us")],
        &[("protocol", "newreno"), ("receive_control", "ictcp")],
        &[("protocol", "dctcp"), ("nic", "pull")],
        &[("protocol", "hpcc"), ("spread", "adaptive")],
        &[("protocol", "nscc"), ("spread", "flowlet:gap=2us")],
        &[("protocol", "eqds"), ("spread", "entropy")],
        &[("protocol", "dctcp"), ("queue", "ramp:kmin=5000B,kmax=20000B")],
    ];
    each(
        &cases,
        |case| format!("{case:?}"),
        |case, what| {
            let mut given = vec![("topology", "fat-tree:4"), ("duration", "150us")];
            given.extend(case);
            compare(&named("permutation", &given), what, &ALL);
        },
    );
}

/// Four racks of four hosts, of which most send to the next rack and some hosts get much.
fn racks(protocol: &str, more: &str) -> String {
    let mut text = format!("scenario = \"custom\"\nprotocol = \"{protocol}\"\nhosts = [\"h[0-3]x[0-3]\"]\n");
    write!(text, "switches = [\"l[0-3]\", \"s[0-1]\"]\nduration = \"1500us\"\n{more}").unwrap();
    let link = "rate = \"10Gbps\"\ndelay = \"2us\"\n";
    write!(text, "[[link]]\nbetween = [\"l[0-3]\", \"s[0-1]\"]\n{link}").unwrap();
    for rack in 0..4 {
        write!(text, "[[link]]\nbetween = [\"h{rack}x[0-3]\", \"l{rack}\"]\n{link}").unwrap();
    }
    for (from, to) in [(0, 1), (1, 2), (2, 3), (3, 0), (2, 0), (3, 1)] {
        let flows =
            format!("from = \"h{from}x[0-3]\"\nto = \"h{to}x0\"\nsize = \"60KB\"\nspread = \"200us\"\n");
        write!(text, "[[workload]]\nkind = \"flows\"\n{flows}").unwrap();
    }
    text
}

/// Links between racks fail, lose what is on their wires, come back, and slow down: on both sides of a boundary at the same time.
#[test]
fn links_that_change_leave_the_same_bytes_on_any_number_of_threads() {
    let fail = "fail = \"l0<->s0@100us-300us; s1->l2@150us-400us; l1->s1@50us-500us,rate=1Gbps; s0<->l3@201us-250us,waiting=kept\"\n";
    let cases = [
        ("sack", "buffer = \"20pkt\"\nrto_min = \"200us\"\n"),
        ("sack", "reorder = \"share=0.3,delay=9us\"\nrto_min = \"200us\"\nsend_jitter = \"0s\"\n"),
        ("nscc", "spread = \"packet\"\n"),
        ("hpcc", "pfc = \"on:xoff=20KB,xon=10KB\"\n"),
        ("dcqcn", "pfc = \"on:alpha=0.1,gap=3KB\"\nsend_jitter = \"0s\"\nties = \"reversed\"\n"),
        ("homa", "spread = \"packet\"\n"),
        ("ndp", "spread = \"packet\"\nsend_jitter = \"0s\"\n"),
        ("dctcp", "buffer = \"shared:alpha=1,size=100KB\"\nloss_events = true\nrto_min = \"200us\"\n"),
        ("swift", "pfc = \"on:xoff=20KB,xon=10KB\"\npause_events = true\n"),
    ];
    each(
        &cases,
        |(protocol, more)| format!("{protocol} {more}"),
        |(protocol, more), what| {
            let text = racks(protocol, &format!("{fail}{more}"));
            let r = resolve(&json!({ "toml": text, "seed": 1, "base_dir": "." }).to_string()).unwrap();
            compare(&r, what, &[2, 4]);
        },
    );
}

/// Hosts are in other partitions than their switches, so that pauses reach cards and packets leave cards across boundary links. The networks: hosts at one
/// switch, hosts with two links, hosts that are linked to each other, servers with short links inside.
#[test]
fn hosts_without_a_switch_of_their_own_leave_the_same_bytes_on_any_number_of_threads() {
    let link = "rate = \"10Gbps\"\ndelay = \"2us\"\nbuffer = \"30pkt\"\n";
    let star =
        format!("hosts = [\"h[0-5]\"]\nswitches = [\"s\"]\n[[link]]\nbetween = [\"h[0-5]\", \"s\"]\n{link}");
    let homes = format!(
        "hosts = [\"h[0-5]\"]\nswitches = [\"s[0-1]\"]\n[[link]]\nbetween = [\"h[0-5]\", \"s[0-1]\"]\n{link}"
    );
    let direct = ["[1-4]", "[1-5]"].map(|to| format!("\"h{to}\""));
    let direct = [("h0", &direct[1]), ("h5", &direct[0])]
        .map(|(from, to)| format!("[[link]]\nbetween = [\"{from}\", {to}]\n{link}"));
    let direct = "hosts = [\"h[0-5]\"]\n".to_owned() + &direct.concat();
    let short = (0..3).map(|i| {
        let inside = "rate = \"100Gbps\"\ndelay = \"20ns\"\n";
        format!("[[link]]\nbetween = [\"h{}\", \"h{}\"]\n{inside}", 2 * i, 2 * i + 1)
    });
    let short = format!("{star}{}", short.collect::<String>());
    let flows =
        "[[workload]]\nkind = \"flows\"\nfrom = [\"h0\", \"h2\", \"h4\"]\nto = \"h5\"\nsize = \"90KB\"\n\
                 [[workload]]\nkind = \"flows\"\nfrom = [\"h1\", \"h3\", \"h5\"]\nto = \"h0\"\n";
    let one_link = [
        ("dctcp", "rto_min = \"200us\"\n"),
        ("dctcp", "nic = \"pull\"\n"),
        ("dcqcn", "pfc = \"on:xoff=20KB,xon=10KB\"\nsample = \"11us\"\nwarmup = \"100us\"\n"),
        ("hpcc", "pfc = \"on:xoff=20KB,xon=10KB\"\nsend_jitter = \"0s\"\n"),
        ("nscc", "send_jitter = \"0s\"\n"),
        ("homa", ""),
        ("ndp", "ties = \"reversed\"\n"),
        ("swift", "fail = \"h0<->s@100us-200us; s->h5@150us-900us,rate=1Gbps\"\n"),
    ];
    let mut cases: Vec<(&str, &str, &str)> =
        one_link.map(|(protocol, more)| (protocol, more, &*star)).to_vec();
    cases.extend([&homes, &direct, &short].map(|net| ("sack", "rto_min = \"200us\"\n", &**net)));
    each(
        &cases,
        |(protocol, more, net)| format!("{protocol} {more} {net}"),
        |(protocol, more, net), what| {
            let keys = "scenario = \"custom\"\nduration = \"1ms\"\n";
            let text = format!("{keys}protocol = \"{protocol}\"\n{more}{net}{flows}");
            let r = resolve(&json!({ "toml": text, "seed": 1, "base_dir": "." }).to_string()).unwrap();
            compare(&r, what, &[2, 3]);
        },
    );
}

/// Every link waits for the next one's buffer: the look that finds it ends the run on every thread at the same time.
#[test]
fn a_deadlock_ends_a_run_on_several_threads_as_on_one() {
    let text =
        std::fs::read_to_string(format!("{}/../../docs/ring.toml", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let r = resolve(&json!({ "toml": text, "seed": 1, "base_dir": "." }).to_string()).unwrap();
    let whole = compare(&r, "ring", &[2, 3]);
    assert!(whole.engine.measured().deadlock.is_some());
}
