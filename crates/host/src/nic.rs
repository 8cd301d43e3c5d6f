//! The network card of a host: asks its stacks for packets when the link can take one, and replays late what it was not called for.
//!
//! # When it pulls
//!
//! The link can take a packet at the departure of the one before, at `t_k`. That is no event. Every call first replays what was due
//! before it, in order of time: pulls, and deadlines that a replayed pull has set. Nobody can tell the difference:
//!
//! 1. whatever could change a choice at the host comes by a call, so between two calls a pull sees what it would have seen at its time;
//! 2. the packet pulled at `t_k` is behind the one that left at `t_k` on the same wire, so nobody needs it before that one has
//!    arrived, and that arrival is the port's announced event: the driver calls [`Nic::advance`] before it takes the packet off.
//!
//! An event of the card's own is therefore needed only where nothing is on the wire when a paced stack may go on; [`Nic::deadline`]
//! says when, together with the stacks' own deadlines. One event per packet and link stays.
//!
//! At one instant pulls come first: what arrives at `t_k` is not seen by the pull at `t_k`, as in a port that schedules.
//!
//! # What a driver does
//!
//! - an event of the host's own port: [`Nic::advance`], then the event;
//! - a packet for the host: [`Nic::receive`];
//! - an action of the application: [`Nic::open`] and its like;
//! - the time of [`Nic::deadline`]: [`Nic::wake`];
//!
//! and after each of them it takes the news, acts on them, calls [`Nic::kick`], and looks at [`Nic::deadline`] again. Nested calls (an
//! application that writes when its last write is acknowledged) are fine.
//!
//! # Endless queue
//!
//! Where hosts have an endless queue below the transport ([`NicConfig::endless`]), the card does not wait for the link: it pulls until
//! there is nothing. An action is followed by the packets of its connection, at once; [`Nic::kick`] pulls those of all others.
//!
//! Above 600 lines: pulls, deadlines and the endless queue are one order of events, argued for above.

use crate::stack::{Counters, Due, Exchange, Exchanged, FastPath, Io, News, Opening, Part, Stack};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::mem::offset_of;
use penstock_core::{Report, Stream};
use penstock_fabric::{Arena, Cell};
use penstock_units::{Bytes, Dur, Rate, Time};

/// What has arrived at a host, by what it has to do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A packet without payload, such as an ACK.
    Bare,
    /// One with payload.
    Data,
    /// One with payload that is answered with a duplicate ACK: it lies behind a gap, or has come before ([`crate::ApplicationReads::dupack`]): a kernel wakes nobody for it.
    DupAck,
}

/// What a network card needs of its driver.
pub trait Net {
    /// Segments.
    fn arena(&mut self) -> &mut Arena;
    /// Offers a packet to the host's own port, at a time that may lie before the driver's own. Answers when the port can take the
    /// next one ([`penstock_fabric::Port::free_at`]), `None` when the packet is lost there.
    fn transmit(&mut self, at: Time, port: u32, cell: Cell) -> Option<Time>;
    /// A stack told this at `at`. The driver acts on it after the call.
    fn tell(&mut self, at: Time, news: News);
    /// When a host sees a packet, with payload (`data`) or without, that is due there at `at`, which never decreases; asked by cards that were told
    /// to ([`Nic::ask_when_seen`]).
    fn seen_at(&mut self, at: Time, data: bool) -> Time {
        let _ = data;
        at
    }
    /// How long the host with that output port takes for a packet of that kind, besides [`NicConfig::processing`]; asked by the same cards.
    fn turn(&mut self, port: u32, kind: Kind) -> Dur {
        let _ = (port, kind);
        Dur::ZERO
    }
    /// How long after the host with that output port has seen data its application comes to read; asked by cards that were told to
    /// ([`Nic::wait_for_applications`]).
    fn application_lag(&mut self, port: u32) -> Dur {
        let _ = port;
        Dur::ZERO
    }
    /// How long it takes from a read to the answer that leaves by it; asked by the same cards.
    fn application_turn(&mut self, port: u32) -> Dur {
        let _ = port;
        Dur::ZERO
    }
    /// When a host does what it would do at `at`, a packet's processing or a timer; asked by the same cards.
    fn awake_at(&self, at: Time) -> Time {
        at
    }
    /// When a timer goes off that is due at `at`; asked once for each that comes due, by the same cards.
    fn timer_at(&mut self, at: Time) -> Time {
        at
    }
}

