//! Arithmetic that can count itself: how much work a router does per packet.
//!
//! A router written against [`Arithmetic`] costs nothing extra with [`Plain`] (every call is one machine
//! operation after inlining) and reports additions and multiplications with [`Counted`]. Divisions count as
//! multiplications: papers on explicit congestion control do so.

/// Additions of a router, per packet (with work).
pub static ADDITIONS: Quantity =
    Quantity::new("additions_per_packet", Unit::One, "additions of a router, per packet (with work)");
/// Multiplications and divisions of a router, per packet (with work).
pub static MULTIPLICATIONS: Quantity = Quantity::new(
    "multiplications_per_packet",
    Unit::One,
    "multiplications and divisions of a router, per packet (with work)",
);
/// Comparisons of a router, per packet (with work).
pub static COMPARISONS: Quantity =
    Quantity::new("comparisons_per_packet", Unit::One, "comparisons of a router, per packet (with work)");

use penstock_core::{Quantity, Report, Unit};

/// Additions (subtractions included), multiplications (divisions included) and comparisons of one router.
pub trait Arithmetic: Default + Send {
    /// `a + b`
    fn add(&mut self, a: f64, b: f64) -> f64;
    /// `a - b`
    fn sub(&mut self, a: f64, b: f64) -> f64;
    /// `a * b`
    fn mul(&mut self, a: f64, b: f64) -> f64;
    /// `a / b`
    fn div(&mut self, a: f64, b: f64) -> f64;
    /// `a < b`
    fn less(&mut self, a: f64, b: f64) -> bool;
    /// One packet has been handled.
    fn packet(&mut self) {}
    /// Reports the counts per packet, when there are any.
    fn observe(&self, report: &mut Report<'_>) {
        let _ = report;
    }
}

/// Plain machine arithmetic.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Arithmetic for Plain {
    #[inline(always)]
    fn add(&mut self, a: f64, b: f64) -> f64 {
        a + b
    }
    #[inline(always)]
    fn sub(&mut self, a: f64, b: f64) -> f64 {
        a - b
    }
    #[inline(always)]
    fn mul(&mut self, a: f64, b: f64) -> f64 {
        a * b
    }
    #[inline(always)]
    fn div(&mut self, a: f64, b: f64) -> f64 {
        a / b
    }
    #[inline(always)]
    fn less(&mut self, a: f64, b: f64) -> bool {
        a < b
    }
}

/// Arithmetic that counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    /// Packets handled.
    pub packets: u64,
    /// Additions and subtractions.
    pub additions: u64,
    /// Multiplications and divisions.
    pub multiplications: u64,
    /// Comparisons.
    pub comparisons: u64,
}

impl Arithmetic for Counted {
    fn add(&mut self, a: f64, b: f64) -> f64 {
        self.additions += 1;
        a + b
    }
    fn sub(&mut self, a: f64, b: f64) -> f64 {
        self.additions += 1;
        a - b
    }
    fn mul(&mut self, a: f64, b: f64) -> f64 {
        self.multiplications += 1;
        a * b
    }
    fn div(&mut self, a: f64, b: f64) -> f64 {
        self.multiplications += 1;
        a / b
    }
    fn less(&mut self, a: f64, b: f64) -> bool {
        self.comparisons += 1;
        a < b
    }
    fn packet(&mut self) {
        self.packets += 1;
    }
    fn observe(&self, report: &mut Report<'_>) {
        let packets = self.packets.max(1) as f64;
        report(&ADDITIONS, self.additions as f64 / packets);
        report(&MULTIPLICATIONS, self.multiplications as f64 / packets);
        report(&COMPARISONS, self.comparisons as f64 / packets);
    }
}
