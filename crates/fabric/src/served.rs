//! The half of a port that chooses among waiting packets: what it counts, the replay of its choices, packets that only
//! limits and a threshold decide about. The others are in `admit.rs`, pause and failures in `outage.rs`.

use crate::arena::{Effects, Loss, Lost, Offered, Segments};
use crate::buffer::Buffer;
use crate::cell::{Cell, PRIORITIES};
use crate::config::{ClassConfig, Service, Trim};
use crate::fetch::prefetch;
use crate::hop::Hop;
use crate::port::{flag, hook, offered, Port, Room};
use crate::rule::Rule;
use crate::schedule::Waiting;
use crate::stats::ClassStats;
use penstock_core::{DropCause, Ecn, QueueDiscipline, Verdict};
use penstock_units::{Dur, Time};

/// Who has a say when a packet leaves, or sees it, as a parameter of the code that is compiled for each.
mod asks {
    pub const NOBODY: u8 = 0;
    /// Telemetry alone.
    pub const TELEMETRY: u8 = 1;
    pub const ANYBODY: u8 = 2;
}

/// State of a port that schedules. Its first line has all that says whether a packet waits and which is next, the second one what is counted of the
/// lowest priority.
#[repr(C, align(64))]
pub(crate) struct Served {
    /// Priorities that may be served, a bit each: those that are not paused, none while the link is down.
    pub open: u8,
    /// Bit per priority that is paused.
    pub paused: u8,
    /// A packet that finds room is queued at once, as only the port's threshold decides, while the port holds no more bytes than
    /// `silent`.
    clear: bool,
    /// Some packets may be trimmed ([`Self::trim`], which is far from here in memory).
    pub trims: bool,
    /// While the port holds no more bytes than this with the packet, rules have nothing to say and no priority is full.
    pub silent: u64,
    pub waiting: Waiting,
    pub classes: [ClassConfig; PRIORITIES],
    pub trim: Option<Trim>,
    /// The link leads to a host.
    pub last_hop: bool,
    /// The rule of a class decides at dequeue too.
    pub dequeue_rules: bool,
    pub class_rules: bool,
    pub class_limits: bool,
    pub paused_since: [u64; PRIORITIES],
    pub down: bool,
    /// While the link is down, packets that arrive are lost instead of waiting for it.
    pub refuse: bool,
    /// Drops and marks by priority.
    pub lost: [u64; PRIORITIES],
    pub marked: [u64; PRIORITIES],
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(
    core::mem::offset_of!(Served, waiting) + core::mem::offset_of!(Waiting, lanes) == 64,
    "a packet of one priority touches two cache lines"
);

impl Served {
    pub fn new(service: Service) -> Served {
        let classes = service.classes;
        Served {
            open: u8::MAX,
            paused: 0,
            clear: false,
            trims: service.trim.is_some(),
            silent: u64::MAX,
            waiting: Waiting::new(service.scheduler),
            dequeue_rules: classes.iter().any(|c| c.rule.wants_dequeue()),
            class_rules: classes.iter().any(|c| !matches!(c.rule, Rule::DropTail)),
            class_limits: classes.iter().any(|c| c.limit_packets != u32::MAX || c.limit_bytes != u64::MAX),
            classes,
            trim: service.trim,
            last_hop: service.last_hop,
            paused_since: [0; PRIORITIES],
            down: false,
            refuse: false,
            lost: [0; PRIORITIES],
            marked: [0; PRIORITIES],
        }
    }
    /// See [`Port::prefetch_beside`].
    #[inline]
    pub fn prefetch(&self) {
        prefetch(&self.open);
    }
    /// Fetches that and what is counted of the lowest priority, without looking at either.
    #[inline]
    pub fn prefetch_first_lane(&self) {
        prefetch(&self.open);
        self.waiting.prefetch_first_lane();
    }
    /// Finds the priorities that may be served.
    pub fn find_open(&mut self) {
        self.open = if self.down { 0 } else { !self.paused };
    }
    /// Finds whether a packet is clear at a port with such a rule, when some hook of it asks or none, and while the port holds how much.
    pub fn find_thresholds(&mut self, rule: &Rule, hooked: bool) {
        let of_class = |c: &ClassConfig| match c.limit_packets {
            u32::MAX => c.limit_bytes.min(c.rule.silent_bytes()),
            _ => 0,
        };
        let of_port = match rule {
            // The port knows it as its own.
            Rule::Threshold(_) => u64::MAX,
            other => other.silent_bytes(),
        };
        self.silent = self.classes.iter().map(of_class).fold(of_port, u64::min);
        self.clear = !(hooked || self.down) && self.silent > 0;
    }
    /// See [`flag::SILENT`].
    pub fn is_below_thresholds(&self) -> bool {
        self.clear
    }
    /// Of a priority, packets and bytes in a port where all these have been taken for service and are not gone.
    pub fn held<'a>(&self, priority: u8, serving: impl Iterator<Item = &'a Cell>) -> (u32, u64) {
        let lane = &self.waiting.lanes[usize::from(priority)];
        let waiting = ((lane.packets_in - lane.packets_out) as u32, lane.bytes_in - lane.bytes_out);
        serving
            .filter(|c| c.priority() == priority)
            .fold(waiting, |(packets, bytes), c| (packets + 1, bytes + u64::from(c.bytes)))
    }
    /// Time for which each priority has been paused since the last call, and starts counting anew.
    pub fn paused_until(&mut self, now: u64) -> [u64; PRIORITIES] {
        core::array::from_fn(|p| match self.paused & (1 << p) {
            0 => 0,
            _ => now - core::mem::replace(&mut self.paused_since[p], now),
        })
    }
}

