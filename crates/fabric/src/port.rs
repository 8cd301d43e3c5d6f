//! An output port: what waits, what is in service, what is on the wire behind it.
//!
//! This file has the port itself and its FIFO half, where a departure is known on arrival. The half that chooses
//! among waiting packets is in `served.rs`, what can be read off a port in `readings.rs`.

use crate::arena::{Arrival, Effects, Hop, Loss, Offered, Segments};
use crate::cell::{Cell, PRIORITIES};
use crate::config::PortConfig;
use crate::link::{Clock, HeldUp, Noise};
use crate::ring::Ring;
use crate::rule::Rule;
use crate::served::Served;
use crate::stats::{ClassStats, Integrals, Totals};
use alloc::boxed::Box;
use penstock_core::{
    Backlog, DropCause, Ecn, LinkController, LinkView, ParamError, QueueDiscipline, Stream, Verdict,
};
use penstock_units::{Dur, Time};

/// What a port has to look at for every packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// A FIFO and its rule, nothing else: code compiled without the rest.
    Plain,
    /// A FIFO with a controller, a shared buffer, random loss, noise, reordering or telemetry.
    Special,
    /// It chooses among waiting packets.
    Served,
}

/// What a port that is not plain has to look at, a bit each.
pub(crate) mod hook {
    pub const CONTROLLER: u8 = 1;
    pub const DEPARTURES: u8 = 2;
    pub const TELEMETRY: u8 = 4;
    /// The port draws on a shared buffer: departures are noted for it.
    pub const SHARED: u8 = 8;
    pub const LOSS: u8 = 16;
    pub const NOISE: u8 = 32;
    pub const HELD_UP: u8 = 64;
    /// A rule decides at dequeue.
    pub const DEQUEUE: u8 = 128;
}

/// Why a shared buffer drops a packet, if it does, and its header should it be trimmed.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    pub packet: Option<DropCause>,
    pub header: Option<DropCause>,
}

#[inline(always)]
fn offered(answer: Result<Time, DropCause>) -> Offered {
    match answer {
        Ok(Time::NEVER) => Offered::Queued(None),
        Ok(head) => Offered::Queued(Some(head)),
        Err(cause) => Offered::Dropped(Loss::Queue(cause)),
    }
}

impl Room {
    pub const FREE: Room = Room { packet: None, header: None };
}

/// What plain ports have not.
pub(crate) struct Extra {
    pub controller: Option<Box<dyn LinkController>>,
    pub loss: Option<(f64, Stream)>,
    pub noise: Option<Noise>,
    pub held_up: Option<HeldUp>,
}

/// An output port and its link. Fields in the order a packet meets them, so that a plain port is three cache lines.
#[repr(C, align(64))]
pub struct Port {
    pub(crate) ring: Ring,
    /// When the server has sent all it has taken on, by its own exact clock.
    pub(crate) free_at: u64,
    pub(crate) delay: u64,
    pub(crate) queue_packets: u32,
    pub(crate) limit_packets: u32,
    pub(crate) queue_bytes: u64,
    // Second line.
    pub(crate) mode: Mode,
    /// Bits of [`hook`].
    pub(crate) hooks: u8,
    pub(crate) measured: bool,
    /// A port that schedules and has no rule but its port limit and a static discipline.
    pub(crate) simple: bool,
    /// The node's calendar has an entry for it.
    pub(crate) listed: bool,
    /// Number of this link at the node it leads to.
    pub(crate) ingress: u16,
    pub(crate) framing: u32,
    pub(crate) limit_bytes: u64,
    pub(crate) clock: Clock,
    pub(crate) rule: Rule,
    // Third line.
    pub(crate) sojourn: u128,
    pub(crate) accepted_packets: u64,
    pub(crate) accepted_bytes: u64,
    pub(crate) queue_max: u32,
    pub(crate) number: u32,
    /// Node whose shared buffer it draws on, and its number there.
    pub(crate) node: u32,
    pub(crate) local: u16,
    changed_at: u64,
    pub(crate) integrals: Integrals,
    pub(crate) served: Option<Box<Served>>,
    pub(crate) extra: Box<Extra>,
    pub(crate) rng: Stream,
    /// Counters that a plain packet does not touch.
    pub(crate) totals: Totals,
    pub(crate) base: Totals,
    pub(crate) base_classes: [ClassStats; PRIORITIES],
    /// Sojourn times of what waits so far, minus what lies ahead of those whose departure is counted already.
    pub(crate) unsettled: i128,
}

