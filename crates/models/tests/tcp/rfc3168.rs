//! Explicit congestion notification in TCP.

use crate::rig::{heard, ms, Ear, Hand};
use penstock_core::packet::flag;
use penstock_core::tcp::Phase::{FastRecovery, Loss, Open};
use penstock_core::tcp::TcpConfig;
use penstock_core::{CcHeader, Ecn, Packet};

const NAMES: [&str; 3] = ["reno:ecn=true", "newreno:ecn=true", "sack:ecn=true"];

#[test]
fn section_6_1_1_the_syn_is_not_ecn_capable_and_data_is() {
    for name in NAMES {
        let h = Hand::busy(name, |_| ());
        assert_eq!(h.sent[0].ecn, Ecn::NotEct);
        assert!(h.sent[1..].iter().all(|p| p.ecn == Ecn::Ect0));
        let h = Hand::busy(name, |c| c.ect_syn = Some(true));
        assert_eq!(h.sent[0].ecn, Ecn::Ect0);
        let syn_ack = |tweak: fn(&mut TcpConfig)| {
            let mut ear = Ear::new(name, tweak);
            let syn = Packet { flags: flag::SYN, ..Packet::default() };
            ear.r.on_packet(ear.now, &syn, &CcHeader::NONE);
            ear.flush()[0].ecn
        };
        assert_eq!(syn_ack(|_| ()), Ecn::NotEct);
        assert_eq!(syn_ack(|c| c.ect_syn = Some(true)), Ecn::Ect0);
    }
    assert!(Hand::busy("sack", |_| ()).sent.iter().all(|p| p.ecn == Ecn::NotEct));
}

/// A SYN that is sent again asks for no ECN where the rule holds. The receiver grants what the first SYN that arrives asks
/// for, and without a grant neither data nor acknowledgements are ECN-capable.
#[test]
fn section_6_1_1_1_a_lost_syn_leaves_the_connection_without_ecn() {
    for name in ["sack:ecn=true", "dctcp"] {
        for (fallback, asks) in [(true, [true, false]), (false, [true, true])] {
            let mut h = Hand::closed(name, |c| c.ecn_fallback = fallback);
            h.s.open(h.now);
            h.flush();
            h.tick();
            h.flush();
            assert_eq!([0, 1].map(|n| !h.sent[n].has(flag::NO_ECN)), asks, "{name}");
            // The first SYN is lost, or its answer is.
            for lost in [true, false] {
                let mut ear = Ear::new(name, |_| ());
                for syn in &h.sent[usize::from(lost)..2] {
                    ear.r.on_packet(ear.now, syn, &CcHeader::NONE);
                }
                let answer = ear.flush().pop().unwrap();
                let granted = !(lost && fallback);
                assert_eq!(!answer.has(flag::NO_ECN), granted, "{name}: first SYN lost: {lost}");
                let ack = ear.hear(0, Ecn::NotEct, flag::PROBE).pop().unwrap();
                let expected = if granted && name == "dctcp" { Ecn::Ect0 } else { Ecn::NotEct };
                assert_eq!(ack.ecn, expected, "{name}: first SYN lost: {lost}");
            }
            let refused =
                Packet { flags: flag::SYN | flag::ACK | flag::NO_ECN, window: 1 << 30, ..Packet::default() };
            h.s.on_packet(h.now, &refused, &CcHeader::NONE);
            h.s.write(h.now, 10_000);
            h.flush();
            assert!(h.sent.len() > 2 && h.sent[2..].iter().all(|p| p.ecn == Ecn::NotEct), "{name}");
        }
    }
}

#[test]
fn section_6_1_2_one_reduction_per_window_and_no_growth_on_an_echo() {
    for name in NAMES {
        let mut h = Hand::busy(name, |_| ());
        h.play(&[
            ("ack 1", Open, 11.0, "10 11"),
            // FlightSize is 11 before the echo acknowledges one: 12 sent, 2 acknowledged, 10 / 2.
            ("ack 2 ece", Open, 5.0, ""),
            ("ack 3 ece", Open, 5.0, ""),
            ("ack 8", Open, 5.2, "12"),
            ("ack 11 ece", Open, 5.2, "13 14 15"),
            // Segments below 12 had been sent at the reduction: the last word on that window.
            ("ack 12 ece", Open, 5.2, "16"),
            // Segment 12 brought CWR: this is a new mark. Four segments are outstanding.
            ("ack 13 ece", Open, 2.0, ""),
            ("ack 17", Open, 2.5, "17 18"),
        ]);
        // CWR on the first new data after each.
        let cwr: Vec<u64> = h.sent.iter().filter(|p| p.has(flag::CWR)).map(|p| p.seq / 1000).collect();
        assert_eq!(cwr, [12, 17]);
    }
}

#[test]
fn section_6_1_2_an_echo_at_one_segment_waits_for_the_timer() {
    for name in NAMES {
        let mut h = Hand::busy(name, |c| c.initial_window = 1);
        let before = h.s.stats.timeouts;
        h.play(&[("ack 1 ece", Open, 1.0, ""), ("tick", Open, 1.0, "1")]);
        assert_eq!(h.s.stats.timeouts, before, "nothing was lost");
    }
}

