//! NDP: switches trim, senders spray, receivers pull (Handley et al., SIGCOMM 2017; read from memory).
//!
//! What the paper leaves open of the sender's scoreboard (section 3.2.3), when a path is an outlier and for how long it is left out, is chosen
//! here (`Scoreboard`). Left out: the second case in which a returned packet is sent at once (section 3.2.4: its path is worse than the others).
//!
//! Above 600 lines: a protocol is one file, and this one is a whole transport.

use crate::registry::{LinkNeeds, Paths, Protocol, Suite, Wire};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use penstock_core::packet::flag;
use penstock_core::tcp::Ranges;
use penstock_core::{Amount, Kind, Packet, ParamSpec, Quantity, Report, Stream, Unit};
use penstock_fabric::{Cell, Scheduler, Trim, PRIORITIES};
use penstock_host::ends::{self, Incoming, Outgoing, Timeout, Toward};
use penstock_host::messages::{End, MessageLaw, MessageStack, Messages, Write};
use penstock_host::{HostFacts, Io, Opening};
use penstock_units::{Bytes, Dur, Rate, Time};

static IN_FLIGHT: Quantity =
    Quantity::new("in_flight_packets", Unit::Packets, "packets of a message in flight");
static RETRANSMIT_QUEUE: Quantity = Quantity::new(
    "retransmit_queue_packets",
    Unit::Packets,
    "packets of a message that wait to be sent again",
);
static PULLS_OWED: Quantity =
    Quantity::new("pulls_owed", Unit::One, "packets without a pull from the receiver");

/// Data, and what a switch serves before it: trimmed headers, ACK, NACK, PULL.
const DATA: u8 = 0;
const HEADERS: u8 = 7;

/// NDP.
pub const NDP: Protocol = Protocol {
    name: "ndp",
    text: "NDP: a first window at line rate, then the receiver pulls; full queues trim \
             packets to headers",
    cites: "Handley et al., SIGCOMM 2017 (from memory)",
    params: &[
        ParamSpec::new(
            "queue",
            Kind::Count,
            "8",
            "data packets that a port holds before it trims",
            "section 3.1",
        )
        .range(1.0, 1e6),
        ParamSpec::new(
            "tail",
            Kind::Float,
            "0.5",
            "probability that the last waiting packet is trimmed in place of the arriving one",
            "section 3.1",
        )
        .range(0.0, 1.0),
        ParamSpec::new(
            "weight",
            Kind::Count,
            "10",
            "headers served for one data packet while both wait",
            "section 3.1",
        )
        .range(1.0, 1e5),
        ParamSpec::new(
            "header_queue",
            Kind::Size,
            "72KB",
            "bytes of headers that a port holds",
            "section 3.1: the memory of eight packets of 9 KB",
        )
        .range(64.0, 1e9),
        ParamSpec::new(
            "header",
            Kind::Size,
            "64",
            "headers of a packet, link framing not counted",
            "section 3.1 (trimmed packets of 64 bytes)",
        )
        .range(20.0, 1000.0),
        ParamSpec::new(
            "window",
            Kind::Count,
            "",
            "packets sent before the first pull; unset = bandwidth-delay product and 6 packets, one stored per link of a fat tree",
            "section 3.2: a bandwidth-delay product",
        )
        .range(1.0, 1e6),
        ParamSpec::new(
            "paths",
            Kind::Count,
            "64",
            "values of the permutation from which packets take their paths",
            "chosen: the paths between pods of a fat tree of 16",
        )
        .range(1.0, 65536.0),
        ParamSpec::new(
            "scoreboard",
            Kind::Bool,
            "true",
            "paths with far more trims or losses than others are left out for some rounds",
            "section 3.2.3; htsim's main has none",
        ),
        ParamSpec::new(
            "pace",
            Kind::Float,
            "1",
            "PULLs leave at this share of the rate of the receiver's link",
            "section 3.2; htsim has 0.99, and the authors' of 2017 the rate of payload, 1564/1500 of it",
        )
        .range(0.01, 2.0),
        ParamSpec::new(
            "fifo",
            Kind::Bool,
            "false",
            "packets leave a host in the order of their pulls, or of their writes in the first window; false = connections take turns",
            "not in the paper; htsim's hosts have one queue for data",
        ),
        ParamSpec::new(
            "return_to_sender",
            Kind::Bool,
            "true",
            "a switch with a full header queue returns the header to its sender; false = the header is lost",
            "section 3.2.4; htsim's main has it off",
        ),
        ParamSpec::new(
            "rto",
            Kind::Duration,
            "",
            "retransmission timeout of a packet that is neither acknowledged nor trimmed; unset = the larger of 1ms and 8 base round trips",
            "section 3.2: 1 ms, as queues are short",
        )
        .range(1e-6, 100.0),
    ],
    reports: &[&IN_FLIGHT, &RETRANSMIT_QUEUE, &PULLS_OWED],
    build: |p| {
        let header = p.bytes("header").0 as u32;
        let settings = Settings {
            header,
            window: p.is_set("window").then(|| p.count("window") as u32),
            paths: p.count("paths") as u32,
            scoreboard: p.flag("scoreboard"),
            pace: p.float("pace"),
            fifo: p.flag("fifo"),
            returns: p.flag("return_to_sender"),
            rto: p.is_set("rto").then(|| p.dur("rto")),
        };
        let (queue, tail, weight) = (p.count("queue") as u32, p.float("tail"), p.count("weight") as u32);
        let headers = p.bytes("header_queue").0;
        Ok(Suite::own(
            Arc::new(move |facts| Box::new(MessageStack(Ndp::new(facts, settings)))),
            Wire { header, ack: header },
            Some(Arc::new(move |facts| {
                // Weighted round robin of packets is deficit round robin where all packets of a class are of one size.
                let mut quanta = [facts.packet; PRIORITIES];
                quanta[usize::from(HEADERS)] = weight.saturating_mul(header);
                let mut classes = [None; PRIORITIES];
                classes[usize::from(DATA)] = Some(Amount::Packets(queue));
                classes[usize::from(HEADERS)] = Some(Amount::Bytes(headers));
                LinkNeeds {
                    data: 1 << DATA,
                    scheduler: Scheduler::Drr(quanta),
                    classes,
                    trim: Some(Trim { bytes: header, priority: HEADERS, tail }),
                    paths: Paths::BySender,
                    ..LinkNeeds::default()
                }
            })),
        ))
    },
};

