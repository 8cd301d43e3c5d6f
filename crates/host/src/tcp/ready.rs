//! The order in which a host's connections send.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

/// No handle.
const NONE: u32 = u32::MAX;

/// Handles in a line. Mostly there is one at most, which needs no memory of its own.
pub(super) struct Line {
    first: u32,
    rest: VecDeque<u32>,
}

impl Line {
    pub fn new() -> Line {
        Line { first: NONE, rest: VecDeque::new() }
    }
    #[inline]
    fn push(&mut self, conn: u32) {
        if self.first == NONE {
            self.first = conn;
        } else {
            self.rest.push_back(conn);
        }
    }
    #[inline]
    fn drop_first(&mut self) {
        self.first = if self.rest.is_empty() { NONE } else { self.rest.pop_front().unwrap_or(NONE) };
    }
}

/// Connections that may have something to send, in the order in which they are asked. An entry may be out of date: the
/// connection has the flag that counts.
pub(super) enum Ready {
    /// One until it has nothing more, then the next. With an endless queue packets have the order of the events.
    Drain(Line),
    /// A packet each, in turn.
    InTurn(Line),
    /// The lowest flow first: (flow, handle).
    Strict(BTreeSet<(u32, u32)>),
}

impl Ready {
    #[inline]
    pub fn is_empty(&self) -> bool {
        match self {
            Ready::Drain(line) | Ready::InTurn(line) => line.first == NONE,
            Ready::Strict(set) => set.is_empty(),
        }
    }
    #[inline]
    pub fn push(&mut self, flow: u32, conn: u32) {
        match self {
            Ready::Drain(line) | Ready::InTurn(line) => line.push(conn),
            Ready::Strict(set) => {
                set.insert((flow, conn));
            }
        }
    }
    #[inline]
    pub fn first(&self) -> Option<u32> {
        match self {
            Ready::Drain(line) | Ready::InTurn(line) => (line.first != NONE).then_some(line.first),
            Ready::Strict(set) => set.first().map(|(_, conn)| *conn),
        }
    }
    /// The first one has sent a packet.
    #[inline]
    pub fn sent(&mut self) {
        if let Ready::InTurn(line) = self {
            if let Some(next) = line.rest.pop_front() {
                line.rest.push_back(core::mem::replace(&mut line.first, next));
            }
        }
    }
    /// All handles, in the order in which they are asked.
    pub fn in_order(&self) -> Vec<u32> {
        match self {
            Ready::Drain(line) | Ready::InTurn(line) => {
                let first = (line.first != NONE).then_some(line.first);
                first.into_iter().chain(line.rest.iter().copied()).collect()
            }
            Ready::Strict(set) => set.iter().map(|(_, conn)| *conn).collect(),
        }
    }
    /// Connection `conn` has sent a packet.
    pub fn sent_by(&mut self, conn: u32) {
        if let Ready::InTurn(line) = self {
            if line.first == conn {
                return self.sent();
            }
            line.rest.retain(|c| *c != conn);
            line.rest.push_back(conn);
        }
    }
    /// The first one has nothing, or is out of date.
    #[inline]
    pub fn drop_first(&mut self) {
        match self {
            Ready::Drain(line) | Ready::InTurn(line) => line.drop_first(),
            Ready::Strict(set) => {
                set.pop_first();
            }
        }
    }
    /// The connection is over.
    pub fn remove(&mut self, flow: u32, conn: u32) {
        match self {
            Ready::Drain(line) | Ready::InTurn(line) => {
                line.rest.retain(|c| *c != conn);
                if line.first == conn {
                    line.drop_first();
                }
            }
            Ready::Strict(set) => {
                set.remove(&(flow, conn));
            }
        }
    }
}
