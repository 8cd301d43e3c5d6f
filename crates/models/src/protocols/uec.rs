//! What NSCC, RCCC and EQDS have in common: packets that are sprayed, trimmed and acknowledged selectively, credits that a receiver paces.
//!
//! The Ultra Ethernet transport, by the description of the Consortium's public simulator (uet-htsim, commit 40ccb05).
//! Five rules differ from it. A host sends all its control packets before data (there, ten for one). Ports to hosts
//! mark, too, where the receiver controls. A receiver gives credit for a trimmed packet without a request, as EQDS
//! does. A trim at the last hop counts for the choice of paths like any other. A timeout counts against the path of its
//! packet (there, against path 0).
//!
//! Above 600 lines: sender, receiver and pacer of a whole transport, which share their packets.

use super::nscc::{Facts, Nscc};
use crate::paths::{Chooser, Fate, PathRule, PATHS, RULE};
use crate::registry::{LinkNeeds, Paths, Suite, Wire};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::sync::Arc;
use penstock_core::quantity::CWND;
use penstock_core::rng::Entity;
use penstock_core::tcp::Ranges;
use penstock_core::{
    Amount, Ecn, Kind, Packet, ParamError, ParamSpec, Params, Quantity, Report, Stream, Unit,
};
use penstock_fabric::{prefetch, Cell, Scheduler, Trim, PRIORITIES};
use penstock_host::ends::{self, Incoming, Outgoing, Timeout, Toward};
use penstock_host::messages::{End, MessageLaw, MessageStack, Messages, Write};
use penstock_host::{HostFacts, Io, Opening};
use penstock_units::{Bytes, Dur, Rate, Time};

static IN_FLIGHT: Quantity =
    Quantity::new("in_flight_bytes", Unit::Bytes, "bytes of a message on their way, headers included");
static CREDIT: Quantity =
    Quantity::new("credit_bytes", Unit::Bytes, "bytes that a receiver lets a sender send");

/// What is sampled: with a window, with credits, with both.
pub(super) static OF_WINDOW: &[&Quantity] = &[&CWND, &IN_FLIGHT];
pub(super) static OF_CREDIT: &[&Quantity] = &[&IN_FLIGHT, &CREDIT];
pub(super) static OF_BOTH: &[&Quantity] = &[&CWND, &IN_FLIGHT, &CREDIT];

/// Data, and what a switch serves before it: trimmed headers, ACK, NACK, PULL, RTS.
const DATA: u8 = 0;
const HEADERS: u8 = 7;
/// Links of the longest path in a fat tree.
const HOPS: u64 = 6;
/// Unit of credits (uet-htsim).
const QUANTUM: u64 = 256;
/// Accepted bytes after which a receiver acknowledges at most (uet-htsim).
const ACK_AFTER: u64 = 16_384;

/// Parameters of all of them.
pub(super) const PARAMS: &[ParamSpec] = &[
    ParamSpec::new(
        "rtt",
        Kind::Duration,
        "",
        "longest unloaded round trip of the network; unset = the scenario's smallest and six full packets and headers",
        "uet-htsim: twice the diameter's delay, six data packets and six ACKs",
    )
    .range(1e-9, 10.0),
    ParamSpec::new(
        "queue",
        Kind::Size,
        "",
        "data in a port from which it trims; unset = rate x rtt in whole packets (EQDS: eight packets)",
        "uet-htsim",
    )
    .range(1.0, 1e12),
    ParamSpec::new(
        "window",
        Kind::Size,
        "",
        "largest window and initial credit, headers included; unset = 1.5 x rate x rtt (EQDS: the larger of 50 packets and rate x rtt)",
        "uet-htsim",
    )
    .range(1.0, 1e12),
    ParamSpec::new("header", Kind::Size, "64", "headers of a packet; ACK, NACK, PULL, RTS, and what a trim leaves", "uet-htsim")
        .range(20.0, 1000.0),
    ParamSpec::new(
        "rto",
        Kind::Duration,
        "",
        "retransmission timeout of a packet that is neither acknowledged nor trimmed; unset = 15 us (EQDS: 150 us) plus the drain time of six full \
        queues",
        "uet-htsim",
    )
    .range(1e-6, 100.0),
    ParamSpec::new(
        "ack_after",
        Kind::Size,
        "",
        "bytes after which a receiver acknowledges; unset = the smaller of 16,384 and an eighth of rate x rtt, or every packet where that is \
        less than two",
        "uet-htsim; the eighth is chosen: a short pipe would stand still between ACKs",
    )
    .range(1.0, 1e9),
    ParamSpec::new("tail", Kind::Float, "0.5", "probability that the last waiting packet is trimmed in place of the arriving one", "NDP section 3.1")
        .range(0.0, 1.0),
    ParamSpec::new(
        "slow_pulls",
        Kind::Bool,
        "true",
        "without requests, a receiver gives senders credit in turn, up to a window in advance (RCCC, EQDS)",
        "uet-htsim: slow pulls",
    ),
    ParamSpec::new(
        "oversubscription",
        Kind::Float,
        "",
        "ratio of what hosts can send to what the network carries; above 1, receivers reduce credit while packets are marked or trimmed before the \
        last hop, down to 0.9 / this (RCCC); unset = by the topology, 1 = off",
        "uet-htsim: OversubscribedCC",
    )
    .range(1.0, 1e6),
    RULE,
    PATHS,
];

