//! D3, deadline-driven delivery: a flow asks the routers for the rate it needs to be done in time, and gets what is
//! asked, first come first served, plus an equal share of the rest.
//!
//! Routers keep one entry per active flow instead of the published three counters and the allocation vector that
//! senders carry. The sums are the same, and a lost request or goodbye cannot make them drift (as in [`super::racs`]).
//! A flow that has missed its deadline goes on without one; the published sender would give it up.

use super::rate_request::{Request, Requester};
use crate::active::ActiveFlows;
use crate::registry::{LinkFacts, Protocol, Suite};
use alloc::boxed::Box;
use alloc::sync::Arc;
use penstock_core::header::wire;
use penstock_core::quantity::GRANTED;
use penstock_core::tcp::{LossRecovery, IP_TCP_HEADER};
use penstock_core::{
    packet::flag, AckRecord, CcHeader, Congestion, Control, FlowView, Header, Kind, LinkController, LinkView,
    Packet, ParamSpec, Quantity, Report, Unit, WindowLaw,
};
use penstock_units::{Dur, Rate, Time};

static DEMAND: Quantity =
    Quantity::new("demand_bps", Unit::BitsPerSecond, "sum of the rates that the flows of a link request");
static ALLOCATED: Quantity = Quantity::new(
    "allocated_bps",
    Unit::BitsPerSecond,
    "sum of the rates that a router has allocated on a link",
);
static CAPACITY: Quantity =
    Quantity::new("capacity_estimate_bps", Unit::BitsPerSecond, "rate that a router may allocate on a link");

/// D3.
pub const D3: Protocol = Protocol {
    name: "d3",
    text: "Deadline-driven delivery: routers grant the rate a deadline needs, and share the rest",
    cites: "Wilson, Ballani, Karagiannis, Rowstron, SIGCOMM 2011",
    params: &[
        ParamSpec::new(
            "alpha",
            Kind::Float,
            "0.1",
            "gain of the capacity estimate on spare capacity",
            "Wilson et al., capacity estimate",
        )
        .range(0.0, 1.0),
        ParamSpec::new(
            "beta",
            Kind::Float,
            "0.1",
            "gain of the capacity estimate on the queue",
            "chosen: with 1, a burst that fills the buffer takes the whole capacity for milliseconds",
        )
        .range(0.0, 10.0),
        ParamSpec::new(
            "silence",
            Kind::Float,
            "8",
            "intervals after which a router forgets a silent flow",
            "chosen: as for racs",
        )
        .range(2.0, 1e6),
    ],
    reports: &[&GRANTED, &DEMAND, &ALLOCATED, &CAPACITY],
    build: |p| {
        let (alpha, beta, silence) = (p.float("alpha"), p.float("beta"), p.float("silence"));
        Ok(Suite {
            configure: |c| c.recovery = LossRecovery::Sack,
            endpoint: Arc::new(|cfg, _| {
                Box::new(Sender {
                    requests: Requester::new(FIRST_ROUND, false),
                    wire_per_payload: f64::from(cfg.mss + cfg.header_len()) / f64::from(cfg.mss),
                })
            }),
            router: Some(Arc::new(move |facts| Box::new(Router::new(facts, alpha, beta, silence)))),
            ..Suite::tcp()
        })
    },
};

/// The round of a sender that has no RTT sample: how often a lost first request is repeated.
const FIRST_ROUND: Dur = Dur::millis(1);

/// A rate request and its answer. Floats have no largest rate that a link could exceed, and are exact to 6e-8.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct D3Request {
    /// r: the rate the flow needs, in bit/s; 0 without a deadline.
    pub desired: f32,
    /// a: the smallest allocation of the path so far, in bit/s; infinite = none.
    pub granted: f32,
    /// The flow says goodbye.
    pub goodbye: bool,
}

impl Header for D3Request {
    const KIND: u8 = 12;
    const WIRE_LEN: u32 = 12;
    fn emit(&self, out: &mut [u8; CcHeader::ROOM]) {
        wire::put_f32(out, 0, self.desired);
        wire::put_f32(out, 4, self.granted);
        wire::put_u32(out, 8, u32::from(self.goodbye));
    }
    fn parse(raw: &[u8; CcHeader::ROOM]) -> D3Request {
        D3Request {
            desired: wire::get_f32(raw, 0),
            granted: wire::get_f32(raw, 4),
            goodbye: wire::get_u32(raw, 8) != 0,
        }
    }
}

