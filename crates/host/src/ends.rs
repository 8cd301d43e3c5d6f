//! Both sides of a connection as the application sees them, and the packets between them. Transports beside TCP share
//! these, mostly by a [`crate::MessageStack`].

use crate::stack::{Counters, HostFacts, Io, Opening, StackEvent};
use crate::writes::WriteEnds;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use penstock_core::packet::flag;
use penstock_core::rng::Entity;
use penstock_core::tcp::{Ranges, TimeoutKind, TimeoutRecord};
use penstock_core::{Packet, Stream};
use penstock_fabric::Cell;
use penstock_units::{Dur, Time};

impl HostFacts {
    /// Packets of `wire` bytes, framing included, that fill the smallest round trip at the rate of the host's link.
    pub fn pipe(&self, wire: u32) -> u32 {
        libm::ceil(self.rate.as_bytes_per_sec() * self.base_rtt.as_secs() / f64::from(wire)) as u32
    }
    /// The random stream of a connection's sending end.
    pub fn stream(&self, opening: &Opening) -> Stream {
        Stream::new(self.seed, self.run, Entity::Sender, opening.key)
    }
}

/// The sending end as the application sees it.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The connection.
    pub opening: Opening,
    /// One past the last byte that the application has written.
    pub written: u64,
    /// One past the highest byte ever sent.
    pub max_sent: u64,
    /// Totals.
    pub counters: Counters,
    ends: WriteEnds,
    turns: u32,
    closing: bool,
    over: bool,
}

impl Outgoing {
    /// Nothing written yet.
    pub fn new(opening: &Opening) -> Outgoing {
        Outgoing {
            opening: *opening,
            written: 0,
            max_sent: 0,
            counters: Counters::default(),
            ends: WriteEnds::default(),
            turns: 0,
            closing: false,
            over: false,
        }
    }
    /// The path of the next control packet, as [`Incoming::turn`].
    pub fn turn(&mut self) -> u32 {
        self.turns = self.turns.wrapping_add(1);
        self.turns
    }
    /// The application writes.
    pub fn write(&mut self, bytes: u64) {
        self.written = self.written.saturating_add(bytes);
        self.counters.accepted_bytes = self.written;
        self.ends.push(self.written);
    }
    /// The application writes nothing more.
    pub fn close(&mut self, stack_events: &mut Vec<StackEvent>) {
        self.closing = true;
        self.end_if_done(stack_events);
    }
    /// Drops data that was not sent yet, and closes.
    pub fn abort(&mut self, stack_events: &mut Vec<StackEvent>) {
        self.written = self.written.min(self.max_sent);
        self.counters.accepted_bytes = self.written;
        self.ends.drop_beyond(self.written);
        self.close(stack_events);
    }
    /// Everything below `upto` is known to be delivered. Reports the ends of writes that this covers.
    pub fn acked(&mut self, upto: u64, stack_events: &mut Vec<StackEvent>) {
        self.counters.acked_bytes = self.counters.acked_bytes.max(upto);
        while let Some(end) = self.ends.reached(upto) {
            stack_events.push(StackEvent::Acked { flow: self.opening.flow, end });
        }
        self.end_if_done(stack_events);
    }
    /// Bytes that are written and not known to be delivered.
    pub fn remaining(&self) -> u64 {
        self.written - self.counters.acked_bytes.min(self.written)
    }
    fn end_if_done(&mut self, stack_events: &mut Vec<StackEvent>) {
        if self.closing && !self.over && self.remaining() == 0 {
            self.over = true;
            stack_events.push(StackEvent::Closed { flow: self.opening.flow });
        }
    }
    /// Counts a data packet that ends at byte `end`; true when all of it was sent before.
    pub fn count_sent(&mut self, end: u64) -> bool {
        let again = end <= self.max_sent;
        self.max_sent = self.max_sent.max(end);
        self.counters.data_packets += 1;
        self.counters.retransmits += u64::from(again);
        again
    }
    /// A packet of `wire` bytes with the bytes from `seq` to `end`, and its cell, addressed to the receiving end, with
    /// the flow's path and priority 0. `again`: all of it was sent before ([`Self::count_sent`]).
    pub fn data(&self, io: &mut Io<'_>, (seq, end): (u64, u64), wire: u32, again: bool) -> Cell {
        let (o, payload) = (&self.opening, (end - seq) as u32);
        let slot = io.arena.alloc();
        let packet = &mut io.arena.packets[slot as usize];
        *packet = Packet {
            seq,
            stamp: io.now.0,
            flow: o.flow.0,
            wire_len: wire,
            payload,
            window: self.ends.mark(seq, end),
            flags: if again { flag::RETRANSMIT } else { 0 },
            ..Packet::default()
        };
        packet.set_conn(o.at_dst);
        packet.set_class(o.class);
        let mut cell = Cell::new(slot, wire).with_class(o.class).with_jitter();
        if payload > 0 {
            cell = cell.with_payload();
        }
        (cell.to, cell.entropy) = (o.dst, o.forth);
        cell
    }
    /// Counts and reports a retransmission timeout.
    pub fn timed_out(&mut self, timeout: &Timeout, stack_events: &mut Vec<StackEvent>) {
        self.counters.timeouts += 1;
        let Timeout { from, lost, outstanding, cwnd, rto, in_a_row } = *timeout;
        let record = TimeoutRecord {
            kind: if in_a_row > 1 { TimeoutKind::Repeated } else { TimeoutKind::WindowLost },
            block_start: from == 0,
            block_offset: lost,
            outstanding,
            cwnd,
            rto,
            in_a_row,
        };
        stack_events.push(StackEvent::Timeout { flow: self.opening.flow, max_sent: self.max_sent, record });
    }
}

