//! An approximation of a run: every link is simulated by itself with its own traffic. The completion time of a flow is put together from what its links
//! added (Zhao, Goyal, Alizadeh, Anderson: Scalable Tail Latency Estimation for Data Center Networks, NSDI 2023: Parsimon).
//!
//! 1. `traffic`: the flows of the scenario with the exact paths of the exact run, and which links they cross.
//! 2. `kinds`: a link and the one back are a cable. Cables that do the same for the network are of one kind.
//! 3. `fluid`: how crowded every link is for every flow, if flows shared it equally as a fluid.
//! 4. `windows`: a sample of windows of time, for each kind of cables. Crowded windows are chosen with higher probability, and each has the number of
//!    windows that it stands for. A flow that is there before or after its window sends in it what it would send as a fluid.
//! 5. `link`: the windows are simulated one after another in one network. Senders are in front of the cable and receivers behind it, on links of their
//!    own, at the round-trip times that they have in the network. Where senders are held up before the cable, the simulation is repeated without it.
//!    The delay of a flow over its time alone (`alone`) in the first simulation, less that in the second, is what the cable does to it.
//!    ACKs and the answer to its SYN are included.
//! 6. `join`: a flow takes as long as alone on its path, plus a delay for each of its links. The delay is its own where it was simulated there.
//!    Otherwise it is what the flow waits there as a fluid, plus a difference drawn from flows of about its size that met a link as crowded.
//!    Each of these is drawn as often as its window stands for others. Links are taken for independent.
//!
//! Differences from the paper:
//!
//! - Windows of time are sampled with known probabilities, which the fluid gives. The paper simulates one link for each cluster of links whose
//!   distributions are alike.
//! - Both directions of a cable are simulated together, so that ACKs wait as data does. The paper takes a share from the rate.
//! - The links of the end hosts are the real ones, and their delay is taken away again. The paper has fast links behind the link.
//! - Differences are drawn from flows that met a link as crowded, not from all of a bucket of sizes. Their unit is not packets alone
//!   (`Traffic::unit`).
//! - A flow that was simulated keeps its own delay, and the time of a flow alone is measured, not computed.
//! - Links are simulated by this engine, packet by packet, with the protocol of the scenario.
//!
//! One error is by construction: if a link of the fabric slows a flow down elsewhere, its queues are too long (docs/background/approximate.md).

mod alone;
mod fluid;
mod join;
mod kinds;
mod link;
mod traffic;
mod windows;

use crate::engine::Progress;
use crate::fingerprint::fingerprint_of;
use crate::measured::{Measured, Possible};
use crate::metrics::{FlowRecord, Recorder, TransferRecord};
use crate::quantiles::quantiles;
use crate::scenario::Resolved;
use crate::setup::Setup;
use crate::summary_keys::{self as key, Summary};
use crate::tables::{table, Table};
use fluid::Crowds;
use kinds::Kinds;
use penstock_core::params::parse_spec;
use penstock_core::rng::Entity;
use penstock_core::{bail_if, param, ParamError, ParamSpec, Params, Stream};
use penstock_units::{Dur, Time};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use traffic::Traffic;
pub use traffic::KEY;
use windows::Window;

/// Options of `links`.
const OPTIONS: [ParamSpec; 1] = [param!("flows": Count = "1000" in [0.0, 1e12],
    "about so many flows are simulated on the kind of links whose delays differ most, and fewer on others, all where that is no less; 0 = every link \
     is simulated for the whole time",
    "chosen: ten in the last hundredth")];

/// Windows that are simulated in one network, one after another: so many of these can be on several cores.
const TOGETHER: usize = 64;

/// How links are chosen that are simulated.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Flows per kind of link; `None` = every link is simulated.
    flows: Option<u64>,
}

impl Plan {
    /// `links` or `links:flows=N`.
    ///
    /// # Errors
    /// Anything else.
    pub fn parse(text: &str) -> Result<Plan, ParamError> {
        let (name, given) = parse_spec(KEY, text)?;
        bail_if!(name != "links", ParamError::new(KEY, text, "must be links or links:flows=N"));
        let inner = |e: ParamError| ParamError { key: format!("{KEY}:{}", e.key), ..e };
        let p = Params::parse("approximate links", &OPTIONS, &given).map_err(inner)?;
        Ok(Plan { flows: Some(p.count("flows")).filter(|n| *n > 0) })
    }
}

