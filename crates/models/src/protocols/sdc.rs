//! SDC, size-aware delivery control: AIMD whose parameters depend on what is left of the flow.
//!
//! A sender belongs to a class by its remaining size and climbs to a higher class as it shrinks. Routers report how
//! loaded they are and the highest class that is active; a flow of the highest active class uses the parameters of
//! class A, so that it is not slowed down without need.

use crate::active::ActiveFlows;
use crate::registry::{LinkFacts, Protocol, Suite};
use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use penstock_core::params::{bare, parse_number};
use penstock_core::quantity::ACTIVE_FLOWS;
use penstock_core::tcp::{LossRecovery, TcpConfig};
use penstock_core::{
    packet::flag, AckRecord, CcHeader, Congestion, Control, FlowView, Header, Kind, LinkController, LinkView,
    Packet, ParamError, ParamSpec, Params, Quantity, Report, Unit, WindowLaw,
};
use penstock_units::{Bytes, Dur, Time};

static CLASS: Quantity = Quantity::new("class", Unit::One, "class of a flow");
static HIGHEST_CLASS: Quantity =
    Quantity::new("highest_class", Unit::One, "highest active class, as a sender or a router knows it");
static OPENING: Quantity = Quantity::new("opening", Unit::One, "1 while a sender opens its window, else 0");
static LOAD_FACTOR: Quantity = Quantity::new("load_factor", Unit::One, "load factor of a link");

/// SDC.
pub const SDC: Protocol = Protocol {
    name: "sdc",
    text: "Size-aware delivery control: AIMD by remaining size, router load factor",
    cites: "Munir, MS thesis, NUST 2012, chapter 3",
    params: &[
        ParamSpec::new(
            "gamma",
            Kind::Text,
            "1/0.5/0.25",
            "multiplicative increase per round trip, class A first",
            "chosen: class A doubles as slow start does",
        ),
        ParamSpec::new(
            "alpha",
            Kind::Text,
            "0.9/0.9/0.5",
            "additive increase in segments per round trip, class A first",
            "Table 3.2 (C), section 3.3 (below 1), footnote 1 (A and B share it)",
        ),
        ParamSpec::new(
            "beta",
            Kind::Text,
            "0.8868/0.5385/0.5",
            "what a decrease leaves of the window, class A first",
            "eq. (3.18) for the gains 10 and 2 of Table 3.3 over class C's (0.5, 0.5)",
        ),
        ParamSpec::new(
            "sizes",
            Kind::Text,
            "50pkt/100pkt",
            "largest remaining size of each class but the last (segments or bytes)",
            "section 3.4.5",
        ),
        ParamSpec::new(
            "interval",
            Kind::Duration,
            "",
            "measurement interval t_p; empty: the base round-trip time",
            "section 3.4.1 (T = t_p)",
        )
        .range(1e-6, 10.0),
        ParamSpec::new(
            "feedback",
            Kind::Choice(&["exact", "quantised"]),
            "quantised",
            "load factor as a number, or in the two ECN bits",
            "section 3.2.2",
        ),
        ParamSpec::new(
            "initial_window",
            Kind::Count,
            "2",
            "window of a new flow in segments",
            "section 4.2 (two packets)",
        )
        .range(1.0, 1000.0),
        ParamSpec::new(
            "silence",
            Kind::Duration,
            "",
            "a router removes a flow after this time without a packet; unset = the larger of 10 ms and 8 base round-trip times",
            "chosen: the RTO floor of section 3.5.2; a live flow of one segment per round trip must not be forgotten",
        )
        .range(1e-6, 1e3),
    ],
    reports: &[&CLASS, &HIGHEST_CLASS, &OPENING, &LOAD_FACTOR, &ACTIVE_FLOWS],
    build,
};