impl Port {
    #[inline]
    pub(crate) fn served(&mut self) -> &mut Served {
        self.served.as_mut().expect("the port schedules")
    }

    /// Packets and bytes of a priority in a port that schedules.
    fn held(&self, priority: u8) -> Option<(u32, u64)> {
        let serving = self.ring.cells_from(self.ring.departing);
        self.served.as_ref().map(|served| served.held(priority, serving))
    }
    /// Packets and bytes of `priority` in the port; of all where the port does not schedule.
    pub fn class_backlog(&self, priority: u8) -> (u32, u64) {
        self.held(priority).unwrap_or((self.queue_packets, self.queue_bytes))
    }
    /// Counters by priority since the start; `None` where the port does not schedule.
    pub(crate) fn class_totals(&self) -> Option<[ClassStats; PRIORITIES]> {
        let served = self.served.as_ref()?;
        let mut serving = [(0, 0); PRIORITIES];
        for cell in self.ring.cells_from(self.ring.departing) {
            let of = &mut serving[usize::from(cell.priority())];
            *of = (of.0 + 1, of.1 + u64::from(cell.bytes));
        }
        Some(core::array::from_fn(|i| {
            let lane = &served.waiting.lanes[i];
            ClassStats {
                arrived_packets: lane.packets_in + served.lost[i],
                departed_packets: lane.packets_out - serving[i].0,
                departed_bytes: lane.bytes_out - serving[i].1,
                drops: served.lost[i],
                marks: served.marked[i],
                sojourn: lane.sojourn,
            }
        }))
    }

