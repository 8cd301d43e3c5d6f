//! Delays of hosts that share one machine, as those of a live run do: thirteen keys of a scenario, and the two threads that
//! have the delays.
//!
//! | keys | owner |
//! |---|---|
//! | `receive_lag`, `data_handover`, `ack_handover` | the network thread ([`NetworkThread`]) |
//! | `timer_lag`, `receiver_turn`, `dupack_turn`, `sender_turn` | each host, counted by the network thread |
//! | `application_lag`, `application_turn`, `application_correlation` | each host's application, counted there too |
//! | `write_lag`, `write_time`, `write_turn` | the thread that writes for all applications ([`ApplicationThread`]) |

mod application_thread;
mod keys;
mod network_thread;
mod quantiles;

pub use application_thread::{ApplicationThread, Deed};
pub use keys::HostLatency;
pub use network_thread::{NetworkThread, SPIN};
pub use quantiles::{DelayQuantiles, ServiceTime, TimerDelays};
