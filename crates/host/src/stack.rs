//! A stack is the transport of one host. It owns all sending and receiving ends of that transport there.
//!
//! What a driver promises:
//!
//! - Times of calls at one host never decrease. A call at `now` comes after every transmission that was due before
//!   `now` (see "The network card asks" below).
//! - A connection has a handle at each of its hosts: a small number that the driver chooses, and that it uses again
//!   after [`Stack::remove`]. Packets name the handle at their destination ([`penstock_core::Packet::conn`]) and the
//!   number of the flow, which is never used again. A late packet of an earlier connection is recognised by the number
//!   and dropped.
//! - The first packet makes the receiving end ([`Stack::accept`]). Until the sender knows the handle of that end, its
//!   packets carry [`Opening::UNKNOWN`], and the driver fills the handle in.
//! - The [`Cell`] holds what a packet carries of its journey: ECN, trimming, priority. The segment is in `io.arena`,
//!   slot [`Cell::packet`]. From [`Stack::receive`] on it belongs to the stack, which frees the slot or sends it again.
//!
//! # The network card asks
//!
//! A stack does not send by itself. The card asks it for a packet ([`Stack::poll_transmit`]) when the link of its host
//! can take one. That moment is the departure of the packet before. It is known when that packet is handed out, so it
//! needs no event. Whatever touches the host next first replays the transmissions that were due (`Nic`); the arrival of
//! that packet at the other end of the link is the latest such moment. A stack therefore sees transmissions and events
//! in order of their own times, and there is one event per packet and link.
//!
//! Where a paper's hosts have an endless queue below the transport, the card asks after every call until the answer is
//! `None`.
//!
//! A transmission may be replayed late, by up to the delay of the host's link. Its consequences at the host are exact:
//! a timer that it sets is replayed at its own time and in order. Only an event for the driver would be late, so
//! [`Stack::poll_transmit`] reports none.

use alloc::boxed::Box;
use alloc::vec::Vec;
use auto_impl::auto_impl;
use penstock_core::tcp::TimeoutRecord;
use penstock_core::{FlowId, Packet, Report, Transition};
use penstock_fabric::{Arena, Cell};
use penstock_units::{Dur, Rate, Time};

/// What has arrived at a host, by the work that it causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A packet without payload, such as an ACK.
    Bare,
    /// A packet with payload.
    Data,
    /// A packet with payload that is answered with a duplicate ACK ([`crate::ApplicationReads::dupack`]). A kernel wakes no
    /// process for it.
    DupAck,
}

/// What a network card needs of its driver.
pub trait Net {
    /// Segments.
    fn arena(&mut self) -> &mut Arena;
    /// Offers a packet to the host's own port, at a time that may lie before the driver's own. Returns when the port can take
    /// the next one ([`penstock_fabric::Port::free_at`]); `None` = the packet is lost there.
    fn transmit(&mut self, at: Time, port: u32, cell: Cell) -> Option<Time>;
    /// A stack has reported an event at `at`. The driver acts on it after the call.
    fn tell(&mut self, at: Time, stack_events: StackEvent);
    /// Time at which a host sees a packet, with payload (`data`) or without, that is due there at `at`. `at` never
    /// decreases. Cards ask after [`crate::Nic::ask_when_seen`].
    fn seen_at(&mut self, at: Time, data: bool) -> Time {
        let _ = data;
        at
    }
    /// Time that the host with that output port takes for a packet of that kind, besides [`crate::NicConfig::processing`]. Cards ask
    /// after [`crate::Nic::ask_when_seen`].
    fn turn(&mut self, port: u32, kind: Kind) -> Dur {
        let _ = (port, kind);
        Dur::ZERO
    }
    /// Time from the data that the host with that output port has seen to its application's read. Cards ask after
    /// [`crate::Nic::wait_for_applications`].
    fn application_lag(&mut self, port: u32) -> Dur {
        let _ = port;
        Dur::ZERO
    }
    /// Time from a read to the answer that it releases. Cards ask after [`crate::Nic::wait_for_applications`].
    fn application_turn(&mut self, port: u32) -> Dur {
        let _ = port;
        Dur::ZERO
    }
    /// Time at which a host does what it would do at `at`, for a packet or a timer. Cards ask after [`crate::Nic::ask_when_seen`].
    fn awake_at(&self, at: Time) -> Time {
        at
    }
    /// Time at which a timer goes off that is due at `at`. Cards ask once for each, after [`crate::Nic::ask_when_seen`].
    fn timer_at(&mut self, at: Time) -> Time {
        at
    }
}

