//! pFabric: switches serve and keep the packets of the flows with the least left to send; hosts begin at line rate and
//! only time out (Alizadeh et al., SIGCOMM 2013; read from memory).

use crate::registry::{LinkNeeds, Protocol, Suite, Wire};
use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::sync::Arc;
use penstock_core::packet::flag;
use penstock_core::quantity::CWND;
use penstock_core::tcp::{Ranges, TimeoutKind, TimeoutRecord};
use penstock_core::{Amount, Kind, Packet, ParamSpec, Quantity, Report, Unit};
use penstock_fabric::{Cell, Scheduler};
use penstock_host::ends::{Alarms, Incoming, Outgoing, Seats};
use penstock_host::{Counters, HostFacts, Io, News, Opening, Stack};
use penstock_units::{Bytes, Dur, Time};

static REMAINING: Quantity =
    Quantity::new("remaining_bytes", Unit::Bytes, "bytes of a flow not acknowledged: its priority");

/// Links of the longest path in a fat tree: each stores a packet before it goes on, which the base round trip may leave out.
const HOPS: u32 = 6;

/// pFabric.
pub const PFABRIC: Protocol = Protocol {
    name: "pfabric",
    text: "pFabric: the flow with the least left to send goes first and is dropped last; \
             minimal rate control",
    cites: "Alizadeh et al., SIGCOMM 2013 (from memory)",
    params: &[
        ParamSpec::new(
            "window",
            Kind::Count,
            "",
            "initial and largest window in packets; unset = bandwidth-delay product and 6 packets, one stored per link of a fat tree",
            "section 4.3: a bandwidth-delay product",
        )
        .range(1.0, 1e6),
        ParamSpec::new(
            "rto",
            Kind::Duration,
            "",
            "retransmission timeout, never backed off; unset = 3 round trips, each the base \
             one and 6 packets",
            "section 5: 45 us where the round trip is 14.6 us",
        )
        .range(1e-6, 100.0),
        ParamSpec::new(
            "probe_after",
            Kind::Count,
            "5",
            "timeouts in a row after which a flow only probes",
            "section 4.3; the number is that of the authors' simulations",
        )
        .range(1.0, 1e6),
        ParamSpec::new(
            "header",
            Kind::Size,
            "40",
            "headers of a packet, without link framing; a probe has only these",
            "section 4.3: of TCP's size",
        )
        .range(20.0, 1000.0),
        ParamSpec::new("ack", Kind::Size, "", "an ACK; unset = as the headers of a packet", "")
            .range(20.0, 1000.0),
        ParamSpec::new(
            "buffer",
            Kind::Amount,
            "",
            "buffer of a port; unset = twice the window's default",
            "section 4.2",
        )
        .range(1.0, 1e12),
    ],
    reports: &[&CWND, &REMAINING],
    build: |p| {
        let settings = Settings {
            window: p.is_set("window").then(|| p.count("window") as u32),
            rto: p.is_set("rto").then(|| p.dur("rto")),
            probe_after: p.count("probe_after") as u32,
            header: p.bytes("header").0 as u32,
            ack: p.bytes(if p.is_set("ack") { "ack" } else { "header" }).0 as u32,
        };
        let buffer = p.is_set("buffer").then(|| p.amount("buffer"));
        let suite = Suite::own(
            Arc::new(move |facts| Box::new(PFabric::new(facts, settings))),
            Wire { header: settings.header, ack: settings.ack },
            Some(Arc::new(move |facts| {
                let pipe = facts.pipe_bytes() as u64 + u64::from(HOPS * facts.packet);
                let limit = buffer.unwrap_or(Amount::Bytes(2 * pipe));
                LinkNeeds { scheduler: Scheduler::Rank, limit: Some(limit), data: 1, ..LinkNeeds::default() }
            })),
        );
        Ok(Suite { own_order: true, ..suite })
    },
};

#[derive(Clone, Copy, Debug)]
struct Settings {
    window: Option<u32>,
    rto: Option<Dur>,
    probe_after: u32,
    header: u32,
    ack: u32,
}

/// Word 0 of an ACK: payload of the packet that it answers, whose first byte is in words 2 and 3. Word 1: 1 for a packet back.
const BACK: u32 = 1;

struct Sending {
    out: Outgoing,
    una: u64,
    nxt: u64,
    /// Acknowledged beyond `una`.
    acked: Ranges,
    /// In packets, as TCP's in slow start and congestion avoidance.
    cwnd: f64,
    ssthresh: f64,
    rto_at: Time,
    timeouts_in_a_row: u32,
    /// It only sends probes; this one is still to be sent.
    probing: bool,
    probe_due: bool,
    /// What it stands in line with.
    listed: Option<u64>,
}