impl Port {
    /// A port with number `number`.
    ///
    /// # Errors
    /// A configuration that cannot work.
    pub fn new(number: u32, c: PortConfig) -> Result<Port, ParamError> {
        c.check()?;
        let noise = c.noise.filter(|(most, _)| *most != Dur::ZERO);
        let noise = noise.map(|(most, rng)| Noise { most, rng, left_at: 0 });
        let extra = Extra {
            controller: c.controller,
            loss: c.loss.filter(|(p, _)| *p > 0.0),
            noise,
            held_up: c.reorder.map(|(rule, rng)| HeldUp::new(rule, rng)),
        };
        let departures = extra.controller.as_ref().is_some_and(|x| x.wants_departures());
        let mut port = Port {
            ring: Ring::new(),
            free_at: 0,
            delay: c.delay.0,
            queue_packets: 0,
            limit_packets: c.limit_packets,
            queue_bytes: 0,
            mode: Mode::Plain,
            hooks: if departures { hook::DEPARTURES } else { 0 }
                | if c.telemetry { hook::TELEMETRY } else { 0 },
            measured: c.measured,
            simple: false,
            listed: false,
            ingress: 0,
            framing: c.framing,
            limit_bytes: c.limit_bytes,
            clock: Clock::new(c.rate),
            rule: c.rule,
            sojourn: 0,
            accepted_packets: 0,
            accepted_bytes: 0,
            queue_max: 0,
            number,
            node: u32::MAX,
            local: 0,
            changed_at: 0,
            integrals: Integrals::default(),
            served: c.service.map(|s| Box::new(Served::new(*s))),
            extra: Box::new(extra),
            rng: c.rng,
            totals: Totals::default(),
            base: Totals::default(),
            base_classes: Default::default(),
            unsettled: 0,
        };
        if port.served.is_none() && port.rule.wants_dequeue() {
            port.served = Some(Box::new(Served::new(Default::default())));
        }
        port.find_mode();
        Ok(port)
    }
    pub(crate) fn find_mode(&mut self) {
        let x = &self.extra;
        let dequeue = self.rule.wants_dequeue() || self.served.as_ref().is_some_and(|s| s.dequeue_rules);
        for (bit, there) in [
            (hook::CONTROLLER, x.controller.is_some()),
            (hook::LOSS, x.loss.is_some()),
            (hook::NOISE, x.noise.is_some()),
            (hook::HELD_UP, x.held_up.is_some()),
            (hook::DEQUEUE, dequeue),
        ] {
            self.hooks |= if there { bit } else { 0 };
        }
        let asks = hook::CONTROLLER | hook::LOSS | hook::NOISE | hook::DEQUEUE;
        self.simple = self.hooks & asks == 0 && self.served.as_ref().is_some_and(|s| s.is_simple());
        self.mode = if self.served.is_some() {
            Mode::Served
        } else if self.hooks != 0 {
            Mode::Special
        } else {
            Mode::Plain
        };
    }

    #[inline]
    pub(crate) fn account(&mut self, t: u64) {
        if !self.measured {
            return;
        }
        // Through i64: a signed conversion is one instruction, and no run is half of u64 long.
        let dt = (t - self.changed_at) as i64 as f64;
        let q = f64::from(self.queue_packets as i32);
        self.integrals.packets += q * dt;
        self.integrals.packets_squared += q * q * dt;
        self.integrals.bytes += self.queue_bytes as i64 as f64 * dt;
        self.changed_at = t;
    }
    /// What a link controller sees: bytes on the link, framing included.
    fn view(&self) -> LinkView {
        let (t, framing) = (&self.totals, u64::from(self.framing));
        let dropped = t.drops.iter().sum::<u64>();
        LinkView {
            capacity: self.rate(),
            queue_packets: self.queue_packets,
            queue_bytes: self.queue_bytes + framing * u64::from(self.queue_packets),
            arrived_bytes: self.accepted_bytes
                + t.dropped_bytes
                + framing * (self.accepted_packets + dropped),
            departed_bytes: self.accepted_bytes - self.queue_bytes
                + framing * (self.accepted_packets - u64::from(self.queue_packets)),
            framing: self.framing,
        }
    }
    /// The packet in service, when there is one.
    #[inline]
    pub(crate) fn in_service(&self) -> Option<&Cell> {
        self.ring.is_busy().then(|| self.ring.at(self.ring.departing))
    }
    #[inline]
    pub(crate) fn backlog(&self, packets: u32, bytes: u64, idle_since: u64) -> Backlog {
        let serving = self.in_service().map_or(0, |cell| cell.bytes);
        Backlog { packets, bytes, serving, idle_since: Time(idle_since), rate: self.rate() }
    }

