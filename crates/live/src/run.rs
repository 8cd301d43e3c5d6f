//! One live run from set-up to summary.

use crate::apps::{self, Applications};
use crate::clock::Clock;
use crate::doctor;
use crate::hosts::{self, Host, Settings};
use crate::idle::AckWaits;
use crate::quality::{ends_late, LATE_SHARE};
use crate::scenario::{controls, Control, LiveScenario};
use crate::switch::{self, Remains, Switch};
use crate::sys;
use crate::ticks::{self, Missed, Place};
use crate::waits::Reads;
use crate::{Failure, Outcome, Quality};
use penstock_core::params::parse_spec;
use penstock_core::tcp::{EcnMode, LossRecovery, TcpConfig};
use penstock_core::{ParamError, Params, Quantity};
use penstock_live_bpf::{Dctcp, DctcpOptions, Steered};
use penstock_models::protocols::dctcp::{DCTCP, LINUX_FLOOR};
use penstock_models::Suite;
use penstock_sim::bottleneck::Bottleneck;
use penstock_sim::engine::Progress;
use penstock_sim::ideal::{self, Lengths};
use penstock_sim::results::summarise;
use penstock_sim::setup::Setup;
use penstock_sim::summary_keys as key;
use penstock_sim::topology::{route_stream, NodeKind};
use penstock_sim::warnings::warnings;
use penstock_units::{Bytes, Dur, Time};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// Pauses of the network thread by length: all, and those in which hosts went on sending.
static PAUSES: [[&Quantity; 2]; 4] = [
    [&key::WAKE_PAUSES_1MS, &key::WAKE_PAUSES_1MS_SENT],
    [&key::WAKE_PAUSES_2MS, &key::WAKE_PAUSES_2MS_SENT],
    [&key::WAKE_PAUSES_4MS, &key::WAKE_PAUSES_4MS_SENT],
    [&key::WAKE_PAUSES_8MS, &key::WAKE_PAUSES_8MS_SENT],
];
/// Most hosts of a live run: each takes a namespace and a device.
const MAX_HOSTS: usize = 512;
/// Real-time priorities of the network and of the applications.
const NETWORK_PRIORITY: i32 = 50;
const APPLICATION_PRIORITY: i32 = 40;
/// The kernel takes no larger ceiling of the retransmission timeout (TCP_RTO_MAX_SEC).
const RTO_MAX_MS: u64 = 120_000;
/// Time between set-up and the start of the clock, for the threads to be there.
const HEAD_START_NS: u64 = 20_000_000;

/// Our congestion controls, in the kernel while this lives.
#[derive(Default)]
struct Loaded {
    dctcp: Option<Arc<Dctcp>>,
    steered: Option<Arc<Steered>>,
}

fn load(scenario: &LiveScenario, setup: &Setup, owners: &[Control]) -> Result<Loaded, ParamError> {
    let p = &scenario.resolved.params;
    let lacking = |what: &str, reason: String| {
        p.error("protocol", format!("needs {what} in the kernel, and that is not possible here: {reason}"))
    };
    let mut loaded = Loaded::default();
    let ecn = setup.protocols[0].1.ecn;
    let tag = format!("{:x}", std::process::id());
    if owners.contains(&Control::Dctcp) || (ecn == EcnMode::Dctcp && owners.contains(&Control::Steered)) {
        let dctcp = Dctcp::register(&tag, dctcp_options(&setup.protocol_names)?);
        loaded.dctcp = Some(Arc::new(dctcp.map_err(|e| lacking("our DCTCP", e.to_string()))?));
    }
    if owners.contains(&Control::Steered) {
        let steered = Steered::register(&tag, ecn != EcnMode::Off);
        loaded.steered =
            Some(Arc::new(steered.map_err(|e| lacking("a steered congestion control", e.to_string()))?));
    }
    for owner in owners {
        if let Control::Kernel(name) = owner {
            let known = doctor::congestion_controls();
            if !known.iter().any(|k| k == name) {
                let rule = format!("must be one the kernel has ({}), dctcp or steered", known.join(", "));
                return Err(ParamError::new("kernel", name, rule));
            }
        }
    }
    Ok(loaded)
}

