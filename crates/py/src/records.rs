//! What classes written in Python see, as flat records of 8-byte words: a float, an int64, or a truth value. Compiled
//! and interpreted code reads the same words, so that they cannot see different numbers.
#![allow(unsafe_code)]

pub use crate::word::Word;
use penstock_core::header::wire;
use penstock_core::packet::{flag, Ecn};
use penstock_core::tcp::{Heard, TcpConfig};
use penstock_core::{AckRecord, Backlog, CcHeader, Congestion, FlowView, Header, Limit, LinkView, Packet};
use penstock_models::registry::LinkFacts;
use penstock_units::{Bytes, Dur, Rate, Time};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};

/// A record's fields, in order: name, what it holds, what it is.
pub type Layout = &'static [(&'static str, Word, &'static str)];

/// An acknowledgement.
pub const ACK: Layout = &[
    ("now_s", Word::Float, "when it arrived"),
    ("acked", Word::Int, "bytes newly acknowledged cumulatively; 0 for a duplicate"),
    ("sacked", Word::Int, "bytes newly reported by selective acknowledgements"),
    ("lost", Word::Int, "bytes newly taken for lost"),
    ("rtt_s", Word::Float, "the RTT sample of this ACK; 0 when it gives none"),
    ("ece", Word::Bool, "it carries ECN-Echo"),
    ("sent_s", Word::Float, "when the segment that caused it was sent"),
    ("rate_bps", Word::Float, "delivery rate over the latest flight; 0 when this ACK gives none"),
    ("flight_before", Word::Int, "bytes in flight before it"),
    ("flight_after", Word::Int, "bytes in flight with it, before anything is sent"),
    ("limit", Word::Int, "a Limit: what kept the sender from sending more before it"),
    ("header_rate_bps", Word::Float, "what the routers wrote, echoed by the receiver; 0 without a router"),
    ("header_rtt_s", Word::Float, "as above"),
    ("header_window", Word::Float, "as above"),
    ("header_feedback", Word::Float, "as above"),
];
/// A connection.
pub const FLOW: Layout = &[
    ("flow", Word::Int, "its number in the run"),
    ("una", Word::Int, "oldest byte not acknowledged"),
    ("nxt", Word::Int, "next byte to send"),
    ("max_sent", Word::Int, "one past the highest byte ever sent"),
    ("app_end", Word::Int, "one past the last byte the application has written"),
    ("in_flight", Word::Int, "estimated bytes in the network"),
    ("rwnd", Word::Int, "receive window in bytes"),
    ("segment", Word::Int, "payload bytes of a full segment now"),
    ("mss", Word::Int, "largest payload of a segment"),
    ("rtt_latest_s", Word::Float, "latest RTT sample, 0 before the first"),
    ("rtt_smoothed_s", Word::Float, "smoothed RTT (RFC 6298), 0 before the first sample"),
    ("rtt_min_s", Word::Float, "smallest RTT sample, inf before the first"),
    ("limit", Word::Int, "a Limit: what stopped the last attempt to send"),
    ("in_recovery", Word::Bool, "in fast recovery"),
    ("started_s", Word::Float, "when it was opened"),
    ("size", Word::Int, "bytes of the flow when known in advance, else 0"),
    ("due_s", Word::Float, "when the flow should be done, inf when it has no deadline"),
];
/// A sign of congestion, a new transfer or the timer.
pub const EVENT: Layout = &[
    ("now_s", Word::Float, "when it happened"),
    ("kind", Word::Int, "an Event"),
    ("in_a_row", Word::Int, "consecutive timeouts of the same data, 1 = first; else 0"),
];
/// The options of a connection that is about to open.
pub const CONFIG: Layout = &[
    ("segment", Word::Int, "payload bytes of a full segment"),
    ("initial_window", Word::Int, "initial window in bytes"),
    ("ecn_floor", Word::Bool, "a mark leaves a window of at least one segment"),
    ("byte_counting", Word::Bool, "the window grows by bytes acknowledged, not by ACKs (RFC 3465)"),
];
/// A packet that arrives at a queue.
pub const PACKET: Layout = &[
    ("flow", Word::Int, "the number of its flow in the run"),
    ("seq", Word::Int, "data: its first byte; an ACK: the next byte expected"),
    ("bytes", Word::Int, "its length, headers included"),
    ("payload", Word::Int, "its payload in bytes"),
    ("ect", Word::Bool, "it may be marked; one that may not is dropped instead"),
    ("ce", Word::Bool, "it is marked already"),
    ("forward", Word::Bool, "it goes to the receiver of its flow: data, not an ACK"),
    ("_uniform", Word::Float, "a random number of [0, 1)"),
    ("_drawn", Word::Bool, "it was looked at"),
];
/// Position of the random number of [`PACKET`]; whether it was looked at follows.
pub const PACKET_RANDOM: usize = 7;
/// A packet that leaves a queue.
pub const WAITED: Layout = &[
    ("sojourn_s", Word::Float, "how long it has waited"),
    ("_uniform", Word::Float, "a random number of [0, 1)"),
    ("_drawn", Word::Bool, "it was looked at"),
];
/// Position of the random number of [`WAITED`]; the next word says whether it was looked at.
pub const WAITED_RANDOM: usize = 1;
/// A port as its queue sees it, the packet at hand not counted.
pub const PORT: Layout = &[
    ("now_s", Word::Float, "the time"),
    ("queue_packets", Word::Int, "packets waiting plus the one in service"),
    ("queue_bytes", Word::Int, "their bytes"),
    ("serving_bytes", Word::Int, "bytes of the packet in service, 0 when there is none"),
    ("idle_s", Word::Float, "for how long the port has been idle, 0 while it sends"),
    ("rate_bps", Word::Float, "rate of the link"),
    ("full", Word::Bool, "there is no room: the packet is dropped whatever the answer"),
    ("packet_bytes", Word::Int, "bytes of a full data packet"),
    ("packet_s", Word::Float, "time that a full data packet takes on the link"),
];
/// A packet as a router sees it. Its header can be written.
pub const HEADED: Layout = &[
    ("flow", Word::Int, "the number of its flow in the run"),
    ("bytes", Word::Int, "what it takes of the link, framing included"),
    ("payload", Word::Int, "its payload in bytes"),
    ("forward", Word::Bool, "it goes to the receiver of its flow: data, not an ACK"),
    ("headed", Word::Bool, "it carries this protocol's header"),
    (
        "header_rate_bps",
        Word::Float,
        "single precision on the wire, infinite unless a router or sender wrote it",
    ),
    ("header_rtt_s", Word::Float, "single precision on the wire"),
    ("header_window", Word::Float, "single precision on the wire"),
    ("header_feedback", Word::Float, "single precision on the wire"),
];
/// Position of the first field of the header in [`HEADED`]; they are the last.
const HEADER: usize = 5;
/// A link as its router sees it: bytes are of the link, framing included.
pub const LINE: Layout = &[
    ("now_s", Word::Float, "the time"),
    ("queue_packets", Word::Int, "packets waiting plus the one in service"),
    ("queue_bytes", Word::Int, "their bytes"),
    ("arrived_bytes", Word::Int, "bytes that have arrived so far, dropped ones included"),
    ("departed_bytes", Word::Int, "bytes that have left so far"),
    ("rate_bps", Word::Float, "rate of the link"),
];
/// A link before the first packet.
pub const LINK: Layout = &[
    ("rate_bps", Word::Float, "its rate"),
    ("base_rtt_s", Word::Float, "smallest round-trip time of flows through it"),
    ("packet_bytes", Word::Int, "bytes of a full data packet, framing not counted"),
    ("framing_bytes", Word::Int, "framing that the link adds to every packet"),
];
/// A segment that arrives at a receiver.
pub const SEGMENT: Layout = &[
    ("flow", Word::Int, "the number of its flow in the run"),
    ("seq", Word::Int, "its first byte"),
    ("payload", Word::Int, "its payload in bytes"),
    ("ce", Word::Bool, "it is marked"),
    ("cwr", Word::Bool, "the sender has reduced its window (CWR)"),
    ("probe", Word::Bool, "a probe, to be answered at once"),
    ("fin", Word::Bool, "the last one"),
];
/// Where it lay.
pub const HEARD: Layout = &[
    ("now_s", Word::Float, "the time"),
    ("in_order", Word::Bool, "it was the next one expected, and nothing is missing"),
    ("duplicate", Word::Bool, "none of its payload was new"),
    ("unacknowledged", Word::Int, "segments in order that no ACK has covered, with this one"),
];
/// The options of a connection's receiver.
pub const RECEIVING: Layout = &[
    ("segment", Word::Int, "payload bytes of a full segment"),
    ("delayed_ack", Word::Int, "the scenario's key: an ACK for every so many segments"),
    ("delayed_ack_s", Word::Float, "the scenario's delayed_ack_timeout"),
];
/// Fields that may be written, by record.
pub const WRITABLE: &[(&str, &[&str])] =
    &[("headed", &["header_rate_bps", "header_rtt_s", "header_window", "header_feedback"])];
