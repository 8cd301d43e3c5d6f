//! What all laws for RDMA over Ethernet have in common: packets, acknowledgements, windows, marking and pause at the switches; and
//! `roce`, no control at all.
//!
//! `rules=hpcc-ns3` takes the habits of the HPCC group's public ns-3 code in everything that a law or a card does; what they are is in
//! docs/validation/hpcc-ns3.md, read off that code's description and runs. A switch keeps the habits of this repository, but for its parameters and, with
//! `clock=whole-ns`, its accounting of room (`pfc_accounting`).

use crate::registry::{LinkNeeds, Lossless, Protocol, Suite, Wire};
use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use penstock_core::params::parse_size;
use penstock_core::quantity::RATE;
use penstock_core::{Kind, ParamError, ParamSpec, Params, Report};
use penstock_fabric::pint::PintConfig;
use penstock_fabric::{Accounting, PauseAt, Scheduler};
use penstock_host::rdma::{
    self, AckRecord, BuildLaw, LawFacts, LineRate, LossSign, PairView, RateControl, RateLaw, RdmaConfig,
    Recovery, Turns,
};
use penstock_units::{Bytes, Dur, Rate, Time};

/// No control.
pub const ROCE: Protocol = Protocol {
    name: "roce",
    text: "RDMA with go-back-N at the line rate: no control but pause frames, and a window if there is one",
    cites: "InfiniBand Architecture Specification volume 1 (from memory)",
    params: PARAMS,
    reports: &[&RATE],
    build: |p| build(p, &Nature::default(), Arc::new(|_| Box::new(LineRate))),
};

