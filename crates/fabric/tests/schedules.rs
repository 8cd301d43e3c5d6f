//! Orders of service against timetables worked out by hand, in the port itself: when every packet's last bit leaves.

mod common;

use common::stream;
use penstock_fabric::{Arena, Cell, Effects, Offered, Port, PortConfig, Scheduler, Service};
use penstock_units::{Dur, Rate, Time};

/// 8 Gb/s: a byte takes a nanosecond.
const RATE: Rate = Rate(8_000_000_000);
const NS: u64 = 1000;

/// Name, time of arrival in ns, priority, bytes.
type Packet = (char, u64, u8, u32);

/// Offers the packets and answers in which order and when they leave, in ns. An arrival at the other end and a packet that comes at the
/// same instant: the first is handled first; it makes no difference.
fn timetable(scheduler: Scheduler, packets: &[Packet]) -> Vec<(char, u64)> {
    let service = Some(Box::new(Service { scheduler, ..Service::default() }));
    let mut port =
        Port::new(0, PortConfig { service, ..PortConfig::plain(RATE, Dur::ZERO, stream(0)) }).unwrap();
    let (mut seg, mut fx) = (Arena::new(false), Effects::default());
    let (mut event, mut left) = (Time::NEVER, Vec::new());
    let mut until = |t: Time, event: &mut Time, port: &mut Port, fx: &mut Effects, seg: &mut Arena| {
        while *event <= t && *event != Time::NEVER {
            let arrival = port.arrive(*event, seg, fx);
            let cell = arrival.packet().expect("the event of a packet");
            left.push((packets[cell.packet as usize].0, event.0 / NS));
            *event = arrival.next;
        }
    };
    for (i, (_, at, priority, bytes)) in packets.iter().enumerate() {
        let now = Time(at * NS);
        until(now, &mut event, &mut port, &mut fx, &mut seg);
        let cell = Cell::new(i as u32, *bytes).with_priority(*priority);
        match port.offer(now, cell, &mut seg, &mut fx) {
            Offered::Queued(Some(head)) => event = head,
            Offered::Queued(None) => {}
            other => panic!("{other:?}"),
        }
    }
    until(Time(u64::MAX - 1), &mut event, &mut port, &mut fx, &mut seg);
    left
}

#[test]
fn strict_priority_by_hand() {
    // a is sent to its end although higher ones come. At 1000 c is chosen: d comes at that instant, and a choice does not see what
    // comes with it. Then the highest that waits: d, e, b. f finds the link idle.
    let packets = [
        ('a', 0, 0, 1000),
        ('b', 100, 0, 500),
        ('c', 200, 6, 300),
        ('d', 1000, 7, 200),
        ('e', 1250, 3, 400),
        ('f', 3000, 0, 50),
    ];
    let expected = [('a', 1000), ('c', 1300), ('d', 1500), ('e', 1900), ('b', 2400), ('f', 3050)];
    assert_eq!(timetable(Scheduler::Strict, &packets), expected);
}
#[test]
fn eight_strict_priorities_leave_from_the_highest_to_the_lowest() {
    // While x is sent, two packets of each priority come, the lowest first: 7, 7, 6, 6, .. leave, each pair by arrival.
    let mut packets = vec![('x', 0, 0, 1000)];
    let names: Vec<char> = ('a'..='p').collect();
    for (i, name) in names.iter().enumerate() {
        packets.push((*name, 10 + i as u64, (i % 8) as u8, 100));
    }
    let mut expected = vec![('x', 1000)];
    for (i, at) in (0..16).zip((1100..).step_by(100)) {
        let priority = 7 - i / 2;
        expected.push((names[priority + 8 * (i % 2)], at));
    }
    assert_eq!(timetable(Scheduler::Strict, &packets), expected);
}
#[test]
fn deficit_round_robin_by_hand() {
    // Shreedhar and Varghese, SIGCOMM 1995, figure 2, with quanta 500 and 1000. While x is sent, a, b, c of class 0 come and d, e of
    // class 1; class 0 came first.
    //
    //  100  class 0 gets 500: a (300), 200 left. b does not fit.
    //  400  class 1 gets 1000: d (800), 200 left. e does not fit.
    // 1200  class 0 has 700: b, 400 left; 1500 c, and the class is empty: what is left is lost.
    // 1600  f of class 0 comes: it is behind class 1 now.
    // 1800  class 1 has 1200: e. 2600 class 0 gets 500, not 600: f (550) does not fit, and nobody else waits; with 1000 it does.
    let mut quanta = [500; 8];
    quanta[1] = 1000;
    let packets = [
        ('x', 0, 2, 100),
        ('a', 10, 0, 300),
        ('d', 15, 1, 800),
        ('b', 20, 0, 300),
        ('e', 25, 1, 800),
        ('c', 30, 0, 300),
        ('f', 1600, 0, 550),
    ];
    let expected = [('x', 100), ('a', 400), ('d', 1200), ('b', 1500), ('c', 1800), ('e', 2600), ('f', 3150)];
    assert_eq!(timetable(Scheduler::Drr(quanta), &packets), expected);
}
#[test]
fn a_class_that_was_empty_keeps_no_deficit() {
    // Quanta 500. a of class 0 leaves 300 unused and the class empty: at 800 class 0 has 500, not 800, and b (700) does not fit.
    // Class 1 has its turn: d. 1300: e (300) does not fit any more, class 0 has 1000: b. 2000: class 1 has 500: e.
    let packets = [
        ('x', 0, 2, 100),
        ('a', 10, 0, 200),
        ('y', 20, 2, 500),
        ('b', 400, 0, 700),
        ('d', 450, 1, 500),
        ('e', 460, 1, 300),
    ];
    let expected = [('x', 100), ('a', 300), ('y', 800), ('d', 1300), ('b', 2000), ('e', 2300)];
    assert_eq!(timetable(Scheduler::Drr([500; 8]), &packets), expected);
}
