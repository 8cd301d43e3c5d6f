//! Partition fuzz: results do not depend on the partition. Drawn at random are the slots of packets, the order in which different nodes handle
//! simultaneous events, the steps in which a run is made, the number of threads, and the order of applications there. Runs with ties kept and with
//! ties reversed are each compared with themselves. Random documents over all scenarios, transports, kinds of ports and workloads.
//!
//! `FUZZ_CASES=2000 FUZZ_FIRST=0 cargo test -p penstock-sim --test partition` tries others.
#![cfg(debug_assertions)]

#[path = "fuzz/generator.rs"]
#[allow(dead_code)]
mod generator;

#[path = "fuzz/differing.rs"]
mod differing;

use differing::differing;
use generator::Generator;
use penstock_core::rng::Entity;
use penstock_core::{ParamError, Stream};
use penstock_models::Registry;
use penstock_sim::cores::Threads;
use penstock_sim::document::resolve;
use penstock_sim::engine::{Engine, Progress, Step};
use penstock_sim::events::Ties;
use penstock_sim::fingerprint::fingerprint;
use penstock_sim::results::summarise;
use penstock_sim::scenario::Resolved;
use penstock_sim::scenarios::custom::{CUSTOM, TABLES};
use penstock_sim::setup::Setup;
use penstock_units::{Dur, Time};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

/// Packet-hops of a case: it is stopped then, at a time that the document alone decides.
const MOST_HOPS: u64 = 20_000;

fn cases(default: u64) -> (u64, u64) {
    let of = |key: &str| std::env::var(key).ok().and_then(|text| text.parse().ok());
    (of("FUZZ_FIRST").unwrap_or(0), of("FUZZ_CASES").unwrap_or(default))
}

/// The results of a run of some packet-hops up to `until`, and the time at which it was stopped. Without a time it is chosen.
fn run(mut engine: Engine, until: Option<Time>, steps: Option<u64>) -> (String, Time, Engine) {
    let progress = Progress::default();
    let mut rng = steps.map(|seed| Stream::new(seed, 0, Entity::Approximation, 7));
    let (mut at, mut step, mut before) = (Time::ZERO, Dur::nanos(500), 0);
    for _ in 0.. {
        at = match (&mut rng, until) {
            // As many short windows as long ones.
            (Some(rng), Some(until)) => {
                let left = until.since(at).0;
                let share = [2, 20, 200][rng.below(3) as usize];
                Time(at.0 + 1 + rng.below(1 + left / share)).min(until)
            }
            _ => at + step,
        };
        let done = engine.step(at, &progress).expect("a legal document runs") != Step::More;
        if done || until == Some(at) {
            break;
        }
        if until.is_none() && (engine.packet_hops() >= MOST_HOPS || at.0 > Dur::millis(200).0) {
            break;
        }
        if engine.packet_hops() - before < MOST_HOPS / 20 {
            step = step * 2;
        }
        before = engine.packet_hops();
    }
    engine.end(false).expect("a legal document ends");
    let measured = engine.measured();
    let print = fingerprint(&measured, &summarise(&measured));
    (print, at, engine)
}

/// On several threads, up to `until`: on how many at most, or why on one.
fn divided(
    build: &(dyn Fn() -> Result<Setup, ParamError> + Sync),
    numbers: &[usize],
) -> Result<String, String> {
    let run = |threads: &Threads| {
        let (outcome, cores) =
            Resolved::run_setup(build, threads, &Progress::default()).map_err(|e| e.to_string())?;
        let print = fingerprint(&outcome.engine.measured(), &outcome.summary);
        Ok::<_, String>((print, cores, outcome))
    };
    let (expected, _, whole) = run(&Threads::one_by_one())?;
    let mut said = String::new();
    for number in numbers {
        let (found, cores, outcome) =
            run(&Threads { shuffle: Some(*number as u64), ..Threads::always(*number) })?;
        if found != expected {
            let what = differing(&whole.engine.measured(), &outcome.engine.measured(), &[]);
            return Err(format!("other results on {} threads of {number}: {what}", cores.threads));
        }
        said = if cores.threads > 1 { String::new() } else { cores.note.unwrap_or_default() };
    }
    Ok(said)
}

/// Sums that are made in another order have the same value to 10^-12.
fn alike(a: &Engine, b: &Engine) -> bool {
    let [a, b] = [a, b].map(|engine| summarise(&engine.measured()));
    let close = |x: f64, y: f64| x.to_bits() == y.to_bits() || (x - y).abs() <= 1e-12 * x.abs();
    a.len() == b.len() && a.iter().all(|(key, x)| b.get(key).is_some_and(|y| close(*x, *y)))
}

