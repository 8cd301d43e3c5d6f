//! The sending half of a connection: sequence space, loss detection and recovery, timers, pacing.

use super::thread::{ThreadSegment, ThreadTimer};
use super::{EcnMode, HeaderCompressor, LossRecovery, Ranges, RttEstimator, TcpConfig};
use crate::control::{Ack, Congestion, Control, EndpointController, FlowView, Limit};
use crate::header::CcHeader;
use crate::packet::{flag, Ecn, Packet};
use crate::rng::Stream;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use penstock_units::{Bytes, Dur, Rate, Time};

/// Where the connection stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Not opened yet.
    Closed,
    /// SYN sent, no answer yet.
    SynSent,
    /// Nothing is known to be lost.
    Open,
    /// Fast recovery (RFC 5681, 6582, 6675).
    FastRecovery,
    /// After a retransmission timeout, until what was outstanding then is acknowledged.
    Loss,
}

/// Why the retransmission timer had to fire.
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
}

impl TimeoutKind {
    /// The name used in result columns.
    pub fn name(self) -> &'static str {
        ["window lost", "few dup acks", "retransmit lost", "repeated", "syn"][self as usize]
    }
}

/// One retransmission timeout, for the event table.
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
    /// The timeout that has just run out.
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
    /// Segments sent by the retransmit thread.
    pub thread_retransmits: u64,
}

/// The sending half of a connection.
pub struct Sender {
    /// What controllers may see.
    pub view: FlowView,
    cfg: Arc<TcpConfig>,
    phase: Phase,
    cwnd: u64,
    /// Window cap of a host controller in bytes; `u64::MAX` = none.
    cap: u64,
    /// What has happened since a host controller last asked; `None` = there is none.
    news: Option<Vec<News>>,
    pacing: Option<Rate>,
    /// Window inflation by duplicate ACKs in Reno/NewReno recovery, in bytes; partial ACKs may take it below 0.
    inflation: i64,
    dup_acks: u32,
    /// `nxt` at the first duplicate ACK: what limited transmit sends after it is not in FlightSize.
    before_duplicates: u64,
    rto_at: Time,
    cc_at: Time,
    /// Highest byte sent when the last loss event began; `None` before the first.
    recover: Option<u64>,
    /// ECN: no further reduction until this is acknowledged.
    cwr_end: u64,
    cwr_due: bool,
    /// ECN at a window of one segment: nothing new leaves before this.
    ecn_hold: Time,
    /// Retransmit the oldest segment now.
    head_due: bool,
    /// SYN to be sent.
    syn_due: bool,
    syn_sent: u32,
    close: bool,
    block_start: u64,
    timeouts_in_a_row: u32,
    partial_acks: u32,
    rtt: RttEstimator,
    /// The segment being timed: its end, and when it was sent (Karn: one at a time, sent once).
    timed: Option<(u64, Time)>,
    sacked: Ranges,
    /// RFC 6675 HighRxt: one past the highest byte retransmitted in this recovery.
    high_rxt: u64,
    /// RFC 6675 RescueRxt.
    rescue: Option<u64>,
    /// Everything not SACKed below this is lost (set by a tail-loss probe that was SACKed).
    lost_below: u64,
    /// Pacing: when the last packet left and how long it was.
    paced: (Time, u32),
    /// Send jitter: when the next burst may start; `NEVER` = not drawn.
    jitter_at: Time,
    jitter_open: bool,
    jitter: Stream,
    probe_at: Time,
    probe_end: Option<(u64, bool)>,
    probe_due: bool,
    persist_at: Time,
    persist_due: bool,
    persist_backoff: u32,
    thread: ThreadTimer,
    thread_due: bool,
    compressor: HeaderCompressor,
    active_at: Time,
    last_timeout: Option<TimeoutRecord>,
    header_len: u32,
    acks_in_recovery: bool,
    flow: u32,
    class: u8,
    /// Counters.
    pub stats: SenderStats,
    cc: Box<dyn EndpointController>,
}