/// Names and numbers of a queue's verdicts.
pub const VERDICTS: &[(&str, i64)] = &[("ACCEPT", 0), ("MARK", 1), ("DROP", 2)];
/// Names and numbers of [`EVENT`]'s kinds.
pub const EVENTS: &[(&str, i64)] = &[
    ("LOSS", 1),
    ("TIMEOUT", 2),
    ("SYN_LOST", 3),
    ("ECN", 4),
    ("RECOVERED", 5),
    ("IDLE", 6),
    ("SPURIOUS", 7),
];
/// Names and numbers of limits.
pub const LIMITS: &[(&str, i64)] =
    &[("WINDOW", 1), ("PACING", 2), ("APPLICATION", 3), ("RECEIVER", 4), ("HOST", 5)];

/// Words that a controller's code and the engine share: of their own, or within a Python object that reads them.
pub struct Words {
    at: *const AtomicU64,
    n: usize,
    kept: Kept,
}

enum Kept {
    /// They are freed with this.
    Own(#[allow(dead_code)] Box<[AtomicU64]>),
    /// They live in it.
    Object(Py<PyAny>),
}

// SAFETY: `at` is the place of atomics that any thread may read and write. `kept` owns them, so they live and stay in
// place as long as this value. A Python reference may be dropped on any thread.
unsafe impl Send for Words {}
// SAFETY: a shared reference gives access to atomics only.
unsafe impl Sync for Words {}

impl Words {
    /// So many words of zero.
    pub fn of(n: usize) -> Words {
        let own: Box<[AtomicU64]> = (0..n).map(|_| AtomicU64::new(0)).collect();
        Words { at: own.as_ptr(), n, kept: Kept::Own(own) }
    }
    /// Those of a block ([`crate::block`]).
    ///
    /// # Errors
    /// TypeError when it is none.
    pub fn in_object(object: &Bound<'_, PyAny>) -> PyResult<Words> {
        let (at, n) = crate::block::in_object(object)?;
        Ok(Words { at, n, kept: Kept::Object(object.clone().unbind()) })
    }
    /// The Python object they are in.
    ///
    /// # Panics
    /// When they are in none.
    pub fn object(&self) -> &Py<PyAny> {
        match &self.kept {
            Kept::Object(object) => object,
            Kept::Own(_) => panic!("words of their own are in no object"),
        }
    }
}

impl std::ops::Deref for Words {
    type Target = [AtomicU64];
    #[inline(always)]
    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: `at` and `n` describe the atomics that `kept` owns.
        unsafe { std::slice::from_raw_parts(self.at, self.n) }
    }
}

