//! Connections between two transfers: they rest when nothing has happened for a while, and go on as if they had not.

use penstock_core::packet::Ecn;
use penstock_core::rng::Entity;
use penstock_core::tcp::{Receiver, Sender, TcpConfig};
use penstock_core::{CcHeader, FlowId, Packet, Stream};
use penstock_fabric::{Arena, Cell};
use penstock_host::{
    HostFacts, Io, Lab, LabConfig, Network, Opening, Stack, StackEvent, TcpOptions, TcpProtocol, TcpStack,
};
use penstock_models::registry::protocol;
use penstock_units::{Dur, Time};
use std::sync::Arc;

fn tcp(name: &str) -> TcpProtocol {
    let mut config =
        TcpConfig { rto_min: Dur::millis(5), rto_initial: Dur::millis(5), ..TcpConfig::default() };
    let (_, suite) = protocol("protocol", name).unwrap();
    suite.set_up(&mut config);
    TcpProtocol { config: Arc::new(config), control: suite.endpoint }
}

const RTT: Dur = Dur(40_000_000);

/// A sender and its receiver on a path that loses and marks packets by their number; what they send is written down.
struct Pair {
    sender: Option<Sender>,
    receiver: Option<Receiver>,
    now: Time,
    sent: u64,
    log: Vec<String>,
    /// They rest whenever they may; how often each has.
    rests: Option<(u32, u32)>,
}

impl Pair {
    fn new(p: &TcpProtocol, rests: bool) -> Pair {
        let stream = Stream::new(1, 0, Entity::Sender, 0);
        let mut sender =
            Sender::new(p.config.clone(), (p.control)(&p.config, &|| stream.split(1)), 7, 0, || stream);
        sender.open(Time::ZERO);
        let receiver = Some(Receiver::new(p.config.clone(), 7, 0));
        let rests = rests.then_some((0, 0));
        Pair { sender: Some(sender), receiver, now: Time::ZERO, sent: 0, log: Vec::new(), rests }
    }
    fn rest(&mut self) {
        let Some((senders, receivers)) = &mut self.rests else { return };
        if self.sender.as_ref().unwrap().may_rest() {
            *senders += 1;
            self.sender = self.sender.take().map(|s| s.rest().wake(7, 0));
        }
        if self.receiver.as_ref().unwrap().may_rest() {
            *receivers += 1;
            self.receiver = self.receiver.take().map(|r| r.rest().wake(7));
        }
    }
    fn transfer(&mut self, bytes: u64) {
        self.sender.as_mut().unwrap().write(self.now, bytes);
        let end = self.sender.as_ref().unwrap().view.app_end;
        while self.sender.as_ref().unwrap().acked() < end {
            let (sender, receiver) = (self.sender.as_mut().unwrap(), self.receiver.as_mut().unwrap());
            let (mut out, mut header) = (Packet::default(), CcHeader::NONE);
            let mut acks = Vec::new();
            while sender.poll_transmit(self.now, &mut out, &mut header) {
                self.log.push(format!("{} {out:?}", self.now));
                self.sent += 1;
                if self.sent.is_multiple_of(61) {
                    continue;
                }
                if self.sent.is_multiple_of(7) && out.ecn == Ecn::Ect0 {
                    out.ecn = Ecn::Ce;
                }
                receiver.on_packet(self.now + RTT / 2, &out, &header);
                let (mut ack, mut echoed) = (Packet::default(), CcHeader::NONE);
                while receiver.poll_transmit(self.now + RTT / 2, &mut ack, &mut echoed) {
                    acks.push(ack);
                }
            }
            let due = sender.deadline().min(receiver.deadline());
            self.now = if acks.is_empty() { due.max(self.now) } else { self.now + RTT };
            for ack in acks {
                self.log.push(format!("{} {ack:?}", self.now));
                sender.on_packet(self.now, &ack, &CcHeader::NONE);
            }
            if sender.deadline() <= self.now {
                sender.on_deadline(self.now);
            }
            if receiver.deadline() <= self.now {
                receiver.on_deadline(self.now);
                let (mut ack, mut echoed) = (Packet::default(), CcHeader::NONE);
                while receiver.poll_transmit(self.now, &mut ack, &mut echoed) {
                    sender.on_packet(self.now, &ack, &CcHeader::NONE);
                }
            }
        }
        // Nothing more to send, as the stack asks after every acknowledgement.
        let (mut out, mut header) = (Packet::default(), CcHeader::NONE);
        assert!(!self.sender.as_mut().unwrap().poll_transmit(self.now, &mut out, &mut header));
    }
}

