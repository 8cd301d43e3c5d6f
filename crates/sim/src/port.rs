//! An output port: a FIFO queue, its discipline, an optional link controller, and the link behind it.
//!
//! On a FIFO port of fixed rate the departure of a packet is known when it arrives, `max(now, free) + size /
//! rate`, so one event per packet and link is enough: departures are replayed, at the time they happened,
//! when somebody next looks at the port.
//!
//! A host's port has timing noise: data leave up to `send_jitter` later than that, in order. Without it
//! hosts of equal rate stay in step for ever, and which of them finds the one free place in a full buffer is decided once
//! and for all.

use penstock_core::{Backlog, CcHeader, DropCause, Ecn, LinkController, LinkView, Packet, Stream, Verdict};
use penstock_models::Queue;
use penstock_units::{Dur, Rate, Time, PS_PER_S};

/// Packets and their headers, by slot. Slots are recycled, so memory follows the packets in flight.
#[derive(Default)]
pub struct Arena {
    /// Packets.
    pub packets: Vec<Packet>,
    /// Congestion headers, in the same slots; one shared entry when no protocol of the run uses them.
    pub headers: Vec<CcHeader>,
    free: Vec<u32>,
    with_headers: bool,
}

impl Arena {
    /// An empty arena; headers are kept per packet only when asked for.
    pub fn new(with_headers: bool) -> Arena {
        Arena { packets: Vec::new(), headers: vec![CcHeader::NONE], free: Vec::new(), with_headers }
    }
    /// A free slot.
    #[inline]
    pub fn alloc(&mut self) -> u32 {
        if let Some(id) = self.free.pop() {
            return id;
        }
        self.packets.push(Packet::default());
        if self.with_headers {
            self.headers.push(CcHeader::NONE);
        }
        self.packets.len() as u32 - 1
    }
    /// Gives a slot back.
    #[inline]
    pub fn release(&mut self, id: u32) {
        self.free.push(id);
    }
    /// Slot of the header of packet `id`.
    #[inline]
    pub fn header_slot(&self, id: u32) -> usize {
        if self.with_headers {
            id as usize + 1
        } else {
            0
        }
    }
    /// A packet and its header.
    #[inline]
    pub fn get(&mut self, id: u32) -> (&mut Packet, &mut CcHeader) {
        let slot = self.header_slot(id);
        (&mut self.packets[id as usize], &mut self.headers[slot])
    }
    /// Packets in use.
    pub fn live(&self) -> u64 {
        (self.packets.len() - self.free.len()) as u64
    }
}

#[derive(Clone, Copy)]
struct Slot {
    /// When the last bit leaves.
    finish: u64,
    packet: u32,
    bytes: u32,
}

/// Packets of one link in order: waiting, in service, or on the wire. Indices run freely; the mask folds them.
struct Ring {
    slots: Box<[Slot]>,
    /// First packet that has not arrived at the other end.
    head: u32,
    /// First packet that has not left the port.
    departing: u32,
    /// One past the last packet.
    tail: u32,
}

impl Ring {
    fn new() -> Ring {
        Ring {
            slots: vec![Slot { finish: 0, packet: 0, bytes: 0 }; 16].into(),
            head: 0,
            departing: 0,
            tail: 0,
        }
    }
    #[inline]
    fn at(&self, i: u32) -> Slot {
        self.slots[i as usize & (self.slots.len() - 1)]
    }
    #[inline]
    fn push(&mut self, slot: Slot) {
        if (self.tail - self.head) as usize == self.slots.len() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        self.slots[self.tail as usize & mask] = slot;
        self.tail = self.tail.wrapping_add(1);
    }
    #[cold]
    fn grow(&mut self) {
        let mut bigger = vec![Slot { finish: 0, packet: 0, bytes: 0 }; self.slots.len() * 2];
        let count = self.tail.wrapping_sub(self.head);
        for i in 0..count {
            bigger[i as usize] = self.at(self.head.wrapping_add(i));
        }
        self.departing = self.departing.wrapping_sub(self.head);
        self.head = 0;
        self.tail = count;
        self.slots = bigger.into();
    }
}

