//! Defaults follow the link: what a paper chose for 1 Gb/s is the same experiment at any rate. Profiles, and what is said
//! about a run before it starts.

use penstock_core::tcp::Personality;
use penstock_sim::document::{catalogue, resolve, resolved};
use penstock_sim::engine::Progress;
use penstock_sim::results::Summary;
use penstock_sim::scenario::Resolved;
use penstock_sim::scenarios;
use penstock_units::Dur;
use serde_json::{json, Map, Value};

fn named(scenario: &str, set: &[(&str, &str)]) -> Resolved {
    let set: Map<String, Value> = set.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect();
    resolve(&json!({ "scenario": scenario, "set": set, "seed": 1 }).to_string()).unwrap()
}

fn run(scenario: &str, set: &[(&str, &str)]) -> Summary {
    named(scenario, set).run(0, &Progress::default()).unwrap().summary
}

/// An engineer's first command, nothing else given.
const FIRST: [(&str, &str); 4] =
    [("servers", "40"), ("link_rate", "25Gbps"), ("sru", "25KB"), ("buffer", "512KB")];

#[test]
fn derived_defaults_are_the_papers_values_at_the_papers_settings() {
    for (scenario, key, value) in [
        ("incast", "jitter", "20us"),
        ("query", "jitter", "20us"),
        ("testbed", "jitter", "20us"),
        ("incast", "rwnd", "1MB"),
        ("long-flows", "start_spread", "1ms"),
        ("mix", "start_spread", "1ms"),
        ("multi-hop", "start_spread", "1ms"),
        ("join", "access_rate", "1Gbps"),
        ("staggered", "access_rate", "1Gbps"),
        ("poisson", "access_rate", "1Gbps"),
        ("join", "delay", "50ms"),
        ("staggered", "delay", "50ms"),
        ("poisson", "delay", "50ms"),
        ("permutation", "duration", "2ms"),
        ("permutation", "rto_min", "1ms"),
        ("rdma", "duration", "10ms"),
        ("rdma", "fabric_rate", "400Gbps"),
    ] {
        let r = named(scenario, &[]);
        assert_eq!(r.params.text(key), value, "{scenario} {key}");
        let told = resolved(&r);
        assert_eq!(told["set"][key], value);
        let text = told["derived"][key].as_str().unwrap_or_else(|| panic!("{scenario} {key}"));
        assert!(text.starts_with(&format!("{value}: ")) && text.len() > value.len() + 10, "{text}");
        assert!(!told["given"].as_array().unwrap().contains(&json!(key)));
    }
}

#[test]
fn derived_defaults_follow_the_link() {
    for (rate, jitter) in [("10Gbps", 2_000), ("100Gbps", 200), ("400Gbps", 50)] {
        for scenario in ["incast", "query", "testbed"] {
            let r = named(scenario, &[("link_rate", rate)]);
            assert_eq!(r.params.dur("jitter"), Dur::nanos(jitter), "{scenario} {rate}");
        }
    }
    let p = named("long-flows", &[("link_rate", "100Gbps"), ("rtt", "10us")]).params;
    assert_eq!(p.dur("start_spread"), Dur::nanos(33_333));
    // Without any propagation flows still do not start together.
    assert!(named("long-flows", &[("rtt", "0s")]).params.dur("start_spread") > Dur::ZERO);
    let p = named("join", &[("capacity", "100Gbps"), ("rtt", "10us")]).params;
    assert_eq!((p.text("access_rate"), p.text("delay")), ("1Tbps", "4.167us"));
    let p = named("permutation", &[("link_rate", "1Gbps")]).params;
    assert!(p.dur("duration") > Dur::millis(20), "{}", p.dur("duration"));
    // A given value stays.
    assert_eq!(
        named("incast", &[("link_rate", "100Gbps"), ("jitter", "20us")]).params.text("jitter"),
        "20us"
    );
}

