//! RDMA over Ethernet: queue pairs with go-back-N or selective repeat and a rate limiter in the network card, under an open rate law.
//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | the law, with its inputs and outputs; options of all pairs of a run |
//! | `pair.rs` | the two ends of a queue pair: go-back-N, acknowledgements, congestion notification |
//! | `selective.rs` | the scoreboard of a sender with selective repeat |
//! | `stack.rs` | the transport of a host: queue pairs in turn, each when its limiter and its window allow |
//! | `scan.rs` | the turns of the HPCC group's ns-3 |
//!
//! As in RoCEv2 (InfiniBand Architecture Specification volume 1, section 9.7, from memory), with two differences. Sequence
//! numbers count bytes where the PSN counts packets. Write and send requests are the same, so their extra headers (RETH) are
//! not on the wire. A queue pair begins without a handshake.

mod pair;
mod scan;
mod selective;
mod stack;

pub use stack::stack;

use alloc::boxed::Box;
use alloc::sync::Arc;
use penstock_core::{bail_if, ParamError, Report};
use penstock_fabric::{Hop, PRIORITIES};
use penstock_units::{Dur, Rate, Time};

/// What all queue pairs of a run have in common.
#[derive(Clone, Debug, PartialEq)]
pub struct RdmaConfig {
    /// Headers of a data packet in bytes, link framing not counted.
    pub header: u32,
    /// An ACK or NACK in bytes.
    pub ack: u32,
    /// A congestion notification packet in bytes.
    pub cnp: u32,
    /// The receiver acknowledges every so many packets in order; the last of what was written always.
    pub ack_every: u32,
    /// The sender goes back when nothing was acknowledged for so long; [`Dur::MAX`] = never.
    pub rto: Dur,
    /// Priority of data: the one to be lossless.
    pub data_priority: u8,
    /// Priority of ACK, NACK and CNP.
    pub control_priority: u8,
    /// The receiver sends at most one CNP per queue pair in this time; `None` = none at all.
    pub cnp_interval: Option<Dur>,
    /// The packet that reaches the end of a window may go beyond it.
    pub overshoot: bool,
    /// A packet that came before is acknowledged at once; otherwise nothing is said about it.
    pub ack_repeated: bool,
    /// A receiver that misses a packet says so again after this time; `None` = once for each gap.
    pub nack_again: Option<Dur>,
    /// Whose turn it is.
    pub turns: Turns,
    /// What is sent again.
    pub recovery: Recovery,
    /// The limiter cuts the time from one packet to the next off to whole nanoseconds, and takes one less where there is nothing to cut off.
    pub whole_ns: bool,
    /// All links of the run count whole nanoseconds ([`penstock_fabric::PortConfig::whole_ns`]), and so does all that a card notes. With
    /// [`Turns::Scan`] what happens at one instant then has the order in which the HPCC group's ns-3 has planned it.
    pub whole_links: bool,
}

/// What a sender repeats, and what a receiver keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Recovery {
    /// The receiver keeps nothing beyond a gap, the sender goes back to it.
    #[default]
    GoBackN,
    /// Selective repeat, as IRN has it.
    Selective {
        /// Timeout while at most `few` packets are outstanding; [`RdmaConfig::rto`] holds with more.
        rto_low: Dur,
        /// How many these are.
        few: u32,
    },
    /// Nothing is ever sent again: a loss is for ever. For fabrics that lose nothing.
    Off,
}

/// How a network card finds the queue pair that sends next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Turns {
    /// Those that may send stand in line; one that has sent goes to its end.
    #[default]
    Line,
    /// As the HPCC group's ns-3 does it.
    Scan,
}

/// RoCEv2's headers without framing, an ACK per packet, no CNP, a timeout of 4 ms.
impl Default for RdmaConfig {
    fn default() -> RdmaConfig {
        RdmaConfig {
            header: 44,
            ack: 48,
            cnp: 60,
            ack_every: 1,
            rto: Dur::millis(4),
            data_priority: 3,
            control_priority: 6,
            cnp_interval: None,
            overshoot: false,
            ack_repeated: true,
            nack_again: None,
            turns: Turns::Line,
            recovery: Recovery::GoBackN,
            whole_ns: false,
            whole_links: false,
        }
    }
}

