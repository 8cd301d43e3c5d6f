//! Guards: every registered transport in networks that fail. Topology, priorities, order of service, pause, trimming, spraying, loss and
//! reordering are drawn, and links fail, recover and degrade while it sends, with and without rerouting. Every byte arrives once: the
//! witness in builds with debug assertions watches order and repetition. Packets are conserved, which the engine checks at the end of a
//! run. No flow stands still once the last link is back.

use penstock_core::rng::Entity;
use penstock_core::{ParamError, Stream};
use penstock_host::Order;
use penstock_models::registry::{PROTOCOLS, STACKS};
use penstock_sim::document::resolve;
use penstock_sim::engine::{Engine, Progress};
use penstock_sim::setup::{NicMode, Setup};
use penstock_sim::workloads::{Action, Actions, App, Workload, Written};
use penstock_units::{Dur, Time};
use serde_json::json;
use std::fmt::Write;

/// Every link works again after so long.
const REPAIRED: u64 = 20_000;
/// In us. Nothing that is left to do then takes longer in simulated time: timers of at most 10 ms (TCP) or 100 ms (backed off), few bytes.
const LIMIT: Dur = Dur::millis(4000);

fn pick<'a, T>(rng: &mut Stream, list: &'a [T]) -> &'a T {
    &list[rng.below(list.len() as u64) as usize]
}
fn one_in(rng: &mut Stream, n: u64) -> bool {
    rng.below(n) == 0
}

/// Ends its work with its last acknowledgement, and so the run with that of all: the timers of routers would go on.
struct Until {
    inner: Box<dyn App>,
    left: usize,
}

impl App for Until {
    fn next_event(&self) -> Time {
        self.inner.next_event()
    }
    fn on_timer(&mut self, now: Time, actions: &mut Actions) {
        self.inner.on_timer(now, actions);
    }
    fn on_acked(&mut self, now: Time, write: &Written, actions: &mut Actions) {
        self.inner.on_acked(now, write, actions);
        self.left -= 1;
        if self.left == 0 {
            actions.push(Action::Done);
        }
    }
}

/// A tree of switches with some links more, and two hosts or more; or a network by name.
fn network(rng: &mut Stream) -> (String, u64) {
    let delay = *pick(rng, &["0s", "1us", "20us"]);
    let buffer = *pick(rng, &["10pkt", "100pkt", "30KB"]);
    let named =
        [("leaf-spine:2x2x2", 4), ("leaf-spine:3x2x2", 6), ("fat-tree:4", 16), ("dragonfly:1,2,1", 6)];
    if one_in(rng, 2) {
        let (name, hosts) = *pick(rng, &named);
        let text = format!(
            "topology = \"{name}\"\nlink_rate = \"10Gbps\"\nfabric_rate = \"{}Gbps\"\nlink_delay = \"{delay}\"\nbuffer = \"{buffer}\"\n",
            pick(rng, &[10, 40])
        );
        return (text, hosts);
    }
    let (hosts, switches) = (2 + rng.below(6), 1 + rng.below(5));
    let mut text = format!("hosts = [\"h[0-{}]\"]\nswitches = [\"s[0-{}]\"]\n", hosts - 1, switches - 1);
    let mut link = |rng: &mut Stream, a: String, b: String| {
        let gbps = pick(rng, &[1, 10, 40]);
        writeln!(
            text,
            "[[link]]\nbetween = [\"{a}\", \"{b}\"]\nrate = \"{gbps}Gbps\"\ndelay = \"{delay}\"\nbuffer = \"{buffer}\""
        )
        .unwrap();
    };
    for s in 1..switches {
        let before = rng.below(s);
        link(rng, format!("s{before}"), format!("s{s}"));
    }
    for _ in 0..rng.below(4) {
        let (a, b) = (rng.below(switches), rng.below(switches));
        if a != b {
            link(rng, format!("s{a}"), format!("s{b}"));
        }
    }
    for h in 0..hosts {
        let s = rng.below(switches);
        link(rng, format!("h{h}"), format!("s{s}"));
    }
    (text, hosts)
}

/// Keys of the network between the hosts.
fn keys(rng: &mut Stream, set: &mut serde_json::Map<String, serde_json::Value>) {
    let mut maybe = |rng: &mut Stream, key: &str, values: &[&str]| {
        let value = *pick(rng, values);
        if !value.is_empty() {
            set.insert(key.into(), json!(value));
        }
    };
    maybe(rng, "priorities", &["", "", "2", "4:1=3", "8"]);
    maybe(rng, "schedule", &["", "", "fifo", "strict", "drr"]);
    maybe(rng, "pfc", &["", "", "", "on:xoff=20KB", "on:xoff=10KB,xon=2KB,response=1us"]);
    maybe(rng, "trim", &["", "", "", "64B", "100B:tail=0.5"]);
    maybe(rng, "reorder", &["", "", "share=0.05,delay=20us"]);
    maybe(
        rng,
        "spread",
        &["", "flow", "packet", "round-robin", "flowlet:gap=20us", "weighted", "adaptive", "entropy"],
    );
    maybe(rng, "reroute", &["at-once", "never"]);
    maybe(rng, "segment", &["1460B", "1460B", "4096B", "200B"]);
    maybe(rng, "framing", &["none", "ethernet"]);
    maybe(rng, "send_jitter", &["", "0s", "1us"]);
    maybe(rng, "ties", &["forward", "reversed"]);
}

