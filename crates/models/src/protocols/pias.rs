//! PIAS: a flow begins in the highest of eight priorities and sinks with every threshold of bytes it has sent; its
//! window is DCTCP's (Bai, Chen, Chen, Han, Tian, Wang, NSDI 2015; read from memory).
//!
//! PIAS has its own sender, because the sender sets a packet's priority. Its window in bytes follows DCTCP's rules (RFC
//! 8257), and every packet is acknowledged with its mark. Three packets beyond a gap, or a timeout that is fixed and
//! doubles, show a loss (RFC 6675, RFC 6298 in outline). Thresholds are given; the paper computes them from the
//! distribution of sizes (section 4.1).
//!
//! With `dupacks=0`, `grow`, `kept` and `alpha=0` the sender is in outline that of the simulations of PIAS's authors in
//! ns-2 (HKUST-SING/PIAS-NS2, 0fa0b02; its `tcp-full.cc`, `tcp.cc`, `pFabric.patch` and scripts were read). Packets are
//! sprayed one by one, only a timeout finds a loss, the window grows after a cut as before it, and connections are
//! reused for later messages. Its timeout is `MinTCP`'s, always the least one (`backoff=false` without `adapt`). A
//! timeout after a cut for a mark leaves ssthresh (`halve=false`), and after five in a row it sends probes of a byte
//! (`probe=5`). Beyond slow start its window moves by whole packets (`steps`), by cumulative ACKs (`in_order`), and not
//! with the first mark of several (`burst`); it has a limit (`most`). A cut needs a mark on data sent after the last
//! cut (`later`) and retransmits what SACK shows to be missing (`refill`). A timeout retransmits everything (`again`)
//! and restarts the average of marks (`anew`). ACKs have room for SACK blocks (`blocks`), and the counters of marks
//! persist from message to message (`whole`).

mod sending;

