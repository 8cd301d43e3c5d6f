//! RCP, the Rate Control Protocol: every router announces one rate, every sender takes the smallest.
//!
//! Equation numbers are those of "PIQI-RCP: design and analysis of rate-based explicit congestion control" (section
//! II). What it leaves open follows Dukkipati, "Rate Control Protocol (RCP): congestion control to make flows complete
//! quickly" (2007) and its public router. Rates stay between `floor` and the capacity. The router writes the rate when
//! a packet leaves, so that a long queue does not delay it. The control interval is never longer than the mean RTT.
//!
//! This file also holds what the whole family shares: the header, the sender that takes announced rates
//! ([`Announced`]) and the measuring of one interval (`Meter`).

use crate::registry::{LinkFacts, Protocol, Suite};
use crate::work::{Arithmetic, Counted, Plain};
use crate::work::{ADDITIONS, COMPARISONS, MULTIPLICATIONS};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use penstock_core::header::wire;
use penstock_core::packet::Packet;
use penstock_core::quantity::{ARRIVAL_RATE, FAIR_RATE, MEAN_RTT, RATE};
use penstock_core::tcp::{LossRecovery, TcpConfig};
use penstock_core::{
    AckRecord, CcHeader, Congestion, Control, FlowView, Header, Kind, LinkController, LinkView, Looks,
    ParamSpec, Params, Report, WindowLaw,
};
use penstock_units::{Bytes, Dur, Rate, Time};

/// RCP.
pub const RCP: Protocol = Protocol {
    name: "rcp",
    text: "Rate Control Protocol: routers announce one fair rate, senders take the smallest of their path",
    cites: "Dukkipati 2007; PIQI-RCP paper, eq. (1), (2)",
    params: &[
        ParamSpec::new("alpha", Kind::Float, "0.4", "gain of the rate mismatch", "PIQI-RCP section V"),
        ParamSpec::new("beta", Kind::Float, "1", "gain of the queue", "PIQI-RCP section V"),
        INTERVAL,
        ParamSpec::new(
            "mean",
            Kind::Choice(&["bytes", "flows"]),
            "bytes",
            "average RTT d_l: weighted by bytes (public routers) or one sample per flow and interval",
            "PIQI-RCP section III",
        ),
        ParamSpec::new(
            "rtt_average",
            Kind::Choice(&["plain", "slow-fall"]),
            "plain",
            "moving average of d_l: the same gain both ways, or falls slowed by (R/C)(sample/d_l)",
            "PIQI-RCP section III: a moving average; slow-fall: the public ns-2 router",
        ),
        INITIAL,
        FLOOR,
        WORK,
    ],
    reports: &[&RATE, &FAIR_RATE, &ARRIVAL_RATE, &MEAN_RTT, &ADDITIONS, &MULTIPLICATIONS, &COMPARISONS],
    build: |p| {
        let settings = Settings {
            alpha: p.float("alpha"),
            beta: p.float("beta"),
            interval: p.float("interval"),
            per_flow: p.text("mean") == "flows",
            slow_fall: p.text("rtt_average") == "slow-fall",
            initial: p.float("initial"),
            floor: p.float("floor"),
        };
        Ok(Suite {
            configure: rate_paced,
            endpoint: Arc::new(|cfg, _| Box::new(Announced::new(cfg))),
            router: Some(if p.flag("work") {
                Arc::new(move |link| Box::new(Router::<Counted>::new(&settings, link)))
            } else {
                Arc::new(move |link| Box::new(Router::<Plain>::new(&settings, link)))
            }),
            ..Suite::tcp()
        })
    },
};

/// The control interval T of the family.
pub(super) const INTERVAL: ParamSpec =
    ParamSpec::new("interval", Kind::Duration, "10ms", "control interval T", "PIQI-RCP section V")
        .range(1e-6, 10.0);
