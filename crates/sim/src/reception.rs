//! How late hosts see what reaches them when all of them live on one machine, as those of a live run do: `receive_lag`, `data_handover`,
//! `ack_handover`, `timer_lag`, `receiver_turn`, `dupack_turn`, `sender_turn`, `application_lag`, `application_turn`.
//!
//! One thread moves packets from hop to hop and hands them over. Where nothing is due within 15 us it sleeps until something is, and wakes late; how late
//! is drawn from quantiles, those that a live run measured of itself. One that is awake is not late, and late for a hop is late for whom it concerns only. What falls due meanwhile, at whatever host, is handed over with the packet that waited, in order, and draws
//! nothing: a pause is one event, not one per packet. So the lags of all packets are shorter than those that are drawn, and hosts are late
//! together. That thread also takes what they send: what leaves a host while it is late enters the network when it is there again, all at once.
//! Handing a packet over takes it some time too, as a kernel handles a packet within the call that hands it over: `data_handover` for one with
//! payload, `ack_handover` for one without. What falls due meanwhile waits for its end, so where two hosts' packets come close together all the time, the
//! second follows the first by as much, and how late it was itself makes no difference.
//! When it is late by a millisecond their timers may wait as well, those of pacing too. Besides that, and each for itself, timers go
//! off as late as `timer_lag` has it. And what a host is handed it takes some time for: `receiver_turn` for data, `sender_turn` for the rest, and
//! `dupack_turn`, where it is given, for data that are answered with a duplicate ACK: nobody is woken for them, so that a kernel takes half as long.
//! What goes on as it is for a while has its time kept for the packets that come next. A host's application comes to read when it is woken up, and is late
//! then, once in a while by milliseconds: `application_lag`; from where it was woken to the ACK that leaves by its read is `application_turn`.

use crate::setup::Setup;
use penstock_core::params::quantity;
use penstock_core::rng::Entity;
use penstock_core::{ParamError, Stream};
use penstock_host::Kind;
use penstock_units::{Dur, Time};
use std::sync::Arc;

/// A thread that is awake sleeps when nothing is due within this, and ends its sleep as much earlier, as a wake-up takes about as long; what is due before is
/// waited for awake. That of a live run does the same.
pub const SPIN: Dur = Dur::micros(15);
/// Pauses of that length may be the machine's, shorter ones are those of the thread that hands packets over: in a trace of 8 s of a live run
/// timers of hosts went off during 56 of 59 shorter pauses (of a quarter of a millisecond or more) and during one of five longer ones. How
/// many of the longer ones are the machine's a live run counts, by their length ([`Timers`]).
const STANDSTILL: Dur = Dur::millis(1);

/// A distribution of lags by some of its quantiles: between two of them the inverse is geometric (linear from zero), as lags are spread
/// over five powers of ten.
#[derive(Clone, Debug, PartialEq)]
pub struct Lags {
    /// Shares, ascending to 1, and the lags that so many are not above, in seconds.
    quantiles: Arc<[(f64, f64)]>,
}

impl Lags {
    /// Reads `SHARE:TIME,SHARE:TIME,...`, or `none`.
    ///
    /// # Errors
    /// Anything else, shares or times that do not ascend, a last share other than 1, a time above a second.
    pub fn parse(key: &str, text: &str) -> Result<Option<Lags>, ParamError> {
        if text.trim() == "none" {
            return Ok(None);
        }
        let wrong = |rule: &str| ParamError::new(key, text, rule);
        let form = "must be none, or SHARE:TIME,SHARE:TIME,... (0.5:3us,0.99:40us,1:2ms)";
        let mut quantiles: Vec<(f64, f64)> = Vec::new();
        for part in text.split(',') {
            let (share, time) = part.split_once(':').ok_or_else(|| wrong(form))?;
            let number = |text, unit| {
                quantity(text).filter(|found| found.1 == unit).map(|found| found.0).ok_or_else(|| wrong(form))
            };
            let (share, time) = (number(share, "")?, number(time, "s")?);
            let before = quantiles.last().copied().unwrap_or((0.0, 0.0));
            if share <= before.0 || time < before.1 {
                return Err(wrong("must ascend, from a share above 0"));
            }
            if time > 1.0 {
                return Err(wrong("must have times of a second at most"));
            }
            quantiles.push((share, time));
        }
        if quantiles.last().is_none_or(|last| last.0 != 1.0) {
            return Err(wrong("must end with the share 1"));
        }
        Ok(Some(Lags { quantiles: quantiles.into() }))
    }
    /// The lag that a share `u` of [0, 1) is not above.
    pub(crate) fn at(&self, u: f64) -> Dur {
        let i = self.quantiles.partition_point(|q| q.0 <= u).min(self.quantiles.len() - 1);
        let (from, to) = (if i == 0 { (0.0, 0.0) } else { self.quantiles[i - 1] }, self.quantiles[i]);
        let part = (u - from.0) / (to.0 - from.0);
        Dur::from_secs(if from.1 > 0.0 {
            from.1 * libm::pow(to.1 / from.1, part)
        } else {
            from.1 + (to.1 - from.1) * part
        })
    }
}

