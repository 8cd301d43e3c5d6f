//! Which of the waiting packets is served next.

use crate::cell::{Cell, PRIORITIES};
use crate::ring::Line;
use alloc::collections::VecDeque;
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
#[derive(Default)]
struct Rounds {
    deficit: [u64; PRIORITIES],
    /// Priorities with packets waiting, the one whose turn it is first.
    active: VecDeque<u8>,
    /// Priorities that have had the quantum of their present turn.
    granted: u8,
}

/// One priority of a port: a cache line that every packet of it meets.
#[derive(Default)]
#[repr(C, align(64))]
pub(crate) struct Lane {
    /// What waits.
    line: Line,
    /// What the port holds, the packet in service included.
    pub packets: u32,
    /// How many wait, where all wait in one line.
    waiting: u32,
    /// Bytes the port holds.
    pub bytes: u64,
    pub departed_packets: u64,
    pub departed_bytes: u64,
    /// Sum of times from arrival to departure, picoseconds.
    pub sojourn: f64,
}
const _: () = assert!(core::mem::size_of::<Lane>() == 64);

/// Packets that wait in a port that schedules.
pub(crate) struct Waiting {
    scheduler: Scheduler,
    /// All wait in the first line, whatever their priority.
    mixed: bool,
    /// Bit per priority of which packets wait.
    occupied: u8,
    /// By priority.
    pub lanes: [Lane; PRIORITIES],
    rounds: Rounds,
}

