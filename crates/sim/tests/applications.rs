//! Applications of different hosts share nothing but messages and packets: what one draws and in which order they act has no effect on
//! another. Messages take the idle delay of the path, repetitions that of two.

use penstock_core::rng::Entity;
use penstock_core::Stream;
use penstock_sim::document::resolve;
use penstock_sim::engine::{Engine, Progress};
use penstock_sim::metrics::{Event, What};
use penstock_sim::scenario::Resolved;
use serde_json::json;
use std::fmt::Write as _;

/// Hosts on one switch, links of 10 Gb/s and 1 us.
fn star(hosts: u32, keys: &str, workloads: &[&str]) -> Resolved {
    let mut text = format!(
        "scenario = \"custom\"\nduration = \"20ms\"\nhosts = [\"h[0-{}]\"]\nswitches = [\"s\"]\nsend_jitter = \"0s\"\n{keys}\n\
         [[link]]\nbetween = [\"h[0-{}]\", \"s\"]\nrate = \"10Gbps\"\ndelay = \"1us\"\nbuffer = \"10MB\"\n",
        hosts - 1,
        hosts - 1
    );
    workloads.iter().for_each(|workload| write!(text, "[[workload]]\n{workload}\n").unwrap());
    let document = json!({ "toml": text, "name": "w.toml", "seed": 3 });
    resolve(&document.to_string()).unwrap_or_else(|e| panic!("{e}"))
}
fn run(resolved: &Resolved, order: Option<u64>) -> Engine {
    let mut engine = Engine::new(resolved.setup(0).unwrap()).unwrap();
    if let Some(order) = order {
        engine.shuffle_apps(Stream::new(order, 0, Entity::Workload, 0));
    }
    engine.run(&Progress::default()).unwrap();
    engine
}
/// What a workload's hosts have sent: ends, size and times of every flow, without the numbers that count all workloads' flows.
fn flows(engine: &Engine, workload: u32) -> Vec<String> {
    let rows = engine.recorder.flows.iter().filter(|row| row.workload == workload);
    let mut found: Vec<String> =
        rows.map(|r| format!("{:?} {} -> {}: {} {:?}", r.opened, r.src, r.dst, r.size, r.closed)).collect();
    found.sort_unstable();
    found
}
/// Begins and ends of the blocks, in seconds.
fn blocks(engine: &Engine) -> Vec<(f64, f64)> {
    let of = |x: &Event| (x.at.as_secs() - x.length.as_secs(), x.at.as_secs());
    engine.recorder.events.iter().filter(|x| x.what == What::Block).map(of).collect()
}

/// One of each kind, on four hosts.
const WORKLOADS: [&str; 9] = [
    "kind = \"closed\"\nfrom = \"h[0-3]\"\nto = \"h[0-3]\"\nsizes = \"exponential:20KB\"\nspread = \"50us\"\ncount = 40",
    "kind = \"query\"\nfrom = \"h[0-2]\"\nto = \"h3\"\nresponse = \"9KB\"\njitter = \"5us\"\nrepetitions = 9",
    "kind = \"query\"\nfrom = \"h[0-2]\"\nto = \"h3\"\nresponse = \"9KB\"\nconnections = \"persistent\"\nrepetitions = 9",
    "kind = \"reads\"\nfrom = \"h[0-2]\"\nto = \"h3\"\nsru = \"9KB\"\njitter = \"5us\"\nblocks = 9",
    "kind = \"all-to-all\"\nhosts = \"h[0-3]\"\nsize = \"9KB\"\norder = \"random\"\nspread = \"9us\"\nwindow = 2\nrepetitions = 3",
    "kind = \"collective\"\nhosts = \"h[0-3]\"\nsize = \"90KB\"\nspread = \"9us\"\nrepetitions = 3",
    "kind = \"collective\"\nhosts = \"h[0-3]\"\nsize = \"90KB\"\nalgorithm = \"tree\"\nconnections = \"persistent\"\nrepetitions = 3",
    "kind = \"poisson\"\nfrom = \"h[0-3]\"\nto = \"h[0-3]\"\nsizes = \"exponential:9KB\"\nrate = 9000",
    "kind = \"incast\"\nfrom = \"h[0-2]\"\nto = \"h3\"\nresponse = \"9KB\"\nevery = \"900us\"\nservers = 2\njitter = \"5us\"",
];

#[test]
fn an_idle_host_and_another_workload_change_nothing_that_a_workload_draws() {
    let other =
        "kind = \"poisson\"\nfrom = \"h[4-5]\"\nto = \"h[4-5]\"\nsizes = \"exponential:9KB\"\nrate = 9000";
    let closed =
        "kind = \"closed\"\nfrom = \"h[4-5]\"\nto = \"h[4-5]\"\nsizes = \"exponential:9KB\"\ncount = 50";
    for workload in WORKLOADS {
        for requests in ["travel", "instant"] {
            let keys = format!("requests = \"{requests}\"");
            let alone = flows(&run(&star(4, &keys, &[workload]), None), 0);
            assert!(!alone.is_empty());
            assert_eq!(flows(&run(&star(6, &keys, &[workload]), None), 0), alone, "idle hosts: {workload}");
            let with = flows(&run(&star(6, &keys, &[workload, other, closed]), None), 0);
            assert_eq!(with.len(), alone.len(), "other workloads: {workload}");
            // A run ends with its last workload: flows that others outlast are over a little later.
            let begins = |all: &[String]| -> Vec<String> {
                all.iter().map(|row| row.rsplit_once(' ').unwrap().0.to_owned()).collect()
            };
            assert_eq!(begins(&with), begins(&alone), "other workloads: {workload}");
        }
    }
}

