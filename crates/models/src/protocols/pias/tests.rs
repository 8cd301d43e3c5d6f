use super::ack_bytes;
use super::sending::{Answer, Kept, Rest, RoundTrip, Rules, Sending};
use alloc::vec::Vec;
use penstock_host::Opening;
use penstock_units::{Dur, Time};

const MSS: u64 = 1000;

/// Those of PIAS's authors that this file's tests change one by one: a window that grows after a cut, and no loss but by a timeout.
fn rules() -> Rules {
    Rules {
        g: 0.0625,
        backoff: true,
        probe: 0,
        halve: true,
        dupacks: 0,
        grow: true,
        later: false,
        steps: false,
        in_order: false,
        burst: false,
        refill: false,
        again: false,
        anew: false,
        most: None,
    }
}

/// A connection with a window of so many packets, beyond slow start; alpha is 0.
fn sending(window: f64) -> Sending {
    let window = window * MSS as f64;
    let kept = Kept { alpha: 0.0, ssthresh: window, round_trip: None, rest: Rest::default() };
    let mut s = Sending::new(&Opening::default(), kept, window, MSS, &rules());
    s.out.written = 100 * MSS;
    s
}

/// Packets leave while the window admits any: their numbers.
fn send(s: &mut Sending, rules: &Rules) -> Vec<u64> {
    let mut sent = Vec::new();
    while let Some((seq, end)) = s.next_packet(MSS, rules) {
        s.on_sent(seq, end, Time::ZERO, Dur::millis(1), rules);
        sent.push(seq / MSS);
    }
    sent
}

/// The ACK of packet `n`, where `next` is the first one missing.
fn ack(s: &mut Sending, n: u64, next: u64, marked: bool, rules: &Rules) {
    let answer = Answer { next: next * MSS, seq: n * MSS, payload: MSS, marked };
    s.on_ack(answer, MSS, Dur::millis(1), rules, Time::ZERO, &mut Vec::new());
}

fn timeout(s: &mut Sending, rules: &Rules) {
    s.on_timeout(MSS, Dur::millis(1), rules, Time::ZERO, &mut Vec::new());
}

fn packets(bytes: f64) -> f64 {
    bytes / MSS as f64
}

#[test]
fn a_window_that_grows_by_steps_counts_acks_since_its_last_cut() {
    let rules = Rules { steps: true, ..rules() };
    let mut s = sending(4.0);
    let acks = |s: &mut Sending, n: u32, marked: bool| {
        (0..n).for_each(|_| s.react(marked, MSS, &rules));
        packets(s.cwnd)
    };
    assert_eq!(acks(&mut s, 3, false), 4.0);
    assert_eq!(acks(&mut s, 1, false), 5.0);
    // Four of five, and a cut by nothing: five more are needed.
    assert_eq!(acks(&mut s, 4, false), 5.0);
    assert_eq!(acks(&mut s, 1, true), 5.0);
    assert_eq!(acks(&mut s, 4, false), 5.0);
    assert_eq!(acks(&mut s, 1, false), 6.0);
    // 6 (1 - 1/2 / 2) = 4.5, of which ssthresh is 4.
    s.alpha = 0.5;
    assert_eq!((acks(&mut s, 1, true), packets(s.ssthresh)), (4.5, 4.0));
    // Half of 2: slow start, from 1 to ssthresh, which is 2 at least.
    let mut s = sending(2.0);
    s.alpha = 1.0;
    assert_eq!((acks(&mut s, 1, true), packets(s.ssthresh)), (1.0, 2.0));
    assert_eq!(acks(&mut s, 1, false), 2.0);
}

#[test]
fn without_steps_every_ack_adds_its_part_of_a_packet() {
    let mut s = sending(4.0);
    s.react(false, MSS, &rules());
    assert_eq!(packets(s.cwnd), 4.25);
}

#[test]
fn the_first_mark_of_a_burst_stops_the_window_and_the_others_do_not() {
    // In slow start, a packet for each ACK that lets it grow; what was in flight at the cut is 10 packets.
    let grown = |burst: bool| {
        let rules = Rules { burst, ..rules() };
        let mut s = sending(4.0);
        (s.nxt, s.cut_end) = (10 * MSS, 1);
        s.ssthresh = f64::INFINITY;
        [false, true, true, false, true].map(|marked| {
            s.react(marked, MSS, &rules);
            packets(s.cwnd)
        })
    };
    assert_eq!(grown(true), [5.0, 5.0, 6.0, 7.0, 7.0]);
    assert_eq!(grown(false), [5.0, 6.0, 7.0, 8.0, 9.0]);
}

#[test]
fn a_later_cut_waits_for_what_was_sent_after_the_last_one() {
    // Ten packets in flight at a cut, and all ACKs have marks: the tenth cuts again, or the eleventh.
    let cuts_at = |later: bool| {
        let rules = Rules { later, burst: true, ..rules() };
        let mut s = sending(10.0);
        s.alpha = 0.5;
        (s.una, s.nxt, s.out.max_sent) = (MSS, 11 * MSS, 11 * MSS);
        s.react(true, MSS, &rules);
        (1..20_u64).find(|&n| {
            let before = s.cwnd;
            (s.una, s.nxt, s.out.max_sent) = ((1 + n) * MSS, (11 + n) * MSS, (11 + n) * MSS);
            s.react(true, MSS, &rules);
            s.cwnd < before
        })
    };
    assert_eq!((cuts_at(false), cuts_at(true)), (Some(10), Some(11)));
}

