//! Measures the time from delivery to read, from the read to its ACK, and from the beginning of a write to its first
//! packet.
//!
//! The network's thread hands data over and the applications' thread reads; each sees only its own half. They share a
//! word or two for each host ([`Reads`]). The applications' thread notes when it reads. The network's thread knows
//! since when there were unread data, and takes the difference when it next handles that host. It leaves out waits for
//! a tenth or more of which it was itself silent, because they say nothing about the applications.
//!
//! Data behind a gap do not wake the application. A host whose last ACK has reported a gap is therefore left out.

use crate::histogram::{Histogram, Turn};
use penstock_units::{Dur, Time};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

/// What both threads know of a host's applications.
#[derive(Debug, Default)]
struct Shared {
    /// There are unread data.
    waiting: AtomicBool,
    /// When they came for it, and when they last began to read; zero when that has been looked at.
    came: AtomicU64,
    began: AtomicU64,
    /// When they began to write to a connection that had nothing outstanding; zero when something has left the host since.
    wrote: AtomicU64,
}

/// What both threads know of the applications, by node.
#[derive(Debug, Default)]
pub struct Reads(Vec<Shared>);

impl Reads {
    /// Of so many nodes.
    pub fn new(nodes: usize) -> Arc<Reads> {
        Arc::new(Reads((0..nodes).map(|_| Shared::default()).collect()))
    }
    /// The application at `node` comes to read at `now`.
    pub fn begins(&self, node: u32, now: Time) {
        let shared = &self.0[node as usize];
        shared.began.store(now.0, Ordering::Release);
        if shared.waiting.swap(false, Ordering::AcqRel) {
            shared.came.store(now.0, Ordering::Release);
        }
    }
    /// The application at `node` begins to write at `now`, to a connection that has nothing outstanding.
    pub fn writes(&self, node: u32, now: Time) {
        self.0[node as usize].wrote.store(now.0, Ordering::Release);
    }
    /// It has read everything: what was handed over meanwhile too.
    pub fn ends(&self, node: u32) {
        self.0[node as usize].waiting.store(false, Ordering::Release);
    }
}

/// Waits of all hosts, as the network's thread sees them.
#[derive(Clone, Debug)]
pub struct Waits {
    reads: Arc<Reads>,
    hosts: Vec<Asked>,
    /// How long the network's thread has been late, all in all.
    silent: Dur,
    /// How late applications came, and for how many reads that goes on so.
    pub late: Turn,
    /// From the beginning of a write to the packet that left by it.
    pub write_turn: Histogram,
}

/// A host with something to read.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    /// Since when, and how long the thread had been late by then.
    since: Option<(Time, Dur)>,
    /// Its last ACK has reported a gap.
    gap: bool,
    /// How late they came for the last read, where that was counted and no ACK has left since.
    late: Option<Dur>,
}

/// The read that an ACK has left by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// When it began.
    pub began: Time,
    /// How late the application came for it, where that is known and counts.
    pub late: Option<Dur>,
}