/// The parameters of protocol `dctcp` as the kernel's half of it takes them; its `rules` are the kernel's anyway.
fn dctcp_options(protocols: &[String]) -> Result<DctcpOptions, ParamError> {
    let mut found: Option<DctcpOptions> = None;
    for text in protocols {
        let (name, given) = parse_spec("protocol", text)?;
        if name != DCTCP.name {
            continue;
        }
        let p = Params::parse(DCTCP.name, DCTCP.params, &given)?;
        let g_shift = -p.float("g").log2();
        if g_shift.fract() != 0.0 || !(1.0..=16.0).contains(&g_shift) {
            return Err(p.error("g", "must be a power of two of 2^-16 to 1/2 in the kernel"));
        }
        let min_window = if p.is_set("min_window") { p.float("min_window").max(1.0) } else { LINUX_FLOOR };
        if min_window.fract() != 0.0 {
            return Err(p.error("min_window", "must be whole in the kernel"));
        }
        let (g_shift, min_window) = (g_shift as u32, min_window as u32);
        let linux_rules = p.text("rules") == "linux";
        let options = DctcpOptions { g_shift, initial_alpha: p.float("alpha"), min_window, linux_rules };
        if found.replace(options).is_some_and(|other| other != options) {
            return Err(ParamError::new("protocol", text, "the kernel runs one kind of dctcp at a time"));
        }
    }
    Ok(found.unwrap_or_default())
}

fn settings(scenario: &LiveScenario, setup: &Setup) -> Settings {
    let p = &scenario.resolved.params;
    let cfg = &setup.protocols[0].1;
    let segment = setup.protocols.iter().map(|(_, c)| c.mss + c.header_len()).max().unwrap_or(1500);
    Settings {
        mtu: segment,
        sack: cfg.recovery == LossRecovery::Sack,
        timestamps: cfg.timestamps,
        ecn: cfg.ecn == EcnMode::Classic,
        restart_after_idle: cfg.restart_after_idle,
        tail_loss_probe: cfg.tail_loss_probe,
        // Linux's default.
        ecn_fallback: !p.is_set("ecn_fallback") || cfg.ecn_fallback,
        rto_min_us: (cfg.rto_min.0 / 1_000_000).max(1),
        rto_max_ms: p.is_given("rto_max").then_some((cfg.rto_max.0 / 1_000_000_000).min(RTO_MAX_MS)),
        // Half of a receive buffer is bookkeeping (tcp_adv_win_scale).
        receive_buffer: (cfg.rwnd * 2).min(64 << 20),
        initial_window: cfg.initial_window,
        quick_ack: cfg.delayed_ack == 1,
        gso: cfg.gso,
        comp_sack_ns: p.is_given("comp_sack").then_some(cfg.comp_sack.0 / 1000),
    }
}

/// Runs replication `run` of a scenario live.
///
/// # Errors
/// What the machine lacks or the scenario must not ask for, as input; anything that fails on the way.
pub fn run(scenario: &LiveScenario, run: u64, progress: Arc<Progress>) -> Result<Outcome, Failure> {
    if let Some(missing) = doctor::missing() {
        return Err(ParamError::new("live", "", format!("needs {missing}")).into());
    }
    let setup = scenario.resolved.setup(run)?;
    setup.check()?;
    let count = setup.topology.hosts().len();
    if count > MAX_HOSTS {
        let rule = format!("a live run takes at most {MAX_HOSTS} hosts; this scenario has {count}");
        return Err(ParamError::new("scenario", scenario.resolved.scenario.name, rule).into());
    }
    if setup.workloads.iter().any(|w| w.needs_deliveries()) {
        let rule =
            "a live run cannot have collective, goal or matrix: the hosts learn only of acknowledgements";
        return Err(ParamError::new("workload", "", rule).into());
    }
    let owners = controls(scenario, &setup)?;
    let loaded = load(scenario, &setup, &owners)?;
    let settings = settings(scenario, &setup);
    let before = (sys::machine_cpu(), sys::process_cpu(), sys::monotonic_ns());
    // A thread of its own: making namespaces moves it from one to the next.
    let work = thread::Builder::new()
        .name("penstock-apps".into())
        .spawn(move || drive(setup, owners, loaded, &settings, &progress))
        .map_err(|e| Failure::Run(e.to_string()))?;
    let done = match work.join() {
        Ok(done) => done?,
        Err(panic) => return Err(Failure::Run(text_of(&panic))),
    };
    Ok(outcome(scenario, done, before))
}

