//! Swift: a window that keeps the fabric's delay at a target, which grows with the path and with small windows; below one packet it
//! paces (Kumar et al., SIGCOMM 2020, section 3.2, algorithm 1, section 3.5; read from memory).
//!
//! On queue pairs with go-back-N, not on Pony Express with its selective repair. Delay is the RTT of a packet, from its transmission to its ACK;
//! what the hosts themselves take of that is not told apart, so the endpoint window of section 3.4 is not there: hosts without
//! `processing` take none. The number of hops, which Swift reads off the TTL, comes from telemetry that takes no room.

use super::roce::{self, join, rates, Nature, Rates};
use crate::registry::Protocol;
use alloc::boxed::Box;
use alloc::sync::Arc;
use penstock_core::quantity::{RATE, RTT};
use penstock_core::{Kind, ParamSpec, Quantity, Report, Unit};
use penstock_host::rdma::{AckRecord, LossSign, PairView, RateControl, RateLaw};
use penstock_units::{Bytes, Dur, Rate, Time};

static CWND_PACKETS: Quantity =
    Quantity::new("cwnd_packets", Unit::Packets, "window of a sender, below one too");

/// Swift.
pub const SWIFT: Protocol = Protocol {
    name: "swift",
    text: "Swift: a window that keeps the delay of the fabric at a target, scaled by hops and by the window",
    cites: "Kumar et al., SIGCOMM 2020 (from memory)",
    params: &join::<{ OWN.len() + roce::PARAMS.len() }>(OWN),
    reports: &[&RATE, &CWND_PACKETS, &RTT],
    build: |p| {
        if roce::is_ns3(p) {
            return Err(p.error("rules", "must be paper: the public simulator has no Swift"));
        }
        let (low, high) = (p.float("fs_min_cwnd"), p.float("fs_max_cwnd"));
        if low >= high {
            return Err(p.error("fs_min_cwnd", "must be below fs_max_cwnd"));
        }
        let base = p.is_set("base_target").then(|| p.dur("base_target").as_secs());
        let range = p.is_set("fs_range").then(|| p.dur("fs_range").as_secs());
        let hop = p.dur("hop_scale").as_secs();
        let law =
            Law { ai: p.float("ai"), beta: p.float("beta"), max_mdf: p.float("max_mdf"), low, high, hop };
        let (min_cwnd, max_cwnd) = (p.float("min_cwnd"), p.is_set("max_cwnd").then(|| p.float("max_cwnd")));
        let (retries, rates) = (p.count("reset_after") as u32, rates(p));
        roce::build(
            p,
            &Nature { telemetry: true, ..Nature::default() },
            Arc::new(move |facts| {
                let r = rates(facts);
                let rtt = r.base_rtt.as_secs();
                // Section 4.1: about the delay of an idle path and some queueing beside it.
                let base = base.unwrap_or(1.25 * rtt);
                let packets = libm::ceil(r.max / 8.0 * rtt / f64::from(facts.wire)).max(1.0);
                let s = Settings {
                    law,
                    base,
                    range: range.unwrap_or(4.0 * base),
                    min_cwnd,
                    max_cwnd: max_cwnd.unwrap_or(packets * 4.0),
                    retries,
                    payload: f64::from(facts.payload),
                    wire: facts.wire,
                };
                Box::new(Swift::new(r, s, packets))
            }),
        )
    },
};

const OWN: &[ParamSpec] = &[
    ParamSpec::new("ai", Kind::Float, "1", "additive increase, packets per round trip", "chosen")
        .range(1e-6, 1e3),
    ParamSpec::new("beta", Kind::Float, "0.8", "factor of a decrease", "section 3.2").range(1e-6, 1.0),
    ParamSpec::new(
        "max_mdf",
        Kind::Float,
        "0.5",
        "largest share of the window that a decrease takes",
        "section 3.2",
    )
    .range(1e-6, 1.0),
    ParamSpec::new("base_target", Kind::Duration, "", "target delay; unset = 1.25 base_rtt", "chosen")
        .range(1e-9, 1.0),
    ParamSpec::new(
        "hop_scale",
        Kind::Duration,
        "0s",
        "target delay of each switch on the path",
        "section 3.5",
    )
    .range(0.0, 1.0),
    ParamSpec::new(
        "fs_range",
        Kind::Duration,
        "",
        "most that the target grows for a small window; unset = 4 base_target",
        "section 3.5; chosen",
    )
    .range(0.0, 1.0),
    ParamSpec::new(
        "fs_min_cwnd",
        Kind::Float,
        "0.1",
        "window in packets from which it has grown so much",
        "section 3.5; chosen",
    )
    .range(1e-6, 1e6),
    ParamSpec::new(
        "fs_max_cwnd",
        Kind::Float,
        "100",
        "window in packets from which it has not grown",
        "section 3.5; chosen",
    )
    .range(1e-6, 1e6),
    ParamSpec::new("min_cwnd", Kind::Float, "0.001", "smallest window in packets", "chosen").range(1e-6, 1e6),
    ParamSpec::new("max_cwnd", Kind::Float, "", "largest window in packets; unset = four pipes", "chosen")
        .range(1.0, 1e9),
    ParamSpec::new(
        "reset_after",
        Kind::Count,
        "5",
        "timeouts in a row until the smallest window",
        "section 3.6; chosen",
    )
    .range(1.0, 1e6),
];