/// How late timers of hosts are, and how many pauses they wait out.
#[derive(Clone, Debug, PartialEq)]
pub struct Timers {
    lags: Lags,
    /// The share of pauses of that length and longer, up to the next; shorter ones are not waited out.
    wait: Vec<(Dur, f64)>,
}

impl Timers {
    /// Reads `SHARE:TIME,SHARE:TIME,...`, or the same with `;SHARE` or `;TIME:SHARE,TIME:SHARE,...` behind it, or `none`.
    ///
    /// # Errors
    /// Those of [`Lags::parse`]; a share that is none; times that do not ascend, or are above a second.
    pub fn parse(key: &str, text: &str) -> Result<Option<Timers>, ParamError> {
        let (lags, waits) = text.split_once(';').map_or((text, "1"), |(lags, waits)| (lags, waits));
        let rule = "must have a share from 0 to 1 behind the semicolon, that of the pauses which timers wait out, or lengths of pauses that ascend, up to 1s, with their shares (1ms:0.1,2ms:0.8)";
        let wrong = || ParamError::new(key, text, rule);
        let number = |text: &str, unit| quantity(text).filter(|found| found.1 == unit).map(|found| found.0);
        let share = |text: &str| number(text, "").filter(|share| (0.0..=1.0).contains(share));
        let mut wait: Vec<(Dur, f64)> = Vec::new();
        if let Some(share) = share(waits) {
            wait.push((STANDSTILL, share));
        } else {
            for part in waits.split(',') {
                let (length, of) = part.split_once(':').ok_or_else(wrong)?;
                let length = number(length, "s").filter(|length| *length > 0.0 && *length <= 1.0);
                let (length, of) = (Dur::from_secs(length.ok_or_else(wrong)?), share(of).ok_or_else(wrong)?);
                if wait.last().is_some_and(|before| length <= before.0) {
                    return Err(wrong());
                }
                wait.push((length, of));
            }
        }
        match Lags::parse(key, lags)? {
            Some(lags) => Ok(Some(Timers { lags, wait })),
            None if text.contains(';') => Err(wrong()),
            None => Ok(None),
        }
    }
}

/// How long hosts take for a packet, and for how many they go on so.
///
/// The place of a time in its distribution is that of a standard normal deviate, the sum of two: one that a host keeps for a while and one of the
/// packet's own (a Gaussian copula). So a time moves a little from packet to packet, as it was seen to (docs/reference/live.md), and by much when the kept
/// part changes, and its distribution stays what it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    times: Lags,
    /// The kept part's share of the variance, and for how many packets it is kept in the mean; without it each packet has a time of its own.
    lasts: Option<(f64, f64)>,
}

/// A standard normal deviate.
fn normal(stream: &mut Stream) -> f64 {
    // Box and Muller, A note on the generation of random normal deviates (1958).
    libm::sqrt(-2.0 * libm::log(1.0 - stream.uniform()))
        * libm::cos(core::f64::consts::TAU * stream.uniform())
}

