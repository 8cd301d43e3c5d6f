//! ICTCP (Wu, Feng, Guo and Zhang, CoNEXT 2010): a host that receives from many senders keeps them from
//! overrunning its link by the windows it advertises. Senders and switches are unchanged.
//!
//! Section 4.1 of the paper has the available bandwidth, alpha = 0.9, and slots of two halves, one to measure and one
//! to grow. Section 4.2 has the length of a half, and limits a window's growth to once in two of its round trips.
//! Section 4.3 has the window law: gamma_1 = 0.1, gamma_2 = 0.5, three round trips of patience, at least two segments,
//! slow start and congestion avoidance within the quota. Section 4.4 has fairness below a spare share of 0.2.
//!
//! The paper's full text was not at hand. A public summary confirms alpha, the slots, the two round trips, both gammas,
//! the three rounds and the quota. The least window, the spare share of 0.2, the cut for fairness and the section
//! numbers are from memory: check them against the paper before you rely on them.
//!
//! Reading. The round-trip time of a connection is the shortest time from an ACK that moved the right edge of the
//! window to the data up to that edge. A receiver can measure it without timestamps. The length of the first slot is
//! chosen, and so is beta, which the paper does not give. A connection long idle would begin with slow start again; how
//! long is not said, and windows are kept over idle times here.

use crate::registry::{BuildReceive, ReceiveProtocol};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use penstock_core::packet::Packet;
use penstock_core::receive::ReceiveController;
use penstock_core::{Kind, ParamError, ParamSpec, Params};
use penstock_units::{Dur, Rate, Time};

/// ICTCP.
pub const ICTCP: ReceiveProtocol = ReceiveProtocol {
    name: "ictcp",
    text: "the receiving host shares its link: it announces windows that keep the sum of its connections' rates below it",
    cites: "Wu, Feng, Guo, Zhang, ICTCP, CoNEXT 2010",
    params: PARAMS,
    build,
};

/// Parameters of ICTCP.
pub const PARAMS: &[ParamSpec] = &[
    ParamSpec::new(
        "alpha",
        Kind::Float,
        "0.9",
        "share of the link the connections may fill",
        "ICTCP section 4.1",
    )
    .range(0.01, 1.0),
    ParamSpec::new("beta", Kind::Float, "0.75", "memory of the measured throughput", "chosen")
        .range(0.0, 0.999),
    ParamSpec::new(
        "gamma1",
        Kind::Float,
        "0.1",
        "throughput short of the expected below which the window grows",
        "ICTCP section 4.3",
    )
    .range(0.0, 1.0),
    ParamSpec::new(
        "gamma2",
        Kind::Float,
        "0.5",
        "throughput short of the expected above which the window shrinks",
        "ICTCP section 4.3",
    )
    .range(0.0, 1.0),
    ParamSpec::new("slot", Kind::Duration, "200us", "length of a half slot before an RTT is known", "chosen")
        .range(1e-9, 10.0),
];

/// ICTCP on every host, with the gains of `p`.
///
/// # Errors
/// A window cannot have to grow and to shrink at the same throughput difference.
pub fn build(p: &Params) -> Result<BuildReceive, ParamError> {
    if p.float("gamma1") > p.float("gamma2") {
        return Err(p.error("gamma1", "must not be above gamma2"));
    }
    let gains = Gains {
        alpha: p.float("alpha"),
        beta: p.float("beta"),
        gamma1: p.float("gamma1"),
        gamma2: p.float("gamma2"),
        slot: p.dur("slot"),
    };
    Ok(Arc::new(move |facts| Box::new(Ictcp::new(gains, facts.capacity, facts.packet, facts.framing))))
}

/// Smallest window in segments (ICTCP section 4.3), also the first.
const MIN_WINDOW: u64 = 2;
/// Round trips in a row with a throughput far below the expected before the window shrinks (section 4.3).
const PATIENCE: u32 = 3;
/// Spare share of the link below which windows above the mean shrink, for fairness (section 4.4).
const SCARCE: f64 = 0.2;

