//! The network thread of the machine that all hosts share, as in a live run.
//!
//! One thread moves packets from hop to hop and delivers them to hosts. If nothing is due within 15 us, it sleeps until
//! something is, and wakes late by `receive_lag`. A thread that is awake is not late. Packets that become due at any host
//! during a pause are delivered after the packet that waited, in order, and draw nothing: a pause is one event, not one per
//! packet. The lags of all packets are therefore shorter than the drawn ones, and hosts are late together. The thread also
//! takes the packets that hosts send. A packet that leaves a host during a pause enters the network at the end of it.
//!
//! The thread is busy during a delivery (`data_handover`, `ack_handover`), as a kernel handles a packet within the call that
//! delivers it. Packets that become due meanwhile wait for its end. Where packets of two hosts always come close together,
//! the second follows the first at this distance, however late the thread was itself.
//!
//! In a pause of a millisecond or more, timers of hosts may wait as well. Besides, each host's timers go off late by
//! `timer_lag`. A host takes `receiver_turn` for a packet with payload, `dupack_turn` if the answer is a duplicate ACK, and
//! `sender_turn` for any other. A kernel takes about half as long for a duplicate ACK, as it wakes no process. These times
//! persist for some packets. An application reads late by `application_lag`, once in a while by milliseconds;
//! `application_turn` is the time from the data to the ACK that the read releases.

use super::keys::HostLatency;
use super::quantiles::TimerDelays;
use super::quantiles::STANDSTILL;
use crate::stack::Kind;
use alloc::vec::Vec;
use penstock_core::rng::Entity;
use penstock_core::Stream;
use penstock_units::{Dur, Time};

/// The thread sleeps if nothing is due within this time, and ends its sleep earlier by as much, since a wake-up takes about
/// as long. It waits for the rest awake. The thread of a live run does the same.
pub const SPIN: Dur = Dur::micros(15);

/// Deviates that a host keeps: three for packets, two for applications.
const KEPT: usize = 5;

/// The network thread that the hosts of a run share.
pub struct NetworkThread {
    keys: HostLatency,
    /// Deviates that hosts keep, by port: those of every kind of packet and of both times of applications.
    kept: Vec<[Option<f64>; KEPT]>,
    /// Lateness of a host's last read, by port, and its deviate.
    late: Vec<(Dur, f64)>,
    stream: Stream,
    timer_stream: Stream,
    turn_stream: Stream,
    handover_stream: Stream,
    application_stream: Stream,
    /// The queues of network cards are endless: the thread takes packets that leave a host.
    takes: bool,
    /// It is late, or at work, until then.
    until: Time,
    /// It has read all that hosts have sent until then.
    read: Time,
    /// When the delivery of the last packet began.
    began: Time,
    /// The whole machine, timers included, stood still until then.
    asleep: Time,
}

