//! Guards: RDMA's retransmission timer stands above what full switches make a packet wait, and its network cards know a link that
//! degrades, fails and is routed around.

use penstock_sim::document::resolve;
use penstock_sim::engine::Progress;
use penstock_sim::fabric_options::longest_wait;
use penstock_sim::scenario::{Outcome, Resolved};
use penstock_units::{Bytes, Dur, Rate};
use serde_json::{json, Value};

fn resolved(scenario: &str, set: &[(&str, &str)]) -> Resolved {
    let set: serde_json::Map<_, _> = set.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect();
    resolve(&json!({ "scenario": scenario, "seed": 1, "set": set }).to_string()).unwrap()
}
fn custom(toml: &str) -> Outcome {
    seeded(toml, 1)
}
fn seeded(toml: &str, seed: u64) -> Outcome {
    let document: Value = json!({ "toml": toml, "base_dir": ".", "seed": seed });
    resolve(&document.to_string()).unwrap().run(0, &Progress::default()).unwrap()
}
fn value(o: &Outcome, key: &str) -> f64 {
    o.summary.get(key).copied().unwrap_or(0.0)
}

/// The finding: 31 hosts at once into one link, others while the queue is up to 5 ms long; the timer was 1.05 ms.
#[test]
fn who_begins_behind_a_full_queue_has_no_timeout_and_repeats_nothing() {
    let with = |protocol| {
        let o = custom(&format!(
            "scenario = \"custom\"\nprotocol = \"{protocol}\"\nhosts = [\"h[0-47]\"]\nswitches = [\"s\"]\nduration = \"100ms\"\n\
             [[link]]\nbetween = [\"h[0-47]\", \"s\"]\nrate = \"10Gbps\"\ndelay = \"1us\"\n\
             [[workload]]\nkind = \"flows\"\nfrom = \"h[1-31]\"\nto = \"h0\"\nsize = \"1MB\"\n\
             [[workload]]\nkind = \"flows\"\nfrom = \"h[32-47]\"\nto = \"h0\"\nsize = \"1MB\"\nspread = \"4ms\"\n"
        ));
        assert_eq!((value(&o, "flows_completed"), value(&o, "drops")), (47.0, 0.0));
        [value(&o, "timeouts"), value(&o, "retransmits")]
    };
    let [timeouts, repeated] = with("dcqcn:rto=1048.576us");
    println!("timer of 2^8 x 4.096 us: {timeouts} timeouts, {repeated} packets again");
    assert!(timeouts > 0.0 && repeated > 0.0);
    assert_eq!(with("dcqcn"), [0.0, 0.0]);
}

/// Several leaves feed one host, and full ones wait for each other.
#[test]
fn nor_has_an_incast_over_two_tiers() {
    let toml = |to: &str| {
        format!(
            "scenario = \"custom\"\ntopology = \"leaf-spine:5x2x16\"\nlink_rate = \"10Gbps\"\nfabric_rate = \"40Gbps\"\n\
             link_delay = \"1us\"\nprotocol = \"dcqcn\"\nduration = \"300ms\"\n\
             [[workload]]\nkind = \"flows\"\nfrom = {to}\nto = \"h0\"\nsize = \"2MB\"\n"
        )
    };
    let o = custom(&toml("[\"h[16-79]\"]"));
    println!("{:?}", o.summary);
    assert_eq!(value(&o, "flows_completed"), 64.0);
    assert!(value(&o, "pauses") > 0.0);
    assert_eq!((value(&o, "timeouts"), value(&o, "retransmits"), value(&o, "drops")), (0.0, 0.0, 0.0));
}