/// Parameters of every law.
pub(super) const PARAMS: &[ParamSpec] = &[
    ParamSpec::new(
        "rules",
        Kind::Choice(&["paper", "hpcc-ns3"]),
        "paper",
        "rules of the paper, or of the HPCC group's public simulator",
        "docs/validation/hpcc-ns3.md",
    ),
    ParamSpec::new(
        "clock",
        Kind::Choice(&["exact", "whole-ns"]),
        "exact",
        "times of links and cards: exact, or whole nanoseconds, cut off, for comparisons with rules=hpcc-ns3",
        "docs/validation/hpcc-ns3.md",
    ),
    ParamSpec::new(
        "window",
        Kind::Text,
        "",
        "most payload in flight: off, bdp (line rate x base_rtt) or a size; unset = off, or the law's value",
        "HPCC section 5.1: +win of DCQCN and TIMELY",
    ),
    ParamSpec::new(
        "window_by_rate",
        Kind::Bool,
        "",
        "the window shrinks with the rate; unset = with rules=hpcc-ns3",
        "the public code's VAR_WIN",
    ),
    ParamSpec::new(
        "base_rtt",
        Kind::Duration,
        "",
        "round trip of window=bdp, and T of HPCC; unset = the scenario's smallest and four packets",
        "",
    )
    .range(1e-9, 10.0),
    ParamSpec::new("rate_max", Kind::Rate, "", "rate of a new pair, and its largest; unset = the link's", "")
        .range(1.0, 1e15),
    ParamSpec::new(
        "rate_min",
        Kind::Rate,
        "",
        "smallest rate; unset = 1/400 of the link, 1 Gb/s with rules=hpcc-ns3",
        "DCQCN's authors' simulator: 100 Mb/s at 40 Gb/s",
    )
    .range(1.0, 1e12),
    ParamSpec::new(
        "ack_every",
        Kind::Count,
        "1",
        "packets in order for each ACK",
        "chosen; network cards coalesce",
    )
    .range(1.0, 1e4),
    ParamSpec::new(
        "rto",
        Kind::Duration,
        "",
        "timeout for go-back-N, 0s = never; unset = least 4.096 us x 2^n above 1 ms, 20 base round trips and the drain time of full switches; with \
        rules=hpcc-ns3 never, unless recovery=irn",
        "InfiniBand: 4.096 us x 2^n; n chosen",
    )
    .range(0.0, 100.0),
    ParamSpec::new(
        "recovery",
        Kind::Choice(&["go-back-n", "irn", "off"]),
        "go-back-n",
        "retransmission: go-back-N from the first gap; selective repeat, as IRN; or off, for a lossless network",
        "Mittal et al., SIGCOMM 2018, section 3",
    ),
    ParamSpec::new(
        "rto_low",
        Kind::Duration,
        "",
        "recovery=irn: timeout while at most rto_low_packets are outstanding; unset = 5/16 of rto",
        "SIGCOMM 2018 section 4.1: 100 us beside 320 us",
    )
    .range(1e-9, 100.0),
    ParamSpec::new(
        "rto_low_packets",
        Kind::Count,
        "3",
        "recovery=irn: packets outstanding up to which rto_low holds (N)",
        "SIGCOMM 2018 section 4.1",
    )
    .range(0.0, 1e6),
    ParamSpec::new(
        "header",
        Kind::Size,
        "",
        "headers of a data packet, link framing not counted; unset = 44 B and telemetry, 48 B and telemetry with \
         rules=hpcc-ns3",
        "RoCEv2: IP 20, UDP 8, BTH 12, ICRC 4",
    )
    .range(20.0, 1000.0),
    ParamSpec::new(
        "ack",
        Kind::Size,
        "",
        "an ACK or NACK; unset = 48 B and telemetry, 46 B and telemetry but 60 B at least with rules=hpcc-ns3",
        "RoCEv2: a header and AETH 4",
    )
    .range(20.0, 1000.0),
    ParamSpec::new("priority", Kind::Count, "3", "priority of data, lossless", "chosen: the usual one")
        .range(0.0, 7.0),
    ParamSpec::new(
        "control_priority",
        Kind::Count,
        "6",
        "priority of ACK, NACK and CNP",
        "DCQCN section 5: CNPs have high priority",
    )
    .range(0.0, 7.0),
    ParamSpec::new("kmin", Kind::Size, "", "queue from which packets are marked; unset: see the law", "")
        .range(0.0, 1e12),
    ParamSpec::new("kmax", Kind::Size, "", "queue from which all packets are marked; unset = the law's value", "")
        .range(0.0, 1e12),
    ParamSpec::new("pmax", Kind::Float, "", "probability of a mark just below kmax; unset = the law's value", "")
        .range(0.0, 1.0),
    ParamSpec::new(
        "ns3_stream",
        Kind::Count,
        "",
        "rules=hpcc-ns3: number of the first random stream of ns-3's generator, for marks (one stream per packet); unset = own random numbers",
        "docs/validation/hpcc-ns3.md",
    )
    .range(0.0, 1e6),
    ParamSpec::new("ns3_run", Kind::Count, "1", "with ns3_stream: ns-3's number of the run", "its RngRun")
        .range(1.0, 1e4),
    ParamSpec::new(
        "k_rate",
        Kind::Rate,
        "",
        "rate of the link for which kmin and kmax hold, in proportion for others; unset = the same for all links",
        "",
    )
    .range(1.0, 1e15),
    ParamSpec::new(
        "pfc_alpha",
        Kind::Float,
        "",
        "a lane is paused at this share of the free buffer; unset = 1/8, 1/4 with rules=hpcc-ns3",
        "DCQCN section 4: beta = 8",
    )
    .range(1e-6, 64.0),
    ParamSpec::new(
        "pfc_alpha_by_rate",
        Kind::Bool,
        "false",
        "pfc_alpha of a lane grows with its link's rate over the hosts' rate, rounded up to a power of two; alpha is at most 1",
        "the public code's pfc_a_shift",
    ),
    ParamSpec::new(
        "pfc_gap",
        Kind::Size,
        "",
        "a lane resumes this far below its threshold; unset = two packets, 3072 B with rules=hpcc-ns3",
        "chosen",
    )
    .range(0.0, 1e9),
    ParamSpec::new(
        "pfc_reserve",
        Kind::Size,
        "",
        "bytes each lane has for itself; unset = a packet, 4096 B with rules=hpcc-ns3",
        "chosen",
    )
    .range(0.0, 1e9),
    ParamSpec::new(
        "pfc_headroom",
        Kind::Float,
        "",
        "headroom as a multiple of rate x delay of the link; unset = by formula (docs/reference/fabric.md), 3 with rules=hpcc-ns3",
        "IEEE 802.1Qbb; the public code",
    )
    .range(0.0, 1000.0),
    ParamSpec::new(
        "pfc_accounting",
        Kind::Choice(&["until-sent", "until-taken"]),
        "",
        "until-sent: a packet occupies memory until its last bit has left; until-taken: until its service begins, as in the HPCC group's code, with \
        pause frames of 43 B; unset = until-sent, with clock=whole-ns until-taken",
        "chosen; docs/validation/hpcc-ns3.md",
    ),
];

