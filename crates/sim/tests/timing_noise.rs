//! Guards: hosts of equal rate do not stay in step for ever (a lock-out: one sender wins every free place in a full
//! buffer), and what breaks their step is small against what is measured.

use penstock_sim::engine::{Engine, Progress};
use penstock_sim::metrics::FlowRecord;
use penstock_sim::results::{summarise, Summary};
use penstock_sim::scenario::{Outcome, Resolved};
use penstock_sim::setup::Setup;
use penstock_sim::topology::NodeKind;
use penstock_units::{Dur, Rate};

fn resolved(scenario: &str, seed: u64, settings: &[(&str, &str)]) -> Resolved {
    let given: Vec<_> = settings.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    Resolved::new(scenario, &given, seed, serde_json::Value::Null).expect("a valid scenario")
}
fn run(scenario: &str, seed: u64, settings: &[(&str, &str)]) -> Outcome {
    resolved(scenario, seed, settings).run(0, &Progress::default()).expect("a run")
}

/// Runs of 16 in which an endless flow has less than a twentieth of its share.
fn locked_out(scenario: &str, settings: &[(&str, &str)]) -> usize {
    let starved = |seed: &u64| {
        let o = run(scenario, *seed, settings);
        let long: Vec<u64> =
            o.engine.recorder.flows.iter().filter(|f| f.size == 0).map(|f| f.acked_bytes).collect();
        assert!(long.len() >= 2, "{} long flows", long.len());
        let share = long.iter().sum::<u64>() / long.len() as u64;
        long.iter().any(|bytes| bytes * 20 < share)
    };
    (1..=16).filter(starved).count()
}

const SHORT: (&str, &str) = ("duration", "4s");

#[test]
fn no_sender_is_locked_out_by_default() {
    assert_eq!(locked_out("long-flows", &[("flows", "2"), SHORT]), 0, "long-flows");
    for protocol in ["newreno", "cubic"] {
        assert_eq!(locked_out("mix", &[("protocol", protocol), SHORT]), 0, "mix {protocol}");
    }
}

#[test]
fn with_exact_clocks_senders_are_locked_out() {
    let runs = locked_out("long-flows", &[("flows", "2"), ("send_jitter", "0s"), SHORT]);
    assert!(runs > 8, "the test above would guard nothing: {runs} of 16");
}

#[test]
fn the_default_is_one_packet_at_the_bottleneck_and_is_shown() {
    for (scenario, settings, text) in [
        ("incast", &[][..], "8.32us"),
        ("long-flows", &[], "12us"),
        ("long-flows", &[("link_rate", "100Gbps"), ("framing", "ethernet")], "123.04ns"),
        ("incast", &[("send_jitter", "0s")], ""),
    ] {
        let shown = penstock_sim::document::resolved(&resolved(scenario, 1, settings));
        assert_eq!(
            shown["derived"]["send_jitter"].as_str().unwrap_or_default(),
            text,
            "{scenario} {settings:?}"
        );
    }
}

/// Eight DCTCP flows whose access links differ a little, so that exact clocks lock nothing in.
fn uneven(rate_gbps: u64, rtt_us: u64, send_jitter: Option<&str>) -> Summary {
    let (rate, rtt) = (format!("{rate_gbps}Gbps"), format!("{rtt_us}us"));
    let mut settings = vec![
        ("flows", "8"),
        ("protocol", "dctcp"),
        ("queue", if rate_gbps == 10 { "threshold:k=65pkt" } else { "threshold:k=300pkt" }),
        ("buffer", "1000pkt"),
        ("link_rate", rate.as_str()),
        ("rtt", rtt.as_str()),
        ("duration", if rate_gbps == 10 { "150ms" } else { "40ms" }),
        ("warmup", "20ms"),
    ];
    settings.extend(send_jitter.map(|j| ("send_jitter", j)));
    let mut setup = resolved("long-flows", 1, &settings).setup(0).expect("checked");
    let bottleneck = setup.bottleneck.candidate() as usize;
    let mut n = 0;
    for i in 0..setup.topology.links.len() {
        let l = &mut setup.topology.links[i];
        if i != bottleneck && setup.topology.nodes[l.from as usize].kind == NodeKind::Host {
            n += 1;
            l.rate = Rate(l.rate.0 / 1000 * (1000 + 13 * n));
            l.delay = Dur(l.delay.0 / 1000 * (1000 + 23 * n));
        }
    }
    finish(setup)
}
fn finish(setup: Setup) -> Summary {
    let mut engine = Engine::new(setup).expect("a network");
    engine.run(&Progress::default()).expect("a run");
    summarise(&engine.measured())
}

