//! PIAS: a flow begins in the highest of eight priorities and sinks with every threshold of bytes it has sent; below that, DCTCP (Bai, Chen,
//! Chen, Han, Tian, Wang, NSDI 2015; read from memory).
//!
//! The sender is a whole one, as a packet's priority is the sender's business: a window in bytes by DCTCP's rules (RFC 8257), an
//! acknowledgement for every packet with the mark of that packet, loss by three packets beyond a gap or by a timeout (RFC 6675, RFC 6298
//! in outline: the timeout is fixed and doubles). Thresholds are given: the paper computes them from the distribution of sizes
//! (section 4.1), which is a job for whoever knows it.
//!
//! With `dupacks=0`, `grow`, `kept` and `alpha=0` the sender is in outline that of the simulations of PIAS's authors, an ns-2 of theirs
//! (HKUST-SING/PIAS-NS2, 0fa0b02; its `tcp-full.cc`, `tcp.cc`, `pFabric.patch` and scripts were read): packets are sprayed one by one, only a timeout
//! finds a loss, the window grows after a cut as before it, and connections are used for one message after another. Its timeout is `MinTCP`'s, the
//! least one always (`backoff=false` without `adapt`), a timeout after a cut for a mark leaves ssthresh (`halve=false`), and after five in a row it
//! sends probes of a byte (`probe=5`). Its window moves by whole packets beyond slow start (`steps`), by ACKs that are cumulative (`in_order`), not
//! with the first mark of several (`burst`), is cut by what was sent after the last cut (`later`), and a cut makes it send again what SACK shows
//! to be missing (`refill`). Not so here: after a timeout it sends again what was acknowledged out of order, too, and ACKs have room for SACK blocks.
//!
//! Above 600 lines: a protocol is one file, and this one is a whole transport.

use crate::registry::{LinkNeeds, Protocol, Suite, Wire};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use penstock_core::packet::{flag, Ecn};
use penstock_core::params::parse_size;
use penstock_core::quantity::{ALPHA, CWND};
use penstock_core::tcp::{Ranges, TimeoutKind, TimeoutRecord};
use penstock_core::{Amount, Kind, Packet, ParamSpec, Report};
use penstock_fabric::{Cell, Scheduler, PRIORITIES};
use penstock_host::ends::{self, Alarms, Headers, Incoming, Outgoing, Seats, Toward};
use penstock_host::{Counters, HostFacts, Io, News, Opening, Stack};
use penstock_units::{Dur, Time};

/// The highest priority: that of acknowledgements, and of the first bytes of a flow (section 3.1).
const FIRST: u8 = 7;
/// Links of the longest path in a fat tree: each stores a packet before it goes on.
const HOPS: u32 = 6;

