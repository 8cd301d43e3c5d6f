//! Golden results in a build with debug assertions: the bytes that tests/golden/results.json records for the release
//! build. What each scenario guards stands on its first line; tests/python/test_golden.py shows the numbers that moved.

use penstock_sim::document;
use penstock_sim::engine::Progress;
use penstock_sim::fingerprint::fingerprint;
use serde_json::{json, Value};
use std::path::Path;

#[test]
fn debug_and_release_builds_leave_the_same_bytes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let recorded: Value =
        serde_json::from_str(&std::fs::read_to_string(folder.join("results.json")).unwrap()).unwrap();
    let mut moved = Vec::new();
    for (name, entry) in recorded.as_object().unwrap() {
        let text = std::fs::read_to_string(folder.join(format!("{name}.toml"))).unwrap();
        let document = json!({ "toml": text, "base_dir": folder.to_str().unwrap(), "seed": 1 });
        let resolved = document::resolve(&document.to_string()).unwrap_or_else(|e| panic!("{name}: {e}"));
        // A run does not depend on the runs that its scenario made before it.
        for again in [false, true] {
            let outcome = resolved.run(0, &Progress::default()).unwrap();
            let print = fingerprint(&outcome.engine.measured(), &outcome.summary);
            if print != entry["fingerprint"].as_str().unwrap() {
                moved.push((name.as_str(), again));
            }
        }
    }
    assert!(moved.is_empty(), "differ from what is recorded: {moved:?}");
}
