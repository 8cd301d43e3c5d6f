//! RACS, router-assisted capacity sharing: weighted processor sharing by remaining size, rates from the routers.
//!
//! Once per round a sender tells the routers its weight, which is large when little of the flow is left. Every router
//! on the path offers the flow its share of the link, R = w C / W. The sender uses the smallest offer.
//!
//! W, the sum of weights, is kept right under loss: see [`Accounting`].

use super::rate_request::{Request, Requester};
use crate::active::ActiveFlows;
use crate::registry::{Protocol, Suite};
use alloc::boxed::Box;
use alloc::sync::Arc;
use penstock_core::header::wire;
use penstock_core::quantity::{ACTIVE_FLOWS, GRANTED};
use penstock_core::tcp::LossRecovery;
use penstock_core::{
    packet::flag, AckRecord, CcHeader, Congestion, Control, FlowView, Header, Kind, LinkController, LinkView,
    Looks, Packet, ParamSpec, Quantity, Report, Unit, WindowLaw,
};
use penstock_units::{Dur, Rate, Time};

static WEIGHT: Quantity = Quantity::new("weight", Unit::One, "weight of a flow");
static ROUND: Quantity = Quantity::new("round_s", Unit::Seconds, "time between two requests of a flow");
static WEIGHT_SUM: Quantity =
    Quantity::new("weight_sum", Unit::One, "sum of the weights of the flows on a link");
static INTERVAL: Quantity = Quantity::new("interval_s", Unit::Seconds, "control interval of a router");

/// RACS.
pub const RACS: Protocol = Protocol {
    name: "racs",
    text: "Router-assisted capacity sharing: rates in proportion to weights by remaining size",
    cites: "Munir, MS thesis, NUST 2012, chapter 4",
    params: &[
        ParamSpec::new(
            "w_min",
            Kind::Float,
            "1",
            "weight of a flow with much left",
            "chosen: the unit of weight",
        )
        .range(0.001, 1000.0),
        ParamSpec::new(
            "w_max",
            Kind::Float,
            "9",
            "weight a flow gains as it ends",
            "chosen: gain 10 of short over long flows, as for SDC in section 3.4.5",
        )
        .range(0.0, 10_000.0),
        ParamSpec::new(
            "a",
            Kind::Float,
            "1e-5",
            "decay of the weight per byte left",
            "chosen: 1 / 100 KB, the size of a short flow in section 1.1",
        )
        .range(0.0, 1.0),
        ParamSpec::new(
            "target",
            Kind::Float,
            "1",
            "share of the link that is allocated; the rest is for traffic without requests",
            "eq. (4.2) gives out C",
        )
        .range(0.01, 1.0),
        ParamSpec::new(
            "accounting",
            Kind::Choice(&["table", "counter"]),
            "table",
            "how a router computes W: one entry per flow, or eq. (4.3) alone, which drifts under loss",
            "chosen: see Accounting in the source",
        ),
        ParamSpec::new(
            "silence",
            Kind::Float,
            "8",
            "rounds after which a router forgets a silent flow",
            "chosen: longer than the losses of a burst",
        )
        .range(2.0, 1e6),
        ParamSpec::new(
            "interval",
            Kind::Duration,
            "",
            "first measurement interval t_p; empty: the base round-trip time",
            "section 4.2 (t_p = average RTT)",
        )
        .range(1e-6, 10.0),
    ],
    reports: &[&WEIGHT, &GRANTED, &ROUND, &WEIGHT_SUM, &INTERVAL, &ACTIVE_FLOWS],
    build: |p| {
        let law = Weights { min: p.float("w_min"), max: p.float("w_max"), a: p.float("a") };
        let accounting =
            if p.text("accounting") == "table" { Accounting::Table } else { Accounting::Counter };
        let (silence, target) = (p.float("silence"), p.float("target"));
        let interval = p.is_set("interval").then(|| p.dur("interval"));
        Ok(Suite {
            configure: |c| c.recovery = LossRecovery::Sack,
            endpoint: Arc::new(move |_, _| {
                let round = interval.unwrap_or(FIRST_ROUND);
                Box::new(Sender { law, requests: Requester::new(round, true), weight: 0 })
            }),
            router: Some(Arc::new(move |facts| {
                let given_out = facts.capacity.as_bps() * target * facts.packet_share();
                let interval = interval.unwrap_or(facts.base_rtt);
                Box::new(Router::new(given_out, interval, silence, accounting))
            })),
            ..Suite::tcp()
        })
    },
};

