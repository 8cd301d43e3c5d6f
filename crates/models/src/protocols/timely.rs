//! TIMELY: a rate moved by the gradient of the round-trip time (Mittal et al., SIGCOMM 2015, algorithm 1), and its patched form
//! (Zhu, Ghobadi, Misra, Padhye, "ECN or Delay", CoNEXT 2016, algorithm 2). Both read from memory.
//!
//! The packet that ends a segment of 16 KB gives an RTT sample. A new rate holds from the next packet on; the paper's
//! cards send a segment at the line rate and wait between segments. `rules=hpcc-ns3` takes a sample once in a round
//! trip.

use super::roce::{self, bps, is_ns3, join, rates, Nature, Rates};
use crate::registry::Protocol;
use alloc::boxed::Box;
use alloc::sync::Arc;
use penstock_core::quantity::RATE;
use penstock_core::{Kind, ParamSpec, Quantity, Report, Unit};
use penstock_host::rdma::{AckRecord, PairView, RateControl, RateLaw};
use penstock_units::{Rate, Time};

static GRADIENT: Quantity =
    Quantity::new("gradient", Unit::One, "smoothed change of the RTT over the smallest");

/// TIMELY.
pub const TIMELY: Protocol = Protocol {
    name: "timely",
    text: "TIMELY: a rate per queue pair that follows the gradient of its round-trip time",
    cites: "Mittal et al., SIGCOMM 2015; patched: Zhu et al., CoNEXT 2016 (from memory)",
    params: &join::<{ OWN.len() + roce::PARAMS.len() }>(OWN),
    reports: &[&RATE, &GRADIENT],
    build: |p| {
        let (ns3, patched) = (is_ns3(p), p.flag("patched"));
        if ns3 && patched {
            return Err(p.error("patched", "is not part of rules=hpcc-ns3"));
        }
        let get = |key: &str| p.is_set(key).then(|| p.rate(key).as_bps());
        let (ai, hai) = (get("rate_ai"), if ns3 { get("rate_hai") } else { None });
        let segment = if ns3 { 0 } else { p.bytes("segment").0 };
        let time = |key: &str| p.is_set(key).then(|| p.dur(key).as_secs());
        let (t_low, t_high, min_rtt) = (time("t_low"), time("t_high"), time("min_rtt"));
        if t_low.unwrap_or(T_LOW) >= t_high.unwrap_or(T_HIGH) {
            let key = if t_low.is_some() { "t_low" } else { "t_high" };
            return Err(p.error(key, "t_low must be below t_high (unset: 50us and 500us)"));
        }
        let beta = if p.is_set("beta") { p.float("beta") } else { [0.8, 0.008][usize::from(patched)] };
        let (alpha, rates) = (p.float("alpha"), rates(p));
        roce::build(
            p,
            // The time stamp of the public code.
            &Nature { extra: [0, 8], ..Nature::default() },
            Arc::new(move |facts| {
                let r = rates(facts);
                // The paper: 10 Mb/s on 10 Gb/s links.
                let ai = ai.unwrap_or(r.line / 1000.0);
                let rules = match (ns3, patched) {
                    (true, _) => Rules::Ns3 { hai: hai.unwrap_or(5.0 * ai) },
                    (_, true) => Rules::Patched,
                    _ => Rules::Paper,
                };
                // The paper's times are those of links of 10 Gb/s, 1 : 2.5 : 25. Where packets alone take longer, all grow in proportion.
                let idle = if ns3 { 0.0 } else { r.base_rtt.as_secs() };
                let min_rtt = min_rtt.unwrap_or(idle.max(MIN_RTT));
                let low = t_low.unwrap_or((idle * T_LOW / MIN_RTT).max(T_LOW));
                let high = t_high.unwrap_or((idle * T_HIGH / MIN_RTT).max(T_HIGH).max(low * 1.001));
                let s = Settings { alpha, beta, low, high, min_rtt, ai, segment, rules };
                Box::new(Timely::new(r, s))
            }),
        )
    },
};