/// PIAS.
pub const PIAS: Protocol = Protocol {
    name: "pias",
    text: "PIAS: a flow sinks through eight priorities as it sends, whatever its size; DCTCP's window",
    cites: "Bai et al., NSDI 2015 (from memory); RFC 8257",
    params: &[
        ParamSpec::new(
            "thresholds",
            Kind::Text,
            "",
            "bytes after which a flow sinks by one priority, by a further one, ..., as 10KB+100KB; unset = the pipe at line rate, doubled six \
             times",
            "section 4.1: computed from the sizes; the default is chosen",
        ),
        ParamSpec::new("window", Kind::Count, "10", "first window in packets", "RFC 6928").range(1.0, 1e6),
        ParamSpec::new("g", Kind::Float, "0.0625", "gain of the marked-fraction average", "RFC 8257 section 4.2").range(1e-6, 1.0),
        ParamSpec::new("alpha", Kind::Float, "1", "marked-fraction average at the start", "RFC 8257 section 3.3").range(0.0, 1.0),
        ParamSpec::new(
            "k",
            Kind::Amount,
            "",
            "packets of all priorities of a port from which it marks; unset = the pipe at line rate and 6 packets",
            "section 4.2: per port; the default is chosen, above DCTCP's bound of C RTT / 7",
        )
        .range(0.0, 1e12),
        ParamSpec::new(
            "rto",
            Kind::Duration,
            "",
            "retransmission timeout, doubled each time in a row; unset = 1 ms, or 8 base round trips where that is more",
            "chosen",
        )
        .range(1e-6, 100.0),
        ParamSpec::new("adapt", Kind::Bool, "false", "the timeout is SRTT + 4 RTTVAR and `rto` its least value", "RFC 6298 section 2; ns-2"),
        ParamSpec::new("backoff", Kind::Bool, "true", "the timeout doubles each time in a row; false = it stays", "RFC 6298 (5.5); ns-2's MinTCP: it stays"),
        ParamSpec::new("probe", Kind::Count, "0", "timeouts in a row from which on packets have a single byte until something is heard; 0 = never", "ns-2: 5")
            .range(0.0, 1e6),
        ParamSpec::new("halve", Kind::Bool, "true", "a timeout halves ssthresh; false = not after a cut for a mark", "RFC 5681 section 3.1; ns-2: false"),
        ParamSpec::new("dupacks", Kind::Count, "3", "packets beyond a gap that show it to be a loss; 0 = only a timeout does", "RFC 6675 section 2; ns-2: none")
            .range(0.0, 1e6),
        ParamSpec::new("grow", Kind::Bool, "false", "the window grows also while what was in flight at its last cut is not acknowledged", "ns-2"),
        ParamSpec::new(
            "later",
            Kind::Bool,
            "false",
            "a cut waits for the ACK of a packet that was sent after the last one, or after a timeout that followed it; false = for that of the \
             last packet before it",
            "RFC 8257 section 3.3 step 8 has a window of data; ns-2: beyond recover_",
        ),
        ParamSpec::new(
            "steps",
            Kind::Bool,
            "false",
            "beyond slow start the window grows by whole packets: by one when as many ACKs as it has packets let it grow, counted anew after a \
             cut; ssthresh is whole packets, two at least",
            "ns-2: windowOption_ 0",
        ),
        ParamSpec::new(
            "in_order",
            Kind::Bool,
            "false",
            "the window counts from the first byte missing, and only an ACK that moves that changes it, by a packet or a cut, and restarts the \
             timeout; of the marked fraction it is all the bytes it moves by, any other ACK one packet",
            "ns-2: its ACKs are cumulative",
        ),
        ParamSpec::new(
            "burst",
            Kind::Bool,
            "false",
            "an ACK with a mark lets the window grow as well where the one before had a mark too, and never where it had none",
            "ns-2: ecn_burst_",
        ),
        ParamSpec::new(
            "refill",
            Kind::Bool,
            "false",
            "until what was in flight at a cut or a timeout is acknowledged, every gap below what has arrived is sent again, once",
            "ns-2: a cut for a mark begins a recovery of SACK's sender, sack_rtx_bthresh_ 1",
        ),
        ParamSpec::new(
            "kept",
            Kind::Count,
            "0",
            "connections from a host to another that are used again in turn: the next message begins with the marked fraction, ssthresh and \
             round-trip time with which the last one ended",
            "ns-2: ten",
        )
        .range(0.0, 1e6),
        ParamSpec::new("header", Kind::Size, "40", "headers of a packet", "of TCP's size").range(20.0, 1000.0),
        ParamSpec::new("ack", Kind::Size, "", "an ACK; unset = as the headers of a packet", "").range(20.0, 1000.0),
    ],
    reports: &[&CWND, &ALPHA],
    build: |p| {
        let mut thresholds = Vec::new();
        for part in p.text("thresholds").split('+').filter(|part| !part.is_empty()) {
            match parse_size(part) {
                Some(size) if size >= 1.0 && thresholds.last().is_none_or(|last| size > *last as f64) => {
                    thresholds.push(size as u64);
                }
                _ => return Err(p.error("thresholds", "must be sizes that grow, separated by +, such as 10KB+100KB")),
            }
        }
        if thresholds.len() > usize::from(FIRST) {
            return Err(p.error("thresholds", "must be seven at most: there are eight priorities"));
        }
        let settings = Settings {
            thresholds,
            window: p.count("window") as u32,
            g: p.float("g"),
            alpha: p.float("alpha"),
            rto: p.is_set("rto").then(|| p.dur("rto")),
            adapt: p.flag("adapt"),
            backoff: p.flag("backoff"),
            probe: p.count("probe") as u32,
            halve: p.flag("halve"),
            dupacks: p.count("dupacks"),
            grow: p.flag("grow"),
            later: p.flag("later"),
            steps: p.flag("steps"),
            in_order: p.flag("in_order"),
            burst: p.flag("burst"),
            refill: p.flag("refill"),
            kept: p.count("kept"),
            header: p.bytes("header").0 as u32,
            ack: p.bytes(if p.is_set("ack") { "ack" } else { "header" }).0 as u32,
        };
        let k = p.is_set("k").then(|| p.amount("k"));
        let wire = Wire { header: settings.header, ack: settings.ack };
        let suite = Suite::own(
            Arc::new(move |facts| Box::new(Pias::new(facts, settings.clone()))),
            wire,
            Some(Arc::new(move |facts| {
                let pipe = facts.pipe_bytes() as u64 + u64::from(HOPS * facts.packet);
                let k = match k.unwrap_or(Amount::Bytes(pipe)) {
                    Amount::Bytes(n) => format!("{n}B"),
                    Amount::Packets(n) => format!("{n}pkt"),
                };
                LinkNeeds {
                    scheduler: Scheduler::Strict,
                    queue_of_port: Some(format!("threshold:k={k}")),
                    ..LinkNeeds::default()
                }
            })),
        );
        Ok(Suite { own_order: true, ..suite })
    },
};

#[derive(Clone, Debug)]
struct Settings {
    thresholds: Vec<u64>,
    window: u32,
    g: f64,
    alpha: f64,
    rto: Option<Dur>,
    adapt: bool,
    backoff: bool,
    probe: u32,
    halve: bool,
    dupacks: u64,
    grow: bool,
    later: bool,
    steps: bool,
    in_order: bool,
    burst: bool,
    refill: bool,
    kept: u64,
    header: u32,
    ack: u32,
}