struct Sender {
    requests: Requester,
    /// Bytes on the wire per byte of payload.
    wire_per_payload: f64,
}

impl Sender {
    /// The rate that finishes the flow in time, in bits per second on the wire; 0 without a deadline ahead.
    fn desired(&self, now: Time, flow: &FlowView) -> f64 {
        if flow.due == Time::NEVER || flow.size == 0 || flow.due <= now {
            return 0.0;
        }
        let bits = 8.0 * self.wire_per_payload * flow.remaining() as f64;
        let rtt = flow.rtt_smoothed.as_secs();
        let left = flow.due.since(now).as_secs();
        // Wilson et al., rate request: r = s / d at first, then r = (remaining - a rtt) / (d - 2 rtt), for what is
        // sent until the answer is here and for the way of the last byte.
        let rate = if rtt == 0.0 {
            bits / left
        } else {
            (bits - self.requests.rate().as_bps() * rtt) / (left - 2.0 * rtt)
        };
        // A deadline nearer than two round trips cannot be asked for any more.
        if rate.is_finite() && rate > 0.0 {
            rate
        } else {
            0.0
        }
    }
    fn on_answer(&mut self, ack: &AckRecord<'_>, flow: &FlowView) {
        let Some(h) = ack.header.get::<D3Request>() else { return };
        if h.goodbye {
            return;
        }
        let rate = h.granted.is_finite().then(|| Rate::from_bps(f64::from(h.granted)));
        let round = (flow.rtt_smoothed > Dur::ZERO).then_some(flow.rtt_smoothed);
        self.requests.on_answer(ack.now, false, rate, round);
    }
}

