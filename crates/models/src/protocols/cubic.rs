//! CUBIC (RFC 9438) over SACK loss recovery. HyStart++ is left out; slow start is RFC 5681's.

use super::reno::RenoWindow;
use crate::registry::{Protocol, Suite};
use alloc::boxed::Box;
use alloc::sync::Arc;
use penstock_core::quantity::SSTHRESH;
use penstock_core::tcp::{EcnMode, LossRecovery};
use penstock_core::{
    AckRecord, Congestion, Control, FlowView, Kind, Limit, ParamSpec, Quantity, Report, Unit, WindowLaw,
};
use penstock_units::{Bytes, Dur, Time};

static W_MAX: Quantity = Quantity::new("w_max_segments", Unit::Segments, "window at the last reduction");

/// CUBIC.
pub const CUBIC: Protocol = Protocol {
    name: "cubic",
    text: "CUBIC: the window is a cubic function of the time since the last loss",
    cites: "RFC 9438",
    params: &[
        ParamSpec::new(
            "c",
            Kind::Float,
            "0.4",
            "aggressiveness C, segments per cubic second",
            "RFC 9438 section 5",
        )
        .range(1e-6, 1e6),
        ParamSpec::new(
            "beta",
            Kind::Float,
            "0.7",
            "what a loss leaves of the window",
            "RFC 9438 section 4.6",
        )
        .range(0.01, 0.99),
        ParamSpec::new(
            "fast_convergence",
            Kind::Bool,
            "true",
            "release bandwidth to newcomers",
            "RFC 9438 section 4.7",
        ),
        ParamSpec::new("ecn", Kind::Bool, "false", "react to congestion marks as to a loss", "RFC 3168"),
    ],
    reports: &[&SSTHRESH, &W_MAX],
    build: |p| {
        let (c, beta, fast) = (p.float("c"), p.float("beta"), p.flag("fast_convergence"));
        Ok(Suite {
            configure: if p.flag("ecn") {
                |c| {
                    c.recovery = LossRecovery::Sack;
                    c.ecn = EcnMode::Classic;
                }
            } else {
                |c| c.recovery = LossRecovery::Sack
            },
            endpoint: Arc::new(move |cfg, _| Box::new(Cubic::new(RenoWindow::new(cfg), c, beta, fast))),
            router: None,
            ..Suite::tcp()
        })
    },
};

/// Window in segments and time in seconds, as in the RFC.
struct Cubic {
    window: RenoWindow,
    c: f64,
    beta: f64,
    fast_convergence: bool,
    w_max: f64,
    k: f64,
    w_est: f64,
    cwnd_prior: f64,
    epoch: Option<Time>,
    /// Since when something else than the window has limited the sender.
    paused: Option<Time>,
}

impl Cubic {
    fn new(window: RenoWindow, c: f64, beta: f64, fast_convergence: bool) -> Cubic {
        Cubic {
            window,
            c,
            beta,
            fast_convergence,
            w_max: 0.0,
            k: 0.0,
            w_est: 0.0,
            cwnd_prior: 0.0,
            epoch: None,
            paused: None,
        }
    }

    fn avoid_congestion(&mut self, ack: &AckRecord<'_>, flow: &FlowView) {
        let segment = flow.segment as f64;
        let cwnd = self.window.cwnd / segment;
        // RFC 9438 section 4.2: t leaves out the time in which the application limited the sender.
        if let (Some(since), Some(epoch)) = (self.paused.take(), self.epoch.as_mut()) {
            *epoch = *epoch + (ack.now - since);
        }
        let epoch = *self.epoch.get_or_insert_with(|| {
            if cwnd < self.w_max {
                // RFC 9438 eq. (2): K = cubic_root((W_max - cwnd_epoch) / C)
                self.k = libm::cbrt((self.w_max - cwnd) / self.c);
            } else {
                self.k = 0.0;
                self.w_max = cwnd;
            }
            self.w_est = cwnd;
            ack.now
        });
        let w_cubic = |t: f64| {
            // RFC 9438 eq. (1): W_cubic(t) = C (t - K)^3 + W_max
            let x = t - self.k;
            self.c * x * x * x + self.w_max
        };
        let t = (ack.now - epoch).as_secs();
        // RFC 9438 section 4.3, eq. (4): W_est += alpha_cubic * segments_acked / cwnd,
        // alpha_cubic = 3 (1 - beta) / (1 + beta), 1 once W_est has reached the window before the loss.
        let alpha =
            if self.w_est >= self.cwnd_prior { 1.0 } else { 3.0 * (1.0 - self.beta) / (1.0 + self.beta) };
        self.w_est += alpha * (ack.acked as f64 / segment) / cwnd;
        let next = if w_cubic(t) < self.w_est {
            self.w_est
        } else {
            // RFC 9438 section 4.2: target = W_cubic(t + RTT) within [cwnd, 1.5 cwnd]
            let target = w_cubic(t + flow.rtt_smoothed.as_secs()).clamp(cwnd, 1.5 * cwnd);
            cwnd + (target - cwnd) / cwnd
        };
        self.window.cwnd = next.max(cwnd) * segment;
    }
}

impl WindowLaw for Cubic {
    fn on_ack(&mut self, ack: &AckRecord<'_>, flow: &FlowView) {
        if !ack.may_grow(flow) || ack.ece {
            return;
        }
        if self.window.cwnd < self.window.ssthresh {
            self.window.grow(ack.acked, flow);
        } else if flow.limit == Limit::Window || flow.limit == Limit::Pacing {
            self.avoid_congestion(ack, flow);
        } else {
            self.paused.get_or_insert(ack.now);
        }
    }
    /// RFC 9438 section 4.2: t leaves out the time in which nothing was sent, unless a pause that began before leaves it out already.
    fn on_idle(&mut self, now: Time, idle: Dur, _flow: &FlowView) {
        if let (None, Some(epoch)) = (self.paused, self.epoch.as_mut()) {
            // An ACK may have begun the epoch after the last segment was sent.
            *epoch = (*epoch + idle).min(now);
        }
    }
    fn on_congestion(&mut self, _now: Time, flow: &FlowView, event: Congestion) {
        let segment = flow.segment as f64;
        match event {
            Congestion::Loss | Congestion::Ecn => {
                let cwnd = self.window.cwnd / segment;
                // RFC 9438 section 4.7: W_max <- cwnd (1 + beta) / 2 when the window had not come back.
                self.w_max = if self.fast_convergence && cwnd < self.w_max {
                    cwnd * (1.0 + self.beta) / 2.0
                } else {
                    cwnd
                };
                self.cwnd_prior = cwnd;
                self.epoch = None;
                // RFC 9438 section 4.6: ssthresh = max(flight * beta, 2); after a mark cwnd may be 1.
                self.window.reduce(flow, event, self.beta);
            }
            Congestion::Timeout { in_a_row, .. } => {
                // RFC 9438 section 4.8: ssthresh by beta, cwnd as RFC 5681; in the congestion avoidance that follows
                // K = 0 and W_max is the window it begins with.
                if in_a_row == 1 {
                    self.cwnd_prior = self.window.cwnd / segment;
                }
                self.w_max = 0.0;
                self.epoch = None;
                self.window.reduce(flow, event, self.beta);
            }
            other => self.window.reduce(flow, other, self.beta),
        }
    }
    fn control(&self) -> Control {
        Control { window: Some(Bytes(self.window.cwnd as u64)), pacing: None, segment: None }
    }
    fn observe(&self, report: &mut Report<'_>) {
        self.window.observe(report);
        report(&W_MAX, self.w_max);
    }
}
