//! HPCC: switches write their load into packets, a sender sets its window by the most loaded link of the path (Li et al., SIGCOMM
//! 2019, section 3 and algorithm 1; read from memory).
//!
//! `rules=hpcc-ns3` follows the authors' public code. The rate is controlled and the window follows it, so that
//! additive increase and bounds are rates. A queue is compared with the configured window, and telemetry is rounded to
//! the header's fields.
//!
//! `int=pint` has one byte of telemetry instead of 42. The switches average their load, and a packet carries the
//! largest as a rounded logarithm (PINT, Ben Basat et al., SIGCOMM 2020, from memory; constants of the public simulator
//! of HPCC-PINT). See `penstock_fabric::pint`.

use super::roce::{self, bps, is_ns3, join, rates, Nature, Rates};
use crate::registry::Protocol;
use alloc::boxed::Box;
use alloc::sync::Arc;
use penstock_core::quantity::RATE;
use penstock_core::rng::Entity;
use penstock_core::Stream;
use penstock_core::{Kind, ParamSpec, Quantity, Report, Unit};
use penstock_fabric::pint::{self, PintConfig};
use penstock_fabric::{Hop, MAX_HOPS};
use penstock_host::rdma::{AckRecord, PairView, RateControl, RateLaw};
use penstock_units::{Rate, Time};

static LOAD: Quantity = Quantity::new("u", Unit::One, "load of the most loaded link of the path (U)");
static STAGE: Quantity = Quantity::new("stage", Unit::One, "additive increases in a row (incStage)");

/// HPCC.
pub const HPCC: Protocol = Protocol {
    name: "hpcc",
    text: "HPCC: telemetry of every switch, a window that keeps the most loaded link of the path at eta",
    cites: "Li et al., SIGCOMM 2019 (from memory)",
    params: &join::<{ OWN.len() + roce::PARAMS.len() }>(OWN),
    reports: &[&RATE, &LOAD, &STAGE],
    build: |p| {
        let ns3 = is_ns3(p);
        let max_stage =
            if p.is_set("max_stage") { p.count("max_stage") as u32 } else { [5, 0][usize::from(ns3)] };
        let react = match p.text("react") {
            "per-ack" => React::PerAck,
            "per-rtt" => React::PerRtt,
            _ => React::Both,
        };
        let (eta, rates) = (p.float("eta"), rates(p));
        let rate_ai = (ns3 && p.is_set("rate_ai")).then(|| p.rate("rate_ai").as_bps());
        let w_ai = if ns3 { 0.0 } else { p.bytes("w_ai").0 as f64 };
        let window = match p.text("window") {
            "" | "bdp" | "off" => None,
            text => penstock_core::params::parse_size(text),
        };
        let multi = p.is_set("int_multi").then(|| p.count("int_multi"));
        let digest = match p.text("int") {
            "pint" => Some(Digest { base: p.float("pint_base"), share: p.float("pint_share") }),
            _ => {
                ["pint_base", "pint_share"].iter().for_each(|key| p.no_effect(key));
                None
            }
        };
        // Section 3.1: up to 42 bytes in a data packet and its ACK.
        let extra = if digest.is_some() { 1 } else { 42 };
        let pint = digest.map(|d| d.base);
        let nature = Nature { telemetry: true, pint, extra: [extra; 2], window: ns3, ..Nature::default() };
        roce::build(
            p,
            &nature,
            Arc::new(move |facts| {
                let r = rates(facts);
                let bdp = r.pipe();
                let ns3 = ns3.then(|| {
                    // The public scripts: 10 Mb/s, and a granularity of 1, for each 25 Gb/s.
                    let ai = rate_ai.unwrap_or(r.line / 2500.0);
                    let multi = multi.unwrap_or(((r.line / 25e9) as u64).max(1));
                    Ns3 { ai, multi, window: window.unwrap_or(bdp) }
                });
                Box::new(Hpcc::new(r, Settings { eta, max_stage, w_ai, react, ns3, digest }))
            }),
        )
    },
};

