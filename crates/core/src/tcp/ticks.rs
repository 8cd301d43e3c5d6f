//! When a timer of Linux goes off: its clock ticks 1/HZ apart, and its timers lie in the buckets of a wheel (`kernel/time/timer.c`, from
//! memory; scripts with timeouts show it, docs/background/linux-sender.md).

use crate::rng::{Entity, Stream};
use penstock_units::{Dur, Time};

/// Buckets per level of the wheel: the first 63 ticks have one each, the next level's are eight times as wide, and so on.
const LEVEL: u64 = 63;
/// LVL_CLK_SHIFT.
const SHIFT: u32 = 3;

/// Ticks at which due timers do not run; these wait for the next tick.
///
/// A processor checks its timers in the interrupt of its own tick, by a clock that another processor may be about to
/// advance. If that happens a moment later, no timer is due yet. Measured with tail-loss probes of a kernel: 26 to 54
/// of 270 to 290 ticks with due timers missed them, nearly always all of them, and never at two ticks in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MissedTicks {
    /// The share that pass over timers set when an application wrote, below a half.
    pub write: f32,
    /// Probability that a tick passes over timers set when something had arrived.
    pub arrival: f32,
    /// Key of the random numbers that choose these ticks; one key for all hosts of a run.
    pub key: u64,
}

impl MissedTicks {
    /// Does `tick` pass over timers?
    fn passes_over(&self, tick: u64, written: bool) -> bool {
        let share = f64::from(if written { self.write } else { self.arrival });
        if share <= 0.0 {
            return false;
        }
        // Of drawn ticks in a row, the first, the third and so on are missed. Their share of all ticks is q - q^2 + q^3
        // - ... = q / (1 + q).
        let drawn = |tick: u64| {
            Stream::new(self.key, 0, Entity::Ticks, 2 * tick + u64::from(written)).uniform()
                < share / (1.0 - share)
        };
        drawn(tick) && (0..tick).rev().take_while(|before| drawn(*before)).count() % 2 == 0
    }
}

/// Returns the time at which a timer set at `now` for `delay` runs. `delay` is rounded up to whole ticks, counted from
/// the tick before `now`, and the timer waits for the end of its bucket, so that it is never early. Without ticks
/// (`tick` 0) it is exact. `written`: an application's write set it.
pub(super) fn expiry(now: Time, delay: Dur, tick: Dur, missed: &MissedTicks, written: bool) -> Time {
    if tick == Dur::ZERO {
        return now + delay;
    }
    let clock = now.0 / tick.0;
    let ticks = delay.0.div_ceil(tick.0);
    let (mut shift, mut end) = (0, LEVEL);
    while ticks >= end && shift < 8 * SHIFT {
        shift += SHIFT;
        end <<= SHIFT;
    }
    let bucket = ((clock + ticks) >> shift) + 1;
    let due = bucket << shift;
    Time((due + u64::from(missed.passes_over(due, written))).saturating_mul(tick.0))
}

/// The time from `earlier` to `now` by a clock that ticks.
pub(super) fn between(earlier: Time, now: Time, tick: Dur) -> Dur {
    if tick == Dur::ZERO {
        return now.since(earlier);
    }
    Dur((now.0 / tick.0).saturating_sub(earlier.0 / tick.0) * tick.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn expiry(now: Time, delay: Dur, tick: Dur) -> Time {
        super::expiry(now, delay, tick, &MissedTicks::default(), false)
    }

    const TICK: Dur = Dur::millis(4);
    fn at(us: u64) -> Time {
        Time::ZERO + Dur::micros(us)
    }

    /// 14 ms are 4 ticks: set at tick 2 (10 ms is inside of it) it expires at tick 6 and goes off at the end of that bucket, tick 7.
    #[test]
    fn a_short_timer_goes_off_up_to_a_tick_late() {
        assert_eq!(expiry(at(10_000), Dur::millis(14), TICK), at(28_000));
        assert_eq!(expiry(at(8_000), Dur::millis(16), TICK), at(28_000));
        assert_eq!(expiry(at(10_000), Dur::millis(14), Dur::ZERO), at(24_000));
    }
    /// 3.9 ms across a tick are one, 4.1 ms within two are one too.
    #[test]
    fn a_clock_that_ticks_knows_no_parts_of_a_tick() {
        assert_eq!(between(at(7_900), at(11_800), TICK), Dur::millis(4));
        assert_eq!(between(at(8_100), at(11_900), TICK), Dur::ZERO);
        assert_eq!(between(at(8_100), at(12_000), Dur::ZERO), Dur::micros(3_900));
    }
    /// 300 ms are 75 ticks, on the second level, whose buckets have 8 ticks: up to 32 ms late.
    #[test]
    fn a_longer_timer_waits_for_its_bucket() {
        assert_eq!(expiry(at(0), Dur::millis(300), TICK), at(320_000));
        assert_eq!(expiry(at(20_000), Dur::millis(300), TICK), at(352_000));
        // 252 ms, 63 ticks, are the first on it; 248 ms the last on the first.
        assert_eq!(expiry(at(0), Dur::millis(252), TICK), at(256_000));
        assert_eq!(expiry(at(0), Dur::millis(248), TICK), at(252_000));
    }
    /// A fifth of the ticks miss timers set by writes, and a tenth of other ticks those set by arrivals, never two in a
    /// row. Four standard deviations of 20,000 independent draws are 226 and 170 at most. A missed timer runs exactly
    /// one tick later.
    #[test]
    fn ticks_that_are_missed_put_timers_off_by_one() {
        let missed = MissedTicks { write: 0.2, arrival: 0.1, key: 7 };
        let passed = |written| (1..=20_000).map(move |tick| missed.passes_over(tick, written));
        for (written, expected) in [(true, 4000), (false, 2000)] {
            let all: Vec<bool> = passed(written).collect();
            let count = all.iter().filter(|missed| **missed).count() as i64;
            assert!((count - expected).abs() < 230, "{count}");
            assert!(all.windows(2).all(|pair| pair != [true, true]));
        }
        assert!(passed(true).zip(passed(false)).any(|(a, b)| a && !b));
        let tick =
            (10..).find(|tick| missed.passes_over(*tick, true) && !missed.passes_over(*tick, false)).unwrap();
        // Set two ticks before for one tick, it is due at `tick`.
        let at = |written| super::expiry(Time(TICK.0 * (tick - 2)), TICK, TICK, &missed, written);
        assert_eq!((at(true), at(false)), (Time(TICK.0 * (tick + 1)), Time(TICK.0 * tick)));
        // Another key misses others.
        let other = MissedTicks { key: 8, ..missed };
        assert!((1..1000).any(|tick| missed.passes_over(tick, true) != other.passes_over(tick, true)));
    }
}
