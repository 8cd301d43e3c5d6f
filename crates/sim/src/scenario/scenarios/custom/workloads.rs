//! Workloads of a scenario file.

use super::tables::Table;
use crate::notes::{headers_of_short_flows, Requests};
use crate::scenario::{requests_travel, Common, RunId};
use crate::summary_keys::{ARRIVALS_PER_S, OFFERED_LOAD, SIZE_MEAN_BYTES};
use crate::topology::{route_stream, Routes, Topology};
use crate::workloads::all_to_all::{self, all_to_all};
use crate::workloads::closed::{closed, Loop};
use crate::workloads::flows::{cycle, flow_list, leaving_flows};
use crate::workloads::incast::{self, incasts};
use crate::workloads::open::{check_arrivals, poisson, Rate};
use crate::workloads::query::{queries, Connections, JitterMode, Plan};
use crate::workloads::sizes::Sizes;
use crate::workloads::trace::read_trace;
use crate::workloads::{FlowRequest, Pairs, Workload};
use penstock_core::rng::Entity;
use penstock_core::tcp::TcpConfig;
use penstock_core::{Amount, ParamError, Params, Quantity, Stream};
use penstock_models::Suite;
use penstock_units::{Dur, Time};
use std::sync::Arc;

/// Most flows one table may begin.
pub(super) const MOST_FLOWS: usize = 1_000_000;
/// Messages of a collective are numbered, and a run's connections too.
pub(super) const MOST_MESSAGES: u64 = 1 << 31;
/// About how many pairs of hosts of one table are tried for a path before the run.
pub(super) const MOST_CHECKS: usize = 20_000;

/// A flow like `template`.
fn like(template: &FlowRequest, src: u32, dst: u32, bytes: u64) -> FlowRequest {
    FlowRequest { src, dst, bytes, close: bytes != u64::MAX, ..template.clone() }
}

/// Builds one workload after the other.
pub(super) struct Builder<'a> {
    pub c: &'a Common,
    pub p: &'a Params,
    pub id: RunId,
    pub topology: Topology,
    pub routes: Option<Routes>,
    /// Smallest round-trip propagation time of all pairs.
    pub base_rtt: Option<Dur>,
    /// Hosts that send or receive.
    pub used: std::collections::BTreeSet<u32>,
    /// Protocols beside the scenario's own: where each was named first, and its text.
    pub protocols: Vec<(String, String)>,
    pub facts: Vec<(&'static Quantity, f64)>,
    /// What would mislead a reader of the numbers.
    pub notes: Vec<String>,
    /// A workload uses the protocol of the scenario.
    pub own: bool,
}

