//! Whether a run may be trusted: how late packets were handed over.

use crate::histogram::{Histogram, Pairs, Turn};
use crate::waits;
use penstock_units::{Dur, Time};

/// Handing over takes some 10 us, and 55 in one of a thousand: in what takes as long as this the thread had lost its processor.
const STILL: Dur = Dur::micros(100);
/// Windows in which the worst lag is looked at.
const WINDOW: Dur = Dur::millis(10);

/// What a host was handed last, with nothing read from it since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Handed {
    /// The packet does not measure the host's time: an ACK that released nothing at once (full window, pacing), or a
    /// packet that arrived while other data were unread.
    #[default]
    Nothing,
    /// A packet with payload, which nothing has answered at once.
    Data,
    /// Data at this time, when the host's device was empty; the host answered before the hand-over returned.
    Answered(Time),
    /// A packet without payload at this time, when the host's device was empty; the host sent before the hand-over returned.
    Released(Time),
}

/// A packet that is read from a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// With payload.
    Data,
    /// Without, acknowledging something new.
    Ack,
    /// Without, and nothing new: a duplicate ACK.
    DupAck,
}

/// How long hosts take for what they are handed.
#[derive(Clone, Debug)]
pub struct Turns {
    /// By node.
    last: Vec<Handed>,
    /// From a data packet that a host was handed to the ACK that it sent at once, within the interrupt.
    pub receiver: Turn,
    /// Time to a duplicate ACK, which needs no wake-up of the application: data behind a gap cannot be read.
    pub dupack: Turn,
    /// From the data that its application was woken for to the ACK that left by its read.
    pub application: Turn,
    /// From an ACK that a host was handed to the data packet that it released at once.
    pub sender: Turn,
    /// Of each of the application's and how late it had come for the read.
    late: Pairs,
}

/// Lags of packets: virtual time of delivery to the time it happened.
#[derive(Clone, Debug)]
pub struct Lag {
    /// Lag of every packet.
    pub all: Histogram,
    /// Lag after each sleep of the network's thread, of the first packet that was due, at any hop. It also has the pauses in which the thread
    /// stood still without having slept, or while it handed a packet over.
    pub wake: Histogram,
    /// Of packets that were due while the thread was awake and nothing else waited or was handed over.
    pub awake: Histogram,
    /// How long it took to hand one over, without payload and with it: the kernel handles a packet within the call. Without those that it stood still in.
    pub handovers: [Histogram; 2],
    /// When that of the last one began and ended.
    began: Time,
    free: Time,
    /// The thread has slept since it last did something.
    slept: bool,
    /// A lag above this spoils its window.
    limit: Dur,
    /// Windows with a packet due, or in which one that was due waited for longer than the limit; and the latter alone.
    windows: u64,
    late: u64,
    /// The first window that is not counted yet, in either.
    next: u64,
    next_late: u64,
}

impl Turns {
    /// Nothing has been handed to any of `nodes`.
    pub fn new(nodes: usize) -> Turns {
        let [receiver, dupack, application, sender] = [0; 4].map(|_| Turn::new(nodes));
        Turns {
            last: vec![Handed::Nothing; nodes],
            receiver,
            dupack,
            application,
            sender,
            late: Pairs::default(),
        }
    }
    /// A packet counts that is handed over: data, or not; and if so, data behind a gap?
    pub fn count(&mut self, data: bool, behind: bool) {
        let turn = match (data, behind) {
            (true, false) => &mut self.receiver,
            (true, true) => &mut self.dupack,
            (false, _) => &mut self.sender,
        };
        turn.handed += 1;
    }
    /// A packet has been handed to `node` at `at`, data or not. Its device: was it empty before, and is it now?
    pub fn hand(&mut self, node: u32, at: Time, data: bool, empty: (bool, bool)) {
        self.last[node as usize] = match (data, empty) {
            (true, (true, false)) => Handed::Answered(at),
            (true, (true, true)) => Handed::Data,
            (false, (true, false)) => Handed::Released(at),
            _ => Handed::Nothing,
        };
    }
    /// A packet is read from `node`: what it was handed last, once.
    pub fn take(&mut self, node: u32) -> Handed {
        std::mem::take(&mut self.last[node as usize])
    }
    /// Correlation of the logarithms of how late applications came to read and of what it took, from the same data, to the ACK that left by it.
    pub fn with_lag(&self) -> f64 {
        self.late.correlation()
    }
    /// The packet that was read from `node` at `now`, what it is, what the host had been handed, and its application's last read,
    /// where that has not been told before.
    pub fn record(&mut self, node: u32, handed: Handed, now: Time, what: Read, read: Option<waits::Read>) {
        match (handed, what) {
            (Handed::Answered(at), Read::Ack) => self.receiver.record(node, now.since(at)),
            (Handed::Answered(at), Read::DupAck) => self.dupack.record(node, now.since(at)),
            (Handed::Data, Read::Ack | Read::DupAck) => {
                // The time counts from the data, not from the read: a read that is late because it shares a processor
                // with the network's thread has its ACK soon.
                if let Some((began, late)) = read.and_then(|read| Some((read.began, read.late?))) {
                    let took = late + now.since(began);
                    self.application.record(node, took);
                    let place = |time: Dur| Histogram::bucket(time.0 / 1000) as u16;
                    self.late.add(place(late), place(took));
                }
            }
            (Handed::Released(at), Read::Data) => self.sender.record(node, now.since(at)),
            _ => {}
        }
    }
}

