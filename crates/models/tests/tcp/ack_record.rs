//! The record a window law gets for every ACK: what each field says, event by event. Amounts in segments.

use crate::rig::{ms, sender_with, Hand, MSS};
use penstock_core::tcp::{RateSample, TcpConfig};
use penstock_core::{AckRecord, Congestion, Control, FlowView, Limit, WindowLaw};
use penstock_units::{Dur, Rate, Time};
use std::sync::{Arc, Mutex};

/// A record without its borrows.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Seen {
    acked: u64,
    sacked: u64,
    lost: u64,
    rate: Option<RateSample>,
    rtt: Option<Dur>,
    ece: bool,
    limit: Limit,
    flight: (u64, u64),
}

/// A law that notes what it is told, round one that decides.
struct Noting {
    inner: Box<dyn WindowLaw>,
    seen: Arc<Mutex<Vec<Seen>>>,
    rate: bool,
}

impl WindowLaw for Noting {
    fn on_ack(&mut self, ack: &AckRecord<'_>, flow: &FlowView) {
        assert_eq!(flow.in_flight, ack.flight_after);
        self.seen.lock().unwrap().push(Seen {
            acked: ack.acked / MSS,
            sacked: ack.sacked / MSS,
            lost: ack.lost / MSS,
            rate: ack.rate.copied(),
            rtt: ack.rtt,
            ece: ack.ece,
            limit: ack.limit,
            flight: (ack.flight_before / MSS, ack.flight_after / MSS),
        });
        self.inner.on_ack(ack, flow);
    }
    fn wants_rate(&self) -> bool {
        self.rate
    }
    fn on_congestion(&mut self, now: Time, flow: &FlowView, event: Congestion) {
        self.inner.on_congestion(now, flow, event);
    }
    fn control(&self) -> Control {
        self.inner.control()
    }
}

