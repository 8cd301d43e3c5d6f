//! Limited transmit.

use crate::rig::Hand;
use penstock_core::tcp::Phase::{FastRecovery, Open};

#[test]
fn section_2_one_new_segment_for_each_of_the_first_two_duplicates() {
    let without = [("dup", Open, 10.0, ""), ("dup", Open, 10.0, ""), ("dup", FastRecovery, 5.0, "r0")];
    let with = [("dup", Open, 10.0, "10"), ("dup", Open, 10.0, "11"), ("dup", FastRecovery, 5.0, "r0")];
    for name in ["reno", "newreno"] {
        Hand::busy(name, |c| c.limited_transmit = false).play(&without);
        Hand::busy(name, |c| c.limited_transmit = true).play(&with);
    }
    let without = [
        ("dup s 1-2", Open, 10.0, ""),
        ("dup s 1-3", Open, 10.0, ""),
        ("dup s 1-4", FastRecovery, 5.0, "r0"),
    ];
    let with = [
        ("dup s 1-2", Open, 10.0, "10"),
        ("dup s 1-3", Open, 10.0, "11"),
        ("dup s 1-4", FastRecovery, 5.0, "r0"),
    ];
    for name in ["sack", "dctcp"] {
        Hand::busy(name, |c| c.limited_transmit = false).play(&without);
        Hand::busy(name, |c| c.limited_transmit = true).play(&with);
    }
}

#[test]
fn section_2_no_more_than_two_segments_beyond_the_window() {
    let mut h = Hand::busy("newreno", |c| c.dup_thresh = 6);
    h.play(&[
        ("dup", Open, 10.0, "10"),
        ("dup", Open, 10.0, "11"),
        ("dup", Open, 10.0, ""),
        ("dup", Open, 10.0, ""),
        ("dup", Open, 10.0, ""),
        ("dup", FastRecovery, 5.0, "r0"),
    ]);
}

#[test]
fn section_2_the_receive_window_must_allow_it() {
    let mut h = Hand::established("newreno", |_| ());
    h.event("dup w11");
    assert_eq!(h.event("write 50"), "0 1 2 3 4 5 6 7 8 9");
    h.play(&[("dup", Open, 10.0, "10"), ("dup", Open, 10.0, ""), ("dup", FastRecovery, 5.0, "r0")]);
}
