//! Any network and any workloads, from the tables of a scenario file.

use crate::document::plain;
use crate::engine::Setup;
use crate::scenario::{Common, RunId, Scenario};
use crate::topology::{drop_tail, route_stream, Link, NodeKind, Routes, Topology};
use crate::workloads::block::{JitterMode, SynchronizedReads};
use crate::workloads::closed::{Closed, Loop};
use crate::workloads::flows::FlowList;
use crate::workloads::open::{Poisson, Rate};
use crate::workloads::query::{Plan, Queries};
use crate::workloads::sizes::{Sizes, FILE_PARAMS};
use crate::workloads::trace::read_trace;
use crate::workloads::{FlowRequest, Pairs, Workload};
use penstock_core::rng::Entity;
use penstock_core::{Kind, ParamError, ParamSpec, Params, Stream};
use penstock_models::QueueSpec;
use penstock_units::{Dur, Time};
use serde_json::{Map, Value};

/// Custom.
pub const CUSTOM: Scenario = Scenario {
    name: "custom",
    text: "any network and workloads, from a file with hosts, switches, [[link]] and [[workload]]",
    source: "the scenario file",
    params: &[ParamSpec::new(
        "bottleneck",
        Kind::Text,
        "",
        "port that is reported and sampled, FROM->TO; unset = the slowest switch port, the first of equals",
        "",
    )],
    defaults: &[],
    build,
};

/// A table of a scenario file with its keys.
pub struct TableSpec {
    /// `link`, or `workload` and its kind.
    pub name: &'static str,
    /// What it is, in one line.
    pub text: &'static str,
    /// Keys that take the name of a node or a list of names.
    pub nodes: &'static [&'static str],
    /// Other keys.
    pub params: &'static [ParamSpec],
}

const RATE: ParamSpec = ParamSpec::new("rate", Kind::Rate, "", "rate; must be given", "").range(1e3, 1e13);
const DELAY: ParamSpec =
    ParamSpec::new("delay", Kind::Duration, "", "propagation delay; must be given", "").range(0.0, 1.0);
const KIND: ParamSpec = ParamSpec::new(
    "kind",
    Kind::Choice(&["flows", "poisson", "closed", "query", "reads", "trace"]),
    "flows",
    "kind of workload",
    "",
);
const PROTOCOL: ParamSpec =
    ParamSpec::new("protocol", Kind::Text, "", "its congestion control; unset = the scenario's", "");
const CLASS: ParamSpec = ParamSpec::new("class", Kind::Count, "0", "traffic class", "").range(0.0, 63.0);
const START: ParamSpec = ParamSpec::new("start", Kind::Duration, "0s", "begins then", "").range(0.0, 1e6);
const SPREAD: ParamSpec =
    ParamSpec::new("spread", Kind::Duration, "0s", "each flow starts U(0, this) later", "").range(0.0, 1e6);
const SIZES: ParamSpec = ParamSpec::new(
    "sizes",
    Kind::Text,
    "",
    "fixed:SIZE, uniform:MIN:MAX, exponential:MEAN, pareto:SHAPE:MEAN or cdf:FILE; must be given",
    "",
);
const COUNT: ParamSpec =
    ParamSpec::new("count", Kind::Count, "", "flows in all; unset = until the end", "").range(1.0, 1e12);
const DEADLINE: ParamSpec = ParamSpec::new(
    "deadline",
    Kind::Duration,
    "",
    "flows are due so long after they begin; unset = never",
    "",
)
.range(1e-6, 1e4);
const JITTER: ParamSpec =
    ParamSpec::new("jitter", Kind::Duration, "0s", "each server answers after U(0, this)", "")
        .range(0.0, 10.0);

