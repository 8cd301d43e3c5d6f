//! Flows that stand still for ever: they have something to send, and nothing that is pending concerns them.
//!
//! Every transport has to end this by itself: by a timer, a credit, a resume. One that does not leaves a run in which all seems well, but for flows that
//! are not complete. So the end of a run looks for them.

use super::Engine;
use crate::flow::{Ends, AWAY};
use penstock_units::Time;
use std::collections::BTreeSet;

/// What the end of a run has found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stuck {
    /// Flows that stand still for ever.
    pub flows: u64,
    /// The last event in the whole network; `None` where other flows go on.
    pub since: Option<Time>,
}

impl Engine {
    /// A look at the network (a sample, a search for deadlocks) changes nothing, and so is no event that ends a silence.
    pub(super) fn note_look(&mut self) {
        if self.before != self.silence.1 {
            self.silence.0 = self.before;
        }
        self.silence.1 = self.now;
    }
    /// Looks for flows that stand still for ever. The run has come to its end by itself, and [`Engine::now`] is the time of the last event.
    pub(super) fn find_stuck(&mut self) {
        // A part of a divided run knows half of what its flows wait for, and carries TCP only, whose timers run while it owes anything.
        if self.part.as_deref().is_some_and(|part| !part.is_whole()) {
            return;
        }
        let waits = |host: u32| {
            let host = self.hosts.get(host);
            host.is_some_and(|host| host.nic.next_timer() != Time::NEVER || host.nic.packets_inside() > 0)
        };
        let owes = |o: &Ends| {
            let sender = self.hosts.ends(o).0;
            o.at_src != AWAY && sender.acked_bytes < sender.accepted_bytes
        };
        let flows = self.open.of(&self.flows).filter(|flow| !waits(flow.ends.src) && !waits(flow.ends.dst));
        let mut still: BTreeSet<u32> =
            flows.filter(|flow| owes(&flow.ends)).map(|flow| flow.number).collect();
        if still.is_empty() {
            return;
        }
        let mut under_way = false;
        for cell in self.wire.net.ports().iter().flat_map(|port| port.every_cell()) {
            still.remove(&self.wire.net.arena.packets[cell.packet as usize].flow);
            under_way = true;
        }
        let nodes = 0..self.setup.topology.nodes.len() as u32;
        let silent = !under_way && self.next_app == Time::NEVER && !nodes.into_iter().any(waits);
        let last = if self.silence.1 == self.now { self.silence.0 } else { self.now };
        let stuck = Stuck { flows: still.len() as u64, since: silent.then_some(last) };
        self.stuck = (stuck.flows > 0).then_some(stuck);
    }
}
