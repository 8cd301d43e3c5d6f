//! BBR, version 3 (draft-ietf-ccwg-bbr-04, 20 October 2025), on Linux's sender. A model of the path sets pacing rate
//! and window, as in version 1. In addition, losses above 2 % in a round trip bound the data in flight, headroom is
//! left for others, and bandwidth is probed on Reno's time scale.
//!
//! Sections and names are the draft's, written with its text at hand. Exceptions:
//!
//! - a law gets the bytes that an ACK shows to be lost, not each segment: `IsInflightTooHigh` (5.5.10.2) uses the ACK's
//!   sample, and `BBRInflightAtLoss`, which looks inside the lost segment, is missing.
//! - `BBRAdaptLongTermModel` advances the filter once, at the end of the round that ends a probe. Later samples belong
//!   to no probe (Linux's version 3, from memory); the draft's text would advance it in every later round.
//! - the discontiguous losses of 5.3.1.3 are counted by the ACKs that show them (Linux's version 3, from memory);
//! - Drain's gain is 0.35 as in 5.3.2; the table of 5.6.1 says 0.5;
//! - after a timeout the window is a segment: all that is out is then taken for lost.
//!
//! Data is counted in bytes of payload.
//!
//! Above 600 lines: a protocol is one file, and this one is a whole draft.

use super::linux::configure;
use crate::registry::{Protocol, Suite};
use alloc::boxed::Box;
use alloc::sync::Arc;
use penstock_core::tcp::{RateSample, TcpConfig};
use penstock_core::{
    AckRecord, Congestion, Control, FlowView, Kind, Limit, ParamSpec, Params, Quantity, Report, Stream, Unit,
    WindowLaw,
};
use penstock_units::{Bytes, Dur, Rate, Time};

static MAX_BW: Quantity =
    Quantity::new("max_bw_bps", Unit::BitsPerSecond, "largest bandwidth of this and the last probing cycle");
static MIN_RTT: Quantity =
    Quantity::new("min_rtt_s", Unit::Seconds, "smallest round-trip time of ten seconds");
static LONGTERM: Quantity =
    Quantity::new("inflight_longterm_bytes", Unit::Bytes, "bound of the flight that losses have set");

/// BBR version 3.
pub const BBR3: Protocol = Protocol {
    name: "bbr3",
    text: "BBR version 3: version 1 with bounds from losses above 2 %, headroom and a slower probing cycle",
    cites: "draft-ietf-ccwg-bbr-04",
    params: &[
        ParamSpec::new(
            "loss_thresh",
            Kind::Float,
            "0.02",
            "share of a round trip's data whose loss is too much",
            "section 2.8",
        )
        .range(0.0, 1.0),
        ParamSpec::new("beta", Kind::Float, "0.7", "the most that one round of losses takes", "section 2.8")
            .range(0.0, 1.0),
        ParamSpec::new(
            "headroom",
            Kind::Float,
            "0.15",
            "share of the bound that is left free for others",
            "section 2.8",
        )
        .range(0.0, 1.0),
        ParamSpec::new(
            "probe_rtt_interval",
            Kind::Duration,
            "5s",
            "how long a smallest RTT counts before ProbeRTT",
            "section 5.3.4",
        )
        .range(1e-3, 1e6),
        ParamSpec::new(
            "probe_rtt",
            Kind::Duration,
            "200ms",
            "how long ProbeRTT keeps the window small",
            "section 5.3.4",
        )
        .range(0.0, 1e3),
        ParamSpec::new(
            "probe_wait",
            Kind::Duration,
            "2s",
            "time between probes for bandwidth, U(1, 1.5) of it",
            "section 5.3.3.5.3",
        )
        .range(1e-3, 1e6),
        ParamSpec::new(
            "margin",
            Kind::Float,
            "0.01",
            "how far pacing stays below the estimate",
            "section 5.6.2",
        )
        .range(0.0, 0.5),
    ],
    reports: &[&MAX_BW, &MIN_RTT, &LONGTERM],
    build: |p| {
        let options = Options::of(p);
        Ok(Suite {
            configure: |c| {
                configure(c);
                // In recovery it answers by its bounds (section 5.6.4.4).
                (c.prr, c.ssthresh_from_cwnd) = (false, false);
            },
            endpoint: Arc::new(move |cfg, rng| Box::new(Bbr3::new(cfg, rng(), options))),
            ..Suite::tcp()
        })
    },
};

/// What a user chooses.
#[derive(Clone, Copy, Debug)]
struct Options {
    loss_thresh: f64,
    beta: f64,
    headroom: f64,
    interval: Dur,
    probe_rtt: Dur,
    wait: Dur,
    margin: f64,
}

