//! The network card of a host asks its stacks for packets when the link can take one, and replays what was due since its
//! last call.
//!
//! # When it asks
//!
//! The link can take a packet at the departure of the one before, at `t_k`. That is no event. Every call first replays what
//! was due before it, in order of time: transmissions, and timers that a replayed transmission has set. The result is that
//! of transmissions at their own times:
//!
//! 1. Anything that could change a choice at the host comes by a call. Between two calls a transmission therefore sees what
//!    it would have seen at its own time.
//! 2. The packet handed out at `t_k` is behind the one that left at `t_k` on the same wire, so it is needed no earlier than
//!    that one arrives. This arrival is the port's announced event, and the driver calls [`Nic::advance`] before it takes the
//!    packet off.
//!
//! The card needs an event of its own only if nothing is on the wire when a paced stack may go on. [`Nic::next_timer`] has its
//! time, together with the stacks' own timers. One event per packet and link stays.
//!
//! At one instant transmissions come first: a packet that arrives at `t_k` is not seen by the transmission at `t_k`, as in a
//! port that schedules.
//!
//! # What a driver does
//!
//! - an event of the host's own port: [`Nic::advance`], then the event;
//! - a packet for the host: [`Nic::receive`];
//! - an action of the application: [`Nic::open`] and its like;
//! - the time of [`Nic::next_timer`]: [`Nic::on_timer`].
//!
//! After each of them the driver takes the events, acts on them, calls [`Nic::transmit`], and looks at [`Nic::next_timer`] again.
//! Calls may be nested, as by an application that writes when its last write is acknowledged.
//!
//! # Endless queue
//!
//! Where hosts have an endless queue below the transport ([`NicConfig::endless`]), the card does not wait for the link: it
//! asks until the answer is `None`. The packets of a connection follow an action on it at once; [`Nic::transmit`] sends those of
//! all others.
//!
//! Above 600 lines: transmissions, timers and the endless queue are one order of events, argued for above.

use crate::stack::{Counters, Exchange, Exchanged, FastPath, Io, Opening, Part, Stack, StackEvent};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::mem::offset_of;
use penstock_core::{Report, Stream};
use penstock_fabric::{Arena, Cell};
use penstock_units::{Bytes, Dur, Rate, Time};

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
    /// decreases. Cards ask after [`Nic::ask_when_seen`].
    fn seen_at(&mut self, at: Time, data: bool) -> Time {
        let _ = data;
        at
    }
    /// Time that the host with that output port takes for a packet of that kind, besides [`NicConfig::processing`]. Cards ask
    /// after [`Nic::ask_when_seen`].
    fn turn(&mut self, port: u32, kind: Kind) -> Dur {
        let _ = (port, kind);
        Dur::ZERO
    }
    /// Time from the data that the host with that output port has seen to its application's read. Cards ask after
    /// [`Nic::wait_for_applications`].
    fn application_lag(&mut self, port: u32) -> Dur {
        let _ = port;
        Dur::ZERO
    }
    /// Time from a read to the answer that it releases. Cards ask after [`Nic::wait_for_applications`].
    fn application_turn(&mut self, port: u32) -> Dur {
        let _ = port;
        Dur::ZERO
    }
    /// Time at which a host does what it would do at `at`, for a packet or a timer. Cards ask after [`Nic::ask_when_seen`].
    fn awake_at(&self, at: Time) -> Time {
        at
    }
    /// Time at which a timer goes off that is due at `at`. Cards ask once for each, after [`Nic::ask_when_seen`].
    fn timer_at(&mut self, at: Time) -> Time {
        at
    }
}

/// What a network card is made of.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NicConfig {
    /// The host's output port. It is a plain FIFO, as the card has chosen the order, and must not share a buffer.
    pub port: u32,
    /// Rate of the port.
    pub rate: Rate,
    /// Propagation delay of the port's link.
    pub delay: Dur,
    /// Bytes of framing that the link adds to every packet.
    pub framing: u32,
    /// The queue below the transport is endless.
    pub endless: bool,
    /// Time from a packet's arrival to its stack.
    pub receive_delay: Dur,
    /// Time that the host takes for a packet that has arrived, one at a time, before its stack sees it.
    pub processing: Dur,
}

/// A packet on its way through the host.
#[derive(Clone, Copy, Debug)]
struct Inside {
    /// When its stack sees it.
    at: Time,
    cell: Cell,
    /// Time from its arrival to then.
    waited: Dur,
    /// Time from the moment at which the host sees it to then.
    seen: Dur,
}

