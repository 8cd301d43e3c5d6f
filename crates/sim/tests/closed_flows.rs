//! Nothing is kept of flows that are over.

use penstock_sim::engine::Progress;
use penstock_sim::scenario::Resolved;
use serde_json::Value;

#[test]
fn a_receiving_host_knows_only_connections_that_are_open() {
    let given = [
        ("protocol", "newreno"),
        ("receive_control", "ictcp"),
        ("arrivals", "200"),
        ("mean_packets", "5"),
        ("duration", "20s"),
    ];
    let given: Vec<_> = given.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let resolved = Resolved::new("poisson", &given, 1, Value::Null).expect("the scenario is right");
    let outcome = resolved.run(0, &Progress::default()).expect("it runs");
    let (mut known, mut hosts) = (0, 0);
    for node in 0..outcome.engine.topology().nodes.len() {
        if let Some(control) = outcome.engine.receive_controller(node as u32) {
            hosts += 1;
            known += control.connections();
        }
    }
    let (flows, done) = (outcome.summary["flows"], outcome.summary["flows_completed"]);
    assert!(hosts > 16 && done > 3000.0, "{hosts} hosts, {done} flows");
    // A receiving end is removed one propagation delay of its path after its sender: 100 ms here at most.
    let measured = outcome.engine.measured();
    let late =
        measured.recorder.flows.iter().filter(|f| !f.open_at_end && f.closed.as_secs() > 20.0 - 0.1).count();
    let open = flows - done + late as f64;
    assert!(known as f64 <= open, "{known} connections are known, {open} are open or have just closed");
}
