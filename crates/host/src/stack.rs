//! The stack: one per host and transport, owner of all its senders and receivers there.
//!
//! What a driver promises:
//!
//! - times of calls at one host never decrease; a call at `now` comes after every pull that was due before `now`
//!   ("the network card pulls", below);
//! - a connection has a handle at each of its hosts, a small number that the driver chooses and uses again after
//!   [`Stack::forget`]. Packets name the handle at the host they are for ([`penstock_core::Packet::conn`]) and the number of the flow,
//!   which is never used again: a late packet of an earlier connection is told by it and dropped. The first packet makes the receiving
//!   end ([`Stack::listen`]); until the sender knows its handle, packets have [`Opening::UNKNOWN`], and the driver fills it in;
//! - what a packet carries of its journey is in its [`Cell`]: ECN, trimming, priority. The segment is in `io.arena`, slot
//!   [`Cell::packet`], and belongs to the stack from [`Stack::receive`] on: it gives the slot back or sends it again.
//!
//! # The network card pulls
//!
//! A stack does not send; it is asked for a packet ([`Stack::pull`]) when the link of its host can take one. That moment is the
//! departure of the packet before, which is known when that one is pulled, so it needs no event: whoever touches the host next, and the
//! arrival of that packet at the other end of the link at the latest, first replays the pulls that were due (`Nic`). A stack therefore
//! sees pulls and events in order of their own times, and there is one event per packet and link.
//!
//! Where a paper's hosts have an endless queue below the transport, the network card pulls as long as there is something
//! ([`Stack::pull`] until `None`), after every call.
//!
//! A pull may be replayed late, up to the delay of the host's link. What follows from it at the host is exact nevertheless: a deadline
//! that it sets is replayed too, at its own time and in order. Only news would reach the driver late, so a pull tells none.

use crate::nic::Net;
use alloc::boxed::Box;
use alloc::vec::Vec;
use penstock_core::tcp::TimeoutRecord;
use penstock_core::{FlowId, Packet, Report, Transition};
use penstock_fabric::{Arena, Cell};
use penstock_units::{Dur, Rate, Time};

/// What a stack is called with.
pub struct Io<'a> {
    /// When.
    pub now: Time,
    /// Segments; the stack takes slots for what it sends and gives back those of what it received.
    pub arena: &'a mut Arena,
    /// What the driver is told.
    pub news: &'a mut Vec<News>,
    /// Priorities that the other end of the host's link has paused, a bit each: [`Stack::pull`] must not hand out a packet of these.
    pub paused: u8,
}

/// What [`Stack::exchange`] is called with.
pub struct Exchange<'a, N> {
    /// When.
    pub now: Time,
    /// The host's port.
    pub port: u32,
    /// As [`Io::paused`].
    pub paused: u8,
    /// As [`Io::news`].
    pub news: &'a mut Vec<News>,
    /// The network.
    pub net: &'a mut N,
}

/// A part of what a packet touches at the end of a connection; each leads to the next ([`Stack::fetch`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The end's place in the stack's table.
    Place,
    /// The end itself.
    End,
    /// What it has beside itself, such as the state of its window law.
    Inside,
}

/// Of the next deadline of a stack, what is fetched from memory, one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// When it comes.
    Time,
    /// The place of its end, and what else is known of its deadlines.
    Place,
    /// The end.
    End,
}

/// How far [`Stack::exchange`] came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exchanged {
    /// All was done.
    Done,
    /// All was done, and the stack may have an earlier deadline than before.
    Armed,
    /// The driver has to act on news first; then the card pulls as after any other call.
    Told,
}