impl Lag {
    /// No lags yet; `limit` is the round trip of the scenario.
    pub fn new(limit: Dur) -> Lag {
        let [all, wake, awake, ack, data] = [0; 5].map(|_| Histogram::new());
        let [began, free] = [Time::ZERO; 2];
        let (handovers, slept) = ([ack, data], false);
        Lag {
            all,
            wake,
            awake,
            handovers,
            began,
            free,
            slept,
            limit,
            windows: 0,
            late: 0,
            next: 0,
            next_late: 0,
        }
    }
    /// The thread has slept. It may have woken in time, and waits awake then.
    pub fn sleeps(&mut self) {
        self.slept = true;
    }
    /// It has read what a host has sent: what is due next finds it awake, unless it sleeps again.
    pub fn works(&mut self) {
        self.slept = false;
    }
    /// Something is due at `due`, at whatever hop, and the thread comes to it at `now`: how late it has woken for it, if it has slept.
    pub fn wakes(&mut self, due: Time, now: Time) -> Option<Dur> {
        if !std::mem::take(&mut self.slept) {
            return None;
        }
        let lag = now.since(due);
        self.wake.record(lag);
        self.free = now;
        Some(lag)
    }
    /// A packet that was due at `due` begins to be handed over at `now`. Did it wait for no other, nor for the thread to wake?
    pub fn record(&mut self, due: Time, now: Time) -> bool {
        let lag = now.since(due);
        self.all.record(lag);
        let first = due >= self.free;
        if first && lag >= STILL {
            self.wake.record(lag);
        } else if first {
            self.awake.record(lag);
        }
        (self.began, self.free) = (now, now);
        let window = due.0 / WINDOW.0;
        let mut end = window + 1;
        if lag > self.limit {
            // While the network stands still nothing else is due: a pause of a second spoils a hundred windows, by one packet.
            end = now.0 / WINDOW.0 + 1;
            self.late += end.saturating_sub(window.max(self.next_late));
            self.next_late = self.next_late.max(end);
        }
        self.windows += end.saturating_sub(window.max(self.next));
        self.next = self.next.max(end);
        first
    }
    /// It has been handed over at `now`; with payload (`data`) or without. When and for how long the thread stood still in that, if it did.
    pub fn done(&mut self, now: Time, data: bool) -> Option<(Time, Dur)> {
        let took = now.since(self.began);
        self.free = now;
        if took < STILL {
            self.handovers[usize::from(data)].record(took);
            return None;
        }
        self.wake.record(took);
        Some((self.began, took))
    }
    /// Share of the windows of 10 ms, among those with a packet, in which some packet that was late by more than a round trip waited.
    pub fn late_share(&self) -> f64 {
        self.late as f64 / self.windows.max(1) as f64
    }
}

/// Most of the windows that may be late in a valid run.
pub const LATE_SHARE: f64 = 0.01;

