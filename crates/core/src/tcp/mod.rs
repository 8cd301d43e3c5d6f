//! TCP at packet level, by the RFCs: one connection is a [`Sender`] and a [`Receiver`].
//!
//! Data flows one way, from sender to receiver, and the sender opens the connection; a request that
//! triggers a response is the workload's business. Sequence numbers count bytes from 0 (SYN is outside the
//! sequence space, FIN takes one number).
//!
//! Contract, the same for both: `on_packet` and `on_deadline` take events with a `now` that never decreases,
//! `poll_transmit` is called until it answers `false`, `deadline` answers the one next time to wake up.

mod compress;
mod config;
mod ranges;
mod receiver;
mod rtt;
mod sender;
mod thread;

pub use compress::HeaderCompressor;
pub use config::{EcnMode, LossRecovery, TcpConfig, IP_TCP_HEADER};
pub use ranges::Ranges;
pub use receiver::Receiver;
pub use rtt::RttEstimator;
pub use sender::{News, Phase, Sender, SenderStats, TimeoutKind, TimeoutRecord};
pub use thread::{RetransmitThread, ThreadSegment};