impl Sender {
    /// A sender for connection `flow` in traffic class `class`.
    pub fn new(
        cfg: Arc<TcpConfig>,
        cc: Box<dyn EndpointController>,
        flow: u32,
        class: u8,
        jitter: Stream,
    ) -> Sender {
        let control = cc.control();
        let mut sender = Sender {
            view: FlowView {
                una: 0,
                nxt: 0,
                max_sent: 0,
                app_end: 0,
                in_flight: 0,
                rwnd: cfg.rwnd,
                segment: cfg.mss,
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
            cwnd: 0,
            cap: u64::MAX,
            news: None,
            pacing: None,
            inflation: 0,
            dup_acks: 0,
            before_duplicates: 0,
            rto_at: Time::NEVER,
            cc_at: cc.deadline(),
            recover: None,
            cwr_end: 0,
            cwr_due: false,
            ecn_hold: Time::ZERO,
            head_due: false,
            syn_due: false,
            syn_sent: 0,
            close: false,
            block_start: 0,
            timeouts_in_a_row: 0,
            partial_acks: 0,
            rtt: RttEstimator::default(),
            timed: None,
            sacked: Ranges::default(),
            high_rxt: 0,
            rescue: None,
            lost_below: 0,
            paced: (Time::ZERO, 0),
            jitter_at: Time::NEVER,
            jitter_open: false,
            thread: ThreadTimer::new(cfg.retransmit_thread, jitter.split(1)),
            thread_due: false,
            compressor: HeaderCompressor::default(),
            jitter,
            probe_at: Time::NEVER,
            probe_end: None,
            probe_due: false,
            persist_at: Time::NEVER,
            persist_due: false,
            persist_backoff: 1,
            active_at: Time::ZERO,
            last_timeout: None,
            header_len: cc.header_len(),
            acks_in_recovery: cc.acks_in_recovery(),
            flow,
            class,
            stats: SenderStats::default(),
            cfg,
            cc,
        };
        sender.apply(control);
        sender
    }

    // ---- commands ------------------------------------------------------------------------------------

    /// Starts the handshake.
    pub fn open(&mut self, now: Time) {
        assert!(self.phase == Phase::Closed, "a connection is opened once");
        self.phase = Phase::SynSent;
        self.syn_due = true;
        self.view.started = now;
        self.thread.start(now);
    }
    /// The application writes `bytes` more: a new block.
    pub fn write(&mut self, now: Time, bytes: u64) {
        assert!(!self.close, "no data after close");
        self.block_start = self.view.app_end;
        self.view.app_end += bytes;
        // RFC 5681 section 4.1: after an idle time of one RTO the window restarts.
        let idle = self.view.una == self.view.nxt && self.view.nxt > 0;
        if self.cfg.restart_after_idle && idle && now.since(self.active_at) > self.rtt.rto(&self.cfg) {
            self.congestion(now, Congestion::Idle);
        }
        if idle {
            self.cc.on_transfer(now, &self.view);
            self.refresh();
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
    /// No more writes: FIN goes out with or after the last data.
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
    /// RTT estimator.
    pub fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }
    /// Retransmission timeout now.
    pub fn rto(&self) -> Dur {
        self.rtt.rto(&self.cfg)
    }
    /// Congestion header bytes on every packet.
    pub fn header_len(&self) -> u32 {
        self.header_len
    }
    /// Reports the controller's internal values.
    pub fn observe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        self.cc.observe(report);
    }
    /// The timeout that `on_deadline` has just handled.
    pub fn take_timeout(&mut self) -> Option<TimeoutRecord> {
        self.last_timeout.take()
    }
    /// Next time to wake up.
    #[inline]
    pub fn deadline(&self) -> Time {
        let mut t = self.rto_at.min(self.cc_at);
        if self.pacing.is_some() && self.view.limit == Limit::Pacing && self.jitter_at == Time::NEVER {
            t = t.min(self.pace_at());
        }
        if self.ecn_hold != Time::ZERO {
            t = t.min(self.ecn_hold);
        }
        t.min(self.jitter_at).min(self.probe_at).min(self.persist_at).min(self.thread.deadline())
    }
    #[inline]
    fn pace_at(&self) -> Time {
        match self.pacing {
            Some(rate) => self.paced.0 + Bytes(self.paced.1 as u64) / rate,
            None => Time::ZERO,
        }
    }

    // ---- controller ----------------------------------------------------------------------------------

    #[inline]
    fn apply(&mut self, control: Control) {
        self.cwnd = control.window.map_or(u64::MAX / 2, |w| w.0);
        self.pacing = control.pacing;
        if let Some(s) = control.segment {
            self.view.segment = (s.0 as u32).clamp(1, self.view.mss);
        }
    }
    #[inline]
    fn refresh(&mut self) {
        let control = self.cc.control();
        self.apply(control);
        self.cc_at = self.cc.deadline();
    }
    fn congestion(&mut self, now: Time, event: Congestion) {
        self.view.in_flight =
            if self.cfg.ssthresh_from_cwnd { self.cwnd.min(self.view.rwnd) } else { self.flight_size() };
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
        let sent = if self.dup_acks > 0 { self.view.nxt.min(self.before_duplicates) } else { self.view.nxt };
        sent.saturating_sub(self.view.una)
    }
    /// What is sent and not acknowledged in any way: FlightSize without the SACKed bytes.
    #[inline]
    fn flight(&self) -> u64 {
        let sent = self.view.nxt - self.view.una;
        if self.sacked.is_empty() {
            sent
        } else {
            sent - self.sacked.covered(self.view.una, self.view.nxt)
        }
    }

    // ---- acknowledgements ----------------------------------------------------------------------------

    /// An ACK (or SYN + ACK) arrives.
    #[inline]
    pub fn on_packet(&mut self, now: Time, p: &Packet, header: &CcHeader) {
        if p.has(flag::SYN) {
            self.on_syn_ack(now, p, header);
            return;
        }
        let ack = p.seq;
        if self.phase == Phase::Closed || self.phase == Phase::SynSent || ack > self.view.max_sent {
            return; // Not possible on a path that keeps order; ignored like any segment outside the window.
        }
        let window = p.window as u64;
        let window_changed = window != self.view.rwnd;
        self.view.rwnd = window;
        if window >= self.view.segment as u64 {
            self.persist_at = Time::NEVER;
            self.persist_backoff = 1;
        }
        if p.has(flag::ECE) {
            self.stats.ece_acks += 1;
        }
        if p.has(flag::PROBE) {
            // The answer to a packet without payload: news for the controller, none about data.
            let event = Ack { now, bytes: 0, ece: p.has(flag::ECE), sent_at: p.sent_at(), rtt: None, header };
            self.cc.on_duplicate(&event, &self.view);
            self.refresh();
            return;
        }
        if self.probe_end.is_some() {
            self.end_probe(now, p);
        }
        let new_sack = p.sack_count() > 0 && self.update_scoreboard(p);
        if ack > self.view.una {
            self.on_new_ack(now, p, header);
        } else if ack == self.view.una && self.view.max_sent > self.view.una {
            let event = Ack { now, bytes: 0, ece: p.has(flag::ECE), sent_at: p.sent_at(), rtt: None, header };
            self.cc.on_duplicate(&event, &self.view);
            self.refresh();
            // RFC 5681 section 2: no data, no window change; with SACK: new information (RFC 6675 section 2),
            // except for the three that answer a marked segment.
            let duplicate = match self.cfg.recovery {
                LossRecovery::Sack => new_sack || self.thread.options().is_some(),
                _ => !window_changed,
            };
            if duplicate {
                self.on_dup_ack(now);
            }
        }
        if p.has(flag::ECE) {
            self.on_ece(now);
        }
    }

    fn on_syn_ack(&mut self, now: Time, p: &Packet, header: &CcHeader) {
        if self.phase != Phase::SynSent {
            return;
        }
        self.phase = Phase::Open;
        self.rto_at = Time::NEVER;
        self.timeouts_in_a_row = 0;
        self.view.rwnd = p.window as u64;
        let rtt = if self.syn_sent == 1 {
            let sample = now.since(p.sent_at());
            self.take_sample(sample);
            Some(sample)
        } else {
            // RFC 5681 section 3.1: a lost SYN means an initial window of one segment; RFC 6298 (5.7).
            self.rtt.syn_was_lost();
            self.congestion(now, Congestion::SynLost);
            None
        };
        // Explicit protocols learn their first rate from the handshake.
        if self.header_len > 0 {
            let event = Ack { now, bytes: 0, ece: false, sent_at: p.sent_at(), rtt, header };
            self.cc.on_duplicate(&event, &self.view);
            self.refresh();
        }
    }

    fn take_sample(&mut self, sample: Dur) {
        self.rtt.sample(sample, &self.cfg);
        self.view.rtt_latest = sample;
        self.view.rtt_smoothed = self.rtt.smoothed;
        self.view.rtt_min = self.rtt.min;
    }

    #[inline]
    fn on_new_ack(&mut self, now: Time, p: &Packet, header: &CcHeader) {
        let ack = p.seq;
        let bytes = ack - self.view.una;
        let mut rtt = None;
        if self.cfg.timestamps {
            rtt = Some(now.since(p.sent_at()));
        } else if let Some((end, sent)) = self.timed {
            if ack >= end {
                rtt = Some(now.since(sent));
                self.timed = None;
            }
        }
        if let Some(sample) = rtt {
            self.take_sample(sample);
        }
        self.view.una = ack;
        self.view.nxt = self.view.nxt.max(ack);
        if let Some(news) = &mut self.news {
            news.push(News::Acked { bytes, ece: p.has(flag::ECE), sent_at: p.sent_at(), rtt });
        }
        if !self.sacked.is_empty() {
            self.sacked.remove_below(ack);
        }
        self.dup_acks = 0;
        self.timeouts_in_a_row = 0;
        if self.phase == Phase::Open {
            self.grow(now, bytes, p, rtt, header);
        } else {
            self.on_new_ack_in_loss(now, bytes, p, rtt, header);
        }
        // RFC 6298 (5.2), (5.3).
        if self.view.una >= self.view.max_sent {
            // Idle begins here, not at the last segment sent (RFC 5681 section 4.1): where the timeout is about one
            // RTT, the wait for this very ACK would count as idle.
            self.active_at = now;
            self.rto_at = Time::NEVER;
            self.probe_at = Time::NEVER;
        } else {
            // RFC 6582 section 3.2 step 3, impatient variant: only the first partial ACK restarts the timer.
            let later_partial = self.phase == Phase::FastRecovery && self.partial_acks > 1;
            if !(later_partial && self.cfg.recovery == LossRecovery::NewReno) {
                self.rto_at = now + self.rto();
            }
            self.arm_probe(now);
        }
    }

    #[inline]
    fn grow(&mut self, now: Time, bytes: u64, p: &Packet, rtt: Option<Dur>, header: &CcHeader) {
        if !self.cfg.window_validation {
            self.view.limit = Limit::Window;
        }
        self.view.in_flight = self.flight();
        let event = Ack { now, bytes, ece: p.has(flag::ECE), sent_at: p.sent_at(), rtt, header };
        self.cc.on_ack(&event, &self.view);
        self.refresh();
    }

    fn on_new_ack_in_loss(&mut self, now: Time, bytes: u64, p: &Packet, rtt: Option<Dur>, header: &CcHeader) {
        let full = self.recover.is_none_or(|r| self.view.una >= r);
        if self.phase == Phase::Loss {
            if full {
                self.set_phase(Phase::Open);
            }
            self.grow(now, bytes, p, rtt, header);
            return;
        }
        if self.acks_in_recovery {
            self.grow(now, bytes, p, rtt, header);
        }
        if full || self.cfg.recovery == LossRecovery::Reno {
            self.set_phase(Phase::Open);
            self.inflation = 0;
            self.head_due = false;
            self.congestion(now, Congestion::Recovered);
            return;
        }
        self.partial_acks += 1;
        if self.cfg.recovery == LossRecovery::NewReno {
            // RFC 6582 section 3.2 step 3: retransmit the next hole; deflate by what was acknowledged, add one
            // segment when at least one was.
            let segment = self.view.segment as u64;
            self.inflation -= bytes as i64;
            if bytes >= segment {
                self.inflation += segment as i64;
            }
            self.head_due = true;
        }
    }

    fn set_phase(&mut self, phase: Phase) {
        self.phase = phase;
        self.view.in_recovery = phase == Phase::FastRecovery;
    }

    fn update_scoreboard(&mut self, p: &Packet) -> bool {
        let mut news = false;
        for block in &p.sack[..p.sack_count()] {
            news |= self.sacked.insert(p.seq + block.start as u64, p.seq + block.end as u64);
        }
        if let Some((end, _)) = self.probe_end {
            // The probe left after everything below it: what is still missing then is lost
            // (RFC 8985 with a reordering window of zero: paths keep order).
            if self.sacked.highest().is_some_and(|h| h >= end) {
                self.lost_below = self.lost_below.max(end);
                self.probe_end = None;
            }
        }
        news
    }

    fn on_dup_ack(&mut self, now: Time) {
        if self.dup_acks == 0 {
            self.before_duplicates = self.view.nxt;
        }
        self.dup_acks += 1;
        match self.phase {
            // RFC 5681 section 3.2 step 4: each further duplicate means a segment has left the network.
            Phase::FastRecovery if self.cfg.recovery != LossRecovery::Sack => {
                self.inflation += i64::from(self.view.segment);
            }
            Phase::Open | Phase::Loss => {
                let lost = self.dup_acks >= self.cfg.dup_thresh
                    || (self.cfg.recovery == LossRecovery::Sack && self.lost_edge() > self.view.una);
                // RFC 6582 section 3.2 step 2, RFC 6675 section 5.1: not again for the same window.
                // Algorithm 3 knows no such exception: with the retransmit thread a third duplicate always counts.
                let covered = match self.cfg.recovery {
                    _ if self.thread.options().is_some() => true,
                    LossRecovery::Sack => self.recover.is_none_or(|r| self.view.una >= r),
                    _ => self.recover.is_none_or(|r| self.view.una > r),
                };
                if lost && covered {
                    self.enter_recovery(now);
                }
            }
            _ => {}
        }
    }

    fn enter_recovery(&mut self, now: Time) {
        self.stats.fast_retransmits += 1;
        let reduced_already = self.cfg.ecn == EcnMode::Classic && self.view.una < self.cwr_end;
        self.recover = Some(self.view.max_sent);
        self.set_phase(Phase::FastRecovery);
        self.partial_acks = 0;
        if !reduced_already {
            self.congestion(now, Congestion::Loss);
        }
        self.announce_reduction();
        self.timed = None;
        self.probe_at = Time::NEVER;
        self.probe_end = None;
        self.head_due = true;
        self.high_rxt = self.view.una;
        self.rescue = None;
        if self.cfg.recovery != LossRecovery::Sack {
            // RFC 5681 section 3.2 step 3: the segments that caused the duplicates have left the network.
            self.inflation = i64::from(self.cfg.dup_thresh) * i64::from(self.view.segment);
        }
        self.rto_at = now + self.rto();
    }

    /// RFC 3168 section 6.1.2: after any reduction, loss included, the first new data carries CWR; without it
    /// the receiver would go on echoing a mark of the window that was cut already.
    fn announce_reduction(&mut self) {
        self.cwr_due = self.cfg.ecn == EcnMode::Classic;
    }

    fn on_ece(&mut self, now: Time) {
        // RFC 3168 section 6.1.2: at most one reaction per window of data, none during loss recovery. An echo that
        // acknowledges exactly what had been sent at the last reaction still speaks of that window.
        if self.cfg.ecn == EcnMode::Off || self.phase != Phase::Open || self.view.una <= self.cwr_end {
            return;
        }
        let before = self.cwnd;
        self.cwr_end = self.view.nxt;
        self.cwr_due = true;
        self.congestion(now, Congestion::Ecn);
        let segment = self.view.segment as u64;
        if self.cfg.ecn == EcnMode::Classic && (before <= segment || self.cwnd < segment) {
            // RFC 3168 section 6.1.2: at one segment the window cannot shrink; the retransmit timer is reset and the
            // next packet leaves only when it expires. (Below one segment the window is without `ecn_floor` only.)
            self.ecn_hold = now + self.rto();
            if self.view.una < self.view.max_sent {
                self.rto_at = self.ecn_hold;
            }
        }
    }

    // ---- RFC 6675 ------------------------------------------------------------------------------------

    /// Below this, everything not SACKed is lost: IsLost() of RFC 6675 section 4.
    fn lost_edge(&self) -> u64 {
        let mut bytes = 0;
        let mut segments = 0;
        let enough = (self.cfg.dup_thresh as u64 - 1) * self.view.segment as u64;
        for (start, end) in self.sacked.iter().rev() {
            bytes += end - start;
            segments += 1;
            if bytes > enough || segments >= self.cfg.dup_thresh {
                return start.max(self.lost_below);
            }
        }
        self.lost_below.max(self.view.una)
    }
    /// Bytes of `[from, to)` that are not SACKed.
    fn unsacked(&self, from: u64, to: u64) -> u64 {
        to.saturating_sub(from) - self.sacked.covered(from, to)
    }
    /// SetPipe() of RFC 6675 section 4.
    fn pipe(&self) -> u64 {
        let v = &self.view;
        let edge = self.lost_edge().clamp(v.una, v.max_sent);
        self.unsacked(edge, v.max_sent) + self.unsacked(v.una, self.high_rxt.max(v.una))
    }
    /// NextSeg() of RFC 6675 section 4: start and longest length of the next segment, and whether it is a rescue.
    fn next_seg(&self) -> Option<(u64, u64, bool)> {
        let v = &self.view;
        let from = self.sacked.first_gap(self.high_rxt.max(v.una));
        let hole = |seq: u64| self.sacked.next_start(seq).unwrap_or(v.max_sent).min(v.max_sent) - seq;
        let highest = self.sacked.highest().unwrap_or(v.una);
        let edge = self.lost_edge();
        if from < edge && from < highest.max(edge) {
            return Some((from, hole(from), false));
        }
        if v.nxt < self.seq_end() && v.nxt + self.view.segment as u64 <= v.una + v.rwnd {
            return Some((v.nxt, u64::MAX, false));
        }
        if from < highest {
            return Some((from, hole(from), false));
        }
        if self.rescue.is_none_or(|r| v.una > r) && !self.sacked.is_empty() && highest < v.max_sent {
            let start = highest.max(v.max_sent.saturating_sub(self.view.segment as u64));
            return Some((start, v.max_sent - start, true));
        }
        None
    }

    // ---- timers --------------------------------------------------------------------------------------

    /// The deadline has come.
    pub fn on_deadline(&mut self, now: Time) {
        if now >= self.ecn_hold {
            if self.ecn_hold != Time::ZERO && self.cwnd < self.view.segment as u64 {
                // As after a timer that expires again: back to one segment, and ssthresh stays.
                self.congestion(now, Congestion::Timeout { in_a_row: 2 });
            }
            self.ecn_hold = Time::ZERO;
        }
        if now >= self.jitter_at {
            self.jitter_at = Time::NEVER;
            self.jitter_open = true;
        }
        if now >= self.cc_at {
            self.cc.on_deadline(now, &self.view);
            self.refresh();
        }
        if now >= self.probe_at {
            self.probe_at = Time::NEVER;
            self.probe_due = true;
            self.rto_at = now + self.rto();
        }
        if now >= self.persist_at {
            self.persist_at = Time::NEVER;
            self.persist_due = true;
        }
        if now >= self.thread.deadline() {
            self.thread.advance();
            // Algorithm 3: the thread is suspended when fast retransmit begins.
            let rests = self.thread.options().is_some_and(|o| o.rests_in_recovery);
            self.thread_due = !(rests && self.phase == Phase::FastRecovery);
        }
        if now >= self.rto_at {
            self.on_timeout(now);
        }
    }

    fn on_timeout(&mut self, now: Time) {
        self.timeouts_in_a_row += 1;
        self.stats.timeouts += 1;
        let in_a_row = self.timeouts_in_a_row;
        let kind = match self.phase {
            Phase::SynSent => TimeoutKind::Syn,
            _ if in_a_row > 1 => TimeoutKind::Repeated,
            Phase::FastRecovery => TimeoutKind::RetransmitLost,
            _ if self.dup_acks > 0 => TimeoutKind::FewDupAcks,
            _ => TimeoutKind::WindowLost,
        };
        self.last_timeout = Some(TimeoutRecord {
            kind,
            block_start: self.view.una <= self.block_start,
            block_offset: self.view.una.saturating_sub(self.block_start),
            outstanding: self.view.nxt - self.view.una,
            cwnd: self.cwnd,
            rto: self.rto(),
            in_a_row,
        });
        self.rtt.back_off(&self.cfg);
        self.rto_at = now + self.rto();
        self.timed = None;
        if self.phase == Phase::SynSent {
            self.syn_due = true;
            return;
        }
        if self.phase == Phase::FastRecovery {
            self.dup_acks = 0; // FlightSize is all that is outstanding again
        }
        self.congestion(now, Congestion::Timeout { in_a_row });
        self.announce_reduction();
        // RFC 5681 section 3.1, RFC 6582 section 4, RFC 2018 section 8: back to the first unacknowledged byte.
        self.recover = Some(self.view.max_sent);
        self.set_phase(Phase::Loss);
        self.sacked.clear();
        self.lost_below = 0;
        self.inflation = 0;
        self.dup_acks = 0;
        self.head_due = false;
        self.probe_at = Time::NEVER;
        self.probe_end = None;
        self.probe_due = false;
        self.view.nxt = self.view.una;
        self.cwr_end = self.cwr_end.min(self.view.una);
    }

    // ---- tail-loss probe (RFC 8985 section 7) ---------------------------------------------------------

    fn arm_probe(&mut self, now: Time) {
        if !self.cfg.tail_loss_probe || self.cfg.recovery != LossRecovery::Sack {
            return;
        }
        self.probe_at = Time::NEVER;
        let outstanding = self.view.nxt - self.view.una;
        let idle = self.phase != Phase::Open || outstanding == 0 || !self.sacked.is_empty();
        if idle || self.probe_end.is_some() || self.rtt.smoothed == Dur::ZERO {
            return;
        }
        // RFC 8985 section 7.2: PTO = 2 SRTT, plus the peer's delayed-ACK time when one segment is out; a timeout
        // that is due before becomes the probe.
        let mut pto = self.rtt.smoothed * 2;
        if outstanding <= self.view.segment as u64 && self.cfg.delayed_ack > 1 {
            pto += self.cfg.delayed_ack_timeout;
        }
        self.probe_at = (now + pto).min(self.rto_at);
    }
    /// RFC 8985 section 7.4.2: what an ACK says about the outstanding probe.
    #[cold]
    fn end_probe(&mut self, now: Time, p: &Packet) {
        let Some((end, retransmitted)) = self.probe_end else { return };
        if p.seq < end {
            return;
        }
        if !retransmitted {
            self.probe_end = None;
        } else if p.seq > end {
            // The probe repaired a loss, which was a sign of congestion.
            self.probe_end = None;
            if self.phase == Phase::Open {
                self.congestion(now, Congestion::Loss);
                self.congestion(now, Congestion::Recovered);
            }
        } else if p.seq == self.view.una && p.sack_count() == 0 {
            // A plain duplicate: the original and the probe both arrived, nothing was lost.
            self.probe_end = None;
        }
    }

    // ---- sending -------------------------------------------------------------------------------------

    /// Writes the next packet into `out` and `header`; false when nothing may be sent now.
    #[inline]
    pub fn poll_transmit(&mut self, now: Time, out: &mut Packet, header: &mut CcHeader) -> bool {
        if self.syn_due {
            self.send_syn(now, out, header);
            return true;
        }
        if matches!(self.phase, Phase::Closed | Phase::SynSent) {
            return false;
        }
        if self.head_due {
            self.head_due = false;
            let una = self.view.una;
            let len = self.retransmit_len(una);
            self.high_rxt = self.high_rxt.max(una + len);
            self.emit(now, una, len, out, header);
            return true;
        }
        if self.probe_due {
            self.probe_due = false;
            if self.send_probe(now, out, header) {
                return true;
            }
        }
        if self.persist_due {
            self.persist_due = false;
            if self.view.nxt < self.seq_end() && self.view.nxt == self.view.una {
                self.send_window_probe(now, out, header);
                return true;
            }
        }
        if self.thread_due {
            self.thread_due = false;
            if self.send_marked(now, out, header) {
                return true;
            }
        }
        if self.header_len > 0 && self.cc.wants_request(now, &self.view) {
            self.send_request(now, out, header);
            return true;
        }
        let recovery = (self.high_rxt, self.rescue);
        let Some((seq, len)) = self.choose(now) else {
            self.jitter_open = false;
            if self.view.limit == Limit::Pacing {
                // There is nothing to send when the pacing time comes: it is no reason to wake up any more.
                self.view.limit = Limit::Application;
            }
            return false;
        };
        if let Some(limit) = self.held_back(now) {
            self.view.limit = limit;
            // Not sent: recovery has not got further either.
            (self.high_rxt, self.rescue) = recovery;
            return false;
        }
        self.emit(now, seq, len, out, header);
        true
    }

    /// Pacing, send jitter, and the pause after a mark at one segment: may a packet leave now?
    #[inline]
    fn held_back(&mut self, now: Time) -> Option<Limit> {
        if now < self.ecn_hold && (self.cfg.ecn_floor || self.cwnd < self.view.segment as u64) {
            return Some(Limit::Window);
        }
        if self.pacing.is_some() && now < self.pace_at() {
            return Some(Limit::Pacing);
        }
        if self.cfg.send_jitter != Dur::ZERO && !self.jitter_open {
            if self.jitter_at == Time::NEVER {
                self.jitter_at = now + self.jitter.dur_below(self.cfg.send_jitter);
            }
            return Some(self.view.limit);
        }
        None
    }

    /// The next segment the windows allow: its start and its length in sequence space.
    #[inline]
    fn choose(&mut self, now: Time) -> Option<(u64, u64)> {
        let segment = self.view.segment as u64;
        if self.phase == Phase::FastRecovery && self.cfg.recovery == LossRecovery::Sack {
            let pipe = self.pipe();
            if self.cwnd.min(self.cap) < pipe + segment && pipe > 0 {
                self.view.limit = Limit::Window;
                return None;
            }
            let Some((seq, room, rescue)) = self.next_seg() else {
                // Not pacing any more: a stale Pacing here would wake the sender at a time that has passed.
                self.view.limit = Limit::Application;
                return None;
            };
            if seq == self.view.nxt && room == u64::MAX {
                return Some((seq, segment.min(self.seq_end() - seq)));
            }
            if rescue {
                self.rescue = self.recover;
            } else {
                self.high_rxt = seq + segment.min(room);
            }
            return Some((seq, segment.min(room)));
        }
        let mut seq = self.view.nxt;
        let end = self.seq_end();
        let mut len = segment.min(end.saturating_sub(seq));
        if seq < self.view.max_sent {
            // After a timeout: skip what the receiver has reported, do not run over a boundary already sent.
            seq = self.sacked.first_gap(seq);
            self.view.nxt = seq;
            len = segment.min(end.saturating_sub(seq));
            if let Some(next) = self.sacked.next_start(seq) {
                len = len.min(next - seq);
            }
        }
        if len == 0 {
            self.view.limit = Limit::Application;
            return None;
        }
        let mut in_flight = self.flight();
        let mut window = self.cwnd.min(self.cap).saturating_add_signed(self.inflation);
        if self.phase == Phase::Open && self.dup_acks > 0 {
            // RFC 3042: one new segment for each of the first two duplicate ACKs; with SACK what has left the
            // network is counted instead (RFC 6675 section 5 step 3).
            if !self.cfg.limited_transmit {
                in_flight = self.view.nxt - self.view.una;
            } else if self.cfg.recovery != LossRecovery::Sack {
                window = window.saturating_add(self.dup_acks.min(2) as u64 * segment);
            }
        }
        if in_flight + len > window && in_flight > 0 {
            self.view.limit = if self.cap < self.cwnd { Limit::Receiver } else { Limit::Window };
            return None;
        }
        let room = (self.view.una + self.view.rwnd).saturating_sub(seq);
        if room < len {
            self.view.limit = Limit::Receiver;
            if in_flight > 0 || room > 0 && room * 2 >= self.cfg.rwnd {
                // Wait for acknowledgements rather than send small segments (RFC 1122 section 4.2.3.4).
                return (room > 0 && in_flight == 0).then_some((seq, room));
            }
            if self.persist_at == Time::NEVER && !self.persist_due {
                let wait = self.rtt.rto(&self.cfg) * u64::from(self.persist_backoff);
                self.persist_at = now + wait.min(self.cfg.rto_max);
                self.persist_backoff = (self.persist_backoff * 2).min(self.cfg.backoff_max);
            }
            return None;
        }
        Some((seq, len))
    }

    /// Length of the oldest segment when it is retransmitted.
    fn retransmit_len(&self, seq: u64) -> u64 {
        let hole = self.sacked.next_start(seq).unwrap_or(self.view.max_sent) - seq;
        (self.view.segment as u64).min(hole).max(1)
    }

    fn send_probe(&mut self, now: Time, out: &mut Packet, header: &mut CcHeader) -> bool {
        let v = &self.view;
        if v.una == v.max_sent {
            return false;
        }
        self.stats.probes += 1;
        let segment = v.segment as u64;
        let new = segment.min(self.seq_end().saturating_sub(v.nxt));
        if new > 0 && v.nxt + new <= v.una + v.rwnd {
            let seq = v.nxt;
            self.emit(now, seq, new, out, header);
            self.probe_end = Some((seq + new, false));
        } else {
            let seq = v.max_sent.saturating_sub(segment).max(v.una);
            let len = v.max_sent - seq;
            self.emit(now, seq, len, out, header);
            self.probe_end = Some((seq + len, true));
        }
        self.probe_at = Time::NEVER;
        true
    }

    /// Algorithm 1: marks and retransmits the highest unacknowledged segment of the transmit window.
    fn send_marked(&mut self, now: Time, out: &mut Packet, header: &mut CcHeader) -> bool {
        let (una, nxt) = (self.view.una, self.view.nxt);
        if una == nxt {
            return false;
        }
        let segment = self.view.segment as u64;
        let seq = match self.thread.options().map(|o| o.segment) {
            Some(ThreadSegment::Oldest) => una,
            _ => una + (nxt - una - 1) / segment * segment,
        };
        self.emit(now, seq, (nxt - seq).min(segment), out, header);
        out.flags |= flag::MARKED;
        self.stats.thread_retransmits += 1;
        true
    }

    fn send_syn(&mut self, now: Time, out: &mut Packet, header: &mut CcHeader) {
        self.syn_due = false;
        self.syn_sent += 1;
        *out = Packet {
            stamp: now.0,
            flow: self.flow,
            wire_len: self.cfg.header_len() + self.header_len,
            flags: flag::SYN,
            ecn: if self.cfg.ect_syn && self.cfg.ecn != EcnMode::Off { Ecn::Ect0 } else { Ecn::NotEct },
            ..Packet::default()
        };
        out.set_class(self.class);
        self.stamp_header(now, out, header);
        if self.rto_at == Time::NEVER {
            self.rto_at = now + self.rto();
        }
    }

    #[inline]
    fn emit(&mut self, now: Time, seq: u64, len: u64, out: &mut Packet, header: &mut CcHeader) {
        let v = &mut self.view;
        let end = seq + len;
        let fin = self.close && end > v.app_end;
        let payload = len - u64::from(fin);
        let again = seq < v.max_sent;
        let mut flags = 0;
        if fin {
            flags |= flag::FIN;
        }
        if again {
            flags |= flag::RETRANSMIT;
            self.stats.retransmits += 1;
            // Karn: a segment that overlaps a retransmission, or whose ACK may wait for it, is not timed.
            if self.timed.is_some_and(|(timed_end, _)| seq < timed_end) {
                self.timed = None;
            }
        } else {
            if self.timed.is_none() {
                self.timed = Some((end, now));
            }
            if self.cwr_due {
                // RFC 3168 section 6.1.2: CWR on the first new data after the reduction.
                flags |= flag::CWR;
                self.cwr_due = false;
            }
        }
        self.stats.data_packets += 1;
        let mut wire_len = payload as u32 + self.cfg.header_len() + self.header_len;
        if self.cfg.header_compression {
            let irregular = self.cfg.timestamps || flags & !flag::RETRANSMIT != 0;
            wire_len -= self.compressor.saved_on_data(seq, payload as u32, irregular);
        }
        *out = Packet {
            seq,
            stamp: now.0,
            flow: self.flow,
            wire_len,
            payload: payload as u32,
            flags,
            // RFC 3168 section 6.1.5: retransmissions are not ECN-capable. RFC 8257 does not say; DCTCP's are, as in
            // Linux and Windows (RFC 8311 section 4.3 permits it).
            ecn: match self.cfg.ecn {
                EcnMode::Off => Ecn::NotEct,
                EcnMode::Classic if again => Ecn::NotEct,
                _ => Ecn::Ect0,
            },
            ..Packet::default()
        };
        out.set_class(self.class);
        if seq <= v.nxt {
            v.nxt = v.nxt.max(end);
        }
        v.max_sent = v.max_sent.max(end);
        self.active_at = now;
        if self.rto_at == Time::NEVER {
            self.rto_at = now + self.rtt.rto(&self.cfg);
        }
        if self.cfg.tail_loss_probe {
            self.arm_probe(now);
        }
        // A send that only jitter has delayed does not delay the ones behind it: the rate stays what was asked.
        let jitter = self.cfg.send_jitter;
        let scheduled =
            if self.view.limit == Limit::Pacing { self.pace_at().max(now - jitter).min(now) } else { now };
        self.stamp_header(now, out, header);
        self.paced = (scheduled, out.wire_len);
    }

    /// Asks for the receive window (RFC 9293 section 3.8.6.1). A window of less than a segment is used up, so
    /// that a receiver with small windows only is served (RFC 1122 section 4.2.3.4, override timeout); an
    /// empty one is asked without data, as Linux does: nothing is outstanding that could be taken for lost.
    #[cold]
    fn send_window_probe(&mut self, now: Time, out: &mut Packet, header: &mut CcHeader) {
        let (seq, room) = (self.view.nxt, self.view.rwnd);
        if room > 0 {
            self.emit(now, seq, room.min(self.view.segment as u64).min(self.seq_end() - seq), out, header);
            return;
        }
        *out = Packet {
            seq,
            stamp: now.0,
            flow: self.flow,
            wire_len: self.cfg.header_len(),
            flags: flag::PROBE,
            ..Packet::default()
        };
        out.set_class(self.class);
        *header = CcHeader::NONE;
    }

    /// A packet without payload that only carries a congestion header.
    fn send_request(&mut self, now: Time, out: &mut Packet, header: &mut CcHeader) {
        *out = Packet {
            seq: self.view.nxt,
            stamp: now.0,
            flow: self.flow,
            wire_len: self.cfg.header_len() + self.header_len,
            flags: flag::PROBE,
            ..Packet::default()
        };
        out.set_class(self.class);
        self.stamp_header(now, out, header);
        // It is part of the pacing rate: the next data waits for it too.
        self.paced.1 += out.wire_len;
    }

    /// Lets the controller write its header; a packet that gets none does not pay for it.
    #[inline]
    fn stamp_header(&mut self, now: Time, out: &mut Packet, header: &mut CcHeader) {
        *header = CcHeader::NONE;
        if self.header_len > 0 {
            self.cc.on_send(now, &self.view, out, header);
            if header.is_none() {
                out.wire_len -= self.header_len;
            }
            self.refresh();
        }
    }
}
