//! Queue pairs by hand: one stack, packet by packet.

use penstock_core::packet::flag;
use penstock_core::{Ecn, FlowId, Packet};
use penstock_fabric::{Arena, Cell};
use penstock_host::rdma::{self, AckRecord, LossSign, PairView, RateControl, RateLaw, RdmaConfig};
use penstock_host::{HostFacts, Io, Opening, Order, Stack, StackEvent};
use penstock_units::{Dur, Rate, Time};
use std::sync::{Arc, Mutex};

const US: u64 = 1_000_000;
const NACK: u32 = 2;
const CNP: u32 = 3;

fn config() -> RdmaConfig {
    RdmaConfig {
        header: 44,
        ack: 48,
        cnp: 60,
        ack_every: 1,
        rto: Dur::millis(1),
        data_priority: 3,
        control_priority: 6,
        cnp_interval: Some(Dur::micros(50)),
        ..RdmaConfig::default()
    }
}

/// A fixed rate and window that writes down what it hears.
#[derive(Clone)]
struct Fixed {
    control: RateControl,
    heard: Arc<Mutex<Vec<String>>>,
}

impl RateLaw for Fixed {
    fn on_ack(&mut self, ack: &AckRecord<'_>, pair: &PairView) {
        self.heard
            .lock()
            .unwrap()
            .push(format!("ack {} rtt {} ece {} una {}", ack.bytes, ack.rtt, ack.ece, pair.una));
        if ack.endpoint > Dur::ZERO {
            self.heard.lock().unwrap().push(format!("of these {} at hosts", ack.endpoint));
        }
    }
    fn on_cnp(&mut self, _: Time, _: &PairView) {
        self.heard.lock().unwrap().push("cnp".into());
    }
    fn on_loss(&mut self, _: Time, sign: LossSign, pair: &PairView) {
        self.heard.lock().unwrap().push(format!("{sign:?} back to {}", pair.nxt));
    }
    fn on_line_rate(&mut self, _: Time, line: Rate) {
        self.heard.lock().unwrap().push(format!("line {line}"));
    }
    fn control(&self) -> RateControl {
        self.control
    }
}