fn text_of(panic: &Box<dyn std::any::Any + Send>) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()))
        .unwrap_or_else(|| "a thread died".into())
}

struct Done {
    network: Remains,
    applications: Applications,
    /// Of the applications' processor and of the network's.
    ticks: [Missed; 2],
    protocol_names: Vec<String>,
    protocols: Vec<(Suite, Arc<TcpConfig>)>,
    notes: Vec<String>,
    bottleneck: Bottleneck,
    round_trip: Dur,
    length: Dur,
}

/// Sets up the hosts, runs both threads, and takes everything down.
fn drive(
    mut setup: Setup,
    owners: Vec<Control>,
    loaded: Loaded,
    settings: &Settings,
    progress: &Arc<Progress>,
) -> Result<Done, Failure> {
    sys::raise_descriptor_limit();
    let mut places: Vec<Option<Host>> = Vec::new();
    let mut devices: Vec<Option<OwnedFd>> = Vec::new();
    let mut addresses = BTreeMap::new();
    for (node, n) in setup.topology.nodes.iter().enumerate() {
        if n.kind == NodeKind::Switch {
            places.push(None);
            devices.push(None);
            continue;
        }
        let made = hosts::host(node as u32 + 1, settings);
        let (host, device) = made.map_err(|e| Failure::Run(format!("host {}: {e}", n.name)))?;
        addresses.insert(host.address, node as u32);
        places.push(Some(host));
        devices.push(Some(device));
    }
    // No round trip is shorter than a packet's own transmission, whatever the distance.
    let slowest = setup.topology.links.iter().map(|l| l.rate).min().expect("a network has links");
    let round_trip = setup.base_rtt.max(Bytes(u64::from(settings.mtu)) / slowest);
    setup.base_rtt = round_trip;
    // The machine has noise of its own, and its kernels have their own small queues.
    (setup.send_jitter, setup.host_queue) = (Dur::ZERO, None);
    let (warmup, end) = (Time::ZERO + setup.warmup, Time::ZERO + setup.duration);
    let workloads = std::mem::take(&mut setup.workloads);
    let recorder = std::mem::take(&mut setup.recorder);
    // The switch samples the queues at the same interval, but the tables are the applications'.
    setup.recorder = recorder.like();
    let names: Vec<String> = owners
        .iter()
        .map(|o| match o {
            Control::Kernel(name) => name.clone(),
            Control::Dctcp => loaded.dctcp.as_ref().map_or(String::new(), |d| d.name().to_owned()),
            Control::Steered => loaded.steered.as_ref().map_or(String::new(), |s| s.name().to_owned()),
        })
        .collect();
    // A receiver echoes marks by its own congestion control's rules: DCTCP's where that is the protocol.
    let receiver_control = loaded.dctcp.as_ref().map_or_else(|| names[0].clone(), |d| d.name().to_owned());
    let bottleneck = setup.bottleneck;
    let protocol_names = setup.protocol_names.clone();
    let (protocols, scenario_notes) = (setup.protocols.clone(), std::mem::take(&mut setup.notes));
    let check = {
        let (topology, id) = (setup.topology.clone(), (setup.seed, setup.run));
        let mut forwarding = setup.forwarding()?;
        let protocols: Vec<_> = setup.protocols.iter().map(|(_, cfg)| cfg.clone()).collect();
        let framing = setup.framing;
        let topology = Arc::new(topology);
        move |r: &penstock_sim::workloads::FlowRequest, key| {
            let mut rng = route_stream(id.0, id.1, key);
            let mut path = |src, dst| {
                let mut ports = Vec::new();
                let found = forwarding.draw(src, dst, &mut rng);
                found
                    .and_then(|entropy| forwarding.path(src, dst, entropy, &mut ports))
                    .map_err(|e| e.named(|n| topology.nodes[n as usize].name.clone()))?;
                Ok::<_, ParamError>(ports)
            };
            let (forward, back) = (path(r.src, r.dst)?, path(r.dst, r.src)?);
            let lengths = Lengths::new(&protocols[r.protocol as usize], (0, 0), framing);
            let round_trip = ideal::handshake(&topology, &forward, &back, &lengths);
            let t = topology.clone();
            let transfer = Box::new(move |bytes| ideal::transfer(&t, &forward, &back, &lengths, bytes));
            Ok(apps::Idle { round_trip, transfer })
        }
    };
    let clock = Clock::starting_in(HEAD_START_NS);
    let stop = Arc::new(AtomicBool::new(false));
    let reads = Reads::new(devices.len());
    let ack_waits = AckWaits::default();
    let [network_place, application_place]: [Arc<Place>; 2] = Default::default();
    let announced: Arc<switch::Announced> = Arc::new(Mutex::new(BTreeMap::new()));
    let switch = Switch::new(switch::Plan {
        setup,
        devices,
        addresses,
        listen: apps::LISTEN,
        steered: owners.iter().map(|o| *o == Control::Steered).collect(),
        handle: loaded.steered.clone(),
        announced: announced.clone(),
        clock,
        stop: stop.clone(),
        reads: reads.clone(),
        ack_waits: ack_waits.clone(),
        place: network_place.clone(),
    })?;
    let ended = stop.clone();
    let network = thread::Builder::new()
        .name("penstock-net".into())
        .spawn(move || {
            // However this thread ends, the other one must not wait for it.
            struct OnExit(Arc<AtomicBool>);
            impl Drop for OnExit {
                fn drop(&mut self) {
                    self.0.store(true, Ordering::Relaxed);
                }
            }
            let _guard = OnExit(ended);
            switch.run(NETWORK_PRIORITY)
        })
        .map_err(|e| Failure::Run(e.to_string()))?;
    // They go with the network, so that none is left where that could not begin; a run without them knows of no ticks.
    let watchers = [&application_place, &network_place]
        .map(|place| ticks::watch(place.clone(), clock, warmup, stop.clone()).ok());
    let alpha = loaded.dctcp.clone().map(|d| Box::new(move |port| d.alpha(port)) as Box<_>);
    let applications = apps::run(
        apps::Plan {
            hosts: places,
            workloads,
            controls: names,
            receiver_control,
            recorder,
            announced,
            clock,
            warmup,
            end,
            stop: stop.clone(),
            reads,
            ack_waits,
            place: application_place,
            progress: progress.clone(),
            check: Box::new(check),
            alpha,
        },
        APPLICATION_PRIORITY,
    );
    stop.store(true, Ordering::Relaxed);
    let network = match network.join() {
        Ok(network) => network.map_err(|e| Failure::Run(format!("the network: {e}"))),
        Err(panic) => Err(Failure::Run(text_of(&panic))),
    };
    let ticks = watchers.map(|watcher| watcher.and_then(|thread| thread.join().ok()).unwrap_or_default());
    // When the network has failed, that is the reason why the applications did.
    let network = network?;
    let applications = applications.map_err(|e| Failure::Run(e.to_string()))?;
    let notes = scenario_notes;
    let length = end.since(Time::ZERO);
    Ok(Done {
        network,
        applications,
        ticks,
        protocol_names,
        protocols,
        notes,
        bottleneck,
        round_trip,
        length,
    })
}