    // ---- departures --------------------------------------------------------------------------------------

    /// Replays everything that happened up to and including `now`: departures, and choices of a scheduler.
    #[inline]
    pub fn advance<S: Segments>(&mut self, now: Time, seg: &mut S, fx: &mut Effects) {
        match self.mode {
            Mode::Plain => self.advance_fifo::<false, S>(now.0, seg),
            Mode::Special => self.advance_special(now.0, seg),
            Mode::Served => self.advance_served(now.0, seg, fx),
        }
    }
    #[inline(never)]
    fn advance_special<S: Segments>(&mut self, now: u64, seg: &mut S) {
        self.advance_fifo::<true, S>(now, seg);
    }
    #[inline(always)]
    fn advance_fifo<const SPECIAL: bool, S: Segments>(&mut self, now: u64, seg: &mut S) {
        while self.ring.is_busy() {
            let Cell { time, bytes, .. } = *self.ring.at(self.ring.departing);
            if time > now {
                return;
            }
            self.depart::<SPECIAL, S>(time, bytes, seg);
        }
    }
    /// The packet in service, of so many bytes, leaves.
    #[inline(always)]
    pub(crate) fn depart<const SPECIAL: bool, S: Segments>(&mut self, time: u64, bytes: u32, seg: &mut S) {
        let at = self.ring.departing;
        self.account(time);
        self.queue_packets -= 1;
        self.queue_bytes -= u64::from(bytes);
        self.ring.departing = at.wrapping_add(1);
        if SPECIAL {
            if let Some(served) = &mut self.served {
                served.count_departure(self.ring.at(at));
            }
            if self.hooks & (hook::TELEMETRY | hook::DEPARTURES) != 0 {
                self.after_departure(at, seg);
            }
        }
    }
    #[inline(never)]
    fn after_departure<S: Segments>(&mut self, at: u32, seg: &mut S) {
        let cell = *self.ring.at(at);
        if self.hooks & hook::TELEMETRY != 0 {
            let hop = Hop {
                port: self.number,
                at: Time(cell.time),
                queue_bytes: self.queue_bytes,
                sent_bytes: self.accepted_bytes - self.queue_bytes,
                rate: self.rate(),
            };
            seg.on_hop(cell.packet, &hop);
        }
        if self.hooks & hook::DEPARTURES != 0 {
            let view = self.view();
            let (packet, header) = seg.segment(cell.packet);
            packet.ecn = cell.ecn();
            if let Some(c) = &mut self.extra.controller {
                c.on_departure(Time(cell.time), &view, packet, header);
            }
            self.ring.at_mut(at).set_ecn(packet.ecn);
        }
    }

    // ---- arrivals ----------------------------------------------------------------------------------------

