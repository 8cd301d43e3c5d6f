//! QI-RCP, queue-independent RCP: the router's rate follows the input rate alone, with a gain that is proven
//! stable from the largest RTT. Senders and header are RCP's.
//!
//! Equation numbers: "PIQI-RCP: design and analysis of rate-based explicit congestion control", section IV-A.

use super::rcp::{announce, floor_rate, rate_paced, Announced, Gain, Meter, FLOOR, INITIAL, WORK};
use crate::registry::{BuildRouter, LinkFacts, Protocol, Suite};
use crate::work::{Arithmetic, Counted, Plain};
use crate::work::{ADDITIONS, COMPARISONS, MULTIPLICATIONS};
use alloc::boxed::Box;
use alloc::sync::Arc;
use penstock_core::packet::Packet;
use penstock_core::quantity::{ARRIVAL_RATE, FAIR_RATE, RATE};
use penstock_core::{
    CcHeader, Kind, LinkController, LinkView, Looks, ParamSpec, Params, Quantity, Report, Unit,
};
use penstock_units::{Dur, Time};

pub(super) static LARGEST_RTT: Quantity = Quantity::new(
    "largest_rtt_s",
    Unit::Seconds,
    "largest round-trip time in the packets of a link in the last interval",
);

/// QI-RCP.
pub const QI_RCP: Protocol = Protocol {
    name: "qi-rcp",
    text: "Queue Independent RCP: rate mismatch only, gain from a stability bound",
    cites: "PIQI-RCP paper, eq. (2)-(6), Theorem 1",
    params: &[
        Gain::PARAMS[0],
        Gain::PARAMS[1],
        Gain::PARAMS[2],
        Gain::PARAMS[3],
        GAMMA,
        INITIAL,
        FLOOR,
        WORK,
    ],
    reports: &[&RATE, &FAIR_RATE, &ARRIVAL_RATE, &LARGEST_RTT, &ADDITIONS, &MULTIPLICATIONS, &COMPARISONS],
    build: |p| {
        Ok(Suite {
            configure: rate_paced,
            endpoint: Arc::new(|cfg, _| Box::new(Announced::new(cfg))),
            router: Some(router(p, Proportional)),
            ..Suite::tcp()
        })
    },
};

/// Eq. (4): R = R(t-T) [1 + kappa e].
#[derive(Clone, Copy, Debug)]
struct Proportional;

impl Law for Proportional {
    fn factor(&mut self, kappa: f64, error: f64) -> f64 {
        1.0 + kappa * error
    }
}

// --- What QI-RCP and PIQI-RCP share -------------------------------------------------------------------

/// The virtual capacity's share of the real one.
pub(super) const GAMMA: ParamSpec = ParamSpec::new(
    "gamma",
    Kind::Float,
    "0.95",
    "utilisation aimed at; the rest drains transient queues",
    "PIQI-RCP eq. (3), section VI",
)
.range(0.01, 1.0);

/// What a router makes of the rate mismatch: the two protocols differ in nothing else.
pub(super) trait Law: Copy + Send + Sync + 'static {
    /// R(t) / R(t-T), given QI-RCP's gain kappa = eta kappa* for the largest RTT and the error of eq. (3).
    fn factor(&mut self, kappa: f64, error: f64) -> f64;
}

