//! A scenario with its values: checked, built, run.

use super::{Common, Scenario};
use crate::cores::{self, Cores, Divided, Threads, Work};
use crate::engine::{Engine, Progress};
use crate::fabric_options::{changes, check_clock, check_ports, check_required, meet_needs};
#[cfg(debug_assertions)]
use crate::invariants;
use crate::metrics::Memory;
use crate::notes::contradictions;
use crate::results::{summarise, Summary};
use crate::scenarios::find;
use crate::setup::{NicMode, RunId, Setup, TooLong};
use crate::topology::{drop_tail, Link};
use crate::warnings::warnings;
use penstock_core::tcp::{Personality, TcpConfig};
use penstock_core::{Kind, ParamError, ParamSpec, Params, Quantity};
use penstock_fabric::Spread;
use penstock_host::Order;
use penstock_models::{Registry, Suite};
use penstock_units::Dur;
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError};

/// A scenario with its parameters, checked.
pub struct Resolved {
    /// The scenario.
    pub scenario: &'static Scenario,
    /// Its parameters.
    pub params: Params,
    /// Base seed.
    pub seed: u64,
    /// Tables of a scenario file (network and workloads), null when there are none.
    pub file: Value,
    /// Facts the build found: mean flow size, offered load and the like, keys of the summary.
    pub facts: Vec<(&'static Quantity, f64)>,
    /// Values that follow from others where a key is unset, as text by key.
    pub derived: Vec<(&'static str, String)>,
    /// Keys that were given but have no effect in this run.
    pub without_effect: Vec<String>,
    /// What is known before the run and would mislead a reader of its numbers.
    pub notes: Vec<String>,
    registry: Arc<Registry>,
    build: Build,
    /// Run 0 as it was built to be checked. The first caller gets it, so that a network of thousands of hosts is not built twice.
    first: Mutex<Option<Setup>>,
}

/// Builds one run of a scenario.
pub type Build = Arc<dyn Fn(&Params, &Common, RunId) -> Result<Setup, ParamError> + Send + Sync>;

/// What a finished (or interrupted) run leaves.
pub struct Outcome {
    /// The engine with its tables.
    pub engine: Engine,
    /// Summary.
    pub summary: Summary,
    /// False when it was cancelled.
    pub completed: bool,
    /// Name of the reported port.
    pub bottleneck: String,
    /// What to know before trusting the numbers, a line each.
    pub warnings: Vec<String>,
}

impl Resolved {
    /// Checks `given` against scenario `name`, and builds run 0 once to find what only building can. Protocols, queues and controllers
    /// are the standard ones.
    ///
    /// # Errors
    /// An unknown scenario or key, or a bad value.
    pub fn new(
        name: &str,
        given: &[(String, String)],
        seed: u64,
        file: Value,
    ) -> Result<Resolved, ParamError> {
        Resolved::among(Arc::new(Registry::standard()), name, given, seed, file)
    }
    /// Resolves a scenario with the protocols, queues and controllers of `registry`.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn among(
        registry: Arc<Registry>,
        name: &str,
        given: &[(String, String)],
        seed: u64,
        file: Value,
    ) -> Result<Resolved, ParamError> {
        let scenario = find(name)?;
        Resolved::built_by(Arc::new(scenario.build), scenario, registry, given, seed, file)
    }
    /// A scenario that is in no list, or one that is and is built otherwise: `build` takes the place of the scenario's own.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn built_by(
        build: Build,
        scenario: &'static Scenario,
        registry: Arc<Registry>,
        given: &[(String, String)],
        seed: u64,
        file: Value,
    ) -> Result<Resolved, ParamError> {
        let name = scenario.name;
        let profile = given.iter().find(|(key, _)| key == "profile").map_or("", |(_, text)| text.trim());
        let specs = scenario.specs_of(profile);
        let mut params = Params::parse(&format!("scenario {name}"), &specs, given)
            .map_err(|e| whose(e, name, &specs, &registry, given))?;
        scenario.check_profile(&params)?;
        // What a default is derived from counts as read only when the run itself looks at it.
        let read = params.clone();
        (scenario.derive)(&mut params);
        params.read_as(&read);
        let tables = file.get("tables").and_then(Value::as_object);
        if let Some(key) = tables.and_then(|t| t.keys().next()).filter(|_| scenario.name != "custom") {
            let rule =
                format!("scenario {name} has its own network and workloads; scenario custom takes them");
            return Err(ParamError::new(key, "", rule));
        }
        let mut resolved = Resolved {
            scenario,
            params,
            seed,
            file,
            facts: Vec::new(),
            without_effect: Vec::new(),
            derived: Vec::new(),
            notes: Vec::new(),
            registry,
            build,
            first: Mutex::default(),
        };
        let setup = resolved.setup(0)?;
        setup.check()?;
        // What ports and shared buffers refuse is refused now, not by the run; of networks whose ports take long to make by the run.
        if setup.topology.links.len() <= FEW_PORTS {
            setup.fabric()?;
        }
        resolved.facts.clone_from(&setup.recorder.facts);
        resolved.derived.clone_from(&setup.derived);
        resolved.notes.clone_from(&setup.notes);
        let p = &resolved.params;
        resolved.without_effect = p.without_effect().iter().map(|k| (*k).to_owned()).collect();
        resolved.without_effect.extend(setup.unused.iter().cloned());
        resolved.without_effect.extend(resolved.registry.unread("protocol", p.text("protocol")));
        resolved.first = Mutex::new(Some(setup));
        Ok(resolved)
    }
    /// Builds replication `run` without running it.
    ///
    /// # Errors
    /// A bad value that only building can find.
    pub fn setup(&self, run: u64) -> Result<Setup, ParamError> {
        // Whichever run it is: the memory is needed for that one.
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(setup) = first.filter(|setup| (setup.seed, setup.run) == (self.seed, run)) {
            return Ok(setup);
        }
        let common = Common::parse(&self.params, &self.file, &self.registry)?;
        let mut setup = (self.build)(&self.params, &common, RunId { seed: self.seed, run })?;
        setup.changes = changes(&setup.topology, &setup.fabric.fail)?;
        self.choose_nic(&mut setup)?;
        setup.draw_missed_ticks();
        if setup.own_stack().is_some() {
            // A scenario's default discipline is one for the protocol that is its default.
            if setup.needs().next().is_some() && !self.params.is_given("queue") {
                let same = |l: &&mut Link| l.queue.name() == common.queue.name();
                setup.topology.links.iter_mut().filter(same).for_each(|l| l.queue = drop_tail());
            }
        }
        setup.check_hosts()?;
        meet_needs(&mut setup, |key| self.params.is_given(key))?;
        check_clock(&setup)?;
        check_required(&setup)?;
        if setup.fabric.spread != Spread::Drawn {
            setup.forwarding()?;
        }
        // What ports cannot be for several protocols, or memory not hold, is found by building them.
        if setup.fabric.pooled() || !setup.pools.is_empty() || setup.needs().nth(1).is_some() {
            setup.fabric()?;
        } else {
            check_ports(&setup)?;
        }
        setup.notes.extend(contradictions(&self.params, common.queue.name(), &setup));
        setup.notes.extend(self.unread_by_applications(&setup));
        setup.notes.extend(self.without_ticks(&setup));
        setup.derived.extend(self.params.derived().map(|(key, value, why)| (key, format!("{value}: {why}"))));
        match setup.too_long() {
            None => Ok(setup),
            Some(found) => Err(self.too_long(&setup, &found)),
        }
    }
    /// The network cards of the run, as `nic` and `nic_order` say and its transports can.
    fn choose_nic(&self, setup: &mut Setup) -> Result<(), ParamError> {
        let p = &self.params;
        let asked = if p.is_set("nic") { p.text("nic") } else { "" };
        let own = setup.own_stack().map(|i| setup.protocol_names[i].clone());
        setup.nic = match (asked, &own) {
            ("endless", Some(name)) => {
                let rule = format!("must be pull, or unset: protocol {name} is asked for a packet when the link can take one");
                return Err(p.error("nic", rule));
            }
            ("endless", None) => NicMode::Endless,
            ("", None) => setup.nic,
            // A scenario's own way of pulling.
            ("", Some(_)) if setup.nic != NicMode::Endless => setup.nic,
            _ if p.text("nic_order") == "strict" => NicMode::Pull(Order::Strict),
            _ => NicMode::Pull(Order::RoundRobin),
        };
        if setup.nic == NicMode::Endless {
            return Ok(());
        }
        if p.is_given("host_queue") && setup.host_queue.is_some() {
            return Err(p.error(
                "host_queue",
                "must be unset where network cards pull: nothing stands in a host's port",
            ));
        }
        setup.host_queue = None;
        let orders = |i: &usize| setup.protocols[*i].0.own_order;
        if let Some(i) = (0..setup.protocols.len()).find(orders).filter(|_| p.is_given("nic_order")) {
            let name = &setup.protocol_names[i];
            setup.notes.push(format!(
                "nic_order has no effect on protocol {name}: it chooses among its connections itself"
            ));
        }
        Ok(())
    }
    /// Keys of applications that no receiver leaves anything to.
    fn unread_by_applications(&self, setup: &Setup) -> Option<String> {
        let waits = |(suite, config): &(Suite, Arc<TcpConfig>)| {
            let linux = config.personality == Personality::Linux && config.delayed_ack > 1;
            suite.stack.is_none() && linux && config.read_rate.is_none()
        };
        let given =
            ["application_lag", "application_turn"].into_iter().find(|key| self.params.is_given(key))?;
        (setup.applications_take_time() && !setup.protocols.iter().any(waits)).then(|| {
            format!("{given} has no effect: only receivers of the Linux sender (tcp=linux) leave ACKs to their applications")
        })
    }
    /// Keys of ticks that no timer waits for.
    fn without_ticks(&self, setup: &Setup) -> Option<String> {
        let given = ["missed_ticks_write", "missed_ticks_arrival"]
            .into_iter()
            .find(|key| self.params.is_given(key))?;
        let ticks = |(suite, config): &(Suite, Arc<TcpConfig>)| {
            suite.stack.is_none()
                && config.personality == Personality::Linux
                && config.rto_granularity > Dur::ZERO
        };
        (setup.misses_ticks() && !setup.protocols.iter().any(ticks)).then(|| {
            format!("{given} has no effect: only timers of the Linux sender (tcp=linux) with a clock that ticks (rto_granularity) go off on ticks")
        })
    }
    /// The error of a link that is too slow or too long, under the key that set its rate or its delay.
    fn too_long(&self, setup: &Setup, found: &TooLong) -> ParamError {
        let p = &self.params;
        let link = &setup.topology.links[found.link as usize];
        let slow = found.transmission > found.delay;
        let sets = |spec: &ParamSpec| match spec.kind {
            Kind::Rate if slow => p.is_set(spec.name) && p.rate(spec.name) == link.rate,
            Kind::Duration if !slow => p.is_set(spec.name) && p.dur(spec.name) == link.delay,
            _ => false,
        };
        match self.scenario.params.iter().find(|spec| sets(spec)) {
            Some(spec) => found.error(spec.name, p.text(spec.name)),
            None => found.error("link", &setup.topology.link_name(found.link)),
        }
    }
    /// Runs replication `run`.
    ///
    /// # Errors
    /// A workload that asks for an impossible flow.
    pub fn run(&self, run: u64, progress: &Progress) -> Result<Outcome, ParamError> {
        let mut engine = Engine::new(self.setup(run)?)?;
        let completed = engine.run(progress)?;
        Ok(Outcome::of(engine, completed))
    }
    /// Runs with no more than `memory` for the recorded tables. The rest goes to disk, however many rows there are.
    ///
    /// # Errors
    /// As [`Self::run`].
    ///
    /// # Panics
    /// When the disk does not take it.
    pub fn run_within(&self, run: u64, memory: Memory, progress: &Progress) -> Result<Outcome, ParamError> {
        let mut setup = self.setup(run)?;
        setup.recorder.bound(memory);
        let mut engine = Engine::new(setup)?;
        let completed = engine.run(progress)?;
        Ok(Outcome::of(engine, completed))
    }
    /// The same on several cores: the outcome is the same to the byte for any number of them. Says how many it were.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_on(
        &self,
        run: u64,
        threads: &Threads,
        progress: &Progress,
    ) -> Result<(Outcome, Cores), ParamError> {
        Resolved::run_setup(&|| self.setup(run), threads, progress)
    }
    /// Runs what `build` builds, which must be the same every time.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_setup(
        build: &(dyn Fn() -> Result<Setup, ParamError> + Sync),
        threads: &Threads,
        progress: &Progress,
    ) -> Result<(Outcome, Cores), ParamError> {
        let made = cores::run(None, build, threads, progress)?;
        let (made, note) = match made {
            // What stands in the way of several threads need not stand in the way of windows on one.
            Divided::Not(reason, setup) if threads.most > 1 => {
                let note = format!("the run is made on one thread: {reason}");
                progress.say(&note);
                let one = Threads { most: 1, ..*threads };
                let made = cores::run(setup, build, &one, progress)?;
                (made, Some(note))
            }
            made => (made, None),
        };
        match made {
            Divided::Done(engine, completed, cores) => {
                let cores = Cores { note: note.or(cores.note), ..cores };
                Ok((Outcome::of(*engine, completed), cores))
            }
            Divided::Not(_, setup) => {
                let mut engine = Engine::new(setup.map_or_else(build, |setup| Ok(*setup))?)?;
                let completed = engine.run(progress)?;
                let cores = Cores { threads: 1, note, work: Work::default() };
                Ok((Outcome::of(engine, completed), cores))
            }
        }
    }
}

