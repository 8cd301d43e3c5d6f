//! TCP congestion control.

use crate::rig::{ms, Hand};
use penstock_core::tcp::Phase::{self, FastRecovery, Loss, Open};

#[test]
fn section_3_1_initial_window_is_what_is_sent_first() {
    for (window, sent) in [(1, "0"), (2, "0 1"), (4, "0 1 2 3"), (10, "0 1 2 3 4 5 6 7 8 9")] {
        let mut h = Hand::established("reno", |c| c.initial_window = window);
        assert_eq!(h.event("write 100"), sent);
    }
}

#[test]
fn section_3_1_slow_start_adds_at_most_a_segment_per_acknowledgement() {
    let mut h = Hand::busy("reno", |_| ());
    h.play(&[
        ("ack 1", Open, 11.0, "10 11"),
        // Three segments acknowledged at once: min(N, SMSS) = 1.
        ("ack 4", Open, 12.0, "12 13 14 15"),
        ("ack 5", Open, 13.0, "16 17"),
    ]);
}

#[test]
fn section_3_1_a_lost_syn_leaves_one_segment_and_ssthresh_alone() {
    let mut h = Hand::closed("reno", |_| ());
    h.s.open(h.now);
    assert_eq!(h.flush(), "syn");
    h.tick();
    assert_eq!(h.flush(), "syn");
    h.now = h.now + ms(10);
    h.syn_ack();
    h.s.write(h.now, 1 << 30);
    assert_eq!((h.flush().as_str(), h.cwnd(), h.ssthresh()), ("0", 1.0, f64::INFINITY));
    // Slow start from there.
    h.play(&[("ack 1", Open, 2.0, "1 2"), ("ack 2", Open, 3.0, "3 4")]);
}

#[test]
fn section_3_1_congestion_avoidance_adds_smss_squared_over_cwnd() {
    let mut h = Hand::busy("reno", |c| c.limited_transmit = false);
    h.play(&[
        ("dup", Open, 10.0, ""),
        ("dup", Open, 10.0, ""),
        ("dup", FastRecovery, 5.0, "r0"),
        ("ack 10", Open, 5.0, "10 11 12 13 14"),
        ("ack 11", Open, 5.2, "15"),
        ("ack 12", Open, 5.392, "16"),
    ]);
}

#[test]
fn section_3_1_the_window_does_not_grow_while_the_application_limits() {
    let mut h = Hand::established("reno", |_| ());
    assert_eq!(h.event("write 4"), "0 1 2 3");
    h.play(&[("ack 2", Open, 10.0, ""), ("ack 4", Open, 10.0, "")]);
}

#[test]
fn section_3_1_timeout_halves_the_flight_once_and_restarts_from_one_segment() {
    let mut h = Hand::busy("reno", |_| ());
    h.play(&[("tick", Loss, 1.0, "r0")]);
    assert_eq!(h.ssthresh(), 5.0);
    // When the same segment is lost again, ssthresh is held constant.
    h.play(&[("tick", Loss, 1.0, "r0")]);
    assert_eq!(h.ssthresh(), 5.0);
    h.play(&[
        ("ack 1", Loss, 2.0, "r1 r2"),
        ("ack 2", Loss, 3.0, "r3 r4"),
        ("ack 3", Loss, 4.0, "r5 r6"),
        ("ack 4", Loss, 5.0, "r7 r8"),
        // ssthresh reached: congestion avoidance. What was outstanding at the timeout ends at 10.
        ("ack 5", Loss, 5.2, "r9"),
        ("ack 10", Open, 5.392, "10 11 12 13 14"),
    ]);
}

#[test]
fn section_3_1_ssthresh_is_at_least_two_segments() {
    for (written, ssthresh) in [(1, 2.0), (3, 2.0), (6, 3.0)] {
        let mut h = Hand::established("reno", |_| ());
        h.event(&format!("write {written}"));
        h.event("tick");
        assert_eq!(h.ssthresh(), ssthresh, "{written} segments outstanding");
    }
}

