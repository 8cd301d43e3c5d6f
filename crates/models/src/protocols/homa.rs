//! Homa: short messages go first, by priorities that receivers assign; a receiver grants the rest of several messages
//! at the same time (Montazeri, Li, Alizadeh, Ousterhout, SIGCOMM 2018; read from memory).
//!
//! A connection is a message, or several in sequence. Three things differ from the paper. Limits of the unscheduled
//! priorities are given or follow from RTTbytes; in the paper receivers measure message sizes (section 3.4;
//! `penstock.models.homa` computes limits from a distribution). A receiver reports a complete message, or three at a
//! time with `done_after`; the paper's messages are halves of remote calls, whose answer is the report. There is no
//! incast control (section 3.6).
//!
//! `unscheduled_by=remaining` and `tail` are rules of the authors' simulator (PlatformLab/HomaSimulation, `PriorityResolver.cc` at d08b662
//! and `HomaTransport.cc` at 3299a51), which the paper does not have; read, not copied.
//!
//! Above 600 lines: a protocol is one file, and this one is a whole transport.

use crate::registry::{LinkNeeds, Paths, Protocol, Suite, Wire};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use penstock_core::params::parse_size;
use penstock_core::{Kind, Packet, ParamSpec, Quantity, Report, Stream, Unit};
use penstock_fabric::{Cell, Scheduler};
use penstock_host::ends::{self, set_rank, Incoming, Outgoing, Timeout, Toward};
use penstock_host::messages::{End, MessageLaw, MessageStack, Messages, Write};
use penstock_host::{HostFacts, Io, Opening};
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
            "unscheduled bytes, and bytes granted in advance; unset = bandwidth-delay product and 6 packets, one per link of a fat tree",
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
            "messages that a receiver grants at the same time; unset = the number of scheduled priorities",
            "section 3.5",
        )
        .range(1.0, 1000.0),
        ParamSpec::new(
            "grant_levels",
            Kind::Choice(&["lowest", "highest"]),
            "lowest",
            "priorities of granted messages if there are fewer messages than priorities: the lowest, so that a higher one is free for a shorter \
            message, or the highest",
            "section 3.4: the lowest; the authors' simulator and HomaModule too",
        ),
        ParamSpec::new(
            "cutoffs",
            Kind::Text,
            "",
            "largest message size of each unscheduled priority, highest first, as 280B+1KB+4KB; unset = RTTbytes, halved repeatedly",
            "section 3.4: measured, so that each has as many bytes; halves are chosen",
        ),
        ParamSpec::new(
            "unscheduled_by",
            Kind::Choice(&["message", "remaining"]),
            "message",
            "priority of an unscheduled packet: by the size of its message, or by the bytes it has left",
            "section 3.4: the message; the authors' simulator: what is left",
        ),
        ParamSpec::new(
            "tail",
            Kind::Size,
            "",
            "a message with less than this ungranted gets the priority of an unscheduled message of that size; unset = never",
            "the authors' simulator: RTTbytes",
        )
        .range(1.0, 1e9),
        ParamSpec::new("header", Kind::Size, "60", "headers of a packet", "chosen: IP 20 and Homa's 40").range(20.0, 1000.0),
        ParamSpec::new("control", Kind::Size, "", "a control packet; unset = as the headers of a packet", "").range(20.0, 1000.0),
        ParamSpec::new(
            "done_after",
            Kind::Duration,
            "0s",
            "longest delay of a receiver's report of complete messages, sent at the lowest priority for up to three of a sender; 0s = each at once, \
            at the highest priority",
            "chosen; acknowledgements of Homa/Linux tell of several messages, too",
        )
        .range(0.0, 1.0),
        ParamSpec::new(
            "resend",
            Kind::Duration,
            "",
            "time without data after which a receiver requests missing data; unset = the larger of 5 ms and 20 base round trips",
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
            highest: p.text("grant_levels") == "highest",
            cutoffs,
            by_remaining: p.text("unscheduled_by") == "remaining",
            tail: if p.is_set("tail") { p.bytes("tail").0 } else { 0 },
            header: p.bytes("header").0 as u32,
            control: p.bytes(if p.is_set("control") { "control" } else { "header" }).0 as u32,
            done_after: p.dur("done_after"),
            resend: p.is_set("resend").then(|| p.dur("resend")),
        };
        let wire = Wire { header: settings.header, ack: settings.control };
        let suite = Suite::own(
            Arc::new(move |facts| Box::new(MessageStack(Homa::new(facts, settings.clone())))),
            wire,
            Some(Arc::new(|_| LinkNeeds { scheduler: Scheduler::Strict, data: u8::MAX, paths: Paths::BySender, ..LinkNeeds::default() })),
        );
        Ok(Suite { own_order: true, ..suite })
    },
};

