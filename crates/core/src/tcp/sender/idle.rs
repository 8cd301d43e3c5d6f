//! A sender between two transfers: what has to be kept of it, in a fifth of the room. All else of a [`Sender`] says what is under way.

use super::{Phase, Sender, SenderStats};
use crate::control::{FlowView, Limit, WindowLaw};
use crate::quantity::Report;
use crate::tcp::recovery::{self, AnyRecovery};
use crate::tcp::rtt::IdleRtt;
use crate::tcp::{HeaderCompressor, Ranges, TcpConfig};
use alloc::boxed::Box;
use alloc::sync::Arc;
use penstock_units::{Dur, Time};

/// What is left of a [`Sender`] for which nothing is under way. There may be 10^5 of them: what most have as it was at the start is in `Rare`.
pub struct IdleSender {
    cfg: Arc<TcpConfig>,
    cc: Box<dyn WindowLaw>,
    rtt: IdleRtt,
    /// Everything written, sent and acknowledged.
    end: u64,
    started: Time,
    cwnd: u64,
    cwr_end: u64,
    block_start: u64,
    paced_at: Time,
    active_at: Time,
    rare: Option<Box<Rare>>,
    paced: u32,
    data_packets: u32,
    ece_acks: u32,
    cwr_due: bool,
}

/// What few idle senders have to remember.
struct Rare {
    /// The window of a receiver that has said another than its own.
    rwnd: u64,
    size: u64,
    due: Time,
    /// Where something has been repaired: the recovery, and what it had sent when it began.
    repaired: Option<(AnyRecovery, Option<u64>)>,
    /// Counters of what goes wrong, in the order of [`Sender::counts`].
    stats: [u32; 6],
    probe_wait: Dur,
    syn_sent: u32,
}

impl Sender {
    /// True when [`Self::rest`] loses nothing: everything written is acknowledged, no timer runs, and no role keeps
    /// more than the standard ones. The connection also has no host controller, pacing, bursts, log of segments or
    /// compressed headers.
    pub fn may_rest(&self) -> bool {
        let (v, rtt) = (&self.view, &self.rtt);
        self.phase == Phase::Open
            && v.una == v.app_end
            && (v.nxt, v.max_sent, v.in_flight) == (v.una, v.una, 0)
            && (v.limit, v.in_recovery) == (Limit::Application, false)
            && (v.segment, v.mss) == (self.cfg.mss, self.cfg.mss)
            && (v.rtt_latest, v.rtt_smoothed, v.rtt_min) == (rtt.latest, rtt.smoothed, rtt.min)
            && !(self.hears_all
                || self.steers
                || self.wants_rate
                || self.close
                || self.syn_due
                || self.no_ecn)
            && !(self.persist_due || self.cfg.header_compression)
            && (self.cap, self.pacing, self.timed) == (u64::MAX, None, None)
            && self.news.is_none()
            && self.log.is_none()
            && self.bursts.is_none()
            && self.last_timeout.is_none()
            && self.sacked.is_empty()
            && self.recovery.is_plain()
            && self.wants == recovery::Control::NONE
            && (self.dup_acks, self.timeouts_in_a_row, self.persist_backoff) == (0, 0, 1)
            && self.ecn_in_a_row == 0
            && self.lost_unheard == 0
            && (self.rearm, self.ecn_hold, self.deadline()) == (Time::NEVER, Time::ZERO, Time::NEVER)
            && self.counts().is_some()
    }
    /// Data segments and ACKs with ECN-Echo, and what few have.
    fn counts(&self) -> Option<([u32; 2], [u32; 6])> {
        let s = &self.stats;
        let often = [s.data_packets, s.ece_acks];
        let rare = [s.retransmits, s.timeouts, s.fast_retransmits, s.probes, s.undone, s.thread_retransmits];
        let small = often.iter().chain(&rare).all(|n| *n <= u64::from(u32::MAX));
        small.then(|| (often.map(|n| n as u32), rare.map(|n| n as u32)))
    }
    /// What has to be kept of it. To be called where [`Self::may_rest`] only.
    pub fn rest(self) -> IdleSender {
        let ([data_packets, ece_acks], stats) =
            self.counts().expect("a sender may rest whose counters are small");
        let v = &self.view;
        let untouched = self.recovery.is_new(&self.cfg) && self.recover.is_none();
        let usual = (v.rwnd, v.size, v.due) == (self.cfg.rwnd, 0, Time::NEVER)
            && (stats, self.syn_sent) == ([0; 6], 1)
            && untouched;
        let (rwnd, size, due, syn_sent) = (v.rwnd, v.size, v.due, self.syn_sent);
        let (end, started, probe_wait) = (v.una, v.started, self.stats.probe_wait);
        let repaired = (!untouched).then_some((self.recovery, self.recover));
        IdleSender {
            end,
            started,
            rare: (!usual).then(|| Box::new(Rare { rwnd, size, due, repaired, stats, probe_wait, syn_sent })),
            data_packets,
            ece_acks,
            cfg: self.cfg,
            cc: self.cc,
            rtt: self.rtt.rest(),
            cwnd: self.cwnd,
            cwr_end: self.cwr_end,
            block_start: self.block_start,
            paced_at: self.paced.0,
            paced: self.paced.1,
            active_at: self.active_at,
            cwr_due: self.cwr_due,
        }
    }
}

