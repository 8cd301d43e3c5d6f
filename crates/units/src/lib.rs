//! Time, bytes and rates as types. Only the dimensionally legal products exist:
//! `Rate * Dur = Bytes`, `Bytes / Rate = Dur`, `Bytes / Dur = Rate`,
//! `Time - Time = Dur`, `Time + Dur = Time`.
//!
//! Time is integer picoseconds in a `u64` (213 days): one byte at 100 Gb/s is exactly 80 ps.
#![no_std]
#![forbid(unsafe_code)]

use core::fmt;
use core::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

/// Picoseconds in a second.
pub const PS_PER_S: u64 = 1_000_000_000_000;
/// A byte for a second at one bit per second, in bit picoseconds. Products with it fit 64 bits up to 2.3 MB: those of packets always do, and a
/// division of 128 bits costs several of 64.
const BYTE_PS: u64 = 8 * PS_PER_S;

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub u64);
    };
}

/// Sums and differences within one dimension; a difference stops at zero.
macro_rules! additive {
    ($name:ident) => {
        impl Add for $name {
            type Output = $name;
            fn add(self, other: $name) -> $name {
                $name(self.0.saturating_add(other.0))
            }
        }
        impl AddAssign for $name {
            fn add_assign(&mut self, other: $name) {
                self.0 = self.0.saturating_add(other.0);
            }
        }
        impl Sub for $name {
            type Output = $name;
            fn sub(self, other: $name) -> $name {
                $name(self.0.saturating_sub(other.0))
            }
        }
        impl SubAssign for $name {
            fn sub_assign(&mut self, other: $name) {
                self.0 = self.0.saturating_sub(other.0);
            }
        }
        impl Mul<u64> for $name {
            type Output = $name;
            fn mul(self, k: u64) -> $name {
                $name(self.0.saturating_mul(k))
            }
        }
        impl Div<u64> for $name {
            type Output = $name;
            fn div(self, k: u64) -> $name {
                $name(self.0 / k)
            }
        }
    };
}

quantity!(
    /// A point in simulated time, in picoseconds since the start of the run.
    Time
);
quantity!(
    /// A length of time, in picoseconds.
    Dur
);
quantity!(
    /// A number of bytes.
    Bytes
);
quantity!(
    /// A data rate, in bits per second.
    Rate
);
additive!(Dur);
additive!(Bytes);
additive!(Rate);

impl Time {
    /// The start of a run.
    pub const ZERO: Time = Time(0);
    /// Later than every event of any run.
    pub const NEVER: Time = Time(u64::MAX);

    /// Seconds since the start of the run.
    pub fn as_secs(self) -> f64 {
        self.0 as f64 / PS_PER_S as f64
    }
    /// The length from `earlier` to `self`, zero when `earlier` is later.
    pub fn since(self, earlier: Time) -> Dur {
        Dur(self.0.saturating_sub(earlier.0))
    }
}

impl Dur {
    /// No time at all.
    pub const ZERO: Dur = Dur(0);
    /// Longer than any run.
    pub const MAX: Dur = Dur(u64::MAX);

    /// From whole nanoseconds.
    pub const fn nanos(ns: u64) -> Dur {
        Dur(ns * 1_000)
    }
    /// From whole microseconds.
    pub const fn micros(us: u64) -> Dur {
        Dur(us * 1_000_000)
    }
    /// From whole milliseconds.
    pub const fn millis(ms: u64) -> Dur {
        Dur(ms * 1_000_000_000)
    }
    /// From seconds, rounded to the nearest picosecond; negative becomes zero, too large becomes [`Dur::MAX`].
    pub fn from_secs(s: f64) -> Dur {
        let ps = s * PS_PER_S as f64;
        if ps >= u64::MAX as f64 {
            Dur::MAX
        } else {
            Dur((ps + 0.5).max(0.0) as u64)
        }
    }
    /// In seconds.
    pub fn as_secs(self) -> f64 {
        self.0 as f64 / PS_PER_S as f64
    }
}

impl Rate {
    /// From bits per second given as a float, rounded; negative becomes zero.
    pub fn from_bps(bps: f64) -> Rate {
        Rate((bps + 0.5).max(0.0) as u64)
    }
    /// In bits per second.
    pub fn as_bps(self) -> f64 {
        self.0 as f64
    }
    /// In bytes per second.
    pub fn as_bytes_per_sec(self) -> f64 {
        self.0 as f64 / 8.0
    }
}

