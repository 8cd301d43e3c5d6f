//! Priority flow control: headroom by formula loses nothing, one packet less does; cycles of waiting ports are found.

mod common;

use common::{stream, Net, Step};
use penstock_fabric::{
    Accounting, BufferConfig, Cable, Cell, Fabric, Ingress, NodeConfig, Offered, PauseAt, Port, PortConfig,
    Scheduler, Service,
};
use penstock_units::{Dur, Rate, Time};
use proptest::prelude::*;

const MTU: u32 = 1000;
/// Priority of the lossless traffic.
const LOSSLESS: u8 = 3;

fn port(number: u32, rate: Rate, delay: Dur) -> Port {
    let service = Service { scheduler: Scheduler::Strict, ..Service::default() };
    let config = PortConfig {
        service: Some(Box::new(service)),
        ..PortConfig::plain(rate, delay, stream(number.into()))
    };
    Port::new(number, config).unwrap()
}

#[derive(Clone, Debug)]
struct Chain {
    cable: Cable,
    /// Rate of the port behind the switch, in percent of the cable's.
    out_percent: u64,
    pause: PauseAt,
    accounting: Accounting,
    /// Packets of full length under way against the lossless ones: they delay the pause frames.
    reverse_gaps: Vec<u64>,
    packets: u32,
    missing: u64,
}

struct Outcome {
    lost: u32,
    delivered: u32,
    pauses: usize,
    wakes: u64,
}

/// A host sends lossless packets as fast as it can through a switch into a slower link. Ports: 0 host to switch, 1 switch to
/// sink, 2 switch to host.
fn run(chain: &Chain) -> Outcome {
    let c = chain.cable;
    let out = Rate(c.rate.0 * chain.out_percent / 100);
    let mut fabric =
        Fabric::new(vec![port(0, c.rate, c.delay), port(1, out, c.delay * 3), port(2, c.rate, c.delay)]);
    // A packet that is itself the first to need headroom, for either reason.
    let dynamic =
        matches!(chain.pause, PauseAt::Dynamic { .. }) || chain.accounting == Accounting::UntilTaken;
    let headroom = c.headroom(dynamic).0 - chain.missing;
    let node = fabric.add_node(NodeConfig {
        ports: vec![1, 2],
        ingresses: vec![Ingress { upstream: 0, back: Some(2) }],
        buffer: BufferConfig {
            lossless: 1 << LOSSLESS,
            headroom: vec![headroom],
            pause: chain.pause,
            accounting: chain.accounting,
            ..BufferConfig::pool(1_000_000 + headroom, 2, 1)
        },
        response: c.response,
        rng: stream(9),
    });
    let node = node.unwrap();
    let mut net = Net::new(fabric);
    for i in 0..chain.packets {
        net.send(Time::ZERO, 0, Cell::new(i, MTU).with_priority(LOSSLESS));
    }
    let mut t = Time::ZERO;
    for gap in &chain.reverse_gaps {
        t = t + Dur(*gap);
        net.at(t, 0);
    }
    let mut outcome = Outcome { lost: 0, delivered: 0, pauses: 0, wakes: 0 };
    while let Some((now, step)) = net.step() {
        match step {
            Step::Arrived(0, cell) => {
                if matches!(net.send(now, 1, cell), Offered::Dropped(_)) {
                    outcome.lost += 1;
                }
            }
            Step::Arrived(1, _) => outcome.delivered += 1,
            Step::Mine(_) => {
                net.send(now, 2, Cell::new(0, MTU));
            }
            _ => {}
        }
    }
    assert_eq!(net.fabric.packets_held(), 0, "everything leaves: no pause lasts for ever");
    assert_eq!(net.fabric.buffer(node).used(), 0);
    let (xoffs, xons) = net.fabric.buffer(node).signals();
    assert_eq!(xoffs, xons);
    assert_eq!(net.pauses.len() as u64, xoffs + xons);
    assert_eq!(net.fabric.ports()[0].stats().pauses, xoffs);
    outcome.pauses = net.pauses.len();
    outcome.wakes = net.wakes;
    assert_eq!(outcome.lost + outcome.delivered, chain.packets);
    outcome
}

