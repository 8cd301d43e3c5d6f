//! CUBIC as in Linux (`tcp_cubic.c`, from memory) on Linux's sender. RFC 9438's equations; what its integers do differently:
//!
//! - time counts in ticks of 1/1024 s, the window in whole segments: a window grows by one segment for every `cnt` acknowledged;
//! - the curve is looked at once per tick of the kernel's clock (`rto_granularity`; 0 = time runs smoothly), and again when the window
//!   has changed or after 1/32 s. On a path shorter than a tick `cnt` so is an old one for some round trips;
//! - the origin of the curve is not moved by `cwnd_prior`: the Reno-friendly region grows by alpha throughout (no switch to 1);
//! - the target is W_cubic(t + RTT_min), with the smallest RTT and not the smoothed one; without a clamp to 1.5 cwnd per round, but
//!   at most one segment for every two acknowledged;
//! - in the first epoch without a loss the window grows by at least 5 % per round trip (`cnt` at most 20).

use super::linux::{configure, configure_ecn, LinuxWindow, Options, ECN, PACING};
use crate::registry::{Protocol, Suite};
use alloc::boxed::Box;
use alloc::sync::Arc;
use penstock_core::quantity::SSTHRESH;
use penstock_core::{
    AckRecord, Congestion, Control, FlowView, Kind, ParamSpec, Quantity, Report, Unit, WindowLaw,
};
use penstock_units::{Dur, Time};

static ORIGIN: Quantity =
    Quantity::new("origin_segments", Unit::Segments, "origin point of the cubic function");

/// CUBIC as in Linux.
pub const LINUX_CUBIC: Protocol = Protocol {
    name: "linux-cubic",
    text: "CUBIC on Linux's sender: RACK-TLP, PRR, F-RTO, undo, HyStart, integer arithmetic",
    cites: "RFC 9438, RFC 8985, RFC 9937, RFC 5682; Linux tcp_cubic.c",
    params: &[
        ECN,
        ParamSpec::new(
            "slow_start",
            Kind::Choice(&["standard", "hystart", "hystart++"]),
            "hystart",
            "when slow start ends before a loss: never, HyStart's ACK train and delay, HyStart++",
            "Linux tcp_cubic.c (hystart=1); RFC 9406",
        ),
        PACING,
        ParamSpec::new(
            "fast_convergence",
            Kind::Bool,
            "true",
            "release bandwidth to newcomers",
            "RFC 9438 section 4.7",
        ),
        ParamSpec::new(
            "friendly",
            Kind::Bool,
            "true",
            "never slower than Reno would be",
            "RFC 9438 section 4.3",
        ),
    ],
    reports: &[&SSTHRESH, &ORIGIN],
    build: |p| {
        let options = Options::of(p);
        let (fast, friendly) = (p.flag("fast_convergence"), p.flag("friendly"));
        Ok(Suite {
            configure: if p.flag("ecn") { configure_ecn } else { configure },
            endpoint: Arc::new(move |cfg, _| {
                Box::new(LinuxCubic {
                    window: LinuxWindow::new(cfg, &options),
                    curve: Curve { fast, friendly, jiffy: cfg.rto_granularity, ..Curve::default() },
                })
            }),
            ..Suite::tcp()
        })
    },
};

/// beta of the module: 717 / 1024.
const BETA: u64 = 717;
const BETA_SCALE: u64 = 1024;
/// HZ of the module's time, 2^BICTCP_HZ.
const TICKS: u64 = 1024;
/// cube_rtt_scale = bic_scale * 10: C = 41 * 10 / 2^10 / 10 segments per cubic tick, some 0.4 per cubic second.
const CUBE_SCALE: u64 = 410;
/// 2^(10 + 3 * BICTCP_HZ): the divisor of the cube.
const CUBE_SHIFT: u32 = 40;

/// `struct bictcp`, in segments and ticks.
#[derive(Clone, Copy, Debug, Default)]
struct Curve {
    fast: bool,
    friendly: bool,
    /// A tick of the kernel's clock, 1/HZ; zero = no ticks.
    jiffy: Dur,
    last_max: u64,
    last_cwnd: u64,
    last_time: Option<Time>,
    origin: u64,
    k: u64,
    epoch: Option<Time>,
    acked: u64,
    tcp_cwnd: u64,
    cnt: u64,
}

