//! DCQCN: a rate per queue pair, cut by congestion notification packets, raised by a timer and a byte counter (Zhu et
//! al., SIGCOMM 2015; read from memory). The queue pairs themselves are [`penstock_host::rdma`].
//!
//! `Dcqcn` is the paper's reaction point, `Sampled` that of the HPCC group's ns-3 (`rules=hpcc-ns3`): no CNPs but marks on every
//! ACK, alpha and cuts sampled by timers, no byte counter.

use super::roce::{self, bps, is_ns3, join, rates, Marks, Nature, Rates};
use crate::registry::Protocol;
use alloc::boxed::Box;
use alloc::sync::Arc;
use penstock_core::quantity::{ALPHA, RATE};
use penstock_core::{Kind, ParamSpec, Quantity, Report, Unit};
use penstock_host::rdma::{AckRecord, LawFacts, PairView, RateControl, RateLaw};
use penstock_units::{Dur, Rate, Time};

static TARGET_RATE: Quantity =
    Quantity::new("target_rate_bps", Unit::BitsPerSecond, "rate that the increase of a sender aims at");

/// DCQCN.
pub const DCQCN: Protocol = Protocol {
    name: "dcqcn",
    text: "DCQCN: RDMA with go-back-N, a rate per queue pair cut by congestion \
             notifications; lossless by pause frames",
    cites: "Zhu et al., SIGCOMM 2015 (from memory)",
    params: &join::<{ OWN.len() + roce::PARAMS.len() }>(OWN),
    reports: &[&RATE, &ALPHA, &TARGET_RATE],
    build: |p| {
        let ns3 = is_ns3(p);
        let dur = |key: &str, usual: [u64; 2]| match p.is_set(key) {
            true => p.dur(key),
            false => Dur::micros(usual[usize::from(ns3)]),
        };
        let get = |key: &str| p.is_set(key).then(|| p.rate(key).as_bps());
        let (ai, hai) = (get("rate_ai"), get("rate_hai"));
        let fast_recovery = if p.is_set("fast_recovery") {
            p.count("fast_recovery") as u32
        } else {
            [5, 1][usize::from(ns3)]
        };
        let (g, timer, alpha_timer) = (p.float("g"), dur("timer", [55, 300]), dur("alpha_timer", [55, 1]));
        let rates = rates(p);
        // Section 3.1: 40 Mb/s at 40 Gb/s; the public scripts: 5 and 50 Mb/s at 25 Gb/s.
        let of_line = if ns3 { (5e3, 500.0) } else { (1e3, 200.0) };
        let settings = move |facts: &LawFacts| {
            let r = rates(facts);
            let (ai, hai) = (ai.unwrap_or(r.line / of_line.0), hai.unwrap_or(r.line / of_line.1));
            (r, Settings { g, alpha_timer, timer, fast_recovery, ai, hai })
        };
        let nature = Nature { marks: MARKS, ..Nature::default() };
        if ns3 {
            let (cut_timer, clamp) = (p.dur("cut_timer"), p.flag("clamp_target"));
            return roce::build(
                p,
                &nature,
                Arc::new(move |facts| {
                    let (rates, s) = settings(facts);
                    Box::new(Sampled::new(rates, s, cut_timer, clamp))
                }),
            );
        }
        let cnp_interval = p.dur("cnp_interval");
        if alpha_timer <= cnp_interval {
            return Err(p.error(
                "alpha_timer",
                "must be above cnp_interval, or alpha decays between CNPs that come on time",
            ));
        }
        let byte_counter = p.bytes("byte_counter").0;
        roce::build(
            p,
            &Nature { cnp: Some(cnp_interval), ..nature },
            Arc::new(move |facts| {
                let (rates, s) = settings(facts);
                Box::new(Dcqcn::new(rates, s, byte_counter))
            }),
        )
    },
};