    /// Replays departures and the scheduler's choices in their order up to `now`; a departure before a choice at the same
    /// instant.
    #[inline(always)]
    pub(crate) fn advance_served<S: Segments>(&mut self, now: u64, seg: &mut S, fx: &mut Effects) {
        if !self.asks_now() {
            if self.free_at <= now && !self.leaves_nothing(seg) {
                self.replay::<{ asks::NOBODY }, S>(now, seg, fx);
            }
        } else if self.hooks & (hook::JITTER | hook::DEQUEUE | hook::DEPARTURES) != 0 {
            self.advance_hooked(now, seg, fx);
        } else if self.free_at <= now && !self.leaves_nothing(seg) {
            self.replay::<{ asks::TELEMETRY }, S>(now, seg, fx);
        }
    }
    /// The beginning of [`Self::replay`], and mostly all of it: the packet in service leaves when the server is free again. True when nothing
    /// waits behind it.
    #[inline(always)]
    fn leaves_nothing<S: Segments>(&mut self, seg: &mut S) -> bool {
        if self.ring.is_busy() {
            let bytes = self.ring.at(self.ring.departing).bytes;
            self.depart::<false, S>(self.free_at, bytes, seg);
        }
        self.queue_packets == 0
    }
    /// A controller, telemetry or a rule sees packets of a port that schedules when they are chosen or leave. Until the next one comes the port holds what it does
    /// now, or less.
    #[inline(always)]
    fn asks_now(&self) -> bool {
        let silent = self.flags & flag::SILENT != 0 && self.queue_bytes <= self.threshold_bytes;
        self.flags & flag::ASKED != 0 && !silent
    }
    #[inline(never)]
    fn advance_hooked<S: Segments>(&mut self, now: u64, seg: &mut S, fx: &mut Effects) {
        if self.hooks & hook::JITTER != 0 {
            self.replay_noisy(now, seg, fx);
        } else if self.free_at <= now {
            self.replay::<{ asks::ANYBODY }, S>(now, seg, fx);
        }
    }
    /// Without noise the packet in service leaves at the instant the server is free again. `WHO`: who sees departures, or has a say at
    /// dequeue.
    #[inline(never)]
    fn replay<const WHO: u8, S: Segments>(&mut self, now: u64, seg: &mut S, fx: &mut Effects) {
        loop {
            let free_at = self.free_at;
            if self.ring.is_busy() {
                let bytes = self.ring.at(self.ring.departing).bytes;
                if WHO == asks::ANYBODY {
                    self.depart::<true, S>(free_at, bytes, seg);
                } else {
                    self.depart::<false, S>(free_at, bytes, seg);
                }
            }
            let served = self.served();
            if served.waiting.occupied() & served.open == 0 {
                return;
            }
            if let Some(head) = self.start::<WHO, S>(free_at, seg, fx) {
                fx.announce(head, self.number);
            }
            if self.free_at > now {
                return;
            }
        }
    }
    /// The same at a port that [serves alone](Port::serves_alone); `None` when the packet is not there.
    #[inline(always)]
    pub(crate) fn arrive_served_fast<S: Segments>(
        &mut self,
        now: Time,
        seg: &mut S,
        fx: &mut Effects,
    ) -> Option<(Cell, Time)> {
        // Where nobody sees a choice or a departure when it takes place, they are looked for when the next arrival depends on them.
        let seen = hook::DEQUEUE | hook::DEPARTURES | hook::TELEMETRY;
        let seen = self.asks_now() && self.hooks & seen != 0;
        if seen || self.ring.len() < 2 || self.ring.head == self.ring.departing {
            self.advance_served(now.0, seg, fx);
        }
        let ring = &self.ring;
        // The link may have failed meanwhile.
        if ring.head == ring.departing || ring.at(ring.head).time + self.delay != now.0 {
            return None;
        }
        Some(self.pop_fifo())
    }
    /// The event of a port that schedules and holds nothing up: whether a packet arrives, which is put into `into`, and when the next event is.
    /// A quiet buffer is told of the packet, unless it has been before.
    #[inline(always)]
    pub(crate) fn arrive_served<S: Segments>(
        &mut self,
        now: Time,
        buffer: Option<&mut Buffer>,
        seg: &mut S,
        fx: &mut Effects,
        into: &mut Cell,
    ) -> (bool, Time) {
        self.advance_served(now.0, seg, fx);
        let ring = &mut self.ring;
        let head = ring.head;
        let cell = ring.at(head);
        // The link may have failed meanwhile.
        if head == ring.departing || cell.time + self.delay != now.0 {
            return (false, Time::NEVER);
        }
        if let Some(buffer) = buffer.filter(|_| ring.unreleased == head) {
            buffer.release_quiet(self.local, cell);
            ring.unreleased = head.wrapping_add(1);
        }
        *into = *ring.at(head);
        into.ingress = self.ingress;
        ring.head = head.wrapping_add(1);
        (true, self.next_arrival())
    }
    fn replay_noisy<S: Segments>(&mut self, now: u64, seg: &mut S, fx: &mut Effects) {
        loop {
            let leaves = if self.ring.is_busy() { self.ring.at(self.ring.departing).time } else { u64::MAX };
            let free_at = self.free_at;
            let served = self.served();
            let starts = if served.waiting.occupied() & served.open != 0 { free_at } else { u64::MAX };
            if leaves.min(starts) > now {
                return;
            }
            if leaves <= starts {
                let bytes = self.ring.at(self.ring.departing).bytes;
                self.depart::<true, S>(leaves, bytes, seg);
            } else if let Some(head) = self.start::<{ asks::ANYBODY }, S>(starts, seg, fx) {
                fx.announce(head, self.number);
            }
        }
    }

