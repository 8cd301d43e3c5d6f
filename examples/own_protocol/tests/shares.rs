//! Runs the example and checks what must come out of it, whatever the seed.

use own_protocol::{against, TARGET_DELAY};
use penstock::{Dur, Results, Simulation};

/// Share of the first flow, that of the law.
fn share(results: &Results) -> f64 {
    let flows = results.flows();
    flows[0].goodput_bps / flows.iter().map(|f| f.goodput_bps).sum::<f64>()
}

/// Guards: DCTCP keeps a queue of its threshold, 78 us, so round trips of some 119 us. A law that wants less gives way to it, and one that wants
/// much more takes the port.
#[test]
fn the_lower_its_target_the_less_it_gets() {
    let results = [60, 240].map(|us| against("dctcp", Dur::micros(us)).unwrap());
    let shares = results.each_ref().map(share);
    let text = format!("{shares:?}\n{}\n{}", results[0], results[1]);
    assert!(shares[0] < 0.25 && shares[1] > 0.75, "{text}");
    assert!(results.iter().all(|r| r["utilisation"] > 0.99), "{text}");
    assert_eq!(results[0].flows()[0].transport, "target-delay:target=60us");
}

/// Guards: two flows of the law hold the round trip at the target. Propagation takes 40 us, the packet and its ACK 2.5 us on two links
/// each, and the queue has the rest: (200 - 42.5) us of 10 Gb/s in packets of 1512 B.
#[test]
fn alone_it_holds_its_target() {
    let results = against("target-delay:target=200us", Dur::micros(200)).unwrap();
    let queue = results["queue_mean_packets"];
    let expected = (200e-6 - 42.5e-6) * 10e9 / (8.0 * 1512.0);
    assert!((queue / expected - 1.0).abs() < 0.15, "{queue} of {expected}\n{results}");
    assert!(results["drops"] == 0.0, "{results}");
    assert!(results["jain"] > 0.9, "{results}");
}

/// Guards: named scenarios take it too, and bad parameters of it are refused like those of any other.
#[test]
fn it_is_a_protocol_like_any_other() {
    let results = Simulation::scenario("incast")
        .with(&TARGET_DELAY)
        .set("protocol", "target-delay:target=500us")
        .set("servers", 4)
        .set("blocks", 2)
        .run()
        .unwrap();
    assert_eq!(results["blocks"], 2.0);
    assert_eq!(results.flows()[0].transport, "target-delay:target=500us");
    let error = against("dctcp", Dur::ZERO).unwrap_err().to_string();
    assert!(error.starts_with("protocol:target = \"0"), "{error}");
    let error = against("target-dealy", Dur::micros(100)).unwrap_err().to_string();
    assert!(error.contains("transport[2]") && error.contains("did you mean target-delay?"), "{error}");
}