#[test]
fn one_packet_time_of_noise_leaves_mean_queues_within_three_per_cent() {
    for rate in [10, 100] {
        for rtt in [20, 100] {
            let (exact, noisy) = (uneven(rate, rtt, Some("0s")), uneven(rate, rtt, None));
            for key in ["queue_mean_packets", "utilisation"] {
                let ratio = noisy[key] / exact[key];
                assert!((ratio - 1.0).abs() < 0.03, "{rate} Gb/s, {rtt} us: {key} {ratio}");
            }
        }
    }
}

/// Mean completion time of single flows, one after the other, through an idle rack, in microseconds.
fn completion(rate_gbps: u64, rtt_us: u64, packets: u64, send_jitter: Option<&str>) -> f64 {
    let rate = format!("{rate_gbps}Gbps");
    let (delay, sizes) = (format!("{}ns", rtt_us * 250), format!("fixed:{}B", packets * 1460));
    let count = (20_000 / packets).clamp(5, 200).to_string();
    let mut settings = vec![
        ("long_flows", "0"),
        ("short_flows", count.as_str()),
        ("sizes", sizes.as_str()),
        ("think", "10us"),
        ("warmup", "0s"),
        ("initial_window", "10"),
        ("link_rate", rate.as_str()),
        ("link_delay", delay.as_str()),
        ("buffer", "10000pkt"),
        ("duration", "1s"),
    ];
    settings.extend(send_jitter.map(|j| ("send_jitter", j)));
    let o = run("mix", 1, &settings);
    assert_eq!(o.summary["transfers"].to_string(), count);
    o.summary["fct_mean_s"] * 1e6
}

#[test]
fn one_packet_time_of_noise_leaves_completion_times_within_three_per_cent() {
    for rate in [10, 100] {
        for rtt in [20, 100] {
            for packets in [10, 100, 1000, 6850] {
                let (exact, noisy) =
                    (completion(rate, rtt, packets, Some("0s")), completion(rate, rtt, packets, None));
                let later = noisy - exact;
                assert!(
                    later >= 0.0 && later < 0.03 * exact,
                    "{rate} Gb/s, {rtt} us, {packets}: {exact} + {later} us"
                );
            }
        }
    }
}

/// Goodput of blocks read from servers whose links are 50 us and `step` ns, twice `step` .. more, in Mb/s.
fn incast(servers: u64, step_ns: u64, seed: u64) -> f64 {
    let n = servers.to_string();
    let settings = [("servers", n.as_str()), ("duration", "10s")];
    let mut setup = resolved("incast", seed, &settings).setup(0).expect("checked");
    let topology = &mut setup.topology;
    let mut k = 0;
    for l in &mut topology.links {
        // Both directions of a server's link follow each other.
        if topology.nodes[l.from as usize].name.starts_with("server") {
            k += 1;
        }
        let of_server = [l.from, l.to].iter().any(|n| topology.nodes[*n as usize].name.starts_with("server"));
        if of_server {
            l.delay = Dur(l.delay.0 + step_ns * 1000 * k);
        }
    }
    finish(setup)["goodput_bps"] / 1e6
}

#[test]
fn incast_with_equal_delays_is_like_incast_with_unequal_ones() {
    // With a microsecond of noise the two differ by up to 2.5 (n = 5: 377 and 148 Mb/s).
    for servers in [3, 5, 9] {
        let mean = |step| (1..=3).map(|seed| incast(servers, step, seed)).sum::<f64>() / 3.0;
        let (equal, unequal) = (mean(0), mean(370));
        let ratio = equal / unequal;
        assert!((0.75..1.33).contains(&ratio), "{servers} servers: {equal} and {unequal} Mb/s");
    }
}

#[test]
fn packets_leave_a_noisy_host_in_order_and_none_is_lost() {
    // The engine checks sent = delivered + dropped + held; a packet that overtook another would be a duplicate ACK.
    for protocol in ["newreno", "dctcp"] {
        let settings = [
            ("flows", "3"),
            ("protocol", protocol),
            ("buffer", "100000pkt"),
            ("send_jitter", "200us"),
            ("duration", "1s"),
            ("warmup", "0s"),
            ("rwnd", "200pkt"),
        ];
        let o = run("long-flows", 1, &settings);
        let retransmitted = |f: &FlowRecord| f.retransmits + f.fast_retransmits;
        assert_eq!(o.engine.recorder.flows.iter().map(retransmitted).sum::<u32>(), 0, "{protocol}");
        assert!(o.summary["utilisation"] > 0.99, "{protocol}: noise must not cost capacity: {:?}", o.summary);
    }
}
