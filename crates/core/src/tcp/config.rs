//! Options of a connection.

use super::{Echo, MissedTicks, Recovery};
use crate::packet::Ecn;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use penstock_units::{Dur, Rate};

/// Bytes of IPv4 and TCP header without options.
pub const IP_TCP_HEADER: u32 = 40;

/// Builds the recovery of one sender.
pub type BuildRecovery = Arc<dyn Fn(&TcpConfig) -> Box<dyn Recovery> + Send + Sync>;
/// Builds the echo of one receiver.
pub type BuildEcho = Arc<dyn Fn(&TcpConfig) -> Box<dyn Echo> + Send + Sync>;

/// Recovery and echo of a protocol's own, in the place of the standard ones that the options below choose.
#[derive(Clone, Default)]
pub struct Roles {
    /// The sender's recovery. [`TcpConfig::recovery`] then still says whether selective acknowledgements are negotiated.
    pub recovery: Option<BuildRecovery>,
    /// The receiver's echo. [`TcpConfig::ecn`] then still says what is ECN-capable and how the sender takes ECE.
    pub echo: Option<BuildEcho>,
}

impl fmt::Debug for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = |given: bool| if given { "own" } else { "standard" };
        let Roles { recovery, echo } = self;
        write!(f, "recovery {}, echo {}", own(recovery.is_some()), own(echo.is_some()))
    }
}

/// How losses are repaired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossRecovery {
    /// Fast recovery that ends at the first new acknowledgement (RFC 5681 section 3.2).
    Reno,
    /// Partial acknowledgements stay in recovery (RFC 6582).
    NewReno,
    /// Selective acknowledgements (RFC 2018, RFC 6675).
    Sack,
}

/// Whether and how congestion marks are echoed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EcnMode {
    /// Nothing is ECN-capable.
    Off,
    /// ECE until CWR; new data is ECN-capable and nothing else (RFC 3168 sections 6.1.1, 6.1.4 and 6.1.5).
    Classic,
    /// ECE mirrors CE packet by packet (RFC 8257 section 3.2), and every packet is ECN-capable: SYN and SYN-ACK (section
    /// 3.6), data, retransmissions, and pure ACKs and probes too, as in Linux.
    Dctcp,
}

/// Whose rules a connection follows where RFCs and Linux part.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Personality {
    /// The RFCs' that the options name.
    #[default]
    Rfc,
    /// Linux's: RACK-TLP, PRR, F-RTO and undo ([`super::recovery::Linux`]), its variance rule for the timeout
    /// ([`super::RttEstimator`]), its delayed acknowledgements ([`super::echo::Linux`]), a window that is halved for every timeout of
    /// idle time. Needs selective acknowledgements.
    Linux,
}

/// Options of the retransmit thread.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RetransmitThread {
    /// Probability p that one execution retransmits, in [0, 1].
    pub probability: f64,
    /// Time between two executions.
    pub every: Dur,
    /// Which segment it sends again.
    pub segment: ThreadSegment,
    /// It rests from the third duplicate ACK to the end of fast recovery.
    pub rests_in_recovery: bool,
}

/// The reading of "highest unacknowledged segment".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ThreadSegment {
    /// The newest segment of the transmit window.
    Newest,
    /// The one above the highest acknowledgement.
    Oldest,
}

