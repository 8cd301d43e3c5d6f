//! What Linux's window laws have in common: a window in whole segments, its growth, what a reduction leaves and what an undo gives
//! back, HyStart, pacing; and `linux-reno`, which is nothing but that.
//!
//! By the RFCs where one is cited; the integer arithmetic is Linux's (`tcp_cong.c`, `tcp_input.c`, `tcp_cubic.c`, from memory). The
//! sender round it is that of [`Personality::Linux`]: RACK-TLP, PRR, F-RTO, undo.

use crate::registry::{Protocol, Suite};
use alloc::boxed::Box;
use alloc::sync::Arc;
use penstock_core::quantity::SSTHRESH;
use penstock_core::tcp::{EcnMode, LossRecovery, Personality, TcpConfig};
use penstock_core::{
    AckRecord, Congestion, Control, FlowView, Kind, Limit, ParamSpec, Params, Report, WindowLaw,
};
use penstock_units::{Bytes, Dur, Rate, Time};

/// Parameter of every one of these laws: classic ECN.
pub const ECN: ParamSpec = ParamSpec::new(
    "ecn",
    Kind::Bool,
    "false",
    "react to congestion marks as to a loss",
    "RFC 3168 section 6.1",
);
/// Parameter of every one of these laws: internal pacing.
pub const PACING: ParamSpec = ParamSpec::new(
    "pacing",
    Kind::Bool,
    "false",
    "spread the segments of a window, as with the fq queue discipline",
    "Linux tcp_update_pacing_rate; off there without fq or SO_MAX_PACING_RATE",
);
/// Parameter of every one of these laws: how slow start ends.
pub const SLOW_START: ParamSpec = ParamSpec::new(
    "slow_start",
    Kind::Choice(&["standard", "hystart", "hystart++"]),
    "standard",
    "when slow start ends before a loss: never, HyStart's ACK train and delay, HyStart++",
    "RFC 5681; Ha and Rhee 2008, Linux tcp_cubic.c; RFC 9406",
);

/// Reno as in Linux.
pub const LINUX_RENO: Protocol = Protocol {
    name: "linux-reno",
    text: "Reno on Linux's sender: RACK-TLP, PRR, F-RTO, undo, delayed ACKs, timeout",
    cites: "RFC 5681, RFC 8985, RFC 9937, RFC 5682; Linux tcp_cong.c",
    params: &[ECN, SLOW_START, PACING],
    reports: &[&SSTHRESH],
    build: |p| {
        let options = Options::of(p);
        Ok(Suite {
            configure: if p.flag("ecn") { configure_ecn } else { configure },
            endpoint: Arc::new(move |cfg, _| Box::new(LinuxReno { window: LinuxWindow::new(cfg, &options) })),
            ..Suite::tcp()
        })
    },
};

/// Linux's sender.
pub fn configure(c: &mut TcpConfig) {
    c.recovery = LossRecovery::Sack;
    c.personality = Personality::Linux;
    // A loss is answered from the window, not from the flight (tcp_reno_ssthresh), and growth counts what is acknowledged.
    c.ssthresh_from_cwnd = true;
    c.byte_counting = true;
    c.window_validation = true;
}
/// Configures a connection as Linux does by default, with classic ECN.
pub fn configure_ecn(c: &mut TcpConfig) {
    configure(c);
    c.ecn = EcnMode::Classic;
}

/// What a user chooses for any of these laws.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    slow_start: Rule,
    pacing: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rule {
    Standard,
    Classic,
    PlusPlus,
}

impl Options {
    /// As the parameters say.
    pub fn of(p: &Params) -> Options {
        Options {
            slow_start: match p.text("slow_start") {
                "hystart" => Rule::Classic,
                "hystart++" => Rule::PlusPlus,
                _ => Rule::Standard,
            },
            pacing: p.flag("pacing"),
        }
    }
}

/// snd_cwnd, snd_cwnd_cnt, snd_ssthresh and what an undo gives back, in segments.
#[derive(Clone, Debug)]
pub struct LinuxWindow {
    /// Window.
    pub cwnd: u64,
    /// ssthresh; `u64::MAX` before the first reduction.
    pub ssthresh: u64,
    /// Segments acknowledged towards the next whole segment of window.
    count: u64,
    prior: (u64, u64),
    initial: u64,
    segment: u64,
    /// is_cwnd_limited, max_packets_out and cwnd_usage_seq: whether the window was used up in this round trip, else the most
    /// segments that were out in it, and its end.
    used_up: bool,
    most_out: u64,
    usage_end: u64,
    /// SND.NXT when that was looked at last, and the window that what has left since was sent by.
    looked_at: u64,
    offered: u64,
    smoothed: Dur,
    pacing: bool,
    /// Segments leave together (segmentation offload).
    bursts: bool,
    headers: u64,
    slow_start: SlowStart,
}

