//! The link behind a port: its clock, timing noise, random loss, reordering.

use crate::cell::Cell;
use alloc::collections::BinaryHeap;
use core::cmp::Reverse;
use penstock_core::{bail_if, ParamError, Stream};
use penstock_units::{Dur, Rate, PS_PER_S};

/// Turns bytes into picoseconds without drift at any rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// Picoseconds per byte when they are whole, else 0.
    ps_per_byte: u64,
    rate: Rate,
    /// Numerator carried by rates that do not divide.
    remainder: u64,
    whole_ns: bool,
    /// Picoseconds of all transmissions, of a clock of whole nanoseconds.
    worked: u64,
}

/// Half a nanosecond: what leaves by a clock of whole nanoseconds is so much later than what arrives in the same one.
const HALF: u64 = 500;

/// What happens in one nanosecond happens in the order in which it was planned, and a packet's departure and arrival are planned when its
/// transmission begins. Of packets that leave or arrive at one instant the one that took longest comes first. Here, picoseconds behind the
/// first that could be: below half a nanosecond, so that arrivals stay before departures, and with one left behind all departures.
fn planned_late(ns: u64) -> u64 {
    498 - (ns / 2).min(498)
}

impl Clock {
    pub fn new(rate: Rate) -> Clock {
        let ps_per_8_bits = 8 * PS_PER_S;
        let whole = ps_per_8_bits.is_multiple_of(rate.0);
        let ps_per_byte = if whole { ps_per_8_bits / rate.0 } else { 0 };
        Clock { ps_per_byte, rate, remainder: 0, whole_ns: false, worked: 0 }
    }
    /// A clock of whole nanoseconds, as the HPCC group's ns-3 has it: what a transmission takes is cut off, one nanosecond less where there is
    /// nothing to cut off.
    pub fn whole_ns(rate: Rate) -> Clock {
        Clock { ps_per_byte: 0, rate, remainder: 0, whole_ns: true, worked: 0 }
    }
    /// The same clock at another rate.
    pub fn with_rate(&self, rate: Rate) -> Clock {
        if self.whole_ns {
            Clock::whole_ns(rate)
        } else {
            Clock::new(rate)
        }
    }
    /// Its times are whole nanoseconds.
    pub fn counts_whole_ns(&self) -> bool {
        self.whole_ns
    }
    /// Picoseconds of all transmissions so far, of a clock of whole nanoseconds.
    pub fn worked(&self) -> u64 {
        self.worked
    }
    /// Picoseconds per byte where that is all there is to know, else 0.
    pub fn ps_per_byte(&self) -> u64 {
        self.ps_per_byte
    }
    /// When a transmission of `bytes` ends that begins at `t`.
    #[inline]
    pub fn finish(&mut self, t: u64, bytes: u64) -> u64 {
        if self.ps_per_byte == 0 && self.whole_ns {
            return self.finish_whole(t, bytes);
        }
        t + self.time(bytes)
    }
    #[inline(never)]
    fn finish_whole(&mut self, t: u64, bytes: u64) -> u64 {
        let ns = (u128::from(bytes) * 8_000_000_000).div_ceil(u128::from(self.rate.0)).saturating_sub(1);
        let end = t - t % 1000 + ns as u64 * 1000 + HALF + planned_late(ns as u64);
        self.worked += end.saturating_sub(t);
        end
    }
    #[inline]
    pub fn rate(&self) -> Rate {
        self.rate
    }
    /// Picoseconds that `bytes` take on the link.
    #[inline]
    fn time(&mut self, bytes: u64) -> u64 {
        if self.ps_per_byte != 0 {
            return bytes * self.ps_per_byte;
        }
        // A packet's product fits 64 bits.
        if let Some(work) = bytes.checked_mul(8 * PS_PER_S).and_then(|w| w.checked_add(self.remainder)) {
            self.remainder = work % self.rate.0;
            return work / self.rate.0;
        }
        let work = u128::from(bytes) * u128::from(8 * PS_PER_S) + u128::from(self.remainder);
        self.remainder = (work % u128::from(self.rate.0)) as u64;
        (work / u128::from(self.rate.0)) as u64
    }
}

/// Timing noise of a host's port: packets of its senders leave up to `most` later than exact, in order.
pub(crate) struct Jitter {
    pub most: Dur,
    pub rng: Stream,
    /// When the latest packet leaves, so that the next one does not overtake it.
    pub left_at: u64,
}

