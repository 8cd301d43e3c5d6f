//! The half of a port that chooses among waiting packets: priorities, pause, rules at dequeue, trimming, failures.

use crate::arena::{Effects, Loss, Lost, Offered, Segments};
use crate::cell::{Cell, PRIORITIES};
use crate::config::{ClassConfig, Service, Trim};
use crate::link::Clock;
use crate::port::{hook, Port, Room};
use crate::rule::Rule;
use crate::schedule::{Lane, Scheduler, Waiting};
use crate::stats::ClassStats;
use alloc::boxed::Box;
use penstock_core::{Amount, DropCause, Ecn, QueueDiscipline, Verdict};
use penstock_units::{Dur, Rate, Time};

/// State of a port that schedules.
pub(crate) struct Served {
    pub waiting: Waiting,
    classes: [ClassConfig; PRIORITIES],
    pub trim: Option<Trim>,
    /// The port's rule, or one of a class, decides at dequeue too.
    pub dequeue_rules: bool,
    class_rules: bool,
    class_limits: bool,
    /// Bit per priority that is paused.
    pub paused: u8,
    paused_since: [u64; PRIORITIES],
    down: bool,
    /// While the link is down, packets that arrive are lost instead of waiting for it.
    refuse: bool,
    /// Drops and marks by priority.
    lost: [u64; PRIORITIES],
    marked: [u64; PRIORITIES],
}

impl Served {
    pub fn new(service: Service) -> Served {
        let classes = service.classes;
        Served {
            waiting: Waiting::new(service.scheduler),
            dequeue_rules: classes.iter().any(|c| c.rule.wants_dequeue()),
            class_rules: classes.iter().any(|c| !matches!(c.rule, Rule::DropTail)),
            class_limits: classes.iter().any(|c| c.limit_packets != u32::MAX || c.limit_bytes != u64::MAX),
            classes,
            trim: service.trim,
            paused: 0,
            paused_since: [0; PRIORITIES],
            down: false,
            refuse: false,
            lost: [0; PRIORITIES],
            marked: [0; PRIORITIES],
        }
    }
    /// Priorities that may be served, a bit each.
    #[inline]
    fn open(&self) -> u8 {
        if self.down {
            0
        } else {
            !self.paused
        }
    }
    fn count_in(&mut self, cell: &Cell) {
        let lane = self.lane_mut(cell);
        lane.packets += 1;
        lane.bytes += u64::from(cell.bytes);
    }
    fn count_out(&mut self, cell: &Cell) {
        let lane = self.lane_mut(cell);
        lane.packets -= 1;
        lane.bytes -= u64::from(cell.bytes);
    }
    #[inline]
    pub fn count_departure(&mut self, cell: &Cell) {
        let lane = self.lane_mut(cell);
        lane.packets -= 1;
        lane.bytes -= u64::from(cell.bytes);
        lane.departed_packets += 1;
        lane.departed_bytes += u64::from(cell.bytes);
    }
    #[inline]
    fn lane_mut(&mut self, cell: &Cell) -> &mut Lane {
        &mut self.waiting.lanes[usize::from(cell.priority())]
    }
    /// Packets and bytes of a priority in the port.
    pub fn held(&self, priority: u8) -> (u32, u64) {
        let lane = &self.waiting.lanes[usize::from(priority)];
        (lane.packets, lane.bytes)
    }
    /// Counters by priority.
    pub fn stats(&self) -> [ClassStats; PRIORITIES] {
        core::array::from_fn(|i| {
            let lane = &self.waiting.lanes[i];
            ClassStats {
                arrived_packets: lane.departed_packets + u64::from(lane.packets) + self.lost[i],
                departed_packets: lane.departed_packets,
                departed_bytes: lane.departed_bytes,
                drops: self.lost[i],
                marks: self.marked[i],
                sojourn: lane.sojourn,
            }
        })
    }
    /// No rules and limits by priority, and the link is up.
    pub fn is_simple(&self) -> bool {
        !self.class_rules && !self.class_limits && !self.down
    }
    #[inline]
    fn class_full(&self, priority: u8, bytes: u32) -> bool {
        let i = usize::from(priority);
        self.class_limits
            && (self.waiting.lanes[i].packets >= self.classes[i].limit_packets
                || self.waiting.lanes[i].bytes + u64::from(bytes) > self.classes[i].limit_bytes)
    }
    /// Time paused since the last call, and starts counting anew.
    pub fn paused_until(&mut self, now: u64) -> u64 {
        let mut sum = 0;
        for (p, since) in self.paused_since.iter_mut().enumerate() {
            if self.paused & (1 << p) != 0 {
                sum += now - core::mem::replace(since, now);
            }
        }
        sum
    }
}

