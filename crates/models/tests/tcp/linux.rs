//! Linux's recovery, clause by clause: RACK (RFC 8985 section 6), PRR (RFC 9937), F-RTO (RFC 5682), undo (RFC 4015, RFC 3708), the
//! timeout and the delayed ACKs of Linux.

use crate::rig::{heard, ms, Ear, Hand, Pair, MSS};
use penstock_core::tcp::Phase::{FastRecovery, Loss, Open};
use penstock_core::tcp::TcpConfig;
use penstock_core::Ecn;
use penstock_units::{Dur, Time};

fn busy() -> Hand {
    Hand::busy("linux-reno", |_| ())
}
fn stamped(c: &mut TcpConfig) {
    c.timestamps = true;
}

/// Section 6.2 step 4: without reordering seen, DupThresh SACKed segments make the window of reordering zero: all that was sent
/// before the newest of them is lost. RFC 9937: 10 segments become 5, one for every second delivered.
#[test]
fn rfc8985_6_2_three_sacked_segments_mean_loss_and_prr_halves_over_the_round() {
    let mut h = busy();
    h.play(&[
        ("dup s 1-2", Open, 10.0, "10"),
        ("dup s 1-3", Open, 10.0, "11"),
        ("dup s 1-4", FastRecovery, 5.0, "r0"),
        ("dup s 1-5", FastRecovery, 5.0, ""),
        ("dup s 1-6", FastRecovery, 5.0, "12"),
        ("dup s 1-7", FastRecovery, 5.0, ""),
        ("dup s 1-8", FastRecovery, 5.0, "13"),
    ]);
    assert_eq!((h.s.stats.timeouts, h.s.stats.fast_retransmits), (0, 1));
}

/// Step 5: with fewer than DupThresh a quarter of the smallest RTT is waited for. The timer marks the loss.
#[test]
fn rfc8985_6_2_the_reordering_timer_finds_a_loss_without_three_duplicates() {
    let mut h = Hand::established("linux-reno", |_| ());
    h.event("write 3");
    // Sent 1 ms before the ACK at 1 ms: RACK.rtt = 1 ms... the SACK of 2 comes 10 ms after the segments left.
    h.event("wait 9");
    h.play(&[("dup s 2-3", Open, 10.0, "")]);
    // Sent at t, RACK.rtt = 11 ms, reo_wnd = min_RTT / 4 = 10 / 4 ms: both are due 2.5 ms after the ACK.
    // Linux's timer is 2 ms later (TCP_TIMEOUT_MIN_US). Nothing more is delivered then: PRR lets one segment out.
    assert_eq!(h.s.deadline().since(h.now), Dur::micros(4500));
    h.play(&[("tick", FastRecovery, 5.0, "r0")]);
}

/// Step 3 and 4: once reordering was seen, three SACKed segments are no loss: the window of reordering is a quarter of the RTT.
#[test]
fn rfc8985_6_2_reordering_once_seen_is_waited_for() {
    let mut h = busy();
    h.play(&[
        ("dup s 1-2", Open, 10.0, "10"),
        // Segment 0 arrives late, sent once, below FACK: reordering. (Growth counts what is delivered for the first time.)
        ("ack 2", Open, 11.0, "11 12"),
        ("dup s 3-4", Open, 11.0, "13"),
        ("dup s 3-5", Open, 11.0, "14"),
        ("dup s 3-6", Open, 11.0, "15"),
        ("dup s 3-7", Open, 11.0, "16"),
        ("ack 7", Open, 12.0, "17 18"),
    ]);
    assert_eq!(h.s.stats.retransmits, 0);
}

/// Step 5: a retransmission is found to be lost by what was sent after it and has arrived, without a timeout.
#[test]
fn rfc8985_6_2_a_lost_retransmission_is_sent_again() {
    let mut h = busy();
    h.play(&[("dup s 1-4", FastRecovery, 5.0, "r0 10")]);
    h.event("wait 8");
    h.play(&[("dup s 1-10", FastRecovery, 5.0, "11 12 13")]);
    h.event("wait 8");
    // 10 left with r0 and after it by number; 11 left later: r0 is lost again.
    h.play(&[("dup s 1-12", FastRecovery, 5.0, "r0 14 15")]);
    assert_eq!(h.s.stats.timeouts, 0);
}

/// Section 6.3: the timer marks what has been out for long, keeps the scoreboard, and only what is missing is sent again.
#[test]
fn rfc8985_6_3_after_a_timeout_only_what_is_missing_is_sent_again() {
    let mut h = Hand::established("linux-reno", |_| ());
    h.event("write 6");
    h.play(&[
        ("dup s 2-4", Open, 10.0, ""),
        ("tick", FastRecovery, 5.0, "r0"),
        // It is lost again, and nothing is left to tell of it.
        ("tick", Loss, 1.0, "r0"),
        ("ack 1", Loss, 2.0, "r1 r4"),
        // 2 and 3 had been reported.
        ("ack 4", Loss, 3.0, "r5"),
        ("ack 6", Open, 5.0, ""),
    ]);
}

