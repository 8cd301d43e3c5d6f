//! Hosts at the edge of a fabric: what sends, what receives, and the network card between them and the first link.
//!
//! A transport is a [`Stack`]. A driver (the simulator's engine, a test) knows hosts by that trait only: it opens both ends of a
//! connection, hands over packets that arrived, and lets the host's network card pull packets when its link can take one.
//!
//! Sans-IO like the fabric: calls with a `now` that never decreases at one host; packets, [`News`] and one deadline out.
#![no_std]
#![warn(missing_docs)]
extern crate alloc;

pub mod ends;
pub mod rdma;
pub mod stack;

pub use stack::{Counters, HostFacts, Io, News, Opening, Order, Stack};