#[derive(Clone, Debug)]
struct Settings {
    rtt_bytes: Option<u64>,
    scheduled: u8,
    overcommit: usize,
    highest: bool,
    cutoffs: Vec<u64>,
    by_remaining: bool,
    tail: u64,
    header: u32,
    control: u32,
    done_after: Dur,
    resend: Option<Dur>,
}

impl Settings {
    /// Section 3.4: the smaller a message, the higher the priority of its unscheduled packets.
    fn priority_of(&self, size: u64) -> u8 {
        let class = self.cutoffs.iter().position(|cutoff| size <= *cutoff).unwrap_or(self.cutoffs.len());
        (7 - class as u8).max(self.scheduled)
    }
}

/// What a packet is: word 0. Word 1: priority for the sender (GRANT, RESEND). Words 2 and 3: end of the message (data), end of what may be sent
/// (GRANT, RESEND). Words 4 and 5: end of what may be sent (data), begin of what is missing (RESEND). `seq` of a GRANT or DONE: all below has arrived.
/// A DONE tells of up to three messages: word 1 has how many more; handle, number and end are in words 2, 3, 4 and in word 5, `window`, `stamp`.
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
    /// One past the last byte that may be sent, and one past the last unscheduled byte.
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

/// A complete message, as its sender is told.
#[derive(Clone, Copy)]
struct Done {
    opening: Opening,
    next: u64,
}
/// Messages that one DONE tells of.
const DONES: usize = 3;

penstock_host::ends!(Sending { out }, Receiving { incoming });

