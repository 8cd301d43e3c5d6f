//! Hosts at the edge of a fabric: what sends, what receives, and the network card between them and the first link.
//!
//! A transport is a [`Stack`]. A driver, such as the simulator's engine or a test, knows hosts by that trait only. It opens
//! both ends of a connection and delivers packets that arrived. The host's network card asks the stack for packets when its
//! link can take one.
//!
//! | file | what |
//! |---|---|
//! | `stack` | the trait, and what passes between a transport and its driver |
//! | `nic` | the network card: transmissions, replayed late; pause; several stacks; receive delays |
//! | `tcp` | TCP: all senders and receivers of a host |
//! | `messages` | transports of messages: the stack that they share, and the law that each has of its own |
//! | `rdma` | queue pairs with go-back-N under an open rate law, as a law of messages |
//! | `ends`, `writes`, `timers`, `pool` | bytes written and arrived, ends of writes, timers of connections, boxes for reuse |
//! | `latency` | delays of hosts that share one machine |
//! | `lab` | a small driver for tests and examples of a transport: a few hosts and switches, and an account of every byte |
//!
//! Sans-IO like the fabric: calls with a `now` that never decreases at one host; packets, [`StackEvent`] and one timer out.
#![no_std]
extern crate alloc;

pub mod ends;
pub mod lab;
pub mod latency;
pub mod messages;
pub mod nic;
pub mod pool;
pub mod rdma;
pub mod stack;
pub mod tcp;
pub mod timers;
mod writes;

pub use lab::{Lab, LabConfig, Network};
pub use messages::{MessageLaw, MessageStack, Messages};
pub use nic::{Nic, NicConfig, MOST_STACKS};
pub use stack::{
    ApplicationReads, Counters, Exchange, Exchanged, FastPath, HostFacts, Io, Kind, Net, Opening, Order,
    Part, Stack, StackEvent,
};
pub use tcp::{TcpOptions, TcpProtocol, TcpStack};
pub use timers::Timers;
