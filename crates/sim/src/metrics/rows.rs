//! Rows of the recorded tables.

use super::FlowCounters;
use penstock_core::tcp::TimeoutKind;
use penstock_units::{Dur, Time};

/// One row of the flow table. There may be millions: what happened is kept for the measured window only.
#[derive(Clone, Debug, Default)]
pub struct FlowRecord {
    /// Number.
    pub flow: u32,
    /// Sending host.
    pub src: u32,
    /// Receiving host.
    pub dst: u32,
    /// Position of its workload in the scenario.
    pub workload: u32,
    /// Its protocol, by position in the run's list.
    pub protocol: u16,
    /// When it was opened.
    pub opened: Time,
    /// When it was over, or the end of the run.
    pub closed: Time,
    /// Bytes written on it; 0 = without end, or none.
    pub size: u64,
    /// Still open at the end of the run.
    pub open_at_end: bool,
    /// Closed, and every byte it was opened with was acknowledged.
    pub complete: bool,
    /// Its SYN was answered.
    pub established: bool,
    /// Writes completed.
    pub transfers: u32,
    /// Measured: payload acknowledged.
    pub acked_bytes: u64,
    /// Measured: payload delivered in order.
    pub delivered_bytes: u64,
    /// Measured: data segments sent, retransmissions included.
    pub data_packets: u64,
    /// Measured: ACKs with ECN-Echo.
    pub ece_acks: u64,
    /// Measured: retransmissions, at most 2^32 - 1 as the next three.
    pub retransmits: u32,
    /// Measured: retransmission timeouts.
    pub timeouts: u32,
    /// Measured: fast retransmits.
    pub fast_retransmits: u32,
    /// Measured: tail-loss probes, at most 2^32 - 1.
    pub tail_loss_probes: u32,
    /// Measured: its packets dropped.
    pub drops: u32,
    /// Smoothed RTT at the end.
    pub srtt: Dur,
    /// Mean of its RTT samples; zero without one.
    pub rtt_mean: Dur,
    /// Payload that arrived more than once, in its whole life.
    pub duplicate_bytes: u64,
    /// Seconds from opening to the last acknowledgement, alone in the idle network; NaN = its size is not known.
    pub ideal: f64,
}

impl FlowRecord {
    /// Takes over what was counted in the measured window.
    pub fn count(&mut self, measured: &FlowCounters) {
        let narrow = |x: u64| u32::try_from(x).unwrap_or(u32::MAX);
        self.acked_bytes = measured.acked_bytes;
        self.delivered_bytes = measured.delivered_bytes;
        self.duplicate_bytes = measured.duplicate_bytes;
        self.data_packets = measured.data_packets;
        self.ece_acks = measured.ece_acks;
        self.retransmits = narrow(measured.retransmits);
        self.timeouts = narrow(measured.timeouts);
        self.fast_retransmits = narrow(measured.fast_retransmits);
        self.tail_loss_probes = narrow(measured.tail_loss_probes);
        self.drops = narrow(measured.drops);
    }
    /// Seconds from opening to closing; `None` when it is not complete.
    pub fn fct(&self) -> Option<f64> {
        self.complete.then(|| self.closed.since(self.opened).as_secs())
    }
    /// Completion time over that in the idle network; NaN when it is not complete or its size is not known.
    pub fn slowdown(&self) -> f64 {
        self.fct().map_or(f64::NAN, |fct| fct / self.ideal)
    }
}

/// A completed write.
#[derive(Clone, Copy, Debug, Default)]
pub struct TransferRecord {
    /// Connection.
    pub flow: u32,
    /// When it was made.
    pub started: Time,
    /// When its last byte was delivered.
    pub delivered: Time,
    /// When its last byte was acknowledged.
    pub acked: Time,
    /// Its bytes.
    pub bytes: u64,
    /// Deadline; `NEVER` = none.
    pub due: Time,
    /// Seconds it would take alone in the idle network; NaN = not known.
    pub ideal: f64,
}

impl TransferRecord {
    /// Seconds from the write to the acknowledgement of its last byte.
    pub fn fct(&self) -> f64 {
        self.acked.since(self.started).as_secs()
    }
}

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// A retransmission timeout, or a tail-loss probe.
    Timeout(TimeoutKind),
    /// A fast retransmit.
    FastRetransmit,
    /// A unit of application work is complete.
    Block,
    /// A connection has changed its state under collective control: the state and what moved it.
    Change(&'static str),
    /// A port obeys a pause frame. `offset` is its number, `in_a_row` the priority.
    Pause,
    /// A port goes on after a pause.
    Resume,
}

impl What {
    /// As it is written in the table.
    pub fn name(self) -> &'static str {
        match self {
            What::Timeout(TimeoutKind::WindowLost) => "timeout: window lost",
            What::Timeout(TimeoutKind::FewDupAcks) => "timeout: few dup acks",
            What::Timeout(TimeoutKind::RetransmitLost) => "timeout: retransmit lost",
            What::Timeout(TimeoutKind::Repeated) => "timeout: repeated",
            What::Timeout(TimeoutKind::Syn) => "timeout: syn",
            What::Timeout(TimeoutKind::Probe) => "tail-loss probe",
            What::FastRetransmit => "fast retransmit",
            What::Block => "block",
            What::Change(what) => what,
            What::Pause => "pause",
            What::Resume => "resume",
        }
    }
    /// It is about a port.
    pub fn is_pause(self) -> bool {
        matches!(self, What::Pause | What::Resume)
    }
}

/// A row of the event table.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// When.
    pub at: Time,
    /// Connection; `u32::MAX` = none.
    pub flow: u32,
    /// What.
    pub what: What,
    /// Timeout: nothing of the block was acknowledged yet.
    pub block_start: bool,
    /// Timeout: offset of the oldest unacknowledged byte in its block. Block: its bytes.
    pub offset: u64,
    /// Timeout: bytes outstanding.
    pub outstanding: u64,
    /// Timeout: congestion window before it, bytes.
    pub cwnd: u64,
    /// Timeout: the timeout that ran out, picoseconds. Block: how long it took.
    pub length: Dur,
    /// Timeout: how many in a row.
    pub in_a_row: u32,
    /// Timeout: packets of the connection dropped so far.
    pub drops: u64,
    /// Timeout and fast retransmit: bytes sent that the receiver does not have.
    pub lost: u64,
}

impl Event {
    /// An event of which no more is known.
    pub(super) fn new(at: Time, flow: u32, what: What) -> Event {
        Event {
            at,
            flow,
            what,
            block_start: false,
            offset: 0,
            outstanding: 0,
            cwnd: 0,
            length: Dur::ZERO,
            in_a_row: 0,
            drops: 0,
            lost: 0,
        }
    }
    /// What orders rows: time; connection; of what concerns none, blocks before ports. What one connection or port does at one time is in its own order.
    pub(super) fn order(&self) -> (Time, u32, bool, [u64; 2]) {
        let which = match self.what {
            What::Block => [self.offset, self.length.0],
            What::Pause | What::Resume => [self.offset, u64::from(self.in_a_row)],
            _ => [0; 2],
        };
        (self.at, self.flow, self.what.is_pause(), which)
    }
}