/// A connection (or a message on its own) to be, as the driver announces it to both ends. The default has no deadline and belongs to
/// no set of applications: `Opening { flow, src, dst, ..Opening::default() }`.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// Its number in the run, never used again.
    pub flow: FlowId,
    /// Its identity, whatever else is opened in the run: what its random streams are made from.
    pub key: u64,
    /// Position of the sending host.
    pub src: u32,
    /// Position of the receiving host.
    pub dst: u32,
    /// Handle of its sending end, at `src`.
    pub at_src: u32,
    /// Handle of its receiving end, at `dst`; [`Opening::UNKNOWN`] before the first packet has made it.
    pub at_dst: u32,
    /// Bytes in all when known in advance, for size-aware transports; 0 = not known.
    pub bytes: u64,
    /// Traffic class, 0..64.
    pub class: u8,
    /// When it should be done; [`Time::NEVER`] = no deadline.
    pub due: Time,
    /// Entropy of its packets towards the receiver, where a path is chosen per flow ([`Cell::entropy`]).
    pub forth: u32,
    /// The same on the way back.
    pub back: u32,
    /// Which of the stack's protocols, where a stack has several.
    pub protocol: u32,
    /// Set of applications at `src` that a host controller has in its charge; [`Opening::ALONE`] = none.
    pub group: u32,
    /// The switch that `dst` is attached to, by the driver's count, for host controllers that tell flows apart by it.
    pub router: u32,
}

impl Opening {
    /// In no host controller's charge.
    pub const ALONE: u32 = u32::MAX;
    /// No handle: the driver finds the end of such a packet by its flow.
    pub const UNKNOWN: u32 = u32::MAX;
}

impl Default for Opening {
    fn default() -> Self {
        Opening {
            flow: FlowId(0),
            key: 0,
            src: 0,
            dst: 0,
            at_src: 0,
            at_dst: 0,
            bytes: 0,
            class: 0,
            due: Time::NEVER,
            forth: 0,
            back: 0,
            protocol: 0,
            group: Opening::ALONE,
            router: 0,
        }
    }
}

/// What a stack tells its driver.
#[derive(Clone, Copy, Debug)]
pub enum News {
    /// The sender knows that everything up to byte `end`, an end of something accepted, was delivered.
    Acked {
        /// The connection.
        flow: FlowId,
        /// One past the last byte.
        end: u64,
    },
    /// The receiver has handed everything up to byte `end`, an end of something accepted by the sender, to the application; said when the end
    /// that a packet has carried ([`Packet::write_end`]) is reached.
    Delivered {
        /// The connection.
        flow: FlowId,
        /// One past the last byte.
        end: u64,
    },
    /// The sending end is over: nothing is owed and nothing will be sent. The driver forgets both ends.
    Closed {
        /// The connection.
        flow: FlowId,
    },
    /// A retransmission timeout.
    Timeout {
        /// The connection.
        flow: FlowId,
        /// One past the highest byte ever sent.
        max_sent: u64,
        /// What and why.
        record: TimeoutRecord,
    },
    /// A loss was noticed and is repaired without a timeout.
    FastRetransmit {
        /// The connection.
        flow: FlowId,
        /// One past the highest byte ever sent.
        max_sent: u64,
        /// Bytes outstanding.
        outstanding: u64,
        /// Window after the reaction, in bytes.
        cwnd: u64,
    },
    /// A host controller has changed a connection's state.
    Transition(Transition),
}

/// Totals of one connection since it was opened; what an end does not know is 0 there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Bytes accepted from the application and not forgotten since (sender).
    pub accepted_bytes: u64,
    /// Bytes known to be delivered (sender).
    pub acked_bytes: u64,
    /// Bytes handed to the application, in order where the transport promises it (receiver).
    pub delivered_bytes: u64,
    /// Payload bytes that arrived, each counted once, in whatever order (receiver).
    pub arrived_bytes: u64,
    /// Payload bytes that arrived more than once (receiver).
    pub duplicate_bytes: u64,
    /// Data packets sent, repetitions included.
    pub data_packets: u64,
    /// Of these, repetitions.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Losses repaired without a timeout.
    pub fast_retransmits: u64,
    /// Signs of marked packets that reached the sender.
    pub ece_acks: u64,
    /// Tail-loss probes (sender; RFC 8985 section 7).
    pub tail_loss_probes: u64,
    /// Time from the last packet sent to each of them (sender).
    pub probe_wait: Dur,
    /// The other end has answered (sender).
    pub established: bool,
    /// Smoothed round-trip time (sender).
    pub srtt: Dur,
    /// Mean of the samples of the round-trip time (sender).
    pub rtt_mean: Dur,
}

