//! Workloads of scenario files: what they offer against what the file asks for, by driving them without a network.

use penstock_sim::document;
use penstock_sim::engine::Progress;
use penstock_sim::setup::Setup;
use penstock_sim::workloads::{Action, Actions, FlowRequest};
use penstock_units::{Dur, Time};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

const HEAD: &str = "scenario = \"custom\"\nduration = \"100ms\"\nrto_initial = \"1ms\"\nrto_min = \"1ms\"\n\
                    topology = \"leaf-spine:4x2x4\"\nlink_rate = \"10Gbps\"\nlink_delay = \"1us\"\noversubscription = 1\n";

fn text(workload: &str) -> String {
    json!({ "toml": format!("{HEAD}[[workload]]\n{workload}\n"), "name": "w.toml" }).to_string()
}
fn setup(workload: &str, run: u64) -> Setup {
    document::resolve(&text(workload)).unwrap_or_else(|e| panic!("{e}")).setup(run).unwrap()
}
fn error(workload: &str) -> String {
    document::resolve(&text(workload)).err().map(|e| e.to_string()).unwrap_or_default()
}
/// Flows that begin by themselves before the end of the run.
fn flows(setup: &mut Setup, workload: usize) -> Vec<(Time, FlowRequest)> {
    let end = Time::ZERO + setup.duration;
    let mut app = setup.workloads.remove(workload).into_app();
    let mut found = Vec::new();
    while app.next_event() < end {
        let (now, mut actions) = (app.next_event(), Actions::default());
        app.on_timer(now, &mut actions);
        let opened = actions.take().into_iter().filter_map(|a| match a {
            Action::Open(request) => Some((now, request)),
            _ => None,
        });
        found.extend(opened);
    }
    found
}

/// Replications of an open loop.
const RUNS: u64 = 100;
/// Three counts are all within so many standard deviations 95 % of the time (1.96 is for one of them).
const SURE: f64 = 2.39;