#[test]
fn the_longest_wait_is_the_memory_of_the_way_at_its_slowest_port() {
    // One switch: its memory at the rate of a port.
    let setup = resolved("incast", &[("protocol", "dcqcn"), ("link_rate", "10Gbps"), ("queue", "droptail")])
        .setup(0)
        .unwrap();
    let size = setup.fabric.shared.expect("pause needs it").size;
    assert_eq!(longest_wait(&setup), Bytes(size) / Rate(10_000_000_000));
    // Five switches between hosts of different pods, 100 packets of 1,500 bytes at each port of 1 Gb/s.
    let set = [
        ("topology", "fat-tree:4"),
        ("link_rate", "1Gbps"),
        ("fabric_rate", "1Gbps"),
        ("buffer", "100pkt"),
        ("mtu", "1500B"),
    ];
    let setup = resolved("permutation", &set).setup(0).unwrap();
    assert_eq!(longest_wait(&setup), Dur::micros(1200) * 5);
    // A link that degrades to a tenth takes ten times as long.
    let slow = [&set[..], &[("fail", "agg0.0<->core0@1ms-2ms,rate=100Mbps")]].concat();
    assert_eq!(longest_wait(&resolved("permutation", &slow).setup(0).unwrap()), Dur::millis(12) * 5);
    // Without limit nothing is known.
    let set = [("topology", "fat-tree:4"), ("buffer", "unlimited")];
    if let Ok(setup) = resolve(&json!({ "scenario": "permutation", "seed": 1, "set": json!({"topology": set[0].1, "buffer": set[1].1}) }).to_string()) {
        assert_eq!(longest_wait(&setup.setup(0).unwrap()), Dur::ZERO);
    }
}

/// Two hosts at a switch, 10 Gb/s and 1 us each; a flow of 100 packets of 1504 B.
fn hundred_packets(more: &str) -> Outcome {
    custom(&format!(
        "scenario = \"custom\"\nprotocol = \"dcqcn\"\nhosts = [\"h0\", \"h1\"]\nswitches = [\"s\"]\nduration = \"10ms\"\n\
         segment = \"1460B\"\nsend_jitter = \"0s\"\n{more}\n\
         [[link]]\nbetween = [\"h[0-1]\", \"s\"]\nrate = \"10Gbps\"\ndelay = \"1us\"\n\
         [[workload]]\nkind = \"flows\"\nfrom = \"h0\"\nto = \"h1\"\nsize = \"146000B\"\n"
    ))
}

#[test]
fn a_card_whose_link_degrades_sends_at_the_new_rate_from_the_next_packet_on() {
    let us = |o: &Outcome| {
        let flow = &o.engine.recorder.flows[0];
        assert_eq!((flow.delivered_bytes, flow.retransmits, flow.timeouts), (146_000, 0, 0));
        value(o, "fct_mean_s") * 1e6
    };
    // 1504 B take 1.2032 us at 10 Gb/s. The way of the last one through the switch and of its ACK (48 B) back: 4 us of
    // cables, one packet, two ACKs of 38.4 ns.
    let back = 4.0 + 1.2032 + 2.0 * 0.0384;
    assert!((us(&hundred_packets("")) - (100.0 * 1.2032 + back)).abs() < 1e-6);
    // At 1 Gb/s from 60 us on: packet 50 has begun at 59.0 us (49 x 1.2032) and ends at 60.16, the other 50 take 12.032 us each.
    let o = hundred_packets("fail = \"h0->s@60us,rate=1Gbps\"");
    assert!((us(&o) - (50.0 * 1.2032 + 50.0 * 12.032 + back)).abs() < 1e-6, "{}", us(&o));
    // Until 100 us: of these, packets begun at 60.16, 72.192, 84.224, 96.256 are slow, 46 more are fast.
    let o = hundred_packets("fail = \"h0->s@60us-100us,rate=1Gbps\"");
    assert!((us(&o) - (96.0 * 1.2032 + 4.0 * 12.032 + back)).abs() < 1e-6, "{}", us(&o));
}

