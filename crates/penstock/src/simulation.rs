//! What is to be simulated: built up call by call, checked as a whole by [`Simulation::run`].

use crate::choice::{At, Choice, Host, Registered, Size};
use crate::network::{delays, Network};
use crate::results::Results;
use penstock_core::params::nearest;
use penstock_core::rng::Entity;
use penstock_core::{Kind, ParamError, ParamSpec, Params, Stream};
use penstock_models::queues::Discipline;
use penstock_models::registry::{Entry, Protocol};
use penstock_models::Registry;
use penstock_sim::bottleneck::Bottleneck;
use penstock_sim::engine::Progress;
use penstock_sim::scenario::{Common, Resolved, RunId, Scenario};
use penstock_sim::scenarios::custom::CUSTOM;
use penstock_sim::setup::Setup;
use penstock_sim::topologies::Named;
use penstock_sim::topology::{NodeKind, Topology};
use penstock_sim::workloads::flows::flow_list;
use penstock_sim::workloads::{FlowRequest, Workload};
use penstock_units::{Dur, Time};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A simulation to be run: [`Simulation::on`] a network with flows of the caller's, or a [`Simulation::scenario`] by name.
///
/// Nothing is checked before [`run`](Self::run), [`runs`](Self::runs) or [`resolve`](Self::resolve), which answer with one
/// [`ParamError`] (key, value and rule) for the first thing that is wrong. It can be run as often as wanted: same seed, same bytes.
#[derive(Clone)]
pub struct Simulation<W> {
    what: W,
    set: Vec<(String, String)>,
    seed: u64,
    registry: Registry,
}

/// What a [`Simulation`] runs: [`OnNetwork`] or [`ByName`].
pub trait Wanted {
    /// Checks it, and what goes with it.
    ///
    /// # Errors
    /// A bad value.
    fn resolve(
        &self,
        registry: Arc<Registry>,
        set: &[(String, String)],
        seed: u64,
    ) -> Result<Resolved, ParamError>;
}

/// A scenario by name.
#[derive(Clone, Debug)]
pub struct ByName {
    name: String,
}

impl Wanted for ByName {
    fn resolve(
        &self,
        registry: Arc<Registry>,
        set: &[(String, String)],
        seed: u64,
    ) -> Result<Resolved, ParamError> {
        Resolved::among(registry, &self.name, set, seed, Value::Null)
    }
}

impl<W: Wanted> Simulation<W> {
    fn new(what: W) -> Simulation<W> {
        Simulation { what, set: Vec::new(), seed: 1, registry: Registry::standard() }
    }
    /// Sets a key: any of `penstock describe`, with the value written as there (`set("rto_min", "10ms")`). The last value counts.
    #[must_use]
    pub fn set(mut self, key: &str, value: impl ToString) -> Self {
        self.set.retain(|(k, _)| k != key);
        self.set.push((key.to_owned(), value.to_string()));
        self
    }
    /// Seed of all random numbers; 1 where it is not called.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }
    /// Simulated time, `"50ms"` or a [`Dur`]: the key `duration`.
    #[must_use]
    pub fn duration(self, duration: impl ToString) -> Self {
        self.set("duration", duration)
    }
    /// Statistics count from here, `"10ms"` or a [`Dur`]: the key `warmup`.
    #[must_use]
    pub fn warmup(self, warmup: impl ToString) -> Self {
        self.set("warmup", warmup)
    }
    /// Queue discipline of switches' ports, by name (`"threshold:k=65pkt"`) or a new one: the key `queue`.
    #[must_use]
    pub fn queue(self, queue: impl Into<Choice<Discipline>>) -> Self {
        let queue = queue.into();
        self.known(&queue).set("queue", queue.text)
    }
    /// Puts a protocol, queue discipline, receiver-side or host controller into the registry of this simulation; it replaces one of the
    /// same kind and name.
    #[must_use]
    pub fn with(mut self, entry: impl Into<Entry>) -> Self {
        self.registry = self.registry.with(entry);
        self
    }
    /// What there is to choose from by name, [`Registry::standard`] where it is not called. To be called before what adds to it.
    #[must_use]
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }
    fn known<T: Registered>(self, choice: &Choice<T>) -> Self {
        match choice.new {
            Some(new) => self.with(new.entry()),
            None => self,
        }
    }
    /// Checks everything, and builds the simulation once; what comes out can be asked for its parameters, and run.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn resolve(&self) -> Result<Resolved, ParamError> {
        self.what.resolve(Arc::new(self.registry.clone()), &self.set, self.seed)
    }
    /// Runs it.
    ///
    /// # Errors
    /// The first thing that is wrong; nothing has been simulated then.
    pub fn run(&self) -> Result<Results, ParamError> {
        Ok(self.runs(1)?.remove(0))
    }
    /// Runs so many replications, with other random numbers each: replication i of a seed is the same whatever the number.
    ///
    /// # Errors
    /// As [`Self::run`]; a count of 0.
    pub fn runs(&self, count: u64) -> Result<Vec<Results>, ParamError> {
        if count == 0 {
            return Err(ParamError::new("runs", count, "must be at least 1"));
        }
        let resolved = self.resolve()?;
        (0..count).map(|run| Ok(Results::new(resolved.run(run, &Progress::default())?, &resolved))).collect()
    }
}

