//! The port that a run reports.

use crate::topology::{NodeKind, Topology};
use penstock_fabric::Port;

/// Which port a run reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bottleneck {
    /// This one.
    Fixed(u32),
    /// The switch port with the longest mean queue in the measured window, known at the end. Until then the candidate
    /// stands for it: its queue is sampled, and in large networks its moments are the only ones that are kept.
    Busiest {
        /// The port the scenario expects.
        candidate: u32,
    },
}

impl Bottleneck {
    /// The port known before the run.
    pub fn candidate(self) -> u32 {
        match self {
            Bottleneck::Fixed(port) | Bottleneck::Busiest { candidate: port } => port,
        }
    }
    /// The reported port, at the end of the run.
    pub fn port(self, topology: &Topology, ports: &[Port]) -> u32 {
        match self {
            Bottleneck::Fixed(port) => port,
            Bottleneck::Busiest { candidate } => {
                longest(ports, |p| is_switch_port(topology, p)).unwrap_or(candidate)
            }
        }
    }
}

impl From<u32> for Bottleneck {
    fn from(port: u32) -> Bottleneck {
        Bottleneck::Fixed(port)
    }
}

/// True for the output ports of switches.
pub(crate) fn is_switch_port(t: &Topology, port: u32) -> bool {
    t.nodes[t.links[port as usize].from as usize].kind == NodeKind::Switch
}

/// The port with the longest mean queue among those asked for, the first of equals; `None` when all were empty.
pub(crate) fn longest(ports: &[Port], among: impl Fn(u32) -> bool) -> Option<u32> {
    let mut best = (0, None);
    for p in (0..ports.len() as u32).filter(|p| among(*p)) {
        let sojourn = ports[p as usize].sojourn();
        if sojourn > best.0 {
            best = (sojourn, Some(p));
        }
    }
    best.1
}
