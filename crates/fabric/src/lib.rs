//! The network between hosts: ports, the buffers their nodes share, pause, links. Simulator and kernel view drive the same code.
//!
//! Sans-IO: a driver calls with a `now` that never decreases; packets come out, and times at which something has to be called
//! again. What travels is a [`Cell`] of 32 bytes; the segment stays in the driver's arena ([`Segments`]) and is touched only by link
//! controllers and by rules that look into packets.
//!
//! | file | what |
//! |---|---|
//! | `cell`, `ring`, `arena` | what travels, where it is kept, what a driver is told |
//! | `port`, `served`, `admit`, `outage`, `readings` | a port: FIFO with departures known on arrival; the half that chooses among waiting packets, its limits, pause and failures; counters |
//! | `schedule`, `rule`, `aqm` | order of service; rules on arrival and at dequeue |
//! | `fabric`, `node`, `buffer`, `calendar`, `pfc` | what a driver calls; nodes, shared buffers, pause frames, headroom, deadlock |
//! | `forward` | from destinations to ports: groups of equal cost, spread rules |
//! | `fetch` | asking the processor for what is touched soon |
//! | `link`, `config`, `stats` | clock, noise, reordering; configuration; counters |
//!
//! # One event per packet and link
//!
//! **FIFO.** A packet's departure is known when it arrives, `max(now, free) + size / rate`. The port announces one event: the arrival
//! of the head of its ring at the other end. Departures are replayed, at the times they happened, at the next look at the port.
//!
//! **Scheduling.** What is served next depends on what comes until then, so only the packet in service has a known departure. The
//! choice is nevertheless not an event: it is replayed too, and exactly, because
//!
//! 1. every call that could change a choice (a packet, a pause, a failure, a change of rate) first replays all choices up to its own
//!    instant ([`Port::advance`]), in order. Between two calls nothing comes, so a choice at t sees just the packets that had arrived
//!    before t, and the pauses of before t;
//! 2. the ring always holds the packet whose arrival is announced next. A packet that arrives at the other end at t has left at t minus the
//!    link's delay, so the choice of its successor lies at or before t. Then [`Port::arrive`] replays it, and answers with the successor's
//!    arrival, which is later.
//!
//! The cases, each of which a test compares with a model that has explicit events (`tests/reference.rs`, `tests/buffers.rs`):
//!
//! - *One instant.* Departures first: a packet whose last bit leaves at t makes room for one that arrives at t, and the choice made at
//!   that departure does not see it, whatever its priority. Then calls in the order in which the driver makes them. Whether
//!   the arrival of an earlier packet at the other end, at the same instant, is handled before or after them makes no difference.
//! - *Delay 0.* A packet arrives when it leaves: the replay of its departure and the choice of its successor happen in the same call.
//! - *Pause in service.* The packet in service is sent to its end; the choice at its end sees the pause.
//! - *Resume on an idle port.* The server starts at once. When nothing is on the wire, the port has no event: the new one is in
//!   [`Effects::heads`]. Otherwise the packet follows the one whose arrival is announced, and needs none.
//! - *Rules at dequeue* are asked in the replay, with the sojourn time of the choice's own instant. What they drop is in
//!   [`Effects::lost`], with that instant, which may lie before now.
//! - *Failure.* What was on the wire is gone and its event finds nothing ([`Arrival::packet`] is `None`).
//! - *Reordering.* A packet is held up when it would arrive; only then does it get an event of its own.
//!
//! # Shared buffers without a walk over the ports
//!
//! A buffer must be right at every arrival, but departures are lazy. Counts that miss some departures are upper bounds, and thresholds
//! computed from them lower bounds: a packet that fits with these fits. So ports are looked at by themselves while packets fit
//! clearly and no lane is paused. Otherwise the node replays all departures up to now in their order, from a calendar with one entry per
//! busy port (its next departure, or an earlier time): amortised O(log ports) per packet. While a lane is paused, the departure that releases
//! it sends a frame, so it must be seen when it happens. The node then asks for a wake-up at its next departure
//! ([`Effects::wakes`]), and replays the events of all ports in the order of their times.
#![no_std]
extern crate alloc;

mod admit;
pub mod aqm;
pub mod arena;
mod boundary;
pub mod buffer;
mod calendar;
pub mod cell;
pub mod config;
pub mod fabric;
mod fetch;
mod fifo;
pub mod forward;
mod hop;
pub mod link;
mod node;
mod outage;
pub mod pfc;
pub mod pint;
pub mod port;
mod readings;
mod ring;
pub mod rule;
pub mod schedule;
mod served;
pub mod stats;
mod windows;

pub use arena::{Arena, Arrival, Effects, Loss, Lost, Offered, Pause, Segments};
pub use buffer::Buffer;
pub use cell::{Cell, PRIORITIES};
pub use config::{
    Accounting, BufferConfig, ClassConfig, Limit, PauseAt, PoolRule, PortConfig, Service, Trim,
};
pub use fabric::{Fabric, Ingress, NodeConfig};
pub use fetch::{prefetch, prefetch_all, prefetch_first, prefetch_room};
pub use forward::{Edge, Forwarding, ForwardingConfig, Graph, Known, NextHops, Reroute, RouteError, Spread};
pub use hop::{Hop, MAX_HOPS};
pub use link::Reordering;
pub use pfc::{Cable, Standing, Stuck};
pub use port::Port;
pub use rule::Rule;
pub use schedule::Scheduler;
pub use stats::{ClassStats, Losses, PauseStats, PortStats};
pub use windows::Queue;
