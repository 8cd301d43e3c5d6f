//! Telemetry in one byte: each port keeps an average of its own load, and a packet carries the largest of its path, as a logarithm.
//!
//! Source: PINT, Ben Basat et al., SIGCOMM 2020, with HPCC as its example of an aggregate over a path; from memory. The constants are those of the
//! public simulator of HPCC-PINT.
//!
//! A port is looked at when a packet's transmission begins, as with HPCC's telemetry, and costs nothing in a run that does not ask.

use crate::hop::{Hop, MAX_HOPS};
use alloc::vec::Vec;
use penstock_core::Stream;
use penstock_units::{Dur, Rate, Time};

/// Largest load that has a code; its inverse is the smallest. The public simulator's `max_concurrent`.
const MOST: f64 = 512.0;

/// What a run's digests are.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PintConfig {
    /// T: the time over which a port averages.
    pub horizon: Dur,
    /// Ratio of two neighbouring codes' loads.
    pub base: f64,
}

impl PintConfig {
    /// Load that a code stands for.
    pub fn load(&self, code: u8) -> f64 {
        libm::pow(self.base, f64::from(code)) / MOST
    }
    /// The code of a load, rounded up or down with the probabilities that make the load right on the mean; `draw` is uniform on [0, 1).
    /// Loads between two whole multiples of the smallest count as the upper one.
    pub fn code(&self, load: f64, draw: f64) -> u8 {
        let whole = libm::ceil(load * MOST).max(1.0);
        let power = libm::log(whole) / libm::log(self.base);
        let lower = libm::floor(power);
        let (low, high) = (libm::pow(self.base, lower), libm::pow(self.base, lower + 1.0));
        let up = draw < (whole - low) / (high - low);
        (lower + f64::from(u8::from(up))).min(f64::from(u8::MAX)) as u8
    }
}

/// What a port knows of itself.
#[derive(Clone)]
struct Load {
    /// U.
    u: f64,
    at: Time,
    sent: u64,
    /// Rounds its codes.
    rng: Stream,
}

/// The state of all ports of a run.
pub(crate) struct Pint {
    config: PintConfig,
    loads: Vec<Load>,
    /// What the streams of the ports are split from.
    rng: Stream,
}

impl Pint {
    pub fn new(config: PintConfig, rng: Stream) -> Pint {
        Pint { config, loads: Vec::new(), rng }
    }
    /// A port begins to send a packet: its load from now on.
    pub fn measure(&mut self, hop: &Hop) -> f64 {
        let at = hop.port as usize;
        while self.loads.len() <= at {
            let rng = self.rng.split(self.loads.len() as u64);
            self.loads.push(Load { u: 0.0, at: Time::ZERO, sent: 0, rng });
        }
        let load = &mut self.loads[at];
        let t = self.config.horizon.as_secs();
        let bytes_per_s = hop.rate.as_bytes_per_sec();
        // tau: since the packet before, at most T.
        let tau = hop.at.since(load.at).as_secs().min(t);
        let byte = (hop.sent_bytes - load.sent) as f64;
        // U = (T - tau)/T U + qlen tau/(B T^2) + byte/(B T): byte of the packet before, qlen what this one leaves behind.
        let pipe = bytes_per_s * t;
        let u = (t - tau) / t * load.u + f64::from(hop.queue_bytes) / pipe * (tau / t) + byte / pipe;
        (load.u, load.at, load.sent) = (u, hop.at, hop.sent_bytes);
        u
    }
    /// A packet that asks is told the load of `port`, which has been measured: of the codes of all ports on its way the largest goes on.
    pub fn tell(&mut self, port: u32, load: f64, told: &mut [Hop; MAX_HOPS], len: &mut u8) {
        let code = self.config.code(load, self.loads[port as usize].rng.uniform());
        if *len == 0 || digest(&told[..1]).is_some_and(|before| code > before) {
            (told[0], *len) = (digest_hop(code), 1);
        }
    }
}

/// Telemetry that is a digest alone.
const DIGEST: u32 = u32::MAX;

fn digest_hop(code: u8) -> Hop {
    Hop { port: DIGEST, at: Time::ZERO, queue_bytes: u32::from(code), sent_bytes: 0, rate: Rate(0) }
}