impl Simulation<ByName> {
    /// A named scenario with its own network and workloads, all as described by `penstock describe NAME`.
    ///
    /// ```
    /// use penstock::Simulation;
    ///
    /// let results = Simulation::scenario("incast")
    ///     .transport("dctcp")
    ///     .queue("threshold:k=20pkt")
    ///     .set("servers", 8)
    ///     .set("blocks", 3)
    ///     .run()?;
    /// assert_eq!(results["blocks"], 3.0);
    /// assert_eq!(results.bottleneck(), "switch->client");
    /// # Ok::<(), penstock::ParamError>(())
    /// ```
    pub fn scenario(name: &str) -> Self {
        Simulation::new(ByName { name: name.to_owned() })
    }
    /// The scenario's transport: by name with parameters (`"dctcp:g=0.0625"`), or a new one. The key `protocol`.
    #[must_use]
    pub fn transport(self, transport: impl Into<Choice<Protocol>>) -> Self {
        let transport = transport.into();
        self.known(&transport).set("protocol", transport.text)
    }
}

/// Builds a workload for one run: from the network, and a random stream of its own.
pub type BuildWorkload = Arc<dyn Fn(&Topology, Stream) -> Workload + Send + Sync>;

/// A network, and flows and workloads on it.
#[derive(Clone)]
pub struct OnNetwork {
    network: Network,
    /// The first is the run's own protocol; `None` = what the key `protocol` says.
    transports: Vec<Option<String>>,
    /// The one of the flows that are added now.
    current: u16,
    flows: Vec<Flow>,
    workloads: Vec<BuildWorkload>,
}

#[derive(Clone)]
struct Flow {
    src: Host,
    dst: Host,
    /// `None` = without end.
    bytes: Option<Size>,
    at: At,
    transport: u16,
}

/// What stands in the list of scenarios for those that a program makes: keys and defaults.
static PROGRAM: Scenario = Scenario {
    name: "program",
    text: "flows on a network, as a program wants them",
    source: "the program",
    params: CUSTOM.params,
    defaults: &[&[
        ("duration", "1s", "chosen"),
        ("host_queue", "2pkt", "about Linux's TCP small queues: hosts do not queue whole windows"),
    ]],
    profiles: &[],
    derive: |_| {},
    build: |_, _, _| Err(ParamError::new("scenario", "program", "is built by a program, not by its name")),
};

/// Links of a network by name where nothing is said: 10 Gb/s is a common host of a rack, 1 us its cable and port (chosen).
const LINK: [(&str, &str); 2] = [("link_rate", "10Gbps"), ("link_delay", "1us")];