impl NetworkThread {
    /// The thread of a run, if there is a delay. `pull`: network cards pull packets from transports. Such a card reports a transmission later
    /// than it happened, which the present pause says nothing about, and no host of a live run has one.
    pub fn of(keys: &HostLatency, seed: u64, run: u64, pull: bool) -> Option<NetworkThread> {
        // Beyond every host's number: hosts have streams of their own for their jitter.
        let stream = Stream::new(seed, run, Entity::Reception, u64::MAX);
        keys.any().then(|| NetworkThread::with_stream(keys.clone(), stream, !pull))
    }
    fn with_stream(keys: HostLatency, stream: Stream, takes: bool) -> NetworkThread {
        NetworkThread {
            keys,
            kept: Vec::new(),
            late: Vec::new(),
            timer_stream: stream.split(1),
            turn_stream: stream.split(2),
            handover_stream: stream.split(3),
            application_stream: stream.split(4),
            stream,
            takes,
            until: Time::ZERO,
            read: Time::ZERO,
            began: Time::ZERO,
            asleep: Time::ZERO,
        }
    }
    /// Time at which the thread handles something that is due at `at`, at any hop. `at` never decreases.
    pub fn comes_at(&mut self, at: Time) -> Time {
        if at >= self.until.max(self.read) + SPIN {
            let lag = self.keys.receive_lag.as_ref().map_or(Dur::ZERO, |lags| lags.at(self.stream.uniform()));
            self.until = at + lag;
            if self.stops(lag) {
                self.asleep = self.until;
            }
        }
        self.until = self.until.max(at);
        self.until
    }
    /// Time at which a host sees a packet, with payload (`data`) or without, that is due at `at`. `at` never decreases.
    pub fn seen_at(&mut self, at: Time, data: bool) -> Time {
        let seen = self.comes_at(at);
        self.began = seen;
        let handover = if data { &self.keys.data_handover } else { &self.keys.ack_handover };
        if let Some(times) = handover {
            self.until = seen + times.at(self.handover_stream.uniform());
        }
        seen
    }
    /// Draws whether a pause of that length is the whole machine's.
    fn stops(&mut self, length: Dur) -> bool {
        let of = |timers: &TimerDelays| {
            timers.wait.iter().rfind(|wait| length >= wait.0).map_or(0.0, |wait| wait.1)
        };
        let wait = self.keys.timer_lag.as_ref().map_or(f64::from(u8::from(length >= STANDSTILL)), of);
        wait >= 1.0 || (wait > 0.0 && self.timer_stream.uniform() < wait)
    }
    /// Time at which the network takes a packet that leaves a host at `at`.
    pub fn taken_at(&mut self, at: Time) -> Time {
        if !self.takes {
            return at;
        }
        self.read = at.max(self.until);
        self.read
    }
    /// Time at which a timer goes off that is due at `at`.
    pub fn timer_at(&mut self, at: Time) -> Time {
        self.keys.timer_lag.as_ref().map_or(at, |timers| at + timers.lags.at(self.timer_stream.uniform()))
    }
    /// Time that the host with that port takes for the packet that was seen last, of that kind. It begins with the
    /// delivery, and an immediate answer ends the delivery: if both were drawn apart, a longer delivery would keep the
    /// packet's own answer waiting.
    pub fn turn(&mut self, port: u32, kind: Kind) -> Dur {
        let (which, turn) = match kind {
            Kind::Bare => (0, &self.keys.sender_turn),
            Kind::DupAck if self.keys.dupack_turn.is_some() => (2, &self.keys.dupack_turn),
            Kind::Data | Kind::DupAck => (1, &self.keys.receiver_turn),
        };
        let Some(turn) = turn else { return Dur::ZERO };
        let kept = place(&mut self.kept, port, [None; KEPT]);
        let took = turn.next(&mut kept[which], &mut self.turn_stream);
        self.until = self.until.min(self.began + took);
        took
    }
    /// Time from the data that the host with that port has seen to its application's read.
    pub fn application_lag(&mut self, port: u32) -> Dur {
        self.application(port, 0)
    }
    /// Time from that read to the answer that it releases.
    pub fn application_turn(&mut self, port: u32) -> Dur {
        self.application(port, 1)
    }
    fn application(&mut self, port: u32, which: usize) -> Dur {
        let (lag, turn) = (&self.keys.application_lag, &self.keys.application_turn);
        let correlation =
            if lag.is_some() && turn.is_some() { self.keys.application_correlation } else { 0.0 };
        let Some(turn) = (if which == 0 { lag } else { turn }) else { return Dur::ZERO };
        let (kept, stream) = (place(&mut self.kept, port, [None; KEPT]), &mut self.application_stream);
        let late = place(&mut self.late, port, (Dur::ZERO, 0.0));
        let took = if correlation != 0.0 {
            let own = turn.deviate(&mut kept[3 + which], stream);
            if which == 0 {
                late.1 = own;
                turn.at(own)
            } else {
                turn.at(correlation * late.1 + libm::sqrt(1.0 - correlation * correlation) * own)
            }
        } else {
            turn.next(&mut kept[3 + which], stream)
        };
        if which == 0 {
            late.0 = took;
            return took;
        }
        // The key counts from the data, like the lag.
        took - late.0
    }
    /// Time at which a host does what it would do at `at`.
    pub fn awake_at(&self, at: Time) -> Time {
        at.max(self.asleep)
    }
}

