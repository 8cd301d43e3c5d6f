//! Networks by name: `fat-tree:8`, `leaf-spine:4x4x8`, `rail:32x8x4`, `dragonfly:2,4,2`, `star:8`, `clos:5x4x4x4x16`. One file per family,
//! but for the two kinds of fat tree.
//!
//! Hosts are h0, h1, ...; what their switches are called stands in each family's file.

mod dragonfly;
mod family;
mod fat_tree;
mod leaf_spine;
mod rail;
mod star;

pub use family::{Family, Size, Tiers};
pub use fat_tree::fat_tree;
pub use leaf_spine::leaf_spine;

use crate::scenario::Common;
use crate::topology::{LinkSpec, Topology};
use penstock_core::{param, ParamError, ParamSpec, Params};
use penstock_units::Rate;

/// Most full-duplex links of a network by name.
const MOST_LINKS: u128 = 200_000;
/// Largest number in a name: products of four of them fit into the counts of a [`Size`].
const MOST: u32 = 1_000_000;

/// All families.
pub const FAMILIES: [Family; 6] =
    [fat_tree::FAMILY, leaf_spine::FAMILY, rail::FAMILY, dragonfly::FAMILY, star::FAMILY, fat_tree::CLOS];

/// Key `fabric_rate` of a scenario whose network has a name.
pub const FABRIC_RATE: ParamSpec = param!("fabric_rate": Rate = "" in [1e3, 1e13],
    "rate of the links between switches of a topology by name; unset = as oversubscription says, or link_rate", "");
/// Key `fabric_delay` of a scenario whose network has a name.
pub const FABRIC_DELAY: ParamSpec = param!("fabric_delay": Duration = "" in [0.0, 1.0],
    "propagation delay of the links between switches of a topology by name; unset = link_delay", "");
/// Key `oversubscription` of a scenario whose network has a name.
pub const OVERSUBSCRIPTION: ParamSpec = param!("oversubscription": Float = "" in [1e-3, 1e3],
    "oversubscription of a switch with hosts: rate of its links to hosts over rate of its other links; unset = by the rates; needs a topology by \
     name",
    "");

/// A family with its numbers, which break no rule.
pub struct Named {
    /// Its family.
    pub family: &'static Family,
    key: String,
    text: String,
    numbers: Vec<u32>,
}

impl Named {
    /// Reads a network's name, given under `key`.
    ///
    /// # Errors
    /// An unknown family, numbers that are none or impossible, more than `MOST_LINKS`.
    pub fn parse(key: &str, text: &str) -> Result<Named, ParamError> {
        let (name, args) = text.split_once(':').unwrap_or((text, ""));
        let bad = |rule: String| ParamError::new(key, text, rule);
        let forms = || FAMILIES.iter().map(|f| f.form).collect::<Vec<_>>().join(", ");
        let family = FAMILIES.iter().find(|f| f.name == name.trim());
        let family = family.ok_or_else(|| bad(format!("must be one of {}", forms())))?;
        let numbers: Option<Vec<u32>> = args.split(['x', ',']).map(|a| a.trim().parse().ok()).collect();
        let (least, most) = family.numbers;
        let numbers = numbers.filter(|n| (least..=most).contains(&n.len()));
        let numbers = numbers.ok_or_else(|| bad(format!("must be {} with whole numbers", family.form)))?;
        let possible = numbers.iter().all(|n| (1..=MOST).contains(n));
        if let Some(rule) = (family.rule)(&numbers).filter(|_| possible) {
            return Err(bad(format!("{} {rule}", family.form)));
        }
        if !possible || (family.size)(&numbers).links > MOST_LINKS {
            return Err(bad(format!(
                "{} needs positive numbers and at most {MOST_LINKS} links",
                family.form
            )));
        }
        Ok(Named { family, key: key.into(), text: text.into(), numbers })
    }
    /// Hosts, switches and links.
    pub fn size(&self) -> Size {
        (self.family.size)(&self.numbers)
    }
    /// The network.
    ///
    /// # Errors
    /// Fewer than two hosts.
    pub fn build(&self, tiers: &Tiers) -> Result<Topology, ParamError> {
        if self.size().hosts < 2 {
            return Err(ParamError::new(&self.key, &self.text, "must have at least two hosts"));
        }
        Ok((self.family.build)(&self.numbers, tiers))
    }
    /// Rate of the links between switches at which a switch with hosts has as much towards other switches as towards them; `None` where
    /// switches are not in tiers.
    pub fn even_fabric_rate(&self, host: f64) -> Option<f64> {
        let (down, up) = (self.family.ports?)(&self.numbers);
        Some(f64::from(down) * host / f64::from(up))
    }
    /// Rate of the links between switches, bit/s: as given, as oversubscription says, or the hosts' own rate.
    ///
    /// # Errors
    /// Two keys that contradict each other; oversubscription where switches are not in tiers.
    pub fn fabric_rate(&self, p: &Params) -> Result<f64, ParamError> {
        let host = p.float("link_rate");
        if !p.is_set("oversubscription") {
            return Ok(if p.is_set("fabric_rate") { p.float("fabric_rate") } else { host });
        }
        let Some(ports) = self.family.ports else {
            let rule = format!(
                "is not defined for {}, whose switches are not in tiers: set fabric_rate",
                self.family.name
            );
            return Err(p.error("oversubscription", rule));
        };
        let (down, up) = ports(&self.numbers);
        let (asked, ratio) = (p.float("oversubscription"), f64::from(down) * host / f64::from(up));
        if !p.is_set("fabric_rate") {
            let rate = ratio / asked;
            if !(1e3..=1e13).contains(&rate) {
                let rule = format!(
                    "would need links of {rate:.3e} bit/s between switches; 1e3 to 1e13 are possible"
                );
                return Err(p.error("oversubscription", rule));
            }
            return Ok(rate);
        }
        let given = p.float("fabric_rate");
        if (ratio / given / asked - 1.0).abs() > 1e-6 {
            let rule = format!(
                "contradicts the rates: {down} x {} to hosts over {up} x {} are {}",
                Rate::from_bps(host),
                Rate::from_bps(given),
                ratio / given
            );
            return Err(p.error("oversubscription", rule));
        }
        Ok(given)
    }
    /// The links, from the keys `link_rate`, `fabric_rate`, `oversubscription`, `link_delay`, `fabric_delay` and `buffer`.
    ///
    /// # Errors
    /// As [`Named::fabric_rate`]; a buffer smaller than one packet.
    pub fn tiers(&self, p: &Params, c: &Common) -> Result<Tiers, ParamError> {
        let fabric_rate = Rate::from_bps(self.fabric_rate(p)?);
        let host =
            c.link(p.rate("link_rate"), p.dur("link_delay"), p.is_set("buffer").then_some((p, "buffer")))?;
        let delay = if p.is_set("fabric_delay") { p.dur("fabric_delay") } else { host.delay };
        let fabric = LinkSpec { rate: fabric_rate, delay, ..host.clone() };
        Ok(Tiers { host, fabric })
    }
}

/// A network by name with links that are all alike.
///
/// # Errors
/// As [`Named::parse`] and [`Named::build`].
pub fn parse_topology(key: &str, text: &str, link: &LinkSpec) -> Result<Topology, ParamError> {
    Named::parse(key, text)?.build(&Tiers { host: link.clone(), fabric: link.clone() })
}