impl Sending {
    /// Where the next packet begins and ends: the first byte from `nxt` on that was not acknowledged.
    fn next_packet(&self, mss: u32) -> Option<(u64, u64)> {
        let seq = self.acked.first_gap(self.nxt);
        let stop = self.acked.next_start(seq).unwrap_or(u64::MAX).min(self.out.written);
        let end = stop.min(seq.saturating_add(u64::from(mss)));
        let window = (self.cwnd as u64).max(1) * u64::from(mss);
        (seq < end && end <= self.una + window).then_some((seq, end))
    }
    fn may_send(&self, mss: u32) -> bool {
        if self.probing {
            self.probe_due
        } else {
            self.next_packet(mss).is_some()
        }
    }
    /// What the packet carries for switches: bytes of the flow that are not known to be delivered (section 4.1).
    fn rank(&self) -> u32 {
        let size = self.out.opening.bytes.max(self.out.written);
        (size - self.una.min(size)).min(u64::from(u32::MAX)) as u32
    }
}

enum End {
    Sending(Box<Sending>),
    Receiving(Box<Incoming>),
}

/// pFabric at one host.
struct PFabric {
    facts: HostFacts,
    settings: Settings,
    window: f64,
    rto: Dur,
    ends: Seats<End>,
    alarms: Alarms,
    acks: VecDeque<Cell>,
    /// Senders that may send, by what they have left: a host serves as its switches do (section 4.3), whatever the
    /// scenario's order.
    line: BTreeSet<(u64, u32)>,
}

impl PFabric {
    fn new(facts: &HostFacts, settings: Settings) -> PFabric {
        let wire = facts.mss + settings.header + facts.framing;
        let packet = Bytes(u64::from(wire)) / facts.rate;
        PFabric {
            facts: *facts,
            settings,
            window: f64::from(settings.window.unwrap_or_else(|| facts.pipe(wire) + HOPS)),
            rto: settings.rto.unwrap_or_else(|| (facts.base_rtt + packet * u64::from(HOPS)) * 3),
            ends: Seats::default(),
            alarms: Alarms::default(),
            acks: VecDeque::new(),
            line: BTreeSet::new(),
        }
    }
    /// Gives a sender its place in line and its alarm after something has changed.
    fn settle(&mut self, conn: u32) {
        let Some(End::Sending(s)) = self.ends.get_mut(conn) else { return };
        let place = s.may_send(self.facts.mss).then(|| s.out.remaining());
        let was = core::mem::replace(&mut s.listed, place);
        self.alarms.set(conn, s.rto_at);
        if was != place {
            was.map(|left| self.line.remove(&(left, conn)));
            place.map(|left| self.line.insert((left, conn)));
        }
    }
    fn send(&mut self, io: &mut Io<'_>, conn: u32) -> Option<Cell> {
        let Some(End::Sending(s)) = self.ends.get_mut(conn) else { return None };
        let (seq, end) = if s.probing { (s.una, s.una) } else { s.next_packet(self.facts.mss)? };
        let payload = (end - seq) as u32;
        let (o, mark) = (s.out.opening, s.out.mark(seq, end));
        let mut flags = flag::PROBE;
        if s.probing {
            s.probe_due = false;
        } else {
            s.nxt = end;
            flags = if s.out.count_sent(end) { flag::RETRANSMIT } else { 0 };
            if s.rto_at == Time::NEVER {
                s.rto_at = io.now + self.rto;
            }
        }
        let wire = payload + self.settings.header;
        let slot = io.arena.alloc();
        let packet = &mut io.arena.packets[slot as usize];
        *packet = Packet {
            seq,
            stamp: io.now.0,
            flow: o.flow.0,
            wire_len: wire,
            payload,
            window: mark,
            flags,
            ..Packet::default()
        };
        packet.set_conn(o.at_dst);
        packet.set_class(o.class);
        let mut cell = Cell::new(slot, wire).with_class(o.class).with_noise().with_rank(s.rank(), o.forth);
        if payload > 0 {
            cell = cell.with_payload();
        }
        cell.to = o.dst;
        self.settle(conn);
        Some(cell)
    }
    /// An ACK for every packet at once, in the highest priority (section 4.3).
    fn on_data(&mut self, io: &mut Io<'_>, conn: u32, data: &Packet) {
        let Some(End::Receiving(incoming)) = self.ends.get_mut(conn) else { return };
        incoming.take(data, u64::from(data.payload), io.news);
        let o = incoming.opening;
        let slot = io.arena.alloc();
        let packet = &mut io.arena.packets[slot as usize];
        *packet = Packet {
            seq: incoming.next,
            stamp: data.stamp,
            flow: o.flow.0,
            wire_len: self.settings.ack,
            flags: flag::ACK,
            ..Packet::default()
        };
        packet.set_conn(o.at_src);
        packet.set_class(o.class);
        packet.set_word(0, data.payload);
        packet.set_word(1, BACK);
        packet.set_word(2, data.seq as u32);
        packet.set_word(3, (data.seq >> 32) as u32);
        let mut cell = Cell::new(slot, self.settings.ack).with_class(o.class).with_rank(0, o.back);
        cell.to = o.src;
        self.acks.push_back(cell);
    }
    fn on_ack(&mut self, io: &mut Io<'_>, conn: u32, ack: &Packet) {
        let Some(End::Sending(s)) = self.ends.get_mut(conn) else { return };
        let seq = u64::from(ack.word(2)) | u64::from(ack.word(3)) << 32;
        let mut new = s.acked.insert(seq.max(s.una), seq + u64::from(ack.word(0))) > 0;
        let before = s.una;
        s.una = s.acked.first_gap(s.una.max(ack.seq));
        s.acked.remove_below(s.una);
        s.nxt = s.nxt.max(s.una);
        new |= s.una > before;
        s.timeouts_in_a_row = 0;
        if s.probing {
            // The way is free again: slow start (section 4.3).
            (s.probing, s.probe_due) = (false, false);
            (s.cwnd, s.nxt) = (1.0, s.una);
        } else if new {
            // As TCP grows, up to the first window.
            s.cwnd += if s.cwnd < s.ssthresh { 1.0 } else { 1.0 / s.cwnd };
            s.cwnd = s.cwnd.min(self.window);
        }
        s.out.acked(s.una, io.news);
        s.rto_at = if s.una < s.out.max_sent { io.now + self.rto } else { Time::NEVER };
        self.settle(conn);
    }
}