impl IdleSender {
    /// The sender of connection `flow` in traffic class `class` that it was.
    pub fn wake(self, flow: u32, class: u8) -> Sender {
        let Rare { rwnd, size, due, repaired, stats, probe_wait, syn_sent } = match self.rare {
            Some(rare) => *rare,
            None => Rare {
                rwnd: self.cfg.rwnd,
                size: 0,
                due: Time::NEVER,
                repaired: None,
                stats: [0; 6],
                probe_wait: Dur::ZERO,
                syn_sent: 1,
            },
        };
        let (recovery, recover) = repaired.unwrap_or_else(|| (AnyRecovery::plain(&self.cfg), None));
        let [retransmits, timeouts, fast_retransmits, probes, undone, thread_retransmits] =
            stats.map(u64::from);
        let [data_packets, ece_acks] = [self.data_packets, self.ece_acks].map(u64::from);
        let rtt = self.rtt.wake();
        Sender {
            view: FlowView {
                flow,
                una: self.end,
                nxt: self.end,
                max_sent: self.end,
                app_end: self.end,
                in_flight: 0,
                rwnd,
                segment: self.cfg.mss,
                mss: self.cfg.mss,
                rtt_latest: rtt.latest,
                rtt_smoothed: rtt.smoothed,
                rtt_min: rtt.min,
                limit: Limit::Application,
                in_recovery: false,
                started: self.started,
                size,
                due,
            },
            phase: Phase::Open,
            cwnd: self.cwnd,
            cap: u64::MAX,
            news: None,
            pacing: None,
            recovery,
            wants: recovery::Control::NONE,
            hears_all: false,
            rearm: Time::NEVER,
            keeps_timer: false,
            since: super::recovery::Since::default(),
            wants_rate: false,
            steers: false,
            log: None,
            bursts: None,
            // Counted for a log of segments only.
            lost: 0,
            lost_unheard: 0,
            dup_acks: 0,
            // Set by the first duplicate.
            before_duplicates: 0,
            rto_at: Time::NEVER,
            cc_at: Time::NEVER,
            recover,
            cwr_end: self.cwr_end,
            cwr_due: self.cwr_due,
            no_ecn: false,
            written: false,
            ecn_hold: Time::ZERO,
            ecn_in_a_row: 0,
            syn_due: false,
            syn_sent,
            close: false,
            block_start: self.block_start,
            timeouts_in_a_row: 0,
            rtt,
            timed: None,
            sacked: Ranges::default(),
            paced: (self.paced_at, self.paced),
            pace_at: Time::ZERO,
            late: Dur::ZERO,
            // Said before every packet where a host limits it.
            host_free_at: Time::ZERO,
            persist_at: Time::NEVER,
            persist_due: false,
            persist_backoff: 1,
            compressor: HeaderCompressor::default(),
            active_at: self.active_at,
            last_timeout: None,
            header_len: self.cc.header_len(),
            changes: 0,
            flow,
            class,
            stats: SenderStats {
                data_packets,
                retransmits,
                timeouts,
                fast_retransmits,
                ece_acks,
                probes,
                probe_wait,
                undone,
                thread_retransmits,
            },
            cfg: self.cfg,
            cc: self.cc,
        }
    }

    /// Bytes written and acknowledged.
    pub fn acked(&self) -> u64 {
        self.end
    }
    /// Congestion window in bytes.
    pub fn cwnd(&self) -> u64 {
        self.cwnd
    }
    /// Smoothed RTT.
    pub fn srtt(&self) -> Dur {
        self.rtt.smoothed
    }
    /// Latest sample of the RTT.
    pub fn rtt_latest(&self) -> Dur {
        self.rtt.latest
    }
    /// Mean of its samples, zero without one.
    pub fn rtt_mean(&self) -> Dur {
        Dur(self.rtt.total.0 / self.rtt.samples.max(1))
    }
    /// [`SenderStats::probe_wait`].
    pub fn probe_wait(&self) -> Dur {
        self.rare.as_ref().map_or(Dur::ZERO, |rare| rare.probe_wait)
    }
    /// Data segments sent, retransmissions, timeouts, fast retransmits, ACKs with ECN-Echo and tail-loss probes, as [`SenderStats`] has them.
    pub fn counts(&self) -> [u64; 6] {
        let [retransmits, timeouts, fast_retransmits, probes, ..] =
            self.rare.as_ref().map_or([0; 6], |rare| rare.stats);
        [self.data_packets, retransmits, timeouts, fast_retransmits, self.ece_acks, probes].map(u64::from)
    }
    /// Reports the law's internal values.
    pub fn observe(&self, report: &mut Report<'_>) {
        self.cc.observe(report);
    }
}
