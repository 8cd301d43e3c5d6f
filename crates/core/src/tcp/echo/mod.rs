//! The echo role: when a receiver acknowledges, and what it says of congestion marks.
//!
//! The [`super::Receiver`] puts segments in order, keeps the receive window, reports SACK blocks and echoes time stamps and
//! congestion headers; an echo only decides when an ACK leaves and whether it carries ECN-Echo.
//!
//! - [`Delayed`]: every n-th segment or after a while (RFC 5681 section 4.2), marks are not echoed; n = 1 is per packet.
//! - [`Latched`]: the same, with ECE from the first mark until CWR (RFC 3168 section 6.1.3).
//! - [`Dctcp`]: the same, with ECE that mirrors CE by an ACK at every change (RFC 8257 section 3.2).
//! - [`Linux`]: quick acks and delays as in Linux, with either echo of marks; where applications take their time, what is left to them (`buffer.rs`).
//! - The echo of the retransmit thread lies round one of these; it is in `recovery/thread.rs`, with the half it answers.
//!
//! A protocol that wants another one gives its connections a builder ([`super::Roles::echo`]).

mod buffer;
mod dctcp;
mod delayed;
mod latched;
mod linux;

pub use dctcp::Dctcp;
pub use delayed::Delayed;
pub use latched::Latched;
pub use linux::Linux;

use super::recovery::ThreadEcho;
use super::{EcnMode, Personality, TcpConfig};
use crate::packet::Packet;
use alloc::boxed::Box;
use penstock_units::{Dur, Time};

/// Where an arriving segment lay, and what waits for its ACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heard {
    /// It was the next one expected, and nothing is missing.
    pub in_order: bool,
    /// None of its payload was new.
    pub duplicate: bool,
    /// Segments in order that no ACK has covered yet, this one included when it was in order.
    pub unacknowledged: u32,
    /// The next byte expected, with this segment.
    pub next: u64,
    /// Separate pieces that wait for what is missing before them, with this segment.
    pub pieces: u32,
    /// It is a piece of its own.
    pub apart: bool,
}

/// When a receiver acknowledges, and what it says of marks. Fed by the receiver; all calls come in time order.
pub trait Echo: Send {
    /// The connection is established: how long its handshake has taken by this end's clock, `None` where SYN + ACK was sent more than once.
    fn on_handshake(&mut self, rtt: Option<Dur>) {
        let _ = rtt;
    }
    /// A segment has arrived, and is not counted yet. `Some(ece)`: what waits for its ACK must get it now, with this ECE, as
    /// if the segment had not come (nothing leaves when nothing waits).
    fn before_data(&mut self, p: &Packet) -> Option<bool> {
        let _ = p;
        None
    }
    /// The segment is in its place: the number of ACKs that leave now, 0 to wait. Several are copies of one.
    fn on_data(&mut self, now: Time, p: &Packet, heard: &Heard) -> u32;
    /// An ACK that covers all that has arrived leaves now.
    fn on_ack_sent(&mut self);
    /// Whether an ACK that leaves now carries ECN-Echo.
    fn ece(&self) -> bool {
        false
    }
    /// When an ACK leaves by itself.
    fn deadline(&self) -> Time;
    /// The deadline has come: the number of ACKs that leave now.
    fn on_deadline(&mut self, now: Time) -> u32;
    /// The application reads when [`Echo::on_read`] is called and not at once. An echo to which that makes a difference says so, and is told from the
    /// first segment on.
    fn follow_reads(&mut self) -> bool {
        false
    }
    /// There is something that the application has not read.
    fn unread(&self) -> bool {
        false
    }
    /// The application reads all there is: does an ACK leave by that, as soon as the host gets to it ([`Echo::owes`])?
    fn on_read(&mut self) -> bool {
        false
    }
    /// The ACK that a read has made due has not left, nor one that covers as much.
    fn owes(&self) -> bool {
        false
    }
    /// What the receive window may be at most, in bytes; beside the cap that a [`crate::receive::ReceiveController`] of the
    /// host sets, which sees all its connections. Read whenever an ACK leaves.
    fn window_cap(&self) -> u64 {
        u64::MAX
    }
}

