//! Guards: the keys of hosts do what they say, to the picosecond where that can be worked out by hand. They are refused or named
//! where they cannot apply.
//!
//! The keys are `nic`, `nic_order`, `receive_delay`, `receive_jitter`, `processing_delay`, the quantiles of host latency such as
//! `receive_lag` and `write_turn`, and `missed_ticks_write` and `missed_ticks_arrival`.

use penstock_sim::document::resolve;
use penstock_sim::engine::Progress;
use penstock_sim::scenario::{Outcome, Resolved};
use serde_json::json;

/// Time of a packet of 1504 B and of an ACK of 48 B (RDMA) on a link of 10 Gb/s, us.
const P: f64 = 1.2032;
const ACK: f64 = 0.0384;

/// Two hosts at a switch, 10 Gb/s and 1 us each; a flow of 100 packets in each of `flows`.
fn resolved(protocol: &str, flows: usize, more: &str) -> Result<Resolved, String> {
    on_links(protocol, flows, more, "rate = \"10Gbps\"\ndelay = \"1us\"")
}
fn on_links(protocol: &str, flows: usize, more: &str, links: &str) -> Result<Resolved, String> {
    let mut toml = format!(
        "scenario = \"custom\"\nprotocol = \"{protocol}\"\nhosts = [\"h0\", \"h1\"]\nswitches = [\"s\"]\nduration = \"50ms\"\n\
         segment = \"1460B\"\nsend_jitter = \"0s\"\n{more}\n\
         [[link]]\nbetween = [\"h[0-1]\", \"s\"]\n{links}\n"
    );
    for _ in 0..flows {
        toml += "[[workload]]\nkind = \"flows\"\nfrom = \"h0\"\nto = \"h1\"\nsize = \"146000B\"\n";
    }
    resolve(&json!({ "toml": toml, "seed": 1 }).to_string()).map_err(|e| e.to_string())
}
fn run(protocol: &str, flows: usize, more: &str) -> Outcome {
    resolved(protocol, flows, more).unwrap().run(0, &Progress::default()).unwrap()
}
/// Completion times in us, in the order in which the flows were opened.
fn times(o: &Outcome) -> Vec<f64> {
    let mut flows: Vec<_> = o.engine.recorder.flows.iter().collect();
    flows.sort_by_key(|f| f.flow);
    flows.iter().map(|f| f.closed.since(f.opened).as_secs() * 1e6).collect()
}
fn same(found: &[f64], expected: &[f64]) {
    let close =
        found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6);
    assert!(close, "{found:?} instead of {expected:?}");
}

