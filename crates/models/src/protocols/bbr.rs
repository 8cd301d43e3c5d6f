//! BBR, version 1 (draft-cardwell-iccrg-bbr-congestion-control-00), on Linux's sender. A model of the path sets pacing
//! rate and window: the largest delivery rate of ten round trips and the smallest RTT of ten seconds. Losses do not.
//!
//! Sections are the draft's. These rules are from Linux's `tcp_bbr.c` (from memory). The pacing margin is 1 %, and the
//! probing phase has an even window with two segments more. After a timeout Startup looks for the plateau anew.
//! Aggregated ACKs have an allowance (`extra_acked`). The burst that is about to leave counts as in flight when the end
//! of the probing phase is decided (`bbr_packets_in_net_at_edt`). Recovery begins and ends at the ACK that finds it,
//! after the model's update (`bbr_set_cwnd`). A round trip as long as the smallest does not renew it (since 5.11).
//! Linux's detection of policers (`lt_bw`) is missing. Data is counted in bytes of payload, a short segment as a full
//! one, as a kernel counts segments.

mod bandwidth;

use super::linux::configure;
use crate::registry::{Protocol, Suite};
use alloc::boxed::Box;
use alloc::sync::Arc;
use bandwidth::Largest;
use penstock_core::tcp::{RateSample, TcpConfig};
use penstock_core::{
    AckRecord, Congestion, Control, FlowView, Kind, ParamSpec, Quantity, Report, Stream, Unit, WindowLaw,
};
use penstock_units::{Bytes, Dur, Rate, Time};

static BTLBW: Quantity =
    Quantity::new("btlbw_bps", Unit::BitsPerSecond, "estimated bandwidth of the bottleneck");
static RTPROP: Quantity = Quantity::new("rtprop_s", Unit::Seconds, "estimated round-trip propagation time");

/// BBR.
pub const BBR: Protocol = Protocol {
    name: "bbr",
    text: "BBR version 1: paced at the measured bandwidth, a window of twice the measured bandwidth-delay product",
    cites: "draft-cardwell-iccrg-bbr-congestion-control-00; Linux tcp_bbr.c",
    params: &[
        ParamSpec::new("rtprop_filter", Kind::Duration, "10s", "how long a smallest RTT counts", "section 4.1.2.3")
            .range(1e-3, 1e6),
        ParamSpec::new("probe_rtt", Kind::Duration, "200ms", "how long ProbeRTT keeps the window small", "section 4.3.5")
            .range(0.0, 1e3),
        ParamSpec::new("margin", Kind::Float, "0.01", "how far pacing stays below the estimate", "Linux tcp_bbr.c")
            .range(0.0, 0.5),
    ],
    reports: &[&BTLBW, &RTPROP],
    build: |p| {
        let (filter, probe, margin) = (p.dur("rtprop_filter"), p.dur("probe_rtt"), p.float("margin"));
        Ok(Suite {
            configure: |c| {
                configure(c);
                // It sets its window in recovery itself (section 4.2.3.4).
                (c.prr, c.ssthresh_from_cwnd) = (false, false);
            },
            endpoint: Arc::new(move |cfg, rng| Box::new(Bbr::new(cfg, rng(), filter, probe, margin))),
            ..Suite::tcp()
        })
    },
};

/// BBRHighGain = 2 / ln 2 (section 4.3.2.1).
const HIGH_GAIN: f64 = 2.885_390_081_777_927;
/// Section 4.3.4.1.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// bbr_extra_acked_win_rtts of Linux.
const EXTRA_ROUNDS: u32 = 5;
/// BBRMinPipeCwnd in segments (section 4.2.3.3).
const MIN_PIPE: u64 = 4;

/// What of Linux's states of a connection matters here, in its order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Ca {
    Open,
    Recovery,
    Loss,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// Names are the draft's; rates are in bytes of payload per second.