/// What a connection that is used again begins with.
struct Kept {
    alpha: f64,
    ssthresh: f64,
    round_trip: Option<Box<RoundTrip>>,
}

/// The connections to one host: how many there are, and those that wait for a message.
#[derive(Default)]
struct Pool {
    opened: u64,
    idle: VecDeque<Kept>,
}

impl Settings {
    /// Section 3.1: the priority of a packet follows from what the flow has sent before it.
    fn priority(&self, sent: u64) -> u8 {
        FIRST - self.thresholds.partition_point(|t| *t <= sent) as u8
    }
}

/// Word 0 of an ACK: payload of the packet that it answers, whose first byte is in words 2 and 3. Word 1: 1 for a packet back. Word 4: 1 where
/// the packet was marked.
const BACK: u32 = 1;

struct Sending {
    out: Outgoing,
    /// Where the present transfer began: what it has sent counts from here.
    base: u64,
    una: u64,
    nxt: u64,
    /// Acknowledged beyond `una`.
    acked: Ranges,
    /// In bytes.
    cwnd: f64,
    ssthresh: f64,
    alpha: f64,
    /// Of the present observation window: bytes acknowledged, bytes of them marked, and its end.
    counted: u64,
    marked: u64,
    window_end: u64,
    /// The window was cut for a mark or a loss, and is not again before this byte is acknowledged; growth stops until then.
    cut_end: u64,
    /// In fast recovery: gaps below this byte were sent again.
    resent: u64,
    recover: Option<u64>,
    /// Until this byte is acknowledged gaps are sent again, where a cut or a timeout is followed by that; those below `refilled` were.
    refill_end: u64,
    refilled: u64,
    /// ACKs that let the window grow since it last did or was cut, where it grows by whole packets.
    grown: u32,
    /// The last ACK that moved the window had a mark.
    echoed: bool,
    /// Bytes beyond a gap that show it to be a loss.
    beyond: u64,
    rto_at: Time,
    timeouts_in_a_row: u32,
    /// The last cut was for a mark.
    marked_last: bool,
    /// Nothing is heard: packets have a single byte.
    probing: bool,
    in_line: bool,
    round_trip: Option<Box<RoundTrip>>,
}

/// The round-trip time of a sender whose timeout follows it, by one packet at a time (RFC 6298 section 3, without timestamps).
#[derive(Default)]
struct RoundTrip {
    /// The byte behind the packet that is timed, and when that left.
    timed: Option<(u64, Time)>,
    /// SRTT and RTTVAR, in picoseconds; zero before the first sample.
    smoothed: f64,
    variation: f64,
}

impl RoundTrip {
    fn on_sent(&mut self, end: u64, now: Time) {
        self.timed.get_or_insert((end, now));
    }
    fn on_acked(&mut self, una: u64, now: Time) {
        let Some((_, at)) = self.timed.take_if(|(end, _)| *end <= una) else { return };
        let sample = (now.0 - at.0) as f64;
        if self.smoothed == 0.0 {
            // RFC 6298 (2.2): SRTT <- R, RTTVAR <- R/2
            (self.smoothed, self.variation) = (sample, sample / 2.0);
        } else {
            // RFC 6298 (2.3): RTTVAR <- 3/4 RTTVAR + 1/4 |SRTT - R|; SRTT <- 7/8 SRTT + 1/8 R
            self.variation += ((self.smoothed - sample).abs() - self.variation) / 4.0;
            self.smoothed += (sample - self.smoothed) / 8.0;
        }
    }
}