/// The code that a packet carries, where its telemetry is one.
pub fn digest(hops: &[Hop]) -> Option<u8> {
    match hops {
        [hop] if hop.port == DIGEST => Some(hop.queue_bytes as u8),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_core::rng::Entity;

    const US: u64 = 1_000_000;
    const CONFIG: PintConfig = PintConfig { horizon: Dur(10 * US), base: 1.05 };

    fn pint() -> Pint {
        Pint::new(CONFIG, Stream::new(1, 0, Entity::Port, 0))
    }
    /// A packet of a port of 100 Gb/s at `us`.
    fn hop(us: u64, queue_bytes: u32, sent_bytes: u64) -> Hop {
        Hop { port: 3, at: Time(us * US), queue_bytes, sent_bytes, rate: Rate(100_000_000_000) }
    }

    #[test]
    fn a_port_averages_its_load_over_the_horizon() {
        let mut pint = pint();
        // Long after the start tau is T: only the queue counts, 25,000 of the pipe's 125,000 bytes.
        assert!((pint.measure(&hop(100, 25_000, 0)) - 0.2).abs() < 1e-12);
        // 2 us later, 12,500 bytes sent: 0.8 x 0.2 + 50,000/125,000 x 0.2 + 12,500/125,000 = 0.16 + 0.08 + 0.1.
        assert!((pint.measure(&hop(102, 50_000, 12_500)) - 0.34).abs() < 1e-12);
        // Another port has its own.
        assert_eq!(pint.measure(&Hop { port: 0, ..hop(102, 0, 0) }), 0.0);
        // A port that sends packets of 1,250 bytes back to back, 0.1 us each, comes to a load of 1.
        let mut pint = self::pint();
        let last =
            (0..1000).map(|i| pint.measure(&Hop { at: Time(i * US / 10), ..hop(0, 0, 1250 * i) })).last();
        let expected = 1.0 - libm::pow(0.99, 999.0);
        assert!((last.unwrap() - expected).abs() < 1e-9, "{last:?} for {expected}");
    }
    #[test]
    fn a_load_has_eight_bits_and_is_right_on_the_mean() {
        // 512 x 512 = 1.05^255.6: the largest load has the last code.
        assert_eq!((CONFIG.code(1e-9, 0.0), CONFIG.code(512.0, 0.0), CONFIG.code(9e9, 0.0)), (0, 255, 255));
        assert_eq!(CONFIG.code(0.0, 0.999), 0, "no load has the code of the smallest");
        // 0.95 x 512 = 486.4, so 487 = 1.05^126.8: between the codes of 467.6 and 491.0, up in (487 - 467.6)/23.4 = 83 % of cases.
        let (low, high) = (CONFIG.load(126) * 512.0, CONFIG.load(127) * 512.0);
        let share = (487.0 - low) / (high - low);
        assert!((share - 0.831).abs() < 0.001, "{share}");
        assert_eq!((CONFIG.code(0.95, share - 0.001), CONFIG.code(0.95, share + 0.001)), (127, 126));
        assert!((share * high + (1.0 - share) * low - 487.0).abs() < 1e-9);
        for code in 0..=255 {
            let back = CONFIG.code(CONFIG.load(code), 0.5);
            // Small loads are whole multiples of 1/512.
            assert!(CONFIG.load(back) >= CONFIG.load(code) * 0.97 && (code < 62 || back.abs_diff(code) <= 1));
        }
    }
    #[test]
    fn the_largest_load_of_the_way_is_told() {
        let mut pint = pint();
        let (mut told, mut len) = ([hop(0, 0, 0); MAX_HOPS], 0);
        assert_eq!(digest(&told[..0]), None);
        for (load, code) in [(0.5, 113), (0.9, 125), (0.2, 125)] {
            pint.measure(&hop(0, 0, 0));
            pint.tell(3, load, &mut told, &mut len);
            let found = digest(&told[..usize::from(len)]).unwrap();
            assert!(found.abs_diff(code) <= 1, "{found} for {code}");
        }
        assert_eq!(digest(&[hop(0, 0, 0)]), None, "HPCC's own telemetry is none");
    }
}
