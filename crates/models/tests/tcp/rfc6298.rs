//! The retransmission timer.

use crate::rig::{ms, Hand};
use penstock_core::tcp::Phase::{Loss, Open};
use penstock_core::tcp::{RttEstimator, TcpConfig};
use penstock_units::{Dur, Time};

fn free() -> TcpConfig {
    TcpConfig { rto_min: Dur::ZERO, ..TcpConfig::default() }
}

#[test]
fn section_2_estimator_by_hand() {
    let cfg = free();
    let mut e = RttEstimator::default();
    // (2.1) before any sample.
    assert_eq!(e.rto(&cfg), ms(1000));
    // (2.2) SRTT = R, RTTVAR = R / 2; then (2.3). Columns: sample, SRTT, RTTVAR, RTO in microseconds.
    for (sample, srtt, var, rto) in [
        (100_000, 100_000, 50_000, 300_000),
        // RTTVAR = 3/4 50 + 1/4 |100 - 60|, SRTT = 7/8 100 + 1/8 60.
        (60_000, 95_000, 47_500, 285_000),
        (95_000, 95_000, 35_625, 237_500),
        (175_000, 105_000, 46_718, 291_875),
    ] {
        e.sample(Dur::micros(sample), &cfg);
        let micros = |d: Dur| d.0 / 1_000_000;
        assert_eq!((micros(e.smoothed), micros(e.variation), micros(e.rto(&cfg))), (srtt, var, rto));
    }
}

#[test]
fn section_2_3_granularity_rounds_samples_and_bounds_the_variation_term() {
    let cfg = TcpConfig { rto_granularity: ms(10), ..free() };
    let mut e = RttEstimator::default();
    e.sample(ms(101), &cfg);
    // 110 + max(10, 4 * 55) = 330.
    assert_eq!((e.smoothed, e.rto(&cfg)), (ms(110), ms(330)));
    for _ in 0..100 {
        e.sample(ms(101), &cfg);
    }
    // The variation is gone: 110 + G.
    assert_eq!(e.rto(&cfg), ms(120));
}

#[test]
fn section_2_4_floor_and_2_5_ceiling() {
    let cfg = TcpConfig { rto_min: ms(200), rto_max: ms(500), ..TcpConfig::default() };
    let mut e = RttEstimator::default();
    e.sample(Dur::micros(100), &cfg);
    assert_eq!(e.rto(&cfg), ms(200));
    e.back_off(&cfg);
    assert_eq!(e.rto(&cfg), ms(400));
    e.back_off(&cfg);
    assert_eq!(e.rto(&cfg), ms(500));
}

#[test]
fn section_5_5_back_off_doubles_up_to_64() {
    let cfg = TcpConfig { rto_max: Dur::millis(10_000_000), ..TcpConfig::default() };
    let mut e = RttEstimator::default();
    e.sample(ms(1), &cfg);
    for factor in [1, 2, 4, 8, 16, 32, 64, 64, 64] {
        assert_eq!(e.rto(&cfg), ms(200 * factor));
        e.back_off(&cfg);
    }
    // (5.7) note and Karn: the next valid sample ends it.
    e.sample(ms(1), &cfg);
    assert_eq!(e.rto(&cfg), ms(200));
}

/// How long the timer still runs.
fn left(h: &Hand) -> Dur {
    h.s.deadline().since(h.now)
}

#[test]
fn section_5_1_to_5_3_the_timer_runs_while_data_is_outstanding() {
    let mut h = Hand::established("newreno", |_| ());
    assert_eq!(h.s.deadline(), Time::NEVER);
    h.event("write 3");
    assert_eq!(left(&h), ms(200)); // (5.1)
    h.event("wait 50");
    h.event("ack 1");
    assert_eq!(left(&h), ms(200)); // (5.3)
    h.event("wait 49");
    h.event("dup");
    assert_eq!(left(&h), ms(149)); // a duplicate does not restart it
    h.event("ack 3");
    assert_eq!(h.s.deadline(), Time::NEVER); // (5.2)
}

