//! Links: failures, changes of rate, reordering, loss, timing noise, telemetry, rules at dequeue. Nothing is lost uncounted.

mod common;

use common::{stream, Net, Step};
use penstock_core::{Backlog, CcHeader, DropCause, Ecn, Packet, QueueDiscipline, Stream, Verdict};
use penstock_fabric::aqm::{CoDel, DequeueMark};
use penstock_fabric::{
    Arena, Cell, Effects, Fabric, Hop, Loss, Offered, Pause, Port, PortConfig, Reordering, Rule, Scheduler,
    Segments, Service,
};
use penstock_units::{Dur, Rate, Time};
use proptest::prelude::*;

/// A byte takes a nanosecond.
const RATE: Rate = Rate(8_000_000_000);
const NS: u64 = 1000;

fn one(config: PortConfig) -> Net {
    Net::new(Fabric::new(vec![Port::new(0, config).unwrap()]))
}
fn plain() -> PortConfig {
    PortConfig::plain(RATE, Dur::nanos(500), stream(0))
}
fn ns(t: u64) -> Time {
    Time(t * NS)
}
/// Runs to the end: packets that arrived, with their times in ns.
fn finish(net: &mut Net) -> Vec<(u32, u64)> {
    let mut arrived = Vec::new();
    while let Some((now, step)) = net.step() {
        if let Step::Arrived(_, cell) = step {
            arrived.push((cell.packet, now.0 / NS));
        }
    }
    arrived
}