/// What a network card is made of.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NicConfig {
    /// The host's output port. It is a plain FIFO: who is next, the card has chosen. It must not share a buffer.
    pub port: u32,
    /// Rate of the port.
    pub rate: Rate,
    /// Propagation delay of the port's link.
    pub delay: Dur,
    /// Bytes of framing that the link adds to every packet.
    pub framing: u32,
    /// The queue below the transport is endless.
    pub endless: bool,
    /// A packet reaches its stack so much later.
    pub receive_delay: Dur,
    /// The host takes so long for a packet that has arrived, one at a time, before its stack sees it.
    pub processing: Dur,
}

/// A packet on its way through the host.
#[derive(Clone, Copy, Debug)]
struct Inside {
    /// When its stack sees it.
    at: Time,
    cell: Cell,
    /// For how long it will have been in the host by then.
    waited: Dur,
    /// And for how long the host will have seen it.
    seen: Dur,
}

/// The applications of a host, of which one thing is known: when they come to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Applications {
    /// They read at once.
    Prompt,
    /// There is nothing to read.
    Idle,
    /// They come then.
    Come(Time),
    /// They have read, and what that makes due leaves then.
    Reply(Time),
}

#[repr(C)]
struct Seat<S> {
    /// It had nothing at a time at which it had said that it may: not asked again before the next call.
    dry: bool,
    stack: S,
}

/// The stacks of a host. The first, mostly the only one, is in place: a packet finds it without a way through memory.
#[repr(C)]
struct Seats<S> {
    first: Seat<S>,
    others: Vec<Seat<S>>,
}

impl<S> Seats<S> {
    #[inline(always)]
    fn len(&self) -> usize {
        1 + self.others.len()
    }
    #[inline(always)]
    fn at(&self, i: usize) -> &Seat<S> {
        if i == 0 {
            &self.first
        } else {
            &self.others[i - 1]
        }
    }
    #[inline(always)]
    fn at_mut(&mut self, i: usize) -> &mut Seat<S> {
        if i == 0 {
            &mut self.first
        } else {
            &mut self.others[i - 1]
        }
    }
    #[inline(always)]
    fn iter(&self) -> impl Iterator<Item = &Seat<S>> {
        core::iter::once(&self.first).chain(&self.others)
    }
}

/// Times that lie in a row at one instant before it is taken for a stack that does not get on.
const STUCK: u32 = 1 << 22;

/// The network card of a host, with the host's stacks. In the order of use: what a packet touches that is answered at once are the first lines of memory,
/// up to the first of `Seats`, which is in the same order.
#[repr(C)]
pub struct Nic<S = Box<dyn Stack>> {
    /// What arrives is answered in the same call: one stack, no delay, an endless queue.
    direct: bool,
    /// [`Self::next`] is as it was found last.
    fresh: bool,
    paused: u8,
    up: bool,
    /// What arrives is seen at once.
    at_once: bool,
    /// Time of the last call.
    now: Time,
    /// When the next pull and the next deadline are due, as of the last [`Self::kick`]; asked anew where a stack was called since.
    next: (Time, Time),
    /// A timer was due and goes off only now; `ZERO` = none is late.
    timer_at: Time,
    news: Vec<News>,
    config: NicConfig,
    seats: Seats<S>,
    /// When the link can take a packet; stays in the past where the queue is endless.
    free_at: Time,
    /// Up to here an event of the port is sure to come.
    covered: Time,
    /// Stack of each handle; used with several stacks only.
    stack_of: Vec<u8>,
    /// The stack that is asked first.
    turn: usize,
    /// A stack sees a packet so much later at most, and when exactly.
    jitter: Option<(Dur, Stream)>,
    /// Packets on their way through the host, in the order in which stacks see them.
    inbox: VecDeque<Inside>,
    applications: Applications,
}

