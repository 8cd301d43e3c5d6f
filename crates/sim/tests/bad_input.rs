//! What a user can get wrong, and the one line that says so: key, value, rule. Never a panic.
//!
//! Above 600 lines: most of it is one list of mistakes and what is said to them.

use penstock_core::rng::Entity;
use penstock_core::{ParamError, Stream};
use penstock_sim::document::{resolve, resolved};
use penstock_sim::scenario::Resolved;
use penstock_sim::scenarios;
use proptest::prelude::*;
use serde_json::{json, Map, Value};

/// The example of docs/reference/scenario-files.md, shortened.
const FILE: &str = r#"
scenario = "custom"
duration = "20ms"
protocol = "dctcp"
queue = "threshold:k=30pkt"
hosts = ["a[0-2]", "b[0-2]", "alone"]
switches = ["left", "right"]

[[link]]
between = ["a[0-2]", "left"]
rate = "1Gbps"
delay = "10us"

[[link]]
between = ["b[0-2]", "right"]
rate = "1Gbps"
delay = "10us"

[[link]]
between = ["left", "right"]
rate = "2Gbps"
delay = "20us"
buffer = "200pkt"

[[workload]]
kind = "flows"
from = ["a0", "a1"]
to = ["b0", "b1"]
protocol = "cubic"

[[workload]]
kind = "query"
from = "a[0-2]"
to = "b2"
total = "400KB"

[[workload]]
kind = "poisson"
from = ["a1", "a2"]
to = "b[0-2]"
rate = 800
sizes = "uniform:2KB:50KB"
"#;

fn named(scenario: &str, set: &[(&str, &str)]) -> Result<Resolved, ParamError> {
    let set: Map<String, Value> = set.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect();
    resolve(&json!({ "scenario": scenario, "set": set, "seed": 1 }).to_string())
}

fn file(text: &str) -> Result<Resolved, ParamError> {
    resolve(&json!({ "toml": text, "base_dir": "." }).to_string())
}

/// The message of [`FILE`] with `from` replaced by `to`, without the line in front.
fn changed(from: &str, to: &str) -> String {
    assert!(FILE.contains(from), "{from}");
    without_place(&message(file(&FILE.replacen(from, to, 1)))).to_owned()
}

fn without_place(text: &str) -> &str {
    match text.strip_prefix("line ").and_then(|rest| rest.split_once(": ")) {
        Some((line, rest)) if line.parse::<usize>().is_ok() => rest,
        _ => text,
    }
}

fn message(result: Result<Resolved, ParamError>) -> String {
    let text = result.err().expect("this is bad input").to_string();
    assert!(!text.contains('\n'), "more than a line: {text}");
    text
}

