//! Closing: FIN rides on the last data (RFC 9293 section 3.9.1: CLOSE is queued behind what was written, and pushed with it).

use crate::rig::{Hand, Pair, MSS};
use penstock_core::packet::flag;
use penstock_core::tcp::Phase::{FastRecovery, Loss, Open};
use penstock_units::Time;

const END: Time = Time(200 * 1_000_000_000_000);

/// A connection of `name` with `segments` written, and closed before any of it is sent.
fn closing(name: &str, segments: u64, tlp: bool) -> (Hand, String) {
    let mut h = Hand::established(name, |c| c.tail_loss_probe = tlp);
    h.s.write(h.now, segments * MSS);
    let sent = h.event("close");
    (h, sent)
}

#[test]
fn fin_rides_on_the_last_segment_and_takes_no_place_in_the_window() {
    for name in ["reno", "newreno", "sack", "cubic", "dctcp"] {
        assert_eq!(closing(name, 3, false).1, "0 1 2f", "{name}");
        // The initial window is ten: the tenth segment is not held back for the number of FIN.
        let (mut h, sent) = closing(name, 10, false);
        assert_eq!(sent, "0 1 2 3 4 5 6 7 8 9f", "{name}");
        let last = *h.sent.last().expect("ten were sent");
        assert_eq!((last.payload, last.wire_len, last.seq_len()), (1000, 1040, 1001));
        h.event("ack 9");
        let p = penstock_core::Packet {
            seq: 10 * MSS + 1,
            flags: flag::ACK,
            window: 1 << 30,
            ..Default::default()
        };
        h.s.on_packet(h.now, &p, &penstock_core::CcHeader::NONE);
        assert!(h.s.finished());
        assert_eq!((h.s.acked(), h.s.stats.data_packets), (10 * MSS, 10));
    }
}

#[test]
fn fin_rides_on_a_short_last_segment() {
    let mut h = Hand::established("newreno", |_| ());
    h.s.write(h.now, 2500);
    assert_eq!(h.event("close"), "0 1 2000+500f");
}

#[test]
fn an_idle_connection_closes_with_fin_alone_whatever_the_windows() {
    for name in ["reno", "newreno", "sack", "cubic", "dctcp"] {
        let mut h = Hand::established(name, |_| ());
        h.event("write 10");
        // The window is full: FIN takes no place in it.
        assert_eq!(h.event("close"), "fin", "{name}");
        assert_eq!(h.sent.last().map(|p| (p.payload, p.wire_len)), Some((0, 40)));
        let mut h = Hand::established(name, |_| ());
        h.event("write 2");
        h.event("ack 2");
        assert_eq!(h.event("close"), "fin", "{name}");
    }
}

#[test]
fn the_retransmission_of_the_last_segment_carries_fin_again() {
    // By the timer, as the oldest segment and behind others.
    let (mut h, _) = closing("newreno", 3, false);
    h.play(&[("tick", Loss, 1.0, "r0"), ("ack 1", Loss, 2.0, "r1 r2f")]);
    let (mut h, _) = closing("newreno", 3, false);
    h.play(&[("ack 2", Open, 10.0, ""), ("tick", Loss, 1.0, "r2f")]);
    // As a tail-loss probe.
    let (mut h, _) = closing("sack", 3, true);
    h.play(&[("tick", Open, 10.0, "r2f")]);
    // Sent without FIN, closed later: the copy carries it too.
    let mut h = Hand::established("newreno", |_| ());
    h.event("write 2");
    h.event("close");
    h.play(&[("tick", Loss, 1.0, "r0"), ("ack 1", Loss, 2.0, "r1f")]);
    // The rescue of RFC 6675, section 4 rule 4: the last segment of the window, whole.
    let (mut h, _) = closing("sack", 6, false);
    h.event("dup s 1-2");
    h.event("dup s 1-3");
    h.play(&[("dup s 1-4", FastRecovery, 3.0, "r0")]);
    let rescued = ["dup s 1-5", "ack 5"].map(|e| h.event(e)).join(" ");
    assert!(rescued.contains("r5f"), "{rescued:?}");
}

#[test]
fn closing_changes_nothing_about_loss_recovery() {
    // For every set of lost segments among ten: FIN on the last one changes nothing.
    for name in ["reno", "newreno", "sack", "cubic", "dctcp"] {
        for tlp in [false, name != "reno" && name != "newreno"] {
            for pattern in 0u32..1 << 10 {
                let lost: Vec<u64> = (0..10).filter(|i| pattern >> i & 1 == 1).collect();
                let run = |close: bool| {
                    let mut p = Pair::new(name, |c| c.tail_loss_probe = tlp).lose(&lost);
                    p.s.write(Time::ZERO, 10 * MSS);
                    if close {
                        p.s.close();
                    }
                    assert!(p.run(END), "{name} {lost:?}");
                    assert_eq!(p.r.delivered(), 10 * MSS);
                    assert_eq!(p.r.finished(), close);
                    let s = p.s.stats;
                    (p.now, s.data_packets, s.retransmits, s.timeouts, s.fast_retransmits, s.probes)
                };
                assert_eq!(run(true), run(false), "{name} {lost:?} tlp {tlp}");
            }
        }
    }
}
