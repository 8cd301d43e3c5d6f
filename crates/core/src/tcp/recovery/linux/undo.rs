//! Detects a needless reduction by time stamps (Eifel, RFC 3522 and RFC 4015) or by D-SACK (RFC 3708), as Linux
//! combines them (`tcp_may_undo`, from memory). It was needless if every retransmission of the episode is reported as a
//! duplicate, or if a segment sent before the first retransmission caused an ACK of new data.

use penstock_units::Time;

/// An episode: from a reduction until it is undone or the next one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Undo {
    /// What was acknowledged when it began; `None` = nothing can be undone.
    marker: Option<u64>,
    /// Bytes sent again and not reported as duplicates; `None` before the first.
    again: Option<u64>,
    /// When the first retransmission left.
    since: Option<Time>,
}

impl Undo {
    /// A reduction begins.
    pub(super) fn start(&mut self, una: u64) {
        *self = Undo { marker: Some(una), again: None, since: None };
    }
    /// It has been undone, or cannot be.
    pub(super) fn forget(&mut self) {
        *self = Undo::default();
    }
    /// A retransmission of `bytes` leaves.
    pub(super) fn on_sent_again(&mut self, now: Time, bytes: u64) {
        if self.marker.is_some() {
            self.again = Some(self.again.unwrap_or(0) + bytes);
            self.since.get_or_insert(now);
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
        self.marker.is_some() && matches!((echo, self.since), (Some(echo), Some(since)) if echo < since)
    }
    /// Everything that was sent again was reported as a duplicate, or an ACK shows that nothing had to be.
    pub(super) fn may(&self, echo: Option<Time>) -> bool {
        self.marker.is_some() && (self.again == Some(0) || self.is_delayed(echo))
    }
}