struct Bbr {
    rng: Stream,
    filter: Dur,
    probe: Dur,
    margin: f64,
    segment: u64,
    /// Bytes on the wire per byte of payload, for the pacing rate.
    overhead: f64,
    initial: u64,
    state: State,
    pacing_gain: f64,
    cwnd_gain: f64,
    cwnd: u64,
    pacing: f64,
    /// BBR.BtlBwFilter (section 4.1.1.3), and BBR.BtlBw by it.
    largest: Largest,
    btlbw: f64,
    /// `None` = no RTT sample yet.
    rtprop: Option<Dur>,
    rtprop_stamp: Time,
    rtprop_expired: bool,
    /// Section 4.1.1.2: round counting.
    next_round_delivered: u64,
    round: u64,
    round_start: bool,
    delivered: u64,
    /// Section 4.3.2.2.
    filled_pipe: bool,
    full_bw: f64,
    full_bw_count: u32,
    cycle: usize,
    cycle_stamp: Time,
    probe_rtt_done: Option<Time>,
    probe_rtt_round_done: bool,
    /// C.app_limited of BBRHandleProbeRTT, 0 = there was none: what was sent before more than this was delivered says nothing against the estimate. So
    /// all of the first round trip after ProbeRTT is left out, not only what was in flight.
    limited_until: u64,
    idle_restart: bool,
    prior_cwnd: u64,
    packet_conservation: bool,
    /// How the connection stands, and how it stood when the window was set last (prev_ca_state).
    ca: Ca,
    ca_before: Ca,
    /// After a timeout, until this is acknowledged.
    loss_end: Option<u64>,
    /// Linux's extra_acked[2], extra_acked_win_rtts and ack_epoch: what is acknowledged beyond the estimated bandwidth.
    extra: [u64; 2],
    extra_rounds: u32,
    epoch: (Time, u64),
}

impl Bbr {
    fn new(cfg: &TcpConfig, rng: Stream, filter: Dur, probe: Dur, margin: f64) -> Bbr {
        let segment = u64::from(cfg.mss);
        let initial = u64::from(cfg.initial_window) * segment;
        Bbr {
            rng,
            filter,
            probe,
            margin,
            segment,
            overhead: f64::from(cfg.mss + cfg.header_len()) / f64::from(cfg.mss),
            initial,
            state: State::Startup,
            pacing_gain: HIGH_GAIN,
            cwnd_gain: HIGH_GAIN,
            cwnd: initial,
            // Section 4.2.1: pacing_gain * InitialCwnd / 1 ms before there is an RTT sample.
            pacing: HIGH_GAIN * initial as f64 / 1e-3,
            largest: Largest::default(),
            btlbw: 0.0,
            rtprop: None,
            rtprop_stamp: Time::ZERO,
            rtprop_expired: false,
            next_round_delivered: 0,
            round: 0,
            round_start: false,
            delivered: 0,
            filled_pipe: false,
            full_bw: 0.0,
            full_bw_count: 0,
            cycle: 0,
            cycle_stamp: Time::ZERO,
            probe_rtt_done: None,
            probe_rtt_round_done: false,
            limited_until: 0,
            idle_restart: false,
            prior_cwnd: 0,
            packet_conservation: false,
            ca: Ca::Open,
            ca_before: Ca::Open,
            loss_end: None,
            extra: [0; 2],
            extra_rounds: 0,
            epoch: (Time::ZERO, 0),
        }
    }

    // ---- section 4.1: the model of the path ----------------------------------------------------------

