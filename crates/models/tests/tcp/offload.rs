//! Segmentation offload at the sender and merged segments at the receiver (Linux's tcp_output.c and tcp_gro_receive), rule by rule.

use crate::rig::{heard, ms, sender_with, Ear, Hand, Pair, MSS};
use penstock_core::packet::flag;
use penstock_core::tcp::TcpConfig;
use penstock_core::{AckRecord, Congestion, Control, Ecn, FlowView, Packet, WindowLaw};
use penstock_units::{Bytes, Dur, Rate, Time};

/// When the segments of new data left, a list for every instant.
fn bursts(sent: &[(Time, Packet)]) -> Vec<usize> {
    let mut found: Vec<(Time, usize)> = Vec::new();
    for (at, p) in sent.iter().filter(|(_, p)| p.payload > 0) {
        match found.last_mut() {
            Some((last, n)) if last == at => *n += 1,
            _ => found.push((*at, 1)),
        }
        assert!(!p.has(flag::RETRANSMIT));
    }
    found.into_iter().map(|(_, n)| n).collect()
}

/// Over a path of 10 ms at `law` the sizes of the bursts of `segments` segments.
fn paced(law: &str, gso: u32, segments: u64) -> (Vec<usize>, Time) {
    let mut p = Pair::new(law, |c| c.gso = gso);
    p.s.write(Time::ZERO, segments * MSS);
    assert!(p.run(Time::ZERO + ms(60_000)));
    assert_eq!(p.r.delivered(), segments * MSS);
    (bursts(&p.sent), p.now)
}

/// tcp_tso_autosize: what is paced leaves in bursts of 1/1024 s, two segments at least; the rate stays that of single segments, because
/// the pause after a burst is as long as all of it (tcp_update_skb_after_send).
#[test]
fn a_paced_sender_sends_bursts_at_the_same_rate() {
    let (single, alone) = paced("linux-reno:pacing=true", 1, 400);
    let (burst, together) = paced("linux-reno:pacing=true", 44, 400);
    // The first ten segments of a connection are not paced.
    assert_eq!((single[0], single[1..].iter().max()), (10, Some(&1)), "{single:?}");
    assert!(burst[1..].iter().filter(|n| **n >= 2).count() * 10 > burst.len() * 9, "{burst:?}");
    // 20 segments in flight at 10 ms are 2 per 1/1024 s; at 200 % of 200 segments per 10 ms there are 39.
    assert!(burst.iter().any(|n| *n > 10), "{burst:?}");
    let (alone, together) = (alone.as_secs(), together.as_secs());
    assert!((together / alone - 1.0).abs() < 0.1, "{together} s rather than {alone} s");
    // gso_max_segs
    let (few, _) = paced("linux-reno:pacing=true", 4, 400);
    assert_eq!(few[1..].iter().max(), Some(&4), "{few:?}");
}

/// Any law, paced at a rate.
struct AtRate(Box<dyn WindowLaw>, Rate);

impl WindowLaw for AtRate {
    fn on_ack(&mut self, ack: &AckRecord<'_>, flow: &FlowView) {
        self.0.on_ack(ack, flow);
    }
    fn on_congestion(&mut self, now: Time, flow: &FlowView, event: Congestion) {
        self.0.on_congestion(now, flow, event);
    }
    fn control(&self) -> Control {
        Control { pacing: Some(self.1), ..self.0.control() }
    }
}

/// As in tcp_update_skb_after_send, a segment that leaves later than pacing allows lets the next one leave earlier by
/// as much, but at most by half of the spacing. It leaves tcp_wstamp_ns as it was set when the segment left, whatever
/// the rate is later.
#[test]
fn what_leaves_late_shortens_the_wait_for_the_next_by_half_at_most() {
    // A packet of 1,000 bytes of payload and 52 of headers every millisecond.
    let rate = Rate((MSS + 52) * 8 * 1000);
    let wide = |c: &mut TcpConfig| c.initial_window = 100;
    let mut h = Hand::establish(sender_with("linux-reno", wide, |law| Box::new(AtRate(law, rate))));
    h.s.write(h.now, 100 * MSS);
    h.flush();
    assert_eq!(h.sent.len(), 1 + 10, "the SYN and the first ten, which are not paced");
    let wire = h.sent.last().expect("just sent").wire_len;
    let gap = Bytes(u64::from(wire)) / rate;
    let mut due = h.s.deadline();
    assert_eq!(due.since(h.now), gap);
    for (late, less) in [(Dur::ZERO, Dur::ZERO), (gap / 4, gap / 4), (gap / 2, gap / 2), (gap * 3, gap / 2)] {
        h.now = due + late;
        h.s.on_deadline(h.now);
        let before = h.sent.len();
        h.flush();
        assert_eq!(h.sent.len(), before + 1);
        due = h.s.deadline();
        assert_eq!(due, h.now + (gap - less), "late by {late}");
    }
}