impl Sending {
    fn new(opening: &Opening, kept: Kept, window: f64, beyond: u64) -> Sending {
        Sending {
            out: Outgoing::new(opening),
            base: 0,
            una: 0,
            nxt: 0,
            acked: Ranges::default(),
            cwnd: window,
            ssthresh: kept.ssthresh,
            alpha: kept.alpha,
            counted: 0,
            marked: 0,
            window_end: 0,
            cut_end: 0,
            resent: 0,
            recover: None,
            refill_end: 0,
            refilled: 0,
            grown: 0,
            echoed: false,
            beyond,
            rto_at: Time::NEVER,
            timeouts_in_a_row: 0,
            marked_last: false,
            probing: false,
            in_line: false,
            round_trip: kept.round_trip,
        }
    }
    /// The timeout now: as given, or the round-trip time's, RTO <- SRTT + 4 RTTVAR (RFC 6298 (2.3)), and twice that for each in a row.
    fn timeout(&self, rto: Dur, backoff: bool) -> Dur {
        let base =
            self.round_trip.as_ref().map_or(rto, |r| rto.max(Dur((r.smoothed + 4.0 * r.variation) as u64)));
        if backoff {
            base * (1 << self.timeouts_in_a_row.min(6))
        } else {
            base
        }
    }
    /// Below this byte every gap is a loss.
    fn lost_below(&self) -> u64 {
        self.acked.highest().map_or(0, |h| h.saturating_sub(self.beyond))
    }
    /// Bytes in flight: sent, not acknowledged, and not a gap that waits to be sent again.
    fn in_flight(&self) -> u64 {
        let mut flight = (self.nxt - self.una).saturating_sub(self.acked.covered(self.una, self.nxt));
        if self.recover.is_some() {
            let (from, to) = (self.resent.max(self.una), self.lost_below());
            if from < to {
                flight = flight.saturating_sub((to - from) - self.acked.covered(from, to));
            }
        }
        flight
    }
    /// A gap below what has arrived that is sent again after a cut.
    fn refill(&self) -> Option<u64> {
        let seq = self.acked.first_gap(self.refilled.max(self.una));
        (self.una < self.refill_end && self.acked.highest().is_some_and(|h| seq < h)).then_some(seq)
    }
    /// The next packet that the window admits: a gap, or the first bytes from `nxt` on that were not acknowledged.
    fn next_packet(&self, mss: u64, in_order: bool) -> Option<(u64, u64)> {
        let again = self.recover.and_then(|_| {
            let seq = self.acked.first_gap(self.resent.max(self.una));
            (seq < self.lost_below()).then_some(seq)
        });
        let seq = again.or_else(|| self.refill()).unwrap_or_else(|| self.acked.first_gap(self.nxt));
        let stop = self.acked.next_start(seq).unwrap_or(u64::MAX).min(self.out.written);
        let end = stop.min(seq.saturating_add(if self.probing { 1 } else { mss }));
        let ahead = if in_order { seq - self.una } else { self.in_flight() };
        let admitted = (ahead + (end.saturating_sub(seq))) as f64 <= self.cwnd;
        let room = ahead == 0 || admitted && !self.probing;
        (seq < end && room).then_some((seq, end))
    }
    /// DCTCP's cut, once per window of data (RFC 8257 section 3.3 step 8); a loss halves (RFC 5681).
    fn cut(&mut self, by: f64, mss: u64, s: &Settings) {
        self.cwnd = (self.cwnd * (1.0 - by)).max(mss as f64);
        self.ssthresh = self.cwnd;
        self.cut_end = if s.later { self.out.max_sent + 1 } else { self.nxt };
        self.grown = 0;
        if s.steps {
            self.ssthresh = (self.cwnd as u64 / mss).max(2) as f64 * mss as f64;
        }
        if s.refill {
            self.refill_end = self.out.max_sent;
        }
    }
    /// What an ACK with or without a mark does to the window, where no loss was found.
    fn react(&mut self, marked: bool, mss: u64, s: &Settings) {
        let may_cut = self.una >= self.cut_end;
        if marked && may_cut {
            self.cut(self.alpha / 2.0, mss, s);
            self.marked_last = true;
        }
        let grows = if s.burst { !marked || self.echoed } else { !(marked && may_cut) };
        if grows && (may_cut || s.grow) && self.recover.is_none() {
            self.grow(mss, s.steps);
        }
        self.echoed = marked;
    }
    /// Slow start by a packet, beyond it by a packet per window (RFC 5681 section 3.1).
    fn grow(&mut self, mss: u64, steps: bool) {
        let mss = mss as f64;
        if self.cwnd < self.ssthresh {
            self.cwnd += mss;
        } else if !steps {
            self.cwnd += mss * mss / self.cwnd;
        } else {
            self.grown += 1;
            if f64::from(self.grown) * mss >= self.cwnd {
                self.grown = 0;
                self.cwnd += mss;
            }
        }
    }
}

enum End {
    Sending(Box<Sending>),
    Receiving(Box<Incoming>),
}

/// PIAS at one host.
struct Pias {
    facts: HostFacts,
    s: Settings,
    rto: Dur,
    ends: Seats<End>,
    alarms: Alarms,
    acks: Headers,
    /// Senders that may send, by the priority of their next packet: a host serves as its switches do, in turn within a priority.
    line: [VecDeque<u32>; PRIORITIES],
    /// By destination, where connections are used again.
    pools: BTreeMap<u32, Pool>,
}