/// What an approximation leaves.
pub struct Approximation {
    /// Estimates of what the exact run would measure of flows; nothing of queues.
    pub summary: Summary,
    /// What to know before trusting the numbers, a line each; the first says that they are approximate.
    pub warnings: Vec<String>,
    /// False when it was cancelled; then there are no flows.
    pub completed: bool,
    /// Links with traffic, and how many of them were simulated.
    pub links: (usize, usize),
    /// Packets delivered over one link, in all simulations of links.
    pub packet_hops: u64,
    setup: Setup,
    recorder: Recorder,
}

/// Tables that an approximation has.
pub const TABLES: [&str; 2] = ["flows", "transfers"];

impl Approximation {
    /// One of [`TABLES`]. Of a flow it knows when it began and ended; what else an exact run counts is zero.
    pub fn table(&self, name: &str) -> Table {
        table(&self.measured(), name)
    }
    /// SHA-256 of summary and tables.
    pub fn fingerprint(&self) -> String {
        fingerprint_of(&self.measured(), &self.summary, &TABLES)
    }
    fn measured(&self) -> Measured<'_> {
        Measured {
            topology: &self.setup.topology,
            protocol_names: &self.setup.protocol_names,
            ports: &[],
            bottleneck: 0,
            candidate: 0,
            recorder: &self.recorder,
            packet_hops: self.packet_hops,
            no_way: 0,
            returned: 0,
            protocols: &self.setup.protocols,
            notes: &self.setup.notes,
            idle: &self.setup.idle,
            stopped: false,
            stuck: None,
            fabric: Possible::default(),
            deadlock: None,
        }
    }
}

/// What links cannot be taken apart for.
///
/// # Errors
/// The first thing that makes links depend on each other.
fn possible(setup: &Setup, plan: &str) -> Result<(), ParamError> {
    let refuse = |rule: &str| Err(ParamError::new(KEY, plan, rule));
    let f = &setup.fabric;
    if let Some(i) = (0..setup.protocols.len())
        .find(|i| setup.protocols[*i].0.stack.is_some() || setup.congestion_header(*i) > 0)
    {
        let name = &setup.protocol_names[i];
        return refuse(&format!(
            "works for TCP that routers tell nothing but marks, and {name} is another transport"
        ));
    }
    if setup.router.is_some() || setup.receive.is_some() || !setup.collectives.is_empty() {
        return refuse(
            "works for TCP whose connections act by themselves: no router, receiver or host controls them",
        );
    }
    if f.shared.is_some() || f.pfc.is_some() || f.trim.is_some() || !setup.pools.is_empty() {
        return refuse(
            "works where every port has a buffer of its own: without shared buffers, pfc and trim",
        );
    }
    if !setup.changes.is_empty() {
        return refuse("works where links neither fail nor change");
    }
    if !f.spread.is_digits() {
        return refuse("works where a flow has one path: spread=drawn or ideal");
    }
    if setup.processing > Dur::ZERO {
        return refuse("works where hosts take no time for a packet: processing_delay=0s");
    }
    if setup.noise_of_one_machine() {
        return refuse(
            "works where hosts are not late together: receive_lag, data_handover, ack_handover, timer_lag, receiver_turn, dupack_turn, sender_turn, application_lag, application_turn, write_lag, write_time and write_turn none",
        );
    }
    Ok(())
}

fn begin(resolved: &Resolved, run: u64, text: &str) -> Result<(Plan, Setup, Traffic), ParamError> {
    let plan = Plan::parse(text)?;
    let mut setup = resolved.setup(run)?;
    setup.check()?;
    possible(&setup, text)?;
    let traffic = Traffic::of(&mut setup, text)?;
    Ok((plan, setup, traffic))
}

/// What [`run`] would find wrong.
///
/// # Errors
/// As [`run`].
pub fn check(resolved: &Resolved, text: &str) -> Result<(), ParamError> {
    begin(resolved, 0, text).map(|_| ())
}

