//! Detects a needless reduction by time stamps (Eifel, RFC 3522 and RFC 4015) or by D-SACK (RFC 3708), as Linux
//! combines them (`tcp_may_undo`, from memory). It was needless if every retransmission of the episode is reported as a
//! duplicate, or if a segment sent before the first retransmission caused an ACK of new data.

use crate::tcp::ticks;
use penstock_units::{Dur, Time};

/// Time stamps of Linux are of whole milliseconds (TCP_TS_HZ is 1000): two within one say nothing about their order.
const STAMP: Dur = Dur::millis(1);

/// An episode: from a reduction until it is undone or the next one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Undo {
    /// What was acknowledged when it began; `None` = nothing can be undone.
    marker: Option<u64>,
    /// Bytes sent again and not reported as duplicates; `None` before the first.
    again: Option<u64>,
    /// When the first retransmission left of those of which one may be under way (retrans_stamp).
    since: Option<Time>,
}

impl Undo {
    /// A reduction begins. `out`: bytes sent again that are still under way; `done`: there are some, or the oldest segment has been sent again
    /// (tcp_any_retrans_done). They belong to the new episode (tcp_init_undo, tcp_retrans_stamp_cleanup): what they bring is no sign that nothing was lost.
    pub(super) fn start(&mut self, una: u64, out: u64, done: bool) {
        let since = self.since.filter(|_| done);
        *self = Undo { marker: Some(una), again: (out > 0).then_some(out), since };
    }
    /// It has been undone, or cannot be.
    pub(super) fn forget(&mut self) {
        (self.marker, self.again) = (None, None);
    }
    /// A retransmission of `bytes` leaves.
    pub(super) fn on_sent_again(&mut self, now: Time, bytes: u64) {
        self.since.get_or_insert(now);
        if self.marker.is_some() {
            self.again = Some(self.again.unwrap_or(0) + bytes);
        }
    }
    /// A probe of `bytes` that had been sent before leaves. It is no retransmission of an episode, and none is under way before one.
    pub(super) fn on_probe(&mut self, bytes: u64) {
        self.since = None;
        if self.marker.is_some() {
            self.again = Some(self.again.unwrap_or(0) + bytes);
        }
    }
    /// `[start, end)` came twice; `una` as it was before this ACK. True when that was the last retransmission of the episode.
    pub(super) fn on_dsack(&mut self, start: u64, end: u64, una: u64) -> bool {
        let (Some(marker), Some(again)) = (self.marker, self.again) else { return false };
        // RFC 3708 section 2: only what lies in the episode counts.
        if end <= marker || start >= una.max(end) || again == 0 {
            return false;
        }
        self.again = Some(again.saturating_sub(end - start));
        self.again == Some(0)
    }
    /// RFC 4015 section 3.2: `echo`, the time stamp of an ACK of new data, is older than the first retransmission.
    pub(super) fn is_delayed(&self, echo: Option<Time>) -> bool {
        let (Some(echo), Some(since)) = (echo, self.since) else { return false };
        self.marker.is_some() && ticks::between(echo, since, STAMP) > Dur::ZERO
    }
    /// Everything that was sent again was reported as a duplicate (tcp_try_undo_dsack).
    pub(super) fn is_reported(&self) -> bool {
        self.marker.is_some() && self.again == Some(0)
    }
    /// That, or an ACK shows that nothing had to be.
    pub(super) fn may(&self, echo: Option<Time>) -> bool {
        self.is_reported() || self.is_delayed(echo)
    }
}
