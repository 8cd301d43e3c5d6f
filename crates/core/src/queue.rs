//! The queue discipline role: what happens to a packet that arrives at a FIFO output port.

use crate::packet::Packet;
use crate::rng::Stream;
use penstock_units::{Dur, Rate, Time};

/// Why a packet was dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum DropCause {
    /// The port's own limit, or the shared pool, had no room.
    Overflow = 0,
    /// An active queue management rule that drops decided so (RED without ECN and its kin).
    Early = 1,
    /// Random loss asked for by the scenario.
    Random = 2,
    /// A rule wanted to mark the packet, which is not ECN-capable (RFC 3168 section 5: dropped instead).
    NotEct = 3,
}

impl DropCause {
    /// All causes, in the order of their numbers.
    pub const ALL: [DropCause; Self::COUNT] =
        [DropCause::Overflow, DropCause::Early, DropCause::Random, DropCause::NotEct];
    /// How many there are.
    pub const COUNT: usize = 4;
    /// The name used in result columns.
    pub fn name(self) -> &'static str {
        match self {
            DropCause::Overflow => "overflow",
            DropCause::Early => "early",
            DropCause::Random => "random",
            DropCause::NotEct => "nonect",
        }
    }
}

/// The queue as an arriving packet finds it, itself not counted.
#[derive(Clone, Copy, Debug)]
pub struct Backlog {
    /// Packets waiting plus the one in service.
    pub packets: u32,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Bytes of the packet in service, 0 when the port is idle.
    pub serving: u32,
    /// Since when the port has been idle; equal to the arrival time or later when it is busy.
    pub idle_since: Time,
    /// Link rate.
    pub rate: Rate,
}

/// What becomes of an arriving packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Queue it.
    Accept,
    /// Queue it and set CE; when the packet is not ECN-capable it is dropped as [`DropCause::NotEct`].
    Mark,
    /// Drop it.
    Drop(DropCause),
}

/// Active queue management on a FIFO port, decided on arrival. The port itself enforces its limit.
///
/// The backlog only falls between two arrivals, so a rule about "the queue falling to K" can be decided
/// here too: the lowest value since the last arrival is the backlog now.
pub trait QueueDiscipline {
    /// Decides about `packet`, which finds `backlog`. Called once per arriving packet, also when the port is
    /// full (`full`), so that averages see every arrival; a full port drops whatever the verdict.
    fn admit(
        &mut self,
        now: Time,
        backlog: &Backlog,
        packet: &Packet,
        full: bool,
        rng: &mut Stream,
    ) -> Verdict;
    /// Decides about a packet whose transmission begins after it has waited for `sojourn`; `left` is what it leaves
    /// behind. After [`Verdict::Drop`] the next packet is asked about at the same instant.
    fn on_dequeue(&mut self, now: Time, sojourn: Dur, left: &Backlog, rng: &mut Stream) -> Verdict {
        let _ = (now, sojourn, left, rng);
        Verdict::Accept
    }
    /// True when `on_dequeue` does something (asked once): such a port decides when a packet leaves, not when it comes.
    fn wants_dequeue(&self) -> bool {
        false
    }
    /// Bytes, the arriving packet included, up to which the discipline accepts every packet, changes no state and draws no random number. A
    /// port does not ask it then. The answer never changes during a run; 0 means that the port always asks.
    fn silent_bytes(&self) -> u64 {
        0
    }
    /// A switch has made a pause frame, at whichever of its ports. For who repeats the draws of another simulator.
    fn on_pause_frame(&mut self) {}
    /// The number of the port it is at; told once, before the first packet. For who has to name it.
    fn at_port(&mut self, port: u32) {
        let _ = port;
    }
}