impl Turn {
    /// Reads `SHARE:TIME,SHARE:TIME,...`, or the same with `;SHARE:PACKETS` behind it, or `none`.
    ///
    /// # Errors
    /// Those of [`Lags::parse`]; a share that is none, less than one packet.
    pub fn parse(key: &str, text: &str) -> Result<Option<Turn>, ParamError> {
        let (times, lasts) = text.split_once(';').map_or((text, None), |(times, lasts)| (times, Some(lasts)));
        let wrong = || {
            let rule = "must have a share above 0 and up to 1 behind the semicolon, and packets from 1 to 1e9 (0.9:120)";
            ParamError::new(key, text, rule)
        };
        let read = |lasts: &str| {
            let (share, packets) = lasts.split_once(':')?;
            let number = |text| quantity(text).filter(|found| found.1.is_empty()).map(|found| found.0);
            let (share, packets) = (number(share)?, number(packets)?);
            (share > 0.0 && share <= 1.0 && (1.0..=1e9).contains(&packets)).then_some((share, packets))
        };
        let lasts = lasts.map(|lasts| read(lasts).ok_or_else(wrong)).transpose()?;
        match Lags::parse(key, times)? {
            Some(times) => Ok(Some(Turn { times, lasts })),
            None if lasts.is_some() => Err(wrong()),
            None => Ok(None),
        }
    }
    /// The time for the next packet of a host that keeps that deviate, or none yet.
    fn next(&self, kept: &mut Option<f64>, stream: &mut Stream) -> Dur {
        if self.lasts.is_none() {
            return self.times.at(stream.uniform());
        }
        let z = self.deviate(kept, stream);
        self.at(z)
    }
    /// The normal deviate at whose place it is.
    fn deviate(&self, kept: &mut Option<f64>, stream: &mut Stream) -> f64 {
        let Some((share, packets)) = self.lasts else { return normal(stream) };
        let anew = stream.uniform() * packets < 1.0;
        let long = match *kept {
            Some(long) if !anew => long,
            _ => *kept.insert(normal(stream)),
        };
        libm::sqrt(share) * long + libm::sqrt(1.0 - share) * normal(stream)
    }
    /// The time at the place of a normal deviate.
    fn at(&self, z: f64) -> Dur {
        self.times.at(0.5 * libm::erfc(-z * core::f64::consts::FRAC_1_SQRT_2))
    }
}

/// Deviates that a host keeps: of three turns and two times of its applications.
const KEPT: usize = 5;

/// The machine that the hosts of a run share.
pub struct Reception {
    lags: Option<Lags>,
    /// What the thread takes to hand over a packet without payload, and one with it.
    handovers: [Option<Lags>; 2],
    timers: Option<Timers>,
    /// What hosts take for a packet, by its kind; `None` for data that are answered with a duplicate ACK: as for other data.
    turns: [Option<Turn>; 3],
    /// How late applications come to read, and when they answer, both from where they were called; how the one goes with the other.
    applications: [Option<Turn>; 2],
    correlation: f64,
    /// By the number of a host's port: the deviates that it keeps, of every turn and of either time of its applications.
    kept: Vec<[Option<f64>; KEPT]>,
    /// By the same number: how late its application came last, and the deviate of that.
    late: Vec<(Dur, f64)>,
    stream: Stream,
    timer_stream: Stream,
    turn_stream: Stream,
    handover_stream: Stream,
    application_stream: Stream,
    /// Cards have endless queues: what leaves a host is taken by the thread.
    takes: bool,
    /// It is late, or at work, until then.
    until: Time,
    /// It has read what a host has sent, at the latest then.
    read: Time,
    /// When it has begun to hand over the packet that was seen last.
    began: Time,
    /// It has stood still, timers included, until then.
    asleep: Time,
}

