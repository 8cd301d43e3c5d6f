//! Guards: SDC, RACS, D3 and D2TCP deliver every byte exactly once and end, whatever packet is lost.

use penstock_sim::engine::{Engine, Progress};
use penstock_sim::scenario::Resolved;

/// Queries of 25 KB over links that lose `loss` of everything: SYN, data, requests without payload, ACKs, FIN.
fn run(protocol: &str, connections: &str, loss: f64, seed: u64) -> Engine {
    let given = [
        ("protocol", protocol),
        ("connections", connections),
        ("servers", "6"),
        ("repetitions", "15"),
        ("rto_initial", "20ms"),
        ("rto_min", "2ms"),
        ("rto_max", "200ms"),
    ];
    let given: Vec<_> = given.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let mut setup = Resolved::new("query", &given, seed, serde_json::Value::Null).unwrap().setup(0).unwrap();
    for link in &mut setup.topology.links {
        link.loss = loss;
    }
    let mut engine = Engine::new(setup).unwrap();
    assert!(engine.run(&Progress::default()).unwrap(), "{protocol} did not reach its end");
    engine
}

#[test]
fn every_byte_arrives_exactly_once_under_random_loss() {
    for protocol in ["sdc", "sdc:feedback=exact", "racs", "racs:accounting=counter", "d3", "d2tcp"] {
        for connections in ["fresh", "persistent"] {
            for (loss, seed) in [(0.0, 1), (0.02, 1), (0.1, 2), (0.3, 3)] {
                let engine = run(protocol, connections, loss, seed);
                let r = &engine.recorder;
                let what = format!("{protocol}, {connections}, loss {loss}");
                assert_eq!(r.blocks, 15, "{what}: queries");
                assert_eq!(r.transfers.len(), 90, "{what}: responses");
                let delivered: u64 = r.flows.iter().map(|f| f.delivered_bytes).sum();
                assert_eq!(delivered, 90 * 25_000, "{what}: bytes delivered in order");
                assert!(engine.conservation().dropped > 0 || loss == 0.0, "{what}: something was lost");
            }
        }
    }
}