impl Simulation<OnNetwork> {
    /// Flows on a network: by name (`"star:8"`, `"fat-tree:4"`, `"leaf-spine:4x2x8"`) or a [`Topology`] built by hand.
    ///
    /// By default, links of a network by name have 10 Gb/s, 1 us, and drop-tail ports of 100 packets. The transport is
    /// NewReno, and the simulation takes 1 s. `penstock describe custom` shows all other defaults.
    pub fn on(network: impl Into<Network>) -> Self {
        Simulation::new(OnNetwork {
            network: network.into(),
            transports: vec![None],
            current: 0,
            flows: Vec::new(),
            workloads: Vec::new(),
        })
    }
    /// Rate and one-way delay of the links of a network by name: the keys `link_rate` and `link_delay`. Links between switches can be
    /// others: keys `fabric_rate` or `oversubscription`.
    #[must_use]
    pub fn link(self, rate: impl ToString, delay: impl ToString) -> Self {
        self.set("link_rate", rate).set("link_delay", delay)
    }
    /// What a switch's port of a network by name holds: the key `buffer`.
    #[must_use]
    pub fn buffer(self, most: impl ToString) -> Self {
        self.set("buffer", most)
    }
    /// Transport of the flows that are added after this call: by name with parameters (`"dctcp:g=0.0625"`), or a new one
    /// (`&MY_PROTOCOL`). Called again, the flows that follow have another one, in the same run.
    #[must_use]
    pub fn transport(self, transport: impl Into<Choice<Protocol>>) -> Self {
        let transport = transport.into();
        let mut it = self.known(&transport);
        let (w, text) = (&mut it.what, Some(transport.text));
        if w.flows.is_empty() && w.workloads.is_empty() && w.transports.len() == 1 {
            w.transports[0] = text;
            return it;
        }
        let known = w.transports.iter().position(|t| *t == text);
        w.current = known.unwrap_or(w.transports.len()) as u16;
        if known.is_none() {
            w.transports.push(text);
        }
        it
    }
    /// A flow of `bytes` from host to host that opens at a time, sends them and closes. A flow's number in the tables follows from its
    /// time: flows are numbered in the order in which they open, equal times in the order of these calls.
    #[must_use]
    pub fn flow(
        self,
        src: impl Into<Host>,
        dst: impl Into<Host>,
        bytes: impl Into<Size>,
        at: impl Into<At>,
    ) -> Self {
        self.add(src.into(), dst.into(), Some(bytes.into()), at.into())
    }
    /// A flow from host to host that opens at a time and sends until the end of the run.
    #[must_use]
    pub fn endless_flow(self, src: impl Into<Host>, dst: impl Into<Host>, at: impl Into<At>) -> Self {
        self.add(src.into(), dst.into(), None, at.into())
    }
    fn add(mut self, src: Host, dst: Host, bytes: Option<Size>, at: At) -> Self {
        let transport = self.what.current;
        self.what.flows.push(Flow { src, dst, bytes, at, transport });
        self
    }
    /// A workload: applications that open connections, write on them and hear what becomes of their writes ([`Workload`]). Its flows
    /// name their transport by position: 0 is the run's own, set before the first flow or workload, those set later follow.
    #[must_use]
    pub fn workload(mut self, build: impl Fn(&Topology, Stream) -> Workload + Send + Sync + 'static) -> Self {
        self.what.workloads.push(Arc::new(build));
        self
    }
}

impl Wanted for OnNetwork {
    fn resolve(
        &self,
        registry: Arc<Registry>,
        set: &[(String, String)],
        seed: u64,
    ) -> Result<Resolved, ParamError> {
        let mut given = set.to_vec();
        let of = |key: &str| set.iter().find(|(k, _)| k == key);
        let mut put = |key: &str, text: &str, by: &str| match of(key) {
            Some((_, other)) if !by.is_empty() => {
                Err(ParamError::new(key, other, format!("is given twice: {by} says {text}")))
            }
            Some(_) => Ok(()),
            None => {
                given.push((key.to_owned(), text.to_owned()));
                Ok(())
            }
        };
        if let Some(Some(text)) = self.transports.first() {
            put("protocol", text, "transport")?;
        }
        if let Network::Named(name) = &self.network {
            put("topology", name, "on")?;
            for (key, text) in LINK {
                put(key, text, "")?;
            }
        }
        let it = self.clone();
        let build = move |p: &Params, c: &Common, id: RunId| it.build(p, c, id);
        Resolved::built_by(Arc::new(build), &PROGRAM, registry, &given, seed, Value::Null)
    }
}

