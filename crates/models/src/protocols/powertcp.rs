//! PowerTCP: the power of the most loaded hop sets the window. Power is the product of its arrival rate and the data in
//! flight (Addanki, Michel, Schmid, NSDI 2022, section 3 and algorithm 1; read from memory). On queue pairs with
//! go-back-N.

use super::roce::{self, bps, join, rates, Nature, Rates};
use crate::registry::Protocol;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use penstock_core::quantity::RATE;
use penstock_core::{Kind, ParamSpec, Quantity, Report, Unit};
use penstock_fabric::Hop;
use penstock_host::rdma::{AckRecord, PairView, RateControl, RateLaw};
use penstock_units::{Rate, Time};

static POWER: Quantity = Quantity::new(
    "power",
    Unit::One,
    "smoothed power of the most loaded hop, relative to a fully loaded hop",
);

/// PowerTCP.
pub const POWERTCP: Protocol = Protocol {
    name: "powertcp",
    text: "PowerTCP: telemetry of every switch, a window set by current times voltage of the most loaded hop",
    cites: "Addanki, Michel, Schmid, NSDI 2022 (from memory)",
    params: &join::<{ OWN.len() + roce::PARAMS.len() }>(OWN),
    reports: &[&RATE, &POWER],
    build: |p| {
        if roce::is_ns3(p) {
            return Err(p.error("rules", "must be paper: the HPCC group's simulator has no PowerTCP"));
        }
        let (gamma, flows, rates) = (p.float("gamma"), p.count("flows") as f64, rates(p));
        roce::build(
            p,
            &Nature { telemetry: true, extra: [42, 42], ..Nature::default() },
            Arc::new(move |facts| {
                let payload = f64::from(facts.payload);
                Box::new(PowerTcp::new(rates(facts), gamma, flows, payload))
            }),
        )
    },
};

const OWN: &[ParamSpec] = &[
    ParamSpec::new("gamma", Kind::Float, "0.9", "weight of a new window", "section 3.3").range(1e-6, 1.0),
    ParamSpec::new(
        "flows",
        Kind::Count,
        "10",
        "flows expected at a host's link (N): the additive increase is a pipe over N",
        "section 3.3; the number is chosen",
    )
    .range(1.0, 1e9),
];

/// One queue pair. Windows in bytes.
struct PowerTcp {
    r: Rates,
    gamma: f64,
    /// beta.
    increase: f64,
    pipe: f64,
    least: f64,
    cwnd: f64,
    /// The window a round trip ago, which what is acknowledged now was sent with.
    old: f64,
    /// It is taken anew when a byte beyond this is acknowledged.
    old_until: Option<u64>,
    /// Smoothed normalised power.
    power: f64,
    before: Vec<Hop>,
}

impl PowerTcp {
    fn new(r: Rates, gamma: f64, flows: f64, least: f64) -> PowerTcp {
        // Section 3.3: cwnd_init = HostBw x tau, beta = HostBw x tau / N
        let pipe = r.pipe();
        PowerTcp {
            r,
            gamma,
            increase: pipe / flows,
            pipe,
            least,
            cwnd: pipe,
            old: pipe,
            old_until: None,
            power: 1.0,
            before: Vec::new(),
        }
    }
    /// Algorithm 1, normPower.
    fn measure(&mut self, hops: &[Hop]) {
        let tau = self.r.base_rtt.as_secs();
        let (mut norm, mut dt_of) = (0.0, 0.0);
        for (hop, before) in hops.iter().zip(&self.before) {
            let dt = hop.at.since(before.at).as_secs();
            if dt <= 0.0 {
                continue;
            }
            let b = hop.rate.as_bps() / 8.0;
            let queue = f64::from(hop.queue_bytes);
            // Current: lambda = dq/dt + mu, the rate at which bytes arrive.
            let current = (queue - f64::from(before.queue_bytes)) / dt
                + (hop.sent_bytes - before.sent_bytes) as f64 / dt;
            // Voltage: nu = q + b tau
            let voltage = queue + b * tau;
            // Gamma = lambda nu, over its value at full use without a queue, b^2 tau
            let power = current * voltage / (b * b * tau);
            if power > norm {
                (norm, dt_of) = (power, dt);
            }
        }
        // Gamma_smooth = (Gamma_smooth (tau - dt) + Gamma dt) / tau
        let share = (dt_of / tau).min(1.0);
        self.power = self.power * (1.0 - share) + norm * share;
    }
}