impl Pias {
    fn new(facts: &HostFacts, mut s: Settings) -> Pias {
        if s.thresholds.is_empty() {
            let wire = facts.mss + s.header + facts.framing;
            let pipe = u64::from(facts.pipe(wire) + HOPS) * u64::from(facts.mss);
            s.thresholds = (0..FIRST).map(|i| pipe << i).collect();
        }
        Pias {
            facts: *facts,
            rto: s.rto.unwrap_or_else(|| Dur::millis(1).max(facts.base_rtt * 8)),
            ends: Seats::default(),
            alarms: Alarms::default(),
            acks: Headers::default(),
            line: Default::default(),
            pools: BTreeMap::new(),
            s,
        }
    }
    /// A connection to `dst` for a new message: the one that has been idle longest, when there are as many as are to be kept.
    fn connection(&mut self, dst: u32) -> Kept {
        let fresh = Kept {
            alpha: self.s.alpha,
            ssthresh: f64::INFINITY,
            round_trip: self.s.adapt.then(Box::default),
        };
        if self.s.kept == 0 {
            return fresh;
        }
        let pool = self.pools.entry(dst).or_default();
        if pool.opened >= self.s.kept {
            if let Some(mut kept) = pool.idle.pop_front() {
                kept.round_trip.iter_mut().for_each(|r| r.timed = None);
                return kept;
            }
        }
        pool.opened += 1;
        fresh
    }
    fn settle(&mut self, conn: u32) {
        let mss = u64::from(self.facts.mss);
        let Some(End::Sending(s)) = self.ends.get_mut(conn) else { return };
        self.alarms.set(conn, s.rto_at);
        let next = if s.in_line { None } else { s.next_packet(mss, self.s.in_order) };
        if let Some((seq, _)) = next {
            s.in_line = true;
            let priority = self.s.priority(seq.saturating_sub(s.base));
            self.line[usize::from(priority)].push_back(conn);
        }
    }
    fn next_in_line(&mut self) -> Option<u32> {
        self.line.iter_mut().rev().find_map(VecDeque::pop_front)
    }
    fn send(&mut self, io: &mut Io<'_>, conn: u32) -> Option<Cell> {
        let (mss, header, rto, backoff) =
            (u64::from(self.facts.mss), self.s.header, self.rto, self.s.backoff);
        let Some(End::Sending(s)) = self.ends.get_mut(conn) else { return None };
        s.in_line = false;
        let (seq, end) = s.next_packet(mss, self.s.in_order)?;
        if s.acked.highest().is_some_and(|h| seq < h) {
            s.refilled = end;
        }
        if seq < s.nxt {
            s.resent = end;
        } else {
            s.nxt = end;
        }
        let repeated = s.out.count_sent(end);
        if s.rto_at == Time::NEVER {
            s.rto_at = io.now + s.timeout(rto, backoff);
        }
        if let Some(round_trip) = s.round_trip.as_mut().filter(|_| !repeated) {
            round_trip.on_sent(end, io.now);
        }
        let (o, sent, payload) = (s.out.opening, seq.saturating_sub(s.base), (end - seq) as u32);
        let wire = payload + header;
        let slot = io.arena.alloc();
        let packet = &mut io.arena.packets[slot as usize];
        *packet = Packet {
            seq,
            stamp: io.now.0,
            flow: o.flow.0,
            wire_len: wire,
            payload,
            flags: if repeated { flag::RETRANSMIT } else { 0 },
            ecn: Ecn::Ect0,
            ..Packet::default()
        };
        packet.set_conn(o.at_dst);
        packet.set_class(o.class);
        let mut cell = Cell::new(slot, wire)
            .with_priority(self.s.priority(sent))
            .with_class(o.class)
            .with_ecn(Ecn::Ect0)
            .with_payload()
            .with_noise();
        (cell.to, cell.entropy) = (o.dst, o.forth);
        self.settle(conn);
        Some(cell)
    }
    fn on_data(&mut self, io: &mut Io<'_>, conn: u32, data: &Packet, cell: &Cell) {
        let Some(End::Receiving(incoming)) = self.ends.get_mut(conn) else { return };
        incoming.take(data.seq, u64::from(data.payload), io.news);
        let (o, next) = (incoming.opening, incoming.next);
        let mut back = ends::header(io.arena, &o, Toward::Sender, self.s.ack, FIRST).with_ecn(Ecn::Ect0);
        back.entropy = o.back;
        let ack = &mut io.arena.packets[back.packet as usize];
        (ack.seq, ack.stamp, ack.ecn) = (next, data.stamp, Ecn::Ect0);
        let marked = u32::from(cell.ecn() == Ecn::Ce);
        let words = [data.payload, BACK, data.seq as u32, (data.seq >> 32) as u32, marked];
        words.into_iter().enumerate().for_each(|(i, word)| ack.set_word(i, word));
        self.acks.push(back);
    }
    fn on_ack(&mut self, io: &mut Io<'_>, conn: u32, ack: &Packet) {
        let (mss, rules) = (u64::from(self.facts.mss), &self.s);
        let (rto, backoff) = (self.rto, self.s.backoff);
        let Some(End::Sending(s)) = self.ends.get_mut(conn) else { return };
        s.probing = false;
        let seq = u64::from(ack.word(2)) | u64::from(ack.word(3)) << 32;
        let (payload, marked) = (u64::from(ack.word(0)), ack.word(4) == 1);
        let before = s.una;
        let new = s.acked.insert(seq.max(s.una), (seq + payload).max(s.una)) > 0;
        let next = s.una.max(ack.seq);
        s.una = if rules.in_order { next } else { s.acked.first_gap(next) };
        s.acked.remove_below(s.una);
        s.nxt = s.nxt.max(s.una);
        let moved = s.una > before;
        if !new && !moved && !rules.in_order {
            return;
        }
        s.out.counters.ece_acks += u64::from(marked);
        let counts = match (rules.in_order, moved) {
            (false, _) => payload,
            (true, true) => s.una - before,
            (true, false) => mss,
        };
        s.counted += counts;
        s.marked += if marked { counts } else { 0 };
        // RFC 8257 section 3.3 steps 4 to 7: alpha <- (1 - g) alpha + g M at the end of each window of data.
        if s.una > s.window_end {
            s.alpha += rules.g * (s.marked as f64 / s.counted as f64 - s.alpha);
            (s.counted, s.marked, s.window_end) = (0, 0, s.nxt);
        }
        if s.recover.is_some_and(|end| s.una >= end) {
            s.recover = None;
        }
        // Three packets beyond a gap: it is a loss.
        if s.recover.is_none() && s.acked.first_gap(s.una.max(s.resent)) < s.lost_below() {
            (s.recover, s.resent) = (Some(s.nxt), s.una);
            s.out.counters.fast_retransmits += 1;
            if s.una >= s.cut_end {
                s.cut(0.5, mss, rules);
            }
            io.news.push(News::FastRetransmit {
                flow: s.out.opening.flow,
                max_sent: s.out.max_sent,
                outstanding: s.nxt - s.una,
                cwnd: s.cwnd as u64,
            });
        } else if moved || !rules.in_order {
            s.react(marked, mss, rules);
        }
        s.timeouts_in_a_row = 0;
        if let Some(round_trip) = &mut s.round_trip {
            round_trip.on_acked(s.una, io.now);
        }
        s.out.acked(s.una, io.news);
        if moved || !rules.in_order {
            s.rto_at = if s.una < s.out.max_sent { io.now + s.timeout(rto, backoff) } else { Time::NEVER };
        }
        self.settle(conn);
    }
}

