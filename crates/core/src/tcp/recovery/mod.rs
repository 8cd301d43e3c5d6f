//! The recovery role decides which segments are lost, and what is sent after a loss.
//!
//! The [`super::Sender`] owns sequence space, the SACK scoreboard, the phases and the retransmission timer (RFC 6298),
//! which takes sending back to the first unacknowledged byte. A recovery finds losses before the timer does, says when
//! fast recovery begins and ends, and chooses what is sent in it.
//!
//! - [`Reno`] (RFC 5681), [`NewReno`] (RFC 6582): duplicate ACKs are counted, and inflate the window.
//! - [`Sack`] (RFC 6675): the scoreboard, with a tail-loss probe (RFC 8985 section 7) when asked.
//! - [`Linux`]: RACK-TLP (RFC 8985), PRR (RFC 9937), F-RTO (RFC 5682) and undo, as in Linux today.
//! - [`Thread`]: one of the first three, and a thread that sends outstanding segments again at random (Kulkarni and Agrawal 2014).
//!
//! A protocol that wants another one gives its connections a builder ([`super::Roles::recovery`]). What others need is here:
//!
//! - **Go-back-N**: [`Act::GoBack`] from [`Recovery::on_duplicate`] begins recovery and takes sending back to the first
//!   unacknowledged byte; [`Recovery::choose`] stays at its default. `crates/models/tests/tcp/roles.rs` has one.
//! - **A timer of its own**: [`Recovery::wants_segments`] gives the time each segment was last sent ([`Connection::segments`]),
//!   [`Recovery::hears_all`] calls `on_ack` for every ACK, [`Control::deadline`] is a timer, and [`Recovery::on_deadline`] may enter
//!   recovery as an ACK may. The tests have one.
//! - **More than fast recovery**: [`Recovery::steers`]; the retransmission timer too: [`Recovery::keeps_timer`]. [`Linux`] does both.

mod linux;
mod newreno;
mod probe;
mod reno;
mod role;
mod sack;
mod thread;

pub use linux::Linux;
pub use newreno::NewReno;
pub use reno::Reno;
pub(super) use role::segment_end;
pub use role::{Act, Arrival, Choice, Connection, Control, Outcome, Outgoing, Recovery, Since, Timers, Why};
pub use sack::Sack;
pub use thread::Thread;

use super::{LossRecovery, Personality, TcpConfig};
use crate::rng::Stream;
use alloc::boxed::Box;
use penstock_units::{Dur, Time};

/// The recovery of a connection: the standard ones without an indirect call, and any other.
pub(super) enum AnyRecovery {
    Reno(Reno),
    NewReno(NewReno),
    Sack(Sack),
    Linux(Box<Linux>),
    Thread(Box<Thread<AnyRecovery>>),
    Other(Box<dyn Recovery>),
}

impl AnyRecovery {
    /// What `cfg` asks for.
    pub(super) fn new(cfg: &TcpConfig, rng: impl FnOnce() -> Stream) -> AnyRecovery {
        if let Some(build) = &cfg.roles.recovery {
            return AnyRecovery::Other(build(cfg));
        }
        if cfg.personality == Personality::Linux && cfg.recovery == LossRecovery::Sack {
            return AnyRecovery::Linux(Box::new(Linux::new(cfg)));
        }
        // With the retransmit thread a third duplicate counts in any case.
        let thread = cfg.retransmit_thread.filter(|t| t.probability > 0.0);
        let standard = match cfg.recovery {
            LossRecovery::Reno => AnyRecovery::Reno(Reno::new(thread.is_some())),
            LossRecovery::NewReno => AnyRecovery::NewReno(NewReno::new(thread.is_some())),
            LossRecovery::Sack => AnyRecovery::Sack(Sack::new(thread.is_some(), cfg.tail_loss_probe)),
        };
        match thread {
            Some(options) => AnyRecovery::Thread(Box::new(Thread::new(standard, options, rng()))),
            None => standard,
        }
    }
    /// A standard one without retransmit thread.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self, AnyRecovery::Reno(_) | AnyRecovery::NewReno(_) | AnyRecovery::Sack(_))
    }
    /// The plain one that `cfg` asks for, as it is before anything has happened.
    pub(super) fn plain(cfg: &TcpConfig) -> AnyRecovery {
        match cfg.recovery {
            LossRecovery::Reno => AnyRecovery::Reno(Reno::new(false)),
            LossRecovery::NewReno => AnyRecovery::NewReno(NewReno::new(false)),
            LossRecovery::Sack => AnyRecovery::Sack(Sack::new(false, cfg.tail_loss_probe)),
        }
    }
    /// It is [`Self::plain`].
    pub(super) fn is_new(&self, cfg: &TcpConfig) -> bool {
        match (self, AnyRecovery::plain(cfg)) {
            (AnyRecovery::Reno(own), AnyRecovery::Reno(new)) => *own == new,
            (AnyRecovery::NewReno(own), AnyRecovery::NewReno(new)) => *own == new,
            (AnyRecovery::Sack(own), AnyRecovery::Sack(new)) => *own == new,
            _ => false,
        }
    }
}