impl LinuxWindow {
    /// The initial window of `cfg`.
    pub fn new(cfg: &TcpConfig, options: &Options) -> LinuxWindow {
        LinuxWindow {
            cwnd: u64::from(cfg.initial_window),
            ssthresh: u64::MAX,
            count: 0,
            prior: (0, 0),
            initial: u64::from(cfg.initial_window),
            segment: u64::from(cfg.mss),
            used_up: false,
            most_out: 0,
            usage_end: 0,
            looked_at: 0,
            offered: u64::from(cfg.initial_window),
            smoothed: Dur::ZERO,
            pacing: options.pacing,
            bursts: cfg.gso > 1,
            headers: u64::from(cfg.header_len()),
            slow_start: SlowStart::new(options.slow_start),
        }
    }
    /// A window with standard slow start and without pacing.
    pub fn standard(cfg: &TcpConfig) -> LinuxWindow {
        LinuxWindow::new(cfg, &Options { slow_start: Rule::Standard, pacing: false })
    }
    /// True in slow start.
    pub fn opens(&self) -> bool {
        self.cwnd < self.ssthresh
    }
    /// An ACK: slow start, then `avoid` with the segments that it leaves.
    pub fn on_ack(
        &mut self,
        ack: &AckRecord<'_>,
        flow: &FlowView,
        avoid: impl FnOnce(&mut LinuxWindow, u64),
    ) {
        let mut acked = self.countable(ack, flow);
        if acked > 0 && self.opens() {
            acked = self.slow_start(acked, ack, flow);
        }
        if acked > 0 {
            avoid(self, acked);
        }
        self.offered = self.cwnd;
    }
    /// tcp_reno_cong_avoid: a segment more for every window acknowledged.
    pub fn reno(&mut self, ack: &AckRecord<'_>, flow: &FlowView) {
        self.on_ack(ack, flow, |window, acked| window.avoid_by(window.cwnd, acked));
    }
    /// The segments an ACK acknowledges that may make the window grow; 0 when it may not.
    fn countable(&mut self, ack: &AckRecord<'_>, flow: &FlowView) -> u64 {
        self.smoothed = flow.rtt_smoothed;
        self.note_usage(ack, flow);
        if !ack.may_grow(flow) || ack.ece {
            return 0;
        }
        // tcp_is_cwnd_limited: in slow start the window may grow to twice of what was out.
        if !(self.used_up || self.opens() && self.cwnd < 2 * self.most_out) {
            return 0;
        }
        ack.segments
    }
    /// tcp_cwnd_validate (RFC 7661 in spirit): what of the window was in use before this ACK. Linux looks when it has sent something new or would
    /// have (tcp_write_xmit); what is acknowledged while the application has nothing more counts as what was sent last did.
    fn note_usage(&mut self, ack: &AckRecord<'_>, flow: &FlowView) {
        let out = ack.flight_before.div_ceil(self.segment);
        // What pacing holds back is no use of the window (tcp_write_xmit; a kernel over veth shows it, tests/tcp/offload.rs). Single segments
        // count it as one all the same: it changes a paced flow's goodput by 1e-5, and their results are kept as they are.
        let paced = ack.limit == Limit::Pacing && !self.bursts;
        let held = (ack.limit == Limit::Window || paced) && flow.nxt < flow.app_end;
        if flow.nxt == self.looked_at && !held {
            return;
        }
        self.looked_at = flow.nxt;
        // By the window of then: a loss that this very ACK shows has reduced it by now.
        let limited = held || out >= self.offered;
        let una = flow.una - ack.acked;
        if una >= self.usage_end || limited || !self.used_up && out > self.most_out {
            (self.used_up, self.most_out, self.usage_end) = (limited, out, flow.nxt);
        }
    }
    /// Slow start; what of `acked` is left when it ends.
    fn slow_start(&mut self, acked: u64, ack: &AckRecord<'_>, flow: &FlowView) -> u64 {
        match self.slow_start.on_ack(self.cwnd, ack, flow) {
            Pace::Full => {}
            // RFC 9406 section 4.2: in conservative slow start cwnd += N / CSS_GROWTH_DIVISOR
            Pace::Quarter => {
                self.avoid_by(4, acked);
                return 0;
            }
            Pace::Over => {
                self.ssthresh = self.cwnd;
                return acked;
            }
        }
        // tcp_slow_start: cwnd = min(cwnd + acked, ssthresh)
        let cwnd = (self.cwnd + acked).min(self.ssthresh);
        let left = acked - (cwnd - self.cwnd);
        self.cwnd = cwnd;
        left
    }
    /// tcp_cong_avoid_ai: a segment more for every `needed` segments acknowledged.
    pub fn avoid_by(&mut self, needed: u64, acked: u64) {
        let needed = needed.max(1);
        if self.count >= needed {
            self.count = 0;
            self.cwnd += 1;
        }
        self.count += acked;
        self.cwnd += self.count / needed;
        self.count %= needed;
    }
    /// Segments acknowledged towards the next one of the window.
    pub fn count(&self) -> u64 {
        self.count
    }
    /// A reduction to `left` segments, `count` of them acknowledged towards the next.
    pub fn cut_to(&mut self, left: u64, count: u64) {
        self.prior = (self.cwnd, self.ssthresh);
        (self.cwnd, self.ssthresh, self.count) = (left, left, count);
    }
    /// A reduction to `left` segments: after a timeout the window is one segment (RFC 5681 section 3.1) more than is in flight, else it goes to ssthresh,
    /// over which the recovery spreads it (RFC 9937).
    pub fn reduce(&mut self, event: Congestion, left: u64) {
        match event {
            Congestion::Loss | Congestion::Ecn => {
                self.prior = (self.cwnd, self.ssthresh);
                self.ssthresh = left.max(2);
                self.cwnd = self.ssthresh;
                self.count = 0;
            }
            Congestion::Timeout { in_a_row, kept } => {
                if in_a_row == 1 {
                    self.prior = (self.cwnd, self.ssthresh);
                    self.ssthresh = left.max(2);
                }
                // tcp_enter_loss
                self.cwnd = kept.div_ceil(self.segment) + 1;
                self.count = 0;
                self.slow_start.reset();
            }
            Congestion::SynLost => self.cwnd = 1,
            // tcp_end_cwnd_reduction
            Congestion::Recovered => self.cwnd = self.ssthresh,
            // tcp_cwnd_restart: ssthresh remembers three quarters of the window (tcp_current_ssthresh), which is halved for each
            // timeout that has passed, down to the restart window (RFC 5681 section 4.1). What has been acknowledged towards the next segment
            // (snd_cwnd_cnt) is kept.
            Congestion::Idle => {
                self.ssthresh = self.ssthresh.max(self.cwnd / 2 + self.cwnd / 4);
                if self.cwnd > self.initial {
                    self.cwnd = (self.cwnd / 2).max(self.initial);
                }
            }
            // tcp_undo_cwnd_reduction, tcp_reno_undo_cwnd.
            Congestion::Spurious => {
                self.cwnd = self.cwnd.max(self.prior.0);
                self.ssthresh = self.ssthresh.max(self.prior.1);
            }
        }
        if matches!(event, Congestion::Timeout { .. } | Congestion::SynLost | Congestion::Idle) {
            // No ACK comes with these.
            self.offered = self.cwnd;
        }
    }
    /// As the connection wants it.
    pub fn control(&self) -> Control {
        Control { window: Some(Bytes(self.cwnd * self.segment)), pacing: self.pacing_rate(), segment: None }
    }
    /// tcp_update_pacing_rate: 200 % of the window per SRTT below half of ssthresh, 120 % above.
    fn pacing_rate(&self) -> Option<Rate> {
        if !self.pacing || self.smoothed == Dur::ZERO {
            return None;
        }
        let wire = self.cwnd * (self.segment + self.headers);
        Some(Bytes(wire * self.pacing_percent() / 100) / self.smoothed)
    }
    /// The percentage of `pacing_rate`.
    pub fn pacing_percent(&self) -> u64 {
        if self.cwnd < self.ssthresh / 2 {
            200
        } else {
            120
        }
    }
    /// Reports ssthresh.
    pub fn observe(&self, report: &mut Report<'_>) {
        let bytes =
            if self.ssthresh == u64::MAX { f64::INFINITY } else { (self.ssthresh * self.segment) as f64 };
        report(&SSTHRESH, bytes);
    }
}

