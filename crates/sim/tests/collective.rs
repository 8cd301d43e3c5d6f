//! Guards: collective control leaves no trace in the packets while there is no congestion, and acts when there is.

use penstock_core::{CcHeader, LinkController, LinkView, Packet};
use penstock_sim::engine::{Engine, Progress};
use penstock_sim::scenario::Resolved;
use penstock_units::Time;
use std::sync::{Arc, Mutex};

/// One packet at a router's port: when it came, and everything in it.
type Row = (u64, u32, u64, u32, u32, u16, u64);

#[derive(Clone, Default)]
struct Trace(Arc<Mutex<Vec<Row>>>);

impl LinkController for Trace {
    fn on_arrival(&mut self, now: Time, _: &LinkView, p: &mut Packet, _: &mut CcHeader) {
        let row = (now.0, p.flow, p.seq, p.payload, p.wire_len, p.flags, p.stamp);
        self.0.lock().unwrap().push(row);
    }
}

/// Every packet that reaches a router port, and the changes of state of the connections.
fn run(set: &[(&str, &str)]) -> (Vec<Row>, Vec<&'static str>) {
    let given: Vec<_> = set.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let resolved = Resolved::new("db-ftp", &given, 1, serde_json::Value::Null).unwrap();
    let mut setup = resolved.setup(0).unwrap();
    let trace = Trace::default();
    let copy = trace.clone();
    setup.protocols[0].0.router = Some(Arc::new(move |_| Box::new(copy.clone())));
    setup.router = Some(0);
    let mut engine = Engine::new(setup).unwrap();
    assert!(engine.run(&Progress::default()).unwrap());
    let changes = |w: &&str| ["controlling", "ready", "uncongested"].iter().any(|s| w.starts_with(s));
    let states = engine.recorder.events.iter().map(|e| e.what.name()).filter(changes).collect();
    let rows = std::mem::take(&mut *trace.0.lock().unwrap());
    (rows, states)
}

/// Links ten times as fast and 5 ms long: bursts hardly queue, so nothing looks like congestion.
const QUIET: [(&str, &str); 4] =
    [("link_rate", "100Mbps"), ("link_delay", "5ms"), ("ftp_start", "1s"), ("duration", "20s")];

#[test]
fn without_congestion_the_packet_trace_is_plain_tcps() {
    let with = |control| {
        let mut set = QUIET.to_vec();
        set.push(("control", control));
        run(&set)
    };
    let (plain, _) = with("none");
    assert!(plain.len() > 20_000, "{} packets are too few to mean something", plain.len());
    for control in ["cbc", "cbc:set=destination", "cbc:set=performance", "cbc:set=ecn", "cbc:form=printed"] {
        let (trace, states) = with(control);
        assert!(states.is_empty(), "{control} saw congestion: {states:?}");
        assert!(trace == plain, "{control} changed the packets");
    }
}

#[test]
fn with_congestion_control_sets_in_and_changes_the_packets() {
    let set = [("duration", "40s"), ("control", "cbc")];
    let (plain, none) = run(&set[..1]);
    let (trace, states) = run(&set);
    assert!(none.is_empty(), "plain TCP has no states");
    assert!(states.iter().any(|s| s.starts_with("controlling")));
    assert!(trace != plain);
}
