//! PIQI-RCP, proportional integral queue-independent RCP: a PI controller in the router and senders that
//! move towards the announced rate instead of jumping to it. Header and wire format are RCP's.
//!
//! Equation numbers: "PIQI-RCP: design and analysis of rate-based explicit congestion control", section IV-B.
//! A sender takes one step of (19) for every announcement, never two for the same one ("each end-user
//! responds to each feedback no more than once"): the header says which announcement it is. A sender with less
//! than one packet per control interval misses some; it takes their steps when the next one comes, as if
//! the rates in between had lain on a straight line. Otherwise slow senders would fall behind the router,
//! whose rate then runs away from what they send.

use super::qi_rcp::{router, Law, GAMMA, LARGEST_RTT};
use super::rcp::{rate_paced, Gain, Pacer, Path, RcpHeader, FLOOR, INITIAL, WORK};
use crate::registry::{Protocol, Suite};
use crate::work::{ADDITIONS, COMPARISONS, MULTIPLICATIONS};
use alloc::boxed::Box;
use alloc::sync::Arc;
use penstock_core::packet::Packet;
use penstock_core::quantity::{ARRIVAL_RATE, FAIR_RATE, RATE};
use penstock_core::tcp::TcpConfig;
use penstock_core::{
    AckRecord, CcHeader, Congestion, Control, FlowView, Header, Kind, ParamSpec, Report, WindowLaw,
};
use penstock_units::Time;

/// PIQI-RCP.
pub const PIQI_RCP: Protocol = Protocol {
    name: "piqi-rcp",
    text: "Proportional Integral Queue Independent RCP: PI router, smoothed senders",
    cites: "PIQI-RCP paper, eq. (18)-(20), (35), Theorem 2",
    params: &[
        Gain::PARAMS[0],
        Gain::PARAMS[1],
        Gain::PARAMS[2],
        Gain::PARAMS[3],
        GAMMA,
        ParamSpec::new(
            "tau1",
            Kind::Float,
            "0.01",
            "sender: share of the gap closed per announcement",
            "PIQI-RCP section VI; bound (20) is then half of the exact one (0.05, 0.88 with lag=1: within 1 %)",
        )
        .range(1e-6, 0.999_999),
        ParamSpec::new(
            "tau2",
            Kind::Float,
            "0.1",
            "sender: share of each change followed at once",
            "PIQI-RCP section VI; bound (20) is then half of the exact one (0.05, 0.88 with lag=1: within 1 %)",
        )
        .range(-0.5, 1.0),
        INITIAL,
        FLOOR,
        WORK,
    ],
    reports: &[&RATE, &FAIR_RATE, &ARRIVAL_RATE, &LARGEST_RTT, &ADDITIONS, &MULTIPLICATIONS, &COMPARISONS],
    build: |p| {
        let (tau1, tau2) = (p.float("tau1"), p.float("tau2"));
        // Theorem 2: 0 < tau1 < 1 and 0 < tau1 + 2 tau2 < 2
        if !(tau1 + 2.0 * tau2 > 0.0 && tau1 + 2.0 * tau2 < 2.0) {
            return Err(p.error("tau2", "tau1 + 2 tau2 must lie between 0 and 2 (Theorem 2)"));
        }
        let law = ProportionalIntegral { previous_error: 0.0 };
        Ok(Suite {
            configure: rate_paced,
            endpoint: Arc::new(move |cfg, _| Box::new(Smoothed::new(cfg, tau1, tau2))),
            router: Some(router(p, law)),
            ..Suite::tcp()
        })
    },
};

/// The router's law: eq. (18) with kappa_1 = kappa_2.
#[derive(Clone, Copy, Debug)]
struct ProportionalIntegral {
    previous_error: f64,
}

impl Law for ProportionalIntegral {
    fn factor(&mut self, kappa: f64, error: f64) -> f64 {
        // Eq. (20), or (35): half of QI-RCP's, because (18) has two error terms
        let kappa = kappa / 2.0;
        // Eq. (18): R = R(t-T) [1 + kappa e(t) + kappa e(t-T)]
        let factor = 1.0 + kappa * error + kappa * self.previous_error;
        self.previous_error = error;
        factor
    }
}

// --- The sender -------------------------------------------------------------------------------------

/// The sender of PIQI-RCP. Eq. (19). A new flow starts from zero.
struct Smoothed {
    tau1: f64,
    tau2: f64,
    pacer: Pacer,
    path: Path,
    /// x_i in bit/s.
    rate: f64,
    /// The last announcement: its rate in bit/s and number; `None` before the first.
    heard: Option<(f32, u32)>,
    control: Control,
}

impl Smoothed {
    fn new(cfg: &TcpConfig, tau1: f64, tau2: f64) -> Smoothed {
        let pacer = Pacer::new(cfg);
        Smoothed {
            tau1,
            tau2,
            control: pacer.unlimited(),
            pacer,
            path: Path::default(),
            rate: 0.0,
            heard: None,
        }
    }
    #[inline]
    fn hear(&mut self, ack: &AckRecord<'_>) {
        self.path.sample(ack);
        let Some(header) = ack.header.get::<RcpHeader>() else { return };
        if !header.rate.is_finite() || self.heard == Some((header.rate, header.epoch)) {
            return;
        }
        let announced = header.rate as f64;
        let (before, steps) = match self.heard {
            None => (announced, 1),
            // A lower number comes from another router: a new announcement all the same.
            Some((rate, epoch)) => (rate as f64, header.epoch.saturating_sub(epoch).max(1)),
        };
        self.heard = Some((header.rate, header.epoch));
        self.step(before, announced, steps);
        self.control = self.pacer.control(self.rate, self.path.smallest);
    }
}