/// The round of a sender that no router has told one: how often a lost first request is repeated.
const FIRST_ROUND: Dur = Dur::millis(1);
/// A round is never shorter, whatever the routers measure: a bound on the work per flow.
const SHORTEST_ROUND: Dur = Dur::micros(10);

/// Weights in headers and tables are whole multiples of 2^-16, so that sums are exact.
const WEIGHT_ONE: f64 = 65536.0;

#[derive(Clone, Copy, Debug)]
struct Weights {
    min: f64,
    max: f64,
    a: f64,
}

impl Weights {
    fn of(&self, remaining: u64) -> u32 {
        // Eq. (4.1): w = w_min + w_max exp(-a f_r)
        let w = self.min + self.max * libm::exp(-self.a * remaining as f64);
        ((w * WEIGHT_ONE) as u32).max(1)
    }
}

/// The rate request of Fig. 4.2: five fields of four bytes. Floats have no largest rate or time that a link could
/// exceed, and are exact to 6e-8.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateRequest {
    /// w_c: the weight of the coming round; 0 says goodbye.
    pub weight: u32,
    /// w_p: the weight of the last request; 0 in an opening request.
    pub weight_prev: u32,
    /// The smallest offer so far, in bit/s; infinite = none.
    pub rate: f32,
    /// The sender's smoothed round-trip time in seconds; 0 = not known.
    pub rtt: f32,
    /// t_trans: the shortest measurement interval so far, in seconds; infinite = none.
    pub round: f32,
}

impl Header for RateRequest {
    const KIND: u8 = 11;
    const WIRE_LEN: u32 = 20;
    fn emit(&self, out: &mut [u8; CcHeader::ROOM]) {
        wire::put_u32(out, 0, self.weight);
        wire::put_u32(out, 4, self.weight_prev);
        wire::put_f32(out, 8, self.rate);
        wire::put_f32(out, 12, self.rtt);
        wire::put_f32(out, 16, self.round);
    }
    fn parse(raw: &[u8; CcHeader::ROOM]) -> RateRequest {
        RateRequest {
            weight: wire::get_u32(raw, 0),
            weight_prev: wire::get_u32(raw, 4),
            rate: wire::get_f32(raw, 8),
            rtt: wire::get_f32(raw, 12),
            round: wire::get_f32(raw, 16),
        }
    }
}

struct Sender {
    law: Weights,
    requests: Requester,
    /// The weight of the last request.
    weight: u32,
}

impl Sender {
    fn on_answer(&mut self, ack: &AckRecord<'_>) {
        let Some(h) = ack.header.get::<RateRequest>() else { return };
        if h.weight == 0 {
            return; // A goodbye has no answer.
        }
        let rate = h.rate.is_finite().then(|| Rate::from_bps(f64::from(h.rate)));
        let round = h.round.is_finite().then(|| Dur::from_secs(f64::from(h.round)).max(SHORTEST_ROUND));
        self.requests.on_answer(ack.now, h.weight_prev == 0, rate, round);
    }
}

