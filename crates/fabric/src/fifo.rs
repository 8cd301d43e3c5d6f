//! What a port does with a packet that arrives: the whole answer at a FIFO, whose departure is known at once, and the questions to limits and
//! rules that ports which schedule ask as well.

use crate::arena::{Effects, Offered, Segments};
use crate::cell::Cell;
use crate::port::{flag, hook, kind, offered, Mode, Port, Room};
use crate::rule::Rule;
use penstock_core::{bail_if, DropCause, Ecn, Verdict};
use penstock_units::Time;

impl Port {
    /// A packet arrives at the port.
    #[inline(always)]
    pub fn offer<S: Segments>(&mut self, now: Time, cell: Cell, seg: &mut S, fx: &mut Effects) -> Offered {
        match self.offer_fast(now, cell, seg) {
            Some(answer) => offered(answer),
            None => self.offer_with(now, cell, Room::FREE, seg, fx),
        }
    }
    /// The same at a FIFO that shares no buffer; `None` elsewhere. The time as of [`Self::offer_fifo`].
    #[inline(always)]
    pub(crate) fn offer_fast<S: Segments>(
        &mut self,
        now: Time,
        cell: Cell,
        seg: &mut S,
    ) -> Option<Result<Time, DropCause>> {
        match self.mode {
            Mode::Plain => Some(self.offer_fifo::<{ kind::PLAIN }, S>(now, &cell, Room::FREE, seg)),
            _ => self.offer_generic(now, cell, seg),
        }
    }
    /// The cell has just been written, field by field: whatever is read of it here is read as it was written, and not copied first, as a processor would
    /// wait with that.
    #[inline(always)]
    pub(crate) fn offer_of_host<S: Segments>(
        &mut self,
        now: Time,
        cell: &Cell,
        seg: &mut S,
    ) -> Option<Result<Time, DropCause>> {
        match self.mode {
            Mode::Noisy => Some(self.offer_fifo::<{ kind::NOISY }, S>(now, cell, Room::FREE, seg)),
            Mode::Plain => Some(self.offer_plain(now, cell, seg)),
            _ => self.offer_generic(now, *cell, seg),
        }
    }
    #[inline(always)]
    fn offer_generic<S: Segments>(
        &mut self,
        now: Time,
        cell: Cell,
        seg: &mut S,
    ) -> Option<Result<Time, DropCause>> {
        match self.mode {
            Mode::Plain => Some(self.offer_plain(now, &cell, seg)),
            Mode::Noisy => Some(self.offer_noisy(now, cell, seg)),
            Mode::Asking => Some(self.offer_asking(now, cell, seg)),
            Mode::Special if self.hooks & hook::SHARED == 0 => {
                Some(self.offer_special(now, cell, Room::FREE, seg))
            }
            Mode::Special | Mode::Served => None,
        }
    }
    #[inline(never)]
    pub(crate) fn offer_plain<S: Segments>(
        &mut self,
        now: Time,
        cell: &Cell,
        seg: &mut S,
    ) -> Result<Time, DropCause> {
        self.offer_fifo::<{ kind::PLAIN }, S>(now, cell, Room::FREE, seg)
    }
    #[inline(never)]
    fn offer_noisy<S: Segments>(&mut self, now: Time, cell: Cell, seg: &mut S) -> Result<Time, DropCause> {
        self.offer_fifo::<{ kind::NOISY }, S>(now, &cell, Room::FREE, seg)
    }
    #[inline(never)]
    fn offer_asking<S: Segments>(&mut self, now: Time, cell: Cell, seg: &mut S) -> Result<Time, DropCause> {
        self.offer_fifo::<{ kind::ASKING }, S>(now, &cell, Room::FREE, seg)
    }
    #[inline(never)]
    pub(crate) fn offer_special<S: Segments>(
        &mut self,
        now: Time,
        cell: Cell,
        room: Room,
        seg: &mut S,
    ) -> Result<Time, DropCause> {
        self.offer_fifo::<{ kind::SPECIAL }, S>(now, &cell, room, seg)
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
    pub(crate) fn offer_fifo<const KIND: u8, S: Segments>(
        &mut self,
        now: Time,
        cell: &Cell,
        room: Room,
        seg: &mut S,
    ) -> Result<Time, DropCause> {
        let mut own;
        let mut cell = cell;
        let mark = if KIND == kind::PLAIN || KIND == kind::NOISY {
            self.admit_plain(now, cell, seg)
        } else {
            own = *cell;
            let mark = self.admit_asking::<KIND, S>(now, &mut own, room, seg);
            cell = &own;
            mark
        };
        let mark = match mark {
            Ok(mark) => mark,
            Err(cause) => {
                if KIND == kind::SPECIAL {
                    self.note_drop::<true, S>(now, cell, cause, seg);
                } else {
                    self.note_drop::<false, S>(now, cell, cause, seg);
                }
                return Err(cause);
            }
        };
        let begins = self.free_at.max(now.0);
        let mut finish = self.finish(begins, u64::from(cell.bytes) + u64::from(self.framing));
        self.free_at = finish;
        if KIND == kind::NOISY || KIND == kind::SPECIAL && self.hooks & hook::JITTER != 0 {
            if let Some(noise) = self.noise() {
                finish = noise.shift(finish, cell.is_noisy());
            }
        }
        let first = self.ring.is_empty();
        self.queue_packets += 1;
        self.queue_bytes += u64::from(cell.bytes);
        self.accepted_packets += 1;
        self.accepted_bytes += u64::from(cell.bytes);
        self.sojourn.add(finish - now.0, &mut self.sojourn_high);
        if KIND == kind::ASKING || KIND == kind::SPECIAL {
            self.queue_max = self.queue_max.max(self.queue_packets);
        }
        // It is written where it stays: a copy of what has just been written would have to wait for that.
        self.ring.push_at(cell, finish);
        if mark {
            self.ring.last_mut().set_ecn(Ecn::Ce);
            self.totals.marks += 1;
        }
        Ok(if first { Time(finish + self.delay) } else { Time::NEVER })
    }
    /// Whether a FIFO with nothing but limits and a threshold marks a packet, or why it drops it.
    ///
    /// Departures since the last look are replayed only when they matter. Nothing can follow from them while an upper bound of the queue is below
    /// every limit and no longer than the longest so far. The bound is the queue at the last look and all that has come since.
    #[inline(always)]
    fn admit_plain<S: Segments>(&mut self, now: Time, cell: &Cell, seg: &mut S) -> Result<bool, DropCause> {
        if self.is_below_thresholds(self.threshold_packets, cell) {
            return Ok(false);
        }
        self.advance_fifo::<false, S>(now.0, seg);
        let mark = if self.is_below_thresholds(self.below, cell) { false } else { self.judge_plain(cell)? };
        self.account(now.0);
        if self.queue_packets >= self.queue_max {
            self.set_queue_max(self.queue_packets + 1);
        }
        Ok(mark)
    }
    /// It holds fewer than `packets`, and with this one no more bytes than its limit and its threshold.
    #[inline(always)]
    pub(crate) fn is_below_thresholds(&self, packets: u32, cell: &Cell) -> bool {
        self.queue_packets < packets && self.queue_bytes + u64::from(cell.bytes) <= self.threshold_bytes
    }
    /// Where integrals are kept, every departure has to be seen in its turn.
    #[inline(always)]
    pub(crate) fn set_queue_max(&mut self, packets: u32) {
        self.queue_max = packets;
        self.threshold_packets = if self.flags & flag::MEASURED == 0 { packets.min(self.below) } else { 0 };
    }
    /// The same for all other FIFOs. All rules are asked.
    #[inline(always)]
    fn admit_asking<const KIND: u8, S: Segments>(
        &mut self,
        now: Time,
        cell: &mut Cell,
        room: Room,
        seg: &mut S,
    ) -> Result<bool, DropCause> {
        let special = KIND == kind::SPECIAL;
        if special {
            self.advance_fifo::<true, S>(now.0, seg);
            self.tell_arrival(now, cell, seg);
        } else {
            self.advance_fifo::<false, S>(now.0, seg);
        }
        let simple = special && self.hooks & hook::LOSS == 0 && !matches!(self.rule, Rule::Other(_));
        if simple && room.packet.is_none() && self.is_below_thresholds(self.below, cell) {
            self.account(now.0);
            return Ok(false);
        }
        let full = self.queue_packets >= self.limit_packets
            || self.queue_bytes + u64::from(cell.bytes) > self.limit_bytes;
        let mark = if !special {
            self.judge::<false, S>(now, cell, full, None, seg)
        } else if simple {
            self.judge_fast(cell, full).and_then(|mark| room.packet.map_or(Ok(mark), Err))
        } else {
            self.judge::<true, S>(now, cell, full, room.packet, seg)
        };
        if mark.is_ok() {
            self.account(now.0);
        }
        mark
    }
    /// The controller sees the packet.
    #[inline(always)]
    pub(crate) fn tell_arrival<S: Segments>(&mut self, now: Time, cell: &mut Cell, seg: &mut S) {
        if self.hooks & hook::CONTROLLER != 0 {
            if let Some((c, view)) = self.controller_of_bare() {
                let (packet, header) = seg.segment(cell.packet);
                c.on_arrival(now, view, packet, header);
                return;
            }
            let view = self.view();
            let (packet, header) = seg.segment(cell.packet);
            packet.ecn = cell.ecn();
            if let Some(c) = self.controller_mut() {
                c.on_arrival(now, &view, packet, header);
            }
            cell.set_ecn(packet.ecn);
        }
    }
    #[inline(never)]
    fn judge_plain(&self, cell: &Cell) -> Result<bool, DropCause> {
        let full = self.queue_packets >= self.limit_packets
            || self.queue_bytes + u64::from(cell.bytes) > self.limit_bytes;
        self.judge_fast(cell, full)
    }
    /// Whether a packet is to be marked by a threshold, or why it is dropped: [`Self::judge`] where there is no more to ask.
    #[inline(always)]
    fn judge_fast(&self, cell: &Cell, full: bool) -> Result<bool, DropCause> {
        bail_if!(full, DropCause::Overflow);
        let mark = self.queue_packets >= self.mark_packets || self.queue_bytes >= self.mark_bytes;
        bail_if!(mark && cell.ecn() == Ecn::NotEct, DropCause::NotEct);
        Ok(mark)
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
        if SPECIAL && self.hooks & hook::JITTER != 0 {
            idle_since = idle_since.max(self.noise().map_or(0, |n| n.left_at));
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
                if let Some((p, rng)) = self.extra.as_deref_mut().and_then(|x| x.loss.as_mut()) {
                    cause = (rng.uniform() < *p).then_some(DropCause::Random);
                }
            }
            cause = cause.or(pool);
        }
        cause.map_or(Ok(mark), Err)
    }
    #[inline(never)]
    pub(crate) fn note_drop<const SPECIAL: bool, S: Segments>(
        &mut self,
        now: Time,
        cell: &Cell,
        cause: DropCause,
        seg: &mut S,
    ) {
        self.totals.drops[cause as usize] += 1;
        self.totals.dropped_bytes += u64::from(cell.bytes);
        self.dropped_on_link += u64::from(cell.bytes + self.framing);
        if SPECIAL && self.hooks & hook::CONTROLLER != 0 {
            let view = self.view();
            if let Some(c) = self.controller_mut() {
                let (packet, header) = seg.segment(cell.packet);
                c.on_drop(now, &view, packet, header);
            }
        }
    }
}