impl Builder<'_> {
    pub fn workload(&mut self, table: &Table, kind: &str, i: usize) -> Result<Workload, ParamError> {
        let q = &table.params;
        let stream = (i as u64) << 32;
        let mut rng = Stream::new(self.id.seed, self.id.run, Entity::Workload, stream);
        let mut template = FlowRequest::new(0, 0, 0);
        template.class = q.count("class") as u8;
        if q.is_set("protocol") {
            template.protocol = self.protocol(table)?;
        }
        self.own |= template.protocol == 0;
        if q.declares("start") && q.dur("start") >= self.c.duration {
            self.notes.push(format!(
                "{}.start = {} is not before the end of the run ({}): nothing of it happens",
                table.path,
                q.text("start"),
                self.c.duration
            ));
        }
        if kind == "trace" {
            return self.trace(table, &template);
        }
        if matches!(kind, "collective" | "goal" | "matrix") {
            return self.schedule(table, kind, template, stream + 1);
        }
        if kind == "permutation" || kind == "all-to-all" {
            return self.among(table, kind, template, stream);
        }
        let from = table.hosts(&self.topology, "from")?;
        if kind == "incast" {
            return self.incast(table, &from, &template, rng);
        }
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
                self.late_note(table, "flows", flows.iter().map(|flow| flow.0));
                leaving_flows(flows)
            }
            "poisson" => {
                let pairs = self.pairs(table, &from, [from.clone()])?.remove(0);
                let sizes = self.sizes(table)?;
                let (key, per_second) = self.arrivals(table, &template, &sizes)?;
                let after = start.since(Time::ZERO);
                check_arrivals(per_second, self.c.duration, after, count("count"))
                    .map_err(|rule| table.error(key, rule))?;
                let rate = Rate { per_second, start, deadline, count: count("count") };
                poisson(template, pairs, sizes, rate, rng)
            }
            "closed" => {
                let pairs = self.pairs(table, &from, from.iter().map(|h| vec![*h]))?;
                let sources = from.iter().copied().zip(pairs).collect();
                let sizes = self.sizes(table)?;
                let (spread, think) = (q.dur("spread"), q.dur("think"));
                let travel = requests_travel(self.p);
                let plan = Loop { start, spread, think, deadline, count: count("count"), travel };
                closed(template, sources, sizes, plan, (self.id.seed, self.id.run, stream + 1))
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
                    let between = if mode == JitterMode::Cumulative { n as f64 / 2.0 } else { 1.0 };
                    let bytes = n as f64 * q.float("sru");
                    self.requests(table, &template, client, bytes, jitter.as_secs() * between)?;
                    let plan = Plan {
                        start: Time::ZERO,
                        repetitions: count("blocks"),
                        jitter,
                        mode,
                        gap: Dur::ZERO,
                        deadline: None,
                        connections: Connections::OnDemand,
                        travel: requests_travel(self.p),
                    };
                    let responses = (0..n).map(|i| request(q.bytes("sru").0, i)).collect();
                    return Ok(queries(responses, plan, rng));
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
                let all = bytes.iter().sum::<u64>() as f64;
                self.requests(table, &template, client, all, q.dur("jitter").as_secs())?;
                let persistent = q.text("connections") == "persistent";
                if persistent && deadline.is_some() {
                    return Err(table.error("deadline", "needs connections = \"fresh\""));
                }
                let plan = Plan {
                    start,
                    repetitions: count("repetitions"),
                    jitter: q.dur("jitter"),
                    mode: JitterMode::Independent,
                    gap: q.dur("gap"),
                    deadline,
                    connections: if persistent { Connections::Together } else { Connections::Fresh },
                    travel: requests_travel(self.p),
                };
                let responses = bytes.iter().zip(0..).map(|(b, i)| request(*b, i)).collect();
                queries(responses, plan, rng)
            }
        })
    }

    /// Flows per second of an open loop, from its rate or its load, and the key that says so.
    fn arrivals(
        &mut self,
        table: &Table,
        template: &FlowRequest,
        sizes: &Sizes,
    ) -> Result<(&'static str, f64), ParamError> {
        let q = &table.params;
        match (q.is_set("rate"), q.is_set("load")) {
            (true, true) => Err(table.error("load", "cannot be given together with rate")),
            (false, false) => Err(table.error("rate", "this or load must be given")),
            (true, false) => Ok(("rate", q.float("rate"))),
            (false, true) => {
                let mut to = table.hosts(&self.topology, "to")?;
                to.sort_unstable();
                to.dedup();
                // A lone sender sends nothing to itself: its own link takes no load.
                let from = table.hosts(&self.topology, "from")?;
                to.retain(|host| from.iter().any(|sender| sender != host));
                let capacity: f64 = to.iter().map(|host| self.rate_into(*host)).sum();
                let (mss, overhead) = self.segment(template)?;
                let wire = 8.0 * sizes.mean() * ((mss + overhead) / mss);
                let load = q.float("load");
                let per_second = load * capacity / wire;
                self.senders_note(table, per_second * wire);
                let said = format!("{}.load = {load}", table.path);
                self.notes.extend(headers_of_short_flows(&said, load, sizes, mss, overhead));
                // A summary has one such key: it belongs to the first workload with a load.
                if !self.facts.iter().any(|f| f.0.is(&OFFERED_LOAD)) {
                    self.facts.push((&ARRIVALS_PER_S, per_second));
                    self.facts.push((&OFFERED_LOAD, load));
                }
                Ok(("load", per_second))
            }
        }
    }

    /// A load is a share of the receivers' links; the senders may have less.
    fn senders_note(&mut self, table: &Table, offered: f64) {
        let Ok(mut from) = table.hosts(&self.topology, "from") else { return };
        from.sort_unstable();
        from.dedup();
        let links = self.topology.links.iter().filter(|l| from.binary_search(&l.from).is_ok());
        let share = offered / links.map(|l| l.rate.as_bps()).sum::<f64>();
        if share > 1.0 + 1e-9 {
            let load = table.params.text("load");
            self.notes.push(format!(
                "{}.load = {load} of the links into the hosts of to is {share:.3} of the links of the hosts of from: they cannot send it",
                table.path
            ));
        }
    }

    /// Rate of all links that lead to a host, bit/s.
    fn rate_into(&self, host: u32) -> f64 {
        self.topology.links_into(host).iter().map(|l| self.topology.links[*l as usize].rate.as_bps()).sum()
    }

    /// The protocol of the flows, with its connection options.
    fn part_of(&self, template: &FlowRequest) -> Result<(Suite, Arc<TcpConfig>), ParamError> {
        match template.protocol {
            0 => Ok(self.c.protocols[0].clone()),
            n => {
                let (key, text) = &self.protocols[n as usize - 1];
                Ok(self.c.part(self.p, key, text)?.1)
            }
        }
    }
    /// Its connections last for many messages where nothing else is said.
    pub(super) fn lasts(&self, template: &FlowRequest) -> Result<bool, ParamError> {
        Ok(self.part_of(template)?.0.lasts)
    }
    /// Payload of a full segment of the flows' protocol, and the bytes on the wire beside it.
    fn segment(&self, template: &FlowRequest) -> Result<(f64, f64), ParamError> {
        let (_, cfg) = self.part_of(template)?;
        Ok((f64::from(cfg.mss), f64::from(cfg.header_len() + self.c.framing)))
    }

    /// What keeps requests of `bytes` in all from colliding at their client's port.
    fn requests(
        &mut self,
        table: &Table,
        template: &FlowRequest,
        client: u32,
        bytes: f64,
        spread: f64,
    ) -> Result<(), ParamError> {
        let (mss, overhead) = self.segment(template)?;
        let block = bytes * ((mss + overhead) / mss);
        let Some(port) = self.topology.links.iter().find(|l| l.to == client) else { return Ok(()) };
        let buffer = match port.buffer {
            Some(Amount::Bytes(b)) => b as f64,
            Some(Amount::Packets(n)) => f64::from(n) * f64::from(self.c.packet()),
            None => f64::INFINITY,
        };
        let drop_tail = port.queue.discipline() == "droptail" && buffer.is_finite();
        let requests = Requests { spread, block, rate: self.rate_into(client), buffer, drop_tail };
        // Whether a block fits into the port says little here: others may use it too.
        self.notes.extend(requests.spread_note(&format!("{}.jitter", table.path)));
        Ok(())
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
        let sizes = table.within(Sizes::parse(&table.params, "sizes", &self.c.folder))?;
        // A summary has one such key: it belongs to the first workload with sizes.
        if self.facts.is_empty() {
            self.facts.push((&SIZE_MEAN_BYTES, sizes.mean()));
        }
        Ok(sizes)
    }

    /// Senders `from`, in these groups, and the destinations they have in common.
    fn pairs(
        &mut self,
        table: &Table,
        from: &[u32],
        groups: impl IntoIterator<Item = Vec<u32>>,
    ) -> Result<Vec<Pairs>, ParamError> {
        let to: Arc<[u32]> = table.hosts(&self.topology, "to")?.into();
        let pairs: Option<Vec<Pairs>> = groups.into_iter().map(|g| Pairs::new(g, to.clone())).collect();
        let Some(pairs) = pairs else {
            let own = from.iter().find(|f| to.iter().all(|t| t == *f)).unwrap_or(&from[0]);
            let name = &self.topology.nodes[*own as usize].name;
            let rule = "must have a host other than the sender: no flow leads to its own host";
            return Err(ParamError::new(format!("{}.to", table.path), name, rule));
        };
        self.check_pairs(table, from, &to)?;
        Ok(pairs)
    }

    /// All pairs of a small network, an even sample of a large one: the engine tells the rest when they occur.
    fn check_pairs(&mut self, table: &Table, from: &[u32], to: &[u32]) -> Result<(), ParamError> {
        let step = (from.len() * to.len() / MOST_CHECKS).max(1);
        self.used.extend(from.iter().chain(to));
        for i in (0..from.len() * to.len()).step_by(step) {
            let (src, dst) = (from[i / to.len()], to[i % to.len()]);
            if src != dst {
                self.check(table, src, dst)?;
            }
        }
        Ok(())
    }

    /// Both directions of a pair must have a path; its propagation time counts for the smallest round trip.
    pub fn check(&mut self, table: &Table, src: u32, dst: u32) -> Result<(), ParamError> {
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
        self.used.extend([src, dst]);
        Ok(())
    }

    /// The hosts of a table, all where none are named, each once and at least two.
    pub fn distinct(&self, table: &Table) -> Result<Vec<u32>, ParamError> {
        let named = table.nodes.contains_key("hosts");
        let hosts = if named { table.hosts(&self.topology, "hosts")? } else { self.topology.hosts() };
        let key = format!("{}.hosts", table.path);
        let mut distinct = std::collections::BTreeSet::new();
        if let Some(twice) = hosts.iter().find(|h| !distinct.insert(**h)) {
            let name = &self.topology.nodes[*twice as usize].name;
            return Err(ParamError::new(key, name, "is named twice"));
        }
        if hosts.len() < 2 {
            return Err(ParamError::new(key, format!("{} host", hosts.len()), "must be at least two hosts"));
        }
        Ok(hosts)
    }

    /// Workloads among hosts that all send and receive.
    fn among(
        &mut self,
        table: &Table,
        kind: &str,
        template: FlowRequest,
        stream: u64,
    ) -> Result<Workload, ParamError> {
        let q = &table.params;
        let hosts = self.distinct(table)?;
        let start = Time::ZERO + q.dur("start");
        if kind == "permutation" {
            let mut rng = Stream::new(self.id.seed, self.id.run, Entity::Workload, stream);
            let deadline = table.optional_dur("deadline");
            let bytes = if q.is_set("size") { q.bytes("size").0 } else { u64::MAX };
            if deadline.is_some() && bytes == u64::MAX {
                return Err(table.error("deadline", "needs a size: flows without end are never complete"));
            }
            let mut flows = Vec::with_capacity(hosts.len());
            for (src, dst) in cycle(&hosts, &mut rng) {
                self.check(table, src, dst)?;
                let at = start + rng.dur_below(q.dur("spread"));
                let due = deadline.map_or(Time::NEVER, |d| at + d);
                flows.push((at, FlowRequest { due, ..like(&template, src, dst, bytes) }));
            }
            self.late_note(table, "flows", flows.iter().map(|flow| flow.0));
            return Ok(flow_list(flows));
        }
        table.need("size")?;
        let flows = hosts.len() * (hosts.len() - 1);
        // In turn nothing is kept of a flow that is not open; a random order is a list.
        let most = if q.text("order") == "random" { MOST_FLOWS } else { MOST_MESSAGES as usize };
        if flows > most {
            let rule = format!("means {flows} flows; at most {most} are possible");
            let key = format!("{}.hosts", table.path);
            return Err(ParamError::new(key, format!("{} hosts", hosts.len()), rule));
        }
        self.check_pairs(table, &hosts, &hosts)?;
        let plan = all_to_all::Plan {
            start,
            spread: q.dur("spread"),
            window: q.count("window") as usize,
            random: q.text("order") == "random",
            repetitions: q.count("repetitions"),
            travel: requests_travel(self.p),
        };
        let template = FlowRequest { bytes: q.bytes("size").0, ..template };
        Ok(all_to_all(template, hosts, plan, (self.id.seed, self.id.run, stream + 1)))
    }

    /// Incasts as an open loop.
    fn incast(
        &mut self,
        table: &Table,
        from: &[u32],
        template: &FlowRequest,
        rng: Stream,
    ) -> Result<Workload, ParamError> {
        let q = &table.params;
        let client = table.host(&self.topology, "to")?;
        table.need("response")?;
        let mut from: Vec<u32> = from.iter().copied().filter(|h| *h != client).collect();
        from.sort_unstable();
        from.dedup();
        if from.is_empty() {
            let name = &self.topology.nodes[client as usize].name;
            let rule = "must have a host other than the sender: no flow leads to its own host";
            return Err(ParamError::new(format!("{}.to", table.path), name, rule));
        }
        for server in &from {
            self.check(table, *server, client)?;
        }
        let servers = if q.is_set("servers") { q.count("servers") as usize } else { from.len() };
        if servers > from.len() {
            let rule = format!("must be at most the {} hosts of from beside the client", from.len());
            return Err(table.error("servers", rule));
        }
        let (key, per_second, times) = match (q.is_set("every"), q.is_set("rate")) {
            (true, true) => return Err(table.error("rate", "cannot be given together with every")),
            (false, false) => return Err(table.error("every", "this or rate must be given")),
            (true, false) => ("every", 1.0 / q.float("every"), incast::Times::Every(q.dur("every"))),
            (false, true) => ("rate", q.float("rate"), incast::Times::Poisson(q.float("rate"))),
        };
        let count = if q.is_set("count") { q.count("count") } else { u64::MAX };
        let flows = per_second * servers as f64;
        check_arrivals(flows, self.c.duration, q.dur("start"), count.saturating_mul(servers as u64))
            .map_err(|rule| table.error(key, rule))?;
        let plan = incast::Plan {
            start: Time::ZERO + q.dur("start"),
            times,
            servers,
            count,
            jitter: q.dur("jitter"),
            deadline: table.optional_dur("deadline"),
        };
        let bytes = q.bytes("response").0;
        self.requests(table, template, client, bytes as f64 * servers as f64, q.dur("jitter").as_secs())?;
        let responses = from.iter().map(|h| like(template, *h, client, bytes)).collect();
        Ok(incasts(responses, plan, rng))
    }

    fn trace(&mut self, table: &Table, template: &FlowRequest) -> Result<Workload, ParamError> {
        table.need("file")?;
        let name = table.params.text("file");
        let text = self.c.folder.read(name).map_err(|rule| table.error("file", rule))?;
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
        self.late_note(table, "rows of the trace", flows.iter().map(|flow| flow.0));
        Ok(flow_list(flows))
    }

    /// Says how many of a list of flows begin too late to be in the run; where all do because of `start`, that is said already.
    fn late_note(&mut self, table: &Table, what: &str, starts: impl ExactSizeIterator<Item = Time>) {
        let (end, all) = (Time::ZERO + self.c.duration, starts.len());
        let late = starts.filter(|start| *start >= end).count();
        let said = table.params.declares("start") && table.params.dur("start") >= self.c.duration;
        if late > 0 && !said {
            self.notes.push(format!(
                "{}: {late} of {all} {what} begin at the end of the run ({}) or later and are left out; a longer duration has them",
                table.path, self.c.duration
            ));
        }
    }
}