/// The echo of a connection: the standard ones without an indirect call, and any other.
pub(super) enum AnyEcho {
    Delayed(Delayed),
    Latched(Latched),
    Dctcp(Dctcp),
    Linux(Box<Linux>),
    Thread(Box<ThreadEcho>),
    Other(Box<dyn Echo>),
}

impl AnyEcho {
    /// What `cfg` asks for.
    pub(super) fn new(cfg: &TcpConfig) -> AnyEcho {
        if let Some(build) = &cfg.roles.echo {
            return AnyEcho::Other(build(cfg));
        }
        if cfg.personality == Personality::Linux && cfg.delayed_ack > 1 {
            return AnyEcho::Linux(Box::new(Linux::new(cfg)));
        }
        let standard = AnyEcho::plain(cfg, false);
        match cfg.retransmit_thread {
            Some(_) => AnyEcho::Thread(Box::new(ThreadEcho::new(standard))),
            None => standard,
        }
    }
    /// The standard one for the marks of `cfg`, which says `ece`, with nothing under way.
    pub(super) fn plain(cfg: &TcpConfig, ece: bool) -> AnyEcho {
        match cfg.ecn {
            EcnMode::Off => AnyEcho::Delayed(Delayed::new(cfg)),
            EcnMode::Classic => AnyEcho::Latched(Latched::new(cfg).saying(ece)),
            EcnMode::Dctcp => AnyEcho::Dctcp(Dctcp::new(cfg).saying(ece)),
        }
    }
    /// It is as [`Self::plain`] makes it: a standard one that counts no quick ACKs, with nothing under way.
    pub(super) fn is_new(&self, cfg: &TcpConfig) -> bool {
        self.is_plain() && cfg.quick_acks == 0 && self.deadline() == Time::NEVER
    }
    /// A standard one without retransmit thread.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self, AnyEcho::Delayed(_) | AnyEcho::Latched(_) | AnyEcho::Dctcp(_))
    }
}

macro_rules! each {
    ($self:ident, $echo:ident => $call:expr) => {
        match $self {
            AnyEcho::Delayed($echo) => $call,
            AnyEcho::Latched($echo) => $call,
            AnyEcho::Dctcp($echo) => $call,
            AnyEcho::Linux($echo) => $call,
            AnyEcho::Thread($echo) => $call,
            AnyEcho::Other($echo) => $call,
        }
    };
}

impl Echo for AnyEcho {
    fn on_handshake(&mut self, rtt: Option<Dur>) {
        each!(self, e => e.on_handshake(rtt));
    }
    #[inline]
    fn before_data(&mut self, p: &Packet) -> Option<bool> {
        each!(self, e => e.before_data(p))
    }
    #[inline]
    fn on_data(&mut self, now: Time, p: &Packet, heard: &Heard) -> u32 {
        each!(self, e => e.on_data(now, p, heard))
    }
    #[inline]
    fn on_ack_sent(&mut self) {
        each!(self, e => e.on_ack_sent());
    }
    #[inline]
    fn ece(&self) -> bool {
        each!(self, e => e.ece())
    }
    #[inline]
    fn deadline(&self) -> Time {
        each!(self, e => e.deadline())
    }
    fn on_deadline(&mut self, now: Time) -> u32 {
        each!(self, e => e.on_deadline(now))
    }
    fn follow_reads(&mut self) -> bool {
        each!(self, e => e.follow_reads())
    }
    fn unread(&self) -> bool {
        each!(self, e => e.unread())
    }
    fn on_read(&mut self) -> bool {
        each!(self, e => e.on_read())
    }
    fn owes(&self) -> bool {
        each!(self, e => e.owes())
    }
    #[inline]
    fn window_cap(&self) -> u64 {
        each!(self, e => e.window_cap())
    }
}
