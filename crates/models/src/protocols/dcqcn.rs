//! DCQCN: a rate per queue pair, cut by congestion notification packets, raised by a timer and a byte counter (Zhu et
//! al., SIGCOMM 2015; read from memory). The queue pairs themselves are [`penstock_host::rdma`].

use crate::registry::{LinkNeeds, Lossless, Protocol, Suite};
use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use penstock_core::{Kind, ParamSpec};
use penstock_fabric::{PauseAt, Scheduler};
use penstock_host::rdma::{LawFacts, PairView, RateControl, RateLaw, RdmaConfig, RdmaStack};
use penstock_units::{Dur, Rate, Time};

/// Rate of the links for which the paper gives its parameters; what is a rate or a queue grows with the link.
const PAPER_RATE: f64 = 40e9;

/// DCQCN.
pub const DCQCN: Protocol = Protocol {
    name: "dcqcn",
    text: "DCQCN: RDMA with go-back-N, a rate per queue pair cut by congestion \
             notifications; lossless by pause frames",
    cites: "Zhu et al., SIGCOMM 2015 (from memory)",
    params: &[
        ParamSpec::new("g", Kind::Float, "0.00390625", "gain of alpha", "section 5.2: 1/256")
            .range(1e-6, 1.0),
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
            "55us",
            "alpha decays when no CNP came for so long; above cnp_interval",
            "section 3.1",
        )
        .range(1e-7, 1.0),
        ParamSpec::new("timer", Kind::Duration, "55us", "period of the rate increase timer", "section 5.2")
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
            "5",
            "increases of a counter before additive increase (F)",
            "section 3.1",
        )
        .range(1.0, 1000.0),
        ParamSpec::new(
            "rate_ai",
            Kind::Rate,
            "",
            "additive increase; unset = 1/1000 of the link",
            "section 3.1: 40 Mb/s at 40 Gb/s",
        )
        .range(1.0, 1e12),
        ParamSpec::new(
            "rate_hai",
            Kind::Rate,
            "",
            "hyper increase; unset = 1/200 of the link",
            "the authors' simulator: 200 Mb/s at 40 Gb/s",
        )
        .range(1.0, 1e12),
        ParamSpec::new(
            "rate_min",
            Kind::Rate,
            "",
            "smallest rate; unset = 1/400 of the link",
            "the authors' simulator: 100 Mb/s at 40 Gb/s",
        )
        .range(1.0, 1e12),
        ParamSpec::new(
            "kmin",
            Kind::Size,
            "",
            "queue from which packets are marked; unset = 5 KB for each 40 Gb/s, at least \
             one packet",
            "section 5.2",
        )
        .range(0.0, 1e12),
        ParamSpec::new(
            "kmax",
            Kind::Size,
            "",
            "queue from which all packets are marked; unset = 200 KB for each 40 Gb/s, at \
             least twice kmin",
            "section 5.2",
        )
        .range(1.0, 1e12),
        ParamSpec::new("pmax", Kind::Float, "0.01", "probability of a mark just below kmax", "section 5.2")
            .range(0.0, 1.0),
        ParamSpec::new(
            "ack_every",
            Kind::Count,
            "1",
            "packets in order for each ACK",
            "chosen; network cards coalesce",
        )
        .range(1.0, 1e4),
        ParamSpec::new(
            "rto",
            Kind::Duration,
            "",
            "go back when nothing was acknowledged for so long; unset = 4.096 us x 2^n, the \
             first above 1 ms and 20 base round trips",
            "InfiniBand: 4.096 us x 2^n; n chosen",
        )
        .range(1e-6, 100.0),
        ParamSpec::new(
            "header",
            Kind::Size,
            "44",
            "headers of a data packet, link framing not counted",
            "RoCEv2: IP 20, UDP 8, BTH 12, ICRC 4",
        )
        .range(20.0, 1000.0),
        ParamSpec::new("ack", Kind::Size, "48", "an ACK or NACK", "RoCEv2: the same and AETH 4")
            .range(20.0, 1000.0),
        ParamSpec::new("cnp", Kind::Size, "60", "a CNP", "RoCEv2 annex A17: the same and 16 reserved")
            .range(20.0, 1000.0),
        ParamSpec::new("priority", Kind::Count, "3", "priority of data, lossless", "chosen: the usual one")
            .range(0.0, 7.0),
        ParamSpec::new(
            "control_priority",
            Kind::Count,
            "6",
            "priority of ACK, NACK and CNP",
            "section 5: CNPs have high priority",
        )
        .range(0.0, 7.0),
        ParamSpec::new(
            "pfc_alpha",
            Kind::Float,
            "0.125",
            "a lane is paused at this share of the free buffer",
            "section 4: beta = 8",
        )
        .range(1e-6, 64.0),
    ],
    build: |p| {
        let set = |key: &str| p.is_set(key);
        let config = RdmaConfig {
            header: p.bytes("header").0 as u32,
            ack: p.bytes("ack").0 as u32,
            cnp: p.bytes("cnp").0 as u32,
            ack_every: p.count("ack_every") as u32,
            rto: if set("rto") { p.dur("rto") } else { Dur::MAX },
            data_priority: p.count("priority") as u8,
            control_priority: p.count("control_priority") as u8,
            cnp_interval: Some(p.dur("cnp_interval")),
        };
        config.check()?;
        if p.dur("alpha_timer") <= p.dur("cnp_interval") {
            return Err(p.error(
                "alpha_timer",
                "must be above cnp_interval, or alpha decays between CNPs that come on time",
            ));
        }
        let (ai, hai, min) = (
            set("rate_ai").then(|| p.rate("rate_ai").as_bps()),
            set("rate_hai").then(|| p.rate("rate_hai").as_bps()),
            set("rate_min").then(|| p.rate("rate_min").as_bps()),
        );
        let settings = Settings {
            g: p.float("g"),
            alpha_timer: p.dur("alpha_timer"),
            timer: p.dur("timer"),
            byte_counter: p.bytes("byte_counter").0,
            fast_recovery: p.count("fast_recovery") as u32,
            ai: 0.0,
            hai: 0.0,
            min: 0.0,
        };
        let build: penstock_host::rdma::BuildLaw = Arc::new(move |facts: &LawFacts| {
            let line = facts.line.as_bps();
            Box::new(Dcqcn::new(
                line,
                Settings {
                    ai: ai.unwrap_or(line / 1000.0),
                    hai: hai.unwrap_or(line / 200.0),
                    min: min.unwrap_or(line / 400.0).min(line),
                    ..settings
                },
            ))
        });
        let (kmin, kmax) = (set("kmin").then(|| p.bytes("kmin").0), set("kmax").then(|| p.bytes("kmax").0));
        if let (Some(kmin), Some(kmax)) = (kmin, kmax) {
            if kmin >= kmax {
                return Err(p.error("kmax", "must be above kmin"));
            }
        }
        let (pmax, alpha, data) = (p.float("pmax"), p.float("pfc_alpha"), config.data_priority);
        Ok(Suite::own(
            Arc::new(move |facts| {
                let mut config = config.clone();
                if config.rto == Dur::MAX {
                    let least = Dur::millis(1).max(facts.base_rtt * 20);
                    let first = (0..32).map(|n| Dur::nanos(4096u64 << n)).find(|rto| *rto > least);
                    config.rto = first.unwrap_or(least);
                }
                Box::new(RdmaStack::new(facts, config, build.clone()))
            }),
            Some(Arc::new(move |facts| {
                let share = facts.capacity.as_bps() / PAPER_RATE;
                let kmin = kmin.unwrap_or(((5e3 * share) as u64).max(u64::from(facts.packet)));
                let kmax = kmax.unwrap_or(((200e3 * share) as u64).max(2 * kmin));
                let ramp = format!("ramp:kmin={kmin}B,kmax={kmax}B,pmax={pmax}");
                let lossless = Lossless {
                    priorities: 1 << data,
                    pause: PauseAt::Dynamic { alpha, gap: 2 * u64::from(facts.packet) },
                    reserve: u64::from(facts.packet),
                };
                LinkNeeds {
                    scheduler: Scheduler::Strict,
                    queue: Some((data, ramp)),
                    lossless: Some(lossless),
                    ..LinkNeeds::default()
                }
            })),
        ))
    },
};

