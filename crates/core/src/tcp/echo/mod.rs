//! The echo role: when a receiver acknowledges, and what it says of congestion marks.
//!
//! The [`super::Receiver`] puts segments in order, keeps the receive window, reports SACK blocks and echoes time stamps and
//! congestion headers; an echo only decides when an ACK leaves and whether it carries ECN-Echo.
//!
//! - [`Delayed`]: every n-th segment or after a while (RFC 5681 section 4.2), marks are not echoed; n = 1 is per packet.
//! - [`Latched`]: the same, with ECE from the first mark until CWR (RFC 3168 section 6.1.3).
//! - [`Dctcp`]: the same, with ECE that mirrors CE by an ACK at every change (RFC 8257 section 3.2).
//! - [`Linux`]: quick acks and delays as in Linux, with either echo of marks; where applications take their time, what is left to them (`buffer.rs`).
//! - [`ThreadEcho`]: one of these, with the answer to the sender's retransmit thread.
//!
//! A protocol that wants another one gives its connections a builder ([`super::Roles::echo`]).

mod buffer;
mod dctcp;
mod delayed;
mod latched;
mod linux;
mod role;
mod thread;

pub use dctcp::Dctcp;
pub use delayed::Delayed;
pub use latched::Latched;
pub use linux::Linux;
pub use role::{Echo, Heard};
pub use thread::ThreadEcho;

use super::{EcnMode, Personality, TcpConfig};
use crate::packet::Packet;
use alloc::boxed::Box;
use penstock_units::{Dur, Time};

/// The echo of a connection: the standard ones without an indirect call, and any other.
pub(super) enum AnyEcho {
    Delayed(Delayed),
    Latched(Latched),
    Dctcp(Dctcp),
    Linux(Box<Linux>),
    Thread(Box<ThreadEcho<AnyEcho>>),
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