#[test]
fn section_3_2_fast_retransmit_and_fast_recovery() {
    let mut h = Hand::busy("reno", |_| ());
    h.play(&[
        ("dup", Open, 10.0, "10"),
        ("dup", Open, 10.0, "11"),
        // Step 2: FlightSize leaves out what limited transmit has sent: 10 / 2. Step 3: cwnd = ssthresh + 3 = 8.
        ("dup", FastRecovery, 5.0, "r0"),
        // Step 4: one more each; 12 are outstanding.
        ("dup", FastRecovery, 5.0, ""),
        ("dup", FastRecovery, 5.0, ""),
        ("dup", FastRecovery, 5.0, ""),
        ("dup", FastRecovery, 5.0, ""),
        // Step 5: 5 + 8 = 13.
        ("dup", FastRecovery, 5.0, "12"),
        ("dup", FastRecovery, 5.0, "13"),
        // Step 6: deflated to ssthresh.
        ("ack 12", Open, 5.0, "14 15 16"),
    ]);
}

#[test]
fn section_3_2_any_new_acknowledgement_ends_renos_recovery() {
    let mut h = Hand::busy("reno", |c| c.limited_transmit = false);
    h.play(&[
        ("dup", Open, 10.0, ""),
        ("dup", Open, 10.0, ""),
        ("dup", FastRecovery, 5.0, "r0"),
        ("ack 3", Open, 5.0, ""),
    ]);
}

#[test]
fn section_2_an_acknowledgement_that_changes_the_window_is_no_duplicate() {
    let mut h = Hand::busy("reno", |c| c.limited_transmit = false);
    h.play(&[
        ("dup", Open, 10.0, ""),
        ("dup", Open, 10.0, ""),
        ("dup w500", Open, 10.0, ""),
        ("dup w400", Open, 10.0, ""),
        ("dup w400", FastRecovery, 5.0, "r0"),
    ]);
}

#[test]
fn section_2_nothing_outstanding_no_duplicate() {
    let mut h = Hand::established("reno", |_| ());
    h.event("write 4");
    let quiet: (Phase, f64, &str) = (Open, 10.0, "");
    h.play(&[("ack 4", quiet.0, quiet.1, quiet.2); 1]);
    h.play(&[("dup", quiet.0, quiet.1, quiet.2); 5]);
}

#[test]
fn section_3_2_the_duplicate_threshold_is_a_parameter() {
    for threshold in [1, 2, 5] {
        let mut h = Hand::busy("reno", |c| (c.dup_thresh, c.limited_transmit) = (threshold, false));
        for _ in 1..threshold {
            h.play(&[("dup", Open, 10.0, "")]);
        }
        h.play(&[("dup", FastRecovery, 5.0, "r0")]);
    }
}

#[test]
fn section_4_1_the_window_restarts_after_an_idle_timeout() {
    // The timeout is at its floor of 200 ms.
    for (restart, idle, window) in [(true, 300, 4.0), (true, 100, 7.0), (false, 300, 7.0)] {
        let mut h = Hand::established("reno", |c| (c.restart_after_idle, c.initial_window) = (restart, 4));
        h.event("write 7");
        h.play(&[("ack 1", Open, 5.0, "4 5"), ("ack 2", Open, 6.0, "6"), ("ack 7", Open, 6.0, "")]);
        // One more round, limited by the window, to reach 7.
        h.play(&[("write 10", Open, 6.0, "7 8 9 10 11 12")]);
        h.play(&[("ack 8", Open, 7.0, "13 14"), ("ack 17", Open, 7.0, "")][..1]);
        h.play(&[("ack 15", Open, 8.0, "15 16")]);
        h.play(&[("ack 17", Open, 8.0, "")]);
        h.event(&format!("wait {idle}"));
        h.event("write 20");
        assert_eq!(h.cwnd(), if window == 4.0 { 4.0 } else { 8.0 }, "restart {restart}, idle {idle} ms");
    }
}

#[test]
fn section_4_1_a_window_below_the_restart_window_stays() {
    let mut h = Hand::busy("reno", |_| ());
    h.event("tick");
    let mut idle = Hand::established("reno", |_| ());
    idle.event("write 1");
    idle.event("tick");
    idle.play(&[("ack 1", Open, 1.0, "")]);
    idle.event("wait 2000");
    idle.play(&[("write 5", Open, 1.0, "1")]);
}
