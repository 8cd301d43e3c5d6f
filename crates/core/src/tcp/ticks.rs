//! When a timer of Linux goes off: its clock ticks 1/HZ apart, and its timers lie in the buckets of a wheel (`kernel/time/timer.c`, from
//! memory; scripts with timeouts show it, docs/linux.md).

use penstock_units::{Dur, Time};

/// Buckets per level of the wheel: the first 63 ticks have one each, the next level's are eight times as wide, and so on.
const LEVEL: u64 = 63;
/// LVL_CLK_SHIFT.
const SHIFT: u32 = 3;

/// When a timer that is set at `now` for `delay` goes off: `delay` is rounded up to whole ticks, counted from the tick before `now`, and
/// the timer waits for the end of its bucket, so that it is never early. Without ticks (`tick` 0) it is exact.
pub(super) fn expiry(now: Time, delay: Dur, tick: Dur) -> Time {
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
    Time((bucket << shift).saturating_mul(tick.0))
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
}
