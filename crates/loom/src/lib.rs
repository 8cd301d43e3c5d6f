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

/// How a thread that works alone ends that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Alone {
    /// All threads share the windows again.
    SharedAgain,
    /// The run is over.
    RunIsOver,
    /// It gives up.
    GivesUp,
}

/// What two threads have while the first works through some windows alone (`cores::windows`: `go_solo`, `end_solo`, `rejoin`).
struct Solo {
    sent: Barrier,
    done: Barrier,
    rejoin: Barrier,
    /// The logical process that changes hands.
    passed: Mutex<Option<usize>>,
    /// What both processes have done.
    cells: [AtomicUsize; 2],
    resume: AtomicUsize,
    is_over: AtomicUsize,
}

/// The second thread hands its logical process over, tells both meetings that it is there, and sleeps. The first thread takes the process, works
/// through a window alone, and ends that as `end` says. The second thread must see what the first has done, and each has its own process in the end.
/// The rounds of both meetings that were closed before must not be taken for new ones.
///
/// # Panics
/// When a process is missing or has not seen a window, or when a thread sees a window that is over.
pub fn alone_for_a_window(end: Alone, interruptions: usize) {
    explore(interruptions, move || {
        let [sent, done, rejoin] = [(); 3].map(|()| Barrier::new(2));
        let (passed, cells) = (Mutex::new(None), [AtomicUsize::new(0), AtomicUsize::new(0)]);
        let (resume, is_over) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let shared = Arc::new(Solo { sent, done, rejoin, passed, cells, resume, is_over });
        let other = {
            let shared = shared.clone();
            thread::spawn(move || second(&shared, end))
        };
        first(&shared, end);
        other.join().unwrap();
    });
}

fn first(s: &Solo, end: Alone) {
    s.cells[0].store(1, Relaxed);
    let (sent, done) = (s.sent.arrive(), s.done.arrive());
    s.sent.wait(sent).unwrap();
    s.done.wait(done).unwrap();
    let other = s.passed.lock().unwrap().take().expect("the other thread has handed its process over");
    assert_eq!(s.cells[other].load(Relaxed), 1);
    s.cells.iter().for_each(|cell| cell.store(2, Relaxed));
    match end {
        Alone::GivesUp => return [&s.sent, &s.done, &s.rejoin].into_iter().for_each(Barrier::give_up),
        Alone::RunIsOver => {
            s.is_over.store(1, Relaxed);
            s.rejoin.arrive();
            return;
        }
        Alone::SharedAgain => *s.passed.lock().unwrap() = Some(other),
    }
    s.resume.store(2, Relaxed);
    s.rejoin.wait(s.rejoin.arrive()).unwrap();
    together(s);
}

fn second(s: &Solo, end: Alone) {
    s.cells[1].store(1, Relaxed);
    s.sent.arrive();
    *s.passed.lock().unwrap() = Some(1);
    s.done.arrive();
    let woken = s.rejoin.wait(s.rejoin.arrive());
    assert_eq!(woken, if end == Alone::GivesUp { Err(Broken) } else { Ok(()) });
    if end != Alone::SharedAgain {
        assert_eq!(s.is_over.load(Relaxed), usize::from(end == Alone::RunIsOver));
        return;
    }
    assert_eq!(s.resume.load(Relaxed), 2);
    together(s);
    assert_eq!(s.passed.lock().unwrap().take(), Some(1));
}

/// The begin of the window that is shared again.
fn together(s: &Solo) {
    let (sent, done) = (s.sent.arrive(), s.done.arrive());
    s.sent.wait(sent).unwrap();
    s.done.wait(done).unwrap();
    assert!(s.cells.iter().all(|cell| cell.load(Relaxed) == 2));
}