/// When the applications of a host read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Applications {
    /// They read at once.
    Prompt,
    /// There is nothing to read.
    Idle,
    /// They read then.
    Come(Time),
    /// They have read, and the answers leave then.
    Reply(Time),
}

#[repr(C)]
struct StackSlot<S> {
    /// It had nothing at a time of [`crate::Stack::ready_at`]: not asked again before the next call.
    dry: bool,
    stack: S,
}

/// The stacks of a host. The first, mostly the only one, is in place, so a packet needs no pointer to it.
#[repr(C)]
struct StackSlots<S> {
    first: StackSlot<S>,
    others: Vec<StackSlot<S>>,
}

impl<S> StackSlots<S> {
    #[inline(always)]
    fn len(&self) -> usize {
        1 + self.others.len()
    }
    #[inline(always)]
    fn at(&self, i: usize) -> &StackSlot<S> {
        if i == 0 {
            &self.first
        } else {
            &self.others[i - 1]
        }
    }
    #[inline(always)]
    fn at_mut(&mut self, i: usize) -> &mut StackSlot<S> {
        if i == 0 {
            &mut self.first
        } else {
            &mut self.others[i - 1]
        }
    }
    #[inline(always)]
    fn iter(&self) -> impl Iterator<Item = &StackSlot<S>> {
        core::iter::once(&self.first).chain(&self.others)
    }
}

/// Consecutive calls at one instant after which a stack is taken to make no progress.
const STUCK: u32 = 1 << 22;

/// The network card of a host, with the host's stacks. Fields are in the order of use: a packet that is answered at once
/// touches the first lines of memory, up to the first stack.
#[repr(C)]
pub struct Nic<S = Box<dyn Stack>> {
    /// A packet is answered in the call of its arrival: one stack, no delay, an endless queue.
    direct: bool,
    /// [`Self::next`] is up to date.
    fresh: bool,
    paused: u8,
    up: bool,
    /// A stack sees a packet at its arrival.
    at_once: bool,
    /// Time of the last call.
    now: Time,
    /// Times of the next transmission and the next timer, as of the last [`Self::transmit`].
    next: (Time, Time),
    /// Time at which a late timer goes off; `ZERO` = none is late.
    timer_at: Time,
    stack_events: Vec<StackEvent>,
    config: NicConfig,
    slots: StackSlots<S>,
    /// When the link can take a packet; stays in the past where the queue is endless.
    free_at: Time,
    /// An event of the port is sure to come by then.
    covered: Time,
    /// Stack of each handle; used with several stacks only.
    stack_of: Vec<u8>,
    /// The stack that is asked next.
    turn: usize,
    /// Largest extra delay of packets, and the stream that it is drawn from.
    jitter: Option<(Dur, Stream)>,
    /// Packets on their way through the host, in the order in which stacks see them.
    inbox: VecDeque<Inside>,
    applications: Applications,
}

impl Applications {
    /// Time of their next action.
    #[inline(always)]
    fn due(self) -> Time {
        match self {
            Applications::Prompt | Applications::Idle => Time::NEVER,
            Applications::Come(at) | Applications::Reply(at) => at,
        }
    }
}

/// Most stacks of a host.
pub const MOST_STACKS: usize = 255;

