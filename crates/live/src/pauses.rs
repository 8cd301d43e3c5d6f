//! Did hosts go on while the network's thread was late? What they have sent meanwhile it finds in their devices, all at once.
//!
//! After a pause of length l the thread reads what was sent in it, and besides that what hosts send in the time that the reading takes. Hosts
//! went on where the first is at least half of what they sent in the time l before the pause, taking the second to be sent at the rate of then.
//! Where acknowledgements make hosts send, those that waited do so at once, and such a host always counts as one that went on.

use penstock_units::{Dur, Time};
use std::collections::VecDeque;

/// From where lengths are told apart; shorter ones are not looked at. On the machine of docs/reference/live.md hosts go on in most pauses below 2 ms, where only
/// this thread has lost its processor, and sit out most of the longer ones.
const LENGTHS: [Dur; 4] = [Dur::millis(1), Dur::millis(2), Dur::millis(4), Dur::millis(8)];
/// In which the thread reads what it finds: a hundred packets take no longer.
const READING: Dur = Dur::micros(500);
/// Longer ago nothing is remembered: a longer pause is compared with less than was sent.
const MEMORY: Dur = Dur::millis(50);

/// The pauses of a run.
#[derive(Clone, Debug, Default)]
pub struct Pauses {
    /// When data was read, the latest of it.
    reads: VecDeque<Time>,
    /// The last pause, not judged yet: its end, how many packets are enough, and its place in [`LENGTHS`].
    open: Option<(Time, f64, usize)>,
    /// Pauses that were judged, by length: of 1, 2, 4 ms, 8 ms and more.
    pub judged: [u64; LENGTHS.len()],
    /// Those in which hosts went on sending.
    pub sent: [u64; LENGTHS.len()],
}

impl Pauses {
    /// A data packet is read from a device at `now`.
    pub fn read(&mut self, now: Time) {
        self.judge(now);
        self.reads.push_back(now);
        while self.reads.front().is_some_and(|at| now.since(*at) > MEMORY) {
            self.reads.pop_front();
        }
    }
    /// The thread was to do something at `due`, and comes at `now`.
    pub fn woke(&mut self, due: Time, now: Time) {
        let length = now.since(due);
        let Some(place) = LENGTHS.iter().rposition(|least| length >= *least) else { return };
        self.judge(now);
        let before = self.reads.iter().filter(|at| **at < due && due.since(**at) <= length).count() as f64;
        // One packet tells nothing.
        if before >= 2.0 {
            let beside = before * (READING.as_secs() / length.as_secs());
            self.open = Some((now, 0.5 * before + beside, place));
        }
    }
    fn judge(&mut self, now: Time) {
        let Some((end, enough, place)) = self.open.filter(|(end, ..)| now.since(*end) > READING) else {
            return;
        };
        let found = self.reads.iter().filter(|at| **at >= end && at.since(end) <= READING).count() as f64;
        self.open = None;
        self.judged[place] += 1;
        self.sent[place] += u64::from(found >= enough);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host sends every 100 us. In a pause of 3 ms are 30 packets; half of them and the five that are sent while the thread reads make 20.
    #[test]
    fn who_went_on_is_found_with_what_it_sent() {
        let at = |us: u64| Time::ZERO + Dur::micros(us);
        for (found, went_on) in [(35, 1), (20, 1), (19, 0), (5, 0), (0, 0)] {
            let mut pauses = Pauses::default();
            (0..100).for_each(|i| pauses.read(at(100 * i)));
            pauses.woke(at(10_000), at(13_000));
            // A shorter one is nothing.
            pauses.woke(at(13_001), at(13_900));
            (0..found).for_each(|i| pauses.read(at(13_000 + 10 * i)));
            assert_eq!(pauses.judged, [0; 4]);
            pauses.read(at(13_501));
            assert_eq!((pauses.judged, pauses.sent), ([0, 1, 0, 0], [0, went_on, 0, 0]), "{found}");
        }
    }
    #[test]
    fn pauses_are_told_apart_by_length() {
        let at = |us: u64| Time::ZERO + Dur::micros(us);
        for (length, judged) in [
            (999, [0, 0, 0, 0]),
            (1000, [1, 0, 0, 0]),
            (1999, [1, 0, 0, 0]),
            (2000, [0, 1, 0, 0]),
            (7999, [0, 0, 1, 0]),
            (8000, [0, 0, 0, 1]),
            (60_000, [0, 0, 0, 1]),
        ] {
            let mut pauses = Pauses::default();
            (0..100).for_each(|i| pauses.read(at(100 * i)));
            pauses.woke(at(10_000), at(10_000 + length));
            pauses.read(at(11_000 + length));
            assert_eq!((pauses.judged, pauses.sent), (judged, [0; 4]), "{length}");
        }
    }
    #[test]
    fn a_pause_in_silence_tells_nothing() {
        let at = |us: u64| Time::ZERO + Dur::micros(us);
        let mut pauses = Pauses::default();
        pauses.read(at(0));
        pauses.woke(at(60_000), at(65_000));
        pauses.read(at(70_000));
        assert_eq!(pauses.judged, [0; 4]);
    }
}
