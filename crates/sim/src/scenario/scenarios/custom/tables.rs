//! The tables of a scenario file: which keys they have, and reading them.

use crate::file::plain;
use crate::scenario::Common;
use crate::topology::{NodeKind, Topology};
use crate::workloads::sizes::FILE_PARAMS;
use penstock_core::{bail_if, param, ParamError, ParamSpec, Params};
use penstock_units::Dur;
use serde_json::{Map, Value};

/// A table of a scenario file with its keys.
pub struct TableSpec {
    /// `link`, or `workload` and its kind.
    pub name: &'static str,
    /// What it is, in one line.
    pub text: &'static str,
    /// Keys that take the name of a node or a list of names.
    pub nodes: &'static [&'static str],
    /// Other keys, piece by piece.
    pub params: &'static [&'static [ParamSpec]],
}

impl TableSpec {
    /// Keys that take no names of nodes.
    pub fn params(&self) -> Vec<ParamSpec> {
        self.params.concat()
    }
}

const RATE: ParamSpec = param!("rate": Rate = "" in [1e3, 1e15], "rate; must be given", "");
const DELAY: ParamSpec = param!("delay": Duration = "" in [0.0, 1.0], "propagation delay; must be given", "");
const KIND: ParamSpec = param!("kind": Choice(&[ "flows", "poisson", "closed", "query", "reads", "trace", "permutation", "incast", "all-to-all", "collective", "goal", "matrix"]) = "flows",
    "kind of workload", "");
const PROTOCOL: ParamSpec =
    param!("protocol": Text = "", "its congestion control; unset = the scenario's", "");
const CLASS: ParamSpec = param!("class": Count = "0" in [0.0, 63.0], "traffic class", "");
const START: ParamSpec = param!("start": Duration = "0s" in [0.0, 1e6], "begins then", "");
const SPREAD: ParamSpec =
    param!("spread": Duration = "0s" in [0.0, 1e6], "each flow starts U(0, this) later", "");
const SIZES: ParamSpec = param!("sizes": Sizes = "",
    "fixed:SIZE, uniform:MIN:MAX, exponential:MEAN, pareto:SHAPE:MEAN, websearch, fb-hadoop or cdf:FILE; must be given", "");
const COUNT: ParamSpec =
    param!("count": Count = "" in [1.0, 1e12], "flows in all; unset = until the end", "");
const DEADLINE: ParamSpec =
    param!("deadline": Duration = "" in [1e-6, 1e4], "deadline of a flow, from its begin; unset = none", "");
const JITTER: ParamSpec =
    param!("jitter": Duration = "0s" in [0.0, 10.0], "each server answers after U(0, this)", "");

const FILE: ParamSpec =
    param!("file": File = "", "the file, from the scenario file's folder; must be given", "");
const CONNECTIONS: ParamSpec = param!("connections": Choice(&["fresh", "persistent"]) = "",
    "a connection per message, or one from each host to each; unset = persistent where it is a queue pair of RDMA, else fresh",
    "collective libraries set queue pairs up once");
const REPETITIONS: ParamSpec =
    param!("repetitions": Count = "1" in [1.0, 1e9], "how often; the next begins when one is complete", "");

/// Keys of every workload; of one with a begin; and of one whose flows begin one by one.
const FLOWS: &[ParamSpec] = &[KIND, PROTOCOL, CLASS];
const STARTED: &[ParamSpec] = &[KIND, PROTOCOL, CLASS, START];
const SPREAD_OUT: &[ParamSpec] = &[KIND, PROTOCOL, CLASS, START, SPREAD];