/// `own` parameters of a law and those of all.
pub(super) const fn join<const N: usize>(own: &[ParamSpec]) -> [ParamSpec; N] {
    let mut all = [PARAMS[0]; N];
    let mut i = 0;
    while i < N {
        all[i] = if i < own.len() { own[i] } else { PARAMS[i - own.len()] };
        i += 1;
    }
    all
}

/// Marking at a link of `rate`; links of other rates in proportion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks {
    pub kmin: f64,
    pub kmax: f64,
    pub pmax: f64,
    pub rate: f64,
}

/// What a law asks of card and switch where the user says nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Nature {
    /// Switches write telemetry.
    pub telemetry: bool,
    /// Telemetry is a digest, whose codes' loads have this ratio.
    pub pint: Option<f64>,
    /// Bytes that data packets carry for the law beside the usual headers, by rules: paper, hpcc-ns3.
    pub extra: [u32; 2],
    /// Marking by rules; `None` = no marks unless kmin and kmax are given.
    pub marks: [Option<Marks>; 2],
    /// The law works on CNPs; with rules=hpcc-ns3 it works on the marks that ACKs carry.
    pub cnp: Option<Dur>,
    /// A window of one BDP is part of the law, where it is not `off`.
    pub window: bool,
}

pub(super) fn is_ns3(p: &Params) -> bool {
    p.text("rules") == "hpcc-ns3"
}

/// Rates that a law works between, bits per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rates {
    /// Of the link.
    pub line: f64,
    pub max: f64,
    pub min: f64,
    pub base_rtt: Dur,
    /// `rate_max`, where it is given.
    pub asked: Option<f64>,
}

impl Rates {
    /// The link has another rate; answers the largest rate until now.
    pub fn set_line(&mut self, line: Rate) -> f64 {
        let was = self.max;
        self.line = line.as_bps();
        self.max = self.asked.unwrap_or(self.line).min(self.line);
        self.min = self.min.min(self.max);
        was
    }
    /// Bytes that the largest rate sends in a base round trip.
    pub fn pipe(&self) -> f64 {
        self.max * self.base_rtt.0 as f64 / 8e12
    }
    /// What becomes of a rate then: one that was the largest stays the largest, none is above it.
    pub fn follow(&self, rate: f64, was: f64) -> f64 {
        if rate < was {
            rate.min(self.max)
        } else {
            self.max
        }
    }
}

/// Finds them for a pair.
pub(super) fn rates(p: &Params) -> impl Fn(&LawFacts) -> Rates + Clone + Send + Sync + 'static {
    let get = |key: &str| p.is_set(key).then(|| p.rate(key).as_bps());
    let (max, min) = (get("rate_max"), get("rate_min"));
    let base_rtt = p.is_set("base_rtt").then(|| p.dur("base_rtt"));
    let ns3 = is_ns3(p);
    move |facts| {
        let line = facts.line.as_bps();
        let asked = max;
        let max = max.unwrap_or(line).min(line);
        let min = min.unwrap_or(if ns3 { 1e9 } else { line / 400.0 }).min(max);
        let packets = Bytes(4 * u64::from(facts.wire)) / facts.line;
        Rates { line, max, min, base_rtt: base_rtt.unwrap_or(facts.base_rtt + packets), asked }
    }
}

/// A window of so many bytes round a law that has none.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Window {
    Off,
    Bdp,
    Bytes(u64),
}

fn window(p: &Params, nature: &Nature) -> Result<Window, ParamError> {
    Ok(match p.text("window") {
        "" if nature.window => Window::Bdp,
        "" | "off" => Window::Off,
        "bdp" => Window::Bdp,
        text => match parse_size(text).filter(|b| (1.0..1e15).contains(b)) {
            Some(bytes) => Window::Bytes(bytes as u64),
            None => return Err(p.error("window", "must be off, bdp or a size such as 52KB")),
        },
    })
}

