//! One buffer shared by all ports of a router, with a limit and RED per traffic class.
//!
//! Source: Kant, "Coordinated Bandwidth Control in Data Centers", section 4.1. It has central buffering, a
//! queue limit per DSCP, and per class "drop P_D % of the packets when the L_min threshold is exceeded, and drop all
//! packets when L_max is exceeded", L_max being the limit.
//!
//! The occupancy of each class is kept by the fabric's buffer ([`penstock_fabric::Buffer`]), which asks this rule.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use penstock_core::params::parse_spec;
use penstock_core::{DropCause, ParamError, Stream};
use penstock_fabric::PoolRule;

/// Assured-forwarding code points a scenario may name (RFC 2597), and default forwarding.
pub const DSCP: &[(&str, u8)] = &[
    ("be", 0),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
];

/// The traffic class a DSCP name stands for.
///
/// # Errors
/// A name that is not in [`DSCP`].
pub fn dscp(key: &str, name: &str) -> Result<u8, ParamError> {
    let known = DSCP.iter().find(|(n, _)| n.eq_ignore_ascii_case(name.trim()));
    known.map(|(_, class)| *class).ok_or_else(|| {
        let names: Vec<&str> = DSCP.iter().map(|(n, _)| *n).collect();
        ParamError::new(key, name, format!("must be one of {}", names.join(", ")))
    })
}

/// Limit and RED of one class, in packets over all ports.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ClassLimit {
    /// Traffic class.
    pub class: u8,
    /// L_max: most packets of the class in the buffer.
    pub limit: u32,
    /// L_min: above this many, packets are dropped with probability `drop`.
    pub min: f64,
    /// P_D.
    pub drop: f64,
}

/// The admission rule of a shared buffer.
#[derive(Clone, PartialEq, Debug)]
pub struct SharedBuffer {
    classes: Vec<ClassLimit>,
    total: u32,
}

impl SharedBuffer {
    /// `classes` with their limits; the pool is the sum of the limits.
    pub fn new(classes: Vec<ClassLimit>) -> SharedBuffer {
        let total = classes.iter().map(|c| c.limit).sum();
        SharedBuffer { classes, total }
    }
    /// Reads `af31=120,af21=60`, each limit times `scale`; `min` (fraction of the limit) and `drop` hold for
    /// every class.
    ///
    /// # Errors
    /// A name that is no DSCP, a repeated one, or a limit that is no whole number of at least 1.
    pub fn parse(key: &str, text: &str, scale: f64, min: f64, drop: f64) -> Result<SharedBuffer, ParamError> {
        let (_, given) = parse_spec(key, &format!("classes:{text}"))?;
        let mut classes: Vec<ClassLimit> = Vec::new();
        for (name, limit) in given {
            let class = dscp(key, &name)?;
            if classes.iter().any(|c| c.class == class) {
                return Err(ParamError::new(key, text, format!("names {name} twice")));
            }
            let number: Option<u32> = limit.strip_suffix("pkt").unwrap_or(&limit).parse().ok();
            let scaled =
                number.map(|n| f64::from(n) * scale).filter(|n| (1.0..=f64::from(u32::MAX)).contains(n));
            let limit = scaled.map(|n| n as u32).ok_or_else(|| {
                let rule = format!("the limit of {name} must be a whole number of packets, at least 1");
                ParamError::new(key, text, rule)
            })?;
            classes.push(ClassLimit { class, limit, min: min * f64::from(limit), drop });
        }
        if classes.is_empty() {
            return Err(ParamError::new(key, text, "must name at least one class, for example af21=60"));
        }
        if classes.iter().map(|c| u64::from(c.limit)).sum::<u64>() > u64::from(u32::MAX) {
            return Err(ParamError::new(
                key,
                text,
                format!("must not add up to more than {} packets", u32::MAX),
            ));
        }
        Ok(SharedBuffer::new(classes))
    }
    /// The classes with their limits.
    pub fn classes(&self) -> &[ClassLimit] {
        &self.classes
    }
    /// Most packets the pool may hold.
    pub fn total(&self) -> u32 {
        self.total
    }
    /// The class an unlisted one is treated as: the smallest limit.
    fn limit_of(&self, class: u8) -> ClassLimit {
        let smallest = || self.classes.iter().min_by_key(|c| c.limit);
        *self.classes.iter().find(|c| c.class == class).or_else(smallest).expect("parse wants one class")
    }
    /// As written in a scenario.
    pub fn describe(&self) -> String {
        let name = |class: u8| DSCP.iter().find(|(_, c)| *c == class).map_or("?", |(n, _)| n);
        let parts: Vec<String> =
            self.classes.iter().map(|c| format!("{}={}", name(c.class), c.limit)).collect();
        parts.join(",")
    }
}

