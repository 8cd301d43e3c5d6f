//! At how many ticks of the kernel's clock timers do not go off, on the processors of the two threads.
//!
//! The kernel's timers of milliseconds, those of retransmissions, probes and delayed ACKs, go off at ticks of its clock, each on the processor where it was
//! set. Now and then a processor's tick passes over what is due at it, and all of that waits for the next. What that is like on a processor a timer of the same
//! kind tells: that of a receive call with a time limit. A thread for each of the two, which follows it from processor to processor, waits for five ticks, which
//! ends with the sixth tick from its setting on, and counts those that ended later. Waiting oftener, and at a priority of real time, more ticks were missed.

use crate::clock::Clock;
use crate::sys;
use penstock_units::Time;
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// How long a watcher waits, in ticks.
const WAIT: u32 = 5;

/// The processor that a thread runs on, as it says itself.
#[derive(Debug, Default)]
pub struct Place(AtomicUsize);

impl Place {
    /// The calling thread is the one.
    #[inline]
    pub fn here(&self) {
        self.0.store(sys::processor(), Ordering::Relaxed);
    }
    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Ticks at which timers were due, and those that passed over them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    due: u64,
    missed: u64,
}

impl Missed {
    /// A timer that was due so many ticks after it was set has gone off at the tick `after`.
    fn count(&mut self, due: u64, after: u64) {
        let missed = after.saturating_sub(due);
        self.due += 1 + missed;
        self.missed += missed;
    }
    /// The share; NaN where none was due.
    pub fn share(&self) -> f64 {
        if self.due == 0 {
            return f64::NAN;
        }
        self.missed as f64 / self.due as f64
    }
}

/// A thread that watches another one's processor until `stop`, and counts from `from` on.
pub fn watch(
    place: Arc<Place>,
    clock: Clock,
    from: Time,
    stop: Arc<AtomicBool>,
) -> std::io::Result<JoinHandle<Missed>> {
    Builder::new()
        .name("penstock-ticks".into())
        .spawn(move || watched(&place, clock, from, &stop).unwrap_or_default())
}

fn watched(place: &Place, clock: Clock, from: Time, stop: &AtomicBool) -> std::io::Result<Missed> {
    let (own, _other) = UnixDatagram::pair()?;
    let tick = sys::tick_ns();
    // Rounded up to whole ticks.
    own.set_read_timeout(Some(WAIT * Duration::from_nanos(tick)))?;
    let (mut at, mut found) = (usize::MAX, Missed::default());
    while !stop.load(Ordering::Relaxed) {
        let there = place.get();
        if there != at {
            sys::stay_on(there)?;
            at = there;
        }
        let set = sys::tick_time_ns();
        let _ = own.recv(&mut [0]);
        let ended = sys::tick_time_ns();
        if clock.now() >= from {
            found.count(u64::from(WAIT) + 1, (ended - set + tick / 2) / tick);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two on time, one a tick late and one two: seven ticks had a timer due, three passed over it.
    #[test]
    fn ticks_passed_over_are_counted() {
        let mut m = Missed::default();
        assert!(m.share().is_nan());
        [6, 6, 7, 8].into_iter().for_each(|after| m.count(6, after));
        assert_eq!(m, Missed { due: 7, missed: 3 });
        assert!((m.share() - 3.0 / 7.0).abs() < 1e-12);
    }
    /// A watcher counts one timer for six ticks.
    #[test]
    fn a_watcher_counts_its_timers() {
        let (place, stop) = (Arc::new(Place::default()), Arc::new(AtomicBool::new(false)));
        place.here();
        let tick = sys::tick_ns();
        assert!((1_000_000..=10_000_000).contains(&tick), "{tick}");
        let clock = Clock::starting_in(0);
        let thread = watch(place, clock, Time::ZERO, stop.clone()).unwrap();
        sys::sleep_ns(120 * tick);
        stop.store(true, Ordering::Relaxed);
        let found = thread.join().unwrap();
        // Twenty in that time; one that is late has fewer.
        let timers = found.due - found.missed;
        assert!((2..=21).contains(&timers), "{found:?}");
    }
}
