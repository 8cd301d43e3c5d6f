//! Guards the facade: it runs what the simulator runs, takes what is new, and refuses what is wrong in one line.

use penstock::{
    Backlog, Bytes, Discipline, DropCause, Dur, Link, Packet, QueueDiscipline, Registry, Rule, Simulation,
    Stream, Time, Topology, Verdict,
};
use std::sync::Arc;

/// A port that keeps two packets, whatever its buffer.
struct Two;

impl QueueDiscipline for Two {
    fn admit(&mut self, _: Time, q: &Backlog, _: &Packet, full: bool, _: &mut Stream) -> Verdict {
        if full || q.packets >= 2 {
            Verdict::Drop(DropCause::Overflow)
        } else {
            Verdict::Accept
        }
    }
}

const TWO: Discipline = Discipline {
    name: "two",
    text: "two packets at most",
    cites: "",
    params: &[],
    marks: |_| false,
    build: |_, _| Ok(Rule::Other(Box::new(Two))),
};

fn incast() -> Simulation<penstock::ByName> {
    Simulation::scenario("incast").set("servers", 4).set("blocks", 2)
}

#[test]
fn a_scenario_is_the_simulators_own() {
    let ours = incast().seed(3).run().unwrap();
    let set = [("servers", "4"), ("blocks", "2")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    let resolved =
        penstock::sim::scenario::Resolved::new("incast", &set, 3, serde_json::Value::Null).unwrap();
    let theirs = resolved.run(0, &penstock::sim::engine::Progress::default()).unwrap();
    assert_eq!(*ours.summary(), theirs.summary);
    assert_eq!(
        ours.fingerprint(),
        penstock::sim::fingerprint::fingerprint(&theirs.engine.measured(), &theirs.summary)
    );
}

#[test]
fn replications_are_those_of_their_numbers() {
    let two = Simulation::on("star:3").queue("droptail").flow(0, 2, "1MB", "0s").flow(
        1,
        2,
        1_000_000,
        Dur::micros(10),
    );
    let runs = two.runs(2).unwrap();
    assert_eq!(runs[0].fingerprint(), two.run().unwrap().fingerprint());
    assert_ne!(runs[0].fingerprint(), runs[1].fingerprint(), "hosts have timing noise of their own in each");
}

#[test]
fn flows_take_the_transport_before_them() {
    let results = Simulation::on("leaf-spine:2x1x2")
        .flow("h0", "h2", Bytes(200_000), Time::ZERO)
        .transport("dctcp")
        .flow("h1", "h3", "200KB", "1us")
        .transport("reno")
        .flow("h2", "h0", "200KB", "2us")
        .transport("dctcp")
        .flow("h3", "h1", "200KB", "3us")
        .buffer("1MB")
        .duration("20ms")
        .run()
        .unwrap();
    let flows = results.flows();
    let names: Vec<_> = flows.iter().map(|f| (f.src, f.dst, f.transport)).collect();
    let expected =
        [("h0", "h2", "newreno"), ("h1", "h3", "dctcp"), ("h2", "h0", "reno"), ("h3", "h1", "dctcp")];
    assert_eq!(names, expected);
    assert!(flows.iter().all(|f| f.complete && f.delivered_bytes == 200_000), "{results}");
    assert_eq!(results.ports().len(), 2 * (4 + 2));
    assert!(results.port("leaf0->spine0").is_some() && results.port("leaf0->leaf1").is_none());
    assert!(results.table("flows").is_some() && results.table("rows").is_none());
}

/// A queue discipline of the caller's own, by the port of a network by name, of one built by hand, and in a scenario.
#[test]
fn queues_are_open_too() {
    let most = |r: &penstock::Results| r["queue_max_packets"];
    let flows = |s: Simulation<penstock::OnNetwork>| {
        s.flow(0, 2, "500KB", "0s").flow(1, 2, "500KB", "0s").duration("2s").set("bottleneck", "switch->h2")
    };
    let named = flows(Simulation::on("star:3").queue(&TWO)).run().unwrap();
    assert_eq!(most(&named), 2.0, "{named}");
    assert!(named["drops"] > 0.0);

    let registry = Registry::standard().with(&TWO);
    let link = Link::new("10Gbps", "1us").unwrap().queue_of(&registry, "two").unwrap();
    let mut network = Topology::default();
    let switch = network.switch("switch");
    for i in 0..3 {
        let host = network.host(format!("h{i}"));
        network.connect(host, switch, &link);
    }
    assert_eq!(most(&flows(Simulation::on(network)).run().unwrap()), 2.0);

    let scenario = incast().registry(registry).set("queue", "two").duration("5s").run().unwrap();
    assert_eq!(most(&scenario), 2.0);
    let document = r#"{"scenario": "incast", "set": {"queue": "two", "servers": 2}}"#;
    assert!(penstock::sim::document::resolve(document).is_err());
    let registry = Arc::new(Registry::standard().with(&TWO));
    assert!(penstock::sim::document::resolve_among(registry.clone(), document).is_ok());
    let catalogue = penstock::sim::document::catalogue_of(&registry);
    assert!(catalogue["queues"].as_array().unwrap().iter().any(|q| q["name"] == "two"));
}

#[test]
fn what_is_wrong_is_one_line_with_key_value_and_rule() {
    let on = |network: &str| Simulation::on(network);
    let good = || on("star:2").flow("h0", "h1", 1000, "0s");
    let cases = [
        (on("star:2").run(), "flow = \"\": a simulation must have at least one flow"),
        (on("start:2").flow(0, 1, 1, "0s").run(), "topology = \"start:2\": must be one of fat-tree:K"),
        (good().flow("h0", "h9", 1, "0s").run(), "flow[2].dst = \"h9\": the network has no such host"),
        (good().flow(0, 7, 1, "0s").run(), "flow[2].dst = \"7\": the network has 2 hosts, counted from 0"),
        (good().flow("h0", "switch", 1, "0s").run(), "flow[2].dst = \"switch\": is a switch"),
        (good().flow(0, 0, 1, "0s").run(), "flow[2].dst = \"h0\": must be another host than src"),
        (good().flow(0, 1, 0, "0s").run(), "flow[2].bytes = \"0\": must be at least 1 byte"),
        (good().flow(0, 1, "1MBit", "0s").run(), "flow[2].bytes = \"1MBit\""),
        (good().flow(0, 1, 1, "2s").run(), "flow[2].at = \"2s\": must be before the end of the run at 1s"),
        (good().transport("dctpc").flow(0, 1, 1, "0s").run(), "did you mean dctcp?"),
        (
            good().transport("rcp").flow(0, 1, 1, "0s").transport("xcp").flow(0, 1, 1, "0s").run(),
            "needs the routers",
        ),
        (good().set("durations", "1s").run(), "durations = \"1s\""),
        (on("star:2").transport("reno").flow(0, 1, 1, "0s").set("protocol", "cubic").run(), "is given twice"),
        (good().buffer("100B").run(), "must hold at least one packet"),
        (good().set("bottleneck", "h0->h1").run(), "bottleneck = \"h0->h1\": must be FROM->TO"),
        (Simulation::scenario("incst").run(), "did you mean incast?"),
    ];
    for (result, words) in cases {
        let message = result.err().map(|e| e.to_string()).unwrap_or_default();
        assert!(message.contains(words) && !message.contains('\n'), "{message:?} lacks {words:?}");
    }
    assert!(good().runs(0).is_err());
    let mut apart = Topology::default();
    apart.host("a");
    apart.host("b");
    let message = Simulation::on(apart).flow("a", "b", 1, "0s").run().unwrap_err().to_string();
    assert_eq!(message, "flow[1] = \"a -> b\": no path leads from a to b");
    assert_eq!(Link::new("fast", "1us").unwrap_err().key, "link.rate");
}
