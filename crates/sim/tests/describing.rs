//! The catalogue answers for everything a user can meet: every key of a summary is described, and so is what happens
//! to packets that cannot be marked.

use penstock_models::queues::DISCIPLINES;
use penstock_sim::document::{catalogue, resolve};
use penstock_sim::engine::Progress;
use penstock_sim::scenarios;
use penstock_sim::summary_keys::{SUMMARY_KEYS, TABLE_COLUMNS};
use serde_json::json;
use std::collections::BTreeSet;

/// A short run of every scenario, and of settings that have keys of their own.
fn summaries() -> BTreeSet<&'static str> {
    let mut runs: Vec<(&str, serde_json::Value)> = scenarios::ALL
        .iter()
        .filter(|s| s.name != "custom")
        .map(|s| (s.name, json!({ "duration": "60ms", "warmup": "0s" })))
        .collect();
    runs.push(("long-flows", json!({ "protocol": "dctcp", "queue": "threshold", "sample": "1ms", "duration": "50ms", "warmup": "0s" })));
    runs.push((
        "mix",
        json!({ "arrivals": "load:0.5", "deadline": "10ms", "duration": "50ms", "warmup": "0s" }),
    ));
    runs.push((
        "mix",
        json!({ "topology": "leaf-spine:2x2x2", "arrivals": "load:0.5", "duration": "50ms", "warmup": "0s" }),
    ));
    runs.push(("incast", json!({ "sru": "10KB", "duration": "50ms", "warmup": "10ms" })));
    let mut found = BTreeSet::new();
    for (scenario, mut set) in runs {
        match scenario {
            "parking-lot" => set["delay"] = json!("1ms"),
            // Every host of the network sends at 100 Gb/s.
            "permutation" => set["duration"] = json!("100us"),
            _ => {}
        }
        let r = resolve(&json!({ "scenario": scenario, "set": set }).to_string()).unwrap();
        found.extend(r.run(0, &Progress::default()).unwrap().summary.into_keys());
    }
    found
}

#[test]
fn every_summary_key_is_described() {
    let described: BTreeSet<&str> = SUMMARY_KEYS.iter().map(|k| k.name).collect();
    let found = summaries();
    assert!(found.len() > 30, "{found:?}");
    let missing: Vec<_> = found.difference(&described).collect();
    assert!(missing.is_empty(), "no text for {missing:?}");
}

#[test]
fn described_quantities_have_a_text_and_the_unit_of_their_name() {
    let columns = TABLE_COLUMNS.iter().flat_map(|t| t.2);
    for q in SUMMARY_KEYS.iter().chain(columns) {
        assert!(!q.text.is_empty(), "{}", q.name);
        for (suffix, unit) in [("_s", "s"), ("_bps", "bit/s"), ("_bytes", "bytes"), ("_packets", "packets")] {
            assert!(
                !q.name.ends_with(suffix) || q.unit == unit || q.name == "arrivals_per_s",
                "{} in {:?}",
                q.name,
                q.unit
            );
        }
    }
    let names: BTreeSet<&str> = SUMMARY_KEYS.iter().map(|k| k.name).collect();
    assert_eq!(names.len(), SUMMARY_KEYS.len(), "a key is described twice");
}

#[test]
fn the_catalogue_has_receiver_side_controls_keys_and_columns() {
    let all = catalogue();
    let ictcp = &all["receive_controls"][0];
    assert_eq!(ictcp["name"], "ictcp");
    assert!(ictcp["params"].as_array().unwrap().len() >= 5);
    assert_eq!(all["summary_keys"].as_array().unwrap().len(), SUMMARY_KEYS.len());
    assert_eq!(all["tables"][0]["columns"][1]["name"], "flow");
}

#[test]
fn queues_that_mark_say_what_becomes_of_packets_that_are_not_ecn_capable() {
    for d in DISCIPLINES.iter().filter(|d| d.name != "droptail") {
        assert!(
            d.text.contains("not ECN-capable") && d.text.contains("drops_nonect"),
            "{}: {}",
            d.name,
            d.text
        );
    }
}
