//! Which of a host's connections is asked for a packet next.

use alloc::collections::{BTreeSet, VecDeque};

/// Connections that may have something to send, in the order in which they are asked. An entry may be out of date: the connection knows
/// whether it is listed.
pub(super) enum Ready {
    /// One until it has nothing more, then the next: with an endless queue the order of packets is that of the events.
    Drain(VecDeque<u32>),
    /// A packet each, in turn.
    InTurn(VecDeque<u32>),
    /// The lowest flow first: (flow, handle).
    Strict(BTreeSet<(u32, u32)>),
}

impl Ready {
    #[inline]
    pub fn is_empty(&self) -> bool {
        match self {
            Ready::Drain(list) | Ready::InTurn(list) => list.is_empty(),
            Ready::Strict(set) => set.is_empty(),
        }
    }
    #[inline]
    pub fn push(&mut self, flow: u32, conn: u32) {
        match self {
            Ready::Drain(list) | Ready::InTurn(list) => list.push_back(conn),
            Ready::Strict(set) => {
                set.insert((flow, conn));
            }
        }
    }
    #[inline]
    pub fn first(&self) -> Option<u32> {
        match self {
            Ready::Drain(list) | Ready::InTurn(list) => list.front().copied(),
            Ready::Strict(set) => set.first().map(|(_, conn)| *conn),
        }
    }
    /// The first one has sent a packet.
    #[inline]
    pub fn sent(&mut self) {
        if let Ready::InTurn(list) = self {
            if list.len() > 1 {
                list.rotate_left(1);
            }
        }
    }
    /// The first one has nothing, or is out of date.
    #[inline]
    pub fn drop_first(&mut self) {
        match self {
            Ready::Drain(list) | Ready::InTurn(list) => {
                list.pop_front();
            }
            Ready::Strict(set) => {
                set.pop_first();
            }
        }
    }
    /// The connection is over.
    pub fn remove(&mut self, flow: u32, conn: u32) {
        match self {
            Ready::Drain(list) | Ready::InTurn(list) => list.retain(|c| *c != conn),
            Ready::Strict(set) => {
                set.remove(&(flow, conn));
            }
        }
    }
}
