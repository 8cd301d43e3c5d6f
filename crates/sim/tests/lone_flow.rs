//! Guards: a lone flow on an idle network has the line, whatever the rate of its links and the length of its packets. Defaults that
//! follow from a rate or a delay (memory of a switch, thresholds, windows, target delays) leave it alone from 10 Mb/s to 1.6 Tb/s and
//! from 64 to 9,000 bytes.

use penstock_sim::document::resolve;
use penstock_sim::engine::Progress;
use serde_json::json;

/// Laws that begin at the line rate or with a pipe, and the share of the line that they aim at.
const AT_ONCE: [(&str, f64); 14] = [
    ("roce", 1.0),
    ("dcqcn", 1.0),
    // 95 % of the link, and rates that move about that.
    ("hpcc", 0.92),
    ("timely", 1.0),
    ("swift", 1.0),
    ("powertcp", 1.0),
    ("dctcp-roce", 1.0),
    ("ndp", 1.0),
    ("pfabric", 1.0),
    ("homa", 1.0),
    ("nscc", 1.0),
    ("rccc", 1.0),
    ("nscc-rccc", 1.0),
    ("eqds", 1.0),
];
/// Windows that grow from a few packets, or a request before the first byte: the line from where a pipe has few packets.
const SLOWLY: [&str; 6] = ["phost", "pias", "reno", "cubic", "dctcp", "linux-cubic"];
const PACKETS: u64 = 1500;

fn alone(protocol: &str, mbps: u64, segment: u64) -> (f64, String) {
    alone_with(&format!("protocol = \"{protocol}\""), mbps, segment)
}

fn alone_with(line: &str, mbps: u64, segment: u64) -> (f64, String) {
    let bytes = PACKETS * segment;
    let seconds = 0.2 + 4.0 * 8.0 * (bytes as f64 * (1.0 + 100.0 / segment as f64)) / (mbps as f64 * 1e6);
    let toml = format!(
        "scenario = \"custom\"\ntopology = \"star:2\"\nlink_rate = \"{mbps}Mbps\"\nlink_delay = \"1us\"\nsegment = \"{segment}B\"\n\
         duration = \"{seconds:.6}s\"\n{line}\n[[workload]]\nkind = \"flows\"\nfrom = \"h0\"\nto = \"h1\"\n\
         size = \"{bytes}B\"\n"
    );
    let run = resolve(&json!({ "toml": toml, "seed": 1 }).to_string()).unwrap();
    let found = run.run(0, &Progress::default()).unwrap().summary;
    let at = |key: &str| found.get(key).copied().unwrap_or(0.0);
    let hurt: Vec<String> = ["pauses", "drops", "trims", "timeouts", "retransmits"]
        .iter()
        .filter(|key| at(key) > 0.0)
        .map(|key| format!("{} {key}", at(key)))
        .collect();
    let slowdown = if at("flows_completed") == 1.0 { at("slowdown_p50") } else { f64::INFINITY };
    (slowdown, hurt.join(", "))
}

