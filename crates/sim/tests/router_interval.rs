//! The control interval of a scenario is a parameter of its protocol, and changes nothing else of the connection.

use penstock_core::rng::Entity;
use penstock_core::Stream;
use penstock_sim::scenario::Resolved;
use penstock_units::Bytes;
use serde_json::Value;

/// The first segment of a sender of `scenario`.
fn first_segment(scenario: &str, given: &[(&str, &str)]) -> Option<Bytes> {
    let given: Vec<_> = given.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let resolved = Resolved::new(scenario, &given, 1, Value::Null).expect("the scenario is right");
    let setup = resolved.setup(0).expect("it was checked");
    let (suite, cfg) = &setup.protocols[0];
    (suite.endpoint)(cfg, &|| Stream::new(1, 0, Entity::Host, 0)).control().segment
}

#[test]
fn small_first_segments_are_kept_when_the_interval_is_set() {
    for scenario in ["join", "staggered", "poisson", "parking-lot", "t1"] {
        let start = ("segment_start", "100B");
        assert_eq!(first_segment(scenario, &[start]), Some(Bytes(100)), "{scenario}");
        assert_eq!(first_segment(scenario, &[start, ("interval", "5ms")]), Some(Bytes(100)), "{scenario}");
    }
}

#[test]
fn a_protocol_without_an_interval_refuses_one() {
    let given = [("protocol", "xcp"), ("interval", "5ms")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    let error = Resolved::new("join", &given, 1, Value::Null).err().expect("xcp has none");
    assert_eq!(error.to_string(), "interval = \"5ms\": protocol xcp has no control interval");
}