/// Options of a connection; both ends share them.
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// Payload of a full segment in bytes.
    pub mss: u32,
    /// Header bytes of every segment, without the options below.
    pub header: u32,
    /// Timestamp option: 12 bytes on every segment and an RTT sample on every ACK (RFC 7323).
    pub timestamps: bool,
    /// Initial window in segments (RFC 5681: 2..4, RFC 6928: 10).
    pub initial_window: u32,
    /// Loss recovery.
    pub recovery: LossRecovery,
    /// Duplicate acknowledgements that mean loss.
    pub dup_thresh: u32,
    /// Send new data on the first two duplicate ACKs (RFC 3042).
    pub limited_transmit: bool,
    /// Floor of the retransmission timeout (RFC 6298 section 2.4).
    pub rto_min: Dur,
    /// Ceiling of the retransmission timeout (RFC 6298 section 2.5).
    pub rto_max: Dur,
    /// Timeout before the first RTT sample (RFC 6298 section 2.1).
    pub rto_initial: Dur,
    /// Timeouts of a SYN without back-off, with Linux's sender (net.ipv4.tcp_syn_linear_timeouts; SYN-ACKs have none).
    pub syn_linear_timeouts: u32,
    /// Clock granularity G: samples are rounded up to it, and timeouts too (RFC 6298 section 2.3).
    pub rto_granularity: Dur,
    /// Of its ticks those at which timers of the Linux sender and receiver do not go off.
    pub missed_ticks: MissedTicks,
    /// Largest back-off factor.
    pub backoff_max: u32,
    /// Acknowledge every n-th full segment; 1 = every segment (RFC 5681 section 4.2).
    pub delayed_ack: u32,
    /// ACKs that are not delayed at the start of a connection, after a gap longer than `rto_min` and after a duplicate
    /// (Linux: 16). 0 = none.
    pub quick_acks: u32,
    /// Longest an acknowledgement is delayed.
    pub delayed_ack_timeout: Dur,
    /// With [`Personality::Linux`]: longest an ACK of what came out of order is held back (tcp_comp_sack_delay_ns); zero = not at all.
    pub comp_sack: Dur,
    /// Receive buffer in bytes.
    pub rwnd: u64,
    /// Rate at which the receiving application reads; `None` = at once.
    pub read_rate: Option<Rate>,
    /// Fall back to the initial window after an idle time of one RTO (RFC 5681 section 4.1).
    pub restart_after_idle: bool,
    /// Grow the window only while it is what limits the sender (RFC 7661, Linux).
    pub window_validation: bool,
    /// Grow the window by the bytes acknowledged (RFC 3465, Linux) instead of by the ACKs that arrive.
    pub byte_counting: bool,
    /// ssthresh after loss is half of the congestion window (Linux, ns-2) instead of half of the flight (RFC 5681).
    pub ssthresh_from_cwnd: bool,
    /// A mark leaves a window of at least one segment (RFC 3168 section 6.1.2). Without this half a window may be
    /// less; then nothing leaves until an unmarked ACK lets it grow again, or the retransmission timer expires (ns-2).
    pub ecn_floor: bool,
    /// Without [`Self::ecn_floor`]: that timer doubles each time the next answer is marked as well (ns-2).
    pub ecn_backoff: bool,
    /// Explicit congestion notification.
    pub ecn: EcnMode,
    /// SYN and SYN-ACK are ECN-capable. `None` = what the protocol says: yes by RFC 8257 section 3.6, no by RFC 3168
    /// section 6.1.1 (RFC 8311 section 4.3 allows experiments).
    pub ect_syn: Option<bool>,
    /// A SYN that is sent again asks for no ECN (RFC 3168 section 6.1.1.1; Linux, `tcp_ecn_fallback`).
    pub ecn_fallback: bool,
    /// Tail-loss probe (RFC 8985 section 7).
    pub tail_loss_probe: bool,
    /// ACKs report data that came twice (RFC 2883); needs selective acknowledgements.
    pub dsack: bool,
    /// Retransmits an outstanding segment at random (Kulkarni and Agrawal 2014, section 4.2).
    pub retransmit_thread: Option<RetransmitThread>,
    /// Compressed TCP/IP headers (RFC 1144). Segments with options travel in full, as there.
    pub header_compression: bool,
    /// Whose rules count where RFCs and Linux part.
    pub personality: Personality,
    /// With [`Personality::Linux`]: the recovery spreads a reduction of the window over its round trip (RFC 9937).
    pub prr: bool,
    /// With [`Personality::Linux`]: most segments that leave together (segmentation offload); 1 = each by itself.
    pub gso: u32,
    /// With [`Personality::Linux`]: how long the receiver's interrupt waits for segments that follow each other, which TCP then gets as one
    /// (GRO); zero = each by itself.
    pub gro: Dur,
    /// Recovery and echo of a protocol's own.
    pub roles: Roles,
}

impl Default for TcpConfig {
    fn default() -> Self {
        TcpConfig {
            mss: 1460,
            header: IP_TCP_HEADER,
            timestamps: false,
            initial_window: 10,
            recovery: LossRecovery::Sack,
            dup_thresh: 3,
            limited_transmit: true,
            rto_min: Dur::millis(200),
            rto_max: Dur::millis(60_000),
            rto_initial: Dur::millis(1000),
            syn_linear_timeouts: 4,
            rto_granularity: Dur::ZERO,
            missed_ticks: MissedTicks::default(),
            backoff_max: 64,
            delayed_ack: 1,
            quick_acks: 0,
            delayed_ack_timeout: Dur::millis(40),
            comp_sack: Dur::millis(1),
            rwnd: 1 << 30,
            read_rate: None,
            restart_after_idle: true,
            window_validation: true,
            byte_counting: false,
            ssthresh_from_cwnd: false,
            ecn_floor: true,
            ecn_backoff: false,
            ecn: EcnMode::Off,
            ect_syn: None,
            ecn_fallback: false,
            tail_loss_probe: false,
            dsack: false,
            retransmit_thread: None,
            header_compression: false,
            personality: Personality::Rfc,
            prr: true,
            gso: 1,
            gro: Dur::ZERO,
            roles: Roles::default(),
        }
    }
}

impl TcpConfig {
    /// Header bytes of a data segment, without a congestion header.
    #[inline]
    pub fn header_len(&self) -> u32 {
        self.header + if self.timestamps { 12 } else { 0 }
    }
    /// The floor of the retransmission timeout as Linux has it: in whole ticks, rounded up, whatever it is given in (`tcp_rto_min`, `icsk_rto_min`). With 250
    /// ticks a second 10 ms are 12. For the Linux sender and receiver; by RFC 6298 it is [`Self::rto_min`].
    #[inline]
    pub fn floor(&self) -> Dur {
        match self.rto_granularity {
            Dur::ZERO => self.rto_min,
            tick => tick * self.rto_min.0.div_ceil(tick.0),
        }
    }
    /// The ECN field of SYN and SYN-ACK.
    #[inline]
    pub(super) fn handshake_ecn(&self) -> Ecn {
        let dctcp = self.ecn == EcnMode::Dctcp;
        if self.ecn != EcnMode::Off && self.ect_syn.unwrap_or(dctcp) {
            Ecn::Ect0
        } else {
            Ecn::NotEct
        }
    }
    /// The ECN field of a packet without payload: a pure ACK, a probe. RFC 3168 section 6.1.4 forbids ECT there, since
    /// no sender reacts to its marks. With DCTCP an ACK without ECT would be dropped wherever a queue marks,
    /// unless the handshake has granted no ECN.
    #[inline]
    pub(super) fn control_ecn(&self, no_ecn: bool) -> Ecn {
        if self.ecn == EcnMode::Dctcp && !no_ecn {
            Ecn::Ect0
        } else {
            Ecn::NotEct
        }
    }
}
