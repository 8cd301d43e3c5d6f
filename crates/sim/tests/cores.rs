//! One run on several threads leaves the bytes that it leaves on one.

use penstock_core::rng::Entity;
use penstock_core::Stream;
use penstock_models::protocols::reno::RENO;
use penstock_models::registry::{Protocol, Registry, Suite};
use penstock_sim::cores::Threads;
use penstock_sim::document::resolve;
use penstock_sim::engine::Progress;
use penstock_sim::fingerprint::fingerprint;
use penstock_sim::scenario::{Outcome, Resolved};
use serde_json::{json, Map, Value};
use std::fmt::Write;
use std::sync::Arc;

const NUMBERS: [usize; 4] = [1, 2, 3, 7];

/// So many threads and sixteen, two threads that share out several parts by what the last windows had to do, and several of which the first works through
/// some windows alone.
fn ways() -> Vec<Threads> {
    let several = Threads { shares: 4, ..Threads::always(2) };
    // Whatever its windows have, that is too little: the first thread works through most of them alone.
    let alone = Threads { least_hops: u64::MAX, ..Threads::always(3) };
    NUMBERS.map(Threads::always).into_iter().chain([Threads::always(16), several, alone]).collect()
}

fn print_of(outcome: &Outcome) -> String {
    fingerprint(&outcome.engine.measured(), &outcome.summary)
}
fn whole(r: &Resolved) -> String {
    print_of(&r.run(0, &Progress::default()).unwrap())
}
/// On so many threads, however little there is to do in a window: on how many it was made, or why on one.
fn divided(r: &Resolved, threads: usize) -> (String, Result<usize, String>) {
    divided_by(r, &Threads::always(threads))
}
fn divided_by(r: &Resolved, threads: &Threads) -> (String, Result<usize, String>) {
    let (outcome, cores) = r.run_on(0, threads, &Progress::default()).unwrap();
    assert!(outcome.completed && cores.threads <= threads.most);
    let as_asked = cores.work.windows > 0 && (cores.note.is_none() || cores.threads > 1);
    (print_of(&outcome), if as_asked { Ok(cores.threads) } else { Err(cores.note.unwrap_or_default()) })
}

#[test]
fn a_permutation_leaves_the_same_bytes_on_any_number_of_threads() {
    let given =
        [("topology", "fat-tree:4"), ("duration", "200us"), ("buffer", "10pkt"), ("loss_events", "true")];
    let given: Vec<_> = given.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let r = Resolved::new("permutation", &given, 1, Value::Null).unwrap();
    let one = whole(&r);
    for threads in NUMBERS {
        assert_eq!(divided(&r, threads), (one.clone(), Ok(threads)));
    }
}

fn one<'a>(rng: &mut Stream, words: &[&'a str]) -> &'a str {
    words[rng.below(words.len() as u64) as usize]
}