#[test]
fn a_connection_that_has_rested_goes_on_as_if_it_had_not() {
    for name in ["reno", "newreno", "sack", "dctcp", "cubic"] {
        let p = tcp(name);
        let logs = [false, true].map(|rests| {
            let mut pair = Pair::new(&p, rests);
            for (i, segments) in [1_u64, 30, 2, 90, 1, 200, 3, 3, 60, 15].into_iter().enumerate() {
                pair.transfer(segments * 1460 - 11);
                // Pauses below and above the timeout.
                pair.now = pair.now + Dur::millis(2 + 9 * (i as u64 % 2));
                pair.rest();
            }
            (pair.log, pair.rests)
        });
        let [(awake, _), (rested, rests)] = logs;
        assert_eq!(awake, rested, "{name}");
        let (senders, receivers) = rests.unwrap();
        assert!(senders >= 8 && receivers >= 8, "{name}: {senders} and {receivers} of 10");
    }
}

/// A stack of a host of a network of two.
fn stack(p: &TcpProtocol) -> TcpStack {
    let mut found = None;
    Lab::new(LabConfig::new(Network::Star { hosts: 2 }), |facts: &HostFacts| {
        let build = || {
            let options = TcpOptions { protocols: vec![p.clone()], endless: true, ..TcpOptions::default() };
            TcpStack::new(facts, options)
        };
        found = Some(build());
        Box::new(build()) as Box<dyn Stack>
    });
    found.unwrap()
}

#[test]
fn ends_rest_after_their_transfer_and_wake_up_for_the_next() {
    const CONNECTIONS: u32 = 300;
    let p = tcp("dctcp");
    let (mut a, mut b) = (stack(&p), stack(&p));
    let (mut arena, mut stack_events, mut now) = (Arena::new(false), Vec::new(), Time::ZERO);
    macro_rules! io {
        () => {
            &mut Io { now, arena: &mut arena, stack_events: &mut stack_events, paused: 0, waited: Dur::ZERO }
        };
    }
    for i in 0..CONNECTIONS {
        let o = Opening { flow: FlowId(i), dst: 1, at_src: i, at_dst: i, ..Opening::default() };
        a.open(io!(), &o, 0, false);
        b.accept(io!(), &o);
    }
    let mut written = 0;
    for _ in 0..3 {
        written += 30_000;
        for i in 0..CONNECTIONS {
            a.write(io!(), i, 30_000);
            assert!(!a.rests(i), "it is at work");
            while !stack_events.drain(..).any(|n| matches!(n, StackEvent::Acked { .. })) {
                let forth: Vec<Cell> = std::iter::from_fn(|| a.poll_transmit(io!(), None)).collect();
                forth.iter().for_each(|cell| b.receive(io!(), cell));
                let back: Vec<Cell> = std::iter::from_fn(|| b.poll_transmit(io!(), None)).collect();
                now = now + RTT;
                back.iter().for_each(|cell| a.receive(io!(), cell));
                if forth.is_empty() && back.is_empty() {
                    now = a.next_timer().min(b.next_timer()).max(now);
                    a.on_timer(io!());
                    b.on_timer(io!());
                }
            }
        }
        // Nobody has more to send, and what timers are left are stale.
        assert!(a.poll_transmit(io!(), None).is_none() && b.poll_transmit(io!(), None).is_none());
        while a.next_timer() != Time::NEVER {
            now = a.next_timer();
            a.on_timer(io!());
            while a.poll_transmit(io!(), None).is_some() {}
        }
        for i in 0..CONNECTIONS {
            assert!(a.rests(i), "sender {i}");
            let c = a.counters(i);
            assert_eq!((c.accepted_bytes, c.acked_bytes, c.established), (written, written, true));
            assert_eq!(b.counters(i).delivered_bytes, written);
            assert_eq!(b.missing_below(i, written + 10), 10);
        }
        let resting = (0..CONNECTIONS).filter(|i| b.rests(*i)).count();
        assert!(resting > 200, "{resting} receivers: they are looked at 64 together");
    }
    // A rest has no part in how a connection ends, and a packet for one that is over goes nowhere.
    for i in 0..CONNECTIONS {
        a.remove(io!(), i);
        b.remove(io!(), i);
        assert!(!a.rests(i) && !b.rests(i));
    }
}