impl WindowLaw for Sender {
    fn on_ack(&mut self, ack: &AckRecord<'_>, _flow: &FlowView) {
        self.on_answer(ack);
    }
    /// Losses change nothing: the routers alone set the rate.
    fn on_congestion(&mut self, _now: Time, _flow: &FlowView, _event: Congestion) {}
    fn on_send(&mut self, now: Time, flow: &FlowView, packet: &mut Packet, header: &mut CcHeader) {
        let Some(request) = self.requests.on_send(now, flow, packet) else { return };
        let left = if flow.size > 0 { flow.remaining() } else { flow.app_end - flow.una };
        // Section 4.1.1: w_p = 0 when the flow starts, w_c = 0 when it ends.
        let (weight, weight_prev) = match request {
            Request::Open => (self.law.of(left), 0),
            Request::Renew => (self.law.of(left), self.weight),
            Request::Release => (0, self.weight),
        };
        self.weight = weight;
        header.set(&RateRequest {
            weight,
            weight_prev,
            rate: f32::INFINITY,
            rtt: flow.rtt_smoothed.as_secs() as f32,
            round: f32::INFINITY,
        });
    }
    fn data_header_len(&self) -> u32 {
        0
    }
    fn wants_request(&self, now: Time, flow: &FlowView) -> bool {
        self.requests.wants_request(now, flow)
    }
    fn header_len(&self) -> u32 {
        RateRequest::WIRE_LEN
    }
    fn deadline(&self) -> Time {
        self.requests.deadline()
    }
    fn on_deadline(&mut self, now: Time, _flow: &FlowView) {
        self.requests.on_deadline(now);
    }
    fn control(&self) -> Control {
        self.requests.control()
    }
    fn observe(&self, report: &mut Report<'_>) {
        report(&WEIGHT, f64::from(self.weight) / WEIGHT_ONE);
        report(&GRANTED, self.requests.rate().as_bps());
        report(&ROUND, self.requests.round().as_secs());
    }
}

/// How a router keeps W, the sum of the weights of the flows on its link.
///
/// Eq. (4.3) alone, W <- W + w_c - w_p, needs no memory of flows, but it is right only if every router sees every
/// request exactly once. A request lost downstream has been counted upstream, and the sender cannot know which routers
/// saw it. A flow whose goodbye is lost, or whose host fails, stays in W for ever.
///
/// The default therefore keeps one small entry per active flow, the weight it last asked with. W is the sum of the
/// entries, so a request sets the right value whatever happened to those before it, and w_p is not needed. A flow that
/// has been silent is forgotten. After the last loss, W is the true sum again when every live flow has got one request
/// through (one round) and every dead one has been forgotten (`silence` to twice `silence` rounds). A link without
/// requests needs no W: the search for silent flows is part of the first request of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accounting {
    /// One entry per active flow.
    Table,
    /// Eq. (4.3) as printed.
    Counter,
}

/// The shares of one output link.
pub struct Router {
    /// In bits per second.
    capacity: f64,
    accounting: Accounting,
    flows: ActiveFlows<u32>,
    silence_rounds: f64,
    /// W now, in units of 2^-16.
    weight_sum: i64,
    /// W at the end of the last slot.
    slot_sum: i64,
    slot_ends: Time,
    /// t_p.
    interval: Dur,
    /// Round-trip times reported in this slot: their sum in seconds and their number.
    rtts: (f64, u32),
}

impl Router {
    /// The router of a link that gives out `capacity` bit/s, with a first measurement interval.
    pub fn new(capacity: f64, interval: Dur, silence_rounds: f64, accounting: Accounting) -> Router {
        Router {
            capacity,
            accounting,
            flows: ActiveFlows::new(Dur::from_secs(interval.as_secs() * silence_rounds)),
            silence_rounds,
            weight_sum: 0,
            slot_sum: 0,
            slot_ends: Time::ZERO + interval,
            interval,
            rtts: (0.0, 0),
        }
    }
    /// W, in units of weight.
    pub fn weight_sum(&self) -> f64 {
        self.weight_sum as f64 / WEIGHT_ONE
    }

    /// Section 4.2: W is estimated in one slot and used in the next.
    fn end_slot(&mut self, now: Time) {
        let sum = &mut self.weight_sum;
        self.flows.sweep(now, |weight| *sum -= i64::from(weight));
        self.slot_sum = self.weight_sum;
        if self.rtts.1 > 0 {
            // Section 4.2: t_p = average RTT.
            self.interval = Dur::from_secs(self.rtts.0 / f64::from(self.rtts.1)).max(SHORTEST_ROUND);
            self.rtts = (0.0, 0);
            self.flows.set_silence(Dur::from_secs(self.interval.as_secs() * self.silence_rounds));
        }
        self.slot_ends = now + self.interval;
    }

