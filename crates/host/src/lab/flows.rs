//! Flows of a lab, and what becomes of them.

use crate::stack::{Counters, Opening};
use penstock_core::tcp::TimeoutRecord;
use penstock_core::{FlowId, Transition};
use penstock_units::Time;

/// A flow to be.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// From host.
    pub src: u32,
    /// To host.
    pub dst: u32,
    /// Bytes.
    pub bytes: u64,
    /// When it begins.
    pub start: Time,
    /// Traffic class, 0..64.
    pub class: u8,
    /// When it should be done.
    pub due: Time,
    /// The stack is told the number of bytes in advance.
    pub sized: bool,
    /// Which of the stack's protocols.
    pub protocol: u32,
    /// Set of applications.
    pub group: u32,
}

impl Flow {
    /// From `src` to `dst` at time 0, of known size.
    pub fn new(src: u32, dst: u32, bytes: u64) -> Flow {
        Flow {
            src,
            dst,
            bytes,
            start: Time::ZERO,
            class: 0,
            due: Time::NEVER,
            sized: true,
            protocol: 0,
            group: Opening::ALONE,
        }
    }
    /// With another start.
    #[must_use]
    pub fn at(mut self, start: Time) -> Flow {
        self.start = start;
        self
    }
}

/// What became of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// The flow.
    pub flow: Flow,
    /// Bytes delivered so far.
    pub delivered: u64,
    /// When the last byte was delivered; [`Time::NEVER`] = not yet.
    pub completed: Time,
    /// When the sender knew of it.
    pub acked: Time,
    /// When it was over.
    pub closed: Time,
    /// Its packets lost in the network.
    pub drops: u64,
    /// Its packets that arrived trimmed.
    pub trims: u64,
    /// Counters of both ends added, as of its end or now.
    pub counters: Counters,
}

/// Something for the records.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// [`crate::StackEvent::Timeout`].
    Timeout(FlowId, TimeoutRecord),
    /// [`crate::StackEvent::FastRetransmit`]: flow, bytes outstanding, window afterwards.
    FastRetransmit(FlowId, u64, u64),
    /// [`crate::StackEvent::Transition`].
    Transition(Transition),
}