impl OnNetwork {
    fn build(&self, p: &Params, c: &Common, id: RunId) -> Result<Setup, ParamError> {
        let topology = match &self.network {
            Network::Named(_) => {
                let named = Named::parse("topology", p.text("topology"))?;
                named.build(&named.tiers(p, c)?)?
            }
            Network::Built(topology) => {
                check(topology, c)?;
                (**topology).clone()
            }
        };
        if self.flows.is_empty() && self.workloads.is_empty() {
            return Err(ParamError::new("flow", "", "a simulation must have at least one flow or workload"));
        }
        let hosts = topology.hosts();
        let mut requests = Vec::with_capacity(self.flows.len());
        let mut from: BTreeMap<u32, Vec<Option<Dur>>> = BTreeMap::new();
        let mut base_rtt: Option<Dur> = None;
        for (i, flow) in self.flows.iter().enumerate() {
            let key = |part: &str| format!("flow[{}].{part}", i + 1);
            let src = find(&topology, &hosts, key("src"), &flow.src)?;
            let dst = find(&topology, &hosts, key("dst"), &flow.dst)?;
            let bytes = flow.bytes.as_ref().map_or(Ok(u64::MAX), |size| bytes_of(key("bytes"), size))?;
            let at = time_of(key("at"), &flow.at)?;
            if at.since(Time::ZERO) >= c.duration {
                let rule = format!("must be before the end of the run at {}", c.duration);
                return Err(ParamError::new(key("at"), at, rule));
            }
            let name = |n: u32| topology.nodes[n as usize].name.as_str();
            if src == dst {
                return Err(ParamError::new(key("dst"), name(dst), "must be another host than src"));
            }
            let mut way = |a: u32, b: u32| {
                let known = from.entry(a).or_insert_with(|| delays(&topology, a));
                known[b as usize].ok_or_else(|| {
                    let rule = format!("no path leads from {} to {}", name(a), name(b));
                    ParamError::new(
                        format!("flow[{}]", i + 1),
                        format!("{} -> {}", name(src), name(dst)),
                        rule,
                    )
                })
            };
            let rtt = way(src, dst)? + way(dst, src)?;
            base_rtt = Some(base_rtt.map_or(rtt, |least| least.min(rtt)));
            requests
                .push((at, FlowRequest { protocol: flow.transport, ..FlowRequest::new(src, dst, bytes) }));
        }
        let bottleneck = bottleneck(p, &topology, &requests)?;
        // Without flows the pairs are unknown; twice two of the shortest links are the least round trip.
        let shortest = topology.links.iter().map(|l| l.delay).min().unwrap_or(Dur::ZERO) * 4;
        let mut workloads: Vec<Workload> = Vec::new();
        if !requests.is_empty() {
            workloads.push(flow_list(requests));
        }
        for (build, i) in self.workloads.iter().zip(1..) {
            workloads.push(build(&topology, Stream::new(id.seed, id.run, Entity::Workload, i)));
        }
        let mut setup = c.setup(topology, workloads, bottleneck, base_rtt.unwrap_or(shortest), id);
        for (i, text) in self.transports.iter().enumerate().skip(1) {
            if let Some(text) = text {
                c.add_protocol(p, &format!("transport[{}]", i + 1), text, &mut setup)?;
            }
        }
        Ok(setup)
    }
}