impl<S: FastPath> Nic<S> {
    /// Bytes of the card before its first stack. Every call touches them.
    pub const BEFORE_STACK: usize = offset_of!(Self, slots) + offset_of!(StackSlot<S>, stack);
    /// A card for `stacks`, one per transport of the host.
    pub fn new(config: NicConfig, stacks: Vec<S>) -> Nic<S> {
        assert!(!stacks.is_empty() && stacks.len() <= MOST_STACKS, "a host has 1 to {MOST_STACKS} stacks");
        let at_once = config.receive_delay == Dur::ZERO && config.processing == Dur::ZERO;
        let direct = config.endless && at_once && stacks.len() == 1;
        let mut row = stacks.into_iter().map(|stack| StackSlot { stack, dry: false });
        let slots = StackSlots { first: row.next().expect("there is one"), others: row.collect() };
        Nic {
            slots,
            stack_of: Vec::new(),
            turn: 0,
            now: Time::ZERO,
            free_at: Time::ZERO,
            covered: Time::ZERO,
            timer_at: Time::ZERO,
            paused: 0,
            up: true,
            config,
            at_once,
            jitter: None,
            inbox: VecDeque::new(),
            applications: Applications::Prompt,
            stack_events: Vec::new(),
            direct,
            next: (Time::NEVER, Time::NEVER),
            fresh: false,
        }
    }
    /// Stacks see every packet later by an extra delay, uniform from 0 to `most`, in order.
    pub fn set_receive_jitter(&mut self, most: Dur, stream: Stream) {
        if most > Dur::ZERO {
            self.jitter = Some((most, stream));
            (self.at_once, self.direct) = (false, false);
        }
    }
    /// The driver decides when stacks see a packet ([`Net::seen_at`]). The order stays.
    pub fn ask_when_seen(&mut self) {
        (self.at_once, self.direct) = (false, false);
    }
    /// The driver decides when applications read ([`Net::application_lag`]) and when their answers leave
    /// ([`Net::application_turn`]).
    pub fn wait_for_applications(&mut self) {
        self.ask_when_seen();
        self.applications = Applications::Idle;
    }
    /// The event of the port at which the driver calls [`Self::advance`] is a packet's departure, not its arrival at the other end of the link.
    pub fn hand_over_departures(&mut self) {
        self.config.delay = Dur::ZERO;
    }
    /// Configuration.
    pub fn config(&self) -> &NicConfig {
        &self.config
    }
    /// Stack `i`.
    pub fn stack(&self, i: usize) -> &S {
        &self.slots.at(i).stack
    }
    /// Packets that have arrived and that no stack has seen yet.
    pub fn packets_inside(&self) -> usize {
        self.inbox.len()
    }
    /// Packets that have arrived and that no stack has seen yet, and packets that stacks have made and the card has not taken.
    pub fn packets_held(&self) -> u64 {
        self.inbox.len() as u64 + self.slots.iter().map(|slot| slot.stack.queued()).sum::<u64>()
    }
    /// The packet that a stack sees next of those that have arrived, if its time has come.
    #[inline]
    pub fn first_inside(&self, now: Time) -> Option<&Cell> {
        if self.at_once {
            return None;
        }
        self.inbox.front().filter(|inside| inside.at <= now).map(|inside| &inside.cell)
    }
    /// Priorities that are paused, a bit each.
    pub fn paused(&self) -> u8 {
        self.paused
    }
    /// The stack that has `handle`.
    #[inline]
    fn slot(&self, handle: u32) -> usize {
        if self.slots.len() == 1 {
            0
        } else {
            usize::from(self.stack_of.get(handle as usize).copied().unwrap_or(0))
        }
    }
    /// The end with `handle` belongs to stack `slot`.
    fn place(&mut self, handle: u32, slot: usize) {
        assert!(slot < self.slots.len(), "stack {slot} of {}", self.slots.len());
        if self.slots.len() > 1 {
            let i = handle as usize;
            if self.stack_of.len() <= i {
                self.stack_of.resize(i + 1, 0);
            }
            self.stack_of[i] = slot as u8;
        }
    }

    // ---- replay ------------------------------------------------------------------------------------------