fn chain() -> impl Strategy<Value = Chain> {
    let cable = (1u64..20, 0u64..30_000, 0u64..10_000).prop_map(|(gbps, delay, response)| Cable {
        rate: Rate(gbps * 1_000_000_000),
        delay: Dur::nanos(delay),
        mtu: MTU,
        framing: 0,
        response: Dur::nanos(response),
    });
    let fixed = (1u64..30_000, 0u64..100).prop_map(|(xoff, p)| PauseAt::Static { xoff, xon: xoff * p / 100 });
    let dynamic = (1u32..40, 0u64..3000)
        .prop_map(|(alpha, gap)| PauseAt::Dynamic { alpha: f64::from(alpha) / 1000.0, gap });
    let gaps = prop::collection::vec(0u64..20_000_000, 0..60);
    let accounting = prop_oneof![Just(Accounting::UntilSent), Just(Accounting::UntilTaken)];
    (cable, 5u64..95, prop_oneof![fixed, dynamic], gaps, accounting).prop_map(
        |(cable, out_percent, pause, reverse_gaps, accounting)| Chain {
            cable,
            out_percent,
            pause,
            accounting,
            reverse_gaps,
            packets: 400,
            missing: 0,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn headroom_by_formula_loses_nothing(chain in chain()) {
        prop_assert_eq!(run(&chain).lost, 0);
    }
}

#[test]
fn one_packet_less_of_headroom_is_lost() {
    // 10 Gb/s, 800 ns per packet, 1.37 us of cable. The switch drains at a tenth of that, so its way back is seldom idle at the
    // moment of a pause: packets of full length there at all phases make the pause frame wait for anything up to 800 ns.
    let cable = Cable {
        rate: Rate(10_000_000_000),
        delay: Dur(1_370_000),
        mtu: MTU,
        framing: 0,
        response: Dur::ZERO,
    };
    let trial = |phase: u64, missing| {
        run(&Chain {
            cable,
            out_percent: 10,
            pause: PauseAt::Static { xoff: 5_000, xon: 2_000 },
            accounting: Accounting::UntilSent,
            reverse_gaps: std::iter::once(phase).chain(std::iter::repeat_n(800_000, 300)).collect(),
            packets: 300,
            missing,
        })
    };
    let trials = |missing| (0..40).map(|i| trial(i * 20_000, missing)).collect::<Vec<_>>();
    let (whole, short) = (trials(0), trials(u64::from(MTU)));
    assert!(whole.iter().all(|o| o.lost == 0 && o.pauses > 10));
    let losing = short.iter().filter(|o| o.lost > 0).count();
    assert!((5..40).contains(&losing), "{losing} of 40 phases lose a packet");
}

#[test]
fn the_formula_is_exact() {
    // The worst case by hand. 10 Gb/s, 800 ns per packet; cable of 1174.8 ns. The fifth packet arrives at 5 x 800 + 1174.8 = 5174.8 ns
    // and reaches XOFF; a picosecond before, a full packet has begun on the way back. The pause frame ends 800 - 0.001 + 51.2 ns later and
    // is there after another 1174.8 ns. The other end has then just begun one more packet: counted from the fifth it begins one
    // every 800 ns as long as j x 800 < 799.999 + 51.2 + 2 x 1174.8 = 3200.799, five in all, 5000 bytes. The formula says 2937 (cable)
    // + 64 + 2000 = 5001: nothing that begins with packets of 1000 bytes can need a byte more, and one byte of it is the last 0.8 ns.
    let cable = Cable {
        rate: Rate(10_000_000_000),
        delay: Dur(1_174_800),
        mtu: MTU,
        framing: 0,
        response: Dur::ZERO,
    };
    assert_eq!(cable.headroom(false).0, 5001);
    let lost = |missing, reverse: &[u64]| {
        run(&Chain {
            cable,
            out_percent: 10,
            pause: PauseAt::Static { xoff: 5_000, xon: 2_000 },
            accounting: Accounting::UntilSent,
            reverse_gaps: reverse.to_vec(),
            packets: 40,
            missing,
        })
        .lost
    };
    let worst = [5_174_799];
    assert_eq!([0, 1, 2, u64::from(MTU)].map(|missing| lost(missing, &worst)), [0, 0, 1, 1]);
    // Without the packet on the way back one packet less is under way.
    assert_eq!([2, u64::from(MTU), u64::from(MTU) + 2].map(|missing| lost(missing, &[])), [0, 0, 1]);
}

#[test]
fn a_pause_stops_and_releases_at_the_computed_times() {
    // 8 Gb/s in (1 us per packet, 1 us of cable), 4 Gb/s out (2 us). XOFF at 2000 bytes, XON at 0; the way back is idle. Packets
    // arrive at 2, 3, 4 us ... and leave at 4, 6, 8 .... At 3 us 2000 bytes: XOFF, 64 ns of frame, 1 us of cable: 4.064 us. The
    // host has begun its fifth packet at 4 us, which arrives at 6. They are gone at 4, 6, 8, 10, 12 us: XON at 12, at the host at
    // 13.064; its sixth packet takes 1 us and the cable: 15.064.
    let cable =
        Cable { rate: Rate(8_000_000_000), delay: Dur::micros(1), mtu: MTU, framing: 0, response: Dur::ZERO };
    let chain = Chain {
        cable,
        out_percent: 50,
        pause: PauseAt::Static { xoff: 2000, xon: 0 },
        accounting: Accounting::UntilSent,
        reverse_gaps: Vec::new(),
        packets: 6,
        missing: 0,
    };
    let c = chain.cable;
    let mut fabric = Fabric::new(vec![
        port(0, c.rate, c.delay),
        port(1, Rate(4_000_000_000), Dur::ZERO),
        port(2, c.rate, c.delay),
    ]);
    fabric
        .add_node(NodeConfig {
            ports: vec![1, 2],
            ingresses: vec![Ingress { upstream: 0, back: Some(2) }],
            buffer: BufferConfig {
                lossless: 1 << LOSSLESS,
                headroom: vec![c.headroom(false).0],
                pause: chain.pause,
                ..BufferConfig::pool(100_000, 2, 1)
            },
            response: Dur::ZERO,
            rng: stream(9),
        })
        .unwrap();
    let mut net = Net::new(fabric);
    for i in 0..6 {
        net.send(Time::ZERO, 0, Cell::new(i, MTU).with_priority(LOSSLESS));
    }
    let mut arrivals = Vec::new();
    while let Some((now, step)) = net.step() {
        if let Step::Arrived(0, cell) = step {
            arrivals.push(now.0 / 1000);
            net.send(now, 1, cell);
        }
    }
    let seen: Vec<(u64, bool)> = net.pauses.iter().map(|p| (p.at.0 / 1000, p.on)).collect();
    assert_eq!(seen, [(4_064, true), (13_064, false)]);
    assert_eq!(arrivals, [2000, 3000, 4000, 5000, 6000, 15_064]);
    assert_eq!(net.fabric.ports()[0].stats().paused, (13_064 - 4_064) * 1000);
}

/// A ring of `n` switches, one host at each; every host sends `packets` to the switch `far` links on. Ports: host i is i, the link
/// from switch i to the next n + i, to its own sink 2n + i.
fn ring(n: u32, far: u32, packets: u32) -> Net {
    let rate = Rate(10_000_000_000);
    let mut fabric = Fabric::new((0..3 * n).map(|i| port(i, rate, Dur::nanos(500))).collect());
    for i in 0..n {
        let before = n + (i + n - 1) % n;
        fabric
            .add_node(NodeConfig {
                ports: vec![n + i, 2 * n + i],
                ingresses: vec![
                    Ingress { upstream: i, back: None },
                    Ingress { upstream: before, back: None },
                ],
                buffer: BufferConfig {
                    lossless: 1 << LOSSLESS,
                    headroom: vec![6_000; 2],
                    pause: PauseAt::Static { xoff: 10_000, xon: 5_000 },
                    ..BufferConfig::pool(60_000, 2, 2)
                },
                response: Dur::ZERO,
                rng: stream(9),
            })
            .unwrap();
    }
    let mut net = Net::new(fabric);
    for k in 0..packets {
        for i in 0..n {
            let mut cell = Cell::new(k, MTU).with_priority(LOSSLESS);
            cell.to = (i + far) % n;
            net.send(Time::ZERO, i, cell);
        }
    }
    let mut moved = 0;
    while let Some((now, step)) = net.step() {
        if let Step::Arrived(from, cell) = step {
            if from >= 2 * n {
                moved += 1;
                continue;
            }
            let at = if from < n { from } else { (from - n + 1) % n };
            let out = if cell.to == at { 2 * n + at } else { n + at };
            assert!(!matches!(net.send(now, out, cell), Offered::Dropped(_)), "lossless");
        }
    }
    assert_eq!(moved + net.fabric.packets_held(), u64::from(packets * n));
    net
}

#[test]
fn a_cycle_of_waiting_ports_is_found() {
    // Two hops along a ring of three: every link waits for the next one's buffer (the textbook cyclic dependency).
    let net = ring(3, 2, 200);
    assert!(net.fabric.packets_held() > 0, "nothing moves any more");
    let mut cycle: Vec<u32> = net.fabric.deadlock().expect("a deadlock").iter().map(|s| s.port).collect();
    cycle.sort_unstable();
    assert_eq!(cycle, [3, 4, 5], "the three links of the ring");
}
#[test]
fn traffic_without_a_cycle_is_not_called_deadlocked() {
    // One hop only: links of the ring lead into sinks.
    let net = ring(3, 1, 200);
    assert_eq!(net.fabric.packets_held(), 0);
    assert_eq!(net.fabric.deadlock(), None);
}