#[derive(Clone, Copy, Debug)]
struct Settings {
    g: f64,
    alpha_timer: Dur,
    timer: Dur,
    byte_counter: u64,
    fast_recovery: u32,
    /// R_AI, R_HAI and the smallest rate, bits per second.
    ai: f64,
    hai: f64,
    min: f64,
}

/// The reaction point of one queue pair.
struct Dcqcn {
    s: Settings,
    line: f64,
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
    fn new(line: f64, s: Settings) -> Dcqcn {
        Dcqcn {
            s,
            line,
            current: line,
            target: line,
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
        self.target = self.target.min(self.line);
        self.current = (self.target + self.current) / 2.0;
        if self.line - self.current < 1.0 {
            // At the rate of the link nothing is left to recover: timer and counter rest until the next cut.
            self.current = self.line;
            self.timer_at = Time::NEVER;
        }
    }
}

impl RateLaw for Dcqcn {
    /// Equation 1: R_T <- R_C, R_C <- R_C (1 - alpha / 2), alpha <- (1 - g) alpha + g; timer and byte counter begin anew.
    fn on_cnp(&mut self, now: Time, _: &PairView) {
        let (alpha, _) = self.alpha_now(now);
        self.target = self.current;
        self.current = (self.current * (1.0 - alpha / 2.0)).max(self.s.min);
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
        if self.sent >= self.s.byte_counter {
            self.sent -= self.s.byte_counter;
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
    fn control(&self) -> RateControl {
        RateControl { rate: Some(Rate::from_bps(self.current)), window: None }
    }
    fn observe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        // Of the latest CNP: between two it only decays.
        report("alpha", self.alpha);
        report("target_rate_bps", self.target);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIR: PairView = PairView { una: 0, nxt: 0, max_sent: 0 };
    const US: u64 = 1_000_000;

    /// g = 1/16 for figures that can be worked out by hand, otherwise the paper's parameters at 40 Gb/s.
    fn law() -> Dcqcn {
        Dcqcn::new(
            40e9,
            Settings {
                g: 0.0625,
                alpha_timer: Dur::micros(55),
                timer: Dur::micros(55),
                byte_counter: 10_000_000,
                fast_recovery: 5,
                ai: 40e6,
                hai: 200e6,
                min: 100e6,
            },
        )
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
    fn no_rate_below_the_smallest() {
        let mut law = law();
        (0..20).for_each(|_| law.on_cnp(Time(0), &PAIR));
        assert_eq!(law.current, 100e6);
    }
}