fn build(p: &Params) -> Result<Suite, ParamError> {
    let rules: Arc<[Rule]> = rules(p)?.into();
    let interval = p.is_set("interval").then(|| p.dur("interval"));
    let quantised = p.text("feedback") == "quantised";
    let window = p.count("initial_window");
    let silence = p.is_set("silence").then(|| p.dur("silence"));
    let classes = rules.len();
    Ok(Suite {
        configure: |c| c.recovery = LossRecovery::Sack,
        endpoint: Arc::new(move |cfg, _| Box::new(Sender::new(rules.clone(), interval, window, cfg))),
        router: Some(Arc::new(move |facts| {
            let silence = silence.unwrap_or(SHORTEST_SILENCE.max(facts.base_rtt * SILENT_ROUNDS));
            Box::new(Router::new(facts, classes, interval.unwrap_or(facts.base_rtt), silence, quantised))
        })),
        ..Suite::tcp()
    })
}

/// A flow is not forgotten sooner: the RTO floor of section 3.5.2, after which a lost window is sent again.
const SHORTEST_SILENCE: Dur = Dur::millis(10);
/// Base round-trip times after which a silent flow is forgotten at the earliest: longer than the losses of a burst, as for RACS.
const SILENT_ROUNDS: u64 = 8;

/// One class: how its flows behave, and how large their remainder may be.
#[derive(Clone, Copy, Debug)]
struct Rule {
    gamma: f64,
    alpha: f64,
    beta: f64,
    limit: ClassLimit,
}

#[derive(Clone, Copy, Debug)]
enum ClassLimit {
    Segments(u64),
    Bytes(u64),
    /// The last class takes everything else.
    None,
}

fn rules(p: &Params) -> Result<Vec<Rule>, ParamError> {
    let (gamma, alpha, beta) = (numbers(p, "gamma")?, numbers(p, "alpha")?, numbers(p, "beta")?);
    let classes = alpha.len();
    if classes > SdcHeader::MOST_CLASSES {
        let most = SdcHeader::MOST_CLASSES;
        let rule =
            format!("must not have more than {most} classes, what a header has room for; has {classes}");
        return Err(p.error("alpha", rule));
    }
    for (key, values) in [("gamma", &gamma), ("alpha", &alpha), ("beta", &beta)] {
        if values.len() != classes {
            return Err(p.error(key, format!("must have one number per class; alpha has {classes}")));
        }
        // Section 3.2.1: the parameters of a higher class are not below those of a lower one.
        if values.windows(2).any(|w| w[0] < w[1]) || values.iter().any(|v| *v <= 0.0) {
            return Err(p.error(key, "must be above 0 and not rise from one class to the next"));
        }
    }
    if beta[0] >= 1.0 {
        return Err(p.error("beta", "must be below 1"));
    }
    let limits = limits(p, classes)?;
    Ok((0..classes)
        .map(|c| Rule { gamma: gamma[c], alpha: alpha[c], beta: beta[c], limit: limits[c] })
        .collect())
}

/// Numbers separated by `/`, class A first.
fn numbers(p: &Params, key: &str) -> Result<Vec<f64>, ParamError> {
    let parsed: Option<Vec<f64>> = p.text(key).split('/').map(|v| parse_number(v, &[("", 1.0)])).collect();
    parsed.ok_or_else(|| p.error(key, "must be numbers separated by /, class A first"))
}