#[derive(Clone, Copy, Debug)]
struct Settings {
    header: u32,
    window: Option<u32>,
    paths: u32,
    scoreboard: bool,
    pace: f64,
    fifo: bool,
    returns: bool,
    rto: Option<Dur>,
}

/// What a packet is: word 0. Word 1 of data: [`LAST`]; of a PULL: its number. Word 2: payload as sent.
mod kind {
    pub const DATA: u32 = 0;
    pub const ACK: u32 = 1;
    pub const NACK: u32 = 2;
    pub const PULL: u32 = 3;
}
/// Behind this packet the sender has nothing.
const LAST: u32 = 1;

/// A packet that is not acknowledged yet.
#[derive(Clone, Copy, Debug)]
struct Sent {
    payload: u32,
    /// When its latest copy left, and on which path.
    at: Time,
    path: u32,
    /// Its latest copy is known or feared to be lost: it stands in the retransmit queue.
    lost: bool,
}

struct Sending {
    out: Outgoing,
    una: u64,
    nxt: u64,
    /// Acknowledged beyond `una`.
    acked: Ranges,
    sent: BTreeMap<u64, Sent>,
    /// Packets to be sent again, before anything new.
    again: VecDeque<u64>,
    /// Copies by the time they left; the first of them is not answered yet.
    clock: VecDeque<(Time, u64)>,
    /// Packets it may send now.
    credit: u32,
    /// The highest number of a PULL seen, and what the receiver has answered: it pulls for each answer as long as it misses something.
    pulled: u32,
    answered: u32,
    in_flight: u32,
    /// Its places in line.
    in_line: u32,
    /// When a sender that waits for a PULL and has nothing in flight helps itself, and how often it did in a row.
    help_at: Time,
    helped: u32,
    /// The permutation of paths, and the next one.
    paths: Vec<u32>,
    turn: usize,
    scoreboard: Option<Box<Scoreboard>>,
    rng: Stream,
}