/// A network of two tiers with loss, small buffers and several protocols, and workloads of which all is known before the run.
fn document(rng: &mut Stream) -> Value {
    let (leaves, spines, hosts) = (2 + rng.below(3), 1 + rng.below(3), 1 + rng.below(4));
    let protocol = one(
        rng,
        &["newreno", "sack", "dctcp", "cubic", "linux-reno", "linux-cubic", "d2tcp", "bbr", "rcp", "xcp"],
    );
    let mut text = format!("scenario = \"custom\"\nprotocol = \"{protocol}\"\nhosts = [");
    let mut names = Vec::new();
    for leaf in 0..leaves {
        names.extend((0..hosts).map(|h| format!("\"h{leaf}x{h}\"")));
    }
    text += &names.join(", ");
    let switches: Vec<_> =
        (0..leaves).map(|l| format!("\"l{l}\"")).chain((0..spines).map(|s| format!("\"s{s}\""))).collect();
    writeln!(text, "]\nswitches = [{}]", switches.join(", ")).unwrap();
    let queue = one(
        rng,
        &["droptail", "threshold:k=5pkt", "red:min=3pkt,max=9pkt,ecn=true", "ramp:kmin=5000B,kmax=20000B"],
    );
    writeln!(text, "queue = \"{queue}\"").unwrap();
    let rate = one(rng, &["100Mbps", "1Gbps", "10Gbps"]);
    let between = one(rng, &["1us", "20us", "300us"]);
    // Where a link has no delay, nothing can be worked through in windows.
    let delays: &[&str] = if rng.below(3) == 0 { &["0s", "1us", "100us"] } else { &["1us", "3us", "100us"] };
    let mut link = |a: String, b: String, delay: &str, rng: &mut Stream| {
        let buffer = one(rng, &["3pkt", "20KB", "100pkt"]);
        let loss = one(rng, &["0", "0", "0.001", "0.02"]);
        let fields =
            format!("rate = \"{rate}\"\ndelay = \"{delay}\"\nbuffer = \"{buffer}\"\nloss = {loss}\n");
        write!(text, "[[link]]\nbetween = [\"{a}\", \"{b}\"]\n{fields}").unwrap();
    };
    for leaf in 0..leaves {
        for spine in 0..spines {
            link(format!("l{leaf}"), format!("s{spine}"), between, rng);
        }
        for host in 0..hosts {
            let delay = one(rng, delays);
            link(format!("h{leaf}x{host}"), format!("l{leaf}"), delay, rng);
        }
    }
    let lasting = rng.below(3) == 0;
    for _ in 0..=rng.below(3) {
        let far = format!("\"h{}x0\"", leaves - 1);
        let from: Vec<_> = names.iter().filter(|name| **name != far).cloned().collect();
        let kind = if lasting { "flows" } else { one(rng, &["flows", "poisson", "poisson"]) };
        writeln!(text, "[[workload]]\nkind = \"{kind}\"\nfrom = [{}]", from.join(", ")).unwrap();
        let to = if kind == "poisson" && rng.below(2) == 0 {
            format!("[{}]", names.join(", "))
        } else {
            format!("[{far}]")
        };
        writeln!(text, "to = {to}").unwrap();
        match kind {
            "flows" => {
                writeln!(text, "spread = \"{}us\"", rng.below(300)).unwrap();
                match rng.below(3) {
                    _ if lasting => {}
                    0 => writeln!(text, "size = \"{}KB\"", 1 + rng.below(200)).unwrap(),
                    1 => writeln!(text, "end = \"{}ms\"", 1 + rng.below(8)).unwrap(),
                    _ => {}
                }
            }
            _ => {
                let sizes =
                    one(rng, &["fixed:1B", "uniform:1B:100KB", "exponential:20KB", "pareto:1.1:30KB"]);
                writeln!(text, "rate = {}\nsizes = \"{sizes}\"", 1 + rng.below(5000)).unwrap();
            }
        }
    }
    let mut set = Map::new();
    let mut maybe = |rng: &mut Stream, key: &str, values: &[&str]| {
        if rng.below(3) == 0 {
            set.insert(key.into(), json!(one(rng, values)));
        }
    };
    maybe(rng, "delayed_ack", &["1", "2", "5"]);
    maybe(rng, "delayed_ack_timeout", &["0s", "1ms", "40ms"]);
    maybe(rng, "rwnd", &["3pkt", "20KB"]);
    maybe(rng, "initial_window", &["1", "2", "40"]);
    maybe(rng, "rto_min", &["0s", "200us", "10ms"]);
    maybe(rng, "rto_initial", &["1ms", "10ms"]);
    maybe(rng, "ties", &["reversed"]);
    maybe(rng, "send_jitter", &["0s", "1us", "50us"]);
    maybe(rng, "host_queue", &["unlimited", "1pkt", "3KB"]);
    maybe(rng, "warmup", &["1ms", "3ms"]);
    maybe(rng, "framing", &["ethernet"]);
    maybe(rng, "loss_events", &["true"]);
    maybe(rng, "sample", &["100us"]);
    if spines > 1 {
        maybe(rng, "spread", &["packet", "flow"]);
    }
    if lasting && set.contains_key("sample") {
        set.insert("series".into(), json!("true"));
    }
    set.insert("duration".into(), json!(one(rng, &["5ms", "12ms"])));
    json!({ "toml": text, "base_dir": ".", "set": set, "seed": rng.next_u64() })
}