#[test]
fn the_order_of_hosts_at_one_instant_has_no_effect() {
    // Everything begins at once, so that hosts act at the same instants again and again.
    let plain: Vec<String> =
        WORKLOADS.iter().map(|w| w.replace("spread = \"9us\"", "").replace("jitter = \"5us\"", "")).collect();
    for workload in plain.iter().map(String::as_str).chain(WORKLOADS) {
        for requests in ["travel", "instant"] {
            let resolved = star(4, &format!("requests = \"{requests}\""), &[workload]);
            let reference = run(&resolved, None);
            for order in 1..4 {
                let other = run(&resolved, Some(order));
                assert_eq!(flows(&other, 0), flows(&reference, 0), "{workload}, {requests}");
                assert_eq!(blocks(&other), blocks(&reference), "{workload}, {requests}");
            }
        }
    }
}

/// A message takes a header of 40 bytes over two links.
const WORD: f64 = 2.0 * (1e-6 + 40.0 * 8.0 / 10e9);

/// All hosts complete their shares at the same time. The others' reports reach the root a word later, and the next repetition begins
/// there at once. With instant requests nothing takes time.
#[test]
fn a_repetition_begins_when_the_root_has_heard_of_all_hosts() {
    for kind in ["all-to-all", "collective"] {
        let workload = format!("kind = \"{kind}\"\nhosts = \"h[0-3]\"\nsize = \"40KB\"\nrepetitions = 4");
        for (requests, word) in [("travel", WORD), ("instant", 0.0)] {
            let found = blocks(&run(&star(4, &format!("requests = \"{requests}\""), &[&workload]), None));
            assert_eq!(found.len(), 4, "{kind}, {requests}");
            for two in found.windows(2) {
                let pause = two[1].0 - two[0].1;
                assert!((pause - word).abs() < 1e-9, "{kind}, {requests}: {pause} s, {word} s by hand");
            }
        }
    }
}

/// A flow of a closed loop follows the one before it when word of that has come back, and the pause of thought is over.
#[test]
fn the_next_flow_of_a_closed_loop_waits_for_the_word_of_its_receiver() {
    let workload =
        "kind = \"closed\"\nfrom = \"h0\"\nto = \"h1\"\nsizes = \"fixed:1460\"\nthink = \"7us\"\ncount = 5";
    let engine = run(&star(2, "", &[workload]), None);
    let delivered: Vec<f64> = engine.recorder.transfers.iter().map(|t| t.delivered.as_secs()).collect();
    let opened: Vec<f64> = engine.recorder.flows.iter().map(|f| f.opened.as_secs()).collect();
    assert_eq!((delivered.len(), opened.len()), (5, 5));
    for (delivered, opened) in delivered.iter().zip(&opened[1..]) {
        assert!((opened - delivered - WORD - 7e-6).abs() < 1e-9, "{opened} s after {delivered} s");
    }
}

#[test]
fn flows_of_a_closed_loop_are_divided_among_its_sources_beforehand() {
    let workload =
        "kind = \"closed\"\nfrom = \"h[0-2]\"\nto = \"h3\"\nsizes = \"exponential:20KB\"\ncount = 11";
    for requests in ["travel", "instant"] {
        let engine = run(&star(4, &format!("requests = \"{requests}\""), &[workload]), None);
        let topology = engine.topology();
        let of = |host: &str| {
            let host = topology.find(host);
            engine.recorder.flows.iter().filter(|f| Some(f.src) == host).count()
        };
        assert_eq!([of("h0"), of("h1"), of("h2")], [4, 4, 3], "{requests}");
    }
}

/// A run ends one smallest delay after its last acknowledgement, which is as long as the news of it takes; with instant requests at once.
#[test]
fn a_run_ends_one_smallest_delay_after_its_last_acknowledgement() {
    let workload = "kind = \"query\"\nfrom = \"h0\"\nto = \"h1\"\nresponse = \"9KB\"\nconnections = \"persistent\"\nrepetitions = 3";
    for (requests, later) in [("travel", 1e-6), ("instant", 0.0)] {
        let engine = run(&star(2, &format!("requests = \"{requests}\""), &[workload]), None);
        let last = engine.recorder.transfers.iter().map(|t| t.acked.as_secs()).fold(0.0, f64::max);
        assert!((engine.now().as_secs() - last - later).abs() < 1e-12, "{requests}: {:?}", engine.now());
    }
}
