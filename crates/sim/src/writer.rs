//! When applications write, where all of them share one thread, as those of a live run do: `write_lag`, `write_time`, `write_turn`.
//!
//! That thread sleeps until a write is due, and comes to it late. While it hands one host its data over no other host's application writes: what is
//! due meanwhile begins when that is over, at once. So servers that are asked at the same time answer one after the other, and what their first windows
//! find at a switch is not what they would find if they answered together. What leaves by a write leaves a little after its beginning, as a network
//! that sleeps has to be woken.

use crate::reception::Lags;
use crate::setup::Setup;
use penstock_core::rng::Entity;
use penstock_core::Stream;
use penstock_units::{Dur, Time};
use std::collections::BTreeMap;

/// What an application does on a connection that is open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Deed {
    /// Writes so many bytes with such a tag, which take so long in the idle network, in seconds; the write begins then.
    Write(u64, u64, f64, Time),
    /// Closes it.
    Close,
    /// Drops it.
    Leave,
}

/// The thread of all applications, and what it has been asked for that is not done yet.
pub struct Writer {
    lag: Option<Lags>,
    time: Option<Lags>,
    turn: Option<Lags>,
    stream: Stream,
    /// It is at work until then.
    until: Time,
    /// In order of time: what, on which flow. The second number tells simultaneous ones apart.
    later: BTreeMap<(Time, u64), (u32, Deed)>,
    asked: u64,
}

impl Writer {
    /// That of a run, where it takes any time.
    pub fn of(setup: &Setup) -> Option<Box<Writer>> {
        if !setup.writes_take_time() {
            return None;
        }
        let [lag, time, turn] = [&setup.write_lag, &setup.write_time, &setup.write_turn].map(Clone::clone);
        // Beyond every host's number, as the machine that they share (`Reception`), but for one.
        let stream = Stream::new(setup.seed, setup.run, Entity::Reception, u64::MAX - 1);
        let later = BTreeMap::new();
        Some(Box::new(Writer { lag, time, turn, stream, until: Time::ZERO, later, asked: 0 }))
    }
    fn draw(lags: &Option<Lags>, stream: &mut Stream) -> Dur {
        lags.as_ref().map_or(Dur::ZERO, |lags| lags.at(stream.uniform()))
    }
    /// A write is due at `now`, which never decreases.
    pub fn write(&mut self, now: Time, flow: u32, (bytes, tag): (u64, u64), ideal: f64) {
        let begins =
            if now < self.until { self.until } else { now + Writer::draw(&self.lag, &mut self.stream) };
        self.until = begins + Writer::draw(&self.time, &mut self.stream);
        let leaves = begins + Writer::draw(&self.turn, &mut self.stream);
        self.put(leaves, flow, Deed::Write(bytes, tag, ideal, begins));
    }
    /// A connection is closed or dropped: behind what is still to be written on it. False where that is nothing, and the deed can be done at once.
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
    /// When something is done next.
    pub fn next(&self) -> Time {
        self.later.first_key_value().map_or(Time::NEVER, |(at, _)| at.0)
    }
    /// What is done at `now`, one by one.
    pub fn take(&mut self, now: Time) -> Option<(u32, Deed)> {
        let first = self.later.first_entry().filter(|first| first.key().0 <= now)?;
        Some(first.remove())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writer(lag: &str, time: &str, turn: &str) -> Writer {
        let of = |text| Lags::parse("write_lag", text).unwrap();
        let stream = Stream::new(1, 0, Entity::Reception, 0);
        let (later, until) = (BTreeMap::new(), Time::ZERO);
        Writer { lag: of(lag), time: of(time), turn: of(turn), stream, until, later, asked: 0 }
    }
    fn at(us: u64) -> Time {
        Time::ZERO + Dur::micros(us)
    }
    fn all(w: &mut Writer) -> Vec<(Time, u32, Deed)> {
        let mut found = Vec::new();
        while w.next() != Time::NEVER {
            let now = w.next();
            let (flow, deed) = w.take(now).unwrap();
            found.push((now, flow, deed));
        }
        found
    }

    /// Due at 100, 110 and 135 us, late by 20, at work for 30: the second begins when the first is done, the third, due 15 us before that one is done, when it is.
    /// One that is due when nobody is at work is late again. What leaves leaves 5 us later.
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
