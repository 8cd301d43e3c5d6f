//! NSCC, the sender's congestion control of Ultra Ethernet: a window in bytes that follows marks and delay together.
//!
//! Source: Ultra Ethernet Specification 1.0, section 3.6.13 (not at hand). Equations and values are those of the
//! Consortium's public simulator (uet-htsim, commit 40ccb05) by its description; those of quick adapt by its source,
//! read and not copied. An ACK falls into one of four quadrants. Unmarked and below the target delay, the window grows
//! in proportion to the distance from the target; unmarked and above, by a fair share. Marked and above, it shrinks by
//! the average delay; marked and below, only the path changes. Quick adapt sets the window to what was received after
//! trims; what was in flight then says nothing new, neither by marks nor by trims. The rest of the transport is in
//! `uec`.

use super::uec::{self, Credit, Nature};
use crate::registry::Protocol;
use penstock_units::{Bytes, Dur, Rate, Time};

/// NSCC.
pub const NSCC: Protocol = Protocol {
    name: "nscc",
    text: "Ultra Ethernet, sender's control (NSCC): a window by marks and delay, trimming, packets sprayed",
    cites: "Ultra Ethernet Specification 1.0, section 3.6.13, by the UEC's public simulator",
    params: uec::PARAMS,
    reports: uec::OF_WINDOW,
    build: |p| uec::build(p, &Nature { window: true, credit: None, ..Nature::default() }),
};

/// NSCC and credits together.
pub const NSCC_RCCC: Protocol = Protocol {
    name: "nscc-rccc",
    text: "Ultra Ethernet with both controls: NSCC's window and RCCC's credits, whatever is less",
    cites: "Ultra Ethernet Specification 1.0, section 3.6, by the UEC's public simulator",
    params: uec::PARAMS,
    reports: uec::OF_BOTH,
    build: |p| uec::build(p, &Nature { window: true, credit: Some(Credit::RCCC), ..Nature::default() }),
};

/// Parameters are scaled from a network of 100 Gb/s and 12 us (uet-htsim).
const REFERENCE_BDP: f64 = 150_000.0;
const REFERENCE_DELAY: f64 = 12e-6;
/// EWMA of the delay.
const GAIN: f64 = 0.0125;
/// Delay below which a window may grow fast; not scaled.
const IDLE: Dur = Dur::micros(1);

/// What a window is made of.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Line rate.
    pub rate: Rate,
    /// Longest unloaded round trip of the network.
    pub rtt: Dur,
    /// A full packet on the wire, in bytes.
    pub packet: u32,
    /// Payload of a full packet.
    pub mss: u32,
}

/// The window of one sender.
#[derive(Clone, Debug)]
pub struct Nscc {
    facts: Facts,
    /// Bytes on the wire.
    pub cwnd: f64,
    max: f64,
    base_rtt: Dur,
    target: Dur,
    /// Smoothed delay, seconds.
    pub delay: f64,
    /// B / s, B, B.
    alpha: f64,
    fair: f64,
    eta: f64,
    /// Scale of the pipe.
    a: f64,
    /// Increase since the last adjustment, in bytes times the window, and bytes acknowledged since.
    increase: f64,
    since: f64,
    eta_at: Time,
    decreased: Time,
    /// Bytes acknowledged while the network was idle, and whether the window grows fast.
    idle_bytes: f64,
    fast: bool,
    /// Quick adapt: end of the period, bytes received in it, a trim or loss seen, bytes in flight at the last one that were not heard of yet.
    period: Option<Time>,
    achieved: f64,
    trimmed: bool,
    ignore: f64,
}