impl Curve {
    /// Whole ticks of a time: tcp_jiffies32.
    fn ticks(&self, of: Dur) -> Dur {
        if self.jiffy == Dur::ZERO {
            of
        } else {
            self.jiffy * (of.0 / self.jiffy.0)
        }
    }
    /// bictcp_update: how many segments must be acknowledged for one more.
    fn update(&mut self, now: Time, cwnd: u64, acked: u64, rtt_min: Dur) {
        self.acked += acked;
        let now = Time::ZERO + self.ticks(now.since(Time::ZERO));
        // Within HZ / 32 ticks and with the same window the answer stays.
        let short = self.ticks(Dur::micros(31_250));
        if self.last_cwnd == cwnd && self.last_time.is_some_and(|t| now.since(t) <= short) {
            return;
        }
        let same_tick = self.epoch.is_some() && self.last_time == Some(now);
        if !same_tick {
            (self.last_cwnd, self.last_time) = (cwnd, Some(now));
            self.follow(now, cwnd, acked, rtt_min);
        }
        if self.friendly {
            self.keep_up(cwnd);
        }
        self.cnt = self.cnt.max(2);
    }
    fn follow(&mut self, now: Time, cwnd: u64, acked: u64, rtt_min: Dur) {
        let epoch = *self.epoch.get_or_insert_with(|| {
            (self.acked, self.tcp_cwnd) = (acked, cwnd);
            if self.last_max <= cwnd {
                (self.k, self.origin) = (0, cwnd);
            } else {
                // RFC 9438 eq. (2): K = cubic_root((W_max - cwnd) / C), in ticks.
                let cube = ((self.last_max - cwnd) << CUBE_SHIFT) / CUBE_SCALE;
                self.k = libm::cbrt(cube as f64) as u64;
                self.origin = self.last_max;
            }
            now
        });
        // RFC 9438 eq. (1) at t + RTT_min: W_cubic = C (t - K)^3 + W_max
        let rtt = if rtt_min == Dur::MAX { Dur::ZERO } else { rtt_min };
        // usecs_to_jiffies rounds up.
        let rtt = if self.jiffy == Dur::ZERO { rtt } else { self.ticks(rtt + self.jiffy - Dur(1)) };
        let t = (now.since(epoch) + rtt).0 / (1_000_000_000_000 / TICKS);
        let off = t.abs_diff(self.k).min(1 << 20);
        let delta = (u128::from(CUBE_SCALE) * u128::from(off).pow(3)) >> CUBE_SHIFT;
        let delta = u64::try_from(delta).unwrap_or(u64::MAX / 2);
        let target =
            if t < self.k { self.origin.saturating_sub(delta) } else { self.origin.saturating_add(delta) };
        // RFC 9438 section 4.4, 4.5: (target - cwnd) / cwnd for every segment acknowledged.
        self.cnt = if target > cwnd { cwnd / (target - cwnd) } else { 100 * cwnd };
        if self.last_max == 0 {
            self.cnt = self.cnt.min(20);
        }
    }
    /// RFC 9438 section 4.3: W_est grows by alpha = 3 (1 - beta) / (1 + beta) per window.
    fn keep_up(&mut self, cwnd: u64) {
        // beta_scale = 8 (1024 + beta) / 3 / (1024 - beta): segments per segment of W_est, times 8.
        let scale = 8 * (BETA_SCALE + BETA) / 3 / (BETA_SCALE - BETA);
        let needed = ((cwnd * scale) >> 3).max(1);
        while self.acked > needed {
            self.acked -= needed;
            self.tcp_cwnd += 1;
        }
        if self.tcp_cwnd > cwnd {
            self.cnt = self.cnt.min(cwnd / (self.tcp_cwnd - cwnd));
        }
    }
    /// cubictcp_recalc_ssthresh: what a loss leaves of `cwnd`.
    fn cut(&mut self, cwnd: u64) -> u64 {
        self.epoch = None;
        // RFC 9438 section 4.7: W_max = cwnd (1 + beta) / 2 when the window had not come back.
        self.last_max = if self.fast && cwnd < self.last_max {
            cwnd * (BETA_SCALE + BETA) / (2 * BETA_SCALE)
        } else {
            cwnd
        };
        // RFC 9438 section 4.6
        cwnd * BETA / BETA_SCALE
    }
    /// bictcp_reset
    fn reset(&mut self) {
        *self = Curve { fast: self.fast, friendly: self.friendly, jiffy: self.jiffy, ..Curve::default() };
    }
}