/// 1000 packets hold one server below the link at 100 Gb/s and 400 us: 1 MB per round trip are 20 Gb/s.
#[test]
fn the_receive_window_of_incast_does_not_limit_a_fast_link() {
    let far = [
        ("link_rate", "100Gbps"),
        ("link_delay", "100us"),
        ("buffer", "16MB"),
        ("servers", "1"),
        ("duration", "100ms"),
    ];
    let by_default = run("incast", &[&far[..], &[("sru", "200MB"), ("initial_window", "1000")]].concat());
    let limited = run(
        "incast",
        &[&far[..], &[("sru", "200MB"), ("initial_window", "1000"), ("rwnd", "1000pkt")]].concat(),
    );
    assert!(limited["utilisation"] < 0.25, "{limited:?}");
    assert!(by_default["utilisation"] > 0.85, "{by_default:?}");
}

#[test]
fn the_first_command_of_an_engineer_collapses() {
    let s = run("incast", &[&FIRST[..], &[("duration", "4s")]].concat());
    assert!(s["timeouts"] > 20.0 && s["goodput_bps"] < 1e9, "{s:?}");
    // The paper's jitter in seconds is what hid it, and the run says so.
    let hidden = named("incast", &[&FIRST[..], &[("jitter", "20us")]].concat());
    assert!(
        hidden.notes[0].starts_with("requests are spread over 400 us (jitter), longer than the 333 us"),
        "{:?}",
        hidden.notes
    );
    assert_eq!(named("incast", &FIRST).notes, [""; 0]);
}

#[test]
fn a_block_that_fits_into_the_buffer_is_said_not_to_collapse() {
    let set = [&FIRST[..3], &[("buffer", "2MB")]].concat();
    let notes = named("incast", &set).notes;
    assert!(notes[0].starts_with("a whole block of 1.04 MB fits into the port's 2 MB (buffer)"), "{notes:?}");
    assert_eq!(run("incast", &[&set[..], &[("duration", "50ms")]].concat())["drops"], 0.0);
}

/// Every scenario but `custom`, whose network is in a file.
fn with_networks() -> impl Iterator<Item = &'static str> {
    scenarios::ALL.iter().map(|s| s.name).filter(|name| *name != "custom")
}

