//! What a family of networks declares.

use crate::topology::{LinkSpec, Topology};

/// How many parts a network has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    /// Hosts.
    pub hosts: u128,
    /// Switches.
    pub switches: u128,
    /// Full-duplex links.
    pub links: u128,
}

/// What the links of a network by name look like.
#[derive(Clone, Debug)]
pub struct Tiers {
    /// Between hosts and switches.
    pub host: LinkSpec,
    /// Between switches.
    pub fabric: LinkSpec,
}

/// Links of a switch with hosts: towards hosts, towards switches.
pub(super) type Ports = fn(&[u32]) -> (u32, u32);

/// A kind of network with numbers in its name.
pub struct Family {
    /// Before the colon.
    pub name: &'static str,
    /// Its name in full, with letters or words for the numbers.
    pub form: &'static str,
    /// What it is, in one line.
    pub text: &'static str,
    /// Where it is described.
    pub source: &'static str,
    /// How many numbers it takes, least and most.
    pub(super) numbers: (usize, usize),
    /// The rule the numbers break, if they do; they are positive.
    pub(super) rule: fn(&[u32]) -> Option<String>,
    /// Counts of numbers that break no rule.
    pub(super) size: fn(&[u32]) -> Size,
    /// `None` = its switches are not in tiers.
    pub(super) ports: Option<Ports>,
    /// Most links between two hosts.
    pub longest: u32,
    pub(super) build: fn(&[u32], &Tiers) -> Topology,
}