#[test]
fn a_link_that_fails_loses_what_is_on_it_and_keeps_what_waits() {
    // 100 ns each, 500 ns of cable. At 250 ns: 0 and 1 on the wire, 2 in service, 3 and 4 wait.
    for lose in [false, true] {
        let mut net = one(plain());
        for i in 0..5 {
            net.send(ns(0), 0, Cell::new(i, 100));
        }
        net.fabric.fail(ns(250), 0, lose, &mut net.seg);
        net.take_effects();
        assert_eq!(net.send(ns(300), 0, Cell::new(5, 100)) == Offered::Dropped(Loss::Down), lose);
        net.fabric.recover(ns(1000), 0, &mut net.seg);
        net.take_effects();
        net.send(ns(2000), 0, Cell::new(6, 100));
        let arrived = finish(&mut net);
        let mut lost: Vec<u32> = net.lost.iter().map(|l| l.cell.packet).collect();
        lost.sort_unstable();
        assert!(net.lost.iter().all(|l| l.loss == Loss::Down));
        if lose {
            assert_eq!((lost, arrived), (vec![0, 1, 2, 3, 4], vec![(6, 2600)]));
        } else {
            assert_eq!((lost, arrived), (vec![0, 1, 2], vec![(3, 1600), (4, 1700), (5, 1800), (6, 2600)]));
        }
        net.fabric.settle(ns(3000), &mut net.seg);
        let stats = net.fabric.ports()[0].stats();
        // The two on the wire had left; what was in service or waited had not.
        assert_eq!(
            (stats.arrived_packets, stats.departed_packets, stats.down),
            (7, if lose { 3 } else { 6 }, if lose { 4 } else { 1 })
        );
        // 0: 100, 1: 200, 2: 250 (lost), then by case; in ns.
        let rest = if lose { 250 + 250 + 100 } else { 1100 + 1200 + 1000 + 100 };
        assert_eq!(stats.sojourn, u128::from((100 + 200 + 250 + rest) * NS));
        assert_eq!(net.fabric.packets_held(), 0);
    }
}
#[test]
fn a_degraded_link_serves_the_next_packet_at_its_new_rate() {
    let mut net = one(plain());
    for i in 0..3 {
        net.send(ns(0), 0, Cell::new(i, 100));
    }
    net.fabric.set_rate(ns(50), 0, Rate(RATE.0 / 4), &mut net.seg);
    net.take_effects();
    assert_eq!(finish(&mut net), [(0, 600), (1, 1000), (2, 1400)]);
}
#[test]
fn a_plain_port_that_is_paused_keeps_its_order() {
    let mut net = one(plain());
    for i in 0..4 {
        net.send(ns(0), 0, Cell::new(i, 100).with_priority((i % 2) as u8));
    }
    let pause = |net: &mut Net, t, on| {
        let pause = penstock_fabric::Pause { at: ns(t), port: 0, priority: 1, on };
        net.fabric.pause(ns(t), &pause, &mut net.seg);
        net.take_effects();
    };
    pause(&mut net, 50, true);
    // 0 and 2 go on, 1 and 3 are paused until 700.
    let mut arrived = Vec::new();
    while net.peek().is_some_and(|t| t <= ns(700)) {
        if let Some((now, Step::Arrived(_, cell))) = net.step() {
            arrived.push((cell.packet, now.0 / NS));
        }
    }
    pause(&mut net, 700, false);
    arrived.extend(finish(&mut net));
    assert_eq!(arrived, [(0, 600), (2, 700), (1, 1300), (3, 1400)]);
    net.fabric.settle(ns(2000), &mut net.seg);
    let stats = net.fabric.ports()[0].stats();
    assert_eq!((stats.pauses, stats.paused), (1, 650 * NS));
    assert_eq!(stats.sojourn, u128::from((100 + 200 + 800 + 900) * NS));
}
#[test]
fn a_share_of_the_packets_is_overtaken() {
    let reorder = Some((Reordering { share: 0.25, extra: Dur::micros(2) }, stream(5)));
    for service in [false, true] {
        let service = service.then(|| Box::new(Service::default()));
        let mut net = one(PortConfig { reorder: reorder.clone(), service, ..plain() });
        let n = 4000;
        for i in 0..n {
            net.send(ns(0), 0, Cell::new(i, 100));
        }
        let arrived = finish(&mut net);
        assert_eq!(arrived.len(), n as usize);
        let exact = |i: u32| u64::from(i + 1) * 100 + 500;
        let late: Vec<u64> = arrived.iter().map(|(i, t)| t - exact(*i)).filter(|l| *l > 0).collect();
        // Binomial: 1000 with a standard deviation of 27; mean delay 1000 ns with one of 577 / sqrt(1000).
        assert!((900..1100).contains(&late.len()), "{}", late.len());
        let mean = late.iter().sum::<u64>() as f64 / late.len() as f64;
        assert!((920.0..1080.0).contains(&mean), "{mean}");
        assert!(late.iter().all(|l| *l < 2000));
        assert!(arrived.windows(2).any(|w| w[1].0 < w[0].0), "some are overtaken");
        assert!(arrived.windows(2).all(|w| w[0].1 <= w[1].1), "events come in order of time");
    }
}
#[test]
fn random_loss_takes_its_share() {
    let mut net = one(PortConfig { loss: Some((0.1, stream(6))), ..plain() });
    let n = 10_000;
    let lost = (0..n).filter(|i| {
        net.send(ns(0), 0, Cell::new(*i, 100)) == Offered::Dropped(Loss::Queue(DropCause::Random))
    });
    let lost = lost.count();
    assert!((900..1100).contains(&lost), "{lost}");
    assert_eq!(net.fabric.ports()[0].stats().drops[DropCause::Random as usize], lost as u64);
}
#[test]
fn a_pause_takes_back_the_noise_of_packets_that_wait_again() {
    // 60 packets of 100 ns, each up to 80 ns late, paused from 1000 to 1500 ns: ten or eleven have begun by then. What waits goes on at
    // 1500 ns as if it had come then. (It left in one burst, when the last of the 60 would have left.)
    let mut net = one(PortConfig { noise: Some((Dur::nanos(80), stream(7))), ..plain() });
    for i in 0..60 {
        net.send(ns(0), 0, Cell::new(i, 100).with_jitter());
    }
    net.at(ns(1000), 1);
    net.at(ns(1500), 0);
    let mut arrived = Vec::new();
    while let Some((now, step)) = net.step() {
        match step {
            Step::Arrived(_, cell) => arrived.push((cell.packet, now.0 / NS)),
            Step::Mine(on) => {
                let pause = Pause { at: now, port: 0, priority: 0, on: on == 1 };
                net.fabric.pause(now, &pause, &mut net.seg);
                net.take_effects();
            }
            Step::Inner => {}
        }
    }
    let before = arrived.iter().filter(|(_, at)| *at < 500 + 1500).count();
    assert!((10..=11).contains(&before), "{before}");
    for (k, (packet, at)) in arrived[before..].iter().enumerate() {
        let exact = 500 + 1500 + 100 * (k as u64 + 1);
        assert_eq!(*packet as usize, before + k);
        assert!((exact..=exact + 80).contains(at), "packet {packet} at {at}, not up to 80 after {exact}");
    }
}
#[test]
fn timing_noise_delays_packets_in_order_and_takes_no_capacity() {
    for service in [false, true] {
        let service = service.then(|| Box::new(Service::default()));
        let noise = Some((Dur::nanos(80), stream(7)));
        let mut net = one(PortConfig { noise, service, ..plain() });
        let n = 1000;
        for i in 0..n {
            net.send(ns(0), 0, Cell::new(i, 100).with_jitter());
        }
        // A pure ACK keeps its exact time behind a saturated port, but does not overtake.
        net.send(ns(0), 0, Cell::new(n, 100));
        let arrived = finish(&mut net);
        let late: Vec<u64> = arrived.iter().map(|(i, t)| t - (600 + u64::from(*i) * 100)).collect();
        assert!(late.iter().all(|l| *l < 80), "packets come late, one by one, and the clock is exact");
        assert!(late.iter().any(|l| *l > 60) && late[..1000].iter().any(|l| *l < 20));
        assert!(arrived.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 <= w[1].1));
        // All that the server has done is 100 ns per packet.
        assert_eq!(net.fabric.ports()[0].free_at().0, u64::from(n + 1) * 100 * NS);
    }
}