/// Every table a scenario file may have.
pub const TABLES: [TableSpec; 7] = [
    TableSpec {
        name: "link",
        text: "between = [A, B]: both directions, hosts queue without limit; or from, to: one direction",
        nodes: &["between", "from", "to"],
        params: &[
            RATE,
            DELAY,
            ParamSpec::new(
                "buffer",
                Kind::Amount,
                "100pkt",
                "limit of the port: a switch's, or a host's when it is given with from and to",
                "chosen",
            )
            .range(1.0, 1e12),
            ParamSpec::new(
                "queue",
                Kind::Text,
                "",
                "discipline of the port: a switch's, or a host's when it is given with from and to; unset = the scenario's",
                "",
            ),
            ParamSpec::new("loss", Kind::Float, "0", "probability that a packet is lost", "").range(0.0, 1.0),
        ],
    },
    TableSpec {
        name: "flows",
        text: "one flow from every host of from to its partner in to (lists of equal length, or one host)",
        nodes: &["from", "to"],
        params: &[
            KIND,
            PROTOCOL,
            CLASS,
            START,
            SPREAD,
            ParamSpec::new("size", Kind::Size, "", "bytes of each flow; unset = without end", "").range(1.0, 1e15),
            ParamSpec::new("count", Kind::Count, "1", "flows of each pair", "").range(1.0, 1e5),
            ParamSpec::new("end", Kind::Duration, "", "the application leaves then; unset = it stays", "")
                .range(0.0, 1e6),
            DEADLINE,
        ],
    },
    TableSpec {
        name: "poisson",
        text: "flows begin at random times between random hosts of from and to",
        nodes: &["from", "to"],
        params: &[
            KIND,
            PROTOCOL,
            CLASS,
            START,
            ParamSpec::new("rate", Kind::Float, "", "flows per second in all; must be given", "").range(1e-6, 1e9),
            SIZES,
            FILE_PARAMS[0],
            FILE_PARAMS[1],
            COUNT,
            DEADLINE,
        ],
    },
    TableSpec {
        name: "closed",
        text: "every host of from has one flow at a time to a random host of to",
        nodes: &["from", "to"],
        params: &[
            KIND,
            PROTOCOL,
            CLASS,
            START,
            SPREAD,
            ParamSpec::new("think", Kind::Duration, "0s", "pause of a host between two flows", "").range(0.0, 1e4),
            SIZES,
            FILE_PARAMS[0],
            FILE_PARAMS[1],
            COUNT,
            DEADLINE,
        ],
    },
    TableSpec {
        name: "query",
        text: "client to asks all servers from at once, again when all have answered; alone, its end ends the run",
        nodes: &["from", "to"],
        params: &[
            KIND,
            PROTOCOL,
            CLASS,
            START,
            ParamSpec::new("response", Kind::Size, "", "bytes of each answer; this or total must be given", "")
                .range(1.0, 1e12),
            ParamSpec::new("total", Kind::Size, "", "bytes of all answers together, split evenly", "")
                .range(1.0, 1e12),
            ParamSpec::new("repetitions", Kind::Count, "", "queries in all; unset = until the end", "")
                .range(1.0, 1e12),
            ParamSpec::new(
                "connections",
                Kind::Choice(&["fresh", "persistent"]),
                "fresh",
                "a connection per answer, or one per server",
                "",
            ),
            ParamSpec::new("gap", Kind::Duration, "0s", "pause between two queries", "").range(0.0, 1e4),
            JITTER,
            DEADLINE,
        ],
    },
    TableSpec {
        name: "reads",
        text: "client to reads blocks striped over servers from on persistent connections; alone, its end ends the run",
        nodes: &["from", "to"],
        params: &[
            KIND,
            PROTOCOL,
            CLASS,
            ParamSpec::new("sru", Kind::Size, "256KB", "bytes each server sends per block", "kulkarni-agrawal-incast Table 3.1")
                .range(1.0, 1e12),
            ParamSpec::new("blocks", Kind::Count, "", "blocks in all; unset = until the end", "").range(1.0, 1e12),
            JITTER,
            ParamSpec::new(
                "jitter_mode",
                Kind::Choice(&["cumulative", "independent"]),
                "cumulative",
                "delays between consecutive requests, or of each request",
                "kulkarni-agrawal-incast section 3.2",
            ),
        ],
    },
    TableSpec {
        name: "trace",
        text: "the flows of a CSV file: start_s,src,dst,bytes and, if wanted, class,deadline_s",
        nodes: &[],
        params: &[
            KIND,
            PROTOCOL,
            CLASS,
            START,
            ParamSpec::new("file", Kind::Text, "", "the file, from the scenario file's folder; must be given", ""),
        ],
    },
];