/// Homa at one host.
struct Homa {
    m: Messages<Sending, Receiving>,
    s: Settings,
    rtt_bytes: u64,
    resend: Dur,
    /// DONEs that wait until there is nothing else to send; complete messages by sender that are not told of yet; and until when.
    low: VecDeque<Cell>,
    done: BTreeMap<u32, Vec<Done>>,
    /// The sending end of each connection of which a DONE for another may tell: its receiver knows the flow, but not the handle of its sender.
    by_flow: BTreeMap<u32, u32>,
    tell_at: VecDeque<(Time, u32)>,
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
            m: Messages::new(facts),
            rtt_bytes,
            resend: s.resend.unwrap_or_else(|| Dur::millis(5).max(facts.base_rtt * 20)),
            low: VecDeque::new(),
            done: BTreeMap::new(),
            by_flow: BTreeMap::new(),
            tell_at: VecDeque::new(),
            line: BTreeSet::new(),
            incoming: BTreeSet::new(),
            s,
        }
    }
    fn send_of(&mut self, io: &mut Io<'_>, conn: u32) -> Option<Cell> {
        let (mss, header, resend) = (u64::from(self.m.facts.mss), self.s.header, self.resend);
        let s = self.m.ends.sender(conn)?;
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
        let repeated = s.out.count_sent(end);
        s.probe_at = io.now + resend * (2 << s.probed.min(6));
        let path = s.rng.next_u64() as u32;
        let priority = match end <= s.unscheduled {
            true if self.s.by_remaining => self.s.priority_of(s.out.written - seq),
            true => s.first,
            false => s.later,
        };
        let mut cell =
            s.out.data(io, (seq, end), (end - seq) as u32 + header, repeated).with_priority(priority);
        cell.entropy = path;
        let packet = &mut io.arena.packets[cell.packet as usize];
        packet.set_word(0, kind::DATA);
        set_wide(packet, 2, s.out.written);
        set_wide(packet, 4, s.granted);
        self.settle(io.now, conn);
        Some(cell)
    }
    /// A control packet from a receiving end to its sender.
    fn tell(&mut self, io: &mut Io<'_>, conn: u32, what: u32, priority: u8, missing: (u64, u64)) {
        let Some(r) = self.m.ends.receiver(conn) else { return };
        let (o, turn) = (r.incoming.opening, r.incoming.turn());
        let cell = ends::header(io, &o, Toward::Sender, turn, self.s.control, CONTROL);
        let packet = &mut io.arena.packets[cell.packet as usize];
        packet.seq = r.incoming.next;
        packet.set_word(0, what);
        packet.set_word(1, u32::from(priority));
        set_wide(packet, 2, missing.1);
        set_wide(packet, 4, missing.0);
        self.m.control.push_back(cell);
    }
    /// A message is complete: its sender is told, at once or with others.
    fn finish(&mut self, io: &mut Io<'_>, conn: u32) {
        if self.s.done_after == Dur::ZERO {
            return self.tell(io, conn, kind::DONE, 0, (0, 0));
        }
        let Some(r) = self.m.ends.receiver(conn) else { return };
        let (opening, next) = (r.incoming.opening, r.incoming.next);
        let waiting = self.done.entry(opening.src).or_default();
        waiting.push(Done { opening, next });
        if waiting.len() == DONES {
            self.tell_of(io, opening.src);
        } else if waiting.len() == 1 {
            self.tell_at.push_back((io.now + self.s.done_after, opening.src));
        }
    }
    /// A DONE about the complete messages of a sender.
    fn tell_of(&mut self, io: &mut Io<'_>, src: u32) {
        let Some(dones) = self.done.remove(&src) else { return };
        let bytes = self.s.control + 12 * (dones.len() as u32 - 1);
        let cell = ends::header(io, &dones[0].opening, Toward::Sender, 0, bytes, 0);
        let packet = &mut io.arena.packets[cell.packet as usize];
        packet.seq = dones[0].next;
        packet.set_word(0, kind::DONE);
        packet.set_word(1, dones.len() as u32 - 1);
        if let Some(second) = dones.get(1) {
            packet.set_word(3, second.opening.flow.0);
            packet.set_word(4, second.next as u32);
        }
        if let Some(third) = dones.get(2) {
            packet.window = third.opening.flow.0;
            packet.stamp = third.next;
        }
        self.low.push_back(cell);
    }
    /// A message of this host is complete; of its end only the lower half may be known.
    fn hear_done(&mut self, io: &mut Io<'_>, flow: u32, end: u32) {
        let Some(conn) = self.by_flow.get(&flow).copied() else { return };
        let Some(s) = self.m.ends.sender(conn) else { return };
        let more = end.wrapping_sub(s.una as u32);
        s.una += if s.una + u64::from(more) <= s.out.written { u64::from(more) } else { 0 };
        let una = s.una;
        s.again.retain(|(_, to)| *to > una);
        s.out.acked(una, io.stack_events);
        self.settle(io.now, conn);
    }
    /// Section 3.5: the messages with the fewest bytes missing, one of each sender, are granted RTTbytes ahead, each with a priority of
    /// its own, of which the lowest that suffice are used.
    fn grant(&mut self, io: &mut Io<'_>) {
        let (mut chosen, mut senders): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
        for (_, conn) in &self.incoming {
            if let Some(r) = self.m.ends.receiver(*conn) {
                let src = r.incoming.opening.src;
                if !senders.contains(&src) {
                    senders.push(src);
                    chosen.push(*conn);
                }
            }
            if chosen.len() == self.s.overcommit {
                break;
            }
        }
        let levels = chosen.len().min(usize::from(self.s.scheduled));
        for (i, conn) in chosen.into_iter().enumerate() {
            let Some(r) = self.m.ends.receiver(conn) else { continue };
            let received = r.total - r.incoming.missing_below(r.total);
            let to = (received + self.rtt_bytes).min(r.total);
            if to <= r.granted {
                continue;
            }
            let left = r.total - r.granted;
            r.granted = to;
            if to == r.total {
                set_rank(&mut self.incoming, &mut r.listed, None, conn);
            }
            let levels = if self.s.highest { usize::from(self.s.scheduled) } else { levels };
            let level = levels.saturating_sub(i + 1) as u8;
            let priority = if left < self.s.tail { level.max(self.s.priority_of(left)) } else { level };
            self.tell(io, conn, kind::GRANT, priority, (0, to));
        }
    }
}