const OWN: &[ParamSpec] = &[
    ParamSpec::new("g", Kind::Float, "0.00390625", "gain of alpha", "section 5.2: 1/256").range(1e-6, 1.0),
    ParamSpec::new(
        "cnp_interval",
        Kind::Duration,
        "50us",
        "a receiver sends at most one CNP per queue pair in this time",
        "section 3.1",
    )
    .range(1e-7, 1.0),
    ParamSpec::new(
        "alpha_timer",
        Kind::Duration,
        "",
        "alpha decays after this time without a CNP; must be above cnp_interval; unset = 55us, 1us with rules=hpcc-ns3",
        "section 3.1; the public scripts",
    )
    .range(1e-7, 1.0),
    ParamSpec::new(
        "cut_timer",
        Kind::Duration,
        "4us",
        "rules=hpcc-ns3: at most one cut in this time",
        "the public scripts; 50us in their dcqcn_paper",
    )
    .range(1e-7, 1.0),
    ParamSpec::new(
        "clamp_target",
        Kind::Bool,
        "false",
        "rules=hpcc-ns3: a cut lowers the target, too, even without an increase since the last cut",
        "the public scripts",
    ),
    ParamSpec::new(
        "timer",
        Kind::Duration,
        "",
        "period of the rate increase timer; unset = 55us, 300us with rules=hpcc-ns3",
        "section 5.2; the public scripts",
    )
    .range(1e-7, 10.0),
    ParamSpec::new(
        "byte_counter",
        Kind::Size,
        "10MB",
        "bytes sent from one rate increase to the next",
        "section 5.2",
    )
    .range(1e3, 1e12),
    ParamSpec::new(
        "fast_recovery",
        Kind::Count,
        "",
        "increases of a counter before additive increase (F); unset = 5, 1 with rules=hpcc-ns3",
        "section 3.1; the public scripts",
    )
    .range(1.0, 1000.0),
    ParamSpec::new(
        "rate_ai",
        Kind::Rate,
        "",
        "additive increase; unset = 1/1000 of the link, 1/5000 with rules=hpcc-ns3",
        "section 3.1: 40 Mb/s at 40 Gb/s; the public scripts: 5 Mb/s at 25 Gb/s",
    )
    .range(1.0, 1e12),
    ParamSpec::new(
        "rate_hai",
        Kind::Rate,
        "",
        "hyper increase; unset = 1/200 of the link, 1/500 with rules=hpcc-ns3",
        "the authors' simulator: 200 Mb/s at 40 Gb/s; the public scripts: 50 Mb/s at 25 Gb/s",
    )
    .range(1.0, 1e12),
    ParamSpec::new("cnp", Kind::Size, "60", "a CNP", "RoCEv2 annex A17: an ACK and 16 reserved")
        .range(20.0, 1000.0),
];

/// Section 5.2: 5 and 200 KB, 1 %, at 40 Gb/s; the public scripts: 100 and 400 kB, 20 %, at 25 Gb/s.
const MARKS: [Option<Marks>; 2] = [
    Some(Marks { kmin: 5e3, kmax: 200e3, pmax: 0.01, rate: 40e9 }),
    Some(Marks { kmin: 100e3, kmax: 400e3, pmax: 0.2, rate: 25e9 }),
];

#[derive(Clone, Copy, Debug)]
struct Settings {
    g: f64,
    alpha_timer: Dur,
    timer: Dur,
    fast_recovery: u32,
    /// R_AI and R_HAI, bits per second.
    ai: f64,
    hai: f64,
}

/// The reaction point of one queue pair.
struct Dcqcn {
    s: Settings,
    r: Rates,
    byte_counter: u64,
    /// R_C and R_T, bits per second.
    current: f64,
    target: f64,
    alpha: f64,
    /// When alpha was last brought up to date: the latest CNP, or a whole number of alpha timers after it.
    alpha_at: Time,
    /// The first CNP has come: before it, the rate is that of the link and nothing runs.
    reacting: bool,
    /// Increases since the latest cut, by timer and by byte counter (T and BC).
    by_timer: u32,
    by_bytes: u32,
    timer_at: Time,
    sent: u64,
}

