//! TCP as a stack: the same runs as the engine that drove connections one by one, and every byte once where packets get lost, overtake each
//! other, or meet a link that fails.

use penstock_core::rng::Entity;
use penstock_core::tcp::{RetransmitThread, TcpConfig, ThreadSegment};
use penstock_core::{Amount, Stream};
use penstock_fabric::{Reordering, Rule};
use penstock_host::lab::{Flow, Outcome, Spread};
use penstock_host::{HostFacts, Lab, LabConfig, Network, Order, Stack, TcpOptions, TcpProtocol, TcpStack};
use penstock_models::registry::{protocol, receive_control, LinkFacts};
use penstock_units::{Dur, Rate, Time};
use proptest::prelude::*;
use std::sync::Arc;

/// A protocol of the registry with these options.
fn tcp(name: &str, mut config: TcpConfig) -> TcpProtocol {
    let (_, suite) = protocol("protocol", name).unwrap();
    (suite.configure)(&mut config);
    TcpProtocol { config: Arc::new(config), control: suite.endpoint }
}

fn end() -> Time {
    Time::ZERO + Dur::millis(3000)
}

// ---- against the engine --------------------------------------------------------------------------------------

/// The options of a case of `tests/engine/expected.csv`.
struct Case {
    lab: LabConfig,
    protocol: &'static str,
    tcp: TcpConfig,
    host_queue: Option<Amount>,
    threshold: Option<u32>,
    loss: f64,
    ictcp: bool,
}

fn case(name: &str) -> Case {
    let mut c = Case {
        lab: LabConfig::new(Network::Star { hosts: 5 }),
        protocol: "newreno",
        tcp: TcpConfig {
            rto_min: Dur::millis(5),
            rto_initial: Dur::millis(10),
            rwnd: 1_000_000_000,
            ..TcpConfig::default()
        },
        host_queue: Some(Amount::Packets(2)),
        threshold: None,
        loss: 0.0,
        ictcp: false,
    };
    c.lab.rate = Rate(1_000_000_000);
    c.lab.delay = Dur::micros(10);
    c.lab.endless = true;
    match name {
        "newreno" => {}
        "endless" => c.host_queue = None,
        "sack" => {
            c.protocol = "sack";
            (c.tcp.delayed_ack, c.tcp.quick_acks) = (2, 4);
            (c.tcp.timestamps, c.tcp.tail_loss_probe) = (true, true);
        }
        "dctcp" => {
            (c.protocol, c.threshold) = ("dctcp", Some(5));
            c.tcp.delayed_ack = 2;
        }
        "cubic" => (c.protocol, c.host_queue) = ("cubic", Some(Amount::Bytes(4000))),
        "thread" => {
            c.protocol = "reno";
            c.tcp.retransmit_thread = Some(RetransmitThread {
                probability: 0.2,
                every: Dur::micros(20),
                segment: ThreadSegment::Newest,
                rests_in_recovery: true,
            });
        }
        "ictcp" => c.ictcp = true,
        "loss" => (c.protocol, c.loss) = ("sack", 0.02),
        "read" => (c.tcp.read_rate, c.tcp.rwnd) = (Some(Rate(300_000_000)), 20_000),
        "framing" => (c.lab.framing, c.tcp.header_compression) = (38, true),
        other => panic!("no case {other}"),
    }
    c
}

fn run(name: &str) -> Vec<Outcome> {
    let Case { mut lab, protocol, tcp: config, host_queue, threshold, loss, ictcp } = case(name);
    lab.port = Box::new(move |number, of_host, port| {
        if !of_host {
            port.limit_packets = 12;
            port.rule = threshold.map_or(Rule::DropTail, |k| Rule::Threshold(Amount::Packets(k)));
            port.loss = Some((loss, Stream::new(1, 0, Entity::Loss, u64::from(number))));
        }
    });
    let tcp = tcp(protocol, config);
    let control = ictcp.then(|| receive_control("receive_control", "ictcp").unwrap().unwrap());
    let mut lab = Lab::new(lab, |facts: &HostFacts| {
        let link = LinkFacts {
            capacity: facts.rate,
            base_rtt: Dur::micros(40),
            packet: 1460,
            framing: facts.framing,
        };
        let receive = control.as_ref().map(|build| build(&link));
        let protocols = vec![tcp.clone()];
        let options = TcpOptions { protocols, endless: true, host_queue, receive, ..TcpOptions::default() };
        Box::new(TcpStack::new(facts, options)) as Box<dyn Stack>
    });
    let host = |text: &str| text[1..].parse::<u32>().unwrap();
    for line in include_str!("engine/flows.csv").lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let start = Time::ZERO + Dur::from_secs(cells[0].parse().unwrap());
        lab.start(Flow::new(host(cells[1]), host(cells[2]), cells[3].parse().unwrap()).at(start));
    }
    lab.run(end());
    lab.outcomes()
}

/// Every flow of every case to the picosecond: delivered, acknowledged, closed, and all counters.
#[test]
fn connections_of_a_stack_do_what_connections_driven_one_by_one_did() {
    let mut cases = 0;
    let mut found = (String::new(), Vec::new());
    for line in include_str!("engine/expected.csv").lines().filter(|l| !l.starts_with('#')).skip(1) {
        let (name, rest) = line.split_once(',').unwrap();
        if found.0 != name {
            found = (name.to_owned(), run(name));
            cases += 1;
        }
        let expected: Vec<u64> = rest.split(',').map(|n| n.parse().unwrap()).collect();
        let f = &found.1[expected[0] as usize];
        let c = &f.counters;
        let is = [
            f.completed.0,
            f.acked.0,
            f.closed.0,
            c.data_packets,
            c.retransmits,
            c.timeouts,
            c.fast_retransmits,
            c.ece_acks,
            f.drops,
            c.srtt.0,
            c.rtt_mean.0,
        ];
        assert_eq!(is, expected[1..], "{name}, flow {}: {:?}", expected[0], f.flow);
    }
    assert_eq!(cases, 10);
}
