//! An output port: what waits, what is in service, what is on the wire behind it.
//!
//! This file has the port itself, departures, and the other end of its link. A packet that arrives at a FIFO, where its departure is known at once, is in
//! `fifo.rs`; the half that chooses among waiting packets in `served.rs`, what can be read off a port in `readings.rs`.

use crate::arena::{Arrival, Effects, Loss, Offered, Segments};
use crate::cell::{Cell, PRIORITIES};
use crate::config::PortConfig;
use crate::link::{Clock, HeldUp, Jitter};
use crate::ring::Ring;
use crate::rule::Rule;
use crate::served::Served;
use crate::stats::{ClassStats, Integrals, Pauses, Totals};
use alloc::boxed::Box;
use penstock_core::{
    Amount, Backlog, Departures, DropCause, LinkController, LinkView, Looks, ParamError, QueueDiscipline,
    Stream,
};
use penstock_units::{Bytes, Dur, Time};

/// What a port has to look at for every packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// A FIFO with its limits and a threshold for marks, nothing else: code compiled without the rest.
    Plain,
    /// The same with timing noise: the port of a host.
    Noisy,
    /// The same with another rule on arrival, and no noise.
    Asking,
    /// A FIFO with a controller, a shared buffer, random loss, reordering or telemetry, or several of the above.
    Special,
    /// It chooses among waiting packets.
    Served,
}

/// What is known of a port from its first line, a bit each.
pub(crate) mod flag {
    /// An event of the port is the head of its ring at the other end, and nothing else.
    pub const DIRECT: u8 = 1;
    /// Time integrals of its queue are kept.
    pub const MEASURED: u8 = 2;
    /// See [`super::Port::serves_alone`].
    pub const ALONE: u8 = 4;
    /// A controller, telemetry or noise sees the packets of a port that schedules when they are chosen or leave, or shifts their time.
    pub const ASKED: u8 = 8;
    /// The packet in service takes no room in a shared buffer ([`crate::config::Accounting::UntilTaken`]).
    pub const TAKEN: u8 = 16;
    /// Those of [`ASKED`] are rules at dequeue, which have nothing to say while the port holds no more than [`super::Port::threshold_bytes`].
    pub const SILENT: u8 = 32;
    /// A controller sees packets leave a FIFO.
    pub const SEEN_OFF: u8 = 64;
    /// The port is one side of a boundary link ([`crate::boundary`]).
    pub const BOUNDARY: u8 = 128;
}

