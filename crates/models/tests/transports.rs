//! Transports with stacks of their own, in the lab: what each promises, against figures worked out by hand.
//!
//! Above 600 lines: one list of promises, a test each, on one rig.

#[path = "transports/rig.rs"]
mod rig;

use penstock_fabric::Reordering;
use penstock_host::lab::{Flow, Outcome};
use penstock_host::{Lab, Network};
use penstock_units::{Bytes, Dur, Rate, Time};
use proptest::prelude::*;
use rig::{Rig, FRAMING, MSS};

const GBPS: u64 = 1_000_000_000;
/// PIAS by all the rules of its authors' simulator.
const PIAS_NS2: &str = "pias:rto=200us,backoff=false,probe=5,halve=false,dupacks=0,grow=true,steps=true,in_order=true,burst=true,later=true,refill=true,again=true,\
     anew=true,most=249,blocks=3,kept=3,whole=true,alpha=0";
/// Headers of a data packet.
const HEADERS: [(&str, u32); 13] = [
    ("pfabric", 40),
    ("homa", 60),
    ("phost", 40),
    ("pias", 40),
    ("ndp", 64),
    ("eqds", 64),
    ("nscc", 64),
    ("rccc", 64),
    ("nscc-rccc", 64),
    ("dcqcn", 44),
    ("roce", 44),
    ("timely", 44),
    ("dctcp-roce", 44),
];

fn ms(n: u64) -> Time {
    Time::ZERO + Dur::millis(n)
}
fn us(n: u64) -> Time {
    Time::ZERO + Dur::micros(n)
}
/// Time of `bytes` of payload on a link, in packets with `header` and framing.
fn on_link(bytes: u64, header: u32, rate: Rate) -> Dur {
    Bytes(bytes + bytes.div_ceil(u64::from(MSS)) * u64::from(header + FRAMING)) / rate
}
fn all_done(lab: &Lab) -> Vec<Outcome> {
    let outcomes = lab.outcomes();
    for f in &outcomes {
        assert!(f.completed != Time::NEVER, "not complete: {f:?}");
        assert_eq!(f.delivered, f.flow.bytes, "{f:?}");
    }
    outcomes
}
fn took(f: &Outcome) -> f64 {
    f.completed.since(f.flow.start).as_secs()
}

#[test]
fn a_flow_alone_has_the_line_rate() {
    for (protocol, header) in HEADERS {
        for rate in [Rate(10 * GBPS), Rate(100 * GBPS)] {
            for network in
                [Network::Star { hosts: 2 }, Network::LeafSpine { leaves: 2, spines: 2, hosts_per_leaf: 1 }]
            {
                let mut lab = Rig { rate, ..Rig::new(network, protocol) }.build();
                let bytes = rate.0 / 1000; // 8 ms at the line rate
                lab.start(Flow::new(0, 1, bytes));
                lab.run(ms(100));
                let f = all_done(&lab)[0];
                let ideal = on_link(bytes, header, rate).as_secs();
                assert!(
                    took(&f) >= ideal && took(&f) < 1.01 * ideal,
                    "{protocol} {network:?}: {} of {ideal}",
                    took(&f)
                );
                assert_eq!(
                    (f.drops, f.counters.retransmits, f.counters.timeouts),
                    (0, 0, 0),
                    "{protocol} {network:?}"
                );
            }
        }
    }
}

/// Section 2.1 of the RDMA reference, with its headers and without framing. One packet of 1,000 bytes over two links of
/// 100 Gb/s and 1 us takes 2 x (83.84 + 1000) ns, and each further one 83.84 ns.
#[test]
fn a_queue_pair_has_the_timing_of_the_rdma_reference() {
    for (bytes, ns) in [(1000, 2167.68), (500, 2087.68), (10_000, 2167.68 + 9.0 * 83.84)] {
        let mut rig = Rig::new(Network::Star { hosts: 2 }, "dcqcn:header=48,ack=60");
        (rig.rate, rig.mss, rig.framing) = (Rate(100 * GBPS), 1000, 0);
        let mut lab = rig.build();
        lab.start(Flow::new(0, 1, bytes));
        lab.run(ms(1));
        let took = took(&all_done(&lab)[0]) * 1e9;
        assert!((took - ns).abs() < 0.01, "{bytes} bytes: {took} ns, {ns} expected");
    }
}

/// HPCC holds a link at eta of its rate (section 3.2), here 0.95 of 10 Gb/s, and a flow that has it alone has all of that.
#[test]
fn a_flow_alone_has_eta_of_the_link_with_hpcc() {
    for rules in ["hpcc", "hpcc:rules=hpcc-ns3"] {
        let mut lab = Rig::new(Network::Star { hosts: 2 }, rules).build();
        lab.start(Flow::new(0, 1, 50_000_000));
        lab.run(ms(100));
        let f = all_done(&lab)[0];
        let header = if rules == "hpcc" { 86 } else { 90 };
        let at_eta = on_link(50_000_000, header, Rate(10 * GBPS)).as_secs() / 0.95;
        assert!((took(&f) / at_eta - 1.0).abs() < 0.015, "{rules}: {} s, {at_eta} s at eta", took(&f));
        assert_eq!((f.drops, f.counters.retransmits), (0, 0), "{rules}");
    }
}