/// How fast slow start goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pace {
    Full,
    Quarter,
    Over,
}

/// Classic HyStart (Linux's `tcp_cubic.c`) and HyStart++ (RFC 9406): slow start ends when the RTT of a round rises.
#[derive(Clone, Debug)]
struct SlowStart {
    rule: Rule,
    /// The round ends when this is acknowledged.
    end: u64,
    /// Smallest RTT of this round and the one before, and samples of this one.
    current: Dur,
    last: Dur,
    samples: u32,
    /// HyStart: when the round began, and when the latest ACK of its train came.
    began: Time,
    train: Time,
    /// HyStart++: the RTT that conservative slow start began with, and its rounds so far; `None` outside of it.
    conservative: Option<(Dur, u32)>,
    over: bool,
}

/// HYSTART_LOW_WINDOW of Linux.
const LOW_WINDOW: u64 = 16;
/// HYSTART_MIN_SAMPLES of Linux; N_RTT_SAMPLE of RFC 9406 section 4.3.
const SAMPLES: u32 = 8;
/// HYSTART_ACK_DELTA of Linux: ACKs closer than this are a train.
const TRAIN_GAP: Dur = Dur::millis(2);
/// CSS_ROUNDS of RFC 9406 section 4.3.
const ROUNDS: u32 = 5;