impl Options {
    fn of(p: &Params) -> Options {
        Options {
            loss_thresh: p.float("loss_thresh"),
            beta: p.float("beta"),
            headroom: p.float("headroom"),
            interval: p.dur("probe_rtt_interval"),
            probe_rtt: p.dur("probe_rtt"),
            wait: p.dur("probe_wait"),
            margin: p.float("margin"),
        }
    }
}

/// BBR.MinPipeCwnd in segments (section 5.6.4.3).
const MIN_PIPE: u64 = 4;
/// BBRStartupFullLossCnt (section 5.3.1.3).
const FULL_LOSSES: u32 = 6;
/// BBRExtraAckedFilterLen in round trips (section 5.5.9).
const EXTRA_ROUNDS: usize = 10;
/// T_reno_bound (section 5.3.3.5.2).
const RENO_ROUNDS: u64 = 63;
/// BBR.StartupPacingGain (section 5.3.1.1).
const STARTUP_GAIN: f64 = 2.77;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

/// BBR.ack_phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AckPhase {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// Names are the draft's; rates are in bytes of payload per second, `u64::MAX` and infinity stand for "no bound".
struct Bbr3 {
    options: Options,
    rng: Stream,
    segment: u64,
    /// Bytes on the wire per byte of payload, for the pacing rate.
    overhead: f64,
    initial: u64,
    state: State,
    cwnd: u64,
    pacing: f64,
    delivered: u64,
    /// BBR.max_bw_filter: the current cycle's largest and the last one's.
    max_bw: [f64; 2],
    bw: f64,
    bw_shortterm: f64,
    inflight_shortterm: u64,
    inflight_longterm: u64,
    bw_latest: f64,
    inflight_latest: u64,
    loss_round_delivered: u64,
    loss_round_start: bool,
    loss_in_round: bool,
    loss_events: u32,
    next_round_delivered: u64,
    round: u64,
    round_start: bool,
    full_bw: f64,
    full_bw_count: u32,
    full_bw_now: bool,
    full_bw_reached: bool,
    probe_up_cnt: u64,
    probe_up_rounds: u32,
    probe_up_acks: u64,
    rounds_since_probe: u64,
    probe_wait: Dur,
    cycle_stamp: Time,
    ack_phase: AckPhase,
    probe_samples: bool,
    /// `None` = no RTT sample yet.
    min_rtt: Option<Dur>,
    min_rtt_stamp: Time,
    probe_rtt_min: Dur,
    probe_rtt_stamp: Time,
    probe_rtt_expired: bool,
    probe_rtt_done: Option<Time>,
    probe_rtt_round_done: bool,
    /// C.app_limited of ProbeRTT (MarkConnectionAppLimited), 0 = there was none: what was sent before more than this was delivered.
    limited_until: u64,
    extra: [(u64, u64); EXTRA_ROUNDS],
    extra_start: Time,
    extra_delivered: u64,
    idle_restart: bool,
    prior_cwnd: u64,
    in_recovery: bool,
    /// After a timeout, until this is acknowledged.
    loss_end: Option<u64>,
}