/// Keeps what telemetry says.
#[derive(Default)]
struct Witness {
    arena: Arena,
    hops: Vec<(u32, Hop)>,
}
impl Segments for Witness {
    fn segment(&mut self, slot: u32) -> (&mut Packet, &mut CcHeader) {
        self.arena.segment(slot)
    }
    fn on_hop(&mut self, slot: u32, hop: &Hop) {
        self.hops.push((slot, *hop));
    }
}

#[test]
fn telemetry_tells_what_a_packet_leaves_behind_as_it_begins() {
    let mut port = Port::new(4, PortConfig { telemetry: true, ..plain() }).unwrap();
    let (mut seg, mut fx) = (Witness::default(), Effects::default());
    for i in 0..3 {
        port.offer(ns(0), Cell::new(i, 100 * (i + 1)), &mut seg, &mut fx);
    }
    port.arrive(ns(600), &mut seg, &mut fx);
    // They begin at 0, 100 and 300 ns. The first finds nothing behind it yet.
    let hop = |at, queue_bytes, sent_bytes| Hop { port: 4, at: ns(at), queue_bytes, sent_bytes, rate: RATE };
    assert_eq!(seg.hops, [(0, hop(0, 0, 0)), (1, hop(100, 300, 100)), (2, hop(300, 0, 300))]);
}

/// Four senders with additive increase and halving once a round trip of 100 us share the port: mean wait in us and share of the link in
/// use after the first 100 ms of 300.
fn aimd(rule: Rule) -> (f64, f64) {
    const FLOWS: usize = 4;
    let mut net = one(PortConfig { rule, limit_packets: 500, ..plain() });
    let (mut window, mut flight, mut cut_at) = ([1.0f64; FLOWS], [0.0f64; FLOWS], [0u64; FLOWS]);
    let (mut sent_at, mut waits, mut bytes) = (Vec::new(), Vec::new(), 0u64);
    for flow in 0..FLOWS {
        net.at(ns(0), flow as u32);
    }
    while let Some((now, step)) = net.step() {
        let t = now.0 / NS;
        if t > 300_000_000 {
            break;
        }
        match step {
            Step::Arrived(_, cell) => {
                if t > 100_000_000 {
                    waits.push((t - 1500 - sent_at[cell.packet as usize]) as f64 / 1000.0);
                    bytes += u64::from(cell.bytes);
                }
                net.at(now + Dur::micros(100), cell.packet % FLOWS as u32);
            }
            Step::Mine(flow) => {
                let flow = flow as usize;
                if flight[flow] > 0.0 {
                    flight[flow] -= 1.0;
                    window[flow] += 1.0 / window[flow];
                }
                while flight[flow] + 1.0 <= window[flow] {
                    // The number of a packet tells its flow.
                    let id = sent_at.len() / FLOWS * FLOWS + FLOWS + flow;
                    sent_at.resize(id + 1, t);
                    sent_at[id] = t;
                    flight[flow] += 1.0;
                    if let Offered::Dropped(_) = net.send(now, 0, Cell::new(id as u32, 1000)) {
                        flight[flow] -= 1.0;
                        window[flow] = (window[flow] / 2.0).max(1.0);
                        break;
                    }
                }
            }
            Step::Inner => {}
        }
        for lost in std::mem::take(&mut net.lost) {
            // The sender learns of it, and may send another, a round trip later.
            let flow = lost.cell.packet as usize % FLOWS;
            if t >= cut_at[flow] {
                window[flow] = (window[flow] / 2.0).max(1.0);
                cut_at[flow] = t + 100_000;
            }
            net.at(now + Dur::micros(100), flow as u32);
        }
    }
    (waits.iter().sum::<f64>() / waits.len() as f64, bytes as f64 / 200_000_000.0)
}