struct LinuxCubic {
    window: LinuxWindow,
    curve: Curve,
}

impl WindowLaw for LinuxCubic {
    fn on_ack(&mut self, ack: &AckRecord<'_>, flow: &FlowView) {
        // cubictcp_cong_avoid
        let curve = &mut self.curve;
        self.window.on_ack(ack, flow, |window, acked| {
            curve.update(ack.now, window.cwnd, acked, flow.rtt_min);
            window.avoid_by(curve.cnt, acked);
        });
    }
    /// cubictcp_cwnd_event, CA_EVENT_TX_START: the curve goes on where it was (RFC 9438 section 4.2).
    fn on_idle(&mut self, now: Time, idle: Dur, _: &FlowView) {
        let now = Time::ZERO + self.curve.ticks(now.since(Time::ZERO));
        if let Some(epoch) = &mut self.curve.epoch {
            *epoch = (*epoch + idle).min(now);
        }
    }
    fn on_congestion(&mut self, _: Time, _: &FlowView, event: Congestion) {
        let left = match event {
            Congestion::Loss | Congestion::Ecn | Congestion::Timeout { in_a_row: 1, .. } => {
                self.curve.cut(self.window.cwnd)
            }
            _ => 0,
        };
        if matches!(event, Congestion::Timeout { .. }) {
            // cubictcp_state: state Loss forgets the curve.
            self.curve.reset();
        }
        self.window.reduce(event, left);
    }
    fn control(&self) -> Control {
        self.window.control()
    }
    fn pacing_percent(&self) -> u64 {
        self.window.pacing_percent()
    }
    fn observe(&self, report: &mut Report<'_>) {
        self.window.observe(report);
        report(&ORIGIN, self.curve.origin as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Dur::millis(ms)
    }

    /// A loss at 100 leaves 70. K = cbrt(30 / 0.4) = 4.2 s; the curve is back at 100 then.
    #[test]
    fn rfc9438_eq_1_and_2_the_window_before_the_loss_is_reached_after_k() {
        let mut c = Curve { fast: true, ..Curve::default() };
        assert_eq!(c.cut(100), 70);
        c.update(at(0), 70, 1, Dur::ZERO);
        assert!((c.k as f64 / 1024.0 - 4.2172).abs() < 0.01, "{}", c.k);
        // At t = 2.1 s: 100 - 0.4 * 2.1172^3 = 96.2 segments: 26 more than 70.
        c.update(at(2100), 70, 1, Dur::ZERO);
        assert_eq!(c.cnt, 70 / 26);
        // Section 4.7: a second loss before 100 is reached takes W_max to 90 * 0.85.
        assert_eq!((c.cut(90), c.last_max), (63, 76));
    }
    /// Section 4.3: at a small window Reno would be faster: alpha = 0.53 segments per window.
    #[test]
    fn rfc9438_4_3_the_window_keeps_up_with_reno() {
        let mut c = Curve { fast: true, friendly: true, ..Curve::default() };
        c.cut(10);
        let mut cwnd = LinuxWindowless(7, 0);
        for n in 0..400 {
            c.update(at(40 * n), cwnd.0, 1, Dur::ZERO);
            cwnd.ack(c.cnt);
        }
        let mut alone = Curve { fast: true, ..Curve::default() };
        alone.cut(10);
        let mut slow = LinuxWindowless(7, 0);
        for n in 0..60 {
            alone.update(at(n), slow.0, 1, Dur::ZERO);
            slow.ack(alone.cnt);
        }
        assert!(cwnd.0 > 12 && slow.0 <= 8, "{} {}", cwnd.0, slow.0);
    }
    struct LinuxWindowless(u64, u64);
    impl LinuxWindowless {
        fn ack(&mut self, needed: u64) {
            self.1 += 1;
            if self.1 >= needed {
                (self.0, self.1) = (self.0 + 1, 0);
            }
        }
    }
}