#[derive(Clone, Copy, Debug)]
struct Law {
    ai: f64,
    beta: f64,
    max_mdf: f64,
    /// fs_min_cwnd and fs_max_cwnd, packets.
    low: f64,
    high: f64,
    /// Seconds per hop.
    hop: f64,
}

/// Windows in packets, times in seconds.
#[derive(Clone, Copy, Debug)]
struct Settings {
    law: Law,
    base: f64,
    range: f64,
    min_cwnd: f64,
    max_cwnd: f64,
    retries: u32,
    payload: f64,
    wire: u32,
}

impl Settings {
    /// Section 3.5: t = base_target + hops x h + max(0, min(alpha / sqrt(cwnd) + beta, fs_range)), where
    /// alpha = fs_range / (1 / sqrt(fs_min_cwnd) - 1 / sqrt(fs_max_cwnd)) and beta = -alpha / sqrt(fs_max_cwnd).
    fn target(&self, cwnd: f64, hops: usize) -> f64 {
        let per = |w: f64| 1.0 / libm::sqrt(w);
        let alpha = self.range / (per(self.law.low) - per(self.law.high));
        let scaled = alpha * per(cwnd) - alpha * per(self.law.high);
        self.base + hops as f64 * self.law.hop + scaled.min(self.range).max(0.0)
    }
}

/// One queue pair.
struct Swift {
    s: Settings,
    cwnd: f64,
    /// The latest RTT, in seconds.
    rtt: f64,
    decreased_at: Option<Time>,
    timeouts: u32,
}

impl Swift {
    fn new(r: Rates, s: Settings, cwnd: f64) -> Swift {
        Swift { s, cwnd: cwnd.min(s.max_cwnd), rtt: r.base_rtt.as_secs(), decreased_at: None, timeouts: 0 }
    }
    /// Algorithm 1, line 5: once in a round trip.
    fn may_decrease(&self, now: Time) -> bool {
        self.decreased_at.is_none_or(|at| now.since(at).as_secs() >= self.rtt)
    }
    fn decrease(&mut self, now: Time, factor: f64) {
        if self.may_decrease(now) {
            self.cwnd = (self.cwnd * factor).max(self.s.min_cwnd);
            self.decreased_at = Some(now);
        }
    }
}

