//! The sending half of a connection: sequence space, scoreboard, phases, timers, pacing. What is lost and what is sent then
//! is its [`Recovery`]'s, how much may be sent its [`WindowLaw`]'s.

mod acks;
mod bursts;
mod idle;
mod offload;
mod sending;
mod timers;

use crate::control::{Congestion, Control, FlowView, Limit, WindowLaw};
use crate::quantity::Report;
use crate::rng::Stream;
pub use crate::tcp::phase::Phase;
use crate::tcp::recovery::{self, Act, AnyRecovery, Connection, Recovery};
use crate::tcp::{ticks, HeaderCompressor, Personality, Ranges, RttEstimator, SegmentLog, TcpConfig};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
pub use idle::IdleSender;
use penstock_units::{Bytes, Dur, Rate, Time};

/// The congestion window of a law that has none.
const NO_WINDOW: u64 = u64::MAX / 2;

/// Why a timer had to fire: that of a retransmission timeout, or of a tail-loss probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum TimeoutKind {
    /// No acknowledgement at all since the outstanding data was sent: the whole window (or all its ACKs) was lost.
    WindowLost = 0,
    /// Duplicate acknowledgements came, but too few for fast retransmit.
    FewDupAcks = 1,
    /// In fast recovery: a retransmission was lost, or its ACK.
    RetransmitLost = 2,
    /// The timer fired again for the same data.
    Repeated = 3,
    /// The SYN or its answer was lost.
    Syn = 4,
    /// No timeout: a tail-loss probe (RFC 8985 section 7) is sent.
    Probe = 5,
}

impl TimeoutKind {
    /// The name used in result columns.
    pub fn name(self) -> &'static str {
        ["window lost", "few dup acks", "retransmit lost", "repeated", "syn", "probe"][self as usize]
    }
}

/// One retransmission timeout or tail-loss probe, for the event table.
#[derive(Clone, Copy, Debug)]
pub struct TimeoutRecord {
    /// Why.
    pub kind: TimeoutKind,
    /// True when nothing of the latest application write (block) was acknowledged yet.
    pub block_start: bool,
    /// Oldest unacknowledged byte, from the start of the latest write.
    pub block_offset: u64,
    /// Bytes outstanding.
    pub outstanding: u64,
    /// Congestion window before the timeout, in bytes.
    pub cwnd: u64,
    /// The timeout that has just run out; of a probe the time since the last segment was sent.
    pub rto: Dur,
    /// Consecutive timeouts, 1 = first.
    pub in_a_row: u32,
}

/// What a sender has to tell a [`crate::HostController`].
#[derive(Clone, Copy, Debug)]
pub enum News {
    /// New data was acknowledged.
    Acked {
        /// Bytes newly acknowledged.
        bytes: u64,
        /// The ACK carried ECN-Echo.
        ece: bool,
        /// When the segment that caused the ACK was sent.
        sent_at: Time,
        /// RTT sample, when one was taken.
        rtt: Option<Dur>,
    },
    /// A sign of congestion.
    Congestion(Congestion),
}

/// Counters of a sender.
#[derive(Clone, Copy, Debug, Default)]
pub struct SenderStats {
    /// Data segments sent, retransmissions included.
    pub data_packets: u64,
    /// Of these, retransmissions.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Fast retransmits (entries into fast recovery).
    pub fast_retransmits: u64,
    /// ACKs that carried ECN-Echo.
    pub ece_acks: u64,
    /// Tail-loss probes.
    pub probes: u64,
    /// Time from the last segment sent to each of them.
    pub probe_wait: Dur,
    /// Reductions that were taken back as needless.
    pub undone: u64,
    /// Segments sent by the retransmit thread.
    pub thread_retransmits: u64,
}