#[test]
fn ndp_incast_loses_no_header_and_keeps_the_link_busy() {
    for senders in [8, 32] {
        let mut lab = Rig::new(Network::Star { hosts: senders + 1 }, "ndp").build();
        (1..=senders).for_each(|src| _ = lab.start(Flow::new(src, 0, 1_000_000)));
        lab.run(ms(200));
        let outcomes = all_done(&lab);
        let last = outcomes.iter().map(took).fold(0.0, f64::max);
        let ideal = on_link(1_000_000, 64, Rate(10 * GBPS)).as_secs() * f64::from(senders);
        assert!(last >= ideal && last < 1.05 * ideal, "{senders} senders: {last} s, ideal {ideal} s");
        let sum = |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum::<u64>();
        assert!(sum(|f| f.trims) > u64::from(senders), "the first windows overflow eight packets");
        assert_eq!((sum(|f| f.drops), sum(|f| f.counters.timeouts)), (0, 0), "no header is lost");
        // The pull queue is fair: all end together.
        let first = outcomes.iter().map(took).fold(f64::MAX, f64::min);
        assert!(first > 0.9 * last, "{senders} senders: the first is done at {first}, the last at {last}");
    }
}
#[test]
fn ndp_spreads_the_packets_of_one_flow_evenly() {
    let network = Network::LeafSpine { leaves: 2, spines: 4, hosts_per_leaf: 2 };
    let mut lab = Rig::new(network, "ndp").build();
    lab.start(Flow::new(0, 2, 4096 * u64::from(MSS)));
    lab.run(ms(50));
    assert_eq!(all_done(&lab)[0].counters.retransmits, 0);
    let ports: Vec<u32> = (0..4).map(|spine| lab.uplink(0, spine)).collect();
    let fabric = lab.fabric();
    for port in ports {
        // 64 paths, a permutation of them each round: exactly a quarter each.
        assert_eq!(fabric.ports()[port as usize].stats().departed_packets, 1024);
    }
}