#[test]
fn values_of_the_network() {
    let link = ("topology", "leaf-spine:2x2x2");
    for (scenario, set, expected) in [
        ("incast", &[("priorities", "9")][..], "priorities = \"9\": must be a number of priorities, 1 to 8"),
        ("incast", &[("priorities", "2:5=2")], "priorities:5 = \"2\": must be a priority of 0 to 1"),
        ("incast", &[("priorities", "2:64=1")], "priorities = \"64\": must be a traffic class, 0 to 63"),
        ("incast", &[("schedule", "stric")], "schedule = \"stric\": must be one of fifo, strict, drr; did you mean strict?"),
        ("incast", &[("schedule", "drr:quantum=0B")], "schedule:quantum = \"0B\": must be at least 1 bytes"),
        ("incast", &[("pfc", "on:xoff=10KB,xon=20KB")], "pfc:xon = \"20KB\": must not be above xoff (10000 bytes)"),
        ("incast", &[("pfc", "on:xon=1MB")], "pfc:xon = \"1000000B\": must not be above xoff (33280 bytes)"),
        ("incast", &[("pfc", "on:alpha=1")], "pfc:alpha = \"1\": needs memory that is shared, buffer=shared:size=..: thresholds are shares of what is free"),
        ("incast", &[("pfc", "on:xoff=1KB,alpha=1"), ("buffer", "shared:size=1MB")], "pfc:alpha = \"1\": cannot be given together with xoff: thresholds are fixed or dynamic"),
        ("incast", &[("pfc", "on:alpha=0"), ("buffer", "shared:size=1MB")], "pfc:alpha = \"0\": must be above 0"),
        ("incast", &[("pfc", "on:lossless=1")], "pfc:lossless = \"1\": must be among the priorities of the run's data, 0"),
        ("incast", &[("pfc", "on:headroom=formula+1")], "pfc:headroom = \"formula+1\": must be a size, or formula, or formula-SIZE such as formula-1540B"),
        ("incast", &[("pfc", "of")], "pfc = \"of\": must be one of off, on, ingress; did you mean off?"),
        ("incast", &[("buffer", "shared:alpha=0,size=1MB")], "buffer:alpha = \"0\": must be above 0"),
        ("incast", &[("buffer", "shared:alpha=1")], "buffer:size = \"\": must be given: shared:alpha=1,size=2MB"),
        ("incast", &[("buffer", "shared:size=100B")], "buffer = \"shared:size=100B\": must hold at least one packet of 1040 bytes"),
        ("incast", &[("buffer", "shared:size=100KB"), ("pfc", "on")], "buffer = \"100000 bytes\": must hold reserves and headroom, "),
        ("incast", &[("trim", "20B")], "trim = \"20B\": must be off, or the bytes that remain: at least the headers of 40 B, less than a full packet of 1040 B"),
        ("incast", &[("trim", "64B:priority=0")], "trim:priority = \"0\": must be above the priorities of data, 0 to 0"),
        ("incast", &[("trim", "64B:tail=0.5"), ("buffer", "shared:size=1MB")], "trim:tail = \"0.5\": must be 0 with buffer=shared: a packet that waits in a shared buffer is not trimmed"),
        ("incast", &[("trim", "64B:tail=0.5"), ("pfc", "on")], "trim:tail = \"0.5\": must be 0 with pfc: a packet that waits in a shared buffer is not trimmed"),
        ("incast", &[("reorder", "share=2,delay=1us")], "reorder:share = \"2\": must be at most 1"),
        ("incast", &[("reorder", "share=0.1")], "reorder:delay = \"\": must be given: reorder must be off, or share=0.01,delay=50us"),
        ("incast", &[("spread", "flow")], "spread = \"flow\": no node of this network has ports of equal cost: every destination is reached by one port only"),
        ("incast", &[("spread", "flows")], "spread = \"flows\": unknown spread rule; did you mean flow?"),
        ("permutation", &[link, ("spread", "flowlet")], "spread:gap = \"\": must be given: flowlet:gap=TIME"),
        ("permutation", &[link, ("fail", "leaf0->leaf1@1ms")], "fail = \"leaf0->leaf1\": there is no link leaf0->leaf1 in this network"),
        ("permutation", &[link, ("fail", "leaf0->spine9@1ms")], "fail = \"leaf0->spine9\": there is no node spine9 in this network"),
        ("permutation", &[link, ("fail", "leaf0-spine1@1ms")], "fail = \"leaf0-spine1\": must name a link, A->B for one direction or A<->B for both"),
        ("permutation", &[link, ("fail", "leaf0->spine1")], "fail = \"leaf0->spine1\": must be LINK@T1 or LINK@T1-T2"),
        ("permutation", &[link, ("fail", "leaf0->spine1@2ms-1ms")], "fail = \"2ms-1ms\": must end after it begins"),
        ("permutation", &[link, ("fail", "leaf0->spine1@soon")], "fail = \"soon\": must have times with units, T1 or T1-T2, such as 10ms-20ms"),
        ("permutation", &[link, ("fail", "leaf0->spine1@1ms-2ms,rate=0bps")], "fail:rate = \"0bps\": must be at least 1000 bit/s"),
        ("permutation", &[link, ("fail", "leaf0->spine1@1ms,rate=1Gbps,waiting=kept")], "fail:waiting = \"kept\": cannot be given together with rate: the link stays up"),
        ("db-ftp", &[("pfc", "on:xoff=10KB")], "pfc = \"on\": cannot be used where the scenario has a shared buffer with limits by class of its own"),
    ] {
        let said = message(named(scenario, set));
        assert!(said.starts_with(expected), "{set:?}\n{said}\n{expected}");
    }
    for (from, to, expected) in [
        ("delay = \"20us\"", "delay = \"20us\"\nfail = \"now\"", "link[3].fail = \"now\": must have times"),
        (
            "delay = \"20us\"",
            "delay = \"20us\"\ntrim = \"9MB\"",
            "link[3].trim = \"9MB\": must be off, or the bytes that remain",
        ),
        (
            "delay = \"20us\"",
            "delay = \"20us\"\nschedule = \"drr:q9=1KB\"",
            "link[3].schedule:q9 = \"1KB\": unknown key of schedule drr",
        ),
        (
            "delay = \"20us\"",
            "delay = \"20us\"\nreorder = \"often\"",
            "link[3].reorder = \"often\": must be off, or share=",
        ),
    ] {
        let said = changed(from, to);
        assert!(said.starts_with(expected), "{said}\n{expected}");
    }
}