    /// The server is free at `t` and takes the next packet, when there is one. Answers its arrival at the other end when
    /// nothing else is under way there.
    #[inline(always)]
    fn start<const WHO: u8, S: Segments>(&mut self, t: u64, seg: &mut S, fx: &mut Effects) -> Option<Time> {
        if WHO == asks::ANYBODY {
            return self.start_hooked(t, seg, fx);
        }
        let served = self.served.as_mut().expect("the port schedules");
        let open = served.waiting.occupied() & served.open;
        if open == 0 {
            return None;
        }
        let Some(line) = served.waiting.next(open) else {
            let cell = served.waiting.take_by_rule(open, |c| seg.flow(c))?;
            if WHO == asks::TELEMETRY {
                self.write_telemetry(t, cell.packet, cell.bytes, seg);
            }
            return self.launch_taken(t, &cell);
        };
        if WHO == asks::TELEMETRY {
            let Cell { packet, bytes, .. } = *served.waiting.first(line);
            self.write_telemetry(t, packet, bytes, seg);
        }
        let served = self.served.as_mut().expect("the port schedules");
        let cell = served.waiting.first(line);
        let (bytes, priority, since) = (cell.bytes, cell.priority(), cell.time);
        let length = u64::from(bytes) + u64::from(self.framing);
        // What `Port::finish` does, with `served` borrowed.
        let finish = match self.ps_per_byte {
            0 => self.clock.finish(t, length),
            each => t + length * each,
        };
        self.free_at = finish;
        let first = self.ring.is_empty();
        self.ring.push_at(cell, finish);
        let lane = served.waiting.pass_first(line, priority, bytes);
        let sojourn = finish - since;
        self.sojourn.add(sojourn, &mut self.sojourn_high);
        // Through i64: a signed conversion is one instruction.
        lane.sojourn += sojourn as i64 as f64;
        first.then_some(Time(finish + self.delay))
    }
    /// The same where a rule may have a say.
    pub(crate) fn start_hooked<S: Segments>(
        &mut self,
        t: u64,
        seg: &mut S,
        fx: &mut Effects,
    ) -> Option<Time> {
        loop {
            let served = self.served.as_mut().expect("the port schedules");
            let mut cell = served.waiting.pick(served.open, |c| seg.flow(c))?;
            let i = usize::from(cell.priority());
            if self.hooks & hook::DEQUEUE != 0 {
                // A packet counts once, whichever of the two rules marks it.
                let counted = cell.forget_mark();
                match self.ask_at_dequeue(t, &cell) {
                    Ok(false) => {}
                    Ok(true) => {
                        cell.set_ecn(Ecn::Ce);
                        self.totals.marks += u64::from(!counted);
                        self.served().marked[i] += u64::from(!counted);
                    }
                    Err(cause) => {
                        self.lose_waiting(t, cell, Loss::Queue(cause), seg, fx);
                        continue;
                    }
                }
            }
            if self.hooks & hook::TELEMETRY != 0 {
                self.write_telemetry(t, cell.packet, cell.bytes, seg);
            }
            return self.launch_taken(t, &cell);
        }
    }
    /// What the packet carries on of this port: a header cannot tell what happens while its own packet is sent.
    #[inline]
    fn write_telemetry<S: Segments>(&mut self, t: u64, packet: u32, length: u32, seg: &mut S) {
        let framing = u64::from(self.framing);
        let (packets, bytes) = (u64::from(self.queue_packets), self.queue_bytes);
        let sent = self.accepted_bytes - bytes + framing * (self.accepted_packets - packets);
        let left = bytes - u64::from(length) + framing * (packets - 1);
        let hop = Hop {
            port: self.number,
            at: Time(t),
            queue_bytes: u32::try_from(left).unwrap_or(u32::MAX),
            sent_bytes: sent,
            rate: self.rate(),
        };
        seg.on_hop(packet, &hop);
    }
    /// Transmission of a packet begins that had waited.
    fn launch_taken(&mut self, t: u64, cell: &Cell) -> Option<Time> {
        let mut finish = self.clock.finish(t, u64::from(cell.bytes) + u64::from(self.framing));
        self.free_at = finish;
        if self.hooks & hook::JITTER != 0 {
            if let Some(noise) = self.noise() {
                finish = noise.shift(finish, cell.is_noisy());
            }
        }
        let sojourn = finish - cell.time;
        self.sojourn.add(sojourn, &mut self.sojourn_high);
        self.served().waiting.lane_mut(cell).sojourn += sojourn as i64 as f64;
        let first = self.ring.is_empty();
        self.ring.push_at(cell, finish);
        first.then_some(Time(finish + self.delay))
    }
    /// Rules at dequeue: whether to mark, or why to drop.
    fn ask_at_dequeue(&mut self, t: u64, cell: &Cell) -> Result<bool, DropCause> {
        let (now, sojourn) = (Time(t), Dur(t - cell.time));
        let (packets, bytes) = (self.queue_packets - 1, self.queue_bytes - u64::from(cell.bytes));
        let left = self.backlog(packets, bytes, self.free_at);
        let i = usize::from(cell.priority());
        let of_port = self.rule.on_dequeue(now, sojourn, &left, &mut self.rng);
        let served = self.served.as_mut().expect("the port schedules");
        // The packet has been taken out; what the server still has on its way belongs to those before it.
        let (packets, bytes) = served.held(cell.priority(), self.ring.cells_from(self.ring.departing));
        let left = penstock_core::Backlog { packets, bytes, ..left };
        let of_class = served.classes[i].rule.on_dequeue(now, sojourn, &left, &mut self.rng);
        let mut mark = false;
        for verdict in [of_port, of_class] {
            match verdict {
                Verdict::Accept => {}
                Verdict::Mark if cell.ecn() == Ecn::NotEct => return Err(DropCause::NotEct),
                Verdict::Mark => mark = true,
                Verdict::Drop(cause) => return Err(cause),
            }
        }
        Ok(mark)
    }
    /// A packet that had been accepted and is no longer among those that wait is lost.
    pub(crate) fn lose_waiting<S: Segments>(
        &mut self,
        t: u64,
        cell: Cell,
        loss: Loss,
        seg: &mut S,
        fx: &mut Effects,
    ) {
        self.remove(t, &cell, fx);
        self.accepted_packets -= 1;
        self.accepted_bytes -= u64::from(cell.bytes);
        self.sojourn.add(t - cell.time, &mut self.sojourn_high);
        self.count_loss(Time(t), &cell, loss, seg);
        fx.lose(Lost { at: Time(t), port: self.number, cell, loss });
    }
    /// Takes a packet out of all counts of what the port holds.
    fn remove(&mut self, t: u64, cell: &Cell, fx: &mut Effects) {
        self.account(t);
        self.queue_packets -= 1;
        self.queue_bytes -= u64::from(cell.bytes);
        self.served().waiting.lane_mut(cell).count_lost(cell.bytes);
        if self.hooks & hook::SHARED != 0 {
            fx.released.push((t, *cell));
        }
    }
    pub(crate) fn count_loss<S: Segments>(&mut self, now: Time, cell: &Cell, loss: Loss, seg: &mut S) {
        self.served().lost[usize::from(cell.priority())] += 1;
        match loss {
            Loss::Queue(cause) => self.note_drop::<true, S>(now, cell, cause, seg),
            Loss::Down => {
                self.totals.down += 1;
                self.totals.dropped_bytes += u64::from(cell.bytes);
                self.dropped_on_link += u64::from(cell.bytes);
            }
        }
    }

