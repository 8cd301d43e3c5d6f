//! What a recovery sees of its connection, what it answers, and when it is asked.

use crate::control::{FlowView, Limit};
use crate::tcp::{ticks, Phase, Ranges, SegmentLog, TcpConfig};
use penstock_units::{Dur, Time};

/// What a recovery sees of its connection.
pub struct Connection<'a> {
    /// Time of the event.
    pub now: Time,
    /// Options.
    pub cfg: &'a TcpConfig,
    /// Sequence numbers, segment size, RTT.
    pub view: &'a FlowView,
    /// Where the connection stands.
    pub phase: Phase,
    /// What is acknowledged selectively, above `view.una`.
    pub sacked: &'a Ranges,
    /// A record of every segment in flight, for a recovery that asked for it ([`Recovery::wants_segments`]).
    pub segments: Option<&'a SegmentLog>,
    /// Duplicate ACKs in a row, the one at hand included.
    pub dup_acks: u32,
    /// Timeouts since something was acknowledged, the one at hand included.
    pub timeouts_in_a_row: u32,
    /// Highest byte sent when the last loss event began, `None` before the first: RecoveryPoint of RFC 6675, `recover` of RFC
    /// 6582.
    pub recover: Option<u64>,
    /// The congestion window under the cap of a host controller, in bytes.
    pub window: u64,
    /// When the retransmission timer runs out.
    pub rto_at: Time,
    /// The application has closed: FIN follows the last byte.
    pub closing: bool,
    /// Timers that are set now are set as the application has written ([`MissedTicks`](crate::tcp::MissedTicks)), or as such a timer has gone off.
    pub written: bool,
    /// The smallest RTT that still counts as the path's, [`Dur::MAX`] before the first: [`RttEstimator::recent`](crate::tcp::RttEstimator::recent).
    pub rtt_min: Dur,
}

impl Connection<'_> {
    /// When a timer of the kernel that is set now for `delay` goes off.
    #[inline]
    pub fn timer(&self, delay: Dur) -> Time {
        ticks::expiry(self.now, delay, self.cfg.rto_granularity, &self.cfg.missed_ticks, self.written)
    }
}

impl Connection<'_> {
    /// One past the last sequence number there will be so far (FIN takes one).
    #[inline]
    pub fn seq_end(&self) -> u64 {
        self.view.app_end + u64::from(self.closing)
    }
    /// End in sequence space of a segment at `seq` that does not run past `limit`: a full payload at most, and FIN rides on
    /// the last byte.
    #[inline]
    pub fn segment_end(&self, seq: u64, limit: u64) -> u64 {
        segment_end(self.view, self.closing, seq, limit)
    }
    /// Everything outstanding when the last loss event began is acknowledged.
    #[inline]
    pub fn is_full_ack(&self) -> bool {
        self.recover.is_none_or(|r| self.view.una >= r)
    }
    /// The oldest segment as it is sent again: up to the first byte that has arrived.
    pub fn head(&self, why: Why) -> Outgoing {
        let una = self.view.una;
        let hole = self.sacked.next_start(una).unwrap_or(self.view.max_sent);
        Outgoing { seq: una, end: self.segment_end(una, hole).max(una + 1), why }
    }
    /// Bytes of payload that are sent and not acknowledged in any way.
    pub fn flight(&self) -> u64 {
        let sent = self.view.nxt.min(self.view.app_end);
        sent.saturating_sub(self.view.una) - self.sacked.covered(self.view.una, sent)
    }
}

/// See [`Connection::segment_end`].
#[inline]
pub(in crate::tcp) fn segment_end(view: &FlowView, closing: bool, seq: u64, limit: u64) -> u64 {
    let end = (seq + view.segment as u64).min(limit);
    end + u64::from(closing && end == view.app_end && limit > end)
}

