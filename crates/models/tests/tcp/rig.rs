//! Rigs for reading TCP as a table: [`Hand`] is a sender whose acknowledgements are written by the test,
//! [`Ear`] a receiver whose segments are, [`Pair`] both over a channel with a script of losses.
//!
//! Segments have 1000 bytes and are numbered from 0; acknowledgement n says that segments below n are here.

use penstock_core::packet::{flag, SackBlock};
use penstock_core::rng::Entity;
use penstock_core::tcp::{Phase, Receiver, Sender, TcpConfig};
use penstock_core::{CcHeader, Ecn, Packet, Stream, WindowLaw};
use penstock_models::registry::protocol;
use penstock_units::{Dur, Time};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

pub const MSS: u64 = 1000;

pub fn ms(n: u64) -> Dur {
    Dur::millis(n)
}

/// The connection options of `name`, changed by `tweak`, and a sender with that protocol's controller.
pub fn sender(name: &str, tweak: impl Fn(&mut TcpConfig)) -> (Arc<TcpConfig>, Sender) {
    sender_with(name, tweak, |law| law)
}

/// A sender as [`sender`] makes it, whose window law is wrapped by `wrap`.
pub fn sender_with(
    name: &str,
    tweak: impl Fn(&mut TcpConfig),
    wrap: impl Fn(Box<dyn WindowLaw>) -> Box<dyn WindowLaw>,
) -> (Arc<TcpConfig>, Sender) {
    let (_, suite) = protocol("protocol", name).expect("the protocol is registered");
    let mut cfg = TcpConfig { mss: MSS as u32, ..TcpConfig::default() };
    suite.set_up(&mut cfg);
    tweak(&mut cfg);
    let cfg = Arc::new(cfg);
    let stream = |e| Stream::new(1, 0, e, 0);
    let cc = wrap((suite.endpoint)(&cfg, &|| stream(Entity::Host)));
    (cfg.clone(), Sender::new(cfg, cc, 0, 0, || stream(Entity::Sender)))
}

/// A value the controller reports.
pub fn observed(s: &Sender, key: &str) -> f64 {
    let mut found = None;
    s.observe(&mut |k, v| {
        if k.name == key {
            found = Some(v);
        }
    });
    found.unwrap_or_else(|| panic!("the controller does not report {key}"))
}

/// What a segment is called in a table: `7`, `r7` for a retransmission, `7f` with FIN on it, `fin` alone, `probe`, `syn`.
fn name(p: &Packet) -> String {
    let again = if p.has(flag::RETRANSMIT) { "r" } else { "" };
    let fin = if p.has(flag::FIN) { "f" } else { "" };
    if p.has(flag::SYN) {
        "syn".into()
    } else if p.has(flag::PROBE) {
        "probe".into()
    } else if p.payload == 0 {
        format!("{again}fin")
    } else if p.payload as u64 == MSS && p.seq.is_multiple_of(MSS) {
        format!("{again}{}{fin}", p.seq / MSS)
    } else {
        format!("{again}{}+{}{fin}", p.seq, p.payload)
    }
}

/// One line of a table: what happens, then phase, congestion window in segments and what is sent.
pub type Row<'a> = (&'a str, Phase, f64, &'a str);

/// A sender whose peer is the test.
pub struct Hand {
    pub now: Time,
    pub s: Sender,
    /// Everything sent, in order.
    pub sent: Vec<Packet>,
    window: u64,
}

