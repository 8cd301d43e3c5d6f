//! Tail-loss probes.

use crate::rig::{ms, Hand};
use penstock_core::tcp::Phase::{FastRecovery, Loss, Open};
use penstock_units::Dur;

fn probing(name: &str) -> Hand {
    Hand::established(name, |c| c.tail_loss_probe = true)
}
fn left(h: &Hand) -> Dur {
    h.s.deadline().since(h.now)
}

#[test]
fn section_7_2_the_probe_timeout_is_two_srtt() {
    let mut h = probing("sack");
    h.event("write 10");
    assert_eq!(left(&h), ms(20));
    // Restarted by an acknowledgement of new data; SRTT = 7/8 10 + 1/8 1.
    h.event("ack 2");
    assert_eq!(left(&h), Dur::micros(17_750));
    // A single segment waits for the peer's delayed acknowledgement too.
    let delayed = |c: &mut penstock_core::tcp::TcpConfig| {
        (c.tail_loss_probe, c.delayed_ack, c.delayed_ack_timeout) = (true, 2, ms(40));
    };
    let mut h = Hand::established("sack", delayed);
    h.event("write 1");
    assert_eq!(left(&h), ms(60));
    let mut h = Hand::established("sack", delayed);
    h.event("write 2");
    assert_eq!(left(&h), ms(20));
}

#[test]
fn section_7_2_a_timeout_that_is_due_before_becomes_the_probe() {
    let mut h = Hand::established("sack", |c| {
        (c.tail_loss_probe, c.delayed_ack, c.delayed_ack_timeout, c.rto_min) = (true, 2, ms(40), ms(30));
    });
    h.event("write 1");
    // PTO would be 60 ms, RTO is 30 ms.
    assert_eq!(left(&h), ms(30));
    h.play(&[("tick", Open, 10.0, "r0"), ("tick", Loss, 1.0, "r0")]);
}

#[test]
fn section_7_3_new_data_if_there_is_any_else_the_last_segment() {
    let mut h = Hand::busy("sack", |c| c.tail_loss_probe = true);
    // One segment beyond the congestion window.
    h.play(&[("tick", Open, 10.0, "10"), ("tick", Loss, 1.0, "r0")]);
    let mut h = probing("sack");
    h.event("write 10");
    h.play(&[("ack 9", Open, 10.0, ""), ("tick", Open, 10.0, "r9")]);
}

#[test]
fn section_7_3_one_probe_then_the_retransmission_timer() {
    let mut h = probing("sack");
    h.event("write 5");
    h.play(&[("tick", Open, 10.0, "r4")]);
    assert_eq!(left(&h), ms(200));
    h.play(&[("tick", Loss, 1.0, "r0")]);
    assert_eq!(h.s.stats.probes, 1);
}

#[test]
fn section_7_4_2_a_repaired_loss_is_a_sign_of_congestion() {
    let mut h = probing("sack");
    h.event("write 10");
    h.play(&[
        ("ack 9", Open, 10.0, ""),
        ("tick", Open, 10.0, "r9"),
        // Not known yet whether the original was lost.
        ("ack 10", Open, 10.0, ""),
        ("write 20", Open, 10.0, "10 11 12 13 14 15 16 17 18 19"),
        // No duplicate came before the next number: it was. FlightSize 10 is halved; then the ACK adds 1 / 5.
        ("ack 11", Open, 5.2, ""),
    ]);
}

#[test]
fn section_7_4_2_a_plain_duplicate_means_that_nothing_was_lost() {
    let mut h = probing("sack");
    h.event("write 10");
    h.play(&[
        ("ack 9", Open, 10.0, ""),
        ("tick", Open, 10.0, "r9"),
        ("ack 10", Open, 10.0, ""),
        ("dup", Open, 10.0, ""),
        ("write 20", Open, 10.0, "10 11 12 13 14 15 16 17 18 19"),
        ("ack 11", Open, 11.0, "20 21"),
    ]);
}

/// RFC 8985 section 7.4.2, case 1: one ACK for original and probe, because the first was delayed, says by D-SACK that both
/// arrived. Without the report the next ACK of new data would be taken for the sign of a loss.
#[test]
fn section_7_4_2_a_reported_duplicate_means_that_nothing_was_lost() {
    for (words, cwnd, sent) in [("ack 10 twice 9-10", 11.0, "20 21"), ("ack 10", 5.2, "")] {
        let mut h = probing("sack");
        h.event("write 10");
        h.play(&[
            ("ack 9", Open, 10.0, ""),
            ("tick", Open, 10.0, "r9"),
            (words, Open, 10.0, ""),
            ("write 20", Open, 10.0, "10 11 12 13 14 15 16 17 18 19"),
            ("ack 11", Open, cwnd, sent),
        ]);
    }
}

#[test]
fn section_7_the_probe_turns_a_tail_loss_into_fast_recovery() {
    let mut h = probing("sack");
    h.event("write 10");
    h.play(&[
        // 7, 8 and 9 are lost.
        ("ack 7", Open, 10.0, ""),
        ("tick", Open, 10.0, "r9"),
        // The probe left after 7 and 8: both are lost. FlightSize 3: cwnd 2.
        ("dup s 9-10", FastRecovery, 2.0, "r7 r8"),
        ("ack 10", Open, 2.0, ""),
    ]);
    assert_eq!(h.s.stats.timeouts, 0);
}

#[test]
fn section_7_2_no_probe_without_sack_or_in_recovery() {
    let mut h = Hand::busy("sack", |c| c.tail_loss_probe = true);
    h.play(&[("dup s 1-4", FastRecovery, 5.0, "r0")]);
    assert_eq!(left(&h), ms(200));
    let mut h = probing("newreno");
    h.event("write 5");
    assert_eq!(left(&h), ms(200));
}
