//! TCP as a stack: the same runs as the engine that drove connections one by one, and every byte once where packets get lost, overtake each
//! other, or meet a link that fails.

use penstock_core::rng::Entity;
use penstock_core::tcp::{RetransmitThread, TcpConfig, ThreadSegment};
use penstock_core::{Amount, FlowId, Stream};
use penstock_fabric::{Arena, BufferConfig, Cell, PauseAt, Reordering, Rule};
use penstock_host::lab::{Flow, Outcome, Spread};
use penstock_host::{
    FastPath, HostFacts, Lab, LabConfig, Net, Network, Nic, NicConfig, Opening, Order, Stack, StackEvent,
    TcpOptions, TcpProtocol, TcpStack,
};
use penstock_models::registry::{protocol, receive_control, LinkFacts};
use penstock_units::{Dur, Rate, Time};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::Arc;

/// A protocol of the registry with these options.
fn tcp(name: &str, mut config: TcpConfig) -> TcpProtocol {
    let (_, suite) = protocol("protocol", name).unwrap();
    suite.set_up(&mut config);
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
            port: 0,
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

// ---- where packets get lost ----------------------------------------------------------------------------------

#[derive(Clone, Debug)]
struct Rough {
    network: Network,
    spread: Spread,
    protocol: &'static str,
    endless: bool,
    host_queue: bool,
    order: Order,
    limit: u32,
    loss: f64,
    reorder: f64,
    delays: (u64, u64),
    tail_loss_probe: bool,
    fail: Option<(u32, u64, u64, bool)>,
    flows: Vec<(u32, u32, u64, u64)>,
    seed: u64,
}

impl Rough {
    fn run(&self) -> Lab {
        let mut lab = LabConfig::new(self.network);
        (lab.spread, lab.endless, lab.order, lab.seed) = (self.spread, self.endless, self.order, self.seed);
        lab.receive_delay = Dur::nanos(self.delays.0);
        lab.processing = Dur::nanos(self.delays.1);
        let Rough { limit, loss, reorder, seed, .. } = *self;
        lab.port = Box::new(move |number, of_host, port| {
            let stream = |kind| Stream::new(seed, 0, kind, u64::from(number));
            port.loss = Some((loss, stream(Entity::Loss)));
            if reorder > 0.0 {
                let rule = Reordering { share: reorder, extra: Dur::micros(20) };
                port.reorder = Some((rule, stream(Entity::Jitter)));
            }
            if !of_host {
                port.limit_packets = limit;
                port.rule = Rule::Threshold(Amount::Packets(limit / 2));
            }
        });
        let config = TcpConfig {
            rto_min: Dur::micros(500),
            rto_initial: Dur::millis(1),
            rto_max: Dur::millis(20),
            tail_loss_probe: self.tail_loss_probe,
            ..TcpConfig::default()
        };
        let tcp = tcp(self.protocol, config);
        let host_queue = (self.endless && self.host_queue).then_some(Amount::Packets(2));
        let mut lab = Lab::new(lab, |facts: &HostFacts| {
            let (protocols, endless) = (vec![tcp.clone()], self.endless);
            let options = TcpOptions { protocols, endless, host_queue, ..TcpOptions::default() };
            Box::new(TcpStack::new(facts, options)) as Box<dyn Stack>
        });
        let n = self.network.hosts();
        for (src, by, bytes, start) in &self.flows {
            let (src, start) = (src % n, Time::ZERO + Dur::micros(*start));
            lab.start(Flow::new(src, (src + 1 + by % (n - 1)) % n, *bytes).at(start));
        }
        if let Some((port, at, span, lose)) = self.fail {
            let port = port % self.network.ports();
            lab.fail(Time::ZERO + Dur::micros(at), port, lose);
            lab.recover(Time::ZERO + Dur::micros(at + span), port);
        }
        lab.run(Time::ZERO + Dur::millis(60_000));
        lab
    }
}

fn rough() -> impl Strategy<Value = Rough> {
    let network = prop_oneof![
        (2u32..6).prop_map(|hosts| Network::Star { hosts }),
        (2u32..4, 1u32..4, 1u32..3).prop_map(|(leaves, spines, hosts_per_leaf)| Network::LeafSpine {
            leaves,
            spines,
            hosts_per_leaf
        }),
    ];
    let protocol = prop_oneof![Just("reno"), Just("newreno"), Just("sack"), Just("dctcp"), Just("cubic")];
    let flow = (0u32..100, 0u32..100, 1u64..200_000, 0u64..500);
    let kinds = (
        prop_oneof![Just(Spread::PerFlow), Just(Spread::PerPacket)],
        prop_oneof![Just(Order::RoundRobin), Just(Order::Strict)],
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
    );
    let trouble = (
        4u32..40,
        prop_oneof![Just(0.0), 0.0..0.1],
        prop_oneof![Just(0.0), 0.0..0.2],
        (0u64..2000, 0u64..300),
        prop::option::of((0u32..100, 0u64..600, 0u64..3000, any::<bool>())),
    );
    (network, protocol, kinds, trouble, prop::collection::vec(flow, 1..6), 0u64..1000).prop_map(
        |(network, protocol, kinds, trouble, flows, seed)| {
            let (spread, order, endless, host_queue, tail_loss_probe) = kinds;
            let (limit, loss, reorder, delays, fail) = trouble;
            Rough {
                network,
                spread,
                protocol,
                endless,
                host_queue,
                order,
                limit,
                loss,
                reorder,
                delays,
                tail_loss_probe,
                fail,
                flows,
                seed,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    /// The lab checks that every byte is delivered once and in order and that packets are conserved.
    #[test]
    fn every_byte_once_whatever_happens_to_packets(rough in rough()) {
        for f in rough.run().outcomes() {
            prop_assert_eq!(f.delivered, f.flow.bytes);
            prop_assert!(f.completed <= f.acked && f.acked <= f.closed && f.closed < Time::NEVER, "{:?}", f);
        }
    }
}

// ---- the network card ----------------------------------------------------------------------------------------

fn plain(config: LabConfig, endless: bool) -> Lab {
    let tcp = tcp("sack", TcpConfig::default());
    Lab::new(config, move |facts: &HostFacts| {
        let options = TcpOptions { protocols: vec![tcp.clone()], endless, ..TcpOptions::default() };
        Box::new(TcpStack::new(facts, options)) as Box<dyn Stack>
    })
}

/// With a window in the host's queue, a short flow waits behind all of it; pulled in turn it waits for a packet of each other flow.
#[test]
fn a_short_flow_does_not_wait_behind_windows_that_are_pulled() {
    let short = |endless| {
        let mut config = LabConfig::new(Network::Star { hosts: 3 });
        config.endless = endless;
        let mut lab = plain(config, endless);
        lab.start(Flow::new(0, 1, 20_000_000));
        let short = lab.start(Flow::new(0, 2, 1000).at(Time::ZERO + Dur::millis(10)));
        lab.run(end());
        let f = lab.outcomes()[short.0 as usize];
        f.completed - f.flow.start
    };
    let (pulled, queued) = (short(false), short(true));
    // SYN, its answer, and the data: 4 us of links each, a packet of the other flow before SYN and data.
    assert!(pulled < Dur::micros(20), "{pulled}");
    assert!(queued > Dur::micros(1000), "{queued}");
}

/// Two endless-enough flows of a host share its link packet by packet in turn; in strict order the first has all of it.
#[test]
fn the_order_of_connections_is_that_of_the_card() {
    let finish = |order| {
        let mut config = LabConfig::new(Network::Star { hosts: 3 });
        config.order = order;
        let mut lab = plain(config, false);
        // Towards different hosts, so that nothing is lost and the host's link is what they share.
        lab.start(Flow::new(0, 1, 10_000_000));
        lab.start(Flow::new(0, 2, 10_000_000));
        lab.run(end());
        let f = lab.outcomes();
        [f[0].completed.as_secs() * 1e3, f[1].completed.as_secs() * 1e3]
    };
    // 10 MB at 10 Gb/s are 8 ms of payload, 1500/1460 of that on the wire.
    let alone = 8.0 * 1500.0 / 1460.0;
    let [first, second] = finish(Order::RoundRobin);
    assert!((first - 2.0 * alone).abs() < 0.05 && (second - 2.0 * alone).abs() < 0.05, "{first} {second}");
    let [first, second] = finish(Order::Strict);
    assert!((first - alone).abs() < 0.05 && (second - 2.0 * alone).abs() < 0.05, "{first} {second}");
}

/// A receive delay is a longer path: the round trip grows by it once per end. Processing is a queue: packets that come closer together
/// than it takes wait for each other.
#[test]
fn delays_of_the_receiving_host() {
    let run = |receive_delay, processing| {
        let mut config = LabConfig::new(Network::Star { hosts: 2 });
        (config.receive_delay, config.processing) = (receive_delay, processing);
        let mut lab = plain(config, false);
        lab.start(Flow::new(0, 1, 14_600));
        lab.run(end());
        (lab.outcomes()[0].completed, lab.steps())
    };
    let (base, steps) = run(Dur::ZERO, Dur::ZERO);
    // SYN, its answer, data: three times the delay of a host.
    let (later, _) = run(Dur::micros(3), Dur::ZERO);
    assert_eq!(later - base, Dur::micros(9));
    // Ten packets, 1.2 us apart, 2 us each: SYN, its answer, and the first packet are 2 us later each, and every further packet 0.8 us.
    let (slow, more) = run(Dur::ZERO, Dur::micros(2));
    assert_eq!(slow - base, Dur::micros(6) + Dur::nanos(9 * 800));
    // No event where there is no delay, one per packet at its host where there is.
    let packets = plain_packets();
    assert_eq!(more - steps, packets, "{steps} {more}");
}

/// Packets of the flow above: SYN and its answer, ten of data, FIN on the last; an ACK for each.
fn plain_packets() -> u64 {
    2 + 10 + 10
}

// ---- pause ---------------------------------------------------------------------------------------------------

/// Six to one through a switch with a small buffer: without pause packets are lost; with it none are, because the hosts' cards hold back.
#[test]
fn a_paused_host_loses_nothing() {
    let drops = |lossless| {
        let mut config = LabConfig::new(Network::Star { hosts: 7 });
        config.buffer = Some(Box::new(move |ports, ingresses| {
            let mut buffer = BufferConfig::pool(200_000, ports, ingresses);
            buffer.lossless = lossless;
            // What is under way when the pause takes effect: two delays at 10 Gb/s, and a packet at each end.
            buffer.headroom = vec![2 * 1250 + 2 * 1500 + 64; usize::from(ingresses)];
            buffer.pause = PauseAt::Static { xoff: 15_000, xon: 6_000 };
            buffer
        }));
        let mut lab = plain(config, false);
        for src in 1..7 {
            lab.start(Flow::new(src, 0, 2_000_000));
        }
        lab.run(end());
        assert!(lab.outcomes().iter().all(|f| f.delivered == 2_000_000));
        let paused: Dur = lab.fabric().ports().iter().fold(Dur::ZERO, |sum, p| sum + Dur(p.stats().paused));
        assert_eq!(paused, Dur::ZERO, "the cards are paused, no port is");
        lab.outcomes().iter().map(|f| f.drops).sum::<u64>()
    };
    assert_eq!(drops(1), 0);
    assert!(drops(0) > 100);
}

// ---- the short ways of a network card ------------------------------------------------------------------------

/// What two hosts send each other, ten microseconds apart.
struct Between {
    arena: Arena,
    sent: Vec<(Time, u32, Cell)>,
    told: Vec<StackEvent>,
    free_at: Time,
}

impl Net for Between {
    fn arena(&mut self) -> &mut Arena {
        &mut self.arena
    }
    fn transmit(&mut self, at: Time, port: u32, cell: Cell) -> Option<Time> {
        self.sent.push((at, port, cell));
        self.free_at = self.free_at.max(at) + Dur::micros(1);
        Some(self.free_at)
    }
    fn tell(&mut self, _: Time, stack_events: StackEvent) {
        self.told.push(stack_events);
    }
}

/// Every packet and every piece of news of connections that open while others are on their way; every 23rd packet is lost. `at_once`: a connection is opened, given its
/// bytes and closed in one call.
fn all_that_happens<S: FastPath>(
    build: impl Fn(&HostFacts, TcpOptions) -> S,
    host_queue: Option<Amount>,
    at_once: bool,
) -> Vec<String> {
    let protocol = tcp("newreno", case("newreno").tcp);
    let mut nics: Vec<Nic<S>> = (0..2)
        .map(|host| {
            let (rate, delay) = (Rate(1_000_000_000), Dur::micros(10));
            let facts = HostFacts {
                host,
                rate,
                delay,
                base_rtt: Dur::micros(40),
                longest_wait: Dur::ZERO,
                oversubscription: 1.0,
                mss: 1460,
                framing: 0,
                order: Order::RoundRobin,
                seed: 1,
                run: 0,
            };
            let protocols = vec![protocol.clone()];
            let options = TcpOptions { protocols, endless: true, host_queue, ..TcpOptions::default() };
            let (receive_delay, processing) = (Dur::ZERO, Dur::ZERO);
            let card =
                NicConfig { port: host, rate, delay, framing: 0, endless: true, receive_delay, processing };
            Nic::new(card, vec![build(&facts, options)])
        })
        .collect();
    let (arena, told) = (Arena::new(false), Vec::new());
    let mut net = Between { arena, sent: Vec::new(), told, free_at: Time::ZERO };
    let mut openings = (0u32..12).map(|n| (Time::ZERO + Dur::micros(30 * u64::from(n)), n)).peekable();
    let mut under_way = VecDeque::new();
    let (mut log, mut number) = (Vec::new(), 0);
    loop {
        let opens = openings.peek().map_or(Time::NEVER, |(at, _)| *at);
        let arrives = under_way.front().map_or(Time::NEVER, |(at, ..): &(Time, u32, Cell)| *at);
        let alarms = nics[0].next_timer().min(nics[1].next_timer());
        let now = opens.min(arrives).min(alarms);
        if now == Time::NEVER {
            assert!(number > 300 && log.len() > number, "{number} packets");
            return log;
        }
        let host;
        if now == arrives {
            let (_, to, cell) = under_way.pop_front().unwrap();
            host = to as usize;
            nics[host].receive_and_send(now, &cell, &mut net);
        } else if now == alarms {
            host = usize::from(nics[0].next_timer() != now);
            nics[host].on_timer_and_send(now, &mut net);
        } else {
            host = 0;
            let (_, n) = openings.next().unwrap();
            let bytes = u64::from(n * n) * 700;
            let o = Opening {
                flow: FlowId(n),
                src: 0,
                dst: 1,
                at_src: n,
                at_dst: n,
                bytes,
                ..Opening::default()
            };
            nics[1].accept(now, 0, &o, &mut net);
            if at_once {
                nics[0].begin(now, 0, &o, (bytes, true), &mut net);
            } else {
                nics[0].open(now, 0, &o, &mut net);
                if bytes > 0 {
                    nics[0].write(now, n, bytes, &mut net);
                }
                nics[0].close(now, n, &mut net);
            }
            nics[0].flush(now, n, &mut net);
        }
        for stack_events in std::mem::take(&mut net.told) {
            log.push(format!("{now:?} {stack_events:?}"));
            if let StackEvent::Closed { flow } = stack_events {
                nics[1].remove(now, flow.0, &mut net);
                nics[0].remove(now, flow.0, &mut net);
            }
        }
        nics[host].transmit(now, &mut net);
        for (at, port, mut cell) in std::mem::take(&mut net.sent) {
            log.push(format!("{at:?} {port} {:?}", net.arena.packets[cell.packet as usize]));
            number += 1;
            if number % 23 == 0 {
                net.arena.release(cell.packet);
                continue;
            }
            cell.time = 0;
            under_way.push_back((at + Dur::micros(10), 1 - port, cell));
        }
    }
}

/// A card that knows that its stack is TCP sends without asking for each packet, and opens, fills and closes a connection in one call: the same as through
/// the trait, step by step.
#[test]
fn the_short_ways_of_a_card_are_those_of_any_stack() {
    for host_queue in [None, Some(Amount::Packets(2))] {
        let short = all_that_happens(TcpStack::new, host_queue, true);
        let boxed = |facts: &HostFacts, options| Box::new(TcpStack::new(facts, options)) as Box<dyn Stack>;
        assert_eq!(short, all_that_happens(boxed, host_queue, false));
        assert_eq!(short, all_that_happens(TcpStack::new, host_queue, false));
    }
}