impl Hand {
    /// A connection that has not been opened.
    pub fn closed(name: &str, tweak: impl Fn(&mut TcpConfig)) -> Hand {
        Hand::of(sender(name, tweak))
    }
    fn of((cfg, s): (Arc<TcpConfig>, Sender)) -> Hand {
        Hand { now: Time::ZERO, s, window: cfg.rwnd, sent: Vec::new() }
    }
    /// An open connection with a first RTT sample of 10 ms, without data.
    pub fn established(name: &str, tweak: impl Fn(&mut TcpConfig)) -> Hand {
        Hand::establish(sender(name, tweak))
    }
    /// A connection established with a sender that the test has made.
    pub fn establish(parts: (Arc<TcpConfig>, Sender)) -> Hand {
        let mut h = Hand::of(parts);
        h.s.open(h.now);
        assert_eq!(h.flush(), "syn");
        h.now = h.now + ms(10);
        h.syn_ack();
        h
    }
    /// An established connection with endless data to write, whose initial window has been sent.
    pub fn busy(name: &str, tweak: impl Fn(&mut TcpConfig)) -> Hand {
        let mut h = Hand::established(name, tweak);
        h.s.write(h.now, 1 << 40);
        h.flush();
        h
    }
    pub fn syn_ack(&mut self) {
        let stamp = self.sent.last().expect("a SYN was sent").stamp;
        let window = self.window.min(u32::MAX as u64) as u32;
        let p = Packet { flags: flag::SYN | flag::ACK, stamp, window, ..Packet::default() };
        self.s.on_packet(self.now, &p, &CcHeader::NONE);
    }
    /// Lets the sender send all it may; what that was.
    pub fn flush(&mut self) -> String {
        let mut names = Vec::new();
        let (mut p, mut header) = (Packet::default(), CcHeader::NONE);
        while self.s.poll_transmit(self.now, &mut p, &mut header) {
            names.push(name(&p));
            self.sent.push(p);
        }
        names.join(" ")
    }
    /// Goes to the next deadline and lets it pass.
    pub fn tick(&mut self) {
        let at = self.s.deadline();
        assert!(at != Time::NEVER, "no deadline is pending");
        self.now = self.now.max(at);
        self.s.on_deadline(self.now);
    }
    pub fn ssthresh(&self) -> f64 {
        observed(&self.s, "ssthresh_bytes") / MSS as f64
    }
    pub fn cwnd(&self) -> f64 {
        self.s.cwnd() as f64 / MSS as f64
    }
    /// Lets `event` happen a millisecond later than the last one: `ack 7`, `dup` (same number again), both followed by
    /// `ece`, `w5` (receive window in segments), `s 3-5 7-8` (SACK blocks); `tick`, `write 5`, `close`, `wait 30` (ms).
    pub fn event(&mut self, event: &str) -> String {
        self.now = self.now + ms(1);
        let mut words = event.split_whitespace();
        let verb = words.next().expect("an event has a verb");
        let number = |w: Option<&str>| w.and_then(|w| w.parse::<u64>().ok()).expect("a number follows");
        let ack = match verb {
            "tick" => {
                self.tick();
                return self.flush();
            }
            "write" => {
                let bytes = number(words.next()) * MSS;
                self.s.write(self.now, bytes);
                return self.flush();
            }
            "close" => {
                self.s.close();
                return self.flush();
            }
            "wait" => {
                self.now = self.now + ms(number(words.next()));
                return String::new();
            }
            "ack" => number(words.next()) * MSS,
            "dup" => self.s.view.una,
            other => panic!("unknown event {other}"),
        };
        let mut p = Packet { seq: ack, flags: flag::ACK, ..Packet::default() };
        let mut blocks = 0;
        let mut twice = false;
        for word in words {
            if word == "twice" {
                twice = true;
            } else if word == "ece" {
                p.flags |= flag::ECE;
            } else if word == "probe" {
                p.flags |= flag::PROBE;
            } else if let Some(w) = word.strip_prefix('w') {
                self.window = w.parse::<u64>().expect("w takes segments") * MSS;
            } else if let Some((a, b)) = word.split_once('-') {
                let number = |x: &str| x.parse::<u64>().expect("a block is A-B") * MSS;
                let edge = |x: &str| number(x).wrapping_sub(ack) as u32;
                assert!(twice || number(a) >= ack, "a block below the ACK must follow twice");
                if std::mem::take(&mut twice) {
                    assert_eq!(blocks, 0, "what came twice is the first block");
                    p.flags |= flag::DSACK;
                }
                p.sack[blocks] = SackBlock { start: edge(a), end: edge(b) };
                blocks += 1;
            } else {
                assert_eq!(word, "s", "unknown word in {event}");
            }
        }
        p.set_sack_count(blocks);
        p.window = self.window.min(u32::MAX as u64) as u32;
        self.s.on_packet(self.now, &p, &CcHeader::NONE);
        self.flush()
    }
    /// Plays a table and checks every line of it.
    pub fn play(&mut self, rows: &[Row<'_>]) {
        for (i, (event, phase, cwnd, sent)) in rows.iter().enumerate() {
            let got = self.event(event);
            let state = (self.s.phase(), self.cwnd(), got.as_str());
            let close = (self.cwnd() - cwnd).abs() < 2e-3;
            assert!(
                state.0 == *phase && close && state.2 == *sent,
                "line {i}, '{event}': expected ({phase:?}, {cwnd}, {sent:?}), got {state:?}"
            );
        }
    }
}

/// A receiver whose peer is the test.
pub struct Ear {
    pub now: Time,
    pub r: Receiver,
}

/// An acknowledgement in short: number, whether it echoes a mark, SACK blocks, all in segments.
pub type Heard = (u64, bool, Vec<(u64, u64)>);

impl Ear {
    pub fn new(name: &str, tweak: impl Fn(&mut TcpConfig)) -> Ear {
        let (cfg, _) = sender(name, tweak);
        Ear { now: Time::ZERO, r: Receiver::new(cfg, 0, 0) }
    }
    /// Segment `n` arrives.
    pub fn hear(&mut self, n: u64, ecn: Ecn, flags: u16) -> Vec<Packet> {
        let p =
            Packet { seq: n * MSS, payload: MSS as u32, ecn, flags, stamp: self.now.0, ..Packet::default() };
        self.r.on_packet(self.now, &p, &CcHeader::NONE);
        self.flush()
    }
    pub fn flush(&mut self) -> Vec<Packet> {
        let mut out = Vec::new();
        let (mut p, mut header) = (Packet::default(), CcHeader::NONE);
        while self.r.poll_transmit(self.now, &mut p, &mut header) {
            out.push(p);
        }
        out
    }
    pub fn tick(&mut self) -> Vec<Packet> {
        self.now = self.now.max(self.r.deadline());
        self.r.on_deadline(self.now);
        self.flush()
    }
}

pub fn heard(acks: &[Packet]) -> Vec<Heard> {
    let block = |p: &Packet, b: &SackBlock| ((p.seq + b.start as u64) / MSS, (p.seq + b.end as u64) / MSS);
    acks.iter()
        .map(|p| {
            let blocks = p.sack[..p.sack_count()].iter().map(|b| block(p, b)).collect();
            (p.seq / MSS, p.has(flag::ECE), blocks)
        })
        .collect()
}

/// What the channel does to the k-th copy (from 1) of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    Lose,
    Mark,
}

