//! The zoo: protocols and queue disciplines, one file each, and the registry that names them.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

pub mod active;
pub mod paths;
pub mod protocols;
pub mod queues;
pub mod registry;
pub mod work;

pub use queues::QueueSpec;
pub use registry::{protocol, Protocol, Registry, Suite, Wire};