/// What must hold of a network that was built by hand.
fn check(t: &Topology, c: &Common) -> Result<(), ParamError> {
    let hosts = t.hosts().len();
    if hosts < 2 {
        return Err(ParamError::new("network", hosts, "must have at least two hosts"));
    }
    let mut names: Vec<&str> = t.nodes.iter().map(|n| n.name.as_str()).collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(ParamError::new("network", twice[0], "is the name of two nodes"));
    }
    for (link, l) in t.links.iter().enumerate() {
        if let Some(amount) = l.buffer {
            let error = || ParamError::new("link", t.link_name(link as u32), "");
            c.check_buffer(amount, error)
                .map_err(|e| ParamError { rule: format!("buffer {}", e.rule), ..e })?;
        }
    }
    Ok(())
}

fn find(t: &Topology, hosts: &[u32], key: String, host: &Host) -> Result<u32, ParamError> {
    match host {
        Host::Number(n) => hosts.get(*n).copied().ok_or_else(|| {
            ParamError::new(key, n, format!("the network has {} hosts, counted from 0", hosts.len()))
        }),
        Host::Name(name) => match t.find(name) {
            Some(node) if t.nodes[node as usize].kind == NodeKind::Host => Ok(node),
            Some(_) => Err(ParamError::new(key, name, "is a switch: flows lead from host to host")),
            None => {
                let names = hosts.iter().map(|h| t.nodes[*h as usize].name.as_str());
                let rule = match nearest(name, names) {
                    Some(near) => format!("the network has no such host; did you mean {near}?"),
                    None => "the network has no such host".to_owned(),
                };
                Err(ParamError::new(key, name, rule))
            }
        },
    }
}

/// A value of its own, as a parameter of this kind is written.
fn parsed(kind: Kind, key: &str, text: &str) -> Result<Params, ParamError> {
    const NAME: &str = "value";
    let specs = [ParamSpec::new(NAME, kind, "", "", "").range(0.0, 1e18)];
    Params::parse("flow", &specs, &[(NAME.to_owned(), text.to_owned())])
        .map_err(|e| ParamError { key: key.to_owned(), ..e })
}

fn bytes_of(key: String, size: &Size) -> Result<u64, ParamError> {
    let bytes = match size {
        Size::Bytes(n) => *n,
        Size::Text(text) => parsed(Kind::Size, &key, text)?.bytes("value").0,
    };
    // All numbers are valid but the largest, which means a flow without end.
    if (1..u64::MAX).contains(&bytes) {
        return Ok(bytes);
    }
    Err(ParamError::new(key, bytes, "must be at least 1 byte; endless_flow is one without end"))
}

fn time_of(key: String, at: &At) -> Result<Time, ParamError> {
    match at {
        At::Time(at) => Ok(*at),
        At::Text(text) => Ok(Time::ZERO + parsed(Kind::Duration, &key, text)?.dur("value")),
    }
}

/// The port that is reported: as the key `bottleneck` says, or the busiest. Until the run shows where that is, the port into the host
/// that most flows lead to stands for it; without flows the slowest of a switch.
fn bottleneck(p: &Params, t: &Topology, flows: &[(Time, FlowRequest)]) -> Result<Bottleneck, ParamError> {
    if p.is_set("bottleneck") {
        let link = (0..t.links.len() as u32).find(|l| t.link_name(*l) == p.text("bottleneck"));
        let rule = "must be FROM->TO with the names of two nodes that a link joins";
        return link.map(Bottleneck::Fixed).ok_or_else(|| p.error("bottleneck", rule));
    }
    let mut leading: BTreeMap<u32, usize> = BTreeMap::new();
    flows.iter().for_each(|(_, f)| *leading.entry(f.dst).or_default() += 1);
    // The first of equals.
    let most = leading.iter().rev().max_by_key(|(_, n)| **n).map(|(host, _)| *host);
    let into = |host: u32| (0..t.links.len() as u32).find(|l| t.links[*l as usize].to == host);
    let switches = (0..t.links.len() as u32).filter(|l| {
        let from = t.links[*l as usize].from;
        t.nodes[from as usize].kind == NodeKind::Switch
    });
    let slowest = || switches.min_by_key(|l| t.links[*l as usize].rate).unwrap_or(0);
    Ok(Bottleneck::Busiest { candidate: most.and_then(into).unwrap_or_else(slowest) })
}
