//! The thread that writes for the applications of all hosts, as in a live run: `write_lag`, `write_time`, `write_turn`.
//!
//! The thread sleeps until a write is due, and begins it late. While it writes for one host, no other host's application
//! writes: a write that becomes due meanwhile begins when the present one ends, without a lag. Servers that are asked at the
//! same time therefore answer one after the other, and their first windows meet other queues than if they answered
//! together. The first packet leaves a little after the beginning of its write, as a sleeping network has to wake.

use super::keys::HostLatency;
use super::quantiles::DelayQuantiles;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use penstock_core::rng::Entity;
use penstock_core::Stream;
use penstock_units::{Dur, Time};

/// An action of an application on a connection that is open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Deed {
    /// A write: its bytes, its tag, the seconds that it takes in the idle network, and the time at which it began.
    Write(u64, u64, f64, Time),
    /// The end of all writes.
    Close,
    /// The application goes away.
    Leave,
}

/// The thread of all applications, with actions that are due and not yet done.
pub struct ApplicationThread {
    keys: HostLatency,
    stream: Stream,
    /// It is at work until then.
    until: Time,
    /// Actions by time, each with its flow. The second number orders simultaneous ones.
    later: BTreeMap<(Time, u64), (u32, Deed)>,
    asked: u64,
}

impl ApplicationThread {
    /// The thread of a run, if applications write late.
    pub fn of(keys: &HostLatency, seed: u64, run: u64) -> Option<Box<ApplicationThread>> {
        // Beyond every host's number, as the network thread, but for one.
        let stream = Stream::new(seed, run, Entity::Reception, u64::MAX - 1);
        let (keys, later) = (keys.clone(), BTreeMap::new());
        let thread = ApplicationThread { keys, stream, until: Time::ZERO, later, asked: 0 };
        thread.keys.writes().then(|| Box::new(thread))
    }
    fn draw(lags: &Option<DelayQuantiles>, stream: &mut Stream) -> Dur {
        lags.as_ref().map_or(Dur::ZERO, |lags| lags.at(stream.uniform()))
    }
    /// A write is due at `now`, which never decreases.
    pub fn write(&mut self, now: Time, flow: u32, (bytes, tag): (u64, u64), ideal: f64) {
        let begins = if now < self.until {
            self.until
        } else {
            now + ApplicationThread::draw(&self.keys.write_lag, &mut self.stream)
        };
        self.until = begins + ApplicationThread::draw(&self.keys.write_time, &mut self.stream);
        let leaves = begins + ApplicationThread::draw(&self.keys.write_turn, &mut self.stream);
        self.put(leaves, flow, Deed::Write(bytes, tag, ideal, begins));
    }
    /// A connection is closed or aborted, after the writes on it that are still to be done. False if there are none, and the
    /// caller can act at once.
    pub fn follow(&mut self, flow: u32, deed: Deed) -> bool {
        let last = self.later.iter().rfind(|(_, (of, _))| *of == flow).map(|(at, _)| at.0);
        if let Some(at) = last {
            self.put(at, flow, deed);
        }
        last.is_some()
    }
    fn put(&mut self, at: Time, flow: u32, deed: Deed) {
        self.asked += 1;
        self.later.insert((at, self.asked), (flow, deed));
    }
    /// Time of the next action.
    pub fn next(&self) -> Time {
        self.later.first_key_value().map_or(Time::NEVER, |(at, _)| at.0)
    }
    /// Takes the next action that is due by `now`, with its flow.
    pub fn take(&mut self, now: Time) -> Option<(u32, Deed)> {
        let first = self.later.first_entry().filter(|first| first.key().0 <= now)?;
        Some(first.remove())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn writer(lag: &str, time: &str, turn: &str) -> ApplicationThread {
        let of = |text| DelayQuantiles::parse("write_lag", text).unwrap();
        let (write_lag, write_time, write_turn) = (of(lag), of(time), of(turn));
        let keys = HostLatency { write_lag, write_time, write_turn, ..HostLatency::default() };
        ApplicationThread {
            stream: Stream::new(1, 0, Entity::Reception, 0),
            ..*ApplicationThread::of(&keys, 1, 0).expect("a delay is set")
        }
    }
    fn at(us: u64) -> Time {
        Time::ZERO + Dur::micros(us)
    }
    fn all(w: &mut ApplicationThread) -> Vec<(Time, u32, Deed)> {
        let mut found = Vec::new();
        while w.next() != Time::NEVER {
            let now = w.next();
            let (flow, deed) = w.take(now).unwrap();
            found.push((now, flow, deed));
        }
        found
    }

    /// Due at 100, 110 and 135 us, late by 20, at work for 30: the second begins when the first is done, the third, due 15 us before that one is done, when it is.
    /// One that is due when the thread is idle is late again. What leaves leaves 5 us later.
    #[test]
    fn writes_follow_one_another() {
        let mut w = writer("1e-9:20us,1:20us", "1e-9:30us,1:30us", "1e-9:5us,1:5us");
        [(100, 0), (110, 1), (135, 2), (300, 0)]
            .into_iter()
            .for_each(|(us, flow)| w.write(at(us), flow, (1000, 7), 0.0));
        let begun = [120, 150, 180, 320];
        let expected: Vec<_> = begun
            .into_iter()
            .zip([0, 1, 2, 0])
            .map(|(us, flow)| (at(us + 5), flow, Deed::Write(1000, 7, 0.0, at(us))))
            .collect();
        assert_eq!(all(&mut w), expected);
    }
    /// A connection is closed behind the write that is still to come, and at once where there is none.
    #[test]
    fn what_closes_a_connection_waits_for_its_writes() {
        let mut w = writer("1e-9:20us,1:20us", "none", "none");
        w.write(at(100), 3, (1000, 7), 0.0);
        assert!(w.follow(3, Deed::Close) && !w.follow(4, Deed::Leave));
        assert_eq!(w.take(at(119)), None);
        assert_eq!(
            all(&mut w),
            [(at(120), 3, Deed::Write(1000, 7, 0.0, at(120))), (at(120), 3, Deed::Close)]
        );
    }
}