/// A protocol of this family: `law` makes the law of a pair.
pub(super) fn build(p: &Params, nature: &Nature, law: BuildLaw) -> Result<Suite, ParamError> {
    let ns3 = is_ns3(p);
    let whole_links = p.text("clock") == "whole-ns";
    if whole_links && !ns3 {
        return Err(p.error("clock", "needs rules=hpcc-ns3: no other rules are of whole nanoseconds"));
    }
    let set = |key: &str| p.is_set(key);
    let bytes = |key: &str, otherwise: u32| if set(key) { p.bytes(key).0 as u32 } else { otherwise };
    let extra = nature.extra[usize::from(ns3)];
    let recovery = p.text("recovery");
    let rto = match (set("rto"), ns3 && recovery != "irn") {
        (true, _) => Some(p.dur("rto")).map(|rto| if rto == Dur::ZERO { Dur::MAX } else { rto }),
        (false, true) => Some(Dur::MAX),
        (false, false) => None,
    };
    let (rto_low, few) = (set("rto_low").then(|| p.dur("rto_low")), p.count("rto_low_packets") as u32);
    if recovery != "irn" {
        ["rto_low", "rto_low_packets"].iter().for_each(|key| p.no_effect(key));
    }
    let config = RdmaConfig {
        header: bytes("header", if ns3 { 48 } else { 44 } + extra),
        ack: bytes("ack", if ns3 { (46 + extra).max(60) } else { 48 + extra }),
        cnp: if p.declares("cnp") && !ns3 { p.bytes("cnp").0 as u32 } else { 60 },
        ack_every: p.count("ack_every") as u32,
        rto: rto.unwrap_or(Dur::MAX),
        data_priority: p.count("priority") as u8,
        control_priority: p.count("control_priority") as u8,
        cnp_interval: nature.cnp.filter(|_| !ns3),
        overshoot: ns3,
        ack_repeated: !ns3,
        nack_again: ns3.then(|| Dur::micros(500)),
        turns: if ns3 { Turns::Scan } else { Turns::Line },
        whole_ns: ns3,
        whole_links,
        recovery: if recovery == "off" { Recovery::Off } else { Recovery::GoBackN },
    };
    config.check()?;
    let window = window(p, nature)?;
    let by_rate =
        if window == Window::Off || !set("window_by_rate") { ns3 } else { p.flag("window_by_rate") };
    let rates = rates(p);
    let law: BuildLaw = match window {
        Window::Off => law,
        _ => Arc::new(move |facts| {
            let r = rates(facts);
            let bytes = match window {
                Window::Bytes(bytes) => bytes,
                _ => r.pipe() as u64,
            };
            Box::new(Windowed { law: law(facts), window: bytes.max(1), max: by_rate.then_some(r.max) })
        }),
    };
    let marks = marking(p, nature.marks[usize::from(ns3)])?;
    let alpha = if set("pfc_alpha") { p.float("pfc_alpha") } else { [0.125, 0.25][usize::from(ns3)] };
    let size = |key: &str, ns3_value: u64| match (set(key), ns3) {
        (true, _) => Some(p.bytes(key).0),
        (false, true) => Some(ns3_value),
        (false, false) => None,
    };
    let alpha_by_rate = p.flag("pfc_alpha_by_rate");
    let (gap, reserve) = (size("pfc_gap", 3072), size("pfc_reserve", 4096));
    let headroom = if set("pfc_headroom") { Some(p.float("pfc_headroom")) } else { ns3.then_some(3.0) };
    let accounting = match p.text("pfc_accounting") {
        "" if whole_links => Accounting::UntilTaken,
        "until-taken" => Accounting::UntilTaken,
        _ => Accounting::UntilSent,
    };
    let (data, telemetry, pint_base) = (config.data_priority, nature.telemetry, nature.pint);
    let base_rtt = p.is_set("base_rtt").then(|| p.dur("base_rtt"));
    let (selective, required) = (recovery == "irn", recovery == "off");
    let wire = Wire { header: config.header, ack: config.ack };
    let suite = Suite::own(
        Arc::new(move |facts| {
            let mut config = config.clone();
            if rto.is_none() {
                // A timer below the queueing delay sends again what is only waiting. Without loss nothing else can be waited for.
                let least = Dur::millis(1).max(facts.base_rtt * 20).max(facts.base_rtt + facts.longest_wait);
                let first = (0..32).map(|n| Dur::nanos(4096u64 << n)).find(|rto| *rto > least);
                config.rto = first.unwrap_or(least);
            }
            if selective {
                // In proportion to the paper's: a timer below the queueing delay sends again what is only waiting.
                let low = if config.rto == Dur::MAX { Dur::MAX } else { Dur(config.rto.0 / 16 * 5) };
                config.recovery = Recovery::Selective { rto_low: rto_low.unwrap_or(low), few };
            } else if required {
                config.rto = Dur::MAX;
            }
            rdma::stack(facts, config, law.clone())
        }),
        wire,
        Some(Arc::new(move |facts| {
            let packet = u64::from(facts.packet);
            LinkNeeds {
                scheduler: Scheduler::Strict,
                queue: marks.as_ref().map(|ramp| (data, ramp(facts.capacity.as_bps(), packet))),
                data: 1 << data,
                lossless: Some(Lossless {
                    priorities: 1 << data,
                    pause: PauseAt::Dynamic { alpha, gap: gap.unwrap_or(2 * packet) },
                    reserve: reserve.unwrap_or(packet),
                    headroom,
                    accounting,
                    alpha_by_rate,
                    required,
                }),
                telemetry,
                pint: pint_base.map(|base| PintConfig {
                    // As `rates` has it.
                    horizon: base_rtt.unwrap_or(facts.base_rtt + Bytes(4 * packet) / facts.capacity),
                    base,
                }),
                whole_ns: whole_links,
                ..LinkNeeds::default()
            }
        })),
    );
    Ok(Suite { lasts: true, ..suite })
}

