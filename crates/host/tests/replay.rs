//! A network card that replays transmissions late, against a naive one with an event per departure. Stacks are called at the same
//! times, and the same packets reach the other end, for any stacks, pauses, delays and simultaneous events.

mod toy;

use penstock_core::rng::Entity;
use penstock_core::Stream;
use penstock_fabric::{Arena, Cell, Fabric, Offered, Port, PortConfig};
use penstock_host::{Io, Net, Nic, NicConfig, Opening, Order, Stack, StackEvent};
use penstock_units::{Dur, Rate, Time};
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use toy::{Conn, Did, Toy};

/// 8 Gb/s: a byte takes a nanosecond.
const RATE: Rate = Rate(8_000_000_000);
const NS: u64 = 1000;
const FRAMING: u32 = 2;

#[derive(Clone, Copy, Debug)]
enum Input {
    /// The application of a connection has so many packets more.
    Accept(usize, u32),
    /// A packet arrives that gives a connection one more to send.
    Credit(usize),
    Pause(u8, bool),
    /// The link is so many times slower than [`RATE`].
    Slower(u64),
}

#[derive(Clone, Debug)]
struct Case {
    stacks: Vec<Toy>,
    delay: u64,
    /// Time since the one before in ns, and the stack.
    inputs: Vec<(u64, usize, Input)>,
}

/// What a case leads to: the calls of each stack, and the packets at the other end with their times.
#[derive(Debug, PartialEq, Default)]
struct Outcome {
    stacks: Vec<Vec<Did>>,
    arrived: Vec<(u64, u32, u64)>,
}

// ---- the naive card ------------------------------------------------------------------------------------------

struct Naive {
    stacks: Vec<Toy>,
    arena: Arena,
    stack_events: Vec<StackEvent>,
    paused: u8,
    turn: usize,
    free_at: u64,
    slower: u64,
    delay: u64,
    arrived: Vec<(u64, u32, u64)>,
}

impl Naive {
    fn call<T>(&mut self, now: u64, i: usize, act: impl FnOnce(&mut Toy, &mut Io<'_>) -> T) -> T {
        let Naive { stacks, arena, stack_events, paused, .. } = self;
        act(
            &mut stacks[i],
            &mut Io { now: Time(now), arena, stack_events, paused: *paused, waited: Dur::ZERO },
        )
    }
    /// Asks everybody as long as the link is free.
    fn send(&mut self, now: u64) {
        'free: while self.free_at <= now {
            let n = self.stacks.len();
            for k in 0..n {
                let i = (self.turn + k) % n;
                if let Some(cell) = self.call(now, i, |s, io| s.poll_transmit(io, None)) {
                    self.turn = (i + 1) % n;
                    self.free_at = now + u64::from(cell.bytes + FRAMING) * NS * self.slower;
                    let packet = self.arena.packets[cell.packet as usize];
                    self.arrived.push((self.free_at + self.delay, packet.flow, packet.seq));
                    self.arena.release(cell.packet);
                    continue 'free;
                }
            }
            return;
        }
    }
}

fn naive(case: &Case) -> Outcome {
    let mut h = Naive {
        stacks: case.stacks.clone(),
        arena: Arena::new(false),
        stack_events: Vec::new(),
        paused: 0,
        turn: 0,
        free_at: 0,
        slower: 1,
        delay: case.delay,
        arrived: Vec::new(),
    };
    let mut inputs = case.inputs.iter().scan(0, |at, (gap, stack, input)| {
        *at += gap * NS;
        Some((*at, *stack, *input))
    });
    let mut input = inputs.next();
    let mut now = 0;
    loop {
        h.send(now);
        while let Some((_, stack, what)) = input.filter(|(at, _, _)| *at == now) {
            apply_naive(&mut h, now, stack, what);
            h.send(now);
            input = inputs.next();
        }
        while let Some(i) = (0..h.stacks.len()).find(|i| h.stacks[*i].next_timer().0 <= now) {
            h.call(now, i, |s, io| s.on_timer(io));
            h.send(now);
        }
        // The next instant at which anything can be different.
        let ready = h.stacks.iter().flat_map(Toy::times);
        let next = ready.chain([h.free_at]).chain(input.map(|i| i.0)).filter(|t| *t > now).min();
        match next {
            Some(t) if t != u64::MAX => now = t,
            _ => break,
        }
    }
    Outcome { stacks: h.stacks.into_iter().map(|s| s.did).collect(), arrived: h.arrived }
}