fn outcome(scenario: &LiveScenario, done: Done, before: (Option<f64>, f64, u64)) -> Outcome {
    let Done {
        network,
        mut applications,
        ticks,
        protocol_names,
        protocols,
        notes: scenario_notes,
        bottleneck,
        round_trip,
        length,
    } = done;
    let cpu_s = sys::process_cpu() - before.1;
    let elapsed = (sys::monotonic_ns() - before.2) as f64 * 1e-9;
    let others = match (before.0, sys::machine_cpu()) {
        (Some(a), Some(b)) => ((b - a - cpu_s) / elapsed).max(0.0),
        _ => f64::NAN,
    };
    let recorder = &mut applications.recorder;
    for f in recorder.flows.iter_mut() {
        if let Some(seen) = network.counters.get(&f.flow) {
            // The switch counts from the end of warm-up.
            f.drops = u32::try_from(seen.drops).unwrap_or(u32::MAX);
            f.ece_acks = seen.ece_acks;
            f.tail_loss_probes = u32::try_from(seen.probes).unwrap_or(u32::MAX);
        }
    }
    let totals = &mut recorder.flow_totals.counters;
    for seen in network.counters.values() {
        totals.tail_loss_probes += seen.probes;
        totals.probe_wait += seen.probe_wait;
    }
    recorder.alpha.join(&network.alpha);
    for s in &network.samples {
        recorder.row(*s);
    }
    recorder.series.sort_by_time();
    for t in &network.transitions {
        recorder.transition(t);
    }
    recorder.events.sort_by_key(|e| e.at.0);

    let gate = scenario.options.float("gate");
    let lag = &network.lag;
    let p99 = lag.all.quantile(0.99);
    let mut notes = Vec::new();
    if lag.all.count() == 0 {
        notes.push("no packet was delivered after the warm-up".to_owned());
    } else if p99 > gate * round_trip.as_secs() {
        notes.push(format!(
            "99 % of packets were up to {:.0} us late: more than {} of the round trip of {round_trip}",
            p99 * 1e6,
            gate
        ));
    }
    if lag.late_share() > LATE_SHARE {
        notes.push(format!(
            "in {:.1} % of all windows of 10 ms some packet was late by more than a round trip; at most {:.0} % are allowed",
            lag.late_share() * 100.0,
            LATE_SHARE * 100.0
        ));
    }
    if ends_late(network.over, length) {
        notes.push(format!(
            "the network thread reached the end of the run {} late, so events were processed too late",
            network.over
        ));
    }
    let device_drops = applications.device_drops + network.refused;
    if device_drops > 0 {
        notes.push(format!("devices dropped {device_drops} packets that no queue of the scenario dropped"));
    }
    let valid = notes.is_empty();
    if !network.real_time {
        notes.push("without real-time priority (needs root): lags are larger than with it".to_owned());
    }
    if network.foreign > 0 {
        notes.push(format!(
            "{} packets that belong to no connection of the scenario were left out",
            network.foreign
        ));
    }
    let turns = &network.turns;
    let mut numbers = vec![
        (&key::VALID, f64::from(u8::from(valid))),
        (&key::LAG_P50_S, lag.all.quantile(0.5)),
        (&key::LAG_P99_S, p99),
        (&key::LAG_MAX_S, lag.all.max()),
        (&key::WAKE_TIMES, lag.wake.count() as f64),
        (&key::AWAKE_P50_S, lag.awake.quantile(0.5)),
        (&key::AWAKE_P99_S, lag.awake.quantile(0.99)),
        (&key::AWAKE_TIMES, lag.awake.count() as f64),
        (&key::APPLICATION_LAG_TIMES, network.waits.late.times.count() as f64),
        (&key::APPLICATION_LAG_NEAR, network.waits.late.near()),
        (&key::APPLICATION_LAG_FAR, network.waits.late.far()),
        (&key::APPLICATION_TURN_NEAR, turns.application.near()),
        (&key::APPLICATION_TURN_FAR, turns.application.far()),
        (&key::APPLICATION_TURN_LAG, turns.with_lag()),
        (&key::LATE_WINDOWS, lag.late_share()),
        (&key::MISSED_TICKS_WRITE, ticks[0].share()),
        (&key::MISSED_TICKS_ARRIVAL, ticks[1].share()),
        (&key::TIMER_LAG_MAX_S, applications.timer_lag.as_secs()),
        (&key::DEVICE_DROPS, device_drops as f64),
        (&key::OTHER_CPU_CORES, others),
        (&key::UNREPORTED_ACKS, applications.unreported as f64),
    ];
    for (keys, times) in [(&key::WAKE, &lag.wake), (&key::APPLICATION_LAG, &network.waits.late.times)] {
        let late = key::TAIL_SHARES.map(|share| times.quantile(share));
        let largest = key::TAIL_RANKS.map(|rank| times.ranked(rank));
        numbers.extend(keys.iter().zip(late.into_iter().chain(largest)));
    }
    for (keys, times) in [
        (&key::DATA_HANDOVER, &lag.handovers[1]),
        (&key::ACK_HANDOVER, &lag.handovers[0]),
        (&key::RECEIVER_TURN, &turns.receiver.times),
        (&key::DUPACK_TURN, &turns.dupack.times),
        (&key::SENDER_TURN, &turns.sender.times),
        (&key::WRITE_LAG, &applications.writes.lag),
        (&key::WRITE_TIME, &applications.writes.time),
        (&key::WRITE_TURN, &network.waits.write_turn),
        (&key::APPLICATION_TURN, &turns.application.times),
    ] {
        numbers.extend(keys.iter().zip(key::SHARES.map(|share| times.quantile(share))));
    }
    for (keys, turn) in [
        ([&key::RECEIVER_TURN_NEAR, &key::RECEIVER_TURN_FAR, &key::RECEIVER_TURN_PACKETS], &turns.receiver),
        ([&key::DUPACK_TURN_NEAR, &key::DUPACK_TURN_FAR, &key::DUPACK_TURN_PACKETS], &turns.dupack),
        ([&key::SENDER_TURN_NEAR, &key::SENDER_TURN_FAR, &key::SENDER_TURN_PACKETS], &turns.sender),
    ] {
        numbers.extend(keys.into_iter().zip([turn.near(), turn.far(), turn.packets()]));
    }
    let pauses = network.pauses.judged.into_iter().zip(network.pauses.sent);
    for ([judged, sent], (n, went_on)) in PAUSES.into_iter().zip(pauses) {
        numbers.extend([(judged, n as f64), (sent, went_on as f64)]);
    }
    let mut out = Outcome {
        topology: network.topology,
        protocol_names,
        protocols,
        notes: scenario_notes,
        ports: network.ports,
        bottleneck,
        stopped: applications.stopped,
        recorder: applications.recorder,
        packet_hops: network.packet_hops,
        summary: Default::default(),
        warnings: Vec::new(),
        quality: Quality { valid, notes, numbers },
        completed: applications.completed,
        cpu_s,
    };
    out.summary = summarise(&out.measured());
    out.warnings = warnings(&out.measured());
    for (what, value) in &out.quality.numbers {
        key::put(&mut out.summary, what, *value);
    }
    let [sack, reno, probes] = [0, 1, 2].map(|i| applications.counters[i] as f64);
    key::put(&mut out.summary, &key::FAST_RETRANSMITS, sack + reno);
    // The kernel counts those with new data, too.
    key::put(&mut out.summary, &key::TAIL_LOSS_PROBES, probes);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_dctcp_has_the_parameters_of_the_protocol() {
        let of = |texts: &[&str]| dctcp_options(&texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>());
        let plain = of(&["dctcp"]).unwrap();
        assert_eq!(plain, DctcpOptions::default());
        let set = of(&["sack", "dctcp:g=0.125,alpha=0,min_window=2"]).unwrap();
        assert_eq!(set, DctcpOptions { g_shift: 3, initial_alpha: 0.0, min_window: 2, linux_rules: false });
        for bad in [&["dctcp:g=0.1"][..], &["dctcp:min_window=1.5"], &["dctcp", "dctcp:alpha=0"]] {
            assert!(of(bad).is_err(), "{bad:?}");
        }
    }
}
