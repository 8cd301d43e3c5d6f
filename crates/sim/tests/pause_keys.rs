//! Guards: keys of pause, trimming and order of service add to what protocols need of switches, or are refused. Limits hold for every priority, and every
//! pause ends. ACKs that share a marked priority are not lost. Pauses are told by port, priority and event.

use penstock_sim::document::resolve;
use penstock_sim::engine::Progress;
use penstock_sim::scenario::Outcome;
use penstock_sim::tables::{table, Table, Values};
use serde_json::json;

fn run(toml: &str, set: &[(&str, &str)]) -> Outcome {
    let set: serde_json::Map<_, _> = set.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect();
    let resolved = resolve(&json!({ "toml": toml, "seed": 1, "set": set }).to_string()).unwrap();
    resolved.run(0, &Progress::default()).unwrap()
}
fn refused(toml: &str, set: &[(&str, &str)]) -> String {
    let set: serde_json::Map<_, _> = set.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect();
    resolve(&json!({ "toml": toml, "seed": 1, "set": set }).to_string())
        .err()
        .expect("it is refused")
        .to_string()
}
fn of(o: &Outcome, key: &str) -> f64 {
    o.summary.get(key).copied().unwrap_or(0.0)
}
fn numbers(table: &Table, name: &str) -> Vec<f64> {
    let (_, values) = table.columns.iter().find(|(what, _)| what.name == name).expect("the column is there");
    match values {
        Values::U64(v) => v.iter().map(|x| *x as f64).collect(),
        Values::I64(v) => v.iter().map(|x| *x as f64).collect(),
        Values::F64(v) => v.clone(),
        _ => panic!("{name} is a column of numbers"),
    }
}

/// Four flows into one port of a star.
const FOUR: &str = "scenario = \"custom\"\ntopology = \"star:5\"\nlink_rate = \"100Gbps\"\nlink_delay = \"5us\"\nduration = \"20ms\"\n\
                    protocol = \"roce\"\nbuffer = \"shared:alpha=1,size=4MB\"\n\
                    [[workload]]\nkind = \"flows\"\nfrom = \"h[0-3]\"\nto = \"h4\"\nsize = \"2MB\"\n";

#[test]
fn pfc_on_pauses_the_priorities_that_protocols_use() {
    let pauses = |set: &[(&str, &str)]| {
        let o = run(FOUR, set);
        assert_eq!((of(&o, "drops"), of(&o, "flows_completed")), (0.0, 4.0), "{set:?}");
        of(&o, "pauses")
    };
    let bare = pauses(&[]);
    assert!(bare > 4.0, "{bare} pauses");
    for keys in ["on", "on:lossless=3"] {
        assert_eq!(pauses(&[("pfc", keys)]), bare, "{keys}");
    }
    // Other keys change what they name.
    let more = pauses(&[("pfc", "on:alpha=1")]);
    assert!(more > 0.0 && more != bare, "{more}");
    assert!(pauses(&[("pfc", "on:xoff=30KB")]) > 0.0);
    // A port's own buffer is the fixed threshold of its lanes, also of one in priority 3.
    let o = run(FOUR, &[("pfc", "on"), ("buffer", "100pkt")]);
    let (queue, lanes) = (of(&o, "queue_max_packets"), 4.0);
    assert!(of(&o, "pauses") > 0.0 && of(&o, "drops") == 0.0 && queue < lanes * 220.0, "{queue} packets");
    // TCP has the priorities of its classes.
    let tcp = [
        ("protocol", "newreno"),
        ("pfc", "on"),
        ("priorities", "2"),
        ("buffer", "20pkt"),
        ("queue", "droptail"),
    ];
    assert!(pauses(&tcp) > 0.0);
}

#[test]
fn priorities_without_loss_are_among_those_used_and_hold_those_needed() {
    let rule = refused(FOUR, &[("pfc", "on:lossless=0")]);
    assert!(
        rule.starts_with("pfc:lossless = \"0\": must hold the priorities that a protocol of the run needs"),
        "{rule}"
    );
    let rule = refused(FOUR, &[("pfc", "on:lossless=2"), ("protocol", "newreno")]);
    assert_eq!(rule, "pfc:lossless = \"2\": must be among the priorities of the run's data, 0");
    let rule = refused(FOUR, &[("pfc", "on:alpha=1"), ("protocol", "newreno"), ("buffer", "20pkt")]);
    assert!(rule.starts_with("pfc:alpha") && rule.contains("needs memory that is shared"), "{rule}");
    let rule = refused(FOUR, &[("pfc", "ingress"), ("protocol", "roce:recovery=off")]);
    assert!(rule.contains("pfc=ingress sends no pause frames"), "{rule}");
}

#[test]
fn trim_schedule_and_priorities_leave_marks_and_pause_as_they_are_needed() {
    let marked = |set: &[(&str, &str)]| {
        let all = [&[("protocol", "dctcp-roce:kmin=30KB,kmax=30KB")], set].concat();
        let o = run(FOUR, &all);
        assert_eq!((of(&o, "drops"), of(&o, "flows_completed")), (0.0, 4.0), "{set:?}");
        of(&o, "ce_marks")
    };
    assert!(marked(&[]) > 0.0);
    for (key, value) in [("trim", "64B"), ("schedule", "strict"), ("schedule", "fifo"), ("priorities", "2")] {
        assert!(marked(&[(key, value)]) > 0.0, "{key}={value}");
    }
}