impl Add<Dur> for Time {
    type Output = Time;
    fn add(self, d: Dur) -> Time {
        Time(self.0.saturating_add(d.0))
    }
}
impl Sub<Dur> for Time {
    type Output = Time;
    fn sub(self, d: Dur) -> Time {
        Time(self.0.saturating_sub(d.0))
    }
}
impl Sub for Time {
    type Output = Dur;
    /// Panics in debug builds when `earlier` is later than `self`.
    fn sub(self, earlier: Time) -> Dur {
        debug_assert!(self.0 >= earlier.0, "time went backwards");
        self.since(earlier)
    }
}
impl Mul<Dur> for Rate {
    type Output = Bytes;
    /// Whole bytes carried in `d`, rounded down.
    fn mul(self, d: Dur) -> Bytes {
        match self.0.checked_mul(d.0) {
            Some(bit_ps) => Bytes(bit_ps / BYTE_PS),
            None => Bytes((u128::from(self.0) * u128::from(d.0) / u128::from(BYTE_PS)) as u64),
        }
    }
}
impl Div<Rate> for Bytes {
    type Output = Dur;
    /// Serialisation time, rounded up; [`Dur::MAX`] at rate zero.
    fn div(self, r: Rate) -> Dur {
        if r.0 == 0 {
            return Dur::MAX;
        }
        if let Some(work) = self.0.checked_mul(BYTE_PS) {
            return Dur(work.div_ceil(r.0));
        }
        let ps = (u128::from(self.0) * u128::from(BYTE_PS)).div_ceil(u128::from(r.0));
        Dur(u64::try_from(ps).unwrap_or(u64::MAX))
    }
}
impl Div<Dur> for Bytes {
    type Output = Rate;
    /// Average rate over `d`, rounded down; zero when `d` is zero.
    fn div(self, d: Dur) -> Rate {
        if d.0 == 0 {
            return Rate(0);
        }
        match self.0.checked_mul(BYTE_PS) {
            Some(work) => Rate(work / d.0),
            None => Rate((u128::from(self.0) * u128::from(BYTE_PS) / u128::from(d.0)) as u64),
        }
    }
}

/// Writes `value` exactly, in the largest unit of which there is one: `1.5984ms`. The sizes of units are powers of ten.
fn write_with_unit(f: &mut fmt::Formatter<'_>, value: u64, units: &[(u64, &str)]) -> fmt::Result {
    let Some((size, name)) = units.iter().find(|(size, _)| value >= *size).or(units.last()) else {
        return write!(f, "{value}");
    };
    let (mut rest, mut digits) = (value % size, size.ilog10() as usize);
    write!(f, "{}", value / size)?;
    if rest > 0 {
        while rest.is_multiple_of(10) {
            (rest, digits) = (rest / 10, digits - 1);
        }
        write!(f, ".{rest:0digits$}")?;
    }
    write!(f, "{name}")
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s", self.as_secs())
    }
}
impl fmt::Display for Dur {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(PS_PER_S, "s"), (1_000_000_000, "ms"), (1_000_000, "us"), (1_000, "ns"), (1, "ps")];
        write_with_unit(f, self.0, &units)
    }
}
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Lengths of packets are given in bytes.
        if self.0 < 10_000 {
            return write!(f, "{}B", self.0);
        }
        write_with_unit(f, self.0, &[(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "KB")])
    }
}
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_with_unit(
            f,
            self.0,
            &[
                (1_000_000_000_000, "Tbps"),
                (1_000_000_000, "Gbps"),
                (1_000_000, "Mbps"),
                (1_000, "kbps"),
                (1, "bps"),
            ],
        )
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn one_byte_at_100_gbps_is_80_ps() {
        assert_eq!(Bytes(1) / Rate(100_000_000_000), Dur(80));
    }
    #[test]
    fn quantities_are_written_exactly_in_a_unit_that_can_be_read() {
        let durs = [0, 1, 999, 332_800, 1_598_400_000, 2 * PS_PER_S, PS_PER_S + 1];
        let written = ["0ps", "1ps", "999ps", "332.8ns", "1.5984ms", "2s", "1.000000000001s"];
        assert_eq!(durs.map(|ps| Dur(ps).to_string()), written);
        let rates = [0, 1500, 10_000_000_000, 12_345_678_901, 1_600_000_000_000];
        let written = ["0bps", "1.5kbps", "10Gbps", "12.345678901Gbps", "1.6Tbps"];
        assert_eq!(rates.map(|bps| Rate(bps).to_string()), written);
        let sizes = [0, 1500, 9999, 10_000, 1_598_400, 12_000_000_000];
        assert_eq!(sizes.map(|b| Bytes(b).to_string()), ["0B", "1500B", "9999B", "10KB", "1.5984MB", "12GB"]);
    }
    #[test]
    fn products_are_dimensionally_consistent() {
        // 1 Gb/s for 300 us carries 37,500 bytes.
        assert_eq!(Rate(1_000_000_000) * Dur::micros(300), Bytes(37_500));
        assert_eq!(Bytes(37_500) / Dur::micros(300), Rate(1_000_000_000));
        assert_eq!(Bytes(37_500) / Rate(1_000_000_000), Dur::micros(300));
    }
    #[test]
    fn results_do_not_depend_on_the_width_of_the_product() {
        // On both sides of what fits 64 bits, and where it just does.
        let most = u64::MAX / BYTE_PS;
        for bytes in [0, 1, 1500, most - 1, most, most + 1, 4 * most, u64::MAX] {
            for other in [1, 3, 970_000_000, 100_000_000_000, u64::MAX] {
                let (b, wide) = (Bytes(bytes), u128::from(bytes) * 8 * u128::from(PS_PER_S));
                let up = wide.div_ceil(u128::from(other));
                assert_eq!(b / Rate(other), Dur(u64::try_from(up).unwrap_or(u64::MAX)), "{bytes} {other}");
                assert_eq!(b / Dur(other), Rate((wide / u128::from(other)) as u64), "{bytes} {other}");
                let carried = u128::from(bytes) * u128::from(other) / 8 / u128::from(PS_PER_S);
                assert_eq!(Rate(bytes) * Dur(other), Bytes(carried as u64), "{bytes} {other}");
            }
        }
    }
    #[test]
    fn a_rate_that_does_not_divide_rounds_up() {
        // 1500 B at 970 Mb/s = 12371.134.. ns.
        assert_eq!(Bytes(1500) / Rate(970_000_000), Dur(12_371_135));
    }
}
