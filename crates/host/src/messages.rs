//! Transports of messages: one stack for all of them, and the law that each has of its own.
//!
//! A [`MessageStack`] keeps the ends of connections by handle, one timer for each, and control packets that wait for the
//! card. It hands packets to the right end and drops late ones, and carries out what applications do. A [`MessageLaw`]
//! decides which packet is sent next, and what a packet or a timer changes.

use crate::ends::{EndTimers, Incoming, Outgoing};
use crate::stack::{ApplicationReads, Counters, FastPath, HostFacts, Io, Opening, Order, Part, Stack};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use penstock_core::packet::flag;
use penstock_core::{Packet, Report};
use penstock_fabric::{prefetch, prefetch_all, Cell};
use penstock_units::{Rate, Time};

/// An end of a connection.
pub enum End<S, R> {
    /// The sending end.
    Sender(Box<S>),
    /// The receiving end.
    Receiver(Box<R>),
}

/// Names the field of a sending end that is its [`Outgoing`], and that of a receiving end that is its [`Incoming`].
///
/// ```
/// # use penstock_host::ends::{Incoming, Outgoing};
/// struct Sending {
///     out: Outgoing,
///     cwnd: u64,
/// }
/// struct Receiving {
///     incoming: Incoming,
///     credit: u64,
/// }
/// penstock_host::ends!(Sending { out }, Receiving { incoming });
/// ```
#[macro_export]
macro_rules! ends {
    ($sender:ty { $out:ident } $(, $receiver:ty { $incoming:ident })?) => {
        impl AsRef<$crate::ends::Outgoing> for $sender {
            fn as_ref(&self) -> &$crate::ends::Outgoing {
                &self.$out
            }
        }
        impl AsMut<$crate::ends::Outgoing> for $sender {
            fn as_mut(&mut self) -> &mut $crate::ends::Outgoing {
                &mut self.$out
            }
        }
        $(impl AsRef<$crate::ends::Incoming> for $receiver {
            fn as_ref(&self) -> &$crate::ends::Incoming {
                &self.$incoming
            }
        })?
    };
}

/// Ends of connections at one host, by handle.
pub struct Ends<S, R> {
    slots: Vec<Option<End<S, R>>>,
}

impl<S, R> Ends<S, R> {
    fn put(&mut self, conn: u32, end: End<S, R>) {
        let at = conn as usize;
        if self.slots.len() <= at {
            self.slots.resize_with(at + 1, || None);
        }
        self.slots[at] = Some(end);
    }
    fn get(&self, conn: u32) -> Option<&End<S, R>> {
        self.slots.get(conn as usize)?.as_ref()
    }
    /// The sending end with this handle.
    #[inline]
    pub fn sender(&mut self, conn: u32) -> Option<&mut S> {
        match self.slots.get_mut(conn as usize)? {
            Some(End::Sender(end)) => Some(end),
            _ => None,
        }
    }
    /// The receiving end with this handle.
    #[inline]
    pub fn receiver(&mut self, conn: u32) -> Option<&mut R> {
        match self.slots.get_mut(conn as usize)? {
            Some(End::Receiver(end)) => Some(end),
            _ => None,
        }
    }
    /// The sending end with this handle, to look at.
    pub fn peek_sender(&self, conn: u32) -> Option<&S> {
        match self.get(conn)? {
            End::Sender(end) => Some(end),
            End::Receiver(_) => None,
        }
    }
    /// Handles below which there may be ends.
    pub fn handles(&self) -> core::ops::Range<u32> {
        0..self.slots.len() as u32
    }
}

/// State of a transport at one host that all laws have.
pub struct Messages<S, R> {
    /// The host. Its rate is that of its link now.
    pub facts: HostFacts,
    /// Ends of connections.
    pub ends: Ends<S, R>,
    /// A timer for each end.
    pub timers: EndTimers,
    /// Control packets that wait for the card, in the order in which they were made.
    pub control: VecDeque<Cell>,
    /// Senders that may send, the next one first, for laws by which they take turns.
    pub line: VecDeque<u32>,
}

impl<S: AsRef<Outgoing>, R> Messages<S, R> {
    /// No connection yet.
    pub fn new(facts: &HostFacts) -> Messages<S, R> {
        Messages {
            facts: *facts,
            ends: Ends { slots: Vec::new() },
            timers: EndTimers::default(),
            control: VecDeque::new(),
            line: VecDeque::new(),
        }
    }
    /// Takes the next sender out of the line: the first, or with [`Order::Strict`] the one opened first.
    pub fn next_in_line(&mut self) -> Option<u32> {
        if self.facts.order == Order::RoundRobin {
            return self.line.pop_front();
        }
        let opened =
            |conn: &u32| self.ends.peek_sender(*conn).map_or(u32::MAX, |s| s.as_ref().opening.flow.0);
        let at = (0..self.line.len()).min_by_key(|i| opened(&self.line[*i]))?;
        self.line.remove(at)
    }
}

