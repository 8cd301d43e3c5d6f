//! pFabric: switches serve and keep the packets of the flows with the least left to send; hosts begin at line rate and
//! only time out (Alizadeh et al., SIGCOMM 2013; read from memory).

use crate::registry::{LinkNeeds, Protocol, Suite, Wire};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use penstock_core::packet::flag;
use penstock_core::quantity::CWND;
use penstock_core::tcp::Ranges;
use penstock_core::{Amount, Kind, Packet, ParamSpec, Quantity, Report, Unit};
use penstock_fabric::{Cell, Scheduler};
use penstock_host::ends::{self, set_rank, Incoming, Outgoing, Timeout, Toward};
use penstock_host::messages::{End, MessageLaw, MessageStack, Messages};
use penstock_host::{HostFacts, Io, Opening};
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
            Arc::new(move |facts| Box::new(MessageStack(PFabric::new(facts, settings)))),
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

penstock_host::ends!(Sending { out });

/// pFabric at one host.
struct PFabric {
    m: Messages<Sending, Incoming>,
    settings: Settings,
    window: f64,
    rto: Dur,
    /// Senders that may send, by what they have left: a host serves as its switches do (section 4.3), whatever the
    /// scenario's order.
    line: BTreeSet<(u64, u32)>,
}

impl PFabric {
    fn new(facts: &HostFacts, settings: Settings) -> PFabric {
        let wire = facts.mss + settings.header + facts.framing;
        let packet = Bytes(u64::from(wire)) / facts.rate;
        PFabric {
            m: Messages::new(facts),
            settings,
            window: f64::from(settings.window.unwrap_or_else(|| facts.pipe(wire) + HOPS)),
            rto: settings.rto.unwrap_or_else(|| (facts.base_rtt + packet * u64::from(HOPS)) * 3),
            line: BTreeSet::new(),
        }
    }
    fn send_of(&mut self, io: &mut Io<'_>, conn: u32) -> Option<Cell> {
        let s = self.m.ends.sender(conn)?;
        let (seq, end) = if s.probing { (s.una, s.una) } else { s.next_packet(self.m.facts.mss)? };
        let mut again = false;
        if s.probing {
            s.probe_due = false;
        } else {
            s.nxt = end;
            again = s.out.count_sent(end);
            if s.rto_at == Time::NEVER {
                s.rto_at = io.now + self.rto;
            }
        }
        let mut cell = s.out.data(io, (seq, end), (end - seq) as u32 + self.settings.header, again);
        cell.rank = s.rank();
        if s.probing {
            io.arena.packets[cell.packet as usize].flags = flag::PROBE;
        }
        self.settle(io.now, conn);
        Some(cell)
    }
}

impl MessageLaw for PFabric {
    type Sender = Sending;
    type Receiver = Incoming;

    fn messages(&self) -> &Messages<Sending, Incoming> {
        &self.m
    }
    fn messages_mut(&mut self) -> &mut Messages<Sending, Incoming> {
        &mut self.m
    }
    fn priorities(&self) -> (u8, u8) {
        (1, 1)
    }

    fn sender(&mut self, _: Time, opening: &Opening) -> Sending {
        Sending {
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
        }
    }
    fn receiver(&mut self, opening: &Opening) -> Incoming {
        Incoming::new(opening)
    }
    fn on_remove(&mut self, conn: u32, end: End<Sending, Incoming>) {
        if let End::Sender(mut s) = end {
            set_rank(&mut self.line, &mut s.listed, None, conn);
        }
    }
    fn settle(&mut self, _: Time, conn: u32) {
        let Some(s) = self.m.ends.sender(conn) else { return };
        self.m.timers.set(conn, s.rto_at);
        let place = s.may_send(self.m.facts.mss).then(|| s.out.remaining());
        set_rank(&mut self.line, &mut s.listed, place, conn);
    }

    /// An ACK for every packet at once, in the highest priority (section 4.3). Word 0: payload of the packet that it
    /// answers, whose first byte is in words 2 and 3.
    fn on_data(&mut self, io: &mut Io<'_>, conn: u32, data: &Packet, cell: &Cell) {
        // A packet that a switch has cut to its header is as good as lost.
        let incoming = self.m.ends.receiver(conn).filter(|_| !cell.is_trimmed());
        let Some(incoming) = incoming else { return };
        incoming.take(data, u64::from(data.payload), io.stack_events);
        let back = ends::header(io, &incoming.opening, Toward::Sender, 0, self.settings.ack, 0);
        let ack = &mut io.arena.packets[back.packet as usize];
        (ack.seq, ack.stamp) = (incoming.next, data.stamp);
        ack.set_word(0, data.payload);
        ack.set_word(2, data.seq as u32);
        ack.set_word(3, (data.seq >> 32) as u32);
        self.m.control.push_back(back);
    }
    fn on_answer(&mut self, io: &mut Io<'_>, conn: u32, ack: &Packet, _: &Cell) {
        let Some(s) = self.m.ends.sender(conn) else { return };
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
        s.out.acked(s.una, io.stack_events);
        s.rto_at = if s.una < s.out.max_sent { io.now + self.rto } else { Time::NEVER };
        self.settle(io.now, conn);
    }
    fn send(&mut self, io: &mut Io<'_>) -> Option<Cell> {
        let (_, conn) = *self.line.first()?;
        self.send_of(io, conn)
    }
    fn may_send(&self) -> bool {
        !self.line.is_empty()
    }
    fn on_timer(&mut self, io: &mut Io<'_>, conn: u32) {
        let Some(s) = self.m.ends.sender(conn) else { return };
        s.timeouts_in_a_row += 1;
        let in_a_row = s.timeouts_in_a_row;
        let timeout = Timeout {
            from: s.una,
            lost: s.una,
            outstanding: s.nxt - s.una,
            cwnd: (s.cwnd * f64::from(self.m.facts.mss)) as u64,
            rto: self.rto,
            in_a_row,
        };
        s.out.timed_out(&timeout, io.stack_events);
        // Everything that was not acknowledged is taken for lost; slow start up to half the window, or probes.
        if in_a_row == 1 {
            s.ssthresh = (s.cwnd / 2.0).max(1.0);
        }
        (s.cwnd, s.nxt) = (1.0, s.una);
        s.probing = in_a_row >= self.settings.probe_after;
        s.probe_due = s.probing;
        s.rto_at = io.now + self.rto;
        self.settle(io.now, conn);
    }
    fn observe(&self, end: &End<Sending, Incoming>, report: &mut Report<'_>) {
        if let End::Sender(s) = end {
            report(&CWND, s.cwnd * f64::from(self.m.facts.mss));
            report(&REMAINING, s.out.remaining() as f64);
        }
    }
}