impl Waiting {
    pub fn new(scheduler: Scheduler) -> Waiting {
        Waiting {
            scheduler,
            mixed: matches!(scheduler, Scheduler::Fifo | Scheduler::Rank),
            occupied: 0,
            lanes: Default::default(),
            rounds: Rounds::default(),
        }
    }
    pub fn scheduler(&self) -> Scheduler {
        self.scheduler
    }
    /// True when a packet of one of the `allowed` priorities (a bit each) waits.
    #[inline]
    pub fn any(&self, allowed: u8) -> bool {
        self.occupied & allowed != 0
    }
    /// All packets that wait.
    pub fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.lanes.iter().flat_map(|l| l.line.iter())
    }
    /// Packets that wait.
    pub fn len(&self) -> u64 {
        self.lanes.iter().map(|l| l.line.len() as u64).sum()
    }
    #[inline(always)]
    pub fn push(&mut self, cell: Cell) {
        let p = cell.priority();
        let bit = 1 << p;
        if self.occupied & bit == 0 && matches!(self.scheduler, Scheduler::Drr(_)) {
            self.rounds.active.push_back(p);
        }
        self.occupied |= bit;
        if self.mixed {
            self.lanes[usize::from(p)].waiting += 1;
            self.lanes[0].line.push(cell);
        } else {
            self.lanes[usize::from(p)].line.push(cell);
        }
    }
    /// Takes the packet to be served next among the `allowed` priorities; `flow` tells flows apart, where they are served by rank.
    #[inline(always)]
    pub fn pick(&mut self, allowed: u8, flow: impl Fn(&Cell) -> u32) -> Option<Cell> {
        let open = self.occupied & allowed;
        if open == 0 {
            return None;
        }
        match self.scheduler {
            Scheduler::Strict => Some(self.take(7 - (open.leading_zeros() as usize & 7), 0)),
            Scheduler::Fifo if open == self.occupied => Some(self.take(0, 0)),
            _ => self.pick_by_rule(open, flow),
        }
    }
    #[inline(never)]
    fn pick_by_rule(&mut self, open: u8, flow: impl Fn(&Cell) -> u32) -> Option<Cell> {
        let may = |c: &&Cell| open & (1 << c.priority()) != 0;
        let mut all = self.lanes[0].line.iter();
        match self.scheduler {
            Scheduler::Rank => {
                let first = flow(all.filter(may).min_by_key(|c| c.rank)?);
                let at = self.lanes[0].line.iter().position(|c| flow(c) == first && may(&c))?;
                Some(self.take(0, at))
            }
            Scheduler::Drr(quanta) => {
                drop(all);
                self.pick_in_turn(open, &quanta)
            }
            _ => {
                let at = all.position(|c| may(&c))?;
                drop(all);
                Some(self.take(0, at))
            }
        }
    }
    /// The figure 2 of the DRR paper, one packet at a time. A paused priority loses its turn and keeps its deficit.
    fn pick_in_turn(&mut self, open: u8, quanta: &[u32; PRIORITIES]) -> Option<Cell> {
        loop {
            let p = *self.rounds.active.front()?;
            let (bit, i) = (1u8 << p, usize::from(p));
            if open & bit != 0 {
                if self.rounds.granted & bit == 0 {
                    self.rounds.granted |= bit;
                    self.rounds.deficit[i] += u64::from(quanta[i]);
                }
                let need = u64::from(self.lanes[i].line.first().bytes);
                if need <= self.rounds.deficit[i] {
                    self.rounds.deficit[i] -= need;
                    return Some(self.take(i, 0));
                }
                self.rounds.granted &= !bit;
            }
            self.rounds.active.pop_front();
            self.rounds.active.push_back(p);
        }
    }
    /// Removes packet `at` of a line.
    #[inline(always)]
    fn take(&mut self, line: usize, at: usize) -> Cell {
        let line = &mut self.lanes[line].line;
        let cell = if at == 0 { line.pop() } else { line.remove(at) };
        let p = cell.priority();
        let lane = &mut self.lanes[usize::from(p)];
        let left = if self.mixed {
            lane.waiting -= 1;
            lane.waiting > 0
        } else {
            !lane.line.is_empty()
        };
        if !left {
            self.occupied &= !(1 << p);
            if matches!(self.scheduler, Scheduler::Drr(_)) {
                self.end_turns(p);
            }
        }
        cell
    }
    #[inline(never)]
    fn end_turns(&mut self, priority: u8) {
        self.rounds.active.retain(|a| *a != priority);
        self.rounds.deficit[usize::from(priority)] = 0;
        self.rounds.granted &= !(1 << priority);
    }
    fn find_last(&self, priority: u8) -> Option<(usize, usize)> {
        let line = if self.mixed { 0 } else { usize::from(priority) };
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

    #[test]
    fn drr_serves_the_hand_computed_rounds() {
        // Quanta 500 for both. Class 0: 300 (a), 300 (b), 400 (c); class 1: 600 (d), 200 (e).
        // Round 1: class 0 has 500, sends a (200 left), b does not fit. Class 1 has 500, d does not fit.
        // Round 2: class 0 has 700, sends b (400) and c (0) and is empty. Class 1 has 1000, sends d (400), e (200).
        let mut w = Waiting::new(Scheduler::Drr([500; 8]));
        for (packet, bytes, priority) in [(0, 300, 0), (1, 300, 0), (2, 400, 0), (3, 600, 1), (4, 200, 1)] {
            w.push(Cell::new(packet, bytes).with_priority(priority));
        }
        assert_eq!(serve(&mut w, 0xff), [0, 1, 2, 3, 4]);
        assert_eq!((w.rounds.deficit, w.occupied), ([0; 8], 0), "an empty class keeps no deficit");
    }
    #[test]
    fn drr_shares_in_proportion_to_the_quanta() {
        let mut quanta = [1000; 8];
        quanta[1] = 3000;
        let mut w = Waiting::new(Scheduler::Drr(quanta));
        for i in 0..40 {
            w.push(Cell::new(i, 1000).with_priority((i % 2) as u8));
        }
        let first: Vec<u8> = (0..12).map(|_| w.pick(0xff, |c| c.entropy).unwrap().priority()).collect();
        assert_eq!(first, [0, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1]);
    }
    #[test]
    fn a_paused_class_loses_its_turn_and_keeps_its_deficit() {
        let mut w = Waiting::new(Scheduler::Drr([600; 8]));
        for (packet, priority) in [(0, 0), (1, 0), (2, 1), (3, 1)] {
            w.push(Cell::new(packet, 1000).with_priority(priority));
        }
        // Both classes reach 1200 in the second round; class 0 sends packet 0 and has 200 left.
        assert_eq!(w.pick(0xff, |c| c.entropy).unwrap().packet, 0);
        assert_eq!(w.pick(0b10, |c| c.entropy).unwrap().packet, 2);
        assert_eq!(w.rounds.deficit[..2], [200, 200]);
        assert_eq!(serve(&mut w, 0b10), [3]);
        assert_eq!(serve(&mut w, 0b10), [0u32; 0]);
        assert_eq!(serve(&mut w, 0xff), [1]);
    }
    #[test]
    fn strict_priority_serves_the_highest_that_is_not_paused() {
        let mut w = Waiting::new(Scheduler::Strict);
        for (packet, priority) in [(0, 0), (1, 7), (2, 3), (3, 7)] {
            w.push(Cell::new(packet, 1000).with_priority(priority));
        }
        assert_eq!(w.pick(0x7f, |c| c.entropy).unwrap().packet, 2);
        assert_eq!(serve(&mut w, 0xff), [1, 3, 0]);
    }
    #[test]
    fn fifo_passes_over_a_paused_priority_only() {
        let mut w = Waiting::new(Scheduler::Fifo);
        for (packet, priority) in [(0, 3), (1, 0), (2, 3), (3, 0)] {
            w.push(Cell::new(packet, 1000).with_priority(priority));
        }
        assert_eq!(w.pick(!(1 << 3), |c| c.entropy).unwrap().packet, 1);
        assert_eq!(serve(&mut w, 0xff), [0, 2, 3]);
    }
    #[test]
    fn rank_serves_the_earliest_packet_of_the_smallest_flow_and_drops_the_largest() {
        let mut w = Waiting::new(Scheduler::Rank);
        // Flow 7 has ranks 30 then 20: its first packet goes first although the second has the smaller rank.
        for (packet, rank, flow) in [(0, 90, 5), (1, 30, 7), (2, 20, 7), (3, 25, 9), (4, 90, 6)] {
            w.push(Cell::new(packet, 1000).with_rank(rank, flow));
        }
        assert_eq!(w.take_worst().unwrap().packet, 4, "the later of two equal ones");
        assert_eq!(serve(&mut w, 0xff), [1, 2, 3, 0]);
    }
}
