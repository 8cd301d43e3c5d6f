//! NewReno.

use crate::rig::Hand;
use penstock_core::tcp::Phase::{FastRecovery, Loss, Open};

/// Segments 0 and 5 of ten are lost: up to the last duplicate of the first round.
fn two_lost() -> Hand {
    let mut h = Hand::busy("newreno", |_| ());
    h.play(&[
        ("dup", Open, 10.0, "10"),
        ("dup", Open, 10.0, "11"),
        ("dup", FastRecovery, 5.0, "r0"),
        ("dup", FastRecovery, 5.0, ""),
        ("dup", FastRecovery, 5.0, ""),
        ("dup", FastRecovery, 5.0, ""),
        ("dup", FastRecovery, 5.0, ""),
        ("dup", FastRecovery, 5.0, "12"),
        ("dup", FastRecovery, 5.0, "13"),
        ("dup", FastRecovery, 5.0, "14"),
    ]);
    h
}

#[test]
fn section_3_2_step_3_partial_acknowledgement() {
    let mut h = two_lost();
    h.play(&[
        // Window 5 + 10 - 5 + 1 = 11, ten outstanding: the next hole, then one new segment.
        ("ack 5", FastRecovery, 5.0, "r5 15"),
        ("dup", FastRecovery, 5.0, "16"),
        // Everything outstanding at the start of recovery: deflated to ssthresh, five outstanding.
        ("ack 12", Open, 5.0, ""),
        ("ack 13", Open, 5.2, "17"),
    ]);
}

#[test]
fn section_3_2_step_3_a_small_partial_acknowledgement_adds_no_segment() {
    let mut h = Hand::busy("newreno", |c| c.limited_transmit = false);
    h.play(&[("dup", Open, 10.0, ""), ("dup", Open, 10.0, ""), ("dup", FastRecovery, 5.0, "r0")]);
    // 400 bytes: window 8 - 0.4; another 600: the same hole goes on.
    h.now = h.now + crate::rig::ms(1);
    let p = penstock_core::Packet { seq: 400, flags: 2, window: 1 << 30, ..Default::default() };
    h.s.on_packet(h.now, &p, &penstock_core::CcHeader::NONE);
    assert_eq!(h.flush(), "r400+1000");
    assert_eq!(h.s.phase(), FastRecovery);
}

#[test]
fn section_3_2_step_3_deflation_by_more_than_the_inflation() {
    let mut h = Hand::busy("newreno", |c| c.initial_window = 20);
    h.play(&[
        ("dup", Open, 20.0, "20"),
        ("dup", Open, 20.0, "21"),
        ("dup", FastRecovery, 10.0, "r0"),
        // 10 + 3 - 15 + 1 = -1: the hole only. Ten duplicates later there is still no room.
        ("ack 15", FastRecovery, 10.0, "r15"),
        ("dup", FastRecovery, 10.0, ""),
        ("dup", FastRecovery, 10.0, ""),
        ("ack 22", Open, 10.0, "22 23 24 25 26 27 28 29 30 31"),
    ]);
}

#[test]
fn section_3_2_step_3_only_the_first_partial_acknowledgement_restarts_the_timer() {
    let mut h = Hand::busy("newreno", |c| c.limited_transmit = false);
    for _ in 0..3 {
        h.event("dup");
    }
    let at_entry = h.s.deadline();
    assert_eq!(h.event("ack 3"), "r3");
    let after_first = h.s.deadline();
    assert!(after_first > at_entry);
    assert_eq!(h.event("ack 6"), "r6");
    assert_eq!(h.s.deadline(), after_first);
}

#[test]
fn section_3_2_step_2_no_fast_retransmit_for_data_sent_before_a_timeout() {
    let mut h = Hand::busy("newreno", |_| ());
    h.play(&[
        ("tick", Loss, 1.0, "r0"),
        ("dup", Loss, 1.0, ""),
        ("dup", Loss, 1.0, ""),
        ("dup", Loss, 1.0, ""),
        ("dup", Loss, 1.0, ""),
        // All that was outstanding is here. Duplicates for exactly this number may come from retransmissions.
        ("ack 10", Open, 2.0, "10 11"),
        ("dup", Open, 2.0, "12"),
        ("dup", Open, 2.0, "13"),
        ("dup", Open, 2.0, ""),
        ("ack 11", Open, 3.0, ""),
        ("dup", Open, 3.0, "14"),
        ("dup", Open, 3.0, "15"),
        ("dup", FastRecovery, 2.0, "r11"),
    ]);
}

#[test]
fn section_4_a_timeout_in_recovery_ends_it() {
    let mut h = two_lost();
    // Fifteen are not acknowledged, ten of these have left the network: three duplicates at the start, seven since.
    h.play(&[("tick", Loss, 1.0, "r0")]);
    assert_eq!(h.ssthresh(), 2.5);
    h.play(&[("ack 5", Loss, 2.0, "r5 r6")]);
}