/// Writes a record's fields from the first on.
struct Row<'a> {
    words: &'a [AtomicU64],
    next: usize,
}

impl Row<'_> {
    #[inline(always)]
    fn word(&mut self, word: u64) {
        self.words[self.next].store(word, Ordering::Relaxed);
        self.next += 1;
    }
    #[inline(always)]
    fn float(&mut self, x: f64) {
        self.word(x.to_bits());
    }
    /// Bytes; what has no end is the largest int64.
    #[inline(always)]
    fn bytes(&mut self, n: u64) {
        self.word(n.min(i64::MAX as u64));
    }
    #[inline(always)]
    fn flag(&mut self, yes: bool) {
        self.word(u64::from(yes));
    }
    #[inline(always)]
    fn time(&mut self, t: Time) {
        self.float(if t == Time::NEVER { f64::INFINITY } else { t.as_secs() });
    }
    #[inline(always)]
    fn dur(&mut self, d: Dur) {
        self.float(if d == Dur::MAX { f64::INFINITY } else { d.as_secs() });
    }
}

fn limit(l: Limit) -> u64 {
    match l {
        Limit::Window => 1,
        Limit::Pacing => 2,
        Limit::Application => 3,
        Limit::Receiver => 4,
        Limit::Host => 5,
    }
}

