//! Random documents, legal and not. A legal one runs: no panic, no refusal after the check, nothing out of range at whatever moment it is
//! stopped. An illegal one is refused in one line.
//!
//! `FUZZ_CASES=20000 FUZZ_FIRST=0 cargo test -p penstock-sim --test fuzz` tries others; with `FUZZ_SHOW=1` it prints why documents are refused.

mod generator;

use generator::Generator;
use penstock_core::{Kind, ParamError};
use penstock_models::Registry;
use penstock_sim::document::resolve;
use penstock_sim::engine::{Engine, Progress, Step};
use penstock_sim::invariants;
use penstock_sim::results::summarise;
use penstock_sim::scenarios::{self, custom::TABLES};
use penstock_units::{Dur, Time};
use serde_json::{json, Value};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// Packet-hops of a case: it is stopped then, at a time that the document alone decides.
const MOST_HOPS: u64 = 40_000;
/// A case whose events are no packets is stopped by the clock.
const PATIENCE: Duration = Duration::from_secs(2);
/// One that does not even stop then is stuck.
const STUCK: Duration = Duration::from_secs(120);

fn cases(default: u64) -> (u64, u64) {
    let of = |key: &str| std::env::var(key).ok().and_then(|text| text.parse().ok());
    (of("FUZZ_FIRST").unwrap_or(0), of("FUZZ_CASES").unwrap_or(default))
}

/// Runs a document's first moments, or all of it. True when it came to its end.
fn run(text: &str) -> Result<Option<bool>, String> {
    let resolved = match resolve(text) {
        Ok(resolved) => resolved,
        Err(e) => {
            if std::env::var_os("FUZZ_SHOW").is_some() {
                println!("refused: {e}");
            }
            return one_line(&e).map(|()| None);
        }
    };
    let mut engine = resolved
        .setup(0)
        .and_then(Engine::new)
        .map_err(|e| format!("passes the check and is refused by the run: {e}"))?;
    let progress = &Progress::default();
    let (done, ended) = mpsc::channel::<()>();
    let finished = std::thread::scope(|scope| {
        scope.spawn(move || {
            if ended.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                progress.cancelled.store(true, Ordering::Relaxed);
                if ended.recv_timeout(STUCK) == Err(mpsc::RecvTimeoutError::Timeout) {
                    eprintln!("stuck: {text}");
                    std::process::abort();
                }
            }
        });
        let finished = steps(&mut engine, progress);
        drop(done);
        finished
    })
    .map_err(|e| format!("passes the check and fails in the run: {e}"))?;
    let measured = engine.measured();
    invariants::check(&measured, &summarise(&measured))?;
    let c = engine.conservation();
    if c.sent < c.delivered + c.dropped {
        return Err(format!("packets are not conserved: {c:?}"));
    }
    Ok(Some(finished))
}

/// A step is so long that few packets can cross a link in it, as far as that is known: longer after one with little to do.
fn steps(engine: &mut Engine, progress: &Progress) -> Result<bool, ParamError> {
    let (mut at, mut step) = (Time::ZERO, Dur::nanos(500));
    let mut before = 0;
    let finished = loop {
        at = at + step;
        match engine.step(at, progress)? {
            Step::Done => break true,
            Step::Cancelled => break false,
            Step::More if engine.packet_hops() >= MOST_HOPS => break false,
            Step::More => {}
        }
        if engine.packet_hops() - before < MOST_HOPS / 20 {
            step = step * 2;
        }
        before = engine.packet_hops();
    };
    engine.end(finished)?;
    Ok(finished)
}

fn one_line(e: &ParamError) -> Result<(), String> {
    let text = e.to_string();
    if text.lines().count() != 1 || e.key.is_empty() || e.rule.is_empty() {
        return Err(format!("not one line with key and rule: {text:?}"));
    }
    Ok(())
}

/// What a panic said.
fn caught<T>(act: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    std::panic::catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().cloned();
        let said = said.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
        Err(format!("panic: {}", said.unwrap_or_default()))
    })
}

