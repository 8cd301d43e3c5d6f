//! The window law role: how much a sender may have in the network, or how fast it may send.
//!
//! The connection ([`crate::tcp::Sender`]) keeps sequence space, RTT, in-flight and pacing, its
//! [`crate::tcp::Recovery`] finds out what is lost; a law only decides how much may be sent.

use crate::header::CcHeader;
use crate::packet::Packet;
use crate::quantity::Report;
use crate::tcp::RateSample;
use penstock_units::{Bytes, Dur, Rate, Time};

/// What stopped the connection from sending more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Limit {
    /// The congestion window.
    Window,
    /// The pacing rate.
    Pacing,
    /// The application had nothing (more) to send.
    #[default]
    Application,
    /// The receive window, or the cap of a host controller.
    Receiver,
    /// As much of the connection as may stand in its own host's port stands there.
    Host,
}

impl Limit {
    /// True when the sender had to stop though the window would have let it go on, so that nothing was learnt about the
    /// window (RFC 7661 section 4.1).
    #[inline]
    pub fn leaves_window_unused(self) -> bool {
        matches!(self, Limit::Application | Limit::Receiver | Limit::Host)
    }
}

/// Read-only facts about a connection; kept by the connection, never by a law.
#[derive(Clone, Debug)]
pub struct FlowView {
    /// Number of the connection in its run.
    pub flow: u32,
    /// Oldest unacknowledged byte.
    pub una: u64,
    /// Next byte to send.
    pub nxt: u64,
    /// One past the highest byte ever sent.
    pub max_sent: u64,
    /// One past the last byte the application has written.
    pub app_end: u64,
    /// Estimated bytes in the network.
    pub in_flight: u64,
    /// Receive window in bytes.
    pub rwnd: u64,
    /// Payload bytes of a full segment now.
    pub segment: u32,
    /// Largest payload of a segment.
    pub mss: u32,
    /// Latest RTT sample, zero before the first.
    pub rtt_latest: Dur,
    /// Smoothed RTT (RFC 6298), zero before the first sample.
    pub rtt_smoothed: Dur,
    /// Smallest RTT sample, [`Dur::MAX`] before the first.
    pub rtt_min: Dur,
    /// What stopped the last attempt to send.
    pub limit: Limit,
    /// In fast recovery (not after a timeout, when slow start runs).
    pub in_recovery: bool,
    /// When the connection was opened.
    pub started: Time,
    /// Total bytes of the flow when known in advance (for size-aware protocols), else 0.
    pub size: u64,
    /// When the flow should be done (for deadline-aware protocols), [`Time::NEVER`] when it has none.
    pub due: Time,
}

impl FlowView {
    /// A connection in the middle of an endless transfer, with segments of `segment` bytes: nothing in flight, no RTT sample yet,
    /// stopped by its window. For tests, which change what they are about: `FlowView { una: 5000, ..FlowView::plain(1000) }`.
    pub fn plain(segment: u32) -> FlowView {
        FlowView {
            flow: 0,
            una: 0,
            nxt: 0,
            max_sent: 0,
            app_end: u64::MAX,
            in_flight: 0,
            rwnd: u64::MAX,
            segment,
            mss: segment,
            rtt_latest: Dur::ZERO,
            rtt_smoothed: Dur::ZERO,
            rtt_min: Dur::MAX,
            limit: Limit::Window,
            in_recovery: false,
            started: Time::ZERO,
            size: 0,
            due: Time::NEVER,
        }
    }
    /// Bytes still to be acknowledged of a flow of known size.
    pub fn remaining(&self) -> u64 {
        self.size.saturating_sub(self.una)
    }
}

/// What one acknowledgement says. A law gets exactly one for every ACK that the connection accepts: new data, duplicates,
/// window updates, answers to requests, and the SYN-ACK.
#[derive(Clone, Copy, Debug)]
pub struct AckRecord<'a> {
    /// When it arrived.
    pub now: Time,
    /// Bytes newly acknowledged cumulatively; 0 for anything but an ACK of new data.
    pub acked: u64,
    /// Bytes newly reported by selective acknowledgements. They count in `acked` of a later ACK once more.
    pub sacked: u64,
    /// Bytes that this ACK is the first to report, either way: each byte counts once. Without a record of the segments
    /// ([`WindowLaw::wants_rate`]) only what is acknowledged cumulatively.
    pub delivered: u64,
    /// Segments that it is the first to report, short ones as whole ones; 0 without a record of them.
    pub segments: u64,
    /// Bytes that recovery has taken for lost since the record before this one: what this ACK gave away, and what a timer
    /// that ran out in between did. A byte counts as often as a transmission of it was lost.
    pub lost: u64,
    /// What of it this ACK itself gave away (Linux's rs->losses).
    pub lost_now: u64,
    /// Delivery rate over the latest flight, when the law asked for it ([`WindowLaw::wants_rate`]) and this ACK gives one.
    pub rate: Option<&'a RateSample>,
    /// A valid RTT sample taken from this ACK.
    pub rtt: Option<Dur>,
    /// The ACK carried ECN-Echo.
    pub ece: bool,
    /// When the segment that caused this ACK was sent.
    pub sent_at: Time,
    /// What the routers wrote (congestion header, telemetry), as echoed by the receiver.
    pub header: &'a CcHeader,
    /// What kept the sender from sending more before this ACK.
    pub limit: Limit,
    /// Bytes sent and not acknowledged in any way before this ACK.
    pub flight_before: u64,
    /// Bytes in flight after this ACK, before anything is sent for it.
    pub flight_after: u64,
}