/// Times of the paper's set-up, seconds.
const MIN_RTT: f64 = 20e-6;
const T_LOW: f64 = 50e-6;
const T_HIGH: f64 = 500e-6;

const OWN: &[ParamSpec] = &[
    ParamSpec::new("alpha", Kind::Float, "0.875", "weight of a new RTT difference", "CoNEXT 2016, table 2")
        .range(1e-6, 1.0),
    ParamSpec::new(
        "beta",
        Kind::Float,
        "",
        "factor of a decrease; unset = 0.8, 0.008 where patched",
        "section 5; CoNEXT 2016 section 4.3",
    )
    .range(1e-6, 1.0),
    ParamSpec::new(
        "t_low",
        Kind::Duration,
        "",
        "below this RTT the rate grows; unset = 50 us, or 2.5 times base_rtt where that is more (not with rules=hpcc-ns3)",
        "section 5: 50 us at 10 Gb/s",
    )
    .range(1e-9, 1.0),
    ParamSpec::new(
        "t_high",
        Kind::Duration,
        "",
        "above this RTT it falls; unset = 500 us, or 25 times base_rtt where that is more (not with rules=hpcc-ns3)",
        "section 5: 500 us at 10 Gb/s",
    )
    .range(1e-9, 1.0),
    ParamSpec::new(
        "min_rtt",
        Kind::Duration,
        "",
        "RTT that a difference is divided by (D_minRTT); unset = 20 us, or base_rtt where that is more (not with rules=hpcc-ns3)",
        "CoNEXT 2016, table 2: 20 us",
    )
    .range(1e-9, 1.0),
    ParamSpec::new(
        "rate_ai",
        Kind::Rate,
        "",
        "additive increase (delta); unset = 1/1000 of the link",
        "section 5: 10 Mb/s at 10 Gb/s",
    )
    .range(1.0, 1e12),
    ParamSpec::new(
        "rate_hai",
        Kind::Rate,
        "",
        "rules=hpcc-ns3: increase from the sixth in a row on; unset = 5 rate_ai",
        "the public scripts",
    )
    .range(1.0, 1e12),
    ParamSpec::new("segment", Kind::Size, "16KB", "bytes between two samples", "section 5").range(1.0, 1e9),
    ParamSpec::new(
        "patched",
        Kind::Bool,
        "false",
        "increase and decrease weighted by the gradient, about a reference RTT",
        "CoNEXT 2016, algorithm 2",
    ),
];

#[derive(Clone, Copy, PartialEq, Debug)]
enum Rules {
    Paper,
    Patched,
    /// The public code; with its hyper increase, bits per second.
    Ns3 {
        hai: f64,
    },
}

/// Times in seconds, rates in bits per second.
#[derive(Clone, Copy, Debug)]
struct Settings {
    alpha: f64,
    beta: f64,
    low: f64,
    high: f64,
    min_rtt: f64,
    ai: f64,
    segment: u64,
    rules: Rules,
}

/// The rate computation of one queue pair.
struct Timely {
    s: Settings,
    r: Rates,
    /// The rate that paces, and the one that the next is computed from: with the public code the latter begins at the link's.
    rate: f64,
    current: f64,
    /// prev_rtt; `None` before the first.
    before: Option<f64>,
    /// rtt_diff.
    diff: f64,
    /// Completions in a row without a decrease.
    in_a_row: u32,
    /// The next sample is that of the ACK which goes beyond this byte.
    sample_at: u64,
}