/// Most nodes, and most directed links, of a network.
const MOST_NODES: usize = 100_000;
const MOST_LINKS: usize = 400_000;
/// Most flows one table may begin.
const MOST_FLOWS: usize = 1_000_000;
/// About how many pairs of hosts of one table are tried for a path before the run.
const MOST_CHECKS: usize = 20_000;

/// A table of the file, checked against its spec.
struct Table {
    /// `link[3]`, counted from 1.
    path: String,
    nodes: Map<String, Value>,
    params: Params,
}

impl Table {
    fn read(path: String, value: &Value, owner: &str, spec: &TableSpec) -> Result<Table, ParamError> {
        let Value::Object(map) = value else {
            return Err(ParamError::new(path, value, "must be a table"));
        };
        let is_nodes = |k: &String| spec.nodes.contains(&k.as_str());
        let nodes = map.iter().filter(|(k, _)| is_nodes(k)).map(|(k, v)| (k.clone(), v.clone())).collect();
        let given: Vec<(String, String)> =
            map.iter().filter(|(k, _)| !is_nodes(k)).map(|(k, v)| (k.clone(), plain(v))).collect();
        let params = Params::parse(owner, spec.params, &given).map_err(|e| within(&path, e))?;
        Ok(Table { path, nodes, params })
    }
    fn error(&self, key: &str, rule: impl Into<String>) -> ParamError {
        within(&self.path, self.params.error(key, rule))
    }
    fn within<T>(&self, result: Result<T, ParamError>) -> Result<T, ParamError> {
        result.map_err(|e| within(&self.path, e))
    }
    /// The parameter must have a value.
    fn need(&self, key: &str) -> Result<(), ParamError> {
        if self.params.is_set(key) {
            return Ok(());
        }
        Err(self.error(key, "must be given"))
    }
    fn optional_dur(&self, key: &str) -> Option<Dur> {
        self.params.is_set(key).then(|| self.params.dur(key))
    }
    /// The nodes a key names.
    fn nodes(&self, t: &Topology, key: &str) -> Result<Vec<u32>, ParamError> {
        match self.nodes.get(key) {
            Some(value) => find_nodes(t, &format!("{}.{key}", self.path), value),
            None => Err(ParamError::new(format!("{}.{key}", self.path), "", "must be given")),
        }
    }
    /// The hosts a key names.
    fn hosts(&self, t: &Topology, key: &str) -> Result<Vec<u32>, ParamError> {
        let nodes = self.nodes(t, key)?;
        match nodes.iter().find(|n| t.nodes[**n as usize].kind != NodeKind::Host) {
            None => Ok(nodes),
            Some(n) => {
                let name = &t.nodes[*n as usize].name;
                Err(ParamError::new(format!("{}.{key}", self.path), name, "is a switch; a host is needed"))
            }
        }
    }
    /// The one host a key names.
    fn host(&self, t: &Topology, key: &str) -> Result<u32, ParamError> {
        match self.hosts(t, key)?.as_slice() {
            [one] => Ok(*one),
            many => Err(ParamError::new(
                format!("{}.{key}", self.path),
                format!("{} hosts", many.len()),
                "must be one host",
            )),
        }
    }
}

fn within(path: &str, e: ParamError) -> ParamError {
    ParamError { key: format!("{path}.{}", e.key), ..e }
}