impl Nscc {
    /// A window as large as it may be.
    pub fn new(facts: Facts, now: Time) -> Nscc {
        let bdp = (facts.rate * facts.rtt).0 as f64;
        // Target queueing delay: 0.75 of the network's round trip, with trimming.
        let target = facts.rtt * 3 / 4;
        let (a, b) = (bdp / REFERENCE_BDP, target.as_secs() / REFERENCE_DELAY);
        let mss = f64::from(facts.mss);
        Nscc {
            cwnd: 1.5 * bdp,
            max: 1.5 * bdp,
            base_rtt: facts.rtt,
            target,
            delay: 0.0,
            alpha: 4.0 * mss * a * b / target.as_secs(),
            fair: 5.0 * mss * a,
            eta: 0.15 * mss * a,
            a,
            increase: 0.0,
            since: 0.0,
            eta_at: now,
            decreased: Time::ZERO,
            idle_bytes: 0.0,
            fast: false,
            period: None,
            achieved: 0.0,
            trimmed: false,
            ignore: 0.0,
            facts,
        }
    }
    /// A packet was acknowledged, and with it `acked` bytes on the wire as news; `in_flight` bytes are left.
    pub fn on_ack(&mut self, now: Time, rtt: Dur, marked: bool, acked: f64, in_flight: f64) {
        self.see(rtt);
        let delay = rtt - self.base_rtt;
        let target = self.target;
        // EWMA; an unmarked packet with a long delay met it elsewhere, and counts as a quarter of the round trip.
        let sample = if !marked && delay > target { self.base_rtt.as_secs() * 0.25 } else { delay.as_secs() };
        self.delay += GAIN * (sample - self.delay);
        self.achieved += acked;
        self.ignore -= acked;
        if marked && self.is_old_news() || self.quick_adapt(now, delay > target * 4, in_flight) {
            return;
        }
        match (marked, delay < target) {
            (false, false) => self.increase += self.fair * acked,
            (false, true) => self.increase_in_proportion(delay, acked),
            (true, false) => self.decrease(now),
            (true, true) => {}
        }
        self.adjust(now, acked);
    }
    /// A packet of so many bytes was trimmed; its header was there and back after `rtt`.
    pub fn on_trim(&mut self, now: Time, rtt: Dur, bytes: f64, in_flight: f64) {
        self.see(rtt);
        self.delay += GAIN * (self.facts.rtt.as_secs() - self.delay);
        self.trimmed = true;
        self.ignore -= bytes;
        if !self.is_old_news() && !self.quick_adapt(now, true, in_flight) {
            self.set(self.cwnd - bytes);
        }
    }
    /// Nothing was heard of a packet of so many bytes.
    pub fn on_timeout(&mut self, bytes: f64) {
        self.trimmed = true;
        self.set(self.cwnd - bytes);
    }
    /// The smallest round trip seen is the base, and the largest window follows it.
    fn see(&mut self, rtt: Dur) {
        if rtt < self.base_rtt {
            self.base_rtt = rtt;
            self.max = 1.5 * (self.facts.rate * rtt).0 as f64;
        }
    }
    fn set(&mut self, cwnd: f64) {
        self.cwnd = cwnd.min(self.max).max(f64::from(self.facts.packet));
    }
    /// Bad news of what was in flight at quick adapt, which the window has answered; what has gathered is forgotten.
    fn is_old_news(&mut self) -> bool {
        let old = self.ignore > 0.0;
        if old {
            (self.increase, self.since) = (0.0, 0.0);
        }
        old
    }
    fn increase_in_proportion(&mut self, delay: Dur, acked: f64) {
        if delay < IDLE {
            self.idle_bytes += acked;
            // A window long without any queue: a quarter of what is acknowledged, at once.
            if self.fast || self.idle_bytes > self.cwnd {
                self.fast = true;
                return self.set(self.cwnd + 0.25 * self.a * acked);
            }
        } else {
            (self.fast, self.idle_bytes) = (false, 0.0);
        }
        self.increase += self.alpha * acked * (self.target - delay).as_secs();
    }
    /// At most once per base round trip, by how far the average delay is above the target, by half at most.
    fn decrease(&mut self, now: Time) {
        (self.fast, self.idle_bytes) = (false, 0.0);
        let target = self.target.as_secs();
        if self.delay > target && now >= self.decreased + self.base_rtt {
            let keep = (1.0 - 0.8 * (self.delay - target) / self.delay).max(0.5);
            self.set(self.cwnd * keep);
            self.decreased = now;
        }
    }
    /// What has gathered is added after eight packets, and with eta a round trip after the last eta.
    fn adjust(&mut self, now: Time, acked: f64) {
        self.since += acked;
        let due = now > self.eta_at + self.facts.rtt;
        if due || self.since > f64::from(8 * self.facts.packet) {
            let eta = if due { self.eta } else { 0.0 };
            self.set(self.cwnd + self.increase / self.cwnd + eta);
            (self.increase, self.since) = (0.0, 0.0);
        }
        if due {
            self.eta_at = now;
        }
    }
    /// Once per base round trip and target: where packets were trimmed, lost or very late and less than an eighth of the largest window
    /// was received, the window becomes what was received.
    fn quick_adapt(&mut self, now: Time, bad: bool, in_flight: f64) -> bool {
        if self.period.is_some_and(|end| now <= end) {
            return false;
        }
        let first = self.period.is_none();
        let adapts = !first && (bad || self.trimmed) && self.achieved < self.max / 8.0;
        if adapts {
            self.set(self.achieved);
            self.ignore = in_flight;
            self.trimmed = false;
            (self.increase, self.since) = (0.0, 0.0);
        }
        self.achieved = 0.0;
        self.period = Some(now + self.base_rtt + self.target);
        adapts
    }
    /// Bytes of a period that are enough for no quick adapt; for tests and records.
    pub fn largest(&self) -> Bytes {
        Bytes(self.max as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 Gb/s and 12 us: the network that values are given for. BDP 150,000 B, target 9 us.
    fn window() -> Nscc {
        let facts = Facts { rate: Rate(100_000_000_000), rtt: Dur::micros(12), packet: 4160, mss: 4096 };
        Nscc::new(facts, Time::ZERO)
    }
    fn at(us: u64) -> Time {
        Time::ZERO + Dur::micros(us)
    }
    fn near(x: f64, y: f64) {
        assert!((x - y).abs() < 1e-6 * y.abs().max(1.0), "{x} is not {y}");
    }

    #[test]
    fn the_window_begins_with_one_and_a_half_pipes() {
        let mut w = window();
        near(w.cwnd, 225_000.0);
        // A shorter way: the largest window follows.
        w.on_ack(at(1), Dur::micros(6), false, 4160.0, 0.0);
        assert_eq!(w.largest(), Bytes(112_500));
        // So it does when the header of a trimmed packet shows it; in an incast no whole packet finds an empty queue.
        w.on_trim(at(2), Dur::micros(5), 4160.0, 0.0);
        assert_eq!(w.largest(), Bytes(93_750));
    }
    #[test]
    fn the_four_quadrants() {
        // Unmarked, 3 us of delay: alpha = 4 * 4096 * 1 * 0.75 / 9 us; 16,640 bytes times 6 us left, and eight packets are not reached yet.
        let mut w = window();
        w.set(100_000.0);
        w.on_ack(at(1), Dur::micros(15), false, 16_640.0, 0.0);
        let alpha = 4.0 * 4096.0 * 0.75 / 9e-6;
        near(w.increase, alpha * 16_640.0 * 6e-6);
        // Unmarked, 10 us: fi = 5 * 4096 per byte. After more than eight packets all is added over the window.
        w.on_ack(at(2), Dur::micros(22), false, 20_000.0, 0.0);
        let sum = alpha * 16_640.0 * 6e-6 + 5.0 * 4096.0 * 20_000.0;
        near(w.cwnd, 100_000.0 + sum / 100_000.0);
        // Marked and below the target: nothing.
        let before = w.cwnd;
        w.on_ack(at(3), Dur::micros(15), true, 4160.0, 0.0);
        near(w.cwnd, before);
        // Marked and above, an average of 12 us: (12 - 9) / 12 of 0.8 less; again only after a base round trip.
        w.delay = 12e-6;
        w.on_ack(at(20), Dur::micros(24), true, 0.0, 0.0);
        let eta = 0.15 * 4096.0;
        near(w.cwnd, before * 0.8 + eta);
        w.on_ack(at(21), Dur::micros(24), true, 0.0, 0.0);
        near(w.cwnd, before * 0.8 + eta);
    }
    #[test]
    fn an_idle_network_is_filled_fast() {
        let mut w = window();
        w.set(40_000.0);
        for i in 0..3 {
            w.on_ack(at(i), Dur::micros(12), false, 16_000.0, 0.0);
        }
        // The third has seen more than a window without delay; eight packets were reached before, with what had gathered.
        assert!(w.fast);
        let before = w.cwnd;
        w.increase = 0.0;
        w.on_ack(at(4), Dur::micros(12), false, 16_000.0, 0.0);
        near(w.cwnd, before + 4_000.0);
    }
    #[test]
    fn quick_adapt_takes_what_was_received() {
        let mut w = window();
        w.on_ack(at(1), Dur::micros(14), false, 4160.0, 0.0);
        // A trim costs its bytes while the period lasts.
        w.on_trim(at(2), Dur::micros(12), 4160.0, 100_000.0);
        near(w.cwnd, 220_840.0);
        // 21 us after its begin the period is over; 4,160 and 8,320 bytes were received in it, less than an eighth of 225,000.
        w.on_ack(at(10), Dur::micros(25), true, 8_320.0, 0.0);
        w.on_trim(at(23), Dur::micros(12), 4160.0, 50_000.0);
        near(w.cwnd, 8_320.0);
        // Marks and trims of the 50,000 bytes that were in flight then say nothing new, and what has gathered is forgotten.
        w.increase = 1e6;
        w.on_trim(at(24), Dur::micros(12), 4160.0, 45_840.0);
        w.delay = 20e-6;
        w.on_ack(at(24), Dur::micros(30), true, 40_000.0, 0.0);
        near(w.cwnd, 8_320.0);
        w.on_ack(at(25), Dur::micros(30), true, 5_000.0, 0.0);
        near(w.cwnd, 8_320.0);
        // 840 bytes were left of them; a mark beyond does: 0.8 * 11 / 20 less, and eta after more than a round trip.
        w.on_ack(at(26), Dur::micros(29), true, 4_160.0, 0.0);
        near(w.cwnd, 8_320.0 * (1.0 - 0.8 * (w.delay - 9e-6) / w.delay) + 0.15 * 4096.0);
    }
}