/// A retransmission timeout of a sending end, as its law sees it.
#[derive(Clone, Copy, Debug)]
pub struct Timeout {
    /// Oldest byte that is not acknowledged, from the beginning of the transfer.
    pub from: u64,
    /// Byte whose packet has timed out, counted in the same way.
    pub lost: u64,
    /// Bytes outstanding.
    pub outstanding: u64,
    /// Window in bytes.
    pub cwnd: u64,
    /// The timeout that has passed.
    pub rto: Dur,
    /// Consecutive timeouts, with this one.
    pub in_a_row: u32,
}

/// The receiving end as the application sees it: bytes are handed over in order.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// The connection.
    pub opening: Opening,
    /// One past the last byte handed to the application: the first byte missing.
    pub next: u64,
    /// Totals.
    pub counters: Counters,
    /// Bytes that have arrived beyond the first gap.
    beyond: Ranges,
    ends: WriteEnds,
    turns: u32,
}

impl Incoming {
    /// Nothing has arrived yet.
    pub fn new(opening: &Opening) -> Incoming {
        Incoming {
            opening: *opening,
            next: 0,
            counters: Counters::default(),
            beyond: Ranges::default(),
            ends: WriteEnds::default(),
            turns: 0,
        }
    }
    /// The path of the next control packet that is not an answer to a certain packet. Such packets use paths in turn
    /// ([`header`]).
    pub fn turn(&mut self) -> u32 {
        self.turns = self.turns.wrapping_add(1);
        self.turns
    }
    /// `bytes` from [`Packet::seq`] on have arrived with a packet. Returns the number of new ones, and reports the
    /// writes that are delivered by them.
    pub fn take(&mut self, packet: &Packet, bytes: u64, stack_events: &mut Vec<StackEvent>) -> u64 {
        let seq = packet.seq;
        if let Some(end) = packet.write_end().filter(|end| *end > self.next) {
            self.ends.insert(end);
        }
        let (from, to) = (seq.max(self.next), (seq + bytes).max(self.next));
        let new = to - from - self.beyond.covered(from, to);
        self.counters.duplicate_bytes += bytes - new;
        self.counters.arrived_bytes += new;
        if new == 0 {
            return 0;
        }
        if from == self.next && self.beyond.is_empty() {
            self.next = to;
        } else {
            self.beyond.insert(from, to);
            self.next = self.beyond.first_gap(self.next);
            self.beyond.remove_below(self.next);
        }
        self.counters.delivered_bytes = self.next;
        while let Some(end) = self.ends.reached(self.next) {
            stack_events.push(StackEvent::Delivered { flow: self.opening.flow, end });
        }
        new
    }
    /// The first bytes below `end` that have not arrived, as (from, to).
    pub fn first_gap(&self, end: u64) -> Option<(u64, u64)> {
        let to = self.beyond.next_start(self.next).map_or(end, |start| start.min(end));
        (self.next < to).then_some((self.next, to))
    }
    /// The first bytes from `at` on and below `end` that have not arrived, as (from, to).
    pub fn gap_from(&self, at: u64, end: u64) -> Option<(u64, u64)> {
        let from = self.beyond.first_gap(at.max(self.next));
        let to = self.beyond.next_start(from).map_or(end, |start| start.min(end));
        (from < to).then_some((from, to))
    }
    /// Ranges that have arrived beyond the first byte missing.
    pub fn ranges(&self) -> usize {
        self.beyond.len()
    }
    /// Bytes below `end` that have not arrived.
    pub fn missing_below(&self, end: u64) -> u64 {
        end.saturating_sub(self.next) - self.beyond.covered(self.next, end.max(self.next))
    }
}

