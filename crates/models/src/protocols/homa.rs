//! Homa: short messages go first, by priorities that receivers give; a receiver grants the rest of several messages at once (Montazeri, Li,
//! Alizadeh, Ousterhout, SIGCOMM 2018; read from memory).
//!
//! A connection is a message, or one after the other. Where this differs: limits of the unscheduled priorities are given or follow from
//! RTTbytes, while in the paper receivers measure the sizes of what they get (section 3.4); a receiver tells the sender that it has
//! everything, where the paper's messages are halves of remote calls and the answer tells; there is no incast control (section 3.6).

use crate::registry::{LinkNeeds, Paths, Protocol, Suite};
use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use penstock_core::packet::flag;
use penstock_core::params::parse_size;
use penstock_core::rng::Entity;
use penstock_core::tcp::{TimeoutKind, TimeoutRecord};
use penstock_core::{Kind, Packet, ParamSpec, Quantity, Report, Stream, Unit};
use penstock_fabric::{Cell, Scheduler};
use penstock_host::ends::{Alarms, Incoming, Outgoing, Seats};
use penstock_host::{Counters, HostFacts, Io, News, Opening, Stack};
use penstock_units::{Dur, Time};

static GRANTED: Quantity =
    Quantity::new("granted_bytes", Unit::Bytes, "bytes of a message that may be sent and were not");

/// GRANT, RESEND, DONE.
const CONTROL: u8 = 7;
/// Links of the longest path in a fat tree: each stores a packet before it goes on.
const HOPS: u32 = 6;

/// Homa.
pub const HOMA: Protocol = Protocol {
    name: "homa",
    text: "Homa: receivers grant and give priorities, the shortest message first; the first RTTbytes are unscheduled",
    cites: "Montazeri et al., SIGCOMM 2018 (from memory)",
    params: &[
        ParamSpec::new(
            "rtt_bytes",
            Kind::Size,
            "",
            "bytes sent unasked, and granted ahead; unset = the pipe at line rate and 6 packets, one for each link of a fat tree",
            "section 3.2: RTTbytes",
        )
        .range(1.0, 1e9),
        ParamSpec::new(
            "scheduled",
            Kind::Count,
            "4",
            "priorities of granted packets, the lowest of eight",
            "section 3.4: by the share of unscheduled bytes; 4 in W3",
        )
        .range(1.0, 7.0),
        ParamSpec::new(
            "overcommit",
            Kind::Count,
            "",
            "messages that a receiver grants at a time; unset = as many as there are priorities for them",
            "section 3.5",
        )
        .range(1.0, 1000.0),
        ParamSpec::new(
            "cutoffs",
            Kind::Text,
            "",
            "sizes up to which messages have the highest unscheduled priority, the next, ..., as 280B+1KB+4KB; unset = RTTbytes halved \
             again and again",
            "section 3.4: measured, so that each has as many bytes; halves are chosen",
        ),
        ParamSpec::new("header", Kind::Size, "60", "headers of a packet, and a control packet", "chosen: IP 20 and Homa's 40")
            .range(20.0, 1000.0),
        ParamSpec::new(
            "resend",
            Kind::Duration,
            "",
            "silence after which a receiver asks for what is missing; unset = 5 ms, or 20 base round trips where that is more",
            "section 3.7: a few ms; what waits in a low priority must not be asked for again and again",
        )
        .range(1e-6, 100.0),
    ],
    reports: &[&GRANTED],
    build: |p| {
        let scheduled = p.count("scheduled") as u8;
        let mut cutoffs = Vec::new();
        for part in p.text("cutoffs").split('+').filter(|part| !part.is_empty()) {
            match parse_size(part) {
                Some(size) if size >= 1.0 && cutoffs.last().is_none_or(|last| size > *last as f64) => {
                    cutoffs.push(size as u64);
                }
                _ => return Err(p.error("cutoffs", "must be sizes that grow, separated by +, such as 280B+1KB")),
            }
        }
        if cutoffs.len() > usize::from(7 - scheduled) {
            return Err(p.error("cutoffs", "must be one less than the priorities that are not scheduled, at most"));
        }
        let settings = Settings {
            rtt_bytes: p.is_set("rtt_bytes").then(|| p.bytes("rtt_bytes").0),
            scheduled,
            overcommit: if p.is_set("overcommit") { p.count("overcommit") as usize } else { usize::from(scheduled) },
            cutoffs,
            header: p.bytes("header").0 as u32,
            resend: p.is_set("resend").then(|| p.dur("resend")),
        };
        let suite = Suite::own(
            Arc::new(move |facts| Box::new(Homa::new(facts, settings.clone()))),
            Some(Arc::new(|_| LinkNeeds { scheduler: Scheduler::Strict, paths: Paths::BySender, ..LinkNeeds::default() })),
        );
        Ok(Suite { own_order: true, ..suite })
    },
};

