//! What cannot work is refused before the run, under a key that its author has written, and what takes long before a run can be stopped.

use penstock_core::ParamError;
use penstock_sim::checkpoint;
use penstock_sim::cores::Threads;
use penstock_sim::document::resolve;
use penstock_sim::engine::Progress;
use penstock_sim::scenario::Resolved;
use serde_json::{json, Value};
use std::sync::atomic::Ordering;

fn scenario(name: &str, given: &[(&str, &str)]) -> Result<Resolved, ParamError> {
    let given: Vec<_> = given.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    Resolved::new(name, &given, 1, Value::Null)
}
fn refused(name: &str, given: &[(&str, &str)]) -> ParamError {
    scenario(name, given).map(|_| ()).unwrap_err()
}

/// Two hosts and a flow for each of `sets` parameter sets of NDP.
fn sets_of_ndp(sets: usize) -> Result<Resolved, ParamError> {
    let mut text = String::from("scenario = \"custom\"\nhosts = [\"a\", \"b\"]\nswitches = [\"s\"]\n");
    text += "duration = \"10us\"\n";
    for host in ["a", "b"] {
        text += &format!("[[link]]\nbetween = [\"{host}\", \"s\"]\nrate = \"1Gbps\"\ndelay = \"1us\"\n");
    }
    for set in 1..=sets {
        text += &format!("[[workload]]\nkind = \"flows\"\nfrom = \"a\"\nto = \"b\"\nsize = \"1KB\"\nprotocol = \"ndp:window={set}\"\n");
    }
    resolve(&json!({ "toml": text, "base_dir": ".", "seed": 1 }).to_string())
}

#[test]
fn more_transports_than_a_host_can_have_are_refused_at_the_workload_that_is_too_many() {
    sets_of_ndp(254).unwrap().run(0, &Progress::default()).unwrap();
    let e = sets_of_ndp(260).map(|_| ()).unwrap_err();
    assert_eq!((e.key.as_str(), e.value.as_str()), ("workload[255].protocol", "ndp:window=255"));
    assert!(e.rule.contains("at most 254"), "{e}");
}
#[test]
fn a_shared_buffer_of_more_links_than_have_numbers_is_refused() {
    let given = [("servers", "70000"), ("sru", "1KB"), ("blocks", "1")];
    scenario("incast", &given).unwrap();
    let e = refused("incast", &[&given[..], &[("buffer", "shared:alpha=1,size=4MB")]].concat());
    assert_eq!((e.key.as_str(), e.value.as_str()), ("buffer", "70001 links"));
    assert!(e.rule.contains("at most 65535"), "{e}");
}
#[test]
fn a_port_that_a_protocol_cannot_have_is_refused_before_the_run_under_the_protocols_key() {
    let e = refused("db-ftp", &[("protocol", "ndp")]);
    assert_eq!((e.key.as_str(), e.value.as_str()), ("protocol", "ndp"));
    let e = refused("incast", &[("protocol", "nscc-rccc:rtt=1ns"), ("duration", "1ms")]);
    assert_eq!((e.key.as_str(), e.value.as_str()), ("protocol", "nscc-rccc:rtt=1ns"));
    assert!(e.rule.contains("queue:kmax = 0B must be at least 1 bytes"), "{e}");
}
#[test]
fn building_a_network_can_be_stopped() {
    for protocol in ["dcqcn", "dctcp"] {
        let given = [("topology", "fat-tree:16"), ("protocol", protocol)];
        let e = checkpoint::watched(|| true, || refused("permutation", &given));
        assert_eq!(e.rule, checkpoint::STOPPED);
    }
}
#[test]
fn why_a_run_is_made_on_one_thread_is_known_before_it_begins() {
    let r = scenario("incast", &[("duration", "10s"), ("requests", "instant")]).unwrap();
    let progress = Progress::default();
    // Nothing of the run is made.
    progress.cancelled.store(true, Ordering::Relaxed);
    let (outcome, cores) = r.run_on(0, &Threads::up_to(4), &progress).unwrap();
    assert!(!outcome.completed);
    let note = progress.note.lock().unwrap().clone();
    assert!(note.as_deref().is_some_and(|note| note.contains("instant")), "{note:?}");
    assert_eq!(note, cores.note);
}
#[test]
fn flows_that_nothing_will_ever_move_are_told() {
    let standing = |protocol: &str| {
        let given = [("topology", "fat-tree:4"), ("protocol", protocol), ("duration", "1ms")];
        let outcome = scenario("permutation", &given).unwrap().run(0, &Progress::default()).unwrap();
        let told = outcome.warnings.into_iter().filter(|line| line.contains("will never go on"));
        told.collect::<Vec<_>>()
    };
    // A window of no byte, which no timer opens.
    let told = standing("nscc-rccc:rtt=1ns");
    assert!(told.len() == 1 && told[0].starts_with("16 flows with data to send"), "{told:?}");
    assert!(told[0].contains("nothing has happened in the network since"), "{told:?}");
    for protocol in ["dctcp", "nscc-rccc", "dcqcn", "homa", "ndp"] {
        assert_eq!(standing(protocol), Vec::<String>::new(), "{protocol}");
    }
}