/// A name, or several: `h[0-3]` stands for h0, h1, h2, h3.
fn expand(key: &str, name: &str, into: &mut Vec<String>) -> Result<(), ParamError> {
    let bad = |rule: &str| Err(ParamError::new(key, name, rule));
    let Some((head, rest)) = name.split_once('[') else {
        let legal = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
        if name.is_empty() || !name.chars().all(legal) {
            return bad("must be a name of letters, digits, _ . or -, or a range of names such as h[0-3]");
        }
        into.push(name.to_owned());
        return Ok(());
    };
    let range = rest.split_once(']').and_then(|(range, tail)| {
        let (a, b) = range.split_once('-')?;
        Some((a.trim().parse::<u32>().ok()?, b.trim().parse::<u32>().ok()?, tail))
    });
    match range {
        Some((a, b, tail)) if a <= b && ((b - a) as usize) < MOST_NODES => {
            for i in a..=b {
                if into.len() >= MOST_NODES {
                    return bad("stands for more than 100000 names");
                }
                expand(key, &format!("{head}{i}{tail}"), into)?;
            }
            Ok(())
        }
        _ => bad("must have a range of numbers in brackets, such as h[0-3]"),
    }
}

/// The names a value lists: a name, or a list of names.
fn names(key: &str, value: &Value) -> Result<Vec<String>, ParamError> {
    let items = match value {
        Value::Array(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    };
    let mut found = Vec::new();
    for item in items {
        let Value::String(name) = item else {
            return Err(ParamError::new(key, item, "must be a name or a list of names"));
        };
        expand(key, name, &mut found)?;
    }
    if found.is_empty() {
        return Err(ParamError::new(key, value, "must name at least one node"));
    }
    Ok(found)
}

fn find_nodes(t: &Topology, key: &str, value: &Value) -> Result<Vec<u32>, ParamError> {
    names(key, value)?
        .into_iter()
        .map(|name| {
            t.find(&name)
                .ok_or_else(|| ParamError::new(key, &name, "is neither among hosts nor among switches"))
        })
        .collect()
}

fn list<'a>(c: &'a Common, key: &str) -> Result<&'a [Value], ParamError> {
    match c.tables.get(key) {
        None => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(other) => Err(ParamError::new(key, other, format!("must be written [[{key}]]"))),
    }
}

fn build(p: &Params, c: &Common, id: RunId) -> Result<Setup, ParamError> {
    let mut unused = Vec::new();
    let topology = network(p, c, &mut unused)?;
    let mut builder = Builder {
        c,
        p,
        id,
        topology,
        routes: None,
        base_rtt: None,
        protocols: Vec::new(),
        facts: Vec::new(),
    };
    let mut workloads = Vec::new();
    let items = list(c, "workload")?;
    if items.is_empty() {
        return Err(ParamError::new("workload", "", "the file must have at least one [[workload]]"));
    }
    for (i, item) in items.iter().enumerate() {
        let path = format!("workload[{}]", i + 1);
        let kind = item.get("kind").map_or("flows".into(), plain);
        let Some(spec) = TABLES[1..].iter().find(|s| s.name == kind) else {
            let known: Vec<&str> = TABLES[1..].iter().map(|s| s.name).collect();
            return Err(ParamError::new(
                format!("{path}.kind"),
                kind,
                format!("must be one of {}", known.join(", ")),
            ));
        };
        let table = Table::read(path, item, &format!("workload {kind}"), spec)?;
        table.params.text("kind");
        workloads.push(builder.workload(&table, &kind, i, items.len() == 1)?);
        unused.extend(table.params.without_effect().iter().map(|k| format!("{}.{k}", table.path)));
    }
    let Builder { topology, base_rtt, protocols, facts, .. } = builder;
    let bottleneck = bottleneck(p, &topology)?;
    let mut setup = c.setup(topology, workloads, bottleneck, base_rtt.unwrap_or(Dur::ZERO), id);
    setup.recorder.facts = facts;
    for (name, text) in protocols.iter() {
        let (registered, part) = Common::part(p, name, text)?;
        if part.0.router.is_some() {
            if setup.router.is_some() {
                let rule =
                    format!("{} needs the routers, and so does another protocol of the run", registered.name);
                return Err(ParamError::new(name.as_str(), text, rule));
            }
            setup.router = Some(setup.protocols.len());
        }
        setup.protocols.push(part);
        setup.protocol_names.push(text.clone());
    }
    setup.unused = unused;
    Ok(setup)
}