#[test]
fn gaps_are_sent_again_once_while_what_was_cut_is_not_acknowledged() {
    let rules = Rules { refill: true, ..rules() };
    let mut s = sending(10.0);
    (s.nxt, s.out.max_sent) = (6 * MSS, 6 * MSS);
    s.acked.insert(MSS, 2 * MSS);
    s.acked.insert(3 * MSS, 4 * MSS);
    // No cut: what is next is new.
    assert_eq!(s.next_packet(MSS, &rules), Some((6 * MSS, 7 * MSS)));
    s.cut(0.0, MSS, &rules);
    assert_eq!(s.next_packet(MSS, &rules), Some((0, MSS)));
    s.refilled = MSS;
    assert_eq!(s.next_packet(MSS, &rules), Some((2 * MSS, 3 * MSS)));
    // Beyond the highest that has arrived there is no gap.
    s.refilled = 3 * MSS;
    assert_eq!(s.next_packet(MSS, &rules), Some((6 * MSS, 7 * MSS)));
    // All that was in flight is acknowledged.
    (s.refilled, s.una) = (0, 6 * MSS);
    s.acked.insert(7 * MSS, 8 * MSS);
    assert_eq!(s.refill(), None);
}

#[test]
fn in_order_the_window_counts_from_the_first_byte_missing() {
    let mut s = sending(4.0);
    s.nxt = 4 * MSS;
    s.acked.insert(MSS, 4 * MSS);
    // One packet is in flight, but it is the first.
    assert_eq!(s.next_packet(MSS, &rules()), Some((4 * MSS, 5 * MSS)));
    assert_eq!(s.next_packet(MSS, &Rules { in_order: true, ..rules() }), None);
}

#[test]
fn after_a_timeout_what_sack_has_said_is_sent_again_or_not() {
    let sent = |again: bool, arrived: &[u64]| {
        let rules = Rules { again, refill: true, in_order: true, ..rules() };
        let mut s = sending(6.0);
        assert_eq!(send(&mut s, &rules), [0, 1, 2, 3, 4, 5]);
        arrived.iter().for_each(|n| ack(&mut s, *n, 0, false, &rules));
        timeout(&mut s, &rules);
        // The window opens at once, so that all is seen that there is to send.
        s.cwnd = 6.0 * MSS as f64;
        send(&mut s, &rules)
    };
    assert_eq!(sent(false, &[1, 2]), [0, 3, 4, 5]);
    assert_eq!(sent(true, &[1, 2]), [0, 1, 2, 3, 4, 5]);
    // Gaps below what has arrived come first, and once more with all.
    assert_eq!(sent(false, &[1, 3]), [0, 2, 4, 5]);
    assert_eq!(sent(true, &[1, 3]), [0, 2, 1, 2, 3, 4, 5]);
}

#[test]
fn a_timeout_ends_the_window_of_the_marked_fraction_or_not() {
    let alpha = |anew: bool| {
        let rules = Rules { anew, in_order: true, ..rules() };
        let mut s = sending(4.0);
        send(&mut s, &rules);
        // The first ACK ends a window without marks, the next one has the four packets in flight.
        ack(&mut s, 0, 1, false, &rules);
        timeout(&mut s, &rules);
        assert_eq!(send(&mut s, &rules), [1]);
        ack(&mut s, 1, 2, true, &rules);
        s.alpha
    };
    assert_eq!((alpha(false), alpha(true)), (0.0, 0.0625));
}

#[test]
fn a_window_has_a_limit() {
    let rules = Rules { most: Some(5), ..rules() };
    let mut s = sending(4.0);
    s.ssthresh = f64::INFINITY;
    (0..3).for_each(|_| s.react(false, MSS, &rules));
    assert_eq!(packets(s.cwnd), 5.0);
}

#[test]
fn a_connection_is_kept_whole_or_in_part() {
    let rest = |whole: bool| {
        let mut s = sending(4.0);
        send(&mut s, &rules());
        // One ACK ends the first window; of two more, one has a mark that cuts.
        (0..3).for_each(|n| ack(&mut s, n, n + 1, n == 2, &rules()));
        s.kept(whole).rest
    };
    assert_eq!(rest(true), Rest { counted: 2 * MSS, marked: MSS, echoed: true, marked_last: true });
    assert_eq!(rest(false), Rest::default());
}

#[test]
fn an_ack_has_room_for_so_many_blocks() {
    // RFC 2018 section 3: two bytes for the option, eight for each block.
    assert_eq!([0, 1, 3, 7].map(|ranges| ack_bytes(40, 3, ranges)), [40, 50, 66, 66]);
    assert_eq!(ack_bytes(40, 0, 7), 40);
}

#[test]
fn the_round_trip_is_that_of_one_packet_at_a_time() {
    let at = |us: u64| Time::ZERO + Dur::micros(us);
    let mut r = RoundTrip::default();
    r.on_sent(1000, at(0));
    // Not the one that is timed.
    r.on_sent(2000, at(50));
    r.on_acked(999, at(80));
    assert_eq!(r.smoothed, 0.0);
    // R = 100 us: SRTT = 100, RTTVAR = 50.
    r.on_acked(2000, at(100));
    assert_eq!((r.smoothed, r.variation), (1e8, 5e7));
    // R = 180 us: RTTVAR = 3/4 50 + 1/4 80 = 57.5, SRTT = 7/8 100 + 1/8 180 = 110.
    r.on_sent(3000, at(200));
    r.on_acked(3000, at(380));
    assert_eq!((r.smoothed, r.variation), (1.1e8, 5.75e7));
    assert!(r.timed.is_none());
}