impl Jitter {
    /// When a packet leaves whose exact departure would be `finish`.
    ///
    /// The packet comes late, the port's clock stays exact: a late packet delays none behind it, no capacity is lost, and the
    /// noise of a burst does not add up.
    #[inline]
    pub fn shift(&mut self, finish: u64, noisy: bool) -> u64 {
        let late = if noisy { self.rng.dur_below(self.most).0 } else { 0 };
        self.left_at = self.left_at.max(finish + late);
        self.left_at
    }
}

/// A share of the packets takes longer on the wire than the others and may be overtaken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reordering {
    /// Probability that a packet is held up.
    pub share: f64,
    /// It is held up for a time uniform on `[0, extra)`.
    pub extra: Dur,
}

impl Reordering {
    /// Refuses what cannot work.
    ///
    /// # Errors
    /// A share outside 0..1, or no extra delay.
    pub fn check(&self) -> Result<(), ParamError> {
        if !(0.0..=1.0).contains(&self.share) {
            return Err(ParamError::new("reorder", format_f64(self.share), "must be a share of 0 to 1"));
        }
        bail_if!(self.extra == Dur::ZERO, ParamError::new("reorder_delay", "0s", "must be above 0"));
        Ok(())
    }
}

pub(crate) fn format_f64(x: f64) -> alloc::string::String {
    alloc::format!("{x}")
}

/// Packets held up on the wire, by the time they arrive.
pub(crate) struct HeldUp {
    pub rule: Reordering,
    pub rng: Stream,
    heap: BinaryHeap<Reverse<(u64, u64, usize)>>,
    cells: alloc::vec::Vec<Cell>,
    free: alloc::vec::Vec<usize>,
    count: u64,
}

impl HeldUp {
    pub fn new(rule: Reordering, rng: Stream) -> HeldUp {
        HeldUp {
            rule,
            rng,
            heap: BinaryHeap::new(),
            cells: alloc::vec::Vec::new(),
            free: alloc::vec::Vec::new(),
            count: 0,
        }
    }
    /// Draws whether a packet that would arrive now is held up, and how much.
    pub fn draw(&mut self) -> Option<Dur> {
        (self.rng.uniform() < self.rule.share).then(|| self.rng.dur_below(self.rule.extra))
    }
    pub fn push(&mut self, at: u64, cell: Cell) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.cells.push(Cell::default());
            self.cells.len() - 1
        });
        self.cells[slot] = cell;
        self.heap.push(Reverse((at, self.count, slot)));
        self.count += 1;
    }
    /// The packet that arrives at `now`, when there is one.
    pub fn due(&mut self, now: u64) -> Option<Cell> {
        let Reverse((at, _, slot)) = *self.heap.peek()?;
        if at > now {
            return None;
        }
        self.heap.pop();
        self.free.push(slot);
        Some(self.cells[slot])
    }
    pub fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.heap.iter().map(|Reverse((_, _, slot))| &self.cells[*slot])
    }
    pub fn len(&self) -> u64 {
        self.heap.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_nanoseconds_are_cut_off_and_end_in_the_order_of_their_beginnings() {
        // 1048 bytes take 83.84 ns at 100 Gb/s, 1000 exactly 80, and at 100 Tb/s none.
        let mut clock = Clock::whole_ns(Rate(100_000_000_000));
        assert_eq!(clock.finish(5000, 1048), 88_957);
        assert_eq!(clock.finish(88_957, 1048), 171_957, "what is behind the nanosecond is not carried on");
        assert_eq!(clock.finish(5000, 1000), 84_959);
        assert_eq!(clock.with_rate(Rate(100_000_000_000_000)).finish(5000, 1048), 5998);
        // At one instant: what took 838 ns before what took 47, and that before what took none.
        let ends = [1048, 60].map(|bytes| clock.with_rate(Rate(10_000_000_000)).finish(0, bytes) % 1000);
        assert!(500 <= ends[0] && ends[0] < ends[1] && ends[1] < 998, "{ends:?}");
        assert_eq!(Clock::new(Rate(100_000_000_000)).with_rate(Rate(8_000_000_000)).finish(5000, 10), 15_000);
    }
}