fn network(p: &Params, c: &Common, unused: &mut Vec<String>) -> Result<Topology, ParamError> {
    let mut t = Topology::default();
    let mut seen = std::collections::BTreeSet::new();
    for (key, kind) in [("hosts", NodeKind::Host), ("switches", NodeKind::Switch)] {
        let Some(value) = c.tables.get(key) else {
            if kind == NodeKind::Host {
                return Err(ParamError::new(key, "", "the file must list its hosts: hosts = [\"a\", \"b\"]"));
            }
            continue;
        };
        if matches!(value, Value::Array(a) if a.is_empty()) {
            continue;
        }
        for name in names(key, value)? {
            if !seen.insert(name.clone()) {
                return Err(ParamError::new(key, name, "is the name of another node already"));
            }
            t.add(name, kind);
            if t.nodes.len() > MOST_NODES {
                return Err(ParamError::new(
                    key,
                    t.nodes.len(),
                    format!("at most {MOST_NODES} nodes are possible"),
                ));
            }
        }
    }
    let links = list(c, "link")?;
    if links.is_empty() {
        return Err(ParamError::new("link", "", "the file must have at least one [[link]]"));
    }
    let mut default_queue_used = false;
    for (i, item) in links.iter().enumerate() {
        let table = Table::read(format!("link[{}]", i + 1), item, "link", &TABLES[0])?;
        table.need("rate")?;
        table.need("delay")?;
        let q = &table.params;
        let both = table.nodes.contains_key("between");
        let (from, to) = if both {
            let key = format!("{}.between", table.path);
            if let Some(k) = ["from", "to"].into_iter().find(|k| table.nodes.contains_key(*k)) {
                let value = plain(&table.nodes[k]);
                let rule = "cannot be given together with between";
                return Err(ParamError::new(format!("{}.{k}", table.path), value, rule));
            }
            match &table.nodes["between"] {
                Value::Array(ends) if ends.len() == 2 => {
                    (find_nodes(&t, &key, &ends[0])?, find_nodes(&t, &key, &ends[1])?)
                }
                other => {
                    let rule = "must be a list of two names, such as [\"a\", \"s\"]";
                    return Err(ParamError::new(key, plain(other), rule));
                }
            }
        } else if table.nodes.is_empty() {
            return Err(ParamError::new(&table.path, "", "must have between = [A, B], or from and to"));
        } else {
            (table.nodes(&t, "from")?, table.nodes(&t, "to")?)
        };
        let queue = if q.is_set("queue") {
            Some(table.within(QueueSpec::parse("queue", q.text("queue")))?)
        } else {
            None
        };
        let (mut buffer_used, mut queue_used) = (false, false);
        for a in &from {
            for b in &to {
                let name = |n: &u32| t.nodes[*n as usize].name.clone();
                if a == b {
                    return Err(ParamError::new(&table.path, name(a), "must join two different nodes"));
                }
                if t.links.len() + 2 > MOST_LINKS {
                    let rule = format!("at most {MOST_LINKS} directed links are possible");
                    return Err(ParamError::new(&table.path, t.links.len(), rule));
                }
                for (x, y) in [(*a, *b), (*b, *a)].into_iter().take(if both { 2 } else { 1 }) {
                    let switch = t.nodes[x as usize].kind == NodeKind::Switch;
                    // A host's own port is the sending computer's memory: no limit unless one is asked for.
                    let limited = switch || (!both && q.is_given("buffer"));
                    let managed = switch || (!both && q.is_given("queue"));
                    let buffer = if limited {
                        buffer_used = true;
                        let amount = q.amount("buffer");
                        c.check_buffer(amount, || table.error("buffer", String::new()))?;
                        Some(amount)
                    } else {
                        None
                    };
                    let discipline = match &queue {
                        Some(spec) if managed => {
                            queue_used = true;
                            spec.clone()
                        }
                        None if switch => {
                            default_queue_used = true;
                            c.queue.clone()
                        }
                        _ => drop_tail(),
                    };
                    t.add_link(Link {
                        from: x,
                        to: y,
                        rate: q.rate("rate"),
                        delay: q.dur("delay"),
                        buffer,
                        queue: discipline,
                        loss: q.float("loss"),
                        controlled: switch,
                    });
                }
            }
        }
        if !buffer_used {
            q.no_effect("buffer");
        }
        if !queue_used {
            q.no_effect("queue");
        }
        unused.extend(q.without_effect().iter().map(|k| format!("{}.{k}", table.path)));
    }
    if !default_queue_used {
        p.no_effect("queue");
    }
    Ok(t)
}