const OWN: &[ParamSpec] = &[
    ParamSpec::new("eta", Kind::Float, "0.95", "load of a link that is aimed at", "section 5.1")
        .range(0.01, 2.0),
    ParamSpec::new(
        "max_stage",
        Kind::Count,
        "",
        "additive increases before a multiplicative one; unset = 5, 0 with rules=hpcc-ns3",
        "section 5.1; the public scripts",
    )
    .range(0.0, 1e6),
    ParamSpec::new("w_ai", Kind::Size, "80", "additive increase of the window (W_AI)", "section 5.1")
        .range(0.0, 1e9),
    ParamSpec::new(
        "rate_ai",
        Kind::Rate,
        "",
        "additive increase with rules=hpcc-ns3; unset = 1/2500 of the link",
        "the public scripts: 10 Mb/s at 25 Gb/s",
    )
    .range(0.0, 1e12),
    ParamSpec::new(
        "react",
        Kind::Choice(&["both", "per-ack", "per-rtt"]),
        "both",
        "ACKs that set the window: every ACK, from a reference that changes once per round trip; every ACK, with the reference; or one ACK per round \
        trip",
        "section 3.2",
    ),
    ParamSpec::new(
        "int_multi",
        Kind::Count,
        "",
        "rules=hpcc-ns3: telemetry counts 128 B sent and 80 B queued, times this; unset = link rate / 25 Gb/s",
        "the public scripts",
    )
    .range(1.0, 1e6),
    ParamSpec::new(
        "int",
        Kind::Choice(&["full", "pint"]),
        "full",
        "telemetry: one record per switch, or the largest load of the path in one byte",
        "PINT, SIGCOMM 2020",
    ),
    ParamSpec::new(
        "pint_base",
        Kind::Float,
        "1.05",
        "int=pint: ratio of the loads of two neighbouring codes",
        "the public simulator of HPCC-PINT",
    )
    .range(1.001, 2.0),
    ParamSpec::new(
        "pint_share",
        Kind::Float,
        "1",
        "int=pint: share of the ACKs that the sender reads (p)",
        "PINT, SIGCOMM 2020: 1, 1/16 and 1/256",
    )
    .range(1e-4, 1.0),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum React {
    Both,
    PerAck,
    PerRtt,
}

/// What the public code has of its own.
#[derive(Clone, Copy, Debug)]
struct Ns3 {
    /// Additive increase, bits per second.
    ai: f64,
    multi: u64,
    /// Configured window in bytes.
    window: f64,
}

/// Telemetry in one byte.
#[derive(Clone, Copy, Debug)]
struct Digest {
    base: f64,
    /// Share of ACKs that count.
    share: f64,
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    eta: f64,
    max_stage: u32,
    /// W_AI in bytes.
    w_ai: f64,
    react: React,
    ns3: Option<Ns3>,
    digest: Option<Digest>,
}

/// One queue pair. What is controlled, W of the paper, is in bytes, and in bits per second with the public code's rules.
struct Hpcc {
    s: Settings,
    r: Rates,
    /// W, and the reference W^c.
    w: f64,
    w_c: f64,
    most: f64,
    least: f64,
    ai: f64,
    /// U.
    u: f64,
    stage: u32,
    /// The reference changes when a byte beyond this is acknowledged; `None` before the first ACK.
    last_update: Option<u64>,
    /// L: what the previous ACK said of so many links. In place: a host with many pairs would wait for each list of its own.
    known: u8,
    before: [Said; MAX_HOPS],
}

/// What an ACK said of a link, as far as the next one is compared with it.
#[derive(Clone, Copy)]
struct Said {
    port: u32,
    queue_bytes: u32,
    at: Time,
    sent_bytes: u64,
}

impl Said {
    const NOTHING: Said = Said { port: 0, queue_bytes: 0, at: Time::ZERO, sent_bytes: 0 };

    fn by(hop: &Hop) -> Said {
        Said { port: hop.port, queue_bytes: hop.queue_bytes, at: hop.at, sent_bytes: hop.sent_bytes }
    }
}

impl Hpcc {
    fn new(r: Rates, s: Settings) -> Hpcc {
        let bytes = |rate: f64| rate * r.base_rtt.0 as f64 / 8e12;
        // Section 3.2: W_init = B_NIC x T.
        let (most, least, ai) = match s.ns3 {
            Some(ns3) => (r.max, r.min, ns3.ai),
            None => (bytes(r.max), bytes(r.min), s.w_ai),
        };
        Hpcc {
            s,
            r,
            w: most,
            // The public code begins with the card's own rate as the reference, whatever the pair's largest is: until the
            // reference changes for the first time, a pair below its card's rate is not slowed down.
            w_c: if s.ns3.is_some() { r.line } else { most },
            most,
            least,
            ai,
            u: 1.0,
            stage: 0,
            last_update: None,
            known: 0,
            before: [Said::NOTHING; MAX_HOPS],
        }
    }
    /// What the fields of the header can say.
    fn rounded(&self, hop: &Hop) -> Said {
        let said = Said::by(hop);
        let Some(Ns3 { multi, .. }) = self.s.ns3 else { return said };
        let (sent, queue, ns) = (128 * multi, (80 * multi) as u32, 1000);
        Said {
            at: Time(said.at.0 / ns * ns),
            sent_bytes: said.sent_bytes / sent * sent,
            queue_bytes: said.queue_bytes / queue * queue,
            ..said
        }
    }
    /// What this ACK says is what the next is compared with.
    fn remember(&mut self, hops: &[Hop]) {
        self.known = hops.len() as u8;
        for (i, hop) in hops.iter().enumerate() {
            self.before[i] = self.rounded(hop);
        }
    }
    /// Algorithm 1, MeasureInflight; L becomes what this ACK says.
    fn measure(&mut self, hops: &[Hop]) {
        let t = self.r.base_rtt.as_secs();
        let (mut u, mut tau) = (0.0, 0.0);
        for (i, told) in hops.iter().enumerate() {
            let b = told.rate.as_bps();
            let hop = self.rounded(told);
            let before = core::mem::replace(&mut self.before[i], hop);
            let dt = hop.at.since(before.at).as_secs();
            if dt <= 0.0 {
                continue;
            }
            // Line 4: txRate = (ack.L[i].txBytes - L[i].txBytes) / (ack.L[i].ts - L[i].ts)
            let tx_rate = (hop.sent_bytes - before.sent_bytes) as f64 * 8.0 / dt;
            // Line 5: u' = min(ack.L[i].qlen, L[i].qlen) / (B T) + txRate / B
            let queue = f64::from(hop.queue_bytes.min(before.queue_bytes));
            let pipe = match self.s.ns3 {
                Some(ns3) => ns3.window * b / self.r.max,
                None => b / 8.0 * t,
            };
            let load = queue / pipe + tx_rate / b;
            // Lines 6 and 7: the link with the largest.
            if load > u {
                (u, tau) = (load, dt);
            }
        }
        // Lines 8 and 9: tau = min(tau, T); U = (1 - tau / T) U + (tau / T) u
        let share = (tau / t).min(1.0);
        self.u = (1.0 - share) * self.u + share * u;
    }
    /// An ACK with a digest: U is what the switches have measured, and nothing is compared with an ACK before.
    fn on_digest(&mut self, code: u8, digest: Digest, ack: &AckRecord<'_>, pair: &PairView) {
        // A hash of the packet's identity decides whether it carries a digest (PINT: a global hash).
        let draw = Stream::new(pair.una, ack.now.0, Entity::Sender, 0).uniform();
        if draw >= digest.share {
            return;
        }
        let epoch = self.last_update.is_none_or(|last| pair.una > last);
        if self.last_update.is_some() {
            let update = match self.s.react {
                React::Both => Some(epoch),
                React::PerAck => Some(true),
                React::PerRtt => epoch.then_some(true),
            };
            if let Some(update) = update {
                self.u = PintConfig { horizon: self.r.base_rtt, base: digest.base }.load(code);
                self.compute(update);
            }
        }
        if epoch {
            self.last_update = Some(pair.nxt);
        }
    }
    /// Algorithm 1, ComputeWind.
    fn compute(&mut self, update: bool) {
        let c = self.u / self.s.eta;
        // Line 12: U >= eta or incStage >= maxStage
        let multiplicative = c >= 1.0 || self.stage >= self.s.max_stage;
        // Line 13: W = W^c / (U / eta) + W_AI; line 17: W = W^c + W_AI
        let w = if multiplicative { self.w_c / c + self.ai } else { self.w_c + self.ai };
        self.w = w.max(self.least).min(self.most);
        if update {
            // Lines 14 to 16 and 18 to 20.
            self.stage = if multiplicative { 0 } else { self.stage + 1 };
            self.w_c = self.w;
        }
    }
}

impl RateLaw for Hpcc {
    /// Algorithm 1, NewAck.
    fn on_ack(&mut self, ack: &AckRecord<'_>, pair: &PairView) {
        if ack.telemetry.is_empty() {
            return;
        }
        if let Some(digest) = self.s.digest {
            if let Some(code) = pint::digest(ack.telemetry) {
                self.on_digest(code, digest, ack, pair);
            }
            return;
        }
        // Ports write so many at most.
        let hops = &ack.telemetry[..ack.telemetry.len().min(MAX_HOPS)];
        let path = hops.len() == usize::from(self.known)
            && hops.iter().zip(&self.before).all(|(now, before)| now.port == before.port);
        let epoch = self.last_update.is_none_or(|last| pair.una > last);
        if self.last_update.is_some() && path {
            let update = match self.s.react {
                React::Both => Some(epoch),
                React::PerAck => Some(true),
                React::PerRtt => epoch.then_some(true),
            };
            if let Some(update) = update {
                self.measure(hops);
                self.compute(update);
            }
        } else {
            // The first ACK, and the first of another path, is what the next is compared with.
            self.remember(hops);
        }
        if epoch {
            self.last_update = Some(pair.nxt);
        }
    }
    fn on_line_rate(&mut self, _: Time, line: Rate) {
        // W_init = B_NIC x T, as at the beginning.
        self.r.set_line(line);
        let was =
            core::mem::replace(&mut self.most, if self.s.ns3.is_some() { self.r.max } else { self.r.pipe() });
        let most = self.most;
        let follow = |w: f64| if w < was { w.min(most) } else { most };
        (self.w, self.w_c, self.least) = (follow(self.w), follow(self.w_c), self.least.min(most));
    }
    fn control(&self) -> RateControl {
        match self.s.ns3 {
            Some(_) => RateControl { rate: bps(self.w), window: None },
            // Section 3.2: R = W / T.
            None => RateControl {
                rate: bps(self.w * 8.0 / self.r.base_rtt.as_secs()),
                window: Some(self.w as u64),
            },
        }
    }
    fn moves_departures(&self) -> bool {
        // The first ACK changes nothing: there is nothing to compare it with.
        self.last_update.is_some()
    }
    fn observe(&self, report: &mut Report<'_>) {
        report(&LOAD, self.u);
        report(&STAGE, f64::from(self.stage));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_units::Dur;

    const US: u64 = 1_000_000;
    /// 100 Gb/s, T = 10 us: a pipe of 125,000 bytes.
    const RATES: Rates = Rates { line: 100e9, max: 100e9, min: 1e9, base_rtt: Dur(10 * US), asked: None };
    const SETTINGS: Settings =
        Settings { eta: 0.95, max_stage: 5, w_ai: 80.0, react: React::Both, ns3: None, digest: None };
    const NS3: Ns3 = Ns3 { ai: 40e6, multi: 4, window: 125_000.0 };

    /// A hop of 100 Gb/s at `us` with so many bytes queued and sent.
    fn hop(port: u32, us: u64, queue_bytes: u32, sent_bytes: u64) -> Hop {
        Hop { port, at: Time(us * US), queue_bytes, sent_bytes, rate: Rate(100_000_000_000) }
    }
    fn ack(law: &mut Hpcc, hops: &[Hop], una: u64, nxt: u64) {
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
    fn algorithm_1_measures_the_most_loaded_link() {
        let mut law = Hpcc::new(RATES, SETTINGS);
        ack(&mut law, &[hop(1, 0, 0, 0), hop(2, 0, 50_000, 0)], 1000, 100_000);
        assert_eq!((law.u, law.w), (1.0, 125_000.0), "nothing to compare with yet");
        // In 5 us link 1 sent 31,250 bytes, half its rate. Link 2 sent 62,500, all of it, and had a queue of at least
        // 25,000 of 125,000. So u = 0.2 + 1 = 1.2, U = (1 - 0.5) 1 + 0.5 x 1.2 = 1.1; W = 125,000 x 0.95 / 1.1 + 80 =
        // 108,034.5 bytes.
        ack(&mut law, &[hop(1, 5, 0, 31_250), hop(2, 5, 25_000, 62_500)], 2000, 100_000);
        assert!((law.u - 1.1).abs() < 1e-12, "{}", law.u);
        assert!((law.w - (125_000.0 * 0.95 / 1.1 + 80.0)).abs() < 1e-6, "{}", law.w);
        // A round trip is not yet over, so the next ACK also begins at this reference.
        assert_eq!((law.w_c, law.stage), (125_000.0, 0));
        // 20 us later tau counts as T: U = u = 0.4; W = W^c + W_AI, but never above the pipe.
        ack(&mut law, &[hop(1, 25, 0, 31_250), hop(2, 25, 0, 162_500)], 3000, 100_000);
        assert!((law.u - 0.4).abs() < 1e-12, "{}", law.u);
        assert_eq!((law.w, law.w_c, law.stage), (125_000.0, 125_000.0, 0));
    }
    #[test]
    fn the_reference_changes_once_in_a_round_trip() {
        let mut law = Hpcc::new(RATES, SETTINGS);
        law.w_c = 50_000.0;
        let mut at = 0;
        let mut next = |law: &mut Hpcc, una: u64, nxt: u64| {
            at += 10;
            ack(law, &[hop(1, at, 0, at * 6250)], una, nxt); // half the rate: U = 0.5
            (law.w, law.w_c, law.stage)
        };
        next(&mut law, 1000, 10_000);
        assert_eq!(next(&mut law, 10_000, 20_000), (50_080.0, 50_000.0, 0));
        assert_eq!(next(&mut law, 10_001, 30_000), (50_080.0, 50_080.0, 1));
        assert_eq!(next(&mut law, 30_000, 30_000), (50_160.0, 50_080.0, 1));
        for stage in 2..=5 {
            assert_eq!(next(&mut law, 10_000 * u64::from(stage + 2), 10_000 * u64::from(stage + 2)).2, stage);
        }
        // maxStage of them, then the window is multiplied: 50,400 x 0.95 / 0.5 + 80 = 95,840.
        let (w, w_c, stage) = next(&mut law, 90_000, 90_000);
        assert!((w - 95_840.0).abs() < 1e-6 && w_c == w, "{w}");
        assert_eq!(stage, 0);
    }
    #[test]
    fn hpcc_ns3_controls_the_rate_and_rounds_telemetry() {
        let mut law = Hpcc::new(RATES, Settings { max_stage: 0, ns3: Some(NS3), ..SETTINGS });
        // 512 and 320 bytes are the units: 62,500 sent becomes 62,464 (122 x 512), 25,000 queued 24,960 (78 x 320).
        let rounded = law.rounded(&hop(1, 5, 25_000, 62_500));
        assert_eq!((rounded.queue_bytes, rounded.sent_bytes), (24_960, 62_464));
        ack(&mut law, &[hop(1, 0, 50_000, 0)], 1000, 10_000);
        ack(&mut law, &[hop(1, 5, 25_000, 62_500)], 11_000, 20_000);
        // u = 24,960/125,000 + 62,464 x 8/(5 us x 100 Gb/s) = 0.19968 + 0.999424; U = (1 + 1.199104)/2 = 1.099552;
        // rate = 100 x 0.95/1.099552 + 0.04 Gb/s.
        assert!((law.u - 1.099_552).abs() < 1e-12, "{}", law.u);
        let rate = 100e9 * 0.95 / 1.099_552 + 40e6;
        assert!((law.w - rate).abs() < 1.0 && law.w_c == law.w, "{}", law.w);
        assert_eq!(law.control().window, None, "it follows the rate, outside");
    }
    #[test]
    fn a_digest_says_what_the_load_is() {
        let digest = Digest { base: 1.05, share: 1.0 };
        let mut law = Hpcc::new(RATES, Settings { digest: Some(digest), ..SETTINGS });
        let told = |code: u32| Hop { port: u32::MAX, queue_bytes: code, ..hop(0, 0, 0, 0) };
        ack(&mut law, &[told(140)], 1000, 10_000);
        assert_eq!((law.u, law.w), (1.0, 125_000.0), "the first begins the round trip and changes nothing");
        // U = 1.05^140 / 512 = 1.80829; W = 125,000 x 0.95 / U + 80, from the same reference until 10,000 is acknowledged.
        let u = 1.05f64.powi(140) / 512.0;
        let w = 125_000.0 * 0.95 / u + 80.0;
        ack(&mut law, &[told(140)], 2000, 10_000);
        assert!((law.u - u).abs() < 1e-12 && (law.w - w).abs() < 1e-6 && law.w_c == 125_000.0, "{}", law.w);
        ack(&mut law, &[told(140)], 10_001, 20_000);
        assert!((law.w - w).abs() < 1e-6 && law.w_c == law.w, "{}", law.w);
        // Below eta: one additive increase.
        ack(&mut law, &[told(120)], 20_001, 30_000);
        assert!((law.w - w - 80.0).abs() < 1e-6 && law.stage == 1, "{}", law.w);
        // A share of the ACKs: of 1,000, 62 on the mean, standard deviation 8.
        let digest = Digest { share: 1.0 / 16.0, ..digest };
        let mut law = Hpcc::new(
            RATES,
            Settings { digest: Some(digest), react: React::PerAck, max_stage: 2000, ..SETTINGS },
        );
        law.last_update = Some(0);
        for i in 0..1000 {
            ack(&mut law, &[told(0)], 1000 * i, 1_000_000);
        }
        assert!((38..87).contains(&law.stage), "{}", law.stage);
    }
    #[test]
    fn another_path_is_not_compared_with_the_old_one() {
        let mut law = Hpcc::new(RATES, SETTINGS);
        ack(&mut law, &[hop(1, 0, 0, 9_000_000)], 1000, 10_000);
        ack(&mut law, &[hop(2, 5, 0, 100)], 11_000, 20_000);
        assert_eq!((law.u, law.w), (1.0, 125_000.0));
    }

    #[test]
    fn hpcc_ns3_begins_with_the_rate_of_the_card_as_reference() {
        // A pair of at most 10 Gb/s at a card of 100: 100 x 0.95/1.1 is above 10, so that the first ACKs do not slow it down.
        let rates = Rates { max: 10e9, asked: Some(10e9), ..RATES };
        let mut law = Hpcc::new(rates, Settings { max_stage: 0, ns3: Some(NS3), ..SETTINGS });
        ack(&mut law, &[hop(1, 0, 0, 0)], 1000, 10_000);
        ack(&mut law, &[hop(1, 10, 0, 125_000)], 2000, 10_000);
        assert_eq!((law.w, law.w_c), (10e9, 100e9));
        ack(&mut law, &[hop(1, 20, 0, 250_000)], 10_001, 20_000);
        assert_eq!(law.w_c, 10e9);
    }
}
