//! Nothing costs more because of flows that are over: time per flow and memory stay where they are.

use penstock_sim::document;
use penstock_sim::engine::Progress;
use penstock_sim::metrics::{FlowRecord, TransferRecord};
use penstock_sim::scenario::Outcome;
use serde_json::json;

/// `flows` flows of 10 KB between 64 hosts around a switch: one after the other, or 1024 at a time.
fn star(flows: u64, many: bool, set: serde_json::Value) -> Outcome {
    let mut text = String::from(
        "scenario = \"custom\"\nduration = \"1000s\"\nhosts = [\"h[0-63]\"]\nswitches = [\"s\"]\n\
         [[link]]\nbetween = [\"h[0-63]\", \"s\"]\nrate = \"10Gbps\"\ndelay = \"1us\"\n",
    );
    let tables = if many { 16 } else { 1 };
    for _ in 0..tables {
        let from = if many { "h[0-63]" } else { "h0" };
        text += &format!(
            "[[workload]]\nkind = \"closed\"\nfrom = \"{from}\"\nto = \"h[0-63]\"\nsizes = \"fixed:10KB\"\ncount = {}\n",
            flows / tables
        );
    }
    let mut given = json!({"rto_min": "1ms", "rto_initial": "1ms"});
    for (key, value) in set.as_object().expect("a table") {
        given[key] = value.clone();
    }
    let document = json!({"toml": text, "set": given}).to_string();
    document::resolve(&document).unwrap().run(0, &Progress::default()).unwrap()
}

/// CPU seconds of this thread so far; `None` where the system does not tell.
fn cpu_s() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(text.split(' ').next()?.parse::<f64>().ok()? * 1e-9)
}

/// CPU seconds per flow; the least of three, since others use the machine too.
fn per_flow(flows: u64, many: bool, repetitions: u32) -> Option<f64> {
    let mut least = f64::INFINITY;
    for _ in 0..repetitions {
        let before = cpu_s()?;
        let o = star(flows, many, json!({}));
        assert!(
            (o.summary["flows_completed"] - flows as f64).abs() < 20.0,
            "{}",
            o.summary["flows_completed"]
        );
        least = least.min((cpu_s()? - before) / flows as f64);
    }
    Some(least)
}

fn compare(few: u64, most: u64, limit: f64) {
    for many in [false, true] {
        let (Some(a), Some(b)) = (per_flow(few, many, 5), per_flow(most, many, 1)) else { return };
        println!(
            "{}: {few} flows {:.2} us each, {most} flows {:.2} us each, {:.2} times",
            if many { "1024 at a time" } else { "one after the other" },
            a * 1e6,
            b * 1e6,
            b / a
        );
        assert!(b < limit * a, "{} us per flow of {few}, {} us per flow of {most}", a * 1e6, b * 1e6);
    }
}

#[test]
fn a_flow_costs_the_same_after_a_hundred_thousand_others() {
    // Before: host samples, the samples themselves and the end of the run walked all flows ever. The limit leaves room
    // for a machine that does other things.
    compare(5_000, 100_000, 2.0);
}

#[test]
#[ignore = "takes long; runs in `make test-full`"]
fn a_flow_costs_the_same_after_a_million_others() {
    compare(10_000, 1_000_000, 1.3);
}

#[test]
fn samples_cost_what_is_open_and_not_what_is_over() {
    let cost = |flows: u64| {
        let before = cpu_s()?;
        let o = star(flows, false, json!({"sample": "1us", "duration": "400ms"}));
        assert!(o.summary["cwnd_mean_bytes"] > 0.0);
        Some((cpu_s()? - before, o.engine.now().as_secs()))
    };
    // 400,000 samples each, over 1,000 flows and over 10,000 flows ever.
    let (Some(few), Some(most)) = (cost(1_000), cost(10_000)) else { return };
    assert_eq!(few.1, most.1);
    assert!(most.0 < 3.0 * few.0 + 0.2, "{} s with few flows over, {} s with many", few.0, most.0);
}

#[test]
fn rows_of_tables_are_small() {
    assert!(std::mem::size_of::<FlowRecord>() <= 144, "{}", std::mem::size_of::<FlowRecord>());
    assert!(std::mem::size_of::<TransferRecord>() <= 56, "{}", std::mem::size_of::<TransferRecord>());
}