    /// A packet arrives at the port.
    #[inline(always)]
    pub fn offer<S: Segments>(&mut self, now: Time, cell: Cell, seg: &mut S, fx: &mut Effects) -> Offered {
        match self.mode {
            Mode::Plain => offered(self.offer_plain(now, cell, seg)),
            _ => self.offer_with(now, cell, Room::FREE, seg, fx),
        }
    }
    #[inline(never)]
    fn offer_plain<S: Segments>(&mut self, now: Time, cell: Cell, seg: &mut S) -> Result<Time, DropCause> {
        self.offer_fifo::<false, S>(now, cell, Room::FREE, seg)
    }
    #[inline(never)]
    fn offer_special<S: Segments>(
        &mut self,
        now: Time,
        cell: Cell,
        room: Room,
        seg: &mut S,
    ) -> Result<Time, DropCause> {
        self.offer_fifo::<true, S>(now, cell, room, seg)
    }
    #[inline(always)]
    pub(crate) fn offer_with<S: Segments>(
        &mut self,
        now: Time,
        cell: Cell,
        room: Room,
        seg: &mut S,
        fx: &mut Effects,
    ) -> Offered {
        match self.mode {
            Mode::Served => self.offer_served(now, cell, room, seg, fx),
            _ => offered(self.offer_special(now, cell, room, seg)),
        }
    }
    /// When the packet is the next to arrive at the other end, its arrival there; [`Time::NEVER`] when it is not. 16 bytes, so
    /// that it comes back in registers.
    #[inline(always)]
    fn offer_fifo<const SPECIAL: bool, S: Segments>(
        &mut self,
        now: Time,
        mut cell: Cell,
        room: Room,
        seg: &mut S,
    ) -> Result<Time, DropCause> {
        self.advance_fifo::<SPECIAL, S>(now.0, seg);
        if SPECIAL {
            self.tell_arrival(now, &mut cell, seg);
        }
        let full = self.queue_packets >= self.limit_packets
            || self.queue_bytes + u64::from(cell.bytes) > self.limit_bytes;
        match self.judge::<SPECIAL, S>(now, &cell, full, room.packet, seg) {
            Ok(true) => {
                cell.set_ecn(Ecn::Ce);
                self.totals.marks += 1;
            }
            Ok(false) => {}
            Err(cause) => {
                self.note_drop::<SPECIAL, S>(now, &cell, cause, seg);
                return Err(cause);
            }
        }
        self.account(now.0);
        let mut finish =
            self.free_at.max(now.0) + self.clock.time(u64::from(cell.bytes) + u64::from(self.framing));
        self.free_at = finish;
        if SPECIAL && self.hooks & hook::NOISE != 0 {
            if let Some(noise) = &mut self.extra.noise {
                finish = noise.shift(finish, cell.is_noisy());
            }
        }
        cell.time = finish;
        let first = self.ring.is_empty();
        self.queue_packets += 1;
        self.queue_bytes += u64::from(cell.bytes);
        self.accepted_packets += 1;
        self.accepted_bytes += u64::from(cell.bytes);
        self.sojourn += u128::from(finish - now.0);
        self.queue_max = self.queue_max.max(self.queue_packets);
        self.ring.push(cell);
        Ok(if first { Time(finish + self.delay) } else { Time::NEVER })
    }
    /// The controller sees the packet.
    #[inline]
    pub(crate) fn tell_arrival<S: Segments>(&mut self, now: Time, cell: &mut Cell, seg: &mut S) {
        if self.hooks & hook::CONTROLLER != 0 {
            let view = self.view();
            let (packet, header) = seg.segment(cell.packet);
            packet.ecn = cell.ecn();
            if let Some(c) = &mut self.extra.controller {
                c.on_arrival(now, &view, packet, header);
            }
            cell.set_ecn(packet.ecn);
        }
    }
    /// Whether the packet is to be marked, or why it is dropped. All rules are asked, so that averages see every packet.
    #[inline(always)]
    pub(crate) fn judge<const SPECIAL: bool, S: Segments>(
        &mut self,
        now: Time,
        cell: &Cell,
        full: bool,
        pool: Option<DropCause>,
        seg: &mut S,
    ) -> Result<bool, DropCause> {
        let mut idle_since = self.free_at;
        if SPECIAL && self.hooks & hook::NOISE != 0 {
            idle_since = idle_since.max(self.extra.noise.as_ref().map_or(0, |n| n.left_at));
        }
        let backlog = self.backlog(self.queue_packets, self.queue_bytes, idle_since);
        let mut cause = full.then_some(DropCause::Overflow);
        let mut mark = false;
        match self.rule.ask(now, &backlog, (cell.packet, seg), full, &mut self.rng) {
            Verdict::Accept => {}
            Verdict::Mark if full => {}
            Verdict::Mark if cell.ecn() == Ecn::NotEct => cause = Some(DropCause::NotEct),
            Verdict::Mark => mark = true,
            Verdict::Drop(c) => cause = cause.or(Some(c)),
        }
        if SPECIAL {
            if self.hooks & hook::LOSS != 0 && cause.is_none() {
                if let Some((p, rng)) = &mut self.extra.loss {
                    cause = (rng.uniform() < *p).then_some(DropCause::Random);
                }
            }
            cause = cause.or(pool);
        }
        cause.map_or(Ok(mark), Err)
    }
    #[inline]
    pub(crate) fn note_drop<const SPECIAL: bool, S: Segments>(
        &mut self,
        now: Time,
        cell: &Cell,
        cause: DropCause,
        seg: &mut S,
    ) {
        self.totals.drops[cause as usize] += 1;
        self.totals.dropped_bytes += u64::from(cell.bytes);
        if SPECIAL && self.extra.controller.is_some() {
            let view = self.view();
            if let Some(c) = &mut self.extra.controller {
                let (packet, header) = seg.segment(cell.packet);
                c.on_drop(now, &view, packet, header);
            }
        }
    }