fn bottleneck(p: &Params, t: &Topology) -> Result<u32, ParamError> {
    if p.is_set("bottleneck") {
        let ends = p.text("bottleneck").split_once("->").map(|(a, b)| (t.find(a.trim()), t.find(b.trim())));
        let Some((Some(a), Some(b))) = ends else {
            return Err(p.error("bottleneck", "must be FROM->TO with the names of two nodes"));
        };
        return t.link_between(a, b).ok_or_else(|| p.error("bottleneck", "there is no such link"));
    }
    let from_switch = |l: &Link| t.nodes[l.from as usize].kind == NodeKind::Switch;
    let switches = (0..t.links.len() as u32).filter(|l| from_switch(&t.links[*l as usize]));
    // Without a switch the first link stands for all.
    Ok(switches.min_by_key(|l| t.links[*l as usize].rate).unwrap_or(0))
}

struct Builder<'a> {
    c: &'a Common,
    p: &'a Params,
    id: RunId,
    topology: Topology,
    routes: Option<Routes>,
    /// Smallest round-trip propagation time of all pairs.
    base_rtt: Option<Dur>,
    /// Protocols beside the scenario's own: where each was named first, and its text.
    protocols: Vec<(String, String)>,
    facts: Vec<(&'static str, f64)>,
}