/// The sending half of a connection. What most ACKs and segments touch comes first.
#[repr(C)]
pub struct Sender {
    /// What laws may see.
    pub view: FlowView,
    cfg: Arc<TcpConfig>,
    phase: Phase,
    /// The recovery hears of every ACK and segment.
    hears_all: bool,
    /// The recovery chooses in any phase and keeps the scoreboard through a timeout.
    steers: bool,
    /// It keeps the retransmission timer as well.
    keeps_timer: bool,
    /// The law wants the delivery rate.
    wants_rate: bool,
    /// SYN to be sent.
    syn_due: bool,
    close: bool,
    persist_due: bool,
    cwr_due: bool,
    /// The peer has granted no ECN.
    no_ecn: bool,
    /// Timers are set where the application has written, and not where something has arrived.
    written: bool,
    class: u8,
    /// ECN at a window of one segment: marks in a row there.
    ecn_in_a_row: u8,
    dup_acks: u32,
    timeouts_in_a_row: u32,
    persist_backoff: u32,
    header_len: u32,
    /// [`WindowLaw::changes`] when its control was read.
    changes: u32,
    flow: u32,
    cwnd: u64,
    /// Window cap of a host controller in bytes; `u64::MAX` = none.
    cap: u64,
    /// What the recovery wants, as of its last event.
    wants: recovery::Control,
    /// It has to set its timers for what happened then: once for an ACK and the segments that it lets out. [`Time::NEVER`] = it has.
    rearm: Time,
    rto_at: Time,
    cc_at: Time,
    /// When pacing lets the next one go, from that and the present rate (Linux: the rate when it left); `ZERO` without pacing. It is
    /// asked more often than it changes, and a division.
    pace_at: Time,
    /// While the connection's share of its host's port is used up: when the oldest of it leaves. `ZERO` = there is room.
    host_free_at: Time,
    /// ECN at a window of one segment: nothing new leaves before this.
    ecn_hold: Time,
    persist_at: Time,
    active_at: Time,
    pacing: Option<Rate>,
    /// Pacing: when the last packet left and how long it was.
    paced: (Time, u32),
    /// The segment being timed: its end, and when it was sent (Karn: one at a time, sent once).
    timed: Option<(u64, Time)>,
    /// A record of every segment, when the law or the recovery asked for it.
    log: Option<Box<SegmentLog>>,
    cc: Box<dyn WindowLaw>,
    /// What has happened since a host controller last asked; `None` = there is none.
    news: Option<Vec<News>>,
    sacked: Ranges,
    rtt: RttEstimator,
    lost_unheard: u64,
    /// Counters.
    pub stats: SenderStats,
    // What only some do.
    recovery: AnyRecovery,
    since: recovery::Since,
    /// Segmentation offload, where segments leave together.
    bursts: Option<Box<bursts::Bursts>>,
    /// Bytes taken for lost so far, and how many of them the law has not heard of.
    lost: u64,
    /// `nxt` at the first duplicate ACK: what limited transmit sends after it is not in FlightSize.
    before_duplicates: u64,
    /// Highest byte sent when the last loss event began; `None` before the first.
    recover: Option<u64>,
    /// ECN: no further reduction until this is acknowledged.
    cwr_end: u64,
    syn_sent: u32,
    block_start: u64,
    /// How much later than pacing allowed the last packet left; Linux only.
    late: Dur,
    compressor: HeaderCompressor,
    last_timeout: Option<TimeoutRecord>,
}

/// What the recovery sees of a sender; a macro, because it borrows all but the recovery itself.
macro_rules! connection {
    ($s:ident, $now:expr) => {
        Connection {
            now: $now,
            cfg: &$s.cfg,
            view: &$s.view,
            phase: $s.phase,
            sacked: &$s.sacked,
            segments: $s.log.as_deref(),
            dup_acks: $s.dup_acks,
            timeouts_in_a_row: $s.timeouts_in_a_row,
            recover: $s.recover,
            window: $s.cwnd.min($s.cap),
            rto_at: $s.rto_at,
            closing: $s.close,
            written: $s.written,
            rtt_min: $s.rtt.recent,
        }
    };
}
use connection;