/// Where a router's rate starts.
pub(super) const INITIAL: ParamSpec = ParamSpec::new(
    "initial",
    Kind::Float,
    "0.05",
    "rate announced at the start, as a fraction of the capacity",
    "public RCP router",
)
.range(1e-6, 1.0);
/// The smallest rate a router announces.
pub(super) const FLOOR: ParamSpec = ParamSpec::new(
    "floor",
    Kind::Float,
    "0.01",
    "smallest rate a router announces, in full packets per RTT",
    "public RCP router",
)
.range(1e-6, 1e6);
/// Whether the router counts its arithmetic.
pub(super) const WORK: ParamSpec = ParamSpec::new(
    "work",
    Kind::Bool,
    "false",
    "count the router's arithmetic per packet",
    "PIQI-RCP section III",
);

/// Rate-paced senders recover losses by SACK; nothing else of TCP's window law remains.
pub(super) fn rate_paced(c: &mut TcpConfig) {
    c.recovery = LossRecovery::Sack;
    c.restart_after_idle = false;
}

// --- On the wire ------------------------------------------------------------------------------------

/// The 16 bytes of RCP (section III): rate, RTT, which announcement it is, and a word for the reverse rate.
///
/// Connections here carry data one way, so the reverse rate stays zero; it is paid for all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RcpHeader {
    /// Smallest rate announced along the path so far, in bit/s.
    pub rate: f32,
    /// The sender's latest RTT sample in seconds, zero before the first.
    pub rtt: f32,
    /// Number of the control interval of the router that wrote `rate`.
    pub epoch: u32,
}

impl Header for RcpHeader {
    const KIND: u8 = 1;
    const WIRE_LEN: u32 = 16;
    #[inline]
    fn emit(&self, out: &mut [u8; CcHeader::ROOM]) {
        wire::put_f32(out, 0, self.rate);
        wire::put_f32(out, 4, self.rtt);
        wire::put_u32(out, 8, self.epoch);
    }
    #[inline]
    fn parse(raw: &[u8; CcHeader::ROOM]) -> Self {
        RcpHeader { rate: wire::get_f32(raw, 0), rtt: wire::get_f32(raw, 4), epoch: wire::get_u32(raw, 8) }
    }
}

// --- The sender -------------------------------------------------------------------------------------

/// Longest wait between two packets of a slow sender, in RTTs: as far as TCP's timer backs off (RFC 6298 section 5.7).
const LONGEST_WAIT: f64 = 64.0;

/// Turns a rate into what the connection may do: pacing, and a shorter segment when the rate is less than
/// one full segment per RTT.
///
/// A sender that waited for `segment / rate` would learn of a better rate only then. The public sender sends a
/// header-only probe each RTT instead; a segment of `rate x RTT` bytes is the same probe that also carries what it may.
/// When a round trip allows less than a header and as much payload, every packet doubles the wait until the rate allows
/// that. A sender then learns of a higher rate soon, but many slow senders do not fill the link with headers, which
/// would keep their rate down for ever.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacer {
    header: f64,
    mss: f64,
    /// RTTs between two packets while the sender is slow.
    wait: f64,
    /// [`WindowLaw::changes`]: it is asked for its control when that is another.
    changes: u32,
}

impl Pacer {
    pub(super) fn new(cfg: &TcpConfig) -> Pacer {
        let header = (cfg.header_len() + RcpHeader::WIRE_LEN) as f64;
        Pacer { header, mss: cfg.mss as f64, wait: 1.0, changes: 1 }
    }
    /// Before the first announcement: full segments, without a limit.
    pub(super) fn unlimited(&self) -> Control {
        Control { segment: Some(Bytes(self.mss as u64)), ..Control::default() }
    }
    /// A packet leaves: true when [`Self::control`] has changed. The rate is in bit/s, the smallest RTT in seconds.
    #[inline]
    pub(super) fn on_send(&mut self, rate: f64, rtt: f64) -> bool {
        let slow = rtt > 0.0 && rate / 8.0 * rtt < 2.0 * self.header;
        if slow {
            self.wait = (2.0 * self.wait).min(LONGEST_WAIT);
        }
        slow
    }
    /// A number that is another after every call of [`Self::control`].
    #[inline]
    pub(super) fn changes(&self) -> u32 {
        self.changes
    }
    /// `rate` in bit/s, `rtt` the smallest RTT in seconds (zero when unknown).
    pub(super) fn control(&mut self, rate: f64, rtt: f64) -> Control {
        self.changes = self.changes.wrapping_add(1).max(1);
        let per_rtt = rate / 8.0 * rtt;
        let least = 2.0 * self.header;
        if rtt <= 0.0 || per_rtt >= least {
            self.wait = 1.0;
        }
        if rtt <= 0.0 || per_rtt >= self.mss + self.header {
            let segment = Some(Bytes(self.mss as u64));
            return Control { window: None, pacing: Some(Rate::from_bps(rate.max(1.0))), segment };
        }
        // Not longer than the rate asks for.
        let wait = if per_rtt * self.wait > least { (least / per_rtt).max(1.0) } else { self.wait };
        let payload = libm::floor(per_rtt * wait - self.header).max(1.0);
        let pacing = rate.max((payload + self.header) * 8.0 / (wait * rtt));
        Control { window: None, pacing: Some(Rate::from_bps(pacing)), segment: Some(Bytes(payload as u64)) }
    }
}