/// Counters of a port since the last reset.
#[derive(Clone, Copy, Debug, Default)]
pub struct PortStats {
    /// Packets that arrived, dropped ones included.
    pub arrived_packets: u64,
    /// Their bytes on the wire.
    pub arrived_bytes: u64,
    /// Packets that left.
    pub departed_packets: u64,
    /// Their bytes, framing included.
    pub departed_bytes: u64,
    /// Drops by cause.
    pub drops: [u64; DropCause::COUNT],
    /// Packets marked CE and queued: one that is marked and then lost is a drop.
    pub marks: u64,
    /// Most packets in the port at once (waiting plus in service).
    pub queue_max: u32,
    /// Sum of the times packets spent in the port, packet-picoseconds: by Little's law the mean queue, for all ports.
    pub sojourn: u128,
    /// Time integral of the packets in the port, packet-picoseconds; NaN where it is not kept, as the next two.
    pub queue_integral: f64,
    /// Time integral of its square.
    pub queue_square_integral: f64,
    /// Time integral of the bytes in the port, byte-picoseconds.
    pub byte_integral: f64,
}

/// Limits and behaviour of a port.
pub struct PortConfig {
    /// Link rate.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Dur,
    /// Most packets in the port (waiting plus in service).
    pub limit_packets: u32,
    /// Most bytes in the port.
    pub limit_bytes: u64,
    /// Bytes of framing per packet on the wire (38 for Ethernet: preamble, header, FCS, gap).
    pub framing: u32,
    /// Discipline.
    pub queue: Queue,
    /// Router's controller.
    pub controller: Option<Box<dyn LinkController>>,
    /// Probability that a packet is lost at random.
    pub loss: f64,
    /// Timing noise of a host: packets of its senders leave up to so much later than exact. Its own stream.
    pub jitter: Option<(Dur, Stream)>,
    /// Keep time integrals of the queue; counters are kept always.
    pub measured: bool,
}

/// Counters that only grow.
#[derive(Clone, Copy, Default)]
struct Totals {
    accepted_packets: u64,
    accepted_bytes: u64,
    dropped_bytes: u64,
    departed_packets: u64,
    departed_bytes: u64,
    drops: [u64; DropCause::COUNT],
    marks: u64,
    /// Time in the port, of every accepted packet to its departure.
    sojourn: u128,
}

/// Time integrals of the queue since the last reset.
#[derive(Clone, Copy, Default)]
struct Integrals {
    packets: f64,
    packets_squared: f64,
    bytes: f64,
}

/// Timing noise of a host's port.
struct Noise {
    most: Dur,
    rng: Stream,
    /// When the latest packet leaves, so that the next one does not overtake it.
    left_at: u64,
}

/// An output port and its link. Fields in the order a packet meets them, so that a plain port is three cache lines.
#[repr(C, align(64))]
pub struct Port {
    ring: Ring,
    free_at: u64,
    delay: u64,
    queue_packets: u32,
    limit_packets: u32,
    queue_bytes: u64,
    /// Something beyond a plain FIFO has to be looked at for every packet: a controller, random loss, a shared
    /// buffer, timing noise. Plain ports run code compiled without these.
    special: bool,
    measured: bool,
    hooks_departures: bool,
    framing: u32,
    limit_bytes: u64,
    /// Picoseconds per byte when they are whole, else 0.
    ps_per_byte: u64,
    queue: Queue,
    rate: Rate,
    queue_max: u32,
    /// Departures are not counted: what was accepted and is not in the queue has left.
    totals: Totals,
    changed_at: u64,
    integrals: Integrals,
    loss: f64,
    /// Numerator carried by rates that do not divide: no drift at any rate.
    remainder: u64,
    controller: Option<Box<dyn LinkController>>,
    noise: Option<Box<Noise>>,
    /// Packets in the port by class, where a shared buffer asks; `None` = nobody does.
    held: Option<Box<[u32; 64]>>,
    /// Totals at the last reset.
    base: Totals,
    /// Part of [`Totals::sojourn`] that lay ahead at the last [`Self::settle`].
    ahead: u128,
    rng: Stream,
    loss_rng: Stream,
}

/// What became of a packet offered to a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offered {
    /// Queued; the time is given when the packet is the next to arrive at the other end.
    Queued(Option<Time>),
    /// Dropped.
    Dropped(DropCause),
}