/// Which of a host's connections is asked first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// In turn, a packet each.
    #[default]
    RoundRobin,
    /// The one opened first, as long as it has something.
    Strict,
}

/// What a stack is built from.
#[derive(Clone, Copy, Debug)]
pub struct HostFacts {
    /// Position of the host.
    pub host: u32,
    /// Rate of its link at the beginning ([`Stack::link_rate`]).
    pub rate: Rate,
    /// Propagation delay of its link.
    pub delay: Dur,
    /// Smallest round-trip time that the scenario promises.
    pub base_rtt: Dur,
    /// Time in which the memory of the switches on the longest way drains at the slowest of their ports: what a packet may have to
    /// wait beyond [`Self::base_rtt`]. Zero = not known, or without limit.
    pub longest_wait: Dur,
    /// How much more hosts can send than the tiers of switches above them can carry, at least 1.
    pub oversubscription: f64,
    /// Largest payload of a packet in bytes.
    pub mss: u32,
    /// Bytes of framing a link adds to every packet.
    pub framing: u32,
    /// Which connection is asked first.
    pub order: Order,
    /// Seed and number of the run: random streams are made from these and [`Opening::key`], never from a shared one.
    pub seed: u64,
    /// Number of the replication.
    pub run: u64,
}

/// A transport at one host.
pub trait Stack: Send {
    /// The sending end of a connection, with handle `opening.at_src`; it begins to connect if the transport does.
    fn open(&mut self, io: &mut Io<'_>, opening: &Opening);
    /// [`Self::open`], then [`Self::accept`] of `bytes` where it is more than nothing, then [`Self::close`] if it ends with these.
    fn begin(&mut self, io: &mut Io<'_>, opening: &Opening, bytes: u64, close: bool) {
        self.open(io, opening);
        if bytes > 0 {
            self.accept(io, opening.at_src, bytes);
        }
        if close {
            self.close(io, opening.at_src);
        }
    }
    /// The receiving end, with handle `opening.at_dst`: the first packet of the connection has arrived, and is received next.
    fn listen(&mut self, io: &mut Io<'_>, opening: &Opening);
    /// The receiving end of a connection has handle `peer`: packets of its sending end `conn` name that from now on ([`Opening::at_dst`]). It
    /// changes no result, and may be told late.
    fn set_peer(&mut self, conn: u32, peer: u32);
    /// The application has `bytes` more to send on a sending end (`u64::MAX / 4` = without end).
    fn accept(&mut self, io: &mut Io<'_>, conn: u32, bytes: u64);
    /// Nothing more will be accepted on a sending end.
    fn close(&mut self, io: &mut Io<'_>, conn: u32);
    /// The application of a sending end goes away: what was sent is delivered, the rest is forgotten.
    fn leave(&mut self, io: &mut Io<'_>, conn: u32);
    /// The connection is over; the handle (of either end) will be used again.
    fn forget(&mut self, io: &mut Io<'_>, conn: u32);
    /// Nobody sees when the stack is called for nothing: what it has kept of connections that are over, for which it would be, may go.
    #[inline]
    fn tidy(&mut self) {}

    /// A packet has arrived; its slot belongs to the stack.
    fn receive(&mut self, io: &mut Io<'_>, cell: &Cell);
    /// Something lies at an end whose application has not read it, and would make a difference by that: it is on its way ([`Self::read`]). So
    /// where a driver has applications take their time ([`crate::Nic::wait_for_applications`]).
    fn unread(&self) -> bool {
        false
    }
    /// The applications of this host read all that has come: does that make an answer leave, with [`Self::reply`]?
    fn read(&mut self) -> bool {
        false
    }
    /// The answers of what was read last are to leave.
    fn reply(&mut self) {}
    /// A packet for the end with handle `conn` arrives soon: a stack may ask the processor to fetch `part` of what that will touch, and do
    /// nothing else.
    #[inline]
    fn fetch(&self, conn: u32, part: Part) {
        let _ = (conn, part);
    }
    /// The same for its next deadline, which may come soon.
    #[inline]
    fn fetch_due(&self, part: Due) {
        let _ = part;
    }
    /// [`Self::receive`], and what leaves in answer at once, where the queue below is endless and nothing else waits to be sent. A stack need
    /// not have it: it only saves the way through [`Self::pull`].
    #[inline]
    fn exchange<N: Net>(&mut self, io: &mut Exchange<'_, N>, cell: &Cell) -> Exchanged
    where
        Self: Sized,
    {
        let Exchange { now, paused, news, net, .. } = io;
        let mut io = Io { now: *now, arena: net.arena(), news, paused: *paused };
        self.receive(&mut io, cell);
        Exchanged::Told
    }
    /// [`Self::on_deadline`] in the same way.
    #[inline]
    fn alarm<N: Net>(&mut self, io: &mut Exchange<'_, N>) -> Exchanged
    where
        Self: Sized,
    {
        let Exchange { now, paused, news, net, .. } = io;
        let mut io = Io { now: *now, arena: net.arena(), news, paused: *paused };
        self.on_deadline(&mut io);
        Exchanged::Told
    }
    /// [`Self::receive`] of a packet that had waited at this host for its processor since it reached the card.
    fn receive_late(&mut self, io: &mut Io<'_>, cell: &Cell, waited: Dur) {
        let _ = waited;
        self.receive(io, cell);
    }
    /// The link can take a packet: the next one, [`Cell::to`] set to the host it is for; `None` = nothing may be sent now. Tells
    /// no news.
    fn pull(&mut self, io: &mut Io<'_>) -> Option<Cell>;
    /// The same of one connection only. Asked where the queue below the transport is endless, so that an action of the application is
    /// carried out before the next one.
    fn pull_of(&mut self, io: &mut Io<'_>, conn: u32) -> Option<Cell> {
        let _ = conn;
        self.pull(io)
    }
    /// Sends all that [`Self::pull`] has, or of one connection [`Self::pull_of`], where the queue below is endless.
    #[inline]
    fn send_out<N: Net>(&mut self, io: &mut Exchange<'_, N>, conn: Option<u32>)
    where
        Self: Sized,
    {
        pull_all(self, io, conn);
    }
    /// What was pulled last leaves the host at `at`; said where the queue below the transport is endless.
    fn departs(&mut self, at: Time) {
        let _ = at;
    }
    /// From when on [`Self::pull`] may have something that is not `paused` (bits as in [`Io::paused`]): `now` or earlier, a time
    /// (pacing), or [`Time::NEVER`] (until the next call). May be too early, never too late: where a pull was answered with `None` and
    /// this is not later than that pull, the stack is asked again only after the next call (a packet, a deadline, a pause that ends).
    fn ready(&self, paused: u8) -> Time;

    /// The host's link has another rate from now on. Said where the network card pulls.
    fn link_rate(&mut self, io: &mut Io<'_>, rate: Rate) {
        let _ = (io, rate);
    }

    /// When the stack wants to act by itself; [`Time::NEVER`] = when something comes.
    fn deadline(&self) -> Time;
    /// That time has come: handles what is due, or the first of it.
    fn on_deadline(&mut self, io: &mut Io<'_>);

    /// Packets it has made and that the card has not pulled yet: they have slots.
    fn queued(&self) -> u64 {
        0
    }
    /// Totals of an end.
    fn counters(&self, conn: u32) -> Counters;
    /// [`Counters::accepted_bytes`] alone: asked for every write.
    fn accepted(&self, conn: u32) -> u64 {
        self.counters(conn).accepted_bytes
    }
    /// Bytes below `end` that have not arrived at a receiving end: for telling needless timeouts, never for a protocol.
    fn missing_below(&self, conn: u32, end: u64) -> u64 {
        let _ = (conn, end);
        0
    }
    /// Whether a receiving end answers a packet that comes now with a duplicate ACK: it lies behind a gap, or has come before.
    fn dupack(&self, conn: u32, packet: &Packet) -> bool {
        let _ = (conn, packet);
        false
    }
    /// Reports internal values of an end by their declarations (`quantity::CWND`), for recording only.
    fn observe(&self, conn: u32, report: &mut Report<'_>) {
        let _ = (conn, report);
    }
    /// Reports what a controller above connections knows of a sending end, for recording only.
    fn observe_group(&self, conn: u32, report: &mut Report<'_>) {
        let _ = (conn, report);
    }
}

/// [`Stack::send_out`] packet by packet.
pub(crate) fn pull_all<S: Stack, N: Net>(stack: &mut S, io: &mut Exchange<'_, N>, conn: Option<u32>) {
    let Exchange { now, port, paused, news, net } = io;
    loop {
        let mut io = Io { now: *now, arena: net.arena(), news, paused: *paused };
        let pulled = match conn {
            None => stack.pull(&mut io),
            Some(conn) => stack.pull_of(&mut io, conn),
        };
        let Some(cell) = pulled else { break };
        if let Some(at) = net.transmit(*now, *port, cell) {
            stack.departs(at);
        }
    }
    debug_assert!(news.is_empty(), "a pull tells no news");
}

impl<S: Stack + ?Sized> Stack for Box<S> {
    fn open(&mut self, io: &mut Io<'_>, opening: &Opening) {
        (**self).open(io, opening);
    }
    fn begin(&mut self, io: &mut Io<'_>, opening: &Opening, bytes: u64, close: bool) {
        (**self).begin(io, opening, bytes, close);
    }
    fn listen(&mut self, io: &mut Io<'_>, opening: &Opening) {
        (**self).listen(io, opening);
    }
    fn set_peer(&mut self, conn: u32, peer: u32) {
        (**self).set_peer(conn, peer);
    }
    fn accept(&mut self, io: &mut Io<'_>, conn: u32, bytes: u64) {
        (**self).accept(io, conn, bytes);
    }
    fn close(&mut self, io: &mut Io<'_>, conn: u32) {
        (**self).close(io, conn);
    }
    fn leave(&mut self, io: &mut Io<'_>, conn: u32) {
        (**self).leave(io, conn);
    }
    fn forget(&mut self, io: &mut Io<'_>, conn: u32) {
        (**self).forget(io, conn);
    }
    fn tidy(&mut self) {
        (**self).tidy();
    }
    fn receive(&mut self, io: &mut Io<'_>, cell: &Cell) {
        (**self).receive(io, cell);
    }
    fn receive_late(&mut self, io: &mut Io<'_>, cell: &Cell, waited: Dur) {
        (**self).receive_late(io, cell, waited);
    }
    fn unread(&self) -> bool {
        (**self).unread()
    }
    fn read(&mut self) -> bool {
        (**self).read()
    }
    fn reply(&mut self) {
        (**self).reply();
    }
    fn pull(&mut self, io: &mut Io<'_>) -> Option<Cell> {
        (**self).pull(io)
    }
    fn pull_of(&mut self, io: &mut Io<'_>, conn: u32) -> Option<Cell> {
        (**self).pull_of(io, conn)
    }
    fn departs(&mut self, at: Time) {
        (**self).departs(at);
    }
    fn ready(&self, paused: u8) -> Time {
        (**self).ready(paused)
    }
    fn link_rate(&mut self, io: &mut Io<'_>, rate: Rate) {
        (**self).link_rate(io, rate);
    }
    fn deadline(&self) -> Time {
        (**self).deadline()
    }
    fn on_deadline(&mut self, io: &mut Io<'_>) {
        (**self).on_deadline(io);
    }
    fn queued(&self) -> u64 {
        (**self).queued()
    }
    fn counters(&self, conn: u32) -> Counters {
        (**self).counters(conn)
    }
    fn accepted(&self, conn: u32) -> u64 {
        (**self).accepted(conn)
    }
    fn missing_below(&self, conn: u32, end: u64) -> u64 {
        (**self).missing_below(conn, end)
    }
    fn dupack(&self, conn: u32, packet: &Packet) -> bool {
        (**self).dupack(conn, packet)
    }
    fn observe(&self, conn: u32, report: &mut Report<'_>) {
        (**self).observe(conn, report);
    }
    fn observe_group(&self, conn: u32, report: &mut Report<'_>) {
        (**self).observe_group(conn, report);
    }
}