/// What a sender of the family knows of its path: the RTT it reports in its headers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Path {
    /// Latest sample in seconds; every ACK gives one, as it echoes the send time of what it answers.
    pub latest: f64,
    /// Smallest sample in seconds.
    pub smallest: f64,
}

impl Path {
    #[inline]
    pub(super) fn sample(&mut self, ack: &AckRecord<'_>) {
        let rtt = ack.now.since(ack.sent_at).as_secs();
        self.latest = rtt;
        if self.smallest == 0.0 || rtt < self.smallest {
            self.smallest = rtt;
        }
    }
}

/// The sender of RCP and QI-RCP: its rate is the one announced. Eq. (2).
pub struct Announced {
    pacer: Pacer,
    path: Path,
    rate: f64,
    control: Control,
}

impl Announced {
    /// A sender that has heard nothing yet.
    pub fn new(cfg: &TcpConfig) -> Announced {
        let pacer = Pacer::new(cfg);
        Announced { control: pacer.unlimited(), pacer, path: Path::default(), rate: 0.0 }
    }
    #[inline]
    fn hear(&mut self, ack: &AckRecord<'_>) {
        self.path.sample(ack);
        let Some(header) = ack.header.get::<RcpHeader>() else { return };
        // Eq. (2): x_i(t) = min over the path of R_l(t - D<-); routers have taken the minimum already
        let rate = header.rate as f64;
        if rate != self.rate {
            self.rate = rate;
            self.control = self.pacer.control(rate, self.path.smallest);
        }
    }
}