    /// When the next pull is due.
    #[inline]
    fn next_pull(&self) -> Time {
        let mut ready = Time::NEVER;
        for slot in self.slots.iter() {
            if !slot.dry {
                ready = ready.min(slot.stack.ready_at(self.paused));
            }
        }
        if ready == Time::NEVER || !self.up {
            return Time::NEVER;
        }
        ready.max(self.free_at).max(self.now)
    }
    #[inline]
    fn next_due(&self) -> (Time, usize) {
        let mut first = (Time::NEVER, 0);
        for (i, slot) in self.slots.iter().enumerate() {
            let at = slot.stack.next_timer();
            if at < first.0 {
                first = (at, i);
            }
        }
        first
    }
    /// Calls a stack.
    #[inline]
    fn call<N: Net, T>(
        &mut self,
        at: Time,
        i: usize,
        net: &mut N,
        act: impl FnOnce(&mut S, &mut Io<'_>) -> T,
    ) -> T {
        self.call_late(at, i, Dur::ZERO, net, act)
    }
    /// Calls a stack for a packet that has `waited` for the host's processor.
    #[inline]
    fn call_late<N: Net, T>(
        &mut self,
        at: Time,
        i: usize,
        waited: Dur,
        net: &mut N,
        act: impl FnOnce(&mut S, &mut Io<'_>) -> T,
    ) -> T {
        debug_assert!(at >= self.now, "a call at {at} after one at {}", self.now);
        self.now = at;
        self.fresh = false;
        let slot = self.slots.at_mut(i);
        slot.dry = false;
        let mut io = Io {
            now: at,
            arena: net.arena(),
            stack_events: &mut self.stack_events,
            paused: self.paused,
            waited,
        };
        let answer = act(&mut slot.stack, &mut io);
        if !self.stack_events.is_empty() {
            self.stack_events.drain(..).for_each(|stack_events| net.tell(at, stack_events));
        }
        answer
    }
    /// Asks the stacks in turn for a packet at `t`, and sends it.
    #[inline]
    fn pull<N: Net>(&mut self, t: Time, net: &mut N) {
        let n = self.slots.len();
        for k in 0..n {
            let i = if n == 1 { 0 } else { (self.turn + k) % n };
            let slot = self.slots.at(i);
            if slot.dry || slot.stack.ready_at(self.paused) > t {
                continue;
            }
            let Some(cell) = self.call(t, i, net, |s, io| s.poll_transmit(io, None)) else {
                let slot = self.slots.at_mut(i);
                slot.dry = slot.stack.ready_at(self.paused) <= t;
                continue;
            };
            self.turn = if n == 1 { 0 } else { (i + 1) % n };
            self.send(t, cell, net);
            return;
        }
    }
    #[inline]
    fn send<N: Net>(&mut self, t: Time, cell: Cell, net: &mut N) {
        match net.transmit(t, self.config.port, cell) {
            Some(at) => {
                self.free_at = at;
                self.covered = at + self.config.delay;
            }
            // It is lost on the link, which it occupied.
            None => self.free_at = t + Bytes(u64::from(cell.bytes + self.config.framing)) / self.config.rate,
        }
    }
    /// Sends all that stack `i` has, or one connection of it, where the queue is endless.
    #[inline(always)]
    fn send_out<N: Net>(&mut self, now: Time, i: usize, conn: Option<u32>, net: &mut N) {
        let Nic { slots, stack_events, paused, config, .. } = self;
        let mut io = Exchange { now, port: config.port, paused: *paused, stack_events, net };
        slots.at_mut(i).stack.transmit_all(&mut io, conn);
    }
    /// Replays everything that was due: transmissions up to and including `now`, timers before it.
    fn replay<N: Net>(&mut self, now: Time, net: &mut N) {
        let mut at_once = (Time::ZERO, 0);
        loop {
            let pull = self.next_pull();
            let (deadline, i) = self.next_due();
            let t = pull.min(deadline.max(self.now));
            if pull > now && deadline >= now {
                return;
            }
            at_once = if at_once.0 == t { (t, at_once.1 + 1) } else { (t, 0) };
            assert!(
                at_once.1 < STUCK,
                "a stack of the host at port {} makes no progress at {t}",
                self.config.port
            );
            if pull <= deadline {
                self.pull(pull, net);
            } else {
                self.call(t, i, net, |s, io| s.on_timer(io));
            }
        }
    }

    // ---- what a driver calls -----------------------------------------------------------------------------

    /// Replays what was due. Called before an event of the host's port, and before anything about the host is read.
    #[inline]
    pub fn advance<N: Net>(&mut self, now: Time, net: &mut N) {
        // An endless queue has been given everything, and every timer is an event.
        let due = !self.fresh || self.next.0 <= now || self.next.1 < now;
        if due && !self.config.endless {
            self.replay(now, net);
            self.now = now;
        }
    }
    /// Sends what may be sent now. Called after every other call, when the driver has acted on its events.
    #[inline]
    pub fn transmit<N: Net>(&mut self, now: Time, net: &mut N) {
        if self.fresh && self.next.0 > now {
            return;
        }
        self.now = now;
        if self.direct {
            if !self.has_nothing() {
                self.send_out(now, 0, None, net);
            }
            if self.has_nothing() {
                self.slots.first.dry = false;
                (self.next, self.fresh) = ((Time::NEVER, self.slots.first.stack.next_timer()), true);
                return;
            }
        }
        if self.config.endless {
            for i in 0..self.slots.len() {
                self.send_out(now, i, None, net);
                let slot = self.slots.at_mut(i);
                slot.dry = slot.stack.ready_at(self.paused) <= now;
            }
        }
        loop {
            let pull = self.next_pull();
            if pull > now {
                self.next = (pull, self.next_due().0);
                self.fresh = true;
                return;
            }
            self.pull(pull, net);
        }
    }
    /// It has one stack above an endless queue, and nothing to send.
    #[inline(always)]
    pub fn has_nothing(&self) -> bool {
        self.direct && self.slots.first.stack.ready_at(self.paused) == Time::NEVER
    }
    /// Time of the next call of [`Self::on_timer`]; [`Time::NEVER`] = not before something else happens here.
    #[inline(always)]
    pub fn next_timer(&self) -> Time {
        if self.has_nothing() {
            // One stack, whose timer is all that it waits for.
            return self.slots.first.stack.next_timer().max(self.timer_at);
        }
        self.next_timer_of_several()
    }
    /// [`Self::next_timer`] just after [`Self::transmit`], which has found it.
    #[inline(always)]
    pub fn next_timer_after_transmit(&self) -> Time {
        debug_assert!(self.fresh);
        if self.direct && self.next.0 == Time::NEVER {
            return self.next.1.max(self.timer_at);
        }
        self.next_timer()
    }
    #[inline(never)]
    fn next_timer_of_several(&self) -> Time {
        let (pull, mut at) = if self.fresh { self.next } else { (self.next_pull(), self.next_due().0) };
        at = at.max(self.timer_at);
        if let Some(inside) = self.inbox.front() {
            at = at.min(inside.at);
        }
        at = at.min(self.applications.due());
        if pull > self.covered {
            at = at.min(pull);
        }
        at
    }
    /// The time of [`Self::next_timer`] has come. Handles the first thing that is due; others stay due.
    pub fn on_timer<N: Net>(&mut self, now: Time, net: &mut N) {
        self.advance(now, net);
        if self.inbox.front().is_some_and(|inside| inside.at <= now) {
            let Inside { cell, waited, seen, .. } = self.inbox.pop_front().expect("just looked");
            self.hand_over(now, &cell, waited, net);
            self.call_applications(now - seen, net);
            return;
        }
        if self.applications.due() <= now {
            return self.go_on_with_applications(now, net);
        }
        let (at, i) = self.next_due();
        if at <= now {
            self.call(now, i, net, |s, io| s.on_timer(io));
        }
    }
    /// A packet for the end with handle `conn` arrives soon; see [`Stack::prefetch`].
    #[inline(always)]
    pub fn prefetch(&self, conn: u32, part: Part) {
        if self.direct {
            // The number of stacks lies behind the first one.
            return self.slots.first.stack.prefetch(conn, part);
        }
        self.slots.at(self.slot(conn)).stack.prefetch(conn, part);
    }
    /// [`Self::receive`] and [`Self::transmit`] in one, where the driver has nothing to do in between. The driver goes on as after
    /// any other call with [`Exchanged::Told`], and only looks at [`Self::next_timer`] with [`Exchanged::Armed`].
    #[inline(always)]
    pub fn receive_and_send<N: Net>(&mut self, now: Time, cell: &Cell, net: &mut N) -> Exchanged {
        if !self.direct {
            self.receive(now, cell, net);
            return Exchanged::Told;
        }
        let Nic { slots, stack_events, paused, config, .. } = self;
        let mut io = Exchange { now, port: config.port, paused: *paused, stack_events, net };
        let done = slots.first.stack.receive_and_send(&mut io, cell);
        self.close_call(now, done, net)
    }
    /// [`Self::on_timer`] and [`Self::transmit`] in one, under the conditions of [`Self::receive_and_send`].
    #[inline(always)]
    pub fn on_timer_and_send<N: Net>(&mut self, now: Time, net: &mut N) -> Exchanged {
        if !self.direct || self.slots.first.stack.next_timer() > now {
            if self.goes_off(now, net) {
                self.on_timer(now, net);
            }
            return Exchanged::Told;
        }
        let Nic { slots, stack_events, paused, config, .. } = self;
        let mut io = Exchange { now, port: config.port, paused: *paused, stack_events, net };
        let done = slots.first.stack.on_timer_and_send(&mut io);
        self.close_call(now, done, net)
    }
    /// True if the host is awake and a packet's time has come or a timer goes off. A late timer goes off with the timers that
    /// have become due meanwhile.
    fn goes_off<N: Net>(&mut self, now: Time, net: &mut N) -> bool {
        // A card that waits for its link sends at the link's times: a late call would send packets in the past.
        if !self.config.endless {
            return true;
        }
        if net.awake_at(now) > now {
            return false;
        }
        if self.inbox.front().is_some_and(|inside| inside.at <= now) || self.applications.due() <= now {
            return true;
        }
        if self.timer_at == Time::ZERO {
            self.timer_at = net.timer_at(now);
        }
        let goes_off = self.timer_at <= now;
        if goes_off {
            self.timer_at = Time::ZERO;
        }
        goes_off
    }
    /// A stack was called and has sent what it had. Hands its events on.
    #[inline(always)]
    fn close_call<N: Net>(&mut self, now: Time, done: Exchanged, net: &mut N) -> Exchanged {
        self.slots.first.dry = false;
        self.now = now;
        self.fresh = false;
        if done == Exchanged::Told {
            self.stack_events.drain(..).for_each(|stack_events| net.tell(now, stack_events));
        }
        done
    }
    /// A packet for this host has arrived. Its segment names the handle of its end.
    #[inline]
    pub fn receive<N: Net>(&mut self, now: Time, cell: &Cell, net: &mut N) {
        self.advance(now, net);
        if self.at_once {
            return self.hand_over(now, cell, Dur::ZERO, net);
        }
        let noise = self.jitter.as_mut().map_or(Dur::ZERO, |(most, stream)| stream.dur_below(*most));
        let before = self.inbox.back().map_or(Time::ZERO, |last| last.at);
        let packet = &net.arena().packets[cell.packet as usize];
        let conn = packet.conn();
        let kind = match packet.payload > 0 {
            true if self.slots.at(self.slot(conn)).stack.dupack(conn, packet) => Kind::DupAck,
            true => Kind::Data,
            false => Kind::Bare,
        };
        let seen = net.seen_at(now + self.config.receive_delay, kind != Kind::Bare);
        // A kernel's time for a packet is no queue: an interrupt takes all packets that are there by then. A packet that
        // arrives meanwhile is late by its own time or seen with the other, so a host lags by its longest time at most.
        let at = before.max(seen + noise + net.turn(self.config.port, kind)) + self.config.processing;
        self.inbox.push_back(Inside { at, cell: *cell, waited: at.since(now), seen: at.since(seen) });
    }
    /// Data that a host has seen at `seen` may be the first that its applications have to read.
    fn call_applications<N: Net>(&mut self, seen: Time, net: &mut N) {
        if self.applications == Applications::Idle && self.slots.iter().any(|slot| slot.stack.unread()) {
            self.applications =
                Applications::Come(self.now.max(seen + net.application_lag(self.config.port)));
        }
    }
    /// Applications read, or the answers to what they have read leave.
    fn go_on_with_applications<N: Net>(&mut self, now: Time, net: &mut N) {
        let reads = matches!(self.applications, Applications::Come(_));
        self.applications = Applications::Idle;
        if reads {
            let mut answers = false;
            for i in 0..self.slots.len() {
                answers |= self.call(now, i, net, |s, _| s.read());
            }
            if answers {
                self.applications = Applications::Reply(now + net.application_turn(self.config.port));
            }
            return;
        }
        for i in 0..self.slots.len() {
            self.call(now, i, net, |s, _| s.reply());
        }
        // Data may have arrived meanwhile.
        self.call_applications(now, net);
    }
    #[inline]
    fn hand_over<N: Net>(&mut self, now: Time, cell: &Cell, waited: Dur, net: &mut N) {
        let mut i = 0;
        if self.slots.len() > 1 {
            i = self.slot(net.arena().packets[cell.packet as usize].conn());
        }
        self.call_late(now, i, waited, net, |s, io| s.receive(io, cell));
    }
    /// The other end of the link pauses a priority of this host (PFC), or resumes it.
    pub fn pause<N: Net>(&mut self, now: Time, priority: u8, on: bool, net: &mut N) {
        self.advance(now, net);
        self.now = now;
        let bit = 1 << priority;
        self.paused = if on { self.paused | bit } else { self.paused & !bit };
        self.fresh = false;
        self.slots.first.dry = false;
        self.slots.others.iter_mut().for_each(|slot| slot.dry = false);
    }
    /// The link has failed, or works again. The driver calls [`Self::advance`], tells the port, then this. Nothing is sent
    /// while the link is down.
    pub fn set_link<N: Net>(&mut self, now: Time, up: bool, net: &mut N) {
        self.advance(now, net);
        self.now = now;
        self.up = up;
        self.fresh = false;
        if !up {
            (self.free_at, self.covered) = (self.free_at.min(now), Time::ZERO);
        }
    }

    /// The link has another rate from the next packet on. The driver calls [`Self::advance`], tells the port, then this.
    pub fn set_rate<N: Net>(&mut self, now: Time, rate: Rate, net: &mut N) {
        self.advance(now, net);
        self.config.rate = rate;
        for slot in 0..self.slots.len() {
            self.call(now, slot, net, |s, io| s.set_link_rate(io, rate));
        }
    }

    /// Makes the receiving end of a connection, at stack `slot`.
    pub fn accept<N: Net>(&mut self, now: Time, slot: usize, opening: &Opening, net: &mut N) {
        self.advance(now, net);
        self.place(opening.at_dst, slot);
        self.call(now, slot, net, |s, io| s.accept(io, opening));
    }
    /// The receiving end of the connection whose sending end is `conn` has handle `peer`.
    pub fn set_peer(&mut self, conn: u32, peer: u32) {
        let i = self.slot(conn);
        self.slots.at_mut(i).stack.set_peer(conn, peer);
    }
    /// Makes the sending end of a connection, at stack `slot`. It sends nothing before [`Self::transmit`], or the next action on it.
    pub fn open<N: Net>(&mut self, now: Time, slot: usize, opening: &Opening, net: &mut N) {
        self.advance(now, net);
        self.place(opening.at_src, slot);
        self.call(now, slot, net, |s, io| s.open(io, opening, 0, false));
    }
    /// [`Self::open`], a write and [`Self::close`] in one, where the queue is endless. Elsewhere packets that the link can take
    /// leave before each of them.
    pub fn begin<N: Net>(
        &mut self,
        now: Time,
        slot: usize,
        opening: &Opening,
        (bytes, close): (u64, bool),
        net: &mut N,
    ) {
        debug_assert!(self.config.endless);
        self.place(opening.at_src, slot);
        self.call(now, slot, net, |s, io| s.open(io, opening, bytes, close));
    }
    /// The application writes `bytes`.
    pub fn write<N: Net>(&mut self, now: Time, conn: u32, bytes: u64, net: &mut N) {
        self.advance(now, net);
        self.call(now, self.slot(conn), net, |s, io| s.write(io, conn, bytes));
    }
    /// The application writes nothing more.
    pub fn close<N: Net>(&mut self, now: Time, conn: u32, net: &mut N) {
        self.advance(now, net);
        self.call(now, self.slot(conn), net, |s, io| s.close(io, conn));
    }
    /// The application goes away.
    pub fn abort<N: Net>(&mut self, now: Time, conn: u32, net: &mut N) {
        self.advance(now, net);
        self.call(now, self.slot(conn), net, |s, io| s.abort(io, conn));
    }
    /// Sends what `conn` may send now, and nothing else, where the queue is endless. Called after an action on it, so that it is
    /// carried out before the next one. Elsewhere [`Self::transmit`] sends what may leave.
    #[inline]
    pub fn flush<N: Net>(&mut self, now: Time, conn: u32, net: &mut N) {
        if self.config.endless {
            self.fresh = false;
            self.send_out(now, self.slot(conn), Some(conn), net);
        }
    }
    /// Removes an end. Its handle will be used again.
    pub fn remove<N: Net>(&mut self, now: Time, conn: u32, net: &mut N) {
        self.advance(now, net);
        self.call(now, self.slot(conn), net, |s, io| s.remove(io, conn));
        if self.direct {
            self.slots.first.stack.drop_stale_timers();
        }
    }
    /// Totals of an end, as of the last call.
    pub fn counters(&self, conn: u32) -> Counters {
        self.slots.at(self.slot(conn)).stack.counters(conn)
    }
    /// [`Counters::accepted_bytes`] alone.
    pub fn accepted(&self, conn: u32) -> u64 {
        self.counters(conn).accepted_bytes
    }
    /// Bytes below `end` that have not arrived at a receiving end.
    pub fn missing_below(&self, conn: u32, end: u64) -> u64 {
        self.slots.at(self.slot(conn)).stack.missing_below(conn, end)
    }
    /// Reports internal values of an end, as of the last call.
    pub fn observe(&self, conn: u32, report: &mut Report<'_>) {
        self.slots.at(self.slot(conn)).stack.observe(conn, report);
    }
}