impl Sender {
    /// Its window law, to look at.
    #[inline]
    pub fn law(&self) -> &dyn WindowLaw {
        &*self.cc
    }
    /// A sender for connection `flow` in traffic class `class`. Most need no random numbers: then `rng` is not called.
    pub fn new(
        cfg: Arc<TcpConfig>,
        cc: Box<dyn WindowLaw>,
        flow: u32,
        class: u8,
        rng: impl FnOnce() -> Stream,
    ) -> Sender {
        let control = cc.control();
        let recovery = AnyRecovery::new(&cfg, || rng().split(1));
        let log = cc.wants_rate() || recovery.wants_segments();
        let (steers, pacing) = (recovery.steers(), control.pacing);
        let segment = control.segment.map_or(cfg.mss, |s| (s.0 as u32).clamp(1, cfg.mss));
        // In one piece, as [`Self::apply`] would have it: what is changed afterwards would be moved as a whole.
        Sender {
            view: FlowView {
                flow,
                una: 0,
                nxt: 0,
                max_sent: 0,
                app_end: 0,
                in_flight: 0,
                rwnd: cfg.rwnd,
                segment,
                mss: cfg.mss,
                rtt_latest: Dur::ZERO,
                rtt_smoothed: Dur::ZERO,
                rtt_min: Dur::MAX,
                limit: Limit::Application,
                in_recovery: false,
                started: Time::ZERO,
                size: 0,
                due: Time::NEVER,
            },
            phase: Phase::Closed,
            cwnd: control.window.map_or(NO_WINDOW, |w| w.0),
            cap: u64::MAX,
            news: None,
            pacing,
            hears_all: recovery.hears_all(),
            steers,
            rearm: Time::NEVER,
            keeps_timer: recovery.keeps_timer(),
            since: recovery::Since::default(),
            wants_rate: cc.wants_rate(),
            recovery,
            wants: recovery::Control::NONE,
            log: log.then(|| Box::new(SegmentLog::new(cc.wants_rate()))),
            bursts: bursts::Bursts::new(&cfg),
            lost: 0,
            lost_unheard: 0,
            dup_acks: 0,
            before_duplicates: 0,
            rto_at: Time::NEVER,
            cc_at: cc.deadline(),
            recover: None,
            cwr_end: 0,
            cwr_due: false,
            no_ecn: false,
            written: false,
            ecn_hold: Time::ZERO,
            ecn_in_a_row: 0,
            syn_due: false,
            syn_sent: 0,
            close: false,
            block_start: 0,
            timeouts_in_a_row: 0,
            rtt: RttEstimator::default(),
            timed: None,
            sacked: Ranges::default(),
            paced: (Time::ZERO, 0),
            pace_at: pacing.filter(|_| !steers).map_or(Time::ZERO, |rate| Time::ZERO + Bytes(0) / rate),
            late: Dur::ZERO,
            host_free_at: Time::ZERO,
            compressor: HeaderCompressor::default(),
            persist_at: Time::NEVER,
            persist_due: false,
            persist_backoff: 1,
            active_at: Time::ZERO,
            last_timeout: None,
            header_len: cc.header_len(),
            changes: 0,
            flow,
            class,
            stats: SenderStats::default(),
            cfg,
            cc,
        }
    }

    // ---- commands ------------------------------------------------------------------------------------

