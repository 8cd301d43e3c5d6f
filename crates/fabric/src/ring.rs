//! The ring of a link: cells in the order in which they leave.
#![allow(unsafe_code)]

use crate::cell::Cell;
use crate::fetch::prefetch_at;
use alloc::boxed::Box;
use alloc::vec;
use core::ptr::NonNull;

/// Cells of one link in order. `head..departing` are on the wire; `departing..tail` are in the port: all of them on a
/// FIFO port, the one in service on a port that schedules. Indices run freely; the mask folds them.
///
/// A ring is gone through from end to end, whatever it holds: one that a burst has made long would keep its length in the processor's cache
/// for the rest of a run. So it gets shorter again when it turns out to be nearly empty, without giving memory back.
pub(crate) struct Ring {
    /// The first of [`Self::room`] slots, of which `mask + 1` are in use.
    slots: NonNull<Cell>,
    /// One less than a power of two.
    mask: u32,
    room: u32,
    /// First cell that has not arrived at the other end.
    pub head: u32,
    /// First cell that has not left the port.
    pub departing: u32,
    /// One past the last cell.
    pub tail: u32,
    /// First cell whose room in a shared buffer has not been given back; from head to departing, or to one behind that.
    pub unreleased: u32,
}

// SAFETY: the slots belong to the ring alone, or are nobody's, which nobody writes; cells are plain numbers.
unsafe impl Send for Ring {}
// SAFETY: as above; who shares a ring reads it.
unsafe impl Sync for Ring {}