#[test]
fn values_of_named_scenarios() {
    for (scenario, set, expected) in [
        ("incast", &[("sservers", "4")][..], "sservers = \"4\": unknown key of scenario incast; did you mean servers?"),
        ("incast", &[("link_rate", "10")], "link_rate = \"10\": must be a rate with a unit (bps, kbps, Mbps, Gbps), for example 1Gbps"),
        ("incast", &[("link_rate", "10ms")], "link_rate = \"10ms\": must be a rate with a unit (bps, kbps, Mbps, Gbps), for example 1Gbps"),
        ("incast", &[("link_rate", "0bps")], "link_rate = \"0bps\": must be at least 1000 bit/s"),
        ("incast", &[("sru", "-1KB")], "sru = \"-1KB\": must be at least 1 bytes"),
        ("incast", &[("sru", "1.5B")], "sru = \"1.5B\": must be a whole number of bytes"),
        ("incast", &[("buffer", "100B")], "buffer = \"100B\": must hold at least one packet of 1040 bytes"),
        ("incast", &[("servers", "1000000")], "servers = \"1000000\": must be at most 100000"),
        ("incast", &[("servers", "2.5")], "servers = \"2.5\": must be a whole number"),
        ("incast", &[("warmup", "40s")], "warmup = \"40s\": must be shorter than duration (40s)"),
        ("incast", &[("rto_min", "2s"), ("rto_max", "1s")], "rto_min = \"2s\": must not be above rto_max"),
        ("incast", &[("series", "true")], "series = \"true\": needs a sampling interval: set sample"),
        ("incast", &[("tcp", "linux"), ("protocol", "newreno")], "tcp = \"linux\": needs selective acknowledgements, which protocol newreno does not have"),
        ("incast", &[("protocol", "linux-reno"), ("retransmit_probability", "0.1")], "retransmit_probability = \"0.1\": must be 0 with Linux's sender, whose recovery knows no retransmit thread"),
        ("incast", &[("tail_loss_probe", "true"), ("protocol", "newreno")], "tail_loss_probe = \"true\": needs selective acknowledgements, which protocol newreno does not have"),
        ("incast", &[("protocol", "dctcp:h=1")], "protocol:h = \"1\": unknown key of protocol dctcp; it takes"),
        ("incast", &[("colour", "blue")], "colour = \"blue\": unknown key of scenario incast; `penstock describe incast` lists the "),
        ("rdma", &[("kmin", "40KB"), ("protocol", "dcqcn")], "kmin = \"40KB\": unknown key of scenario rdma; protocol dcqcn takes it: protocol=dcqcn:kmin=40KB"),
        ("incast", &[("g", "0.1"), ("protocol", "dctcp:rules=linux")], "g = \"0.1\": unknown key of scenario incast; protocol dctcp takes it: protocol=dctcp:rules=linux,g=0.1"),
        ("incast", &[("k", "20pkt"), ("queue", "threshold")], "k = \"20pkt\": unknown key of scenario incast; queue threshold takes it: queue=threshold:k=20pkt"),
        ("incast", &[("protocol", "dctcp:g=2")], "protocol:g = \"2\": must be at most 1"),
        ("incast", &[("queue", "threshold:k")], "queue = \"threshold:k\": \"k\" must have the form key=value"),
        ("permutation", &[("mtu", "50B"), ("header", "60B")], "mtu = \"50B\": must be larger than the headers of 60 bytes"),
        ("permutation", &[("topology", "fat-tree:7")], "topology = \"fat-tree:7\": fat-tree:K needs an even K of 2 to 64"),
        ("permutation", &[("topology", "clos:5x4x4x4")], "topology = \"clos:5x4x4x4\": must be clos:PODSxEDGESxAGGSxCORESxHOSTS with whole numbers"),
        ("rdma", &[("protocol", "timely:clock=whole-ns")], "protocol:clock = \"whole-ns\": needs rules=hpcc-ns3: no other rules are of whole nanoseconds"),
        ("rdma", &[("protocol", "timely:rules=hpcc-ns3,clock=whole-ns"), ("link_delay", "1500ps")], "protocol:clock = \"whole-ns\": needs delays of a whole number of nanoseconds; a link has 1.5ns"),
        ("permutation", &[("topology", "leaf-spine:70000x70000x1")], "topology = \"leaf-spine:70000x70000x1\": leaf-spine:LEAVESxSPINESxHOSTS needs positive numbers and at most 200000 links"),
        ("query", &[("response", "1KB"), ("total", "2KB")], "total = \"2KB\": cannot be given together with response"),
        ("query", &[("total", "2B"), ("servers", "3")], "total = \"2B\": must be at least one byte for each of the 3 servers"),
        ("query", &[("deadline", "1ms"), ("connections", "persistent")], "deadline = \"1ms\": needs connections=fresh"),
        ("mix", &[("arrivals", "poisson:0")], "arrivals = \"poisson:0\": poisson:RATE in flows per second must be above 0 and at most 1000000000"),
        ("mix", &[("arrivals", "often")], "arrivals = \"often\": must be closed, poisson:RATE or load:SHARE"),
        ("mix", &[("sizes", "fixed:-5KB")], "sizes = \"fixed:-5KB\": size \"-5KB\" must be at least 1 byte"),
        ("mix", &[("sizes", "cdf:missing.csv")], "sizes = \"cdf:missing.csv\": the file missing.csv cannot be read: No such file or directory (os error 2)"),
        ("incst", &[], "scenario = \"incst\": unknown scenario; did you mean incast? known are incast, long-flows"),
        ("incast", &[("protocol", "DCTCP")], "protocol = \"DCTCP\": unknown protocol; did you mean dctcp? known are reno"),
        ("incast", &[("protocol", "d2ctp")], "protocol = \"d2ctp\": unknown protocol; did you mean d2tcp? known are reno"),
        ("incast", &[("queue", "Threshold")], "queue = \"Threshold\": unknown queue discipline; did you mean threshold? known are droptail"),
        ("incast", &[("receive_control", "ICTCP")], "receive_control = \"ICTCP\": unknown receiver-side control; did you mean ictcp? known are none, ictcp"),
        ("db-ftp", &[("control", "cbs")], "control = \"cbs\": unknown host controller; did you mean cbc? known are none, cbc"),
        ("incast", &[("jitter_mode", "Independent")], "jitter_mode = \"Independent\": must be one of cumulative, independent; did you mean independent?"),
        ("incast", &[("Link_Rate", "1Gbps")], "Link_Rate = \"1Gbps\": unknown key of scenario incast; did you mean link_rate?"),
        ("incast", &[("link_rate", "25gbps")], "link_rate = \"25gbps\": must be a rate with a unit (bps, kbps, Mbps, Gbps); did you mean 25Gbps?"),
        ("incast", &[("profile", "50g")], "profile = \"50g\": must be one of paper, 25g, 100g"),
        ("long-flows", &[("requests", "polite")], "requests = \"polite\": must be one of travel, instant"),
    ] {
        let text = message(named(scenario, set));
        assert!(text.starts_with(expected), "{set:?}\n  says     {text}\n  expected {expected}");
    }
}