fn limits(p: &Params, classes: usize) -> Result<Vec<ClassLimit>, ParamError> {
    const UNITS: &[(&str, f64)] = &[("B", 1.0), ("KB", 1e3), ("KiB", 1024.0), ("MB", 1e6), ("GB", 1e9)];
    let text = p.text("sizes");
    let parts: Vec<&str> = text.split('/').filter(|t| !t.trim().is_empty()).collect();
    if parts.len() + 1 != classes {
        return Err(p.error("sizes", format!("{classes} classes need {} sizes", classes - 1)));
    }
    if let Some(number) = parts.iter().find(|part| parse_number(part, &[("", 1.0)]).is_some()) {
        return Err(p.error("sizes", bare(number.trim())));
    }
    let segments = text.contains("pkt");
    let units = if segments { &[("pkt", 1.0)] } else { UNITS };
    let parsed: Option<Vec<f64>> = parts.iter().map(|t| parse_number(t, units)).collect();
    let rising = |v: &Vec<f64>| v.first().is_none_or(|n| *n >= 1.0) && v.windows(2).all(|w| w[0] < w[1]);
    let sizes = parsed.filter(rising).ok_or_else(|| {
        p.error("sizes", "must be rising sizes separated by /, all in pkt or all in bytes (B, KB, MB)")
    })?;
    let make = |n: f64| if segments { ClassLimit::Segments(n as u64) } else { ClassLimit::Bytes(n as u64) };
    Ok(sizes.into_iter().map(make).chain([ClassLimit::None]).collect())
}

/// What travels: the sender's class in the type-of-service field, the answer of the routers in the ECN bits,
/// both as a 4-byte option on the way back (section 3.2.2, 3.2.3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SdcHeader {
    /// Class of the sending flow, 0 = A.
    pub class: u8,
    /// Highest class active at any router of the path; 255 = no router has answered.
    pub highest: u8,
    /// Largest load factor of the path, in units of 1/1024.
    pub load: u16,
}

impl SdcHeader {
    /// Load factor 1 in the header's unit.
    const FULL: u16 = 1024;
    const UNANSWERED: u8 = u8::MAX;
    /// A class is a byte, and one value of it is no class.
    const MOST_CLASSES: usize = SdcHeader::UNANSWERED as usize;
}

impl Header for SdcHeader {
    const KIND: u8 = 10;
    const WIRE_LEN: u32 = 4;
    fn emit(&self, out: &mut [u8; CcHeader::ROOM]) {
        let [high, low] = self.load.to_be_bytes();
        out[..4].copy_from_slice(&[self.class, self.highest, high, low]);
    }
    fn parse(raw: &[u8; CcHeader::ROOM]) -> SdcHeader {
        SdcHeader { class: raw[0], highest: raw[1], load: u16::from_be_bytes([raw[2], raw[3]]) }
    }
}

struct Sender {
    rules: Arc<[Rule]>,
    interval: Option<Dur>,
    /// Congestion window in bytes; fractions accumulate.
    cwnd: f64,
    initial: f64,
    /// Multiplicative increase, until the first overload.
    opening: bool,
    highest: u8,
    class: u8,
    /// Overload reports before this time describe the window before the last decrease.
    deaf_until: Time,
}

impl Sender {
    fn new(rules: Arc<[Rule]>, interval: Option<Dur>, initial_window: u64, cfg: &TcpConfig) -> Sender {
        let initial = (initial_window * cfg.mss as u64) as f64;
        let class = (rules.len() - 1) as u8;
        Sender {
            rules,
            interval,
            cwnd: initial,
            initial,
            opening: true,
            highest: SdcHeader::UNANSWERED,
            class,
            deaf_until: Time::ZERO,
        }
    }

    /// Section 3.2.1, flow-to-class mapping by what is left to be acknowledged.
    fn class_of(&self, flow: &FlowView) -> u8 {
        let left = if flow.size > 0 { flow.remaining() } else { flow.app_end - flow.una };
        let fits = |rule: &Rule| match rule.limit {
            ClassLimit::Segments(n) => left <= n.saturating_mul(flow.mss as u64),
            ClassLimit::Bytes(n) => left <= n,
            ClassLimit::None => true,
        };
        self.rules.iter().position(fits).unwrap_or(self.rules.len() - 1) as u8
    }

    /// Section 3.2.1: with all classes present a flow uses its own parameters; the highest class present
    /// behaves as class A, whether it is alone or not. The others keep their own.
    fn rule(&self) -> &Rule {
        let acts_as = if self.class <= self.highest { 0 } else { self.class };
        &self.rules[acts_as as usize]
    }

