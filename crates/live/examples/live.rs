//! Runs a scenario live without Python: `cargo run --release -p penstock-live --example live -- incast servers=8
//! rto_min=10ms`; keys after `--` are options of the live view. For working on the live network alone.

use penstock_live::scenario::LiveScenario;
use penstock_live::Failure;
use serde_json::{json, Map, Value};
use std::sync::Arc;

fn main() {
    let (mut set, mut live, mut name) = (Map::new(), Map::new(), "incast".to_owned());
    for a in std::env::args().skip(1) {
        match a.split_once('=') {
            None => name = a,
            Some((k, v)) if k.starts_with("--") => drop(live.insert(k[2..].into(), Value::String(v.into()))),
            Some((k, v)) => drop(set.insert(k.into(), Value::String(v.into()))),
        }
    }
    let document = json!({"scenario": name, "set": set, "live": live}).to_string();
    let scenario = LiveScenario::new(&document).unwrap_or_else(|e| {
        eprintln!("{e}");
        std::process::exit(2)
    });
    match penstock_live::run(&scenario, 0, Arc::default()) {
        Ok(outcome) => {
            for (key, value) in &outcome.summary {
                println!("{key:24} {value}");
            }
            println!("{:24} {:.3}", "cpu_s", outcome.cpu_s);
            outcome.quality.notes.iter().for_each(|n| println!("note: {n}"));
        }
        Err(Failure::Input(e)) => {
            eprintln!("{e}");
            std::process::exit(2);
        }
        Err(Failure::Run(e)) => {
            eprintln!("{e}");
            std::process::exit(3);
        }
    }
}