use crate::registry::{LinkNeeds, Protocol, Suite, Wire};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use penstock_core::packet::Ecn;
use penstock_core::params::parse_size;
use penstock_core::quantity::{ALPHA, CWND};
use penstock_core::{Amount, Kind, Packet, ParamSpec, Report};
use penstock_fabric::{Cell, Scheduler, PRIORITIES};
use penstock_host::ends::{self, Incoming, Toward};
use penstock_host::messages::{End, MessageLaw, MessageStack, Messages, Write};
use penstock_host::{HostFacts, Io, Opening};
use penstock_units::{Dur, Time};
use sending::{Answer, Kept, Rest, Rules, Sending};

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
            "bytes sent after which a flow's priority falls by one, as 10KB+100KB; unset = bandwidth-delay product, doubled six times",
            "section 4.1: computed from the sizes; the default is chosen",
        ),
        ParamSpec::new("window", Kind::Count, "10", "first window in packets", "RFC 6928").range(1.0, 1e6),
        ParamSpec::new("g", Kind::Float, "0.0625", "gain of the marked-fraction average", "RFC 8257 section 4.2").range(1e-6, 1.0),
        ParamSpec::new("alpha", Kind::Float, "1", "marked-fraction average at the start", "RFC 8257 section 3.3").range(0.0, 1.0),
        ParamSpec::new(
            "k",
            Kind::Amount,
            "",
            "packets in a port, of all priorities, from which it marks; unset = bandwidth-delay product and 6 packets",
            "section 4.2: per port; the default is chosen, above DCTCP's bound of C RTT / 7",
        )
        .range(0.0, 1e12),
        ParamSpec::new(
            "rto",
            Kind::Duration,
            "",
            "retransmission timeout, doubled each time in a row; unset = the larger of 1 ms and 8 base round trips",
            "chosen",
        )
        .range(1e-6, 100.0),
        ParamSpec::new("adapt", Kind::Bool, "false", "the timeout is SRTT + 4 RTTVAR and `rto` its least value", "RFC 6298 section 2; ns-2"),
        ParamSpec::new("backoff", Kind::Bool, "true", "the timeout doubles each time in a row; false = it stays", "RFC 6298 (5.5); ns-2's MinTCP: it stays"),
        ParamSpec::new("probe", Kind::Count, "0", "consecutive timeouts from which packets have one byte until an ACK arrives; 0 = never", "ns-2: 5")
            .range(0.0, 1e6),
        ParamSpec::new("halve", Kind::Bool, "true", "a timeout halves ssthresh; false = not after a cut for a mark", "RFC 5681 section 3.1; ns-2: false"),
        ParamSpec::new("dupacks", Kind::Count, "3", "packets received beyond a gap that make it a loss; 0 = timeouts only", "RFC 6675 section 2; ns-2: none")
            .range(0.0, 1e6),
        ParamSpec::new("grow", Kind::Bool, "false", "the window grows also while what was in flight at its last cut is not acknowledged", "ns-2"),
        ParamSpec::new(
            "later",
            Kind::Bool,
            "false",
            "a further cut needs the ACK of a packet sent after the last cut or a later timeout; false = the ACK of the last packet before the cut",
            "RFC 8257 section 3.3 step 8 has a window of data; ns-2: beyond recover_",
        ),
        ParamSpec::new(
            "steps",
            Kind::Bool,
            "false",
            "congestion avoidance grows the window by a whole packet per window of ACKs, counted anew after a cut; ssthresh is whole packets, at \
            least two",
            "ns-2: windowOption_ 0",
        ),
        ParamSpec::new(
            "in_order",
            Kind::Bool,
            "false",
            "only ACKs that move the first missing byte change the window and restart the timeout; they count in the marked fraction by bytes, other \
            ACKs by one packet",
            "ns-2: its ACKs are cumulative",
        ),
        ParamSpec::new(
            "burst",
            Kind::Bool,
            "false",
            "an ACK with a mark grows the window only if the ACK before it had a mark, too",
            "ns-2: ecn_burst_",
        ),
        ParamSpec::new(
            "refill",
            Kind::Bool,
            "false",
            "after a cut or timeout, every gap is retransmitted once, until the data in flight at that time are acknowledged",
            "ns-2: a cut for a mark begins a recovery of SACK's sender, sack_rtx_bthresh_ 1",
        ),
        ParamSpec::new(
            "again",
            Kind::Bool,
            "false",
            "after a timeout, everything from the first missing byte is retransmitted; false = except data acknowledged out of order",
            "ns-2: t_seqno_ goes back, whatever SACK has said",
        ),
        ParamSpec::new(
            "anew",
            Kind::Bool,
            "false",
            "the first ACK after a timeout ends the window in which the marked fraction is counted; false = timeouts have no effect on that window",
            "ns-2: ecnhat_recalc_seq, ecnhat_maxseq",
        ),
        ParamSpec::new("most", Kind::Count, "", "the largest window in packets; unset = none", "ns-2: maxcwnd_, a packet less than a port holds")
            .range(1.0, 1e6),
        ParamSpec::new(
            "blocks",
            Kind::Count,
            "0",
            "SACK blocks in an ACK, each of eight bytes, plus two bytes for the option",
            "RFC 2018 section 3; ns-2: max_sack_blocks_ 3",
        )
        .range(0.0, 4.0),
        ParamSpec::new(
            "kept",
            Kind::Count,
            "0",
            "connections per pair of hosts, reused in turn: a message starts with the marked fraction, ssthresh and round-trip time of the message \
            before",
            "ns-2: ten",
        )
        .range(0.0, 1e6),
        ParamSpec::new(
            "whole",
            Kind::Bool,
            "false",
            "reused connections also keep the counters of the marked fraction, the last ACK's mark, and the reason for the last cut",
            "ns-2: all but cwnd_ is kept",
        ),
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
            alpha: p.float("alpha"),
            rto: p.is_set("rto").then(|| p.dur("rto")),
            adapt: p.flag("adapt"),
            kept: p.count("kept"),
            whole: p.flag("whole"),
            header: p.bytes("header").0 as u32,
            ack: p.bytes(if p.is_set("ack") { "ack" } else { "header" }).0 as u32,
            blocks: p.count("blocks") as u32,
            rules: Rules {
                g: p.float("g"),
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
                again: p.flag("again"),
                anew: p.flag("anew"),
                most: p.is_set("most").then(|| p.count("most")),
            },
        };
        let k = p.is_set("k").then(|| p.amount("k"));
        let wire = Wire { header: settings.header, ack: settings.ack };
        let suite = Suite::own(
            Arc::new(move |facts| Box::new(MessageStack(Pias::new(facts, settings.clone())))),
            wire,
            Some(Arc::new(move |facts| {
                let pipe = facts.pipe_bytes() as u64 + u64::from(HOPS * facts.packet);
                let k = match k.unwrap_or(Amount::Bytes(pipe)) {
                    Amount::Bytes(n) => format!("{n}B"),
                    Amount::Packets(n) => format!("{n}pkt"),
                };
                LinkNeeds {
                    data: u8::MAX,
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
    alpha: f64,
    rto: Option<Dur>,
    adapt: bool,
    kept: u64,
    whole: bool,
    header: u32,
    ack: u32,
    blocks: u32,
    rules: Rules,
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

/// An ACK where so many ranges have arrived beyond the first byte missing: kind and length of the option, and two edges of each block (RFC 2018
/// section 3).
fn ack_bytes(bare: u32, blocks: u32, ranges: usize) -> u32 {
    match blocks.min(ranges as u32) {
        0 => bare,
        n => bare + 2 + 8 * n,
    }
}

/// PIAS at one host.
struct Pias {
    m: Messages<Sending, Incoming>,
    s: Settings,
    rto: Dur,
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
            m: Messages::new(facts),
            rto: s.rto.unwrap_or_else(|| Dur::millis(1).max(facts.base_rtt * 8)),
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
            rest: Rest::default(),
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
    fn send_of(&mut self, io: &mut Io<'_>, conn: u32) -> Option<Cell> {
        let (mss, header, rto, rules) = (u64::from(self.m.facts.mss), self.s.header, self.rto, &self.s.rules);
        let s = self.m.ends.sender(conn)?;
        s.in_line = false;
        let (seq, end) = s.next_packet(mss, rules)?;
        let repeated = s.on_sent(seq, end, io.now, rto, rules);
        let priority = self.s.priority(seq.saturating_sub(s.base));
        let cell = s.out.data(io, (seq, end), (end - seq) as u32 + header, repeated);
        io.arena.packets[cell.packet as usize].ecn = Ecn::Ect0;
        self.settle(io.now, conn);
        Some(cell.with_priority(priority).with_ecn(Ecn::Ect0))
    }
}

impl MessageLaw for Pias {
    type Sender = Sending;
    type Receiver = Incoming;

    fn messages(&self) -> &Messages<Sending, Incoming> {
        &self.m
    }
    fn messages_mut(&mut self) -> &mut Messages<Sending, Incoming> {
        &mut self.m
    }
    fn priorities(&self) -> (u8, u8) {
        (1 << FIRST, u8::MAX)
    }

    fn sender(&mut self, _: Time, opening: &Opening) -> Sending {
        let mss = u64::from(self.m.facts.mss);
        let window = f64::from(self.s.window) * mss as f64;
        Sending::new(opening, self.connection(opening.dst), window, mss, &self.s.rules)
    }
    fn receiver(&mut self, opening: &Opening) -> Incoming {
        Incoming::new(opening)
    }
    fn on_write(&mut self, _: &mut Io<'_>, conn: u32, write: Write) {
        // A transfer on an idle connection counts anew.
        if let Some(s) = self.m.ends.sender(conn).filter(|_| write.idle) {
            s.base = write.from;
        }
    }
    fn on_remove(&mut self, conn: u32, end: End<Sending, Incoming>) {
        if let (End::Sender(s), 1..) = (end, self.s.kept) {
            let dst = s.out.opening.dst;
            self.pools.entry(dst).or_default().idle.push_back(s.kept(self.s.whole));
        }
        self.line.iter_mut().for_each(|line| line.retain(|c| *c != conn));
    }
    fn settle(&mut self, _: Time, conn: u32) {
        let mss = u64::from(self.m.facts.mss);
        let Some(s) = self.m.ends.sender(conn) else { return };
        self.m.timers.set(conn, s.rto_at);
        let next = if s.in_line { None } else { s.next_packet(mss, &self.s.rules) };
        if let Some((seq, _)) = next {
            s.in_line = true;
            let priority = self.s.priority(seq.saturating_sub(s.base));
            self.line[usize::from(priority)].push_back(conn);
        }
    }

    /// An ACK for every packet. Word 0: payload of the packet that it answers, whose first byte is in words 2 and 3.
    /// Word 4: 1 where the packet was marked.
    fn on_data(&mut self, io: &mut Io<'_>, conn: u32, data: &Packet, cell: &Cell) {
        // A packet that a switch has cut to its header is as good as lost.
        let incoming = self.m.ends.receiver(conn).filter(|_| !cell.is_trimmed());
        let Some(incoming) = incoming else { return };
        incoming.take(data, u64::from(data.payload), io.stack_events);
        let (o, next) = (incoming.opening, incoming.next);
        let bytes = ack_bytes(self.s.ack, self.s.blocks, incoming.ranges());
        let back = ends::header(io, &o, Toward::Sender, 0, bytes, FIRST).with_ecn(Ecn::Ect0);
        let ack = &mut io.arena.packets[back.packet as usize];
        (ack.seq, ack.stamp, ack.ecn) = (next, data.stamp, Ecn::Ect0);
        let marked = u32::from(cell.ecn() == Ecn::Ce);
        let words = [data.payload, 0, data.seq as u32, (data.seq >> 32) as u32, marked];
        words.into_iter().enumerate().for_each(|(i, word)| ack.set_word(i, word));
        self.m.control.push_back(back);
    }
    fn on_answer(&mut self, io: &mut Io<'_>, conn: u32, ack: &Packet, _: &Cell) {
        let (mss, rto) = (u64::from(self.m.facts.mss), self.rto);
        let Some(s) = self.m.ends.sender(conn) else { return };
        let answer = Answer {
            next: ack.seq,
            seq: u64::from(ack.word(2)) | u64::from(ack.word(3)) << 32,
            payload: u64::from(ack.word(0)),
            marked: ack.word(4) == 1,
        };
        if s.on_ack(answer, mss, rto, &self.s.rules, io.now, io.stack_events) {
            self.settle(io.now, conn);
        }
    }
    fn send(&mut self, io: &mut Io<'_>) -> Option<Cell> {
        loop {
            let conn = self.line.iter_mut().rev().find_map(VecDeque::pop_front)?;
            if let Some(cell) = self.send_of(io, conn) {
                return Some(cell);
            }
        }
    }
    fn may_send(&self) -> bool {
        self.line.iter().any(|line| !line.is_empty())
    }
    fn on_timer(&mut self, io: &mut Io<'_>, conn: u32) {
        let mss = u64::from(self.m.facts.mss);
        let Some(s) = self.m.ends.sender(conn) else { return };
        s.on_timeout(mss, self.rto, &self.s.rules, io.now, io.stack_events);
        self.settle(io.now, conn);
    }
    fn observe(&self, end: &End<Sending, Incoming>, report: &mut Report<'_>) {
        if let End::Sender(s) = end {
            report(&CWND, s.cwnd);
            report(&ALPHA, s.alpha);
        }
    }
}

#[cfg(test)]
mod tests;