/// Runs random scenarios `from..to` event by event, in windows on one thread, and on several threads. Returns how many could be divided, and how many
/// work in windows on one thread.
fn compare(from: u64, to: u64) -> [u64; 2] {
    let (mut done, mut swept) = (0, 0);
    for number in from..to {
        let document = document(&mut Stream::new(number, 0, Entity::Workload, 77));
        let r =
            resolve(&document.to_string()).unwrap_or_else(|e| panic!("scenario {number}: {e}\n{document}"));
        // A panic in the engine does not know the document.
        println!("scenario {number}: {document}");
        let one = whole(&r);
        let mut by_windows = false;
        // In windows, until they turn out to have too little work.
        let (outcome, _) = r.run_on(0, &Threads::up_to(1), &Progress::default()).unwrap();
        assert_eq!(print_of(&outcome), one, "scenario {number}: {document}");
        for threads in ways() {
            let (print, on) = divided_by(&r, &threads);
            assert_eq!(print, one, "scenario {number} on {on:?} of {threads:?}: {document}");
            by_windows |= threads.most == 1 && on.is_ok();
            assert!(threads.most == 1 || on.is_ok(), "scenario {number}: {on:?}");
        }
        done += 1;
        swept += u64::from(by_windows);
    }
    [done, swept]
}

/// `FUZZ_FIRST=1022 FUZZ_CASES=1` tries others.
fn cases(first: u64, count: u64) -> (u64, u64) {
    let of = |key: &str| std::env::var(key).ok().and_then(|text| text.parse().ok());
    (of("FUZZ_FIRST").unwrap_or(first), of("FUZZ_CASES").unwrap_or(count))
}

#[test]
fn a_dozen_random_scenarios_leave_the_same_bytes_on_any_number_of_threads() {
    let [done, swept] = compare(0, 12);
    assert!(done == 12 && swept >= 2, "{done} and {swept} of 12");
}
#[test]
#[ignore = "takes long; runs in `make test-full`"]
fn random_scenarios_leave_the_same_bytes_on_any_number_of_threads() {
    let (from, count) = cases(1000, 200);
    let [done, swept] = compare(from, from + count);
    println!("{done} of {count} divided, {swept} in windows");
    assert!(done == count && (count < 200 || 2 * swept >= count), "{done} and {swept} of {count}");
}

/// Short flows with timers so short that much is sent twice: duplicates reach receivers whose senders are done. Receiving ends are removed one
/// propagation delay later, so two threads need not agree on anything at once.
#[test]
fn lossy_runs_whose_flows_end_are_divided() {
    for (seed, reply) in [(2, "0s"), (6, "20us"), (23, "5us"), (47, "0s")] {
        let given = [
            ("topology", "leaf-spine:4x2x8"),
            ("link_rate", "10Gbps"),
            ("link_delay", "1us"),
            ("sizes", "exponential:40KB"),
            ("arrivals", "load:0.8"),
            ("long_flows", "0"),
            ("short_flows", "100000"),
            ("protocol", "sack"),
            ("rto_min", "30us"),
            ("rto_initial", "100us"),
            ("buffer", "30pkt"),
            ("delayed_ack_timeout", reply),
            ("warmup", "0s"),
            ("series", "false"),
            ("duration", "1500us"),
        ];
        let given: Vec<_> = given.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let r = Resolved::new("mix", &given, seed, Value::Null).unwrap();
        let one = whole(&r);
        for threads in [1, 2, 3] {
            assert_eq!(divided(&r, threads), (one.clone(), Ok(threads)), "seed {seed}");
        }
    }
}

