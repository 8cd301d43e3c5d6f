//! Swift: a window that keeps the fabric's delay at a target, which grows with the path and with small windows. Windows
//! below one packet are paced (Kumar et al., SIGCOMM 2020, section 3.2, algorithm 1, section 3.5; read from memory).
//!
//! On queue pairs with go-back-N, or with selective repeat as Pony Express has it (`recovery=irn`). Delay is the RTT of a packet, from its
//! transmission to its ACK. What the hosts take of it (`receive_delay`, `processing_delay`), from the card to the transport at either end, is
//! the endpoint delay; the rest is the fabric's. Each has a target and a window by the same algorithm, and the smaller window counts (section
//! 3.3). The endpoint's delay is smoothed and its target is a constant; where none is given, one above the least delay that was seen, which no
//! window makes less. Chosen: losses cut the fabric's window alone, and there is no endpoint window before hosts have taken any time. The number of hops, which Swift reads off the TTL, comes from telemetry that takes no room.

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

static ENDPOINT_DELAY: Quantity =
    Quantity::new("endpoint_delay_s", Unit::Seconds, "smoothed delay within the hosts, where they take any");

/// Swift.
pub const SWIFT: Protocol = Protocol {
    name: "swift",
    text: "Swift: a window that keeps the delay of the fabric at a target, scaled by hops and by the window",
    cites: "Kumar et al., SIGCOMM 2020 (from memory)",
    params: &join::<{ OWN.len() + roce::PARAMS.len() }>(OWN),
    reports: &[&RATE, &CWND_PACKETS, &RTT, &ENDPOINT_DELAY],
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
        let endpoint_target = p.is_set("endpoint_target").then(|| p.dur("endpoint_target").as_secs());
        let gain = p.float("endpoint_gain");
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
                    endpoint_target,
                    gain,
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
        "largest growth of the target for a small window; unset = 4 base_target",
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
    ParamSpec::new(
        "endpoint_target",
        Kind::Duration,
        "",
        "target of the delay within the hosts; unset = base_target above the least that was seen",
        "section 3.3, a constant there; chosen",
    )
    .range(1e-9, 1.0),
    ParamSpec::new(
        "endpoint_gain",
        Kind::Float,
        "0.125",
        "weight of a new sample of the endpoint delay",
        "section 3.3; chosen",
    )
    .range(1e-6, 1.0),
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
    /// Target of the endpoint delay, and the weight of a new sample of it.
    endpoint_target: Option<f64>,
    gain: f64,
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

/// A window and when it was last cut.
#[derive(Clone, Copy, Debug)]
struct Window {
    cwnd: f64,
    decreased_at: Option<Time>,
}

impl Window {
    /// Algorithm 1, lines 8 to 15, for a delay and its target. Decreases are at least `rtt` apart (line 5).
    fn on_ack(&mut self, s: &Settings, now: Time, rtt: f64, acked: f64, delay: f64, target: f64) {
        if delay < target {
            // Lines 9 to 12: cwnd + ai / cwnd x num_acked from one packet on, cwnd + ai x num_acked below.
            self.cwnd += s.law.ai * acked / self.cwnd.max(1.0);
            self.cwnd = self.cwnd.min(s.max_cwnd);
        } else {
            // Line 15: max(1 - beta (delay - target) / delay, 1 - max_mdf) x cwnd
            let factor = 1.0 - s.law.beta * (delay - target) / delay;
            self.decrease(s, now, rtt, factor.max(1.0 - s.law.max_mdf));
        }
    }
    fn decrease(&mut self, s: &Settings, now: Time, rtt: f64, factor: f64) {
        if self.decreased_at.is_none_or(|at| now.since(at).as_secs() >= rtt) {
            self.cwnd = (self.cwnd * factor).max(s.min_cwnd);
            self.decreased_at = Some(now);
        }
    }
}

/// One queue pair.
struct Swift {
    s: Settings,
    /// Section 3.3: the fabric's window, and the endpoints' once hosts have taken time, with their smoothed delay in seconds.
    fabric: Window,
    endpoint: Option<(Window, f64)>,
    /// The least that the hosts have taken, seconds: no window makes it less.
    least_endpoint: f64,
    /// Window of a new pair.
    first: f64,
    /// The latest RTT, in seconds.
    rtt: f64,
    timeouts: u32,
}

impl Swift {
    fn new(r: Rates, s: Settings, cwnd: f64) -> Swift {
        let first = cwnd.min(s.max_cwnd);
        let fabric = Window { cwnd: first, decreased_at: None };
        Swift {
            s,
            fabric,
            endpoint: None,
            least_endpoint: f64::INFINITY,
            first,
            rtt: r.base_rtt.as_secs(),
            timeouts: 0,
        }
    }
    /// The window that counts, packets.
    fn cwnd(&self) -> f64 {
        self.endpoint.map_or(self.fabric.cwnd, |(window, _)| window.cwnd.min(self.fabric.cwnd))
    }
}

impl RateLaw for Swift {
    fn on_ack(&mut self, ack: &AckRecord<'_>, _: &PairView) {
        if ack.bytes == 0 {
            return;
        }
        self.timeouts = 0;
        self.rtt = ack.rtt.as_secs();
        let acked = ack.bytes as f64 / self.s.payload;
        let at_hosts = ack.endpoint.as_secs();
        // The target follows the window that counts: it is about how many flows there are.
        let target = self.s.target(self.cwnd(), ack.telemetry.len());
        self.fabric.on_ack(&self.s, ack.now, self.rtt, acked, self.rtt - at_hosts, target);
        if at_hosts > 0.0 && self.endpoint.is_none() {
            self.endpoint = Some((Window { cwnd: self.first, decreased_at: None }, at_hosts));
        }
        if let Some((window, delay)) = &mut self.endpoint {
            *delay += self.s.gain * (at_hosts - *delay);
            self.least_endpoint = self.least_endpoint.min(at_hosts);
            let target = self.s.endpoint_target.unwrap_or(self.least_endpoint + self.s.base);
            window.on_ack(&self.s, ack.now, self.rtt, acked, *delay, target);
        }
    }
    /// Lines 16 to 24.
    fn on_loss(&mut self, now: Time, sign: LossSign, _: &PairView) {
        if sign == LossSign::Timeout {
            self.timeouts += 1;
            if self.timeouts >= self.s.retries {
                self.fabric = Window { cwnd: self.s.min_cwnd, decreased_at: Some(now) };
                return;
            }
        }
        self.fabric.decrease(&self.s, now, self.rtt, 1.0 - self.s.law.max_mdf);
    }
    fn control(&self) -> RateControl {
        // Lines 28 and 29: below one packet, rtt / cwnd from one to the next.
        let cwnd = self.cwnd();
        let pace = (cwnd < 1.0).then(|| {
            let gap = Dur::from_secs(self.rtt / cwnd).0.max(1);
            Rate((Bytes(u64::from(self.s.wire)) / Dur(gap)).0.max(1))
        });
        let window = (cwnd * self.s.payload).max(self.s.payload);
        RateControl { rate: pace, window: Some(window as u64) }
    }
    fn observe(&self, report: &mut Report<'_>) {
        report(&CWND_PACKETS, self.cwnd());
        if let Some((_, delay)) = self.endpoint {
            report(&ENDPOINT_DELAY, delay);
        }
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
            endpoint_target: Some(10e-6),
            gain: 0.5,
            payload: 1000.0,
            wire: 1100,
        };
        Swift::new(RATES, s, cwnd)
    }
    fn ack(law: &mut Swift, at: u64, rtt: u64) -> f64 {
        let ack = AckRecord {
            now: Time(at * US),
            bytes: 1000,
            rtt: Dur(rtt * US),
            endpoint: Dur::ZERO,
            ece: false,
            telemetry: &[],
        };
        law.on_ack(&ack, &PairView { una: 0, nxt: 0, max_sent: 0 });
        law.cwnd()
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
        near(ack(&mut swift, 1000, 900) / swift.cwnd(), 1.0);
        let before = swift.cwnd();
        near(ack(&mut swift, 5000, 900), before / 2.0);
    }
    #[test]
    fn section_3_3_time_within_hosts_moves_a_window_of_its_own() {
        let mut swift = law(10.0);
        let view = PairView { una: 0, nxt: 0, max_sent: 0 };
        let mut heard = |at: u64, rtt: u64, endpoint: u64| {
            let (rtt, endpoint) = (Dur(rtt * US), Dur(endpoint * US));
            let ack =
                AckRecord { now: Time(at * US), bytes: 1000, rtt, endpoint, ece: false, telemetry: &[] };
            swift.on_ack(&ack, &view);
            (swift.fabric.cwnd, swift.endpoint.map(|(w, delay)| (w.cwnd, delay * 1e6)), swift.cwnd())
        };
        // 40 of the 60 us are within the hosts. The fabric's 20 us are below 25, so its window grows by 1/10. The
        // hosts' 40 us against 10 cut the other window from 10 by 0.8 x 3/4, but at most by half.
        let (fabric, endpoint, counts) = heard(100, 60, 40);
        near(fabric, 10.1);
        assert_eq!(endpoint.map(|(w, d)| (w, libm::round(d))), Some((5.0, 40.0)));
        near(counts, 5.0);
        // Half of 0 and half of 40 is 20 us, above the target but within the same round trip: no cut; the fabric's grows by 1/10.1.
        let (fabric, endpoint, _) = heard(110, 20, 0);
        near(fabric, 10.1 + 1.0 / 10.1);
        near(endpoint.unwrap().0, 5.0);
        // Then 10 and 5 us: the second is below the target, the window grows by a fifth.
        heard(115, 20, 0);
        let (_, endpoint, counts) = heard(118, 20, 0);
        near(endpoint.unwrap().1, 5.0);
        near(counts, 5.2);
    }
    #[test]
    fn losses_cut_by_max_mdf_and_timeouts_in_a_row_reset() {
        let mut swift = law(100.0);
        let view = PairView { una: 0, nxt: 0, max_sent: 0 };
        swift.on_loss(Time(US), LossSign::Nack, &view);
        near(swift.cwnd(), 50.0);
        swift.on_loss(Time(2 * US), LossSign::Timeout, &view);
        near(swift.cwnd(), 50.0);
        swift.on_loss(Time(100 * US), LossSign::Timeout, &view);
        near(swift.cwnd(), 25.0);
        swift.on_loss(Time(101 * US), LossSign::Timeout, &view);
        near(swift.cwnd(), 0.01);
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
