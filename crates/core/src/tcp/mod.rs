//! TCP at packet level, by the RFCs: one connection is a [`Sender`] and a [`Receiver`].
//!
//! Data flows one way, from sender to receiver, and the sender opens the connection; a request that
//! triggers a response is the workload's business. Sequence numbers count bytes from 0 (SYN is outside the
//! sequence space, FIN takes one number).
//!
//! Three roles are open: the window law ([`crate::WindowLaw`]), the recovery ([`Recovery`]) and the echo ([`Echo`]).
//!
//! Contract, the same for both ends: `on_packet` and `on_deadline` take events with a `now` that never decreases,
//! `poll_transmit` is called until it answers `false`, `deadline` answers the one next time to wake up.

mod compress;
mod config;
pub mod echo;
mod gro;
mod phase;
mod ranges;
mod rate;
mod receiver;
pub mod recovery;
mod rtt;
mod segments;
mod sender;
mod ticks;

pub use compress::{most_saved, HeaderCompressor};
pub use config::{
    BuildEcho, BuildRecovery, EcnMode, LossRecovery, Personality, RetransmitThread, Roles, TcpConfig,
    ThreadSegment, IP_TCP_HEADER,
};
pub use echo::{Echo, Heard};
pub use ranges::Ranges;
pub use rate::RateSample;
pub use receiver::{IdleReceiver, Receiver};
pub use recovery::Recovery;
pub use rtt::RttEstimator;
pub use segments::{Segment, SegmentLog};
pub use sender::{IdleSender, News, Phase, Sender, SenderStats, TimeoutKind, TimeoutRecord};
pub use ticks::MissedTicks;