#[derive(Clone, Debug)]
struct Settings {
    rtt_bytes: Option<u64>,
    scheduled: u8,
    overcommit: usize,
    cutoffs: Vec<u64>,
    header: u32,
    resend: Option<Dur>,
}

/// What a packet is: word 0. Word 1: priority for the sender (GRANT, RESEND). Words 2 and 3: end of the message (data), end of what may be sent
/// (GRANT, RESEND). Words 4 and 5: end of what may be sent (data), begin of what is missing (RESEND). `seq` of a GRANT or DONE: all below has arrived.
mod kind {
    pub const DATA: u32 = 0;
    pub const GRANT: u32 = 1;
    pub const RESEND: u32 = 2;
    pub const DONE: u32 = 3;
}

fn wide(packet: &Packet, i: usize) -> u64 {
    u64::from(packet.word(i)) | u64::from(packet.word(i + 1)) << 32
}
fn set_wide(packet: &mut Packet, i: usize, value: u64) {
    packet.set_word(i, value as u32);
    packet.set_word(i + 1, (value >> 32) as u32);
}

struct Sending {
    out: Outgoing,
    una: u64,
    nxt: u64,
    /// One past the last byte that may be sent, and that nobody had to grant.
    granted: u64,
    unscheduled: u64,
    /// Priorities of its packets before and after that.
    first: u8,
    later: u8,
    /// What the receiver misses.
    again: VecDeque<(u64, u64)>,
    /// When it makes itself heard, and how often it did in a row.
    probe_at: Time,
    probed: u32,
    listed: Option<u64>,
    rng: Stream,
}

impl Sending {
    fn may_send(&self) -> bool {
        !self.again.is_empty() || self.nxt < self.granted.min(self.out.written)
    }
}

struct Receiving {
    incoming: Incoming,
    /// End of the message as its sender says, and when it said so.
    total: u64,
    said: u64,
    /// One past the last byte that its sender may send.
    granted: u64,
    /// Its place among the messages that want grants.
    listed: Option<u64>,
    resend_at: Time,
    asked: u32,
}

enum End {
    Sending(Box<Sending>),
    Receiving(Box<Receiving>),
}

/// Homa at one host.
struct Homa {
    facts: HostFacts,
    s: Settings,
    rtt_bytes: u64,
    resend: Dur,
    ends: Seats<End>,
    alarms: Alarms,
    control: VecDeque<Cell>,
    /// Senders that may send, by what they have left.
    line: BTreeSet<(u64, u32)>,
    /// Messages that are not granted to their end, by what is missing of them.
    incoming: BTreeSet<(u64, u32)>,
}