macro_rules! each {
    ($self:ident, $recovery:ident => $call:expr) => {
        match $self {
            AnyRecovery::Reno($recovery) => $call,
            AnyRecovery::NewReno($recovery) => $call,
            AnyRecovery::Sack($recovery) => $call,
            AnyRecovery::Linux($recovery) => $call,
            AnyRecovery::Thread($recovery) => $call,
            AnyRecovery::Other($recovery) => $call,
        }
    };
}

impl Recovery for AnyRecovery {
    fn wants_segments(&self) -> bool {
        each!(self, r => r.wants_segments())
    }
    fn hears_all(&self) -> bool {
        each!(self, r => r.hears_all())
    }
    fn steers(&self) -> bool {
        each!(self, r => r.steers())
    }
    fn keeps_timer(&self) -> bool {
        each!(self, r => r.keeps_timer())
    }
    fn start(&mut self, now: Time) {
        each!(self, r => r.start(now));
    }
    fn is_duplicate(&self, new_sack: bool, window_changed: bool) -> bool {
        each!(self, r => r.is_duplicate(new_sack, window_changed))
    }
    fn before_ack(&mut self, c: &Connection<'_>, arrival: &Arrival) -> Act {
        each!(self, r => r.before_ack(c, arrival))
    }
    fn on_sack(&mut self, c: &Connection<'_>) -> u64 {
        each!(self, r => r.on_sack(c))
    }
    fn on_duplicate(&mut self, c: &Connection<'_>) -> Outcome {
        each!(self, r => r.on_duplicate(c))
    }
    fn on_ack(&mut self, c: &Connection<'_>, acked: u64) -> Outcome {
        each!(self, r => r.on_ack(c, acked))
    }
    fn on_enter(&mut self, c: &Connection<'_>) {
        each!(self, r => r.on_enter(c));
    }
    fn on_undone(&mut self, c: &Connection<'_>) -> Outcome {
        each!(self, r => r.on_undone(c))
    }
    fn on_reduction(&mut self, c: &Connection<'_>) {
        each!(self, r => r.on_reduction(c));
    }
    fn on_timeout(&mut self, c: &Connection<'_>) -> u64 {
        each!(self, r => r.on_timeout(c))
    }
    fn control(&self, c: &Connection<'_>) -> Control {
        each!(self, r => r.control(c))
    }
    fn urgent(&mut self, c: &Connection<'_>) -> Option<Outgoing> {
        each!(self, r => r.urgent(c))
    }
    fn choose(&self, c: &Connection<'_>) -> Choice {
        each!(self, r => r.choose(c))
    }
    fn on_sent(&mut self, c: &Connection<'_>, sent: &Outgoing) {
        each!(self, r => r.on_sent(c, sent));
    }
    #[inline]
    fn rearm(&mut self, c: &Connection<'_>, rto: Dur, since: &Since) -> Timers {
        each!(self, r => r.rearm(c, rto, since))
    }
    fn on_deadline(&mut self, c: &Connection<'_>) -> Outcome {
        each!(self, r => r.on_deadline(c))
    }
}