impl Port {
    /// The scheduling half, made when a plain port is first asked for what it cannot do: from here on it is a FIFO that
    /// decides at departure. What waits keeps its order; for rules at
    /// dequeue and counters by priority all it holds arrived now.
    fn serve(&mut self, now: u64) -> &mut Served {
        if self.served.is_none() {
            let mut served = Served::new(Service { scheduler: Scheduler::Fifo, ..Service::default() });
            let mut in_service = None;
            for (i, cell) in self.ring.cells_from(self.ring.departing).enumerate() {
                served.count_in(cell);
                if i == 0 {
                    served.lane_mut(cell).sojourn += (cell.time - now) as f64;
                    in_service = Some(cell.time);
                } else {
                    self.sojourn -= u128::from(cell.time - now);
                    let mut cell = *cell;
                    cell.time = now;
                    served.waiting.push(cell);
                }
            }
            if let Some(finish) = in_service {
                self.ring.tail = self.ring.departing.wrapping_add(1);
                self.free_at = finish;
            }
            if let Some(noise) = &mut self.extra.noise {
                // It was that of the last packet, which now waits: nobody may be held back for its sake.
                noise.left_at = in_service.unwrap_or(now);
            }
            self.served = Some(Box::new(served));
            self.find_mode();
        }
        self.served()
    }
    #[inline]
    fn served(&mut self) -> &mut Served {
        self.served.as_mut().expect("the port schedules")
    }

    /// Replays departures and the scheduler's choices in their order up to `now`; a departure before a choice at the same
    /// instant.
    #[inline(always)]
    pub(crate) fn advance_served<S: Segments>(&mut self, now: u64, seg: &mut S, fx: &mut Effects) {
        if self.hooks & hook::NOISE != 0 {
            self.advance_noisy(now, seg, fx);
        } else if self.free_at <= now {
            self.advance_exact(now, seg, fx);
        }
    }
    /// Without noise the packet in service leaves at the instant the server is free again.
    #[inline(never)]
    fn advance_exact<S: Segments>(&mut self, now: u64, seg: &mut S, fx: &mut Effects) {
        while self.free_at <= now {
            if self.ring.is_busy() {
                let Cell { time, bytes, .. } = *self.ring.at(self.ring.departing);
                self.depart::<true, S>(time, bytes, seg);
            }
            let served = self.served();
            if !served.waiting.any(served.open()) {
                return;
            }
            if let Some(head) = self.start(self.free_at, seg, fx) {
                fx.announce(head, self.number);
            }
        }
    }
    fn advance_noisy<S: Segments>(&mut self, now: u64, seg: &mut S, fx: &mut Effects) {
        loop {
            let leaves = if self.ring.is_busy() { self.ring.at(self.ring.departing).time } else { u64::MAX };
            let free_at = self.free_at;
            let served = self.served();
            let starts = if served.waiting.any(served.open()) { free_at } else { u64::MAX };
            if leaves.min(starts) > now {
                return;
            }
            if leaves <= starts {
                let bytes = self.ring.at(self.ring.departing).bytes;
                self.depart::<true, S>(leaves, bytes, seg);
            } else if let Some(head) = self.start(starts, seg, fx) {
                fx.announce(head, self.number);
            }
        }
    }