#[test]
fn a_receive_delay_comes_once_with_the_data_and_once_with_the_ack() {
    let plain = 100.0 * P + P + 4.0 + 2.0 * ACK;
    same(&times(&run("dcqcn", 1, "")), &[plain]);
    same(&times(&run("dcqcn", 1, "receive_delay = \"3us\"")), &[plain + 6.0]);
}
/// The data is late by up to `receive_jitter`, and the ACK by as much again. The delay is the same in every run of a seed. Packets
/// stay in order: the transport would answer a packet out of order by a NACK, and retransmits nothing.
#[test]
fn a_receive_jitter_comes_at_most_once_with_the_data_and_once_with_the_ack() {
    let plain = 100.0 * P + P + 4.0 + 2.0 * ACK;
    let o = run("dcqcn", 1, "receive_jitter = \"3us\"");
    let late = times(&o)[0] - plain;
    assert!(late > 0.01 && late < 6.0, "{late} us");
    assert_eq!(o.engine.recorder.flows.iter().map(|f| f.retransmits).sum::<u32>(), 0);
    let both = times(&run("dcqcn", 1, "receive_jitter = \"3us\"\nreceive_delay = \"3us\""))[0] - plain;
    assert!(both > 6.01 && both < 12.0, "{both} us");
    assert_eq!(times(&run("dcqcn", 1, "receive_jitter = \"3us\"")), times(&o));
}
/// On links of 100 Mb/s and 30 us every packet finds the network thread asleep, and the thread wakes 1 or 4 us late. Modulo the
/// 120.32 us of a packet, data is at the switch at 30 us and at its host at 60, its ACK at 93.84 and 7.36. Lateness at the switch
/// delays no packet. At the hosts it delays the last data packet and its ACK. With packets every 1.2 us the thread does not sleep.
#[test]
fn a_machine_is_late_for_what_it_has_slept_before() {
    let (p, ack) = (100.0 * P, 100.0 * ACK);
    let plain = 100.0 * p + p + 120.0 + 2.0 * ack;
    let found = |lag: &str| {
        let (more, links) = (format!("receive_lag = \"{lag}\""), "rate = \"100Mbps\"\ndelay = \"30us\"");
        times(&on_links("dcqcn", 1, &more, links).unwrap().run(0, &Progress::default()).unwrap())
    };
    same(&found("none"), &[plain]);
    same(&found("1e-9:1us,1:1us"), &[plain + 2.0]);
    same(&found("1e-9:4us,1:4us"), &[plain + 8.0]);
    let awake = 100.0 * P + P + 4.0 + 2.0 * ACK;
    same(&times(&run("dcqcn", 1, "receive_lag = \"1e-9:1us,1:1us\"")), &[awake]);
}
/// A machine that is at work for as long with every packet of data, which come every 1.2032 us, and for no time with an ACK. By 1 us each finds it free. By
/// 2 us the last is seen when the 99 before it are done, and its ACK, due 2.0768 us later, finds a machine that is free.
#[test]
fn a_machine_that_is_at_work_hands_over_one_packet_after_the_other() {
    let plain = 100.0 * P + P + 4.0 + 2.0 * ACK;
    let found = |us: &str| times(&run("dcqcn", 1, &format!("data_handover = \"1e-9:{us},1:{us}\"")));
    same(&found("1us"), &[plain]);
    same(&found("2us"), &[2.0 * P + 2.0 + 99.0 * 2.0 + 2.0 + 2.0 * ACK]);
    same(&times(&run("dcqcn", 1, "data_handover = \"none\"\nack_handover = \"none\"")), &[plain]);
}
/// TCP, two packets with a window of one: the first is acknowledged by the timer for delayed ACKs alone, so the flow is as late as that timer.
#[test]
fn a_timer_that_is_late_makes_its_ack_late() {
    let found = |more: &str| {
        let toml = format!(
            "scenario = \"custom\"\nprotocol = \"newreno\"\nhosts = [\"h0\", \"h1\"]\nswitches = [\"s\"]\nduration = \"50ms\"\n\
             segment = \"1460B\"\nsend_jitter = \"0s\"\ninitial_window = 1\ndelayed_ack = 2\ndelayed_ack_timeout = \"500us\"\n{more}\n\
             [[link]]\nbetween = [\"h[0-1]\", \"s\"]\nrate = \"10Gbps\"\ndelay = \"1us\"\n\
             [[workload]]\nkind = \"flows\"\nfrom = \"h0\"\nto = \"h1\"\nsize = \"2920B\"\n"
        );
        let run = resolve(&json!({ "toml": toml, "seed": 1 }).to_string()).unwrap();
        times(&run.run(0, &Progress::default()).unwrap())[0]
    };
    let plain = found("");
    assert!(plain > 500.0 && plain < 800.0, "{plain} us: the timer is not what it waits for");
    same(&[found("timer_lag = \"1e-9:7us,1:7us\"")], &[plain + 7.0]);
    same(&[found("timer_lag = \"none\"")], &[plain]);
}
#[test]
fn a_host_handles_one_packet_after_the_other() {
    // Packets come every 1.2032 us and take 2 us each: the first is there after two links, the last is done 100 times 2 us later. Its ACK
    // finds a host that has just done with the ACK before.
    let expected = 2.0 * P + 2.0 + 100.0 * 2.0 + 2.0 * ACK + 2.0 + 2.0;
    same(&times(&run("dcqcn", 1, "processing_delay = \"2us\"")), &[expected]);
    // Shorter than the gap between packets it is a delay like the other.
    let plain = 100.0 * P + P + 4.0 + 2.0 * ACK;
    same(&times(&run("dcqcn", 1, "processing_delay = \"1us\"")), &[plain + 2.0]);
    same(&times(&run("dcqcn", 1, "processing_delay = \"1us\"\nreceive_delay = \"3us\"")), &[plain + 8.0]);
}
/// Data take a receiver's time, the ACK a sender's.
#[test]
fn each_end_takes_its_own_time() {
    let plain = 100.0 * P + P + 4.0 + 2.0 * ACK;
    let both = |data: &str, ack: &str| {
        let turn = |key: &str, us: &str| format!("{key}_turn = \"1e-9:{us},1:{us}\"\n");
        times(&run("dcqcn", 1, &(turn("receiver", data) + &turn("sender", ack))))
    };
    same(&both("1us", "0s"), &[plain + 1.0]);
    same(&both("0s", "500ns"), &[plain + 0.5]);
    same(&both("1us", "500ns"), &[plain + 1.5]);
    same(&times(&run("dcqcn", 1, "receiver_turn = \"none\"\nsender_turn = \"none\"")), &[plain]);
    // Data that come every 1.2032 us and take 2 us each do not wait for one another, as they would with a processing delay.
    same(&both("2us", "0s"), &[plain + 2.0]);
}
/// Synchronized reads of a packet from each server, all requested at once. The answer of a single server is late by lag and turn.
/// Three servers share a thread, which each write occupies for 100 us. The last write begins when the second ends, and has no lag.
#[test]
fn applications_that_share_a_thread_write_one_after_the_other() {
    let block = |servers: usize, more: &str| {
        let toml = format!(
            "scenario = \"incast\"\nservers = {servers}\nprotocol = \"newreno\"\nsru = \"1000B\"\njitter = \"0s\"\nsend_jitter = \"0s\"\n\
             duration = \"50ms\"\nwarmup = \"10ms\"\n{more}\n"
        );
        let run = resolve(&json!({ "toml": toml, "seed": 1 }).to_string()).unwrap();
        run.run(0, &Progress::default()).unwrap().summary["block_mean_s"] * 1e6
    };
    let alone = block(1, "");
    let constant = |key: &str, us: u32| format!("{key} = \"1e-9:{us}us,1:{us}us\"\n");
    let (lag, time, turn) =
        (constant("write_lag", 20), constant("write_time", 100), constant("write_turn", 7));
    let all = format!("{lag}{time}{turn}");
    same(
        &[block(1, &lag), block(1, &time), block(1, &turn), block(1, &all)],
        &[alone + 20.0, alone, alone + 7.0, alone + 27.0],
    );
    same(&[block(3, &time), block(3, &all)], &[alone + 200.0, alone + 227.0]);
}
/// Flows of one packet with Linux's sender, a clock of 4 ms and a link that loses a third of the packets. A lost packet is
/// retransmitted by a timer that was set when the answer to the SYN arrived, or when an earlier timer expired. If two ticks of
/// five miss such timers, a flow without a timeout is as fast as before. Each timeout of the others is a tick late, or on time.
/// Ticks that miss timers set by writes delay SYNs only.
#[test]
fn a_missed_tick_puts_a_timer_off_by_one() {
    let found = |seed: u64, more: &str| {
        let toml = format!(
            "scenario = \"custom\"\nprotocol = \"linux-reno\"\nhosts = [\"h0\", \"h1\"]\nswitches = [\"s\"]\nduration = \"60s\"\n\
             segment = \"1460B\"\nsend_jitter = \"0s\"\nrto_granularity = \"4ms\"\ntail_loss_probe = false\n{more}\n\
             [[link]]\nbetween = [\"h0\", \"s\"]\nrate = \"10Gbps\"\ndelay = \"1us\"\nloss = 0.33\n\
             [[link]]\nbetween = [\"h1\", \"s\"]\nrate = \"10Gbps\"\ndelay = \"1us\"\n\
             [[workload]]\nkind = \"flows\"\nfrom = \"h0\"\nto = \"h1\"\nsize = \"1460B\"\n"
        );
        let run = resolve(&json!({ "toml": toml, "seed": seed }).to_string()).unwrap();
        times(&run.run(0, &Progress::default()).unwrap())[0]
    };
    let (mut at_once, mut in_time, mut late) = (0, 0, 0);
    for seed in 1..=60 {
        let plain = found(seed, "");
        let after = (found(seed, "missed_ticks_arrival = 0.4") - plain) / 4e3;
        assert!(after > -1e-9 && (after - after.round()).abs() < 1e-6, "{after} ticks at seed {seed}");
        match (plain > 1e3, after > 0.5) {
            (false, true) => {
                panic!("seed {seed} waited for no timer, {plain} us, and is {after} ticks later")
            }
            (false, false) => at_once += 1,
            (true, false) => in_time += 1,
            (true, true) => late += 1,
        }
    }
    println!("{at_once} waited for no timer, {in_time} for one in time, {late} for a late one");
    assert!(at_once > 5 && in_time > 5 && late > 5, "{at_once}, {in_time}, {late}");
    // A SYN is sent, and its timer set, as the application writes: those that lost none.
    let same = |seed| (found(seed, ""), found(seed, "missed_ticks_write = 0.4"));
    assert!((1..=60).map(same).filter(|(plain, _)| *plain < 900e3).all(|(plain, late)| plain == late));
}
/// Data that are answered with a duplicate ACK take their own time: none where nothing is lost.
#[test]
fn data_behind_a_gap_take_their_own_time() {
    let found = |protocol: &str, loss: &str, more: &str| {
        let toml = format!(
            "scenario = \"custom\"\nprotocol = \"{protocol}\"\nhosts = [\"h0\", \"h1\"]\nswitches = [\"s\"]\nduration = \"500ms\"\n\
             segment = \"1460B\"\nsend_jitter = \"0s\"\nrwnd = \"58400B\"\nhost_queue = \"unlimited\"\n{more}\n\
             [[link]]\nbetween = [\"h[0-1]\", \"s\"]\nrate = \"100Mbps\"\ndelay = \"1us\"\nloss = {loss}\n\
             [[workload]]\nkind = \"flows\"\nfrom = \"h0\"\nto = \"h1\"\nsize = \"1MB\"\n"
        );
        times(&resolve(&json!({ "toml": toml }).to_string()).unwrap().run(0, &Progress::default()).unwrap())
            [0]
    };
    let turn = "dupack_turn = \"1e-9:60us,1:60us\"";
    for protocol in ["sack", "linux-reno", "newreno"] {
        same(&[found(protocol, "0", turn)], &[found(protocol, "0", "")]);
        assert!(found(protocol, "0.02", turn) > found(protocol, "0.02", "") + 60.0);
    }
    // Beside a turn of other data it is as long as that unless it is given.
    let other = "receiver_turn = \"1e-9:60us,1:60us\"";
    let both = format!("{other}\n{turn}");
    same(&[found("sack", "0.02", &both)], &[found("sack", "0.02", other)]);
}
/// At 100 Mb/s a packet takes 120 us. An application that reads 1 ms after the first unread byte finds nine packets, for which
/// Linux's receiver sends one ACK. It acknowledges each of the first 21 segments: the window grows by five, and 16 are quick ACKs.
/// With a lag of 5 us every second packet is acknowledged, as by a receiver without applications and without the key.
#[test]
fn one_ack_answers_what_linux_has_read_together() {
    let found = |law: &str, more: &str| {
        let toml = format!(
            "scenario = \"custom\"\nprotocol = \"{law}\"\nhosts = [\"h0\", \"h1\"]\nswitches = [\"s\"]\nduration = \"500ms\"\n\
             segment = \"1460B\"\nsend_jitter = \"0s\"\nrwnd = \"58400B\"\nhost_queue = \"unlimited\"\ndelayed_ack = 2\n{more}\n\
             [[link]]\nbetween = [\"h[0-1]\", \"s\"]\nrate = \"100Mbps\"\ndelay = \"1us\"\n\
             [[workload]]\nkind = \"flows\"\nfrom = \"h0\"\nto = \"h1\"\n"
        );
        let o = resolve(&json!({ "toml": toml }).to_string()).unwrap().run(0, &Progress::default()).unwrap();
        let flow = &o.engine.recorder.flows[0];
        let data = flow.delivered_bytes as f64 / 1460.0;
        assert!(flow.retransmits == 0 && data > 4000.0, "{data}");
        // Two links each way; SYN and its answer.
        let acks = o.engine.packet_hops() as f64 / 2.0 - data - 2.0;
        (data - 21.0) / (acks - 21.0)
    };
    let late = |time: &str| format!("application_lag = \"1e-9:{time},1:{time}\"\n");
    let near = |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 0.03, "{found}");
    near(found("linux-reno", &late("1ms")), 9.0);
    // Its answer leaves twice a packet's time after the read, and has what comes meanwhile in its number; only then is the application called again.
    near(found("linux-reno", &(late("1ms") + "application_turn = \"1e-9:1240us,1:1240us\"")), 1240.0 / 120.0);
    // No answer leaves before its read.
    near(found("linux-reno", &(late("1ms") + "application_turn = \"1e-9:240us,1:240us\"")), 9.0);
    near(found("linux-reno", &late("5us")), 2.0);
    near(found("linux-reno", ""), 2.0);
    near(found("sack", &late("1ms")), 2.0);
}
#[test]
fn a_card_asks_in_turn_or_the_first_one_first() {
    let rest = P + 4.0 + 2.0 * ACK;
    // The first one's second packet is in line before the second one's first: its last packet is number 198 of 200.
    same(&times(&run("dcqcn", 2, "")), &[198.0 * P + rest, 200.0 * P + rest]);
    same(&times(&run("dcqcn", 2, "nic_order = \"strict\"")), &[100.0 * P + rest, 200.0 * P + rest]);
}