#[test]
fn ndp_serves_a_host_in_turn_or_in_the_order_of_pulls() {
    // A message of one packet is written behind the first windows of six others of its host.
    let short = |protocol: &str| {
        let mut lab = Rig::new(Network::Star { hosts: 8 }, protocol).build();
        (1..=6).for_each(|dst| _ = lab.start(Flow::new(0, dst, 1_000_000)));
        let id = lab.start(Flow::new(0, 7, 1000).at(Time(1)));
        lab.run(ms(100));
        took(&all_done(&lab)[id.0 as usize])
    };
    let packet = on_link(u64::from(MSS), 64, Rate(10 * GBPS)).as_secs();
    let later = (short("ndp:fifo=true,window=10") - short("ndp:window=10")) / packet;
    // Behind 60 packets instead of one of each.
    assert!((52.0..=54.5).contains(&later), "{later} packets later");
}
#[test]
fn pfabric_serves_the_flow_with_the_least_left_first() {
    // A short flow meets four long ones: as if it were alone.
    let short = |others: u32| {
        let mut lab = Rig::new(Network::Star { hosts: 6 }, "pfabric").build();
        (1..=others).for_each(|src| _ = lab.start(Flow::new(src, 0, 4_000_000)));
        let id = lab.start(Flow::new(5, 0, 50_000).at(ms(1)));
        lab.run(ms(100));
        took(&all_done(&lab)[id.0 as usize])
    };
    let (alone, among) = (short(0), short(4));
    // A packet in service at each of two hops, and its own port's, may be in the way.
    let packet = on_link(u64::from(MSS), 40, Rate(10 * GBPS)).as_secs();
    assert!(among < alone + 3.0 * packet, "{among} s against {alone} s alone");

    // Flows that begin together end in the order of their sizes, each when it and all shorter ones are through.
    let sizes = [200_000u64, 400_000, 800_000, 1_600_000];
    let mut lab = Rig::new(Network::Star { hosts: 5 }, "pfabric").build();
    sizes.iter().enumerate().for_each(|(i, bytes)| _ = lab.start(Flow::new(i as u32 + 1, 0, *bytes)));
    lab.run(ms(100));
    let mut before = 0.0;
    for f in all_done(&lab) {
        before += on_link(f.flow.bytes, 40, Rate(10 * GBPS)).as_secs();
        assert!(
            took(&f) > before * 0.999 && took(&f) < before * 1.1,
            "{} bytes: {} s, {before} s",
            f.flow.bytes,
            took(&f)
        );
    }
}
#[test]
fn homa_serves_the_message_with_the_least_left_first() {
    // A message shorter than RTTbytes meets four long ones: as if it were alone, but for what is in service.
    let short = |others: u32| {
        let mut lab = Rig::new(Network::Star { hosts: 6 }, "homa").build();
        (1..=others).for_each(|src| _ = lab.start(Flow::new(src, 0, 4_000_000)));
        let id = lab.start(Flow::new(5, 0, 2_000).at(ms(1)));
        lab.run(ms(100));
        took(&all_done(&lab)[id.0 as usize])
    };
    let packet = on_link(u64::from(MSS), 60, Rate(10 * GBPS)).as_secs();
    let (alone, among) = (short(0), short(4));
    assert!(among < alone + 3.0 * packet, "{among} s against {alone} s alone");

    // Messages of which each is shorter than those before it end in the order of their sizes: the shortest as if it were alone, then each
    // when it and all shorter ones are through.
    let sizes = [200_000u64, 400_000, 800_000, 1_600_000];
    let mut lab = Rig::new(Network::Star { hosts: 5 }, "homa:rtt_bytes=15KB,resend=50ms").build();
    for (i, bytes) in (0u32..).zip(sizes) {
        lab.start(Flow::new(i + 1, 0, bytes).at(us(30 * (3 - u64::from(i)))));
    }
    lab.run(ms(100));
    let mut before = 90e-6;
    for f in all_done(&lab) {
        before += on_link(f.flow.bytes, 60, Rate(10 * GBPS)).as_secs();
        let end = f.completed.since(Time::ZERO).as_secs();
        assert!(end < before * 1.05, "{} bytes: done at {end} s, {before} s", f.flow.bytes);
        assert_eq!((f.drops, f.counters.retransmits), (0, 0));
    }
}
#[test]
fn homa_grants_as_many_messages_as_it_has_overcommitted() {
    // Eight senders whose links are as fast as the receiver's: what waits at its port are RTTbytes of as many as are granted at a time,
    // less what is on the way.
    let queue = |overcommit: u32| {
        let mut lab = Rig::new(
            Network::Star { hosts: 9 },
            &format!("homa:rtt_bytes=15KB,resend=50ms,overcommit={overcommit}"),
        )
        .build();
        // Each shorter than those before it, so that priorities of what was granted keep their order.
        (1..=8).for_each(|src: u32| {
            let bytes = 1_700_000 - 100_000 * u64::from(src);
            _ = lab.start(Flow::new(src, 0, bytes).at(us(20 * u64::from(src))));
        });
        let bytes = |at: u64| {
            lab.run(us(2000 + 10 * at));
            lab.fabric().ports()[9].queue_bytes() as f64
        };
        let mean = (0..200).map(bytes).sum::<f64>() / 200.0;
        lab.run(ms(100));
        all_done(&lab);
        mean
    };
    let (one, four) = (queue(1), queue(4));
    assert!(one < 20_000.0 && four > one + 2.0 * 15_000.0 && four < 5.0 * 16_000.0, "{one} and {four} bytes");
}
#[test]
fn homa_grants_one_message_of_a_sender() {
    // Two long messages of one host, and a priority for each of two: only the shorter is granted, so the port holds no more than RTTbytes.
    let mut lab =
        Rig::new(Network::Star { hosts: 3 }, "homa:rtt_bytes=15KB,resend=50ms,overcommit=2").build();
    lab.start(Flow::new(1, 0, 400_000));
    lab.start(Flow::new(1, 0, 800_000));
    lab.run(ms(50));
    let done = all_done(&lab);
    let alone = on_link(400_000 + 15_000, 60, Rate(10 * GBPS)).as_secs();
    assert!(
        took(&done[0]) < 1.05 * alone,
        "{} s, {alone} s with what the longer may send unasked",
        took(&done[0])
    );
}
#[test]
fn homa_tells_of_three_messages_at_once() {
    // Six messages of a packet each have two DONEs without a wait, or six.
    let packets = |protocol: &str| {
        let mut lab = Rig::new(Network::Star { hosts: 2 }, protocol).build();
        (0..7).for_each(|i| _ = lab.start(Flow::new(0, 1, 1000).at(us(i))));
        lab.run(ms(20));
        all_done(&lab)
            .iter()
            .for_each(|f| assert!(f.closed != Time::NEVER, "its sender does not know: {f:?}"));
        // The port of host 1.
        lab.fabric().ports()[2].stats().departed_packets
    };
    // The seventh is told of alone.
    assert_eq!((packets("homa"), packets("homa:done_after=1ms")), (7, 3));
}
#[test]
fn phost_gives_tokens_to_the_message_with_the_fewest_packets_missing() {
    let sizes = [200_000u64, 400_000, 800_000, 1_600_000];
    let mut lab = Rig::new(Network::Star { hosts: 5 }, "phost").build();
    sizes.iter().enumerate().for_each(|(i, bytes)| _ = lab.start(Flow::new(i as u32 + 1, 0, *bytes)));
    lab.run(ms(100));
    let mut before = 0.0;
    for f in all_done(&lab) {
        before += on_link(f.flow.bytes, 40, Rate(10 * GBPS)).as_secs();
        assert!(
            took(&f) > before * 0.999 && took(&f) < before * 1.05 + 20e-6,
            "{} bytes: {} s, {before} s",
            f.flow.bytes,
            took(&f)
        );
        assert_eq!(
            (f.drops, f.counters.retransmits, f.counters.timeouts),
            (0, 0, 0),
            "{} bytes",
            f.flow.bytes
        );
    }
    // Tokens come at the rate of the link, so next to nothing waits at the port of the receiver.
    assert!(lab.fabric().ports()[5].stats().queue_max <= 6, "{}", lab.fabric().ports()[5].stats().queue_max);
}
#[test]
fn a_short_phost_message_waits_for_no_token() {
    // Eight packets: two links and the acknowledgement; nine need a request and a token first.
    let time = |bytes: u64| {
        let mut lab = Rig::new(Network::Star { hosts: 2 }, "phost:free=8").build();
        lab.start(Flow::new(0, 1, bytes));
        lab.run(ms(10));
        took(&all_done(&lab)[0])
    };
    let (eight, nine) = (time(8 * u64::from(MSS)), time(9 * u64::from(MSS)));
    let packet = on_link(u64::from(MSS), 40, Rate(10 * GBPS)).as_secs();
    let round = nine - eight - packet;
    assert!(round > 2e-6 && round < 20e-6, "{round} s more for a request and a token");
}
#[test]
fn phost_leaves_as_many_tokens_unanswered_as_it_says() {
    // Packets per round trip, if there are more of them: a token for each that has arrived, and as many in flight.
    let time = |tokens: u32| {
        let protocol = format!("phost:free=0,token_window={tokens},window_timeout=10000,resend=10000");
        let mut lab = Rig::new(Network::Star { hosts: 2 }, &protocol).build();
        lab.start(Flow::new(0, 1, 200 * u64::from(MSS)));
        lab.run(ms(100));
        took(&all_done(&lab)[0])
    };
    let (one, two, three) = (time(1), time(2), time(3));
    assert!((one / two - 2.0).abs() < 0.05 && (one / three - 3.0).abs() < 0.1, "{one}, {two}, {three} s");
}
#[test]
fn what_needs_no_token_takes_the_time_of_tokens_once() {
    // A burst of messages of a byte is long over when a message begins that needs tokens.
    let time = |short: u32| {
        let mut lab = Rig::new(Network::Star { hosts: 6 }, "phost:free=8").build();
        (0..short).for_each(|i| _ = lab.start(Flow::new(1 + i % 5, 0, 1)));
        let id = lab.start(Flow::new(1, 0, 20 * u64::from(MSS)).at(us(200)));
        lab.run(ms(10));
        took(&all_done(&lab)[id.0 as usize])
    };
    assert_eq!(time(0), time(50));
}
#[test]
fn a_request_of_a_long_phost_message_ends_what_short_ones_hold_back() {
    // Forty messages of a byte hold back as many tokens, 49 us, and a message that needs some asks when they are through.
    let time = |protocol: &str| {
        let mut lab = Rig::new(Network::Star { hosts: 7 }, protocol).build();
        (0..40).for_each(|i| _ = lab.start(Flow::new(1 + i % 5, 0, 1)));
        let id = lab.start(Flow::new(6, 0, 9 * u64::from(MSS)).at(us(5)));
        lab.run(ms(10));
        took(&all_done(&lab)[id.0 as usize])
    };
    let (all, last) = (time("phost:free=8"), time("phost:free=8,hold_last=true"));
    assert!(all - last > 35e-6 && all - last < 50e-6, "{all} and {last} s");
}
#[test]
fn a_phost_receiver_that_sleeps_is_woken_by_requests_alone() {
    // One token at a time: the next is given when the message has its turn again, 50 packet times later, not when its packet is there.
    let time = |others: u64, protocol: &str| {
        let mut lab = Rig::new(Network::Star { hosts: 3 }, protocol).build();
        lab.start(Flow::new(1, 0, 10 * u64::from(MSS)));
        (0..others).for_each(|i| _ = lab.start(Flow::new(2, 0, 1).at(us(20 + 40 * i))));
        lab.run(ms(10));
        took(&all_done(&lab)[0])
    };
    let (awake, asleep) = (
        "phost:free=1,token_window=1,window_timeout=50",
        "phost:free=1,token_window=1,window_timeout=50,sleeps=true",
    );
    let turn = 50.0 * on_link(u64::from(MSS), 40, Rate(10 * GBPS)).as_secs();
    let slept = time(0, asleep);
    assert!((slept / (9.0 * turn) - 1.0).abs() < 0.1, "{slept} s for nine turns of {turn} s");
    assert!(time(0, awake) < 0.3 * slept);
    // A message of a byte asks, and the receiver looks at the other, too.
    assert!(time(9, asleep) < 0.8 * slept);
}
#[test]
fn a_full_phost_port_drops_data_for_a_token() {
    // Eight bursts of eight packets at once into a port that holds four: a message that asks in the middle of it is heard.
    let timeouts = |protocol: &str| {
        let mut lab = Rig::new(Network::Star { hosts: 10 }, protocol).build();
        (1..9).for_each(|src| _ = lab.start(Flow::new(src, 0, 8 * u64::from(MSS))));
        let id = lab.start(Flow::new(9, 0, 100 * u64::from(MSS)).at(us(5)));
        lab.run(ms(100));
        all_done(&lab)[id.0 as usize].counters.timeouts
    };
    assert_eq!(timeouts("phost:free=8,buffer=4pkt,makes_room=true"), 0);
    assert!(timeouts("phost:free=8,buffer=4pkt") > 0, "its request is dropped where nothing makes room");
}
#[test]
fn what_phost_sends_again_may_be_headers_alone() {
    // Tokens for what is missing follow one packet time after the last of them: what is on its way is sent again.
    let carried = |protocol: &str| {
        let network = Network::LeafSpine { leaves: 2, spines: 1, hosts_per_leaf: 1 };
        let mut lab = Rig::new(network, protocol).build();
        lab.start(Flow::new(0, 1, 100 * u64::from(MSS)));
        lab.run(ms(10));
        assert!(all_done(&lab)[0].counters.retransmits > 0, "{protocol}");
        let port = lab.uplink(0, 0);
        let up = lab.fabric().ports()[port as usize].stats();
        up.departed_bytes - u64::from(40 + FRAMING) * up.departed_packets
    };
    assert_eq!(carried("phost:resend=1,bare_again=true"), 100 * u64::from(MSS));
    assert!(carried("phost:resend=1") > 100 * u64::from(MSS));
}
#[test]
fn phost_gives_tokens_at_a_pace() {
    let time = |pace: &str| {
        let mut lab = Rig::new(Network::Star { hosts: 2 }, &format!("phost:pace={pace}")).build();
        lab.start(Flow::new(0, 1, 2000 * u64::from(MSS)));
        lab.run(ms(100));
        took(&all_done(&lab)[0])
    };
    let ratio = time("1.25") / time("1");
    assert!((ratio - 1.25).abs() < 0.01, "{ratio} times as long");
}
#[test]
fn a_phost_takes_its_paths_in_turn() {
    // Two hosts of a leaf send 400 packets each across four spines.
    let network = Network::LeafSpine { leaves: 2, spines: 4, hosts_per_leaf: 2 };
    let packets = |protocol: &str| {
        let mut lab = Rig::new(network, protocol).build();
        (0..2).for_each(|src| _ = lab.start(Flow::new(src, src + 2, 400 * u64::from(MSS))));
        lab.run(ms(100));
        all_done(&lab);
        [0, 1, 2, 3].map(|spine| {
            let port = lab.uplink(0, spine) as usize;
            lab.fabric().ports()[port].stats().departed_bytes / u64::from(MSS + 40 + FRAMING)
        })
    };
    // Requests are some bytes more.
    assert_eq!(packets("phost:in_turn=true"), [200; 4]);
    assert_ne!(packets("phost"), [200; 4]);
}
#[test]
fn a_pias_flow_sinks_as_it_sends() {
    // Behind a flow that has sunk to the second priority, one that begins meets no queue, whatever its size.
    let time = |others: u32| {
        let protocol = "pias:thresholds=20KB";
        let mut lab = Rig::new(Network::Star { hosts: 6 }, protocol).build();
        (1..=others).for_each(|src| _ = lab.start(Flow::new(src, 0, 4_000_000)));
        let id = lab.start(Flow::new(5, 0, 14_600).at(ms(1)));
        lab.run(ms(100));
        took(&all_done(&lab)[id.0 as usize])
    };
    let packet = on_link(u64::from(MSS), 40, Rate(10 * GBPS)).as_secs();
    let (alone, among) = (time(0), time(4));
    assert!(among < alone + 3.0 * packet, "{among} s against {alone} s alone");
}
#[test]
fn pias_keeps_the_queue_at_its_threshold() {
    // DCTCP in steady state: the link is busy, the queue stays near K and nothing is lost.
    let mut lab = Rig::new(Network::Star { hosts: 3 }, "pias:k=30pkt,thresholds=1GB").build();
    (1..=2).for_each(|src| _ = lab.start(Flow::new(src, 0, 20_000_000)));
    let mut longest = 0;
    for at in 0..200 {
        lab.run(us(10_000 + 50 * at));
        longest = longest.max(lab.fabric().ports()[3].queue_bytes() / u64::from(MSS + 40));
    }
    lab.run(ms(100));
    let last = all_done(&lab).iter().map(took).fold(0.0, f64::max);
    let ideal = on_link(40_000_000, 40, Rate(10 * GBPS)).as_secs();
    assert!(last < 1.03 * ideal, "{last} of {ideal}");
    assert!((25..50).contains(&longest), "{longest} packets");
    assert!(all_done(&lab).iter().all(|f| f.drops == 0 && f.counters.ece_acks > 0));
}
#[test]
fn a_pias_flow_that_waits_has_no_timeout_where_that_follows_the_round_trip() {
    // A flow of the second priority shares the link with ten of its kind: round trips longer than the least timeout.
    let timeouts = |more: &str| {
        let protocol = format!("pias:thresholds=2KB,k=1MB,alpha=0,rto=100us{more}");
        let mut lab = Rig::new(Network::Star { hosts: 11 }, &protocol).build();
        (1..=10).for_each(|src| _ = lab.start(Flow::new(src, 0, 2_000_000)));
        lab.run(ms(200));
        all_done(&lab).iter().map(|f| f.counters.timeouts).sum::<u64>()
    };
    let (fixed, follows) = (timeouts(""), timeouts(",adapt=true"));
    assert!(fixed > 100 && follows < fixed / 4, "{fixed} timeouts, {follows}");
}
#[test]
fn pias_by_timeouts_alone_bears_any_reordering() {
    let sent_again = |protocol: &str| {
        let reorder = Some(Reordering { share: 0.2, extra: Dur::micros(30) });
        let mut lab = Rig { reorder, ..Rig::new(Network::Star { hosts: 2 }, protocol) }.build();
        lab.start(Flow::new(0, 1, 2_000_000));
        lab.run(ms(200));
        all_done(&lab)[0].counters.retransmits
    };
    assert!(sent_again("pias") > 10);
    assert_eq!(sent_again("pias:dupacks=0"), 0);
}
#[test]
fn pias_in_order_is_slowed_by_reordering() {
    // Marks begin far above what is in flight, so that only ACKs in order tell the two apart.
    let time = |protocol: &str, share: f64| {
        let reorder = Some(Reordering { share, extra: Dur::micros(30) });
        let mut lab = Rig { reorder, ..Rig::new(Network::Star { hosts: 2 }, protocol) }.build();
        lab.start(Flow::new(0, 1, 200_000));
        lab.run(ms(200));
        took(&all_done(&lab)[0])
    };
    let any = "pias:dupacks=0,k=1MB,window=4";
    let ordered = format!("{any},in_order=true");
    assert_eq!(time(any, 0.0), time(&ordered, 0.0));
    let (free, bound) = (time(any, 0.2), time(&ordered, 0.2));
    assert!(bound > 1.1 * free, "{bound} s, {free} s");
}
#[test]
fn pias_refills_what_is_late_after_a_mark() {
    let sent_again = |protocol: &str| {
        let reorder = Some(Reordering { share: 0.2, extra: Dur::micros(30) });
        let mut lab = Rig { reorder, ..Rig::new(Network::Star { hosts: 3 }, protocol) }.build();
        (1..=2).for_each(|src| _ = lab.start(Flow::new(src, 0, 2_000_000)));
        lab.run(ms(200));
        all_done(&lab)[0].counters.retransmits
    };
    assert_eq!(sent_again("pias:dupacks=0,k=5pkt"), 0);
    assert!(sent_again("pias:dupacks=0,k=5pkt,refill=true") > 10);
    // Nothing is marked, so that nothing is cut.
    assert_eq!(sent_again("pias:dupacks=0,k=10MB,refill=true"), 0);
}
#[test]
fn pfabric_probes_while_nothing_gets_through() {
    let mut lab = Rig::new(Network::Star { hosts: 2 }, "pfabric").build();
    lab.start(Flow::new(0, 1, 1_000_000));
    // The link to the receiver is down for 5 ms: some 200 timeouts of three round trips, of which five send packets.
    lab.fail(us(100), 3, true);
    lab.recover(ms(5), 3);
    lab.run(ms(50));
    let f = all_done(&lab)[0];
    assert!(f.counters.timeouts > 100, "{f:?}");
    assert!(f.counters.retransmits < 40, "{f:?}");
    assert!(f.completed < us(5100) + on_link(1_000_000, 40, Rate(10 * GBPS)), "{f:?}");
}

