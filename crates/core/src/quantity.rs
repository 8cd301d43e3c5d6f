//! What is measured: every number that is recorded has a declaration, a `static`, and is reported with a reference to it.
//!
//! Name, unit and meaning of a column, of a key of a summary and of what a protocol samples are written down once. Code that records a
//! value refers to its declaration. Declarations are compared by [`Quantity::is`], never by name.

/// The unit of a quantity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// A plain number or a text.
    One,
    /// Seconds.
    Seconds,
    /// Bits per second.
    BitsPerSecond,
    /// Events per second.
    PerSecond,
    /// Bytes.
    Bytes,
    /// Packets.
    Packets,
    /// Full segments.
    Segments,
}

/// Ends of names and the unit each stands for; the first that fits counts.
const ENDS: [(&str, Unit); 6] = [
    ("_per_s", Unit::PerSecond),
    ("_s", Unit::Seconds),
    ("_bps", Unit::BitsPerSecond),
    ("_bytes", Unit::Bytes),
    ("_packets", Unit::Packets),
    ("_segments", Unit::Segments),
];

const fn ends_with(name: &str, end: &str) -> bool {
    let (name, end) = (name.as_bytes(), end.as_bytes());
    if name.len() < end.len() {
        return false;
    }
    let mut i = 0;
    while i < end.len() {
        if name[name.len() - end.len() + i] != end[i] {
            return false;
        }
        i += 1;
    }
    true
}

impl Unit {
    /// The unit that a name tells by its end (`srtt_s`, `rate_bps`), `None` where it tells none.
    pub const fn told_by(name: &str) -> Option<Unit> {
        let mut i = 0;
        while i < ENDS.len() {
            if ends_with(name, ENDS[i].0) {
                return Some(ENDS[i].1);
            }
            i += 1;
        }
        None
    }
    /// As it is written; empty for a plain number.
    pub const fn symbol(self) -> &'static str {
        match self {
            Unit::One => "",
            Unit::Seconds => "s",
            Unit::BitsPerSecond => "bit/s",
            Unit::PerSecond => "1/s",
            Unit::Bytes => "bytes",
            Unit::Packets => "packets",
            Unit::Segments => "segments",
        }
    }
}

/// A measured quantity: a column of a table, a key of the summary, or something that is sampled. It is itself, not its name: two
/// declarations are different quantities, so it is neither copied nor compared by its fields.
#[derive(Debug)]
pub struct Quantity {
    /// Name, which ends with the unit where it has one of [`Unit::told_by`].
    pub name: &'static str,
    /// Unit.
    pub unit: Unit,
    /// What it is, in one line.
    pub text: &'static str,
}

impl Quantity {
    /// A quantity, to be kept in a `static`.
    ///
    /// # Panics
    /// Where the name ends like another unit; in a `static` that is an error of the compiler.
    pub const fn new(name: &'static str, unit: Unit, text: &'static str) -> Quantity {
        if let Some(told) = Unit::told_by(name) {
            assert!(told as u8 == unit as u8, "the name of a quantity ends like another unit");
        }
        Quantity { name, unit, text }
    }
    /// True for the very same declaration.
    #[inline]
    pub fn is(&self, other: &'static Quantity) -> bool {
        core::ptr::eq(self, other)
    }
}

/// Where values are reported to: each by its declaration.
pub type Report<'a> = dyn FnMut(&'static Quantity, f64) + 'a;

/// Congestion window.
pub static CWND: Quantity = Quantity::new("cwnd_bytes", Unit::Bytes, "congestion window of a sender");
/// Payload acknowledged.
pub static ACKED: Quantity =
    Quantity::new("acked_bytes", Unit::Bytes, "total acknowledged payload of a flow");
/// Smoothed round-trip time.
pub static SRTT: Quantity = Quantity::new("srtt_s", Unit::Seconds, "smoothed round-trip time of a flow");
/// Round-trip time.
pub static RTT: Quantity = Quantity::new("rtt_s", Unit::Seconds, "latest sample of a flow's round-trip time");
/// Slow-start threshold.
pub static SSTHRESH: Quantity =
    Quantity::new("ssthresh_bytes", Unit::Bytes, "slow-start threshold of a sender");
/// Estimated share of marked packets.
pub static ALPHA: Quantity =
    Quantity::new("alpha", Unit::One, "a sender's estimate of the share of marked packets");
/// Rate of a sender.
pub static RATE: Quantity = Quantity::new("rate_bps", Unit::BitsPerSecond, "rate at which a sender may send");
/// Rate that routers granted.
pub static GRANTED: Quantity =
    Quantity::new("granted_bps", Unit::BitsPerSecond, "rate that the routers of its path granted a sender");
/// Rate that a router tells its flows.
pub static FAIR_RATE: Quantity = Quantity::new(
    "fair_rate_bps",
    Unit::BitsPerSecond,
    "rate that a router announces to the flows of a link",
);
/// Rate at which packets come to a link.
pub static ARRIVAL_RATE: Quantity = Quantity::new(
    "arrival_rate_bps",
    Unit::BitsPerSecond,
    "rate at which packets came to a link in the last interval",
);
/// Mean round-trip time of a link's flows.
pub static MEAN_RTT: Quantity =
    Quantity::new("mean_rtt_s", Unit::Seconds, "mean round-trip time that the packets of a link tell");
/// Flows a router knows.
pub static ACTIVE_FLOWS: Quantity =
    Quantity::new("active_flows", Unit::One, "flows that a router knows on a link");

/// The quantities above, which several protocols report.
pub static SHARED: [&Quantity; 12] = [
    &CWND,
    &ACKED,
    &SRTT,
    &RTT,
    &SSTHRESH,
    &ALPHA,
    &RATE,
    &GRANTED,
    &FAIR_RATE,
    &ARRIVAL_RATE,
    &MEAN_RTT,
    &ACTIVE_FLOWS,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_name_tells_its_unit() {
        for (name, unit) in [
            ("srtt_s", Some(Unit::Seconds)),
            ("arrivals_per_s", Some(Unit::PerSecond)),
            ("goodput_bps", Some(Unit::BitsPerSecond)),
            ("cap_bytes", Some(Unit::Bytes)),
            ("w_max_segments", Some(Unit::Segments)),
            ("queue_packets", Some(Unit::Packets)),
            ("drops", None),
            ("s", None),
        ] {
            assert_eq!(Unit::told_by(name), unit, "{name}");
        }
    }

    #[test]
    #[should_panic(expected = "ends like another unit")]
    fn a_name_cannot_tell_another_unit() {
        Quantity::new("srtt_s", Unit::Bytes, "");
    }

    #[test]
    fn shared_quantities_are_themselves_and_have_names_of_their_own() {
        for (i, a) in SHARED.iter().enumerate() {
            for (j, b) in SHARED.iter().enumerate() {
                assert_eq!(a.is(b), i == j);
                assert_eq!(a.name == b.name, i == j);
            }
        }
    }
}