/// Every table a scenario file may have.
pub const TABLES: [TableSpec; 13] = [
    TableSpec {
        name: "link",
        text: "between = [A, B]: both directions, hosts queue without limit; or from, to: one direction",
        nodes: &["between", "from", "to"],
        params: &[&[
            RATE,
            DELAY,
            param!("buffer": Amount = "100pkt" in [1.0, 1e12],
                "limit of the port: a switch's, or a host's when it is given with from and to", "chosen"),
            param!("queue": Text = "",
                "discipline of the port: a switch's, or a host's when it is given with from and to; unset = the scenario's", ""),
            param!("loss": Float = "0" in [0.0, 1.0], "probability that a packet is lost", ""),
            param!("schedule": Text = "", "order of service of the port; unset = the scenario's", ""),
            param!("trim": Text = "", "trimming of a switch's port; unset = the scenario's", ""),
            param!("reorder": Text = "", "packets held up, share=S,delay=T; unset = the scenario's", ""),
            param!("fail": Text = "", "when it is down, T1 or T1-T2, or slower, T1-T2,rate=R", ""),
        ]],
    },
    TableSpec {
        name: "flows",
        text: "one flow from every host of from to its partner in to (lists of equal length, or one host)",
        nodes: &["from", "to"],
        params: &[SPREAD_OUT, &[
            param!("size": Size = "" in [1.0, 1e15], "bytes of each flow; unset = without end", ""),
            param!("count": Count = "1" in [1.0, 1e5], "flows of each pair", ""),
            param!("end": Duration = "" in [0.0, 1e6], "the application leaves then; unset = it stays", ""),
            DEADLINE,
        ]],
    },
    TableSpec {
        name: "poisson",
        text: "flows begin at random times between random hosts of from and to",
        nodes: &["from", "to"],
        params: &[STARTED, &[
            param!("rate": Float = "" in [1e-6, 1e9], "flows per second in all; this or load must be given", ""),
            param!("load": Float = "" in [1e-6, 10.0], "offered share of the links into the hosts of to, headers included; instead of rate", ""),
            SIZES,
        ], &FILE_PARAMS, &[COUNT, DEADLINE]],
    },
    TableSpec {
        name: "closed",
        text: "every host of from has one flow at a time to a random host of to",
        nodes: &["from", "to"],
        params: &[SPREAD_OUT, &[
            param!("think": Duration = "0s" in [0.0, 1e4], "pause of a host between two flows", ""),
            SIZES,
        ], &FILE_PARAMS, &[COUNT, DEADLINE]],
    },
    TableSpec {
        name: "query",
        text: "client to asks all servers from at once, again when all have answered; where all workloads have an end, the last one ends the run",
        nodes: &["from", "to"],
        params: &[STARTED, &[
            param!("response": Size = "" in [1.0, 1e12], "bytes of each answer; this or total must be given", ""),
            param!("total": Size = "" in [1.0, 1e12], "bytes of all answers together, split evenly", ""),
            param!("repetitions": Count = "" in [1.0, 1e12], "queries in all; unset = until the end", ""),
            param!("connections": Choice(&["fresh", "persistent"]) = "fresh", "a connection per answer, or one per server", ""),
            param!("gap": Duration = "0s" in [0.0, 1e4], "pause between two queries", ""),
            JITTER,
            DEADLINE,
        ]],
    },
    TableSpec {
        name: "reads",
        text: "client to reads blocks striped over servers from on persistent connections; where all workloads have an end, the last one ends the run",
        nodes: &["from", "to"],
        params: &[FLOWS, &[
            param!("sru": Size = "256KB" in [1.0, 1e12], "bytes each server sends per block", "kulkarni-agrawal-incast Table 3.1"),
            param!("blocks": Count = "" in [1.0, 1e12], "blocks in all; unset = until the end", ""),
            JITTER,
            param!("jitter_mode": Choice(&["cumulative", "independent"]) = "cumulative",
                "delays between consecutive requests, or of each request", "kulkarni-agrawal-incast section 3.2"),
        ]],
    },
    TableSpec {
        name: "trace",
        text: "the flows of a CSV file: start_s,src,dst,bytes and, if wanted, class,deadline_s",
        nodes: &[],
        params: &[STARTED, &[
            FILE,
        ]],
    },
    TableSpec {
        name: "permutation",
        text: "every one of hosts (unset = all) sends to one other and receives from one, in a random cyclic order",
        nodes: &["hosts"],
        params: &[SPREAD_OUT, &[
            param!("size": Size = "" in [1.0, 1e15], "bytes of each flow; unset = without end", ""),
            DEADLINE,
        ]],
    },
    TableSpec {
        name: "incast",
        text: "hosts of from send to the one host of to at the same time, repeatedly, even if earlier incasts are not complete",
        nodes: &["from", "to"],
        params: &[STARTED, &[
            param!("servers": Count = "" in [1.0, 1e5], "hosts of from that send, drawn anew each time; unset = all", ""),
            param!("response": Size = "" in [1.0, 1e12], "bytes that each server sends; must be given", ""),
            param!("every": Duration = "" in [1e-9, 1e6], "from one incast to the next; this or rate must be given", ""),
            param!("rate": Float = "" in [1e-6, 1e9], "incasts per second at random times (Poisson); instead of every", ""),
            param!("count": Count = "" in [1.0, 1e12], "incasts in all; unset = until the end", ""),
            JITTER,
            DEADLINE,
        ]],
    },
    TableSpec {
        name: "all-to-all",
        text: "every one of hosts (unset = all) sends to every other; where all workloads have an end, the last one ends the run",
        nodes: &["hosts"],
        params: &[SPREAD_OUT, &[
            param!("size": Size = "" in [1.0, 1e12], "bytes from each host to each other; must be given", ""),
            param!("window": Count = "1" in [1.0, 1e5], "flows a host has open at once", "chosen"),
            param!("order": Choice(&["shift", "random"]) = "shift",
                "host i sends to i+1, i+2, ... in turn, or each in a random order of its own",
                "the pairwise exchange of MPI libraries (Thakur et al., 2005)"),
            param!("repetitions": Count = "1" in [1.0, 1e12], "how often; the next begins when all flows are complete", ""),
        ]],
    },
    TableSpec {
        name: "collective",
        text: "hosts (unset = all) are the ranks of a collective operation; where all workloads have an end, the last one ends the run",
        nodes: &["hosts"],
        params: &[SPREAD_OUT, &[
            param!("operation": Choice(&["all-reduce", "all-gather", "reduce-scatter", "all-to-all"]) = "all-reduce", "what is done", ""),
            param!("algorithm": Choice(&["ring", "tree", "halving-doubling", "pairwise"]) = "",
                "how; unset = ring, pairwise for all-to-all", "Thakur, Rabenseifner and Gropp, IJHPCA 2005"),
            param!("size": Size = "" in [1.0, 1e13], "bytes of the buffer of a rank, the whole one; must be given", "NCCL tests"),
            param!("window": Count = "1" in [1.0, 1e5], "pairwise: messages of a rank that are not acknowledged", "chosen"),
            param!("advance": Choice(&["received", "acknowledged"]) = "received",
                "a rank goes on when it has received a message, or when the sender has the last acknowledgement", "the second: htsim's triggers"),
            CONNECTIONS,
            REPETITIONS,
        ]],
    },
    TableSpec {
        name: "goal",
        text: "a GOAL schedule, rank i at the i-th of hosts (unset = all); where all workloads have an end, the last one ends the run",
        nodes: &["hosts"],
        params: &[SPREAD_OUT, &[
            FILE,
            param!("unit": Duration = "1ns" in [1e-12, 1e3], "unit of calc", "the convention of LogGOPSim"),
            param!("overhead": Duration = "0s" in [0.0, 1.0], "time of a processor per send and receive: LogP's o", ""),
            CONNECTIONS,
            REPETITIONS,
        ]],
    },
    TableSpec {
        name: "matrix",
        text: "a connection matrix of htsim with its triggers; its host i is the i-th of hosts (unset = all); where all workloads have an end, the last one ends the run",
        nodes: &["hosts"],
        params: &[SPREAD_OUT, &[
            FILE,
            param!("unit": Duration = "1ps" in [1e-12, 1.0], "unit of start times", "csg-htsim; in uet-htsim they are microseconds"),
            CONNECTIONS,
            REPETITIONS,
        ]],
    },
];