impl Drop for Ring {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// So many slots of a ring are in use at least, once it has had a packet.
const LEAST: u32 = 8;

/// What is seen of a ring that has never had a packet.
static NOBODYS: Cell = Cell::NOBODYS;

/// One cell in so many, and one more, looks whether the ring is longer than it has to be.
const SELDOM: u32 = 1023;

/// So many slots, to be given back as a box.
fn slots_of(room: u32) -> NonNull<Cell> {
    let slots: Box<[Cell]> = vec![Cell::default(); room as usize].into();
    NonNull::from(Box::leak(slots)).cast()
}

impl Ring {
    /// One without slots. The first packet has number 0, at which the port asks what the ring needs ([`Self::fit`]) and gives it slots.
    pub fn new() -> Ring {
        Ring {
            slots: NonNull::from(&NOBODYS),
            mask: 0,
            room: 0,
            head: 0,
            departing: 0,
            tail: 0,
            unreleased: 0,
        }
    }
    fn all_slots(&self) -> *mut [Cell] {
        core::ptr::slice_from_raw_parts_mut(self.slots.as_ptr(), self.room as usize)
    }
    #[inline]
    pub fn at(&self, i: u32) -> &Cell {
        // SAFETY: as in [`Self::at_mut`]; one without slots shows what is nobody's, which is one, and has the mask 0.
        unsafe { self.slots.add((i & self.mask) as usize).as_ref() }
    }
    #[inline]
    pub fn at_mut(&mut self, i: u32) -> &mut Cell {
        debug_assert!(self.room > 0);
        // SAFETY: the mask is below `room` after each change of it, and so is what is left of a number under it. A ring without slots has no
        // packet, and nobody asks to change one.
        unsafe { self.slots.add((i & self.mask) as usize).as_mut() }
    }
    /// Nothing waits, is in service or on the wire.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }
    /// Cells in the ring.
    #[inline]
    pub fn len(&self) -> u32 {
        self.tail.wrapping_sub(self.head)
    }
    /// True when some cell has not left the port.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.departing != self.tail
    }
    /// Puts a copy of a cell at the end, with another time.
    #[inline(always)]
    pub fn push_at(&mut self, cell: &Cell, time: u64) {
        if self.len() > self.mask {
            self.grow();
        } else if self.tail & SELDOM == 0 {
            self.fit();
        }
        let slot = self.at_mut(self.tail);
        *slot = *cell;
        slot.time = time;
        self.tail = self.tail.wrapping_add(1);
    }
    /// So many cells can be put ([`Self::write`]) before the ring has to grow, or the port has to ask whether it can be shorter.
    #[inline(always)]
    pub fn room_without_a_look(&self) -> u32 {
        (self.mask + 1).wrapping_sub(self.len()).min(self.tail.wrapping_neg() & SELDOM)
    }
    /// Writes a copy of a cell with another time at index `i`, the tail or behind it, where there is room for it.
    #[inline(always)]
    pub fn write(&mut self, i: u32, cell: &Cell, time: u64) {
        debug_assert!(i.wrapping_sub(self.head) <= self.mask);
        let slot = self.at_mut(i);
        *slot = *cell;
        slot.time = time;
    }
    /// The cell that was put last.
    #[inline(always)]
    pub fn last_mut(&mut self) -> &mut Cell {
        self.at_mut(self.tail.wrapping_sub(1))
    }
    /// Takes the cell at the head, which has left the port.
    #[inline]
    pub fn pop(&mut self) -> Cell {
        let cell = *self.at(self.head);
        self.head = self.head.wrapping_add(1);
        cell
    }
    /// Cells from index `from` to the tail.
    pub fn cells_from(&self, from: u32) -> impl Iterator<Item = &Cell> {
        (0..self.tail.wrapping_sub(from)).map(move |i| self.at(from.wrapping_add(i)))
    }
    #[cold]
    fn grow(&mut self) {
        if self.mask + 1 == self.room {
            let bigger = slots_of(2 * self.room);
            // SAFETY: both are as long as said, and different.
            unsafe { bigger.copy_from_nonoverlapping(self.slots, self.room as usize) };
            self.give_back();
            (self.slots, self.room) = (bigger, 2 * self.room);
        }
        self.fold_with(2 * self.mask + 1);
    }
    /// Gives its slots back.
    fn give_back(&mut self) {
        if self.room > 0 {
            // SAFETY: they are of a box that was taken apart in `slots_of`, and the ring gets others, or is not used any longer.
            drop(unsafe { Box::from_raw(self.all_slots()) });
        }
    }
    /// One that a burst has made long gets shorter, one without slots gets some.
    #[cold]
    fn fit(&mut self) {
        if self.room == 0 {
            (self.slots, self.room, self.mask) = (slots_of(LEAST), LEAST, LEAST - 1);
            return;
        }
        let enough = (2 * self.len()).next_power_of_two().max(LEAST);
        if enough <= self.mask {
            self.fold_with(enough - 1);
        }
    }
    /// From now on with another mask: every cell goes to its new place. There all are apart, as a longer ring had room for all, and a
    /// shorter one has room for all between the first and the last.
    #[cold]
    fn fold_with(&mut self, mask: u32) {
        debug_assert!(mask < self.room && self.len() <= mask + 1);
        for i in 0..self.len() {
            let i = self.head.wrapping_add(i);
            let cell = *self.at(i);
            // SAFETY: the mask is below `room`.
            unsafe { *self.slots.add((i & mask) as usize).as_mut() = cell };
        }
        self.mask = mask;
    }
}

/// Cells that wait, first in first out, with a look into the middle for those who need it.
#[derive(Default)]
pub(crate) struct Line {
    slots: Box<[Cell]>,
    head: u32,
    tail: u32,
}

