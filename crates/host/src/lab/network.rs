//! The networks of a lab, and where a packet goes next.

use alloc::vec::Vec;
use penstock_core::{bail_if, Stream};
use penstock_fabric::{BufferConfig, Cell, Ingress, NodeConfig};
use penstock_units::Dur;

/// Hosts and switches.
#[derive(Clone, Copy, Debug)]
pub enum Network {
    /// All hosts at one switch.
    Star {
        /// Hosts.
        hosts: u32,
    },
    /// Two tiers: every leaf is connected to every spine.
    LeafSpine {
        /// Leaf switches.
        leaves: u32,
        /// Spine switches.
        spines: u32,
        /// Hosts at each leaf.
        hosts_per_leaf: u32,
    },
}

/// How a leaf chooses a spine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spread {
    /// By the entropy of the packet, which is constant for a flow unless its sender changes it.
    PerFlow,
    /// At random for every packet.
    PerPacket,
}

impl Network {
    /// Number of hosts.
    pub fn hosts(&self) -> u32 {
        match *self {
            Network::Star { hosts } => hosts,
            Network::LeafSpine { leaves, hosts_per_leaf, .. } => leaves * hosts_per_leaf,
        }
    }
    /// Number of switches; leaves come first.
    pub fn switches(&self) -> u32 {
        match *self {
            Network::Star { .. } => 1,
            Network::LeafSpine { leaves, spines, .. } => leaves + spines,
        }
    }
    /// Number of ports, those of hosts included.
    pub fn ports(&self) -> u32 {
        let core = match *self {
            Network::Star { .. } => 0,
            Network::LeafSpine { leaves, spines, .. } => 2 * leaves * spines,
        };
        2 * self.hosts() + core
    }
    /// Links at hosts and links between switches on the longest path.
    pub(super) fn longest_path(&self) -> (u64, u64) {
        (2, if matches!(self, Network::LeafSpine { leaves, .. } if *leaves > 1) { 2 } else { 0 })
    }
    /// The switch that a host is attached to.
    pub fn switch_of(&self, host: u32) -> u32 {
        match *self {
            Network::Star { .. } => 0,
            Network::LeafSpine { hosts_per_leaf, .. } => host / hosts_per_leaf,
        }
    }
    /// Port from `leaf` to `spine`.
    ///
    /// # Panics
    /// Where there is none.
    pub(super) fn uplink(&self, leaf: u32, spine: u32) -> u32 {
        let Network::LeafSpine { leaves, spines, .. } = *self else { panic!("a star has no spine") };
        assert!(leaf < leaves && spine < spines, "leaf {leaf} of {leaves}, spine {spine} of {spines}");
        2 * self.hosts() + leaf * spines + spine
    }
    /// Port from `spine` to `leaf`.
    ///
    /// # Panics
    /// Where there is none.
    pub(super) fn downlink(&self, spine: u32, leaf: u32) -> u32 {
        let Network::LeafSpine { leaves, spines, .. } = *self else { panic!("a star has no spine") };
        assert!(leaf < leaves && spine < spines, "leaf {leaf} of {leaves}, spine {spine} of {spines}");
        2 * self.hosts() + leaves * spines + spine * leaves + leaf
    }
    /// The switch that a port leads to, or the host.
    fn behind(&self, port: u32) -> Result<u32, u32> {
        let n = self.hosts();
        if port < n {
            return Ok(self.switch_of(port));
        }
        bail_if!(port < 2 * n, port - n);
        let Network::LeafSpine { leaves, spines, .. } = *self else { panic!("port {port} of a star") };
        let core = port - 2 * n;
        Ok(if core < leaves * spines { leaves + core % spines } else { (core - leaves * spines) % leaves })
    }
    /// Where a packet that comes in by `port` goes out, or the host that it has reached.
    pub(super) fn next(&self, port: u32, cell: &Cell, spread: Spread, rng: &mut Stream) -> Result<u32, u32> {
        let at = self.behind(port)?;
        let to = self.switch_of(cell.to);
        if at == to {
            return Ok(self.hosts() + cell.to);
        }
        let Network::LeafSpine { leaves, spines, .. } = *self else { unreachable!("one switch") };
        if at >= leaves {
            return Ok(self.downlink(at - leaves, to));
        }
        let spine = match spread {
            Spread::PerFlow => cell.entropy % spines,
            Spread::PerPacket => rng.below(u64::from(spines)) as u32,
        };
        Ok(self.uplink(at, spine))
    }
    /// A switch whose ports share a buffer.
    pub(super) fn node(
        &self,
        switch: u32,
        buffer: &dyn Fn(u16, u16) -> BufferConfig,
        rng: Stream,
    ) -> NodeConfig {
        let n = self.hosts();
        let mut ports = Vec::new();
        let mut ingresses = Vec::new();
        let mut cable = |out: u32, into: u32| {
            ports.push(out);
            ingresses.push(Ingress { upstream: into, back: Some(out) });
        };
        (0..n).filter(|h| self.switch_of(*h) == switch).for_each(|h| cable(n + h, h));
        if let Network::LeafSpine { leaves, spines, .. } = *self {
            if switch < leaves {
                (0..spines).for_each(|s| cable(self.uplink(switch, s), self.downlink(s, switch)));
            } else {
                (0..leaves)
                    .for_each(|l| cable(self.downlink(switch - leaves, l), self.uplink(l, switch - leaves)));
            }
        }
        let buffer = buffer(ports.len() as u16, ingresses.len() as u16);
        NodeConfig { ports, ingresses, buffer, response: Dur::ZERO, rng }
    }
}