    /// A packet arrives at a port that schedules.
    #[inline(always)]
    pub(crate) fn offer_served<S: Segments>(
        &mut self,
        now: Time,
        cell: Cell,
        room: Room,
        seg: &mut S,
        fx: &mut Effects,
    ) -> Offered {
        if room.packet.is_some() {
            self.advance_served(now.0, seg, fx);
        } else if let Some(head) = self.offer_alone(now, &cell, seg, fx) {
            return offered(Ok(head));
        }
        self.offer_with_care(now, cell, room, seg, fx)
    }
    #[inline(never)]
    fn offer_alone<S: Segments>(
        &mut self,
        now: Time,
        cell: &Cell,
        seg: &mut S,
        fx: &mut Effects,
    ) -> Option<Time> {
        self.offer_below_thresholds(now, cell, seg, fx)
    }
    /// The same where only the port's limits and threshold decide. Answers the arrival at the other end when the packet is the next there, else
    /// [`Time::NEVER`]. `None`: nothing has been done but the replay, and a rule or controller may decide, see [`Self::offer_with_care`].
    #[inline(always)]
    pub(crate) fn offer_below_thresholds<S: Segments>(
        &mut self,
        now: Time,
        cell: &Cell,
        seg: &mut S,
        fx: &mut Effects,
    ) -> Option<Time> {
        self.advance_served(now.0, seg, fx);
        let bytes = u64::from(cell.bytes);
        let served = self.served.as_mut().expect("the port schedules");
        if !served.clear {
            return None;
        }
        let marked;
        let mut cell = cell;
        if self.queue_packets >= self.below || self.queue_bytes + bytes > self.threshold_bytes {
            let room = self.limit_bytes.min(served.silent);
            if self.queue_packets >= self.limit_packets || self.queue_bytes + bytes > room {
                return None;
            }
            if self.queue_packets >= self.mark_packets || self.queue_bytes >= self.mark_bytes {
                if cell.ecn() == Ecn::NotEct {
                    return None;
                }
                marked = cell.with_ecn(Ecn::Ce);
                cell = &marked;
                self.totals.marks += 1;
                served.marked[usize::from(cell.priority())] += 1;
            }
        }
        self.take_in(now, cell.bytes);
        let served = self.served.as_mut().expect("the port schedules");
        // After the replay an idle server has nothing that it may serve but this packet.
        if self.free_at > now.0 || served.open >> cell.priority() & 1 == 0 {
            served.waiting.push(cell, now.0);
            return Some(Time::NEVER);
        }
        // Rules at dequeue alone have no say here.
        let asked = self.flags & (flag::ASKED | flag::SILENT) == flag::ASKED;
        if asked && self.hooks & hook::TELEMETRY != 0 {
            self.write_telemetry(now.0, cell.packet, cell.bytes, seg);
        }
        let mut finish = self.finish(now.0, bytes + u64::from(self.framing));
        self.free_at = finish;
        if asked && self.hooks & hook::JITTER != 0 {
            if let Some(noise) = self.noise() {
                finish = noise.shift(finish, cell.is_noisy());
            }
        }
        let sojourn = finish - now.0;
        self.sojourn.add(sojourn, &mut self.sojourn_high);
        let lane = self.served.as_mut().expect("the port schedules").waiting.lane_mut(cell);
        lane.count_in(cell.bytes);
        lane.count_out(cell.bytes);
        lane.sojourn += sojourn as i64 as f64;
        let first = self.ring.is_empty();
        self.ring.push_at(cell, finish);
        Some(if first { Time(finish + self.delay) } else { Time::NEVER })
    }
    /// Counts a packet in that will wait or begin its transmission.
    #[inline(always)]
    pub(crate) fn take_in(&mut self, now: Time, bytes: u32) {
        self.account(now.0);
        self.queue_packets += 1;
        self.queue_bytes += u64::from(bytes);
        self.accepted_packets += 1;
        self.accepted_bytes += u64::from(bytes);
        self.queue_max = self.queue_max.max(self.queue_packets);
    }
}