impl WindowLaw for Announced {
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

// --- The router -------------------------------------------------------------------------------------

/// Writes a router's rate into a leaving packet when it is the smallest so far.
#[inline]
pub(super) fn announce<A: Arithmetic>(
    work: &mut A,
    rate: f64,
    epoch: u32,
    packet: &Packet,
    header: &mut CcHeader,
) {
    if !packet.is_forward() {
        return;
    }
    if let Some(mut h) = header.get::<RcpHeader>() {
        if work.less(rate, h.rate as f64) {
            h.rate = rate as f32;
            h.epoch = epoch;
            header.set(&h);
        }
    }
}

/// Waiting bytes without the packet in service: a busy link always holds that one.
#[inline]
pub(super) fn waiting(link: &LinkView) -> f64 {
    let n = link.queue_packets as f64;
    if n < 1.0 {
        0.0
    } else {
        link.queue_bytes as f64 * (n - 1.0) / n
    }
}

/// Smallest rate on the link in bit/s that `floor` full packets per `rtt` make, never above the capacity.
pub(super) fn floor_rate(floor: f64, link: &LinkFacts, rtt: f64) -> f64 {
    (floor * f64::from(link.packet + link.framing) * 8.0 / rtt).min(link.capacity.as_bps())
}

/// Parameters of an RCP router.
#[derive(Clone, Copy, Debug)]
struct Settings {
    alpha: f64,
    beta: f64,
    interval: f64,
    per_flow: bool,
    slow_fall: bool,
    initial: f64,
    floor: f64,
}

/// The router of RCP. Eq. (1).
struct Router<A> {
    set: Settings,
    link: LinkFacts,
    work: A,
    /// R_l in bit/s on the link.
    rate: f64,
    /// The share of it that is packets: what senders are told.
    told: f64,
    /// d_l in seconds.
    mean_rtt: f64,
    /// y_l of the last interval in bit/s.
    arrival_rate: f64,
    /// Bytes that arrived in this interval.
    bytes: f64,
    /// Sum of RTT x weight and of weights in this interval.
    rtt_sum: f64,
    weight: f64,
    /// Flows counted in this interval, for the mean over flows.
    seen: BTreeSet<u32>,
    epoch: u32,
    began: Time,
    due: Time,
}

impl<A: Arithmetic> Router<A> {
    fn new(set: &Settings, link: &LinkFacts) -> Router<A> {
        let mean_rtt = link.base_rtt.as_secs().max(1e-6);
        let rate = set.initial * link.capacity.as_bps();
        Router {
            set: *set,
            link: *link,
            work: A::default(),
            rate,
            told: rate * link.packet_share(),
            mean_rtt,
            arrival_rate: 0.0,
            bytes: 0.0,
            rtt_sum: 0.0,
            weight: 0.0,
            seen: BTreeSet::new(),
            epoch: 1,
            began: Time::ZERO,
            due: Time::ZERO + Dur::from_secs(set.interval.min(mean_rtt)),
        }
    }
}

impl<A: Arithmetic> LinkController for Router<A> {
    #[inline]
    fn on_arrival(&mut self, _: Time, link: &LinkView, packet: &mut Packet, header: &mut CcHeader) {
        let len = f64::from(link.len(packet));
        self.bytes = self.work.add(self.bytes, len);
        if packet.is_forward() {
            self.work.packet();
            if let Some(h) = header.get::<RcpHeader>() {
                let rtt = h.rtt as f64;
                if rtt > 0.0 {
                    if !self.set.per_flow {
                        let weighted = self.work.mul(rtt, len);
                        self.rtt_sum = self.work.add(self.rtt_sum, weighted);
                        // The weights are the bytes already counted, but for packets without an RTT.
                        self.weight += len;
                    } else if self.seen.insert(packet.flow) {
                        self.rtt_sum = self.work.add(self.rtt_sum, rtt);
                        self.weight = self.work.add(self.weight, 1.0);
                    }
                }
            }
        }
    }
    #[inline]
    fn on_departure(&mut self, _: Time, _: &LinkView, packet: &mut Packet, header: &mut CcHeader) {
        announce(&mut self.work, self.told, self.epoch, packet, header);
    }
    fn looks(&self) -> Looks {
        Looks::HEADERS
    }
    fn deadline(&self) -> Time {
        self.due
    }
    fn on_deadline(&mut self, now: Time, link: &LinkView) {
        let set = &self.set;
        let t = now.since(self.began).as_secs();
        if self.weight > 0.0 {
            // Moving average over about one RTT, as the public router does; no sample, no change.
            let sample = self.rtt_sum / self.weight;
            let mut gain = (t / self.mean_rtt).min(1.0);
            if set.slow_fall && sample < self.mean_rtt {
                // Public router (rcp.cc of Zhang and Dukkipati): gain (R/C)(sample/d)(T/d) where d would fall
                gain *= self.rate / self.link.capacity.as_bps() * (sample / self.mean_rtt);
            }
            self.mean_rtt += gain * (sample - self.mean_rtt);
        }
        let d = self.mean_rtt;
        let c = self.link.capacity.as_bps();
        let y = self.bytes * 8.0 / t;
        let q = waiting(link) * 8.0;
        // Eq. (1): R = R(t-T) [1 + (T/d)/C (alpha (C - y) - beta q/d)]
        let next = self.rate * (1.0 + t / d / c * (set.alpha * (c - y) - set.beta * q / d));
        self.rate = next.clamp(floor_rate(set.floor, &self.link, d), c);
        self.told = self.rate * self.link.packet_share();
        self.arrival_rate = y;
        self.bytes = 0.0;
        self.rtt_sum = 0.0;
        self.weight = 0.0;
        self.seen.clear();
        self.epoch += 1;
        self.began = now;
        self.due = now + Dur::from_secs(set.interval.min(d));
    }
    fn observe(&self, report: &mut Report<'_>) {
        report(&FAIR_RATE, self.rate);
        report(&ARRIVAL_RATE, self.arrival_rate);
        report(&MEAN_RTT, self.mean_rtt);
        self.work.observe(report);
    }
}

/// What a router of the queue-independent kind measures over one interval: bytes and the largest RTT.
#[derive(Clone, Debug)]
pub(super) struct Meter<A> {
    pub work: A,
    bytes: f64,
    largest: f64,
    /// Largest RTT of the last interval that had a sample, in seconds.
    pub rtt: f64,
    /// Arrival rate y_l of the last interval in bit/s.
    pub arrival_rate: f64,
    began: Time,
}

impl<A: Arithmetic> Meter<A> {
    pub(super) fn new(link: &LinkFacts) -> Meter<A> {
        Meter {
            work: A::default(),
            bytes: 0.0,
            largest: 0.0,
            rtt: link.base_rtt.as_secs(),
            arrival_rate: 0.0,
            began: Time::ZERO,
        }
    }
    #[inline]
    pub(super) fn arrival(&mut self, link: &LinkView, packet: &Packet, header: &CcHeader) {
        self.bytes = self.work.add(self.bytes, f64::from(link.len(packet)));
        if packet.is_forward() {
            self.work.packet();
            if let Some(h) = header.get::<RcpHeader>() {
                let rtt = h.rtt as f64;
                if self.work.less(self.largest, rtt) {
                    self.largest = rtt;
                }
            }
        }
    }
    /// Ends the interval: the arrival rate y_l in bit/s.
    pub(super) fn close(&mut self, now: Time) -> f64 {
        let y = self.bytes * 8.0 / now.since(self.began).as_secs();
        if self.largest > 0.0 {
            self.rtt = self.largest;
        }
        self.bytes = 0.0;
        self.largest = 0.0;
        self.began = now;
        self.arrival_rate = y;
        y
    }
}

/// How a queue-independent router chooses kappa from the largest RTT.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gain {
    /// Fraction of the bound, eta.
    pub eta: f64,
    /// Control interval in seconds.
    pub interval: f64,
    /// Use (35) instead of the sine.
    pub simple: bool,
    /// Intervals between announcing a rate and measuring it, beyond the RTT.
    pub lag: f64,
}