impl Dcqcn {
    fn new(r: Rates, s: Settings, byte_counter: u64) -> Dcqcn {
        Dcqcn {
            s,
            r,
            byte_counter,
            current: r.max,
            target: r.max,
            alpha: 1.0,
            alpha_at: Time::ZERO,
            reacting: false,
            by_timer: 0,
            by_bytes: 0,
            timer_at: Time::NEVER,
            sent: 0,
        }
    }
    /// Equation 2: alpha <- (1 - g) alpha whenever no CNP came for an alpha timer. Nothing reads alpha between CNPs, so
    /// it is done for all periods that have passed when it is asked for.
    fn alpha_now(&self, now: Time) -> (f64, Time) {
        if !self.reacting {
            return (self.alpha, now);
        }
        let periods = now.since(self.alpha_at).0 / self.s.alpha_timer.0;
        let alpha = self.alpha * libm::pow(1.0 - self.s.g, periods as f64);
        (alpha, self.alpha_at + self.s.alpha_timer * periods)
    }
    /// Figure 7: fast recovery, additive increase or hyper increase. T and BC count this increase too, so that F of them are
    /// fast recovery.
    fn increase(&mut self) {
        let (most, least) = (self.by_timer.max(self.by_bytes), self.by_timer.min(self.by_bytes));
        // Equation 3 is what all three end with: R_C <- (R_T + R_C) / 2. Before it, equation 4: R_T <- R_T + R_AI.
        if least > self.s.fast_recovery {
            self.target += self.s.hai;
        } else if most > self.s.fast_recovery {
            self.target += self.s.ai;
        }
        self.target = self.target.min(self.r.max);
        self.current = (self.target + self.current) / 2.0;
        if self.r.max - self.current < 1.0 {
            // At the largest rate nothing is left to recover: timer and counter rest until the next cut.
            self.current = self.r.max;
            self.timer_at = Time::NEVER;
        }
    }
}

impl RateLaw for Dcqcn {
    /// Equation 1: R_T <- R_C, R_C <- R_C (1 - alpha / 2), alpha <- (1 - g) alpha + g; timer and byte counter begin anew.
    fn on_cnp(&mut self, now: Time, _: &PairView) {
        let (alpha, _) = self.alpha_now(now);
        self.target = self.current;
        self.current = (self.current * (1.0 - alpha / 2.0)).max(self.r.min);
        self.alpha = (1.0 - self.s.g) * alpha + self.s.g;
        (self.alpha_at, self.reacting) = (now, true);
        (self.by_timer, self.by_bytes, self.sent) = (0, 0, 0);
        self.timer_at = now + self.s.timer;
    }
    fn on_sent(&mut self, _: Time, bytes: u32, _: &PairView) {
        if self.timer_at == Time::NEVER {
            return;
        }
        self.sent += u64::from(bytes);
        if self.sent >= self.byte_counter {
            self.sent -= self.byte_counter;
            self.by_bytes += 1;
            self.increase();
        }
    }
    fn deadline(&self) -> Time {
        self.timer_at
    }
    fn on_deadline(&mut self, now: Time, _: &PairView) {
        self.timer_at = now + self.s.timer;
        self.by_timer += 1;
        self.increase();
    }
    /// A pair that was never cut, or has recovered, has the rate of its link whatever that is; none has more.
    fn on_line_rate(&mut self, _: Time, line: Rate) {
        let was = self.r.set_line(line);
        self.current = self.r.follow(self.current, was);
        self.target = self.r.follow(self.target, was);
    }
    fn control(&self) -> RateControl {
        RateControl { rate: bps(self.current), window: None }
    }
    fn observe(&self, report: &mut Report<'_>) {
        // Of the latest CNP: between two it only decays.
        report(&ALPHA, self.alpha);
        report(&TARGET_RATE, self.target);
    }
}

/// The reaction point of the HPCC group's ns-3; its rules and their source are in docs/validation/hpcc-ns3.md.
#[derive(Debug)]
struct Sampled {
    s: Settings,
    r: Rates,
    cut_timer: Dur,
    clamp: bool,
    current: f64,
    target: f64,
    alpha: f64,
    /// Of the first mark: both sampling timers count from there.
    began: Option<Time>,
    /// Alpha timers taken into account.
    ticks: u64,
    /// A mark came since the last alpha timer.
    marked: bool,
    /// When the rate is cut; a mark came since the last cut.
    cut_at: Time,
    timer_at: Time,
    /// Increases since the last cut.
    stage: u32,
}

