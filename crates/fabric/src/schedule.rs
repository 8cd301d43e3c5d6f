//! Which of the waiting packets is served next.

use crate::cell::{Cell, PRIORITIES};
use crate::fetch::{prefetch, prefetch_at};
use crate::ring::Line;
use alloc::boxed::Box;
use alloc::vec::Vec;
use penstock_core::ParamError;

/// Order of service among packets that wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scheduler {
    /// By arrival, whatever the priority; a paused priority is passed over.
    #[default]
    Fifo,
    /// The highest priority that is not paused, each by arrival.
    Strict,
    /// Deficit round robin among priorities (Shreedhar, Varghese, SIGCOMM 1995, section 3): bytes per priority and round.
    Drr([u32; PRIORITIES]),
    /// Smallest [`Cell::rank`] first, and of its flow ([`crate::Segments::flow`]) the packet that came first; a full port
    /// drops the largest rank (pFabric, SIGCOMM 2013, section 4.2). Takes time in proportion to what waits, which is little
    /// where it is used: two bandwidth-delay products in the paper.
    Rank,
}

impl Scheduler {
    /// Refuses what cannot work.
    ///
    /// # Errors
    /// A quantum of zero bytes.
    pub fn check(&self) -> Result<(), ParamError> {
        match self {
            Scheduler::Drr(quanta) if quanta.contains(&0) => {
                Err(ParamError::new("quantum", "0", "must be at least one byte for every priority"))
            }
            _ => Ok(()),
        }
    }
}

/// State of deficit round robin.
struct Rounds {
    /// Priorities with packets waiting, 4 bits each, the one whose turn it is lowest.
    active: u32,
    /// Bits of it that are in use.
    length: u32,
    /// Priorities that have had the quantum of their present turn.
    granted: u8,
    quanta: [u32; PRIORITIES],
    deficit: [u64; PRIORITIES],
}

impl Rounds {
    /// A priority has its first packet: its turn is after all others'.
    #[inline]
    fn join(&mut self, priority: u8) {
        self.active |= u32::from(priority) << self.length;
        self.length += 4;
    }
    /// The turn goes to the next.
    #[inline]
    fn turn(&mut self) {
        self.active = self.active >> 4 | (self.active & 15) << (self.length - 4);
    }
    /// A priority has no packet left, and keeps no deficit.
    #[inline]
    fn leave(&mut self, priority: u8) {
        let mut at = 0;
        while self.active >> at & 15 != u32::from(priority) {
            at += 4;
        }
        let before = (1u32 << at) - 1;
        self.active = self.active & before | self.active >> 4 & !before;
        self.length -= 4;
        self.granted &= !(1 << priority);
        self.deficit[usize::from(priority)] = 0;
    }
}

/// One priority of a port: a cache line that every packet of it meets. What waits is what has come in and not begun its
/// transmission.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Lane {
    /// What waits.
    line: Line,
    /// What came in, without what was lost later.
    pub packets_in: u64,
    pub bytes_in: u64,
    /// Of that, what is or was in service.
    pub packets_out: u64,
    pub bytes_out: u64,
    /// Sum of times from arrival to departure, picoseconds.
    pub sojourn: f64,
}
#[cfg(target_pointer_width = "64")]
const _: () = assert!(core::mem::size_of::<Lane>() == 64);

impl Lane {
    #[inline]
    pub fn count_in(&mut self, bytes: u32) {
        self.packets_in += 1;
        self.bytes_in += u64::from(bytes);
    }
    #[inline]
    pub fn count_out(&mut self, bytes: u32) {
        self.packets_out += 1;
        self.bytes_out += u64::from(bytes);
    }
    /// A packet that had come in never did.
    pub fn count_back(&mut self, bytes: u32) {
        self.packets_in -= 1;
        self.bytes_in -= u64::from(bytes);
    }
    /// A packet that had been taken was never there.
    pub fn count_lost(&mut self, bytes: u32) {
        self.count_back(bytes);
        self.packets_out -= 1;
        self.bytes_out -= u64::from(bytes);
    }
}

/// What a scheduler does, without its parameters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Fifo,
    Strict,
    Drr,
    Rank,
}

/// Packets that wait in a port that schedules. What says which is next comes first: it fills the line that the port's half for such
/// ports begins.
#[repr(C)]
pub(crate) struct Waiting {
    order: Order,
    /// Number of a priority's line: its own, masked by this. 0 where all wait in the first line, whatever their priority.
    lines: u8,
    /// Bit per priority of which packets wait.
    occupied: u8,
    /// There for deficit round robin alone.
    rounds: Option<Box<Rounds>>,
    apart: [u64; 4],
    /// By priority.
    pub lanes: [Lane; PRIORITIES],
}

