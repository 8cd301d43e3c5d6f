use super::*;
use crate::metrics::Rows;
use serde_json::Value;

fn given(settings: &[(&str, &str)]) -> Vec<(String, String)> {
    settings.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

const BASE: [(&str, &str); 9] = [
    ("topology", "leaf-spine:2x2x4"),
    ("long_flows", "0"),
    ("link_rate", "10Gbps"),
    ("link_delay", "1us"),
    ("protocol", "dctcp"),
    ("queue", "threshold:k=65pkt"),
    ("initial_window", "10"),
    ("warmup", "1ms"),
    ("duration", "21ms"),
];

fn mix(more: &[(&str, &str)]) -> Result<Resolved, ParamError> {
    let all: Vec<_> = BASE.iter().filter(|b| !more.iter().any(|m| m.0 == b.0)).chain(more).copied().collect();
    Resolved::new("mix", &given(&all), 1, Value::Null)
}

fn approximate(r: &Resolved, text: &str, threads: usize) -> Result<Approximation, ParamError> {
    run(r, 0, text, threads, &Progress::default())
}

#[test]
fn flows_are_those_of_the_exact_run_and_a_lone_one_takes_as_long_as_alone() {
    // So few that none meets another: the estimate is the time in the idle network, and so is the exact one but for the hosts' noise.
    let r = mix(&[("arrivals", "poisson:2000"), ("sizes", "fixed:20KB"), ("send_jitter", "0s")]).unwrap();
    let exact = r.run(0, &Progress::default()).unwrap().engine;
    let found = approximate(&r, "links", 2).unwrap();
    let (a, b) = (&exact.recorder.flows, &found.recorder.flows);
    assert!(a.len() > 20 && a.len() == b.len());
    for (a, b) in a.iter().zip(b) {
        assert_eq!(
            (a.src, a.dst, a.opened, a.size, a.complete),
            (b.src, b.dst, b.opened, b.size, b.complete)
        );
        // Summed in the same order over the same links.
        assert_eq!(a.ideal.to_bits(), b.ideal.to_bits());
    }
    let slow = |records: &Rows<FlowRecord>| {
        let all: Vec<f64> = records.iter().map(FlowRecord::slowdown).filter(|x| x.is_finite()).collect();
        all.iter().sum::<f64>() / all.len() as f64
    };
    let (exact, found) = (slow(a), slow(b));
    assert!((found / exact - 1.0).abs() < 0.05, "{found} against {exact}");
}
#[test]
fn every_link_and_a_part_of_them_tell_of_the_same_network() {
    let r = mix(&[("arrivals", "load:50%"), ("sizes", "uniform:2KB:50KB")]).unwrap();
    let exact = r.run(0, &Progress::default()).unwrap().summary;
    let all = approximate(&r, "links:flows=0", 2).unwrap();
    let part = approximate(&r, "links:flows=500", 1).unwrap();
    // 8 hosts' links both ways, 4 cables of the fabric both ways.
    assert_eq!(all.links, (24, 24));
    assert!(part.links.1 <= 24 && part.links.1 >= 4, "{:?}", part.links);
    assert!(part.packet_hops < all.packet_hops / 2, "{} of {}", part.packet_hops, all.packet_hops);
    assert_eq!(all.summary["flows_opened"], exact["flows_opened"]);
    assert!(!all.summary.contains_key("queue_mean_packets"), "nothing is known of queues");
    for found in [&all, &part] {
        let ratio = found.summary["slowdown_p99"] / exact["slowdown_p99"];
        // Wide: the test is of the mechanism, tools/decomposition.py measures the error.
        assert!((0.6..1.6).contains(&ratio), "{ratio}, {:?} links", found.links);
        assert!(found.warnings[0].starts_with("approximate: "));
    }
}
#[test]
fn a_long_run_is_simulated_for_as_long_as_it_takes_for_the_samples() {
    let hops = |duration| {
        let r =
            mix(&[("arrivals", "load:40%"), ("sizes", "uniform:2KB:50KB"), ("duration", duration)]).unwrap();
        let found = approximate(&r, "links:flows=100", 2).unwrap();
        assert!(found.summary["flows_completed"] > 1000.0);
        found.packet_hops
    };
    // Everything is twice as long but the simulations, which differ by what the first flows happen to be.
    let (short, long) = (hops("21ms"), hops("41ms"));
    assert!((0.7..1.4).contains(&(long as f64 / short as f64)), "{short} and {long}");
}
#[test]
fn the_number_of_threads_does_not_matter() {
    let r = mix(&[("arrivals", "load:30%"), ("sizes", "websearch"), ("duration", "11ms")]).unwrap();
    // All of every cable, and windows.
    for text in ["links:flows=0", "links:flows=300"] {
        let print = |threads| approximate(&r, text, threads).unwrap().fingerprint();
        assert_eq!(print(1), print(3), "{text}");
    }
}
#[test]
fn where_flows_are_alone_each_takes_as_long_as_in_the_exact_run() {
    let r = mix(&[("arrivals", "poisson:500"), ("sizes", "fixed:20KB"), ("send_jitter", "0s")]).unwrap();
    let exact = r.run(0, &Progress::default()).unwrap().engine;
    let found = approximate(&r, "links:flows=0", 1).unwrap();
    let slow =
        |records: &Rows<FlowRecord>| -> Vec<f64> { records.iter().map(FlowRecord::slowdown).collect() };
    let (exact, found) = (slow(&exact.recorder.flows), slow(&found.recorder.flows));
    let same = exact.iter().zip(&found).filter(|(a, b)| (*a / *b - 1.0).abs() < 1e-6).count();
    // Two of them may meet.
    assert!(
        exact.len() >= 5 && same + 1 >= exact.len(),
        "{same} of {}: {exact:?} and {found:?}",
        exact.len()
    );
}
#[test]
fn windows_stand_for_all_flows_and_carry_what_a_fluid_would() {
    let r = mix(&[("arrivals", "load:60%"), ("sizes", "pareto:1.4:44KB"), ("duration", "101ms")]).unwrap();
    let (plan, setup, traffic) = begin(&r, 0, "links:flows=2000").unwrap();
    let kinds = kinds::sort(&setup, &traffic);
    let grid = windows::grid(&setup, &traffic);
    let crowds = fluid::crowds(&setup.topology, &traffic, grid);
    let chosen = windows::choose(&setup, &traffic, &kinds, (&crowds, grid), plan.flows);
    let begins = |links: &mut dyn Iterator<Item = u32>, (from, until): (Time, Time)| -> f64 {
        let starts = links.flat_map(|l| traffic.crossing(l)).map(|(f, _)| traffic.flows[*f as usize].start);
        starts.filter(|s| *s >= from && *s < until).count() as f64
    };
    for (kind, windows) in kinds.all.iter().zip(&chosen) {
        assert!(windows.len() > 5 && windows.iter().all(|w| !w.is_whole()));
        let all = (grid.first, grid.first + grid.length * grid.count);
        let there = begins(&mut kind.cables.iter().flat_map(|c| c.links()), all);
        let stood_for: f64 = windows.iter().map(|w| w.weight * begins(&mut w.cable.links(), w.samples)).sum();
        assert!((0.7..1.4).contains(&(stood_for / there)), "{stood_for} for {there}");
        for window in windows {
            let flows = windows::flows(&traffic, &crowds, window, kind.apart);
            for link in window.cable.links() {
                let bytes: u64 = flows.iter().filter(|f| f.link == link).map(|f| f.bytes).sum();
                let span = window.span.1.since(window.span.0).as_secs();
                // Every flow has a byte at least.
                assert!(bytes as f64 <= traffic.capacity[link as usize] * span + flows.len() as f64);
            }
            let whole = |f: &&windows::There| f.bytes == traffic.flows[f.flow as usize].bytes;
            assert!(flows.iter().filter(|f| f.sample).all(|f| whole(&f)));
            assert!(flows.is_sorted_by_key(|f| f.start));
        }
        assert!(windows.iter().any(|w| w.weight > 1.0));
    }
}
#[test]
fn a_cancelled_one_has_no_flows() {
    let r = mix(&[("arrivals", "load:30%")]).unwrap();
    let progress = Progress::default();
    progress.cancelled.store(true, Ordering::Relaxed);
    let found = run(&r, 0, "links", 2, &progress).unwrap();
    assert!(!found.completed && found.recorder.flows.is_empty());
    assert!(!found.summary.contains_key("slowdown_p99"));
}
#[test]
fn what_cannot_be_taken_apart_is_refused_by_rule() {
    for (settings, text, words) in [
        (&[("arrivals", "closed")][..], "links", "workload 1 reacts to what becomes of its flows"),
        (&[("long_flows", "2"), ("arrivals", "load:10%")], "links", "workload 0 opens a flow without end"),
        (&[("arrivals", "load:10%"), ("spread", "packet")], "links", "spread=drawn or ideal"),
        (
            &[("arrivals", "load:10%"), ("protocol", "rcp"), ("queue", "droptail")],
            "links",
            "rcp is another transport",
        ),
        (&[("arrivals", "load:10%"), ("buffer", "shared:alpha=1,size=1MB")], "links", "buffer of its own"),
        (&[("arrivals", "load:10%"), ("processing_delay", "1us")], "links", "processing_delay=0s"),
        (&[("arrivals", "load:10%"), ("receive_lag", "0.5:1us,1:9us")], "links", "not late together"),
        (
            &[("arrivals", "load:10%"), ("sender_turn", "1e-9:1us,1:1us")],
            "links",
            "sender_turn, application_lag, application_turn, write_lag",
        ),
        (
            &[("arrivals", "load:10%"), ("data_handover", "1e-9:1us,1:1us")],
            "links",
            "receive_lag, data_handover",
        ),
        (&[("arrivals", "load:10%"), ("application_lag", "1e-9:1us,1:1us")], "links", "application_lag,"),
        (&[("arrivals", "load:10%"), ("write_time", "1e-9:1us,1:1us")], "links", "write_time and"),
        (&[("arrivals", "load:10%"), ("fail", "leaf0<->spine0@5ms")], "links", "neither fail nor change"),
        (&[("arrivals", "load:10%")], "nodes", "approximate = \"nodes\": must be links or links:flows=N"),
        (&[("arrivals", "load:10%")], "links:flows=-1", "approximate:flows"),
    ] {
        let problem = mix(settings).and_then(|r| approximate(&r, text, 1).map(|_| ()));
        let message = problem.unwrap_err().to_string();
        assert!(message.contains(words), "{message}");
    }
}
