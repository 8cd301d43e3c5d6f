//! A protocol in a crate of its own: a window law that holds its round-trip time at a target. Penstock is not touched: the law is
//! put into the registry of a simulation, and then is a protocol like any other, by name and with parameters.

use penstock::{
    AckRecord, Bytes, Congestion, Control, Dur, EcnMode, FlowView, Kind, LossRecovery, ParamError, ParamSpec,
    Protocol, Results, Simulation, Suite, Time, WindowLaw,
};
use std::sync::Arc;

/// Additive increase below a target delay, a decrease in proportion to the excess above it.
pub const TARGET_DELAY: Protocol = Protocol {
    name: "target-delay",
    text: "window law that holds the round-trip time at a target",
    cites: "Kumar et al., Swift, SIGCOMM 2020, Algorithm 1, with a fixed target and without windows below a segment; from memory",
    params: &[
        ParamSpec::new("target", Kind::Duration, "100us", "round-trip time to hold", "chosen").range(1e-6, 1.0),
        ParamSpec::new("ai", Kind::Float, "1", "segments added per round trip", "chosen").range(1e-3, 100.0),
        ParamSpec::new("beta", Kind::Float, "0.8", "decrease per relative excess of delay", "Swift, from memory")
            .range(0.0, 1.0),
        ParamSpec::new("max_mdf", Kind::Float, "0.5", "largest decrease per round trip", "Swift, from memory")
            .range(0.0, 0.99),
    ],
    reports: &[],
    build: |p| {
        let (target, ai, beta, max_mdf) = (p.dur("target"), p.float("ai"), p.float("beta"), p.float("max_mdf"));
        Ok(Suite {
            configure: |c| {
                c.recovery = LossRecovery::Sack;
                // A round-trip time with every ACK; without timestamps there is one per window.
                c.timestamps = true;
                // ECN-capable, so that a port that marks does not drop its packets; the law looks at delays, not at marks.
                c.ecn = EcnMode::Dctcp;
            },
            endpoint: Arc::new(move |c, _| {
                let (cwnd, mss) = (f64::from(c.initial_window), f64::from(c.mss));
                Box::new(TargetDelay { cwnd, mss, target, ai, beta, max_mdf, decreased: Time::ZERO })
            }),
            ..Suite::tcp()
        })
    },
};

struct TargetDelay {
    /// Window in segments; fractions accumulate.
    cwnd: f64,
    mss: f64,
    target: Dur,
    ai: f64,
    beta: f64,
    max_mdf: f64,
    decreased: Time,
}

impl TargetDelay {
    fn decrease(&mut self, now: Time, factor: f64) {
        self.cwnd = (self.cwnd * factor).max(1.0);
        self.decreased = now;
    }
}

impl WindowLaw for TargetDelay {
    fn on_ack(&mut self, ack: &AckRecord<'_>, flow: &FlowView) {
        let Some(delay) = ack.rtt.filter(|_| ack.may_grow(flow)) else { return };
        if delay < self.target {
            // Swift, Algorithm 1: cwnd <- cwnd + ai / cwnd * num_acked, where the window is what limits the sender (RFC 7661)
            if !ack.limit.leaves_window_unused() {
                self.cwnd += self.ai / self.cwnd * (ack.acked as f64 / self.mss);
            }
        } else if ack.now.since(self.decreased) >= flow.rtt_smoothed {
            // Swift, Algorithm 1, once per round trip: cwnd <- max(1 - beta (delay - target) / delay, 1 - max_mdf) cwnd
            let excess = 1.0 - self.target.as_secs() / delay.as_secs();
            self.decrease(ack.now, (1.0 - self.beta * excess).max(1.0 - self.max_mdf));
        }
    }
    fn on_congestion(&mut self, now: Time, _: &FlowView, event: Congestion) {
        match event {
            // Swift, Algorithm 1: a fast retransmit is the largest decrease, a timeout leaves the smallest window.
            Congestion::Loss => self.decrease(now, 1.0 - self.max_mdf),
            Congestion::Timeout { .. } | Congestion::SynLost => self.decrease(now, 0.0),
            _ => {}
        }
    }
    fn control(&self) -> Control {
        Control { window: Some(Bytes((self.cwnd * self.mss) as u64)), ..Control::default() }
    }
}

/// One flow of the law with this target, and one of `other`, in one port of 10 Gb/s whose DCTCP threshold is 65 packets (78 us).
///
/// # Errors
/// A bad value.
pub fn against(other: &str, target: Dur) -> Result<Results, ParamError> {
    Simulation::on("star:3")
        .link("10Gbps", "10us")
        .buffer("500pkt")
        .queue("threshold:k=65pkt")
        .transport((&TARGET_DELAY, &*format!("target={target}")))
        .endless_flow("h0", "h2", "0s")
        .transport(other)
        .endless_flow("h1", "h2", "100us")
        .duration("200ms")
        .warmup("50ms")
        .run()
}
