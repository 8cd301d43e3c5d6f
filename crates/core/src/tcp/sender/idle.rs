//! A sender between two transfers: what has to be kept of it, in a third of the room. All else of a [`Sender`] says what is under way.

use super::{Phase, Sender, SenderStats};
use crate::control::{FlowView, Limit, WindowLaw};
use crate::quantity::Report;
use crate::tcp::recovery::{self, AnyRecovery};
use crate::tcp::{HeaderCompressor, Ranges, RttEstimator, TcpConfig};
use alloc::boxed::Box;
use alloc::sync::Arc;
use penstock_units::{Dur, Time};

/// What is left of a [`Sender`] for which nothing is under way.
pub struct IdleSender {
    cfg: Arc<TcpConfig>,
    cc: Box<dyn WindowLaw>,
    rtt: RttEstimator,
    /// Everything written, sent and acknowledged.
    end: u64,
    rwnd: u64,
    started: Time,
    size: u64,
    due: Time,
    cwnd: u64,
    cwr_end: u64,
    block_start: u64,
    paced: (Time, u32),
    active_at: Time,
    /// Where something has been repaired: the recovery, and what it had sent when it began.
    repaired: Option<Box<(AnyRecovery, Option<u64>)>>,
    /// The counters, in their order.
    stats: [u32; 8],
    syn_sent: u32,
    header_len: u32,
    cwr_due: bool,
}

impl Sender {
    /// True when [`Self::rest`] loses nothing: all that was written is acknowledged, no timer runs, and no role keeps more than the standard ones of
    /// a connection without host controller, pacing, bursts, log of segments or compressed headers.
    pub fn may_rest(&self) -> bool {
        let (v, rtt) = (&self.view, &self.rtt);
        self.phase == Phase::Open
            && v.una == v.app_end
            && (v.nxt, v.max_sent, v.in_flight) == (v.una, v.una, 0)
            && (v.limit, v.in_recovery) == (Limit::Application, false)
            && (v.segment, v.mss) == (self.cfg.mss, self.cfg.mss)
            && (v.rtt_latest, v.rtt_smoothed, v.rtt_min) == (rtt.latest, rtt.smoothed, rtt.min)
            && !(self.hears_all || self.steers || self.wants_rate || self.close || self.syn_due)
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
            && self.lost_unheard == 0
            && (self.rearm, self.ecn_hold, self.deadline()) == (Time::NEVER, Time::ZERO, Time::NEVER)
            && self.counts().is_some()
    }
    fn counts(&self) -> Option<[u32; 8]> {
        let s = &self.stats;
        let all = [
            s.data_packets,
            s.retransmits,
            s.timeouts,
            s.fast_retransmits,
            s.ece_acks,
            s.probes,
            s.undone,
            s.thread_retransmits,
        ];
        all.iter().all(|n| *n <= u64::from(u32::MAX)).then(|| all.map(|n| n as u32))
    }
    /// What has to be kept of it. To be called where [`Self::may_rest`] only.
    pub fn rest(self) -> IdleSender {
        let stats = self.counts().expect("a sender may rest whose counters are small");
        let untouched = self.recovery.is_new(&self.cfg) && self.recover.is_none();
        IdleSender {
            end: self.view.una,
            rwnd: self.view.rwnd,
            started: self.view.started,
            size: self.view.size,
            due: self.view.due,
            repaired: (!untouched).then(|| Box::new((self.recovery, self.recover))),
            stats,
            cfg: self.cfg,
            cc: self.cc,
            rtt: self.rtt,
            cwnd: self.cwnd,
            cwr_end: self.cwr_end,
            block_start: self.block_start,
            paced: self.paced,
            active_at: self.active_at,
            syn_sent: self.syn_sent,
            header_len: self.header_len,
            cwr_due: self.cwr_due,
        }
    }
}

impl IdleSender {
    /// The sender of connection `flow` in traffic class `class` that it was.
    pub fn wake(self, flow: u32, class: u8) -> Sender {
        let (recovery, recover) = match self.repaired {
            Some(kept) => *kept,
            None => (AnyRecovery::plain(&self.cfg), None),
        };
        let [data_packets, retransmits, timeouts, fast_retransmits, ece_acks, probes, undone, thread_retransmits] =
            self.stats.map(u64::from);
        Sender {
            view: FlowView {
                flow,
                una: self.end,
                nxt: self.end,
                max_sent: self.end,
                app_end: self.end,
                in_flight: 0,
                rwnd: self.rwnd,
                segment: self.cfg.mss,
                mss: self.cfg.mss,
                rtt_latest: self.rtt.latest,
                rtt_smoothed: self.rtt.smoothed,
                rtt_min: self.rtt.min,
                limit: Limit::Application,
                in_recovery: false,
                started: self.started,
                size: self.size,
                due: self.due,
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
            ecn_hold: Time::ZERO,
            syn_due: false,
            syn_sent: self.syn_sent,
            close: false,
            block_start: self.block_start,
            timeouts_in_a_row: 0,
            rtt: self.rtt,
            timed: None,
            sacked: Ranges::default(),
            paced: self.paced,
            pace_at: Time::ZERO,
            // Said before every packet where a host limits it.
            host_free_at: Time::ZERO,
            persist_at: Time::NEVER,
            persist_due: false,
            persist_backoff: 1,
            compressor: HeaderCompressor::default(),
            active_at: self.active_at,
            last_timeout: None,
            header_len: self.header_len,
            flow,
            class,
            stats: SenderStats {
                data_packets,
                retransmits,
                timeouts,
                fast_retransmits,
                ece_acks,
                probes,
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
    /// RTT estimator.
    pub fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }
    /// Latest sample of the RTT.
    pub fn rtt_latest(&self) -> Dur {
        self.rtt.latest
    }
    /// Data segments sent, retransmissions, timeouts, fast retransmits and ACKs with ECN-Echo, as [`SenderStats`] has them.
    pub fn counts(&self) -> [u64; 5] {
        [0, 1, 2, 3, 4].map(|i| u64::from(self.stats[i]))
    }
    /// Reports the law's internal values.
    pub fn observe(&self, report: &mut Report<'_>) {
        self.cc.observe(report);
    }
}