    /// Starts the handshake.
    pub fn open(&mut self, now: Time) {
        assert!(self.phase == Phase::Closed, "a connection is opened once");
        self.phase = Phase::SynSent;
        self.syn_due = true;
        self.view.started = now;
        self.recovery.start(now);
        self.sync(now);
    }
    /// The application writes `bytes` more: a new block.
    pub fn write(&mut self, now: Time, bytes: u64) {
        assert!(!self.close, "no data after close");
        self.written = true;
        if self.steers {
            self.look_for_a_gap();
        }
        self.block_start = self.view.app_end;
        self.view.app_end += bytes;
        // RFC 5681 section 4.1: after an idle time of one RTO the window restarts.
        let idle = self.view.una == self.view.nxt && self.view.nxt > 0;
        if self.cfg.restart_after_idle && idle {
            let rto = self.rtt.rto(&self.cfg);
            let times = match self.cfg.personality {
                Personality::Rfc => u64::from(now.since(self.active_at) > rto),
                // Linux (tcp_slow_start_after_idle_check, tcp_cwnd_restart) counts ticks since the last segment left,
                // and halves the window for every timeout that has passed, so the law is told of each.
                Personality::Linux => {
                    let passed = ticks::between(self.active_at, now, self.cfg.rto_granularity);
                    passed.0.div_ceil(rto.0).saturating_sub(1).min(32)
                }
            };
            (0..times).for_each(|_| self.congestion(now, Congestion::Idle));
        }
        if idle {
            self.cc.on_transfer(now, &self.view);
            self.refresh();
        }
    }
    /// tcp_rate_check_app_limited, which Linux calls only where the application writes (tcp_sendmsg_locked, from
    /// memory). Retransmissions at the end of the previous write therefore count as a sample of the path's rate,
    /// although the pipe runs empty.
    fn look_for_a_gap(&mut self) {
        let flight = self.flight();
        let ready = self.view.app_end.saturating_sub(self.view.nxt);
        let repaired = self.wants.missing == 0;
        if ready < u64::from(self.view.segment) && flight < self.cwnd && repaired {
            if let Some(log) = &mut self.log {
                log.on_app_limited(flight);
            }
        }
    }
    /// Keeps news for a host controller from now on.
    pub fn keep_news(&mut self) {
        self.news = Some(Vec::new());
    }
    /// Moves the news into `into`, oldest first.
    pub fn take_news(&mut self, into: &mut Vec<News>) {
        into.clear();
        if let Some(news) = &mut self.news {
            core::mem::swap(news, into);
        }
    }
    /// Caps the window; acts like a receive window, beside the congestion window and not instead of it.
    pub fn set_cap(&mut self, cap: Option<Bytes>) {
        self.cap = cap.map_or(u64::MAX, |b| b.0);
    }
    /// The connection's share of its host's port is used up until `at`; [`Time::ZERO`] = there is room.
    #[inline]
    pub fn set_host_free_at(&mut self, at: Time) {
        self.host_free_at = at;
    }
    /// No more writes: FIN rides on the last segment, or goes out alone when that has been sent.
    pub fn close(&mut self) {
        self.close = true;
    }
    /// Forgets what was written and not yet sent, and closes.
    pub fn leave(&mut self) {
        self.view.app_end = self.view.app_end.min(self.view.max_sent);
        self.close = true;
    }

    // ---- getters -------------------------------------------------------------------------------------

