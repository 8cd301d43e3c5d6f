//! Flows that stand still for ever: they have something to send, and nothing that is pending concerns them.
//!
//! Every transport has to end this by itself: by a timer, a credit, a resume. One that does not leaves a run in which all seems well, but for flows that
//! are not complete. So the end of a run looks for them.

use super::Engine;
use crate::flow::{Ends, AWAY};
use crate::measured::StandingStill;
use penstock_units::Time;
use std::collections::BTreeSet;

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
        self.stuck = self.standstill().judge();
    }
    /// Looks for a standstill in a part of a divided run. What each part knows is put together afterwards.
    pub(crate) fn find_standstill(&mut self) {
        if !self.stopped {
            self.own_part().still = Some(self.standstill());
        }
    }
    fn standstill(&self) -> Standstill {
        let waits = |host: u32| {
            let host = self.hosts.get(host);
            host.is_some_and(|host| host.nic.next_timer() != Time::NEVER || host.nic.packets_inside() > 0)
        };
        let owes = |o: &Ends| {
            let sender = self.hosts.ends(o).0;
            o.at_src != AWAY && sender.acked_bytes < sender.accepted_bytes
        };
        let mut found = Standstill { last: self.now, ..Standstill::default() };
        for flow in self.open.of(&self.flows) {
            if waits(flow.ends.src) || waits(flow.ends.dst) {
                found.waited_for.insert(flow.number);
            } else if owes(&flow.ends) {
                found.owing.insert(flow.number);
            }
        }
        let cells = self.wire.net.ports().iter().flat_map(|port| port.every_cell());
        found.moving = cells.map(|cell| self.wire.net.arena.packets[cell.packet as usize].flow).collect();
        let mut nodes = 0..self.setup.topology.nodes.len() as u32;
        found.goes_on = !found.moving.is_empty() || self.next_app != Time::NEVER || nodes.any(waits);
        if self.silence.1 == self.now {
            found.last = self.silence.0;
        }
        found
    }
}

/// What a network, or a part of it, knows of what stands still at the end of a run.
#[derive(Default)]
pub(super) struct Standstill {
    /// Flows that owe something.
    owing: BTreeSet<u32>,
    /// Flows with an end whose host waits for something.
    waited_for: BTreeSet<u32>,
    /// Flows with packets under way.
    moving: BTreeSet<u32>,
    /// Something is pending.
    goes_on: bool,
    /// When something happened last.
    last: Time,
}

impl Standstill {
    /// With what another part knows.
    pub fn with(mut self, other: Standstill) -> Standstill {
        self.owing.extend(other.owing);
        self.waited_for.extend(other.waited_for);
        self.moving.extend(other.moving);
        self.goes_on |= other.goes_on;
        self.last = self.last.max(other.last);
        self
    }
    /// Flows that stand still for ever, if there are some.
    pub fn judge(self) -> Option<StandingStill> {
        let Standstill { owing, waited_for, moving, goes_on, last } = self;
        let still = owing.iter().filter(|flow| !waited_for.contains(flow) && !moving.contains(flow));
        let stuck = StandingStill { flows: still.count() as u64, since: (!goes_on).then_some(last) };
        (stuck.flows > 0).then_some(stuck)
    }
}