/// The entry of a port, which begins as `new`.
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
    use crate::latency::{DelayQuantiles, ServiceTime};
    use alloc::format;
    use alloc::string::ToString;
    use alloc::vec::Vec;
    use Kind::{Bare, Data, DupAck};

    fn lags(text: &str) -> DelayQuantiles {
        DelayQuantiles::parse("receive_lag", text).unwrap().unwrap()
    }
    fn turn(text: &str) -> ServiceTime {
        ServiceTime::parse("receiver_turn", text).unwrap().unwrap()
    }
    /// The thread with these lags, times to deliver an ACK and data, timers, and times for an ACK, data, and data that are
    /// answered with a duplicate ACK.
    fn thread(
        receive_lag: Option<DelayQuantiles>,
        [ack_handover, data_handover]: [Option<DelayQuantiles>; 2],
        timer_lag: Option<TimerDelays>,
        [sender_turn, receiver_turn, dupack_turn]: [Option<ServiceTime>; 3],
        stream: Stream,
    ) -> NetworkThread {
        let keys = HostLatency {
            receive_lag,
            data_handover,
            ack_handover,
            timer_lag,
            receiver_turn,
            dupack_turn,
            sender_turn,
            ..HostLatency::default()
        };
        NetworkThread::with_stream(keys, stream, true)
    }
    /// A machine whose applications take these times.
    fn applications(
        [application_lag, application_turn]: [Option<ServiceTime>; 2],
        application_correlation: f64,
    ) -> NetworkThread {
        let m = machine("1e-9:1us,1:1us");
        let keys =
            HostLatency { application_lag, application_turn, application_correlation, ..m.keys.clone() };
        NetworkThread { keys, ..m }
    }
    fn machine(text: &str) -> NetworkThread {
        thread(
            Some(lags(text)),
            [None, None],
            TimerDelays::parse("timer_lag", "1e-9:7us,1:7us").unwrap(),
            [Some(turn("1e-9:3us,1:3us")), Some(turn("0.25:10us,0.5:10us,0.75:50us,1:50us")), None],
            Stream::new(1, 0, Entity::Reception, 0),
        )
    }

    /// Packets a second apart find the machine idle: their lags have the given distribution.
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
        // TimerDelays do not wait for that thread, but for a machine that stands still.
        assert_eq!(m.awake_at(at(440)), at(440));
        let mut stopped = machine("1e-9:1ms,1:1ms");
        stopped.seen_at(at(100), true);
        assert_eq!([200, 1100, 1200].map(|us| stopped.awake_at(at(us))), [1100, 1100, 1200].map(at));
        assert_eq!(m.timer_at(at(400)), at(407));
    }
    /// A thread that is never late, and busy for 10 us with data and 3 us with an ACK. Packets that become due meanwhile are seen at
    /// the end, one after the other, and packets that hosts send meanwhile enter then.
    #[test]
    fn what_falls_due_while_another_is_handed_over_waits_for_its_end() {
        let handovers = [Some(lags("1e-9:3us,1:3us")), Some(lags("1e-9:10us,1:10us"))];
        let mut m =
            thread(None, handovers, None, [None, None, None], Stream::new(1, 0, Entity::Reception, 0));
        let at = |us: u64| Time::ZERO + Dur::micros(us);
        let due = [(0, true), (4, false), (12, false), (20, false), (100, true), (109, false), (113, true)];
        let seen: Vec<Time> = due.iter().map(|(us, data)| m.seen_at(at(*us), *data)).collect();
        assert_eq!(seen, [0, 10, 13, 20, 100, 110, 113].map(at));
        assert_eq!([120, 123, 130].map(|us| m.taken_at(at(us))), [123, 123, 130].map(at));
        // TimerDelays do not wait for that thread.
        assert_eq!(m.awake_at(at(120)), at(120));
    }
    /// Handed over in 10 us and answered after 7: what is due at 8 us finds the thread free, and the answer enters when it leaves the host. A longer turn changes
    /// nothing.
    #[test]
    fn a_handover_is_over_when_what_it_released_is_read() {
        let handovers = [Some(lags("1e-9:10us,1:10us")), Some(lags("1e-9:10us,1:10us"))];
        let turns = [Some(turn("1e-9:7us,1:7us")), Some(turn("1e-9:15us,1:15us")), None];
        let mut m = thread(None, handovers, None, turns, Stream::new(1, 0, Entity::Reception, 0));
        let at = |us: u64| Time::ZERO + Dur::micros(us);
        assert_eq!((m.seen_at(at(100), false), m.turn(0, Bare)), (at(100), Dur::micros(7)));
        assert_eq!((m.taken_at(at(107)), m.seen_at(at(108), false)), (at(107), at(108)));
        assert_eq!((m.seen_at(at(200), true), m.turn(0, Data)), (at(200), Dur::micros(15)));
        assert_eq!((m.taken_at(at(205)), m.seen_at(at(208), false)), (at(210), at(210)));
    }
    #[test]
    fn a_machine_without_lags_is_never_late() {
        let mut m =
            thread(None, [None, None], None, [None, None, None], Stream::new(1, 0, Entity::Reception, 0));
        let at = Time::ZERO + Dur::micros(5);
        assert_eq!((m.seen_at(at, true), m.awake_at(at), m.timer_at(at), m.taken_at(at)), (at, at, at, at));
        assert_eq!((m.turn(0, Data), m.turn(0, Bare)), (Dur::ZERO, Dur::ZERO));
    }
    /// Of 10,000 pauses of 2 ms a quarter is the whole machine's: four standard deviations of that count are 173.
    #[test]
    fn timers_wait_out_a_share_of_the_pauses() {
        let stream = Stream::new(5, 0, Entity::Reception, 0);
        let timers = |text: &str| TimerDelays::parse("timer_lag", text).unwrap();
        let waited = |text: &str| {
            let pause = Some(lags("1e-9:2ms,1:2ms"));
            let mut m = thread(pause, [None, None], timers(text), [None, None, None], stream.split(7));
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
            let error = TimerDelays::parse("timer_lag", text).unwrap_err().to_string();
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
        m.keys.dupack_turn = Some(turn("1e-9:6us,1:6us"));
        assert!((0..100).all(|_| m.turn(0, DupAck) == Dur::micros(6)));
        assert!((0..100).any(|_| m.turn(0, Data) > Dur::micros(49)));
    }
    /// An application that is away for 9 ms once in a hundred times, and answers 20 us after it was called, or when it has come; neither changes what
    /// interrupts take.
    #[test]
    fn applications_are_late_for_themselves() {
        let times = [Some(turn("0.99:16us,0.990000001:9ms,1:9ms")), Some(turn("1e-9:20us,1:20us"))];
        let mut m = applications(times, 0.0);
        let late: Vec<Dur> = (0..10_000).map(|_| m.application_lag(7)).collect();
        let away = late.iter().filter(|t| **t == Dur::millis(9)).count() as i64;
        // Four standard deviations of a count.
        assert!((away - 100).abs() < 40, "{away}");
        assert!(late.iter().all(|t| *t == Dur::millis(9) || *t <= Dur::micros(16)));
        assert!((0..100).filter(|port| *port != 7).all(|port| m.application_turn(port) == Dur::micros(20)));
        m.keys.application_lag = Some(turn("1e-9:12us,1:12us"));
        assert_eq!((m.application_lag(7), m.application_turn(7)), (Dur::micros(12), Dur::micros(8)));
        m.keys.application_lag = Some(turn("1e-9:9ms,1:9ms"));
        assert_eq!((m.application_lag(7), m.application_turn(7)), (Dur::millis(9), Dur::ZERO));
        let mut still = machine("1e-9:1us,1:1us");
        assert_eq!((still.application_lag(0), still.application_turn(0)), (Dur::ZERO, Dur::ZERO));
        let turns = |m: &mut NetworkThread| {
            (0..1000).map(|i| m.turn(i % 7, if i % 3 > 0 { Data } else { Bare })).collect::<Vec<Dur>>()
        };
        assert_eq!(turns(&mut m), turns(&mut still));
    }
    /// Half of the applications read after 16 us and half after 48, and answer after 52 or 80. With a correlation r of the deviates,
    /// late ones answer soon in 1/2 - asin(r)/pi of the cases (Sheppard 1899). The shares of late reads and answers stay the same.
    #[test]
    fn when_who_comes_late_answers() {
        for (correlation, soon) in
            [(-0.5, 2.0 / 3.0), (0.0, 0.5), (0.8, 0.5 - 0.927_295_2 / core::f64::consts::PI)]
        {
            let times =
                [Some(turn("0.4999:16us,0.5:48us,1:48us")), Some(turn("0.4999:52us,0.5:80us,1:80us;0.5:10"))];
            let mut m = applications(times, correlation);
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
        let mut m = thread(None, [None, None], None, [None, Some(turn(&text)), None], stream);
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
}
