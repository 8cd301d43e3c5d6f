//! Rate-based DCTCP: DCTCP's cut (Alizadeh et al., SIGCOMM 2010, section 3) on the rate of a queue pair, as the HPCC paper's
//! simulations compare it with (SIGCOMM 2019, section 5). Both read from memory.

use super::roce::{self, bps, is_ns3, join, rates, Marks, Nature, Rates};
use crate::registry::Protocol;
use alloc::boxed::Box;
use alloc::sync::Arc;
use penstock_core::quantity::{ALPHA, RATE};
use penstock_core::{Kind, ParamSpec, Report};
use penstock_host::rdma::{AckRecord, PairView, RateControl, RateLaw};
use penstock_units::{Rate, Time};

/// Rate-based DCTCP.
pub const DCTCP_ROCE: Protocol = Protocol {
    name: "dctcp-roce",
    text:
        "DCTCP on RDMA: a rate per queue pair, cut once in a round trip by half the share of marked packets",
    cites: "Alizadeh et al., SIGCOMM 2010; HPCC, SIGCOMM 2019 (from memory)",
    params: &join::<{ OWN.len() + roce::PARAMS.len() }>(OWN),
    reports: &[&RATE, &ALPHA],
    build: |p| {
        let (ns3, g, rates) = (is_ns3(p), p.float("g"), rates(p));
        let ai = p.is_set("rate_ai").then(|| p.rate("rate_ai").as_bps());
        let nature = Nature { marks: MARKS, window: true, ..Nature::default() };
        roce::build(
            p,
            &nature,
            Arc::new(move |facts| {
                let r = rates(facts);
                let packet = f64::from(facts.payload);
                // A packet per round trip; 615 Mb/s with the public scripts, a packet of 1,000 bytes in 13 us.
                let usual = if ns3 { 615e6 } else { packet * 8.0 / r.base_rtt.as_secs() };
                Box::new(DctcpRoce::new(r, Settings { g, ai: ai.unwrap_or(usual), packet, ns3 }))
            }),
        )
    },
};

const OWN: &[ParamSpec] = &[
    ParamSpec::new("g", Kind::Float, "0.0625", "gain of alpha", "section 3.3: 1/16").range(1e-6, 1.0),
    ParamSpec::new(
        "rate_ai",
        Kind::Rate,
        "",
        "additive increase per round trip; unset = a packet per base_rtt, 615 Mb/s with rules=hpcc-ns3",
        "section 3; the public scripts",
    )
    .range(1.0, 1e12),
];

/// Section 4.1: K = 65 packets at 10 Gb/s; the public scripts: 30 kB at 10 Gb/s. A step.
const MARKS: [Option<Marks>; 2] = [
    Some(Marks { kmin: 97.5e3, kmax: 97.5e3, pmax: 1.0, rate: 10e9 }),
    Some(Marks { kmin: 30e3, kmax: 30e3, pmax: 1.0, rate: 10e9 }),
];

#[derive(Clone, Copy, Debug)]
struct Settings {
    g: f64,
    /// Bits per second.
    ai: f64,
    /// Payload of a packet in bytes.
    packet: f64,
    ns3: bool,
}

/// One queue pair.
struct DctcpRoce {
    s: Settings,
    r: Rates,
    rate: f64,
    alpha: f64,
    /// ACKs of the present round trip, and those of them with a mark.
    acks: u32,
    marks: u32,
    /// The public code's guess of how many ACKs a round trip has.
    batch: f64,
    /// The round trip ends when a byte beyond this is acknowledged; `None` before the first.
    round: Option<u64>,
    /// No further cut and no increase until a byte beyond this is acknowledged.
    cut: Option<u64>,
}

impl DctcpRoce {
    fn new(r: Rates, s: Settings) -> DctcpRoce {
        // The public code begins with alpha = 1, DCTCP with 0 (section 3.3 leaves it open).
        let alpha = if s.ns3 { 1.0 } else { 0.0 };
        DctcpRoce { s, r, rate: r.max, alpha, acks: 0, marks: 0, batch: 1.0, round: None, cut: None }
    }
}