impl MessageLaw for Homa {
    type Sender = Sending;
    type Receiver = Receiving;

    fn messages(&self) -> &Messages<Sending, Receiving> {
        &self.m
    }
    fn messages_mut(&mut self) -> &mut Messages<Sending, Receiving> {
        &mut self.m
    }
    fn priorities(&self) -> (u8, u8) {
        (1 << CONTROL, !(1 << CONTROL))
    }

    fn sender(&mut self, _: Time, opening: &Opening) -> Sending {
        let rng = self.m.facts.stream(opening);
        Sending {
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
        }
    }
    fn receiver(&mut self, opening: &Opening) -> Receiving {
        Receiving {
            incoming: Incoming::new(opening),
            total: 0,
            said: 0,
            granted: 0,
            listed: None,
            resend_at: Time::NEVER,
            asked: 0,
        }
    }
    fn on_write(&mut self, io: &mut Io<'_>, conn: u32, write: Write) {
        let Some(s) = self.m.ends.sender(conn) else { return };
        // A message begins with RTTbytes without a grant, unless a packet of an earlier one is still to be sent: that tells the receiver of it.
        if write.idle || s.nxt >= write.from {
            s.unscheduled = write.from.saturating_add(self.rtt_bytes.min(write.bytes));
            s.granted = s.granted.max(s.unscheduled);
            s.first = self.s.priority_of(write.bytes);
        }
        s.probe_at = io.now + self.resend * 2;
        if self.s.done_after > Dur::ZERO {
            self.by_flow.insert(s.out.opening.flow.0, conn);
        }
    }
    fn on_abort(&mut self, _: &mut Io<'_>, conn: u32, _: u64) {
        let mss = u64::from(self.m.facts.mss);
        let Some(s) = self.m.ends.sender(conn) else { return };
        // The receiver has to hear that the message is shorter.
        if s.una < s.out.written {
            s.again.push_back((s.una, (s.una + mss).min(s.out.written)));
        }
    }
    fn on_remove(&mut self, conn: u32, end: End<Sending, Receiving>) {
        match end {
            End::Sender(mut s) => {
                set_rank(&mut self.line, &mut s.listed, None, conn);
                self.by_flow.remove(&s.out.opening.flow.0);
            }
            End::Receiver(mut r) => set_rank(&mut self.incoming, &mut r.listed, None, conn),
        }
    }
    fn settle(&mut self, _: Time, conn: u32) {
        let Some(s) = self.m.ends.sender(conn) else { return };
        if s.out.remaining() == 0 {
            s.probe_at = Time::NEVER;
        }
        self.m.timers.set(conn, s.probe_at);
        // Section 3.2: senders, too, send the message with the fewest bytes left first.
        let place = s.may_send().then(|| s.out.written - s.nxt);
        set_rank(&mut self.line, &mut s.listed, place, conn);
    }