/// What happens to links of a network, as the key `fail` has it; all is well again after [`REPAIRED`].
fn fail(rng: &mut Stream, setup: &Setup) -> String {
    let t = &setup.topology;
    let mut text = String::new();
    for _ in 0..1 + rng.below(4) {
        let link = &t.links[rng.below(t.links.len() as u64) as usize];
        let (a, b) = (&t.nodes[link.from as usize].name, &t.nodes[link.to as usize].name);
        let from = rng.below(REPAIRED / 2);
        let to = from + 1 + rng.below(REPAIRED / 2 - 1);
        let arrow = pick(rng, &["->", "<->"]);
        let how = pick(rng, &["", "", ",waiting=kept", ",rate=500Mbps", ",rate=20Gbps"]);
        write!(text, "{}{a}{arrow}{b}@{from}us-{to}us{how}", if text.is_empty() { "" } else { "; " })
            .unwrap();
    }
    text
}

struct Case {
    document: String,
    bytes: Vec<u64>,
    protocol: &'static str,
}

fn set_up(rng: &mut Stream, protocol: &'static str) -> Result<(Setup, Case), ParamError> {
    let (net, hosts) = network(rng);
    let mut toml = format!("scenario = \"custom\"\nprotocol = \"{protocol}\"\n{net}");
    let (mut bytes, mut counts) = (Vec::new(), Vec::new());
    for _ in 0..1 + rng.below(8) {
        let (src, off, count) = (rng.below(hosts), 1 + rng.below(hosts - 1), 1 + rng.below(2));
        let most = *pick(rng, &[2_000, 100_000, 400_000]);
        let size = 1 + rng.below(most);
        write!(
            toml,
            "[[workload]]\nkind = \"flows\"\nfrom = \"h{src}\"\nto = \"h{}\"\nsize = \"{size}B\"\nclass = {}\ncount = {count}\n\
             start = \"{}us\"\nspread = \"100us\"\n",
            (src + off) % hosts,
            rng.below(9),
            rng.below(REPAIRED / 2),
        )
        .unwrap();
        if one_in(rng, 6) {
            let other = *pick(rng, &["newreno", "dctcp", "ndp", "pfabric", "dcqcn"]);
            writeln!(toml, "protocol = \"{other}\"").unwrap();
        }
        bytes.extend((0..count).map(|_| size));
        counts.push(count as usize);
    }
    let mut set = serde_json::Map::new();
    keys(rng, &mut set);
    for (key, value) in [("duration", "4s"), ("rto_min", "2ms"), ("rto_initial", "2ms"), ("rto_max", "10ms")]
    {
        set.insert(key.into(), json!(value));
    }
    let seed = rng.next_u64() >> 12;
    let document = |set: &serde_json::Map<_, _>| {
        json!({ "toml": toml, "base_dir": ".", "set": set, "seed": seed }).to_string()
    };
    // What does not go together with the rest, or with this network, is left out.
    let whole = loop {
        match resolve(&document(&set)).and_then(|r| r.setup(0)) {
            Ok(setup) => break setup,
            Err(why) => {
                let key = why.key.split(':').next().unwrap_or_default();
                // A protocol that does not go with the ports that keys ask for: these go, one after the other.
                let memory = || ["sharing", "pfc", "buffer"].into_iter().find(|key| set.contains_key(*key));
                let key = if key == "protocol" { memory().unwrap_or(key) } else { key };
                if set.remove(key).is_none() {
                    return Err(why);
                }
            }
        }
    };
    set.insert("fail".into(), json!(fail(rng, &whole)));
    let document = document(&set);
    let mut setup = resolve(&document)?.setup(0)?;
    let loss = *pick(rng, &[0.0, 0.0, 0.001, 0.02]);
    setup.topology.links.iter_mut().for_each(|l| l.loss = loss);
    let workloads = setup.workloads.drain(..).zip(&counts);
    setup.workloads = workloads
        .map(|(inner, left)| Workload::central(Until { inner: inner.into_app(), left: *left }))
        .collect();
    let mut more = format!("loss {loss}");
    if setup.own_stack().is_none() && one_in(rng, 2) {
        (setup.nic, setup.host_queue) =
            (NicMode::Pull(*pick(rng, &[Order::RoundRobin, Order::Strict])), None);
        write!(more, ", {:?}", setup.nic).unwrap();
    }
    if one_in(rng, 4) {
        (setup.receive_delay, setup.processing) = (Dur::micros(rng.below(5)), Dur::nanos(rng.below(500)));
        write!(more, ", delays {} {}", setup.receive_delay, setup.processing).unwrap();
    }
    Ok((setup, Case { document: format!("{document}\n{more}"), bytes, protocol }))
}