impl SlowStart {
    fn new(rule: Rule) -> SlowStart {
        SlowStart {
            rule,
            end: 0,
            current: Dur::MAX,
            last: Dur::MAX,
            samples: 0,
            began: Time::ZERO,
            train: Time::ZERO,
            conservative: None,
            over: false,
        }
    }
    fn reset(&mut self) {
        *self = SlowStart::new(self.rule);
    }
    fn on_ack(&mut self, cwnd: u64, ack: &AckRecord<'_>, flow: &FlowView) -> Pace {
        // RFC 9406 section 4.2: HyStart++ is for the initial slow start only; after it, the standard's.
        if self.rule == Rule::Standard || self.over {
            return Pace::Full;
        }
        if flow.una > self.end {
            self.end = flow.nxt;
            self.last = core::mem::replace(&mut self.current, Dur::MAX);
            self.samples = 0;
            (self.began, self.train) = (ack.now, ack.now);
            if let Some((_, rounds)) = &mut self.conservative {
                *rounds += 1;
                self.over = *rounds >= ROUNDS;
            }
        }
        if let Some(rtt) = ack.rtt {
            self.current = self.current.min(rtt);
            self.samples += 1;
        }
        self.over |= match self.rule {
            Rule::Classic => cwnd >= LOW_WINDOW && self.classic(ack, flow),
            _ => self.plus_plus(),
        };
        match (self.over, self.conservative) {
            (true, _) => Pace::Over,
            (_, Some(_)) => Pace::Quarter,
            _ => Pace::Full,
        }
    }
    /// hystart_update: the train of closely spaced ACKs is as long as half of the smallest RTT, or the round's RTT is above it by an
    /// eighth, 4 to 16 ms.
    fn classic(&mut self, ack: &AckRecord<'_>, flow: &FlowView) -> bool {
        if flow.rtt_min == Dur::MAX {
            return false;
        }
        if ack.now.since(self.train) <= TRAIN_GAP {
            self.train = ack.now;
            if ack.now.since(self.began) > flow.rtt_min / 2 {
                return true;
            }
        }
        let eta = (flow.rtt_min / 8).clamp(Dur::millis(4), Dur::millis(16));
        self.samples >= SAMPLES && self.current > flow.rtt_min + eta
    }
    /// RFC 9406 section 4.2; the answer ends slow start at once, which only the rounds of conservative slow start do.
    fn plus_plus(&mut self) -> bool {
        if self.samples < SAMPLES || self.current == Dur::MAX {
            return false;
        }
        match self.conservative {
            // "if currentRoundMinRTT < cssBaselineMinRtt": the exit was spurious, back to slow start.
            Some((baseline, _)) if self.current < baseline => self.conservative = None,
            None if self.last != Dur::MAX => {
                // RttThresh = max(MIN_RTT_THRESH, min(lastRoundMinRTT / MIN_RTT_DIVISOR, MAX_RTT_THRESH))
                let thresh = (self.last / 8).clamp(Dur::millis(4), Dur::millis(16));
                if self.current >= self.last + thresh {
                    self.conservative = Some((self.current, 0));
                }
            }
            _ => {}
        }
        false
    }
}

struct LinuxReno {
    window: LinuxWindow,
}