#[test]
fn every_value_of_a_profile_is_described_and_used() {
    let all = catalogue();
    for scenario in with_networks() {
        let described = all["scenarios"].as_array().unwrap().iter().find(|s| s["name"] == scenario).unwrap();
        let profiles = described["profiles"].as_array().unwrap();
        let names: Vec<&str> = profiles.iter().map(|p| p["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["paper", "25g", "100g"], "{scenario}");
        for profile in profiles {
            let name = profile["name"].as_str().unwrap();
            let p = named(scenario, &[("profile", name)]).params;
            for value in profile["values"].as_array().unwrap() {
                let (key, text) = (value["key"].as_str().unwrap(), value["value"].as_str().unwrap());
                assert!(!value["origin"].as_str().unwrap().is_empty() || name == "paper", "{name} {key}");
                assert!(
                    text.is_empty() || p.text(key) == text,
                    "{name} {key}: {} is not {text}",
                    p.text(key)
                );
            }
            // Nothing else differs from the scenario's own defaults, but for what follows from the profile.
            let keys: Vec<&str> =
                profile["values"].as_array().unwrap().iter().map(|v| v["key"].as_str().unwrap()).collect();
            let own = named(scenario, &[]).params;
            let derived: Vec<&str> = p.derived().map(|d| d.0).collect();
            for ((key, text, _), (_, plain, _)) in p.resolved().zip(own.resolved()) {
                let may = keys.contains(&key) || derived.contains(&key) || key == "profile";
                assert!(text == plain || may, "{scenario} {name}: {key} is {text}");
            }
        }
        // The first is the scenario as it is without a profile.
        let told = |set: &[(&str, &str)]| resolved(&named(scenario, set))["set"].clone();
        assert_eq!(told(&[("profile", "paper")]), told(&[]));
    }
}

/// Each scenario with each profile builds, says nothing that contradicts it, and carries data; TCP hosts are Linux's.
#[test]
fn every_profile_is_one_of_linux_hosts_in_every_scenario() {
    for scenario in with_networks() {
        for profile in ["25g", "100g"] {
            let r = named(scenario, &[("profile", profile), ("warmup", "0s"), ("duration", "4ms")]);
            assert!(
                !r.notes.iter().any(|n| n.contains("not ECN-capable") || n.contains("RFCs")),
                "{:?}",
                r.notes
            );
            for (suite, cfg) in &r.setup(0).unwrap().protocols {
                if suite.stack.is_none() {
                    assert_eq!(cfg.personality, Personality::Linux, "{scenario} {profile}");
                    assert!(cfg.gso > 1 && cfg.gro > Dur::ZERO && cfg.timestamps, "{scenario} {profile}");
                    assert_eq!((cfg.rto_min, cfg.delayed_ack), (Dur::millis(200), 2), "{scenario} {profile}");
                }
            }
            // Slow links of the paper's own: their first data come later.
            if !["db-ftp", "control-sets", "t1"].contains(&scenario) {
                let s = r.run(0, &Progress::default()).unwrap().summary;
                assert!(s["goodput_bps"] > 1e8, "{scenario} {profile}: {s:?}");
            }
        }
    }
}

/// A protocol without selective acknowledgements cannot have Linux's sender: a key that the user did not give is not refused.
#[test]
fn a_profile_takes_any_protocol() {
    for protocol in ["newreno", "reno", "dctcp", "bbr", "ndp", "dcqcn", "rcp"] {
        let r = named("incast", &[("profile", "25g"), ("protocol", protocol), ("duration", "2ms")]);
        let told =
            r.notes.iter().any(|n| n.contains("sender by the RFCs, without the offloads of profile 25g"));
        assert_eq!(told, ["newreno", "reno"].contains(&protocol), "{protocol}: {:?}", r.notes);
    }
    let r = named("incast", &[("profile", "25g"), ("tcp", "rfc"), ("protocol", "cubic")]);
    assert_eq!(r.setup(0).unwrap().protocols[0].1.gso, 1);
}

/// 176, 177 and 178 segments at 25 Gb/s, 28, 29 and 30 at 100 Gb/s: no odd number waits for a delayed ACK.
#[test]
fn the_size_of_a_response_in_segments_does_not_matter_to_the_profiles() {
    for (profile, segment, counts, rate) in
        [("25g", 1448, [176, 177, 178], 25e9), ("100g", 8948, [28, 29, 30], 100e9)]
    {
        for (scenario, key, more) in [
            ("incast", "sru", ("duration", "50ms")),
            ("query", "response", ("repetitions", "20")),
            ("testbed", "response", ("repetitions", "20")),
        ] {
            let buffer = if scenario == "testbed" { "root_buffer" } else { "buffer" };
            let goodput = counts.map(|n| {
                let size = format!("{}B", n * segment);
                let mut set =
                    vec![("profile", profile), ("servers", "40"), (buffer, "20MB"), (key, &size), more];
                if scenario == "testbed" {
                    set.extend([("leaf_buffer", "20MB"), ("protocol", "linux-cubic"), ("queue", "droptail")]);
                }
                run(scenario, &set)["goodput_bps"]
            });
            let (least, most) = (
                goodput.iter().copied().fold(f64::MAX, f64::min),
                goodput.iter().copied().fold(0.0, f64::max),
            );
            assert!(most / least < 1.02 && least > 0.9 * rate, "{profile} {scenario}: {goodput:?}");
        }
    }
}

/// A window of one segment waits for a delayed ACK of 40 ms; Linux leaves two.
#[test]
fn dctcp_on_linux_keeps_two_segments_after_a_mark() {
    let set = [("profile", "100g"), ("root_buffer", "2MB"), ("repetitions", "30")];
    assert!(run("testbed", &set)["goodput_bps"] > 50e9);
    let less = [&set[..], &[("protocol", "dctcp:min_window=1")]].concat();
    assert!(run("testbed", &less)["goodput_bps"] < 10e9);
}

#[test]
fn a_given_key_beats_the_profile() {
    let r = named("incast", &[("profile", "100g"), ("buffer", "1MB")]);
    assert_eq!((r.params.text("buffer"), r.params.text("link_rate")), ("1MB", "100Gbps"));
    assert_eq!(r.without_effect, [""; 0]);
    assert_eq!(resolved(&r)["given"], json!(["buffer", "profile"]));
}

#[test]
fn the_profiles_of_today_collapse_too() {
    for profile in ["25g", "100g"] {
        let s =
            run("incast", &[("profile", profile), ("servers", "40"), ("sru", "64KB"), ("duration", "3s")]);
        // Tail-loss probes stand for most timeouts, and wait two milliseconds where a block takes a fifth of one.
        assert!(s["drops"] > 0.0 && s["utilisation"] < 0.25, "{profile}: {s:?}");
    }
}

#[test]
fn a_protocol_that_depends_on_marks_and_a_queue_without_are_told() {
    let first = |set: &[(&str, &str)]| named("long-flows", set).notes.first().cloned().unwrap_or_default();
    for protocol in ["dctcp", "d2tcp", "sack:ecn=true", "newreno:ecn=true"] {
        let text = first(&[("protocol", protocol)]);
        assert!(
            text.starts_with(&format!("protocol {protocol} depends on ECN marks, but no queue marks")),
            "{text}"
        );
        assert_eq!(first(&[("protocol", protocol), ("queue", "threshold")]), "");
        assert_eq!(first(&[("protocol", protocol), ("queue", "red:ecn=true")]), "");
        assert!(first(&[("protocol", protocol), ("queue", "red")]).contains("no queue marks (queue red)"));
    }
    for queue in ["threshold", "hysteresis", "red:ecn=true"] {
        let text = first(&[("queue", queue)]);
        assert!(text.starts_with("protocol newreno is not ECN-capable, but queue"), "{queue}: {text}");
        assert!(text.contains("drops_nonect"));
    }
    assert_eq!(first(&[]), "");
    assert_eq!(first(&[("queue", "red")]), "");
}

/// DCTCP, SIGCOMM 2010, eq. 13: K > C RTT / 7.
#[test]
fn a_default_threshold_below_a_seventh_of_the_pipe_is_told() {
    let notes = |queue: &str, rtt: &str| {
        named(
            "long-flows",
            &[("protocol", "dctcp"), ("queue", queue), ("link_rate", "100Gbps"), ("rtt", rtt)],
        )
        .notes
    };
    assert_eq!(notes("threshold", "10us"), [""; 0]);
    assert!(
        notes("threshold", "100us")[0].contains("a seventh of the bandwidth-delay product is 120"),
        "{:?}",
        notes("threshold", "100us")
    );
    assert_eq!(notes("threshold:k=40pkt", "100us"), [""; 0]);
}

#[test]
fn no_scenario_contradicts_itself_by_default() {
    for scenario in scenarios::ALL.iter().filter(|s| s.name != "custom") {
        assert_eq!(named(scenario.name, &[]).notes, [""; 0], "{}", scenario.name);
    }
}

#[test]
fn load_of_a_file_is_a_share_of_the_receiving_links() {
    let file = |rate: &str| {
        let text = format!(
            "scenario = \"custom\"\nduration = \"20ms\"\nhosts = [\"a[0-3]\"]\nswitches = [\"s\"]\n[[link]]\n\
             between = [\"a[0-3]\", \"s\"]\nrate = \"10Gbps\"\ndelay = \"1us\"\n[[workload]]\nkind = \"poisson\"\n\
             from = \"a[0-3]\"\nto = \"a[0-3]\"\nsizes = \"websearch\"\n{rate}\n"
        );
        resolve(&json!({ "toml": text, "base_dir": "." }).to_string()).unwrap()
    };
    let told = resolved(&file("load = 0.6"));
    // 0.6 of 4 x 10 Gb/s in flows of 1,711,250 B and headers of 40 per 1460.
    let expected = 0.6 * 40e9 / 8.0 / (1_711_250.0 * 1500.0 / 1460.0);
    let found = told["derived"]["arrivals_per_s"].as_f64().unwrap();
    assert!((found / expected - 1.0).abs() < 1e-12, "{found} {expected}");
    assert_eq!(told["derived"]["offered_load"], 0.6);
}