impl Builder<'_> {
    fn workload(
        &mut self,
        table: &Table,
        kind: &str,
        i: usize,
        alone: bool,
    ) -> Result<Box<dyn Workload>, ParamError> {
        let q = &table.params;
        let stream = (i as u64) << 32;
        let mut rng = Stream::new(self.id.seed, self.id.run, Entity::Workload, stream);
        let mut template = FlowRequest::new(0, 0, 0);
        template.class = q.count("class") as u8;
        if q.is_set("protocol") {
            template.protocol = self.protocol(table)?;
        }
        if kind == "trace" {
            return self.trace(table, &template);
        }
        let from = table.hosts(&self.topology, "from")?;
        let deadline = if q.declares("deadline") { table.optional_dur("deadline") } else { None };
        let count = |key: &str| if q.is_set(key) { q.count(key) } else { u64::MAX };
        let start = if q.declares("start") { Time::ZERO + q.dur("start") } else { Time::ZERO };
        Ok(match kind {
            "flows" => {
                let to = table.hosts(&self.topology, "to")?;
                let n = from.len().max(to.len());
                if from.len() != to.len() && from.len() != 1 && to.len() != 1 {
                    let rule =
                        format!("must have as many hosts as from ({}), or one of them one host", from.len());
                    return Err(ParamError::new(
                        format!("{}.to", table.path),
                        format!("{} hosts", to.len()),
                        rule,
                    ));
                }
                if n * q.count("count") as usize > MOST_FLOWS {
                    return Err(table.error("count", format!("makes more than {MOST_FLOWS} flows")));
                }
                let bytes = if q.is_set("size") { q.bytes("size").0 } else { u64::MAX };
                let end = table.optional_dur("end").map_or(Time::NEVER, |d| Time::ZERO + d);
                if end <= start + q.dur("spread") {
                    return Err(table.error("end", "must be after start and spread"));
                }
                let mut flows = Vec::new();
                for k in 0..n {
                    let (src, dst) = (from[k % from.len()], to[k % to.len()]);
                    self.check(table, src, dst)?;
                    for _ in 0..q.count("count") {
                        let at = start + rng.dur_below(q.dur("spread"));
                        let due = deadline.map_or(Time::NEVER, |d| at + d);
                        let close = bytes != u64::MAX;
                        flows.push((
                            at,
                            end,
                            FlowRequest { src, dst, bytes, close, due, ..template.clone() },
                        ));
                    }
                }
                Box::new(FlowList::leaving(flows))
            }
            "poisson" => {
                table.need("rate")?;
                let pairs = self.pairs(table, &from)?;
                let sizes = self.sizes(table)?;
                let rate = Rate { per_second: q.float("rate"), start, deadline, count: count("count") };
                Box::new(Poisson::new(template, pairs, sizes, rate, rng))
            }
            "closed" => {
                let sources = from.iter().map(|h| self.pairs(table, &[*h])).collect::<Result<Vec<_>, _>>()?;
                let sizes = self.sizes(table)?;
                let (spread, think) = (q.dur("spread"), q.dur("think"));
                let plan = Loop { start, spread, think, deadline, count: count("count") };
                Box::new(Closed::new(template, sources, sizes, plan, (self.id.seed, self.id.run, stream + 1)))
            }
            _ => {
                let client = table.host(&self.topology, "to")?;
                for server in &from {
                    self.check(table, *server, client)?;
                }
                let n = from.len() as u64;
                let request = |bytes: u64, i: u64| FlowRequest {
                    src: from[i as usize],
                    dst: client,
                    bytes,
                    close: false,
                    ..template.clone()
                };
                if kind == "reads" {
                    let mode = match q.text("jitter_mode") {
                        "independent" => JitterMode::Independent,
                        _ => JitterMode::Cumulative,
                    };
                    let jitter = q.dur("jitter");
                    if jitter == Dur::ZERO {
                        q.no_effect("jitter_mode");
                    }
                    let connections = (0..n).map(|i| request(0, i)).collect();
                    let reads = SynchronizedReads::new(
                        connections,
                        q.bytes("sru").0,
                        jitter,
                        mode,
                        count("blocks"),
                        rng,
                    );
                    return Ok(Box::new(if alone { reads } else { reads.without_stop() }));
                }
                let bytes: Vec<u64> = match (q.is_set("response"), q.is_set("total")) {
                    (true, true) => {
                        return Err(table.error("total", "cannot be given together with response"))
                    }
                    (false, false) => return Err(table.error("response", "this or total must be given")),
                    (true, false) => vec![q.bytes("response").0; n as usize],
                    (false, true) => {
                        let total = q.bytes("total").0;
                        if total < n {
                            let rule = format!("must be at least one byte for each of the {n} servers");
                            return Err(table.error("total", rule));
                        }
                        (0..n).map(|i| total / n + u64::from(i < total % n)).collect()
                    }
                };
                let persistent = q.text("connections") == "persistent";
                if persistent && deadline.is_some() {
                    return Err(table.error("deadline", "needs connections = \"fresh\""));
                }
                let plan = Plan {
                    start,
                    repetitions: count("repetitions"),
                    jitter: q.dur("jitter"),
                    gap: q.dur("gap"),
                    deadline,
                    persistent,
                    stop: alone,
                };
                let responses = bytes.iter().zip(0..).map(|(b, i)| request(*b, i)).collect();
                Box::new(Queries::new(responses, plan, rng))
            }
        })
    }

    /// Position of the table's protocol in the run's list; the scenario's own comes first.
    fn protocol(&mut self, table: &Table) -> Result<u16, ParamError> {
        let text = table.params.text("protocol");
        if text == self.p.text("protocol") {
            return Ok(0);
        }
        let known = self.protocols.iter().position(|(_, t)| t == text);
        let position = match known {
            Some(i) => i,
            None => {
                self.protocols.push((format!("{}.protocol", table.path), text.to_owned()));
                self.protocols.len() - 1
            }
        };
        u16::try_from(position + 1)
            .map_err(|_| table.error("protocol", "at most 65535 protocols are possible"))
    }

    fn sizes(&mut self, table: &Table) -> Result<Sizes, ParamError> {
        table.need("sizes")?;
        let sizes = table.within(Sizes::parse(&table.params, "sizes", &self.c.base_dir))?;
        // A summary has one such key: it belongs to the first workload with sizes.
        if self.facts.is_empty() {
            self.facts.push(("size_mean_bytes", sizes.mean()));
        }
        Ok(sizes)
    }

    fn pairs(&mut self, table: &Table, from: &[u32]) -> Result<Pairs, ParamError> {
        let to = table.hosts(&self.topology, "to")?;
        let Some(pairs) = Pairs::new(from.to_vec(), to.clone()) else {
            let own = from.iter().find(|f| to.iter().all(|t| t == *f)).unwrap_or(&from[0]);
            let name = &self.topology.nodes[*own as usize].name;
            let rule = "must have a host other than the sender: no flow leads to its own host";
            return Err(ParamError::new(format!("{}.to", table.path), name, rule));
        };
        // All pairs of a small network, an even sample of a large one: the engine tells the rest when they occur.
        let step = (from.len() * to.len() / MOST_CHECKS).max(1);
        for i in (0..from.len() * to.len()).step_by(step) {
            let (src, dst) = (from[i / to.len()], to[i % to.len()]);
            if src != dst {
                self.check(table, src, dst)?;
            }
        }
        Ok(pairs)
    }

    /// Both directions of a pair must have a path; its propagation time counts for the smallest round trip.
    fn check(&mut self, table: &Table, src: u32, dst: u32) -> Result<(), ParamError> {
        let t = &self.topology;
        let routes = self.routes.get_or_insert_with(|| Routes::new(t));
        let mut rtt = Dur::ZERO;
        for (a, b) in [(src, dst), (dst, src)] {
            let path = routes
                .path(t, a, b, &mut route_stream(0, 0, 0))
                .map_err(|e| ParamError { key: table.path.clone(), ..e })?;
            for l in path {
                rtt += t.links[l as usize].delay;
            }
        }
        self.base_rtt = Some(self.base_rtt.map_or(rtt, |r| r.min(rtt)));
        Ok(())
    }

    fn trace(&mut self, table: &Table, template: &FlowRequest) -> Result<Box<dyn Workload>, ParamError> {
        table.need("file")?;
        let path = self.c.base_dir.join(table.params.text("file"));
        let text = std::fs::read_to_string(&path)
            .map_err(|e| table.error("file", format!("the file {} cannot be read: {e}", path.display())))?;
        let mut flows =
            read_trace(&text, &self.topology, template).map_err(|rule| table.error("file", rule))?;
        for (at, request) in &mut flows {
            self.check(table, request.src, request.dst)?;
            let start = table.params.dur("start");
            *at = *at + start;
            if request.due != Time::NEVER {
                request.due = request.due + start;
            }
        }
        Ok(Box::new(FlowList::new(flows)))
    }
}
