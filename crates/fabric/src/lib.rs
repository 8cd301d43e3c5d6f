//! The network between hosts.
#![no_std]
extern crate alloc;

pub mod aqm;
pub mod arena;
pub mod buffer;
mod calendar;
pub mod cell;
pub mod config;
pub mod fabric;
pub mod link;
pub mod pfc;
pub mod port;
mod ring;
pub mod rule;
pub mod schedule;
mod served;
pub mod stats;

pub use arena::{Arena, Arrival, Effects, Hop, Loss, Lost, Offered, Pause, Segments};
pub use buffer::{Buffer, BufferConfig, Limit, PauseAt, PoolRule};
pub use cell::{Cell, PRIORITIES};
pub use config::{ClassConfig, PortConfig, Service, Trim};
pub use fabric::{Fabric, Ingress, NodeConfig};
pub use link::Reordering;
pub use pfc::{Cable, Stuck};
pub use port::Port;
pub use rule::Rule;
pub use schedule::Scheduler;
pub use stats::{ClassStats, PortStats};