/// The gains of ICTCP.
#[derive(Clone, Copy, Debug)]
pub struct Gains {
    /// Share of the link the connections may fill.
    pub alpha: f64,
    /// Memory of the measured throughput.
    pub beta: f64,
    /// The window grows below this throughput difference.
    pub gamma1: f64,
    /// The window shrinks above this throughput difference.
    pub gamma2: f64,
    /// Length of a half slot before an RTT is known.
    pub slot: Dur,
}

/// ICTCP at one receiving host.
pub struct Ictcp {
    gains: Gains,
    /// Link rate in bytes per second.
    capacity: f64,
    mss: u64,
    /// Bytes the link adds to every packet.
    framing: u64,
    connections: BTreeMap<u32, Connection>,
    /// Half a slot: the traffic-weighted mean RTT, seconds.
    half: Dur,
    half_end: Time,
    /// First half of a slot: the traffic is measured. Second half: windows may grow.
    measuring: bool,
    /// Bytes on the link in this half.
    arrived: u64,
    /// What the windows may still grow by in this slot, bytes per second.
    quota: f64,
}

#[derive(Clone, Copy)]
struct Connection {
    window: u64,
    slow_start: bool,
    rtt: Dur,
    /// Right edge of the window: the most that was ever advertised.
    advertised: u64,
    /// The RTT being measured: a segment up to this edge answers the ACK sent at `edge_set`.
    edge: u64,
    edge_set: Time,
    /// Bytes since `since`.
    received: u64,
    since: Time,
    /// b_m in bytes per second.
    measured: f64,
    far_below: u32,
    grown: Time,
    /// Bytes in the current slot.
    in_slot: u64,
}

impl Connection {
    fn new(now: Time, window: u64) -> Connection {
        Connection {
            window,
            slow_start: true,
            rtt: Dur::MAX,
            advertised: 0,
            edge: 0,
            edge_set: Time::NEVER,
            received: 0,
            since: now,
            measured: 0.0,
            far_below: 0,
            grown: Time::ZERO,
            in_slot: 0,
        }
    }
}

impl Ictcp {
    /// For a host whose link has `capacity` and adds `framing` bytes to every packet, and segments of `mss` bytes.
    pub fn new(gains: Gains, capacity: Rate, mss: u32, framing: u32) -> Ictcp {
        Ictcp {
            capacity: capacity.0 as f64 / 8.0,
            mss: mss as u64,
            framing: u64::from(framing),
            connections: BTreeMap::new(),
            half: gains.slot,
            half_end: Time::ZERO,
            measuring: true,
            arrived: 0,
            quota: 0.0,
            gains,
        }
    }

    /// Moves the global slots on to `now`.
    fn tick(&mut self, now: Time) {
        if now < self.half_end {
            return;
        }
        let long_silence = now >= self.half_end + self.half * 2;
        if self.measuring && !long_silence && self.half_end > Time::ZERO {
            // ICTCP section 4.1: BW_A = max(0, alpha C - BW_T), the quota of the second half.
            let total = self.arrived as f64 / self.half.as_secs();
            self.quota = (self.gains.alpha * self.capacity - total).max(0.0);
            if self.quota < SCARCE * self.capacity {
                self.shrink_above_mean();
            }
            self.measuring = false;
            self.half_end = self.half_end + self.half;
            return;
        }
        self.half = self.mean_rtt().unwrap_or(self.half);
        self.measuring = true;
        self.arrived = 0;
        self.half_end = now + self.half;
    }

    /// ICTCP section 4.2: T = sum of w_i RTT_i, w_i the share of connection i in the traffic of the slot.
    fn mean_rtt(&mut self) -> Option<Dur> {
        let (mut seconds, mut bytes) = (0.0, 0.0);
        for c in self.connections.values_mut() {
            if c.rtt != Dur::MAX {
                seconds += c.rtt.as_secs() * c.in_slot as f64;
                bytes += c.in_slot as f64;
            }
            c.in_slot = 0;
        }
        (bytes > 0.0).then(|| Dur::from_secs(seconds / bytes))
    }