impl Homa {
    fn new(facts: &HostFacts, mut s: Settings) -> Homa {
        let wire = facts.mss + s.header + facts.framing;
        let pipe = u64::from(facts.pipe(wire) + HOPS) * u64::from(facts.mss);
        let rtt_bytes = s.rtt_bytes.unwrap_or(pipe);
        if s.cutoffs.is_empty() {
            let levels = 7 - u32::from(s.scheduled);
            s.cutoffs = (0..levels).rev().map(|i| (rtt_bytes >> (i + 1)).max(1)).collect();
        }
        Homa {
            facts: *facts,
            rtt_bytes,
            resend: s.resend.unwrap_or_else(|| Dur::millis(5).max(facts.base_rtt * 20)),
            ends: Seats::default(),
            alarms: Alarms::default(),
            control: VecDeque::new(),
            line: BTreeSet::new(),
            incoming: BTreeSet::new(),
            s,
        }
    }
    /// Section 3.4: the smaller a message, the higher the priority of its unscheduled packets.
    fn priority_of(&self, size: u64) -> u8 {
        let class = self.s.cutoffs.iter().position(|cutoff| size <= *cutoff).unwrap_or(self.s.cutoffs.len());
        (7 - class as u8).max(self.s.scheduled)
    }
    /// Gives a sender its place in line and its alarm after something has changed.
    fn settle(&mut self, conn: u32) {
        let Some(End::Sending(s)) = self.ends.get_mut(conn) else { return };
        // Section 3.2: senders, too, send the message with the fewest bytes left first.
        let place = s.may_send().then(|| s.out.written - s.nxt);
        let was = core::mem::replace(&mut s.listed, place);
        if s.out.remaining() == 0 {
            s.probe_at = Time::NEVER;
        }
        self.alarms.set(conn, s.probe_at);
        if was != place {
            was.map(|left| self.line.remove(&(left, conn)));
            place.map(|left| self.line.insert((left, conn)));
        }
    }
    fn send(&mut self, io: &mut Io<'_>, conn: u32) -> Option<Cell> {
        let (mss, header, resend) = (u64::from(self.facts.mss), self.s.header, self.resend);
        let Some(End::Sending(s)) = self.ends.get_mut(conn) else { return None };
        let (seq, end) = match s.again.front_mut() {
            Some((from, to)) => {
                let (seq, end) = (*from, (*from + mss).min(*to));
                *from = end;
                if *from == *to {
                    s.again.pop_front();
                }
                (seq, end)
            }
            None => {
                let end = (s.nxt + mss).min(s.granted).min(s.out.written);
                let seq = s.nxt;
                s.nxt = end;
                (seq, end)
            }
        };
        let payload = (end - seq) as u32;
        let repeated = s.out.count_sent(end);
        let priority = if end <= s.unscheduled { s.first } else { s.later };
        s.probe_at = io.now + resend * (2 << s.probed.min(6));
        let (o, path) = (s.out.opening, s.rng.next_u64() as u32);
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
            ..Packet::default()
        };
        packet.set_conn(o.at_dst);
        packet.set_class(o.class);
        packet.set_word(0, kind::DATA);
        set_wide(packet, 2, s.out.written);
        set_wide(packet, 4, s.granted);
        let mut cell =
            Cell::new(slot, wire).with_priority(priority).with_class(o.class).with_payload().with_noise();
        (cell.to, cell.entropy) = (o.dst, path);
        self.settle(conn);
        Some(cell)
    }
    /// A control packet from a receiving end to its sender.
    fn tell(&mut self, io: &mut Io<'_>, conn: u32, what: u32, priority: u8, missing: (u64, u64)) {
        let Some(End::Receiving(r)) = self.ends.get(conn) else { return };
        let o = r.incoming.opening;
        let slot = io.arena.alloc();
        let packet = &mut io.arena.packets[slot as usize];
        *packet = Packet {
            seq: r.incoming.next,
            flow: o.flow.0,
            wire_len: self.s.header,
            flags: flag::ACK,
            ..Packet::default()
        };
        packet.set_conn(o.at_src);
        packet.set_class(o.class);
        packet.set_word(0, what);
        packet.set_word(1, u32::from(priority));
        set_wide(packet, 2, missing.1);
        set_wide(packet, 4, missing.0);
        let mut cell = Cell::new(slot, self.s.header).with_priority(CONTROL).with_class(o.class);
        (cell.to, cell.entropy) = (o.src, o.back.wrapping_add(slot));
        self.control.push_back(cell);
    }
    /// Section 3.5: the messages with the fewest bytes missing are granted RTTbytes ahead, each with a priority of its own, of which
    /// the lowest that suffice are used.
    fn grant(&mut self, io: &mut Io<'_>) {
        let chosen: Vec<u32> = self.incoming.iter().take(self.s.overcommit).map(|(_, conn)| *conn).collect();
        let levels = chosen.len().min(usize::from(self.s.scheduled));
        for (i, conn) in chosen.into_iter().enumerate() {
            let Some(End::Receiving(r)) = self.ends.get_mut(conn) else { continue };
            let received = r.total - r.incoming.missing_below(r.total);
            let to = (received + self.rtt_bytes).min(r.total);
            if to <= r.granted {
                continue;
            }
            r.granted = to;
            if to == r.total {
                let was = r.listed.take();
                was.map(|left| self.incoming.remove(&(left, conn)));
            }
            self.tell(io, conn, kind::GRANT, levels.saturating_sub(i + 1) as u8, (0, to));
        }
    }
    fn on_data(&mut self, io: &mut Io<'_>, conn: u32, packet: &Packet) {
        let resend = self.resend;
        let Some(End::Receiving(r)) = self.ends.get_mut(conn) else { return };
        r.incoming.take(packet.seq, u64::from(packet.payload), io.news);
        if packet.stamp >= r.said {
            (r.said, r.total) = (packet.stamp, wide(packet, 2));
        }
        r.granted = r.granted.max(wide(packet, 4));
        let missing = r.incoming.missing_below(r.total);
        let place = (r.granted < r.total).then_some(missing);
        let was = core::mem::replace(&mut r.listed, place);
        r.asked = 0;
        r.resend_at = if missing > 0 { io.now + resend } else { Time::NEVER };
        self.alarms.set(conn, r.resend_at);
        if was != place {
            was.map(|left| self.incoming.remove(&(left, conn)));
            place.map(|left| self.incoming.insert((left, conn)));
        }
        if missing == 0 {
            self.tell(io, conn, kind::DONE, 0, (0, 0));
        }
        self.grant(io);
    }
    fn on_answer(&mut self, io: &mut Io<'_>, conn: u32, packet: &Packet) {
        let resend = self.resend;
        let Some(End::Sending(s)) = self.ends.get_mut(conn) else { return };
        s.una = s.una.max(packet.seq);
        s.probed = 0;
        s.probe_at = io.now + resend * 2;
        match packet.word(0) {
            kind::GRANT => {
                s.granted = s.granted.max(wide(packet, 2));
                s.later = packet.word(1) as u8;
            }
            kind::RESEND => {
                let (from, to) = (wide(packet, 4), wide(packet, 2));
                s.granted = s.granted.max(to);
                // What was not sent yet comes by itself.
                let to = to.min(s.nxt);
                if from < to {
                    s.again.clear();
                    s.again.push_back((from, to));
                    s.out.counters.fast_retransmits += 1;
                }
            }
            _ => {}
        }
        let una = s.una;
        s.again.retain(|(_, to)| *to > una);
        s.out.acked(una, io.news);
        self.settle(conn);
    }
}