impl Line {
    #[inline]
    fn slot(&self, i: u32) -> usize {
        i as usize & (self.slots.len().wrapping_sub(1))
    }
    #[inline]
    pub fn len(&self) -> usize {
        self.tail.wrapping_sub(self.head) as usize
    }
    /// Puts a copy of a cell at the end, with another time.
    #[inline(always)]
    pub fn push(&mut self, cell: &Cell, time: u64) {
        if self.len() == self.slots.len() {
            self.grow();
        }
        let at = self.slot(self.tail);
        let slot = &mut self.slots[at];
        *slot = *cell;
        slot.time = time;
        self.tail = self.tail.wrapping_add(1);
    }
    #[cold]
    fn grow(&mut self) {
        let mut bigger = vec![Cell::default(); (self.slots.len() * 2).max(4)];
        for (new, old) in bigger.iter_mut().zip(self.iter()) {
            *new = *old;
        }
        (self.head, self.tail) = (0, self.len() as u32);
        self.slots = bigger.into();
    }
    /// The first cell; there must be one.
    #[inline]
    pub fn first(&self) -> &Cell {
        &self.slots[self.slot(self.head)]
    }
    /// Asks the processor to fetch it, if there is one.
    #[inline]
    pub fn prefetch_first(&self) {
        prefetch_at(self.slots.as_ptr().wrapping_add(self.slot(self.head)));
    }
    /// Takes the first cell, which has been read; there must be one.
    #[inline]
    pub fn pass(&mut self) {
        self.head = self.head.wrapping_add(1);
        self.begin_again();
    }
    /// Where nothing waits any longer the next packet has the first slot, which may still be in the processor's cache.
    #[inline(always)]
    fn begin_again(&mut self) {
        let rest = self.head != self.tail;
        self.head = if rest { self.head } else { 0 };
        self.tail = if rest { self.tail } else { 0 };
    }
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Cell> + ExactSizeIterator {
        (0..self.len() as u32).map(|i| &self.slots[self.slot(self.head.wrapping_add(i))])
    }
    /// Takes the cell at position `at`, keeping the order of the others.
    pub fn remove(&mut self, at: usize) -> Cell {
        let mut next = *self.first();
        for i in 1..=at as u32 {
            let slot = self.slot(self.head.wrapping_add(i));
            core::mem::swap(&mut next, &mut self.slots[slot]);
        }
        self.head = self.head.wrapping_add(1);
        self.begin_again();
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A burst makes a ring long; later it is short again, and at every moment it has the cells of a queue beside it, in its order.
    #[test]
    fn a_ring_grows_and_shrinks_and_keeps_its_cells() {
        let mut ring = Ring::new();
        assert_eq!(ring.at(0).packet, Cell::default().packet);
        ring.push_at(&Cell::default(), 0);
        let mut queue = alloc::collections::VecDeque::new();
        let (mut x, mut longest) = (1u64, 0);
        // Numbers go round within.
        (ring.head, ring.departing, ring.tail, ring.unreleased) =
            (u32::MAX - 500, u32::MAX - 500, u32::MAX - 500, 0);
        // Miri takes a thousand times as long.
        let (steps, burst) = if cfg!(miri) { (8_000, 40) } else { (20_000, 200) };
        for step in 0..steps {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // A burst now and then, and between them few.
            let most = if step % 4000 < 300 { burst } else { 3 };
            if queue.len() < most && (queue.is_empty() || x >> 62 != 0) {
                ring.push_at(&Cell::new(step, 1000), u64::from(step));
                queue.push_back(step);
            } else if let Some(first) = queue.pop_front() {
                let cell = ring.pop();
                assert_eq!((cell.packet, cell.time), (first, u64::from(first)));
            }
            assert_eq!(ring.len() as usize, queue.len());
            assert!(ring.cells_from(ring.head).map(|c| c.packet).eq(queue.iter().copied()), "step {step}");
            longest = longest.max(ring.mask + 1);
            if step % 4000 == 3999 {
                assert_eq!(ring.mask + 1, LEAST, "the burst is long over");
            }
        }
        let room = (burst as u32).next_power_of_two();
        assert_eq!((longest, ring.room), (room, room));
    }
    #[test]
    fn a_line_begins_again_when_it_is_empty() {
        let mut line = Line::default();
        for round in 0..5 {
            (0..6).for_each(|i| line.push(&Cell::new(10 * round + i, 1000), 0));
            assert_eq!((line.head, line.tail), (0, 6));
            assert_eq!(line.remove(2).packet, 10 * round + 2);
            for i in [0, 1, 3, 4, 5] {
                assert_eq!(line.first().packet, 10 * round + i);
                line.pass();
            }
        }
        assert_eq!((line.len(), line.slots.len()), (0, 8));
    }
}