#[test]
fn dcqcn_flows_share_fairly_and_lose_nothing() {
    let rig = Rig { rate: Rate(40 * GBPS), ..Rig::new(Network::Star { hosts: 3 }, "dcqcn") };
    let mut lab = rig.build();
    lab.start(Flow::new(1, 0, 400_000_000));
    lab.start(Flow::new(2, 0, 400_000_000).at(ms(1)));
    lab.run(ms(40));
    let before = lab.outcomes();
    lab.run(ms(80));
    let after = lab.outcomes();
    let got: Vec<f64> = before.iter().zip(&after).map(|(b, a)| (a.delivered - b.delivered) as f64).collect();
    let jain = (got[0] + got[1]).powi(2) / (2.0 * (got[0].powi(2) + got[1].powi(2)));
    assert!(jain > 0.99, "{got:?}");
    let line = 40e9 / 8.0 * 0.04 * f64::from(MSS) / f64::from(MSS + 44 + FRAMING);
    assert!(got[0] + got[1] > 0.9 * line, "{got:?} of {line}");
    for f in &after {
        assert!(f.drops == 0 && f.counters.retransmits == 0 && f.counters.ece_acks > 0, "{f:?}");
    }
}
#[test]
fn pause_keeps_an_incast_of_queue_pairs_lossless() {
    // Sixteen at line rate into 200 KB, of which 150 are headroom and reserves; with CNPs and without any.
    for protocol in ["dcqcn", "dcqcn:pmax=0,kmin=1GB,kmax=2GB"] {
        let run = |pause: bool| {
            let rig = Rig { pause, buffer: 200_000, ..Rig::new(Network::Star { hosts: 17 }, protocol) };
            let mut lab = rig.build();
            (1..17).for_each(|src| _ = lab.start(Flow::new(src, 0, 500_000)));
            lab.run(ms(if pause { 200 } else { 5 }));
            let outcomes = if pause { all_done(&lab) } else { lab.outcomes() };
            let (pauses, _) = lab.fabric().buffer(0).signals();
            (
                outcomes.iter().map(|f| f.drops).sum::<u64>(),
                pauses,
                outcomes.iter().map(took).fold(0.0, f64::max),
            )
        };
        let (drops, pauses, last) = run(true);
        assert!(drops == 0 && pauses > 0, "{protocol}: {drops} drops, {pauses} pauses");
        let ideal = 16.0 * on_link(500_000, 44, Rate(10 * GBPS)).as_secs();
        assert!(protocol == "dcqcn" || last < 1.01 * ideal, "{protocol}: {last} of {ideal}");
        let (drops, pauses, _) = run(false);
        assert!(drops > 0 && pauses == 0, "{protocol}: {drops} drops, {pauses} pauses without flow control");
    }
}
#[test]
fn go_back_n_repairs_a_random_loss() {
    let rig = Rig { loss: 0.001, ..Rig::new(Network::Star { hosts: 2 }, "dcqcn") };
    let mut lab = rig.build();
    lab.start(Flow::new(0, 1, 10_000_000));
    lab.run(ms(500));
    let f = all_done(&lab)[0];
    let c = f.counters;
    assert!(f.drops > 0 && c.fast_retransmits > 0, "{f:?}");
    // One NACK for each gap; a loss costs all that was under way behind it, some eight packets of a round trip.
    assert!(c.fast_retransmits <= f.drops, "{f:?}");
    let each = c.retransmits as f64 / c.fast_retransmits as f64;
    assert!((3.0..12.0).contains(&each), "{each} packets sent again for each gap: {f:?}");
    // An ACK that is late by a reordering is no loss, a data packet is.
    let reorder = Some(Reordering { share: 0.01, extra: Dur::micros(20) });
    let mut lab = Rig { reorder, ..Rig::new(Network::Star { hosts: 2 }, "dcqcn") }.build();
    lab.start(Flow::new(0, 1, 10_000_000));
    lab.run(ms(500));
    let f = all_done(&lab)[0];
    assert!(f.drops == 0 && f.counters.retransmits > 0 && f.counters.timeouts == 0, "{f:?}");
}