#[test]
fn cdf_files_must_end_at_one() {
    let folder = std::env::temp_dir().join(format!("penstock-cdf-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("short.csv"), "size,cdf\n0,0\n1000,0.9\n").unwrap();
    let document = json!({ "scenario": "mix", "set": { "sizes": "cdf:short.csv" }, "base_dir": folder });
    let text = message(resolve(&document.to_string()));
    assert_eq!(text, "sizes = \"cdf:short.csv\": the last cdf of the file must be 1, not 0.9");
    std::fs::write(folder.join("short.csv"), "size,cdf\n0,0\n1000,0.9\n2000,1").unwrap();
    let found = resolve(&document.to_string()).unwrap();
    assert_eq!(resolved(&found)["derived"]["size_mean_bytes"], 600.0);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_document_itself() {
    let text = |document: Value| message(resolve(&document.to_string()));
    assert!(message(resolve("{")).starts_with("scenario = \"\": not a JSON document"));
    assert_eq!(text(json!({})), "scenario = \"\": no scenario is named");
    assert_eq!(
        text(json!({ "scenario": "incast", "seed": -1 })),
        "seed = \"-1\": must be a whole number of 0 to 2^64 - 1"
    );
    assert_eq!(
        text(json!({ "scenario": "incast", "set": [1] })),
        "set = \"[1]\": must be a table of keys and values"
    );
    assert_eq!(
        text(json!({ "toml": "servers = 3" })),
        "scenario = \"\": the file must name a scenario: scenario = \"incast\""
    );
    assert!(text(json!({ "toml": "scenario = incast" }))
        .starts_with("line 1: file = \"scenario = incast\": is not TOML: "));
    assert_eq!(
        text(json!({ "toml": "scenario = \"incast\"\nhosts = [\"a\"]" })),
        "line 2: hosts = \"\": scenario incast has its own network and workloads; scenario custom takes them"
    );
    let long = "x".repeat(10_000);
    assert!(text(json!({ "scenario": "incast", "set": { "servers": long } })).len() < 300);
}

#[test]
fn tables_of_a_file() {
    assert!(file(FILE).is_ok());
    for (from, to, expected) in [
        ("rate = 800", "rate = 0", "workload[3].rate = \"0\": must be at least 0.000001"),
        ("rate = 800", "", "workload[3].rate = \"\": this or load must be given"),
        ("rate = 800", "rate = 800\nload = 0.5", "workload[3].load = \"0.5\": cannot be given together with rate"),
        (
            "rate = 800",
            "rat = 800",
            "workload[3].rat = \"800\": unknown key of workload poisson; did you mean rate?",
        ),
        (
            "kind = \"query\"",
            "kind = \"quary\"",
            "workload[2].kind = \"quary\": must be one of flows, poisson, closed, query, reads, trace, permutation, incast, all-to-all, collective, goal, matrix; did you mean query?",
        ),
        (
            "total = \"400KB\"",
            "total = \"400KB\"\nresponse = \"1KB\"",
            "workload[2].total = \"400KB\": cannot be given together with response",
        ),
        ("total = \"400KB\"", "", "workload[2].response = \"\": this or total must be given"),
        ("to = \"b2\"", "to = \"a1\"", "workload[2] = \"a1\": must lead to another host than its own"),
        ("to = \"b2\"", "to = \"left\"", "workload[2].to = \"left\": is a switch; a host is needed"),
        ("to = \"b2\"", "to = \"c9\"", "workload[2].to = \"c9\": is neither among hosts nor among switches"),
        ("to = \"b2\"", "to = \"alone\"", "workload[2] = \"a0 -> alone\": no path leads from a0 to alone"),
        ("to = \"b2\"", "to = \"b[0-1]\"", "workload[2].to = \"2 hosts\": must be one host"),
        ("to = \"b2\"", "", "workload[2].to = \"\": must be given"),
        (
            "buffer = \"200pkt\"",
            "buffer = \"1KB\"",
            "link[3].buffer = \"1KB\": must hold at least one packet of 1500 bytes",
        ),
        ("buffer = \"200pkt\"", "buffer = \"0pkt\"", "link[3].buffer = \"0pkt\": must be at least 1"),
        ("buffer = \"200pkt\"", "loss = 1.5", "link[3].loss = \"1.5\": must be at most 1"),
        (
            "buffer = \"200pkt\"",
            "queue = \"redd\"",
            "link[3].queue = \"redd\": unknown queue discipline; did you mean red? known are",
        ),
        (
            "between = [\"left\", \"right\"]",
            "from = \"left\"\nto = \"right\"",
            "workload[1] = \"b0 -> a0\": no path leads from b0 to a0",
        ),
        (
            "between = [\"left\", \"right\"]",
            "between = [\"left\", \"left\"]",
            "link[3] = \"left\": must join two different nodes",
        ),
        (
            "between = [\"left\", \"right\"]",
            "between = \"left\"",
            "link[3].between = \"left\": must be a list of two names, such as [\"a\", \"s\"]",
        ),
        ("between = [\"left\", \"right\"]", "", "link[3] = \"\": must have between = [A, B], or from and to"),
        ("rate = \"2Gbps\"", "", "link[3].rate = \"\": must be given"),
        ("\"alone\"", "\"a1\"", "hosts = \"a1\": is the name of another node already"),
        (
            "\"alone\"",
            "\"c[0-999999]\"",
            "hosts = \"c[0-999999]\": must have a range of numbers in brackets, such as h[0-3], or h[0-1023:8] for every eighth",
        ),
        ("\"alone\"", "\"c[0-99999]\"", "hosts = \"c[0-99999]\": stands for more than 100000 names"),
        ("\"alone\"", "7", "hosts = \"7\": must be a name or a list of names"),
        (
            "to = [\"b0\", \"b1\"]",
            "to = [\"b0\", \"b1\", \"b2\"]",
            "workload[1].to = \"3 hosts\": must have as many hosts as from (2), or one of them one host",
        ),
        (
            "protocol = \"cubic\"",
            "protocol = \"cubc\"",
            "workload[1].protocol = \"cubc\": unknown protocol; did you mean cubic? known are",
        ),
        (
            "protocol = \"cubic\"",
            "bottleneck = \"left\"",
            "workload[1].bottleneck = \"left\": unknown key of workload flows",
        ),
        (
            "duration = \"20ms\"",
            "bottleneck = \"left->a9\"",
            "bottleneck = \"left->a9\": must be FROM->TO with the names of two nodes",
        ),
        ("[[workload]]", "[[workloads]]", "workloads = "),
    ] {
        let text = changed(from, to);
        assert!(text.starts_with(expected), "{from:?} -> {to:?}\n  says     {text}\n  expected {expected}");
    }
    assert!(changed("[[workload]]", "[[workloads]]")
        .ends_with("unknown key of a scenario file; did you mean workload?"));
}

/// Number of the line of [`FILE`] that has `text`.
fn line_of(text: &str) -> usize {
    1 + FILE[..FILE.find(text).unwrap()].matches('\n').count()
}

#[test]
fn an_error_in_a_file_names_the_file_and_the_line() {
    let told = |text: &str, set: Value| {
        message(resolve(&json!({ "toml": text, "name": "my.toml", "base_dir": ".", "set": set }).to_string()))
    };
    let text = "scenario = \"incast\"\n\n# rates\nlinkrate = \"10Gbps\"\n";
    assert_eq!(
        told(text, Value::Null),
        "my.toml:4: linkrate = \"10Gbps\": unknown key of scenario incast; did you mean link_rate?"
    );
    let text = "scenario = \"incast\"\nservers = 4\nprotocol = \"dctcp:g=2\"\nwarmup = \"50s\"\n";
    assert_eq!(told(text, Value::Null), "my.toml:3: protocol:g = \"2\": must be at most 1");
    let fine = text.replace("g=2", "g=0.5");
    assert!(told(&fine, Value::Null).starts_with("my.toml:4: warmup = \"50s\": must be shorter"));
    assert_eq!(
        told("servers = 3\n", Value::Null),
        "my.toml: scenario = \"\": the file must name a scenario: scenario = \"incast\""
    );
    assert!(
        told("scenario = \"incst\"\n", Value::Null).starts_with("my.toml:1: scenario = \"incst\": unknown")
    );
    // What was set on top of the file is not the file's.
    assert!(told(&fine, json!({ "warmup": "60s" })).starts_with("warmup = \"60s\": must be shorter"));
    // What is no TOML at all, by the line where reading failed.
    for (broken, line) in
        [("a = 1\nb = [1,\n", 2), ("a = 1\na = 2\n", 2), ("a = 1\n\nb = 12x\n", 3), ("[x\n", 1)]
    {
        let text = told(broken, Value::Null);
        assert!(text.starts_with(&format!("my.toml:{line}: file = ")), "{broken:?}: {text}");
    }
    // Keys of tables, tables that lack a key, and whole tables.
    for (from, to, line, rest) in [
        (
            "sizes = \"uniform:2KB:50KB\"",
            "sizes = \"uniform:2KB\"",
            line_of("sizes ="),
            "workload[3].sizes = ",
        ),
        ("rate = 800", "rat = 800", line_of("rate = 800"), "workload[3].rat = \"800\": unknown key"),
        (
            "buffer = \"200pkt\"",
            "buffer = \"1KB\"",
            line_of("buffer ="),
            "link[3].buffer = \"1KB\": must hold",
        ),
        ("rate = \"2Gbps\"\n", "", line_of("between = [\"left\"") - 1, "link[3].rate = \"\": must be given"),
        ("to = \"b2\"", "to = \"alone\"", line_of("kind = \"query\"") - 1, "workload[2] = \"a0 -> alone\""),
        ("\"alone\"", "\"a1\"", line_of("hosts ="), "hosts = \"a1\": is the name"),
    ] {
        let text = told(&FILE.replacen(from, to, 1), Value::Null);
        assert!(
            text.starts_with(&format!("my.toml:{line}: {rest}")),
            "{text}\n  expected line {line}: {rest}"
        );
    }
    let text = FILE.replace("[[workload]]", "[[workloads]]");
    assert_eq!(
        told(&text, Value::Null),
        format!(
            "my.toml:{}: workloads = \"3 tables\": unknown key of a scenario file; did you mean workload?",
            line_of("[[workload]]")
        )
    );
    let nothing = &FILE[..FILE.find("[[workload]]").unwrap()];
    assert_eq!(
        told(nothing, Value::Null),
        "my.toml: workload = \"\": the file must have at least one [[workload]]"
    );
}

#[test]
fn what_would_take_for_ever_is_refused() {
    for (scenario, set, expected) in [
        ("poisson", &[("arrivals", "1e9")][..], "arrivals = \"1e9\": means about 2.000e10 arrivals (1.000e9 per second until 20s); at most 1e8 are possible"),
        ("poisson", &[("load", "10"), ("capacity", "10Tbps"), ("duration", "1000s")], "load = \"10\": means about"),
        ("mix", &[("arrivals", "poisson:1e9")], "arrivals = \"poisson:1e9\": means about 1.000e10 arrivals"),
        ("db-ftp", &[("db1", "10Tbps")], "db1 = \"10Tbps\": means about"),
        ("control-sets", &[("ftp", "1Tbps"), ("duration", "1000000s")], "ftp = \"1Tbps\": means about"),
        ("incast", &[("sample", "1ns")], "sample = \"1ns\": means 40000000000 samples in the 40s of the run; at most 100000000 are possible"),
        ("incast", &[("retransmit_probability", "0.1"), ("retransmit_every", "1ns")], "retransmit_every = \"1ns\": means 40000000000 runs"),
    ] {
        let text = message(named(scenario, set));
        assert!(text.starts_with(expected), "{set:?}\n  says     {text}\n  expected {expected}");
    }
    // A number of flows that is small after all is no reason to refuse.
    assert!(named("mix", &[("arrivals", "poisson:1e9"), ("short_flows", "1000")]).is_ok());
    let long = FILE.replace("20ms", "20s").replace("rate = 800", "rate = 1e9");
    assert!(without_place(&message(file(&long)))
        .starts_with("workload[3].rate = \"1000000000.0\": means about 2.000e10"));
}

#[test]
fn two_protocols_cannot_both_have_the_routers() {
    let both = FILE.replacen("\"dctcp\"", "\"rcp\"", 1).replacen("\"cubic\"", "\"sdc\"", 1);
    let text = message(file(&both));
    assert_eq!(
        without_place(&text),
        "workload[1].protocol = \"sdc\": sdc needs the routers, and so does another protocol of the run"
    );
}

#[test]
fn parameters_without_effect_are_named() {
    let unused = |r: Result<Resolved, ParamError>| r.unwrap().without_effect;
    let none: [&str; 0] = [];
    assert_eq!(unused(named("incast", &[("servers", "4")])), none);
    assert_eq!(unused(named("incast", &[("delayed_ack_timeout", "10ms")])), ["delayed_ack_timeout"]);
    assert_eq!(unused(named("incast", &[("delayed_ack_timeout", "10ms"), ("delayed_ack", "2")])), none);
    assert_eq!(
        unused(named("incast", &[("series_flows", "3"), ("resize_window", "9")])),
        ["resize_window", "series_flows"]
    );
    assert_eq!(unused(named("incast", &[("jitter", "0s"), ("jitter_mode", "independent")])), ["jitter_mode"]);
    assert_eq!(unused(named("query", &[("total", "1MB")])), none);
    assert_eq!(unused(named("mix", &[("think", "1ms"), ("arrivals", "poisson:10")])), ["think"]);
    assert_eq!(unused(named("mix", &[("cdf_rule", "upper")])), ["cdf_rule"]);
    assert_eq!(unused(named("mix", &[("sources", "3"), ("topology", "leaf-spine:2x2x2")])), ["sources"]);
    assert_eq!(unused(named("permutation", &[("segment", "500B")])), ["segment"]);
    let text = FILE.replacen("rate = \"1Gbps\"", "rate = \"1Gbps\"\nloss = 0.1", 1).replacen(
        "to = \"b2\"",
        "to = \"b2\"\ncount = 1",
        1,
    );
    assert!(without_place(&message(file(&text)))
        .starts_with("workload[2].count = \"1\": unknown key of workload query"));
    // Every link has a buffer of its own, so that of the run is nobody's.
    let own = "scenario = \"custom\"\nhosts = [\"a\", \"b\"]\nswitches = [\"s\"]\n[[link]]\nbetween = [[\"a\", \"b\"], \"s\"]\n\
               rate = \"1Gbps\"\ndelay = \"1us\"\nbuffer = \"20pkt\"\n[[workload]]\nfrom = \"a\"\nto = \"b\"\n";
    assert_eq!(unused(file(&format!("buffer = \"9pkt\"\n{own}"))), ["buffer"]);
    assert_eq!(
        unused(file(&format!("buffer = \"9pkt\"\n{}", own.replace("buffer = \"20pkt\"\n", "")))),
        none
    );
    // A link between two hosts has no switch port that could have a buffer.
    let text = "scenario = \"custom\"\nqueue = \"droptail\"\nhosts = [\"a\", \"b\"]\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1Gbps\"\n\
                delay = \"1us\"\nbuffer = \"9pkt\"\n[[workload]]\nfrom = \"a\"\nto = \"b\"\n";
    assert_eq!(unused(file(text)), ["queue", "link[1].buffer"]);
}

/// Texts that have broken parsers before, and plausible values of the wrong kind.
const GARBAGE: &[&str] = &[
    "",
    " ",
    "-",
    "0",
    "-1",
    "1",
    "2",
    "1e3",
    "1e400",
    "-1e400",
    "1e-400",
    "nan",
    "inf",
    "1_0",
    "_",
    "9223372036854775808",
    "0x10",
    "1Gbps",
    "0bps",
    "1e30Gbps",
    "1ms",
    "-1ms",
    "1e9s",
    "0s",
    "1KB",
    "0B",
    "1e20KB",
    "0.5B",
    "1pkt",
    "0pkt",
    "99999999999pkt",
    "true",
    "yes",
    "dctcp",
    "rcp:alpha=",
    "dctcp:g=0",
    "red:min=1pkt,max=2pkt",
    "threshold:k=0pkt",
    "hysteresis:k1=9pkt,k2=1pkt",
    ":",
    "=",
    "a=b",
    "pareto:1.2:25KB",
    "pareto:1:1B",
    "uniform:0:0",
    "uniform:1:1e15",
    "cdf:",
    "cdf:/",
    "cdf:.",
    "exponential:",
    "fixed:",
    "fat-tree:2",
    "fat-tree:",
    "fat-tree:4294967297",
    "leaf-spine:1x1x1",
    "leaf-spine:0x0x0",
    "leaf-spine:4294967295x4294967295x4294967295",
    "rack",
    "tree",
    "closed",
    "poisson:",
    "poisson:1e-9",
    "load:0",
    "load:1e9",
    "load:50%",
    "\u{1F980}",
    "é",
    "1µs",
    "\n",
    "a\nb",
    "\"",
    "\\",
    "[1]",
    "null",
];

/// One of the scenario's keys, now and then none of them.
fn pick_key(keys: &[String], rng: &mut Stream) -> String {
    match rng.below(20) {
        0 => GARBAGE[rng.below(GARBAGE.len() as u64) as usize].to_owned(),
        _ => keys[rng.below(keys.len() as u64) as usize].clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn garbage_never_panics(seed: u64) {
        let mut rng = Stream::new(seed, 0, Entity::Workload, 0);
        let scenario = scenarios::ALL[rng.below(scenarios::ALL.len() as u64) as usize];
        let keys: Vec<String> = scenario.specs().iter().map(|s| s.name.to_owned()).collect();
        let mut set = Map::new();
        for _ in 0..=rng.below(4) {
            let value = match rng.below(12) {
                0 => json!(rng.next_u64()),
                1 => json!((rng.uniform() - 0.5) * 1e3),
                2 => json!([1, "a"]),
                3 => json!({ "a": null }),
                4 => json!(rng.below(2) == 0),
                _ => json!(GARBAGE[rng.below(GARBAGE.len() as u64) as usize]),
            };
            set.insert(pick_key(&keys, &mut rng), value);
        }
        let document = json!({ "scenario": scenario.name, "set": set, "seed": seed }).to_string();
        match resolve(&document) {
            Ok(r) => { resolved(&r).to_string(); }
            Err(e) => prop_assert!(!e.to_string().contains('\n'), "{}", e),
        }
    }

    #[test]
    fn damaged_files_never_panic(seed: u64) {
        let mut rng = Stream::new(seed, 0, Entity::Workload, 0);
        let mut lines: Vec<String> = FILE.lines().map(str::to_owned).collect();
        for _ in 0..=rng.below(3) {
            let i = rng.below(lines.len() as u64) as usize;
            match rng.below(4) {
                0 => { lines.remove(i); }
                1 => lines.insert(i, lines[rng.below(lines.len() as u64) as usize].clone()),
                2 => {
                    let garbage = GARBAGE[rng.below(GARBAGE.len() as u64) as usize];
                    if let Some((key, _)) = lines[i].split_once('=') {
                        lines[i] = format!("{key}= {garbage:?}");
                    }
                }
                _ => {
                    let j = rng.below(lines.len() as u64) as usize;
                    lines.swap(i, j);
                }
            }
        }
        if let Err(e) = file(&lines.join("\n")) {
            prop_assert!(!e.to_string().contains('\n'), "{}", e);
        }
    }
}