/// A write of an application.
#[derive(Clone, Copy, Debug)]
pub struct Write {
    /// Its first byte.
    pub from: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// Everything written before is acknowledged: the write begins a transfer on an idle connection.
    pub idle: bool,
}

/// The part of a message transport that differs from others.
pub trait MessageLaw: Send {
    /// A sending end.
    type Sender: AsRef<Outgoing> + AsMut<Outgoing> + Send;
    /// A receiving end.
    type Receiver: AsRef<Incoming> + Send;
    /// What it shares with other transports.
    fn messages(&self) -> &Messages<Self::Sender, Self::Receiver>;
    /// What it shares with other transports, to be changed.
    fn messages_mut(&mut self) -> &mut Messages<Self::Sender, Self::Receiver>;
    /// Priorities of control packets and of data, one bit each. A pause of one of them holds back all packets of that
    /// kind.
    fn priorities(&self) -> (u8, u8);

    /// The sending end of a new connection.
    fn sender(&mut self, now: Time, opening: &Opening) -> Self::Sender;
    /// The receiving end of a new connection.
    fn receiver(&mut self, opening: &Opening) -> Self::Receiver;
    /// An application has written to a sending end; [`Self::settle`] follows.
    fn on_write(&mut self, io: &mut Io<'_>, conn: u32, write: Write) {
        let _ = (io, conn, write);
    }
    /// The application of a sending end has gone away, with `written` bytes written. What was not sent is dropped, and
    /// [`Self::settle`] follows.
    fn on_abort(&mut self, io: &mut Io<'_>, conn: u32, written: u64) {
        let _ = (io, conn, written);
    }
    /// An end is removed.
    fn on_remove(&mut self, conn: u32, end: End<Self::Sender, Self::Receiver>) {
        let _ = (conn, end);
    }
    /// Gives a sender its place in line and its timer after a change.
    fn settle(&mut self, now: Time, conn: u32);