impl RateLaw for PowerTcp {
    fn on_ack(&mut self, ack: &AckRecord<'_>, pair: &PairView) {
        if ack.telemetry.is_empty() {
            return;
        }
        let same = |(a, b): (&Hop, &Hop)| a.port == b.port;
        let path =
            ack.telemetry.len() == self.before.len() && ack.telemetry.iter().zip(&self.before).all(same);
        if path {
            self.measure(ack.telemetry);
            // updateWindow: cwnd = gamma (cwnd_old / Gamma + beta) + (1 - gamma) cwnd
            let next = self.old / self.power.max(1e-9) + self.increase;
            self.cwnd = self.gamma * next + (1.0 - self.gamma) * self.cwnd;
            self.cwnd = self.cwnd.clamp(self.least, self.pipe.max(self.least));
        }
        self.before.clear();
        self.before.extend_from_slice(ack.telemetry);
        if self.old_until.is_none_or(|end| pair.una > end) {
            self.old = self.cwnd;
            self.old_until = Some(pair.nxt);
        }
    }
    fn on_line_rate(&mut self, _: Time, line: Rate) {
        self.r.set_line(line);
        let pipe = self.r.pipe();
        let share = pipe / core::mem::replace(&mut self.pipe, pipe);
        self.increase *= share;
        self.cwnd = if share < 1.0 { self.cwnd.min(pipe.max(self.least)) } else { self.cwnd };
    }
    fn control(&self) -> RateControl {
        // rate = cwnd / tau
        RateControl { rate: bps(self.cwnd * 8.0 / self.r.base_rtt.as_secs()), window: Some(self.cwnd as u64) }
    }
    fn moves_departures(&self) -> bool {
        true
    }
    fn observe(&self, report: &mut Report<'_>) {
        report(&POWER, self.power);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_units::Dur;

    const US: u64 = 1_000_000;
    /// 100 Gb/s, tau = 10 us: a pipe of 125,000 bytes, an increase of 12,500.
    const RATES: Rates = Rates { line: 100e9, max: 100e9, min: 1e9, base_rtt: Dur(10 * US), asked: None };

    fn hop(port: u32, us: u64, queue_bytes: u32, sent_bytes: u64) -> Hop {
        Hop { port, at: Time(us * US), queue_bytes, sent_bytes, rate: Rate(100_000_000_000) }
    }
    fn ack(law: &mut PowerTcp, hops: &[Hop], una: u64, nxt: u64) {
        let ack = AckRecord {
            now: Time(0),
            bytes: 1000,
            rtt: Dur(0),
            endpoint: Dur::ZERO,
            ece: false,
            telemetry: hops,
        };
        law.on_ack(&ack, &PairView { una, nxt, max_sent: nxt });
    }

    #[test]
    fn algorithm_1_multiplies_current_and_voltage() {
        let mut law = PowerTcp::new(RATES, 0.9, 10.0, 1000.0);
        ack(&mut law, &[hop(1, 0, 0, 0), hop(2, 0, 0, 0)], 1000, 50_000);
        assert_eq!((law.power, law.cwnd), (1.0, 125_000.0));
        // In 10 us port 2 sent all it can, 125,000 bytes, and its queue grew by 62,500: twelve and a half bytes per ns sent, half of that
        // queued. Current 1.5 b, voltage 1.5 b tau, power 2.25. cwnd = 0.9 (125,000 / 2.25 + 12,500) + 12,500 = 73,750.
        ack(&mut law, &[hop(1, 10, 0, 9_000), hop(2, 10, 62_500, 125_000)], 2000, 60_000);
        assert!((law.power - 2.25).abs() < 1e-12, "{}", law.power);
        assert!((law.cwnd - 73_750.0).abs() < 1e-6, "{}", law.cwnd);
        assert_eq!(law.old, 125_000.0, "a round trip has not passed");
        // 5 us later the queue has gone down by 31,250: current b - b/2, voltage 1.25 b tau, power 0.625; smoothed 1.4375.
        ack(&mut law, &[hop(1, 15, 0, 9_000), hop(2, 15, 31_250, 187_500)], 51_000, 70_000);
        assert!((law.power - 1.4375).abs() < 1e-12, "{}", law.power);
        let cwnd = 0.9 * (125_000.0 / 1.4375 + 12_500.0) + 0.1 * 73_750.0;
        assert!((law.cwnd - cwnd).abs() < 1e-6 && law.old == law.cwnd, "{}", law.cwnd);
    }
    #[test]
    fn at_equilibrium_without_a_queue_the_window_is_the_pipe() {
        let mut law = PowerTcp::new(RATES, 0.9, 10.0, 1000.0);
        for n in 0..20u64 {
            ack(&mut law, &[hop(1, n, 0, n * 12_500)], 10_000 * n, 10_000 * n + 5000);
        }
        assert_eq!(law.cwnd, 125_000.0);
        assert!((law.power - 1.0).abs() < 1e-12);
    }
}