impl Sampled {
    fn new(r: Rates, s: Settings, cut_timer: Dur, clamp: bool) -> Sampled {
        Sampled {
            s,
            r,
            cut_timer,
            clamp,
            current: r.max,
            target: r.line,
            alpha: 1.0,
            began: None,
            ticks: 0,
            marked: false,
            cut_at: Time::NEVER,
            timer_at: Time::NEVER,
            stage: 0,
        }
    }
    /// At each alpha timer: alpha <- (1 - g) alpha + g if a mark came since the last, else alpha <- (1 - g) alpha. Nothing reads it
    /// in between.
    fn sample_alpha(&mut self, now: Time) {
        let Some(began) = self.began else { return };
        let ticks = now.since(began).0 / self.s.alpha_timer.0;
        let mut quiet = ticks - self.ticks;
        if quiet > 0 && self.marked {
            self.alpha = (1.0 - self.s.g) * self.alpha + self.s.g;
            self.marked = false;
            quiet -= 1;
        }
        self.alpha *= libm::pow(1.0 - self.s.g, quiet as f64);
        self.ticks = ticks;
    }
    /// The cut timer ticks a nanosecond after the alpha timer.
    fn next_cut(&self, began: Time, now: Time) -> Time {
        let first = began + Dur::nanos(1);
        let past = now.0.saturating_sub(first.0) / self.cut_timer.0;
        first + self.cut_timer * (past + 1)
    }
    fn cut(&mut self, now: Time) {
        self.sample_alpha(now);
        self.cut_at = Time::NEVER;
        // A second cut without an increase in between keeps the old target.
        if self.stage != 0 || self.clamp {
            self.target = self.current;
        }
        self.current = (self.current * (1.0 - self.alpha / 2.0)).max(self.r.min);
        self.stage = 0;
        self.timer_at = now + self.s.timer;
    }
    /// F times fast recovery, once additive increase, then hyper increase for ever. The target's bound is the link, not the pair's
    /// largest rate.
    fn increase(&mut self) {
        let step = match self.stage.cmp(&self.s.fast_recovery) {
            core::cmp::Ordering::Less => 0.0,
            core::cmp::Ordering::Equal => self.s.ai,
            core::cmp::Ordering::Greater => self.s.hai,
        };
        if step > 0.0 {
            self.target = (self.target + step).min(self.r.line);
        }
        self.current = (self.current + self.target) / 2.0;
        self.stage = self.stage.saturating_add(1);
    }
}