    fn listen(&mut self, ack: &AckRecord<'_>, flow: &FlowView) -> bool {
        self.class = self.class_of(flow);
        let Some(header) = ack.header.get::<SdcHeader>() else { return false };
        self.highest = header.highest;
        header.load >= SdcHeader::FULL
    }

    fn decrease(&mut self, now: Time, flow: &FlowView, factor: f64) {
        self.opening = false;
        // Eq. (3.3): w <- beta w; never below one segment, the smallest a sender can use.
        self.cwnd = (self.cwnd * factor).max(flow.segment as f64);
        // The new window shows in the load after one round trip, and in a whole measurement interval later:
        // once per overload, not once per report (section 3.4.1, a backoff event is one slot).
        self.deaf_until =
            now + flow.rtt_smoothed + self.interval.unwrap_or(flow.rtt_min.min(flow.rtt_smoothed));
    }
}

impl WindowLaw for Sender {
    fn on_ack(&mut self, ack: &AckRecord<'_>, flow: &FlowView) {
        let overload = self.listen(ack, flow);
        if overload {
            if ack.now >= self.deaf_until {
                let beta = self.rule().beta;
                self.decrease(ack.now, flow, beta);
            }
            return;
        }
        if !ack.may_grow(flow) || flow.limit.leaves_window_unused() {
            return; // The window is not what limits the sender.
        }
        let rule = self.rule();
        let bytes = ack.acked as f64;
        self.cwnd += if self.opening {
            // Eq. (3.1): w(t + T) = w(t) (1 + gamma), acknowledgement by acknowledgement
            rule.gamma * bytes
        } else {
            // Eq. (3.2): w(t + T) = w(t) + alpha, acknowledgement by acknowledgement
            rule.alpha * flow.segment as f64 * bytes / self.cwnd
        };
    }
    fn on_congestion(&mut self, now: Time, flow: &FlowView, event: Congestion) {
        match event {
            // A loss says more than an overload does: at least halve, as any TCP.
            Congestion::Loss => {
                let beta = self.rule().beta.min(0.5);
                self.decrease(now, flow, beta);
            }
            // RFC 5681 section 3.1: start again from one segment, opening the window anew.
            Congestion::Timeout { .. } | Congestion::SynLost => {
                self.cwnd = flow.segment as f64;
                self.opening = true;
            }
            Congestion::Idle => self.cwnd = self.cwnd.min(self.initial),
            Congestion::Ecn | Congestion::Recovered | Congestion::Spurious => {}
        }
    }
    fn on_send(&mut self, _now: Time, flow: &FlowView, _packet: &mut Packet, header: &mut CcHeader) {
        self.class = self.class_of(flow);
        header.set(&SdcHeader { class: self.class, highest: SdcHeader::UNANSWERED, load: 0 });
    }
    fn header_len(&self) -> u32 {
        SdcHeader::WIRE_LEN
    }
    fn control(&self) -> Control {
        Control { window: Some(Bytes(self.cwnd as u64)), pacing: None, segment: None }
    }
    fn observe(&self, report: &mut Report<'_>) {
        report(&CLASS, f64::from(self.class));
        report(&HIGHEST_CLASS, f64::from(self.highest));
        report(&OPENING, f64::from(u8::from(self.opening)));
    }
}

/// Load factor and active classes of one output link.
struct Router {
    /// Bytes per second.
    capacity: f64,
    interval: Dur,
    quantised: bool,
    ends: Time,
    /// Totals at the start of the interval.
    arrived: u64,
    /// Integral of the queue over the interval so far, in byte seconds.
    area: f64,
    /// The queue after the last event, in bytes, and when that was.
    queue: f64,
    seen: Time,
    load: f64,
    flows: ActiveFlows<u8>,
    counts: Vec<u32>,
}

