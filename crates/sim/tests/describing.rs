//! The catalogue answers for everything a user can meet: every key of a summary is described, and so is what happens
//! to packets that cannot be marked.

use penstock_core::DropCause;
use penstock_models::queues::DISCIPLINES;
use penstock_models::registry::{PROTOCOLS, STACKS};
use penstock_sim::document::{catalogue, resolve};
use penstock_sim::engine::Progress;
use penstock_sim::scenarios;
use penstock_sim::summary_keys;
use penstock_sim::tables::{declared, NAMES};
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
            "permutation" | "rdma" => set["duration"] = json!("100us"),
            _ => {}
        }
        let r = resolve(&json!({ "scenario": scenario, "set": set }).to_string()).unwrap();
        found.extend(r.run(0, &Progress::default()).unwrap().summary.into_keys());
    }
    found
}

#[test]
fn every_summary_key_is_described() {
    let described: BTreeSet<&str> = summary_keys::all().map(|k| k.name).collect();
    let found = summaries();
    assert!(found.len() > 30, "{found:?}");
    let missing: Vec<_> = found.difference(&described).collect();
    assert!(missing.is_empty(), "no text for {missing:?}");
}

#[test]
fn what_is_declared_has_a_text_and_is_declared_once() {
    let tables = declared();
    assert_eq!(tables.each_ref().map(|t| t.name), NAMES);
    for table in &tables {
        let names: BTreeSet<&str> = table.columns.iter().map(|c| c.0.name).collect();
        assert_eq!(names.len(), table.columns.len(), "a column of {} is declared twice", table.name);
    }
    let columns = tables.iter().flat_map(|t| t.columns.iter().map(|c| c.0));
    for q in summary_keys::all().chain(columns) {
        assert!(!q.text.is_empty(), "{}", q.name);
    }
    let names: BTreeSet<&str> = summary_keys::all().map(|k| k.name).collect();
    assert_eq!(names.len(), summary_keys::all().count(), "a key is described twice");
}

#[test]
fn tables_count_the_drops_of_every_cause() {
    let tables = declared();
    let ports = tables.iter().find(|t| t.name == "ports").unwrap();
    for cause in DropCause::ALL {
        let name = format!("drops_{}", cause.name());
        assert!(ports.columns.iter().any(|c| c.0.name == name), "{name}");
    }
}

/// What is sampled of every TCP connection, of ports and of hosts.
const COMMON: [&str; 10] = [
    "queue_packets",
    "queue_bytes",
    "drops",
    "cwnd_bytes",
    "acked_bytes",
    "srtt_s",
    "rtt_s",
    "delivered_bytes",
    "retransmits",
    "timeouts",
];

#[test]
fn protocols_list_what_they_report() {
    let counted = ["rcp", "qi-rcp", "piqi-rcp", "xcp"];
    for (name, reports) in PROTOCOLS.iter().chain(STACKS).map(|p| (p.name, p.reports)) {
        let given = if counted.contains(&name) { format!("{name}:work=true") } else { name.to_owned() };
        let mut set = json!({
            "protocol": given, "sample": "1ms", "series": true, "duration": "20ms", "warmup": "0s", "flows": "2",
        });
        if name == "swift" {
            // It tells of the delay within hosts where they have some.
            set["processing_delay"] = "1us".into();
        }
        let r = resolve(&json!({ "scenario": "long-flows", "set": set }).to_string()).unwrap();
        let outcome = r.run(0, &Progress::default()).unwrap();
        let sampled = outcome.engine.recorder.series.metrics();
        let own: BTreeSet<&str> = reports.iter().map(|q| q.name).collect();
        let found: BTreeSet<&str> = sampled.iter().map(|q| q.name).collect();
        let unlisted: Vec<_> = found.iter().filter(|n| !own.contains(*n) && !COMMON.contains(n)).collect();
        assert!(unlisted.is_empty(), "{name} reports {unlisted:?} and does not list it");
        // What a router or a receiving end reports is no sample of a sender; all else has been seen.
        let missing: Vec<_> = own.difference(&found).collect();
        assert!(
            missing.is_empty() || name == "ndp" && missing == [&"pulls_owed"],
            "{name} lists {missing:?}"
        );
        for q in sampled {
            let listed = reports.iter().any(|r| r.is(q));
            assert!(listed || COMMON.contains(&q.name), "{name} reports another {} than it lists", q.name);
        }
    }
}

#[test]
fn the_catalogue_has_receiver_side_controls_keys_and_columns() {
    let all = catalogue();
    let ictcp = &all["receive_controls"][0];
    assert_eq!(ictcp["name"], "ictcp");
    assert!(ictcp["params"].as_array().unwrap().len() >= 5);
    assert_eq!(all["summary_keys"].as_array().unwrap().len(), summary_keys::all().count());
    let columns = &all["tables"][0]["columns"];
    assert_eq!((&columns[0]["name"], &columns[1]["name"]), (&json!("run"), &json!("flow")));
    assert_eq!(
        columns[4],
        json!({ "name": "size_bytes", "unit": "bytes", "type": "u64", "text": "bytes written on it, all writes together; 0 = without end, or none" })
    );
    let metrics = all["metrics"].as_array().unwrap();
    let alpha = metrics.iter().find(|m| m["name"] == "alpha").unwrap();
    assert_eq!(alpha["of"].as_array().unwrap()[..2], [json!("dctcp"), json!("d2tcp")]);
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