/// Estimates replication `run`, on so many threads; the result does not depend on their number.
///
/// # Errors
/// A scenario whose links cannot be taken apart.
pub fn run(
    resolved: &Resolved,
    run: u64,
    text: &str,
    threads: usize,
    progress: &Progress,
) -> Result<Approximation, ParamError> {
    let (plan, setup, traffic) = begin(resolved, run, text)?;
    let kinds = kinds::sort(&setup, &traffic);
    let grid = windows::grid(&setup, &traffic);
    let crowds = fluid::crowds(&setup.topology, &traffic, grid);
    let chosen = windows::choose(&setup, &traffic, &kinds, (&crowds, grid), plan.flows);
    let jobs: Vec<(&[Window], bool)> = (kinds.all.iter().zip(&chosen))
        .flat_map(|(kind, windows)| {
            let each = if windows.iter().any(Window::is_whole) { 1 } else { TOGETHER };
            windows.chunks(each).map(|windows| (windows, kind.apart))
        })
        .collect();
    let count = jobs.len();
    let hundred = 100 * count.max(1) as u64;
    progress.end_ps.store(hundred, Ordering::Relaxed);
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let fresh = || resolved.setup(run);
    let usual = link::Usual::default();
    let given = link::Given { fresh: &fresh, traffic: &traffic, crowds: &crowds, usual: &usual, progress };
    let work = || -> Result<(), ParamError> {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= count || progress.cancelled.load(Ordering::Relaxed) {
                return Ok(());
            }
            let (windows, apart) = jobs[i];
            let found = link::simulate(given, windows, apart)?;
            done.lock().unwrap_or_else(|e| e.into_inner()).push((i, found));
        }
    };
    std::thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads.min(count)).map(|_| scope.spawn(work)).collect();
        let own = work();
        helpers
            .into_iter()
            .fold(own, |so_far, h| so_far.and(h.join().unwrap_or_else(|p| std::panic::resume_unwind(p))))
    })?;
    let mut found = done.into_inner().unwrap_or_else(|e| e.into_inner());
    found.sort_unstable_by_key(|(i, _)| *i);
    let completed = found.len() == count;
    let packet_hops = found.iter().map(|(_, cables)| cables.packet_hops).sum();
    let samples = found.into_iter().flat_map(|(_, cables)| cables.samples);
    let delays = completed.then(|| Known::of(&traffic, &kinds, crowds, samples));
    progress.now_ps.store(hundred, Ordering::Relaxed);
    let simulated: BTreeSet<u32> = chosen.iter().flatten().flat_map(|w| w.cable.links()).collect();
    let links = (traffic.carrying(), simulated.iter().filter(|l| !traffic.crossing(**l).is_empty()).count());
    let mut recorder = Recorder::default();
    recorder.start(Time::ZERO + setup.warmup);
    recorder.facts = setup.recorder.facts.clone();
    if let Some(known) = &delays {
        let alone = link::alone_on_paths(&fresh, &setup, &traffic)?;
        estimate(&setup, &traffic, (&kinds, known, &alone), &mut recorder);
    }
    recorder.until = Time::ZERO + setup.duration;
    let warnings = vec![format!(
        "approximate: flow times are estimated from {} of {} links, each simulated by itself, for some of the time or all of it ({text}); not the result of \
         a run",
        links.1, links.0
    )];
    let summary = summarise(&recorder);
    Ok(Approximation { summary, warnings, completed, links, packet_hops, setup, recorder })
}

/// What the simulations have told.
struct Known {
    /// For every step of every path the seconds that its link has added to this very flow; no number where the link was not simulated.
    own: Vec<f64>,
    /// How crowded the link is there.
    crowds: Crowds,
    pools: Vec<join::Delays>,
}

impl Known {
    fn of(
        traffic: &Traffic,
        kinds: &Kinds,
        crowds: Crowds,
        samples: impl Iterator<Item = link::Sample>,
    ) -> Known {
        let mut own = vec![f64::NAN; traffic.steps()];
        let mut pools = vec![Vec::new(); 2 * kinds.all.len()];
        for s in samples {
            own[s.place as usize] = s.seconds;
            if s.measured && s.seconds.is_finite() {
                let flow = &traffic.flows[s.flow as usize];
                let crowd = crowds.of[s.place as usize];
                let delay = (s.seconds - crowds.waits(traffic, flow, (s.link, s.place))) / traffic.unit(flow);
                pools[kinds.pool(s.link)].push((flow.bytes, join::Met { crowd, delay, weight: s.weight }));
            }
        }
        Known { own, crowds, pools: pools.into_iter().map(join::Delays::of).collect() }
    }
}