/// Runs a case; `None` where what was drawn contradicts itself or the network has come to a deadlock.
fn check(protocol: &'static str, number: u64) -> Option<()> {
    let mut rng = Stream::new(11, number, Entity::Workload, 77);
    let (setup, case) = match set_up(&mut rng, protocol) {
        Ok(found) => found,
        Err(why) => {
            println!("{protocol} {number}: {why}");
            return None;
        }
    };
    let what = || format!("{} case {number}: {}", case.protocol, case.document);
    let mut engine = Engine::new(setup).unwrap_or_else(|e| panic!("{e}: {}", what()));
    let ran =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| engine.run(&Progress::default()).unwrap()));
    assert!(ran.is_ok(), "{}", what());
    if engine.measured().deadlock.is_some() {
        println!("{protocol} {number}: deadlock");
        return None;
    }
    let r = &engine.recorder;
    assert_eq!(r.flows.len(), case.bytes.len(), "{}", what());
    let mut expected = case.bytes.clone();
    let mut found: Vec<u64> = r.flows.iter().map(|f| f.delivered_bytes).collect();
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expected, "delivered: {}", what());
    for f in &r.flows {
        assert_eq!((f.delivered_bytes, f.acked_bytes), (f.size, f.size), "flow {}: {}", f.flow, what());
    }
    assert!(engine.now() < Time::ZERO + LIMIT, "{}", what());
    Some(())
}

fn check_all(protocol: &'static str, cases: std::ops::Range<u64>) {
    let n = cases.end - cases.start;
    let (mut ran, mut failed) = (0, 0);
    for number in cases {
        match std::panic::catch_unwind(|| check(protocol, number)) {
            Ok(found) => ran += u64::from(found.is_some()),
            Err(_) => failed += 1,
        }
    }
    assert_eq!(failed, 0, "{protocol}: {failed} of {n} cases failed, see above");
    assert!(2 * ran >= n, "{protocol}: {ran} of {n} cases ran");
}

#[test]
fn transports_with_a_stack_of_their_own_survive_failing_links() {
    for p in STACKS {
        check_all(p.name, 0..30);
    }
}
#[test]
fn tcp_survives_failing_links_under_every_law() {
    for (i, p) in (0..).zip(PROTOCOLS) {
        check_all(p.name, 100 * i..100 * i + 6);
    }
}
#[test]
#[ignore = "takes long; runs in `make test-full`"]
fn every_transport_survives_many_failing_links() {
    for p in PROTOCOLS.iter().chain(STACKS) {
        check_all(p.name, 10_000..10_150);
    }
}

/// A flow begins while its receiver is cut off and every switch knows it: it opens, what it sends is lost and counted, and it ends once
/// the link is back.
#[test]
fn a_flow_that_begins_while_its_receiver_is_cut_off_waits_for_the_link() {
    for p in [PROTOCOLS[0].name, "dcqcn", "ndp", "pfabric"] {
        let toml = format!(
            "scenario = \"custom\"\nprotocol = \"{p}\"\ntopology = \"leaf-spine:2x2x2\"\nlink_rate = \"10Gbps\"\nlink_delay = \"1us\"\n\
             duration = \"2s\"\nrto_min = \"2ms\"\nrto_initial = \"2ms\"\nfail = \"leaf0->h0@1ms-5ms\"\n\
             [[workload]]\nkind = \"flows\"\nfrom = \"h2\"\nto = \"h0\"\nsize = \"20KB\"\nstart = \"2ms\"\n"
        );
        let document = json!({ "toml": toml, "base_dir": ".", "seed": 1 }).to_string();
        let o = resolve(&document).unwrap().run(0, &Progress::default()).unwrap();
        let f = &o.engine.recorder.flows[0];
        assert_eq!((f.delivered_bytes, f.acked_bytes), (20_000, 20_000), "{p}");
        assert!(f.closed > Time::ZERO + Dur::millis(5), "{p}: {}", f.closed);
        let lost = o.summary["drops_down"];
        assert!(lost > 0.0 && o.summary["drops"] == lost, "{p}: {lost} lost, {} dropped", o.summary["drops"]);
        assert!(
            o.summary.get("slowdown_p50").is_none_or(|s| !s.is_finite() || *s > 1.0),
            "{p}: {:?}",
            o.summary
        );
    }
}