impl Reception {
    /// A machine that is not behind: how late it sees packets, how long it takes to hand over an ACK and data, how late its timers are, and how long
    /// its hosts take for an ACK, for data, and for data that are answered with a duplicate ACK.
    pub fn new(
        lags: Option<Lags>,
        handovers: [Option<Lags>; 2],
        timers: Option<Timers>,
        turns: [Option<Turn>; 3],
        stream: Stream,
    ) -> Reception {
        Reception {
            lags,
            handovers,
            timers,
            turns,
            applications: [None, None],
            correlation: 0.0,
            kept: Vec::new(),
            late: Vec::new(),
            timer_stream: stream.split(1),
            turn_stream: stream.split(2),
            handover_stream: stream.split(3),
            application_stream: stream.split(4),
            stream,
            takes: true,
            until: Time::ZERO,
            read: Time::ZERO,
            began: Time::ZERO,
            asleep: Time::ZERO,
        }
    }
    /// That of a run, where it is ever late; do network cards `pull`?
    pub fn of(setup: &Setup, pull: bool) -> Option<Reception> {
        if !setup.noise_of_one_machine() {
            return None;
        }
        let turns = [setup.sender_turn.clone(), setup.receiver_turn.clone(), setup.dupack_turn.clone()];
        // Beyond every host's number: hosts have streams of their own for their jitter.
        let stream = Stream::new(setup.seed, setup.run, Entity::Reception, u64::MAX);
        let handovers = [setup.ack_handover.clone(), setup.data_handover.clone()];
        let (lags, timers) = (setup.receive_lag.clone(), setup.timer_lag.clone());
        let machine = Reception::new(lags, handovers, timers, turns, stream);
        // A card that pulls tells of what it has sent later than it was sent, which the present pause says nothing about; and no host of a live run has one.
        let applications = [setup.application_lag.clone(), setup.application_turn.clone()];
        let correlation = setup.application_correlation;
        Some(Reception { takes: !pull, applications, correlation, ..machine })
    }
    /// The thread comes to something that is due at `at`, which never decreases, at whatever hop: when.
    pub fn comes_at(&mut self, at: Time) -> Time {
        if at >= self.until.max(self.read) + SPIN {
            let lag = self.lags.as_ref().map_or(Dur::ZERO, |lags| lags.at(self.stream.uniform()));
            self.until = at + lag;
            if self.stops(lag) {
                self.asleep = self.until;
            }
        }
        self.until = self.until.max(at);
        self.until
    }
    /// When a host sees a packet, with payload or without, that is due at `at`, which never decreases.
    pub fn seen_at(&mut self, at: Time, data: bool) -> Time {
        let seen = self.comes_at(at);
        self.began = seen;
        if let Some(times) = &self.handovers[usize::from(data)] {
            self.until = seen + times.at(self.handover_stream.uniform());
        }
        seen
    }
    /// Is a pause of that length the whole machine's?
    fn stops(&mut self, length: Dur) -> bool {
        let of =
            |timers: &Timers| timers.wait.iter().rfind(|wait| length >= wait.0).map_or(0.0, |wait| wait.1);
        let wait = self.timers.as_ref().map_or(f64::from(u8::from(length >= STANDSTILL)), of);
        wait >= 1.0 || (wait > 0.0 && self.timer_stream.uniform() < wait)
    }
    /// When the network takes what leaves a host at `at`.
    pub fn taken_at(&mut self, at: Time) -> Time {
        if !self.takes {
            return at;
        }
        self.read = at.max(self.until);
        self.read
    }
    /// When a timer goes off that is due at `at`.
    pub fn timer_at(&mut self, at: Time) -> Time {
        self.timers.as_ref().map_or(at, |timers| at + timers.lags.at(self.timer_stream.uniform()))
    }
    /// How long the host with that port takes for the packet that was seen last, of that kind. A turn begins with its handover, and what is
    /// answered at once the thread reads when that is over: drawn apart, a longer handover would keep the packet's own answer waiting.
    pub fn turn(&mut self, port: u32, kind: Kind) -> Dur {
        let which = match kind {
            Kind::Bare => 0,
            Kind::DupAck if self.turns[2].is_some() => 2,
            Kind::Data | Kind::DupAck => 1,
        };
        let Some(turn) = &self.turns[which] else { return Dur::ZERO };
        let kept = place(&mut self.kept, port, [None; KEPT]);
        let took = turn.next(&mut kept[which], &mut self.turn_stream);
        self.until = self.until.min(self.began + took);
        took
    }
    /// How long after the host with that port has seen data its application comes to read.
    pub fn application_lag(&mut self, port: u32) -> Dur {
        self.application(port, 0)
    }
    /// How long it takes from that read to the answer that leaves by it.
    pub fn application_turn(&mut self, port: u32) -> Dur {
        self.application(port, 1)
    }
    fn application(&mut self, port: u32, which: usize) -> Dur {
        let Some(turn) = &self.applications[which] else { return Dur::ZERO };
        let (kept, stream) = (place(&mut self.kept, port, [None; KEPT]), &mut self.application_stream);
        let late = place(&mut self.late, port, (Dur::ZERO, 0.0));
        let together = self.correlation != 0.0 && self.applications.iter().all(Option::is_some);
        let took = if together {
            let own = turn.deviate(&mut kept[3 + which], stream);
            if which == 0 {
                late.1 = own;
                turn.at(own)
            } else {
                turn.at(
                    self.correlation * late.1 + libm::sqrt(1.0 - self.correlation * self.correlation) * own
                )
            }
        } else {
            turn.next(&mut kept[3 + which], stream)
        };
        if which == 0 {
            late.0 = took;
            return took;
        }
        // A turn is from where the application was called.
        took - late.0
    }
    /// When a host does what it would do at `at`.
    pub fn awake_at(&self, at: Time) -> Time {
        at.max(self.asleep)
    }
}

/// What is kept of a port, which begins as `new`.
fn place<T: Clone>(kept: &mut Vec<T>, port: u32, new: T) -> &mut T {
    let port = port as usize;
    if port >= kept.len() {
        kept.resize(port + 1, new);
    }
    &mut kept[port]
}