/// What happens to the connection's phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Act {
    /// Nothing.
    #[default]
    Stay,
    /// Fast recovery begins: the law hears of a loss.
    Enter,
    /// Fast recovery begins, and everything from the first unacknowledged byte is sent again.
    GoBack,
    /// Fast recovery is over.
    Leave,
    /// A loss was repaired before it was noticed: the law hears of it and of its end.
    Repaired,
    /// Fast recovery ends, and the next one begins.
    Renew,
    /// What a timeout has begun is over; nothing for the law.
    Over,
    /// The latest reduction was needless: the law takes it back, and nothing is known to be lost.
    Undo,
    /// The timeout was needless, but not the reduction before it: nothing is known to be lost; nothing for the law.
    Reopen,
}

/// What has happened to a connection since its recovery last set its timers, in the order in which a sender does it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Since {
    /// Something new was acknowledged.
    pub advanced: bool,
    /// The oldest segment was sent again.
    pub head_again: bool,
    /// Something new was sent.
    pub new: bool,
    /// Something new was sent while nothing was in flight.
    pub alone: bool,
    /// The retransmission timer has been set, and stays.
    pub held: bool,
}

/// When timers run out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timers {
    /// [`Control::deadline`].
    pub deadline: Time,
    /// The retransmission timer.
    pub rto_at: Time,
}

/// What follows from an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// For the phase.
    pub act: Act,
    /// Bytes newly taken for lost.
    pub lost: u64,
    /// From `on_ack`: the retransmission timer is not restarted. From `on_deadline`: it is.
    pub against_custom: bool,
    /// From `on_deadline`: a tail-loss probe is due.
    pub probe: bool,
}

impl Outcome {
    /// Nothing.
    pub const NONE: Outcome = Outcome { act: Act::Stay, lost: 0, against_custom: false, probe: false };
}

/// What a recovery wants of its connection from now on; asked for after every event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Control {
    /// Bytes added to the window, or taken from it: duplicate ACKs in Reno's recovery, limited transmit (RFC 3042).
    pub allowance: i64,
    /// [`Recovery::urgent`] has something to send.
    pub urgent: bool,
    /// When [`Recovery::on_deadline`] is due.
    pub deadline: Time,
    /// Bytes taken for lost and not sent again: not in flight. Only where the recovery steers.
    pub missing: u64,
    /// Bytes that count twice in flight. Only where the recovery steers.
    pub twice: u64,
    /// The window is being reduced: the law must not grow it. Only where the recovery steers.
    pub reducing: bool,
    /// [`Recovery::choose`] is wanted, in fast recovery or not. Only where the recovery steers.
    pub chooses: bool,
}

impl Control {
    /// Nothing.
    pub const NONE: Control = Control {
        allowance: 0,
        urgent: false,
        deadline: Time::NEVER,
        missing: 0,
        twice: 0,
        reducing: false,
        chooses: false,
    };
}

/// Why a segment is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// In order, new or after a timeout.
    Next,
    /// It is taken for lost.
    Lost,
    /// The rescue retransmission of RFC 6675.
    Rescue,
    /// A tail-loss probe.
    Probe,
    /// The retransmit thread; marked on the wire.
    Thread,
}

/// A segment to send, in sequence space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outgoing {
    /// First byte.
    pub seq: u64,
    /// One past the last, FIN included.
    pub end: u64,
    /// Why.
    pub why: Why,
}

/// What the windows and the recovery allow next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// The connection's own rule: what is at `view.nxt`, within the windows.
    Usual,
    /// This segment; the window has been looked at.
    Send(Outgoing),
    /// Nothing, and what is in the way.
    Wait(Limit),
}

/// What an ACK says before anything of it is taken in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// The next byte expected.
    pub ack: u64,
    /// SACK blocks, without the report of a duplicate.
    pub blocks: usize,
    /// What came twice (RFC 2883).
    pub dsack: Option<(u64, u64)>,
    /// The time stamp echoed, where the option is in use (RFC 7323).
    pub echo: Option<Time>,
}