impl<'a> AckRecord<'a> {
    /// An ACK at `now` of a segment that has just been sent: it says nothing more than that `acked` new bytes have arrived.
    /// For drivers that know no more, and for tests.
    pub fn plain(now: Time, acked: u64, header: &'a CcHeader) -> AckRecord<'a> {
        AckRecord {
            now,
            acked,
            sacked: 0,
            delivered: acked,
            segments: 0,
            lost: 0,
            lost_now: 0,
            rate: None,
            rtt: None,
            ece: false,
            sent_at: now,
            header,
            limit: Limit::Window,
            flight_before: acked,
            flight_after: 0,
        }
    }
    /// True when a loss-based law may grow on it: new data, and no fast recovery (RFC 5681 section 3.2).
    #[inline]
    pub fn may_grow(&self, flow: &FlowView) -> bool {
        self.acked > 0 && !flow.in_recovery
    }
}

/// A sign of congestion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Congestion {
    /// Fast retransmit: loss inferred from duplicate or selective acknowledgements.
    Loss,
    /// The retransmission timer fired, for the n-th time in a row (1 = first).
    Timeout {
        /// Consecutive timeouts of the same data.
        in_a_row: u32,
        /// Bytes in flight that are not taken for lost by it: none by the RFCs, and in Linux what has not been out for long enough.
        kept: u64,
    },
    /// The handshake took more than one SYN (RFC 5681 section 3.1: begin with one segment). Nothing is known about
    /// the size of the window.
    SynLost,
    /// ECN-Echo, reported at most once per window of data (RFC 3168 section 6.1.2).
    Ecn,
    /// Fast recovery has ended: everything outstanding at its start is acknowledged.
    Recovered,
    /// Nothing was sent for longer than a retransmission timeout (RFC 5681 section 4.1).
    Idle,
    /// The latest reduction was needless (RFC 4015, RFC 5682): nothing had been lost. Linux's recovery says so, no other.
    Spurious,
}

/// What the sender may do. `None` = not limited by this; the segment keeps its last size.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Control {
    /// Congestion window in bytes.
    pub window: Option<Bytes>,
    /// Pacing rate of bits on the wire.
    pub pacing: Option<Rate>,
    /// Payload of a segment. A law that changes it says so from the beginning: a run's checks ask a new law whether it does.
    pub segment: Option<Bytes>,
}

/// The window or rate law of a sender. Fed by the connection, asked for [`Control`] after every event.
pub trait WindowLaw: Send {
    /// An acknowledgement has arrived: exactly one call for each, with `flow` as it is with this ACK. What it says about loss
    /// follows as [`Self::on_congestion`].
    fn on_ack(&mut self, ack: &AckRecord<'_>, flow: &FlowView);
    /// True when [`AckRecord::rate`] is wanted. Asked once, when the connection is made: it then keeps a record of every
    /// segment in flight, which the connections of other laws do not pay for.
    fn wants_rate(&self) -> bool {
        false
    }
    /// A sign of congestion.
    fn on_congestion(&mut self, now: Time, flow: &FlowView, event: Congestion);
    /// The application has written on a connection that had nothing outstanding: a new transfer begins.
    fn on_transfer(&mut self, now: Time, flow: &FlowView) {
        let _ = (now, flow);
    }
    /// A segment is about to leave, and nothing is out: the connection has been silent for `idle`. By the RFCs that is since everything was acknowledged; on Linux's
    /// sender (CA_EVENT_TX_START, lsndtime) since the last segment left, in ticks of the kernel's clock. A law that grows by the clock leaves this time out.
    fn on_idle(&mut self, now: Time, idle: Dur, flow: &FlowView) {
        let _ = (now, idle, flow);
    }
    /// The first segment of a flight is about to leave where the application had left a gap (BBRHandleRestartFromIdle; Linux's CA_EVENT_TX_START with
    /// app_limited set). Told only to laws that want the rate.
    fn on_restart(&mut self, now: Time, flow: &FlowView) {
        let _ = (now, flow);
    }
    /// The only output.
    fn control(&self) -> Control;
    /// A number that moves on whenever [`Self::control`] or [`Self::deadline`] has changed, for laws that seldom change them: they are asked for
    /// these then, and not after every event. Zero: after every event.
    fn changes(&self) -> u32 {
        0
    }
    /// A segment (SYN included) is about to leave: stamp headers. Called only when [`Self::header_len`] > 0.
    fn on_send(&mut self, now: Time, flow: &FlowView, packet: &mut Packet, header: &mut CcHeader) {
        let _ = (now, flow, packet, header);
    }
    /// Bytes of congestion header in both directions. A packet that leaves without a header pays nothing.
    fn header_len(&self) -> u32 {
        0
    }
    /// Bytes of congestion header on an ordinary data segment and its ACK: fewer where [`Self::on_send`] stamps some packets only.
    fn data_header_len(&self) -> u32 {
        self.header_len()
    }
    /// A packet without payload should leave now to carry a header (asked only when `header_len` > 0). It is
    /// answered at once; `on_send` sees it with [`crate::packet::flag::PROBE`] and no payload.
    fn wants_request(&self, now: Time, flow: &FlowView) -> bool {
        let _ = (now, flow);
        false
    }
    /// How much of its window per smoothed round trip the law would send at, in percent, where it is not paced: segmentation offload sizes
    /// its bursts by it. Linux's `tcp_update_pacing_rate`: 120 in congestion avoidance.
    fn pacing_percent(&self) -> u64 {
        120
    }
    /// Next time the law wants to act by itself.
    fn deadline(&self) -> Time {
        Time::NEVER
    }
    /// The deadline has come.
    fn on_deadline(&mut self, now: Time, flow: &FlowView) {
        let _ = (now, flow);
    }
    /// Reports internal values by their declarations, for recording only; the protocol lists these (`reports`).
    fn observe(&self, report: &mut Report<'_>) {
        let _ = report;
    }
}