    /// The server is free at `t` and takes the next packet, when there is one. Answers its arrival at the other end when
    /// nothing else is under way there.
    #[inline(always)]
    fn start<S: Segments>(&mut self, t: u64, seg: &mut S, fx: &mut Effects) -> Option<Time> {
        loop {
            let served = self.served.as_mut().expect("the port schedules");
            let mut cell = served.waiting.pick(served.open(), |c| seg.flow(c))?;
            let i = usize::from(cell.priority());
            if self.hooks & hook::DEQUEUE != 0 {
                match self.ask_at_dequeue(t, &cell) {
                    Ok(false) => {}
                    Ok(true) => {
                        cell.set_ecn(Ecn::Ce);
                        self.totals.marks += 1;
                        self.served().marked[i] += 1;
                    }
                    Err(cause) => {
                        self.lose_waiting(t, cell, Loss::Queue(cause), seg, fx);
                        continue;
                    }
                }
            }
            return self.launch(t, cell);
        }
    }
    /// Transmission of a packet begins.
    #[inline(always)]
    fn launch(&mut self, t: u64, mut cell: Cell) -> Option<Time> {
        let mut finish = t + self.clock.time(u64::from(cell.bytes) + u64::from(self.framing));
        self.free_at = finish;
        if let (true, Some(noise)) = (self.hooks & hook::NOISE != 0, &mut self.extra.noise) {
            finish = noise.shift(finish, cell.is_noisy());
        }
        let sojourn = finish - cell.time;
        self.sojourn += u128::from(sojourn);
        // Through i64: a signed conversion is one instruction.
        self.served().lane_mut(&cell).sojourn += sojourn as i64 as f64;
        cell.time = finish;
        let first = self.ring.is_empty();
        self.ring.push(cell);
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
        let left = penstock_core::Backlog {
            packets: served.waiting.lanes[i].packets - 1,
            bytes: served.waiting.lanes[i].bytes - u64::from(cell.bytes),
            ..left
        };
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
    fn lose_waiting<S: Segments>(&mut self, t: u64, cell: Cell, loss: Loss, seg: &mut S, fx: &mut Effects) {
        self.remove(t, &cell, fx);
        self.accepted_packets -= 1;
        self.accepted_bytes -= u64::from(cell.bytes);
        self.sojourn += u128::from(t - cell.time);
        self.count_loss(Time(t), &cell, loss, seg);
        fx.lose(Lost { at: Time(t), port: self.number, cell, loss });
    }
    /// Takes a packet out of all counts of what the port holds.
    fn remove(&mut self, t: u64, cell: &Cell, fx: &mut Effects) {
        self.account(t);
        self.queue_packets -= 1;
        self.queue_bytes -= u64::from(cell.bytes);
        self.served().count_out(cell);
        if self.hooks & hook::SHARED != 0 {
            fx.released.push((t, *cell));
        }
    }
    fn count_loss<S: Segments>(&mut self, now: Time, cell: &Cell, loss: Loss, seg: &mut S) {
        self.served().lost[usize::from(cell.priority())] += 1;
        match loss {
            Loss::Queue(cause) => self.note_drop::<true, S>(now, cell, cause, seg),
            Loss::Down => {
                self.totals.down += 1;
                self.totals.dropped_bytes += u64::from(cell.bytes);
            }
        }
    }

    /// A packet arrives at a port that schedules.
    #[inline(never)]
    pub(crate) fn offer_served<S: Segments>(
        &mut self,
        now: Time,
        mut cell: Cell,
        room: Room,
        seg: &mut S,
        fx: &mut Effects,
    ) -> Offered {
        self.advance_served(now.0, seg, fx);
        let plain = self.simple && room.packet.is_none() && !self.port_full(cell.bytes);
        let marks = match self.rule {
            Rule::DropTail => false,
            Rule::Threshold(Amount::Packets(k)) => self.queue_packets >= k,
            Rule::Threshold(Amount::Bytes(k)) => self.queue_bytes >= k,
            _ => true,
        };
        if !plain || marks {
            return self.offer_with_care(now, cell, room, seg, fx);
        }
        self.take_in(now, &mut cell);
        let idle = self.free_at <= now.0;
        let served = self.served();
        // After the replay an idle server has nothing that it may serve but this packet.
        if idle && served.open() & (1 << cell.priority()) != 0 {
            return Offered::Queued(self.launch(now.0, cell));
        }
        served.waiting.push(cell);
        Offered::Queued(None)
    }
    #[inline(always)]
    fn take_in(&mut self, now: Time, cell: &mut Cell) {
        self.account(now.0);
        cell.time = now.0;
        self.queue_packets += 1;
        self.queue_bytes += u64::from(cell.bytes);
        self.accepted_packets += 1;
        self.accepted_bytes += u64::from(cell.bytes);
        self.queue_max = self.queue_max.max(self.queue_packets);
        self.served().count_in(cell);
    }
    /// The same where anything may be said about the packet.
    #[inline(never)]
    fn offer_with_care<S: Segments>(
        &mut self,
        now: Time,
        mut cell: Cell,
        room: Room,
        seg: &mut S,
        fx: &mut Effects,
    ) -> Offered {
        self.tell_arrival(now, &mut cell, seg);
        let p = cell.priority();
        let served = self.served();
        if served.down && served.refuse {
            self.count_loss(now, &cell, Loss::Down, seg);
            return Offered::Dropped(Loss::Down);
        }
        let full = self.make_room(now, &cell, seg, fx);
        let special = self.hooks & (hook::LOSS | hook::NOISE) != 0 || room.packet.is_some();
        let of_port = match special {
            true => self.judge::<true, S>(now, &cell, full, room.packet, seg),
            false => self.judge::<false, S>(now, &cell, full, room.packet, seg),
        };
        let mut trimmed = false;
        match self.judge_class(now, &cell, full, of_port, seg) {
            Ok(true) => {
                cell.set_ecn(Ecn::Ce);
                self.totals.marks += 1;
                self.served().marked[usize::from(p)] += 1;
            }
            Ok(false) => {}
            Err(cause) => {
                let cut =
                    if cause == DropCause::Overflow { self.cut(now, &mut cell, room, fx) } else { None };
                let Some(arriving) = cut else {
                    self.count_loss(now, &cell, Loss::Queue(cause), seg);
                    return Offered::Dropped(Loss::Queue(cause));
                };
                trimmed = arriving;
            }
        }
        self.take_in(now, &mut cell);
        let idle = self.free_at <= now.0;
        let served = self.served();
        served.waiting.push(cell);
        // Also when the packet is paused itself: the header of another one may have got into an open priority.
        let next = if idle && served.waiting.any(served.open()) { self.start(now.0, seg, fx) } else { None };
        if trimmed {
            fx.trim(&cell);
            Offered::Trimmed(next)
        } else {
            Offered::Queued(next)
        }
    }
    fn port_full(&self, bytes: u32) -> bool {
        self.queue_packets >= self.limit_packets || self.queue_bytes + u64::from(bytes) > self.limit_bytes
    }
    /// Whether the packet finds no room; a port that serves by rank first drops what ranks behind it.
    fn make_room<S: Segments>(&mut self, now: Time, cell: &Cell, seg: &mut S, fx: &mut Effects) -> bool {
        loop {
            let full = self.port_full(cell.bytes) || self.served().class_full(cell.priority(), cell.bytes);
            if !full || self.served().waiting.scheduler() != Scheduler::Rank {
                return full;
            }
            if self.served().waiting.worst_rank().is_none_or(|worst| worst <= cell.rank) {
                return true;
            }
            let worst = self.served().waiting.take_worst().expect("just looked");
            self.lose_waiting(now.0, worst, Loss::Queue(DropCause::Overflow), seg, fx);
        }
    }
    /// The verdict of the port together with that of the packet's class.
    fn judge_class<S: Segments>(
        &mut self,
        now: Time,
        cell: &Cell,
        full: bool,
        of_port: Result<bool, DropCause>,
        seg: &mut S,
    ) -> Result<bool, DropCause> {
        let i = usize::from(cell.priority());
        let serving = self
            .in_service()
            .filter(|c| c.priority() == cell.priority())
            .map_or(0, |in_service| in_service.bytes);
        let served = self.served.as_mut().expect("the port schedules");
        if !served.class_rules {
            return of_port;
        }
        let (packets, bytes) = served.held(cell.priority());
        let backlog = penstock_core::Backlog {
            packets,
            bytes,
            serving,
            idle_since: Time(self.free_at),
            rate: self.clock.rate(),
        };
        let verdict = served.classes[i].rule.ask(now, &backlog, (cell.packet, seg), full, &mut self.rng);
        match (of_port, verdict) {
            (Err(cause), _) => Err(cause),
            (Ok(mark), Verdict::Accept) => Ok(mark),
            (Ok(_), Verdict::Mark) if cell.ecn() == Ecn::NotEct => Err(DropCause::NotEct),
            (Ok(_), Verdict::Mark) => Ok(true),
            (Ok(_), Verdict::Drop(cause)) => Err(cause),
        }
    }
    /// There is no room for a packet: cuts its payload off, or that of the last of its priority that waits. `None`: it
    /// cannot be helped; else whether the arriving packet is the one that was cut.
    fn cut(&mut self, now: Time, cell: &mut Cell, room: Room, fx: &mut Effects) -> Option<bool> {
        let header = self.header_of(cell)?;
        let trim = self.served().trim?;
        if trim.tail > 0.0 && self.rng.uniform() < trim.tail && self.cut_last(now, cell, &trim, fx) {
            return Some(false);
        }
        let full = self.port_full(header.bytes) || self.served().class_full(trim.priority, header.bytes);
        if full || room.header.is_some() {
            return None;
        }
        *cell = header;
        self.totals.trims += 1;
        Some(true)
    }
    /// Cuts the last waiting packet of the priority of `cell` where that makes room for it.
    fn cut_last(&mut self, now: Time, cell: &Cell, trim: &Trim, fx: &mut Effects) -> bool {
        let last = self.served().waiting.last(cell.priority());
        let Some(whole) = last.filter(|c| c.bytes > trim.bytes) else { return false };
        let mut header = whole;
        header.trim(trim.bytes, trim.priority);
        // All is as if the whole packet were gone; then its header and the arriving packet must both fit.
        self.served().count_out(&whole);
        let saved = u64::from(whole.bytes);
        let fits = |port: &mut Port, c: &Cell, more: u64| {
            let served = port.served();
            !served.class_full(c.priority(), c.bytes)
                && port.queue_packets < port.limit_packets
                && port.queue_bytes - saved + more + u64::from(c.bytes) <= port.limit_bytes
        };
        let mut fit = fits(self, &header, 0);
        if fit {
            self.served().count_in(&header);
            fit = fits(self, cell, u64::from(header.bytes));
            self.served().count_out(&header);
        }
        self.served().count_in(&whole);
        if !fit {
            return false;
        }
        self.account(now.0);
        let served = self.served();
        served.waiting.take_last(cell.priority());
        served.count_out(&whole);
        served.count_in(&header);
        served.waiting.push(header);
        let cut = u64::from(whole.bytes - header.bytes);
        self.queue_bytes -= cut;
        self.accepted_bytes -= cut;
        self.totals.dropped_bytes += cut;
        self.totals.trims += 1;
        fx.trim(&header);
        true
    }
    // ---- pause and failures --------------------------------------------------------------------------------

    /// Stops a priority or lets it go on, as a pause frame does (IEEE 802.1Qbb). A packet in service is sent to its end. When
    /// this starts a packet on an idle link, its arrival is announced in [`Effects::heads`].
    pub fn pause<S: Segments>(&mut self, now: Time, priority: u8, on: bool, seg: &mut S, fx: &mut Effects) {
        self.advance(now, seg, fx);
        self.serve(now.0);
        let (bit, i) = (1u8 << priority, usize::from(priority));
        let served = self.served();
        let was = served.paused & bit != 0;
        if on && !was {
            served.paused |= bit;
            served.paused_since[i] = now.0;
            self.totals.pauses += 1;
        } else if !on && was {
            served.paused &= !bit;
            let since = served.paused_since[i];
            self.totals.paused += now.0 - since;
            self.go_on(now.0, seg, fx);
        }
    }
    /// Priorities that are paused, a bit each.
    pub fn paused(&self) -> u8 {
        self.served.as_ref().map_or(0, |s| s.paused)
    }
    fn go_on<S: Segments>(&mut self, now: u64, seg: &mut S, fx: &mut Effects) {
        if self.free_at <= now {
            if let Some(head) = self.start(now, seg, fx) {
                fx.announce(head, self.number);
            }
        }
    }
    /// The link fails: what is on the wire or in service is lost. What waits is kept for its recovery, or lost with all that
    /// still comes when `lose_waiting`. Losses are in [`Effects::lost`].
    pub fn fail<S: Segments>(&mut self, now: Time, lose_waiting: bool, seg: &mut S, fx: &mut Effects) {
        self.advance(now, seg, fx);
        self.serve(now.0);
        let number = self.number;
        let lost = |cell| Lost { at: now, port: number, cell, loss: Loss::Down };
        if self.hooks & hook::SHARED != 0 {
            self.take_departed(|cell| fx.released.push((cell.time, *cell)));
        }
        while self.ring.head != self.ring.departing {
            fx.lose(lost(self.ring.pop()));
        }
        if let Some(held_up) = &mut self.extra.held_up {
            core::iter::from_fn(|| held_up.due(u64::MAX)).for_each(|cell| fx.lose(lost(cell)));
        }
        let mut gone = alloc::vec::Vec::new();
        while !self.ring.is_empty() {
            let mut cell = self.ring.pop();
            (self.ring.departing, self.ring.unreleased) = (self.ring.head, self.ring.head);
            // Its departure had been counted as if it took place.
            self.sojourn -= u128::from(cell.time - now.0);
            self.served().lane_mut(&cell).sojourn -= (cell.time - now.0) as f64;
            cell.time = now.0;
            gone.push(cell);
        }
        let served = self.served();
        served.down = true;
        served.refuse = lose_waiting;
        self.simple = false;
        if lose_waiting {
            gone.extend(self.served().waiting.drain());
        }
        for cell in gone {
            self.lose_waiting(now.0, cell, Loss::Down, seg, fx);
        }
        self.free_at = self.free_at.min(now.0);
        if let Some(noise) = &mut self.extra.noise {
            noise.left_at = noise.left_at.min(now.0);
        }
    }
    /// The link works again.
    pub fn recover<S: Segments>(&mut self, now: Time, seg: &mut S, fx: &mut Effects) {
        self.advance(now, seg, fx);
        self.serve(now.0).down = false;
        self.find_mode();
        self.go_on(now.0, seg, fx);
    }
    /// True while the link is down.
    pub fn is_down(&self) -> bool {
        self.served.as_ref().is_some_and(|s| s.down)
    }
    /// The link has another rate from the next packet on. `rate` is above zero.
    pub fn set_rate<S: Segments>(&mut self, now: Time, rate: Rate, seg: &mut S, fx: &mut Effects) {
        assert!(rate.0 > 0, "a link of rate zero is a failed one");
        self.advance(now, seg, fx);
        self.serve(now.0);
        self.clock = Clock::new(rate);
    }
}