/// What a case was: refused, or the same, and why on one thread.
fn one(text: &str, numbers: &[usize]) -> Result<Option<String>, String> {
    let Ok(resolved) = resolve(text) else { return Ok(None) };
    let setup = || resolved.setup(0).map_err(|e| e.to_string());
    // Hosts that share a machine, and links without delay, couple nodes at one instant.
    let joined =
        |s: &Setup| s.noise_of_one_machine() || s.topology.links.iter().any(|l| l.delay == Dur::ZERO);
    if setup().is_ok_and(|s| joined(&s)) {
        return Ok(None);
    }
    let act = || -> Result<Option<String>, String> {
        let plain = Engine::new(setup()?).map_err(|e| e.to_string())?;
        let (expected, until, whole) = run(plain, None, None);
        let shuffled = |setup: Setup, seed| Engine::shuffled(setup, seed).map_err(|e| e.to_string());
        for draw in 1..=2u64 {
            let (found, _, other) = run(shuffled(setup()?, draw)?, Some(until), Some(draw));
            // Writes that are acknowledged at one instant at different nodes are recorded in the order of these, which is drawn.
            let what = differing(&whole.measured(), &other.measured(), &["transfers"]);
            if found != expected && !(what.is_empty() && alike(&whole, &other)) {
                return Err(format!("other results with draw {draw}: {what}, up to {until}\n  {text}"));
            }
        }
        let build = || {
            let setup = resolved.setup(0)?;
            Ok(Setup { duration: until.since(Time::ZERO).min(setup.duration), ..setup })
        };
        let said = divided(&build, numbers).map_err(|e| format!("{e}, up to {until}\n  {text}"))?;
        let reversed = || build().map(|setup| Setup { ties: Ties::Reversed, ..setup });
        divided(&reversed, numbers).map_err(|e| format!("{e}, ties reversed, up to {until}\n  {text}"))?;
        Ok(Some(said))
    };
    std::panic::catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().cloned();
        let said = said.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
        Err(format!("panic: {}\n  {text}", said.unwrap_or_default()))
    })
}

fn check((first, count): (u64, u64), numbers: &[usize]) {
    let (next, found) = (AtomicU64::new(first), Mutex::new((Vec::new(), BTreeMap::new(), BTreeMap::new())));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()) {
            scope.spawn(|| loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= first + count {
                    return;
                }
                let tried = one(&document(seed).to_string(), numbers);
                let mut found = found.lock().unwrap();
                if tried == Ok(Some(String::new())) {
                    covers(seed).into_iter().for_each(|what| *found.2.entry(what).or_insert(0u64) += 1);
                }
                match tried {
                    Ok(said) => *found.1.entry(said).or_insert(0u64) += 1,
                    Err(what) => found.0.push(format!("case {seed}: {what}")),
                }
            });
        }
    });
    let (wrong, mut same, covered) = found.into_inner().unwrap();
    let refused = same.remove(&None).unwrap_or(0);
    let ran: u64 = same.values().sum();
    println!("refused {refused}, the same {ran}, different {}", wrong.len());
    same.iter().for_each(|(said, count)| println!("{count}: {}", said.as_deref().unwrap_or_default()));
    let divided = same.get(&Some(String::new())).copied().unwrap_or(0);
    println!("divided: {covered:?}");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    // A third of the documents is refused, and every fourth couples its hosts by more than links.
    assert!(3 * ran > count, "only {ran} of {count} documents ran");
    assert!(4 * divided > ran, "only {divided} of {ran} runs were divided");
    if count >= 2000 {
        let registry = Registry::standard();
        let protocols = registry.protocols().iter().map(|p| format!("protocol {}", p.name));
        let queues = registry.queues().iter().map(|q| format!("queue {}", q.name));
        let kinds = TABLES[1..].iter().map(|table| format!("kind {}", table.name));
        let all = protocols.chain(queues).chain(kinds);
        let never: Vec<_> = all.filter(|name| !covered.contains_key(name)).collect();
        assert!(never.is_empty(), "never divided: {never:?}");
    }
}

/// The document of a case: every third one has a network and workloads of its own.
fn document(seed: u64) -> Value {
    let mut generator = Generator::new(seed);
    if seed.is_multiple_of(3) {
        generator.document_of(&CUSTOM)
    } else {
        generator.document()
    }
}

/// The protocols, queues, workloads and keys of a case.
fn covers(seed: u64) -> BTreeSet<String> {
    let document = document(seed);
    let set = document["set"].as_object().into_iter().flatten();
    let set = set.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
    let toml = document["toml"].as_str().unwrap_or_default().lines();
    let toml =
        toml.filter_map(|line| line.split_once(" = ")).map(|(key, value)| (key, value.trim_matches('"')));
    let named = |(key, value): (&str, &str)| match key {
        "protocol" | "queue" | "kind" => format!("{key} {}", value.split(':').next().unwrap_or_default()),
        _ => format!("key {key}"),
    };
    set.chain(toml).map(named).collect()
}

#[test]
fn results_do_not_depend_on_slots_on_the_order_of_nodes_on_steps_or_on_threads() {
    check(cases(120), &[1, 2, 3]);
}
/// Tries the document in a file: `FUZZ_DOCUMENT=FILE cargo test -p penstock-sim --test partition`.
#[test]
fn results_of_a_document_do_not_depend_on_slots_order_steps_or_threads() {
    let Some(file) = std::env::var_os("FUZZ_DOCUMENT") else { return };
    println!("{:?}", one(&std::fs::read_to_string(file).unwrap(), &[1, 2, 3, 7, 16]).unwrap());
}
#[test]
#[ignore = "takes long; runs in `make test-full`"]
fn results_of_two_thousand_documents_do_not_depend_on_slots_order_steps_or_threads() {
    check(cases(2000), &[1, 2, 3, 7, 16]);
}