impl AsRef<Incoming> for Incoming {
    fn as_ref(&self) -> &Incoming {
        self
    }
}

/// The end of a connection that a control packet is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Toward {
    /// The sending end: an acknowledgement, a grant, a pull, a token.
    Sender,
    /// The receiving end: a request to send.
    Receiver,
}

/// A control packet of `bytes`, and its cell. It sets flow, length, handle and class, and the flag that tells the
/// direction. Where switches hash, its path follows from the value `turn` of the connection: that of the packet that it
/// answers, as in uet-htsim, or the next in turn ([`Incoming::turn`]).
pub fn header(io: &mut Io<'_>, o: &Opening, toward: Toward, turn: u32, bytes: u32, priority: u8) -> Cell {
    let slot = io.arena.alloc();
    let packet = &mut io.arena.packets[slot as usize];
    let (to, conn, path, flags) = match toward {
        Toward::Sender => (o.src, o.at_src, o.back, flag::ACK),
        Toward::Receiver => (o.dst, o.at_dst, o.forth, flag::PROBE),
    };
    *packet = Packet { flow: o.flow.0, wire_len: bytes, flags, ..Packet::default() };
    packet.set_conn(conn);
    packet.set_class(o.class);
    let mut cell = Cell::new(slot, bytes).with_priority(priority).with_class(o.class);
    (cell.to, cell.entropy) = (to, path.wrapping_add(turn));
    cell
}

/// Puts `conn` into `line` at the rank `to`, or takes it out with `None`. `rank` is its present one.
pub fn set_rank<K: Ord + Copy>(
    line: &mut BTreeSet<(K, u32)>,
    rank: &mut Option<K>,
    to: Option<K>,
    conn: u32,
) {
    let was = core::mem::replace(rank, to);
    if was != to {
        was.map(|rank| line.remove(&(rank, conn)));
        to.map(|rank| line.insert((rank, conn)));
    }
}

/// One timer per handle.
#[derive(Default)]
pub struct EndTimers {
    times: Vec<Time>,
    set: BTreeSet<(Time, u32)>,
    /// The time of the first one.
    first: Option<Time>,
}