/// Whether a run of that length came to its end too late. A thread that has not run for the rest of its run has been late for nothing that it did.
pub fn ends_late(late: Dur, length: Dur) -> bool {
    late > WINDOW.max(Dur((length.0 as f64 * LATE_SHARE) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::LARGEST;

    #[test]
    fn quantiles_are_known_to_two_per_cent() {
        let mut lag = Lag::new(Dur::millis(1));
        for us in 1..=1000 {
            lag.record(Time::ZERO, Time::ZERO + Dur::micros(us));
        }
        for (q, us) in [(0.5, 500.0), (0.99, 990.0), (1.0, 1000.0)] {
            let found = lag.all.quantile(q);
            assert!((found * 1e6 / us - 1.0).abs() < 0.02, "{q}: {found}");
        }
        assert_eq!((lag.all.max(), lag.late_share()), (1e-3, 0.0));
        // Whatever the order they came in.
        let mut h = Histogram::new();
        for us in (1..=1000).map(|i| i * 379 % 1009) {
            h.record(Dur::micros(us));
        }
        let mut sorted: Vec<u64> = (1..=1000).map(|i| i * 379 % 1009).collect();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        for rank in [1, 2, 5, LARGEST] {
            assert!((h.ranked(rank) * 1e6 - sorted[rank - 1] as f64).abs() < 1e-6);
        }
        assert!(Histogram::new().ranked(1).is_nan());
    }
    /// A receiver answers data at once, or when its application has read; what a sender sends counts where the ACK released it at once, and once.
    #[test]
    fn a_turn_is_from_what_was_handed_over_or_read_to_what_left_by_it() {
        let at = |us: u64| Time::ZERO + Dur::micros(us);
        let mut turns = Turns::new(2);
        let (quiet, left) = ((true, true), (true, false));
        let mut read = |node: u32, handed: &[(u64, bool, (bool, bool))], now: u64, what: Read, began: u64| {
            handed.iter().for_each(|h| turns.hand(node, at(h.0), h.1, h.2));
            let last = turns.take(node);
            let read = waits::Read { began: at(began), late: Some(Dur::micros(16)) };
            turns.record(node, last, at(now), what, (began > 0).then_some(read));
            (turns.receiver.times.count(), turns.application.times.count(), turns.sender.times.count())
        };
        use Read::{Ack, Data};
        assert_eq!(read(1, &[(0, true, quiet), (120, true, left)], 133, Ack, 16), (1, 0, 0));
        assert_eq!(read(1, &[(200, true, quiet), (320, true, quiet)], 357, Ack, 336), (1, 1, 0));
        // The application had come before, for the ACK that was told of; what was in the device already is no answer.
        assert_eq!(read(1, &[(400, true, quiet)], 457, Ack, 0), (1, 1, 0));
        assert_eq!(read(1, &[(500, true, (false, false))], 520, Ack, 516), (1, 1, 0));
        assert_eq!(read(0, &[(700, false, left)], 710, Data, 0), (1, 1, 1));
        // The second of the two that were released; a packet of pacing; an answer to a request; an ACK of a sender.
        assert_eq!(read(0, &[], 711, Data, 0), (1, 1, 1));
        assert_eq!(read(0, &[(720, false, left), (725, false, quiet)], 730, Data, 0), (1, 1, 1));
        assert_eq!(read(1, &[(740, true, left)], 750, Data, 0), (1, 1, 1));
        assert_eq!(read(0, &[(760, false, left)], 770, Ack, 0), (1, 1, 1));
        // What is answered with a duplicate ACK is a turn of its own.
        turns.hand(1, at(800), true, left);
        let handed = turns.take(1);
        turns.record(1, handed, at(807), Read::DupAck, None);
        assert_eq!((turns.dupack.times.count(), turns.receiver.times.count()), (1, 1));
        for (found, us) in [
            (&turns.receiver.times, 13.0),
            (&turns.dupack.times, 7.0),
            (&turns.application.times, 37.0),
            (&turns.sender.times, 10.0),
        ] {
            assert!((found.quantile(0.5) * 1e6 / us - 1.0).abs() < 0.02, "{}", found.quantile(0.5));
        }
    }
    /// Two receivers alternate between ten ACKs of 16 us and ten of 64 us, one half a period ahead. Nine in ten
    /// successive times are equal, so their correlation is 0.8; times 20 apart are always equal. There are two data
    /// packets for each ACK.
    #[test]
    fn what_lasts_is_seen_at_each_node_by_itself() {
        let at = |us: u64| Time::ZERO + Dur::micros(us);
        let mut turns = Turns::new(2);
        for i in 0..20_020u64 {
            for node in 0..2 {
                let took = if (i + 5 * u64::from(node)) / 10 % 2 == 0 { 16 } else { 64 };
                let now = 1000 * i;
                (0..2).for_each(|_| turns.count(true, false));
                turns.count(true, true);
                turns.hand(node, at(now), true, (true, false));
                let handed = turns.take(node);
                turns.record(node, handed, at(now + took), Read::Ack, None);
            }
        }
        let found = &turns.receiver;
        assert!((found.near() - 0.8).abs() < 1e-3 && (found.far() - 1.0).abs() < 1e-9, "{}", found.near());
        assert_eq!(found.packets(), 2.0);
        assert!(turns.sender.near().is_nan() && turns.sender.packets().is_nan());
    }
    /// Packets delivered late by up to 80 us, with another one for which the thread woke at 80 us, are one wake-up. A
    /// packet due then finds the thread awake, one due after its next sleep is another wake-up, and one that is late by
    /// 150 us without a sleep is a pause.
    #[test]
    fn a_wake_up_is_of_a_thread_that_slept() {
        let mut lag = Lag::new(Dur::millis(1));
        let at = |us: u64| Time::ZERO + Dur::micros(us);
        lag.sleeps();
        assert_eq!(lag.wakes(at(0), at(80)), Some(Dur::micros(80)));
        assert_eq!(lag.wakes(at(5), at(80)), None);
        for (due, now, first) in
            [(10, 81, false), (79, 82, false), (82, 84, true), (90, 90, true), (400, 550, true)]
        {
            assert_eq!(lag.record(at(due), at(now)), first, "{due}");
        }
        lag.sleeps();
        assert_eq!(lag.wakes(at(700), at(702)), Some(Dur::micros(2)));
        // It has slept until a host sent something.
        lag.sleeps();
        lag.works();
        assert_eq!(lag.wakes(at(720), at(721)), None);
        assert_eq!((lag.all.count(), lag.wake.count(), lag.awake.count()), (5, 3, 2));
        let found = [lag.wake.max(), lag.wake.ranked(2), lag.wake.ranked(3), lag.awake.max()];
        assert_eq!(found.map(|s| (s * 1e6).round()), [150.0, 80.0, 2.0, 2.0]);
    }
    /// Data take 11 us to be handed over, an ACK 8: what is due within that waits for its end, what is due at its end finds the thread free.
    #[test]
    fn who_is_due_while_another_is_handed_over_waits_for_it() {
        let mut lag = Lag::new(Dur::millis(1));
        let at = |us: u64| Time::ZERO + Dur::micros(us);
        for (due, now, done, data) in [(10, 11, 22, true), (15, 22, 30, false), (30, 32, 43, true)] {
            lag.record(at(due), at(now));
            lag.done(at(done), data);
        }
        assert_eq!((lag.all.count(), lag.awake.count()), (3, 2));
        let [ack, data] = &lag.handovers;
        assert_eq!((ack.count(), data.count()), (1, 2));
        assert!((ack.max() - 8e-6).abs() < 1e-12 && (data.max() - 11e-6).abs() < 1e-12);
        // A processor that goes away in the middle is late as one that does not come.
        lag.record(at(200), at(201));
        assert_eq!(lag.done(at(3201), true), Some((at(201), Dur::millis(3))));
        assert_eq!((lag.wake.count(), lag.wake.max(), lag.handovers[1].count()), (1, 3e-3, 2));
        lag.record(at(1000), at(3201));
        assert_eq!((lag.wake.count(), lag.awake.count()), (1, 3));
    }
    #[test]
    fn a_lag_above_the_round_trip_spoils_its_window_only() {
        let mut lag = Lag::new(Dur::micros(100));
        for window in 0..100 {
            let due = Time::ZERO + Dur::millis(10) * window;
            lag.record(due, due + Dur::micros(1));
            if window == 7 {
                lag.record(due, due + Dur::millis(5));
                lag.record(due, due + Dur::millis(5));
            }
        }
        assert_eq!(lag.late_share(), 0.01);
        // A second in which nothing is handed over.
        let due = Time::ZERO + Dur::millis(2000);
        lag.record(due, due + Dur::millis(995));
        lag.record(due + Dur::micros(1), due + Dur::millis(995));
        assert_eq!(lag.late_share(), 101.0 / 200.0);
    }
    /// A hundredth of the run, a window at least.
    #[test]
    fn a_run_that_nobody_was_there_to_end_is_late() {
        let (second, ten) = (Dur::millis(1000), Dur::millis(10_000));
        assert!(!ends_late(Dur::millis(10), second) && ends_late(Dur::millis(11), second));
        assert!(!ends_late(Dur::millis(99), ten) && ends_late(Dur::millis(101), ten));
        assert!(!ends_late(Dur::millis(9), Dur::millis(100)) && ends_late(Dur::millis(11), Dur::millis(100)));
    }
}