impl Waits {
    /// None yet.
    pub fn new(reads: Arc<Reads>) -> Waits {
        let hosts = vec![Asked::default(); reads.0.len()];
        let late = Turn::new(hosts.len());
        Waits { reads, hosts, silent: Dur::ZERO, late, write_turn: Histogram::new() }
    }
    /// The network's thread has woken so late.
    pub fn woke(&mut self, late: Dur) {
        self.silent += late;
    }
    /// Returns whether the application has read the data of `node`. `counts`: the wait is recorded.
    fn look(&mut self, node: u32, counts: bool) {
        let (shared, asked) = (&self.reads.0[node as usize], &mut self.hosts[node as usize]);
        let came = shared.came.swap(0, Ordering::AcqRel);
        let Some((since, silent)) = asked.since.filter(|_| came > 0) else { return };
        asked.since = None;
        let wait = Time(came).since(since);
        asked.late = None;
        if counts && (self.silent - silent) * 10 <= wait {
            asked.late = Some(wait);
            self.late.record(node, wait);
        }
    }
    /// A packet with payload is read from `node` at `now`; does the run count yet?
    pub fn sent(&mut self, node: u32, now: Time, counts: bool) {
        let wrote = self.reads.0[node as usize].wrote.swap(0, Ordering::AcqRel);
        if wrote > 0 && counts {
            self.write_turn.record(now.since(Time(wrote)));
        }
    }
    /// Has the last ACK of `node` reported a gap?
    pub fn gap(&self, node: u32) -> bool {
        self.hosts[node as usize].gap
    }
    /// A packet with payload is about to be handed to `node` at `now`; does the run count yet?
    pub fn data(&mut self, node: u32, now: Time, counts: bool) {
        self.look(node, counts);
        let (shared, asked) = (&self.reads.0[node as usize], &mut self.hosts[node as usize]);
        if !asked.gap && !shared.waiting.swap(true, Ordering::AcqRel) {
            asked.since = Some((now, self.silent));
        }
    }
    /// An ACK is read from `node`; does it report a gap? The application's last read, unless that has been told.
    pub fn ack(&mut self, node: u32, gap: bool, counts: bool) -> Option<Read> {
        self.look(node, counts);
        let (shared, asked) = (&self.reads.0[node as usize], &mut self.hosts[node as usize]);
        asked.gap = gap;
        if gap {
            shared.waiting.store(false, Ordering::Release);
            asked.since = None;
        }
        let began = shared.began.swap(0, Ordering::AcqRel);
        let late = asked.late.take();
        (began > 0 && !gap).then_some(Read { began: Time(began), late })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Time {
        Time::ZERO + Dur::micros(us)
    }

    fn latest_us(w: &Waits) -> u64 {
        (w.late.times.max() * 1e6).round() as u64
    }

    /// Data every 121 us, read 16 us later; then an application that is away for 9 ms, and one that comes while it waits for a gap to close.
    #[test]
    fn a_wait_is_from_the_first_data_that_nobody_has_read() {
        let reads = Reads::new(2);
        let mut w = Waits::new(reads.clone());
        let comes = |us: u64| {
            reads.begins(1, at(us));
            reads.ends(1);
        };
        w.data(1, at(1000), true);
        comes(1016);
        w.data(1, at(1121), true);
        comes(1137);
        let read =
            |us: u64, late: u64| Some(Read { began: at(us), late: (late > 0).then(|| Dur::micros(late)) });
        assert_eq!(w.ack(1, false, true), read(1137, 16));
        // Told once.
        assert_eq!(w.ack(1, false, true), None);
        assert_eq!((w.late.times.count(), latest_us(&w)), (2, 16));
        (0..76).for_each(|i| w.data(1, at(2000 + 121 * i), true));
        assert_eq!(w.late.times.count(), 2);
        comes(11_100);
        assert_eq!(w.ack(1, false, true), read(11_100, 9100));
        assert_eq!((w.late.times.count(), latest_us(&w)), (3, 9100));
        // The segment behind the gap is acknowledged in the interrupt; those that follow are not waited for until it has closed.
        w.data(1, at(20_000), true);
        assert_eq!(w.ack(1, true, true), None);
        w.data(1, at(20_121), true);
        assert_eq!(w.ack(1, true, true), None);
        w.data(1, at(40_000), true);
        comes(40_016);
        assert_eq!(w.ack(1, false, true), read(40_016, 0));
        assert_eq!(w.late.times.count(), 3);
        w.data(1, at(40_121), true);
        comes(40_140);
        w.data(1, at(40_242), true);
        assert_eq!(w.late.times.count(), 4);
    }
    /// What the network's thread was late by within the wait, not before it, and not what is short beside it.
    #[test]
    fn what_the_network_was_late_for_says_nothing() {
        let reads = Reads::new(1);
        let mut w = Waits::new(reads.clone());
        for (late, counted) in [(3000, 0), (4, 1)] {
            w.woke(Dur::micros(500));
            w.data(0, at(1000), true);
            reads.begins(0, at(1050));
            reads.ends(0);
            w.woke(Dur::micros(late));
            w.data(0, at(4200), true);
            assert_eq!(w.late.times.count(), counted);
            reads.begins(0, at(4216));
            reads.ends(0);
            w.look(0, false);
        }
        // Before the run counts nothing does.
        w.data(0, at(5000), false);
        reads.begins(0, at(5016));
        w.data(0, at(5121), false);
        assert_eq!(w.late.times.count(), 1);
    }
    /// From a write to the first packet that leaves after it, once; what leaves without one says nothing.
    #[test]
    fn a_write_is_timed_to_the_packet_that_leaves_by_it() {
        let reads = Reads::new(2);
        let mut w = Waits::new(reads.clone());
        w.sent(1, at(100), true);
        reads.writes(1, at(1000));
        w.sent(0, at(1005), true);
        assert_eq!(w.write_turn.count(), 0);
        w.sent(1, at(1018), true);
        w.sent(1, at(1019), true);
        reads.writes(1, at(2000));
        w.sent(1, at(2040), false);
        assert_eq!((w.write_turn.count(), (w.write_turn.max() * 1e6).round() as u64), (1, 18));
    }
    /// Data that arrive during a read are read with the rest, and the next wait starts anew.
    #[test]
    fn what_comes_during_a_read_is_read_by_it() {
        let reads = Reads::new(1);
        let mut w = Waits::new(reads.clone());
        w.data(0, at(1000), true);
        reads.begins(0, at(1016));
        w.data(0, at(1018), true);
        reads.ends(0);
        w.data(0, at(3000), true);
        reads.begins(0, at(3017));
        w.data(0, at(3121), true);
        assert_eq!((w.late.times.count(), latest_us(&w)), (2, 17));
    }
}
