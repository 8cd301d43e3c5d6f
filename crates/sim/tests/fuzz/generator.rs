//! Random documents from what scenarios, protocols, queues, controllers and tables of files declare of their keys.

use penstock_core::params::quantity;
use penstock_core::rng::Entity;
use penstock_core::{Kind, ParamSpec, Stream};
use penstock_models::Registry;
use penstock_sim::scenario::Scenario;
use penstock_sim::scenarios;
use penstock_sim::scenarios::custom::TABLES;
use serde_json::{json, Map, Value};
use std::fmt::Write;

/// Hosts, flows, servers: no more than so many, so that a case takes milliseconds.
const MOST_COUNT: f64 = 48.0;
/// Bytes of a transfer, of a buffer.
const MOST_BYTES: f64 = 2e6;

/// Values of keys that are texts, by the name of the key and of whoever declares it; the first that fits counts. An empty owner is any.
static TEXTS: &[(&str, &str, &[&str])] = &[
    ("sdc", "gamma", &["1/0.5/0.25", "2/1/0.5"]),
    ("sdc", "alpha", &["0.9/0.9/0.5", "1/1/1"]),
    ("sdc", "beta", &["0.8868/0.5385/0.5", "0.5/0.5/0.5"]),
    ("sdc", "sizes", &["50pkt/100pkt", "10KB/100KB"]),
    ("homa", "cutoffs", &["280B+1KB+4KB", "100B"]),
    ("pias", "thresholds", &["10KB+100KB", "1KB"]),
    ("", "window", &["off", "bdp", "20KB", "1MB"]),
    ("", "sharing", &["none", "none", "shared:alpha=1"]),
    ("", "receive_control", &["none", "ictcp"]),
    ("", "host_queue", &["unlimited", "1pkt", "2pkt", "3KB"]),
    ("", "receive_lag", &["none", "0.5:2us,1:40us"]),
    ("", "data_handover", &["none", "1:100us", "0.9:1us,1:50us"]),
    ("", "ack_handover", &["none", "1:1us"]),
    ("", "timer_lag", &["none", "0.5:1us,1:60us", "0.5:1us,1:60us;0.5"]),
    ("", "receiver_turn", &["none", "0.5:3us,1:30us"]),
    ("", "dupack_turn", &["none", "1:2us"]),
    ("", "sender_turn", &["none", "0.5:3us,1:30us"]),
    ("", "write_lag", &["none", "1:5us"]),
    ("", "write_time", &["none", "1:5us"]),
    ("", "write_turn", &["none", "1:5us"]),
    ("", "application_lag", &["none", "0.5:3us,1:30us"]),
    ("", "application_turn", &["none", "0.5:3us,1:30us"]),
    ("", "priorities", &["1", "2", "8", "3:5=1,7=0"]),
    ("", "schedule", &["", "fifo", "strict", "drr:quantum=1500B", "drr:quantum=3KB,q0=9KB"]),
    ("", "pfc", &["off", "off", "on", "on:xoff=20KB,xon=10KB", "on:alpha=0.1,gap=3KB"]),
    ("", "trim", &["off", "off", "64B", "64B:priority=7,tail=0"]),
    ("", "reorder", &["off", "share=0.1,delay=50us", "share=1,delay=1ms"]),
    (
        "",
        "spread",
        &[
            "drawn",
            "ideal",
            "flow",
            "packet",
            "round-robin",
            "flowlet:gap=50us",
            "weighted",
            "adaptive",
            "entropy",
        ],
    ),
    ("link", "fail", &["", "1ms-2ms", "500us", "1ms-2ms,rate=10Mbps", "0s-1ms,waiting=kept"]),
    ("custom", "fail", &["", "h1<->s0@1ms-2ms", "h1->s0@1ms-2ms,rate=7Mbps"]),
    ("", "fail", &[""]),
    ("custom", "bottleneck", &["", "s0->h0"]),
    ("custom", "topology", &[""]),
    ("mix", "topology", &["rack", "tree", "leaf-spine:2x2x2", "fat-tree:4"]),
    ("mix", "arrivals", &["closed", "poisson:3000", "load:0.7"]),
    ("rdma", "topology", &["star:5", "leaf-spine:2x2x3", "fat-tree:4", "clos:2x2x2x4x2", "rail:2x2x2"]),
    (
        "",
        "topology",
        &["fat-tree:4", "leaf-spine:3x2x3", "leaf-spine:2x4x2", "rail:2x4x2", "dragonfly:2,4,2"],
    ),
    (
        "",
        "sizes",
        &[
            "fixed:1B",
            "fixed:100KB",
            "uniform:1B:100KB",
            "exponential:20KB",
            "pareto:1.1:30KB",
            "websearch",
            "fb-hadoop",
        ],
    ),
    ("staggered", "rtt", &["120ms", "1ms,20us"]),
    ("parking-lot", "hops", &["970Mbps,800Mbps", "10Mbps", "1Gbps,1Gbps,5Mbps"]),
    ("parking-lot", "flows", &["1-2@0s,1-1@1ms", "1-1@0s", "1-1@0s,1-1@2ms"]),
    ("", "db_class", &["af21", "af31"]),
    ("", "ftp_class", &["af31", "af21"]),
    ("", "limits", &["af31=120,af21=60", "af31=2,af21=1"]),
    ("", "control", &["none", "cbc"]),
    // Files of the document.
    ("trace", "file", &["trace.csv"]),
    ("goal", "file", &["ring.goal"]),
    ("matrix", "file", &["pairs.cm"]),
    ("", "protocol", &[""]),
    ("", "queue", &[""]),
];