#[cfg(test)]
mod tests {
    use super::*;
    use Kind::{Bare, Data, DupAck};

    fn lags(text: &str) -> Lags {
        Lags::parse("receive_lag", text).unwrap().unwrap()
    }
    fn turn(text: &str) -> Turn {
        Turn::parse("receiver_turn", text).unwrap().unwrap()
    }
    fn machine(text: &str) -> Reception {
        Reception::new(
            Some(lags(text)),
            [None, None],
            Timers::parse("timer_lag", "1e-9:7us,1:7us").unwrap(),
            [Some(turn("1e-9:3us,1:3us")), Some(turn("0.25:10us,0.5:10us,0.75:50us,1:50us")), None],
            Stream::new(1, 0, Entity::Reception, 0),
        )
    }

    #[test]
    fn the_inverse_goes_through_the_quantiles_and_is_geometric_between() {
        let l = lags("0.5:1us, 0.9:100us, 1:1ms");
        for (u, ns) in
            [(0.0, 0.0), (0.25, 500.0), (0.5, 1e3), (0.7, 1e4), (0.9, 1e5), (0.95, 316_227.766), (1.0, 1e6)]
        {
            assert!((l.at(u).as_secs() * 1e9 - ns).abs() < 1e-3 * ns + 1e-3, "{u}: {}", l.at(u));
        }
    }
    /// Packets a second apart find the machine idle: their lags have the distribution that was asked for.
    #[test]
    fn what_comes_alone_is_as_late_as_drawn() {
        let mut m = machine("0.5:2us,0.99:40us,1:4ms");
        let late = |i: u64| {
            let at = Time::ZERO + Dur::millis(1000) * i;
            m.seen_at(at, true).since(at).as_secs()
        };
        let lags: Vec<f64> = (1..=100_000).map(late).collect();
        let above = |lag: f64| lags.iter().filter(|l| **l > lag).count() as i64;
        // Four standard deviations of a count.
        assert!((above(2e-6) - 50_000).abs() < 640, "{}", above(2e-6));
        assert!((above(40e-6) - 1000).abs() < 130, "{}", above(40e-6));
        assert!(above(2e-3) > 0 && above(4e-3) == 0);
    }
    /// Who falls due while it is behind is seen with the one that waits, neither earlier nor later. What comes within 15 us of that, or of what a host
    /// sends, finds it awake, and what comes later draws anew.
    #[test]
    fn what_falls_due_meanwhile_is_handed_over_with_it() {
        let mut m = machine("1e-9:100us,1:100us");
        let at = |us: u64| Time::ZERO + Dur::micros(us);
        let due = [15, 40, 114, 115, 129, 144, 250, 259, 274];
        let seen: Vec<Time> = due.iter().map(|us| m.seen_at(at(*us), true)).collect();
        assert_eq!(seen, [115, 115, 115, 115, 129, 244, 250, 259, 374].map(at));
        // What a host sends meanwhile enters with it.
        assert_eq!([340, 374, 390].map(|us| m.taken_at(at(us))), [374, 374, 390].map(at));
        assert_eq!([400, 415].map(|us| m.seen_at(at(us), true)), [400, 515].map(at));
        // It wakes for a packet at a switch as well, and is awake then.
        assert_eq!([m.comes_at(at(600)), m.seen_at(at(690), true)], [700, 700].map(at));
        assert_eq!(
            [m.seen_at(at(714), true), m.comes_at(at(728)), m.seen_at(at(742), true)],
            [714, 728, 742].map(at)
        );
        // Timers do not wait for that thread, but for a machine that stands still.
        assert_eq!(m.awake_at(at(440)), at(440));
        let mut stopped = machine("1e-9:1ms,1:1ms");
        stopped.seen_at(at(100), true);
        assert_eq!([200, 1100, 1200].map(|us| stopped.awake_at(at(us))), [1100, 1100, 1200].map(at));
        assert_eq!(m.timer_at(at(400)), at(407));
    }
    /// Never late, and at work for 10 us with data, 3 with an ACK: whatever is due while it is at work is seen at the end of that, one after the other, and
    /// what hosts send meanwhile enters then. An ACK due up to 10 us after data is seen at the same time, whenever that was.
    #[test]
    fn what_falls_due_while_another_is_handed_over_waits_for_its_end() {
        let handovers = [Some(lags("1e-9:3us,1:3us")), Some(lags("1e-9:10us,1:10us"))];
        let mut m = Reception::new(
            None,
            handovers,
            None,
            [None, None, None],
            Stream::new(1, 0, Entity::Reception, 0),
        );
        let at = |us: u64| Time::ZERO + Dur::micros(us);
        let due = [(0, true), (4, false), (12, false), (20, false), (100, true), (109, false), (113, true)];
        let seen: Vec<Time> = due.iter().map(|(us, data)| m.seen_at(at(*us), *data)).collect();
        assert_eq!(seen, [0, 10, 13, 20, 100, 110, 113].map(at));
        assert_eq!([120, 123, 130].map(|us| m.taken_at(at(us))), [123, 123, 130].map(at));
        // Timers do not wait for that thread.
        assert_eq!(m.awake_at(at(120)), at(120));
    }
    /// Handed over in 10 us and answered after 7: what is due at 8 us finds the thread free, and the answer enters when it leaves the host. A longer turn changes
    /// nothing.
    #[test]
    fn a_handover_is_over_when_what_it_released_is_read() {
        let handovers = [Some(lags("1e-9:10us,1:10us")), Some(lags("1e-9:10us,1:10us"))];
        let turns = [Some(turn("1e-9:7us,1:7us")), Some(turn("1e-9:15us,1:15us")), None];
        let mut m = Reception::new(None, handovers, None, turns, Stream::new(1, 0, Entity::Reception, 0));
        let at = |us: u64| Time::ZERO + Dur::micros(us);
        assert_eq!((m.seen_at(at(100), false), m.turn(0, Bare)), (at(100), Dur::micros(7)));
        assert_eq!((m.taken_at(at(107)), m.seen_at(at(108), false)), (at(107), at(108)));
        assert_eq!((m.seen_at(at(200), true), m.turn(0, Data)), (at(200), Dur::micros(15)));
        assert_eq!((m.taken_at(at(205)), m.seen_at(at(208), false)), (at(210), at(210)));
    }
    #[test]
    fn a_machine_without_lags_is_never_late() {
        let mut m = Reception::new(
            None,
            [None, None],
            None,
            [None, None, None],
            Stream::new(1, 0, Entity::Reception, 0),
        );
        let at = Time::ZERO + Dur::micros(5);
        assert_eq!((m.seen_at(at, true), m.awake_at(at), m.timer_at(at), m.taken_at(at)), (at, at, at, at));
        assert_eq!((m.turn(0, Data), m.turn(0, Bare)), (Dur::ZERO, Dur::ZERO));
    }
    /// Of 10,000 pauses of 2 ms a quarter is the whole machine's: four standard deviations of that count are 173.
    #[test]
    fn timers_wait_out_a_share_of_the_pauses() {
        let stream = Stream::new(5, 0, Entity::Reception, 0);
        let timers = |text: &str| Timers::parse("timer_lag", text).unwrap();
        let waited = |text: &str| {
            let pause = Some(lags("1e-9:2ms,1:2ms"));
            let mut m =
                Reception::new(pause, [None, None], timers(text), [None, None, None], stream.split(7));
            let stopped = |i: &u64| {
                let at = Time::ZERO + Dur::millis(5) * *i;
                m.seen_at(at, true);
                m.awake_at(at) > at
            };
            (1..=10_000).filter(stopped).count() as i64
        };
        assert!((waited("1e-9:7us,1:7us;0.25") - 2500).abs() < 173);
        assert_eq!((waited("1e-9:7us,1:7us"), waited("1e-9:7us,1:7us;0")), (10_000, 0));
        assert_eq!(timers("none"), None);
        // By length: a pause of 2 ms is of those from 2 ms on, then of those below 3 ms, then too short.
        assert!((waited("1e-9:7us,1:7us;1ms:0,2ms:0.25,3ms:1") - 2500).abs() < 173);
        assert!((waited("1e-9:7us,1:7us;1ms:0.25,3ms:1") - 2500).abs() < 173);
        assert_eq!(waited("1e-9:7us,1:7us;3ms:1"), 0);
        for text in [
            "1e-9:7us,1:7us;",
            "1e-9:7us,1:7us;1.1",
            "1e-9:7us,1:7us;-0.1",
            "1e-9:7us,1:7us;5us",
            "1e-9:7us,1:7us;1ms:0.1,1ms:0.2",
            "1e-9:7us,1:7us;1ms:0.1,2ms:1.2",
            "1e-9:7us,1:7us;0:0.1",
            "1e-9:7us,1:7us;1ms:0.1;2ms:0.2",
            "none;0.5",
        ] {
            let error = Timers::parse("timer_lag", text).unwrap_err().to_string();
            assert!(
                error.contains("share from 0 to 1 behind the semicolon") && error.contains("timer_lag"),
                "{error}"
            );
        }
    }
    /// A receiver that answers at once or waits for its application; a sender that always takes as long.
    #[test]
    fn each_end_takes_its_own_time() {
        let mut m = machine("1e-9:1us,1:1us");
        let took: Vec<Dur> = (0..10_000).map(|_| m.turn(0, Data)).collect();
        let slow = took.iter().filter(|t| **t > Dur::micros(49)).count() as i64;
        // Four standard deviations of a count.
        assert!((slow - 2500).abs() < 175, "{slow}");
        let fast = took.iter().filter(|t| **t <= Dur::micros(10)).count() as i64;
        assert!((fast - 5000).abs() < 200, "{fast}");
        assert!((0..100).all(|_| m.turn(0, Bare) == Dur::micros(3)));
    }
    /// What is answered with a duplicate ACK takes its own time where one is given, and what other data take where none is, from the same draws.
    #[test]
    fn what_nobody_is_woken_for_takes_its_own_time() {
        let mut m = machine("1e-9:1us,1:1us");
        let others = |kind: Kind| {
            let mut m = machine("1e-9:1us,1:1us");
            (0..100).map(|_| m.turn(0, kind)).collect::<Vec<Dur>>()
        };
        assert_eq!(others(DupAck), others(Data));
        m.turns[2] = Some(turn("1e-9:6us,1:6us"));
        assert!((0..100).all(|_| m.turn(0, DupAck) == Dur::micros(6)));
        assert!((0..100).any(|_| m.turn(0, Data) > Dur::micros(49)));
    }
    /// An application that is away for 9 ms once in a hundred times, and answers 20 us after it was called, or when it has come; neither changes what
    /// interrupts take.
    #[test]
    fn applications_are_late_for_themselves() {
        let applications = [Some(turn("0.99:16us,0.990000001:9ms,1:9ms")), Some(turn("1e-9:20us,1:20us"))];
        let mut m = Reception { applications, ..machine("1e-9:1us,1:1us") };
        let late: Vec<Dur> = (0..10_000).map(|_| m.application_lag(7)).collect();
        let away = late.iter().filter(|t| **t == Dur::millis(9)).count() as i64;
        // Four standard deviations of a count.
        assert!((away - 100).abs() < 40, "{away}");
        assert!(late.iter().all(|t| *t == Dur::millis(9) || *t <= Dur::micros(16)));
        assert!((0..100).filter(|port| *port != 7).all(|port| m.application_turn(port) == Dur::micros(20)));
        m.applications[0] = Some(turn("1e-9:12us,1:12us"));
        assert_eq!((m.application_lag(7), m.application_turn(7)), (Dur::micros(12), Dur::micros(8)));
        m.applications[0] = Some(turn("1e-9:9ms,1:9ms"));
        assert_eq!((m.application_lag(7), m.application_turn(7)), (Dur::millis(9), Dur::ZERO));
        let mut still = machine("1e-9:1us,1:1us");
        assert_eq!((still.application_lag(0), still.application_turn(0)), (Dur::ZERO, Dur::ZERO));
        let turns = |m: &mut Reception| {
            (0..1000).map(|i| m.turn(i % 7, if i % 3 > 0 { Data } else { Bare })).collect::<Vec<Dur>>()
        };
        assert_eq!(turns(&mut m), turns(&mut still));
    }
    /// Half of the applications come after 16 us, half after 48, and answer after 52 or 80: with the correlation of deviates r late ones answer soon in 1/2 - asin(r)/pi of the
    /// cases (Sheppard 1899), with none in half of them; how many come late and answer late stays what it is.
    #[test]
    fn when_who_comes_late_answers() {
        for (correlation, soon) in
            [(-0.5, 2.0 / 3.0), (0.0, 0.5), (0.8, 0.5 - 0.927_295_2 / core::f64::consts::PI)]
        {
            let applications =
                [Some(turn("0.4999:16us,0.5:48us,1:48us")), Some(turn("0.4999:52us,0.5:80us,1:80us;0.5:10"))];
            let mut m = Reception { applications, correlation, ..machine("1e-9:1us,1:1us") };
            let (mut late, mut quick, mut both) = (0.0, 0.0, 0.0);
            for _ in 0..100_000 {
                let came = m.application_lag(3);
                let answered = came + m.application_turn(3);
                let (came_late, answered_soon) = (came > Dur::micros(30), answered < Dur::micros(66));
                late += f64::from(u8::from(came_late));
                quick += f64::from(u8::from(answered_soon));
                both += f64::from(u8::from(came_late && answered_soon));
            }
            // Ten packets each: 10,000 independent ones, four standard deviations.
            assert!((late / 1e5 - 0.5).abs() < 0.02 && (quick / 1e5 - 0.5).abs() < 0.02, "{late} {quick}");
            assert!((both / late - soon).abs() < 0.03, "{correlation}: {} for {soon}", both / late);
        }
    }
    /// 10 or 50 us, half of the packets each, so the side of the median is the sign of the deviate. Two with the correlation a have signs with the correlation
    /// 2/pi asin a (Sheppard 1899); k packets later the kept part is the same with p^k, and the halves are what they were.
    #[test]
    fn a_time_that_lasts_is_kept_by_each_host() {
        let (a, packets) = (0.81, 50.0);
        let text = format!("0.1:10us,0.4999:10us,0.5:50us,1:50us;{a}:{packets}");
        let stream = Stream::new(3, 0, Entity::Reception, 0);
        let mut m = Reception::new(None, [None, None], None, [None, Some(turn(&text)), None], stream);
        let mut took = [Vec::new(), Vec::new()];
        for _ in 0..400_000 {
            for (host, took) in took.iter_mut().enumerate() {
                took.push(if m.turn(7 * host as u32, Data) > Dur::micros(30) { 1.0 } else { -1.0 });
            }
        }
        let mean = |n: usize, at: &dyn Fn(usize) -> f64| (0..n).map(at).sum::<f64>() / n as f64;
        let n = 400_000 - 40;
        for took in &took {
            // Four standard deviations: 400,000 packets are 8,000 kept times.
            assert!(mean(n, &|i| took[i]).abs() < 0.06, "{}", mean(n, &|i| took[i]));
            for k in [1, 40] {
                let found = mean(n, &|i| took[i] * took[i + k]);
                let expected = 2.0 / core::f64::consts::PI * libm::asin(a) * libm::pow(0.98, k as f64);
                assert!((found - expected).abs() < 0.03, "{k}: {found} for {expected}");
            }
        }
        let across = mean(n, &|i| took[0][i] * took[1][i]);
        assert!(across.abs() < 0.06, "{across}");
    }
    #[test]
    fn what_lasts_has_a_share_and_packets() {
        assert_eq!(Turn::parse("sender_turn", "none").unwrap(), None);
        for text in [
            "1e-9:1us,1:1us;",
            "1e-9:1us,1:1us;0.9",
            "1e-9:1us,1:1us;0:10",
            "1e-9:1us,1:1us;1.1:10",
            "1e-9:1us,1:1us;0.9:0.5",
            "1e-9:1us,1:1us;0.9:10us",
            "1e-9:1us,1:1us;0.9:10;0.9:10",
            "none;0.9:10",
        ] {
            let error = Turn::parse("sender_turn", text).unwrap_err().to_string();
            assert!(error.contains("must have a share above 0") && error.contains("sender_turn"), "{error}");
        }
        let error = Turn::parse("sender_turn", "0.5:1us;0.9:10").unwrap_err().to_string();
        assert!(error.contains("must end with the share 1"), "{error}");
    }
    #[test]
    fn what_is_no_distribution_is_refused() {
        assert_eq!(Lags::parse("receive_lag", " none ").unwrap(), None);
        for (text, rule) in [
            ("", "must be none, or SHARE:TIME"),
            ("5us", "must be none, or SHARE:TIME"),
            ("0.5:5", "must be none, or SHARE:TIME"),
            ("half:5us,1:6us", "must be none, or SHARE:TIME"),
            ("0.5:5us,0.5:6us,1:7us", "must ascend"),
            ("0:5us,1:7us", "must ascend"),
            ("0.5:5us,1:4us", "must ascend"),
            ("-0.5:5us,1:7us", "must ascend"),
            ("0.5:5us,0.9:6us", "must end with the share 1"),
            ("0.5:5us,1:6us,2:7us", "must end with the share 1"),
            ("1:1.5s", "must have times of a second"),
        ] {
            let error = Lags::parse("receive_lag", text).unwrap_err().to_string();
            assert!(error.contains(rule) && error.contains("receive_lag"), "{error}");
        }
    }
}