/// Surroundings of a call of a stack.
pub struct Io<'a> {
    /// Time of the call.
    pub now: Time,
    /// Segments. The stack takes slots for what it sends and frees those of what it received.
    pub arena: &'a mut Arena,
    /// Events for the driver, which acts on them after the call.
    pub stack_events: &'a mut Vec<StackEvent>,
    /// Priorities that the other end of the host's link has paused, one bit each. [`Stack::poll_transmit`] must not hand
    /// out a packet of these.
    pub paused: u8,
    /// Time for which the packet in [`Stack::receive`] has waited for the host's processor since it reached the card.
    pub waited: Dur,
}

/// Surroundings of a call that may send at once ([`FastPath`]).
pub struct Exchange<'a, N> {
    /// Time of the call.
    pub now: Time,
    /// The host's port.
    pub port: u32,
    /// As [`Io::paused`].
    pub paused: u8,
    /// As [`Io::stack_events`].
    pub stack_events: &'a mut Vec<StackEvent>,
    /// The network.
    pub net: &'a mut N,
}

impl<N: Net> Exchange<'_, N> {
    /// The surroundings of an ordinary call.
    pub fn io(&mut self) -> Io<'_> {
        let Exchange { now, paused, stack_events, net, .. } = self;
        Io { now: *now, arena: net.arena(), stack_events, paused: *paused, waited: Dur::ZERO }
    }
}

/// A part of the memory that a packet touches at an end of a connection. Each part holds the address of the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The end's place in the stack's table.
    Place,
    /// The end itself.
    End,
    /// Memory that the end owns, such as the state of its window law.
    Inside,
}

/// What is left to do after a call that may send at once ([`FastPath`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exchanged {
    /// Nothing.
    Done,
    /// The stack may have an earlier timer than before.
    Armed,
    /// The driver acts on events first. Then the card sends, as after any other call.
    Told,
}

/// A connection, or a message on its own, as the driver announces it to both ends. The default has no deadline and
/// belongs to no set of applications: `Opening { flow, src, dst, ..Opening::default() }`.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// Its number in the run, never used again.
    pub flow: FlowId,
    /// Its identity, whatever else is opened in the run. Its random streams follow from this.
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
    /// Entropy of its packets towards the sender.
    pub back: u32,
    /// Which of the stack's protocols, where a stack has several.
    pub protocol: u32,
    /// Set of applications at `src` under one host controller; [`Opening::ALONE`] = none.
    pub group: u32,
    /// The switch that `dst` is attached to, by the driver's count. Host controllers tell flows apart by it.
    pub router: u32,
}