/// What became of a sender's packets by path (section 3.2.3). Before a new round of the permutation the outliers among the paths are taken out
/// of it for [`REST`] rounds; what is known of a path is forgotten when it comes back.
struct Scoreboard {
    trims: Vec<u16>,
    losses: Vec<u16>,
    /// Rounds for which a path is still left out.
    rests: Vec<u8>,
}

/// Rounds without an outlier (chosen: long beside the six or so in which it shows).
const REST: u8 = 16;

impl Scoreboard {
    fn new(paths: u32) -> Scoreboard {
        let n = paths as usize;
        Scoreboard { trims: vec![0; n], losses: vec![0; n], rests: vec![0; n] }
    }
    /// The paths of a round. An outlier (chosen) has trims of five standard deviations of a Poisson count above the
    /// mean of all, and two packets more. By chance that happens to one of 64 paths in some ten thousand rounds. A path
    /// is also an outlier with a loss, which is rare where switches trim, if others have less than half as many.
    fn round(&mut self, paths: &mut Vec<u32>) {
        let n = self.trims.len() as f64;
        let mean = |of: &[u16]| of.iter().map(|k| f64::from(*k)).sum::<f64>() / n;
        let (trims, losses) = (mean(&self.trims), mean(&self.losses));
        let most = trims + 5.0 * libm::sqrt(trims) + 2.0;
        paths.clear();
        for i in 0..self.trims.len() {
            if self.rests[i] > 0 {
                self.rests[i] -= 1;
            } else if f64::from(self.trims[i]) > most || f64::from(self.losses[i]) > 2.0 * losses {
                (self.rests[i], self.trims[i], self.losses[i]) = (REST - 1, 0, 0);
            } else {
                paths.push(i as u32);
            }
        }
        // All of them cannot be worse than all.
        if paths.is_empty() {
            paths.extend(0..self.trims.len() as u32);
        }
    }
}

impl Sending {
    fn has_more(&self) -> bool {
        !self.again.is_empty() || self.nxt < self.out.written
    }
    /// Packets that it would send if it might.
    fn waiting(&self, mss: u32) -> u64 {
        self.again.len() as u64 + (self.out.written - self.nxt).div_ceil(u64::from(mss))
    }
    fn may_send(&self) -> bool {
        self.credit > 0 && self.has_more()
    }
    /// A random permutation of the paths, a new one after each round (section 3.2.3).
    fn next_path(&mut self) -> u32 {
        if self.turn == self.paths.len() {
            if let Some(scoreboard) = &mut self.scoreboard {
                scoreboard.round(&mut self.paths);
            }
            self.rng.shuffle(&mut self.paths);
            self.turn = 0;
        }
        self.turn += 1;
        self.paths[self.turn - 1]
    }
    /// The payload of a packet was cut off, as its header tells: it is to be sent again. Only the latest copy counts.
    fn fear_lost(&mut self, header: &Packet) {
        let latest = self.sent.get_mut(&header.seq).filter(|sent| !sent.lost && sent.at.0 == header.stamp);
        if let Some(sent) = latest {
            sent.lost = true;
            if let Some(scoreboard) = &mut self.scoreboard {
                scoreboard.trims[sent.path as usize] += 1;
            }
            self.in_flight -= 1;
            self.again.push_back(header.seq);
            self.out.counters.fast_retransmits += 1;
        }
    }
    fn deadline(&self, rto: Dur) -> Time {
        self.clock.front().map_or(Time::NEVER, |(at, _)| *at + rto).min(self.help_at)
    }
    /// After every change: a sender that only waits for a PULL will help itself when none comes, later every time.
    fn watch(&mut self, now: Time, rto: Dur) {
        let waits = self.in_flight == 0 && self.credit == 0 && self.has_more();
        if !waits {
            self.help_at = Time::NEVER;
        } else if self.help_at == Time::NEVER {
            self.help_at = now + rto * (1 << self.helped.min(6));
        }
    }
}

struct Receiving {
    incoming: Incoming,
    /// One past the highest byte announced by a packet or its header, and whether the sender has nothing behind it.
    highest: u64,
    is_end: bool,
    /// PULLs sent, and PULLs it would like to send.
    pulls: u32,
    owed: u32,
}

penstock_host::ends!(Sending { out }, Receiving { incoming });

