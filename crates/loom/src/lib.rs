//! The threads' meeting point with loom's types: `cargo test -p penstock-loom` runs it in every order of its steps that
//! differs from a run without interruption by a few interruptions.
//!
//! The barrier is the simulator's own file. It takes its types from `crate::sync`, which is this crate's here.
#![forbid(unsafe_code)]

mod sync {
    pub use loom::hint::spin_loop;
    pub use loom::sync::atomic::{fence, AtomicBool, AtomicUsize, Ordering};
    pub use loom::sync::{Condvar, Mutex};
    pub use std::sync::PoisonError;

    /// One look, so that both ways of waiting are taken.
    pub const SPINS: u32 = 1;
}

#[path = "../../sim/src/cores/barrier.rs"]
#[allow(dead_code)]
mod barrier;

use barrier::{Barrier, Broken};
use loom::sync::{Arc, Mutex};
use loom::thread;
use sync::{AtomicUsize, Ordering::Relaxed};

/// Runs a model in every order that has so many interruptions at most.
fn explore(interruptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(interruptions);
    builder.check(model);
}

/// Two threads pass each other messages through a mailbox each, for so many windows. A window ends with a meeting, and the
/// next one begins with another, as the simulator's do. What a thread has stored before a meeting must be visible to the
/// other after it. The stores are relaxed, so that loom gives a stale value where the meeting does not order them.
///
/// # Panics
/// When a message is missing, or a thread is ahead by a window.
pub fn windows(rounds: usize, interruptions: usize) {
    explore(interruptions, move || {
        let barrier = Arc::new(Barrier::new(2));
        let boxes: Arc<[Mutex<Vec<usize>>; 2]> = Arc::default();
        let cells = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let run = |own: usize| {
            let (barrier, boxes, cells) = (barrier.clone(), boxes.clone(), cells.clone());
            move || {
                for round in 1..=rounds {
                    cells[own].store(round, Relaxed);
                    boxes[1 - own].lock().unwrap().push(round);
                    barrier.wait(barrier.arrive()).unwrap();
                    assert_eq!(*boxes[own].lock().unwrap(), [round]);
                    assert_eq!(cells[1 - own].load(Relaxed), round);
                    boxes[own].lock().unwrap().clear();
                    barrier.wait(barrier.arrive()).unwrap();
                }
            }
        };
        let other = thread::spawn(run(1));
        run(0)();
        other.join().unwrap();
    });
}

/// Three threads meet: each has passed when all have arrived, and every waiting thread is woken.
///
/// # Panics
/// When a thread passes before another has arrived.
pub fn three_meet(interruptions: usize) {
    explore(interruptions, || {
        let barrier = Arc::new(Barrier::new(3));
        let cells = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0)]);
        let run = |own: usize| {
            let (barrier, cells) = (barrier.clone(), cells.clone());
            move || {
                cells[own].store(1, Relaxed);
                barrier.wait(barrier.arrive()).unwrap();
                assert!(cells.iter().all(|cell| cell.load(Relaxed) == 1));
            }
        };
        let others = [thread::spawn(run(1)), thread::spawn(run(2))];
        run(0)();
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// A thread gives up while another waits or is about to: the waiting one returns.
///
/// # Panics
/// When it returns without the failure. When it never returns, loom reports the deadlock.
pub fn one_gives_up(interruptions: usize) {
    explore(interruptions, || {
        let barrier = Arc::new(Barrier::new(2));
        let waiting = {
            let barrier = barrier.clone();
            thread::spawn(move || barrier.wait(barrier.arrive()))
        };
        barrier.give_up();
        assert_eq!(waiting.join().unwrap(), Err(Broken));
    });
}