impl Timely {
    fn new(r: Rates, s: Settings) -> Timely {
        let current = if matches!(s.rules, Rules::Ns3 { .. }) { r.line } else { r.max };
        Timely { s, r, rate: r.max, current, before: None, diff: 0.0, in_a_row: 0, sample_at: s.segment }
    }
    /// A completion with this RTT.
    fn sample(&mut self, rtt: f64) {
        let s = self.s;
        let Some(before) = self.before.replace(rtt) else { return };
        // Lines 1 to 4: rtt_diff = (1 - alpha) rtt_diff + alpha (new_rtt - prev_rtt); gradient = rtt_diff / minRTT
        self.diff = (1.0 - s.alpha) * self.diff + s.alpha * (rtt - before);
        let gradient = self.diff / s.min_rtt;
        let factor = if rtt < s.low {
            None
        } else if rtt > s.high {
            // Line 9: rate (1 - beta (1 - T_high / rtt))
            Some(1.0 - s.beta * (1.0 - s.high / rtt))
        } else if s.rules == Rules::Patched {
            return self.patched(rtt, gradient);
        } else if gradient <= 0.0 {
            None
        } else {
            // Line 17: rate (1 - beta gradient)
            Some((1.0 - s.beta * gradient).max(0.0))
        };
        self.current = match factor {
            Some(factor) => {
                self.in_a_row = 0;
                (self.current * factor).max(self.r.min)
            }
            None => {
                // Line 6: rate + delta; line 14: rate + N delta, N = 5 after five completions in a row with a falling RTT
                self.in_a_row += 1;
                let step = match s.rules {
                    Rules::Ns3 { hai } if self.in_a_row > 5 => hai,
                    Rules::Paper if rtt >= s.low && self.in_a_row >= 5 => 5.0 * s.ai,
                    _ => s.ai,
                };
                (self.current + step).min(self.r.max)
            }
        };
        if s.rules == Rules::Paper && rtt < s.low {
            // Only a falling RTT counts towards hyperactive increase.
            self.in_a_row = 0;
        }
        self.rate = self.current;
    }
    /// CoNEXT 2016, algorithm 2, lines 12 to 15: w = 0 at -1/4 and below, 2 g + 1/2, 1 at 1/4 and above; error = (rtt - T_low) / T_low;
    /// rate = delta (1 - w) + rate (1 - beta w error)
    fn patched(&mut self, rtt: f64, gradient: f64) {
        let w = (2.0 * gradient + 0.5).clamp(0.0, 1.0);
        let error = (rtt - self.s.low) / self.s.low;
        let next = self.s.ai * (1.0 - w) + self.current * (1.0 - self.s.beta * w * error);
        self.current = next.clamp(self.r.min, self.r.max);
        self.rate = self.current;
        self.in_a_row = 0;
    }
}

