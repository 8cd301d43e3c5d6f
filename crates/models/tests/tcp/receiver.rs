//! When the receiver acknowledges (RFC 5681 section 4.2) and what it selects (RFC 2018 section 4).

use crate::rig::{heard, ms, Ear};
use penstock_core::packet::flag;
use penstock_core::Ecn;

#[test]
fn rfc5681_section_4_2_every_second_segment_or_after_the_delay() {
    let mut ear = Ear::new("newreno", |c| (c.delayed_ack, c.delayed_ack_timeout) = (2, ms(40)));
    assert_eq!(heard(&ear.hear(0, Ecn::NotEct, 0)), []);
    assert_eq!(ear.r.deadline().since(ear.now), ms(40));
    assert_eq!(heard(&ear.hear(1, Ecn::NotEct, 0)), [(2, false, vec![])]);
    assert_eq!(ear.r.deadline(), penstock_units::Time::NEVER);
    assert_eq!(heard(&ear.hear(2, Ecn::NotEct, 0)), []);
    ear.now = ear.now + ms(10);
    assert_eq!(heard(&ear.tick()), [(3, false, vec![])]);
    // The count starts again.
    assert_eq!(heard(&ear.hear(3, Ecn::NotEct, 0)), []);
}

/// Linux's quickack mode: two ACKs at once at the start, then every second segment; again after a gap longer than the
/// floor of the timeout, and after a duplicate.
#[test]
fn linux_acknowledges_at_once_at_the_start_after_a_gap_and_after_a_duplicate() {
    let mut ear = Ear::new("newreno", |c| (c.delayed_ack, c.quick_acks, c.rto_min) = (2, 2, ms(10)));
    for (segment, later, acknowledged) in [
        (0, 0, true),
        (1, 0, true),
        (2, 0, false),
        (3, 0, true),   // the second of two
        (4, 10, false), // not longer than the floor
        (5, 11, true),  // a gap
        (6, 0, true),
        (7, 0, false),
        (8, 0, true),
        (8, 0, true), // a duplicate, acknowledged in any case
        (9, 0, true), // and one more
        (10, 0, false),
    ] {
        ear.now = ear.now + ms(later);
        assert_eq!(!ear.hear(segment, Ecn::NotEct, 0).is_empty(), acknowledged, "segment {segment}");
    }
}

#[test]
fn rfc5681_section_4_2_at_once_when_out_of_order_when_filling_a_gap_and_for_duplicates() {
    let mut ear = Ear::new("newreno", |c| c.delayed_ack = 2);
    for (segment, ack) in [
        (1, 0), // out of order: a duplicate acknowledgement
        (2, 0),
        (4, 0),
        (0, 3), // fills part of a gap
        (3, 5), // fills the rest
        (2, 5), // an old one again
    ] {
        assert_eq!(heard(&ear.hear(segment, Ecn::NotEct, 0)), [(ack, false, vec![])], "segment {segment}");
    }
    assert_eq!(heard(&ear.hear(5, Ecn::NotEct, 0)), []);
    assert_eq!(ear.r.duplicate_bytes, 1000);
}

#[test]
fn rfc2018_section_4_the_newest_block_first() {
    let mut ear = Ear::new("sack", |_| ());
    for (segment, ack, blocks) in [
        (0, 1, vec![]),
        (2, 1, vec![(2, 3)]),
        (4, 1, vec![(4, 5), (2, 3)]),
        (6, 1, vec![(6, 7), (4, 5), (2, 3)]),
        (8, 1, vec![(8, 9), (6, 7), (4, 5)]),
        // Joins two blocks.
        (3, 1, vec![(2, 5), (8, 9), (6, 7)]),
        (5, 1, vec![(2, 7), (8, 9)]),
        (1, 7, vec![(8, 9)]),
        (7, 9, vec![]),
    ] {
        assert_eq!(heard(&ear.hear(segment, Ecn::NotEct, 0)), [(ack, false, blocks)], "segment {segment}");
    }
    assert_eq!(ear.r.delivered(), 9000);
}