/// How a receiver gives credit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Credit {
    /// Bytes of a PULL.
    pub grant: u64,
    /// From one PULL to the next: the time of this at the line rate, times `stretch`; unset = of the bytes granted.
    pub spacing: Option<u64>,
    pub stretch: f64,
    /// Senders of trimmed packets go first.
    pub trimmed_first: bool,
}

impl Credit {
    /// Four packets per PULL, at 99 % of the line rate (uet-htsim).
    pub const RCCC: Credit =
        Credit { grant: 16_384, spacing: None, stretch: 1.0 / 0.99, trimmed_first: false };
}

/// What tells the protocols apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nature {
    /// NSCC's window.
    pub window: bool,
    /// Credits.
    pub credit: Option<Credit>,
    /// Marks at switches.
    pub marks: bool,
    /// Packets that a port holds, and that a sender may send unasked; 0 = by the pipe.
    pub queue: u64,
    pub first: u64,
    /// Smallest timeout.
    pub rto: Dur,
    /// Its path rule, where there is no choice.
    pub paths: Option<fn(u32) -> PathRule>,
}

impl Default for Nature {
    fn default() -> Nature {
        Nature {
            window: false,
            credit: None,
            marks: true,
            queue: 0,
            first: 0,
            rto: Dur::micros(15),
            paths: None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    nature: Nature,
    rtt: Option<Dur>,
    queue: Option<u64>,
    window: Option<u64>,
    rto: Option<Dur>,
    ack_after: Option<u64>,
    header: u32,
    slow_pulls: bool,
    oversubscription: Option<f64>,
    paths: PathRule,
}

impl Settings {
    /// The longest unloaded round trip, for packets of `wire` bytes.
    fn rtt(&self, base: Dur, rate: Rate, wire: u32) -> Dur {
        let stored = Bytes(HOPS * u64::from(wire + self.header)) / rate;
        self.rtt.unwrap_or(base + stored)
    }
    /// Whole packets that `share` of a pipe takes, in bytes.
    fn packets(rtt: Dur, rate: Rate, wire: u32, share: f64) -> u64 {
        let pipe = (rate * rtt).0 as f64 * share / f64::from(wire);
        libm::ceil(pipe) as u64 * u64::from(wire)
    }
    fn queue(&self, rtt: Dur, rate: Rate, wire: u32) -> u64 {
        let of_pipe = match self.nature.queue {
            0 => Settings::packets(rtt, rate, wire, 1.0),
            n => n * u64::from(wire),
        };
        self.queue.unwrap_or(of_pipe)
    }
}

/// A protocol of this family.
pub(super) fn build(p: &Params, nature: &Nature) -> Result<Suite, ParamError> {
    let settings = Settings {
        nature: *nature,
        rtt: p.is_set("rtt").then(|| p.dur("rtt")),
        queue: p.is_set("queue").then(|| p.bytes("queue").0),
        window: p.is_set("window").then(|| p.bytes("window").0),
        rto: p.is_set("rto").then(|| p.dur("rto")),
        ack_after: p.is_set("ack_after").then(|| p.bytes("ack_after").0),
        header: p.bytes("header").0 as u32,
        slow_pulls: nature.credit.is_some() && p.flag("slow_pulls"),
        oversubscription: p.is_set("oversubscription").then(|| p.float("oversubscription")),
        paths: match nature.paths {
            Some(rule) if !p.is_set(RULE.name) => {
                let paths = p.count(PATHS.name) as u32;
                if !paths.is_power_of_two() {
                    return Err(p.error(PATHS.name, "must be a power of two where values take turns"));
                }
                rule(paths)
            }
            _ => PathRule::parse(p)?,
        },
    };
    let tail = p.float("tail");
    Ok(Suite::own(
        Arc::new(move |facts| Box::new(MessageStack(Uec::new(facts, settings)))),
        Wire { header: settings.header, ack: settings.header },
        Some(Arc::new(move |facts| {
            let (wire, rate) = (facts.packet, facts.capacity);
            let rtt = settings.rtt(facts.base_rtt, rate, wire);
            let queue = settings.queue(rtt, rate, wire);
            let mut classes = [None; PRIORITIES];
            classes[usize::from(DATA)] = Some(Amount::Bytes(queue));
            classes[usize::from(HEADERS)] = Some(Amount::Bytes(2 * queue));
            // Marks on a line between 0.2 and 0.8 of the pipe, by what a packet leaves behind (uet-htsim).
            let at = |share| Settings::packets(rtt, rate, wire, share);
            let ramp = format!("ramp:kmin={}B,kmax={}B,pmax=1,at=dequeue", at(0.2), at(0.8));
            LinkNeeds {
                data: 1 << DATA,
                scheduler: Scheduler::Strict,
                limit: Some(Amount::Bytes(3 * queue)),
                classes,
                trim: Some(Trim { bytes: settings.header, priority: HEADERS, tail }),
                queue: settings.nature.marks.then_some((DATA, ramp)),
                paths: Paths::BySender,
                ..LinkNeeds::default()
            }
        })),
    ))
}

/// What a packet is: word 0.
///
/// Data: word 1 [`ASKS`], 2 payload as sent, 3 its number, 4 its path, 5 credit wanted in all. ACK: `seq` all numbers below have arrived,
/// word 1 [`CE`], 2 first number of the map, 3 and 4 the map, 5 path; `window` bytes accepted in all. NACK: word 3 number, 4 path. PULL: word 1
/// credit given in all. RTS: word 5 as data.
mod kind {
    pub const DATA: u32 = 0;
    pub const ACK: u32 = 1;
    pub const NACK: u32 = 2;
    pub const PULL: u32 = 3;
    pub const RTS: u32 = 4;
}
/// The sender wants an ACK at once (AR).
const ASKS: u32 = 1;
/// The packet was marked.
const CE: u32 = 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Sent,
    /// Trimmed or feared to be lost: it waits to be sent again.
    Lost,
    Acked,
}

/// A packet that is not acknowledged, or some before it are not.
#[derive(Clone, Copy, Debug)]
struct Sent {
    seq: u64,
    at: Time,
    payload: u32,
    /// There are 65,536 of them at most.
    path: u16,
    state: State,
}

const _: () = assert!(core::mem::size_of::<Sent>() == 24, "an ACK touches several, in few cache lines");

struct Sending {
    out: Outgoing,
    nxt: u64,
    /// Number of the first of `sent`, which has all from there on.
    first: u64,
    sent: VecDeque<Sent>,
    again: VecDeque<u64>,
    /// Copies by the time they left; the first of them is not answered yet.
    clock: VecDeque<(Time, u64)>,
    /// Bytes on the wire that are not known to have arrived, or to have not.
    in_flight: i64,
    /// Bytes accepted by the receiver, as it says.
    accepted: u32,
    window: Option<Nscc>,
    /// Credit in bytes, the total given in quanta, and whether it is initial credit that no PULL gave.
    credit: i64,
    pulled: u32,
    unasked: bool,
    in_line: bool,
    /// When a sender that waits for credit asks for it.
    help_at: Time,
    helped: u32,
    paths: Chooser,
    rng: Stream,
}

struct Receiving {
    incoming: Incoming,
    /// Numbers that have arrived: all below `next`, and these.
    next: u64,
    beyond: Ranges,
    /// Bytes accepted, and since the last ACK.
    accepted: u64,
    since: u64,
    begun: bool,
    /// A sender requested an ACK while packets were missing.
    asked: bool,
    /// Credit in quanta: given in all, wanted in all, and for packets that arrived trimmed.
    given: u32,
    wanted: u32,
    extra: u32,
    in_line: bool,
    /// It is in the list `idle` of ends that get unrequested credit.
    idle: bool,
}

penstock_host::ends!(Sending { out }, Receiving { incoming });

/// The transport at one host.
struct Uec {
    m: Messages<Sending, Receiving>,
    s: Settings,
    rtt: Dur,
    rto: Dur,
    /// Bytes of credit at the beginning.
    first: i64,
    /// Accepted bytes after which a receiver acknowledges.
    ack_after: u64,
    /// Receiving ends that want credit, in turn, and no PULL before this time.
    pull_line: VecDeque<u32>,
    /// Receiving ends whose packets arrived trimmed, if these go first.
    urgent: VecDeque<u32>,
    /// Receiving ends that want no credit and get some while no end wants any; and how many quanta in advance.
    idle: VecDeque<u32>,
    ahead: u32,
    pull_at: Time,
    /// Slows credits where the network is oversubscribed.
    slower: Option<Oversubscribed>,
    /// Senders that have something to send, whether they may or not.
    active: u32,
}

/// RCCC's control of the rate of credits in an oversubscribed network, for all senders of a host together (uet-htsim,
/// `OversubscribedCC`; read, not copied). An interval is 1.5 round trips, plus or minus a quarter. The share of the
/// line rate falls by the share of packets trimmed before their last hop, and by half of the excess of the mean share
/// of marks over 0.3. Without either it grows by a hundredth, doubled for every consecutive interval without a mark.
struct Oversubscribed {
    share: f64,
    least: f64,
    /// Mean share of marked packets.
    marks: f64,
    in_a_row: u32,
    /// Packets of this interval: all, marked, trimmed at the last hop, trimmed before.
    packets: [u32; 4],
    ends_at: Time,
    rtt: Dur,
    rng: Stream,
}

impl Oversubscribed {
    fn new(facts: &HostFacts, rtt: Dur, ratio: f64) -> Oversubscribed {
        let rng = Stream::new(facts.seed, facts.run, Entity::Host, u64::from(facts.host)).split(1);
        let mut new = Oversubscribed {
            share: 1.0,
            least: (0.9 / ratio).max(0.01),
            marks: 0.0,
            in_a_row: 0,
            packets: [0; 4],
            ends_at: Time::ZERO,
            rtt,
            rng,
        };
        new.ends_at = Time::ZERO + new.interval();
        new
    }
    fn interval(&mut self) -> Dur {
        Dur::from_secs((0.75 + self.rng.uniform() / 2.0) * 1.5 * self.rtt.as_secs())
    }
    /// A packet with data, or what is left of one.
    fn arrived(&mut self, now: Time, cell: &Cell) {
        self.advance(now);
        self.packets[0] += 1;
        if !cell.is_trimmed() {
            self.packets[1] += u32::from(cell.ecn() == Ecn::Ce);
        } else if cell.is_trimmed_at_last_hop() {
            self.packets[2] += 1;
        } else {
            self.packets[3] += 1;
        }
    }
    /// The share of the line rate at which credits are given.
    fn share(&mut self, now: Time) -> f64 {
        self.advance(now);
        self.share
    }
    /// Ends the intervals that are over. After a long silence only the last intervals matter, because the share is 1 again by then.
    fn advance(&mut self, now: Time) {
        const INTERVALS: u64 = 200;
        let longest = self.rtt * 2 * INTERVALS;
        if self.ends_at + longest < now {
            (self.share, self.marks, self.in_a_row, self.packets) = (1.0, 0.0, 0, [0; 4]);
            self.ends_at = now + self.interval();
        }
        while self.ends_at <= now {
            self.end_interval();
            self.ends_at = self.ends_at + self.interval();
        }
    }
    fn end_interval(&mut self) {
        const TARGET: f64 = 0.3;
        const INCREASE: f64 = 0.01;
        let [all, marked, last, before] = core::mem::take(&mut self.packets).map(f64::from);
        let whole = all - last - before;
        let mut falls = before > 0.0;
        if falls {
            self.share -= before / all;
        }
        self.marks = (self.marks + if whole > 0.0 { marked / whole } else { 0.0 }) / 2.0;
        if self.marks > TARGET {
            self.share *= 1.0 - (self.marks - TARGET) / 2.0;
            falls = true;
        }
        if falls {
            self.in_a_row = 0;
        } else {
            let times = if marked == 0.0 { f64::from(1u32 << self.in_a_row.min(10)) } else { 1.0 };
            self.share += INCREASE * times;
            self.in_a_row += 1;
        }
        self.share = self.share.clamp(self.least, 1.0);
    }
}

impl Sending {
    fn wire(&self, payload: u32, header: u32) -> i64 {
        i64::from(payload + header)
    }
    /// The number of the next packet to be sent again; those that have arrived meanwhile are forgotten.
    fn next_again(&mut self) -> Option<u64> {
        while let Some(number) = self.again.front().copied() {
            if number >= self.first && self.sent[(number - self.first) as usize].state == State::Lost {
                return Some(number);
            }
            self.again.pop_front();
        }
        None
    }
    fn next_payload(&mut self, mss: u32) -> Option<u32> {
        match self.next_again() {
            Some(number) => Some(self.sent[(number - self.first) as usize].payload),
            None => (self.nxt < self.out.written)
                .then(|| (self.out.written - self.nxt).min(u64::from(mss)) as u32),
        }
    }
    fn may_send(&mut self, s: &Settings, mss: u32) -> bool {
        let Some(payload) = self.next_payload(mss) else { return false };
        let fits = |w: &Nscc| w.cwnd >= (self.in_flight + self.wire(payload, s.header)) as f64;
        self.window.as_ref().is_none_or(fits) && (s.nature.credit.is_none() || self.credit > 0)
    }
    fn una(&self) -> u64 {
        self.sent.front().map_or(self.nxt, |sent| sent.seq)
    }
    /// Credit it would like to have been given in all, in quanta: for what it has not sent once, at most a window.
    fn target(&self, s: &Settings, mss: u32, most: i64, active: u32) -> u32 {
        // More than `most` counts as that much.
        let bytes = (self.out.written - self.nxt).min(most.max(0) as u64);
        let backlog = (bytes + bytes.div_ceil(u64::from(mss)) * u64::from(s.header)).min(most as u64) as i64;
        let lacking = (backlog - self.credit).max(0) as u64 / u64::from(active.max(1));
        self.pulled + lacking.div_ceil(QUANTUM) as u32
    }
    /// The receiver has spoken: what was left of the unasked credit is gone.
    fn heard(&mut self) {
        if self.unasked {
            self.unasked = false;
            self.credit = self.credit.min(0);
        }
        (self.help_at, self.helped) = (Time::NEVER, 0);
    }
    /// Packet `number` has arrived.
    fn arrived(&mut self, number: u64, header: u32) {
        let Some(sent) = number.checked_sub(self.first).and_then(|i| self.sent.get_mut(i as usize)) else {
            return;
        };
        if sent.state == State::Lost {
            // It was taken out of the flight too early.
            self.in_flight += i64::from(sent.payload + header);
        }
        sent.state = State::Acked;
    }
}

impl Uec {
    fn new(facts: &HostFacts, s: Settings) -> Uec {
        let wire = facts.mss + s.header;
        let rtt = s.rtt(facts.base_rtt, facts.rate, wire);
        let drained = Bytes(HOPS * s.queue(rtt, facts.rate, wire)) / facts.rate;
        let pipe = (facts.rate * rtt).0 * 3 / 2;
        let ratio = s.oversubscription.unwrap_or(facts.oversubscription);
        // Where senders have windows these see to it, and EQDS has no such rule.
        let alone = s.nature.credit.is_some() && s.nature.marks && !s.nature.window;
        let first = match s.nature.first {
            0 => pipe,
            n => (n * u64::from(wire)).max(pipe * 2 / 3),
        };
        Uec {
            m: Messages::new(facts),
            rtt,
            rto: s.rto.unwrap_or_else(|| s.nature.rto + drained),
            first: s.window.unwrap_or(first) as i64,
            ack_after: s.ack_after.unwrap_or_else(|| {
                // The window may be 1.5 times the shortest round trip seen. Where that is a few packets, an ACK of every
                // second one comes too late for it.
                let eighth = pipe / 12;
                if eighth < 2 * u64::from(wire) {
                    1
                } else {
                    ACK_AFTER.min(eighth)
                }
            }),
            pull_line: VecDeque::new(),
            urgent: VecDeque::new(),
            idle: VecDeque::new(),
            ahead: if s.slow_pulls { (s.window.unwrap_or(first) / QUANTUM) as u32 } else { 0 },
            pull_at: Time::ZERO,
            slower: (alone && ratio > 1.0).then(|| Oversubscribed::new(facts, rtt, ratio)),
            active: 0,
            s,
        }
    }
    /// A header of `kind`.
    fn header(io: &mut Io<'_>, o: &Opening, toward: Toward, path: u32, bytes: u32, kind: u32) -> Cell {
        let cell = ends::header(io, o, toward, path, bytes, HEADERS);
        io.arena.packets[cell.packet as usize].set_word(0, kind);
        cell
    }
    /// The next packet of a sender, what is to be sent again first.
    fn send_of(&mut self, io: &mut Io<'_>, conn: u32) -> Option<Cell> {
        let (mss, header, most, active) = (self.m.facts.mss, self.s.header, self.first, self.active);
        let s = self.m.ends.sender(conn)?;
        s.in_line = false;
        if !s.may_send(&self.s, mss) {
            return None;
        }
        let path = s.paths.next(&mut s.rng);
        let again = s.next_again();
        // What is put there is not read back: it may not be in cache yet.
        let (number, sent) = match again {
            Some(number) => {
                s.again.pop_front();
                let sent = &mut s.sent[(number - s.first) as usize];
                (sent.at, sent.path, sent.state) = (io.now, path as u16, State::Sent);
                (number, *sent)
            }
            None => {
                let payload = (s.out.written - s.nxt).min(u64::from(mss)) as u32;
                let sent = Sent { seq: s.nxt, at: io.now, payload, path: path as u16, state: State::Sent };
                s.sent.push_back(sent);
                s.nxt += u64::from(payload);
                if s.nxt == s.out.written {
                    self.active -= 1;
                }
                (s.first + s.sent.len() as u64 - 1, sent)
            }
        };
        s.clock.push_back((io.now, number));
        let wire = sent.payload + header;
        s.in_flight += i64::from(wire);
        s.credit -= i64::from(wire);
        let repeated = s.out.count_sent(sent.seq + u64::from(sent.payload));
        // An ACK is asked for where the sender can send nothing more, and for every repetition.
        let asks = again.is_some() || !s.may_send(&self.s, mss);
        let target = s.target(&self.s, mss, most, active);
        let mut cell = s.out.data(io, (sent.seq, sent.seq + u64::from(sent.payload)), wire, repeated);
        cell.entropy = cell.entropy.wrapping_add(path);
        let packet = &mut io.arena.packets[cell.packet as usize];
        for (i, word) in
            [kind::DATA, u32::from(asks), sent.payload, number as u32, path, target].into_iter().enumerate()
        {
            packet.set_word(i, word);
        }
        self.settle(io.now, conn);
        Some(cell.with_priority(DATA).with_ecn(Ecn::Ect0))
    }
    /// A receiving end may want credit now, or get some unasked; `first`: before those whose packets were not trimmed.
    fn ask(&mut self, now: Time, conn: u32, first: bool) {
        if self.s.nature.credit.is_none() {
            return;
        }
        let nobody = self.pull_line.is_empty() && self.urgent.is_empty() && self.idle.is_empty();
        let Some(r) = self.m.ends.receiver(conn) else { return };
        if !r.wants() {
            if !r.idle && r.ahead() < self.ahead {
                r.idle = true;
                self.idle.push_back(conn);
                if nobody {
                    self.pull_at = self.pull_at.max(now);
                }
            }
            return;
        }
        if r.in_line && !first {
            return;
        }
        let waits = core::mem::replace(&mut r.in_line, true);
        if nobody {
            self.pull_at = self.pull_at.max(now);
        }
        if !first {
            self.pull_line.push_back(conn);
        } else if !self.urgent.contains(&conn) {
            if waits {
                self.pull_line.retain(|c| *c != conn);
            }
            self.urgent.push_back(conn);
        }
    }
    /// Asks for credit.
    fn send_rts(&mut self, io: &mut Io<'_>, conn: u32) {
        let (mss, header, most, active) = (self.m.facts.mss, self.s.header, self.first, self.active);
        let Some(s) = self.m.ends.sender(conn) else { return };
        // What has to be sent again counts here: its receiver may know nothing of it.
        let again: u64 = s.again.len() as u64 * u64::from(mss + header);
        let target = s.target(&self.s, mss, most, active) + again.div_ceil(QUANTUM) as u32;
        let (o, turn) = (s.out.opening, s.out.turn());
        let cell = Uec::header(io, &o, Toward::Receiver, turn, header, kind::RTS);
        io.arena.packets[cell.packet as usize].set_word(5, target);
        self.m.control.push_back(cell);
    }
}

impl Receiving {
    fn wants(&self) -> bool {
        self.wanted > self.given || self.extra > 0
    }
    /// Quanta given beyond what was wanted.
    fn ahead(&self) -> u32 {
        self.given.saturating_sub(self.wanted)
    }
}

impl MessageLaw for Uec {
    type Sender = Sending;
    type Receiver = Receiving;