impl RdmaConfig {
    /// Refuses what cannot work.
    ///
    /// # Errors
    /// The first bad value, by the name of its key.
    pub fn check(&self) -> Result<(), ParamError> {
        for (key, priority) in [("priority", self.data_priority), ("control_priority", self.control_priority)]
        {
            if usize::from(priority) >= PRIORITIES {
                return Err(ParamError::new(
                    key,
                    priority,
                    alloc::format!("must be 0 to {}", PRIORITIES - 1),
                ));
            }
        }
        bail_if!(self.ack_every == 0, ParamError::new("ack_every", 0, "must be at least 1"));
        bail_if!(self.rto == Dur::ZERO, ParamError::new("rto", "0s", "must be above 0"));
        if matches!(self.recovery, Recovery::Selective { rto_low: Dur::ZERO, .. }) {
            return Err(ParamError::new("rto_low", "0s", "must be above 0"));
        }
        Ok(())
    }
}

/// What the network card knows when it makes the law of a queue pair.
#[derive(Clone, Copy, Debug)]
pub struct LawFacts {
    /// Rate of the host's link, as the pair is made.
    pub line: Rate,
    /// Smallest round-trip time that the scenario promises.
    pub base_rtt: Dur,
    /// Largest payload of a packet in bytes.
    pub payload: u32,
    /// Bytes of a full packet on the link, headers and framing included.
    pub wire: u32,
}

/// Makes the law of one queue pair.
pub type BuildLaw = Arc<dyn Fn(&LawFacts) -> Box<dyn RateLaw> + Send + Sync>;

/// Read-only facts about a queue pair; kept by the pair, never by a law.
#[derive(Clone, Copy, Debug)]
pub struct PairView {
    /// Oldest unacknowledged byte.
    pub una: u64,
    /// Next byte to send.
    pub nxt: u64,
    /// One past the highest byte ever sent.
    pub max_sent: u64,
}

/// An acknowledgement, one record for all laws.
#[derive(Clone, Copy, Debug)]
pub struct AckRecord<'a> {
    /// When it arrived.
    pub now: Time,
    /// Bytes newly acknowledged; 0 for one that says nothing new.
    pub bytes: u64,
    /// From the transmission of the packet that caused it to now.
    pub rtt: Dur,
    /// What of it the hosts took: from the arrival of the packet at the receiver's card, and of its ACK at this one's, until their
    /// transports saw it. The receiver's part comes in whole nanoseconds.
    pub endpoint: Dur,
    /// A packet that it acknowledges was marked.
    pub ece: bool,
    /// What the switches wrote into the packet that caused it, in the order of its way; empty without telemetry.
    pub telemetry: &'a [Hop],
}

/// How a loss was noticed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossSign {
    /// The receiver missed a packet.
    Nack,
    /// Nothing was acknowledged for a retransmission timeout.
    Timeout,
}

/// What a queue pair may do. `None` = not limited by this.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct RateControl {
    /// Rate of bits on the link, framing included. At the line rate or above, the limiter is out of the way.
    pub rate: Option<Rate>,
    /// Most payload bytes outstanding; one packet may always be.
    pub window: Option<u64>,
}

/// The congestion control of one queue pair: a rate, a window or both. Asked for [`RateControl`] after every event.
pub trait RateLaw: Send {
    /// An ACK or NACK has arrived.
    fn on_ack(&mut self, ack: &AckRecord<'_>, pair: &PairView) {
        let _ = (ack, pair);
    }
    /// A congestion notification packet has arrived.
    fn on_cnp(&mut self, now: Time, pair: &PairView) {
        let _ = (now, pair);
    }
    /// A packet of so many bytes, framing included, has left.
    fn on_sent(&mut self, now: Time, bytes: u32, pair: &PairView) {
        let _ = (now, bytes, pair);
    }
    /// A loss was noticed. With go-back-N the pair goes back to the oldest unacknowledged byte; with selective repeat a recovery begins, and
    /// the law hears of no other loss by NACK before it ends.
    fn on_loss(&mut self, now: Time, sign: LossSign, pair: &PairView) {
        let _ = (now, sign, pair);
    }
    /// The host's link has another rate from now on.
    fn on_line_rate(&mut self, now: Time, line: Rate) {
        let _ = (now, line);
    }
    /// The only output.
    fn control(&self) -> RateControl;
    /// The next ACK also moves the departure that the limiter has planned already; otherwise a new rate counts from the next packet.
    fn moves_departures(&self) -> bool {
        false
    }
    /// Next time the law wants to act by itself.
    fn deadline(&self) -> Time {
        Time::NEVER
    }
    /// The deadline has come.
    fn on_deadline(&mut self, now: Time, pair: &PairView) {
        let _ = (now, pair);
    }
    /// Reports internal values by their declarations, for recording only.
    fn observe(&self, report: &mut Report<'_>) {
        let _ = report;
    }
}

/// No control: the line rate, and whatever pause makes of it.
pub struct LineRate;

impl RateLaw for LineRate {
    fn control(&self) -> RateControl {
        RateControl::default()
    }
}