impl Port {
    /// A port; `rng` feeds the discipline, `loss_rng` random loss.
    pub fn new(c: PortConfig, rng: Stream, loss_rng: Stream) -> Port {
        let ps_per_8_bits = 8 * PS_PER_S;
        let has_controller = c.controller.is_some();
        let noise = c.jitter.filter(|(most, _)| *most != Dur::ZERO);
        let noise = noise.map(|(most, rng)| Box::new(Noise { most, rng, left_at: 0 }));
        let hooks_departures = c.controller.as_ref().is_some_and(|x| x.wants_departures());
        Port {
            ring: Ring::new(),
            free_at: 0,
            delay: c.delay.0,
            ps_per_byte: if ps_per_8_bits.is_multiple_of(c.rate.0) { ps_per_8_bits / c.rate.0 } else { 0 },
            queue_packets: 0,
            limit_packets: c.limit_packets,
            queue_bytes: 0,
            limit_bytes: c.limit_bytes,
            changed_at: 0,
            framing: c.framing,
            loss: c.loss,
            rate: c.rate,
            remainder: 0,
            queue: c.queue,
            controller: c.controller,
            hooks_departures,
            special: has_controller || c.loss > 0.0 || noise.is_some(),
            noise,
            held: None,
            measured: c.measured,
            queue_max: 0,
            totals: Totals::default(),
            base: Totals::default(),
            ahead: 0,
            integrals: Integrals::default(),
            rng,
            loss_rng,
        }
    }
    /// Link rate.
    pub fn rate(&self) -> Rate {
        self.rate
    }
    /// When the port has sent all it has accepted, by its own exact clock: timing noise delays packets, not the port.
    pub fn free_at(&self) -> Time {
        Time(self.free_at)
    }
    /// Packets in the port (waiting plus in service) after the last [`Self::advance`].
    pub fn queue_packets(&self) -> u32 {
        self.queue_packets
    }
    /// Bytes in the port after the last [`Self::advance`].
    pub fn queue_bytes(&self) -> u64 {
        self.queue_bytes
    }
    /// Counts packets by class from now on, for a shared buffer.
    pub fn share(&mut self) {
        self.held = Some(Box::new([0; 64]));
        self.special = true;
    }
    /// True when the port draws on a shared buffer.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.held.is_some()
    }
    /// Packets of `class` in the port after the last [`Self::advance`]; 0 unless [`Self::share`] was called.
    pub fn held(&self, class: u8) -> u32 {
        self.held.as_ref().map_or(0, |h| h[class as usize])
    }
    /// Packets in the port or on the wire.
    pub fn packets_held(&self) -> u64 {
        u64::from(self.ring.tail.wrapping_sub(self.ring.head))
    }
    /// The router's controller.
    pub fn controller(&self) -> Option<&dyn LinkController> {
        self.controller.as_deref()
    }
    /// Counters and integrals since the last reset, as of the last [`Self::settle`].
    pub fn stats(&self) -> PortStats {
        let (now, base) = (self.totals_now(), &self.base);
        let dropped = |t: &Totals| t.drops.iter().sum::<u64>();
        let unmeasured = if self.measured { 0.0 } else { f64::NAN };
        let departed_packets = now.departed_packets - base.departed_packets;
        PortStats {
            arrived_packets: now.accepted_packets + dropped(&now) - base.accepted_packets - dropped(base),
            arrived_bytes: now.accepted_bytes + now.dropped_bytes - base.accepted_bytes - base.dropped_bytes,
            departed_packets,
            departed_bytes: now.departed_bytes - base.departed_bytes
                + departed_packets * u64::from(self.framing),
            drops: std::array::from_fn(|i| now.drops[i] - base.drops[i]),
            marks: now.marks - base.marks,
            queue_max: self.queue_max,
            sojourn: now.sojourn - base.sojourn,
            queue_integral: self.integrals.packets + unmeasured,
            queue_square_integral: self.integrals.packets_squared + unmeasured,
            byte_integral: self.integrals.bytes + unmeasured,
        }
    }
    fn totals_now(&self) -> Totals {
        Totals {
            departed_packets: self.totals.accepted_packets - u64::from(self.queue_packets),
            departed_bytes: self.totals.accepted_bytes - self.queue_bytes,
            sojourn: self.totals.sojourn - self.ahead,
            ..self.totals
        }
    }
    /// Starts counting anew: everything before `now` is warm-up.
    pub fn reset_stats(&mut self, now: Time, arena: &mut Arena) {
        self.settle(now, arena);
        self.base = self.totals_now();
        self.integrals = Integrals::default();
        self.queue_max = self.queue_packets;
    }
    /// Brings the integrals up to `now`.
    pub fn settle(&mut self, now: Time, arena: &mut Arena) {
        self.advance(now, arena);
        self.account(now.0);
        let waiting = self.ring.tail.wrapping_sub(self.ring.departing);
        let left = |i| u128::from(self.ring.at(self.ring.departing.wrapping_add(i)).finish - now.0);
        self.ahead = (0..waiting).map(left).sum();
    }

    #[inline]
    fn account(&mut self, t: u64) {
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

    /// Bytes of the packet in service, 0 when the port is idle.
    #[inline]
    fn serving(&self) -> u32 {
        if self.ring.departing == self.ring.tail {
            0
        } else {
            self.ring.at(self.ring.departing).bytes
        }
    }
    /// What a link controller sees: bytes on the link, framing included.
    fn view(&self) -> LinkView {
        let (t, framing) = (&self.totals, u64::from(self.framing));
        let dropped = t.drops.iter().sum::<u64>();
        LinkView {
            capacity: self.rate,
            queue_packets: self.queue_packets,
            queue_bytes: self.queue_bytes + framing * u64::from(self.queue_packets),
            arrived_bytes: t.accepted_bytes + t.dropped_bytes + framing * (t.accepted_packets + dropped),
            departed_bytes: t.accepted_bytes - self.queue_bytes
                + framing * (t.accepted_packets - u64::from(self.queue_packets)),
            framing: self.framing,
        }
    }

    /// Replays the departures up to and including `now`.
    #[inline]
    pub fn advance(&mut self, now: Time, arena: &mut Arena) {
        if self.special {
            self.advance_as::<true>(now, arena);
        } else {
            self.advance_as::<false>(now, arena);
        }
    }
    #[inline(always)]
    fn advance_as<const SPECIAL: bool>(&mut self, now: Time, arena: &mut Arena) {
        while self.ring.departing != self.ring.tail {
            let slot = self.ring.at(self.ring.departing);
            if slot.finish > now.0 {
                break;
            }
            self.account(slot.finish);
            self.queue_packets -= 1;
            self.queue_bytes -= u64::from(slot.bytes);
            self.ring.departing = self.ring.departing.wrapping_add(1);
            if !SPECIAL {
                continue;
            }
            if let Some(held) = &mut self.held {
                held[arena.packets[slot.packet as usize].class() as usize] -= 1;
            }
            if self.hooks_departures {
                let view = self.view();
                let (packet, header) = arena.get(slot.packet);
                if let Some(c) = &mut self.controller {
                    c.on_departure(Time(slot.finish), &view, packet, header);
                }
            }
        }
    }

    #[inline]
    fn serialise(&mut self, bytes: u64) -> u64 {
        if self.ps_per_byte != 0 {
            return bytes * self.ps_per_byte;
        }
        let work = bytes as u128 * (8 * PS_PER_S) as u128 + self.remainder as u128;
        self.remainder = (work % self.rate.0 as u128) as u64;
        (work / self.rate.0 as u128) as u64
    }

    /// A packet arrives at the port.
    #[inline]
    pub fn offer(&mut self, now: Time, id: u32, arena: &mut Arena) -> Offered {
        if self.special {
            self.offer_as::<true>(now, id, arena, Verdict::Accept)
        } else {
            self.offer_as::<false>(now, id, arena, Verdict::Accept)
        }
    }

    /// A packet arrives at the port of a router whose shared buffer has decided `pool` about it.
    pub fn offer_shared(&mut self, now: Time, id: u32, arena: &mut Arena, pool: Verdict) -> Offered {
        self.offer_as::<true>(now, id, arena, pool)
    }

    #[inline(always)]
    fn offer_as<const SPECIAL: bool>(
        &mut self,
        now: Time,
        id: u32,
        arena: &mut Arena,
        pool: Verdict,
    ) -> Offered {
        self.advance_as::<SPECIAL>(now, arena);
        let slot = arena.header_slot(id);
        let packet = &mut arena.packets[id as usize];
        let bytes = packet.wire_len;
        if SPECIAL && self.controller.is_some() {
            let view = self.view();
            if let Some(c) = &mut self.controller {
                c.on_arrival(now, &view, packet, &mut arena.headers[slot]);
            }
        }
        let full = self.queue_packets >= self.limit_packets
            || self.queue_bytes + u64::from(bytes) > self.limit_bytes;
        let backlog = Backlog {
            packets: self.queue_packets,
            bytes: self.queue_bytes,
            serving: self.serving(),
            idle_since: Time(match &self.noise {
                Some(noise) if SPECIAL => self.free_at.max(noise.left_at),
                _ => self.free_at,
            }),
            rate: self.rate,
        };
        let mut cause = full.then_some(DropCause::Overflow);
        let mut mark = false;
        match self.queue.admit(now, &backlog, packet, full, &mut self.rng) {
            Verdict::Accept => {}
            Verdict::Mark if full => {}
            Verdict::Mark => {
                if packet.ecn == Ecn::NotEct {
                    cause = Some(DropCause::NotEct);
                } else {
                    mark = true;
                }
            }
            Verdict::Drop(c) => cause = cause.or(Some(c)),
        }
        if SPECIAL && self.loss > 0.0 && cause.is_none() && self.loss_rng.uniform() < self.loss {
            cause = Some(DropCause::Random);
        }
        match pool {
            Verdict::Accept => {}
            Verdict::Drop(c) => cause = cause.or(Some(c)),
            Verdict::Mark if packet.ecn == Ecn::NotEct => cause = cause.or(Some(DropCause::NotEct)),
            Verdict::Mark => mark = true,
        }
        if let Some(cause) = cause {
            self.totals.drops[cause as usize] += 1;
            self.totals.dropped_bytes += u64::from(bytes);
            if self.controller.is_some() {
                let view = self.view();
                if let Some(c) = &mut self.controller {
                    c.on_drop(now, &view, packet, &arena.headers[slot]);
                }
            }
            return Offered::Dropped(cause);
        }
        if mark {
            packet.ecn = Ecn::Ce;
            self.totals.marks += 1;
        }
        let data = SPECIAL && packet.payload > 0;
        self.account(now.0);
        let start = self.free_at.max(now.0);
        let mut finish = start + self.serialise(u64::from(bytes + self.framing));
        self.free_at = finish;
        if SPECIAL {
            if let Some(noise) = &mut self.noise {
                if data {
                    // The packet comes late, the port's clock stays exact: a late packet delays none behind it, no capacity
                    // is lost, and the noise of a burst does not add up.
                    finish += noise.rng.dur_below(noise.most).0;
                }
                finish = finish.max(noise.left_at);
                noise.left_at = finish;
            }
        }
        let first = self.ring.head == self.ring.tail;
        self.ring.push(Slot { finish, packet: id, bytes });
        self.queue_packets += 1;
        if SPECIAL {
            if let Some(held) = &mut self.held {
                held[arena.packets[id as usize].class() as usize] += 1;
            }
        }
        self.queue_bytes += u64::from(bytes);
        self.totals.accepted_packets += 1;
        self.totals.accepted_bytes += u64::from(bytes);
        self.totals.sojourn += u128::from(finish - now.0);
        self.queue_max = self.queue_max.max(self.queue_packets);
        Offered::Queued(first.then_some(Time(finish + self.delay)))
    }

    /// The next packet arrives at the other end: the packet, and when the one behind it will.
    #[inline]
    pub fn arrive(&mut self, now: Time, arena: &mut Arena) -> (u32, Option<Time>) {
        if self.ring.departing == self.ring.head {
            self.advance(now, arena);
        }
        let slot = self.ring.at(self.ring.head);
        debug_assert_eq!(slot.finish + self.delay, now.0);
        self.ring.head = self.ring.head.wrapping_add(1);
        let next = (self.ring.head != self.ring.tail)
            .then(|| Time(self.ring.at(self.ring.head).finish + self.delay));
        (slot.packet, next)
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

    /// Next time the controller wants to act.
    pub fn deadline(&self) -> Time {
        self.controller.as_ref().map_or(Time::NEVER, |c| c.deadline())
    }
    /// The controller's deadline has come.
    pub fn on_deadline(&mut self, now: Time, arena: &mut Arena) {
        self.advance(now, arena);
        let view = self.view();
        if let Some(c) = &mut self.controller {
            if c.deadline() <= now {
                c.on_deadline(now, &view);
            }
        }
    }
}