impl RateLaw for Timely {
    fn on_ack(&mut self, ack: &AckRecord<'_>, pair: &PairView) {
        if ack.bytes == 0 {
            return;
        }
        if matches!(self.s.rules, Rules::Ns3 { .. }) {
            if pair.una <= self.sample_at {
                return;
            }
            self.sample_at = pair.nxt;
        } else {
            if pair.una < self.sample_at {
                return;
            }
            self.sample_at = (pair.una / self.s.segment + 1) * self.s.segment;
        }
        self.sample(ack.rtt.as_secs());
    }
    fn on_line_rate(&mut self, _: Time, line: Rate) {
        let was = self.r.set_line(line);
        self.current = self.r.follow(self.current, was);
        self.rate = self.r.follow(self.rate, was);
    }
    fn control(&self) -> RateControl {
        RateControl { rate: bps(self.rate), window: None }
    }
    fn observe(&self, report: &mut Report<'_>) {
        report(&GRADIENT, self.diff / self.s.min_rtt);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_units::Dur;

    const RATES: Rates = Rates { line: 10e9, max: 10e9, min: 10e6, base_rtt: Dur(0), asked: None };
    const PAPER: Settings = Settings {
        alpha: 0.875,
        beta: 0.8,
        low: 50e-6,
        high: 500e-6,
        min_rtt: 20e-6,
        ai: 10e6,
        segment: 16_000,
        rules: Rules::Paper,
    };
    fn law(rules: Rules) -> Timely {
        let beta = if rules == Rules::Patched { 0.008 } else { 0.8 };
        let mut law = Timely::new(RATES, Settings { rules, beta, ..PAPER });
        law.current = 1e9;
        law
    }
    fn near(a: f64, b: f64) -> bool {
        (a / b - 1.0).abs() < 1e-9
    }

    #[test]
    fn algorithm_1_by_its_four_branches() {
        let mut law = law(Rules::Paper);
        law.sample(100e-6);
        assert_eq!(law.current, 1e9, "one RTT has no gradient");
        // 104 us: diff = 0.875 x 4 = 3.5 us, gradient 0.175: 1e9 (1 - 0.14) = 860 Mb/s.
        law.sample(104e-6);
        assert!(near(law.current, 860e6), "{}", law.current);
        // 103.5 us: diff = 0.4375 - 0.4375 = 0: additive increase.
        law.sample(103.5e-6);
        assert!(law.diff.abs() < 1e-18 && near(law.current, 870e6), "{}", law.current);
        // Below T_low whatever the gradient: +10 Mb/s.
        law.sample(20e-6);
        law.sample(49e-6);
        assert!(law.diff > 0.0 && near(law.current, 890e6), "{}", law.current);
        // Above T_high: 890 (1 - 0.8 (1 - 500/1000)) = 534 Mb/s.
        law.sample(1000e-6);
        assert!(near(law.current, 534e6), "{}", law.current);
    }
    #[test]
    fn hyperactive_increase_after_five_falling_rtts() {
        let mut law = law(Rules::Paper);
        law.sample(200e-6);
        for (n, rate) in [(1u32, 1.01e9), (2, 1.02e9), (3, 1.03e9), (4, 1.04e9), (5, 1.09e9), (6, 1.14e9)] {
            law.sample(200e-6 - f64::from(n) * 1e-6);
            assert!(near(law.current, rate), "{n}: {}", law.current);
        }
        // The public code counts increases below T_low too, and begins with the sixth.
        let mut law = law_ns3();
        law.sample(30e-6);
        for rate in [1.01e9, 1.02e9, 1.03e9, 1.04e9, 1.05e9, 1.10e9] {
            law.sample(30e-6);
            assert!(near(law.current, rate), "{}", law.current);
        }
    }
    fn law_ns3() -> Timely {
        law(Rules::Ns3 { hai: 50e6 })
    }
    #[test]
    fn algorithm_2_weighs_increase_and_decrease() {
        let mut law = law(Rules::Patched);
        law.sample(100e-6);
        // A steady RTT: gradient 0, w = 1/2, error 1: 5 Mb/s + 1e9 (1 - 0.004) = 1.001 Gb/s.
        law.sample(100e-6);
        assert!(near(law.current, 1.001e9), "{}", law.current);
        // A steep rise: w = 1: no increase, 1.001e9 (1 - 0.008 x (110 - 50)/50).
        law.sample(110e-6);
        assert!(near(law.current, 1.001e9 * (1.0 - 0.0096)), "{}", law.current);
        // A steep fall: w = 0: 10 Mb/s.
        let before = law.current;
        law.sample(60e-6);
        assert!(near(law.current, before + 10e6), "{}", law.current);
    }
    #[test]
    fn samples_come_once_per_segment_or_once_per_round_trip() {
        let ack = |law: &mut Timely, una: u64, nxt: u64| {
            let ack = AckRecord {
                now: Time(0),
                bytes: 1000,
                rtt: Dur::micros(10),
                endpoint: Dur::ZERO,
                ece: false,
                telemetry: &[],
            };
            law.on_ack(&ack, &PairView { una, nxt, max_sent: nxt });
            law.in_a_row
        };
        // Below T_low nothing counts towards hyperactive increase, but the rate tells.
        let mut paper = law(Rules::Paper);
        for una in [1000, 15_000, 16_000, 17_000, 31_999, 33_000] {
            ack(&mut paper, una, 64_000);
        }
        assert_eq!((paper.current, paper.sample_at), (1.01e9, 48_000));
        let mut ns3 = Timely::new(RATES, Settings { rules: Rules::Ns3 { hai: 50e6 }, segment: 0, ..PAPER });
        assert_eq!(ack(&mut ns3, 1000, 50_000), 0, "the first is only written down");
        assert_eq!((ack(&mut ns3, 50_000, 90_000), ack(&mut ns3, 51_000, 95_000)), (0, 1));
        assert_eq!(ack(&mut ns3, 95_000, 95_000), 1);
    }
}