/// Writes an [`ACK`].
#[inline]
pub fn put_ack(words: &[AtomicU64], ack: &AckRecord<'_>) {
    let mut row = Row { words, next: 0 };
    row.time(ack.now);
    row.bytes(ack.acked);
    row.bytes(ack.sacked);
    row.bytes(ack.lost);
    row.dur(ack.rtt.unwrap_or(Dur::ZERO));
    row.flag(ack.ece);
    row.time(ack.sent_at);
    row.float(ack.rate.and_then(|r| r.rate()).map_or(0.0, Rate::as_bps));
    row.bytes(ack.flight_before);
    row.bytes(ack.flight_after);
    row.word(limit(ack.limit));
}

/// Writes a [`FLOW`].
#[inline]
pub fn put_flow(words: &[AtomicU64], flow: &FlowView) {
    let mut row = Row { words: &words[..FLOW.len()], next: 0 };
    row.bytes(u64::from(flow.flow));
    row.bytes(flow.una);
    row.bytes(flow.nxt);
    row.bytes(flow.max_sent);
    row.bytes(flow.app_end);
    row.bytes(flow.in_flight);
    row.bytes(flow.rwnd);
    row.bytes(u64::from(flow.segment));
    row.bytes(u64::from(flow.mss));
    row.dur(flow.rtt_latest);
    row.dur(flow.rtt_smoothed);
    row.dur(flow.rtt_min);
    row.word(limit(flow.limit));
    row.flag(flow.in_recovery);
    row.time(flow.started);
    row.bytes(flow.size);
    row.time(flow.due);
}

/// Writes an [`EVENT`]; one without `congestion` only has its time.
pub fn put_event(words: &[AtomicU64], now: Time, congestion: Option<Congestion>) {
    let (kind, in_a_row) = match congestion {
        None => (0, 0),
        Some(Congestion::Loss) => (1, 0),
        Some(Congestion::Timeout { in_a_row, .. }) => (2, in_a_row),
        Some(Congestion::SynLost) => (3, 0),
        Some(Congestion::Ecn) => (4, 0),
        Some(Congestion::Recovered) => (5, 0),
        Some(Congestion::Idle) => (6, 0),
        Some(Congestion::Spurious) => (7, 0),
    };
    let mut row = Row { words: &words[..EVENT.len()], next: 0 };
    row.time(now);
    row.word(kind);
    row.word(u64::from(in_a_row));
}