fn apply_naive(h: &mut Naive, now: u64, stack: usize, input: Input) {
    match input {
        Input::Accept(conn, n) => h.call(now, stack, |s, io| s.write(io, conn as u32, u64::from(n))),
        Input::Credit(conn) => {
            let cell = toy::credit(&mut h.arena, conn as u32);
            h.call(now, stack, |s, io| s.receive(io, &cell));
        }
        Input::Pause(priority, on) => {
            let bit = 1 << priority;
            h.paused = if on { h.paused | bit } else { h.paused & !bit };
        }
        Input::Slower(times) => {
            h.slower = times;
            for i in 0..h.stacks.len() {
                h.call(now, i, |s, io| s.set_link_rate(io, Rate(RATE.0 / times)));
            }
        }
    }
}

// ---- the real one --------------------------------------------------------------------------------------------

struct Wire {
    fabric: Fabric,
    arena: Arena,
    heap: BinaryHeap<Reverse<(u64, u8)>>,
}

impl Net for Wire {
    fn arena(&mut self) -> &mut Arena {
        &mut self.arena
    }
    fn transmit(&mut self, at: Time, port: u32, cell: Cell) -> Option<Time> {
        match self.fabric.offer(at, port, cell, &mut self.arena) {
            Offered::Queued(next) => self.heap.extend(next.map(|at| Reverse((at.0, 0)))),
            other => panic!("{other:?}"),
        }
        Some(self.fabric.ports()[0].free_at())
    }
    fn tell(&mut self, _: Time, stack_events: StackEvent) {
        panic!("{stack_events:?}");
    }
}

/// The outcome, the events of the port, and those of the card.
fn lazy(case: &Case) -> (Outcome, u64, u64) {
    let mut port = PortConfig::plain(RATE, Dur(case.delay), Stream::new(1, 0, Entity::Port, 0));
    port.framing = FRAMING;
    let fabric = Fabric::new(vec![Port::new(0, port).unwrap()]);
    let mut wire = Wire { fabric, arena: Arena::new(false), heap: BinaryHeap::new() };
    let config = NicConfig {
        port: 0,
        rate: RATE,
        delay: Dur(case.delay),
        framing: FRAMING,
        endless: false,
        receive_delay: Dur::ZERO,
        processing: Dur::ZERO,
    };
    let mut nic = Nic::new(config, case.stacks.clone());
    let net = &mut wire;
    // Handles 0..4 belong to the first stack, 4..8 to the second.
    for (i, stack) in case.stacks.iter().enumerate() {
        for conn in 0..stack.conns.len() as u32 {
            let at_src = 4 * i as u32 + conn;
            nic.open(Time::ZERO, i, &Opening { at_src, ..Opening::default() }, net);
        }
    }
    let mut arrived = Vec::new();
    let mut inputs = case.inputs.iter().scan(0, |at, (gap, stack, input)| {
        *at += gap * NS;
        Some((*at, *stack, *input))
    });
    let mut input = inputs.next();
    let (mut of_port, mut of_card) = (0, 0);
    nic.transmit(Time::ZERO, net);
    loop {
        let wake = nic.next_timer().0;
        let event = net.heap.peek().map_or(u64::MAX, |e| e.0 .0);
        let given = input.map_or(u64::MAX, |i| i.0);
        let at = event.min(given).min(wake);
        let now = Time(at);
        if at == u64::MAX {
            break;
        }
        if event == at {
            net.heap.pop();
            of_port += 1;
            nic.advance(now, net);
            let arrival = net.fabric.arrive(now, 0, &mut net.arena);
            if arrival.next != Time::NEVER {
                net.heap.push(Reverse((arrival.next.0, 0)));
            }
            let cell = arrival.packet().expect("nothing is lost here");
            let packet = net.arena.packets[cell.packet as usize];
            arrived.push((at, packet.flow, packet.seq));
            net.arena.release(cell.packet);
        } else if given == at {
            let (_, stack, what) = input.expect("just looked");
            input = inputs.next();
            match what {
                Input::Accept(conn, n) => {
                    nic.write(now, 4 * stack as u32 + conn as u32, u64::from(n), net);
                }
                Input::Credit(conn) => {
                    let cell = toy::credit(&mut net.arena, 4 * stack as u32 + conn as u32);
                    nic.receive(now, &cell, net);
                }
                Input::Pause(priority, on) => nic.pause(now, priority, on, net),
                Input::Slower(times) => {
                    let rate = Rate(RATE.0 / times);
                    nic.advance(now, net);
                    net.fabric.set_rate(now, 0, rate, &mut net.arena);
                    nic.set_rate(now, rate, net);
                }
            }
        } else {
            of_card += 1;
            nic.on_timer(now, net);
        }
        nic.transmit(now, net);
    }
    let stacks = (0..case.stacks.len()).map(|i| nic.stack(i).did.clone()).collect();
    assert_eq!((net.arena.live(), net.fabric.packets_held()), (0, 0));
    (Outcome { stacks, arrived }, of_port, of_card)
}