impl Opening {
    /// Under no host controller.
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

/// An event that a stack reports to its driver.
#[derive(Clone, Copy, Debug)]
pub enum StackEvent {
    /// The sender knows that everything up to byte `end`, the end of a write, was delivered.
    Acked {
        /// The connection.
        flow: FlowId,
        /// One past the last byte.
        end: u64,
    },
    /// The receiver has handed everything up to byte `end`, the end of a write, to the application. Packets carry the
    /// ends of writes ([`Packet::write_end`]).
    Delivered {
        /// The connection.
        flow: FlowId,
        /// One past the last byte.
        end: u64,
    },
    /// The sending end is over: nothing is owed and nothing will be sent. The driver removes both ends.
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
        /// Its kind and circumstances.
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

/// Totals of one connection since it was opened. An end has 0 for what it does not know.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Bytes written by the application and not dropped since (sender).
    pub accepted_bytes: u64,
    /// Bytes known to be delivered (sender).
    pub acked_bytes: u64,
    /// Bytes handed to the application, in order where the transport promises it (receiver).
    pub delivered_bytes: u64,
    /// Payload bytes that arrived in any order, each counted once (receiver).
    pub arrived_bytes: u64,
    /// Payload bytes that arrived more than once (receiver).
    pub duplicate_bytes: u64,
    /// Data packets sent, retransmissions included.
    pub data_packets: u64,
    /// Retransmissions.
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

/// Which of a host's connections sends next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// In turn, a packet each.
    #[default]
    RoundRobin,
    /// The one opened first, as long as it has something to send.
    Strict,
}

/// Properties of a host that its stacks are built from.
#[derive(Clone, Copy, Debug)]
pub struct HostFacts {
    /// Position of the host.
    pub host: u32,
    /// Rate of its link at the beginning ([`Stack::set_link_rate`]).
    pub rate: Rate,
    /// Propagation delay of its link.
    pub delay: Dur,
    /// Smallest round-trip time that the scenario promises.
    pub base_rtt: Dur,
    /// Time in which the memory of the switches on the longest path drains at the slowest of their ports. It bounds the
    /// wait of a packet beyond [`Self::base_rtt`]. Zero = not known, or without limit.
    pub longest_wait: Dur,
    /// Rate at which hosts can send over the rate that the tiers of switches above them can carry, at least 1.
    pub oversubscription: f64,
    /// Largest payload of a packet in bytes.
    pub mss: u32,
    /// Bytes of framing that a link adds to every packet.
    pub framing: u32,
    /// Which connection sends next.
    pub order: Order,
    /// Seed of the run. Random streams follow from it, from [`Self::run`] and from [`Opening::key`].
    pub seed: u64,
    /// Number of the replication.
    pub run: u64,
}

/// A transport at one host.
///
/// | methods | called |
/// |---|---|
/// | `open`, `accept`, `set_peer`, `write`, `close`, `abort`, `remove` | by applications, through the driver |
/// | `receive`, `poll_transmit`, `on_departure`, `ready_at`, `set_link_rate` | by the network card, for packets and its link |
/// | `next_timer`, `on_timer` | by the network card, for time |
/// | `queued`, `counters`, `missing_below`, `observe`, `prefetch` | for records and speed; they change nothing |
///
/// A call may take slots of the arena, free them, and report events; it sends nothing. [`Self::poll_transmit`] sends,
/// and reports no events. The stack of a transport with messages is a [`crate::MessageStack`], which needs only its law.
#[auto_impl(Box)]
pub trait Stack: Send {
    /// Makes the sending end of a connection, with handle `opening.at_src`; it begins to connect if the transport does.
    /// Then [`Self::write`] of `bytes` if above 0, and [`Self::close`] if `close`.
    fn open(&mut self, io: &mut Io<'_>, opening: &Opening, bytes: u64, close: bool);
    /// Makes the receiving end, with handle `opening.at_dst`. The first packet of the connection has arrived, and
    /// [`Self::receive`] follows.
    fn accept(&mut self, io: &mut Io<'_>, opening: &Opening);
    /// The receiving end of the connection whose sending end is `conn` has handle `peer`. Packets name it from now on.
    /// The call changes no result, and may come late.
    fn set_peer(&mut self, conn: u32, peer: u32);
    /// The application writes `bytes` to a sending end; `u64::MAX / 4` = without end.
    fn write(&mut self, io: &mut Io<'_>, conn: u32, bytes: u64);
    /// The application writes nothing more to a sending end.
    fn close(&mut self, io: &mut Io<'_>, conn: u32);
    /// The application of a sending end goes away: sent data is delivered, data not yet sent is dropped.
    fn abort(&mut self, io: &mut Io<'_>, conn: u32);
    /// Removes an end, sending or receiving. Its handle will be used again.
    fn remove(&mut self, io: &mut Io<'_>, conn: u32);

    /// A packet has arrived. Its slot belongs to the stack.
    fn receive(&mut self, io: &mut Io<'_>, cell: &Cell);
    /// Hands out the next packet, with [`Cell::to`] set to its destination; `None` = nothing may be sent now. With `conn`
    /// only a packet of that connection: asked where the queue below the transport is endless, so that an action of the
    /// application is carried out before the next one.
    fn poll_transmit(&mut self, io: &mut Io<'_>, conn: Option<u32>) -> Option<Cell>;
    /// Time from which [`Self::poll_transmit`] may have a packet of a priority that is not `paused` (bits as in
    /// [`Io::paused`]): `now` or earlier, a later time (pacing), or [`Time::NEVER`] (until the next call). It may be too
    /// early, never too late. If [`Self::poll_transmit`] answers `None` at or after this time, the stack is not asked
    /// again before the next call.
    fn ready_at(&self, paused: u8) -> Time;
    /// The packet that was handed out last leaves the host at `at`. Called where the queue below is endless.
    #[inline]
    fn on_departure(&mut self, at: Time) {
        let _ = at;
    }
    /// The host's link has another rate from now on. Called only where the queue below is not endless.
    fn set_link_rate(&mut self, io: &mut Io<'_>, rate: Rate) {
        let _ = (io, rate);
    }

    /// Time of the next call of [`Self::on_timer`]; [`Time::NEVER`] = no timer is set.
    fn next_timer(&self) -> Time;
    /// The time of [`Self::next_timer`] has come. Handles all timers that are due, or the first of them.
    fn on_timer(&mut self, io: &mut Io<'_>);

    /// Packets that it has made and that the card has not taken yet. They hold slots of the arena.
    fn queued(&self) -> u64 {
        0
    }
    /// Totals of an end.
    fn counters(&self, conn: u32) -> Counters;
    /// Bytes below `end` that have not arrived at a receiving end. Records tell needless retransmissions by it; a
    /// protocol must not use it.
    fn missing_below(&self, conn: u32, end: u64) -> u64 {
        let _ = (conn, end);
        0
    }
    /// Reports internal values of an end by their declarations, such as `quantity::CWND`.
    fn observe(&self, conn: u32, report: &mut Report<'_>) {
        let _ = (conn, report);
    }
    /// Asks the processor to fetch what a packet for the end with handle `conn` will touch, and does nothing else.
    #[inline]
    fn prefetch(&self, conn: u32, part: Part) {
        let _ = (conn, part);
    }
}

/// Receivers whose applications read late, where a driver has them take their time
/// ([`crate::Nic::wait_for_applications`]). The defaults are those of a transport whose applications read at once.
pub trait ApplicationReads: Stack {
    /// A receiving end has unread data, and reading it would matter to the transport.
    fn unread(&self) -> bool {
        false
    }
    /// The applications of this host read all that has arrived. True if that makes an answer due ([`Self::reply`]).
    fn read(&mut self) -> bool {
        false
    }
    /// The answers to the last read are to leave.
    fn reply(&mut self) {}
    /// A receiving end would answer a packet that arrives now with a duplicate ACK: the packet lies behind a gap, or has
    /// arrived before.
    fn dupack(&self, conn: u32, packet: &Packet) -> bool {
        let _ = (conn, packet);
        false
    }
}

/// Calls that lookahead windows by host need for speed. Each has the effect of several calls of [`Stack`], which are the
/// defaults. TCP over an endless queue has shorter ways to it.
pub trait FastPath: ApplicationReads + Sized {
    /// [`Stack::receive`], and at once what leaves in answer, if the queue below is endless and nothing else waits.
    #[inline]
    fn receive_and_send<N: Net>(&mut self, io: &mut Exchange<'_, N>, cell: &Cell) -> Exchanged {
        self.receive(&mut io.io(), cell);
        Exchanged::Told
    }
    /// [`Stack::on_timer`], and at once what leaves by it, under the same conditions.
    #[inline]
    fn on_timer_and_send<N: Net>(&mut self, io: &mut Exchange<'_, N>) -> Exchanged {
        self.on_timer(&mut io.io());
        Exchanged::Told
    }
    /// Sends all that [`Stack::poll_transmit`] has, where the queue below is endless.
    #[inline]
    fn transmit_all<N: Net>(&mut self, io: &mut Exchange<'_, N>, conn: Option<u32>) {
        poll_all(self, io, conn);
    }
    /// Drops timers of connections that are over. A driver calls it only if a call of the stack by such a timer would
    /// have no effect on results.
    #[inline]
    fn drop_stale_timers(&mut self) {}
}

/// [`FastPath::transmit_all`] packet by packet.
pub(crate) fn poll_all<S: Stack, N: Net>(stack: &mut S, io: &mut Exchange<'_, N>, conn: Option<u32>) {
    while let Some(cell) = stack.poll_transmit(&mut io.io(), conn) {
        if let Some(at) = io.net.transmit(io.now, io.port, cell) {
            stack.on_departure(at);
        }
    }
    debug_assert!(io.stack_events.is_empty(), "a transmission reports no events");
}

impl<S: Stack + ?Sized> ApplicationReads for Box<S> {}
impl<S: Stack + ?Sized> FastPath for Box<S> {}
