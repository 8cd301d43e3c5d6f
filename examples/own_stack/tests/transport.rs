//! Runs the example and checks what must come out of it, whatever the seed.

use own_stack::{beside, ACK, FIXED_WINDOW, HEADER};
use penstock::{Results, Simulation};

/// Two hosts, 10 Gb/s and 1 us on each of two links.
fn alone(parameters: &str, bytes: &str) -> Results {
    Simulation::on("star:2")
        .link("10Gbps", "1us")
        .set("send_jitter", "0s")
        .transport((&FIXED_WINDOW, parameters))
        .flow("h0", "h1", bytes, "0s")
        .duration("1s")
        .run()
        .unwrap()
}

/// Guards: the time of a transfer, by hand. A packet of 1460 B and its headers takes p on a link, an ACK a. From the
/// start of a packet to its acknowledgement it takes 4 us + 2 p + 2 a.
#[test]
fn a_transfer_takes_the_time_that_arithmetic_says() {
    let us = |bytes: u32| f64::from(bytes) * 8.0 / 10e3;
    let (p, a) = (us(1460 + HEADER), us(ACK));
    let round = 4.0 + 2.0 * p + 2.0 * a;
    // A window of one: 10 packets, 10 round trips. A window of ten: nothing waits for an ACK.
    for (window, expected) in [(1, 10.0 * round), (10, 9.0 * p + round)] {
        let results = alone(&format!("window={window}"), "14600B");
        let took = results.flows()[0].closed.as_secs() * 1e6;
        assert!((took - expected).abs() < 1e-3, "window {window}: {took} us instead of {expected}");
    }
}

/// Guards: every byte arrives once where windows are far larger than the port's buffer, by timers alone.
#[test]
fn what_a_small_buffer_drops_is_sent_again() {
    let mut simulation = Simulation::on("star:5")
        .link("10Gbps", "1us")
        .buffer("20pkt")
        .transport((&FIXED_WINDOW, "window=100"));
    for i in 0..4 {
        simulation = simulation.flow(&*format!("h{i}"), "h4", "2MB", "0s");
    }
    let results = simulation.duration("2s").run().unwrap();
    assert!(
        results["drops"] > 0.0 && results["timeouts"] > 0.0 && results["retransmits"] >= results["drops"],
        "{results}"
    );
    for f in results.flows() {
        assert!(f.complete && f.delivered_bytes == 2_000_000, "{results}");
    }
}

/// Guards: links that fail, packets that are reordered, sprayed and trimmed; a run of several transports, each with its own stack.
#[test]
fn it_survives_what_a_network_does() {
    let mut simulation = Simulation::on("leaf-spine:2x2x4")
        .link("10Gbps", "1us")
        .set("spread", "packet")
        .set("trim", "64B")
        .set("reorder", "share=0.05,delay=20us")
        .set("fail", "leaf0<->spine0@200us-600us; h1<->leaf0@300us-700us")
        .buffer("10pkt");
    for (i, transport) in ["fixed-window", "newreno", "ndp", "fixed-window:window=4"].iter().enumerate() {
        simulation = simulation.with(&FIXED_WINDOW).transport(*transport);
        simulation = simulation.flow(&*format!("h{i}"), &*format!("h{}", 4 + i), "500KB", "0s");
    }
    let results = simulation.duration("3s").run().unwrap();
    assert!(results.flows().iter().all(|f| f.complete && f.delivered_bytes == 500_000), "{results}");
}

/// Guards: a transport without congestion control takes what its window is worth, whatever a mark says to the other one.
#[test]
fn a_larger_window_takes_more_from_dctcp() {
    let share = |window| {
        let results = beside("dctcp", window).unwrap();
        let flows = results.flows();
        flows[0].goodput_bps / flows.iter().map(|f| f.goodput_bps).sum::<f64>()
    };
    let shares = [4, 16, 64].map(share);
    assert!(shares[0] < shares[1] && shares[1] < shares[2], "{shares:?}");
}

/// Guards: its parameters are checked like those of any other, and keys that it cannot obey are refused.
#[test]
fn bad_input_is_one_line() {
    let error = beside("fixed-window:window=0", 4).unwrap_err().to_string();
    assert!(error.contains("window = \"0\""), "{error}");
    let error = Simulation::scenario("incast")
        .with(&FIXED_WINDOW)
        .set("protocol", "fixed-window")
        .set("nic", "endless")
        .run()
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("nic = \"endless\": must be pull, or unset"), "{error}");
}