#[test]
fn section_6_1_2_without_the_floor_a_mark_below_two_segments_waits() {
    for name in NAMES {
        // ns-2: half of a segment. Nothing leaves until the timer expires; the window is one segment then.
        let open = || Hand::busy(name, |c| (c.initial_window, c.ecn_floor) = (1, false));
        let mut h = open();
        let before = h.s.stats.timeouts;
        h.play(&[
            ("ack 1", Open, 2.0, "1 2"),
            // One segment outstanding: half of it is left.
            ("ack 2 ece", Open, 0.5, ""),
            ("ack 3 ece", Open, 0.5, ""),
            ("tick", Open, 1.0, "3"),
            ("ack 4", Open, 2.0, "4 5"),
        ]);
        assert_eq!(h.s.stats.timeouts, before, "nothing was lost");
        // An unmarked acknowledgement ends the wait too.
        open().play(&[("ack 1", Open, 2.0, "1 2"), ("ack 2 ece", Open, 0.5, ""), ("ack 3", Open, 1.5, "3")]);
    }
}

/// ns-2 (TcpAgent::ecn, rtx_backoff): where the answer to the segment that the timer has let out is marked as well, the next wait is twice as long; an unmarked ACK ends that.
#[test]
fn section_6_1_2_below_a_segment_the_timer_may_back_off() {
    for (backoff, factors) in [(true, [1, 2, 4, 1]), (false, [1, 1, 1, 1])] {
        let mut h = Hand::busy("sack:ecn=true", |c| {
            (c.initial_window, c.ecn_floor, c.ecn_backoff, c.rto_min) = (1, false, backoff, ms(100));
        });
        // Two segments are out: the mark that leaves a half is the first at one.
        h.play(&[("ack 1", Open, 2.0, "1 2"), ("ack 2 ece", Open, 0.5, ""), ("ack 3", Open, 1.5, "3")]);
        let mut waits = Vec::new();
        let mut next = 4;
        for marked in [true, true, true, false, true] {
            let (from, rto) = (h.now + ms(1), h.s.rto());
            h.event(&format!("ack {next}{}", if marked { " ece" } else { "" }));
            if marked {
                waits.push((h.s.deadline().since(from).0 as f64 / rto.0 as f64).round() as u64);
                h.event("tick");
            }
            next = h.s.view.nxt / 1000;
        }
        assert_eq!(waits, factors, "backoff {backoff}");
    }
}

#[test]
fn section_6_1_2_cwr_after_a_loss_and_no_second_reduction_for_the_same_window() {
    let mut h = Hand::busy("newreno:ecn=true", |c| c.limited_transmit = false);
    h.play(&[
        ("dup", Open, 10.0, ""),
        ("dup", Open, 10.0, ""),
        // A mark in the window that lost a packet: one reduction.
        ("dup ece", FastRecovery, 5.0, "r0"),
        ("dup ece", FastRecovery, 5.0, ""),
        ("ack 10", Open, 5.0, "10 11 12 13 14"),
    ]);
    let cwr: Vec<u64> = h.sent.iter().filter(|p| p.has(flag::CWR)).map(|p| p.seq / 1000).collect();
    assert_eq!(cwr, [10]);
    let mut h = Hand::busy("newreno:ecn=true", |_| ());
    h.play(&[("tick", Loss, 1.0, "r0"), ("ack 10", Open, 2.0, "10 11")]);
    let cwr: Vec<u64> = h.sent.iter().filter(|p| p.has(flag::CWR)).map(|p| p.seq / 1000).collect();
    assert_eq!(cwr, [10]);
}

#[test]
fn section_6_1_2_a_loss_in_the_window_of_an_echo_does_not_reduce_again() {
    let mut h = Hand::busy("newreno:ecn=true", |c| c.limited_transmit = false);
    h.play(&[
        ("ack 1 ece", Open, 4.5, ""),
        ("dup", Open, 4.5, ""),
        ("dup", Open, 4.5, ""),
        ("dup", FastRecovery, 4.5, "r1"),
        ("ack 10", Open, 4.5, "10 11 12 13"),
    ]);
}

#[test]
fn section_6_1_3_the_receiver_echoes_until_cwr() {
    let mut ear = Ear::new("newreno:ecn=true", |_| ());
    // Segment, ECN field, flags, echo.
    for (n, ecn, flags, echo) in [
        (0, Ecn::Ect0, 0, false),
        (1, Ecn::Ce, 0, true),
        (2, Ecn::Ect0, 0, true),
        (3, Ecn::Ect0, 0, true),
        (4, Ecn::Ect0, flag::CWR, false),
        (5, Ecn::Ect0, 0, false),
        (6, Ecn::Ce, flag::CWR, true),
        (7, Ecn::Ect0, flag::CWR, false),
    ] {
        let acks = ear.hear(n, ecn, flags);
        assert_eq!(heard(&acks), [(n + 1, echo, vec![])]);
        // Section 6.1.4: pure acknowledgements are not ECN-capable.
        assert_eq!(acks[0].ecn, Ecn::NotEct);
    }
}

#[test]
fn section_6_1_5_retransmissions_are_not_ecn_capable() {
    let mut h = Hand::busy("newreno:ecn=true", |_| ());
    h.event("tick");
    assert_eq!(h.sent.last().map(|p| p.ecn), Some(Ecn::NotEct));
    h.play(&[("ack 10", Open, 2.0, "10 11")]);
    assert_eq!(h.sent.last().map(|p| p.ecn), Some(Ecn::Ect0));
}

#[test]
fn section_6_1_2_marks_reduce_the_window_to_one_segment_losses_to_two() {
    let mut h = Hand::busy("sack:ecn=true", |c| c.initial_window = 2);
    h.play(&[("ack 1 ece", Open, 1.0, ""), ("ack 2 ece", Open, 1.0, "2")]);
    assert_eq!(h.ssthresh(), 2.0);
}