    /// ICTCP section 4.4: when bandwidth is scarce, connections above the mean window give one segment back.
    fn shrink_above_mean(&mut self) {
        let active = || self.connections.values().filter(|c| c.in_slot > 0);
        let n = active().count() as u64;
        if n == 0 {
            return;
        }
        let mean = active().map(|c| c.window).sum::<u64>() / n;
        let (mss, least) = (self.mss, MIN_WINDOW * self.mss);
        for c in self.connections.values_mut().filter(|c| c.in_slot > 0 && c.window > mean) {
            c.window = (c.window - mss).max(least);
        }
    }

    /// One control step of a connection, once per RTT (ICTCP section 4.3).
    fn adjust(&mut self, now: Time, connection: u32) {
        let Some(c) = self.connections.get_mut(&connection) else { return };
        let (mss, window, rtt) = (self.mss as f64, c.window as f64, c.rtt.as_secs());
        let sample = c.received as f64 / (now - c.since).as_secs();
        c.received = 0;
        c.since = now;
        // b_m = max(b_s, beta b_m + (1 - beta) b_s)
        c.measured = sample.max(self.gains.beta * c.measured + (1.0 - self.gains.beta) * sample);
        // b_e = max(b_m, rwnd / RTT), d_b = (b_e - b_m) / b_e
        let expected = c.measured.max(window / rtt);
        let difference = (expected - c.measured) / expected;
        if difference <= self.gains.gamma1 || difference <= mss / window {
            c.far_below = 0;
            if self.measuring || now.since(c.grown) <= c.rtt * 2 {
                return;
            }
            let step = if c.slow_start { c.window } else { self.mss };
            if step as f64 / rtt <= self.quota {
                c.window += step;
                self.quota -= step as f64 / rtt;
                c.grown = now;
            } else {
                c.slow_start = false;
            }
            return;
        }
        c.slow_start = false;
        if difference <= self.gains.gamma2 {
            c.far_below = 0;
            return;
        }
        c.far_below += 1;
        if c.far_below == PATIENCE {
            c.far_below = 0;
            c.window = (c.window - self.mss).max(MIN_WINDOW * self.mss);
        }
    }
}