#[test]
fn limits_hold_for_every_priority() {
    // Without pause, data of priority 3 is trimmed at the port's limit, and so are the headers that remain.
    let o = run(FOUR, &[("pfc", "off"), ("trim", "64B"), ("buffer", "20pkt")]);
    let queue = of(&o, "queue_max_packets");
    assert!(of(&o, "trims") > 0.0 && queue <= 60.0, "{queue} packets");
}

#[test]
fn admission_by_ingress_limits_lanes_without_pause_frames() {
    let o = run(FOUR, &[("pfc", "ingress")]);
    assert!(of(&o, "drops") > 0.0 && of(&o, "pauses") == 0.0);
}

/// Pause frames of 43 bytes take less than a nanosecond at 400 Gb/s. With a clock of whole nanoseconds a stop and its release are sent in one nanosecond,
/// and take effect in the order in which they were sent.
#[test]
fn every_pause_ends_where_frames_take_no_time() {
    let toml = "scenario = \"custom\"\ntopology = \"leaf-spine:4x2x8\"\nlink_rate = \"100Gbps\"\nfabric_rate = \"400Gbps\"\n\
                link_delay = \"1us\"\nsegment = \"1000B\"\nsend_jitter = \"0s\"\nduration = \"60ms\"\n\
                buffer = \"shared:alpha=1,size=4MiB\"\nprotocol = \"roce:rules=hpcc-ns3,clock=whole-ns\"\n\
                [[workload]]\nkind = \"poisson\"\nfrom = \"all\"\nto = \"all\"\nsizes = \"websearch\"\nload = 0.6\ncount = 1000\n";
    let o = run(toml, &[]);
    assert_eq!((of(&o, "flows_completed"), of(&o, "drops")), (1000.0, 0.0));
    assert!(of(&o, "pauses") > 100.0);
}

/// With the priority of data, ACKs pass the ports that mark it.
#[test]
fn acks_are_not_lost_where_data_is_marked() {
    let toml = "scenario = \"custom\"\ntopology = \"leaf-spine:4x2x8\"\nlink_rate = \"100Gbps\"\nfabric_rate = \"400Gbps\"\n\
                link_delay = \"1us\"\nsegment = \"1000B\"\nsend_jitter = \"0s\"\nduration = \"60ms\"\n\
                buffer = \"shared:alpha=1,size=32MiB\"\n\
                protocol = \"dctcp-roce:rules=hpcc-ns3,kmin=300KB,kmax=300KB,k_rate=100Gbps,window=102500B,control_priority=3\"\n\
                [[workload]]\nkind = \"poisson\"\nfrom = \"all\"\nto = \"all\"\nsizes = \"websearch\"\nload = 0.6\ncount = 400\n";
    let o = run(toml, &[]);
    assert_eq!((of(&o, "flows_completed"), of(&o, "drops")), (400.0, 0.0));
    assert!(of(&o, "ce_marks") > 0.0);
}

#[test]
fn pauses_are_told_by_port_priority_and_event() {
    let o = run(FOUR, &[("pause_events", "true")]);
    let (ports, events) = (table(&o.engine.measured(), "ports"), table(&o.engine.measured(), "events"));
    let sum = |name: &str| numbers(&ports, name).iter().sum::<f64>();
    assert!(of(&o, "pauses") > 0.0);
    assert_eq!(sum("pauses_received_3"), of(&o, "pauses"));
    assert_eq!(sum("pauses_sent_3"), of(&o, "pauses"));
    assert!((sum("paused_3_s") - of(&o, "paused_s")).abs() < 1e-12);
    assert!(ports.columns.iter().all(|(what, _)| what.name != "pauses_sent_2"));
    // A pause and a resume each: all have ended. The time between them is what the table of ports has.
    let (at, port, priority) =
        (numbers(&events, "time_s"), numbers(&events, "port"), numbers(&events, "priority"));
    let told: Vec<usize> = (0..at.len()).filter(|i| port[*i] >= 0.0).collect();
    assert_eq!(told.len() as f64, 2.0 * of(&o, "pauses"));
    assert!(told.iter().all(|i| priority[*i] == 3.0));
    let mut since = std::collections::BTreeMap::new();
    let mut paused = 0.0;
    for i in told {
        match since.remove(&(port[i] as u64)) {
            None => drop(since.insert(port[i] as u64, at[i])),
            Some(begin) => paused += at[i] - begin,
        }
    }
    assert!((paused - of(&o, "paused_s")).abs() < 1e-9, "{paused} s");
    // Without the key there are neither rows nor columns.
    let o = run(FOUR, &[]);
    let events = table(&o.engine.measured(), "events");
    assert!(events.columns.iter().all(|(what, _)| what.name != "priority"));
}

#[test]
fn queue_pairs_of_a_collective_last() {
    let toml = "scenario = \"custom\"\ntopology = \"star:4\"\nlink_rate = \"100Gbps\"\nlink_delay = \"1us\"\nduration = \"50ms\"\n\
                protocol = \"hpcc\"\n[[workload]]\nkind = \"collective\"\noperation = \"all-reduce\"\nalgorithm = \"ring\"\n\
                hosts = \"h[0-3]\"\nsize = \"1MB\"\n";
    let flows = |toml: &str| of(&run(toml, &[]), "flows");
    // Six steps of four ranks, of which each sends to its neighbour alone.
    assert_eq!(flows(toml), 4.0);
    assert_eq!(flows(&format!("{toml}connections = \"fresh\"\n")), 24.0);
    assert_eq!(flows(&toml.replace("hpcc", "newreno")), 24.0);
}