/// NDP at one host.
struct Ndp {
    m: Messages<Sending, Receiving>,
    header: u32,
    window: u32,
    paths: u32,
    scoreboard: bool,
    rto: Dur,
    /// Time of a full packet on the link of this host, at the pace of PULLs.
    spacing: Dur,
    pace: f64,
    fifo: bool,
    returns: bool,
    /// The pull queue of the host: receiving ends that owe a PULL, in turn.
    pull_line: VecDeque<u32>,
    /// No PULL before this time.
    pull_at: Time,
}

/// From one PULL to the next, for packets of so many bytes on the link.
fn spacing(bytes: u32, rate: Rate, pace: f64) -> Dur {
    let exact = Bytes(u64::from(bytes)) / rate;
    if pace != 1.0 {
        Dur::from_secs(exact.as_secs() / pace)
    } else {
        exact
    }
}

impl Ndp {
    fn new(facts: &HostFacts, s: Settings) -> Ndp {
        let wire = facts.mss + s.header + facts.framing;
        Ndp {
            m: Messages::new(facts),
            header: s.header,
            window: s.window.unwrap_or_else(|| facts.pipe(wire) + 6),
            paths: s.paths,
            scoreboard: s.scoreboard,
            rto: s.rto.unwrap_or_else(|| Dur::millis(1).max(facts.base_rtt * 8)),
            spacing: spacing(wire, facts.rate, s.pace),
            pace: s.pace,
            fifo: s.fifo,
            returns: s.returns,
            pull_line: VecDeque::new(),
            pull_at: Time::ZERO,
        }
    }
    /// The next data packet of a sender, retransmissions first (section 3.2.1).
    fn send_of(&mut self, io: &mut Io<'_>, conn: u32) -> Option<Cell> {
        let s = self.m.ends.sender(conn)?;
        s.in_line -= 1;
        if !s.may_send() {
            return None;
        }
        s.credit -= 1;
        let (seq, payload) = match s.again.pop_front() {
            Some(seq) => (seq, s.sent[&seq].payload),
            None => {
                let seq = s.nxt;
                let payload = (s.out.written - seq).min(u64::from(self.m.facts.mss)) as u32;
                s.nxt += u64::from(payload);
                (seq, payload)
            }
        };
        let path = s.next_path();
        s.sent.insert(seq, Sent { payload, at: io.now, path, lost: false });
        s.clock.push_back((io.now, seq));
        s.in_flight += 1;
        let repeated = s.out.count_sent(seq + u64::from(payload));
        let end = seq + u64::from(payload);
        let mut cell = s.out.data(io, (seq, end), payload + self.header, repeated).with_priority(DATA);
        cell.entropy = cell.entropy.wrapping_add(path);
        let packet = &mut io.arena.packets[cell.packet as usize];
        packet.set_word(0, kind::DATA);
        packet.set_word(1, if end == s.out.written { LAST } else { 0 });
        packet.set_word(2, payload);
        if self.returns {
            packet.ask_return(self.m.facts.host, conn, HEADERS);
        }
        self.settle(io.now, conn);
        Some(cell)
    }
    /// A header of `kind` from a receiving end to its sender.
    fn header_back(io: &mut Io<'_>, to: &mut Incoming, header: u32, kind: u32, cause: &Packet) -> Cell {
        let turn = to.turn();
        let cell = ends::header(io, &to.opening, Toward::Sender, turn, header, HEADERS);
        let packet = &mut io.arena.packets[cell.packet as usize];
        (packet.seq, packet.stamp) = (cause.seq, cause.stamp);
        packet.set_word(0, kind);
        cell
    }
}

impl MessageLaw for Ndp {
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