#[test]
fn rfc2018_section_3_blocks_take_room_on_the_wire() {
    let mut ear = Ear::new("sack", |_| ());
    let mut length = |n| ear.hear(n, Ecn::NotEct, 0)[0].wire_len;
    // Kind and length, eight bytes a block, padded to four.
    assert_eq!([length(0), length(2), length(4), length(6), length(8)], [40, 52, 60, 68, 68]);
    let mut with = Ear::new("sack", |c| c.timestamps = true);
    assert_eq!(with.hear(1, Ecn::NotEct, 0)[0].wire_len, 64);
}

#[test]
fn rfc2018_section_2_no_blocks_without_the_option() {
    let mut ear = Ear::new("newreno", |_| ());
    assert_eq!(heard(&ear.hear(5, Ecn::NotEct, 0)), [(0, false, vec![])]);
}

#[test]
fn rfc7323_section_4_3_the_echoed_stamp_is_that_of_the_earliest_unacknowledged_segment() {
    let mut ear = Ear::new("newreno", |c| c.delayed_ack = 2);
    ear.now = ear.now + ms(1);
    ear.hear(0, Ecn::NotEct, 0);
    let first = ear.now.0;
    ear.now = ear.now + ms(1);
    assert_eq!(ear.hear(1, Ecn::NotEct, 0)[0].stamp, first);
}

#[test]
fn rfc9293_section_3_6_fin_is_acknowledged_at_once_and_takes_one_number() {
    let mut ear = Ear::new("newreno", |c| c.delayed_ack = 2);
    let acks = ear.hear(0, Ecn::NotEct, flag::FIN);
    assert_eq!(acks[0].seq, 1001);
    assert!(ear.r.finished());
    assert_eq!(ear.r.delivered(), 1000);
}

/// The examples of RFC 2883 section 4: what came twice is the first block of one ACK, below the acknowledgement or inside the
/// block that follows.
#[test]
fn rfc2883_section_4_a_duplicate_is_reported_once_and_first() {
    let twice = |acks: &[penstock_core::Packet]| -> Vec<Option<(u64, u64)>> {
        acks.iter().map(|p| p.dsack().map(|(from, to)| (from / 1000, to / 1000))).collect()
    };
    let kept = |p: &penstock_core::Packet| -> Vec<(u64, u64)> {
        let at = |edge: u32| (p.seq + u64::from(edge)) / 1000;
        p.sack_blocks().iter().map(|b| (at(b.start), at(b.end))).collect()
    };
    let mut ear = Ear::new("sack", |c| (c.dsack, c.delayed_ack) = (true, 2));
    assert_eq!(twice(&ear.hear(0, Ecn::NotEct, 0)), []);
    // Section 4.1.1: of a segment below the acknowledgement; it is acknowledged at once.
    let acks = ear.hear(0, Ecn::NotEct, 0);
    assert_eq!((twice(&acks), acks[0].seq), (vec![Some((0, 1))], 1000));
    // A 40-byte header, kind, length and one block.
    assert_eq!(acks[0].wire_len, 40 + 12);
    // Section 4.1.2: with a gap, before the block of what is kept.
    ear.hear(2, Ecn::NotEct, 0);
    let acks = ear.hear(0, Ecn::NotEct, 0);
    assert_eq!((twice(&acks), kept(&acks[0])), (vec![Some((0, 1))], vec![(2, 3)]));
    // Section 4.1.3: of a segment beyond the gap, inside the block that follows.
    let acks = ear.hear(2, Ecn::NotEct, 0);
    assert_eq!((twice(&acks), kept(&acks[0])), (vec![Some((2, 3))], vec![(2, 3)]));
    // Once only.
    let acks = ear.hear(3, Ecn::NotEct, 0);
    assert_eq!((twice(&acks), kept(&acks[0])), (vec![None], vec![(2, 4)]));
    // Not without the option.
    let mut ear = Ear::new("sack", |_| {});
    ear.hear(0, Ecn::NotEct, 0);
    assert_eq!(twice(&ear.hear(0, Ecn::NotEct, 0)), [None]);
}