impl Smoothed {
    /// `steps` steps of (19) while the announced rate goes in equal parts from `before` to `announced`.
    #[inline]
    fn step(&mut self, before: f64, announced: f64, steps: u32) {
        let change = announced - before;
        // Eq. (19): x = x(t-T) + tau1 (R(t-D<-) - x(t-T)) + tau2 (R(t-D<-) - R(t-T-D<-))
        let next = if steps == 1 {
            self.rate + self.tau1 * (announced - self.rate) + self.tau2 * change
        } else {
            // The sum of k such steps with R_j = R_0 + j change / k; with a = 1 - tau1 the sum of j a^(k-j) is (k - a
            // (1 - a^k) / tau1) / tau1
            let k = steps as f64;
            let a = 1.0 - self.tau1;
            let kept = libm::pow(a, k);
            let ramp = (k - a * (1.0 - kept) / self.tau1) / self.tau1;
            kept * self.rate
                + (1.0 - kept) * before
                + change / k * (self.tau1 * ramp + self.tau2 * (1.0 - kept) / self.tau1)
        };
        self.rate = next.max(0.0);
    }
}

impl WindowLaw for Smoothed {
    fn on_ack(&mut self, ack: &AckRecord<'_>, _: &FlowView) {
        self.hear(ack);
    }
    /// Losses say nothing an announced rate does not say better.
    fn on_congestion(&mut self, _: Time, _: &FlowView, _: Congestion) {}
    fn control(&self) -> Control {
        self.control
    }
    fn changes(&self) -> u32 {
        self.pacer.changes()
    }
    fn on_send(&mut self, _: Time, _: &FlowView, _: &mut Packet, header: &mut CcHeader) {
        header.set(&RcpHeader { rate: f32::INFINITY, rtt: self.path.latest as f32, epoch: 0 });
        if self.pacer.on_send(self.rate, self.path.smallest) {
            self.control = self.pacer.control(self.rate, self.path.smallest);
        }
    }
    fn header_len(&self) -> u32 {
        RcpHeader::WIRE_LEN
    }
    fn observe(&self, report: &mut Report<'_>) {
        report(&RATE, self.rate);
    }
}

#[cfg(test)]
mod tests {
    use super::super::qi_rcp::{Router, Settings};
    use super::*;
    use crate::registry::LinkFacts;
    use crate::work::Plain;
    use penstock_core::{LinkController, LinkView};
    use penstock_units::{Dur, Rate};

    const LINK: LinkFacts = LinkFacts {
        port: 0,
        capacity: Rate(100_000_000),
        base_rtt: Dur::millis(20),
        packet: 1000,
        framing: 0,
    };
    const IDLE: LinkView = LinkView::idle(LINK.capacity);

    #[test]
    fn equation_18_by_hand() {
        // D = 20 ms = 2 T: kappa = 0.5 sin(pi/6) = 0.25. y = 50 of 80 Mb/s, then 70: e = 0.375, 0.125.
        // R = 10 (1 + 0.09375) = 10.9375, then 10.9375 (1 + 0.25 * 0.5) = 12.3046875 Mb/s
        let gain = Gain { eta: 0.5, interval: 0.01, simple: false, lag: 0.0 };
        let law = ProportionalIntegral { previous_error: 0.0 };
        let set = Settings { gain, gamma: 0.8, initial: 0.1, floor: 0.01 };
        let mut r = Router::<Plain, _>::new(&set, law, &LINK);
        for (k, bytes) in [(1, 62_500), (2, 87_500)] {
            let mut header = CcHeader::NONE;
            header.set(&RcpHeader { rate: f32::INFINITY, rtt: 0.02, epoch: 0 });
            let mut p = Packet { wire_len: bytes, ..Packet::default() };
            r.on_arrival(Time::ZERO, &IDLE, &mut p, &mut header);
            r.on_deadline(Time(k * 10_000_000_000), &IDLE);
        }
        assert!((r.rate - 12.304_687_5e6).abs() < 1.0, "{}", r.rate);
    }

    #[test]
    fn equation_19_by_hand_and_once_per_announcement() {
        let mut s = Smoothed::new(&TcpConfig::default(), 0.25, 0.5);
        let mut hear = |rate: f32, epoch: u32| {
            let mut header = CcHeader::NONE;
            header.set(&RcpHeader { rate, rtt: 0.0, epoch });
            let (now, sent_at) = (Time(100_000_000_000), Time::ZERO);
            s.hear(&AckRecord { sent_at, ..AckRecord::plain(now, 0, &header) });
            s.rate
        };
        // From zero: 0.25 * 80 = 20. A repeated announcement changes nothing.
        assert_eq!(hear(80e6, 1), 20e6);
        assert_eq!(hear(80e6, 1), 20e6);
        // Announcing the same rate again gives 20 + 0.25 * 60 = 35.
        assert_eq!(hear(80e6, 2), 35e6);
        // 60 now: 35 + 0.25 * 25 + 0.5 * (-20) = 31.25.
        assert_eq!(hear(60e6, 3), 31.25e6);
    }

    #[test]
    fn missed_announcements_are_made_up_for() {
        let (mut one_by_one, mut at_once) =
            (Smoothed::new(&TcpConfig::default(), 0.1, 0.6), Smoothed::new(&TcpConfig::default(), 0.1, 0.6));
        (one_by_one.rate, at_once.rate) = (20e6, 20e6);
        for j in 0..7 {
            one_by_one.step(80e6 - j as f64 * 5e6, 75e6 - j as f64 * 5e6, 1);
        }
        at_once.step(80e6, 45e6, 7);
        assert!((one_by_one.rate - at_once.rate).abs() < 1.0, "{} {}", one_by_one.rate, at_once.rate);
    }
}