    fn messages(&self) -> &Messages<Sending, Receiving> {
        &self.m
    }
    fn messages_mut(&mut self) -> &mut Messages<Sending, Receiving> {
        &mut self.m
    }
    fn priorities(&self) -> (u8, u8) {
        (1 << HEADERS, 1 << DATA)
    }

    fn sender(&mut self, now: Time, opening: &Opening) -> Sending {
        let mut rng = self.m.facts.stream(opening);
        let facts = Facts {
            rate: self.m.facts.rate,
            rtt: self.rtt,
            packet: self.m.facts.mss + self.s.header,
            mss: self.m.facts.mss,
        };
        Sending {
            out: Outgoing::new(opening),
            nxt: 0,
            first: 0,
            sent: VecDeque::new(),
            again: VecDeque::new(),
            clock: VecDeque::new(),
            in_flight: 0,
            accepted: 0,
            window: self.s.nature.window.then(|| Nscc::new(facts, now)),
            credit: 0,
            pulled: 0,
            unasked: false,
            in_line: false,
            help_at: Time::NEVER,
            helped: 0,
            paths: Chooser::new(self.s.paths, &mut rng),
            rng,
        }
    }
    fn receiver(&mut self, opening: &Opening) -> Receiving {
        Receiving {
            incoming: Incoming::new(opening),
            next: 0,
            beyond: Ranges::default(),
            accepted: 0,
            since: 0,
            begun: false,
            asked: false,
            given: 0,
            wanted: 0,
            extra: 0,
            in_line: false,
            idle: false,
        }
    }
    fn on_write(&mut self, _: &mut Io<'_>, conn: u32, write: Write) {
        let Some(s) = self.m.ends.sender(conn) else { return };
        // A transfer on an idle connection begins with unrequested credit.
        if write.idle {
            s.credit = s.credit.max(self.first);
            s.unasked = true;
        }
        self.active += u32::from(s.nxt == write.from && write.bytes > 0);
    }
    fn on_abort(&mut self, _: &mut Io<'_>, conn: u32, written: u64) {
        let Some(s) = self.m.ends.sender(conn) else { return };
        self.active -= u32::from(s.nxt < written && s.nxt == s.out.written);
    }
    fn on_remove(&mut self, conn: u32, end: End<Sending, Receiving>) {
        if let End::Sender(s) = end {
            self.active -= u32::from(s.nxt < s.out.written);
        }
        self.pull_line.retain(|c| *c != conn);
        self.urgent.retain(|c| *c != conn);
        self.idle.retain(|c| *c != conn);
    }
    fn settle(&mut self, now: Time, conn: u32) {
        let Some(s) = self.m.ends.sender(conn) else { return };
        if !s.in_line && s.may_send(&self.s, self.m.facts.mss) {
            s.in_line = true;
            self.m.line.push_back(conn);
        }
        // Copies that were answered need no clock.
        while let Some((at, number)) = s.clock.front().copied() {
            let waits = number.checked_sub(s.first).and_then(|i| s.sent.get(i as usize));
            if waits.is_some_and(|sent| sent.state == State::Sent && sent.at == at) {
                break;
            }
            s.clock.pop_front();
        }
        // A sender without credit or anything under way asks for some, later every time.
        let lacks = self.s.nature.credit.is_some() && s.credit <= 0;
        if !lacks || !s.clock.is_empty() || s.next_payload(self.m.facts.mss).is_none() {
            s.help_at = Time::NEVER;
        } else if s.help_at == Time::NEVER {
            s.help_at = now + self.rto * (1 << s.helped.min(6));
        }
        let timeout = s.clock.front().map_or(Time::NEVER, |(at, _)| *at + self.rto);
        self.m.timers.set(conn, timeout.min(s.help_at));
    }

