//! Recoveries and echoes of a protocol's own, added from outside: what the traits promise.

use crate::rig::{heard, ms, Ear, Hand, Pair, MSS};
use penstock_core::tcp::recovery::{Act, Connection, Control, Outcome, Outgoing, Since, Timers, Why};
use penstock_core::tcp::Phase::{FastRecovery, Open};
use penstock_core::tcp::{Echo, Heard, LossRecovery, Recovery, TcpConfig};
use penstock_core::{Ecn, Packet};
use penstock_units::{Dur, Time};
use std::sync::Arc;

/// Go-back-N: the third duplicate sends everything from the first unacknowledged byte again.
struct GoBack;

impl Recovery for GoBack {
    fn is_duplicate(&self, _: bool, window_changed: bool) -> bool {
        !window_changed
    }
    fn on_duplicate(&mut self, c: &Connection<'_>) -> Outcome {
        // What was sent again though it had arrived is answered by duplicates too: they say nothing (RFC 6582 section 3.2).
        let covered = c.recover.is_none_or(|r| c.view.una > r);
        if c.phase == FastRecovery || c.dup_acks < c.cfg.dup_thresh || !covered {
            return Outcome::NONE;
        }
        Outcome { act: Act::GoBack, lost: c.flight(), ..Outcome::NONE }
    }
    fn on_ack(&mut self, c: &Connection<'_>, _: u64) -> Outcome {
        let over = c.phase == FastRecovery && c.is_full_ack();
        Outcome { act: if over { Act::Leave } else { Act::Stay }, ..Outcome::NONE }
    }
    fn on_timeout(&mut self, c: &Connection<'_>) -> u64 {
        c.flight()
    }
}

fn goback(c: &mut TcpConfig) {
    c.recovery = LossRecovery::Reno; // No SACK.
    c.roles.recovery = Some(Arc::new(|_| Box::new(GoBack)));
}

#[test]
fn go_back_n_is_one_file() {
    let mut h = Hand::busy("newreno", goback);
    h.play(&[
        ("dup", Open, 10.0, ""),
        ("dup", Open, 10.0, ""),
        ("dup", FastRecovery, 5.0, "r0 r1 r2 r3 r4"),
        ("dup", FastRecovery, 5.0, ""),
        ("ack 5", FastRecovery, 5.0, "r5 r6 r7 r8 r9"),
        // Everything that was out is acknowledged.
        ("ack 10", Open, 5.0, "10 11 12 13 14"),
    ]);
}

#[test]
fn go_back_n_delivers_everything_over_a_lossy_channel() {
    let mut p = Pair::new("newreno", goback).lose(&[3, 17, 18, 40]);
    p.s.write(Time::ZERO, 60 * MSS);
    p.s.close();
    assert!(p.run(Time::ZERO + ms(2000)));
    assert_eq!(p.r.delivered(), 60 * MSS);
    assert!(p.s.stats.fast_retransmits > 0);
    assert!(p.r.duplicate_bytes > 0, "what had arrived behind a gap is sent again");
}

/// The skeleton of RACK (RFC 8985 section 6): a segment that has been out for longer than `patience` is lost. It needs the
/// time each segment was sent last, and a timer of its own.
struct Overdue {
    patience: Dur,
    at: Time,
    due: bool,
}

impl Recovery for Overdue {
    fn wants_segments(&self) -> bool {
        true
    }
    fn hears_all(&self) -> bool {
        true
    }
    fn is_duplicate(&self, new_sack: bool, _: bool) -> bool {
        new_sack
    }
    fn on_duplicate(&mut self, _: &Connection<'_>) -> Outcome {
        Outcome::NONE
    }
    fn on_ack(&mut self, c: &Connection<'_>, _: u64) -> Outcome {
        let over = c.phase == FastRecovery && c.is_full_ack();
        Outcome { act: if over { Act::Leave } else { Act::Stay }, ..Outcome::NONE }
    }
    fn on_timeout(&mut self, c: &Connection<'_>) -> u64 {
        c.flight()
    }
    fn rearm(&mut self, c: &Connection<'_>, _: Dur, _: &Since) -> Timers {
        let oldest = c.segments.expect("asked for").iter().find(|s| !s.sacked);
        self.at = oldest.map_or(Time::NEVER, |s| s.sent_at + self.patience);
        Timers { deadline: self.at, rto_at: c.rto_at }
    }
    fn on_deadline(&mut self, c: &Connection<'_>) -> Outcome {
        (self.at, self.due) = (Time::NEVER, true);
        let act = if c.phase == Open { Act::Enter } else { Act::Stay };
        Outcome { act, lost: MSS, ..Outcome::NONE }
    }
    fn urgent(&mut self, c: &Connection<'_>) -> Option<Outgoing> {
        std::mem::take(&mut self.due).then(|| c.head(Why::Lost))
    }
    fn control(&self, _: &Connection<'_>) -> Control {
        Control { urgent: self.due, deadline: self.at, ..Control::NONE }
    }
}