impl ReceiveController for Ictcp {
    fn on_data(&mut self, now: Time, connection: u32, packet: &Packet) {
        self.tick(now);
        self.arrived += u64::from(packet.wire_len) + self.framing;
        let first_window = MIN_WINDOW * self.mss;
        let c = self.connections.entry(connection).or_insert_with(|| Connection::new(now, first_window));
        c.received += packet.payload as u64;
        c.in_slot += packet.payload as u64;
        let end = packet.seq + packet.payload as u64;
        if c.edge_set != Time::NEVER && end >= c.edge {
            c.rtt = c.rtt.min(now - c.edge_set);
            c.edge_set = Time::NEVER;
        }
        // Only an ACK that moves the right edge is answered by data. After a window has shrunk the sender may
        // still use up what it was allowed before, and that arrives without delay.
        if end + c.window > c.advertised {
            c.advertised = end + c.window;
            if c.edge_set == Time::NEVER {
                (c.edge, c.edge_set) = (c.advertised, now);
            }
        }
        if c.rtt != Dur::MAX && now - c.since >= c.rtt {
            self.adjust(now, connection);
        }
    }
    fn window_cap(&self, connection: u32) -> u64 {
        self.connections.get(&connection).map_or(MIN_WINDOW * self.mss, |c| c.window)
    }
    fn on_close(&mut self, _: Time, connection: u32) {
        self.connections.remove(&connection);
    }
    fn connections(&self) -> usize {
        self.connections.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const MSS: u32 = 1000;
    const GAINS: Gains = Gains { alpha: 0.9, beta: 0.75, gamma1: 0.1, gamma2: 0.5, slot: Dur::micros(200) };

    fn segment(seq: u64) -> Packet {
        Packet { seq, payload: MSS, wire_len: MSS + 40, ..Packet::default() }
    }

    const RTT: Dur = Dur::micros(200);

    /// `n` connections fill their windows over a 1 Gb/s link. From an ACK to the data it allows it takes `RTT` plus the
    /// queue of the link. Returns the host after `time`, the time, and the next sequence numbers.
    fn drive(n: usize, time: Dur) -> (Ictcp, Time, Vec<u64>) {
        let mut host = Ictcp::new(GAINS, Rate(1_000_000_000), MSS, 0);
        let (mss, segment_time) = (MSS as u64, Dur::nanos(8320));
        // Arrivals in the order of the link: when, whose, and where the segment begins.
        let mut due: Vec<(Time, usize, u64)> = Vec::new();
        let (mut next, mut free) = (alloc::vec![0u64; n], Time::ZERO);
        let mut send = |due: &mut Vec<_>, next: &mut [u64], i: usize, edge: u64, at: Time| {
            while next[i] + mss <= edge {
                free = free.max(at) + segment_time;
                due.push((free, i, next[i]));
                next[i] += mss;
            }
        };
        for i in 0..n {
            send(&mut due, &mut next, i, host.window_cap(i as u32), Time::ZERO + Dur::micros(10) * i as u64);
        }
        let mut k = 0;
        while due[k].0 < Time::ZERO + time {
            let (at, i, seq) = due[k];
            host.on_data(at, i as u32, &segment(seq));
            let edge = seq + mss + host.window_cap(i as u32);
            send(&mut due, &mut next, i, edge, at + RTT);
            k += 1;
        }
        (host, due[k].0, next)
    }
    fn windows(n: usize, time: Dur) -> Vec<u64> {
        let (host, ..) = drive(n, time);
        (0..n).map(|i| host.window_cap(i as u32)).collect()
    }

    #[test]
    fn one_connection_grows_to_about_the_bandwidth_delay_product_and_stops() {
        // 0.9 Gb/s for 200 us is 22.5 kB.
        let [window] = windows(1, Dur::millis(100))[..] else { panic!() };
        assert!((15_000..=30_000).contains(&window), "{window}");
    }

    #[test]
    fn many_connections_together_stay_near_the_link_and_above_their_floor() {
        let w = windows(8, Dur::millis(100));
        assert!(w.iter().sum::<u64>() <= 30_000, "{w:?}");
        assert!(w.iter().all(|&w| w >= 2000), "{w:?}");
    }

    #[test]
    fn the_round_trip_time_is_never_below_the_path_however_windows_move() {
        for n in [1, 2, 4, 5, 8] {
            let (host, ..) = drive(n, Dur::millis(100));
            assert!(host.connections.values().all(|c| c.rtt >= RTT && c.rtt < RTT * 2), "{n}");
        }
        // The window shrinks to two segments when four more are allowed already.
        let mut host = Ictcp::new(GAINS, Rate(1_000_000_000), MSS, 0);
        host.connections.insert(0, Connection::new(Time::ZERO, 4000));
        let mut seq = 0;
        // The first two ACKs of the second round open nothing.
        let late = Dur::nanos(2 * 8320);
        for (round, burst, after) in [(1, 4, Dur::ZERO), (2, 4, Dur::ZERO), (3, 2, late), (4, 2, late)] {
            let mut at = Time::ZERO + RTT * round + after;
            for _ in 0..burst {
                host.on_data(at, 0, &segment(seq));
                at = at + Dur::nanos(8320);
                seq += MSS as u64;
            }
            host.connections.get_mut(&0).unwrap().window = 2000;
        }
        assert!(host.connections[&0].rtt >= RTT, "{:?}", host.connections[&0].rtt);
    }

    #[test]
    fn connections_that_are_over_are_forgotten() {
        let mut host = Ictcp::new(GAINS, Rate(1_000_000_000), MSS, 0);
        for i in 0..10_000u32 {
            let now = Time::ZERO + Dur::micros(20) * u64::from(i);
            host.on_data(now, i, &segment(0));
            if i >= 3 {
                host.on_close(now, i - 3);
            }
            assert!(host.connections.len() <= 4, "{}", host.connections.len());
        }
        assert_eq!(host.window_cap(0), 2000, "as for a connection never heard of");
    }

    #[test]
    fn a_connection_that_does_not_use_its_window_gives_it_back_down_to_two_segments() {
        let (mut host, mut at, next) = drive(1, Dur::millis(100));
        let mut seq = next[0];
        assert!(host.window_cap(0) > 10_000);
        for _ in 0..300 {
            at = at + Dur::millis(1);
            host.on_data(at, 0, &segment(seq));
            seq += MSS as u64;
        }
        assert_eq!(host.window_cap(0), 2000);
    }
}