    fn sender(&mut self, _: Time, opening: &Opening) -> Sending {
        let mut rng = self.m.facts.stream(opening);
        let mut paths: Vec<u32> = (0..self.paths).collect();
        rng.shuffle(&mut paths);
        Sending {
            out: Outgoing::new(opening),
            una: 0,
            nxt: 0,
            acked: Ranges::default(),
            sent: BTreeMap::new(),
            again: VecDeque::new(),
            clock: VecDeque::new(),
            credit: 0,
            pulled: 0,
            answered: 0,
            in_flight: 0,
            in_line: 0,
            help_at: Time::NEVER,
            helped: 0,
            paths,
            turn: 0,
            scoreboard: self.scoreboard.then(|| Box::new(Scoreboard::new(self.paths))),
            rng,
        }
    }
    fn receiver(&mut self, opening: &Opening) -> Receiving {
        Receiving { incoming: Incoming::new(opening), highest: 0, is_end: false, pulls: 0, owed: 0 }
    }
    fn on_write(&mut self, _: &mut Io<'_>, conn: u32, write: Write) {
        // A transfer on an idle connection begins with an unrequested window.
        if let Some(s) = self.m.ends.sender(conn).filter(|_| write.idle) {
            s.credit = self.window;
            // For what the receiver had answered and did not pull for, nothing was left.
            s.answered = s.pulled;
        }
    }
    fn on_remove(&mut self, conn: u32, _: End<Sending, Receiving>) {
        self.pull_line.retain(|c| *c != conn);
    }
    /// A sender stands in line once, for its next packet, or with `fifo` once for each packet that it may send.
    fn settle(&mut self, now: Time, conn: u32) {
        let Some(s) = self.m.ends.sender(conn) else { return };
        let places = match self.fifo {
            true => s.waiting(self.m.facts.mss).min(u64::from(s.credit)) as u32,
            false => u32::from(s.may_send()),
        };
        while s.in_line < places {
            s.in_line += 1;
            self.m.line.push_back(conn);
        }
        // Copies that were answered need no clock.
        while let Some((at, seq)) = s.clock.front().copied() {
            if s.sent.get(&seq).is_some_and(|sent| !sent.lost && sent.at == at) {
                break;
            }
            s.clock.pop_front();
        }
        s.watch(now, self.rto);
        self.m.timers.set(conn, s.deadline(self.rto));
    }