/// What a port that is not plain has to look at, a bit each.
pub(crate) mod hook {
    pub const CONTROLLER: u8 = 1;
    pub const DEPARTURES: u8 = 2;
    pub const TELEMETRY: u8 = 4;
    /// The port draws on a shared buffer: departures are noted for it.
    pub const SHARED: u8 = 8;
    pub const LOSS: u8 = 16;
    pub const JITTER: u8 = 32;
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
pub(crate) fn offered(answer: Result<Time, DropCause>) -> Offered {
    match answer {
        Ok(Time::NEVER) => Offered::Queued(None),
        Ok(head) => Offered::Queued(Some(head)),
        Err(cause) => Offered::Dropped(Loss::Queue(cause)),
    }
}

impl Room {
    pub const FREE: Room = Room { packet: None, header: None };
}

/// What a FIFO port has to look at, as a parameter of the code that is compiled for each.
pub(crate) mod kind {
    pub const PLAIN: u8 = 0;
    pub const NOISY: u8 = 1;
    pub const ASKING: u8 = 2;
    pub const SPECIAL: u8 = 3;
}

/// What plain ports have not.
pub(crate) struct Extra {
    pub controller: Option<Box<dyn LinkController>>,
    /// What the controller looks at, and the link for one that wants no totals.
    pub looks: Looks,
    pub bare: LinkView,
    pub loss: Option<(f64, Stream)>,
    pub noise: Option<Jitter>,
    pub held_up: Option<HeldUp>,
}

impl Extra {
    /// The port is not plain.
    fn is_something(&self) -> bool {
        self.controller.is_some() || self.loss.is_some() || self.noise.is_some() || self.held_up.is_some()
    }
}

/// An output port and its link. Fields in the order a packet meets them: what an arrival at the other end touches is the first cache
/// line, what an offer touches the first two.
#[repr(C, align(64))]
pub struct Port {
    pub(crate) ring: Ring,
    /// When the server has sent all it has taken on, by its own exact clock.
    pub(crate) free_at: u64,
    pub(crate) delay: u64,
    pub(crate) queue_bytes: u64,
    pub(crate) queue_packets: u32,
    pub(crate) mode: Mode,
    /// Bits of [`flag`].
    pub(crate) flags: u8,
    /// Number of this link at the node it leads to.
    pub(crate) ingress: u16,
    // Second line.
    /// A plain FIFO takes a packet in without a look at what has left when so few were in it at the last look, ...
    pub(crate) threshold_packets: u32,
    pub(crate) framing: u32,
    /// ... and no more bytes than this with the packet.
    pub(crate) threshold_bytes: u64,
    /// So few are neither marked nor too many, by number.
    pub(crate) below: u32,
    pub(crate) queue_max: u32,
    pub(crate) accepted_packets: u64,
    pub(crate) accepted_bytes: u64,
    /// That of [`Clock::ps_per_byte`].
    pub(crate) ps_per_byte: u64,
    /// Picoseconds that all packets have been here.
    pub(crate) sojourn: Sojourn,
    /// The half that chooses among waiting packets.
    pub(crate) served: Option<Box<Served>>,
    // Third line: what a plain packet does not touch, unless it may be marked or dropped, or integrals are kept.
    pub(crate) limit_bytes: u64,
    /// What a plain port marks: a packet that finds so much.
    pub(crate) mark_bytes: u64,
    pub(crate) limit_packets: u32,
    pub(crate) mark_packets: u32,
    /// The high half of `sojourn`.
    pub(crate) sojourn_high: u64,
    changed_at: u64,
    pub(crate) integrals: Integrals,
    pub(crate) clock: Clock,
    /// Nothing at a plain port.
    pub(crate) extra: Option<Box<Extra>>,
    /// Bytes on the link of packets that were dropped, framing included.
    pub(crate) dropped_on_link: u64,
    /// Bits of [`hook`].
    pub(crate) hooks: u8,
    /// The node's calendar has an entry for it.
    pub(crate) listed: bool,
    pub(crate) number: u32,
    /// Node whose shared buffer it draws on, and its number there.
    pub(crate) node: u32,
    pub(crate) local: u16,
    pub(crate) rule: Rule,
    pub(crate) totals: Totals,
    pub(crate) rng: Stream,
    /// Sojourn times of what waits so far, minus what lies ahead of those whose departure is counted already.
    pub(crate) unsettled: i128,
    /// `None` where nothing had happened at the last reset, or there was none: then they have counted from zero.
    pub(crate) base: Option<Box<Base>>,
    /// There once the port has sent or obeyed a pause frame.
    pub(crate) pauses: Option<Box<Pauses>>,
    /// When the counters began, and up to when they have come.
    pub(crate) window: (u64, u64),
    pub(crate) sending: Sending,
    /// The latest time at which a packet has come that an earlier event had handed over: see [`Port::run_ahead`].
    pub(crate) ahead: u64,
    /// Propagation delay of the link; `delay` is 0 at the egress side of a boundary link.
    pub(crate) link_delay: u64,
}

/// For how long a port has been sending: [`Port::busy`].
#[derive(Clone, Copy, Default)]
pub(crate) struct Sending {
    /// Picoseconds up to the last change of the rate or of what had been taken into service, and the [work](Port::work) at that change.
    pub until: u64,
    pub work: u64,
    /// Picoseconds up to the last reset.
    pub at_reset: u64,
}

#[cfg(target_pointer_width = "64")]
const _: () =
    assert!(core::mem::offset_of!(Port, limit_bytes) == 128, "a plain packet touches two cache lines");

/// Counters at the last reset; those by priority of ports that schedule, which are half a kilobyte.
pub(crate) struct Base {
    pub totals: Totals,
    pub classes: Option<Box<[ClassStats; PRIORITIES]>>,
}

/// The low half of a sum of 128 bits: the high one, which hardly ever changes, lies where it does not have to be fetched.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sojourn(u64);

impl Sojourn {
    #[inline(always)]
    pub fn add(&mut self, ps: u64, high: &mut u64) {
        let over;
        (self.0, over) = self.0.overflowing_add(ps);
        if over {
            *high += 1;
        }
    }
    pub fn sub(&mut self, ps: u64, high: &mut u64) {
        let under;
        (self.0, under) = self.0.overflowing_sub(ps);
        *high -= u64::from(under);
    }
}

impl Port {
    /// A port with number `number`.
    ///
    /// # Errors
    /// A configuration that cannot work.
    pub fn new(number: u32, mut c: PortConfig) -> Result<Port, ParamError> {
        c.check()?;
        c.rule.at_port(number);
        for class in c.service.iter_mut().flat_map(|service| &mut service.classes) {
            class.rule.at_port(number);
        }
        if let Some(controller) = &mut c.controller {
            controller.at_port(number);
        }
        let noise = c.noise.filter(|(most, _)| *most != Dur::ZERO);
        let noise = noise.map(|(most, rng)| Jitter { most, rng, left_at: 0 });
        let looks = c.controller.as_ref().map_or(Looks::ARRIVALS, |x| x.looks());
        let extra = Extra {
            controller: c.controller,
            looks,
            bare: LinkView { framing: c.framing, ..LinkView::idle(c.rate) },
            loss: c.loss.filter(|(p, _)| *p > 0.0),
            noise,
            held_up: c.reorder.map(|(rule, rng)| HeldUp::new(rule, rng)),
        };
        let extra = extra.is_something().then(|| Box::new(extra));
        let departures = looks.departures != Departures::None;
        let (mark_packets, mark_bytes) = match c.rule {
            Rule::Threshold(Amount::Packets(k)) => (k, u64::MAX),
            Rule::Threshold(Amount::Bytes(k)) => (u32::MAX, k),
            _ => (u32::MAX, u64::MAX),
        };
        let clock = if c.whole_ns { Clock::whole_ns(c.rate) } else { Clock::new(c.rate) };
        let mut port = Port {
            ring: Ring::new(),
            free_at: 0,
            delay: c.delay.0,
            queue_bytes: 0,
            queue_packets: 0,
            mode: Mode::Plain,
            flags: if c.measured { flag::MEASURED } else { 0 },
            ingress: 0,
            threshold_packets: 0,
            threshold_bytes: c.limit_bytes.min(mark_bytes),
            below: c.limit_packets.min(mark_packets),
            limit_bytes: c.limit_bytes,
            mark_bytes,
            limit_packets: c.limit_packets,
            mark_packets,
            framing: c.framing,
            queue_max: 0,
            accepted_packets: 0,
            accepted_bytes: 0,
            hooks: if departures { hook::DEPARTURES } else { 0 }
                | if c.telemetry { hook::TELEMETRY } else { 0 },
            listed: false,
            number,
            node: u32::MAX,
            local: 0,
            ps_per_byte: clock.ps_per_byte(),
            sojourn: Sojourn::default(),
            sojourn_high: 0,
            clock,
            changed_at: 0,
            extra,
            served: c.service.map(|s| Box::new(Served::new(*s))),
            dropped_on_link: 0,
            integrals: Integrals::default(),
            rule: c.rule,
            totals: Totals::default(),
            rng: c.rng,
            unsettled: 0,
            base: None,
            pauses: None,
            window: (0, 0),
            sending: Sending::default(),
            ahead: 0,
            link_delay: c.delay.0,
        };
        // Rules at dequeue and telemetry are about the moment at which a packet is chosen.
        if port.served.is_none() && (port.rule.wants_dequeue() || c.telemetry) {
            port.served = Some(Box::new(Served::new(Default::default())));
        }
        port.find_mode();
        Ok(port)
    }
    pub(crate) fn find_mode(&mut self) {
        let x = self.extra.as_deref();
        let dequeue = self.rule.wants_dequeue() || self.served.as_ref().is_some_and(|s| s.dequeue_rules);
        for (bit, there) in [
            (hook::CONTROLLER, x.is_some_and(|x| x.controller.is_some())),
            (hook::LOSS, x.is_some_and(|x| x.loss.is_some())),
            (hook::JITTER, x.is_some_and(|x| x.noise.is_some())),
            (hook::HELD_UP, x.is_some_and(|x| x.held_up.is_some())),
            (hook::DEQUEUE, dequeue),
        ] {
            self.hooks |= if there { bit } else { 0 };
        }
        let mut clear = false;
        if let Some(served) = &mut self.served {
            served.find_thresholds(&self.rule, self.hooks & (hook::CONTROLLER | hook::LOSS) != 0);
            self.threshold_bytes = self.limit_bytes.min(self.mark_bytes).min(served.silent);
            clear = served.is_below_thresholds();
        }
        let asks = matches!(self.rule, Rule::Other(_));
        self.mode = match self.hooks {
            _ if self.served.is_some() => Mode::Served,
            0 if asks => Mode::Asking,
            0 => Mode::Plain,
            hook::JITTER if !asks => Mode::Noisy,
            _ => Mode::Special,
        };
        let alone = self.hooks & (hook::HELD_UP | hook::SHARED) == 0;
        let asked = hook::JITTER | hook::DEQUEUE | hook::DEPARTURES | hook::TELEMETRY;
        self.flags &= flag::MEASURED | flag::TAKEN | flag::BOUNDARY;
        let inside = self.flags & flag::BOUNDARY == 0;
        for (bit, so) in [
            (flag::DIRECT, alone && self.mode != Mode::Served && inside),
            (flag::ALONE, alone && self.mode == Mode::Served),
            (flag::ASKED, self.hooks & asked != 0),
            (flag::SILENT, clear && self.hooks & asked == hook::DEQUEUE),
            (flag::SEEN_OFF, self.mode == Mode::Special && self.hooks & hook::DEPARTURES != 0),
        ] {
            self.flags |= if so { bit } else { 0 };
        }
    }

