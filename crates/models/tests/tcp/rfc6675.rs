//! Selective acknowledgements: the sender of RFC 6675 and the sender's duties of RFC 2018.

use crate::rig::Hand;
use penstock_core::tcp::Phase::{FastRecovery, Loss, Open};

#[test]
fn section_5_step_4_recovery_with_one_loss() {
    let mut h = Hand::busy("sack", |_| ());
    h.play(&[
        // Step 3: limited transmit by pipe, one for one.
        ("dup s 1-2", Open, 10.0, "10"),
        ("dup s 1-3", Open, 10.0, "11"),
        // Step 4.2: FlightSize / 2, without the two of limited transmit. Step 4.3: the first hole, whatever pipe.
        ("dup s 1-4", FastRecovery, 5.0, "r0"),
        // Pipe 9, 8, 7, 6, 5.
        ("dup s 1-5", FastRecovery, 5.0, ""),
        ("dup s 1-6", FastRecovery, 5.0, ""),
        ("dup s 1-7", FastRecovery, 5.0, ""),
        ("dup s 1-8", FastRecovery, 5.0, ""),
        // Step C: cwnd - pipe >= 1 SMSS.
        ("dup s 1-9", FastRecovery, 5.0, "12"),
        ("dup s 1-10", FastRecovery, 5.0, "13"),
        // Step A: RecoveryPoint is reached.
        ("ack 12", Open, 5.0, "14 15 16"),
    ]);
}

#[test]
fn section_4_is_lost_by_bytes() {
    for (first, phase, cwnd, sent) in [
        // (DupThresh - 1) * SMSS bytes above are not more than that ...
        ("dup s 1-3", Open, 10.0, "10 11"),
        // ... a segment more is, although it is the first duplicate.
        ("dup s 1-4", FastRecovery, 5.0, "r0"),
    ] {
        Hand::busy("sack", |_| ()).play(&[(first, phase, cwnd, sent)]);
    }
}

#[test]
fn section_2_an_acknowledgement_without_new_selective_information_is_no_duplicate() {
    let mut h = Hand::busy("sack", |_| ());
    h.play(&[
        ("dup s 1-2", Open, 10.0, "10"),
        ("dup s 1-2", Open, 10.0, ""),
        ("dup", Open, 10.0, ""),
        ("dup s 1-2", Open, 10.0, ""),
    ]);
}

#[test]
fn section_4_next_seg_holes_before_new_data() {
    let mut h = Hand::busy("sack", |_| ());
    h.play(&[
        ("dup s 1-2", Open, 10.0, "10"),
        ("dup s 3-4 1-2", Open, 10.0, "11"),
        // Three discontiguous ranges above 0.
        ("dup s 5-6 3-4 1-2", FastRecovery, 5.0, "r0"),
        ("dup s 5-7 3-4 1-2", FastRecovery, 5.0, ""),
        ("dup s 5-8 3-4 1-2", FastRecovery, 5.0, ""),
        // Pipe 4: rule 1, the holes 2 and 4 are lost.
        ("dup s 5-9 3-4 1-2", FastRecovery, 5.0, "r2"),
        ("dup s 5-10 3-4 1-2", FastRecovery, 5.0, "r4"),
        // Rule 2: new data.
        ("dup s 5-11 3-4 1-2", FastRecovery, 5.0, "12"),
        // r2 and r4 and 12 are out.
        ("ack 2 s 5-12 3-4", FastRecovery, 5.0, "13 14"),
        ("ack 4 s 5-12", FastRecovery, 5.0, "15"),
        ("ack 12", Open, 5.0, "16"),
    ]);
}

#[test]
fn section_4_next_seg_rule_3_a_hole_not_known_to_be_lost_when_there_is_no_new_data() {
    let mut h = Hand::established("sack", |_| ());
    assert_eq!(h.event("write 10"), "0 1 2 3 4 5 6 7 8 9");
    h.play(&[
        ("dup s 1-4", FastRecovery, 5.0, "r0"),
        // 8 and 9 are here, 7 is not; nothing above says that it is lost.
        ("dup s 1-7", FastRecovery, 5.0, "r9"),
    ]);
    let mut h = Hand::established("sack", |_| ());
    h.event("write 10");
    h.play(&[
        ("dup s 1-4", FastRecovery, 5.0, "r0"),
        // Pipe: 5, 6, 7, 9 and r0 make five.
        ("dup s 8-9 1-5", FastRecovery, 5.0, ""),
        // Pipe: 7, 9, r0 make three: rule 3 twice, the hole at 7, then rule 4 the tail.
        ("dup s 8-9 1-7", FastRecovery, 5.0, "r7 r9"),
    ]);
}

#[test]
fn section_4_next_seg_rule_4_one_rescue_retransmission_per_recovery() {
    let mut h = Hand::established("sack", |_| ());
    h.event("write 10");
    h.play(&[
        ("dup s 1-4", FastRecovery, 5.0, "r0"),
        // Pipe: 7, 8, 9 and r0.
        ("dup s 1-7", FastRecovery, 5.0, "r9"),
        ("dup s 1-8", FastRecovery, 5.0, ""),
        ("dup s 1-9", FastRecovery, 5.0, ""),
        // The partial acknowledgement is above RescueRxt only after RecoveryPoint.
        ("ack 9", FastRecovery, 5.0, ""),
        ("ack 10", Open, 5.0, ""),
    ]);
}

#[test]
fn section_5_1_and_rfc2018_section_8_a_timeout_forgets_the_scoreboard() {
    let mut h = Hand::busy("sack", |_| ());
    h.play(&[
        ("dup s 1-4", FastRecovery, 5.0, "r0"),
        ("tick", Loss, 1.0, "r0"),
        // Without new information everything is sent again.
        ("ack 1", Loss, 2.0, "r1 r2"),
        // With it, what is here is left out.
        ("ack 2 s 4-8", Loss, 3.0, "r3 r8"),
        // No new recovery below the RecoveryPoint of the timeout.
        ("dup s 4-9", Loss, 3.0, "r9"),
        ("dup s 4-10", Loss, 3.0, "10"),
    ]);
}

#[test]
fn section_5_no_second_reduction_before_recovery_point() {
    let mut h = Hand::busy("sack", |_| ());
    h.play(&[
        ("dup s 1-4", FastRecovery, 5.0, "r0"),
        ("dup s 1-10", FastRecovery, 5.0, "10 11 12 13"),
        ("ack 10", Open, 5.0, "14"),
        ("dup s 11-12", Open, 5.0, "15"),
        ("dup s 11-13", Open, 5.0, "16"),
        // FlightSize was 5 before limited transmit.
        ("dup s 11-14", FastRecovery, 2.5, "r10"),
    ]);
}