impl Router {
    fn new(facts: &LinkFacts, classes: usize, interval: Dur, silence: Dur, quantised: bool) -> Router {
        Router {
            capacity: facts.capacity.as_bytes_per_sec(),
            interval,
            quantised,
            ends: Time::ZERO + interval,
            arrived: 0,
            area: 0.0,
            queue: 0.0,
            seen: Time::ZERO,
            load: 0.0,
            flows: ActiveFlows::new(silence),
            counts: vec![0; classes],
        }
    }

    /// Brings the measurement up to `now`. Nothing has arrived since the last call, so the queue has drained at
    /// link rate, and an interval that ended meanwhile can be closed exactly.
    fn advance(&mut self, now: Time, arrived: u64) {
        while now >= self.ends {
            self.drain(self.ends);
            let span = self.interval.as_secs();
            let lambda = (arrived - self.arrived) as f64;
            // Eq. (3.4): f = (lambda + q_av) / (C t_p)
            self.load = (lambda + self.area / span) / (self.capacity * span);
            let idle = lambda == 0.0 && self.area == 0.0;
            self.arrived = arrived;
            self.area = 0.0;
            self.ends = self.ends + self.interval;
            if idle && now >= self.ends {
                // Nothing more can change until `now`: go there at once, on the same grid.
                let skipped = now.since(self.ends).0 / self.interval.0;
                self.ends = self.ends + self.interval * skipped;
                self.seen = self.ends - self.interval;
            }
        }
        self.drain(now);
    }
    fn drain(&mut self, now: Time) {
        let t = now.since(self.seen).as_secs();
        let empty_after = self.queue / self.capacity;
        let busy = t.min(empty_after);
        self.area += busy * (self.queue - self.capacity * busy / 2.0);
        self.queue = (self.queue - self.capacity * t).max(0.0);
        self.seen = now;
    }

    /// Section 3.2.2: counters of active flows per class.
    fn count(&mut self, now: Time, packet: &Packet, class: u8) {
        let class = class.min(self.counts.len() as u8 - 1);
        let counts = &mut self.counts;
        let before = if packet.has(flag::FIN) {
            self.flows.forget(packet.flow)
        } else {
            counts[class as usize] += 1;
            self.flows.hear(now, packet.flow, class)
        };
        if let Some(before) = before {
            counts[before as usize] -= 1;
        }
        self.flows.sweep(now, |class| counts[class as usize] -= 1);
    }
    fn highest(&self) -> u8 {
        self.counts.iter().position(|n| *n > 0).map_or(SdcHeader::UNANSWERED, |c| c as u8)
    }
    /// The load factor as it fits the header.
    fn encoded_load(&self) -> u16 {
        let full = f64::from(SdcHeader::FULL);
        if self.quantised {
            // Two bits: nothing to say, below 80 %, up to full, overload. A sender asks only about the last.
            let level = [0.0, 0.8, 1.0].iter().rev().find(|level| self.load >= **level).copied();
            (level.unwrap_or(0.0) * full) as u16
        } else {
            (self.load * full).min(f64::from(u16::MAX)) as u16
        }
    }
}

impl LinkController for Router {
    fn on_arrival(&mut self, now: Time, link: &LinkView, packet: &mut Packet, header: &mut CcHeader) {
        self.advance(now, link.arrived_bytes);
        self.queue = link.queue_bytes as f64 + f64::from(link.len(packet));
        if !packet.is_forward() {
            return;
        }
        let Some(mut h) = header.get::<SdcHeader>() else { return };
        self.count(now, packet, h.class);
        h.load = h.load.max(self.encoded_load());
        h.highest = h.highest.min(self.highest());
        header.set(&h);
    }
    fn on_drop(&mut self, _now: Time, link: &LinkView, packet: &Packet, _header: &CcHeader) {
        self.queue = (self.queue - f64::from(link.len(packet))).max(0.0);
    }
    fn observe(&self, report: &mut Report<'_>) {
        report(&LOAD_FACTOR, self.load);
        report(&ACTIVE_FLOWS, self.flows.len() as f64);
        report(&HIGHEST_CLASS, f64::from(self.highest()));
    }
}

#[cfg(test)]
mod tests;