impl WindowLaw for LinuxReno {
    fn on_ack(&mut self, ack: &AckRecord<'_>, flow: &FlowView) {
        self.window.reno(ack, flow);
    }
    fn on_congestion(&mut self, _: Time, _: &FlowView, event: Congestion) {
        // tcp_reno_ssthresh: RFC 5681 eq. (4) with cwnd instead of FlightSize.
        self.window.reduce(event, self.window.cwnd / 2);
    }
    fn control(&self) -> Control {
        self.window.control()
    }
    fn pacing_percent(&self) -> u64 {
        self.window.pacing_percent()
    }
    fn observe(&self, report: &mut Report<'_>) {
        self.window.observe(report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_core::CcHeader;

    fn flow() -> FlowView {
        FlowView { rtt_smoothed: Dur::millis(10), rtt_min: Dur::millis(10), ..FlowView::plain(1000) }
    }
    fn window(slow_start: Rule) -> LinuxWindow {
        let cfg = TcpConfig { mss: 1000, ..TcpConfig::default() };
        LinuxWindow::new(&cfg, &Options { slow_start, pacing: true })
    }
    fn ack(now: Dur, rtt: Dur) -> AckRecord<'static> {
        AckRecord { rtt: Some(rtt), ..AckRecord::plain(Time::ZERO + now, 1000, &CcHeader::NONE) }
    }

    /// A segment more for every window of segments acknowledged, and none before that.
    #[test]
    fn congestion_avoidance_counts_whole_segments() {
        let mut w = LinuxWindow { ssthresh: 10, ..window(Rule::Standard) };
        (0..9).for_each(|_| w.avoid_by(10, 1));
        assert_eq!(w.cwnd, 10);
        w.avoid_by(10, 1);
        assert_eq!(w.cwnd, 11);
        // Slow start stops at ssthresh; what is left counts for congestion avoidance.
        let mut w = LinuxWindow { ssthresh: 12, ..window(Rule::Standard) };
        assert_eq!((w.slow_start(5, &ack(Dur::ZERO, Dur::millis(10)), &flow()), w.cwnd), (3, 12));
    }
    /// Idle for three timeouts: 40, 20, 10; ssthresh 30 keeps what was known. An undo gives both back.
    #[test]
    fn idle_time_halves_and_an_undo_restores() {
        let mut w = LinuxWindow { cwnd: 40, ssthresh: 20, ..window(Rule::Standard) };
        (0..3).for_each(|_| w.reduce(Congestion::Idle, 0));
        assert_eq!((w.cwnd, w.ssthresh), (10, 30));
        let mut w = LinuxWindow { cwnd: 40, ssthresh: 50, ..window(Rule::Standard) };
        w.reduce(Congestion::Timeout { in_a_row: 1, kept: 0 }, 20);
        w.reduce(Congestion::Timeout { in_a_row: 2, kept: 0 }, 20);
        assert_eq!((w.cwnd, w.ssthresh), (1, 20));
        w.reduce(Congestion::Spurious, 0);
        assert_eq!((w.cwnd, w.ssthresh), (40, 50));
    }
    /// RFC 9406 section 4.2: conservative slow start begins with a round whose smallest of 8 samples is 4 ms above the
    /// last round's. It has a quarter of the growth, and after 5 of its rounds slow start is over.
    #[test]
    fn rfc9406_4_2_a_rising_rtt_slows_down_and_then_ends_slow_start() {
        let mut w = window(Rule::PlusPlus);
        let mut f = flow();
        let mut at = Dur::ZERO;
        let mut grown = vec::Vec::new();
        for (round, rtt) in [10, 10, 15, 15, 15, 15, 15, 15].into_iter().enumerate() {
            let before = w.cwnd;
            for _ in 0..16 {
                f.una += 1000;
                f.nxt = 16_000 * (round as u64 + 1);
                at += Dur::micros(100);
                if w.opens() {
                    w.slow_start(1, &ack(at, Dur::millis(rtt)), &f);
                }
            }
            grown.push(w.cwnd - before);
        }
        // The third round grows by 7 before its 8th sample and by 9 / 4 behind it.
        assert_eq!(grown, [16, 16, 9, 4, 4, 4, 4, 0], "{}", w.ssthresh);
        assert!(!w.opens());
    }
    /// tcp_update_pacing_rate: 10 segments of 1040 B per 10 ms, twice that in early slow start.
    #[test]
    fn pacing_spreads_a_window_over_a_round_trip() {
        let mut w = LinuxWindow { smoothed: Dur::millis(10), ..window(Rule::Standard) };
        assert_eq!(w.control().pacing, Some(Rate(2 * 8_320_000)));
        w.ssthresh = 12;
        assert_eq!(w.control().pacing, Some(Rate(9_984_000)));
    }
    use alloc::vec;
}