#[test]
fn codel_holds_the_queue_of_responsive_senders_near_its_target() {
    // RFC 8289 scaled by 1/100: target 50 us, interval 1 ms, packets of 1 us. Drop tail stands near its limit of 500 us.
    let (tail, full) = aimd(Rule::DropTail);
    let (wait, use_of_link) = aimd(CoDel::new(Dur::micros(50), Dur::millis(1), 1000, false).rule());
    println!("drop tail: {tail} us, {full}; CoDel: {wait} us, {use_of_link}");
    assert!(tail > 250.0 && full > 0.99);
    assert!((5.0..100.0).contains(&wait), "{wait} us");
    assert!(use_of_link > 0.9, "{use_of_link}");
}
#[test]
fn dequeue_marking_marks_what_leaves_a_queue_behind() {
    let rule = DequeueMark { min: 250, max: 250, max_p: 1.0 }.rule();
    let mut net = one(PortConfig { rule, ..plain() });
    for i in 0..5 {
        net.send(ns(0), 0, Cell::new(i, 100).with_ecn(Ecn::Ect0));
    }
    let mut marked = Vec::new();
    while let Some((_, step)) = net.step() {
        if let Step::Arrived(_, cell) = step {
            marked.push(cell.ecn() == Ecn::Ce);
        }
    }
    // They leave behind 0 (at its arrival), 300, 200, 100, 0 bytes.
    assert_eq!(marked, [false, true, false, false, false]);
}
/// Marks every packet when it arrives and when it leaves.
struct Twice;
impl QueueDiscipline for Twice {
    fn admit(&mut self, _: Time, _: &Backlog, _: &Packet, _: bool, _: &mut Stream) -> Verdict {
        Verdict::Mark
    }
    fn on_dequeue(&mut self, _: Time, _: Dur, _: &Backlog, _: &mut Stream) -> Verdict {
        Verdict::Mark
    }
    fn wants_dequeue(&self) -> bool {
        true
    }
}
#[test]
fn a_packet_that_two_rules_mark_counts_once() {
    let mut net = one(PortConfig { rule: Rule::Other(Box::new(Twice)), ..plain() });
    // One that another port has marked counts here, too.
    for ecn in [Ecn::Ect0, Ecn::Ect0, Ecn::Ect0, Ecn::Ce, Ecn::Ce] {
        let slot = net.seg.alloc();
        net.send(ns(0), 0, Cell::new(slot, 100).with_ecn(ecn));
    }
    let mut arrived = 0;
    while let Some((_, step)) = net.step() {
        if let Step::Arrived(_, cell) = step {
            assert_eq!((cell.ecn(), cell.is_trimmed_at_last_hop()), (Ecn::Ce, false));
            arrived += 1;
        }
    }
    assert_eq!((arrived, net.fabric.ports()[0].stats().marks), (5, 5));
}
#[test]
fn a_packet_that_cannot_be_marked_is_dropped() {
    let rule = Rule::Threshold(penstock_core::Amount::Packets(1));
    let mut net = one(PortConfig { rule, ..plain() });
    net.send(ns(0), 0, Cell::new(0, 100));
    assert!(matches!(net.send(ns(0), 0, Cell::new(1, 100)), Offered::Dropped(Loss::Queue(_))));
    assert!(matches!(net.send(ns(0), 0, Cell::new(2, 100).with_ecn(Ecn::Ect0)), Offered::Queued(_)));
    assert_eq!(net.fabric.ports()[0].stats().marks, 1);
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Send(u8, u32),
    Pause(u8, bool),
    Fail(bool),
    Recover,
    Rate(u64),
    Reset,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happens to a link: every packet arrives, is lost with a cause, or is still there, and counters agree. The sum of sojourn
    /// times is the running integral, also over a window that begins and ends in the middle.
    #[test]
    fn nothing_is_lost_uncounted(
        acts in prop::collection::vec((0u64..150, prop_oneof![
            8 => (0u8..8, 1u32..200).prop_map(|(p, b)| Act::Send(p, b)),
            2 => (0u8..8, any::<bool>()).prop_map(|(p, on)| Act::Pause(p, on)),
            1 => any::<bool>().prop_map(Act::Fail), 2 => Just(Act::Recover),
            1 => (1u64..8).prop_map(Act::Rate), 1 => Just(Act::Reset),
        ]), 1..200),
        scheduled in any::<bool>(), noise in any::<bool>(), reorder in any::<bool>(), loss in any::<bool>(),
    ) {
        let service = scheduled.then(|| Box::new(Service { scheduler: Scheduler::Strict, ..Service::default() }));
        let mut net = one(PortConfig {
            service,
            limit_packets: 12,
            framing: 20,
            noise: noise.then(|| (Dur::nanos(90), stream(1))),
            reorder: reorder.then(|| (Reordering { share: 0.3, extra: Dur::nanos(900) }, stream(2))),
            loss: loss.then(|| (0.05, stream(3))),
            telemetry: true,
            measured: true,
            ..plain()
        });
        let (mut t, mut sent, mut dropped, mut arrived) = (0, 0u64, 0u64, 0u64);
        let mut last = Time::ZERO;
        for (i, (gap, act)) in acts.iter().enumerate() {
            t += gap;
            while net.peek().is_some_and(|e| e <= ns(t)) {
                if let Some((now, Step::Arrived(..))) = net.step() {
                    prop_assert!(now >= last);
                    (last, arrived) = (now, arrived + 1);
                }
            }
            let now = ns(t);
            match *act {
                Act::Send(p, bytes) => {
                    sent += 1;
                    let cell = Cell::new(i as u32, bytes).with_priority(p).with_jitter();
                    dropped += u64::from(matches!(net.send(now, 0, cell), Offered::Dropped(_)));
                }
                Act::Pause(priority, on) => {
                    let pause = penstock_fabric::Pause { at: now, port: 0, priority, on };
                    net.fabric.pause(now, &pause, &mut net.seg);
                }
                Act::Fail(lose) => net.fabric.fail(now, 0, lose, &mut net.seg),
                Act::Recover => net.fabric.recover(now, 0, &mut net.seg),
                Act::Rate(r) => net.fabric.set_rate(now, 0, Rate(r * 1_000_000_000 + 7), &mut net.seg),
                Act::Reset => net.fabric.reset_stats(now, &mut net.seg),
            }
            net.take_effects();
            prop_assert_eq!(sent, arrived + dropped + net.lost.len() as u64 + net.fabric.packets_held());
        }
        net.fabric.settle(ns(t), &mut net.seg);
        let (port, stats) = (&net.fabric.ports()[0], net.fabric.ports()[0].stats());
        let (sum, running) = (stats.sojourn as f64, stats.queue_integral);
        prop_assert!((sum - running).abs() <= 1e-9 * running.max(1e6), "{} {}", sum, running);
        prop_assert_eq!(port.queue_packets() as usize, port.cells().count());
        // All go on, and all that is left leaves.
        let end = ns(t + 1_000_000);
        net.fabric.recover(end, 0, &mut net.seg);
        for priority in 0..8 {
            net.fabric.pause(end, &penstock_fabric::Pause { at: end, port: 0, priority, on: false }, &mut net.seg);
        }
        net.take_effects();
        arrived += finish(&mut net).len() as u64;
        prop_assert_eq!((net.fabric.packets_held(), sent), (0, arrived + dropped + net.lost.len() as u64));
        net.fabric.settle(end + Dur::millis(10), &mut net.seg);
    }
}