#[derive(Clone, Debug)]
struct Case {
    network: Network,
    /// From, to, bytes, start in us.
    flows: Vec<(u32, u32, u64, u64)>,
    loss: f64,
    reorder: Option<(f64, u64)>,
    trim_at: Option<u32>,
    /// Port, when in us, for how long, and whether what waits is lost.
    failures: Vec<(u32, u64, u64, bool)>,
    seed: u64,
}

fn network() -> impl Strategy<Value = Network> {
    prop_oneof![
        (2u32..6).prop_map(|hosts| Network::Star { hosts }),
        (1u32..4, 1u32..4, 2u32..4).prop_map(|(leaves, spines, hosts_per_leaf)| Network::LeafSpine {
            leaves,
            spines,
            hosts_per_leaf
        }),
    ]
}
fn case() -> impl Strategy<Value = Case> {
    let flow = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1u64..300_000, 0u64..500);
    let failure = (any::<prop::sample::Index>(), 0u64..1500, 1u64..2000, any::<bool>());
    let reorder = prop::option::of((0.01f64..0.3, 1u64..50));
    let loss = prop_oneof![Just(0.0), 0.0f64..0.05];
    let trim_at = prop::option::of(1u32..12);
    (
        network(),
        prop::collection::vec(flow, 1..12),
        loss,
        reorder,
        trim_at,
        prop::collection::vec(failure, 0..4),
        any::<u64>(),
    )
        .prop_map(|(network, flows, loss, reorder, trim_at, failures, seed)| {
            let n = network.hosts() as usize;
            let pair = |(a, b, bytes, start): (prop::sample::Index, prop::sample::Index, u64, u64)| {
                let (src, ahead) = (a.index(n), 1 + b.index(n - 1));
                (src as u32, ((src + ahead) % n) as u32, bytes, start)
            };
            let port = |(p, at, long, lose): (prop::sample::Index, u64, u64, bool)| {
                (p.index(network.ports() as usize) as u32, at, long, lose)
            };
            let (flows, failures) =
                (flows.into_iter().map(pair).collect(), failures.into_iter().map(port).collect());
            Case { network, flows, loss, reorder, trim_at, failures, seed }
        })
}