/// Kinds of ports, cards and hosts. One of them is drawn beside the other keys, which are many.
static KINDS: &[(&str, &str)] = &[
    ("pfc", "on:xoff=20KB,xon=10KB"),
    ("pfc", "on:alpha=0.1,gap=3KB"),
    ("trim", "64B"),
    ("priorities", "8"),
    ("schedule", "strict"),
    ("schedule", "drr:quantum=1500B"),
    ("buffer", "shared:alpha=1,size=200KB"),
    ("buffer", "5pkt"),
    ("spread", "packet"),
    ("spread", "adaptive"),
    ("reorder", "share=0.1,delay=50us"),
    ("loss", "0.01"),
    ("nic", "pull"),
    ("receive_delay", "3us"),
    ("receive_jitter", "5us"),
    ("processing_delay", "1us"),
    ("host_queue", "2pkt"),
    ("delayed_ack", "1"),
    ("send_jitter", "0s"),
    ("deliveries", "true"),
    ("loss_events", "true"),
    ("pause_events", "true"),
    ("series", "true"),
];

const TRACE: &str = "start_s,src,dst,bytes\n0,h1,h0,1000\n1e-4,h0,h1,50000\n0.5,h1,h0,10\n";
const GOAL: &str = "num_ranks 2\nrank 0 {\nl1: send 1000b to 1 tag 1\nl2: recv 500b from 1 tag 2\nl2 requires l1\n}\nrank 1 {\nl1: recv 1000b from 0 tag 1\nl2: send 500b to 0 tag 2\nl2 requires l1\n}\n";
const MATRIX: &str = "Nodes 2\nConnections 1\n0->1 id 1 start 0 size 20000\n";

/// What is drawn from.
pub struct Generator {
    pub rng: Stream,
    registry: Registry,
}

