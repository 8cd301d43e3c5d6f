//! What a controller written in Python sees, as flat records of 8-byte words: a float, an int64, or a truth value. Compiled
//! and interpreted controllers read the same words, so that they cannot see different numbers.

use penstock_core::tcp::TcpConfig;
use penstock_core::{AckRecord, Congestion, FlowView, Limit};
use penstock_units::{Dur, Rate, Time};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a word holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// A float.
    Float,
    /// An int64.
    Int,
    /// 0 or 1.
    Bool,
}

impl Word {
    /// The name of the Python type.
    pub fn name(self) -> &'static str {
        match self {
            Word::Float => "float",
            Word::Int => "int",
            Word::Bool => "bool",
        }
    }
    /// The word of that Python type.
    pub fn named(name: &str) -> Option<Word> {
        [Word::Float, Word::Int, Word::Bool].into_iter().find(|w| w.name() == name)
    }
}

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

// Atomics, which anybody may read and write, at a place that lives and stays as long as this.
unsafe impl Send for Words {}
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
        // `at` and `n` are of what is kept.
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
    let mut row = Row { words: &words[..ACK.len()], next: 0 };
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
        Some(Congestion::Timeout { in_a_row }) => (2, in_a_row),
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