    /// BBRUpdateRound and BBRUpdateBtlBw (section 4.1.1).
    fn update_btlbw(&mut self, rs: &RateSample) {
        self.round_start = rs.prior_delivered >= self.next_round_delivered;
        if self.round_start {
            self.next_round_delivered = rs.total_delivered;
            self.round += 1;
            self.packet_conservation = false;
        }
        let rate = (rs.segments * self.segment) as f64 / rs.interval.as_secs();
        if rs.interval == Dur::ZERO || rate < self.btlbw && self.is_limited(rs) {
            return;
        }
        self.btlbw = self.largest.take(self.round, rate);
    }
    fn is_limited(&self, rs: &RateSample) -> bool {
        rs.app_limited || (self.limited_until > 0 && rs.prior_delivered <= self.limited_until)
    }
    /// BBRUpdateRTprop (section 4.1.2). In Linux a round trip of the same microsecond does not renew the smallest one.
    /// When that is too old, a sample that may contain a delayed ACK does not count: that of a short segment that was
    /// alone (FLAG_ACK_MAYBE_DELAYED).
    fn update_rtprop(&mut self, ack: &AckRecord<'_>) {
        self.rtprop_expired = ack.now > self.rtprop_stamp + self.filter;
        let Some(rtt) = ack.rtt else { return };
        let rtt = in_whole_us(ack.now, rtt);
        let delayed = ack.rate.is_some_and(|rs| rs.segments == 1 && rs.in_flight < self.segment);
        if self.rtprop_expired && !delayed || self.rtprop.is_none_or(|least| rtt < least) {
            self.rtprop = Some(rtt);
            self.rtprop_stamp = ack.now;
        }
    }
    /// bbr_update_ack_aggregation: what is acknowledged in a row beyond what the bandwidth explains, in whole segments, the most in 5
    /// to 10 round trips.
    fn update_extra(&mut self, now: Time, newly: u64) {
        if newly == 0 {
            return;
        }
        if self.round_start {
            self.extra_rounds += 1;
            if self.extra_rounds >= EXTRA_ROUNDS {
                self.extra_rounds = 0;
                self.extra = [0, self.extra[0]];
            }
        }
        let expected = (self.btlbw * now.since(self.epoch.0).as_secs()) as u64 / self.segment * self.segment;
        if self.epoch.1 <= expected {
            self.epoch = (now, 0);
        }
        let expected = if self.epoch.1 == 0 { 0 } else { expected };
        self.epoch.1 += newly;
        self.extra[0] = self.extra[0].max((self.epoch.1 - expected).min(self.cwnd));
    }
    /// bbr_ack_aggregation_cwnd: at most what the bandwidth is for 100 ms.
    fn extra(&self) -> u64 {
        if !self.filled_pipe {
            return 0;
        }
        self.extra[0].max(self.extra[1]).min((self.btlbw * 0.1) as u64)
    }
    /// BBRInflight(gain) (section 4.2.3.2).
    fn inflight(&self, gain: f64) -> u64 {
        self.inflight_with(gain, 0)
    }
    /// Bytes in flight for `gain` times the estimated bandwidth-delay product, with room for `more` bytes.
    fn inflight_with(&self, gain: f64, more: u64) -> u64 {
        let Some(rtprop) = self.rtprop else { return self.initial };
        let bdp = gain * self.btlbw * rtprop.as_secs() / self.segment as f64;
        // bbr_bdp rounds up; bbr_quantization_budget: an even number, and two more when probing.
        let segments = libm::ceil(bdp) as u64 + more.div_ceil(self.segment) + 3 * self.quantum();
        let probing = self.state == State::ProbeBw && self.cycle == 0;
        (segments.next_multiple_of(2) + if probing { 2 } else { 0 }) * self.segment
    }
    /// BBRSetSendQuantum (section 4.2.2) as bbr_tso_segs_goal, in segments: what 1/1024 s of the pacing rate is, which counts payload
    /// there. Segments leave one by one here; the quantum is room for those that wait.
    fn quantum(&self) -> u64 {
        let least = if self.pacing < 1.2e6 / 8.0 { 1 } else { 2 };
        // GSO_LEGACY_MAX_SIZE less the headers' room (MAX_TCP_HEADER, 320 bytes).
        let most = (self.pacing / 1024.0).min(65_535.0 - 320.0);
        ((most / self.segment as f64) as u64).max(least)
    }
    /// bbr_packets_in_net_at_edt: in flight when the next burst leaves, that burst included while the flight is to grow. What is
    /// delivered until then, at most a segment where bursts are no longer than one, is left out.
    fn at_departure(&self, flight: u64) -> u64 {
        self.whole(flight) + if self.pacing_gain > 1.0 { self.quantum() * self.segment } else { 0 }
    }