impl Outcome {
    /// What an engine has measured whose run is over.
    pub fn of(engine: Engine, completed: bool) -> Outcome {
        let measured = engine.measured();
        let summary = summarise(&measured);
        #[cfg(debug_assertions)]
        if let Err(what) = invariants::check(&measured, &summary) {
            panic!("a number of the run is out of range: {what}");
        }
        let (bottleneck, warnings) = (measured.bottleneck_name(), warnings(&measured));
        Outcome { engine, summary, completed, bottleneck, warnings }
    }
}

/// The ports of a network with so few are made in milliseconds.
const FEW_PORTS: usize = 4096;

/// An unknown key that the chosen protocol or queue takes belongs there: the message says so.
fn whose(
    mut e: ParamError,
    scenario: &str,
    specs: &[ParamSpec],
    registry: &Registry,
    given: &[(String, String)],
) -> ParamError {
    if specs.iter().any(|s| s.name == e.key) {
        return e;
    }
    let chosen = |key: &str| {
        let text = given.iter().find(|(k, _)| k == key).map(|(_, text)| text.as_str());
        let text = text.or_else(|| specs.iter().find(|s| s.name == key).map(|s| s.default)).unwrap_or("");
        text.trim().to_owned()
    };
    let (protocol, queue) = (chosen("protocol"), chosen("queue"));
    let name_of = |text: &str| text.split(':').next().unwrap_or("").to_owned();
    let (of_protocol, of_queue) = (name_of(&protocol), name_of(&queue));
    let takes = |specs: &[ParamSpec]| specs.iter().any(|s| s.name == e.key);
    let by_protocol = registry.protocols().iter().any(|p| p.name == of_protocol && takes(p.params));
    let by_queue = registry.queues().iter().any(|q| q.name == of_queue && takes(q.params));
    let (kind, name, text) = match (by_protocol, by_queue) {
        (true, _) => ("protocol", of_protocol, protocol),
        (_, true) => ("queue", of_queue, queue),
        _ => return e,
    };
    let join = if text.contains(':') { "," } else { ":" };
    e.rule = format!(
        "unknown key of scenario {scenario}; {kind} {name} takes it: {kind}={text}{join}{}={}",
        e.key, e.value
    );
    e
}