impl Bbr3 {
    /// BBROnInit (section 5.2.1).
    fn new(cfg: &TcpConfig, rng: Stream, options: Options) -> Bbr3 {
        let segment = u64::from(cfg.mss);
        let initial = u64::from(cfg.initial_window) * segment;
        Bbr3 {
            options,
            rng,
            segment,
            overhead: f64::from(cfg.mss + cfg.header_len()) / f64::from(cfg.mss),
            initial,
            state: State::Startup,
            cwnd: initial,
            // BBRInitPacingRate without an RTT sample: 1 ms.
            pacing: STARTUP_GAIN * initial as f64 / 1e-3,
            delivered: 0,
            max_bw: [0.0; 2],
            bw: 0.0,
            bw_shortterm: f64::INFINITY,
            inflight_shortterm: u64::MAX,
            inflight_longterm: u64::MAX,
            bw_latest: 0.0,
            inflight_latest: 0,
            loss_round_delivered: 0,
            loss_round_start: false,
            loss_in_round: false,
            loss_events: 0,
            next_round_delivered: 0,
            round: 0,
            round_start: false,
            full_bw: 0.0,
            full_bw_count: 0,
            full_bw_now: false,
            full_bw_reached: false,
            probe_up_cnt: u64::MAX,
            probe_up_rounds: 0,
            probe_up_acks: 0,
            rounds_since_probe: 0,
            probe_wait: Dur::ZERO,
            cycle_stamp: Time::ZERO,
            ack_phase: AckPhase::Init,
            probe_samples: false,
            min_rtt: None,
            min_rtt_stamp: Time::ZERO,
            probe_rtt_min: Dur::MAX,
            probe_rtt_stamp: Time::ZERO,
            probe_rtt_expired: false,
            probe_rtt_done: None,
            probe_rtt_round_done: false,
            limited_until: 0,
            extra: [(0, 0); EXTRA_ROUNDS],
            extra_start: Time::ZERO,
            extra_delivered: 0,
            idle_restart: false,
            prior_cwnd: 0,
            in_recovery: false,
            loss_end: None,
        }
    }
    fn max_bw(&self) -> f64 {
        self.max_bw[0].max(self.max_bw[1])
    }
    fn is_limited(&self, rs: &RateSample) -> bool {
        rs.app_limited || (self.limited_until > 0 && rs.prior_delivered <= self.limited_until)
    }
    fn in_probe_bw(&self) -> bool {
        matches!(self.state, State::Down | State::Cruise | State::Refill | State::Up)
    }
    /// Pacing and window gain of each state (section 5.6.1).
    fn gains(&self) -> (f64, f64) {
        match self.state {
            State::Startup => (STARTUP_GAIN, 2.0),
            State::Drain => (0.35, 2.0),
            State::Down => (0.9, 2.0),
            State::Cruise | State::Refill => (1.0, 2.0),
            State::Up => (1.25, 2.25),
            State::ProbeRtt => (1.0, 0.5),
        }
    }

    // ---- section 5.5: the model of the path ----------------------------------------------------------

    /// BBRStartRound (section 5.5.1).
    fn start_round(&mut self) {
        self.next_round_delivered = self.delivered;
    }
    /// BBRUpdateLatestDeliverySignals (section 5.5.10.3).
    fn update_latest(&mut self, rs: &RateSample, rate: f64) {
        self.loss_round_start = false;
        self.bw_latest = self.bw_latest.max(rate);
        self.inflight_latest = self.inflight_latest.max(rs.delivered);
        if rs.prior_delivered >= self.loss_round_delivered {
            self.loss_round_delivered = self.delivered;
            self.loss_round_start = true;
        }
    }
    /// BBRUpdateMaxBw with BBRUpdateRound (sections 5.5.1, 5.5.5).
    fn update_max_bw(&mut self, rs: &RateSample, rate: f64) {
        self.round_start = rs.prior_delivered >= self.next_round_delivered;
        if self.round_start {
            self.start_round();
            self.round += 1;
            self.rounds_since_probe += 1;
        }
        if rate > 0.0 && (rate >= self.max_bw() || !self.is_limited(rs)) {
            self.max_bw[0] = self.max_bw[0].max(rate);
        }
    }
    /// BBRUpdateCongestionSignals, BBRAdaptLowerBoundsFromCongestion (section 5.5.10.3).
    fn update_congestion(&mut self, rs: &RateSample, rate: f64) {
        self.update_max_bw(rs, rate);
        if !self.loss_round_start {
            return;
        }
        let probing = matches!(self.state, State::Startup | State::Refill | State::Up);
        if !probing && self.loss_in_round {
            if self.bw_shortterm == f64::INFINITY {
                self.bw_shortterm = self.max_bw();
            }
            if self.inflight_shortterm == u64::MAX {
                self.inflight_shortterm = self.cwnd;
            }
            // bw_shortterm = max(bw_latest, BBR.Beta * BBR.bw_shortterm), and so the flight
            self.bw_shortterm = self.bw_latest.max(self.options.beta * self.bw_shortterm);
            let flight = (self.options.beta * self.inflight_shortterm as f64) as u64;
            self.inflight_shortterm = self.inflight_latest.max(flight);
        }
        self.loss_in_round = false;
    }
    fn reset_congestion(&mut self) {
        (self.loss_in_round, self.bw_latest, self.inflight_latest) = (false, 0.0, 0);
    }
    fn reset_shortterm(&mut self) {
        (self.bw_shortterm, self.inflight_shortterm) = (f64::INFINITY, u64::MAX);
    }
    /// BBRUpdateACKAggregation (section 5.5.9).
    fn update_extra(&mut self, now: Time, newly: u64) {
        let mut expected = (self.bw * now.since(self.extra_start).as_secs()) as u64;
        if self.extra_delivered <= expected {
            (self.extra_delivered, self.extra_start, expected) = (0, now, 0);
        }
        self.extra_delivered += newly;
        let extra = (self.extra_delivered - expected).min(self.cwnd);
        let slot = &mut self.extra[self.round as usize % EXTRA_ROUNDS];
        *slot = (self.round, if slot.0 == self.round { slot.1.max(extra) } else { extra });
    }
    fn extra_acked(&self) -> u64 {
        // "in Startup, just remember 1 round"
        let rounds = if self.full_bw_reached { EXTRA_ROUNDS as u64 } else { 1 };
        let recent = self.extra.iter().filter(|(round, _)| round + rounds > self.round);
        recent.map(|(_, extra)| *extra).max().unwrap_or(0)
    }
    /// BBRUpdateMinRTT (section 5.3.4.3); MinRTTFilterLen is twice the interval.
    fn update_min_rtt(&mut self, ack: &AckRecord<'_>) {
        self.probe_rtt_expired = ack.now > self.probe_rtt_stamp + self.options.interval;
        if let Some(rtt) = ack.rtt.filter(|rtt| *rtt < self.probe_rtt_min || self.probe_rtt_expired) {
            (self.probe_rtt_min, self.probe_rtt_stamp) = (rtt, ack.now);
        }
        let expired = ack.now > self.min_rtt_stamp + self.options.interval * 2;
        if self.probe_rtt_min != Dur::MAX
            && (expired || self.min_rtt.is_none_or(|least| self.probe_rtt_min < least))
        {
            (self.min_rtt, self.min_rtt_stamp) = (Some(self.probe_rtt_min), self.probe_rtt_stamp);
        }
    }