    // ---- section 4.2: control parameters -------------------------------------------------------------

    /// BBRSetPacingRateWithGain (section 4.2.1).
    fn set_pacing_rate(&mut self, gain: f64) {
        let rate = gain * self.btlbw * (1.0 - self.margin);
        if self.btlbw > 0.0 && (self.filled_pipe || rate > self.pacing) {
            self.pacing = rate;
        }
    }
    /// BBRModulateCwndForRecovery (section 4.2.3.4) as bbr_set_cwnd_to_recover_or_restore: the model has heard of this ACK before. Answers whether packets
    /// are conserved.
    fn recover_or_restore(&mut self, ack: &AckRecord<'_>, newly: u64) -> bool {
        self.cwnd = self.cwnd.saturating_sub(self.whole(ack.lost_now)).max(self.segment);
        let before = core::mem::replace(&mut self.ca_before, self.ca);
        let kept = self.whole(ack.flight_after) + newly;
        if self.ca == Ca::Recovery && before != Ca::Recovery {
            // The first round of recovery begins here.
            self.packet_conservation = true;
            self.next_round_delivered = self.delivered;
            self.cwnd = kept;
        } else if before >= Ca::Recovery && self.ca < Ca::Recovery {
            self.restore_cwnd();
            self.packet_conservation = false;
        }
        if self.packet_conservation {
            self.cwnd = self.cwnd.max(kept);
        }
        self.packet_conservation
    }
    /// BBRSetCwnd (section 4.2.3.6).
    fn set_cwnd(&mut self, ack: &AckRecord<'_>, newly: u64) {
        if !self.recover_or_restore(ack, newly) {
            let target = self.inflight_with(self.cwnd_gain, self.extra());
            if self.filled_pipe {
                self.cwnd = (self.cwnd + newly).min(target);
            } else if self.cwnd < target || self.delivered < self.initial {
                self.cwnd += newly;
            }
            self.cwnd = self.cwnd.max(MIN_PIPE * self.segment);
        }
    }
    /// Bytes of so many segments, of which one may be short.
    fn whole(&self, bytes: u64) -> u64 {
        bytes.next_multiple_of(self.segment)
    }
    /// BBRSaveCwnd (section 4.2.3.4).
    fn save_cwnd(&mut self) {
        let normal = self.ca_before < Ca::Recovery && self.state != State::ProbeRtt;
        self.prior_cwnd = if normal { self.cwnd } else { self.prior_cwnd.max(self.cwnd) };
    }
    fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }

    // ---- section 4.3: the state machine --------------------------------------------------------------

    fn enter(&mut self, state: State, pacing_gain: f64, cwnd_gain: f64) {
        (self.state, self.pacing_gain, self.cwnd_gain) = (state, pacing_gain, cwnd_gain);
    }
    /// BBRCheckFullPipe (section 4.3.2.2).
    fn check_full_pipe(&mut self, rs: &RateSample) {
        if self.filled_pipe || !self.round_start || self.is_limited(rs) {
            return;
        }
        if self.btlbw >= self.full_bw * 1.25 {
            (self.full_bw, self.full_bw_count) = (self.btlbw, 0);
            return;
        }
        self.full_bw_count += 1;
        self.filled_pipe = self.full_bw_count >= 3;
    }
    /// BBRCheckDrain (section 4.3.3).
    fn check_drain(&mut self, ack: &AckRecord<'_>) {
        // With the gain that it still has, of Startup.
        let flight = self.at_departure(ack.flight_after);
        if self.state == State::Startup && self.filled_pipe {
            self.enter(State::Drain, 1.0 / HIGH_GAIN, HIGH_GAIN);
        }
        if self.state == State::Drain && flight <= self.inflight(1.0) {
            self.enter_probe_bw(ack.now);
        }
    }
    /// BBREnterProbeBW (section 4.3.4.3): any phase but that of 3/4 comes first.
    fn enter_probe_bw(&mut self, now: Time) {
        self.enter(State::ProbeBw, 1.0, 2.0);
        self.cycle = CYCLE.len() - 1 - self.rng.below(7) as usize;
        self.advance_cycle(now);
    }
    fn advance_cycle(&mut self, now: Time) {
        self.cycle_stamp = now;
        self.cycle = (self.cycle + 1) % CYCLE.len();
        self.pacing_gain = CYCLE[self.cycle];
    }
    /// BBRCheckCyclePhase, BBRIsNextCyclePhase (section 4.3.4.3).
    fn check_cycle(&mut self, ack: &AckRecord<'_>) {
        if self.state != State::ProbeBw {
            return;
        }
        let full_length = self.rtprop.is_some_and(|rtprop| ack.now.since(self.cycle_stamp) > rtprop);
        let flight = self.at_departure(ack.flight_before);
        let next = if self.pacing_gain > 1.0 {
            full_length && (ack.lost_now > 0 || flight >= self.inflight(self.pacing_gain))
        } else if self.pacing_gain < 1.0 {
            full_length || flight <= self.inflight(1.0)
        } else {
            full_length
        };
        if next {
            self.advance_cycle(ack.now);
        }
    }
    /// BBRCheckProbeRTT, BBRHandleProbeRTT (section 4.3.5).
    fn check_probe_rtt(&mut self, ack: &AckRecord<'_>) {
        if self.state != State::ProbeRtt && self.rtprop_expired && !self.idle_restart {
            self.save_cwnd();
            self.enter(State::ProbeRtt, 1.0, 1.0);
            self.probe_rtt_done = None;
        }
        if self.state == State::ProbeRtt {
            self.limited_until = (self.delivered + ack.flight_after).max(1);
            match self.probe_rtt_done {
                None if self.whole(ack.flight_after) <= MIN_PIPE * self.segment => {
                    self.probe_rtt_done = Some(ack.now + self.probe);
                    self.probe_rtt_round_done = false;
                    self.next_round_delivered = self.delivered;
                }
                None => {}
                Some(_) => {
                    self.probe_rtt_round_done |= self.round_start;
                    if self.probe_rtt_round_done {
                        self.check_probe_rtt_done(ack.now);
                    }
                }
            }
        }
        self.idle_restart &= ack.segments == 0;
    }
    /// bbr_check_probe_rtt_done.
    fn check_probe_rtt_done(&mut self, now: Time) {
        if self.probe_rtt_done.is_none_or(|done| now <= done) {
            return;
        }
        self.rtprop_stamp = now;
        self.restore_cwnd();
        if self.filled_pipe {
            self.enter_probe_bw(now);
        } else {
            self.enter(State::Startup, HIGH_GAIN, HIGH_GAIN);
        }
    }
}

