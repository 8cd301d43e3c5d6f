//! Partition fuzz: an engine in which everything that must not be observable is random. In builds with debug assertions only.
//!
//! Nodes interact through packets on links alone, so the order in which different nodes handle simultaneous events must not matter, nor
//! which slot of the arena a packet lies in. Events of one node keep their order ([`crate::events`]).

use crate::engine::Engine;
use crate::events::Ties;
use crate::setup::Setup;
use penstock_core::rng::Entity;
use penstock_core::{ParamError, Stream};

impl Engine {
    /// [`Engine::new`], with slots and with an order of the nodes that are drawn by `seed`. A run has the same results for every seed.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub fn shuffled(setup: Setup, seed: u64) -> Result<Engine, ParamError> {
        Engine::build(setup, |_| true, Some(seed))
    }
}

/// Tie order of nodes and ports.
pub(crate) struct Ranks {
    /// Of every node, drawn.
    pub nodes: Vec<u32>,
    /// Of every port for packets that arrive over its link: by the node they arrive at, then as `ties` says.
    pub arrivals: Vec<u32>,
    /// Of the node that every port belongs to.
    pub ports: Vec<u32>,
}

impl Ranks {
    /// Ranks in a network whose links lead from and to these nodes.
    pub fn new(from: &[u32], to: &[u32], nodes: usize, ties: Ties, seed: u64) -> Ranks {
        let mut ranks: Vec<u32> = (0..nodes as u32).collect();
        stream(seed, 0).shuffle(&mut ranks);
        let flip = if ties == Ties::Reversed { u32::MAX } else { 0 };
        let of = |node: &u32| ranks[*node as usize];
        let mut order: Vec<u32> = (0..to.len() as u32).collect();
        order.sort_by_key(|port| (of(&to[*port as usize]), *port ^ flip));
        let mut arrivals = vec![0; to.len()];
        (0u32..).zip(&order).for_each(|(rank, port)| arrivals[*port as usize] = rank);
        Ranks { arrivals, ports: from.iter().map(of).collect(), nodes: ranks }
    }
}

/// A stream of the fuzz: 0 for ranks, 1 for slots.
pub(crate) fn stream(seed: u64, number: u64) -> Stream {
    Stream::new(seed, number, Entity::Forward, u64::MAX)
}