    // ---- the other end -----------------------------------------------------------------------------------

    /// The event announced for `now`.
    #[inline(always)]
    pub fn arrive<S: Segments>(&mut self, now: Time, seg: &mut S, fx: &mut Effects) -> Arrival {
        if self.mode == Mode::Served || self.hooks & hook::HELD_UP != 0 {
            return self.arrive_special(now, seg, fx);
        }
        if self.ring.departing == self.ring.head {
            match self.mode {
                Mode::Plain => self.advance_fifo::<false, S>(now.0, seg),
                _ => self.advance_special(now.0, seg),
            }
        }
        debug_assert_eq!(self.ring.at(self.ring.head).time + self.delay, now.0);
        Arrival::of(self.ring.pop().with_ingress(self.ingress), self.next_arrival())
    }
    /// When the head of the ring arrives at the other end.
    #[inline]
    fn next_arrival(&self) -> Time {
        if self.ring.is_empty() {
            Time::NEVER
        } else {
            Time(self.ring.at(self.ring.head).time + self.delay)
        }
    }
    #[inline(never)]
    fn arrive_special<S: Segments>(&mut self, now: Time, seg: &mut S, fx: &mut Effects) -> Arrival {
        match self.mode {
            Mode::Served => self.advance_served(now.0, seg, fx),
            _ => self.advance_special(now.0, seg),
        }
        self.pop(now, fx)
    }
    /// The same after [`Self::advance`].
    #[inline(always)]
    pub(crate) fn pop(&mut self, now: Time, fx: &mut Effects) -> Arrival {
        if self.hooks & hook::HELD_UP != 0 {
            if let Some(mut cell) = self.extra.held_up.as_mut().and_then(|h| h.due(now.0)) {
                cell.ingress = self.ingress;
                return Arrival::of(cell, Time::NEVER);
            }
        }
        if self.next_arrival() != now || self.ring.head == self.ring.departing {
            return Arrival::none(Time::NEVER);
        }
        let mut cell = self.ring.pop();
        let next = self.next_arrival();
        if let (true, Some(held_up)) = (self.hooks & hook::HELD_UP != 0, &mut self.extra.held_up) {
            if let Some(extra) = held_up.draw() {
                held_up.push(now.0 + extra.0, cell);
                fx.announce(now + extra, self.number);
                return Arrival::none(next);
            }
        }
        cell.ingress = self.ingress;
        Arrival::of(cell, next)
    }

    /// Packets that have left and still take room in the shared buffer; they do no longer.
    pub(crate) fn take_departed(&mut self, mut release: impl FnMut(&Cell)) {
        while self.ring.unreleased != self.ring.departing {
            release(self.ring.at(self.ring.unreleased));
            self.ring.unreleased = self.ring.unreleased.wrapping_add(1);
        }
    }

    /// Asks the processor to fetch what the next event on this port will touch.
    #[inline]
    pub fn prefetch(&self) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch is a hint; it reads nothing and cannot fault.
        unsafe {
            use core::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
            let first = (self as *const Port).cast::<i8>();
            _mm_prefetch::<_MM_HINT_T0>(first);
            _mm_prefetch::<_MM_HINT_T0>(first.add(64));
        }
    }

    // ---- the controller's clock --------------------------------------------------------------------------

    /// Next time the controller wants to act.
    pub fn deadline(&self) -> Time {
        self.extra.controller.as_ref().map_or(Time::NEVER, |c| c.deadline())
    }
    /// The controller's deadline has come.
    pub fn on_deadline<S: Segments>(&mut self, now: Time, seg: &mut S, fx: &mut Effects) {
        self.advance(now, seg, fx);
        let view = self.view();
        if let Some(c) = &mut self.extra.controller {
            if c.deadline() <= now {
                c.on_deadline(now, &view);
            }
        }
    }
}