/// Writes a [`CONFIG`].
pub fn put_config(words: &[AtomicU64], cfg: &TcpConfig) {
    let mut row = Row { words: &words[..CONFIG.len()], next: 0 };
    row.bytes(u64::from(cfg.mss));
    row.bytes(u64::from(cfg.initial_window) * u64::from(cfg.mss));
    row.flag(cfg.ecn_floor);
    row.flag(cfg.byte_counting);
}

/// Writes the last fields of an [`ACK`].
pub fn put_ack_header(words: &[AtomicU64], header: &CcHeader) {
    let header = header.get::<Headed>().unwrap_or_default();
    let mut row = Row { words, next: ACK.len() - header.0.len() };
    header.0.iter().for_each(|x| row.float(f64::from(*x)));
}

/// Fields of a record that a class reads, a bit each. Other fields are not written, so that a queue that reads only its
/// port does not fetch the packet.
pub type Read = u32;

/// Writes the fields of a [`PACKET`] that are read, but for the random number.
#[inline]
pub fn put_packet(words: &[AtomicU64], p: &Packet, read: Read) {
    if read & ((1 << PACKET_RANDOM) - 1) == 0 {
        return;
    }
    let mut row = Row { words: &words[..PACKET.len()], next: 0 };
    row.bytes(u64::from(p.flow));
    row.bytes(p.seq);
    row.bytes(u64::from(p.wire_len));
    row.bytes(u64::from(p.payload));
    row.flag(p.ecn != Ecn::NotEct);
    row.flag(p.ecn == Ecn::Ce);
    row.flag(p.is_forward());
}

/// Writes a [`WAITED`] but for the random number.
pub fn put_waited(words: &[AtomicU64], sojourn: Dur) {
    Row { words, next: 0 }.dur(sojourn);
}

/// What a [`PORT`] has that stays as it is while its rate does.
#[derive(Clone, Copy)]
pub struct Fixed {
    rate: Rate,
    words: [u64; 3],
}

impl Fixed {
    /// For full data packets of so many bytes.
    pub fn new(rate: Rate, packet: u32) -> Fixed {
        let time = if rate.0 == 0 { 0.0 } else { (Bytes(u64::from(packet)) / rate).as_secs() };
        Fixed { rate, words: [rate.as_bps().to_bits(), u64::from(packet), time.to_bits()] }
    }
}

// Positions in a PORT.
const NOW: usize = 0;
const IDLE: usize = 4;
const RATE: usize = 5;
const FULL: usize = 6;

/// Writes a [`PORT`]: the times where they are read.
#[inline]
pub fn put_place(words: &[AtomicU64], now: Time, q: &Backlog, full: bool, read: Read, fixed: &mut Fixed) {
    let words: &[AtomicU64; 9] = words.try_into().expect("a PORT");
    let put = |i: usize, word: u64| words[i].store(word, Ordering::Relaxed);
    if read & (1 << NOW) != 0 {
        put(NOW, now.as_secs().to_bits());
    }
    put(1, u64::from(q.packets));
    put(2, q.bytes);
    put(3, u64::from(q.serving));
    if read & (1 << IDLE) != 0 {
        let idle = q.packets == 0 && q.idle_since < now;
        put(IDLE, if idle { now.since(q.idle_since).as_secs() } else { 0.0 }.to_bits());
    }
    put(FULL, u64::from(full));
    if read & (1 << RATE | 3 << 7) != 0 {
        if fixed.rate != q.rate {
            *fixed = Fixed::new(q.rate, fixed.words[1] as u32);
        }
        put(RATE, fixed.words[0]);
        put(7, fixed.words[1]);
        put(8, fixed.words[2]);
    }
}
const _: () = assert!(PORT.len() == 9 && PACKET.len() == 9);