impl WindowLaw for Bbr {
    fn wants_rate(&self) -> bool {
        true
    }
    /// BBRUpdateOnACK (section 3.5.2).
    fn on_ack(&mut self, ack: &AckRecord<'_>, flow: &FlowView) {
        if self.rtprop.is_none() {
            if let Some(rtt) = ack.rtt {
                // BBRInitPacingRate with the first sample, the handshake's.
                self.pacing = HIGH_GAIN * self.initial as f64 / rtt.as_secs().max(1e-9);
            }
        }
        if self.loss_end.is_some_and(|end| flow.una >= end) {
            self.loss_end = None;
            self.ca = Ca::Open;
        }
        if flow.max_sent == 0 {
            // The handshake's: bbr_init.
            (self.rtprop, self.rtprop_stamp) = (ack.rtt, ack.now);
            return;
        }
        // What there is no sample of is no round and says nothing of the bandwidth; all else goes on (bbr_main).
        self.round_start = false;
        self.delivered += ack.delivered;
        let newly = ack.segments * self.segment;
        if let Some(rs) = ack.rate {
            self.update_btlbw(rs);
            self.update_extra(ack.now, newly);
        }
        self.check_cycle(ack);
        if let Some(rs) = ack.rate {
            self.check_full_pipe(rs);
        }
        self.check_drain(ack);
        self.update_rtprop(ack);
        self.check_probe_rtt(ack);
        self.set_pacing_rate(self.pacing_gain);
        if newly > 0 {
            self.set_cwnd(ack, newly);
        }
        // BBRModulateCwndForProbeRTT (section 4.2.3.5)
        if self.state == State::ProbeRtt {
            self.cwnd = self.cwnd.min(MIN_PIPE * self.segment);
        }
    }
    fn on_congestion(&mut self, _: Time, flow: &FlowView, event: Congestion) {
        match event {
            Congestion::Loss => {
                // bbr_ssthresh; the window follows with the ACK (section 4.2.3.4).
                self.save_cwnd();
                self.ca = Ca::Recovery;
            }
            Congestion::Timeout { kept, in_a_row } => {
                if in_a_row == 1 {
                    self.save_cwnd();
                }
                // bbr_set_state
                (self.ca, self.ca_before) = (Ca::Loss, Ca::Loss);
                self.full_bw = 0.0;
                self.loss_end = Some(flow.nxt);
                self.cwnd = self.whole(kept) + self.segment;
            }
            Congestion::Recovered => (self.ca, self.loss_end) = (Ca::Open, None),
            Congestion::Spurious => {
                (self.ca, self.loss_end) = (Ca::Open, None);
                // bbr_undo_cwnd: the plateau may have been one of losses that were none.
                (self.full_bw, self.full_bw_count) = (0.0, 0);
            }
            Congestion::SynLost => self.cwnd = self.segment,
            // Marks mean nothing to version 1; after idle time the model is kept (section 4.3.4.4).
            Congestion::Ecn | Congestion::Idle => {}
        }
    }
    /// BBRHandleRestartFromIdle (section 4.3.4.4) as bbr_cwnd_event.
    fn on_restart(&mut self, now: Time, _: &FlowView) {
        self.idle_restart = true;
        self.epoch = (now, 0);
        match self.state {
            State::ProbeBw => self.set_pacing_rate(1.0),
            State::ProbeRtt => self.check_probe_rtt_done(now),
            State::Startup | State::Drain => {}
        }
    }
    fn control(&self) -> Control {
        let pacing = Rate((self.pacing * self.overhead * 8.0).max(1.0) as u64);
        Control { window: Some(Bytes(self.cwnd)), pacing: Some(pacing), segment: None }
    }
    fn observe(&self, report: &mut Report<'_>) {
        report(&BTLBW, self.btlbw * 8.0);
        if let Some(rtprop) = self.rtprop {
            report(&RTPROP, rtprop.as_secs());
        }
    }
}

