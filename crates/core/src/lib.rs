//! What a congestion control protocol may see.
//!
//! Everything here is sans-IO: events come in with `now`, packets and one deadline come out. There is no
//! clock, no socket, no file and no hidden randomness; the crate is `no_std`, so the compiler refuses them.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

pub mod control;
pub mod header;
pub mod host;
pub mod link;
pub mod packet;
pub mod params;
pub mod quantity;
pub mod queue;
pub mod receive;
pub mod rng;
pub mod tcp;
pub mod windowed;

pub use control::{AckRecord, Congestion, Control, FlowView, Limit, WindowLaw};
pub use header::{CcHeader, Header};
pub use host::{Ack, HostController, Peer, Transition};
pub use link::{Departures, LinkController, LinkView, Looks};
pub use packet::{Ecn, FlowId, Packet};
pub use params::{Amount, Kind, ParamError, ParamSpec, Params};
pub use quantity::{Quantity, Report, Unit};
pub use queue::{Backlog, DropCause, QueueDiscipline, Verdict};
pub use rng::Stream;