impl Stack for Homa {
    fn open(&mut self, _: &mut Io<'_>, opening: &Opening) {
        let rng = Stream::new(self.facts.seed, self.facts.run, Entity::Sender, u64::from(opening.flow.0));
        let sending = Sending {
            out: Outgoing::new(opening),
            una: 0,
            nxt: 0,
            granted: 0,
            unscheduled: 0,
            first: 0,
            later: 0,
            again: VecDeque::new(),
            probe_at: Time::NEVER,
            probed: 0,
            listed: None,
            rng,
        };
        self.ends.put(opening.at_src, End::Sending(Box::new(sending)));
    }
    fn listen(&mut self, _: &mut Io<'_>, opening: &Opening) {
        let receiving = Receiving {
            incoming: Incoming::new(opening),
            total: 0,
            said: 0,
            granted: 0,
            listed: None,
            resend_at: Time::NEVER,
            asked: 0,
        };
        self.ends.put(opening.at_dst, End::Receiving(Box::new(receiving)));
    }
    fn accept(&mut self, io: &mut Io<'_>, conn: u32, bytes: u64) {
        let (ahead, first) = (self.rtt_bytes, self.priority_of(bytes));
        let resend = self.resend;
        let Some(End::Sending(s)) = self.ends.get_mut(conn) else { return };
        // A message on an idle connection begins with RTTbytes that nobody has granted.
        if s.una == s.out.written {
            s.unscheduled = s.out.written.saturating_add(ahead.min(bytes));
            s.granted = s.granted.max(s.unscheduled);
            s.first = first;
        }
        s.out.accept(bytes);
        s.probe_at = io.now + resend * 2;
        self.settle(conn);
    }
    fn expect(&mut self, conn: u32, end: u64) {
        if let Some(End::Receiving(r)) = self.ends.get_mut(conn) {
            r.incoming.expect(end);
        }
    }
    fn close(&mut self, io: &mut Io<'_>, conn: u32) {
        if let Some(End::Sending(s)) = self.ends.get_mut(conn) {
            s.out.close(io.news);
        }
    }
    fn leave(&mut self, io: &mut Io<'_>, conn: u32) {
        let mss = u64::from(self.facts.mss);
        if let Some(End::Sending(s)) = self.ends.get_mut(conn) {
            s.out.leave(io.news);
            // The receiver has to hear that the message is shorter.
            if s.una < s.out.written {
                s.again.push_back((s.una, (s.una + mss).min(s.out.written)));
            }
        }
        self.settle(conn);
    }
    fn forget(&mut self, _: &mut Io<'_>, conn: u32) {
        match self.ends.take(conn) {
            Some(End::Sending(s)) => _ = s.listed.map(|left| self.line.remove(&(left, conn))),
            Some(End::Receiving(r)) => _ = r.listed.map(|left| self.incoming.remove(&(left, conn))),
            None => {}
        }
        self.alarms.set(conn, Time::NEVER);
    }
    fn receive(&mut self, io: &mut Io<'_>, cell: &Cell) {
        let packet = io.arena.packets[cell.packet as usize];
        let conn = packet.conn();
        let is_data = packet.word(0) == kind::DATA;
        match self.ends.get(conn) {
            Some(End::Sending(s)) if !is_data && s.out.opening.flow.0 == packet.flow => {
                self.on_answer(io, conn, &packet);
            }
            // What a switch has cut to its header is as good as lost.
            Some(End::Receiving(r))
                if is_data && r.incoming.opening.flow.0 == packet.flow && !cell.is_trimmed() =>
            {
                self.on_data(io, conn, &packet);
            }
            _ => {}
        }
        io.arena.release(cell.packet);
    }
    fn pull(&mut self, io: &mut Io<'_>) -> Option<Cell> {
        if io.paused & (1 << CONTROL) == 0 {
            if let Some(cell) = self.control.pop_front() {
                return Some(cell);
            }
        }
        // Priorities of data are many: what is paused of them holds all data back.
        if io.paused & !(1 << CONTROL) != 0 {
            return None;
        }
        let (_, conn) = *self.line.first()?;
        self.send(io, conn)
    }
    fn ready(&self, paused: u8) -> Time {
        let control = paused & (1 << CONTROL) == 0 && !self.control.is_empty();
        let data = paused & !(1 << CONTROL) == 0 && !self.line.is_empty();
        if control || data {
            Time::ZERO
        } else {
            Time::NEVER
        }
    }
    fn deadline(&self) -> Time {
        self.alarms.first()
    }
    fn on_deadline(&mut self, io: &mut Io<'_>) {
        let (mss, resend) = (u64::from(self.facts.mss), self.resend);
        while let Some(conn) = self.alarms.due(io.now) {
            match self.ends.get_mut(conn) {
                // Section 3.7: the receiver asks for the first gap, as far as it was granted.
                Some(End::Receiving(r)) => {
                    let end = r.granted.min(r.total);
                    r.asked += 1;
                    r.resend_at = io.now + resend * (1 << r.asked.min(6));
                    self.alarms.set(conn, r.resend_at);
                    if let Some(gap) = r.incoming.first_gap(end) {
                        self.tell(io, conn, kind::RESEND, 0, gap);
                    }
                }
                // Nothing was heard: the receiver may know nothing of the message, or its DONE was lost.
                Some(End::Sending(s)) => {
                    s.probed += 1;
                    s.probe_at = io.now + resend * (2 << s.probed.min(6));
                    let end = (s.una + mss).min(s.nxt);
                    if s.again.is_empty() && s.una < end {
                        s.again.push_back((s.una, end));
                        s.out.counters.timeouts += 1;
                        let record = TimeoutRecord {
                            kind: if s.probed > 1 { TimeoutKind::Repeated } else { TimeoutKind::WindowLost },
                            block_start: s.una == 0,
                            block_offset: s.una,
                            outstanding: s.nxt - s.una,
                            cwnd: s.granted - s.una.min(s.granted),
                            rto: resend * 2,
                            in_a_row: s.probed,
                        };
                        io.news.push(News::Timeout {
                            flow: s.out.opening.flow,
                            max_sent: s.out.max_sent,
                            record,
                        });
                    }
                    self.settle(conn);
                }
                None => {}
            }
        }
    }
    fn queued(&self) -> u64 {
        self.control.len() as u64
    }
    fn counters(&self, conn: u32) -> Counters {
        match self.ends.get(conn) {
            Some(End::Sending(s)) => s.out.counters,
            Some(End::Receiving(r)) => r.incoming.counters,
            None => Counters::default(),
        }
    }
    fn missing_below(&self, conn: u32, end: u64) -> u64 {
        match self.ends.get(conn) {
            Some(End::Receiving(r)) => r.incoming.missing_below(end),
            _ => 0,
        }
    }
    fn observe(&self, conn: u32, report: &mut Report<'_>) {
        if let Some(End::Sending(s)) = self.ends.get(conn) {
            report(&GRANTED, s.granted.min(s.out.written).saturating_sub(s.nxt) as f64);
        }
    }
}