struct Host {
    stack: Box<dyn Stack>,
    arena: Arena,
    stack_events: Vec<StackEvent>,
    paused: u8,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Host {
    fn new(config: RdmaConfig, control: RateControl, order: Order) -> Host {
        let facts = HostFacts {
            host: 0,
            rate: Rate(8_000_000_000),
            delay: Dur::micros(1),
            base_rtt: Dur::micros(10),
            longest_wait: Dur::ZERO,
            oversubscription: 1.0,
            mss: 956,
            framing: 0,
            order,
            seed: 1,
            run: 0,
        };
        let heard = Arc::new(Mutex::new(Vec::new()));
        let law = Fixed { control, heard: heard.clone() };
        let stack = rdma::stack(&facts, config, Arc::new(move |_| Box::new(law.clone())));
        Host { stack, arena: Arena::new(false), stack_events: Vec::new(), paused: 0, heard }
    }
    fn call<T>(&mut self, at: u64, act: impl FnOnce(&mut dyn Stack, &mut Io<'_>) -> T) -> T {
        let mut io = Io {
            now: Time(at),
            arena: &mut self.arena,
            stack_events: &mut self.stack_events,
            paused: self.paused,
            waited: Dur::ZERO,
        };
        act(&mut self.stack, &mut io)
    }
    fn pull(&mut self, at: u64) -> Option<(Cell, Packet)> {
        let cell = self.call(at, |s, io| s.poll_transmit(io, None))?;
        let packet = self.arena.packets[cell.packet as usize];
        self.arena.release(cell.packet);
        Some((cell, packet))
    }
    /// A packet arrives with these words, numbers and marks.
    fn give(&mut self, at: u64, packet: Packet, kind: u32, wants_ack: bool, ecn: Ecn) {
        let slot = self.arena.alloc();
        let mut packet = packet;
        packet.flags |= if kind == 0 { 0 } else { flag::ACK };
        packet.set_word(0, kind);
        packet.set_word(1, u32::from(wants_ack));
        self.arena.packets[slot as usize] = packet;
        let cell = Cell::new(slot, packet.wire_len).with_ecn(ecn);
        self.call(at, |s, io| s.receive(io, &cell));
    }
    fn data(&mut self, at: u64, n: u64, ecn: Ecn) {
        let packet = Packet { seq: n * 956, payload: 956, wire_len: 1000, stamp: at, ..Packet::default() };
        self.give(at, packet, 0, false, ecn);
    }
    /// Kinds and numbers (in packets) of what it sends now.
    fn answers(&mut self, at: u64) -> Vec<(u32, u64)> {
        std::iter::from_fn(|| self.pull(at)).map(|(_, p)| (p.word(0), p.seq / 956)).collect()
    }
    fn opened(flow: u32, conn: u32) -> Opening {
        Opening { flow: FlowId(flow), dst: 1, at_src: conn, at_dst: conn, ..Opening::default() }
    }
    fn receiver(config: RdmaConfig) -> Host {
        let mut host = Host::new(config, RateControl::default(), Order::RoundRobin);
        host.call(0, |s, io| s.accept(io, &Host::opened(0, 0)));
        host
    }
    fn sender(flows: u32, packets: u64, control: RateControl, order: Order) -> Host {
        let mut host = Host::new(config(), control, order);
        for i in 0..flows {
            host.call(0, |s, io| s.open(io, &Host::opened(i, i), 0, false));
            host.call(0, |s, io| s.write(io, i, packets * 956));
        }
        host
    }
}

#[test]
fn a_receiver_sends_one_nack_for_each_gap_and_acknowledges_repetitions() {
    let mut host = Host::receiver(config());
    host.data(0, 0, Ecn::Ect0);
    assert_eq!(host.answers(0), [(1, 1)]);
    [2, 3, 4].iter().for_each(|n| host.data(1, *n, Ecn::Ect0));
    assert_eq!(host.answers(1), [(NACK, 1)], "once, for the whole gap");
    host.data(2, 0, Ecn::Ect0);
    assert_eq!(host.answers(2), [(1, 1)]);
    host.data(3, 1, Ecn::Ect0);
    host.data(3, 5, Ecn::Ect0);
    assert_eq!(
        host.answers(3),
        [(1, 2), (NACK, 2)],
        "nothing beyond the gap was kept; the next gap has its own"
    );
    assert_eq!(host.stack.counters(0).delivered_bytes, 2 * 956);
    assert_eq!(host.stack.counters(0).duplicate_bytes, 956);
}
#[test]
fn every_fourth_packet_or_the_one_that_asks_is_acknowledged() {
    let mut host = Host::receiver(RdmaConfig { ack_every: 4, ..config() });
    (0..6).for_each(|n| host.data(n, n, if n == 5 { Ecn::Ce } else { Ecn::Ect0 }));
    assert_eq!(host.answers(6), [(1, 4), (CNP, 5)]);
    let last = Packet { seq: 6 * 956, payload: 10, wire_len: 54, ..Packet::default() };
    host.give(7, last, 0, true, Ecn::Ect0);
    let (_, ack) = host.pull(7).unwrap();
    assert_eq!((ack.seq, ack.has(flag::ECE)), (6 * 956 + 10, true), "a mark since the last ACK is echoed");
}
#[test]
fn cnps_come_at_once_and_then_once_in_an_interval() {
    let mut host = Host::receiver(config());
    let cnps = |host: &mut Host, at: u64| host.answers(at).iter().filter(|(k, _)| *k == CNP).count();
    host.data(0, 0, Ecn::Ce);
    assert_eq!(cnps(&mut host, 0), 1);
    assert_eq!(host.stack.next_timer(), Time::NEVER);
    host.data(10 * US, 1, Ecn::Ce);
    host.data(20 * US, 2, Ecn::Ce);
    assert_eq!((cnps(&mut host, 20 * US), host.stack.next_timer()), (0, Time(50 * US)));
    host.call(50 * US, |s, io| s.on_timer(io));
    assert_eq!(cnps(&mut host, 50 * US), 1, "the two within the interval are told at its end");
    assert_eq!(host.stack.next_timer(), Time::NEVER);
    host.data(101 * US, 3, Ecn::Ce);
    assert_eq!(cnps(&mut host, 101 * US), 1);
}
#[test]
fn pairs_take_turns_and_each_keeps_its_rate() {
    // A packet of 1,000 bytes takes 1 us on the link and 4 us by the limiter.
    let control = RateControl { rate: Some(Rate(2_000_000_000)), window: None };
    let mut host = Host::sender(3, 100, control, Order::RoundRobin);
    let mut sent = Vec::new();
    for t in 0..12 {
        if let Some((_, p)) = host.pull(t * US) {
            sent.push((t, p.flow));
        } else {
            assert!(host.stack.ready_at(0) > Time(t * US));
        }
    }
    assert_eq!(sent, [(0, 0), (1, 1), (2, 2), (4, 0), (5, 1), (6, 2), (8, 0), (9, 1), (10, 2)]);
    let mut host = Host::sender(2, 2, RateControl::default(), Order::Strict);
    let flows: Vec<u32> = (0..4).filter_map(|t| host.pull(t * US)).map(|(_, p)| p.flow).collect();
    assert_eq!(flows, [0, 0, 1, 1]);
}
#[test]
fn a_pair_hears_of_the_rate_of_its_link_and_its_limiter_stands_aside_at_a_slower_one() {
    // 4 us per packet by the limiter. The link then goes on at 1 Gb/s, 8 us per packet: the card waits for it, not for the limiter.
    let control = RateControl { rate: Some(Rate(2_000_000_000)), window: None };
    let mut host = Host::sender(1, 100, control, Order::RoundRobin);
    host.pull(0).unwrap();
    assert_eq!(host.stack.ready_at(0), Time(4 * US));
    host.call(US, |s, io| s.set_link_rate(io, Rate(1_000_000_000)));
    host.pull(4 * US).unwrap();
    assert_eq!(host.stack.ready_at(0), Time::ZERO);
    assert_eq!(*host.heard.lock().unwrap(), ["line 1Gbps"]);
    let mut rate = 0.0;
    host.stack.observe(0, &mut |name, value| rate = if name.name == "rate_bps" { value } else { rate });
    assert_eq!(rate, 2e9, "what the law asks for");
}
#[test]
fn no_timer_runs_while_the_limiter_holds_back_what_was_lost() {
    // A packet each 5 ms; the timeout is 1 ms.
    let control = RateControl { rate: Some(Rate(1_600_000)), window: None };
    let mut host = Host::sender(1, 2, control, Order::RoundRobin);
    host.pull(0).unwrap();
    assert_eq!(host.stack.next_timer(), Time(1000 * US));
    host.call(1000 * US, |s, io| s.on_timer(io));
    assert_eq!(host.stack.counters(0).timeouts, 1);
    assert_eq!(host.stack.next_timer(), Time(6000 * US), "a timeout after the repetition leaves");
    assert_eq!(host.pull(5000 * US).unwrap().1.seq, 0);
    assert_eq!(host.stack.next_timer(), Time(6000 * US));
}
#[test]
fn a_law_hears_what_both_hosts_took_of_a_round_trip() {
    let mut host = Host::receiver(config());
    let slot = host.arena.alloc();
    host.arena.packets[slot as usize] =
        Packet { seq: 0, payload: 956, wire_len: 1000, stamp: 0, ..Packet::default() };
    host.call(9 * US, |s, io| {
        io.waited = Dur::micros(4);
        s.receive(io, &Cell::new(slot, 1000));
    });
    let (_, ack) = host.pull(9 * US).unwrap();
    // What came without waiting does not inherit it.
    host.data(10 * US, 1, Ecn::Ect0);
    let (_, plain) = host.pull(10 * US).unwrap();
    let mut sender = Host::sender(1, 2, RateControl::default(), Order::RoundRobin);
    (0..2).for_each(|t| assert!(sender.pull(t * US).is_some()));
    for (at, answer, waited) in [(12, ack, 2), (13, plain, 0)] {
        let slot = sender.arena.alloc();
        sender.arena.packets[slot as usize] = answer;
        let cell = Cell::new(slot, answer.wire_len);
        sender.call(at * US, |s, io| {
            io.waited = Dur::micros(waited);
            s.receive(io, &cell);
        });
    }
    let heard = sender.heard.lock().unwrap();
    let endpoint: Vec<_> = heard.iter().filter(|text| text.contains("hosts")).collect();
    assert_eq!(endpoint, [&format!("of these {} at hosts", Dur::micros(6))]);
}
#[test]
fn a_pause_stops_data_and_not_control() {
    let mut host = Host::sender(1, 10, RateControl::default(), Order::RoundRobin);
    host.call(0, |s, io| s.accept(io, &Host::opened(9, 9)));
    host.paused = 1 << 3;
    assert!(host.pull(0).is_none() && host.stack.ready_at(1 << 3) == Time::NEVER);
    let mut packet = Packet { payload: 956, wire_len: 1000, flow: 9, ..Packet::default() };
    packet.set_conn(9);
    host.give(0, packet, 0, false, Ecn::Ect0);
    assert_eq!(host.pull(0).unwrap().0.priority(), 6);
    assert!(host.pull(0).is_none());
    host.paused = 0;
    assert_eq!(host.pull(0).unwrap().0.priority(), 3);
}
#[test]
fn a_sender_goes_back_once_for_a_nack_and_after_a_timeout() {
    let mut host = Host::sender(1, 10, RateControl { rate: None, window: Some(4 * 956) }, Order::RoundRobin);
    let next = |host: &mut Host, at: u64| host.pull(at).map(|(_, p)| p.seq / 956);
    assert_eq!([0, 1, 2, 3, 4].map(|t| next(&mut host, t)), [Some(0), Some(1), Some(2), Some(3), None]);
    let answer =
        |n: u64| Packet { seq: n * 956, stamp: 1, flags: flag::ACK, wire_len: 48, ..Packet::default() };
    host.give(US, answer(1), 1, false, Ecn::NotEct);
    assert_eq!(next(&mut host, US), Some(4));
    host.give(2 * US, answer(2), NACK, false, Ecn::NotEct);
    assert_eq!([next(&mut host, 2 * US), next(&mut host, 2 * US)], [Some(2), Some(3)]);
    host.give(3 * US, answer(1), NACK, false, Ecn::NotEct);
    assert_eq!(next(&mut host, 3 * US), Some(4), "a NACK from before is nothing new");
    // Of 2, 3, 4 nothing is heard: 1 ms after it went back.
    let rto = Time(2 * US) + Dur::millis(1);
    assert_eq!(next(&mut host, 4 * US), Some(5));
    // A timer that was put off is looked at when its old time has come, and nothing happens then.
    while host.stack.next_timer() < rto {
        let at = host.stack.next_timer();
        host.call(at.0, |s, io| s.on_timer(io));
        assert_eq!(host.stack.counters(0).timeouts, 0);
    }
    assert_eq!(host.stack.next_timer(), rto);
    host.call(rto.0, |s, io| s.on_timer(io));
    assert_eq!(next(&mut host, rto.0), Some(2));
    let heard = host.heard.lock().unwrap().join("; ");
    assert!(heard.contains("Nack back to 1912") && heard.contains("Timeout back to 1912"), "{heard}");
    let c = host.stack.counters(0);
    assert_eq!((c.timeouts, c.fast_retransmits, c.retransmits, c.data_packets), (1, 1, 4, 10));
    assert!(matches!(host.stack_events[..], [StackEvent::FastRetransmit { .. }, StackEvent::Timeout { .. }]));
}
