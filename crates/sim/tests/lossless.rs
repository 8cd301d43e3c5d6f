//! Priority flow control through whole runs: headroom by formula loses nothing, one packet less does, a victim is slowed, a cycle
//! of waiting ports is found, and a network of tiers never has one.

use penstock_core::rng::Entity;
use penstock_core::Stream;
use penstock_sim::document::resolve;
use penstock_sim::engine::Progress;
use penstock_sim::results::Summary;
use penstock_sim::scenario::{Outcome, Resolved};
use serde_json::json;
use std::fmt::Write;

fn resolved(toml: &str, set: &[(&str, &str)]) -> Resolved {
    let set: serde_json::Map<_, _> = set.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect();
    resolve(&json!({ "toml": toml, "seed": 1, "set": set }).to_string()).unwrap()
}

fn run(toml: &str, set: &[(&str, &str)]) -> Outcome {
    resolved(toml, set).run(0, &Progress::default()).unwrap()
}

/// 64 hosts behind four switches send to one host behind a fifth, all at once and without regard to anything: windows are as
/// large as what they have to send. Lengths of cables, rates, packets, thresholds and phases are random; on the way back there are
/// full packets too, for which pause frames have to wait. Every host sends `bytes`.
fn incast(rng: &mut Stream) -> String {
    let pick = |rng: &mut Stream, of: &[u64]| of[rng.below(of.len() as u64) as usize];
    let segment = pick(rng, &[512, 1000, 1460, 4096, 8960]);
    let packet = segment + 40;
    let xoff = packet * (1 + rng.below(20));
    let framing = if rng.below(2) == 0 { "none" } else { "ethernet" };
    let mut toml = format!(
        "scenario = \"custom\"\nduration = \"10s\"\nsegment = \"{segment}B\"\nframing = \"{framing}\"\n\
         host_queue = \"unlimited\"\ninitial_window = 10000\nrto_min = \"1s\"\nrto_initial = \"5s\"\n\
         pfc = \"on:xoff={xoff}B,xon={}B,response={}ns\"\nsend_jitter = \"{}ns\"\n\
         hosts = [\"s[0-63]\", \"r\", \"n[0-3]\"]\nswitches = [\"leaf[0-4]\", \"spine\"]\n",
        rng.below(xoff + 1),
        rng.below(500),
        rng.below(200),
    );
    let mut link = |rng: &mut Stream, a: &str, b: &str, gbps: u64| {
        let delay = rng.below(2_000);
        writeln!(
            toml,
            "[[link]]\nbetween = [\"{a}\", \"{b}\"]\nrate = \"{gbps}Gbps\"\ndelay = \"{delay}ns\""
        )
        .unwrap();
    };
    for i in 0..64 {
        let gbps = pick(rng, &[25, 50, 100]);
        link(rng, &format!("s{i}"), &format!("leaf{}", i / 16), gbps);
    }
    for leaf in 0..5 {
        let gbps = pick(rng, &[100, 200, 400]);
        link(rng, &format!("leaf{leaf}"), "spine", gbps);
    }
    for host in ["r", "n0", "n1", "n2", "n3"] {
        link(rng, host, "leaf4", 100);
    }
    let size = segment * (4 + rng.below(12));
    let spread = rng.below(3_000);
    write!(
        toml,
        "[[workload]]\nfrom = \"s[0-63]\"\nto = \"r\"\nsize = \"{size}B\"\nspread = \"{spread}ns\"\n\
         [[workload]]\nfrom = [\"r\", \"n0\", \"n1\", \"n2\", \"n3\"]\nto = [\"s0\", \"s16\", \"s32\", \"s48\", \"s63\"]\n\
         size = \"{}B\"\nspread = \"{spread}ns\"\n",
        segment * 60,
    )
    .unwrap();
    toml
}

fn has(s: &Summary, key: &str) -> f64 {
    s.get(key).copied().unwrap_or(0.0)
}

/// Packets lost and pauses over `runs` random runs.
fn lost(
    runs: std::ops::Range<u64>,
    headroom: impl Fn(&Resolved) -> Vec<(&'static str, String)>,
) -> (f64, f64, usize) {
    let (mut lost, mut pauses, mut losing) = (0.0, 0.0, 0);
    for i in runs {
        let toml = incast(&mut Stream::new(7, i, Entity::Workload, 0));
        let r = resolved(&toml, &[]);
        let set = headroom(&r);
        let set: Vec<(&str, &str)> = set.iter().map(|(k, v)| (*k, v.as_str())).collect();
        let o = run(&toml, &set);
        assert_eq!(has(&o.summary, "flows_completed"), 69.0, "run {i}");
        if std::env::var_os("SHOW").is_some() {
            for port in o.engine.ports() {
                let st = port.stats();
                if st.drops.iter().sum::<u64>() > 0 {
                    let l = &r.setup(0).unwrap().topology;
                    let n = o.engine.measured().ports.iter().position(|p| std::ptr::eq(p, port)).unwrap();
                    println!("run {i} {} {:?} {:?}", l.link_name(n as u32), st.drops, r.params.text("pfc"));
                }
            }
        }
        losing += usize::from(has(&o.summary, "drops") > 0.0);
        lost += has(&o.summary, "drops");
        pauses += has(&o.summary, "pauses");
    }
    (lost, pauses, losing)
}

#[test]
fn headroom_by_formula_loses_nothing() {
    let (lost, pauses, _) = lost(0..50, |_| Vec::new());
    println!("lost {lost}, pauses {pauses}");
    assert_eq!(lost, 0.0);
    assert!(pauses > 50.0 * 20.0, "{pauses}");
}
#[test]
fn debug_variations() {
    for set in [
        vec![],
        vec![("send_jitter", "0s")],
        vec![("schedule", "strict")],
        vec![("framing", "none")],
        vec![("pfc", "on:xoff=20000B,xon=0B")],
        vec![("initial_window", "10")],
    ] {
        let (lost, pauses, losing) =
            lost(0..50, |_| set.iter().map(|(k, v)| (*k, (*v).to_owned())).collect());
        println!("run {set:?} {lost} {pauses} {losing}");
    }
}