/// A spine fails for ever. With rerouting every flow ends, whatever pulls; without it a flow on a fixed path does not.
#[test]
fn pulling_cards_are_routed_around_a_failed_spine() {
    let toml = |protocol: &str, reroute: &str| {
        format!(
            "scenario = \"custom\"\nprotocol = \"{protocol}\"\ntopology = \"leaf-spine:2x2x4\"\nlink_rate = \"10Gbps\"\n\
             fabric_rate = \"40Gbps\"\nlink_delay = \"1us\"\nduration = \"40ms\"\nreroute = \"{reroute}\"\n\
             fail = \"leaf0<->spine0@300us; leaf1<->spine0@300us\"\n\
             [[workload]]\nkind = \"flows\"\nfrom = \"h[0-3]\"\nto = \"h[4-7]\"\nsize = \"1MB\"\ncount = 2\n"
        )
    };
    for protocol in ["dcqcn", "ndp", "pfabric"] {
        let mut under_way = 0.0;
        for seed in 1..=4 {
            let o = seeded(&toml(protocol, "at-once"), seed);
            assert_eq!(value(&o, "flows_completed"), 8.0, "{protocol} {seed}");
            under_way += value(&o, "drops_down");
            for f in &o.engine.recorder.flows {
                assert_eq!(
                    (f.delivered_bytes, f.acked_bytes),
                    (1_000_000, 1_000_000),
                    "{protocol} {seed} flow {}",
                    f.flow
                );
            }
        }
        // pFabric sends four flows at a time. With some seeds all of them have the other spine at that moment.
        assert!(under_way > 0.0, "{protocol}: nothing was under way");
    }
    let o = custom(&toml("dcqcn", "never"));
    let done = value(&o, "flows_completed");
    assert!(done > 0.0 && done < 8.0, "{done} of 8");
}

/// Twelve hosts at once into one, in two tiers without pause frames and with a shallow buffer.
fn lossy(protocol: &str) -> Outcome {
    custom(&format!(
        "scenario = \"custom\"\nprotocol = \"{protocol}\"\ntopology = \"leaf-spine:4x2x4\"\nlink_rate = \"10Gbps\"\n\
         fabric_rate = \"20Gbps\"\nlink_delay = \"1us\"\nduration = \"200ms\"\npfc = \"off\"\nbuffer = \"shared:alpha=1,size=150KB\"\n\
         [[workload]]\nkind = \"flows\"\nfrom = \"h[4-15]\"\nto = \"h0\"\nsize = \"300KB\"\nspread = \"20us\"\n"
    ))
}

/// The finding of IRN (section 4.2): without pause frames selective repeat with a window of a pipe does what go-back-N cannot.
#[test]
fn selective_repeat_needs_no_pause_frames() {
    let go_back = lossy("roce:window=bdp,rto=400us");
    let irn = lossy("roce:recovery=irn,window=bdp,rto=400us");
    for o in [&go_back, &irn] {
        assert_eq!(value(o, "flows_completed"), 12.0);
        assert!(value(o, "drops") > 0.0 && value(o, "pauses") == 0.0);
    }
    // What arrived is not sent again: repetitions are the losses, and few more.
    let [repeated, lost] = ["retransmits", "drops"].map(|key| value(&irn, key));
    println!(
        "irn: {repeated} again for {lost} lost; go-back-N: {} for {}",
        value(&go_back, "retransmits"),
        value(&go_back, "drops")
    );
    assert!(repeated < 1.2 * lost, "{repeated} for {lost}");
    assert!(value(&go_back, "retransmits") > 2.0 * value(&go_back, "drops"));
    assert!(value(&irn, "fct_p99_s") < value(&go_back, "fct_p99_s"));
}

/// Packets that overtake each other are no losses to a receiver that keeps them.
#[test]
fn without_recovery_packets_may_overtake_each_other() {
    let o = custom(
        "scenario = \"custom\"\nprotocol = \"dcqcn:recovery=off\"\ntopology = \"leaf-spine:2x4x4\"\nlink_rate = \"10Gbps\"\n\
         link_delay = \"1us\"\nduration = \"20ms\"\nspread = \"packet\"\n\
         [[workload]]\nkind = \"flows\"\nfrom = \"h[0-3]\"\nto = \"h[4-7]\"\nsize = \"1MB\"\n",
    );
    assert_eq!((value(&o, "flows_completed"), value(&o, "retransmits"), value(&o, "drops")), (4.0, 0.0, 0.0));
}