/// A round trip that ends at `now` as Linux has it (`tcp_stamp_us_delta`): both ends in whole microseconds.
fn in_whole_us(now: Time, rtt: Dur) -> Dur {
    let us = |at: Time| at.since(Time::ZERO).0 / Dur::micros(1).0;
    Dur::micros(us(now) - us(now - rtt))
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_core::rng::Entity;
    use penstock_core::CcHeader;

    fn law() -> Bbr {
        let cfg = TcpConfig { mss: 1000, ..TcpConfig::default() };
        let rng = Stream::new(1, 0, Entity::Sender, 0);
        Bbr::new(&cfg, rng, Dur::millis(10_000), Dur::millis(200), 0.01)
    }
    /// A sample of 4 segments in 20 ms; that much had been delivered when its segment left.
    fn sample(prior_delivered: u64) -> RateSample {
        RateSample {
            delivered: 4000,
            segments: 4,
            interval: Dur::millis(20),
            send_elapsed: Dur::millis(20),
            ack_elapsed: Dur::millis(20),
            prior_delivered,
            total_delivered: prior_delivered + 4000,
            app_limited: false,
            lost: 0,
            in_flight: 4000,
        }
    }

    /// Section 4.3.5: C.app_limited = C.delivered + packets_in_flight, and it ends when more than that is delivered. ProbeRTT ends with 100,000 bytes
    /// delivered and 3,000 in flight: what leaves after those were delivered, and before anything else is, is still limited.
    #[test]
    fn draft_4_3_5_probe_rtt_says_nothing_against_the_bandwidth() {
        let mut l = law();
        (l.btlbw, l.limited_until) = (10e6, 103_000);
        for prior in [100_000, 102_000, 103_000] {
            assert!(l.is_limited(&sample(prior)));
            l.update_btlbw(&sample(prior));
            assert_eq!(l.btlbw, 10e6, "{prior}");
        }
        assert!(!l.is_limited(&sample(104_000)));
        // Before the first ProbeRTT nothing is, not even what left before anything was delivered.
        assert!(!law().is_limited(&sample(0)));
    }
    /// An ACK of one segment at `ms`, with 10 in flight behind it.
    fn ack(ms: u64, rate: &RateSample) -> AckRecord<'_> {
        let now = Time::ZERO + Dur::millis(ms);
        let (delivered, segments, flight) = (rate.delivered.min(1000), 1, 10_000);
        let (rate, rtt) = (Some(rate), Some(Dur::millis(20)));
        let plain = AckRecord::plain(now, 1000, &CcHeader::NONE);
        AckRecord {
            delivered,
            segments,
            rate,
            rtt,
            flight_before: flight + 1000,
            flight_after: flight,
            ..plain
        }
    }
    fn flow() -> FlowView {
        FlowView { una: 1000, nxt: 50_000, max_sent: 50_000, in_flight: 10_000, ..FlowView::plain(1000) }
    }
    /// bbr_set_cwnd_to_recover_or_restore comes behind bbr_update_model: the ACK that finds a loss may end a round, the next one begins with what
    /// is delivered then, and the window is what is in flight and what it delivers. 20 segments in 10 + 1; restored when recovery is left.
    #[test]
    fn linux_recovery_begins_with_the_ack_that_finds_a_loss() {
        let mut l = law();
        (l.cwnd, l.delivered, l.next_round_delivered, l.btlbw) = (20_000, 6000, 2000, 1.0);
        l.on_congestion(Time::ZERO, &flow(), Congestion::Loss);
        assert_eq!((l.cwnd, l.round), (20_000, 0));
        l.on_ack(&ack(40, &sample(3000)), &flow());
        assert_eq!((l.cwnd, l.round, l.next_round_delivered), (11_000, 1, 7000));
        // What it conserves grows with what is in flight, and a round ends it.
        l.on_ack(&AckRecord { flight_after: 12_000, ..ack(41, &sample(4000)) }, &flow());
        assert_eq!((l.cwnd, l.round, l.packet_conservation), (13_000, 1, true));
        l.on_congestion(Time::ZERO, &flow(), Congestion::Recovered);
        l.on_ack(&ack(42, &sample(5000)), &flow());
        assert!(l.cwnd >= 20_000 && !l.packet_conservation, "{}", l.cwnd);
    }
    /// rs->losses are those that the ACK gives away, whole segments; what a timer has marked before it is not among them.
    #[test]
    fn linux_a_window_shrinks_by_what_its_ack_finds_lost() {
        let mut l = law();
        (l.cwnd, l.delivered, l.filled_pipe, l.btlbw) = (20_000, 90_000, true, 1e6);
        l.update_rtprop(&ack(30, &sample(0)));
        let rs = sample(80_000);
        let found = AckRecord { lost: 5000, lost_now: 1600, ..ack(40, &rs) };
        // 20 - 2 + 1 segments, far below twice the 20 of the path.
        l.cwnd_gain = 2.0;
        l.set_cwnd(&found, 1000);
        assert_eq!(l.cwnd, 19_000);
    }
    /// bbr_undo_cwnd: losses that were none say nothing of the plateau.
    #[test]
    fn linux_undo_looks_for_the_plateau_anew() {
        let mut l = law();
        (l.full_bw, l.full_bw_count) = (5e6, 2);
        l.on_congestion(Time::ZERO, &flow(), Congestion::Spurious);
        assert_eq!((l.full_bw, l.full_bw_count), (0.0, 0));
    }
    /// bbr_update_min_rtt since 5.11: an equal round trip does not renew the smallest; when that is too old any other takes its place but that
    /// of a short segment that was alone.
    #[test]
    fn linux_an_equal_round_trip_renews_nothing() {
        let mut l = law();
        l.update_rtprop(&ack(100, &sample(0)));
        l.update_rtprop(&ack(200, &sample(0)));
        assert_eq!(l.rtprop_stamp, Time::ZERO + Dur::millis(100));
        let alone = RateSample { delivered: 600, segments: 1, in_flight: 600, ..sample(0) };
        let slow = |ms, rs| AckRecord { rtt: Some(Dur::millis(60)), ..ack(ms, rs) };
        l.update_rtprop(&slow(10_200, &alone));
        assert_eq!(l.rtprop, Some(Dur::millis(20)));
        l.update_rtprop(&slow(10_300, &sample(0)));
        assert_eq!(l.rtprop, Some(Dur::millis(60)));
    }
    /// bbr_cwnd_event: pace at the estimate while nothing is known anew, and what is acknowledged in a row is counted from here.
    #[test]
    fn linux_restart_from_idle() {
        let mut l = law();
        (l.btlbw, l.filled_pipe, l.epoch) = (1e6, true, (Time::ZERO, 9000));
        l.enter(State::ProbeBw, 1.25, 2.0);
        l.on_restart(Time::ZERO + Dur::millis(7), &flow());
        assert_eq!((l.pacing, l.epoch), (990_000.0, (Time::ZERO + Dur::millis(7), 0)));
        // The end of ProbeRTT does not wait for an ACK.
        l.enter(State::ProbeRtt, 1.0, 1.0);
        (l.probe_rtt_done, l.prior_cwnd) = (Some(Time::ZERO + Dur::millis(5)), 30_000);
        l.on_restart(Time::ZERO + Dur::millis(8), &flow());
        assert_eq!((l.state, l.cwnd), (State::ProbeBw, 30_000));
    }
    /// A segment of 600 bytes is one of 1000 to a kernel, which counts segments: 4 in 20 ms.
    #[test]
    fn linux_counts_segments() {
        let mut l = law();
        l.update_btlbw(&RateSample { delivered: 3600, ..sample(0) });
        assert_eq!(l.btlbw, 200_000.0);
    }
    /// Both ends in whole microseconds: 10.9 us after 1.2 us is 9 us, and so is 10.1 us after 1.9 us; 8.2 and 9.7 us as they are.
    #[test]
    fn round_trips_are_of_whole_microseconds() {
        let at = |ns: u64| Time::ZERO + Dur::nanos(ns);
        for (sent, now) in [(1200, 10_900), (1900, 10_100)] {
            assert_eq!(in_whole_us(at(now), at(now).since(at(sent))), Dur::micros(9));
        }
    }
}