/// Tries cases on all cores; `try_one` answers what it did, by number of an outcome.
fn all(count: (u64, u64), try_one: impl Fn(u64) -> Result<usize, String> + Sync) -> [u64; 3] {
    let (next, found) = (AtomicU64::new(count.0), std::sync::Mutex::new((Vec::new(), [0; 3])));
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= count.0 + count.1 {
                    return;
                }
                let tried = try_one(seed);
                let mut found = found.lock().unwrap();
                match tried {
                    Ok(outcome) => found.1[outcome] += 1,
                    Err(what) => found.0.push(format!("case {seed}: {what}")),
                }
            });
        }
    });
    let (wrong, outcomes) = found.into_inner().unwrap();
    println!("outcomes: {outcomes:?}");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    outcomes
}

fn legal(count: (u64, u64)) {
    let outcomes = all(count, |seed| {
        let document = Generator::new(seed).document().to_string();
        let tried = caught(|| run(&document)).map_err(|what| format!("{what}\n  {document}"))?;
        Ok(match tried {
            None => 0,
            Some(false) => 1,
            Some(true) => 2,
        })
    });
    let [_, stopped, finished] = outcomes;
    // Draws that contradict each other are refused; when most are, little is tested.
    assert!(stopped + finished > 2 * count.1 / 5 && finished > count.1 / 10, "{outcomes:?}");
}

#[test]
fn random_documents_run_with_every_number_in_range() {
    legal(cases(500));
}

#[test]
#[ignore = "takes long; runs in `make test-full`"]
fn twenty_thousand_random_documents_run_with_every_number_in_range() {
    legal((1 << 20, 20_000));
}

/// A value that is none is refused by its own key, in one line; noise is refused or means something, and is no panic.
#[test]
fn values_that_are_none_are_refused_in_one_line() {
    let all_specs: Vec<_> =
        scenarios::ALL.iter().flat_map(|s| s.specs().into_iter().map(move |spec| (*s, spec))).collect();
    let outcomes = all(cases(1500), |seed| {
        let mut g = Generator::new(seed ^ 0x5eed);
        let (scenario, spec) = &all_specs[g.below(all_specs.len())];
        let bad = g.bad_value(spec);
        let value = bad.clone().unwrap_or_else(|| g.noise());
        let document = match scenario.name {
            "custom" => json!({
                "toml": "scenario = \"custom\"\nhosts = \"h[0-1]\"\n[[link]]\nbetween = [\"h0\", \"h1\"]\nrate = \"1Gbps\"\ndelay = \"1us\"\n[[workload]]\nfrom = \"h0\"\nto = \"h1\"\n",
                "set": { spec.name: value },
            }),
            name => json!({ "scenario": name, "set": { spec.name: value } }),
        };
        let tried = caught(|| match resolve(&document.to_string()) {
            Ok(_) if bad.is_some() => Err("is taken".to_owned()),
            Ok(_) => Ok(0),
            Err(e) if bad.is_some() && e.key != spec.name => Err(format!("is refused as {}: {e}", e.key)),
            Err(e) => one_line(&e).map(|()| 1),
        });
        tried.map_err(|what| format!("{what}\n  {document}"))
    });
    assert!(outcomes[1] > outcomes[0], "{outcomes:?}");
}