struct Rig {
    h: Hand,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Rig {
    fn new(name: &str, rate: bool, tweak: impl Fn(&mut TcpConfig)) -> Rig {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let wrap = |inner| -> Box<dyn WindowLaw> { Box::new(Noting { inner, seen: seen.clone(), rate }) };
        let h = Hand::establish(sender_with(name, tweak, wrap));
        Rig { h, seen }
    }
    fn busy(name: &str, rate: bool) -> Rig {
        let mut r = Rig::new(name, rate, |_| {});
        r.h.s.write(r.h.now, 1 << 40);
        r.h.flush();
        r.seen.lock().unwrap().clear();
        r
    }
    /// Plays events; every one that is an ACK makes exactly one record, the others none.
    fn play(&mut self, rows: &[(&str, Option<Seen>)]) {
        for (i, (event, expected)) in rows.iter().enumerate() {
            self.h.event(event);
            let seen: Vec<Seen> = self.seen.lock().unwrap().drain(..).collect();
            assert_eq!(seen, Vec::from_iter(*expected), "line {i}, '{event}'");
        }
    }
}

/// Newly acked, SACKed, lost, and the flight before and after; window-limited, no RTT sample.
fn seen(acked: u64, sacked: u64, lost: u64, flight: (u64, u64)) -> Option<Seen> {
    Some(Seen { acked, sacked, lost, rate: None, rtt: None, ece: false, limit: Limit::Window, flight })
}
fn with_rtt(seen: Option<Seen>, rtt: Dur) -> Option<Seen> {
    seen.map(|s| Seen { rtt: Some(rtt), ..s })
}

/// Ten segments are out. Segments 1 and 6 are lost.
#[test]
fn with_selective_acknowledgements() {
    let mut r = Rig::busy("sack", false);
    r.play(&[
        // In order: segment 0 was the timed one; 10 and 11 leave, and 11 is timed next, but 1 is sent again below it.
        ("ack 1", with_rtt(seen(1, 0, 0, (10, 9)), ms(1))),
        // Duplicates with SACK: what was SACKed leaves the flight, and limited transmit fills it again (12, 13).
        ("dup s 2-3", seen(0, 1, 0, (11, 10))),
        ("dup s 2-4", seen(0, 1, 0, (11, 10))),
        // RFC 6675 section 4: three segments above it are SACKed, so segment 1 is lost. Recovery point 14.
        ("dup s 2-5", seen(0, 1, 1, (11, 10))),
        // ECN-Echo on a duplicate. Nothing new is lost, nothing is sent: pipe is 9 of 5.5.
        ("dup ece s 2-6", seen(0, 1, 0, (10, 9)).map(|s| Seen { ece: true, ..s })),
        // Repeated blocks are no news, but give a record.
        ("dup s 2-6", seen(0, 0, 0, (9, 9))),
        // Partial ACK of 1 to 5: four of them count once more, in `acked`. 6 to 13 are out.
        ("ack 6", seen(5, 0, 0, (9, 8))),
        ("dup s 7-8", seen(0, 1, 0, (8, 7))),
        // Two blocks' worth at once: now 6 is lost too.
        ("dup s 7-10", seen(0, 2, 1, (7, 5))),
        // Full ACK. 14 to 18 leave: 5 of 5.5.
        ("ack 14", seen(8, 0, 0, (5, 0))),
        // Window update: nothing but a record.
        ("dup w500", seen(0, 0, 0, (5, 5))),
    ]);
}

#[test]
fn without_selective_acknowledgements() {
    let mut r = Rig::busy("newreno", false);
    r.play(&[
        // Limited transmit: 10, 11 on the first two; duplicates take nothing out of FlightSize.
        ("dup", seen(0, 0, 0, (10, 10))),
        ("dup", seen(0, 0, 0, (11, 11))),
        // RFC 5681 section 3.2 step 2: the oldest is lost.
        ("dup", seen(0, 0, 1, (12, 12))),
        ("dup", seen(0, 0, 0, (12, 12))),
        // RFC 6582 section 3.2 step 3: a partial ACK shows one more loss. Window 5 + inflation 4 - 4 + 1.
        ("ack 4", seen(4, 0, 1, (12, 8))),
        ("ack 12", seen(8, 0, 0, (8, 0))),
    ]);
}

/// RFC 6298: the timer runs out though nothing was lost; the law hears at the first ACK after it what was given up.
#[test]
fn a_spurious_timeout() {
    let mut r = Rig::busy("newreno", false);
    r.play(&[
        ("tick", None),
        // Ten were taken for lost; only segment 0 is out again when all ten turn out to have arrived (Karn: no sample).
        ("ack 10", seen(10, 0, 10, (1, 0))),
        ("tick", None),
        ("tick", None),
        // Both segments out, and then the first of them once more.
        ("ack 11", seen(1, 0, 3, (1, 0))),
    ]);
}

#[test]
fn the_handshake_requests_and_limits_of_others() {
    let mut r = Rig::new("newreno", false, |_| {});
    let syn_ack = with_rtt(seen(0, 0, 0, (0, 0)), ms(10)).map(|s| Seen { limit: Limit::Application, ..s });
    assert_eq!(r.seen.lock().unwrap().drain(..).next(), syn_ack);
    r.play(&[
        ("write 2", None),
        // The application had no more.
        ("ack 1", with_rtt(seen(1, 0, 0, (2, 1)), ms(1)).map(|s| Seen { limit: Limit::Application, ..s })),
        // The receiver has room for one segment: the second of the next two waits.
        ("ack 2 w1", seen(1, 0, 0, (1, 0)).map(|s| Seen { limit: Limit::Application, ..s })),
        ("write 2", None),
        ("dup probe w1", seen(0, 0, 0, (1, 1)).map(|s| Seen { limit: Limit::Receiver, ..s })),
    ]);
}

/// The delivery rate is there for a law that asks for it, and the connection's own part of it is right: what is outstanding,
/// what is app-limited, what was lost.
#[test]
fn the_delivery_rate() {
    let mut r = Rig::busy("sack", true);
    let mut rate = |event: &str| {
        r.h.event(event);
        r.seen.lock().unwrap().pop().expect("one record").rate
    };
    // One segment in the millisecond since the flight began: 8 Mb/s.
    let first = rate("ack 1").unwrap();
    assert_eq!((first.delivered, first.interval, first.in_flight), (MSS, ms(1), MSS));
    assert_eq!(first.rate(), Some(Rate(8_000_000)));
    // SACKed segments are delivered: 2 and 3 in order after it.
    let second = rate("dup s 2-4").unwrap();
    assert_eq!((second.delivered, second.interval, second.total_delivered), (3 * MSS, ms(2), 3 * MSS));
    // Three more: 1 is lost. 6 was sent before that loss was known.
    let third = rate("dup s 2-7").unwrap();
    assert_eq!((third.total_delivered, third.lost, third.app_limited), (6 * MSS, MSS, false));
    // A window update delivers nothing.
    assert_eq!(rate("dup w500"), None);
    // A law that does not ask gets none.
    let mut plain = Rig::busy("sack", false);
    plain.h.event("ack 1");
    assert_eq!(plain.seen.lock().unwrap().pop().map(|s| s.rate), Some(None));
}

/// Section 3.4 of the rate draft, by way of a sender whose application stops.
#[test]
fn a_sender_out_of_data_marks_its_samples() {
    let mut r = Rig::new("sack", true, |_| {});
    let mut limited = |event: &str| {
        r.seen.lock().unwrap().clear();
        r.h.event(event);
        r.seen.lock().unwrap().pop().and_then(|s| s.rate).map(|s| s.app_limited)
    };
    // Two segments, then the application has no more: the pipe holds 2. They were sent before that was so.
    assert_eq!(limited("write 2"), None);
    assert_eq!(limited("write 2"), None);
    assert_eq!(limited("ack 1"), Some(false));
    assert_eq!(limited("ack 2"), Some(false));
    // These were sent in the phase.
    assert_eq!(limited("ack 3"), Some(true));
    assert_eq!(limited("ack 4"), Some(true));
}

/// By the draft, retransmissions after the application's last data belong to the phase. In Linux they do not, because
/// it looks for a gap where the application writes; the next write's first segments do.
#[test]
fn linux_looks_for_a_gap_where_the_application_writes() {
    for (law, again) in [("sack", true), ("linux-reno", false)] {
        let mut r = Rig::new(law, true, |_| {});
        let mut limited = |event: &str| {
            r.seen.lock().unwrap().clear();
            r.h.event(event);
            r.seen.lock().unwrap().pop().and_then(|s| s.rate).map(|s| s.app_limited)
        };
        limited("write 4");
        for event in ["dup s 1-2", "dup s 1-3", "dup s 1-4"] {
            limited(event);
        }
        limited("wait 20");
        assert_eq!(limited("ack 4"), Some(again), "{law}");
        limited("write 2");
        limited("wait 20");
        assert_eq!(limited("ack 5"), Some(true), "{law}");
    }
}