    // ---- section 5.3: the state machine --------------------------------------------------------------

    fn reset_full_bw(&mut self) {
        (self.full_bw, self.full_bw_count, self.full_bw_now) = (0.0, 0, false);
    }
    /// BBRCheckFullBWReached (section 5.3.1.2).
    fn check_full_bw(&mut self, rs: &RateSample, rate: f64) {
        if self.full_bw_now || !self.round_start || self.is_limited(rs) {
            return;
        }
        if rate >= self.full_bw * 1.25 {
            self.reset_full_bw();
            self.full_bw = rate;
            return;
        }
        self.full_bw_count += 1;
        self.full_bw_now = self.full_bw_count >= 3;
        self.full_bw_reached |= self.full_bw_now;
    }
    /// BBRCheckStartupDone with BBRCheckStartupHighLoss (section 5.3.1.3), BBRCheckDrainDone (section 5.3.2).
    fn check_startup(&mut self, ack: &AckRecord<'_>, rs: &RateSample) {
        self.loss_events += u32::from(ack.lost > 0);
        if self.state == State::Startup {
            let full = self.loss_round_start && self.in_recovery && self.loss_events >= FULL_LOSSES;
            if full && self.too_high(rs) {
                self.full_bw_reached = true;
                self.inflight_longterm = self.bdp(1.0).max(self.inflight_latest);
            }
            if self.full_bw_reached {
                self.state = State::Drain;
            }
        }
        if self.loss_round_start {
            self.loss_events = 0;
        }
        if self.state == State::Drain && ack.flight_after <= self.inflight(1.0) {
            self.start_down(ack.now);
        }
    }
    /// IsInflightTooHigh (section 5.5.10.2).
    fn too_high(&self, rs: &RateSample) -> bool {
        rs.lost as f64 > rs.in_flight as f64 * self.options.loss_thresh
    }
    /// BBRTargetInflight (section 5.3.3.5.3).
    fn target(&self) -> u64 {
        self.bdp(1.0).min(self.cwnd)
    }
    fn start_down(&mut self, now: Time) {
        self.reset_congestion();
        self.probe_up_cnt = u64::MAX;
        // BBRPickProbeWait
        self.rounds_since_probe = self.rng.below(2);
        self.probe_wait = self.options.wait + self.rng.dur_below(self.options.wait / 2);
        self.cycle_stamp = now;
        self.ack_phase = AckPhase::ProbeStopping;
        self.start_round();
        self.state = State::Down;
    }
    fn start_refill(&mut self) {
        self.reset_shortterm();
        (self.probe_up_rounds, self.probe_up_acks) = (0, 0);
        self.ack_phase = AckPhase::Refilling;
        self.start_round();
        self.state = State::Refill;
    }
    fn start_up(&mut self, rate: f64) {
        self.probe_samples = true;
        self.ack_phase = AckPhase::ProbeStarting;
        self.start_round();
        self.reset_full_bw();
        self.full_bw = rate;
        self.state = State::Up;
        self.raise_slope();
    }
    /// BBRRaiseInflightLongtermSlope (section 5.3.3.6).
    fn raise_slope(&mut self) {
        let growth = self.segment << self.probe_up_rounds;
        self.probe_up_rounds = (self.probe_up_rounds + 1).min(30);
        self.probe_up_cnt = (self.cwnd / growth).max(1);
    }
    /// BBRIsTimeToProbeBW (section 5.3.3.5.3): after the wait, or when Reno would have grown by a bandwidth-delay product.
    fn is_time_to_probe(&self, now: Time) -> bool {
        let rounds = (self.target() / self.segment).min(RENO_ROUNDS);
        now > self.cycle_stamp + self.probe_wait || self.rounds_since_probe >= rounds
    }
    /// BBRUpdateProbeBWCyclePhase (section 5.3.3.6).
    fn update_cycle(&mut self, ack: &AckRecord<'_>, rs: &RateSample, rate: f64, newly: u64) {
        if !self.full_bw_reached {
            return;
        }
        let limited = ack.limit == Limit::Window || ack.flight_before + self.segment > self.cwnd;
        self.adapt_longterm(ack.now, rs, limited, newly);
        match self.state {
            State::Down | State::Cruise if self.is_time_to_probe(ack.now) => self.start_refill(),
            State::Down => {
                // BBRIsTimeToCruise
                let cruise = ack.flight_after <= self.with_headroom()
                    && ack.flight_after <= self.quantised(self.bdp_of(self.max_bw(), 1.0));
                if cruise {
                    self.state = State::Cruise;
                }
            }
            State::Refill if self.round_start => self.start_up(rate),
            State::Up => {
                // BBRIsTimeToGoDown
                if limited && self.cwnd >= self.inflight_longterm {
                    self.reset_full_bw();
                    self.full_bw = rate;
                } else if self.full_bw_now {
                    self.start_down(ack.now);
                }
            }
            _ => {}
        }
    }
    /// BBRAdaptLongTermModel (section 5.3.3.6), BBRHandleInflightTooHigh (section 5.5.10.2).
    fn adapt_longterm(&mut self, now: Time, rs: &RateSample, limited: bool, newly: u64) {
        if self.ack_phase == AckPhase::ProbeStarting && self.round_start {
            self.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.ack_phase == AckPhase::ProbeStopping && self.round_start {
            self.probe_samples = false;
            self.ack_phase = AckPhase::Init;
            if self.in_probe_bw() && !self.is_limited(rs) {
                // BBRAdvanceMaxBwFilter
                self.max_bw = [0.0, self.max_bw[0]];
            }
        }
        if self.too_high(rs) {
            if self.probe_samples {
                self.probe_samples = false;
                if !self.is_limited(rs) {
                    let least = (self.target() as f64 * self.options.beta) as u64;
                    self.inflight_longterm = rs.in_flight.max(least);
                }
                if self.state == State::Up {
                    self.start_down(now);
                }
            }
            return;
        }
        if self.inflight_longterm == u64::MAX {
            return;
        }
        self.inflight_longterm = self.inflight_longterm.max(rs.in_flight);
        if self.state == State::Up {
            // BBRProbeInflightLongtermUpward
            if limited && self.cwnd >= self.inflight_longterm {
                self.probe_up_acks += newly;
                let delta = self.probe_up_acks / self.probe_up_cnt;
                self.probe_up_acks -= delta * self.probe_up_cnt;
                self.inflight_longterm += delta;
            }
            if self.round_start {
                self.raise_slope();
            }
        }
    }
    /// BBRCheckProbeRTT, BBRHandleProbeRTT, BBRExitProbeRTT (sections 5.3.4.3, 5.3.4.4).
    fn check_probe_rtt(&mut self, ack: &AckRecord<'_>) {
        if self.state != State::ProbeRtt && self.probe_rtt_expired && !self.idle_restart {
            self.save_cwnd();
            self.state = State::ProbeRtt;
            self.probe_rtt_done = None;
            self.ack_phase = AckPhase::ProbeStopping;
            self.start_round();
        }
        if self.state == State::ProbeRtt {
            self.limited_until = (self.delivered + ack.flight_after).max(1);
            if self.probe_rtt_done.is_some() {
                self.probe_rtt_round_done |= self.round_start;
                if self.probe_rtt_round_done {
                    self.check_probe_rtt_done(ack.now);
                }
            } else if ack.flight_after <= self.probe_rtt_cwnd() {
                self.probe_rtt_done = Some(ack.now + self.options.probe_rtt);
                self.probe_rtt_round_done = false;
                self.start_round();
            }
        }
        self.idle_restart = false;
    }
    fn check_probe_rtt_done(&mut self, now: Time) {
        if self.probe_rtt_done.is_none_or(|done| now <= done) {
            return;
        }
        self.probe_rtt_stamp = now;
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        self.reset_shortterm();
        if self.full_bw_reached {
            self.start_down(now);
            self.state = State::Cruise;
        } else {
            self.state = State::Startup;
        }
    }

    // ---- section 5.6: control parameters -------------------------------------------------------------

    /// BBRSetPacingRateWithGain (section 5.6.2).
    fn set_pacing_rate(&mut self, gain: f64) {
        let rate = gain * self.bw * (1.0 - self.options.margin);
        if self.bw > 0.0 && (self.full_bw_reached || rate > self.pacing) {
            self.pacing = rate;
        }
    }
    fn bdp_of(&self, bw: f64, gain: f64) -> u64 {
        self.min_rtt.map_or(self.initial, |rtt| (gain * bw * rtt.as_secs()) as u64)
    }
    /// BBRBDPMultiple (section 5.6.4.2).
    fn bdp(&self, gain: f64) -> u64 {
        self.bdp_of(self.bw, gain)
    }
    /// BBRQuantizationBudget (section 5.6.4.2) with BBRSetSendQuantum (section 5.6.3) and BBR.offload_budget (section 5.5.8).
    /// Segments leave one by one here; the quantum is room for those that wait.
    fn quantised(&self, inflight: u64) -> u64 {
        let quantum = ((self.pacing * 1e-3) as u64).min(65_536).max(2 * self.segment);
        let probing = if self.state == State::Up { 2 * self.segment } else { 0 };
        inflight.max(3 * quantum).max(MIN_PIPE * self.segment) + probing
    }
    /// BBRInflight.
    fn inflight(&self, gain: f64) -> u64 {
        self.quantised(self.bdp(gain))
    }
    /// BBRInflightWithHeadroom (section 5.3.3.6).
    fn with_headroom(&self) -> u64 {
        if self.inflight_longterm == u64::MAX {
            return u64::MAX;
        }
        let headroom = ((self.options.headroom * self.inflight_longterm as f64) as u64).max(self.segment);
        self.inflight_longterm.saturating_sub(headroom).max(MIN_PIPE * self.segment)
    }
    fn probe_rtt_cwnd(&self) -> u64 {
        self.bdp(0.5).max(MIN_PIPE * self.segment)
    }
    /// BBRSetCwnd (section 5.6.4.6) with BBRBoundCwndForProbeRTT and BBRBoundCwndForModel (section 5.6.4.7).
    fn set_cwnd(&mut self, newly: u64) {
        let most = self.quantised(self.bdp(self.gains().1) + self.extra_acked());
        if self.full_bw_reached {
            self.cwnd = (self.cwnd + newly).min(most);
        } else if self.cwnd < most || self.delivered < self.initial {
            self.cwnd += newly;
        }
        let least = MIN_PIPE * self.segment;
        self.cwnd = self.cwnd.max(least);
        if self.state == State::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
        let cap = match self.state {
            State::Down | State::Refill | State::Up => self.inflight_longterm,
            State::Cruise | State::ProbeRtt => self.with_headroom(),
            State::Startup | State::Drain => u64::MAX,
        };
        self.cwnd = self.cwnd.min(cap.min(self.inflight_shortterm).max(least));
    }
    /// BBRSaveCwnd (section 5.6.4.4).
    fn save_cwnd(&mut self) {
        let normal = !self.in_recovery && self.loss_end.is_none() && self.state != State::ProbeRtt;
        self.prior_cwnd = if normal { self.cwnd } else { self.prior_cwnd.max(self.cwnd) };
    }
    fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }
}

