//! DCTCP.

use crate::rig::{heard, observed, Ear, Hand, Heard};
use penstock_core::packet::flag;
use penstock_core::tcp::Phase::{FastRecovery, Loss, Open};
use penstock_core::tcp::{Personality, TcpConfig};
use penstock_core::{CcHeader, Ecn, Packet};

fn alpha(h: &Hand) -> f64 {
    observed(&h.s, "alpha")
}

#[test]
fn section_3_2_figure_1_receiver_state_machine() {
    // Per arriving segment: marked?, then the acknowledgements (number, echo) it causes at once.
    type Line = (bool, &'static [(u64, bool)]);
    let every_second: &[Line] = &[
        (false, &[]),
        (false, &[(2, false)]),
        (false, &[]),
        // DCTCP.CE changes with one segment waiting: it is acknowledged in the old state, then the new one.
        (true, &[(3, false), (4, true)]),
        (true, &[]),
        (true, &[(6, true)]),
        // A change with nothing waiting.
        (false, &[(7, false)]),
        (true, &[(8, true)]),
        (true, &[]),
        (false, &[(9, true), (10, false)]),
        (false, &[]),
        (false, &[(12, false)]),
    ];
    let every_one: &[Line] =
        &[(false, &[(1, false)]), (true, &[(2, true)]), (true, &[(3, true)]), (false, &[(4, false)])];
    for (n, lines) in [(2, every_second), (1, every_one)] {
        let mut ear = Ear::new("dctcp", |c| c.delayed_ack = n);
        for (i, (marked, expected)) in lines.iter().enumerate() {
            let got = heard(&ear.hear(i as u64, if *marked { Ecn::Ce } else { Ecn::Ect0 }, 0));
            let expected: Vec<Heard> = expected.iter().map(|(ack, echo)| (*ack, *echo, vec![])).collect();
            assert_eq!(got, expected, "m = {n}, segment {i}");
        }
    }
}

#[test]
fn section_3_2_cwr_does_not_stop_the_echo() {
    let mut ear = Ear::new("dctcp", |_| ());
    ear.hear(0, Ecn::Ce, 0);
    let acks = ear.hear(1, Ecn::Ce, penstock_core::packet::flag::CWR);
    assert_eq!(heard(&acks), [(2, true, vec![])]);
}

#[test]
fn section_3_3_alpha_starts_at_one_and_is_updated_once_per_window() {
    let mut h = Hand::busy("dctcp", |_| ());
    assert_eq!(alpha(&h), 1.0);
    // WindowEnd is SND.UNA at first: the first acknowledgement ends a window without marks. g = 1/16.
    h.play(&[("ack 1", Open, 11.0, "10 11")]);
    assert_eq!(alpha(&h), 0.9375);
    // WindowEnd is now 10: three of the ten segments 2..=11 are marked.
    h.event("ack 2 ece");
    h.event("ack 4 ece");
    h.event("ack 10");
    assert_eq!(alpha(&h), 0.9375);
    h.event("ack 11");
    // 15/16 * 0.9375 + 1/16 * 3/10
    assert!((alpha(&h) - 0.897_656_25).abs() < 1e-12, "{}", alpha(&h));
}

#[test]
fn section_3_3_the_gain_and_the_first_alpha_are_parameters() {
    let mut h = Hand::busy("dctcp:g=0.5,alpha=0.25", |_| ());
    assert_eq!(alpha(&h), 0.25);
    h.event("ack 1 ece");
    assert_eq!(alpha(&h), 0.625);
}

#[test]
fn section_3_3_one_cut_by_half_of_alpha_per_window() {
    let mut h = Hand::busy("dctcp", |_| ());
    h.play(&[
        ("ack 1", Open, 11.0, "10 11"),
        // 11 (1 - 0.9375 / 2); an echo does not grow the window.
        ("ack 2 ece", Open, 5.84375, ""),
        ("ack 3 ece", Open, 5.84375, ""),
        ("ack 4 ece", Open, 5.84375, ""),
        // Unmarked: congestion avoidance, 1 / 5.84375.
        ("ack 11", Open, 6.015, "12 13 14 15 16"),
        // Segments below 12 had been sent at the cut.
        ("ack 12 ece", Open, 6.015, "17"),
        // The windows of alpha end at 11 with M = 3/10 (0.89766) and here with M = 1: 15/16 0.89766 + 1/16 = 0.90405.
        ("ack 13 ece", Open, 6.014_875 * (1.0 - 0.904_052_73 / 2.0), ""),
    ]);
}

#[test]
fn section_3_3_the_floor_of_the_window_is_a_parameter() {
    for (name, floor) in [("dctcp", 1.0), ("dctcp:min_window=2", 2.0)] {
        let mut h = Hand::busy(name, |c| c.initial_window = 2);
        for ack in 1..40 {
            h.event(&format!("ack {ack} ece"));
        }
        assert_eq!(h.cwnd(), floor);
    }
}

#[test]
fn section_3_5_a_loss_halves_the_flight_whatever_alpha() {
    let mut h = Hand::busy("dctcp:alpha=0", |_| ());
    h.play(&[
        ("dup s 1-2", Open, 10.0, "10"),
        ("dup s 1-3", Open, 10.0, "11"),
        ("dup s 1-4", FastRecovery, 5.0, "r0"),
        // A mark during recovery does not cut again; alpha still counts it.
        ("dup ece s 1-9", FastRecovery, 5.0, "12"),
        ("ack 12", Open, 5.0, "13 14 15 16"),
    ]);
}

#[test]
fn section_3_5_a_timeout_leaves_one_segment() {
    let mut h = Hand::busy("dctcp:alpha=0", |_| ());
    h.play(&[("tick", Loss, 1.0, "r0")]);
    assert_eq!(h.ssthresh(), 5.0);
}

#[test]
fn linux_rules_spread_a_cut_over_its_round() {
    let mut h = Hand::busy("dctcp:rules=linux", |_| ());
    // 11 (1 - 0.9375 / 2) = 5.84375 of 11 segments: RFC 6937 lets out 0.53125 for each segment delivered, a first
    // one at once.
    h.play(&[
        ("ack 1", Open, 11.0, "10 11"),
        ("ack 2 ece", Open, 11.0, "12"),
        ("ack 3 ece", Open, 10.0 + 0.0625, ""),
        ("ack 4 ece", Open, 9.0 + 0.59375, ""),
        ("ack 5", Open, 8.0 + 1.125, "13"),
        // Three more delivered (3.71875 in all, 2 sent), and seven outstanding: still above 5.84.
        ("ack 8", Open, 6.0 + 1.71875, "14"),
        // Below it: back up to it, and no further.
        ("ack 10", Open, 5.84375, ""),
        ("ack 12", Open, 5.84375, "15 16"),
        // Behind all that had been sent at the cut the round is over, and growth begins: a segment for every five.
        ("ack 13", Open, 5.84375, "17"),
        ("ack 16", Open, 5.84375, "18 19 20"),
        ("ack 17", Open, 6.84375, "21 22"),
    ]);
}

#[test]
fn linux_rules_close_the_window_of_alpha_one_ack_earlier() {
    let mut h = Hand::busy("dctcp:rules=linux", |_| ());
    h.play(&[("ack 1", Open, 11.0, "10 11"), ("ack 2 ece", Open, 11.0, "12")]);
    // The window of alpha ends at 10 and not behind it: one of nine segments is marked.
    h.event("ack 10");
    assert!((alpha(&h) - (0.9375 * 0.9375 + 1.0 / 9.0 / 16.0)).abs() < 1e-12);
}

#[test]
fn linux_rules_answer_a_loss_as_the_others_do() {
    // After a timeout nothing is left of the round of a cut: slow start.
    let mut h = Hand::busy("dctcp:rules=linux", |_| ());
    h.play(&[
        ("ack 1", Open, 11.0, "10 11"),
        ("ack 2 ece", Open, 11.0, "12"),
        ("tick", Loss, 1.0, "r2"),
        ("ack 3", Loss, 2.0, "r3 r4"),
    ]);
}

#[test]
fn without_a_floor_a_marked_window_goes_on_shrinking() {
    // ns-3: 10 segments, cut once per round trip by alpha / 2.
    let mut h = Hand::busy("dctcp:rules=linux,min_window=0", |c| c.initial_window = 1);
    for ack in 1..10 {
        // The one segment is always let out.
        assert_eq!(h.event(&format!("ack {ack} ece")), format!("{ack}"));
    }
    // An unmarked ACK adds a whole segment to what is left of the window.
    h.event("ack 10");
    assert!(h.cwnd() > 1.0 && h.cwnd() < 1.1, "{}", h.cwnd());
    let error = penstock_models::registry::protocol("protocol", "dctcp:min_window=0").err().unwrap();
    assert_eq!(error.rule, "must be at least 1 without rules=linux");
}

/// 11 (1 - 0.9375 / 2) = 5.84375: five segments, and 0.84375 of five acknowledged towards the sixth; by Linux's own DCTCP 11 less the whole part of
/// 5.15625.
#[test]
fn on_linux_s_sender_a_cut_leaves_whole_segments() {
    let linux = |c: &mut TcpConfig| c.personality = Personality::Linux;
    for (name, left) in [("dctcp", 5.0), ("dctcp:rules=linux", 6.0)] {
        let mut h = Hand::busy(name, linux);
        h.event("ack 1");
        h.event("ack 2 ece");
        h.event("ack 12");
        assert_eq!(h.cwnd(), left, "{name}");
        // The round of the cut is over. Four of five were counted; of six none was.
        h.event("ack 13");
        assert_eq!(h.cwnd(), 6.0, "{name}");
        h.event("ack 14");
        assert_eq!(h.cwnd(), 6.0, "{name}");
    }
    let mut h = Hand::busy("dctcp:min_window=2", |c| {
        linux(c);
        c.initial_window = 2;
    });
    for ack in 1..40 {
        h.event(&format!("ack {ack} ece"));
    }
    assert_eq!(h.cwnd(), 2.0);
}

/// The sender's window may be one segment when it says CWR. (linux-cwr-at-once.pkt has the same for RFC 3168.)
#[test]
fn linux_acknowledges_cwr_at_once() {
    let mut ear = Ear::new("dctcp", |c| {
        c.personality = Personality::Linux;
        c.delayed_ack = 2;
    });
    // Quick ACKs, sixteen.
    (0..16).for_each(|i| drop(ear.hear(i, Ecn::Ect0, 0)));
    let mut hear = |i: u64, flags| heard(&ear.hear(i, Ecn::Ce, flags));
    // DCTCP.CE changes.
    assert_eq!(hear(16, 0), [(17, true, vec![])]);
    assert_eq!(hear(17, 0), []);
    assert_eq!(hear(18, flag::CWR), [(19, true, vec![])]);
    assert_eq!(hear(19, 0), []);
    assert_eq!(hear(20, 0), [(21, true, vec![])]);
}

#[test]
fn section_3_6_every_packet_of_a_connection_is_ecn_capable() {
    for name in ["dctcp", "d2tcp"] {
        let mut h = Hand::busy(name, |_| ());
        // Retransmissions, and a probe of a closed window.
        h.event("tick");
        h.event("ack 10 w0");
        h.event("tick");
        assert!(h.sent.iter().any(|p| p.has(flag::RETRANSMIT)) && h.sent.iter().any(|p| p.has(flag::PROBE)));
        assert!(h.sent.iter().all(|p| p.ecn == Ecn::Ect0), "{name}");
        let mut ear = Ear::new(name, |_| ());
        for flags in [flag::SYN, flag::PROBE, 0] {
            let payload = if flags == 0 { 1000 } else { 0 };
            let p = Packet { flags, payload, ecn: Ecn::Ect0, ..Packet::default() };
            ear.r.on_packet(ear.now, &p, &CcHeader::NONE);
            let answers = ear.flush();
            assert!(answers.len() == 1 && answers[0].ecn == Ecn::Ect0, "{name}: {answers:?}");
        }
        // Unless the handshake is asked to be as RFC 3168 has it.
        assert_eq!(Hand::busy(name, |c| c.ect_syn = Some(false)).sent[0].ecn, Ecn::NotEct);
    }
}

#[test]
fn section_3_3_a_mark_on_an_acknowledgement_causes_nothing_at_the_sender_of_data() {
    let play = |ecn: Ecn| {
        let mut h = Hand::busy("dctcp", |_| ());
        for n in 1..30 {
            let p = Packet { seq: n * 1000, flags: flag::ACK, window: 1 << 30, ecn, ..Packet::default() };
            h.s.on_packet(h.now, &p, &CcHeader::NONE);
            h.flush();
        }
        (h.cwnd(), alpha(&h), h.s.stats.ece_acks)
    };
    assert_eq!(play(Ecn::Ce), play(Ecn::Ect0));
    assert_eq!(play(Ecn::Ce).2, 0);
}

#[test]
fn section_3_2_a_mark_on_the_syn_is_not_echoed_on_data() {
    let mut ear = Ear::new("dctcp", |_| ());
    let syn = Packet { flags: flag::SYN, ecn: Ecn::Ce, ..Packet::default() };
    ear.r.on_packet(ear.now, &syn, &CcHeader::NONE);
    assert!(ear.flush().iter().all(|p| !p.has(flag::ECE)));
    assert_eq!(heard(&ear.hear(0, Ecn::Ect0, 0)), [(1, false, vec![])]);
}