/// Loss detection and what is sent after a loss. Fed by the sender, asked for [`Control`] after every event.
pub trait Recovery: Send {
    /// True when [`Connection::segments`] is needed. Asked once.
    fn wants_segments(&self) -> bool {
        false
    }
    /// True when [`Self::on_ack`] is wanted for every ACK of new data and not only for those after duplicates and in fast
    /// recovery, with [`Self::before_ack`] and [`Self::rearm`]. Asked once.
    fn hears_all(&self) -> bool {
        false
    }
    /// True when this recovery keeps the scoreboard through a timeout and fills in the fields of [`Control`] that only
    /// count then. It chooses in any phase, says what is not in flight, and ends the phase after a timeout itself
    /// ([`Act::Over`]). Called once; needs [`Self::hears_all`].
    fn steers(&self) -> bool {
        false
    }
    /// True when [`Self::rearm`] sets the retransmission timer too, once it runs. Asked once; needs [`Self::hears_all`].
    fn keeps_timer(&self) -> bool {
        false
    }
    /// The connection opens.
    fn start(&mut self, now: Time) {
        let _ = now;
    }
    /// Whether an ACK that acknowledges nothing new while data is outstanding counts as a duplicate. `new_sack`: it reports
    /// something that no ACK has; `window_changed`: it carries another receive window.
    fn is_duplicate(&self, new_sack: bool, window_changed: bool) -> bool;
    /// An ACK arrives; nothing of it has been taken in yet.
    fn before_ack(&mut self, c: &Connection<'_>, arrival: &Arrival) -> Act {
        let _ = (c, arrival);
        Act::Stay
    }
    /// The scoreboard has got the blocks of an ACK; the bytes they show to be lost.
    fn on_sack(&mut self, c: &Connection<'_>) -> u64 {
        let _ = c;
        0
    }
    /// A duplicate ACK, the [`Connection::dup_acks`]-th in a row.
    fn on_duplicate(&mut self, c: &Connection<'_>) -> Outcome;
    /// `acked` new bytes are acknowledged; `view.una` counts them.
    fn on_ack(&mut self, c: &Connection<'_>, acked: u64) -> Outcome;
    /// Fast recovery has begun, by this recovery's word; the law has reduced its window.
    fn on_enter(&mut self, c: &Connection<'_>) {
        let _ = c;
    }
    /// The latest reduction has been taken back ([`Act::Undo`]), and the law has its window again: what is lost all the same, and whether fast
    /// recovery begins for that ([`Act::Enter`]).
    fn on_undone(&mut self, c: &Connection<'_>) -> Outcome {
        let _ = c;
        Outcome::NONE
    }
    /// A mark has been answered, and the law has reduced its window. Only where the recovery steers.
    fn on_reduction(&mut self, c: &Connection<'_>) {
        let _ = c;
    }
    /// The retransmission timer has run out; the phase is still that of before. Returns the bytes taken for lost by it.
    /// Afterwards the scoreboard is empty and sending goes on at the first unacknowledged byte, unless the recovery steers.
    fn on_timeout(&mut self, c: &Connection<'_>) -> u64;
    /// What is wanted now.
    fn control(&self, c: &Connection<'_>) -> Control {
        let _ = c;
        Control::NONE
    }
    /// The next segment that leaves whatever the windows say; `None` when there is no more.
    fn urgent(&mut self, c: &Connection<'_>) -> Option<Outgoing> {
        let _ = c;
        None
    }
    /// What is sent next in fast recovery, within the windows. The segment may be held back by pacing and be asked for again.
    fn choose(&self, c: &Connection<'_>) -> Choice {
        let _ = c;
        Choice::Usual
    }
    /// A segment that this recovery chose has left.
    fn on_sent(&mut self, c: &Connection<'_>, sent: &Outgoing) {
        let _ = (c, sent);
    }
    /// After an ACK of new data, the retransmission timer set, and the segments that leave then: time to set timers, and nothing else. The
    /// rest of [`Control`] is not asked for again. `rto` is the timeout. A recovery that keeps the retransmission timer is asked after
    /// any ACK and any deadline of its own as well, and has that timer as it is in [`Connection::rto_at`]; of others it is left alone.
    fn rearm(&mut self, c: &Connection<'_>, rto: Dur, since: &Since) -> Timers {
        let _ = (rto, since);
        Timers { deadline: Time::NEVER, rto_at: c.rto_at }
    }
    /// The deadline has come.
    fn on_deadline(&mut self, c: &Connection<'_>) -> Outcome {
        let _ = c;
        Outcome::NONE
    }
}