/// A sender and a receiver over a channel of fixed delay that keeps order.
pub struct Pair {
    pub now: Time,
    pub s: Sender,
    pub r: Receiver,
    pub delay: Dur,
    /// Fate of the copies of a segment, by (sequence number in segments, copy).
    pub script: BTreeMap<(u64, u32), Fate>,
    /// Numbers of the acknowledgements that are lost, in order of sending, from 0.
    pub lost_acks: Vec<u64>,
    /// Segments sent, with the time.
    pub sent: Vec<(Time, Packet)>,
    pub acks: Vec<(Time, Packet)>,
    copies: BTreeMap<u64, u32>,
    wire: VecDeque<(Time, Packet)>,
}

impl Pair {
    pub fn new(name: &str, tweak: impl Fn(&mut TcpConfig)) -> Pair {
        Pair::with(name, tweak, |law| law)
    }
    /// A pair whose window law is wrapped by `wrap`.
    pub fn with(
        name: &str,
        tweak: impl Fn(&mut TcpConfig),
        wrap: impl Fn(Box<dyn WindowLaw>) -> Box<dyn WindowLaw>,
    ) -> Pair {
        let (cfg, mut s) = sender_with(name, tweak, wrap);
        s.open(Time::ZERO);
        Pair {
            now: Time::ZERO,
            s,
            r: Receiver::new(cfg, 0, 0),
            delay: ms(5),
            script: BTreeMap::new(),
            lost_acks: Vec::new(),
            sent: Vec::new(),
            acks: Vec::new(),
            copies: BTreeMap::new(),
            wire: VecDeque::new(),
        }
    }
    /// The first copies of `segments` are lost.
    pub fn lose(mut self, segments: &[u64]) -> Pair {
        self.script.extend(segments.iter().map(|s| ((*s, 1), Fate::Lose)));
        self
    }
    fn exchange(&mut self) {
        let (mut p, mut header) = (Packet::default(), CcHeader::NONE);
        while self.s.poll_transmit(self.now, &mut p, &mut header) {
            self.sent.push((self.now, p));
            let copy = self.copies.entry(p.seq / MSS).or_default();
            *copy += u32::from(!p.has(flag::SYN));
            match self.script.get(&(p.seq / MSS, *copy)) {
                Some(Fate::Lose) => continue,
                Some(Fate::Mark) => {
                    assert_eq!(p.ecn, Ecn::Ect0, "only what is ECN-capable can be marked");
                    p.ecn = Ecn::Ce;
                }
                None => {}
            }
            self.wire.push_back((self.now + self.delay, p));
        }
        while self.r.poll_transmit(self.now, &mut p, &mut header) {
            let lost = self.lost_acks.contains(&(self.acks.len() as u64));
            self.acks.push((self.now, p));
            if !lost {
                self.wire.push_back((self.now + self.delay, p));
            }
        }
    }
    /// Runs until nothing is pending or `end` has come; true when everything is acknowledged.
    pub fn run(&mut self, end: Time) -> bool {
        loop {
            self.exchange();
            let arrival = self.wire.front().map_or(Time::NEVER, |w| w.0);
            let next = arrival.min(self.s.deadline()).min(self.r.deadline());
            if next > end || self.s.all_acked() && self.wire.is_empty() {
                return self.s.all_acked();
            }
            self.now = self.now.max(next);
            if arrival <= self.now {
                let (_, p) = self.wire.pop_front().expect("peeked");
                if p.is_forward() {
                    self.r.on_packet(self.now, &p, &CcHeader::NONE);
                } else {
                    self.s.on_packet(self.now, &p, &CcHeader::NONE);
                }
            }
            if self.s.deadline() <= self.now {
                self.s.on_deadline(self.now);
            }
            if self.r.deadline() <= self.now {
                self.r.on_deadline(self.now);
            }
        }
    }
}