    /// One past the last sequence number there will be so far (FIN takes one).
    #[inline]
    fn seq_end(&self) -> u64 {
        self.view.app_end + u64::from(self.close)
    }
    /// End in sequence space of a segment at `seq` that does not run past `limit`: a full payload at most, and FIN rides on
    /// the last byte.
    #[inline]
    fn segment_end(&self, seq: u64, limit: u64) -> u64 {
        recovery::segment_end(&self.view, self.close, seq, limit)
    }
    /// Everything written (and FIN, when closed) is acknowledged.
    #[inline]
    pub fn all_acked(&self) -> bool {
        self.view.una >= self.seq_end() && self.phase != Phase::SynSent && self.phase != Phase::Closed
    }
    /// Closed and done: no packet of this connection matters any more.
    #[inline]
    pub fn finished(&self) -> bool {
        self.close && self.all_acked()
    }
    /// Bytes acknowledged.
    pub fn acked(&self) -> u64 {
        self.view.una.min(self.view.app_end)
    }
    /// Phase now.
    pub fn phase(&self) -> Phase {
        self.phase
    }
    /// Congestion window in bytes, recovery inflation not included.
    pub fn cwnd(&self) -> u64 {
        self.cwnd
    }
    /// Bytes acknowledged selectively, above the cumulative acknowledgement.
    pub fn sacked_bytes(&self) -> u64 {
        self.sacked.total()
    }
    /// RTT estimator.
    pub fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }
    /// Retransmission timeout now.
    pub fn rto(&self) -> Dur {
        self.rtt.rto(&self.cfg)
    }
    /// Bytes on the wire of a full segment now.
    pub fn packet_len(&self) -> u32 {
        self.view.segment + self.cfg.header_len() + self.header_len
    }
    /// Congestion header bytes on every packet.
    pub fn header_len(&self) -> u32 {
        self.header_len
    }
    /// Reports the law's internal values.
    pub fn observe(&self, report: &mut Report<'_>) {
        self.cc.observe(report);
    }
    /// The timeout or the tail-loss probe that `on_deadline` has just handled.
    pub fn take_timeout(&mut self) -> Option<TimeoutRecord> {
        self.last_timeout.take()
    }
    /// When the retransmission timer that is set now goes off.
    #[inline]
    fn rto_after(&self, now: Time) -> Time {
        let rto = self.rto();
        if self.steers {
            ticks::expiry(now, rto, self.cfg.rto_granularity, &self.cfg.missed_ticks, self.written)
        } else {
            now + rto
        }
    }
    /// Next time to wake up.
    #[inline(always)]
    pub fn deadline(&self) -> Time {
        let mut t = self.rto_at.min(self.cc_at);
        if self.pacing.is_some() && self.view.limit == Limit::Pacing {
            t = t.min(self.pace_at);
        }
        if self.view.limit == Limit::Host && self.host_free_at != Time::ZERO {
            t = t.min(self.host_free_at);
        }
        if self.ecn_hold != Time::ZERO {
            t = t.min(self.ecn_hold);
        }
        t.min(self.persist_at).min(self.wants.deadline)
    }
    /// The rate, or what is paced, has changed.
    #[inline]
    fn pace(&mut self) {
        self.pace_at = match self.pacing {
            Some(rate) => {
                let length = Bytes(self.paced.1 as u64) / rate;
                self.paced.0 + (length - self.late.min(length / 2))
            }
            None => Time::ZERO,
        };
    }

    // ---- recovery ------------------------------------------------------------------------------------

    /// Reads what the recovery wants. Needed after each of its events, and when phase or duplicate count have changed.
    fn sync(&mut self, now: Time) {
        self.wants = self.recovery.control(&connection!(self, now));
        if self.steers {
            // With segmentation offload every segment goes the long way, so that no other connection is asked.
            self.wants.chooses |= self.bursts.is_some();
            self.view.in_recovery = self.phase == Phase::FastRecovery || self.wants.reducing;
        }
    }
    /// Lets the recovery set its timers. Needed before anything else happens to the connection, and when it has nothing more to send.
    #[inline(always)]
    fn settle(&mut self) {
        if self.rearm != Time::NEVER {
            self.set_timers();
        }
    }
    #[inline(never)]
    fn set_timers(&mut self) {
        let at = core::mem::replace(&mut self.rearm, Time::NEVER);
        let since = core::mem::take(&mut self.since);
        let rto = if self.keeps_timer { self.rto() } else { Dur::ZERO };
        let timers = self.recovery.rearm(&connection!(self, at), rto, &since);
        (self.wants.deadline, self.rto_at) = (timers.deadline, timers.rto_at);
    }
    /// Counts bytes taken for lost.
    #[inline]
    fn count_lost(&mut self, bytes: u64) {
        self.lost += bytes;
        self.lost_unheard += bytes;
    }
    /// Does what a recovery has decided; the law has heard of the ACK that led to it.
    fn act(&mut self, now: Time, act: Act) {
        match act {
            Act::Stay => {}
            Act::Enter | Act::GoBack => self.enter_recovery(now, act == Act::GoBack),
            Act::Leave => {
                self.set_phase(Phase::Open);
                self.congestion(now, Congestion::Recovered);
            }
            Act::Renew => {
                self.set_phase(Phase::Open);
                self.congestion(now, Congestion::Recovered);
                self.enter_recovery(now, false);
            }
            Act::Over => self.set_phase(Phase::Open),
            Act::Undo | Act::Reopen => {
                self.set_phase(Phase::Open);
                self.cwr_end = self.cwr_end.min(self.view.una);
                if act == Act::Undo {
                    self.stats.undone += 1;
                    self.congestion(now, Congestion::Spurious);
                }
                let outcome = self.recovery.on_undone(&connection!(self, now));
                self.count_lost(outcome.lost);
                if outcome.act == Act::Enter {
                    self.enter_recovery(now, false);
                }
            }
            Act::Repaired => {
                self.congestion(now, Congestion::Loss);
                self.congestion(now, Congestion::Recovered);
            }
        }
        self.sync(now);
    }

    // ---- law -----------------------------------------------------------------------------------------

    #[inline]
    fn apply(&mut self, control: Control) {
        self.cwnd = control.window.map_or(NO_WINDOW, |w| w.0);
        if self.pacing != control.pacing {
            self.pacing = control.pacing;
            // Linux sets the earliest departure time of the next packet when one leaves (tcp_wstamp_ns).
            if !self.steers {
                self.pace();
            }
        }
        if let Some(s) = control.segment {
            self.view.segment = (s.0 as u32).clamp(1, self.view.mss);
        }
    }
    #[inline]
    fn refresh(&mut self) {
        let changes = self.cc.changes();
        if changes != 0 && changes == self.changes {
            debug_assert!(self.pacing == self.cc.control().pacing && self.cc_at == self.cc.deadline());
            return;
        }
        self.changes = changes;
        let control = self.cc.control();
        self.apply(control);
        self.cc_at = self.cc.deadline();
    }
    fn congestion(&mut self, now: Time, event: Congestion) {
        let timeout = matches!(event, Congestion::Timeout { .. });
        self.tell_congestion(now, event, self.what_is_reduced(timeout));
    }
    /// What a law reduces from at a sign of congestion.
    fn what_is_reduced(&self, timeout: bool) -> u64 {
        if self.cfg.ssthresh_from_cwnd {
            self.cwnd.min(self.view.rwnd)
        } else if self.steers {
            self.flight()
        } else if timeout && self.phase == Phase::FastRecovery {
            self.flight_in_recovery()
        } else {
            self.flight_size()
        }
    }
    fn tell_congestion(&mut self, now: Time, event: Congestion, from: u64) {
        self.view.in_flight = from;
        self.cc.on_congestion(now, &self.view, event);
        self.view.in_flight = self.flight();
        if let Some(news) = &mut self.news {
            news.push(News::Congestion(event));
        }
        self.refresh();
    }
    /// FlightSize: sent and not acknowledged cumulatively (RFC 5681 section 2), without what limited transmit
    /// has sent (section 3.2 step 2).
    fn flight_size(&self) -> u64 {
        let sent = self.payload_end();
        let counted = if self.dup_acks > 0 { sent.min(self.before_duplicates) } else { sent };
        counted.saturating_sub(self.view.una)
    }
    /// Returns the bytes in the network at a timeout during fast recovery. FlightSize by the letter (RFC 5681 section
    /// 2) still has the segments that duplicate ACKs reported as gone, up to twice the window. The timer's reaction
    /// would take that as the path's capacity and overrun it again; eq. (4) asks for "no more than" half of it. The
    /// inflation of the window counts the segments that have left. By RFC 5681 section 3.2 step 4 each duplicate is
    /// one; by RFC 6582 section 3.2 step 3 a partial ACK deflates by what it acknowledges. With SACK the scoreboard has
    /// it.
    fn flight_in_recovery(&self) -> u64 {
        self.flight().saturating_sub(self.wants.allowance.max(0) as u64)
    }
    /// What is sent and not acknowledged in any way: FlightSize without the SACKed bytes.
    #[inline]
    fn flight(&self) -> u64 {
        let sent = self.payload_end();
        let sent_and_not_lost = sent.saturating_sub(self.view.una).saturating_sub(self.wants.missing);
        let flight = sent_and_not_lost + self.wants.twice;
        if self.sacked.is_empty() {
            flight
        } else {
            flight.saturating_sub(self.sacked.covered(self.view.una, sent))
        }
    }
    /// One past the last byte of payload sent: the number of FIN is no byte in the network.
    #[inline]
    fn payload_end(&self) -> u64 {
        self.view.nxt.min(self.view.app_end)
    }
}