    fn count(&mut self, now: Time, flow: u32, h: &RateRequest) {
        match self.accounting {
            Accounting::Counter => {
                // Eq. (4.3): W <- W + w_c - w_p
                self.weight_sum += i64::from(h.weight) - i64::from(h.weight_prev);
            }
            Accounting::Table => {
                // This sum uses the w_p that this router knows.
                let known = if h.weight == 0 {
                    self.flows.forget(flow)
                } else {
                    self.flows.hear(now, flow, h.weight)
                };
                self.weight_sum += i64::from(h.weight) - i64::from(known.unwrap_or(0));
            }
        }
    }

    /// Handles a rate request of `flow`.
    pub fn on_request(&mut self, now: Time, flow: u32, h: &mut RateRequest) {
        if now >= self.slot_ends {
            self.end_slot(now);
        }
        if h.rtt > 0.0 {
            self.rtts.0 += f64::from(h.rtt);
            self.rtts.1 += 1;
        }
        self.count(now, flow, h);
        if h.weight == 0 {
            return;
        }
        // Eq. (4.2): R_i = w_i C / W, with the W of the last slot. What has come in since counts at once: the
        // shares offered from now on must leave room for it.
        let sum = self.slot_sum.max(self.weight_sum).max(i64::from(h.weight));
        let rate = f64::from(h.weight) / sum as f64 * self.capacity;
        h.rate = h.rate.min(rate as f32);
        h.round = h.round.min(self.interval.as_secs() as f32);
    }
}