#[test]
fn recovery_off_is_refused_where_packets_can_be_lost() {
    let refused = |set: &[(&str, &str)]| {
        let set: serde_json::Map<_, _> = set.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect();
        let text = json!({ "scenario": "rdma", "seed": 1, "set": set }).to_string();
        resolve(&text).err().map(|e| e.to_string()).unwrap_or_default()
    };
    let off = ("protocol", "hpcc:recovery=off");
    let rule = "protocol = \"hpcc:recovery=off\": recovery=off sends nothing again and needs a fabric that loses nothing: ";
    assert_eq!(refused(&[off]), "");
    assert_eq!(refused(&[off, ("pfc", "off")]), format!("{rule}pfc is off"));
    assert_eq!(refused(&[off, ("fail", "leaf0<->spine0@1ms-2ms")]), format!("{rule}fail takes a link down"));
    assert_eq!(refused(&[off, ("fail", "leaf0<->spine0@1ms-2ms,rate=1Gbps")]), "");
    let short = ("protocol", "hpcc:recovery=off,pfc_headroom=0.5");
    assert!(
        refused(&[short]).contains("the headroom of h0->leaf0 is below the formula"),
        "{}",
        refused(&[short])
    );
    assert_eq!(refused(&[("protocol", "hpcc"), ("pfc", "off")]), "");
}

#[test]
fn a_run_has_one_kind_of_telemetry_and_an_own_clock_its_own_accounting() {
    let run = |first: &str, second: &str| {
        let text = format!(
            "scenario = \"custom\"\ntopology = \"star:4\"\nlink_rate = \"10Gbps\"\nlink_delay = \"1us\"\nduration = \"2ms\"\n\
             send_jitter = \"0s\"\nbuffer = \"shared:alpha=1,size=400KB\"\nprotocol = \"{first}\"\n\
             [[workload]]\nkind = \"flows\"\nfrom = \"h[0-1]\"\nto = \"h3\"\nsize = \"200KB\"\n\
             [[workload]]\nkind = \"flows\"\nfrom = \"h2\"\nto = \"h3\"\nsize = \"200KB\"\nprotocol = \"{second}\"\n"
        );
        let document: Value = json!({ "toml": text, "base_dir": ".", "seed": 1 });
        resolve(&document.to_string()).and_then(|r| r.run(0, &Progress::default()))
    };
    let refused = |first, second| run(first, second).err().map(|e| e.to_string()).unwrap_or_default();
    for (first, second) in [("hpcc:int=pint", "hpcc"), ("hpcc:int=pint", "hpcc:int=pint,pint_base=1.02")] {
        let rule = "reads other telemetry than another protocol of the run";
        assert!(refused(first, second).contains(rule), "{}", refused(first, second));
    }
    let digest = run("hpcc:int=pint", "hpcc:int=pint").unwrap();
    assert_eq!((value(&digest, "flows_completed"), value(&digest, "drops")), (3.0, 0.0));
    // No control: three at a time into one link, 200 KB each into 400 KB. Which packet pauses is another one, nothing is lost.
    let pauses = |keys: &str| {
        let law = format!("roce:rules=hpcc-ns3,pfc_headroom=6{keys}");
        let o = run(&law, &law).unwrap();
        assert_eq!((value(&o, "flows_completed"), value(&o, "drops")), (3.0, 0.0));
        value(&o, "paused_s")
    };
    let sent = pauses(",pfc_accounting=until-sent");
    assert!(sent > 0.0);
    assert_eq!(pauses(""), sent);
    assert_ne!(pauses(",pfc_accounting=until-taken"), sent);
}