impl Stack for PFabric {
    fn open(&mut self, _: &mut Io<'_>, opening: &Opening) {
        let sending = Sending {
            out: Outgoing::new(opening),
            una: 0,
            nxt: 0,
            acked: Ranges::default(),
            cwnd: self.window,
            ssthresh: self.window,
            rto_at: Time::NEVER,
            timeouts_in_a_row: 0,
            probing: false,
            probe_due: false,
            listed: None,
        };
        self.ends.put(opening.at_src, End::Sending(Box::new(sending)));
    }
    fn listen(&mut self, _: &mut Io<'_>, opening: &Opening) {
        self.ends.put(opening.at_dst, End::Receiving(Box::new(Incoming::new(opening))));
    }
    fn set_peer(&mut self, conn: u32, peer: u32) {
        if let Some(End::Sending(s)) = self.ends.get_mut(conn) {
            s.out.opening.at_dst = peer;
        }
    }
    fn accept(&mut self, _: &mut Io<'_>, conn: u32, bytes: u64) {
        if let Some(End::Sending(s)) = self.ends.get_mut(conn) {
            s.out.accept(bytes);
        }
        self.settle(conn);
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
        if let Some(End::Sending(s)) = self.ends.take(conn) {
            s.listed.map(|left| self.line.remove(&(left, conn)));
        }
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
                self.on_data(io, conn, &packet);
            }
            _ => {}
        }
        io.arena.release(cell.packet);
    }
    fn pull(&mut self, io: &mut Io<'_>) -> Option<Cell> {
        if io.paused & 1 != 0 {
            return None;
        }
        if let Some(cell) = self.acks.pop_front() {
            return Some(cell);
        }
        let (_, conn) = *self.line.first()?;
        self.send(io, conn)
    }
    fn ready(&self, paused: u8) -> Time {
        if paused & 1 != 0 || self.acks.is_empty() && self.line.is_empty() {
            Time::NEVER
        } else {
            Time::ZERO
        }
    }
    fn deadline(&self) -> Time {
        self.alarms.first()
    }
    fn on_deadline(&mut self, io: &mut Io<'_>) {
        while let Some(conn) = self.alarms.due(io.now) {
            let Some(End::Sending(s)) = self.ends.get_mut(conn) else { continue };
            s.timeouts_in_a_row += 1;
            s.out.counters.timeouts += 1;
            let in_a_row = s.timeouts_in_a_row;
            let record = TimeoutRecord {
                kind: if in_a_row > 1 { TimeoutKind::Repeated } else { TimeoutKind::WindowLost },
                block_start: s.una == 0,
                block_offset: s.una,
                outstanding: s.nxt - s.una,
                cwnd: (s.cwnd * f64::from(self.facts.mss)) as u64,
                rto: self.rto,
                in_a_row,
            };
            io.news.push(News::Timeout { flow: s.out.opening.flow, max_sent: s.out.max_sent, record });
            // Everything that was not acknowledged is taken for lost; slow start up to half the window, or probes.
            if in_a_row == 1 {
                s.ssthresh = (s.cwnd / 2.0).max(1.0);
            }
            (s.cwnd, s.nxt) = (1.0, s.una);
            s.probing = in_a_row >= self.settings.probe_after;
            s.probe_due = s.probing;
            s.rto_at = io.now + self.rto;
            self.settle(conn);
        }
    }
    fn queued(&self) -> u64 {
        self.acks.len() as u64
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
            report(&CWND, s.cwnd * f64::from(self.facts.mss));
            report(&REMAINING, s.out.remaining() as f64);
        }
    }
}
