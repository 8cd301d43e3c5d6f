//! D2TCP: DCTCP that backs off less when its deadline is near, and more when it is far.

use super::dctcp::MarkedFraction;
use super::reno::RenoWindow;
use crate::registry::{Protocol, Suite};
use alloc::boxed::Box;
use alloc::sync::Arc;
use penstock_core::quantity::{ALPHA, SSTHRESH};
use penstock_core::tcp::{EcnMode, LossRecovery};
use penstock_core::{AckRecord, Congestion, Control, FlowView, Kind, ParamSpec, Report, WindowLaw};
use penstock_units::Time;

/// D2TCP.
pub const D2TCP: Protocol = Protocol {
    name: "d2tcp",
    text: "Deadline-aware data center TCP: DCTCP's cut gamma-corrected by how imminent the deadline is",
    cites: "Vamanan, Hasan, Vijaykumar, SIGCOMM 2012",
    params: &[
        ParamSpec::new(
            "g",
            Kind::Float,
            "0.0625",
            "gain of the marked-fraction average",
            "RFC 8257 section 4.2",
        )
        .range(1e-6, 1.0),
        ParamSpec::new(
            "d_min",
            Kind::Float,
            "0.5",
            "smallest imminence factor (a far deadline)",
            "Vamanan et al., section 3.3",
        )
        .range(0.01, 1.0),
        ParamSpec::new(
            "d_max",
            Kind::Float,
            "2",
            "largest imminence factor (a near deadline)",
            "Vamanan et al., section 3.3",
        )
        .range(1.0, 100.0),
    ],
    reports: &[&SSTHRESH, &ALPHA],
    build: |p| {
        let (g, d_min, d_max) = (p.float("g"), p.float("d_min"), p.float("d_max"));
        Ok(Suite {
            configure: |c| {
                c.recovery = LossRecovery::Sack;
                c.ecn = EcnMode::Dctcp;
            },
            endpoint: Arc::new(move |cfg, _| {
                // RFC 8257 section 3.3: alpha starts at 1.
                Box::new(D2tcp {
                    window: RenoWindow::new(cfg),
                    estimate: MarkedFraction::new(g, 1.0),
                    d_min,
                    d_max,
                })
            }),
            router: None,
            ..Suite::tcp()
        })
    },
};

struct D2tcp {
    window: RenoWindow,
    estimate: MarkedFraction,
    d_min: f64,
    d_max: f64,
}

impl D2tcp {
    /// d, the deadline imminence factor; 1, which makes the cut DCTCP's, for a flow without a deadline ahead.
    fn imminence(&self, now: Time, flow: &FlowView) -> f64 {
        if flow.due == Time::NEVER || flow.size == 0 || flow.due <= now {
            return 1.0;
        }
        // Vamanan et al., section 3.2: Tc = B / (3/4 W) round trips, the sawtooth's mean window being 3/4 W.
        let needed = flow.remaining() as f64 / (0.75 * self.window.cwnd) * flow.rtt_smoothed.as_secs();
        // d = Tc / D, within bounds (section 3.3)
        (needed / flow.due.since(now).as_secs()).clamp(self.d_min, self.d_max)
    }
}

impl WindowLaw for D2tcp {
    fn on_ack(&mut self, ack: &AckRecord<'_>, flow: &FlowView) {
        if ack.acked == 0 {
            return;
        }
        // Every acknowledged byte counts for alpha, in recovery too.
        self.estimate.on_ack(ack.acked, ack.ece, flow);
        if !ack.ece && !flow.in_recovery {
            self.window.grow(ack.acked, flow);
        }
    }
    fn on_congestion(&mut self, now: Time, flow: &FlowView, event: Congestion) {
        match event {
            Congestion::Ecn => {
                // Vamanan et al., section 3.1: p = alpha^d, W <- W (1 - p/2)
                let p = libm::pow(self.estimate.alpha, self.imminence(now, flow));
                self.window.cwnd = (self.window.cwnd * (1.0 - p / 2.0)).max(flow.segment as f64);
                self.window.ssthresh = self.window.cwnd;
            }
            other => self.window.reduce(flow, other, 0.5),
        }
    }
    fn control(&self) -> Control {
        self.window.control()
    }
    fn observe(&self, report: &mut Report<'_>) {
        self.window.observe(report);
        report(&ALPHA, self.estimate.alpha);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_core::tcp::TcpConfig;
    use penstock_units::Dur;

    fn after_mark(alpha: f64, due: Time, now: Time) -> f64 {
        let cfg = TcpConfig { mss: 1000, initial_window: 10, ..TcpConfig::default() };
        let mut c = D2tcp {
            window: RenoWindow::new(&cfg),
            estimate: MarkedFraction::new(0.5, alpha),
            d_min: 0.5,
            d_max: 2.0,
        };
        let flow = FlowView {
            una: 25_000,
            nxt: 35_000,
            max_sent: 35_000,
            app_end: 100_000,
            in_flight: 10_000,
            rwnd: 1 << 30,
            segment: 1000,
            mss: 1000,
            rtt_latest: Dur::millis(1),
            rtt_smoothed: Dur::millis(1),
            rtt_min: Dur::millis(1),
            limit: Default::default(),
            in_recovery: false,
            started: Time::ZERO,
            flow: 0,
            size: 100_000,
            due,
        };
        c.on_congestion(now, &flow, Congestion::Ecn);
        c.window.cwnd / 10_000.0
    }
    fn ms(n: u64) -> Time {
        Time::ZERO + Dur::millis(n)
    }

    #[test]
    fn the_cut_by_hand() {
        // 75 kB left at 7.5 kB per 1 ms: Tc = 10 ms. alpha = 0.25.
        // Deadline in 10 ms: d = 1, p = 0.25; in 7.5 ms (d = 4/3) p = 0.1575; at d = 2 p = 0.0625, at 0.5 p = 0.5.
        assert!((after_mark(0.25, ms(10), ms(0)) - 0.875).abs() < 1e-12);
        assert!(
            (after_mark(0.25, Time::ZERO + Dur::micros(7500), ms(0)) - (1.0 - 0.157_490_131 / 2.0)).abs()
                < 1e-8
        );
        assert!((after_mark(0.25, ms(2), ms(0)) - 0.968_75).abs() < 1e-12, "near: d is held at 2");
        assert!((after_mark(0.25, ms(100), ms(0)) - 0.75).abs() < 1e-12, "far: d is held at 0.5");
    }
    #[test]
    fn without_a_deadline_ahead_it_is_dctcp() {
        assert_eq!(after_mark(0.25, Time::NEVER, ms(0)), 0.875);
        assert_eq!(after_mark(0.25, ms(1), ms(2)), 0.875, "missed");
    }
}