/// Golden scenarios that are divided, and one that has a host controller of several hosts.
#[test]
fn golden_scenarios_leave_the_same_bytes_on_any_number_of_threads() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let recorded = std::fs::read_to_string(folder.join("results.json")).unwrap();
    let recorded: Value = serde_json::from_str(&recorded).unwrap();
    let expected = [
        ("join_rcp", true),
        ("parking_lot_piqi", true),
        ("permutation_dragonfly", true),
        ("permutation_fat_tree", true),
        ("permutation_leaf_spine_sizes", true),
        ("poisson_homa_remaining", true),
        ("poisson_xcp", true),
        ("staggered_piqi_rcp", true),
        ("staggered_qi_rcp", true),
        ("t1_rcp_flow_mean", true),
        ("incast_newreno", true),
        ("rdma_hpcc", true),
        ("db_ftp_cbc", false),
    ];
    for (name, divisible) in expected {
        check_golden(&folder, &recorded, name, Some(divisible));
    }
}
#[test]
#[ignore = "takes long; runs in `make test-full`"]
fn all_golden_scenarios_leave_the_same_bytes_on_any_number_of_threads() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let recorded = std::fs::read_to_string(folder.join("results.json")).unwrap();
    let recorded: Value = serde_json::from_str(&recorded).unwrap();
    recorded.as_object().unwrap().keys().for_each(|name| check_golden(&folder, &recorded, name, None));
}
fn check_golden(folder: &std::path::Path, recorded: &Value, name: &str, divisible: Option<bool>) {
    let text = std::fs::read_to_string(folder.join(format!("{name}.toml"))).unwrap();
    let document = json!({ "toml": text, "base_dir": folder.to_str().unwrap(), "seed": 1 });
    let r = resolve(&document.to_string()).unwrap();
    for threads in ways() {
        let (print, on) = divided_by(&r, &threads);
        assert_eq!(print, recorded[name]["fingerprint"].as_str().unwrap(), "{name} on {on:?} of {threads:?}");
        println!("{name}, {threads:?}: {on:?}");
        if let (Some(divisible), true) = (divisible, threads.most > 1) {
            assert_eq!(on.is_ok(), divisible, "{name}: {on:?}");
        }
    }
}
/// Two of four racks send to each other, so one half of the network has nearly all the load. A run on two threads begins anew with a logical process for
/// each rack, and these are shared out. The load moves from the first two racks to the last two.
#[test]
fn parts_change_hands_where_loads_differ() {
    let mut text = String::from("scenario = \"custom\"\nprotocol = \"dctcp\"\nhosts = [\"h[0-3]x[0-3]\"]\n");
    text += "switches = [\"l[0-3]\", \"s[0-1]\"]\nqueue = \"threshold:k=20pkt\"\nrto_min = \"1ms\"\nduration = \"8ms\"\n";
    let link = "rate = \"10Gbps\"\ndelay = \"1us\"\nbuffer = \"100pkt\"\n";
    write!(text, "[[link]]\nbetween = [\"l[0-3]\", \"s[0-1]\"]\n{link}").unwrap();
    for rack in 0..4 {
        write!(text, "[[link]]\nbetween = [\"h{rack}x[0-3]\", \"l{rack}\"]\n{link}").unwrap();
    }
    for (from, to, times) in [
        (0, 1, "end = \"5ms\""),
        (1, 0, "end = \"5ms\""),
        (2, 3, "start = \"5ms\""),
        (3, 2, "start = \"5ms\""),
    ] {
        for host in 0..4 {
            writeln!(
                text,
                "[[workload]]\nkind = \"flows\"\nfrom = \"h{from}x{host}\"\nto = \"h{to}x{host}\"\n{times}"
            )
            .unwrap();
        }
    }
    let r = resolve(&json!({ "toml": text, "seed": 1 }).to_string()).unwrap();
    let one = whole(&r);
    let balance = |threads: &Threads| {
        let (outcome, cores) = r.run_on(0, threads, &Progress::default()).unwrap();
        assert_eq!((print_of(&outcome), cores.threads, cores.note), (one.clone(), 2, None));
        cores.work.balance()
    };
    let shared_out = balance(&Threads::always(2));
    assert!(shared_out > 1.7, "{shared_out}");
    // It has begun anew: these are the windows of a run that begins so.
    assert_eq!(balance(&Threads { shares: 2, ..Threads::always(2) }), shared_out);
}
/// Switches between racks are divided by their ports. Their links are as long as a window, some windows long and many windows long. Samples cut windows
/// short, and equal hosts without noise have packets that arrive at one instant by several links.
#[test]
fn switches_are_divided_whose_links_are_longer_than_a_window() {
    for (between, ties) in
        [("1us", "kept"), ("2500ns", "kept"), ("2500ns", "reversed"), ("4us", "kept"), ("9us", "kept")]
    {
        let ties = if ties == "reversed" { "ties = \"reversed\"\n" } else { "" };
        let mut text =
            String::from("scenario = \"custom\"\nprotocol = \"sack\"\nhosts = [\"h[0-3]x[0-3]\"]\n");
        text += "switches = [\"l[0-3]\", \"s[0-2]\"]\nrto_min = \"1ms\"\nduration = \"3ms\"\nsend_jitter = \"0s\"\n";
        write!(text, "sample = \"7700ns\"\nseries = true\n{ties}").unwrap();
        let link = "rate = \"10Gbps\"\nbuffer = \"20pkt\"\n";
        write!(text, "[[link]]\nbetween = [\"l[0-3]\", \"s[0-2]\"]\ndelay = \"{between}\"\n{link}").unwrap();
        for rack in 0..4 {
            let hosts = format!("[\"h{rack}x[0-3]\", \"l{rack}\"]");
            write!(text, "[[link]]\nbetween = {hosts}\ndelay = \"1us\"\n{link}").unwrap();
        }
        for (from, to) in [(0, 1), (1, 2), (2, 3), (3, 0), (2, 0), (3, 1)] {
            let flows = format!("from = \"h{from}x[0-3]\"\nto = \"h{to}x[0-3]\"\n");
            write!(text, "[[workload]]\nkind = \"flows\"\n{flows}").unwrap();
        }
        let r = resolve(&json!({ "toml": text, "seed": 1 }).to_string()).unwrap();
        let one = whole(&r);
        for threads in ways() {
            assert_eq!(divided_by(&r, &threads), (one.clone(), Ok(threads.most.min(4))), "{between}, {ties}");
        }
    }
}
/// Too little to do: the run is made on one thread, and says so.
#[test]
fn a_run_with_little_to_do_is_made_on_one_thread() {
    let given = [("topology", "leaf-spine:2x1x1"), ("duration", "100us"), ("link_rate", "1Gbps")];
    let given: Vec<_> = given.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let r = Resolved::new("permutation", &given, 1, Value::Null).unwrap();
    let (outcome, cores) = r.run_on(0, &Threads::up_to(2), &Progress::default()).unwrap();
    assert_eq!(print_of(&outcome), whole(&r));
    assert_eq!(cores.threads, 1);
    let note =
        "the run is made on one thread: too little happens while a packet is on a link between two parts";
    assert_eq!(cores.note.as_deref(), Some(note));
}
/// A run works in windows while each link brings several packets at a time. A run of single packets goes on event by event, from where it is.
#[test]
fn a_run_of_single_packets_ends_its_windows() {
    let run = |rwnd: &str| {
        let given =
            [("topology", "leaf-spine:4x2x4"), ("duration", "4ms"), ("rwnd", rwnd), ("warmup", "3ms")];
        let given: Vec<_> = given.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let r = Resolved::new("permutation", &given, 1, Value::Null).unwrap();
        let (outcome, cores) = r.run_on(0, &Threads::up_to(1), &Progress::default()).unwrap();
        assert_eq!((print_of(&outcome), cores.threads, cores.note), (whole(&r), 1, None));
        let (outcome, cores) = r.run_on(0, &Threads::one_by_one(), &Progress::default()).unwrap();
        assert_eq!((print_of(&outcome), cores.work.windows), (whole(&r), 0));
        r.run_on(0, &Threads::up_to(1), &Progress::default()).unwrap().1.work
    };
    let (single, several) = (run("1pkt"), run("100pkt"));
    // 4 ms are 4,000 delays of the shortest link, and a run on one thread looks up after every 64.
    assert!(single.windows < 30 && several.windows > 60, "{single:?} and {several:?}");
}
/// A protocol declares that a run of it may be divided. The engine cannot know whether its links share something.
#[test]
fn a_protocol_of_somebody_else_is_divided_when_it_says_so() {
    static SILENT: Protocol = Protocol { name: "silent", ..RENO };
    static SAYS_SO: Protocol =
        Protocol { name: "says-so", build: |p| Ok(Suite { independent: true, ..(RENO.build)(p)? }), ..RENO };
    let registry = Arc::new(Registry::standard().with(&SILENT).with(&SAYS_SO));
    let threads = |protocol: &str| {
        let given = [("topology", "fat-tree:4"), ("duration", "100us"), ("protocol", protocol)];
        let given: Vec<_> = given.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let r = Resolved::among(registry.clone(), "permutation", &given, 1, Value::Null).unwrap();
        let (print, threads) = divided(&r, 2);
        assert_eq!(print, whole(&r));
        threads
    };
    assert_eq!((threads("says-so"), threads("reno")), (Ok(2), Ok(2)));
    assert!(threads("silent").unwrap_err().contains("Suite::independent"));
}
/// A run that is cancelled keeps what it has.
#[test]
fn a_cancelled_run_ends_on_one_thread_and_on_several() {
    let given = [("topology".to_owned(), "fat-tree:4".to_owned()), ("duration".to_owned(), "1s".to_owned())];
    let r = Resolved::new("permutation", &given, 1, Value::Null).unwrap();
    let progress = Progress::default();
    progress.cancelled.store(true, std::sync::atomic::Ordering::Relaxed);
    for threads in [1, 2] {
        let (outcome, cores) = r.run_on(0, &Threads::always(threads), &progress).unwrap();
        assert_eq!((outcome.completed, cores.threads), (false, threads));
    }
}