/// Most nodes a network may have.
pub(super) const MOST_NODES: usize = 100_000;

/// A table of the file, checked against its spec.
pub(super) struct Table {
    /// `link[3]`, counted from 1.
    pub path: String,
    pub nodes: Map<String, Value>,
    pub params: Params,
}

impl Table {
    pub fn read(path: String, value: &Value, owner: &str, spec: &TableSpec) -> Result<Table, ParamError> {
        let Value::Object(map) = value else {
            return Err(ParamError::new(path, value, "must be a table"));
        };
        let is_nodes = |k: &String| spec.nodes.contains(&k.as_str());
        let nodes = map.iter().filter(|(k, _)| is_nodes(k)).map(|(k, v)| (k.clone(), v.clone())).collect();
        let given: Vec<(String, String)> =
            map.iter().filter(|(k, _)| !is_nodes(k)).map(|(k, v)| (k.clone(), plain(v))).collect();
        let params = Params::parse(owner, &spec.params(), &given).map_err(|e| within(&path, e))?;
        Ok(Table { path, nodes, params })
    }
    pub fn error(&self, key: &str, rule: impl Into<String>) -> ParamError {
        within(&self.path, self.params.error(key, rule))
    }
    pub fn within<T>(&self, result: Result<T, ParamError>) -> Result<T, ParamError> {
        result.map_err(|e| within(&self.path, e))
    }
    /// The parameter must have a value.
    pub fn need(&self, key: &str) -> Result<(), ParamError> {
        if self.params.is_set(key) {
            return Ok(());
        }
        Err(self.error(key, "must be given"))
    }
    pub fn optional_dur(&self, key: &str) -> Option<Dur> {
        self.params.is_set(key).then(|| self.params.dur(key))
    }
    /// The nodes a key names.
    pub fn nodes(&self, t: &Topology, key: &str) -> Result<Vec<u32>, ParamError> {
        match self.nodes.get(key) {
            Some(value) => find_nodes(t, &format!("{}.{key}", self.path), value),
            None => Err(ParamError::new(format!("{}.{key}", self.path), "", "must be given")),
        }
    }
    /// The hosts a key names; `all` are all of them, unless a node is called so.
    pub fn hosts(&self, t: &Topology, key: &str) -> Result<Vec<u32>, ParamError> {
        if self.nodes.get(key).is_some_and(|v| v == "all") && t.find("all").is_none() {
            return Ok(t.hosts());
        }
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
    pub fn host(&self, t: &Topology, key: &str) -> Result<u32, ParamError> {
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

pub(super) fn within(path: &str, e: ParamError) -> ParamError {
    ParamError { key: format!("{path}.{}", e.key), ..e }
}

/// A name, or several: `h[0-3]` stands for h0, h1, h2, h3, and `h[0-9:4]` for h0, h4, h8.
pub(super) fn expand(key: &str, name: &str, into: &mut Vec<String>) -> Result<(), ParamError> {
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
        let (b, step) = b.split_once(':').unwrap_or((b, "1"));
        let number = |text: &str| text.trim().parse::<u32>().ok();
        Some((number(a)?, number(b)?, number(step)?, tail))
    });
    match range {
        Some((a, b, step, tail)) if a <= b && ((b - a) as usize) < MOST_NODES && step > 0 => {
            for i in (a..=b).step_by(step as usize) {
                if into.len() >= MOST_NODES {
                    return bad("stands for more than 100000 names");
                }
                expand(key, &format!("{head}{i}{tail}"), into)?;
            }
            Ok(())
        }
        _ => bad("must have a range of numbers in brackets, such as h[0-3], or h[0-1023:8] for every eighth"),
    }
}

/// The names a value lists: a name, or a list of names.
pub(super) fn names(key: &str, value: &Value) -> Result<Vec<String>, ParamError> {
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
    bail_if!(found.is_empty(), ParamError::new(key, value, "must name at least one node"));
    Ok(found)
}

pub(super) fn find_nodes(t: &Topology, key: &str, value: &Value) -> Result<Vec<u32>, ParamError> {
    names(key, value)?
        .into_iter()
        .map(|name| {
            t.find(&name).ok_or_else(|| {
                ParamError::new(
                    key,
                    &name,
                    format!("is neither among hosts nor among switches{}", numbered(t)),
                )
            })
        })
        .collect()
}

/// What hosts there are, where they are h0, h1 and so on.
fn numbered(t: &Topology) -> String {
    let last = t.nodes.iter().filter(|n| n.kind == NodeKind::Host).count().saturating_sub(1);
    let both = t.find("h0").is_some() && t.find(&format!("h{last}")).is_some();
    if both {
        format!("; hosts are h0 to h{last}")
    } else {
        String::new()
    }
}

/// The tables `[[key]]` of the file.
pub(super) fn list<'a>(c: &'a Common, key: &str) -> Result<&'a [Value], ParamError> {
    match c.tables.get(key) {
        None => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(other) => Err(ParamError::new(key, other, format!("must be written [[{key}]]"))),
    }
}