#[test]
fn load_is_the_share_of_the_hosts_own_rate() {
    for load in [0.1, 0.6, 0.9] {
        let workload = format!(
            "kind = \"poisson\"\nfrom = \"all\"\nto = \"all\"\nsizes = \"fixed:14600B\"\nload = {load}"
        );
        let mut total = 0;
        let mut into: BTreeMap<u32, usize> = BTreeMap::new();
        let mut out: BTreeMap<u32, usize> = BTreeMap::new();
        for run in 0..RUNS {
            let found = flows(&mut setup(&workload, run), 0);
            total += found.len();
            for (_, f) in &found {
                assert_ne!(f.src, f.dst);
                *into.entry(f.dst).or_default() += 1;
                *out.entry(f.src).or_default() += 1;
            }
        }
        // Sixteen hosts of 10 Gb/s for 0.1 s a run; ten packets of 1500 bytes a flow. A Poisson count has its mean as variance.
        let expected: f64 = RUNS as f64 * 0.1 * load * 16.0 * 10e9 / (10.0 * 1500.0 * 8.0);
        let off = |count: usize, mean: f64| (count as f64 - mean) / mean.sqrt();
        eprintln!(
            "load {load}: {total} flows, {expected} expected: {:.2} standard deviations",
            off(total, expected)
        );
        assert!(off(total, expected).abs() < SURE, "{load}: {total} flows, {expected} expected");
        // Of 32 counts one or two lie outside of a 95 % interval, seven or more once in a thousand times.
        let outside =
            into.values().chain(out.values()).filter(|c| off(**c, expected / 16.0).abs() > 1.96).count();
        assert!(into.len() == 16 && out.len() == 16 && outside < 7, "{load}: {outside} hosts outside");
    }
}
#[test]
fn a_load_that_the_senders_cannot_send_is_noted() {
    let notes = |from: &str, load: f64| {
        let text = format!(
            "kind = \"poisson\"\nfrom = \"{from}\"\nto = \"all\"\nsizes = \"fixed:14600B\"\nload = {load}"
        );
        setup(&text, 0).notes
    };
    assert!(notes("all", 0.9).is_empty());
    let said = notes("h[0-3]", 0.5);
    assert!(
        said.iter()
            .any(|n| n.starts_with("workload[1].load = 0.5 of the links into") && n.contains("is 2.000 of")),
        "{said:?}"
    );
}
#[test]
fn a_permutation_has_every_host_send_and_receive_once() {
    let found =
        flows(&mut setup("kind = \"permutation\"\nsize = \"10KB\"\nstart = \"2ms\"\nspread = \"1ms\"", 0), 0);
    let ends = |end: fn(&FlowRequest) -> u32| found.iter().map(|f| end(&f.1)).collect::<BTreeSet<_>>().len();
    assert_eq!((found.len(), ends(|f| f.src), ends(|f| f.dst)), (16, 16, 16));
    assert!(found.iter().all(|(at, f)| {
        let ms = at.since(Time::ZERO);
        f.src != f.dst && f.bytes == 10_000 && f.close && ms >= Dur::millis(2) && ms < Dur::millis(3)
    }));
    // One cycle through all of them, not several.
    let next: BTreeMap<u32, u32> = found.iter().map(|(_, f)| (f.src, f.dst)).collect();
    let (first, mut at, mut steps) = (found[0].1.src, found[0].1.dst, 1);
    while at != first {
        at = next[&at];
        steps += 1;
    }
    assert_eq!(steps, 16);
    let endless = flows(&mut setup("kind = \"permutation\"\nhosts = \"h[0-3]\"", 0), 0);
    assert_eq!((endless.len(), endless[0].1.bytes), (4, u64::MAX));
}
#[test]
fn each_workload_draws_from_its_own_stream() {
    let one = "kind = \"permutation\"\nsize = \"10KB\"";
    let pairs = |s: &mut Setup, i| flows(s, i).iter().map(|f| (f.1.src, f.1.dst)).collect::<Vec<_>>();
    let alone = pairs(&mut setup(one, 0), 0);
    let incast =
        "kind = \"incast\"\nfrom = \"all\"\nto = \"h0\"\nservers = 3\nresponse = \"1KB\"\nrate = 1000";
    let mut both = setup(&format!("{one}\n[[workload]]\n{incast}\n[[workload]]\n{one}"), 0);
    assert_eq!(pairs(&mut both, 0), alone);
    // The first is taken out.
    assert_ne!(pairs(&mut both, 1), alone);
}
#[test]
fn collectives_run_to_their_end() {
    let run = |workload: &str| {
        let resolved = document::resolve(&text(workload)).unwrap_or_else(|e| panic!("{e}"));
        resolved.run(0, &Progress::default()).unwrap().summary
    };
    let s = run("kind = \"all-to-all\"\nsize = \"20KB\"\nwindow = 4\nrepetitions = 2");
    assert_eq!((s["flows_completed"], s["blocks"]), (2.0 * 16.0 * 15.0, 2.0));
    let s = run("kind = \"incast\"\nfrom = \"all\"\nto = \"h0\"\nservers = 5\nresponse = \"10KB\"\nevery = \"1ms\"\ncount = 20");
    assert_eq!((s["flows_completed"], s["blocks"]), (100.0, 20.0));
}
#[test]
fn what_is_wrong_with_a_collective_is_told_with_its_line() {
    let incast = "kind = \"incast\"\nfrom = \"all\"\nto = \"h0\"\nresponse = \"1KB\"";
    let poisson = "kind = \"poisson\"\nfrom = \"all\"\nto = \"all\"\nsizes = \"fixed:1KB\"";
    for (workload, expected) in [
        (format!("{poisson}\nload = 0"), "w.toml:14: workload[1].load = \"0\": must be at least 0.000001"),
        (format!("{poisson}\nload = 11"), "w.toml:14: workload[1].load = \"11\": must be at most 10"),
        (incast.into(), "w.toml:9: workload[1].every = \"\": this or rate must be given"),
        (
            format!("{incast}\nevery = \"1ms\"\nrate = 5"),
            "w.toml:15: workload[1].rate = \"5\": cannot be given together with every",
        ),
        (
            format!("{incast}\nevery = \"1ms\"\nservers = 16"),
            "w.toml:15: workload[1].servers = \"16\": must be at most the 15 hosts of from beside the client",
        ),
        (
            format!("{incast}\nrate = 1e9"),
            "w.toml:14: workload[1].rate = \"1000000000.0\": means about 1.500e9 arrivals",
        ),
        (
            "kind = \"incast\"\nfrom = \"h0\"\nto = \"h0\"\nresponse = \"1KB\"\nevery = \"1ms\"".into(),
            "w.toml:12: workload[1].to = \"h0\": must have a host other than",
        ),
        ("kind = \"all-to-all\"".into(), "w.toml:9: workload[1].size = \"\": must be given"),
        (
            "kind = \"all-to-all\"\nsize = \"1KB\"\nhosts = \"h3\"".into(),
            "w.toml:12: workload[1].hosts = \"1 host\": must be at least two hosts",
        ),
        (
            "kind = \"permutation\"\nhosts = [\"h3\", \"h[2-4]\"]".into(),
            "w.toml:11: workload[1].hosts = \"h3\": is named twice",
        ),
        (
            "kind = \"permutation\"\ndeadline = \"1ms\"".into(),
            "w.toml:11: workload[1].deadline = \"1ms\": needs a size",
        ),
        (
            "kind = \"permutation\"\nfrom = \"h3\"".into(),
            "w.toml:11: workload[1].from = \"h3\": unknown key of workload permutation",
        ),
    ] {
        let text = error(&workload);
        assert!(text.starts_with(expected), "{workload}\n  says     {text}\n  expected {expected}");
        assert!(!text.contains('\n'));
    }
    // In turn they are worked out one by one; a random order is a list.
    let many = text("kind = \"all-to-all\"\nsize = \"1KB\"").replace("leaf-spine:4x2x4", "fat-tree:16");
    assert!(document::resolve(&many).is_ok());
    let many = text("kind = \"all-to-all\"\nsize = \"1KB\"\norder = \"random\"")
        .replace("leaf-spine:4x2x4", "fat-tree:16");
    let said = document::resolve(&many).err().map(|e| e.to_string()).unwrap_or_default();
    assert_eq!(
        said,
        "w.toml: workload[1].hosts = \"1024 hosts\": means 1047552 flows; at most 1000000 are possible"
            .replace("w.toml:", "w.toml:9:")
    );
    let apart = "scenario = \"custom\"\nduration = \"1ms\"\nhosts = [\"a\", \"b\"]\nswitches = \"s\"\n[[link]]\nbetween = [\"a\", \"s\"]\n\
                 rate = \"1Gbps\"\ndelay = \"1us\"\n[[workload]]\nkind = \"all-to-all\"\nsize = \"1KB\"\n";
    let said = document::resolve(&json!({ "toml": apart, "name": "w.toml" }).to_string())
        .err()
        .map(|e| e.to_string());
    assert_eq!(said.as_deref(), Some("w.toml:9: workload[1] = \"a -> b\": no path leads from a to b"));
}