impl Waiting {
    /// Fetches what is counted of the lowest priority, or
    #[inline]
    pub fn prefetch_first_lane(&self) {
        prefetch(&self.lanes[0]);
    }
    /// that, what is counted of the highest that waits, and the deficits,
    #[inline]
    pub fn prefetch_lanes(&self) {
        prefetch(&self.lanes[0]);
        prefetch(&self.lanes[self.highest()]);
        prefetch_at(self.rounds.as_deref().map_or(core::ptr::null(), core::ptr::from_ref));
    }
    /// and the first of each. No jump depends on what is read, which may not be there yet.
    #[inline]
    pub fn prefetch_first(&self) {
        self.lanes[0].line.prefetch_first();
        self.lanes[self.highest()].line.prefetch_first();
    }
    /// Fetches what is counted of a priority.
    #[inline]
    pub fn prefetch_lane(&self, priority: u8) {
        prefetch(&self.lanes[usize::from(priority)]);
    }
    /// The highest priority of which packets wait; the lowest of all when none do.
    #[inline]
    fn highest(&self) -> usize {
        (self.occupied | 1).ilog2() as usize
    }
    pub fn new(scheduler: Scheduler) -> Waiting {
        let (order, quanta) = match scheduler {
            Scheduler::Fifo => (Order::Fifo, [0; PRIORITIES]),
            Scheduler::Strict => (Order::Strict, [0; PRIORITIES]),
            Scheduler::Drr(quanta) => (Order::Drr, quanta),
            Scheduler::Rank => (Order::Rank, [0; PRIORITIES]),
        };
        Waiting {
            order,
            lines: if matches!(order, Order::Fifo | Order::Rank) { 0 } else { PRIORITIES as u8 - 1 },
            occupied: 0,
            rounds: (order == Order::Drr).then(|| {
                let deficit = [0; PRIORITIES];
                Box::new(Rounds { active: 0, length: 0, granted: 0, quanta, deficit })
            }),
            apart: [0; 4],
            lanes: Default::default(),
        }
    }
    /// Serves by rank.
    pub fn by_rank(&self) -> bool {
        self.order == Order::Rank
    }
    /// Priorities of which packets wait, a bit each.
    #[inline(always)]
    pub fn occupied(&self) -> u8 {
        self.occupied
    }
    #[inline(always)]
    pub fn lane_mut(&mut self, cell: &Cell) -> &mut Lane {
        &mut self.lanes[usize::from(cell.priority())]
    }
    /// All packets that wait.
    pub fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.lanes.iter().flat_map(|l| l.line.iter())
    }
    /// Packets that wait.
    pub fn len(&self) -> u64 {
        self.lanes.iter().map(|l| l.line.len() as u64).sum()
    }
    /// A packet comes in at `now` and waits.
    #[inline(always)]
    pub fn push(&mut self, cell: &Cell, now: u64) {
        let p = cell.priority();
        let bit = 1 << p;
        if let (Some(rounds), 0) = (&mut self.rounds, self.occupied & bit) {
            rounds.join(p);
        }
        self.occupied |= bit;
        self.lane_mut(cell).count_in(cell.bytes);
        self.lanes[usize::from(p & self.lines)].line.push(cell, now);
    }
    /// The line whose first packet is served next, and that packet, among the priorities in `open`: some of those that are
    /// occupied. `None`: it is not the first of its line, see [`Self::take_by_rule`].
    #[inline(always)]
    pub fn next(&mut self, open: u8) -> Option<usize> {
        match self.order {
            Order::Strict => Some((u8::BITS - 1 - open.leading_zeros()) as usize & (PRIORITIES - 1)),
            Order::Drr => self.next_in_turn(open),
            Order::Fifo if open == self.occupied => Some(0),
            _ => None,
        }
    }
    /// The first packet of a line that is not empty.
    #[inline(always)]
    pub fn first(&self, line: usize) -> &Cell {
        self.lanes[line].line.first()
    }
    /// Takes the first packet of a line for service: it is of this priority and has so many bytes.
    #[inline(always)]
    pub fn pass_first(&mut self, line: usize, priority: u8, bytes: u32) -> &mut Lane {
        self.lanes[line].line.pass();
        self.taken(priority, bytes)
    }
    /// A packet of a priority has been taken out of its line.
    #[inline(always)]
    fn taken(&mut self, priority: u8, bytes: u32) -> &mut Lane {
        let lane = &mut self.lanes[usize::from(priority & 7)];
        lane.count_out(bytes);
        if lane.packets_in == lane.packets_out {
            self.occupied &= !(1 << priority);
            if let Some(rounds) = &mut self.rounds {
                rounds.leave(priority);
            }
        }
        lane
    }
    /// The figure 2 of the DRR paper, one packet at a time. A paused priority loses its turn and keeps its deficit.
    #[inline(always)]
    fn next_in_turn(&mut self, open: u8) -> Option<usize> {
        let Waiting { rounds, lanes, .. } = self;
        let rounds = rounds.as_mut()?;
        loop {
            let i = rounds.active as usize & (PRIORITIES - 1);
            let bit = 1u8 << i;
            if open & bit != 0 {
                let mut deficit = rounds.deficit[i];
                if rounds.granted & bit == 0 {
                    deficit += u64::from(rounds.quanta[i]);
                }
                let need = u64::from(lanes[i].line.first().bytes);
                if need <= deficit {
                    rounds.granted |= bit;
                    rounds.deficit[i] = deficit - need;
                    return Some(i);
                }
                rounds.granted &= !bit;
                rounds.deficit[i] = deficit;
            }
            rounds.turn();
        }
    }
    /// Takes the packet to be served next among the `open` priorities, where it may be any; `flow` tells flows apart, where they are
    /// served by rank.
    #[inline(never)]
    pub fn take_by_rule(&mut self, open: u8, flow: impl Fn(&Cell) -> u32) -> Option<Cell> {
        let may = |c: &&Cell| open & (1 << c.priority()) != 0;
        let line = &self.lanes[0].line;
        let at = match self.order {
            Order::Rank => {
                let first = flow(line.iter().filter(may).min_by_key(|c| c.rank)?);
                line.iter().position(|c| flow(c) == first && may(&c))?
            }
            _ => line.iter().position(|c| may(&c))?,
        };
        Some(self.take(0, at))
    }
    /// Takes the packet to be served next among the `allowed` priorities.
    #[inline(always)]
    pub fn pick(&mut self, allowed: u8, flow: impl Fn(&Cell) -> u32) -> Option<Cell> {
        let open = self.occupied & allowed;
        if open == 0 {
            return None;
        }
        match self.next(open) {
            Some(line) => Some(self.take(line, 0)),
            None => self.take_by_rule(open, flow),
        }
    }
    /// Removes packet `at` of a line.
    #[inline]
    fn take(&mut self, line: usize, at: usize) -> Cell {
        let cell = self.lanes[line].line.remove(at);
        self.taken(cell.priority(), cell.bytes);
        cell
    }
    fn find_last(&self, priority: u8) -> Option<(usize, usize)> {
        let line = usize::from(priority & self.lines);
        let may = |c: &Cell| c.priority() == priority && c.has_payload();
        Some((line, self.lanes[line].line.iter().rposition(may)?))
    }
    /// The latest packet of `priority` that has payload, for trimming.
    pub fn last(&self, priority: u8) -> Option<Cell> {
        let (line, at) = self.find_last(priority)?;
        self.lanes[line].line.iter().nth(at).copied()
    }
    /// Removes the packet that [`Self::last`] shows.
    pub fn take_last(&mut self, priority: u8) -> Option<Cell> {
        let (line, at) = self.find_last(priority)?;
        Some(self.take(line, at))
    }
    /// Largest rank that waits.
    pub fn worst_rank(&self) -> Option<u32> {
        self.lanes[0].line.iter().map(|c| c.rank).max()
    }
    /// Removes the packet of the largest rank, the latest of several.
    pub fn take_worst(&mut self) -> Option<Cell> {
        let worst = self.worst_rank()?;
        let at = self.lanes[0].line.iter().rposition(|c| c.rank == worst)?;
        Some(self.take(0, at))
    }
    /// Removes everything.
    pub fn drain(&mut self) -> Vec<Cell> {
        (0..PRIORITIES)
            .flat_map(|line| core::iter::repeat_n(line, self.lanes[line].line.len()))
            .collect::<Vec<_>>()
            .into_iter()
            .map(|line| self.take(line, 0))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serve(w: &mut Waiting, allowed: u8) -> Vec<u32> {
        core::iter::from_fn(|| w.pick(allowed, |c| c.entropy)).map(|c| c.packet).collect()
    }

    fn deficit(w: &Waiting) -> [u64; PRIORITIES] {
        w.rounds.as_ref().expect("rounds").deficit
    }
    #[test]
    fn drr_serves_the_hand_computed_rounds() {
        // Quanta 500 for both. Class 0: 300 (a), 300 (b), 400 (c); class 1: 600 (d), 200 (e).
        // Round 1: class 0 has 500, sends a (200 left), b does not fit. Class 1 has 500, d does not fit.
        // Round 2: class 0 has 700, sends b (400) and c (0) and is empty. Class 1 has 1000, sends d (400), e (200).
        let mut w = Waiting::new(Scheduler::Drr([500; 8]));
        for (packet, bytes, priority) in [(0, 300, 0), (1, 300, 0), (2, 400, 0), (3, 600, 1), (4, 200, 1)] {
            w.push(&Cell::new(packet, bytes).with_priority(priority), 0);
        }
        assert_eq!(serve(&mut w, 0xff), [0, 1, 2, 3, 4]);
        assert_eq!((deficit(&w), w.occupied), ([0; 8], 0), "an empty class keeps no deficit");
    }
    #[test]
    fn drr_shares_in_proportion_to_the_quanta() {
        let mut quanta = [1000; 8];
        quanta[1] = 3000;
        let mut w = Waiting::new(Scheduler::Drr(quanta));
        for i in 0..40 {
            w.push(&Cell::new(i, 1000).with_priority((i % 2) as u8), 0);
        }
        let first: Vec<u8> = (0..12).map(|_| w.pick(0xff, |c| c.entropy).unwrap().priority()).collect();
        assert_eq!(first, [0, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1]);
    }
    #[test]
    fn a_paused_class_loses_its_turn_and_keeps_its_deficit() {
        let mut w = Waiting::new(Scheduler::Drr([600; 8]));
        for (packet, priority) in [(0, 0), (1, 0), (2, 1), (3, 1)] {
            w.push(&Cell::new(packet, 1000).with_priority(priority), 0);
        }
        // Both classes reach 1200 in the second round; class 0 sends packet 0 and has 200 left.
        assert_eq!(w.pick(0xff, |c| c.entropy).unwrap().packet, 0);
        assert_eq!(w.pick(0b10, |c| c.entropy).unwrap().packet, 2);
        assert_eq!(deficit(&w)[..2], [200, 200]);
        assert_eq!(serve(&mut w, 0b10), [3]);
        assert_eq!(serve(&mut w, 0b10), [0u32; 0]);
        assert_eq!(serve(&mut w, 0xff), [1]);
    }
    #[test]
    fn strict_priority_serves_the_highest_that_is_not_paused() {
        let mut w = Waiting::new(Scheduler::Strict);
        for (packet, priority) in [(0, 0), (1, 7), (2, 3), (3, 7)] {
            w.push(&Cell::new(packet, 1000).with_priority(priority), 0);
        }
        assert_eq!(w.pick(0x7f, |c| c.entropy).unwrap().packet, 2);
        assert_eq!(serve(&mut w, 0xff), [1, 3, 0]);
    }
    #[test]
    fn fifo_passes_over_a_paused_priority_only() {
        let mut w = Waiting::new(Scheduler::Fifo);
        for (packet, priority) in [(0, 3), (1, 0), (2, 3), (3, 0)] {
            w.push(&Cell::new(packet, 1000).with_priority(priority), 0);
        }
        assert_eq!(w.pick(!(1 << 3), |c| c.entropy).unwrap().packet, 1);
        assert_eq!(serve(&mut w, 0xff), [0, 2, 3]);
    }
    #[test]
    fn rank_serves_the_earliest_packet_of_the_smallest_flow_and_drops_the_largest() {
        let mut w = Waiting::new(Scheduler::Rank);
        // Flow 7 has ranks 30 then 20: its first packet goes first although the second has the smaller rank.
        for (packet, rank, flow) in [(0, 90, 5), (1, 30, 7), (2, 20, 7), (3, 25, 9), (4, 90, 6)] {
            w.push(&Cell::new(packet, 1000).with_rank(rank, flow), 0);
        }
        assert_eq!(w.take_worst().unwrap().packet, 4, "the later of two equal ones");
        assert_eq!(serve(&mut w, 0xff), [1, 2, 3, 0]);
    }
}