/// Packets of full length that a step is at by default at least.
const STEP_LEAST: u64 = 4;

type Ramp = Box<dyn Fn(f64, u64) -> alloc::string::String + Send + Sync>;

/// The queue discipline of a link, by its rate and its packets.
fn marking(p: &Params, usual: Option<Marks>) -> Result<Option<Ramp>, ParamError> {
    let bytes = |key: &str| p.is_set(key).then(|| p.bytes(key).0 as f64);
    let (kmin, kmax) = (bytes("kmin"), bytes("kmax"));
    if let (Some(kmin), Some(kmax)) = (kmin, kmax) {
        if kmin > kmax {
            return Err(p.error("kmin", format!("must not be above kmax ({})", p.text("kmax"))));
        }
    }
    let of = p.is_set("k_rate").then(|| p.rate("k_rate").as_bps());
    let at = if is_ns3(p) { "dequeue" } else { "arrival" };
    let pmax = p.is_set("pmax").then(|| p.float("pmax"));
    let draws = if p.is_set("ns3_stream") {
        if !is_ns3(p) {
            return Err(p.error("ns3_stream", "needs rules=hpcc-ns3: no other rules draw as ns-3 does"));
        }
        format!(",ns3_stream={},ns3_run={}", p.count("ns3_stream"), p.count("ns3_run"))
    } else {
        p.no_effect("ns3_run");
        Default::default()
    };
    let Some(usual) = usual.or_else(|| {
        let (kmin, kmax) = (kmin?, kmax?);
        Some(Marks { kmin, kmax, pmax: 1.0, rate: 1.0 })
    }) else {
        return Ok(None);
    };
    let pmax = pmax.unwrap_or(usual.pmax);
    let step = usual.kmin == usual.kmax;
    Ok(Some(Box::new(move |rate, packet| {
        let own = of.map_or(1.0, |of| rate / of);
        let usually = |k: f64| (k * (rate / usual.rate)) as u64;
        // A step marks all that find so much. It stays above what a lone sender at the line rate can leave there, also when timing noise
        // brings two of its packets together.
        let floor = if step { STEP_LEAST * packet } else { packet };
        let kmin = kmin.map_or(usually(usual.kmin).max(floor), |k| (k * own) as u64);
        let least = if step { kmin } else { 2 * kmin };
        let kmax = kmax.map_or(usually(usual.kmax).max(least), |k| (k * own) as u64).max(kmin);
        format!("ramp:kmin={kmin}B,kmax={kmax}B,pmax={pmax},at={at}{draws}")
    })))
}

/// A window round a law: so many bytes, or that share of them which the rate is of the largest.
struct Windowed {
    law: Box<dyn RateLaw>,
    window: u64,
    max: Option<f64>,
}