    fn on_data(&mut self, io: &mut Io<'_>, conn: u32, packet: &Packet, cell: &Cell) {
        // A packet that a switch has cut to its header is as good as lost.
        if cell.is_trimmed() {
            return;
        }
        let resend = self.resend;
        let Some(r) = self.m.ends.receiver(conn) else { return };
        r.incoming.take(packet, u64::from(packet.payload), io.stack_events);
        if packet.stamp >= r.said {
            (r.said, r.total) = (packet.stamp, wide(packet, 2));
        }
        r.granted = r.granted.max(wide(packet, 4));
        let missing = r.incoming.missing_below(r.total);
        let place = (r.granted < r.total).then_some(missing);
        set_rank(&mut self.incoming, &mut r.listed, place, conn);
        r.asked = 0;
        r.resend_at = if missing > 0 { io.now + resend } else { Time::NEVER };
        self.m.timers.set(conn, r.resend_at);
        if missing == 0 {
            self.finish(io, conn);
        }
        self.grant(io);
    }
    fn on_answer(&mut self, io: &mut Io<'_>, conn: u32, packet: &Packet, _: &Cell) {
        let resend = self.resend;
        self.on_stray(io, packet);
        let Some(s) = self.m.ends.sender(conn) else { return };
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
        s.out.acked(una, io.stack_events);
        self.settle(io.now, conn);
    }
    /// A DONE may be for others, too.
    fn on_stray(&mut self, io: &mut Io<'_>, packet: &Packet) {
        if packet.word(0) == kind::DONE && packet.word(1) > 0 {
            self.hear_done(io, packet.word(3), packet.word(4));
            if packet.word(1) > 1 {
                self.hear_done(io, packet.window, packet.stamp as u32);
            }
        }
    }
    fn send(&mut self, io: &mut Io<'_>) -> Option<Cell> {
        match self.line.first() {
            Some((_, conn)) => self.send_of(io, *conn),
            None => self.low.pop_front(),
        }
    }
    fn may_send(&self) -> bool {
        !(self.line.is_empty() && self.low.is_empty())
    }
    fn host_timer(&self) -> Time {
        self.tell_at.front().map_or(Time::NEVER, |(at, _)| *at)
    }
    fn on_host_timer(&mut self, io: &mut Io<'_>) {
        while let Some((_, src)) = self.tell_at.front().copied().filter(|(at, _)| *at <= io.now) {
            self.tell_at.pop_front();
            self.tell_of(io, src);
        }
    }
    fn on_timer(&mut self, io: &mut Io<'_>, conn: u32) {
        let (mss, resend) = (u64::from(self.m.facts.mss), self.resend);
        if let Some(r) = self.m.ends.receiver(conn) {
            // Section 3.7: the receiver asks for the first gap, as far as it was granted.
            let end = r.granted.min(r.total);
            r.asked += 1;
            r.resend_at = io.now + resend * (1 << r.asked.min(6));
            self.m.timers.set(conn, r.resend_at);
            if let Some(gap) = r.incoming.first_gap(end) {
                self.tell(io, conn, kind::RESEND, 0, gap);
            }
        } else if let Some(s) = self.m.ends.sender(conn) {
            // Nothing was heard: the receiver may know nothing of the message, or its DONE was lost.
            s.probed += 1;
            s.probe_at = io.now + resend * (2 << s.probed.min(6));
            let end = (s.una + mss).min(s.nxt);
            if s.again.is_empty() && s.una < end {
                s.again.push_back((s.una, end));
                let timeout = Timeout {
                    from: s.una,
                    lost: s.una,
                    outstanding: s.nxt - s.una,
                    cwnd: s.granted - s.una.min(s.granted),
                    rto: resend * 2,
                    in_a_row: s.probed,
                };
                s.out.timed_out(&timeout, io.stack_events);
            }
            self.settle(io.now, conn);
        }
    }
    fn waiting(&self) -> usize {
        self.low.len()
    }
    fn observe(&self, end: &End<Sending, Receiving>, report: &mut Report<'_>) {
        if let End::Sender(s) = end {
            report(&GRANTED, s.granted.min(s.out.written).saturating_sub(s.nxt) as f64);
        }
    }
}