impl RateLaw for Swift {
    fn on_ack(&mut self, ack: &AckRecord<'_>, _: &PairView) {
        if ack.bytes == 0 {
            return;
        }
        self.timeouts = 0;
        self.rtt = ack.rtt.as_secs();
        let target = self.s.target(self.cwnd, ack.telemetry.len());
        let law = self.s.law;
        if self.rtt < target {
            // Lines 9 to 12: cwnd + ai / cwnd x num_acked from one packet on, cwnd + ai x num_acked below.
            let acked = ack.bytes as f64 / self.s.payload;
            self.cwnd += law.ai * acked / self.cwnd.max(1.0);
            self.cwnd = self.cwnd.min(self.s.max_cwnd);
        } else {
            // Line 15: max(1 - beta (delay - target) / delay, 1 - max_mdf) x cwnd
            let factor = 1.0 - law.beta * (self.rtt - target) / self.rtt;
            self.decrease(ack.now, factor.max(1.0 - law.max_mdf));
        }
    }
    /// Lines 16 to 24.
    fn on_loss(&mut self, now: Time, sign: LossSign, _: &PairView) {
        if sign == LossSign::Timeout {
            self.timeouts += 1;
            if self.timeouts >= self.s.retries {
                (self.cwnd, self.decreased_at) = (self.s.min_cwnd, Some(now));
                return;
            }
        }
        self.decrease(now, 1.0 - self.s.law.max_mdf);
    }
    fn control(&self) -> RateControl {
        // Lines 28 and 29: below one packet, rtt / cwnd from one to the next.
        let pace = (self.cwnd < 1.0).then(|| {
            let gap = Dur::from_secs(self.rtt / self.cwnd).0.max(1);
            Rate((Bytes(u64::from(self.s.wire)) / Dur(gap)).0.max(1))
        });
        let window = (self.cwnd * self.s.payload).max(self.s.payload);
        RateControl { rate: pace, window: Some(window as u64) }
    }
    fn observe(&self, report: &mut Report<'_>) {
        report(&CWND_PACKETS, self.cwnd);
        report(&RTT, self.rtt);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000_000;
    const RATES: Rates = Rates { line: 100e9, max: 100e9, min: 1e9, base_rtt: Dur(20 * US), asked: None };

    fn law(cwnd: f64) -> Swift {
        let law = Law { ai: 1.0, beta: 0.8, max_mdf: 0.5, low: 0.25, high: 100.0, hop: 1e-6 };
        let s = Settings {
            law,
            base: 25e-6,
            range: 38e-6,
            min_cwnd: 0.01,
            max_cwnd: 500.0,
            retries: 3,
            payload: 1000.0,
            wire: 1100,
        };
        Swift::new(RATES, s, cwnd)
    }
    fn ack(law: &mut Swift, at: u64, rtt: u64) -> f64 {
        let ack =
            AckRecord { now: Time(at * US), bytes: 1000, rtt: Dur(rtt * US), ece: false, telemetry: &[] };
        law.on_ack(&ack, &PairView { una: 0, nxt: 0, max_sent: 0 });
        law.cwnd
    }
    fn near(a: f64, b: f64) {
        assert!((a / b - 1.0).abs() < 1e-9, "{a} is not {b}");
    }

    #[test]
    fn the_target_grows_with_hops_and_small_windows() {
        let s = law(1.0).s;
        // alpha = 38 us / (2 - 0.1) = 20 us, beta = -2 us: nothing at 100 packets, 8 us at 4, 18 at 1, all 38 at 0.25 and below.
        for (cwnd, hops, us) in
            [(100.0, 0, 25.0), (400.0, 0, 25.0), (4.0, 0, 33.0), (1.0, 3, 46.0), (0.1, 0, 63.0)]
        {
            near(s.target(cwnd, hops) * 1e6, us);
        }
    }
    #[test]
    fn algorithm_1_increases_by_one_packet_per_round_trip() {
        let mut swift = law(10.0);
        near(ack(&mut swift, 0, 20), 10.1);
        let mut swift = law(0.5);
        near(ack(&mut swift, 0, 20), 1.5);
    }
    #[test]
    fn algorithm_1_decreases_once_in_a_round_trip() {
        let mut swift = law(100.0);
        // 50 us against 25: 1 - 0.8 x 0.5 = 0.6.
        near(ack(&mut swift, 100, 50), 60.0);
        near(ack(&mut swift, 149, 50), 60.0);
        // The target is now 25 + 20 / sqrt(60) - 2 us.
        let target = 25.0 + 20.0 / 60f64.sqrt() - 2.0;
        near(ack(&mut swift, 150, 50), 60.0 * (1.0 - 0.8 * (50.0 - target) / 50.0));
        // Never by more than max_mdf.
        near(ack(&mut swift, 1000, 900) / swift.cwnd, 1.0);
        let before = swift.cwnd;
        near(ack(&mut swift, 5000, 900), before / 2.0);
    }
    #[test]
    fn losses_cut_by_max_mdf_and_timeouts_in_a_row_reset() {
        let mut swift = law(100.0);
        let view = PairView { una: 0, nxt: 0, max_sent: 0 };
        swift.on_loss(Time(US), LossSign::Nack, &view);
        near(swift.cwnd, 50.0);
        swift.on_loss(Time(2 * US), LossSign::Timeout, &view);
        near(swift.cwnd, 50.0);
        swift.on_loss(Time(100 * US), LossSign::Timeout, &view);
        near(swift.cwnd, 25.0);
        swift.on_loss(Time(101 * US), LossSign::Timeout, &view);
        near(swift.cwnd, 0.01);
    }
    #[test]
    fn below_one_packet_it_paces() {
        let mut swift = law(0.1);
        swift.rtt = 20e-6;
        // A packet of 1,100 bytes each 200 us: 44 Mb/s.
        assert_eq!(swift.control(), RateControl { rate: Some(Rate(44_000_000)), window: Some(1000) });
        assert_eq!(law(2.5).control(), RateControl { rate: None, window: Some(2500) });
    }
}