/// RFC 5682 section 3.1: the first ACK after the timeout advances, new data is sent (2b); the next reports a segment sent once (3b):
/// the timeout was spurious, window and ssthresh are as before.
#[test]
fn rfc5682_3_1_a_spurious_timeout_is_taken_back() {
    let mut h = busy();
    h.play(&[
        ("tick", Loss, 1.0, "r0"),
        ("ack 1", Loss, 2.0, "10 11"),
        ("ack 2", Open, 11.0, "12"),
        ("ack 3", Open, 12.0, "13 14"),
    ]);
    assert_eq!((h.s.stats.undone, h.s.stats.timeouts, h.s.stats.retransmits), (1, 1, 1));
    assert!(h.ssthresh().is_infinite());
}

/// RFC 5682 section 3.1 step 3a: a duplicate after the new data: the loss was real, and conventional recovery goes on.
#[test]
fn rfc5682_3_1_a_duplicate_after_new_data_means_that_the_loss_was_real() {
    let mut h = busy();
    h.play(&[("tick", Loss, 1.0, "r0"), ("ack 1", Loss, 2.0, "10 11"), ("dup s 10-11", Loss, 2.0, "r1")]);
    assert_eq!(h.s.stats.undone, 0);
}

/// RFC 4015 (Eifel): the ACK that repairs echoes the time of the first copy.
#[test]
fn rfc4015_3_2_an_ack_of_the_original_takes_the_reduction_back() {
    let mut h = Hand::busy("linux-reno", stamped);
    h.event("wait 9");
    h.play(&[("dup s 1-4", FastRecovery, 5.0, "r0 10")]);
    // The rig's ACKs echo no time at all: older than any retransmission.
    h.play(&[("ack 4", Open, 11.0, "11 12 13 14")]);
    assert_eq!(h.s.stats.undone, 1);
}

/// RFC 3708: the only retransmission is reported as a duplicate after the recovery: the reduction was needless.
#[test]
fn rfc3708_a_dsack_for_every_retransmission_takes_the_reduction_back() {
    let mut h = busy();
    h.event("wait 9");
    h.play(&[
        ("dup s 1-4", FastRecovery, 5.0, "r0 10"),
        ("ack 4", FastRecovery, 5.0, ""),
        // 10, and 8 for what is delivered: 4 to 10 and the duplicate, as in a kernel.
        ("ack 11 twice 0-1", Open, 18.0, "11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28"),
    ]);
    assert_eq!(h.s.stats.undone, 1);
}

/// Linux: the floor of 200 ms is one of the variation: RTO = SRTT + 200 ms.
#[test]
fn the_timeout_is_the_floor_beyond_the_round_trip() {
    let mut h = Hand::established("linux-reno", |_| ());
    h.event("write 1");
    assert_eq!(h.s.rto(), ms(210));
    let mut rfc = Hand::established("sack", |_| ());
    rfc.event("write 1");
    assert_eq!(rfc.s.rto(), ms(200));
}

/// After an idle time the window is halved for every timeout that has passed, down to the restart window of 10.
#[test]
fn idle_time_halves_the_window_per_timeout() {
    let mut h = Hand::established("linux-reno", |c| c.initial_window = 4);
    h.event("write 32");
    h.play(&[
        ("ack 4", Open, 8.0, "4 5 6 7 8 9 10 11"),
        ("ack 12", Open, 16.0, "12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27"),
        ("ack 28", Open, 32.0, "28 29 30 31"),
        ("ack 32", Open, 32.0, ""),
    ]);
    // RTO is some 207 ms: two of them pass.
    h.event("wait 500");
    h.play(&[("write 20", Open, 8.0, "32 33 34 35 36 37 38 39")]);
    assert_eq!(h.ssthresh(), f64::INFINITY);
}

/// Whatever is lost, everything arrives once; with losses at the tail no timeout is needed.
#[test]
fn everything_arrives_over_a_lossy_channel() {
    for (name, lost) in [
        ("linux-reno", vec![3, 17, 18, 40, 58, 59]),
        ("linux-cubic", vec![0, 1, 2, 30, 59]),
        ("bbr", vec![5, 6, 7, 33]),
    ] {
        let mut p =
            Pair::new(name, |c| (c.tail_loss_probe, c.dsack, c.delayed_ack) = (true, true, 2)).lose(&lost);
        p.s.write(Time::ZERO, 60 * MSS);
        p.s.close();
        assert!(p.run(Time::ZERO + ms(20_000)), "{name}");
        assert_eq!(p.r.delivered(), 60 * MSS, "{name}");
        assert_eq!((p.s.stats.timeouts, p.r.duplicate_bytes), (0, 0), "{name}");
        assert_eq!(p.s.stats.retransmits, lost.len() as u64, "{name}");
    }
}

/// Quick acks at the start, then every second segment; after 40 ms a single one.
#[test]
fn acks_are_quick_at_first_and_then_delayed() {
    let mut ear = Ear::new("linux-reno", |c| c.delayed_ack = 2);
    let mut acks = vec![];
    for n in 0..22 {
        ear.now = ear.now + Dur::micros(100);
        acks.push(ear.hear(n, Ecn::NotEct, 0).len());
    }
    assert_eq!(acks, [vec![1; 16], vec![0, 1, 0, 1, 0, 1]].concat());
    assert_eq!(ear.hear(22, Ecn::NotEct, 0).len(), 0);
    assert_eq!(ear.r.deadline().since(ear.now), ms(40));
    assert_eq!(heard(&ear.tick()), [(23, false, vec![])]);
}
