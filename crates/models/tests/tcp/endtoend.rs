//! Sender and receiver together over a channel with a script: what is repaired, how, and how often.

use crate::rig::{ms, Fate, Pair, MSS};
use penstock_core::packet::flag;
use penstock_units::{Dur, Time};

const END: Time = Time(200 * 1_000_000_000_000);

/// Losses among 400 segments, and whether they can be repaired without a timeout by NewReno and by SACK.
const PATTERNS: &[(&[u64], bool, bool)] = &[
    (&[], true, true),
    (&[20], true, true),
    (&[20, 21], true, true),
    (&[20, 22, 24, 26], true, true),
    (&[20, 21, 22, 23, 24, 25], true, true),
    // The last one: no duplicate ever comes.
    (&[399], false, false),
];

#[test]
fn rfc6582_and_rfc6675_repair_without_timeout_and_resend_only_what_was_lost() {
    for (lost, newreno, sack) in PATTERNS {
        for (name, quick) in [("newreno", *newreno), ("sack", *sack), ("cubic", *sack), ("dctcp", *sack)] {
            let mut p = Pair::new(name, |_| ()).lose(lost);
            p.s.write(Time::ZERO, 400 * MSS);
            p.s.close();
            assert!(p.run(END), "{name} {lost:?}");
            assert_eq!(p.r.delivered(), 400 * MSS);
            assert!(p.r.finished());
            let stats = p.s.stats;
            if quick {
                assert_eq!(
                    (stats.timeouts, stats.retransmits),
                    (0, lost.len() as u64),
                    "{name} {lost:?}: {stats:?}"
                );
            }
        }
    }
}

#[test]
fn rfc6298_section_5_a_lost_tail_takes_one_timeout() {
    for name in ["reno", "newreno", "sack", "cubic", "dctcp"] {
        let mut p = Pair::new(name, |_| ()).lose(&[19]);
        p.s.write(Time::ZERO, 20 * MSS);
        assert!(p.run(END));
        assert_eq!((p.s.stats.timeouts, p.s.stats.retransmits), (1, 1), "{name}");
        // Handshake 10 ms, two rounds, the floor of 200 ms.
        assert!(p.now >= Time::ZERO + ms(220) && p.now <= Time::ZERO + ms(250), "{name}: {}", p.now);
    }
}

#[test]
fn rfc8985_section_7_the_probe_repairs_a_lost_tail_before_the_timeout() {
    for name in ["sack", "cubic", "dctcp"] {
        let mut p = Pair::new(name, |c| c.tail_loss_probe = true).lose(&[18, 19]);
        p.s.write(Time::ZERO, 20 * MSS);
        assert!(p.run(END));
        assert_eq!((p.s.stats.timeouts, p.s.stats.probes), (0, 1), "{name}");
        assert!(p.now < Time::ZERO + ms(80), "{name}: {}", p.now);
    }
}

#[test]
fn rfc6298_section_5_5_the_same_segment_lost_again_and_again() {
    for name in ["reno", "newreno", "sack", "cubic", "dctcp"] {
        let mut p = Pair::new(name, |_| ());
        p.script.extend((1..=5).map(|copy| ((0, copy), Fate::Lose)));
        p.s.write(Time::ZERO, MSS);
        assert!(p.run(END));
        let at: Vec<Time> = p.sent.iter().filter(|s| s.1.payload > 0).map(|s| s.0).collect();
        let gaps: Vec<Dur> = at.windows(2).map(|w| w[1] - w[0]).collect();
        assert_eq!(gaps, [ms(200), ms(400), ms(800), ms(1600), ms(3200)], "{name}");
    }
}

#[test]
fn rfc5681_every_single_lost_acknowledgement_is_survived() {
    for name in ["reno", "newreno", "sack", "cubic", "dctcp"] {
        for delayed in [1, 2] {
            for lost in 0..40 {
                let mut p = Pair::new(name, |c| c.delayed_ack = delayed).lose(&[7]);
                p.lost_acks = vec![lost, lost + 1];
                p.s.write(Time::ZERO, 30 * MSS);
                p.s.close();
                assert!(p.run(END), "{name}, acknowledgements {lost} and the next");
                assert_eq!(p.r.delivered(), 30 * MSS);
            }
        }
    }
}

#[test]
fn rfc3168_a_mark_costs_one_reduction_and_the_echo_ends() {
    let mut p = Pair::new("newreno:ecn=true", |_| ());
    p.script.insert((12, 1), Fate::Mark);
    p.s.write(Time::ZERO, 200 * MSS);
    assert!(p.run(END));
    let cwr = p.sent.iter().filter(|s| s.1.has(flag::CWR)).count();
    assert_eq!((cwr, p.s.stats.retransmits), (1, 0));
    assert!(!p.acks.last().unwrap().1.has(flag::ECE));
    // Echoed for about a round trip: the window of that time.
    let echoes = p.acks.iter().filter(|a| a.1.has(flag::ECE)).count();
    assert!((5..40).contains(&echoes), "{echoes} echoes");
}

#[test]
fn rfc8257_every_mark_is_echoed_exactly_once() {
    for delayed in [1, 2, 4] {
        let mut p = Pair::new("dctcp", |c| c.delayed_ack = delayed);
        let marked: Vec<u64> = (0..200).filter(|n| n % 7 == 3 || n % 11 < 3).collect();
        p.script.extend(marked.iter().map(|n| ((*n, 1), Fate::Mark)));
        p.s.write(Time::ZERO, 200 * MSS);
        assert!(p.run(END));
        // Bytes acknowledged with echo are the marked bytes.
        let mut last = 0;
        let mut echoed = 0;
        for (_, a) in p.acks.iter().filter(|a| !a.1.has(flag::SYN)) {
            if a.has(flag::ECE) {
                echoed += a.seq - last;
            }
            last = last.max(a.seq);
        }
        assert_eq!(echoed, marked.len() as u64 * MSS, "every {delayed}");
    }
}