/// TCP with windows of 100 packets of 1500 B (1.2 us): the SYN of 40 B takes 0.032 us on a link.
#[test]
fn tcp_sends_from_an_endless_queue_or_is_asked() {
    let more = |nic: &str| format!("initial_window = 100\nhost_queue = \"unlimited\"\n{nic}");
    let pull = |order: &str| format!("initial_window = 100\nnic = \"pull\"\nnic_order = \"{order}\"");
    let syn = 0.032;
    // The first connection hears of its SYN after four links, the second one a SYN later; then data go, and the ACK of the last one.
    let begin = 4.0 + 4.0 * syn;
    let rest = 1.2 + 4.0 + 2.0 * syn;
    let found = times(&run("newreno", 2, &more("nic = \"endless\"")));
    same(&found, &times(&run("newreno", 2, "initial_window = 100\nhost_queue = \"unlimited\"")));
    // What a window allows is queued at once: the first connection's 100 packets go before the second one's.
    same(&found, &[begin + 100.0 * 1.2 + rest, begin + 200.0 * 1.2 + rest]);
    // Asked in turn, the first one's last packet is number 198, as above.
    same(
        &times(&run("newreno", 2, &pull("round-robin"))),
        &[begin + 198.0 * 1.2 + rest, begin + 200.0 * 1.2 + rest],
    );
    same(
        &times(&run("newreno", 2, &pull("strict"))),
        &[begin + 100.0 * 1.2 + rest, begin + 200.0 * 1.2 + rest],
    );
}

