//! Runs a scenario without Python: `cargo run --release --example run -- incast servers=32 duration=5s`; a name that
//! ends in `.toml` is a scenario file.
//! For profiling the engine alone. `threads=N` runs it on N cores, `shares=N` with so many parts for each, with `ALWAYS` in the environment however little there is to do, with `PLAIN` event by event. With `FINGERPRINT` in the environment it prints that of the result, with `EVENTS` the events,
//! with `TABLES` what it takes to make the columns of all tables.

// The wall clock is what profiling is about.
#![allow(clippy::disallowed_methods)]

use penstock_sim::cores::Threads;
use penstock_sim::engine::Progress;
use penstock_sim::scenario::Resolved;
use penstock_sim::tables::NAMES;
use std::time::Instant;

fn main() {
    let mut args = std::env::args().skip(1);
    let name = args.next().unwrap_or_else(|| "incast".into());
    let mut given: Vec<(String, String)> =
        args.filter_map(|a| a.split_once('=').map(|(k, v)| (k.to_string(), v.to_string()))).collect();
    let seed = given.iter().position(|(k, _)| k == "seed").map(|i| given.remove(i).1);
    let threads = given.iter().position(|(k, _)| k == "threads").map(|i| given.remove(i).1);
    let threads: usize = threads.map_or(1, |t| t.parse().expect("threads is a whole number"));
    let shares = given.iter().position(|(k, _)| k == "shares").map(|i| given.remove(i).1);
    let always = std::env::var_os("ALWAYS").is_some();
    let plain = std::env::var_os("PLAIN").is_some();
    let threads = match always {
        _ if plain => Threads { by_windows: false, ..Threads::always(threads) },
        true => Threads::always(threads),
        false => Threads::up_to(threads),
    };
    let shares = shares.map_or(threads.shares, |n| n.parse().expect("shares is a whole number"));
    let threads = Threads { shares, ..threads };
    let seed: u64 = seed.map_or(1, |s| s.parse().expect("seed is a whole number"));
    let found = if name.ends_with(".toml") {
        let text = std::fs::read_to_string(&name).unwrap_or_else(|e| panic!("{name}: {e}"));
        let base =
            std::path::Path::new(&name).parent().expect("a file has a folder").to_string_lossy().into_owned();
        let set: serde_json::Map<_, _> = given.iter().map(|(k, v)| (k.clone(), v.clone().into())).collect();
        penstock_sim::document::resolve(
            &serde_json::json!({"toml": text, "name": name, "base_dir": base, "set": set, "seed": seed})
                .to_string(),
        )
    } else {
        Resolved::new(&name, &given, seed, serde_json::Value::Null)
    };
    let resolved = match found {
        Ok(r) => r,
        Err(e) => {
            eprintln!("{e}");
            std::process::exit(2);
        }
    };
    for (key, text) in &resolved.derived {
        println!("{key:24} {text}");
    }
    for note in &resolved.notes {
        println!("note: {note}");
    }
    let start = Instant::now();
    let (mut outcome, cores) =
        resolved.run_on(0, &threads, &Progress::default()).expect("the scenario was checked");
    let seconds = start.elapsed().as_secs_f64();
    for (key, value) in &outcome.summary {
        println!("{key:24} {value}");
    }
    println!("{:24} {}", "bottleneck", outcome.bottleneck);
    if std::env::var_os("FINGERPRINT").is_some() {
        let measured = outcome.engine.measured();
        println!(
            "{:24} {}",
            "fingerprint",
            penstock_sim::fingerprint::fingerprint(&measured, &outcome.summary)
        );
    }
    for line in &outcome.warnings {
        println!("warning: {line}");
    }
    let mut kinds = std::collections::BTreeMap::new();
    for e in &outcome.engine.recorder.events {
        *kinds.entry((e.what.name(), e.block_start)).or_insert(0u64) += 1;
        if std::env::var_os("EVENTS").is_some() {
            println!(
                "{:.6} flow {} {} start {} offset {} outstanding {} cwnd {} rto {} row {} drops {}",
                e.at.as_secs(),
                e.flow,
                e.what.name(),
                e.block_start,
                e.offset,
                e.outstanding,
                e.cwnd,
                e.length,
                e.in_a_row,
                e.drops
            );
        }
    }
    for ((what, at_start), n) in kinds {
        println!("{what}{:8} {n}", if at_start { " (block start)" } else { "" });
    }
    println!("{:24} {}", "threads", cores.threads);
    if cores.work.windows > 0 {
        let w = cores.work;
        println!(
            "{:24} {} windows, {} letters, balance {:.2}",
            "work",
            w.windows,
            w.packet_messages,
            w.balance()
        );
    }
    if let Some(note) = cores.note {
        println!("note: {note}");
    }
    println!("{:24} {}", "series_rows", outcome.engine.recorder.series.len());
    if std::env::var_os("TABLES").is_some() {
        let start = Instant::now();
        let rows: usize =
            NAMES.iter().map(|name| penstock_sim::tables::take(&mut outcome.engine, name).rows()).sum();
        println!("{:24} {:.3} of {rows} rows", "tables_s", start.elapsed().as_secs_f64());
    }
    println!("{:24} {seconds:.3}", "wall_s");
    println!("{:24} {:.1}", "ns_per_hop", seconds * 1e9 / outcome.engine.packet_hops() as f64);
}