    /// A packet has arrived for a receiving end.
    fn on_data(&mut self, io: &mut Io<'_>, conn: u32, packet: &Packet, cell: &Cell);
    /// A packet has arrived for a sending end.
    fn on_answer(&mut self, io: &mut Io<'_>, conn: u32, packet: &Packet, cell: &Cell);
    /// A packet has arrived for no end that is there.
    fn on_stray(&mut self, io: &mut Io<'_>, packet: &Packet) {
        let _ = (io, packet);
    }
    /// The next data packet.
    fn send(&mut self, io: &mut Io<'_>) -> Option<Cell>;
    /// A sender may have a data packet.
    fn may_send(&self) -> bool {
        !self.messages().line.is_empty()
    }
    /// The next control packet of those that leave at a pace.
    fn send_paced(&mut self, io: &mut Io<'_>) -> Option<Cell> {
        let _ = io;
        None
    }
    /// Time of the next such packet; [`Time::NEVER`] = there is none.
    fn paced_at(&self) -> Time {
        Time::NEVER
    }
    /// Time from which a limiter lets a data packet go, where no sender may send at once.
    fn limited_until(&self) -> Time {
        Time::NEVER
    }
    /// The timer of an end has come, and is not set any more.
    fn on_timer(&mut self, io: &mut Io<'_>, conn: u32);
    /// A timer that belongs to no end.
    fn host_timer(&self) -> Time {
        Time::NEVER
    }
    /// That timer may have come.
    fn on_host_timer(&mut self, io: &mut Io<'_>) {
        let _ = io;
    }
    /// The host's link has another rate ([`Messages::facts`]).
    fn on_link_rate(&mut self, now: Time) {
        let _ = now;
    }
    /// Packets that wait for the card beside [`Messages::control`].
    fn waiting(&self) -> usize {
        0
    }
    /// Asks the processor to fetch what a sender owns.
    fn prefetch(&self, sender: &Self::Sender) {
        let _ = sender;
    }
    /// Reports internal values of an end.
    fn observe(&self, end: &End<Self::Sender, Self::Receiver>, report: &mut Report<'_>) {
        let _ = (end, report);
    }
}

/// The stack of a message transport at one host.
pub struct MessageStack<L>(pub L);

impl<L: MessageLaw> MessageStack<L> {
    fn sender(&mut self, conn: u32) -> Option<&mut Outgoing> {
        self.0.messages_mut().ends.sender(conn).map(AsMut::as_mut)
    }
}

impl<L: MessageLaw> Stack for MessageStack<L> {
    fn open(&mut self, io: &mut Io<'_>, opening: &Opening, bytes: u64, close: bool) {
        let end = End::Sender(Box::new(self.0.sender(io.now, opening)));
        self.0.messages_mut().ends.put(opening.at_src, end);
        if bytes > 0 {
            self.write(io, opening.at_src, bytes);
        }
        if close {
            self.close(io, opening.at_src);
        }
    }
    fn accept(&mut self, _: &mut Io<'_>, opening: &Opening) {
        let end = End::Receiver(Box::new(self.0.receiver(opening)));
        self.0.messages_mut().ends.put(opening.at_dst, end);
    }
    fn set_peer(&mut self, conn: u32, peer: u32) {
        if let Some(out) = self.sender(conn) {
            out.opening.at_dst = peer;
        }
    }
    fn write(&mut self, io: &mut Io<'_>, conn: u32, bytes: u64) {
        let Some(out) = self.sender(conn) else { return };
        let (from, idle) = (out.written, out.remaining() == 0);
        out.write(bytes);
        self.0.on_write(io, conn, Write { from, bytes, idle });
        self.0.settle(io.now, conn);
    }
    fn close(&mut self, io: &mut Io<'_>, conn: u32) {
        if let Some(out) = self.sender(conn) {
            out.close(io.stack_events);
        }
    }
    fn abort(&mut self, io: &mut Io<'_>, conn: u32) {
        let Some(out) = self.sender(conn) else { return };
        let written = out.written;
        out.abort(io.stack_events);
        self.0.on_abort(io, conn, written);
        self.0.settle(io.now, conn);
    }
    fn remove(&mut self, _: &mut Io<'_>, conn: u32) {
        let m = self.0.messages_mut();
        m.timers.set(conn, Time::NEVER);
        m.line.retain(|other| *other != conn);
        if let Some(end) = m.ends.slots.get_mut(conn as usize).and_then(Option::take) {
            self.0.on_remove(conn, end);
        }
    }

    fn receive(&mut self, io: &mut Io<'_>, cell: &Cell) {
        let packet = io.arena.packets[cell.packet as usize];
        let conn = packet.conn();
        let forward = packet.is_forward() && !packet.has(flag::RETURNED);
        match self.0.messages().ends.get(conn) {
            Some(End::Receiver(r)) if forward && (**r).as_ref().opening.flow.0 == packet.flow => {
                self.0.on_data(io, conn, &packet, cell);
            }
            Some(End::Sender(s)) if !forward && (**s).as_ref().opening.flow.0 == packet.flow => {
                self.0.on_answer(io, conn, &packet, cell);
            }
            // Of a connection that is over.
            _ => self.0.on_stray(io, &packet),
        }
        io.arena.release(cell.packet);
    }
    fn poll_transmit(&mut self, io: &mut Io<'_>, _: Option<u32>) -> Option<Cell> {
        let (control, data) = self.0.priorities();
        if io.paused & control == 0 {
            let next = self.0.messages_mut().control.pop_front();
            if let Some(cell) = next.or_else(|| self.0.send_paced(io)) {
                return Some(cell);
            }
        }
        if io.paused & data != 0 {
            return None;
        }
        self.0.send(io)
    }
    fn ready_at(&self, paused: u8) -> Time {
        let (control, data) = self.0.priorities();
        let (control, data) = (paused & control == 0, paused & data == 0);
        if control && !self.0.messages().control.is_empty() || data && self.0.may_send() {
            return Time::ZERO;
        }
        let paced = if control { self.0.paced_at() } else { Time::NEVER };
        paced.min(if data { self.0.limited_until() } else { Time::NEVER })
    }
    fn set_link_rate(&mut self, io: &mut Io<'_>, rate: Rate) {
        self.0.messages_mut().facts.rate = rate;
        self.0.on_link_rate(io.now);
    }

    fn next_timer(&self) -> Time {
        self.0.messages().timers.first().min(self.0.host_timer())
    }
    fn on_timer(&mut self, io: &mut Io<'_>) {
        self.0.on_host_timer(io);
        while let Some(conn) = self.0.messages_mut().timers.due(io.now) {
            self.0.on_timer(io, conn);
        }
    }

    fn queued(&self) -> u64 {
        (self.0.messages().control.len() + self.0.waiting()) as u64
    }
    fn counters(&self, conn: u32) -> Counters {
        match self.0.messages().ends.get(conn) {
            Some(End::Sender(s)) => (**s).as_ref().counters,
            Some(End::Receiver(r)) => (**r).as_ref().counters,
            None => Counters::default(),
        }
    }
    fn missing_below(&self, conn: u32, end: u64) -> u64 {
        match self.0.messages().ends.get(conn) {
            Some(End::Receiver(r)) => (**r).as_ref().missing_below(end),
            _ => 0,
        }
    }
    fn observe(&self, conn: u32, report: &mut Report<'_>) {
        if let Some(end) = self.0.messages().ends.get(conn) {
            self.0.observe(end, report);
        }
    }
    fn prefetch(&self, conn: u32, part: Part) {
        let ends = &self.0.messages().ends;
        match (part, ends.get(conn)) {
            (Part::Place, _) => {
                prefetch_all(self);
                ends.slots.get(conn as usize).into_iter().for_each(prefetch);
            }
            (Part::End, Some(End::Sender(s))) => prefetch_all(&**s),
            (Part::End, Some(End::Receiver(r))) => prefetch_all(&**r),
            (Part::Inside, Some(End::Sender(s))) => self.0.prefetch(s),
            _ => {}
        }
    }
}
impl<L: MessageLaw> ApplicationReads for MessageStack<L> {}
impl<L: MessageLaw> FastPath for MessageStack<L> {}