/// The lab itself checks that no packet and no byte comes from nowhere, is delivered twice or out of order.
fn every_byte_arrives(protocol: &str, case: &Case) {
    let mut lab = Rig {
        loss: case.loss,
        reorder: case.reorder.map(|(share, us)| Reordering { share, extra: Dur::micros(us) }),
        trim_at: case.trim_at,
        seed: case.seed,
        ..Rig::new(case.network, protocol)
    }
    .build();
    case.flows.iter().for_each(|(src, dst, bytes, start)| {
        lab.start(Flow::new(*src, *dst, *bytes).at(us(*start)));
    });
    for (port, at, long, lose) in &case.failures {
        lab.fail(us(*at), *port, *lose);
        lab.recover(us(at + long), *port);
    }
    lab.run(ms(3000));
    for f in all_done(&lab) {
        assert!(f.closed != Time::NEVER, "{protocol}: the sender does not know: {f:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn pfabric_delivers_every_byte_once(case in case()) {
        every_byte_arrives("pfabric", &case);
    }
    #[test]
    fn ndp_delivers_every_byte_once(case in case()) {
        every_byte_arrives("ndp", &case);
        every_byte_arrives("ndp:fifo=true,pace=1.04", &case);
    }
    #[test]
    fn homa_delivers_every_byte_once(case in case()) {
        every_byte_arrives("homa", &case);
    }
    #[test]
    fn phost_delivers_every_byte_once(case in case()) {
        every_byte_arrives("phost", &case);
        every_byte_arrives("phost:free=0,token_window=1,in_turn=true,pace=1.03", &case);
        every_byte_arrives("phost:hold_last=true,sleeps=true,makes_room=true,bare_again=true", &case);
    }
    #[test]
    fn pias_delivers_every_byte_once(case in case()) {
        every_byte_arrives("pias", &case);
        every_byte_arrives("pias:rto=200us,adapt=true,dupacks=0,grow=true,alpha=0", &case);
        every_byte_arrives(PIAS_NS2, &case);
    }
    #[test]
    fn homa_by_what_remains_delivers_every_byte_once(case in case()) {
        every_byte_arrives("homa:unscheduled_by=remaining,tail=10KB,done_after=100us", &case);
    }
    #[test]
    fn eqds_delivers_every_byte_once(case in case()) {
        every_byte_arrives("eqds", &case);
    }
    #[test]
    fn nscc_delivers_every_byte_once(case in case()) {
        every_byte_arrives("nscc:paths_by=reps", &case);
    }
    #[test]
    fn rccc_delivers_every_byte_once(case in case()) {
        every_byte_arrives("rccc:paths_by=mixed", &case);
    }
    #[test]
    fn nscc_rccc_delivers_every_byte_once(case in case()) {
        every_byte_arrives("nscc-rccc:paths_by=bitmap", &case);
    }
    #[test]
    fn rdma_delivers_every_byte_once(case in case()) {
        every_byte_arrives("dcqcn", &case);
        every_byte_arrives("dcqcn:ack_every=4", &case);
        every_byte_arrives("hpcc", &case);
        every_byte_arrives("timely:patched=true,window=20KB,window_by_rate=true", &case);
    }
}

/// One packet of ten is lost at every port of a switch, headers and data alike; and a message is delivered once.
#[test]
fn a_tenth_of_all_packets_may_be_lost() {
    let network = Network::LeafSpine { leaves: 2, spines: 2, hosts_per_leaf: 3 };
    let protocols = [
        "pfabric",
        "phost",
        "pias",
        "pias:rto=200us,adapt=true,dupacks=0,grow=true,alpha=0",
        PIAS_NS2,
        "homa",
        "homa:unscheduled_by=remaining,tail=10KB,done_after=100us",
        "ndp",
        "ndp:fifo=true",
        "eqds",
        "nscc:paths_by=reps",
        "nscc:paths_by=bitmap",
        "rccc:paths_by=mixed",
        "nscc-rccc",
    ];
    for protocol in protocols {
        for seed in 1..=3 {
            let mut lab = Rig { loss: 0.1, seed, ..Rig::new(network, protocol) }.build();
            for i in 0..12u32 {
                // From each host to the next two, of 1 byte to 177 KB.
                let (src, bytes) = (i % 6, 3u64.pow(i));
                lab.start(Flow::new(src, (src + 1 + i / 6) % 6, bytes).at(us(20 * u64::from(i))));
            }
            lab.run(ms(20_000));
            let outcomes = all_done(&lab);
            assert!(
                outcomes.iter().map(|f| f.drops).sum::<u64>() > 20,
                "{protocol}: next to nothing was lost"
            );
            outcomes.iter().for_each(|f| {
                assert!(f.closed != Time::NEVER, "{protocol}, seed {seed}: the sender does not know: {f:?}");
            });
        }
    }
}
