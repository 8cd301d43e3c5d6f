//! The ring of a link: cells in the order in which they leave.

use crate::cell::Cell;
use crate::fetch::prefetch_at;
use alloc::boxed::Box;
use alloc::vec;

/// Cells of one link in order. `head..departing` are on the wire; `departing..tail` are in the port: all of them on a
/// FIFO port, the one in service on a port that schedules. Indices run freely; the mask folds them.
pub(crate) struct Ring {
    slots: Box<[Cell]>,
    /// First cell that has not arrived at the other end.
    pub head: u32,
    /// First cell that has not left the port.
    pub departing: u32,
    /// One past the last cell.
    pub tail: u32,
    /// First cell whose room in a shared buffer has not been given back; from head to departing, or to one behind that.
    pub unreleased: u32,
}

impl Ring {
    pub fn new() -> Ring {
        Ring { slots: vec![Cell::default(); 8].into(), head: 0, departing: 0, tail: 0, unreleased: 0 }
    }
    #[inline]
    pub fn at(&self, i: u32) -> &Cell {
        // SAFETY: as in [`Self::at_mut`].
        unsafe { self.slots.get_unchecked(i as usize & (self.slots.len() - 1)) }
    }
    #[inline]
    pub fn at_mut(&mut self, i: u32) -> &mut Cell {
        let mask = self.slots.len() - 1;
        // SAFETY: there are eight slots at first and twice as many after each [`Self::grow`], never none; what is left of a number when
        // it is masked by their count less one is at most that.
        unsafe { self.slots.get_unchecked_mut(i as usize & mask) }
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
    #[inline]
    pub fn push(&mut self, cell: Cell) {
        self.push_at(&cell, cell.time);
    }
    /// The same with another time.
    #[inline(always)]
    pub fn push_at(&mut self, cell: &Cell, time: u64) {
        if self.len() as usize == self.slots.len() {
            self.grow();
        }
        let slot = self.at_mut(self.tail);
        *slot = *cell;
        slot.time = time;
        self.tail = self.tail.wrapping_add(1);
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
        let mut bigger = vec![Cell::default(); self.slots.len() * 2];
        for (new, old) in bigger.iter_mut().zip(self.cells_from(self.head)) {
            *new = *old;
        }
        self.tail = self.len();
        self.departing = self.departing.wrapping_sub(self.head);
        self.unreleased = self.unreleased.wrapping_sub(self.head);
        self.head = 0;
        self.slots = bigger.into();
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
        next
    }
}
