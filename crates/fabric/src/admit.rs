//! What may be said about a packet that arrives at a port that schedules: limits, rules, trimming.

use crate::arena::{Effects, Loss, Offered, Segments};
use crate::cell::Cell;
use crate::config::Trim;
use crate::port::{hook, Port, Room};
use penstock_core::{Backlog, DropCause, Ecn, Verdict};
use penstock_units::Time;

impl Port {
    /// A packet arrives, everything before it has been replayed.
    #[inline(never)]
    pub(crate) fn offer_with_care<S: Segments>(
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
        let special = self.hooks & (hook::LOSS | hook::JITTER) != 0 || room.packet.is_some();
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
                if self.hooks & hook::DEQUEUE != 0 {
                    cell.note_mark();
                }
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
        self.take_in(now, cell.bytes);
        let idle = self.free_at <= now.0;
        self.served().waiting.push(&cell, now.0);
        // Also when the packet is paused itself: the header of another one may have got into an open priority.
        let next = if idle { self.start_hooked(now.0, seg, fx) } else { None };
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
    fn class_full(&self, priority: u8, bytes: u32) -> bool {
        let served = self.served.as_ref().expect("the port schedules");
        if !served.class_limits {
            return false;
        }
        let (class, held) = (&served.classes[usize::from(priority)], self.class_backlog(priority));
        held.0 >= class.limit_packets || held.1 + u64::from(bytes) > class.limit_bytes
    }
    /// Whether the packet finds no room; a port that serves by rank first drops what ranks behind it.
    fn make_room<S: Segments>(&mut self, now: Time, cell: &Cell, seg: &mut S, fx: &mut Effects) -> bool {
        loop {
            let full = self.port_full(cell.bytes) || self.class_full(cell.priority(), cell.bytes);
            if !full || !self.served().waiting.by_rank() {
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
        let (packets, bytes) = served.held(cell.priority(), self.ring.cells_from(self.ring.departing));
        let backlog =
            Backlog { packets, bytes, serving, idle_since: Time(self.free_at), rate: self.clock.rate() };
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
        let full = self.port_full(header.bytes) || self.class_full(trim.priority, header.bytes);
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
        if self.served().last_hop {
            header.set_trimmed_at_last_hop();
        }
        // All is as if the whole packet were gone; then its header and the arriving packet must both fit.
        let saved = u64::from(whole.bytes);
        let fits = |port: &Port, c: &Cell, more: u64| {
            !port.class_full(c.priority(), c.bytes)
                && port.queue_packets < port.limit_packets
                && port.queue_bytes - saved + more + u64::from(c.bytes) <= port.limit_bytes
        };
        self.served().waiting.lane_mut(&whole).count_back(whole.bytes);
        let mut fit = fits(self, &header, 0);
        if fit {
            self.served().waiting.lane_mut(&header).count_in(header.bytes);
            fit = fits(self, cell, u64::from(header.bytes));
            self.served().waiting.lane_mut(&header).count_back(header.bytes);
        }
        self.served().waiting.lane_mut(&whole).count_in(whole.bytes);
        if !fit {
            return false;
        }
        self.account(now.0);
        let served = self.served();
        served.waiting.take_last(cell.priority());
        served.waiting.lane_mut(&whole).count_lost(whole.bytes);
        // It keeps the time at which it came.
        served.waiting.push(&header, header.time);
        let cut = u64::from(whole.bytes - header.bytes);
        self.queue_bytes -= cut;
        self.accepted_bytes -= cut;
        self.totals.dropped_bytes += cut;
        self.dropped_on_link += cut;
        self.totals.trims += 1;
        fx.trim(&header);
        true
    }
}