impl Applications {
    /// When they want to go on.
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
    /// Bytes of the card that lie before its first stack: what every call of it touches.
    pub const BEFORE_STACK: usize = offset_of!(Self, seats) + offset_of!(Seat<S>, stack);
    /// A card for `stacks`, one per transport of the host.
    pub fn new(config: NicConfig, stacks: Vec<S>) -> Nic<S> {
        assert!(!stacks.is_empty() && stacks.len() <= MOST_STACKS, "a host has 1 to {MOST_STACKS} stacks");
        let at_once = config.receive_delay == Dur::ZERO && config.processing == Dur::ZERO;
        let direct = config.endless && at_once && stacks.len() == 1;
        let mut row = stacks.into_iter().map(|stack| Seat { stack, dry: false });
        let seats = Seats { first: row.next().expect("there is one"), others: row.collect() };
        Nic {
            seats,
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
            news: Vec::new(),
            direct,
            next: (Time::NEVER, Time::NEVER),
            fresh: false,
        }
    }
    /// Stacks see every packet up to `most` later than its delay says, U(0, `most`), in order.
    pub fn set_receive_jitter(&mut self, most: Dur, stream: Stream) {
        if most > Dur::ZERO {
            self.jitter = Some((most, stream));
            (self.at_once, self.direct) = (false, false);
        }
    }
    /// Stacks see every packet when the driver says ([`Net::seen_at`]), in order.
    pub fn ask_when_seen(&mut self) {
        (self.at_once, self.direct) = (false, false);
    }
    /// Applications come to read when the driver says ([`Net::application_lag`]), and their answers leave later than that ([`Net::application_turn`]).
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
        &self.seats.at(i).stack
    }
    /// Packets that have arrived and that no stack has seen yet.
    pub fn packets_inside(&self) -> usize {
        self.inbox.len()
    }
    /// Packets that have arrived and that no stack has seen yet, and those that stacks have made and the card has not pulled.
    pub fn packets_held(&self) -> u64 {
        self.inbox.len() as u64 + self.seats.iter().map(|seat| seat.stack.queued()).sum::<u64>()
    }
    /// Priorities that are paused, a bit each.
    pub fn paused(&self) -> u8 {
        self.paused
    }
    /// The stack that has `handle`.
    #[inline]
    fn seat(&self, handle: u32) -> usize {
        if self.seats.len() == 1 {
            0
        } else {
            usize::from(self.stack_of.get(handle as usize).copied().unwrap_or(0))
        }
    }
    /// The end with `handle` belongs to stack `seat`.
    fn place(&mut self, handle: u32, seat: usize) {
        assert!(seat < self.seats.len(), "stack {seat} of {}", self.seats.len());
        if self.seats.len() > 1 {
            let i = handle as usize;
            if self.stack_of.len() <= i {
                self.stack_of.resize(i + 1, 0);
            }
            self.stack_of[i] = seat as u8;
        }
    }

    // ---- replay ------------------------------------------------------------------------------------------

    /// When the next pull is due.
    #[inline]
    fn next_pull(&self) -> Time {
        let mut ready = Time::NEVER;
        for seat in self.seats.iter() {
            if !seat.dry {
                ready = ready.min(seat.stack.ready_at(self.paused));
            }
        }
        if ready == Time::NEVER || !self.up {
            return Time::NEVER;
        }
        ready.max(self.free_at).max(self.now)
    }
    #[inline]
    fn next_deadline(&self) -> (Time, usize) {
        let mut first = (Time::NEVER, 0);
        for (i, seat) in self.seats.iter().enumerate() {
            let at = seat.stack.next_timer();
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
        let seat = self.seats.at_mut(i);
        seat.dry = false;
        let mut io = Io { now: at, arena: net.arena(), news: &mut self.news, paused: self.paused, waited };
        let answer = act(&mut seat.stack, &mut io);
        if !self.news.is_empty() {
            self.news.drain(..).for_each(|news| net.tell(at, news));
        }
        answer
    }
    /// Asks the stacks in turn for a packet at `t` and sends it.
    #[inline]
    fn pull<N: Net>(&mut self, t: Time, net: &mut N) {
        let n = self.seats.len();
        for k in 0..n {
            let i = if n == 1 { 0 } else { (self.turn + k) % n };
            let seat = self.seats.at(i);
            if seat.dry || seat.stack.ready_at(self.paused) > t {
                continue;
            }
            let Some(cell) = self.call(t, i, net, |s, io| s.poll_transmit(io, None)) else {
                let seat = self.seats.at_mut(i);
                seat.dry = seat.stack.ready_at(self.paused) <= t;
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
            // It was sent all the same, and lost on the link.
            None => self.free_at = t + Bytes(u64::from(cell.bytes + self.config.framing)) / self.config.rate,
        }
    }
    /// Sends all that stack `i` has, or one connection of it, where the queue is endless.
    #[inline(always)]
    fn send_out<N: Net>(&mut self, now: Time, i: usize, conn: Option<u32>, net: &mut N) {
        let Nic { seats, news, paused, config, .. } = self;
        let mut io = Exchange { now, port: config.port, paused: *paused, news, net };
        seats.at_mut(i).stack.transmit_all(&mut io, conn);
    }
    /// Everything that was due: pulls up to and including `now`, deadlines before it.
    fn replay<N: Net>(&mut self, now: Time, net: &mut N) {
        let mut at_once = (Time::ZERO, 0);
        loop {
            let pull = self.next_pull();
            let (deadline, i) = self.next_deadline();
            let t = pull.min(deadline.max(self.now));
            if pull > now && deadline >= now {
                return;
            }
            at_once = if at_once.0 == t { (t, at_once.1 + 1) } else { (t, 0) };
            assert!(
                at_once.1 < STUCK,
                "a stack of the host at port {} stands still at {t}",
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

    /// Replays what was due: before an event of the host's port, and before anything about the host is read.
    #[inline]
    pub fn advance<N: Net>(&mut self, now: Time, net: &mut N) {
        // An endless queue has been given everything, and every deadline is an event.
        let due = !self.fresh || self.next.0 <= now || self.next.1 < now;
        if due && !self.config.endless {
            self.replay(now, net);
            self.now = now;
        }
    }
    /// Sends what may be sent now; after every other call, when the news of it have been acted on.
    #[inline]
    pub fn kick<N: Net>(&mut self, now: Time, net: &mut N) {
        if self.fresh && self.next.0 > now {
            return;
        }
        self.now = now;
        if self.direct {
            if !self.has_nothing() {
                self.send_out(now, 0, None, net);
            }
            if self.has_nothing() {
                self.seats.first.dry = false;
                (self.next, self.fresh) = ((Time::NEVER, self.seats.first.stack.next_timer()), true);
                return;
            }
        }
        if self.config.endless {
            for i in 0..self.seats.len() {
                self.send_out(now, i, None, net);
                let seat = self.seats.at_mut(i);
                seat.dry = seat.stack.ready_at(self.paused) <= now;
            }
        }
        loop {
            let pull = self.next_pull();
            if pull > now {
                self.next = (pull, self.next_deadline().0);
                self.fresh = true;
                return;
            }
            self.pull(pull, net);
        }
    }
    /// It has one stack, below it an endless queue, and nothing to send.
    #[inline(always)]
    pub fn has_nothing(&self) -> bool {
        self.direct && self.seats.first.stack.ready_at(self.paused) == Time::NEVER
    }
    /// When [`Self::wake`] is to be called; [`Time::NEVER`] = not before something else happens here.
    #[inline(always)]
    pub fn deadline(&self) -> Time {
        if self.has_nothing() {
            // One stack, whose deadline is all that it waits for.
            return self.seats.first.stack.next_timer().max(self.timer_at);
        }
        self.deadline_of_several()
    }
    /// The same just after [`Self::kick`], which has found it.
    #[inline(always)]
    pub fn deadline_when_kicked(&self) -> Time {
        debug_assert!(self.fresh);
        if self.direct && self.next.0 == Time::NEVER {
            return self.next.1.max(self.timer_at);
        }
        self.deadline()
    }
    #[inline(never)]
    fn deadline_of_several(&self) -> Time {
        let (pull, mut at) = if self.fresh { self.next } else { (self.next_pull(), self.next_deadline().0) };
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
    /// The time of [`Self::deadline`] has come. Handles the first of what is due; what is left is due at once.
    pub fn wake<N: Net>(&mut self, now: Time, net: &mut N) {
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
        let (at, i) = self.next_deadline();
        if at <= now {
            self.call(now, i, net, |s, io| s.on_timer(io));
        }
    }
    /// A packet for the end with handle `conn` arrives soon; see [`Stack::prefetch`].
    #[inline(always)]
    pub fn fetch(&self, conn: u32, part: Part) {
        if self.direct {
            // How many there are lies behind the first.
            return self.seats.first.stack.prefetch(conn, part);
        }
        self.seats.at(self.seat(conn)).stack.prefetch(conn, part);
    }
    /// A deadline may come soon; see [`FastPath::prefetch_timer`].
    #[inline(always)]
    pub fn fetch_due(&self, part: Due) {
        if self.direct {
            self.seats.first.stack.prefetch_timer(part);
        }
    }
    /// [`Self::receive`] and [`Self::kick`] in one, where nothing stands between. [`Exchanged::Told`]: the driver goes on as after any
    /// other call. [`Exchanged::Armed`]: it looks at [`Self::deadline`], and that is all.
    #[inline(always)]
    pub fn exchange<N: Net>(&mut self, now: Time, cell: &Cell, net: &mut N) -> Exchanged {
        if !self.direct {
            self.receive(now, cell, net);
            return Exchanged::Told;
        }
        let Nic { seats, news, paused, config, .. } = self;
        let mut io = Exchange { now, port: config.port, paused: *paused, news, net };
        let done = seats.first.stack.receive_and_send(&mut io, cell);
        self.close_call(now, done, net)
    }
    /// [`Self::wake`] and [`Self::kick`] in one, as [`Self::exchange`].
    #[inline(always)]
    pub fn alarm<N: Net>(&mut self, now: Time, net: &mut N) -> Exchanged {
        if !self.direct || self.seats.first.stack.next_timer() > now {
            if self.goes_off(now, net) {
                self.wake(now, net);
            }
            return Exchanged::Told;
        }
        let Nic { seats, news, paused, config, .. } = self;
        let mut io = Exchange { now, port: config.port, paused: *paused, news, net };
        let done = seats.first.stack.on_timer_and_send(&mut io);
        self.close_call(now, done, net)
    }
    /// The host is awake, and a packet's time has come, or a timer goes off: late, where timers are, with what comes due meanwhile.
    fn goes_off<N: Net>(&mut self, now: Time, net: &mut N) -> bool {
        // What a card pulls leaves at its own time: a late call would send packets in the past.
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
    /// A stack was called and has sent what it had; what it told is handed on.
    #[inline(always)]
    fn close_call<N: Net>(&mut self, now: Time, done: Exchanged, net: &mut N) -> Exchanged {
        self.seats.first.dry = false;
        self.now = now;
        self.fresh = false;
        if done == Exchanged::Told {
            self.news.drain(..).for_each(|news| net.tell(now, news));
        }
        done
    }
    /// A packet for this host has arrived; its segment names its end's handle here.
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
            true if self.seats.at(self.seat(conn)).stack.dupack(conn, packet) => Kind::DupAck,
            true => Kind::Data,
            false => Kind::Bare,
        };
        let seen = net.seen_at(now + self.config.receive_delay, kind != Kind::Bare);
        // A kernel's turn is no queue of its own: an interrupt takes all that is there by then. So what comes during a packet's turn is late by its
        // own or seen with it, and a host is behind by its longest turn at most.
        let at = before.max(seen + noise + net.turn(self.config.port, kind)) + self.config.processing;
        self.inbox.push_back(Inside { at, cell: *cell, waited: at.since(now), seen: at.since(seen) });
    }
    /// What has come since `seen` may be the first that applications have to read.
    fn call_applications<N: Net>(&mut self, seen: Time, net: &mut N) {
        if self.applications == Applications::Idle && self.seats.iter().any(|seat| seat.stack.unread()) {
            self.applications =
                Applications::Come(self.now.max(seen + net.application_lag(self.config.port)));
        }
    }
    /// They read, or what they have read is answered.
    fn go_on_with_applications<N: Net>(&mut self, now: Time, net: &mut N) {
        let reads = matches!(self.applications, Applications::Come(_));
        self.applications = Applications::Idle;
        if reads {
            let mut answers = false;
            for i in 0..self.seats.len() {
                answers |= self.call(now, i, net, |s, _| s.read());
            }
            if answers {
                self.applications = Applications::Reply(now + net.application_turn(self.config.port));
            }
            return;
        }
        for i in 0..self.seats.len() {
            self.call(now, i, net, |s, _| s.reply());
        }
        // What has come meanwhile.
        self.call_applications(now, net);
    }
    #[inline]
    fn hand_over<N: Net>(&mut self, now: Time, cell: &Cell, waited: Dur, net: &mut N) {
        let mut i = 0;
        if self.seats.len() > 1 {
            i = self.seat(net.arena().packets[cell.packet as usize].conn());
        }
        self.call_late(now, i, waited, net, |s, io| s.receive(io, cell));
    }
    /// The other end of the link stops (PFC) a priority of this host, or lets it go on.
    pub fn pause<N: Net>(&mut self, now: Time, priority: u8, on: bool, net: &mut N) {
        self.advance(now, net);
        self.now = now;
        let bit = 1 << priority;
        self.paused = if on { self.paused | bit } else { self.paused & !bit };
        self.fresh = false;
        self.seats.first.dry = false;
        self.seats.others.iter_mut().for_each(|seat| seat.dry = false);
    }
    /// The link has failed, or works again: the driver calls [`Self::advance`], tells the port, then this. While the link is down
    /// nothing is pulled.
    pub fn set_link<N: Net>(&mut self, now: Time, up: bool, net: &mut N) {
        self.advance(now, net);
        self.now = now;
        self.up = up;
        self.fresh = false;
        if !up {
            (self.free_at, self.covered) = (self.free_at.min(now), Time::ZERO);
        }
    }

    /// The link has another rate from the next packet on: the driver calls [`Self::advance`], tells the port, then this.
    pub fn set_rate<N: Net>(&mut self, now: Time, rate: Rate, net: &mut N) {
        self.advance(now, net);
        self.config.rate = rate;
        for seat in 0..self.seats.len() {
            self.call(now, seat, net, |s, io| s.set_link_rate(io, rate));
        }
    }

    /// The receiving end of a connection, at stack `seat`.
    pub fn listen<N: Net>(&mut self, now: Time, seat: usize, opening: &Opening, net: &mut N) {
        self.advance(now, net);
        self.place(opening.at_dst, seat);
        self.call(now, seat, net, |s, io| s.accept(io, opening));
    }
    /// The other end of the sending end `conn` has this handle.
    pub fn set_peer(&mut self, conn: u32, peer: u32) {
        let i = self.seat(conn);
        self.seats.at_mut(i).stack.set_peer(conn, peer);
    }
    /// The sending end of a connection, at stack `seat`. Nothing of it leaves before [`Self::kick`], or the next action on it.
    pub fn open<N: Net>(&mut self, now: Time, seat: usize, opening: &Opening, net: &mut N) {
        self.advance(now, net);
        self.place(opening.at_src, seat);
        self.call(now, seat, net, |s, io| s.open(io, opening, 0, false));
    }
    /// [`Self::open`], [`Self::accept`] and [`Self::close`] in one, as [`Stack::open`], where the queue is endless: elsewhere what the link can take leaves
    /// before each of them.
    pub fn begin<N: Net>(
        &mut self,
        now: Time,
        seat: usize,
        opening: &Opening,
        (bytes, close): (u64, bool),
        net: &mut N,
    ) {
        debug_assert!(self.config.endless);
        self.place(opening.at_src, seat);
        self.call(now, seat, net, |s, io| s.open(io, opening, bytes, close));
    }
    /// The application has so many bytes more.
    pub fn accept<N: Net>(&mut self, now: Time, conn: u32, bytes: u64, net: &mut N) {
        self.advance(now, net);
        self.call(now, self.seat(conn), net, |s, io| s.write(io, conn, bytes));
    }
    /// Nothing more will be accepted.
    pub fn close<N: Net>(&mut self, now: Time, conn: u32, net: &mut N) {
        self.advance(now, net);
        self.call(now, self.seat(conn), net, |s, io| s.close(io, conn));
    }
    /// The application goes away.
    pub fn leave<N: Net>(&mut self, now: Time, conn: u32, net: &mut N) {
        self.advance(now, net);
        self.call(now, self.seat(conn), net, |s, io| s.abort(io, conn));
    }
    /// Sends what `conn` may send now, and nothing else, where the queue is endless: after an action on it, so that it is carried out
    /// before the next one. Elsewhere what may leave is sent by [`Self::kick`].
    #[inline]
    pub fn flush<N: Net>(&mut self, now: Time, conn: u32, net: &mut N) {
        if self.config.endless {
            self.fresh = false;
            self.send_out(now, self.seat(conn), Some(conn), net);
        }
    }
    /// The connection is over; the handle will be used again.
    pub fn forget<N: Net>(&mut self, now: Time, conn: u32, net: &mut N) {
        self.advance(now, net);
        self.call(now, self.seat(conn), net, |s, io| s.remove(io, conn));
        if self.direct {
            self.seats.first.stack.drop_stale_timers();
        }
    }
    /// Totals of an end, as of the last call.
    pub fn counters(&self, conn: u32) -> Counters {
        self.seats.at(self.seat(conn)).stack.counters(conn)
    }
    /// [`Counters::accepted_bytes`] alone.
    pub fn accepted(&self, conn: u32) -> u64 {
        self.counters(conn).accepted_bytes
    }
    /// Bytes below `end` that have not arrived at a receiving end.
    pub fn missing_below(&self, conn: u32, end: u64) -> u64 {
        self.seats.at(self.seat(conn)).stack.missing_below(conn, end)
    }
    /// Reports internal values of an end, as of the last call.
    pub fn observe(&self, conn: u32, report: &mut Report<'_>) {
        self.seats.at(self.seat(conn)).stack.observe(conn, report);
    }
}
