//! NDP's return to sender: a header that finds its queue full comes back, so that even an incast of hundreds needs no timeout.

use penstock_core::rng::Entity;
use penstock_core::Stream;
use penstock_sim::document::resolve;
use penstock_sim::engine::{Engine, Progress};
use penstock_sim::scenario::Outcome;
use serde_json::json;

/// A run in which every link loses packets at random with this probability.
fn run(toml: &str, seed: u64, loss: f64) -> Outcome {
    let document = json!({ "toml": toml, "base_dir": ".", "seed": seed }).to_string();
    let mut setup = resolve(&document).unwrap_or_else(|e| panic!("{e}\n{toml}")).setup(0).unwrap();
    setup.topology.links.iter_mut().for_each(|l| l.loss = loss);
    let mut engine = Engine::new(setup).unwrap();
    let completed = engine.run(&Progress::default()).unwrap();
    Outcome::of(engine, completed)
}
fn get(o: &Outcome, key: &str) -> f64 {
    o.summary.get(key).copied().unwrap_or(0.0)
}

/// 120 to 1, 40 KB each, over two tiers at 10 Gb/s; a port has room for 20 headers.
fn incast(protocol: &str) -> Outcome {
    run(
        &format!(
            "scenario = \"custom\"\ntopology = \"leaf-spine:8x4x16\"\nlink_rate = \"10Gbps\"\nlink_delay = \"1us\"\nprotocol = \"{protocol}\"\nduration = \"60ms\"\ndeliveries = true\n[[workload]]\nkind = \"incast\"\nfrom = \"h[8-127]\"\nto = \"h0\"\nresponse = \"40KB\"\ncount = 1\nevery = \"59ms\"\n"
        ),
        1,
        0.0,
    )
}

#[test]
fn headers_without_room_come_back_and_nobody_waits_for_a_timeout() {
    let with = incast("ndp:header_queue=1280");
    let without = incast("ndp:header_queue=1280,return_to_sender=false");
    for o in [&with, &without] {
        assert_eq!((get(o, "transfers"), o.engine.conservation().sent > 0), (120.0, true));
    }
    assert_eq!(get(&without, "returned"), 0.0);
    assert!(get(&without, "timeouts") > 100.0, "{}", get(&without, "timeouts"));
    assert!(get(&with, "returned") > 1000.0, "{}", get(&with, "returned"));
    // What is returned is not lost; nothing is left to a timeout but a header that was dropped on its way back.
    assert!(get(&with, "timeouts") < 0.02 * get(&without, "timeouts"), "{}", get(&with, "timeouts"));
    let slowdown = |o: &Outcome| get(o, "receiver_completion_s") / get(o, "receiver_ideal_s");
    assert!((1.0..1.1).contains(&slowdown(&with)), "{}", slowdown(&with));
    // Room enough for all headers: nothing comes back, and the rule changes nothing.
    let (roomy, off) = (incast("ndp"), incast("ndp:return_to_sender=false"));
    assert_eq!((get(&roomy, "returned"), get(&roomy, "drops")), (0.0, 0.0));
    assert_eq!(roomy.summary, off.summary);
}

#[test]
fn every_byte_arrives_once_whatever_comes_back() {
    let mut rng = Stream::new(7, 0, Entity::Port, 0);
    let mut returned = 0.0;
    let cases = 40;
    for case in 0..cases {
        let (leaves, spines, hosts) = (1 + rng.below(3), 1 + rng.below(3), 2 + rng.below(4));
        let all = leaves * hosts;
        let mut toml = format!(
            "scenario = \"custom\"\ntopology = \"leaf-spine:{leaves}x{spines}x{hosts}\"\nlink_rate = \"{}Gbps\"\nlink_delay = \"{}us\"\nprotocol = \"ndp:header_queue={},queue={},window={}\"\nduration = \"400ms\"\n",
            1 + rng.below(20),
            rng.below(5),
            64 * (1 + rng.below(6)),
            1 + rng.below(8),
            4 + rng.below(40),
        );
        let loss = if rng.below(2) == 0 { 0.1 } else { 0.0 };
        let size = 1 + rng.below(200_000);
        let to = rng.below(all);
        let from: Vec<String> = (0..all).filter(|h| *h != to).map(|h| format!("\"h{h}\"")).collect();
        toml += &format!(
            "[[workload]]\nkind = \"incast\"\nfrom = [{}]\nto = \"h{to}\"\nresponse = \"{size}\"\ncount = 2\nevery = \"150ms\"\n",
            from.join(", ")
        );
        // The witness and the conservation of packets are checked in the run.
        let o = run(&toml, case, loss);
        assert_eq!(get(&o, "transfers"), 2.0 * (all - 1) as f64, "case {case}\n{toml}");
        returned += get(&o, "returned");
    }
    assert!(returned > 1000.0, "only {returned} headers came back in {cases} cases");
}