impl RateLaw for DctcpRoce {
    fn on_ack(&mut self, ack: &AckRecord<'_>, pair: &PairView) {
        self.acks += 1;
        self.marks += u32::from(ack.ece);
        let over = self.round.is_none_or(|end| pair.una > end);
        if over {
            if self.round.is_some() {
                // Section 3.3, equation 1: alpha <- (1 - g) alpha + g F
                let acks = if self.s.ns3 { self.batch } else { f64::from(self.acks) };
                let f = (f64::from(self.marks) / acks).min(1.0);
                self.alpha = (1.0 - self.s.g) * self.alpha + self.s.g * f;
                (self.acks, self.marks) = (0, 0);
            }
            let from = if self.round.is_some() { pair.una } else { 0 };
            self.batch = libm::floor((pair.nxt - from) as f64 / self.s.packet) + 1.0;
            self.round = Some(pair.nxt);
        }
        if self.cut.is_some_and(|end| pair.una > end) {
            self.cut = None;
        }
        if ack.ece && self.cut.is_none() {
            // Section 3.3, equation 2: cwnd <- cwnd (1 - alpha / 2), on the rate
            self.rate = (self.rate * (1.0 - self.alpha / 2.0)).max(self.r.min);
            self.cut = Some(pair.nxt);
        }
        if over && self.cut.is_none() {
            self.rate = (self.rate + self.s.ai).min(self.r.max);
        }
    }
    fn on_line_rate(&mut self, _: Time, line: Rate) {
        let was = self.r.set_line(line);
        self.rate = self.r.follow(self.rate, was);
    }
    fn control(&self) -> RateControl {
        RateControl { rate: bps(self.rate), window: None }
    }
    fn observe(&self, report: &mut Report<'_>) {
        report(&ALPHA, self.alpha);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_units::Dur;

    const RATES: Rates = Rates { line: 100e9, max: 100e9, min: 1e9, base_rtt: Dur(13_000_000), asked: None };

    fn ack(law: &mut DctcpRoce, una: u64, nxt: u64, ece: bool) -> (f64, f64) {
        let ack =
            AckRecord { now: Time(0), bytes: 1000, rtt: Dur(0), endpoint: Dur::ZERO, ece, telemetry: &[] };
        law.on_ack(&ack, &PairView { una, nxt, max_sent: nxt });
        (law.alpha, law.rate)
    }

    #[test]
    fn equations_1_and_2_once_in_a_round_trip() {
        let mut law = DctcpRoce::new(RATES, Settings { g: 0.0625, ai: 615e6, packet: 1000.0, ns3: false });
        law.rate = 50e9;
        // The first ACK opens a round up to byte 5,000; without a mark the rate grows once per round.
        assert_eq!(ack(&mut law, 1000, 5000, false), (0.0, 50.615e9));
        // Alpha is 0 in the first round, so the cut leaves the rate as it is, but there is no increase.
        assert_eq!(ack(&mut law, 2000, 6000, true), (0.0, 50.615e9));
        ack(&mut law, 3000, 7000, false);
        ack(&mut law, 5000, 8000, false);
        // Five ACKs, the first included, one with a mark: F = 1/5; still within the cut's round, no increase.
        assert_eq!(ack(&mut law, 6000, 9000, false), (0.0625 / 5.0, 50.615e9));
        // Beyond 6,000, a mark cuts again, by half of alpha.
        let (alpha, rate) = ack(&mut law, 7000, 9000, true);
        assert_eq!((alpha, rate), (0.0125, 50.615e9 * (1.0 - 0.00625)));
    }
    #[test]
    fn hpcc_ns3_begins_with_alpha_one_and_guesses_the_acks_of_a_round() {
        let mut law = DctcpRoce::new(RATES, Settings { g: 0.0625, ai: 615e6, packet: 1000.0, ns3: true });
        // The first cut halves.
        assert_eq!(ack(&mut law, 1000, 52_000, true), (1.0, 50e9));
        // The round ends beyond 52,000; it is taken for 52,000/1,000 + 1 = 53 ACKs.
        for una in 2..=52 {
            ack(&mut law, una * 1000, 100_000, true);
        }
        // 53 marks of 53: alpha = 15/16 + 1/16 = 1; the cut's round is over too, so it is cut again.
        assert_eq!(ack(&mut law, 53_000, 100_000, true), (1.0, 25e9));
    }
}