#[test]
fn what_cannot_apply_is_refused_or_named() {
    let said = |protocol: &str, more: &str| resolved(protocol, 1, more).map(|_| ()).unwrap_err();
    for protocol in ["dcqcn", "ndp", "pfabric"] {
        let line = said(protocol, "nic = \"endless\"");
        let rule = format!(
            "nic = \"endless\": must be pull, or unset: protocol {protocol} is asked for a packet when the link can take one"
        );
        assert!(line.contains(&rule), "{line}");
        resolved(protocol, 1, "nic = \"pull\"").unwrap();
    }
    let line = said("newreno", "nic = \"pull\"\nhost_queue = \"2pkt\"");
    assert!(line.contains("host_queue = \"2pkt\": must be unset where network cards pull"), "{line}");
    for (more, rule) in [
        ("nic = \"push\"", "nic = \"push\": must be one of endless, pull"),
        ("nic_order = \"fifo\"", "nic_order = \"fifo\": must be one of round-robin, strict"),
        ("receive_lag = \"0.5:1us\"", "receive_lag = \"0.5:1us\": must end with the share 1"),
        ("data_handover = \"0.5:1us\"", "data_handover = \"0.5:1us\": must end with the share 1"),
        ("ack_handover = \"5us\"", "ack_handover = \"5us\": must be none, or SHARE:TIME"),
        ("timer_lag = \"0.5:1us\"", "timer_lag = \"0.5:1us\": must end with the share 1"),
        ("receiver_turn = \"5us\"", "receiver_turn = \"5us\": must be none, or SHARE:TIME"),
        ("dupack_turn = \"5us\"", "dupack_turn = \"5us\": must be none, or SHARE:TIME"),
        ("sender_turn = \"0.5:1us\"", "sender_turn = \"0.5:1us\": must end with the share 1"),
        ("sender_turn = \"1:1us;2:9\"", "sender_turn = \"1:1us;2:9\": must have a share above 0 and up to 1"),
        ("write_lag = \"5us\"", "write_lag = \"5us\": must be none, or SHARE:TIME"),
        ("write_time = \"1:2s\"", "write_time = \"1:2s\": must have times of a second"),
        ("write_turn = \"0.5:1us\"", "write_turn = \"0.5:1us\": must end with the share 1"),
        ("missed_ticks_write = 0.6", "missed_ticks_write = \"0.6\": must be at most 0.499"),
        ("missed_ticks_arrival = -0.1", "missed_ticks_arrival = \"-0.1\": must be"),
        ("application_lag = \"1:2s\"", "application_lag = \"1:2s\": must have times of a second"),
        (
            "application_turn = \"1:1us;9\"",
            "application_turn = \"1:1us;9\": must have a share above 0 and up to 1",
        ),
        ("receive_jitter = \"2s\"", "receive_jitter = \"2s\": must be"),
        ("gso = \"44\"", "gso = \"44\": needs Linux's sender"),
        ("gro = \"10us\"", "gro = \"10us\": needs Linux's sender"),
        ("receive_delay = \"2s\"", "receive_delay = \"2s\": must be"),
        ("processing_delay = \"-1us\"", "processing_delay = \"-1us\": must be"),
    ] {
        let line = said("newreno", more);
        assert!(line.contains(rule), "{line}");
    }
    // Applications that nothing is left to.
    let notes = |protocol: &str| resolved(protocol, 1, "application_lag = \"1:1us\"").unwrap().notes;
    assert!(notes("newreno")[0].contains("application_lag has no effect"), "{:?}", notes("newreno"));
    assert!(notes("linux-reno").is_empty() && notes("dcqcn").len() == 1);
    // Ticks of a clock that has none.
    let notes = |protocol: &str, more: &str| {
        resolved(protocol, 1, &format!("missed_ticks_arrival = 0.1\n{more}")).unwrap().notes
    };
    for (protocol, more) in [("newreno", "rto_granularity = \"4ms\""), ("linux-reno", "")] {
        let said = notes(protocol, more);
        assert!(said[0].contains("missed_ticks_arrival has no effect"), "{said:?}");
    }
    assert!(notes("linux-reno", "rto_granularity = \"4ms\"").is_empty());
    // An order without a card that asks, and one that a transport has of its own.
    assert_eq!(resolved("newreno", 1, "nic_order = \"strict\"").unwrap().without_effect, ["nic_order"]);
    let notes = resolved("pfabric", 1, "nic_order = \"strict\"").unwrap().notes;
    assert!(notes.iter().any(|n| n.starts_with("nic_order has no effect on protocol pfabric")), "{notes:?}");
}