impl Generator {
    pub fn new(seed: u64) -> Generator {
        Generator { rng: Stream::new(seed, 0, Entity::Workload, 0), registry: Registry::standard() }
    }
    pub fn below(&mut self, n: usize) -> usize {
        self.rng.below(n as u64) as usize
    }
    fn one<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }
    fn text(&mut self, owner: &str, spec: &ParamSpec) -> String {
        let fits =
            |entry: &&(&str, &str, &[&str])| entry.1 == spec.name && (entry.0 == owner || entry.0.is_empty());
        match TEXTS.iter().find(fits) {
            Some((_, _, words)) => self.one(words).to_owned(),
            None => spec.default.to_owned(),
        }
    }
    /// True when the texts of a key are known: a new key of that kind needs a line above.
    pub fn knows(owner: &str, spec: &ParamSpec) -> bool {
        TEXTS.iter().any(|entry| entry.1 == spec.name && (entry.0 == owner || entry.0.is_empty()))
    }
    /// A number of base units in the range of a key: round its default, a bound of the range, or of the usual magnitude.
    fn number(&mut self, spec: &ParamSpec) -> f64 {
        let (usual, most) = match spec.kind {
            Kind::Rate => (1e9, 1.6e12),
            Kind::Duration => (1e-4, 10.0),
            Kind::Size | Kind::Amount | Kind::Buffer => (2e4, MOST_BYTES),
            Kind::Count => (4.0, MOST_COUNT),
            _ => (0.5, 1e6),
        };
        let (low, high) = (spec.min, spec.max.min(most.max(spec.min)));
        let default = quantity(spec.default).map(|found| found.0);
        let base = default.filter(|x| *x > 0.0).unwrap_or(usual);
        match self.below(12) {
            0 => low,
            1 => high,
            _ => (base * libm::pow(10.0, 3.0 * self.rng.uniform() - 1.5)).clamp(low, high),
        }
    }
    /// A legal value of a key.
    pub fn value(&mut self, owner: &str, spec: &ParamSpec) -> String {
        match spec.kind {
            Kind::Rate => format!("{}bps", self.number(spec).round()),
            Kind::Duration => format!("{}ps", (self.number(spec) * 1e12).round()),
            Kind::Size => format!("{}B", self.number(spec).floor().max(spec.min.ceil())),
            Kind::Amount | Kind::Buffer if self.below(2) == 0 => {
                let packets = [1, 2, 5, 20, 100, 1000][self.below(6)];
                format!("{}pkt", f64::from(packets).clamp(spec.min.ceil(), spec.max))
            }
            Kind::Amount | Kind::Buffer => match self.below(6) {
                0 if spec.kind == Kind::Buffer => "shared:alpha=1,size=200KB".into(),
                _ => format!("{}B", self.number(spec).floor().max(spec.min.ceil())),
            },
            Kind::Count => format!("{}", self.number(spec).floor().max(spec.min.ceil())),
            Kind::Float => format!("{}", self.number(spec)),
            Kind::Bool => self.one(&["true", "false"]).into(),
            Kind::Choice(words) => self.one(words).into(),
            Kind::Text | Kind::File | Kind::Sizes => self.text(owner, spec),
        }
    }
    /// `NAME`, or `NAME:key=value,...`.
    fn spec(&mut self, name: &str, params: &[ParamSpec]) -> String {
        let mut text = name.to_owned();
        for spec in params {
            if self.below(5) == 0 {
                let value = self.value(name, spec);
                if !value.is_empty() && !value.contains(',') {
                    let join = if text.contains(':') { ',' } else { ':' };
                    write!(text, "{join}{}={value}", spec.name).unwrap();
                }
            }
        }
        text
    }
    pub fn protocol(&mut self) -> String {
        let all = self.registry.protocols().to_vec();
        let protocol = all[self.below(all.len())];
        self.spec(protocol.name, protocol.params)
    }
    pub fn queue(&mut self) -> String {
        let all = self.registry.queues().to_vec();
        let queue = all[self.below(all.len())];
        self.spec(queue.name, queue.params)
    }
    fn seconds(&mut self, from: f64, to: f64) -> f64 {
        from * libm::pow(to / from, self.rng.uniform())
    }
    /// Some keys of a scenario with values.
    fn keys(&mut self, scenario: &Scenario) -> Map<String, Value> {
        let mut set = Map::new();
        let specs = scenario.specs();
        let some = self.below(9);
        for _ in 0..some {
            let spec = &specs[self.below(specs.len())];
            // Longer than most cases, or of one sender only: given now and then.
            let rare = ["segment_start", "gro", "gso", "nic", "series"].contains(&spec.name);
            if rare && self.below(4) > 0 {
                continue;
            }
            let value = self.value(scenario.name, spec);
            if !value.is_empty() {
                set.insert(spec.name.into(), json!(value));
            }
        }
        if self.below(4) > 0 {
            set.insert("protocol".into(), json!(self.protocol()));
        }
        if self.below(2) == 0 {
            set.insert("queue".into(), json!(self.queue()));
        }
        let duration = self.seconds(20e-6, 0.05);
        set.insert("duration".into(), json!(format!("{}ns", (duration * 1e9).round())));
        let share = if self.below(3) == 0 { 0.9 * self.rng.uniform() } else { 0.0 };
        if specs.iter().any(|spec| spec.name == "warmup") {
            set.insert("warmup".into(), json!(format!("{}ns", (duration * 1e9 * share).floor())));
        }
        // A sample every picosecond is what was asked for, and no case of milliseconds.
        if set.contains_key("sample") {
            let sample = format!("{}ns", (duration * 1e9 * self.seconds(1e-3, 1.0)).ceil());
            set.insert("sample".into(), json!(sample));
        }
        for count in ["servers", "flows", "hosts", "sources", "switches"] {
            if let Some(spec) = specs.iter().find(|spec| spec.name == count && spec.kind == Kind::Count) {
                let value = (1 + self.below(12)) as f64;
                set.insert(count.into(), json!(format!("{}", value.clamp(spec.min, spec.max))));
            }
        }
        for topology in specs.iter().filter(|spec| spec.name == "topology" && scenario.name != "custom") {
            let value = self.value(scenario.name, topology);
            set.insert("topology".into(), json!(value));
        }
        set
    }
    /// A network of two to seven hosts and one to four switches, with one to three workloads of all kinds.
    fn custom(&mut self) -> String {
        let (hosts, switches) = (2 + self.below(6), 1 + self.below(4));
        let mut text = format!(
            "scenario = \"custom\"\nhosts = [\"h[0-{}]\"]\nswitches = [\"s[0-{}]\"]\n",
            hosts - 1,
            switches - 1
        );
        let mut pairs: Vec<(String, String)> =
            (1..switches).map(|s| (format!("s{}", self.below(s)), format!("s{s}"))).collect();
        for _ in 0..self.below(3) {
            let (a, b) = (self.below(switches), self.below(switches));
            if a != b {
                pairs.push((format!("s{a}"), format!("s{b}")));
            }
        }
        // h1 and s0 have a link with a name that faults can be of.
        pairs.extend((0..hosts).map(|h| {
            let switch = if h < 2 { 0 } else { self.below(switches) };
            (format!("h{h}"), format!("s{switch}"))
        }));
        let link = &TABLES[0];
        // Links without delay join their nodes.
        let delays: &[&str] = match self.below(4) {
            0 => &["0s", "100ns", "1us", "100us", "5ms"],
            _ => &["100ns", "1us", "3us", "100us", "5ms"],
        };
        for (a, b) in pairs {
            let rate = self.one(&["10Mbps", "100Mbps", "1Gbps", "10Gbps", "25Gbps", "100Gbps"]);
            let delay = self.one(delays);
            write!(text, "[[link]]\nbetween = [\"{a}\", \"{b}\"]\nrate = \"{rate}\"\ndelay = \"{delay}\"\n")
                .unwrap();
            self.fields(&mut text, "link", &link.params(), &["rate", "delay"]);
        }
        for _ in 0..=self.below(3) {
            let table = &TABLES[1 + self.below(TABLES.len() - 1)];
            write!(text, "[[workload]]\nkind = \"{}\"\n", table.name).unwrap();
            for nodes in table.nodes {
                let some = match *nodes {
                    "to" => "\"h0\"".to_owned(),
                    _ if *nodes == "hosts" && self.below(2) == 0 => continue,
                    _ if *nodes == "hosts" => format!("\"h[0-{}]\"", hosts - 1),
                    _ => format!("[\"h[1-{}]\"]", hosts - 1),
                };
                writeln!(text, "{nodes} = {some}").unwrap();
            }
            self.fields(&mut text, table.name, &table.params(), &["kind", "load", "rate", "every"]);
            // An open loop needs one of these.
            let params = table.params();
            let times = params.iter().filter(|spec| ["rate", "load", "every"].contains(&spec.name));
            let times: Vec<&ParamSpec> = times.collect();
            if !times.is_empty() {
                let spec = times[self.below(times.len())];
                let value = if spec.name == "rate" {
                    format!("{}", 1 + self.below(5000))
                } else {
                    self.value(table.name, spec)
                };
                writeln!(text, "{} = \"{value}\"", spec.name).unwrap();
            }
        }
        text
    }
    /// Some fields of a table, and all that it needs.
    fn fields(&mut self, text: &mut String, owner: &str, params: &[ParamSpec], without: &[&str]) {
        // What servers send is the whole or the part of each.
        let both = ["total", "response"].iter().all(|name| params.iter().any(|spec| spec.name == *name));
        let other = if self.below(4) == 0 { "response" } else { "total" };
        let left_out = |spec: &&ParamSpec| without.contains(&spec.name) || both && spec.name == other;
        for spec in params.iter().filter(|spec| !left_out(spec)) {
            let needed = spec.text.contains("must be given")
                || matches!(spec.name, "size" | "total" | "response" | "sru");
            if !needed && self.below(4) > 0 {
                continue;
            }
            let value = match spec.name {
                "protocol" => self.protocol(),
                "queue" => self.queue(),
                // A buffer holds a packet at least.
                "buffer" if owner == "link" => self
                    .one(&["2pkt", "20pkt", "1000pkt", "20KB", "200KB", "shared:alpha=1,size=200KB"])
                    .into(),
                _ => self.value(owner, spec),
            };
            if !value.is_empty() {
                writeln!(text, "{} = \"{value}\"", spec.name).unwrap();
            }
        }
    }
    /// A document.
    pub fn document(&mut self) -> Value {
        let scenario = scenarios::ALL[self.below(scenarios::ALL.len())];
        self.document_of(scenario)
    }
    /// A document of a scenario.
    pub fn document_of(&mut self, scenario: &Scenario) -> Value {
        let mut set = self.keys(scenario);
        let (name, value) = KINDS[self.below(KINDS.len())];
        if self.below(2) == 0 && scenario.specs().iter().any(|spec| spec.name == name) {
            set.insert(name.into(), json!(value));
        }
        let seed = self.rng.next_u64();
        let files = json!({ "trace.csv": TRACE, "ring.goal": GOAL, "pairs.cm": MATRIX });
        if scenario.name == "custom" {
            return json!({ "toml": self.custom(), "base_dir": ".", "files": files, "set": set, "seed": seed });
        }
        json!({ "scenario": scenario.name, "files": files, "set": set, "seed": seed })
    }
    /// A value that is none of a key, whatever the scenario: what it breaks is its kind or its range.
    pub fn bad_value(&mut self, spec: &ParamSpec) -> Option<String> {
        let wrong: &[&str] = match spec.kind {
            Kind::Rate => &["10", "-1Gbps", "1e400bps", "Gbps", "", "1 Gbit per s", "1s", "nanbps"],
            Kind::Duration => &["5", "-1us", "us", "1Gbps", "inf", "1e400s", "1us1us"],
            Kind::Size => &["-1B", "1.5B", "1Gbps", "B", "20pkt", "NaN"],
            Kind::Amount | Kind::Buffer => {
                &["20", "0", "1e3", "-1pkt", "1.5pkt", "pkt", "1s", "99999999999pkt"]
            }
            Kind::Count => &["1.5", "-1", "x", "1e30", "1us", "\u{0}", ""],
            Kind::Float => &["abc", "nan", "inf", "-inf", "1.0.0", "0x10"],
            Kind::Bool => &["maybe", "2", "truefalse", "\n"],
            Kind::Choice(_) => &["nonsense", "", "\u{1F600}", "a\nb"],
            Kind::Text | Kind::File | Kind::Sizes => return None,
        };
        if self.below(3) == 0 && spec.max.is_finite() && !matches!(spec.kind, Kind::Bool | Kind::Choice(_)) {
            let unit = match spec.kind {
                Kind::Rate => "bps",
                Kind::Duration => "s",
                Kind::Size | Kind::Amount | Kind::Buffer => "B",
                _ => "",
            };
            return Some(format!("{}{unit}", spec.max * 2.0 + 1.0));
        }
        Some(self.one(wrong).to_owned())
    }
    /// A text that may mean anything.
    pub fn noise(&mut self) -> String {
        const PIECES: [&str; 24] = [
            "newreno",
            "dctcp",
            "red",
            "threshold",
            "shared",
            ":",
            ",",
            "=",
            "@",
            "-",
            "->",
            "h0",
            "k",
            "1",
            "0",
            "1e308",
            "pkt",
            "us",
            "%",
            " ",
            "\n",
            "\u{fffd}",
            "[",
            "]",
        ];
        (0..1 + self.below(7)).map(|_| PIECES[self.below(PIECES.len())]).collect()
    }
}