impl EndTimers {
    /// Sets the timer of a handle; [`Time::NEVER`] = none.
    #[inline]
    pub fn set(&mut self, conn: u32, at: Time) {
        let i = conn as usize;
        if self.times.len() <= i {
            self.times.resize(i + 1, Time::NEVER);
        }
        let was = core::mem::replace(&mut self.times[i], at);
        if was == at {
            return;
        }
        if was != Time::NEVER {
            self.set.remove(&(was, conn));
        }
        if at != Time::NEVER {
            self.set.insert((at, conn));
        }
        self.first = self.set.first().map(|(at, _)| *at);
    }
    /// The time of a handle's timer.
    #[inline]
    pub fn at(&self, conn: u32) -> Time {
        self.times.get(conn as usize).copied().unwrap_or(Time::NEVER)
    }
    /// The earliest time of all; [`Time::NEVER`] when none is set.
    #[inline]
    pub fn first(&self) -> Time {
        self.first.unwrap_or(Time::NEVER)
    }
    /// Takes the earliest timer that has come by `now`: its handle.
    pub fn due(&mut self, now: Time) -> Option<u32> {
        let (at, conn) = *self.set.first()?;
        if at > now {
            return None;
        }
        self.set(conn, Time::NEVER);
        Some(conn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_core::FlowId;
    use penstock_fabric::Arena;

    fn opening() -> Opening {
        Opening { flow: FlowId(3), dst: 1, ..Opening::default() }
    }

    #[test]
    fn what_arrives_out_of_order_is_delivered_once_and_in_order() {
        let (mut incoming, mut stack_events) = (Incoming::new(&opening()), Vec::new());
        let packet = |seq, payload, window| Packet { seq, payload, window, ..Packet::default() };
        let mut take = |incoming: &mut Incoming, seq, bytes, mark| {
            incoming.take(&packet(seq, bytes, mark), u64::from(bytes), &mut stack_events);
            (incoming.counters.arrived_bytes, stack_events.len())
        };
        assert_eq!(take(&mut incoming, 100, 100, 0), (100, 0));
        assert_eq!((incoming.next, incoming.missing_below(300)), (0, 200));
        assert_eq!((incoming.first_gap(300), incoming.first_gap(60)), (Some((0, 100)), Some((0, 60))));
        assert_eq!(take(&mut incoming, 150, 150, 100), (200, 0));
        // Once more, in a packet that ends earlier.
        assert_eq!(take(&mut incoming, 210, 50, 40), (200, 0));
        assert_eq!(take(&mut incoming, 0, 100, 0), (300, 1));
        assert_eq!(incoming.next, 300);
        assert_eq!(take(&mut incoming, 50, 100, 0), (300, 1));
        assert_eq!(take(&mut incoming, 300, 100, 100), (400, 2));
        let ends = stack_events
            .iter()
            .map(|stack_events| matches!(stack_events, StackEvent::Delivered { end: 250 | 400, .. }));
        assert!(ends.eq([true; 2]), "{stack_events:?}");
        assert_eq!((incoming.next, incoming.counters.duplicate_bytes), (400, 200));
        assert_eq!((incoming.missing_below(400), incoming.missing_below(500)), (0, 100));
        assert_eq!((incoming.first_gap(400), incoming.first_gap(500)), (None, Some((400, 500))));
    }
    #[test]
    fn the_path_of_a_control_packet_follows_neither_from_its_slot_nor_from_its_time() {
        let (mut arena, mut stack_events) = (Arena::new(false), Vec::new());
        let o = Opening { src: 5, dst: 1, forth: 1000, back: 2000, ..Opening::default() };
        let mut path = |now, toward, turn| {
            let mut io = Io {
                now: Time(now),
                arena: &mut arena,
                stack_events: &mut stack_events,
                paused: 0,
                waited: Dur::ZERO,
            };
            let cell = header(&mut io, &o, toward, turn, 64, 0);
            (cell.to, cell.entropy)
        };
        assert_eq!((path(10, Toward::Sender, 7), path(20, Toward::Sender, 7)), ((5, 2007), (5, 2007)));
        let mut incoming = Incoming::new(&o);
        let turns = [(); 3].map(|()| path(30, Toward::Sender, incoming.turn()).1);
        assert_eq!(turns, [2001, 2002, 2003]);
        assert_eq!(path(40, Toward::Receiver, Outgoing::new(&o).turn()), (1, 1001));
    }
    #[test]
    fn a_sending_end_is_over_when_all_that_counts_is_acknowledged() {
        let (mut out, mut stack_events) = (Outgoing::new(&opening()), Vec::new());
        out.write(100);
        out.write(900);
        assert!(!out.count_sent(600) && out.count_sent(300));
        out.abort(&mut stack_events);
        assert_eq!((out.written, stack_events.len()), (600, 0));
        out.acked(100, &mut stack_events);
        assert!(matches!(stack_events[..], [StackEvent::Acked { end: 100, .. }]));
        out.acked(600, &mut stack_events);
        assert!(
            matches!(stack_events[1..], [StackEvent::Closed { .. }]),
            "the end at 1000 is forgotten: {stack_events:?}"
        );
        assert_eq!((out.counters.data_packets, out.counters.retransmits), (2, 1));
    }
    #[test]
    fn timers_come_in_order_and_can_be_moved() {
        let mut timers = EndTimers::default();
        for (conn, at) in [(0, 50), (1, 30), (2, 40), (1, 60)] {
            timers.set(conn, Time(at));
        }
        timers.set(0, Time::NEVER);
        assert_eq!((timers.first(), timers.due(Time(39))), (Time(40), None));
        assert_eq!(
            (timers.due(Time(60)), timers.due(Time(60)), timers.due(Time(60))),
            (Some(2), Some(1), None)
        );
        assert_eq!(timers.first(), Time::NEVER);
    }
}