/// The set-up is SO_MAX_PACING_RATE of 12.5 MB/s over a veth pair, 20 MiB, reno, gso_max_segs 44, 8 and 4. Linux 6.18
/// sends 10.0, 8.0 and 4.0 segments together and has an ACK for each burst (1,446 of 1,446; 1,775 of 1,805; 3,574 of
/// 3,622). The 10 are half of a window of 20. That grows no further because at most 10 are in flight: tcp_cwnd_test and
/// tcp_is_cwnd_limited together.
#[test]
fn bursts_and_their_acknowledgements_are_those_of_a_kernel_over_veth() {
    for (gso, together) in [(44, 10.0), (8, 8.0), (4, 4.0)] {
        // The rate is one of payload there, of bits on the wire here.
        let rate = Rate(100_000_000 * 1488 / 1448);
        let tweak = |c: &mut TcpConfig| {
            (c.mss, c.gso, c.gro, c.delayed_ack) = (1448, gso, Dur::micros(5), 2);
        };
        let mut p = Pair::with("linux-reno", tweak, |law| Box::new(AtRate(law, rate)));
        p.delay = Dur::micros(20);
        p.s.write(Time::ZERO, 20 << 20);
        assert!(p.run(Time::ZERO + ms(10_000)));
        let bursts = bursts(&p.sent).len();
        let mean = (20u64 << 20) as f64 / 1448.0 / bursts as f64;
        assert!((mean / together - 1.0).abs() < 0.03, "gso={gso}: {mean} for {together}");
        // The SYN's is one of them.
        assert!(p.acks.len().abs_diff(bursts) <= 10, "{} ACKs of {bursts}", p.acks.len());
    }
}

/// tcp_cwnd_test: no burst is more than half of the window.
#[test]
fn a_burst_is_at_most_half_of_the_window() {
    let quick = |c: &mut TcpConfig| (c.gso, c.initial_window) = (44, 8);
    let mut h = Hand::established("linux-reno:pacing=true", quick);
    h.event("write 8");
    // A round trip of 1 ms: tcp_tso_rtt_log allows 32 KB more.
    h.play(&[("ack 8", penstock_core::tcp::Phase::Open, 16.0, "")]);
    assert_eq!(h.event("write 40"), "8 9 10 11 12 13 14 15");
    assert_eq!(h.s.view.limit, penstock_core::Limit::Pacing);
}

/// tcp_tso_should_defer: with a third of the window to send, nothing waits. With less it waits while the last segment
/// left within a millisecond and the oldest has been in flight for half a round trip. (linux-gso-defer.pkt plays the
/// same against the kernel.)
#[test]
fn a_small_burst_waits_for_the_next_acknowledgement() {
    // The initial window of 40 at 10 ms: 2 * 40 per 10 ms, 7 segments per 1/1024 s.
    let wide = |gso| move |c: &mut TcpConfig| (c.gso, c.initial_window) = (gso, 40);
    let mut h = Hand::busy("linux-reno", wide(44));
    h.event("wait 9");
    // The last segment left long ago.
    assert_eq!(h.event("ack 1"), "40 41");
    let at = |h: &mut Hand| h.now = Time(h.now.0 - 1_000_000_000);
    at(&mut h);
    assert_eq!(h.event("ack 2"), "");
    at(&mut h);
    assert_eq!(h.event("ack 3"), "");
    at(&mut h);
    assert_eq!(h.event("ack 4"), "");
    at(&mut h);
    // 8 segments of room, and by now as many in 1/1024 s: a whole burst.
    assert_eq!(h.event("ack 5"), "42 43 44 45 46 47 48 49");
    let mut h = Hand::busy("linux-reno", wide(1));
    h.event("wait 9");
    for (ack, sent) in [("ack 1", "40 41"), ("ack 2", "42 43"), ("ack 3", "44 45")] {
        at(&mut h);
        assert_eq!(h.event(ack), sent);
    }
}

/// __tcp_transmit_skb: a burst of several segments ends with PSH, a single segment does not.
#[test]
fn bursts_end_with_psh() {
    for gso in [1, 4] {
        let mut p = Pair::new("linux-reno:pacing=true", |c| c.gso = gso);
        p.s.write(Time::ZERO, 200 * MSS);
        assert!(p.run(Time::ZERO + ms(60_000)));
        let data: Vec<_> = p.sent.iter().filter(|(_, p)| p.payload > 0).collect();
        let (last, rest) = data.split_last().unwrap();
        assert!(last.1.has(flag::PUSH));
        let ends = |i: usize| i + 1 == rest.len() || rest[i + 1].0 > rest[i].0;
        let alone = |i: usize| ends(i) && (i == 0 || rest[i - 1].0 < rest[i].0);
        let pushed = (0..rest.len()).filter(|i| rest[*i].1.has(flag::PUSH));
        // The first ten segments are bursts of four, four and two.
        assert!(pushed.clone().all(|i| gso > 1 && !alone(i) && (i < 10 || ends(i))), "gso={gso}");
        let bursts = (10..rest.len()).filter(|i| ends(*i) && !alone(*i)).count();
        assert_eq!(pushed.filter(|i| *i >= 10).count(), bursts, "gso={gso}");
    }
}