#[test]
fn section_3_karn_a_retransmitted_segment_gives_no_sample() {
    let mut h = Hand::established("newreno", |c| c.rto_min = ms(30));
    let before = h.s.rtt().clone();
    // 10 ms twice the variation of the handshake's only sample: 10 + 4 * 5.
    assert_eq!(h.s.rto(), ms(30));
    h.event("write 1");
    h.play(&[("tick", Loss, 1.0, "r0")]);
    assert_eq!(h.s.rto(), ms(60));
    h.play(&[("tick", Loss, 1.0, "r0")]);
    assert_eq!(h.s.rto(), ms(120));
    // Whichever copy this answers: no sample, and the back-off stays.
    h.play(&[("ack 1", Open, 1.0, "")]);
    assert_eq!((h.s.rtt().smoothed, h.s.rto()), (before.smoothed, ms(120)));
    // New data, sent once: sampled, and the back-off ends.
    h.event("write 1");
    assert_eq!(left(&h), ms(120));
    h.event("wait 8");
    h.event("ack 2");
    assert_eq!(h.s.rtt().latest, ms(10));
    assert_eq!(h.s.rto(), ms(30));
}

#[test]
fn section_3_timestamps_sample_retransmissions_too() {
    let mut h = Hand::established("newreno", |c| c.timestamps = true);
    h.event("write 1");
    h.event("tick");
    let sent = h.now;
    h.now = h.now + ms(7);
    let p =
        penstock_core::Packet { seq: 1000, stamp: sent.0, flags: 2, window: 1 << 30, ..Default::default() };
    h.s.on_packet(h.now, &p, &penstock_core::CcHeader::NONE);
    assert_eq!(h.s.rtt().latest, ms(7));
}

#[test]
fn section_5_6_the_timer_restarts_with_the_doubled_timeout() {
    let mut h = Hand::busy("newreno", |_| ());
    for factor in [2, 4, 8, 16, 32, 64, 64] {
        h.event("tick");
        assert_eq!(left(&h), ms(200 * factor).min(ms(60_000)));
    }
}

#[test]
fn section_5_7_after_a_lost_syn_data_begins_with_three_seconds() {
    for (initial, lost, rto) in
        [(1000, 0, 200), (1000, 1, 3000), (1000, 3, 3000), (2000, 1, 3000), (3000, 1, 3000), (10, 2, 30)]
    {
        let mut h = Hand::closed("newreno", |c| c.rto_initial = ms(initial));
        h.s.open(h.now);
        assert_eq!(h.flush(), "syn");
        for i in 0..lost {
            assert_eq!(left(&h), ms(initial << i));
            h.tick();
            assert_eq!(h.flush(), "syn");
        }
        h.now = h.now + ms(5);
        h.syn_ack();
        h.event("write 1");
        assert_eq!(left(&h), ms(rto), "initial {initial} ms, {lost} SYNs lost");
    }
}

#[test]
fn section_5_7_the_syn_backs_off_like_data() {
    let mut h = Hand::closed("newreno", |_| ());
    h.s.open(h.now);
    h.flush();
    for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
        assert_eq!(left(&h), ms(1000 * seconds));
        h.tick();
        assert_eq!(h.flush(), "syn");
    }
}

/// Section 3 (Karn): five segments arrive, all their ACKs are lost, and that of the first one's retransmission acknowledges all: no sample, whatever the law. What was
/// sent once arrived long ago.
#[test]
fn section_3_an_ack_that_covers_a_retransmission_is_no_sample() {
    for name in ["newreno", "sack", "cubic", "linux-reno", "linux-cubic", "bbr", "bbr3", "dctcp"] {
        let mut h = Hand::established(name, |_| ());
        h.event("write 5");
        let srtt = h.s.rtt().smoothed;
        while h.sent.iter().filter(|p| p.seq == 0 && p.payload > 0).count() < 2 {
            h.event("tick");
        }
        let before = h.s.rto();
        h.event("ack 5");
        assert_eq!((h.s.rtt().smoothed, h.s.rtt().latest, h.s.rtt().samples), (srtt, ms(10), 1), "{name}");
        // RFC 6298 (5.7): the back-off stays until there is one.
        assert_eq!(h.s.rto(), before, "{name}");
    }
}
