//! Where threads meet between two windows.

use crate::sync::{fence, spin_loop, AtomicBool, AtomicUsize, Condvar, Mutex, Ordering, PoisonError, SPINS};

/// A barrier for threads that mostly arrive within microseconds of each other. A thread arrives, and waits for the others only when it needs them. A
/// waiting thread spins first. It sleeps if another thread is late, which has probably lost its core to another process. A thread that spun on, or that
/// yielded again and again, would lose its own core for as long when the other is back.
pub(super) struct Barrier {
    threads: usize,
    /// Threads have a core each.
    alone: bool,
    arrived: AtomicUsize,
    round: AtomicUsize,
    broken: AtomicBool,
    /// Threads that sleep, or are about to.
    asleep: AtomicUsize,
    bed: Mutex<()>,
    bell: Condvar,
}

/// A round of the barrier at which a thread has arrived.
#[derive(Clone, Copy)]
pub(super) struct Round(usize);

/// Some thread has given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Broken;

impl Barrier {
    pub fn new(threads: usize) -> Barrier {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Barrier {
            threads,
            alone: threads <= cores,
            arrived: AtomicUsize::new(0),
            round: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
            asleep: AtomicUsize::new(0),
            bed: Mutex::new(()),
            bell: Condvar::new(),
        }
    }
    /// A thread arrives that has waited for all rounds before this one.
    pub fn arrive(&self) -> Round {
        let round = self.round.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.arrived.store(0, Ordering::Relaxed);
            self.round.store(round.wrapping_add(1), Ordering::Release);
            self.wake();
        }
        Round(round)
    }
    /// Waits until all have arrived. What a thread wrote before it arrived is visible to all of them afterwards.
    pub fn wait(&self, Round(round): Round) -> Result<(), Broken> {
        let mut left = if self.alone { SPINS } else { 0 };
        while self.is_closed(round) {
            if left == 0 {
                self.sleep(round);
            } else {
                left -= 1;
                spin_loop();
            }
        }
        if self.broken.load(Ordering::Relaxed) {
            return Err(Broken);
        }
        Ok(())
    }
    /// Some thread of this round has not arrived, and no thread has given up.
    fn is_closed(&self, round: usize) -> bool {
        self.round.load(Ordering::Acquire) == round && !self.broken.load(Ordering::Acquire)
    }
    #[cold]
    fn sleep(&self, round: usize) {
        // This thread announces its sleep and then reads the round. The thread that ends the round writes it and then reads
        // the announcements. The fences order both, so at least one of the two sees what the other has written.
        self.asleep.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let mut bed = self.bed.lock().unwrap_or_else(PoisonError::into_inner);
        while self.is_closed(round) {
            bed = self.bell.wait(bed).unwrap_or_else(PoisonError::into_inner);
        }
        drop(bed);
        self.asleep.fetch_sub(1, Ordering::Relaxed);
    }
    fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) > 0 {
            // A thread between its look at the round and its sleep holds the lock: it is woken below.
            drop(self.bed.lock().unwrap_or_else(PoisonError::into_inner));
            self.bell.notify_all();
        }
    }
    /// Waiting threads return with [`Broken`], now and later.
    pub fn give_up(&self) {
        self.broken.store(true, Ordering::Release);
        self.wake();
    }
}

/// Gives up when it is dropped while a thread panics, so that no other waits for it.
pub(super) struct Guard<'a>(pub [&'a Barrier; 3]);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.iter().for_each(|barrier| barrier.give_up());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With more threads than most machines have cores no thread is ahead of the slowest by a round.
    #[test]
    fn all_are_in_the_same_round() {
        let barrier = Barrier::new(5);
        let done: Vec<AtomicUsize> = (0..5).map(|_| AtomicUsize::new(0)).collect();
        std::thread::scope(|s| {
            for own in &done {
                s.spawn(|| {
                    for round in 1..=300 {
                        own.store(round, Ordering::Relaxed);
                        barrier.wait(barrier.arrive()).unwrap();
                        assert!(done.iter().all(|d| d.load(Ordering::Relaxed) >= round));
                        barrier.wait(barrier.arrive()).unwrap();
                    }
                });
            }
        });
    }
    /// Measures what a meeting of threads costs: `cargo test --release -p penstock-sim --lib -- --ignored --nocapture meeting`. The
    /// least of many batches: others use the machine.
    #[test]
    #[ignore = "a measurement"]
    #[allow(clippy::disallowed_methods)]
    fn meeting_and_boxes_in_nanoseconds() {
        const ROUNDS: u32 = 500;
        let barrier = Barrier::new(2);
        let boxes: [[Mutex<Vec<u64>>; 8]; 2] = Default::default();
        let measure = |own: usize, visited: usize| {
            let mut least = f64::INFINITY;
            let mut mailbox = Vec::new();
            for _ in 0..2000 {
                let start = std::time::Instant::now();
                for _ in 0..ROUNDS {
                    let visit = |whose: usize, mailbox: &mut Vec<u64>| {
                        boxes[whose][..visited]
                            .iter()
                            .for_each(|b| std::mem::swap(mailbox, &mut *b.lock().unwrap()));
                        barrier.wait(barrier.arrive()).unwrap();
                    };
                    visit(own, &mut mailbox);
                    visit(1 - own, &mut mailbox);
                }
                least = least.min(start.elapsed().as_nanos() as f64 / f64::from(ROUNDS));
            }
            least
        };
        for visited in [0, 8] {
            let least = std::thread::scope(|s| {
                let other = s.spawn(|| measure(1, visited));
                (measure(0, visited), other.join().unwrap()).0
            });
            println!("two meetings and {visited} boxes written, {visited} read: {least:.0} ns");
        }
    }
    #[test]
    fn a_thread_that_gives_up_leaves_no_other_waiting() {
        let (barrier, other) = (Barrier::new(2), Barrier::new(2));
        std::thread::scope(|s| {
            let waiting = s.spawn(|| barrier.wait(barrier.arrive()));
            let failed = s.spawn(|| {
                let _guard = Guard([&barrier, &other, &other]);
                panic!("on purpose");
            });
            assert!(failed.join().is_err());
            assert_eq!(waiting.join().unwrap(), Err(Broken));
        });
        assert_eq!([&barrier, &other].map(|b| b.wait(b.arrive())), [Err(Broken); 2]);
    }
}