impl RateLaw for Sampled {
    fn on_ack(&mut self, ack: &AckRecord<'_>, _: &PairView) {
        if !ack.ece {
            return;
        }
        match self.began {
            // The first mark starts the timers and is itself taken for the cut only.
            None => {
                self.began = Some(ack.now);
                self.target = self.current;
                self.cut_at = self.next_cut(ack.now, ack.now);
            }
            Some(began) => {
                self.sample_alpha(ack.now);
                self.marked = true;
                if self.cut_at == Time::NEVER {
                    self.cut_at = self.next_cut(began, ack.now);
                }
            }
        }
    }
    fn deadline(&self) -> Time {
        self.cut_at.min(self.timer_at)
    }
    fn on_deadline(&mut self, now: Time, _: &PairView) {
        if self.cut_at <= now {
            self.cut(now);
        } else if self.timer_at <= now {
            self.timer_at = now + self.s.timer;
            self.increase();
        }
    }
    fn on_line_rate(&mut self, _: Time, line: Rate) {
        let was = self.r.set_line(line);
        self.current = self.r.follow(self.current, was);
        self.target = self.target.min(self.r.line);
    }
    fn control(&self) -> RateControl {
        RateControl { rate: bps(self.current), window: None }
    }
    fn observe(&self, report: &mut Report<'_>) {
        report(&ALPHA, self.alpha);
        report(&TARGET_RATE, self.target);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIR: PairView = PairView { una: 0, nxt: 0, max_sent: 0 };
    const US: u64 = 1_000_000;
    const RATES: Rates = Rates { line: 40e9, max: 40e9, min: 100e6, base_rtt: Dur(0), asked: None };
    const SETTINGS: Settings = Settings {
        g: 0.0625,
        alpha_timer: Dur(55_000_000),
        timer: Dur(55_000_000),
        fast_recovery: 5,
        ai: 40e6,
        hai: 200e6,
    };

    /// g = 1/16 for figures that can be worked out by hand, otherwise the paper's parameters at 40 Gb/s.
    fn law() -> Dcqcn {
        Dcqcn::new(RATES, SETTINGS, 10_000_000)
    }
    fn tick(law: &mut Dcqcn) {
        law.on_deadline(law.deadline(), &PAIR);
    }

    #[test]
    fn equation_1_a_cnp_cuts_the_rate_by_half_of_alpha() {
        let mut law = law();
        law.on_cnp(Time(0), &PAIR);
        // alpha = 1: R_T = 40, R_C = 40 (1 - 1/2) = 20 Gb/s; alpha = 15/16 + 1/16 = 1.
        assert_eq!((law.target, law.current, law.alpha), (40e9, 20e9, 1.0));
        law.on_cnp(Time(50 * US), &PAIR);
        assert_eq!((law.target, law.current, law.alpha), (20e9, 10e9, 1.0));
        // 110 us later: two periods without a CNP, alpha = (15/16)^2 = 225/256; R_C = 10 (1 - 225/512) = 10 x 287/512;
        // alpha = 15/16 x 225/256 + 1/16 = 3631/4096.
        law.on_cnp(Time(160 * US), &PAIR);
        assert_eq!((law.target, law.current), (10e9, 10e9 * 287.0 / 512.0));
        assert!((law.alpha - 3631.0 / 4096.0).abs() < 1e-15, "{}", law.alpha);
    }
    #[test]
    fn equation_2_alpha_decays_by_whole_periods() {
        let mut law = law();
        assert_eq!(law.alpha_now(Time(1000 * US)).0, 1.0, "nothing runs before the first CNP");
        law.on_cnp(Time(0), &PAIR);
        for (at, alpha) in [(54, 1.0), (55, 0.9375), (109, 0.9375), (110, 0.87890625)] {
            assert!((law.alpha_now(Time(at * US)).0 - alpha).abs() < 1e-15, "{at}");
        }
    }
    #[test]
    fn equation_3_fast_recovery_halves_the_gap_five_times() {
        let mut law = law();
        law.on_cnp(Time(0), &PAIR);
        law.on_cnp(Time(0), &PAIR);
        // R_T = 20, R_C = 10: 15, 17.5, 18.75, 19.375, 19.6875 Gb/s.
        for expected in [15e9, 17.5e9, 18.75e9, 19.375e9, 19.6875e9] {
            tick(&mut law);
            assert_eq!((law.target, law.current), (20e9, expected));
        }
        // Equation 4, the sixth: R_T = 20.04, R_C = (20.04 + 19.6875) / 2 = 19.86375.
        tick(&mut law);
        assert_eq!((law.target, law.current), (20.04e9, 19.86375e9));
        assert_eq!(law.deadline(), Time(7 * 55 * US));
    }
    #[test]
    fn figure_7_hyper_increase_needs_both_counters() {
        let mut law = law();
        law.on_cnp(Time(0), &PAIR);
        law.on_cnp(Time(0), &PAIR);
        (0..6).for_each(|_| tick(&mut law));
        assert_eq!(law.target, 20.04e9);
        // Six times 10 MB: the first five find BC <= F, so AI, the sixth finds both above F.
        for n in 1..=6 {
            for _ in 0..10_000 {
                law.on_sent(Time(0), 1000, &PAIR);
            }
            let expected = 20.04e9 + if n < 6 { f64::from(n) * 40e6 } else { 5.0 * 40e6 + 200e6 };
            assert_eq!((law.by_bytes, law.target), (n, expected));
        }
        // A cut begins everything anew.
        law.on_cnp(Time(1000 * US), &PAIR);
        assert_eq!((law.by_timer, law.by_bytes, law.sent), (0, 0, 0));
    }
    #[test]
    fn at_the_rate_of_the_link_nothing_runs() {
        let mut law = law();
        law.on_cnp(Time(0), &PAIR);
        let mut ticks = 0;
        while law.deadline() != Time::NEVER {
            tick(&mut law);
            ticks += 1;
        }
        // R_T stays 40: the gap of 20 Gb/s falls below 1 bit/s after 35 halvings, 2^35 = 3.4e10.
        assert_eq!((ticks, law.current), (35, 40e9));
    }
    #[test]
    fn a_pair_at_the_rate_of_its_link_stays_there_when_that_changes() {
        let mut law = law();
        law.on_line_rate(Time(0), Rate(10_000_000_000));
        assert_eq!((law.current, law.target), (10e9, 10e9));
        law.on_line_rate(Time(0), Rate(40_000_000_000));
        assert_eq!((law.current, law.target), (40e9, 40e9));
        // After a cut to 20 it is below, and stays where it is.
        law.on_cnp(Time(0), &PAIR);
        law.on_line_rate(Time(0), Rate(30_000_000_000));
        assert_eq!((law.current, law.target), (20e9, 30e9));
        law.on_line_rate(Time(0), Rate(10_000_000_000));
        tick(&mut law);
        assert_eq!((law.current, law.target, law.deadline()), (10e9, 10e9, Time::NEVER));
    }
    #[test]
    fn no_rate_below_the_smallest() {
        let mut law = law();
        (0..20).for_each(|_| law.on_cnp(Time(0), &PAIR));
        assert_eq!(law.current, 100e6);
    }

    fn sampled(clamp: bool) -> Sampled {
        let s =
            Settings { alpha_timer: Dur::micros(1), timer: Dur::micros(300), fast_recovery: 1, ..SETTINGS };
        Sampled::new(RATES, s, Dur::micros(4), clamp)
    }
    fn mark(law: &mut Sampled, at: u64) {
        let ack = AckRecord {
            now: Time(at),
            bytes: 1000,
            rtt: Dur::micros(5),
            endpoint: Dur::ZERO,
            ece: true,
            telemetry: &[],
        };
        law.on_ack(&ack, &PAIR);
    }

    #[test]
    fn hpcc_ns3_samples_alpha_and_cuts_by_timers() {
        let mut law = sampled(false);
        mark(&mut law, 10 * US);
        // No cut yet; four microseconds and a nanosecond later, after four quiet samples: alpha = (15/16)^4 = 0.772476196,
        // 40 (1 - 0.386238098) = 24.550476 Gb/s; the target is what it was.
        assert_eq!((law.current, law.deadline()), (40e9, Time(14 * US + 1000)));
        law.on_deadline(law.deadline(), &PAIR);
        let alpha = 0.9375f64.powi(4);
        assert!((law.alpha - alpha).abs() < 1e-15 && (law.current - 24.550_476_074e9).abs() < 1e3);
        assert_eq!((law.target, law.deadline()), (40e9, Time(314 * US + 1000)));
        // A mark at 14.5 us counts at 15 us: alpha = 15/16 alpha + 1/16; then quiet at 16, 17 and 18, when it is cut.
        mark(&mut law, 14 * US + US / 2);
        assert_eq!(law.deadline(), Time(18 * US + 1000));
        let before = law.current;
        law.on_deadline(law.deadline(), &PAIR);
        let alpha = (0.9375 * alpha + 0.0625) * 0.9375f64.powi(3);
        assert!((law.alpha - alpha).abs() < 1e-15);
        // No increase came in between: the old target is kept, with clamp_target it is not.
        assert_eq!((law.target, law.current), (40e9, before * (1.0 - alpha / 2.0)));
        let mut law = sampled(true);
        mark(&mut law, 0);
        law.on_deadline(law.deadline(), &PAIR);
        let before = law.current;
        mark(&mut law, 5 * US);
        law.on_deadline(law.deadline(), &PAIR);
        assert_eq!(law.target, before);
    }
    #[test]
    fn hpcc_ns3_recovers_once_then_adds_once_then_always_adds_more() {
        let mut law = sampled(false);
        (law.current, law.target, law.timer_at) = (10e9, 20e9, Time(0));
        // (10 + 20)/2; 20 + 0.04, half way; 20.04 + 0.2, half way; and again.
        for (target, current) in
            [(20e9, 15e9), (20.04e9, 17.52e9), (20.24e9, 18.88e9), (20.44e9, 19.66e9), (20.64e9, 20.15e9)]
        {
            let at = law.deadline();
            law.on_deadline(at, &PAIR);
            assert!((law.target - target).abs() < 1.0 && (law.current - current).abs() < 1.0, "{law:?}");
            assert_eq!(law.deadline(), at + Dur::micros(300));
        }
    }
}