    /// The timing noise of a host's port.
    #[inline(always)]
    pub(crate) fn noise(&mut self) -> Option<&mut Jitter> {
        self.extra.as_deref_mut()?.noise.as_mut()
    }
    pub(crate) fn held_up(&mut self) -> Option<&mut HeldUp> {
        self.extra.as_deref_mut()?.held_up.as_mut()
    }
    pub(crate) fn controller_mut(&mut self) -> Option<&mut Box<dyn LinkController>> {
        self.extra.as_deref_mut()?.controller.as_mut()
    }
    /// The controller, where it wants no totals, and what it looks at instead.
    #[inline(always)]
    pub(crate) fn controller_of_bare(&mut self) -> Option<(&mut Box<dyn LinkController>, &LinkView)> {
        let Extra { controller, looks, bare, .. } = self.extra.as_deref_mut()?;
        let controller = controller.as_mut().filter(|_| !looks.totals)?;
        Some((controller, bare))
    }
    /// When the transmission of so many bytes ends that begins at `t`.
    #[inline(always)]
    pub(crate) fn finish(&mut self, t: u64, bytes: u64) -> u64 {
        match self.ps_per_byte {
            0 => self.clock.finish(t, bytes),
            each => t + bytes * each,
        }
    }
    /// The node of the port has made a pause frame: its rules are told.
    pub(crate) fn note_pause_frame(&mut self) {
        self.rule.on_pause_frame();
        if let Some(served) = &mut self.served {
            served.classes.iter_mut().for_each(|class| class.rule.on_pause_frame());
        }
    }
    /// When a pause frame of so many bytes is on the wire that begins at `t`: it takes nothing of the port's own clock.
    pub(crate) fn frame_sent(&self, t: u64, bytes: u32) -> u64 {
        let (bytes, mut clock) = (u64::from(bytes + self.framing), self.clock);
        match clock.counts_whole_ns() {
            true => clock.finish(t, bytes),
            false => t + (Bytes(bytes) / self.rate()).0,
        }
    }
    pub(crate) fn sojourn_sum(&self) -> u128 {
        u128::from(self.sojourn_high) << 64 | u128::from(self.sojourn.0)
    }
    #[inline]
    pub(crate) fn account(&mut self, t: u64) {
        if self.flags & flag::MEASURED == 0 {
            return;
        }
        if self.queue_packets == 0 {
            // Nothing is added, to the last bit.
            self.changed_at = t;
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
    #[inline(always)]
    pub(crate) fn view(&self) -> LinkView {
        let framing = u64::from(self.framing);
        let accepted = self.accepted_bytes + framing * self.accepted_packets;
        let queue_bytes = self.queue_bytes + framing * u64::from(self.queue_packets);
        LinkView {
            capacity: self.rate(),
            queue_packets: self.queue_packets,
            queue_bytes,
            arrived_bytes: accepted + self.dropped_on_link,
            departed_bytes: accepted - queue_bytes,
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
            Mode::Plain | Mode::Noisy | Mode::Asking => self.advance_fifo::<false, S>(now.0, seg),
            Mode::Special => self.advance_special(now.0, seg),
            Mode::Served => self.advance_served(now.0, seg, fx),
        }
    }
    #[inline(never)]
    fn advance_special<S: Segments>(&mut self, now: u64, seg: &mut S) {
        self.advance_fifo::<true, S>(now, seg);
    }
    #[inline(always)]
    pub(crate) fn advance_fifo<const SPECIAL: bool, S: Segments>(&mut self, now: u64, seg: &mut S) {
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
        if SPECIAL && self.hooks & hook::DEPARTURES != 0 {
            let every = self.extra.as_ref().is_some_and(|x| x.looks.departures == Departures::All);
            if every || !self.ring.at(at).is_ack() {
                self.after_departure(at, seg);
            }
        }
    }
    #[inline(never)]
    fn after_departure<S: Segments>(&mut self, at: u32, seg: &mut S) {
        let cell = *self.ring.at(at);
        if let Some((c, view)) = self.controller_of_bare() {
            let (packet, header) = seg.segment(cell.packet);
            c.on_departure(Time(cell.time), view, packet, header);
            return;
        }
        let view = self.view();
        let (packet, header) = seg.segment(cell.packet);
        packet.ecn = cell.ecn();
        if let Some(c) = self.controller_mut() {
            c.on_departure(Time(cell.time), &view, packet, header);
        }
        self.ring.at_mut(at).set_ecn(packet.ecn);
    }

    // ---- the other end -----------------------------------------------------------------------------------

    /// The event announced for `now`.
    #[inline(always)]
    pub fn arrive<S: Segments>(&mut self, now: Time, seg: &mut S, fx: &mut Effects) -> Arrival {
        match self.arrive_fast(now, seg) {
            Some((cell, next)) => Arrival::of(cell, next),
            None if self.mode == Mode::Served && self.hooks & hook::HELD_UP == 0 => {
                let mut cell = Cell::default();
                match self.arrive_served(now, None, seg, fx, &mut cell) {
                    (true, next) => Arrival::of(cell, next),
                    (false, next) => Arrival::none(next),
                }
            }
            None => self.arrive_special(now, seg, fx),
        }
    }
    /// The same where it is the head of the ring at the other end and nothing else: the packet, and when the next one arrives there.
    #[inline(always)]
    pub(crate) fn arrive_fast<S: Segments>(&mut self, now: Time, seg: &mut S) -> Option<(Cell, Time)> {
        if self.flags & flag::DIRECT == 0 {
            return None;
        }
        if self.ring.departing == self.ring.head {
            if self.mode == Mode::Special {
                self.advance_special(now.0, seg);
            } else {
                self.advance_fifo::<false, S>(now.0, seg);
            }
        }
        debug_assert_eq!(self.next_arrival(), now);
        Some(self.pop_fifo())
    }
    /// It chooses among waiting packets, or is asked when they leave.
    pub fn is_served(&self) -> bool {
        self.mode == Mode::Served
    }
    /// A port that schedules, shares no buffer and holds nothing up.
    #[inline(always)]
    pub fn serves_alone(&self) -> bool {
        self.flags & flag::ALONE != 0
    }
    /// A FIFO that shares a buffer and has nothing else to look at but what a plain one has.
    #[inline(always)]
    pub(crate) fn is_plain_in_buffer(&self) -> bool {
        self.mode == Mode::Special && self.hooks == hook::SHARED && !matches!(self.rule, Rule::Other(_))
    }
    /// Takes the head of the ring of a FIFO, which has left the port, and says when the next arrives at the other end.
    #[inline(always)]
    pub(crate) fn pop_fifo(&mut self) -> (Cell, Time) {
        let mut cell = self.ring.pop();
        cell.ingress = self.ingress;
        (cell, self.next_arrival())
    }
    /// When the head of the ring arrives at the other end.
    #[inline]
    pub fn next_arrival(&self) -> Time {
        if self.ring.is_empty() {
            Time::NEVER
        } else {
            Time(self.ring.at(self.ring.head).time + self.delay)
        }
    }
    #[inline(never)]
    fn arrive_special<S: Segments>(&mut self, now: Time, seg: &mut S, fx: &mut Effects) -> Arrival {
        self.advance(now, seg, fx);
        self.pop(now, fx)
    }
    /// The same after [`Self::advance`].
    #[inline(always)]
    pub(crate) fn pop(&mut self, now: Time, fx: &mut Effects) -> Arrival {
        if self.hooks & hook::HELD_UP != 0 {
            if let Some(mut cell) = self.held_up().and_then(|h| h.due(now.0)) {
                cell.ingress = self.ingress;
                return Arrival::of(cell, Time::NEVER);
            }
        }
        if self.next_arrival() != now || self.ring.head == self.ring.departing {
            return Arrival::none(Time::NEVER);
        }
        let mut cell = self.ring.pop();
        let next = self.next_arrival();
        if self.hooks & hook::HELD_UP != 0 {
            let number = self.number;
            if let Some((held_up, extra)) = self.held_up().and_then(|h| h.draw().map(|extra| (h, extra))) {
                held_up.push(now.0 + extra.0, cell);
                fx.announce(now + extra, number);
                return Arrival::none(next);
            }
        }
        cell.ingress = self.ingress;
        Arrival::of(cell, next)
    }

    /// Packets that have left, or by [`flag::TAKEN`] are about to, and still take room in the shared buffer; they do no longer.
    pub(crate) fn take_departed(&mut self, mut release: impl FnMut(&Cell)) {
        let serving = self.flags & flag::TAKEN != 0 && self.ring.is_busy();
        let end = self.ring.departing.wrapping_add(u32::from(serving));
        while self.ring.unreleased != end {
            release(self.ring.at(self.ring.unreleased));
            self.ring.unreleased = self.ring.unreleased.wrapping_add(1);
        }
    }

    // ---- the controller's clock --------------------------------------------------------------------------

    /// Next time the controller wants to act.
    pub fn deadline(&self) -> Time {
        self.controller().map_or(Time::NEVER, |c| c.deadline())
    }
    /// The controller's deadline has come.
    pub fn on_deadline<S: Segments>(&mut self, now: Time, seg: &mut S, fx: &mut Effects) {
        self.advance(now, seg, fx);
        self.tell_deadline(now);
    }
    /// The same after [`Self::advance`].
    pub(crate) fn tell_deadline(&mut self, now: Time) {
        let view = self.view();
        if let Some(c) = self.controller_mut() {
            if c.deadline() <= now {
                c.on_deadline(now, &view);
            }
        }
    }
}
