//! Receive window: RFC 9293 section 3.8.6 and RFC 1122 section 4.2.3.

use crate::rig::{ms, Hand, Pair, MSS};
use penstock_core::packet::flag;
use penstock_core::tcp::Phase::Open;
use penstock_units::{Dur, Rate, Time};

#[test]
fn rfc9293_section_3_8_6_1_zero_window_is_probed_with_back_off() {
    let mut h = Hand::established("newreno", |_| ());
    h.event("write 100");
    h.play(&[("ack 10 w0", Open, 11.0, "")]);
    for wait in [200, 400, 800, 1600, 3200, 6400, 12_800, 12_800] {
        assert_eq!(h.s.deadline().since(h.now), ms(wait));
        h.now = h.s.deadline();
        h.s.on_deadline(h.now);
        assert_eq!(h.flush(), "probe");
        // Any number of answers: neither duplicates nor losses.
        h.now = h.now + ms(1);
        h.play(&[("dup probe", Open, 11.0, "")]);
        h.now = Time(h.now.0 - ms(2).0);
    }
    h.play(&[("dup probe w4", Open, 11.0, "10 11 12 13")]);
    assert_eq!((h.s.stats.timeouts, h.s.stats.retransmits), (0, 0));
}

#[test]
fn rfc1122_section_4_2_3_4_no_small_segments_until_the_override_timeout() {
    let mut h = Hand::established("newreno", |c| c.rwnd = 10_000);
    h.event("write 100");
    // Less than a segment and less than half of the largest window: wait.
    let half = |h: &mut Hand, bytes: u32| {
        h.now = h.now + ms(1);
        let p =
            penstock_core::Packet { seq: 10 * MSS, flags: flag::ACK, window: bytes, ..Default::default() };
        h.s.on_packet(h.now, &p, &penstock_core::CcHeader::NONE);
        h.flush()
    };
    assert_eq!(half(&mut h, 400), "");
    h.tick();
    assert_eq!(h.flush(), "10000+400");
}

#[test]
fn rfc1122_section_4_2_3_3_the_right_edge_moves_in_steps_and_never_left() {
    // A reader of one segment per ten milliseconds and a buffer of six.
    let mut p = Pair::new("newreno", |c| {
        (c.rwnd, c.read_rate) = (6 * MSS, Some(Rate(800_000)));
    });
    p.s.write(Time::ZERO, 40 * MSS);
    assert!(p.run(Time::ZERO + Dur::millis(5_000)), "all is delivered");
    let mut edge = 6 * MSS;
    for (at, ack) in p.acks.iter().filter(|a| !a.1.has(flag::SYN)) {
        let now = ack.seq + u64::from(ack.window);
        assert!(now >= edge, "moved left at {at}");
        assert!(now == edge || now >= edge + MSS, "a step of {} bytes at {at}", now - edge);
        edge = now;
    }
    // The reader is what limits: 40 segments take 400 ms, less what fits the buffer.
    assert!(p.now >= Time::ZERO + ms(340) && p.now < Time::ZERO + ms(600), "done at {}", p.now);
    assert_eq!((p.s.stats.timeouts, p.s.stats.retransmits), (0, 0));
}

#[test]
fn rfc9293_section_3_8_6_1_a_lost_window_update_is_repaired_by_the_probe() {
    let run = |lost: Vec<u64>| {
        let mut p = Pair::new("newreno", |c| (c.rwnd, c.read_rate) = (4 * MSS, Some(Rate(800_000))));
        p.lost_acks = lost;
        p.s.write(Time::ZERO, 12 * MSS);
        assert!(p.run(Time::ZERO + Dur::millis(10_000)));
        (p.acks.len() as u64, p.sent.iter().filter(|s| s.1.has(flag::PROBE)).count())
    };
    let (acks, probes) = run(vec![]);
    assert_eq!(probes, 0);
    // Lose each acknowledgement in turn: every run ends, some only by a probe.
    let probed = (1..acks).filter(|i| run(vec![*i]).1 > 0).count();
    assert!(probed > 0, "no window update among {acks} acknowledgements needed a probe");
}

#[test]
fn rfc9293_section_3_8_6_the_receive_window_bounds_the_flight() {
    let mut h = Hand::established("newreno", |_| ());
    h.event("dup w4");
    h.play(&[
        ("write 50", Open, 10.0, "0 1 2 3"),
        // RFC 7661: it is not the congestion window that limits, so it does not grow.
        ("ack 1", Open, 10.0, "4"),
        ("ack 2 w6", Open, 10.0, "5 6 7"),
    ]);
}

#[test]
fn rfc9293_section_3_10_7_4_an_older_acknowledgement_does_not_change_the_window() {
    let mut h = Hand::established("newreno", |c| c.initial_window = 40);
    h.event("dup w10");
    h.play(&[
        ("write 50", Open, 40.0, "0 1 2 3 4 5 6 7 8 9"),
        ("ack 6 w20", Open, 40.0, "10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25"),
        // Overtaken on its way: neither its window nor its number says anything.
        ("ack 4 w4", Open, 40.0, ""),
        ("ack 8 w20", Open, 40.0, "26 27"),
        ("ack 7 w60", Open, 40.0, ""),
        // The newest number again with another window is an update.
        ("dup w22", Open, 40.0, "28 29"),
    ]);
    assert_eq!(h.s.view.rwnd, 22 * MSS);
    assert_eq!((h.s.stats.timeouts, h.s.stats.retransmits), (0, 0));
}