impl RateLaw for Windowed {
    fn on_ack(&mut self, ack: &AckRecord<'_>, pair: &PairView) {
        self.law.on_ack(ack, pair);
    }
    fn on_cnp(&mut self, now: Time, pair: &PairView) {
        self.law.on_cnp(now, pair);
    }
    fn on_sent(&mut self, now: Time, bytes: u32, pair: &PairView) {
        self.law.on_sent(now, bytes, pair);
    }
    fn on_loss(&mut self, now: Time, sign: LossSign, pair: &PairView) {
        self.law.on_loss(now, sign, pair);
    }
    fn on_line_rate(&mut self, now: Time, line: Rate) {
        self.law.on_line_rate(now, line);
    }
    fn control(&self) -> RateControl {
        let control = self.law.control();
        let share = match (self.max, control.rate) {
            (Some(max), Some(rate)) => rate.as_bps() / max,
            _ => 1.0,
        };
        let own = ((self.window as f64 * share) as u64).max(1);
        RateControl { window: Some(control.window.map_or(own, |w| w.min(own))), ..control }
    }
    fn moves_departures(&self) -> bool {
        self.law.moves_departures()
    }
    fn deadline(&self) -> Time {
        self.law.deadline()
    }
    fn on_deadline(&mut self, now: Time, pair: &PairView) {
        self.law.on_deadline(now, pair);
    }
    fn observe(&self, report: &mut Report<'_>) {
        self.law.observe(report);
    }
}

/// `rate` as a card takes it.
pub(super) fn bps(rate: f64) -> Option<Rate> {
    Some(Rate::from_bps(rate))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{protocol, LinkFacts};
    use alloc::string::ToString;

    /// What a port of `gbps` gets.
    fn queue(text: &str, gbps: u64) -> Option<alloc::string::String> {
        let (_, suite) = protocol("protocol", text).unwrap_or_else(|e| panic!("{e}"));
        let facts = LinkFacts {
            port: 0,
            capacity: Rate(gbps * 1_000_000_000),
            base_rtt: Dur::micros(10),
            packet: 1048,
            framing: 0,
        };
        suite.link.expect("needs")(&facts).queue.map(|(_, ramp)| ramp)
    }

    #[test]
    fn thresholds_follow_the_rate_of_the_link() {
        let ns3 = "dcqcn:rules=hpcc-ns3";
        // The public scripts: 100 and 400 kB for each 25 Gb/s, 0.2.
        assert_eq!(queue(ns3, 100).unwrap(), "ramp:kmin=400000B,kmax=1600000B,pmax=0.2,at=dequeue");
        let given = "dcqcn:rules=hpcc-ns3,kmin=4KB,kmax=16KB,k_rate=10Gbps,pmax=0.5";
        assert_eq!(queue(given, 40).unwrap(), "ramp:kmin=16000B,kmax=64000B,pmax=0.5,at=dequeue");
        let drawn = queue("dcqcn:rules=hpcc-ns3,ns3_stream=26", 100).unwrap();
        assert_eq!(drawn, "ramp:kmin=400000B,kmax=1600000B,pmax=0.2,at=dequeue,ns3_stream=26,ns3_run=1");
        // Section 5.2: 5 and 200 KB at 40 Gb/s, 0.01; never below a packet.
        assert_eq!(queue("dcqcn", 40).unwrap(), "ramp:kmin=5000B,kmax=200000B,pmax=0.01,at=arrival");
        assert_eq!(queue("dcqcn", 1).unwrap(), "ramp:kmin=1048B,kmax=5000B,pmax=0.01,at=arrival");
        assert_eq!(queue("roce", 40), None);
    }
    #[test]
    fn what_cannot_work_is_said() {
        for (text, message) in [
            ("dcqcn:kmin=9KB,kmax=8KB", "protocol:kmin = \"9KB\": must not be above kmax (8KB)"),
            (
                "dcqcn:ns3_stream=26",
                "protocol:ns3_stream = \"26\": needs rules=hpcc-ns3: no other rules draw as ns-3 does",
            ),
            ("hpcc:window=much", "protocol:window = \"much\": must be off, bdp or a size such as 52KB"),
        ] {
            assert_eq!(protocol("protocol", text).err().expect("it is bad").to_string(), message);
        }
        let message = protocol("protocol", "dcqcn:pmax=1.5").err().expect("it is bad").to_string();
        assert!(message.starts_with("protocol:pmax = \"1.5\": "), "{message}");
    }
    #[test]
    fn a_window_shrinks_with_the_rate_where_it_is_told_to() {
        struct Half;
        impl RateLaw for Half {
            fn control(&self) -> RateControl {
                RateControl { rate: bps(5e9), window: None }
            }
        }
        let window = |max| Windowed { law: Box::new(Half), window: 30_001, max }.control().window;
        assert_eq!((window(None), window(Some(1e10))), (Some(30_001), Some(15_000)));
    }
}