impl Stack for Pias {
    fn open(&mut self, _: &mut Io<'_>, opening: &Opening) {
        let mss = u64::from(self.facts.mss);
        let beyond = if self.s.dupacks == 0 { u64::MAX } else { self.s.dupacks * mss };
        let window = f64::from(self.s.window) * mss as f64;
        let sending = Sending::new(opening, self.connection(opening.dst), window, beyond);
        self.ends.put(opening.at_src, End::Sending(Box::new(sending)));
    }
    fn listen(&mut self, _: &mut Io<'_>, opening: &Opening) {
        self.ends.put(opening.at_dst, End::Receiving(Box::new(Incoming::new(opening))));
    }
    fn accept(&mut self, _: &mut Io<'_>, conn: u32, bytes: u64) {
        if let Some(End::Sending(s)) = self.ends.get_mut(conn) {
            // A transfer on an idle connection counts anew.
            if s.una == s.out.written {
                s.base = s.out.written;
            }
            s.out.accept(bytes);
        }
        self.settle(conn);
    }
    fn expect(&mut self, conn: u32, end: u64) {
        if let Some(End::Receiving(incoming)) = self.ends.get_mut(conn) {
            incoming.expect(end);
        }
    }
    fn close(&mut self, io: &mut Io<'_>, conn: u32) {
        if let Some(End::Sending(s)) = self.ends.get_mut(conn) {
            s.out.close(io.news);
        }
    }
    fn leave(&mut self, io: &mut Io<'_>, conn: u32) {
        if let Some(End::Sending(s)) = self.ends.get_mut(conn) {
            s.out.leave(io.news);
        }
        self.settle(conn);
    }
    fn forget(&mut self, _: &mut Io<'_>, conn: u32) {
        let end = self.ends.take(conn);
        if let Some(End::Sending(s)) = end.filter(|_| self.s.kept > 0) {
            let kept = Kept { alpha: s.alpha, ssthresh: s.ssthresh, round_trip: s.round_trip };
            self.pools.entry(s.out.opening.dst).or_default().idle.push_back(kept);
        }
        self.line.iter_mut().for_each(|line| line.retain(|c| *c != conn));
        self.alarms.set(conn, Time::NEVER);
    }
    fn receive(&mut self, io: &mut Io<'_>, cell: &Cell) {
        let packet = io.arena.packets[cell.packet as usize];
        let conn = packet.conn();
        let back = packet.word(1) == BACK;
        match self.ends.get(conn) {
            Some(End::Sending(s)) if back && s.out.opening.flow.0 == packet.flow => {
                self.on_ack(io, conn, &packet);
            }
            // What a switch has cut to its header is as good as lost.
            Some(End::Receiving(r)) if !back && r.opening.flow.0 == packet.flow && !cell.is_trimmed() => {
                self.on_data(io, conn, &packet, cell);
            }
            _ => {}
        }
        io.arena.release(cell.packet);
    }
    fn pull(&mut self, io: &mut Io<'_>) -> Option<Cell> {
        if io.paused & (1 << FIRST) == 0 {
            if let Some(cell) = self.acks.pop() {
                return Some(cell);
            }
        }
        // Priorities of data are many: what is paused of them holds all data back.
        if io.paused != 0 {
            return None;
        }
        loop {
            let conn = self.next_in_line()?;
            if let Some(cell) = self.send(io, conn) {
                return Some(cell);
            }
        }
    }
    fn ready(&self, paused: u8) -> Time {
        if paused & (1 << FIRST) == 0 && !self.acks.is_empty()
            || paused == 0 && self.line.iter().any(|line| !line.is_empty())
        {
            Time::ZERO
        } else {
            Time::NEVER
        }
    }
    fn deadline(&self) -> Time {
        self.alarms.first()
    }
    fn on_deadline(&mut self, io: &mut Io<'_>) {
        let mss = u64::from(self.facts.mss);
        while let Some(conn) = self.alarms.due(io.now) {
            let Some(End::Sending(s)) = self.ends.get_mut(conn) else { continue };
            s.timeouts_in_a_row += 1;
            s.out.counters.timeouts += 1;
            let in_a_row = s.timeouts_in_a_row;
            let record = TimeoutRecord {
                kind: if in_a_row > 1 { TimeoutKind::Repeated } else { TimeoutKind::WindowLost },
                block_start: s.una == s.base,
                block_offset: s.una - s.base.min(s.una),
                outstanding: s.nxt - s.una,
                cwnd: s.cwnd as u64,
                rto: self.rto,
                in_a_row,
            };
            io.news.push(News::Timeout { flow: s.out.opening.flow, max_sent: s.out.max_sent, record });
            // RFC 5681 section 3.1: one packet, and slow start up to half of what was in flight; all that was not acknowledged is lost.
            if in_a_row == 1 && (self.s.halve || !s.marked_last) {
                s.ssthresh = (s.in_flight() as f64 / 2.0).max(2.0 * mss as f64);
            }
            s.cwnd = mss as f64;
            s.probing = (1..=in_a_row).contains(&self.s.probe);
            (s.nxt, s.recover, s.resent, s.cut_end) = (s.una, None, s.una, s.una);
            (s.grown, s.refilled) = (0, s.una);
            if self.s.later && s.marked_last {
                s.cut_end = s.out.max_sent + 1;
            }
            if self.s.refill {
                s.refill_end = s.out.max_sent;
            }
            s.rto_at = io.now + s.timeout(self.rto, self.s.backoff);
            // Of a packet that may have been sent again no sample is taken (RFC 6298 section 3).
            if let Some(round_trip) = &mut s.round_trip {
                round_trip.timed = None;
            }
            self.settle(conn);
        }
    }
    fn queued(&self) -> u64 {
        self.acks.len()
    }
    fn counters(&self, conn: u32) -> Counters {
        match self.ends.get(conn) {
            Some(End::Sending(s)) => s.out.counters,
            Some(End::Receiving(r)) => r.counters,
            None => Counters::default(),
        }
    }
    fn missing_below(&self, conn: u32, end: u64) -> u64 {
        match self.ends.get(conn) {
            Some(End::Receiving(r)) => r.missing_below(end),
            _ => 0,
        }
    }
    fn observe(&self, conn: u32, report: &mut Report<'_>) {
        if let Some(End::Sending(s)) = self.ends.get(conn) {
            report(&CWND, s.cwnd);
            report(&ALPHA, s.alpha);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    /// A connection with a window of so many packets, beyond slow start; alpha is 0.
    fn sending(window: f64) -> Sending {
        let kept = Kept { alpha: 0.0, ssthresh: window * MSS as f64, round_trip: None };
        let mut s = Sending::new(&Opening::default(), kept, window * MSS as f64, u64::MAX);
        s.out.written = 100 * MSS;
        s
    }

    fn settings() -> Settings {
        Settings {
            thresholds: Vec::new(),
            window: 4,
            g: 0.0625,
            alpha: 0.0,
            rto: None,
            adapt: false,
            backoff: true,
            probe: 0,
            halve: true,
            dupacks: 0,
            grow: true,
            later: false,
            steps: false,
            in_order: false,
            burst: false,
            refill: false,
            kept: 0,
            header: 40,
            ack: 40,
        }
    }

    fn packets(bytes: f64) -> f64 {
        bytes / MSS as f64
    }

    #[test]
    fn a_window_that_grows_by_steps_counts_acks_since_its_last_cut() {
        let rules = Settings { steps: true, ..settings() };
        let mut s = sending(4.0);
        let ack = |s: &mut Sending, n: u32, marked: bool| {
            (0..n).for_each(|_| s.react(marked, MSS, &rules));
            packets(s.cwnd)
        };
        assert_eq!(ack(&mut s, 3, false), 4.0);
        assert_eq!(ack(&mut s, 1, false), 5.0);
        // Four of five, and a cut by nothing: five more are needed.
        assert_eq!(ack(&mut s, 4, false), 5.0);
        assert_eq!(ack(&mut s, 1, true), 5.0);
        assert_eq!(ack(&mut s, 4, false), 5.0);
        assert_eq!(ack(&mut s, 1, false), 6.0);
        // 6 (1 - 1/2 / 2) = 4.5, of which ssthresh is 4.
        s.alpha = 0.5;
        assert_eq!((ack(&mut s, 1, true), packets(s.ssthresh)), (4.5, 4.0));
        // Half of 2: slow start, from 1 to ssthresh, which is 2 at least.
        let mut s = sending(2.0);
        s.alpha = 1.0;
        assert_eq!((ack(&mut s, 1, true), packets(s.ssthresh)), (1.0, 2.0));
        assert_eq!(ack(&mut s, 1, false), 2.0);
    }

    #[test]
    fn without_steps_every_ack_adds_its_part_of_a_packet() {
        let mut s = sending(4.0);
        s.react(false, MSS, &settings());
        assert_eq!(packets(s.cwnd), 4.25);
    }

    #[test]
    fn the_first_mark_of_a_burst_stops_the_window_and_the_others_do_not() {
        // In slow start, a packet for each ACK that lets it grow; what was in flight at the cut is 10 packets.
        let grown = |burst: bool| {
            let rules = Settings { burst, ..settings() };
            let mut s = sending(4.0);
            (s.nxt, s.cut_end) = (10 * MSS, 1);
            s.ssthresh = f64::INFINITY;
            [false, true, true, false, true].map(|marked| {
                s.react(marked, MSS, &rules);
                packets(s.cwnd)
            })
        };
        assert_eq!(grown(true), [5.0, 5.0, 6.0, 7.0, 7.0]);
        assert_eq!(grown(false), [5.0, 6.0, 7.0, 8.0, 9.0]);
    }

    #[test]
    fn a_later_cut_waits_for_what_was_sent_after_the_last_one() {
        // Ten packets in flight at a cut, and all ACKs have marks: the tenth cuts again, or the eleventh.
        let cuts_at = |later: bool| {
            let rules = Settings { later, burst: true, ..settings() };
            let mut s = sending(10.0);
            s.alpha = 0.5;
            (s.una, s.nxt, s.out.max_sent) = (MSS, 11 * MSS, 11 * MSS);
            s.react(true, MSS, &rules);
            (1..20_u64).find(|&n| {
                let before = s.cwnd;
                (s.una, s.nxt, s.out.max_sent) = ((1 + n) * MSS, (11 + n) * MSS, (11 + n) * MSS);
                s.react(true, MSS, &rules);
                s.cwnd < before
            })
        };
        assert_eq!((cuts_at(false), cuts_at(true)), (Some(10), Some(11)));
    }

    #[test]
    fn gaps_are_sent_again_once_while_what_was_cut_is_not_acknowledged() {
        let rules = Settings { refill: true, ..settings() };
        let mut s = sending(10.0);
        (s.nxt, s.out.max_sent) = (6 * MSS, 6 * MSS);
        s.acked.insert(MSS, 2 * MSS);
        s.acked.insert(3 * MSS, 4 * MSS);
        // No cut: what is next is new.
        assert_eq!(s.next_packet(MSS, true), Some((6 * MSS, 7 * MSS)));
        s.cut(0.0, MSS, &rules);
        assert_eq!(s.next_packet(MSS, true), Some((0, MSS)));
        s.refilled = MSS;
        assert_eq!(s.next_packet(MSS, true), Some((2 * MSS, 3 * MSS)));
        // Beyond the highest that has arrived there is no gap.
        s.refilled = 3 * MSS;
        assert_eq!(s.next_packet(MSS, true), Some((6 * MSS, 7 * MSS)));
        // All that was in flight is acknowledged.
        (s.refilled, s.una) = (0, 6 * MSS);
        s.acked.insert(7 * MSS, 8 * MSS);
        assert_eq!(s.refill(), None);
    }

    #[test]
    fn in_order_the_window_counts_from_the_first_byte_missing() {
        let mut s = sending(4.0);
        s.nxt = 4 * MSS;
        s.acked.insert(MSS, 4 * MSS);
        // One packet is in flight, but it is the first.
        assert_eq!(s.next_packet(MSS, false), Some((4 * MSS, 5 * MSS)));
        assert_eq!(s.next_packet(MSS, true), None);
    }

    #[test]
    fn the_round_trip_is_that_of_one_packet_at_a_time() {
        let at = |us: u64| Time::ZERO + Dur::micros(us);
        let mut r = RoundTrip::default();
        r.on_sent(1000, at(0));
        // Not the one that is timed.
        r.on_sent(2000, at(50));
        r.on_acked(999, at(80));
        assert_eq!(r.smoothed, 0.0);
        // R = 100 us: SRTT = 100, RTTVAR = 50.
        r.on_acked(2000, at(100));
        assert_eq!((r.smoothed, r.variation), (1e8, 5e7));
        // R = 180 us: RTTVAR = 3/4 50 + 1/4 80 = 57.5, SRTT = 7/8 100 + 1/8 180 = 110.
        r.on_sent(3000, at(200));
        r.on_acked(3000, at(380));
        assert_eq!((r.smoothed, r.variation), (1.1e8, 5.75e7));
        assert!(r.timed.is_none());
    }
}