impl WindowLaw for Bbr3 {
    fn wants_rate(&self) -> bool {
        true
    }
    /// BBRUpdateOnACK (section 5.2.3).
    fn on_ack(&mut self, ack: &AckRecord<'_>, flow: &FlowView) {
        if self.min_rtt.is_none() {
            if let Some(rtt) = ack.rtt {
                // BBRInitPacingRate with the first sample, the handshake's.
                self.pacing = STARTUP_GAIN * self.initial as f64 / rtt.as_secs().max(1e-9);
            }
        }
        if self.loss_end.is_some_and(|end| flow.una >= end) {
            self.loss_end = None;
            self.restore_cwnd();
        }
        if ack.lost > 0 {
            // BBRNoteLoss (section 5.5.10.2)
            if !self.loss_in_round {
                self.loss_round_delivered = ack.rate.map_or(self.delivered, |rs| rs.total_delivered);
            }
            self.loss_in_round = true;
        }
        let Some(rs) = ack.rate else {
            self.update_min_rtt(ack);
            return;
        };
        let newly = rs.total_delivered - self.delivered;
        self.delivered = rs.total_delivered;
        let time = rs.interval.as_secs();
        let rate = if time > 0.0 { rs.delivered as f64 / time } else { 0.0 };
        self.update_latest(rs, rate);
        self.update_congestion(rs, rate);
        self.update_extra(ack.now, newly);
        self.check_full_bw(rs, rate);
        self.check_startup(ack, rs);
        self.update_cycle(ack, rs, rate, newly);
        self.update_min_rtt(ack);
        self.check_probe_rtt(ack);
        if self.loss_round_start {
            // BBRAdvanceLatestDeliverySignals
            (self.bw_latest, self.inflight_latest) = (rate, rs.delivered);
        }
        // BBRBoundBWForModel
        self.bw = self.max_bw().min(self.bw_shortterm);
        self.set_pacing_rate(self.gains().0);
        self.set_cwnd(newly);
    }
    fn on_congestion(&mut self, _: Time, flow: &FlowView, event: Congestion) {
        match event {
            // BBROnEnterFastRecovery
            Congestion::Loss => {
                self.save_cwnd();
                self.in_recovery = true;
            }
            // BBROnEnterRTO
            Congestion::Timeout { .. } => {
                self.save_cwnd();
                self.in_recovery = false;
                self.loss_end = Some(flow.nxt);
                self.cwnd = self.segment;
            }
            Congestion::Recovered | Congestion::Spurious => {
                self.in_recovery = false;
                self.loss_end = None;
                self.restore_cwnd();
            }
            Congestion::SynLost => self.cwnd = self.segment,
            // The draft leaves ECN out; after idle time the model is kept (section 5.4.1).
            Congestion::Ecn | Congestion::Idle => {}
        }
    }
    /// BBRHandleRestartFromIdle (section 5.4.1).
    fn on_restart(&mut self, now: Time, _: &FlowView) {
        self.idle_restart = true;
        self.extra_start = now;
        if self.in_probe_bw() {
            self.set_pacing_rate(1.0);
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done(now);
        }
    }
    fn control(&self) -> Control {
        let pacing = Rate((self.pacing * self.overhead * 8.0).max(1.0) as u64);
        Control { window: Some(Bytes(self.cwnd)), pacing: Some(pacing), segment: None }
    }
    fn observe(&self, report: &mut Report<'_>) {
        report(&MAX_BW, self.max_bw() * 8.0);
        if let Some(rtt) = self.min_rtt {
            report(&MIN_RTT, rtt.as_secs());
        }
        if self.inflight_longterm != u64::MAX {
            report(&LONGTERM, self.inflight_longterm as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_core::rng::Entity;

    fn law() -> Bbr3 {
        let cfg = TcpConfig { mss: 1000, ..TcpConfig::default() };
        let p = Params::parse("bbr3", BBR3.params, &[]).expect("the defaults are valid");
        let mut law = Bbr3::new(&cfg, Stream::new(1, 0, Entity::Sender, 0), Options::of(&p));
        // 100 segments of 1000 bytes in 10 ms: 10 MB/s, a bandwidth-delay product of 100 kB.
        (law.max_bw, law.bw, law.min_rtt) = ([10e6, 0.0], 10e6, Some(Dur::millis(10)));
        (law.full_bw_reached, law.cwnd, law.pacing) = (true, 200_000, 10e6);
        law
    }
    fn sample(in_flight: u64, lost: u64) -> RateSample {
        RateSample {
            delivered: 100_000,
            segments: 100,
            interval: Dur::millis(10),
            send_elapsed: Dur::millis(10),
            ack_elapsed: Dur::millis(10),
            prior_delivered: 0,
            total_delivered: 100_000,
            app_limited: false,
            lost,
            in_flight,
        }
    }

    /// 5.3.4.3: ProbeRTT marks the connection as limited by the application. By section 4.1 of the draft on rate
    /// samples that ends when more than the data delivered and in flight is delivered, so segments sent at exactly that
    /// point are limited.
    #[test]
    fn draft_5_3_4_what_leaves_in_the_round_after_probe_rtt_is_limited() {
        let mut l = law();
        assert!(!l.is_limited(&sample(0, 0)));
        l.limited_until = 103_000;
        let after = |prior_delivered| RateSample { prior_delivered, ..sample(0, 0) };
        assert!(l.is_limited(&after(102_000)) && l.is_limited(&after(103_000)));
        assert!(!l.is_limited(&after(104_000)));
    }
    /// 5.5.10.2: 2 % of what was in flight may be lost. More while probing bounds the flight by what was in flight, at least 0.7 of
    /// the target (100 kB), and ends the probe; a second one changes nothing.
    #[test]
    fn draft_5_5_10_2_a_probe_ends_at_more_than_two_percent_of_loss_and_bounds_the_flight() {
        let mut l = law();
        l.start_refill();
        l.start_up(10e6);
        l.adapt_longterm(Time::ZERO, &sample(150_000, 3000), false, 1000);
        assert_eq!((l.state, l.inflight_longterm), (State::Up, u64::MAX));
        l.adapt_longterm(Time::ZERO, &sample(150_000, 3001), false, 1000);
        assert_eq!((l.state, l.inflight_longterm), (State::Down, 150_000));
        l.adapt_longterm(Time::ZERO, &sample(20_000, 3001), false, 1000);
        assert_eq!(l.inflight_longterm, 150_000);
        l.start_refill();
        l.start_up(10e6);
        l.adapt_longterm(Time::ZERO, &sample(20_000, 3001), false, 1000);
        assert_eq!(l.inflight_longterm, 70_000);
    }
    /// 5.5.10.3: a round with losses outside of a probe takes 30 % at most of rate and flight; refilling forgets it.
    #[test]
    fn draft_5_5_10_3_losses_while_cruising_cut_to_what_was_delivered_or_by_beta() {
        let mut l = law();
        (l.state, l.loss_in_round, l.loss_round_start) = (State::Cruise, true, true);
        (l.bw_latest, l.inflight_latest) = (6e6, 160_000);
        l.update_congestion(&sample(100_000, 0), 6e6);
        assert_eq!((l.bw_shortterm, l.inflight_shortterm, l.loss_in_round), (7e6, 160_000, false));
        l.start_refill();
        assert_eq!((l.bw_shortterm, l.inflight_shortterm), (f64::INFINITY, u64::MAX));
    }
    /// 5.3.3.6: the bound grows by 1, 2, 4 ... segments a round while it is what limits the sender.
    #[test]
    fn draft_5_3_3_6_the_bound_grows_by_twice_as_much_each_round() {
        let mut l = law();
        (l.inflight_longterm, l.cwnd) = (100_000, 100_000);
        l.start_refill();
        l.start_up(10e6);
        for growth in [1000, 2000, 4000] {
            let before = l.inflight_longterm;
            for _ in 0..100 {
                l.cwnd = l.inflight_longterm;
                l.adapt_longterm(Time::ZERO, &sample(0, 0), true, 1000);
            }
            assert!(
                l.inflight_longterm.abs_diff(before + growth) <= growth / 50,
                "{} {before}",
                l.inflight_longterm
            );
            l.cwnd = 100_000;
            l.raise_slope();
        }
    }
    /// 5.6.4.7: 15 % of the bound stay free while cruising, at least a segment.
    #[test]
    fn draft_5_6_4_7_cruising_leaves_headroom() {
        let mut l = law();
        l.inflight_longterm = 100_000;
        l.state = State::Cruise;
        l.set_cwnd(0);
        assert_eq!(l.cwnd, 85_000);
        (l.state, l.cwnd) = (State::Down, 200_000);
        l.set_cwnd(0);
        assert_eq!(l.cwnd, 100_000);
    }
    /// 5.3.3.5.3: a bandwidth-delay product of 20 segments is probed after 20 round trips, a large one after 63, or after 2 to 3 s.
    #[test]
    fn draft_5_3_3_5_probes_come_on_renos_time_scale() {
        let mut l = law();
        l.start_down(Time::ZERO);
        assert!(l.probe_wait >= Dur::millis(2000) && l.probe_wait <= Dur::millis(3000), "{}", l.probe_wait);
        for (bdp, rounds) in [(20, 20), (100, 63)] {
            l.bw = f64::from(bdp) * 1000.0 / 0.01;
            l.rounds_since_probe = rounds - 1;
            assert!(!l.is_time_to_probe(Time::ZERO));
            l.rounds_since_probe = rounds;
            assert!(l.is_time_to_probe(Time::ZERO));
        }
        l.rounds_since_probe = 0;
        assert!(l.is_time_to_probe(Time::ZERO + Dur::millis(3001)));
    }
}