#[test]
fn a_recovery_may_find_losses_by_a_timer_of_its_own() {
    let overdue = |c: &mut TcpConfig| {
        let build = |_: &TcpConfig| -> Box<dyn Recovery> {
            Box::new(Overdue { patience: ms(15), at: Time::NEVER, due: false })
        };
        c.roles.recovery = Some(Arc::new(build));
    };
    let mut h = Hand::busy("sack", overdue);
    let sent = h.now;
    h.play(&[("ack 1", Open, 11.0, "10 11"), ("dup s 2-11", Open, 11.0, "12 13 14 15 16 17 18 19 20")]);
    // Segment 1 left with the others, and is the oldest that is missing.
    assert_eq!(h.s.deadline(), sent + ms(15));
    h.play(&[("tick", FastRecovery, 5.5, "r1")]);
    assert_eq!(h.now, sent + ms(15));
    assert_eq!(
        h.s.deadline(),
        h.now + ms(15),
        "and now it is the youngest, but still the first that is missing"
    );
    h.play(&[("ack 21", Open, 5.5, "21 22 23 24 25")]);
    assert_eq!((h.s.stats.timeouts, h.s.stats.fast_retransmits), (0, 1));
}

/// An echo that acknowledges every third segment with ECE, and lets the window grow no further than three segments.
#[derive(Default)]
struct Thirds {
    due: bool,
}

impl Echo for Thirds {
    fn before_data(&mut self, p: &Packet) -> Option<bool> {
        // A mark closes what went before it, without ECE.
        (p.ecn == Ecn::Ce).then_some(false)
    }
    fn on_data(&mut self, _: Time, _: &Packet, heard: &Heard) -> u32 {
        self.due = heard.unacknowledged == 3;
        u32::from(self.due)
    }
    fn on_ack_sent(&mut self) {}
    fn ece(&self) -> bool {
        true
    }
    fn deadline(&self) -> Time {
        Time::NEVER
    }
    fn on_deadline(&mut self, _: Time) -> u32 {
        0
    }
    fn window_cap(&self) -> u64 {
        3 * MSS
    }
}

#[test]
fn an_echo_decides_when_an_ack_leaves_what_it_says_and_how_much_may_follow() {
    let mut ear = Ear::new("newreno", |c| c.roles.echo = Some(Arc::new(|_| Box::new(Thirds::default()))));
    for (segment, ecn, acks) in [
        (0, Ecn::Ect0, vec![]),
        (1, Ecn::Ect0, vec![]),
        (2, Ecn::Ect0, vec![(3, true, vec![])]),
        (3, Ecn::Ect0, vec![]),
        // What waited is acknowledged as it was before the mark; the marked one waits.
        (4, Ecn::Ce, vec![(4, false, vec![])]),
        (5, Ecn::Ect0, vec![]),
        (6, Ecn::Ect0, vec![(7, true, vec![])]),
    ] {
        let sent = ear.hear(segment, ecn, 0);
        assert_eq!(heard(&sent), acks, "segment {segment}");
        assert!(sent.iter().all(|p| u64::from(p.window) == 3 * MSS));
    }
    // The host's own cap is another one: the lower of the two counts.
    ear.r.set_window_cap(2 * MSS);
    assert_eq!(
        [7, 8, 9].map(|n| ear.hear(n, Ecn::Ect0, 0).last().map(|p| p.window)),
        [None, None, Some(2000)]
    );
}