#[test]
fn a_lone_flow_has_the_line_at_every_rate_and_length_of_packets() {
    let mut wrong = Vec::new();
    for mbps in [10, 20, 50, 500, 1_000, 10_000, 100_000, 400_000, 1_600_000] {
        for segment in [64, 1460, 9000] {
            // Packets that a round trip of 4 us holds.
            let pipe = mbps * 4 / (8 * (segment + 60));
            let slowly = SLOWLY.iter().filter(|_| pipe <= 10).map(|name| (*name, 1.0));
            for (protocol, share) in AT_ONCE.into_iter().chain(slowly) {
                let (slowdown, hurt) = alone(protocol, mbps, segment);
                if slowdown * share >= 1.03 || slowdown.is_nan() || !hurt.is_empty() {
                    wrong.push(format!(
                        "{protocol} at {mbps} Mb/s, {segment} B: slowdown {slowdown:.3}, {hurt}"
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The profiles of hosts of today, whatever the rate: nothing is lost, no timer expires, and a pipe of few packets is full.
#[test]
fn a_lone_flow_of_a_profile_has_the_line_at_every_rate_and_length_of_packets() {
    let mut wrong = Vec::new();
    for profile in ["25g", "100g"] {
        for mbps in [10, 1_000, 25_000, 100_000, 400_000, 1_600_000] {
            for segment in [64, 1448, 8948] {
                let (slowdown, hurt) = alone_with(&format!("profile = \"{profile}\""), mbps, segment);
                let slow = mbps * 4 / (8 * (segment + 60)) <= 10 && slowdown >= 1.03;
                if slow || !slowdown.is_finite() || !hurt.is_empty() {
                    wrong.push(format!(
                        "{profile} at {mbps} Mb/s, {segment} B: slowdown {slowdown:.3}, {hurt}"
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A host that sends and receives nothing decides on no default of the others, whatever its link and wherever it stands.
#[test]
fn an_idle_host_changes_no_default() {
    let queue = |hosts: &str, idle: &str| {
        let mut toml = format!(
            "scenario = \"custom\"\nhosts = [{hosts}]\nswitches = [\"s\"]\nprotocol = \"swift\"\nduration = \"6ms\"\nwarmup = \"2ms\"\n"
        );
        for i in 0..5 {
            toml += &format!("[[link]]\nbetween = [\"h{i}\", \"s\"]\nrate = \"10Gbps\"\ndelay = \"2us\"\n");
        }
        toml += idle;
        toml += "[[workload]]\nfrom = \"h[0-3]\"\nto = \"h4\"\n";
        let run = resolve(&json!({ "toml": toml, "seed": 1 }).to_string()).unwrap();
        run.run(0, &Progress::default()).unwrap().summary["queue_mean_packets"]
    };
    let alone = queue("\"h[0-4]\"", "");
    for (rate, delay) in [("1Gbps", "2us"), ("100Gbps", "20us")] {
        let idle = format!("[[link]]\nbetween = [\"idle\", \"s\"]\nrate = \"{rate}\"\ndelay = \"{delay}\"\n");
        let beside = queue("\"h[0-4]\", \"idle\"", &idle);
        assert_eq!(beside, alone, "{rate} {delay}");
    }
}

/// A switch sends a packet on when it has all of it. So several short segments pass a switch sooner than a full one, and the completion time
/// is below the ideal one of full segments. Both are worked out by hand.
#[test]
fn short_segments_are_faster_than_the_ideal_of_full_ones() {
    let toml = "scenario = \"custom\"\ntopology = \"star:2\"\nlink_rate = \"1Gbps\"\nlink_delay = \"0s\"\nprotocol = \"reno\"\n\
         segment = \"1460B\"\nsegment_start = \"146B\"\nresize_window = 1000\ninitial_window = 40\nsend_jitter = \"0s\"\n\
         host_queue = \"unlimited\"\nduration = \"1ms\"\n[[workload]]\nkind = \"flows\"\nfrom = \"h0\"\nto = \"h1\"\nsize = \"1460B\"\n";
    let run = resolve(&json!({ "toml": toml, "seed": 1 }).to_string()).unwrap();
    let engine = run.run(0, &Progress::default()).unwrap().engine;
    let row = engine.recorder.flows.iter().next().cloned().unwrap();
    // 1 Gb/s is 8 ns a byte, and a header has 40. The SYN, its answer and the last ACK cross two links each.
    let headers = 3.0 * 2.0 * 40.0;
    let [full, short] = [2.0 * 1500.0, 11.0 * 186.0].map(|bytes| (headers + bytes) * 8e-9);
    assert!((row.ideal - full).abs() < 1e-12, "{} for {full}", row.ideal);
    assert_eq!((row.data_packets, row.retransmits), (10, 0));
    assert!((row.fct().unwrap() - short).abs() < 1e-12, "{:?} for {short}", row.fct());
    // Full segments make that time.
    let toml = toml.replace("segment_start = \"146B\"\n", "").replace("resize_window = 1000\n", "");
    let run = resolve(&json!({ "toml": toml, "seed": 1 }).to_string()).unwrap();
    let engine = run.run(0, &Progress::default()).unwrap().engine;
    let row = engine.recorder.flows.iter().next().cloned().unwrap();
    assert!((row.slowdown() - 1.0).abs() < 1e-9, "{}", row.slowdown());
}