/// The router part of a protocol whose law is `law`.
pub(super) fn router<L: Law>(p: &Params, law: L) -> BuildRouter {
    let set = Settings {
        gain: Gain::read(p),
        gamma: p.float("gamma"),
        initial: p.float("initial"),
        floor: p.float("floor"),
    };
    if p.flag("work") {
        Arc::new(move |link| Box::new(Router::<Counted, L>::new(&set, law, link)))
    } else {
        Arc::new(move |link| Box::new(Router::<Plain, L>::new(&set, law, link)))
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub gain: Gain,
    pub gamma: f64,
    pub initial: f64,
    pub floor: f64,
}

/// The router of the queue-independent protocols: one multiplication by the law's factor per interval.
pub(super) struct Router<A, L> {
    set: Settings,
    law: L,
    link: LinkFacts,
    meter: Meter<A>,
    /// R_l in bit/s on the link.
    pub rate: f64,
    /// The share of it that is packets: what senders are told.
    told: f64,
    epoch: u32,
    due: Time,
}

impl<A: Arithmetic, L: Law> Router<A, L> {
    pub fn new(set: &Settings, law: L, link: &LinkFacts) -> Router<A, L> {
        let rate = set.initial * link.capacity.as_bps();
        Router {
            set: *set,
            law,
            link: *link,
            meter: Meter::new(link),
            rate,
            told: rate * link.packet_share(),
            epoch: 1,
            due: Time::ZERO + Dur::from_secs(set.gain.interval),
        }
    }
}

impl<A: Arithmetic, L: Law> LinkController for Router<A, L> {
    #[inline]
    fn on_arrival(&mut self, _: Time, link: &LinkView, packet: &mut Packet, header: &mut CcHeader) {
        self.meter.arrival(link, packet, header);
    }
    #[inline]
    fn on_departure(&mut self, _: Time, _: &LinkView, packet: &mut Packet, header: &mut CcHeader) {
        announce(&mut self.meter.work, self.told, self.epoch, packet, header);
    }
    fn looks(&self) -> Looks {
        Looks::HEADERS
    }
    fn deadline(&self) -> Time {
        self.due
    }
    fn on_deadline(&mut self, now: Time, _: &LinkView) {
        let y = self.meter.close(now);
        let c = self.link.capacity.as_bps();
        // Eq. (3): e = 1 - y / (gamma C)
        let error = 1.0 - y / (self.set.gamma * c);
        let kappa = self.set.gain.eta * self.set.gain.bound(self.meter.rtt);
        let next = self.rate * self.law.factor(kappa, error);
        self.rate = next.clamp(floor_rate(self.set.floor, &self.link, self.meter.rtt), c);
        self.told = self.rate * self.link.packet_share();
        self.epoch += 1;
        self.due = now + Dur::from_secs(self.set.gain.interval);
    }
    fn observe(&self, report: &mut Report<'_>) {
        report(&FAIR_RATE, self.rate);
        report(&ARRIVAL_RATE, self.meter.arrival_rate);
        report(&LARGEST_RTT, self.meter.rtt);
        self.meter.work.observe(report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocols::rcp::RcpHeader;
    use penstock_units::Rate;

    const LINK: LinkFacts = LinkFacts {
        port: 0,
        capacity: Rate(100_000_000),
        base_rtt: Dur::millis(20),
        packet: 1000,
        framing: 0,
    };
    const IDLE: LinkView = LinkView::idle(LINK.capacity);

    fn router() -> Router<Plain, Proportional> {
        let gain = Gain { eta: 0.5, interval: 0.01, simple: false, lag: 0.0 };
        Router::new(&Settings { gain, gamma: 0.8, initial: 0.1, floor: 0.01 }, Proportional, &LINK)
    }
    fn arrive(r: &mut Router<Plain, Proportional>, bytes: u32, rtt: f32) {
        let mut header = CcHeader::NONE;
        header.set(&RcpHeader { rate: f32::INFINITY, rtt, epoch: 0 });
        let mut p = Packet { wire_len: bytes, ..Packet::default() };
        r.on_arrival(Time::ZERO, &IDLE, &mut p, &mut header);
    }

    #[test]
    fn equation_4_by_hand() {
        // D = 20 ms = 2 T: kappa* = 1, kappa = 0.5. y = 50 Mb/s of 80: e = 0.375; R = 10 Mb/s * 1.1875
        let mut r = router();
        arrive(&mut r, 62_500, 0.02);
        r.on_deadline(Time(10_000_000_000), &IDLE);
        assert!((r.rate - 11.875e6).abs() < 1.0, "{}", r.rate);
    }

    #[test]
    fn kappa_keeps_its_last_value_without_packets() {
        let mut r = router();
        arrive(&mut r, 1000, 0.05);
        r.on_deadline(Time(10_000_000_000), &IDLE);
        r.on_deadline(Time(20_000_000_000), &IDLE);
        assert!((r.meter.rtt - 0.05).abs() < 1e-8);
    }
}