/// Two hosts of the first protocol and two of the second into one host of a star.
fn side_by_side_toml(first: &str, second: &str, keys: &str) -> String {
    format!(
        "scenario = \"custom\"\ntopology = \"star:5\"\nlink_rate = \"10Gbps\"\nlink_delay = \"1us\"\nduration = \"6ms\"\n\
         protocol = \"{first}\"\n{keys}[[workload]]\nkind = \"flows\"\nfrom = \"h[0-1]\"\nto = \"h4\"\nsize = \"2KB\"\n\
         [[workload]]\nkind = \"flows\"\nfrom = \"h[2-3]\"\nto = \"h4\"\nsize = \"2MB\"\nstart = \"1ms\"\nprotocol = \"{second}\"\n"
    )
}
fn side_by_side(first: &str, second: &str, keys: &str) -> Result<Outcome, String> {
    let text = side_by_side_toml(first, second, keys);
    let document: Value = json!({ "toml": text, "base_dir": ".", "seed": 1 });
    let run = resolve(&document.to_string()).and_then(|r| r.run(0, &Progress::default()));
    run.map_err(|e| e.to_string())
}

/// The finding: the needs of the first protocol that had any were met, so HPCC behind DCQCN kept the line rate without telemetry, and
/// DCQCN behind HPCC without marks.
#[test]
fn every_protocol_of_a_run_gets_what_it_needs_of_switches() {
    for (first, second) in
        [("hpcc", "hpcc"), ("dcqcn", "hpcc"), ("pias", "hpcc"), ("dctcp-roce:priority=4", "hpcc")]
    {
        let o = side_by_side(first, second, "").unwrap();
        println!("{second} behind {first}: {:?}", o.summary);
        assert_eq!((value(&o, "flows_completed"), value(&o, "drops")), (4.0, 0.0));
        // Two windows of a whole pipe stand there where nothing is told.
        let queue = value(&o, "queue_mean_packets");
        assert!(queue < 2.0, "{second} behind {first}: {queue} packets");
    }
    let marks = |first| value(&side_by_side(first, "dcqcn", "").unwrap(), "ce_marks");
    assert!(marks("dcqcn") > 0.0);
    assert_eq!(marks("hpcc"), marks("dcqcn"));
}

#[test]
fn what_no_port_can_be_for_two_protocols_is_refused() {
    let refused = |first, second, keys| side_by_side(first, second, keys).err().unwrap_or_default();
    let says = |text: String, with: &str| assert!(text.contains(with), "{text}");
    says(
        refused("dcqcn", "dctcp-roce", ""),
        "protocol = \"dctcp-roce\": needs other ports of switches than protocol dcqcn of the run: they differ in the discipline of priority 3 (",
    );
    says(
        refused("homa", "pfabric", ""),
        "protocol = \"pfabric\": needs other ports of switches than protocol homa of the run: they differ in their order of service, and a port has one",
    );
    says(
        refused("dcqcn", "nscc", ""),
        "protocol = \"nscc\": needs other ports of switches than protocol dcqcn of the run: they differ in a limit, which drops packets of a priority without loss",
    );
    says(
        refused("hpcc", "timely:pfc_alpha=0.5", ""),
        "protocol = \"timely:pfc_alpha=0.5\": needs pause frames at other thresholds than protocol hpcc of the run",
    );
    // A key says what it names, and nothing else.
    says(
        refused("dcqcn", "dctcp-roce", "schedule = \"strict\"\n"),
        "they differ in the discipline of priority 3 (",
    );
    // The scenario's own keys decide.
    for (first, second, keys) in [
        ("homa", "pfabric", "schedule = \"strict\"\n"),
        ("hpcc", "timely:pfc_alpha=0.5", "pfc = \"off\"\n"),
        ("dcqcn", "dctcp-roce:priority=4", ""),
    ] {
        assert_eq!(refused(first, second, keys), "");
    }
    // Two sets of parameters of one protocol: the first decides, and that is said.
    let text = side_by_side_toml("dcqcn", "dcqcn:kmin=20KB", "");
    let notes = resolve(&json!({ "toml": text, "base_dir": ".", "seed": 1 }).to_string()).unwrap().notes;
    let said = "switch ports use the first set of parameters of protocol dcqcn, not that of dcqcn:kmin=20KB";
    assert!(notes.iter().any(|note| note == said), "{notes:?}");
}