/// tcp_xmit_retransmit_queue: what is lost side by side is sent again as one burst, as far as the window goes.
#[test]
fn what_is_lost_together_is_sent_again_together() {
    for (gso, together) in [(1, 1), (44, 2)] {
        let mut p = Pair::new("bbr", |c| c.gso = gso).lose(&[60, 61, 62, 63]);
        p.s.write(Time::ZERO, 300 * MSS);
        assert!(p.run(Time::ZERO + ms(60_000)));
        let again: Vec<Time> =
            p.sent.iter().filter(|(_, p)| p.has(flag::RETRANSMIT)).map(|(at, _)| *at).collect();
        let most = again.iter().map(|at| again.iter().filter(|t| *t == at).count()).max().unwrap();
        assert!(again.len() == 4 && most >= together && (gso > 1 || most == 1), "gso={gso}: {again:?}");
    }
}

/// What is sent again leaves as without it.
#[test]
fn a_loss_is_repaired_as_without_offload() {
    for gso in [1, 2, 44] {
        let mut p = Pair::new("linux-cubic", |c| c.gso = gso).lose(&[3, 5, 40, 41, 42, 43, 44]);
        p.s.write(Time::ZERO, 300 * MSS);
        p.s.close();
        assert!(p.run(Time::ZERO + ms(20_000)));
        assert_eq!(
            (p.r.delivered(), p.s.stats.retransmits, p.s.stats.timeouts),
            (300 * MSS, 7, 0),
            "gso={gso}"
        );
    }
}

fn ear(gro: Dur) -> Ear {
    // Quick acks would answer each for its own.
    Ear::new("linux-reno", |c| (c.gro, c.delayed_ack) = (gro, 2))
}

/// Segments that follow each other within the wait are one, and have one ACK when it is over.
#[test]
fn what_follows_within_the_wait_has_one_acknowledgement() {
    let mut e = ear(Dur::micros(100));
    for n in 0..5 {
        assert!(e.hear(n, Ecn::NotEct, 0).is_empty());
        e.now = e.now + Dur::micros(10);
    }
    assert_eq!(e.r.delivered(), 0);
    assert_eq!(e.r.deadline(), Time::ZERO + Dur::micros(100));
    assert_eq!(heard(&e.tick()), [(5, false, vec![])]);
    assert_eq!(e.r.delivered(), 5 * MSS);
    // Without it: the first sixteen are acknowledged each.
    let mut e = ear(Dur::ZERO);
    let acks: usize = (0..5).map(|n| e.hear(n, Ecn::NotEct, 0).len()).sum();
    assert_eq!(acks, 5);
}

/// A gap, another ECN field, PSH, FIN or 64 KB end a merge.
#[test]
fn what_does_not_follow_begins_anew() {
    let mut e = ear(Dur::micros(100));
    e.hear(0, Ecn::Ect0, 0);
    // What is held arrives first.
    assert_eq!(heard(&e.hear(2, Ecn::Ect0, 0)), [(1, false, vec![])]);
    assert_eq!(heard(&e.tick()), [(1, false, vec![(2, 3)])]);
    let mut e = ear(Dur::micros(100));
    e.hear(0, Ecn::Ect0, 0);
    assert_eq!(e.hear(1, Ecn::Ce, 0).len(), 1);
    let mut e = ear(Dur::micros(100));
    e.hear(0, Ecn::Ect0, 0);
    assert_eq!(heard(&e.hear(1, Ecn::Ect0, flag::PUSH)), [(2, false, vec![])]);
    assert_eq!(e.hear(2, Ecn::Ect0, flag::FIN).len(), 1);
    let mut e = ear(Dur::micros(100));
    let first = (0..70).find(|n| !e.hear(*n, Ecn::Ect0, 0).is_empty());
    assert_eq!((first, e.r.delivered()), (Some(65), 65 * MSS));
}

/// Both together: a burst costs one ACK, and whatever is lost is delivered once.
#[test]
fn a_burst_costs_one_acknowledgement() {
    let acks = |gso, gro| {
        let mut p = Pair::new("linux-cubic:pacing=true", |c| {
            (c.gso, c.gro, c.delayed_ack, c.timestamps) = (gso, gro, 2, true);
        });
        p.s.write(Time::ZERO, 2000 * MSS);
        assert!(p.run(Time::ZERO + ms(20_000)));
        (p.acks.len(), bursts(&p.sent).len())
    };
    let (each, _) = acks(1, Dur::ZERO);
    let (merged, bursts) = acks(44, Dur::micros(10));
    assert!((950..1100).contains(&each), "{each}");
    assert!(
        merged.abs_diff(bursts) < 20 && merged * 4 < each,
        "{merged} for {bursts} bursts, {each} without"
    );
}