impl WindowLaw for Sender {
    fn on_ack(&mut self, ack: &AckRecord<'_>, flow: &FlowView) {
        self.on_answer(ack, flow);
    }
    /// Losses change nothing: the routers alone set the rate.
    fn on_congestion(&mut self, _now: Time, _flow: &FlowView, _event: Congestion) {}
    fn on_send(&mut self, now: Time, flow: &FlowView, packet: &mut Packet, header: &mut CcHeader) {
        let desired = self.desired(now, flow);
        let Some(request) = self.requests.on_send(now, flow, packet) else { return };
        header.set(&D3Request {
            desired: desired as f32,
            granted: f32::INFINITY,
            goodbye: request == Request::Release,
        });
    }
    fn data_header_len(&self) -> u32 {
        0
    }
    fn wants_request(&self, now: Time, flow: &FlowView) -> bool {
        self.requests.wants_request(now, flow)
    }
    fn header_len(&self) -> u32 {
        D3Request::WIRE_LEN
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
        report(&GRANTED, self.requests.rate().as_bps());
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Grant {
    /// r and a of the flow's last request, bits per second.
    desired: f64,
    allocated: f64,
}

/// The allocations of one output link.
struct Router {
    /// What the link carries of full packets in bits per second: rates here are those senders count, without framing.
    link_rate: f64,
    /// Bits per second of such a rate per byte per second on the link.
    bits_per_byte: f64,
    /// The capacity that is given away: what the link has, less what drains the queue.
    capacity: f64,
    base_rate: f64,
    alpha: f64,
    beta: f64,
    interval: Dur,
    ends: Time,
    departed: u64,
    /// The smallest queue an arrival has found in this interval, in bytes: what stands, not what passes.
    standing: u64,
    flows: ActiveFlows<Grant>,
    /// D and A: sums over active flows, bits per second.
    demand: f64,
    allocated: f64,
}

impl Router {
    fn new(facts: &LinkFacts, alpha: f64, beta: f64, silence: f64) -> Router {
        let rate = facts.capacity.as_bps() * facts.packet_share();
        let rtt = facts.base_rtt;
        Router {
            link_rate: rate,
            bits_per_byte: 8.0 * facts.packet_share(),
            capacity: rate,
            // Wilson et al., base rate: a packet without payload per round trip.
            base_rate: f64::from(8 * (IP_TCP_HEADER + D3Request::WIRE_LEN)) / rtt.as_secs(),
            alpha,
            beta,
            interval: rtt,
            ends: Time::ZERO + rtt,
            departed: 0,
            standing: u64::MAX,
            flows: ActiveFlows::new(Dur::from_secs(rtt.as_secs() * silence)),
            demand: 0.0,
            allocated: 0.0,
        }
    }

    fn end_interval(&mut self, now: Time, link: &LinkView) {
        let span = (now.since(self.ends) + self.interval).as_secs();
        let used = self.bits_per_byte * (link.departed_bytes - self.departed) as f64 / span;
        // Wilson et al., capacity estimate: C(t+T) = C(t) + alpha (C - u/T) - beta q/T. It is never above the link's
        // rate, or an idle link would promise without limit. q is the standing queue. The instantaneous one counts the
        // packet in service and every burst, with which 50 flows get a third of the link.
        let queue = self.bits_per_byte * self.standing.min(link.queue_bytes) as f64 / self.interval.as_secs();
        self.standing = u64::MAX;
        self.capacity += self.alpha * (self.link_rate - used) - self.beta * queue;
        self.capacity = self.capacity.clamp(0.1 * self.link_rate, self.link_rate);
        self.departed = link.departed_bytes;
        self.ends = now + self.interval;
        let (demand, allocated) = (&mut self.demand, &mut self.allocated);
        self.flows.sweep(now, |g| {
            *demand -= g.desired;
            *allocated -= g.allocated;
        });
        if self.flows.is_empty() {
            // Rounding must not survive the flows.
            (self.demand, self.allocated) = (0.0, 0.0);
        }
    }

    fn on_request(&mut self, now: Time, flow: u32, h: &mut D3Request) {
        let old = if h.goodbye { self.flows.forget(flow) } else { self.flows.get(flow) }.unwrap_or_default();
        // Wilson et al., rate request processing: first return what the flow has.
        self.allocated -= old.allocated;
        self.demand -= old.desired;
        if h.goodbye {
            return;
        }
        let desired = f64::from(h.desired);
        self.flows.hear(now, flow, old);
        self.demand += desired;
        let left = self.capacity - self.allocated;
        // fs = (C - D) / N
        let fair_share = ((self.capacity - self.demand) / self.flows.len() as f64).max(0.0);
        // Enough left: what is asked and a fair share; else what is left. Never less than the base rate.
        let granted = if left > desired { desired + fair_share } else { left };
        let allocated = granted.max(self.base_rate);
        self.flows.hear(now, flow, Grant { desired, allocated });
        self.allocated += allocated;
        h.granted = h.granted.min(allocated as f32);
    }
}

impl LinkController for Router {
    fn on_arrival(&mut self, now: Time, link: &LinkView, packet: &mut Packet, header: &mut CcHeader) {
        if packet.has(flag::ACK) {
            return; // An answer on its way back.
        }
        if now >= self.ends {
            self.end_interval(now, link);
        }
        self.standing = self.standing.min(link.queue_bytes);
        if let Some(mut h) = header.get::<D3Request>() {
            self.on_request(now, packet.flow, &mut h);
            header.set(&h);
        }
    }
    fn observe(&self, report: &mut Report<'_>) {
        report(&DEMAND, self.demand);
        report(&ALLOCATED, self.allocated);
        report(&CAPACITY, self.capacity);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn router() -> Router {
        let facts = LinkFacts {
            port: 0,
            capacity: Rate(1_000_000_000),
            base_rtt: Dur::micros(300),
            packet: 1500,
            framing: 0,
        };
        Router::new(&facts, 0.1, 1.0, 8.0)
    }
    fn ask(r: &mut Router, flow: u32, desired_mbps: u16) -> u32 {
        let desired = f32::from(desired_mbps) * 1e6;
        let mut h = D3Request { desired, granted: f32::INFINITY, goodbye: false };
        r.on_request(Time(1), flow, &mut h);
        (f64::from(h.granted) / 1e6) as u32
    }

    #[test]
    fn deadlines_are_served_first_and_the_rest_is_shared() {
        let mut r = router();
        // Alone: 300 asked, and the whole rest.
        assert_eq!(ask(&mut r, 1, 300), 1000);
        // Nothing is left until flow 1 asks again: the base rate (52 B per 300 us).
        assert_eq!(ask(&mut r, 2, 500), 1);
        // 300 + (1000 - 800) / 2 = 400; then 500 + 100 = 600.
        assert_eq!(ask(&mut r, 1, 300), 400);
        assert_eq!(ask(&mut r, 2, 500), 600);
        // A third that needs more than is left gets what is left, here nothing.
        assert_eq!(ask(&mut r, 3, 900), 1);
    }
    #[test]
    fn ten_terabits_are_granted_in_full() {
        let facts = LinkFacts {
            port: 0,
            capacity: Rate(10_000_000_000_000),
            base_rtt: Dur::micros(300),
            packet: 1500,
            framing: 0,
        };
        let mut r = Router::new(&facts, 0.1, 1.0, 8.0);
        let mut h = D3Request { desired: 6e12, granted: f32::INFINITY, goodbye: false };
        r.on_request(Time(1), 1, &mut h);
        assert_eq!(h.granted, 1e13);
        let mut slot = CcHeader::NONE;
        slot.set(&h);
        assert_eq!(slot.get::<D3Request>(), Some(h));
    }
    #[test]
    fn without_deadlines_all_get_equal_shares() {
        let mut r = router();
        for _ in 0..3 {
            for flow in 1..=4 {
                ask(&mut r, flow, 0);
            }
        }
        assert_eq!([1, 2, 3, 4].map(|f| ask(&mut r, f, 0)), [250; 4]);
    }
    #[test]
    fn a_goodbye_returns_everything() {
        let mut r = router();
        ask(&mut r, 1, 300);
        let mut h = D3Request { desired: 0.0, granted: f32::INFINITY, goodbye: true };
        r.on_request(Time(2), 1, &mut h);
        r.on_request(Time(3), 1, &mut h);
        assert_eq!((r.flows.len(), r.demand, r.allocated), (0, 0.0, 0.0));
    }
    #[test]
    fn a_queue_lowers_the_capacity_given_away_and_an_idle_link_restores_it() {
        let mut r = router();
        let idle = LinkView::idle(Rate(1_000_000_000));
        let view = |queue_bytes, departed_bytes| LinkView { queue_bytes, departed_bytes, ..idle };
        // 3750 B wait and the link was full for 300 us: C - q/T = 1000 - 100 Mb/s.
        r.end_interval(Time::ZERO + Dur::micros(300), &view(3750, 37_500));
        assert!((r.capacity - 9e8).abs() < 1.0);
        // An idle interval: + 0.1 * 1000 Mb/s, not above the link.
        r.end_interval(Time::ZERO + Dur::micros(600), &view(0, 37_500));
        r.end_interval(Time::ZERO + Dur::micros(900), &view(0, 37_500));
        assert_eq!(r.capacity, 1e9);
    }
    #[test]
    fn the_desired_rate_by_hand() {
        let mut s = Sender { requests: Requester::new(FIRST_ROUND, false), wire_per_payload: 1.0 };
        let mut flow = FlowView {
            una: 0,
            nxt: 0,
            max_sent: 0,
            app_end: 100_000,
            in_flight: 0,
            rwnd: 1 << 30,
            segment: 1000,
            mss: 1000,
            rtt_latest: Dur::ZERO,
            rtt_smoothed: Dur::ZERO,
            rtt_min: Dur::MAX,
            limit: Default::default(),
            in_recovery: false,
            started: Time::ZERO,
            flow: 0,
            size: 100_000,
            due: Time::ZERO + Dur::millis(10),
        };
        // 800 kbit in 10 ms.
        assert_eq!(s.desired(Time::ZERO, &flow), 80e6);
        // After 1 ms and 20 kB, at 80 Mb/s and RTT 1 ms: (640 - 80) kbit in (9 - 2) ms.
        flow.una = 20_000;
        flow.rtt_smoothed = Dur::millis(1);
        s.requests.on_send(Time::ZERO, &flow, &Packet { flags: flag::SYN, ..Packet::default() });
        s.requests.on_answer(Time::ZERO, true, Some(Rate(80_000_000)), None);
        assert!((s.desired(Time::ZERO + Dur::millis(1), &flow) - 80e6).abs() < 1.0);
        assert_eq!(s.desired(Time::ZERO + Dur::millis(8), &flow), 0.0, "two round trips before the end");
        assert_eq!(s.desired(Time::ZERO + Dur::millis(11), &flow), 0.0, "too late");
        flow.due = Time::NEVER;
        assert_eq!(s.desired(Time::ZERO, &flow), 0.0);
    }
}