/// Writes a [`HEADED`], `bytes` long on the link; zeros where there is no header.
#[inline]
pub fn put_headed(words: &[AtomicU64], p: &Packet, bytes: u32, header: Option<&Headed>) {
    let mut row = Row { words: &words[..HEADED.len()], next: 0 };
    row.bytes(u64::from(p.flow));
    row.bytes(u64::from(bytes));
    row.bytes(u64::from(p.payload));
    row.flag(p.is_forward());
    row.flag(header.is_some());
    header.map_or([0.0; 4], |h| h.0).iter().for_each(|x| row.float(f64::from(*x)));
}

/// Writes a [`LINE`].
#[inline]
pub fn put_line(words: &[AtomicU64], now: Time, link: &LinkView) {
    let mut row = Row { words: &words[..LINE.len()], next: 0 };
    row.time(now);
    row.bytes(u64::from(link.queue_packets));
    row.bytes(link.queue_bytes);
    row.bytes(link.arrived_bytes);
    row.bytes(link.departed_bytes);
    row.float(link.capacity.as_bps());
}

/// Writes a [`LINK`].
pub fn put_link(words: &[AtomicU64], facts: &LinkFacts) {
    let mut row = Row { words: &words[..LINK.len()], next: 0 };
    row.float(facts.capacity.as_bps());
    row.dur(facts.base_rtt);
    row.bytes(u64::from(facts.packet));
    row.bytes(u64::from(facts.framing));
}

/// Writes a [`SEGMENT`].
#[inline]
pub fn put_segment(words: &[AtomicU64], p: &Packet) {
    let mut row = Row { words: &words[..SEGMENT.len()], next: 0 };
    row.bytes(u64::from(p.flow));
    row.bytes(p.seq);
    row.bytes(u64::from(p.payload));
    row.flag(p.ecn == Ecn::Ce);
    row.flag(p.has(flag::CWR));
    row.flag(p.has(flag::PROBE));
    row.flag(p.has(flag::FIN));
}

/// Writes a [`HEARD`].
#[inline]
pub fn put_heard(words: &[AtomicU64], now: Time, heard: &Heard) {
    let mut row = Row { words: &words[..HEARD.len()], next: 0 };
    row.time(now);
    row.flag(heard.in_order);
    row.flag(heard.duplicate);
    row.bytes(u64::from(heard.unacknowledged));
}

/// Writes a [`RECEIVING`].
pub fn put_receiving(words: &[AtomicU64], cfg: &TcpConfig) {
    let mut row = Row { words: &words[..RECEIVING.len()], next: 0 };
    row.bytes(u64::from(cfg.mss));
    row.bytes(u64::from(cfg.delayed_ack));
    row.dur(cfg.delayed_ack_timeout);
}

/// The header of a protocol in Python that has a router: rate, RTT, window and feedback, in single precision. As long as RCP's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Headed([f32; 4]);

impl Default for Headed {
    fn default() -> Headed {
        Headed([f32::INFINITY, 0.0, 0.0, 0.0])
    }
}

impl Headed {
    /// What the last fields of a [`HEADED`] say.
    pub fn read(words: &[AtomicU64]) -> Headed {
        let mut header = Headed([0.0; 4]);
        for (x, word) in header.0.iter_mut().zip(&words[HEADER..]) {
            *x = f64::from_bits(word.load(Ordering::Relaxed)) as f32;
        }
        header
    }
    /// True when a field is no number.
    pub fn is_nan(&self) -> bool {
        self.0.iter().any(|x| x.is_nan())
    }
}

impl Header for Headed {
    const KIND: u8 = 0xC0;
    const WIRE_LEN: u32 = 16;
    fn emit(&self, out: &mut [u8; CcHeader::ROOM]) {
        self.0.iter().enumerate().for_each(|(i, x)| wire::put_f32(out, 4 * i, *x));
    }
    fn parse(raw: &[u8; CcHeader::ROOM]) -> Self {
        Headed([0, 4, 8, 12].map(|at| wire::get_f32(raw, at)))
    }
}