fn conn() -> impl Strategy<Value = Conn> {
    (0u32..4, 1u32..6, prop_oneof![Just(0u64), 1u64..12], 0u8..2, prop_oneof![Just(u32::MAX), 1u32..4])
        .prop_map(|(packets, bytes, gap, priority, credit)| Conn::new(packets, bytes, gap, priority, credit))
}

fn stack() -> impl Strategy<Value = Toy> {
    let order = prop_oneof![Just(Order::RoundRobin), Just(Order::Strict)];
    let timer = prop_oneof![Just(None), (1u64..30).prop_map(Some)];
    (order, timer, prop::collection::vec(conn(), 1..4)).prop_map(|(order, timer, conns)| {
        let conns = conns.into_iter().enumerate().map(|(i, c)| Conn { flow: i as u32, ..c }).collect();
        Toy::new(order, timer, conns)
    })
}

fn case() -> impl Strategy<Value = Case> {
    let input = prop_oneof![
        (0usize..3, 1u32..5).prop_map(|(conn, n)| Input::Accept(conn, n)),
        (0usize..3).prop_map(Input::Credit),
        (0u8..2, any::<bool>()).prop_map(|(priority, on)| Input::Pause(priority, on)),
        prop_oneof![Just(1u64), Just(2), Just(5)].prop_map(Input::Slower),
    ];
    let inputs = prop::collection::vec((0u64..20, 0usize..2, input), 0..40);
    (prop::collection::vec(stack(), 1..3), 0u64..40, inputs).prop_map(|(mut stacks, delay, mut inputs)| {
        for (i, stack) in stacks.iter_mut().enumerate() {
            stack.conns.iter_mut().for_each(|c| c.flow += 4 * i as u32);
        }
        for (_, stack, input) in &mut inputs {
            *stack %= stacks.len();
            if let Input::Accept(conn, _) | Input::Credit(conn) = input {
                *conn %= stacks[*stack].conns.len();
            }
        }
        // In the end nothing is paused.
        inputs.extend([(1, 0, Input::Pause(0, false)), (0, 0, Input::Pause(1, false))]);
        Case { stacks, delay: delay * NS, inputs }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]
    #[test]
    fn a_late_replay_is_the_same_as_an_event_per_departure(case in case()) {
        let (found, of_port, of_card) = lazy(&case);
        let expected = naive(&case);
        prop_assert_eq!(&found, &expected);
        prop_assert_eq!(of_port, found.arrived.len() as u64);
        // Without pacing and timers the card needs no event of its own.
        let by_itself = |s: &Toy| s.timer.is_some() || s.conns.iter().any(|c| c.gap > 0);
        prop_assert!(of_card == 0 || case.stacks.iter().any(by_itself), "{} events of the card", of_card);
    }
}

/// A paced stack behind a long link needs an event of its own only when nothing is on the wire.
#[test]
fn pacing_behind_a_long_link_costs_no_events() {
    let paced = |delay| {
        let conns = vec![Conn::new(1000, 1, 10, 0, u32::MAX)];
        let case = Case { stacks: vec![Toy::new(Order::RoundRobin, None, conns)], delay, inputs: Vec::new() };
        let (found, of_port, of_card) = lazy(&case);
        assert_eq!(found, naive(&case));
        assert_eq!(of_port, 1000);
        of_card
    };
    assert_eq!((paced(10 * NS), paced(0)), (0, 999));
}

// ---- by hand -------------------------------------------------------------------------------------------------

/// Departures in ns with their flows: three connections, of packets of 8 B (10 ns with framing).
fn schedule(stacks: Vec<Toy>, inputs: Vec<(u64, usize, Input)>) -> Vec<(u64, u32)> {
    let case = Case { stacks, delay: 7 * NS, inputs };
    let (found, _, _) = lazy(&case);
    assert_eq!(found, naive(&case));
    found.arrived.iter().map(|(at, flow, _)| (at / NS - 7, *flow)).collect()
}

fn conns(packets: [u32; 3]) -> Vec<Conn> {
    (0..3).map(|i| Conn { flow: i as u32, ..Conn::new(packets[i], 8, 0, 0, u32::MAX) }).collect()
}

#[test]
fn connections_in_turn() {
    let toy = Toy::new(Order::RoundRobin, None, conns([3, 1, 2]));
    assert_eq!(schedule(vec![toy], vec![]), [(10, 0), (20, 1), (30, 2), (40, 0), (50, 2), (60, 0)]);
}
#[test]
fn connections_in_strict_order() {
    let toy = Toy::new(Order::Strict, None, conns([1, 2, 2]));
    // At 25 the first one has another packet: it is next when the link is free, at 30.
    let inputs = vec![(25, 0, Input::Accept(0, 1))];
    assert_eq!(schedule(vec![toy], inputs), [(10, 0), (20, 1), (30, 1), (40, 0), (50, 2), (60, 2)]);
}
#[test]
fn what_comes_at_a_departure_is_not_seen_by_its_choice() {
    let toy = || Toy::new(Order::Strict, None, conns([1, 2, 0]));
    assert_eq!(
        schedule(vec![toy()], vec![(10, 0, Input::Accept(0, 1))]),
        [(10, 0), (20, 1), (30, 0), (40, 1)]
    );
    assert_eq!(
        schedule(vec![toy()], vec![(9, 0, Input::Accept(0, 1))]),
        [(10, 0), (20, 0), (30, 1), (40, 1)]
    );
}
#[test]
fn stacks_in_turn() {
    let a = Toy::new(Order::RoundRobin, None, conns([2, 2, 0]));
    let mut b = Toy::new(Order::RoundRobin, None, conns([3, 0, 0]));
    b.conns.iter_mut().for_each(|c| c.flow += 4);
    let expected = [(10, 0), (20, 4), (30, 1), (40, 4), (50, 0), (60, 4), (70, 1)];
    assert_eq!(schedule(vec![a, b], vec![]), expected);
}
#[test]
fn a_slower_link_counts_from_the_next_packet_on() {
    let toy = Toy::new(Order::Strict, None, conns([4, 0, 0]));
    let inputs = vec![(15, 0, Input::Slower(5)), (100, 0, Input::Slower(1))];
    // The second packet has begun at 10 and keeps its rate, the third and the fourth take 50 ns.
    assert_eq!(schedule(vec![toy], inputs), [(10, 0), (20, 0), (70, 0), (120, 0)]);
}
#[test]
fn a_pause_holds_back_one_priority_after_the_packet_in_service() {
    let mut toy = Toy::new(Order::Strict, None, conns([3, 2, 0]));
    toy.conns[1].priority = 1;
    let inputs = vec![(5, 0, Input::Pause(0, true)), (40, 0, Input::Pause(0, false))];
    // The link is idle from 30 on; at 45 it goes on at once.
    assert_eq!(schedule(vec![toy], inputs), [(10, 0), (20, 1), (30, 1), (55, 0), (65, 0)]);
}