    fn on_data(&mut self, io: &mut Io<'_>, conn: u32, packet: &Packet, cell: &Cell) {
        let Some(r) = self.m.ends.receiver(conn) else { return };
        let payload = u64::from(packet.word(2));
        let (end, last) = (packet.seq + payload, packet.word(1) & LAST != 0);
        if end >= r.highest {
            r.is_end = last || end == r.highest && r.is_end;
            r.highest = end;
        }
        let what = if cell.is_trimmed() {
            kind::NACK
        } else {
            r.incoming.take(packet, payload, io.stack_events);
            kind::ACK
        };
        // Every packet and every header asks for one more; of what the sender has announced no more than what is missing, and
        // nothing when all is there (section 3.2).
        let was = r.owed;
        r.owed += 1;
        if r.is_end {
            let missing = r.incoming.missing_below(r.highest).div_ceil(u64::from(self.m.facts.mss));
            r.owed = r.owed.min(missing.min(u64::from(u32::MAX)) as u32);
        }
        if was == 0 && r.owed > 0 {
            if self.pull_line.is_empty() {
                self.pull_at = self.pull_at.max(io.now);
            }
            self.pull_line.push_back(conn);
        }
        self.m.control.push_back(Ndp::header_back(io, &mut r.incoming, self.header, what, packet));
    }
    fn on_answer(&mut self, io: &mut Io<'_>, conn: u32, packet: &Packet, _: &Cell) {
        let Some(s) = self.m.ends.sender(conn) else { return };
        s.helped = 0;
        s.help_at = Time::NEVER;
        match packet.word(0) {
            _ if packet.has(flag::RETURNED) => {
                s.fear_lost(packet);
                // It waits for a PULL, unless none is to come: sent at once by all senders of an incast it would only be returned again
                // (section 3.2.4).
                s.credit += u32::from(s.in_flight == 0 && s.answered <= s.pulled && s.credit == 0);
            }
            kind::PULL => {
                // PULLs are numbered: one that overtakes others includes them (section 3.2).
                let more = packet.word(1).saturating_sub(s.pulled);
                s.pulled += more;
                // Packets in flight count, because they may still be trimmed.
                if s.has_more() || s.in_flight > 0 {
                    s.credit += more;
                }
            }
            kind::ACK => {
                s.answered += 1;
                if let Some(sent) = s.sent.remove(&packet.seq) {
                    if sent.lost {
                        s.again.retain(|seq| *seq != packet.seq);
                    } else {
                        s.in_flight -= 1;
                    }
                    s.acked.insert(packet.seq, packet.seq + u64::from(sent.payload));
                    s.una = s.acked.first_gap(s.una);
                    s.acked.remove_below(s.una);
                    s.out.acked(s.una, io.stack_events);
                }
            }
            _ => {
                s.answered += 1;
                s.fear_lost(packet);
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
    /// A PULL, when one is owed and its time has come: so that what it brings keeps the link of this host just busy
    /// (section 3.2).
    fn send_paced(&mut self, io: &mut Io<'_>) -> Option<Cell> {
        while self.pull_at <= io.now {
            let conn = self.pull_line.pop_front()?;
            let Some(r) = self.m.ends.receiver(conn) else { continue };
            if r.owed == 0 {
                continue;
            }
            r.owed -= 1;
            r.pulls += 1;
            let pulls = r.pulls;
            if r.owed > 0 {
                self.pull_line.push_back(conn);
            }
            let cell = Ndp::header_back(io, &mut r.incoming, self.header, kind::PULL, &Packet::default());
            io.arena.packets[cell.packet as usize].set_word(1, pulls);
            // It may have had to wait for a packet in service; the pace is kept.
            let ideal = self.pull_at + self.spacing;
            self.pull_at = ideal.max(io.now);
            return Some(cell);
        }
        None
    }
    fn paced_at(&self) -> Time {
        if self.pull_line.is_empty() {
            Time::NEVER
        } else {
            self.pull_at
        }
    }
    fn on_link_rate(&mut self, _: Time) {
        let f = &self.m.facts;
        self.spacing = spacing(f.mss + self.header + f.framing, f.rate, self.pace);
    }
    fn on_timer(&mut self, io: &mut Io<'_>, conn: u32) {
        let Some(s) = self.m.ends.sender(conn) else { return };
        // A packet of which nothing was heard, not even that it was trimmed.
        while let Some((at, seq)) = s.clock.front().copied().filter(|(at, _)| *at + self.rto <= io.now) {
            s.clock.pop_front();
            let Some(sent) = s.sent.get_mut(&seq).filter(|sent| !sent.lost && sent.at == at) else {
                continue;
            };
            sent.lost = true;
            if let Some(scoreboard) = &mut s.scoreboard {
                scoreboard.losses[sent.path as usize] += 1;
            }
            s.in_flight -= 1;
            s.again.push_back(seq);
            s.credit += 1;
            let (from, flight) = (s.una, s.nxt - s.una);
            let timeout =
                Timeout { from, lost: seq, outstanding: flight, cwnd: flight, rto: self.rto, in_a_row: 1 };
            s.out.timed_out(&timeout, io.stack_events);
        }
        // Its PULLs were lost.
        if s.help_at <= io.now {
            s.help_at = Time::NEVER;
            s.helped += 1;
            s.credit += 1;
        }
        self.settle(io.now, conn);
    }
    fn observe(&self, end: &End<Sending, Receiving>, report: &mut Report<'_>) {
        match end {
            End::Sender(s) => {
                report(&IN_FLIGHT, f64::from(s.in_flight));
                report(&RETRANSMIT_QUEUE, s.again.len() as f64);
            }
            End::Receiver(r) => report(&PULLS_OWED, f64::from(r.owed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outliers_among_the_paths_rest() {
        let (mut scoreboard, mut paths) = (Scoreboard::new(16), Vec::new());
        // Five trims of 5: the mean is 5/16, and 5/16 + 5 sqrt(5/16) + 2 = 5.11.
        scoreboard.trims[3] = 5;
        scoreboard.round(&mut paths);
        assert_eq!(paths.len(), 16);
        // Six of 6: 6/16 + 5 sqrt(6/16) + 2 = 5.44.
        scoreboard.trims[3] = 6;
        for _ in 0..REST {
            scoreboard.round(&mut paths);
            assert!(paths.len() == 15 && !paths.contains(&3));
        }
        // It comes back without a history.
        scoreboard.round(&mut paths);
        assert!(paths.len() == 16 && scoreboard.trims[3] == 0);
        // One loss among none is an outlier, one on every path is not.
        scoreboard.losses[7] = 1;
        scoreboard.round(&mut paths);
        assert!(!paths.contains(&7));
        let mut scoreboard = Scoreboard::new(16);
        scoreboard.losses.fill(1);
        scoreboard.round(&mut paths);
        assert_eq!(paths.len(), 16);
    }
}
