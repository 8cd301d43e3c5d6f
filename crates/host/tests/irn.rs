//! Selective repeat end to end: two stacks in the lab over a link that loses, beside go-back-N; and a receiver by hand.

use penstock_core::{Ecn, FlowId, Packet};
use penstock_fabric::{Arena, Cell};
use penstock_host::rdma::{self, LineRate, RdmaConfig, Recovery};
use penstock_host::{HostFacts, Io, Opening, Order, Stack};
use penstock_units::{Dur, Rate, Time};
use std::sync::Arc;

const SELECTIVE: Recovery = Recovery::Selective { rto_low: Dur::micros(100), few: 3 };
const SIZE: u64 = 1000;

struct Host {
    stack: Box<dyn Stack>,
    arena: Arena,
}

impl Host {
    fn new(recovery: Recovery) -> Host {
        let facts = HostFacts {
            host: 0,
            rate: Rate(8_000_000_000),
            delay: Dur::micros(1),
            base_rtt: Dur::micros(10),
            longest_wait: Dur::ZERO,
            oversubscription: 1.0,
            mss: SIZE as u32,
            framing: 0,
            order: Order::RoundRobin,
            seed: 1,
            run: 0,
        };
        let config = RdmaConfig { recovery, rto: Dur::micros(320), ..RdmaConfig::default() };
        Host {
            stack: rdma::stack(&facts, config, Arc::new(|_| Box::new(LineRate))),
            arena: Arena::new(false),
        }
    }
    fn call<T>(&mut self, at: u64, act: impl FnOnce(&mut dyn Stack, &mut Io<'_>) -> T) -> T {
        let mut stack_events = Vec::new();
        let mut io = Io {
            now: Time(at),
            arena: &mut self.arena,
            stack_events: &mut stack_events,
            paused: 0,
            waited: Dur::ZERO,
        };
        act(&mut self.stack, &mut io)
    }
    fn pull(&mut self, at: u64) -> Option<Packet> {
        let cell = self.call(at, |s, io| s.poll_transmit(io, None))?;
        let packet = self.arena.packets[cell.packet as usize];
        self.arena.release(cell.packet);
        Some(packet)
    }
    fn give(&mut self, at: u64, packet: Packet) {
        let slot = self.arena.alloc();
        self.arena.packets[slot as usize] = packet;
        let cell = Cell::new(slot, packet.wire_len).with_ecn(Ecn::Ect0);
        self.call(at, |s, io| s.receive(io, &cell));
    }
}

/// A sender of `packets` and its receiver; what is sent in one exchange arrives before the next, but for what `lose` names by
/// exchange and number. Answers the numbers sent, by exchange.
fn exchange(recovery: Recovery, packets: u64, lose: impl Fn(usize, u64) -> bool) -> (Vec<Vec<u64>>, Host) {
    let opening = Opening { flow: FlowId(0), dst: 1, ..Opening::default() };
    let (mut from, mut to) = (Host::new(recovery), Host::new(recovery));
    to.call(0, |s, io| s.accept(io, &opening));
    from.call(0, |s, io| s.open(io, &opening, 0, false));
    from.call(0, |s, io| s.write(io, 0, packets * SIZE));
    let mut sent = Vec::new();
    for round in 0..100 {
        let at = 1 + round as u64 * 10_000_000;
        while from.stack.next_timer() <= Time(at) {
            from.call(at, |s, io| s.on_timer(io));
        }
        let now: Vec<Packet> = std::iter::from_fn(|| from.pull(at)).collect();
        sent.push(now.iter().map(|p| p.seq / SIZE).collect());
        for packet in now.into_iter().filter(|p| !lose(round, p.seq / SIZE)) {
            to.give(at, packet);
        }
        std::iter::from_fn(|| to.pull(at)).collect::<Vec<_>>().into_iter().for_each(|p| from.give(at, p));
        if from.stack.counters(0).acked_bytes == packets * SIZE {
            break;
        }
    }
    assert_eq!(from.stack.counters(0).acked_bytes, packets * SIZE, "it ends");
    assert_eq!(to.stack.counters(0).delivered_bytes, packets * SIZE);
    (sent, from)
}

#[test]
fn only_what_was_lost_is_sent_again() {
    let lost = |round: usize, n: u64| round == 0 && [2, 5, 6].contains(&n);
    let (sent, from) = exchange(SELECTIVE, 10, lost);
    assert_eq!(sent[1], [2, 5, 6]);
    let c = from.stack.counters(0);
    assert_eq!((sent.len(), c.retransmits, c.fast_retransmits, c.timeouts), (2, 3, 1, 0));
    // Go-back-N sends all from the first gap on.
    let (sent, from) = exchange(Recovery::GoBackN, 10, lost);
    assert_eq!(sent[1], [2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(from.stack.counters(0).retransmits, 8);
}
#[test]
fn a_lost_tail_and_a_lost_repetition_wait_for_the_low_timeout() {
    // The last of ten is lost: one packet outstanding, 100 us; go-back-N waits for 320.
    let tail = |round: usize, n: u64| round == 0 && n == 9;
    let (sent, from) = exchange(SELECTIVE, 10, tail);
    let waited = sent[1..].iter().position(|s| !s.is_empty());
    assert_eq!((waited, &sent[sent.len() - 1][..], from.stack.counters(0).timeouts), (Some(9), &[9][..], 1));
    let (sent, _) = exchange(Recovery::GoBackN, 10, tail);
    assert_eq!(sent[1..].iter().position(|s| !s.is_empty()), Some(31));
    // 4 and its repetition are lost; the six from there on count as outstanding: 320 us from the NACK on.
    let (sent, from) = exchange(SELECTIVE, 10, |round, n| n == 4 && round < 2);
    assert_eq!((&sent[1][..], &sent[sent.len() - 1][..], sent.len()), (&[4][..], &[4][..], 33));
    let c = from.stack.counters(0);
    assert_eq!((c.retransmits, c.timeouts), (2, 1));
}
#[test]
fn any_loss_is_repaired() {
    // Every third packet of each exchange at first, by a rule that also hits repetitions.
    let (_, from) = exchange(SELECTIVE, 200, |round, n| round < 12 && (n + round as u64).is_multiple_of(3));
    let c = from.stack.counters(0);
    assert!(c.retransmits >= 66 && c.data_packets == 200 + c.retransmits, "{c:?}");
}
#[test]
fn a_receiver_tells_of_every_packet_beyond_a_gap() {
    let mut host = Host::new(SELECTIVE);
    let opening = Opening { flow: FlowId(0), dst: 1, ..Opening::default() };
    host.call(0, |s, io| s.accept(io, &opening));
    let mut answers = |n: u64| {
        let packet = Packet { seq: n * SIZE, payload: SIZE as u32, wire_len: 1044, ..Packet::default() };
        host.give(1, packet);
        let p = host.pull(1).expect("an answer to every packet");
        assert!(host.pull(1).is_none());
        (p.word(0), p.seq / SIZE, p.word(2) / SIZE as u32, p.word(3) / SIZE as u32)
    };
    // Kind (1 = ACK, 2 = NACK), next expected, distance and length of what came.
    assert_eq!(answers(0), (1, 1, 0, 0));
    assert_eq!(answers(3), (2, 1, 2, 1));
    assert_eq!(answers(2), (2, 1, 1, 1));
    assert_eq!(answers(1), (1, 4, 0, 0), "what was kept counts");
}
#[test]
fn without_recovery_what_overtakes_is_kept_and_nothing_is_said() {
    let mut host = Host::new(Recovery::Off);
    let opening = Opening { flow: FlowId(0), dst: 1, ..Opening::default() };
    host.call(0, |s, io| s.accept(io, &opening));
    let data = |n: u64| Packet { seq: n * SIZE, payload: SIZE as u32, wire_len: 1044, ..Packet::default() };
    host.give(1, data(1));
    assert!(host.pull(1).is_none());
    host.give(1, data(0));
    assert_eq!(host.pull(1).map(|p| (p.word(0), p.seq / SIZE)), Some((1, 2)));
}