    fn on_data(&mut self, io: &mut Io<'_>, conn: u32, packet: &Packet, cell: &Cell) {
        let Some(r) = self.m.ends.receiver(conn) else { return };
        let o = r.incoming.opening;
        r.wanted = r.wanted.max(packet.word(5));
        if packet.word(0) == kind::RTS {
            // It has no credit left. PULLs may have been lost, and one with a higher number includes them.
            r.extra = r.extra.max(1);
            return self.ask(io.now, conn, false);
        }
        if let Some(slower) = &mut self.slower {
            slower.arrived(io.now, cell);
        }
        let (payload, low, path) = (packet.word(2), packet.word(3), packet.word(4));
        // Numbers are 32 bits on the wire; the one meant is the one nearest to what is expected.
        let number = r.next.wrapping_add_signed(i64::from(low.wrapping_sub(r.next as u32) as i32));
        let wire = u64::from(payload + self.s.header);
        if cell.is_trimmed() {
            r.extra += wire.div_ceil(QUANTUM) as u32;
            let cell = Uec::header(io, &o, Toward::Sender, path, self.s.header, kind::NACK);
            let nack = &mut io.arena.packets[cell.packet as usize];
            nack.stamp = packet.stamp;
            nack.set_word(3, low);
            nack.set_word(4, path);
            self.m.control.push_back(cell);
            let first = self.s.nature.credit.is_some_and(|c| c.trimmed_first);
            return self.ask(io.now, conn, first);
        }
        let new = number >= r.next && r.beyond.insert(number, number + 1) > 0;
        r.incoming.take(packet, u64::from(payload), io.stack_events);
        if new {
            r.next = r.beyond.first_gap(r.next);
            r.beyond.remove_below(r.next);
            r.accepted += wire;
            r.since += wire;
        }
        let (asks, marked) = (packet.word(1) & ASKS != 0, cell.ecn() == Ecn::Ce);
        r.asked |= asks;
        let closed = r.asked && r.beyond.is_empty();
        if !r.begun || asks || marked || !new || r.since >= self.ack_after || closed {
            r.begun = true;
            r.since = 0;
            r.asked &= !closed;
            // The map ends with this packet, or begins with it where it is told of at once (uet-htsim).
            let base =
                if asks || marked { number.max(r.next) } else { number.saturating_sub(63).max(r.next) };
            let mut map = 0u64;
            for (from, to) in r.beyond.iter() {
                let (from, to) = (from.max(base), to.min(base + 64));
                if from < to {
                    map |= u64::MAX >> (64 - (to - from)) << (from - base);
                }
            }
            let (next, accepted) = (r.next, r.accepted);
            let cell = Uec::header(io, &o, Toward::Sender, path, self.s.header, kind::ACK);
            let ack = &mut io.arena.packets[cell.packet as usize];
            (ack.seq, ack.stamp, ack.window) = (next, packet.stamp, accepted as u32);
            let words = [
                kind::ACK,
                if marked { CE } else { 0 },
                (base - next) as u32,
                map as u32,
                (map >> 32) as u32,
                path,
            ];
            words.into_iter().enumerate().for_each(|(i, word)| ack.set_word(i, word));
            self.m.control.push_back(cell);
        }
        self.ask(io.now, conn, false);
    }
    fn on_answer(&mut self, io: &mut Io<'_>, conn: u32, packet: &Packet, _: &Cell) {
        let header = self.s.header;
        let Some(s) = self.m.ends.sender(conn) else { return };
        s.heard();
        let rtt = io.now - packet.sent_at();
        match packet.word(0) {
            kind::PULL => {
                let more = packet.word(1).wrapping_sub(s.pulled);
                if (more as i32) > 0 {
                    s.pulled = packet.word(1);
                    s.credit += i64::from(more) * QUANTUM as i64;
                }
            }
            kind::ACK => {
                let marked = packet.word(1) & CE != 0;
                let (next, base) = (packet.seq, packet.seq + u64::from(packet.word(2)));
                (s.first..next).for_each(|n| s.arrived(n, header));
                let mut map = u64::from(packet.word(3)) | u64::from(packet.word(4)) << 32;
                while map != 0 {
                    s.arrived(base + u64::from(map.trailing_zeros()), header);
                    map &= map - 1;
                }
                while s.sent.front().is_some_and(|sent| sent.state == State::Acked) && s.first < next {
                    s.sent.pop_front();
                    s.first += 1;
                }
                let more = packet.window.wrapping_sub(s.accepted);
                let acked = if (more as i32) > 0 { more } else { 0 };
                s.accepted = s.accepted.wrapping_add(acked);
                s.in_flight -= i64::from(acked);
                s.paths.told(io.now, packet.word(5), if marked { Fate::Marked } else { Fate::Good });
                s.out.counters.ece_acks += u64::from(marked);
                if let Some(w) = &mut s.window {
                    w.on_ack(io.now, rtt, marked, f64::from(acked), s.in_flight as f64);
                }
                let una = s.una();
                s.out.acked(una, io.stack_events);
            }
            _ => {
                s.paths.told(io.now, packet.word(4), Fate::Trimmed);
                let number = s
                    .first
                    .wrapping_add_signed(i64::from(packet.word(3).wrapping_sub(s.first as u32) as i32));
                let found = number.checked_sub(s.first).and_then(|i| s.sent.get_mut(i as usize));
                // Only the latest copy counts.
                let latest = found.filter(|sent| sent.state == State::Sent && sent.at.0 == packet.stamp);
                if let Some(sent) = latest {
                    sent.state = State::Lost;
                    let wire = i64::from(sent.payload + header);
                    s.in_flight -= wire;
                    s.again.push_back(number);
                    s.out.counters.fast_retransmits += 1;
                    if let Some(w) = &mut s.window {
                        w.on_trim(io.now, rtt, wire as f64, s.in_flight as f64);
                    }
                }
            }
        }
        self.settle(io.now, conn);
    }
    fn send(&mut self, io: &mut Io<'_>) -> Option<Cell> {
        loop {
            let conn = self.m.next_in_line()?;
            if let Some(cell) = self.send_of(io, conn) {
                return Some(cell);
            }
        }
    }
    /// Sends a PULL when it is due: to an end that wants credit, otherwise to the next one of `idle`.
    fn send_paced(&mut self, io: &mut Io<'_>) -> Option<Cell> {
        let rule = self.s.nature.credit?;
        while self.pull_at <= io.now {
            let wanting = self.urgent.pop_front().or_else(|| self.pull_line.pop_front());
            let conn = wanting.or_else(|| self.idle.pop_front())?;
            let Some(r) = self.m.ends.receiver(conn) else { continue };
            let quanta = (rule.grant / QUANTUM) as u32;
            if wanting.is_none() {
                // It may want some by now, or have wanted and got it, since it was put there.
                r.idle = false;
                if r.wants() || r.ahead() >= self.ahead {
                    continue;
                }
            }
            r.given += quanta;
            r.extra = r.extra.saturating_sub(quanta);
            r.in_line = r.wants();
            if !r.in_line && !r.idle && r.ahead() < self.ahead {
                r.idle = true;
                self.idle.push_back(conn);
            }
            if r.in_line && r.extra > 0 && rule.trimmed_first {
                self.urgent.push_back(conn);
            } else if r.in_line {
                self.pull_line.push_back(conn);
            }
            let (given, o, turn) = (r.given, r.incoming.opening, r.incoming.turn());
            let cell = Uec::header(io, &o, Toward::Sender, turn, self.s.header, kind::PULL);
            io.arena.packets[cell.packet as usize].set_word(1, given);
            let bytes = rule.spacing.unwrap_or(rule.grant);
            let share = self.slower.as_mut().map_or(1.0, |slower| slower.share(io.now));
            let gap = Dur::from_secs((Bytes(bytes) / self.m.facts.rate).as_secs() * rule.stretch / share);
            // It may have had to wait for a packet in service; the pace is kept.
            self.pull_at = (self.pull_at + gap).max(io.now);
            return Some(cell);
        }
        None
    }
    fn paced_at(&self) -> Time {
        if self.pull_line.is_empty() && self.urgent.is_empty() && self.idle.is_empty() {
            Time::NEVER
        } else {
            self.pull_at
        }
    }
    fn on_timer(&mut self, io: &mut Io<'_>, conn: u32) {
        let (rto, header) = (self.rto, self.s.header);
        let Some(s) = self.m.ends.sender(conn) else { return };
        // A packet of which nothing was heard, not even that it was trimmed.
        while let Some((at, number)) = s.clock.front().copied().filter(|(at, _)| *at + rto <= io.now) {
            s.clock.pop_front();
            let found = number.checked_sub(s.first).and_then(|i| s.sent.get_mut(i as usize));
            let Some(sent) = found.filter(|sent| sent.state == State::Sent && sent.at == at) else {
                continue;
            };
            sent.state = State::Lost;
            let (path, seq, wire) = (u32::from(sent.path), sent.seq, i64::from(sent.payload + header));
            s.in_flight -= wire;
            s.again.push_back(number);
            s.paths.told(io.now, path, Fate::Lost);
            if let Some(w) = &mut s.window {
                w.on_timeout(wire as f64);
            }
            let una = s.una();
            let flight = s.nxt - una;
            let cwnd = s.window.as_ref().map_or(flight, |w| w.cwnd as u64);
            let timeout = Timeout { from: una, lost: seq, outstanding: flight, cwnd, rto, in_a_row: 1 };
            s.out.timed_out(&timeout, io.stack_events);
        }
        if s.help_at <= io.now {
            s.help_at = Time::NEVER;
            s.helped += 1;
            self.send_rts(io, conn);
        }
        self.settle(io.now, conn);
    }
    fn prefetch(&self, s: &Sending) {
        // What an ACK of four packets changes, and where the next packet is noted.
        [s.sent.front(), s.sent.get(3), s.sent.back()].into_iter().flatten().for_each(prefetch);
        [s.clock.front(), s.clock.back()].into_iter().flatten().for_each(prefetch);
    }
    fn observe(&self, end: &End<Sending, Receiving>, report: &mut Report<'_>) {
        if let End::Sender(s) = end {
            if let Some(w) = &s.window {
                report(&CWND, w.cwnd);
            }
            report(&IN_FLIGHT, s.in_flight.max(0) as f64);
            if self.s.nature.credit.is_some() {
                report(&CREDIT, s.credit.max(0) as f64);
            }
        }
    }
}