impl Gain {
    pub(super) const PARAMS: [ParamSpec; 4] = [
        INTERVAL,
        ParamSpec::new(
            "eta",
            Kind::Float,
            "0.5",
            "kappa as a fraction of its stability bound",
            "PIQI-RCP section IV",
        )
        .range(1e-6, 100.0),
        ParamSpec::new(
            "bound",
            Kind::Choice(&["exact", "simple"]),
            "exact",
            "stability bound: the sine of (6) or (20), or the fraction of (35)",
            "PIQI-RCP eq. (6), (20), (35)",
        ),
        ParamSpec::new(
            "lag",
            Kind::Float,
            "0",
            "control intervals a rate needs, beyond the RTT, to show in the measured arrival rate",
            "PIQI-RCP eq. (6), (20): D/T; 1 where the average over an interval counts",
        )
        .range(0.0, 10.0),
    ];
    pub(super) fn read(p: &Params) -> Gain {
        Gain {
            eta: p.float("eta"),
            interval: p.float("interval"),
            simple: p.text("bound") == "simple",
            lag: p.float("lag"),
        }
    }
    /// Eq. (6) for the largest RTT in seconds: kappa* of QI-RCP; PIQI-RCP's is half of it (20).
    pub(super) fn bound(&self, rtt: f64) -> f64 {
        if self.simple {
            // Twice Eq. (35), which is PIQI-RCP's: T / (T + D)
            return self.interval / (self.interval + rtt);
        }
        // A loop shorter than one interval is one interval (section IV-A).
        let d = (rtt / self.interval + self.lag).max(1.0);
        2.0 * libm::sin(core::f64::consts::PI / (2.0 * (2.0 * d - 1.0)))
    }
}

#[cfg(test)]
mod tests;
