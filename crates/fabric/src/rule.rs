//! Rules a port applies to a packet that arrives, and to one whose transmission begins.

use crate::arena::Segments;
use alloc::boxed::Box;
use penstock_core::{Amount, Backlog, Packet, QueueDiscipline, Stream, Verdict};
use penstock_units::{Dur, Time};

/// A queue discipline as a port holds it. The two that decide at once are static: this is called per hop.
#[derive(Default)]
pub enum Rule {
    /// Nothing but the port's limit.
    #[default]
    DropTail,
    /// Mark a packet that finds this much or more in the port.
    Threshold(Amount),
    /// Accept on arrival, decide at dequeue.
    AtDequeue(Box<dyn QueueDiscipline + Send>),
    /// Anything else; it sees the segment of every packet that arrives.
    Other(Box<dyn QueueDiscipline + Send>),
}

impl Rule {
    /// See [`QueueDiscipline::admit`]; the segment is fetched only for rules that look into it.
    #[inline]
    pub(crate) fn ask<S: Segments>(
        &mut self,
        now: Time,
        q: &Backlog,
        (slot, seg): (u32, &mut S),
        full: bool,
        rng: &mut Stream,
    ) -> Verdict {
        match self {
            Rule::DropTail | Rule::AtDequeue(_) => Verdict::Accept,
            Rule::Threshold(k) => above(*k, q),
            Rule::Other(other) => other.admit(now, q, seg.segment(slot).0, full, rng),
        }
    }
}

#[inline]
fn above(k: Amount, q: &Backlog) -> Verdict {
    let above = match k {
        Amount::Packets(k) => q.packets >= k,
        Amount::Bytes(k) => q.bytes >= k,
    };
    if above {
        Verdict::Mark
    } else {
        Verdict::Accept
    }
}

impl QueueDiscipline for Rule {
    fn admit(&mut self, now: Time, q: &Backlog, packet: &Packet, full: bool, rng: &mut Stream) -> Verdict {
        match self {
            Rule::DropTail | Rule::AtDequeue(_) => Verdict::Accept,
            Rule::Threshold(k) => above(*k, q),
            Rule::Other(other) => other.admit(now, q, packet, full, rng),
        }
    }
    #[inline]
    fn on_dequeue(&mut self, now: Time, sojourn: Dur, q: &Backlog, rng: &mut Stream) -> Verdict {
        match self {
            Rule::AtDequeue(other) | Rule::Other(other) => other.on_dequeue(now, sojourn, q, rng),
            _ => Verdict::Accept,
        }
    }
    fn wants_dequeue(&self) -> bool {
        match self {
            Rule::AtDequeue(_) => true,
            Rule::Other(other) => other.wants_dequeue(),
            _ => false,
        }
    }
    fn silent_bytes(&self) -> u64 {
        match self {
            Rule::DropTail => u64::MAX,
            Rule::Threshold(Amount::Packets(_)) => 0,
            // What a packet finds is less than what is there with it.
            Rule::Threshold(Amount::Bytes(k)) => k.saturating_sub(1),
            Rule::AtDequeue(other) | Rule::Other(other) => other.silent_bytes(),
        }
    }
    fn on_pause_frame(&mut self) {
        if let Rule::AtDequeue(other) | Rule::Other(other) = self {
            other.on_pause_frame();
        }
    }
    fn at_port(&mut self, port: u32) {
        if let Rule::AtDequeue(other) | Rule::Other(other) = self {
            other.at_port(port);
        }
    }
}
