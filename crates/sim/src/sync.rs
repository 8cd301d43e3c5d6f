//! What threads share: the standard library's types. The crate `penstock-loom` compiles the same barrier with loom's
//! types in their place, and runs it in every order of its steps.

pub use std::hint::spin_loop;
pub use std::sync::atomic::{fence, AtomicBool, AtomicUsize, Ordering};
pub use std::sync::{Condvar, Mutex, PoisonError};

/// Looks at a counter before a thread that waits goes to sleep: some tens of microseconds.
pub const SPINS: u32 = 1 << 10;