impl PoolRule for SharedBuffer {
    fn refuse(&self, class: u8, of_class: u32, all: u32, rng: &mut Stream) -> Option<DropCause> {
        let limit = self.limit_of(class);
        if of_class >= limit.limit || all >= self.total {
            return Some(DropCause::Overflow);
        }
        if f64::from(of_class) > limit.min && rng.uniform() < limit.drop {
            return Some(DropCause::Early);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use penstock_core::rng::Entity;

    fn paper(scale: f64) -> SharedBuffer {
        SharedBuffer::parse("limits", "af31=120,af21=60", scale, 0.5, 0.1).unwrap()
    }

    #[test]
    fn the_papers_thresholds() {
        // Section 4.1: full 120/60, half 60/30; L_max the limit, L_min half of it, P_D 10 %.
        let half = paper(0.5);
        let limits: Vec<_> = half.classes().iter().map(|c| (c.class, c.limit, c.min, c.drop)).collect();
        assert_eq!(limits, [(26, 60, 30.0, 0.1), (18, 30, 15.0, 0.1)]);
        assert_eq!((half.total(), half.describe()), (90, "af31=60,af21=30".to_string()));
    }
    #[test]
    fn drops_the_stated_share_between_the_thresholds_and_all_at_the_limit() {
        let buffer = paper(1.0);
        let mut rng = Stream::new(1, 0, Entity::Port, 0);
        let mut early = |held| {
            (0..100_000).filter(|_| buffer.refuse(18, held, held, &mut rng) == Some(DropCause::Early)).count()
        };
        assert_eq!(early(30), 0, "L_min itself is not exceeded");
        let dropped = early(31);
        // Binomial: 10,000 with a standard deviation of 95.
        assert!((9_600..10_400).contains(&dropped), "{dropped} of 100,000");
        assert_eq!(buffer.refuse(18, 60, 60, &mut rng), Some(DropCause::Overflow));
        assert_eq!(buffer.refuse(26, 0, 180, &mut rng), Some(DropCause::Overflow), "the pool is full");
        // A class without a limit of its own gets the smallest.
        assert_eq!(buffer.refuse(0, 60, 60, &mut rng), Some(DropCause::Overflow));
    }
    #[test]
    fn bad_limits_are_refused_by_name() {
        let message =
            |text: &str| SharedBuffer::parse("limits", text, 1.0, 0.5, 0.1).unwrap_err().to_string();
        assert_eq!(
            message("af31=0"),
            "limits = \"af31=0\": the limit of af31 must be a whole number of packets, at least 1"
        );
        assert!(
            message("af31=3000000000,af21=3000000000").contains("must not add up to more than 4294967295")
        );
        let scaled = SharedBuffer::parse("limits", "af31=3000000000", 2.0, 0.5, 0.1).unwrap_err();
        assert!(scaled.rule.contains("must be a whole number of packets"));
        assert!(message("af99=10").contains("must be one of be, af11"));
        assert!(message("af21=10,af21=20").contains("names af21 twice"));
        assert!(message("").contains("must name at least one class"));
    }
}