/// Two senders share the link to h2, whose priority is paused; h0 sends to h3 in the other priority too. A card that pulls obeys a pause
/// for the connections of its priority, whichever that is, and for no others.
#[test]
fn a_card_that_pulls_for_tcp_obeys_the_pause_of_each_priority() {
    for (paused, free) in [(0, 1), (1, 0)] {
        let toml = format!(
            "scenario = \"custom\"\nprotocol = \"newreno\"\nhosts = [\"h[0-3]\"]\nswitches = [\"s\"]\nduration = \"20ms\"\n\
             initial_window = 10000\nrwnd = \"100MB\"\nnic = \"pull\"\npriorities = 2\npfc = \"on:xoff=20KB,xon=10KB\"\n\
             [[link]]\nbetween = [\"h[0-3]\", \"s\"]\nrate = \"10Gbps\"\ndelay = \"1us\"\n\
             [[workload]]\nkind = \"flows\"\nfrom = [\"h0\", \"h1\"]\nto = \"h2\"\nclass = {paused}\n\
             [[workload]]\nkind = \"flows\"\nfrom = \"h0\"\nto = \"h3\"\nclass = {free}\n"
        );
        let o = resolve(&json!({ "toml": toml, "seed": 1 }).to_string())
            .unwrap()
            .run(0, &Progress::default())
            .unwrap();
        let gbps: Vec<f64> =
            o.engine.recorder.flows.iter().map(|f| f.acked_bytes as f64 * 8.0 / 20e-3 / 1e9).collect();
        println!("{paused}: {gbps:?}, pauses {}", o.summary["pauses"]);
        assert!(o.summary["pauses"] > 100.0 && o.summary["drops"] == 0.0, "{:?}", o.summary);
        // The paused flows share 10 Gb/s of h2's link, the other has at least what these leave of h0's: half of it.
        assert!((gbps[0] + gbps[1]) > 8.0 && gbps[2] > 4.5, "{gbps:?}");
    }
}