/// Values that are none of keys of protocols, of queues and of the tables of files.
#[test]
fn values_that_are_none_are_refused_wherever_they_stand() {
    let registry = Registry::standard();
    all(cases(1500), |seed| {
        let mut g = Generator::new(seed ^ 0xbad);
        let which = g.below(3);
        let (owner, params) = match which {
            0 => {
                let all = registry.protocols();
                let p = all[g.below(all.len())];
                (p.name, p.params.to_vec())
            }
            1 => {
                let all = registry.queues();
                let q = all[g.below(all.len())];
                (q.name, q.params.to_vec())
            }
            _ => {
                let table = &TABLES[g.below(TABLES.len())];
                (table.name, table.params())
            }
        };
        if params.is_empty() {
            return Ok(0);
        }
        let spec = &params[g.below(params.len())];
        let bad = g.bad_value(spec);
        let value = bad.clone().unwrap_or_else(|| g.noise());
        // What separates parts of a value, or ends a line, would be read as such.
        let value = value.replace([',', ':', ';', '@', '\n'], " ");
        let text = toml_text(&value);
        let link = "[[link]]\nbetween = [\"h0\", \"h1\"]\nrate = \"1Gbps\"\ndelay = \"1us\"\n";
        let head = "scenario = \"custom\"\nhosts = \"h[0-1]\"\n";
        let work = "[[workload]]\nfrom = \"h0\"\nto = \"h1\"\n";
        let key = spec.name;
        let document: Value = match which {
            0 => json!({ "scenario": "long-flows", "set": { "protocol": format!("{owner}:{key}={value}") } }),
            1 => json!({ "scenario": "long-flows", "set": { "queue": format!("{owner}:{key}={value}") } }),
            _ if owner == "link" && !matches!(key, "rate" | "delay") => {
                json!({ "toml": format!("{head}{link}{key} = {text}\n{work}") })
            }
            _ if owner == "link" => {
                json!({ "toml": format!("{head}[[link]]\nbetween = [\"h0\", \"h1\"]\n{key} = {text}\n{work}") })
            }
            _ if key == "kind" => json!({ "toml": format!("{head}{link}[[workload]]\nkind = {text}\n") }),
            _ => json!({ "toml": format!("{head}{link}[[workload]]\nkind = \"{owner}\"\n{key} = {text}\n") }),
        };
        let tried = caught(|| match resolve(&document.to_string()) {
            Ok(_) if bad.is_some() => Err("is taken".to_owned()),
            Ok(_) => Ok(0),
            Err(e) => one_line(&e).map(|()| 1),
        });
        tried.map_err(|what| format!("{what}\n  {document}"))
    });
}

fn toml_text(value: &str) -> String {
    let escaped: String = value.chars().map(|c| format!("\\U{:08X}", c as u32)).collect();
    format!("\"{escaped}\"")
}

#[test]
fn texts_of_every_key_are_known() {
    let registry = Registry::standard();
    let of_scenarios = scenarios::ALL.iter().flat_map(|s| s.specs().into_iter().map(|spec| (s.name, spec)));
    let of_tables = TABLES.iter().flat_map(|t| t.params().into_iter().map(|spec| (t.name, spec)));
    let of_protocols = registry.protocols().iter().flat_map(|p| p.params.iter().map(|spec| (p.name, *spec)));
    let of_queues = registry.queues().iter().flat_map(|q| q.params.iter().map(|spec| (q.name, *spec)));
    for (owner, spec) in of_scenarios.chain(of_tables).chain(of_protocols).chain(of_queues) {
        assert!(
            spec.kind != Kind::Text || Generator::knows(owner, &spec),
            "{owner}: no texts of key {}",
            spec.name
        );
    }
}

#[test]
fn every_scenario_protocol_queue_workload_and_key_is_drawn() {
    let text: String = (0..4000).map(|seed| Generator::new(seed).document().to_string()).collect();
    let registry = Registry::standard();
    for name in registry.protocols().iter().map(|p| p.name).chain(registry.queues().iter().map(|q| q.name)) {
        assert!(text.contains(name), "{name} is never drawn");
    }
    for s in scenarios::ALL {
        assert!(s.name == "custom" || text.contains(&format!("\"scenario\":\"{}\"", s.name)), "{}", s.name);
        for spec in s.specs().iter().filter(|spec| !["fail", "sharing"].contains(&spec.name)) {
            assert!(
                text.contains(&format!("\"{}\":", spec.name)),
                "{} of {} is never drawn",
                spec.name,
                s.name
            );
        }
    }
    for table in &TABLES[1..] {
        assert!(text.contains(&format!("kind = \\\"{}\\\"", table.name)), "{}", table.name);
        for spec in &table.params() {
            assert!(text.contains(&format!("\\n{} = ", spec.name)), "{} of {}", spec.name, table.name);
        }
    }
}