/// Rows of flows and their writes, with estimated ends.
fn estimate(
    setup: &Setup,
    traffic: &Traffic,
    (kinds, known, alone): (&Kinds, &Known, &link::OnPaths),
    recorder: &mut Recorder,
) {
    let (start, end) = (Time::ZERO + setup.warmup, Time::ZERO + setup.duration);
    for (number, flow) in (0..).zip(&traffic.flows) {
        let mut rng = Stream::new(setup.seed, setup.run, Entity::Approximation, number);
        let steps = traffic.path(number as usize).iter().zip(traffic.places(number as usize));
        let added: f64 = steps
            .map(|(link, place)| {
                let own = known.own[place];
                if own.is_nan() {
                    let pool = &known.pools[kinds.pool(*link)];
                    let drawn = pool.draw(flow.bytes, known.crowds.of[place], &mut rng);
                    drawn * traffic.unit(flow) + known.crowds.waits(traffic, flow, (*link, place as u32))
                } else {
                    own
                }
            })
            .sum();
        let extra = alone.extra(traffic, number as usize) + added;
        let fct = flow.ideal + extra.max(0.0);
        let closed = if fct.is_finite() { flow.start + Dur::from_secs(fct) } else { Time::NEVER };
        let complete = closed <= end;
        let record = FlowRecord {
            flow: number as u32,
            src: flow.src,
            dst: flow.dst,
            workload: flow.workload,
            protocol: flow.protocol,
            opened: flow.start,
            closed: closed.min(end),
            size: flow.bytes,
            open_at_end: !complete,
            complete,
            established: true,
            transfers: u32::from(complete),
            ideal: flow.ideal,
            ..FlowRecord::default()
        };
        if closed >= start {
            let sums = &mut recorder.flow_totals;
            sums.flows += 1;
            sums.opened += u64::from(flow.start >= start);
            sums.completed += u64::from(complete);
        }
        if complete && closed >= start {
            let sums = &mut recorder.transfer_totals;
            (sums.count, sums.bytes, sums.seconds) =
                (sums.count + 1, sums.bytes + flow.bytes, sums.seconds + fct);
            if recorder.transfers.len() < recorder.max_rows {
                let (started, delivered, acked) = (flow.start, Time::NEVER, closed);
                let (bytes, due, ideal) = (flow.bytes, flow.due, flow.ideal);
                recorder.transfers.push(TransferRecord {
                    flow: number as u32,
                    started,
                    delivered,
                    acked,
                    bytes,
                    due,
                    ideal,
                });
            }
        }
        if recorder.flows.len() < recorder.max_rows {
            recorder.flows.push(record);
        }
    }
}

/// The keys of a summary that can be estimated.
fn summarise(r: &Recorder) -> Summary {
    let mut s = Summary::new();
    let mut put = |quantity, value: f64| key::put(&mut s, quantity, value);
    put(&key::MEASURED_S, r.until.since(r.from).as_secs());
    r.facts.iter().for_each(|(quantity, value)| put(quantity, *value));
    let (flows, sums) = (&r.flow_totals, &r.transfer_totals);
    put(&key::FLOWS, flows.flows as f64);
    put(&key::FLOWS_OPENED, flows.opened as f64);
    put(&key::FLOWS_COMPLETED, flows.completed as f64);
    let count = sums.count as f64;
    put(&key::TRANSFERS, count);
    put(&key::TRANSFER_MEAN_BYTES, sums.bytes as f64 / count);
    put(&key::FCT_MEAN_S, sums.seconds / count);
    let [fct, slowdown] = quantiles(&r.transfers, |t| [t.fct(), t.fct() / t.ideal], [0.5, 0.99]);
    let [p50, p99] = fct;
    put(&key::FCT_P50_S, p50);
    put(&key::FCT_P99_S, p99);
    let [p50, p99] = slowdown;
    put(&key::SLOWDOWN_P50, p50);
    put(&key::SLOWDOWN_P99, p99);
    s
}

#[cfg(test)]
mod tests;