impl LinkController for Router {
    fn on_arrival(&mut self, now: Time, _link: &LinkView, packet: &mut Packet, header: &mut CcHeader) {
        if packet.has(flag::ACK) {
            return; // An answer on its way back.
        }
        if let Some(mut h) = header.get::<RateRequest>() {
            self.on_request(now, packet.flow, &mut h);
            header.set(&h);
        }
    }
    fn looks(&self) -> Looks {
        Looks { totals: false, ..Looks::ARRIVALS }
    }
    fn observe(&self, report: &mut Report<'_>) {
        report(&WEIGHT_SUM, self.weight_sum());
        report(&INTERVAL, self.interval.as_secs());
        report(&ACTIVE_FLOWS, self.flows.len() as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(weight: f64, weight_prev: f64) -> RateRequest {
        RateRequest {
            weight: (weight * WEIGHT_ONE) as u32,
            weight_prev: (weight_prev * WEIGHT_ONE) as u32,
            rate: f32::INFINITY,
            rtt: 0.0,
            round: f32::INFINITY,
        }
    }
    fn router(accounting: Accounting) -> Router {
        Router::new(1e9, Dur::micros(300), 8.0, accounting)
    }
    fn us(n: u64) -> Time {
        Time::ZERO + Dur::micros(n)
    }
    fn ask(r: &mut Router, now: Time, flow: u32, weight: f64, weight_prev: f64) -> RateRequest {
        let mut h = request(weight, weight_prev);
        r.on_request(now, flow, &mut h);
        h
    }

    #[test]
    fn equation_4_1_by_hand() {
        let law = Weights { min: 1.0, max: 9.0, a: 1e-5 };
        // exp(-1) = 0.36788: 1 + 9 * 0.36788 = 4.31091
        let w = |left| f64::from(law.of(left)) / WEIGHT_ONE;
        assert!((w(100_000) - 4.310_91).abs() < 2e-5);
        assert_eq!(w(0), 10.0);
        assert_eq!(w(u64::MAX / 2), 1.0);
    }
    #[test]
    fn the_header_is_twenty_bytes_of_five_fields() {
        let h = RateRequest { weight: 1, weight_prev: 2, rate: 3e13, rtt: 4e-6, round: -1.5 };
        let mut slot = CcHeader::NONE;
        slot.set(&h);
        assert_eq!(slot.get::<RateRequest>(), Some(h));
        let mut raw = [0; CcHeader::ROOM];
        h.emit(&mut raw);
        assert_eq!(raw[16..20], [0xBF, 0xC0, 0, 0]);
        assert!(raw[20..].iter().all(|b| *b == 0));
    }
    #[test]
    fn equations_4_2_and_4_3_by_hand() {
        for accounting in [Accounting::Table, Accounting::Counter] {
            let mut r = router(accounting);
            ask(&mut r, us(0), 1, 1.0, 0.0);
            ask(&mut r, us(10), 2, 3.0, 0.0);
            assert_eq!(r.weight_sum(), 4.0);
            // The next slot: 1/4 and 3/4 of 1 Gb/s.
            assert_eq!(ask(&mut r, us(300), 1, 1.0, 1.0).rate, 250e6);
            assert_eq!(ask(&mut r, us(310), 2, 3.0, 3.0).rate, 750e6);
            // Flow 2 gets heavier: W = 1 + 4, counted at once.
            assert_eq!(ask(&mut r, us(610), 2, 4.0, 3.0).rate, 800e6);
            // It ends: W falls now, the offers of the slot still use the larger W.
            ask(&mut r, us(700), 2, 0.0, 4.0);
            assert_eq!(r.weight_sum(), 1.0);
            assert_eq!(ask(&mut r, us(710), 1, 1.0, 1.0).rate, 250e6);
            assert_eq!(ask(&mut r, us(1010), 1, 1.0, 1.0).rate, 1e9);
        }
    }
    #[test]
    fn the_smallest_offer_and_the_shortest_interval_of_the_path_win() {
        let mut r = router(Accounting::Table);
        let mut h = RateRequest { rate: 5e3, round: 7e-9, ..request(1.0, 0.0) };
        r.on_request(us(0), 1, &mut h);
        assert_eq!((h.rate, h.round), (5e3, 7e-9));
        let mut h = request(1.0, 0.0);
        r.on_request(us(1), 1, &mut h);
        assert_eq!((h.rate, h.round), (1e9, 300e-6));
    }
    #[test]
    fn ten_terabits_are_offered_in_full() {
        for accounting in [Accounting::Table, Accounting::Counter] {
            let mut r = Router::new(1e13, Dur::micros(300), 8.0, accounting);
            assert_eq!(ask(&mut r, us(0), 1, 1.0, 0.0).rate, 1e13);
            ask(&mut r, us(10), 2, 1.0, 0.0);
            assert_eq!(ask(&mut r, us(300), 1, 1.0, 1.0).rate, 5e12);
        }
    }
    #[test]
    fn the_interval_is_the_mean_round_trip_time_of_the_slot() {
        let mut r = router(Accounting::Table);
        for (flow, rtt) in [(1, 200e-6), (2, 600e-6), (3, 0.0)] {
            let mut h = RateRequest { rtt, ..request(1.0, 0.0) };
            r.on_request(us(5), flow, &mut h);
        }
        let near = |round: f32| (f64::from(round) - 400e-6).abs() < 1e-10;
        assert!(near(ask(&mut r, us(300), 1, 1.0, 1.0).round));
        // No report in a slot: the last value stays.
        assert!(near(ask(&mut r, us(700), 1, 1.0, 1.0).round));
    }
    #[test]
    fn a_lost_goodbye_stays_in_the_counter_and_leaves_the_table() {
        let sum_after = |accounting| {
            let mut r = router(accounting);
            ask(&mut r, us(0), 1, 1.0, 0.0);
            ask(&mut r, us(0), 2, 5.0, 0.0);
            for round in 1..40 {
                ask(&mut r, us(300 * round), 1, 1.0, 1.0);
            }
            r.weight_sum()
        };
        assert_eq!(sum_after(Accounting::Counter), 6.0);
        assert_eq!(sum_after(Accounting::Table), 1.0);
    }
}
